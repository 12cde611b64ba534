/*
 * shmem.c
 *	  The pool's setting and shared memory, and its share of _PG_init.
 */
#include "worker/worker.h"

#include <unistd.h>

#include "core/shmem.h"
#include "miscadmin.h"
#include "utils/guc.h"

MtpWorkers *mtp_workers = NULL;
LWLock	   *mtp_worker_lock = NULL;

static int	most_workers;		/* mtpower.workers */

static Size
pool_size(void)
{
	return sizeof(MtpWorkers);
}

static void
attach_pool(void *area, LWLockPadded *locks, bool found)
{
	mtp_workers = area;
	mtp_worker_lock = &locks->lock;
	if (!found)
	{
		memset(mtp_workers, 0, sizeof(*mtp_workers));
		mtp_workers->most = most_workers;
	}
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
	static const MtpShmem shmem = {
		"mtpower workers", pool_size, NULL, "mtpower_workers", 1, attach_pool
	};

	DefineCustomIntVariable("mtpower.workers",
							"Maximum number of batch workers running at a time in the cluster.",
							"Zero leaves all work to the loading sessions.",
							&most_workers, default_workers(), 0, MTP_MAX_WORKERS,
							PGC_SIGHUP, 0, NULL, assign_workers, NULL);
	mtp_shmem_register(&shmem);
}
