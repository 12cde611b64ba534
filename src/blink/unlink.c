/*
 * unlink.c
 *	  Takes empty pages out of the tree, in one step under one WAL record.
 *
 * README.md, "Page deletion", has the argument.  In short: an empty leaf goes together with the
 * inner pages above it that have no other child, up to a parent that has.  The key space falls to
 * the right siblings.  Locks that do not last are enough to find out what to do.  Then everything
 * is locked and looked at again.  If anything is not as it was, the page stays: the next VACUUM
 * tries again.
 */
#include "blink/reader.h"

#include "access/transam.h"
#include "blink/wal_records.h"
#include "core/inject.h"
#include "miscadmin.h"

/* The most levels that go at once: each takes three buffers, and the parent one. */
#define UNLINK_LEVELS ((MTP_CHANGE_BUFFERS - 1) / 3)

typedef struct UnlinkLevel
{
	BlockNumber page;
	BlockNumber left;			/* as found; InvalidBlockNumber if leftmost */
	Buffer		lbuf;
	Buffer		buf;
	Buffer		rbuf;
} UnlinkLevel;

typedef struct Unlink
{
	Relation	rel;
	IndexTuple	pivot;			/* high key of the leaf, and of all pages that go */
	MtpBlinkKey key;
	MtpBlinkStack stack;
	int			nlevels;		/* levels that lose a page */
	UnlinkLevel levels[UNLINK_LEVELS + 1];
	Buffer		parent;
	int			pos;			/* of the topmost page in the parent */
} Unlink;

/*
 * A deleted page keeps both links and its level (invariant B13): a backend that still comes here
 * moves right, or, going left, finds the way back.
 */
void
mtp_blink_mark_deleted(Page page, uint16 level, BlockNumber left, BlockNumber right,
					   FullTransactionId safexid)
{
	mtp_page_init(page, MTP_PAGE_DELETED, level, MTP_NORM_NONE);
	MtpHeader(page)->left = left;
	MtpHeader(page)->right = right;
	MtpBlinkDeletedOf(page)->safexid = safexid;
}

/*
 * The item at pos keeps its key and gets the child of the item behind it, which goes: the key space
 * of the old child falls to its right sibling.
 */
void
mtp_blink_drop_downlink(Page page, int pos, BlockNumber child)
{
	uint16		gone = pos + 1;
	MtpPos		p = mtp_page_locate(page, pos);

	BTreeTupleSetDownLink(mtp_slot_body(page, p.node, p.slot), child);
	mtp_page_delete(page, 1, &gone);
}

/*
 * True if the page may go, as far as it can tell itself.  The rightmost page of a level has no
 * neighbour that could take its key space over.  A page whose right sibling has no downlink yet is
 * needed to find that sibling.
 */
static bool
may_go(Page page)
{
	return !MtpRightmost(page) && !MtpIncomplete(page);
}

/*
 * Finds the pages above the leaf that go with it, and the parent that stays.  False if there is no
 * parent in which the topmost of these pages has a right sibling.  Holds one lock at a time.
 *
 * The descent is a writer's, which finishes the splits that it meets: so each page in the stack has
 * its own downlink (invariant B5).  lock_parent begins there, and finds further flags from the
 * left.  A page reached by moving right as a reader is not remembered.
 */
static bool
find_chain(Unlink *u)
{
	Buffer		buf = mtp_blink_descend(u->rel, &u->key, BUFFER_LOCK_EXCLUSIVE, 1, &u->stack);

	if (!BufferIsValid(buf))
		return false;
	u->stack.at[1] = BufferGetBlockNumber(buf);
	for (int level = 1; level <= UNLINK_LEVELS; level++)
	{
		UnlinkLevel *l = &u->levels[level];
		Page		page = BufferGetPage(buf);
		int			nitems = MtpHeader(page)->nitems;
		bool		stays = nitems > 1;
		BlockNumber child;
		bool		good;
		MtpPageReader v;
		MtpPos		p;

		mtp_blink_reader_page(&v, u->rel, buf);
		mtp_blink_reader_place(&u->key, &v, true, &p);
		child = BTreeTupleGetDownLink(mtp_blink_reader_before(&v, &p));
		good = child == u->levels[level - 1].page && (stays ? p.pos < nitems - 1 : may_go(page));
		l->page = BufferGetBlockNumber(buf);
		l->left = MtpHeader(page)->left;

		/* Without its lock all of this may change; lock_level and lock_parent look again. */
		UnlockReleaseBuffer(buf);
		if (!good)
			return false;
		if (stays)
		{
			u->nlevels = level;
			return true;
		}
		if (u->stack.at[level + 1] == InvalidBlockNumber)
			return false;
		buf = mtp_blink_read_link(u->rel, u->stack.at[level + 1], level + 1, BUFFER_LOCK_SHARE);
		buf = mtp_blink_moveright(u->rel, &u->key, buf);
	}
	UnlockReleaseBuffer(buf);
	return false;
}

/*
 * Locks the left sibling exclusively.  If the one that was found has been split meanwhile, it is
 * one of the pages to the right.  False if there is none, or if the page has no downlink yet.
 */
static bool
lock_left(Unlink *u, UnlinkLevel *l, uint32 level)
{
	BlockNumber blkno = l->left;
	MtpWalk		walk = {0};

	while (blkno != InvalidBlockNumber && blkno != l->page)
	{
		Buffer		buf = mtp_blink_read_link(u->rel, blkno, level, BUFFER_LOCK_EXCLUSIVE);
		Page		page = BufferGetPage(buf);

		/* One lock at a time on this level until the left sibling is found, which stays locked. */
		mtp_blink_check_walk(u->rel, &walk, blkno);
		blkno = MtpHeader(page)->right;
		if (!MtpIsDeleted(page) && blkno == l->page)
		{
			l->lbuf = buf;

			/* Without a downlink to the page there is nothing to take away yet. */
			return !MtpIncomplete(page);
		}
		if (MtpIsDeleted(page))
			blkno = InvalidBlockNumber;
		UnlockReleaseBuffer(buf);
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * Locks left sibling, page and right sibling of a level, in this order and exclusively.  False if
 * they are not what was found, or if the links do not match, which is logged.
 */
static bool
lock_level(Unlink *u, int level)
{
	UnlinkLevel *l = &u->levels[level];
	BlockNumber left = InvalidBlockNumber;
	MtpPageHeader *h;
	Page		page;

	if (l->left != InvalidBlockNumber)
	{
		if (!lock_left(u, l, level))
			return false;
		left = BufferGetBlockNumber(l->lbuf);
	}

	/* From here on neither the page nor its links change; look whether they are what was found. */
	l->buf = mtp_blink_read_link(u->rel, l->page, level, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(l->buf);
	h = MtpHeader(page);
	if (h->type != (level == 0 ? MTP_PAGE_LEAF : MTP_PAGE_INNER) || h->level != level ||
		h->left != left || h->nitems != (level == 0 ? 0 : 1) || !may_go(page))
		return false;
	if (level > 0 && mtp_blink_downlink(u->rel, page, 0) !=
		u->levels[level - 1].page)
		return false;

	l->rbuf = mtp_blink_read_link(u->rel, h->right, level, BUFFER_LOCK_EXCLUSIVE);
	if (MtpHeader(BufferGetPage(l->rbuf))->left == l->page)
		return true;
	ereport(LOG,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("right sibling's left link doesn't match in index \"%s\": "
					"block %u links to %u instead of %u",
					RelationGetRelationName(u->rel), BufferGetBlockNumber(l->rbuf),
					MtpHeader(BufferGetPage(l->rbuf))->left, l->page)));
	return false;
}

/*
 * Locks the parent of the topmost page that goes.  False unless the downlink behind that page's own
 * is its right sibling's.
 */
static bool
lock_parent(Unlink *u)
{
	UnlinkLevel *top = &u->levels[u->nlevels - 1];
	BlockNumber right = BufferGetBlockNumber(top->rbuf);
	Page		page;

	u->parent = mtp_blink_parent(u->rel, &u->stack, u->nlevels, u->pivot, top->page, &u->pos);
	if (!BufferIsValid(u->parent))
	{
		/* This is damage, but no reason to leave the rest of the index uncleaned. */
		ereport(LOG,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("failed to re-find parent key in index \"%s\" for deletion of block %u",
						RelationGetRelationName(u->rel), top->page)));
		return false;
	}
	page = BufferGetPage(u->parent);
	if (u->pos + 1 >= MtpHeader(page)->nitems)
		return false;			/* the parent was split just there */
	(void) mtp_blink_downlink(u->rel, page, u->pos);
	return mtp_blink_downlink(u->rel, page, u->pos + 1) == right;
}

/*
 * Changes all pages in one critical section, with one record (invariant B12).  Everything is
 * locked, and as it should be.
 */
static void
unlink_pages(Unlink *u, MtpBlinkUnlinked *gone)
{
	MtpChange	c;
	MtpWalUnlink rec;

	memset(&rec, 0, sizeof(rec));
	rec.levels = u->nlevels;
	rec.pos = u->pos;
	mtp_change_init(&c, u->rel, MTP_WAL_UNLINK);
	for (int i = 0; i < u->nlevels; i++)
	{
		UnlinkLevel *l = &u->levels[i];

		if (BufferIsValid(l->lbuf))
		{
			rec.lefts |= 1U << i;
			mtp_change_buffer(&c, l->lbuf, REGBUF_STANDARD);
		}
		mtp_change_buffer(&c, l->buf, REGBUF_WILL_INIT | REGBUF_STANDARD);
		mtp_change_buffer(&c, l->rbuf, REGBUF_STANDARD);
		gone->pages[i] = l->page;
	}
	mtp_change_buffer(&c, u->parent, REGBUF_STANDARD);
	gone->npages = u->nlevels;

	/*
	 * A backend that has seen a link to one of the pages, which are locked, has a snapshot or xid
	 * from before this.  So must one that sees the link in a frame: there it is no more.
	 */
	for (int i = 0; i < c.nbufs; i++)
		mtp_buffer_stale(c.bufs[i], false);
	gone->safexid = rec.safexid = ReadNextFullTransactionId();
	MTP_INJECT("unlink_safexid");

	/* A crash before the record leaves the tree as it was, and the leaf to the next VACUUM. */
	mtp_change_begin(&c);
	for (int i = 0; i < u->nlevels; i++)
	{
		UnlinkLevel *l = &u->levels[i];
		BlockNumber left = InvalidBlockNumber;
		BlockNumber right = BufferGetBlockNumber(l->rbuf);

		if (BufferIsValid(l->lbuf))
		{
			left = BufferGetBlockNumber(l->lbuf);
			MtpHeader(BufferGetPage(l->lbuf))->right = right;
		}
		MtpHeader(BufferGetPage(l->rbuf))->left = left;
		mtp_blink_mark_deleted(BufferGetPage(l->buf), i, left, right, gone->safexid);
	}
	mtp_blink_drop_downlink(BufferGetPage(u->parent), u->pos,
							BufferGetBlockNumber(u->levels[u->nlevels - 1].rbuf));
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
}

bool
mtp_blink_unlink(Relation rel, Buffer leaf, MtpBlinkUnlinked *gone)
{
	Page		page = BufferGetPage(leaf);
	Unlink		u;
	bool		good = MtpHeader(page)->nitems == 0 && may_go(page);

	gone->npages = 0;
	memset(u.levels, 0, sizeof(u.levels));
	u.rel = rel;
	u.parent = InvalidBuffer;
	u.levels[0].page = BufferGetBlockNumber(leaf);
	u.levels[0].left = MtpHeader(page)->left;

	/* Its left sibling's lock comes first in the tree's order, so this one has to go. */
	u.pivot = good ? CopyIndexTuple(MtpHighKey(page)) : NULL;
	UnlockReleaseBuffer(leaf);
	if (!good)
		return false;

	mtp_blink_key_pivot(rel, &u.key, u.pivot);
	good = find_chain(&u);
	if (good)
	{
		MTP_INJECT("unlink_found");

		/* Lower levels first, then upward: the order in which splits lock (README, "Locks"). */
		for (int level = 0; good && level < u.nlevels; level++)
			good = lock_level(&u, level);
		good = good && lock_parent(&u);
		if (good)
			unlink_pages(&u, gone);
		if (BufferIsValid(u.parent))
			UnlockReleaseBuffer(u.parent);
		for (int level = u.nlevels - 1; level >= 0; level--)
		{
			UnlinkLevel *l = &u.levels[level];
			Buffer		bufs[] = {l->rbuf, l->buf, l->lbuf};

			for (int i = 0; i < lengthof(bufs); i++)
				if (BufferIsValid(bufs[i]))
					UnlockReleaseBuffer(bufs[i]);
		}
	}
	pfree(u.pivot);
	return good;
}
