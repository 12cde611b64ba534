/*
 * process.c
 *	  Describes background processes, and gives them settings of their own.
 */
#include "core/process.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "utils/guc.h"

void
mtp_process_describe(BackgroundWorker *bgw, const char *name, const char *function)
{
	memset(bgw, 0, sizeof(*bgw));
	bgw->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	bgw->bgw_start_time = BgWorkerStart_RecoveryFinished;
	bgw->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(bgw->bgw_library_name, "mtpower", BGW_MAXLEN);
	strlcpy(bgw->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(bgw->bgw_name, name, BGW_MAXLEN);
	strlcpy(bgw->bgw_type, name, BGW_MAXLEN);
}

bool
mtp_process_wait(long ms)
{
	if (ShutdownRequestPending)
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms < 0 ? 0 : WL_TIMEOUT), ms,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	return !ShutdownRequestPending;
}

/*
 * Settings of the database and its roles must not reach such a process: they could make its
 * snapshot wait for the load that waits for it, change its search path, or cancel it.
 */
void
mtp_process_reset_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""},
		{"zero_damaged_pages", "false"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"transaction_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"stats_fetch_consistency", "none"},
		{"row_security", "off"}
	};

	/* Not every release has each. */
	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}
