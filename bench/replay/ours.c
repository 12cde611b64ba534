/*
 * ours.c
 *	  Replays page accesses against the buffer's own policy: src/buffer/pool.c, as the server runs it.
 */
#include "replay.h"

typedef struct Pages
{
	MtpPool    *pool;
	Map			map;
	uint64	   *pages;			/* of each frame */
	uint64		random;
	MtpAdmission admissions[MTP_FRAME_KINDS];
} Pages;

static void
begin(Pages *p)
{
	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
		p->admissions[kind] = (MtpAdmission) {.mean = MTP_ADMITTED_ALL};
}

static void
leave(Pages *p, uint32 frame)
{
	if (p->pages[frame] == NO_PAGE)
		return;
	mtp_pool_left(p->pool, frame, mix(p->pages[frame]));
	map_remove(&p->map, p->pages[frame]);
	p->pages[frame] = NO_PAGE;
}

/* An extent gets another kind; its pages go. */
static void
change(Pages *p, uint32 extent, int kind)
{
	for (uint32 f = extent * MTP_EXTENT_FRAMES; f < (extent + 1) * MTP_EXTENT_FRAMES; f++)
		leave(p, f);
	mtp_pool_change(p->pool, extent, kind);
}

static void
admit(Pages *p, uint64 page, bool fixed)
{
	MtpAdmission *admission = &p->admissions[KIND(page)];
	int			level = mtp_pool_miss(p->pool, KIND(page), mix(page), admission, (uint16) mtp_pool_random(&p->random));
	uint32		extent,
				frame;
	bool		found;

	if (level < 0)
		return;
	if (!fixed && mtp_pool_wants(p->pool, KIND(page), &p->random, &extent))
		change(p, extent, KIND(page));
	found = mtp_pool_place(p->pool, KIND(page), level, admission->stands_for, &p->random, &frame);
	mtp_pool_tried(admission, found);
	if (!found)
		return;
	leave(p, frame);
	p->pages[frame] = page;
	map_add(&p->map, page, frame);
	mtp_pool_came(p->pool, frame, level);
}

/* An extent that has no kind, or is of one that has more than its share */
static uint32
spare_extent(Pages *p, const uint32 *split)
{
	if (p->pool->nfree > 0)
		return p->pool->nfree - 1;
	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
		if (p->pool->kinds[kind].nextents > split[kind])
			return p->pool->extents[kind][p->pool->kinds[kind].nextents - 1];
	return 0;
}

static void
make_split(Pages *p, const uint32 *split)
{
	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
		while (p->pool->kinds[kind].nextents < split[kind])
			change(p, spare_extent(p, split), kind);
}

/* ---------- restarts ---------- */

typedef struct Warm
{
	uint64		page;
	int			level;
} Warm;

/* The warmest for their size first; then by their numbers, so that it does not matter where they were. */
static int
warmest_first(const void *a, const void *b)
{
	const Warm *x = a,
			   *y = b;
	double		wx = mtp_heat_accesses(x->level) * mtp_pool_frames(KIND(x->page));
	double		wy = mtp_heat_accesses(y->level) * mtp_pool_frames(KIND(y->page));

	return wx != wy ? (wx < wy ? 1 : -1) : (x->page > y->page) - (x->page < y->page);
}

static int
by_block(const void *a, const void *b)
{
	uint64		x = ((const Warm *) a)->page,
				y = ((const Warm *) b)->page;

	return (x > y) - (x < y);
}

/* The hot list: what is in the buffer, as far as it fits into this share of the memory. */
static uint32
hot_list(const Pages *p, double share, Warm *list)
{
	uint32		n = 0;
	double		room = share * p->pool->nextents * MTP_EXTENT_BYTES;

	for (uint32 f = 0; f < p->pool->nextents * MTP_EXTENT_FRAMES; f++)
		if (p->pages[f] != NO_PAGE)
			list[n++] = (Warm) {p->pages[f], mtp_heat_level(p->pool->heat[f], mtp_pool_epoch(p->pool))};
	qsort(list, n, sizeof(Warm), warmest_first);
	for (uint32 i = 0; i < n; i++)
		if ((room -= mtp_pool_frame_bytes(KIND(list[i].page))) < 0)
			n = i;
	qsort(list, n, sizeof(Warm), by_block);
	return n;
}

/* The server has been down: the buffer is empty, and gets what is on the list while frames are free. */
static void
restart(Pages *p, double half_life, const Warm *list, uint32 n, bool with_heat)
{
	uint32		nextents = p->pool->nextents;

	map_free(&p->map);
	p->map = map_make(nextents * MTP_EXTENT_FRAMES);
	memset(p->pages, 0xFF, nextents * MTP_EXTENT_FRAMES * sizeof(uint64));
	mtp_pool_make(p->pool, nextents, half_life);
	begin(p);
	for (uint32 i = 0; i < n; i++)
	{
		int			kind = KIND(list[i].page);
		uint32		extent,
					frame;

		if (p->pool->nfree > 0 && mtp_pool_wants(p->pool, kind, &p->random, &extent))
			mtp_pool_change(p->pool, extent, kind);
		if (!mtp_pool_place(p->pool, kind, 0, 1, &p->random, &frame))
			continue;
		leave(p, frame);
		p->pages[frame] = list[i].page;
		map_add(&p->map, list[i].page, frame);
		mtp_pool_came(p->pool, frame, with_heat ? list[i].level : MTP_HEAT_ONE);
	}
}

/* ---------- replay ---------- */

void
ours(const Trace *t, bool *miss, const Options *o)
{
	uint32		nframes = t->extents * MTP_EXTENT_FRAMES;
	void	   *memory = malloc(mtp_pool_size(t->extents));
	Pages		p = {.map = map_make(nframes),.random = UINT64CONST(88172645463325252)};
	double		half_life = o->half_life > 0 ? o->half_life : MTP_POOL_HALF_LIFE;
	Warm	   *list = malloc(nframes * sizeof(Warm));
	uint32		nlist = 0,
				directories = 0;

	p.pool = mtp_pool_make(memory, t->extents, half_life);
	p.pages = malloc(nframes * sizeof(uint64));
	memset(p.pages, 0xFF, nframes * sizeof(uint64));
	begin(&p);
	for (size_t i = 0; i < t->n; i++)
	{
		uint32		frame;

		if (o->split != NULL && i == o->split_from)
			make_split(&p, o->split);
		if (o->restart > 0 && i == o->restart - o->list_age)
			nlist = hot_list(&p, o->list_share, list);
		if (o->restart > 0 && i == o->restart)
			restart(&p, half_life, list, nlist, o->list_heat);
		frame = map_find(&p.map, t->pages[i]);
		directories += KIND(t->pages[i]) == MTP_FRAME_DIRECTORY;
		if (i % 32 == 0)
		{
			mtp_pool_tick(p.pool, 32 - directories, directories);
			directories = 0;
		}
		if (!(miss[i] = frame == NONE))
			mtp_pool_hit(p.pool, frame, (uint8) mtp_pool_random(&p.random));
		else
			admit(&p, t->pages[i], o->split != NULL && i >= o->split_from);
	}
	map_free(&p.map);
	free(list);
	free(p.pages);
	free(memory);
}
