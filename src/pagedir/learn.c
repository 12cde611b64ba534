/*
 * learn.c
 *	  Learns from executed scans which column a table's directories are made of.
 *
 * Shared memory has an entry for each table that is scanned so, with a count for each of a few
 * columns.  All tables of a partition tree share one entry, under the number of the root and with
 * the root's column numbers.  Entries are hints (invariant D8): one may go when others need its
 * place, and may be left from a dropped table whose number another table has now.  So each reader
 * checks that there is such a column.
 */
#include "pagedir/learn.h"

#include <math.h>

#include "access/parallel.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#include "buffer/buffer.h"
#include "pagedir/choice.h"
#include "pagedir/demand.h"

DemandShared *mtp_pagedir_demand_shared = NULL;
HTAB	   *mtp_pagedir_demands = NULL;

void
mtp_pagedir_set_learnt(Demand *d, AttrNumber learnt)
{
	if (d->learnt != learnt)
		pg_atomic_fetch_add_u64(&mtp_pagedir_demand_shared->changes, 1);
	d->learnt = learnt;
}

/* ---------- counting ---------- */

/* Makes room for another table: drops one at random. */
static void
evict_entry(void)
{
	HASH_SEQ_STATUS seq;
	Demand	   *d = NULL;
	uint64		left = hash_get_num_entries(mtp_pagedir_demands);

	hash_seq_init(&seq, mtp_pagedir_demands);
	for (left = pg_prng_uint64_range(&pg_global_prng_state, 1, left); left > 0; left--)
		d = hash_seq_search(&seq);
	hash_seq_term(&seq);
	Assert(d != NULL);			/* the table is full */
	mtp_pagedir_set_learnt(d, 0);
	hash_search(mtp_pagedir_demands, &d->key, HASH_REMOVE, NULL);
}

Demand *
mtp_pagedir_demand(Oid dbid, Oid relid, bool always)
{
	DemandKey	key = {.dbid = dbid,.relid = relid};
	Demand	   *d = hash_search(mtp_pagedir_demands, &key, HASH_FIND, NULL);

	if (d == NULL)
	{
		if (hash_get_num_entries(mtp_pagedir_demands) >= MTP_LEARN_TABLES)
		{
			if (!always && pg_prng_uint32(&pg_global_prng_state) % MTP_LEARN_CHANCE != 0)
				return NULL;
			evict_entry();
		}
		d = hash_search(mtp_pagedir_demands, &key, HASH_ENTER, NULL);
		memset((char *) d + sizeof(key), 0, sizeof(*d) - sizeof(key));
	}
	return d;
}

/*
 * Returns a column's place.  A new column gets a free place, or the place of the least count if
 * that is worth less than one scan; else -1.
 */
static int
place_of(Demand *d, AttrNumber attnum)
{
	int			least = 0;

	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
	{
		if (d->attnums[i] == attnum)
			return i;
		if (d->counts[i] < d->counts[least])
			least = i;
	}
	if (d->counts[least] >= 1)
		return -1;
	d->attnums[least] = attnum;
	d->counts[least] = 0;
	return least;
}

/* Forgets numbers that are no columns now, or were another table's (D8). */
static void
forget_others(Demand *d, const bool *good)
{
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		if (!good[i])
		{
			if (d->learnt == d->attnums[i])
				mtp_pagedir_set_learnt(d, 0);
			d->attnums[i] = 0;
			d->counts[i] = 0;
		}
}

/* ---------- partition trees ---------- */

/*
 * The partition trees that an execution has counted.  It lies in the execution's memory and goes
 * with it.
 */
typedef struct Execution
{
	MemoryContextCallback gone;
	MemoryContext query;
	struct Execution *outer;
	List	   *scans;			/* lists of a tree's root and columns */
} Execution;

static Execution *executions = NULL;

static void
forget_execution(void *arg)
{
	Execution **e = &executions;

	while (*e != arg)
		e = &(*e)->outer;
	*e = (*e)->outer;
}

/* True if this is the execution's first scan of the tree with clauses on these columns. */
static bool
is_first(MemoryContext query, Oid root, int n, const AttrNumber *attnums)
{
	Execution  *e = executions;
	MemoryContext old = MemoryContextSwitchTo(query);
	List	   *scan = list_make1_oid(root);
	bool		first;

	while (e != NULL && e->query != query)
		e = e->outer;
	if (e == NULL)
	{
		e = palloc0(sizeof(Execution));
		e->query = query;
		e->outer = executions;
		e->gone.func = forget_execution;
		e->gone.arg = e;
		MemoryContextRegisterResetCallback(query, &e->gone);
		executions = e;
	}
	for (int i = 0; i < n; i++)
		scan = lappend_oid(scan, attnums[i]);
	first = !list_member(e->scans, scan);
	if (first)
		e->scans = lappend(e->scans, scan);
	else
		list_free(scan);
	MemoryContextSwitchTo(old);
	return first;
}

/* ---------- a scan ---------- */

/*
 * Counts a scan in its entry.  Lets another column take over if it has twice the learnt one's
 * count.  The caller holds the lock exclusively.
 */
static void
count_scan(Demand *d, int n, const AttrNumber *attnums)
{
	static float factor = 0;
	int			most = 0;
	float		learnt = 0;

	if (factor == 0)
		factor = exp2(-1.0 / MTP_LEARN_HALF_LIFE);
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		d->counts[i] *= factor;
	for (int i = 0; i < n; i++)
	{
		int			place = AttributeNumberIsValid(attnums[i]) ? place_of(d, attnums[i]) : -1;

		if (place >= 0)
			d->counts[place] += 1;
	}
	d->scans = Min(d->scans + 1, 2);

	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
	{
		if (d->counts[i] > d->counts[most])
			most = i;
		if (d->learnt != 0 && d->attnums[i] == d->learnt)
			learnt = d->counts[i];
	}
	if (d->scans >= 2 && d->counts[most] > 0 && d->counts[most] >= 2 * learnt)
		mtp_pagedir_set_learnt(d, d->attnums[most]);
}

/*
 * Checking columns may read the catalog, so this releases the lock meanwhile.  If the entry's
 * columns change in between, the next scan checks them.
 */
void
mtp_pagedir_learn_count(Relation rel, MemoryContext query, int n, const AttrNumber *attnums)
{
	MtpPagedirChoice directory;
	Oid			relid = RelationGetRelid(rel);
	AttrNumber	asked[MTP_LEARN_ASKED];
	AttrNumber	seen[MTP_LEARN_COLUMNS];
	bool		good[MTP_LEARN_COLUMNS];
	Demand	   *d;

	if (mtp_pagedir_demand_shared == NULL || IsParallelWorker() || RecoveryInProgress())
		return;
	mtp_pagedir_choice(rel, &directory);
	if (directory.choice != MTP_PAGEDIR_LEARNT)
		return;
	Assert(n <= MTP_LEARN_ASKED);
	for (int i = 0; i < n; i++)
		asked[i] = mtp_pagedir_translate(relid, directory.root, attnums[i]);
	if (directory.root != relid && !is_first(query, directory.root, n, asked))
		return;

	LWLockAcquire(mtp_pagedir_demand_shared->lock, LW_EXCLUSIVE);
	d = mtp_pagedir_demand(MyDatabaseId, directory.root, false);
	if (d != NULL)
		memcpy(seen, d->attnums, sizeof(seen));
	LWLockRelease(mtp_pagedir_demand_shared->lock);
	if (d == NULL)
		return;
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		good[i] = mtp_pagedir_can_use(RelationGetDescr(rel),
									  mtp_pagedir_translate(directory.root, relid, seen[i]));

	LWLockAcquire(mtp_pagedir_demand_shared->lock, LW_EXCLUSIVE);
	d = mtp_pagedir_demand(MyDatabaseId, directory.root, true);
	if (memcmp(seen, d->attnums, sizeof(seen)) == 0)
		forget_others(d, good);
	count_scan(d, n, asked);
	LWLockRelease(mtp_pagedir_demand_shared->lock);
}

/* ---------- shared memory ---------- */

/* Without a buffer there is no shared memory, and nothing is learnt. */
static Size
shared_size(void)
{
	return mtp_buffer_size > 0 ? sizeof(DemandShared) : 0;
}

static Size
demands_size(void)
{
	return hash_estimate_size(MTP_LEARN_TABLES, sizeof(Demand));
}

static void
attach_shared(void *area, LWLockPadded *locks, bool found)
{
	HASHCTL		ctl = {
		.keysize = sizeof(DemandKey),.entrysize = sizeof(Demand)
	};

	mtp_pagedir_demand_shared = area;
	if (!found)
	{
		mtp_pagedir_demand_shared->lock = &locks->lock;
		pg_atomic_init_u64(&mtp_pagedir_demand_shared->changes, 1);
	}
	mtp_pagedir_demands = ShmemInitHash("mtpower demand of tables", MTP_LEARN_TABLES,
										MTP_LEARN_TABLES, &ctl, HASH_ELEM | HASH_BLOBS);
}

const MtpShmem mtp_pagedir_learn_shmem = {
	"mtpower demand", shared_size, demands_size, "mtpower_demand", 1, attach_shared
};
