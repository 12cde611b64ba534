/*
 * inject.h
 *	  Injection points: places where tests stop a process, make it fail, or crash the server.
 *
 * They exist in builds with assertions only.  mtpower.debug_injection names one point and what
 * happens there, as 'point=action': "wait" waits until nobody holds the advisory lock
 * MTP_INJECT_LOCK of this database, "wait7" the same with lock 7, "error" and "disk_full" raise an
 * ERROR, "panic" a PANIC, and "delay" waits for a random while.  'frame_*=delay' names all points
 * that begin so.
 */
#ifndef MTP_INJECT_H
#define MTP_INJECT_H

#include "core/core.h"

#define MTP_INJECT_LOCK	155		/* pg_advisory_lock(155) */

#ifdef USE_ASSERT_CHECKING
extern char *mtp_debug_injection;
extern void mtp_inject_here(const char *point);
extern void mtp_inject_init(void);

/*
 * Not where a spinlock is held, nor in a critical section, except the points of frames
 * (buffer/frame.h).
 */
#define MTP_INJECT(point) \
	do { \
		if (unlikely(mtp_debug_injection[0] != '\0')) \
			mtp_inject_here(point); \
	} while (0)
#else
#define MTP_INJECT(point) ((void) 0)
#define mtp_inject_init() ((void) 0)
#endif

#endif							/* MTP_INJECT_H */
