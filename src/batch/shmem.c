/*
 * shmem.c
 *	  The engine's shared memory and settings: its share of _PG_init.
 */
#include "batch/shared.h"
#include "core/shmem.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/guc.h"

bool		mtp_batching = true;
int			mtp_batch_memory = 64 * 1024;
int			mtp_batch_size = 16 * 1024;
int			mtp_batch_min_rows = 256;

MtpBatchShared *mtp_batch_shared = NULL;
LWLock	   *mtp_batch_lock = NULL;
LWLock	   *mtp_batch_memory_lock = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(MtpBatchShared, loads), mul_size(MaxBackends, sizeof(MtpLoad)));
}

static void
attach_shared(void *area, LWLockPadded *locks, bool found)
{
	mtp_batch_shared = area;
	mtp_batch_lock = &locks[0].lock;
	mtp_batch_memory_lock = &locks[1].lock;
	if (!found)
	{
		memset(mtp_batch_shared, 0, shared_size());
		mtp_batch_shared->max_loads = MaxBackends;
		for (int i = 0; i < MaxBackends; i++)
		{
			ConditionVariableInit(&mtp_batch_shared->loads[i].cv);
			dlist_init(&mtp_batch_shared->loads[i].batches);
			dlist_init(&mtp_batch_shared->loads[i].own);
		}
		for (int i = 0; i < MTP_MAX_WORKERS; i++)
		{
			pg_atomic_init_u64(&mtp_batch_shared->serving[i].entries, 0);
			pg_atomic_init_u64(&mtp_batch_shared->serving[i].step, 0);
		}
	}
	mtp_batch_memory_init();
}

void
mtp_batch_init(void)
{
	static const MtpShmem shmem = {
		"mtpower batches", shared_size, mtp_batch_memory_size, "mtpower", 2, attach_shared
	};

	DefineCustomBoolVariable("mtpower.batching",
							 "Queues the index entries of bulk loads and applies them in batches.",
							 "Off inserts every index entry at once.",
							 &mtp_batching, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_memory",
							"Shared memory for queued index entries, for the whole cluster.",
							NULL, &mtp_batch_memory, 64 * 1024, 1024, 64 * 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_size",
							"Bytes of one index's queued entries after which they are submitted "
							"as a batch.",
							NULL, &mtp_batch_size, 16 * 1024, 64, 56 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_min_rows",
							"Rows of a statement whose index entries are inserted at once before "
							"it queues.",
							NULL, &mtp_batch_min_rows, 256, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	mtp_shmem_register(&shmem);
	mtp_batch_stat_init();
	mtp_batch_view_init();
	mtp_batch_serve_init();
	mtp_batch_statement_init();
}
