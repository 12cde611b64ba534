/*
 * fill.c
 *	  Fills batches run by run, submits them, and makes room when memory is exhausted.
 *
 * A run that is being filled is its backend's alone.  A full run becomes part of the batch under
 * mtp_batch_lock; from then on other processes sort it, and another load may take the batch with it
 * (invariant E2).
 */
#include "batch/statement.h"

#include "access/xact.h"
#include "core/inject.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#define MTP_FIRST_UNIQUE	64	/* kB */

/* A batch of fewer entries costs more than it gains, where memory is short. */
#define MTP_WORTH_A_BATCH	256

/*
 * Takes mtp_batch_lock when the batch is this backend's to add to (invariant E2).  If another load
 * has taken its runs, workers and this backend apply them first.
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
		(void) mtp_batch_drain_step(q->statement->serial, q->indexid, InvalidSubTransactionId);
	}
}

/* After lock_batch: makes the filled run part of the batch, so that other processes may sort it. */
static void
append_run(MtpQueue *q)
{
	MtpBatch   *b = q->batch;

	Assert(q->run == NULL || q->run == &b->filling);
	if (q->run != NULL && q->run->n == 0)
	{
		/* Its only entry was taken back. */
		mtp_batch_memory_free(b->filling.mem, b->filling.order);
		b->bytes -= MTP_RUN_BYTES(q->run);
		b->load->bytes -= MTP_RUN_BYTES(q->run);
		b->filling.mem = NULL;
		q->run = NULL;
	}
	if (q->run != NULL)
	{
		b->entries += b->filling.n;
		mtp_batch_progress_queued(b, b->filling.n);
		b->arrival = q->arrival;
		if (!b->owner_alone)
		{
			b->full += MTP_RUN_BYTES(q->run);
			b->load->full += MTP_RUN_BYTES(q->run);
		}
		*mtp_run(b, b->nruns) = b->filling;
		b->nruns++;
		b->filling.mem = NULL;
		q->run = NULL;
	}
	q->filled = b->entries;
}

/*
 * The queue has no batch then.  One that was taken, and got nothing since, is empty: its header is
 * freed.
 */
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
		mtp_batch_serve_wanted(mtp_batch_my_load);
}

/* Makes a batch of a block of memory, which it owns from now on, and puts it on the load's list. */
static void
start_batch(MtpQueue *q, char *header, MtpLoad *load, TransactionId xid)
{
	MtpBatch   *b = (MtpBatch *) header;
	MtpStatement *s = q->statement;

	memset(b, 0, sizeof(*b));
	b->load = load;
	b->serial = q->statement->serial;
	b->subxid = q->subxid;
	b->xid = xid;
	GetUserIdAndSecContext(&b->userid, &b->sec_context);
	b->indexid = q->indexid;
	b->heapid = q->heapid;
	b->locator = q->locator;
	b->narrow = q->narrow;
	b->owner_alone = q->owner_alone;
	b->bytes = MTP_BLOCK_SIZE;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);

	/* A worker may have refused an earlier batch of the statement and the index. */
	if (load->refused_serial == b->serial)
		for (int i = 0; i < Min(load->nrefused, MTP_REFUSED); i++)
			if (load->refused[i] == b->indexid)
				q->worker_ok = false;
	b->worker_ok = q->worker_ok;
	b->own = s->nqueues - (q->owner_alone ? 0 : s->nalone) >= MTP_MANY_QUEUES;
	if (b->own)
		dlist_push_tail(&load->own, &b->node);
	else
		dlist_push_tail(&load->batches, &b->node);
	load->bytes += b->bytes;
	mtp_batch_progress_begin(b);
	LWLockRelease(mtp_batch_lock);
	q->batch = b;
}

/*
 * Makes room in the batch for more than a few runs.  From now on it is worth a worker's while, so
 * it leaves the list own.  A batch whose runs another load has taken meanwhile has room enough.
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
		dlist_push_tail(&b->load->batches, &b->node);
		b->own = false;
	}
	LWLockRelease(mtp_batch_lock);
	return true;
}

/* How many bytes are free beyond a quarter of the memory; read without the lock, as a hint. */
static Size
room_to_reserve(void)
{
	int			reserve = mtp_batch_shared->nblocks / 4;
	int			free_blocks = *(volatile int *) &mtp_batch_shared->free_blocks;

	return free_blocks > reserve ? (Size) (free_blocks - reserve) * MTP_BLOCK_SIZE : 0;
}

/*
 * One attempt at a new run for the queue, and at a batch if it has none.  A batch has a run from
 * its beginning: one without entries is worth nothing, and would be submitted for its header's
 * sake.
 */
static bool
try_run(MtpQueue *q, Size need)
{
	/* What may raise an error comes before anything is taken. */
	TransactionId xid = GetCurrentTransactionId();
	MtpLoad    *load = mtp_batch_load_join();
	TimestampTz now = GetCurrentTimestamp();
	MtpBatch   *b = q->batch;
	char	   *header = NULL;
	char	   *mem = NULL;
	Size		room;
	int			least = 0;
	int			order;

	if (b == NULL && (header = mtp_batch_memory_alloc(0)) == NULL)
		return false;
	if (b && b->nruns == MTP_FEW_RUNS && b->many == NULL && !grow_batch(b))
		return false;

	/*
	 * Twice the size of the run before, if there is such a block and the load may have it.  Where
	 * nobody else can apply the entries, a quarter of the memory is left to other loads.
	 */
	room = mtp_batch_share_room(load);
	if (q->owner_alone)
		room = Min(room, room_to_reserve());
	while ((Size) MTP_BLOCK_SIZE << least < need)
		least++;
	for (order = Max(least, b ? Min(b->nruns, MTP_MAX_ORDER) : 0); order >= least; order--)
		if ((Size) MTP_BLOCK_SIZE << order <= room && (mem = mtp_batch_memory_alloc(order)) != NULL)
			break;
	if (mem == NULL)
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

	/* The run is the owner's, but whoever frees a cancelled batch frees it, and reads the sizes. */
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	q->run->mem = mem;
	b->bytes += MTP_RUN_BYTES(q->run);
	load->bytes += MTP_RUN_BYTES(q->run);
	load->seen = now;
	LWLockRelease(mtp_batch_lock);
	mtp_batch_share_content(load);
	return true;
}

/* This backend's fullest queue, or NULL if none is worth a batch. */
static MtpQueue *
find_fullest(void)
{
	MtpQueue   *fullest = NULL;

	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		for (MtpQueue *q = s->queues; q != NULL; q = q->next)
			if (q->filled > (fullest ? fullest->filled : MTP_WORTH_A_BATCH - 1))
				fullest = q;
	return fullest;
}

/*
 * Submits the fullest queue of this backend, and those that have at least half as much, until a
 * quarter of the memory will be free: to look at thousands of queues costs more than to apply one
 * of them.  False if none is worth a batch.
 */
static bool
submit_fullest(void)
{
	MtpQueue   *fullest = find_fullest();
	Size		enough = (Size) mtp_batch_shared->nblocks / 4 * MTP_BLOCK_SIZE;
	Size		bytes;
	uint32		least;

	if (fullest == NULL)
		return false;
	least = Max(fullest->filled / 2, MTP_WORTH_A_BATCH);
	bytes = fullest->batch->bytes;
	mtp_batch_queue_submit(fullest);
	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		for (MtpQueue *q = s->queues; q != NULL && bytes < enough; q = q->next)
			if (q->filled >= least)
			{
				bytes += q->batch->bytes;
				mtp_batch_queue_submit(q);
			}
	return true;
}

static inline bool
memory_is_short(void)
{
	return mtp_batch_shared->free_blocks < mtp_batch_shared->nblocks / 4;
}

/*
 * Memory is exhausted: applies this backend's own entries until the queue gets a run.  Batches
 * under way come first, until a quarter is free; only without any does it submit the fullest
 * queues.  So batches are large: to submit each queue would spread a handful of entries over every
 * leaf.  False if nothing is left that is worth it.  Then the queue's next rows go in at once, as
 * its first ones did, and it tries again behind them.
 *
 * It ends: each turn gets memory, works off a batch, or submits one of the queues, which nothing
 * fills meanwhile.
 */
static bool
make_room(MtpQueue *q, Size need)
{
	MTP_INJECT("memory_full");
	mtp_batch_share_want(mtp_batch_my_load);
	for (;;)
	{
		/* The backend has joined its load, and is inside no unit: it queues. */
		if (mtp_batch_drain_step(0, InvalidOid, InvalidSubTransactionId))
			while (memory_is_short() &&
				   mtp_batch_drain_step(0, InvalidOid, InvalidSubTransactionId))
				;
		else if (!submit_fullest())
		{
			q->at_once = MTP_WORTH_A_BATCH;
			if (q->pending == 0)
				mtp_batch_queue_let_go(q);
			return false;
		}
		/* Others may have given some back, too. */
		if (try_run(q, need))
			return true;
	}
}

/*
 * How many bytes make a batch.  Those of a unique index begin small and grow, so that a conflict
 * among the first rows is found before many more have come.
 */
static Size
batch_limit(MtpQueue *q)
{
	Size		limit = (Size) mtp_batch_size * 1024;
	Size		first = (Size) MTP_FIRST_UNIQUE * 1024;

	return q->unique && q->submitted < 16 ? Min(limit, first << q->submitted) : limit;
}

bool
mtp_batch_next_run(MtpQueue *q, Size need)
{
	if (q->run != NULL)
	{
		lock_batch(q);
		append_run(q);
		LWLockRelease(mtp_batch_lock);
	}
	MTP_INJECT("run_full");
	if (q->batch && (q->batch->nruns == MTP_MAX_RUNS || q->batch->bytes >= batch_limit(q)))
	{
		/*
		 * Where its owner has to look at entries, the batch before is in first.  Workers have
		 * sorted it by now, or more.
		 */
		if ((q->owner_alone || q->unique) && q->submitted > 0)
			while (mtp_batch_drain_step(q->statement->serial, q->indexid, q->subxid))
				;
		q->submitted++;
		mtp_batch_queue_submit(q);
	}
	else if (q->batch && !q->batch->own)
	{
		/*
		 * Workers are kept busy before memory gets short: when three quarters are used and none of
		 * this backend's batches is under way, it submits its fullest one, perhaps the one at
		 * hand.
		 */
		if (memory_is_short())
		{
			MtpQueue   *fullest;
			bool		underway = false;
			dlist_iter	iter;

			LWLockAcquire(mtp_batch_lock, LW_SHARED);
			dlist_foreach(iter, &mtp_batch_my_load->batches)
				underway |= dlist_container(MtpBatch, node, iter.cur)->phase != MTP_FILLING;
			LWLockRelease(mtp_batch_lock);
			if (!underway && (fullest = find_fullest()) != NULL)
				mtp_batch_queue_submit(fullest);
		}
		if (q->batch && q->batch->worker_ok && !q->batch->own)
			mtp_batch_serve_wanted(q->batch->load);
	}
	return try_run(q, need) || make_room(q, need);
}
