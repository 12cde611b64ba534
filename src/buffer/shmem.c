/*
 * shmem.c
 *	  The buffer's settings and shared memory, and its share of _PG_init.
 */
#include "buffer/buffer.h"
#include "pmem/file.h"
#include "buffer/slot.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"

MtpBuffer	mtp_buffer;
int			mtp_buffer_size = 128;
bool		mtp_use_frames = true;
pg_atomic_uint64 *mtp_buffer_counts = NULL;

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

/* Who reads a frame that changes may be led this far behind its end. */
#define SLACK	BLCKSZ

/* Images begin at a page of the operating system's. */
#define SYSTEM_PAGE	4096

/* Of the buffer: mtpower.buffer_size, or what a file gives room to. */
static uint32 nextents = 0;

static Size
images_size(void)
{
	return add_size(mul_size(nextents, MTP_EXTENT_BYTES), SLACK + SYSTEM_PAGE);
}

static void
request(void)
{
	if (next_request)
		next_request();
	if (mtp_buffer_size == 0)
		return;
	nextents = mtp_home_open(mtp_buffer_size, SLACK);
	RequestAddinShmemSpace(add_size(mtp_pool_size(nextents), mtp_frame_size(nextents)));
	RequestAddinShmemSpace(sizeof(pg_atomic_uint64[MTP_BUFFER_COUNTS + 1]));
	RequestAddinShmemSpace(mtp_home.media.base != NULL ? mtp_home_shared(nextents) : images_size());
	RequestAddinShmemSpace(mtp_slot_size());
	RequestNamedLWLockTranche("mtpower_buffer", MTP_FRAME_PARTITIONS + 1);
}

/*
 * What is not in shared memory is the same in all processes: children have it from the postmaster.
 */
static void
startup(void)
{
	bool		found;
	void	   *pool;
	void	   *frames;
	char	   *images;

	if (next_startup)
		next_startup();
	memset(&mtp_buffer, 0, sizeof(mtp_buffer));
	if (mtp_buffer_size == 0)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	pool = ShmemInitStruct("mtpower buffer: heat", mtp_pool_size(nextents), &found);
	frames = ShmemInitStruct("mtpower buffer: heads", mtp_frame_size(nextents), &found);
	images = mtp_home.media.base != NULL ? mtp_home.images : ShmemInitStruct("mtpower buffer: images", images_size(), &found);
	mtp_buffer_counts = ShmemInitStruct("mtpower buffer: counts", sizeof(pg_atomic_uint64[MTP_BUFFER_COUNTS + 1]), &found);
	if (!found)
	{
		mtp_heat_init();
		for (int i = 0; i <= MTP_BUFFER_COUNTS; i++)
			pg_atomic_init_u64(&mtp_buffer_counts[i], 0);
		mtp_frame_make(&mtp_buffer, mtp_pool_make(pool, nextents, MTP_POOL_HALF_LIFE), frames,
					   (char *) TYPEALIGN(SYSTEM_PAGE, images), GetNamedLWLockTranche("mtpower_buffer"));
	}
	mtp_slot_make(ShmemInitStruct("mtpower buffer: slots", mtp_slot_size(), &found));
	LWLockRelease(AddinShmemInitLock);
	if (mtp_home.media.base != NULL)
	{
		mtp_home.sealed = ShmemInitStruct("mtpower buffer: sealed", mtp_home_shared(nextents), &found);
		if (!found)
			memset(mtp_home.sealed, 0, mtp_home_shared(nextents));
		mtp_home_start();
	}
}

void
mtp_buffer_init(void)
{
	DefineCustomIntVariable("mtpower.buffer_size",
							"Shared memory for copies of pages that are read without locks.",
							"Zero reads all pages in shared_buffers.",
							&mtp_buffer_size, 128, 0, MTP_MOST_EXTENTS,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomBoolVariable("mtpower.use_frames",
							 "Reads pages in mtpower's buffer where they have a copy there.",
							 NULL, &mtp_use_frames, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("mtpower.pmem_path",
							   "File on persistent memory that mtpower's buffer lives in.",
							   "Empty: it lives in shared memory.",
							   &mtp_pmem_path, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.pmem_size",
							"Size of mtpower's buffer where it lives in a file.",
							"Zero: mtpower.buffer_size.",
							&mtp_pmem_size, 0, 0, MTP_MOST_EXTENTS,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.pmem_seal_timeout",
							"How long the end of the server may take to complete that file.",
							NULL, &mtp_pmem_seal_timeout, 10000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.pmem_seal_after",
							"How long a copy of a page is unchanged before it is completed there.",
							NULL, &mtp_pmem_seal_after, 60, 1, 24 * 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	next_request = shmem_request_hook;
	shmem_request_hook = request;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
	mtp_buffer_purge_init();
	mtp_slot_init();
	if (mtp_buffer_size > 0)
		mtp_sealer_init();
}
