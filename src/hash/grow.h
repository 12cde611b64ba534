/*
 * grow.h
 *	  Growth of the index: what its files share.
 */
#ifndef MTP_HASH_GROW_H
#define MTP_HASH_GROW_H

#include "core/core.h"

#include "hash/hash.h"

/*
 * Callers of these functions hold no lock on any page, unless a comment says otherwise.  *meta is
 * the caller's copy of the metapage, and is read anew where something has happened.  Nothing here
 * waits for a cleanup lock.  An error (no disk space) leaves a sound index, grown as far as it
 * came.
 */

/*
 * extent.c: makes room for up to `target` buckets, and for a sixteenth of all buckets at least.
 * If another process has made room meanwhile, perhaps less, that is all: *meta tells.  False if
 * there can be no more.
 */
extern bool mtp_hash_reserve(Relation rel, MtpHashMeta *meta, uint32 target);

/*
 * initial_buckets.c: gives an index that has only bucket 0, without a stash, `target` buckets at
 * once, and adds to *grown.  False if the index is not such a one, if initial_buckets was given,
 * or if bucket 0 has entries and another backend has it pinned.
 */
extern bool mtp_hash_choose_initial(Relation rel, MtpHashMeta *meta, uint32 target,
									MtpHashGrown *grown);

/*
 * split.c: splits the bucket whose turn it is, unless another process is faster; its new half must
 * have room in an extent.  False if a cleanup lock is not to be had at once.
 */
extern bool mtp_hash_split(Relation rel, MtpHashMeta *meta, MtpHashGrown *grown);

/*
 * split_finish.c: finishes the split that made the bucket with primary page `newer`, if its stash
 * was too long for one record.  False if a page is not to be had at once.
 */
extern bool mtp_hash_finish(Relation rel, BlockNumber newer, MtpHashGrown *grown);

/*
 * split_layout.c lays entries out anew, in private images of pages that the caller holds locked.
 * A sheet is such a page: its buffer and its new content.
 */
typedef struct MtpHashSheet
{
	Buffer		buf;
	Page		image;
} MtpHashSheet;

/* Stash pages that one record lays out anew, and two that this may need in addition. */
#define MTP_HASH_PIECE		8
#define MTP_HASH_SHEETS		(MTP_HASH_PIECE + 2)

typedef struct MtpHashLayout
{
	Relation	rel;
	uint32		cut;			/* entries above it belong to the new bucket */
	MtpHashSheet primary[2];	/* old, new */
	int			n[2];
	MtpHashEntry *entries[2];	/* taken off pages, for either bucket */
	int			nsheets;
	int			used;
	MtpHashSheet sheets[MTP_HASH_SHEETS];	/* stash pages; those not used become free */
} MtpHashLayout;

/* Makes an empty layout.  All of this is palloc'd: the caller deletes the memory context. */
extern MtpHashLayout *mtp_hash_layout_make(Relation rel, uint32 cut);

/* Copies a page to private memory, as a sheet. */
extern MtpHashSheet mtp_hash_layout_copy(Buffer buf);

/* Takes a page's entries.  Dead hints are lost: scans that meet the entries find out again. */
extern void mtp_hash_layout_take(MtpHashLayout *l, Page page);

/*
 * Locks stash pages from blkno on, in the chain's order, makes them sheets and takes their entries:
 * as many as a piece has, and none whose hi is `done` or below.  Returns the page behind them.
 */
extern BlockNumber mtp_hash_layout_take_stash(MtpHashLayout *l, BlockNumber blkno, uint32 done);

/*
 * Puts entries of a side (0: old bucket, 1: new one), from number `from` on, on a page as far as
 * it has room; on a stash page with their bits in the primary page's filter (H6).  Returns the
 * first entry that is not on the page.
 */
extern int	mtp_hash_layout_fill(MtpHashLayout *l, int side, MtpHashSheet *to, int from);

/*
 * Puts the rest on the sheets: the old bucket's entries from number `kept` on, behind `after` in
 * its chain, and the new one's from `gone` on, behind its primary page.  forward: the old
 * bucket's sheets stand one behind the other, and the last one is returned.  Else, and in the new
 * bucket, each stands in front of the one made before, so that the one with room comes first.
 *
 * Allocates pages first if it needs more, and may raise an error (H13).  Sheets that are not used
 * become free pages.
 */
extern MtpHashSheet *mtp_hash_layout_spill(MtpHashLayout *l, MtpHashSheet *after, bool forward,
										   int kept, int gone);

/* Releases the sheets' buffers.  done: their record is written; notes pages that became free. */
extern void mtp_hash_layout_release(MtpHashLayout *l, bool done);

/* The number of stash pages that n entries fill. */
static inline int
mtp_hash_layout_pages(int n)
{
	return (n + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;
}

/* Flags of a block that a record has an image of, always. */
#define MTP_HASH_IMAGE (REGBUF_FORCE_IMAGE | REGBUF_STANDARD)

#endif							/* MTP_HASH_GROW_H */
