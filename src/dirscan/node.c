/*
 * node.c
 *	  The directory scan as a node of the executor: begin, end, rescan, sharing with
 *	  parallel workers, and EXPLAIN.
 */
#include "dirscan/dirscan.h"

#include <math.h>

#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pagedir/request.h"
#include "pagedir/learn.h"
#include "utils/lsyscache.h"

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	MtpDirscanState *s = (MtpDirscanState *) node;
	CustomScan *plan = castNode(CustomScan, node->ss.ps.plan);
	ListCell   *lc;

#if MTP_CUSTOM_SLOT_IS_VIRTUAL

	/*
	 * Core has prepared a virtual slot.  With a slot of the table's kind the scan need not copy
	 * rows, and they have their system columns.  Expressions are compiled for a kind of slot, so
	 * this makes them anew.
	 */
	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(node->ss.ss_currentRelation),
						  table_slot_callbacks(node->ss.ss_currentRelation));
	node->ss.ps.subPlan = NIL;
	ExecAssignScanProjectionInfo(&node->ss);
	node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, &node->ss.ps);
#endif
	s->clauses = mtp_dirscan_read_clauses(linitial(plan->custom_private), plan->custom_exprs);
	s->zones.indexid = linitial_oid(lsecond(plan->custom_private));
	foreach(lc, s->clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		if (clause->value != NULL)
			clause->state = ExecInitExpr(clause->value, &node->ss.ps);
	}
	s->key_context = CreateExprContext(estate);
}

/* Counts what the scan asks of this table, once for an execution, in the leader. */
static void
count_scan(MtpDirscanState *s)
{
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	int			n;

	if (s->counted || IsParallelWorker() || s->css.ss.ps.state->es_epq_active != NULL)
		return;
	s->counted = true;
	n = mtp_dirscan_narrow_columns(s->clauses, attnums);
	if (n > 0)
		mtp_pagedir_learn_count(s->css.ss.ss_currentRelation, s->css.ss.ps.state->es_query_cxt, n,
								attnums);
}

/*
 * A scan of the pages that a zone index leaves keeps them in shared buffers, for the next look-up,
 * and does not begin where another scan is.
 */
static TableScanDesc
begin_blocks(MtpDirscanState *s)
{
	bool		all = !OidIsValid(s->zones.indexid);
	TableScanDesc scan = table_beginscan_strat(s->css.ss.ss_currentRelation,
											   s->css.ss.ps.state->es_snapshot, 0, NULL, all, all);

	/* The statistics count a loop of look-ups as one sequential scan, and as scans of the index. */
	if (!all)
		scan->rs_flags &= ~SO_TYPE_SEQSCAN;
	return scan;
}

static TupleTableSlot *
next_row(ScanState *node)
{
	MtpDirscanState *s = (MtpDirscanState *) node;

	if (unlikely(!s->begun))
	{
		count_scan(s);
		s->begun = true;
		if (node->ss_currentScanDesc == NULL)
			node->ss_currentScanDesc = begin_blocks(s);
		mtp_dirscan_begin_asking(s);
		mtp_dirscan_begin_pruning(s);
	}
	if (unlikely(!s->started))
	{
		mtp_dirscan_prune(s);
		mtp_dirscan_begin_reading(s);
		s->started = true;
	}
	return mtp_dirscan_next(s);
}

/* All clauses are in the plan's qual, which ExecScan tests. */
static bool
recheck_row(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

/*
 * ExecScan without the tests that each row costs there because EvalPlanQual may have replaced it.
 */
static TupleTableSlot *
execute_scan(CustomScanState *node)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
	TupleTableSlot *slot;

	if (unlikely(node->ss.ps.state->es_epq_active != NULL))
		return ExecScan(&node->ss, next_row, recheck_row);
	ResetExprContext(econtext);
	while ((slot = next_row(&node->ss)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		econtext->ecxt_scantuple = slot;
		if (ExecQual(node->ss.ps.qual, econtext))
		{
			if (projection == NULL)
				return slot;
			/* A query that needs no column (count(*)) gets an empty row, without projecting. */
			if (node->ss.ps.plan->targetlist == NIL)
				return ExecStoreVirtualTuple(ExecClearTuple(projection->pi_state.resultslot));
			return ExecProject(projection);
		}
		InstrCountFiltered1(node, 1);
		ResetExprContext(econtext);
	}
	return projection == NULL ? NULL : ExecClearTuple(projection->pi_state.resultslot);
}

static void
end_scan(CustomScanState *node)
{
	MtpDirscanState *s = (MtpDirscanState *) node;

	mtp_dirscan_end_reading(s);
	if (node->ss.ss_currentScanDesc != NULL)
		table_endscan(node->ss.ss_currentScanDesc);
	mtp_dirscan_end_pruning(s);
	if (s->wants)
		mtp_pagedir_request_flush();
}

static void
rescan_from_start(CustomScanState *node)
{
	MtpDirscanState *s = (MtpDirscanState *) node;

	mtp_dirscan_end_reading(s);
	if (node->ss.ss_currentScanDesc != NULL)
		table_rescan(node->ss.ss_currentScanDesc, NULL);
	s->has_keys = false;
	s->nothing = false;
	ResetExprContext(s->key_context);
	s->started = false;
	ExecScanReScan(&node->ss);
}

/* Core hands out blocks: its descriptor of a parallel sequential scan lies behind the counts. */
static ParallelTableScanDesc
blocks_behind(void *shared)
{
	return (ParallelTableScanDesc) ((char *) shared + MAXALIGN(sizeof(MtpDirscanShared)));
}

static Size
estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	return add_size(MAXALIGN(sizeof(MtpDirscanShared)),
					table_parallelscan_estimate(node->ss.ss_currentRelation,
												node->ss.ps.state->es_snapshot));
}

static void
begin_shared(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	MtpDirscanState *s = (MtpDirscanState *) node;

	/*
	 * Below a LIMIT that is run again there may have been an earlier descriptor, whose memory is
	 * gone.
	 */
	mtp_dirscan_end_reading(s);
	if (node->ss.ss_currentScanDesc != NULL)
		table_endscan(node->ss.ss_currentScanDesc);
	mtp_dirscan_end_pruning(s);
	s->begun = s->started = false;
	s->shared = shared;
	pg_atomic_init_u64(&s->shared->searches, 0);
	pg_atomic_init_u64(&s->shared->found, 0);
	pg_atomic_init_u64(&s->shared->pairs, 0);
	for (int i = 0; i < MTP_DIRSCAN_COUNTS; i++)
		pg_atomic_init_u64(&s->shared->counts[i], 0);
	table_parallelscan_initialize(node->ss.ss_currentRelation, blocks_behind(shared),
								  node->ss.ps.state->es_snapshot);
	node->ss.ss_currentScanDesc = table_beginscan_parallel(node->ss.ss_currentRelation,
														   blocks_behind(shared));
	count_scan(s);
}

static void
rescan_shared(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	table_parallelscan_reinitialize(node->ss.ss_currentRelation, blocks_behind(shared));
}

static void
begin_worker(CustomScanState *node, shm_toc *toc, void *shared)
{
	((MtpDirscanState *) node)->shared = shared;
	node->ss.ss_currentScanDesc = table_beginscan_parallel(node->ss.ss_currentRelation,
														   blocks_behind(shared));
}

/* A worker adds its count to the shared one; the leader takes that. */
static void
add_up(pg_atomic_uint64 *shared, uint64 *count)
{
	if (IsParallelWorker())
		pg_atomic_fetch_add_u64(shared, *count);
	else
		*count += pg_atomic_read_u64(shared);
}

/*
 * Adds up the counts before the shared memory goes.  When the leader comes here its workers have
 * ended, except below a LIMIT; their counts are lost.
 */
static void
finish_shared(CustomScanState *node)
{
	MtpDirscanState *s = (MtpDirscanState *) node;

	if (s->shared == NULL)
		return;
	for (int i = 0; i < MTP_DIRSCAN_COUNTS; i++)
		add_up(&s->shared->counts[i], &s->counts[i]);
	add_up(&s->shared->searches, &s->zones.searches);
	add_up(&s->shared->found, &s->zones.found);
	add_up(&s->shared->pairs, &s->zones.pairs);
	s->shared = NULL;
}

/* Shows which zone index is searched, and with ANALYZE what a search leaves, on average. */
static void
explain_zones(const MtpDirscanState *s, ExplainState *es)
{
	double		searches = Max(s->zones.searches, 1);
	double		found = rint(s->zones.found / searches);
	double		pairs = rint(s->zones.pairs / searches);

	ExplainPropertyText("Zone Index", get_rel_name(s->zones.indexid), es);
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Zones", psprintf("%.0f of %.0f pairs", found, pairs), es);
	else
	{
		ExplainPropertyFloat("Zones Found", NULL, found, 0, es);
		ExplainPropertyFloat("Zones", NULL, pairs, 0, es);
	}
}

/* Shows which directories the scan asks, and with ANALYZE how it read its pages. */
static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	MtpDirscanState *s = (MtpDirscanState *) node;
	Relation	table = s->css.ss.ss_currentRelation;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	uint64	   *counts = s->counts;
	int			n;

	if (mtp_dirscan_asking(table, s->clauses, &n, attnums) != NIL)
	{
		TupleDesc	desc = RelationGetDescr(table);
		List	   *names = NIL;

		for (int i = 0; i < n; i++)
			names = lappend(names, NameStr(TupleDescAttr(desc, attnums[i] - 1)->attname));
		ExplainPropertyList("Directory", names, es);
	}
	if (OidIsValid(s->zones.indexid))
		explain_zones(s, es);
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		char	   *pages = psprintf(UINT64_FORMAT " by directory, " UINT64_FORMAT " skipped, "
									 UINT64_FORMAT " scanned", counts[MTP_DIRSCAN_ASKED],
									 counts[MTP_DIRSCAN_SKIPPED], counts[MTP_DIRSCAN_READ]);

		ExplainPropertyText("Pages", pages, es);
		return;
	}
	ExplainPropertyUInteger("Pages by Directory", NULL, counts[MTP_DIRSCAN_ASKED], es);
	ExplainPropertyUInteger("Pages Skipped", NULL, counts[MTP_DIRSCAN_SKIPPED], es);
	ExplainPropertyUInteger("Pages Scanned", NULL, counts[MTP_DIRSCAN_READ], es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "directory scan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = execute_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan_from_start,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = begin_shared,
	.ReInitializeDSMCustomScan = rescan_shared,
	.InitializeWorkerCustomScan = begin_worker,
	.ShutdownCustomScan = finish_shared,
	.ExplainCustomScan = explain_scan
};

static Node *
create_state(CustomScan *plan)
{
	MtpDirscanState *s = palloc0(sizeof(MtpDirscanState));

	NodeSetTag(&s->css, T_CustomScanState);
	s->css.methods = &exec_methods;
	MtpSetCustomSlot(&s->css, &TTSOpsBufferHeapTuple);
	return (Node *) s;
}

CustomScanMethods mtp_dirscan_methods = {
	.CustomName = "directory scan",
	.CreateCustomScanState = create_state
};
