/*
 * extent.c
 *	  Makes room for buckets: extents of consecutive blocks.
 */
#include "core/core.h"

#include "hash/grow.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "core/inject.h"

/*
 * So many blocks, or a sixteenth of the buckets, become part of the index at a time: where disk space ends, fewer
 * have been added in vain.  Less than that would make too many extents.
 */
#define EXTEND_AT_ONCE	256

/* The extent list with n more buckets at `block`; extents that follow each other are one. */
static void
add_extent(MtpHashMeta *meta, BlockNumber block, uint32 n)
{
	MtpHashExtent *last = &meta->extents[meta->nextents - 1];

	if (last->block + (meta->reserved - last->bucket) != block)
		meta->extents[meta->nextents++] = (MtpHashExtent)
	{
		meta->reserved, block
	};
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
	mtp_hash_bucket_init(BufferGetPage(lastbuf), MTP_HASH_BUCKET, meta->reserved - 1, 0, 0);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(metabuf);
}

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
 * The extension lock is held until the record is there: VACUUM, which takes it to learn how long the index is, and
 * reads the metapage then, takes no block of an extent for one that belongs to nothing.  It keeps others from adding
 * extents as well.
 */
bool
mtp_hash_reserve(Relation rel, MtpHashMeta *meta, uint32 target)
{
	bool		lock = !RELATION_IS_LOCAL(rel);
	uint32		reserved = meta->reserved;
	uint32		n = target > reserved ? target - reserved : 0;

	n = Max(Max(n, mtp_hash_space_size(&meta->space) / 16), 1);
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
		uint32		k = Min(n, Max(mtp_hash_space_size(&meta->space) / 16, EXTEND_AT_ONCE));
		BlockNumber first = InvalidBlockNumber;
		Buffer		buf = extend(rel, k, &first);

		publish_extent(rel, meta, first, k, buf);
		UnlockReleaseBuffer(buf);
		n -= k;
	}
	if (lock)
		UnlockRelationForExtension(rel, ExclusiveLock);
	MTP_INJECT("hash_extended");
	return true;
}
