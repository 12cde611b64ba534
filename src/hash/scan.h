/*
 * scan.h
 *	  State of a scan of a hash index, shared by scan.c and killed.c.
 */
#ifndef MTP_HASH_SCAN_H
#define MTP_HASH_SCAN_H

#include "hash/hash.h"

/*
 * A scan stands in one bucket, or in none.  It reads a page at a time: the TIDs of all matching entries
 * are copied and returned from here while no page is locked.
 */
typedef struct MtpHashScan
{
	bool		began;
	bool		done;
	bool		one;			/* one hash, lo = hi; else all buckets in the order of hashes */
	bool		source_read;	/* the source's stash has been begun */

	/* The hashes looked for in this bucket. */
	uint32		lo;
	uint32		hi;

	/*
	 * The bucket's primary page, and that of the bucket whose stash has entries of ours; pinned until the
	 * bucket is left, or InvalidBuffer.
	 */
	Buffer		primary;
	Buffer		source;

	/* Pages still to be read. */
	BlockNumber next;			/* of the chain that is being read */
	int			nchains;
	BlockNumber chains[MTP_HASH_MAX_HEAVY + 1]; /* first pages of the others */

	/* The page that the entries come from. */
	BlockNumber page;
	int			n;
	int			at;				/* the entry to be returned next */
	int			nkilled;
	uint16		killed[MTP_HASH_MAX_ENTRIES];	/* entries found dead to everyone, ascending */
	uint32		hashes[MTP_HASH_MAX_ENTRIES];	/* unless one */
	ItemPointerData tids[MTP_HASH_MAX_ENTRIES];
} MtpHashScan;

/* killed.c: sets the dead hints that the scan has collected for its page, which is not locked. */
extern void mtp_hash_scan_kill(IndexScanDesc scan);

#endif							/* MTP_HASH_SCAN_H */
