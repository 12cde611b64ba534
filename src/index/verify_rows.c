/*
 * verify_rows.c
 *	  Checks an index against its table: every entry has its row, every row its entry.
 *
 * Entry to row: a row version's values are looked at only if the snapshot sees it, or if nothing
 * outside of it is needed to do so: an aborted or dead row's TOAST values may go at any time.
 *
 * Row to entry: each row that the snapshot sees is looked up in the index.  The snapshot is
 * registered, so no such row can become removable meanwhile.
 */
#include "index/verify.h"

#include "access/heapam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

typedef struct MtpVerifyRows
{
	Snapshot	snapshot;
	IndexInfo  *info;
	EState	   *estate;
	ExprState  *predicate;
	TupleTableSlot *slot;
	MemoryContext context;		/* reset for each row or entry */
	BlockNumber heap_blocks;
	bool		ignore_dead;	/* dead hints may be the primary's */
} MtpVerifyRows;

/* Versions of one row, reached from the line pointer that an entry leads to. */
typedef struct Chain
{
	int			n;
	int			visible;		/* the one that the snapshot sees, or -1 */
	HeapTupleData tuples[MaxHeapTuplesPerPage];
} Chain;

void
mtp_verify_rows_begin(MtpVerify *v, Snapshot snapshot)
{
	MtpVerifyRows *r = palloc0(sizeof(MtpVerifyRows));

	if (table_slot_callbacks(v->heap) != &TTSOpsBufferHeapTuple)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot check rows of table \"%s\"", RelationGetRelationName(v->heap)),
				 errdetail("Its table access method does not store rows as heap does.")));
	r->snapshot = snapshot;
	r->info = BuildIndexInfo(v->rel);
	/* An MVCC snapshot, no locks taken or expected, nothing to be found unique. */
	r->info->ii_Concurrent = true;
	r->info->ii_Unique = false;
	r->info->ii_ExclusionOps = NULL;
	r->info->ii_ExclusionProcs = NULL;
	r->info->ii_ExclusionStrats = NULL;
	r->estate = CreateExecutorState();
	r->predicate = ExecPrepareQual(r->info->ii_Predicate, r->estate);
	r->slot = table_slot_create(v->heap, NULL);
	GetPerTupleExprContext(r->estate)->ecxt_scantuple = r->slot;
	r->context = AllocSetContextCreate(CurrentMemoryContext, "mtpower verify rows",
									   ALLOCSET_DEFAULT_SIZES);
	r->heap_blocks = RelationGetNumberOfBlocks(v->heap);
	r->ignore_dead = TransactionStartedDuringRecovery();
	v->rows = r;
}

/*
 * Collects the versions of the row at *tid.  Returns what is wrong with the line pointer, or NULL;
 * NULL and no versions if there is nothing any more, which is how a dead row ends.  The buffer is
 * locked.
 */
static const char *
read_chain(MtpVerify *v, Buffer buf, ItemPointer tid, Chain *chain)
{
	Page		page = BufferGetPage(buf);
	OffsetNumber off = ItemPointerGetOffsetNumber(tid);
	TransactionId prev_xmax = InvalidTransactionId;
	bool		root = true;

	chain->n = 0;
	chain->visible = -1;
	if (PageIsNew(page) || off > PageGetMaxOffsetNumber(page))
		return "no row has this TID";
	if (!ItemIdIsUsed(PageGetItemId(page, off)))
		return "its row's line pointer is unused";
	while (chain->n < MaxHeapTuplesPerPage && off >= FirstOffsetNumber &&
		   off <= PageGetMaxOffsetNumber(page))
	{
		ItemId		lp = PageGetItemId(page, off);
		HeapTuple	tup = &chain->tuples[chain->n];

		if (ItemIdIsRedirected(lp) && root)
		{
			off = ItemIdGetRedirect(lp);
			root = false;
			continue;
		}
		if (!ItemIdIsNormal(lp))
			break;
		tup->t_data = (HeapTupleHeader) PageGetItem(page, lp);
		tup->t_len = ItemIdGetLength(lp);
		tup->t_tableOid = RelationGetRelid(v->heap);
		ItemPointerSet(&tup->t_self, ItemPointerGetBlockNumber(tid), off);
		if (root && HeapTupleIsHeapOnly(tup))
			return "it leads to a heap-only version of a row";
		if (TransactionIdIsValid(prev_xmax) &&
			!TransactionIdEquals(prev_xmax, HeapTupleHeaderGetXmin(tup->t_data)))
			break;
		if (HeapTupleSatisfiesVisibility(tup, v->rows->snapshot, buf))
			chain->visible = chain->n;
		chain->n++;
		root = false;
		if (!HeapTupleIsHotUpdated(tup))
			break;
		off = ItemPointerGetOffsetNumber(&tup->t_data->t_ctid);
		prev_xmax = HeapTupleHeaderGetUpdateXid(tup->t_data);
	}
	return NULL;
}

/* True if this row version has this entry.  The buffer is pinned. */
static bool
version_matches(MtpVerify *v, Buffer buf, HeapTuple tup, const void *entry)
{
	MtpVerifyRows *r = v->rows;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		result;

	ExecStoreBufferHeapTuple(tup, r->slot, buf);
	result = ExecQual(r->predicate, GetPerTupleExprContext(r->estate));
	if (result)
	{
		FormIndexDatum(r->info, r->slot, r->estate, values, isnull);
		result = v->ops->matches(v, entry, values, isnull);
	}
	ExecClearTuple(r->slot);
	ResetPerTupleExprContext(r->estate);
	return result;
}

/*
 * What is wrong with an entry, seen from the table, or NULL.
 *
 * Versions of one chain differ in an index's columns only if the chain is older than the index:
 * then the entry is its last version's.  So what the snapshot sees must match; and if it sees none,
 * one of those that can be looked at.
 */
static const char *
entry_fault(MtpVerify *v, ItemPointer tid, const void *entry)
{
	MtpVerifyRows *r = v->rows;
	BlockNumber blkno = ItemPointerGetBlockNumber(tid);
	bool		computed = r->info->ii_Expressions != NIL || r->info->ii_Predicate != NIL;
	Chain	   *chain;
	Buffer		buf;
	const char *what;

	if (blkno >= r->heap_blocks)
		r->heap_blocks = RelationGetNumberOfBlocks(v->heap);
	if (blkno >= r->heap_blocks)
		return "no row has this TID";
	chain = palloc(sizeof(Chain));
	buf = ReadBufferExtended(v->heap, MAIN_FORKNUM, blkno, RBM_NORMAL, NULL);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	what = read_chain(v, buf, tid, chain);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	/* The pin keeps the versions where they are. */
	if (what == NULL && chain->visible >= 0)
	{
		if (!version_matches(v, buf, &chain->tuples[chain->visible], entry))
			what = "its row has other values";
	}
	else if (what == NULL && chain->n > 0 && !computed)
	{
		/* A version with values in TOAST can't be looked at, and may be the entry's. */
		what = "its row has other values";
		for (int i = 0; what != NULL && i < chain->n; i++)
			if (HeapTupleHasExternal(&chain->tuples[i]) ||
				version_matches(v, buf, &chain->tuples[i], entry))
				what = NULL;
	}
	ReleaseBuffer(buf);
	return what;
}

/*
 * An entry without a row counts only if the index had it before and after that was seen, with a pin
 * on it in between: else an inserter may have removed it to make room.  On a standby the replay of
 * such a deletion may have.
 */
void
mtp_verify_entry(MtpVerify *v, ItemPointer tid, const void *entry)
{
	MemoryContext old = MemoryContextSwitchTo(v->rows->context);

	CHECK_FOR_INTERRUPTS();
	if (entry_fault(v, tid, entry) != NULL)
	{
		BlockNumber blkno;
		int			pos;
		Buffer		pin = v->ops->find(v, entry, &blkno, &pos);
		const char *what = BufferIsValid(pin) ? entry_fault(v, tid, entry) : NULL;

		if (what != NULL && v->ops->find(v, entry, &blkno, &pos) != InvalidBuffer)
			mtp_verify_fail(v, blkno, pos, "Entry leads to TID (%u,%u), but %s.",
							ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid), what);
		if (BufferIsValid(pin))
			ReleaseBuffer(pin);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(v->rows->context);
}

void
mtp_verify_row_entry(MtpVerify *v, ItemPointer tid, BlockNumber blkno, int pos, bool found,
					 bool dead)
{
	if (!found)
		mtp_verify_fail(v, blkno, pos, "Row with TID (%u,%u) has no entry.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	if (dead && !v->rows->ignore_dead)
		mtp_verify_fail(v, blkno, pos,
						"Row with TID (%u,%u) is alive, but its entry marked dead.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
}

static void
check_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpVerify  *v = state;
	MemoryContext old = MemoryContextSwitchTo(v->rows->context);

	v->ops->check_row(index, tid, values, isnull, alive, state);
	MemoryContextSwitchTo(old);
	MemoryContextReset(v->rows->context);
}

void
mtp_verify_rows(MtpVerify *v)
{
	MtpVerifyRows *r = v->rows;
	TableScanDesc scan = table_beginscan_strat(v->heap, r->snapshot, 0, NULL, true, true);

	(void) table_index_build_scan(v->heap, v->rel, r->info, true, false, check_row, v, scan);
	if (v->ops->rows_done)
		v->ops->rows_done(v);
	ExecDropSingleTupleTableSlot(r->slot);
	FreeExecutorState(r->estate);
	MemoryContextDelete(r->context);
	v->rows = NULL;
	pfree(r);
}
