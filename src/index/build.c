/*
 * build.c
 *	  Builds an index: scan, sort, write.
 */
#include "index/build.h"

#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"

/*
 * How many workers the planner wants.  It asks that the index's expressions are parallel safe, and
 * that each process has memory.  An empty table, as TRUNCATE leaves it, needs none.
 */
static int
workers_wanted(MtpIndexBuild *b, Relation heap, struct IndexInfo *info)
{
	return RelationGetNumberOfBlocks(heap) == 0 ? 0 : MtpBuildWorkers(info, heap, b->index);
}

IndexBuildResult *
mtp_index_build(MtpIndexBuild *b, Relation heap, struct IndexInfo *info)
{
	const MtpIndexBuildOps *ops = b->ops;
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	MtpParallelBuild *parallel = NULL;
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_SCAN_BLOCKS_TOTAL,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {ops->sorting, 0, 0, 0};
	int			nworkers;

	if (RelationGetNumberOfBlocks(b->index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(b->index));
	if (ops->prepare)
		ops->prepare(b);
	if (ops->order)
	{
		b->order = ops->order(b->index);
		mtp_batch_order_pair(b->order);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, ops->scanning);
	nworkers = workers_wanted(b, heap, info);
	if (nworkers > 0)
		parallel = mtp_parallel_build_begin(b, heap, info, nworkers);
	if (parallel)
		result->heap_tuples = mtp_parallel_build_scan(parallel, b, heap, info);
	else
	{
		if (b->order)
			b->spool = mtp_batch_spool_begin(b->order, (Size) maintenance_work_mem * 1024);
		result->heap_tuples = table_index_build_scan(heap, b->index, info, true, true,
													 ops->collect, b, NULL);
		if (ops->collected)
			ops->collected(b);
	}
	result->index_tuples = b->ntuples;

	/* The scan's blocks are no measure of what is left, but entries are. */
	values[1] = b->ntuples;
	pgstat_progress_update_multi_param(lengthof(params), params, values);
	if (b->spool)
		mtp_batch_spool_sort(b->spool);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, ops->writing);
	ops->write(b);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, b->done);
	if (b->spool)
		mtp_batch_spool_end(b->spool);
	if (parallel)
		mtp_parallel_build_end(parallel);
	return result;
}
