/*
 * queue.c
 *	  Takes index entries in, run by run, and submits them as batches.
 */
#include "batch/statement.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "catalog/pg_opclass.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memdebug.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"
#include "core/inject.h"

/* A batch of fewer entries costs more than it gains, where memory is short. */
#define MTP_WORTH_A_BATCH	256

/*
 * A statement of so many queues finds them by a hash table, and lets the first rows of each further table
 * go in at once: a batch of about 20 rows costs as much as it gains.
 */
#define MTP_MANY_QUEUES		(4 * MTP_QUEUE_PLACES)
#define MTP_FIRST_ROWS		16	/* … where a row comes now and then */
#define MTP_CLUSTERED_ROWS	32	/* … where they come table by table, none if the last one had as
								 * many */

uint64		mtp_batch_pending = 0;

/*
 * May workers compare keys of this type?  Not if the comparison, or the sort support that installs another
 * one, is not built in (its privileges are its caller's), and not if it may read catalogs while it runs: a
 * worker that waits for a lock of the loader who waits for the worker is a deadlock that nobody detects.
 */
static bool
column_is_worker_safe(Relation index, int i)
{
	Oid			type = index->rd_opcintype[i];

	if (index_getprocid(index, i + 1, BTORDER_PROC) >= FirstNormalObjectId ||
		index_getprocid(index, i + 1, BTSORTSUPPORT_PROC) >= FirstNormalObjectId ||
		type >= FirstNormalObjectId)
		return false;
	switch (type)
	{
		case ANYARRAYOID:
		case ANYENUMOID:
		case ANYRANGEOID:
		case ANYMULTIRANGEOID:
		case RECORDOID:
			return false;
	}
	return get_typtype(type) == TYPTYPE_BASE && !OidIsValid(get_element_type(type));
}

static bool
index_is_worker_safe(Relation index)
{
	if (!mtp_batch_ops_of(index)->compares)
		return true;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (!column_is_worker_safe(index, i))
			return false;
	return true;
}

/* Where there are many queues, as in a load of partitions, they are found by a hash table. */
typedef struct QueueKey
{
	Oid			indexid;
	SubTransactionId subxid;
} QueueKey;

typedef struct QueueEntry
{
	QueueKey	key;
	char		status;
	MtpQueue   *queue;
} QueueEntry;

#define SH_PREFIX queues
#define SH_ELEMENT_TYPE QueueEntry
#define SH_KEY_TYPE QueueKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) hash_combine(murmurhash32((k).indexid), (k).subxid)
#define SH_EQUAL(tb, a, b) ((a).indexid == (b).indexid && (a).subxid == (b).subxid)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static void
remember_queue(MtpStatement *f, MtpQueue *q)
{
	QueueKey	key = {.indexid = q->indexid,.subxid = q->subxid};
	bool		found;

	queues_insert(f->by_index, key, &found)->queue = q;
}

static void
make_hash(MtpStatement *f)
{
	f->by_index = queues_create(mtp_batch_statement_context(f), 256, NULL);
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		remember_queue(f, q);
}

/*
 * How many rows of a further table go in at once.  Where rows come table by table, the table before
 * tells how many to expect: a batch from the first row, or more likely none.
 */
static int
rows_at_once(MtpStatement *f, Oid heapid)
{
	MtpQueue   *last = f->queues;

	if (f->nqueues < MTP_MANY_QUEUES)
		return 0;
	if (f->bulk_heap == heapid && f->bulk_rows >= MTP_CLUSTERED_ROWS)
		return 0;

	/*
	 * What was decided for the first index of a table is true for all; the row at hand is counted
	 * there already.
	 */
	if (last->heapid == heapid)
		return last->at_once == 0 ? 0 : last->at_once + 1;
	if (mtp_batch_min_rows < MTP_FIRST_ROWS)
		return mtp_batch_min_rows;
	if (f->last_heap != last->heapid || last->rows == 1)
		return MTP_FIRST_ROWS;
	return last->rows < MTP_CLUSTERED_ROWS ? MTP_CLUSTERED_ROWS : 0;
}

static MtpQueue *
make_queue(MtpStatement *f, Relation index, Relation heap, bool narrow)
{
	MtpQueue   *q = f->nqueues < MTP_QUEUE_PLACES ? &f->places[f->nqueues] :
	MemoryContextAlloc(mtp_batch_statement_context(f), sizeof(MtpQueue));

	memset(q, 0, sizeof(*q));
	q->frame = f;
	q->subxid = GetCurrentSubTransactionId();
	q->indexid = RelationGetRelid(index);
	q->heapid = RelationGetRelid(heap);
	q->narrow = narrow;
	q->at_once = rows_at_once(f, q->heapid);
	if (f->by_index != NULL)
		remember_queue(f, q);
	q->next = f->queues;
	f->queues = q;
	if (++f->nqueues == MTP_MANY_QUEUES)
		make_hash(f);
	return q;
}

/* The rows' queue. */
static MtpQueue *
find_queue(MtpStatement *f, Relation index, Relation heap, bool narrow)
{
	QueueKey	key = {
		.indexid = RelationGetRelid(index),.subxid = GetCurrentSubTransactionId()
	};

	if (f->by_index != NULL)
	{
		QueueEntry *entry = queues_lookup(f->by_index, key);

		if (entry != NULL)
			return entry->queue;
	}
	else
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
			if (q->indexid == key.indexid && q->subxid == key.subxid)
				return q;
	return make_queue(f, index, heap, narrow);
}

/*
 * Takes mtp_batch_lock, and sees to it that the batch is this backend's to add to.  Another load may have taken its runs: then
 * they are applied first, by workers and by this backend.
 */
static void
lock_batch(MtpQueue *q)
{
	for (;;)
	{
		LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
		if (q->batch->phase == MTP_FILLING)
			break;
		LWLockRelease(mtp_batch_lock);
		(void) mtp_batch_drain_some_of(q->frame->serial, q->indexid);
	}
}

/* Under mtp_batch_lock, as lock_batch has it: gives the filled run to whoever wants to sort it. */
static void
append_run(MtpQueue *q)
{
	MtpBatch   *b = q->batch;

	if (q->run != NULL)
	{
		Assert(q->run == &b->filling && q->run->n > 0);
		b->entries += b->filling.n;
		b->arrival = q->arrival;
		b->full += MTP_RUN_BYTES(q->run);
		b->load->full += MTP_RUN_BYTES(q->run);
		*mtp_run(b, b->nruns) = b->filling;
		b->nruns++;
		b->filling.mem = NULL;
		q->run = NULL;
	}
	q->filled = b->entries;
}

static void
publish_run(MtpQueue *q)
{
	if (q->run == NULL)
		return;
	lock_batch(q);
	append_run(q);
	LWLockRelease(mtp_batch_lock);
}

void
mtp_batch_queue_submit(MtpQueue *q)
{
	MtpBatch   *b = q->batch;
	TimestampTz now;
	uint32		entries;
	int			runs;
	bool		own;

	if (b == NULL)
		return;
	now = GetCurrentTimestamp();
	lock_batch(q);
	append_run(q);
	q->batch = NULL;
	q->filled = 0;
	entries = b->entries;
	runs = b->nruns;
	own = b->own;
	if (entries == 0)
	{
		/* All of it has been taken, and applied. */
		dlist_delete(&b->node);
		mtp_batch_free(b);
		LWLockRelease(mtp_batch_lock);
		return;
	}
	mtp_batch_submit(b, now);
	if (own)
		dlist_move_head(&b->load->own, &b->node);
	LWLockRelease(mtp_batch_lock);

	/* Workers may have applied and freed it by now. */
	ereport(DEBUG1,
			(errmsg_internal("mtpower: submitted %u entries of index %u in %d runs",
							 entries, q->indexid, runs)));
	if (q->worker_ok && !own)
		mtp_batch_serve_wanted(mtp_my_load);
}

/* Under mtp_batch_lock: has a worker refused the statement's batches of this index? */
static bool
refused(MtpLoad *load, uint64 serial, Oid indexid)
{
	if (load->refused_serial == serial)
		for (int i = 0; i < Min(load->nrefused, MTP_REFUSED); i++)
			if (load->refused[i] == indexid)
				return true;
	return false;
}

/* Makes a batch of a block of memory, which it owns from now on, and puts it on the load's list. */
static void
start_batch(MtpQueue *q, char *header, MtpLoad *load, TransactionId xid)
{
	MtpBatch   *b = (MtpBatch *) header;

	memset(b, 0, sizeof(*b));
	b->load = load;
	b->serial = q->frame->serial;
	b->subxid = q->subxid;
	b->xid = xid;
	GetUserIdAndSecContext(&b->userid, &b->sec_context);
	b->indexid = q->indexid;
	b->heapid = q->heapid;
	b->locator = q->locator;
	b->narrow = q->narrow;
	b->phase = MTP_FILLING;
	b->bytes = MTP_BLOCK_SIZE;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (refused(load, b->serial, b->indexid))
		q->worker_ok = false;
	b->worker_ok = q->worker_ok;
	b->own = q->frame->by_index != NULL;
	if (b->own)
		dlist_push_tail(&load->own, &b->node);
	else
		dlist_push_head(&load->batches, &b->node);
	load->bytes += b->bytes;
	LWLockRelease(mtp_batch_lock);
	q->batch = b;
}

/*
 * Makes room in the batch for more than a few runs; it is worth workers' while from now on.  A batch whose runs have been taken
 * meanwhile will have room enough.
 */
static bool
grow_batch(MtpBatch *b)
{
	MtpManyRuns *many = (MtpManyRuns *) mtp_batch_memory_alloc(MTP_MANY_ORDER);

	if (many == NULL)
		return false;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	if (b->phase != MTP_FILLING || b->nruns < MTP_FEW_RUNS)
	{
		LWLockRelease(mtp_batch_lock);
		mtp_batch_memory_free((char *) many, MTP_MANY_ORDER);
		return true;
	}
	b->many = many;
	b->bytes += MTP_BLOCK_SIZE << MTP_MANY_ORDER;
	b->load->bytes += MTP_BLOCK_SIZE << MTP_MANY_ORDER;
	if (b->own)
	{
		dlist_delete(&b->node);
		dlist_push_head(&b->load->batches, &b->node);
		b->own = false;
	}
	LWLockRelease(mtp_batch_lock);
	return true;
}

/*
 * A block for the next run, of twice the size of the one before if there is one and the load may
 * have it, with room for an entry of so many bytes.
 */
static char *
alloc_run(MtpLoad *load, MtpBatch *b, Size need, int *order)
{
	Size		room = mtp_batch_share_room(load);
	char	   *mem = NULL;
	int			least = 0;

	while ((Size) MTP_BLOCK_SIZE << least < need)
		least++;
	for (*order = Max(least, b ? Min(b->nruns, MTP_MAX_ORDER) : 0); *order >= least; --*order)
		if ((Size) MTP_BLOCK_SIZE << *order <= room && (mem = mtp_batch_memory_alloc(*order)) != NULL)
			break;
	return mem;
}

/*
 * One attempt at a new run for the queue, and at a batch where there is none.  A batch has a run
 * from its beginning: one without entries is worth nothing, and would be submitted for the sake of
 * its header.
 */
static bool
try_run(MtpQueue *q, Size need)
{
	/* What may raise an error comes before anything is taken. */
	TransactionId xid = GetCurrentTransactionId();
	MtpLoad    *load = mtp_batch_load_join();
	TimestampTz now = GetCurrentTimestamp();
	char	   *header = NULL;
	char	   *mem;
	MtpBatch   *b;
	int			order;

	if (q->batch == NULL && (header = mtp_batch_memory_alloc(0)) == NULL)
		return false;
	if (q->batch && q->batch->nruns == MTP_FEW_RUNS && q->batch->many == NULL &&
		!grow_batch(q->batch))
		return false;
	if ((mem = alloc_run(load, q->batch, need, &order)) == NULL)
	{
		if (header != NULL)
			mtp_batch_memory_free(header, 0);
		return false;
	}
	if (header != NULL)
		start_batch(q, header, load, xid);
	b = q->batch;
	q->run = &b->filling;
	q->run->order = order;
	q->run->n = 0;
	q->run->used = 0;
	q->run->state = MTP_UNIT_READY;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	q->run->mem = mem;
	b->bytes += MTP_RUN_BYTES(q->run);
	load->bytes += MTP_RUN_BYTES(q->run);
	load->seen = now;
	LWLockRelease(mtp_batch_lock);
	mtp_batch_share_content(load);
	return true;
}

/* The entries of the fullest queue of this backend; 0 if none is worth a batch. */
static uint32
most_entries(MtpQueue **fullest)
{
	uint32		most = MTP_WORTH_A_BATCH - 1;

	*fullest = NULL;
	for (MtpStatement *f = mtp_batch_statement; f != NULL; f = f->outer)
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
			if (q->filled > most)
			{
				*fullest = q;
				most = q->filled;
			}
	return *fullest ? most : 0;
}

/*
 * Submits the fullest queue of this backend, and those that have half as much at least, until a
 * quarter of the memory will be free: where there are thousands of queues, to look at them costs
 * more than to apply one of them.  False if none is worth a batch.
 */
static bool
submit_fullest(void)
{
	MtpQueue   *fullest;
	uint32		most = most_entries(&fullest);
	Size		enough = (Size) mtp_shared->nblocks / 4 * MTP_BLOCK_SIZE;
	Size		bytes = 0;

	if (fullest == NULL)
		return false;
	bytes = fullest->batch->bytes;
	mtp_batch_queue_submit(fullest);
	for (MtpStatement *f = mtp_batch_statement; f != NULL; f = f->outer)
		for (MtpQueue *q = f->queues; q != NULL && bytes < enough; q = q->next)
			if (q->filled >= Max(most / 2, MTP_WORTH_A_BATCH))
			{
				bytes += q->batch->bytes;
				mtp_batch_queue_submit(q);
			}
	return true;
}

static inline bool
memory_is_short(void)
{
	return mtp_shared->free_blocks < mtp_shared->nblocks / 4;
}

/*
 * Keeps workers busy before memory gets short: while none of this backend's batches is under way,
 * and three quarters are used, its fullest one is submitted.
 */
static void
submit_early(void)
{
	MtpQueue   *fullest;
	bool		underway = false;
	dlist_iter	iter;

	if (!memory_is_short())
		return;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	dlist_foreach(iter, &mtp_my_load->batches)
		underway |= dlist_container(MtpBatch, node, iter.cur)->phase != MTP_FILLING;
	LWLockRelease(mtp_batch_lock);
	if (!underway && most_entries(&fullest) > 0)
		mtp_batch_queue_submit(fullest);
}

/*
 * Memory is exhausted: applies this backend's own entries.  Batches under way come first, until a
 * quarter is free; only when there are none are the fullest queues submitted.  So batches are large:
 * to submit whatever there is would spread a handful of entries over every leaf.  False when nothing
 * is left that is worth it: then the queue's next rows go in at once, as its first ones did, and only
 * behind them does it try again.
 *
 * It ends: each turn gets memory, works off a batch, or submits one of the queues, which nothing fills meanwhile.
 */
static bool
make_room(MtpQueue *q, Size need)
{
	MTP_INJECT("memory_full");
	mtp_batch_share_want(mtp_my_load);
	for (;;)
	{
		if (mtp_batch_drain_some())
			while (memory_is_short() && mtp_batch_drain_some())
				;
		else if (!submit_fullest())
		{
			q->at_once = MTP_WORTH_A_BATCH;
			return false;
		}
		/* Others may have given some back, too. */
		if (try_run(q, need))
			return true;
	}
}

/* Makes room for another entry: a new run, perhaps in a new batch.  False as make_room. */
static bool
next_run(MtpQueue *q, Size need)
{
	publish_run(q);
	MTP_INJECT("run_full");
	if (q->batch && (q->batch->nruns == MTP_MAX_RUNS ||
					 q->batch->bytes >= (Size) mtp_batch_size * 1024))
		mtp_batch_queue_submit(q);
	else if (q->batch)
	{
		if (!q->batch->own)
			submit_early();
		if (q->batch && q->batch->worker_ok && !q->batch->own)
			mtp_batch_serve_wanted(q->batch->load);
	}
	return try_run(q, need) || make_room(q, need);
}

/*
 * The inserter lets go of the index before the entries are in: COPY does.  A session that takes the
 * index from it and then wants the table, as DROP … CASCADE may, would meet it at the drain in a deadlock.
 * The subtransaction owns the lock: portals come and go within the statement.
 */
static void
lock_index(MtpQueue *q)
{
	ResourceOwner old = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	LockRelationOid(q->indexid, RowExclusiveLock);
	CurrentResourceOwner = old;
}

/* At the statement's end.  Where its subtransaction is over the transaction's end does it. */
void
mtp_batch_queue_unlock(MtpQueue *q)
{
	ResourceOwner old = CurrentResourceOwner;

	if (!q->used || q->subxid != GetCurrentSubTransactionId())
		return;
	CurrentResourceOwner = CurTransactionResourceOwner;
	UnlockRelationOid(q->indexid, RowExclusiveLock);
	CurrentResourceOwner = old;
}

/* Is the row one of the statement's first ones?  Its entries come one after the other. */
static bool
is_first_row(MtpStatement *f, Oid heapid, ItemPointer tid)
{
	if (f->at_once == 0)
		return false;
	if (f->counted_heap != heapid || !ItemPointerEquals(&f->counted_tid, tid))
	{
		f->at_once--;
		f->counted_heap = heapid;
		f->counted_tid = *tid;
	}
	return f->at_once > 0;
}

/*
 * The queue for an entry, or NULL if it goes in at once.
 */
static MtpQueue *
queue_for(Relation index, Relation heap, bool narrow, ItemPointer tid, IndexUniqueCheck check,
		  MtpArrival arrival)
{
	MtpStatement *f = mtp_batch_statement;
	MtpQueue   *q;

	if (f == NULL || f->direct || !mtp_batching || check != UNIQUE_CHECK_NO)
		return NULL;
	if (index->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		index->rd_index->indisexclusion || IsInParallelMode() || mtp_batch_queue_closed() ||
		!TransactionIdIsValid(GetCurrentTransactionIdIfAny()))
		return NULL;

	if (is_first_row(f, RelationGetRelid(heap), tid))
		return NULL;
	q = find_queue(f, index, heap, narrow);
	q->rows++;
	f->last_heap = q->heapid;
	if (q->at_once > 0)
	{
		q->at_once--;
		return NULL;
	}
	if (!q->used)
	{
		MemoryContext old = MemoryContextSwitchTo(mtp_batch_statement_context(f));

		/* Until the entries are in, the table must stay, also if its inserter lets go of it. */
		LockRelationOid(q->heapid, RowExclusiveLock);
		lock_index(q);
		q->order = narrow ? NULL : mtp_batch_ops_of(index)->order(index);
		q->worker_ok = index_is_worker_safe(index);
		q->locator = MtpRelLocator(index);
		q->used = true;
		MemoryContextSwitchTo(old);
	}
	q->arrival = Max(q->arrival, arrival);
	return q;
}

bool
mtp_batch_enqueue_narrow(Relation index, Relation heap, uint8 code, Datum value, bool isnull,
						 ItemPointer tid, IndexUniqueCheck check, MtpArrival arrival)
{
	MtpQueue   *q = queue_for(index, heap, true, tid, check, arrival);
	MtpRun	   *run;

	if (q == NULL)
		return false;
	run = q->run;
	if (run == NULL || (run->n + 1) * sizeof(MtpNarrow) > MTP_RUN_BYTES(run))
	{
		if (!next_run(q, sizeof(MtpNarrow)))
			return false;
		run = q->run;
	}
	MTP_RUN_NARROW(run)[run->n] = mtp_narrow(code, value, isnull, tid);
	VALGRIND_CHECK_MEM_IS_DEFINED(&MTP_RUN_NARROW(run)[run->n], sizeof(MtpNarrow));
	run->n++;
	q->pending++;
	q->filled++;
	mtp_batch_pending++;
	return true;
}

bool
mtp_batch_enqueue_wide(Relation index, Relation heap, IndexTuple itup, IndexUniqueCheck check,
					   MtpArrival arrival)
{
	MtpQueue   *q = queue_for(index, heap, false, &itup->t_tid, check, arrival);
	Size		size = MAXALIGN(IndexTupleSize(itup));
	MtpRun	   *run;
	MtpWide		e;

	if (q == NULL)
		return false;
	e.head = mtp_batch_order_head(q->order, itup);
	run = q->run;
	if (run == NULL || run->used + size + (run->n + 1) * sizeof(MtpWide) > MTP_RUN_BYTES(run))
	{
		if (!next_run(q, size + sizeof(MtpWide)))
			return false;
		run = q->run;
	}
	e.itup = (IndexTuple) (run->mem + run->used);
	memcpy(e.itup, itup, IndexTupleSize(itup));
	VALGRIND_CHECK_MEM_IS_DEFINED(e.itup, IndexTupleSize(itup));
	run->used += size;
	run->n++;
	*MTP_RUN_WIDE(run) = e;
	q->pending++;
	q->filled++;
	mtp_batch_pending++;
	return true;
}
