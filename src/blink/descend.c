/*
 * descend.c
 *	  Ways through the tree: root, descent, moving right, parents, ends of levels.
 *
 * The rules are Lehman and Yao's as nbtree has them.  A process holds at most one page's lock while
 * it goes down or right, and recovers from splits by high keys and right links (invariant B1).
 */
#include "blink/reader.h"

#include "miscadmin.h"

Buffer
mtp_blink_read_ext(Relation rel, BlockNumber blkno, int access, BufferAccessStrategy strategy)
{
	Buffer		buf;

	if (unlikely(mtp_link_beyond(rel, blkno)))
		mtp_link_fail(rel, blkno, true);
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);
	mtp_page_prefetch(BufferGetPage(buf));
	mtp_blink_check_unlocked(rel, buf);
	LockBuffer(buf, access);
	mtp_blink_check_page(rel, buf);
	return buf;
}

Buffer
mtp_blink_read(Relation rel, BlockNumber blkno, int access)
{
	return mtp_blink_read_ext(rel, blkno, access, NULL);
}

Buffer
mtp_blink_read_link(Relation rel, BlockNumber blkno, uint32 level, int access)
{
	Buffer		buf = mtp_blink_read(rel, blkno, access);
	MtpPageHeader *h = MtpHeader(BufferGetPage(buf));

	if (unlikely(h->level != level || h->type == MTP_PAGE_META))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("link in index \"%s\" leads to block %u, which is not on level %u",
						RelationGetRelationName(rel), BufferGetBlockNumber(buf), level),
				 errhint("Please REINDEX it.")));
	return buf;
}

Buffer
mtp_blink_read_meta(Relation rel, int access)
{
	Buffer		buf = mtp_blink_read(rel, MTP_BLINK_META, access);
	Page		page = BufferGetPage(buf);
	MtpBlinkMeta *meta = MtpBlinkMetaOf(page);

	if (MtpHeader(page)->type != MTP_PAGE_META || meta->magic != MTP_BLINK_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is not an mtpower_blink index", RelationGetRelationName(rel)),
				 errdetail("Its metapage, block %u, is corrupted.", MTP_BLINK_META)));
	if (meta->version != MTP_BLINK_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("version mismatch in index \"%s\": file version %u, current version %u",
						RelationGetRelationName(rel), meta->version, MTP_BLINK_VERSION),
				 errdetail("Its metapage, block %u, was written by a later version of mtpower, "
						   "or is corrupted.", MTP_BLINK_META)));
	if (meta->root != InvalidBlockNumber &&
		(meta->level >= MTP_BLINK_HEIGHT || meta->root == MTP_BLINK_META))
		mtp_blink_fail_page(rel, page, "metapage leads to an impossible root");
	return buf;
}

/* True if a remembered root is still the only page of its level. */
static bool
still_root(Page page, uint32 level)
{
	MtpPageHeader *h = MtpHeader(page);

	return !PageIsNew(page) && h->page_id == MTP_PAGE_ID &&
		(h->type == MTP_PAGE_LEAF || h->type == MTP_PAGE_INNER) &&
		h->level == level && h->left == InvalidBlockNumber && h->right == InvalidBlockNumber;
}

/* Reads from the metapage where the root is, and remembers it; false if the tree is empty. */
static bool
read_root(Relation rel, BlockNumber *root, uint32 *level)
{
	Buffer		buf = mtp_blink_read_meta(rel, BUFFER_LOCK_SHARE);
	MtpBlinkMeta *meta = MtpBlinkMetaOf(BufferGetPage(buf));
	MtpBlinkInfo *info;

	*root = meta->root;
	*level = meta->level;
	UnlockReleaseBuffer(buf);

	info = mtp_blink_info(rel);
	info->root = *root;
	info->level = *level;
	return *root != InvalidBlockNumber;
}

bool
mtp_blink_lists(Relation rel)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);
	MtpBlinkOptions *opts;

	if (info->lists < 0)
	{
		Buffer		buf = mtp_blink_read_meta(rel, BUFFER_LOCK_SHARE);
		bool		lists = (MtpBlinkMetaOf(BufferGetPage(buf))->marks & MTP_BLINK_LISTS) != 0;

		UnlockReleaseBuffer(buf);
		info = mtp_blink_info(rel);
		info->lists = lists;
	}
	opts = (MtpBlinkOptions *) rel->rd_options;
	return info->lists > 0 && (opts == NULL || opts->deduplicate_items);
}

int
mtp_blink_height(Relation rel)
{
	MtpBlinkInfo *info;
	uint32		level;
	BlockNumber root;

	/* Plans that don't use the index need it, too. */
	if (!mtp_blink_usable(rel))
		return 0;

	/* A root that is out of date is good enough, and the next descent notices. */
	info = mtp_blink_info(rel);
	if (info->root != InvalidBlockNumber)
		return info->level;
	return read_root(rel, &root, &level) ? (int) level : 0;
}

/*
 * Locks the root: with `access` if it is on level `target`, else shared.  *level gets its level.
 * InvalidBuffer if the tree is empty.
 */
static Buffer
lock_root(Relation rel, int access, uint32 target, uint32 *level)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);
	BlockNumber root = info->root;
	Buffer		buf;

	/*
	 * A remembered root below `target` is not even looked at: a backend that looks for the parent
	 * of a page that was the root when it came there may have that page locked.  Nor is one beyond
	 * the file's end: what is remembered may be of another file, which was longer.
	 */
	*level = info->level;
	if (root != InvalidBlockNumber && *level >= target && !mtp_link_beyond(rel, root))
	{
		buf = ReadBuffer(rel, root);
		mtp_page_prefetch(BufferGetPage(buf));
		mtp_blink_check_unlocked(rel, buf);
		LockBuffer(buf, *level == target ? access : BUFFER_LOCK_SHARE);
		if (still_root(BufferGetPage(buf), *level))
		{
			mtp_blink_check_page(rel, buf);
			return buf;
		}
		UnlockReleaseBuffer(buf);
	}
	if (!read_root(rel, &root, level))
		return InvalidBuffer;

	/* It may have been split since: its level is the same, and moving right does the rest. */
	return mtp_blink_read_link(rel, root, *level, *level == target ? access : BUFFER_LOCK_SHARE);
}

/* ---------- walks ---------- */

/*
 * A copy of the separator that the key was found not to be behind.  Mostly it is the child's high
 * key bit for bit, and then the comparison of the two replaces that with the key.  Kept only if it
 * is small and comparing the key takes longer.  size 0: none.
 */
typedef struct Bound
{
	Size		size;
	union
	{
		IndexTupleData head;
		char		bytes[128];
	}			item;
} Bound;

static void
keep_bound(Bound *bound, MtpBlinkKey *key, IndexTuple item)
{
	bound->size = 0;
	if (key->by_norm || item == NULL || IndexTupleSize(item) > sizeof(bound->item))
		return;
	bound->size = IndexTupleSize(item);
	memcpy(&bound->item, item, bound->size);
}

/* True if the high key is the bound but for the page that it leads to. */
static bool
is_bound(const Bound *bound, IndexTuple high)
{
	return bound->size > 0 && bound->item.head.t_info == high->t_info &&
		bound->item.head.t_tid.ip_posid == high->t_tid.ip_posid &&
		memcmp(bound->item.bytes + sizeof(IndexTupleData), (char *) high + sizeof(IndexTupleData),
			   bound->size - sizeof(IndexTupleData)) == 0;
}

/*
 * A walk to the page of a level that a key belongs to, or to the level's first or last page.
 *
 * Each step is taken on a page reader: in a frame, or on the locked page.  It makes no difference
 * to what follows.  A frame says what the page said at some moment after the walk began
 * (buffer/README.md), and right links lead past pages that were split or deleted since either way.
 * But only a locked page can be changed.  So a step that must change the page, or that the frame is
 * of no use for, is taken again with the page locked.
 */
typedef struct Walk
{
	Relation	rel;
	MtpBlinkKey *key;			/* NULL: to the first page, or … */
	bool		rightmost;		/* … to the last one */
	int			access;			/* how to lock a page of the level; others are share-locked */
	uint32		level;
	bool		forupdate;		/* finishes the splits that it meets, and steps over none */
	bool		serves;			/* what is locked above the level gets a frame */
	bool		frames;			/* pages above the level are still read in frames, … */
	bool		framed;			/* … and the one of the level is to be, too */
	MtpBlinkStack *stack;		/* to be filled, or NULL */
	Bound		bound;			/* for frames alone: to lock a page costs more than it saves */
} Walk;

static inline void
init_walk(Walk *w, Relation rel, MtpBlinkKey *key, int access, uint32 level, MtpBlinkStack *stack)
{
	w->rel = rel;
	w->key = key;
	w->rightmost = false;
	w->access = access;
	w->level = level;
	w->forupdate = access == BUFFER_LOCK_EXCLUSIVE;
	w->serves = w->frames = mtp_buffer_serves(rel);
	w->framed = false;
	w->stack = stack;
	w->bound.size = 0;
}

static inline int
access_to(const Walk *w, uint32 level)
{
	return level == w->level ? w->access : BUFFER_LOCK_SHARE;
}

static inline void
lock_page(const Walk *w, BlockNumber block, uint32 level, MtpPageReader *v)
{
	mtp_blink_reader_page(v, w->rel,
						  mtp_blink_read_link(w->rel, block, level, access_to(w, level)));
}

/*
 * True if a page that has a right sibling is the one of its level that the walk looks for.  False,
 * too, if the reader is torn.
 */
static inline bool
belongs(Walk *w, MtpPageReader *v)
{
	MtpBlinkKey *key = w->key;
	IndexTuple	high;

	if (key == NULL)
		return !w->rightmost;
	high = mtp_blink_reader_high(v);
	if (high == NULL)
		return false;
	if (is_bound(&w->bound, high))
		return true;
	if (mtp_blink_compare(key, high) >= (key->bt.nextkey ? 0 : 1))
		return false;
	if (w->frames)
		keep_bound(&w->bound, key, high);
	return true;
}

/*
 * Moves right to the page that the walk looks for on this level.  False if the page must be locked
 * for that: the frame is of no use, or there is none of the right sibling, or a split must be
 * finished.
 *
 * A writer steps over no incomplete split (invariant B5): the pages behind it have no downlink, and
 * could not be split in turn.
 */
static bool
move_right(Walk *w, MtpPageReader *v)
{
	MtpWalk		seen = {0};

	for (;;)
	{
		bool		deleted = v->head.type == MTP_PAGE_DELETED;
		BlockNumber right = v->head.right;
		uint32		level = v->head.level;

		if (w->forupdate && (v->head.flags & MTP_INCOMPLETE) && !deleted)
		{
			if (!BufferIsValid(v->buf))
				return false;

			/* Above the walk's level the lock is traded for an exclusive one; then look again. */
			if (access_to(w, level) != BUFFER_LOCK_EXCLUSIVE)
			{
				LockBuffer(v->buf, BUFFER_LOCK_UNLOCK);
				LockBuffer(v->buf, BUFFER_LOCK_EXCLUSIVE);
			}
			if (MtpIncomplete(BufferGetPage(v->buf)) && !MtpIsDeleted(BufferGetPage(v->buf)))
				mtp_blink_finish_split(w->rel, v->buf, w->stack);
			else
				UnlockReleaseBuffer(v->buf);
			lock_page(w, v->block, level, v);
			continue;
		}
		if (right == InvalidBlockNumber)
		{
			if (deleted)
				ereport(ERROR,
						(errcode(ERRCODE_INDEX_CORRUPTED),
						 errmsg("fell off the end of index \"%s\" at block %u",
								RelationGetRelationName(w->rel), v->block)));
			return true;
		}
		if (!deleted && belongs(w, v))
			return true;
		if (v->torn)
			return false;

		/*
		 * Between the two locks the right page may be split or deleted.  Its links lead on in both
		 * cases, and it is not reused while this process may come to it (invariant B13).
		 */
		if (BufferIsValid(v->buf))
		{
			UnlockReleaseBuffer(v->buf);
			CHECK_FOR_INTERRUPTS();
			mtp_blink_check_walk(w->rel, &seen, right);
			lock_page(w, right, level, v);
		}
		else if (mtp_walk_again(&seen, right) || !mtp_blink_reader_frame(v, w->rel, right, level))
			return false;
	}
}

/* Finds the child's block on an inner page; false if the reader is torn. */
static bool
find_child(Walk *w, MtpPageReader *v, BlockNumber *child)
{
	MtpBlinkKey *key = w->key;
	IndexTuple	item;
	MtpPos		p;

	if (key != NULL)
	{
		mtp_blink_reader_place(key, v, false, &p);

		/* Behind the last item stands the page's high key, which the bound is already. */
		if (w->frames && !key->by_norm && p.node < v->head.nnodes && !v->torn)
			keep_bound(&w->bound, key, mtp_blink_reader_item(v, p.node, p.slot));
		item = mtp_blink_reader_before(v, &p);
	}
	else
	{
		p = mtp_blink_reader_locate(v, w->rightmost ? v->head.nitems - 1 : 0);
		item = mtp_blink_reader_item(v, p.node, p.slot);
	}
	if (item == NULL)
		return false;
	*child = BTreeTupleGetDownLink(item);
	return true;
}

/*
 * Opens the frame of the remembered root, if it has one that says that it is still the root.  One
 * of the walk's level is of use only to a walk that is to end in a frame.
 */
static bool
open_root_frame(Walk *w, MtpPageReader *v)
{
	MtpBlinkInfo *info = mtp_blink_info(w->rel);

	return w->frames && info->root != InvalidBlockNumber &&
		info->level >= (w->framed ? w->level : w->level + 1) &&
		mtp_blink_reader_frame(v, w->rel, info->root, info->level) &&
		v->head.left == InvalidBlockNumber && v->head.right == InvalidBlockNumber;
}

/*
 * Walks down in frames as far as they lead, from a page whose frame v has.  True if v has the frame
 * of the page that the walk was to find.  Else *block, of level *at, is where the walk is to go on
 * with pages locked: no page of a higher level needs another look.
 */
static bool
descend_frames(Walk *w, MtpPageReader *v, BlockNumber *block, uint32 *at)
{
	*block = v->block;
	*at = v->head.level;
	for (;;)
	{
		if (!move_right(w, v))
			return false;
		if (*at == w->level)
			return true;
		if (!find_child(w, v, block))
			return false;
		if (w->stack != NULL)
			w->stack->at[*at] = v->block;
		--*at;
		if ((*at == w->level && !w->framed) || !mtp_blink_reader_frame(v, w->rel, *block, *at))
			return false;
	}
}

/*
 * Walks from the root down.  False if there is no page of the level; else *v is the page that the
 * walk was to find.
 *
 * While all goes well in frames, no page is locked.  From the first step that fails, the walk goes
 * on locked: the page of that step is locked and the step taken again.
 */
static bool
descend(Walk *w, MtpPageReader *v)
{
	BlockNumber block = InvalidBlockNumber; /* each page has a child for a key */
	uint32		at;

	if (open_root_frame(w, v))
	{
		if (descend_frames(w, v, &block, &at))
			return true;
		w->frames = false;
		lock_page(w, block, at, v);
	}
	else
	{
		Buffer		buf;

		w->frames = false;
		buf = lock_root(w->rel, w->access, w->level, &at);
		if (!BufferIsValid(buf))
			return false;
		mtp_blink_reader_page(v, w->rel, buf);
		if (at < w->level)
		{
			mtp_blink_reader_release(v);
			return false;
		}
	}
	for (;;)
	{
		(void) move_right(w, v);
		if (at == w->level)
			return true;

		/* Once the child is known the page may go: right links make up for splits behind us. */
		(void) find_child(w, v, &block);
		if (w->stack != NULL)
			w->stack->at[at] = v->block;
		if (w->serves)
			mtp_buffer_publish(w->rel, v->buf);
		UnlockReleaseBuffer(v->buf);

		/* A walk to a parent has the child locked, and changes no extents meanwhile. */
		if (w->serves && w->level == 0)
			mtp_buffer_consider(MTP_FRAME_INDEX);
		at--;
		lock_page(w, block, at, v);
	}
}

BlockNumber
mtp_blink_foresee(Relation rel, MtpBlinkKey *key, MtpBlinkStack *stack)
{
	MtpPageReader v;
	Walk		w;
	BlockNumber block;
	uint32		at;

	memset(stack, 0xFF, sizeof(*stack));
	init_walk(&w, rel, key, BUFFER_LOCK_EXCLUSIVE, 0, stack);
	if (!open_root_frame(&w, &v))
		return InvalidBlockNumber;
	(void) descend_frames(&w, &v, &block, &at);
	return at == 0 ? block : InvalidBlockNumber;
}

Buffer
mtp_blink_descend(Relation rel, MtpBlinkKey *key, int access, uint32 level, MtpBlinkStack *stack)
{
	MtpPageReader v;
	Walk		w;

	if (stack != NULL)
		memset(stack, 0xFF, sizeof(*stack));	/* InvalidBlockNumber everywhere */
	init_walk(&w, rel, key, access, level, stack);
	return descend(&w, &v) ? v.buf : InvalidBuffer;
}

Buffer
mtp_blink_moveright(Relation rel, MtpBlinkKey *key, Buffer buf)
{
	MtpPageReader v;
	Walk		w;

	mtp_blink_reader_page(&v, rel, buf);
	init_walk(&w, rel, key, BUFFER_LOCK_SHARE, v.head.level, NULL);
	(void) move_right(&w, &v);
	return v.buf;
}

bool
mtp_blink_find(Relation rel, MtpBlinkKey *key, bool rightmost, bool framed, MtpPageReader *v)
{
	Walk		w;

	init_walk(&w, rel, key, BUFFER_LOCK_SHARE, 0, NULL);
	w.rightmost = rightmost;
	w.framed = framed;
	return descend(&w, v);
}

/* ---------- parents ---------- */

/*
 * The position of the downlink to child on a locked page, or -1.  The key's place is the likely
 * one; if the downlink is not there, all items are looked at.
 */
static int
find_downlink(MtpBlinkKey *key, Buffer buf, BlockNumber child)
{
	MtpPageReader v;
	MtpPos		p;

	mtp_blink_reader_page(&v, key->rel, buf);
	mtp_blink_reader_place(key, &v, true, &p);
	if (BTreeTupleGetDownLink(mtp_blink_reader_before(&v, &p)) == child)
		return p.pos;
	p = mtp_blink_reader_locate(&v, 0);
	do
	{
		if (BTreeTupleGetDownLink(mtp_blink_reader_item(&v, p.node, p.slot)) == child)
			return p.pos;
	} while (mtp_pos_forward(v.counts, &v.head, &p));
	return -1;
}

/*
 * The search begins at the page that the stack names, and goes right: splits move downlinks right
 * only.  It meets each flag from the left, and finishes the split (invariant B5).  If the stack has
 * nothing, or the search ends without the downlink, a writer's descent gives a place to begin anew.
 */
Buffer
mtp_blink_parent(Relation rel, MtpBlinkStack *stack, uint32 level, IndexTuple pivot,
				 BlockNumber child, int *pos)
{
	MtpBlinkKey key;
	MtpBlinkStack fresh;
	bool		descended = false;
	Buffer		buf = InvalidBuffer;
	MtpWalk		walk = {0};

	mtp_blink_key_pivot(rel, &key, pivot);
	if (stack != NULL && stack->at[level] != InvalidBlockNumber)
		buf = mtp_blink_read_link(rel, stack->at[level], level, BUFFER_LOCK_EXCLUSIVE);
	for (;;)
	{
		Page		page;
		BlockNumber next;

		if (!BufferIsValid(buf))
		{
			/* Nothing is known of that level, or what was known led nowhere. */
			if (descended)
				return InvalidBuffer;
			descended = true;
			stack = &fresh;
			buf = mtp_blink_descend(rel, &key, BUFFER_LOCK_EXCLUSIVE, level, stack);
			memset(&walk, 0, sizeof(walk));
			if (!BufferIsValid(buf))
				continue;
		}
		page = BufferGetPage(buf);
		next = MtpHeader(page)->right;
		if (!MtpIsDeleted(page))
		{
			if (MtpIncomplete(page))
			{
				BlockNumber blkno = BufferGetBlockNumber(buf);

				/* This may split pages above; this page stays where it is. */
				mtp_blink_finish_split(rel, buf, stack);
				buf = mtp_blink_read_link(rel, blkno, level, BUFFER_LOCK_EXCLUSIVE);
				continue;
			}
			*pos = find_downlink(&key, buf, child);
			if (*pos >= 0)
				return buf;
		}

		/*
		 * The caller has the child locked all the while.  So nobody takes its downlink away, and a
		 * split may move it to the right only.
		 */
		UnlockReleaseBuffer(buf);
		buf = InvalidBuffer;
		if (next != InvalidBlockNumber)
		{
			mtp_blink_check_walk(rel, &walk, next);
			buf = mtp_blink_read_link(rel, next, level, BUFFER_LOCK_EXCLUSIVE);
		}
	}
}
