/*
 * only_index.c
 *	  Lets a session read tables by one index alone: for the judge (test/perl/MtpJudge.pm).
 *
 * While only_index.oid names an index, the planner sees no other one of its table.
 */
#include "postgres.h"

#include <limits.h>

#include "fmgr.h"
#include "optimizer/plancat.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static int	only_index = 0;
static get_relation_info_hook_type next_info = NULL;

static void
hide_others(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	if (next_info)
		next_info(root, relid, inhparent, rel);
	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (index->indexoid == (Oid) only_index)
		{
			rel->indexlist = list_make1(index);
			return;
		}
	}
}

void
_PG_init(void)
{
	DefineCustomIntVariable("only_index.oid", "The only index of its table that queries may use.", NULL,
							&only_index, 0, 0, INT_MAX, PGC_USERSET, 0, NULL, NULL, NULL);
	next_info = get_relation_info_hook;
	get_relation_info_hook = hide_others;
}
