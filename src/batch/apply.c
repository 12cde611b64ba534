/*
 * apply.c
 *	  Applies a task: merges its runs, and has the index AM put them in, step by step.
 */
#include "batch/stream.h"

#include "core/inject.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * The task that this process applies, or the batch that it prepares the index for.  Not on the
 * stack, so that its work is counted too when an error or the process's end comes between.
 */
static struct
{
	bool		active;
	bool		task;			/* a task, not a preparation */
	MtpServing *worker;			/* NULL in the owner */
	MtpStatRef	counters;
	uint32		from;			/* progress when it began */
	uint64		wal;			/* the process's WAL bytes then */
	MtpBatchApply call;
}			applying;

bool		mtp_batch_once = false;

MtpBatchApply *
mtp_batch_account_begin(MtpRunner *runner, bool task, uint32 progress)
{
	MtpStatRef	counters = mtp_batch_stat_open(runner->index);

	memset(&applying, 0, sizeof(applying));
	applying.counters = counters;
	applying.call.index = runner->index;
	applying.call.heap = runner->heap;
	applying.call.order = runner->order;
	applying.task = task;
	applying.worker = runner->worker;
	applying.from = progress;
	applying.wal = pgWalUsage.wal_bytes;
	applying.active = true;
	return &applying.call;
}

/*
 * Raises nothing: mtp_batch_unit_give_back calls it.  progress tells what is in, after an error
 * too.
 */
void
mtp_batch_account_end(MtpUnit *unit)
{
	MtpBatchApply *a = &applying.call;
	MtpIndexCounts n = {0};

	if (!applying.active)
		return;
	applying.active = false;
	if (applying.task)
	{
		bool		by_worker = applying.worker != NULL;
		uint32		done = *a->progress - applying.from;

		if (by_worker)
			pg_atomic_fetch_add_u64(&applying.worker->entries, done);
		if (!unit->batch->cancelled)	/* the load may be in its next statement */
			pg_atomic_fetch_add_u64(&unit->batch->load->applied[by_worker], done);
		n.entries[by_worker] = done;
		n.tasks[by_worker] = 1;
		n.taken_over = unit->taken_over;
	}
	n.leaves = a->leaves;
	n.ahead = a->ahead;
	n.moved = a->moved;
	n.postings = a->postings;
	for (int i = 0; i < MTP_ALONE_REASONS; i++)
		n.alone[i] = a->alone[i];
	for (int k = 0; k < lengthof(n.splits); k++)
		n.splits[k] = a->splits[k];
	n.wal_bytes = pgWalUsage.wal_bytes - applying.wal;
	mtp_batch_stat_add(applying.counters, &n);
}

void
mtp_batch_count_overflow(Relation index, uint32 splits, uint32 moved)
{
	MtpIndexCounts n = {.overflow = splits,.moved = moved};

	mtp_batch_stat_add(mtp_batch_stat_open(index), &n);
}

/* Assertions look at a stream's first entries: comparison functions must agree with the merge. */
static void
judge(MtpBatchStream s)
{
#ifdef USE_ASSERT_CHECKING
	if (s.narrow || s.order->nwords < s.order->nkeys || mtp_stream_end(&s))
		return;
	for (int i = 0; i < 1000; i++)
	{
		const MtpWide *e = mtp_stream_wide(&s);

		mtp_stream_next(&s);
		if (mtp_stream_end(&s))
			break;
		Assert(mtp_batch_order_judge(s.order, e, mtp_stream_wide(&s)) < 0);
	}
#endif
}

/*
 * Opens a task's stream behind its progress.  The merge is the same in each process, so to skip as
 * many entries as the progress says is to stand at the first entry that is not in the index
 * (invariant E5).
 */
static void
open_stream(MtpBatchStream *s, MtpOrder *order, MtpBatch *b, int task)
{
	s->order = order;
	s->narrow = b->narrow;
	s->sharp = b->sharp;
	s->exact = b->exact;
	s->n = 0;
	for (int r = 0; r < b->nruns; r++)
	{
		MtpSource  *src = &s->sources[s->n];
		MtpRun	   *run = mtp_run(b, r);
		uint32		from = mtp_task_bounds(b, task)[r];
		uint32		to = mtp_task_bounds(b, task + 1)[r];

		if (from == to)
			continue;
		memset(src, 0, sizeof(*src));
		src->run = r;
		if (s->narrow)
		{
			src->narrow = MTP_RUN_NARROW(run) + from;
			src->narrow_end = MTP_RUN_NARROW(run) + to;
		}
		else
		{
			src->wide = MTP_RUN_WIDE(run) + from;
			src->wide_end = MTP_RUN_WIDE(run) + to;
		}
		s->n++;
	}
	s->streak = s->sure = s->tree[0] = 0;
	if (s->n > 0)
		mtp_stream_begin(s, s->tree, s->n);
	judge(*s);
	for (uint32 i = b->tasks[task].progress; i > 0; i--)
		mtp_stream_next(s);
}

/*
 * Each step changes the pages of one leaf's share and the task's progress in one critical section
 * (invariant E5), so the task may end between any two steps, and another process goes on from
 * there.
 */
void
mtp_batch_apply(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;
	MtpTask    *task = &b->tasks[unit->at];
	MtpBatchStream stream;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower step",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	MtpBatchApply *call;
	bool		more = true;

	Assert(task->crc == mtp_batch_task_crc(b, unit->at));
	call = mtp_batch_account_begin(runner, true, task->progress);
	call->stream = &stream;
	call->arrival = b->arrival;
	call->progress = &task->progress;
	call->owner_alone = b->owner_alone;
	call->xid = runner->worker ? b->xid : InvalidTransactionId;

	if (unit->taken_over)
		ereport(DEBUG1,
				(errmsg_internal("mtpower: taking over task %d for index %u at entry %u of %u",
								 unit->at, b->indexid, task->progress, task->total)));
	open_stream(&stream, runner->order, b, unit->at);
	old = MemoryContextSwitchTo(cxt);
	while (more && !mtp_stream_end(&stream))
	{
		CHECK_FOR_INTERRUPTS();
		more = mtp_batch_step_begin(runner, b);
		if (more)
		{
			MTP_INJECT("step_checked");
			runner->ops->step(call);
			mtp_batch_once = false;
			more = !call->over && !call->left;
			MTP_INJECT("step_applied");
		}
		mtp_batch_step_end(runner->worker);
		MTP_INJECT("step_gone");
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);

	task->left |= call->left;
	Assert(!more || task->progress == task->total);
	mtp_batch_account_end(unit);
}
