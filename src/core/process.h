/*
 * process.h
 *	  What mtpower's background processes have in common.
 */
#ifndef MTP_PROCESS_H
#define MTP_PROCESS_H

#include "core/core.h"

#include "postmaster/bgworker.h"

/*
 * Describes a background process.  Unless the caller changes it, the process is connected to a
 * database or to none, begins when recovery is over, and is never started again.  function: an
 * exported one of this library.
 */
extern void mtp_process_describe(BackgroundWorker *bgw, const char *name, const char *function);

/*
 * Waits for the latch, for ms milliseconds at most (negative: for any time), interruptible, and
 * reloads settings if that was asked for.  False if the process must end.
 */
extern bool mtp_process_wait(long ms);

/* Gives this process settings that those of the database and its roles do not change. */
extern void mtp_process_reset_settings(void);

/*
 * The wait event of this name.  *event is 0 before the first call, which may make the event.  The
 * caller holds no lock.
 */
static inline uint32
mtp_wait_event(uint32 *event, const char *name)
{
	if (*event == 0)
		*event = MtpWaitEventNew(name);
	return *event;
}

#endif							/* MTP_PROCESS_H */
