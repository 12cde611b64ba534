/*
 * build.c
 *	  Builds a tree from scratch: sorts the table's entries, packs them into leaves, and builds the
 *	  levels above on the way.
 *
 * Each page is made once (wal/writer.h).  The metapage comes last: a file that was not finished is
 * not an index.
 */
#include "blink/blink.h"

#include "index/build.h"
#include "utils/memutils.h"
#include "wal/writer.h"

PGDLLEXPORT void mtp_blink_build_worker(dsm_segment *seg, shm_toc *toc);

/* The page of a level that is being filled. */
typedef struct Level
{
	BlockNumber blkno;
	BlockNumber left;
	IndexTuple	low;			/* pivot that leads to this page, without its downlink */
	int			n;
	MtpSpan		span;			/* of the items */
	Size		fill;			/* the room that they may take */
	IndexTuple *items;			/* in data */
	char	   *data;
} Level;

typedef struct Build
{
	MtpIndexBuild b;			/* the first, which both access methods have */
	MtpWriter	writer;
	uint8		norm;
	bool		lists;			/* equal keys become lists */
	int			fillfactor;		/* of leaves and lists */
	bool		begun;			/* a leaf item is being made: … */
	IndexTuple	item;			/* … an entry, in room for the largest one … */
	MtpListMaker list;			/* … and more of its key, unless list.n is 0 */
	BTScanInsert key;			/* for _bt_truncate */
	MemoryContext pivots;		/* reset for each leaf */
	int			nlevels;
	Level		levels[MTP_BLINK_HEIGHT];
} Build;

/* A pivot without attributes: below all keys. */
static IndexTuple
minus_infinity(void)
{
	IndexTuple	pivot = palloc0(sizeof(IndexTupleData));

	pivot->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(pivot, 0, false);
	return pivot;
}

/* The tuples of a page: narrow ones whole */
#define DATA_ROOM	(BLCKSZ + MTP_MAX_ITEMS * MTP_BODY_SPARES)

static void
begin_page(Build *b, int level)
{
	Level	   *l = &b->levels[level];

	l->n = 0;
	mtp_span_begin(&l->span, mtp_page_code(level == 0 ? MTP_PAGE_LEAF : MTP_PAGE_INNER, b->norm));
}

static Level *
add_level(Build *b)
{
	Level	   *l;
	int			fill = b->nlevels == 0 ? b->fillfactor :
	BTREE_NONLEAF_FILLFACTOR;

	if (b->nlevels == MTP_BLINK_HEIGHT)
		elog(ERROR, "index \"%s\" has too many levels", RelationGetRelationName(b->b.index));
	l = &b->levels[b->nlevels++];
	l->blkno = b->writer.allocated++;
	l->left = InvalidBlockNumber;
	l->low = minus_infinity();
	l->fill = MTP_FILL_ROOM(fill);
	l->items = palloc(MTP_MAX_ITEMS * sizeof(IndexTuple));
	l->data = palloc(DATA_ROOM);
	begin_page(b, b->nlevels - 1);
	return l;
}

/*
 * Puts a copy of a tuple, which may come from the page itself, at the page's end.  with: the span
 * with it, if the caller knows that, or NULL.
 */
static void
append(Level *l, IndexTuple itup, const MtpSpan *with)
{
	IndexTuple	to = (IndexTuple) (l->data + l->span.whole);

	Assert(l->n < MTP_MAX_ITEMS && l->span.whole + IndexTupleSize(itup) <= DATA_ROOM);
	memmove(to, itup, IndexTupleSize(itup));
	l->items[l->n++] = to;
	if (with != NULL)
		l->span = *with;
	else
		mtp_span_add(&l->span, to);
}

/* Makes the image of a level's page from its first n items. */
static void
emit(Build *b, int level, int n, BlockNumber right, IndexTuple highkey)
{
	Level	   *l = &b->levels[level];
	Page		page = mtp_writer_page(&b->writer, l->blkno);

	mtp_page_init(page, level == 0 ? MTP_PAGE_LEAF : MTP_PAGE_INNER, level, b->norm);
	MtpHeader(page)->left = l->left;
	MtpHeader(page)->right = right;
	if (level == b->nlevels - 1 && right == InvalidBlockNumber)
		MtpHeader(page)->flags |= MTP_ROOT;
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
 * which is made from that item and can be larger by a heap TID, and by what a leaf's body spares,
 * only, is sure to fit.
 */
static void
finish_page(Build *b, int level)
{
	Level	   *l = &b->levels[level];
	IndexTuple	last = l->items[l->n - 1];
	BlockNumber right = b->writer.allocated++;
	MemoryContext old = MemoryContextSwitchTo(b->pivots);
	IndexTuple	highkey;

	Assert(l->n >= 2);
	highkey = level > 0 ? last : mtp_blink_truncate(b->b.index, l->items[l->n - 2], last, b->key);
	emit(b, level, l->n - 1, right, highkey);
	MemoryContextSwitchTo(old);

	post(b, level);
	l->low = CopyIndexTuple(highkey);
	l->left = l->blkno;
	l->blkno = right;
	begin_page(b, level);
	if (level > 0)
	{
		/* An inner page's first item keeps only its downlink. */
		BlockNumber child = BTreeTupleGetDownLink(last);

		last = minus_infinity();
		BTreeTupleSetDownLink(last, child);
		append(l, last, NULL);
		pfree(last);
	}
	else
	{
		append(l, last, NULL);
		MemoryContextReset(b->pivots);
	}
}

/*
 * Adds an item to a level.  When the one before it went beyond the fill factor, that one moves on
 * to a new page.  Each page keeps at least two items, whatever the fill factor, if they fit with a
 * high key: on an inner page they always do, on a leaf all but the largest.
 */
static void
add(Build *b, int level, IndexTuple itup)
{
	Level	   *l = &b->levels[level];
	MtpSpan		longer = l->span;
	Size		need;

	mtp_span_add(&longer, itup);
	need = mtp_page_need(l->n + 1, mtp_span_bytes(&longer));
	if (level == 0)
		need += MAXALIGN(sizeof(ItemPointerData));
	if (longer.code & MTP_NORM_LEAF)
		need += MTP_BODY_SPARES;
	if ((l->n >= 3 && mtp_span_room(&l->span) > l->fill) || need > MTP_PAGE_ROOM)
	{
		finish_page(b, level);
		append(l, itup, NULL);
	}
	else
		append(l, itup, &longer);
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
	meta = mtp_writer_page(&b->writer, MTP_BLINK_META);
	mtp_blink_meta_init(meta, root, Max(b->nlevels, 1) - 1, mtp_blink_marks(b->b.index));
	mtp_writer_finish(&b->writer);
}

/* Adds the leaf item that is being made, if there is one. */
static void
finish_item(Build *b)
{
	if (!b->begun)
		return;
	if (b->nlevels == 0)
		add_level(b);
	if (b->list.n > 0)
		(void) mtp_list_end(&b->list);
	add(b, 0, b->item);
	b->begun = false;
	b->list.n = 0;
}

/*
 * Adds an entry: to the list of its key, if that has room, or as the first of an item.  Lists are
 * filled as leaves are: what comes among their TIDs does not cut each of them at once.
 */
static void
add_entry(Build *b, IndexTuple itup)
{
	if (b->begun && b->lists && mtp_item_same_key(b->item, itup))
	{
		if (b->list.n == 0)
		{
			mtp_list_begin(&b->list, (char *) b->item, MTP_LIST_ROOM, b->item, &b->item->t_tid);
			b->list.limit = b->list.limit * b->fillfactor / 100;
		}
		if (b->list.n < Max(2, MTP_LIST_FULL * b->fillfactor / 100) &&
			mtp_list_add(&b->list, &itup->t_tid))
			return;
	}
	finish_item(b);
	memcpy(b->item, itup, IndexTupleSize(itup));
	b->begun = true;
}

/* Writes the tree of the spool's entries, which are sorted. */
static void
write_tree(MtpIndexBuild *build)
{
	Build	   *b = (Build *) build;
	MtpBlinkOptions *opts;
	IndexTuple	itup;

	mtp_writer_init(&b->writer, build->index, MAIN_FORKNUM, MTP_BLINK_META + 1);
	b->norm = mtp_blink_info(build->index)->norm;
	b->lists = mtp_blink_equal_is_identical(build->index);
	opts = (MtpBlinkOptions *) build->index->rd_options;
	b->lists = b->lists && (opts == NULL || opts->deduplicate_items);
	b->fillfactor = mtp_blink_fillfactor(build->index);
	b->item = palloc(MTP_MAX_ITEM);
	b->key = _bt_mkscankey(build->index, NULL);
	b->pivots = AllocSetContextCreate(CurrentMemoryContext, "mtpower build pivots",
									  ALLOCSET_SMALL_SIZES);
	while ((itup = mtp_batch_spool_next(build->spool)) != NULL)
	{
		add_entry(b, itup);
		mtp_index_build_step(build);
	}
	finish_item(b);
	finish_tree(b);
}

/* Puts a row's entry into the spool. */
static void
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpIndexBuild *b = state;
	IndexTuple	itup;

	b->ntuples++;
	if (b->order->narrow)
	{
		mtp_batch_spool_put_narrow(b->spool, mtp_narrow(b->order->code, values[0], isnull[0], tid));
		return;
	}
	itup = mtp_blink_form_tuple(index, values, isnull, tid);
	mtp_batch_spool_put_wide(b->spool, itup);
	pfree(itup);
}

static const MtpIndexBuildOps build_ops = {
	.scanning = PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN,
	.sorting = PROGRESS_BTREE_PHASE_PERFORMSORT_1,
	.writing = PROGRESS_BTREE_PHASE_LEAF_LOAD,
	.worker = "mtp_blink_build_worker",
	.order = mtp_blink_order,
	.collect = collect,
	.write = write_tree
};

/* A parallel worker's main function. */
void
mtp_blink_build_worker(dsm_segment *seg, shm_toc *toc)
{
	mtp_index_build_work(&build_ops, seg, toc);
}

static MtpLocator building;		/* the file that this process builds, if any */

bool
mtp_blink_building(Relation rel)
{
	return MtpLocatorEquals(MtpRelLocator(rel), building);
}

IndexBuildResult *
mtp_blink_build(Relation heap, Relation index, struct IndexInfo *info)
{
	Build		b = {.b.ops = &build_ops,.b.index = index};
	MtpLocator	outer = building;
	IndexBuildResult *result;

	mtp_blink_check_support(index);
	building = MtpRelLocator(index);
	PG_TRY();
	{
		result = mtp_index_build(&b.b, heap, info);
	}
	PG_FINALLY();
	{
		building = outer;		/* a function of an index may build another one */
	}
	PG_END_TRY();
	return result;
}

/* The init fork of an unlogged index: an empty tree. */
void
mtp_blink_build_empty(Relation index)
{
	MtpWriter	writer;

	mtp_writer_init(&writer, index, INIT_FORKNUM, MTP_BLINK_META + 1);
	mtp_blink_meta_init(mtp_writer_page(&writer, MTP_BLINK_META), InvalidBlockNumber, 0,
						mtp_blink_marks(index));
	mtp_writer_finish(&writer);
}

void
mtp_blink_meta_init(Page page, BlockNumber root, uint32 level, uint32 marks)
{
	MtpBlinkMeta *meta = MtpBlinkMetaOf(page);

	mtp_page_init(page, MTP_PAGE_META, 0, MTP_NORM_NONE);
	meta->magic = MTP_BLINK_MAGIC;
	meta->version = MTP_BLINK_VERSION;
	meta->root = root;
	meta->level = level;
	meta->delpages = 0;
	meta->marks = marks;
	((PageHeader) page)->pd_lower = MTP_DIR_AT + sizeof(MtpBlinkMeta);
}
