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
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "buffer/buffer.h"
#include "pagedir/pagedir.h"
#include "pagedir/choice.h"

typedef struct DemandKey
{
	Oid			dbid;
	Oid			relid;			/* a partition's is that of its topmost ancestor */
} DemandKey;

typedef struct Demand
{
	DemandKey	key;
	uint32		scans;			/* counted scans, up to 2 */
	AttrNumber	learnt;			/* what directories are made of, or 0 */
	AttrNumber	attnums[MTP_LEARN_COLUMNS]; /* 0: a free place */
	float		counts[MTP_LEARN_COLUMNS];
} Demand;

typedef struct DemandShared
{
	LWLock	   *lock;			/* guards all entries */
	pg_atomic_uint64 changes;	/* counts changes of what is learnt of any table; never 0; written
								 * under the lock */
} DemandShared;

static DemandShared *shared = NULL;
static HTAB *demands = NULL;

/* True if there is such a column and its type has an order. */
static bool
is_orderable(TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att;

	if (attnum < 1 || attnum > desc->natts)
		return false;
	att = TupleDescAttr(desc, attnum - 1);
	return !att->attisdropped && mtp_pagedir_has_order(att->atttypid);
}

/* Sets the learnt column.  The caller holds the lock exclusively. */
static void
set_learnt(Demand *d, AttrNumber learnt)
{
	if (d->learnt != learnt)
		pg_atomic_fetch_add_u64(&shared->changes, 1);
	d->learnt = learnt;
}

/*
 * Returns the learnt column of a table or tree, or 0.  The caller must check that it exists (D8).
 */
static AttrNumber
learnt_of(Oid relid)
{
	DemandKey	key = {.dbid = MyDatabaseId,.relid = relid};
	Demand	   *d;
	AttrNumber	learnt = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	d = hash_search(demands, &key, HASH_FIND, NULL);
	if (d != NULL)
		learnt = d->learnt;
	LWLockRelease(shared->lock);
	return learnt;
}

/*
 * Returns the learnt column by the table's own number, if it can be used.  The relation's cache
 * entry keeps it until anything is learnt of any table, which is rare; a plan asks for each
 * partition.  A change of the root or of column numbers frees the note, even while this reads the
 * catalog.
 */
static AttrNumber
noted_learnt_of(Relation rel, Oid root)
{
	MtpPagedirNote *note = mtp_pagedir_note(rel);
	uint64		changes;
	AttrNumber	learnt;

	if (shared == NULL)
		return InvalidAttrNumber;
	changes = pg_atomic_read_u64(&shared->changes);
	if (note != NULL && note->changes == changes)
		learnt = note->learnt;
	else
	{
		learnt = mtp_pagedir_translate(root, RelationGetRelid(rel), learnt_of(root));
		if (note != NULL && note == mtp_pagedir_note(rel))
			*note = (MtpPagedirNote)
		{
			.changes = changes,.learnt = learnt
		};
	}
	return is_orderable(RelationGetDescr(rel), learnt) ? learnt : InvalidAttrNumber;
}

AttrNumber
mtp_pagedir_learnt(Relation rel)
{
	MtpPagedirChoice directory;

	mtp_pagedir_choice(rel, &directory);
	return noted_learnt_of(rel, directory.root);
}

int
mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt)
{
	MtpPagedirChoice directory;
	int			n;

	mtp_pagedir_choice(rel, &directory);
	if (learnt != NULL)
		*learnt = directory.choice == MTP_PAGEDIR_LEARNT;
	if (directory.choice == MTP_PAGEDIR_LEARNT)
	{
		attnums[0] = noted_learnt_of(rel, directory.root);
		return AttributeNumberIsValid(attnums[0]) ? 1 : 0;
	}
	n = Min(directory.ncolumns, MTP_PAGEDIR_COLUMNS);
	memcpy(attnums, directory.columns, n * sizeof(AttrNumber));
	return n;
}

bool
mtp_pagedir_off(Relation rel)
{
	MtpPagedirChoice directory;

	mtp_pagedir_choice(rel, &directory);
	return directory.choice == MTP_PAGEDIR_OFF;
}

/* ---------- counting ---------- */

/* Makes room for another table: drops one at random. */
static void
evict(void)
{
	HASH_SEQ_STATUS seq;
	Demand	   *d = NULL;

	hash_seq_init(&seq, demands);
	for (uint64 left = pg_prng_uint64_range(&pg_global_prng_state, 1, hash_get_num_entries(demands)); left > 0; left--)
		d = hash_seq_search(&seq);
	hash_seq_term(&seq);
	Assert(d != NULL);			/* the table is full */
	set_learnt(d, 0);
	hash_search(demands, &d->key, HASH_REMOVE, NULL);
}

/*
 * Finds a table's entry, or makes one.  If no place is free it makes one with a chance of one in
 * MTP_LEARN_CHANCE, or always if the caller says so; else it returns NULL. The caller holds the
 * lock exclusively.
 */
static Demand *
demand_of(Oid dbid, Oid relid, bool always)
{
	DemandKey	key = {.dbid = dbid,.relid = relid};
	Demand	   *d = hash_search(demands, &key, HASH_FIND, NULL);

	if (d == NULL)
	{
		if (hash_get_num_entries(demands) >= MTP_LEARN_TABLES)
		{
			if (!always && pg_prng_uint32(&pg_global_prng_state) % MTP_LEARN_CHANCE != 0)
				return NULL;
			evict();
		}
		d = hash_search(demands, &key, HASH_ENTER, NULL);
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

/* Lets another column take over if it has twice the learnt one's count. */
static void
learn(Demand *d)
{
	int			most = 0;
	float		learnt = 0;

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

/* Forgets numbers that are no columns now, or were another table's (D8). */
static void
forget_others(Demand *d, const bool *good)
{
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		if (!good[i])
		{
			if (d->learnt == d->attnums[i])
				set_learnt(d, 0);
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

static Execution *
execution_of(MemoryContext query)
{
	Execution  *e = executions;

	while (e != NULL && e->query != query)
		e = e->outer;
	if (e == NULL)
	{
		e = MemoryContextAllocZero(query, sizeof(Execution));
		e->query = query;
		e->outer = executions;
		e->gone.func = forget_execution;
		e->gone.arg = e;
		MemoryContextRegisterResetCallback(query, &e->gone);
		executions = e;
	}
	return e;
}

/* True if this is the execution's first scan of the tree with clauses on these columns. */
static bool
is_first(MemoryContext query, Oid root, int n, const AttrNumber *attnums)
{
	Execution  *e = execution_of(query);
	MemoryContext old = MemoryContextSwitchTo(query);
	List	   *scan = list_make1_oid(root);
	bool		first;

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

/* Counts a scan in its entry.  The caller holds the lock exclusively. */
static void
count(Demand *d, int n, const AttrNumber *attnums)
{
	static float factor = 0;

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
	learn(d);
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
		good[i] = is_orderable(RelationGetDescr(rel), mtp_pagedir_translate(directory.root, relid, seen[i]));

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	d = demand_of(MyDatabaseId, directory.root, true);
	if (memcmp(seen, d->attnums, sizeof(seen)) == 0)
		forget_others(d, good);
	count(d, n, asked);
	LWLockRelease(shared->lock);
}

/* ---------- over restarts ---------- */

int
mtp_pagedir_learn_save(MtpLearnt *tables)
{
	HASH_SEQ_STATUS seq;
	Demand	   *d;
	int			n = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&seq, demands);
	while ((d = hash_seq_search(&seq)) != NULL)
	{
		Assert(n < MTP_LEARN_TABLES);
		tables[n] = (MtpLearnt)
		{
			.dbid = d->key.dbid,.relid = d->key.relid,.learnt = d->learnt,.scans = d->scans
		};
		memcpy(tables[n].attnums, d->attnums, sizeof(d->attnums));
		memcpy(tables[n].counts, d->counts, sizeof(d->counts));
		n++;
	}
	LWLockRelease(shared->lock);
	return n;
}

/*
 * True if mtp_pagedir_learn_save can have written this.  A column that each scan names has the
 * largest possible count.
 */
static bool
is_possible(const MtpLearnt *t)
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
		Demand	   *d;

		if (!is_possible(t))
			continue;
		d = demand_of(t->dbid, t->relid, true);
		d->scans = t->scans;
		set_learnt(d, t->learnt);
		memcpy(d->attnums, t->attnums, sizeof(d->attnums));
		memcpy(d->counts, t->counts, sizeof(d->counts));
	}
	LWLockRelease(shared->lock);
}

/* ---------- shared memory ---------- */

Size
mtp_pagedir_learn_size(void)
{
	return add_size(MAXALIGN(sizeof(DemandShared)), hash_estimate_size(MTP_LEARN_TABLES, sizeof(Demand)));
}

void
mtp_pagedir_learn_make(LWLock *lock)
{
	HASHCTL		ctl = {
		.keysize = sizeof(DemandKey),.entrysize = sizeof(Demand)
	};
	bool		found;

	shared = ShmemInitStruct("mtpower demand", sizeof(DemandShared), &found);
	if (!found)
	{
		shared->lock = lock;
		pg_atomic_init_u64(&shared->changes, 1);
	}
	demands = ShmemInitHash("mtpower demand of tables", MTP_LEARN_TABLES, MTP_LEARN_TABLES, &ctl, HASH_ELEM | HASH_BLOBS);
}
