/*
 * replay.c
 *	  Replays page accesses against the buffer's own policy, src/buffer/pool.c as the server runs it, and against others.
 *
 *	  replay			prints lines of "trace|held out|policy|per cent of misses"; the first tenth of a trace fills the caches
 *	  replay HALFLIFE	the same with another half-life of heat
 */
#include "replay.h"

#include <stdio.h>

#undef printf

static double half_life = MTP_POOL_HALF_LIFE;

/* An extent gets another kind; its pages go. */
static void
change(MtpPool *pool, Map *map, uint64 *pages, uint32 extent, int kind)
{
	for (uint32 f = extent * MTP_EXTENT_FRAMES; f < (extent + 1) * MTP_EXTENT_FRAMES; f++)
		if (pages[f] != NO_PAGE)
		{
			mtp_pool_left(pool, f, mix(pages[f]));
			map_remove(map, pages[f]);
			pages[f] = NO_PAGE;
		}
	mtp_pool_change(pool, extent, kind);
}

static void
admit(MtpPool *pool, Map *map, uint64 *pages, uint64 page, uint64 *random)
{
	int			level = mtp_pool_miss(pool, mix(page), (uint8) mtp_pool_random(random));
	uint32		extent,
				frame;

	if (mtp_pool_wants(pool, KIND(page), random, &extent))
		change(pool, map, pages, extent, KIND(page));
	if (!mtp_pool_place(pool, KIND(page), level, random, &frame))
		return;
	if (pages[frame] != NO_PAGE)
	{
		mtp_pool_left(pool, frame, mix(pages[frame]));
		map_remove(map, pages[frame]);
	}
	pages[frame] = page;
	map_add(map, page, frame);
	mtp_pool_came(pool, frame, level);
}

static void
ours(const Trace *t, bool *miss)
{
	uint32		nframes = t->extents * MTP_EXTENT_FRAMES;
	void	   *memory = malloc(mtp_pool_size(t->extents));
	MtpPool    *pool = mtp_pool_make(memory, t->extents, half_life);
	Map			map = map_make(nframes);
	uint64	   *pages = malloc(nframes * sizeof(uint64));
	uint64		random = 88172645463325252;

	memset(pages, 0xFF, nframes * sizeof(uint64));
	for (size_t i = 0; i < t->n; i++)
	{
		uint32		frame = map_find(&map, t->pages[i]);

		if (i % 32 == 0)
			mtp_pool_tick(pool, 32);
		if (!(miss[i] = frame == NONE))
			mtp_pool_hit(pool, frame, (uint8) mtp_pool_random(&random));
		else
			admit(pool, &map, pages, t->pages[i], &random);
	}
	map_free(&map);
	free(pages);
	free(memory);
}

static void
report(const Trace *t, const char *name, void (*replay) (const Trace *t, bool *miss))
{
	bool	   *miss = malloc(t->n * sizeof(bool));
	size_t		from = t->n / 10,
				n = 0;

	replay(t, miss);
	for (size_t i = from; i < t->n; i++)
		n += miss[i];
	printf("%s|%s|%s|%.2f\n", t->name, t->held_out ? "held out" : "tuning", name, 100.0 * n / (t->n - from));
	fflush(stdout);
	free(miss);
}

int
main(int argc, char **argv)
{
	mtp_heat_init();
	if (argc > 1)
		half_life = atof(argv[1]);
	for (int i = 0;; i++)
	{
		Trace		t = make_trace(i);

		if (t.name == NULL)
			return 0;
		report(&t, "mtpower", ours);
		for (const Cache *c = peers; c->name != NULL; c++)
			report(&t, c->name, c->replay);
		free(t.pages);
	}
}
