/*
 * standby.c
 *	  Reminds whoever installs mtpower that standbys need the library as well.
 */
#include "mtpower.h"

#include "nodes/parsenodes.h"
#include "replication/slot.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type next_process_utility = NULL;

/* Whether a process streams changes out of a logical slot, to a subscriber instead of a standby. */
static bool
is_logical_sender(pid_t pid)
{
	bool		result = false;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && !result; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (!slot->in_use)
			continue;
		SpinLockAcquire(&slot->mutex);
		result = slot->active_pid == pid && SlotIsLogical(slot);
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	return result;
}

static int
count_standbys(void)
{
	int			count = 0;

	for (int i = 0; i < max_wal_senders; i++)
	{
		WalSnd	   *sender = &WalSndCtl->walsnds[i];
		pid_t		pid;
		WalSndState state;

		SpinLockAcquire(&sender->mutex);
		pid = sender->pid;
		state = sender->state;
		SpinLockRelease(&sender->mutex);

		if (pid != 0 &&
			(state == WALSNDSTATE_CATCHUP || state == WALSNDSTATE_STREAMING) &&
			!is_logical_sender(pid))
			count++;
	}
	return count;
}

/*
 * A standby without the library stops at the first WAL record of mtpower, which comes with the
 * first index.  We can't look into its settings, so this is said whenever a standby is connected.
 */
static void
remind_of_standbys(void)
{
	int			count = count_standbys();

	if (count > 0)
		ereport(NOTICE,
				(errmsg("standbys need mtpower in \"shared_preload_libraries\" as well"),
				 errdetail_plural("%d standby is connected. Without the library a standby stops at the first mtpower index.",
								  "%d standbys are connected. Without the library a standby stops at the first mtpower index.",
								  count, count),
				 errhint("Install mtpower on each standby, add it to \"shared_preload_libraries\" there and restart it, before you create an index.")));
}

/* While an extension's script runs notices are suppressed; hence a hook around the command. */
static void
standby_process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		installs = IsA(stmt, CreateExtensionStmt) &&
		strcmp(((CreateExtensionStmt *) stmt)->extname, "mtpower") == 0;

	if (next_process_utility)
		next_process_utility(pstmt, query_string, read_only_tree, context, params, query_env,
							 dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params, query_env,
								dest, qc);

	if (installs)
		remind_of_standbys();
}

void
mtp_standby_init(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = standby_process_utility;
}
