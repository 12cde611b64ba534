/*
 * loss.h
 *	  A libpmem whose memory loses what was not drained.
 *
 * Stores go to `seen`, what processes see, and stand in caches of the process that made them.  What it drains is durable.  At a
 * crash each line of 64 bytes that differs is lost or not, as chance has it: caches write back what they like, when they like.
 */
#ifndef LOSS_H
#define LOSS_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

/* How lines are lost that are not durable */
typedef enum LossWay
{
	LOSS_ANY,					/* some */
	LOSS_FEW,
	LOSS_MOST,
	LOSS_ALL_BUT_FIRST,			/* all but those of the first page of the file: what was written last came first */
	LOSS_FIRST,					/* those of the first page alone */
	LOSS_WAYS
} LossWay;

extern bool loss_deaf;			/* drains do nothing */
extern int	loss_process;		/* who calls */
extern long loss_calls_left;	/* so many calls until the machine stops, with a jump there; negative: it does not */
extern jmp_buf loss_stop;
extern uint64_t loss_lost;		/* lines, in all */

extern void loss_new_file(void);
extern void loss_crash(LossWay way, uint64_t *random);

#endif							/* LOSS_H */
