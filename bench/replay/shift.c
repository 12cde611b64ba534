/*
 * shift.c
 *	  Measures how long memory takes to follow work that shifts from one kind of pages to another.
 *
 * A *turnover* is as many bytes of missed pages as the buffer has: a buffer that admits every page
 * needs one for a new content.  The *best fixed split* has the most hits late in the phase, of all
 * splits of memory between the two kinds in eighths, under the same policy within a kind.  A phase
 * is there when 95 % of these are hits, of as many accesses as there are blocks.
 */
#include "replay.h"

#define EIGHTHS 8

/* The share of n accesses, from one on, that are hits */
static double
hits(const bool *miss, size_t from, size_t n)
{
	size_t		nhits = 0;

	for (size_t i = from; i < from + n; i++)
		nhits += !miss[i];
	return (double) nhits / n;
}

static double
late_hits(const Shift *s, const bool *miss, int phase)
{
	return hits(miss, (phase + 1) * s->length - s->length / 3, s->length / 3);
}

static double
turnovers(const Shift *s, const bool *miss, int phase, double enough)
{
	size_t		window = s->trace.slabs * MTP_SLAB_BLOCKS;
	size_t		from = phase * s->length;
	double		bytes = 0;

	for (size_t i = from; i + window <= from + s->length; i++)
	{
		if ((i - from) % (window / 32) == 0 && hits(miss, i, window) >= enough)
			break;
		if (miss[i])
			bytes += mtp_policy_frame_bytes(KIND(s->trace.pages[i]));
	}
	return bytes / s->trace.slabs / MTP_SLAB_BYTES;
}

void
measure_shift(const Shift *s, double result[PHASES])
{
	bool	   *miss = malloc(s->trace.n * sizeof(bool));
	double		best[PHASES] = {0};

	for (int eighths = 0; eighths <= EIGHTHS; eighths++)
	{
		uint32		split[MTP_POLICY_KINDS] = {0};

		split[s->kinds[0]] = s->trace.slabs * eighths / EIGHTHS;
		split[s->kinds[1]] = s->trace.slabs - split[s->kinds[0]];
		ours(&s->trace, miss, split);
		for (int p = 0; p < PHASES; p++)
			best[p] = Max(best[p], late_hits(s, miss, p));
	}
	ours(&s->trace, miss, NULL);
	for (int p = 0; p < PHASES; p++)
		result[p] = turnovers(s, miss, p, 0.95 * best[p]);
	free(miss);
}
