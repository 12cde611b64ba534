/*
 * cost.c
 *	  Costs: what the equalities select, on as many pages as their share of the entries; there is no descent,
 *	  which a B-tree pays for.  So for the same equality a hash is a little cheaper than a tree.
 */
#include "mtpower.h"
#include "hash/hash.h"

#include "catalog/pg_statistic.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "utils/index_selfuncs.h"
#include "utils/lsyscache.h"
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
 * How far the rows with one key lie together in the table: as in btcostestimate.  Entries of one hash come mostly
 * in the order of their rows, so a hash finds them as a tree does; with less it would lose against one where the
 * table is sorted.
 */
static double
first_column_correlation(PlannerInfo *root, IndexOptInfo *index)
{
	VariableStatData vardata;
	AttStatsSlot slot;
	double		correlation = 0;

	examine_variable(root, (Node *) linitial_node(TargetEntry, index->indextlist)->expr, 0, &vardata);
	if (HeapTupleIsValid(vardata.statsTuple) &&
		get_attstatsslot(&slot, vardata.statsTuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		correlation = slot.numbers[0] * (index->nkeycolumns > 1 ? 0.75 : 1);
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(vardata);
	return correlation;
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
	*correlation = whole ? 0 : first_column_correlation(root, path->indexinfo);
	*pages = costs.numIndexPages;
}
