/*
 * merge.c
 *	  Makes room on a full leaf from equal keys, before it would be split: they become lists.
 *
 * The record says which neighbours have equal keys, since replay cannot compare values.  The rest
 * is a function of the page (mtp_page_merge).
 */
#include "blink/blink.h"

#include "blink/wal_records.h"
#include "utils/memutils.h"

/*
 * What a merge must gain, at least: less would bring the next entries back here one by one.
 */
#define LEAST_GAIN	(MTP_PAGE_ROOM / 32)

/* Puts the image in the page's place.  Items are where they were but for their ranks. */
static void
publish(Relation rel, Buffer buf, Page image, const uint8 *same, int nsame)
{
	MtpWalInsert rec = {.nitems = MTP_INSERT_MERGES};
	MtpChange	c;

	mtp_change_init(&c, rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_begin(&c);
	memcpy(BufferGetPage(buf), image, BLCKSZ);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, same, nsame);
	mtp_change_finish(&c);
}

void
mtp_blink_merge(Relation rel, Buffer buf, int n, Size bytes)
{
	Page		page = BufferGetPage(buf);
	int			nitems = MtpHeader(page)->nitems;
	MemoryContext old,
				cxt;
	IndexTuple *items;
	uint8		same[MTP_SAME_BYTES(MTP_MAX_ITEMS)];
	Page		image;

	/* All items are read (invariant B14). */
	mtp_blink_check_items(rel, buf);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower merge", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	items = palloc(Max(nitems, 1) * sizeof(IndexTuple));
	mtp_page_items(page, items);
	mtp_blink_same_keys(rel, nitems, items, same);
	image = mtp_page_merge(page, same);
	if (image != NULL && mtp_page_fits(image, n, bytes) &&
		mtp_page_free(image) >= mtp_page_free(page) + LEAST_GAIN)
		publish(rel, buf, image, same, MTP_SAME_BYTES(nitems));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
