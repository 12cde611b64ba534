/*
 * shmem.c
 *	  The engine's shared memory, and its share of _PG_init.
 */
#include "batch/shared.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

MtpBatchShared *mtp_batch_shared = NULL;
LWLock	   *mtp_batch_lock = NULL;
LWLock	   *mtp_batch_memory_lock = NULL;
LWLock	   *mtp_batch_stat_lock = NULL;

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(MtpBatchShared, loads), mul_size(MaxBackends, sizeof(MtpLoad)));
}

static void
request_memory(void)
{
	if (next_request)
		next_request();
	RequestAddinShmemSpace(add_size(shared_size(),
									add_size(mtp_batch_memory_size(), mtp_batch_stat_size())));
	RequestNamedLWLockTranche("mtpower", 3);
}

static void
start_memory(void)
{
	LWLockPadded *locks;
	bool		found;

	if (next_startup)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mtp_batch_shared = ShmemInitStruct("mtpower batches", shared_size(), &found);
	locks = GetNamedLWLockTranche("mtpower");
	mtp_batch_lock = &locks[0].lock;
	mtp_batch_memory_lock = &locks[1].lock;
	mtp_batch_stat_lock = &locks[2].lock;
	if (!found)
	{
		memset(mtp_batch_shared, 0, shared_size());
		mtp_batch_shared->max_loads = MaxBackends;
		dlist_init(&mtp_batch_shared->stat_order);
		for (int i = 0; i < MaxBackends; i++)
		{
			ConditionVariableInit(&mtp_batch_shared->loads[i].cv);
			dlist_init(&mtp_batch_shared->loads[i].batches);
			dlist_init(&mtp_batch_shared->loads[i].own);
		}
		for (int i = 0; i < MTP_MAX_WORKERS; i++)
			pg_atomic_init_u64(&mtp_batch_shared->serving[i].step, 0);
	}
	mtp_batch_memory_init();
	mtp_batch_stat_init();
	LWLockRelease(AddinShmemInitLock);
}

void
mtp_batch_init(void)
{
	mtp_batch_settings_init();
	next_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	mtp_batch_view_init();
	mtp_batch_serve_init();
	mtp_batch_statement_init();
}
