/*
 * shmem.c
 *	  The engine's shared memory, and its share of _PG_init.
 */
#include "batch/shared.h"
#include "core/shmem.h"

#include "miscadmin.h"
#include "storage/shmem.h"

MtpBatchShared *mtp_batch_shared = NULL;
LWLock	   *mtp_batch_lock = NULL;
LWLock	   *mtp_batch_memory_lock = NULL;
LWLock	   *mtp_batch_stat_lock = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(MtpBatchShared, loads), mul_size(MaxBackends, sizeof(MtpLoad)));
}

static Size
memory_and_stat_size(void)
{
	return add_size(mtp_batch_memory_size(), mtp_batch_stat_size());
}

static void
attach_shared(void *area, LWLockPadded *locks, bool found)
{
	mtp_batch_shared = area;
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
}

void
mtp_batch_init(void)
{
	static const MtpShmem shmem = {
		"mtpower batches", shared_size, memory_and_stat_size, "mtpower", 3, attach_shared
	};

	mtp_batch_settings_init();
	mtp_shmem_register(&shmem);
	mtp_batch_view_init();
	mtp_batch_serve_init();
	mtp_batch_statement_init();
}
