/*
 * policy.h
 *	  Which pages have a place in the buffer: slabs, admission, victims.
 *
 * The buffer's memory is cut into slabs, each of which has frames of one kind.  The policy knows
 * their numbers and their heat alone: no page, no address, no lock.  The buffer asks it which
 * frame a page may have, and then takes that frame.
 *
 * All processes read and write the policy in one piece of shared memory, without locks.  A function
 * that needs its caller to be alone says so.
 */
#ifndef MTP_POLICY_H
#define MTP_POLICY_H

#include "core/core.h"

#include "port/atomics.h"

/*
 * How warm a page is (README.md, "Heat"): the logarithm of its accesses, the degree, in one byte,
 * and in the other the epoch that the degree is of.  A degree loses one in each epoch, when a
 * process looks at it.  Processes read and write words whole and without locks; an access that is
 * lost by that does not matter.
 */
typedef uint16 MtpHeat;

#define MTP_HEAT_STEPS		16	/* degrees between n accesses and 2 n, so epochs of a half-life */
#define MTP_HEAT_ONE		64	/* the degree of one access just now */
#define MTP_HEAT_MOST		127 /* sixteen accesses: a warmer page need not stay longer when its
								 * time is over */

/*
 * For each degree: what an access adds to it, in 256ths, and the accesses that it stands for.
 * mtp_heat_init fills both.
 */
extern uint16 mtp_heat_gain[MTP_HEAT_MOST + 1];
extern double mtp_heat_accesses[MTP_HEAT_MOST + 1];

extern void mtp_heat_init(void);

static inline MtpHeat
mtp_heat_of(int degree, uint8 epoch)
{
	return (MtpHeat) (epoch << 8 | degree);
}

/*
 * The epochs since the word was written.  For a page in the buffer that is since its last access,
 * as long as that was not long ago (refresh in policy.c).
 */
static inline int
mtp_heat_age(MtpHeat heat, uint8 epoch)
{
	return Max((int8) (epoch - (heat >> 8)), 0);
}

/*
 * The degree now.  Words are brought up to date in time (mtp_policy_tick), so ages are small.  A
 * word may be of a newer epoch than the caller knows.
 */
static inline int
mtp_heat_degree(MtpHeat heat, uint8 epoch)
{
	return Max((heat & 0xFF) - mtp_heat_age(heat, epoch), 0);
}

/*
 * The degree after one more access.  random has eight bits, which round fractions of a degree up or
 * down.
 */
static inline int
mtp_heat_hit(int degree, uint8 random)
{
	return degree + ((mtp_heat_gain[degree] + random) >> 8);
}

#define MTP_SLAB_BYTES	(1024 * 1024)
#define MTP_MOST_SLABS	(1024 * 1024)

/* Kinds of pages */
#define MTP_FRAME_INDEX		0	/* one block of an index */
#define MTP_FRAME_TABLE		1	/* a pair: two blocks of a table, the first one even */
#define MTP_FRAME_PAGEDIR 2		/* the page directory of a pair */
#define MTP_FRAME_KINDS		3

/* Kinds of frames, and so of slabs: the same, and one more for page directories */
#define MTP_FRAME_SMALL		3	/* a page directory that needs no more than half of the room */
#define MTP_POLICY_KINDS		4
#define MTP_FRAME_NONE		0xFF	/* a slab that has no kind yet */

#define MTP_PAGEDIR_BYTES 4096
#define MTP_SMALL_BYTES		(MTP_PAGEDIR_BYTES / 2)

/* The unit of room and of time: blocks.  A slab has room for so many. */
#define MTP_SLAB_BLOCKS	(MTP_SLAB_BYTES / BLCKSZ)

/*
 * Slabs have as many numbers of frames as the smallest frames need.  A slab of larger frames
 * leaves the last numbers unused.
 */
#define MTP_SLAB_FRAMES	(MTP_SLAB_BYTES / Min(BLCKSZ, MTP_SMALL_BYTES))

#define MTP_SKETCH_ROWS		3

/* The half-life of heat, in accesses per block that there is room for */
#define MTP_POLICY_HALF_LIFE	12

typedef struct MtpPolicyKind
{
	uint32		nslabs;
	uint32		fresh;			/* frames of the newest slab that have been given out */
	uint32		homeless;		/* refused or driven out since a slab was asked for */
	uint32		haste;			/* halvings of the pages that it takes to ask for one */
	float		asked;			/* mean heat per megabyte of pages that found no free frame */
} MtpPolicyKind;

typedef struct MtpPolicy
{
	uint32		nslabs;
	uint32		nfree;			/* slabs without a kind */
	uint32		epoch_length;	/* in accesses to blocks */
	uint32		sketch_mask;
	pg_atomic_uint64 accesses;
	pg_atomic_uint32 epoch;
	MtpPolicyKind kinds[MTP_POLICY_KINDS];
	uint8	   *kind_of;		/* of each slab */
	uint32	   *slabs[MTP_POLICY_KINDS];	/* those of a kind, the newest last */
	MtpHeat    *heat;			/* of each frame */
	MtpHeat    *sketch;			/* MTP_SKETCH_ROWS rows */
} MtpPolicy;

/*
 * The bytes of a policy, and how to make one in them, zeroed or not.  nslabs: 1 ..
 * MTP_MOST_SLABS.  half_life: MTP_POLICY_HALF_LIFE, or what an experiment tries.
 */
extern Size mtp_policy_size(uint32 nslabs);
extern MtpPolicy *mtp_policy_make(void *memory, uint32 nslabs, double half_life);

/* The next random number (xorshift).  *state is not 0. */
static inline uint64
mtp_policy_random(uint64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The kind of the pages that frames of a kind have */
static inline int
mtp_policy_page_kind(int kind)
{
	return kind == MTP_FRAME_SMALL ? MTP_FRAME_PAGEDIR : kind;
}

/* Bytes of a frame, and frames of a slab */
static inline uint32
mtp_policy_frame_bytes(int kind)
{
	return kind == MTP_FRAME_SMALL ? MTP_SMALL_BYTES : kind == MTP_FRAME_PAGEDIR ? MTP_PAGEDIR_BYTES
		: kind == MTP_FRAME_TABLE ? 2 * BLCKSZ : BLCKSZ;
}

static inline uint32
mtp_policy_frames(int kind)
{
	return MTP_SLAB_BYTES / mtp_policy_frame_bytes(kind);
}

static inline uint8
mtp_policy_epoch(MtpPolicy *policy)
{
	return (uint8) pg_atomic_read_u32(&policy->epoch);
}

/*
 * Counts accesses, and ages all pages when an epoch ends, which may take a while.  Accesses to
 * page directories count for less, by their size: so time passes as memory is turned over.
 */
extern void mtp_policy_tick(MtpPolicy *policy, uint32 pages, uint32 directories);

/* Counts an access to the page of a frame. */
static inline void
mtp_policy_hit(MtpPolicy *policy, uint32 frame, uint8 random)
{
	uint8		epoch = mtp_policy_epoch(policy);
	MtpHeat		heat = policy->heat[frame];
	MtpHeat		now = mtp_heat_of(mtp_heat_hit(mtp_heat_degree(heat, epoch), random), epoch);

	if (now != heat)
		policy->heat[frame] = now;
}

/*
 * The share of a process's misses of a kind that found a frame lately, among those that looked for
 * one.  Where the share is small, only some misses look, and stand for the others (README.md,
 * "Which pages have a place").
 */
typedef struct MtpAdmission
{
	int			mean;			/* running mean, 0 .. MTP_ADMITTED_ALL */
	int			stands_for;		/* the misses that the last look stands for */
} MtpAdmission;

#define MTP_ADMITTED_ALL	65536

/*
 * Counts an access to a page without a frame.  Returns the page's degree, or -1 if this miss looks
 * for no frame.  page is a hash of the page's identity; random has 16 bits.  A caller that looks
 * for a frame calls mtp_policy_tried with the outcome.
 */
extern int	mtp_policy_miss(MtpPolicy *policy, int kind, uint64 page, MtpAdmission *admission,
							uint16 random);
extern void mtp_policy_tried(MtpAdmission *admission, bool admitted);

/*
 * Chooses a frame for a page of this kind and degree: a free one, or one whose page is colder by
 * some.  At degree 0, only a free one, or one whose page has cooled to nothing (no access for four
 * half-lives or more).  False if there is none: the page is refused.  stands_for: the misses that
 * this call stands for; not read at degree 0.  *random is a state of random numbers, not 0.
 *
 * Another process may have the frame, or may have changed its slab's kind.  So the caller takes
 * the frame first, and then looks.
 */
extern bool mtp_policy_place(MtpPolicy *policy, int kind, int degree, int stands_for,
							 uint64 *random, uint32 *frame);

/* True if the frame is one of this kind that was given out before. */
extern bool mtp_policy_was_given(MtpPolicy *policy, int kind, uint32 frame);

/* Makes a page in the sketch at least this warm.  No access is counted. */
extern void mtp_policy_warm(MtpPolicy *policy, uint64 page, int degree);

/* A page has left a frame; a page has come to a frame. */
extern void mtp_policy_left(MtpPolicy *policy, uint32 frame, uint64 page);

static inline void
mtp_policy_came(MtpPolicy *policy, uint32 frame, int degree)
{
	policy->heat[frame] = mtp_heat_of(degree, mtp_policy_epoch(policy));
}

/*
 * mtp_policy_wants is true if a slab must change to this kind: one that has no kind yet, or one
 * of a kind whose coldest pages are worth less.  *slab is its number.  The caller is alone.  It
 * takes all frames of the slab, and then calls mtp_policy_change.  mtp_policy_may_want guesses that
 * without a lock; it is mostly false.
 */
extern bool mtp_policy_may_want(MtpPolicy *policy, int kind);
extern bool mtp_policy_wants(MtpPolicy *policy, int kind, uint64 *random, uint32 *slab);
extern void mtp_policy_change(MtpPolicy *policy, uint32 slab, int kind);

#endif							/* MTP_POLICY_H */
