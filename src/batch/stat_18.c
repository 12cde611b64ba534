/*
 * stat_18.c
 *	  Counters per index since PostgreSQL 18: cumulative statistics of a kind of mtpower's own.
 *
 * Core keeps them in its table, without a limit, and in its file from a clean shutdown to the next
 * start.  README.md argues what this file does: who makes counters, how they go with the index, and
 * why nothing is raised where counters are added.
 */
#include "batch/stat.h"

#if MTP_OWN_STATISTICS

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/pgstat_internal.h"
#include "utils/syscache.h"

/* 24 is for experiments.  https://wiki.postgresql.org/wiki/CustomCumulativeStats has the list. */
#define MTP_STAT_KIND	31

/* As core's table has them */
typedef struct SharedCounts
{
	PgStatShared_Common header;
	MtpIndexCounts n;
} SharedCounts;

static object_access_hook_type next_access = NULL;

/* The index of the DROP INDEX CONCURRENTLY under way */
static Oid	dropping = InvalidOid;

/*
 * Nothing is ever pending: what is added is in the table at once.  A pending entry keeps the
 * reference to the counters; core asks for this one, and lets go of it, between transactions.
 */
static bool
flush_nothing(PgStat_EntryRef *entry, bool nowait)
{
	return true;
}

static const PgStat_KindInfo kind = {
	.name = "mtpower_index",
	.write_to_file = true,
	.shared_size = sizeof(SharedCounts),
	.shared_data_off = offsetof(SharedCounts, n),
	.shared_data_len = sizeof(MtpIndexCounts),
	.pending_size = 1,
	.flush_pending_cb = flush_nothing
};

/* If the index was made in this transaction and is rolled back, its counters go with it. */
MtpStatRef
mtp_batch_stat_open(Relation index)
{
	MtpStatRef	ref = {.indexid = RelationGetRelid(index)};

	if (index->rd_createSubid != InvalidSubTransactionId &&
		!pgstat_have_entry(MTP_STAT_KIND, MyDatabaseId, ref.indexid))
		pgstat_create_transactional(MTP_STAT_KIND, MyDatabaseId, ref.indexid);
	ref.entry = pgstat_prep_pending_entry(MTP_STAT_KIND, MyDatabaseId, ref.indexid, NULL);
	return ref;
}

static void
add(SharedCounts *counts, const MtpIndexCounts *more)
{
	LWLockAcquire(&counts->header.lock, LW_EXCLUSIVE);
	mtp_index_counts_add(&counts->n, more);
	LWLockRelease(&counts->header.lock);
}

/* If the index has been dropped meanwhile, what is added goes with its counters. */
void
mtp_batch_stat_add(MtpStatRef ref, const MtpIndexCounts *more)
{
	add((SharedCounts *) ref.entry->shared_stats, more);
}

/* No reference is left with core: only those who lock the index have any. */
void
mtp_batch_stat_count(Oid indexid, const MtpIndexCounts *more)
{
	PgStat_HashKey key;
	PgStatShared_HashEntry *entry;

	memset(&key, 0, sizeof(key));	/* core compares padding too */
	key.kind = MTP_STAT_KIND;
	key.dboid = MyDatabaseId;
	key.objid = indexid;
	entry = dshash_find(pgStatLocal.shared_hash, &key, false);
	if (entry == NULL)
		return;
	if (!entry->dropped)
		add(dsa_get_address(pgStatLocal.dsa, entry->body), more);
	dshash_release_lock(pgStatLocal.shared_hash, entry);
}

/* Core has snapshots of statistics, but tells nobody which objects are in them. */
MtpIndexStat *
mtp_batch_stat_read(int *n)
{
	int			room = 256;
	MtpIndexStat *stats = palloc(room * sizeof(MtpIndexStat));
	dshash_seq_status seq;
	PgStatShared_HashEntry *entry;

	*n = 0;
	dshash_seq_init(&seq, pgStatLocal.shared_hash, false);
	while ((entry = dshash_seq_next(&seq)) != NULL)
	{
		SharedCounts *counts;

		if (entry->key.kind != MTP_STAT_KIND || entry->dropped)
			continue;
		if (*n == room)
			stats = repalloc_huge(stats, (Size) (room *= 2) * sizeof(MtpIndexStat));
		counts = dsa_get_address(pgStatLocal.dsa, entry->body);
		stats[*n].key.dbid = entry->key.dboid;
		stats[*n].key.indexid = (Oid) entry->key.objid;
		LWLockAcquire(&counts->header.lock, LW_SHARED);
		stats[*n].n = counts->n;
		LWLockRelease(&counts->header.lock);
		(*n)++;
	}
	dshash_seq_term(&seq);
	return stats;
}

uint64
mtp_batch_stat_evicted(void)
{
	return 0;
}

void
mtp_batch_stat_reset(void)
{
	pgstat_reset_of_kind(MTP_STAT_KIND);
}

/*
 * An index's counters go when its transaction has committed.  DROP INDEX CONCURRENTLY calls this in
 * the first of several transactions, and until the last one loads go on, and count.
 */
static void
note_dropped_index(ObjectAccessType access, Oid class, Oid object, int sub_id, void *arg)
{
	if (next_access != NULL)
		next_access(access, class, object, sub_id, arg);

	if (access != OAT_DROP || class != RelationRelationId || sub_id != 0 ||
		get_rel_relkind(object) != RELKIND_INDEX)
		return;
	if (((ObjectAccessDrop *) arg)->dropflags & PERFORM_DELETION_CONCURRENTLY)
		dropping = object;
	else
		pgstat_drop_transactional(MTP_STAT_KIND, MyDatabaseId, object);
}

static void
end_concurrent_drop(XactEvent event, void *arg)
{
	if (!OidIsValid(dropping))
		return;
	if (event == XACT_EVENT_ABORT)
		dropping = InvalidOid;
	else if (event == XACT_EVENT_PRE_COMMIT &&
			 !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(dropping)))
	{
		pgstat_drop_transactional(MTP_STAT_KIND, MyDatabaseId, dropping);
		dropping = InvalidOid;
	}
}

void
mtp_batch_stat_init(void)
{
	pgstat_register_kind(MTP_STAT_KIND, &kind);
	next_access = object_access_hook;
	object_access_hook = note_dropped_index;
	RegisterXactCallback(end_concurrent_drop, NULL);
}

#endif							/* MTP_OWN_STATISTICS */
