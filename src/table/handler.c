/*
 * handler.c
 *	  The table access method's routine: a copy of heap's, with a few callbacks replaced.
 *
 * An mtpower table is a heap table in every byte.  Core's code reads and writes all rows; the
 * copied routine reaches it.  What differs:
 *
 * - multi_insert and finish_bulk_insert tell the batch engine where a load begins and ends;
 * - insertions and updates have the table's btrees call the engine as well (src/btree), and tell it
 *   of rows that go before they were checked for uniqueness (write.c);
 * - index fetches read rows in the buffer (fetch.c), and writes take the frames of changed pages
 *   away (write.c);
 * - CREATE INDEX has scans of its own (index_build.c), since heapam's go through heap_getnext(),
 *   which serves heap alone;
 * - TOAST tables stay on heap, since core's toasting code calls heap_insert() directly.
 */
#include "core/core.h"

#include "access/heapam.h"
#include "catalog/pg_am.h"

#include "batch/batch.h"
#include "buffer/buffer.h"
#include "pagedir/request.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mtp_table_handler);

TableAmRoutine mtp_table_routine;

/* Heap has no such callback. */
static void
mtp_table_finish_bulk_insert(Relation rel, int options)
{
	mtp_batch_finish_bulk(rel);
	mtp_pagedir_request_load_end(rel);
}

static Oid
mtp_table_relation_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}

/* Fills in the routine, once, in the postmaster. */
void
mtp_table_init(void)
{
	mtp_table_routine = *GetHeapamTableAmRoutine();

	mtp_table_write_init(&mtp_table_routine);
	if (mtp_buffer_size > 0)
		mtp_table_fetch_init(&mtp_table_routine);
	mtp_table_index_build_init(&mtp_table_routine);
	mtp_table_routine.finish_bulk_insert = mtp_table_finish_bulk_insert;
	mtp_table_routine.relation_toast_am = mtp_table_relation_toast_am;
}

Datum
mtp_table_handler(PG_FUNCTION_ARGS)
{
	mtp_require_preload();
	PG_RETURN_POINTER(&mtp_table_routine);
}
