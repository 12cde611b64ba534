/*
 * delete_dead.c
 *	  Makes room on a full page from entries whose rows are dead, before the bucket gets a further
 *	  page.
 *
 * The table decides what is dead, and gives the horizon for conflicts on standbys.
 */
#include "hash/hash.h"

#include "index/dead.h"

/*
 * Asks the table about all entries that lead to the same blocks as those that are marked dead: it
 * must read these blocks anyway, for the horizon.
 *
 * An exclusive lock on the page is enough.  A scan copies what it wants from a page at once, so
 * it misses no entry that takes a deleted one's place.  A TID that it has copied is not used
 * again before VACUUM has had a cleanup lock on the bucket, which waits for the scan (H9).
 */
bool
mtp_hash_reclaim(Relation rel, Relation heap, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	const uint8 *fps = MtpHashFps(page);
	int			n = MtpHashHead(page)->n;
	BlockNumber blocks[MTP_HASH_MAX_ENTRIES];
	TM_IndexDeleteOp *op;
	int			nblocks = 0;

	if (heap == NULL || (MtpHashHead(page)->flags & MTP_HASH_HAS_DEAD) == 0)
		return false;
	for (int i = 0; i < n; i++)
		if (fps[i] == MTP_FP_DEAD)
			blocks[nblocks++] = ItemPointerGetBlockNumber(&mtp_hash_entry(rel, buf, i)->tid);
	if (nblocks == 0)
		return false;
	mtp_dead_sort_blocks(blocks, nblocks);
	op = mtp_dead_begin(rel, buf, n);
	for (int i = 0; i < n; i++)
	{
		ItemPointer tid = &mtp_hash_entry(rel, buf, i)->tid;

		if (mtp_dead_has_block(blocks, nblocks, ItemPointerGetBlockNumber(tid)))
			mtp_dead_ask(op, i, tid)->knowndeletable = fps[i] == MTP_FP_DEAD;
	}
	return mtp_dead_delete(op, heap, buf, MTP_WAL_HASH_DELETE, mtp_hash_bucket_delete);
}
