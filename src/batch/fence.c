/*
 * fence.c
 *	  Steps of workers, and VACUUM's guard against entries of dead rows (invariant E7).
 *
 * An entry of an aborted row is harmless until VACUUM lets the row's TID be used again.  VACUUM's
 * dead TIDs were dead before ambulkdelete began.  So a step that registers behind the fence's
 * memory barrier sees the abort, and VACUUM waits for a step that registered before.
 */
#include "batch/shared.h"

#include "core/inject.h"
#include "core/process.h"
#include "miscadmin.h"
#include "storage/procarray.h"

/* Registers first, and looks at the transaction then; mtp_batch_vacuum_fence does the reverse. */
bool
mtp_batch_step_begin(MtpRunner *runner, MtpBatch *b)
{
	MtpServing *worker = runner->worker;

	if (b->cancelled)
		return false;
	if (worker == NULL)
		return true;

	/* What was read before may change until the step is registered. */
	MTP_INJECT("step_begins");
	Assert((pg_atomic_read_u64(&worker->step) & 1) == 0);
	pg_atomic_write_u64(&worker->step, pg_atomic_read_u64(&worker->step) + 1);

	/*
	 * Every process sees the odd counter before this one reads what the step depends on.  So if
	 * VACUUM's fence misses the step, the step sees the abort that VACUUM's dead rows come from.
	 */
	pg_memory_barrier();
	MTP_INJECT("step_registered");
	return TransactionIdIsInProgress(b->xid);
}

void
mtp_batch_step_end(MtpServing *worker)
{
	uint64		step;

	if (worker == NULL)
		return;
	step = pg_atomic_read_u64(&worker->step);

	/* The step's pages come before the even counter: VACUUM goes on and reads them then. */
	pg_memory_barrier();
	if (step & 1)
		pg_atomic_write_u64(&worker->step, step + 1);
}

/*
 * Each worker is looked at once, and a step that is found odd is waited for until its counter
 * changes: the worker's next step is registered behind the barrier.  VACUUM holds no lock on a page
 * here, and a step waits for no transaction (E4), so the wait is short.
 */
void
mtp_batch_vacuum_fence(Relation index)
{
	static uint32 event = 0;
	Oid			indexid = RelationGetRelid(index);

	/* A step that registers behind this barrier sees the aborts; those before it are seen here. */
	pg_memory_barrier();
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpServing *w = &mtp_batch_shared->serving[i];
		uint64		step = pg_atomic_read_u64(&w->step);

		/* A worker sets dbid and indexid before the counter becomes odd. */
		pg_read_barrier();
		if ((step & 1) == 0 || w->dbid != MyDatabaseId || w->indexid != indexid)
			continue;
		while (pg_atomic_read_u64(&w->step) == step)
		{
			CHECK_FOR_INTERRUPTS();
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1,
							 mtp_wait_event(&event, "MtpowerBatchFence"));
			ResetLatch(MyLatch);
		}
	}
}
