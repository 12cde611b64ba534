/*
 * redirect.c
 *	  Gets between the executor and core's btree indexes of a table.
 *
 * The executor has a statement's indexes open before the first row reaches the table AM, and calls
 * them by the routine in their relation cache entries.  The first row that may be queued has the
 * entries point to a copy of btree's routine whose insertion queues, and whose scans apply what is
 * queued.  They are left so: with nothing under way the wrappers call core's functions.  README.md
 * says why an entry keeps its routine as long as it matters.
 */
#include "btree/btree.h"

#include "access/nbtree.h"
#include "batch/batch.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/lmgr.h"
#include "utils/guc.h"

int			mtp_core_indexes = MTP_CORE_MERGE;

/* A copy of btree's routine, made when it is needed first. */
static IndexAmRoutine redirected;

/* What an executor's IndexInfo keeps of an index.  nbtree leaves ii_AmCache alone. */
typedef struct Known
{
	uint8		code;			/* norm code of the first column */
	bool		narrow;			/* entries are narrow */
} Known;

/*
 * Larger tuples go in at once: they gain little, and core raises its error about the largest ones
 * where the row comes in.
 */
#define MTP_LARGE_TUPLE		(BLCKSZ / 4)

static const Known *
known_index(Relation index, IndexInfo *info)
{
	Known	   *known = info->ii_AmCache;

	if (known == NULL)
	{
		known = MemoryContextAlloc(info->ii_Context, sizeof(Known));
		known->code = mtp_norm_code(index);
		known->narrow = mtp_norm_is_exact(known->code) &&
			RelationGetNumberOfAttributes(index) == 1;
		info->ii_AmCache = known;
	}
	return known;
}

/* True if the engine has taken the entry. */
static bool
enqueue(Relation index, Relation heap, Datum *values, bool *isnull, ItemPointer tid,
		IndexUniqueCheck check, IndexInfo *info)
{
	const Known *known = known_index(index, info);
	MtpArrival	arrival = info->ii_CheckedUnchanged ? MTP_NEW_VERSION : MTP_NEW_ROW;
	IndexTuple	itup;
	bool		queued;

	if (known->narrow)
		return mtp_batch_enqueue_narrow(index, heap, known->code, values[0], isnull[0], tid, check,
										arrival);
	itup = index_form_tuple(RelationGetDescr(index), values, isnull);
	itup->t_tid = *tid;
	queued = IndexTupleSize(itup) <= MTP_LARGE_TUPLE &&
		mtp_batch_enqueue_wide(index, heap, itup, check, arrival);
	pfree(itup);
	return queued;
}

/*
 * aminsert.  An UPDATE that leaves the key alone is core's, which deletes old versions before it
 * splits a page for the new one.
 */
static bool
redirected_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
				  IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	if (check != UNIQUE_CHECK_NO)
		mtp_batch_before_unique(RelationGetRelid(heap), RelationGetRelid(index));
	if (!unchanged && info != NULL && mtp_core_indexes != MTP_CORE_OFF &&
		mtp_batch_queues(index, heap, check) &&
		enqueue(index, heap, values, isnull, tid, check, info))
		return false;
	return btinsert(index, values, isnull, tid, heap, check, unchanged, info);
}

static void
redirected_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	mtp_batch_before_scan(scan->indexRelation, scan->xs_snapshot);
	btrescan(scan, keys, nkeys, orderbys, norderbys);
}

static bool
redirected_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	mtp_batch_before_scan(scan->indexRelation, scan->xs_snapshot);
	return btgettuple(scan, dir);
}

static int64
redirected_getbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	mtp_batch_before_scan(scan->indexRelation, scan->xs_snapshot);
	return btgetbitmap(scan, tbm);
}

/* True for an index that core's btree serves, and whose entries may be queued. */
static bool
is_redirectable(Relation index)
{
	return index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_indam->aminsert == btinsert &&
		index->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		!index->rd_index->indisexclusion &&
		index->rd_index->indimmediate;
}

void
mtp_btree_redirect(Relation rel)
{
	List	   *indexes;
	ListCell   *lc;

	if (mtp_core_indexes == MTP_CORE_OFF)
		return;
	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Relation	index;
		LOCKTAG		tag;

		/* An index that came since the statement opened its own is not the statement's. */
		SET_LOCKTAG_RELATION(tag, MyDatabaseId, lfirst_oid(lc));
		if (!MtpLockHeldByMe(&tag, RowExclusiveLock))
			continue;
		index = index_open(lfirst_oid(lc), NoLock);
		if (is_redirectable(index))
		{
			if (redirected.type != T_IndexAmRoutine)
			{
				redirected = *index->rd_indam;
				redirected.aminsert = redirected_insert;
				redirected.amrescan = redirected_rescan;
				redirected.amgettuple = redirected_gettuple;
				redirected.amgetbitmap = redirected_getbitmap;
			}
			/* Core's own copy is freed with the entry. */
			index->rd_indam = &redirected;
		}
		index_close(index, NoLock);
	}
	list_free(indexes);
}

void
mtp_btree_init(void)
{
	static const struct config_enum_entry values[] = {
		{"off", MTP_CORE_OFF, false},
		{"insert", MTP_CORE_INSERT, false},
		{"merge", MTP_CORE_MERGE, false},
		{NULL, 0, false}
	};

	DefineCustomEnumVariable("mtpower.core_indexes",
							 "How bulk loads of mtpower tables put entries into core's btree "
							 "indexes.",
							 "Off leaves it to core; insert sorts them first; merge puts all "
							 "entries of a page in at once, with background workers.",
							 &mtp_core_indexes, MTP_CORE_MERGE, values, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	mtp_btree_batch_init();
	mtp_btree_redo_init();
}
