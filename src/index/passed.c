/*
 * passed.c
 *	  Logs and replays what VACUUM has passed: scans on standbys let go of its blocks as well.
 */
#include "index/vacuum.h"

#include "access/xlog.h"
#include "access/xlogutils.h"
#include "storage/buf_internals.h"

void
mtp_wal_log_passed(Relation rel, BlockNumber from, BlockNumber to)
{
	MtpWalPassed rec;

	if (from >= to || !RelationNeedsWAL(rel) || !XLogStandbyInfoActive())
		return;
	memset(&rec, 0, sizeof(rec));
	rec.locator = MtpRelLocator(rel);
	rec.from = from;
	rec.to = to;
	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	XLogInsert(MTP_RMGR_ID, MTP_WAL_VACUUM);
}

/*
 * The primary had a cleanup lock on every page of the range that a scan may pin: none there held a
 * TID that will be used again.  Here the pages that lost entries by MTP_WAL_VACUUM or
 * MTP_WAL_HASH_VACUUM are waited for with that record, but a scan can also hold a TID that left its
 * page earlier, with a split or an inserter's deletion.  A page that comes into shared buffers
 * while this runs has none of these TIDs any more.
 */
void
mtp_wal_redo_passed(XLogReaderState *record)
{
	MtpWalPassed *rec = (MtpWalPassed *) XLogRecGetData(record);

	if (!InHotStandby)
		return;
	for (BlockNumber blkno = rec->from; blkno < rec->to; blkno++)
	{
		BufferTag	tag;
		uint32		hash;
		LWLock	   *lock;
		bool		cached;
		Buffer		buf;

		/* A scan can have a pin on the block only if it is in shared buffers. */
		MtpInitBufferTag(&tag, rec->locator, MAIN_FORKNUM, blkno);
		hash = BufTableHashCode(&tag);
		lock = BufMappingPartitionLock(hash);
		LWLockAcquire(lock, LW_SHARED);
		cached = BufTableLookup(&tag, hash) >= 0;
		LWLockRelease(lock);
		if (!cached)
			continue;
		buf = XLogReadBufferExtended(rec->locator, MAIN_FORKNUM, blkno, RBM_NORMAL_NO_LOG,
									 InvalidBuffer);
		if (!BufferIsValid(buf))
			continue;
		LockBufferForCleanup(buf);
		UnlockReleaseBuffer(buf);
	}
}

void
mtp_wal_desc_passed(StringInfo buf, XLogReaderState *record)
{
	MtpWalPassed *rec = (MtpWalPassed *) XLogRecGetData(record);

	appendStringInfo(buf, "passed blocks %u to %u", rec->from, rec->to - 1);
}
