/*
 * verify_all.c
 *	  SQL function verify_all: checks all indexes of a database or schema, and reports on each.
 *
 * As in pg_amcheck, what is wrong with one index does not keep the others from being checked, what
 * cannot be checked is skipped with a reason, and several processes may share the work.  Each takes
 * the next index of one array until there is none.  The session is one of them; the others are
 * background processes that run each check in a transaction of its own.
 *
 * The session waits for these processes, which no deadlock detector sees.  So they wait for nobody
 * for long: what is locked, by the session perhaps, they leave to the session, and those that are
 * not connected yet when all indexes are taken are ended.  They end with the session, too, however
 * that ends: it leaves the segment of shared memory, and then terminates them.
 */
#include "core/core.h"

#include "access/xact.h"
#include "core/process.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "index/inspect.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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
	bool		btree;			/* core's: amcheck's function checks it */
	bool		temporary;		/* the session's own: no other process can check it */
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
	volatile bool connected[MAX_PROCESSES]; /* background processes, by number */
	uint32		n;
	Check		items[FLEXIBLE_ARRAY_MEMBER];
} Checks;

/* The session's background processes, in memory that outlives an error */
typedef struct Processes
{
	int			n;
	BackgroundWorkerHandle *handles[MAX_PROCESSES];
} Processes;

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
" END, a.amname = 'btree', c.relpersistence = 't'"
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

/* Cuts between characters. */
static void
copy_text(char *to, const char *from)
{
	int			n = from ? pg_mbcliplen(from, strlen(from), TEXT_SIZE - 1) : 0;

	if (n > 0)
		memcpy(to, from, n);
	to[n] = '\0';
}

static void
skip(Check *item, const char *reason)
{
	item->verdict = SKIPPED;
	item->sqlerrcode = 0;
	copy_text(item->message, reason);
	item->detail[0] = '\0';
}

static void
fill_item(Check *item, HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	char	   *reason = SPI_getvalue(row, desc, 3);

	item->indexid = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
	item->heapid = DatumGetObjectId(SPI_getbinval(row, desc, 2, &isnull));
	item->btree = DatumGetBool(SPI_getbinval(row, desc, 4, &isnull));
	item->temporary = DatumGetBool(SPI_getbinval(row, desc, 5, &isnull));
	if (reason)
		skip(item, reason);
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

/* Raises what is wrong.  Tables are locked before their indexes, and let go, by what this calls. */
static void
run_check(const Checks *checks, const Check *item)
{
	if (item->btree)
		OidFunctionCall2(checks->btree_check, ObjectIdGetDatum(item->indexid),
						 BoolGetDatum(checks->heapallindexed));
	else
		DirectFunctionCall2(mtp_verify_index, ObjectIdGetDatum(item->indexid),
							BoolGetDatum(checks->heapallindexed));
}

/* In PG_CATCH, outside of the error's context: what was raised becomes the item's verdict. */
static void
note_error(Check *item)
{
	ErrorData  *error = CopyErrorData();

	FlushErrorState();
	item->sqlerrcode = error->sqlerrcode;
	copy_text(item->message, error->message);
	copy_text(item->detail, error->detail);
	item->verdict = FAILED;
	FreeErrorData(error);
}

/* True if an error says nothing of the index, but of what others do. */
static bool
is_by_others(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

/* What others have dropped or made invalid since the list was made is not damaged. */
static void
pass_over_gone(Check *item)
{
	HeapTuple	tuple;

	AcceptInvalidationMessages();
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(item->indexid));
	if (!HeapTupleIsValid(tuple))
		skip(item, "it was dropped meanwhile");
	else
	{
		if (!((Form_pg_index) GETSTRUCT(tuple))->indisvalid)
			skip(item, "it is not valid");
		ReleaseSysCache(tuple);
	}
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
		bool		all = geterrcode() == ERRCODE_QUERY_CANCELED ||
		geterrcode() == ERRCODE_OUT_OF_MEMORY;

		MemoryContextSwitchTo(context);
		if (!all)
			note_error(item);
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (all)
			PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (item->verdict == FAILED && is_by_others(item->sqlerrcode))
		item->verdict = SKIPPED;
}

/*
 * In a process of its own: in a transaction, whose locks it keeps to its end.  Any error but one
 * that a check raises is left to the session, which meets it again, or not.
 */
static void
check_there(Checks *checks, Check *item)
{
	Oid			userid;
	int			sec_context;

	if (item->temporary)
		return;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(checks->userid, SECURITY_RESTRICTED_OPERATION);
	PG_TRY();
	{
		if (ConditionalLockRelationOid(item->heapid, AccessShareLock) &&
			ConditionalLockRelationOid(item->indexid, AccessShareLock))
		{
			run_check(checks, item);
			item->verdict = SOUND;
		}
		SetUserIdAndSecContext(userid, sec_context);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(TopMemoryContext);
		note_error(item);
		AbortCurrentTransaction();
		if (is_by_others(item->sqlerrcode) || item->sqlerrcode == ERRCODE_QUERY_CANCELED ||
			item->sqlerrcode == ERRCODE_OUT_OF_MEMORY ||
			item->sqlerrcode == ERRCODE_UNDEFINED_TABLE)
			item->verdict = NOT_YET;
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
	int			number;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	memcpy(&number, MyBgworkerEntry->bgw_extra, sizeof(number));
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "mtpower verifier");
	seg = dsm_attach(DatumGetUInt32(handle));
	if (seg == NULL)
		return;					/* the session has ended */
	dsm_pin_mapping(seg);
	checks = dsm_segment_address(seg);
	BackgroundWorkerInitializeConnectionByOid(checks->dbid, InvalidOid, 0);
	checks->connected[number] = true;
	mtp_process_reset_settings();
	SetConfigOption("lock_timeout", "1s", PGC_SUSET, PGC_S_OVERRIDE);
	while ((item = take_item(checks)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		check_there(checks, item);
	}
}

/* When the session leaves the segment: by an error, by its own end, or since all is checked. */
static void
end_processes(dsm_segment *seg, Datum arg)
{
	Processes  *processes = (Processes *) DatumGetPointer(arg);
	Checks	   *checks = dsm_segment_address(seg);

	pg_atomic_write_u32(&checks->next, checks->n);
	for (int i = 0; i < processes->n; i++)
	{
		TerminateBackgroundWorker(processes->handles[i]);
		pfree(processes->handles[i]);
	}
	pfree(processes);
}

/* Starts so many processes, or as many as there is room for. */
static Processes *
start_processes(int n, dsm_segment *seg)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Processes  *processes = palloc0(sizeof(Processes));
	BackgroundWorker bgw;

	on_dsm_detach(seg, end_processes, PointerGetDatum(processes));
	mtp_process_describe(&bgw, "mtpower verifier", "mtp_verify_worker_main");
	bgw.bgw_start_time = BgWorkerStart_ConsistentState;
	bgw.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(seg));
	bgw.bgw_notify_pid = MyProcPid;
	while (processes->n < n)
	{
		memcpy(bgw.bgw_extra, &processes->n, sizeof(processes->n));
		if (!RegisterDynamicBackgroundWorker(&bgw, &processes->handles[processes->n]))
			break;
		processes->n++;
	}
	MemoryContextSwitchTo(old);
	if (processes->n < n)
		ereport(NOTICE,
				(errmsg("%d of %d processes take part", processes->n + 1, n + 1),
				 errhint("You might need to increase max_worker_processes.")));
	return processes;
}

/* Those that have not come as far as to connect, which may take a lock, have nothing to do. */
static void
await_processes(Checks *checks, Processes *processes)
{
	for (int i = 0; i < processes->n; i++)
		if (!checks->connected[i])
			TerminateBackgroundWorker(processes->handles[i]);
	for (int i = 0; i < processes->n; i++)
		if (WaitForBackgroundWorkerShutdown(processes->handles[i]) == BGWH_POSTMASTER_DIED)
			proc_exit(1);
}

/* What other processes have left, or not ended, is the session's too. */
static void
check_all(Checks *checks, dsm_segment *seg, int parallel)
{
	Processes  *processes = parallel > 0 ? start_processes(parallel, seg) : NULL;
	Check	   *item;

	while ((item = take_item(checks)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		check_here(checks, item);
	}
	if (processes != NULL)
		await_processes(checks, processes);
	for (item = checks->items; item < checks->items + checks->n; item++)
	{
		if (item->verdict == NOT_YET)
			check_here(checks, item);
		if (item->verdict == FAILED)
			pass_over_gone(item);
	}
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
