/*
 * statement.c
 *	  Statements: where queueing begins and where it must have ended.
 *
 * An entry never outlives the statement that queued it (invariant E1).  Statements are C calls and
 * nest strictly: the hooks here push one, call on, drain what was queued in it, and pop it.  On an
 * error they pop it and throw its entries away.
 */
#include "batch/statement.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "core/inject.h"

/* Our own indexes gain from a fourth of mtpower.batch_min_rows on. */
#define MTP_OWN_ROWS	4

MtpStatement *mtp_batch_statement = NULL;
bool		mtp_batch_ending = false;

static uint32 last_serial = 0;
static bool committing = false; /* from our PRE_COMMIT to the transaction's end */
static SubTransactionId closing_subxid = InvalidSubTransactionId;	/* it is being committed */
static MtpStatement replication_statement;

static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;

/*
 * Nothing drains a queue once its transaction or subtransaction is being committed, and what the
 * comparison functions of a unit insert must not be queued.
 */
bool
mtp_batch_queue_closed(void)
{
	return committing || mtp_batch_drain_busy() ||
		(closing_subxid != InvalidSubTransactionId &&
		 GetCurrentSubTransactionId() == closing_subxid);
}

MemoryContext
mtp_batch_statement_context(MtpStatement *s)
{
	if (s->cxt == NULL)
		s->cxt = AllocSetContextCreate(TopTransactionContext, "mtpower statement",
									   ALLOCSET_DEFAULT_SIZES);
	return s->cxt;
}

static void
push_statement(MtpStatement *s, CommandId cid)
{
	memset(s, 0, offsetof(MtpStatement, places));
	s->outer = mtp_batch_statement;
	s->serial = (uint64) MyProcPid << 32 | ++last_serial;
	s->cid = cid;
	s->subxid = GetCurrentSubTransactionId();
	s->lock_timeout = LockTimeout;
	s->at_once = (uint32) mtp_batch_min_rows + 1;
	mtp_batch_statement = s;
}

/* The statement's entries are applied or cancelled. */
static void
pop_statement(MtpStatement *s)
{
	Assert(mtp_batch_statement == s);
#ifdef USE_ASSERT_CHECKING
	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		Assert(q->pending == 0 && q->batch == NULL);
#endif
	mtp_batch_statement = s->outer;
	if (s->outer != NULL)
		s->outer->rows += s->rows;
	else
		mtp_batch_progress_end();
	if (s->cxt)
		MemoryContextDelete(s->cxt);
}

/* An error passes: this statement and those inside of it are gone without draining. */
static void
abandon_statement(MtpStatement *s)
{
	mtp_batch_ending = false;
	while (mtp_batch_statement != s->outer)
	{
		mtp_batch_cancel(mtp_batch_statement->serial, InvalidSubTransactionId);
		pop_statement(mtp_batch_statement);
	}
}

/*
 * The statement's end: everything goes in (invariant E1), and no worker stays behind with its
 * locks.  The locks on the indexes go last: until then no session may get in between (README.md,
 * *Order of locks*).  EXPLAIN and auto_explain count the time and the usage as the plan's.
 */
static void
drain_statement(MtpStatement *s, QueryDesc *qd)
{
	Instrumentation *node = NULL;
	bool		used = false;

	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		used |= q->used;
	if (!used)
		return;
	if (qd && qd->totaltime)
		InstrStartNode(qd->totaltime);
	if (qd && qd->planstate && (node = qd->planstate->instrument) != NULL)
		InstrStartNode(node);
	mtp_batch_ending = true;
	mtp_batch_progress_ending(s);
	mtp_batch_drain(s->serial, InvalidOid, InvalidSubTransactionId);
	mtp_batch_ending = false;

	/*
	 * Core checked for serializable conflicts when it called aminsert, before the entries were in
	 * the index.  A reader that came in between is found only now.
	 */
	for (MtpQueue *q = s->queues; q != NULL && IsolationIsSerializable(); q = q->next)
		if (q->used)
		{
			Relation	index = index_open(q->indexid, RowExclusiveLock);

			CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
			index_close(index, RowExclusiveLock);
		}
	mtp_batch_drain_detach(s->serial);
	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		mtp_batch_queue_unlock(q);
	mtp_batch_load_take_usage();
	if (node)
		InstrStopNode(node, 0);
	if (qd && qd->totaltime)
		InstrStopNode(qd->totaltime, 0);
}

/* True if the statement has queued something in the subtransaction (0: any) or its children. */
static bool
pending_in(MtpStatement *s, SubTransactionId subxid)
{
	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		if (q->subxid >= subxid && q->pending > 0)
			return true;
	return false;
}

/* Applies all that this backend has queued, in whichever statement. */
static void
drain_all(void)
{
	if (mtp_batch_pending == 0)
		return;
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		s->forced += pending_in(s, InvalidSubTransactionId);
	mtp_batch_drain(0, InvalidOid, InvalidSubTransactionId);
}

static bool
has_on_conflict(Plan *plan)
{
	return plan != NULL && IsA(plan, ModifyTable) &&
		((ModifyTable *) plan)->onConflictAction != ONCONFLICT_NONE;
}

/* True if the statement inserts rows that it may take back. */
static bool
has_speculative_rows(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (has_on_conflict(stmt->planTree))
		return true;
	foreach(lc, stmt->subplans)
		if (has_on_conflict(lfirst(lc)))
		return true;
	return false;
}

/* How many rows an INSERT of VALUES brings; 0 where the plan does not tell. */
static int
known_rows(PlannedStmt *stmt)
{
	Plan	   *source = IsA(stmt->planTree, ModifyTable) ? outerPlan(stmt->planTree) : NULL;

	if (stmt->commandType != CMD_INSERT || source == NULL || !IsA(source, ValuesScan))
		return 0;
	return list_length(((ValuesScan *) source)->values_lists);
}

/*
 * So many rows are coming, if n is not 0.  None goes in at once if that is enough; where it is a
 * part of that, entries of indexes of our own are queued.
 */
static void
announce_rows(MtpStatement *s, int n)
{
	if (n > 0 && n >= mtp_batch_min_rows)
		s->at_once = 0;
	else if (n > 0 && n >= mtp_batch_min_rows / MTP_OWN_ROWS)
		s->own_queue = true;
}

static void
call_executor(QueryDesc *qd, bool finish, ScanDirection direction, uint64 count, bool once)
{
	if (finish)
		(next_finish ? next_finish : standard_ExecutorFinish) (qd);
	else
		MtpCallExecutorRun(next_run ? next_run : standard_ExecutorRun, qd, direction, count, once);
}

/* Runs or finishes a plan, in a statement of its own if it may insert entries. */
static void
execute(QueryDesc *qd, bool finish, ScanDirection direction, uint64 count, bool once)
{
	PlannedStmt *stmt = qd->plannedstmt;
	MtpStatement s;

	if (!stmt->hasModifyingCTE && stmt->commandType != CMD_INSERT &&
		stmt->commandType != CMD_UPDATE && stmt->commandType != CMD_DELETE &&
		stmt->commandType != CMD_MERGE)
	{
		call_executor(qd, finish, direction, count, once);
		return;
	}
	push_statement(&s, qd->estate->es_output_cid);
	announce_rows(&s, known_rows(stmt));
	s.speculates = has_speculative_rows(stmt);
	s.inserts = stmt->commandType == CMD_INSERT && !stmt->hasModifyingCTE && !s.speculates;
	PG_TRY();
	{
		call_executor(qd, finish, direction, count, once);
		drain_statement(&s, qd);
	}
	PG_CATCH();
	{
		abandon_statement(&s);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pop_statement(&s);
}

static void
executor_run(QueryDesc *qd, ScanDirection direction, uint64 count MTP_ONCE_PARAMETER)
{
	/* Parallel workers can't see this backend's queues: they must be empty. */
	if (qd->plannedstmt->parallelModeNeeded)
		drain_all();
	execute(qd, false, direction, count, MTP_ONCE);
}

static bool
have_triggers(List *result_relations)
{
	ListCell   *lc;

	foreach(lc, result_relations)
	{
		if (((ResultRelInfo *) lfirst(lc))->ri_TrigDesc != NULL)
			return true;
	}
	return false;
}

/*
 * Modifying CTEs that nobody read to their end run in here, and AFTER triggers.  Where there are
 * neither, nothing can insert any more, and the plan ends without a statement.
 */
static void
executor_finish(QueryDesc *qd)
{
	if (qd->plannedstmt->hasModifyingCTE ||
		have_triggers(qd->estate->es_opened_result_relations) ||
		have_triggers(qd->estate->es_tuple_routing_result_relations))
		execute(qd, true, NoMovementScanDirection, 0, false);
	else
		call_executor(qd, true, NoMovementScanDirection, 0, false);
}

static void
call_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			 ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
			 DestReceiver *dest, QueryCompletion *qc)
{
	(next_utility ? next_utility : standard_ProcessUtility)
		(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

/*
 * Flushes before any utility command.  COPY FROM runs in a statement of its own.  A command that
 * wants a database for itself gets it without workers.
 */
static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
				DestReceiver *dest, QueryCompletion *qc)
{
	MtpStatement s;
	CopyStmt   *copy = (CopyStmt *) pstmt->utilityStmt;
	bool		loading = IsA(copy, CopyStmt) && copy->is_from;
	const char *wanted;
	ListCell   *lc;

	drain_all();

	/* The command may want a lock at once that a worker of a statement around it still has. */
	if (!mtp_batch_drain_busy())
		for (MtpStatement *outer = mtp_batch_statement; outer != NULL; outer = outer->outer)
			mtp_batch_drain_detach(outer->serial);
	wanted = mtp_database_wanted_by(pstmt->utilityStmt, context == PROCESS_UTILITY_TOPLEVEL);
	if (!loading && wanted == NULL)
	{
		call_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	if (loading)
	{
		push_statement(&s, GetCurrentCommandId(false));
		s.inserts = true;
		s.copies = true;
		/* Core reads the option's value: the rows may be older than any snapshot. */
		foreach(lc, copy->options)
			s.frozen |= strcmp(lfirst_node(DefElem, lc)->defname, "freeze") == 0;
	}
	PG_TRY();
	{
		if (wanted)
			mtp_workers_vacate(wanted);
		call_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		if (loading)
			drain_statement(&s, NULL);
	}
	PG_CATCH();
	{
		if (loading)
			abandon_statement(&s);
		else
			mtp_workers_return();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (loading)
		pop_statement(&s);
	else
		mtp_workers_return();
}

/*
 * The table AM's announcement.  A subscription's initial copy calls CopyFrom without any hook:
 * there the first multi_insert opens a statement.  Its command is the rows': triggers may have
 * begun later ones since the copy began.
 */
void
mtp_batch_announce(Relation rel, int ntuples, CommandId cid)
{
	Oid			relid = RelationGetRelid(rel);
	MtpStatement *s;
	MemoryContext old;

	if (mtp_batch_statement == NULL && IsLogicalWorker() && !mtp_batch_queue_closed())
	{
		push_statement(&replication_statement, cid);
		replication_statement.inserts = true;
		replication_statement.copies = true;
		replication_statement.replication = true;
	}
	s = mtp_batch_statement;
	if (s == NULL)
		return;
	announce_rows(s, ntuples);
	if (ntuples < mtp_batch_min_rows)
		return;
	s->bulk_heap = relid;
	s->bulk_rows = ntuples;
	if (!s->replication || list_member_oid(s->announced, relid))
		return;
	old = MemoryContextSwitchTo(mtp_batch_statement_context(s));
	s->announced = lappend_oid(s->announced, relid);
	MemoryContextSwitchTo(old);
}

/* Logical replication's statement ends when the last relation's bulk insert is over. */
void
mtp_batch_finish_bulk(Relation rel)
{
	MtpStatement *s = &replication_statement;
	Oid			relid = RelationGetRelid(rel);

	if (mtp_batch_statement != s || !s->replication)
		return;
	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		if (q->heapid == relid)
			mtp_batch_drain(s->serial, q->indexid, InvalidSubTransactionId);
	s->announced = list_delete_oid(s->announced, relid);
	if (s->announced != NIL)
		return;
	drain_statement(s, NULL);
	s->replication = false;
	pop_statement(s);
}

/*
 * Rows that the scan's snapshot can't see need not be in the index: an INSERT … SELECT from its
 * own table goes on queueing.
 */
void
mtp_batch_flush_before_scan(Relation index, Snapshot snapshot)
{
	Oid			indexid = RelationGetRelid(index);
	MtpQueue   *q;

	/* The planner's look at an index's ends. */
	if (snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE)
		return;
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
	{
		if (!s->frozen && snapshot != NULL && IsMVCCSnapshot(snapshot) &&
			snapshot->curcid <= s->cid)
			continue;
		/* Of such an index it queues nothing.  ON CONFLICT looks there for each row. */
		if (index->rd_index->indisunique && !s->inserts)
			continue;
		q = mtp_batch_queue_pending(s, indexid);
		if (q != NULL)
		{
			mtp_batch_drain(s->serial, indexid, InvalidSubTransactionId);
			q->forced++;
		}
	}
}

void
mtp_batch_flush_unique(Oid heapid, Oid indexid)
{
	SubTransactionId subxid = GetCurrentSubTransactionId();

	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
	{
		/* What this statement queues in its own subtransaction may conflict at its end. */
		if (!s->inserts || (s == mtp_batch_statement && s->subxid == subxid) ||
			(OidIsValid(indexid) && mtp_batch_queue_pending(s, indexid) == NULL))
			continue;
		for (MtpQueue *q = s->queues; q != NULL; q = q->next)
			if (q->unique && q->pending > 0 && q->heapid == heapid &&
				(!OidIsValid(indexid) || q->indexid == indexid) &&
				(s != mtp_batch_statement || q->subxid != subxid))
			{
				mtp_batch_drain(s->serial, q->indexid, InvalidSubTransactionId);
				q->forced++;
			}
	}
}

MtpStatement *
mtp_batch_statement_of(MtpBatch *b)
{
	MtpStatement *s = mtp_batch_statement;

	while (s != NULL && s->serial != b->serial)
		s = s->outer;
	return s;
}

/* The subtransaction comes first: there may be no memory for the rest. */
void
mtp_batch_statement_fail(MtpStatement *s, SubTransactionId subxid, Oid userid)
{
	MemoryContext old;

	if (s == NULL ||
		(s->failed_subxid != InvalidSubTransactionId && s->failed_subxid <= subxid))
		return;
	s->failed_subxid = subxid;
	s->error_userid = userid;
	s->error = NULL;

	/* ReThrowError takes over the names of files and functions, which outlive the statement so. */
	old = MemoryContextSwitchTo(TopTransactionContext);
	s->error = CopyErrorData();
	MemoryContextSwitchTo(old);
}

/* Whoever else's function brings the error up sees no values of the rows. */
void
mtp_batch_statement_check(void)
{
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
	{
		ErrorData	error;

		if (s->failed_subxid == InvalidSubTransactionId)
			continue;
		if (s->error == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Index entries of the statement were lost by an error.")));
		error = *s->error;
		if (GetUserId() != s->error_userid)
			error.detail = error.detail_log = NULL;
		ReThrowError(&error);
	}
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			/* A safety net: every statement has drained what it queued (invariant E1). */
			Assert(mtp_batch_pending == 0);
			drain_all();

			/* Nothing drains from here on: what other callbacks insert goes in at once. */
			committing = true;
			break;
		case XACT_EVENT_ABORT:
			/* By now other processes see that the transaction is over (invariant E7). */
			MTP_INJECT("abort");
			/* FALLTHROUGH */
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			/* The stacks of the hooks are gone; TopTransactionContext frees the contexts. */
			mtp_batch_cancel(0, InvalidSubTransactionId);
			mtp_batch_statement = NULL;
			mtp_batch_progress_end();
			mtp_batch_ending = false;	/* an error passed no hook of ours */
			mtp_batch_pending = 0;
			replication_statement.replication = false;
			committing = false;
			closing_subxid = InvalidSubTransactionId;
			break;
		default:
			break;
	}
}

/*
 * What a subtransaction queued goes in before its commit, and is thrown away at its abort.  From
 * PRE_COMMIT_SUB on nothing is queued in it (mtp_batch_queue_closed).
 */
static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid, SubTransactionId parentSubid,
				 void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			for (MtpStatement *s = mtp_batch_statement; s && mtp_batch_pending > 0; s = s->outer)
				if (pending_in(s, mySubid))
					mtp_batch_drain(0, InvalidOid, mySubid);
			closing_subxid = mySubid;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			MTP_INJECT("abort");
			mtp_batch_cancel(0, mySubid);
			for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
				if (s->failed_subxid >= mySubid)
					s->failed_subxid = InvalidSubTransactionId;

			/*
			 * An error between a multi_insert of logical replication and its finish_bulk_insert
			 * passes no hook.  Left open, the statement would queue what the transaction does
			 * next.
			 */
			if (mtp_batch_statement == &replication_statement &&
				replication_statement.replication && replication_statement.subxid >= mySubid)
			{
				replication_statement.replication = false;
				mtp_batch_ending = false;
				pop_statement(&replication_statement);
			}
			closing_subxid = InvalidSubTransactionId;
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			closing_subxid = InvalidSubTransactionId;
			break;
		case SUBXACT_EVENT_START_SUB:
			break;
	}
}

void
mtp_batch_statement_init(void)
{
	next_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
