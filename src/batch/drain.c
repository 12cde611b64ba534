/*
 * drain.c
 *	  A backend's own batches: running them, waiting for them, throwing them away.
 *
 * A backend that waits runs units itself, so it needs no worker to get on.  It waits only for units
 * that workers have claimed, and a worker with a claim waits for nobody (invariant E4).
 */
#include "batch/statement.h"

#include "access/table.h"
#include "core/process.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "core/inject.h"

MtpLoad    *mtp_batch_my_load = NULL;

/*
 * The unit of its own that this backend runs, if batch is not NULL.  A flush before a scan inside
 * of it does nothing, and nothing is queued there.
 */
static MtpUnit running;

bool
mtp_batch_drain_busy(void)
{
	return running.batch != NULL;
}

/* FATAL unwinds no PG_TRY: this gives the unit under way back, or its batch would stay (E3). */
static void
leave_load(int code, Datum arg)
{
	if (running.batch != NULL)
		mtp_batch_unit_give_back(&running, false);
	mtp_batch_cancel(0, InvalidSubTransactionId);
	mtp_batch_my_load->pid = 0;
}

MtpLoad *
mtp_batch_load_join(void)
{
	if (mtp_batch_my_load == NULL)
	{
		MtpLoad    *load = &mtp_batch_shared->loads[MtpMyBackend()];

		LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
		load->dbid = MyDatabaseId;
		load->roleid = MyProc->roleId;
		dlist_init(&load->batches);
		dlist_init(&load->own);
		load->pid = MyProcPid;
		memset(&load->bufusage, 0, sizeof(load->bufusage));
		memset(&load->walusage, 0, sizeof(load->walusage));
		load->applied_batches = load->waits = 0;
		load->progress.serial = 0;
		load->refused_serial = 0;	/* serials of a process of the same pid come again */
		for (int by_worker = 0; by_worker < 2; by_worker++)
			pg_atomic_init_u64(&load->applied[by_worker], 0);
		LWLockRelease(mtp_batch_lock);
		mtp_batch_my_load = load;
		before_shmem_exit(leave_load, 0);
	}
	return mtp_batch_my_load;
}

static bool
matches(MtpBatch *b, uint64 serial, Oid indexid, SubTransactionId subxid)
{
	return (serial == 0 || b->serial == serial) &&
		(!OidIsValid(indexid) || b->indexid == indexid) &&
		(subxid == InvalidSubTransactionId || b->subxid >= subxid);
}

/*
 * In PG_CATCH: nobody knows whether the entry that met the error is in, so the batch must not be
 * repeated, and its statement must fail (invariant E10).  The error's details are for the user who
 * inserted the rows; whose function is at work may be another one, and sees a copy without them.
 */
static void
fail_own(MtpUnit *unit, Oid userid)
{
	MtpBatch   *b = unit->batch;
	MtpStatement *s = mtp_batch_statement_of(b);
	SubTransactionId subxid = b->subxid;
	Oid			owner = b->userid;

	/* Another load may have taken it, and a queue fill it still: batch and run go. */
	for (MtpStatement *each = mtp_batch_statement; each != NULL; each = each->outer)
		for (MtpQueue *q = each->queues; q != NULL; q = q->next)
			if (q->batch == b)
			{
				q->batch = NULL;
				q->run = NULL;
				q->filled = 0;
			}
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	dlist_delete(&b->node);
	mtp_batch_progress_discard(b);
	b->cancelled = true;
	LWLockRelease(mtp_batch_lock);
	mtp_batch_unit_give_back(unit, false);
	mtp_batch_statement_fail(s, subxid, owner);
	if (s != NULL && owner != userid)
	{
		FlushErrorState();
		mtp_batch_statement_check();
	}
}

/*
 * Runs a unit that this backend has claimed; on an error the unit is ready again (invariant E3).
 * Comparison functions run as the user who inserted the rows, even if another user's function scans
 * the index.
 */
static void
run_own(MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;
	MtpRunner	runner;
	MemoryContext cxt;
	MemoryContext old = CurrentMemoryContext;
	bool		push = !ActiveSnapshotSet();
	MtpStatement *s = mtp_batch_statement_of(b);
	int			lock_timeout = LockTimeout;
	Oid			userid;
	int			sec_context;

	GetUserIdAndSecContext(&userid, &sec_context);
	mtp_batch_once = false;
	running = *unit;			/* for leave_load, should FATAL come */

	/* Nothing since the claim can have failed (invariant E3); what may fail comes inside. */
	PG_TRY();
	{
		/* What is under way is not the row that brought these entries, but at the end. */
		if (!mtp_batch_ending)
			error_context_stack = NULL;
		/* It may wait for other transactions: as long as its statement was to wait. */
		if (s != NULL)
			LockTimeout = s->lock_timeout;
		cxt = AllocSetContextCreate(old, "mtpower task", ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(cxt);
		MTP_INJECT("owner_claimed");
		/* A snapshot keeps the pages that the unit descends through from being used again. */
		if (push)
			PushActiveSnapshot(GetTransactionSnapshot());
		SetUserIdAndSecContext(b->userid, b->sec_context);
		runner.heap = table_open(b->heapid, NoLock);
		runner.index = index_open(b->indexid, RowExclusiveLock);
		runner.ops = mtp_batch_ops_of(runner.index);
		runner.order = runner.ops->order(runner.index);
		runner.worker = NULL;
		mtp_batch_unit_run(&runner, unit);
		SetUserIdAndSecContext(userid, sec_context);
		index_close(runner.index, RowExclusiveLock);
		table_close(runner.heap, NoLock);
		if (push)
			PopActiveSnapshot();
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	PG_CATCH();
	{
		SetUserIdAndSecContext(userid, sec_context);
		running.batch = NULL;
		LockTimeout = lock_timeout;
		if (mtp_batch_once)
			fail_own(unit, userid);
		else
			mtp_batch_unit_give_back(unit, false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	LockTimeout = lock_timeout;
	running.batch = NULL;
	mtp_batch_unit_finish(unit);
}

bool
mtp_batch_drain_step(uint64 serial, Oid indexid, SubTransactionId subxid)
{
	static const MtpIndexCounts waited = {.waits = 1};
	static uint32 event = 0;
	MtpLoad    *load = mtp_batch_my_load;
	dlist_head *lists[] = {&load->batches, &load->own};
	MtpUnit		unit;
	bool		got = false;
	Oid			pending = InvalidOid;	/* the index of a batch that is not applied yet */
	TimestampTz now = GetCurrentTimestamp();
	dlist_iter	iter;

	CHECK_FOR_INTERRUPTS();
	/* It prepares to sleep before it looks, so a change that comes in between wakes it. */
	ConditionVariablePrepareToSleep(&load->cv);
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	load->seen = now;
	for (int i = 0; i < lengthof(lists) && !got; i++)
		dlist_foreach(iter, lists[i])
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		/* On the list own submitted batches come first. */
		if (b->phase == MTP_FILLING && b->own)
			break;
		if (b->phase == MTP_FILLING || !matches(b, serial, indexid, subxid))
			continue;
		pending = b->indexid;
		if ((got = mtp_batch_unit_claim(b, false, &unit)))
			break;
	}
	LWLockRelease(mtp_batch_lock);

	/*
	 * Without a ready unit, workers have claimed what is left.  A process that finishes a unit or
	 * gives it back broadcasts; the timeout is a safety net.
	 */
	if (!got && OidIsValid(pending))
	{
		mtp_batch_stat_count(pending, &waited);
		load->waits++;
		(void) ConditionVariableTimedSleep(&load->cv, 100,
										   mtp_wait_event(&event, "MtpowerBatchUnit"));
	}
	ConditionVariableCancelSleep();
	if (got)
		run_own(&unit);
	return OidIsValid(pending);
}

/*
 * Matching entries are in the indexes, or were given up: none is pending, no batch is filled.
 * Where they were given up, the abort closes the indexes.
 */
static void
settle_queues(uint64 serial, Oid indexid, SubTransactionId subxid, bool given_up)
{
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		for (MtpQueue *q = s->queues; q != NULL; q = q->next)
			if ((serial == 0 || s->serial == serial) &&
				(!OidIsValid(indexid) || q->indexid == indexid) &&
				(subxid == InvalidSubTransactionId || q->subxid >= subxid))
			{
				if (given_up)
					q->index = NULL;
				mtp_batch_queue_let_go(q);
				mtp_batch_pending -= q->pending;
				q->pending = 0;
				q->batch = NULL;
				q->run = NULL;
				q->filled = 0;
			}
}

/*
 * Submits what matches, and works until all of it is done.  Inside a unit of its own it does
 * nothing: the unit's batch would wait for itself.
 */
void
mtp_batch_drain(uint64 serial, Oid indexid, SubTransactionId subxid)
{
	if (mtp_batch_my_load == NULL || mtp_batch_drain_busy())
		return;
	mtp_batch_statement_check();
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		for (MtpQueue *q = s->queues; q != NULL; q = q->next)
			if (q->batch != NULL && matches(q->batch, serial, indexid, subxid))
				mtp_batch_queue_submit(q);

	/* From here on all that matches is submitted, and nothing is added. */
	MTP_INJECT("drain");
	while (mtp_batch_drain_step(serial, indexid, subxid))
		;
	mtp_batch_load_take_usage();
	mtp_batch_share_content(mtp_batch_my_load);
	settle_queues(serial, indexid, subxid, false);
}

/*
 * A worker leaves the list after its transaction's end, so its locks are gone then (leave_list in
 * serve.c wakes this backend).
 */
void
mtp_batch_drain_detach(uint64 serial)
{
	static uint32 event = 0;

	if (mtp_batch_my_load == NULL)
		return;
	MTP_INJECT("detach");
	ConditionVariablePrepareToSleep(&mtp_batch_my_load->cv);
	for (;;)
	{
		bool		busy = false;

		/* No worker joins the list any more: none of the statement's batches is left. */
		LWLockAcquire(mtp_batch_lock, LW_SHARED);
		for (int i = 0; i < MTP_MAX_WORKERS; i++)
			busy |= mtp_batch_shared->serving[i].load == mtp_batch_my_load &&
				mtp_batch_shared->serving[i].serial == serial;
		LWLockRelease(mtp_batch_lock);
		if (!busy)
			break;
		CHECK_FOR_INTERRUPTS();
		(void) ConditionVariableTimedSleep(&mtp_batch_my_load->cv, 100,
										   mtp_wait_event(&event, "MtpowerBatchDetach"));
	}
	ConditionVariableCancelSleep();
}

/*
 * Workers look at `cancelled` before each step; the last process inside a unit frees the batch
 * (leave_batch).  Raises nothing and waits for nobody: abort callbacks call it.
 */
void
mtp_batch_cancel(uint64 serial, SubTransactionId subxid)
{
	MtpLoad    *load = mtp_batch_my_load;
	dlist_head *lists[2];
	dlist_mutable_iter iter;

	if (load == NULL)
		return;
	lists[0] = &load->batches;
	lists[1] = &load->own;
	settle_queues(serial, InvalidOid, subxid, true);
	mtp_batch_share_content(load);

	/* Only this backend makes batches, so there is none if workers have removed all of them. */
	if (*(volatile uint64 *) &load->bytes == 0)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(lists); i++)
		dlist_foreach_modify(iter, lists[i])
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (!matches(b, serial, InvalidOid, subxid))
			continue;

		/* From here on no process finds the batch; those inside see the mark at their next step. */
		dlist_delete(&b->node);
		mtp_batch_progress_discard(b);
		b->cancelled = true;
		if (b->holders == 0)
			mtp_batch_free(b);
	}
	LWLockRelease(mtp_batch_lock);

	/* The usage of workers for the failed statement is not the next one's. */
	mtp_batch_load_take_usage();
}

void
mtp_batch_load_take_usage(void)
{
	BufferUsage buf;
	WalUsage	wal;

	if (mtp_batch_my_load == NULL)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	buf = mtp_batch_my_load->bufusage;
	wal = mtp_batch_my_load->walusage;
	memset(&mtp_batch_my_load->bufusage, 0, sizeof(buf));
	memset(&mtp_batch_my_load->walusage, 0, sizeof(wal));
	LWLockRelease(mtp_batch_lock);
	InstrAccumParallelQuery(&buf, &wal);
}

/* A process counts a unit before it leaves the batch, so all units of a statement that ended. */
void
mtp_batch_usage(MtpBatchUsage *usage)
{
	MtpLoad    *load = mtp_batch_my_load;

	memset(usage, 0, sizeof(*usage));
	if (load == NULL)
		return;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	usage->batches = load->applied_batches;
	LWLockRelease(mtp_batch_lock);
	usage->waits = load->waits;
	for (int by_worker = 0; by_worker < 2; by_worker++)
		usage->entries[by_worker] = pg_atomic_read_u64(&load->applied[by_worker]);
}
