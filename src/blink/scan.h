/*
 * scan.h
 *	  State of a scan of a B-link tree, shared by scan.c, start.c, step.c, parallel.c and killed.c.
 *
 * A scan reads a leaf at a time: all matching items of the page go to bt.currPos, and are returned
 * from there while no page is locked.  Between two calls the scan thus stands between pages.
 */
#ifndef MTP_BLINK_SCAN_H
#define MTP_BLINK_SCAN_H

#include "blink/reader.h"

typedef struct MtpBlinkScan
{
	/*
	 * First, because core's _bt_preprocess_keys and its likes take it for all that there is.  Of
	 * currPos and markPos, items[] is filled from the front by forward scans and from the back of
	 * MTP_MAX_ITEMS by backward ones; an item's indexOffset is its position on the page (from 0).
	 */
	BTScanOpaqueData bt;

	/* Left links of the pages that currPos and markPos come from, as they were read. */
	BlockNumber left;
	BlockNumber mark_left;

	/*
	 * Leaves may be read in frames.  If currPos comes from one, it is this one, while it is of
	 * that version.
	 */
	bool		framed;
	bool		in_frame;
	MtpFrameRef ref;
	int			nleaves;		/* read since the start */

	/* An index-only scan's hazard pointers, for what currPos and markPos have from frames. */
	int			slot;
	int			mark_slot;

	/* The leaves that it has read in one direction: none twice. */
	MtpWalk		walk;
	ScanDirection walk_dir;

	/*
	 * What is known of bt.keyData beyond what core tells.  convex: all items between two matching
	 * ones match.  equal: the only key is start, which its normalized key decides.
	 */
	bool		convex;
	bool		equal;
	uint8		code;			/* the index's norm code */
	int16		natts;

	/*
	 * The place where the scan starts.  The scan keys' comparison functions are kept from one
	 * start to the next; subtypes[i] tells what start.bt.scankeys[i] is for (InvalidOid: the
	 * column's own type).
	 */
	int			nmade;			/* scankeys that have been made */
	Oid			subtypes[INDEX_MAX_KEYS];
	MemoryContext context;		/* lives as long as the scan */
	SortSupportData order;		/* of the first column; no comparator: not to be used */
	MtpBlinkKey start;
} MtpBlinkScan;

StaticAssertDecl(offsetof(MtpBlinkScan, bt) == 0, "core's functions look at the front");

/* Makes the item that bt.currPos stands on the one that the scan returns. */
static inline void
mtp_blink_scan_return(IndexScanDesc scan)
{
	MtpBlinkScan *so = (MtpBlinkScan *) scan->opaque;
	BTScanPosItem *item = &so->bt.currPos.items[so->bt.currPos.itemIndex];

	mtp_tid_check_block(scan->indexRelation, so->bt.currPos.currPage, scan->heapRelation, &item->heapTid);
	scan->xs_heaptid = item->heapTid;
	if (scan->xs_want_itup)
		scan->xs_itup = (IndexTuple) (so->bt.currTuples + item->tupleOffset);
}

static inline void
mtp_blink_scan_drop_slot(int *slot)
{
	if (*slot != MTP_NO_SLOT)
		mtp_hazard_drop(*slot);
	*slot = MTP_NO_SLOT;
}

/* A position that gets what another one has, and has none. */
static inline void
mtp_blink_scan_share_slot(int from, int *to)
{
	Assert(*to == MTP_NO_SLOT);
	if (from != MTP_NO_SLOT)
		mtp_hazard_share(from);
	*to = from;
}

/*
 * start.c: preprocesses the keys, and reads the first leaf that has a match in this direction.
 * False, and no position, if there is none.
 */
extern bool mtp_blink_scan_start(IndexScanDesc scan, ScanDirection dir);

/* Derives so->convex and so->equal from bt.keyData; equal is for mtp_blink_scan_start alone. */
extern void mtp_blink_scan_keys_changed(MtpBlinkScan *so);

/*
 * step.c: reads the items of a leaf from `from` on (backward: before it), and unlocks it; if none matches, goes on to the next leaves.
 * bt.currPos.moreLeft and moreRight are set.  If the leaf's view is torn then (v->torn), there is no position, and the leaf is to be found anew.
 */
extern bool mtp_blink_scan_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from);

/*
 * May the scan read a leaf in a frame now?  What is in currPos has been given up.  Index-only scans announce it, and need a free slot.
 */
extern bool mtp_blink_scan_announce(IndexScanDesc scan);

/*
 * Reads leaves in this direction until one has a match: from page `from` on (backward: from its left
 * neighbour on).  The caller has the turn.
 */
extern bool mtp_blink_scan_walk(IndexScanDesc scan, ScanDirection dir, BlockNumber from);

/* Leaves the current page for the next one in this direction with a match. */
extern bool mtp_blink_scan_step(IndexScanDesc scan, ScanDirection dir);

/* Copies a position, with its tuples where they are kept; both or none have workspaces. */
extern void mtp_blink_scan_copy(BTScanPos to, char *to_tuples,
								const BTScanPosData *from, const char *from_tuples);

/*
 * parallel.c: before the scan goes to a further leaf.  False if there is none.  *from is where this
 * process stands; a parallel scan, where it may have to wait for another process, may stand elsewhere,
 * and *from becomes that.  The caller holds no pin or lock on the index.  Having the turn, it must
 * pass it on: by reading a leaf, or by _bt_parallel_done (which does nothing in other scans).
 */
extern bool mtp_blink_scan_take_turn(IndexScanDesc scan, ScanDirection dir, BlockNumber *from);

/*
 * The same where a scan starts.  *from becomes InvalidBlockNumber if this process is to look for the
 * first leaf.
 */
extern bool mtp_blink_scan_first_turn(IndexScanDesc scan, BlockNumber *from);

/* For a parallel scan: passes the turn on, while the leaf of the current position is locked. */
extern void mtp_blink_scan_pass_turn(IndexScanDesc scan, ScanDirection dir);

/* killed.c: sets the dead hints that the scan has collected for the current page. */
extern void mtp_blink_scan_kill(IndexScanDesc scan);

#endif							/* MTP_BLINK_SCAN_H */
