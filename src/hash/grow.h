/*
 * grow.h
 *	  Growth of the index: what its files share.
 */
#ifndef MTP_HASH_GROW_H
#define MTP_HASH_GROW_H

#include "core/core.h"

#include "hash/hash.h"

/*
 * Nowhere here does the caller hold a lock on any page, unless it is said.  *meta is his copy of the metapage, renewed
 * where something has happened.  What is not to be had at once is not waited for; errors (no disk space) leave a
 * sound index, grown as far as it came.
 */

/* grow.c: splits up to `most` buckets that are due for what has been counted, and adds to *grown. */
extern void mtp_hash_grow_some(Relation rel, uint32 most, MtpHashGrown *grown);

/*
 * extent.c: makes room for up to `target` buckets, and for a sixteenth of those there are at least.  Somebody else may
 * have done so meanwhile, and less: *meta tells.  False if there can be no more.
 */
extern bool mtp_hash_reserve(Relation rel, MtpHashMeta *meta, uint32 target);

/*
 * initial.c: an index that has only bucket 0, and that without a stash, gets `target` buckets at once; adds to
 * *grown.  False if it is not such an index, if initial_buckets was given, or if somebody else has the bucket pinned
 * and it has entries.
 */
extern bool mtp_hash_choose_initial(Relation rel, MtpHashMeta *meta, uint32 target,
									MtpHashGrown *grown);

/* split.c */

typedef enum MtpHashSplitResult
{
	MTP_SPLIT_DONE,
	MTP_SPLIT_AGAIN,			/* somebody else was faster; the metapage has been read again */
	MTP_SPLIT_STOP				/* the bucket is not to be had */
} MtpHashSplitResult;

/* Splits the bucket whose turn it is, for which there must be room.  Never waits for a cleanup lock. */
extern MtpHashSplitResult mtp_hash_split(Relation rel, MtpHashMeta *meta, MtpHashGrown *grown);

/*
 * finish.c: ends a split whose stash was too long for one record, if it is not ended.  newer: primary page of the
 * bucket that was split off.  False: a page is not to be had.
 */
extern bool mtp_hash_finish(Relation rel, BlockNumber newer, MtpHashGrown *grown);

/*
 * Laying out entries anew over pages that the caller holds locked, in private images (layout.c).  A page of
 * the layout is a buffer and its image to be.
 */
typedef struct MtpHashSheet
{
	Buffer		buf;
	Page		image;
} MtpHashSheet;

/* Stash pages that are laid out anew at once, and what this may need in addition. */
#define MTP_HASH_PIECE		8
#define MTP_HASH_SHEETS		(MTP_HASH_PIECE + 2)

typedef struct MtpHashLayout
{
	Relation	rel;
	uint32		cut;			/* entries above it belong to the new bucket */
	MtpHashSheet primary[2];	/* old, new */
	int			n[2];
	MtpHashEntry *entries[2];	/* taken off the sheets, of either bucket */
	int			nsheets;
	int			used;
	MtpHashSheet sheets[MTP_HASH_SHEETS];	/* stash pages to be written anew; those not used
											 * become free */
} MtpHashLayout;

/* An empty layout, palloc'd as all that follows is: whoever is done deletes the memory context. */
extern MtpHashLayout *mtp_hash_layout_make(Relation rel, uint32 cut);

/* A copy of a page. */
extern Page mtp_hash_layout_image(Page page);

/* Takes a page's entries.  Dead hints are lost: whoever meets the entries again will find out again. */
extern void mtp_hash_layout_take(MtpHashLayout *l, Page page);

/* A stash page, exclusively locked, to be written anew; its image is zero yet. */
extern void mtp_hash_layout_sheet(MtpHashLayout *l, Buffer buf);

/*
 * Puts entries of a side (0: old bucket, 1: new one), from number `from` on, on a page that may have room; on a stash
 * page with their bits in the primary page's filter.  Returns the first one that is not on it.
 */
extern int	mtp_hash_layout_fill(MtpHashLayout *l, int side, MtpHashSheet *to, int from);

/* Makes sure that so many sheets are unused; allocates pages, which may raise an error. */
extern void mtp_hash_layout_reserve(MtpHashLayout *l, int npages);

/*
 * Puts the rest of a side's entries on unused sheets, which follow `after` in its chain: forward, in this order; else
 * each before the one made earlier, so that the one with room comes first.  Returns what is last in this order.
 */
extern MtpHashSheet *mtp_hash_layout_spill(MtpHashLayout *l, int side, MtpHashSheet *after, bool forward,
										   int from);

/* What is not used becomes a free page. */
extern void mtp_hash_layout_rest(MtpHashLayout *l);

/* Lets go of the sheets' buffers, not of the primary ones; done: after the record, which freed pages. */
extern void mtp_hash_layout_release(MtpHashLayout *l, bool done);

static inline int
mtp_hash_layout_pages(int n)
{
	return (n + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;
}

#define MTP_HASH_IMAGE (REGBUF_FORCE_IMAGE | REGBUF_STANDARD)

#endif							/* MTP_HASH_GROW_H */
