/*
 * mark_dead.c
 *	  Sets dead hints for rows that a scan found dead to everyone.
 */
#include "blink/scan.h"

/*
 * Marks the first `dead` TIDs of a list, which the scan saw as `saved`, if it still begins with
 * these.  Other processes may set the hint at the same time, and the last one wins.
 */
static bool
mark_list(Relation rel, Page page, MtpPos *p, IndexTuple saved, int dead)
{
	IndexTuple	itup = mtp_slot_body(page, p->node, p->slot);
	ItemPointerData was[MTP_LIST_TIDS];
	ItemPointerData is[MTP_LIST_TIDS];
	int			n = mtp_blink_item_tids(rel, page, p->node, p->slot, is);

	if (!mtp_item_is_list(itup) || mtp_list_decode(saved, was) < dead || n < dead ||
		memcmp(was, is, dead * sizeof(ItemPointerData)) != 0)
		return false;
	if (mtp_slot_dead(page, p->node, p->slot) || MtpListHeadOf(itup)->dead >= dead)
		return false;
	if (dead == n)
		mtp_page_set_dead(page, p->node, p->slot);
	else
	{
		MtpListHeadOf(itup)->dead = dead;
		MtpHeader(page)->flags |= MTP_HAS_DEAD;
	}
	return true;
}

/*
 * Finds an item that the scan saw, from its place then to the right, and marks it; dead: of a list,
 * so many TIDs.  Inserts may have moved the item.  If it went another way, some later scan marks
 * it.
 */
static bool
mark_dead(Relation rel, Page page, const BTScanPosItem *item, IndexTuple saved, int dead)
{
	ItemPointerData tid = saved != NULL ? MtpListHeadOf(saved)->first : item->heapTid;
	MtpPos		p;

	if ((item->indexOffset & ~MTP_SAVED_LIST) >= MtpHeader(page)->nitems)
		return false;
	p = mtp_page_locate(page, item->indexOffset & ~MTP_SAVED_LIST);
	do
	{
		IndexTuple	itup = mtp_slot_body(page, p.node, p.slot);

		if (unlikely(!mtp_slot_in_page(page, p.node, p.slot) ||
					 (mtp_item_is_list(itup) ? mtp_list_fault(itup) != NULL :
					  (itup->t_info & INDEX_ALT_TID_MASK) != 0)))
			mtp_blink_fail_page(rel, page, "directory points to something that is not an item");
		if (ItemPointerEquals(BTreeTupleGetHeapTID(itup), &tid))
		{
			if (saved != NULL)
				return mark_list(rel, page, &p, saved, dead);
			if (mtp_item_is_list(itup) || mtp_slot_dead(page, p.node, p.slot))
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
	{
		BTScanPosItem *item = &pos->items[bt->killedItems[i] & 0xFFFF];
		int			dead = bt->killedItems[i] >> 16;
		IndexTuple	saved = dead > 0 ? mtp_blink_scan_tuple(bt, item) : NULL;

		marked |= mark_dead(scan->indexRelation, BufferGetPage(buf), item, saved, dead);
	}
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
