/*
 * scan.h
 *	  State of a scan of a hash index, shared by scan.c, nulls.c and mark_dead.c.
 */
#ifndef MTP_HASH_SCAN_H
#define MTP_HASH_SCAN_H

#include "buffer/buffer.h"
#include "hash/hash.h"

/*
 * A scan stands in one bucket, or before or behind all its entries.  It reads a page at a time,
 * copies the TIDs of all matching entries, and returns them from here, while no page is locked.
 */
typedef struct MtpHashScan
{
	bool		began;
	bool		none;			/* a key is NULL: there is nothing to find */
	int8		outside;		/* -1 before the first entry, 1 behind the last, 0 in a bucket */
	bool		one;			/* one hash, lo = hi; else all buckets in the order of hashes */
	bool		nulls;			/* rows whose first column is NULL: from the table */
	bool		source_read;	/* the source's stash has been begun */

	/* The hashes looked for in this bucket. */
	uint32		lo;
	uint32		hi;

	/* If all matches come from the bucket's frame, as this sequence lock has it: no pins then. */
	bool		in_frame;
	MtpFrameRef ref;

	/*
	 * The primary pages of the bucket, and of the bucket whose stash has entries of this one;
	 * pinned until the scan leaves the bucket (H4, H5), or InvalidBuffer.
	 */
	Buffer		primary;
	Buffer		source;

	/* Pages still to be read: next of the chain that is being read. */
	BlockNumber next;
	int			nchains;
	BlockNumber chains[MTP_HASH_MAX_HEAVY + 1]; /* first pages of the others */
	MtpWalk		walk;			/* over all of them: no page is in two chains */

	/* The trail: the bucket's pages that had a match, in the order of reading, for the way back. */
	int			ntrail;
	int			maxtrail;
	int			step;			/* the page that the entries come from, or -1 */
	BlockNumber *trail;

	/* Blocks of the table that are still to be read for NULLs; the strategy outlives rescans. */
	BlockNumber table_at;
	BlockNumber table_end;
	BufferAccessStrategy strategy;

	/* The page that the entries come from. */
	BlockNumber page;
	int			n;
	int			at;				/* the entry returned last, or -1, or n */
	int			nkilled;
	uint16		killed[MTP_HASH_MAX_ENTRIES];	/* entries found dead to everyone */
	uint32		hashes[MTP_HASH_MAX_ENTRIES];	/* unless one */
	ItemPointerData tids[MTP_HASH_MAX_ENTRIES];
} MtpHashScan;

/*
 * mark_dead.c: sets the dead hints that the scan has collected for its page, which is not locked.
 */
extern void mtp_hash_scan_kill(IndexScanDesc scan);

/*
 * nulls.c: rows whose first column is NULL, from the table, in the order of their places; false
 * behind the last.  _begin raises an error if the table's access method does not have heap's pages.
 */
extern void mtp_hash_nulls_begin(IndexScanDesc scan);
extern bool mtp_hash_nulls_next(IndexScanDesc scan);

#endif							/* MTP_HASH_SCAN_H */
