/*
 * background.c
 *	  The sealer: a background worker that seals frames while the server runs, so that little is
 *	  left to be done at its end.
 */
#include "core/process.h"
#include "buffer/buffer.h"
#include "pmem/file.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#define TURN_BYTES	(1024 * 1024)	/* between two pauses */
#define PAUSE_MS	10
#define RESTART		10			/* seconds, whatever ended the worker */

PGDLLEXPORT void mtp_sealer_main(Datum arg);

void
mtp_sealer_main(Datum arg)
{
	MtpPolicy  *policy = mtp_buffer.policy;
	uint64	   *seen;			/* the frames' versions in the round before */
	char	   *copy;

	if (mtp_pmem.media.base == NULL)
		proc_exit(0);			/* the file was refused */
	Assert(policy != NULL);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);	/* for pg_stat_activity */
	seen = MemoryContextAllocExtended(TopMemoryContext, mtp_pmem_shared(mtp_pmem.nslabs),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	copy = palloc(2 * BLCKSZ);
	while (mtp_process_wait(mtp_pmem_seal_after * 1000L))
	{
		Size		done = 0;

		for (uint32 frame = 0; frame < policy->nslabs * MTP_SLAB_FRAMES; frame++)
		{
			int			kind = policy->kind_of[frame / MTP_SLAB_FRAMES];
			uint64		version = pg_atomic_read_u64(&mtp_buffer.headers[frame].version);

			/* Only frames that have been at rest for a round: others may soon change again. */
			if (kind != MTP_FRAME_NONE && version == seen[frame] &&
				version != mtp_pmem.sealed[frame] &&
				mtp_seal_frame(&mtp_pmem, &mtp_buffer, frame, copy))
				done += mtp_policy_frame_bytes(kind);
			seen[frame] = version;
			if (done >= TURN_BYTES)
			{
				done = 0;
				if (!mtp_process_wait(PAUSE_MS))
					proc_exit(1);
			}
		}
		mtp_buffer_tell();
	}
	proc_exit(1);
}

void
mtp_pmem_background_init(void)
{
	BackgroundWorker bgw;

	if (mtp_pmem_path == NULL || mtp_pmem_path[0] == '\0' || !mtp_media_built())
		return;
	mtp_process_describe(&bgw, "mtpower sealer", "mtp_sealer_main");
	bgw.bgw_restart_time = RESTART;
	RegisterBackgroundWorker(&bgw);
}
