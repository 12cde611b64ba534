/*
 * rmgr.c
 *	  Registers mtpower's resource manager, and hands each record to the room that registered it.
 */
#include "core/core.h"

#include "access/bufmask.h"
#include "access/nbtxlog.h"
#include "access/rmgr.h"
#include "access/xlog_internal.h"
#include "buffer/buffer.h"
#include "page/page.h"
#include "wal/wal.h"

static const MtpWalRecord *records[16];
static const MtpWalRecord *kinds[MTP_WAL_KINDS];

/* Masks of the kinds of pages from least_type up, the highest first */
static struct
{
	uint8		least_type;
	void		(*mask) (Page page);
}			masks[4];
static int	nmasks = 0;

/* The byte that tells of which kind a record of MTP_WAL_MORE is */
static uint8
kind_in(XLogReaderState *record)
{
	return *(uint8 *) XLogRecGetData(record);
}

/* NULL if this library does not know the record. */
static const MtpWalRecord *
record_of(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK;

	if (info != MTP_WAL_MORE)
		return records[info >> 4];
	return kind_in(record) < MTP_WAL_KINDS ? kinds[kind_in(record)] : NULL;
}

void
mtp_wal_record(uint8 info, const MtpWalRecord *rec)
{
	records[info >> 4] = rec;
}

void
mtp_wal_record_of_kind(MtpWalKind kind, const MtpWalRecord *rec)
{
	kinds[kind] = rec;
}

void
mtp_wal_mask(uint8 least_type, void (*mask) (Page page))
{
	int			at = nmasks++;

	Assert(nmasks <= lengthof(masks));
	for (; at > 0 && masks[at - 1].least_type < least_type; at--)
		masks[at] = masks[at - 1];
	masks[at].least_type = least_type;
	masks[at].mask = mask;
}

BlockNumber
mtp_redo_block(XLogReaderState *record, int block)
{
	BlockNumber blkno;

	XLogRecGetBlockTag(record, block, NULL, NULL, &blkno);
	return blkno;
}

/* Buffers that recovery did not need are invalid. */
void
mtp_redo_release(const Buffer *bufs, int n)
{
	for (int i = 0; i < n; i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}

static void
redo_record(XLogReaderState *record)
{
	const MtpWalRecord *rec = record_of(record);

	if (rec == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replay a WAL record that mtpower %s does not know", MTP_VERSION),
				 errdetail("The record at %X/%X, of kind %u, was written by a newer version.",
						   LSN_FORMAT_ARGS(record->ReadRecPtr), kind_in(record)),
				 errhint("Install that version here and start the server again.")));
	rec->redo(record);
}

static void
describe_record(StringInfo buf, XLogReaderState *record)
{
	const MtpWalRecord *rec = record_of(record);

	if (rec == NULL)
		appendStringInfo(buf, "kind %u", kind_in(record));
	else
	{
		if ((XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK) == MTP_WAL_MORE)
			appendStringInfo(buf, "%s ", rec->name);
		rec->desc(buf, record);
	}
}

static const char *
name_of_record(uint8 info)
{
	const MtpWalRecord *rec = records[(info & XLR_RMGR_INFO_MASK) >> 4];

	return rec ? rec->name : "MORE";
}

/*
 * Hides what replay need not reproduce: LSN, checksum, hints, the hole.  Pages of core's btree are
 * core's to mask; ours have no special space.
 */
static void
mask_page(char *page, BlockNumber blkno)
{
	if (PageGetSpecialSize((Page) page) == MAXALIGN(sizeof(BTPageOpaqueData)))
	{
		btree_mask(page, blkno);
		return;
	}
	mask_page_lsn_and_checksum((Page) page);
	mask_page_hint_bits((Page) page);
	for (int i = 0; i < nmasks; i++)
		if (MtpHeader(page)->type >= masks[i].least_type)
		{
			masks[i].mask((Page) page);
			break;
		}
	mask_unused_space((Page) page);
}

static RmgrData mtp_rmgr = {
	.rm_name = "mtpower",
	.rm_redo = redo_record,
	.rm_desc = describe_record,
	.rm_identify = name_of_record,
	.rm_startup = mtp_buffer_redo_begins,	/* before the first record, if there is one */
	.rm_mask = mask_page
};

void
mtp_wal_init(void)
{
	RegisterCustomRmgr(MTP_RMGR_ID, &mtp_rmgr);
}
