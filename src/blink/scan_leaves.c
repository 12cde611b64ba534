/*
 * scan_leaves.c
 *	  Reads leaves for a scan, and walks from leaf to leaf in both directions.
 *
 * To go right, the scan needs the right link of the time when it read the page: what a later split
 * moved right, it has seen already.  To go left, it needs the page whose right link leads to where
 * it stands, whatever was split or deleted since; see left_neighbour.  Both rest on invariant B7: a
 * leaf's links and its items are of one moment.
 *
 * In a parallel scan one process at a time has the turn, and takes the scan to a further leaf
 * (invariant B9).  While the leaf is locked, it passes the turn on with the block from which to go
 * on: the leaf's right link, or, backward, the leaf itself.  What the processes share is core's
 * (nbtree.c: btinitparallelscan), with where the scan's arrays stand.
 */
#include "blink/scan.h"

#include "batch/batch.h"
#include "core/inject.h"
#include "miscadmin.h"

/* After so many matches in a row, the scan looks whether the page's last item matches as well. */
#define SURE_AFTER 4

/*
 * True if an item matches.  If it does not, and nothing beyond it in the scan's direction does
 * either, clears *more.
 */
static inline bool
matches(IndexScanDesc scan, IndexTuple itup, ScanDirection dir, bool *more)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->equal)
	{
		char	   *data = (char *) itup + IndexInfoFindDataOffset(itup->t_info);

		if (!mtp_blink_first_null(itup) && so->start.norm == mtp_norm_fixed(so->code, data))
			return true;
		*more = false;
		return false;
	}
	return mtp_blink_keys_match(scan, itup, so->natts, dir, more);
}

void
mtp_blink_scan_save(IndexScanDesc scan, MtpPageReader *v, int index, IndexTuple itup, int pos)
{
	BTScanOpaque bt = scan->opaque;
	BTScanPosItem *item = &bt->currPos.items[index];
	bool		list = mtp_item_is_list(itup);
	Size		size = IndexTupleSize(itup);

	item->heapTid = itup->t_tid;
	item->indexOffset = pos | (list ? MTP_SAVED_LIST : 0);
	if (!list && !scan->xs_want_itup)
		return;
	if (bt->currTuples == NULL)
		mtp_blink_scan_keep_tuples(scan->opaque);
	if (unlikely(bt->currPos.nextTupleOffset + MAXALIGN(size) > MTP_SCAN_TUPLES))
	{
		/* Of a frame that is no error: the page is read locked next, which finds damage. */
		if (!BufferIsValid(v->buf))
		{
			v->torn = true;
			return;
		}
		mtp_blink_fail_page(scan->indexRelation, v->page,
							"directory points to some item more than once");
	}
	item->tupleOffset = bt->currPos.nextTupleOffset;
	memcpy(bt->currTuples + item->tupleOffset, itup, size);
	bt->currPos.nextTupleOffset += MAXALIGN(size);
}

/*
 * True if the item at pos, the page's other end, matches.  The scan has seen a match, and the
 * matches are a range: then everything in between matches, too.
 */
static bool
all_match(IndexScanDesc scan, MtpPageReader *v, int pos, ScanDirection dir)
{
	MtpPos		p = mtp_blink_reader_locate(v, pos);
	IndexTuple	itup = mtp_blink_reader_item(v, p.node, p.slot);
	bool		more = true;

	return itup != NULL && matches(scan, itup, dir, &more);
}

/* A word of a body: on some pages at a multiple of 4 */
typedef uint64 Word pg_attribute_aligned(sizeof(uint32));

/* Reads a word of a page that may change meanwhile. */
static inline uint64
read_word(const char *from)
{
	return *(const volatile Word *) from;
}

/* Copies n bytes of such a page, rounded up to a multiple of 4. */
static inline void
copy_words(char *to, const char *from, Size n)
{
	uint64		word;
	uint32		half;
	Size		i = 0;

	for (; i + sizeof(half) < n; i += sizeof(word))
	{
		word = read_word(from + i);
		memcpy(to + i, &word, sizeof(word));
	}
	if (i < n)
	{
		half = *(const volatile uint32 *) (from + i);
		memcpy(to + i, &half, sizeof(half));
	}
}

/*
 * Saves the item of a slot as mtp_blink_scan_save does, if a glance tells that the item is good: it
 * lies behind `low`, and its columns have a fixed length or only its TID matters.  Else false: the
 * caller takes a closer look.  cut: what bodies of narrow items leave out.
 *
 * The tuple's header is read once, since a frame may change.  The caller looks at the frame's
 * sequence lock when it has read the leaf (invariant B8).
 */
static inline bool
save_plain_item(BTScanPos pos, char *tuples, const MtpBlinkInfo *info, const MtpPageReader *v,
				Size cut, const MtpNode *node, int slot, unsigned low, int index, int rank)
{
	BTScanPosItem *item = &pos->items[index];
	const char *page = v->page;
	unsigned	off = *(volatile const uint16 *) &node->offs[slot];
	IndexTupleData head;
	uint64		word;
	Size		size;

	StaticAssertStmt(sizeof(word) == sizeof(head) && MAXIMUM_ALIGNOF == sizeof(word),
					 "a tuple's head is a word");
	if ((off & MTP_SLOT_NARROW) == 0)
		cut = 0;
	off &= ~MTP_SLOT_FLAGS;
	if (off < low || off > BLCKSZ - sizeof(head))
		return false;
	word = read_word(page + off);
	memcpy(&head, &word, sizeof(head));
	size = head.t_info & INDEX_SIZE_MASK;
	if (size < sizeof(head) || size > BLCKSZ - off || (head.t_info & INDEX_ALT_TID_MASK) != 0 ||
		!mtp_tid_possible(&head.t_tid))
		return false;
	if (tuples != NULL)
	{
		int			at = pos->nextTupleOffset;
		char	   *to = tuples + at;

		if (info->fixed == 0 || (head.t_info & INDEX_NULL_MASK) != 0 || size + cut < info->fixed ||
			at + MAXALIGN(size + cut) > MTP_SCAN_TUPLES)
			return false;
		memcpy(to, &word, sizeof(word));
		if (cut > 0)
		{
			((IndexTuple) to)->t_info = head.t_info + cut;
			mtp_norm_put_fixed(v->head.norm, mtp_page_narrow_norm(&v->head, node->heads[slot]),
							   to + sizeof(head));
		}
		copy_words(to + sizeof(head) + cut, page + off + sizeof(head), size - sizeof(head));
		item->tupleOffset = at;
		pos->nextTupleOffset = at + MAXALIGN(size + cut);
	}
	item->heapTid = head.t_tid;
	item->indexOffset = rank;
	return true;
}

/*
 * The same, for few instructions, of the slots `left` of a node, if all are narrow items whose body
 * is a header alone and whose tuple is a value behind it: as number `index` and up, the first slot
 * of rank `first`.  Else false, and nothing is saved.
 */
static bool
save_bare_node(BTScanPos pos, char *tuples, const MtpPageReader *v, const MtpNode *node,
			   uint32 left, unsigned low, int index, int first)
{
	const char *page = v->page;
	MtpPageHeader h = v->head;	/* a copy that no store can change */
	Size		size = sizeof(IndexTupleData) + mtp_norm_align(h.norm);
	BTScanPosItem *item = &pos->items[index];
	int			at = pos->nextTupleOffset;

	if (index + MTP_NODE_SLOTS > MTP_MAX_ITEMS ||
		at + MTP_NODE_SLOTS * MAXALIGN(size) > MTP_SCAN_TUPLES)
		return false;
	for (; left != 0; left &= left - 1)
	{
		int			slot = pg_rightmost_one_pos32(left);
		unsigned	off = *(volatile const uint16 *) &node->offs[slot];
		char	   *to = tuples + at;
		IndexTupleData head;
		uint64		word;

		if ((off & MTP_SLOT_NARROW) == 0)
			return false;
		off &= ~MTP_SLOT_FLAGS;
		if (off < low || off > BLCKSZ - sizeof(head))
			return false;
		word = read_word(page + off);
		memcpy(&head, &word, sizeof(head));
		if (head.t_info != sizeof(head) || !mtp_tid_possible(&head.t_tid))
			return false;
		item->heapTid = head.t_tid;
		item->indexOffset = first + slot;
		item->tupleOffset = at;
		item++;
		head.t_info = size;
		memcpy(to, &head, sizeof(head));
		mtp_norm_put_fixed(h.norm, mtp_page_narrow_norm(&h, node->heads[slot]), to + sizeof(head));
		at += MAXALIGN(size);
		if (!BufferIsValid(v->buf))
		{
			MTP_INJECT("frame_item_copied");
		}
	}
	pos->nextTupleOffset = at;
	return true;
}

/* Saves all items from p to the page's end, as number n and up; returns the next number. */
static int
save_to_end(IndexScanDesc scan, MtpPageReader *v, MtpPos p, int n)
{
	BTScanOpaque bt = scan->opaque;
	const MtpBlinkInfo *info = mtp_blink_info(scan->indexRelation);
	bool		locked = BufferIsValid(v->buf);
	bool		whole = scan->xs_want_itup;
	char	   *tuples = whole ? bt->currTuples : NULL;
	unsigned	low = locked ? ((PageHeader) v->page)->pd_upper : 0;
	Size		cut = (v->head.norm & MTP_NORM_CUT) ? mtp_norm_align(v->head.norm) : 0;
	bool		bare = tuples != NULL && cut > 0 && info->fixed != 0 &&
	info->fixed <= sizeof(IndexTupleData) + cut;
	int			nnodes = v->head.nnodes;
	int			first = p.pos - p.slot; /* the rank of the node's first item */

	for (; p.node < nnodes; p.node++, p.slot = 0)
	{
		const MtpNode *node = &v->nodes[p.node];
		int			count = Min(v->counts[p.node], MTP_NODE_SLOTS);
		uint32		left = scan->ignore_killed_tuples ? mtp_node_live(node, count) :
		(1u << count) - 1;

		left &= ~0u << Min(p.slot, MTP_NODE_SLOTS);
		if (bare && save_bare_node(&bt->currPos, tuples, v, node, left, low, n, first))
		{
			n += pg_popcount32(left);
			left = 0;
		}
		for (; left != 0; left &= left - 1)
		{
			IndexTuple	itup;

			p.slot = pg_rightmost_one_pos32(left);
			if (!locked && n >= MTP_MAX_ITEMS)
			{
				v->torn = true;
				return n;
			}
			if (save_plain_item(&bt->currPos, tuples, info, v, cut, node, p.slot, low, n,
								first + p.slot))
			{
				n++;
				if (!locked)
				{
					MTP_INJECT(whole ? "frame_item_copied" : "frame_tid_read");
				}
				continue;
			}
			itup = mtp_blink_reader_item(v, p.node, p.slot);
			if (itup == NULL)
				return n;
			mtp_blink_scan_save(scan, v, n++, itup, first + p.slot);
		}
		first += count;
	}
	return n;
}

/* Goes node by node: a queue leaves whole leaves of dead items behind. */
void
mtp_blink_scan_skip_dead(MtpPageReader *v, MtpPos *p)
{
	while (p->node < v->head.nnodes)
	{
		int			count = Min(v->counts[p->node], MTP_NODE_SLOTS);
		uint32		live = p->slot < count ?
		mtp_node_live(&v->nodes[p->node], count) >> p->slot : 0;

		if (live != 0)
		{
			p->slot += pg_rightmost_one_pos32(live);
			p->pos += pg_rightmost_one_pos32(live);
			return;
		}
		p->pos += Max(count - p->slot, 0);
		p->node++;
		p->slot = 0;
	}
}

/* True if the head of a narrow item tells that it is not of the one key that the scan looks for. */
static inline bool
is_other_key(const MtpBlinkScan *so, const MtpPageReader *v, const MtpPos *p)
{
	const MtpNode *node = &v->nodes[p->node];

	return so->equal && mtp_off_narrow(v->head.norm, node->offs[p->slot]) &&
		mtp_page_narrow_norm(&v->head, node->heads[p->slot]) != so->start.norm;
}

/*
 * Saves what matches from p to the end of the page.  Returns early if the reader is torn: the
 * caller asks for that.  So does read_backward.
 */
static void
read_forward(IndexScanDesc scan, MtpPageReader *v, MtpPos p)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	bool		sure = bt->numberOfKeys == 0;
	bool		more = true;
	int			run = 0;
	int			n = 0;

	for (; p.pos < v->head.nitems && p.node < v->head.nnodes && !sure;
		 mtp_pos_forward(v->counts, &v->head, &p))
	{
		IndexTuple	itup;

		if (v->torn)
			return;
		if (scan->ignore_killed_tuples && (v->nodes[p.node].offs[p.slot] & MTP_SLOT_DEAD))
		{
			mtp_blink_scan_skip_dead(v, &p);
			if (p.node >= v->head.nnodes)
				break;
		}
		if (is_other_key(so, v, &p))
		{
			more = false;
			break;
		}
		itup = mtp_blink_reader_item(v, p.node, p.slot);
		if (itup == NULL)
			return;
		if (matches(scan, itup, ForwardScanDirection, &more))
		{
			mtp_blink_scan_save(scan, v, n++, itup, p.pos);
			if (++run == SURE_AFTER && so->convex)
				sure = all_match(scan, v, v->head.nitems - 1, ForwardScanDirection);
		}
		else if (more)
			run = 0;
		else
			break;
	}
	if (sure)
		n = save_to_end(scan, v, p, n);

	/* The high key may tell that the pages to the right have no match. */
	if (more && v->head.right != InvalidBlockNumber && bt->numberOfKeys > 0)
	{
		IndexTuple	high = mtp_blink_reader_high(v);

		if (high == NULL)
			return;
		mtp_blink_keys_match(scan, high, BTreeTupleGetNAtts(high, scan->indexRelation),
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

	while (mtp_pos_back(v->counts, &p))
	{
		IndexTuple	itup;
		bool		dead;

		if (v->torn)
			return;
		dead = scan->ignore_killed_tuples && (v->nodes[p.node].offs[p.slot] & MTP_SLOT_DEAD) != 0;

		/* The page's first item is looked at all the same: it tells about the pages to the left. */
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
			mtp_blink_scan_save(scan, v, --n, itup, p.pos);
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

	/* Of a hazard pointer that the mark shares, the mark keeps its share. */
	if (so->hazard != MTP_NO_HAZARD && mtp_hazard_shared(so->hazard))
		mtp_blink_scan_drop_hazard(&so->hazard);
	if (so->hazard == MTP_NO_HAZARD)
		so->hazard = mtp_hazard_take(scan->indexRelation);
	if (so->hazard == MTP_NO_HAZARD)
		return false;
	mtp_hazard_announce(so->hazard);
	return true;
}

/*
 * Of its first leaves, so many, a scan publishes those that it had to lock: a scan that reads more
 * is no probe.  Leaves whose items are all marked dead are published beyond that: a scan that reads
 * them may be looking for the end of a queue, and comes by again.
 */
#define PUBLISH_LEAVES 8

/*
 * Unlocks the leaf that has just been loaded, and keeps its pin if the scan has items of it and
 * needs the pin.
 *
 * The pin keeps VACUUM from passing the leaf, and so the TIDs that the scan has read from being
 * used anew (invariant B10).  Without the pin that may happen.  It is harmless if the rows are
 * fetched and judged by an MVCC snapshot, and if later changes of the page show in its LSN, which
 * mark_dead.c asks for.
 */
static inline void
unlock_leaf(IndexScanDesc scan, bool found)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;

	if (BufferIsValid(pos->buf))
	{
		if (!found ||
			(IsMVCCSnapshot(scan->xs_snapshot) && RelationNeedsWAL(scan->indexRelation) &&
			 !scan->xs_want_itup))
		{
			UnlockReleaseBuffer(pos->buf);
			pos->buf = InvalidBuffer;
		}
		else
			LockBuffer(pos->buf, BUFFER_LOCK_UNLOCK);
	}
	else if (found)
		return;
	if (so->framed)
		mtp_buffer_consider(MTP_FRAME_INDEX);
}

/*
 * Loads currPos from a leaf, which is locked or in a frame, and unlocks it; true if it got an item.
 * If the reader is torn afterwards, nothing has happened.
 *
 * Old snapshots are tested on leaves alone.  Pruning that such a snapshot may miss took an item
 * from a leaf that the scan reads.  Or it took the whole leaf: then the left link of its right
 * sibling changed, which the scan reads instead.
 */
static bool
load_leaf(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;
	bool		forward = ScanDirectionIsForward(dir);
	bool		more_left = pos->moreLeft;
	bool		more_right = pos->moreRight;
	XLogRecPtr	lsn = BufferIsValid(v->buf) ? BufferGetLSNAtomic(v->buf) : PageGetLSN(v->page);
	bool		found;

	if (!mtp_blink_reader_good(v))
		return false;
	MtpTestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, v->page);
	so->list.item = -1;			/* what it stood in is of the page before */
	pos->buf = v->buf;
	pos->currPage = v->block;
	pos->lsn = lsn;
	pos->nextPage = v->head.right;
	pos->nextTupleOffset = 0;
	so->left = v->head.left;

	/*
	 * Pass the turn on under the lock under which the items are copied, so that they and the link
	 * are of one moment (invariant B9); but before they are copied: the other processes need not
	 * wait for that.  At the index's end the scan is over: what later splits move beyond this page
	 * is read now.
	 */
	if (scan->parallel_scan != NULL)
		mtp_blink_turn_pass(scan, dir, pos->currPage, forward ? pos->nextPage : so->left);

	if (mtp_blink_keys_on_leaf(so))
		mtp_blink_keys_read(scan, dir, v, from);
	else if (forward)
		read_forward(scan, v, from);
	else
		read_backward(scan, v, from);

	/* What a frame has told counts only now (invariant B8). */
	if (!mtp_blink_reader_good(v))
	{
		pos->moreLeft = more_left;
		pos->moreRight = more_right;
		if (mtp_blink_keys_on_leaf(so))
			mtp_blink_keys_undo(so);
		BTScanPosInvalidate(*pos);
		return false;
	}
	so->in_frame = !BufferIsValid(v->buf);
	if (so->in_frame)
		so->ref = v->ref;
	else
		mtp_blink_scan_drop_hazard(&so->hazard);	/* the page is pinned, or needs neither */

	/* A scan comes to a leaf twice only where links are damaged, unless it turns round. */
	if (so->walk_dir != dir)
		memset(&so->walk, 0, sizeof(so->walk));
	so->walk_dir = dir;
	mtp_blink_check_walk(scan->indexRelation, &so->walk, v->block);
	if (so->framed && !so->in_frame &&
		(so->nleaves < PUBLISH_LEAVES || v->head.ndead >= v->head.nitems))
		mtp_buffer_publish(scan->indexRelation, v->buf);
	so->nleaves++;
	found = pos->firstItem <= pos->lastItem;
	unlock_leaf(scan, found);
	return found;
}

/*
 * Takes the turn before the scan goes to a further leaf; false if there is none.  *from gets the
 * place from where to go on, as mtp_blink_scan_walk has it.  A parallel scan may wait for another
 * process here, and go on elsewhere than this process stands.  The scan holds no pin or lock on the
 * index.  Having the turn, it must pass it on: by reading a leaf, or by _bt_parallel_done (which
 * does nothing in other scans).
 */
static bool
take_turn(IndexScanDesc scan, ScanDirection dir, BlockNumber *from)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;
	bool		forward = ScanDirectionIsForward(dir);
	bool		more = forward ? pos->moreRight : pos->moreLeft;

	CHECK_FOR_INTERRUPTS();
	mtp_batch_before_scan(scan->indexRelation, scan->xs_snapshot);
	*from = forward ? pos->nextPage : pos->currPage;
	if (scan->parallel_scan == NULL)
		return more;
	if (!mtp_blink_turn_take(scan, from, false))
		return false;

	/*
	 * Only the process that has the turn may end the scan: if another one had it now, that one
	 * would pass it on later, and so undo the end.
	 */
	if (!more)
		_bt_parallel_done(scan);
	return more;
}

/* The page blkno, or what has taken its place to the right, share-locked; or InvalidBuffer. */
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
		blkno = MtpHeader(BufferGetPage(buf))->right;
		UnlockReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
	}
	return InvalidBuffer;
}

/*
 * The left link that page *origin has now.  If the page was deleted, the next live page on its
 * right has the left end that it had, and becomes *origin.
 */
static BlockNumber
left_link(Relation rel, BlockNumber *origin)
{
	Buffer		buf = live_page(rel, *origin);
	BlockNumber left;

	if (!BufferIsValid(buf))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("fell off the end of index \"%s\" at block %u",
						RelationGetRelationName(rel), *origin),
				 errhint("Please REINDEX it.")));
	*origin = BufferGetBlockNumber(buf);
	left = MtpHeader(BufferGetPage(buf))->left;
	UnlockReleaseBuffer(buf);
	return left;
}

/*
 * The leaf left of page `origin`, share-locked; InvalidBuffer if there is none.  `left` was once
 * origin's left link.
 *
 * If the page there has been split since, the neighbour is a few right links further: K - 1 at most
 * for one split.  If it has been deleted, or origin has, left_link tells where to look.  No page
 * can have been reused, because the scan's snapshot is older than the deletion (invariant B13).
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
			right = MtpHeader(page)->right;
			if (right == origin && !MtpIsDeleted(page))
				return buf;
			UnlockReleaseBuffer(buf);
			if (right == origin || right == InvalidBlockNumber)
				break;
			blkno = right;
		}

		/* Each change of the neighbourhood changes the left link: this soon ends. */
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

bool
mtp_blink_scan_walk(IndexScanDesc scan, ScanDirection dir, BlockNumber from)
{
	MtpBlinkScan *so = scan->opaque;
	Relation	rel = scan->indexRelation;
	bool		forward = ScanDirectionIsForward(dir);
	MtpPos		first = {0};

	for (bool turn = from != InvalidBlockNumber; turn || take_turn(scan, dir, &from); turn = false)
	{
		MtpPageReader v;
		Buffer		buf;

		if (forward && mtp_blink_scan_announce(scan) && mtp_blink_reader_frame(&v, rel, from, 0))
		{
			if (load_leaf(scan, dir, &v, first))
				return true;
			if (!v.torn)
				continue;
		}

		if (forward)
			buf = live_page(rel, from);
		else
		{
			/* In a parallel scan another process may have read the page: so->left is not of it. */
			if (scan->parallel_scan != NULL)
				so->left = left_link(rel, &from);
			buf = left_neighbour(rel, from, so->left);
		}
		if (!BufferIsValid(buf))
		{
			BTScanPosInvalidate(so->bt.currPos);
			_bt_parallel_done(scan);
			break;
		}
		mtp_blink_reader_page(&v, rel, buf);
		if (load_leaf(scan, dir, &v,
					  forward ? first : mtp_blink_reader_locate(&v, v.head.nitems)))
			return true;
	}
	BTScanPosInvalidate(so->bt.currPos);
	mtp_blink_scan_drop_hazard(&so->hazard);
	return false;
}

bool
mtp_blink_scan_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	if (load_leaf(scan, dir, v, from))
		return true;
	return !v->torn && mtp_blink_scan_walk(scan, dir, InvalidBlockNumber);
}

void
mtp_blink_scan_copy(BTScanPos to, char *to_tuples, const BTScanPosData *from,
					const char *from_tuples)
{
	if (BTScanPosIsPinned(*from))
		IncrBufferRefCount(from->buf);
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
	bool		marked = false;

	mtp_blink_scan_leave_list(scan);
	if (bt->numKilled > 0)
		mtp_blink_scan_kill(scan);

	/*
	 * A mark on this page needs a copy of the position now, and a pin or hazard pointer of its
	 * own.
	 */
	if (bt->markItemIndex >= 0)
	{
		mtp_blink_scan_copy(&bt->markPos, bt->markTuples, &bt->currPos, bt->currTuples);
		bt->markPos.itemIndex = bt->markItemIndex;
		so->mark_left = so->left;
		mtp_blink_scan_drop_hazard(&so->mark_hazard);
		mtp_blink_scan_share_hazard(so->hazard, &so->mark_hazard);
		bt->markItemIndex = -1;
		marked = true;
	}
	mtp_blink_keys_step(so, dir, marked);
	BTScanPosUnpinIfPinned(bt->currPos);

	/* This page had matches: a scan that turns round may find some on its other side. */
	if (ScanDirectionIsForward(dir))
		bt->currPos.moreLeft = true;
	else
		bt->currPos.moreRight = true;
	return mtp_blink_scan_walk(scan, dir, InvalidBlockNumber);
}
