/*
 * pair.h
 *	  Pages of tables in the buffer: pairs of blocks, and page directories of pairs.
 *
 * A pair is blocks 2p and 2p + 1.  Its image and its page directory are frames of their own; each
 * may be there without the other.  A frame says what its pair was before some changes, all of them
 * of transactions that have not committed yet.  A reader that takes its snapshot first, and finds
 * the frame then, finds all that the snapshot sees (README.md, "Table pages").
 */
#ifndef MTP_PAIR_H
#define MTP_PAIR_H

#include "buffer/buffer.h"

#include "access/xact.h"
#include "storage/bufpage.h"
#include "utils/snapmgr.h"
#include "utils/snapshot.h"

#define MtpPairOf(block)		((block) / 2)
#define MtpPairBlock(pair)		((BlockNumber) (pair) * 2)
#define MtpPairHalf(block)		((block) % 2)

/*
 * True if this process may now read frames of this table's pairs, and publish them.  The caller
 * knows that the table is mtpower's.
 */
static inline bool
mtp_pair_serves(Relation rel)
{
	return mtp_buffer_serves(rel) && !MtpSnapshotsAge();
}

/*
 * True if frames may answer for this snapshot.  The caller has checked mtp_pair_serves when its
 * scan began.  A serializable transaction announces its reads on the pages themselves, so frames
 * do not serve it.
 */
static inline bool
mtp_pair_serves_snapshot(Snapshot snapshot)
{
	return snapshot->snapshot_type == SNAPSHOT_MVCC && !snapshot->takenDuringRecovery &&
		!IsolationIsSerializable();
}

/*
 * Finds the pair's image (MTP_FRAME_TABLE), which warms it, or its page directory
 * (MTP_FRAME_PAGEDIR).  The caller reads bytes from .. to first.  What it reads holds if
 * mtp_frame_still is true afterwards.
 */
extern bool mtp_pair_find(Relation rel, uint32 pair, int kind, Size from, Size to,
						  MtpFrameRef *ref);

/* The same for a reader that goes from pair to pair: *ref is what it found last, or zeros. */
extern bool mtp_pair_find_next(Relation rel, uint32 pair, int kind, Size from, Size to,
							   MtpFrameRef *ref);

/*
 * For a scan that knows which rows it will fetch: brings first a row's line pointer and then the
 * row near.  Both are guesses, which nothing depends on: the image may be of another page by now.
 * page is NULL, and the second does nothing, where the pair has no image.
 */
typedef struct MtpRowAhead
{
	const char *page;
	BlockNumber block;
	OffsetNumber offset;
} MtpRowAhead;

extern void mtp_pair_prefetch(Relation rel, const ItemPointerData *tid, MtpRowAhead *row);

static inline void
mtp_pair_prefetch_row(const MtpRowAhead *row)
{
	uint32		line;
	ItemIdData	lp;

	if (row->page == NULL)
		return;
	line = *(const volatile uint32 *) PageGetItemId((Page) row->page, row->offset);
	memcpy(&lp, &line, sizeof(lp));
	if (lp.lp_off < BLCKSZ)
		__builtin_prefetch(row->page + lp.lp_off);
}

/* Warms a page directory that has answered, and counts a hit. */
extern void mtp_pair_answered(Relation rel, const MtpFrameRef *ref);

/* True if the pair has such a frame: a guess, which warms nothing */
extern bool mtp_pair_has(Relation rel, uint32 pair, int kind);

/*
 * Copies the first `size` bytes of the frame, and warms nothing.  False if the pair has none, or
 * another process has it.
 */
extern bool mtp_pair_peek(Relation rel, uint32 pair, int kind, void *to, Size size);

/*
 * Publishes the pair's image, if it is warm enough and its rows can be read there.  The caller has
 * read a row on this block, which it has pinned and not locked, and holds no lock on another page.
 */
extern void mtp_pair_offer(Relation rel, Buffer buf);

/*
 * Reads the pair's blocks below nblocks and publishes its image, if it has none, its rows can be
 * read there, and this degree is warm enough (mtp_buffer_load).  For callers without locks on
 * pages.
 */
extern void mtp_pair_load(Relation rel, uint32 pair, BlockNumber nblocks, int degree,
						  BufferAccessStrategy strategy);

/*
 * Copies the pair's blocks below nblocks to `copy` (2 * BLCKSZ bytes, MAXALIGNed; zeros for a
 * missing block), and publishes an empty page directory for them as *ref.
 *
 * *kind is MTP_FRAME_SMALL or MTP_FRAME_PAGEDIR.  A large frame may stand in for a small one;
 * *kind says so then.  degree is how warm the pair is known to be (0 .. MTP_HEAT_MOST), and no
 * access is counted; or -1: this counts as a miss, and with only_free the pair takes only a frame
 * that is free or cold through and through.  nblocks is the table's length, read under a lock that
 * keeps others from truncating it.
 *
 * False if the pair has a directory, is not warm enough, or another process changes its pages.
 * For callers without locks on pages; holds none afterwards.
 */
extern bool mtp_pair_reserve(Relation rel, uint32 pair, int *kind, BlockNumber nblocks,
							 BufferAccessStrategy strategy,
							 bool only_free, int degree, char *copy, MtpFrameRef *ref);

/* Copies the blocks alone.  False if another process changes the second one. */
extern bool mtp_pair_copy(Relation rel, uint32 pair, BlockNumber nblocks,
						  BufferAccessStrategy strategy, char *copy);

/* How warm the pair is that this frame was reserved for: a guess, since the frame may have gone */
extern int	mtp_pair_level(const MtpFrameRef *ref);

/*
 * Fills the page directory that was reserved, or takes it away (size 0).  It fits in the frame.
 * False if it has gone meanwhile.  The caller has kept its lock on the table since it reserved the
 * directory.
 */
extern bool mtp_pair_fill(Relation rel, uint32 pair, const MtpFrameRef *ref, const char *directory,
						  Size size);

/*
 * Makes the pair of a block stale (mtp_frame_stale_pair).  The caller has changed the page, holds
 * no lock on a page, and has not committed.  new_rows: the page has new versions of rows.
 */
extern void mtp_pair_stale(Relation rel, BlockNumber block, bool new_rows);

#endif							/* MTP_PAIR_H */
