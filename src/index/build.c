/*
 * build.c
 *	  Builds an index of either access method: scan, sort, write.
 */
#include "index/build.h"

#include "miscadmin.h"

IndexBuildResult *
mtp_index_build(MtpIndexBuild *b, Relation heap, struct IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_SCAN_BLOCKS_TOTAL,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {b->sorting, 0, 0, 0};

	if (RelationGetNumberOfBlocks(b->index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(b->index));
	b->spool = mtp_batch_spool_begin(b->order, (Size) maintenance_work_mem * 1024);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, b->scanning);
	result->heap_tuples = table_index_build_scan(heap, b->index, info, true, true, b->collect, b,
												 NULL);
	result->index_tuples = b->ntuples;

	/* The scan's blocks are no measure of what is left, but entries are. */
	values[1] = b->ntuples;
	pgstat_progress_update_multi_param(lengthof(params), params, values);
	mtp_batch_spool_sort(b->spool);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, b->writing);
	b->write(b);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, b->done);
	mtp_batch_spool_end(b->spool);
	return result;
}
