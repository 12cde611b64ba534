/*
 * settings.c
 *	  The engine's settings.
 */
#include "batch/shared.h"

#include "utils/guc.h"

bool		mtp_batching = true;
int			mtp_batch_memory = 64 * 1024;
int			mtp_batch_size = 16 * 1024;
int			mtp_batch_min_rows = 256;

void
mtp_batch_settings_init(void)
{
	DefineCustomBoolVariable("mtpower.batching",
							 "Queues the index entries of bulk loads and applies them in batches.",
							 "Off inserts every index entry at once.",
							 &mtp_batching, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_memory",
							"Shared memory for queued index entries, for the whole cluster.",
							NULL, &mtp_batch_memory, 64 * 1024, 1024, 64 * 1024 * 1024,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_size",
							"Bytes of one index's queued entries after which they are submitted "
							"as a batch.",
							NULL, &mtp_batch_size, 16 * 1024, 64, 56 * 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.batch_min_rows",
							"Rows of a statement whose index entries are inserted at once before "
							"it queues.",
							NULL, &mtp_batch_min_rows, 256, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
}
