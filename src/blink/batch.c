/*
 * batch.c
 *	  The B-link tree's side of the batch engine: where tasks end, and how a leaf takes its share.
 */
#include "blink/reader.h"

#include "batch/stream.h"
#include "core/inject.h"
#include "utils/memutils.h"

/* The code of narrow entries tells their tuples' size. */
MtpOrder *
mtp_blink_order(Relation index)
{
	return mtp_batch_order_make(index, mtp_blink_info(index)->norm);
}

/*
 * Moves each sample to the end of the leaf that it falls on.  The leaf may be split later; its end
 * stays an end.
 */
static int
blink_cut(Relation index, MtpOrder *order, int nsamples, const MtpNarrow *narrow,
		  const MtpWide *wide, MtpNarrow *narrow_bounds, MtpWide *wide_bounds)
{
	uint8		code = mtp_blink_info(index)->norm;
	int			n = 0;

	for (int i = 0; i < nsamples; i++)
	{
		IndexTuple	itup = narrow ? mtp_batch_narrow_form(code, narrow[i]) : wide[i].itup;
		MtpBlinkKey key;
		Buffer		buf;
		Page		page;

		mtp_blink_key_tuple(index, &key, itup);
		buf = mtp_blink_descend(index, &key, BUFFER_LOCK_SHARE, 0, NULL);
		if (!BufferIsValid(buf))
			return 0;			/* a single task packs an empty index */
		page = BufferGetPage(buf);
		if (MtpRightmost(page) || MtpHeader(page)->nitems == 0)
		{
			UnlockReleaseBuffer(buf);
			break;
		}
		if (narrow)
		{
			narrow_bounds[n] = mtp_narrow_of_tuple(code, MtpHighKey(page));
			if (n == 0 || mtp_narrow_less(&narrow_bounds[n - 1], &narrow_bounds[n]))
				n++;
		}
		else
		{
			/*
			 * A truncated high key is no entry that others can be compared with.  The leaf's last
			 * item is one.  What of the batch lies between it and the high key matters for speed
			 * alone.
			 */
			MtpItemRoom room;

			IndexTuple	last = mtp_blink_item_at(index, page, MtpHeader(page)->nitems - 1, &room);
			ItemPointerData tid = mtp_item_last_tid(last);

			wide_bounds[n].itup = mtp_item_plain(last, &tid);
			wide_bounds[n].prefix = mtp_batch_order_prefix(order, wide_bounds[n].itup);
			if (n == 0 || mtp_batch_order_compare(order, &wide_bounds[n - 1], &wide_bounds[n]) < 0)
				n++;
		}
		UnlockReleaseBuffer(buf);
	}
	return n;
}

/*
 * The entries that one leaf takes in one step, as items: where equal keys become lists, those of
 * one key are few items.
 */
typedef struct Share
{
	bool		lists;
	uint8		code;			/* of the index */
	uint32		entries;
	int			n;
	int			room;			/* of the arrays */
	Size		bytes;
	Size		limit;			/* for bytes */
	bool		limited;		/* the leaf's share is larger */
	IndexTuple *items;
	uint64	   *norms;
	uint16	   *pos;
	MtpListMaker *list;			/* the last item, unless list->n is 0; its bytes don't count yet */
	uint64		list_norm;
	char	   *list_room;		/* MTP_MAX_ITEM bytes */
} Share;

static void
add_item(Share *s, IndexTuple itup, uint64 norm)
{
	if (s->n == s->room)
	{
		s->room *= 2;
		s->items = repalloc(s->items, s->room * sizeof(IndexTuple));
		s->norms = repalloc(s->norms, s->room * sizeof(uint64));
		s->pos = repalloc(s->pos, s->room * sizeof(uint16));
	}
	s->items[s->n] = itup;
	s->norms[s->n] = norm;
	s->n++;
	s->bytes += mtp_body_size(s->code, itup) + 8;

	/* What may become narrow counts as if it did. */
	if (mtp_item_cuts(s->code, itup))
		s->bytes -= mtp_norm_align(s->code);
}

/* Adds the item that is being made, if there is one. */
static void
finish_list(Share *s)
{
	Size		size;

	if (s->list->n == 0)
		return;
	size = mtp_list_end(s->list);
	add_item(s, memcpy(palloc(MAXALIGN(size)), s->list->itup, size), s->list_norm);
	s->list->n = 0;
}

/* True if an item with such a key, perhaps the largest list, is too much for the share. */
static bool
is_full(Share *s, Size key)
{
	Size		most = s->lists ? Max(key, Min(key + MTP_LIST_BYTES, MTP_LIST_ROOM)) : key;

	return s->bytes + MAXALIGN(most) + 8 > s->limit;
}

/* Takes the entries that belong to the leaf, at most as many as one put can take. */
static void
take_narrow(MtpBatchStream *stream, uint8 code, Page page, Share *s)
{
	bool		bounded = !MtpRightmost(page);
	MtpNarrow	high = {0};
	MtpNarrow	last = {0};
	char	   *chunk = NULL;
	int			left = 0;

	if (bounded)
		high = mtp_narrow_of_tuple(code, MtpHighKey(page));
	while (!mtp_stream_end(stream))
	{
		MtpNarrow	e = *mtp_stream_narrow(stream);
		ItemPointerData tid;

		if (bounded && mtp_narrow_less(&high, &e))
			break;
		mtp_rid_to_tid(e.rid & ~MTP_RID_LAST, &tid);
		if (s->list->n > 0 && e.norm == last.norm && ((e.rid ^ last.rid) & MTP_RID_LAST) == 0 &&
			mtp_list_add(s->list, &tid))
		{
			s->entries++;
			mtp_stream_next(stream);
			continue;
		}
		finish_list(s);
		if (is_full(s, MTP_NARROW_TUPLE))
		{
			s->limited = true;
			break;
		}
		if (left == 0)
		{
			left = 32;
			chunk = palloc(left * MTP_NARROW_TUPLE);
		}
		(void) mtp_batch_narrow_tuple(code, e, chunk);
		if (s->lists)
		{
			mtp_list_begin(s->list, s->list_room, MTP_LIST_ROOM, (IndexTuple) chunk, &tid);
			s->list_norm = e.norm;
			last = e;
		}
		else
		{
			add_item(s, (IndexTuple) chunk, e.norm);
			chunk += MTP_NARROW_TUPLE;
			left--;
		}
		s->entries++;
		mtp_stream_next(stream);
	}
	finish_list(s);
}

/* True if a wide entry belongs to the leaf: it is not above the high key (invariant B1). */
static bool
entry_belongs(MtpBatchStream *stream, const MtpWide *e, IndexTuple high, int natts, uint64 prefix)
{
	MtpOrder   *order = stream->order;
	ItemPointer tid = BTreeTupleGetHeapTID(high);
	int			c;

	if (order->norm_prefixes && !stream->sharp && natts > 0 && e->prefix != prefix)
		return e->prefix < prefix;
	c = mtp_batch_order_compare_tuples(order, e->itup, high, Min(natts, order->nkeys));
	if (c != 0 || tid == NULL || natts < order->nkeys)
		return c < 0;			/* what the high key lacks is minus infinity */
	return ItemPointerCompare(&e->itup->t_tid, tid) <= 0;
}

/*
 * The same for wide entries.  The first one always belongs to the leaf: its descent found it.  So
 * does what has the key of an entry that does, unless the high key has a TID.
 */
static void
take_wide(Relation index, MtpBatchStream *stream, uint8 code, Page page, Share *s)
{
	IndexTuple	high = MtpRightmost(page) ? NULL : MtpHighKey(page);
	int			natts = high != NULL ? BTreeTupleGetNAtts(high, index) : 0;
	uint64		prefix = high != NULL ? mtp_norm_tuple(code, high) : 0;
	bool		by_tid = high != NULL && BTreeTupleGetHeapTID(high) != NULL;
	uint64		listed = 0;		/* the list's prefix */

	while (!mtp_stream_end(stream))
	{
		const MtpWide *e = mtp_stream_wide(stream);
		IndexTuple	itup = e->itup;
		bool		equal = false;

		if (s->list->n > 0)
			equal = stream->exact ? e->prefix == listed :
				mtp_item_same_key(s->list->itup, itup);

		if (high != NULL && s->entries > 0 && (!equal || by_tid) &&
			!entry_belongs(stream, e, high, natts, prefix))
			break;
		if (equal && mtp_list_add(s->list, &itup->t_tid))
		{
			s->entries++;
			mtp_stream_next(stream);
			continue;
		}
		finish_list(s);
		if (s->n > 0 && is_full(s, IndexTupleSize(itup)))
		{
			s->limited = true;
			break;
		}
		if (s->lists)
		{
			mtp_list_begin(s->list, s->list_room, MTP_LIST_ROOM, itup, &itup->t_tid);
			s->list_norm = mtp_norm_tuple(code, itup);
			listed = e->prefix;
		}
		else
			add_item(s, itup, mtp_norm_tuple(code, itup));
		s->entries++;
		mtp_stream_next(stream);
	}
	finish_list(s);
}

/*
 * True if an item of the leaf is before a new one.  Their heads are equal; narrow entries are
 * compared by value.
 */
static inline bool
item_before(Relation index, MtpOrder *order, uint8 code, IndexTuple item, IndexTuple new)
{
	int			c;

	if (order->narrow)
	{
		MtpNarrow	a = mtp_narrow_of_tuple(code, item);
		MtpNarrow	b = mtp_narrow_of_tuple(code, new);

		return mtp_narrow_less(&a, &b);
	}
	c = mtp_batch_order_compare_tuples(order, item, new, order->nkeys);
	return c < 0 ||
		(c == 0 && ItemPointerCompare(BTreeTupleGetHeapTID(item), BTreeTupleGetHeapTID(new)) < 0);
}

/*
 * The first slot of a node, from `slot` on, whose item is not before a new one; there is one. Heads
 * tell, and where they are equal, keys: their comparison may be costly, so few are compared.
 */
static int
place_in_node(Relation index, MtpOrder *order, Page page, uint8 code, int node, int slot,
			  uint32 head, IndexTuple new)
{
	const uint32 *heads = MtpNodes(page)[node].heads;
	int			count = MtpCounts(page)[node];
	int			end;

	while (slot < count - 1 && heads[slot] < head)
		slot++;
	for (end = slot; end < count && heads[end] == head; end++)
		;
	end = Min(end, count - 1);
	while (slot < end)
	{
		int			middle = (slot + end) / 2;
		MtpItemRoom room;

		if (item_before(index, order, code, mtp_blink_item(index, page, node, middle, &room), new))
			slot = middle + 1;
		else
			end = middle;
	}
	return slot;
}

/*
 * The first node, from `node` on, whose last item is not before a new one; the number of nodes if
 * there is none.  A node's last item tells of all of them.  Where many nodes have the item's head,
 * steps that double find the one, from `step` on: so far is it on average.
 */
static int
place_node(Relation index, MtpOrder *order, Page page, uint8 code, int node, int step, uint32 head,
		   IndexTuple new)
{
	const uint32 *dir = MtpDir(page);
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	int			end;
	bool		bounded = false;
	MtpItemRoom room;

	while (node < nnodes && dir[node] < head)
		node++;
	for (end = node; end < nnodes && dir[end] == head; end++)
		;
	while (node < end)
	{
		int			at = Min(node + step, end) - 1;

		if (item_before(index, order, code,
						mtp_blink_item(index, page, at, counts[at] - 1, &room), new))
			node = at + 1;
		else
		{
			end = at;
			bounded = true;
		}
		step = bounded ? (end - node + 1) / 2 : 2 * step;
	}
	return node;
}

/*
 * Finds the places of the share's items on the page.  Both are sorted, so each search starts where
 * the last one ended: by heads, node by node, then by key.
 */
static void
place_items(Relation index, MtpOrder *order, Page page, uint8 code, Share *s)
{
	MtpPageHeader *h = MtpHeader(page);
	const uint8 *counts = MtpCounts(page);
	int			node = 0,
				slot = 0,
				pos = 0;

	for (int i = 0; i < s->n; i++)
	{
		uint32		head = mtp_page_head(h, s->norms[i]);
		int			step = Max(1, (h->nnodes - node) / (s->n - i + 1));
		int			to = place_node(index, order, page, code, node, step, head, s->items[i]);

		for (; node < to; node++)
		{
			pos += counts[node] - slot;
			slot = 0;
		}
		if (node < h->nnodes)
		{
			to = place_in_node(index, order, page, code, node, slot, head, s->items[i]);
			pos += to - slot;
			slot = to;
		}
		s->pos[i] = pos;
	}
}

/* What a step knows of the next one's leaf */
typedef struct LeafAhead
{
	BlockNumber block;			/* where to look for it; 0, the metapage: a descent must tell */
	bool		foreseen;		/* a descent in frames has told the block */
	Buffer		recent;			/* the buffer that had this block; InvalidBuffer: none */
	uint64		norm;			/* of the entry */
	BlockNumber right;			/* right sibling of the step's leaf; 0: that one is to take more */
	int			siblings;		/* leaves in a row that were the right sibling of the one before */
	int			walked;			/* pages that have come of the leaves since the last descent */
	MtpBlinkStack stack;		/* the last descent's */
} LeafAhead;

StaticAssertDecl(sizeof(LeafAhead) <= MTP_STEP_MEMORY * sizeof(uint64), "a task keeps it");

/* Descents that would have led to the right sibling, until it is tried first */
#define SIBLINGS_FIRST	2

/* Behind so many pages mtp_blink_parent would have to go far from the stack's parent. */
#define SIBLINGS_MOST	64

/* A descent has led to this leaf. */
static void
count_descent(LeafAhead *ahead, BlockNumber leaf)
{
	if (ahead->right != MTP_BLINK_META)
		ahead->siblings = leaf == ahead->right ? ahead->siblings + 1 : 0;
	ahead->walked = 0;
}

/*
 * Tells where the next entry's leaf is, and has it fetched from the file or from memory while this
 * one's leaf, which is locked, is filled.  Where a batch leaves out no leaf, it is the right
 * sibling; else a descent in frames tells, which locks nothing.
 */
static void
look_ahead(MtpBatchApply *a, Page page, LeafAhead *ahead)
{
	IndexTuple	next = mtp_stream_tuple(a->stream, palloc(MTP_NARROW_TUPLE));
	BlockNumber block = ahead->right = MtpHeader(page)->right;

	if (ahead->siblings >= SIBLINGS_FIRST && ahead->walked < SIBLINGS_MOST)
		ahead->norm = mtp_norm_tuple(mtp_blink_info(a->index)->norm, next);
	else
	{
		MtpBlinkKey key;

		mtp_blink_key_tuple(a->index, &key, next);
		ahead->norm = key.norm;
		block = mtp_blink_foresee(a->index, &key, &ahead->stack);
		if (block == InvalidBlockNumber)
			return;
		count_descent(ahead, block);
		ahead->foreseen = true;
	}
	if (mtp_link_beyond(a->index, block))
		return;					/* damage, which a descent reports */
	ahead->block = block;
	ahead->recent = PrefetchBuffer(a->index, MAIN_FORKNUM, block).recent_buffer;
	mtp_buffer_prefetch(a->index, block);
	if (BufferIsValid(ahead->recent))
		mtp_page_prefetch(BufferGetPage(ahead->recent));
}

/*
 * The leaf of the next entry, locked exclusively.
 *
 * The step before has told where to look for it.  If that is its leaf's right sibling: the entry is
 * above the high key of that leaf.  If a descent in frames has told it: the entry is above the
 * downlink's key.  Either way the entry's leaf is this page or right of it (invariant B1), whatever
 * has become of it meanwhile: its lower bound never rises until it is deleted, and it is not reused
 * while the unit's snapshot lives (B13).  It has a downlink: neither a descent nor this steps over
 * an incomplete split (B5).  If the entry is behind it, if it was deleted, or if its own split is
 * not finished, a descent finds the leaf.  The stack names this leaf's parent, or one left of it:
 * mtp_blink_parent goes right from there.
 */
static Buffer
next_leaf(Relation index, MtpBlinkKey *key, LeafAhead *ahead)
{
	Buffer		buf;

	if (ahead->block != MTP_BLINK_META)
	{
		Page		page;

		MTP_INJECT(ahead->foreseen ? "foreseen" : "sibling");
		buf = mtp_blink_read_link(index, ahead->block, 0, BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(buf);
		if (!MtpIsDeleted(page) && !MtpIncomplete(page) &&
			(MtpRightmost(page) || mtp_blink_compare(key, MtpHighKey(page)) <= 0))
			return buf;
		UnlockReleaseBuffer(buf);
		ahead->siblings = 0;
	}
	buf = mtp_blink_find_leaf(index, key, &ahead->stack);
	count_descent(ahead, BufferGetBlockNumber(buf));
	return buf;
}

/*
 * Fills one leaf.  The first entry finds the leaf, which takes all entries that belong to it: in
 * one change, or in several steps where they are more than one split can make room for.
 *
 * The task's progress moves in the critical section that puts the entries in (invariant B6).  Taken
 * entries that are not counted after an error are taken again when the task is repeated.
 */
static void
blink_step(MtpBatchApply *a)
{
	MtpBatchStream *stream = a->stream;
	uint8		code = mtp_blink_info(a->index)->norm;
	LeafAhead  *ahead = (LeafAhead *) a->memory;
	MtpBlinkStack stack;
	MtpBlinkPut put = {.rel = a->index};
	MtpBlinkKey key;
	IndexTuple	first = mtp_stream_tuple(stream, palloc(MTP_NARROW_TUPLE));
	Buffer		buf;
	Size		bytes;
	MtpListMaker list;
	Share		s = {.room = 64,.list = &list};

	s.limit = mtp_blink_put_limit(a->index, stream->narrow);
	list.n = 0;					/* the rest is too much to be cleared for each leaf */
	s.lists = put.lists = mtp_blink_lists(a->index);
	s.code = code;

	put.stack = &stack;
	mtp_blink_key_tuple(a->index, &key, first);
	buf = next_leaf(a->index, &key, ahead);
	stack = ahead->stack;		/* that of the next leaf may be another one */
	ahead->block = ahead->right = MTP_BLINK_META;
	ahead->foreseen = false;

	s.items = palloc(s.room * sizeof(IndexTuple));
	s.norms = palloc(s.room * sizeof(uint64));
	s.pos = palloc(s.room * sizeof(uint16));
	s.list_room = palloc(MTP_MAX_ITEM);
	if (stream->narrow)
		take_narrow(stream, code, BufferGetPage(buf), &s);
	else
		take_wide(a->index, stream, code, BufferGetPage(buf), &s);
	if (!s.limited && !mtp_stream_end(stream))
		look_ahead(a, BufferGetPage(buf), ahead);
	bytes = mtp_page_bytes(BufferGetPage(buf), s.n, s.items, s.norms);
	if (!mtp_page_fits(BufferGetPage(buf), s.n, bytes))
		(void) mtp_blink_reclaim(a->index, a->heap, buf, bytes, a->arrival);
	if (s.lists && !mtp_page_fits(BufferGetPage(buf), s.n, bytes))
		mtp_blink_merge(a->index, buf, s.n, s.items, s.norms);
	place_items(a->index, stream->order, BufferGetPage(buf), code, &s);

	put.progress = a->progress;
	put.progress_to = *a->progress + s.entries;
	put.more = s.limited;
	mtp_blink_put(&put, buf, s.n, s.pos, s.items, s.norms);
	if (ahead->foreseen)
		mtp_buffer_consider(MTP_FRAME_INDEX);	/* its accesses were counted under a lock */
	else
		ahead->walked += put.k;
	if (ahead->block != MTP_BLINK_META && BufferIsValid(ahead->recent))
		mtp_page_prefetch_place(BufferGetPage(ahead->recent), ahead->norm);
	a->leaves++;
	if (put.k > 1)
		a->splits[Min(put.k, lengthof(a->splits) - 1)]++;
}

static const MtpBatchOps blink_ops = {
	.ambuild = mtp_blink_build,
	.order = mtp_blink_order,
	.compares = true,
	.cut = blink_cut,
	.step = blink_step
};

void
mtp_blink_batch_init(void)
{
	mtp_batch_register(&blink_ops);
}
