/*
 * grow.h
 *	  Growth of the index: what its files share.
 */
#ifndef MTP_HASH_GROW_H
#define MTP_HASH_GROW_H

#include "mtpower.h"

#include "hash/hash.h"

/* Splits up to `most` buckets that are due for what has been counted, and adds to *grown. */
extern void mtp_hash_grow_some(Relation rel, uint32 most, MtpHashGrown *grown);

/* Copies the metapage as it is now. */
extern void mtp_hash_copy_meta(Relation rel, MtpHashMeta *meta);

/* split.c */

typedef enum MtpHashSplitResult
{
	MTP_SPLIT_DONE,
	MTP_SPLIT_AGAIN,			/* somebody else was faster; the metapage has been read again */
	MTP_SPLIT_STOP				/* the bucket is not to be had */
} MtpHashSplitResult;

/*
 * Splits the bucket whose turn it is; the new one's page must be reserved.  *meta: a copy of the metapage,
 * renewed unless nothing happened.  Never waits for a cleanup lock; the caller holds no lock on any page.
 */
extern MtpHashSplitResult mtp_hash_split(Relation rel, MtpHashMeta *meta, MtpHashGrown *grown);

/* finish.c: goes on with a split whose stash was too long for one record.  False: a page is not to be had. */
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
	MtpHashSheet sheets[MTP_HASH_SHEETS];	/* stash pages to be written anew; those not used become free */
} MtpHashLayout;

extern MtpHashLayout *mtp_layout_make(Relation rel, uint32 cut);
extern Page mtp_layout_image(Page page);
extern void mtp_layout_take(MtpHashLayout *l, Page page);
extern void mtp_layout_sheet(MtpHashLayout *l, Buffer buf);
extern int	mtp_layout_fill(MtpHashLayout *l, int side, MtpHashSheet *to, int from);
extern void mtp_layout_reserve(MtpHashLayout *l, int npages);
extern MtpHashSheet *mtp_layout_spill(MtpHashLayout *l, int side, MtpHashSheet *after, bool forward,
									  int from);
extern void mtp_layout_rest(MtpHashLayout *l);
extern void mtp_layout_release(MtpHashLayout *l, bool done);

static inline int
mtp_layout_pages(int n)
{
	return (n + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;
}

#define MTP_HASH_IMAGE (REGBUF_FORCE_IMAGE | REGBUF_STANDARD)

#endif							/* MTP_HASH_GROW_H */
