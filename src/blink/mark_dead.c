/*
 * mark_dead.c
 *	  Sets dead hints for rows that a scan found dead to everyone.
 */
#include "blink/scan.h"

/*
 * Finds the item of a TID from where the scan saw it on to the right, and marks it.  It may have moved
 * by inserts, or gone to another page by a split: then some later scan will mark it.
 */
static bool
mark_dead(Relation rel, Page page, const BTScanPosItem *item)
{
	MtpPos		p;

	if (item->indexOffset >= MtpHead(page)->nitems)
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
 * Is the page, which is locked and has no pin since it was read, as it was?  If it was read in a frame, and is there still, it is: who changes
 * a page takes its frame away before he unlocks it.  Otherwise its LSN tells, if its changes are logged.
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
 * The TIDs must still mean the rows that the scan judged.  Under a pin held since the page was read
 * they do, since VACUUM could not pass the page.  Without it, the page must be as it was.
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

	/* A share lock is enough for hints: at worst two scans set the same ones. */
	for (int i = 0; i < n; i++)
		if (mark_dead(scan->indexRelation, BufferGetPage(buf), &pos->items[bt->killedItems[i]]))
			marked = true;
	if (marked)
		MarkBufferDirtyHint(buf, true);

	/*
	 * Those who read the frame would go on without the hints.  It may lack them though they are on
	 * the page already: if it was copied before another scan set them, and was found after that.
	 */
	if (marked || so->in_frame)
		mtp_buffer_stale_hints(buf);

	if (pinned)
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	else
		UnlockReleaseBuffer(buf);
}
