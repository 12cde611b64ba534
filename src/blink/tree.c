/*
 * tree.c
 *	  Gets about in the tree: root, descent, moving right, parents, ends of levels.
 *
 * Lehman & Yao's rules as nbtree has them: a process holds at most one page's lock while it goes
 * down or right, and recovers from splits by high keys and right links.
 */
#include "blink/blink.h"

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

Buffer
mtp_blink_descend(Relation rel, MtpBlinkKey *key, int access, uint32 level, MtpBlinkStack *stack)
{
	MtpBlinkStack own;
	Buffer		buf;
	uint32		at;

	if (stack == NULL)
		stack = &own;
	memset(stack, 0xFF, sizeof(*stack));	/* InvalidBlockNumber everywhere */

	buf = mtp_blink_root(rel, access, level, &at);
	if (!BufferIsValid(buf))
		return buf;
	if (at < level)
	{
		UnlockReleaseBuffer(buf);
		return InvalidBuffer;
	}
	for (;;)
	{
		Page		page;
		BlockNumber child;
		MtpPos		p;

		buf = move_right(rel, key, buf, at == level ? access : BUFFER_LOCK_SHARE,
						 access == BUFFER_LOCK_EXCLUSIVE, stack);
		if (at == level)
			return buf;

		page = BufferGetPage(buf);
		p = mtp_blink_child(key, page);
		child = BTreeTupleGetDownLink(mtp_slot_item(page, p.node, p.slot));
		stack->at[at] = BufferGetBlockNumber(buf);
		UnlockReleaseBuffer(buf);
		at--;
		buf = mtp_blink_read_link(rel, child, at, at == level ? access : BUFFER_LOCK_SHARE);
	}
}

Buffer
mtp_blink_endpoint(Relation rel, uint32 level, bool rightmost, int access)
{
	uint32		at;
	Buffer		buf = mtp_blink_root(rel, access, level, &at);

	if (!BufferIsValid(buf))
		return buf;
	for (;;)
	{
		Page		page = BufferGetPage(buf);
		int			mode = at == level ? access : BUFFER_LOCK_SHARE;
		BlockNumber next;
		MtpWalk		walk = {0};

		/* A deleted page, or one that is no longer the last, leads right. */
		while (MtpIsDeleted(page) || (rightmost && !MtpRightmost(page)))
		{
			next = MtpHead(page)->right;
			if (next == InvalidBlockNumber)
				mtp_blink_fail_page(rel, page, "deleted page has no right sibling");
			UnlockReleaseBuffer(buf);
			CHECK_FOR_INTERRUPTS();
			mtp_blink_check_walk(rel, &walk, next);
			buf = mtp_blink_read_link(rel, next, at, mode);
			page = BufferGetPage(buf);
		}
		if (at == level)
			return buf;
		if (at < level)
		{
			UnlockReleaseBuffer(buf);
			return InvalidBuffer;
		}
		next = BTreeTupleGetDownLink(mtp_blink_item_at(rel, page, rightmost ? MtpHead(page)->nitems - 1 : 0));
		UnlockReleaseBuffer(buf);
		at--;
		buf = mtp_blink_read_link(rel, next, at, at == level ? access : BUFFER_LOCK_SHARE);
	}
}

/* Position of the downlink to child on a page, or -1; the key's place is the likely one. */
static int
find_downlink(Page page, MtpBlinkKey *key, BlockNumber child)
{
	MtpPos		p = mtp_blink_child(key, page);

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
				ereport(ERROR,
						(errcode(ERRCODE_INDEX_CORRUPTED),
						 errmsg("failed to re-find parent key in index \"%s\" for block %u",
								RelationGetRelationName(rel), child)));
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
