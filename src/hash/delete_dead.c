/*
 * delete_dead.c
 *	  Makes room on a full page from entries whose rows are dead, before the bucket gets a further page.
 *
 * The table has the last word on what is dead and tells the standbys' conflict horizon.
 */
#include "hash/hash.h"

#include "index/dead.h"

static inline BlockNumber
entry_block(Relation rel, Buffer buf, int i)
{
	return ItemPointerGetBlockNumber(&mtp_hash_entry(rel, buf, i)->tid);
}

/* The table's blocks that dead-marked entries lead to, sorted; returns how many (with repetitions). */
static int
dead_blocks(Relation rel, Buffer buf, BlockNumber *blocks)
{
	Page		page = BufferGetPage(buf);
	int			n = 0;

	for (int i = 0; i < MtpHashHead(page)->n; i++)
		if (MtpHashFps(page)[i] == MTP_FP_DEAD)
			blocks[n++] = entry_block(rel, buf, i);
	mtp_dead_sort_blocks(blocks, n);
	return n;
}

/* Asks about all entries that lead to the blocks: the table has to read them anyway, for the horizon. */
static void
ask(TM_IndexDeleteOp *op, Buffer buf, const BlockNumber *blocks, int nblocks)
{
	Page		page = BufferGetPage(buf);

	for (int i = 0; i < MtpHashHead(page)->n; i++)
		if (mtp_dead_has_block(blocks, nblocks, entry_block(op->irel, buf, i)))
			mtp_dead_ask(op, i, &MtpHashEntryAt(page, i)->tid)->knowndeletable =
				MtpHashFps(page)[i] == MTP_FP_DEAD;
}

/*
 * The page is exclusively locked, no more: a scan copies what it wants from a page at once, so it does
 * not miss an entry that takes a deleted one's place; and a TID that it has copied is not used again
 * before a VACUUM has been to the bucket, which waits for the scan.
 */
bool
mtp_hash_reclaim(Relation rel, Relation heap, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	BlockNumber blocks[MTP_HASH_MAX_ENTRIES];
	TM_IndexDeleteOp *op;
	int			nblocks;

	if (heap == NULL || (MtpHashHead(page)->flags & MTP_HASH_HAS_DEAD) == 0)
		return false;
	nblocks = dead_blocks(rel, buf, blocks);
	if (nblocks == 0)
		return false;
	op = mtp_dead_begin(rel, buf, MtpHashHead(page)->n);
	ask(op, buf, blocks, nblocks);
	return mtp_dead_delete(op, heap, buf, MTP_WAL_HASH_DELETE, mtp_hash_bucket_delete);
}
