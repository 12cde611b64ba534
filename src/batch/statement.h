/*
 * statement.h
 *	  A backend's statements under way, and the queues that they fill.  Nothing here is shared.
 */
#ifndef MTP_STATEMENT_H
#define MTP_STATEMENT_H

#include "batch/shared.h"
#include "utils/resowner.h"

/* The entries of one index that one statement queued in one subtransaction. */
typedef struct MtpQueue
{
	struct MtpQueue *next;
	struct MtpStatement *statement;
	SubTransactionId subxid;
	Oid			indexid;
	Oid			heapid;
	bool		narrow;
	bool		worker_ok;
	MtpAlone	owner_alone;	/* as MtpBatchOps says */
	bool		redirected;		/* as MtpBatchOps says */
	bool		unique;			/* entries are checked when they go in */
	bool		refused;		/* none is queued: they must be checked with their row */
	bool		used;			/* something was queued */
	Relation	index;			/* kept open while it has entries, or NULL … */
	ResourceOwner keeper;		/* … by this one */
	MtpArrival	arrival;		/* the greatest of its entries */
	uint32		rows;			/* that have come, those that went in at once too */
	uint64		pending;		/* entries queued and not drained */
	uint32		filled;			/* … of these, in the batch that is being filled */
	int			at_once;		/* rows to be inserted before it queues, at first or again */
	int			forced;			/* flushes for the sake of scans of its index and the like */
	int			submitted;		/* batches */
	MtpOrder   *order;			/* wide entries only */
	MtpLocator	locator;
	MtpBatch   *batch;			/* being filled, or NULL; another load may take its runs */
	MtpRun	   *run;			/* the run of batch that is being filled, or NULL */
} MtpQueue;

#define MTP_QUEUE_PLACES 6
#define MTP_MANY_QUEUES	(4 * MTP_QUEUE_PLACES)	/* a statement with so many has a hash table */
#define MTP_MAX_FORCED	16		/* a statement, or a queue, that is flushed so often gives up */

/* A statement that may queue: lives on the stack of the hook that runs it. */
typedef struct MtpStatement
{
	struct MtpStatement *outer;
	uint64		serial;			/* never used again, by any backend */
	CommandId	cid;			/* no row of the statement is older */
	bool		frozen;			/* any snapshot may see its rows */
	bool		copies;			/* it is a COPY, which fires AFTER triggers before it is drained */
	bool		speculates;		/* it inserts rows that it may take back */
	bool		inserts;		/* it is a COPY or a plain INSERT: uniqueness may be checked when
								 * its entries go in */
	bool		replication;	/* opened by a multi_insert of logical replication */
	SubTransactionId subxid;	/* in which it began */
	SubTransactionId failed_subxid; /* of entries that an error has lost, or invalid … */
	ErrorData  *error;			/* … the error, or NULL if there was no memory for it … */
	Oid			error_userid;	/* … and the user who may see its details */
	int			lock_timeout;	/* the setting when it began */
	int			forced;			/* flushes of all its queues before its end */
	uint64		rows;			/* that have come, in statements within it too */
	MemoryContext cxt;			/* what the statement itself has no room for, or NULL */
	MtpQueue   *queues;
	struct queues_hash *by_index;	/* the same, where they are many; or NULL */
	Oid			last_heap;		/* the table of the last row */
	Oid			bulk_heap;		/* the table whose bulk insert was announced last … */
	int			bulk_rows;		/* … and of how many rows */
	List	   *announced;		/* of replication: tables with a bulk insert under way */
	Oid			told_heap;		/* the table that mtp_batch_rows_come was true for last … */
	struct heaps_hash *told;	/* … and all such tables, if there are several */
	bool		own_queue;		/* entries of our own indexes are queued whatever at_once says */
	uint32		at_once;		/* 1 + rows to be inserted before anything is queued, or 0 … */
	Oid			counted_heap;	/* … and the row of another AM's table that was counted last */
	ItemPointerData counted_tid;
	int			nqueues;
	int			nalone;			/* … whose entries their owner alone puts in */
	int			ninner;			/* … of subtransactions within the statement's own */
	MtpQueue	places[MTP_QUEUE_PLACES];	/* the first queues: OLTP needs no allocation */
} MtpStatement;

extern MtpStatement *mtp_batch_statement;	/* innermost, or NULL */
extern bool mtp_batch_ending;	/* the innermost is drained at its end */
extern MtpLoad *mtp_batch_my_load;	/* NULL until this backend queued something */

/* ---------- statement.c ---------- */

/* The memory context that lives as long as the statement. */
extern MemoryContext mtp_batch_statement_context(MtpStatement *s);

/* True if nothing may be queued just now. */
extern bool mtp_batch_queue_closed(void);

/* The statement under way that queued the batch, or NULL. */
extern MtpStatement *mtp_batch_statement_of(MtpBatch *b);

/*
 * In PG_CATCH: entries of the statement, queued by the user in the subtransaction, are lost by the
 * error.  It is raised again until the statement has ended, or the subtransaction (invariant E10).
 */
extern void mtp_batch_statement_fail(MtpStatement *s, SubTransactionId subxid, Oid userid);

/* Raises such an error of a statement under way again. */
extern void mtp_batch_statement_check(void);

/* ---------- queue.c, fill.c ---------- */

extern void mtp_batch_queue_unlock(MtpQueue *q);

/* A queue of the statement that has entries of the index; NULL if there is none. */
extern MtpQueue *mtp_batch_queue_pending(MtpStatement *s, Oid indexid);

/* Closes the index, if the queue keeps it open, once its entries are in. */
extern void mtp_batch_queue_let_go(MtpQueue *q);

/* Submits the queue's batch, if it has one. */
extern void mtp_batch_queue_submit(MtpQueue *q);

/* Sets q->run to a new run, perhaps of a new batch, with room for an entry of so many bytes; false
 * if there is no memory: then the entry goes in at once. */
extern bool mtp_batch_next_run(MtpQueue *q, Size need);

/* ---------- progress.c ---------- */

/*
 * Under mtp_batch_lock, exclusively: this backend has begun a batch; a run of so many entries has
 * become part of it; what is not in the index yet is thrown away.
 */
extern void mtp_batch_progress_begin(const MtpBatch *b);
extern void mtp_batch_progress_queued(const MtpBatch *b, uint32 n);
extern void mtp_batch_progress_discard(const MtpBatch *b);

/* The outermost statement gets no more rows; it is over, or the transaction. */
extern void mtp_batch_progress_ending(MtpStatement *s);
extern void mtp_batch_progress_end(void);

/* ---------- drain.c ---------- */

/* This backend's load, made at the first call. */
extern MtpLoad *mtp_batch_load_join(void);

/*
 * Applies what matches: of a statement (serial 0: any), of an index (InvalidOid: any), of a
 * subtransaction and its children (0: any).  Runs units itself, waits for workers; interruptible.
 */
extern void mtp_batch_drain(uint64 serial, Oid indexid, SubTransactionId subxid);

/* Runs one ready unit of matching submitted batches, or waits for a change; false if none match. */
extern bool mtp_batch_drain_step(uint64 serial, Oid indexid, SubTransactionId subxid);

/* True if this backend is inside a unit of its own. */
extern bool mtp_batch_drain_busy(void);

/* Waits until no worker is on the statement's list. */
extern void mtp_batch_drain_detach(uint64 serial);

/* Marks matching batches cancelled, and frees those that nobody works on; never waits or raises. */
extern void mtp_batch_cancel(uint64 serial, SubTransactionId subxid);

/* Adds workers' buffer and WAL usage to this backend's counters. */
extern void mtp_batch_load_take_usage(void);

#endif							/* MTP_STATEMENT_H */
