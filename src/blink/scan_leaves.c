/*
 * scan_leaves.c
 *	  Reads leaves for a scan, and walks from leaf to leaf in both directions.
 *
 * Going right needs the right link of the time when the page was read: what a later split moved
 * right has been seen already.  Going left needs the page whose right link leads to where the scan
 * stands, whatever was split or deleted since; see left_neighbour.
 *
 * In a parallel scan a process takes a turn before it goes to a page (parallel.c), and whether a page
 * follows is told to the others while this one is locked.
 */
#include "blink/scan.h"

#include "access/tupmacs.h"
#include "miscadmin.h"
#include "core/inject.h"

/* Having found so many matches in a row, look whether the page's last item matches as well. */
#define SURE_AFTER 4

/*
 * Does an item match?  *more is cleared if it does not, and nothing beyond it in the scan's direction
 * does either.
 */
static inline bool
matches(IndexScanDesc scan, IndexTuple itup, ScanDirection dir, bool *more)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->equal)
	{
		bool		null = IndexTupleHasNulls(itup) &&
		att_isnull(0, (bits8 *) ((char *) itup + sizeof(IndexTupleData)));

		if (!null && so->start.norm ==
			mtp_norm_fixed(so->code, (char *) itup + IndexInfoFindDataOffset(itup->t_info)))
			return true;
		*more = false;
		return false;
	}
	return _bt_checkkeys(scan, itup, so->natts, dir, more);
}

static inline void
save_item(IndexScanDesc scan, MtpPageReader *v, int index, IndexTuple itup, int pos)
{
	BTScanOpaque bt = scan->opaque;
	BTScanPosItem *item = &bt->currPos.items[index];

	item->heapTid = itup->t_tid;
	item->indexOffset = pos;
	if (bt->currTuples != NULL)
	{
		Size		size = IndexTupleSize(itup);

		if (unlikely(bt->currPos.nextTupleOffset + MAXALIGN(size) > BLCKSZ))
		{
			/* Who reads the page itself says so. */
			if (!BufferIsValid(v->buf))
			{
				v->torn = true;
				return;
			}
			mtp_blink_fail_page(scan->indexRelation, v->page, "directory points to some item more than once");
		}
		item->tupleOffset = bt->currPos.nextTupleOffset;
		memcpy(bt->currTuples + item->tupleOffset, itup, size);
		bt->currPos.nextTupleOffset += MAXALIGN(size);
	}
}

/*
 * Having seen a match, is the item at the page's other end one too?  Then so is all in between, since
 * the matches are a range.
 */
static bool
all_match(IndexScanDesc scan, MtpPageReader *v, int pos, ScanDirection dir)
{
	MtpPos		p = mtp_blink_reader_locate(v, pos);
	IndexTuple	itup = mtp_blink_reader_item(v, p.node, p.slot);
	bool		more = true;

	return itup != NULL && matches(scan, itup, dir, &more);
}

/*
 * Saves the item at an offset as save_item does, where a glance tells that it is good: it lies behind low, and its columns have a fixed length or only its TID
 * matters.  Its head is read once, and of a frame the version is looked at when the leaf has been read.  False if it takes a closer look.
 */
static inline bool
save_plain(BTScanPos pos, char *tuples, const MtpBlinkInfo *info, const char *page, unsigned low, int index, unsigned off, int rank)
{
	BTScanPosItem *item = &pos->items[index];
	IndexTupleData head;
	uint64		word;
	Size		size;

	StaticAssertStmt(sizeof(word) == sizeof(head) && MAXIMUM_ALIGNOF == sizeof(word), "a tuple's head is a word");
	if (off < low || off > BLCKSZ - sizeof(head))
		return false;
	word = *(const volatile uint64 *) (page + off);
	memcpy(&head, &word, sizeof(head));
	size = head.t_info & INDEX_SIZE_MASK;
	if (size < sizeof(head) || size > BLCKSZ - off || (head.t_info & INDEX_ALT_TID_MASK) != 0 || !mtp_tid_possible(&head.t_tid))
		return false;
	if (tuples != NULL)
	{
		int			at = pos->nextTupleOffset;

		if (info->fixed == 0 || (head.t_info & INDEX_NULL_MASK) != 0 || size < info->fixed || at + MAXALIGN(size) > BLCKSZ)
			return false;
		memcpy(tuples + at, &word, sizeof(word));
		for (Size i = sizeof(word); i < size; i += sizeof(word))
		{
			word = *(const volatile uint64 *) (page + off + i);
			memcpy(tuples + at + i, &word, sizeof(word));
		}
		item->tupleOffset = at;
		pos->nextTupleOffset = at + MAXALIGN(size);
	}
	item->heapTid = head.t_tid;
	item->indexOffset = rank;
	return true;
}

/* Saves all items from p on as number n and up; returns the next number. */
static int
save_rest(IndexScanDesc scan, MtpPageReader *v, MtpPos p, int n)
{
	BTScanOpaque bt = scan->opaque;
	const MtpBlinkInfo *info = mtp_blink_info(scan->indexRelation);
	bool		locked = BufferIsValid(v->buf);
	bool		whole = bt->currTuples != NULL;
	unsigned	low = locked ? ((PageHeader) v->page)->pd_upper : 0;
	int			nnodes = v->head.nnodes;
	int			first = p.pos - p.slot; /* the rank of the node's first item */

	for (; p.node < nnodes; p.node++, p.slot = 0)
	{
		const MtpNode *node = &v->nodes[p.node];
		int			count = Min(v->counts[p.node], MTP_NODE_SLOTS);
		uint32		left = scan->ignore_killed_tuples ? mtp_node_live(node, count) : (1u << count) - 1;

		for (left &= ~0u << Min(p.slot, MTP_NODE_SLOTS); left != 0; left &= left - 1)
		{
			IndexTuple	itup;
			unsigned	off;

			p.slot = pg_rightmost_one_pos32(left);
			off = *(volatile const uint16 *) &node->offs[p.slot] & ~MTP_SLOT_FLAGS;
			if (!locked && n >= MTP_MAX_ITEMS)
			{
				v->torn = true;
				return n;
			}
			if (save_plain(&bt->currPos, bt->currTuples, info, v->page, low, n, off, first + p.slot))
			{
				n++;
				if (!locked)
				{
					MTP_INJECT(whole ? "frame_item_copied" : "frame_tid_read");
				}
				continue;
			}
			itup = whole ? mtp_blink_reader_item(v, p.node, p.slot) : mtp_blink_reader_tid(v, p.node, p.slot);
			if (itup == NULL)
				return n;
			save_item(scan, v, n++, itup, first + p.slot);
		}
		first += count;
	}
	return n;
}

/* Saves what matches from p to the end of the page. */
static void
read_forward(IndexScanDesc scan, MtpPageReader *v, MtpPos p)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	bool		sure = bt->numberOfKeys == 0;
	bool		more = true;
	int			run = 0;
	int			n = 0;

	for (; p.pos < v->head.nitems && p.node < v->head.nnodes && !sure; mtp_blink_reader_next(v, &p))
	{
		IndexTuple	itup;

		if (v->torn)
			return;
		if (scan->ignore_killed_tuples && mtp_blink_reader_dead(v, p.node, p.slot))
		{
			mtp_blink_reader_skip_dead(v, &p);
			if (p.node >= v->head.nnodes)
				break;
		}
		itup = mtp_blink_reader_item(v, p.node, p.slot);
		if (itup == NULL)
			return;
		if (matches(scan, itup, ForwardScanDirection, &more))
		{
			save_item(scan, v, n++, itup, p.pos);
			if (++run == SURE_AFTER && so->convex)
				sure = all_match(scan, v, v->head.nitems - 1, ForwardScanDirection);
		}
		else if (more)
			run = 0;
		else
			break;
	}
	if (sure)
		n = save_rest(scan, v, p, n);

	/* The high key may tell that the pages to the right have no match. */
	if (more && v->head.right != InvalidBlockNumber && bt->numberOfKeys > 0)
	{
		IndexTuple	high = mtp_blink_reader_high(v);

		if (high == NULL)
			return;
		_bt_checkkeys(scan, high, BTreeTupleGetNAtts(high, scan->indexRelation),
					  ForwardScanDirection, &more);
	}
	if (!more)
		bt->currPos.moreRight = false;
	bt->currPos.firstItem = 0;
	bt->currPos.lastItem = n - 1;
	bt->currPos.itemIndex = 0;
}

/* Saves what matches before p, from the array's end down. */
static void
read_backward(IndexScanDesc scan, MtpPageReader *v, MtpPos p)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	bool		sure = bt->numberOfKeys == 0;
	bool		more = true;
	int			run = 0;
	int			n = MTP_MAX_ITEMS;

	while (mtp_blink_reader_prev(v, &p))
	{
		IndexTuple	itup;
		bool		dead;

		if (v->torn)
			return;
		dead = scan->ignore_killed_tuples && mtp_blink_reader_dead(v, p.node, p.slot);

		/* The page's first item is looked at for what it says about the pages to the left. */
		if (dead && (p.pos > 0 || sure))
			continue;
		itup = mtp_blink_reader_item(v, p.node, p.slot);
		if (itup == NULL)
			return;
		if (!sure && !matches(scan, itup, BackwardScanDirection, &more))
		{
			if (!more)
				break;
			run = 0;
			continue;
		}
		if (!dead)
			save_item(scan, v, --n, itup, p.pos);
		if (!sure && ++run == SURE_AFTER && so->convex)
			sure = all_match(scan, v, 0, BackwardScanDirection);	/* itup is gone then */
	}

	if (!more)
		bt->currPos.moreLeft = false;
	bt->currPos.firstItem = n;
	bt->currPos.lastItem = MTP_MAX_ITEMS - 1;
	bt->currPos.itemIndex = MTP_MAX_ITEMS - 1;
}

bool
mtp_blink_scan_announce(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;

	if (!so->framed)
		return false;
	if (!scan->xs_want_itup)
		return true;

	/* What the mark has is still held by its share. */
	if (so->slot != MTP_NO_SLOT && mtp_hazard_shared(so->slot))
		mtp_blink_scan_drop_slot(&so->slot);
	if (so->slot == MTP_NO_SLOT)
		so->slot = mtp_hazard_take(scan->indexRelation);
	if (so->slot == MTP_NO_SLOT)
		return false;
	mtp_hazard_announce(so->slot);
	return true;
}

/*
 * Pages to the right of the leaf where the scan began that are worth a frame, at the most: what reads more is no probe.  Leaves whose items are all marked dead don't count: what
 * reads them may be looking for the end of a queue, and will come by again.
 */
#define PUBLISH_LEAVES 8

/*
 * Loads currPos from a leaf; true if it got an item.  If the leaf's view is torn afterwards, nothing has happened.
 *
 * Old snapshots are looked for on leaves alone: pruning that such a snapshot may miss took an item
 * from a leaf that the scan reads, or the whole leaf, and then its right sibling's left link changed,
 * which the scan reads instead.
 */
static bool
load(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;
	bool		more_left = pos->moreLeft;
	bool		more_right = pos->moreRight;
	XLogRecPtr	lsn = BufferIsValid(v->buf) ? BufferGetLSNAtomic(v->buf) : PageGetLSN(v->page);

	if (!mtp_blink_reader_good(v))
		return false;
	MtpTestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, v->page);
	pos->buf = v->buf;
	pos->currPage = v->block;
	pos->lsn = lsn;
	pos->nextPage = v->head.right;
	pos->nextTupleOffset = 0;
	so->left = v->head.left;

	/* The others need not wait for the items to be read. */
	if (scan->parallel_scan != NULL)
		mtp_blink_scan_pass_turn(scan, dir);

	if (ScanDirectionIsForward(dir))
		read_forward(scan, v, from);
	else
		read_backward(scan, v, from);
	if (!mtp_blink_reader_good(v))
	{
		pos->moreLeft = more_left;
		pos->moreRight = more_right;
		BTScanPosInvalidate(*pos);
		return false;
	}
	so->in_frame = !BufferIsValid(v->buf);
	if (so->in_frame)
		so->ref = v->ref;
	else
		mtp_blink_scan_drop_slot(&so->slot);	/* the page is pinned, or needs neither */

	/* Only where links are damaged does a scan come to a leaf twice, unless it turns round. */
	if (so->walk_dir != dir)
		so->walk = (MtpWalk)
	{
		0
	};
	so->walk_dir = dir;
	mtp_blink_check_walk(scan->indexRelation, &so->walk, v->block);
	if (so->framed && !so->in_frame && (so->nleaves < PUBLISH_LEAVES || v->head.ndead >= v->head.nitems))
		mtp_buffer_publish(scan->indexRelation, v->buf);
	so->nleaves++;
	return pos->firstItem <= pos->lastItem;
}

/* Leaves the leaf that has just been loaded, and had no match. */
static inline void
pass_by(IndexScanDesc scan, MtpPageReader *v)
{
	mtp_blink_reader_release(v);
	((BTScanOpaque) scan->opaque)->currPos.buf = InvalidBuffer;
	if (((MtpBlinkScan *) scan->opaque)->framed)
		mtp_buffer_consider(MTP_FRAME_INDEX);
}

/*
 * Unlocks the leaf that has just been loaded.  Its pin keeps VACUUM from passing it, and so TIDs that
 * the scan has read from being used anew.  Without it that can happen: harmless if the row is fetched
 * and judged by an MVCC snapshot, and if later changes of the page show in its LSN, which killed.c asks.
 */
static inline void
settle(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;

	if (so->in_frame)
		return;
	if (IsMVCCSnapshot(scan->xs_snapshot) && RelationNeedsWAL(scan->indexRelation) &&
		!scan->xs_want_itup)
	{
		UnlockReleaseBuffer(pos->buf);
		pos->buf = InvalidBuffer;
	}
	else
		LockBuffer(pos->buf, BUFFER_LOCK_UNLOCK);
	if (so->framed)
		mtp_buffer_consider(MTP_FRAME_INDEX);
}

/* The page `blkno`, locked, or what has taken its place to the right; InvalidBuffer if there is none. */
static Buffer
live_page(Relation rel, BlockNumber blkno)
{
	MtpWalk		walk = {0};

	while (blkno != InvalidBlockNumber)
	{
		Buffer		buf = mtp_blink_read_link(rel, blkno, 0, BUFFER_LOCK_SHARE);

		mtp_blink_check_walk(rel, &walk, blkno);

		if (!MtpIsDeleted(BufferGetPage(buf)))
			return buf;
		blkno = MtpHead(BufferGetPage(buf))->right;
		UnlockReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
	}
	return InvalidBuffer;
}

/* Loads leaf `next`, or what has taken its place to the right; false if there is none.  *found: it has a match. */
static bool
load_right(IndexScanDesc scan, BlockNumber next, MtpPageReader *v, bool *found)
{
	MtpPos		first = {0, 0, 0};
	Buffer		buf;

	if (mtp_blink_scan_announce(scan) && mtp_blink_reader_frame(v, scan->indexRelation, next, 0))
	{
		*found = load(scan, ForwardScanDirection, v, first);
		if (!v->torn)
			return true;
	}
	buf = live_page(scan->indexRelation, next);
	if (!BufferIsValid(buf))
		return false;
	mtp_blink_reader_page(v, scan->indexRelation, buf);
	*found = load(scan, ForwardScanDirection, v, first);
	return true;
}

/* The scan has come to its end in this direction. */
static void
lose_position(IndexScanDesc scan)
{
	MtpBlinkScan *so = scan->opaque;

	BTScanPosInvalidate(so->bt.currPos);
	mtp_blink_scan_drop_slot(&so->slot);
}

/* Reads pages to the right, from `next` on. */
static bool
walk_right(IndexScanDesc scan, BlockNumber next)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;
	MtpPageReader v;
	bool		found;

	do
	{
		if (!load_right(scan, next, &v, &found))
		{
			_bt_parallel_done(scan);
			break;
		}
		if (found)
		{
			settle(scan);
			return true;
		}
		pass_by(scan, &v);
		next = pos->nextPage;
	} while (mtp_blink_scan_take_turn(scan, ForwardScanDirection, &next));
	lose_position(scan);
	return false;
}

/*
 * The left link, of now, of page *origin.  If that was deleted, the next live page on its right has
 * the left end that it had, and becomes *origin.
 */
static BlockNumber
left_link(Relation rel, BlockNumber *origin)
{
	Buffer		buf = live_page(rel, *origin);
	BlockNumber left;

	if (!BufferIsValid(buf))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("fell off the end of index \"%s\" at block %u", RelationGetRelationName(rel), *origin),
				 errhint("Please REINDEX it.")));
	*origin = BufferGetBlockNumber(buf);
	left = MtpHead(BufferGetPage(buf))->left;
	UnlockReleaseBuffer(buf);
	return left;
}

/*
 * The leaf left of page `origin`, locked; InvalidBuffer if there is none.  `left` was once origin's
 * left link.
 *
 * That page may have been split since: then the right one is a few right links further.  Or it has
 * been deleted, or origin has: left_link tells.  No page can have been reused, because the scan's
 * snapshot is older than its deletion.
 */
static Buffer
left_neighbour(Relation rel, BlockNumber origin, BlockNumber left)
{
	for (int tries = 0; left != InvalidBlockNumber; tries++)
	{
		BlockNumber blkno = left;
		Buffer		buf;
		Page		page;

		for (int hops = 0; hops <= MTP_BLINK_MAX_K; hops++)
		{
			BlockNumber right;

			CHECK_FOR_INTERRUPTS();
			buf = mtp_blink_read_link(rel, blkno, 0, BUFFER_LOCK_SHARE);
			page = BufferGetPage(buf);
			right = MtpHead(page)->right;
			if (right == origin && !MtpIsDeleted(page))
				return buf;
			UnlockReleaseBuffer(buf);
			if (right == origin || right == InvalidBlockNumber)
				break;
			blkno = right;
		}

		/* Every change of the neighbourhood changes the left link, so this can't go on for long. */
		if (tries >= 1000)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("could not find left sibling of block %u in index \"%s\"",
							origin, RelationGetRelationName(rel)),
					 errhint("Please REINDEX it.")));

		left = left_link(rel, &origin);
	}
	return InvalidBuffer;
}

/* Reads the pages left of `origin`. */
static bool
walk_left(IndexScanDesc scan, BlockNumber origin)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;

	do
	{
		BlockNumber left = so->left;
		MtpPageReader v;
		Buffer		buf;

		/* It may be another process that has read origin. */
		if (scan->parallel_scan != NULL)
			left = left_link(scan->indexRelation, &origin);
		buf = left_neighbour(scan->indexRelation, origin, left);
		if (!BufferIsValid(buf))
		{
			_bt_parallel_done(scan);
			break;
		}
		mtp_blink_reader_page(&v, scan->indexRelation, buf);
		if (load(scan, BackwardScanDirection, &v, mtp_blink_reader_locate(&v, v.head.nitems)))
		{
			settle(scan);
			return true;
		}
		pass_by(scan, &v);
		origin = pos->currPage;
	} while (mtp_blink_scan_take_turn(scan, BackwardScanDirection, &origin));
	lose_position(scan);
	return false;
}

bool
mtp_blink_scan_walk(IndexScanDesc scan, ScanDirection dir, BlockNumber from)
{
	return ScanDirectionIsForward(dir) ? walk_right(scan, from) : walk_left(scan, from);
}

/* Goes on from the current position, which is neither pinned nor locked. */
static bool
go_on(IndexScanDesc scan, ScanDirection dir)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;
	BlockNumber from = ScanDirectionIsForward(dir) ? pos->nextPage : pos->currPage;

	if (mtp_blink_scan_take_turn(scan, dir, &from))
		return mtp_blink_scan_walk(scan, dir, from);
	lose_position(scan);
	return false;
}

bool
mtp_blink_scan_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	if (load(scan, dir, v, from))
	{
		settle(scan);
		return true;
	}
	if (v->torn)
		return false;
	pass_by(scan, v);
	return go_on(scan, dir);
}

void
mtp_blink_scan_copy(BTScanPos to, char *to_tuples, const BTScanPosData *from,
					const char *from_tuples)
{
	memcpy(to, from, offsetof(BTScanPosData, items));
	if (from->firstItem <= from->lastItem)
		memcpy(&to->items[from->firstItem], &from->items[from->firstItem],
			   (from->lastItem - from->firstItem + 1) * sizeof(BTScanPosItem));
	if (to_tuples != NULL)
		memcpy(to_tuples, from_tuples, from->nextTupleOffset);
}

bool
mtp_blink_scan_step(IndexScanDesc scan, ScanDirection dir)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;

	if (bt->numKilled > 0)
		mtp_blink_scan_kill(scan);

	/* A mark on this page needs a copy of its own now, and a pin if the page is pinned. */
	if (bt->markItemIndex >= 0)
	{
		if (BTScanPosIsPinned(bt->currPos))
			IncrBufferRefCount(bt->currPos.buf);
		mtp_blink_scan_copy(&bt->markPos, bt->markTuples, &bt->currPos, bt->currTuples);
		bt->markPos.itemIndex = bt->markItemIndex;
		so->mark_left = so->left;
		mtp_blink_scan_drop_slot(&so->mark_slot);
		mtp_blink_scan_share_slot(so->slot, &so->mark_slot);
		bt->markItemIndex = -1;
	}
	BTScanPosUnpinIfPinned(bt->currPos);

	/* This page had matches, so the scan may find some beyond it when it turns round. */
	if (ScanDirectionIsForward(dir))
		bt->currPos.moreLeft = true;
	else
		bt->currPos.moreRight = true;
	return go_on(scan, dir);
}
