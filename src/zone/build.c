/*
 * build.c
 *	  Builds a zone index: scans the table, with parallel workers if it is large, and widens the
 *	  entries of level 0; then computes the levels above.
 *
 * Nobody else sees the index yet, so nothing is logged until the end.  Pages are changed in shared
 * buffers, since two processes may have read blocks of the same pair.
 */
#include "zone/zone.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xloginsert.h"
#include "index/build.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "opclass/validate.h"
#include "wal/writer.h"

#define PHASE_SCAN		2
#define PHASE_WRITE		3

PGDLLEXPORT void mtp_zone_build_worker(dsm_segment *seg, shm_toc *toc);

typedef struct Build
{
	MtpIndexBuild b;			/* the first, which all access methods have */
	Relation	heap;
	struct IndexInfo *info;
} Build;

/* What a process is collecting: the entry of the pair that it reads */
typedef struct Collecting
{
	MtpZoneInfo info;			/* a copy: the relcache's may go meanwhile */
	uint32		pair;
	MtpZoneEntry entry;
} Collecting;

/* The page of a level with this number, exclusively locked; it is made if it is not there. */
static Buffer
lock_page(Relation index, const MtpZoneInfo *info, int level, uint32 number)
{
	BlockNumber blkno = mtp_zone_block(info, level, number);
	Buffer		buf;

	mtp_zone_extend(index, blkno);
	buf = ReadBuffer(index, blkno);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	if (PageIsNew(BufferGetPage(buf)))
		mtp_zone_page_init(BufferGetPage(buf), info->natts, level);
	return buf;
}

/* Widens entry number `at` of a level. */
static void
put(Relation index, const MtpZoneInfo *info, int level, uint32 at, const MtpZoneEntry *entry)
{
	Buffer		buf = lock_page(index, info, level, at / info->fanout);

	mtp_zone_put(info, BufferGetPage(buf), at % info->fanout, entry);
	MarkBufferDirty(buf);
	UnlockReleaseBuffer(buf);
}

static void
put_pair(MtpIndexBuild *b)
{
	Collecting *c = b->collecting;

	if (c != NULL)
		put(b->index, &c->info, 0, c->pair, &c->entry);
}

static void
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpIndexBuild *b = state;
	Collecting *c = b->collecting;
	uint32		pair = ItemPointerGetBlockNumber(tid) / MTP_ZONE_BLOCKS;

	if (c == NULL || c->pair != pair)
	{
		put_pair(b);
		if (c == NULL)
		{
			c = b->collecting = palloc(sizeof(Collecting));
			c->info = *mtp_zone_info(index);
		}
		c->pair = pair;
		mtp_zone_clear(&c->info, &c->entry);
	}
	mtp_zone_add_row(&c->info, &c->entry, values, isnull);
	b->ntuples++;
}

/* Computes a level from the one below, which has so many pages; returns how many it has itself. */
static uint32
add_level(Relation index, const MtpZoneInfo *info, int level, uint32 below)
{
	MtpZoneEntry all;

	for (uint32 number = 0; number < below; number++)
	{
		Buffer		buf = mtp_zone_read(index, level - 1, number, BUFFER_LOCK_SHARE);

		if (!BufferIsValid(buf))
			continue;
		(void) mtp_zone_sum(info, BufferGetPage(buf), &all);
		UnlockReleaseBuffer(buf);
		put(index, info, level, number, &all);
	}
	return (below + info->fanout - 1) / info->fanout;
}

/* How many pages of level 0 the table needs */
static uint32
pages_of(MtpIndexBuild *b, const MtpZoneInfo *info)
{
	uint64		blocks = RelationGetNumberOfBlocks(((Build *) b)->heap);
	uint64		pairs = (blocks + MTP_ZONE_BLOCKS - 1) / MTP_ZONE_BLOCKS;

	return (pairs + info->fanout - 1) / info->fanout;
}

/*
 * Makes the file as long as it will be: the leader does not lock a file for its extension that its
 * own transaction has made, so it must not meet workers there.
 */
static void
prepare(MtpIndexBuild *b)
{
	const MtpZoneInfo *info = mtp_zone_info(b->index);
	uint32		pages = pages_of(b, info);

	mtp_zone_extend(b->index, pages == 0 ? MTP_ZONE_META : mtp_zone_block(info, 0, pages - 1));
}

/*
 * Where versions of rows have newer ones on their page, and old snapshots may see them, core hands
 * over the newest alone, and lets these snapshots do without a new index; not without one that it
 * builds again.  So the pages that may have such are read: then the index is for all snapshots.
 */
static void
add_passing(Build *b, const MtpZoneInfo *info)
{
	MtpZoneRows *rows = mtp_zone_rows_begin(b->heap, b->b.index, NULL);
	BlockNumber length = RelationGetNumberOfBlocks(b->heap);
	Buffer		map = InvalidBuffer;

	for (BlockNumber blkno = 0; blkno < length; blkno++)
	{
		MtpZoneEntry entry;

		CHECK_FOR_INTERRUPTS();
		if (VM_ALL_VISIBLE(b->heap, blkno, &map))
			continue;
		mtp_zone_clear(info, &entry);
		mtp_zone_rows_add(rows, blkno, &entry);
		put(b->b.index, info, 0, blkno / MTP_ZONE_BLOCKS, &entry);
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	mtp_zone_rows_end(rows);
	b->info->ii_BrokenHotChain = false;
}

/* Makes the levels above and the metapage, and logs all pages. */
static void
write_index(MtpIndexBuild *b)
{
	const MtpZoneInfo info = *mtp_zone_info(b->index);
	uint32		pages = pages_of(b, &info);
	int			height = 0;
	Buffer		meta;

	if (((Build *) b)->info->ii_BrokenHotChain)
		add_passing((Build *) b, &info);
	for (; pages > 1; height++)
		pages = add_level(b->index, &info, height + 1, pages);
	meta = ReadBuffer(b->index, MTP_ZONE_META);
	LockBuffer(meta, BUFFER_LOCK_EXCLUSIVE);
	mtp_zone_meta_init(BufferGetPage(meta), info.natts, height);
	MarkBufferDirty(meta);
	UnlockReleaseBuffer(meta);
	if (RelationNeedsWAL(b->index))
		log_newpage_range(b->index, MAIN_FORKNUM, 0, RelationGetNumberOfBlocks(b->index), true);
}

static const MtpIndexBuildOps build_ops = {
	.scanning = PHASE_SCAN,
	.sorting = PHASE_WRITE,
	.writing = PHASE_WRITE,
	.worker = "mtp_zone_build_worker",
	.prepare = prepare,
	.collect = collect,
	.collected = put_pair,
	.write = write_index
};

/* A parallel worker's main function. */
void
mtp_zone_build_worker(dsm_segment *seg, shm_toc *toc)
{
	mtp_index_build_work(&build_ops, seg, toc);
}

char *
mtp_zone_phase_name(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case PHASE_SCAN:
			return "scanning table";
		case PHASE_WRITE:
			return "computing the upper levels";
	}
	return NULL;
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
	Build		b = {.b.ops = &build_ops,.b.index = index,.heap = heap,.info = info};

	check_table(heap);
	mtp_opclass_check_collations(index);
	(void) mtp_zone_info(index);	/* raises an error for columns that it refuses */
	return mtp_index_build(&b.b, heap, info);
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
