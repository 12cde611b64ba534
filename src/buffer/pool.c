/*
 * pool.c
 *	  Decides which pages have frames.
 */
#include "buffer/pool.h"

#define SAMPLE			16		/* frames that are looked at for a victim */
#define MEAN			64		/* of so many pages are the running means */
#define WARMER			1.25f	/* so much more must a page be worth than those in its place */
#define SWEEP			32		/* all words are brought up to date once in so many epochs */
#define SKETCH_PER_FRAME 4

StaticAssertDecl(2 * SWEEP <= 127, "no word is so old that it could be taken for a newer one");

static Size
sketch_width(uint32 nextents)
{
	Size		width = 1024;

	while (width < (Size) nextents * MTP_EXTENT_FRAMES * SKETCH_PER_FRAME)
		width *= 2;
	return width;
}

Size
mtp_pool_size(uint32 nextents)
{
	return MAXALIGN(sizeof(MtpPool)) +
		MAXALIGN(nextents) + MTP_FRAME_KINDS * MAXALIGN(nextents * sizeof(uint32)) +
		MAXALIGN((Size) nextents * MTP_EXTENT_FRAMES * sizeof(MtpHeat)) +
		MTP_SKETCH_ROWS * sketch_width(nextents) * sizeof(MtpHeat);
}

static void *
carve(char **at, Size size)
{
	void	   *p = *at;

	*at += MAXALIGN(size);
	return p;
}

MtpPool *
mtp_pool_make(void *memory, uint32 nextents, double half_life)
{
	char	   *at = memory;
	MtpPool    *pool = carve(&at, sizeof(MtpPool));

	Assert(nextents >= 1 && nextents <= MTP_MOST_EXTENTS);
	memset(memory, 0, mtp_pool_size(nextents));
	pool->nextents = nextents;
	pool->nfree = nextents;
	pool->epoch_length = Max(1, (double) nextents * MTP_EXTENT_FRAMES * half_life / MTP_HEAT_STEPS);
	pool->sketch_mask = sketch_width(nextents) - 1;
	pg_atomic_init_u64(&pool->accesses, 0);
	pg_atomic_init_u32(&pool->epoch, 0);
	pool->kind_of = carve(&at, nextents);
	memset(pool->kind_of, MTP_FRAME_NONE, nextents);
	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
		pool->extents[kind] = carve(&at, nextents * sizeof(uint32));
	pool->heat = carve(&at, (Size) nextents * MTP_EXTENT_FRAMES * sizeof(MtpHeat));
	pool->sketch = carve(&at, MTP_SKETCH_ROWS * sketch_width(nextents) * sizeof(MtpHeat));
	return pool;
}

/* ---------- time ---------- */

/* Brings a share of an array's words up to date: [part, part + 1) of SWEEP. */
static void
refresh(MtpHeat *words, uint64 n, uint32 part, uint8 epoch)
{
	for (uint64 i = n * part / SWEEP; i < n * (part + 1) / SWEEP; i++)
		words[i] = mtp_heat_of(mtp_heat_level(words[i], epoch), epoch);
}

void
mtp_pool_tick(MtpPool *pool, uint32 n)
{
	uint64		before = pg_atomic_fetch_add_u64(&pool->accesses, n);

	/* Each border that is crossed is crossed by one process. */
	for (uint64 i = before / pool->epoch_length; i < (before + n) / pool->epoch_length; i++)
	{
		uint32		epoch = pg_atomic_add_fetch_u32(&pool->epoch, 1);

		refresh(pool->heat, (uint64) pool->nextents * MTP_EXTENT_FRAMES, epoch % SWEEP, (uint8) epoch);
		refresh(pool->sketch, (uint64) MTP_SKETCH_ROWS * (pool->sketch_mask + 1), epoch % SWEEP, (uint8) epoch);
	}
}

/* ---------- pages without frames ---------- */

static inline MtpHeat *
sketch_word(MtpPool *pool, uint64 page, int row)
{
	static const uint64 spread[MTP_SKETCH_ROWS] = {
		UINT64CONST(0x9E3779B97F4A7C15), UINT64CONST(0xC2B2AE3D27D4EB4F), UINT64CONST(0xD6E8FEB86659FD93)
	};

	return &pool->sketch[row * (pool->sketch_mask + (Size) 1) + ((page * spread[row] >> 32) & pool->sketch_mask)];
}

/* Other pages may have raised some of the words. */
static int
sketch_level(MtpPool *pool, uint64 page, uint8 epoch)
{
	int			level = MTP_HEAT_MOST;

	for (int row = 0; row < MTP_SKETCH_ROWS; row++)
		level = Min(level, mtp_heat_level(*sketch_word(pool, page, row), epoch));
	return level;
}

static void
sketch_raise(MtpPool *pool, uint64 page, int level, uint8 epoch)
{
	for (int row = 0; row < MTP_SKETCH_ROWS; row++)
	{
		MtpHeat    *word = sketch_word(pool, page, row);

		if (mtp_heat_level(*word, epoch) < level)
			*word = mtp_heat_of(level, epoch);
	}
}

int
mtp_pool_miss(MtpPool *pool, uint64 page, uint8 random)
{
	uint8		epoch = mtp_pool_epoch(pool);
	int			level = mtp_heat_hit(sketch_level(pool, page, epoch), random);

	sketch_raise(pool, page, level, epoch);
	return level;
}

void
mtp_pool_left(MtpPool *pool, uint32 frame, uint64 page)
{
	uint8		epoch = mtp_pool_epoch(pool);

	sketch_raise(pool, page, mtp_heat_level(pool->heat[frame], epoch), epoch);
	pool->heat[frame] = 0;
}

/* ---------- frames ---------- */

static inline float
per_megabyte(int kind, int level)
{
	return mtp_heat_accesses(level) * mtp_pool_frames(kind);
}

static inline void
note(float *mean, float value)
{
	*mean += (value - *mean) / MEAN;
}

/*
 * The extents of a kind.  Read once: another process may change their number, and a list's entry may then be of another kind already, which
 * whoever takes the frame looks at again.
 */
static uint32
number_of_extents(MtpPool *pool, int kind)
{
	uint32		n = *(volatile uint32 *) &pool->kinds[kind].nextents;

	pg_read_barrier();			/* the number before the list (mtp_pool_change) */
	return n;
}

/*
 * A frame of the kind that nobody has had yet, or none.  Two processes may get the same one; one of them will have it.  The number may run
 * back when they are at it at once: so it is asked whether the frame really is cold.
 */
static bool
fresh_frame(MtpPool *pool, int kind, uint32 *frame)
{
	uint32		n = number_of_extents(pool, kind);
	uint32		fresh = *(volatile uint32 *) &pool->kinds[kind].fresh;

	if (n == 0 || fresh >= mtp_pool_frames(kind))
		return false;
	*frame = pool->extents[kind][n - 1] * MTP_EXTENT_FRAMES + fresh;
	pool->kinds[kind].fresh = fresh + 1;
	return mtp_heat_level(pool->heat[*frame], mtp_pool_epoch(pool)) == 0;
}

/* The coldest of some frames of the kind; returns its level, or more than any if the kind has no extents. */
static int
coldest_of(MtpPool *pool, int kind, uint64 *random, uint32 *frame)
{
	uint8		epoch = mtp_pool_epoch(pool);
	uint32		n = number_of_extents(pool, kind);
	int			coldest = MTP_HEAT_MOST + 1;

	for (int i = 0; i < SAMPLE && n > 0; i++)
	{
		uint64		r = mtp_pool_random(random);
		uint32		extent = pool->extents[kind][(uint32) r % n];
		uint32		f = extent * MTP_EXTENT_FRAMES + (uint32) (r >> 32) % mtp_pool_frames(kind);
		int			level = mtp_heat_level(pool->heat[f], epoch);

		if (level < coldest)
		{
			coldest = level;
			*frame = f;
		}
	}
	return coldest;
}

bool
mtp_pool_place(MtpPool *pool, int kind, int level, uint64 *random, uint32 *frame)
{
	MtpPoolKind *k = &pool->kinds[kind];

	if (fresh_frame(pool, kind, frame) || coldest_of(pool, kind, random, frame) <= level)
		return true;
	k->refused++;
	note(&k->wanted, per_megabyte(kind, level));
	return false;
}

/* ---------- extents ---------- */

/* What pages of the kind are worth that would have to go now. */
static float
marginal(MtpPool *pool, int kind, uint64 *random)
{
	uint32		frame;
	float		sum = 0;

	for (int i = 0; i < 4; i++)
		sum += per_megabyte(kind, Min(coldest_of(pool, kind, random, &frame), MTP_HEAT_MOST));
	return sum / 4;
}

bool
mtp_pool_wants(MtpPool *pool, int kind, uint64 *random, uint32 *extent)
{
	MtpPoolKind *k = &pool->kinds[kind];
	int			from = -1;
	float		least = k->wanted / WARMER;

	if (pool->nfree > 0 && (k->nextents == 0 || k->fresh >= mtp_pool_frames(kind)))
	{
		*extent = pool->nfree - 1;
		return true;
	}
	if (k->refused < mtp_pool_frames(kind))
		return false;
	k->refused = 0;
	for (int other = 0; other < MTP_FRAME_KINDS; other++)
	{
		float		worth;

		if (other == kind || pool->kinds[other].nextents == 0)
			continue;
		worth = marginal(pool, other, random);
		if (worth < least)
		{
			least = worth;
			from = other;
		}
	}
	if (from < 0)
		return false;
	*extent = pool->extents[from][mtp_pool_random(random) % pool->kinds[from].nextents];
	return true;
}

/* The caller is alone, and the extent's frames have no pages.  Other processes may look at the lists meanwhile. */
void
mtp_pool_change(MtpPool *pool, uint32 extent, int kind)
{
	int			old = pool->kind_of[extent];
	MtpPoolKind *k = &pool->kinds[kind];

	if (old != MTP_FRAME_NONE)
	{
		MtpPoolKind *o = &pool->kinds[old];
		uint32	   *list = pool->extents[old];
		uint32		i = 0;

		while (list[i] != extent)
			i++;
		list[i] = list[--o->nextents];
		o->fresh = mtp_pool_frames(old);
	}
	else
		pool->nfree--;
	for (int i = 0; i < MTP_EXTENT_FRAMES; i++)
		pool->heat[extent * MTP_EXTENT_FRAMES + i] = 0;
	pool->kind_of[extent] = kind;
	pool->extents[kind][k->nextents] = extent;
	pg_write_barrier();			/* the list before its number */
	k->nextents++;
	k->fresh = 0;
}
