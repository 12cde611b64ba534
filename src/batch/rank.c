/*
 * rank.c
 *	  Makes the prefixes of a sorted batch the ranks of its keys.
 *
 * Where only a comparison function tells the order, a merge of runs calls it for each entry and
 * level.  Where keys repeat, or the guess at the order of text holds, it is cheaper to sort the
 * entries of all runs at once: equal bytes are found without it, and neighbours are compared once
 * (sort.c).  The ranks tell the merge all of the order.
 */
#include "batch/shared.h"

#include "miscadmin.h"

#define SAMPLED			512		/* neighbours that are looked at, … */
#define MOST_WRONG		(SAMPLED / 64)	/* … of which so many may surprise */

/* The runs in the order of their addresses, and where each one's next rank goes. */
typedef struct Runs
{
	int			n;
	struct
	{
		const char *mem;
		MtpWide    *next;
	}			runs[MTP_MAX_RUNS];
} Runs;

static int
by_address(const void *a, const void *b)
{
	const char *x = ((MtpRun *const *) a)[0]->mem;
	const char *y = ((MtpRun *const *) b)[0]->mem;

	return (x > y) - (x < y);
}

static void
find_runs(MtpBatch *b, Runs *to)
{
	MtpRun	   *runs[MTP_MAX_RUNS];

	to->n = b->nruns;
	for (int r = 0; r < b->nruns; r++)
		runs[r] = mtp_run(b, r);
	qsort(runs, b->nruns, sizeof(MtpRun *), by_address);
	for (int r = 0; r < b->nruns; r++)
	{
		to->runs[r].mem = runs[r]->mem;
		to->runs[r].next = MTP_RUN_WIDE(runs[r]);
	}
}

/*
 * True if neighbours in the sorted runs mostly are of one key, or in the order of the guess.  Then
 * those of the whole batch are, too.
 */
static bool
order_is_cheap(MtpOrder *order, MtpBatch *b)
{
	uint32		step = Max(1, b->entries / SAMPLED);
	uint32		next = step;
	int			wrong = 0;

	for (int r = 0; r < b->nruns && wrong <= MOST_WRONG; r++)
	{
		MtpRun	   *run = mtp_run(b, r);
		const MtpWide *a = MTP_RUN_WIDE(run);

		for (; next < run->n; next += step)
			wrong += !mtp_batch_order_same_key(order, a[next - 1].itup, a[next].itup) &&
				!mtp_batch_order_guesses(order, a[next - 1].itup, a[next].itup);
		next = Max(next, run->n + 1) - run->n;
	}
	return wrong <= MOST_WRONG;
}

/* The place of the next rank of the run that has the tuple. */
static inline MtpWide *
next_of_run(Runs *runs, IndexTuple itup)
{
	int			lo = 0;

	for (int hi = runs->n; hi - lo > 1;)
	{
		int			middle = (lo + hi) / 2;

		if (runs->runs[middle].mem <= (char *) itup)
			lo = middle;
		else
			hi = middle;
	}
	return runs->runs[lo].next++;
}

bool
mtp_batch_tids_ascend(MtpBatch *b)
{
	for (int r = 1; r < b->nruns; r++)
		if (mtp_run(b, r)->least <= mtp_run(b, r - 1)->most)
			return false;
	return true;
}

/* True if each run stands in the order of all; else a comparison function contradicts itself. */
static bool
runs_in_order(Runs runs, const MtpWide *all, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
		if (next_of_run(&runs, all[i].itup)->itup != all[i].itup)
			return false;
	return true;
}

/*
 * A run's entries stand in the order of all, so its next entry has the next rank.  Prefixes are
 * first words before.  All of the work that may raise comes before the first rank is written.
 */
void
mtp_batch_rank(MtpOrder *order, MtpBatch *b)
{
	Size		bytes = (Size) b->entries * sizeof(MtpWide);
	MtpWide    *all,
			   *scratch;
	uint64	   *ranks;
	uint32		n = 0;
	Runs		runs = {0};

	if (!order_is_cheap(order, b))
		return;
	all = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	scratch = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);

		memcpy(all + n, MTP_RUN_WIDE(run), run->n * sizeof(MtpWide));
		n += run->n;
	}
	Assert(n == b->entries);
	mtp_batch_sort_wide(order, all, scratch, n);
	ranks = (uint64 *) scratch;
	ranks[0] = 0;
	for (uint32 i = 1; i < n && !b->cancelled; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ranks[i] = ranks[i - 1];
		if (!mtp_batch_order_same_key(order, all[i - 1].itup, all[i].itup))
			ranks[i]++;
	}

	find_runs(b, &runs);
	if (!b->cancelled && runs_in_order(runs, all, n))
	{
		for (uint32 i = 0; i < n; i++)
			next_of_run(&runs, all[i].itup)->prefix = ranks[i];
		b->sharp = true;
		b->exact = mtp_batch_tids_ascend(b);
	}
	pfree(all);
	pfree(scratch);
}
