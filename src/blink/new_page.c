/*
 * new_page.c
 *	  Finds a page for new content: a deleted one that no backend can reach any more, or a new
 *	  block.
 */
#include "blink/blink.h"

#include "access/xlog.h"
#include "blink/wal_records.h"
#include "index/vacuum.h"
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
 * The primary's horizon does not know of queries on a standby, which may be on their way to a
 * deleted page.  Replay of MTP_WAL_REUSE cancels them before it replays the page's new content.
 */
Buffer
mtp_blink_alloc(Relation rel)
{
	Buffer		buf = mtp_index_alloc(rel, mtp_blink_recyclable);
	Page		page = BufferGetPage(buf);

	if (!PageIsNew(page) && XLogStandbyInfoActive() && RelationNeedsWAL(rel))
	{
		MtpWalReuse rec;

		memset(&rec, 0, sizeof(rec));
		rec.kind = MTP_WAL_REUSE;
		rec.safexid = MtpBlinkDeletedOf(page)->safexid;
		rec.locator = MtpRelLocator(rel);
		rec.block = BufferGetBlockNumber(buf);
		XLogBeginInsert();
		XLogRegisterData((char *) &rec, sizeof(rec));
		XLogInsert(MTP_RMGR_ID, MTP_WAL_MORE);
	}
	return buf;
}
