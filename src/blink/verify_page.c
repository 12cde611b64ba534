/*
 * verify_page.c
 *	  Checks a page of a B-link tree by itself: what must hold whatever other pages say.
 *
 * It compares items with the operator classes' functions.  The tree's own comparison (key.c) trusts
 * normalized keys; so these are checked as well.
 */
#include "blink/verify.h"

/* The number of key attributes that an item has. */
static int
count_atts(MtpVerify *v, IndexTuple itup)
{
	return Min(BTreeTupleGetNAtts(itup, v->rel), v->nkeyatts);
}

int
mtp_blink_verify_compare(MtpVerify *v, IndexTuple a, IndexTuple b, int *att)
{
	TupleDesc	tupdesc = RelationGetDescr(v->rel);
	int			na = count_atts(v, a);
	int			nb = count_atts(v, b);
	ItemPointer ta,
				tb;

	for (int i = 0; i < Min(na, nb); i++)
	{
		bool		anull,
					bnull;
		Datum		da = index_getattr(a, i + 1, tupdesc, &anull);
		Datum		db = index_getattr(b, i + 1, tupdesc, &bnull);
		int			cmp;

		*att = i;
		if (anull || bnull)
		{
			if (anull && bnull)
				continue;
			cmp = (v->rel->rd_indoption[i] & INDOPTION_NULLS_FIRST) ? -1 : 1;
			return anull ? cmp : -cmp;
		}
		cmp = DatumGetInt32(FunctionCall2Coll(index_getprocinfo(v->rel, i + 1, BTORDER_PROC),
											  v->rel->rd_indcollation[i], da, db));
		if (cmp != 0)
			return ((cmp < 0) != ((v->rel->rd_indoption[i] & INDOPTION_DESC) != 0)) ? -1 : 1;
	}

	/* Attributes and TIDs that a pivot lacks are minus infinity. */
	*att = Min(na, nb);
	if (na != nb)
		return na < nb ? -1 : 1;
	ta = BTreeTupleGetHeapTID(a);
	tb = BTreeTupleGetHeapTID(b);
	if (ta == NULL || tb == NULL)
		return (ta != NULL) - (tb != NULL);
	return ItemPointerCompare(ta, tb);
}

/*
 * What is wrong with a pivot, or NULL.  `first`: it is an inner page's first item, which has no
 * attributes; no other pivot lacks them all.
 */
static const char *
pivot_fault(MtpVerify *v, IndexTuple itup, bool first)
{
	const char *what = mtp_blink_pivot_fault(v->rel, itup);

	if (what == NULL && first != (BTreeTupleGetNAtts(itup, v->rel) == 0))
		return "pivot tuple has a wrong number of attributes";
	return what;
}

void
mtp_blink_verify_page_sane(MtpVerify *v, MtpVerifyPage *p)
{
	Page		page = MtpVerifyPageOf(p);
	MtpPageHeader *h = MtpHeader(page);
	MtpPos		pos = {0};
	MtpItemRoom room;
	const char *what;
	int			at;

	what = mtp_page_fault(page, &at);
	if (what)
		mtp_verify_fail(v, p->blkno, at, "The %s.", what);
	if (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER)
		return;
	if (!mtp_blink_norm_fits(v->rel, h->norm))
		mtp_verify_fail(v, p->blkno, -1, "Normalized keys are of kind 0x%02X instead of 0x%02X.",
						h->norm, mtp_blink_info(v->rel)->norm);
	if (h->highkey != 0 && (what = pivot_fault(v, MtpHighKey(page), false)) != NULL)
		mtp_verify_fail(v, p->blkno, -1, "High key: The %s.", what);
	for (bool more = h->nitems > 0; more; more = mtp_pos_next(page, &pos))
	{
		IndexTuple	itup = mtp_slot_item(page, pos.node, pos.slot, &room);

		what = MtpIsLeaf(page) ? mtp_blink_entry_fault(v->rel, itup) :
			pivot_fault(v, itup, pos.pos == 0);
		if (what)
			mtp_verify_fail(v, p->blkno, pos.pos, "The %s.", what);
		if (MtpIsLeaf(page) &&
			mtp_item_key_size(itup) - mtp_blink_data_end(v->rel, itup) >= MAXIMUM_ALIGNOF)
			mtp_verify_fail(v, p->blkno, pos.pos, "Entry is longer than its values.");
	}
}

/*
 * Checks the lists of a leaf: each is whole, none is above the high key, and those of one key don't
 * overlap.
 */
static void
check_lists(MtpVerify *v, MtpVerifyPage *p)
{
	Page		page = MtpVerifyPageOf(p);
	MtpPageHeader *h = MtpHeader(page);
	ItemPointerData tids[MTP_LIST_TIDS];
	MtpPos		pos = {0};
	MtpItemRoom room;
	IndexTuple	last = NULL;	/* the list before, with its last TID alone */
	int			att;

	for (bool more = h->nitems > 0; more; more = mtp_pos_next(page, &pos))
	{
		IndexTuple	itup = mtp_slot_item(page, pos.node, pos.slot, &room);
		int			n = mtp_item_decode(itup, tids);

		if (n == 0)
			mtp_verify_fail(v, p->blkno, pos.pos, "The list of TIDs is damaged.");
		if (last != NULL && mtp_blink_verify_compare(v, last, itup, &att) >= 0)
			mtp_verify_fail(v, p->blkno, pos.pos, "Item begins among the TIDs of the list before it.");
		last = NULL;
		if (!mtp_item_is_list(itup))
			continue;
		if (!v->lists)
			mtp_verify_fail(v, p->blkno, pos.pos,
							"Item is a list, in an index whose equal keys may differ.");
		if (h->format == MTP_PAGE_OLDEST)
			mtp_verify_fail(v, p->blkno, pos.pos, "Item is a list, on a page of format %u.",
							h->format);
		if (MtpListHeadOf(itup)->dead > n)
			mtp_verify_fail(v, p->blkno, pos.pos, "List has more dead TIDs than TIDs.");
		last = mtp_item_plain(itup, &tids[n - 1]);
		if (h->highkey != 0 && mtp_blink_verify_compare(v, last, MtpHighKey(page), &att) > 0)
			mtp_verify_fail(v, p->blkno, pos.pos, "Item is above the page's high key.");
	}
}

void
mtp_blink_verify_page(MtpVerify *v, MtpVerifyPage *p, uint32 level)
{
	Page		page = MtpVerifyPageOf(p);
	MtpPageHeader *h = MtpHeader(page);
	MtpPos		pos = {0};
	MtpItemRoom rooms[2];
	IndexTuple	last = NULL;
	int			att;

	mtp_blink_verify_page_sane(v, p);
	if (!MtpIsLeaf(page) && !MtpIsInner(page))
		mtp_verify_fail(v, p->blkno, -1, "Page is no page of the tree.");
	if (h->level != level)
		mtp_verify_fail(v, p->blkno, -1, "Page is on level %u instead of %u.", h->level, level);
	if (h->flags & ~(MTP_ROOT | MTP_INCOMPLETE | MTP_SPLIT_END | MTP_HAS_DEAD))
		mtp_verify_fail(v, p->blkno, -1, "Page has unknown flags 0x%04X.", h->flags);
	if (MtpIncomplete(page) && MtpRightmost(page))
		mtp_verify_fail(v, p->blkno, -1, "Page of an incomplete split has no right sibling.");
	if ((h->flags & MTP_ROOT) && !(MtpLeftmost(page) && MtpRightmost(page)))
		mtp_verify_fail(v, p->blkno, -1, "Root page has a sibling.");
	if (h->left == p->blkno || h->right == p->blkno)
		mtp_verify_fail(v, p->blkno, -1, "Page is its own sibling.");
	if (MtpIsInner(page) && h->nitems == 0)
		mtp_verify_fail(v, p->blkno, -1, "Inner page has no downlinks.");

	/* The items must be in order, by the operator classes' functions and by their norms. */
	for (bool more = h->nitems > 0; more; more = mtp_pos_next(page, &pos))
	{
		IndexTuple	itup = mtp_slot_item(page, pos.node, pos.slot, &rooms[pos.pos % 2]);

		if (last != NULL && mtp_blink_verify_compare(v, last, itup, &att) >= 0)
			mtp_verify_fail(v, p->blkno, pos.pos, "Item is not above the one before it.");
		if (last != NULL && count_atts(v, last) > 0)
		{
			uint64		a = mtp_norm_tuple(h->norm, last);
			uint64		b = mtp_norm_tuple(h->norm, itup);

			if (a > b || (att > 0 && a != b))
				mtp_verify_fail(v, p->blkno, pos.pos,
								"Normalized keys contradict the keys' order.");
		}
		last = itup;
	}

	if (MtpIsLeaf(page))
		check_lists(v, p);

	/* A leaf's high key may equal its last entry; an inner page's must be above its last item. */
	if (last != NULL && h->highkey != 0)
	{
		int			cmp = mtp_blink_verify_compare(v, last, MtpHighKey(page), &att);

		if (cmp > 0 || (cmp == 0 && MtpIsInner(page)))
			mtp_verify_fail(v, p->blkno, h->nitems - 1, "Item is above the page's high key.");
	}
}
