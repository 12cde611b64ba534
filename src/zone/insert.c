/*
 * insert.c
 *	  Widens the entries of a pair of pages by a row, from the root down.
 */
#include "zone/zone.h"

#include "access/generic_xlog.h"
#include "core/inject.h"

/*
 * The page of this place, locked, when its entry covers the new one.  A page that is not there is
 * made.
 */
static Buffer
widen(Relation index, int level, uint32 number, uint32 slot, const MtpZoneEntry *entry)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	Buffer		buf = mtp_zone_read(index, level, number, BUFFER_LOCK_SHARE);
	GenericXLogState *state;
	Page		page;

	if (BufferIsValid(buf))
	{
		if (mtp_zone_covers(info, BufferGetPage(buf), slot, entry))
			return buf;
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	}
	else
	{
		BlockNumber blkno = mtp_zone_block(info, level, number);

		mtp_zone_extend(index, blkno);
		buf = ReadBuffer(index, blkno);
	}
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	if (!PageIsNew(BufferGetPage(buf)) &&
		mtp_zone_covers(info, BufferGetPage(buf), slot, entry))
		return buf;

	state = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(state, buf,
									 PageIsNew(BufferGetPage(buf)) ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (PageIsNew(page))
		mtp_zone_page_init(page, info->natts, level);
	mtp_zone_put(info, page, slot, entry);
	GenericXLogFinish(state);
	return buf;
}

/*
 * Puts a root above the one that there is, which has too few entries.  The metapage stays locked:
 * nobody comes to the old root before the new one has what is in it (invariant Z2).
 */
static void
add_root(Relation index, uint32 number)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	int			height;
	Buffer		meta = mtp_zone_read_meta(index, BUFFER_LOCK_EXCLUSIVE, &height);
	Buffer		root;
	Buffer		old;
	BlockNumber blkno;
	MtpZoneEntry all;
	GenericXLogState *state;
	Page		page;

	if (number < mtp_zone_width(info, height))
	{
		UnlockReleaseBuffer(meta);	/* another process was faster */
		return;
	}
	blkno = mtp_zone_block(info, height + 1, 0);
	mtp_zone_extend(index, blkno);
	root = ReadBuffer(index, blkno);
	LockBuffer(root, BUFFER_LOCK_EXCLUSIVE);
	mtp_zone_clear(info, &all);
	old = mtp_zone_read(index, height, 0, BUFFER_LOCK_SHARE);
	if (BufferIsValid(old) && !mtp_zone_sum(info, BufferGetPage(old), &all))
		mtp_zone_widest(info, &all);	/* of an open entry nobody knows the rows */

	state = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(state, root, GENERIC_XLOG_FULL_IMAGE);
	mtp_zone_page_init(page, info->natts, height + 1);
	mtp_zone_put(info, page, 0, &all);
	page = GenericXLogRegisterBuffer(state, meta, 0);
	MtpZoneMetaOf(page)->height = height + 1;
	GenericXLogFinish(state);
	if (BufferIsValid(old))
		UnlockReleaseBuffer(old);
	UnlockReleaseBuffer(root);
	UnlockReleaseBuffer(meta);
}

void
mtp_zone_widen(Relation index, uint32 pair, const MtpZoneEntry *entry)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	uint32		slot;
	uint32		number = mtp_zone_place(info, 0, pair, &slot);
	int			height;
	Buffer		above;

	for (;;)
	{
		above = mtp_zone_read_meta(index, BUFFER_LOCK_SHARE, &height);
		if (number < mtp_zone_width(info, height))
			break;
		UnlockReleaseBuffer(above);
		add_root(index, number);
	}
	for (int level = height; level >= 0; level--)
	{
		uint32		page = mtp_zone_place(info, level, pair, &slot);
		Buffer		buf = widen(index, level, page, slot, entry);

		UnlockReleaseBuffer(above);
		above = buf;
		MTP_INJECT("zone_widened");
	}
	UnlockReleaseBuffer(above);
}

/* True if the entry of level 0 covers it: then those above do (invariant Z1). */
static bool
is_covered(Relation index, uint32 number, uint32 slot, const MtpZoneEntry *entry)
{
	Buffer		buf = mtp_zone_read(index, 0, number, BUFFER_LOCK_SHARE);
	bool		covered;

	if (!BufferIsValid(buf))
		return false;
	covered = mtp_zone_covers(mtp_zone_info(index), BufferGetPage(buf), slot, entry);
	UnlockReleaseBuffer(buf);
	return covered;
}

void
mtp_zone_insert(Relation index, uint32 pair, const MtpZoneEntry *entry)
{
	uint32		slot;
	uint32		number = mtp_zone_place(mtp_zone_info(index), 0, pair, &slot);

	if (!is_covered(index, number, slot, entry))
		mtp_zone_widen(index, pair, entry);
}
