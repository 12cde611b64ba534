/*
 * new_page.c
 *	  Finds a page for new content: a deleted one that no backend can reach any more, or a new
 *	  block.
 */
#include "blink/blink.h"

#include "access/xlog.h"
#include "blink/wal_records.h"
#include "storage/indexfsm.h"
#include "utils/snapmgr.h"

/*
 * True if a page may get new content.  A backend that reads a link to a page and follows it holds a
 * snapshot or xid from before the page was deleted.  So the deleted page must stay a signpost until
 * no backend has one that old (invariant B13).  A zero page comes from a backend that extended the
 * relation and then failed.
 */
bool
mtp_blink_recyclable(Page page)
{
	/* A page that says whose it is, and yet looks new, is damaged. */
	if (PageIsNew(page))
		return MtpHeader(page)->page_id != MTP_PAGE_ID;
	return MtpHeader(page)->page_id == MTP_PAGE_ID && MtpIsDeleted(page) &&
		GlobalVisCheckRemovableFullXid(NULL, MtpBlinkDeletedOf(page)->safexid);
}

/*
 * The free space map only proposes: a page may have been taken since VACUUM listed it.  A wait for
 * the page's lock could be a deadlock, because the caller, or a backend that waits for the caller,
 * may hold the lock.  The holder uses the page anyway.
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
			{
				MtpWalReuse rec;

				/*
				 * The primary's horizon does not know of queries on a standby, which may be on
				 * their way to the page: replay of this cancels them before it replays the page's
				 * new content.
				 */
				memset(&rec, 0, sizeof(rec));
				rec.safexid = MtpBlinkDeletedOf(page)->safexid;
				rec.locator = MtpRelLocator(rel);
				rec.block = blkno;
				XLogBeginInsert();
				XLogRegisterData((char *) &rec, sizeof(rec));
				XLogInsert(MTP_RMGR_ID, MTP_WAL_REUSE);
			}
			return buf;
		}
		UnlockReleaseBuffer(buf);
	}
	return mtp_extend_relation(rel);
}
