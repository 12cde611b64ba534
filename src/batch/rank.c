/*
 * rank.c
 *	  Makes the prefixes of a sorted batch the ranks of its keys.
 *
 * Where only a comparison function tells the order, a merge of runs calls it for each entry and
 * level.  Sorting the entries of all runs at once is cheaper: neighbours in a guessed order are
 * compared once (sort.c), and keys that repeat are found by their bytes.  The ranks tell the merge
 * all of the order.
 */
#include "batch/shared.h"

#include "miscadmin.h"

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

/*
 * A run's entries stand in the order of all, so its next entry has the next rank.  Prefixes are
 * first words before.  All of the work that may raise comes before the first rank is written.
 */
void
mtp_batch_rank(MtpOrder *order, MtpBatch *b)
{
	Size		bytes = (Size) b->entries * sizeof(MtpWide);
	MtpWide    *all = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	MtpWide    *scratch = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	uint64	   *ranks = (uint64 *) scratch;
	uint32		n = 0;
	Runs		runs;

	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);

		memcpy(all + n, MTP_RUN_WIDE(run), run->n * sizeof(MtpWide));
		n += run->n;
	}
	Assert(n == b->entries);
	mtp_batch_sort_wide(order, all, scratch, n);
	ranks[0] = 0;
	for (uint32 i = 1; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ranks[i] = ranks[i - 1];
		if (!mtp_batch_order_same_key(order, all[i - 1].itup, all[i].itup))
			ranks[i]++;
	}

	find_runs(b, &runs);
	for (uint32 i = 0; i < n; i++)
	{
		MtpWide    *e = next_of_run(&runs, all[i].itup);

		Assert(e->itup == all[i].itup);
		e->prefix = ranks[i];
	}
	b->sharp = true;
	b->exact = mtp_batch_tids_ascend(b);
	pfree(all);
	pfree(scratch);
}
