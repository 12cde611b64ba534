/*
 * queue.c
 *	  The queue in shared memory of pairs that wait for directories.
 *
 * It holds a few ranges in their order.  If it is full it forgets the first one, which has waited
 * longest: a scan asks again.  Dropping a database drops its ranges.
 */
#include "pagedir/request.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

PG_FUNCTION_INFO_V1(mtp_stat_directories);

#define MOST_RANGES		256
#define MOST_RETURNS	200		/* of a range, with a pause each (chore.c) */

typedef struct Queued
{
	Oid			dbid;
	uint32		returns;
	MtpRange	range;
} Queued;

typedef struct Queue
{
	LWLock	   *lock;			/* guards n and queued */
	int			n;
	Queued		queued[MOST_RANGES];
	pg_atomic_uint64 counts[MTP_PAIRS_COUNTS];
} Queue;

static Queue *queue = NULL;

bool
mtp_pagedir_queue_possible(void)
{
	return queue != NULL;
}

void
mtp_pagedir_queue_count(MtpPairsCount what, uint32 n)
{
	if (n > 0)
		pg_atomic_fetch_add_u64(&queue->counts[what], n);
}

void
mtp_pagedir_queue_reset_counts(void)
{
	if (queue != NULL)
		for (int i = 0; i < MTP_PAIRS_COUNTS; i++)
			pg_atomic_write_u64(&queue->counts[i], 0);
}

static void
remove_at(int i)
{
	memmove(&queue->queued[i], &queue->queued[i + 1], (queue->n - i - 1) * sizeof(Queued));
	queue->n--;
}

/*
 * Adds to a range that overlaps this one or lies next to it, or puts it behind all others.  The
 * caller holds the lock.
 */
static void
put_range(const MtpRange *range, uint32 returns)
{
	for (int i = 0; i < queue->n; i++)
	{
		Queued	   *q = &queue->queued[i];
		uint64		end = Max((uint64) q->range.first + q->range.n,
							  (uint64) range->first + range->n);
		uint32		first = Min(q->range.first, range->first);

		if (q->dbid != MyDatabaseId || q->range.relid != range->relid ||
			q->range.fresh != range->fresh || end - first > (uint64) q->range.n + range->n)
			continue;
		q->range.first = first;
		q->range.n = end - first;
		q->returns = Max(q->returns, returns);
		return;
	}
	if (queue->n == MOST_RANGES)
	{
		mtp_pagedir_queue_count(MTP_PAIRS_DROPPED, queue->queued[0].range.n);
		remove_at(0);
	}
	queue->queued[queue->n++] = (Queued)
	{
		.dbid = MyDatabaseId,.returns = returns,.range = *range
	};
}

void
mtp_pagedir_queue_put(const MtpRange *range)
{
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	mtp_pagedir_queue_count(MTP_PAIRS_ASKED, range->n);
	put_range(range, 0);
	LWLockRelease(queue->lock);
}

bool
mtp_pagedir_queue_take(Oid relid, uint32 most, MtpRange *range)
{
	bool		found = false;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	for (int i = 0; i < queue->n && !found; i++)
	{
		Queued	   *q = &queue->queued[i];

		if (q->dbid != MyDatabaseId || (OidIsValid(relid) && q->range.relid != relid))
			continue;
		found = true;
		*range = q->range;
		range->n = Min(most, range->n);
		q->range.first += range->n;
		q->range.n -= range->n;
		if (q->range.n == 0)
			remove_at(i);
	}
	LWLockRelease(queue->lock);
	return found;
}

/*
 * Drops a table's ranges, or those of loads alone; without a table those of the whole database.
 * The caller holds the lock.
 */
static void
drop_ranges(Oid dbid, Oid relid, bool only_fresh)
{
	for (int i = queue->n - 1; i >= 0; i--)
	{
		Queued	   *q = &queue->queued[i];

		if (q->dbid == dbid && (!OidIsValid(relid) || q->range.relid == relid) &&
			(q->range.fresh || !only_fresh))
		{
			mtp_pagedir_queue_count(MTP_PAIRS_DROPPED, q->range.n);
			remove_at(i);
		}
	}
}

/* No backend is connected to the database. */
static void
drop_database(Oid database)
{
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	drop_ranges(database, InvalidOid, false);
	LWLockRelease(queue->lock);
}

void
mtp_pagedir_queue_return(const MtpRange *range, bool locked)
{
	uint32		returns = 0;

	LWLockAcquire(queue->lock, LW_EXCLUSIVE);

	/* Moves the table's other ranges to the end first. */
	for (int i = 0, left = queue->n; left > 0; left--)
	{
		Queued		q = queue->queued[i];

		if (q.dbid != MyDatabaseId || q.range.relid != range->relid)
		{
			i++;
			continue;
		}
		returns = Max(returns, q.returns);
		remove_at(i);
		queue->queued[queue->n++] = q;
	}
	returns += locked;
	if (range->n > 0)
		put_range(range, returns);
	if (returns > MOST_RETURNS)
		drop_ranges(MyDatabaseId, range->relid, false);
	LWLockRelease(queue->lock);
}

void
mtp_pagedir_queue_drop(Oid relid, bool only_fresh)
{
	Assert(OidIsValid(relid));	/* drop_ranges would take that for all tables */
	LWLockAcquire(queue->lock, LW_EXCLUSIVE);
	drop_ranges(MyDatabaseId, relid, only_fresh);
	LWLockRelease(queue->lock);
}

/* Returns how many pairs are queued, and the counts since the last reset. */
Datum
mtp_stat_directories(PG_FUNCTION_ARGS)
{
	Datum		values[MTP_PAIRS_COUNTS + 1];
	bool		nulls[MTP_PAIRS_COUNTS + 1] = {false};
	TupleDesc	desc;
	int64		queued = 0;

	mtp_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (queue != NULL)
	{
		LWLockAcquire(queue->lock, LW_SHARED);
		for (int i = 0; i < queue->n; i++)
			queued += queue->queued[i].range.n;
		LWLockRelease(queue->lock);
	}
	values[0] = Int64GetDatum(queued);
	for (int i = 0; i < MTP_PAIRS_COUNTS; i++)
		values[1 + i] = Int64GetDatum(queue == NULL ? 0 : pg_atomic_read_u64(&queue->counts[i]));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ---------- shared memory ---------- */

static Size
queue_size(void)
{
	return mtp_buffer_size > 0 ? sizeof(Queue) : 0;
}

static void
attach_queue(void *area, LWLockPadded *locks, bool found)
{
	queue = area;
	if (!found)
	{
		queue->lock = &locks->lock;
		queue->n = 0;
		for (int i = 0; i < MTP_PAIRS_COUNTS; i++)
			pg_atomic_init_u64(&queue->counts[i], 0);
	}
	mtp_database_purged = drop_database;
}

const MtpShmem mtp_pagedir_queue_shmem = {
	"mtpower admission", queue_size, NULL, "mtpower_admit", 1, attach_queue
};
