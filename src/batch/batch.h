/*
 * batch.h
 *	  The batch engine: what the rest of mtpower calls, and what an index AM provides.
 *
 * The engine knows no index AM.  It queues entries of a statement in shared memory, sorts them, and
 * cuts them by key range into tasks.  Background workers and the owning backend apply the tasks,
 * all before the statement ends.  README.md has the rules and why they hold.
 */
#ifndef MTP_BATCH_H
#define MTP_BATCH_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "batch/entry.h"
#include "utils/snapshot.h"

/*
 * What an index AM provides.  Callbacks run in a backend or in a worker, in a transaction, with the
 * index and its table open and locked.
 */
typedef struct MtpBatchStream MtpBatchStream;

/* What brings an entry into an index. */
typedef enum MtpArrival
{
	MTP_NEW_ROW,
	MTP_NEW_VERSION,			/* an UPDATE that sets columns of the key */
	MTP_SAME_KEY				/* an UPDATE that does not, so there is an older entry of the key */
} MtpArrival;

/* Why an index's owner puts an entry in by itself, one at a time. */
typedef enum MtpAlone
{
	MTP_NOT_ALONE,				/* it does not */
	MTP_ALONE_SETTING,			/* a setting wants it so */
	MTP_ALONE_SERIALIZABLE,		/* it may conflict with other transactions */
	MTP_ALONE_FORMAT,			/* the index has an older format */
	MTP_ALONE_KEY				/* its key must be the only one, and is there already, dead or
								 * alive */
} MtpAlone;

#define MTP_ALONE_REASONS	4

#define MTP_STEP_MEMORY		32	/* words */

typedef struct MtpBatchApply
{
	Relation	index;
	Relation	heap;
	MtpOrder   *order;
	MtpBatchStream *stream;		/* the task's entries in order, from its progress on */
	MtpArrival	arrival;		/* the greatest of the statement's entries of the index */
	volatile uint32 *progress;	/* entries of the task that are in the index; in prepare: those
								 * announced to it */
	const volatile bool *cancelled; /* the load has failed, so prepare may end early */
	MtpAlone	owner_alone;	/* as the op of this name said when the index was queued for */
	TransactionId xid;			/* of the rows, where a worker applies; else they are alive */
	uint64		memory[MTP_STEP_MEMORY];	/* the AM's, from step to step of the task; zeros at
											 * first */
	bool		over;			/* out: the rows' transaction has ended, the step put nothing in */
	bool		left;			/* out, in a worker: what comes is the owner's to put in */

	/* out, for the statistics */
	uint32		splits[17];		/* by K, [16]: more */
	uint32		leaves;			/* touched */
	uint32		ahead;			/* pages split by prepare, before the batch came */
	uint32		moved;			/* entries that such splits moved */
	uint32		postings;		/* posting lists made */
	uint32		alone[MTP_ALONE_REASONS];	/* entries put in one by one, by reason - 1 */
} MtpBatchApply;

typedef struct MtpBatchOps
{
	/* The engine knows the AM's indexes by this function in their routine. */
	ambuild_function ambuild;

	/*
	 * How entries are ordered, palloc'd in the current context.  An index whose order is narrow is
	 * fed with narrow entries.
	 */
	MtpOrder   *(*order) (Relation index);

	/* True if ordering or applying entries calls functions of the operator classes. */
	bool		compares;

	/*
	 * True if entries come here, and scans flush, by a routine that the AM has put in place of
	 * another AM's: a queue with entries then keeps the index's cache entry.
	 */
	bool		redirects;

	/*
	 * Whether only the backend that brought entries of the index puts them in; may be NULL.  It is
	 * called in that backend, once for each statement and index. Workers sort them.
	 */
	MtpAlone	(*owner_alone) (Relation index);

	/*
	 * Makes the index fit for so many more entries; may be NULL.  The engine calls it before it
	 * cuts a batch of any size; apply has no stream.  It puts no new entry in, so it need not
	 * register as a step (README.md).  It waits for no cleanup lock and for no transaction.
	 *
	 * It may raise.  Then the next process that cuts the batch calls it again.  *progress, which
	 * is zero at first, is what it left there, such as the number of entries that it has counted
	 * as coming.  If it takes long, it reads *cancelled, and ends early as after an error but
	 * without one.
	 */
	void		(*prepare) (MtpBatchApply *apply, uint32 entries);

	/*
	 * Finds where tasks end, and returns how many boundaries there are; 0 makes one task of all.
	 * May be NULL: then a batch is always one task.
	 *
	 * samples: nsamples entries of the batch in order, in the array that the order's narrow
	 * selects; the other array is NULL.  Writes at most nsamples boundaries, ascending, into
	 * bounds: a task takes the entries up to and including its boundary.  Wide boundaries point to
	 * palloc'd tuples.
	 */
	int			(*cut) (Relation index, MtpOrder *order, int nsamples,
						const MtpNarrow *narrow, const MtpWide *wide,
						MtpNarrow *narrow_bounds, MtpWide *wide_bounds);

	/*
	 * Applies one step: takes at least one entry from the stream, and advances *progress inside
	 * the critical section that puts entries into pages (MtpChange; invariant E5).  It may raise;
	 * the process that repeats the task then takes the entries again that are not counted.
	 *
	 * A worker's step may leave the task's next entry, and so the rest of the task, to the owner
	 * (left).  The owner's step may do what can't be repeated: it sets mtp_batch_once, and
	 * advances *progress before it puts an entry in; from then on an error is the end of the
	 * load's statement (invariant E10).  It may wait for other transactions then, and check
	 * uniqueness.
	 */
	void		(*step) (MtpBatchApply *apply);
} MtpBatchOps;

extern bool mtp_batch_once;		/* cleared by the engine when the step has returned */

/* True if some AM's interface serves the index: its entries may come in batches. */
extern bool mtp_batch_serves(Relation index);

/* Registers the interface of an index AM; only from _PG_init. */
extern void mtp_batch_register(const MtpBatchOps *ops);

/* True if an entry of a table of ours may be queued: if not, it need not be formed for that. */
extern bool mtp_batch_queues(Relation index, Relation heap, IndexUniqueCheck check);

/*
 * Queues an entry for aminsert.  If false, the caller inserts it at once.  The narrow form is for
 * indexes whose order is narrow.  The wide form copies a formed tuple, whose size the caller has
 * checked.  arrival: what the caller knows of the entry's row.
 */
extern bool mtp_batch_enqueue_narrow(Relation index, Relation heap, uint8 code, Datum value,
									 bool isnull, ItemPointer tid, IndexUniqueCheck check,
									 MtpArrival arrival);
extern bool mtp_batch_enqueue_wide(Relation index, Relation heap, IndexTuple itup,
								   IndexUniqueCheck check, MtpArrival arrival);

/*
 * The table's row was inserted last, speculatively, and is about to be taken back: its entries
 * leave the queues.
 */
extern void mtp_batch_take_back(Relation rel, const ItemPointerData *tid);

/*
 * Before the backend's own scan of an index: applies its queued entries unless the snapshot can't
 * see them.  Cheap when nothing is queued.
 */
extern uint64 mtp_batch_pending;	/* entries this backend has queued, not drained */
extern void mtp_batch_flush_before_scan(Relation index, Snapshot snapshot);

static inline void
mtp_batch_before_scan(Relation index, Snapshot snapshot)
{
	if (unlikely(mtp_batch_pending > 0))
		mtp_batch_flush_before_scan(index, snapshot);
}

/* What the engine has done for a backend: batches applied, their entries, and waits for workers. */
typedef struct MtpBatchUsage
{
	uint64		batches;
	uint64		entries[2];		/* by the backend, by workers */
	uint64		waits;
} MtpBatchUsage;

/* … for this one, since it queued an entry for the first time. */
extern void mtp_batch_usage(MtpBatchUsage *usage);

/* Counts pages of an index that split one at a time, outside of prepare, and the entries moved. */
extern void mtp_batch_count_overflow(Relation index, uint32 splits, uint32 moved);

/*
 * Applies what statements around this one, or subtransactions around this one, have queued for a
 * unique index (InvalidOid: any) of a table: before an entry of the index is queued or inserted,
 * and before a row of the table is deleted or gets a new version.  So a conflict with one of their
 * rows is found where core finds it, which may be where a handler expects it, and before the row
 * is gone.
 */
extern void mtp_batch_flush_unique(Oid heapid, Oid indexid);

static inline void
mtp_batch_before_unique(Oid heapid, Oid indexid)
{
	if (unlikely(mtp_batch_pending > 0))
		mtp_batch_flush_unique(heapid, indexid);
}

/* ambulkdelete's first act: waits for steps of others under way on this index. */
extern void mtp_batch_vacuum_fence(Relation index);

/*
 * The table AM's announcements: a multi_insert of ntuples rows of command cid is coming; bulk
 * insert is over.
 */
extern void mtp_batch_announce(Relation rel, int ntuples, CommandId cid);

/*
 * The table AM tells that n rows have come, whose index entries come next.  True if these may be
 * queued, once for each table and statement.
 */
extern bool mtp_batch_rows_come(Relation rel, int n);
extern void mtp_batch_finish_bulk(Relation rel);

extern void mtp_batch_init(void);

#endif							/* MTP_BATCH_H */
