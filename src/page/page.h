/*
 * page.h
 *	  The layout of mtpower's index pages, and the two-level directory inside them.
 *
 * A page is BLCKSZ bytes with a standard page header.  Its items are IndexTuples ("bodies"), which
 * the directory alone keeps in key order.  README.md has a drawing and the invariants (P1 ... P8).
 *
 * Where an entry's first column is exact (MTP_NORM_CUT), a leaf leaves that out of a body if the
 * directory has it: the item is narrow.  Who needs keys asks for items or tuples, who needs TIDs
 * and sizes alone may look at bodies.
 */
#ifndef MTP_PAGE_H
#define MTP_PAGE_H

#include "core/core.h"

#include "access/itup.h"
#include "access/nbtree.h"
#include "page/list.h"
#include "page/norm.h"
#include "storage/bufpage.h"

/* The last two bytes of the header tell other tools that this is mtpower's page. */
#define MTP_PAGE_ID			0xFF9B

/*
 * The on-disk format of a page.  A later layout gets the next number, and needs no REINDEX.  Pages
 * of format 1 have no lists.
 */
#define MTP_PAGE_FORMAT		2
#define MTP_PAGE_OLDEST		1

/* Kinds of pages (MtpPageHeader.type) */
#define MTP_PAGE_META		1
#define MTP_PAGE_LEAF		2
#define MTP_PAGE_INNER		3
#define MTP_PAGE_DELETED	4

/* MtpPageHeader.flags */
#define MTP_ROOT			0x0001	/* root of the tree */
#define MTP_INCOMPLETE		0x0002	/* the right sibling has no downlink yet */
#define MTP_SPLIT_END		0x0004	/* last page of a split that VACUUM follows */
#define MTP_HAS_DEAD		0x0008	/* hint: some item has its dead bit set */

#define MTP_NODE_SLOTS		16	/* items in a directory node */
#define MTP_NODE_FILL		12	/* items that a fresh node gets where there is room */
#define MTP_DIR_STEP		16	/* granularity of the first level, in nodes */

/*
 * Follows PageHeaderData; both together fill the page's first cache line.
 *
 * base and shift are the page's window on normalized keys: the head of a key is (norm - base) >>
 * shift, clamped to 32 bits.  The map is monotone, so any window is correct; a good one tells more
 * items apart.
 */
typedef struct MtpPageHeader
{
	uint8		type;			/* MTP_PAGE_* */
	uint8		format;			/* MTP_PAGE_FORMAT */
	uint16		flags;
	BlockNumber left;			/* left sibling, or InvalidBlockNumber */
	BlockNumber right;			/* right link, or InvalidBlockNumber */
	uint16		level;			/* 0 = leaf */
	uint16		cycleid;		/* vacuum cycle of the last split */
	uint64		base;			/* window: normalized key of head 0 */
	uint8		shift;			/* window: 0 .. 63 */
	uint8		norm;			/* MTP_NORM_* code: of the first key column, and of bodies */
	uint16		nitems;			/* items, high key not counted */
	uint16		nnodes;			/* directory nodes in use */
	uint16		cap;			/* room of dir[] and counts[], in nodes */
	uint16		highkey;		/* offset of the high key, 0 if rightmost */
	uint16		garbage;		/* bytes of bodies that no slot leads to */
	uint16		ndead;			/* hint: items with the dead bit */
	uint16		page_id;		/* MTP_PAGE_ID */
} MtpPageHeader;

StaticAssertDecl(sizeof(MtpPageHeader) == 40, "the page header has its place");

typedef struct MtpNode
{
	uint32		heads[MTP_NODE_SLOTS];
	uint16		offs[MTP_NODE_SLOTS];	/* body's offset | MTP_SLOT_* */
} MtpNode;

/* Bodies stand at multiples of 4 at least, so the low bits of an offset are free for flags. */
#define MTP_SLOT_DEAD		0x0001	/* hint: the row is dead to everyone */
#define MTP_SLOT_NARROW		0x0002	/* the item is narrow */
#define MTP_SLOT_FLAGS		0x0003

#define MTP_HEADER_AT		MAXALIGN(SizeOfPageHeaderData)
#define MTP_DIR_AT			(MTP_HEADER_AT + sizeof(MtpPageHeader))

#define MtpHeader(page)		((MtpPageHeader *) ((char *) (page) + MTP_HEADER_AT))
#define MtpDir(page)		((uint32 *) ((char *) (page) + MTP_DIR_AT))
#define MtpCounts(page)		((uint8 *) (MtpDir(page) + MtpHeader(page)->cap))
#define MtpNodes(page)		((MtpNode *) (MtpCounts(page) + MtpHeader(page)->cap))
#define MtpHighKey(page)	((IndexTuple) ((char *) (page) + MtpHeader(page)->highkey))
#define MtpRightmost(page)	(MtpHeader(page)->right == InvalidBlockNumber)
#define MtpLeftmost(page)	(MtpHeader(page)->left == InvalidBlockNumber)
#define MtpIsLeaf(page)		(MtpHeader(page)->type == MTP_PAGE_LEAF)
#define MtpIsInner(page)	(MtpHeader(page)->type == MTP_PAGE_INNER)
#define MtpIsDeleted(page)	(MtpHeader(page)->type == MTP_PAGE_DELETED)
#define MtpIncomplete(page) ((MtpHeader(page)->flags & MTP_INCOMPLETE) != 0)

/* The bytes of a page that directory and bodies share */
#define MTP_PAGE_ROOM		(BLCKSZ - MTP_DIR_AT)

/* The bytes of a directory of so many nodes, and the fewest nodes for so many items */
#define MTP_DIR_BYTES(nnodes) \
	(TYPEALIGN(MTP_DIR_STEP, Max(nnodes, 1)) * 5 + (nnodes) * sizeof(MtpNode))
#define MTP_NODES_FOR(nitems) (((nitems) + MTP_NODE_SLOTS - 1) / MTP_NODE_SLOTS)

/*
 * For filling pages one by one: an item's share of the directory, and the room for items on a page
 * that is filled to so many percent
 */
#define MTP_SLOT_ROOM	(sizeof(MtpNode) / MTP_NODE_SLOTS)
#define MTP_FILL_ROOM(percent) ((MTP_PAGE_ROOM - MTP_DIR_STEP * 10) * (percent) / 100)

/*
 * The largest tuple.  nbtree's limit (BTMaxItemSize), so that mtpower takes whatever a btree
 * takes.  A leaf must have room for one tuple of this size, and a high key of this size with a
 * heap TID; an inner page for two downlinks and a high key, where the first item has no key.  A
 * tuple header has only 13 bits for the size, which matters from 32 KB blocks on.
 */
#define MTP_MAX_ITEM \
	(MAXALIGN_DOWN(Min((BLCKSZ - MAXALIGN(SizeOfPageHeaderData + 3 * sizeof(ItemIdData)) - \
						MAXALIGN(sizeof(BTPageOpaqueData))) / 3, INDEX_SIZE_MASK)) - \
	 MAXALIGN(sizeof(ItemPointerData)))

/* The largest high key or downlink: the same with a heap TID */
#define MTP_MAX_PIVOT (MTP_MAX_ITEM + MAXALIGN(sizeof(ItemPointerData)))

/* The largest list with its key.  As in nbtree, one that is larger would hamper splits. */
#define MTP_LIST_ROOM MAXALIGN_DOWN(MTP_MAX_ITEM / 2)

StaticAssertDecl(MTP_DIR_BYTES(1) + MAXALIGN(sizeof(IndexTupleData)) +
				 2 * MTP_MAX_PIVOT <= MTP_PAGE_ROOM,
				 "two items of the largest size fit on a page");

/* More than the items of any page */
#define MTP_MAX_ITEMS	((int) (MTP_PAGE_ROOM / (MAXALIGN(sizeof(IndexTupleData)) + 6) + 1))

/* More than the entries of any leaf, those of lists included */
#define MTP_MAX_ENTRIES ((int) (MTP_PAGE_ROOM * BITS_PER_BYTE / MTP_LIST_LEAST_BITS))

StaticAssertDecl(MTP_MAX_ENTRIES <= PG_UINT16_MAX, "numbers of entries are uint16");

/*
 * A narrow item's body is its tuple without the first bytes of data, mtp_norm_align of them: these
 * are the first column's value and zeros.  Its tuple has this size at most.
 */
#define MTP_NARROW_MOST	64

/* A body on a leaf takes at most so many bytes less than its tuple, MAXALIGNed. */
#define MTP_BODY_SPARES	MAXIMUM_ALIGNOF

/* Room for the tuple of a narrow item */
typedef union MtpItemRoom
{
	IndexTupleData tuple;
	char		bytes[MTP_NARROW_MOST] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} MtpItemRoom;

/* The bytes that a body, tuple or pivot takes on a page with this code */
static inline Size
mtp_body_size(uint8 code, IndexTuple body)
{
	return TYPEALIGN(mtp_norm_align(code), IndexTupleSize(body));
}

/*
 * The place of an item: its rank (pos), and where the directory keeps it (node, slot).  A function
 * that is not inline returns it through a pointer.  By value, gcc would build it on the stack and
 * load eight bytes of two stores, which waits for all stores before (README.md).
 */
typedef struct MtpPos
{
	int			pos;
	int			node;
	int			slot;
} MtpPos;

/* The head of a normalized key through a window.  shift: 0 .. 63. */
static inline uint32
mtp_window_head(uint64 base, uint8 shift, uint64 norm)
{
	uint64		d;

	if (unlikely(norm <= base))
		return 0;
	d = (norm - base) >> shift;
	return unlikely(d > PG_UINT32_MAX) ? PG_UINT32_MAX : (uint32) d;
}

static inline uint32
mtp_page_head(const MtpPageHeader *h, uint64 norm)
{
	return mtp_window_head(h->base, h->shift, norm);
}

/* The normalized key of head's narrow item */
static inline uint64
mtp_page_narrow_norm(const MtpPageHeader *h, uint32 head)
{
	return h->base + ((uint64) head << h->shift);
}

/*
 * True if a tuple may be stored narrow on a page with this code, as far as the tuple tells: it is
 * plain, has no nulls, and begins with a value and zeros.
 */
static inline bool
mtp_item_cuts(uint8 code, IndexTuple itup)
{
	const char *data = (char *) itup + sizeof(IndexTupleData);
	Size		least = sizeof(IndexTupleData) + mtp_norm_align(code);

	if ((code & MTP_NORM_CUT) == 0 || (itup->t_info & (INDEX_NULL_MASK | INDEX_ALT_TID_MASK)) ||
		IndexTupleSize(itup) < least || IndexTupleSize(itup) > MTP_NARROW_MOST)
		return false;
	for (Size i = mtp_norm_width(code); i < mtp_norm_align(code); i++)
		if (data[i] != 0)
			return false;
	return true;
}

/* True if the page's window gives this normalized key back. */
static inline bool
mtp_page_keeps_norm(const MtpPageHeader *h, uint64 norm)
{
	return mtp_page_narrow_norm(h, mtp_page_head(h, norm)) == norm;
}

/*
 * True if a tuple is stored narrow on the page: its normalized key comes back from its head.  That
 * is the rule for whatever is put on the page.  Whole bodies may stand there all the same: nulls,
 * lists, what was a list, and what is large.
 */
static inline bool
mtp_page_narrows_item(const MtpPageHeader *h, IndexTuple itup, uint64 norm)
{
	return mtp_item_cuts(h->norm, itup) && mtp_page_keeps_norm(h, norm);
}

/* True if an offset with flags, on a page with this code, leads to the body of a narrow item. */
static inline bool
mtp_off_narrow(uint8 code, unsigned off)
{
	return (off & MTP_SLOT_NARROW) && (code & MTP_NORM_CUT);
}

/*
 * Makes the tuple of a narrow item, whose body may lie in the room.  A body that is too large or
 * too small, which is damage, is taken for one that is not.
 */
static inline IndexTuple
mtp_body_widen(uint8 code, uint64 norm, IndexTuple body, MtpItemRoom *room)
{
	Size		cut = mtp_norm_align(code);
	Size		info = body->t_info;
	char	   *data = room->bytes + sizeof(IndexTupleData);

	if (info != sizeof(IndexTupleData))
	{
		Size		size = Max(Min(IndexTupleSize(body), MTP_NARROW_MOST - cut),
							   sizeof(IndexTupleData));

		memmove(data + cut, (char *) body + sizeof(IndexTupleData), size - sizeof(IndexTupleData));
		info = (info & ~INDEX_SIZE_MASK) | size;
	}
	room->tuple.t_tid = body->t_tid;
	room->tuple.t_info = info + cut;
	mtp_norm_put_fixed(code, norm, data);
	return &room->tuple;
}

static inline IndexTuple
mtp_node_body(Page page, const MtpNode *node, int slot)
{
	return (IndexTuple) ((char *) page + (node->offs[slot] & ~MTP_SLOT_FLAGS));
}

static inline IndexTuple
mtp_slot_body(Page page, int node, int slot)
{
	return mtp_node_body(page, &MtpNodes(page)[node], slot);
}

/* The item's tuple: on the page or, if it is narrow, in the caller's room. */
static inline IndexTuple
mtp_slot_item(Page page, int node, int slot, MtpItemRoom *room)
{
	const MtpPageHeader *h = MtpHeader(page);
	const MtpNode *n = &MtpNodes(page)[node];
	IndexTuple	body = mtp_node_body(page, n, slot);

	if (!mtp_off_narrow(h->norm, n->offs[slot]))
		return body;
	return mtp_body_widen(h->norm, mtp_page_narrow_norm(h, n->heads[slot]), body, room);
}

/*
 * True if the slot leads to a whole tuple on the page.  The caller has checked the page's shape
 * (mtp_page_shape).
 */
static inline bool
mtp_slot_in_page(Page page, int node, int slot)
{
	unsigned	off = MtpNodes(page)[node].offs[slot] & ~MTP_SLOT_FLAGS;
	Size		size;

	if (off < ((PageHeader) page)->pd_upper || off > BLCKSZ - sizeof(IndexTupleData) ||
		off % mtp_norm_align(MtpHeader(page)->norm) != 0)
		return false;
	size = IndexTupleSize((IndexTuple) ((char *) page + off));
	return size >= sizeof(IndexTupleData) && off + size <= BLCKSZ;
}

static inline bool
mtp_slot_dead(Page page, int node, int slot)
{
	return (MtpNodes(page)[node].offs[slot] & MTP_SLOT_DEAD) != 0;
}

/*
 * Steps to the next item or back to the previous one, by the counts and the header of a page.
 * False behind the last item, or before the first.  A place may start behind the last item.  If
 * the header is a copy the page may change meanwhile: then the steps lead to some place within the
 * directory, and they end.
 */
static inline bool
mtp_pos_forward(const uint8 *counts, const MtpPageHeader *h, MtpPos *p)
{
	p->pos++;
	if (++p->slot >= counts[p->node])
	{
		p->node++;
		p->slot = 0;
	}
	return p->pos < h->nitems && p->node < h->nnodes;
}

static inline bool
mtp_pos_back(const uint8 *counts, MtpPos *p)
{
	p->pos--;
	if (p->pos < 0)
		return false;
	if (--p->slot < 0)
	{
		if (p->node == 0)
			return false;
		p->node--;
		p->slot = counts[p->node] - 1;
	}
	return true;
}

/* The place of an item by its rank */
static inline MtpPos
mtp_pos_locate(const uint8 *counts, int nnodes, int pos)
{
	MtpPos		p = {.pos = pos,.node = 0,.slot = pos};

	while (p.node < nnodes && p.slot >= counts[p.node])
		p.slot -= counts[p.node++];
	return p;
}

/* Steps to the next item.  False behind the last. */
static inline bool
mtp_pos_next(Page page, MtpPos *p)
{
	return mtp_pos_forward(MtpCounts(page), MtpHeader(page), p);
}

/* dir.c: reading.  Ranks are 0 .. nitems; nitems stands behind the last item. */
extern MtpPos mtp_page_locate(Page page, int pos);
extern IndexTuple mtp_page_item(Page page, int pos, MtpItemRoom *room);

/*
 * Copies pointers to all items, in order, to `items` (room for nitems).  Returns their number.  A
 * narrow item i gets its tuple in rooms[i].
 */
extern int	mtp_page_items(Page page, IndexTuple *items, MtpItemRoom *rooms);

/* The bytes of all bodies, the high key's included */
static inline Size
mtp_page_body_bytes(Page page)
{
	PageHeader	ph = (PageHeader) page;

	return ph->pd_special - ph->pd_upper - MtpHeader(page)->garbage;
}

/* The bytes that insertions can still use, after a rewrite of the page */
extern Size mtp_page_free(Page page);

/* The bytes of items' bodies on this page */
extern Size mtp_page_bytes(Page page, int n, const IndexTuple *items, const uint64 *norms);

/*
 * True if n more items whose bodies have `bytes` bytes in all (mtp_page_bytes) fit, after a rewrite
 * (invariant P6).
 */
extern bool mtp_page_fits(Page page, int n, Size bytes);

/*
 * What is wrong with the page, or NULL: a static string.  Safe on any bytes.  *pos, if not NULL, is
 * the item's rank, or -1 if the fault is not about one.  mtp_page_shape looks at no item: enough to
 * search the page safely.
 */
extern const char *mtp_page_fault(Page page, int *pos);
extern const char *mtp_page_shape(Page page);

/*
 * change.c: changing in place.  Each change is a function of the page without its hints, and of
 * the arguments, so that redo does the same.  All but mtp_page_pack raise no error, so that they
 * can run in critical sections.
 */
extern void mtp_page_init(Page page, uint8 type, uint16 level, uint8 norm);

/* The code of a page of this type in an index of this one: bodies differ on leaves alone. */
static inline uint8
mtp_page_code(uint8 type, uint8 code)
{
	return type == MTP_PAGE_LEAF ? code : code & ~MTP_NORM_LEAF;
}

/*
 * Inserts n items.  Item i goes before the item at rank pos[i] of the page as it was; ranks
 * ascend, and items of equal ranks keep their order.  norms[i] is the normalized key of items[i].
 * The items must fit (mtp_page_fits), and must not lie on the page itself.
 */
extern void mtp_page_insert(Page page, int n, const uint16 *pos,
							const IndexTuple *items, const uint64 *norms);

/*
 * What the leaf's items from rank pos on, nold of one key, make with a TID behind them, or inside
 * the only one (mtp_list_splice): the first may be a list, the others are plain.  nold: 1 ..
 * MTP_LIST_JOIN.  Returns the number of made[], palloc'd; 0 if they don't take it.
 */
extern int	mtp_page_join(Page page, int pos, int nold, const ItemPointerData *tid,
						  IndexTuple *made);

/*
 * Puts n items of one key, one or two, in the place of the leaf's nold items from rank pos on,
 * which have that key too.  Their hints are forgotten.  norm: of the key.  The items must fit when
 * those are gone, and must not lie on the page itself.
 */
extern void mtp_page_replace(Page page, int pos, int nold, int n, const IndexTuple *items,
							 uint64 norm);

/* True if that may read other items than those that go (as mtp_page_insert_reads). */
extern bool mtp_page_replace_reads(Page page, int pos, int nold, int n, const IndexTuple *items,
								   uint64 norm);

/*
 * True if mtp_page_insert may read items that are there already, and not only the directory.  Then
 * mtp_page_fault must have found the page good.  bytes: of the new items (mtp_page_bytes).
 */
extern bool mtp_page_insert_reads(Page page, int n, Size bytes);

/*
 * Deletes the entries at[0] < at[1] < ..., which are counted from 0 along the page: a list's are as
 * many as its TIDs.  Any other item is one.
 */
extern void mtp_page_delete(Page page, int n, const uint16 *at);

/*
 * An image of a leaf into which n items are inserted (as mtp_page_insert), and whose equal keys are
 * merged into lists as same[] says: bit i, of all items in their new order, that item i is merged
 * with the one before it.  Palloc'd; NULL if it has no room for all items, or a list is damaged.  A
 * function of the page without its hints, and of the arguments, as changes are.
 */
extern Page mtp_page_merge(Page page, int n, const uint16 *pos, const IndexTuple *items,
						   const uint8 *same);

/*
 * An image of the left page of a split: of what the page's first nold items and n new ones make
 * (as above) the first `count`, and the high key, NULL for none.  The caller sets flags and the
 * right link.  NULL if they are not as many, or a list is damaged.  code: the image's, which may
 * say more of bodies than the page's.
 */
extern Page mtp_page_left(Page page, uint8 code, int nold, int n, const uint16 *pos,
						  const IndexTuple *items, const uint8 *same, int count,
						  IndexTuple highkey);

/* As mtp_page_items, with n new items among the page's; tuples of narrow ones are palloc'd. */
extern int	mtp_page_all_items(Page page, int n, const uint16 *pos, const IndexTuple *items,
							   IndexTuple *all);

/* Sets the dead hint of an item. */
extern void mtp_page_set_dead(Page page, int node, int slot);

/*
 * Chooses the page's window by the normalized keys of its items (nitems of them), and by its
 * siblings.  For pages that are being filled: heads that are there already are not renewed.
 */
extern void mtp_page_set_window(Page page, const uint64 *norms);

/* Clears hints, which may differ between a page and its replay. */
extern void mtp_page_mask(Page page);

/*
 * Fills a fresh page (mtp_page_init, links set) with n items in key order, and a high key
 * if that is not NULL.  May allocate: not for critical sections.
 */
extern void mtp_page_pack(Page page, int n, const IndexTuple *items, IndexTuple highkey);

/* The bytes of MTP_PAGE_ROOM that n items need.  bytes: their bodies, and that of the high key. */
static inline Size
mtp_page_need(int n, Size bytes)
{
	return MTP_DIR_BYTES(MTP_NODES_FOR(n)) + bytes;
}

/*
 * For filling pages: items that are to stand on one page, one after another, and the bytes that
 * they take there (mtp_page_pack).
 */
typedef struct MtpSpan
{
	uint8		code;
	int			n;
	Size		whole;			/* bytes of the tuples, if all bodies are whole */
	int			plain;			/* tuples that may become narrow (mtp_item_cuts) */
	int			keys;			/* all but nulls, and … */
	uint64		low;			/* … of their normalized keys the first, … */
	uint64		high;			/* … the last, … */
	uint64		differ;			/* … and the bits in which they differ */
} MtpSpan;

/* code: of the page (mtp_page_code) */
static inline void
mtp_span_begin(MtpSpan *s, uint8 code)
{
	memset(s, 0, sizeof(*s));
	s->code = code;
}

/*
 * Nulls, and the extreme value that shares their normalized key, are not what mtp_page_set_window
 * goes by.
 */
static inline void
mtp_span_add(MtpSpan *s, IndexTuple itup)
{
	uint64		norm;

	s->n++;
	s->whole += mtp_body_size(s->code, itup);
	if ((s->code & MTP_NORM_CUT) == 0)
		return;
	norm = (itup->t_info & (INDEX_NULL_MASK | INDEX_ALT_TID_MASK)) == 0 ?
		mtp_norm_fixed(s->code, (char *) itup + sizeof(IndexTupleData)) :
		mtp_norm_tuple(s->code, itup);
	if (norm == ((s->code & MTP_NORM_NULLS_FIRST) ? 0 : PG_UINT64_MAX))
		return;
	if (s->keys++ == 0)
		s->low = norm;
	s->high = norm;
	s->differ |= norm ^ s->low;
	if (mtp_item_cuts(s->code, itup))
		s->plain++;
}

/* True if a window gives back all these keys: they span 32 bits, zeros at the low end left out. */
static inline bool
mtp_span_narrow(const MtpSpan *s)
{
	int			shift = 0;

	if (likely(s->differ >> 32 == 0))
		return true;
	while (((s->high - s->low) >> shift) > PG_UINT32_MAX)
		shift++;
	return shift < 32 && (s->differ & ((UINT64CONST(1) << shift) - 1)) == 0;
}

static inline Size
mtp_span_bytes(const MtpSpan *s)
{
	return mtp_span_narrow(s) ? s->whole - s->plain * mtp_norm_align(s->code) : s->whole;
}

/* The bytes with the items' share of the directory */
static inline Size
mtp_span_room(const MtpSpan *s)
{
	return mtp_span_bytes(s) + s->n * MTP_SLOT_ROOM;
}

#endif							/* MTP_PAGE_H */
