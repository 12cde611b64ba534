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

#include "core/core.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "batch/entry.h"
#include "postmaster/bgworker.h"
#include "utils/snapshot.h"

/*
 * What an index AM provides.  Callbacks run in a backend or in a worker, with the index (and table)
 * open and locked, in a transaction.
 */
typedef struct MtpBatchStream MtpBatchStream;

/* What brings an entry into an index. */
typedef enum MtpArrival
{
	MTP_NEW_ROW,
	MTP_NEW_VERSION,			/* an UPDATE that sets columns of the key */
	MTP_SAME_KEY				/* an UPDATE that does not, so there is an older entry of the key */
} MtpArrival;

typedef struct MtpBatchApply
{
	Relation	index;
	Relation	heap;
	MtpOrder   *order;
	MtpBatchStream *stream;		/* the task's entries in order, from its progress on */
	MtpArrival	arrival;		/* of the statement's entries of the index, the last of these that
								 * some are */
	volatile uint32 *progress;	/* entries of the task that are in the index; in prepare: announced
								 * to it */
	const volatile bool *cancelled; /* the load has failed: nobody needs what prepare does any more */

	/* out, for the statistics */
	uint32		splits[17];		/* by K, [16]: more */
	uint32		leaves;			/* touched */
	uint32		ahead;			/* pages split by prepare, before the batch came */
	uint32		moved;			/* entries that such splits moved */
} MtpBatchApply;

typedef struct MtpBatchOps
{
	/* The index AM's routine has this ambuild: how the engine knows its indexes. */
	ambuild_function ambuild;

	/*
	 * How entries are ordered, palloc'd in the current context.  An index whose order is narrow is
	 * fed with narrow entries.
	 */
	MtpOrder   *(*order) (Relation index);

	/* Does ordering or applying entries call functions of the operator classes? */
	bool		compares;

	/*
	 * May be NULL.  Called before a batch is cut, whatever its size, to make the index fit for so
	 * many more entries; apply has no stream.  Puts no entry in that is not in the index already,
	 * so that it need not be registered as a step (README.md).  Waits for no cleanup lock and for
	 * no transaction.  May raise; then whoever cuts the batch calls it again: *progress, which is
	 * zero at first, is what it left there, such as the number of entries that it has counted as
	 * coming.  Where it takes long it looks at *cancelled, and ends early, as after an error but
	 * without one.
	 */
	void		(*prepare) (MtpBatchApply *apply, uint32 entries);

	/*
	 * Finds where tasks end.  samples: nsamples entries of the batch in order (narrow or wide, as
	 * the order's narrow says; the other array is NULL).  Writes at most nsamples boundaries,
	 * ascending, into bounds: a task takes the entries up to and including its boundary.  Wide
	 * boundaries point to palloc'd tuples.  Returns how many; 0 makes one task of it all.
	 */
	int			(*cut) (Relation index, MtpOrder *order, int nsamples,
						const MtpNarrow *narrow, const MtpWide *wide,
						MtpNarrow *narrow_bounds, MtpWide *wide_bounds);

	/*
	 * Applies one step: takes at least one entry from the stream, and advances *progress inside
	 * the critical section that puts entries into pages (MtpChange).  May raise; entries taken but
	 * not counted are taken again by whoever repeats the task.
	 */
	void		(*step) (MtpBatchApply *apply);
} MtpBatchOps;

/* Registers the interface of an index AM; only from _PG_init. */
extern void mtp_batch_register(const MtpBatchOps *ops);

/*
 * aminsert's question: has the entry been queued?  If false, the caller inserts it at once.
 * The narrow form is for indexes whose entries can be narrow, the other takes a formed tuple (which
 * is copied) whose size the caller has checked.  arrival: what it knows of the entry's row.
 */
extern bool mtp_batch_enqueue_narrow(Relation index, Relation heap, uint8 code, Datum value,
									 bool isnull, ItemPointer tid, IndexUniqueCheck check,
									 MtpArrival arrival);
extern bool mtp_batch_enqueue_wide(Relation index, Relation heap, IndexTuple itup,
								   IndexUniqueCheck check, MtpArrival arrival);

/*
 * Barrier before the backend's own scan of an index: applies its queued entries unless the snapshot
 * can't see them.  Cheap when nothing is queued.
 */
extern uint64 mtp_batch_pending;	/* entries this backend has queued and not drained, all indexes */
extern void mtp_batch_flush_before_scan(Relation index, Snapshot snapshot);

static inline void
mtp_batch_before_scan(Relation index, Snapshot snapshot)
{
	if (unlikely(mtp_batch_pending > 0))
		mtp_batch_flush_before_scan(index, snapshot);
}

/*
 * Counts pages of an index that were split one at a time, outside of prepare, and the entries that
 * this moved.
 */
extern void mtp_batch_count_overflow(Relation index, uint32 splits, uint32 moved);

/* ambulkdelete's first act: waits for steps of others under way on this index. */
extern void mtp_batch_vacuum_fence(Relation index);

/*
 * The table AM's announcements: a multi_insert of ntuples rows of command cid is coming; bulk insert
 * is over.
 */
extern void mtp_batch_announce(Relation rel, int ntuples, CommandId cid);
extern void mtp_batch_finish_bulk(Relation rel);

/* Its share of _PG_init. */
extern void mtp_batch_init(void);

#endif							/* MTP_BATCH_H */
