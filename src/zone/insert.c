/*
 * insert.c
 *	  Widens the entries of pairs of pages by rows, from the root down.
 */
#include "zone/zone.h"

#include "access/generic_xlog.h"
#include "core/inject.h"

/* True if entries of a page, from a slot on, cover these. */
static bool
covers(const MtpZoneInfo *info, Page page, uint32 slot, int n, const MtpZoneEntry *entries)
{
	for (int i = 0; i < n; i++)
		if (!mtp_zone_covers(info, page, slot + i, &entries[i]))
			return false;
	return true;
}

/*
 * The page of this place, locked, when its entries from a slot on cover the new ones.  A page that
 * is not there is made.
 */
static Buffer
widen(Relation index, int level, uint32 number, uint32 slot, int n, const MtpZoneEntry *entries)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	Buffer		buf = mtp_zone_read(index, level, number, BUFFER_LOCK_SHARE);
	GenericXLogState *state;
	Page		page;

	if (BufferIsValid(buf))
	{
		if (covers(info, BufferGetPage(buf), slot, n, entries))
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
	if (!PageIsNew(BufferGetPage(buf)) && covers(info, BufferGetPage(buf), slot, n, entries))
		return buf;

	state = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(state, buf,
									 PageIsNew(BufferGetPage(buf)) ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (PageIsNew(page))
		mtp_zone_page_init(page, info->natts, level);
	for (int i = 0; i < n; i++)
		mtp_zone_put(info, page, slot + i, &entries[i]);
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
mtp_zone_widen(Relation index, uint32 pair, int n, const MtpZoneEntry *entries)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	uint32		slot;
	uint32		number = mtp_zone_place(info, 0, pair, &slot);
	MtpZoneEntry all = entries[0];
	int			height;
	Buffer		above;

	Assert(slot + n <= info->fanout);
	for (int i = 1; i < n; i++)
		mtp_zone_add(info, &all, &entries[i]);

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
		Buffer		buf = level > 0 ? widen(index, level, page, slot, 1, &all) :
		widen(index, 0, page, slot, n, entries);

		UnlockReleaseBuffer(above);
		above = buf;
		MTP_INJECT("zone_widened");
	}
	UnlockReleaseBuffer(above);
}

/* True if the entries of level 0 cover them: then those above do (invariant Z1). */
static bool
are_covered(Relation index, uint32 number, uint32 slot, int n, const MtpZoneEntry *entries)
{
	Buffer		buf = mtp_zone_read(index, 0, number, BUFFER_LOCK_SHARE);
	bool		covered;

	if (!BufferIsValid(buf))
		return false;
	covered = covers(mtp_zone_info(index), BufferGetPage(buf), slot, n, entries);
	UnlockReleaseBuffer(buf);
	return covered;
}

void
mtp_zone_insert(Relation index, uint32 pair, int n, const MtpZoneEntry *entries)
{
	uint32		slot;
	uint32		number = mtp_zone_place(mtp_zone_info(index), 0, pair, &slot);

	if (!are_covered(index, number, slot, n, entries))
		mtp_zone_widen(index, pair, n, entries);
}
