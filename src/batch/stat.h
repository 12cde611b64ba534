/*
 * stat.h
 *	  Counters per index.
 *
 * Up to PostgreSQL 17 they are in a table of shared memory, where the index that was loaded longest
 * ago makes room for another (stat_15.c).  Since 18 they are cumulative statistics of a kind of
 * mtpower's own (stat_18.c).  README.md has the rules.
 */
#ifndef MTP_STAT_H
#define MTP_STAT_H

#include "core/core.h"

#include "batch/batch.h"

/* Why a worker's task went back to its owner, or was not taken. */
typedef enum MtpFailure
{
	MTP_FAIL_LOCK,				/* locks not to be had */
	MTP_FAIL_FILE,				/* another file than the owner's, or invisible */
	MTP_FAIL_ERROR,				/* an error while it ran */
	MTP_FAIL_EXIT,				/* the worker was terminated */
	MTP_FAILURES
} MtpFailure;

/*
 * All are uint64.  18 writes them to its file of statistics at a clean shutdown, which says nothing
 * about their size: a release that changes them needs another MTP_STAT_KIND.
 */
typedef struct MtpIndexCounts
{
	uint64		batches;
	uint64		entries[2];		/* applied by backends, and by workers */
	uint64		tasks[2];		/* the same */
	uint64		taken_over;
	uint64		failed[MTP_FAILURES];
	uint64		leaves;
	uint64		splits[17];
	uint64		wal_bytes;
	uint64		waits;
	uint64		ahead;			/* pages split by prepare */
	uint64		overflow;		/* … one at a time, outside of batches */
	uint64		moved;			/* entries, by either */
	uint64		postings;		/* posting lists made */
	uint64		alone[MTP_ALONE_REASONS];	/* entries put in one by one, by reason - 1 */
} MtpIndexCounts;

static inline void
mtp_index_counts_add(MtpIndexCounts *sum, const MtpIndexCounts *more)
{
	for (int i = 0; i < sizeof(*sum) / sizeof(uint64); i++)
		((uint64 *) sum)[i] += ((const uint64 *) more)[i];
}

typedef struct MtpIndexStatKey
{
	Oid			dbid;
	Oid			indexid;
} MtpIndexStatKey;

typedef struct MtpIndexStat
{
	MtpIndexStatKey key;
	MtpIndexCounts n;
} MtpIndexStat;

/* An index's counters, for mtp_batch_stat_add(). */
typedef struct MtpStatRef
{
	Oid			indexid;
	struct PgStat_EntryRef *entry;	/* stat_18.c's */
} MtpStatRef;

/*
 * The counters of an index of this database, made if there are none.  The caller has it locked
 * against being dropped.  They are good to the transaction's end, and until callbacks have run if
 * that is the process's end.  May raise.
 */
extern MtpStatRef mtp_batch_stat_open(Relation index);

/*
 * Adds to the counters, and every process sees it at once.  The caller holds none of the engine's
 * locks, and is in no critical section.  Raises nothing.
 */
extern void mtp_batch_stat_add(MtpStatRef ref, const MtpIndexCounts *more);

/*
 * The same with an index whose counters a process has opened; if none has, it does nothing, or
 * makes them.  The index need not be locked, nor be there.  May raise.
 */
extern void mtp_batch_stat_count(Oid indexid, const MtpIndexCounts *more);

/*
 * The counters of all databases' indexes, in a palloc'd array; of this one's none that has been
 * dropped.  Indexes that have counted nothing may be among them.
 */
extern MtpIndexStat *mtp_batch_stat_read(int *n);

/* How many indexes have lost their counters to others since the last reset. */
extern uint64 mtp_batch_stat_evicted(void);
extern void mtp_batch_stat_reset(void);

/* In _PG_init. */
extern void mtp_batch_stat_init(void);

#endif							/* MTP_STAT_H */
