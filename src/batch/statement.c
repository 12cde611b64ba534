/*
 * statement.c
 *	  Statements: where queueing begins and where it must have ended.
 *
 * An entry never outlives the statement that queued it.  Statements are C calls and nest strictly:
 * the hooks here push a frame, call on, drain what was queued in it, and pop it; on an error they
 * pop it and throw its entries away.
 */
#include "batch/statement.h"

#include "access/table.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "replication/logicalworker.h"
#include "storage/predicate.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "core/inject.h"

MtpStatement *mtp_batch_statement = NULL;

static uint32 last_serial = 0;
static bool committing = false; /* from our PRE_COMMIT to the transaction's end */
static SubTransactionId closing_subxid = InvalidSubTransactionId;
static MtpStatement replication_statement;

static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;

bool
mtp_batch_queue_closed(void)
{
	return committing || mtp_batch_drain_busy() ||
		(closing_subxid != InvalidSubTransactionId &&
		 GetCurrentSubTransactionId() == closing_subxid);
}

MemoryContext
mtp_batch_statement_context(MtpStatement *f)
{
	if (f->cxt == NULL)
		f->cxt = AllocSetContextCreate(TopTransactionContext, "mtpower statement",
									   ALLOCSET_DEFAULT_SIZES);
	return f->cxt;
}

static void
push(MtpStatement *f, CommandId cid, bool direct)
{
	memset(f, 0, offsetof(MtpStatement, places));
	f->outer = mtp_batch_statement;
	f->serial = (uint64) MyProcPid << 32 | ++last_serial;
	f->cid = cid;
	f->direct = direct;
	f->at_once = (uint32) mtp_batch_min_rows + 1;
	mtp_batch_statement = f;
}

/* Leaves the frame's entries applied or cancelled behind. */
static void
pop(MtpStatement *f)
{
	Assert(mtp_batch_statement == f);
#ifdef USE_ASSERT_CHECKING
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		Assert(q->pending == 0 && q->batch == NULL);
#endif
	mtp_batch_statement = f->outer;
	if (f->cxt)
		MemoryContextDelete(f->cxt);
}

/* An error passes: frames inside of this one, and this one, are gone without draining. */
static void
abandon(MtpStatement *f)
{
	for (;;)
	{
		MtpStatement *inner = mtp_batch_statement;

		mtp_batch_cancel(inner->serial, InvalidSubTransactionId);
		pop(inner);
		if (inner == f)
			break;
	}
}

/*
 * Core checked for serializable conflicts when aminsert was called, that is when the entry was
 * merely queued: a reader that came before the entry was in the index is found only now.
 */
static void
check_serializable(MtpStatement *f)
{
	if (!IsolationIsSerializable())
		return;
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
	{
		Relation	index;

		if (!q->used)
			continue;
		index = index_open(q->indexid, RowExclusiveLock);
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
		index_close(index, RowExclusiveLock);
	}
}

static bool
frame_used(MtpStatement *f)
{
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		if (q->used)
			return true;
	return false;
}

/* The statement's end: everything goes in, and no worker stays behind with its locks. */
static void
drain_statement(MtpStatement *f, QueryDesc *qd)
{
	Instrumentation *node = NULL;

	if (!frame_used(f))
		return;
	if (qd && qd->totaltime)
		InstrStartNode(qd->totaltime);
	if (qd && qd->planstate && (node = qd->planstate->instrument) != NULL)
		InstrStartNode(node);
	mtp_batch_drain(f->serial, InvalidOid, InvalidSubTransactionId);
	check_serializable(f);
	mtp_batch_drain_detach(f->serial);
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		mtp_batch_queue_unlock(q);
	mtp_batch_load_take_usage();
	if (node)
		InstrStopNode(node, 0);
	if (qd && qd->totaltime)
		InstrStopNode(qd->totaltime, 0);
}

/* Is anything queued in the subtransaction or its children? */
static bool
pending_in(SubTransactionId subxid)
{
	if (mtp_batch_pending > 0)
		for (MtpStatement *f = mtp_batch_statement; f != NULL; f = f->outer)
			for (MtpQueue *q = f->queues; q != NULL; q = q->next)
				if (q->subxid >= subxid && q->pending > 0)
					return true;
	return false;
}

/* A statement whose entries barriers force in again and again gives up queueing. */
static void
count_forced(MtpStatement *f)
{
	if (++f->forced >= MTP_MAX_FORCED)
		f->direct = true;
}

static void
drain_all(void)
{
	if (mtp_batch_pending == 0)
		return;
	for (MtpStatement *f = mtp_batch_statement; f != NULL; f = f->outer)
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
			if (q->pending > 0)
			{
				count_forced(f);
				break;
			}
	mtp_batch_drain(0, InvalidOid, InvalidSubTransactionId);
}

/* Does the statement insert anything? */
static bool
modifies(PlannedStmt *stmt)
{
	return stmt->commandType == CMD_INSERT || stmt->commandType == CMD_UPDATE ||
		stmt->commandType == CMD_DELETE || stmt->commandType == CMD_MERGE ||
		stmt->hasModifyingCTE;
}

static bool
has_on_conflict(Plan *plan)
{
	return plan != NULL && IsA(plan, ModifyTable) &&
		((ModifyTable *) plan)->onConflictAction != ONCONFLICT_NONE;
}

/*
 * A speculative insertion passes UNIQUE_CHECK_NO to indexes that are not unique, and when it is
 * taken back its tuple is dead: with ON CONFLICT everything goes in at once.
 */
static bool
must_be_direct(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (has_on_conflict(stmt->planTree))
		return true;
	foreach(lc, stmt->subplans)
		if (has_on_conflict(lfirst(lc)))
		return true;
	return false;
}

static void
executor_run(QueryDesc *qd, ScanDirection direction, uint64 count, bool execute_once)
{
	MtpStatement f;

	/* Parallel workers can't see this backend's queues: they must be empty. */
	if (qd->plannedstmt->parallelModeNeeded)
		drain_all();
	if (!modifies(qd->plannedstmt))
	{
		if (next_run)
			next_run(qd, direction, count, execute_once);
		else
			standard_ExecutorRun(qd, direction, count, execute_once);
		return;
	}
	push(&f, qd->estate->es_output_cid, must_be_direct(qd->plannedstmt));
	PG_TRY();
	{
		if (next_run)
			next_run(qd, direction, count, execute_once);
		else
			standard_ExecutorRun(qd, direction, count, execute_once);
		drain_statement(&f, qd);
	}
	PG_CATCH();
	{
		abandon(&f);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pop(&f);
}

/* Modifying CTEs that nobody read to their end run in here, and AFTER triggers. */
static void
executor_finish(QueryDesc *qd)
{
	MtpStatement f;

	if (!modifies(qd->plannedstmt))
	{
		if (next_finish)
			next_finish(qd);
		else
			standard_ExecutorFinish(qd);
		return;
	}
	push(&f, qd->estate->es_output_cid, must_be_direct(qd->plannedstmt));
	PG_TRY();
	{
		if (next_finish)
			next_finish(qd);
		else
			standard_ExecutorFinish(qd);
		drain_statement(&f, qd);
	}
	PG_CATCH();
	{
		abandon(&f);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pop(&f);
}

static void
call_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			 ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
			 DestReceiver *dest, QueryCompletion *qc)
{
	if (next_utility)
		next_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv,
								dest, qc);
}

/* The database whose connections the command does not suffer, or NULL. */
static const char *
wanted_database(Node *stmt)
{
	if (IsA(stmt, DropdbStmt))
		return ((DropdbStmt *) stmt)->dbname;
	if (IsA(stmt, RenameStmt) && ((RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
		return ((RenameStmt *) stmt)->subname;
	if (IsA(stmt, AlterDatabaseStmt))
	{
		ListCell   *lc;

		/* Its other options suffer them. */
		foreach(lc, ((AlterDatabaseStmt *) stmt)->options)
			if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
			return ((AlterDatabaseStmt *) stmt)->dbname;
	}
	if (IsA(stmt, CreatedbStmt))
	{
		const char *template = "template1";
		ListCell   *lc;

		foreach(lc, ((CreatedbStmt *) stmt)->options)
		{
			DefElem    *opt = lfirst_node(DefElem, lc);

			if (strcmp(opt->defname, "template") == 0 && opt->arg && IsA(opt->arg, String))
				template = strVal(opt->arg);
		}
		return template;
	}
	return NULL;
}

/*
 * Core refuses these before it does anything in a transaction that is read-only or, but for RENAME,
 * has begun.
 */
static bool
is_refused(Node *stmt, ProcessUtilityContext context)
{
	return XactReadOnly ||
		(!IsA(stmt, RenameStmt) && IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL));
}

static void
call_without_workers(const char *dbname, PlannedStmt *pstmt, const char *queryString,
					 bool readOnlyTree, ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	PG_TRY();
	{
		mtp_workers_detach(dbname);
		call_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_CATCH();
	{
		mtp_workers_return();
		PG_RE_THROW();
	}
	PG_END_TRY();
	mtp_workers_return();
}

/* May COPY write rows that are older than any snapshot?  What the option says is left to core. */
static bool
may_freeze(CopyStmt *copy)
{
	ListCell   *lc;

	foreach(lc, copy->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, "freeze") == 0)
		return true;
	return false;
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
				DestReceiver *dest, QueryCompletion *qc)
{
	MtpStatement f;
	CopyStmt   *copy = (CopyStmt *) pstmt->utilityStmt;
	const char *wanted = wanted_database(pstmt->utilityStmt);

	drain_all();
	if (wanted && !is_refused(pstmt->utilityStmt, context))
	{
		call_without_workers(wanted, pstmt, queryString, readOnlyTree, context, params, queryEnv,
							 dest, qc);
		return;
	}
	if (!IsA(copy, CopyStmt) || !copy->is_from)
	{
		call_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	push(&f, GetCurrentCommandId(false), false);
	f.frozen = may_freeze(copy);
	PG_TRY();
	{
		call_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		drain_statement(&f, NULL);
	}
	PG_CATCH();
	{
		abandon(&f);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pop(&f);
}

/*
 * The table AM's announcement.  A subscription's initial copy calls CopyFrom without any hook: there
 * the first multi_insert opens a frame of its own.  The frame's command is the rows': triggers may
 * have begun later ones since the copy began.
 */
void
mtp_batch_announce(Relation rel, int ntuples, CommandId cid)
{
	Oid			relid = RelationGetRelid(rel);
	MemoryContext old;

	if (mtp_batch_statement == NULL && IsLogicalWorker() && !mtp_batch_queue_closed())
	{
		push(&replication_statement, cid, false);
		replication_statement.subxid = GetCurrentSubTransactionId();
		replication_statement.replication = true;
	}
	if (mtp_batch_statement == NULL || ntuples < mtp_batch_min_rows)
		return;
	mtp_batch_statement->at_once = 0;
	mtp_batch_statement->bulk_heap = relid;
	mtp_batch_statement->bulk_rows = ntuples;
	if (!mtp_batch_statement->replication || list_member_oid(mtp_batch_statement->announced, relid))
		return;
	old = MemoryContextSwitchTo(mtp_batch_statement_context(mtp_batch_statement));
	mtp_batch_statement->announced = lappend_oid(mtp_batch_statement->announced, relid);
	MemoryContextSwitchTo(old);
}

/* In logical replication, the frame's end: the last relation's bulk insert is over. */
void
mtp_batch_finish_bulk(Relation rel)
{
	MtpStatement *f = &replication_statement;
	Oid			relid = RelationGetRelid(rel);

	if (mtp_batch_statement != f || !f->replication)
		return;
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		if (q->heapid == relid)
			mtp_batch_drain(f->serial, q->indexid, InvalidSubTransactionId);
	f->announced = list_delete_oid(f->announced, relid);
	if (f->announced != NIL)
		return;
	drain_statement(f, NULL);
	f->replication = false;
	pop(f);
}

/*
 * Rows that the scan's snapshot can't see need not be in the index: an INSERT … SELECT from its own
 * table goes on queueing.
 */
void
mtp_batch_flush_before_scan(Relation index, Snapshot snapshot)
{
	Oid			indexid = RelationGetRelid(index);

	for (MtpStatement *f = mtp_batch_statement; f != NULL; f = f->outer)
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		{
			if (q->indexid != indexid || q->pending == 0)
				continue;
			if (!f->frozen && snapshot != NULL && IsMVCCSnapshot(snapshot) && snapshot->curcid <= f->cid)
				continue;
			mtp_batch_drain(f->serial, indexid, InvalidSubTransactionId);
			count_forced(f);
		}
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			/* A net: every statement has drained what it queued. */
			Assert(mtp_batch_pending == 0);
			drain_all();
			committing = true;
			break;
		case XACT_EVENT_ABORT:
			/* Others see that the transaction is over by now, and nothing here has been told. */
			MTP_INJECT("abort");
			/* FALLTHROUGH */
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			/* Frames lay on stacks that are gone; TopTransactionContext frees the rest. */
			mtp_batch_cancel(0, InvalidSubTransactionId);
			mtp_batch_statement = NULL;
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
 * An error between a multi_insert of logical replication and its finish_bulk_insert passes no hook.
 * Left open, the frame would queue what the transaction does after the subtransaction.
 */
static void
close_replication_statement(SubTransactionId aborted)
{
	MtpStatement *f = &replication_statement;

	if (mtp_batch_statement != f || !f->replication || f->subxid < aborted)
		return;
	f->replication = false;
	pop(f);
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid, SubTransactionId parentSubid,
				 void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			if (pending_in(mySubid))
				mtp_batch_drain(0, InvalidOid, mySubid);
			closing_subxid = mySubid;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			MTP_INJECT("abort");
			mtp_batch_cancel(0, mySubid);
			close_replication_statement(mySubid);
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
