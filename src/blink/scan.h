/*
 * scan.h
 *	  The state of a scan of a B-link tree, which the files scan*.c and mark_dead.c share.
 *
 * A scan reads a leaf at a time.  All matching items of the page go to bt.currPos, and are returned
 * from there while no page is locked: between two calls the scan stands between pages.
 */
#ifndef MTP_BLINK_SCAN_H
#define MTP_BLINK_SCAN_H

#include "blink/reader.h"
#include "buffer/pair.h"

#define MTP_SAVED_LIST	0x8000

/* A leaf's tuples fit in a page, but for what its bodies spare. */
#define MTP_SCAN_TUPLES	(BLCKSZ + MTP_MAX_ITEMS * MTP_BODY_SPARES)

StaticAssertDecl(MTP_MAX_ITEMS <= MaxTIDsPerBTreePage, "a position has room for a leaf's items");

/* A list that a scan goes through, TID by TID */
typedef struct MtpScanList
{
	int			item;			/* its number in currPos; -1: the scan stands in no list */
	int			n;
	int			at;				/* the TID that was returned last */
	int			dead;			/* so many TIDs from the first on are dead to everyone; … */
	int			known;			/* … and so many the page knew to be */
	ItemPointerData *tids;		/* MTP_LIST_TIDS */
} MtpScanList;

/*
 * The rows that an index scan will fetch next, as far as the current page tells: first their line
 * pointers are prefetched, then they themselves.  So the reads from memory of several rows overlap.
 */
#define MTP_ROWS_AHEAD	8		/* a power of 2 */

typedef struct MtpScanAhead
{
	uint32		n;				/* rows so far; the row n + MTP_ROWS_AHEAD stands at n */
	uint32		missed;			/* rows in a row that have no image */
	MtpRowAhead rows[MTP_ROWS_AHEAD];
} MtpScanAhead;

typedef struct MtpBlinkScan
{
	/*
	 * First, because core's _bt_preprocess_keys and others take it for the whole state.  A forward
	 * scan fills items[] of currPos and markPos from the front, a backward one from the back,
	 * which is MTP_MAX_ITEMS.  An item's indexOffset is its position on the page, from 0, with
	 * MTP_SAVED_LIST if it is a list: then its tuple is kept in any scan.  In killedItems a list's
	 * number has the number of its dead TIDs above its lower 16 bits.
	 */
	BTScanOpaqueData bt;

	/* What follows, up to `start`, begins as zeros, but for the slots. */

	/* Left links of the pages that currPos and markPos come from, as they were read. */
	BlockNumber left;
	BlockNumber mark_left;

	/* True if leaves may be read in frames.  If currPos comes from a frame, ref names it. */
	bool		framed;
	bool		in_frame;
	MtpFrameRef ref;
	int			nleaves;		/* leaves read since the start */

	/* The list of currPos in which the scan stands, and where its mark does. */
	MtpScanList list;
	int			mark_at;
	MtpScanAhead ahead;

	/* An index-only scan's hazard pointers, for what currPos and markPos have from frames. */
	int			hazard;
	int			mark_hazard;

	/* The leaves that the scan has read in one direction: none twice. */
	MtpWalk		walk;
	ScanDirection walk_dir;

	/*
	 * What is known of bt.keyData beyond what core tells.  convex: all items between two matches
	 * match.  equal: `start` is the only key, and its normalized key decides.
	 */
	bool		convex;
	bool		equal;
	uint8		code;			/* the index's norm code */
	int16		natts;

	/* Of a scan whose arrays are advanced on the leaf, scan_keys_17.c's; or NULL. */
	struct MtpScanArrays *arrays;

	/*
	 * The place where the scan starts.  The scan keys' comparison functions are kept from one
	 * start to the next.  subtypes[i] is the type that start.bt.scankeys[i] compares with;
	 * InvalidOid: the column's own.
	 */
	int			nmade;			/* scankeys that have been made */
	Oid			subtypes[INDEX_MAX_KEYS];
	MemoryContext context;		/* lives as long as the scan */
	SortSupportData order;		/* of the first column; no comparator: not to be used */
	MtpBlinkKey start;
} MtpBlinkScan;

StaticAssertDecl(offsetof(MtpBlinkScan, bt) == 0, "core's functions look at the front");

static inline void
mtp_blink_scan_drop_hazard(int *hazard)
{
	if (*hazard != MTP_NO_HAZARD)
		mtp_hazard_drop(*hazard);
	*hazard = MTP_NO_HAZARD;
}

/*
 * Gives a position, which has no hazard pointer, a share of the one that another one has, if any.
 */
static inline void
mtp_blink_scan_share_hazard(int from, int *to)
{
	Assert(*to == MTP_NO_HAZARD);
	if (from != MTP_NO_HAZARD)
		mtp_hazard_share(from);
	*to = from;
}

/*
 * scan_start.c: preprocesses the keys, and reads the first leaf that has a match in this direction.
 * False, and no position, if there is none.
 */
extern bool mtp_blink_scan_start(IndexScanDesc scan, ScanDirection dir);

/*
 * The place on a leaf from which items may match the keys as they stand now (backward: before
 * which); false if the keys do not tell, or the reader is torn.  Makes so->start of them.
 */
extern bool mtp_blink_scan_place(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v,
								 MtpPos *place);

/* Derives so->convex from bt.keyData, and clears so->equal, which mtp_blink_scan_start sets. */
extern void mtp_blink_scan_keys_changed(MtpBlinkScan *so);

/*
 * scan_leaves.c: reads the items of a leaf from `from` on (backward: before it), and unlocks the
 * leaf.  If none matches, goes on to the next leaves.  bt.currPos.moreLeft and moreRight are set.
 * If the reader is torn afterwards (v->torn), there is no position, and the caller finds the leaf
 * anew.
 */
extern bool mtp_blink_scan_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v,
								MtpPos from);

/*
 * True if the scan may read a leaf in a frame now.  The caller has given up what is in currPos.  An
 * index-only scan needs a free hazard pointer for that, and announces here that it reads a leaf.
 */
extern bool mtp_blink_scan_announce(IndexScanDesc scan);

/*
 * Reads leaves in this direction until one has a match: from page `from` on (backward: from its
 * left neighbour on), for which the caller has the turn; or from the current position on, whose
 * page is neither pinned nor locked, if from is InvalidBlockNumber.
 */
extern bool mtp_blink_scan_walk(IndexScanDesc scan, ScanDirection dir, BlockNumber from);

/* Leaves the current page for the next one in this direction with a match. */
extern bool mtp_blink_scan_step(IndexScanDesc scan, ScanDirection dir);

/*
 * Copies a position, with a pin of its own if it has one, and with its tuples where they are kept:
 * both have workspaces, or none has.
 */
extern void mtp_blink_scan_copy(BTScanPos to, char *to_tuples,
								const BTScanPosData *from, const char *from_tuples);

/* Makes room for the tuples of currPos and markPos. */
extern void mtp_blink_scan_keep_tuples(MtpBlinkScan *so);

/*
 * Saves an item as number `index` of the current position, with its tuple if it is a list, or the
 * scan index-only.
 */
extern void mtp_blink_scan_save(IndexScanDesc scan, MtpPageReader *v, int index, IndexTuple itup,
								int pos);

/*
 * Moves p from an item that is marked dead to the next one that is not, or behind the last one.
 */
extern void mtp_blink_scan_skip_dead(MtpPageReader *v, MtpPos *p);

/*
 * scan_keys_15.c and scan_keys_17.c: core's way with scan keys.  Up to PostgreSQL 16 the arrays of
 * `= ANY` are advanced between two searches, and each search is for one combination of elements.
 * Since 17 they are advanced on the leaf, where an item shows which elements can match next; since
 * 18 so are skip arrays, which core makes up for columns that lack a key with =.
 */
static inline bool
mtp_blink_keys_on_leaf(MtpBlinkScan *so)
{
	return MTP_ARRAYS_ON_LEAF && so->bt.numArrayKeys != 0;
}

/* Forgets the keys before.  scan->keyData has the new ones. */
extern void mtp_blink_keys_reset(IndexScanDesc scan);

/* Frees what a scan has beside core's arrays. */
extern void mtp_blink_keys_end(MtpBlinkScan *so);

/* Before the first search in this direction; false if nothing can match. */
extern bool mtp_blink_keys_begin(IndexScanDesc scan, ScanDirection dir);

/*
 * In each search, once the keys are preprocessed, and a parallel scan has the turn: true if the
 * search goes on where an earlier one has ended, so that there may be matches on both sides of it.
 */
extern bool mtp_blink_keys_resume(IndexScanDesc scan, ScanDirection dir);

/* After a search's last match: true if the scan needs a further search. */
extern bool mtp_blink_keys_again(IndexScanDesc scan, ScanDirection dir);

/* When the scan leaves a page in this direction, after its position was copied to the mark. */
extern void mtp_blink_keys_step(MtpBlinkScan *so, ScanDirection dir, bool marked);

/* A mark is set; the scan goes back to it: to another page than the current one, unless same. */
extern void mtp_blink_keys_mark(IndexScanDesc scan);
extern void mtp_blink_keys_restore(IndexScanDesc scan, bool same);

/*
 * What bounds the column of a key with = at the end where the scan begins.  Where nothing does,
 * NULL, and *far gets the key if it matches no NULL.
 */
extern ScanKey mtp_blink_keys_equal(BTScanOpaque bt, ScanKey key, bool forward, ScanKey *far);

/*
 * True if an item of natts attributes matches; clears *more if it does not, and nothing beyond it
 * in the scan's direction does either.  Not for a scan whose arrays are advanced on the leaf.
 */
extern bool mtp_blink_keys_match(IndexScanDesc scan, IndexTuple itup, int natts, ScanDirection dir,
								 bool *more);

/*
 * Only for a scan whose arrays are advanced on the leaf.  Loads currPos with what matches from
 * `from` on (backward: before it).  Returns early if the reader is torn; the arrays may have been
 * advanced then, and the second function takes that back.
 */
extern void mtp_blink_keys_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v,
								MtpPos from);
extern void mtp_blink_keys_undo(MtpBlinkScan *so);

/* True if that can be taken back, so that leaves may be read in frames. */
extern bool mtp_blink_keys_undoable(MtpBlinkScan *so);

/*
 * The turn in a parallel scan.  Who takes it gets the block from which to go on, or
 * InvalidBlockNumber: to search anew; or false: nothing is left to do.  It is passed on at block
 * `here` with that leaf's link in the scan's direction, InvalidBlockNumber at the index's end.
 */
extern bool mtp_blink_turn_take(IndexScanDesc scan, BlockNumber *from, bool first);
extern void mtp_blink_turn_pass(IndexScanDesc scan, ScanDirection dir, BlockNumber here,
								BlockNumber link);

/* The tuple of a saved item, which the scan has kept: of a list, or if it is index-only. */
static inline IndexTuple
mtp_blink_scan_tuple(BTScanOpaque bt, const BTScanPosItem *item)
{
	return (IndexTuple) (bt->currTuples + item->tupleOffset);
}

/*
 * The scan leaves the list in which it stands, if it does, and notes which of its TIDs were found
 * dead.
 */
extern void mtp_blink_scan_leave_list(IndexScanDesc scan);

/* mark_dead.c: sets the dead hints that the scan has collected for the current page. */
extern void mtp_blink_scan_kill(IndexScanDesc scan);

#endif							/* MTP_BLINK_SCAN_H */
