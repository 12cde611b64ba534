/*
 * change.c
 *	  Fills a page, and changes its items in place.
 *
 * Everything here but mtp_page_pack and mtp_page_merge runs in critical sections and in redo.  It
 * raises no error, allocates nothing, and looks at nothing but its arguments and the page without
 * its hints.
 */
#include "page/page.h"

/* A slot at most so many nodes away is cheaper than a new node. */
#define NEAR 2

void
mtp_page_init(Page page, uint8 type, uint16 level, uint8 norm)
{
	MtpPageHeader *h = MtpHeader(page);

	PageInit(page, BLCKSZ, 0);
	h->type = type;
	h->format = MTP_PAGE_FORMAT;
	h->left = h->right = InvalidBlockNumber;
	h->level = level;
	h->norm = mtp_page_code(type, norm);
	h->shift = 32;
	h->cap = MTP_DIR_STEP;
	h->page_id = MTP_PAGE_ID;
	((PageHeader) page)->pd_lower = MTP_DIR_AT + h->cap * 5;
}

/*
 * Lays out the directory of a page that is filled anew, for items of `bytes` bytes, high key
 * included.  Returns how many items each node gets: at least MTP_NODE_FILL, and so few that the
 * nodes have slots for all items that the page still has room for.  The caller clears the
 * directory.
 */
static inline int
lay_out(Page page, int nitems, Size bytes)
{
	MtpPageHeader *h = MtpHeader(page);
	Size		item = bytes / Max(nitems, 1) + MTP_SLOT_ROOM;
	Size		need = mtp_page_need(nitems, bytes);
	int			more = need < MTP_PAGE_ROOM ? (MTP_PAGE_ROOM - need) / item : 0;
	int			nodes = Max(MTP_NODES_FOR(nitems + more), 1);
	int			fill = Max((nitems + nodes - 1) / nodes, MTP_NODE_FILL);

	/* A directory grows in steps, so it may not quite fit. */
	while (fill < MTP_NODE_SLOTS && MTP_DIR_BYTES((nitems + fill - 1) / fill) +
		   bytes > MTP_PAGE_ROOM)
		fill++;
	h->nitems = nitems;
	h->nnodes = (nitems + fill - 1) / fill;
	h->cap = TYPEALIGN(MTP_DIR_STEP, Max(h->nnodes, 1));
	((PageHeader) page)->pd_lower = MTP_DIR_AT + h->cap * 5 + h->nnodes * sizeof(MtpNode);
	return fill;
}

/* Puts a body below the others, with zeros behind it.  There is room for it. */
static inline uint16
put_body(Page page, IndexTuple body)
{
	PageHeader	ph = (PageHeader) page;
	Size		size = mtp_body_size(MtpHeader(page)->norm, body);

	ph->pd_upper -= size;
	memset((char *) page + ph->pd_upper + size - MAXIMUM_ALIGNOF, 0, MAXIMUM_ALIGNOF);
	memcpy((char *) page + ph->pd_upper, body, IndexTupleSize(body));
	return ph->pd_upper;
}

/*
 * The same for a tuple with its normalized key: of a narrow item the key stays away.  Returns the
 * offset with the flag that says so.
 */
static inline uint16
put_tuple(Page page, IndexTuple itup, uint64 norm)
{
	const MtpPageHeader *h = MtpHeader(page);
	Size		cut = mtp_norm_align(h->norm);
	MtpItemRoom body;

	if (!mtp_page_narrows_item(h, itup, norm))
		return put_body(page, itup);
	body.tuple.t_tid = itup->t_tid;
	body.tuple.t_info = itup->t_info - cut;
	memcpy(body.bytes + sizeof(IndexTupleData), (char *) itup + sizeof(IndexTupleData) + cut,
		   IndexTupleSize(itup) - sizeof(IndexTupleData) - cut);
	return put_body(page, &body.tuple) | MTP_SLOT_NARROW;
}

/* Leads to the body of the item of this rank, on a page that was laid out. */
static inline void
append(Page page, int rank, int fill, uint32 head, uint16 off)
{
	MtpNode    *node = &MtpNodes(page)[rank / fill];

	node->heads[rank % fill] = head;
	node->offs[rank % fill] = off;
	MtpCounts(page)[rank / fill]++;
	MtpDir(page)[rank / fill] = head;
}

/*
 * Rewrites directory and bodies without garbage, and merges n new items in (mtp_page_insert).  Dead
 * hints stay, and so do heads and bodies unless the window is new: then own[] has the normalized
 * keys of the page's items.  bytes: of all bodies then.
 */
static void
rewrite(Page page, Size bytes, const uint64 *own, int n, const uint16 *pos,
		const IndexTuple *items, const uint64 *norms)
{
	PGAlignedBlock copy;
	Page		old = copy.data;
	PageHeader	ph = (PageHeader) page;
	MtpPageHeader *h = MtpHeader(page);
	int			fill;
	int			rank = 0,
				next = 0,
				seen = 0;

	memcpy(old, page, BLCKSZ);
	fill = lay_out(page, h->nitems + n, bytes);
	h->garbage = 0;
	ph->pd_upper = ph->pd_special;
	if (ph->pd_lower + bytes > ph->pd_special)
		elog(PANIC, "items do not fit on an mtpower index page");
	memset(MtpDir(page), 0, ph->pd_special - MTP_DIR_AT);

	if (h->highkey != 0)
		h->highkey = put_body(page, MtpHighKey(old));
	for (int i = 0; i < MtpHeader(old)->nnodes; i++)
	{
		MtpNode    *from = &MtpNodes(old)[i];

		for (int j = 0; j < MtpCounts(old)[i]; j++, seen++)
		{
			IndexTuple	body = mtp_node_body(old, from, j);
			uint16		flags = from->offs[j] & MTP_SLOT_FLAGS;
			MtpItemRoom room;

			for (; next < n && pos[next] == seen; next++)
				append(page, rank++, fill, mtp_page_head(h, norms[next]),
					   put_tuple(page, items[next], norms[next]));
			if (own == NULL)
			{
				append(page, rank++, fill, from->heads[j], put_body(page, body) | flags);
				continue;
			}
			if (mtp_off_narrow(h->norm, flags))
				body = mtp_body_widen(h->norm, own[seen], body, &room);
			append(page, rank++, fill, mtp_page_head(h, own[seen]),
				   put_tuple(page, body, own[seen]) | (flags & MTP_SLOT_DEAD));
		}
	}
	for (; next < n; next++)
		append(page, rank++, fill, mtp_page_head(h, norms[next]),
			   put_tuple(page, items[next], norms[next]));
	Assert(rank == h->nitems);
}

/*
 * The first item of an inner page, minus infinity, and nulls say nothing about where the other
 * items lie, so they do not count.  A page without a sibling on one side mostly grows there, so
 * its window leaves 15 times the span of its items on that side; or less if more would cost narrow
 * items their low bits.  The window's base has the low bits that the keys have in common.
 */
void
mtp_page_set_window(Page page, const uint64 *norms)
{
	MtpPageHeader *h = MtpHeader(page);
	bool		grows = MtpLeftmost(page) || MtpRightmost(page);
	int			lo = 0,
				hi = h->nitems - 1;
	int			shift = 0;
	uint64		differ = 0;
	uint64		span,
				room,
				low;

	if (h->type == MTP_PAGE_INNER && lo < hi)
		lo++;
	if (h->norm & MTP_NORM_NULLS_FIRST)
		while (lo < hi && norms[lo] == 0)
			lo++;
	else
		while (lo < hi && norms[hi] == PG_UINT64_MAX)
			hi--;
	if (lo > hi)
		return;

	span = norms[hi] - norms[lo];
	if (h->norm & MTP_NORM_CUT)
		for (int i = lo; i <= hi; i++)
			differ |= norms[i] ^ norms[lo];
	while (shift < 32 &&
		   ((span >> shift) > PG_UINT32_MAX ||
			(grows && shift < 31 && (span >> shift) > PG_UINT32_MAX / 31 &&
			 (differ >> shift & 1) == 0)))
		shift++;
	h->shift = shift;
	h->base = 0;				/* all numbers */
	if (shift == 32)
		return;
	room = ((uint64) PG_UINT32_MAX << shift) - span;
	if (!MtpLeftmost(page))
		room = 0;
	else if (MtpRightmost(page))
		room /= 2;
	low = (UINT64CONST(1) << shift) - 1;
	h->base = norms[lo] - Min(norms[lo] & ~low, room & ~low);
}

/*
 * Packs the page if that fits.  The window comes first: it tells which items are narrow.
 */
static bool
pack(Page page, int n, const IndexTuple *items, IndexTuple highkey)
{
	PageHeader	ph = (PageHeader) page;
	MtpPageHeader *h = MtpHeader(page);
	Size		bytes = highkey ? mtp_body_size(h->norm, highkey) : 0;
	uint64		norms[MTP_MAX_ITEMS];
	int			fill;

	Assert(h->nitems == 0 && n >= 0);
	if (n > MTP_MAX_ITEMS)
		return false;
	norms[0] = 0;				/* not read where n is 0, which compilers do not see */
	for (int i = 0; i < n; i++)
		norms[i] = mtp_item_cuts(h->norm, items[i]) ?
			mtp_norm_fixed(h->norm, (char *) items[i] + sizeof(IndexTupleData)) :
			mtp_norm_tuple(h->norm, items[i]);
	h->nitems = n;
	mtp_page_set_window(page, norms);
	bytes += mtp_page_bytes(page, n, items, norms);
	if (mtp_page_need(n, bytes) > MTP_PAGE_ROOM)
		return false;
	fill = lay_out(page, n, bytes);
	Assert(MTP_DIR_BYTES(h->nnodes) + bytes <= MTP_PAGE_ROOM);
	memset(MtpDir(page), 0, ph->pd_lower - MTP_DIR_AT);
	if (highkey)
		h->highkey = put_body(page, highkey);
	for (int i = 0; i < n; i++)
		append(page, i, fill, mtp_page_head(h, norms[i]), put_tuple(page, items[i], norms[i]));
	Assert(ph->pd_lower <= ph->pd_upper);
	return true;
}

void
mtp_page_pack(Page page, int n, const IndexTuple *items, IndexTuple highkey)
{
	if (!pack(page, n, items, highkey))
		elog(ERROR, "items do not fit on an mtpower index page");
}

/*
 * Makes items narrow or whole as the page's new window, which was `was`, has it.  True if none
 * changes.  The old window comes back if it has more narrow items: unless these are less than
 * half, and there is room.  Then it is the others that need heads which tell them apart.
 */
static bool
renarrow(Page page, MtpPageHeader was, const uint64 *norms)
{
	MtpPageHeader *h = MtpHeader(page);
	Size		bytes = mtp_page_body_bytes(page);
	int			before = 0,
				after = 0,
				changes = 0,
				at = 0;

	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++, at++)
		{
			bool		narrow = mtp_off_narrow(h->norm, MtpNodes(page)[i].offs[j]);
			bool		becomes = (narrow || mtp_item_cuts(h->norm, mtp_slot_body(page, i, j))) &&
			mtp_page_keeps_norm(h, norms[at]);

			before += narrow;
			after += becomes;
			changes += narrow != becomes;
		}
	bytes = bytes + before * mtp_norm_align(h->norm) - after * mtp_norm_align(h->norm);
	if (after < before &&
		(before >= h->nitems / 2 || mtp_page_need(h->nitems, bytes) > MTP_PAGE_ROOM))
	{
		h->base = was.base;
		h->shift = was.shift;
		return false;
	}
	if (changes > 0)
		rewrite(page, bytes, norms, 0, NULL, NULL, NULL);
	return changes == 0;
}

/*
 * Renews the window of a page that has grown from a few items: it was a guess.  It stays if some
 * normalized key cannot be had without allocating.
 */
static void
rewindow(Page page)
{
	MtpPageHeader *h = MtpHeader(page);
	MtpPageHeader was = *h;
	uint64		norms[MTP_MAX_ITEMS] = {0}; /* the analyser can't tell that all are set */
	int			n = 0;
	int			at = 0;

	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
		{
			MtpItemRoom room;
			IndexTuple	itup = mtp_slot_item(page, i, j, &room);

			if (!mtp_norm_inline(h->norm, itup))
				return;
			norms[n++] = mtp_norm_tuple(h->norm, itup);
		}
	Assert(n == h->nitems);
	mtp_page_set_window(page, norms);
	if ((h->norm & MTP_NORM_CUT) && !renarrow(page, was, norms))
		return;

	for (int i = 0; i < h->nnodes; i++)
	{
		MtpNode    *node = &MtpNodes(page)[i];

		for (int j = 0; j < MtpCounts(page)[i]; j++)
			node->heads[j] = mtp_page_head(h, norms[at++]);
		MtpDir(page)[i] = node->heads[MtpCounts(page)[i] - 1];
	}
}

/* True if growing from `before` to `after` items passes 4, 16, 64 or 256. */
static bool
grew_much(int before, int after)
{
	for (int step = 4; step <= 256; step *= 4)
		if (before < step && after >= step)
			return true;
	return false;
}

/* The bytes between directory and bodies */
static inline Size
gap(Page page)
{
	PageHeader	ph = (PageHeader) page;

	return ph->pd_upper - ph->pd_lower;
}

/* Opens room for one more node at index `at`.  False if the gap is too small. */
static bool
open_node(Page page, int at)
{
	PageHeader	ph = (PageHeader) page;
	MtpPageHeader *h = MtpHeader(page);
	Size		need = sizeof(MtpNode);

	if (h->nnodes == h->cap)
	{
		if (gap(page) < need + MTP_DIR_STEP * 5)
			return false;
		/* Move nodes, then counts, up behind the larger first level. */
		memmove((char *) MtpNodes(page) + MTP_DIR_STEP * 5, MtpNodes(page),
				h->nnodes * sizeof(MtpNode));
		memmove((char *) MtpCounts(page) + MTP_DIR_STEP * 4, MtpCounts(page), h->nnodes);
		h->cap += MTP_DIR_STEP;
		memset(MtpDir(page) + h->nnodes, 0, MTP_DIR_STEP * 4);
		memset(MtpCounts(page) + h->nnodes, 0, MTP_DIR_STEP);
		ph->pd_lower += MTP_DIR_STEP * 5;
	}
	if (gap(page) < need)
		return false;
	memmove(&MtpNodes(page)[at + 1], &MtpNodes(page)[at], (h->nnodes - at) * sizeof(MtpNode));
	memmove(&MtpCounts(page)[at + 1], &MtpCounts(page)[at], h->nnodes - at);
	memmove(&MtpDir(page)[at + 1], &MtpDir(page)[at], (h->nnodes - at) * sizeof(uint32));
	memset(&MtpNodes(page)[at], 0, sizeof(MtpNode));
	MtpCounts(page)[at] = 0;
	h->nnodes++;
	ph->pd_lower += need;
	return true;
}

/* Moves an item to a neighbour: the first one to the end of the node before, or the last one on. */
static void
shift_item(Page page, int from, int to)
{
	MtpNode    *f = &MtpNodes(page)[from];
	MtpNode    *t = &MtpNodes(page)[to];
	int			n = --MtpCounts(page)[from];
	int			end = MtpCounts(page)[to]++;
	int			take = from < to ? n : 0;
	int			put = from < to ? 0 : end;

	memmove(&t->heads[put + 1], &t->heads[put], (end - put) * sizeof(uint32));
	memmove(&t->offs[put + 1], &t->offs[put], (end - put) * sizeof(uint16));
	t->heads[put] = f->heads[take];
	t->offs[put] = f->offs[take];
	memmove(&f->heads[take], &f->heads[take + 1], (n - take) * sizeof(uint32));
	memmove(&f->offs[take], &f->offs[take + 1], (n - take) * sizeof(uint16));
	f->heads[n] = 0;
	f->offs[n] = 0;
	MtpDir(page)[from] = f->heads[n - 1];
	MtpDir(page)[to] = t->heads[end];
}

/*
 * Makes a slot where all nodes that could take the new item are full: from the nearest node that
 * is not full, at most `reach` nodes away, each node in between passes one item on.  In front of a
 * node is behind the one before it.  False if there is none.
 */
static bool
borrow_slot(Page page, MtpPos *p, int reach)
{
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	int			end = p->slot > 0 ? p->node : p->node - 1;
	int			right = p->node;
	int			left = end;

	while (right < nnodes && right - p->node < reach && counts[right] == MTP_NODE_SLOTS)
		right++;
	while (left >= 0 && end - left < reach && counts[left] == MTP_NODE_SLOTS)
		left--;
	if (right < nnodes && counts[right] < MTP_NODE_SLOTS &&
		(left < 0 || right - p->node <= end - left))
	{
		for (; right > p->node; right--)
			shift_item(page, right - 1, right);
		return true;
	}
	if (left < 0 || counts[left] == MTP_NODE_SLOTS)
		return false;
	for (; left < end; left++)
		shift_item(page, left + 1, left);
	p->slot = (p->slot > 0 ? p->slot : MTP_NODE_SLOTS) - 1;
	p->node = end;
	return true;
}

/*
 * Splits the full node of p in two, or opens one behind the end or between full nodes.  False if
 * there is no room for it.
 */
static bool
add_node(Page page, MtpPos *p)
{
	const int	half = MTP_NODE_SLOTS / 2;
	MtpNode    *node,
			   *next;

	if (p->slot == 0)
		return open_node(page, p->node);
	if (!open_node(page, p->node + 1))
		return false;
	node = &MtpNodes(page)[p->node];
	next = node + 1;
	memcpy(next->heads, node->heads + half, half * sizeof(uint32));
	memcpy(next->offs, node->offs + half, half * sizeof(uint16));
	memset(node->heads + half, 0, half * sizeof(uint32));
	memset(node->offs + half, 0, half * sizeof(uint16));
	MtpCounts(page)[p->node] = MtpCounts(page)[p->node + 1] = half;
	MtpDir(page)[p->node] = node->heads[half - 1];
	MtpDir(page)[p->node + 1] = next->heads[half - 1];
	if (p->slot > half)
	{
		p->node++;
		p->slot -= half;
	}
	return true;
}

/*
 * Finds the node and slot for a new item at rank `pos`.  A node takes the room of six small items,
 * so a new one comes only where no slot is near.  False if there is no slot, and no room for a
 * node.
 */
static bool
make_slot(Page page, int pos, MtpPos *p)
{
	MtpPageHeader *h = MtpHeader(page);
	uint8	   *counts;

	*p = mtp_page_locate(page, pos);
	counts = MtpCounts(page);

	/* At a border between two nodes the left one takes the item, if it can. */
	if (p->slot == 0 && p->node > 0 && counts[p->node - 1] < MTP_NODE_SLOTS)
	{
		p->node--;
		p->slot = counts[p->node];
	}
	if (p->node < h->nnodes && counts[p->node] < MTP_NODE_SLOTS)
		return true;
	return borrow_slot(page, p, NEAR) || add_node(page, p) || borrow_slot(page, p, h->nnodes);
}

/* Inserts one item at rank pos.  False, with the page as it was, if the gap is too small. */
static bool
insert_one(Page page, int pos, IndexTuple itup, uint64 norm)
{
	PageHeader	ph = (PageHeader) page;
	Size		size = mtp_page_bytes(page, 1, &itup, &norm);
	MtpNode    *node;
	MtpPos		p;
	uint16		off;
	int			tail;

	if (gap(page) < size)
		return false;

	/* The body takes its room first, so that a new node cannot have it. */
	off = put_tuple(page, itup, norm);
	if (!make_slot(page, pos, &p))
	{
		ph->pd_upper += size;
		return false;
	}

	node = &MtpNodes(page)[p.node];
	tail = MtpCounts(page)[p.node] - p.slot;
	memmove(&node->heads[p.slot + 1], &node->heads[p.slot], tail * sizeof(uint32));
	memmove(&node->offs[p.slot + 1], &node->offs[p.slot], tail * sizeof(uint16));
	node->heads[p.slot] = mtp_page_head(MtpHeader(page), norm);
	node->offs[p.slot] = off;
	MtpCounts(page)[p.node]++;
	MtpDir(page)[p.node] = node->heads[MtpCounts(page)[p.node] - 1];
	MtpHeader(page)->nitems++;
	return true;
}

static void
merge_in(Page page, int n, const uint16 *pos, const IndexTuple *items, const uint64 *norms)
{
	Size		bytes = mtp_page_body_bytes(page) + mtp_page_bytes(page, n, items, norms);

	rewrite(page, bytes, NULL, n, pos, items, norms);
}

void
mtp_page_insert(Page page, int n, const uint16 *pos, const IndexTuple *items, const uint64 *norms)
{
	MtpPageHeader *h = MtpHeader(page);
	int			before = h->nitems;
	bool		reads PG_USED_FOR_ASSERTS_ONLY = true;

	/* The caller knew it (mtp_page_insert_reads); redo trusts the page. */
#ifdef USE_ASSERT_CHECKING
	reads = mtp_page_insert_reads(page, n, mtp_page_bytes(page, n, items, norms));
#endif

	/*
	 * Many new items are merged in one pass.  Few go in one by one, from the last to the first, so
	 * that the ranks of the others stay.  Where the gap gets too small the rest is merged too.
	 */
	if (n > 4 && n > before / 2)
		merge_in(page, n, pos, items, norms);
	else
		for (int i = n - 1; i >= 0; i--)
			if (!insert_one(page, pos[i], items[i], norms[i]))
			{
				Assert(reads);
				merge_in(page, i + 1, pos, items, norms);
				break;
			}

	if (grew_much(before, h->nitems))
		rewindow(page);
}

/* The fewest free slots that a node has together with those from which it borrows first */
static int
least_free_slots(Page page)
{
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	int			free_slots = 0;
	int			least = nnodes > 0 ? INT_MAX : 0;

	for (int i = -NEAR; i < nnodes; i++)
	{
		if (i + NEAR < nnodes)
			free_slots += MTP_NODE_SLOTS - counts[i + NEAR];
		if (i - NEAR > 0)
			free_slots -= MTP_NODE_SLOTS - counts[i - NEAR - 1];
		if (i >= 0)
			least = Min(least, free_slots);
	}
	return least;
}

bool
mtp_page_insert_reads(Page page, int n, Size bytes)
{
	MtpPageHeader *h = MtpHeader(page);
	int			opened;

	if ((n > 4 && n > h->nitems / 2) || grew_much(h->nitems, h->nitems + n))
		return true;

	/*
	 * One item takes its body's room first, and then any slot if there is no room for a node. Else
	 * a page that fills slowly would be read at each insertion.
	 */
	if (n == 1 && h->nitems < h->nnodes * MTP_NODE_SLOTS)
		return gap(page) < bytes;

	/*
	 * A node is opened where those around are full, and each item takes one slot.  16 nodes may
	 * enlarge the directory's first level.
	 */
	opened = Max(n - least_free_slots(page), 0);
	if (opened > 0)
		bytes += opened * sizeof(MtpNode) + (opened / MTP_DIR_STEP + 1) * MTP_DIR_STEP * 5;
	return gap(page) < bytes;
}

/* Takes an item's dead hint away. */
static void
clear_dead(Page page, const MtpPos *p)
{
	if (mtp_slot_dead(page, p->node, p->slot) && MtpHeader(page)->ndead > 0)
		MtpHeader(page)->ndead--;
	MtpNodes(page)[p->node].offs[p->slot] &= ~MTP_SLOT_DEAD;
}

/* Takes the items at the places at[], in their order, out of the directory; bodies are garbage. */
static void
drop_items(Page page, int n, const MtpPos *at)
{
	MtpPageHeader *h = MtpHeader(page);
	uint32	   *dir = MtpDir(page);
	uint8	   *counts = MtpCounts(page);

	/* From the last one on: a place in front of what has gone stays what it was. */
	for (int i = n - 1; i >= 0; i--)
	{
		MtpPos		p = at[i];
		MtpNode    *node = &MtpNodes(page)[p.node];
		int			tail = --counts[p.node] - p.slot;
		IndexTuple	itup = mtp_node_body(page, node, p.slot);

		/* No slot leads to this hint any more, so mtp_page_mask can't hide it. */
		if (h->type == MTP_PAGE_LEAF && mtp_item_is_list(itup))
			MtpListHeadOf(itup)->dead = 0;
		h->garbage += mtp_body_size(h->norm, itup);
		clear_dead(page, &p);
		memmove(&node->heads[p.slot], &node->heads[p.slot + 1], tail * sizeof(uint32));
		memmove(&node->offs[p.slot], &node->offs[p.slot + 1], tail * sizeof(uint16));
		node->heads[p.slot + tail] = 0;
		node->offs[p.slot + tail] = 0;
		h->nitems--;
		if (counts[p.node] > 0)
		{
			dir[p.node] = node->heads[counts[p.node] - 1];
			continue;
		}

		/* The node is empty: close the gap. */
		h->nnodes--;
		memmove(node, node + 1, (h->nnodes - p.node) * sizeof(MtpNode));
		memmove(&counts[p.node], &counts[p.node + 1], h->nnodes - p.node);
		memmove(&dir[p.node], &dir[p.node + 1], (h->nnodes - p.node) * sizeof(uint32));
		counts[h->nnodes] = 0;
		dir[h->nnodes] = 0;
		((PageHeader) page)->pd_lower -= sizeof(MtpNode);
	}
	if (h->ndead == 0)
		h->flags &= ~MTP_HAS_DEAD;

	/* An empty page gives the bodies' room back, whatever it said of its garbage. */
	if (h->nitems == 0)
		rewrite(page, h->highkey != 0 ? mtp_body_size(h->norm, MtpHighKey(page)) : 0,
				NULL, 0, NULL, NULL, NULL);
}

/* True if an item's whole body takes as many bytes as the one in its place, which is whole, too. */
static bool
goes_over(Page page, const MtpPos *p, IndexTuple item, uint64 norm)
{
	const MtpPageHeader *h = MtpHeader(page);

	return !mtp_off_narrow(h->norm, MtpNodes(page)[p->node].offs[p->slot]) &&
		!mtp_page_narrows_item(h, item, norm) &&
		mtp_body_size(h->norm, item) ==
		mtp_body_size(h->norm, mtp_slot_body(page, p->node, p->slot));
}

bool
mtp_page_replace_reads(Page page, int pos, int nold, int n, const IndexTuple *items, uint64 norm)
{
	uint64		norms[2] = {norm, norm};
	MtpPos		p = mtp_page_locate(page, pos);

	return !(n == 1 && goes_over(page, &p, items[0], norm)) &&
		(grew_much(MtpHeader(page)->nitems, MtpHeader(page)->nitems + n - nold) ||
		 mtp_page_insert_reads(page, n, mtp_page_bytes(page, n, items, norms)));
}

int
mtp_page_join(Page page, int pos, int nold, const ItemPointerData *tid, IndexTuple *made)
{
	MtpPos		p = mtp_page_locate(page, pos);
	ItemPointerData tids[MTP_LIST_JOIN];
	MtpItemRoom room;
	IndexTuple	first = mtp_slot_item(page, p.node, p.slot, &room);

	Assert(nold > 0 && nold <= lengthof(tids));
	for (int i = 0; i < nold - 1; i++)
	{
		(void) mtp_pos_next(page, &p);
		tids[i] = mtp_slot_body(page, p.node, p.slot)->t_tid;
	}
	tids[nold - 1] = *tid;
	return mtp_list_splice(first, nold, tids, MTP_LIST_ROOM, made);
}

/* A list that gets a TID mostly has the room already, so its body stays where it is. */
void
mtp_page_replace(Page page, int pos, int nold, int n, const IndexTuple *items, uint64 norm)
{
	uint16		ranks[2] = {pos, pos};
	uint64		norms[2] = {norm, norm};
	MtpPos		p = mtp_page_locate(page, pos);
	MtpPos		gone[MTP_LIST_JOIN];
	int			before = MtpHeader(page)->nitems;
	uint16		dead = MtpHeader(page)->flags & MTP_HAS_DEAD;	/* other items may have hints */
	bool		reads PG_USED_FOR_ASSERTS_ONLY = true;

	Assert(n > 0 && n <= lengthof(ranks));
	Assert(nold > 0 && nold <= lengthof(gone));
	gone[0] = p;
	for (int i = 1; i < nold; i++)
	{
		gone[i] = gone[i - 1];
		(void) mtp_pos_next(page, &gone[i]);
	}
	if (n == 1 && goes_over(page, &p, items[0], norm))
	{
		IndexTuple	body = mtp_slot_body(page, p.node, p.slot);
		Size		size = IndexTupleSize(items[0]);

		clear_dead(page, &p);
		memcpy(body, items[0], size);
		memset((char *) body + size, 0, mtp_body_size(MtpHeader(page)->norm, body) - size);
		if (nold > 1)
			drop_items(page, nold - 1, gone + 1);
		MtpHeader(page)->flags |= dead;
		return;
	}
#ifdef USE_ASSERT_CHECKING
	reads = mtp_page_replace_reads(page, pos, nold, n, items, norm);
#endif
	drop_items(page, nold, gone);
	MtpHeader(page)->flags |= dead;
	for (int i = n - 1; i >= 0; i--)
		if (!insert_one(page, pos, items[i], norm))
		{
			Assert(reads);
			merge_in(page, i + 1, ranks, items, norms);
			break;
		}
	if (grew_much(before, MtpHeader(page)->nitems))
		rewindow(page);
}

/* The TIDs of a list whose numbers are at[0] < at[1] < … go; there are others. */
static void
shorten_list(Page page, IndexTuple itup, int n, const uint16 *at, int first)
{
	MtpPageHeader *h = MtpHeader(page);
	Size		size = mtp_body_size(h->norm, itup);
	uint16		gone[MTP_LIST_TIDS];

	for (int i = 0; i < n; i++)
		gone[i] = at[i] - first;
	mtp_list_remove(itup, n, gone);
	h->garbage += size - mtp_body_size(h->norm, itup);
}

void
mtp_page_delete(Page page, int n, const uint16 *at)
{
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	MtpPos		whole[MTP_MAX_ITEMS];
	int			nwhole = 0;
	int			entry = 0;		/* number of the item's first entry */

	/* An inner page has no lists, and is not read here: its items may be damaged. */
	if (!MtpIsLeaf(page))
	{
		for (; nwhole < n; nwhole++)
			whole[nwhole] = mtp_page_locate(page, at[nwhole]);
		nnodes = 0;
	}

	for (int node = 0, i = 0; node < nnodes && i < n; node++)
	{
		const MtpNode *of = &MtpNodes(page)[node];

		for (int slot = 0; slot < counts[node] && i < n; slot++)
		{
			IndexTuple	itup = mtp_node_body(page, of, slot);
			MtpPos		p = {.node = node,.slot = slot};
			int			first = i;
			int			begin = entry;

			entry += mtp_item_entries(itup);
			if (at[i] >= entry)
				continue;
			while (i < n && at[i] < entry)
				i++;
			if (i - first == entry - begin)
				whole[nwhole++] = p;
			else
				shorten_list(page, itup, i - first, at + first, begin);
		}
	}
	drop_items(page, nwhole, whole);
}

/* Puts n new items among the page's own[]. */
static int
mix(int nown, const IndexTuple *own, int n, const uint16 *pos, const IndexTuple *items,
	IndexTuple *all)
{
	int			total = 0;
	int			next = 0;

	for (int i = 0; i < nown; i++)
	{
		while (next < n && pos[next] == i)
			all[total++] = items[next++];
		all[total++] = own[i];
	}
	while (next < n)
		all[total++] = items[next++];
	return total;
}

int
mtp_page_all_items(Page page, int n, const uint16 *pos, const IndexTuple *items, IndexTuple *all)
{
	int			nown = MtpHeader(page)->nitems;
	IndexTuple *own = palloc((nown + 1) * sizeof(IndexTuple));
	MtpItemRoom *rooms = palloc((nown + 1) * sizeof(MtpItemRoom));
	int			total = mix(mtp_page_items(page, own, rooms), own, n, pos, items, all);

	pfree(own);
	return total;
}

Page
mtp_page_left(Page page, uint8 code, int nold, int n, const uint16 *pos,
			  const IndexTuple *items, const uint8 *same, int count, IndexTuple highkey)
{
	MtpPageHeader *h = MtpHeader(page);
	IndexTuple *all = palloc((h->nitems + n + 1) * sizeof(IndexTuple));
	int			total = nold + n;
	IndexTuple *made;
	Page		image = palloc(BLCKSZ);

	(void) mtp_page_all_items(page, n, pos, items, all);
	made = mtp_list_merge(all, &total, same, MTP_LIST_ROOM, NULL);
	if (made == NULL || total < count)
		return NULL;
	mtp_page_init(image, h->type, h->level, code);
	MtpHeader(image)->left = h->left;
	/* The caller sets the right link; that there is one makes another window. */
	MtpHeader(image)->right = highkey != NULL ? 0 : InvalidBlockNumber;
	mtp_page_pack(image, count, made, highkey);
	return image;
}

/*
 * Carries dead bits over to an image, whose items are made[]: those that are the page's own[], with
 * their tuples on the page or in rooms[].
 */
static void
keep_dead(Page page, Page image, const IndexTuple *own, const MtpItemRoom *rooms,
		  const IndexTuple *made)
{
	int			nown = MtpHeader(page)->nitems;
	MtpPos		from = {0};
	MtpPos		to = {0};

	for (bool left = MtpHeader(image)->nitems > 0; left; left = mtp_pos_next(image, &to))
	{
		char	   *item = (char *) made[to.pos];

		if (!(item >= page && item < page + BLCKSZ) &&
			!(item >= (char *) rooms && item < (char *) (rooms + nown)))
			continue;
		while (from.pos < nown && own[from.pos] != made[to.pos])
			(void) mtp_pos_next(page, &from);
		if (from.pos < nown && mtp_slot_dead(page, from.node, from.slot))
			mtp_page_set_dead(image, to.node, to.slot);
	}
}

Page
mtp_page_merge(Page page, int n, const uint16 *pos, const IndexTuple *items, const uint8 *same)
{
	MtpPageHeader *h = MtpHeader(page);
	IndexTuple *own = palloc((h->nitems + 1) * sizeof(IndexTuple));
	IndexTuple *all = palloc((h->nitems + n + 1) * sizeof(IndexTuple));
	MtpItemRoom *rooms = palloc((h->nitems + 1) * sizeof(MtpItemRoom));
	int			total = mix(mtp_page_items(page, own, rooms), own, n, pos, items, all);
	IndexTuple *made = mtp_list_merge(all, &total, same, MTP_LIST_ROOM, NULL);
	Page		image;
	MtpPageHeader *to;

	if (made == NULL)
		return NULL;
	image = palloc(BLCKSZ);
	mtp_page_init(image, h->type, h->level, h->norm);
	to = MtpHeader(image);
	to->flags = h->flags & ~MTP_HAS_DEAD;
	to->left = h->left;
	to->right = h->right;
	to->cycleid = h->cycleid;
	if (!pack(image, total, made, h->highkey != 0 ? MtpHighKey(page) : NULL))
		return NULL;
	keep_dead(page, image, own, rooms, made);
	return image;
}

void
mtp_page_set_dead(Page page, int node, int slot)
{
	MtpPageHeader *h = MtpHeader(page);
	uint16	   *off = &MtpNodes(page)[node].offs[slot];

	if (*off & MTP_SLOT_DEAD)
		return;
	*off |= MTP_SLOT_DEAD;
	h->ndead++;
	h->flags |= MTP_HAS_DEAD;
}

void
mtp_page_mask(Page page)
{
	MtpPageHeader *h = MtpHeader(page);

	h->ndead = 0;
	h->flags &= ~MTP_HAS_DEAD;
	h->cycleid = 0;				/* VACUUM takes it away like a hint */
	if (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER)
		return;
	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
		{
			IndexTuple	itup = mtp_slot_body(page, i, j);

			MtpNodes(page)[i].offs[j] &= ~MTP_SLOT_DEAD;
			if (h->type == MTP_PAGE_LEAF && mtp_item_is_list(itup) && mtp_list_fault(itup) == NULL)
				MtpListHeadOf(itup)->dead = 0;
		}
}
