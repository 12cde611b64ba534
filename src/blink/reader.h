/*
 * reader.h
 *	  A page of the tree as a reader sees it: locked in shared buffers, or a frame, which may change at any time.
 *
 * Of a frame, the header is copied when the view is opened, and found to be of the page; so the directory's bounds, which depend on
 * it alone, are good whatever becomes of the rest.  Items are copied out one at a time, and are whole and of the page if the caller gets
 * them.  What else is read of the directory (counts, heads, offsets) may be nonsense until an item is got, or mtp_blink_reader_good says yes:
 * it leads at most a kilobyte behind the page, where there is still memory of the buffer's (buffer/shmem.c).
 * step.c copies the rest of a leaf that matches as a whole by itself, and asks mtp_blink_reader_good behind it.
 */
#ifndef MTP_BLINK_READER_H
#define MTP_BLINK_READER_H

#include "blink/blink.h"
#include "buffer/buffer.h"
#include "buffer/hazard.h"
#include "port/pg_bitutils.h"

typedef struct MtpPageReader
{
	Relation	rel;
	Page		page;
	BlockNumber block;
	Buffer		buf;			/* locked; InvalidBuffer for a frame */
	MtpFrameRef ref;			/* of a frame */
	bool		torn;			/* the frame has changed: the page is to be read in shared buffers */
	const uint8 *counts;		/* of the directory, and … */
	const MtpNode *nodes;
	MtpPageHeader head;			/* a copy */
	IndexTupleData tid;			/* mtp_blink_reader_tid's */
	char		item[MAXALIGN_DOWN(MTP_MAX_PIVOT) + MAXIMUM_ALIGNOF] pg_attribute_aligned(MAXIMUM_ALIGNOF); /* mtp_blink_reader_item's */
} MtpPageReader;

static inline void
mtp_blink_reader_set_directory(MtpPageReader *v)
{
	v->counts = (const uint8 *) v->page + MTP_DIR_AT + v->head.cap * sizeof(uint32);
	v->nodes = (const MtpNode *) (v->counts + v->head.cap);
}

/* The page in a buffer that is locked, and has been checked. */
static inline void
mtp_blink_reader_page(MtpPageReader *v, Relation rel, Buffer buf)
{
	v->rel = rel;
	v->page = BufferGetPage(buf);
	v->block = BufferGetBlockNumber(buf);
	v->buf = buf;
	v->torn = false;
	v->head = *MtpHead(v->page);
	mtp_blink_reader_set_directory(v);
}

/*
 * The frame of a page, if there is one, and the page is a leaf or an inner page of that level.  The caller knows that mtp_buffer_serves.
 */
extern bool mtp_blink_reader_frame(MtpPageReader *v, Relation rel, BlockNumber block, uint32 level);

/* May this page, which is not new, and locked, be in a frame?  Raises an error if it is damaged. */
extern bool mtp_blink_reader_fits(Relation rel, Buffer buf);

/* Is all that was read of it so far good? */
static inline bool
mtp_blink_reader_good(MtpPageReader *v)
{
	if (BufferIsValid(v->buf))
		return true;
	if (!v->torn && !mtp_frame_still(&mtp_buffer, &v->ref))
	{
		v->torn = true;
		mtp_buffer_torn(MTP_FRAME_INDEX);
	}
	return !v->torn;
}

/*
 * Copies of the item at an offset, and of the TID of one: NULL if the view is torn, or if they are not good, which is for whoever reads
 * the page in shared buffers to tell.  Valid until the next one.
 */
extern IndexTuple mtp_blink_reader_copy(MtpPageReader *v, unsigned off, bool pivot);
extern IndexTuple mtp_blink_reader_copy_tid(MtpPageReader *v, unsigned off);

static inline bool
mtp_blink_reader_slot(MtpPageReader *v, int node, int slot, unsigned *off)
{
	if (node < 0 || node >= v->head.nnodes || slot < 0 || slot >= MTP_NODE_SLOTS)
		return false;
	*off = v->nodes[node].offs[slot] & ~MTP_SLOT_FLAGS;
	return true;
}

/* The item of a slot: whole, of its kind; NULL if the view is torn. */
static inline IndexTuple
mtp_blink_reader_item(MtpPageReader *v, int node, int slot)
{
	unsigned	off;

	if (BufferIsValid(v->buf))
		return mtp_blink_item(v->rel, v->page, node, slot);
	if (!mtp_blink_reader_slot(v, node, slot, &off))
	{
		(void) mtp_blink_reader_good(v);
		v->torn = true;
		return NULL;
	}
	return mtp_blink_reader_copy(v, off, v->head.type != MTP_PAGE_LEAF);
}

/* The same where nothing but its TID matters; of a frame, it may be nonsense until mtp_blink_reader_good. */
static inline IndexTuple
mtp_blink_reader_tid(MtpPageReader *v, int node, int slot)
{
	unsigned	off;

	if (BufferIsValid(v->buf))
		return mtp_blink_tid_item(v->rel, v->page, node, slot);
	if (!mtp_blink_reader_slot(v, node, slot, &off))
	{
		(void) mtp_blink_reader_good(v);
		v->torn = true;
		return NULL;
	}
	return mtp_blink_reader_copy_tid(v, off);
}

/* The same where a search has found it: `item` is where the directory leads. */
static inline IndexTuple
mtp_blink_reader_at(MtpPageReader *v, IndexTuple item)
{
	Size		off = (char *) item - v->page;

	if (!BufferIsValid(v->buf))
		return v->torn ? NULL : mtp_blink_reader_copy(v, off, v->head.type != MTP_PAGE_LEAF);
	if (unlikely(off < ((PageHeader) v->page)->pd_upper || off > BLCKSZ - sizeof(IndexTupleData) ||
				 IndexTupleSize(item) < sizeof(IndexTupleData) || off + IndexTupleSize(item) > BLCKSZ))
		mtp_blink_fail_page(v->rel, v->page, "directory points to something that is not an item");
	if (!mtp_blink_item_plain(v->rel, v->page, item))
		mtp_blink_check_item(v->rel, v->page, item);
	return item;
}

/* The high key; NULL if the view is torn.  There is one. */
static inline IndexTuple
mtp_blink_reader_high(MtpPageReader *v)
{
	if (BufferIsValid(v->buf))
		return MtpHighKey(v->page);
	return mtp_blink_reader_copy(v, v->head.highkey, true);
}

static inline bool
mtp_blink_reader_dead(MtpPageReader *v, int node, int slot)
{
	return (v->nodes[node].offs[slot] & MTP_SLOT_DEAD) != 0;
}

static inline bool
mtp_blink_reader_next(MtpPageReader *v, MtpPos *p)
{
	return mtp_pos_forward(v->counts, &v->head, p);
}

/* From an item that is marked dead to the next one that is not, or behind the last one: node by node, since a queue leaves whole leaves of them. */
static inline void
mtp_blink_reader_skip_dead(MtpPageReader *v, MtpPos *p)
{
	while (p->node < v->head.nnodes)
	{
		int			count = Min(v->counts[p->node], MTP_NODE_SLOTS);
		uint32		live = p->slot < count ? mtp_node_live(&v->nodes[p->node], count) >> p->slot : 0;

		if (live != 0)
		{
			p->slot += pg_rightmost_one_pos32(live);
			p->pos += pg_rightmost_one_pos32(live);
			return;
		}
		p->pos += Max(count - p->slot, 0);
		p->node++;
		p->slot = 0;
	}
}

static inline bool
mtp_blink_reader_prev(MtpPageReader *v, MtpPos *p)
{
	return mtp_pos_back(v->counts, p);
}

/* The place of an item by its rank. */
static inline MtpPos
mtp_blink_reader_locate(MtpPageReader *v, int pos)
{
	return mtp_pos_locate(v->counts, v->head.nnodes, pos);
}

/*
 * key.c: the place on the page, the first item that is not before the key; where not ranked, pos only tells the
 * page's first place.  Of a frame, good only if v->torn is not set, and mtp_blink_reader_good later.
 */
extern void mtp_blink_reader_place(MtpBlinkKey *key, MtpPageReader *v, bool ranked, MtpPos *p);

/* The item before a place, which *p becomes.  On an inner page, the key's child is there; NULL if the view is torn. */
extern IndexTuple mtp_blink_reader_before(MtpPageReader *v, MtpPos *p);

/*
 * tree.c: the leaf that key belongs to: if framed, in its frame, where there is one; else locked, share.  False if the tree is empty.
 */
extern bool mtp_blink_find(Relation rel, MtpBlinkKey *key, bool framed, MtpPageReader *v);

/* The same for the index's first leaf, or its last one. */
extern bool mtp_blink_find_end(Relation rel, bool rightmost, bool framed, MtpPageReader *v);

/* Done with a page that was locked: unlocks and unpins it. */
static inline void
mtp_blink_reader_release(MtpPageReader *v)
{
	if (BufferIsValid(v->buf))
		UnlockReleaseBuffer(v->buf);
	v->buf = InvalidBuffer;
}

#endif							/* MTP_BLINK_READER_H */
