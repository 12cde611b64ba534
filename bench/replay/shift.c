/*
 * shift.c
 *	  How long it takes until memory is where the work is, when that shifts from one kind of pages to another.
 *
 * A *turnover* is as many bytes of pages that are missed as the buffer has: what it takes to fill a buffer that admits every page.  The *best
 * fixed split* is, of all splits of memory between the two kinds in eighths, the one that has most hits late in the phase, under the same policy
 * for what is within a kind.  A phase has reached what it should when of as many accesses as there are blocks 95 % of that are hits.
 */
#include "replay.h"

#define EIGHTHS 8

static double
late_hits(const Shift *s, const bool *miss, int phase)
{
	return hits(miss, (phase + 1) * s->length - s->length / 3, s->length / 3);
}

static void
split_by_eighths(const Shift *s, int eighths, uint32 *split)
{
	memset(split, 0, sizeof(uint32) * MTP_FRAME_KINDS);
	split[s->kinds[0]] = s->trace.extents * eighths / EIGHTHS;
	split[s->kinds[1]] = s->trace.extents - split[s->kinds[0]];
}

static double
turnovers(const Shift *s, const bool *miss, int phase, double enough)
{
	size_t		window = s->trace.extents * MTP_EXTENT_BLOCKS;
	size_t		from = phase * s->length;
	double		bytes = 0;

	for (size_t i = from; i + window <= from + s->length; i++)
	{
		if ((i - from) % (window / 32) == 0 && hits(miss, i, window) >= enough)
			break;
		if (miss[i])
			bytes += mtp_pool_frame_bytes(KIND(s->trace.pages[i]));
	}
	return bytes / s->trace.extents / MTP_EXTENT_BYTES;
}

void
measure_shift(const Shift *s, Turnovers result[PHASES])
{
	bool	   *miss = malloc(s->trace.n * sizeof(bool));
	int			best_split[PHASES] = {0};
	Options		o = {0};

	memset(result, 0, PHASES * sizeof(Turnovers));
	for (int eighths = 0; eighths <= EIGHTHS; eighths++)
	{
		uint32		split[MTP_FRAME_KINDS];

		split_by_eighths(s, eighths, split);
		o.split = split;
		ours(&s->trace, miss, &o);
		for (int p = 0; p < PHASES; p++)
			if (late_hits(s, miss, p) > result[p].best)
			{
				result[p].best = late_hits(s, miss, p);
				best_split[p] = eighths;
			}
	}
	o.split = NULL;
	ours(&s->trace, miss, &o);
	for (int p = 1; p < PHASES; p++)
	{
		result[p].reached = late_hits(s, miss, p);
		result[p].turnovers = turnovers(s, miss, p, 0.95 * result[p].best);
	}
	for (int p = 1; p < PHASES; p++)
	{
		uint32		split[MTP_FRAME_KINDS];

		split_by_eighths(s, best_split[p], split);
		o.split = split;
		o.split_from = p * s->length;
		ours(&s->trace, miss, &o);
		result[p].at_once = turnovers(s, miss, p, 0.95 * result[p].best);
	}
	free(miss);
}
