/*
 * insert.c
 *	  Inserts single entries, and grows the index with them.
 */
#include "core/core.h"

#include "batch/batch.h"
#include "hash/grow.h"

/* Splits that one insertion pays for; more than its share, so that a debt shrinks. */
#define SPLITS_AT_ONCE	4

void
mtp_hash_insert(Relation rel, Relation heap, uint32 hash, ItemPointer tid)
{
	MtpHashEntry entry = mtp_entry(hash, tid);
	MtpHashPut	put = {.rel = rel,.heap = heap};
	Buffer		buf = mtp_hash_find(rel, hash, BUFFER_LOCK_EXCLUSIVE);

	mtp_hash_put(&put, buf, 1, &entry);
	UnlockReleaseBuffer(buf);
	if (put.last_n % MTP_HASH_COUNT_STEP == 0 && mtp_hash_count(rel, MTP_HASH_COUNT_STEP))
	{
		MtpHashGrown grown = {0};

		mtp_hash_grow_some(rel, SPLITS_AT_ONCE, &grown);
		if (grown.splits > 0)
			mtp_batch_count_overflow(rel, grown.splits, grown.moved);
	}
}
