/*
 * call.c
 *	  Calls for a worker: wakes an idle one, or starts one.
 *
 * No work is left to a worker that sleeps (invariant W1).  A caller writes its work first, and then
 * looks under mtp_worker_lock which workers are idle.  A worker becomes idle under the same lock,
 * and then looks for work.  So one of the two sees the other.
 */
#include "worker/worker.h"

#include "core/process.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#define START_SECONDS		5	/* a worker that has not come up by then never will */
#define KEEP_FREE			2	/* slots of max_worker_processes left to others */
#define SERVICE_MS			1000	/* after so long in another database a worker may be called
									 * away */

/*
 * How many background workers could still be started.  Before PostgreSQL 17 the place of a process
 * that has ended keeps its pid: a place is taken only if its process is among those that run.
 */
static int
free_processes(void)
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

/*
 * Under mtp_worker_lock: a slot for a new worker in the database, or -1.  *called then says what
 * comes of the call.  A slot whose worker never came up is used again.
 */
static int
find_slot(MtpWorkKind kind, Oid dbid, MtpCalled *called)
{
	TimestampTz now = GetCurrentTimestamp();
	MtpWorker  *oldest = NULL;
	int			running = 0;
	int			here = 0;
	int			staying = 0;	/* workers here that have not been told to leave */
	int			slot = -1;

	*called = MTP_CALLED_BUSY;
	if (mtp_worker_unwelcome(dbid))
		return -1;
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpWorker  *w = &mtp_workers->workers[i];

		if (w->pid == -1 && TimestampDifferenceExceeds(w->started, now, START_SECONDS * 1000))
			w->pid = 0;
		if (w->pid == 0)
		{
			if (slot < 0)
				slot = i;
			continue;
		}
		running++;
		here += w->dbid == dbid;
		if (w->quit)
			continue;
		staying += w->dbid == dbid;
		if (w->pid > 0 && w->dbid == dbid && w->at == MTP_WORK_KINDS)
		{
			/* Its work is written: it wakes and finds it (invariant W1). */
			SetLatch(w->latch);
			*called = MTP_CALLED_COMES;
			return -1;
		}
		if (w->pid > 0 && w->dbid != dbid && (oldest == NULL || w->started < oldest->started))
			oldest = w;
	}

	/* A chore waits until the workers here have started and done more urgent work. */
	if (kind == MTP_WORK_CHORE && staying > 0)
	{
		*called = MTP_CALLED_COMES;
		return -1;
	}
	if (running < mtp_workers->most)
		return slot;

	/* All are elsewhere: the oldest leaves its database, so a later call can start one here. */
	if (here == 0 && oldest != NULL && TimestampDifferenceExceeds(oldest->started, now, SERVICE_MS))
	{
		oldest->quit = true;
		SetLatch(oldest->latch);
	}
	return -1;
}

MtpCalled
mtp_worker_call(MtpWorkKind kind, Oid dbid)
{
	BackgroundWorker bgw;
	MtpCalled	called;
	int			slot;

	if (!mtp_workers_allowed())
		return MTP_CALLED_BUSY;
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	slot = find_slot(kind, dbid, &called);

	/* From here on a command that wants the database finds the slot there (invariant W2). */
	if (slot >= 0)
		mtp_workers->workers[slot] = (MtpWorker)
	{
		.pid = -1,.dbid = dbid,.at = MTP_WORK_KINDS,.phase = "starting",
			.started = GetCurrentTimestamp()
	};
	LWLockRelease(mtp_worker_lock);
	if (slot < 0)
		return called;

	/* Asks the postmaster without the lock. */
	mtp_process_describe(&bgw, "mtpower worker", "mtp_worker_main");
	bgw.bgw_main_arg = Int32GetDatum(slot);
	if (free_processes() > KEEP_FREE && RegisterDynamicBackgroundWorker(&bgw, NULL))
		return MTP_CALLED_COMES;

	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	mtp_workers->workers[slot].pid = 0;
	mtp_workers->misses++;
	LWLockRelease(mtp_worker_lock);
	return MTP_CALLED_NO_PROCESS;
}

bool
mtp_workers_allowed(void)
{
	return mtp_workers->most > 0 && IsUnderPostmaster;
}
