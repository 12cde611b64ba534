/*
 * heat.h
 *	  How warm pages are: LFU with ageing.
 *
 * The heat of a page is the number of its accesses, of which each counts half as much when a half-life has gone by: the combined recency
 * and frequency of LRFU (Lee et al., 2001).  A long half-life makes it LFU, a short one LRU.  Its logarithm is kept, the level, in one
 * byte, and in another one the epoch that the level is of.  A level loses one in each epoch, so ageing a page is a subtraction, and is
 * done when somebody looks.
 *
 * One 16-bit word a page, in arrays apart from all else.  Words are read and written whole and without locks: an access that
 * gets lost by that is no matter.
 */
#ifndef MTP_HEAT_H
#define MTP_HEAT_H

#include "core/core.h"

typedef uint16 MtpHeat;

#define MTP_HEAT_STEPS		16	/* levels between n accesses and 2 n, so epochs of a half-life */
#define MTP_HEAT_ONE		64	/* level of one access that has just been */
#define MTP_HEAT_MOST		127 /* sixteen accesses: pages that are warmer need not stay longer
								 * when their time is over */

/* Of each level: what an access adds to it, in 256ths, and how many accesses it stands for.  Filled by mtp_heat_init. */
extern uint16 mtp_heat_gain[MTP_HEAT_MOST + 1];
extern double mtp_heat_stands_for[MTP_HEAT_MOST + 1];

extern void mtp_heat_init(void);

static inline double
mtp_heat_accesses(int level)
{
	return mtp_heat_stands_for[level];
}

static inline MtpHeat
mtp_heat_of(int level, uint8 epoch)
{
	return (MtpHeat) (epoch << 8 | level);
}

/* Epochs since the word was written: for a page that is in the buffer, since it was asked for, as long as that is not long ago (pool.c, refresh). */
static inline int
mtp_heat_age(MtpHeat heat, uint8 epoch)
{
	int			age = (int8) (epoch - (heat >> 8));

	return Max(age, 0);
}

/*
 * The level now.  Words are brought up to date in time (mtp_pool_tick), so ages are small.  A word may be of a newer epoch than the one that
 * the caller knows of.
 */
static inline int
mtp_heat_level(MtpHeat heat, uint8 epoch)
{
	int			level = (heat & 0xFF) - mtp_heat_age(heat, epoch);

	return Max(level, 0);
}

/* The level after one more access.  random: eight bits that round what is less than a level up or down. */
static inline int
mtp_heat_hit(int level, uint8 random)
{
	return level + ((mtp_heat_gain[level] + random) >> 8);
}

#endif							/* MTP_HEAT_H */
