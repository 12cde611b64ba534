/*
 * blink.h
 *	  mtpower_blink, the B-link tree: the shapes and functions that its files share.
 *
 * README.md has the protocol: order of locks, splits, page deletion, interlock with VACUUM.  Its
 * invariants have numbers, B1 to B15, which comments cite.  Tuples on pages have nbtree's format
 * (access/nbtree.h), pivot tuples with truncated attributes included.  So core's _bt_truncate,
 * _bt_preprocess_keys, _bt_checkkeys and others serve here too.
 */
#ifndef MTP_BLINK_H
#define MTP_BLINK_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tupmacs.h"
#include "batch/batch.h"
#include "core/links.h"
#include "nodes/execnodes.h"
#include "page/page.h"
#include "page/search.h"
#include "storage/bufmgr.h"
#include "utils/sortsupport.h"
#include "wal/wal.h"

#define MTP_BLINK_META		0	/* the metapage's block */
#define MTP_BLINK_MAGIC		0x4D54424C
#define MTP_BLINK_VERSION	1
#define MTP_BLINK_HEIGHT	48	/* most levels: the widest keys leave an inner page two children */
#define MTP_BLINK_FILLFACTOR 90
#define MTP_BLINK_MIN_FILLFACTOR 10

/* The most pages that one split makes of one page, and the most where the items leave a choice. */
#define MTP_BLINK_MAX_K		18
#define MTP_BLINK_USUAL_K	12

/* On the metapage, at MTP_DIR_AT.  An empty tree has no root (InvalidBlockNumber). */
typedef struct MtpBlinkMeta
{
	uint32		magic;
	uint32		version;
	BlockNumber root;
	uint32		level;			/* the root's level */
	BlockNumber delpages;		/* deleted pages that the last VACUUM could not free yet */
	uint32		marks;			/* MTP_BLINK_…; 0 in old indexes */
} MtpBlinkMeta;

/* What an index was made with, for ever.  Marks are on disk: never renumber them. */
#define MTP_BLINK_LISTS		1	/* equal keys are identical and become lists */
#define MTP_BLINK_BYTES		2	/* text in C.UTF-8 of the C library has normalized keys */
#define MTP_BLINK_MARKS		3	/* all of them */

#define MtpBlinkMetaOf(page) ((MtpBlinkMeta *) ((char *) (page) + MTP_DIR_AT))

/* On a deleted page, at MTP_DIR_AT.  Reusable once no snapshot sees this xid as running (B13). */
typedef struct MtpBlinkDeleted
{
	FullTransactionId safexid;
} MtpBlinkDeleted;

#define MtpBlinkDeletedOf(page) ((MtpBlinkDeleted *) ((char *) (page) + MTP_DIR_AT))

/* reloptions */
typedef struct MtpBlinkOptions
{
	int32		vl_len_;
	int			fillfactor;		/* percent of a leaf that builds and splits fill */
	bool		deduplicate_items;	/* equal keys become lists, where the index can have them */
} MtpBlinkOptions;

/*
 * What is known of an index without reading it; kept in rd_amcache.  root and level are a hint,
 * which each descent verifies.
 */
typedef struct MtpBlinkInfo
{
	uint8		norm;			/* MTP_NORM_* code, for leaves */
	bool		single;			/* one key column, exact norm: norm and TID decide everything */
	int16		nkeyatts;
	int16		natts;
	uint16		fixed;			/* least size of an entry without nulls; 0: columns don't tell */
	uint16		fixed_key;		/* the same of its key columns */
	int8		lists;			/* of the metapage; -1: not known */
	BlockNumber root;			/* InvalidBlockNumber: not known */
	uint32		level;
} MtpBlinkInfo;

/*
 * Valid until the next relcache invalidation is processed: the caller copies what must last.
 * Raises an error if the index is not usable with the C library here.  Not for an index that others
 * build.
 */
extern MtpBlinkInfo *mtp_blink_make_info(Relation rel);

/* False if mtp_blink_info would raise that error. */
extern bool mtp_blink_usable(Relation rel);

static inline MtpBlinkInfo *
mtp_blink_info(Relation rel)
{
	return likely(rel->rd_amcache != NULL) ? rel->rd_amcache : mtp_blink_make_info(rel);
}

/* The marks (MTP_BLINK_…) of an index that is built. */
extern uint32 mtp_blink_marks(Relation index);

/*
 * A key to search for: core's insertion scan key, and its normalized form.
 *
 * bt.keysz attributes are compared, then bt.scantid if it is not NULL.  As in nbtree, a place is
 * the first item >= key (bt.nextkey false) or > key (true).
 */
typedef struct MtpBlinkKey
{
	uint8		code;			/* the index's norm code */
	bool		by_head;		/* norm is comparable with the index's norms */
	bool		by_norm;		/* … and decides the first column, equality included */
	bool		null;			/* first column is NULL */
	bool		pivot;			/* finds a page by its high key */
	uint64		norm;
	Relation	rel;
	SortSupport order;			/* compares the first column with less effort; or NULL */
	struct MtpPageReader *view; /* the page that is being searched (reader.h) */
	BTScanInsertData bt;
} MtpBlinkKey;

/* Parents seen on the way down: at[l] is a page of level l that was a parent, or left of one. */
typedef struct MtpBlinkStack
{
	BlockNumber at[MTP_BLINK_HEIGHT];	/* InvalidBlockNumber: not known */
} MtpBlinkStack;

/* key.c: makes and compares keys */

/* Makes the key of a leaf tuple with its TID, for an insertion or a look-up; points into itup. */
extern void mtp_blink_key_tuple(Relation rel, MtpBlinkKey *key, IndexTuple itup);

/*
 * Makes a key without values.  The caller fills bt.scankeys (three-way functions, flags, arguments)
 * and bt.keysz, then calls mtp_blink_key_done with the type of the first argument.
 */
extern void mtp_blink_key_empty(Relation rel, MtpBlinkKey *key);
extern void mtp_blink_key_done(MtpBlinkKey *key, Oid subtype);

/* Makes a key that finds the page with this high key (a pivot) again. */
extern void mtp_blink_key_pivot(Relation rel, MtpBlinkKey *key, IndexTuple pivot);

/*
 * < 0, 0, > 0 as the key is below, equal to, above the item (leaf tuple or pivot).  A list stands
 * at its first TID.
 */
extern int	mtp_blink_compare(MtpBlinkKey *key, IndexTuple item);

/*
 * True if two leaf tuples of an index that may have lists have equal keys: then these are identical
 * but for how a value is compressed.
 */
extern bool mtp_blink_same_key(Relation rel, IndexTuple a, IndexTuple b);

/*
 * Sets bit i of same[] (MTP_SAME_BYTES of them) for each of n items with the key of the one before
 * it.  Returns how many.
 */
extern int	mtp_blink_same_keys(Relation rel, int n, const IndexTuple *items, uint8 *same);

/*
 * The high key between two leaf tuples, palloc'd: core's _bt_truncate, which may not see lists, and
 * takes sizes for MAXALIGNed.  key is what that wants.
 */
extern IndexTuple mtp_blink_truncate(Relation rel, IndexTuple left, IndexTuple right,
									 BTScanInsert key);

/* True if the first attribute is NULL. */
static inline bool
mtp_blink_first_null(IndexTuple itup)
{
	return IndexTupleHasNulls(itup) &&
		att_isnull(0, (bits8 *) ((char *) itup + sizeof(IndexTupleData)));
}

/*
 * damage.c: checks what is read of an index before anything relies on it (invariant B14).  All
 * raise ERRCODE_INDEX_CORRUPTED and name index and block.
 */

/* A locked page: if it is one of the tree, its directory and its high key can be relied on. */
extern void mtp_blink_check_page(Relation rel, Buffer buf);

/* All items of a locked page as well: for a caller that rewrites or splits the page. */
extern void mtp_blink_check_items(Relation rel, Buffer buf);

/* A page that is about to be locked: this process must not have locked it already. */
extern void mtp_blink_check_unlocked(Relation rel, Buffer buf);

/* A page that a walk comes to: it must not have been there. */
extern void mtp_blink_check_walk(Relation rel, MtpWalk *w, BlockNumber blkno);

/* An item that lies on the page: of the kind that belongs there, and whole. */
extern void mtp_blink_check_item(Relation rel, Page page, IndexTuple itup);
pg_noreturn extern void mtp_blink_fail_page(Relation rel, Page page, const char *what);
pg_noreturn extern void mtp_blink_fail_block(Relation rel, BlockNumber blkno, const char *what);

/* Say what is wrong with a tuple of at least its own size, or return NULL. */
extern const char *mtp_blink_pivot_fault(Relation rel, IndexTuple itup);
extern const char *mtp_blink_entry_fault(Relation rel, IndexTuple itup);

/*
 * True if the code of a page's normalized keys and bodies is one of the index's.  Inner pages, and
 * leaves of format 1, do without what it says of leaves.
 */
static inline bool
mtp_blink_norm_fits(Relation rel, uint8 code)
{
	uint8		norm = mtp_blink_info(rel)->norm;

	return code == norm || code == (norm & ~MTP_NORM_LEAF);
}

/*
 * True if a glance tells that a pivot tuple is good.  It does for one with no attribute, and where
 * the key columns have a fixed length for one with all of them; neither with nulls or a TID.
 */
static inline bool
mtp_blink_pivot_plain(Relation rel, IndexTuple itup)
{
	const MtpBlinkInfo *info = rel->rd_amcache;

	/* With a bit of BT_STATUS_OFFSET_MASK the offset equals neither number below. */
	OffsetNumber natts = ItemPointerGetOffsetNumberNoCheck(&itup->t_tid);

	return (itup->t_info & (INDEX_ALT_TID_MASK | INDEX_NULL_MASK)) == INDEX_ALT_TID_MASK &&
		(natts == 0 ||
		 (info != NULL && info->fixed_key != 0 && natts == info->nkeyatts &&
		  IndexTupleSize(itup) >= info->fixed_key));
}

/* The same for a leaf's item.  Of a list it tells about the key and the first TID. */
static inline bool
mtp_blink_entry_plain(Relation rel, IndexTuple itup)
{
	const MtpBlinkInfo *info = rel->rd_amcache;

	if (info == NULL || info->fixed == 0 || IndexTupleHasNulls(itup))
		return false;
	if (likely((itup->t_info & INDEX_ALT_TID_MASK) == 0))
		return IndexTupleSize(itup) >= info->fixed && mtp_tid_possible(&itup->t_tid);
	return mtp_item_is_list(itup) && mtp_list_fault(itup) == NULL &&
		mtp_item_key_size(itup) >= info->fixed;
}

/* The same for an item of a page. */
static inline bool
mtp_blink_item_plain(Relation rel, Page page, IndexTuple itup)
{
	return MtpIsLeaf(page) ? mtp_blink_entry_plain(rel, itup) : mtp_blink_pivot_plain(rel, itup);
}

/*
 * The item of a slot of a page in a buffer, checked: its tuple on the page or, if it is narrow, in
 * the room.
 */
static inline IndexTuple
mtp_blink_item(Relation rel, Page page, int node, int slot, MtpItemRoom *room)
{
	IndexTuple	itup;

	if (unlikely(!mtp_slot_in_page(page, node, slot)))
		mtp_blink_fail_page(rel, page, "directory points to something that is not an item");
	itup = mtp_slot_item(page, node, slot, room);
	if (!mtp_blink_item_plain(rel, page, itup))
		mtp_blink_check_item(rel, page, itup);
	return itup;
}

/*
 * The same on a leaf, for a caller that needs nothing but the item's TIDs: copies them, in order,
 * to tids (room for MTP_LIST_TIDS).  Returns their number, at least 1.
 */
static inline int
mtp_blink_item_tids(Relation rel, Page page, int node, int slot, ItemPointerData *tids)
{
	IndexTuple	itup = mtp_slot_body(page, node, slot);
	int			n;

	if (unlikely(!mtp_slot_in_page(page, node, slot)))
		mtp_blink_fail_page(rel, page, "directory points to something that is not an item");
	if (likely((itup->t_info & INDEX_ALT_TID_MASK) == 0))
	{
		if (unlikely(!mtp_tid_possible(&itup->t_tid)))
			mtp_blink_fail_page(rel, page, "entry has an invalid TID");
		tids[0] = itup->t_tid;
		return 1;
	}
	n = mtp_item_is_list(itup) ? mtp_list_decode(itup, tids) : 0;
	if (unlikely(n == 0))
		mtp_blink_fail_page(rel, page, "list of TIDs is damaged");
	return n;
}

static inline IndexTuple
mtp_blink_item_at(Relation rel, Page page, int pos, MtpItemRoom *room)
{
	MtpPos		p = mtp_page_locate(page, pos);

	return mtp_blink_item(rel, page, p.node, p.slot, room);
}

/* The block to which an inner page's item leads */
static inline BlockNumber
mtp_blink_downlink(Relation rel, Page page, int pos)
{
	MtpItemRoom room;

	return BTreeTupleGetDownLink(mtp_blink_item_at(rel, page, pos, &room));
}

/*
 * descend.c: the ways through the tree.  Buffers come back pinned and locked as asked for
 * (BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE).  All failures are ERRORs; the resource owner then
 * releases everything.
 */

/* Reads and locks a page, and checks that it is one of this index (ERRCODE_INDEX_CORRUPTED). */
extern Buffer mtp_blink_read(Relation rel, BlockNumber blkno, int access);

/* The same with the caller's strategy. */
extern Buffer mtp_blink_read_ext(Relation rel, BlockNumber blkno, int access,
								 BufferAccessStrategy strategy);

/* The same for a page that a link to this level leads to: it must be there, or deleted there. */
extern Buffer mtp_blink_read_link(Relation rel, BlockNumber blkno, uint32 level, int access);

/* The same for the metapage, whose contents are checked, too. */
extern Buffer mtp_blink_read_meta(Relation rel, int access);

/*
 * True if equal keys are to become lists.  Reads the metapage when that is not known: not with
 * pages locked.
 */
extern bool mtp_blink_lists(Relation rel);

/* The root's level, for cost estimates; 0 for an empty tree or one of a single leaf. */
extern int	mtp_blink_height(Relation rel);

/*
 * Descends to the page of the given level that key belongs to.  With BUFFER_LOCK_EXCLUSIVE it is a
 * writer's descent, which finishes the incomplete splits in its way.  Fills *stack (may be NULL).
 * InvalidBuffer if the tree is empty, or lower than level.
 */
extern Buffer mtp_blink_descend(Relation rel, MtpBlinkKey *key, int access, uint32 level,
								MtpBlinkStack *stack);

/*
 * Where a writer's descent would come to the leaf level, as far as frames tell: locks nothing, and
 * reads nothing in shared buffers.  The key's leaf is that page or right of it (invariant B1), and
 * it has a downlink (B5).  Fills *stack.  InvalidBlockNumber if pages have to be locked to tell.
 */
extern BlockNumber mtp_blink_foresee(Relation rel, MtpBlinkKey *key, MtpBlinkStack *stack);

/* Moves right, as a reader, from a page that is share-locked until key belongs to the page. */
extern Buffer mtp_blink_moveright(Relation rel, MtpBlinkKey *key, Buffer buf);

/*
 * Locks the parent that has the downlink to child, a page of level - 1, exclusively; *pos gets the
 * downlink's position.  Finishes incomplete splits of the level in its way, from left to right.
 *
 * The caller has locked child exclusively.  What *stack (may be NULL) has must come from a writer's
 * descent, so that each page in it has its own downlink (invariant B5).  InvalidBuffer if no page
 * has the downlink, which is damage unless it has yet to be posted.
 */
extern Buffer mtp_blink_parent(Relation rel, MtpBlinkStack *stack, uint32 level, IndexTuple pivot,
							   BlockNumber child, int *pos);

/*
 * new_page.c: a page for new content, free or at the index's end, locked exclusively; its contents
 * are undefined.  The page is not part of the tree yet: after an error VACUUM finds it again.
 */
extern Buffer mtp_blink_alloc(Relation rel);
extern bool mtp_blink_recyclable(Page page);

/* put.c: puts items on a page, and has it split K ways where they do not fit */
typedef struct MtpBlinkPut
{
	Relation	rel;
	MtpBlinkStack *stack;
	volatile uint32 *progress;	/* see MtpChange; may be NULL */
	uint32		progress_to;
	bool		more;			/* items above these will come: fill the pages left of them */
	bool		lists;			/* equal keys become lists (mtp_blink_lists) */
	bool		tight;			/* the page has no room for an entry of its own */
	const MtpPos *place;		/* of the first item's pos, if the caller knows it; or NULL */
	uint32		k;				/* out: pages that the page was split into, 1 if none */
	int			nchildren;		/* items that are downlinks: pages whose flags they clear, … */
	Buffer	   *children;		/* … locked exclusively */
} MtpBlinkPut;

/*
 * With what a page already has, this many bytes of new items' bodies never make too many pages: two
 * neighbours together hold more than a page has room for beside a high key; two more are for lists
 * that grow as they are merged (README, "Splits").
 */
#define MTP_BLINK_PUT_BYTES \
	((Size) Min(4 * MTP_PAGE_ROOM, \
				(MTP_BLINK_MAX_K - 2) / 2 * (MTP_PAGE_ROOM - MTP_DIR_BYTES(1) - MTP_MAX_PIVOT) - \
				MTP_PAGE_ROOM))

/*
 * The same, and few enough that their pages need not be filled beyond the fill factor.  Small items
 * fill pages evenly, so there may be more of them; and those that may become narrow count as if
 * they did.
 */
extern Size mtp_blink_put_limit(Relation rel, bool small);

/*
 * Puts n items, of at most MTP_BLINK_PUT_BYTES with 8 bytes added to each, at pos (as
 * mtp_page_insert) on the leaf or inner page, which is locked exclusively, and which it unlocks and
 * unpins in any case.  All items must belong to the page by their keys (invariant B1).
 */
extern void mtp_blink_put(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos,
						  IndexTuple *items, uint64 *norms);

/*
 * The items in one piece, as records have them; palloc'd, with its size.  Each begins at a multiple
 * of what a page of this code has.
 */
extern char *mtp_blink_flatten(uint8 code, int n, const IndexTuple *items, Size *bytes);

/*
 * split.c: finishes the split whose left page is locked exclusively; unlocks and unpins the page.
 */
extern void mtp_blink_finish_split(Relation rel, Buffer left, MtpBlinkStack *stack);

/*
 * root.c: makes an empty leaf the root of a tree that has none.  Another backend may do so
 * meanwhile.
 */
extern void mtp_blink_make_root(Relation rel);

/* insert.c.  itup's size has been checked; heap is for mtp_blink_reclaim. */
extern void mtp_blink_insert(Relation rel, Relation heap, IndexTuple itup, MtpArrival arrival);

/*
 * Makes the index tuple of an entry, palloc'd.  Raises ERRCODE_PROGRAM_LIMIT_EXCEEDED if it is too
 * large to be stored.  Where leaves have MTP_NORM_SHORT, its size is a multiple of 4; MAXALIGN of
 * that can be read.
 */
extern IndexTuple mtp_blink_form_tuple(Relation rel, Datum *values, bool *isnull, ItemPointer tid);

/* Where the last value of a leaf tuple ends, from its start. */
extern Size mtp_blink_data_end(Relation rel, IndexTuple itup);

/* The leaf that key belongs to, locked exclusively; makes the first leaf. */
extern Buffer mtp_blink_find_leaf(Relation rel, MtpBlinkKey *key, MtpBlinkStack *stack);

/*
 * delete_dead.c: makes room on a leaf, which is locked exclusively, from entries of dead rows.
 * need is the size in bytes of the entries that have no room.  True if something was deleted.
 */
extern bool mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need,
							  MtpArrival arrival);

/*
 * merge.c: makes room on a leaf, which is locked exclusively, from its equal keys: they become
 * lists.  Does nothing if that would not give room for n items.  Ranks of items change.
 */
extern void mtp_blink_merge(Relation rel, Buffer buf, int n, const IndexTuple *items,
							const uint64 *norms);

/*
 * Sets bit i of same[] for each of n items in order which begins among the TIDs of those of its key
 * before it.  Returns how many.  nnew of the items are new, and are to go to pos[] of a page which
 * has the others; these don't overlap, so lists that nothing new is beside are not decoded.
 */
extern int	mtp_blink_overlaps(Relation rel, int n, const IndexTuple *items, int nnew,
							   const uint16 *pos, uint8 *same);

/*
 * Puts n items on a leaf as mtp_blink_put does, if one of them falls between the TIDs of a list of
 * its key (*inside), or if it is one that joins the entries before it; and if the leaf has room for
 * the lists that come of it.  True if it has done so; else nothing has changed.
 */
extern bool mtp_blink_put_merged(MtpBlinkPut *put, Buffer buf, int n, const uint16 *pos,
								 const IndexTuple *items, const uint64 *norms, bool *inside);

/* batch.c: makes the order of the index's entries, palloc'd. */
extern MtpOrder *mtp_blink_order(Relation index);

/* build.c */
extern IndexBuildResult *mtp_blink_build(Relation heap, Relation index, struct IndexInfo *info);
extern void mtp_blink_build_empty(Relation index);

/* True while this process builds the index's file. */
extern bool mtp_blink_building(Relation rel);
extern void mtp_blink_meta_init(Page page, BlockNumber root, uint32 level, uint32 marks);

/* scan.c */
extern IndexScanDesc mtp_blink_beginscan(Relation rel, int nkeys, int norderbys);
extern void mtp_blink_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
							 ScanKey orderbys, int norderbys);
extern bool mtp_blink_gettuple(IndexScanDesc scan, ScanDirection dir);
extern int64 mtp_blink_getbitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void mtp_blink_endscan(IndexScanDesc scan);
extern void mtp_blink_markpos(IndexScanDesc scan);
extern void mtp_blink_restrpos(IndexScanDesc scan);
extern bool mtp_blink_canreturn(Relation index, int attno);

/* vacuum.c */
extern IndexBulkDeleteResult *mtp_blink_bulkdelete(IndexVacuumInfo *info,
												   IndexBulkDeleteResult *stats,
												   IndexBulkDeleteCallback callback,
												   void *callback_state);
extern IndexBulkDeleteResult *mtp_blink_vacuumcleanup(IndexVacuumInfo *info,
													  IndexBulkDeleteResult *stats);

/* unlink.c: pages that left the tree together, the leaf first */
typedef struct MtpBlinkUnlinked
{
	int			npages;
	BlockNumber pages[MTP_BLINK_HEIGHT];
	FullTransactionId safexid;
} MtpBlinkUnlinked;

/*
 * Deletes an empty leaf from the tree, and the inner pages above it that would be left without a
 * child; false if it must stay for now.  The buffer is locked exclusively on entry, unlocked and
 * unpinned on return.
 */
extern bool mtp_blink_unlink(Relation rel, Buffer leaf, MtpBlinkUnlinked *gone);

/* What a page deletion does to pages, for redo; never raise errors. */
extern void mtp_blink_mark_deleted(Page page, uint16 level, BlockNumber left, BlockNumber right,
								   FullTransactionId safexid);
extern void mtp_blink_drop_downlink(Page page, int pos, BlockNumber child);

/* cost.c, handler.c */
extern void mtp_blink_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);
extern int	mtp_blink_fillfactor(Relation rel);

/* validate.c */

/*
 * For builds.  Raises ERRCODE_INVALID_OBJECT_DEFINITION if a key column's operator class has no
 * comparison function or an impossible one: core looks for it only when it is needed, and then says
 * less.  Raises ERRCODE_FEATURE_NOT_SUPPORTED if the class compares bytes where a nondeterministic
 * collation does not.
 */
extern void mtp_blink_check_support(Relation index);

/* True if equal keys are the same bytes, and nothing else is stored: the index has lists. */
extern bool mtp_blink_equal_is_identical(Relation index);

/* Their shares of _PG_init: the last one's includes the others. */
extern void mtp_blink_redo_init(void);
extern void mtp_blink_batch_init(void);
extern void mtp_blink_inspect_init(void);
extern void mtp_blink_init(void);

#endif							/* MTP_BLINK_H */
