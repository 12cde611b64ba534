/*
 * dir.c
 *	  Reads a page's two-level directory, and checks it.
 */
#include "page/search.h"

MtpPos
mtp_page_locate(Page page, int pos)
{
	Assert(pos >= 0 && pos <= MtpHeader(page)->nitems);
	return mtp_pos_locate(MtpCounts(page), MtpHeader(page)->nnodes, pos);
}

IndexTuple
mtp_page_item(Page page, int pos, MtpItemRoom *room)
{
	MtpPos		p = mtp_page_locate(page, pos);

	Assert(pos < MtpHeader(page)->nitems);
	return mtp_slot_item(page, p.node, p.slot, room);
}

int
mtp_page_items(Page page, IndexTuple *items, MtpItemRoom *rooms)
{
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	int			n = 0;

	for (int i = 0; i < nnodes; i++)
		for (int j = 0; j < counts[i]; j++, n++)
			items[n] = mtp_slot_item(page, i, j, &rooms[n]);
	return n;
}

Size
mtp_page_free(Page page)
{
	Size		used = mtp_page_need(MtpHeader(page)->nitems, mtp_page_body_bytes(page));

	return used < MTP_PAGE_ROOM ? MTP_PAGE_ROOM - used : 0;
}

Size
mtp_page_bytes(Page page, int n, const IndexTuple *items, const uint64 *norms)
{
	const MtpPageHeader *h = MtpHeader(page);
	Size		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		bytes += mtp_body_size(h->norm, items[i]);
		if (mtp_page_narrows_item(h, items[i], norms[i]))
			bytes -= mtp_norm_align(h->norm);
	}
	return bytes;
}

bool
mtp_page_fits(Page page, int n, Size bytes)
{
	return mtp_page_need(MtpHeader(page)->nitems + n, bytes + mtp_page_body_bytes(page)) <=
		MTP_PAGE_ROOM;
}

/* True if there is a body at this offset: a whole tuple or, if that is asked for, a narrow one. */
static bool
body_ok(Page page, unsigned off, bool narrow)
{
	PageHeader	ph = (PageHeader) page;
	uint8		code = MtpHeader(page)->norm;
	IndexTuple	itup;

	if (off % mtp_norm_align(code) != 0 || off < ph->pd_upper ||
		off + sizeof(IndexTupleData) > ph->pd_special)
		return false;
	itup = (IndexTuple) ((char *) page + off);
	if (IndexTupleSize(itup) < sizeof(IndexTupleData) ||
		off + mtp_body_size(code, itup) > ph->pd_special)
		return false;
	if (narrow)
		return (itup->t_info & (INDEX_NULL_MASK | INDEX_ALT_TID_MASK)) == 0 &&
			IndexTupleSize(itup) + mtp_norm_align(code) <= MTP_NARROW_MOST;
	return mtp_norm_whole(code, itup);
}

/* True if each node in use has 1 .. 16 items, and all together have as many as the page says. */
static bool
counts_ok(Page page)
{
	MtpPageHeader *h = MtpHeader(page);
	const uint8 *counts = MtpCounts(page);
#ifdef MTP_USE_SSE2
	const __m128i zero = _mm_setzero_si128();
	const __m128i one = _mm_set1_epi8(1);
	const __m128i most = _mm_set1_epi8(MTP_NODE_SLOTS - 1);
	__m128i		bad = zero;
	__m128i		sum = zero;

	/*
	 * There is room for a multiple of 16 counts.  The page is locked or the caller's own, so their
	 * number stays.
	 */
	for (int i = 0; i < h->nnodes; i += 16)
	{
		__m128i		used = mtp_first_bytes(Min(h->nnodes - i, 16));
		__m128i		c = _mm_and_si128(_mm_loadu_si128((const __m128i *) (counts + i)), used);
		__m128i		less = _mm_sub_epi8(c, one);	/* 0 becomes the largest byte */

		bad = _mm_or_si128(bad, _mm_andnot_si128(_mm_cmpeq_epi8(_mm_min_epu8(less, most), less),
												 used));
		sum = _mm_add_epi64(sum, _mm_sad_epu8(c, zero));
	}
	return _mm_movemask_epi8(bad) == 0 &&
		_mm_cvtsi128_si32(sum) + _mm_cvtsi128_si32(_mm_srli_si128(sum, 8)) == h->nitems;
#else
	int			sum = 0;

	for (int i = 0; i < h->nnodes; i++)
	{
		if (counts[i] < 1 || counts[i] > MTP_NODE_SLOTS)
			return false;
		sum += counts[i];
	}
	return sum == h->nitems;
#endif
}

/*
 * Checks the page as far as it can be told without its items (part of invariants P1, P4, P5).
 * Where this finds nothing, a search of the directory does not leave the page, and slots can be
 * looked at (mtp_slot_in_page).  Cheap enough for each visit of a page.
 */
const char *
mtp_page_shape(Page page)
{
	PageHeader	ph = (PageHeader) page;
	MtpPageHeader *h = MtpHeader(page);

	if (h->page_id != MTP_PAGE_ID)
		return "page identifier is wrong";
	if (h->format < MTP_PAGE_OLDEST || h->format > MTP_PAGE_FORMAT)
		return "page format is unknown";
	if (ph->pd_special != BLCKSZ || ph->pd_upper > ph->pd_special ||
		ph->pd_lower > ph->pd_upper || ph->pd_upper % mtp_norm_align(h->norm) != 0)
		return "page header's bounds are out of order";
	if (h->type == MTP_PAGE_META || h->type == MTP_PAGE_DELETED)
		return NULL;
	if (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER)
		return "page type is unknown";
	if ((h->type == MTP_PAGE_LEAF) != (h->level == 0))
		return "page type and level don't agree";
	if (h->cap % MTP_DIR_STEP != 0 || h->nnodes > h->cap ||
		ph->pd_lower != MTP_DIR_AT + h->cap * 5 + h->nnodes * sizeof(MtpNode))
		return "directory's size is wrong";
	if (h->shift > 63)
		return "directory's window is wrong";
	if ((h->norm & MTP_NORM_KIND) > MTP_NORM_NAME ||
		((h->norm & MTP_NORM_CUT) && !mtp_norm_is_exact(h->norm)) ||
		((h->norm & MTP_NORM_SHORT) && mtp_norm_is_wide(h->norm)))
		return "kind of normalized keys is unknown";
	if ((h->norm & MTP_NORM_LEAF) && (h->type != MTP_PAGE_LEAF || h->format == MTP_PAGE_OLDEST))
		return "bodies are of a kind that the page cannot have";
	if (h->highkey != 0 && !body_ok(page, h->highkey, false))
		return "high key is not an item";
	if ((h->highkey == 0) != (h->right == InvalidBlockNumber))
		return "high key and right link don't agree";
	if (h->garbage > ph->pd_special - ph->pd_upper)
		return "more garbage than items";
	if (h->nitems > MTP_MAX_ITEMS)
		return "number of items is impossible";
	if (!counts_ok(page))
		return "directory does not have as many items as the page";
	return NULL;
}

const char *
mtp_page_fault(Page page, int *pos)
{
	MtpPageHeader *h = MtpHeader(page);
	const char *what = mtp_page_shape(page);
	Size		bytes = 0;
	uint32		last = 0;
	int			n = 0;
	int			unused;

	if (pos == NULL)
		pos = &unused;
	*pos = -1;
	if (what != NULL || (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER))
		return what;
	for (int i = 0; i < h->nnodes; i++)
	{
		MtpNode    *node = &MtpNodes(page)[i];

		for (int j = 0; j < MtpCounts(page)[i]; j++)
		{
			unsigned	off = node->offs[j] & ~MTP_SLOT_FLAGS;
			IndexTuple	body = (IndexTuple) ((char *) page + off);
			bool		narrow = mtp_off_narrow(h->norm, node->offs[j]);
			MtpItemRoom room;
			uint64		norm;

			*pos = n++;
			if (!body_ok(page, off, narrow))
				return "directory points to something that is not an item";
			if ((node->offs[j] & MTP_SLOT_NARROW) && !narrow)
				return "directory has unknown flags";
			if (node->heads[j] < last)
				return "heads in the directory are out of order";
			last = node->heads[j];
			norm = mtp_norm_tuple(h->norm, mtp_slot_item(page, i, j, &room));
			if (last != mtp_page_head(h, norm) ||
				(narrow && norm != mtp_page_narrow_norm(h, last)))
				return "head in the directory differs from its item's key";
			bytes += mtp_body_size(h->norm, body);
		}
		*pos = -1;
		if (MtpDir(page)[i] != last)
			return "directory's first level differs from its second";
	}
	if (h->highkey != 0)
		bytes += mtp_body_size(h->norm, MtpHighKey(page));
	if (bytes != mtp_page_body_bytes(page))
		return "free space is not what items and garbage leave";
	return NULL;
}
