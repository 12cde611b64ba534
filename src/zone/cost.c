/*
 * cost.c
 *	  What a scan of a zone index costs, and how much of the table it leaves.
 */
#include "zone/zone.h"

#include <math.h>

#include "access/genam.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
#include "zone/sift.h"

/* The planner goes down the index so many times, and asks each page for so many values. */
#define PATHS	2
#define POINTS	8

/* What a walk from the root to a page of level 0 shows of a column */
typedef struct Walk
{
	double		found;			/* pairs that may have a value which there is */
	double		nulls;			/* the share of pairs that have nulls */
} Walk;

bool
mtp_zone_is(const IndexOptInfo *index)
{
	return index->amcostestimate == mtp_zone_cost;
}

/*
 * Returns how many of a page's entries hold a value in the middle of one of them, on average; 0 if
 * all are empty.  Sets *middle to an entry that has rows, about that share of them
 * from the first one.
 */
static double
overlap_on(const MtpZoneInfo *info, Page page, int col, double share, uint32 *middle,
		   double *nulls)
{
	const MtpZone *zones = (const MtpZone *) PageGetContents(page) + col;
	const uint8 *flags = mtp_zone_flags(info, page, 0) + col;
	uint32		used[MTP_ZONE_FANOUT + 1];
	int			nused = 0;
	int			nnulls = 0;
	int			found = 0;

	for (uint32 slot = 0; slot < info->fanout; slot++)
	{
		bool		null = flags[slot * info->natts] & MTP_ZONE_NULLS;

		if (null || zones[slot * info->natts].high != 0 || zones[slot * info->natts].notlow != 0)
			used[nused++] = slot;
		nnulls += null;
	}
	if (nused == 0)
		return 0;
	*middle = used[(int) (share * nused)];
	*nulls = (double) nnulls / nused;
	for (int i = 0; i < POINTS; i++)
	{
		const MtpZone *zone = &zones[used[(2 * i + 1) * nused / (2 * POINTS)] * info->natts];
		uint64		value = ~zone->notlow + (zone->high - ~zone->notlow) / 2;

		for (int j = 0; j < nused; j++)
		{
			zone = &zones[used[j] * info->natts];
			found += zone->high >= value && zone->notlow >= ~value;
		}
	}
	return Max((double) found / POINTS, 1);
}

/* Walks down to a place that is about this share of the table from its begin. */
static Walk
walk_down(Relation index, int height, int col, double share)
{
	const MtpZoneInfo *info = mtp_zone_info(index);
	Walk		walk = {.found = 1,.nulls = 0};
	uint32		number = 0;

	for (int level = height; level >= 0; level--)
	{
		Buffer		buf = mtp_zone_read(index, level, number, BUFFER_LOCK_SHARE);
		uint32		slot = 0;
		double		overlap = 0;

		if (BufferIsValid(buf))
		{
			overlap = overlap_on(info, BufferGetPage(buf), col, share, &slot, &walk.nulls);
			UnlockReleaseBuffer(buf);
		}
		if (overlap == 0)
			break;
		walk.found *= overlap;
		number = number * info->fanout + slot;
	}
	return walk;
}

/* True if one of the clauses on a column looks for nulls. */
static bool
wants_nulls(List *clauses, int col)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, lc);

		if (clause->indexcol == col && IsA(clause->rinfo->clause, NullTest) &&
			((NullTest *) clause->rinfo->clause)->nulltesttype == IS_NULL)
			return true;
	}
	return false;
}

/*
 * A value that the table has lies in as many pairs as overlap there, which a sample of the index
 * shows whatever the order of the rows was; a range lies in those of its two ends, and in what its
 * rows fill.  Of several columns the best one counts.
 */
double
mtp_zone_pairs(PlannerInfo *root, IndexOptInfo *index, List *clauses)
{
	double		pairs = Max(ceil(index->rel->pages / (double) MTP_ZONE_BLOCKS), 1);
	double		rows = clauselist_selectivity(root, get_quals_from_indexclauses(clauses),
											  index->rel->relid, JOIN_INNER, NULL);
	double		overlap = pairs;
	Bitmapset  *columns = NULL;
	Relation	rel;
	int			height;
	ListCell   *lc;

	if (index->hypothetical)
		return Min(pairs * rows + 1, pairs);
	rel = index_open(index->indexoid, NoLock);	/* the planner has locked it */
	UnlockReleaseBuffer(mtp_zone_read_meta(rel, BUFFER_LOCK_SHARE, &height));
	foreach(lc, clauses)
	{
		int			col = lfirst_node(IndexClause, lc)->indexcol;
		double		of_column = 0;

		if (bms_is_member(col, columns))
			continue;
		columns = bms_add_member(columns, col);
		for (int i = 0; i < PATHS; i++)
		{
			Walk		walk = walk_down(rel, height, col, (2 * i + 1) / (2.0 * PATHS));

			of_column += wants_nulls(clauses, col) ? walk.nulls * pairs : walk.found;
		}
		overlap = Min(overlap, of_column / PATHS);
	}
	index_close(rel, NoLock);
	return Max(Min(overlap + pairs * rows, pairs), 1);
}

/* All entries of the pages that are read are looked at; a page's neighbours share it. */
Cost
mtp_zone_search_cost(IndexOptInfo *index, double found, double loop_count, double *pages)
{
	double		pairs = Max(ceil(index->rel->pages / (double) MTP_ZONE_BLOCKS), 1);
	double		random_page;

	get_tablespace_page_costs(index->reltablespace, &random_page, NULL);
	*pages = Min(Max(index->pages, 1), ceil(index->pages * found / pairs) + 2);
	return *pages * random_page / Max(loop_count, 1) +
		*pages * BLCKSZ / (sizeof(MtpZone) + 1) * cpu_operator_cost * 0.1 +
		found * 0.1 * cpu_operator_cost;
}

/*
 * What the scan pays for sifting, if it sifts so many pairs: to compare a row's key with an
 * interval is taken for a quarter of an operator's call.
 */
static Cost
sifting_cost(PlannerInfo *root, IndexOptInfo *index, double found, double loop_count)
{
	double		pages = found * MTP_ZONE_BLOCKS;
	double		seq_page;

	get_tablespace_page_costs(index->rel->reltablespace, NULL, &seq_page);
	if (loop_count > 1)
		pages = index_pages_fetched(pages * loop_count, index->rel->pages, index->pages, root) /
			loop_count;
	return pages * seq_page + found * MTP_ZONE_BLOCKS * cpu_operator_cost * index->rel->tuples /
		Max(index->rel->pages, 1) / 4;
}

static bool
is_of_columns(const IndexOptInfo *index)
{
	for (int i = 0; i < index->nkeycolumns; i++)
		if (index->indexkeys[i] <= 0)
			return false;
	return true;
}

/*
 * Of how many rows core thinks that they stand on so many pages of the table: it takes them for
 * rows that stand anywhere (Mackert and Lohman's formula, in index_pages_fetched).
 */
static double
rows_on_pages(const IndexOptInfo *index, double pages)
{
	double		all = Max(index->rel->pages, 1);

	pages = Min(pages, all);
	return 2 * all * pages / (2 * all - pages);
}

void
mtp_zone_cost(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
			  Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *index = path->indexinfo;
	List	   *quals = get_quals_from_indexclauses(path->indexclauses);
	double		pairs = Max(ceil(index->rel->pages / (double) MTP_ZONE_BLOCKS), 1);
	double		found = mtp_zone_pairs(root, index, path->indexclauses);
	double		rows = Max(index->rel->tuples, 1);
	double		asked = rows * found / pairs;

	*startup = index_other_operands_eval_cost(root, quals);
	*total = *startup + mtp_zone_search_cost(index, found, loop_count, pages);
	*correlation = 0;
	if (found * MTP_ZONE_BLOCKS <= MTP_ZONE_SIFTED && is_of_columns(index))
	{
		*total += sifting_cost(root, index, found, loop_count);
		asked = Min(asked, rows * clauselist_selectivity(root, quals, index->rel->relid, JOIN_INNER,
														 NULL));
	}
	*selectivity = Min(asked, rows_on_pages(index, found * MTP_ZONE_BLOCKS)) / rows;

	/* Core asks as many rows as it thinks to be on these pages. */
	*total += (asked - *selectivity * rows) *
		(cpu_tuple_cost + list_length(quals) * cpu_operator_cost);
}
