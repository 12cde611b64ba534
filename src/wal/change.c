/*
 * change.c
 *	  Brackets a change of index pages: critical section, dirty marks, WAL record, LSNs, frames.
 */
#include "core/core.h"

#include "access/xloginsert.h"
#include "buffer/buffer.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/memdebug.h"
#include "wal/wal.h"

void
mtp_change_init(MtpChange *c, Relation rel, uint8 info)
{
	c->rel = rel;
	c->logged = RelationNeedsWAL(rel);
	c->info = info;
	c->nbufs = 0;
	c->nchunks = 0;
	c->progress = NULL;
	c->progress_to = 0;
}

int
mtp_change_buffer(MtpChange *c, Buffer buf, uint8 flags)
{
	if (c->nbufs >= MTP_CHANGE_BUFFERS)
		elog(ERROR, "too many buffers in one change of index \"%s\"",
			 RelationGetRelationName(c->rel));
	c->bufs[c->nbufs] = buf;
	c->bufflags[c->nbufs] = flags;
	return c->nbufs++;
}

/*
 * The last call that may fail: it reserves the record's space (invariant W2).  An error or a
 * termination before it leaves the pages, and the task's progress, as they were.
 */
void
mtp_change_begin(MtpChange *c)
{
	if (c->logged)
		XLogEnsureRecordSpace(c->nbufs, MTP_CHANGE_CHUNKS);
	START_CRIT_SECTION();
}

void
mtp_change_data(MtpChange *c, const void *data, uint32 len)
{
	mtp_change_bufdata(c, -1, data, len);
}

void
mtp_change_bufdata(MtpChange *c, int buf, const void *data, uint32 len)
{
	Assert(buf >= -1 && buf < c->nbufs);
	if (!c->logged || len == 0)
		return;
	if (c->nchunks >= MTP_CHANGE_CHUNKS)
		elog(PANIC, "too much data in one change of an mtpower index");
	VALGRIND_CHECK_MEM_IS_DEFINED(data, len);
	c->chunks[c->nchunks].buf = buf;
	c->chunks[c->nchunks].data = data;
	c->chunks[c->nchunks].len = len;
	c->nchunks++;
}

#ifdef USE_ASSERT_CHECKING
/*
 * True if the page is locked exclusively and dirty.  A page must be dirty before it is logged, or
 * a checkpoint may miss it.  Later versions of core assert the same.
 */
static bool
may_be_logged(Buffer buf)
{
	BufferDesc *desc = GetBufferDescriptor(buf - 1);

	return LWLockHeldByMeInMode(BufferDescriptorGetContentLock(desc), LW_EXCLUSIVE) &&
		(pg_atomic_read_u32(&desc->state) & BM_DIRTY) != 0;
}
#endif

/*
 * The order is the point.  Pages are dirty before the record is written: a checkpoint that begins
 * behind the record must write them.  They have the record's LSN before anyone may write them out.
 * Their frames go while all pages are still locked (buffer/README.md, invariant F5).  A task's
 * progress moves in the same critical section, so its entries count as put in exactly if the pages
 * have them (invariant W7).
 */
void
mtp_change_finish(MtpChange *c)
{
	Assert(CritSectionCount > 0);
	for (int i = 0; i < c->nbufs; i++)
	{
		VALGRIND_CHECK_MEM_IS_DEFINED(BufferGetPage(c->bufs[i]), BLCKSZ);
		MarkBufferDirty(c->bufs[i]);
	}
	if (c->logged)
	{
		XLogRecPtr	lsn;

		XLogBeginInsert();
		for (int i = 0; i < c->nbufs; i++)
		{
			Assert(may_be_logged(c->bufs[i]));
			XLogRegisterBuffer(i, c->bufs[i], c->bufflags[i]);
		}
		for (int i = 0; i < c->nchunks; i++)
		{
			if (c->chunks[i].buf < 0)
				XLogRegisterData((char *) c->chunks[i].data, c->chunks[i].len);
			else
				XLogRegisterBufData(c->chunks[i].buf, (char *) c->chunks[i].data,
									c->chunks[i].len);
		}
		/* A crash up to here leaves nothing of the change, one behind the flush all of it. */
		lsn = XLogInsert(MTP_RMGR_ID, c->info);
		/* Before the locks go: a page is written out when its LSN is flushed. */
		for (int i = 0; i < c->nbufs; i++)
			PageSetLSN(BufferGetPage(c->bufs[i]), lsn);
	}
	/* All before the caller unlocks the first page: a reader of one may go on to another. */
	for (int i = 0; i < c->nbufs; i++)
		mtp_buffer_stale(c->bufs[i], false);
	if (c->progress != NULL)
		*c->progress = c->progress_to;
	END_CRIT_SECTION();
}
