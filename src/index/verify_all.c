/*
 * verify_all.c
 *	  SQL function verify_all: checks all indexes of a database or schema, and reports on each.
 *
 * As in pg_amcheck, what is wrong with one index does not keep the others from being checked, what
 * cannot be checked is skipped with a reason, and several processes may share the work.  Each takes
 * the next index of one array until there is none.  The session is one of them; the others are
 * background processes that run each check in a transaction of its own.  They wait for no lock: an
 * index that is locked they leave to the session, which may be the one that has locked it.
 */
#include "core/core.h"

#include "access/xact.h"
#include "catalog/pg_am.h"
#include "core/process.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "index/inspect.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(mtp_verify_all);

#define MAX_PROCESSES	64
#define TEXT_SIZE		512

typedef enum Verdict
{
	NOT_YET,					/* or left to the session */
	SKIPPED,
	SOUND,
	FAILED
} Verdict;

static const char *const verdicts[] = {"", "skipped", "ok", "failed"};

typedef struct Check
{
	Oid			indexid;
	Oid			heapid;
	Verdict		verdict;		/* written by the process that has taken it */
	int			sqlerrcode;		/* of one that failed */
	char		message[TEXT_SIZE]; /* … or why it was skipped */
	char		detail[TEXT_SIZE];
} Check;

/* What the processes share, or the session's alone */
typedef struct Checks
{
	Oid			dbid;
	Oid			userid;
	Oid			btree_check;	/* amcheck's function for btree indexes, or invalid */
	bool		heapallindexed;
	pg_atomic_uint32 next;		/* the item that nobody has taken yet */
	uint32		n;
	Check		items[FLEXIBLE_ARRAY_MEMBER];
} Checks;

extern PGDLLEXPORT void mtp_verify_worker_main(Datum handle);
extern Datum mtp_verify_index(PG_FUNCTION_ARGS);

/*
 * Indexes of mtpower's access methods, and btree indexes of mtpower tables, which loads change too:
 * the largest first.
 */
static const char *const list_indexes =
"SELECT i.indexrelid, i.indrelid, CASE"
" WHEN NOT (i.indisvalid AND i.indisready) THEN 'it is not valid'"
" WHEN c.relpersistence = 't' AND c.relnamespace <> pg_my_temp_schema() THEN"
"  'it is a temporary index of another session'"
" WHEN c.relpersistence = 'u' AND pg_is_in_recovery() THEN"
"  'it is unlogged, and empty during recovery'"
" WHEN a.amname = 'btree' AND $2 = 0 THEN 'it is of access method btree: that takes amcheck'"
" END"
" FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam"
" JOIN pg_class t ON t.oid = i.indrelid LEFT JOIN pg_am ta ON ta.oid = t.relam"
" WHERE c.relkind = 'i' AND ($1 = 0 OR c.relnamespace = $1)"
" AND (a.amname IN ('mtpower_blink', 'mtpower_hash', 'mtpower_zone')"
"  OR a.amname = 'btree' AND ta.amname = 'mtpower')"
" ORDER BY c.relpages DESC, c.oid";

/* InvalidOid if the extension is not there. */
static Oid
find_btree_check(void)
{
	bool		isnull;

	if (SPI_execute("SELECT p.oid FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid"
					" AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'"
					" JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'amcheck'"
					" WHERE p.proname = 'bt_index_check' AND p.pronargs = 2"
					" AND p.proargtypes[0] = 'regclass'::regtype"
					" AND p.proargtypes[1] = 'bool'::regtype", true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for amcheck");
	if (SPI_processed == 0)
		return InvalidOid;
	return DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
										  &isnull));
}

static void
fill_item(Check *item, HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	char	   *reason = SPI_getvalue(row, desc, 3);

	item->indexid = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
	item->heapid = DatumGetObjectId(SPI_getbinval(row, desc, 2, &isnull));
	item->verdict = reason ? SKIPPED : NOT_YET;
	if (reason)
		strlcpy(item->message, reason, TEXT_SIZE);
}

/*
 * The checks that there are, in a segment of shared memory if other processes take part, else in
 * the context that was current before.
 */
static Checks *
list_checks(Oid schema, bool heapallindexed, bool shared, dsm_segment **seg)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {OIDOID, OIDOID};
	Datum		values[2];
	Oid			btree_check;
	Checks	   *checks;
	Size		size;

	SPI_connect();
	btree_check = find_btree_check();
	values[0] = ObjectIdGetDatum(schema);
	values[1] = ObjectIdGetDatum(btree_check);
	if (SPI_execute_with_args(list_indexes, 2, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list indexes");
	size = add_size(offsetof(Checks, items), mul_size(SPI_processed, sizeof(Check)));
	*seg = shared ? dsm_create(size, 0) : NULL;
	checks = *seg ? dsm_segment_address(*seg) :
		MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);
	memset(checks, 0, size);
	checks->dbid = MyDatabaseId;
	checks->userid = GetUserId();
	checks->btree_check = btree_check;
	checks->heapallindexed = heapallindexed;
	pg_atomic_init_u32(&checks->next, 0);
	checks->n = SPI_processed;
	for (uint32 i = 0; i < checks->n; i++)
		fill_item(&checks->items[i], SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
	SPI_finish();
	return checks;
}

/* The next item that is to be checked, or NULL. */
static Check *
take_item(Checks *checks)
{
	uint32		i;

	while ((i = pg_atomic_fetch_add_u32(&checks->next, 1)) < checks->n)
		if (checks->items[i].verdict == NOT_YET)
			return &checks->items[i];
	return NULL;
}

/* Raises what is wrong. */
static void
run_check(const Checks *checks, const Check *item)
{
	Relation	index = try_relation_open(item->indexid, AccessShareLock);
	bool		btree = index != NULL && index->rd_rel->relam == BTREE_AM_OID;

	if (index != NULL)
		relation_close(index, NoLock);
	if (btree)
		OidFunctionCall2(checks->btree_check, ObjectIdGetDatum(item->indexid),
						 BoolGetDatum(checks->heapallindexed));
	else
		DirectFunctionCall2(mtp_verify_index, ObjectIdGetDatum(item->indexid),
							BoolGetDatum(checks->heapallindexed));
}

/* In PG_CATCH, outside of the error context: what was raised becomes the item's verdict. */
static void
note_error(Check *item)
{
	ErrorData  *error = CopyErrorData();

	FlushErrorState();
	item->sqlerrcode = error->sqlerrcode;
	strlcpy(item->message, error->message ? error->message : "", TEXT_SIZE);
	strlcpy(item->detail, error->detail ? error->detail : "", TEXT_SIZE);
	item->verdict = FAILED;
	FreeErrorData(error);
}

/* In the session: in a subtransaction.  Who cancels the statement cancels all of it. */
static void
check_here(Checks *checks, Check *item)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		run_check(checks, item);
		ReleaseCurrentSubTransaction();
		item->verdict = SOUND;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		if (geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		note_error(item);
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* In a process of its own: in a transaction, which keeps the locks that it got until its end. */
static void
check_there(Checks *checks, Check *item)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	SetUserIdAndSecContext(checks->userid, 0);
	PG_TRY();
	{
		if (ConditionalLockRelationOid(item->heapid, AccessShareLock) &&
			ConditionalLockRelationOid(item->indexid, AccessShareLock))
		{
			run_check(checks, item);
			item->verdict = SOUND;
		}
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(TopMemoryContext);
		note_error(item);
		AbortCurrentTransaction();
	}
	PG_END_TRY();
}

/* A background process that takes part.  It acts as the user who called the function. */
void
mtp_verify_worker_main(Datum handle)
{
	dsm_segment *seg;
	Checks	   *checks;
	Check	   *item;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "mtpower verifier");
	seg = dsm_attach(DatumGetUInt32(handle));
	if (seg == NULL)
		return;					/* the session has ended */
	dsm_pin_mapping(seg);
	checks = dsm_segment_address(seg);
	BackgroundWorkerInitializeConnectionByOid(checks->dbid, InvalidOid, 0);
	mtp_process_reset_settings();
	while ((item = take_item(checks)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		check_there(checks, item);
	}
}

/* Starts so many processes, or as many as there is room for. */
static int
start_processes(BackgroundWorkerHandle **handles, int n, dsm_segment *seg)
{
	BackgroundWorker bgw;
	int			started = 0;

	mtp_process_describe(&bgw, "mtpower verifier", "mtp_verify_worker_main");
	bgw.bgw_start_time = BgWorkerStart_ConsistentState;
	bgw.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(seg));
	bgw.bgw_notify_pid = MyProcPid;
	while (started < n && RegisterDynamicBackgroundWorker(&bgw, &handles[started]))
		started++;
	if (started < n)
		ereport(NOTICE,
				(errmsg("%d of %d processes take part", started + 1, n + 1),
				 errhint("You might need to increase max_worker_processes.")));
	return started;
}

/* What other processes have left, or not ended, is the session's too. */
static void
check_all(Checks *checks, dsm_segment *seg, int parallel)
{
	BackgroundWorkerHandle *handles[MAX_PROCESSES];
	volatile int n = 0;

	PG_TRY();
	{
		Check	   *item;

		if (parallel > 0)
			n = start_processes(handles, parallel, seg);
		while ((item = take_item(checks)) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			check_here(checks, item);
		}
		for (int i = 0; i < n; i++)
			if (WaitForBackgroundWorkerShutdown(handles[i]) == BGWH_POSTMASTER_DIED)
				proc_exit(1);
		for (uint32 i = 0; i < checks->n; i++)
			if (checks->items[i].verdict == NOT_YET)
				check_here(checks, &checks->items[i]);
	}
	PG_CATCH();
	{
		for (int i = 0; i < n; i++)
			TerminateBackgroundWorker(handles[i]);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
put_row(ReturnSetInfo *rsinfo, const Check *item)
{
	Datum		values[5];
	bool		nulls[5] = {false, false, false, false, false};

	values[0] = ObjectIdGetDatum(item->indexid);
	values[1] = CStringGetTextDatum(verdicts[item->verdict]);
	values[2] = CStringGetTextDatum(unpack_sql_state(item->sqlerrcode));
	nulls[2] = item->verdict != FAILED;
	values[3] = CStringGetTextDatum(item->message);
	nulls[3] = item->message[0] == '\0';
	values[4] = CStringGetTextDatum(item->detail);
	nulls[4] = item->detail[0] == '\0';
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* verify_all(schema, heapallindexed, parallel); a null schema: all of them */
Datum
mtp_verify_all(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			schema = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	bool		heapallindexed = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	int			parallel = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT32(2);
	dsm_segment *seg;
	Checks	   *checks;

	mtp_require_preload();
	if (parallel < 0 || parallel > MAX_PROCESSES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of parallel processes %d is out of range", parallel),
				 errdetail("It must be between 0 and %d.", MAX_PROCESSES)));
	InitMaterializedSRF(fcinfo, 0);
	checks = list_checks(schema, heapallindexed, parallel > 0, &seg);
	check_all(checks, seg, Min(parallel, (int) checks->n - 1));
	for (uint32 i = 0; i < checks->n; i++)
		put_row(rsinfo, &checks->items[i]);
	if (seg != NULL)
		dsm_detach(seg);
	return (Datum) 0;
}
