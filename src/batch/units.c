/*
 * units.c
 *	  Claims and runs the parts of a batch: sorting a run, cutting tasks, applying a task.
 *
 * A claim is a change of state under mtp_batch_lock; what happens to the unit then is the
 * claimant's alone.  Whoever claims finishes it or gives it back, also when an error or its
 * termination comes between: nothing is lost, since runs keep their entries whatever happens and a
 * task's progress tells how many are in the index.
 */
#include "batch/stream.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "core/inject.h"
#include "utils/timestamp.h"

#define SAMPLES_PER_TASK	8
#define ENTRIES_PER_TASK	(32 * 1024) /* no smaller tasks, but for the last */

/*
 * The task that this process is applying, or the batch that it prepares the index for.  Not on the stack, so that what it did counts too when an
 * error or the process's end comes between.
 */
static struct
{
	bool		active;
	bool		task;			/* a task, not a preparation */
	MtpServing *worker;			/* NULL in the owner */
	uint32		from;			/* progress when it began */
	uint64		wal;			/* the process's WAL bytes then */
	MtpBatchApply call;
}			applying;

/* Interfaces of the index AMs. */
static const MtpBatchOps *all_ops[4];
static int	n_ops;

void
mtp_batch_register(const MtpBatchOps *ops)
{
	all_ops[n_ops++] = ops;
}

const MtpBatchOps *
mtp_batch_ops_of(Relation index)
{
	for (int i = 0; i < n_ops; i++)
		if (index->rd_indam->ambuild == all_ops[i]->ambuild)
			return all_ops[i];
	elog(ERROR, "index \"%s\" can't be fed in batches", RelationGetRelationName(index));
}

bool
mtp_batch_unit_claim(MtpBatch *b, bool worker, MtpUnit *unit)
{
	if (b->cancelled || (worker && !b->worker_ok))
		return false;
	unit->batch = b;
	unit->taken_over = false;
	if (b->own)
	{
		if (b->phase != MTP_SORTING || b->cut_state != MTP_UNIT_READY)
			return false;
		b->cut_state = MTP_UNIT_CLAIMED;
		unit->kind = MTP_UNIT_ALL;
		unit->at = 0;
		unit->taken_over = b->tasks[0].started;
		b->tasks[0].started = true;
		b->holders++;
		return true;
	}
	if (b->phase <= MTP_SORTING)
		for (int r = 0; r < b->nruns; r++)
			if (mtp_run(b, r)->state == MTP_UNIT_READY)
			{
				mtp_run(b, r)->state = MTP_UNIT_CLAIMED;
				unit->kind = MTP_UNIT_SORT;
				unit->at = r;
				b->holders++;
				return true;
			}
	if (b->phase == MTP_SORTING && b->sorted == b->nruns && b->cut_state == MTP_UNIT_READY)
	{
		b->cut_state = MTP_UNIT_CLAIMED;
		unit->kind = MTP_UNIT_CUT;
		b->holders++;
		return true;
	}
	if (b->phase == MTP_APPLYING)
		for (int t = 0; t < b->ntasks; t++)
			if (b->tasks[t].state == MTP_UNIT_READY)
			{
				b->tasks[t].state = MTP_UNIT_CLAIMED;
				unit->kind = MTP_UNIT_APPLY;
				unit->at = t;
				unit->taken_over = b->tasks[t].started;
				b->tasks[t].started = true;
				b->holders++;
				return true;
			}
	return false;
}

static void
free_runs(MtpBatch *b)
{
	for (int r = 0; r < b->nruns; r++)
		mtp_batch_memory_free(mtp_run(b, r)->mem, mtp_run(b, r)->order);
	if (b->many)
		mtp_batch_memory_free((char *) b->many, MTP_MANY_ORDER);
}

void
mtp_batch_free(MtpBatch *b)
{
	free_runs(b);
	if (b->filling.mem != NULL)
		mtp_batch_memory_free(b->filling.mem, b->filling.order);
	b->load->bytes -= b->bytes;
	*(b->phase == MTP_FILLING ? &b->load->full : &b->load->underway) -= b->full;
	mtp_batch_memory_free((char *) b, 0);
}

/*
 * The owner, who does not look at the batch unless it is MTP_FILLING, may be filling a run meanwhile: it stays where it is.
 */
void
mtp_batch_begin_anew(MtpBatch *b)
{
	uint64		bytes = MTP_BLOCK_SIZE + (b->filling.mem ? MTP_RUN_BYTES(&b->filling) : 0);

	Assert(b->taken && b->holders == 0 && !b->cancelled);
	free_runs(b);
	b->load->bytes -= b->bytes - bytes;
	b->bytes = bytes;
	b->load->underway -= b->full;
	b->full = 0;
	b->many = NULL;
	b->taken = false;
	if (b->back)
	{
		dlist_delete(&b->node);
		dlist_push_tail(&b->load->own, &b->node);
		b->own = true;
		b->back = false;
	}
	b->entries = 0;
	b->nruns = b->sorted = 0;
	b->prepared = false;
	b->announced = 0;
	b->cut_state = MTP_UNIT_READY;
	b->ntasks = b->done = 0;
	memset(b->tasks, 0, sizeof(b->tasks));
	b->phase = MTP_FILLING;
}

/* Under mtp_batch_lock: the claimant leaves; frees the batch if it was the last thing to wait for. */
static void
leave(MtpBatch *b)
{
	MtpLoad    *load = b->load;

	b->holders--;
	if (b->holders == 0 && b->phase == MTP_DONE && b->taken && !b->cancelled)
		mtp_batch_begin_anew(b);
	else if (b->holders == 0 && (b->cancelled || b->phase == MTP_DONE))
	{
		/* A cancelled batch is off its list already. */
		if (!b->cancelled)
			dlist_delete(&b->node);
		mtp_batch_free(b);
	}
	ConditionVariableBroadcast(&load->cv);
}

/* Adds what this process did of the task, or to prepare for the batch, to the index's counters; before it leaves the batch. */
static void
count_task(MtpUnit *unit)
{
	MtpBatchApply *a = &applying.call;
	MtpIndexStat *st;

	applying.active = false;
	LWLockAcquire(mtp_stat_lock, LW_EXCLUSIVE);
	st = mtp_batch_stat_of(MyDatabaseId, unit->batch->indexid);
	if (applying.task)
	{
		uint32		done = *a->progress - applying.from;

		st->entries += done;
		if (applying.worker != NULL)
		{
			applying.worker->entries += done;
			st->by_workers += done;
			st->tasks_workers++;
		}
		else
		{
			st->by_backends += done;
			st->tasks_backends++;
		}
		st->taken_over += unit->taken_over;
	}
	st->leaves += a->leaves;
	st->ahead += a->ahead;
	st->moved += a->moved;
	for (int k = 0; k < lengthof(st->splits); k++)
		st->splits[k] += a->splits[k];
	st->wal_bytes += pgWalUsage.wal_bytes - applying.wal;
	LWLockRelease(mtp_stat_lock);
}

/* A batch is done: says so in the log, and counts it. */
static void
report_batch(Oid indexid, uint32 entries, int tasks, TimestampTz submitted)
{
	if (entries == 0)
		return;
	mtp_batch_stat_count_batch(indexid);
	ereport(DEBUG1,
			(errmsg_internal("mtpower: applied %u entries of index %u in %d tasks, %ld ms after submission",
							 entries, indexid, tasks,
							 TimestampDifferenceMilliseconds(submitted, GetCurrentTimestamp()))));
}

void
mtp_batch_unit_finish(MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;
	Oid			indexid = b->indexid;
	TimestampTz submitted = b->submitted;
	uint32		entries = b->entries;
	int			tasks = b->ntasks;
	bool		over;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	switch (unit->kind)
	{
		case MTP_UNIT_SORT:
			mtp_run(b, unit->at)->state = MTP_UNIT_DONE;
			b->sorted++;
			break;
		case MTP_UNIT_CUT:
			b->cut_state = MTP_UNIT_DONE;
			b->phase = b->ntasks > 0 ? MTP_APPLYING : MTP_DONE;
			break;
		case MTP_UNIT_APPLY:
			b->tasks[unit->at].state = MTP_UNIT_DONE;
			if (++b->done == b->ntasks)
				b->phase = MTP_DONE;
			break;
		case MTP_UNIT_ALL:
			b->phase = MTP_DONE;
			break;
	}
	over = b->phase == MTP_DONE && !b->cancelled;
	leave(b);
	LWLockRelease(mtp_batch_lock);
	unit->batch = NULL;			/* what comes now may be interrupted */
	if (over)
		report_batch(indexid, entries, tasks, submitted);
}

void
mtp_batch_unit_give_back(MtpUnit *unit, bool worker_failed)
{
	MtpBatch   *b = unit->batch;

	if (applying.active)
		count_task(unit);
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	switch (unit->kind)
	{
		case MTP_UNIT_SORT:
			mtp_run(b, unit->at)->state = MTP_UNIT_READY;
			break;
		case MTP_UNIT_CUT:
		case MTP_UNIT_ALL:
			b->cut_state = MTP_UNIT_READY;
			break;
		case MTP_UNIT_APPLY:
			b->tasks[unit->at].state = MTP_UNIT_READY;
			break;
	}

	/* What a worker failed at, its owner does, and raises the error if it is one. */
	if (worker_failed)
		b->worker_ok = false;
	leave(b);
	LWLockRelease(mtp_batch_lock);
}

/*
 * Errors and termination come only where the run has all of its entries (mtp_batch_sort_wide and
 * mtp_batch_sort_narrow see to that).
 */
static void
sort_run(MtpRunner *runner, MtpBatch *b, MtpRun *run)
{
	void	   *scratch = palloc(run->n * (b->narrow ? sizeof(MtpNarrow) : sizeof(MtpWide)));

	MTP_INJECT("sort");
	if (b->narrow)
		mtp_batch_sort_narrow(MTP_RUN_NARROW(run), scratch, run->n);
	else
		mtp_batch_sort_wide(runner->order, MTP_RUN_WIDE(run), scratch, run->n);
	pfree(scratch);
}

/* Entry i of a run as a wide one, heads only for narrow ones. */
typedef struct Samples
{
	int			n;
	MtpNarrow  *narrow;
	MtpWide    *wide;
} Samples;

/* Takes every step-th entry of the runs, in order. */
static void
take_samples(MtpRunner *runner, MtpBatch *b, int want, Samples *s)
{
	uint32		step = Max(1, b->entries / want);
	uint32		skip = step / 2;
	int			room = b->entries / step + 2;

	s->n = 0;
	s->narrow = b->narrow ? palloc(room * sizeof(MtpNarrow)) : NULL;
	s->wide = b->narrow ? NULL : palloc(room * sizeof(MtpWide));
	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);
		uint32		i;

		for (i = skip; i < run->n && s->n < room; i += step, s->n++)
		{
			if (b->narrow)
				s->narrow[s->n] = MTP_RUN_NARROW(run)[i];
			else
				s->wide[s->n] = MTP_RUN_WIDE(run)[i];
		}
		skip = i > run->n ? i - run->n : 0;
	}
	if (b->narrow)
		mtp_batch_sort_narrow(s->narrow, palloc(room * sizeof(MtpNarrow)), s->n);
	else
		mtp_batch_sort_wide(runner->order, s->wide, palloc(room * sizeof(MtpWide)), s->n);
}

/* How many entries of a run are not above a boundary. */
static uint32
rank_in_run(MtpRunner *runner, MtpBatch *b, MtpRun *run, const MtpNarrow *nb, const MtpWide *wb)
{
	uint32		lo = 0,
				hi = run->n;

	while (lo < hi)
	{
		uint32		mid = (lo + hi) / 2;
		bool		above;

		if (b->narrow)
			above = mtp_narrow_less(nb, &MTP_RUN_NARROW(run)[mid]);
		else
			above = mtp_batch_order_compare(runner->order, wb, &MTP_RUN_WIDE(run)[mid]) < 0;
		if (above)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

#ifdef USE_ASSERT_CHECKING
/* A checksum of a task's entries, to be the same when it is run. */
static uint32
task_crc(MtpBatch *b, int t)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	for (int r = 0; r < b->nruns; r++)
		for (uint32 i = mtp_task_from(b, t, r); i < mtp_task_to(b, t, r); i++)
		{
			if (b->narrow)
				COMP_CRC32C(crc, &MTP_RUN_NARROW(mtp_run(b, r))[i], sizeof(MtpNarrow));
			else
			{
				IndexTuple	itup = MTP_RUN_WIDE(mtp_run(b, r))[i].itup;

				COMP_CRC32C(crc, itup, IndexTupleSize(itup));
			}
		}
	FIN_CRC32C(crc);
	return crc;
}
#endif

/* From here on the index's counters get what the process does, also if an error comes between. */
static void
begin_applying(MtpRunner *runner)
{
	memset(&applying, 0, sizeof(applying));
	applying.call.index = runner->index;
	applying.call.heap = runner->heap;
	applying.call.order = runner->order;
	applying.worker = runner->worker;
	applying.wal = pgWalUsage.wal_bytes;
	applying.active = true;
}

/* Lets the index get ready for the batch, once. */
static void
prepare_batch(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;

	if (runner->ops->prepare == NULL || b->prepared)
		return;
	begin_applying(runner);
	applying.call.progress = &b->announced;
	applying.call.cancelled = &b->cancelled;
	MTP_INJECT("prepare");
	runner->ops->prepare(&applying.call, b->entries);
	b->prepared = true;
	count_task(unit);
}

/* A small batch is one task: the index is not asked. */
static void
make_one_task(MtpBatch *b)
{
	/* The first run may be as large as any, where others before it were taken (share.c). */
	Assert(b->entries < 3 * ENTRIES_PER_TASK);
	b->ntasks = 1;
	b->tasks[0].total = b->entries;
#ifdef USE_ASSERT_CHECKING
	b->tasks[0].crc = task_crc(b, 0);
#endif
}

/*
 * Cuts the sorted batch into tasks.  The index says where: tasks of one batch never touch the same
 * leaf.
 */
static void
cut_batch(MtpRunner *runner, MtpBatch *b)
{
	int			want = Min(MTP_MAX_TASKS, b->entries / ENTRIES_PER_TASK);
	MtpNarrow  *nb = palloc(MTP_MAX_TASKS * sizeof(MtpNarrow));
	MtpWide    *wb = palloc(MTP_MAX_TASKS * sizeof(MtpWide));
	int			nbounds = 0;

	if (want > 1)
	{
		Samples		s;
		int			n;

		take_samples(runner, b, want * SAMPLES_PER_TASK, &s);
		/* Quantiles of the sample, so many as there are boundaries. */
		for (n = 0; n < want - 1 && (n + 1) * SAMPLES_PER_TASK < s.n; n++)
		{
			if (b->narrow)
				s.narrow[n] = s.narrow[(n + 1) * SAMPLES_PER_TASK];
			else
				s.wide[n] = s.wide[(n + 1) * SAMPLES_PER_TASK];
		}
		if (n > 0)
			nbounds = runner->ops->cut(runner->index, runner->order, n, s.narrow, s.wide, nb, wb);
	}

	b->ntasks = 0;
	memset(b->many->bounds[0], 0, sizeof(b->many->bounds[0]));
	for (int i = 0; i <= nbounds; i++)
	{
		MtpTask    *task = &b->tasks[b->ntasks];
		uint32	   *from = b->many->bounds[b->ntasks];
		uint32	   *to = b->many->bounds[b->ntasks + 1];

		memset(task, 0, sizeof(*task));
		for (int r = 0; r < b->nruns; r++)
		{
			to[r] = i == nbounds ? mtp_run(b, r)->n :
				Max(from[r], rank_in_run(runner, b, mtp_run(b, r), &nb[i], &wb[i]));
			task->total += to[r] - from[r];
		}
		if (task->total == 0)
			continue;
#ifdef USE_ASSERT_CHECKING
		task->crc = task_crc(b, b->ntasks);
#endif
		b->ntasks++;
	}
	pfree(nb);
	pfree(wb);
}

void
mtp_batch_stream_open(MtpBatchStream *s, MtpOrder *order, MtpBatch *b, int task)
{
	s->order = order;
	s->narrow = b->narrow;
	s->n = 0;
	for (int r = 0; r < b->nruns; r++)
	{
		MtpSource  *src = &s->heap[s->n];
		MtpRun	   *run = mtp_run(b, r);
		uint32		from = mtp_task_from(b, task, r);
		uint32		to = mtp_task_to(b, task, r);

		if (from == to)
			continue;
		memset(src, 0, sizeof(*src));
		if (b->narrow)
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
	for (int i = s->n / 2 - 1; i >= 0; i--)
		mtp_stream_sift(s, i);
	for (uint32 i = b->tasks[task].progress; i > 0; i--)
		mtp_stream_next(s);
}

/* The injection point belongs to it: whatever is looked at before a step is registered may change until it is. */
static void
register_step(MtpServing *worker)
{
	MTP_INJECT("step_begins");
	Assert((pg_atomic_read_u64(&worker->step) & 1) == 0);
	pg_atomic_write_u64(&worker->step, pg_atomic_read_u64(&worker->step) + 1);
	pg_memory_barrier();
	MTP_INJECT("step_registered");
}

/*
 * A worker's step may touch pages only while the rows' transaction runs: after its end VACUUM may
 * give their TIDs to others.  First the step is registered, then the transaction looked at;
 * mtp_batch_vacuum_fence does the reverse.
 */
static bool
step_begin(MtpRunner *runner, MtpBatch *b)
{
	if (b->cancelled)
		return false;
	if (runner->worker == NULL)
		return true;
	register_step(runner->worker);
	return TransactionIdIsInProgress(b->xid);
}

void
mtp_batch_step_end(MtpServing *worker)
{
	uint64		step;

	if (worker == NULL)
		return;
	step = pg_atomic_read_u64(&worker->step);
	pg_memory_barrier();
	if (step & 1)
		pg_atomic_write_u64(&worker->step, step + 1);
}

static bool
apply_task(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;
	MtpTask    *task = &b->tasks[unit->at];
	MtpBatchStream *stream = palloc(sizeof(MtpBatchStream));
	bool		more = true;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower step",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	Assert(task->crc == task_crc(b, unit->at));
	begin_applying(runner);
	applying.call.stream = stream;
	applying.call.arrival = b->arrival;
	applying.call.progress = &task->progress;
	applying.from = task->progress;
	applying.task = true;

	if (unit->taken_over)
		ereport(DEBUG1,
				(errmsg_internal("mtpower: taking over task %d for index %u at entry %u of %u",
								 unit->at, b->indexid, task->progress, task->total)));
	mtp_batch_stream_open(stream, runner->order, b, unit->at);
	old = MemoryContextSwitchTo(cxt);
	while (!mtp_stream_end(stream))
	{
		CHECK_FOR_INTERRUPTS();
		more = step_begin(runner, b);
		if (more)
		{
			MTP_INJECT("step_checked");
			runner->ops->step(&applying.call);
			MTP_INJECT("step_applied");
		}
		mtp_batch_step_end(runner->worker);
		MTP_INJECT("step_gone");
		if (!more)
			break;
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	pfree(stream);
	Assert(!more || task->progress == task->total);
	count_task(unit);
	return more;
}

/*
 * All of a batch that nobody else looks at.  An error leaves it as it was, or at its task's
 * progress: a run is whole whatever happens, and the sorted runs' merge is the same each time.
 */
static bool
apply_all(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;

	for (int r = 0; r < b->nruns; r++)
		if (mtp_run(b, r)->state == MTP_UNIT_READY)
		{
			sort_run(runner, b, mtp_run(b, r));
			mtp_run(b, r)->state = MTP_UNIT_DONE;
		}
	prepare_batch(runner, unit);
	if (b->ntasks == 0)
		make_one_task(b);
	return apply_task(runner, unit);
}

bool
mtp_batch_unit_run(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;

	switch (unit->kind)
	{
		case MTP_UNIT_SORT:
			sort_run(runner, b, mtp_run(b, unit->at));
			return true;
		case MTP_UNIT_CUT:
			prepare_batch(runner, unit);
			if (b->cancelled)
				return true;
			MTP_INJECT("cut");
			if (b->many)
				cut_batch(runner, b);
			else
				make_one_task(b);
			return true;
		case MTP_UNIT_ALL:
			return apply_all(runner, unit);
		case MTP_UNIT_APPLY:
			return apply_task(runner, unit);
	}
	return false;
}
