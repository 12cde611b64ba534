/*
 * page.c
 *	  Changes pages of core's btree: the same for a change and for its replay (rule W4 in
 *	  src/wal/README.md).
 */
#include "btree/leaf.h"

/*
 * The tuples go into the free space as they come, and the line pointers are moved apart once: no
 * item of the page is read or moved.
 */
void
mtp_btree_page_insert(Page page, int n, const OffsetNumber *at, const char *tuples, Size bytes)
{
	PageHeader	h = (PageHeader) page;
	ItemIdData *lines = h->pd_linp - 1; /* by offset, from 1 */
	ItemIdData	fresh[MaxIndexTuplesPerPage];
	int			left = PageGetMaxOffsetNumber(page);	/* the last one that is not moved */
	Size		done = 0;

	h->pd_upper -= bytes;
	memcpy((char *) page + h->pd_upper, tuples, bytes);
	for (int i = 0; i < n; i++)
	{
		Size		size = MAXALIGN(IndexTupleSize((IndexTuple) (tuples + done)));

		ItemIdSetNormal(&fresh[i], h->pd_upper + done, size);
		done += size;
	}
	Assert(done == bytes);
	for (int i = n - 1; i >= 0; i--)
	{
		memmove(&lines[at[i] + i + 1], &lines[at[i]], (left - at[i] + 1) * sizeof(ItemIdData));
		lines[at[i] + i] = fresh[i];
		left = at[i] - 1;
	}
	h->pd_lower += n * sizeof(ItemIdData);
	Assert(h->pd_lower <= h->pd_upper);
}

void
mtp_btree_page_begin(Page fresh, Page old, bool split, bool incomplete)
{
	BTPageOpaque opaque;

	_bt_pageinit(fresh, BLCKSZ);
	opaque = BTPageGetOpaque(fresh);
	*opaque = *BTPageGetOpaque(old);
	opaque->btpo_flags &= ~BTP_HAS_GARBAGE;
	if (split)
	{
		opaque->btpo_flags &= ~(BTP_ROOT | BTP_SPLIT_END);
		opaque->btpo_cycleid = 0;
	}
	if (incomplete)
		opaque->btpo_flags |= BTP_INCOMPLETE_SPLIT;
}

/* Only builds that assert look at the result: the caller has seen to it that the item fits. */
void
mtp_btree_page_add(Page page, IndexTuple itup)
{
	OffsetNumber at PG_USED_FOR_ASSERTS_ONLY;

	at = PageAddItem(page, (Item) itup, MAXALIGN(IndexTupleSize(itup)), InvalidOffsetNumber,
					 false, false);
	Assert(at != InvalidOffsetNumber);
}

void
mtp_btree_page_rewrite(Page fresh, Page old, int nsegments, const MtpBtreeSegment *segments,
					   const char *tuples)
{
	for (int s = 0; s < nsegments; s++)
	{
		for (int i = 0; i < segments[s].keep; i++)
			mtp_btree_page_add(fresh, mtp_btree_item(old, segments[s].from + i));
		for (int i = 0; i < segments[s].put; i++)
		{
			IndexTuple	itup = (IndexTuple) tuples;

			mtp_btree_page_add(fresh, itup);
			tuples += MAXALIGN(IndexTupleSize(itup));
		}
	}
}

void
mtp_btree_page_restore(Page page, const char *tuples, Size bytes)
{
	PageHeader	h = (PageHeader) page;
	ItemIdData	lines[MaxIndexTuplesPerPage];
	int			n = 0;

	h->pd_upper -= bytes;
	memcpy((char *) page + h->pd_upper, tuples, bytes);
	for (Size at = h->pd_upper; at < h->pd_special; n++)
	{
		Size		size = MAXALIGN(IndexTupleSize((IndexTuple) ((char *) page + at)));

		ItemIdSetNormal(&lines[n], at, size);
		at += size;
	}
	for (int i = 0; i < n; i++)
		h->pd_linp[i] = lines[n - 1 - i];
	h->pd_lower += n * sizeof(ItemIdData);
}
