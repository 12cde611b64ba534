/*
 * batch.c
 *	  Core's btree's side of the batch engine: where tasks end, and how entries go in.
 *
 * Where it is right, a leaf takes its share of a task at once, in any process.  Elsewhere entries
 * go in one by one, in the order of their keys, by core's own insertion in the backend that brought
 * them.
 */
#include "btree/btree.h"

#include "access/xact.h"
#include "batch/stream.h"
#include "btree/leaf.h"
#include "core/inject.h"
#include "miscadmin.h"

#define ENTRIES_PER_STEP	64

/* A split pins all its pages, so it makes no more than this part of shared buffers. */
#define BUFFERS_PER_PAGE	64

/*
 * Under SERIALIZABLE each insertion checks for conflicts with other transactions, which only the
 * owner can.  Indexes of older formats have no order among equal keys.
 */
static MtpAlone
owner_alone(Relation index)
{
	bool		heapkeyspace;
	bool		allequalimage;

	if (mtp_core_indexes != MTP_CORE_MERGE)
		return MTP_ALONE_SETTING;
	if (IsolationIsSerializable())
		return MTP_ALONE_SERIALIZABLE;
	_bt_metaversion(index, &heapkeyspace, &allequalimage);
	return heapkeyspace ? MTP_NOT_ALONE : MTP_ALONE_FORMAT;
}

/* A worker reads no catalog later, so it has core load here what comparisons need (E4). */
static MtpOrder *
btree_order(Relation index)
{
	MtpOrder   *order = mtp_batch_order_make(index, mtp_norm_code(index));

	pfree(_bt_mkscankey(index, NULL));
	return order;
}

/*
 * Moves each sample to the end of the leaf that it falls on.  What comes behind the last leaf's
 * beginning is one task, which packs its pages.
 */
static int
btree_cut(Relation index, MtpOrder *order, int nsamples, const MtpNarrow *narrow,
		  const MtpWide *wide, MtpNarrow *narrow_bounds, MtpWide *wide_bounds)
{
	int			n = 0;

	for (int i = 0; i < nsamples; i++)
	{
		IndexTuple	itup = narrow ? mtp_batch_narrow_form(order->code, narrow[i]) : wide[i].itup;
		BTScanInsert key = _bt_mkscankey(index, itup);
		Buffer		buf;
		Page		page;
		BTPageOpaque opaque;

		(void) MtpBtreeSearch(index, NULL, key, &buf, BT_READ);
		if (!BufferIsValid(buf))
			return 0;
		page = BufferGetPage(buf);
		opaque = BTPageGetOpaque(page);
		if (P_RIGHTMOST(opaque) || PageGetMaxOffsetNumber(page) < P_FIRSTDATAKEY(opaque))
		{
			_bt_relbuf(index, buf);
			break;
		}
		if (narrow)
		{
			narrow_bounds[n] = mtp_narrow_of_tuple(order->code, mtp_btree_item(page, P_HIKEY));
			if (n == 0 || mtp_narrow_less(&narrow_bounds[n - 1], &narrow_bounds[n]))
				n++;
		}
		else
		{
			/* A truncated high key can't be compared with entries, but the last item can. */
			IndexTuple	last = mtp_btree_item(page, PageGetMaxOffsetNumber(page));

			wide_bounds[n].itup = _bt_form_posting(last, BTreeTupleGetMaxHeapTID(last), 1);
			wide_bounds[n].prefix = mtp_batch_order_prefix(order, wide_bounds[n].itup);
			if (n == 0 || mtp_batch_order_compare(order, &wide_bounds[n - 1], &wide_bounds[n]) < 0)
				n++;
		}
		_bt_relbuf(index, buf);
	}
	return n;
}

/*
 * Puts some entries in by core's insertion.  Each is counted before core has it, so none goes in
 * twice: core may raise an error behind the insertion, as when a page is split and its parent finds
 * no room on the disk (invariant E10).
 */
static void
insert_some(MtpBatchApply *a, MtpAlone why)
{
	MtpBatchStream *stream = a->stream;
	IndexUniqueCheck check = a->index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO;
	char	   *room = palloc(MTP_NARROW_TUPLE);

	mtp_batch_once = true;
	for (int i = 0; i < ENTRIES_PER_STEP && !mtp_stream_end(stream); i++)
	{
		IndexTuple	itup = mtp_stream_tuple(stream, room);

		mtp_stream_next(stream);
		++*a->progress;
		a->alone[why - 1]++;
		MTP_INJECT("btree_insert");
		(void) _bt_doinsert(a->index, itup, check, false, a->heap);
	}
}

/* Locks the leaf of the current entry. */
static void
find_leaf(MtpBatchApply *a, MtpBtreeLeaf *leaf)
{
	mtp_btree_make_key(leaf, a);
	leaf->dedups = leaf->key->allequalimage && BTGetDeduplicateItems(a->index);

	/* Core asserts that it remembers no leaf where it finishes a split without a stack. */
	RelationSetTargetBlock(a->index, InvalidBlockNumber);
	leaf->stack = MtpBtreeSearch(a->index, a->heap, leaf->key, &leaf->buf, BT_WRITE);
	leaf->page = BufferGetPage(leaf->buf);
	leaf->opaque = BTPageGetOpaque(leaf->page);

	/* Core splits the only page of a level in two, and makes a root or moves the fast one (N5). */
	leaf->pages = P_LEFTMOST(leaf->opaque) && P_RIGHTMOST(leaf->opaque) ? 2 :
		Min(MTP_LEAF_PAGES, Max(2, NBuffers / BUFFERS_PER_PAGE));
}

/*
 * Takes and places the leaf's share: all of the task's entries that belong to it, or as many as one
 * split can make room for, up to one that must be left to the owner.  False if that is the first.
 */
static bool
take_share(MtpBtreeLeaf *leaf, MtpBtreeShare *s, const MtpBatchStream *before, Size bytes)
{
	int			good;

	mtp_btree_take(leaf, INT_MAX, bytes, s);
	if (s->bytes > PageGetExactFreeSpace(leaf->page))
		mtp_btree_reclaim(leaf);
	good = mtp_btree_place(leaf, s);
	if (good == 0)
		return false;
	if (good < s->n)
	{
		*leaf->call->stream = *before;
		mtp_btree_take(leaf, good, bytes, s);
		s->more = false;
	}
	return true;
}

/*
 * Fills one leaf with its share of the task.  What an error leaves uncounted is taken again when
 * the task is repeated.
 */
static void
merge_share(MtpBatchApply *a)
{
	MtpBtreeLeaf leaf;
	MtpBtreeShare s = {0};
	MtpBatchStream before = *a->stream;
	MtpPutResult result;
	Size		bytes;

	find_leaf(a, &leaf);

	/*
	 * Pages that are filled to two fifths on the average are those of the widest keys.  Where few
	 * pages may come half a page is taken, which two have room for if keys are not very wide.
	 */
	bytes = leaf.pages < 5 ? MTP_LEAF_ROOM / 2 : leaf.pages * 2 / 5 * MTP_LEAF_ROOM;
	if (!take_share(&leaf, &s, &before, bytes))
	{
		/* Whether the key is free depends on transactions that must perhaps be waited for. */
		_bt_relbuf(a->index, leaf.buf);
		*a->stream = before;
		if (TransactionIdIsValid(a->xid))
			a->left = true;
		else
			insert_some(a, MTP_ALONE_KEY);
		return;
	}
	while ((result = mtp_btree_put(&leaf, &s)) == MTP_PUT_TOO_MUCH && s.n > 1)
	{
		*a->stream = before;
		mtp_btree_take(&leaf, s.n / 2, bytes, &s);
		(void) mtp_btree_place(&leaf, &s);
	}
	if (result == MTP_PUT_TOO_MUCH)
		elog(ERROR, "an entry does not fit into block %u of index \"%s\"",
			 BufferGetBlockNumber(leaf.buf), RelationGetRelationName(a->index));
	a->over = result == MTP_PUT_DEAD;
	a->leaves++;
}

static void
btree_step(MtpBatchApply *a)
{
	if (a->owner_alone != MTP_NOT_ALONE)
		insert_some(a, a->owner_alone);
	else
		merge_share(a);
}

static const MtpBatchOps btree_ops = {
	.ambuild = btbuild,
	.order = btree_order,
	.compares = true,
	.redirects = true,
	.owner_alone = owner_alone,
	.cut = btree_cut,
	.step = btree_step
};

void
mtp_btree_batch_init(void)
{
	mtp_batch_register(&btree_ops);
}
