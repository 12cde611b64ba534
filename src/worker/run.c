/*
 * run.c
 *	  A worker's life: it takes its slot, does turns of work while there is some, and leaves.
 */
#include "worker/worker.h"

#include "access/xact.h"
#include "core/process.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define IDLE_SECONDS		5	/* a worker without work leaves after so long */

PGDLLEXPORT void mtp_worker_main(Datum arg);

static const MtpWork *works[MTP_WORK_KINDS];
static MtpWorker *me = NULL;

void
mtp_worker_register(MtpWorkKind kind, const MtpWork *work)
{
	works[kind] = work;
}

void
mtp_worker_begin(MtpWorkKind kind, const char *phase)
{
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	me->at = kind;
	me->phase = phase;
	LWLockRelease(mtp_worker_lock);
}

bool
mtp_worker_called(void)
{
	return me->quit || ConfigReloadPending;
}

int
mtp_worker_slot(void)
{
	return me - mtp_workers->workers;
}

/* Takes the slot that it was started for; false if that took too long and another worker has it. */
static bool
take_slot(int slot)
{
	bool		mine;

	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	mine = mtp_workers->workers[slot].pid == -1;
	if (mine)
	{
		me = &mtp_workers->workers[slot];
		me->pid = MyProcPid;
		me->latch = MyLatch;
		me->phase = "idle";
		me->started = GetCurrentTimestamp();
	}
	LWLockRelease(mtp_worker_lock);
	return mine;
}

/*
 * On exit in any way; the worker's transaction is over by now.  Work lets go before the slot does.
 */
static void
leave_slot(int code, Datum arg)
{
	for (int i = 0; i < MTP_WORK_KINDS; i++)
		if (works[i] != NULL && works[i]->leave != NULL)
			works[i]->leave();
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	me->pid = 0;
	LWLockRelease(mtp_worker_lock);
}

/* True if mtpower.workers has been lowered so far that this worker must go. */
static bool
is_too_many(void)
{
	int			before = 0;

	LWLockAcquire(mtp_worker_lock, LW_SHARED);
	for (MtpWorker *w = mtp_workers->workers; w < me; w++)
		before += w->pid != 0;
	LWLockRelease(mtp_worker_lock);
	return before >= mtp_workers->most;
}

/*
 * Does a turn, and reports an error in it.  False if there was nothing to do.  A worker that has
 * done something becomes idle under mtp_worker_lock, and the main loop then looks for work once
 * more before it sleeps (invariant W1).
 */
static bool
do_turn(const MtpWork *work)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool any = true;

	PG_TRY();
	{
		any = work->turn();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		work->failed();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (me->at != MTP_WORK_KINDS)
	{
		mtp_worker_begin(MTP_WORK_KINDS, "idle");
		pgstat_report_stat(true);
		pgstat_report_activity(STATE_IDLE, NULL);
	}
	return any;
}

void
mtp_worker_main(Datum arg)
{
	TimestampTz idle_since;
	uint32		idle_event = 0;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!take_slot(DatumGetInt32(arg)))
		return;
	before_shmem_exit(leave_slot, 0);	/* also if the next line fails */
	BackgroundWorkerInitializeConnectionByOid(me->dbid, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	mtp_process_reset_settings();
	pgstat_report_activity(STATE_IDLE, NULL);

	idle_since = GetCurrentTimestamp();
	while (!me->quit)
	{
		bool		any = false;

		/* Before it looks for work: a caller that sets the latch later wakes it (invariant W1). */
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (is_too_many())
			break;
		for (int i = 0; i < MTP_WORK_KINDS && !any; i++)
			any = works[i] != NULL && do_turn(works[i]);
		if (any)
			idle_since = GetCurrentTimestamp();
		else if (TimestampDifferenceExceeds(idle_since, GetCurrentTimestamp(), IDLE_SECONDS * 1000))
			break;
		else
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000,
							 mtp_wait_event(&idle_event, "MtpowerWorkerIdle"));
	}
}
