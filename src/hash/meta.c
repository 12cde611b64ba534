/*
 * meta.c
 *	  Finds the bucket of a hash by copies of the metapage, and counts entries there.
 */
#include "hash/hash.h"

#include "utils/memutils.h"

void
mtp_hash_meta_init(Page page, const MtpHashMeta *meta)
{
	mtp_hash_bucket_init_header(page, MTP_HASH_META);
	memcpy(MtpHashMetaOf(page), meta, sizeof(MtpHashMeta));
	((PageHeader) page)->pd_lower = (char *) (MtpHashMetaOf(page) + 1) - (char *) page;
}

/*
 * Raises an error if a process that goes by the metapage would leave the index or its own arrays.
 */
static void
check_meta(Relation rel, const MtpHashMeta *meta)
{
	if (meta->magic != MTP_HASH_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is not an mtpower_hash index",
						RelationGetRelationName(rel)),
				 errdetail("Its metapage, block %u, is corrupted.", MTP_HASH_META_BLOCK)));
	if (meta->version != MTP_HASH_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("version mismatch in index \"%s\": file version %u, current version %u",
						RelationGetRelationName(rel), meta->version, MTP_HASH_VERSION),
				 errdetail("Its metapage, block %u, was written by a later version of mtpower, "
						   "or is corrupted.", MTP_HASH_META_BLOCK)));
	if (meta->nextents == 0 || meta->nextents > MTP_HASH_MAX_EXTENTS || meta->per_bucket == 0 ||
		meta->space.initial == 0 || meta->space.level > 31 ||
		meta->space.next >= (uint64) meta->space.initial << meta->space.level ||
		((uint64) meta->space.initial << meta->space.level) + meta->space.next > meta->reserved ||
		meta->reserved > MTP_HASH_MAX_BUCKETS)
		mtp_hash_corrupted("index \"%s\" contains corrupted page at block %u",
						   RelationGetRelationName(rel), MTP_HASH_META_BLOCK);
}

/*
 * A reload of the relcache entry frees the copy.  So the pointer is good until something may
 * process invalidations: locking a relation, or running other people's functions.  The copy has
 * room for all extents, so that reading it anew need not allocate; those not in use are neither
 * copied nor trusted.
 */
const MtpHashMeta *
mtp_hash_meta(Relation rel, bool fresh)
{
	if (fresh || rel->rd_amcache == NULL)
	{
		Buffer		buf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_SHARE,
										MTP_HASH_WANT_META, NULL);
		MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(buf));

		check_meta(rel, meta);
		if (rel->rd_amcache == NULL)
			rel->rd_amcache = MemoryContextAllocZero(rel->rd_indexcxt, sizeof(MtpHashMeta));
		memcpy(rel->rd_amcache, meta,
			   offsetof(MtpHashMeta, extents) + meta->nextents * sizeof(MtpHashExtent));
		UnlockReleaseBuffer(buf);
	}
	return rel->rd_amcache;
}

void
mtp_hash_copy_meta(Relation rel, MtpHashMeta *meta)
{
	Buffer		buf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_SHARE,
									MTP_HASH_WANT_META, NULL);

	*meta = *MtpHashMetaOf(BufferGetPage(buf));
	UnlockReleaseBuffer(buf);
	check_meta(rel, meta);
}

BlockNumber
mtp_hash_block(const MtpHashMeta *meta, uint32 bucket)
{
	uint32		low = 0;
	uint32		high = meta->nextents;

	/* The last extent that begins at the bucket or before. */
	while (high - low > 1)
	{
		uint32		mid = (low + high) / 2;

		if (meta->extents[mid].bucket <= bucket)
			low = mid;
		else
			high = mid;
	}
	return meta->extents[low].block + (bucket - meta->extents[low].bucket);
}

/*
 * Where nothing is logged, MarkBufferDirtyHint() may leave a page clean that would need an image
 * in the WAL: the file of a transaction's own with wal_level = minimal.  With the page all that
 * the transaction has counted would be lost.
 */
void
mtp_hash_count_changed(Relation rel, Buffer metabuf)
{
	if (RelationNeedsWAL(rel))
		MarkBufferDirtyHint(metabuf, true);
	else
		MarkBufferDirty(metabuf);
}

/* The caller may hold locks: who has the metapage locked waits for nothing. */
bool
mtp_hash_count(Relation rel, int64 n)
{
	Buffer		buf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
									MTP_HASH_WANT_META, NULL);
	MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(buf));
	bool		due;

	meta->entries += Max(n, -(int64) meta->entries);
	due = meta->entries > (uint64) meta->per_bucket * mtp_hash_space_size(&meta->space);
	mtp_hash_count_changed(rel, buf);
	UnlockReleaseBuffer(buf);
	return due;
}

/*
 * An old copy of the metapage leads to a page that the hash belonged to once (H1); the page's
 * interval tells whether it still does (H3).  A process that finds a page which has been split
 * finds the new metapage as well, unless the index is corrupted: so a metapage that is still the
 * same is an error.
 */
Buffer
mtp_hash_find(Relation rel, uint32 hash, int lock)
{
	const MtpHashMeta *meta = mtp_hash_meta(rel, false);

	for (;;)
	{
		MtpHashSpace space = meta->space;
		BlockNumber blkno = mtp_hash_block(meta, mtp_hash_space_bucket(&space, hash));
		Buffer		buf;
		Page		page;
		MtpHashHeader *h;

		mtp_hash_check_block(rel, blkno);
		buf = ReadBuffer(rel, blkno);
		page = BufferGetPage(buf);
		h = MtpHashHead(page);

		/* Fetch the header with filter and heavy hashes, and the first fingerprints. */
		for (int i = 0; i < 4; i++)
			__builtin_prefetch((char *) page + i * 64);
		LockBuffer(buf, lock);
		if (likely(h->type == MTP_HASH_BUCKET && h->page_id == MTP_PAGE_ID &&
				   h->format == MTP_HASH_FORMAT && h->lo <= hash && hash <= h->hi &&
				   mtp_hash_bucket_counts_fit(page)))
			return buf;
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);

		meta = mtp_hash_meta(rel, true);
		if (memcmp(&meta->space, &space, sizeof(space)) == 0)
		{
			LockBuffer(buf, BUFFER_LOCK_SHARE);
			mtp_hash_check_page(rel, buf, MTP_HASH_WANT_BUCKET);
			mtp_hash_corrupted("bucket at block %u of index \"%s\" does not have the hashes "
							   "that its metapage gives it", blkno, RelationGetRelationName(rel));
		}
		ReleaseBuffer(buf);
	}
}
