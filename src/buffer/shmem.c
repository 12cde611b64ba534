/*
 * shmem.c
 *	  The buffer's settings and shared memory, and its share of _PG_init.
 */
#include "buffer/buffer.h"
#include "core/reset.h"
#include "buffer/hazard.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"

MtpBuffer	mtp_buffer;
int			mtp_buffer_size = 128;
bool		mtp_use_frames = true;
pg_atomic_uint64 *mtp_buffer_counts = NULL;
const MtpBufferStore *mtp_buffer_store = NULL;

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

/* A reader of a frame that changes may be led so many bytes beyond the last image. */
#define SLACK	BLCKSZ

/* Images begin at a page of the operating system. */
#define SYSTEM_PAGE	4096

/* Of the buffer: mtpower.buffer_size, or what the store has room for */
static uint32 nextents = 0;

/* The images in the store, or NULL: they are in shared memory */
static char *stored = NULL;

static Size
images_size(void)
{
	return add_size(mul_size(nextents, MTP_EXTENT_BYTES), SLACK + SYSTEM_PAGE);
}

static void
request_shmem(void)
{
	if (next_request)
		next_request();
	if (mtp_buffer_size == 0)
		return;
	nextents = mtp_buffer_store ? mtp_buffer_store->open(mtp_buffer_size, SLACK) : mtp_buffer_size;
	stored = mtp_buffer_store ? mtp_buffer_store->images() : NULL;
	RequestAddinShmemSpace(add_size(mtp_pool_size(nextents), mtp_frame_size(nextents)));
	RequestAddinShmemSpace(sizeof(pg_atomic_uint64[MTP_BUFFER_COUNTS + 1]));
	RequestAddinShmemSpace(stored != NULL ? mtp_buffer_store->shared_size(nextents)
						   : images_size());
	RequestAddinShmemSpace(mtp_hazard_size());
	RequestNamedLWLockTranche("mtpower_buffer", MTP_FRAME_PARTITIONS + 1);
}

/*
 * Addresses outside shared memory are the same in all processes: children inherit them from the
 * postmaster.
 */
static void
make_shmem(void)
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
	images = stored != NULL ? stored : ShmemInitStruct("mtpower buffer: images", images_size(),
													   &found);
	mtp_buffer_counts = ShmemInitStruct("mtpower buffer: counts",
										sizeof(pg_atomic_uint64[MTP_BUFFER_COUNTS + 1]), &found);
	if (!found)
	{
		mtp_heat_init();
		for (int i = 0; i <= MTP_BUFFER_COUNTS; i++)
			pg_atomic_init_u64(&mtp_buffer_counts[i], 0);
		mtp_frame_make(&mtp_buffer, mtp_pool_make(pool, nextents, MTP_POOL_HALF_LIFE), frames,
					   (char *) TYPEALIGN(SYSTEM_PAGE, images),
					   GetNamedLWLockTranche("mtpower_buffer"));
	}
	mtp_hazard_make(ShmemInitStruct("mtpower buffer: slots", mtp_hazard_size(), &found));
	LWLockRelease(AddinShmemInitLock);
	if (stored != NULL)
		mtp_buffer_store->start(nextents);
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
	next_request = shmem_request_hook;
	shmem_request_hook = request_shmem;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = make_shmem;
	mtp_buffer_purge_init();
	mtp_hazard_init();
	mtp_reset_register(MTP_RESET_BUFFER, mtp_buffer_reset);
}
