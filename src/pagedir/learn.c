/*
 * learn.c
 *	  Learns from executed scans which column a table's directories are made of, and saves what is
 *	  learnt for a file that outlives restarts.
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
#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "buffer/buffer.h"
#include "pagedir/choice.h"

typedef struct DemandShared
{
	LWLock	   *lock;			/* guards all entries */
	pg_atomic_uint64 changes;	/* counts changes of what is learnt of any table; never 0; written
								 * under the lock */
} DemandShared;

static DemandShared *shared = NULL; /* NULL: without a buffer nothing is learnt */

/* Entries are MtpLearnt, by dbid and relid; a partition's is that of its topmost ancestor. */
static HTAB *demands = NULL;

/* ---------- entries ---------- */

/* Sets the learnt column.  The caller holds the lock exclusively. */
static void
set_learnt(MtpLearnt *d, AttrNumber learnt)
{
	if (d->learnt != learnt)
		pg_atomic_fetch_add_u64(&shared->changes, 1);
	d->learnt = learnt;
}

/*
 * Finds a table's entry, or makes one.  If no place is free it makes one with a chance of one in
 * MTP_LEARN_CHANCE, or always if the caller says so, in place of any other; else it returns NULL.
 * The caller holds the lock exclusively.
 */
static MtpLearnt *
demand_of(Oid dbid, Oid relid, bool always)
{
	const MtpLearnt new = {.dbid = dbid,.relid = relid};
	MtpLearnt  *d = hash_search(demands, &new, HASH_FIND, NULL);

	if (d != NULL)
		return d;
	if (hash_get_num_entries(demands) >= MTP_LEARN_TABLES)
	{
		HASH_SEQ_STATUS seq;
		uint64		left;

		if (!always && pg_prng_uint32(&pg_global_prng_state) % MTP_LEARN_CHANCE != 0)
			return NULL;
		left = pg_prng_uint64_range(&pg_global_prng_state, 1, hash_get_num_entries(demands));
		hash_seq_init(&seq, demands);
		for (; left > 0; left--)
			d = hash_seq_search(&seq);
		hash_seq_term(&seq);
		Assert(d != NULL);		/* the table is full */
		set_learnt(d, 0);
		hash_search(demands, d, HASH_REMOVE, NULL);
	}
	d = hash_search(demands, &new, HASH_ENTER, NULL);
	*d = new;
	return d;
}

uint64
mtp_pagedir_learn_changes(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u64(&shared->changes);
}

AttrNumber
mtp_pagedir_learnt_of(Oid root)
{
	const MtpLearnt key = {.dbid = MyDatabaseId,.relid = root};
	MtpLearnt  *d;
	AttrNumber	learnt;

	LWLockAcquire(shared->lock, LW_SHARED);
	d = hash_search(demands, &key, HASH_FIND, NULL);
	learnt = d == NULL ? InvalidAttrNumber : d->learnt;
	LWLockRelease(shared->lock);
	return learnt;
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
		e = palloc(sizeof(Execution));
		*e = (Execution)
		{
			.gone.func = forget_execution,.gone.arg = e,.query = query,.outer = executions
		};
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
 * Returns a column's place.  A new column gets a free place, or the place of the least count if
 * that is worth less than one scan; else -1.
 */
static int
place_of(MtpLearnt *d, AttrNumber attnum)
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

/*
 * Counts a scan in its entry.  Lets another column take over if it has twice the learnt one's
 * count.  The caller holds the lock exclusively.
 */
static void
count_scan(MtpLearnt *d, int n, const AttrNumber *attnums)
{
	const float factor = exp2(-1.0 / MTP_LEARN_HALF_LIFE);
	int			most = 0;
	float		learnt = 0;

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
		set_learnt(d, d->attnums[most]);
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
	MtpLearnt  *d;

	if (shared == NULL || IsParallelWorker() || RecoveryInProgress())
		return;
	mtp_pagedir_choice(rel, &directory);
	if (directory.choice != MTP_PAGEDIR_LEARNT)
		return;
	Assert(n <= MTP_LEARN_ASKED);
	for (int i = 0; i < n; i++)
		asked[i] = mtp_pagedir_translate(relid, directory.root, attnums[i]);
	if (directory.root != relid && !is_first(query, directory.root, n, asked))
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	d = demand_of(MyDatabaseId, directory.root, false);
	if (d != NULL)
		memcpy(seen, d->attnums, sizeof(seen));
	LWLockRelease(shared->lock);
	if (d == NULL)
		return;
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		good[i] = mtp_pagedir_can_use(RelationGetDescr(rel),
									  mtp_pagedir_translate(directory.root, relid, seen[i]));

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	d = demand_of(MyDatabaseId, directory.root, true);	/* it may have gone meanwhile */

	/* Forgets numbers that are no columns now, or were another table's (D8). */
	if (memcmp(seen, d->attnums, sizeof(seen)) == 0)
		for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
			if (!good[i])
			{
				if (d->learnt == d->attnums[i])
					set_learnt(d, 0);
				d->attnums[i] = 0;
				d->counts[i] = 0;
			}
	count_scan(d, n, asked);
	LWLockRelease(shared->lock);
}

/* ---------- saving ---------- */

int
mtp_pagedir_learn_save(MtpLearnt *tables)
{
	HASH_SEQ_STATUS seq;
	MtpLearnt  *d;
	int			n = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&seq, demands);
	while ((d = hash_seq_search(&seq)) != NULL)
	{
		Assert(n < MTP_LEARN_TABLES);
		tables[n++] = *d;
	}
	LWLockRelease(shared->lock);
	return n;
}

/*
 * True if mtp_pagedir_learn_save can have written this.  A column that each scan names has the
 * largest possible count.
 */
static bool
can_be_saved(const MtpLearnt *t)
{
	if (!OidIsValid(t->dbid) || !OidIsValid(t->relid) || t->scans > 2 || t->learnt < 0)
		return false;
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		if (t->attnums[i] < 0 || !(t->counts[i] >= 0 && t->counts[i] <= 2 * MTP_LEARN_HALF_LIFE))
			return false;
	return true;
}

void
mtp_pagedir_learn_restore(const MtpLearnt *tables, int n)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		const MtpLearnt *t = &tables[i];
		MtpLearnt  *d;

		if (!can_be_saved(t))
			continue;
		d = demand_of(t->dbid, t->relid, true);
		set_learnt(d, t->learnt);
		*d = *t;
	}
	LWLockRelease(shared->lock);
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
	return hash_estimate_size(MTP_LEARN_TABLES, sizeof(MtpLearnt));
}

static void
attach_shared(void *area, LWLockPadded *locks, bool found)
{
	HASHCTL		ctl = {
		.keysize = offsetof(MtpLearnt, learnt),.entrysize = sizeof(MtpLearnt)
	};

	shared = area;
	if (!found)
	{
		shared->lock = &locks->lock;
		pg_atomic_init_u64(&shared->changes, 1);
	}
	demands = ShmemInitHash("mtpower demand of tables", MTP_LEARN_TABLES,
							MTP_LEARN_TABLES, &ctl, HASH_ELEM | HASH_BLOBS);
}

const MtpShmem mtp_pagedir_learn_shmem = {
	"mtpower demand", shared_size, demands_size, "mtpower_demand", 1, attach_shared
};
