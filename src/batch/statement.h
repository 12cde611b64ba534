/*
 * statement.h
 *	  A backend's statements under way, and the queues they fill.  Nothing here is shared.
 */
#ifndef MTP_FRAME_H
#define MTP_FRAME_H

#include "batch/shared.h"

/* The entries of one index that one statement queued in one subtransaction. */
typedef struct MtpQueue
{
	struct MtpQueue *next;
	struct MtpStatement *frame;
	SubTransactionId subxid;
	Oid			indexid;
	Oid			heapid;
	bool		narrow;
	bool		worker_ok;
	bool		used;			/* something was queued */
	MtpArrival	arrival;		/* … and the last of these that some of it are */
	uint32		rows;			/* that have come, those that went in at once too */
	uint64		pending;		/* entries queued and not drained */
	uint32		filled;			/* … of these, in the batch that is being filled */
	int			at_once;		/* rows to be inserted before it queues, at first or again */
	MtpOrder   *order;			/* wide entries only */
	MtpLocator	locator;
	MtpBatch   *batch;			/* being filled, or NULL; another load may take its runs (share.c) */
	MtpRun	   *run;			/* … the run that is being filled, in batch, or NULL */
} MtpQueue;

#define MTP_QUEUE_PLACES 6
#define MTP_MAX_FORCED	16

/* A statement that may queue: lives on the stack of the hook that runs it. */
typedef struct MtpStatement
{
	struct MtpStatement *outer;
	uint64		serial;			/* never used again, by any backend */
	CommandId	cid;			/* no row of the statement is older */
	bool		frozen;			/* any snapshot may see its rows */
	bool		direct;			/* everything goes in at once */
	bool		replication;	/* opened by a multi_insert of logical replication … */
	SubTransactionId subxid;	/* … in this subtransaction */
	int			forced;			/* times that a barrier within it drained it */
	MemoryContext cxt;			/* what the frame itself has no room for, or NULL */
	MtpQueue   *queues;
	struct queues_hash *by_index;	/* the same, where they are many; or NULL */
	Oid			last_heap;		/* whose row came last */
	Oid			bulk_heap;		/* whose bulk insert was announced last … */
	int			bulk_rows;		/* … and of how many rows */
	List	   *announced;		/* of replication: tables with a bulk insert under way */
	uint32		at_once;		/* 1 + rows to be inserted before anything is queued, or 0 … */
	Oid			counted_heap;	/* … and the row that was counted last */
	ItemPointerData counted_tid;
	int			nqueues;
	MtpQueue	places[MTP_QUEUE_PLACES];	/* the first queues: OLTP needs no allocation */
} MtpStatement;

extern MtpStatement *mtp_batch_statement;	/* innermost, or NULL */
extern MtpLoad *mtp_my_load;	/* NULL until this backend queued something */

/* frame.c: the memory context that lives as long as the frame */
extern MemoryContext mtp_batch_statement_context(MtpStatement *f);

/* queue.c */
extern void mtp_batch_queue_submit(MtpQueue *q);
extern void mtp_batch_queue_unlock(MtpQueue *q);
extern bool mtp_batch_queue_closed(void);	/* frame.c: may nothing be queued just now? */

/* drain.c */

/*
 * Applies what matches: of a frame (serial 0: any), of an index (InvalidOid: any), of a
 * subtransaction and its children (0: any).  Runs units itself, waits for workers; interruptible.
 */
extern void mtp_batch_drain(uint64 serial, Oid indexid, SubTransactionId subxid);

/* Runs one ready unit of this backend's batches, or waits for a change; false if it has none. */
extern bool mtp_batch_drain_some(void);

/* The same of the batches of one statement and index. */
extern bool mtp_batch_drain_some_of(uint64 serial, Oid indexid);

/* Is this backend inside a unit of its own? */
extern bool mtp_batch_drain_busy(void);

/* Waits until no worker is on the statement's list. */
extern void mtp_batch_drain_detach(uint64 serial);

/* Marks cancelled, frees what nobody works on; never waits, never raises. */
extern void mtp_batch_cancel(uint64 serial, SubTransactionId subxid);
extern MtpLoad *mtp_batch_load_join(void);

/* Adds workers' buffer and WAL usage to this backend's counters. */
extern void mtp_batch_load_take_usage(void);

#endif							/* MTP_FRAME_H */
