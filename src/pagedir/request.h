/*
 * request.h
 *	  How pairs of a table's blocks come to have directories.
 *
 * Scans and loads ask for them (admit.c), by ranges of pairs in a queue in shared memory (queue.c), which workers take (work.c); where there are none, whoever asks
 * builds a few himself.  build.c builds one.
 */
#ifndef MTP_PAGEDIR_REQUEST_H
#define MTP_PAGEDIR_REQUEST_H

#include "core/core.h"

#include "buffer/pair.h"
#include "pagedir/pagedir.h"
#include "executor/tuptable.h"
#include "storage/lwlock.h"

/* ---------- build.c ---------- */

/* What is needed to build directories of a table, with the same columns all the time. */
typedef struct MtpPagedirBuilder
{
	Relation	rel;
	BlockNumber nblocks;		/* of the table */
	bool		trusted;		/* comparison functions are core's and read no catalogs */
	MtpPagedirColumns columns;
	BufferAccessStrategy strategy;
	MemoryContext context;		/* all of it */
	MemoryContext build;		/* of one pair */
	char	   *copy;
	char	   *directory;
} MtpPagedirBuilder;

typedef enum MtpBuilt
{
	MTP_BUILT_IT,
	MTP_BUILT_BEFORE,			/* it has one of these columns, or is getting one */
	MTP_BUILT_REFUSED,			/* colder than what is there, or somebody is at its pages, or has
								 * taken it away again */
	MTP_BUILT_UNFIT				/* a damaged page */
} MtpBuilt;

/*
 * False if the table has no directory columns, or if its pages may not be in the buffer.  The caller has rel open and locked, so that nobody truncates it.  Memory comes from the current
 * context; mtp_pagedir_builder_close frees it.
 */
extern bool mtp_pagedir_builder_open(MtpPagedirBuilder *b, Relation rel);
extern void mtp_pagedir_builder_close(MtpPagedirBuilder *b);

/*
 * Builds a pair's directory; only_free: only where a frame is free, or its page has cooled to nothing; level: as for mtp_pair_reserve.  Raises what comparison functions raise, unless these are trusted; then the pair has none.
 * With no lock on a page.
 */
extern MtpBuilt mtp_pagedir_builder_build(MtpPagedirBuilder *b, uint32 pair, bool only_free, int level);

/* ---------- queue.c ---------- */

/* Pairs first … first + n - 1 of a table */
typedef struct MtpRange
{
	Oid			relid;
	uint32		first;
	uint32		n;
	bool		fresh;			/* a load's: only while frames are free */
} MtpRange;

typedef enum MtpPairsCount
{
	MTP_PAIRS_ASKED,			/* pairs that were put into the queue */
	MTP_PAIRS_BUILT,
	MTP_PAIRS_REFUSED,
	MTP_PAIRS_UNFIT,
	MTP_PAIRS_FAILED,			/* by an error */
	MTP_PAIRS_DROPPED,			/* taken off the queue, or not put there */
	MTP_PAIRS_COUNTS
} MtpPairsCount;

/* Is there a queue?  Not where there is no buffer. */
extern bool mtp_pagedir_queue_possible(void);

/* Puts a range of this database's into it, or adds to one that is there. */
extern void mtp_pagedir_queue_put(const MtpRange *range);

/* Takes at most `most` pairs of the first range of this database, or of one of this table (relid valid).  False if there is none. */
extern bool mtp_pagedir_queue_take(Oid relid, uint32 most, MtpRange *range);

/* What was taken comes back, behind all others; locked: because its table's lock was not to be had, and unless that has happened too often. */
extern void mtp_pagedir_queue_return(const MtpRange *range, bool locked);

/* Other tables' turn: this one's ranges go behind theirs. */
extern void mtp_pagedir_queue_rotate(Oid relid);

/* Drops this table's ranges, or those of loads alone. */
extern void mtp_pagedir_queue_drop(Oid relid, bool only_fresh);

extern void mtp_pagedir_queue_count(MtpPairsCount what, uint32 n);
extern void mtp_pagedir_queue_reset_counts(void);

/* Its shared memory, for shmem.c: how much, and making it or finding it; lock guards it. */
extern Size mtp_pagedir_queue_size(void);
extern void mtp_pagedir_queue_make(LWLock *lock);

/* ---------- admit.c ---------- */

/*
 * A scan has read this pair of blocks page by page, though the table has directory columns: it may get a directory, later and elsewhere if there are workers.  Cheap, and may do
 * nothing.  Called with no lock on a page, a pin at most; not from an abort.
 */
extern void mtp_pagedir_request(Relation rel, uint32 pair);

/* The scan ends. */
extern void mtp_pagedir_request_flush(void);


/* The loading transaction has put rows there, in this order; and it has put its last ones. */
extern void mtp_pagedir_request_loaded(Relation rel, TupleTableSlot **slots, int nslots);
extern void mtp_pagedir_request_load_end(Relation rel);

/* Its share of _PG_init. */
extern void mtp_pagedir_init(void);

/* ---------- work.c ---------- */

extern void mtp_pagedir_chore_init(void);

/* ---------- shmem.c ---------- */

extern void mtp_pagedir_shmem_init(void);

#endif							/* MTP_PAGEDIR_REQUEST_H */
