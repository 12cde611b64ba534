/*
 * fence.c
 *	  VACUUM's guard against entries of dead rows.
 *
 * An entry of an aborted row is harmless until VACUUM lets the row's TID be used again.  A worker's
 * step registers itself, issues a full memory barrier, and only then checks that the rows'
 * transaction still runs (apply.c).  VACUUM's dead TIDs were dead before ambulkdelete began.  So a
 * step that registers behind the memory barrier here sees the abort, and VACUUM waits for a step
 * that registered before (invariant E7).
 */
#include "batch/shared.h"

#include "core/process.h"
#include "miscadmin.h"
#include "pgstat.h"

void
mtp_batch_vacuum_fence(Relation index)
{
	static uint32 event = 0;
	Oid			indexid = RelationGetRelid(index);

	pg_memory_barrier();
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpServing *w = &mtp_shared->serving[i];
		uint64		step = pg_atomic_read_u64(&w->step);

		pg_read_barrier();
		if ((step & 1) == 0 || w->dbid != MyDatabaseId || w->indexid != indexid)
			continue;
		while (pg_atomic_read_u64(&w->step) == step)
		{
			CHECK_FOR_INTERRUPTS();
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1,
							 mtp_wait_event(&event, "MtpBatchFence"));
			ResetLatch(MyLatch);
		}
	}
}
