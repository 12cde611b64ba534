/*
 * page.c
 *	  Reads and checks pages, and finds one for new content.
 */
#include "hash/hash.h"

#include "storage/buf_internals.h"
#include "storage/indexfsm.h"
#include "wal/stop.h"

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
		!mtp_bucket_counts_fit(page))
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

static void
fail_again(Relation rel, BlockNumber blkno)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("links between pages of index \"%s\" lead to block %u more than once",
					RelationGetRelationName(rel), blkno),
			 errhint("Please REINDEX it.")));
}

/* Has this process locked the page?  Only where links are damaged is it asked for again. */
static inline bool
is_locked_by_us(Buffer buf)
{
	return !BufferIsLocal(buf) &&
		LWLockHeldByMe(BufferDescriptorGetContentLock(GetBufferDescriptor(buf - 1)));
}

Buffer
mtp_hash_read(Relation rel, BlockNumber blkno, int lock, int want, BufferAccessStrategy strategy)
{
	Buffer		buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);

	if (lock != BUFFER_LOCK_UNLOCK)
	{
		/* To wait for oneself is to wait for ever, and nothing ends it. */
		if (unlikely(is_locked_by_us(buf)))
			fail_again(rel, blkno);
		LockBuffer(buf, lock);
		mtp_hash_check_page(rel, buf, want);
	}
	return buf;
}

void
mtp_hash_walk_step(Relation rel, MtpHashWalk *w, BlockNumber blkno)
{
	if (w->steps > 0 && blkno == w->mark)
		fail_again(rel, blkno);
	if ((w->steps & (w->steps - 1)) == 0)
		w->mark = blkno;
	w->steps++;
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

	MTP_STOP_POINT("hash_page");
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
