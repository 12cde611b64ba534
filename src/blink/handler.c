/*
 * handler.c
 *	  The access method's routine.
 *
 * A stand-in until the B-link tree is in: nbtree's functions, with a build that inserts one by one
 * (nbtree's sort refuses other access methods).
 */
#include "mtpower.h"
#include "blink/blink.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/fmgrprotos.h"

PG_FUNCTION_INFO_V1(mtp_blink_handler);

static void
insert_one(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	btinsert(index, values, isnull, tid, state, UNIQUE_CHECK_NO, false, NULL);
}

static IndexBuildResult *
build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	Buffer		metabuf;

	mtp_blink_check_support(index);
	metabuf = ReadBuffer(index, P_NEW);
	LockBuffer(metabuf, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	_bt_initmetapage(BufferGetPage(metabuf), P_NONE, 0, _bt_allequalimage(index, false));
	MarkBufferDirty(metabuf);
	if (RelationNeedsWAL(index))
		log_newpage_buffer(metabuf, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(metabuf);
	result->heap_tuples = table_index_build_scan(heap, index, info, true, true, insert_one, heap, NULL);
	result->index_tuples = result->heap_tuples;
	return result;
}

Datum
mtp_blink_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = (IndexAmRoutine *) DatumGetPointer(DirectFunctionCall1(bthandler, PG_GETARG_DATUM(0)));

	am->amcanunique = false;
	am->amcanparallel = false;
	am->ampredlocks = false;
	am->ambuild = build;
	am->amvalidate = mtp_blink_validate;
	am->amadjustmembers = mtp_blink_adjust_members;
	PG_RETURN_POINTER(am);
}
