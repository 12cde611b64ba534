/*
 * descend.c
 *	  Gets about in the tree: root, descent, moving right, parents, ends of levels.
 *
 * Lehman & Yao's rules as nbtree has them: a process holds at most one page's lock while it goes
 * down or right, and recovers from splits by high keys and right links.
 */
#include "blink/reader.h"

#include "miscadmin.h"

Buffer
mtp_blink_read_ext(Relation rel, BlockNumber blkno, int access, BufferAccessStrategy strategy)
{
	Buffer		buf;

	mtp_blink_check_block(rel, blkno);
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

	mtp_blink_check_level(rel, buf, level);
	return buf;
}

Buffer
mtp_blink_read_meta(Relation rel, int access)
{
	Buffer		buf = mtp_blink_read(rel, MTP_BLINK_META, access);

	(void) mtp_blink_check_meta(rel, buf);
	return buf;
}

/* Is a remembered root still the only page of its level? */
static bool
still_root(Page page, uint32 level)
{
	MtpPageHeader *h = MtpHead(page);

	return !PageIsNew(page) && h->page_id == MTP_PAGE_ID &&
		(h->type == MTP_PAGE_LEAF || h->type == MTP_PAGE_INNER) &&
		h->level == level && h->left == InvalidBlockNumber && h->right == InvalidBlockNumber;
}

/* Reads the metapage into the relation's cache; false if the tree is empty. */
static bool
load_root(Relation rel, BlockNumber *root, uint32 *level)
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

Buffer
mtp_blink_root(Relation rel, int access, uint32 target, uint32 *level)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);
	BlockNumber root = info->root;
	Buffer		buf;

	/*
	 * Whoever looks for a page above the remembered root, the parent of a page that was the root
	 * when it came there, may have the latter locked.  What is remembered may be of another file,
	 * which was longer.
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
	if (!load_root(rel, &root, level))
		return InvalidBuffer;

	/* It may have been split since: its level is the same, and moving right does the rest. */
	return mtp_blink_read_link(rel, root, *level, *level == target ? access : BUFFER_LOCK_SHARE);
}

int
mtp_blink_height(Relation rel)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);
	uint32		level;
	BlockNumber root;

	/* A root that is out of date is good enough, and the next descent finds out. */
	if (info->root != InvalidBlockNumber)
		return info->level;
	return load_root(rel, &root, &level) ? (int) level : 0;
}

/*
 * Finishes the split that the page's flag tells of.  The lock is traded for an exclusive one where
 * needed; releases the buffer.
 */
static void
finish_if_incomplete(Relation rel, Buffer buf, int access, MtpBlinkStack *stack)
{
	if (access != BUFFER_LOCK_EXCLUSIVE)
	{
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	}
	if (MtpIncomplete(BufferGetPage(buf)) && !MtpIsDeleted(BufferGetPage(buf)))
		mtp_blink_finish_split(rel, buf, stack);
	else
		UnlockReleaseBuffer(buf);
}

/* ---------- walks ---------- */

/*
 * A copy of the separator that the key was found not to be behind, if it is small and comparing it again takes
 * longer than looking whether it is the same: mostly it is the child's high key, bit for bit.  size 0: none.
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

/* Is it the same but for the page that it leads to? */
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
 * Each step is taken on a view: in a frame, or on the locked page.  It makes no difference to what follows: a
 * frame says what the page said at some moment after the walk began (buffer/README.md), and pages that were
 * split or deleted since are met with right links either way.  Only a locked page can be changed, though, so a
 * step that has to, or that the frame is not good for, is taken again with the page locked.
 */
typedef struct Walk
{
	Relation	rel;
	MtpBlinkKey *key;			/* NULL: to the first page, or … */
	bool		rightmost;		/* … to the last one */
	int			access;			/* how to lock a page of the level; others are share-locked */
	uint32		level;
	bool		forupdate;		/* finishes the splits that it comes upon, and steps over none */
	bool		serves;			/* what is locked above the level gets a frame */
	bool		frames;			/* pages above the level are read in frames, as long as there are
								 * some … */
	bool		framed;			/* … and that of the level as well */
	MtpBlinkStack *stack;		/* to be filled, or NULL */
	Bound		bound;			/* what a copy saves shows in frames alone: to lock a page costs
								 * more */
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
	mtp_blink_reader_page(v, w->rel, mtp_blink_read_link(w->rel, block, level, access_to(w, level)));
}

/* Is a page that has a right sibling the one that the walk looks for on its level?  False, too, if the view is torn. */
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

/* Goes to the right sibling; false if there is no frame of it. */
static bool
step_right(Walk *w, MtpWalk *seen, MtpPageReader *v)
{
	BlockNumber right = v->head.right;
	uint32		level = v->head.level;

	if (!BufferIsValid(v->buf))
		return !mtp_walk_again(seen, right) && mtp_blink_reader_frame(v, w->rel, right, level);
	UnlockReleaseBuffer(v->buf);
	CHECK_FOR_INTERRUPTS();
	mtp_blink_check_walk(w->rel, seen, right);
	lock_page(w, right, level, v);
	return true;
}

/*
 * Moves right to the page that the walk looks for on this level; false if that takes locks.  A writer steps
 * over no split that is incomplete: the pages behind it have no downlink, and could not be split in turn.
 */
static bool
move_right(Walk *w, MtpPageReader *v)
{
	MtpWalk		seen = {0};

	for (;;)
	{
		bool		deleted = v->head.type == MTP_PAGE_DELETED;

		if (w->forupdate && (v->head.flags & MTP_INCOMPLETE) && !deleted)
		{
			uint32		level = v->head.level;

			if (!BufferIsValid(v->buf))
				return false;
			finish_if_incomplete(w->rel, v->buf, access_to(w, level), w->stack);
			lock_page(w, v->block, level, v);
			continue;
		}
		if (v->head.right == InvalidBlockNumber)
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
		if (v->torn || !step_right(w, &seen, v))
			return false;
	}
}

/* From an inner page to the child's block; false if the view is torn. */
static bool
find_child(Walk *w, MtpPageReader *v, BlockNumber *child)
{
	MtpBlinkKey *key = w->key;
	IndexTuple	item;
	MtpPos		p;

	if (key != NULL)
	{
		mtp_blink_reader_place(key, v, false, &p);

		/* Behind the last item it is the page's high key, which the bound is already. */
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

/* Has the remembered root, on `level` or above, a frame that says that it is still one? */
static bool
root_frame(Relation rel, uint32 level, MtpPageReader *v)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);

	return info->root != InvalidBlockNumber && info->level >= level &&
		mtp_blink_reader_frame(v, rel, info->root, info->level) &&
		v->head.left == InvalidBlockNumber && v->head.right == InvalidBlockNumber;
}

/* False if there is no page of the walk's level. */
static bool
open_root(Walk *w, MtpPageReader *v)
{
	uint32		at;
	Buffer		buf;

	if (w->frames && root_frame(w->rel, w->framed ? w->level : w->level + 1, v))
		return true;
	w->frames = false;
	buf = mtp_blink_root(w->rel, w->access, w->level, &at);
	if (!BufferIsValid(buf))
		return false;
	mtp_blink_reader_page(v, w->rel, buf);
	if (at >= w->level)
		return true;
	mtp_blink_reader_release(v);
	return false;
}

/* Done with an inner page: if it was locked, it gets a frame. */
static inline void
leave(const Walk *w, MtpPageReader *v)
{
	if (!BufferIsValid(v->buf))
		return;
	if (w->serves)
		mtp_buffer_publish(w->rel, v->buf);
	UnlockReleaseBuffer(v->buf);

	/* A walk to a parent has the child locked, and changes no extents meanwhile. */
	if (w->serves && w->level == 0)
		mtp_buffer_consider(MTP_FRAME_INDEX);
}

/* From the root down.  False if there is no page of the level; else *v is the page that the walk was to find. */
static bool
descend(Walk *w, MtpPageReader *v)
{
	BlockNumber block;
	uint32		at;

	if (!open_root(w, v))
		return false;
	block = v->block;
	at = v->head.level;
	for (;;)
	{
		bool		good = move_right(w, v);

		if (good && at == w->level)
			return true;
		if (good)
		{
			BlockNumber here = v->block;

			good = find_child(w, v, &block);
			if (good)
			{
				if (w->stack != NULL)
					w->stack->at[at] = here;
				leave(w, v);
				at--;
			}
		}
		if (good && w->frames && (at > w->level || w->framed) && mtp_blink_reader_frame(v, w->rel, block, at))
			continue;
		w->frames = false;
		lock_page(w, block, at, v);
	}
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
mtp_blink_find(Relation rel, MtpBlinkKey *key, bool framed, MtpPageReader *v)
{
	Walk		w;

	init_walk(&w, rel, key, BUFFER_LOCK_SHARE, 0, NULL);
	w.framed = framed;
	return descend(&w, v);
}

bool
mtp_blink_find_end(Relation rel, bool rightmost, bool framed, MtpPageReader *v)
{
	Walk		w;

	init_walk(&w, rel, NULL, BUFFER_LOCK_SHARE, 0, NULL);
	w.rightmost = rightmost;
	w.framed = framed;
	return descend(&w, v);
}

/* ---------- parents ---------- */

/* Position of the downlink to child on a locked page, or -1; the key's place is the likely one. */
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
	} while (mtp_blink_reader_next(&v, &p));
	return -1;
}

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
			/* Nothing known of that level, or what was known led nowhere. */
			if (descended)
				return InvalidBuffer;
			descended = true;
			stack = &fresh;
			buf = mtp_blink_descend(rel, &key, BUFFER_LOCK_EXCLUSIVE, level, stack);
			walk = (MtpWalk)
			{
				0
			};
			if (!BufferIsValid(buf))
				continue;
		}
		page = BufferGetPage(buf);
		next = MtpHead(page)->right;
		if (!MtpIsDeleted(page))
		{
			if (MtpIncomplete(page))
			{
				BlockNumber blkno = BufferGetBlockNumber(buf);

				mtp_blink_finish_split(rel, buf, stack);
				buf = mtp_blink_read_link(rel, blkno, level, BUFFER_LOCK_EXCLUSIVE);
				continue;
			}
			*pos = find_downlink(&key, buf, child);
			if (*pos >= 0)
				return buf;
		}
		UnlockReleaseBuffer(buf);
		buf = InvalidBuffer;
		if (next != InvalidBlockNumber)
		{
			mtp_blink_check_walk(rel, &walk, next);
			buf = mtp_blink_read_link(rel, next, level, BUFFER_LOCK_EXCLUSIVE);
		}
	}
}
