/*
 * new_page.c
 *	  Finds a page for new content: a deleted one that nobody can reach any more, or a new block.
 */
#include "blink/blink.h"

#include "access/xlog.h"
#include "blink/wal_deletes.h"
#include "storage/indexfsm.h"
#include "utils/snapmgr.h"

/*
 * Whoever reads a link to a page holds, while he follows it, a snapshot or xid that was there
 * before the page was deleted, so the page must stay a signpost until nobody has so old a one.  A zero
 * page is what a backend left that extended the relation and then failed.
 */
bool
mtp_blink_recyclable(Page page)
{
	/* A page that says whose it is, and yet looks new, is a damaged one. */
	if (PageIsNew(page))
		return MtpHead(page)->page_id != MTP_PAGE_ID;
	return MtpHead(page)->page_id == MTP_PAGE_ID && MtpIsDeleted(page) &&
		GlobalVisCheckRemovableFullXid(NULL, MtpBlinkDeletedOf(page)->safexid);
}

/*
 * The reuse changes nothing yet, but queries on a standby, which the primary's horizon does not know
 * of, may be on their way to the page: they are cancelled before its new content is replayed.
 */
static void
log_reuse(Relation rel, Buffer buf)
{
	MtpWalReuse rec;

	memset(&rec, 0, sizeof(rec));
	rec.safexid = MtpBlinkDeletedOf(BufferGetPage(buf))->safexid;
	rec.locator = MtpRelLocator(rel);
	rec.block = BufferGetBlockNumber(buf);

	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	XLogInsert(MTP_RMGR_ID, MTP_WAL_REUSE);
}

/*
 * The free space map only proposes: a page may have been taken since VACUUM listed it.  Waiting for
 * its lock could be a deadlock, because the caller, or someone who waits for the caller, may hold it;
 * whoever holds it uses the page anyway.
 */
Buffer
mtp_blink_alloc(Relation rel)
{
	BlockNumber blkno;

	while ((blkno = GetFreeIndexPage(rel)) != InvalidBlockNumber)
	{
		Buffer		buf = ReadBuffer(rel, blkno);
		Page		page = BufferGetPage(buf);

		if (!ConditionalLockBuffer(buf))
		{
			ReleaseBuffer(buf);
			continue;
		}
		if (mtp_blink_recyclable(page))
		{
			if (!PageIsNew(page) && XLogStandbyInfoActive() && RelationNeedsWAL(rel))
				log_reuse(rel, buf);
			return buf;
		}
		UnlockReleaseBuffer(buf);
	}
	return mtp_extend_relation(rel);
}
