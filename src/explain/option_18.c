/*
 * option_18.c
 *	  The option MTPOWER of EXPLAIN ANALYZE: what frames and batches were to a statement.
 *
 * PostgreSQL 18 lets extensions add options.  This one shows by how much the counters grow that
 * the process has anyway, from the start of the plan's executor to the end of its triggers.
 */
#include "explain/explain.h"

#if MTP_EXPLAIN_OPTIONS

#include "batch/batch.h"
#include "buffer/buffer.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_state.h"
#include "executor/executor.h"

typedef struct MtpExplainUsage
{
	uint64		frames[MTP_FRAME_KINDS][MTP_FRAME_COUNTS];
	MtpBatchUsage batches;
} MtpExplainUsage;

/* An EXPLAIN with the option; within a function that one executes there may be another. */
typedef struct MtpExplain
{
	struct MtpExplain *outer;
	bool		began;			/* the executor of the plan at hand has started, … */
	MtpExplainUsage before;		/* … and this was used before */
	MemoryContextCallback gone;
} MtpExplain;

static MtpExplain *innermost = NULL;
static int	explain_id;

static ExecutorStart_hook_type next_start = NULL;
static explain_validate_options_hook_type next_validate = NULL;
static explain_per_plan_hook_type next_plan = NULL;

/* Also after an error, when contexts go in any order. */
static void
forget(void *arg)
{
	for (MtpExplain **e = &innermost; *e != NULL; e = &(*e)->outer)
		if (*e == arg)
		{
			*e = (*e)->outer;
			return;
		}
}

static void
read_usage(MtpExplainUsage *usage)
{
	mtp_buffer_usage(&usage->frames[0][0]);
	mtp_batch_usage(&usage->batches);
}

static void
take_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	MtpExplain *e = GetExplainExtensionState(es, explain_id);

	if (e == NULL)
	{
		e = palloc0(sizeof(MtpExplain));
		e->gone.func = forget;
		e->gone.arg = e;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &e->gone);
	}
	else
		forget(e);
	if (defGetBoolean(option))
	{
		e->outer = innermost;
		innermost = e;
	}
	else
		e = NULL;
	SetExplainExtensionState(es, explain_id, e);
}

static void
validate_options(ExplainState *es, List *options, ParseState *pstate)
{
	if (next_validate)
		next_validate(es, options, pstate);
	if (GetExplainExtensionState(es, explain_id) != NULL && !es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "MTPOWER")));
}

/*
 * Planning may have executed functions, and the plan may.  But EXPLAIN's own plan is the first one
 * that is instrumented.
 */
static void
executor_start(QueryDesc *qd, int eflags)
{
	if (unlikely(innermost != NULL) && !innermost->began && qd->instrument_options != 0)
	{
		read_usage(&innermost->before);
		innermost->began = true;
	}
	(next_start ? next_start : standard_ExecutorStart) (qd, eflags);
}

/* What is printed, in this order: in text a word of a line, in other formats a property. */
static const struct
{
	const char *line;
	const char *word;
	const char *property;
}			shown[] = {
	{"Index Frames", "hit", "Index Frame Hits"},
	{"Index Frames", "torn", "Index Frames Torn"},
	{"Index Frames", "missed", "Index Frame Misses"},
	{"Table Frames", "hit", "Table Frame Hits"},
	{"Table Frames", "torn", "Table Frames Torn"},
	{"Table Frames", "missed", "Table Frame Misses"},
	{"Directory Frames", "hit", "Directory Frame Hits"},
	{"Directory Frames", "torn", "Directory Frames Torn"},
	{"Directory Frames", "missed", "Directory Frame Misses"},
	{"Batches", "applied", "Batches Applied"},
	{"Batches", "entries", "Batch Entries"},
	{"Batches", "by workers", "Batch Entries by Workers"},
	{"Batches", "waits", "Batch Waits"}
};

static void
subtract(const MtpExplainUsage *to, const MtpExplainUsage *from, uint64 *values)
{
	const MtpBatchUsage *new = &to->batches;
	const MtpBatchUsage *old = &from->batches;
	uint64		by_workers = new->entries[1] - old->entries[1];

	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
	{
		*values++ = to->frames[kind][MTP_COUNT_HITS] - from->frames[kind][MTP_COUNT_HITS];
		*values++ = to->frames[kind][MTP_COUNT_TORN] - from->frames[kind][MTP_COUNT_TORN];
		*values++ = to->frames[kind][MTP_COUNT_MISSES] - from->frames[kind][MTP_COUNT_MISSES];
	}
	*values++ = new->batches - old->batches;
	*values++ = new->entries[0] - old->entries[0] + by_workers;
	*values++ = by_workers;
	*values = new->waits - old->waits;
}

/* As core's usage of buffers: what is zero is left out, and all of it if all is. */
static void
print_text(ExplainState *es, const uint64 *values)
{
	const char *line = NULL;

	for (int i = 0; i < lengthof(shown); i++)
	{
		if (values[i] == 0)
			continue;
		if (line == NULL)
		{
			ExplainIndentText(es);
			appendStringInfoString(es->str, "Mtpower:\n");
			es->indent++;
		}
		if (line == NULL || strcmp(line, shown[i].line) != 0)
		{
			if (line != NULL)
				appendStringInfoChar(es->str, '\n');
			line = shown[i].line;
			ExplainIndentText(es);
			appendStringInfo(es->str, "%s:", line);
		}
		appendStringInfo(es->str, " %s=" UINT64_FORMAT, shown[i].word, values[i]);
	}
	if (line == NULL)
		return;
	appendStringInfoChar(es->str, '\n');
	es->indent--;
}

static void
print_plan(PlannedStmt *stmt, IntoClause *into, ExplainState *es, const char *query,
		   ParamListInfo params, QueryEnvironment *env)
{
	MtpExplain *e = GetExplainExtensionState(es, explain_id);
	MtpExplainUsage now;
	uint64		values[lengthof(shown)];

	if (next_plan)
		next_plan(stmt, into, es, query, params, env);
	if (e == NULL || !e->began)
		return;
	e->began = false;			/* a rule may have made further plans of the statement */
	read_usage(&now);
	subtract(&now, &e->before, values);
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		print_text(es, values);
		return;
	}
	ExplainOpenGroup("Mtpower", "Mtpower", true, es);
	for (int i = 0; i < lengthof(shown); i++)
		ExplainPropertyUInteger(shown[i].property, NULL, values[i], es);
	ExplainCloseGroup("Mtpower", "Mtpower", true, es);
}

void
mtp_explain_init(void)
{
	explain_id = GetExplainExtensionId("mtpower");
	RegisterExtensionExplainOption("mtpower", take_option);
	next_validate = explain_validate_options_hook;
	explain_validate_options_hook = validate_options;
	next_plan = explain_per_plan_hook;
	explain_per_plan_hook = print_plan;
	next_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

#endif							/* MTP_EXPLAIN_OPTIONS */
