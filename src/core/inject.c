/*
 * inject.c
 *	  Injection points for tests (inject.h).
 */
#include "core/inject.h"

#ifdef USE_ASSERT_CHECKING

#include <sched.h>

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"

char	   *mtp_debug_injection = NULL;

void
mtp_inject_here(const char *point)
{
	size_t		len = strcspn(mtp_debug_injection, "=*");
	const char *action;

	if (strncmp(mtp_debug_injection, point, len) != 0 ||
		(mtp_debug_injection[len] != '*' && point[len] != '\0'))
		return;
	action = strchr(mtp_debug_injection, '=');
	if (action == NULL)
		return;
	action++;
	if (strncmp(action, "wait", 4) == 0)
	{
		LOCKTAG		tag;

		/* Given back at once: the holder lets all waiting processes go on by releasing it. */
		SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0,
							 action[4] != '\0' ? atoi(action + 4) : MTP_INJECT_LOCK, 1);
		(void) LockAcquire(&tag, ShareLock, false, false);
		LockRelease(&tag, ShareLock, false);
	}
	else if (strcmp(action, "delay") == 0)
	{
		uint32		chance = pg_prng_uint32(&pg_global_prng_state);

		/* Mostly goes on at once, now and then lets others go first, and seldom sleeps. */
		if (chance % 256 == 0)
			pg_usleep(chance / 256 % 1000);
		else if (chance % 16 == 0)
			sched_yield();
	}
	else if (strcmp(action, "error") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("error at injection point \"%s\"", point)));
	else if (strcmp(action, "disk_full") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("no disk space at injection point \"%s\"", point)));
	else if (strcmp(action, "panic") == 0)
	{
		/* The server must replay what this process has logged. */
		XLogFlush(XactLastRecEnd);
		ereport(PANIC, (errmsg("crash at injection point \"%s\"", point)));
	}
}

void
mtp_inject_init(void)
{
	DefineCustomStringVariable("mtpower.debug_injection",
							   "Stops, fails or crashes at a point in the code, for tests.",
							   NULL, &mtp_debug_injection, "",
							   PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
}

#endif							/* USE_ASSERT_CHECKING */
