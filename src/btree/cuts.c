/*
 * cuts.c
 *	  Where a leaf is cut that is split into several.
 */
#include "btree/leaf.h"

/* A cut may move by so many bytes to where fewer attributes tell its sides apart. */
#define WINDOW				(MTP_LEAF_ROOM / 16)

/* … and to where a key begins, if the page keeps so much. */
#define LEAST				(MTP_LEAF_ROOM / 4)

typedef struct Plan
{
	MtpBtreeLeaf *leaf;
	int			n;
	const MtpBtreeItem *items;
	uint32	   *sums;			/* bytes of the items before each */
	Size		last_high;		/* bytes of the leaf's high key */
	int			nkeyatts;
} Plan;

/* Attributes that a high key between items i - 1 and i needs; more than nkeyatts: a TID too. */
static int
attributes(Plan *p, int i)
{
	return _bt_keep_natts_fast(p->leaf->index, p->items[i - 1].itup, p->items[i].itup);
}

/* The bytes of a page with the items from .. to - 1 and its high key, at most. */
static Size
page_bytes(Plan *p, int from, int to)
{
	Size		bytes = p->sums[to] - p->sums[from];
	IndexTuple	right;

	if (to == p->n)
		return bytes + p->last_high;
	right = p->items[to].itup;
	return bytes + sizeof(ItemIdData) + MAXALIGN(sizeof(ItemPointerData)) +
		(BTreeTupleIsPosting(right) ? BTreeTupleGetPostingOffset(right) :
		 MAXALIGN(IndexTupleSize(right)));
}

/*
 * The cut behind a page that begins with item `from` and should take `want` bytes: at least one
 * item, and no more than fit.
 */
static int
choose_cut(Plan *p, int from, Size want, bool pack)
{
	int			cut = from + 1;
	int			most;
	int			best;
	int			fewest;

	while (cut < p->n - 1 && page_bytes(p, from, cut + 1) <= MTP_LEAF_ROOM &&
		   (p->sums[cut] + p->sums[cut + 1]) / 2 - p->sums[from] < want)
		cut++;
	fewest = attributes(p, cut);
	if (fewest == 1)
		return cut;

	/* Look around for a better one, the nearest first. */
	best = cut;
	for (int way = -1; way <= (pack ? -1 : 1); way += 2)
		for (int i = cut + way; i > from && i < p->n && fewest > 1 &&
			 (way > 0 ? p->sums[i] - p->sums[cut] : p->sums[cut] - p->sums[i]) <= WINDOW &&
			 page_bytes(p, from, i) <= MTP_LEAF_ROOM; i += way)
		{
			int			here = attributes(p, i);

			if (here < fewest || (here == fewest && abs(i - cut) < abs(best - cut)))
			{
				best = i;
				fewest = here;
			}
		}
	if (fewest <= p->nkeyatts)
		return best;

	/* One key all around: where does it begin, and end? */
	for (most = cut; most < p->n - 1 && page_bytes(p, from, most + 1) <= MTP_LEAF_FULL; most++)
		if (attributes(p, most) <= p->nkeyatts)
			return most;
	for (best = cut - 1; best > from && p->sums[best] - p->sums[from] >= LEAST; best--)
		if (attributes(p, best) <= p->nkeyatts)
			return best;

	/*
	 * Rows mostly come with ascending TIDs, so a page in the middle of a key gets no more entries
	 * of it, and is filled.
	 */
	return most;
}

/*
 * Shares the items out among k pages, evenly, or (pack) so that all but the last get `fill` bytes;
 * k is then the most that there may be.  Returns how many pages it took; 0 if k are too few.
 */
static int
distribute(Plan *p, int k, bool pack, Size fill, int *cuts)
{
	int			pages = 0;
	int			from = 0;

	cuts[0] = 0;
	for (;;)
	{
		Size		left = p->sums[p->n] - p->sums[from];
		int			rest = k - pages;	/* pages that may come */

		if (page_bytes(p, from, p->n) <= MTP_LEAF_ROOM && (rest == 1 || (pack && left <= fill)))
		{
			cuts[++pages] = p->n;
			return pages;
		}
		if (rest <= 1 || from >= p->n - 1)
			return 0;
		from = choose_cut(p, from, pack ? fill : left / rest, pack);
		cuts[++pages] = from;
	}
}

/* As many pages as it takes to fill them to `fill` bytes, or a little beyond that. */
static int
share_out(Plan *p, bool pack, Size fill, int *cuts)
{
	Size		most = fill + fill / 16;
	int			pages = 0;

	if (pack)
		return distribute(p, p->leaf->pages, true, fill, cuts);
	for (int k = Max(2, (p->sums[p->n] + most - 1) / most); k <= p->leaf->pages && pages == 0; k++)
		pages = distribute(p, k, false, fill, cuts);
	return pages;
}

/*
 * As src/blink has it: a batch fills its pages a little beyond the fill factor if that saves a
 * page, with equal shares.  Where the index grows at its end, or more of the batch comes, all but
 * the last page get the fill factor.  A low fill factor, or one that meets large items, may want
 * more pages than there may be: then it is 90 percent.
 */
int
mtp_btree_plan(MtpBtreeLeaf *leaf, int n, const MtpBtreeItem *items, bool pack,
			   int cuts[MTP_LEAF_PAGES + 1])
{
	Plan		p = {.leaf = leaf,.n = n,.items = items};
	int			pages;

	p.nkeyatts = IndexRelationGetNumberOfKeyAttributes(leaf->index);
	p.sums = palloc((n + 1) * sizeof(uint32));
	p.sums[0] = 0;
	for (int i = 0; i < n; i++)
		p.sums[i + 1] = p.sums[i] + MTP_LEAF_BYTES(items[i].itup);
	if (!P_RIGHTMOST(leaf->opaque))
		p.last_high = MTP_LEAF_BYTES(mtp_btree_item(leaf->page, P_HIKEY));
	if (page_bytes(&p, 0, n) <= MTP_LEAF_ROOM)
	{
		cuts[0] = 0;
		cuts[1] = n;
		return 1;
	}
	pages = share_out(&p, pack, MTP_LEAF_ROOM * BTGetFillFactor(leaf->index) / 100, cuts);
	if (pages == 0)
		pages = share_out(&p, false, MTP_LEAF_ROOM * BTREE_DEFAULT_FILLFACTOR / 100, cuts);
	return pages;
}
