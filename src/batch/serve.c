/*
 * serve.c
 *	  What workers do for loads: find the most urgent batch, claim its units and run them.
 *
 * A worker acts for a transaction that is not its own.  It takes its locks conditionally and before it
 * claims anything; with a claim it takes no lock but the index's extension lock, waits for no transaction
 * and for no cleanup lock.  So a process that waits for a claimed unit waits for one that waits for nobody.
 */
#include "batch/shared.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "core/inject.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define TURN_MS				200 /* on one index, then it looks for the most urgent one again */
#define LOCK_TIMEOUT		"100ms" /* for catalogs, before a claim */

static MtpServing *me = NULL;	/* this worker's */
static MtpUnit claimed;			/* claimed.batch is NULL if nothing is */
static BufferUsage seen_bufusage;
static WalUsage seen_walusage;

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

void
mtp_batch_serve_wanted(MtpLoad *load)
{
	static uint64 complained = 0;
	MtpBatch   *work;
	uint64		serial = 0;

	if (!mtp_workers_allowed())
		return;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	work = work_in(load);
	if (work != NULL)
		serial = work->serial;
	LWLockRelease(mtp_batch_lock);

	if (work != NULL && mtp_worker_call(MTP_WORK_BATCH, load->dbid) == MTP_CALLED_NO_PROCESS &&
		complained != serial)
	{
		complained = serial;
		ereport(LOG,
				(errmsg("mtpower could not start a batch worker"),
				 errdetail("The loading session applies its index entries itself."),
				 errhint("You might need to increase max_worker_processes.")));
	}
}

/* Leaves the list of the load that it served. */
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

/* The process ends: what it had claimed may be claimed again. */
static void
leave(void)
{
	if (me == NULL)
		return;
	mtp_batch_step_end(me);
	if (claimed.batch != NULL)
	{
		mtp_batch_stat_count_failure(me->indexid, MTP_FAIL_EXIT);
		mtp_batch_unit_give_back(&claimed, false);
		claimed.batch = NULL;
	}
	if (me->load != NULL)
		report_usage();
	leave_list();
	LWLockAcquire(mtp_stat_lock, LW_EXCLUSIVE);
	me->entries = 0;
	LWLockRelease(mtp_stat_lock);
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

		if (load->pid == 0 || load->dbid != MyDatabaseId || (b = work_in(load)) == NULL)
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
		me = &mtp_shared->serving[mtp_worker_slot()];
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

		/* Under both locks: nobody takes this worker for idle who saw what is to be done. */
		mtp_worker_begin(MTP_WORK_BATCH, "applying");
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
	mtp_batch_stat_count_failure(me->indexid, why);
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

/* Claims a unit of the statement's and index's batches; none when it must look at other things. */
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
		MTP_INJECT("worker_claimed");
		PushActiveSnapshot(GetTransactionSnapshot());
		(void) mtp_batch_unit_run(&runner, &claimed);
		PopActiveSnapshot();
		InvalidateCatalogSnapshot();
		report_usage();
		mtp_batch_unit_finish(&claimed);
		claimed.batch = NULL;
		CHECK_FOR_INTERRUPTS();
	}
	MTP_INJECT("worker_leaves");
	relation_close(runner.index, NoLock);
	relation_close(runner.heap, NoLock);
	CommitTransactionCommand();
}

static bool
turn(void)
{
	Oid			heapid;
	MtpLocator	locator;

	if (!join_list(&heapid, &locator))
		return false;
	serve(heapid, locator);
	leave_list();
	return true;
}

/* An error: the unit goes back to its owner, which meets the error itself. */
static void
failed(void)
{
	mtp_batch_step_end(me);
	if (claimed.batch != NULL)
	{
		mtp_batch_unit_give_back(&claimed, true);
		claimed.batch = NULL;
	}
	report_usage();
	refuse(MTP_FAIL_ERROR);
	leave_list();
}

void
mtp_batch_serve_init(void)
{
	static const MtpWork work = {.turn = turn,.failed = failed,.leave = leave};

	mtp_worker_register(MTP_WORK_BATCH, &work);
}
