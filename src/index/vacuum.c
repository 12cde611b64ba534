/*
 * vacuum.c
 *	  Begins and ends VACUUM of an index, and takes free pages into use, for both access methods.
 */
#include "index/vacuum.h"

#include "batch/batch.h"
#include "core/inject.h"
#include "storage/indexfsm.h"
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

/*
 * The free space map only proposes: it survives no crash, and the page may have been taken since
 * VACUUM listed it.  So the locked page itself must say that it is free.
 *
 * The caller has other pages locked, so a wait for this one's lock could be a deadlock.  The
 * process that holds the lock is about to use the page anyway.
 */
Buffer
mtp_index_alloc(Relation index, bool (*is_free) (Page page))
{
	BlockNumber blkno;

	while ((blkno = GetFreeIndexPage(index)) != InvalidBlockNumber)
	{
		Buffer		buf = ReadBuffer(index, blkno);

		if (ConditionalLockBuffer(buf))
		{
			if (is_free(BufferGetPage(buf)))
				return buf;
			LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		}
		ReleaseBuffer(buf);
	}
	return mtp_extend_relation(index);
}
