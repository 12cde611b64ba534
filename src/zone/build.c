/*
 * build.c
 *	  Builds a zone index: one scan of the table, in the order of its blocks.
 *
 * Each page is made once (wal/writer.h), when the scan has left the blocks that it is about.
 */
#include "zone/zone.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "opclass/validate.h"
#include "wal/writer.h"

/* The page of a level that is being filled */
typedef struct Level
{
	Page		page;			/* NULL before the first one */
	uint32		number;
} Level;

typedef struct Build
{
	Relation	index;
	MtpZoneInfo info;			/* a copy: the relcache's may go meanwhile */
	MtpWriter	writer;
	double		rows;
	bool		begun;
	uint32		pair;			/* whose entry is being made */
	MtpZoneEntry entry;
	Level		levels[MTP_ZONE_HEIGHT];
} Build;

static void add(Build *b, int level, uint64 at, const MtpZoneEntry *entry);

/* Writes the level's page, and tells the level above. */
static void
finish_page(Build *b, int level)
{
	Level	   *l = &b->levels[level];
	MtpZoneEntry all;

	memcpy(mtp_writer_page(&b->writer, mtp_zone_block(&b->info, level, l->number)), l->page,
		   BLCKSZ);
	if (level + 1 == MTP_ZONE_HEIGHT)
		return;
	(void) mtp_zone_sum(&b->info, l->page, &all);
	add(b, level + 1, l->number, &all);
}

/* Widens entry number `at` of a level. */
static void
add(Build *b, int level, uint64 at, const MtpZoneEntry *entry)
{
	Level	   *l = &b->levels[level];
	uint32		number = at / b->info.fanout;

	if (l->page == NULL || l->number != number)
	{
		if (l->page == NULL)
			l->page = palloc(BLCKSZ);
		else
			finish_page(b, level);
		mtp_zone_page_init(l->page, b->info.natts, level);
		l->number = number;
	}
	mtp_zone_put(&b->info, l->page, at % b->info.fanout, entry);
}

/* Finishes the last pages, level by level, up to one that is alone on its level: returns that. */
static int
finish_levels(Build *b)
{
	int			level = 0;

	for (;; level++)
	{
		bool		root = b->levels[level].page == NULL || b->levels[level].number == 0;

		if (b->levels[level].page != NULL)
			finish_page(b, level);
		if (root)
			return level;
	}
}

static void
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *b = state;
	uint32		pair = ItemPointerGetBlockNumber(tid) / MTP_ZONE_BLOCKS;
	MtpZoneEntry entry;

	b->rows++;
	if (b->begun && pair != b->pair)
		add(b, 0, b->pair, &b->entry);
	if (!b->begun || pair != b->pair)
		mtp_zone_clear(&b->info, &b->entry);
	b->begun = true;
	b->pair = pair;
	mtp_zone_of_row(&b->info, values, isnull, &entry);
	mtp_zone_add(&b->info, &b->entry, &entry);
}

/* VACUUM reads the table's pages itself. */
static void
check_table(Relation heap)
{
	if (heap->rd_tableam->tuple_fetch_row_version !=
		GetHeapamTableAmRoutine()->tuple_fetch_row_version)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("mtpower_zone cannot index table \"%s\"", RelationGetRelationName(heap)),
				 errdetail("Its access method does not store rows as heap does.")));
}

IndexBuildResult *
mtp_zone_build(Relation heap, Relation index, struct IndexInfo *info)
{
	Build	   *b = palloc0(sizeof(Build));
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	int			height;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	check_table(heap);
	mtp_opclass_check_collations(index);
	b->index = index;
	b->info = *mtp_zone_info(index);
	mtp_writer_init(&b->writer, index, MAIN_FORKNUM, MTP_ZONE_META + 1);

	/* Not beside another scan, from the middle on: pages come in their order. */
	result->heap_tuples = table_index_build_scan(heap, index, info, false, true, collect, b, NULL);
	if (b->begun)
		add(b, 0, b->pair, &b->entry);
	height = finish_levels(b);
	mtp_zone_meta_init(mtp_writer_page(&b->writer, MTP_ZONE_META), b->info.natts, height);
	mtp_writer_finish(&b->writer);
	result->index_tuples = b->rows;
	return result;
}

/* The init fork of an unlogged index: no entry. */
void
mtp_zone_build_empty(Relation index)
{
	MtpWriter	writer;

	mtp_writer_init(&writer, index, INIT_FORKNUM, MTP_ZONE_META + 1);
	mtp_zone_meta_init(mtp_writer_page(&writer, MTP_ZONE_META), mtp_zone_info(index)->natts, 0);
	mtp_writer_finish(&writer);
}
