/*
 * pack.c
 *	  Fills a fresh page with sorted items.
 */
#include "page/page.h"

/*
 * Chooses the page's window: all norms of the items get different heads as far as 32 bits allow.
 * A page without neighbours on the right will mostly grow there, so its window is 16 times as wide.
 */
static void
set_window(MtpPageHeader *h, uint64 min, uint64 max)
{
	uint64		width = max - min;
	int			shift = 0;

	while (shift < 32 && (width >> shift) > PG_UINT32_MAX)
		shift++;
	if (h->right == InvalidBlockNumber && shift < 32)
		shift = Min(32, shift + 4);
	h->base = min;
	h->shift = shift;
}

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
	int			first = 0;

	Assert(h->nitems == 0 && n <= MTP_MAX_ITEMS);
	for (int i = 0; i < n; i++)
	{
		norms[i] = mtp_norm_tuple(h->norm, items[i]);
		bytes += MAXALIGN(IndexTupleSize(items[i]));
	}

	fill = MTP_FILL_FOR(n, bytes);
	h->nnodes = (n + fill - 1) / fill;
	h->cap = TYPEALIGN(MTP_DIR_STEP, Max(h->nnodes, 1));
	h->nitems = n;
	ph->pd_lower = MTP_DIR_AT + h->cap * 5 + h->nnodes * sizeof(MtpNode);
	Assert(MTP_DIR_BYTES(h->nnodes) + bytes <= MTP_PAGE_ROOM);
	memset(MtpDir(page), 0, ph->pd_lower - MTP_DIR_AT);

	/* An inner page's first item is minus infinity: it says nothing about the window. */
	if (h->type == MTP_PAGE_INNER && n > 1)
		first = 1;
	if (n > 0)
		set_window(h, norms[first], norms[n - 1]);

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
