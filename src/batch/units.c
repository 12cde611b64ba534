/*
 * units.c
 *	  Claims the units of a batch, runs them, and finishes them or gives them back.
 *
 * A claim is a change of state under mtp_batch_lock; then the unit is the claimant's alone.  The
 * claimant finishes it or gives it back, also when an error or its termination comes between
 * (invariant E3).  Nothing is lost: runs keep their entries whatever happens (E6), and a task's
 * progress tells how many are in the index (E5).
 */
#include "batch/shared.h"

#include "core/inject.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

/* Interfaces of the index AMs. */
static const MtpBatchOps *all_ops[4];
static int	n_ops;

void
mtp_batch_register(const MtpBatchOps *ops)
{
	all_ops[n_ops++] = ops;
}

static const MtpBatchOps *
find_ops(Relation index)
{
	for (int i = 0; i < n_ops; i++)
		if (index->rd_indam->ambuild == all_ops[i]->ambuild)
			return all_ops[i];
	return NULL;
}

bool
mtp_batch_serves(Relation index)
{
	return find_ops(index) != NULL;
}

const MtpBatchOps *
mtp_batch_ops_of(Relation index)
{
	const MtpBatchOps *ops = find_ops(index);

	if (ops != NULL)
		return ops;
	elog(ERROR, "index \"%s\" can't be fed in batches", RelationGetRelationName(index));
}

/* Where the unit's state is; under mtp_batch_lock, but in the unit's claimant. */
static MtpUnitState *
state_of_unit(MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;

	return unit->kind == MTP_UNIT_SORT ? &mtp_run(b, unit->at)->state :
		unit->kind == MTP_UNIT_APPLY ? &b->tasks[unit->at].state : &b->cut_state;
}

/*
 * Runs come first, then the cut, then tasks, as MtpPhase has it: the cut is ready when all runs are
 * sorted and the batch is submitted.  A batch on the list own is one unit.
 */
MtpUnitState *
mtp_batch_unit_ready(MtpBatch *b, bool worker, MtpUnit *unit)
{
	if (b->cancelled || (worker && !b->worker_ok))
		return NULL;
	unit->batch = b;
	unit->at = 0;
	if (b->own || (b->phase == MTP_SORTING && b->sorted == b->nruns))
	{
		unit->kind = b->own ? MTP_UNIT_ALL : MTP_UNIT_CUT;
		return b->phase == MTP_SORTING && b->cut_state == MTP_UNIT_READY ? &b->cut_state : NULL;
	}
	if (worker && b->owner_alone && b->phase == MTP_APPLYING)
		return NULL;
	unit->kind = b->phase == MTP_APPLYING ? MTP_UNIT_APPLY : MTP_UNIT_SORT;
	if (b->phase != MTP_DONE)
		for (int n = b->phase == MTP_APPLYING ? b->ntasks : b->nruns; unit->at < n; unit->at++)
			if (*state_of_unit(unit) == MTP_UNIT_READY &&
				!(worker && unit->kind == MTP_UNIT_APPLY && b->tasks[unit->at].left))
				return state_of_unit(unit);
	return NULL;
}

bool
mtp_batch_unit_claim(MtpBatch *b, bool worker, MtpUnit *unit)
{
	MtpUnitState *state = mtp_batch_unit_ready(b, worker, unit);

	unit->taken_over = false;
	if (state == NULL)
		return false;

	/* From here on nobody frees the batch, even if its load fails (leave_batch). */
	*state = MTP_UNIT_CLAIMED;
	b->holders++;
	if (unit->kind == MTP_UNIT_APPLY || unit->kind == MTP_UNIT_ALL)
	{
		unit->taken_over = b->tasks[unit->at].started && !b->tasks[unit->at].left;
		b->tasks[unit->at].started = true;
	}
	return true;
}

void
mtp_batch_submit(MtpBatch *b, TimestampTz now)
{
	b->phase = MTP_SORTING;
	b->submitted = now;
	b->load->full -= b->full;
	b->load->underway += b->full;
}

static void
free_runs(MtpBatch *b)
{
	for (int r = 0; r < b->nruns; r++)
		mtp_batch_memory_free(mtp_run(b, r)->mem, mtp_run(b, r)->order);
	if (b->many)
		mtp_batch_memory_free((char *) b->many, MTP_MANY_ORDER);
}

/* The run that its owner fills goes too. */
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
 * Under mtp_batch_lock: the runs of a taken batch are applied, and its owner fills it again.  The
 * owner may be filling a run meanwhile, which stays where it is (invariant E2).
 */
static void
begin_batch_anew(MtpBatch *b)
{
	uint64		bytes = MTP_BLOCK_SIZE + (b->filling.mem ? MTP_RUN_BYTES(&b->filling) : 0);

	Assert(b->taken && b->holders == 0 && !b->cancelled);

	/*
	 * What the owner reads of this without the lock is a hint: it adds a run only after it has
	 * seen MTP_FILLING under the lock (lock_batch, grow_batch).
	 */
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
	b->sharp = b->exact = false;
	b->prepared = false;
	b->announced = 0;
	b->cut_state = MTP_UNIT_READY;
	b->ntasks = b->done = 0;
	memset(b->tasks, 0, sizeof(b->tasks));
	b->phase = MTP_FILLING;
}

/*
 * Under mtp_batch_lock: the claimant leaves.  The last one frees a batch that is done or cancelled,
 * or begins it anew if another load has taken it.
 */
static void
leave_batch(MtpBatch *b)
{
	MtpLoad    *load = b->load;

	/* What others hold stays: each leaves behind its own unit, and looks here then. */
	b->holders--;
	if (b->holders == 0 && b->phase == MTP_DONE && b->taken && !b->cancelled)
		begin_batch_anew(b);
	else if (b->holders == 0 && (b->cancelled || b->phase == MTP_DONE))
	{
		/* A cancelled batch is off its list already. */
		if (!b->cancelled)
			dlist_delete(&b->node);
		mtp_batch_free(b);
	}
	/* The owner may wait for this unit, or for the phase (mtp_batch_drain_step, lock_batch). */
	ConditionVariableBroadcast(&load->cv);
}

/*
 * The unit changes the batch's phase under the same lock as its state.  The batch may be gone, or
 * filled anew, when the lock is released: what the report needs is copied before.
 */
void
mtp_batch_unit_finish(MtpUnit *unit)
{
	static const MtpIndexCounts one = {.batches = 1};
	MtpBatch   *b = unit->batch;
	Oid			indexid = b->indexid;
	TimestampTz submitted = b->submitted;
	uint32		entries = b->entries;
	int			tasks = b->ntasks;
	bool		over;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	*state_of_unit(unit) = MTP_UNIT_DONE;
	switch (unit->kind)
	{
		case MTP_UNIT_SORT:
			b->sorted++;
			break;
		case MTP_UNIT_CUT:
			b->phase = b->ntasks > 0 ? MTP_APPLYING : MTP_DONE;
			break;
		case MTP_UNIT_APPLY:
			if (b->tasks[unit->at].left && b->tasks[unit->at].progress < b->tasks[unit->at].total)
				b->tasks[unit->at].state = MTP_UNIT_READY;	/* for its owner */
			else if (++b->done == b->ntasks)
				b->phase = MTP_DONE;
			break;
		case MTP_UNIT_ALL:
			b->phase = MTP_DONE;
			break;
	}
	over = b->phase == MTP_DONE && !b->cancelled;
	b->load->applied_batches += over && entries > 0;
	leave_batch(b);
	LWLockRelease(mtp_batch_lock);
	unit->batch = NULL;			/* what comes now may be interrupted */

	if (!over || entries == 0)
		return;
	mtp_batch_stat_count(indexid, &one);
	ereport(DEBUG1,
			(errmsg_internal("mtpower: applied %u entries of index %u in %d tasks, "
							 "%ld ms after submission", entries, indexid, tasks,
							 TimestampDifferenceMilliseconds(submitted, GetCurrentTimestamp()))));
}

/*
 * Raises nothing: this runs in PG_CATCH and in before_shmem_exit (invariant E3).  A task keeps its
 * progress, so the process that repeats it goes on behind what is in.
 */
void
mtp_batch_unit_give_back(MtpUnit *unit, bool worker_failed)
{
	MtpBatch   *b = unit->batch;

	mtp_batch_account_end(unit);
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	*state_of_unit(unit) = MTP_UNIT_READY;

	/* What a worker failed at, its owner does, and raises the error if it is one. */
	if (worker_failed)
		b->worker_ok = false;
	leave_batch(b);
	LWLockRelease(mtp_batch_lock);
	unit->batch = NULL;
}

/*
 * Entries come in the order of their TIDs, so the ends of a run have the bounds of these; unless
 * the heap fills gaps, or an error came between, so that the run is sorted for a second time.
 */
static void
sort_wide_run(MtpOrder *order, MtpRun *run, MtpWide *scratch)
{
	MtpWide    *a = MTP_RUN_WIDE(run);
	uint64		first = mtp_rid_from_tid(&a[0].itup->t_tid);
	uint64		last = mtp_rid_from_tid(&a[run->n - 1].itup->t_tid);
	bool		bounds = mtp_batch_sort_wide(order, a, scratch, run->n);

	run->least = bounds ? Min(first, last) : 0;
	run->most = bounds ? Max(first, last) : PG_UINT64_MAX;
}

/* Errors and termination come only where the run has all of its entries (invariant E6). */
static void
sort_run(MtpRunner *runner, MtpBatch *b, MtpRun *run)
{
	void	   *scratch = palloc(run->n * (b->narrow ? sizeof(MtpNarrow) : sizeof(MtpWide)));

	MTP_INJECT("sort");
	if (b->narrow)
		mtp_batch_sort_narrow(MTP_RUN_NARROW(run), scratch, run->n);
	else
		sort_wide_run(runner->order, run, scratch);
	pfree(scratch);
}

void
mtp_batch_unit_run(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;

	switch (unit->kind)
	{
		case MTP_UNIT_SORT:
			sort_run(runner, b, mtp_run(b, unit->at));
			break;
		case MTP_UNIT_CUT:
			mtp_batch_prepare(runner, unit);
			if (b->cancelled)
				break;
			MTP_INJECT("cut");
			mtp_batch_sharpen(runner->order, b);
			mtp_batch_cut(runner, b);
			break;
		case MTP_UNIT_ALL:

			/*
			 * Nobody else looks at the batch, so this takes no lock.  An error leaves the batch as
			 * it was, or at its task's progress: a run is whole whatever happens (E6), and the
			 * merge of sorted runs is the same each time.
			 */
			for (int r = 0; r < b->nruns; r++)
				if (mtp_run(b, r)->state == MTP_UNIT_READY)
				{
					sort_run(runner, b, mtp_run(b, r));
					mtp_run(b, r)->state = MTP_UNIT_DONE;
				}
			mtp_batch_prepare(runner, unit);
			if (b->ntasks == 0)
			{
				mtp_batch_sharpen(runner->order, b);
				mtp_batch_cut(runner, b);
			}
			/* FALLTHROUGH */
		case MTP_UNIT_APPLY:
			mtp_batch_apply(runner, unit);
			break;
	}
}
