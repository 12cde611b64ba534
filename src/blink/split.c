/*
 * split.c
 *	  Puts items on a page.  Where they do not fit, splits the page K ways and tells the parent.
 *
 * MTPower's split: W = items there + items that come, K = the pages that W fills, K - 1 new pages.
 * All items are distributed anew, the parent gets K - 1 pointers, and the recursion goes upward.
 * Under WAL this takes two records (README, "Splits").  The first makes the K pages, which right
 * links reach.  The second posts the downlinks and clears the flags that tell of their absence.
 */
#include "blink/blink.h"

#include "blink/wal_records.h"
#include "common/pg_prng.h"
#include "core/inject.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* A page that is about to be split, and what becomes of it. */
typedef struct Split
{
	MtpBlinkPut *put;
	Page		orig;
	uint8		code;			/* of the pages to be made */
	bool		append;			/* all new items are behind the old ones */
	int			n;				/* old and new items, equal keys merged */
	IndexTuple *items;
	bool		all_narrow;		/* all items that can be narrow are, wherever they stand */
	uint8	   *narrow;			/* or those that are likely to be; NULL: none */
	int			reach;			/* per cent of a page that its end may be moved by */
	double		vary;			/* equal shares are made unequal by up to this part of them */
	int		   *ends;			/* items[i] and those before are made of so many; or NULL: i + 1 */
	int			nnew;			/* the new ones, as they came, … */
	const uint16 *pos;
	IndexTuple *new;
	uint8	   *same;			/* … and which of all are merged */
	int			k;
	int			cuts[MTP_BLINK_MAX_K + 1];	/* page i gets items cuts[i] .. cuts[i + 1] - 1 */
	Buffer		bufs[MTP_BLINK_MAX_K];
	Page		pages[MTP_BLINK_MAX_K]; /* their images, in private memory */
	char	   *narrows[MTP_BLINK_MAX_K];	/* what the record says of narrow items, … */
	Size		nnarrows[MTP_BLINK_MAX_K];	/* … in so many bytes */
	IndexTuple	pivots[MTP_BLINK_MAX_K];	/* [i] separates page i from page i - 1 */
} Split;

/*
 * One item needs no copy.  To get memory may fail, so it comes before the critical section
 * (invariant B2).
 */
char *
mtp_blink_flatten(uint8 code, int n, const IndexTuple *items, Size *bytes)
{
	char	   *flat;
	Size		at = 0;

	if (n == 1)
	{
		*bytes = IndexTupleSize(items[0]);
		return (char *) items[0];
	}
	*bytes = 0;
	for (int i = 0; i < n; i++)
		*bytes += mtp_body_size(code, items[i]);
	flat = palloc0(*bytes);		/* what lies between items is logged, too */
	for (int i = 0; i < n; i++)
	{
		memcpy(flat + at, items[i], IndexTupleSize(items[i]));
		at += mtp_body_size(code, items[i]);
	}
	return flat;
}

/*
 * Inserts the items on a page that has room for them, with one record over the page and the
 * children.  The items are the downlinks of the children's right siblings, so the same change
 * clears the children's flags (invariant B4).  A task's progress moves in it too (B6).
 *
 * The page and the children are locked exclusively.  Unlocks and unpins the page.
 */
static void
put_in_place(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms)
{
	MtpChange	c;
	MtpWalInsert rec = {.nitems = n};
	char	   *flat = NULL;
	Size		bytes = 0;

	mtp_change_init(&c, put->rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	for (int i = 0; i < put->nchildren; i++)
		mtp_change_buffer(&c, put->children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;
	if (c.logged)
		flat = mtp_blink_flatten(MtpHeader(BufferGetPage(buf))->norm, n, items, &bytes);

	/* A crash leaves all of this or nothing: replay makes the change as a whole. */
	mtp_change_begin(&c);
	mtp_page_insert(BufferGetPage(buf), n, pos, items, norms);
	for (int i = 0; i < put->nchildren; i++)
		MtpHeader(BufferGetPage(put->children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, pos, n * sizeof(uint16));
	mtp_change_bufdata(&c, 0, flat, bytes);
	mtp_change_finish(&c);

	UnlockReleaseBuffer(buf);
	if (flat != NULL && n > 1)
		pfree(flat);
}

/*
 * Merges the page's items and the n new ones, which go to pos[], into s->items.  On a leaf equal
 * keys become lists; if that is turned off, only what overlaps does, so that cuts separate entries
 * (invariant B15).
 */
static void
merge_items(Split *s, int n, const uint16 *pos, IndexTuple *items)
{
	Relation	rel = s->put->rel;

	s->nnew = n;
	s->pos = pos;
	s->new = items;
	s->items = palloc((MtpHeader(s->orig)->nitems + n) * sizeof(IndexTuple));
	s->n = mtp_page_all_items(s->orig, n, pos, items, s->items);
	s->append = pos[0] == MtpHeader(s->orig)->nitems;
	s->ends = NULL;
	s->same = palloc0(MTP_SAME_BYTES(s->n));
	if (!MtpIsLeaf(s->orig) || mtp_blink_info(rel)->lists == 0)
		return;
	if (s->put->lists)
		(void) mtp_blink_same_keys(rel, s->n, s->items, s->same);
	else
		(void) mtp_blink_overlaps(rel, s->n, s->items, s->same);
	s->items = mtp_list_merge(s->items, &s->n, s->same, MTP_LIST_ROOM, &s->ends);
	if (s->items == NULL)
		mtp_blink_fail_page(rel, s->orig, "list of TIDs is damaged");
}

/*
 * True if the items from .. to - 1 fit on one page, with the high key that is made from item `to`.
 * bytes: what the items take there.  A leaf's high key may be a heap TID larger than an item's key.
 */
static bool
range_fits(Split *s, int from, int to, Size bytes)
{
	IndexTuple	high = to < s->n ? s->items[to] :
	MtpHeader(s->orig)->highkey ? MtpHighKey(s->orig) : NULL;

	if (high != NULL)
		bytes += to < s->n && MtpIsLeaf(s->orig) ?
			MAXALIGN(mtp_item_key_size(high)) + MAXALIGN(sizeof(ItemPointerData)) :
			MAXALIGN(IndexTupleSize(high));
	return mtp_page_need(to - from, bytes) <= MTP_PAGE_ROOM;
}

/* What an item takes of a page, as far as it can be told before it is known which one. */
static inline Size
item_room(Split *s, int i)
{
	Size		room = mtp_body_size(s->code, s->items[i]) + MTP_SLOT_ROOM;
	bool		narrow = s->all_narrow ? mtp_item_cuts(s->code, s->items[i]) :
	s->narrow != NULL && s->narrow[i];

	return narrow ? room - mtp_norm_align(s->code) : room;
}

/*
 * Tells which items are likely to become narrow: where at least RUN of them in a row do on a page
 * of their own.
 */
#define RUN	32

static void
find_narrow(Split *s, const MtpSpan *all)
{
	if (all->plain == 0)
		return;
	s->all_narrow = mtp_span_narrow(all);
	if (s->all_narrow)
		return;
	s->narrow = palloc0(s->n);
	for (int i = 0, next; i < s->n; i = next)
	{
		MtpSpan		span;

		mtp_span_begin(&span, s->code);
		for (next = i; next < s->n && span.n < MTP_MAX_ITEMS; next++)
		{
			MtpSpan		longer = span;

			mtp_span_add(&longer, s->items[next]);
			if (!mtp_span_narrow(&longer))
				break;
			span = longer;
		}
		for (int j = i; j < next && span.n >= RUN; j++)
			s->narrow[j] = mtp_item_cuts(s->code, s->items[j]);
	}
}

/*
 * Leaves that a batch splits get unequal shares, by up to this part of them: else leaves of one age
 * would all be split again by the same batch.
 */
#define VARY	0.2

/* How many key columns a high key needs between item i and the one before it; one more: the TID. */
static int
penalty(Split *s, int i)
{
	return _bt_keep_natts_fast(s->put->rel, s->items[i - 1], s->items[i]);
}

/*
 * How far a leaf's end may be moved, in per cent of its items.  Groups that ascend gain from more;
 * with one column there are no groups but those of equal keys.  The halves for a single item are
 * moved as far as nbtree's.
 */
static int
reach_of(Split *s, int n)
{
	return n == 1 ? 5 : IndexRelationGetNumberOfKeyAttributes(s->put->rel) > 1 ? 25 : 10;
}

/*
 * Moves a leaf's end to the place nearby where the high key needs fewest columns, as nbtree does.
 * So pages end where groups do (a tenant, a device, a key), and what ascends within a group goes to
 * a page's end.
 */
static int
better_end(Split *s, int from, int at, int most)
{
	int			reach = Max((at - from) * s->reach / 100, 1);
	int			best = at;
	int			least = penalty(s, at);

	for (int d = 1; d <= reach && least > 1; d++)
		for (int side = -1; side <= 1; side += 2)
		{
			int			i = at + side * d;
			int			needs;
			MtpSpan		span;

			if (i <= from || i > most || (needs = penalty(s, i)) >= least)
				continue;
			mtp_span_begin(&span, s->code);
			for (int j = from; j < i && side > 0; j++)
				mtp_span_add(&span, s->items[j]);
			if (side > 0 && !range_fits(s, from, i, mtp_span_bytes(&span)))
				continue;
			best = i;
			least = needs;
		}
	return best;
}

/*
 * Distributes the items over k pages by their bytes; false if k pages are too few.
 *
 * With full = 0 the shares are equal.  Otherwise each page but the last gets `full` bytes: the page
 * grows at its end, or more items will follow.
 */
static bool
distribute_items(Split *s, int k, Size total, Size full)
{
	int			at = 0;
	Size		left = total;

	for (int p = 0; p < k; p++)
	{
		int			from = at;
		Size		room = 0;
		MtpSpan		span;
		Size		target = p == k - 1 ? left : full ? Min(full, left) :
		(Size) (left / (k - p) * (1 + s->vary * (2 * pg_prng_double(&pg_global_prng_state) - 1)));

		s->cuts[p] = at;
		mtp_span_begin(&span, s->code);
		while (at < s->n - (k - 1 - p))
		{
			Size		r = item_room(s, at);

			if (at > from && p < k - 1 && Max(room, mtp_span_room(&span)) + r / 2 > target)
				break;
			mtp_span_add(&span, s->items[at]);
			/* An inner page's first item keeps its downlink alone. */
			if (at == from && MtpIsInner(s->orig))
				span.whole = MAXALIGN(sizeof(IndexTupleData));
			if (at > from && !range_fits(s, from, at + 1, mtp_span_bytes(&span)))
				break;
			room += r;
			at++;
		}
		if (p < k - 1 && s->reach > 0 && MtpIsLeaf(s->orig) && at > from && at < s->n)
		{
			int			end = better_end(s, from, at, s->n - (k - 1 - p));

			for (; at > end; at--)
				room -= item_room(s, at - 1);
			for (; at < end; at++)
				room += item_room(s, at);
		}
		left -= room;
	}
	s->cuts[k] = s->n;
	s->k = k;
	return at == s->n;
}

/*
 * Decides how many pages the items fill, and where one page ends and the next one begins.
 *
 * A single new item halves the page, which leaves room for the items to come.  Two kinds of pages
 * see no such items and are packed to the fill factor: one that grows at its end, and all below the
 * rest of a batch.  Elsewhere a batch fills its pages a little beyond the fill factor if that saves
 * a page: as many entries again as a packed page has, new versions of its rows, make two pages.  A
 * page keeps two items on the average, whatever the fill factor.  With one child on each inner
 * page, the levels would not get smaller upward.
 */
static void
plan_split(Split *s, int n)
{
	int			percent = MtpIsLeaf(s->orig) ? mtp_blink_fillfactor(s->put->rel) :
	BTREE_NONLEAF_FILLFACTOR;
	Size		fill = MTP_FILL_ROOM(percent);
	Size		total = 0;
	MtpSpan		all;
	bool		pack = s->append || s->put->more;
	Size		most = pack ? fill : Min(fill + fill / 16, MTP_FILL_ROOM(100));
	int			max = Min(s->n, MTP_BLINK_MAX_K);
	int			k;

	/* The record has the children as well, and the right sibling (publish_pages). */
	StaticAssertStmt(6 + 3 * (MTP_BLINK_MAX_K - 1) <= MTP_CHANGE_CHUNKS, "a record has K pages");
	max = Min(max, MTP_CHANGE_BUFFERS - 1 - s->put->nchildren);

	mtp_span_begin(&all, s->code);
	for (int i = 0; i < s->n; i++)
		mtp_span_add(&all, s->items[i]);
	find_narrow(s, &all);
	for (int i = 0; i < s->n; i++)
		total += item_room(s, i);

	/*
	 * As lists, what a batch brings may fit.  One entry will be followed by others like it, so it
	 * wants more room.  A single list, which cannot be cut, leaves that.
	 */
	if (MtpIsLeaf(s->orig) && mtp_span_room(&all) <= MTP_FILL_ROOM(n > 1 ? 96 : 50) &&
		range_fits(s, 0, s->n, mtp_span_bytes(&all)))
	{
		s->k = 1;
		s->cuts[0] = 0;
		s->cuts[1] = s->n;
		return;
	}

	/*
	 * Three children, and keys so wide that a page has room for two.  The page that gets one child
	 * takes the next key that comes there without a split.  No rule knows which page that will be.
	 * A rule that is wrong each time leaves pages of one child behind, and a level as long as the
	 * one below it: so chance decides.
	 */
	if (n == 1 && s->n == 3 && MtpIsInner(s->orig) &&
		distribute_items(s, 2, total, pg_prng_bool(&pg_global_prng_state) ? 1 : total))
		return;

	if (n == 1)
		k = 2;
	else
		k = Max(2, Min((total + most - 1) / most, Min(MTP_BLINK_USUAL_K, s->n / 2)));
	for (;; k++)
	{
		s->reach = reach_of(s, n);
		s->vary = 0;
		if (MtpIsLeaf(s->orig) && n > 1 && k * fill > total)
			s->vary = Min(VARY, (double) (k * fill) / total - 1);
		if ((pack && distribute_items(s, k, total, fill)) || distribute_items(s, k, total, 0))
			break;
		s->reach = s->vary = 0;
		if ((pack && distribute_items(s, k, total, fill)) || distribute_items(s, k, total, 0))
			break;
		if (k >= max)
		{
			/* Large items stand in bad places: no shares fit.  Filling each page must do. */
			if (distribute_items(s, max, total, total))
				break;
			elog(ERROR, "too many items for one split of index \"%s\"",
				 RelationGetRelationName(s->put->rel));
		}
	}
}

/* Makes a pivot of a high key: it leads to blkno. */
static IndexTuple
make_pivot(IndexTuple highkey, BlockNumber blkno)
{
	IndexTuple	pivot = CopyIndexTuple(highkey);

	BTreeTupleSetDownLink(pivot, blkno);
	return pivot;
}

/* Makes an inner page's first item: minus infinity, with the downlink of `item`. */
static IndexTuple
make_first(IndexTuple item)
{
	IndexTuple	first = palloc0(sizeof(IndexTupleData));

	first->t_tid = item->t_tid;
	first->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(first, 0, false);
	return first;
}

/*
 * Which of a page's items are narrow, a bit for each, and these ones' heads, for the record;
 * palloc'd.  *bytes gets the size, 0 if none can be.
 */
static char *
narrow_items(Page page, Size *bytes)
{
	MtpPageHeader *h = MtpHeader(page);
	char	   *bits;
	int			rank = 0;

	*bytes = 0;
	if ((h->norm & MTP_NORM_CUT) == 0)
		return NULL;
	*bytes = MTP_SAME_BYTES(h->nitems);
	bits = palloc0(*bytes + h->nitems * sizeof(uint32));
	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++, rank++)
		{
			const MtpNode *node = &MtpNodes(page)[i];

			if (!mtp_off_narrow(h->norm, node->offs[j]))
				continue;
			bits[rank / 8] |= 1 << (rank % 8);
			memcpy(bits + *bytes, &node->heads[j], sizeof(uint32));
			*bytes += sizeof(uint32);
		}
	return bits;
}

/*
 * Allocates the K - 1 new pages, exclusively locked, and makes the images of all K: links, flags,
 * high keys and items.  All this may fail; no page of the tree has changed yet (invariant B2).
 */
static void
make_pages(Split *s)
{
	Relation	rel = s->put->rel;
	MtpPageHeader *oh = MtpHeader(s->orig);
	bool		leaf = oh->type == MTP_PAGE_LEAF;
	BTScanInsert itup_key = leaf ? _bt_mkscankey(rel, NULL) : NULL;
	BTCycleId	cycleid;
	char	   *images = palloc(s->k * BLCKSZ);

	if (itup_key)
		itup_key->heapkeyspace = true;
	if (s->k > 1)
		MTP_INJECT("split_begins");
	for (int i = 1; i < s->k; i++)
	{
		IndexTuple	right = s->items[s->cuts[i]];

		s->pivots[i] = leaf ?
			mtp_blink_truncate(rel, s->items[s->cuts[i] - 1], right, itup_key) :
			CopyIndexTuple(right);
		s->bufs[i] = mtp_blink_alloc(rel);
	}

	/*
	 * The cycle id is asked for behind the allocation (invariant B11).  A VACUUM that began before
	 * a page was allocated and locked may have passed its block, and must be told to come back.
	 */
	cycleid = s->k == 1 ? oh->cycleid : leaf ? _bt_vacuum_cycleid(rel) : 0;
	for (int i = 0; i < s->k; i++)
	{
		Page		page = images + i * BLCKSZ;
		MtpPageHeader *h = MtpHeader(page);
		bool		last = i == s->k - 1;

		s->pages[i] = page;
		mtp_page_init(page, oh->type, oh->level, s->code);
		h->left = i == 0 ? oh->left : BufferGetBlockNumber(s->bufs[i - 1]);
		h->right = last ? oh->right : BufferGetBlockNumber(s->bufs[i + 1]);
		h->cycleid = cycleid;
		/* No right sibling but the last page's has a downlink yet (B4). */
		h->flags = s->k == 1 ? oh->flags & ~MTP_HAS_DEAD :
			last ? (oh->flags & MTP_INCOMPLETE) : MTP_INCOMPLETE;
		if (i > 0)
			s->pivots[i] = make_pivot(s->pivots[i], BufferGetBlockNumber(s->bufs[i]));
		if (i > 0 && !leaf)
			s->items[s->cuts[i]] = make_first(s->items[s->cuts[i]]);
	}
	for (int i = 0; i < s->k; i++)
	{
		IndexTuple	high = i < s->k - 1 ? s->pivots[i + 1] :
		oh->highkey ? MtpHighKey(s->orig) : NULL;

		mtp_page_pack(s->pages[i], s->cuts[i + 1] - s->cuts[i], s->items + s->cuts[i], high);
		if (i > 0)
			s->narrows[i] = narrow_items(s->pages[i], &s->nnarrows[i]);
	}
}

/* What the record says of the left page: how it is made of the old one. */
typedef struct Left
{
	MtpWalLeft	rec;
	int			nsame;
	char	   *items;
	Size		bytes;
	IndexTuple	high;			/* NULL: none */
} Left;

/* May fail, so it comes before the critical section (invariant B2). */
static void
describe_left(Split *s, Left *left)
{
	MtpPageHeader *h = MtpHeader(s->pages[0]);
	int			count = s->cuts[1];
	int			of = count == 0 ? 0 : s->ends != NULL ? s->ends[count - 1] : count;
	int			n = 0;

	while (n < s->nnew && s->pos[n] + n < of)
		n++;
	left->rec = (MtpWalLeft)
	{
		.nold = of - n,.nnew = n,.count = count,.flags = h->flags,.cycleid = h->cycleid,
			.has_high = h->highkey != 0,.norm = h->norm
	};
	left->nsame = MTP_SAME_BYTES(of);
	left->items = NULL;
	left->bytes = 0;
	if (n > 0)
		left->items = mtp_blink_flatten(h->norm, n, s->new, &left->bytes);
	left->high = h->highkey != 0 ? MtpHighKey(s->pages[0]) : NULL;

#ifdef USE_ASSERT_CHECKING
	{
		/* Replay makes the same page. */
		Page		image = mtp_page_left(s->orig, h->norm, of - n, n, s->pos, s->new, s->same,
										  count, left->high);

		Assert(image != NULL);
		MtpHeader(image)->right = h->right;
		MtpHeader(image)->flags = h->flags;
		MtpHeader(image)->cycleid = h->cycleid;
		Assert(memcmp(MtpHeader(image), h, BLCKSZ - MTP_HEADER_AT) == 0);
	}
#endif
}

/*
 * Puts the K images in place, with one record over these pages, the old right sibling (rbuf, or
 * InvalidBuffer) and the children.  All of them are locked exclusively.  The record has the new
 * pages whole, and of the left one what makes it of the old one.
 *
 * The order is from right to left: no page leads to one that is not there yet (invariant B3).
 */
static void
publish_pages(Split *s, Buffer rbuf)
{
	MtpChange	c;
	MtpWalSplit rec = {.k = s->k,.has_right = BufferIsValid(rbuf)};
	MtpBlinkPut *put = s->put;
	Left		left;

	describe_left(s, &left);
	PageSetLSN(s->pages[0], PageGetLSN(s->orig));	/* it tells whether the record needs an image */
	mtp_change_init(&c, put->rel, MTP_WAL_SPLIT);
	for (int i = 0; i < s->k; i++)
		mtp_change_buffer(&c, s->bufs[i],
						  i == 0 ? REGBUF_STANDARD : REGBUF_WILL_INIT | REGBUF_STANDARD);
	if (BufferIsValid(rbuf))
		mtp_change_buffer(&c, rbuf, REGBUF_STANDARD);
	for (int i = 0; i < put->nchildren; i++)
		mtp_change_buffer(&c, put->children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;

	/* A crash before the record leaves K - 1 pages that belong to nothing: VACUUM finds them. */
	mtp_change_begin(&c);
	if (BufferIsValid(rbuf))
		MtpHeader(BufferGetPage(rbuf))->left = BufferGetBlockNumber(s->bufs[s->k - 1]);
	for (int i = s->k - 1; i >= 0; i--)
	{
		Assert(i == s->k - 1 ||
			   MtpHeader(BufferGetPage(s->bufs[i + 1]))->left == BufferGetBlockNumber(s->bufs[i]));
		memcpy(BufferGetPage(s->bufs[i]), s->pages[i], BLCKSZ);
	}
	for (int i = 0; i < put->nchildren; i++)
		MtpHeader(BufferGetPage(put->children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, &left.rec, sizeof(left.rec));
	mtp_change_bufdata(&c, 0, s->pos, left.rec.nnew * sizeof(uint16));
	mtp_change_bufdata(&c, 0, s->same, left.nsame);
	if (left.high != NULL)
		mtp_change_bufdata(&c, 0, left.high, MAXALIGN(IndexTupleSize(left.high)));
	if (left.items != NULL)
		mtp_change_bufdata(&c, 0, left.items, left.bytes);
	for (int i = 1; i < s->k; i++)
	{
		PageHeader	ph = (PageHeader) s->pages[i];

		mtp_change_bufdata(&c, i, MtpHeader(s->pages[i]), sizeof(MtpPageHeader));
		mtp_change_bufdata(&c, i, s->pages[i] + ph->pd_upper, ph->pd_special - ph->pd_upper);
		mtp_change_bufdata(&c, i, s->narrows[i], s->nnarrows[i]);
	}
	mtp_change_finish(&c);
}

/*
 * Makes a new root above the pages bufs[] of a split root, with one record, and clears the flags of
 * the pages whose right siblings get their downlinks there (invariant B4).  Returns how many pages
 * it leads to: all npages, or as many as it has room for where pivots are wide, two at least.  With
 * npages = 0 the root is the first leaf of an empty tree.
 *
 * meta and bufs[] are locked exclusively.  Unlocks and unpins meta.
 */
static int
make_new_root(Relation rel, Buffer meta, uint32 level, int npages, Buffer *bufs, IndexTuple *pivots)
{
	int			k = 0;
	Size		bytes = MAXALIGN(sizeof(IndexTupleData));
	Buffer		rootbuf = mtp_blink_alloc(rel);
	Page		page = palloc(BLCKSZ);
	PageHeader	ph = (PageHeader) page;
	MtpWalNewRoot rec = {.root = BufferGetBlockNumber(rootbuf),.level = level,
	.lists = MtpBlinkMetaOf(BufferGetPage(meta))->lists};
	MtpChange	c;
	IndexTupleData first = {0};

	if (level >= MTP_BLINK_HEIGHT)
		elog(ERROR, "index \"%s\" has too many levels", RelationGetRelationName(rel));
	mtp_page_init(page, npages > 0 ? MTP_PAGE_INNER : MTP_PAGE_LEAF, level,
				  mtp_blink_info(rel)->norm);
	MtpHeader(page)->flags = MTP_ROOT;
	if (npages > 0)
	{
		for (k = 1; k < npages; k++)
		{
			bytes += MAXALIGN(IndexTupleSize(pivots[k]));
			if (mtp_page_need(k + 1, bytes) > MTP_PAGE_ROOM)
				break;
		}
		BTreeTupleSetDownLink(&first, BufferGetBlockNumber(bufs[0]));
		pivots[0] = make_first(&first);
		mtp_page_pack(page, k, pivots, NULL);
	}

	mtp_change_init(&c, rel, MTP_WAL_NEWROOT);
	mtp_change_buffer(&c, meta, REGBUF_WILL_INIT | REGBUF_STANDARD);
	mtp_change_buffer(&c, rootbuf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	for (int i = 0; i < k - 1; i++)
		mtp_change_buffer(&c, bufs[i], REGBUF_STANDARD);

	/*
	 * The metapage leads to the new root in the same record.  No process is on its way to the new
	 * root yet, and one that comes by the old root finds its way by right links.
	 */
	mtp_change_begin(&c);
	mtp_blink_meta_init(BufferGetPage(meta), rec.root, level, rec.lists != 0);
	memcpy(BufferGetPage(rootbuf), page, BLCKSZ);
	for (int i = 0; i < k - 1; i++)
		MtpHeader(BufferGetPage(bufs[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 1, MtpHeader(page), sizeof(MtpPageHeader));
	mtp_change_bufdata(&c, 1, page + ph->pd_upper, ph->pd_special - ph->pd_upper);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(rootbuf);
	UnlockReleaseBuffer(meta);
	pfree(page);
	return k;
}

/*
 * Posts the downlinks of bufs[1 .. k - 1], whose left neighbours in bufs[] are flagged, and clears
 * the flags: in the parent, which may be split in turn, or in a new root.  The pivots separate the
 * pages.  All bufs[] are locked exclusively, and stay so: no process meets a flag of a split that
 * is under way.  Raises ERRCODE_INDEX_CORRUPTED if no page leads to bufs[0].
 */
static void
post_downlinks(MtpBlinkPut *put, int k, Buffer *bufs, IndexTuple *pivots)
{
	MtpBlinkPut up = {.rel = put->rel,.stack = put->stack};
	uint32		level = MtpHeader(BufferGetPage(bufs[0]))->level + 1;
	uint16		pos[MTP_BLINK_MAX_K];
	uint64		norms[MTP_BLINK_MAX_K];
	Buffer		parent;
	Buffer		meta = InvalidBuffer;
	int			at;

	/*
	 * Only a leftmost page can be the root; the metapage tells.  It is locked after all pages of
	 * the tree, here as in mtp_blink_make_root, which holds none.
	 */
	if (MtpLeftmost(BufferGetPage(bufs[0])))
		meta = mtp_blink_read_meta(put->rel, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(meta) &&
		MtpBlinkMetaOf(BufferGetPage(meta))->root != BufferGetBlockNumber(bufs[0]))
		UnlockReleaseBuffer(meta);
	else if (BufferIsValid(meta))
	{
		/* The page is the root, and the metapage's lock keeps it that. */
		int			done = make_new_root(put->rel, meta, level, k, bufs, pivots);

		if (done == k)
			return;

		/* The root is a parent now.  The last page that it leads to is the first of the rest. */
		MTP_INJECT("root_full");
		k -= done - 1;
		bufs += done - 1;
		pivots += done - 1;
	}

	/*
	 * An error from here on, as a crash does, leaves a whole tree with flags, and the next writer
	 * that comes by finishes the split (invariant B4).
	 */
	parent = mtp_blink_parent(put->rel, put->stack, level, pivots[1],
							  BufferGetBlockNumber(bufs[0]), &at);
	if (!BufferIsValid(parent))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("failed to re-find parent key in index \"%s\" for block %u",
						RelationGetRelationName(put->rel), BufferGetBlockNumber(bufs[0]))));

	/* The downlink must not be there yet: if it is, the left page's flag is damage. */
	if (at + 1 < MtpHeader(BufferGetPage(parent))->nitems &&
		mtp_blink_downlink(put->rel, BufferGetPage(parent), at + 1) ==
		BufferGetBlockNumber(bufs[1]))
		mtp_blink_fail_page(put->rel, BufferGetPage(bufs[0]),
							"page is marked as split, but its right sibling has a downlink");
	Assert(k > 1);
	for (int i = 1; i < k; i++)
	{
		pos[i - 1] = at + 1;
		norms[i - 1] = mtp_norm_tuple(MtpHeader(BufferGetPage(parent))->norm, pivots[i]);
	}

	/* The last page keeps its flag, if it has one: it tells of its own right sibling. */
	up.nchildren = k - 1;
	up.children = bufs;
	mtp_blink_put(&up, parent, k - 1, pos, pivots + 1, norms);
}

/*
 * Splits the page, with n new items for it, into as many pages as they fill, and posts the
 * downlinks.  One page is enough where equal keys become lists: it is written anew, and the tree
 * above is not touched.
 *
 * Locks, in the order of the tree: the page, which the caller has locked exclusively, new pages,
 * the right sibling, then the parent.  Unlocks and unpins all of them.
 */
static void
split_page(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items)
{
	Page		page = BufferGetPage(buf);
	Split		s = {.put = put,.orig = page,
	.code = mtp_page_code(MtpHeader(page)->type, mtp_blink_info(put->rel)->norm)};
	Buffer		rbuf = InvalidBuffer;

	/* The images come first, so that the right sibling is locked as briefly as possible. */
	merge_items(&s, n, pos, items);
	plan_split(&s, n);
	s.bufs[0] = buf;
	make_pages(&s);
	if (s.k > 1 && !MtpRightmost(s.orig))
	{
		rbuf = mtp_blink_read_link(put->rel, MtpHeader(s.orig)->right, MtpHeader(s.orig)->level,
								   BUFFER_LOCK_EXCLUSIVE);
		if (MtpHeader(BufferGetPage(rbuf))->left != BufferGetBlockNumber(buf))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("right sibling's left link doesn't match in index \"%s\": "
							"block %u links to %u instead of %u",
							RelationGetRelationName(put->rel), BufferGetBlockNumber(rbuf),
							MtpHeader(BufferGetPage(rbuf))->left, BufferGetBlockNumber(buf))));

		/* VACUUM stops following this split where another one's pages begin (invariant B11). */
		if (MtpHeader(BufferGetPage(rbuf))->cycleid != MtpHeader(s.pages[0])->cycleid)
			MtpHeader(s.pages[s.k - 1])->flags |= MTP_SPLIT_END;
	}
	publish_pages(&s, rbuf);
	put->k = s.k;
	if (BufferIsValid(rbuf))
		UnlockReleaseBuffer(rbuf);
	if (s.k > 1)
		MTP_INJECT(MtpIsLeaf(s.pages[0]) ? "leaf_split" : "inner_split");

	/* All K pages are still locked, so no other process meets their flags (invariant B4). */
	if (s.k > 1)
		post_downlinks(put, s.k, s.bufs, s.pivots);
	for (int i = 0; i < s.k; i++)
		UnlockReleaseBuffer(s.bufs[i]);
}

Size
mtp_blink_put_limit(Relation rel, bool small)
{
	Size		page = MTP_FILL_ROOM(mtp_blink_fillfactor(rel));

	/* A block's data in a record has 64 kB, and new items may all be the left page's. */
	return Min(Min(small ? MTP_BLINK_PUT_BYTES + MTP_PAGE_ROOM : MTP_BLINK_PUT_BYTES, 48 * 1024),
			   (MTP_BLINK_USUAL_K - 2) * page);
}

void
mtp_blink_put(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms)
{
	Size		bytes;
	bool		inside = false;
	MemoryContext old,
				cxt;

	put->k = 1;
	if (MtpIsLeaf(BufferGetPage(buf)) && mtp_blink_info(put->rel)->lists != 0 &&
		mtp_blink_put_merged(put, buf, n, pos, items, norms, &inside))
		return;

	/* An insertion that reads the page's items relies on them (invariant B14). */
	bytes = mtp_page_bytes(BufferGetPage(buf), n, items, norms);
	if (mtp_page_insert_reads(BufferGetPage(buf), n, bytes))
		mtp_blink_check_items(put->rel, buf);
	if (!inside && mtp_page_fits(BufferGetPage(buf), n, bytes))
	{
		put_in_place(put, buf, n, pos, items, norms);
		return;
	}
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower split", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	split_page(put, buf, n, pos, items);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

void
mtp_blink_finish_split(Relation rel, Buffer left, MtpBlinkStack *stack)
{
	Page		page = BufferGetPage(left);
	MtpBlinkPut put = {.rel = rel,.stack = stack};
	Buffer		bufs[2];
	IndexTuple	pivots[2] = {NULL, NULL};

	Assert(MtpIncomplete(page));

	/* With both locked, nobody else posts this downlink, or splits the right page meanwhile. */
	bufs[0] = left;
	bufs[1] = mtp_blink_read_link(rel, MtpHeader(page)->right, MtpHeader(page)->level,
								  BUFFER_LOCK_EXCLUSIVE);
	pivots[1] = make_pivot(MtpHighKey(page), BufferGetBlockNumber(bufs[1]));
	elog(DEBUG1, "finishing incomplete split of index \"%s\" at block %u",
		 RelationGetRelationName(rel), BufferGetBlockNumber(left));
	MTP_INJECT("split_repair");
	post_downlinks(&put, 2, bufs, pivots);
	pfree(pivots[1]);
	UnlockReleaseBuffer(bufs[1]);
	UnlockReleaseBuffer(left);
}

void
mtp_blink_make_root(Relation rel)
{
	Buffer		meta = mtp_blink_read_meta(rel, BUFFER_LOCK_EXCLUSIVE);

	/* Another backend may have made the root before the metapage was locked. */
	if (MtpBlinkMetaOf(BufferGetPage(meta))->root != InvalidBlockNumber)
		UnlockReleaseBuffer(meta);
	else
		(void) make_new_root(rel, meta, 0, 0, NULL, NULL);
}
