/*
 * init.c
 *	  The settings of the pool file, and its share of _PG_init.
 */
#include "pmem/file.h"

#include "buffer/buffer.h"
#include "storage/shmem.h"
#include "utils/guc.h"

static char *
stored_images(void)
{
	return mtp_pmem.media.base != NULL ? mtp_pmem.images : NULL;
}

static void
start_store(uint32 extents)
{
	bool		found;

	mtp_pmem.sealed = ShmemInitStruct("mtpower buffer: sealed", mtp_pmem_shared(extents), &found);
	if (!found)
		memset(mtp_pmem.sealed, 0, mtp_pmem_shared(extents));
	mtp_pmem_start();
}

void
mtp_pmem_init(void)
{
	static const MtpBufferStore store = {
		.open = mtp_pmem_open,.images = stored_images,.shared_size = mtp_pmem_shared,.start =
		start_store
	};

	DefineCustomStringVariable("mtpower.pmem_path",
							   "File on persistent memory that mtpower's buffer lives in.",
							   "Empty: it lives in shared memory.",
							   &mtp_pmem_path, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL, NULL,
							   NULL);
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
	mtp_buffer_store = &store;
	if (mtp_buffer_size > 0)
		mtp_pmem_background_init();
}
