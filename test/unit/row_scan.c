/*
 * row_scan.c
 *	  Runs an index scan with a row comparison, which PostgreSQL 15's planner makes for btree alone, and one that waits, under a snapshot
 *	  that is not MVCC, as core looks for conflicts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM >= 180000
#define BEGIN_SCAN(heap, index, snapshot, nkeys, norderbys) index_beginscan(heap, index, snapshot, NULL, nkeys, norderbys)
#else
#define BEGIN_SCAN(heap, index, snapshot, nkeys, norderbys) index_beginscan(heap, index, snapshot, nkeys, norderbys)
#endif

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(row_scan);
PG_FUNCTION_INFO_V1(self_scan);

/*
 * row_scan(index, attnos int[], strategy int, vals int[], forward bool): TIDs, in the scan's order, of the
 * rows for which (columns attnos) <strategy> (vals).  All columns are int4.
 */
Datum
row_scan(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	Relation	heap = table_open(index->rd_index->indrelid, AccessShareLock);
	Datum	   *attnos,
			   *vals;
	bool	   *nulls;
	int			strategy = PG_GETARG_INT32(2);
	int			n,
				m;
	ScanKeyData header;
	ScanKeyData members[INDEX_MAX_KEYS];
	StringInfoData out;
	IndexScanDesc scan;
	TupleTableSlot *slot = table_slot_create(heap, NULL);

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT4OID, 4, true, 'i', &attnos, NULL, &n);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(3), INT4OID, 4, true, 'i', &vals, &nulls, &m);
	for (int i = 0; i < n; i++)
		ScanKeyEntryInitialize(&members[i],
							   SK_ROW_MEMBER | (nulls[i] ? SK_ISNULL : 0) |
							   (i == n - 1 ? SK_ROW_END : 0),
							   DatumGetInt32(attnos[i]), strategy, INT4OID, InvalidOid, F_BTINT4CMP,
							   nulls[i] ? (Datum) 0 : vals[i]);
	memset(&header, 0, sizeof(header));
	header.sk_flags = SK_ROW_HEADER;
	header.sk_attno = members[0].sk_attno;
	header.sk_strategy = strategy;
	header.sk_argument = PointerGetDatum(members);

	initStringInfo(&out);
	scan = BEGIN_SCAN(heap, index, GetActiveSnapshot(), 1, 0);
	index_rescan(scan, &header, 1, NULL, 0);
	while (index_getnext_slot(scan, PG_GETARG_BOOL(4) ? ForwardScanDirection : BackwardScanDirection,
							  slot))
		appendStringInfo(&out, " (%u,%u)", ItemPointerGetBlockNumber(&slot->tts_tid),
						 ItemPointerGetOffsetNumber(&slot->tts_tid));
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(heap, AccessShareLock);
	index_close(index, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text(out.data));
}

/*
 * self_scan(index, lock int8): the number of rows that SnapshotSelf sees.  Waits, having seen the first, for the advisory lock.
 */
Datum
self_scan(PG_FUNCTION_ARGS)
{
	Relation	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	Relation	heap = table_open(index->rd_index->indrelid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	IndexScanDesc scan = BEGIN_SCAN(heap, index, SnapshotSelf, 0, 0);
	int64		n = 0;

	index_rescan(scan, NULL, 0, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
		if (n++ == 0)
			DirectFunctionCall1(pg_advisory_xact_lock_int8, PG_GETARG_DATUM(1));
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(heap, AccessShareLock);
	index_close(index, AccessShareLock);
	PG_RETURN_INT64(n);
}
