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

/* After so many rows without an image the scan looks for no more of them. */
#define MTP_NO_IMAGES	64

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
	so->list.item = so->mark_at = -1;
	so->ahead.missed = mtp_buffer_serves(rel) ? 0 : MTP_NO_IMAGES;
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
		mtp_blink_scan_leave_list(scan);
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
	so->mark_at = -1;
	BTScanPosUnpinIfPinned(so->bt.markPos);
	BTScanPosInvalidate(so->bt.markPos);
	mtp_blink_scan_drop_hazard(&so->mark_hazard);
}

void
mtp_blink_scan_keep_tuples(MtpBlinkScan *so)
{
	so->bt.currTuples = MemoryContextAlloc(so->context, 2 * MTP_SCAN_TUPLES);
	so->bt.markTuples = so->bt.currTuples + MTP_SCAN_TUPLES;
}

void
mtp_blink_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	BTScanOpaque bt = scan->opaque;

	drop_position(scan);
	drop_mark(scan->opaque);

	/* Only now is it known whether the scan is index-only. */
	if (scan->xs_want_itup && bt->currTuples == NULL)
		mtp_blink_scan_keep_tuples(scan->opaque);
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
	if (((MtpBlinkScan *) bt)->list.tids != NULL)
		pfree(((MtpBlinkScan *) bt)->list.tids);
	mtp_blink_keys_end(scan->opaque);
	pfree(bt);
}

/* ---------- items and lists ---------- */

/* Copies a saved list's TIDs, whose last one tells if heap has them all; returns their number. */
static int
decode_list(IndexScanDesc scan, Relation heap, const BTScanPosItem *item, ItemPointerData *tids)
{
	BTScanOpaque bt = scan->opaque;
	int			n = mtp_list_decode(mtp_blink_scan_tuple(bt, item), tids);

	if (unlikely(n == 0))
		mtp_blink_fail_block(scan->indexRelation, bt->currPos.currPage, "list of TIDs is damaged");
	mtp_tid_check_block(scan->indexRelation, bt->currPos.currPage, heap, &tids[n - 1]);
	return n;
}

/* Enters the list that is the current item, whose tuple is returned with each of its TIDs. */
static void
enter_list(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;
	BTScanPosItem *item = &pos->items[pos->itemIndex];
	MtpScanList *list = &so->list;

	if (list->tids == NULL)
		list->tids = MemoryContextAlloc(so->context, MTP_LIST_TIDS * sizeof(ItemPointerData));
	list->n = decode_list(scan, scan->heapRelation, item, list->tids);
	list->item = pos->itemIndex;
	if (scan->xs_want_itup)
		scan->xs_itup = mtp_blink_scan_tuple(&so->bt, item);
	list->dead = MtpListHeadOf(mtp_blink_scan_tuple(&so->bt, item))->dead;
	if (!scan->ignore_killed_tuples || list->dead >= list->n)
		list->dead = 0;
	list->known = list->dead;
}

/* The item returned last is dead to everyone.  What does not fit is forgotten: it is a hint. */
static void
note_dead(MtpBlinkScan *so, int killed)
{
	BTScanOpaque bt = &so->bt;

	if (bt->killedItems == NULL)
		bt->killedItems = MemoryContextAlloc(so->context, MTP_MAX_ITEMS * sizeof(int));
	if (bt->numKilled < MTP_MAX_ITEMS)
		bt->killedItems[bt->numKilled++] = killed;
}

void
mtp_blink_scan_leave_list(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->list.item >= 0 && so->list.dead > so->list.known)
		note_dead(so, so->list.item | so->list.dead << 16);
	so->list.item = -1;
}

/*
 * Goes on to the next entry of the current page; false if there is none.  A scan that turns round
 * may meet an entry again.  Of a list the page remembers that its first TIDs are dead, not which
 * others are: a queue's readers find the former.
 */
static bool
next_entry(IndexScanDesc scan, bool forward)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;
	MtpScanList *list = &so->list;

	if (likely(list->item < 0))
	{
		if (scan->kill_prior_tuple)
			note_dead(so, pos->itemIndex);
	}
	else
	{
		if (scan->kill_prior_tuple && list->at == list->dead)
			list->dead++;
		list->at += forward ? 1 : -1;
		if (list->at < list->n && list->at >= list->known)
			return true;
		mtp_blink_scan_leave_list(scan);
	}
	return forward ? ++pos->itemIndex <= pos->lastItem : --pos->itemIndex >= pos->firstItem;
}

/* The TID that a forward scan returns so many entries further on, if this page's items tell. */
static inline const ItemPointerData *
tid_ahead(const MtpBlinkScan *so, int entries)
{
	const MtpScanList *list = &so->list;
	const BTScanPosData *pos = &so->bt.currPos;
	int			item = pos->itemIndex + entries;

	if (list->item >= 0)
	{
		if (list->at + entries < list->n)
			return &list->tids[list->at + entries];
		item -= list->n - 1 - list->at;
	}
	if (item > pos->lastItem || (pos->items[item].indexOffset & MTP_SAVED_LIST) != 0)
		return NULL;
	return &pos->items[item].heapTid;
}

/* A row is about to be fetched: brings near those that follow, unless few have images. */
static inline void
look_ahead(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	MtpScanAhead *ahead = &so->ahead;
	const ItemPointerData *tid = tid_ahead(so, MTP_ROWS_AHEAD);
	uint32		n = ahead->n++;
	MtpRowAhead *row = &ahead->rows[n % MTP_ROWS_AHEAD];

	if (tid != NULL)
	{
		*row = ahead->rows[(n - 1) % MTP_ROWS_AHEAD];
		mtp_pair_prefetch(scan->heapRelation, tid, row);
		ahead->missed = row->page != NULL ? 0 : ahead->missed + 1;
	}

	/* By now the line pointer of a row half as far ahead is near. */
	mtp_pair_prefetch_row(&ahead->rows[(n + MTP_ROWS_AHEAD / 2) % MTP_ROWS_AHEAD]);
}

/* True if rows ahead may have images. */
static inline bool
looks_ahead(IndexScanDesc scan)
{
	return !scan->xs_want_itup && ((MtpBlinkScan *) scan->opaque)->ahead.missed < MTP_NO_IMAGES;
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
	MtpScanList *list = &so->list;

	/* Most entries of a list have nothing to do but to follow the one before. */
	if (list->item >= 0 && dir == ForwardScanDirection && !scan->kill_prior_tuple &&
		list->at + 1 < list->n)
	{
		scan->xs_heaptid = list->tids[++list->at];
		if (looks_ahead(scan))
			look_ahead(scan);
		return true;
	}

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
		else if (!next_entry(scan, ScanDirectionIsForward(dir)))
			found = mtp_blink_scan_step(scan, dir);
		if (found)
		{
			BTScanPosItem *item = &pos->items[pos->itemIndex];

			if (unlikely(item->indexOffset & MTP_SAVED_LIST))
			{
				if (list->item < 0)
				{
					enter_list(scan);
					list->at = ScanDirectionIsForward(dir) ? list->known : list->n - 1;
				}
				scan->xs_heaptid = list->tids[list->at];
			}
			else
			{
				scan->xs_heaptid = item->heapTid;
				mtp_tid_check_block(scan->indexRelation, pos->currPage, scan->heapRelation,
									&scan->xs_heaptid);
				if (scan->xs_want_itup)
					scan->xs_itup = mtp_blink_scan_tuple(bt, item);
			}
			if (looks_ahead(scan) && ScanDirectionIsForward(dir) &&
				(list->item >= 0 || pos->itemIndex < pos->lastItem))
				look_ahead(scan);
			return true;
		}
	} while (mtp_blink_keys_again(scan, dir));
	return false;
}

/* Adds what the scan has of the current page to a bitmap; returns how many entries. */
static int
add_to_bitmap(IndexScanDesc scan, Relation heap, TIDBitmap *tbm)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;
	ItemPointerData tids[MTP_MAX_ITEMS + MTP_LIST_TIDS];
	int			total = 0;
	int			n = 0;

	for (int i = pos->firstItem; i <= pos->lastItem; i++)
	{
		BTScanPosItem *item = &pos->items[i];

		if (item->indexOffset & MTP_SAVED_LIST)
			n += decode_list(scan, heap, item, tids + n);
		else
		{
			tids[n] = item->heapTid;
			mtp_tid_check_block(scan->indexRelation, pos->currPage, heap, &tids[n++]);
		}
		if (n >= MTP_MAX_ITEMS || i == pos->lastItem)
		{
			tbm_add_tuples(tbm, tids, n, false);
			total += n;
			n = 0;
		}
	}
	return total;
}

int64
mtp_blink_getbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
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
			total += add_to_bitmap(scan, heap, tbm);
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
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;

	drop_mark(so);
	if (BTScanPosIsValid(bt->currPos))
	{
		bt->markItemIndex = bt->currPos.itemIndex;
		so->mark_at = so->list.item >= 0 ? so->list.at : -1;
	}
	mtp_blink_keys_mark(scan);
}

/* Back at the mark: if that is in a list, at its TID. */
static void
enter_marked_list(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->mark_at < 0)
		return;
	enter_list(scan);
	so->list.at = so->mark_at;
}

void
mtp_blink_restrpos(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;

	/* The scan is still on the marked page. */
	if (bt->markItemIndex >= 0)
	{
		mtp_blink_scan_leave_list(scan);
		mtp_blink_keys_restore(scan, true);
		bt->currPos.itemIndex = bt->markItemIndex;
		enter_marked_list(scan);
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
	enter_marked_list(scan);
}

/* Tuples hold their columns as the table has them, INCLUDE columns and `name` too. */
bool
mtp_blink_canreturn(Relation index, int attno)
{
	return true;
}
