/*
 * cost.c
 *	  Costs: the pages that a lookup reads, counted from the index's own address space, and the
 *	  work on them.
 *
 * The scale is that of core's estimate for trees, which B-link uses.  README.md, "Costs", has
 * both, and the measurements that they are fitted to.
 */
#include "hash/hash.h"

#include <math.h>

#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* A page's cost besides its entries: as much as a tree's estimate has for a page of a descent. */
#define PAGE_COST		(50.0 * cpu_operator_cost)

/* Up to so many entries, find and recheck take as long as a tree does; measured. */
#define EVEN			100

/* The elements of an array that is not known yet. */
#define UNKNOWN_ARRAY	400.0

/*
 * Says how far the rows with one key lie together in the table, as btcostestimate does.  Entries
 * of one hash come mostly in the order of their rows, so a hash finds them as a tree does.  With
 * less correlation the hash would lose against a tree where the table is sorted.
 */
static double
first_column_correlation(PlannerInfo *root, IndexOptInfo *index)
{
	VariableStatData vardata;
	AttStatsSlot slot;
	double		correlation = 0;

	examine_variable(root, (Node *) linitial_node(TargetEntry, index->indextlist)->expr, 0,
					 &vardata);
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
 * Estimates how many pages of a bucket's stash a lookup reads, for a key with so many entries and
 * `others` in the bucket: all pages, if the key has entries there, or if another key there has
 * its bit of the filter.
 */
static double
stash_pages_met(double entries, double others)
{
	double		out = entries + others - MTP_HASH_CAP(MTP_HASH_BUCKET);
	double		own;
	double		alike;

	if (out <= 0)
		return 0;
	own = out / (entries + others);
	alike = 1 - exp(-out / entries / (MTP_HASH_FILTER_WORDS * 32));
	return ceil(out / MTP_HASH_MAX_ENTRIES) * (own + (1 - own) * alike);
}

/*
 * Estimates how many pages one lookup searches for a key's entries: the primary page, and stash
 * pages that it meets as if entries were spread evenly.  A bucket that is still to be split in this
 * round has twice as many entries as one that has been.
 *
 * Goes by this backend's copy of the metapage, which a lookup needs anyway.  Reads it anew if the
 * index would be overdue for growth: then the copy is likely to be old.  The planner has locked
 * the index.
 */
static double
pages_searched(IndexOptInfo *index, double entries)
{
	double		level = Max(index->pages, 1);	/* S */
	double		split = 0;		/* the part of the level that has been split */
	double		stash = 0;		/* pages that are no bucket's primary page */
	double		others;

	if (!index->hypothetical)
	{
		Relation	rel = index_open(index->indexoid, NoLock);
		const MtpHashMeta *meta = mtp_hash_meta(rel, false);

		if (index->tuples > (double) meta->per_bucket * mtp_hash_space_size(&meta->space))
			meta = mtp_hash_meta(rel, true);
		level = mtp_hash_space_size(&meta->space) - meta->space.next;
		split = meta->space.next / level;
		stash = Max((double) index->pages - 1 - meta->reserved, 0);
		index_close(rel, NoLock);
	}
	others = index->tuples / level;
	if (stash == 0 || entries > MTP_HASH_CAP(MTP_HASH_BUCKET))
		return 1;
	return 1 + Min((1 - split) * stash_pages_met(entries, others) +
				   split * stash_pages_met(entries, others / 2), stash);
}

/*
 * The cost of one comparison of a row.  It is as in the tree's estimate, but for arrays: the
 * executor hashes an array that is a constant, and compares element by element with any other.
 * The planner assumes ten elements of an array that is not known yet; where there are hundreds,
 * comparisons take longer than lookups do in a tree.
 */
static Cost
comparison_cost(PlannerInfo *root, Expr *clause)
{
	QualCost	cost;
	Node	   *array;

	if (!IsA(clause, ScalarArrayOpExpr))
		return cpu_operator_cost;
	array = strip_implicit_coercions(lsecond(castNode(ScalarArrayOpExpr, clause)->args));
	if (!IsA(array, Const) && !IsA(array, ArrayExpr))
		return UNKNOWN_ARRAY / 2 * cpu_operator_cost;
	cost_qual_eval_node(&cost, (Node *) clause, root);
	return cost.per_tuple;
}

/*
 * The cost of lookups with all columns.  Entries cost as in a tree, and beyond EVEN the recheck
 * of their rows, which a tree does not need: it takes so much time that large results come slower
 * than from a tree, although that reads twice the pages.
 */
static void
cost_lookups(PlannerInfo *root, IndexPath *path, double loop_count, GenericCosts *costs)
{
	IndexOptInfo *index = path->indexinfo;
	double		n = costs->numIndexTuples;
	double		searched = pages_searched(index, n);
	double		lookups = costs->num_sa_scans;
	double		pages = rint(searched);
	Cost		arguments = costs->indexStartupCost;
	Cost		hash = index->nkeycolumns * cpu_operator_cost;
	Cost		compare = 0;
	Cost		entries;
	ListCell   *lc;

	foreach(lc, get_quals_from_indexclauses(path->indexclauses))
		compare += comparison_cost(root, lfirst_node(RestrictInfo, lc)->clause);
	entries = n * (cpu_index_tuple_cost + compare) +
		Max(n - EVEN, 0) * (cpu_tuple_cost + compare);

	/* A key with more entries than a page holds is heavy, and has a chain of its own. */
	if (n > MTP_HASH_CAP(MTP_HASH_BUCKET))
		pages += ceil(n / MTP_HASH_MAX_ENTRIES);
	costs->numIndexPages = pages;

	/* Many lookups, of an array's elements or an outer relation's rows, find pages in the cache. */
	if (lookups * loop_count > 1)
		pages = index_pages_fetched(pages * (lookups * loop_count), index->pages, index->pages,
									root);

	/*
	 * The startup cost leaves out hashing the columns: of two hash indexes that cost the same the
	 * one with more columns would lose by that.
	 */
	costs->indexStartupCost = arguments + PAGE_COST;
	costs->indexTotalCost = arguments +
		lookups * (hash + searched * PAGE_COST + entries) +
		pages * costs->spc_random_page_cost / loop_count;
}

void
mtp_hash_cost(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
			  Selectivity *selectivity, double *correlation, double *pages)
{
	GenericCosts costs = {0};
	Bitmapset  *columns = NULL;
	bool		lookup;
	ListCell   *lc;

	/* All clauses are equalities, so a scan whose columns all have one is a lookup. */
	foreach(lc, path->indexclauses)
		columns = bms_add_member(columns, lfirst_node(IndexClause, lc)->indexcol);
	lookup = bms_num_members(columns) == path->indexinfo->nkeycolumns;

	/*
	 * Core can't be told that a hash needs all columns, and asks with fewer.  Such a scan reads
	 * the whole index, and the table for each entry.  It must lose against everything else, even
	 * against a sequential scan that is disabled.
	 */
	if (!lookup)
		costs.numIndexTuples = Max(path->indexinfo->tuples, 1);
	genericcostestimate(root, path, loop_count, &costs);
	if (lookup)
	{
		cost_lookups(root, path, loop_count, &costs);
		costs.indexCorrelation = first_column_correlation(root, path->indexinfo);
	}
	else
	{
		costs.indexStartupCost += disable_cost;
		costs.indexTotalCost += disable_cost + costs.numIndexTuples * costs.spc_random_page_cost;
	}
	*startup = costs.indexStartupCost;
	*total = costs.indexTotalCost;
	*selectivity = costs.indexSelectivity;
	*correlation = costs.indexCorrelation;
	*pages = costs.numIndexPages;
}
