/*
 * put.c
 *	  Puts a share into its leaf with one record: in place, or splitting the leaf into several.
 *
 * A split leaves what core's own leaves behind its first record: pages that right links reach, and
 * a flag on each but the last that tells that the downlink of its right sibling is missing.  Core's
 * _bt_finish_split posts the downlinks, from left to right.  README.md has the invariants.
 */
#include "btree/leaf.h"

#include "btree/wal_records.h"
#include "core/inject.h"
#include "storage/predicate.h"
#include "storage/procarray.h"
#include "wal/wal.h"

/*
 * True if the rows are dead, or may be: a VACUUM may have looked for their entries already.  Asked
 * when all pages that get entries are locked, or new and locked (invariant N1).
 */
static bool
rows_are_dead(MtpBtreeLeaf *leaf)
{
	MTP_INJECT("btree_locked");
	return TransactionIdIsValid(leaf->call->xid) && !TransactionIdIsInProgress(leaf->call->xid);
}

/* Puts tuples one behind the other, each MAXALIGNed. */
static char *
flatten(char *to, IndexTuple itup)
{
	memcpy(to, itup, IndexTupleSize(itup));
	return to + MAXALIGN(IndexTupleSize(itup));
}

static MtpPutResult
put_in_place(MtpBtreeLeaf *leaf, int entries, int n, IndexTuple *items, OffsetNumber *at,
			 Size bytes)
{
	MtpWalBtreeInsert rec = {.n = n};
	char	   *flat = palloc0(bytes);
	char	   *end = flat;
	MtpChange	c;

	for (int i = 0; i < n; i++)
		end = flatten(end, items[i]);
	mtp_change_init(&c, leaf->index, MTP_WAL_BTREE_INSERT);
	mtp_change_buffer(&c, leaf->buf, REGBUF_STANDARD);
	c.progress = leaf->call->progress;
	c.progress_to = *c.progress + entries;
	if (rows_are_dead(leaf))
	{
		_bt_relbuf(leaf->index, leaf->buf);
		return MTP_PUT_DEAD;
	}

	mtp_change_begin(&c);
	mtp_btree_page_insert(leaf->page, n, at, flat, bytes);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, at, n * sizeof(OffsetNumber));
	mtp_change_bufdata(&c, 0, flat, bytes);
	mtp_change_finish(&c);

	_bt_relbuf(leaf->index, leaf->buf);
	for (int i = 0; i < n; i++)
		leaf->call->postings += BTreeTupleIsPosting(items[i]);
	return MTP_PUT_DONE;
}

/* A leaf that is split, or rewritten, and what becomes of it. */
typedef struct Split
{
	MtpBtreeLeaf *leaf;
	int			n;
	MtpBtreeItem *items;
	int			k;
	int			cuts[MTP_LEAF_PAGES + 1];
	IndexTuple	highs[MTP_LEAF_PAGES];	/* new high keys; NULL for the last page */
	Buffer		bufs[MTP_LEAF_PAGES];	/* [0] is the leaf's */
	Page		pages[MTP_LEAF_PAGES];	/* their images, in private memory */
	Buffer		right;			/* the leaf's right sibling, if there is one and k > 1 */

	/* The leaf's own image, as the record has it. */
	int			nsegments;
	MtpBtreeSegment *segments;
	char	   *flat;
	Size		bytes;
} Split;

/* The high key of the leaf as it was, which the last page inherits; NULL at the right end. */
static IndexTuple
old_high_key(MtpBtreeLeaf *leaf)
{
	return P_RIGHTMOST(leaf->opaque) ? NULL : mtp_btree_item(leaf->page, P_HIKEY);
}

/*
 * Describes the leaf's image by the items that stay, and those that are new: first of all its high
 * key.  So the record is small where little changes.
 */
static void
describe_leaf(Split *s)
{
	int			n = s->cuts[1];
	MtpBtreeSegment *seg = palloc0((n + 2) * sizeof(MtpBtreeSegment));
	Size		bytes = s->highs[0] ? MAXALIGN(IndexTupleSize(s->highs[0])) : 0;
	char	   *end;

	for (int i = 0; i < n; i++)
		if (s->items[i].old == InvalidOffsetNumber)
			bytes += MAXALIGN(IndexTupleSize(s->items[i].itup));
	s->segments = seg;
	s->flat = end = palloc0(Max(bytes, 1));
	s->bytes = bytes;
	if (s->highs[0] != NULL)
	{
		seg->put = 1;
		end = flatten(end, s->highs[0]);
	}
	else if (!P_RIGHTMOST(s->leaf->opaque))
	{
		seg->from = P_HIKEY;
		seg->keep = 1;
	}
	for (int i = 0; i < n; i++)
	{
		OffsetNumber old = s->items[i].old;

		if (old != InvalidOffsetNumber)
		{
			if (seg->put > 0 || (seg->keep > 0 && seg->from + seg->keep != old))
				seg++;
			if (seg->keep == 0)
				seg->from = old;
			seg->keep++;
		}
		else
		{
			seg->put++;
			end = flatten(end, s->items[i].itup);
		}
	}
	s->nsegments = seg - s->segments + 1;
	Assert(end == s->flat + bytes);
}

/* Makes the images of all pages, but for their links. */
static void
make_images(Split *s)
{
	MtpBtreeLeaf *leaf = s->leaf;

	for (int i = 0; i < s->k; i++)
	{
		bool		last = i == s->k - 1;
		IndexTuple	high = last ? old_high_key(leaf) : s->highs[i];

		s->pages[i] = palloc(BLCKSZ);
		mtp_btree_page_begin(s->pages[i], leaf->page, s->k > 1, !last);
		if (i == 0)
			mtp_btree_page_rewrite(s->pages[0], leaf->page, s->nsegments, s->segments, s->flat);
		else
		{
			if (high != NULL)
				mtp_btree_page_add(s->pages[i], high);
			for (int j = s->cuts[i]; j < s->cuts[i + 1]; j++)
				mtp_btree_page_add(s->pages[i], s->items[j].itup);
		}
	}

	/* XLogInsert looks at it, and perhaps logs an image. */
	PageSetLSN(s->pages[0], PageGetLSN(leaf->page));
}

/* Gets the new pages and the right sibling, all locked: from left to right, as core does. */
static void
get_pages(Split *s)
{
	MtpBtreeLeaf *leaf = s->leaf;

	MTP_INJECT("btree_allocates");
	for (int i = 1; i < s->k; i++)
	{
		s->bufs[i] = MtpBtreeNewPage(leaf->index, leaf->call->heap);
		MTP_INJECT("btree_page_allocated");
	}
	if (s->k == 1 || P_RIGHTMOST(leaf->opaque))
		return;
	s->right = _bt_getbuf(leaf->index, leaf->opaque->btpo_next, BT_WRITE);
	if (BTPageGetOpaque(BufferGetPage(s->right))->btpo_prev != BufferGetBlockNumber(leaf->buf))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("left link of block %u in index \"%s\" does not lead to block %u",
						leaf->opaque->btpo_next, RelationGetRelationName(leaf->index),
						BufferGetBlockNumber(leaf->buf))));
}

/*
 * Links the images.  The vacuum cycle is read when the last new page is there and locked: a VACUUM
 * that begins later visits all of them, behind the change (invariant N3).
 */
static void
link_images(Split *s)
{
	MtpBtreeLeaf *leaf = s->leaf;
	BTCycleId	cycle;

	if (s->k == 1)
		return;
	cycle = _bt_vacuum_cycleid(leaf->index);
	for (int i = 0; i < s->k; i++)
	{
		BTPageOpaque opaque = BTPageGetOpaque(s->pages[i]);

		if (i > 0)
			opaque->btpo_prev = BufferGetBlockNumber(s->bufs[i - 1]);
		if (i < s->k - 1)
			opaque->btpo_next = BufferGetBlockNumber(s->bufs[i + 1]);
		opaque->btpo_cycleid = cycle;
	}
	if (BufferIsValid(s->right) &&
		BTPageGetOpaque(BufferGetPage(s->right))->btpo_cycleid != cycle)
		BTPageGetOpaque(s->pages[s->k - 1])->btpo_flags |= BTP_SPLIT_END;
}

/*
 * New pages that lead nowhere must not stay: VACUUM would look for their downlinks.  Nothing on
 * disk has changed.  Raises nothing.
 */
static void
zero_new_pages(Split *s)
{
	for (int i = 1; i < s->k && BufferIsValid(s->bufs[i]); i++)
		memset(BufferGetPage(s->bufs[i]), 0, BLCKSZ);
}

static void
unlock_all(Split *s)
{
	if (BufferIsValid(s->right))
		_bt_relbuf(s->leaf->index, s->right);
	for (int i = s->k - 1; i >= 0; i--)
		_bt_relbuf(s->leaf->index, s->bufs[i]);
}

/* The change itself: the leaf, its new right siblings, and the old one's left link. */
static void
publish(Split *s, MtpChange *c)
{
	MtpWalBtreeSplit rec = {
		.nsegments = s->nsegments,.k = s->k,.has_right = BufferIsValid(s->right)
	};

	for (int i = 0; i < s->k; i++)
		memcpy(BufferGetPage(s->bufs[i]), s->pages[i], BLCKSZ);
	if (rec.has_right)
		BTPageGetOpaque(BufferGetPage(s->right))->btpo_prev =
			BufferGetBlockNumber(s->bufs[s->k - 1]);
	mtp_change_data(c, &rec, sizeof(rec));
	mtp_change_bufdata(c, 0, s->segments, s->nsegments * sizeof(MtpBtreeSegment));
	mtp_change_bufdata(c, 0, s->flat, s->bytes);
	for (int i = 1; i < s->k; i++)
	{
		PageHeader	h = (PageHeader) s->pages[i];

		mtp_change_bufdata(c, i, (char *) h + h->pd_upper, h->pd_special - h->pd_upper);
	}
	mtp_change_finish(c);
}

/*
 * Gets the pages and makes the change.  False if the rows' transaction has ended: then nothing is
 * changed, and all is unlocked.
 */
static bool
change_pages(Split *s, int entries)
{
	MtpBtreeLeaf *leaf = s->leaf;
	MtpChange	c;
	volatile bool alive = false;

	PG_TRY();
	{
		get_pages(s);
		link_images(s);
		mtp_change_init(&c, leaf->index, MTP_WAL_BTREE_SPLIT);
		for (int i = 0; i < s->k; i++)
			mtp_change_buffer(&c, s->bufs[i], i == 0 ? REGBUF_STANDARD : REGBUF_WILL_INIT);
		if (BufferIsValid(s->right))
			mtp_change_buffer(&c, s->right, REGBUF_STANDARD);
		c.progress = leaf->call->progress;
		c.progress_to = *c.progress + entries;
		alive = !rows_are_dead(leaf);
		if (alive)
		{
			mtp_change_begin(&c);
			publish(s, &c);
		}
	}
	PG_CATCH();
	{
		zero_new_pages(s);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!alive)
	{
		zero_new_pages(s);
		unlock_all(s);
	}
	return alive;
}

/*
 * Posts the downlinks, from left to right: core enters such a chain from the left alone (invariant
 * N4).  The leaf is still locked.  Each further page may have changed since it was unlocked, and
 * somebody else may have come first.  An error leaves flags that the next writer meets.
 */
static void
finish_splits(Split *s, const BlockNumber *blocks)
{
	MtpBtreeLeaf *leaf = s->leaf;

	for (int i = 0; i < s->k - 1; i++)
	{
		Buffer		buf = leaf->buf;
		BTPageOpaque opaque;

		if (i > 0)
		{
			MTP_INJECT("btree_unfinished");
			buf = _bt_getbuf(leaf->index, blocks[i], BT_WRITE);
			opaque = BTPageGetOpaque(BufferGetPage(buf));
			if (P_IGNORE(opaque) || !P_INCOMPLETE_SPLIT(opaque))
			{
				_bt_relbuf(leaf->index, buf);
				continue;
			}
		}
		MtpBtreeFinishSplit(leaf->index, leaf->call->heap, buf, leaf->stack);
	}
}

static MtpPutResult
split_leaf(MtpBtreeLeaf *leaf, MtpBtreeShare *s, int n, MtpBtreeItem *items)
{
	Split		split = {.leaf = leaf,.n = n,.items = items};
	BlockNumber blocks[MTP_LEAF_PAGES];
	bool		behind = s->at[0] > PageGetMaxOffsetNumber(leaf->page);

	split.k = mtp_btree_plan(leaf, n, items,
							 s->more || (behind && P_RIGHTMOST(leaf->opaque)), split.cuts);
	if (split.k == 0)
		return MTP_PUT_TOO_MUCH;
	for (int i = 0; i < split.k - 1; i++)
		split.highs[i] = _bt_truncate(leaf->index, items[split.cuts[i + 1] - 1].itup,
									  items[split.cuts[i + 1]].itup, leaf->key);
	split.bufs[0] = leaf->buf;
	describe_leaf(&split);
	make_images(&split);
	if (!change_pages(&split, s->n))
		return MTP_PUT_DEAD;
	for (int i = 0; i < n; i++)
		leaf->call->postings += items[i].old == InvalidOffsetNumber &&
			BTreeTupleIsPosting(items[i].itup);

	/* Readers may be serializable, whatever this process is. */
	for (int i = 0; i < split.k; i++)
	{
		blocks[i] = BufferGetBlockNumber(split.bufs[i]);
		if (i > 0)
			PredicateLockPageSplit(leaf->index, blocks[0], blocks[i]);
	}
	if (split.k == 1)
	{
		unlock_all(&split);
		return MTP_PUT_DONE;
	}
	if (BufferIsValid(split.right))
		_bt_relbuf(leaf->index, split.right);
	for (int i = split.k - 1; i > 0; i--)
		_bt_relbuf(leaf->index, split.bufs[i]);
	MTP_INJECT("btree_split");
	finish_splits(&split, blocks);
	leaf->call->splits[Min(split.k, lengthof(leaf->call->splits) - 1)]++;
	return MTP_PUT_DONE;
}

MtpPutResult
mtp_btree_put(MtpBtreeLeaf *leaf, MtpBtreeShare *s)
{
	MtpBtreeItem *all;
	int			n;

	/* Where entries alone are too large, as far as is known, no tuples are made in vain. */
	if (!s->overlaps && s->bytes <= PageGetExactFreeSpace(leaf->page))
	{
		IndexTuple *items;
		OffsetNumber *at;
		Size		bytes = 0;

		n = mtp_btree_new_items(leaf, s, &items, &at);
		for (int i = 0; i < n; i++)
			bytes += MAXALIGN(IndexTupleSize(items[i]));
		if (bytes + n * sizeof(ItemIdData) <= PageGetExactFreeSpace(leaf->page))
			return put_in_place(leaf, s->n, n, items, at, bytes);
	}
	n = mtp_btree_all_items(leaf, s, &all);
	return split_leaf(leaf, s, n, all);
}
