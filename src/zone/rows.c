/*
 * rows.c
 *	  Widens entries by all versions of rows on a page of the table, whoever sees them.
 */
#include "zone/zone.h"

#include "access/heapam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "utils/memutils.h"

struct MtpZoneRows
{
	Relation	heap;
	MtpZoneInfo zone;			/* a copy: the relcache's may go meanwhile */
	BufferAccessStrategy strategy;

	/* What computes a row's values */
	struct IndexInfo *columns;
	EState	   *estate;
	TupleTableSlot *slot;
	ExprState  *predicate;
	MemoryContext cxt;			/* reset for each page */
};

MtpZoneRows *
mtp_zone_rows_begin(Relation heap, Relation index, BufferAccessStrategy strategy)
{
	MtpZoneRows *r = palloc0(sizeof(MtpZoneRows));
	ExprContext *econtext;

	r->heap = heap;
	r->zone = *mtp_zone_info(index);
	r->strategy = strategy;
	r->columns = BuildIndexInfo(index);
	r->estate = CreateExecutorState();
	r->slot = MakeSingleTupleTableSlot(RelationGetDescr(heap), &TTSOpsHeapTuple);
	econtext = GetPerTupleExprContext(r->estate);
	econtext->ecxt_scantuple = r->slot;
	r->predicate = ExecPrepareQual(r->columns->ii_Predicate, r->estate);
	r->cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower zone", ALLOCSET_DEFAULT_SIZES);
	return r;
}

/*
 * Copies the rows of a block.  All of them: one that is dead here may be one that a standby's
 * snapshot sees, until its removal is replayed there.  *lost is set if one that is not alive can't
 * be looked at: what it has in TOAST may go, and an expression may fail on a row that comes.
 * *passing is set if one has a newer version on the page: pruning will remove it, unnoticed.
 */
static int
copy_rows(MtpZoneRows *r, BlockNumber blkno, HeapTuple *rows, bool *lost, bool *passing)
{
	bool		computed = r->columns->ii_Expressions != NIL || r->columns->ii_Predicate != NIL;
	Buffer		buf = ReadBufferExtended(r->heap, MAIN_FORKNUM, blkno, RBM_NORMAL, r->strategy);
	Page		page = BufferGetPage(buf);
	int			n = 0;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	for (OffsetNumber off = FirstOffsetNumber;
		 !PageIsNew(page) && off <= PageGetMaxOffsetNumber(page); off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		HeapTupleData row = {.t_tableOid = RelationGetRelid(r->heap)};
		TransactionId dead_after;

		if (!ItemIdIsNormal(lp))
			continue;
		row.t_data = (HeapTupleHeader) PageGetItem(page, lp);
		row.t_len = ItemIdGetLength(lp);
		ItemPointerSet(&row.t_self, blkno, off);
		if (HeapTupleIsHotUpdated(&row))
			*passing = true;
		if ((computed || HeapTupleHasExternal(&row)) &&
			HeapTupleSatisfiesVacuumHorizon(&row, buf, &dead_after) != HEAPTUPLE_LIVE)
			*lost = true;
		else
			rows[n++] = heap_copytuple(&row);
	}
	UnlockReleaseBuffer(buf);
	return n;
}

void
mtp_zone_rows_add(MtpZoneRows *r, BlockNumber blkno, MtpZoneEntry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(r->cxt);
	HeapTuple  *rows = palloc(MaxHeapTuplesPerPage * sizeof(HeapTuple));
	bool		lost = false;
	bool		passing = false;
	int			n = copy_rows(r, blkno, rows, &lost, &passing);

	for (int i = 0; i < n; i++)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		ExecStoreHeapTuple(rows[i], r->slot, false);
		if (ExecQual(r->predicate, GetPerTupleExprContext(r->estate)))
		{
			FormIndexDatum(r->columns, r->slot, r->estate, values, isnull);
			mtp_zone_add_row(&r->zone, entry, values, isnull);
		}
		ResetPerTupleExprContext(r->estate);
	}
	if (lost)
		mtp_zone_widest(&r->zone, entry);
	if (lost || passing)
		entry->flags[0] |= MTP_ZONE_DUE;
	ExecClearTuple(r->slot);
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->cxt);
}

void
mtp_zone_rows_end(MtpZoneRows *r)
{
	MemoryContextDelete(r->cxt);
	ExecDropSingleTupleTableSlot(r->slot);
	FreeExecutorState(r->estate);
	pfree(r);
}
