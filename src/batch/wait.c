/*
 * wait.c
 *	  Names of the engine's wait events.
 */
#include "batch/shared.h"

static const char *const names[MTP_WAITS] = {
	[MTP_WAIT_UNIT] = "MtpBatchUnit",
	[MTP_WAIT_DETACH] = "MtpBatchDetach",
	[MTP_WAIT_FENCE] = "MtpBatchFence",
	[MTP_WAIT_QUIT] = "MtpWorkerQuit",
	[MTP_WAIT_IDLE] = "MtpWorkerIdle"
};

/* Not to be called under a lock: the first call may make the event. */
uint32
mtp_wait_event(MtpWait wait)
{
	static uint32 events[MTP_WAITS];

	if (events[wait] == 0)
		events[wait] = MtpWaitEventNew(names[wait]);
	return events[wait];
}
