/*
 * inpage.h
 *	  What the programs of the part `inpage` share: time, and random numbers.
 *
 * Include once, behind mtpower.h.
 */
#include <time.h>

#include "random.h"

#define CHUNK		1000		/* probes that are made ready at a time */

static volatile int sink;		/* keeps results from being thrown away */

/* The processor's time that this process has had, in ns: others on the machine don't count. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}
