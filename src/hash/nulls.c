/*
 * nulls.c
 *	  Finds rows whose first column is NULL, which the index does not have, in the table.
 *
 * The planner never asks for them.  From PostgreSQL 18 on the apply worker of a subscription does:
 * where the publisher has REPLICA IDENTITY FULL it looks old rows up in any index that knows
 * equality, whatever their values are.  A row that it does not find there it leaves as it is.
 */
#include "hash/scan.h"

#include "access/heapam.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"

void
mtp_hash_nulls_begin(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;
	Relation	heap = scan->heapRelation;

	if (table_slot_callbacks(heap) != &TTSOpsBufferHeapTuple)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot look up a null value in index \"%s\"",
						RelationGetRelationName(scan->indexRelation)),
				 errdetail("It has no null values in its first column, and the access method of table \"%s\" does not store rows as heap does.",
						   RelationGetRelationName(heap))));
	so->table_at = 0;
	so->table_end = RelationGetNumberOfBlocks(heap);
	so->at = -1;
	so->n = so->nkilled = 0;
	if (so->strategy == NULL && so->table_end > NBuffers / 4)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(so));

		so->strategy = GetAccessStrategy(BAS_BULKREAD);
		MemoryContextSwitchTo(old);
	}
}

/* Collects a block's rows whose first column is NULL, by the line pointers that lead to them. */
static void
load_block(IndexScanDesc scan, BlockNumber block)
{
	MtpHashScan *so = scan->opaque;
	Relation	heap = scan->heapRelation;
	AttrNumber	column = scan->indexRelation->rd_index->indkey.values[0];
	OffsetNumber roots[MaxHeapTuplesPerPage];
	bool		taken[MaxHeapTuplesPerPage + 1] = {0};
	Buffer		buf = ReadBufferExtended(heap, MAIN_FORKNUM, block, RBM_NORMAL, so->strategy);
	Page		page;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	heap_get_root_tuples(page, roots);
	so->at = -1;
	so->n = 0;
	for (OffsetNumber off = 1; off <= PageGetMaxOffsetNumber(page); off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		OffsetNumber root = roots[off - 1];
		HeapTupleData tup;

		/* All versions of a HOT chain have the same columns, as far as they are in an index. */
		if (!ItemIdIsNormal(lp) || !OffsetNumberIsValid(root) || taken[root])
			continue;
		tup.t_data = (HeapTupleHeader) PageGetItem(page, lp);
		tup.t_len = ItemIdGetLength(lp);
		if (!heap_attisnull(&tup, column, RelationGetDescr(heap)))
			continue;
		taken[root] = true;
		ItemPointerSet(&so->tids[so->n++], block, root);
	}
	UnlockReleaseBuffer(buf);
}

bool
mtp_hash_nulls_next(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	while (++so->at >= so->n)
	{
		if (so->table_at >= so->table_end)
			return false;
		CHECK_FOR_INTERRUPTS();
		load_block(scan, so->table_at++);
	}
	scan->xs_heaptid = so->tids[so->at];
	return true;
}
