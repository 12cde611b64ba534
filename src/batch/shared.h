/*
 * shared.h
 *	  The batch engine's shapes in shared memory, and what its files offer each other.
 *
 * The main shared memory segment has the same address in every process, so its pointers are plain
 * ones.  mtp_batch_lock guards every field here unless a comment says otherwise.  A process holds
 * it for a few instructions, never over anything that waits or raises.
 */
#ifndef MTP_BATCH_SHARED_H
#define MTP_BATCH_SHARED_H

#include "core/core.h"

#include "batch/batch.h"
#include "batch/stat.h"
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
#define MTP_FEW_TASKS		4	/* … of a small one */

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
 * A run: entries in one block of memory, in the order of their arrival and then sorted.  Narrow
 * entries begin at the block's start.  Of wide ones the tuples begin at the start, and the MtpWide
 * array grows downward from the end.
 */
typedef struct MtpRun
{
	char	   *mem;
	uint8		order;			/* block size */
	MtpUnitState state;			/* of its sorting */
	uint32		n;				/* entries */
	uint32		used;			/* wide: bytes of tuples */
	uint64		least;			/* wide: bounds of its TIDs, once it is sorted */
	uint64		most;
} MtpRun;

#define MTP_RUN_BYTES(run)	((Size) MTP_BLOCK_SIZE << (run)->order)
#define MTP_RUN_NARROW(run) ((MtpNarrow *) (run)->mem)
#define MTP_RUN_WIDE(run)	((MtpWide *) ((run)->mem + MTP_RUN_BYTES(run)) - (run)->n)

typedef enum MtpPhase
{
	MTP_FILLING,				/* its owner appends; full runs may be sorted, and taken */
	MTP_SORTING,				/* submitted: all runs may be sorted; then a process cuts it */
	MTP_APPLYING,				/* tasks may be claimed */
	MTP_DONE					/* all entries are in the index */
} MtpPhase;

/* A task: a range of every run, merged. */
typedef struct MtpTask
{
	MtpUnitState state;
	bool		started;		/* a process worked on it before */
	bool		left;			/* its entries from progress on are its owner's */
	uint32		total;
	volatile uint32 progress;	/* entries in the index; written by the claimant alone */
	uint32		crc;			/* of its entries (assertion builds) */
} MtpTask;

/* What only a batch of more than MTP_FEW_RUNS runs has. */
typedef struct MtpManyRuns
{
	MtpRun		runs[MTP_MAX_RUNS - MTP_FEW_RUNS];

	uint32		bounds[MTP_MAX_TASKS + 1][MTP_MAX_RUNS];	/* see mtp_task_bounds */
} MtpManyRuns;

#define MTP_MANY_ORDER		3

StaticAssertDecl(sizeof(MtpManyRuns) <= MTP_BLOCK_SIZE << MTP_MANY_ORDER,
				 "the rest of a large batch is one block");

/* A batch: one statement's queued entries of one index, or a part of them. */
typedef struct MtpBatch
{
	dlist_node	node;			/* in one of its load's lists */
	struct MtpLoad *load;
	uint64		serial;			/* of the statement */
	SubTransactionId subxid;
	TransactionId xid;			/* of the rows; workers check that it runs */
	Oid			userid;			/* the user who inserted the rows, … */
	int			sec_context;	/* … and the security context */
	Oid			indexid;
	Oid			heapid;
	MtpLocator	locator;		/* the index's file when queued */
	bool		narrow;
	bool		worker_ok;		/* comparisons are built in and read no catalog */
	MtpAlone	owner_alone;	/* its owner alone applies it, and no other load takes it */
	MtpArrival	arrival;		/* as MtpBatchApply has it, of the runs so far */
	bool		own;			/* on the load's list own */
	bool		taken;			/* by another load; its owner fills it again when its runs are
								 * applied, … */
	bool		back;			/* … then on the load's list own */
	MtpPhase	phase;
	volatile bool cancelled;	/* never taken back */
	uint32		entries;
	uint64		bytes;			/* of its blocks */
	uint64		full;			/* … of its runs but the one that is being filled, if another
								 * load may take them */
	int			holders;		/* processes inside a unit */
	int			nruns;
	int			sorted;			/* runs done */
	bool		sharp;			/* prefixes are not first words any more (sharpen.c) */
	bool		exact;			/* equal prefixes: equal keys, and TIDs ascend from run to run */
	bool		prepared;		/* the index is; the claimant of the cut writes it and announced */
	uint32		announced;		/* entries that the index has been told of */
	MtpUnitState cut_state;
	MtpRun		filling;		/* its owner's alone; mem is NULL if there is none */
	MtpRun		few[MTP_FEW_RUNS];	/* the first of the others: see mtp_run */
	uint32		bounds[MTP_FEW_TASKS + 1][MTP_FEW_RUNS];	/* of tasks, while there is no … */
	MtpManyRuns *many;			/* the rest of the runs, once there are any */
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

/* Where tasks end: task t has the entries bounds(t)[r] .. bounds(t + 1)[r] - 1 of run r. */
static inline uint32 *
mtp_task_bounds(MtpBatch *b, int task)
{
	return b->many ? b->many->bounds[task] : b->bounds[task];
}

/* Indexes of a load that workers have refused, the last ones */
#define MTP_REFUSED			8

/* How far a load's outermost statement is. */
#define MTP_PROGRESS_INDEXES 32

typedef struct MtpIndexProgress
{
	Oid			indexid;
	Oid			heapid;
	uint64		queued;			/* entries, of full runs */
} MtpIndexProgress;

typedef struct MtpProgress
{
	uint64		serial;			/* of the statement; 0: it queues nothing, and is not shown */
	Oid			heapid;			/* the table that it queued for first */
	bool		ending;			/* no more rows come */
	uint64		rows;
	uint64		queued;			/* entries, of all indexes … */
	int			nindexes;
	MtpIndexProgress indexes[MTP_PROGRESS_INDEXES]; /* … and of the first ones */
} MtpProgress;

/* A backend that queues, by backend id. */
typedef struct MtpLoad
{
	int			pid;			/* 0: unused */
	Oid			dbid;
	Oid			roleid;			/* the role that loads, for the SQL views */
	dlist_head	batches;
	dlist_head	own;			/* small batches where there are many: no worker looks here, and
								 * submitted ones come first */
	uint64		bytes;			/* memory held */
	uint64		full;			/* … of this, full runs of batches that are being filled */
	uint64		underway;		/* … and full runs of submitted ones */
	TimestampTz seen;			/* when it last took a run, or looked for a unit */
	bool		wants;			/* it has found no memory since; only its owner writes this */
	uint64		served;			/* for ageing: when a worker last came, in ticks */
	uint64		refused_serial; /* the statement whose indexes these are */
	Oid			refused[MTP_REFUSED];
	uint32		nrefused;		/* ever; the last MTP_REFUSED of them are kept */
	BufferUsage bufusage;		/* of workers; the owner takes it over */
	WalUsage	walusage;
	uint64		applied_batches;
	uint64		waits;			/* its owner's */
	pg_atomic_uint64 applied[2];	/* entries, by the owner and by workers */
	MtpProgress progress;
	ConditionVariable cv;		/* something of this load has changed */
} MtpLoad;

/* What a worker does for a load: one per slot of the pool of workers, under mtp_batch_lock. */
typedef struct MtpServing
{
	MtpLoad    *load;			/* on whose list it is, or NULL */
	Oid			dbid;			/* the worker's database since it was first on a list */
	uint64		serial;			/* the statement of the load */
	int			owner_pid;
	Oid			roleid;			/* the owner's role */
	Oid			indexid;
	int			task;			/* number of the run or task it is at, or -1 */
	const char *phase;			/* static string */

	/* Put into indexes since the worker's start; atomic, no lock. */
	pg_atomic_uint64 entries;

	/*
	 * The step under way: odd while a step is registered; each registration and its end adds one.
	 * Atomic, no lock.  The worker writes indexid before the first registration on that index.
	 */
	pg_atomic_uint64 step;
} MtpServing;

typedef struct MtpBatchShared
{
	/* memory.c, under mtp_batch_memory_lock */
	char	   *area;
	int			nblocks;
	int			free_blocks;
	dlist_head	free[MTP_MAX_ORDER + 1];	/* free blocks, by their order */

	uint64		ticks;
	int			max_loads;
	int			wanting;		/* loads that want memory */

	MtpServing	serving[MTP_MAX_WORKERS];
	MtpLoad		loads[FLEXIBLE_ARRAY_MEMBER];
} MtpBatchShared;

extern MtpBatchShared *mtp_batch_shared;
extern LWLock *mtp_batch_lock;
extern LWLock *mtp_batch_memory_lock;

/* ---------- shmem.c: settings ---------- */

extern bool mtp_batching;
extern int	mtp_batch_memory;	/* kB */
extern int	mtp_batch_size;		/* kB */
extern int	mtp_batch_min_rows;

/* ---------- view.c ---------- */

/* True if the user may see rows of loads of all roles. */
extern bool mtp_batch_sees_all(void);

/* A name, for a row; null if the database is not there any more. */
extern Datum mtp_batch_database_name(Oid dbid, bool *isnull);

/* ---------- memory.c ---------- */

extern Size mtp_batch_memory_size(void);
extern void mtp_batch_memory_init(void);

/* Both raise nothing.  The first returns NULL if there is no block of this order. */
extern char *mtp_batch_memory_alloc(int order);
extern void mtp_batch_memory_free(char *block, int order);

/* ---------- units.c ---------- */

typedef struct MtpUnit
{
	MtpBatch   *batch;
	enum
	{
		MTP_UNIT_SORT, MTP_UNIT_CUT, MTP_UNIT_APPLY,
		MTP_UNIT_ALL			/* all of a batch on its load's list own */
	}			kind;
	int			at;				/* run or task */
	bool		taken_over;		/* a process has begun it before */
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

extern const MtpBatchOps *mtp_batch_ops_of(Relation index);

/*
 * Under mtp_batch_lock: finds a unit of the batch that is ready, for a worker only if workers may
 * run it.  Sets *unit, and returns the unit's state; NULL if there is none.
 */
extern MtpUnitState *mtp_batch_unit_ready(MtpBatch *batch, bool worker, MtpUnit *unit);

/* The same, and claims the unit.  The claimant must finish it or give it back (invariant E3). */
extern bool mtp_batch_unit_claim(MtpBatch *batch, bool worker, MtpUnit *unit);

/* Runs a claimed unit.  It may raise; the caller then gives the unit back. */
extern void mtp_batch_unit_run(MtpRunner *runner, MtpUnit *unit);

/*
 * The claimant leaves the batch: the unit is done, or may be claimed again (after a worker's
 * failure by the owner alone).  Both take mtp_batch_lock, wake the owner, free a cancelled batch
 * that nobody holds, and clear unit->batch.  Only the first may raise, after that.
 */
extern void mtp_batch_unit_finish(MtpUnit *unit);
extern void mtp_batch_unit_give_back(MtpUnit *unit, bool worker_failed);

/* Under mtp_batch_lock: from now on nothing is added to the batch. */
extern void mtp_batch_submit(MtpBatch *batch, TimestampTz now);

/* Under mtp_batch_lock: frees a batch that is off its load's list. */
extern void mtp_batch_free(MtpBatch *batch);

/* ---------- cut.c, apply.c: what units.c calls to run a unit ---------- */

/* Lets the index get ready for the batch, once; the caller has claimed the cut, or all. */
extern void mtp_batch_prepare(MtpRunner *runner, MtpUnit *unit);

/*
 * Makes the prefixes of a sorted batch tell more of the order; sets sharp and exact.  It may be
 * repeated.  Raises only before it changes anything.
 */
extern void mtp_batch_sharpen(MtpOrder *order, MtpBatch *batch);

/* The same for a batch whose order comparisons alone tell: prefixes become ranks of the keys. */
extern void mtp_batch_rank(MtpOrder *order, MtpBatch *batch);

/* True if the TIDs of each run are above those of the runs before it. */
extern bool mtp_batch_tids_ascend(MtpBatch *batch);

/* Cuts the sorted batch into tasks that never touch the same leaf.  The caller has claimed it. */
extern void mtp_batch_cut(MtpRunner *runner, MtpBatch *batch);

/* Applies a claimed task behind its progress; stops early if the load has failed. */
extern void mtp_batch_apply(MtpRunner *runner, MtpUnit *unit);

/* A checksum of a task's entries, as cut and as applied; 0 but in assertion builds. */
extern uint32 mtp_batch_task_crc(MtpBatch *batch, int task);

/*
 * Brackets around what a process does of a task, or to prepare for a batch: the index's counters
 * get it at the end.  Where an error or the process's end comes between, mtp_batch_unit_give_back
 * ends it.  The first returns what the index AM is called with, and may raise; the second does
 * nothing if none is open, and raises nothing.
 */
extern MtpBatchApply *mtp_batch_account_begin(MtpRunner *runner, bool task, uint32 progress);
extern void mtp_batch_account_end(MtpUnit *unit);

/* ---------- fence.c ---------- */

/* Begins a step of a task; a worker's is registered.  If false, the step must touch no page. */
extern bool mtp_batch_step_begin(MtpRunner *runner, MtpBatch *batch);

/* Ends a worker's step, if one is under way; worker may be NULL.  Raises nothing. */
extern void mtp_batch_step_end(MtpServing *worker);

/* ---------- share.c: each takes mtp_batch_lock ---------- */

/* How many bytes the load may still take: where others want some, up to half of the memory. */
extern Size mtp_batch_share_room(MtpLoad *load);

/*
 * There is no memory for the load: it wants some from now on.  Has the runs of another load applied
 * that holds more than its share, or has fallen silent.
 */
extern void mtp_batch_share_want(MtpLoad *load);

/* The load stops wanting memory: it got some, or has nothing to queue. */
extern void mtp_batch_share_content(MtpLoad *load);

/* ---------- serve.c ---------- */

/*
 * Calls a worker if there is work for one in the load.  If there is none to be had, that is no
 * error; the owner does the work.  The caller holds no lock.
 */
extern void mtp_batch_serve_wanted(MtpLoad *load);
extern void mtp_batch_serve_init(void);

/* ---------- view.c, statement.c ---------- */

extern void mtp_batch_view_init(void);
extern void mtp_batch_statement_init(void);

#endif							/* MTP_BATCH_SHARED_H */
