/*
 * stat.c
 *	  Counters per index, in shared memory.
 *
 * They are lost at a restart, as those of core are after a crash.  A dropped index keeps its
 * counters until a SQL view reads them (view.c), or their room is needed.
 */
#include "batch/shared.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

HTAB	   *mtp_batch_stats = NULL;

Size
mtp_batch_stat_size(void)
{
	return hash_estimate_size(MTP_MAX_INDEXES, sizeof(MtpIndexStat));
}

void
mtp_batch_stat_init(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(MtpIndexStatKey),.entrysize = sizeof(MtpIndexStat)
	};

	mtp_batch_stats = ShmemInitHash("mtpower index statistics", MTP_MAX_INDEXES, MTP_MAX_INDEXES,
									&ctl, HASH_ELEM | HASH_BLOBS);
}

void
mtp_batch_stat_forget(MtpIndexStat *st)
{
	dlist_delete(&st->node);
	hash_search(mtp_batch_stats, &st->key, HASH_REMOVE, NULL);
}

MtpIndexStat *
mtp_batch_stat_of(Oid dbid, Oid indexid)
{
	MtpIndexStatKey key = {.dbid = dbid,.indexid = indexid};
	MtpIndexStat *st = hash_search(mtp_batch_stats, &key, HASH_FIND, NULL);

	if (st != NULL)
	{
		dlist_move_head(&mtp_batch_shared->stat_order, &st->node);
		return st;
	}
	if (hash_get_num_entries(mtp_batch_stats) >= MTP_MAX_INDEXES)
	{
		/* The index that was looked up longest ago makes room. */
		mtp_batch_stat_forget(dlist_tail_element(MtpIndexStat, node,
												 &mtp_batch_shared->stat_order));
		mtp_batch_shared->evicted++;
	}
	st = hash_search(mtp_batch_stats, &key, HASH_ENTER, NULL);
	memset((char *) st + sizeof(key), 0, sizeof(*st) - sizeof(key));
	dlist_push_head(&mtp_batch_shared->stat_order, &st->node);
	return st;
}

void
mtp_batch_count_overflow(Relation index, uint32 splits, uint32 moved)
{
	MtpIndexStat *st;

	if (mtp_batch_stats == NULL)
		return;
	LWLockAcquire(mtp_batch_stat_lock, LW_EXCLUSIVE);
	st = mtp_batch_stat_of(MyDatabaseId, RelationGetRelid(index));
	st->overflow += splits;
	st->moved += moved;
	LWLockRelease(mtp_batch_stat_lock);
}
