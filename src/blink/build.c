/*
 * build.c
 *	  Builds a tree from scratch: sorts the table's entries, packs them into leaves, and builds the
 *	  levels above on the way.
 *
 * Nobody else sees the index yet (or its new file), so pages are written past shared buffers, as
 * nbtree's build does: each page is made once, logged as a full image where the relation is logged
 * at all, written, and in the end the file is synced, since no checkpoint knows of it.  The metapage
 * comes last: a file that was not finished is not an index.
 */
#include "blink/blink.h"

#include "access/tableam.h"
#include "access/xloginsert.h"
#include "batch/spool.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

/* Pages that are logged and written at a time: as many as one WAL record takes. */
#define GROUP			32

/* Direct I/O, where the server does it, wants buffers aligned like this. */
#define IO_ALIGN		4096

/* The file being written. */
typedef struct Writer
{
	Relation	rel;
	bool		logged;
	BlockNumber allocated;		/* blocks given out */
	BlockNumber written;		/* length of the file */
	int			n;				/* pages in the group */
	BlockNumber blknos[GROUP];
	Page		pages[GROUP];
	char	   *zeros;
} Writer;

/* The page of a level that is being filled. */
typedef struct Level
{
	BlockNumber blkno;
	BlockNumber left;
	IndexTuple	low;			/* pivot that leads to this page, without its downlink */
	int			n;
	Size		bytes;			/* of the items, MAXALIGNed */
	Size		room;			/* that they take, MTP_ITEM_ROOM */
	Size		fill;			/* and may take */
	IndexTuple *items;			/* in data */
	char	   *data;
} Level;

typedef struct Build
{
	Relation	index;
	Writer		writer;
	uint8		norm;
	BTScanInsert key;			/* for _bt_truncate */
	MemoryContext pivots;		/* reset for each leaf */
	int			nlevels;
	Level		levels[MTP_BLINK_HEIGHT];

	MtpOrder   *order;
	MtpSpool   *spool;
	int64		ntuples;
} Build;

static void
writer_init(Writer *w, Relation rel)
{
	char	   *pages = palloc((GROUP + 1) * BLCKSZ + IO_ALIGN);

	pages = (char *) TYPEALIGN(IO_ALIGN, pages);
	memset(w, 0, sizeof(Writer));
	w->rel = rel;
	w->logged = RelationNeedsWAL(rel);
	w->allocated = MTP_BLINK_META + 1;
	for (int i = 0; i < GROUP; i++)
		w->pages[i] = pages + i * BLCKSZ;
	w->zeros = memset(pages + GROUP * BLCKSZ, 0, BLCKSZ);
}

/*
 * Writes the group's pages.  Inner pages come later than the leaves behind them: until then zeros
 * stand in their places.
 */
static void
writer_flush(Writer *w)
{
	SMgrRelation smgr = RelationGetSmgr(w->rel);

	if (w->logged && w->n > 0)
		log_newpages(&MtpRelLocator(w->rel), MAIN_FORKNUM, w->n, w->blknos, w->pages, true);
	for (int i = 0; i < w->n; i++)
	{
		BlockNumber blkno = w->blknos[i];

		PageSetChecksumInplace(w->pages[i], blkno);
		if (blkno < w->written)
		{
			smgrwrite(smgr, MAIN_FORKNUM, blkno, (char *) w->pages[i], true);
			continue;
		}
		while (w->written < blkno)
			smgrextend(smgr, MAIN_FORKNUM, w->written++, w->zeros, true);
		smgrextend(smgr, MAIN_FORKNUM, w->written++, (char *) w->pages[i], true);
	}
	w->n = 0;
}

/* Room for a page's image, which will be written to blkno. */
static Page
writer_page(Writer *w, BlockNumber blkno)
{
	if (w->n == GROUP)
	{
		CHECK_FOR_INTERRUPTS();
		writer_flush(w);
	}
	w->blknos[w->n] = blkno;
	return w->pages[w->n++];
}

/*
 * Writes the rest and makes sure of it.  An unlogged relation's file must survive a crash of the
 * machine after a clean shutdown, and no checkpoint would sync what was not written through
 * shared buffers; one that skips WAL (wal_level = minimal) is synced when its transaction commits.
 */
static void
writer_finish(Writer *w)
{
	writer_flush(w);
	if (w->logged || w->rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		smgrimmedsync(RelationGetSmgr(w->rel), MAIN_FORKNUM);
}

/* A pivot without attributes: below all keys. */
static IndexTuple
minus_infinity(void)
{
	IndexTuple	pivot = palloc0(sizeof(IndexTupleData));

	pivot->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(pivot, 0, false);
	return pivot;
}

static Level *
add_level(Build *b)
{
	Level	   *l;
	int			fill = b->nlevels == 0 ? mtp_blink_fillfactor(b->index) : BTREE_NONLEAF_FILLFACTOR;

	if (b->nlevels == MTP_BLINK_HEIGHT)
		elog(ERROR, "index \"%s\" has too many levels", RelationGetRelationName(b->index));
	l = &b->levels[b->nlevels++];
	l->blkno = b->writer.allocated++;
	l->left = InvalidBlockNumber;
	l->low = minus_infinity();
	l->n = 0;
	l->bytes = 0;
	l->room = 0;
	l->fill = MTP_FILL_ROOM(fill);
	l->items = palloc(MTP_MAX_ITEMS * sizeof(IndexTuple));
	l->data = palloc(BLCKSZ);
	return l;
}

/* Puts a copy of a tuple, which may come from the page itself, at the page's end. */
static void
append(Level *l, IndexTuple itup, Size size)
{
	IndexTuple	to = (IndexTuple) (l->data + l->bytes);

	Assert(l->n < MTP_MAX_ITEMS && l->bytes + size <= BLCKSZ);
	memmove(to, itup, size);
	l->items[l->n++] = to;
	l->bytes += size;
	l->room += MTP_ITEM_ROOM(to);
}

/* Makes the image of a level's page from its first n items. */
static void
emit(Build *b, int level, int n, BlockNumber right, IndexTuple highkey)
{
	Level	   *l = &b->levels[level];
	Page		page = writer_page(&b->writer, l->blkno);

	mtp_page_init(page, level == 0 ? MTP_PAGE_LEAF : MTP_PAGE_INNER, level, b->norm);
	MtpHead(page)->left = l->left;
	MtpHead(page)->right = right;
	if (level == b->nlevels - 1 && right == InvalidBlockNumber)
		MtpHead(page)->flags |= MTP_ROOT;
	mtp_page_pack(page, n, l->items, highkey);
}

static void add(Build *b, int level, IndexTuple itup);

/* Tells the level above of a page whose place in the file is known. */
static void
post(Build *b, int level)
{
	Level	   *l = &b->levels[level];

	if (b->nlevels == level + 1)
		add_level(b);
	BTreeTupleSetDownLink(l->low, l->blkno);
	add(b, level + 1, l->low);
	pfree(l->low);
}

/*
 * Finishes a level's page.  Its last item becomes the first of the next page: so the high key,
 * which is made from that item and can be larger by a heap TID only, is sure to fit.
 */
static void
finish_page(Build *b, int level)
{
	Level	   *l = &b->levels[level];
	IndexTuple	last = l->items[l->n - 1];
	Size		size = MAXALIGN(IndexTupleSize(last));
	BlockNumber right = b->writer.allocated++;
	MemoryContext old = MemoryContextSwitchTo(b->pivots);
	IndexTuple	highkey;

	highkey = level > 0 ? last : _bt_truncate(b->index, l->items[l->n - 2], last, b->key);
	emit(b, level, l->n - 1, right, highkey);
	MemoryContextSwitchTo(old);

	post(b, level);
	l->low = CopyIndexTuple(highkey);
	l->left = l->blkno;
	l->blkno = right;
	l->n = 0;
	l->bytes = 0;
	l->room = 0;
	if (level > 0)
	{
		/* An inner page's first item keeps only its downlink. */
		BlockNumber child = BTreeTupleGetDownLink(last);

		last = minus_infinity();
		BTreeTupleSetDownLink(last, child);
		append(l, last, sizeof(IndexTupleData));
		pfree(last);
	}
	else
	{
		append(l, last, size);
		MemoryContextReset(b->pivots);
	}
}

/*
 * Adds an item to a level.  When the one before it went beyond the fill factor, that one moves on to
 * a new page.  Each page keeps at least two items, whatever the fill factor: the limit on their size
 * makes sure that they fit with a high key.
 */
static void
add(Build *b, int level, IndexTuple itup)
{
	Level	   *l = &b->levels[level];
	Size		size = MAXALIGN(IndexTupleSize(itup));
	Size		need = mtp_page_need(l->n + 1, l->bytes + size);

	if (l->n >= 3 &&
		(l->room > l->fill ||
		 need + (level == 0 ? MAXALIGN(sizeof(ItemPointerData)) : 0) > MTP_PAGE_ROOM))
		finish_page(b, level);
	append(l, itup, size);
}

/* Finishes the rightmost pages, level by level; the last is the root. */
static void
finish_tree(Build *b)
{
	BlockNumber root = InvalidBlockNumber;
	Page		meta;

	for (int level = 0; level < b->nlevels; level++)
	{
		root = b->levels[level].blkno;
		if (level < b->nlevels - 1)
			post(b, level);
		emit(b, level, b->levels[level].n, InvalidBlockNumber, NULL);
	}
	meta = writer_page(&b->writer, MTP_BLINK_META);
	mtp_blink_meta_init(meta, root, Max(b->nlevels, 1) - 1);
	writer_finish(&b->writer);
}

static void
load(Build *b)
{
	IndexTuple	itup;
	int64		done = 0;

	writer_init(&b->writer, b->index);
	b->norm = mtp_norm_code(b->index);
	b->key = _bt_mkscankey(b->index, NULL);
	b->pivots = AllocSetContextCreate(CurrentMemoryContext, "mtpower build pivots",
									  ALLOCSET_SMALL_SIZES);
	while ((itup = mtp_spool_next(b->spool)) != NULL)
	{
		if (b->nlevels == 0)
			add_level(b);
		add(b, 0, itup);
		if (++done % 1024 == 0)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, done);
	}
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, done);
	finish_tree(b);
}

/* table_index_build_scan's callback. */
static void
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *b = state;
	IndexTuple	itup;

	b->ntuples++;
	if (b->order->narrow)
	{
		mtp_spool_put_narrow(b->spool, mtp_narrow(b->order->code, values[0], isnull[0], tid));
		return;
	}
	itup = mtp_blink_form_tuple(index, values, isnull, tid);
	mtp_spool_put_wide(b->spool, itup);
	pfree(itup);
}

/* The scan is over: its blocks are no measure of what is left, but tuples are. */
static void
report_scanned(Build *b)
{
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_SCAN_BLOCKS_TOTAL,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	const int64 values[] = {PROGRESS_BTREE_PHASE_PERFORMSORT_1, b->ntuples, 0, 0};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

IndexBuildResult *
mtp_blink_build(Relation heap, Relation index, struct IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	Build		b = {.index = index};

	mtp_blink_check_support(index);
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	b.order = mtp_order_make(index);
	b.spool = mtp_spool_begin(b.order, (Size) maintenance_work_mem * 1024);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
	result->heap_tuples = table_index_build_scan(heap, index, info, true, true, collect, &b, NULL);
	result->index_tuples = b.ntuples;

	report_scanned(&b);
	mtp_spool_sort(b.spool);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PROGRESS_BTREE_PHASE_LEAF_LOAD);
	load(&b);
	mtp_spool_end(b.spool);
	return result;
}

/*
 * The init fork of an unlogged index: an empty tree.
 */
void
mtp_blink_build_empty(Relation index)
{
	SMgrRelation smgr = RelationGetSmgr(index);
	char	   *room = palloc(BLCKSZ + IO_ALIGN);
	Page		page = (Page) TYPEALIGN(IO_ALIGN, room);

	mtp_blink_meta_init(page, InvalidBlockNumber, 0);
	log_newpage(&MtpRelLocator(index), INIT_FORKNUM, MTP_BLINK_META, page, true);
	PageSetChecksumInplace(page, MTP_BLINK_META);
	smgrextend(smgr, INIT_FORKNUM, MTP_BLINK_META, (char *) page, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
	pfree(room);
}

void
mtp_blink_meta_init(Page page, BlockNumber root, uint32 level)
{
	MtpBlinkMeta *meta = MtpBlinkMetaOf(page);

	mtp_page_init(page, MTP_PAGE_META, 0, MTP_NORM_NONE);
	meta->magic = MTP_BLINK_MAGIC;
	meta->version = MTP_BLINK_VERSION;
	meta->root = root;
	meta->level = level;
	meta->delpages = 0;
	((PageHeader) page)->pd_lower = MTP_DIR_AT + sizeof(MtpBlinkMeta);
}
