/*
 * wal_records.h
 *	  Main data of the B-link tree's WAL records.  src/wal/README.md lists blocks and block data.
 *
 * MTP_WAL_DELETE, with which an inserter makes room, is in index/dead.h.
 */
#ifndef MTP_BLINK_WAL_RECORDS_H
#define MTP_BLINK_WAL_RECORDS_H

#include "core/core.h"

#include "access/transam.h"
#include "storage/block.h"

/*
 * MTP_WAL_INSERT.  Block 0: the page; data: uint16 pos[nitems], then the tuples, aligned as bodies
 * on the page are (mtp_body_size).  Blocks 1 ..: children whose MTP_INCOMPLETE is cleared.
 *
 * With MTP_INSERT_MERGES in nitems the page is a leaf whose equal keys are merged into lists
 * (mtp_page_merge).  Then the bits that say which follow the positions, MTP_SAME_BYTES of all
 * items.
 *
 * With MTP_INSERT_SPLICES nitems is 1, and data an MtpWalSplice.
 */
typedef struct MtpWalInsert
{
	uint16		nitems;
} MtpWalInsert;

/* The nold items before rank pos and a TID make one list, or two (mtp_page_join). */
typedef struct MtpWalSplice
{
	uint16		pos;
	uint16		nold;
	ItemPointerData tid;
} MtpWalSplice;

#define MTP_INSERT_MERGES	0x8000
#define MTP_INSERT_SPLICES	0x4000
#define MTP_INSERT_ITEMS	0x3FFF	/* the bits of the number */

/*
 * MTP_WAL_SPLIT.  Blocks 0 .. k-1: the pages, left to right.  Block 0 is changed; data: MtpWalLeft,
 * uint16 pos[nnew], MTP_SAME_BYTES(nold + nnew) of bits, the high key if has_high, MAXALIGNed, and
 * the new items, aligned as bodies on the new page are.  The others are initialized; data of each:
 * its MtpPageHeader, then its bodies as on the page (last item first, high key last), then, with
 * MTP_NORM_CUT, MTP_SAME_BYTES of bits that say which items are narrow, and their heads, first to
 * last.  Block k, if has_right: the old right sibling, whose left link now leads to block k-1.
 * Further blocks: children whose MTP_INCOMPLETE is cleared.  With k = 1 the page is written anew.
 */
typedef struct MtpWalSplit
{
	uint8		k;
	uint8		has_right;
} MtpWalSplit;

/* How the left page is made of the old one: mtp_page_left. */
typedef struct MtpWalLeft
{
	uint16		nold;
	uint16		nnew;
	uint16		count;
	uint16		flags;
	uint16		cycleid;
	uint16		has_high;
	uint16		norm;
} MtpWalLeft;

/*
 * MTP_WAL_NEWROOT.  Block 0: the metapage, initialized.  Block 1: the root, initialized, data as in
 * a split.  Further blocks: children whose MTP_INCOMPLETE is cleared.
 */
typedef struct MtpWalNewRoot
{
	BlockNumber root;
	uint32		level;
	uint32		marks;			/* of the metapage */
} MtpWalNewRoot;

/*
 * MTP_WAL_VACUUM: what ambulkdelete did.
 *
 * With a block: it deleted entries.  Block 0: the leaf, under a cleanup lock; data: uint16
 * at[nitems] (mtp_page_delete).  Or the metapage, with nitems 0 and always an image.
 *
 * Without a block: it passed the blocks from .. to - 1, leaves among them under a cleanup lock.
 * Replay waits until no scan stands on one of them (index/passed.c).
 */
typedef struct MtpWalVacuum
{
	uint16		nitems;
} MtpWalVacuum;

/*
 * MTP_WAL_UNLINK: a leaf leaves the tree, with the inner pages that lead to it alone.  Blocks, for
 * each level from the leaf up: the left sibling (if bit `level` of lefts is set), the page
 * (initialized), the right sibling.  Then the parent, whose item at pos gets the topmost right
 * sibling as child, and whose item at pos + 1 goes.
 */
typedef struct MtpWalUnlink
{
	FullTransactionId safexid;
	uint32		lefts;
	uint16		levels;
	uint16		pos;
} MtpWalUnlink;

/*
 * MTP_WAL_REUSE, a kind of MTP_WAL_MORE: a deleted page is about to become another one.  No blocks:
 * later records change the page.  A standby cancels the queries that may still be on their way to
 * the old page.
 */
typedef struct MtpWalReuse
{
	uint8		kind;
	FullTransactionId safexid;
	MtpLocator	locator;
	BlockNumber block;
} MtpWalReuse;

#endif							/* MTP_BLINK_WAL_RECORDS_H */
