/*
 * pair.h
 *	  Pages of tables in the buffer: pairs of blocks, and directories of pairs.
 *
 * A pair is blocks 2p and 2p + 1.  Its image and its directory are frames of their own, each right or not by itself.  Core changes table pages and has
 * unlocked them when we learn of it, so a frame says what its pair was before some changes, all of transactions that have not committed yet: whoever takes his
 * snapshot first, and finds a frame then, finds all that the snapshot sees (README.md).
 */
#ifndef MTP_PAIR_H
#define MTP_PAIR_H

#include "buffer/buffer.h"

#include "access/xact.h"
#include "utils/snapmgr.h"
#include "utils/snapshot.h"

#define MtpPairOf(block)		((block) / 2)
#define MtpPairBlock(pair)		((BlockNumber) (pair) * 2)
#define MtpPairHalf(block)		((block) % 2)

/* May frames of this table's pairs be read, and published, by this process now?  The caller knows that the table is ours. */
static inline bool
mtp_pair_serves(Relation rel)
{
	return mtp_buffer_serves(rel) && !MtpSnapshotsAge();
}

/*
 * May they answer for this snapshot?  Serializable transactions announce what they read on the pages themselves.  For those who asked mtp_pair_serves when the scan began.
 */
static inline bool
mtp_pair_serves_snapshot(Snapshot snapshot)
{
	return snapshot->snapshot_type == SNAPSHOT_MVCC && !snapshot->takenDuringRecovery && !IsolationIsSerializable();
}

/*
 * Finds the pair's image (MTP_FRAME_TABLE), which warms it, or directory (MTP_FRAME_PAGEDIR).  First the caller reads bytes from … to of it.  What is read there holds if
 * mtp_frame_still afterwards.
 */
extern bool mtp_pair_find(Relation rel, uint32 pair, int kind, Size from, Size to, MtpFrameRef *ref);

/* The same for who goes from pair to pair; *ref is what he found last, or zeros. */
extern bool mtp_pair_find_next(Relation rel, uint32 pair, int kind, Size from, Size to, MtpFrameRef *ref);

/* The directory that was found has answered: warms it, and counts a hit. */
extern void mtp_pair_answered(Relation rel, const MtpFrameRef *ref);

/* Has it such a frame?  A guess, which warms nothing. */
extern bool mtp_pair_has(Relation rel, uint32 pair, int kind);

/* Copies its first bytes, which warms nothing; false if it has none, or somebody is at it. */
extern bool mtp_pair_peek(Relation rel, uint32 pair, int kind, void *to, Size size);

/*
 * The caller has read a row on this block, which he has pinned and not locked; he has no lock on any other page.  Publishes the pair's image, if its rows can be read
 * there and it is warm enough.
 */
extern void mtp_pair_offer(Relation rel, Buffer buf);

/*
 * Reads the pair's blocks, those below nblocks, and publishes its image, if it has none, its rows can be read there, and it is warm enough at this level (mtp_buffer_load).  For callers without
 * locks on pages.
 */
extern void mtp_pair_load(Relation rel, uint32 pair, BlockNumber nblocks, int level, BufferAccessStrategy strategy);

/*
 * Copies the pair's blocks, those below nblocks, to `copy` (2 * BLCKSZ, MAXALIGNed; zeros for one that there is not), and publishes an empty directory for them, in a frame
 * of the kind that is wanted (MTP_FRAME_SMALL or MTP_FRAME_PAGEDIR), or a larger one, as *kind says then; false if there is one already, if the pair is not warm enough (only_free: if no frame is free or cold through and through), or if somebody is at its pages.  level: how warm it is known
 * to be (0 … MTP_HEAT_MOST; no access is counted, and only_free is of no account), or -1: this counts as a miss.  For callers without locks on pages; holds none afterwards.
 * nblocks: of the table, seen under a lock that keeps others from truncating it.
 */
extern bool mtp_pair_reserve(Relation rel, uint32 pair, int *kind, BlockNumber nblocks, BufferAccessStrategy strategy,
							 bool only_free, int level, char *copy, MtpFrameRef *ref);

/* Copies them alone.  False if somebody is at the pages. */
extern bool mtp_pair_copy(Relation rel, uint32 pair, BlockNumber nblocks, BufferAccessStrategy strategy, char *copy);

/* How warm the pair is that has reserved this frame: a guess, if somebody may have taken it. */
extern int	mtp_pair_level(const MtpFrameRef *ref);

/* Fills the directory that was reserved, in whose frame it fits, or takes it away (size 0).  False if it has gone meanwhile.  The caller has kept its lock on the table since then. */
extern bool mtp_pair_fill(Relation rel, uint32 pair, const MtpFrameRef *ref, const char *directory, Size size);

/* For the changer of a table page, before he can commit, with no lock on a page: new_rows: there are new versions of rows on it. */
extern void mtp_pair_stale(Relation rel, BlockNumber block, bool new_rows);

#endif							/* MTP_PAIR_H */
