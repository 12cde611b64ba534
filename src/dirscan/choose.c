/*
 * choose.c
 *	  Chooses a zone index for a scan, and finds the join clauses that a look-up could have.
 */
#include "dirscan/dirscan.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"

static bool
is_usable(const IndexOptInfo *index)
{
	return mtp_zone_is(index) && (index->indpred == NIL || index->predOK) && !index->hypothetical;
}

bool
mtp_dirscan_can_prune(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
		if (is_usable(lfirst_node(IndexOptInfo, lc)))
		return true;
	return false;
}

/* The clauses on columns of an index, as IndexClauses */
static List *
clauses_on(const IndexOptInfo *index, List *clauses)
{
	List	   *on = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		for (int i = 0; i < index->nkeycolumns; i++)
		{
			IndexClause *found;

			if (index->indexkeys[i] != clause->attnum ||
				(clause->value != NULL && (clause->collation != index->indexcollations[i] ||
										   !op_in_opfamily(clause->op, index->opfamily[i]))))
				continue;
			found = makeNode(IndexClause);
			found->rinfo = clause->rinfo;
			found->indexquals = list_make1(clause->rinfo);
			found->indexcol = i;
			on = lappend(on, found);
		}
	}
	return on;
}

/* How often a look-up is made that gets its values from these relations, about */
static double
loops_of(PlannerInfo *root, Relids outer)
{
	double		loops = 0;
	int			i = -1;

	while ((i = bms_next_member(outer, i)) >= 0)
		if (i < root->simple_rel_array_size && root->simple_rel_array[i] != NULL &&
			!IS_DUMMY_REL(root->simple_rel_array[i]) && root->simple_rel_array[i]->rows > 0 &&
			(loops == 0 || root->simple_rel_array[i]->rows < loops))
			loops = root->simple_rel_array[i]->rows;
	return Max(loops, 1);
}

/*
 * What it costs to read so many pages of the table: as for a bitmap scan the nearer to a sequential
 * read the more of them there are, and not again where an earlier look-up has read them.
 */
static Cost
reading_cost(PlannerInfo *root, RelOptInfo *rel, double pages, double loops)
{
	double		all = Max(rel->pages, 1);
	double		random_page;
	double		seq_page;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);
	random_page -= (random_page - seq_page) * sqrt(Min(pages / all, 1));
	if (loops > 1)
		pages = index_pages_fetched(pages * loops, rel->pages, 0, root) / loops;
	return pages * random_page;
}

/* The cost of a part of a sequential scan's rows, and of reading the pages that they are on */
Cost
mtp_dirscan_pruned_cost(RelOptInfo *rel, const Path *seq, const MtpDirscanPruning *pruning)
{
	Cost		run = seq->total_cost - seq->startup_cost;
	double		seq_page;

	if (!OidIsValid(pruning->indexid))
		return run;
	get_tablespace_page_costs(rel->reltablespace, NULL, &seq_page);
	return Max(run - rel->pages * seq_page, 0) * pruning->share + pruning->reading;
}

MtpDirscanPruning
mtp_dirscan_choose_zones(PlannerInfo *root, RelOptInfo *rel, List *clauses, Relids outer)
{
	MtpDirscanPruning best = {.indexid = InvalidOid,.share = 1};
	double		pairs = Max(rel->pages / (double) MTP_ZONE_BLOCKS, 1);
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		List	   *on = is_usable(index) ? clauses_on(index, clauses) : NIL;
		double		found;
		double		pages;

		if (on == NIL)
			continue;
		found = Min(mtp_zone_pairs(root, index, on), pairs);
		if (found / pairs >= best.share || found / pairs > 0.5)
			continue;
		best.indexid = index->indexoid;
		best.share = found / pairs;
		best.search = mtp_zone_search_cost(index, found, loops_of(root, outer), &pages);
		best.reading = reading_cost(root, rel, Min(found * MTP_ZONE_BLOCKS, rel->pages),
									loops_of(root, outer));
	}
	return best;
}

/* ---------- join clauses ---------- */

/* True if a member of an equivalence class is the column *arg of the table. */
static bool
is_column(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember * em,
		  void *arg)
{
	Expr	   *expr = em->em_expr;

	if (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return IsA(expr, Var) && ((Var *) expr)->varno == rel->relid &&
		((Var *) expr)->varattno == *(AttrNumber *) arg;
}

/* Adds the relations that a join clause gets values from, if the clause is on a zone index. */
static List *
add_relids(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo, List *all)
{
	List	   *clauses = mtp_dirscan_clauses(root, rel, list_make1(rinfo));
	Relids		outer = bms_union(bms_difference(rinfo->clause_relids, rel->relids),
								  rel->lateral_relids);
	bool		on = false;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
		on |= is_usable(lfirst_node(IndexOptInfo, lc)) &&
		clauses_on(lfirst_node(IndexOptInfo, lc), clauses) != NIL;
	if (!on || bms_is_empty(outer))
		return all;
	foreach(lc, all)
		if (bms_equal(lfirst(lc), outer))
		return all;
	return lappend(all, outer);
}

List *
mtp_dirscan_join_relids(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *all = NIL;
	ListCell   *lc;

	foreach(lc, rel->joininfo)
		if (join_clause_is_movable_to(lfirst_node(RestrictInfo, lc), rel))
		all = add_relids(root, rel, lfirst(lc), all);
	if (!rel->has_eclass_joins)
		return all;
	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		for (int i = 0; i < index->nkeycolumns && is_usable(index); i++)
		{
			AttrNumber	attnum = index->indexkeys[i];
			ListCell   *equal;

			foreach(equal, generate_implied_equalities_for_column(root, rel, is_column, &attnum,
																  rel->lateral_referencers))
				all = add_relids(root, rel, lfirst(equal), all);
		}
	}
	return all;
}
