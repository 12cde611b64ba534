/*
 * plan.c
 *	  Offers directory scans to the planner: the setting, the hook, paths and plans; and the subsystem's share of _PG_init.
 */
#include "scan/scan.h"

#include "access/table.h"
#include "buffer/pair.h"
#include "catalog/catalog.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "scan/demand.h"
#include "table/table.h"
#include "utils/guc.h"
#include "utils/selfuncs.h"

/* Smaller tables are read as ever. */
#define FEWEST_BLOCKS	32

/* Pairs that stand for all when it is estimated how many have directories */
#define SAMPLE			16

/* What asking a directory costs, beside reading its pair */
#define ASKING			0.02

bool		mtp_enable_directoryscan = true;

static set_rel_pathlist_hook_type next_hook = NULL;

static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "directory scan",
	.PlanCustomPath = plan_scan
};

static List *
usable_clauses(PlannerInfo *root, RelOptInfo *rel, List *rinfos)
{
	List	   *clauses = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		MtpScanClause *clause = mtp_scan_clause(root, rel, lfirst_node(RestrictInfo, lc));

		if (clause != NULL)
			clauses = lappend(clauses, clause);
	}
	return clauses;
}

/* The restrictions that are clauses on this column */
static List *
restrictions_on(List *clauses, AttrNumber attnum)
{
	List	   *on = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
		if (((MtpScanClause *) lfirst(lc))->attnum == attnum)
			on = lappend(on, ((MtpScanClause *) lfirst(lc))->rinfo);
	return on;
}

/*
 * Says of each clause whether what is asked of its column leaves few rows.  Where nothing is known of an inequality, the planner supposes a third: so that many are few, and
 * only what is known to leave more is not.
 */
static void
mark_narrow(PlannerInfo *root, RelOptInfo *rel, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		MtpScanClause *clause = lfirst(lc);
		ListCell   *same = list_head(clauses);

		/* A column's first clause asks for all of them. */
		while (((MtpScanClause *) lfirst(same))->attnum != clause->attnum)
			same = lnext(clauses, same);
		if (same != lc)
			clause->narrow = ((MtpScanClause *) lfirst(same))->narrow;
		else
			clause->narrow = clauselist_selectivity(root, restrictions_on(clauses, clause->attnum), rel->relid, JOIN_INNER, NULL) <= DEFAULT_INEQ_SEL;
	}
}

/* Which share of the table's pairs have directories? */
static double
share_with_directories(Relation table, BlockNumber nblocks)
{
	uint32		npairs = (nblocks + 1) / 2;
	int			n = Min(npairs, SAMPLE);
	int			has = 0;

	for (int i = 0; i < n; i++)
		has += mtp_pair_has(table, (uint64) npairs * (2 * i + 1) / (2 * n), MTP_FRAME_DIRECTORY);
	return n == 0 ? 0 : (double) has / n;
}

/*
 * What the scan costs, beside a sequential one: pairs with directories cost the question, and a page the more of its whole, the more of its
 * rows are candidates.
 */
static double
cost_share(PlannerInfo *root, RelOptInfo *rel, Relation table, List *clauses)
{
	AttrNumber	attnums[MTP_DIRECTORY_COLUMNS];
	int			n;
	List	   *asking = NIL;
	double		share,
				candidates;
	ListCell   *lc;

	foreach(lc, mtp_scan_asking(table, clauses, &n, attnums))
		asking = lappend(asking, ((MtpScanClause *) lfirst(lc))->rinfo);
	share = asking == NIL ? 0 : share_with_directories(table, rel->pages);
	if (share == 0)
		return 1;
	candidates = clauselist_selectivity(root, asking, rel->relid, JOIN_INNER, NULL) * rel->tuples / Max(rel->pages, 1);
	return 1 - share + share * Min(1, ASKING + candidates / MTP_SCAN_FEW);
}

static CustomPath *
make_path(const Path *seq, double share)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *seq;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.total_cost = seq->startup_cost + (seq->total_cost - seq->startup_cost) * share;
	path->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	return path;
}

/*
 * Puts a directory scan in the place of each sequential one.  A member of a partitioned table keeps that one as well, behind it: core can
 * give it the parameters of another member's path, which it can't do with ours.
 */
static List *
replace(PlannerInfo *root, RelOptInfo *rel, Relation table, List *paths)
{
	List	   *replaced = NIL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);
		List	   *rinfos = rel->baserestrictinfo;
		List	   *clauses = NIL;

		if (path->pathtype == T_SeqScan && path->param_info != NULL)
			rinfos = list_concat_copy(rinfos, path->param_info->ppi_clauses);
		if (path->pathtype == T_SeqScan)
			clauses = usable_clauses(root, rel, rinfos);
		if (clauses != NIL)
		{
			replaced = lappend(replaced, make_path(path, cost_share(root, rel, table, clauses)));
			if (rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
				continue;
		}
		replaced = lappend(replaced, path);
	}
	return replaced;
}

/* WHERE CURRENT OF finds its row by TID, and raises an error in any other scan. */
static bool
is_current_of(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
		if (IsA(lfirst_node(RestrictInfo, lc)->clause, CurrentOfExpr))
			return true;
	return false;
}

static void
offer_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	Relation	table;

	if (next_hook)
		next_hook(root, rel, rti, rte);
	if (!mtp_enable_directoryscan || rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || rte->inh || rte->tablesample != NULL ||
		rel->pages < FEWEST_BLOCKS || IsCatalogRelationOid(rte->relid) || is_current_of(rel))
		return;
	table = table_open(rte->relid, NoLock);
	if (mtp_table_is_ours(table) && mtp_pair_serves(table) && !mtp_demand_off(table))
	{
		rel->pathlist = replace(root, rel, table, rel->pathlist);
		rel->partial_pathlist = replace(root, rel, table, rel->partial_pathlist);
	}
	table_close(table, NoLock);
}

static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *plan = makeNode(CustomScan);
	List	   *usable = usable_clauses(root, rel, clauses);

	plan->scan.plan.targetlist = tlist;
	plan->scan.plan.qual = extract_actual_clauses(clauses, false);
	plan->scan.scanrelid = rel->relid;
	plan->flags = path->flags;
	plan->methods = &mtp_scan_methods;
	mark_narrow(root, rel, usable);
	mtp_scan_write_clauses(usable, plan);
	return &plan->scan.plan;
}

void
mtp_scan_init(void)
{
	DefineCustomBoolVariable("mtpower.enable_directoryscan",
							 "Enables the planner's use of directory scans in place of sequential ones.",
							 NULL, &mtp_enable_directoryscan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	mtp_scan_shmem_init();
	RegisterCustomScanMethods(&mtp_scan_methods);
	next_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = offer_paths;
}
