/*
 * stat_15.c
 *	  Counters per index up to PostgreSQL 17: in shared memory, with room for MAX_INDEXES of them.
 *
 * They are lost at a restart, as those of core are after a crash.  A dropped index keeps its
 * counters until they are read, or their room is needed.
 */
#include "batch/stat.h"

#if !MTP_OWN_STATISTICS

#include "core/shmem.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/syscache.h"

#define MAX_INDEXES		1024

/* An index in the hash table */
typedef struct Counted
{
	MtpIndexStat st;			/* its key comes first */
	dlist_node	node;			/* in the order of use */
} Counted;

/* Under lock, as the hash table is.  Nothing is called under it that waits or raises. */
typedef struct Shared
{
	dlist_head	order;			/* the index that was counted last comes first */
	uint64		evicted;
} Shared;

static Shared *shared = NULL;
static HTAB *table = NULL;
static LWLock *lock = NULL;

static Size
shared_size(void)
{
	return sizeof(Shared);
}

static Size
table_size(void)
{
	return hash_estimate_size(MAX_INDEXES, sizeof(Counted));
}

static void
attach(void *area, LWLockPadded *locks, bool found)
{
	HASHCTL		ctl = {.keysize = sizeof(MtpIndexStatKey),.entrysize = sizeof(Counted)};

	shared = area;
	lock = &locks[0].lock;
	if (!found)
	{
		dlist_init(&shared->order);
		shared->evicted = 0;
	}
	table = ShmemInitHash("mtpower index statistics", MAX_INDEXES, MAX_INDEXES, &ctl,
						  HASH_ELEM | HASH_BLOBS);
}

void
mtp_batch_stat_init(void)
{
	static const MtpShmem shmem = {
		"mtpower statistics", shared_size, table_size, "mtpower_statistics", 1, attach
	};

	mtp_shmem_register(&shmem);
}

/* Under the lock. */
static void
forget(Counted *c)
{
	dlist_delete(&c->node);
	hash_search(table, &c->st.key, HASH_REMOVE, NULL);
}

MtpStatRef
mtp_batch_stat_open(Relation index)
{
	MtpStatRef	ref = {.indexid = RelationGetRelid(index)};

	return ref;
}

/* If the table is full, the index that was counted longest ago makes room. */
void
mtp_batch_stat_count(Oid indexid, const MtpIndexCounts *more)
{
	MtpIndexStatKey key = {.dbid = MyDatabaseId,.indexid = indexid};
	Counted    *c;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	c = hash_search(table, &key, HASH_FIND, NULL);
	if (c != NULL)
		dlist_move_head(&shared->order, &c->node);
	else
	{
		if (hash_get_num_entries(table) >= MAX_INDEXES)
		{
			forget(dlist_tail_element(Counted, node, &shared->order));
			shared->evicted++;
		}
		c = hash_search(table, &key, HASH_ENTER, NULL);
		memset(&c->st.n, 0, sizeof(c->st.n));
		dlist_push_head(&shared->order, &c->node);
	}
	mtp_index_counts_add(&c->st.n, more);
	LWLockRelease(lock);
}

void
mtp_batch_stat_add(MtpStatRef ref, const MtpIndexCounts *more)
{
	mtp_batch_stat_count(ref.indexid, more);
}

/*
 * True if the index or its database has been dropped.  A transaction under way that made or dropped
 * the index locks it exclusively, and then it is not judged: we can't see a new one, and a dropped
 * one may come back.
 */
static bool
is_gone(const MtpIndexStatKey *key)
{
	Oid			indexid = key->indexid;
	LOCKTAG		tag;
	bool		gone;

	if (key->dbid != MyDatabaseId)
		return !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(key->dbid));
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(indexid)))
		return false;
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, indexid);
	if (MtpLockHeldByMe(&tag, AccessExclusiveLock) ||
		!ConditionalLockRelationOid(indexid, AccessShareLock))
		return false;
	gone = !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(indexid));
	UnlockRelationOid(indexid, AccessShareLock);
	return gone;
}

/* Copies them first: whether an index is there is a question for catalogs. */
MtpIndexStat *
mtp_batch_stat_read(int *n)
{
	MtpIndexStat *stats = palloc(MAX_INDEXES * sizeof(MtpIndexStat));
	int			all = 0;
	HASH_SEQ_STATUS seq;
	Counted    *c;

	LWLockAcquire(lock, LW_SHARED);
	hash_seq_init(&seq, table);
	while ((c = hash_seq_search(&seq)) != NULL)
		stats[all++] = c->st;
	LWLockRelease(lock);

	*n = 0;
	for (int i = 0; i < all; i++)
	{
		if (!is_gone(&stats[i].key))
		{
			stats[(*n)++] = stats[i];
			continue;
		}
		LWLockAcquire(lock, LW_EXCLUSIVE);
		if ((c = hash_search(table, &stats[i].key, HASH_FIND, NULL)) != NULL)
			forget(c);
		LWLockRelease(lock);
	}
	return stats;
}

uint64
mtp_batch_stat_evicted(void)
{
	uint64		evicted;

	LWLockAcquire(lock, LW_SHARED);
	evicted = shared->evicted;
	LWLockRelease(lock);
	return evicted;
}

void
mtp_batch_stat_reset(void)
{
	HASH_SEQ_STATUS seq;
	Counted    *c;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	hash_seq_init(&seq, table);
	while ((c = hash_seq_search(&seq)) != NULL)
		forget(c);
	shared->evicted = 0;
	LWLockRelease(lock);
}

#endif							/* !MTP_OWN_STATISTICS */
