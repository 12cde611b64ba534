/*
 * grow.c
 *	  Grows the index as far as its entries ask for.
 *
 * Growth is best effort: whatever is not to be had at once ends it, and later growth settles the
 * debt.
 */
#include "core/core.h"

#include "hash/grow.h"
#include "miscadmin.h"

/* The number of buckets that the index should have: never fewer than there are. */
static uint32
target_size(const MtpHashMeta *meta)
{
	uint64		target = (meta->entries + meta->per_bucket - 1) / meta->per_bucket;

	target = Min(target, MTP_HASH_MAX_BUCKETS);
	return Max((uint32) target, mtp_hash_space_size(&meta->space));
}

/*
 * Takes back what was counted, after growth that failed or became useless: else each attempt of a
 * load that fails would make the index ask for more.  Best effort, as the count is: another
 * process, or this one, may have the page locked.  What stays counted is not counted again when
 * another process prepares the batch.
 *
 * The caller has pinned the metapage before: an error handler must read no page, as the error may
 * have come in the middle of reading or adding another one, and the cleanup of that comes later.
 */
static void
uncount_entries(Relation rel, Buffer metabuf, volatile uint32 *counted)
{
	if (ConditionalLockBuffer(metabuf))
	{
		MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(metabuf));

		m->entries -= Min(m->entries, *counted);
		*counted = 0;
		mtp_hash_count_changed(rel, metabuf);
		LockBuffer(metabuf, BUFFER_LOCK_UNLOCK);
	}
}

/*
 * Splits up to `most` buckets on the way to `target` ones.  Adds blocks when there are none left:
 * for all of `target` if `most` is no limit, else as few as possible.
 */
static void
split_buckets(Relation rel, MtpHashMeta *meta, uint32 target, uint32 most, MtpHashGrown *grown)
{
	uint32		end = grown->splits + most;

	if (end < most)
		end = PG_UINT32_MAX;
	while (mtp_hash_space_size(&meta->space) < target && grown->splits < end)
	{
		CHECK_FOR_INTERRUPTS();
		if (grown->cancelled && *grown->cancelled)
			break;
		if (mtp_hash_space_size(&meta->space) < meta->reserved)
		{
			if (mtp_hash_split(rel, meta, grown) == MTP_SPLIT_STOP)
				break;
		}
		else if (!mtp_hash_reserve(rel, meta, most == PG_UINT32_MAX ? target : 0))
			break;
	}
}

void
mtp_hash_grow_some(Relation rel, uint32 most, MtpHashGrown *grown)
{
	MtpHashMeta meta;

	mtp_hash_copy_meta(rel, &meta);
	split_buckets(rel, &meta, target_size(&meta), most, grown);
}

/* Gives an index of one page all buckets at once, and grows any other one by splits. */
static void
grow_for_batch(Relation rel, MtpHashGrown *grown)
{
	MtpHashMeta meta;
	uint32		target;

	mtp_hash_copy_meta(rel, &meta);
	target = target_size(&meta);
	if (target <= 1 || !mtp_hash_choose_initial(rel, &meta, target, grown))
		split_buckets(rel, &meta, target, PG_UINT32_MAX, grown);
}

void
mtp_hash_grow(Relation rel, uint32 entries, volatile uint32 *counted,
			  const volatile bool *cancelled, MtpHashGrown *grown)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_UNLOCK,
										MTP_HASH_WANT_META, NULL);

	memset(grown, 0, sizeof(*grown));
	grown->cancelled = cancelled;
	if (*counted != entries)
	{
		(void) mtp_hash_count(rel, entries);
		*counted = entries;
	}
	PG_TRY();
	{
		grow_for_batch(rel, grown);
	}
	PG_CATCH();
	{
		uncount_entries(rel, metabuf, counted);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (*cancelled)
		uncount_entries(rel, metabuf, counted);
	ReleaseBuffer(metabuf);
}
