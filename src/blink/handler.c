/*
 * handler.c
 *	  The access method mtpower_blink as core sees it: its functions and storage parameters.
 */
#include "blink/reader.h"

#include "access/reloptions.h"
#include "access/xact.h"
#include "batch/batch.h"
#include "commands/vacuum.h"
#include "core/inject.h"
#include "opclass/opclass.h"
#include "opclass/validate.h"
#include "storage/predicate.h"

PG_FUNCTION_INFO_V1(mtp_blink_handler);

static relopt_kind blink_relopts;

static bytea *
blink_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(MtpBlinkOptions, fillfactor)},
		{"deduplicate_items", RELOPT_TYPE_BOOL, offsetof(MtpBlinkOptions, deduplicate_items)}
	};

	mtp_require_preload();
	return (bytea *) build_reloptions(reloptions, validate, blink_relopts,
									  sizeof(MtpBlinkOptions), tab, lengthof(tab));
}

int
mtp_blink_fillfactor(Relation rel)
{
	MtpBlinkOptions *opts = (MtpBlinkOptions *) rel->rd_options;

	return opts ? opts->fillfactor : MTP_BLINK_FILLFACTOR;
}

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

	/* Fields left out are false or 0: nbtree's, and its amcanunique and ampredlocks. */
	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanorder = true;
	am->amcanbackward = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amclusterable = true;
	am->amcanparallel = true;
	am->amcaninclude = true;
	MtpBeOrdered(am, mtp_blink_height);
	MtpBuildInParallel(am);
	am->amparallelvacuumoptions =
		VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP;

	am->ambuild = mtp_blink_build;
	am->ambuildempty = mtp_blink_build_empty;
	am->ambuildphasename = btbuildphasename;
	am->aminsert = blink_insert;
	am->ambulkdelete = mtp_blink_bulkdelete;
	am->amvacuumcleanup = mtp_blink_vacuumcleanup;
	am->amvalidate = mtp_opclass_validate_ordered;
	am->amadjustmembers = mtp_opclass_adjust_members;
	am->amoptions = blink_options;
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
	mtp_guard_index_am(am);
	PG_RETURN_POINTER(am);
}

void
mtp_blink_init(void)
{
	blink_relopts = add_reloption_kind();
	add_int_reloption(blink_relopts, "fillfactor",
					  "Percentage of a leaf page that index builds and batches fill",
					  MTP_BLINK_FILLFACTOR, MTP_BLINK_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_bool_reloption(blink_relopts, "deduplicate_items",
					   "Whether entries of equal keys are stored as lists", true,
					   ShareUpdateExclusiveLock);
	mtp_blink_redo_init();
	mtp_blink_batch_init();
	mtp_blink_inspect_init();
	mtp_buffer_register(mtp_blink_build, mtp_blink_reader_fits);
}
