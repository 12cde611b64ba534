/*
 * vacate.c
 *	  Frees a database of workers and of a visitor, for a command that wants it for itself.
 *
 * The command names the database first, and then looks for processes there, under mtp_worker_lock.
 * A worker is started and a visitor begins under the same lock, and not in a database that is named
 * (invariant W2).
 */
#include "worker/worker.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "core/process.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

#define WANTED_SECONDS		60	/* as long as a database is without workers for a command */
#define PATIENCE_MS			5000
#define MOST_PIDS			(MTP_MAX_WORKERS + 1)

static Oid	wanted_here;		/* the database that this session's command wants */

const char *
mtp_database_wanted_by(Node *stmt, bool toplevel)
{
	const char *name = NULL;
	ListCell   *lc;

	if (IsA(stmt, DropdbStmt))
		name = ((DropdbStmt *) stmt)->dbname;
	else if (IsA(stmt, RenameStmt) && ((RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
		name = ((RenameStmt *) stmt)->subname;
	else if (IsA(stmt, AlterDatabaseStmt))
	{
		/* Its other options bear connections. */
		foreach(lc, ((AlterDatabaseStmt *) stmt)->options)
			if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
			name = ((AlterDatabaseStmt *) stmt)->dbname;
	}
	else if (IsA(stmt, CreatedbStmt))
	{
		name = "template1";
		foreach(lc, ((CreatedbStmt *) stmt)->options)
		{
			DefElem    *opt = lfirst_node(DefElem, lc);

			if (strcmp(opt->defname, "template") == 0 && opt->arg && IsA(opt->arg, String))
				name = strVal(opt->arg);
		}
	}

	/* Core refuses such a command before it does anything, RENAME in a transaction excepted. */
	if (name != NULL &&
		(XactReadOnly || (!IsA(stmt, RenameStmt) && IsInTransactionBlock(toplevel))))
		return NULL;
	return name;
}

/*
 * Names the database, tells its workers to leave, and notes their pids and a visitor's, which looks
 * for the name itself.  False if none of those noted is left.
 */
static bool
tell_to_quit(Oid dbid, int *pids)
{
	bool		any = false;

	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	mtp_workers->wanted_db = dbid;
	mtp_workers->wanted_until =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WANTED_SECONDS * 1000);
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpWorker  *w = &mtp_workers->workers[i];

		if (w->pid == 0 || w->dbid != dbid)
			continue;
		any = true;
		w->quit = true;
		/* One that is being started has no latch yet; it looks at quit before its first turn. */
		if (w->pid > 0)
		{
			pids[i] = w->pid;
			SetLatch(w->latch);
		}
	}
	if (mtp_workers->visitor_pid != 0 && mtp_workers->visitor_dbid == dbid)
	{
		any = true;
		pids[MTP_MAX_WORKERS] = mtp_workers->visitor_pid;
	}
	LWLockRelease(mtp_worker_lock);

	/* Core still takes a process for running that has left its slot a moment before. */
	for (int i = 0; i < MOST_PIDS && !any; i++)
		any = pids[i] != 0 && BackendPidGetProc(pids[i]) != NULL;
	return any;
}

/*
 * Tells again and again: a worker that was being started has a latch only later.  After PATIENCE_MS
 * core looks for itself, and refuses the command if a worker is still there.
 */
void
mtp_workers_vacate(const char *dbname)
{
	static uint32 event = 0;
	Oid			dbid = get_database_oid(dbname, true);
	TimestampTz start = GetCurrentTimestamp();
	int			pids[MOST_PIDS] = {0};

	if (!OidIsValid(dbid) || !MtpDatabaseOwner(dbid))
		return;
	wanted_here = dbid;
	while (tell_to_quit(dbid, pids) &&
		   !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), PATIENCE_MS))
	{
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 mtp_wait_event(&event, "MtpowerWorkerQuit"));
		ResetLatch(MyLatch);
	}
}

void
mtp_workers_return(void)
{
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	if (mtp_workers->wanted_db == wanted_here)
		mtp_workers->wanted_db = InvalidOid;
	LWLockRelease(mtp_worker_lock);
	wanted_here = InvalidOid;
}

bool
mtp_worker_unwelcome(Oid dbid)
{
	return mtp_workers->wanted_db == dbid && GetCurrentTimestamp() < mtp_workers->wanted_until;
}

bool
mtp_database_wanted(Oid dbid)
{
	bool		wanted;

	LWLockAcquire(mtp_worker_lock, LW_SHARED);
	wanted = mtp_worker_unwelcome(dbid);
	LWLockRelease(mtp_worker_lock);
	return wanted;
}

static void
end_visit(int code, Datum arg)
{
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	mtp_workers->visitor_pid = 0;
	LWLockRelease(mtp_worker_lock);
}

/* Under the lock, as workers are started (invariant W2). */
bool
mtp_visit_begin(Oid dbid)
{
	bool		welcome;

	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	welcome = mtp_workers->visitor_pid == 0 && !mtp_worker_unwelcome(dbid);

	/* A command that names the database later finds the visitor, and waits for its end. */
	if (welcome)
	{
		mtp_workers->visitor_pid = MyProcPid;
		mtp_workers->visitor_dbid = dbid;
	}
	LWLockRelease(mtp_worker_lock);
	if (welcome)
		before_shmem_exit(end_visit, 0);
	return welcome;
}

bool
mtp_visited(void)
{
	bool		visited;

	LWLockAcquire(mtp_worker_lock, LW_SHARED);
	visited = mtp_workers->visitor_pid != 0;
	LWLockRelease(mtp_worker_lock);
	return visited;
}
