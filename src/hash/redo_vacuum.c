/*
 * redo_vacuum.c
 *	  Replays deletions of entries: by inserters, who make room, and by VACUUM.
 *
 * On a hot standby queries run beside this.  README.md, "VACUUM", says what they may meet.
 */
#include "hash/hash.h"

#include "access/xlogutils.h"
#include "hash/wal_records.h"
#include "storage/standby.h"

/* Takes the entries that the block's data names out of its page. */
static void
redo_deletes(XLogReaderState *record, int block, Buffer buf, int n)
{
	Page		page = BufferGetPage(buf);

	mtp_bucket_delete(page, n, (uint16 *) XLogRecGetBlockData(record, block, NULL));
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
}

/*
 * No cleanup lock: what an inserter takes away is dead to every snapshot, and the TIDs can't be used
 * again before a VACUUM has passed the bucket (src/wal/passed.c).
 */
static void
redo_delete(XLogReaderState *record)
{
	MtpWalHashDelete *rec = (MtpWalHashDelete *) XLogRecGetData(record);
	Buffer		buf;

	if (InHotStandby)
	{
		MtpLocator	locator;

		XLogRecGetBlockTag(record, 0, &locator, NULL, NULL);
		MtpResolveSnapshotConflict(rec->horizon, locator);
	}
	if (XLogReadBufferForRedo(record, 0, &buf) == BLK_NEEDS_REDO)
		redo_deletes(record, 0, buf, rec->n);
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

/*
 * The primary page is waited for first, while nothing is locked: a scan that has it pinned may need any
 * page of its chains to get on.
 */
static void
redo_vacuum(XLogReaderState *record)
{
	MtpWalHashVacuum *rec = (MtpWalHashVacuum *) XLogRecGetData(record);
	bool		chained = XLogRecHasBlockRef(record, 1);
	Buffer		primary;
	Buffer		buf = InvalidBuffer;

	if (XLogReadBufferForRedoExtended(record, 0, RBM_NORMAL, true, &primary) == BLK_NEEDS_REDO)
		redo_deletes(record, 0, primary, chained ? 0 : rec->n);
	if (chained && XLogReadBufferForRedo(record, 1, &buf) == BLK_NEEDS_REDO)
		redo_deletes(record, 1, buf, rec->n);
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
	if (BufferIsValid(primary))
		UnlockReleaseBuffer(primary);
}

static void
desc_delete(StringInfo buf, XLogReaderState *record)
{
	MtpWalHashDelete *rec = (MtpWalHashDelete *) XLogRecGetData(record);

	appendStringInfo(buf, "entries %u horizon %u", rec->n, rec->horizon);
}

static void
desc_vacuum(StringInfo buf, XLogReaderState *record)
{
	appendStringInfo(buf, "entries %u", ((MtpWalHashVacuum *) XLogRecGetData(record))->n);
}

static const MtpWalRecord delete_record = {"HASH_DELETE", redo_delete, desc_delete};
static const MtpWalRecord vacuum_record = {"HASH_VACUUM", redo_vacuum, desc_vacuum};

void
mtp_hash_redo_vacuum_init(void)
{
	mtp_wal_record(MTP_WAL_HASH_DELETE, &delete_record);
	mtp_wal_record(MTP_WAL_HASH_VACUUM, &vacuum_record);
}
