/*
 * c_inserts.c
 *	  Inserts rows as C code may do it, outside of the executor's statements: for t/batch/c_code.pl and t/zone/load.pl.
 *
 * c_inserts.at_commit names a table into which each committing transaction inserts 2,000 rows, by SPI and directly;
 * c_inserts.directly_at_commit one for 1,000 rows, directly alone;
 * c_inserts.at_subcommit one for 1,000 rows of each committing subtransaction.  The library is to be loaded
 * before mtpower, so that its callbacks run after mtpower's.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM >= 160000
#define INSERT_INDEX_TUPLES(rri, slot, estate) ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL, false)
#else
#define INSERT_INDEX_TUPLES(rri, slot, estate) ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL)
#endif

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(c_insert);
PG_FUNCTION_INFO_V1(c_insert_sub);
PG_FUNCTION_INFO_V1(c_insert_multi);
PG_FUNCTION_INFO_V1(c_insert_turns);
PG_FUNCTION_INFO_V1(c_insert_late);
PG_FUNCTION_INFO_V1(c_insert_rows);
PG_FUNCTION_INFO_V1(c_insert_truncated);

static char *at_commit = NULL;
static char *directly_at_commit = NULL;
static char *at_subcommit = NULL;

/* Rows that C code inserts into a table */
typedef struct Load
{
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *rri;
} Load;

static Load
begin_load(Oid relid)
{
	Load		load = {table_open(relid, RowExclusiveLock), CreateExecutorState(), makeNode(ResultRelInfo)};

	load.estate->es_output_cid = GetCurrentCommandId(true);
	InitResultRelInfo(load.rri, load.rel, 1, NULL, 0);
	ExecOpenIndices(load.rri, false);
	return load;
}

static void
end_load(Load *load, LOCKMODE unlock)
{
	ExecCloseIndices(load->rri);
	ExecResetTupleTable(load->estate->es_tupleTable, false);
	FreeExecutorState(load->estate);
	table_close(load->rel, unlock);
	CommandCounterIncrement();
}

static void
store(Load *load, TupleTableSlot **rows, int n)
{
	table_multi_insert(load->rel, rows, n, load->estate->es_output_cid, 0, NULL);
}

/* The index entries of rows from one on up to another, without that */
static void
add_entries(Load *load, TupleTableSlot **rows, int from, int to)
{
	for (int i = from; i < to; i++)
		(void) INSERT_INDEX_TUPLES(load->rri, rows[i], load->estate);
}

/* The table's first column gets from .. from + n - 1, the second one the text. */
static void
insert(Oid relid, int from, int n, const char *text, LOCKMODE unlock)
{
	Load		load = begin_load(relid);
	TupleTableSlot *slot = table_slot_create(load.rel, &load.estate->es_tupleTable);

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < n; i++)
	{
		ExecClearTuple(slot);
		slot->tts_values[0] = Int32GetDatum(from + i);
		slot->tts_isnull[0] = false;
		slot->tts_values[1] = DirectFunctionCall1(textin, CStringGetDatum(text));
		slot->tts_isnull[1] = false;
		ExecStoreVirtualTuple(slot);
		ExecSimpleRelationInsert(load.rri, load.estate, slot);
	}
	PopActiveSnapshot();
	end_load(&load, unlock);
}

/* c_insert(table, from, n, text, keep_lock): returns n. */
Datum
c_insert(PG_FUNCTION_ARGS)
{
	insert(PG_GETARG_OID(0), PG_GETARG_INT32(1), PG_GETARG_INT32(2),
		   text_to_cstring(PG_GETARG_TEXT_PP(3)), PG_GETARG_BOOL(4) ? NoLock : RowExclusiveLock);
	PG_RETURN_INT32(PG_GETARG_INT32(2));
}

/* c_insert_sub(table, from, n, text, commit): in an internal subtransaction. */
Datum
c_insert_sub(PG_FUNCTION_ARGS)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	insert(PG_GETARG_OID(0), PG_GETARG_INT32(1), PG_GETARG_INT32(2),
		   text_to_cstring(PG_GETARG_TEXT_PP(3)), NoLock);
	if (PG_GETARG_BOOL(4))
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	PG_RETURN_INT32(PG_GETARG_INT32(2));
}

static TupleTableSlot **
new_rows(Load *load, int from, int n, Datum text)
{
	TupleTableSlot **slots = palloc(n * sizeof(*slots));

	for (int i = 0; i < n; i++)
	{
		slots[i] = table_slot_create(load->rel, &load->estate->es_tupleTable);
		ExecClearTuple(slots[i]);
		slots[i]->tts_values[0] = Int32GetDatum(from + i);
		slots[i]->tts_isnull[0] = false;
		slots[i]->tts_values[1] = text;
		slots[i]->tts_isnull[1] = false;
		ExecStoreVirtualTuple(slots[i]);
	}
	return slots;
}

/* c_insert_multi(table, from, n, text): by multi_insert, which announces a load. */
Datum
c_insert_multi(PG_FUNCTION_ARGS)
{
	Load		load = begin_load(PG_GETARG_OID(0));
	int			n = PG_GETARG_INT32(2);
	TupleTableSlot **rows = new_rows(&load, PG_GETARG_INT32(1), n, PG_GETARG_DATUM(3));
	BulkInsertState bistate = GetBulkInsertState();

	table_multi_insert(load.rel, rows, n, load.estate->es_output_cid, 0, bistate);
	add_entries(&load, rows, 0, n);
	FreeBulkInsertState(bistate);
	table_finish_bulk_insert(load.rel, 0);
	end_load(&load, NoLock);
	PG_RETURN_INT32(n);
}

/*
 * c_insert_turns(table, from, n, text): stores a batch of n rows, and another one when the first row has its index entries; when
 * all have theirs, a third one, and n rows one by one.  Returns how many.
 */
Datum
c_insert_turns(PG_FUNCTION_ARGS)
{
	Load		load = begin_load(PG_GETARG_OID(0));
	int			n = PG_GETARG_INT32(2);
	TupleTableSlot **rows[4];

	for (int turn = 0; turn < 4; turn++)
		rows[turn] = new_rows(&load, PG_GETARG_INT32(1) + turn * n, n, PG_GETARG_DATUM(3));
	store(&load, rows[0], n);
	add_entries(&load, rows[0], 0, 1);
	store(&load, rows[1], n);
	add_entries(&load, rows[0], 1, n);
	add_entries(&load, rows[1], 0, n);
	store(&load, rows[2], n);
	add_entries(&load, rows[2], 0, n);
	for (int i = 0; i < n; i++)
	{
		table_tuple_insert(load.rel, rows[3][i], load.estate->es_output_cid, 0, NULL);
		add_entries(&load, rows[3], i, i + 1);
	}
	table_finish_bulk_insert(load.rel, 0);
	end_load(&load, NoLock);
	PG_RETURN_INT32(4 * n);
}

/* c_insert_late(table, from, n, text): three batches of n rows, the first one of which has its index entries last.  Returns how many. */
Datum
c_insert_late(PG_FUNCTION_ARGS)
{
	Load		load = begin_load(PG_GETARG_OID(0));
	int			n = PG_GETARG_INT32(2);
	TupleTableSlot **rows[3];

	for (int turn = 0; turn < 3; turn++)
	{
		rows[turn] = new_rows(&load, PG_GETARG_INT32(1) + turn * n, n, PG_GETARG_DATUM(3));
		store(&load, rows[turn], n);
		if (turn > 0)
			add_entries(&load, rows[turn], 0, n);
	}
	add_entries(&load, rows[0], 0, n);
	table_finish_bulk_insert(load.rel, 0);
	end_load(&load, NoLock);
	PG_RETURN_INT32(3 * n);
}

/*
 * c_insert_rows(table, from, n, text, calls): stores a batch of n rows before it returns each of so many rows: a cursor's FETCHes
 * go on with one load.
 */
Datum
c_insert_rows(PG_FUNCTION_ARGS)
{
	int			n = PG_GETARG_INT32(2);
	FuncCallContext *call;
	Load	   *load;
	MemoryContext old;
	TupleTableSlot **rows;

	if (SRF_IS_FIRSTCALL())
	{
		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		load = call->user_fctx = palloc(sizeof(Load));
		*load = begin_load(PG_GETARG_OID(0));
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	load = call->user_fctx;
	if (call->call_cntr >= PG_GETARG_INT32(4))
	{
		end_load(load, NoLock);
		SRF_RETURN_DONE(call);
	}
	old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
	rows = new_rows(load, PG_GETARG_INT32(1) + call->call_cntr * n, n, PG_GETARG_DATUM(3));
	load->estate->es_output_cid = GetCurrentCommandId(true);
	store(load, rows, n);
	add_entries(load, rows, 0, n);
	MemoryContextSwitchTo(old);
	SRF_RETURN_NEXT(call, Int32GetDatum(n));
}

/*
 * c_insert_truncated(table, from, text): inserts a row, and in a subtransaction that is rolled back truncates the table and inserts
 * another one: no statement, as logical replication's parallel apply does it.
 */
Datum
c_insert_truncated(PG_FUNCTION_ARGS)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel;

	insert(relid, PG_GETARG_INT32(1), 1, text_to_cstring(PG_GETARG_TEXT_PP(2)), NoLock);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	rel = table_open(relid, AccessExclusiveLock);
#if PG_VERSION_NUM >= 160000
	ExecuteTruncateGuts(list_make1(rel), list_make1_oid(relid), NIL, DROP_RESTRICT, false, false);
#else
	ExecuteTruncateGuts(list_make1(rel), list_make1_oid(relid), NIL, DROP_RESTRICT, false);
#endif
	table_close(rel, NoLock);
	CommandCounterIncrement();
	insert(relid, 7, 1, "gone", NoLock);
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	PG_RETURN_INT32(1);
}

static void
callback(XactEvent event, void *arg)
{
	char		query[200];

	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
		return;
	if (directly_at_commit[0] != '\0')
		insert(RangeVarGetRelid(makeRangeVar(NULL, directly_at_commit, -1), NoLock, false), 1, 1000, "commit, last", NoLock);
	if (at_commit[0] == '\0')
		return;
	insert(RangeVarGetRelid(makeRangeVar(NULL, at_commit, -1), NoLock, false), 1, 1000, "commit, directly", NoLock);
	snprintf(query, sizeof(query),
			 "INSERT INTO %s SELECT i, 'commit, by SPI' FROM generate_series(1, 1000) i", at_commit);
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	if (SPI_execute(query, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "insertion failed");
	SPI_finish();
	PopActiveSnapshot();
}

static void
sub_callback(SubXactEvent event, SubTransactionId mySubid, SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB && at_subcommit[0] != '\0')
		insert(RangeVarGetRelid(makeRangeVar(NULL, at_subcommit, -1), NoLock, false), 1, 1000, "subcommit", NoLock);
}

void
_PG_init(void)
{
	DefineCustomStringVariable("c_inserts.at_commit", "Table to insert into at commit.", NULL,
							   &at_commit, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("c_inserts.directly_at_commit", "Table to insert into at commit, directly alone.", NULL,
							   &directly_at_commit, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("c_inserts.at_subcommit", "Table to insert into at subtransactions' commit.", NULL,
							   &at_subcommit, "", PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(callback, NULL);
	RegisterSubXactCallback(sub_callback, NULL);
}
