/*
 * view.c
 *	  What users see of the engine: workers, counters per index, memory.
 *
 * A function copies everything under its lock first and returns rows afterwards, since making rows
 * reads catalogs.
 */
#include "batch/shared.h"
#include "core/reset.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(mtp_stat_workers);
PG_FUNCTION_INFO_V1(mtp_stat_batches);
PG_FUNCTION_INFO_V1(mtp_stat_memory);

/* Roles with this one's rights see all rows, others their own. */
bool
mtp_batch_sees_all(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

Datum
mtp_batch_database_name(Oid dbid, bool *isnull)
{
	char	   *name = get_database_name(dbid);

	*isnull = name == NULL;
	return name == NULL ? (Datum) 0 :
		DirectFunctionCall1(namein, CStringGetDatum(name));
}

Datum
mtp_stat_workers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MtpWorker  *workers = palloc(sizeof(mtp_workers->workers));
	MtpServing *serving = palloc(sizeof(mtp_batch_shared->serving));
	bool		all = mtp_batch_sees_all();

	mtp_require_preload();
	InitMaterializedSRF(fcinfo, 0);

	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	memcpy(serving, mtp_batch_shared->serving, sizeof(mtp_batch_shared->serving));
	LWLockAcquire(mtp_worker_lock, LW_SHARED);
	memcpy(workers, mtp_workers->workers, sizeof(mtp_workers->workers));
	LWLockRelease(mtp_worker_lock);
	LWLockRelease(mtp_batch_lock);

	for (int i = 0; i < MTP_MAX_WORKERS; i++)
	{
		MtpWorker  *w = &workers[i];
		MtpServing *s = &serving[i];
		bool		working = s->load != NULL;
		Datum		values[7] = {0};
		bool		nulls[7] = {false};

		if (w->pid <= 0)
			continue;
		if (!all && !(working && has_privs_of_role(GetUserId(), s->roleid)))
			continue;
		values[0] = Int32GetDatum(w->pid);
		values[1] = mtp_batch_database_name(w->dbid, &nulls[1]);
		/* Another database's index number would name a stranger here. */
		values[2] = ObjectIdGetDatum(s->indexid);
		nulls[2] = !working || w->dbid != MyDatabaseId;
		values[3] = Int32GetDatum(s->owner_pid);
		nulls[3] = !working;
		values[4] = Int32GetDatum(s->task);
		nulls[4] = !working || s->task < 0;
		values[5] = CStringGetTextDatum(working ? s->phase : w->phase);
		values[6] = Int64GetDatum(pg_atomic_read_u64(&mtp_batch_shared->serving[i].entries));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* An index's row: its counters and what is queued. */
typedef struct Row
{
	MtpIndexStat st;			/* its key comes first */
	uint64		queued;
} Row;

/* What one batch holds. */
typedef struct Queued
{
	MtpIndexStatKey key;
	uint64		bytes;
} Queued;

/* Copies what the first `room` batches hold; returns how many batches there are. */
static int
copy_queued(Queued *queued, int room)
{
	int			n = 0;

	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *load = &mtp_batch_shared->loads[i];
		dlist_head *lists[] = {&load->batches, &load->own};
		dlist_iter	iter;

		for (int l = 0; l < lengthof(lists); l++)
			dlist_foreach(iter, lists[l])
		{
			MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

			if (n < room)
			{
				queued[n].key.dbid = load->dbid;
				queued[n].key.indexid = b->indexid;
				queued[n].bytes = b->bytes;
			}
			n++;
		}
	}
	LWLockRelease(mtp_batch_lock);
	return n;
}

/* The row of an index, made if there is none yet. */
static Row *
row_of(HTAB *rows, const MtpIndexStatKey *key)
{
	bool		found;
	Row		   *row = hash_search(rows, key, HASH_ENTER, &found);

	if (!found)
		memset((char *) row + sizeof(*key), 0, sizeof(*row) - sizeof(*key));
	return row;
}

/* The indexes that have counted something, and what is queued, also of those that have not. */
static HTAB *
collect_rows(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(MtpIndexStatKey),.entrysize = sizeof(Row),.hcxt = CurrentMemoryContext
	};
	HTAB	   *rows = hash_create("mtpower rows", 256, &ctl,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	static const MtpIndexCounts nothing = {0};
	int			nstats;
	MtpIndexStat *stats = mtp_batch_stat_read(&nstats);
	int			nqueued = copy_queued(NULL, 0);
	int			room = nqueued + nqueued / 8 + 64;
	Queued	   *queued = palloc_extended(room * sizeof(Queued), MCXT_ALLOC_HUGE);

	/* Batches that came in between have some room; those that find none are seen next time. */
	nqueued = copy_queued(queued, room);
	nqueued = Min(nqueued, room);
	for (int i = 0; i < nstats; i++)
		if (memcmp(&stats[i].n, &nothing, sizeof(nothing)) != 0)
			row_of(rows, &stats[i].key)->st = stats[i];
	for (int i = 0; i < nqueued; i++)
		row_of(rows, &queued[i].key)->queued += queued[i].bytes;
	return rows;
}

/* True if the index is one of this database that the user owns. */
static bool
owns_index(Oid indexid)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));
	bool		owns;

	if (!HeapTupleIsValid(tup))
		return false;
	owns = has_privs_of_role(GetUserId(), ((Form_pg_class) GETSTRUCT(tup))->relowner);
	ReleaseSysCache(tup);
	return owns;
}

Datum
mtp_stat_batches(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all = mtp_batch_sees_all();
	HASH_SEQ_STATUS seq;
	Row		   *row;

	mtp_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	hash_seq_init(&seq, collect_rows());
	while ((row = hash_seq_search(&seq)) != NULL)
	{
		const MtpIndexStatKey *key = &row->st.key;
		const MtpIndexCounts *c = &row->st.n;
		bool		here = key->dbid == MyDatabaseId;
		const uint64 before[] = {
			c->batches, c->entries[0] + c->entries[1], c->entries[1], c->entries[0],
			c->tasks[1], c->tasks[0], c->taken_over, c->failed[MTP_FAIL_LOCK],
			c->failed[MTP_FAIL_FILE], c->failed[MTP_FAIL_ERROR], c->failed[MTP_FAIL_EXIT],
			c->leaves
		};
		const uint64 behind[] = {
			c->wal_bytes, row->queued, c->waits, c->ahead, c->overflow, c->moved, c->postings,
			c->alone[MTP_ALONE_KEY - 1], c->alone[MTP_ALONE_SERIALIZABLE - 1],
			c->alone[MTP_ALONE_FORMAT - 1], c->alone[MTP_ALONE_SETTING - 1]
		};
		Datum		values[27] = {0};
		bool		nulls[27] = {false};
		Datum		splits[lengthof(c->splits)];
		int			nsplits = lengthof(c->splits) - 2;
		int			lower = 2;
		int			n = 0;

		if (!all && !(here && owns_index(key->indexid)))
			continue;
		values[n] = mtp_batch_database_name(key->dbid, &nulls[n]);
		n++;
		nulls[n] = !here;
		values[n++] = ObjectIdGetDatum(key->indexid);
		values[n++] = ObjectIdGetDatum(key->indexid);
		for (int i = 0; i < lengthof(before); i++)
			values[n++] = Int64GetDatum(before[i]);

		/* Splits by K: the subscripts are K, from 2 up; the last one counts all above too. */
		for (int i = 0; i < nsplits; i++)
			splits[i] = Int64GetDatum(c->splits[i + lower]);
		values[n++] = PointerGetDatum(construct_md_array(splits, NULL, 1, &nsplits, &lower, INT8OID,
														 sizeof(int64), FLOAT8PASSBYVAL,
														 TYPALIGN_DOUBLE));
		for (int i = 0; i < lengthof(behind); i++)
			values[n++] = Int64GetDatum(behind[i]);
		Assert(n == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* It belongs to no role, so every role may see it. */
Datum
mtp_stat_memory(PG_FUNCTION_ARGS)
{
	Datum		values[4];
	bool		nulls[4] = {false};
	TupleDesc	desc;

	mtp_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	LWLockAcquire(mtp_batch_memory_lock, LW_SHARED);
	values[0] = Int64GetDatum((int64) mtp_batch_shared->nblocks * MTP_BLOCK_SIZE);
	values[1] = Int64GetDatum((int64) (mtp_batch_shared->nblocks - mtp_batch_shared->free_blocks) *
							  MTP_BLOCK_SIZE);
	LWLockRelease(mtp_batch_memory_lock);
	LWLockAcquire(mtp_worker_lock, LW_SHARED);
	values[2] = Int64GetDatum(mtp_workers->misses);
	LWLockRelease(mtp_worker_lock);
	values[3] = Int64GetDatum(mtp_batch_stat_evicted());
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

static void
reset_workers(void)
{
	for (int i = 0; i < MTP_MAX_WORKERS; i++)
		pg_atomic_write_u64(&mtp_batch_shared->serving[i].entries, 0);
	LWLockAcquire(mtp_worker_lock, LW_EXCLUSIVE);
	mtp_workers->misses = 0;
	LWLockRelease(mtp_worker_lock);
}

void
mtp_batch_view_init(void)
{
	mtp_reset_register(MTP_RESET_BATCHES, mtp_batch_stat_reset);
	mtp_reset_register(MTP_RESET_WORKERS, reset_workers);
}
