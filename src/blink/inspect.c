/*
 * inspect.c
 *	  SQL functions that look into an index: verify_index and page_info.
 */
#include "blink/blink.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "batch/batch.h"
#include "blink/verify.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(mtp_verify_index);
PG_FUNCTION_INFO_V1(mtp_page_info);

/*
 * Opens an index of ours; raises an error for any other relation.  *heap gets its table, opened
 * first, as everybody locks.
 */
static Relation
open_index(Oid relid, Relation *heap)
{
	Oid			heapid = IndexGetRelation(relid, true);
	Relation	rel;

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
	if (rel->rd_indam->ambuild != mtp_blink_build)
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

/*
 * To look for rows' entries the snapshot must be one that may use the index: not an old transaction's,
 * from before an index that was built over rows whose HOT chains it breaks.
 */
static Snapshot
checking_snapshot(Relation rel, bool heapallindexed)
{
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());

	if (heapallindexed && IsolationUsesXactSnapshot() && rel->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(rel->rd_indextuple->t_data), snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" cannot be verified using transaction snapshot",
						RelationGetRelationName(rel))));
	return snapshot;
}

/*
 * Expressions of the index run as the table's owner, as in CREATE INDEX.
 */
Datum
mtp_verify_index(PG_FUNCTION_ARGS)
{
	bool		heapallindexed = PG_GETARG_BOOL(1);
	Relation	heap;
	Relation	rel = open_index(PG_GETARG_OID(0), &heap);
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

	snapshot = checking_snapshot(rel, heapallindexed);
	mtp_batch_before_scan(rel, snapshot);
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(heap->rd_rel->relowner, sec_context | SECURITY_RESTRICTED_OPERATION);
	nestlevel = NewGUCNestLevel();

	mtp_blink_verify(heap, rel, heapallindexed, snapshot);

	AtEOXact_GUC(false, nestlevel);
	SetUserIdAndSecContext(userid, sec_context);
	UnregisterSnapshot(snapshot);
	close_index(rel, heap);
	PG_RETURN_VOID();
}

/* ---------- page_info ---------- */

static const char *
page_type(Page page)
{
	if (PageIsNew(page))
		return "new";
	switch (MtpHead(page)->type)
	{
		case MTP_PAGE_META:
			return "meta";
		case MTP_PAGE_LEAF:
			return "leaf";
		case MTP_PAGE_INNER:
			return "inner";
		case MTP_PAGE_DELETED:
			return "deleted";
	}
	return "unknown";
}

static Datum
page_flags(uint16 flags)
{
	Datum		names[4];
	int			n = 0;

	if (flags & MTP_ROOT)
		names[n++] = CStringGetTextDatum("root");
	if (flags & MTP_INCOMPLETE)
		names[n++] = CStringGetTextDatum("incomplete_split");
	if (flags & MTP_SPLIT_END)
		names[n++] = CStringGetTextDatum("split_end");
	if (flags & MTP_HAS_DEAD)
		names[n++] = CStringGetTextDatum("has_dead");
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * A pivot as text: (1, foo), null for NULL, -inf for each attribute that it lacks, and the TID if it
 * has one.
 */
static char *
pivot_text(Relation rel, IndexTuple itup)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = BTreeTupleGetNAtts(itup, rel);
	ItemPointer tid = BTreeTupleGetHeapTID(itup);
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(rel); i++)
	{
		Oid			output;
		bool		varlena;
		bool		null;
		Datum		value;

		appendStringInfoString(&buf, i == 0 ? "(" : ", ");
		if (i >= natts)
		{
			appendStringInfoString(&buf, "-inf");
			continue;
		}
		value = index_getattr(itup, i + 1, tupdesc, &null);
		getTypeOutputInfo(TupleDescAttr(tupdesc, i)->atttypid, &output, &varlena);
		appendStringInfoString(&buf, null ? "null" : OidOutputFunctionCall(output, value));
	}
	if (tid != NULL)
		appendStringInfo(&buf, ", tid=(%u,%u)", ItemPointerGetBlockNumber(tid),
						 ItemPointerGetOffsetNumber(tid));
	appendStringInfoChar(&buf, ')');
	return buf.data;
}

static int
count_dead(Page page)
{
	int			dead = 0;

	for (int i = 0; i < MtpHead(page)->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
			dead += mtp_slot_dead(page, i, j);
	return dead;
}

static Datum
link_datum(BlockNumber blkno, bool *null)
{
	*null = blkno == InvalidBlockNumber;
	return Int64GetDatum((int64) blkno);
}

/* Columns of page_info */
enum
{
	INFO_TYPE, INFO_LEVEL, INFO_ITEMS, INFO_DEAD, INFO_FREE, INFO_LEFT, INFO_RIGHT, INFO_HIGHKEY,
	INFO_FLAGS, INFO_FORMAT, INFO_LSN, INFO_COLUMNS
};

static void
describe_page(Relation rel, Page page, BlockNumber blkno, Datum *values, bool *nulls)
{
	MtpPageHeader *h = MtpHead(page);
	const char *fault;

	memset(nulls, true, INFO_COLUMNS * sizeof(bool));
	values[INFO_TYPE] = CStringGetTextDatum(page_type(page));
	values[INFO_LSN] = LSNGetDatum(PageGetLSN(page));
	nulls[INFO_TYPE] = nulls[INFO_LSN] = false;
	if (PageIsNew(page))
		return;

	values[INFO_FLAGS] = page_flags(h->flags);
	values[INFO_FORMAT] = Int32GetDatum(h->format);
	values[INFO_LEVEL] = Int32GetDatum(h->type == MTP_PAGE_META ? MtpBlinkMetaOf(page)->level : h->level);
	nulls[INFO_FLAGS] = nulls[INFO_FORMAT] = nulls[INFO_LEVEL] = false;
	values[INFO_LEFT] = link_datum(h->left, &nulls[INFO_LEFT]);
	values[INFO_RIGHT] = link_datum(h->right, &nulls[INFO_RIGHT]);
	fault = mtp_page_check(page);
	if (fault != NULL)
	{
		ereport(WARNING,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" is corrupted", blkno, RelationGetRelationName(rel)),
				 errdetail("The %s.", fault)));
		return;
	}
	if (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER)
		return;

	values[INFO_ITEMS] = Int32GetDatum(h->nitems);
	values[INFO_DEAD] = Int32GetDatum(count_dead(page));
	values[INFO_FREE] = Int32GetDatum((int32) mtp_page_free(page));
	nulls[INFO_ITEMS] = nulls[INFO_DEAD] = nulls[INFO_FREE] = false;
	if (h->highkey != 0 && mtp_verify_tuple_whole(rel, MtpHighKey(page)))
	{
		values[INFO_HIGHKEY] = CStringGetTextDatum(pivot_text(rel, MtpHighKey(page)));
		nulls[INFO_HIGHKEY] = false;
	}
}

Datum
mtp_page_info(PG_FUNCTION_ARGS)
{
	int64		blkno = PG_GETARG_INT64(1);
	Relation	heap;
	Relation	rel = open_index(PG_GETARG_OID(0), &heap);
	PGAlignedBlock copy;
	BlockNumber nblocks;
	Buffer		buf;
	TupleDesc	tupdesc;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS];

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!rel->rd_index->indisready)
		/* A build writes past shared buffers: a page that is read into them before stays there as it was. */
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
	describe_page(rel, (Page) copy.data, (BlockNumber) blkno, values, nulls);
	close_index(rel, heap);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
