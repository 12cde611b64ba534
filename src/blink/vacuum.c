/*
 * vacuum.c
 *	  Deletes the entries of dead rows, takes empty pages out of the tree and free ones back into
 *	  use.
 *
 * The index is read in the order of its blocks.  README.md, "VACUUM and scans", says why it takes a
 * cleanup lock on every leaf and how it does not miss entries that splits move meanwhile.
 */
#include "blink/blink.h"
#include "buffer/hazard.h"

#include "blink/wal_records.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/indexfsm.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "index/dead.h"
#include "index/vacuum.h"
#include "core/inject.h"

/* A page that this VACUUM deleted; it may get free while VACUUM still runs. */
typedef struct PendingPage
{
	BlockNumber blkno;
	FullTransactionId safexid;
} PendingPage;

typedef struct Vacuum
{
	IndexVacuumInfo *info;
	Relation	rel;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;	/* NULL: cleanup only */
	void	   *callback_state;
	BTCycleId	cycleid;		/* 0: cleanup only */
	BlockNumber length;			/* the index's blocks, as far as they are known */
	BlockNumber next;			/* the block to be read next, ahead of the scan's place */
	MemoryContext cxt;			/* for deleting a page */
	BlockNumber passed;			/* blocks from here on are not reported yet */
	StringInfoData pending;		/* PendingPages, in the order of their deletion */
	StringInfoData stuck;		/* blocks: empty leaves that could not go yet */
} Vacuum;

/*
 * Deletes entries of the leaf, which is under a cleanup lock, with one record: at most
 * MTP_DEAD_MOST of them.
 */
static void
delete_entries(Relation rel, Buffer buf, int n, const uint16 *at)
{
	MtpWalVacuum rec = {.nitems = n};
	MtpChange	c;

	mtp_change_init(&c, rel, MTP_WAL_VACUUM);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_begin(&c);
	mtp_page_delete(BufferGetPage(buf), n, at);

	/* The page is visited: a later split of this cycle sets the id again. */
	MtpHeader(BufferGetPage(buf))->cycleid = 0;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, at, n * sizeof(uint16));
	mtp_change_finish(&c);
}

/*
 * The leaf's entries that the callback names are deleted, with one record as a rule.  A crash
 * leaves those that no record has yet, and the next VACUUM finds their rows again.  The last ones
 * go first, so the others keep their numbers.
 */
static void
delete_dead(Relation rel, Buffer buf, int n, const uint16 *at)
{
	while (n > 0)
	{
		int			now = Min(n, MTP_DEAD_MOST);

		n -= now;
		delete_entries(rel, buf, now, at + n);
	}
}

/* Tells standbys that these blocks were passed.  Cleanup alone lets no TID be used again. */
static void
log_passed(Vacuum *v, BlockNumber from, BlockNumber to)
{
	if (v->callback != NULL)
		mtp_wal_log_passed(v->rel, from, to);
}

/*
 * Keeps an element for VACUUM's end, unless they are too many: work_mem of them, in up to twice
 * that memory.  What is forgotten the next VACUUM will find.
 */
static void
remember(StringInfo list, const void *element, int size)
{
	if (list->len + size < Min((Size) work_mem * 1024, MaxAllocSize))
		appendBinaryStringInfo(list, (const char *) element, size);
}

/* Takes the empty leaf out of the tree and releases it; false if it has to stay. */
static bool
unlink_leaf(Vacuum *v, Buffer buf, BlockNumber scanblkno)
{
	MtpBlinkUnlinked gone;
	MemoryContext old = MemoryContextSwitchTo(v->cxt);
	bool		done = mtp_blink_unlink(v->rel, buf, &gone);

	MemoryContextSwitchTo(old);
	MemoryContextReset(v->cxt);
	for (int i = 0; i < gone.npages; i++)
	{
		PendingPage page = {.blkno = gone.pages[i],.safexid = gone.safexid};

		/* Pages still to come are counted when the scan gets there. */
		if (page.blkno <= scanblkno)
			v->stats->pages_deleted++;
		remember(&v->pending, &page, sizeof(page));
	}
	v->stats->pages_newly_deleted += gone.npages;
	return done;
}

/* The leaf's entries, and the numbers of those that are dead (mtp_page_delete). */
typedef struct LeafEntries
{
	int			n;
	int			ndead;
	uint16		dead[MTP_MAX_ENTRIES];
} LeafEntries;

static void
find_dead(Vacuum *v, Page page, LeafEntries *e)
{
	const uint8 *counts = MtpCounts(page);
	int			nnodes = MtpHeader(page)->nnodes;
	ItemPointerData tids[MTP_LIST_TIDS];

	e->n = e->ndead = 0;
	for (int node = 0; node < nnodes; node++)
		for (int slot = 0; slot < counts[node]; slot++)
		{
			int			n = mtp_blink_item_tids(v->rel, page, node, slot, tids);

			if (e->n + n > MTP_MAX_ENTRIES)
				mtp_blink_fail_page(v->rel, page,
									"directory points to some item more than once");
			for (int i = 0; i < n && v->callback != NULL; i++)
				if (v->callback(&tids[i], v->callback_state))
					e->dead[e->ndead++] = e->n + i;
			e->n += n;
		}
}

/*
 * Handles a leaf, share-locked on entry; releases it.  Returns a block in front of the scan's place
 * to look at again, or InvalidBlockNumber.
 */
static BlockNumber
vacuum_leaf(Vacuum *v, Buffer buf, BlockNumber scanblkno)
{
	Relation	rel = v->rel;
	BlockNumber blkno = BufferGetBlockNumber(buf);
	BlockNumber backtrack = InvalidBlockNumber;
	Page		page = BufferGetPage(buf);
	MtpPageHeader *h = MtpHeader(page);
	LeafEntries e;

	/*
	 * Wait for scans that keep the leaf pinned, also if nothing on it is dead: it may have been
	 * when they read it (invariant B10).  Meanwhile the leaf may change.
	 */
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	LockBufferForCleanup(buf);
	mtp_blink_check_page(rel, buf);

	/*
	 * A split since the start of this VACUUM may have moved entries to a block that was passed
	 * already (invariant B11).  A K-way split may have moved them to several: each says itself
	 * whether to go on.
	 */
	if (v->cycleid != 0 && h->cycleid == v->cycleid && !(h->flags & MTP_SPLIT_END) &&
		!MtpRightmost(page) && h->right < scanblkno)
		backtrack = h->right;

	find_dead(v, page, &e);
	if (e.ndead > 0)
	{
		delete_dead(rel, buf, e.ndead, e.dead);
		v->stats->tuples_removed += e.ndead;
	}
	else if (v->cycleid != 0 && h->cycleid == v->cycleid)
	{
		/* A hint: where it is lost, a later VACUUM of the same id looks back once too often. */
		h->cycleid = 0;
		MarkBufferDirtyHint(buf, true);
	}

	v->stats->num_index_tuples += e.n - e.ndead;
	if (blkno != scanblkno)
		log_passed(v, blkno, blkno + 1);
	if (h->nitems > 0)
		UnlockReleaseBuffer(buf);
	else if (!unlink_leaf(v, buf, scanblkno))
		remember(&v->stuck, &blkno, sizeof(blkno));
	return backtrack;
}

/* Handles one block, pinned on entry; releases it.  Returns as vacuum_leaf. */
static BlockNumber
vacuum_block(Vacuum *v, Buffer buf, BlockNumber scanblkno)
{
	BlockNumber blkno = BufferGetBlockNumber(buf);
	Page		page = BufferGetPage(buf);
	bool		recyclable;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	recyclable = mtp_blink_recyclable(page);
	if (!PageIsNew(page) || !recyclable)
		mtp_blink_check_page(v->rel, buf);

	/* Looking back: only a leaf that a split of this VACUUM's time has written is of interest. */
	if (!PageIsNew(page) && MtpIsLeaf(page) &&
		(blkno == scanblkno || MtpHeader(page)->cycleid == v->cycleid))
		return vacuum_leaf(v, buf, scanblkno);
	if (blkno == scanblkno && (recyclable || MtpIsDeleted(page)))
		v->stats->pages_deleted++;
	if (blkno == scanblkno && recyclable)
	{
		RecordFreeIndexPage(v->rel, blkno);
		v->stats->pages_free++;
	}
	UnlockReleaseBuffer(buf);
	return InvalidBlockNumber;
}

/*
 * Tries the empty leaves again that could not go.
 *
 * Mostly a leaf could not go because it is the last child of its parent, whose other children have
 * gone since.  Where keys descend with the blocks that is each parent's first to be met, and going
 * back through them frees whole subtrees from the left in one pass.  It is repeated while it helps.
 */
static void
unlink_stuck(Vacuum *v, BlockNumber length)
{
	BlockNumber *stuck = (BlockNumber *) v->stuck.data;
	bool		helped;

	do
	{
		helped = false;
		for (int i = v->stuck.len / sizeof(BlockNumber) - 1; i >= 0; i--)
		{
			Buffer		buf;
			Page		page;

			if (stuck[i] == InvalidBlockNumber)
				continue;
			MtpVacuumDelayPoint();

			/* It is still that leaf: this VACUUM alone deletes pages, and has not deleted it. */
			buf = mtp_blink_read_ext(v->rel, stuck[i], BUFFER_LOCK_EXCLUSIVE, v->info->strategy);
			page = BufferGetPage(buf);
			if (!MtpIsLeaf(page) || MtpHeader(page)->nitems > 0)
				UnlockReleaseBuffer(buf);
			else if (unlink_leaf(v, buf, length))
			{
				stuck[i] = InvalidBlockNumber;
				helped = true;
			}
		}
	} while (helped);
}

/* Puts pages that this VACUUM deleted into the free space map if nobody can reach them any more. */
static void
free_pending(Vacuum *v)
{
	PendingPage *page = (PendingPage *) v->pending.data;
	PendingPage *end = page + v->pending.len / sizeof(PendingPage);

	if (page == end)
		return;

	/* Called for its side effect: it makes the horizons of this backend as new as can be. */
	(void) GetOldestNonRemovableTransactionId(NULL);

	/* In the order of deletion safexids only grow: behind the first that is too new all are. */
	for (; page < end && GlobalVisCheckRemovableFullXid(NULL, page->safexid); page++)
	{
		RecordFreeIndexPage(v->rel, page->blkno);
		v->stats->pages_free++;
	}
}

/* Names the blocks in their order, for the stream. */
static BlockNumber
next_block(void *arg)
{
	Vacuum	   *v = arg;

	return v->next < v->length ? v->next++ : InvalidBlockNumber;
}

/* Reads the index.  Without a callback it is a mere cleanup, outside of any cycle. */
static void
vacuum_scan(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
			void *callback_state, BTCycleId cycleid)
{
	Vacuum		v = {.info = info,.rel = info->index,.stats = stats,.callback = callback,
		.callback_state = callback_state,.cycleid = cycleid,
	.next = MTP_BLINK_META + 1,.passed = MTP_BLINK_META + 1};
	BlockNumber scanblkno = MTP_BLINK_META + 1;
	MtpBlockStream stream;

	/* What describes the whole index starts anew with each scan; what VACUUM did adds up. */
	stats->num_pages = 0;
	stats->num_index_tuples = 0;
	stats->pages_deleted = 0;
	stats->pages_free = 0;

	initStringInfo(&v.pending);
	initStringInfo(&v.stuck);
	v.cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower page deletion",
								  ALLOCSET_DEFAULT_SIZES);

	mtp_blocks_begin(&stream, MTP_BLOCKS_ALL, v.rel, info->strategy, next_block, &v);
	for (;; scanblkno++)
	{
		BlockNumber back;

		/* Blocks that splits add meanwhile may have got entries from blocks still to come. */
		if (scanblkno >= v.length)
		{
			v.length = mtp_index_length(v.rel);
			if (info->report_progress)
				pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, v.length);
			if (scanblkno >= v.length)
				break;
			if (scanblkno > MTP_BLINK_META + 1)
				mtp_blocks_go_on(&stream);
		}
		if (scanblkno == v.length / 2)
			MTP_INJECT("vacuum_middle");
		MtpVacuumDelayPoint();
		back = vacuum_block(&v, mtp_blocks_next(&stream), scanblkno);

		/* Behind the block, those in front of it to which a split may have moved entries (B11). */
		while (back != InvalidBlockNumber)
		{
			MtpVacuumDelayPoint();
			back = vacuum_block(&v, ReadBufferExtended(v.rel, MAIN_FORKNUM, back, RBM_NORMAL,
													   info->strategy), scanblkno);
		}

		if (scanblkno + 1 - v.passed >= MTP_PASSED_BLOCKS)
		{
			log_passed(&v, v.passed, scanblkno + 1);
			v.passed = scanblkno + 1;
		}
		if (info->report_progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, scanblkno);
	}
	mtp_blocks_end(&stream);
	stats->num_pages = v.length;
	log_passed(&v, v.passed, v.length);
	unlink_stuck(&v, v.length);
	free_pending(&v);
	MemoryContextDelete(v.cxt);
	pfree(v.pending.data);
	pfree(v.stuck.data);
	if (stats->pages_free > 0)
		IndexFreeSpaceMapVacuum(v.rel);
}

IndexBulkDeleteResult *
mtp_blink_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					 IndexBulkDeleteCallback callback, void *callback_state)
{
	Relation	rel = info->index;
	IndexBulkDeleteResult *result = mtp_index_vacuum_begin(rel, stats);

	/* Core's cycle ids know an index by its lock tag only, so they serve here too (B11). */
	PG_ENSURE_ERROR_CLEANUP(_bt_end_vacuum_callback, PointerGetDatum(rel));
	vacuum_scan(info, result, callback, callback_state, _bt_start_vacuum(rel));
	PG_END_ENSURE_ERROR_CLEANUP(_bt_end_vacuum_callback, PointerGetDatum(rel));
	_bt_end_vacuum(rel);

	/*
	 * Scans that have read an entry under a pin have been waited for, page by page; wait for those
	 * that have read it in a frame.
	 */
	mtp_hazard_wait(info->index);
	MTP_INJECT("vacuum_ends");
	return result;
}

/* Notes in the metapage how many deleted pages this VACUUM leaves that are not free. */
static void
set_delpages(Relation rel, BlockNumber delpages)
{
	Buffer		buf = mtp_blink_read_meta(rel, BUFFER_LOCK_EXCLUSIVE);
	MtpBlinkMeta *meta = MtpBlinkMetaOf(BufferGetPage(buf));
	MtpWalVacuum rec = {.nitems = 0};
	MtpChange	c;

	if (meta->delpages != delpages)
	{
		mtp_change_init(&c, rel, MTP_WAL_VACUUM);
		mtp_change_buffer(&c, buf, REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
		mtp_change_begin(&c);
		meta->delpages = delpages;
		mtp_change_data(&c, &rec, sizeof(rec));
		mtp_change_finish(&c);
	}
	UnlockReleaseBuffer(buf);
}

IndexBulkDeleteResult *
mtp_blink_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (info->analyze_only)
		return stats;
	if (stats == NULL)
	{
		Buffer		buf = mtp_blink_read_meta(info->index, BUFFER_LOCK_SHARE);
		BlockNumber delpages = MtpBlinkMetaOf(BufferGetPage(buf))->delpages;

		UnlockReleaseBuffer(buf);

		/*
		 * It is worth reading the whole index only to find pages that have become free if the last
		 * VACUUM left many deleted pages that it could not free yet.
		 */
		if (delpages == 0 || delpages <= RelationGetNumberOfBlocks(info->index) / 20)
			return NULL;
		stats = palloc0(sizeof(IndexBulkDeleteResult));
		vacuum_scan(info, stats, NULL, NULL, 0);
		stats->estimated_count = true;
	}
	set_delpages(info->index, stats->pages_deleted - stats->pages_free);

	mtp_index_vacuum_end(info, stats);
	return stats;
}
