/*
 * delete_dead.c
 *	  Makes room on a full leaf from entries that scans have marked dead, before it would be split.
 *
 * The table has the last word.  It reads the blocks of the marked entries anyway, for the standbys'
 * conflict horizon, so it is also asked about all other entries that lead there.
 */
#include "btree/leaf.h"

#include "index/dead.h"

/* The TIDs of an item: returns how many there are. */
static int
tids_of(IndexTuple item, ItemPointer *tids)
{
	if (BTreeTupleIsPosting(item))
	{
		*tids = BTreeTupleGetPosting(item);
		return BTreeTupleGetNPosting(item);
	}
	*tids = &item->t_tid;
	return 1;
}

void
mtp_btree_reclaim(MtpBtreeLeaf *leaf)
{
	Page		page = leaf->page;
	OffsetNumber first = P_FIRSTDATAKEY(leaf->opaque);
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	BlockNumber *blocks = palloc(MaxTIDsPerBTreePage * sizeof(BlockNumber));
	int			nblocks = 0;
	ItemPointer tids;
	TM_IndexDeleteOp *op;

	for (OffsetNumber at = first; at <= last; at++)
		if (ItemIdIsDead(PageGetItemId(page, at)))
		{
			int			n = tids_of(mtp_btree_item(page, at), &tids);

			for (int i = 0; i < n; i++)
				blocks[nblocks++] = ItemPointerGetBlockNumber(&tids[i]);
		}
	if (nblocks == 0)
		return;
	mtp_dead_sort_blocks(blocks, nblocks);
	op = mtp_dead_begin(leaf->index, leaf->buf, MaxTIDsPerBTreePage);
	for (OffsetNumber at = first; at <= last; at++)
	{
		ItemId		line = PageGetItemId(page, at);
		int			n = tids_of(mtp_btree_item(page, at), &tids);

		for (int i = 0; i < n; i++)
			if (mtp_dead_has_block(blocks, nblocks, ItemPointerGetBlockNumber(&tids[i])))
				mtp_dead_ask(op, at - 1, &tids[i])->knowndeletable = ItemIdIsDead(line);
	}
	_bt_delitems_delete_check(leaf->index, leaf->buf, leaf->call->heap, op);
}
