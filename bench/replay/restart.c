/*
 * restart.c
 *	  How fast the hit ratio comes back after a restart, with hot lists of several lengths and ages, and without one.
 */
#include "replay.h"

#define ENOUGH 0.9				/* of the hit ratio before */

/*
 * Accesses after the restart, per block that there is room for, until of as many as a quarter of the blocks enough are hits.  before: hit ratio without a restart, of the same
 * accesses.
 */
static double
until_enough(const Trace *t, const bool *miss, const bool *undisturbed, size_t restart)
{
	size_t		blocks = t->extents * MTP_EXTENT_BLOCKS;
	size_t		window = blocks / 4;
	size_t		i = restart;

	while (i + window < t->n && hits(miss, i, window) < ENOUGH * hits(undisturbed, i, window))
		i += window / 32;
	return (double) (i - restart) / blocks;
}

void
measure_restart(const Trace *t)
{
	static const struct
	{
		const char *name;
		double		share;
		bool		heat;
		size_t		age;		/* accesses per block */
	}			ways[] = {
		{"no list", 0, false, 0},
		{"a tenth", 0.1, true, 0},
		{"a quarter", 0.25, true, 0},
		{"half", 0.5, true, 0},
		{"all", 1, true, 0},
		{"all, without heat", 1, false, 0},
		{"half, of 5 accesses per block ago", 0.5, true, 5},
		{"all, of 5 accesses per block ago", 1, true, 5},
		{"all, of 20 accesses per block ago", 1, true, 20},
	};
	bool	   *undisturbed = malloc(t->n * sizeof(bool)),
			   *miss = malloc(t->n * sizeof(bool));
	size_t		restart = t->n * 3 / 5,
				blocks = t->extents * MTP_EXTENT_BLOCKS;
	Options		o = {0};

	ours(t, undisturbed, &o);
	for (int i = 0; i < lengthof(ways); i++)
	{
		o = (Options) {.restart = restart,.list_age = ways[i].age * blocks,.list_share = ways[i].share,.list_heat = ways[i].heat};
		ours(t, miss, &o);
		printf("restart|%s|%s|%.2f|%.1f|%.1f\n", t->name, ways[i].name, until_enough(t, miss, undisturbed, restart),
			   100 * hits(miss, restart, 10000), 100 * hits(undisturbed, restart, 10000));
	}
	fflush(stdout);
	free(undisturbed);
	free(miss);
}
