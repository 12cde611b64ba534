/*
 * verify.c
 *	  verify_index and page_info of zone indexes.
 */
#include "zone/zone.h"

#include "index/verify.h"
#include "miscadmin.h"
#include "utils/builtins.h"

/* Raises unless a page's entry covers all that is on the page below it. */
static void
check_below(MtpVerify *v, const MtpZoneInfo *info, Page page, int level, uint32 number, uint32 slot)
{
	BlockNumber above = mtp_zone_block(info, level, number);
	Buffer		below;
	MtpZoneEntry all;

	below = mtp_zone_read(v->rel, level - 1, number * info->fanout + slot, BUFFER_LOCK_SHARE);
	if (!BufferIsValid(below))
		return;
	(void) mtp_zone_sum(info, BufferGetPage(below), &all);
	UnlockReleaseBuffer(below);
	if (!mtp_zone_covers(info, page, slot, &all))
		mtp_verify_fail(v, above, slot, "The entry does not cover the page of level %d below it.",
						level - 1);
}

/* The page above stays locked, so that nobody is between the two. */
static void
verify_page(MtpVerify *v, const MtpZoneInfo *info, int level, uint32 number)
{
	Buffer		buf = mtp_zone_read(v->rel, level, number, BUFFER_LOCK_SHARE);

	CHECK_FOR_INTERRUPTS();
	if (!BufferIsValid(buf))
		return;
	v->blkno = BufferGetBlockNumber(buf);
	for (uint32 slot = 0; level > 0 && slot < info->fanout; slot++)
		check_below(v, info, BufferGetPage(buf), level, number, slot);
	UnlockReleaseBuffer(buf);
	for (uint32 slot = 0; level > 0 && slot < info->fanout; slot++)
		verify_page(v, info, level - 1, number * info->fanout + slot);
}

static void
verify(MtpVerify *v)
{
	MtpZoneInfo info = *mtp_zone_info(v->rel);
	int			height;

	UnlockReleaseBuffer(mtp_zone_read_meta(v->rel, BUFFER_LOCK_SHARE, &height));
	verify_page(v, &info, height, 0);
}

/* Each level's entry covers the row, or VACUUM is computing it. */
static void
check_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpVerify  *v = state;
	MtpZoneInfo info = *mtp_zone_info(index);
	uint32		pair = ItemPointerGetBlockNumber(tid) / MTP_ZONE_BLOCKS;
	MtpZoneEntry row;
	int			height;

	mtp_zone_clear(&info, &row);
	mtp_zone_add_row(&info, &row, values, isnull);
	UnlockReleaseBuffer(mtp_zone_read_meta(index, BUFFER_LOCK_SHARE, &height));
	for (int level = 0; level <= height; level++)
	{
		uint32		slot;
		uint32		number = mtp_zone_place(&info, level, pair, &slot);
		Buffer		buf = mtp_zone_read(index, level, number, BUFFER_LOCK_SHARE);
		bool		found = false;

		if (BufferIsValid(buf))
		{
			Page		page = BufferGetPage(buf);

			found = (*mtp_zone_flags(&info, page, slot) & MTP_ZONE_OPEN) != 0 ||
				mtp_zone_covers(&info, page, slot, &row);
			UnlockReleaseBuffer(buf);
		}
		mtp_verify_row_entry(v, tid, mtp_zone_block(&info, level, number), slot, found, false);
	}
}

/* Items are the entries that are not empty. */
static void
describe(Relation rel, Page page, BlockNumber blkno, Datum *values, bool *nulls)
{
	const MtpZoneInfo *info = mtp_zone_info(rel);
	int			items = 0;
	bool		whole;

	whole = PageGetSpecialSize(page) == MAXALIGN(sizeof(MtpZoneTail)) &&
		MtpZoneTailOf(page)->page_id == MTP_ZONE_PAGE_ID;
	values[MTP_INFO_TYPE] = CStringGetTextDatum(!whole ? "unknown" :
												blkno == MTP_ZONE_META ? "meta" : "zone");
	nulls[MTP_INFO_TYPE] = false;
	if (!whole)
		return;
	values[MTP_INFO_LEVEL] = Int32GetDatum(blkno == MTP_ZONE_META ? MtpZoneMetaOf(page)->height :
										   MtpZoneTailOf(page)->level);
	nulls[MTP_INFO_LEVEL] = false;
	if (blkno == MTP_ZONE_META)
		return;
	for (uint32 slot = 0; slot < info->fanout; slot++)
		items += !mtp_zone_is_empty(info, page, slot);
	values[MTP_INFO_ITEMS] = Int32GetDatum(items);
	nulls[MTP_INFO_ITEMS] = false;
}

void
mtp_zone_inspect_init(void)
{
	static const MtpInspectOps ops = {
		.ambuild = mtp_zone_build,
		.verify = verify,
		.check_row = check_row,
		.describe = describe
	};

	mtp_inspect_register(&ops);
}
