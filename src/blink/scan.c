/*
 * scan.c
 *	  Index scans: the functions that the executor calls.
 *
 * Scan keys, arrays and their bookkeeping are core's (nbtutils.c): our tuples have nbtree's format,
 * and our operator classes its strategies.  scan_start.c finds where to start, scan_leaves.c reads
 * pages.
 */
#include "blink/scan.h"

#include "access/table.h"
#include "nodes/tidbitmap.h"
#include "utils/memutils.h"

IndexScanDesc
mtp_blink_beginscan(Relation rel, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(rel, nkeys, norderbys);
	MtpBlinkScan *so = palloc(sizeof(MtpBlinkScan));
	BTScanOpaque bt = &so->bt;

	Assert(norderbys == 0);
	memset(bt, 0, offsetof(BTScanOpaqueData, currPos));
	BTScanPosInvalidate(bt->currPos);
	BTScanPosInvalidate(bt->markPos);
	bt->markItemIndex = -1;
	if (nkeys > 0)
		bt->keyData = palloc(nkeys * sizeof(ScanKeyData));

	memset(&so->left, 0, offsetof(MtpBlinkScan, start) - offsetof(MtpBlinkScan, left));
	so->hazard = so->mark_hazard = MTP_NO_HAZARD;
	so->code = mtp_blink_info(rel)->norm;
	so->natts = IndexRelationGetNumberOfAttributes(rel);
	so->context = CurrentMemoryContext;

	scan->xs_itupdesc = RelationGetDescr(rel);
	scan->opaque = so;
	return scan;
}

/*
 * Gives the current position up, with its pin or hazard pointer.  First marks the items found dead
 * there.
 */
static void
drop_position(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;

	if (BTScanPosIsValid(bt->currPos))
	{
		if (bt->numKilled > 0)
			mtp_blink_scan_kill(scan);
		BTScanPosUnpinIfPinned(bt->currPos);
		BTScanPosInvalidate(bt->currPos);
	}
	mtp_blink_scan_drop_hazard(&so->hazard);
}

static void
drop_mark(MtpBlinkScan *so)
{
	so->bt.markItemIndex = -1;
	BTScanPosUnpinIfPinned(so->bt.markPos);
	BTScanPosInvalidate(so->bt.markPos);
	mtp_blink_scan_drop_hazard(&so->mark_hazard);
}

void
mtp_blink_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	BTScanOpaque bt = scan->opaque;

	drop_position(scan);
	drop_mark(scan->opaque);

	/* Only now is it known whether the scan is index-only.  A page's tuples fit in a page. */
	if (scan->xs_want_itup && bt->currTuples == NULL)
	{
		bt->currTuples = MemoryContextAlloc(((MtpBlinkScan *) bt)->context, 2 * BLCKSZ);
		bt->markTuples = bt->currTuples + BLCKSZ;
	}
	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	mtp_blink_keys_reset(scan);
}

void
mtp_blink_endscan(IndexScanDesc scan)
{
	BTScanOpaque bt = scan->opaque;

	drop_position(scan);
	drop_mark(scan->opaque);
	if (bt->keyData != NULL)
		pfree(bt->keyData);
	if (bt->arrayContext != NULL)
		MemoryContextDelete(bt->arrayContext);
	if (bt->killedItems != NULL)
		pfree(bt->killedItems);
	if (bt->currTuples != NULL)
		pfree(bt->currTuples);	/* markTuples is its second half */
	mtp_blink_keys_end(scan->opaque);
	pfree(bt);
}

/*
 * A scan that ran off one end has no position.  Told to go back, it starts anew at that end, as
 * scrolling cursors need it.
 */
bool
mtp_blink_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	BTScanPos	pos = &bt->currPos;

	/* Of an index that core takes for unordered, the plan has no direction. */
	if (!ScanDirectionIsBackward(dir))
		dir = ForwardScanDirection;
	scan->xs_recheck = false;

	if (!BTScanPosIsValid(*pos) && !mtp_blink_keys_begin(scan, dir))
		return false;
	do
	{
		bool		found = true;

		if (!BTScanPosIsValid(*pos))
			found = mtp_blink_scan_start(scan, dir);
		else
		{
			/*
			 * The item returned last is dead to everyone.  A scan that turns round may meet an
			 * item again.  What does not fit is forgotten: it is a hint.
			 */
			if (scan->kill_prior_tuple)
			{
				if (bt->killedItems == NULL)
					bt->killedItems = MemoryContextAlloc(so->context, MTP_MAX_ITEMS * sizeof(int));
				if (bt->numKilled < MTP_MAX_ITEMS)
					bt->killedItems[bt->numKilled++] = pos->itemIndex;
			}
			if (ScanDirectionIsForward(dir) ?
				++pos->itemIndex > pos->lastItem : --pos->itemIndex < pos->firstItem)
				found = mtp_blink_scan_step(scan, dir);
		}
		if (found)
		{
			BTScanPosItem *item = &pos->items[pos->itemIndex];

			mtp_tid_check_block(scan->indexRelation, pos->currPage, scan->heapRelation,
								&item->heapTid);
			scan->xs_heaptid = item->heapTid;
			if (scan->xs_want_itup)
				scan->xs_itup = (IndexTuple) (bt->currTuples + item->tupleOffset);
			return true;
		}
	} while (mtp_blink_keys_again(scan, dir));
	return false;
}

int64
mtp_blink_getbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	BTScanOpaque bt = scan->opaque;
	BTScanPos	pos = &bt->currPos;
	Relation	heap;
	int64		total = 0;

	if (!mtp_blink_keys_begin(scan, ForwardScanDirection))
		return 0;

	/* A caller that wants a bitmap has the table open. */
	heap = table_open(scan->indexRelation->rd_index->indrelid, NoLock);
	do
	{
		bool		found = mtp_blink_scan_start(scan, ForwardScanDirection);

		while (found)
		{
			ItemPointerData tids[MTP_MAX_ITEMS];
			int			n = 0;

			for (int i = pos->firstItem; i <= pos->lastItem; i++)
			{
				mtp_tid_check_block(scan->indexRelation, pos->currPage, heap,
									&pos->items[i].heapTid);
				tids[n++] = pos->items[i].heapTid;
			}
			tbm_add_tuples(tbm, tids, n, false);
			total += n;
			found = mtp_blink_scan_step(scan, ForwardScanDirection);
		}
	} while (mtp_blink_keys_again(scan, ForwardScanDirection));
	table_close(heap, NoLock);
	return total;
}

/*
 * A mark begins as a mere item of the current page.  mtp_blink_scan_step copies the position to
 * markPos when the scan leaves that page.
 */
void
mtp_blink_markpos(IndexScanDesc scan)
{
	BTScanOpaque bt = scan->opaque;

	drop_mark(scan->opaque);
	if (BTScanPosIsValid(bt->currPos))
		bt->markItemIndex = bt->currPos.itemIndex;
	mtp_blink_keys_mark(scan);
}

void
mtp_blink_restrpos(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;

	/* The scan is still on the marked page. */
	if (bt->markItemIndex >= 0)
	{
		mtp_blink_keys_restore(scan, true);
		bt->currPos.itemIndex = bt->markItemIndex;
		return;
	}
	drop_position(scan);
	memset(&so->walk, 0, sizeof(so->walk));
	mtp_blink_keys_restore(scan, false);
	if (!BTScanPosIsValid(bt->markPos))
		return;
	mtp_blink_scan_copy(&bt->currPos, bt->currTuples, &bt->markPos, bt->markTuples);
	so->left = so->mark_left;
	so->in_frame = false;
	mtp_blink_scan_share_hazard(so->mark_hazard, &so->hazard);
}

/* Tuples hold their columns as the table has them, INCLUDE columns and `name` too. */
bool
mtp_blink_canreturn(Relation index, int attno)
{
	return true;
}
