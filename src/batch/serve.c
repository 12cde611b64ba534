/*
 * serve.c
 *	  What workers do for loads: find the most urgent batch, claim its units and run them.
 *
 * A worker acts for another process's transaction.  It takes its locks conditionally and before it
 * claims anything.  With a claim it takes no lock but the index's extension lock, and waits for no
 * transaction and for no cleanup lock (invariant E4).  So a process that waits for a claimed unit
 * waits for a worker that waits for nobody.
 */
#include "batch/shared.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "core/inject.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/spccache.h"
#include "utils/timestamp.h"

#define TURN_MS				200 /* on one index; then it looks for the most urgent one again */
#define LOCK_TIMEOUT		"100ms" /* for catalogs, before a claim */

static MtpServing *me = NULL;	/* this worker's */
static MtpUnit claimed;			/* claimed.batch is NULL if nothing is */
static MtpStatRef counters;		/* of the index that it is claimed of */
static BufferUsage seen_bufusage;
static WalUsage seen_walusage;

/*
 * Under mtp_batch_lock: the load's most urgent batch with a unit for a worker, or NULL.  The one
 * whose phase is furthest comes first, then the largest: it frees memory soonest.
 */
static MtpBatch *
find_urgent_batch(MtpLoad *load)
{
	MtpBatch   *best = NULL;
	MtpUnit		unit;
	dlist_iter	iter;

	dlist_foreach(iter, &load->batches)
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (mtp_batch_unit_ready(b, true, &unit) != NULL &&
			(best == NULL || b->phase > best->phase ||
			 (b->phase == best->phase && b->bytes > best->bytes)))
			best = b;
	}
	return best;
}

void
mtp_batch_serve_wanted(MtpLoad *load)
{
	static uint64 complained = 0;
	MtpBatch   *work;
	uint64		serial = 0;
	Oid			dbid = InvalidOid;

	if (!mtp_workers_allowed())
		return;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	work = find_urgent_batch(load);
	if (work != NULL)
	{
		/* The load may be another backend's, which may leave it behind at any time. */
		serial = work->serial;
		dbid = load->dbid;
	}
	LWLockRelease(mtp_batch_lock);

	if (work != NULL && mtp_worker_call(MTP_WORK_BATCH, dbid) == MTP_CALLED_NO_PROCESS &&
		complained != serial)
	{
		complained = serial;
		ereport(LOG,
				(errmsg("mtpower could not start a batch worker"),
				 errdetail("The loading session applies its index entries itself."),
				 errhint("You might need to increase max_worker_processes.")));
	}
}

/* Leaves the list of the load that this worker served; the load's drain may wait for that. */
static void
leave_list(void)
{
	MtpLoad    *load;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	load = me->load;
	me->load = NULL;
	LWLockRelease(mtp_batch_lock);
	if (load != NULL)
		ConditionVariableBroadcast(&load->cv);
}

/*
 * Hands buffer and WAL usage over to the owner, whose EXPLAIN and pg_stat_statements count what its
 * workers did.  The owner's pg_stat_wal then counts the WAL, and the worker's does not.
 */
static void
report_usage(void)
{
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (claimed.batch == NULL || !claimed.batch->cancelled)
	{
		BufferUsageAccumDiff(&me->load->bufusage, &pgBufferUsage, &seen_bufusage);
		WalUsageAccumDiff(&me->load->walusage, &pgWalUsage, &seen_walusage);
		pgWalUsage = seen_walusage;
	}
	LWLockRelease(mtp_batch_lock);
	seen_bufusage = pgBufferUsage;
	seen_walusage = pgWalUsage;
}

/* The process ends: other processes may claim its unit again (invariant E3). */
static void
leave_pool(void)
{
	static const MtpIndexCounts ended = {.failed[MTP_FAIL_EXIT] = 1};

	if (me == NULL)
		return;

	/* SIGTERM waits for the end of a critical section: a step is in whole or not at all (E5). */
	mtp_batch_step_end(me);
	if (claimed.batch != NULL)
	{
		mtp_batch_stat_add(counters, &ended);
		mtp_batch_unit_give_back(&claimed, false);
	}
	if (me->load != NULL)
		report_usage();

	/* Last of all: the owner's drain takes it for the end of this worker's work and locks. */
	leave_list();
	pg_atomic_write_u64(&me->entries, 0);
}

/*
 * Finds the most urgent batch of this database, and goes on its load's list: from now on the load's
 * drain waits for this worker.  False if there is no work.
 */
static bool
join_list(Oid *heapid, MtpLocator *locator)
{
	MtpBatch   *best = NULL;
	double		best_weight = 0;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	mtp_batch_shared->ticks++;
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *load = &mtp_batch_shared->loads[i];
		MtpBatch   *b;
		double		weight;

		if (load->pid == 0 || load->dbid != MyDatabaseId || (b = find_urgent_batch(load)) == NULL)
			continue;
		/* The most bytes, times the turns that it has waited. */
		weight = (double) load->bytes * (mtp_batch_shared->ticks - load->served);
		if (best == NULL || weight > best_weight)
		{
			best = b;
			best_weight = weight;
		}
	}
	if (best != NULL)
	{
		best->load->served = mtp_batch_shared->ticks;
		me = &mtp_batch_shared->serving[mtp_worker_slot()];
		me->load = best->load;
		me->dbid = MyDatabaseId;
		me->serial = best->serial;
		me->owner_pid = best->load->pid;
		me->roleid = best->load->roleid;
		me->indexid = best->indexid;
		me->phase = "locking";
		me->task = -1;
		*heapid = best->heapid;
		*locator = best->locator;

		/* Under both locks: a caller that saw this work must not take the worker for idle. */
		mtp_worker_begin(MTP_WORK_BATCH, "applying");
	}
	LWLockRelease(mtp_batch_lock);
	return best != NULL;
}

/* Leaves the batches of this statement and index, later ones too, to their owner. */
static void
refuse_index(MtpFailure why)
{
	MtpIndexCounts n = {0};
	dlist_iter	iter;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	dlist_foreach(iter, &me->load->batches)
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (b->serial == me->serial && b->indexid == me->indexid)
			b->worker_ok = false;
	}
	/* Batches that begin later look here (start_batch in fill.c). */
	if (me->load->refused_serial != me->serial)
		me->load->nrefused = 0;
	me->load->refused_serial = me->serial;
	me->load->refused[me->load->nrefused++ % MTP_REFUSED] = me->indexid;
	LWLockRelease(mtp_batch_lock);

	/* The load has opened the counters.  Here they are not: the index may be gone. */
	n.failed[why] = 1;
	mtp_batch_stat_count(me->indexid, &n);
}

/* Claims a unit of the statement's batches of this index; none if other things wait for it. */
static bool
claim_next(void)
{
	bool		got = false;
	dlist_iter	iter;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (!mtp_worker_called())
		dlist_foreach(iter, &me->load->batches)
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (b->serial == me->serial && b->indexid == me->indexid &&
			(got = mtp_batch_unit_claim(b, true, &claimed)))
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
 * A turn: works for one statement and index until nothing is left to claim, or for TURN_MS: a load
 * that is fed faster than its workers are would never let them go.  It holds a snapshot only while
 * a unit runs.  Without one, the pages that it descends through could be recycled; VACUUM and
 * CREATE INDEX CONCURRENTLY wait for snapshots.
 */
static bool
serve(void)
{
	MtpRunner	runner = {0};
	MtpFailure	refused = MTP_FAILURES;
	Oid			heapid;
	MtpLocator	locator;
	char		activity[80];
	TimestampTz began;

	if (!join_list(&heapid, &locator))
		return false;
	snprintf(activity, sizeof(activity), "index entries of process %d for index %u",
			 me->owner_pid, me->indexid);
	pgstat_report_activity(STATE_RUNNING, activity);
	StartTransactionCommand();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	PushActiveSnapshot(GetTransactionSnapshot());
	/* Everything that reads a catalog is loaded before anything is claimed (invariant E4). */
	if (!ConditionalLockRelationOid(heapid, AccessShareLock) ||
		!ConditionalLockRelationOid(me->indexid, RowExclusiveLock))
		refused = MTP_FAIL_LOCK;
	else
	{
		runner.heap = try_relation_open(heapid, NoLock);
		runner.index = try_relation_open(me->indexid, NoLock);
		if (runner.heap == NULL || runner.index == NULL ||
			runner.index->rd_rel->relkind != RELKIND_INDEX ||
			!MtpLocatorEquals(MtpRelLocator(runner.index), locator))
			refused = MTP_FAIL_FILE;
	}
	if (refused != MTP_FAILURES)
	{
		refuse_index(refused);
		PopActiveSnapshot();
		AbortCurrentTransaction();
		leave_list();
		return true;
	}
	runner.ops = mtp_batch_ops_of(runner.index);
	runner.order = runner.ops->order(runner.index);
	runner.worker = me;
	counters = mtp_batch_stat_open(runner.index);
	(void) get_tablespace_maintenance_io_concurrency(runner.heap->rd_rel->reltablespace);
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	seen_bufusage = pgBufferUsage;
	seen_walusage = pgWalUsage;
	began = GetCurrentTimestamp();

	/*
	 * A claim is in `claimed`, not on the stack: after an error give_back_failed finds it, and
	 * when the process ends leave_pool does (invariant E3).
	 */
	while (!TimestampDifferenceExceeds(began, GetCurrentTimestamp(), TURN_MS) && claim_next())
	{
		MTP_INJECT("worker_claimed");
		PushActiveSnapshot(GetTransactionSnapshot());
		mtp_batch_unit_run(&runner, &claimed);
		PopActiveSnapshot();
		InvalidateCatalogSnapshot();
		report_usage();
		mtp_batch_unit_finish(&claimed);
		CHECK_FOR_INTERRUPTS();
	}
	MTP_INJECT("worker_leaves");
	relation_close(runner.index, NoLock);
	relation_close(runner.heap, NoLock);
	CommitTransactionCommand();

	/* The owner's drain waits for this, so that no lock of a worker is left behind it. */
	leave_list();
	return true;
}

/* After an error: the unit goes back to its owner, which meets the error itself. */
static void
give_back_failed(void)
{
	mtp_batch_step_end(me);
	if (claimed.batch != NULL)
		mtp_batch_unit_give_back(&claimed, true);
	report_usage();
	refuse_index(MTP_FAIL_ERROR);
	leave_list();
}

void
mtp_batch_serve_init(void)
{
	static const MtpWork work = {.turn = serve,.failed = give_back_failed,.leave = leave_pool};

	mtp_worker_register(MTP_WORK_BATCH, &work);
}
