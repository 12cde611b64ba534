/*
 * heat.c
 *	  What levels stand for, and what an access adds to a page's heat.
 */
#include "buffer/heat.h"

#include <math.h>

uint16		mtp_heat_gain[MTP_HEAT_MOST + 1];
double		mtp_heat_stands_for[MTP_HEAT_MOST + 1];

void
mtp_heat_init(void)
{
	for (int level = 1; level <= MTP_HEAT_MOST; level++)
		mtp_heat_stands_for[level] = exp2((level - MTP_HEAT_ONE) / (double) MTP_HEAT_STEPS);
	for (int level = 0; level <= MTP_HEAT_MOST; level++)
	{
		double		next = MTP_HEAT_ONE + MTP_HEAT_STEPS * log2(mtp_heat_accesses(level) + 1);

		mtp_heat_gain[level] = (Min(next, MTP_HEAT_MOST) - level) * 256;
	}
}
