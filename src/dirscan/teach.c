/*
 * teach.c
 *	  Teaches by index scans that cost about as much as reading the table.
 *
 * Such a scan is core's own node.  While a statement is planned this file notes tables that have
 * such paths.  For each of them in the finished plan it adds a subplan that nothing refers to.
 * The executor begins that subplan with the rest: it counts the scan, asks for directories, and is
 * never run.  Other plans stay as they are and cost nothing more.
 */
#include "dirscan/dirscan.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "pagedir/request.h"
#include "pagedir/learn.h"

/* A scan by an index teaches if it costs at least this share of the sequential scan. */
#define MOST			0.5

/* A table of the statement that is being planned */
typedef struct Note
{
	Oid			relid;
	Cost		least;			/* the least cost of a scan that teaches */
	double		rows;			/* of a scan, unless it is parallel */
	List	   *clauses;		/* as a plan has them, without values */
} Note;

/* of the innermost statement that is being planned, in its planner's memory */
static List *notes = NIL;

static planner_hook_type next_hook = NULL;

/* ---------- while paths are made ---------- */

bool
mtp_dirscan_teach_reads_most(List *paths, const Path *seq)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if ((path->pathtype == T_IndexScan || path->pathtype == T_BitmapHeapScan) &&
			path->param_info == NULL && path->total_cost >= MOST * seq->total_cost)
			return true;
	}
	return false;
}

void
mtp_dirscan_teach_note(Oid relid, RelOptInfo *rel, const Path *seq, List *clauses)
{
	Note	   *note = palloc(sizeof(Note));
	List	   *values = NIL;

	*note = (Note)
	{
		.relid = relid,.least = MOST * seq->total_cost,.rows = rel->rows
	};
	mtp_dirscan_write_clauses(clauses, &note->clauses, &values);
	notes = lappend(notes, note);
}

/* ---------- when it is executed ---------- */

/*
 * Counts the scan, and asks for directories of all pairs that have none, as a directory scan does
 * for pairs that it has read.
 */
static void
begin_lesson(CustomScanState *node, EState *estate, int eflags)
{
	Relation	rel = node->ss.ss_currentRelation;
	CustomScan *plan = castNode(CustomScan, node->ss.ps.plan);
	List	   *clauses = mtp_dirscan_read_clauses(plan->custom_private, NIL);
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	MtpPagedirColumns columns;
	uint32		npairs;
	int			n;

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) || estate->es_epq_active != NULL)
		return;
	n = mtp_dirscan_narrow_columns(clauses, attnums);
	if (n > 0)
		mtp_pagedir_learn_count(rel, estate->es_query_cxt, n, attnums);
	if (!mtp_pair_serves(rel) || !mtp_pair_serves_snapshot(estate->es_snapshot) ||
		mtp_dirscan_asking(rel, clauses, &n, attnums) == NIL ||
		!mtp_pagedir_describe(&columns, RelationGetDescr(rel), n, attnums))
		return;
	npairs = ((uint64) RelationGetNumberOfBlocks(rel) + 1) / 2;
	for (uint32 pair = 0; pair < npairs; pair++)
	{
		MtpPagedirHeader header;

		CHECK_FOR_INTERRUPTS();
		if (!mtp_pair_peek(rel, pair, MTP_FRAME_PAGEDIR, &header, sizeof(header)) ||
			!mtp_pagedir_is_of(&header, &columns))
			mtp_pagedir_request(rel, pair);
	}
	mtp_pagedir_request_flush();
}

static TupleTableSlot *
execute_lesson(CustomScanState *node)
{
	return NULL;
}

static void
end_lesson(CustomScanState *node)
{
}

static const CustomExecMethods exec_methods = {
	.CustomName = "directory lesson",
	.BeginCustomScan = begin_lesson,
	.ExecCustomScan = execute_lesson,
	.EndCustomScan = end_lesson,
	.ReScanCustomScan = end_lesson
};

static Node *
create_state(CustomScan *plan)
{
	CustomScanState *state = makeNode(CustomScanState);

	state->methods = &exec_methods;
	MtpSetCustomSlot(state, &TTSOpsBufferHeapTuple);
	return (Node *) state;
}

static const CustomScanMethods methods = {
	.CustomName = "directory lesson",
	.CreateCustomScanState = create_state
};

/* ---------- when the plan is made ---------- */

/*
 * Returns the note of a scan, or NULL.  If a statement names a table several times, the number of
 * rows tells which scan it is; where it does not, the scan teaches what another one of the same
 * statement asks.
 */
static const Note *
note_of(const Scan *scan, Oid relid)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		const Note *note = lfirst(lc);

		if (note->relid == relid && scan->plan.total_cost >= note->least &&
			(scan->plan.parallel_aware || scan->plan.plan_rows == note->rows))
			return note;
	}
	return NULL;
}

/* Adds a subplan for each scan in these plans that teaches. */
static void
teach_by(PlannedStmt *stmt, List *plans)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, plans)
	{
		Plan	   *plan = lfirst(lc);
		Scan	   *scan = (Scan *) plan;
		const Note *note;

		if (plan == NULL)
			continue;
		switch (nodeTag(plan))
		{
			case T_IndexScan:
			case T_BitmapHeapScan:
				note = note_of(scan, rt_fetch(scan->scanrelid, stmt->rtable)->relid);
				if (note != NULL)
				{
					CustomScan *lesson = makeNode(CustomScan);

					/* The subplan is not parallel safe, so workers don't get it. */
					lesson->scan.scanrelid = scan->scanrelid;
					lesson->custom_private = note->clauses;
					lesson->methods = &methods;
					stmt->subplans = lappend(stmt->subplans, lesson);
				}
				continue;
			case T_Append:
				teach_by(stmt, ((Append *) plan)->appendplans);
				break;
			case T_MergeAppend:
				teach_by(stmt, ((MergeAppend *) plan)->mergeplans);
				break;
			case T_SubqueryScan:
				teach_by(stmt, list_make1(((SubqueryScan *) plan)->subplan));
				break;
			case T_CustomScan:
				teach_by(stmt, ((CustomScan *) plan)->custom_plans);
				break;
			default:
				break;
		}
		teach_by(stmt, list_make2(plan->lefttree, plan->righttree));
	}
}

/* A function that the planner folds may plan statements of its own, which have their own notes. */
static PlannedStmt *
plan_statement(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	List	   *outer = notes;
	PlannedStmt *stmt;

	notes = NIL;
	PG_TRY();
	{
		stmt = (next_hook ? next_hook : standard_planner) (parse, query_string, cursor_options,
														   params);
		if (notes != NIL)
		{
			List	   *subplans = list_copy(stmt->subplans);

			teach_by(stmt, list_make1(stmt->planTree));
			teach_by(stmt, subplans);
		}
	}
	PG_FINALLY();
	{
		notes = outer;
	}
	PG_END_TRY();
	return stmt;
}

void
mtp_dirscan_teach_init(void)
{
	next_hook = planner_hook;
	planner_hook = plan_statement;
}
