/*
 * reader.h
 *	  A page of the tree as its reader has it: locked in shared buffers, or a frame, which may
 *	  change at any time.
 *
 * Of a frame, the header is copied when the page reader is opened, and found to be the page's.  The
 * directory's bounds depend on the header alone, so they stay good whatever becomes of the rest.
 * Items are copied out one at a time; an item that the caller gets is whole and is the page's
 * (invariant B8).  What else is read of the directory (counts, heads, offsets) may be nonsense
 * until an item is got or mtp_blink_reader_good returns true.  Nonsense leads at most a kilobyte
 * behind the page, where the buffer still has memory (buffer/shmem.c). scan_leaves.c copies the
 * rest of a leaf that matches as a whole by itself, and then calls mtp_blink_reader_good.
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
	bool		torn;			/* the frame is of no use: read the page in shared buffers */
	const uint8 *counts;		/* of the directory, and … */
	const MtpNode *nodes;
	MtpPageHeader head;			/* a copy */
	/* mtp_blink_reader_item's copy */
	char		item[MAXALIGN_DOWN(MTP_MAX_PIVOT) + MAXIMUM_ALIGNOF]
				pg_attribute_aligned(MAXIMUM_ALIGNOF);
} MtpPageReader;

static inline void
mtp_blink_reader_open(MtpPageReader *v, Relation rel, Page page, BlockNumber block, Buffer buf)
{
	v->rel = rel;
	v->page = page;
	v->block = block;
	v->buf = buf;
	v->torn = false;
	v->head = *MtpHeader(page);
	v->counts = (const uint8 *) page + MTP_DIR_AT + v->head.cap * sizeof(uint32);
	v->nodes = (const MtpNode *) (v->counts + v->head.cap);
}

/* Opens the page in a buffer that is locked, and has been checked. */
static inline void
mtp_blink_reader_page(MtpPageReader *v, Relation rel, Buffer buf)
{
	mtp_blink_reader_open(v, rel, BufferGetPage(buf), BufferGetBlockNumber(buf), buf);
}

/*
 * Opens the frame of a page.  False if it has none, or is neither a leaf nor an inner page of that
 * level.  The caller knows that mtp_buffer_serves.
 */
extern bool mtp_blink_reader_frame(MtpPageReader *v, Relation rel, BlockNumber block, uint32 level);

/* True if this page, which is locked and not new, may be in a frame.  A damaged one is an error. */
extern bool mtp_blink_reader_fits(Relation rel, Buffer buf);

/* True if all that was read of the page so far is good: the frame's sequence lock is unchanged. */
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
 * Gives a frame up in which something is wrong, and returns NULL.  If the frame has not changed,
 * the page itself is damaged: a reader that locks it reports that.
 */
static inline IndexTuple
mtp_blink_reader_give_up(MtpPageReader *v)
{
	if (mtp_blink_reader_good(v))
		v->torn = true;
	return NULL;
}

/*
 * Copies the item at an offset of a frame; head: its head there.  The offset has its slot's flags.
 * NULL if the reader is torn, or if the item is not good.  Valid until the next copy.
 */
extern IndexTuple mtp_blink_reader_copy(MtpPageReader *v, unsigned off, uint32 head, bool pivot);

/* Makes the tuple of a narrow item.  Valid until the next copy. */
extern IndexTuple mtp_blink_reader_widen(MtpPageReader *v, IndexTuple body, uint32 head);

/*
 * The offset of a slot of a frame, with its flags, if there is such a slot; else one that is
 * refused as beyond.
 */
static inline unsigned
mtp_blink_reader_slot(const MtpPageReader *v, int node, int slot)
{
	if (node < 0 || node >= v->head.nnodes || slot < 0 || slot >= MTP_NODE_SLOTS)
		return BLCKSZ;
	return v->nodes[node].offs[slot];
}

/*
 * The item of a slot: whole, and of its kind.  NULL if the reader is torn.  Valid until the next
 * copy.
 */
static inline IndexTuple
mtp_blink_reader_item(MtpPageReader *v, int node, int slot)
{
	unsigned	off;

	if (BufferIsValid(v->buf))
		return mtp_blink_item(v->rel, v->page, node, slot, (MtpItemRoom *) v->item);
	off = mtp_blink_reader_slot(v, node, slot);
	return mtp_blink_reader_copy(v, off, off == BLCKSZ ? 0 : v->nodes[node].heads[slot],
								 v->head.type != MTP_PAGE_LEAF);
}

/* The high key, which must exist; NULL if the reader is torn. */
static inline IndexTuple
mtp_blink_reader_high(MtpPageReader *v)
{
	if (BufferIsValid(v->buf))
		return MtpHighKey(v->page);
	return mtp_blink_reader_copy(v, v->head.highkey, 0, true);
}

/* The place of an item by its rank. */
static inline MtpPos
mtp_blink_reader_locate(MtpPageReader *v, int pos)
{
	return mtp_pos_locate(v->counts, v->head.nnodes, pos);
}

/*
 * key.c: *p gets the place on the page of the first item that is not before the key.  Unless
 * ranked, p->pos only tells the page's first place.  In a frame it is good if v->torn is not set
 * now and mtp_blink_reader_good returns true later.
 */
extern void mtp_blink_reader_place(MtpBlinkKey *key, MtpPageReader *v, bool ranked, MtpPos *p);

/*
 * The item before a place; *p becomes that item's place.  On an inner page, it leads to the child
 * for the key.  NULL if the reader is torn.
 */
extern IndexTuple mtp_blink_reader_before(MtpPageReader *v, MtpPos *p);

/*
 * descend.c: opens the leaf that key belongs to; without a key (NULL) the index's first leaf, or
 * its last one.  In its frame if `framed` and there is one, else share-locked.  False if the tree
 * is empty.
 */
extern bool mtp_blink_find(Relation rel, MtpBlinkKey *key, bool rightmost, bool framed,
						   MtpPageReader *v);

/* Closes a page: unlocks and unpins it if it was locked. */
static inline void
mtp_blink_reader_release(MtpPageReader *v)
{
	if (BufferIsValid(v->buf))
		UnlockReleaseBuffer(v->buf);
	v->buf = InvalidBuffer;
}

#endif							/* MTP_BLINK_READER_H */
