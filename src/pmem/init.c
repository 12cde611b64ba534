/*
 * init.c
 *	  The settings of the pool file, and its share of _PG_init.
 */
#include "pmem/file.h"

#include "buffer/buffer.h"
#include "core/shmem.h"
#include "utils/guc.h"

static uint32
open_store(uint32 slabs, Size slack, char **images)
{
	slabs = mtp_pmem_open(slabs, slack);
	*images = mtp_pmem.images;
	return slabs;
}

/* Behind the buffer's own, which has opened the file */
static Size
sealed_size(void)
{
	return mtp_pmem.images != NULL ? mtp_pmem_shared(mtp_pmem.nslabs) : 0;
}

static void
attach_sealed(void *area, LWLockPadded *locks, bool found)
{
	mtp_pmem.sealed = area;
	if (!found)
		memset(mtp_pmem.sealed, 0, mtp_pmem_shared(mtp_pmem.nslabs));
	mtp_pmem_start();
}

void
mtp_pmem_init(void)
{
	static const MtpShmem shmem = {
		"mtpower buffer: sealed", sealed_size, NULL, NULL, 0, attach_sealed
	};

	DefineCustomStringVariable("mtpower.pmem_path",
							   "File on persistent memory that mtpower's buffer lives in.",
							   "Empty: it lives in shared memory.",
							   &mtp_pmem_path, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL, NULL,
							   NULL);
	DefineCustomIntVariable("mtpower.pmem_size",
							"Size of mtpower's buffer where it lives in a file.",
							"Zero: mtpower.buffer_size.",
							&mtp_pmem_size, 0, 0, MTP_MOST_SLABS,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.pmem_seal_timeout",
							"How long the end of the server may take to complete that file.",
							NULL, &mtp_pmem_seal_timeout, 10000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.pmem_seal_after",
							"How long a copy of a page is unchanged before it is completed there.",
							NULL, &mtp_pmem_seal_after, 60, 1, 24 * 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	mtp_buffer_open_store = open_store;
	mtp_shmem_register(&shmem);
	if (mtp_buffer_size > 0)
		mtp_pmem_background_init();
}
