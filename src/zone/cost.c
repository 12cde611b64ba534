/*
 * cost.c
 *	  What a scan of a zone index costs, and how much of the table it leaves.
 */
#include "zone/zone.h"

#include <math.h>

#include "catalog/pg_statistic.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

/* How far the values of an index column follow the order of the rows: 0 .. 1 */
static double
correlation_of(PlannerInfo *root, IndexOptInfo *index, int col)
{
	VariableStatData vardata;
	AttStatsSlot slot;
	double		correlation = 0;

	examine_variable(root, (Node *) list_nth_node(TargetEntry, index->indextlist, col)->expr, 0,
					 &vardata);
	if (HeapTupleIsValid(vardata.statsTuple) &&
		get_attstatsslot(&slot, vardata.statsTuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		correlation = fabs(slot.numbers[0]);
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(vardata);
	return correlation;
}

/*
 * Of the pairs, those that the rows would fill if they stood together, and more of them the less
 * they do: as core estimates BRIN, with the best of the columns that have clauses.
 */
void
mtp_zone_cost(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
			  Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *index = path->indexinfo;
	List	   *quals = get_quals_from_indexclauses(path->indexclauses);
	double		pairs = Max(ceil(index->rel->pages / (double) MTP_ZONE_BLOCKS), 1);
	double		rows;
	double		found;
	double		random_page;
	ListCell   *lc;

	*correlation = 0;
	foreach(lc, path->indexclauses)
	{
		int			col = lfirst_node(IndexClause, lc)->indexcol;

		*correlation = Max(*correlation, correlation_of(root, index, col));
	}
	rows = clauselist_selectivity(root, quals, index->rel->relid, JOIN_INNER, NULL);
	found = Max(ceil(pairs * rows), 1);
	found = *correlation < 1e-10 ? pairs : Min(found / *correlation, pairs);
	*selectivity = Min(found / pairs, 1);

	/* All entries of the pages that are read are looked at; a page's neighbours share it. */
	get_tablespace_page_costs(index->reltablespace, &random_page, NULL);
	*pages = Min(Max(index->pages, 1), ceil(index->pages * *selectivity) + 2);
	*startup = index_other_operands_eval_cost(root, quals);
	*total = *startup + *pages * random_page / Max(loop_count, 1) +
		*pages * BLCKSZ / (sizeof(MtpZone) + 1) * cpu_operator_cost * 0.1 +
		found * 0.1 * cpu_operator_cost;
}
