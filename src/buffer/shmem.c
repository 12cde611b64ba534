/*
 * shmem.c
 *	  The buffer's settings and shared memory, and its share of _PG_init.
 */
#include "buffer/buffer.h"
#include "buffer/hazard.h"
#include "core/reset.h"
#include "core/shmem.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/guc.h"

MtpBuffer	mtp_buffer;
int			mtp_buffer_size = 128;
bool		mtp_use_frames = true;
pg_atomic_uint64 *mtp_buffer_counts = NULL;
uint32		(*mtp_buffer_open_store) (uint32 slabs, Size slack, char **images) = NULL;

/* A reader of a frame that changes may be led so many bytes beyond the last image. */
#define SLACK	BLCKSZ

/* Images begin at a page of the operating system. */
#define SYSTEM_PAGE	4096

/* Of the buffer: mtpower.buffer_size, or what the store has room for */
static uint32 nslabs = 0;

/*
 * The images in the store, or NULL: they are in shared memory.  Children inherit the address from
 * the postmaster, as they do all of mtp_buffer.
 */
static char *stored = NULL;

#define COUNTS_SIZE	sizeof(pg_atomic_uint64[MTP_BUFFER_COUNTS + 1])

static Size
images_size(void)
{
	return add_size(mul_size(nslabs, MTP_SLAB_BYTES), SLACK + SYSTEM_PAGE);
}

/* The first call opens the store; a process that inherits nothing has no buffer. */
static Size
heat_size(void)
{
	if (nslabs == 0 && mtp_buffer_size > 0 && !IsUnderPostmaster)
		nslabs = mtp_buffer_open_store(mtp_buffer_size, SLACK, &stored);
	return nslabs > 0 ? mtp_policy_size(nslabs) : 0;
}

static Size
other_sizes(void)
{
	Size		size = add_size(mtp_frame_size(nslabs), COUNTS_SIZE + mtp_hazard_size());

	return stored == NULL ? add_size(size, images_size()) : size;
}

/* Only for a new shared memory, never to attach what another process has made (heat_size). */
static void
attach_buffer(void *heat, LWLockPadded *locks, bool found)
{
	void	   *frames = ShmemInitStruct("mtpower buffer: headers", mtp_frame_size(nslabs), &found);
	char	   *images = stored != NULL ? stored :
	ShmemInitStruct("mtpower buffer: images", images_size(), &found);

	Assert(!found);
	mtp_buffer_counts = ShmemInitStruct("mtpower buffer: counts", COUNTS_SIZE, &found);
	for (int i = 0; i <= MTP_BUFFER_COUNTS; i++)
		pg_atomic_init_u64(&mtp_buffer_counts[i], 0);
	mtp_heat_init();
	memset(&mtp_buffer, 0, sizeof(mtp_buffer));
	mtp_frame_make(&mtp_buffer, mtp_policy_make(heat, nslabs, MTP_POLICY_HALF_LIFE), frames,
				   (char *) TYPEALIGN(SYSTEM_PAGE, images), locks);
	mtp_hazard_make(ShmemInitStruct("mtpower buffer: hazard pointers", mtp_hazard_size(), &found));
}

void
mtp_buffer_init(void)
{
	static const MtpShmem shmem = {
		"mtpower buffer: heat", heat_size, other_sizes, "mtpower_buffer", MTP_FRAME_PARTITIONS + 1,
		attach_buffer
	};

	DefineCustomIntVariable("mtpower.buffer_size",
							"Shared memory for copies of pages that are read without locks.",
							"Zero reads all pages in shared_buffers.",
							&mtp_buffer_size, 128, 0, MTP_MOST_SLABS,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomBoolVariable("mtpower.use_frames",
							 "Reads pages in mtpower's buffer where they have a copy there.",
							 NULL, &mtp_use_frames, true, PGC_USERSET, 0, NULL, NULL, NULL);
	mtp_shmem_register(&shmem);
	mtp_buffer_purge_init();
	mtp_hazard_init();
	mtp_reset_register(MTP_RESET_BUFFER, mtp_buffer_reset);
}
