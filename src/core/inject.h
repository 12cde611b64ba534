/*
 * inject.h
 *	  Stop points: places where tests stop a process, make it fail, or crash the server.
 *
 * Only in builds with assertions.  mtpower.debug_stop names one point and what happens there, as
 * 'point=action': "wait" waits until nobody holds the advisory lock MTP_STOP_LOCK of this database,
 * "wait7" the same with lock 7, "error" and "disk_full" raise an ERROR, "panic" a PANIC, "delay"
 * lasts for a random while.  'frame_*=delay' names all points that begin so.
 */
#ifndef MTP_STOP_H
#define MTP_STOP_H

#include "core/core.h"

#define MTP_STOP_LOCK	155		/* pg_advisory_lock(155) */

#ifdef USE_ASSERT_CHECKING
extern char *mtp_debug_stop;
extern void mtp_stop_here(const char *point);
extern void mtp_stop_init(void);

/* In a critical section there must be none but those of frames (buffer/frame.h), with a spinlock held none at all. */
#define MTP_STOP_POINT(point) \
	do { \
		if (unlikely(mtp_debug_stop[0] != '\0')) \
			mtp_stop_here(point); \
	} while (0)
#else
#define MTP_STOP_POINT(point) ((void) 0)
#define mtp_stop_init() ((void) 0)
#endif

#endif							/* MTP_STOP_H */
