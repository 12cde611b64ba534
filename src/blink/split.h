/*
 * split.h
 *	  What the parts of a split share: putting items, cutting them, making pages and roots.
 */
#ifndef MTP_BLINK_SPLIT_H
#define MTP_BLINK_SPLIT_H

#include "blink/blink.h"

/* cuts.c: how many pages items fill, and where one page ends and the next one begins */
typedef struct MtpCuts
{
	Relation	rel;
	Page		orig;			/* which is about to be split: its level, and the last high key */
	uint8		code;			/* of the pages to be made */
	int			n;				/* items there and items that come, in order */
	IndexTuple *items;
	int			nnew;			/* entries that come */
	bool		pack;			/* fill all pages but the last to the fill factor */
	int			max;			/* pages that there may be */
	int			k;				/* out: the pages, … */
	int			cuts[MTP_BLINK_MAX_K + 1];	/* … page i gets items cuts[i] .. cuts[i + 1] - 1 */
	bool		all_narrow;		/* all items that can be narrow are, wherever they stand */
	uint8	   *narrow;			/* or those that are likely to be; NULL: none */
	int			reach;			/* per cent of a page that its end may be moved by */
	double		vary;			/* equal shares are made unequal by up to this part of them */
} MtpCuts;

/*
 * Plans the split.  One page is enough where equal keys have become lists.  The caller has filled
 * all up to `max`, and zeroed the rest.
 */
extern void mtp_blink_plan_cuts(MtpCuts *c);

/*
 * split.c: splits the page, with n new items for it, into as many as they fill, and posts the
 * downlinks.
 *
 * Locks, in the order of the tree: the page, which the caller has locked exclusively, new pages,
 * the right sibling, then the parent.  Unlocks and unpins all of them.
 */
extern void mtp_blink_split(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items);

/* root.c: makes an inner page's first item: minus infinity, with the downlink of `item`. */
extern IndexTuple mtp_blink_first_item(IndexTuple item);

/*
 * Makes a new root above the pages bufs[] of a split root, with one record, and clears the flags of
 * the pages whose right siblings get their downlinks there (invariant B4).  Returns how many pages
 * it leads to: all npages, or as many as it has room for where pivots are wide, two at least.  With
 * npages = 0 the root is the first leaf of an empty tree.
 *
 * meta and bufs[] are locked exclusively.  Unlocks and unpins meta.
 */
extern int	mtp_blink_new_root(Relation rel, Buffer meta, uint32 level, int npages, Buffer *bufs,
							   IndexTuple *pivots);

#endif							/* MTP_BLINK_SPLIT_H */
