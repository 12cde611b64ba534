/*
 * tree.c
 *	  Gets about in the tree: root, descent, moving right, parents, ends of levels.
 *
 * Lehman & Yao's rules as nbtree has them: a process holds at most one page's lock while it goes
 * down or right, and recovers from splits by high keys and right links.
 */
#include "blink/view.h"

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
	 * when he came there, may have the latter locked.
	 */
	*level = info->level;
	if (root != InvalidBlockNumber && *level >= target)
	{
		mtp_blink_check_block(rel, root);
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

static Buffer
move_right(Relation rel, MtpBlinkKey *key, Buffer buf, int access, bool forupdate,
		   MtpBlinkStack *stack)
{
	int			past = key->bt.nextkey ? 0 : 1;
	uint32		level = MtpHead(BufferGetPage(buf))->level;
	MtpWalk		walk = {0};

	for (;;)
	{
		Page		page = BufferGetPage(buf);
		MtpPageHeader *h = MtpHead(page);
		BlockNumber right = h->right;

		if (forupdate && MtpIncomplete(page) && !MtpIsDeleted(page))
		{
			BlockNumber blkno = BufferGetBlockNumber(buf);

			finish_if_incomplete(rel, buf, access, stack);
			buf = mtp_blink_read_link(rel, blkno, level, access);
			continue;
		}
		if (right == InvalidBlockNumber)
		{
			if (MtpIsDeleted(page))
				ereport(ERROR,
						(errcode(ERRCODE_INDEX_CORRUPTED),
						 errmsg("fell off the end of index \"%s\" at block %u",
								RelationGetRelationName(rel), BufferGetBlockNumber(buf))));
			return buf;
		}
		if (!MtpIsDeleted(page) && mtp_blink_compare(key, MtpHighKey(page)) < past)
			return buf;
		UnlockReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
		mtp_blink_check_walk(rel, &walk, right);
		buf = mtp_blink_read_link(rel, right, level, access);
	}
}

Buffer
mtp_blink_moveright(Relation rel, MtpBlinkKey *key, Buffer buf, int access, MtpBlinkStack *stack)
{
	return move_right(rel, key, buf, access, access == BUFFER_LOCK_EXCLUSIVE, stack);
}

/* ---------- down through frames ---------- */

/* Has the remembered root, on `level` or above, a frame that says that it is still one? */
static bool
root_frame(Relation rel, uint32 level, MtpBlinkView *v)
{
	MtpBlinkInfo *info = mtp_blink_info(rel);

	return info->root != InvalidBlockNumber && info->level >= level &&
		mtp_view_frame(v, rel, info->root, info->level) &&
		v->head.left == InvalidBlockNumber && v->head.right == InvalidBlockNumber;
}

/*
 * A copy of the separator that the key was found not to be behind, if it is small and comparing it again takes longer than looking whether it is the same: mostly it is the
 * child's high key, bit for bit.  size 0: none.
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
	return bound->size > 0 && bound->item.head.t_info == high->t_info && bound->item.head.t_tid.ip_posid == high->t_tid.ip_posid &&
		memcmp(bound->item.bytes + sizeof(IndexTupleData), (char *) high + sizeof(IndexTupleData), bound->size - sizeof(IndexTupleData)) == 0;
}

/*
 * Moves right, as far as there are frames, until key belongs to the page; false if that takes locks.  A writer steps over no split that is
 * incomplete: the pages behind it have no downlink, and could not be split in turn.
 */
static bool
view_right(MtpBlinkKey *key, bool forupdate, Bound *bound, MtpBlinkView *v)
{
	int			past = key->bt.nextkey ? 0 : 1;
	MtpWalk		walk = {0};

	while (v->head.right != InvalidBlockNumber)
	{
		BlockNumber right = v->head.right;
		IndexTuple	high = mtp_view_high(v);

		if (high == NULL || (forupdate && (v->head.flags & MTP_INCOMPLETE)))
			return false;
		if (is_bound(bound, high))
			return true;
		if (mtp_blink_compare(key, high) < past)
		{
			keep_bound(bound, key, high);
			return true;
		}
		if (mtp_walk_again(&walk, right) || !mtp_view_frame(v, key->rel, right, v->head.level))
			return false;
	}
	return true;
}

/*
 * From an inner page's view to the child's block.  False if the view is torn, or leads right to a page without a frame, or if the caller has
 * to finish a split first.  *block: the page that the downlink was found on; the child.
 */
static bool
view_down(MtpBlinkKey *key, bool forupdate, Bound *bound, MtpBlinkView *v, BlockNumber *block, BlockNumber *child)
{
	IndexTuple	item;
	MtpPos		p;

	if (!view_right(key, forupdate, bound, v))
		return false;
	mtp_view_place_frame(key, v, false, &p);
	if (v->torn)
		return false;

	/* Behind the last item it is the page's high key, which *bound is already. */
	if (!key->by_norm && p.node < v->head.nnodes)
		keep_bound(bound, key, mtp_view_item(v, p.node, p.slot));
	if (v->torn || !mtp_view_prev(v, &p))
		return false;
	item = mtp_view_item(v, p.node, p.slot);
	if (item == NULL)
		return false;
	*block = v->block;
	*child = BTreeTupleGetDownLink(item);
	return true;
}

/*
 * Descends through inner pages above `level` as far as there are frames.  *child, on level *at, is the next page then; it is left alone if
 * there is not even a frame of the root.
 */
static void
descend_frames(Relation rel, MtpBlinkKey *key, bool forupdate, uint32 level, MtpBlinkStack *stack, Bound *bound, BlockNumber *child, uint32 *at)
{
	MtpBlinkView v;

	bound->size = 0;
	if (!root_frame(rel, level + 1, &v))
		return;
	*at = v.head.level;
	*child = v.block;
	while (view_down(key, forupdate, bound, &v, &stack->at[*at], child))
	{
		(*at)--;
		if (*at == level || !mtp_view_frame(&v, rel, *child, *at))
			break;
	}
}

/* ---------- descent ---------- */

/*
 * Whether a page was read in a frame or locked makes no difference to what follows: a frame says what the page said at some moment after
 * the descent began (buffer/README.md), and pages that were split or deleted since are met with right links either way.  framed: what is
 * read gets frames.
 */
static pg_attribute_always_inline Buffer
descend(Relation rel, MtpBlinkKey *key, int access, uint32 level, bool framed, MtpBlinkStack *stack, BlockNumber child, uint32 at)
{
	bool		forupdate = access == BUFFER_LOCK_EXCLUSIVE;
	Buffer		buf = InvalidBuffer;

	if (child == InvalidBlockNumber)
	{
		buf = mtp_blink_root(rel, access, level, &at);
		if (!BufferIsValid(buf))
			return buf;
		if (at < level)
		{
			UnlockReleaseBuffer(buf);
			return InvalidBuffer;
		}
	}
	for (;;)
	{
		if (!BufferIsValid(buf))
			buf = mtp_blink_read_link(rel, child, at, at == level ? access : BUFFER_LOCK_SHARE);
		buf = move_right(rel, key, buf, at == level ? access : BUFFER_LOCK_SHARE, forupdate, stack);
		if (at == level)
			return buf;

		child = mtp_blink_downlink(key, BufferGetPage(buf));
		stack->at[at] = BufferGetBlockNumber(buf);
		if (framed)
			mtp_buffer_publish(rel, buf);
		UnlockReleaseBuffer(buf);
		buf = InvalidBuffer;
		/* Who looks for a parent has its child locked, and changes no extents meanwhile. */
		if (framed && level == 0)
			mtp_buffer_consider(MTP_FRAME_INDEX);
		at--;
	}
}

Buffer
mtp_blink_descend(Relation rel, MtpBlinkKey *key, int access, uint32 level, MtpBlinkStack *stack)
{
	MtpBlinkStack own;
	Bound		bound;
	BlockNumber child = InvalidBlockNumber;
	uint32		at = 0;
	bool		serves = mtp_buffer_serves(rel);

	if (stack == NULL)
		stack = &own;
	memset(stack, 0xFF, sizeof(*stack));	/* InvalidBlockNumber everywhere */
	if (serves)
		descend_frames(rel, key, access == BUFFER_LOCK_EXCLUSIVE, level, stack, &bound, &child, &at);
	return descend(rel, key, access, level, serves, stack, child, at);
}

bool
mtp_blink_find(Relation rel, MtpBlinkKey *key, bool framed, MtpBlinkView *v)
{
	MtpBlinkStack stack;
	Bound		bound;
	BlockNumber child = InvalidBlockNumber;
	uint32		at = 0;
	bool		serves = mtp_buffer_serves(rel);
	Buffer		buf;

	if (serves)
	{
		/* A tree of one leaf has no descent. */
		if (framed && mtp_blink_info(rel)->level == 0 && root_frame(rel, 0, v))
			return true;
		descend_frames(rel, key, false, 0, &stack, &bound, &child, &at);
		if (framed && child != InvalidBlockNumber && at == 0 && mtp_view_frame(v, rel, child, 0) && view_right(key, false, &bound, v))
			return true;
	}
	buf = descend(rel, key, BUFFER_LOCK_SHARE, 0, serves, &stack, child, at);
	if (!BufferIsValid(buf))
		return false;
	mtp_view_page(v, rel, buf);
	return true;
}

/* ---------- the ends ---------- */

/* Moves to the last page of the level, if that is asked for, as far as there are frames; false if that takes locks.  A frame has no deleted page. */
static bool
view_last(Relation rel, bool rightmost, MtpBlinkView *v)
{
	MtpWalk		walk = {0};

	while (rightmost && v->head.right != InvalidBlockNumber)
		if (mtp_walk_again(&walk, v->head.right) || !mtp_view_frame(v, rel, v->head.right, v->head.level))
			return false;
	return true;
}

/*
 * Descends along an edge of the tree as far as there are frames.  True if *v is the leaf.  Else *child, on level *at, is the next page; it is left alone if there is not
 * even a frame of the root.
 */
static bool
descend_edge_frames(Relation rel, bool rightmost, bool framed, MtpBlinkView *v, BlockNumber *child, uint32 *at)
{
	if (!root_frame(rel, framed ? 0 : 1, v))
		return false;
	*child = v->block;
	*at = v->head.level;
	for (;;)
	{
		IndexTuple	item;
		MtpPos		p;

		if (!view_last(rel, rightmost, v))
			return false;
		if (*at == 0)
			return true;
		p = mtp_view_locate(v, rightmost ? v->head.nitems - 1 : 0);
		item = mtp_view_item(v, p.node, p.slot);
		if (item == NULL)
			return false;
		*child = BTreeTupleGetDownLink(item);
		(*at)--;
		if ((*at == 0 && !framed) || !mtp_view_frame(v, rel, *child, *at))
			return false;
	}
}

/* From a locked page to the last one of its level, if that is asked for, and in any case to one that is not deleted. */
static Buffer
move_to_last(Relation rel, bool rightmost, Buffer buf, uint32 level)
{
	MtpWalk		walk = {0};

	for (;;)
	{
		Page		page = BufferGetPage(buf);
		BlockNumber right = MtpHead(page)->right;

		if (!MtpIsDeleted(page) && (!rightmost || MtpRightmost(page)))
			return buf;
		if (right == InvalidBlockNumber)
			mtp_blink_fail_page(rel, page, "deleted page has no right sibling");
		UnlockReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
		mtp_blink_check_walk(rel, &walk, right);
		buf = mtp_blink_read_link(rel, right, level, BUFFER_LOCK_SHARE);
	}
}

bool
mtp_blink_find_end(Relation rel, bool rightmost, bool framed, MtpBlinkView *v)
{
	bool		serves = mtp_buffer_serves(rel);
	BlockNumber child = InvalidBlockNumber;
	uint32		at = 0;
	Buffer		buf;

	if (serves && descend_edge_frames(rel, rightmost, framed, v, &child, &at))
		return true;
	buf = child != InvalidBlockNumber ? mtp_blink_read_link(rel, child, at, BUFFER_LOCK_SHARE) : mtp_blink_root(rel, BUFFER_LOCK_SHARE, 0, &at);
	if (!BufferIsValid(buf))
		return false;
	for (buf = move_to_last(rel, rightmost, buf, at); at > 0; buf = move_to_last(rel, rightmost, buf, at))
	{
		Page		page = BufferGetPage(buf);

		child = BTreeTupleGetDownLink(mtp_blink_item_at(rel, page, rightmost ? MtpHead(page)->nitems - 1 : 0));
		if (serves)
			mtp_buffer_publish(rel, buf);
		UnlockReleaseBuffer(buf);
		if (serves)
			mtp_buffer_consider(MTP_FRAME_INDEX);
		buf = mtp_blink_read_link(rel, child, --at, BUFFER_LOCK_SHARE);
	}
	mtp_view_page(v, rel, buf);
	return true;
}

/* Position of the downlink to child on a page, or -1; the key's place is the likely one. */
static int
find_downlink(Page page, MtpBlinkKey *key, BlockNumber child)
{
	MtpPos		p;

	mtp_blink_child(key, page, &p);
	if (BTreeTupleGetDownLink(mtp_slot_item(page, p.node, p.slot)) == child)
		return p.pos;
	p = mtp_page_locate(page, 0);
	do
	{
		if (BTreeTupleGetDownLink(mtp_blink_item(key->rel, page, p.node, p.slot)) == child)
			return p.pos;
	} while (mtp_pos_next(page, &p));
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
			walk = (MtpWalk) {0};
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
			*pos = find_downlink(page, &key, child);
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
