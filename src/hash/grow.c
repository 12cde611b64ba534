/*
 * grow.c
 *	  Grows the index as far as its entries ask for: before a batch, and with single entries.
 *
 * Growth is best effort: whatever is not to be had at once ends it, and later growth settles the
 * debt.
 */
#include "core/core.h"

#include "batch/batch.h"
#include "hash/grow.h"
#include "miscadmin.h"

/* Splits that one insertion pays for; more than its share, so that a debt shrinks. */
#define SPLITS_AT_ONCE	4

/*
 * Splits up to `most` of the buckets that the metapage's count makes due.  PG_UINT32_MAX: all of
 * them; then an index of one page gets all buckets at once, and blocks are added for all that are
 * due.  Else as few blocks are added as possible.  *grown begins as zeroes.
 */
static void
grow(Relation rel, uint32 most, MtpHashGrown *grown)
{
	bool		limited = most != PG_UINT32_MAX;
	uint64		target;
	MtpHashMeta meta;

	mtp_hash_copy_meta(rel, &meta);
	target = (meta.entries + meta.per_bucket - 1) / meta.per_bucket;
	target = Min(target, MTP_HASH_MAX_BUCKETS);
	if (!limited && target > 1 && mtp_hash_choose_initial(rel, &meta, target, grown))
		return;
	while (mtp_hash_space_size(&meta.space) < target && grown->splits < most)
	{
		CHECK_FOR_INTERRUPTS();
		if (grown->cancelled && *grown->cancelled)
			break;
		if (mtp_hash_space_size(&meta.space) < meta.reserved)
		{
			if (!mtp_hash_split(rel, &meta, grown))
				break;
		}
		else if (!mtp_hash_reserve(rel, &meta, limited ? 0 : target))
			break;
	}
}

/*
 * Pins the metapage before anything can fail: an error handler must read no page, as the error may
 * have come in the middle of reading or adding another one, and the cleanup of that comes later.
 */
void
mtp_hash_grow(Relation rel, uint32 entries, volatile uint32 *counted,
			  const volatile bool *cancelled, MtpHashGrown *grown)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_UNLOCK,
										MTP_HASH_WANT_META, NULL);
	volatile bool useless = true;

	memset(grown, 0, sizeof(*grown));
	grown->cancelled = cancelled;
	if (*counted != entries)
	{
		(void) mtp_hash_count(rel, entries);
		*counted = entries;
	}
	PG_TRY();
	{
		grow(rel, PG_UINT32_MAX, grown);
		useless = *cancelled;
	}
	PG_FINALLY();
	{
		/*
		 * Take back what was counted, after growth that failed or became useless: else each
		 * attempt of a load that fails would make the index ask for more.  Best effort, as the
		 * count is: another process, or this one, may have the page locked.  What stays counted is
		 * not counted again when another process prepares the batch.
		 */
		if (useless && ConditionalLockBuffer(metabuf))
		{
			MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(metabuf));

			m->entries -= Min(m->entries, *counted);
			*counted = 0;
			mtp_hash_count_changed(rel, metabuf);
			LockBuffer(metabuf, BUFFER_LOCK_UNLOCK);
		}
	}
	PG_END_TRY();
	ReleaseBuffer(metabuf);
}

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

		grow(rel, SPLITS_AT_ONCE, &grown);
		if (grown.splits > 0)
			mtp_batch_count_overflow(rel, grown.splits, grown.moved);
	}
}
