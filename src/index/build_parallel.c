/*
 * build_parallel.c
 *	  Scans and sorts for a build with parallel workers.
 *
 * Each process reads blocks of the table that no other one reads, into a spool of its own.  Workers
 * leave their sorted runs in files, which the leader takes into its own spool: what it then writes
 * is what a build without workers writes.  Without an order each puts its entries in.
 */
#include "index/build.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "storage/proc.h"
#include "storage/sharedfileset.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/snapmgr.h"
#include "core/inject.h"

#define KEY_SHARED	1
#define KEY_SCAN	2
#define KEY_QUERY	3

/* What a worker leaves.  The leader reads it when the worker has ended. */
typedef struct Worker
{
	double		heap_tuples;
	int64		ntuples;
	bool		broken_hot_chain;
	MtpSpoolRuns runs;
	BufferUsage buffer_usage;
	WalUsage	wal_usage;
} Worker;

typedef struct Shared
{
	Oid			heapid;
	Oid			indexid;
	bool		concurrent;
	Size		memory;			/* of each worker */
	uint8		code;			/* of the order: … */
	bool		paired;			/* … all processes must have the same */
	uint64		query_id;
	SharedFileSet files;
	Worker		workers[FLEXIBLE_ARRAY_MEMBER];
} Shared;

struct MtpParallelBuild
{
	ParallelContext *context;
	Shared	   *shared;
	ParallelTableScanDesc scan;
	Snapshot	snapshot;
	bool		leads;			/* the leader scans too */
};

/* A process's share of maintenance_work_mem. */
static Size
memory_share(int nprocesses)
{
	return Max((Size) maintenance_work_mem * 1024 / nprocesses, MTP_SPOOL_MEMORY);
}

/* Fills the shared memory, for which there is room, and which workers find there. */
static void
fill_shared(MtpParallelBuild *p, MtpIndexBuild *b, Relation heap, bool concurrent, Size size,
			Size scan_size)
{
	shm_toc    *toc = p->context->toc;
	int			nworkers = p->context->nworkers;

	p->shared = shm_toc_allocate(toc, size);
	memset(p->shared, 0, size);
	p->shared->heapid = RelationGetRelid(heap);
	p->shared->indexid = RelationGetRelid(b->index);
	p->shared->concurrent = concurrent;
	p->shared->memory = memory_share(nworkers + p->leads);
	if (b->order)
	{
		p->shared->code = b->order->code;
		p->shared->paired = b->order->paired;
	}
	p->shared->query_id = pgstat_get_my_query_id();
	SharedFileSetInit(&p->shared->files, p->context->seg);
	shm_toc_insert(toc, KEY_SHARED, p->shared);

	p->scan = shm_toc_allocate(toc, scan_size);
	table_parallelscan_initialize(heap, p->scan, p->snapshot);
	shm_toc_insert(toc, KEY_SCAN, p->scan);

	if (debug_query_string)
	{
		char	   *query = shm_toc_allocate(toc, strlen(debug_query_string) + 1);

		strcpy(query, debug_query_string);
		shm_toc_insert(toc, KEY_QUERY, query);
	}
}

MtpParallelBuild *
mtp_parallel_build_begin(MtpIndexBuild *b, Relation heap, struct IndexInfo *info, int nworkers)
{
	MtpParallelBuild *p = palloc0(sizeof(MtpParallelBuild));
	Size		size = offsetof(Shared, workers) + nworkers * sizeof(Worker);
	Size		scan_size;
	shm_toc_estimator *room;

	EnterParallelMode();
	p->context = CreateParallelContext("mtpower", b->ops->worker, nworkers);
	p->leads = parallel_leader_participation;

	/* As in a build without workers: the scan judges versions, or an MVCC snapshot has done so. */
	p->snapshot = info->ii_Concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;

	room = &p->context->estimator;
	scan_size = table_parallelscan_estimate(heap, p->snapshot);
	shm_toc_estimate_chunk(room, size);
	shm_toc_estimate_chunk(room, scan_size);
	shm_toc_estimate_keys(room, 2);
	if (debug_query_string)
	{
		shm_toc_estimate_chunk(room, strlen(debug_query_string) + 1);
		shm_toc_estimate_keys(room, 1);
	}
	InitializeParallelDSM(p->context);
	if (p->context->seg != NULL)
	{
		fill_shared(p, b, heap, info->ii_Concurrent, size, scan_size);
		LaunchParallelWorkers(p->context);
	}
	ereport(DEBUG1,
			(errmsg_internal("building index \"%s\" with %d of %d parallel workers",
							 RelationGetRelationName(b->index), p->context->nworkers_launched,
							 nworkers)));
	if (p->context->nworkers_launched == 0)
	{
		mtp_parallel_build_end(p);
		return NULL;
	}
	if (b->order)
		b->spool = mtp_batch_spool_begin(b->order, memory_share(p->context->nworkers_launched + 1));
	return p;
}

double
mtp_parallel_build_scan(MtpParallelBuild *p, MtpIndexBuild *b, Relation heap,
						struct IndexInfo *info)
{
	double		heap_tuples = 0;

	if (p->leads)
	{
		heap_tuples = table_index_build_scan(heap, b->index, info, true, true, b->ops->collect, b,
											 table_beginscan_parallel(heap, p->scan));
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, b->ops->sorting);
		if (b->spool)
			mtp_batch_spool_spill(b->spool);
		else
			b->ops->collected(b);
	}

	/* A worker that never came or that failed raises its error here. */
	WaitForParallelWorkersToFinish(p->context);
	if (b->spool)
		mtp_batch_spool_set_memory(b->spool, (Size) maintenance_work_mem * 1024);
	for (int i = 0; i < p->context->nworkers_launched; i++)
	{
		Worker	   *w = &p->shared->workers[i];

		InstrAccumParallelQuery(&w->buffer_usage, &w->wal_usage);
		if (b->spool)
			mtp_batch_spool_take(b->spool, &p->shared->files.fs, i, w->runs);
		heap_tuples += w->heap_tuples;
		b->ntuples += w->ntuples;
		info->ii_BrokenHotChain |= w->broken_hot_chain;
	}
	return heap_tuples;
}

void
mtp_parallel_build_end(MtpParallelBuild *p)
{
	DestroyParallelContext(p->context);
	if (IsMVCCSnapshot(p->snapshot))
		UnregisterSnapshot(p->snapshot);
	ExitParallelMode();
}

/* Begins a worker's spool. */
static void
begin_spool(MtpIndexBuild *b, Shared *shared)
{
	b->order = b->ops->order(b->index);
	b->spool = mtp_batch_spool_begin(b->order, shared->memory);

	/* It may depend on the C library's locales. */
	mtp_batch_order_pair(b->order);
	if (b->order->code != shared->code || b->order->paired != shared->paired)
		elog(ERROR, "parallel worker would sort the entries of index \"%s\" in another order",
			 RelationGetRelationName(b->index));
	mtp_batch_spool_use_files(b->spool, &shared->files.fs, ParallelWorkerNumber);
}

/* Scans the worker's part of the table, and leaves the sorted entries in files, or puts them in. */
static void
scan_part(const MtpIndexBuildOps *ops, Relation heap, Relation index, Shared *shared,
		  ParallelTableScanDesc scan)
{
	Worker	   *w = &shared->workers[ParallelWorkerNumber];
	IndexInfo  *info = BuildIndexInfo(index);
	MtpIndexBuild b = {.ops = ops,.index = index};

	info->ii_Concurrent = shared->concurrent;
	if (ops->order)
		begin_spool(&b, shared);
	MTP_INJECT("build_worker");
	w->heap_tuples = table_index_build_scan(heap, index, info, true, false, ops->collect, &b,
											table_beginscan_parallel(heap, scan));
	if (b.spool)
		w->runs = mtp_batch_spool_leave(b.spool);
	else
		ops->collected(&b);
	w->ntuples = b.ntuples;
	w->broken_hot_chain = info->ii_BrokenHotChain;
	if (b.spool)
		mtp_batch_spool_end(b.spool);
}

void
mtp_index_build_work(const MtpIndexBuildOps *ops, dsm_segment *seg, shm_toc *toc)
{
	Shared	   *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	Worker	   *w = &shared->workers[ParallelWorkerNumber];
	LOCKMODE	heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	heap;
	Relation	index;

	/* Core has passed on whether other transactions' horizons may leave the leader out. */
	Assert((MyProc->statusFlags & ~PROC_IN_SAFE_IC) == 0);
	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, false);
	SharedFileSetAttach(&shared->files, seg);

	/* The leader has these locks; those of its group do not conflict. */
	heap = table_open(shared->heapid, heap_lock);
	index = index_open(shared->indexid, index_lock);
	InstrStartParallelQuery();
	scan_part(ops, heap, index, shared, shm_toc_lookup(toc, KEY_SCAN, false));
	InstrEndParallelQuery(&w->buffer_usage, &w->wal_usage);
	index_close(index, index_lock);
	table_close(heap, heap_lock);
}
