/*
 * leaf.h
 *	  A leaf of core's btree takes its share of a batch.
 *
 * batch.c finds the leaf, take.c chooses the entries, items.c makes tuples of them, and put.c
 * changes pages, by a plan of cuts.c where the leaf is split.  README.md has the protocol and the
 * invariants (N1 ... N7).
 */
#ifndef MTP_BTREE_LEAF_H
#define MTP_BTREE_LEAF_H

#include "core/core.h"

#include "access/nbtree.h"
#include "batch/batch.h"


/* The bytes of a page that its items and line pointers share, and those that an item takes. */
#define MTP_LEAF_ROOM \
	(BLCKSZ - SizeOfPageHeaderData - MAXALIGN(sizeof(BTPageOpaqueData)))
#define MTP_LEAF_BYTES(itup)	(MAXALIGN(IndexTupleSize(itup)) + sizeof(ItemIdData))

/* A page in the middle of one key is filled so far, since it gets no more entries of it. */
#define MTP_LEAF_FULL			(MTP_LEAF_ROOM * BTREE_SINGLEVAL_FILLFACTOR / 100)

/*
 * The greatest posting list that is made here: six of them and a high key make a page full.
 * Core's deduplication makes hardly larger ones.
 */
#define MTP_POSTING_MOST \
	MAXALIGN_DOWN(Min((MTP_LEAF_FULL - 40) / 6 - sizeof(ItemIdData), INDEX_SIZE_MASK))

static inline IndexTuple
mtp_btree_item(Page page, OffsetNumber at)
{
	return (IndexTuple) PageGetItem(page, PageGetItemId(page, at));
}

/* One change splits a leaf into at most so many pages. */
#define MTP_LEAF_PAGES		30

/*
 * The part of a task that one leaf takes in one step: entries, of which items.c makes tuples for
 * the leaf.  All arrays are palloc'd, and as long as the longest.
 */
typedef struct MtpBtreeShare
{
	int			n;				/* entries */
	int			room;
	MtpNarrow  *narrow;			/* of narrow entries */
	IndexTuple *tuples;			/* a tuple for each entry */
	OffsetNumber *at;			/* each goes before the leaf's item at this offset, … */
	bool	   *inside;			/* … or its TID falls into that item's posting list */
	bool		overlaps;		/* one of them does */
	bool		more;			/* the leaf has more entries to take than these */
	Size		bytes;			/* what the entries take on a page, as tuples of their own */
} MtpBtreeShare;

/* An item that goes on a page: an old one of the leaf, or a new one in private memory. */
typedef struct MtpBtreeItem
{
	IndexTuple	itup;
	OffsetNumber old;			/* its offset on the leaf, or InvalidOffsetNumber */
} MtpBtreeItem;

/* What a step knows of the leaf that it fills. */
typedef struct MtpBtreeLeaf
{
	MtpBatchApply *call;
	Relation	index;
	BTScanInsert key;			/* of the task's current entry, and of others by set_key */
	BTStack		stack;			/* from the root to the leaf's parent; NULL for a root */
	Buffer		buf;			/* locked exclusively, no split of it is incomplete */
	Page		page;
	BTPageOpaque opaque;
	int			pages;			/* that it may become */
	bool		dedups;			/* equal keys become posting lists */
	bool		unique;			/* there is one entry of a key, unless it has NULLs that differ */
} MtpBtreeLeaf;

/*
 * take.c.  The first makes the leaf's key, of the task's current entry: what finds the leaf.
 *
 * The second takes entries of the task that belong to the leaf, by its high key, from the stream:
 * no more than `most`, and of about `bytes` bytes.  The third finds their places; nothing may move
 * the leaf's items from then on.  It returns how many entries may go in: behind them comes one
 * whose key there may be already, or whose place another leaf may be.  Where the index is not
 * unique all of them may, and at least one is taken.
 */
extern void mtp_btree_make_key(MtpBtreeLeaf *leaf, MtpBatchApply *call);
extern void mtp_btree_take(MtpBtreeLeaf *leaf, int most, Size bytes, MtpBtreeShare *s);
extern int	mtp_btree_place(MtpBtreeLeaf *leaf, MtpBtreeShare *s);

/*
 * Raises ERRCODE_INDEX_CORRUPTED: the index has an entry of the row already, so VACUUM has missed
 * it when it let the row's place be used again.
 */
pg_noreturn extern void mtp_btree_complain_of_twin(MtpBtreeLeaf *leaf, ItemPointer tid);

/*
 * items.c.  True if entries i and i + 1 of the share have the same key, byte by byte.
 */
extern bool mtp_btree_same_key(MtpBtreeLeaf *leaf, MtpBtreeShare *s, int i);

/* How many TIDs a posting list of the tuple's key may have; 1 if there can be none. */
extern int	mtp_btree_posting_room(IndexTuple itup);

/*
 * The first makes new items of a share, with the places where they go: runs of equal keys
 * that go to one place become posting lists.  Returns their number; the share must not overlap.
 * The second merges the share with the leaf's items, high key excluded, and equal keys with one
 * another where the index deduplicates.  New tuples and the arrays are palloc'd.
 */
extern int	mtp_btree_new_items(MtpBtreeLeaf *leaf, MtpBtreeShare *s, IndexTuple **items,
								OffsetNumber **at);
extern int	mtp_btree_all_items(MtpBtreeLeaf *leaf, MtpBtreeShare *s, MtpBtreeItem **items);

/*
 * cuts.c.  Decides how many pages the items fill, and where one ends and the next begins: page i
 * gets items cuts[i] .. cuts[i + 1] - 1.  pack: fill all but the last by the fill factor.  Returns
 * the number of pages, 0 if those that the leaf may become are too few.
 */
extern int	mtp_btree_plan(MtpBtreeLeaf *leaf, int n, const MtpBtreeItem *items, bool pack,
						   int cuts[MTP_LEAF_PAGES + 1]);

/*
 * put.c.  Puts the share in, in one change, and advances the task's progress.  Unlocks the leaf.
 * MTP_PUT_TOO_MUCH: nothing was changed, the leaf is locked as before, and a share of one entry
 * fits.  MTP_PUT_DEAD: nothing was changed, and the rows' transaction has ended.
 */
typedef enum MtpPutResult
{
	MTP_PUT_DONE,
	MTP_PUT_TOO_MUCH,
	MTP_PUT_DEAD
} MtpPutResult;

extern MtpPutResult mtp_btree_put(MtpBtreeLeaf *leaf, MtpBtreeShare *s);

/*
 * delete_dead.c.  Deletes entries that scans have marked dead, as far as the table agrees, to make
 * room.
 */
extern void mtp_btree_reclaim(MtpBtreeLeaf *leaf);

/*
 * page.c: changes of pages, for a change and for its replay alike.
 *
 * Inserts n tuples, which lie one behind the other in `tuples`, before the items at at[0] <= at[1]
 * … of the page as it was.  They must fit.  Raises nothing.
 */
extern void mtp_btree_page_insert(Page page, int n, const OffsetNumber *at, const char *tuples,
								  Size bytes);

/*
 * A rewritten page is described by segments: `keep` items of the old page from `from` on, then
 * `put` tuples out of a buffer where they lie one behind the other.
 */
typedef struct MtpBtreeSegment
{
	OffsetNumber from;
	uint16		keep;
	uint16		put;
} MtpBtreeSegment;

/*
 * Makes an empty page with the old one's special space, but for what a rewrite clears, and what a
 * split does; incomplete: its right sibling has no downlink yet.
 */
extern void mtp_btree_page_begin(Page fresh, Page old, bool split, bool incomplete);

/* Adds an item behind the others. */
extern void mtp_btree_page_add(Page page, IndexTuple itup);

/* Fills `fresh` with items of the old page, and others. */
extern void mtp_btree_page_rewrite(Page fresh, Page old, int nsegments,
								   const MtpBtreeSegment *segments, const char *tuples);

/* Restores the items of an empty page from their bytes as they lie on it, the last one first. */
extern void mtp_btree_page_restore(Page page, const char *tuples, Size bytes);

#endif							/* MTP_BTREE_LEAF_H */
