/*
 * index_switch.c
 *	  For core's own test suites: CREATE INDEX makes an index of mtpower where it says btree or hash, without an edit
 *	  of the tests.
 *
 * index_switch.btree and index_switch.hash switch it on.  An index that mtpower has nothing for stays as it is: a unique one, one
 * with an option that the other method lacks.  Operator classes that a test makes are mirrored when an index is to use one, an
 * extension's when it has been created or updated, as mtpower's users are told to do.  Each backend tells in the server's log, as it ends, how many indexes it switched and how many scans of indexes of mtpower it ran.
 * To be loaded after mtpower.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static bool switch_btree = false;
static bool switch_hash = false;
static ProcessUtility_hook_type next_utility = NULL;
static ExecutorEnd_hook_type next_end = NULL;
static int64 switched = 0;
static int64 scanned = 0;
static bool announced = false;

static void
tell(int code, Datum arg)
{
	if (switched > 0 || scanned > 0)
		ereport(LOG_SERVER_ONLY,
				errmsg_internal("index_switch: " INT64_FORMAT " switched, " INT64_FORMAT " scans", switched, scanned),
				errhidestmt(true));
}

/* The counts are told when the backend ends. */
static void
announce(void)
{
	if (!announced)
		before_shmem_exit(tell, 0);
	announced = true;
}

static bool
has_opclasses(IndexStmt *stmt, Oid am)
{
	ListCell   *lc;

	foreach(lc, stmt->indexParams)
	{
		List	   *opclass = lfirst_node(IndexElem, lc)->opclass;

		if (opclass != NIL && !OidIsValid(get_opclass_oid(am, opclass, true)))
			return false;
	}
	return true;
}

/* Options that the other method does not know; fillfactor is known to all. */
static bool
has_own_options(IndexStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "fillfactor") != 0)
			return true;
	}
	return false;
}

/* As a superuser, since that is what it takes. */
static void
mirror_opclasses(void)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	CommandCounterIncrement();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_execute("SELECT FROM mtpower.sync_opclasses()", false, 0);
	PopActiveSnapshot();
	SPI_finish();
	SetUserIdAndSecContext(user, context);
	CommandCounterIncrement();
}

static void
switch_method(IndexStmt *stmt)
{
	const char *to = switch_btree && strcmp(stmt->accessMethod, "btree") == 0 ? "mtpower_blink" :
		switch_hash && strcmp(stmt->accessMethod, "hash") == 0 ? "mtpower_hash" : NULL;
	Oid			am = to ? get_am_oid(to, true) : InvalidOid;

	if (!OidIsValid(am) || stmt->unique || stmt->primary || stmt->isconstraint || stmt->excludeOpNames != NIL ||
		has_own_options(stmt))
		return;
	if (!has_opclasses(stmt, am))
	{
		mirror_opclasses();
		if (!has_opclasses(stmt, am))
			return;
	}
	stmt->accessMethod = pstrdup(to);
	switched++;
	announce();
}

static bool
brings_opclasses(Node *stmt)
{
	return IsA(stmt, CreateExtensionStmt) || IsA(stmt, AlterExtensionStmt);
}

static void
utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context, ParamListInfo params,
		QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	if (IsA(pstmt->utilityStmt, IndexStmt))
	{
		if (read_only)
			pstmt = copyObject(pstmt);
		switch_method((IndexStmt *) pstmt->utilityStmt);
	}
	(next_utility ? next_utility : standard_ProcessUtility) (pstmt, query, read_only, context, params, env, dest, qc);
	if ((switch_btree || switch_hash) && brings_opclasses(pstmt->utilityStmt) && OidIsValid(get_am_oid("mtpower_blink", true)))
		mirror_opclasses();
}

static bool
is_ours(Relation index)
{
	static const char *const names[] = {"mtpower_blink", "mtpower_hash"};

	for (int i = 0; index != NULL && i < 2; i++)
	{
		if (index->rd_rel->relam == get_am_oid(names[i], true))
			return true;
	}
	return false;
}

static bool
count_scans(PlanState *state, void *context)
{
	Relation	index = IsA(state, IndexScanState) ? ((IndexScanState *) state)->iss_RelationDesc :
		IsA(state, IndexOnlyScanState) ? ((IndexOnlyScanState *) state)->ioss_RelationDesc :
		IsA(state, BitmapIndexScanState) ? ((BitmapIndexScanState *) state)->biss_RelationDesc : NULL;

	if (is_ours(index))
	{
		scanned++;
		announce();
	}
	return planstate_tree_walker(state, count_scans, context);
}

static void
executor_end(QueryDesc *query)
{
	if ((switch_btree || switch_hash) && query->planstate != NULL)
		count_scans(query->planstate, NULL);
	(next_end ? next_end : standard_ExecutorEnd) (query);
}

void
_PG_init(void)
{
	DefineCustomBoolVariable("index_switch.btree", "btree is mtpower_blink.", NULL, &switch_btree, false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("index_switch.hash", "hash is mtpower_hash.", NULL, &switch_hash, false, PGC_SUSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("index_switch");
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	next_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}
