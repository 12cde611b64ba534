/*
 * redo.c
 *	  Replays and describes the hash index's records.
 *
 * Replay takes all pages' locks before it changes the first and drops them after the last, in the
 * order in which the primary took them: a reader on a standby holds one lock at a time, and so
 * sees a change whole.  Where entries move, the locks on primary pages are cleanup locks: a scan
 * that stays in a bucket has its primary page pinned (H4).
 */
#include "core/core.h"

#include "access/xlogutils.h"
#include "hash/change.h"
#include "index/dead.h"

static void
release_blocks(XLogReaderState *record, Buffer *bufs)
{
	for (int i = 0; i <= XLogRecMaxBlockId(record); i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}

static void
finish_block(XLogReaderState *record, Buffer buf)
{
	PageSetLSN(BufferGetPage(buf), record->EndRecPtr);
	MarkBufferDirty(buf);
}

/* Reads and locks a block, with a cleanup lock if asked for; says what is to be done with it. */
static XLogRedoAction
read_block(XLogReaderState *record, int block, bool cleanup, Buffer *bufs)
{
	return XLogReadBufferForRedoExtended(record, block, RBM_NORMAL, cleanup, &bufs[block]);
}

/* Restores a block from its image, and leaves it locked. */
static void
restore_block(XLogReaderState *record, int block, bool cleanup, Buffer *bufs)
{
	if (read_block(record, block, cleanup, bufs) != BLK_RESTORED)
		elog(ERROR, "block %d of an mtpower hash record has no image", block);
}

/* The same for the blocks from `first` to the last one. */
static void
restore(XLogReaderState *record, int first, Buffer *bufs)
{
	for (int i = first; i <= XLogRecMaxBlockId(record); i++)
		restore_block(record, i, false, bufs);
}

/*
 * Locks the primary page first, as the inserter did.  The filter and the page change at one
 * moment.
 */
static void
redo_insert(XLogReaderState *record)
{
	MtpWalHashInsert *rec = (MtpWalHashInsert *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	XLogRedoAction primary = XLogRecHasBlockRef(record, 1) ?
	read_block(record, 1, false, bufs) : BLK_DONE;
	XLogRedoAction page = read_block(record, 0, false, bufs);
	MtpHashEntry *entries = (MtpHashEntry *) XLogRecGetBlockData(record, 0, NULL);

	if (page == BLK_NEEDS_REDO)
	{
		mtp_hash_bucket_append(BufferGetPage(bufs[0]), rec->n, entries);
		finish_block(record, bufs[0]);
	}
	if (primary == BLK_NEEDS_REDO)
	{
		mtp_hash_filter_entries(MtpHashPrimaryOf(BufferGetPage(bufs[1])), rec->n, entries);
		finish_block(record, bufs[1]);
	}
	release_blocks(record, bufs);
}

/* Makes the stash page anew, before the primary page leads to it. */
static void
redo_add(XLogReaderState *record)
{
	MtpWalHashAdd *rec = (MtpWalHashAdd *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	XLogRedoAction primary = read_block(record, 0, false, bufs);
	MtpHashEntry *entries = (MtpHashEntry *) XLogRecGetBlockData(record, 1, NULL);

	bufs[1] = XLogInitBufferForRedo(record, 1);
	mtp_hash_make_stash(BufferGetPage(bufs[1]), rec, entries);
	finish_block(record, bufs[1]);
	if (primary == BLK_NEEDS_REDO)
	{
		mtp_hash_link(MtpHashPrimaryOf(BufferGetPage(bufs[0])), BufferGetBlockNumber(bufs[1]), rec,
					  entries);
		finish_block(record, bufs[0]);
	}
	release_blocks(record, bufs);
}

/*
 * Waits for the old bucket's cleanup lock first, with nothing else locked (H10).  The new bucket
 * has no readers yet.  A split of the stash as well has an image of block 0; else it keeps what
 * stays, by the function that the primary has used.  The locks on both buckets and the metapage
 * keep the halves of H3 together for readers.
 */
static void
redo_split(XLogReaderState *record)
{
	MtpWalHashSplit *rec = (MtpWalHashSplit *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	XLogRedoAction old = read_block(record, 0, true, bufs);
	XLogRedoAction meta;

	restore_block(record, 1, false, bufs);
	meta = read_block(record, 2, false, bufs);
	restore(record, 3, bufs);
	if (old == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(bufs[0]);

		mtp_hash_bucket_retain(page, MtpHashHead(page)->lo, rec->hi);
		finish_block(record, bufs[0]);
	}
	if (meta == BLK_NEEDS_REDO)
	{
		MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(bufs[2]));

		(void) mtp_hash_space_grow(&m->space);
		m->entries = rec->entries;
		finish_block(record, bufs[2]);
	}
	release_blocks(record, bufs);
}

/* Restores the metapage, and an extent's last page, which makes the file as long. */
static void
redo_meta(XLogReaderState *record)
{
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	restore(record, 0, bufs);
	release_blocks(record, bufs);
}

/*
 * Takes cleanup locks on two pages, and waits for neither while it holds the other (H10).  A
 * query that has one page pinned may wait for the other's content lock, and nothing can end that
 * wait.
 */
static void
lock_both(Buffer a, Buffer b)
{
	for (;;)
	{
		Buffer		swap = a;

		LockBufferForCleanup(a);
		if (ConditionalLockBufferForCleanup(b))
			return;
		LockBuffer(a, BUFFER_LOCK_UNLOCK);
		a = b;
		b = swap;
	}
}

/*
 * Restores all pages from their images.  Where there are two primary pages, XLogReadBufferForRedo
 * would lock one after the other; so this only pins them at first, and what they hold does not
 * matter.
 */
static void
redo_pages(XLogReaderState *record)
{
	MtpWalHashPages *rec = (MtpWalHashPages *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	if (!rec->two)
		restore_block(record, 0, true, bufs);
	else
	{
		for (int i = 0; i < 2; i++)
		{
			MtpLocator	locator;
			ForkNumber	fork;
			BlockNumber blkno;

			XLogRecGetBlockTag(record, i, &locator, &fork, &blkno);
			bufs[i] = XLogReadBufferExtended(locator, fork, blkno, RBM_ZERO_ON_ERROR,
											 InvalidBuffer);
		}
		lock_both(bufs[0], bufs[1]);
		for (int i = 0; i < 2; i++)
		{
			if (!XLogRecBlockImageApply(record, i) ||
				!RestoreBlockImage(record, i, BufferGetPage(bufs[i])))
				elog(ERROR, "block %d of an mtpower hash record has no image", i);
			finish_block(record, bufs[i]);
		}
	}
	restore(record, rec->two ? 2 : 1, bufs);
	release_blocks(record, bufs);
}

static void
redo_delete(XLogReaderState *record)
{
	mtp_dead_redo(record, mtp_hash_bucket_delete);
}

/* Waits for the primary page first (H10): a scan with a pin there may need any of its pages. */
static void
redo_vacuum(XLogReaderState *record)
{
	MtpWalHashVacuum *rec = (MtpWalHashVacuum *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	bool		chained = XLogRecHasBlockRef(record, 1);

	if (read_block(record, 0, true, bufs) == BLK_NEEDS_REDO)
		mtp_dead_redo_page(record, 0, bufs[0], chained ? 0 : rec->n, mtp_hash_bucket_delete);
	if (chained && read_block(record, 1, false, bufs) == BLK_NEEDS_REDO)
		mtp_dead_redo_page(record, 1, bufs[1], rec->n, mtp_hash_bucket_delete);
	release_blocks(record, bufs);
}

static void
describe(StringInfo buf, XLogReaderState *record)
{
	char	   *data = XLogRecGetData(record);
	MtpWalHashAdd *add = (MtpWalHashAdd *) data;
	MtpWalHashSplit *split = (MtpWalHashSplit *) data;
	int			blocks = XLogRecMaxBlockId(record) + 1;

	switch (XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK)
	{
		case MTP_WAL_HASH_INSERT:
			appendStringInfo(buf, "entries %u filter %u", ((MtpWalHashInsert *) data)->n,
							 XLogRecHasBlockRef(record, 1));
			break;
		case MTP_WAL_HASH_ADD:
			appendStringInfo(buf, "bucket %u entries %u next %u", add->bucket, add->n, add->next);
			if (add->heavy)
				appendStringInfo(buf, " heavy %08X", add->hash);
			break;
		case MTP_WAL_HASH_SPLIT:
			appendStringInfo(buf, "hi %08X whole %u entries " UINT64_FORMAT, split->hi,
							 split->whole, split->entries);
			break;
		case MTP_WAL_HASH_META:
			appendStringInfo(buf, "blocks %d", blocks);
			break;
		case MTP_WAL_HASH_VACUUM:
			appendStringInfo(buf, "entries %u", ((MtpWalHashVacuum *) data)->n);
			break;
		case MTP_WAL_HASH_PAGES:
			appendStringInfo(buf, "blocks %d two %u", blocks, ((MtpWalHashPages *) data)->two);
			break;
	}
}

void
mtp_hash_redo_init(void)
{
	/* In the order of their ids, which follow one another: wal.h. */
	static const MtpWalRecord records[] = {
		{"HASH_INSERT", redo_insert, describe},
		{"HASH_ADD", redo_add, describe},
		{"HASH_SPLIT", redo_split, describe},
		{"HASH_META", redo_meta, describe},
		{"HASH_DELETE", redo_delete, mtp_dead_desc},
		{"HASH_VACUUM", redo_vacuum, describe},
		{"HASH_PAGES", redo_pages, describe}
	};

	StaticAssertStmt(MTP_WAL_HASH_PAGES == MTP_WAL_HASH_INSERT + ((lengthof(records) - 1) << 4),
					 "a record for each id");
	mtp_wal_mask(MTP_HASH_META, mtp_hash_bucket_mask);
	for (int i = 0; i < lengthof(records); i++)
		mtp_wal_record(MTP_WAL_HASH_INSERT + (i << 4), &records[i]);
}
