/*
 * pool.h
 *	  Which pages have a place in the buffer: extents, admission, victims.
 *
 * The buffer's memory is cut into extents, each of which has frames of one kind.  This is about their numbers and heat alone: no page,
 * no address, no lock.  The buffer asks which frame a page may have, and does what is needed to take it.
 *
 * Everything lives in one piece of shared memory, and is read and written by all processes.  Heat is kept without locks.  Functions
 * that say so want the caller to be alone.
 */
#ifndef MTP_POOL_H
#define MTP_POOL_H

#include "buffer/heat.h"
#include "port/atomics.h"

#define MTP_EXTENT_BYTES	(1024 * 1024)
#define MTP_MOST_EXTENTS	(1024 * 1024)

/* Kinds of pages */
#define MTP_FRAME_INDEX		0	/* one block of an index */
#define MTP_FRAME_TABLE		1	/* a pair: two blocks of a table, the first one even */
#define MTP_FRAME_PAGEDIR 2		/* a directory of a pair */
#define MTP_FRAME_KINDS		3

/* Kinds of frames, and so of extents: the same, and one more for directories */
#define MTP_FRAME_SMALL		3	/* a directory that needs no more than half of the room */
#define MTP_POOL_KINDS		4
#define MTP_FRAME_NONE		0xFF	/* of an extent that has no kind yet */

#define MTP_PAGEDIR_BYTES 4096
#define MTP_SMALL_BYTES		(MTP_PAGEDIR_BYTES / 2)

/* What room and time are counted in: blocks that an extent has room for. */
#define MTP_EXTENT_BLOCKS	(MTP_EXTENT_BYTES / BLCKSZ)

/* Frames are numbered by extent; an extent of large ones leaves the last numbers unused. */
#define MTP_EXTENT_FRAMES	(MTP_EXTENT_BYTES / Min(BLCKSZ, MTP_SMALL_BYTES))

#define MTP_SKETCH_ROWS		3

/* Of heat, in accesses per block that there is room for */
#define MTP_POOL_HALF_LIFE	12

typedef struct MtpPoolKind
{
	uint32		nextents;
	uint32		fresh;			/* frames of the newest extent that have been given out */
	uint32		homeless;		/* pages that were refused, or had to go for one of the kind, since
								 * an extent was asked for */
	uint32		haste;			/* halvings of how many it takes */
	float		asked;			/* heat, in accesses per megabyte, of pages that came when there
								 * was no free frame: a running mean */
} MtpPoolKind;

typedef struct MtpPool
{
	uint32		nextents;
	uint32		nfree;			/* extents without a kind */
	uint32		epoch_length;	/* in accesses to blocks */
	uint32		sketch_mask;
	pg_atomic_uint64 accesses;
	pg_atomic_uint32 epoch;
	uint32		swept;			/* words that have been brought up to date */
	MtpPoolKind kinds[MTP_POOL_KINDS];
	uint8	   *kind_of;		/* of each extent */
	uint32	   *extents[MTP_POOL_KINDS];	/* those of a kind, the newest last */
	MtpHeat    *heat;			/* of each frame */
	MtpHeat    *sketch;			/* MTP_SKETCH_ROWS rows */
} MtpPool;

/* In so many bytes, zeroed or not, for 1 … MTP_MOST_EXTENTS.  half_life: MTP_POOL_HALF_LIFE, or what is tried. */
extern Size mtp_pool_size(uint32 nextents);
extern MtpPool *mtp_pool_make(void *memory, uint32 nextents, double half_life);

/* The next of the random numbers that victims are sampled by (xorshift); *state is not 0. */
static inline uint64
mtp_pool_random(uint64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The kind of pages that frames of a kind have */
static inline int
mtp_pool_page_kind(int kind)
{
	return kind == MTP_FRAME_SMALL ? MTP_FRAME_PAGEDIR : kind;
}

/* Bytes of a frame, and frames of an extent */
static inline uint32
mtp_pool_frame_bytes(int kind)
{
	return kind == MTP_FRAME_SMALL ? MTP_SMALL_BYTES : kind == MTP_FRAME_PAGEDIR ? MTP_PAGEDIR_BYTES : kind == MTP_FRAME_TABLE ? 2 * BLCKSZ : BLCKSZ;
}

static inline uint32
mtp_pool_frames(int kind)
{
	return MTP_EXTENT_BYTES / mtp_pool_frame_bytes(kind);
}

static inline uint8
mtp_pool_epoch(MtpPool *pool)
{
	return (uint8) pg_atomic_read_u32(&pool->epoch);
}

/*
 * Counts accesses, and ages all pages when it is time.  What has room in a block together counts as one access
 * to a block: so time passes as memory is turned over, whatever the frames' size is.
 */
extern void mtp_pool_tick(MtpPool *pool, uint32 pages, uint32 directories);

/* An access to the page of a frame. */
static inline void
mtp_pool_hit(MtpPool *pool, uint32 frame, uint8 random)
{
	uint8		epoch = mtp_pool_epoch(pool);
	MtpHeat		heat = pool->heat[frame];
	MtpHeat		now = mtp_heat_of(mtp_heat_hit(mtp_heat_level(heat, epoch), random), epoch);

	if (now != heat)
		pool->heat[frame] = now;
}

/*
 * How many of a process's misses of a kind that looked for a frame have lately found one.  Where these are few, only some look, and stand for
 * the others (README.md).
 */
typedef struct MtpAdmission
{
	int			mean;			/* a running mean, 0 … MTP_ADMITTED_ALL */
	int			stands_for;		/* how many misses the last one that looked stands for */
} MtpAdmission;

#define MTP_ADMITTED_ALL	65536

/*
 * An access to a page without a frame.  Returns its level; or -1 if this one looks for no frame.  page: a hash of what identifies it;
 * random: of 16 bits.  A caller that looks for a frame tells whether it has found one.
 */
extern int	mtp_pool_miss(MtpPool *pool, int kind, uint64 page, MtpAdmission *admission, uint16 random);
extern void mtp_pool_tried(MtpAdmission *admission, bool admitted);

/*
 * A frame for a page of this kind and level: one that is free or whose page is colder; at level 0 only one that is free, or whose page has cooled to nothing (nobody has asked for it for four half-lives
 * or more).  False if there is none: then the page is
 * refused.  Another process may be at the frame, or may have made its extent one of another kind: the caller takes it first, and looks
 * then.  *random is a state of random numbers, not 0.  stands_for: so many misses, at another level than 0.
 */
extern bool mtp_pool_place(MtpPool *pool, int kind, int level, int stands_for, uint64 *random, uint32 *frame);

/* Is it a frame of this kind that has been given out before? */
extern bool mtp_pool_was_given(MtpPool *pool, int kind, uint32 frame);

/* A page is at least as warm as this, whoever says so (src/warm); no access is counted. */
extern void mtp_pool_warm(MtpPool *pool, uint64 page, int level);

/* A page has left a frame, or has come to it. */
extern void mtp_pool_left(MtpPool *pool, uint32 frame, uint64 page);

static inline void
mtp_pool_came(MtpPool *pool, uint32 frame, int level)
{
	pool->heat[frame] = mtp_heat_of(level, mtp_pool_epoch(pool));
}

/*
 * Should an extent change to this kind, because there is one that has none yet, or because its coldest pages are worth more than those of
 * another kind?  *extent is the one; the caller makes all its pages leave, and calls mtp_pool_change.  One
 * process at a time.
 */
extern bool mtp_pool_may_want(MtpPool *pool, int kind); /* without a lock: a guess, which is mostly
														 * false */
extern bool mtp_pool_wants(MtpPool *pool, int kind, uint64 *random, uint32 *extent);
extern void mtp_pool_change(MtpPool *pool, uint32 extent, int kind);

#endif							/* MTP_POOL_H */
