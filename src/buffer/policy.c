/*
 * policy.c
 *	  Decides which pages have frames.
 */
#include "buffer/policy.h"

#include "port/pg_bitutils.h"

#include <math.h>

#define SAMPLE			16		/* frames among which a victim is chosen */
#define WARMER			8		/* degrees by which a page must be warmer than its victim */
#define SAMPLES			8		/* samples that tell what a slab is worth */
#define RECENT			1		/* epochs, besides the present one, in which a hit is seen */
#define WORTH_MORE		1.5f	/* how much more than another kind's slabs */
#define HASTE			3		/* most halvings (MtpPolicyKind.haste) */
#define MEAN			64		/* pages in a running mean of heat */
#define SWEEP			32		/* epochs in which all words are brought up to date once */
#define OLD				16		/* the most age that a word has then */
#define SKETCH_PER_BLOCK 4
#define FEW				(MTP_ADMITTED_ALL / 64) /* if fewer misses than this are admitted .. */
#define ONE_IN			4		/* .. one in so many looks for a frame */
#define TRIES			32		/* looks in the running mean of admissions */

StaticAssertDecl(2 * SWEEP + OLD <= 127, "no word is so old that it could be taken for a newer one");
StaticAssertDecl(OLD > RECENT && MTP_HEAT_MOST + OLD <= 255,
				 "a word that is brought up to date says of no hit that was not");

uint16		mtp_heat_gain[MTP_HEAT_MOST + 1];
double		mtp_heat_accesses[MTP_HEAT_MOST + 1];

void
mtp_heat_init(void)
{
	for (int degree = 1; degree <= MTP_HEAT_MOST; degree++)
		mtp_heat_accesses[degree] = exp2((degree - MTP_HEAT_ONE) / (double) MTP_HEAT_STEPS);
	for (int degree = 0; degree <= MTP_HEAT_MOST; degree++)
	{
		double		next = MTP_HEAT_ONE + MTP_HEAT_STEPS * log2(mtp_heat_accesses[degree] + 1);

		mtp_heat_gain[degree] = (Min(next, MTP_HEAT_MOST) - degree) * 256;
	}
}

static Size
sketch_width(uint32 nslabs)
{
	return pg_nextpower2_64(Max(1024, (uint64) nslabs * MTP_SLAB_BLOCKS * SKETCH_PER_BLOCK));
}

Size
mtp_policy_size(uint32 nslabs)
{
	return MAXALIGN(sizeof(MtpPolicy)) +
		MAXALIGN(nslabs) + MTP_POLICY_KINDS * MAXALIGN(nslabs * sizeof(uint32)) +
		MAXALIGN((Size) nslabs * MTP_SLAB_FRAMES * sizeof(MtpHeat)) +
		MTP_SKETCH_ROWS * sketch_width(nslabs) * sizeof(MtpHeat);
}

static void *
carve(char **at, Size size)
{
	void	   *p = *at;

	*at += MAXALIGN(size);
	return p;
}

MtpPolicy *
mtp_policy_make(void *memory, uint32 nslabs, double half_life)
{
	char	   *at = memory;
	MtpPolicy  *policy = carve(&at, sizeof(MtpPolicy));

	Assert(nslabs >= 1 && nslabs <= MTP_MOST_SLABS);
	memset(memory, 0, mtp_policy_size(nslabs));
	policy->nslabs = nslabs;
	policy->nfree = nslabs;
	policy->epoch_length = Max(1, (double) nslabs * MTP_SLAB_BLOCKS * half_life / MTP_HEAT_STEPS);
	policy->sketch_mask = sketch_width(nslabs) - 1;
	pg_atomic_init_u64(&policy->accesses, 0);
	pg_atomic_init_u32(&policy->epoch, 0);
	policy->kind_of = carve(&at, nslabs);
	memset(policy->kind_of, MTP_FRAME_NONE, nslabs);
	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
		policy->slabs[kind] = carve(&at, nslabs * sizeof(uint32));
	policy->heat = carve(&at, (Size) nslabs * MTP_SLAB_FRAMES * sizeof(MtpHeat));
	policy->sketch = carve(&at, MTP_SKETCH_ROWS * sketch_width(nslabs) * sizeof(MtpHeat));
	return policy;
}

/* ---------- time ---------- */

/*
 * Brings the words of one part in SWEEP of an array up to date.  Their ages still tell that there
 * was no hit lately.
 */
static void
refresh(MtpHeat *words, uint64 n, uint32 part, uint8 epoch)
{
	for (uint64 i = n * part / SWEEP; i < n * (part + 1) / SWEEP; i++)
	{
		int			degree = mtp_heat_degree(words[i], epoch);

		if (mtp_heat_age(words[i], epoch) > OLD)
			words[i] = mtp_heat_of(degree == 0 ? 0 : degree + OLD, (uint8) (epoch - OLD));
	}
}

void
mtp_policy_tick(MtpPolicy *policy, uint32 pages, uint32 directories)
{
	MtpPolicyKind *kinds = policy->kinds;

	/* Of the directories that a block has room for, by the size of most, each counts a share. */
	bool		small = kinds[MTP_FRAME_SMALL].nslabs >= kinds[MTP_FRAME_PAGEDIR].nslabs;
	uint32		of_block = mtp_policy_frames(small ? MTP_FRAME_SMALL : MTP_FRAME_PAGEDIR) /
	MTP_SLAB_BLOCKS;
	uint32		n = pages + directories / of_block;
	uint64		before = pg_atomic_fetch_add_u64(&policy->accesses, n);

	/* Exactly one process crosses each border of an epoch. */
	for (uint64 i = before / policy->epoch_length; i < (before + n) / policy->epoch_length; i++)
	{
		uint32		epoch = pg_atomic_add_fetch_u32(&policy->epoch, 1);

		refresh(policy->heat, (uint64) policy->nslabs * MTP_SLAB_FRAMES, epoch % SWEEP,
				(uint8) epoch);
		refresh(policy->sketch, (uint64) MTP_SKETCH_ROWS * (policy->sketch_mask + 1), epoch % SWEEP,
				(uint8) epoch);
	}
}

/* ---------- pages without frames ---------- */

/* The word of a page in one row of the sketch, and its degree */
typedef struct SketchWord
{
	MtpHeat    *heat;
	int			degree;
} SketchWord;

/*
 * Finds a page's words.  Returns the page's degree: the least of them, since other pages may have
 * raised some.
 */
static inline int
sketch_look(MtpPolicy *policy, uint64 page, uint8 epoch, SketchWord words[MTP_SKETCH_ROWS])
{
	static const uint64 spread[MTP_SKETCH_ROWS] = {
		UINT64CONST(0x9E3779B97F4A7C15), UINT64CONST(0xC2B2AE3D27D4EB4F),
		UINT64CONST(0xD6E8FEB86659FD93)
	};
	MtpHeat    *row = policy->sketch;
	int			degree = MTP_HEAT_MOST;

	for (int i = 0; i < MTP_SKETCH_ROWS; i++, row += policy->sketch_mask + (Size) 1)
	{
		words[i].heat = &row[(page * spread[i] >> 32) & policy->sketch_mask];
		words[i].degree = mtp_heat_degree(*words[i].heat, epoch);
		degree = Min(degree, words[i].degree);
	}
	return degree;
}

static inline void
sketch_raise(const SketchWord words[MTP_SKETCH_ROWS], int degree, uint8 epoch)
{
	for (int i = 0; i < MTP_SKETCH_ROWS; i++)
		if (words[i].degree < degree)
			*words[i].heat = mtp_heat_of(degree, epoch);
}

/*
 * While slabs of the kind follow one another (haste), its pages are about to be admitted: then
 * all misses look.
 */
int
mtp_policy_miss(MtpPolicy *policy, int kind, uint64 page, MtpAdmission *admission, uint16 random)
{
	bool		few = admission->mean < FEW && policy->kinds[kind].haste == 0;
	uint8		epoch = mtp_policy_epoch(policy);
	SketchWord	words[MTP_SKETCH_ROWS];
	int			degree = mtp_heat_hit(sketch_look(policy, page, epoch, words), (uint8) random);

	sketch_raise(words, degree, epoch);
	admission->stands_for = few ? ONE_IN : 1;
	return few && (random >> 8) % ONE_IN != 0 ? -1 : degree;
}

void
mtp_policy_tried(MtpAdmission *admission, bool admitted)
{
	admission->mean += ((admitted ? MTP_ADMITTED_ALL : 0) - admission->mean) / TRIES;
}

void
mtp_policy_warm(MtpPolicy *policy, uint64 page, int degree)
{
	uint8		epoch = mtp_policy_epoch(policy);
	SketchWord	words[MTP_SKETCH_ROWS];

	(void) sketch_look(policy, page, epoch, words);
	sketch_raise(words, degree, epoch);
}

void
mtp_policy_left(MtpPolicy *policy, uint32 frame, uint64 page)
{
	mtp_policy_warm(policy, page, mtp_heat_degree(policy->heat[frame], mtp_policy_epoch(policy)));
	policy->heat[frame] = 0;
}

/* ---------- frames ---------- */

static inline float
per_megabyte(int kind, int degree)
{
	return mtp_heat_accesses[degree] * mtp_policy_frames(kind);
}

/*
 * The number of a kind's slabs.  The caller reads it once: another process may change the
 * number.  The list's last entry may already be of another kind; the process that takes a frame
 * looks at the kind again.
 */
static uint32
number_of_slabs(MtpPolicy *policy, int kind)
{
	uint32		n = *(volatile uint32 *) &policy->kinds[kind].nslabs;

	pg_read_barrier();			/* the number before the list (mtp_policy_change) */
	return n;
}

/*
 * A frame of the kind that nobody has had yet.  False if there is none.  Two processes may get the
 * same frame; one of them will have it.  The count may run back when two processes raise it at
 * once: so the frame counts only if it is cold.
 */
static bool
fresh_frame(MtpPolicy *policy, int kind, uint32 *frame)
{
	uint32		n = number_of_slabs(policy, kind);
	uint32		fresh = *(volatile uint32 *) &policy->kinds[kind].fresh;

	if (n == 0 || fresh >= mtp_policy_frames(kind))
		return false;
	*frame = policy->slabs[kind][n - 1] * MTP_SLAB_FRAMES + fresh;
	policy->kinds[kind].fresh = fresh + 1;
	return mtp_heat_degree(policy->heat[*frame], mtp_policy_epoch(policy)) == 0;
}

/*
 * The frames of a kind that were given out: all but the last ones of the newest slab.  Samples
 * are taken from these.
 */
typedef struct Given
{
	const uint32 *slabs;
	uint32		n;
	int			shift;			/* log2 of a slab's frames */
} Given;

static inline Given
given_frames(MtpPolicy *policy, int kind)
{
	uint32		n = number_of_slabs(policy, kind);
	uint32		frames = mtp_policy_frames(kind);

	return (Given)
	{
		.slabs = policy->slabs[kind],.shift = pg_leftmost_one_pos32(frames),
			.n = n == 0 ? 0 : (n - 1) * frames +
			Min(*(volatile uint32 *) &policy->kinds[kind].fresh, frames)
	};
}

/* The frame that 32 random bits choose.  There is at least one. */
static inline uint32
some_frame(const Given *given, uint32 random)
{
	uint32		i = (uint64) random * given->n >> 32;

	return given->slabs[i >> given->shift] * MTP_SLAB_FRAMES + (i & ((1 << given->shift) - 1));
}

bool
mtp_policy_was_given(MtpPolicy *policy, int kind, uint32 frame)
{
	uint32		n = number_of_slabs(policy, kind);
	uint32		slab = frame / MTP_SLAB_FRAMES;
	uint32		at = frame % MTP_SLAB_FRAMES;

	return n > 0 && slab < policy->nslabs && policy->kind_of[slab] == kind &&
		at < mtp_policy_frames(kind) &&
		(policy->slabs[kind][n - 1] != slab ||
		 at < *(volatile uint32 *) &policy->kinds[kind].fresh);
}

/*
 * The newcomer was asked for just now, and the pages that it is compared with were not: so it must
 * be WARMER degrees warmer than the coldest of SAMPLE frames of the kind.
 */
bool
mtp_policy_place(MtpPolicy *policy, int kind, int degree, int stands_for, uint64 *random,
				 uint32 *frame)
{
	MtpPolicyKind *k = &policy->kinds[kind];
	uint8		epoch = mtp_policy_epoch(policy);
	const MtpHeat *heat = policy->heat;
	int			coldest = MTP_HEAT_MOST + 1;	/* warmer than any, if there are no frames */
	uint64		r = 0;
	Given		given;

	if (fresh_frame(policy, kind, frame))
		return true;
	given = given_frames(policy, kind);
	for (int i = 0; i < SAMPLE && given.n > 0; i++)
	{
		uint32		f;
		int			warm;

		r = i % 2 == 0 ? mtp_policy_random(random) : r >> 32;
		f = some_frame(&given, r);
		warm = mtp_heat_degree(heat[f], epoch);
		if (warm < coldest)
		{
			coldest = warm;
			*frame = f;
		}
	}
	if (coldest == 0)
		return true;
	if (degree == 0)
		return false;
	k->homeless += stands_for;
	k->asked += (per_megabyte(kind, degree) - k->asked) / MEAN;
	return coldest + WARMER <= degree;
}

/* ---------- slabs ---------- */

/*
 * What the coldest pages of a kind are worth per megabyte: their heat, times the share of the hits
 * promised by heat that there were lately.  For heat alone tells late that work has shifted to
 * other pages.  The age of a page's word is the time since its last access, so it tells whether a
 * page was hit.
 */
static float
worth(MtpPolicy *policy, int kind, uint64 *random)
{
	uint64		accesses = pg_atomic_read_u64(&policy->accesses);
	uint8		epoch = mtp_policy_epoch(policy);
	Given		given = given_frames(policy, kind);
	float		part = accesses % policy->epoch_length / (float) policy->epoch_length;
	float		half_lives = (RECENT + part) / MTP_HEAT_STEPS;
	float		coldest_sum = 0;
	float		promised = 0;
	float		seen = 0;

	if (given.n == 0)
		return 0;
	for (int i = 0; i < SAMPLES; i++)
	{
		int			coldest = MTP_HEAT_MOST;

		for (int j = 0; j < SAMPLE; j++)
		{
			MtpHeat		heat = policy->heat[some_frame(&given, mtp_policy_random(random))];
			int			degree = mtp_heat_degree(heat, epoch);

			coldest = Min(coldest, degree);
			if (degree > 0)
			{
				promised += 1 - exp2f(-mtp_heat_accesses[degree] * half_lives);
				seen += mtp_heat_age(heat, epoch) <= RECENT;
			}
		}
		coldest_sum += per_megabyte(kind, coldest);
	}
	return promised > 0 ? coldest_sum / SAMPLES * seen / promised : 0;
}

bool
mtp_policy_may_want(MtpPolicy *policy, int kind)
{
	volatile MtpPolicyKind *k = &policy->kinds[kind];

	if (k->nslabs > 0 && k->fresh < mtp_policy_frames(kind))
		return false;
	return policy->nfree > 0 || k->homeless >= mtp_policy_frames(kind) >> k->haste;
}

/*
 * The slab comes from the kind whose slabs are worth least, if that is little.  A kind of few
 * slabs loses more than its coldest pages with one of them, so it counts for more.
 */
bool
mtp_policy_wants(MtpPolicy *policy, int kind, uint64 *random, uint32 *slab)
{
	MtpPolicyKind *k = &policy->kinds[kind];
	int			from = -1;
	float		least;

	if (!mtp_policy_may_want(policy, kind))
		return false;
	if (policy->nfree > 0)
	{
		*slab = policy->nfree - 1;
		return true;
	}
	k->homeless = 0;
	if (k->nslabs < policy->nslabs) /* else no other kind has any */
	{
		least = (k->nslabs > 0 ? worth(policy, kind, random) : k->asked) / WORTH_MORE;
		for (int other = 0; other < MTP_POLICY_KINDS; other++)
		{
			uint32		n = policy->kinds[other].nslabs;
			float		loss;

			if (other == kind || n == 0)
				continue;
			loss = worth(policy, other, random) * (1 + 2.0f / n);
			if (loss < least)
			{
				least = loss;
				from = other;
			}
		}
	}
	k->haste = from < 0 ? 0 : Min(k->haste + 1, HASTE);
	if (from < 0)
		return false;

	/* The newest one, if it has free frames; else any, since no slab is cold as a whole. */
	k = &policy->kinds[from];
	*slab = policy->slabs[from][k->fresh < mtp_policy_frames(from) ? k->nslabs - 1
								: mtp_policy_random(random) % k->nslabs];
	return true;
}

/*
 * The caller is alone, and holds all frames of the slab.  Other processes may read the lists
 * meanwhile.
 */
void
mtp_policy_change(MtpPolicy *policy, uint32 slab, int kind)
{
	int			old = policy->kind_of[slab];
	MtpPolicyKind *k = &policy->kinds[kind];

	if (old != MTP_FRAME_NONE)
	{
		MtpPolicyKind *o = &policy->kinds[old];
		uint32	   *list = policy->slabs[old];
		uint32		i = 0;

		while (list[i] != slab)
			i++;
		list[i] = list[--o->nslabs];
		o->fresh = mtp_policy_frames(old);	/* only the newest one had free frames */
	}
	else
		policy->nfree--;
	for (int i = 0; i < MTP_SLAB_FRAMES; i++)
		policy->heat[slab * MTP_SLAB_FRAMES + i] = 0;
	policy->kind_of[slab] = kind;
	policy->slabs[kind][k->nslabs] = slab;
	pg_write_barrier();			/* the list before its number */
	k->nslabs++;
	k->fresh = 0;
}
