/*
 * redo_vacuum.c
 *	  Replays deletions of entries: by inserters that make room, and by VACUUM.
 *
 * On a hot standby queries run beside this.  README.md, "Standbys", says what they may meet.
 */
#include "hash/hash.h"

#include "access/xlogutils.h"
#include "hash/wal_records.h"
#include "index/dead.h"

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
	bool		chained = XLogRecHasBlockRef(record, 1);
	Buffer		primary;
	Buffer		buf = InvalidBuffer;

	if (XLogReadBufferForRedoExtended(record, 0, RBM_NORMAL, true, &primary) == BLK_NEEDS_REDO)
		mtp_dead_redo_page(record, 0, primary, chained ? 0 : rec->n, mtp_hash_bucket_delete);
	if (chained && XLogReadBufferForRedo(record, 1, &buf) == BLK_NEEDS_REDO)
		mtp_dead_redo_page(record, 1, buf, rec->n, mtp_hash_bucket_delete);
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
	if (BufferIsValid(primary))
		UnlockReleaseBuffer(primary);
}

static void
desc_vacuum(StringInfo buf, XLogReaderState *record)
{
	appendStringInfo(buf, "entries %u", ((MtpWalHashVacuum *) XLogRecGetData(record))->n);
}

static const MtpWalRecord delete_record = {"HASH_DELETE", redo_delete, mtp_dead_desc};
static const MtpWalRecord vacuum_record = {"HASH_VACUUM", redo_vacuum, desc_vacuum};

void
mtp_hash_redo_vacuum_init(void)
{
	mtp_wal_record(MTP_WAL_HASH_DELETE, &delete_record);
	mtp_wal_record(MTP_WAL_HASH_VACUUM, &vacuum_record);
}
