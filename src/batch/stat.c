/*
 * stat.c
 *	  Counters per index, in shared memory.
 */
#include "batch/shared.h"

#include "storage/shmem.h"
#include "utils/hsearch.h"

HTAB	   *mtp_stats = NULL;

Size
mtp_stat_size(void)
{
	return hash_estimate_size(MTP_MAX_INDEXES, sizeof(MtpIndexStat));
}

void
mtp_stat_init(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(MtpIndexStatKey),.entrysize = sizeof(MtpIndexStat)
	};

	mtp_stats = ShmemInitHash("mtpower index statistics", MTP_MAX_INDEXES, MTP_MAX_INDEXES,
							  &ctl, HASH_ELEM | HASH_BLOBS);
}

/* The index's counters, or NULL if there is no room for another index. */
MtpIndexStat *
mtp_stat_of(Oid dbid, Oid indexid)
{
	MtpIndexStatKey key = {.dbid = dbid,.indexid = indexid};
	MtpIndexStat *st;
	bool		found;

	st = hash_search(mtp_stats, &key,
					 hash_get_num_entries(mtp_stats) < MTP_MAX_INDEXES ? HASH_ENTER_NULL : HASH_FIND,
					 &found);
	if (st != NULL && !found)
		memset((char *) st + sizeof(key), 0, sizeof(*st) - sizeof(key));
	return st;
}
