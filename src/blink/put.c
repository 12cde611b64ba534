/*
 * put.c
 *	  Puts items on a page that has room for them; else they go into lists there, or split it.
 */
#include "blink/split.h"

#include "blink/wal_records.h"
#include "utils/memutils.h"

/*
 * One item needs no copy.  To get memory may fail, so it comes before the critical section
 * (invariant B2).
 */
char *
mtp_blink_flatten(uint8 code, int n, const IndexTuple *items, Size *bytes)
{
	char	   *flat;
	Size		at = 0;

	if (n == 1)
	{
		*bytes = IndexTupleSize(items[0]);
		return (char *) items[0];
	}
	*bytes = 0;
	for (int i = 0; i < n; i++)
		*bytes += mtp_body_size(code, items[i]);
	flat = palloc0(*bytes);		/* what lies between items is logged, too */
	for (int i = 0; i < n; i++)
	{
		memcpy(flat + at, items[i], IndexTupleSize(items[i]));
		at += mtp_body_size(code, items[i]);
	}
	return flat;
}

/*
 * Inserts the items on a page that has room for them, with one record over the page and the
 * children.  The items are the downlinks of the children's right siblings, so the same change
 * clears the children's flags (invariant B4).  A task's progress moves in it too (B6).
 *
 * The page and the children are locked exclusively.  Unlocks and unpins the page.
 */
static void
put_in_place(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms)
{
	MtpChange	c;
	MtpWalInsert rec = {.nitems = n};
	char	   *flat = NULL;
	Size		bytes = 0;

	mtp_change_init(&c, put->rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	for (int i = 0; i < put->nchildren; i++)
		mtp_change_buffer(&c, put->children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;
	if (c.logged)
		flat = mtp_blink_flatten(MtpHeader(BufferGetPage(buf))->norm, n, items, &bytes);

	/* A crash leaves all of this or nothing: replay makes the change as a whole. */
	mtp_change_begin(&c);
	mtp_page_insert(BufferGetPage(buf), n, pos, items, norms);
	for (int i = 0; i < put->nchildren; i++)
		MtpHeader(BufferGetPage(put->children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, pos, n * sizeof(uint16));
	mtp_change_bufdata(&c, 0, flat, bytes);
	mtp_change_finish(&c);

	UnlockReleaseBuffer(buf);
	if (flat != NULL && n > 1)
		pfree(flat);
}

Size
mtp_blink_put_limit(Relation rel, bool small)
{
	Size		page = MTP_FILL_ROOM(mtp_blink_fillfactor(rel));

	/* A block's data in a record has 64 kB, and new items may all be the left page's. */
	return Min(Min(small ? MTP_BLINK_PUT_BYTES + MTP_PAGE_ROOM : MTP_BLINK_PUT_BYTES, 48 * 1024),
			   (MTP_BLINK_USUAL_K - 2) * page);
}

void
mtp_blink_put(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms)
{
	Size		bytes;
	bool		inside = false;
	MemoryContext old,
				cxt;

	put->k = 1;
	if (MtpIsLeaf(BufferGetPage(buf)) && mtp_blink_info(put->rel)->lists != 0 &&
		mtp_blink_put_merged(put, buf, n, pos, items, norms, &inside))
		return;

	/* An insertion that reads the page's items relies on them (invariant B14). */
	bytes = mtp_page_bytes(BufferGetPage(buf), n, items, norms);
	if (mtp_page_insert_reads(BufferGetPage(buf), n, bytes))
		mtp_blink_check_items(put->rel, buf);
	if (!inside && mtp_page_fits(BufferGetPage(buf), n, bytes))
	{
		put_in_place(put, buf, n, pos, items, norms);
		return;
	}
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower split", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	mtp_blink_split(put, buf, n, pos, items);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
