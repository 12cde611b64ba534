/*
 * index_build.c
 *	  The scans behind CREATE INDEX and its concurrent variants.
 *
 * Both visit the table with heap_getnextslot().  They decide again what heapam decides, for tables
 * whose access method is not heap itself: which row versions an index must hold, and under which
 * TID.  README.md numbers the rules T1 to T6.
 */
#include "core/core.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "table/table.h"

/* What the build scan does with a row version */
typedef enum RowFate
{
	ROW_SKIP,					/* no index entry */
	ROW_INDEX_DEAD,				/* indexed, but left out of uniqueness checks */
	ROW_INDEX_LIVE,
	ROW_WAIT					/* depends on a transaction that still runs */
} RowFate;

/* State of a scan that feeds rows to an index */
typedef struct IndexFeed
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	HeapScanDesc scan;
	TransactionId oldest_xmin;	/* valid iff the scan's snapshot is SnapshotAny */
	bool		anyvisible;
	bool		checks_uniqueness;

	/* Evaluation of the index's expressions and predicate. */
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	/* the root line pointer of each heap-only version of root_block */
	BlockNumber root_block;
	OffsetNumber roots[MaxHeapTuplesPerPage];

	BlockNumber reported;		/* block of the last progress report */
	double		live_rows;
} IndexFeed;

static void
feed_begin(IndexFeed *st, Relation heap, Relation index, IndexInfo *info)
{
	memset(st, 0, sizeof(*st));
	st->heap = heap;
	st->index = index;
	st->info = info;
	st->checks_uniqueness = info->ii_Unique || info->ii_ExclusionOps != NULL;
	st->estate = CreateExecutorState();
	st->econtext = GetPerTupleExprContext(st->estate);
	st->slot = table_slot_create(heap, NULL);
	st->econtext->ecxt_scantuple = st->slot;
	st->predicate = ExecPrepareQual(info->ii_Predicate, st->estate);
	st->root_block = InvalidBlockNumber;
	st->reported = InvalidBlockNumber;
}

static void
feed_end(IndexFeed *st)
{
	ExecDropSingleTupleTableSlot(st->slot);
	FreeExecutorState(st->estate);

	/* The expression states lived in that EState. */
	st->info->ii_ExpressionsState = NIL;
	st->info->ii_PredicateState = NULL;
}

/* Reads the root line pointers of the scan's current page, which the scan keeps pinned. */
static void
load_roots(IndexFeed *st)
{
	Buffer		buf = st->scan->rs_cbuf;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	heap_get_root_tuples(BufferGetPage(buf), st->roots);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	st->root_block = st->scan->rs_cblock;
}

/*
 * Returns the TID under which a version belongs into an index (rule T1).
 *
 * The scan's pin keeps pruning away, so roots that were read when the scan reached the page stay
 * what they are.  Without ShareLock a HOT update may add versions meanwhile; for one of these this
 * reads the roots again.
 */
static ItemPointerData
root_tid(IndexFeed *st, HeapTuple tup)
{
	ItemPointerData tid = tup->t_self;
	OffsetNumber off = ItemPointerGetOffsetNumber(&tid);

	if (!HeapTupleIsHeapOnly(tup))
		return tid;

	if (!OffsetNumberIsValid(st->roots[off - 1]))
		load_roots(st);
	if (!OffsetNumberIsValid(st->roots[off - 1]))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_internal("failed to find parent tuple for heap-only tuple at (%u,%u) in table \"%s\"",
								 ItemPointerGetBlockNumber(&tid), off,
								 RelationGetRelationName(st->heap))));

	ItemPointerSetOffsetNumber(&tid, st->roots[off - 1]);
	return tid;
}

/*
 * Computes the index's columns for the row in the slot.  Returns false if the index is partial and
 * leaves the row out.
 */
static bool
form_index_row(IndexFeed *st)
{
	MemoryContextReset(st->econtext->ecxt_per_tuple_memory);

	if (st->predicate != NULL && !ExecQual(st->predicate, st->econtext))
		return false;

	FormIndexDatum(st->info, st->slot, st->estate, st->values, st->isnull);
	return true;
}

/*
 * Decides about a version found under SnapshotAny (rules T2 to T4), and counts it if ANALYZE would
 * count it as live (T5).  With ROW_WAIT *xwait is the transaction to wait for.
 *
 * The caller holds a share lock on the page, so nobody sets the version's xmax meanwhile.
 */
static RowFate
judge_version(IndexFeed *st, HeapTuple tup, TransactionId *xwait)
{
	switch (HeapTupleSatisfiesVacuum(tup, st->oldest_xmin, st->scan->rs_cbuf))
	{
		case HEAPTUPLE_DEAD:
			return ROW_SKIP;

		case HEAPTUPLE_LIVE:
			st->live_rows += 1;
			return ROW_INDEX_LIVE;

		case HEAPTUPLE_RECENTLY_DEAD:
			if (!HeapTupleIsHotUpdated(tup))
				return ROW_INDEX_DEAD;
			/* The chain's last version stands for it; old snapshots cannot use that one. */
			st->info->ii_BrokenHotChain = true;
			return ROW_SKIP;

		case HEAPTUPLE_INSERT_IN_PROGRESS:
			*xwait = HeapTupleHeaderGetXmin(tup->t_data);

			/* Of rows still being inserted this transaction's count as live, as in ANALYZE. */
			if (st->anyvisible || TransactionIdIsCurrentTransactionId(*xwait))
			{
				st->live_rows += 1;
				return ROW_INDEX_LIVE;
			}
			elog(WARNING, "concurrent insert in progress within table \"%s\"",
				 RelationGetRelationName(st->heap));

			/* If the inserter aborts, a complaint about a duplicate would have been wrong. */
			return st->checks_uniqueness ? ROW_WAIT : ROW_INDEX_LIVE;

		case HEAPTUPLE_DELETE_IN_PROGRESS:
			if (!st->anyvisible)
			{
				*xwait = HeapTupleHeaderGetUpdateXid(tup->t_data);
				if (TransactionIdIsCurrentTransactionId(*xwait))
				{
					/* If this transaction aborts the index goes as well: its deletion counts. */
					if (HeapTupleIsHotUpdated(tup))
						st->info->ii_BrokenHotChain = true;
					return HeapTupleIsHotUpdated(tup) ? ROW_SKIP : ROW_INDEX_DEAD;
				}
				elog(WARNING, "concurrent delete in progress within table \"%s\"",
					 RelationGetRelationName(st->heap));

				/*
				 * If the deleter aborts this version is live after all: a duplicate would have
				 * gone unseen, and the wrong version of a HOT chain would be indexed.
				 */
				if (st->checks_uniqueness || HeapTupleIsHotUpdated(tup))
					return ROW_WAIT;
			}
			st->live_rows += 1;
			return ROW_INDEX_DEAD;
	}

	elog(ERROR, "unexpected HeapTupleSatisfiesVacuum result");
	return ROW_SKIP;			/* keep compiler quiet */
}

/*
 * Locks the page, decides with judge_version, and waits for other transactions as needed: without
 * the page's lock, which they may need to end.  The version may change meanwhile, so it is judged
 * again (rule T4).
 */
static RowFate
settle_version(IndexFeed *st, HeapTuple tup)
{
	for (;;)
	{
		TransactionId xwait = InvalidTransactionId;
		RowFate		fate;

		LockBuffer(st->scan->rs_cbuf, BUFFER_LOCK_SHARE);
		fate = judge_version(st, tup, &xwait);
		LockBuffer(st->scan->rs_cbuf, BUFFER_LOCK_UNLOCK);

		if (fate != ROW_WAIT)
			return fate;

		XactLockTableWait(xwait, st->heap, &tup->t_self, XLTW_InsertIndexUnique);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Returns the number of blocks that the scan visits; a parallel one as a whole. */
static BlockNumber
blocks_total(HeapScanDesc scan)
{
	if (scan->rs_base.rs_parallel != NULL)
		return ((ParallelBlockTableScanDesc) scan->rs_base.rs_parallel)->phs_nblocks;
	return scan->rs_nblocks;
}

/*
 * Reports the scan's progress.  A scan may start anywhere and wrap around.  In a parallel scan
 * this participant's position stands for all.
 */
static void
report_progress(IndexFeed *st)
{
	HeapScanDesc scan = st->scan;
	BlockNumber start = scan->rs_startblock;
	BlockNumber done;

	if (scan->rs_cblock == st->reported)
		return;
	st->reported = scan->rs_cblock;

	if (scan->rs_base.rs_parallel != NULL)
		start = ((ParallelBlockTableScanDesc) scan->rs_base.rs_parallel)->phs_startblock;
	done = scan->rs_cblock >= start ?
		scan->rs_cblock - start :
		blocks_total(scan) - start + scan->rs_cblock;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, done);
}

/*
 * TableAmRoutine.index_build_range_scan: feeds the rows of blocks start_blockno .. start_blockno +
 * numblocks - 1 (InvalidBlockNumber: to the end) to callback, and ends scan if one was given.
 * Returns the number of live rows.
 *
 * The caller holds ShareLock on the table, or ShareUpdateExclusiveLock for a concurrent build or
 * with anyvisible.
 */
static double
index_build_range_scan(Relation heap, Relation index, IndexInfo *info,
					   bool allow_sync, bool anyvisible, bool progress,
					   BlockNumber start_blockno, BlockNumber numblocks,
					   IndexBuildCallback callback, void *callback_state, TableScanDesc scan)
{
	IndexFeed	st;
	Snapshot	registered = NULL;

	feed_begin(&st, heap, index, info);
	st.anyvisible = anyvisible;
	Assert(!(anyvisible && st.checks_uniqueness));

	/*
	 * The leader of a parallel build chose its scan's snapshot by the same rule: SnapshotAny, or
	 * for a concurrent build an MVCC snapshot, which leaves nothing to judge (rule T6).
	 */
	if (!info->ii_Concurrent)
		st.oldest_xmin = GetOldestNonRemovableTransactionId(heap);
	if (scan == NULL)
	{
		if (info->ii_Concurrent)
			registered = RegisterSnapshot(GetTransactionSnapshot());
		scan = table_beginscan_strat(heap, registered ? registered : SnapshotAny,
									 0, NULL, true, allow_sync);
	}
	st.scan = (HeapScanDesc) scan;
	Assert(scan->rs_snapshot == SnapshotAny || IsMVCCSnapshot(scan->rs_snapshot));
	Assert((scan->rs_snapshot == SnapshotAny) == TransactionIdIsValid(st.oldest_xmin));
	Assert(scan->rs_snapshot == SnapshotAny || !anyvisible);

	/* A synchronized scan starts where it likes, so it can only be of the whole table. */
	if (!allow_sync)
		heap_setscanlimits(scan, start_blockno, numblocks);
	else
		Assert(start_blockno == 0 && numblocks == InvalidBlockNumber);

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, blocks_total(st.scan));

	while (heap_getnextslot(scan, ForwardScanDirection, st.slot))
	{
		/* The slot holds the scan's own tuple, and its pin. */
		HeapTuple	tup = &st.scan->rs_ctup;
		bool		alive = true;
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();

		if (progress)
			report_progress(&st);
		if (st.scan->rs_cblock != st.root_block)
			load_roots(&st);

		if (scan->rs_snapshot == SnapshotAny)
		{
			RowFate		fate = settle_version(&st, tup);

			if (fate == ROW_SKIP)
				continue;
			alive = (fate == ROW_INDEX_LIVE);
		}
		else
			st.live_rows += 1;

		if (!form_index_row(&st))
			continue;

		tid = root_tid(&st, tup);
		callback(index, &tid, st.values, st.isnull, alive, callback_state);
	}

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, blocks_total(st.scan));

	table_endscan(scan);
	if (registered)
		UnregisterSnapshot(registered);
	feed_end(&st);

	return st.live_rows;
}

/* The sorted TIDs of the index under validation, read page by page of the table */
typedef struct SortedTids
{
	Tuplesortstate *sort;
	ItemPointerData next;		/* read but not yet used */
	bool		have_next;
	bool		present[MaxHeapTuplesPerPage];	/* offsets - 1 of one page */
} SortedTids;

static void
sorted_tids_advance(SortedTids *tids)
{
	Datum		val;
	bool		isnull;

	tids->have_next = MtpTuplesortGetDatum(tids->sort, &val, &isnull);
	if (!tids->have_next)
		return;

	Assert(!isnull);
	itemptr_decode(&tids->next, DatumGetInt64(val));
#ifndef USE_FLOAT8_BYVAL
	pfree(DatumGetPointer(val));
#endif
}

/* Marks in present[] the block's line pointers that the index has.  Blocks must ascend. */
static void
sorted_tids_load_block(SortedTids *tids, BlockNumber block)
{
	memset(tids->present, 0, sizeof(tids->present));

	while (tids->have_next && ItemPointerGetBlockNumber(&tids->next) <= block)
	{
		OffsetNumber off = ItemPointerGetOffsetNumber(&tids->next);

		if (ItemPointerGetBlockNumber(&tids->next) == block &&
			off >= FirstOffsetNumber && off <= MaxHeapTuplesPerPage)
			tids->present[off - 1] = true;
		sorted_tids_advance(tids);
	}
}

/*
 * TableAmRoutine.index_validate_scan: inserts what a concurrently built index lacks: every row
 * that snapshot sees and whose root line pointer is not among the sorted TIDs in state.
 */
static void
index_validate_scan(Relation heap, Relation index, IndexInfo *info, Snapshot snapshot,
					ValidateIndexState *state)
{
	IndexFeed	st;
	SortedTids	tids = {.sort = state->tuplesort};
	TableScanDesc scan;

	feed_begin(&st, heap, index, info);

	/* Not a synchronized scan: blocks must come in the order of the sorted TIDs. */
	scan = table_beginscan_strat(heap, snapshot, 0, NULL, true, false);
	st.scan = (HeapScanDesc) scan;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, blocks_total(st.scan));
	sorted_tids_advance(&tids);

	while (heap_getnextslot(scan, ForwardScanDirection, st.slot))
	{
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();

		state->htups += 1;
		report_progress(&st);
		if (st.scan->rs_cblock != st.root_block)
		{
			load_roots(&st);
			sorted_tids_load_block(&tids, st.root_block);
		}

		tid = root_tid(&st, &st.scan->rs_ctup);
		if (tids.present[ItemPointerGetOffsetNumber(&tid) - 1])
			continue;

		if (!form_index_row(&st))
			continue;

		/*
		 * A unique index checks even a row that was deleted since.  A transaction that had no
		 * reason to check may have updated it (HOT), so the entry stands for the whole chain.
		 */
		index_insert(index, st.values, st.isnull, &tid, heap,
					 info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
		state->tups_inserted += 1;
	}

	table_endscan(scan);
	feed_end(&st);
}

void
mtp_table_index_build_init(TableAmRoutine *routine)
{
	routine->index_build_range_scan = index_build_range_scan;
	routine->index_validate_scan = index_validate_scan;
}
