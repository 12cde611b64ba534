/*
 * mark_dead.c
 *	  Sets dead hints for rows that a scan found dead to everyone.
 */
#include "blink/scan.h"

/*
 * Finds the item of a TID, from the place where the scan saw it to the right, and marks it.
 * Inserts may have moved the item.  If a split took it to another page, some later scan marks it.
 */
static bool
mark_dead(Relation rel, Page page, const BTScanPosItem *item)
{
	MtpPos		p;

	if (item->indexOffset >= MtpHeader(page)->nitems)
		return false;
	p = mtp_page_locate(page, item->indexOffset);
	do
	{
		IndexTuple	itup = mtp_blink_tid_item(rel, page, p.node, p.slot);

		if (ItemPointerEquals(&itup->t_tid, (ItemPointer) &item->heapTid))
		{
			if (mtp_slot_dead(page, p.node, p.slot))
				return false;
			mtp_page_set_dead(page, p.node, p.slot);
			return true;
		}
	} while (mtp_pos_next(page, &p));
	return false;
}

/*
 * True if the page, which is locked and has had no pin since it was read, is as it was.  If it was
 * read in a frame that is still there, it is: a backend that changes a page takes the frame away
 * before it unlocks the page.  Otherwise the page's LSN tells, if its changes are logged.
 */
static bool
unchanged(IndexScanDesc scan, Buffer buf)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->in_frame && mtp_frame_still(&mtp_buffer, &so->ref))
		return true;
	return RelationNeedsWAL(scan->indexRelation) && BufferGetLSNAtomic(buf) == so->bt.currPos.lsn;
}

/*
 * The TIDs must still mean the rows that the scan judged (invariant B10).  Under a pin held since
 * the page was read they do, since VACUUM cannot pass the page.  Without it, the page must be as it
 * was.
 */
void
mtp_blink_scan_kill(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	BTScanPos	pos = &bt->currPos;
	int			n = bt->numKilled;
	bool		pinned = BTScanPosIsPinned(*pos);
	bool		marked = false;
	Buffer		buf = pos->buf;

	Assert(BTScanPosIsValid(*pos));
	bt->numKilled = 0;
	if (pinned)
	{
		LockBuffer(buf, BUFFER_LOCK_SHARE);
		mtp_blink_check_page(scan->indexRelation, buf);
	}
	else
	{
		buf = mtp_blink_read(scan->indexRelation, pos->currPage, BUFFER_LOCK_SHARE);
		if (!unchanged(scan, buf))
		{
			UnlockReleaseBuffer(buf);
			return;
		}
	}

	/* A share lock is enough for hints: at worst two scans set the same hints. */
	for (int i = 0; i < n; i++)
		if (mark_dead(scan->indexRelation, BufferGetPage(buf), &pos->items[bt->killedItems[i]]))
			marked = true;
	if (marked)
		MarkBufferDirtyHint(buf, true);

	/*
	 * The frame must go, or its readers would go on without the hints.  It may lack hints that are
	 * on the page already: if it was copied before another scan set them, and was found after
	 * that.
	 */
	if (marked || so->in_frame)
		mtp_buffer_stale(buf, true);

	if (pinned)
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	else
		UnlockReleaseBuffer(buf);
}
