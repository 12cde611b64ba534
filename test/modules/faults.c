/*
 * faults.c
 *	  Holds what processes wait for, as long as a file exists: for tests of faults.  Whoever has it waits for PgSleep.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/genam.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(hold_extension);
PG_FUNCTION_INFO_V1(hold_page);

static void
wait_while_exists(const char *file)
{
	pgstat_report_wait_start(WAIT_EVENT_PG_SLEEP);
	while (access(file, F_OK) == 0)
		pg_usleep(2000);
	pgstat_report_wait_end();
}

/* hold_extension(index, file): the lock for extending the index's file */
Datum
hold_extension(PG_FUNCTION_ARGS)
{
	Relation	rel = index_open(PG_GETARG_OID(0), AccessShareLock);

	LockRelationForExtension(rel, ExclusiveLock);
	wait_while_exists(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	UnlockRelationForExtension(rel, ExclusiveLock);
	index_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/* hold_page(index, block, file): the content lock of a page */
Datum
hold_page(PG_FUNCTION_ARGS)
{
	Relation	rel = index_open(PG_GETARG_OID(0), AccessShareLock);
	Buffer		buf = ReadBuffer(rel, PG_GETARG_INT64(1));

	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	wait_while_exists(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	UnlockReleaseBuffer(buf);
	index_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}
