/*
 * redo_vacuum.c
 *	  Replays what takes items and pages out of a B-link tree: deletions, VACUUM, page deletion, reuse.
 *
 * On a hot standby queries run beside this.  README.md, "VACUUM and scans" and "Page deletion", says
 * what they may meet.
 */
#include "blink/blink.h"

#include "access/xlogutils.h"
#include "blink/wal_deletes.h"
#include "storage/standby.h"
#include "index/dead.h"
#include "index/passed.h"

static void
redo_delete(XLogReaderState *record)
{
	mtp_dead_redo(record, mtp_page_delete);
}

static void
redo_vacuum(XLogReaderState *record)
{
	MtpWalVacuum *rec = (MtpWalVacuum *) XLogRecGetData(record);
	Buffer		buf;

	if (!XLogRecHasBlockRef(record, 0))
	{
		mtp_wal_redo_passed(record);
		return;
	}
	if (XLogReadBufferForRedoExtended(record, 0, RBM_NORMAL, rec->nitems > 0, &buf) == BLK_NEEDS_REDO)
	{
		mtp_dead_redo_page(record, 0, buf, rec->nitems, mtp_page_delete);
		MtpHead(BufferGetPage(buf))->cycleid = 0;
	}
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

/* Makes block `block` of the record the deleted page that mtp_blink_mark_deleted made of it. */
static Buffer
redo_deleted_page(XLogReaderState *record, int block, uint16 level, BlockNumber left,
				  BlockNumber right, FullTransactionId safexid)
{
	Buffer		buf = XLogInitBufferForRedo(record, block);
	Page		page = BufferGetPage(buf);

	mtp_blink_mark_deleted(page, level, left, right, safexid);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	return buf;
}

static BlockNumber
block_number(XLogReaderState *record, int block)
{
	BlockNumber blkno;

	XLogRecGetBlockTag(record, block, NULL, NULL, &blkno);
	return blkno;
}

/*
 * All pages are locked, in the primary's order, before any lock is released: a reader sees the tree
 * before or after.
 */
static void
redo_unlink(XLogReaderState *record)
{
	MtpWalUnlink *rec = (MtpWalUnlink *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1];
	int			n = 0;
	BlockNumber right = InvalidBlockNumber;

	for (int level = 0; level < rec->levels; level++)
	{
		bool		has_left = (rec->lefts & (1U << level)) != 0;
		BlockNumber left = has_left ? block_number(record, n) : InvalidBlockNumber;
		int			at = n + (has_left ? 1 : 0);

		right = block_number(record, at + 1);
		if (has_left && XLogReadBufferForRedo(record, n, &bufs[n]) == BLK_NEEDS_REDO)
		{
			MtpHead(BufferGetPage(bufs[n]))->right = right;
			PageSetLSN(BufferGetPage(bufs[n]), record->EndRecPtr);
			MarkBufferDirty(bufs[n]);
		}
		bufs[at] = redo_deleted_page(record, at, level, left, right, rec->safexid);
		if (XLogReadBufferForRedo(record, at + 1, &bufs[at + 1]) == BLK_NEEDS_REDO)
		{
			MtpHead(BufferGetPage(bufs[at + 1]))->left = left;
			PageSetLSN(BufferGetPage(bufs[at + 1]), record->EndRecPtr);
			MarkBufferDirty(bufs[at + 1]);
		}
		n = at + 2;
	}
	if (XLogReadBufferForRedo(record, n, &bufs[n]) == BLK_NEEDS_REDO)
	{
		mtp_blink_drop_downlink(BufferGetPage(bufs[n]), rec->pos, right);
		PageSetLSN(BufferGetPage(bufs[n]), record->EndRecPtr);
		MarkBufferDirty(bufs[n]);
	}
	for (int i = 0; i <= n; i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}

static void
redo_reuse(XLogReaderState *record)
{
	MtpWalReuse *rec = (MtpWalReuse *) XLogRecGetData(record);

	if (InHotStandby)
		MtpResolveSnapshotConflictFullXid(rec->safexid, rec->locator);
}

static void
desc_vacuum(StringInfo buf, XLogReaderState *record)
{
	if (XLogRecHasBlockRef(record, 0))
		appendStringInfo(buf, "items %u", ((MtpWalVacuum *) XLogRecGetData(record))->nitems);
	else
		mtp_wal_desc_passed(buf, record);
}

static void
desc_unlink(StringInfo buf, XLogReaderState *record)
{
	MtpWalUnlink *rec = (MtpWalUnlink *) XLogRecGetData(record);

	appendStringInfo(buf, "levels %u pos %u safexid %u:%u", rec->levels, rec->pos,
					 EpochFromFullTransactionId(rec->safexid),
					 XidFromFullTransactionId(rec->safexid));
}

static void
desc_reuse(StringInfo buf, XLogReaderState *record)
{
	MtpWalReuse *rec = (MtpWalReuse *) XLogRecGetData(record);

	appendStringInfo(buf, "block %u safexid %u:%u", rec->block,
					 EpochFromFullTransactionId(rec->safexid),
					 XidFromFullTransactionId(rec->safexid));
}

static const MtpWalRecord delete_record = {"BLINK_DELETE", redo_delete, mtp_dead_desc};
static const MtpWalRecord vacuum_record = {"BLINK_VACUUM", redo_vacuum, desc_vacuum};
static const MtpWalRecord unlink_record = {"BLINK_UNLINK", redo_unlink, desc_unlink};
static const MtpWalRecord reuse_record = {"BLINK_REUSE", redo_reuse, desc_reuse};

void
mtp_blink_redo_vacuum_init(void)
{
	mtp_wal_record(MTP_WAL_DELETE, &delete_record);
	mtp_wal_record(MTP_WAL_VACUUM, &vacuum_record);
	mtp_wal_record(MTP_WAL_UNLINK, &unlink_record);
	mtp_wal_record(MTP_WAL_REUSE, &reuse_record);
}
