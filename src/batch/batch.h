/*
 * batch.h
 *	  The batch engine: what the rest of mtpower calls, and what an index AM provides.
 *
 * The engine knows no index AM.  Entries of a statement are queued in shared memory, sorted, cut by
 * key range into tasks, and applied by background workers and the owning backend, all before the
 * statement ends.  README.md has the rules and why they hold.
 */
#ifndef MTP_BATCH_H
#define MTP_BATCH_H

#include "mtpower.h"

#include "access/genam.h"
#include "batch/entry.h"
#include "utils/snapshot.h"

/*
 * What an index AM provides.  Callbacks run in a backend or in a worker, with the index (and table)
 * open and locked, in a transaction.
 */
typedef struct MtpBatchStream MtpBatchStream;

typedef struct MtpBatchApply
{
	Relation	index;
	Relation	heap;
	MtpOrder   *order;
	MtpBatchStream *stream;		/* the task's entries in order, from its progress on */
	volatile uint32 *progress;	/* entries of the task that are in the index */
	/* out, for the statistics */
	uint32		splits[17];		/* by K, [16] = more */
	uint32		leaves;			/* touched */
} MtpBatchApply;

typedef struct MtpBatchOps
{
	const char *amname;

	/*
	 * Finds where tasks end: puts up to nbounds boundaries as entries into the arrays that are not
	 * NULL (narrow or wide as the order says); the next task starts with the first entry above a
	 * boundary.  sample(arg, i) gives an entry near i/nbounds of the batch.  Returns how many.
	 * Wide boundaries are copies (palloc'd).
	 */
	int			(*cut) (Relation index, MtpOrder *order, int nsamples,
						const MtpNarrow *narrow_samples, const MtpWide *wide_samples,
						MtpNarrow *narrow_bounds, MtpWide *wide_bounds);

	/*
	 * Applies one step: some entries from the stream (at least one), in critical sections that
	 * advance *progress.  before(arg) is called with no page lock held, before each page change, and
	 * false means stop (cancelled).
	 */
	void		(*step) (MtpBatchApply *apply);
} MtpBatchOps;

/* Registers the interface of an index AM, by its handler's routine; only from _PG_init. */
extern void mtp_batch_register(const MtpBatchOps *ops);

/*
 * Stream of a task's entries.  peek gives the current entry as an index tuple (valid until the
 * next call) or as narrow entry, NULL/false at the end.
 */
extern bool mtp_stream_peek_narrow(MtpBatchStream *s, MtpNarrow *e);
extern IndexTuple mtp_stream_peek_wide(MtpBatchStream *s);
extern void mtp_stream_advance(MtpBatchStream *s);

/*
 * aminsert's question: has the entry been queued?  If false, the caller inserts it at once.
 * values/isnull as aminsert gets them; the caller has made sure that the entry can be stored
 * (itup, already formed, may be NULL for narrow entries).
 */
extern bool mtp_batch_enqueue(const MtpBatchOps *ops, Relation index, Relation heap,
							  Datum *values, bool *isnull, ItemPointer tid,
							  IndexUniqueCheck check, bool unchanged);

/*
 * Barrier before the backend's own scan of an index: applies its queued entries unless the snapshot
 * can't see them.  Cheap when nothing is queued.
 */
extern uint32 mtp_batch_pending;	/* entries this backend has queued, all indexes */
extern void mtp_batch_scan_barrier(Relation index, Snapshot snapshot);

static inline void
mtp_batch_before_scan(Relation index, Snapshot snapshot)
{
	if (unlikely(mtp_batch_pending > 0))
		mtp_batch_scan_barrier(index, snapshot);
}

/* ambulkdelete's first act: waits for steps of others under way on this index. */
extern void mtp_batch_vacuum_fence(Relation index);

/* The table AM's announcements: a multi_insert of ntuples rows is coming; bulk insert is over. */
extern void mtp_batch_announce(Relation rel, int ntuples);
extern void mtp_batch_finish_bulk(Relation rel);

#endif							/* MTP_BATCH_H */
