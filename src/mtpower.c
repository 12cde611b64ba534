/*
 * mtpower.c
 *	  Loads the extension: the table of contents of what it installs in a server.
 */
#include "core/core.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "pagedir/request.h"
#include "warm/keeper.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(mtp_check_preload);

static bool preloaded = false;	/* _PG_init ran in the postmaster */

/*
 * Elsewhere than in the postmaster nothing is installed, and nothing complains: LOAD does no harm.  But pg_upgrade loads
 * the libraries of the old cluster in the new one to see whether they will do, before it changes anything; without the
 * preload it would fail half-way, at the first table.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
	{
		if (IsBinaryUpgrade)
			mtp_require_preload();
		return;
	}

	mtp_buffer_init();
	mtp_wal_init();
	mtp_table_init();
	mtp_opclass_init();
	mtp_blink_init();
	mtp_hash_init();
	mtp_batch_init();
	mtp_admit_init();
	mtp_scan_init();
	mtp_warm_init();

	/* Settings are all there now: in configuration files, others of this prefix are mistakes. */
	MarkGUCPrefixReserved(MTP_SCHEMA_NAME);
	preloaded = true;
}

void
mtp_require_preload(void)
{
	if (!preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("mtpower must be loaded via \"shared_preload_libraries\""),
				 errhint("Add \"mtpower\" to \"shared_preload_libraries\" in postgresql.conf, and restart the server.")));
}

Datum
mtp_check_preload(PG_FUNCTION_ARGS)
{
	mtp_require_preload();
	PG_RETURN_VOID();
}
