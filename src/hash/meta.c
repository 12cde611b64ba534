/*
 * meta.c
 *	  From a hash to its bucket: the metapage's copy, pages and their checks, new pages.
 */
#include "hash/hash.h"

#include "storage/indexfsm.h"
#include "utils/memutils.h"

/* Extents that are not in use are neither copied nor trusted. */
#define META_SIZE(nextents) \
	(offsetof(MtpHashMeta, extents) + (nextents) * sizeof(MtpHashExtent))

void
mtp_hash_meta_init(Page page, const MtpHashMeta *meta)
{
	mtp_bucket_init_header(page, MTP_HASH_META);
	memcpy(MtpHashMetaOf(page), meta, sizeof(MtpHashMeta));
	((PageHeader) page)->pd_lower = (char *) (MtpHashMetaOf(page) + 1) - (char *) page;
}

/* What readers rely on so as not to leave the page or their arrays. */
static inline bool
counts_fit(Page page)
{
	MtpHashHeader *h = MtpHashHead(page);

	return h->n <= MTP_HASH_CAP(h->type) && h->nheavy <= MTP_HASH_MAX_HEAVY;
}

void
mtp_hash_check_page(Relation rel, Buffer buf, int want)
{
	Page		page = BufferGetPage(buf);
	MtpHashHeader *h = MtpHashHead(page);

	if (PageIsNew(page))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains unexpected zero page at block %u",
						RelationGetRelationName(rel), BufferGetBlockNumber(buf)),
				 errhint("Please REINDEX it.")));
	if (h->page_id != MTP_PAGE_ID || h->type < MTP_HASH_META || h->type > MTP_HASH_FREE ||
		!counts_fit(page))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains corrupted page at block %u",
						RelationGetRelationName(rel), BufferGetBlockNumber(buf)),
				 errhint("Please REINDEX it.")));
	if (h->format != MTP_HASH_FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains a page of unknown format %u at block %u",
						RelationGetRelationName(rel), h->format, BufferGetBlockNumber(buf)),
				 errhint("It was written by a later version of mtpower, or is corrupted.")));
	if ((want & (1 << (h->type - MTP_HASH_META))) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains a page of unexpected type %u at block %u",
						RelationGetRelationName(rel), h->type, BufferGetBlockNumber(buf)),
				 errhint("Please REINDEX it.")));
}

Buffer
mtp_hash_read(Relation rel, BlockNumber blkno, int lock, int want, BufferAccessStrategy strategy)
{
	Buffer		buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);

	if (lock != BUFFER_LOCK_UNLOCK)
	{
		LockBuffer(buf, lock);
		mtp_hash_check_page(rel, buf, want);
	}
	return buf;
}

static void
check_meta(Relation rel, const MtpHashMeta *meta)
{
	if (meta->magic != MTP_HASH_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is not an mtpower_hash index",
						RelationGetRelationName(rel))));
	if (meta->version != MTP_HASH_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("version mismatch in index \"%s\": file version %u, current version %u",
						RelationGetRelationName(rel), meta->version, MTP_HASH_VERSION)));
	if (meta->nextents == 0 || meta->nextents > MTP_HASH_MAX_EXTENTS || meta->per_bucket == 0 ||
		meta->space.initial == 0 || meta->space.level > 31 ||
		((uint64) meta->space.initial << meta->space.level) + meta->space.next > meta->reserved)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains corrupted page at block %u",
						RelationGetRelationName(rel), MTP_HASH_META_BLOCK),
				 errhint("Please REINDEX it.")));
}

/* The copy has room for all extents, so that reading it anew need not allocate. */
static const MtpHashMeta *
load_meta(Relation rel)
{
	Buffer		buf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_SHARE,
									MTP_HASH_WANT_META, NULL);
	MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(buf));

	check_meta(rel, meta);
	if (rel->rd_amcache == NULL)
		rel->rd_amcache = MemoryContextAllocZero(rel->rd_indexcxt, sizeof(MtpHashMeta));
	memcpy(rel->rd_amcache, meta, META_SIZE(meta->nextents));
	UnlockReleaseBuffer(buf);
	return rel->rd_amcache;
}

/*
 * A reload of the relcache entry frees the copy: the pointer is good until something may process
 * invalidations (locking a relation, running other people's functions).
 */
const MtpHashMeta *
mtp_hash_meta(Relation rel, bool fresh)
{
	if (fresh || rel->rd_amcache == NULL)
		return load_meta(rel);
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

static inline bool
is_bucket_of(Page page, uint32 hash)
{
	MtpHashHeader *h = MtpHashHead(page);

	return h->type == MTP_HASH_BUCKET && h->page_id == MTP_PAGE_ID &&
		h->format == MTP_HASH_FORMAT && h->lo <= hash && hash <= h->hi && counts_fit(page);
}

/*
 * A bucket has one block for ever, so an old copy of the metapage leads to a page that the hash
 * belonged to once; the page's interval tells whether it still does.  A split changes both pages and
 * the metapage while it has all of them locked: who finds a page that has been split finds the new
 * metapage as well, unless the index is corrupted.
 */
Buffer
mtp_hash_find(Relation rel, uint32 hash, int lock)
{
	const MtpHashMeta *meta = mtp_hash_meta(rel, false);

	for (;;)
	{
		MtpHashSpace space = meta->space;
		Buffer		buf = ReadBuffer(rel, mtp_hash_block(meta, mtp_space_bucket(&space, hash)));
		Page		page = BufferGetPage(buf);

		/* The header, with filter and heavy hashes; fingerprints follow. */
		for (int i = 0; i < 4; i++)
			__builtin_prefetch((char *) page + i * 64);
		LockBuffer(buf, lock);
		if (likely(is_bucket_of(page, hash)))
			return buf;
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);

		meta = mtp_hash_meta(rel, true);
		if (memcmp(&meta->space, &space, sizeof(space)) == 0)
		{
			BlockNumber blkno = BufferGetBlockNumber(buf);

			LockBuffer(buf, BUFFER_LOCK_SHARE);
			mtp_hash_check_page(rel, buf, MTP_HASH_WANT_BUCKET);
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("bucket at block %u of index \"%s\" does not have the hashes that its metapage gives it",
							blkno, RelationGetRelationName(rel)),
					 errhint("Please REINDEX it.")));
		}
		ReleaseBuffer(buf);
	}
}

/*
 * The lock of a page out of the free space map is taken only if it is to be had at once, since the
 * caller has pages of a bucket locked; whoever holds it uses the page anyway.
 *
 * Only pages that say so are free: the map survives no crash, and what it says about a zero page may
 * be about one that an extent has got since.  VACUUM makes free pages of zero ones that failed growth left.
 */
Buffer
mtp_hash_alloc(Relation rel)
{
	BlockNumber blkno;

	while ((blkno = GetFreeIndexPage(rel)) != InvalidBlockNumber)
	{
		Buffer		buf = ReadBuffer(rel, blkno);
		Page		page = BufferGetPage(buf);

		if (!ConditionalLockBuffer(buf))
		{
			ReleaseBuffer(buf);
			continue;
		}
		if (!PageIsNew(page) && MtpHashHead(page)->page_id == MTP_PAGE_ID &&
			MtpHashHead(page)->type == MTP_HASH_FREE)
			return buf;
		UnlockReleaseBuffer(buf);
	}
	return mtp_extend_relation(rel);
}
