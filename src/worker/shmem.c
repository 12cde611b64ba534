/*
 * shmem.c
 *	  The pool's setting and shared memory, and its share of _PG_init.
 */
#include "worker/worker.h"

#include <unistd.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"

MtpWorkers *mtp_workers = NULL;
LWLock	   *mtp_worker_lock = NULL;

static int	most_workers = -1;	/* mtpower.workers */

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

static void
request_pool(void)
{
	if (next_request)
		next_request();
	RequestAddinShmemSpace(sizeof(MtpWorkers));
	RequestNamedLWLockTranche("mtpower_workers", 1);
}

static void
start_pool(void)
{
	bool		found;

	if (next_startup)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mtp_workers = ShmemInitStruct("mtpower workers", sizeof(MtpWorkers), &found);
	mtp_worker_lock = &GetNamedLWLockTranche("mtpower_workers")->lock;
	if (!found)
	{
		memset(mtp_workers, 0, sizeof(*mtp_workers));
		mtp_workers->most = most_workers;
	}
	LWLockRelease(AddinShmemInitLock);
}

/* The smaller of the cores less one and half of max_worker_processes, at least one. */
static int
default_workers(void)
{
	long		cores = sysconf(_SC_NPROCESSORS_ONLN);

	return Max(1, Min(Min(cores - 1, max_worker_processes / 2), MTP_MAX_WORKERS));
}

static void
assign_workers(int newval, void *extra)
{
	if (mtp_workers != NULL && !IsUnderPostmaster)
		mtp_workers->most = newval;
}

void
mtp_worker_init(void)
{
	DefineCustomIntVariable("mtpower.workers",
							"Maximum number of batch workers running at a time in the cluster.",
							"Zero leaves all work to the loading sessions.",
							&most_workers, default_workers(), 0, MTP_MAX_WORKERS,
							PGC_SIGHUP, 0, NULL, assign_workers, NULL);
	next_request = shmem_request_hook;
	shmem_request_hook = request_pool;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = start_pool;
}
