/*
 * shared.h
 *	  The batch engine's shapes in shared memory, and what its files offer each other.
 *
 * The main shared memory segment has the same address in every process, so pointers into it are
 * kept as such.  One lock, MtpBatchLock, guards every field here that is not said to be otherwise;
 * it is held for a few instructions, never over anything that waits or raises.
 */
#ifndef MTP_BATCH_SHARED_H
#define MTP_BATCH_SHARED_H

#include "core/core.h"

#include "batch/batch.h"
#include "executor/instrument.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "worker/worker.h"

#define MTP_MAX_RUNS		68	/* of a batch */
#define MTP_FEW_RUNS		6	/* … of a small one */
#define MTP_MAX_TASKS		16	/* of a batch */
#define MTP_MAX_INDEXES		1024	/* with statistics */

/* Memory: blocks of 1 kB << order */
#define MTP_BLOCK_SIZE		1024
#define MTP_MAX_ORDER		10

typedef enum MtpUnitState
{
	MTP_UNIT_READY,
	MTP_UNIT_CLAIMED,
	MTP_UNIT_DONE
} MtpUnitState;

/*
 * A run: entries in one block of memory, in the order of their arrival, then sorted.  Narrow ones
 * from the block's start; of wide ones the tuples from the start and the MtpWide array, growing
 * downward, from the end.
 */
typedef struct MtpRun
{
	char	   *mem;
	uint8		order;			/* block size */
	MtpUnitState state;			/* of its sorting */
	uint32		n;				/* entries */
	uint32		used;			/* wide: bytes of tuples */
} MtpRun;

#define MTP_RUN_BYTES(run)	((Size) MTP_BLOCK_SIZE << (run)->order)
#define MTP_RUN_NARROW(run) ((MtpNarrow *) (run)->mem)
#define MTP_RUN_WIDE(run)	((MtpWide *) ((run)->mem + MTP_RUN_BYTES(run)) - (run)->n)

typedef enum MtpPhase
{
	MTP_FILLING,				/* its owner appends; full runs may be sorted, and taken (share.c) */
	MTP_SORTING,				/* submitted: all runs may be sorted; then somebody finds the tasks */
	MTP_APPLYING,				/* tasks may be claimed */
	MTP_DONE					/* all entries are in the index */
} MtpPhase;

/* A task: a range of every run, merged. */
typedef struct MtpTask
{
	MtpUnitState state;
	bool		started;		/* somebody worked on it before */
	uint32		total;
	volatile uint32 progress;	/* entries in the index; written by the claimant alone */
	uint32		crc;			/* of its entries (assertion builds) */
} MtpTask;

/* What only a batch of more than MTP_FEW_RUNS runs has; its small ones make one task of all. */
typedef struct MtpManyRuns
{
	MtpRun		runs[MTP_MAX_RUNS - MTP_FEW_RUNS];

	/* Task t has the entries bounds[t][r] .. bounds[t + 1][r] - 1 of run r. */
	uint32		bounds[MTP_MAX_TASKS + 1][MTP_MAX_RUNS];
} MtpManyRuns;

#define MTP_MANY_ORDER		3

StaticAssertDecl(sizeof(MtpManyRuns) <= MTP_BLOCK_SIZE << MTP_MANY_ORDER,
				 "the rest of a large batch is one block");

/* A batch: one statement's queued entries of one index, or a part of them. */
typedef struct MtpBatch
{
	dlist_node	node;			/* in one of its load's lists */
	struct MtpLoad *load;
	uint64		serial;			/* of the frame */
	SubTransactionId subxid;
	TransactionId xid;			/* of the rows; workers check that it runs */
	Oid			userid;			/* who inserted them, … */
	int			sec_context;	/* … and how */
	Oid			indexid;
	Oid			heapid;
	MtpLocator	locator;		/* the index's file when queued */
	bool		narrow;
	bool		worker_ok;		/* comparisons are built in and read no catalog */
	MtpArrival	arrival;		/* as MtpBatchApply has it, of the runs so far */
	bool		own;			/* on the list of those that no worker looks at */
	bool		taken;			/* by another load: its owner fills it again when its runs are
								 * applied, … */
	bool		back;			/* … on the list of those that no worker looks at */
	MtpPhase	phase;
	volatile bool cancelled;	/* never taken back */
	uint32		entries;
	uint64		bytes;			/* of its blocks */
	uint64		full;			/* … of its runs but the one that is being filled */
	int			holders;		/* processes inside a unit */
	int			nruns;
	int			sorted;			/* runs done */
	bool		prepared;		/* the index is; written by who has claimed the cut, as is
								 * announced */
	uint32		announced;		/* entries that the index has been told of */
	MtpUnitState cut_state;
	MtpRun		filling;		/* its owner's alone; mem is NULL if there is none */
	MtpRun		few[MTP_FEW_RUNS];	/* the first of the others: see mtp_run */
	MtpManyRuns *many;			/* … and the rest, once there are any */
	int			ntasks;
	int			done;			/* tasks done */
	MtpTask		tasks[MTP_MAX_TASKS];
	TimestampTz submitted;
} MtpBatch;

StaticAssertDecl(sizeof(MtpBatch) <= MTP_BLOCK_SIZE, "a batch's header is one block");

static inline MtpRun *
mtp_run(MtpBatch *b, int r)
{
	return r < MTP_FEW_RUNS ? &b->few[r] : &b->many->runs[r - MTP_FEW_RUNS];
}

/* Where a task begins and ends in a run. */
static inline uint32
mtp_task_from(MtpBatch *b, int task, int r)
{
	return b->many ? b->many->bounds[task][r] : 0;
}

static inline uint32
mtp_task_to(MtpBatch *b, int task, int r)
{
	return b->many ? b->many->bounds[task + 1][r] : mtp_run(b, r)->n;
}

/* Indexes of a load that workers have refused, the last ones */
#define MTP_REFUSED			8

/* One per backend, by backend id. */
typedef struct MtpLoad
{
	int			pid;			/* 0: unused */
	Oid			dbid;
	Oid			roleid;			/* who loads, for the views */
	dlist_head	batches;
	dlist_head	own;			/* small ones, of which there are many: submitted ones come first */
	uint64		bytes;			/* memory held */
	uint64		full;			/* of this, full runs of batches that are being filled … */
	uint64		underway;		/* … and of those that are not any more */
	TimestampTz seen;			/* when it last took a run, or looked for a unit */
	bool		wants;			/* … and there was none for it since; written by its owner alone */
	uint64		served;			/* for ageing: when a worker last came, in ticks */
	uint64		refused_serial; /* the statement whose indexes these are */
	Oid			refused[MTP_REFUSED];
	uint32		nrefused;		/* ever; the last MTP_REFUSED of them are kept */
	BufferUsage bufusage;		/* of workers, to be taken over by the owner */
	WalUsage	walusage;
	ConditionVariable cv;		/* something of this load has changed */
} MtpLoad;

/* Under mtp_batch_lock: nothing is added to the batch any more. */
static inline void
mtp_batch_submit(MtpBatch *b, TimestampTz now)
{
	b->phase = MTP_SORTING;
	b->submitted = now;
	b->load->full -= b->full;
	b->load->underway += b->full;
}

/* What a worker does for a load: one per slot of the pool of workers, under mtp_batch_lock. */
typedef struct MtpServing
{
	MtpLoad    *load;			/* on whose list it is, or NULL */
	Oid			dbid;			/* the worker's database since it was first on a list */
	uint64		serial;			/* for which statement of the load */
	int			owner_pid;
	Oid			roleid;			/* … and whose */
	Oid			indexid;
	int			task;			/* number of the run or task it is at, or -1 */
	const char *phase;			/* static string */
	uint64		entries;		/* put into indexes since the worker's start; under mtp_stat_lock */

	/*
	 * The step under way: odd while a step is registered, grown by each.  Atomic, no lock; the
	 * index is indexid above, written before the first registration on it.
	 */
	pg_atomic_uint64 step;
} MtpServing;

/* Why a worker's task went back to its owner, or was not taken. */
typedef enum MtpFailure
{
	MTP_FAIL_LOCK,				/* locks not to be had */
	MTP_FAIL_FILE,				/* another file than the owner's, or invisible */
	MTP_FAIL_ERROR,				/* an error while it ran */
	MTP_FAIL_EXIT,				/* the worker was terminated */
	MTP_FAILURES
} MtpFailure;

/* Statistics of an index, in a shared hash table, under mtp_stat_lock. */
typedef struct MtpIndexStatKey
{
	Oid			dbid;
	Oid			indexid;
} MtpIndexStatKey;

typedef struct MtpIndexStat
{
	MtpIndexStatKey key;
	dlist_node	node;			/* in stat_order */
	uint64		batches;
	uint64		entries;
	uint64		by_workers;		/* entries */
	uint64		by_backends;
	uint64		tasks_workers;
	uint64		tasks_backends;
	uint64		taken_over;
	uint64		failed[MTP_FAILURES];
	uint64		leaves;
	uint64		splits[17];
	uint64		wal_bytes;
	uint64		waits;
	uint64		ahead;			/* pages split by prepare */
	uint64		overflow;		/* … one at a time, outside of batches */
	uint64		moved;			/* entries, by either */
} MtpIndexStat;

typedef struct MtpBatchShared
{
	/* memory.c, under MtpMemoryLock */
	char	   *area;
	int			nblocks;
	int			free_blocks;
	int			free_head[MTP_MAX_ORDER + 1];

	uint64		ticks;
	int			max_loads;
	int			wanting;		/* loads that want memory */

	/* stat.c, under mtp_stat_lock */
	dlist_head	stat_order;		/* what was asked for last comes first */
	uint64		evicted;		/* indexes that lost their counters to others */

	MtpServing	serving[MTP_MAX_WORKERS];
	MtpLoad		loads[FLEXIBLE_ARRAY_MEMBER];
} MtpBatchShared;

extern MtpBatchShared *mtp_shared;
extern LWLock *mtp_batch_lock;
extern LWLock *mtp_memory_lock;
extern LWLock *mtp_stat_lock;
extern HTAB *mtp_stats;

/* settings.c */
extern bool mtp_batching;
extern int	mtp_batch_memory;	/* kB */
extern int	mtp_batch_size;		/* kB */
extern int	mtp_batch_min_rows;
extern void mtp_batch_settings_init(void);

/* memory.c */
extern Size mtp_batch_memory_size(void);
extern void mtp_batch_memory_init(void);

/* NULL if there is none; never raises. */
extern char *mtp_batch_memory_alloc(int order);
extern void mtp_batch_memory_free(char *block, int order);

/* units.c: claiming and running the parts of a batch */
typedef struct MtpUnit
{
	MtpBatch   *batch;
	enum
	{
		MTP_UNIT_SORT, MTP_UNIT_CUT, MTP_UNIT_APPLY,
		MTP_UNIT_ALL			/* all of a batch on its load's own list */
	}			kind;
	int			at;				/* run or task */
	bool		taken_over;
} MtpUnit;

/* What a process needs to run units of one index. */
typedef struct MtpRunner
{
	Relation	index;
	Relation	heap;
	const MtpBatchOps *ops;
	MtpOrder   *order;
	MtpServing *worker;			/* NULL in the owner */
} MtpRunner;

/* Under MtpBatchLock: claims a unit of the batch, if one is ready (for a worker, to workers). */
extern bool mtp_batch_unit_claim(MtpBatch *batch, bool worker, MtpUnit *unit);

/* Runs it; may raise, then mtp_batch_unit_give_back is to be called.  False: stopped, cancelled. */
extern bool mtp_batch_unit_run(MtpRunner *runner, MtpUnit *unit);

/*
 * Both take MtpBatchLock; they wake the owner and free a cancelled batch that nobody holds.  The first
 * clears unit->batch.
 */
extern void mtp_batch_unit_finish(MtpUnit *unit);
extern void mtp_batch_unit_give_back(MtpUnit *unit, bool worker_failed);

/* Under MtpBatchLock: frees memory and forgets the batch (already off its load's list). */
extern void mtp_batch_free(MtpBatch *batch);

/* The same of its runs alone, but the one that its owner fills: the batch begins anew. */
extern void mtp_batch_begin_anew(MtpBatch *batch);
extern const MtpBatchOps *mtp_batch_ops_of(Relation index);

/* share.c: what loads leave to each other; each takes mtp_batch_lock */

/* So many bytes may the load still take: where others want some, no more than half of the memory is for one load. */
extern Size mtp_batch_share_room(MtpLoad *load);

/*
 * There is no memory for the load: it wants some from now on, and has the runs of others applied who hold more than their
 * share, or have fallen silent.
 */
extern void mtp_batch_share_want(MtpLoad *load);

/* It wants none any more: it got some, or has nothing to queue. */
extern void mtp_batch_share_content(MtpLoad *load);

/* serve.c: what workers do for loads */

/*
 * There may be work for workers in the load: calls one.  None to be had is no error; the owner does the
 * work.  Not to be called under a lock.
 */
extern void mtp_batch_serve_wanted(MtpLoad *load);
extern void mtp_batch_serve_init(void);

/* Ends the registration of a worker step, if one is under way; raises nothing. */
extern void mtp_batch_step_end(MtpServing *worker);

/* stat.c */

/*
 * The index's counters, made if there are none yet.  Under mtp_stat_lock, exclusively; raises
 * nothing.  Where the table is full, the index whose counters were not asked for longest loses them.
 */
extern MtpIndexStat *mtp_batch_stat_of(Oid dbid, Oid indexid);

/* Forgets it; under the lock as well. */
extern void mtp_batch_stat_forget(MtpIndexStat *st);
extern void mtp_batch_stat_init(void);
extern Size mtp_batch_stat_size(void);

/* One of this database's indexes; both take mtp_stat_lock. */
extern void mtp_batch_stat_count_wait(Oid indexid);
extern void mtp_batch_stat_count_failure(Oid indexid, MtpFailure why);
extern void mtp_batch_stat_count_batch(Oid indexid);

/* view.c */
extern void mtp_batch_view_init(void);

/* fence.c has no more than mtp_batch_vacuum_fence */

/* frame.c */
extern void mtp_batch_statement_init(void);

#endif							/* MTP_BATCH_SHARED_H */
