/*
 * wal_records.h
 *	  Main data of the B-link tree's WAL records; src/wal/README.md lists blocks and block data.
 */
#ifndef MTP_BLINK_WAL_RECORDS_H
#define MTP_BLINK_WAL_RECORDS_H

#include "core/core.h"
#include "storage/block.h"

/*
 * MTP_WAL_INSERT.  Block 0: the page; data: uint16 pos[nitems], then the tuples, each MAXALIGNed
 * except the last.  Blocks 1 ..: children whose MTP_INCOMPLETE is cleared.
 */
typedef struct MtpWalInsert
{
	uint16		nitems;
} MtpWalInsert;

/*
 * MTP_WAL_SPLIT.  Blocks 0 .. k-1: the pages, left to right, initialized; data of each: its
 * MtpPageHeader, then its bodies as on the page (last item first, high key last).  Block k, if
 * has_right: the old right sibling, whose left link now leads to block k-1.  Further blocks:
 * children whose MTP_INCOMPLETE is cleared.
 */
typedef struct MtpWalSplit
{
	uint8		k;
	uint8		has_right;
} MtpWalSplit;

/*
 * MTP_WAL_NEWROOT.  Block 0: the metapage, initialized.  Block 1: the root, initialized, data as in
 * a split.  Further blocks: children whose MTP_INCOMPLETE is cleared.
 */
typedef struct MtpWalNewRoot
{
	BlockNumber root;
	uint32		level;
} MtpWalNewRoot;

#endif							/* MTP_BLINK_WAL_RECORDS_H */
