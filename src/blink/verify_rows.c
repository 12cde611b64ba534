/*
 * verify_rows.c
 *	  Checks a B-link tree against its table: every entry has its row, every row its entry.
 *
 * Entry to row: while a leaf is pinned, VACUUM can't pass it, so line pointers that the leaf's entries
 * lead to stay in use.  The caller reads a leaf and keeps its pin until its entries are checked here.
 * A row version's values are looked at only if the snapshot sees it, or if nothing outside of it is
 * needed to do so: an aborted or dead row's TOAST values may go at any time.
 *
 * Row to entry: each row that the snapshot sees is looked up in the tree as an insertion would look
 * for its place.  The snapshot is registered, so no such row can become removable meanwhile.
 */
#include "blink/blink.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "blink/verify.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

struct MtpVerifyRows
{
	Snapshot	snapshot;
	IndexInfo  *info;
	EState	   *estate;
	ExprState  *predicate;
	TupleTableSlot *slot;
	MemoryContext context;		/* reset for each row or entry */
	BlockNumber heap_blocks;
	bool		ignore_dead;	/* dead hints may be the primary's */
};

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

void
mtp_verify_rows_end(MtpVerify *v)
{
	MtpVerifyRows *r = v->rows;

	ExecDropSingleTupleTableSlot(r->slot);
	FreeExecutorState(r->estate);
	MemoryContextDelete(r->context);
	v->rows = NULL;
	pfree(r);
}

/* Has the entry exactly these values? */
static bool
same_values(MtpVerify *v, IndexTuple itup, const Datum *values, const bool *isnull)
{
	TupleDesc	tupdesc = RelationGetDescr(v->rel);

	for (int i = 0; i < v->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		bool		null;
		Datum		value = index_getattr(itup, i + 1, tupdesc, &null);

		if (null != isnull[i] ||
			(!null && !datum_image_eq(value, values[i], att->attbyval, att->attlen)))
			return false;
	}
	return true;
}

/* ---------- entry to row ---------- */

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

/* Would this version have this entry?  The buffer is pinned. */
static bool
version_matches(MtpVerify *v, Buffer buf, HeapTuple tup, IndexTuple itup)
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
		result = same_values(v, itup, values, isnull);
	}
	ExecClearTuple(r->slot);
	ResetPerTupleExprContext(r->estate);
	return result;
}

/*
 * What is wrong with an entry, seen from the table, or NULL.
 *
 * Versions of one chain differ in an index's columns only if the chain is older than the index: then
 * the entry is its last version's.  So what the snapshot sees must match; and if it sees none, one of
 * those that can be looked at.
 */
static const char *
entry_fault(MtpVerify *v, IndexTuple itup)
{
	MtpVerifyRows *r = v->rows;
	BlockNumber blkno = ItemPointerGetBlockNumber(&itup->t_tid);
	bool		computed = r->info->ii_Expressions != NIL || r->info->ii_Predicate != NIL;
	Chain	   *chain;
	Buffer		buf;
	const char *what;
	bool		all = true;

	if (blkno >= r->heap_blocks)
		r->heap_blocks = RelationGetNumberOfBlocks(v->heap);
	if (blkno >= r->heap_blocks)
		return "no row has this TID";
	chain = palloc(sizeof(Chain));
	buf = ReadBufferExtended(v->heap, MAIN_FORKNUM, blkno, RBM_NORMAL, NULL);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	what = read_chain(v, buf, &itup->t_tid, chain);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	/* The pin keeps the versions where they are. */
	if (what == NULL && chain->visible >= 0)
	{
		if (!version_matches(v, buf, &chain->tuples[chain->visible], itup))
			what = "its row has other values";
	}
	else if (what == NULL && chain->n > 0 && !computed)
	{
		what = "its row has other values";
		for (int i = 0; i < chain->n; i++)
		{
			if (HeapTupleHasExternal(&chain->tuples[i]))
				all = false;
			else if (version_matches(v, buf, &chain->tuples[i], itup))
				what = NULL;
		}
		if (!all)
			what = NULL;
	}
	ReleaseBuffer(buf);
	return what;
}

/*
 * Finds the entry equal to itup, TID included.  Its leaf comes back pinned and share-locked, or not at
 * all; *where and *pos get the leaf and the place where the entry is or should be.
 */
static Buffer
find_entry(MtpVerify *v, IndexTuple itup, MtpPos *pos, BlockNumber *where)
{
	MtpBlinkKey key;
	Buffer		buf;
	Page		page;

	mtp_blink_key_tuple(v->rel, &key, itup);
	buf = mtp_blink_descend(v->rel, &key, BUFFER_LOCK_SHARE, 0, NULL);
	*where = MTP_BLINK_META;
	*pos = (MtpPos) {0};
	if (!BufferIsValid(buf))
		return buf;
	page = BufferGetPage(buf);
	*where = BufferGetBlockNumber(buf);
	*pos = mtp_blink_place(&key, page);
	if (pos->pos < MtpHead(page)->nitems &&
		mtp_blink_compare(&key, mtp_slot_item(page, pos->node, pos->slot)) == 0)
		return buf;
	UnlockReleaseBuffer(buf);
	return InvalidBuffer;
}

/*
 * An entry has no row, says entry_fault.  Looked at beside others' changes that counts only if the
 * entry was there before and after, so: still there, with its leaf pinned still wrong, and there again.
 */
static void
entry_again(MtpVerify *v, IndexTuple itup)
{
	BlockNumber blkno;
	MtpPos		pos;
	Buffer		buf = find_entry(v, itup, &pos, &blkno);
	Buffer		again;
	const char *what;

	if (!BufferIsValid(buf))
		return;
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	what = entry_fault(v, itup);
	if (what != NULL)
	{
		again = find_entry(v, itup, &pos, &blkno);
		if (BufferIsValid(again))
		{
			UnlockReleaseBuffer(again);
			mtp_verify_fail(v, blkno, pos.pos, "Entry leads to TID (%u,%u), but %s.",
							ItemPointerGetBlockNumber(&itup->t_tid),
							ItemPointerGetOffsetNumber(&itup->t_tid), what);
		}
	}
	ReleaseBuffer(buf);
}

void
mtp_verify_entries(MtpVerify *v, MtpVerifyPage *p)
{
	Page		page = MtpVerifyPageOf(p);
	MemoryContext old = MemoryContextSwitchTo(v->rows->context);
	MtpPos		pos = {0};

	if (MtpHead(page)->nitems > 0)
	{
		do
		{
			IndexTuple	itup = mtp_slot_item(page, pos.node, pos.slot);

			CHECK_FOR_INTERRUPTS();
			if (entry_fault(v, itup) != NULL)
				entry_again(v, itup);
			MemoryContextReset(v->rows->context);
		} while (mtp_pos_next(page, &pos));
	}
	MemoryContextSwitchTo(old);
}

/* ---------- row to entry ---------- */

static void
check_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpVerify  *v = state;
	MtpVerifyRows *r = v->rows;
	MemoryContext old = MemoryContextSwitchTo(r->context);
	IndexTuple	itup = index_form_tuple(RelationGetDescr(index), values, isnull);
	BlockNumber blkno;
	MtpPos		pos;
	Buffer		buf;
	IndexTuple	found;
	bool		dead;

	itup->t_tid = *tid;
	buf = find_entry(v, itup, &pos, &blkno);
	if (!BufferIsValid(buf))
		mtp_verify_fail(v, blkno, pos.pos, "Row with TID (%u,%u) has no entry.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	found = CopyIndexTuple(mtp_slot_item(BufferGetPage(buf), pos.node, pos.slot));
	dead = mtp_slot_dead(BufferGetPage(buf), pos.node, pos.slot);
	UnlockReleaseBuffer(buf);
	if (dead && !r->ignore_dead)
		mtp_verify_fail(v, blkno, pos.pos, "Row with TID (%u,%u) is alive, but its entry marked dead.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	if (!same_values(v, found, values, isnull))
		mtp_verify_fail(v, blkno, pos.pos, "Entry of the row with TID (%u,%u) has other values.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->context);
}

void
mtp_verify_rows(MtpVerify *v)
{
	TableScanDesc scan = table_beginscan_strat(v->heap, v->rows->snapshot, 0, NULL, true, true);

	(void) table_index_build_scan(v->heap, v->rel, v->rows->info, true, false, check_row, v, scan);
}
