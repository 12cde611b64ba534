/*
 * cost.c
 *	  Costs: what the equalities select, on as many pages as their share of the entries; there is no descent.
 */
#include "mtpower.h"
#include "hash/hash.h"

#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "utils/index_selfuncs.h"
#include "utils/selfuncs.h"

/* All clauses are equalities, so a column that has any will do. */
static bool
has_all_columns(IndexPath *path)
{
	Bitmapset  *columns = NULL;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
		columns = bms_add_member(columns, lfirst_node(IndexClause, lc)->indexcol);
	return bms_num_members(columns) == path->indexinfo->nkeycolumns;
}

/*
 * Core can't be told that a hash needs all columns, and asks with fewer.  Such a scan reads the whole index and
 * must lose against everything else.
 */
void
mtp_hash_cost(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
			  Selectivity *selectivity, double *correlation, double *pages)
{
	GenericCosts costs = {0};
	bool		whole = !has_all_columns(path);

	if (whole)
		costs.numIndexTuples = Max(path->indexinfo->tuples, 1);
	genericcostestimate(root, path, loop_count, &costs);
	*startup = costs.indexStartupCost + (whole ? disable_cost : 0);
	*total = costs.indexTotalCost + (whole ? disable_cost : 0);
	*selectivity = costs.indexSelectivity;
	*correlation = costs.indexCorrelation;
	*pages = costs.numIndexPages;
}
