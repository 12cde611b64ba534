/*
 * plan.c
 *	  Offers directory scans to the planner: the setting, the hook, paths and plans; and the
 *	  room's part of _PG_init.
 */
#include "dirscan/dirscan.h"

#include "access/xact.h"
#include "buffer/pair.h"
#include "catalog/catalog.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "pagedir/choice.h"
#include "core/identity.h"
#include "utils/guc.h"
#include "utils/selfuncs.h"

/* Smaller tables get no directory scan. */
#define FEWEST_BLOCKS	32

/* The planner looks at so many pairs to estimate how many have directories. */
#define SAMPLE			16

/* What asking a directory costs, as a share of reading its pair */
#define ASKING			0.02

bool		mtp_enable_directoryscan = true;

static set_rel_pathlist_hook_type next_hook = NULL;

/*
 * Sets narrow for each clause: true if the clauses on its column leave few rows.  Without
 * statistics the planner assumes a third for an inequality, so a third counts as few.  The
 * selectivity of one clause is cached; that of several together is estimated anew.
 */
static void
mark_narrow(PlannerInfo *root, RelOptInfo *rel, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);
		List	   *on = NIL;
		ListCell   *other;

		clause->narrow = false;
		foreach(other, clauses)
		{
			MtpDirscanClause *o = lfirst(other);

			if (o->attnum != clause->attnum)
				continue;
			clause->narrow = clause_selectivity(root, (Node *) o->rinfo, rel->relid, JOIN_INNER,
												NULL) <= DEFAULT_INEQ_SEL;
			if (clause->narrow)
				break;
			on = lappend(on, o->rinfo);
		}
		if (!clause->narrow && list_length(on) > 1)
			clause->narrow = clauselist_selectivity(root, on, rel->relid, JOIN_INNER,
													NULL) <= DEFAULT_INEQ_SEL;
	}
}

/*
 * A path's private data are its clauses, as they are here, since nothing copies them, and the zone
 * index.  Core may have given a path with parameters those of another relation: then the clauses
 * are made anew, of those that the plan has.
 */
static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		  List *custom_plans)
{
	CustomScan *plan = makeNode(CustomScan);
	List	   *asked = linitial(path->custom_private);
	List	   *kinds = NIL;

	if (path->path.param_info != NULL)
		asked = mtp_dirscan_clauses(root, rel, clauses);

	plan->scan.plan.targetlist = tlist;
	plan->scan.plan.qual = extract_actual_clauses(clauses, false);
	plan->scan.scanrelid = rel->relid;
	plan->flags = path->flags;
	plan->methods = &mtp_dirscan_methods;
	mark_narrow(root, rel, asked);
	mtp_dirscan_write_clauses(asked, &kinds, &plan->custom_exprs);
	plan->custom_private = list_make2(kinds, lsecond(path->custom_private));
	return &plan->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "directory scan",
	.PlanCustomPath = plan_scan
};

/*
 * Returns what the scan costs as a share of reading these pages sequentially.  A pair with a
 * directory costs asking it, and a page costs the more of its whole the more of its rows are
 * candidates.  A serializable transaction asks no directories.
 */
static double
cost_share(PlannerInfo *root, RelOptInfo *rel, Relation table, List *clauses, double pages)
{
	uint32		npairs = rel->pages / 2 + rel->pages % 2;
	int			nsample = Min(npairs, SAMPLE);
	int			has = 0;
	MtpPagedirColumns columns = {.n = 0};
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	int			ncolumns;
	List	   *asking = NIL;
	double		share,
				candidates;
	ListCell   *lc;

	foreach(lc, mtp_dirscan_asking(table, clauses, &ncolumns, attnums))
		asking = lappend(asking, ((MtpDirscanClause *) lfirst(lc))->rinfo);
	if (asking == NIL || IsolationIsSerializable())
		return 1;

	/* Estimates the share of pairs that have directories of these columns. */
	for (int i = 0; i < nsample; i++)
	{
		MtpPagedirHeader header;

		if (!mtp_pair_peek(table, (uint64) npairs * (2 * i + 1) / (2 * nsample), MTP_FRAME_PAGEDIR,
						   &header, sizeof(header)))
			continue;
		if (columns.n == 0 &&
			!mtp_pagedir_describe(&columns, RelationGetDescr(table), ncolumns, attnums))
			return 1;
		has += mtp_pagedir_is_of(&header, &columns);
	}
	if (has == 0)
		return 1;
	share = (double) has / nsample;
	candidates = clauselist_selectivity(root, asking, rel->relid, JOIN_INNER, NULL) *
		rel->tuples / Max(pages, 1);
	return 1 - share + share * Min(1, ASKING + candidates / MTP_DIRSCAN_FEW);
}

/* Startup costs as much as that of a sequential scan. */
static inline Cost
total_cost(const Path *seq, double share)
{
	return seq->startup_cost + (seq->total_cost - seq->startup_cost) * share;
}

static Path *
make_path(RelOptInfo *rel, const Path *seq, double share, List *clauses,
		  const MtpDirscanPruning *pruning)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *seq;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.total_cost = seq->startup_cost + pruning->search +
		mtp_dirscan_pruned_cost(rel, seq, pruning) * share;
	path->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make2(clauses, list_make1_oid(pruning->indexid));
	path->methods = &path_methods;
	return &path->path;
}

/* ---------- paths ---------- */

static Path *
seq_path_of(List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
		if (((Path *) lfirst(lc))->pathtype == T_SeqScan)
		return lfirst(lc);
	return NULL;
}

/* As core compares them: what the user has disabled comes last. */
static bool
costs_less(const Path *path, const Path *other, Cost other_cost)
{
	if (MtpDisabledNodes(path) != MtpDisabledNodes(other))
		return MtpDisabledNodes(path) < MtpDisabledNodes(other);
	return path->total_cost < other_cost;
}

/*
 * True if another path costs less than a directory scan could at best.  If core has kept a
 * sequential path, none was better in every respect.  This spares statements that find a row by an
 * index the rest of the work.
 */
static bool
is_beaten(RelOptInfo *rel, const Path *seq)
{
	ListCell   *lc;

	if (seq_path_of(rel->pathlist) != NULL)
		return false;
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (costs_less(path, seq, total_cost(seq, ASKING)) &&
			path->parallel_safe >= seq->parallel_safe &&
			bms_is_subset(PATH_REQ_OUTER(path), PATH_REQ_OUTER(seq)))
			return true;
	}
	return false;
}

/*
 * Offers directory scans, even if the sequential path that they derive from did not survive: a
 * cheaper index says nothing of them.  Clauses and directories are looked at once, for all paths
 * and the plan.
 */
static void
offer_scans(PlannerInfo *root, RelOptInfo *rel, Relation table)
{
	Path	   *seq = seq_path_of(rel->pathlist);
	List	   *rinfos = rel->baserestrictinfo;
	List	   *clauses;
	MtpDirscanPruning pruning;
	double		share;

	if (seq == NULL)
		seq = create_seqscan_path(root, rel, rel->lateral_relids, 0);
	if (!mtp_dirscan_can_prune(rel) && is_beaten(rel, seq))
		return;
	if (seq->param_info != NULL)
		rinfos = list_concat_copy(rinfos, seq->param_info->ppi_clauses);
	clauses = mtp_dirscan_clauses(root, rel, rinfos);
	if (clauses == NIL || mtp_pagedir_off(table))
		return;
	pruning = mtp_dirscan_choose_zones(root, rel, clauses, PATH_REQ_OUTER(seq));
	share = cost_share(root, rel, table, clauses, rel->pages * pruning.share);

	/* The sequential path goes first, since it would win if both cost the same. */
	rel->pathlist = list_delete_ptr(rel->pathlist, seq);
	add_path(rel, make_path(rel, seq, share, clauses, &pruning));

	/*
	 * All members of a partition tree inherit from their parent what gives paths parameters.  Core
	 * may give this member's path those of another's, which it cannot do with a custom path.  So
	 * the sequential path comes back.
	 */
	if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL &&
		(rel->joininfo != NIL || rel->has_eclass_joins || !bms_is_empty(rel->lateral_relids)))
	{
		int			at = 0;

		while (at < list_length(rel->pathlist) &&
			   !costs_less(seq, list_nth(rel->pathlist, at),
						   ((Path *) list_nth(rel->pathlist, at))->total_cost))
			at++;
		rel->pathlist = list_insert_nth(rel->pathlist, at, seq);
	}

	/* With as many parallel workers as core lets read a table of this size */
	if (rel->consider_parallel && bms_is_empty(rel->lateral_relids))
	{
		Path	   *partial = seq_path_of(rel->partial_pathlist);

		if (partial == NULL)
		{
			int			workers = compute_parallel_worker(rel, rel->pages, -1,
														  max_parallel_workers_per_gather);

			if (workers > 0)
				partial = create_seqscan_path(root, rel, NULL, workers);
		}
		if (partial != NULL)
		{
			rel->partial_pathlist = list_delete_ptr(rel->partial_pathlist, partial);
			add_partial_path(rel, make_path(rel, partial, share, clauses, &pruning));
		}
	}

	/* A query that wants only the first rows reads little, whatever the rest would cost. */
	if (root->tuple_fraction == 0 &&
		(mtp_dirscan_teach_reads_most(rel->pathlist, seq) ||
		 mtp_dirscan_teach_reads_most(rel->partial_pathlist, seq)))
	{
		mark_narrow(root, rel, clauses);
		mtp_dirscan_teach_note(RelationGetRelid(table), rel, seq, clauses);
	}
}

/*
 * Offers look-ups, for the inside of a nested loop: scans that get values of a join clause from
 * these relations, and find their pairs by a zone index.
 */
static void
offer_look_ups(PlannerInfo *root, RelOptInfo *rel, Relation table, Relids outer)
{
	Path	   *seq = create_seqscan_path(root, rel, outer, 0);
	List	   *clauses = mtp_dirscan_clauses(root, rel,
											  list_concat_copy(rel->baserestrictinfo,
															   seq->param_info->ppi_clauses));
	MtpDirscanPruning pruning = mtp_dirscan_choose_zones(root, rel, clauses, outer);

	double		share;

	if (!OidIsValid(pruning.indexid))
		return;
	share = cost_share(root, rel, table, clauses, rel->pages * pruning.share);
	add_path(rel, make_path(rel, seq, share, clauses, &pruning));
}

static void
offer_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	Relation	table;
	ListCell   *lc;

	if (next_hook)
		next_hook(root, rel, rti, rte);
	if (!mtp_enable_directoryscan || rte->rtekind != RTE_RELATION ||
		rte->relkind != RELKIND_RELATION || rte->inh || rte->tablesample != NULL ||
		rel->pages < FEWEST_BLOCKS || IsCatalogRelationOid(rte->relid) || IS_DUMMY_REL(rel))
		return;

	/* WHERE CURRENT OF finds its row by TID and raises an error in any other scan. */
	foreach(lc, rel->baserestrictinfo)
		if (IsA(lfirst_node(RestrictInfo, lc)->clause, CurrentOfExpr))
		return;
	table = table_open(rte->relid, NoLock);
	if (mtp_table_is_ours(table) && mtp_pair_serves(table))
	{
		offer_scans(root, rel, table);
		if (mtp_dirscan_can_prune(rel) && !mtp_pagedir_off(table))
			foreach(lc, mtp_dirscan_join_relids(root, rel))
				offer_look_ups(root, rel, table, lfirst(lc));
	}
	table_close(table, NoLock);
}

void
mtp_dirscan_init(void)
{
	DefineCustomBoolVariable("mtpower.enable_directoryscan",
							 "Enables the planner's use of directory scans in place of sequential ones.",
							 NULL, &mtp_enable_directoryscan, true, PGC_USERSET, GUC_EXPLAIN, NULL,
							 NULL, NULL);
	mtp_dirscan_teach_init();
	RegisterCustomScanMethods(&mtp_dirscan_methods);
	next_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = offer_paths;
}
