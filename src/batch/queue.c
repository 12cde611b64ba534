/*
 * queue.c
 *	  Takes index entries in, run by run, and submits them as batches.
 */
#include "batch/frame.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "catalog/pg_opclass.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memdebug.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"
#include "wal/stop.h"

/* A batch of fewer entries costs more than it gains, where memory is short. */
#define MTP_WORTH_A_BATCH	256

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
	MtpQueue   *queue;
} QueueEntry;

static void
remember_queue(MtpFrame *f, MtpQueue *q)
{
	QueueKey	key = {.indexid = q->indexid,.subxid = q->subxid};
	QueueEntry *entry = hash_search(f->by_index, &key, HASH_ENTER, NULL);

	entry->queue = q;
}

static void
make_hash(MtpFrame *f)
{
	HASHCTL		ctl = {
		.keysize = sizeof(QueueKey),.entrysize = sizeof(QueueEntry),
		.hcxt = mtp_frame_context(f)
	};

	f->by_index = hash_create("mtpower queues", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (MtpQueue *q = f->queues; q != NULL; q = q->next)
		remember_queue(f, q);
}

static MtpQueue *
make_queue(MtpFrame *f, Relation index, Relation heap, bool narrow)
{
	MtpQueue   *q = f->nqueues < MTP_QUEUE_PLACES ? &f->places[f->nqueues] :
		MemoryContextAlloc(mtp_frame_context(f), sizeof(MtpQueue));

	memset(q, 0, sizeof(*q));
	q->frame = f;
	q->subxid = GetCurrentSubTransactionId();
	q->indexid = RelationGetRelid(index);
	q->heapid = RelationGetRelid(heap);
	q->narrow = narrow;
	q->at_once = list_member_oid(f->announced, q->heapid) ? 0 : mtp_batch_min_rows;
	if (f->by_index != NULL)
		remember_queue(f, q);
	q->next = f->queues;
	f->queues = q;
	if (++f->nqueues == 4 * MTP_QUEUE_PLACES)
		make_hash(f);
	return q;
}

/* The rows' queue. */
static MtpQueue *
find_queue(MtpFrame *f, Relation index, Relation heap, bool narrow)
{
	QueueKey	key = {
		.indexid = RelationGetRelid(index),.subxid = GetCurrentSubTransactionId()
	};

	if (f->by_index != NULL)
	{
		QueueEntry *entry = hash_search(f->by_index, &key, HASH_FIND, NULL);

		if (entry != NULL)
			return entry->queue;
	}
	else
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
			if (q->indexid == key.indexid && q->subxid == key.subxid)
				return q;
	return make_queue(f, index, heap, narrow);
}

/* Gives the filled run to whoever wants to sort it. */
static void
publish_run(MtpQueue *q)
{
	MtpBatch   *b = q->batch;

	if (q->run == NULL)
		return;
	Assert(q->run->n > 0);
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	b->entries += q->run->n;
	b->run_state[b->nruns] = MTP_UNIT_READY;
	b->nruns++;
	LWLockRelease(mtp_batch_lock);
	q->run = NULL;
}

void
mtp_queue_submit(MtpQueue *q)
{
	MtpBatch   *b = q->batch;
	TimestampTz now;
	uint32		entries;
	int			runs;

	if (b == NULL)
		return;
	publish_run(q);
	q->batch = NULL;
	now = GetCurrentTimestamp();
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	entries = b->entries;
	runs = b->nruns;
	Assert(entries > 0);
	b->submitted = now;
	b->arrival = q->arrival;
	b->phase = MTP_SORTING;
	LWLockRelease(mtp_batch_lock);

	/* Workers may have applied and freed it by now. */
	ereport(DEBUG1,
			(errmsg_internal("mtpower: submitted %u entries of index %u in %d runs",
							 entries, q->indexid, runs)));
	if (q->worker_ok)
		mtp_worker_wanted(mtp_my_load);
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

	memset(b, 0, offsetof(MtpBatch, bounds));
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
	b->next = load->batches;
	load->batches = b;
	load->bytes += b->bytes;
	LWLockRelease(mtp_batch_lock);
	q->batch = b;
}

/*
 * One attempt at a new run for the queue, each twice as large as the one before, and at a batch where
 * there is none.  A batch has a run from its beginning: one without entries is worth nothing, and would
 * be submitted for the sake of its header.
 */
static bool
try_run(MtpQueue *q)
{
	/* What may raise an error comes before anything is taken. */
	TransactionId xid = GetCurrentTransactionId();
	MtpLoad    *load = mtp_load_join();
	char	   *header = NULL;
	char	   *mem = NULL;
	MtpBatch   *b;
	MtpRun	   *run;
	int			order;

	if (q->batch == NULL && (header = mtp_memory_alloc(0)) == NULL)
		return false;
	for (order = q->batch ? Min(q->batch->nruns, MTP_MAX_ORDER) : 0; order >= 0; order--)
		if ((mem = mtp_memory_alloc(order)) != NULL)
			break;
	if (mem == NULL)
	{
		if (header != NULL)
			mtp_memory_free(header, 0);
		return false;
	}
	if (header != NULL)
		start_batch(q, header, load, xid);
	b = q->batch;
	run = &b->runs[b->nruns];
	run->mem = mem;
	run->order = order;
	run->n = 0;
	run->used = 0;
	q->run = run;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	b->bytes += MTP_RUN_BYTES(run);
	b->load->bytes += MTP_RUN_BYTES(run);
	LWLockRelease(mtp_batch_lock);
	return true;
}

/* Entries of the batch that is being filled; b->entries is the owner's to change. */
static inline uint32
entries_of(MtpQueue *q)
{
	return q->batch == NULL ? 0 : q->batch->entries + (q->run ? q->run->n : 0);
}

/* The queue of this backend that has the most entries, if it is worth a batch; or NULL. */
static MtpQueue *
largest_queue(void)
{
	MtpQueue   *largest = NULL;
	uint32		most = MTP_WORTH_A_BATCH - 1;

	for (MtpFrame *f = mtp_frame; f != NULL; f = f->outer)
		for (MtpQueue *q = f->queues; q != NULL; q = q->next)
			if (entries_of(q) > most)
			{
				largest = q;
				most = entries_of(q);
			}
	return largest;
}

static inline bool
memory_is_short(void)
{
	return mtp_shared->free_blocks < mtp_shared->nblocks / 4;
}

/*
 * Keeps workers busy before memory gets short: while none of this backend's batches is under way,
 * and three quarters are used, its largest one is submitted.
 */
static void
submit_early(void)
{
	MtpQueue   *largest;
	bool		underway = false;

	if (!memory_is_short())
		return;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	for (MtpBatch *b = mtp_my_load->batches; b != NULL; b = b->next)
		underway |= b->phase != MTP_FILLING;
	LWLockRelease(mtp_batch_lock);
	if (!underway && (largest = largest_queue()) != NULL)
		mtp_queue_submit(largest);
}

/*
 * Memory is exhausted: applies this backend's own entries.  Batches under way come first, until a
 * quarter is free; only when there are none is the largest queue submitted.  So batches stay large:
 * to submit whatever there is would spread a handful of entries over every leaf.  False when nothing
 * is left that is worth it: then the queue's next rows go in at once, as its first ones did, and only
 * behind them does it try again.
 *
 * It ends: each turn gets memory, works off a batch, or submits one of the queues, which nothing fills meanwhile.
 */
static bool
make_room(MtpQueue *q)
{
	MTP_STOP_POINT("memory_full");
	for (;;)
	{
		MtpQueue   *largest;

		if (mtp_drain_some())
			while (memory_is_short() && mtp_drain_some())
				;
		else if ((largest = largest_queue()) != NULL)
			mtp_queue_submit(largest);
		else
		{
			q->at_once = mtp_batch_min_rows;
			return false;
		}
		/* Others may have given some back, too. */
		if (try_run(q))
			return true;
	}
}

/* Makes room for another entry: a new run, perhaps in a new batch.  False as make_room. */
static bool
next_run(MtpQueue *q)
{
	publish_run(q);
	MTP_STOP_POINT("run_full");
	if (q->batch && (q->batch->nruns == MTP_MAX_RUNS ||
					 q->batch->bytes >= (Size) mtp_batch_size * 1024))
		mtp_queue_submit(q);
	else if (q->batch)
	{
		submit_early();
		if (q->batch && q->batch->worker_ok)
			mtp_worker_wanted(q->batch->load);
	}
	return try_run(q) || make_room(q);
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
mtp_queue_unlock(MtpQueue *q)
{
	ResourceOwner old = CurrentResourceOwner;

	if (!q->used || q->subxid != GetCurrentSubTransactionId())
		return;
	CurrentResourceOwner = CurTransactionResourceOwner;
	UnlockRelationOid(q->indexid, RowExclusiveLock);
	CurrentResourceOwner = old;
}

/*
 * The queue for an entry, or NULL if it goes in at once.
 */
static MtpQueue *
queue_for(Relation index, Relation heap, bool narrow, IndexUniqueCheck check, MtpArrival arrival)
{
	MtpFrame   *f = mtp_frame;
	MtpQueue   *q;

	if (f == NULL || f->direct || !mtp_batching || check != UNIQUE_CHECK_NO)
		return NULL;
	if (index->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		index->rd_index->indisexclusion || IsInParallelMode() || mtp_queue_closed() ||
		!TransactionIdIsValid(GetCurrentTransactionIdIfAny()))
		return NULL;

	q = find_queue(f, index, heap, narrow);
	if (q->at_once > 0)
	{
		q->at_once--;
		return NULL;
	}
	if (!q->used)
	{
		MemoryContext old = MemoryContextSwitchTo(mtp_frame_context(f));

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
	MtpQueue   *q = queue_for(index, heap, true, check, arrival);
	MtpRun	   *run;

	if (q == NULL)
		return false;
	run = q->run;
	if (run == NULL || (run->n + 1) * sizeof(MtpNarrow) > MTP_RUN_BYTES(run))
	{
		if (!next_run(q))
			return false;
		run = q->run;
	}
	MTP_RUN_NARROW(run)[run->n] = mtp_narrow(code, value, isnull, tid);
	VALGRIND_CHECK_MEM_IS_DEFINED(&MTP_RUN_NARROW(run)[run->n], sizeof(MtpNarrow));
	run->n++;
	q->pending++;
	mtp_batch_pending++;
	return true;
}

bool
mtp_batch_enqueue_wide(Relation index, Relation heap, IndexTuple itup, IndexUniqueCheck check,
					   MtpArrival arrival)
{
	MtpQueue   *q = queue_for(index, heap, false, check, arrival);
	Size		size = MAXALIGN(IndexTupleSize(itup));
	MtpRun	   *run;
	MtpWide		e;

	if (q == NULL)
		return false;
	e.head = mtp_order_head(q->order, itup);
	run = q->run;
	if (run == NULL || run->used + size + (run->n + 1) * sizeof(MtpWide) > MTP_RUN_BYTES(run))
	{
		if (!next_run(q))
			return false;
		run = q->run;
		Assert(size + sizeof(MtpWide) <= MTP_RUN_BYTES(run));	/* the length of a tuple has 13 bits */
	}
	e.itup = (IndexTuple) (run->mem + run->used);
	memcpy(e.itup, itup, IndexTupleSize(itup));
	VALGRIND_CHECK_MEM_IS_DEFINED(e.itup, IndexTupleSize(itup));
	run->used += size;
	run->n++;
	*MTP_RUN_WIDE(run) = e;
	q->pending++;
	mtp_batch_pending++;
	return true;
}
