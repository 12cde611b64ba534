/*
 * rmgr.c
 *	  Registers mtpower's resource manager and hands records to whom they belong.
 */
#include "core/core.h"

#include "access/bufmask.h"
#include "access/rmgr.h"
#include "access/xlog_internal.h"
#include "buffer/buffer.h"
#include "hash/bucket.h"
#include "page/page.h"
#include "wal/wal.h"

static const MtpWalRecord *records[16];

static const MtpWalRecord *
lookup(uint8 info)
{
	return records[(info & XLR_RMGR_INFO_MASK) >> 4];
}

void
mtp_wal_record(uint8 info, const MtpWalRecord *rec)
{
	records[info >> 4] = rec;
}

/* Called when there is something to be replayed, before that. */
static void
startup(void)
{
	mtp_buffer_redo_begins();
}

static void
redo(XLogReaderState *record)
{
	const MtpWalRecord *rec = lookup(XLogRecGetInfo(record));

	if (rec == NULL)
		elog(PANIC, "unknown mtpower record type %u", XLogRecGetInfo(record));
	rec->redo(record);
}

static void
desc(StringInfo buf, XLogReaderState *record)
{
	const MtpWalRecord *rec = lookup(XLogRecGetInfo(record));

	if (rec != NULL)
		rec->desc(buf, record);
}

static const char *
identify(uint8 info)
{
	const MtpWalRecord *rec = lookup(info);

	return rec ? rec->name : NULL;
}

/* Hides what replay need not reproduce: LSN, checksum, hints, the hole. */
static void
mask(char *page, BlockNumber blkno)
{
	mask_page_lsn_and_checksum((Page) page);
	mask_page_hint_bits((Page) page);
	if (MtpHead(page)->type >= MTP_HASH_META)
		mtp_bucket_mask((Page) page);
	else
		mtp_page_mask((Page) page);
	mask_unused_space((Page) page);
}

static RmgrData mtp_rmgr = {
	.rm_name = "mtpower",
	.rm_redo = redo,
	.rm_desc = desc,
	.rm_identify = identify,
	.rm_startup = startup,
	.rm_mask = mask
};

void
mtp_wal_init(void)
{
	RegisterCustomRmgr(MTP_RMGR_ID, &mtp_rmgr);
}
