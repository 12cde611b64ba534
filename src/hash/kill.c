/*
 * kill.c
 *	  Makes room on a full page from entries whose rows are dead, before the bucket gets a further page.
 *
 * The table has the last word on what is dead and tells the standbys' conflict horizon.
 */
#include "hash/hash.h"

#include "access/tableam.h"
#include "access/xlog.h"
#include "hash/wal_records.h"

static void
delete_entries(Relation rel, Buffer buf, int n, const uint16 *at, TransactionId horizon)
{
	MtpWalHashDelete rec = {.n = n};
	MtpChange	c;

	rec.horizon = XLogStandbyInfoActive() ? horizon : InvalidTransactionId;
	mtp_change_init(&c, rel, MTP_WAL_HASH_DELETE);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_begin(&c);
	mtp_bucket_delete(BufferGetPage(buf), n, at);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, at, n * sizeof(uint16));
	mtp_change_finish(&c);
}

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static inline BlockNumber
entry_block(Page page, int i)
{
	return ItemPointerGetBlockNumber(&MtpHashEntryAt(page, i)->tid);
}

/* The table's blocks that dead-marked entries lead to, sorted; returns how many (with repetitions). */
static int
dead_blocks(Page page, BlockNumber *blocks)
{
	int			n = 0;

	for (int i = 0; i < MtpHashHead(page)->n; i++)
		if (MtpHashFps(page)[i] == MTP_FP_DEAD)
			blocks[n++] = entry_block(page, i);
	qsort(blocks, n, sizeof(BlockNumber), compare_blocks);
	return n;
}

static int
compare_ids(const void *a, const void *b)
{
	return ((const TM_IndexDelete *) a)->id - ((const TM_IndexDelete *) b)->id;
}

/*
 * Asks about all entries that lead to the blocks: the table has to read them anyway, for the horizon.  Ids are in
 * the order of the page.
 */
static void
ask(TM_IndexDeleteOp *op, Page page, const BlockNumber *blocks, int nblocks)
{
	for (int i = 0; i < MtpHashHead(page)->n; i++)
	{
		BlockNumber block = entry_block(page, i);
		int			id = op->ndeltids;

		if (!bsearch(&block, blocks, nblocks, sizeof(BlockNumber), compare_blocks))
			continue;
		op->ndeltids++;
		op->deltids[id].tid = MtpHashEntryAt(page, i)->tid;
		op->deltids[id].id = id;
		op->status[id].idxoffnum = i + 1;	/* an OffsetNumber starts from 1 */
		op->status[id].knowndeletable = MtpHashFps(page)[i] == MTP_FP_DEAD;
	}
}

/* Collects what the table found dead; ascending. */
static int
collect(TM_IndexDeleteOp *op, uint16 *at)
{
	int			n = 0;

	/* The table has put them into an order of its own. */
	qsort(op->deltids, op->ndeltids, sizeof(TM_IndexDelete), compare_ids);
	for (int i = 0; i < op->ndeltids; i++)
	{
		TM_IndexStatus *status = &op->status[op->deltids[i].id];

		if (status->knowndeletable)
			at[n++] = status->idxoffnum - 1;
	}
	return n;
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
	uint16		at[MTP_HASH_MAX_ENTRIES];
	TM_IndexDeleteOp op = {0};
	TransactionId horizon;
	int			nblocks;
	int			n;

	if (heap == NULL || (MtpHashHead(page)->flags & MTP_HASH_HAS_DEAD) == 0)
		return false;
	nblocks = dead_blocks(page, blocks);
	if (nblocks == 0)
		return false;
	op.irel = rel;
	op.iblknum = BufferGetBlockNumber(buf);
	op.deltids = palloc(MtpHashHead(page)->n * sizeof(TM_IndexDelete));
	op.status = palloc0(MtpHashHead(page)->n * sizeof(TM_IndexStatus));
	ask(&op, page, blocks, nblocks);

	horizon = table_index_delete_tuples(heap, &op);
	n = collect(&op, at);
	if (n > 0)
		delete_entries(rel, buf, n, at, horizon);
	pfree(op.deltids);
	pfree(op.status);
	return n > 0;
}
