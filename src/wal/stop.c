/*
 * stop.c
 *	  Stop points for tests (stop.h).
 */
#include "wal/stop.h"

#ifdef USE_ASSERT_CHECKING

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"

char	   *mtp_debug_stop = NULL;

/* The lock is only looked at: whoever holds it lets all go on at once by giving it up. */
static void
wait_for_lock(int key)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, key, 1);
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
}

void
mtp_stop_here(const char *point)
{
	size_t		len = strlen(point);
	const char *action;

	if (strncmp(mtp_debug_stop, point, len) != 0 || mtp_debug_stop[len] != '=')
		return;
	action = mtp_debug_stop + len + 1;
	if (strncmp(action, "wait", 4) == 0)
		wait_for_lock(action[4] != '\0' ? atoi(action + 4) : MTP_STOP_LOCK);
	else if (strcmp(action, "error") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("error at stop point \"%s\"", point)));
	else if (strcmp(action, "disk_full") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL), errmsg("no disk space at stop point \"%s\"", point)));
	else if (strcmp(action, "panic") == 0)
	{
		/* What was logged is to be replayed. */
		XLogFlush(XactLastRecEnd);
		ereport(PANIC, (errmsg("crash at stop point \"%s\"", point)));
	}
}

void
mtp_stop_init(void)
{
	DefineCustomStringVariable("mtpower.debug_stop",
							   "Stops, fails or crashes at a point in the code, for tests.",
							   NULL, &mtp_debug_stop, "",
							   PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
}

#endif							/* USE_ASSERT_CHECKING */
