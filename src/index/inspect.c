/*
 * inspect.c
 *	  SQL functions that look into an index: verify_index and page_info.
 */
#include "index/verify.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "batch/batch.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(mtp_verify_index);
PG_FUNCTION_INFO_V1(mtp_page_info);

/* The access methods of ours. */
static const MtpInspectOps *all_ops[4];
static int	n_ops;

void
mtp_inspect_register(const MtpInspectOps *ops)
{
	all_ops[n_ops++] = ops;
}

/*
 * Opens an index of ours; raises an error for any other relation.  *heap gets its table, opened
 * first, as everybody locks.
 */
static Relation
open_index(Oid relid, Relation *heap, const MtpInspectOps **ops)
{
	Oid			heapid = IndexGetRelation(relid, true);
	Relation	rel;

	mtp_require_preload();
	*heap = OidIsValid(heapid) ? table_open(heapid, AccessShareLock) : NULL;
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("index \"%s\" is partitioned", RelationGetRelationName(rel)),
				 errhint("Use the indexes of its partitions.")));
	if (rel->rd_rel->relkind != RELKIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index", RelationGetRelationName(rel))));
	*ops = NULL;
	for (int i = 0; i < n_ops; i++)
		if (rel->rd_indam->ambuild == all_ops[i]->ambuild)
			*ops = all_ops[i];
	if (*ops == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("index \"%s\" is not an mtpower index", RelationGetRelationName(rel)),
				 errdetail("Its access method is \"%s\".", get_am_name(rel->rd_rel->relam))));

	/* The table may have been dropped, and its OID taken, before it was locked. */
	if (*heap == NULL || heapid != IndexGetRelation(relid, false))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open parent table of index \"%s\"",
						RelationGetRelationName(rel))));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	return rel;
}

static void
close_index(Relation rel, Relation heap)
{
	relation_close(rel, AccessShareLock);
	table_close(heap, AccessShareLock);
}

/* An unlogged index has no pages while the server is in recovery. */
static bool
has_pages(Relation rel)
{
	return rel->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED || !RecoveryInProgress();
}

/* Expressions of the index run as the table's owner, as in CREATE INDEX. */
Datum
mtp_verify_index(PG_FUNCTION_ARGS)
{
	bool		heapallindexed = PG_GETARG_BOOL(1);
	const MtpInspectOps *ops;
	Relation	heap;
	Relation	rel = open_index(PG_GETARG_OID(0), &heap, &ops);
	Snapshot	snapshot;
	Oid			userid;
	int			sec_context;
	int			nestlevel;

	if (!rel->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(rel)),
				 errhint("Drop it, or rebuild it with REINDEX.")));
	if (!has_pages(rel))
	{
		ereport(NOTICE,
				(errmsg("skipping unlogged index \"%s\", which is empty during recovery",
						RelationGetRelationName(rel))));
		close_index(rel, heap);
		PG_RETURN_VOID();
	}

	/*
	 * To look for rows' entries the snapshot must be one that may use the index: not an old
	 * transaction's, from before an index that was built over rows whose HOT chains it breaks.
	 */
	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	if (heapallindexed && IsolationUsesXactSnapshot() && rel->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(rel->rd_indextuple->t_data), snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" cannot be verified using transaction snapshot",
						RelationGetRelationName(rel))));
	mtp_batch_before_scan(rel, snapshot);
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(heap->rd_rel->relowner, sec_context | SECURITY_RESTRICTED_OPERATION);
	nestlevel = NewGUCNestLevel();

	mtp_verify(ops, heap, rel, heapallindexed, snapshot);

	AtEOXact_GUC(false, nestlevel);
	SetUserIdAndSecContext(userid, sec_context);
	UnregisterSnapshot(snapshot);
	close_index(rel, heap);
	PG_RETURN_VOID();
}

/* ---------- page_info ---------- */

Datum
mtp_page_info(PG_FUNCTION_ARGS)
{
	int64		blkno = PG_GETARG_INT64(1);
	const MtpInspectOps *ops;
	Relation	heap;
	Relation	rel = open_index(PG_GETARG_OID(0), &heap, &ops);
	PGAlignedBlock copy;
	BlockNumber nblocks;
	Buffer		buf;
	TupleDesc	tupdesc;
	Datum		values[MTP_INFO_COLUMNS];
	bool		nulls[MTP_INFO_COLUMNS];

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	/* A build writes past shared buffers: a page that is read into them before stays as it was. */
	if (!rel->rd_index->indisready)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not ready", RelationGetRelationName(rel)),
				 errdetail("It is being built concurrently, or that has failed.")));
	if (!has_pages(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot access unlogged index \"%s\" during recovery",
						RelationGetRelationName(rel))));
	nblocks = RelationGetNumberOfBlocks(rel);
	if (blkno < 0 || blkno >= nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block number %lld is out of range for index \"%s\"",
						(long long) blkno, RelationGetRelationName(rel)),
				 errdetail("The index has %u blocks, numbered from 0.", nblocks)));

	buf = ReadBuffer(rel, (BlockNumber) blkno);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(copy.data, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);

	memset(nulls, true, sizeof(nulls));
	values[MTP_INFO_LSN] = LSNGetDatum(PageGetLSN((Page) copy.data));
	nulls[MTP_INFO_LSN] = false;
	if (PageIsNew((Page) copy.data))
	{
		values[MTP_INFO_TYPE] = CStringGetTextDatum("new");
		nulls[MTP_INFO_TYPE] = false;
	}
	else
		ops->describe(rel, (Page) copy.data, (BlockNumber) blkno, values, nulls);
	close_index(rel, heap);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
