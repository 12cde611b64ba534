/*
 * items.c
 *	  Makes the leaf's new items: tuples, and posting lists of equal keys where the index
 *	  deduplicates.
 */
#include "btree/leaf.h"

/*
 * Posting lists are for keys whose equality is that of their bytes (allequalimage).  Those of
 * narrow entries, NULLs aside, are eight bytes.
 */
static bool
same_image(MtpBtreeLeaf *leaf, IndexTuple a, IndexTuple b)
{
	if (leaf->call->order->narrow && !IndexTupleHasNulls(a) && !IndexTupleHasNulls(b))
		return memcmp(a + 1, b + 1, MAXALIGN(1)) == 0;
	return _bt_keep_natts_fast(leaf->index, a, b) >
		IndexRelationGetNumberOfKeyAttributes(leaf->index);
}

bool
mtp_btree_same_key(MtpBtreeLeaf *leaf, MtpBtreeShare *s, int i)
{
	if (s->narrow != NULL)
		return s->narrow[i].norm == s->narrow[i + 1].norm &&
			(s->narrow[i].rid & MTP_RID_LAST) == (s->narrow[i + 1].rid & MTP_RID_LAST);
	return same_image(leaf, s->tuples[i], s->tuples[i + 1]);
}

/* The bytes of a tuple without its posting list. */
static Size
key_bytes(IndexTuple itup)
{
	return BTreeTupleIsPosting(itup) ? BTreeTupleGetPostingOffset(itup) : IndexTupleSize(itup);
}

int
mtp_btree_posting_room(IndexTuple itup)
{
	Size		key = key_bytes(itup);

	return key + 2 * sizeof(ItemPointerData) > MTP_POSTING_MOST ? 1 :
		(MTP_POSTING_MOST - key) / sizeof(ItemPointerData);
}

int
mtp_btree_new_items(MtpBtreeLeaf *leaf, MtpBtreeShare *s, IndexTuple **items, OffsetNumber **at)
{
	ItemPointerData tids[MaxTIDsPerBTreePage];
	int			n = 0;

	Assert(!s->overlaps);
	*items = palloc(s->n * sizeof(IndexTuple));
	*at = palloc(s->n * sizeof(OffsetNumber));
	for (int i = 0; i < s->n; n++)
	{
		IndexTuple	base = s->tuples[i];
		int			most = 0;	/* TIDs of the item, computed where there may be more than one */
		int			ntids = 0;

		(*at)[n] = s->at[i];
		do
			tids[ntids++] = s->tuples[i++]->t_tid;
		while (leaf->dedups && i < s->n && s->at[i] == (*at)[n] &&
			   mtp_btree_same_key(leaf, s, i - 1) &&
			   ntids < (most > 0 ? most : (most = mtp_btree_posting_room(base))));
		(*items)[n] = ntids == 1 ? base : _bt_form_posting(base, tids, ntids);
	}
	return n;
}

/* Items that become one, as far as they are known. */
typedef struct Pending
{
	MtpBtreeLeaf *leaf;
	MtpBtreeItem *items;		/* those before it */
	int			n;
	MtpBtreeItem base;			/* the first of the pending ones */
	bool		as_is;			/* it is the only one, and complete */
	bool		dense;			/* lists are filled up */
	int			ntids;			/* 0 if nothing is pending */
	ItemPointerData tids[MaxTIDsPerBTreePage];
} Pending;

static void
finish_pending(Pending *p)
{
	if (p->ntids == 0)
		return;
	if (!p->as_is)
	{
		p->base.itup = _bt_form_posting(p->base.itup, p->tids, p->ntids);
		p->base.old = InvalidOffsetNumber;
	}
	p->items[p->n++] = p->base;
	p->ntids = 0;
}

/*
 * Adds TIDs of an item's key, ascending; as_is: they are all that the item has.  Where the leaf has
 * no room they fill the pending list up, so that no page more is made of lists that are half full.
 */
static void
add_tids(Pending *p, IndexTuple itup, OffsetNumber old, bool as_is, ItemPointer tids, int ntids)
{
	int			taken = 0;		/* by the pending list */

	if (p->ntids > 0 && p->leaf->dedups && same_image(p->leaf, p->base.itup, itup))
	{
		int			room = mtp_btree_posting_room(p->base.itup) - p->ntids;

		if (ItemPointerCompare(&p->tids[p->ntids - 1], &tids[0]) >= 0)
			mtp_btree_complain_of_twin(p->leaf, &tids[0]);
		if (ntids <= room || p->dense)
			taken = Max(Min(ntids, room), 0);
	}
	if (taken > 0)
	{
		memcpy(&p->tids[p->ntids], tids, taken * sizeof(ItemPointerData));
		p->ntids += taken;
		p->as_is = false;
	}
	if (taken == ntids)
		return;
	finish_pending(p);
	p->base.itup = itup;
	p->base.old = old;
	p->as_is = as_is && taken == 0;
	p->ntids = ntids - taken;
	memcpy(p->tids, tids + taken, p->ntids * sizeof(ItemPointerData));
}

/* Adds a posting list of the leaf with n TIDs of entries that fall into it. */
static void
add_overlapped(Pending *p, IndexTuple list, int n, IndexTuple *entries)
{
	int			nold = BTreeTupleGetNPosting(list);
	int			most = Max(mtp_btree_posting_room(list), nold); /* it falls into few lists */
	ItemPointerData *tids = palloc((nold + n) * sizeof(ItemPointerData));
	int			ntids = 0;

	for (int i = 0, j = 0; i < nold || j < n;)
	{
		int			c;

		if (j == n || i == nold)
			c = j == n ? -1 : 1;
		else
			c = ItemPointerCompare(BTreeTupleGetPostingN(list, i), &entries[j]->t_tid);
		if (c == 0)
			mtp_btree_complain_of_twin(p->leaf, &entries[j]->t_tid);
		tids[ntids++] = c < 0 ? *BTreeTupleGetPostingN(list, i++) : entries[j++]->t_tid;
	}
	for (int i = 0; i < ntids; i += most)
		add_tids(p, list, InvalidOffsetNumber, false, &tids[i], Min(most, ntids - i));
	pfree(tids);
}

int
mtp_btree_all_items(MtpBtreeLeaf *leaf, MtpBtreeShare *s, MtpBtreeItem **items)
{
	OffsetNumber end = PageGetMaxOffsetNumber(leaf->page) + 1;
	Pending    *p = palloc(sizeof(Pending));
	int			next = 0;		/* of the share */

	p->leaf = leaf;
	/* Without an overlap it is for want of room that the leaf is rewritten. */
	p->dense = !s->overlaps || s->bytes > PageGetExactFreeSpace(leaf->page);
	p->n = 0;
	p->ntids = 0;
	/* An overlapped list becomes one more item, at most, for each entry that falls into it. */
	p->items = *items = palloc((end + s->n) * sizeof(MtpBtreeItem));
	for (OffsetNumber at = P_FIRSTDATAKEY(leaf->opaque); at <= end; at++)
	{
		IndexTuple	item;
		int			inside = 0;

		for (; next < s->n && s->at[next] == at && !s->inside[next]; next++)
			add_tids(p, s->tuples[next], InvalidOffsetNumber, true, &s->tuples[next]->t_tid, 1);
		if (at == end)
			break;
		item = mtp_btree_item(leaf->page, at);
		while (next + inside < s->n && s->at[next + inside] == at)
			inside++;
		if (inside > 0)
			add_overlapped(p, item, inside, &s->tuples[next]);
		else if (BTreeTupleIsPosting(item))
			add_tids(p, item, at, true, BTreeTupleGetPosting(item), BTreeTupleGetNPosting(item));
		else
			add_tids(p, item, at, true, &item->t_tid, 1);
		next += inside;
	}
	finish_pending(p);
	Assert(next == s->n);
	return p->n;
}
