/*
 * handler.c
 *	  The access method mtpower_zone as core sees it.
 */
#include "zone/zone.h"

#include "access/nbtree.h"
#include "access/reloptions.h"
#include "core/compat.h"
#include "nodes/execnodes.h"
#include "opclass/opclass.h"
#include "opclass/validate.h"

PG_FUNCTION_INFO_V1(mtp_zone_handler);

static bytea *
zone_options(Datum reloptions, bool validate)
{
	mtp_require_preload();
	if (validate && reloptions != (Datum) 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("mtpower_zone has no storage parameters")));
	return NULL;
}

static bool
zone_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			IndexUniqueCheck check, bool unchanged, struct IndexInfo *info)
{
	/*
	 * An UPDATE's new value: pruning removes the old version if it is HOT, and VACUUM is not told.
	 * Only UPDATEs find out whether values are unchanged.
	 */
	bool		due = info->ii_CheckedUnchanged && !unchanged;

	if (!mtp_zone_has_row(index, tid, info))
		mtp_zone_hold_row(index, ItemPointerGetBlockNumber(tid) / MTP_ZONE_BLOCKS, values, isnull,
						  due);
	return false;
}

Datum
mtp_zone_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	/* Fields left out are false or 0: bitmap scans are all that there is. */
	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearchnulls = true;
	MtpBuildInParallel(am);
	MtpSummarizes(am);

	am->ambuild = mtp_zone_build;
	am->ambuildempty = mtp_zone_build_empty;
	am->ambuildphasename = mtp_zone_phase_name;
	am->aminsert = zone_insert;
	am->ambulkdelete = mtp_zone_bulkdelete;
	am->amvacuumcleanup = mtp_zone_vacuumcleanup;
	am->amvalidate = mtp_opclass_validate_ordered;
	am->amadjustmembers = mtp_opclass_adjust_members;
	am->amoptions = zone_options;
	am->amcostestimate = mtp_zone_cost;
	am->ambeginscan = mtp_zone_beginscan;
	am->amrescan = mtp_zone_rescan;
	am->amgetbitmap = mtp_zone_getbitmap;
	am->amendscan = mtp_zone_endscan;
	mtp_guard_index_am(am);
	PG_RETURN_POINTER(am);
}

void
mtp_zone_init(void)
{
	mtp_zone_inspect_init();
	mtp_zone_hold_init();
}
