/*
 * cut.c
 *	  Prepares an index for a batch, and cuts the sorted batch into tasks.
 */
#include "batch/shared.h"

#include "core/inject.h"
#include "port/pg_crc32c.h"

#define SAMPLES_PER_TASK	8
#define ENTRIES_PER_TASK	(32 * 1024)
#define LEAST_PER_TASK		256 /* of a small batch */

/* An error leaves `prepared` unset, and `announced` as prepare left it for the next claimant. */
void
mtp_batch_prepare(MtpRunner *runner, MtpUnit *unit)
{
	MtpBatch   *b = unit->batch;
	MtpBatchApply *call;

	if (runner->ops->prepare == NULL || b->prepared)
		return;
	call = mtp_batch_account_begin(runner, false, 0);
	call->progress = &b->announced;
	call->cancelled = &b->cancelled;
	MTP_INJECT("prepare");
	runner->ops->prepare(call, b->entries);
	b->prepared = true;
	mtp_batch_account_end(unit);
}

uint32
mtp_batch_task_crc(MtpBatch *b, int t)
{
	pg_crc32c	crc = 0;

#ifdef USE_ASSERT_CHECKING
	INIT_CRC32C(crc);
	for (int r = 0; r < b->nruns; r++)
		for (uint32 i = mtp_task_bounds(b, t)[r]; i < mtp_task_bounds(b, t + 1)[r]; i++)
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
#endif
	return crc;
}

/* The entry as it was before its batch was sharpened, perhaps in a cut that failed. */
static MtpWide
first_word(MtpRunner *runner, const MtpWide *e)
{
	return (MtpWide)
	{
		.prefix = mtp_batch_order_prefix(runner->order, e->itup),.itup = e->itup
	};
}

/*
 * Samples every step-th entry of the runs, and finds the boundaries between `want` tasks of the
 * same number of samples.  Returns how many; *narrow or *wide gets the boundaries in order.
 */
static int
find_quantiles(MtpRunner *runner, MtpBatch *b, int want, MtpNarrow **narrow, MtpWide **wide)
{
	bool		of_narrow = b->narrow;	/* read once, for analysers */
	uint32		step = Max(1, b->entries / (want * SAMPLES_PER_TASK));
	uint32		skip = step / 2;
	int			room = b->entries / step + 2;
	int			samples = 0;
	int			n;

	*narrow = of_narrow ? palloc(room * sizeof(MtpNarrow)) : NULL;
	*wide = of_narrow ? NULL : palloc(room * sizeof(MtpWide));
	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);
		uint32		i;

		for (i = skip; i < run->n && samples < room; i += step, samples++)
		{
			if (of_narrow)
				(*narrow)[samples] = MTP_RUN_NARROW(run)[i];
			else
				(*wide)[samples] = first_word(runner, &MTP_RUN_WIDE(run)[i]);
		}
		skip = i > run->n ? i - run->n : 0;
	}
	if (of_narrow)
		mtp_batch_sort_narrow(*narrow, palloc(room * sizeof(MtpNarrow)), samples);
	else
		mtp_batch_sort_wide(runner->order, *wide, palloc(room * sizeof(MtpWide)), samples);

	for (n = 0; n < want - 1 && (n + 1) * SAMPLES_PER_TASK < samples; n++)
	{
		if (of_narrow)
			(*narrow)[n] = (*narrow)[(n + 1) * SAMPLES_PER_TASK];
		else
			(*wide)[n] = (*wide)[(n + 1) * SAMPLES_PER_TASK];
	}
	return n;
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
		{
			MtpWide		e = first_word(runner, &MTP_RUN_WIDE(run)[mid]);

			above = mtp_batch_order_compare(runner->order, wb, &e) < 0;
		}
		if (above)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/*
 * How many tasks a batch is to have.  Even a small one has some, so that the processes that apply
 * the last batches of a statement end at about the same time.  Not one that a single process
 * applies, nor one of a unique index: two loads of the same keys wait for each other less where
 * keys go in in their order.
 */
static int
count_tasks(MtpRunner *runner, MtpBatch *b)
{
	int			large = Min(MTP_MAX_TASKS, b->entries / ENTRIES_PER_TASK);
	int			small = Min(MTP_FEW_TASKS, b->entries / LEAST_PER_TASK);

	if (b->own)
		return 1;
	if (b->owner_alone || runner->index->rd_index->indisunique)
		return b->many ? large : 1;
	return b->many ? Max(large, small) : small;
}

/*
 * Samples tell roughly equal shares, the index AM moves their boundaries to where its pages end,
 * and a search in each run finds the ranges.  Only the claimant of the cut writes tasks and bounds;
 * the next phase, set by mtp_batch_unit_finish, shows them to other processes.
 */
void
mtp_batch_cut(MtpRunner *runner, MtpBatch *b)
{
	int			want = count_tasks(runner, b);
	int			nbounds = 0;
	MtpNarrow	nb[MTP_MAX_TASKS];
	MtpWide		wb[MTP_MAX_TASKS];

	if (want > 1 && runner->ops->cut != NULL)
	{
		MtpNarrow  *narrow;
		MtpWide    *wide;
		int			n = find_quantiles(runner, b, want, &narrow, &wide);

		if (n > 0)
			nbounds = runner->ops->cut(runner->index, runner->order, n, narrow, wide, nb, wb);
	}

	b->ntasks = 0;
	memset(mtp_task_bounds(b, 0), 0, b->nruns * sizeof(uint32));
	for (int i = 0; i <= nbounds; i++)
	{
		MtpTask    *task = &b->tasks[b->ntasks];
		uint32	   *from = mtp_task_bounds(b, b->ntasks);
		uint32	   *to = mtp_task_bounds(b, b->ntasks + 1);

		task->total = 0;
		for (int r = 0; r < b->nruns; r++)
		{
			to[r] = i == nbounds ? mtp_run(b, r)->n :
				Max(from[r], rank_in_run(runner, b, mtp_run(b, r), &nb[i], &wb[i]));
			task->total += to[r] - from[r];
		}
		if (task->total == 0)
			continue;
		task->crc = mtp_batch_task_crc(b, b->ntasks);
		b->ntasks++;
	}
}
