/*
 * request.h
 *	  How pairs of a table's blocks come to have directories.
 *
 * Scans and loads ask for them (request.c).  They put ranges of pairs into a queue in shared
 * memory (queue.c), from which workers take them (chore.c).  Without workers the asking backend
 * builds a few itself.  build.c builds one.
 */
#ifndef MTP_PAGEDIR_REQUEST_H
#define MTP_PAGEDIR_REQUEST_H

#include "core/core.h"

#include "buffer/pair.h"
#include "core/shmem.h"
#include "pagedir/pagedir.h"
#include "executor/tuptable.h"
#include "datatype/timestamp.h"

/* ---------- build.c ---------- */

/* What building directories of a table needs.  Its columns stay the same as long as it is open. */
typedef struct MtpPagedirBuilder
{
	Relation	rel;
	BlockNumber nblocks;		/* of the table */
	bool		trusted;		/* comparison functions are core's and read no catalogs */
	uint32		refused;		/* fresh pairs in a row that have found no free frame */
	MtpPagedirColumns columns;
	BufferAccessStrategy strategy;
	MemoryContext context;		/* holds all of it */
	MemoryContext build;		/* holds what one pair needs */
	char	   *copy;
	char	   *directory;
} MtpPagedirBuilder;

typedef enum MtpBuilt
{
	MTP_BUILT_IT,
	MTP_BUILT_BEFORE,			/* the pair has one of these columns, or is getting one */
	MTP_BUILT_REFUSED,			/* the pair is colder than what the frames hold, or another process
								 * uses its pages or has taken the frame away */
	MTP_BUILT_UNFIT				/* a damaged page */
} MtpBuilt;

/*
 * Opens a builder.  Returns false if the table has no directory columns or its pages may not be in
 * the buffer.  The caller has rel open and locked, so that nobody truncates it.  Memory comes from
 * the current context; mtp_pagedir_builder_close frees it.
 */
extern bool mtp_pagedir_builder_open(MtpPagedirBuilder *b, Relation rel);
extern void mtp_pagedir_builder_close(MtpPagedirBuilder *b);

/*
 * Builds a pair's directory.  With only_free it takes a frame only if that is free or its page has
 * cooled to nothing.  level is as for mtp_pair_reserve.  Raises what comparison functions raise,
 * unless they are trusted; the pair has no directory then.  The caller holds no lock on a page.
 */
extern MtpBuilt mtp_pagedir_builder_build(MtpPagedirBuilder *b, uint32 pair, bool only_free,
										  int level);

/* ---------- queue.c ---------- */

/* Pairs first … first + n - 1 of a table */
typedef struct MtpRange
{
	Oid			relid;
	uint32		first;
	uint32		n;
	bool		fresh;			/* a load's: built only while frames are free */
} MtpRange;

typedef enum MtpPairsCount
{
	MTP_PAIRS_ASKED,			/* pairs that were put into the queue */
	MTP_PAIRS_BUILT,
	MTP_PAIRS_REFUSED,
	MTP_PAIRS_UNFIT,
	MTP_PAIRS_FAILED,			/* by an error */
	MTP_PAIRS_DROPPED,			/* removed from the queue, or refused by it */
	MTP_PAIRS_COUNTS
} MtpPairsCount;

/* True if there is a queue: there is none without a buffer. */
extern bool mtp_pagedir_queue_possible(void);

/* Puts a range of this database into the queue, or adds to one that is there. */
extern void mtp_pagedir_queue_put(const MtpRange *range);

/*
 * Takes at most `most` pairs of this database's first range, or, with a valid relid, of that
 * table's first range.  Returns false if there is none.
 */
extern bool mtp_pagedir_queue_take(Oid relid, uint32 most, MtpRange *range);

/*
 * Returns what is left of a range, if anything, behind all others, as all ranges of its table.
 * locked: the table's lock was not free.  After too many such returns the table's ranges are
 * dropped.
 */
extern void mtp_pagedir_queue_return(const MtpRange *range, bool locked);

/* Drops this table's ranges, or those of loads alone. */
extern void mtp_pagedir_queue_drop(Oid relid, bool only_fresh);

extern void mtp_pagedir_queue_count(MtpPairsCount what, uint32 n);
extern void mtp_pagedir_queue_reset_counts(void);

/* The queue's shared memory */
extern const MtpShmem mtp_pagedir_queue_shmem;

/* ---------- request.c ---------- */

/*
 * A scan asks for a directory of a pair that it has read page by page.  The pair may get one
 * later; workers build it, if there are any.  The call is cheap and may do nothing.  The caller
 * holds no lock on a page, at most a pin, and is not aborting.
 */
extern void mtp_pagedir_request(Relation rel, uint32 pair);

/* A scan ends: hands over what it has collected. */
extern void mtp_pagedir_request_flush(void);

/* The loading transaction has inserted these rows, in this order; it has inserted its last ones. */
extern void mtp_pagedir_request_loaded(Relation rel, TupleTableSlot **slots, int nslots);
extern void mtp_pagedir_request_load_end(Relation rel);

/* This room's part of _PG_init */
extern void mtp_pagedir_init(void);

/* ---------- chore.c ---------- */

/* So many pairs in a row without a free frame mean that there is none. */
#define MTP_ENOUGH_REFUSALS	64

/*
 * Builds the pairs of a range, takes them out of it and counts them.  Ends early if the turn of a
 * worker that began then (0: there is none) is over.  Returns false if b->refused says that there
 * is no free frame.  Raises what mtp_pagedir_builder_build raises.
 */
extern bool mtp_pagedir_build_range(MtpPagedirBuilder *b, MtpRange *pairs, TimestampTz began);

extern void mtp_pagedir_chore_init(void);

#endif							/* MTP_PAGEDIR_REQUEST_H */
