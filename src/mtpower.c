/*
 * mtpower.c
 *	  Loads the extension: the table of contents of what it installs in a server.
 *
 * This is the only file that knows all subsystems.
 */
#include "core/core.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "batch/batch.h"
#include "blink/blink.h"
#include "btree/btree.h"
#include "buffer/buffer.h"
#include "core/inject.h"
#include "dirscan/dirscan.h"
#include "explain/explain.h"
#include "hash/hash.h"
#include "opclass/opclass.h"
#include "pagedir/request.h"
#include "pmem/file.h"
#include "table/table.h"
#include "wal/wal.h"
#include "warm/keeper.h"
#include "worker/worker.h"
#include "zone/zone.h"

MTP_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/*
 * Installs everything in the postmaster, and nothing elsewhere, without a complaint: LOAD does no
 * harm.  But pg_upgrade loads the old cluster's libraries in the new cluster, before it changes
 * anything, to see whether they load; without the preload it would fail half-way, at the first
 * table.
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

	mtp_inject_init();
	mtp_buffer_init();
	mtp_pmem_init();
	mtp_wal_init();
	mtp_worker_init();
	mtp_opclass_init();
	mtp_blink_init();
	mtp_hash_init();
	mtp_zone_init();
	mtp_btree_init();

	/* Behind opclass: the engine's hook runs first, and drains before a command is looked at. */
	mtp_batch_init();
	mtp_pagedir_init();
	mtp_table_init();
	mtp_dirscan_init();
	mtp_warm_init();
	mtp_explain_init();

	/* All settings exist now: others of this prefix in configuration files are mistakes. */
	MarkGUCPrefixReserved(MTP_SCHEMA_NAME);
	mtp_preloaded = true;
}
