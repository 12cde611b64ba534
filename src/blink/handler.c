/*
 * handler.c
 *	  The access method mtpower_blink: the functions that core calls, and insertion.
 */
#include "blink/reader.h"

#include "access/xact.h"
#include "batch/batch.h"
#include "catalog/pg_am.h"
#include "commands/vacuum.h"
#include "core/inject.h"
#include "opclass/opclass.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(mtp_blink_handler);

/*
 * Puts the entry into the batch engine's queue if a bulk load is under way, else into the tree.
 * Raises errors about the entry itself here, in the statement that brings it.
 */
static bool
blink_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			 IndexUniqueCheck check, bool unchanged, struct IndexInfo *info)
{
	MtpBlinkInfo *known = mtp_blink_info(index);
	bool		narrow = known->single && known->natts == 1;
	MtpArrival	arrival = MTP_NEW_ROW;
	IndexTuple	itup;

	/* Core asks whether an UPDATE changes the key, and keeps the answer in *info. */
	if (unchanged)
		arrival = MTP_SAME_KEY;
	else if (info != NULL && info->ii_CheckedUnchanged)
		arrival = MTP_NEW_VERSION;

	if (narrow && mtp_batch_enqueue_narrow(index, heap, known->norm, values[0], isnull[0], tid,
										   check, arrival))
		return false;

	itup = mtp_blink_form_tuple(index, values, isnull, tid);
	if (narrow || !mtp_batch_enqueue_wide(index, heap, itup, check, arrival))
	{
		MTP_INJECT("insert_begins");
		mtp_blink_insert(index, heap, itup, arrival);

		/* Core looked for readers of the index before; one may have missed the entry since. */
		if (IsolationIsSerializable())
			CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	}
	pfree(itup);
	return false;
}

Datum
mtp_blink_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	/* The fields left out are false or 0, as nbtree has them. */
	mtp_require_preload();
	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanorder = true;
	am->amcanbackward = true;
	am->amcanunique = false;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amclusterable = true;
	am->ampredlocks = false;
	am->amcanparallel = true;
	am->amcaninclude = true;
	am->amparallelvacuumoptions =
		VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP;

	am->ambuild = mtp_blink_build;
	am->ambuildempty = mtp_blink_build_empty;
	am->ambuildphasename = btbuildphasename;
	am->aminsert = blink_insert;
	am->ambulkdelete = mtp_blink_bulkdelete;
	am->amvacuumcleanup = mtp_blink_vacuumcleanup;
	am->amvalidate = mtp_blink_validate;
	am->amadjustmembers = mtp_opclass_adjust_members;
	am->amoptions = mtp_blink_options;
	am->amcostestimate = mtp_blink_cost;
	am->amcanreturn = mtp_blink_canreturn;
	am->ambeginscan = mtp_blink_beginscan;
	am->amrescan = mtp_blink_rescan;
	am->amgettuple = mtp_blink_gettuple;
	am->amgetbitmap = mtp_blink_getbitmap;
	am->amendscan = mtp_blink_endscan;
	am->ammarkpos = mtp_blink_markpos;
	am->amrestrpos = mtp_blink_restrpos;
	am->amestimateparallelscan = btestimateparallelscan;
	am->aminitparallelscan = btinitparallelscan;
	am->amparallelrescan = btparallelrescan;
	PG_RETURN_POINTER(am);
}

void
mtp_blink_init(void)
{
	mtp_blink_options_init();
	mtp_blink_redo_init();
	mtp_blink_batch_init();
	mtp_blink_inspect_init();
	mtp_buffer_register(mtp_blink_build, mtp_blink_reader_fits);
}
