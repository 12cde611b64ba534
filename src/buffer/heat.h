/*
 * heat.h
 *	  How warm pages are: LFU with ageing.
 *
 * The heat of a page is the number of its accesses, where each counts half as much after a
 * half-life: the combined recency and frequency of LRFU (Lee et al., 2001).  A long half-life
 * makes it LFU, a short one LRU.  A word keeps the logarithm of the heat, the level, in one byte,
 * and in the other byte the epoch that the level is of.  A level loses one in each epoch.  So
 * ageing a page is a subtraction, and happens when a process looks at it.
 *
 * Each page has one 16-bit word, in arrays apart from all else.  Processes read and write words
 * whole and without locks.  An access that is lost by that does not matter.
 */
#ifndef MTP_HEAT_H
#define MTP_HEAT_H

#include "core/core.h"

typedef uint16 MtpHeat;

#define MTP_HEAT_STEPS		16	/* levels between n accesses and 2 n, so epochs of a half-life */
#define MTP_HEAT_ONE		64	/* the level of one access just now */
#define MTP_HEAT_MOST		127 /* sixteen accesses: a warmer page need not stay longer when its
								 * time is over */

/*
 * For each level: what an access adds to it, in 256ths, and the accesses that it stands for.
 * mtp_heat_init fills both (pool.c).
 */
extern uint16 mtp_heat_gain[MTP_HEAT_MOST + 1];
extern double mtp_heat_accesses[MTP_HEAT_MOST + 1];

extern void mtp_heat_init(void);

static inline MtpHeat
mtp_heat_of(int level, uint8 epoch)
{
	return (MtpHeat) (epoch << 8 | level);
}

/*
 * The epochs since the word was written.  For a page in the buffer that is since its last access,
 * as long as that was not long ago (refresh in pool.c).
 */
static inline int
mtp_heat_age(MtpHeat heat, uint8 epoch)
{
	int			age = (int8) (epoch - (heat >> 8));

	return Max(age, 0);
}

/*
 * The level now.  Words are brought up to date in time (mtp_pool_tick), so ages are small.  A word
 * may be of a newer epoch than the caller knows.
 */
static inline int
mtp_heat_level(MtpHeat heat, uint8 epoch)
{
	int			level = (heat & 0xFF) - mtp_heat_age(heat, epoch);

	return Max(level, 0);
}

/*
 * The level after one more access.  random has eight bits, which round fractions of a level up or
 * down.
 */
static inline int
mtp_heat_hit(int level, uint8 random)
{
	return level + ((mtp_heat_gain[level] + random) >> 8);
}

#endif							/* MTP_HEAT_H */
