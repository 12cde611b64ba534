/*
 * pack.c
 *	  Fills a fresh page with sorted items.
 */
#include "page/page.h"

static uint16
put_body(Page page, IndexTuple itup)
{
	PageHeader	ph = (PageHeader) page;
	Size		size = IndexTupleSize(itup);
	Size		aligned = MAXALIGN(size);
	char	   *to;

	ph->pd_upper -= aligned;
	to = (char *) page + ph->pd_upper;
	memcpy(to, itup, size);
	if (aligned > size)
		memset(to + size, 0, aligned - size);
	return ph->pd_upper;
}

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

	fill = mtp_page_fill(n, bytes);
	h->nnodes = (n + fill - 1) / fill;
	h->cap = TYPEALIGN(MTP_DIR_STEP, Max(h->nnodes, 1));
	h->nitems = n;
	ph->pd_lower = MTP_DIR_AT + h->cap * 5 + h->nnodes * sizeof(MtpNode);
	Assert(MTP_DIR_BYTES(h->nnodes) + bytes <= MTP_PAGE_ROOM);
	memset(MtpDir(page), 0, ph->pd_lower - MTP_DIR_AT);

	mtp_page_set_window(page, norms);
	if (highkey)
		h->highkey = put_body(page, highkey);
	for (int i = 0; i < n; i++)
	{
		MtpNode    *node = &MtpNodes(page)[i / fill];

		node->heads[i % fill] = mtp_page_head(h, norms[i]);
		node->offs[i % fill] = put_body(page, items[i]);
		MtpCounts(page)[i / fill]++;
		MtpDir(page)[i / fill] = node->heads[i % fill];
	}
	Assert(ph->pd_lower <= ph->pd_upper);
}
