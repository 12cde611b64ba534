#include "batch/batch.h"

uint32		mtp_batch_pending = 0;

void
mtp_batch_init(void)
{
}

bool
mtp_batch_enqueue(const MtpBatchOps *ops, Relation index, Relation heap, Datum *values, bool *isnull,
				  ItemPointer tid, IndexUniqueCheck check, bool unchanged)
{
	return false;
}

void
mtp_batch_scan_barrier(Relation index, Snapshot snapshot)
{
}

void
mtp_batch_vacuum_fence(Relation index)
{
}

void
mtp_batch_announce(Relation rel, int ntuples)
{
}

void
mtp_batch_finish_bulk(Relation rel)
{
}
