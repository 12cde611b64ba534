/*
 * worker.c
 *	  Background workers: starting them, finding work, doing it, leaving.
 *
 * A worker acts for a transaction that is not its own.  It takes its locks conditionally and before
 * it claims anything; with a claim it takes no lock but the index's extension lock, waits for no
 * transaction and for no cleanup lock.  So whoever waits for a claimed unit waits for a process that
 * waits for nobody.
 *
 * A worker without a batch does chores of other subsystems.
 */
#include "batch/shared.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "core/inject.h"

#define IDLE_SECONDS		5	/* without work, then it leaves the database */
#define TURN_MS				200 /* on one index, then it looks for the most urgent one again */
#define START_SECONDS		5	/* a worker that has not come up by then never will */
#define KEEP_FREE			2	/* slots of max_worker_processes left to others */
#define WANTED_SECONDS		60	/* as long as a database is without workers for a command */
#define LOCK_TIMEOUT		"100ms" /* for catalogs, before a claim */

PGDLLEXPORT void mtp_worker_main(Datum arg);

MtpChores	mtp_chores;

static MtpWorker *me = NULL;
static MtpUnit claimed;			/* claimed.batch is NULL if nothing is */
static Oid	wanted_here;		/* the database that this session's command wants */
static BufferUsage seen_bufusage;
static WalUsage seen_walusage;

/*
 * How many background workers could still be started?  Before PostgreSQL 17 the place of a process that has ended keeps its pid: a place is taken if
 * its process is in the array of those that run.
 */
static int
free_worker_slots(void)
{
	int			first = MtpFirstBgworkerProc;
	int			used = 0;

	for (int i = first; i < first + max_worker_processes; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];

		used += proc->pid != 0 && BackendPidGetProc(proc->pid) == proc;
	}
	return max_worker_processes - used;
}

/* Under mtp_batch_lock: is there something for a worker in the load? */
static MtpBatch *
work_in(MtpLoad *load)
{
	MtpBatch   *best = NULL;
	dlist_iter	iter;

	dlist_foreach(iter, &load->batches)
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);
		bool		ready = false;

		if (b->cancelled || !b->worker_ok)
			continue;
		if (b->phase <= MTP_SORTING)
			for (int r = 0; r < b->nruns && !ready; r++)
				ready = mtp_run(b, r)->state == MTP_UNIT_READY;
		if (b->phase == MTP_SORTING && b->sorted == b->nruns)
			ready |= b->cut_state == MTP_UNIT_READY;
		if (b->phase == MTP_APPLYING)
			for (int t = 0; t < b->ntasks && !ready; t++)
				ready = b->tasks[t].state == MTP_UNIT_READY;

		/* What is furthest comes first, then the largest: it frees memory soonest. */
		if (ready && (best == NULL || b->phase > best->phase ||
					  (b->phase == best->phase && b->bytes > best->bytes)))
			best = b;
	}
	return best;
}

/*
 * Picks a place for a new worker in the database, or wakes an idle one.  Returns the slot to start, or -1; then *woken says
 * whether one will come.  A slot reserved for a worker that never came up is used again.
 */
static int
find_slot(Oid dbid, bool for_chore, bool *woken)
{
	TimestampTz now = GetCurrentTimestamp();
	MtpWorker  *oldest = NULL;
	int			running = 0;
	int			here = 0;
	int			slot = -1;

	*woken = false;
	if (dbid == mtp_shared->wanted_db && now < mtp_shared->wanted_until)
		return -1;
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpWorker  *w = &mtp_shared->workers[i];

		if (w->pid == -1 && TimestampDifferenceExceeds(w->started, now, START_SECONDS * 1000))
			w->pid = 0;
		if (w->pid == 0)
		{
			if (slot < 0)
				slot = i;
			continue;
		}
		running++;
		if (w->dbid == dbid)
			here++;
		else if (w->pid > 0 && !w->quit && (oldest == NULL || w->started < oldest->started))
			oldest = w;
		if (w->dbid != dbid || w->quit)
			continue;
		if (for_chore)
			*woken = true;
		if (w->pid > 0 && w->load == NULL && (for_chore || !w->chore))
		{
			SetLatch(w->latch);
			*woken = true;
			return -1;
		}
	}
	if (*woken)
		return -1;				/* one that is starting, or has a batch, comes to it */
	if (running < mtp_shared->max_workers)
		return slot;

	/* All are elsewhere: after a second's service one of them may come over. */
	if (here == 0 && oldest != NULL && TimestampDifferenceExceeds(oldest->started, now, 1000))
	{
		oldest->quit = true;
		SetLatch(oldest->latch);
	}
	return -1;
}

void
mtp_worker_describe(BackgroundWorker *bgw, const char *name, const char *function)
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

/* Under mtp_batch_lock: a place that find_slot has found is a starting worker's. */
static void
reserve_slot(int slot, Oid dbid)
{
	MtpWorker  *w = &mtp_shared->workers[slot];

	w->pid = -1;
	w->dbid = dbid;
	w->started = GetCurrentTimestamp();
	w->quit = false;
	w->chore = false;
	w->load = NULL;
	w->entries = 0;
	w->phase = "starting";
	w->task = -1;
}

/* Starts a worker in a place reserved for it; false if there is no process for it. */
static bool
start_worker(int slot)
{
	BackgroundWorker bgw;

	mtp_worker_describe(&bgw, "mtpower worker", "mtp_worker_main");
	bgw.bgw_main_arg = Int32GetDatum(slot);
	if (free_worker_slots() > KEEP_FREE && RegisterDynamicBackgroundWorker(&bgw, NULL))
		return true;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mtp_shared->workers[slot].pid = 0;
	mtp_shared->no_worker++;
	LWLockRelease(mtp_batch_lock);
	return false;
}

/*
 * There is work: wakes or starts a worker.  None to be had is no error; the owner does the work.
 */
void
mtp_worker_wanted(MtpLoad *load)
{
	static uint64 complained = 0;
	MtpBatch   *work;
	uint64		serial = 0;
	bool		woken;
	int			slot = -1;

	if (mtp_shared->max_workers == 0)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	work = work_in(load);
	if (work != NULL)
	{
		serial = work->serial;
		slot = find_slot(load->dbid, false, &woken);
	}
	if (slot >= 0)
		reserve_slot(slot, load->dbid);
	LWLockRelease(mtp_batch_lock);
	if (slot >= 0 && !start_worker(slot) && complained != serial)
	{
		complained = serial;
		ereport(LOG,
				(errmsg("mtpower could not start a batch worker"),
				 errdetail("The loading session applies its index entries itself."),
				 errhint("You might need to increase max_worker_processes.")));
	}
}

bool
mtp_worker_for_chores(void)
{
	bool		woken;
	int			slot;

	if (mtp_shared->max_workers == 0 || !IsUnderPostmaster)
		return false;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	slot = find_slot(MyDatabaseId, true, &woken);
	if (slot >= 0)
		reserve_slot(slot, MyDatabaseId);
	LWLockRelease(mtp_batch_lock);
	return slot >= 0 ? start_worker(slot) : woken;
}

bool
mtp_workers_allowed(void)
{
	return mtp_shared->max_workers > 0 && IsUnderPostmaster;
}

bool
mtp_database_wanted(Oid dbid)
{
	bool		wanted;

	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	wanted = mtp_shared->wanted_db == dbid && GetCurrentTimestamp() < mtp_shared->wanted_until;
	LWLockRelease(mtp_batch_lock);
	return wanted;
}

bool
mtp_worker_called(void)
{
	return me->quit || ConfigReloadPending;
}

/* ---------- visitors ---------- */

static void
visit_end(int code, Datum arg)
{
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mtp_shared->visitor_pid = 0;
	LWLockRelease(mtp_batch_lock);
}

/* Whoever wants the database from now on finds the visitor; who wanted it before is found. */
bool
mtp_visit_begin(Oid dbid)
{
	bool		welcome;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	welcome = mtp_shared->visitor_pid == 0 && !(mtp_shared->wanted_db == dbid && GetCurrentTimestamp() < mtp_shared->wanted_until);
	if (welcome)
	{
		mtp_shared->visitor_pid = MyProcPid;
		mtp_shared->visitor_dbid = dbid;
	}
	LWLockRelease(mtp_batch_lock);
	if (welcome)
		before_shmem_exit(visit_end, 0);
	return welcome;
}

bool
mtp_visited(void)
{
	bool		visited;

	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	visited = mtp_shared->visitor_pid != 0;
	LWLockRelease(mtp_batch_lock);
	return visited;
}

/* ---------- workers ---------- */

/* Under mtp_batch_lock: leaves the list of the load that it served. */
static void
leave_list(void)
{
	MtpLoad    *load = me->load;

	me->load = NULL;
	me->phase = "idle";
	me->task = -1;
	if (load != NULL)
		ConditionVariableBroadcast(&load->cv);
}

/*
 * Hands buffer and WAL usage over to the owner, whose EXPLAIN and pg_stat_statements count what its
 * workers did.  The WAL is then the owner's in pg_stat_wal as well, and not counted twice.
 */
static void
report_usage(void)
{
	bool		cancelled;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	cancelled = claimed.batch != NULL && claimed.batch->cancelled;
	if (!cancelled)
	{
		BufferUsageAccumDiff(&me->load->bufusage, &pgBufferUsage, &seen_bufusage);
		WalUsageAccumDiff(&me->load->walusage, &pgWalUsage, &seen_walusage);
		pgWalUsage = seen_walusage;
	}
	LWLockRelease(mtp_batch_lock);
	seen_bufusage = pgBufferUsage;
	seen_walusage = pgWalUsage;
}

/* Exit in any way: what it had claimed may be claimed again.  Its transaction is over by now. */
static void
worker_exit(int code, Datum arg)
{
	mtp_step_end(me);
	if (claimed.batch != NULL)
	{
		mtp_stat_count_failure(me->indexid, MTP_FAIL_EXIT);
		mtp_unit_give_back(&claimed, false);
		claimed.batch = NULL;
	}
	if (me->load != NULL)
		report_usage();
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	leave_list();
	me->pid = 0;
	LWLockRelease(mtp_batch_lock);
}

/*
 * Settings of the database and its roles must not reach a worker: they could make its snapshot wait
 * for the owner who waits for it, change its search path, or cancel it.
 */
void
mtp_worker_reset_settings(void)
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

/* Finds the most urgent batch of this database and goes on its load's list. */
static bool
join_list(Oid *heapid, MtpLocator *locator)
{
	MtpBatch   *best = NULL;
	double		best_weight = 0;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mtp_shared->ticks++;
	for (int i = 0; i < mtp_shared->max_loads; i++)
	{
		MtpLoad    *load = &mtp_shared->loads[i];
		MtpBatch   *b;
		double		weight;

		if (load->pid == 0 || load->dbid != me->dbid || (b = work_in(load)) == NULL)
			continue;
		/* The most bytes, times the turns that it has waited. */
		weight = (double) load->bytes * (mtp_shared->ticks - load->served);
		if (best == NULL || weight > best_weight)
		{
			best = b;
			best_weight = weight;
		}
	}
	if (best != NULL)
	{
		best->load->served = mtp_shared->ticks;
		me->load = best->load;
		me->serial = best->serial;
		me->owner_pid = best->load->pid;
		me->roleid = best->load->roleid;
		me->indexid = best->indexid;
		me->phase = "locking";
		*heapid = best->heapid;
		*locator = best->locator;
	}
	LWLockRelease(mtp_batch_lock);
	return best != NULL;
}

/* Leaves the batches of this statement and index to their owner, further ones too. */
static void
refuse(MtpFailure why)
{
	dlist_iter	iter;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	dlist_foreach(iter, &me->load->batches)
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (b->serial == me->serial && b->indexid == me->indexid)
			b->worker_ok = false;
	}
	if (me->load->refused_serial != me->serial)
		me->load->nrefused = 0;
	me->load->refused_serial = me->serial;
	me->load->refused[me->load->nrefused++ % MTP_REFUSED] = me->indexid;
	LWLockRelease(mtp_batch_lock);
	mtp_stat_count_failure(me->indexid, why);
}

/*
 * Locks and opens the relations, if they are to be had and the very ones that the owner means.
 * Everything that reads a catalog is loaded here, before anything is claimed.
 */
static bool
open_relations(MtpRunner *runner, Oid heapid, const MtpLocator *locator)
{
	if (!ConditionalLockRelationOid(heapid, AccessShareLock) ||
		!ConditionalLockRelationOid(me->indexid, RowExclusiveLock))
	{
		refuse(MTP_FAIL_LOCK);
		return false;
	}
	runner->heap = try_relation_open(heapid, NoLock);
	runner->index = try_relation_open(me->indexid, NoLock);
	if (runner->heap == NULL || runner->index == NULL ||
		runner->index->rd_rel->relkind != RELKIND_INDEX ||
		!MtpLocatorEquals(MtpRelLocator(runner->index), *locator))
	{
		refuse(MTP_FAIL_FILE);
		return false;
	}
	runner->ops = mtp_batch_ops_of(runner->index);
	runner->order = runner->ops->order(runner->index);
	runner->worker = me;
	return true;
}

/* Claims a unit of the statement's and index's batches; none when it is to look at other things. */
static bool
claim_next(void)
{
	bool		got = false;
	dlist_iter	iter;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (!me->quit && !ConfigReloadPending)
		dlist_foreach(iter, &me->load->batches)
		{
			MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

			if (b->serial == me->serial && b->indexid == me->indexid &&
				(got = mtp_unit_claim(b, true, &claimed)))
				break;
		}
	if (got)
	{
		me->phase = claimed.kind == MTP_UNIT_SORT ? "sorting" :
			claimed.kind == MTP_UNIT_CUT ? "cutting" : "applying";
		me->task = claimed.kind == MTP_UNIT_CUT ? -1 : claimed.at;
	}
	else
		claimed.batch = NULL;
	LWLockRelease(mtp_batch_lock);
	return got;
}

/*
 * Works for one statement and index until nothing is left to claim, or its turn is over: a load that
 * is fed faster than its workers are would never let them go.  A snapshot is held while a unit runs,
 * or the pages that it descends through could be recycled; and no longer, since VACUUM and CREATE
 * INDEX CONCURRENTLY wait for snapshots.
 */
static void
serve(Oid heapid, MtpLocator locator)
{
	MtpRunner	runner = {0};
	char		activity[80];
	TimestampTz began;

	snprintf(activity, sizeof(activity), "index entries of process %d for index %u",
			 me->owner_pid, me->indexid);
	pgstat_report_activity(STATE_RUNNING, activity);
	StartTransactionCommand();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!open_relations(&runner, heapid, &locator))
	{
		PopActiveSnapshot();
		AbortCurrentTransaction();
		return;
	}
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	seen_bufusage = pgBufferUsage;
	seen_walusage = pgWalUsage;
	began = GetCurrentTimestamp();

	while (!TimestampDifferenceExceeds(began, GetCurrentTimestamp(), TURN_MS) && claim_next())
	{
		MTP_STOP_POINT("worker_claimed");
		PushActiveSnapshot(GetTransactionSnapshot());
		(void) mtp_unit_run(&runner, &claimed);
		PopActiveSnapshot();
		InvalidateCatalogSnapshot();
		report_usage();
		mtp_unit_finish(&claimed);
		claimed.batch = NULL;
		CHECK_FOR_INTERRUPTS();
	}
	MTP_STOP_POINT("worker_leaves");
	relation_close(runner.index, NoLock);
	relation_close(runner.heap, NoLock);
	CommitTransactionCommand();
}

/* serve(), and what becomes of an error: the unit goes back to its owner, who meets it itself. */
static void
serve_safely(Oid heapid, MtpLocator locator)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		serve(heapid, locator);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		mtp_step_end(me);
		if (claimed.batch != NULL)
		{
			mtp_unit_give_back(&claimed, true);
			claimed.batch = NULL;
		}
		report_usage();
		refuse(MTP_FAIL_ERROR);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	leave_list();
	LWLockRelease(mtp_batch_lock);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
}

void
mtp_worker_begin_chore(const char *phase)
{
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	me->chore = true;
	me->phase = phase;
	LWLockRelease(mtp_batch_lock);
}

static void
end_chore(void)
{
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	me->chore = false;
	me->phase = "idle";
	LWLockRelease(mtp_batch_lock);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* A turn of chores, and what becomes of an error.  False if there was nothing to do. */
static bool
do_chores(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool any = true;

	if (mtp_chores.turn == NULL)
		return false;
	PG_TRY();
	{
		any = mtp_chores.turn();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		mtp_chores.failed();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (me->chore)
		end_chore();
	return any;
}

/* Takes the slot that it was started for; false if that took too long and it is another's. */
static bool
take_slot(int slot)
{
	bool		mine;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mine = mtp_shared->workers[slot].pid == -1;
	if (mine)
	{
		me = &mtp_shared->workers[slot];
		me->pid = MyProcPid;
		me->latch = MyLatch;
		me->phase = "idle";
		me->started = GetCurrentTimestamp();
	}
	LWLockRelease(mtp_batch_lock);
	return mine;
}

/* Has mtpower.workers been lowered so far that this worker has to go? */
static bool
too_many(void)
{
	int			before = 0;

	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	for (MtpWorker *w = mtp_shared->workers; w < me; w++)
		before += w->pid != 0;
	LWLockRelease(mtp_batch_lock);
	return before >= mtp_shared->max_workers;
}

void
mtp_worker_main(Datum arg)
{
	TimestampTz idle_since;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!take_slot(DatumGetInt32(arg)))
		return;
	before_shmem_exit(worker_exit, 0);
	BackgroundWorkerInitializeConnectionByOid(me->dbid, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	mtp_worker_reset_settings();
	pgstat_report_activity(STATE_IDLE, NULL);

	idle_since = GetCurrentTimestamp();
	while (!me->quit)
	{
		Oid			heapid;
		MtpLocator	locator;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (too_many())
			break;
		if (join_list(&heapid, &locator))
		{
			serve_safely(heapid, locator);
			idle_since = GetCurrentTimestamp();
			continue;
		}
		if (do_chores())
		{
			idle_since = GetCurrentTimestamp();
			continue;
		}
		if (TimestampDifferenceExceeds(idle_since, GetCurrentTimestamp(), IDLE_SECONDS * 1000))
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000,
						 mtp_wait_event(MTP_WAIT_IDLE));
	}
}

#define MOST_PIDS	(MTP_MAX_WORKERS + 1)

/* Marks the database's workers to leave, and notes their pids, and a visitor's, who looks for himself; false if there are none. */
static bool
tell_to_quit(Oid dbid, int *pids)
{
	bool		any = false;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mtp_shared->wanted_db = dbid;
	mtp_shared->wanted_until =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WANTED_SECONDS * 1000);
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpWorker  *w = &mtp_shared->workers[i];

		if (w->pid == 0 || w->dbid != dbid)
			continue;
		any = true;
		w->quit = true;
		if (w->pid > 0)
		{
			pids[i] = w->pid;
			SetLatch(w->latch);
		}
	}
	if (mtp_shared->visitor_pid != 0 && mtp_shared->visitor_dbid == dbid)
	{
		any = true;
		pids[MTP_MAX_WORKERS] = mtp_shared->visitor_pid;
	}
	LWLockRelease(mtp_batch_lock);
	return any;
}

/* A worker leaves its slot a moment before core takes it for gone. */
static bool
still_connected(const int *pids)
{
	for (int i = 0; i < MOST_PIDS; i++)
		if (pids[i] != 0 && BackendPidGetProc(pids[i]) != NULL)
			return true;
	return false;
}

void
mtp_workers_detach(const char *dbname)
{
	Oid			dbid = dbname ? get_database_oid(dbname, true) : InvalidOid;
	TimestampTz start = GetCurrentTimestamp();
	int			pids[MOST_PIDS] = {0};

	if (!OidIsValid(dbid) || !MtpDatabaseOwner(dbid))
		return;
	wanted_here = dbid;
	while ((tell_to_quit(dbid, pids) || still_connected(pids)) &&
		   !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), 5000))
	{
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 mtp_wait_event(MTP_WAIT_QUIT));
		ResetLatch(MyLatch);
	}
}

void
mtp_workers_return(void)
{
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (mtp_shared->wanted_db == wanted_here)
		mtp_shared->wanted_db = InvalidOid;
	LWLockRelease(mtp_batch_lock);
	wanted_here = InvalidOid;
}
