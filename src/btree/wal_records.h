/*
 * wal_records.h
 *	  Main data of the records that change core's btree pages.  src/wal/README.md lists blocks and
 *	  block data.
 */
#ifndef MTP_BTREE_WAL_RECORDS_H
#define MTP_BTREE_WAL_RECORDS_H

#include "core/core.h"

/*
 * MTP_WAL_BTREE_INSERT.  Block 0: the leaf; data: OffsetNumber at[n], then the tuples, each
 * MAXALIGNed.
 */
typedef struct MtpWalBtreeInsert
{
	uint16		n;
} MtpWalBtreeInsert;

/*
 * MTP_WAL_BTREE_SPLIT.  Block 0: the leaf; data: MtpBtreeSegment[nsegments], then the tuples that
 * they put.  Blocks 1 .. k-1: new right siblings, initialized; data of each: its items as on the
 * page, last one first.  Block k, if has_right: the old right sibling, whose left link now leads to
 * block k-1.  With k = 1 the leaf is only rewritten.
 */
typedef struct MtpWalBtreeSplit
{
	uint16		nsegments;
	uint8		k;
	bool		has_right;
} MtpWalBtreeSplit;

#endif							/* MTP_BTREE_WAL_RECORDS_H */
