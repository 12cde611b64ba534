/*
 * cost.c
 *	  Costs: nbtree's own estimate, which also wants the tree's height.
 */
#include "blink/blink.h"

#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"

/*
 * Up to PostgreSQL 17, core learns the height of btrees only; the planner's node has -1 for others.
 * It is filled in here, once in a planning.  The planner has locked the index.
 *
 * An index whose "<" operator is in no btree operator family counts as unordered.  It has no
 * reverse_sort then, but the estimate looks at reverse_sort all the same.
 */
void
mtp_blink_cost(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
			   Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *index = path->indexinfo;
	bool		no_sort = index->reverse_sort == NULL;
	bool		none[INDEX_MAX_KEYS] = {false};

	if (index->tree_height < 0 && !index->hypothetical)
	{
		Relation	rel = index_open(index->indexoid, NoLock);

		index->tree_height = mtp_blink_height(rel);
		index_close(rel, NoLock);
	}
	if (no_sort)
		index->reverse_sort = none;
	btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
	if (no_sort)
		index->reverse_sort = NULL;
}
