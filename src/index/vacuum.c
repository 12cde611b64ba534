/*
 * vacuum.c
 *	  Begins and ends VACUUM of an index, for both access methods.
 */
#include "index/vacuum.h"

#include "batch/batch.h"
#include "core/inject.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"

IndexBulkDeleteResult *
mtp_index_vacuum_begin(Relation index, IndexBulkDeleteResult *stats)
{
	MTP_INJECT("vacuum_begins");
	mtp_batch_vacuum_fence(index);
	MTP_INJECT("vacuum_fenced");
	return stats != NULL ? stats : palloc0(sizeof(IndexBulkDeleteResult));
}

BlockNumber
mtp_index_length(Relation index)
{
	bool		lock = !RELATION_IS_LOCAL(index);
	BlockNumber length;

	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	length = RelationGetNumberOfBlocks(index);
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);
	return length;
}

void
mtp_index_vacuum_end(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (!info->estimated_count && stats->num_index_tuples > info->num_heap_tuples)
		stats->num_index_tuples = info->num_heap_tuples;
}
