/*
 * pack.c
 *	  Fills a fresh page with sorted items.
 */
#include "page/page.h"

void
mtp_page_pack(Page page, int n, const IndexTuple *items, IndexTuple highkey)
{
	PageHeader	ph = (PageHeader) page;
	MtpPageHeader *h = MtpHead(page);
	Size		bytes = highkey ? MAXALIGN(IndexTupleSize(highkey)) : 0;
	uint64		norms[MTP_MAX_ITEMS];
	int			fill;

	Assert(h->nitems == 0 && n <= MTP_MAX_ITEMS);
	for (int i = 0; i < n; i++)
	{
		norms[i] = mtp_norm_tuple(h->norm, items[i]);
		bytes += MAXALIGN(IndexTupleSize(items[i]));
	}

	fill = mtp_page_lay_out(page, n, bytes);
	Assert(MTP_DIR_BYTES(h->nnodes) + bytes <= MTP_PAGE_ROOM);
	memset(MtpDir(page), 0, ph->pd_lower - MTP_DIR_AT);

	mtp_page_set_window(page, norms);
	if (highkey)
		h->highkey = mtp_page_put_body(page, highkey);
	for (int i = 0; i < n; i++)
		mtp_page_append(page, i, fill, items[i], mtp_page_head(h, norms[i]), 0);
	Assert(ph->pd_lower <= ph->pd_upper);
}
