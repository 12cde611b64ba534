/*
 * preload.c
 *	  Refuses to work in a server that has not preloaded the library.
 */
#include "core/core.h"

PG_FUNCTION_INFO_V1(mtp_check_preload);

bool		mtp_preloaded = false;

void
mtp_require_preload(void)
{
	if (!mtp_preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("mtpower must be loaded via \"shared_preload_libraries\""),
				 errhint("Add \"mtpower\" to \"shared_preload_libraries\" in postgresql.conf, "
						 "and restart the server.")));
}

/* In place of functions of any type: it does not return. */
pg_noreturn static void
refuse(void)
{
	mtp_require_preload();
	pg_unreachable();
}

void
mtp_guard_index_am(IndexAmRoutine *am)
{
	if (mtp_preloaded)
		return;
	am->ambuild = (ambuild_function) refuse;
	am->ambuildempty = (ambuildempty_function) refuse;
	am->aminsert = (aminsert_function) refuse;
	am->ambulkdelete = (ambulkdelete_function) refuse;
	am->amvacuumcleanup = (amvacuumcleanup_function) refuse;
	am->amcostestimate = (amcostestimate_function) refuse;
	am->ambeginscan = (ambeginscan_function) refuse;
	am->amcanreturn = NULL;
	MtpNoTreeHeight(am);
}

Datum
mtp_check_preload(PG_FUNCTION_ARGS)
{
	mtp_require_preload();
	PG_RETURN_VOID();
}
