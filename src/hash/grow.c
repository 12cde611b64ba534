/*
 * grow.c
 *	  Lets the index grow: how far, room for its buckets, and the first number of them.
 *
 * Best effort: whatever is not to be had at once ends it, and who comes later pays.
 */
#include "mtpower.h"

#include "hash/change.h"
#include "hash/grow.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "wal/stop.h"

/* Counts entries that are coming. */
static void
count_entries(Relation rel, uint32 entries, volatile uint32 *counted)
{
	Buffer		buf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
									MTP_HASH_WANT_META, NULL);

	MtpHashMetaOf(BufferGetPage(buf))->entries += entries;
	MarkBufferDirtyHint(buf, true);
	*counted = entries;
	UnlockReleaseBuffer(buf);
}

/* How many buckets should there be? */
static uint32
target_size(const MtpHashMeta *meta)
{
	uint64		target = (meta->entries + meta->per_bucket - 1) / meta->per_bucket;

	target = Min(target, MTP_HASH_MAX_BUCKETS);
	return Max((uint32) target, mtp_space_size(&meta->space));
}

/*
 * Takes back what was counted, for an error in growth: else each attempt of a load that fails would make
 * the index ask for more.  Best effort, as the count is: the page may be locked, by ourselves even.  What stays
 * counted is not counted again when the batch is prepared by another process.
 *
 * The metapage has been pinned all the while: an error handler must read no page, as the error may have come in the
 * middle of reading or adding another one, which is cleaned up later.
 */
static void
uncount_entries(Buffer metabuf, volatile uint32 *counted)
{
	if (ConditionalLockBuffer(metabuf))
	{
		MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(metabuf));

		m->entries -= Min(m->entries, *counted);
		*counted = 0;
		MarkBufferDirtyHint(metabuf, true);
		LockBuffer(metabuf, BUFFER_LOCK_UNLOCK);
	}
}

/* The extent list with n more buckets at `block`; extents that follow each other are one. */
static void
add_extent(MtpHashMeta *meta, BlockNumber block, uint32 n)
{
	MtpHashExtent *last = &meta->extents[meta->nextents - 1];

	if (last->block + (meta->reserved - last->bucket) != block)
		meta->extents[meta->nextents++] = (MtpHashExtent) {meta->reserved, block};
	meta->reserved += n;
}

/*
 * Makes n blocks part of the index.  The last one is initialized in the same record: replay makes the file as
 * long, as blocks that others get behind them could else be the same ones after a promotion.  As a bucket's
 * page, because a free one might be taken for something else.
 */
static void
publish_extent(Relation rel, MtpHashMeta *meta, BlockNumber block, uint32 n, Buffer lastbuf)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_META, NULL);
	Page		page = BufferGetPage(metabuf);
	MtpChange	c;

	Assert(MtpHashMetaOf(page)->reserved == meta->reserved);
	*meta = *MtpHashMetaOf(page);
	add_extent(meta, block, n);
	mtp_change_init(&c, rel, MTP_WAL_HASH_META);
	mtp_change_buffer(&c, metabuf, MTP_HASH_IMAGE);
	mtp_change_buffer(&c, lastbuf, MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	*MtpHashMetaOf(page) = *meta;
	mtp_bucket_init(BufferGetPage(lastbuf), MTP_HASH_BUCKET, meta->reserved - 1, 0, 0);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(metabuf);
}

/*
 * So many blocks, or a sixteenth of the buckets, become part of the index at a time: where disk space ends, fewer
 * have been added in vain.  Less than that would make too many extents.
 */
#define EXTEND_AT_ONCE	256

/* n consecutive blocks at the index's end, zeros; the caller holds the extension lock.  Returns the last one, locked. */
static Buffer
extend(Relation rel, uint32 n, BlockNumber *first)
{
	Buffer		buf = InvalidBuffer;

	for (uint32 i = 0; i < n; i++)
	{
		if (i > 0)
			ReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
		buf = ReadBuffer(rel, P_NEW);
		if (i == 0)
			*first = BufferGetBlockNumber(buf);
		if (BufferGetBlockNumber(buf) != *first + i)
			elog(ERROR, "blocks of index \"%s\" are not consecutive", RelationGetRelationName(rel));
	}
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	return buf;
}

/*
 * Makes room for up to `target` buckets, and for a sixteenth of those there are at least.  False if there can be no more.
 *
 * The extension lock is held until the record is there: VACUUM, which takes it to learn how long the index is, and
 * reads the metapage then, takes no block of an extent for one that belongs to nothing.  It keeps others from adding
 * extents as well.
 */
static bool
reserve(Relation rel, MtpHashMeta *meta, uint32 target)
{
	bool		lock = !RELATION_IS_LOCAL(rel);
	uint32		reserved = meta->reserved;
	uint32		n = target > reserved ? target - reserved : 0;

	n = Max(Max(n, mtp_space_size(&meta->space) / 16), 1);
	n = Min(n, MTP_HASH_MAX_BUCKETS - reserved);
	if (n == 0 || meta->nextents >= MTP_HASH_MAX_EXTENTS)
		return false;
	if (lock)
		LockRelationForExtension(rel, ExclusiveLock);
	mtp_hash_copy_meta(rel, meta);
	if (meta->reserved != reserved)
		n = 0;
	while (n > 0)
	{
		uint32		k = Min(n, Max(mtp_space_size(&meta->space) / 16, EXTEND_AT_ONCE));
		BlockNumber first = InvalidBlockNumber;
		Buffer		buf = extend(rel, k, &first);

		publish_extent(rel, meta, first, k, buf);
		UnlockReleaseBuffer(buf);
		n -= k;
	}
	if (lock)
		UnlockRelationForExtension(rel, ExclusiveLock);
	MTP_STOP_POINT("hash_extended");
	return true;
}

/* Might the number of initial buckets still be chosen? */
static bool
is_initial(const MtpHashMeta *meta)
{
	return !meta->fixed && meta->space.initial == 1 && meta->space.level == 0 &&
		meta->space.next == 0;
}

/* The only bucket's entries, sorted, for them to be dealt out. */
typedef struct Deal
{
	MtpHashSpace space;			/* with the number of buckets that has been chosen */
	int			n;
	MtpHashEntry entries[MTP_HASH_MAX_ENTRIES];
} Deal;

/* Does the only bucket have all its entries on its page? */
static bool
is_small(Page page)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(page);

	return p->h.next == InvalidBlockNumber && p->h.nheavy == 0;
}

static int
compare_hashes(const void *a, const void *b)
{
	uint32		x = mtp_entry_hash(a);
	uint32		y = mtp_entry_hash(b);

	return (x > y) - (x < y);
}

static void
take_entries(Deal *deal, Page page)
{
	deal->n = MtpHashHead(page)->n;
	for (int i = 0; i < deal->n; i++)
		deal->entries[i] = *MtpHashEntryAt(page, i);
	qsort(deal->entries, deal->n, sizeof(MtpHashEntry), compare_hashes);
}

/* The first entry from `from` on that is not a bucket's. */
static int
end_of_bucket(const Deal *deal, uint32 bucket, int from, uint32 *lo, uint32 *hi)
{
	mtp_space_interval(&deal->space, bucket, lo, hi);
	while (from < deal->n && mtp_entry_hash(&deal->entries[from]) <= *hi)
		from++;
	return from;
}

/*
 * Makes the pages of buckets 1, … with their entries; nobody reads them before they are part of the address space.  At level
 * 0 the order of buckets is that of hashes.  Returns how many entries stay in bucket 0.
 */
static int
make_buckets(Relation rel, const MtpHashMeta *meta, const Deal *deal)
{
	uint32		lo,
				hi;
	int			stay = end_of_bucket(deal, 0, 0, &lo, &hi);
	int			from = stay;

	for (uint32 i = 1; i < deal->space.initial; i++)
	{
		Buffer		buf = ReadBuffer(rel, mtp_hash_block(meta, i));
		int			end = end_of_bucket(deal, i, from, &lo, &hi);

		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		START_CRIT_SECTION();
		mtp_bucket_init(BufferGetPage(buf), MTP_HASH_BUCKET, i, lo, hi);
		mtp_bucket_append(BufferGetPage(buf), end - from, &deal->entries[from]);
		MarkBufferDirty(buf);
		if (RelationNeedsWAL(rel))
			log_newpage_buffer(buf, true);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buf);
		from = end;
	}
	return stay;
}

/* The buckets that have been made become part of the index, and bucket 0 loses what they have. */
static void
publish_initial(Relation rel, MtpHashMeta *meta, const MtpHashSpace *space, Buffer buf)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_META, NULL);
	MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(metabuf));
	MtpWalHashPages rec = {.two = false};
	uint32		lo,
				hi;
	MtpChange	c;

	Assert(is_initial(m));
	mtp_space_interval(space, 0, &lo, &hi);
	mtp_change_init(&c, rel, MTP_WAL_HASH_PAGES);
	mtp_change_buffer(&c, buf, MTP_HASH_IMAGE);
	mtp_change_buffer(&c, metabuf, MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	mtp_hash_retain(BufferGetPage(buf), lo, hi);
	m->space = *space;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
	*meta = *m;
	UnlockReleaseBuffer(metabuf);
}

/*
 * An index whose only bucket is small gets `target` buckets at once.  Bucket 0's page is locked from the look at it to
 * the end, which keeps everybody from inserting, and from splitting it: there is no other bucket, so the address
 * space stays as it is.
 *
 * Where it is empty an exclusive lock will do: a scan that has a pin on the page has seen that, and what comes is not
 * visible to it.  Where entries move nobody else may have a pin; it is not waited for.
 */
static bool
choose_initial(Relation rel, MtpHashMeta *meta, uint32 target, MtpHashGrown *grown)
{
	Deal	   *deal = palloc(sizeof(Deal));
	Buffer		buf = mtp_hash_read(rel, mtp_hash_block(meta, 0), BUFFER_LOCK_SHARE,
									MTP_HASH_WANT_BUCKET, NULL);
	Page		page = BufferGetPage(buf);
	bool		chosen = is_small(page);

	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	while (chosen && meta->reserved < target)
		chosen = reserve(rel, meta, target);
	if (chosen)
	{
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		mtp_hash_copy_meta(rel, meta);
		chosen = is_initial(meta) && is_small(page) &&
			(MtpHashHead(page)->n == 0 || IsBufferCleanupOK(buf));
		if (chosen)
		{
			deal->space = (MtpHashSpace) {.initial = target};
			take_entries(deal, page);
			grown->moved += deal->n - make_buckets(rel, meta, deal);
			publish_initial(rel, meta, &deal->space, buf);
		}
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buf);
	pfree(deal);
	if (chosen)
		MTP_STOP_POINT("hash_initial");
	return chosen;
}

/* Splits up to `most` buckets; makes room for `target` ones if that is to be had for all of them at once. */
static void
split_buckets(Relation rel, MtpHashMeta *meta, uint32 target, uint32 most, MtpHashGrown *grown)
{
	uint32		end = grown->splits + most;

	if (end < most)
		end = PG_UINT32_MAX;
	while (mtp_space_size(&meta->space) < target && grown->splits < end)
	{
		CHECK_FOR_INTERRUPTS();
		if (mtp_space_size(&meta->space) < meta->reserved)
		{
			if (mtp_hash_split(rel, meta, grown) == MTP_SPLIT_STOP)
				break;
		}
		else if (!reserve(rel, meta, most == PG_UINT32_MAX ? target : 0))
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

/* An index with a handful of entries, or none, gets its buckets at once, any other by splits. */
static void
grow_for_batch(Relation rel, MtpHashGrown *grown)
{
	MtpHashMeta meta;
	uint32		target;

	mtp_hash_copy_meta(rel, &meta);
	target = target_size(&meta);
	if (!is_initial(&meta) || target <= 1 || !choose_initial(rel, &meta, target, grown))
		split_buckets(rel, &meta, target, PG_UINT32_MAX, grown);
}

void
mtp_hash_grow(Relation rel, uint32 entries, volatile uint32 *counted, MtpHashGrown *grown)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_UNLOCK,
										MTP_HASH_WANT_META, NULL);

	memset(grown, 0, sizeof(*grown));
	if (*counted != entries)
		count_entries(rel, entries, counted);
	PG_TRY();
	{
		grow_for_batch(rel, grown);
	}
	PG_CATCH();
	{
		uncount_entries(metabuf, counted);
		PG_RE_THROW();
	}
	PG_END_TRY();
	ReleaseBuffer(metabuf);
}
