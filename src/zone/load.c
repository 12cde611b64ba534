/*
 * load.c
 *	  Takes the rows of a load a batch at a time, where the table's access method hands them over.
 *
 * Core forms the values of each row for each index, and calls it: for a zone index that costs three
 * times what the index does with them.  So an index that meets a row of a statement's first batch
 * is *taken*: whatever rows this backend stores in its table widen its entries right then.  When
 * core comes with a row of a later batch, the statement's IndexInfo is marked: core passes over an
 * index that is not ready for insertions.  All rows that would have come with this IndexInfo are of
 * that batch, or are stored later; a caller that stores two batches before it asks for the entries
 * of the first one finds no index taken.
 *
 * An IndexInfo is marked only while its index is taken: until the statement ends, or one within it.
 * Core comes with the rows then as before, until the index is taken again.
 *
 * Expressions and predicates need the executor, so core comes with each row of their indexes.
 */
#include "zone/zone.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "utils/memutils.h"

#define TAKEN_MOST	8
#define BATCH_MOST	1000		/* rows, as COPY buffers them */

typedef struct Taken
{
	Oid			indexid;
	Oid			heapid;
	uint64		since;			/* it has all rows of batches behind this one */
} Taken;

static Taken taken[TAKEN_MOST];
static int	ntaken = 0;

/* An IndexInfo that is marked, as long as its memory is there */
typedef struct Mark
{
	dlist_node	node;
	IndexInfo  *info;
	MemoryContextCallback callback; /* without an argument once it is marked no more */
} Mark;

static dlist_head marks = DLIST_STATIC_INIT(marks);

/* The last batch: its table, its number, and where its rows are */
static struct
{
	Oid			heapid;
	bool		first;			/* of the statement, or of those in a row of this table */
	uint64		number;
	int			n;
	ItemPointerData tids[BATCH_MOST];
}			last;

/* A column of a row that was stored just now: slots have forgotten the columns that they had. */
static inline Datum
column_of(TupleTableSlot *slot, int column, bool *isnull)
{
	if (TTS_IS_BUFFERTUPLE(slot) && ((HeapTupleTableSlot *) slot)->tuple != NULL)
		return heap_getattr(((HeapTupleTableSlot *) slot)->tuple, column,
							slot->tts_tupleDescriptor, isnull);
	return slot_getattr(slot, column, isnull);
}

/* The entries of a pair are made here, and held together. */
static void
widen_by(Relation index, TupleTableSlot **slots, int n)
{
	MtpZoneInfo info = *mtp_zone_info(index);	/* a value in TOAST may reload the relcache */
	const int16 *columns = index->rd_index->indkey.values;
	uint32		pair = ItemPointerGetBlockNumber(&slots[0]->tts_tid) / MTP_ZONE_BLOCKS;
	MtpZoneEntry entry;

	mtp_zone_clear(&info, &entry);
	for (int i = 0; i < n; i++)
	{
		uint32		at = ItemPointerGetBlockNumber(&slots[i]->tts_tid) / MTP_ZONE_BLOCKS;
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		if (at != pair)
		{
			mtp_zone_hold_entry(index, pair, &entry);
			mtp_zone_clear(&info, &entry);
			pair = at;
		}
		for (int k = 0; k < info.natts; k++)
			values[k] = column_of(slots[i], columns[k], &isnull[k]);
		mtp_zone_add_row(&info, &entry, values, isnull);
	}
	mtp_zone_hold_entry(index, pair, &entry);
}

void
mtp_zone_rows_come(Relation heap, TupleTableSlot **slots, int n)
{
	for (int i = 0; i < ntaken; i++)
		if (taken[i].heapid == RelationGetRelid(heap))
		{
			/* One that was made in a subtransaction that has failed is not there any more. */
			Relation	index = try_relation_open(taken[i].indexid, RowExclusiveLock);

			if (index == NULL)
				continue;
			widen_by(index, slots, n);
			relation_close(index, RowExclusiveLock);
		}
}

/* COPY hands over batches of no rows too, of partitions that it has filled in between. */
void
mtp_zone_batch_comes(Relation heap, TupleTableSlot **slots, int n)
{
	if (n == 0)
		return;
	mtp_zone_rows_come(heap, slots, n);
	last.first = last.heapid != RelationGetRelid(heap);
	last.heapid = RelationGetRelid(heap);
	last.number++;
	last.n = ntaken > 0 && n <= BATCH_MOST ? n : 0;
	for (int i = 0; i < last.n; i++)
		last.tids[i] = slots[i]->tts_tid;
}

/* Its number among those that are taken; -1 if it is not, or has not been yet. */
static int
take(Oid indexid, IndexInfo *info)
{
	for (int i = 0; i < ntaken; i++)
		if (taken[i].indexid == indexid)
			return i;
	if (last.first && ntaken < TAKEN_MOST && info->ii_Expressions == NIL &&
		info->ii_Predicate == NIL)
	{
		Taken	   *t = &taken[ntaken++];

		t->indexid = indexid;
		t->heapid = last.heapid;
		t->since = last.number;
	}
	return -1;
}

static void
forget_mark(void *arg)
{
	Mark	   *m = arg;

	if (m != NULL)
		dlist_delete(&m->node);
}

static void
mark(IndexInfo *info)
{
	MemoryContext cxt = GetMemoryChunkContext(info);
	Mark	   *m = MemoryContextAlloc(cxt, sizeof(Mark));

	m->info = info;
	m->callback.func = forget_mark;
	m->callback.arg = m;
	MemoryContextRegisterResetCallback(cxt, &m->callback);
	dlist_push_head(&marks, &m->node);
	info->ii_ReadyForInserts = false;
}

bool
mtp_zone_has_row(Relation index, ItemPointer tid, IndexInfo *info)
{
	int			at;

	if (last.heapid != index->rd_index->indrelid)
		return false;
	at = take(RelationGetRelid(index), info);
	if (at < 0 || taken[at].since == last.number)
		return false;
	for (int i = 0; i < last.n; i++)
		if (ItemPointerEquals(&last.tids[i], tid))
		{
			mark(info);
			return true;
		}
	return false;
}

void
mtp_zone_loads_end(void)
{
	while (!dlist_is_empty(&marks))
	{
		Mark	   *m = dlist_container(Mark, node, dlist_pop_head_node(&marks));

		m->info->ii_ReadyForInserts = true;
		m->callback.arg = NULL;
	}
	ntaken = 0;
	last.heapid = InvalidOid;
}
