/*
 * reserve.c
 *	  Reserves a pair's directory as one who looked for the table's end some time ago, and fetches rows as one whose index has an entry of some time ago: for tests.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "fmgr.h"
#include "storage/itemptr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "buffer/pair.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(pair_reserve);

/* pair_reserve(relation, pair, blocks of the relation): is it reserved?  Then it has an empty directory. */
Datum
pair_reserve(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *copy = palloc0(2 * BLCKSZ);
	MtpFrameRef ref;
	int			kind = MTP_FRAME_SMALL;
	bool		reserved = mtp_pair_reserve(rel, PG_GETARG_INT32(1), &kind, PG_GETARG_INT32(2), NULL, true, -1, copy, &ref);

	relation_close(rel, AccessShareLock);
	PG_RETURN_BOOL(reserved);
}

PG_FUNCTION_INFO_V1(fetch_tid);

/* fetch_tid(relation, tid): the row that an index's entry with this TID leads to, or null */
Datum
fetch_tid(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	ItemPointer tid = palloc(sizeof(ItemPointerData));
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexFetchTableData *fetch = table_index_fetch_begin(rel);
	bool		again = false;
	bool		found;

	ItemPointerCopy((ItemPointer) PG_GETARG_POINTER(1), tid);
	found = table_index_fetch_tuple(fetch, tid, GetActiveSnapshot(), slot, &again, NULL);
	if (found)
		*tid = slot->tts_tid;
	table_index_fetch_end(fetch);
	ExecDropSingleTupleTableSlot(slot);
	relation_close(rel, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(tid);
}
