/*
 * queue.c
 *	  Takes index entries in: chooses an entry's queue, or has it inserted at once.
 */
#include "batch/statement.h"

#include "access/nbtree.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "core/identity.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memdebug.h"

/*
 * In a statement of MTP_MANY_QUEUES the first rows of each further table go in at once: a batch of
 * about 20 rows costs as much as it gains.
 */
#define MTP_FIRST_ROWS		16	/* … where a row comes now and then */
#define MTP_CLUSTERED_ROWS	32	/* … where they come table by table; none if the table before had
								 * as many */

uint64		mtp_batch_pending = 0;

/*
 * True if workers may compare keys of the index.  They may not if a comparison, or the sort support
 * that installs another one, is not built in: its privileges are its caller's.  Nor may they if it
 * may read catalogs while it runs: a worker that waits for a lock of the loader that waits for the
 * worker is a deadlock that nobody detects.
 */
static bool
index_is_worker_safe(Relation index)
{
	if (!mtp_batch_ops_of(index)->compares)
		return true;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid			type = index->rd_opcintype[i];

		/* The classes of arrays, enums, ranges and records are for pseudo-types. */
		if (index_getprocid(index, i + 1, BTORDER_PROC) >= FirstNormalObjectId ||
			index_getprocid(index, i + 1, BTSORTSUPPORT_PROC) >= FirstNormalObjectId ||
			type >= FirstNormalObjectId ||
			get_typtype(type) != TYPTYPE_BASE || OidIsValid(get_element_type(type)))
			return false;
	}
	return true;
}

/* A statement of many queues, as a load of partitions has, finds them by a hash table. */
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

/* The tables that mtp_batch_rows_come was true for. */
typedef struct HeapEntry
{
	Oid			relid;
	char		status;
} HeapEntry;

#define SH_PREFIX heaps
#define SH_ELEMENT_TYPE HeapEntry
#define SH_KEY_TYPE Oid
#define SH_KEY relid
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

bool
mtp_batch_rows_come(Relation rel, int n)
{
	MtpStatement *s = mtp_batch_statement;
	Oid			relid = RelationGetRelid(rel);
	Oid			last;
	bool		found;

	if (s != NULL)
		s->rows += n;
	if (s == NULL || !mtp_batching || !rel->rd_rel->relhasindex)
		return false;
	if (s->at_once > n)
	{
		s->at_once -= n;
		return false;
	}
	s->at_once = 0;
	last = s->told_heap;
	s->told_heap = relid;
	if (last == relid)
		return false;
	if (!OidIsValid(last))
		return true;
	if (s->told == NULL)
	{
		s->told = heaps_create(mtp_batch_statement_context(s), 16, NULL);
		heaps_insert(s->told, last, &found);
	}
	heaps_insert(s->told, relid, &found);
	return !found;
}

static void
remember_queue(MtpStatement *s, MtpQueue *q)
{
	QueueKey	key = {.indexid = q->indexid,.subxid = q->subxid};
	bool		found;

	queues_insert(s->by_index, key, &found)->queue = q;
}

/*
 * How many rows of a further table go in at once.  Where rows come table by table, the table before
 * tells how many to expect: then a batch begins at the first row, or more likely there is none.
 */
static int
rows_at_once(MtpStatement *s, Oid heapid)
{
	MtpQueue   *last = s->queues;

	if (s->nqueues < MTP_MANY_QUEUES)
		return 0;
	if (s->bulk_heap == heapid && s->bulk_rows >= MTP_CLUSTERED_ROWS)
		return 0;

	/* All indexes of a table do as its first one, which has counted the row at hand already. */
	if (last->heapid == heapid)
		return last->at_once == 0 ? 0 : last->at_once + 1;
	if (mtp_batch_min_rows < MTP_FIRST_ROWS)
		return mtp_batch_min_rows;
	if (s->last_heap != last->heapid || last->rows == 1)
		return MTP_FIRST_ROWS;
	return last->rows < MTP_CLUSTERED_ROWS ? MTP_CLUSTERED_ROWS : 0;
}

/* The queue of the index in this subtransaction, made if there is none yet. */
static MtpQueue *
find_queue(MtpStatement *s, Relation index, Relation heap, bool narrow)
{
	QueueKey	key = {
		.indexid = RelationGetRelid(index),.subxid = GetCurrentSubTransactionId()
	};
	MtpQueue   *q;

	if (s->by_index != NULL)
	{
		QueueEntry *entry = queues_lookup(s->by_index, key);

		if (entry != NULL)
			return entry->queue;
	}
	else
		for (q = s->queues; q != NULL; q = q->next)
			if (q->indexid == key.indexid && q->subxid == key.subxid)
				return q;

	q = s->nqueues < MTP_QUEUE_PLACES ? &s->places[s->nqueues] :
		MemoryContextAlloc(mtp_batch_statement_context(s), sizeof(MtpQueue));
	memset(q, 0, sizeof(*q));
	q->statement = s;
	q->subxid = key.subxid;
	q->indexid = key.indexid;
	q->heapid = RelationGetRelid(heap);
	q->narrow = narrow;
	q->at_once = rows_at_once(s, q->heapid);
	q->next = s->queues;
	s->queues = q;
	if (s->by_index != NULL)
		remember_queue(s, q);
	s->ninner += q->subxid != s->subxid;
	if (++s->nqueues == MTP_MANY_QUEUES)
	{
		s->by_index = queues_create(mtp_batch_statement_context(s), 256, NULL);
		for (MtpQueue *each = q; each != NULL; each = each->next)
			remember_queue(s, each);
	}
	return q;
}

/* Looks through all queues only where they are few, or an inner subtransaction has some. */
MtpQueue *
mtp_batch_queue_pending(MtpStatement *s, Oid indexid)
{
	if (s->by_index != NULL && s->ninner == 0)
	{
		QueueKey	key = {.indexid = indexid,.subxid = s->subxid};
		QueueEntry *entry = queues_lookup(s->by_index, key);

		return entry != NULL && entry->queue->pending > 0 ? entry->queue : NULL;
	}
	for (MtpQueue *q = s->queues; q != NULL; q = q->next)
		if (q->indexid == indexid && q->pending > 0)
			return q;
	return NULL;
}

/* At the statement's end.  If the queue's subtransaction is over, the transaction's end unlocks. */
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

/*
 * Keeps the index's cache entry, and with it the routine by which its insertion came here, for the
 * scans that must find the entries.  Whoever inserts may close the index before they are in.
 */
static void
keep_index(MtpQueue *q, Relation index)
{
	ResourceOwner old = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	RelationIncrementReferenceCount(index);
	q->index = index;
	q->keeper = CurrentResourceOwner;
	CurrentResourceOwner = old;
}

void
mtp_batch_queue_let_go(MtpQueue *q)
{
	ResourceOwner old = CurrentResourceOwner;

	if (q->index == NULL)
		return;
	CurrentResourceOwner = q->keeper;
	RelationClose(q->index);
	q->index = NULL;
	CurrentResourceOwner = old;
}

/*
 * True if COPY into the table, or into a partitioned one above it, fires AFTER triggers of users.
 * They run before COPY is drained, and should see no row with a conflict.  Those of foreign keys do
 * nothing but look, and raise an error.
 */
static bool
fires_after_triggers(Relation heap)
{
	List	   *relids = list_make1_oid(RelationGetRelid(heap));
	bool		fires = false;
	ListCell   *lc;

	if (heap->rd_rel->relispartition)
		relids = list_concat(relids, get_partition_ancestors(RelationGetRelid(heap)));
	foreach(lc, relids)
	{
		Relation	rel = table_open(lfirst_oid(lc), AccessShareLock);
		TriggerDesc *triggers = rel->trigdesc;

		for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		{
			Trigger    *t = &triggers->triggers[i];

			fires |= TRIGGER_FOR_INSERT(t->tgtype) && TRIGGER_FOR_AFTER(t->tgtype) &&
				RI_FKey_trigger_type(t->tgfoid) == RI_TRIGGER_NONE;
		}
		table_close(rel, AccessShareLock);
	}
	list_free(relids);
	return fires;
}

/* True if the statement queues entries like this one, behind its first rows. */
static bool
may_queue(MtpStatement *s, Relation index, Relation heap, IndexUniqueCheck check)
{
	if (s == NULL || s->forced >= MTP_MAX_FORCED || !mtp_batching)
		return false;
	/* Heap does not tell which rows it takes back. */
	if (s->speculates && !mtp_table_is_ours(heap))
		return false;
	if (check != UNIQUE_CHECK_NO &&
		(check != UNIQUE_CHECK_YES || !s->inserts || IsolationIsSerializable()))
		return false;
	return index->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		!index->rd_index->indisexclusion && !IsInParallelMode() && !mtp_batch_queue_closed() &&
		TransactionIdIsValid(GetCurrentTransactionIdIfAny());
}

/* True if the entry belongs to the statement's first rows, which go in at once. */
static bool
waits(MtpStatement *s, Relation index)
{
	return s->at_once > 0 && (!s->own_queue || mtp_batch_ops_of(index)->redirects);
}

bool
mtp_batch_queues(Relation index, Relation heap, IndexUniqueCheck check)
{
	MtpStatement *s = mtp_batch_statement;

	return may_queue(s, index, heap, check) && !waits(s, index);
}

/* The queue for an entry, or NULL if it goes in at once. */
static MtpQueue *
queue_for(Relation index, Relation heap, bool narrow, ItemPointer tid, IndexUniqueCheck check,
		  MtpArrival arrival)
{
	MtpStatement *s = mtp_batch_statement;
	MtpQueue   *q;

	if (!may_queue(s, index, heap, check))
		return NULL;

	/*
	 * The statement's first rows go in at once.  Our table AM has counted them.  Of another table
	 * a row's entries come one after the other.
	 */
	if (s->at_once > 0)
	{
		if (!mtp_table_is_ours(heap) &&
			(s->counted_heap != RelationGetRelid(heap) ||
			 !ItemPointerEquals(&s->counted_tid, tid)))
		{
			s->at_once--;
			s->counted_heap = RelationGetRelid(heap);
			s->counted_tid = *tid;
		}
		if (waits(s, index))
			return NULL;
	}
	q = find_queue(s, index, heap, narrow);
	q->rows++;
	s->last_heap = q->heapid;
	if (q->at_once > 0)
	{
		q->at_once--;
		return NULL;
	}
	if (q->forced >= MTP_MAX_FORCED || q->refused)
		return NULL;
	if (!q->used && check != UNIQUE_CHECK_NO && s->copies && fires_after_triggers(heap))
	{
		q->refused = true;
		return NULL;
	}
	if (!q->used)
	{
		MemoryContext old = MemoryContextSwitchTo(mtp_batch_statement_context(s));
		ResourceOwner owner = CurrentResourceOwner;
		const MtpBatchOps *ops;

		/* Until the entries are in the table must stay, even if its inserter lets go of it. */
		LockRelationOid(q->heapid, RowExclusiveLock);

		/*
		 * COPY lets go of the index too.  A session that took the index then and wanted the table,
		 * as DROP … CASCADE may, would meet the drain in a deadlock.  The subtransaction owns
		 * the lock: portals come and go within the statement.
		 */
		CurrentResourceOwner = CurTransactionResourceOwner;
		LockRelationOid(q->indexid, RowExclusiveLock);
		CurrentResourceOwner = owner;

		/* Workers that get no lock find its counters. */
		(void) mtp_batch_stat_open(index);
		ops = mtp_batch_ops_of(index);
		q->order = narrow ? NULL : ops->order(index);
		q->worker_ok = index_is_worker_safe(index);
		q->unique = index->rd_index->indisunique;
		q->owner_alone = ops->owner_alone ? ops->owner_alone(index) : MTP_NOT_ALONE;
		q->redirected = ops->redirects;
		s->nalone += q->owner_alone != MTP_NOT_ALONE;
		q->locator = MtpRelLocator(index);
		q->used = true;
		MemoryContextSwitchTo(old);
	}
	if (q->redirected && q->index == NULL)
		keep_index(q, index);
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
		if (!mtp_batch_next_run(q, sizeof(MtpNarrow)))
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
	e.prefix = mtp_batch_order_prefix(q->order, itup);
	run = q->run;
	if (run == NULL || run->used + size + (run->n + 1) * sizeof(MtpWide) > MTP_RUN_BYTES(run))
	{
		if (!mtp_batch_next_run(q, size + sizeof(MtpWide)))
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

/* True if the last entry of the run that is being filled is the row's. */
static bool
ends_with(MtpQueue *q, ItemPointer tid)
{
	ItemPointerData last;

	if (q->run == NULL || q->run->n == 0)
		return false;
	if (!q->narrow)
		return ItemPointerEquals(&MTP_RUN_WIDE(q->run)->itup->t_tid, tid);
	mtp_rid_to_tid(MTP_RUN_NARROW(q->run)[q->run->n - 1].rid & ~MTP_RID_LAST, &last);
	return ItemPointerEquals(&last, tid);
}

/*
 * The row's entries are the last ones of the runs that are being filled, unless they went in at
 * once, or a scan had them applied meanwhile: in an index they are as harmless as any entry of a
 * dead row, since VACUUM meets them.  Or the run was full, or submitted for want of memory.  Then
 * what is queued goes in before the row is dead.
 */
void
mtp_batch_take_back(Relation rel, const ItemPointerData *tid)
{
	if (mtp_batch_pending == 0)
		return;
	for (MtpQueue *q = mtp_batch_statement->queues; q != NULL; q = q->next)
	{
		MtpRun	   *run = q->run;

		if (q->heapid != RelationGetRelid(rel) || q->pending == 0)
			continue;
		if (!ends_with(q, unconstify(ItemPointerData *, tid)))
		{
			mtp_batch_drain(q->statement->serial, q->indexid, q->subxid);
			continue;
		}
		if (!q->narrow)
			run->used = (char *) MTP_RUN_WIDE(run)->itup - run->mem;
		run->n--;
		q->filled--;
		mtp_batch_pending--;
		if (--q->pending == 0)
			mtp_batch_queue_let_go(q);
	}
}
