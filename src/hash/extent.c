/*
 * extent.c
 *	  Adds room for buckets: extents of consecutive blocks.
 */
#include "core/core.h"

#include "hash/grow.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "core/inject.h"

/*
 * So many blocks, or a sixteenth of the buckets, become part of the index at a time: where disk
 * space ends, fewer have been added in vain.  Fewer at a time would make too many extents.
 */
#define EXTEND_AT_ONCE	256

/*
 * Makes n blocks, from `block` on, part of the index.  Blocks that follow the last extent join
 * it.
 *
 * The record has an image of the last block, so that replay makes the file as long: else stash
 * pages might get the same blocks after a promotion.  The block becomes a bucket's page, because
 * a free page might be taken for something else.
 */
static void
publish_extent(Relation rel, MtpHashMeta *meta, BlockNumber block, uint32 n, Buffer lastbuf)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_META, NULL);
	Page		page = BufferGetPage(metabuf);
	MtpHashExtent *last;
	MtpChange	c;

	Assert(MtpHashMetaOf(page)->reserved == meta->reserved);
	*meta = *MtpHashMetaOf(page);
	last = &meta->extents[meta->nextents - 1];
	if (last->block + (meta->reserved - last->bucket) != block)
	{
		last = &meta->extents[meta->nextents++];
		last->bucket = meta->reserved;
		last->block = block;
	}
	meta->reserved += n;
	mtp_change_init(&c, rel, MTP_WAL_HASH_META);
	mtp_change_buffer(&c, metabuf, MTP_HASH_IMAGE);
	mtp_change_buffer(&c, lastbuf, MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	*MtpHashMetaOf(page) = *meta;
	mtp_hash_bucket_init(BufferGetPage(lastbuf), MTP_HASH_BUCKET, meta->reserved - 1, 0, 0);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(metabuf);
}

/*
 * Holds the extension lock until the record is there.  VACUUM takes this lock to learn how long
 * the index is, and reads the metapage then: so it takes no block of an extent for one that
 * belongs to nothing (H11).  The lock also keeps other processes from adding extents.
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
		Buffer		buf = InvalidBuffer;

		for (uint32 i = 0; i < k; i++)
		{
			if (i > 0)
				ReleaseBuffer(buf);
			CHECK_FOR_INTERRUPTS();
			buf = ReadBuffer(rel, P_NEW);
			if (i == 0)
				first = BufferGetBlockNumber(buf);
			if (BufferGetBlockNumber(buf) != first + i)
				elog(ERROR, "blocks of index \"%s\" are not consecutive",
					 RelationGetRelationName(rel));
		}
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		publish_extent(rel, meta, first, k, buf);
		UnlockReleaseBuffer(buf);
		n -= k;
	}
	if (lock)
		UnlockRelationForExtension(rel, ExclusiveLock);
	MTP_INJECT("hash_extended");
	return true;
}
