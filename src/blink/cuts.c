/*
 * cuts.c
 *	  Plans a split: how many pages its items fill, and where one page ends and the next one begins.
 *
 * Where a page ends follows nbtree's rules (nbtsplitloc.c), for K pages and for halves (README,
 * "Where pages end").
 */
#include "blink/split.h"

#include "common/pg_prng.h"

/*
 * True if the items from .. to - 1 fit on one page, with the high key that is made from item `to`.
 * bytes: what the items take there.  A leaf's high key may be a heap TID larger than an item's key.
 */
static bool
range_fits(MtpCuts *c, int from, int to, Size bytes)
{
	IndexTuple	high = to < c->n ? c->items[to] :
	MtpHeader(c->orig)->highkey ? MtpHighKey(c->orig) : NULL;

	if (high != NULL)
		bytes += to < c->n && MtpIsLeaf(c->orig) ?
			MAXALIGN(mtp_item_key_size(high)) + MAXALIGN(sizeof(ItemPointerData)) :
			MAXALIGN(IndexTupleSize(high));
	return mtp_page_need(to - from, bytes) <= MTP_PAGE_ROOM;
}

/* What an item takes of a page, as far as it can be told before it is known which one. */
static inline Size
item_room(MtpCuts *c, int i)
{
	Size		room = mtp_body_size(c->code, c->items[i]) + MTP_SLOT_ROOM;
	bool		narrow = c->all_narrow ? mtp_item_cuts(c->code, c->items[i]) :
	c->narrow != NULL && c->narrow[i];

	return narrow ? room - mtp_norm_align(c->code) : room;
}

/*
 * Tells which items are likely to become narrow: where at least RUN of them in a row do on a page
 * of their own.
 */
#define RUN	32

static void
find_narrow(MtpCuts *c, const MtpSpan *all)
{
	if (all->plain == 0)
		return;
	c->all_narrow = mtp_span_narrow(all);
	if (c->all_narrow)
		return;
	c->narrow = palloc0(c->n);
	for (int i = 0, next; i < c->n; i = next)
	{
		MtpSpan		span;

		mtp_span_begin(&span, c->code);
		for (next = i; next < c->n && span.n < MTP_MAX_ITEMS; next++)
		{
			MtpSpan		longer = span;

			mtp_span_add(&longer, c->items[next]);
			if (!mtp_span_narrow(&longer))
				break;
			span = longer;
		}
		for (int j = i; j < next && span.n >= RUN; j++)
			c->narrow[j] = mtp_item_cuts(c->code, c->items[j]);
	}
}

/*
 * Leaves that a batch splits get unequal shares, by up to this part of them: else leaves of one age
 * would all be split again by the same batch.
 */
#define VARY	0.2

/* How many key columns a high key needs between item i and the one before it; one more: the TID. */
static int
penalty(MtpCuts *c, int i)
{
	return _bt_keep_natts_fast(c->rel, c->items[i - 1], c->items[i]);
}

/*
 * How far a leaf's end may be moved, in per cent of its items.  Groups that ascend gain from more;
 * with one column there are no groups but those of equal keys.  The halves for a single item are
 * moved as far as nbtree's.
 */
static int
reach_of(MtpCuts *c)
{
	return c->nnew == 1 ? 5 : IndexRelationGetNumberOfKeyAttributes(c->rel) > 1 ? 25 : 10;
}

/*
 * Moves a leaf's end to the place nearby where the high key needs fewest columns, as nbtree does.
 * So pages end where groups do (a tenant, a device, a key), and what ascends within a group goes to
 * a page's end.
 */
static int
better_end(MtpCuts *c, int from, int at, int most)
{
	int			reach = Max((at - from) * c->reach / 100, 1);
	int			best = at;
	int			least = penalty(c, at);

	for (int d = 1; d <= reach && least > 1; d++)
		for (int side = -1; side <= 1; side += 2)
		{
			int			i = at + side * d;
			int			needs;
			MtpSpan		span;

			if (i <= from || i > most || (needs = penalty(c, i)) >= least)
				continue;
			mtp_span_begin(&span, c->code);
			for (int j = from; j < i && side > 0; j++)
				mtp_span_add(&span, c->items[j]);
			if (side > 0 && !range_fits(c, from, i, mtp_span_bytes(&span)))
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
distribute_items(MtpCuts *c, int k, Size total, Size full)
{
	int			at = 0;
	Size		left = total;

	for (int p = 0; p < k; p++)
	{
		int			from = at;
		Size		room = 0;
		MtpSpan		span;
		Size		target = p == k - 1 ? left : full ? Min(full, left) :
		(Size) (left / (k - p) * (1 + c->vary * (2 * pg_prng_double(&pg_global_prng_state) - 1)));

		c->cuts[p] = at;
		mtp_span_begin(&span, c->code);
		while (at < c->n - (k - 1 - p))
		{
			Size		r = item_room(c, at);

			if (at > from && p < k - 1 && Max(room, mtp_span_room(&span)) + r / 2 > target)
				break;
			mtp_span_add(&span, c->items[at]);
			/* An inner page's first item keeps its downlink alone. */
			if (at == from && MtpIsInner(c->orig))
				span.whole = MAXALIGN(sizeof(IndexTupleData));
			if (at > from && !range_fits(c, from, at + 1, mtp_span_bytes(&span)))
				break;
			room += r;
			at++;
		}
		if (p < k - 1 && c->reach > 0 && MtpIsLeaf(c->orig) && at > from && at < c->n)
		{
			int			end = better_end(c, from, at, c->n - (k - 1 - p));

			for (; at > end; at--)
				room -= item_room(c, at - 1);
			for (; at < end; at++)
				room += item_room(c, at);
		}
		left -= room;
	}
	c->cuts[k] = c->n;
	c->k = k;
	return at == c->n;
}

/*
 * A single new item halves the page, which leaves room for the items to come, unless pages are to
 * be packed to the fill factor.  Elsewhere a batch fills its pages a little beyond the fill factor
 * if that saves a page: as many entries again as a packed page has, new versions of its rows, make
 * two pages.  A page keeps two items on the average, whatever the fill factor.  With one child on
 * each inner page, the levels would not get smaller upward.
 */
void
mtp_blink_plan_cuts(MtpCuts *c)
{
	int			percent = MtpIsLeaf(c->orig) ? mtp_blink_fillfactor(c->rel) :
	BTREE_NONLEAF_FILLFACTOR;
	Size		fill = MTP_FILL_ROOM(percent);
	Size		total = 0;
	MtpSpan		all;
	Size		most = c->pack ? fill : Min(fill + fill / 16, MTP_FILL_ROOM(100));
	int			k;

	mtp_span_begin(&all, c->code);
	for (int i = 0; i < c->n; i++)
		mtp_span_add(&all, c->items[i]);
	find_narrow(c, &all);
	for (int i = 0; i < c->n; i++)
		total += item_room(c, i);

	/*
	 * As lists, what a batch brings may fit.  One entry will be followed by others like it, so it
	 * wants more room.  A single list, which cannot be cut, leaves that.
	 */
	if (MtpIsLeaf(c->orig) && mtp_span_room(&all) <= MTP_FILL_ROOM(c->nnew > 1 ? 96 : 50) &&
		range_fits(c, 0, c->n, mtp_span_bytes(&all)))
	{
		c->k = 1;
		c->cuts[0] = 0;
		c->cuts[1] = c->n;
		return;
	}

	/*
	 * Three children, and keys so wide that a page has room for two.  The page that gets one child
	 * takes the next key that comes there without a split.  No rule knows which page that will be.
	 * A rule that is wrong each time leaves pages of one child behind, and a level as long as the
	 * one below it: so chance decides.
	 */
	if (c->nnew == 1 && c->n == 3 && MtpIsInner(c->orig) &&
		distribute_items(c, 2, total, pg_prng_bool(&pg_global_prng_state) ? 1 : total))
		return;

	if (c->nnew == 1)
		k = 2;
	else
		k = Max(2, Min((total + most - 1) / most, Min(MTP_BLINK_USUAL_K, c->n / 2)));
	for (;; k++)
	{
		c->reach = reach_of(c);
		c->vary = 0;
		if (MtpIsLeaf(c->orig) && c->nnew > 1 && k * fill > total)
			c->vary = Min(VARY, (double) (k * fill) / total - 1);
		if ((c->pack && distribute_items(c, k, total, fill)) || distribute_items(c, k, total, 0))
			break;
		c->reach = c->vary = 0;
		if ((c->pack && distribute_items(c, k, total, fill)) || distribute_items(c, k, total, 0))
			break;
		if (k >= Min(c->n, c->max))
		{
			/* Large items stand in bad places: no shares fit.  Filling each page must do. */
			if (distribute_items(c, Min(c->n, c->max), total, total))
				break;
			elog(ERROR, "too many items for one split of index \"%s\"",
				 RelationGetRelationName(c->rel));
		}
	}
}
