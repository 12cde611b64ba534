/*
 * redo.c
 *	  Replays and describes insertions, splits and new roots.
 *
 * Redo takes all pages' locks before it changes the first and drops them after the last, in the
 * order of the primary: a reader on a standby, who holds one lock at a time, sees a change whole.
 */
#include "blink/blink.h"

#include "access/xlogutils.h"
#include "blink/wal_records.h"

/* Last block reference of a record plus one. */
static int
block_count(XLogReaderState *record)
{
	return XLogRecMaxBlockId(record) + 1;
}

/* Clears MTP_INCOMPLETE on the record's blocks from `first` on; keeps them locked in bufs. */
static void
redo_children(XLogReaderState *record, int first, Buffer *bufs)
{
	for (int i = first; i < block_count(record); i++)
	{
		if (XLogReadBufferForRedo(record, i, &bufs[i]) != BLK_NEEDS_REDO)
			continue;
		MtpHead(BufferGetPage(bufs[i]))->flags &= ~MTP_INCOMPLETE;
		PageSetLSN(BufferGetPage(bufs[i]), record->EndRecPtr);
		MarkBufferDirty(bufs[i]);
	}
}

static void
release(Buffer *bufs, int n)
{
	for (int i = 0; i < n; i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}

static void
redo_insert(XLogReaderState *record)
{
	MtpWalInsert *rec = (MtpWalInsert *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	/* Children first: on the primary they are locked before their parent. */
	redo_children(record, 1, bufs);
	if (XLogReadBufferForRedo(record, 0, &bufs[0]) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(bufs[0]);
		Size		len;
		char	   *data = XLogRecGetBlockData(record, 0, &len);
		int			n = rec->nitems;
		uint16	   *pos = palloc(n * sizeof(uint16));
		IndexTuple *items = palloc(n * sizeof(IndexTuple));
		uint64	   *norms = palloc(n * sizeof(uint64));
		char	   *copy = palloc(len);

		memcpy(pos, data, n * sizeof(uint16));
		memcpy(copy, data + n * sizeof(uint16), len - n * sizeof(uint16));
		for (int i = 0, at = 0; i < n; i++)
		{
			items[i] = (IndexTuple) (copy + at);
			norms[i] = mtp_norm_tuple(MtpHead(page)->norm, items[i]);
			at += MAXALIGN(IndexTupleSize(items[i]));
		}
		mtp_page_insert(page, n, pos, items, norms);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(bufs[0]);
		pfree(pos);
		pfree(items);
		pfree(norms);
		pfree(copy);
	}
	release(bufs, block_count(record));
}

/* Rebuilds a page from its header and bodies (see wal_records.h). */
static void
redo_page(XLogReaderState *record, int block, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	Size		len;
	char	   *data = XLogRecGetBlockData(record, block, &len);
	MtpPageHeader h;
	char	   *bodies;
	IndexTuple *items;
	IndexTuple	high = NULL;
	int			n;
	Size		at = 0;

	memcpy(&h, data, sizeof(h));
	len -= sizeof(h);
	bodies = palloc(Max(len, 1));
	memcpy(bodies, data + sizeof(h), len);
	items = palloc(Max(h.nitems, 1) * sizeof(IndexTuple));
	for (n = h.nitems; n > 0;)
	{
		items[--n] = (IndexTuple) (bodies + at);
		at += MAXALIGN(IndexTupleSize(items[n]));
	}
	if (h.highkey != 0)
		high = (IndexTuple) (bodies + at);

	mtp_page_init(page, h.type, h.level, h.norm);
	MtpHead(page)->flags = h.flags;
	MtpHead(page)->left = h.left;
	MtpHead(page)->right = h.right;
	MtpHead(page)->cycleid = h.cycleid;
	if (h.nitems > 0)
		mtp_page_pack(page, h.nitems, items, high);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	pfree(bodies);
	pfree(items);
}

static void
redo_split(XLogReaderState *record)
{
	MtpWalSplit *rec = (MtpWalSplit *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	int			next = rec->k + (rec->has_right ? 1 : 0);

	redo_children(record, next, bufs);
	for (int i = 0; i < rec->k; i++)
		bufs[i] = XLogInitBufferForRedo(record, i);
	if (rec->has_right && XLogReadBufferForRedo(record, rec->k, &bufs[rec->k]) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(bufs[rec->k]);

		MtpHead(page)->left = BufferGetBlockNumber(bufs[rec->k - 1]);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(bufs[rec->k]);
	}
	for (int i = rec->k - 1; i >= 0; i--)
	{
		Assert(i == rec->k - 1 ||
			   MtpHead(BufferGetPage(bufs[i + 1]))->left == BufferGetBlockNumber(bufs[i]));
		redo_page(record, i, bufs[i]);
	}
	release(bufs, block_count(record));
}

static void
redo_newroot(XLogReaderState *record)
{
	MtpWalNewRoot *rec = (MtpWalNewRoot *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	redo_children(record, 2, bufs);
	bufs[0] = XLogInitBufferForRedo(record, 0);
	bufs[1] = XLogInitBufferForRedo(record, 1);
	redo_page(record, 1, bufs[1]);
	mtp_blink_meta_init(BufferGetPage(bufs[0]), rec->root, rec->level);
	PageSetLSN(BufferGetPage(bufs[0]), record->EndRecPtr);
	MarkBufferDirty(bufs[0]);
	release(bufs, block_count(record));
}

static void
desc_insert(StringInfo buf, XLogReaderState *record)
{
	MtpWalInsert *rec = (MtpWalInsert *) XLogRecGetData(record);

	appendStringInfo(buf, "items %u children %d", rec->nitems, block_count(record) - 1);
}

static void
desc_split(StringInfo buf, XLogReaderState *record)
{
	MtpWalSplit *rec = (MtpWalSplit *) XLogRecGetData(record);

	appendStringInfo(buf, "pages %u right %u children %d", rec->k, rec->has_right,
					 block_count(record) - rec->k - rec->has_right);
}

static void
desc_newroot(StringInfo buf, XLogReaderState *record)
{
	MtpWalNewRoot *rec = (MtpWalNewRoot *) XLogRecGetData(record);

	appendStringInfo(buf, "root %u level %u", rec->root, rec->level);
}

static const MtpWalRecord insert_record = {"BLINK_INSERT", redo_insert, desc_insert};
static const MtpWalRecord split_record = {"BLINK_SPLIT", redo_split, desc_split};
static const MtpWalRecord newroot_record = {"BLINK_NEWROOT", redo_newroot, desc_newroot};

void
mtp_blink_redo_init(void)
{
	mtp_wal_mask(0, mtp_page_mask);
	mtp_wal_record(MTP_WAL_INSERT, &insert_record);
	mtp_wal_record(MTP_WAL_SPLIT, &split_record);
	mtp_wal_record(MTP_WAL_NEWROOT, &newroot_record);
}
