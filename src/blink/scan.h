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

typedef struct MtpBlinkScan
{
	/*
	 * First, because core's _bt_preprocess_keys and others take it for the whole state.  A forward
	 * scan fills items[] of currPos and markPos from the front, a backward one from the back,
	 * which is MTP_MAX_ITEMS.  An item's indexOffset is its position on the page, from 0.
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

/* mark_dead.c: sets the dead hints that the scan has collected for the current page. */
extern void mtp_blink_scan_kill(IndexScanDesc scan);

#endif							/* MTP_BLINK_SCAN_H */
