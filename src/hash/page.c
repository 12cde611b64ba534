/*
 * page.c
 *	  Reads and checks pages, and finds a page for new content.
 */
#include "hash/hash.h"

#include "core/inject.h"
#include "index/vacuum.h"

void
mtp_hash_check_page(Relation rel, Buffer buf, int want)
{
	Page		page = BufferGetPage(buf);
	MtpHashHeader *h = MtpHashHead(page);

	if (PageIsNew(page))
		mtp_hash_corrupted("index \"%s\" contains unexpected zero page at block %u",
						   RelationGetRelationName(rel), BufferGetBlockNumber(buf));
	if (h->page_id != MTP_PAGE_ID || h->type < MTP_HASH_META || h->type > MTP_HASH_FREE ||
		!mtp_hash_bucket_counts_fit(page))
		mtp_hash_corrupted("index \"%s\" contains corrupted page at block %u",
						   RelationGetRelationName(rel), BufferGetBlockNumber(buf));
	if (h->format != MTP_HASH_FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains a page of unknown format %u at block %u",
						RelationGetRelationName(rel), h->format, BufferGetBlockNumber(buf)),
				 errhint("It was written by a later version of mtpower, or is corrupted.")));
	if ((want & (1 << (h->type - MTP_HASH_META))) == 0)
		mtp_hash_corrupted("index \"%s\" contains a page of unexpected type %u at block %u",
						   RelationGetRelationName(rel), h->type, BufferGetBlockNumber(buf));
}

void
mtp_hash_check_block(Relation rel, BlockNumber blkno)
{
	if (unlikely(mtp_link_beyond(rel, blkno)))
		mtp_link_fail(rel, blkno, true);
}

Buffer
mtp_hash_read(Relation rel, BlockNumber blkno, int lock, int want, BufferAccessStrategy strategy)
{
	Buffer		buf;

	mtp_hash_check_block(rel, blkno);
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);
	if (lock != BUFFER_LOCK_UNLOCK)
	{
		if (unlikely(mtp_link_locked(buf)))
			mtp_link_fail(rel, blkno, false);
		LockBuffer(buf, lock);
		mtp_hash_check_page(rel, buf, want);
	}
	return buf;
}

/*
 * Growth writes such a page as a whole, so it must not be in use, which a damaged metapage may
 * lead to.  It is zero, or growth that did not come to its end has made it for this very bucket.
 */
Buffer
mtp_hash_read_reserved(Relation rel, const MtpHashMeta *meta, uint32 bucket)
{
	BlockNumber blkno = mtp_hash_block(meta, bucket);
	Buffer		buf = mtp_hash_read(rel, blkno, BUFFER_LOCK_UNLOCK, 0, NULL);
	MtpHashHeader *h = MtpHashHead(BufferGetPage(buf));

	if (unlikely(mtp_link_locked(buf)))
		mtp_link_fail(rel, blkno, false);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	if (!PageIsNew(BufferGetPage(buf)) &&
		(h->page_id != MTP_PAGE_ID || h->type != MTP_HASH_BUCKET || h->bucket != bucket))
		mtp_hash_corrupted("index \"%s\" is to get bucket %u at block %u, which is in use",
						   RelationGetRelationName(rel), bucket, blkno);
	return buf;
}

void
mtp_hash_walk_step(Relation rel, MtpWalk *w, BlockNumber blkno)
{
	if (mtp_walk_again(w, blkno))
		mtp_link_fail(rel, blkno, false);
}

/*
 * Only a page that says so is free: what the map says about a zero page may be about one that an
 * extent has got since.  VACUUM makes zero pages that failed growth left free (H11).
 */
static bool
is_free(Page page)
{
	return !PageIsNew(page) && MtpHashHead(page)->page_id == MTP_PAGE_ID &&
		MtpHashHead(page)->type == MTP_HASH_FREE;
}

Buffer
mtp_hash_alloc(Relation rel)
{
	MTP_INJECT("hash_page");
	return mtp_index_alloc(rel, is_free);
}
