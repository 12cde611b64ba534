/*
 * reset.h
 *	  Statistics that mtpower.stat_reset() sets to zero.
 */
#ifndef MTP_RESET_H
#define MTP_RESET_H

#include "core/core.h"

typedef enum MtpResetTarget
{
	MTP_RESET_BATCHES,
	MTP_RESET_WORKERS,
	MTP_RESET_BUFFER,
	MTP_RESET_TARGETS
} MtpResetTarget;

/* In _PG_init: reset() resets a subsystem's share of the target. */
extern void mtp_reset_register(MtpResetTarget target, void (*reset) (void));

#endif							/* MTP_RESET_H */
