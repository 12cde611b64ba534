/*
 * reader.c
 *	  Reads a page of the tree where it is: locked in shared buffers, or in a frame.
 */
#include "blink/reader.h"

#include "core/inject.h"

/*
 * The page was checked before it was published (mtp_blink_check_page).  So a header that was copied
 * while the sequence lock did not change is a good one (invariant B8).
 */
bool
mtp_blink_reader_frame(MtpPageReader *v, Relation rel, BlockNumber block, uint32 level)
{
	if (!mtp_buffer_find(rel, block, MTP_PAGE_FIRST_BYTES, &v->ref))
		return false;
	mtp_blink_reader_open(v, rel, (Page) v->ref.image, block, InvalidBuffer);
	if (!mtp_blink_reader_good(v) || v->head.level != level ||
		!mtp_blink_norm_fits(rel, v->head.norm))
		return false;
	Assert(v->head.type == MTP_PAGE_LEAF || v->head.type == MTP_PAGE_INNER);
	mtp_buffer_hit(rel, MTP_FRAME_INDEX);
	MTP_INJECT(level == 0 ? "leaf_frame_opened" : "inner_frame_opened");
	return true;
}

bool
mtp_blink_reader_fits(Relation rel, Buffer buf)
{
	uint16		type;

	mtp_blink_check_page(rel, buf);
	type = MtpHeader(BufferGetPage(buf))->type;
	return type == MTP_PAGE_LEAF || type == MTP_PAGE_INNER;
}

/* Not inline: where no item is narrow it would only take registers. */
pg_noinline IndexTuple
mtp_blink_reader_widen(MtpPageReader *v, IndexTuple body, uint32 head)
{
	return mtp_body_widen(v->head.norm, mtp_page_narrow_norm(&v->head, head), body,
						  (MtpItemRoom *) v->item);
}

/*
 * The length that the item itself tells is read once, and bounded by the page before anything is
 * copied.  Only after another look at the sequence lock is the copy's contents judged.
 */
IndexTuple
mtp_blink_reader_copy(MtpPageReader *v, unsigned off, uint32 head, bool pivot)
{
	IndexTuple	itup = (IndexTuple) v->item;
	unsigned	at = off & ~MTP_SLOT_FLAGS;
	Size		size;

	if (at > BLCKSZ - sizeof(IndexTupleData))
		return mtp_blink_reader_give_up(v);
	size = *(volatile unsigned short *) ((char *) v->page + at +
										 offsetof(IndexTupleData, t_info)) & INDEX_SIZE_MASK;
	if (size < sizeof(IndexTupleData) || size > Min(BLCKSZ - at, sizeof(v->item)))
		return mtp_blink_reader_give_up(v);
	memcpy(itup, (char *) v->page + at, size);
	MTP_INJECT(v->head.level == 0 ? "leaf_frame_read" : "inner_frame_read");
	if (!mtp_blink_reader_good(v))
		return NULL;
	if (mtp_off_narrow(v->head.norm, off))
		itup = mtp_blink_reader_widen(v, itup, head);
	if (pivot ?
		!mtp_blink_pivot_plain(v->rel, itup) && mtp_blink_pivot_fault(v->rel, itup) != NULL :
		!mtp_blink_entry_plain(v->rel, itup) && mtp_blink_entry_fault(v->rel, itup) != NULL)
		return mtp_blink_reader_give_up(v);
	return itup;
}

IndexTuple
mtp_blink_reader_before(MtpPageReader *v, MtpPos *p)
{
	if (v->torn)
		return NULL;
	if (mtp_pos_back(v->counts, p))
		return mtp_blink_reader_item(v, p->node, p->slot);

	/* An inner page's first item is minus infinity, so an item is always before the place. */
	if (BufferIsValid(v->buf))
		mtp_blink_fail_page(v->rel, v->page, "first item of an inner page is not minus infinity");
	return mtp_blink_reader_give_up(v);
}
