/*
 * wal_deletes.h
 *	  Main data of the records that take items and pages out of a B-link tree, and reuse pages.
 */
#ifndef MTP_BLINK_WAL_DELETES_H
#define MTP_BLINK_WAL_DELETES_H

#include "core/core.h"

#include "access/transam.h"
#include "storage/block.h"

/* MTP_WAL_DELETE: an inserter makes room; see wal/dead.h. */

/*
 * MTP_WAL_VACUUM: what ambulkdelete did.
 *
 * With a block: it deleted items.  Block 0: the leaf, under a cleanup lock; data: uint16
 * pos[nitems].  Or the metapage, with nitems 0 and always an image.
 *
 * Without a block: it passed the blocks from .. to - 1, leaves among them under a cleanup lock.
 * Replay waits until no scan stands on one of them any more (src/index/passed.h).
 */
typedef struct MtpWalVacuum
{
	uint16		nitems;
} MtpWalVacuum;

/*
 * MTP_WAL_UNLINK: a page and what hung on it alone leave the tree.  For each level from the leaf
 * up: the left sibling (if bit `level` of lefts is set), the page (initialized), the right sibling;
 * then the parent, whose item at pos gets the topmost right sibling as child and whose item at
 * pos + 1 goes.
 */
typedef struct MtpWalUnlink
{
	FullTransactionId safexid;
	uint32		lefts;
	uint16		levels;
	uint16		pos;
} MtpWalUnlink;

/*
 * MTP_WAL_REUSE: a deleted page is about to become another one.  No blocks: what happens to the
 * page is in later records.  A standby cancels whoever may still be on his way to the old one.
 */
typedef struct MtpWalReuse
{
	FullTransactionId safexid;
	MtpLocator	locator;
	BlockNumber block;
} MtpWalReuse;

#endif							/* MTP_BLINK_WAL_DELETES_H */
