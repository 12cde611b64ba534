/*
 * verify.c
 *	  Checks a B-link tree beside whatever other backends do to it.
 *
 * It holds AccessShareLock, and one page's share lock at a time, for as long as it copies the page.
 * It walks all levels from left to right, from the root's down.
 *
 * What one page says is true at the moment of its copy.  What two pages say together was true at
 * one moment if the first, read again after the second, has not changed in what matters: then the
 * second was read while both stood as they are.  So a contradiction between neighbours, or between
 * a parent and its children, counts only if the first page is still the same.  It must also be seen
 * several times over, in case the page was changed and changed back in between.
 */
#include "blink/verify.h"

#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * Copies a page that block `from` leads to, and lets its lock go: what is judged is the copy.  With
 * keep, the buffer stays pinned and is returned.
 */
static Buffer
read_page(MtpVerify *v, MtpVerifyPage *p, BlockNumber blkno, BlockNumber from, bool keep)
{
	Buffer		buf;

	CHECK_FOR_INTERRUPTS();
	if (blkno == MTP_BLINK_META || !mtp_verify_has_block(v, blkno))
		mtp_verify_fail(v, from, -1, "Page leads to block %u, which is no page of the tree.",
						blkno);
	v->blkno = blkno;
	p->blkno = blkno;
	buf = ReadBufferExtended(v->rel, MAIN_FORKNUM, blkno, RBM_NORMAL, v->strategy);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(MtpVerifyPageOf(p), BufferGetPage(buf), BLCKSZ);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	if (PageIsNew(MtpVerifyPageOf(p)))
		mtp_verify_fail(v, blkno, -1, "Page is zero, but block %u leads to it.", from);
	if (keep)
		return buf;
	ReleaseBuffer(buf);
	return InvalidBuffer;
}

static bool
on_level(MtpVerifyPage *p, uint32 level)
{
	return MtpVerifyHeadOf(p)->type == (level > 0 ? MTP_PAGE_INNER : MTP_PAGE_LEAF) &&
		MtpVerifyHeadOf(p)->level == level;
}

static bool
same_tuple(IndexTuple a, IndexTuple b)
{
	return IndexTupleSize(a) == IndexTupleSize(b) && memcmp(a, b, IndexTupleSize(a)) == 0;
}

/* True if two copies agree in what neighbours go by: being in the tree, right link, high key. */
static bool
same_edge(MtpVerifyPage *a, MtpVerifyPage *b)
{
	MtpPageHeader *ha = MtpVerifyHeadOf(a);
	MtpPageHeader *hb = MtpVerifyHeadOf(b);

	return ha->type == hb->type && ha->level == hb->level && ha->right == hb->right &&
		(ha->flags & MTP_INCOMPLETE) == (hb->flags & MTP_INCOMPLETE) &&
		(ha->highkey == 0) == (hb->highkey == 0) &&
		(ha->highkey == 0 ||
		 same_tuple(MtpHighKey(MtpVerifyPageOf(a)), MtpHighKey(MtpVerifyPageOf(b))));
}

/* True if two copies of an inner page agree in all they say. */
static bool
same_downlinks(MtpVerifyPage *a, MtpVerifyPage *b)
{
	Page		pa = MtpVerifyPageOf(a);
	Page		pb = MtpVerifyPageOf(b);
	MtpPos		x = {0};
	MtpPos		y = {0};

	if (!same_edge(a, b) || MtpHeader(pa)->nitems != MtpHeader(pb)->nitems)
		return false;
	do
	{
		if (!same_tuple(mtp_slot_body(pa, x.node, x.slot), mtp_slot_body(pb, y.node, y.slot)))
			return false;
	} while (mtp_pos_next(pa, &x) && mtp_pos_next(pb, &y));
	return true;
}

/* ---------- neighbours ---------- */

/* Checks the page that a right link leads to: it links back, and is above the high key. */
static void
check_pair(MtpVerify *v, MtpVerifyPage *left, MtpVerifyPage *p, MtpVerifyFault *f)
{
	Page		page = MtpVerifyPageOf(p);
	MtpPageHeader *h = MtpHeader(page);
	int			first = MtpIsInner(page) ? 1 : 0;
	int			att;
	MtpItemRoom room;

	f->found = false;
	if (MtpIsDeleted(page))
	{
		mtp_verify_fault(f, left->blkno, -1, "Right link leads to block %u, a deleted page.",
						 p->blkno);
		return;
	}
	mtp_blink_verify_page_sane(v, p);
	if (h->level != MtpVerifyHeadOf(left)->level)
		mtp_verify_fault(f, left->blkno, -1, "Right link leads to block %u on level %u.",
						 p->blkno, h->level);
	else if (h->left != left->blkno)
		mtp_verify_fault(f, p->blkno, -1, "Left link leads to block %d instead of block %u.",
						 (int) h->left, left->blkno);
	else if (h->nitems > first &&
			 mtp_blink_verify_compare(v, mtp_page_item(page, first, &room),
									  MtpHighKey(MtpVerifyPageOf(left)), &att) <= 0)
		mtp_verify_fault(f, p->blkno, first,
						 "Item is not above the high key of the left sibling, block %u.",
						 left->blkno);
}

/* ---------- parent and children ---------- */

/* Where a child's items must lie, and which page must follow it. */
typedef struct Bounds
{
	BlockNumber parent;
	int			pos;
	IndexTuple	low;			/* items are above it; NULL on the left edge */
	IndexTuple	high;			/* the child's high key; NULL on the right edge */
	BlockNumber next;			/* InvalidBlockNumber on the right edge */
} Bounds;

static bool
outside(MtpVerify *v, IndexTuple item, const Bounds *b)
{
	int			att;

	return (b->low && mtp_blink_verify_compare(v, item, b->low, &att) <= 0) ||
		(b->high && mtp_blink_verify_compare(v, item, b->high, &att) > 0);
}

/*
 * Follows a child's incomplete splits to the last page.  Its high key must be the next separator of
 * the parent, and its right link must lead to the parent's next child.
 */
static void
check_child_chain(MtpVerify *v, MtpVerifyPage *c, uint32 level, const Bounds *b, MtpVerifyFault *f)
{
	Page		page = MtpVerifyPageOf(c);
	BlockNumber limit = v->nblocks;
	int			att;

	while (MtpIncomplete(page))
	{
		BlockNumber from = c->blkno;

		if (MtpRightmost(page))
			mtp_verify_fail(v, from, -1, "Page of an incomplete split has no right sibling.");
		if (b->high && mtp_blink_verify_compare(v, MtpHighKey(page), b->high, &att) >= 0)
		{
			mtp_verify_fault(f, from, -1,
							 "Page is marked as split, but block %u has all downlinks.", b->parent);
			return;
		}
		if (limit-- == 0)
			mtp_verify_fail(v, from, -1, "Right links form a circle.");
		read_page(v, c, MtpHeader(page)->right, from, false);
		mtp_blink_verify_page_sane(v, c);
		if (!on_level(c, level))
		{
			mtp_verify_fault(f, from, -1, "Right link leads to block %u, which is not on level %u.",
							 c->blkno, level);
			return;
		}
	}
	if ((b->high == NULL) != MtpRightmost(page))
		mtp_verify_fault(f, c->blkno, -1, b->high ?
						 "Page has no right sibling, but block %u has more downlinks." :
						 "Page has a right sibling, but block %u has no downlink for it.",
						 b->parent);
	else if (b->high && mtp_blink_verify_compare(v, MtpHighKey(page), b->high, &att) != 0)
		mtp_verify_fault(f, c->blkno, -1,
						 "High key differs from the separator in block %u, offset %d.",
						 b->parent, b->pos + 2);
	else if (MtpHeader(page)->right != b->next)
		mtp_verify_fault(f, c->blkno, -1,
						 "Right link leads to block %u, but the next downlink in block %u "
						 "to block %u.", MtpHeader(page)->right, b->parent, b->next);
}

/*
 * Checks the child that a downlink leads to.  *b gets the child's bounds, scratch its copy.  If
 * nothing of the child is within the bounds, the downlink is to blame; else the child.
 */
static void
check_downlink(MtpVerify *v, MtpVerifyPage *p, int pos, MtpVerifyPage *scratch, Bounds *b,
			   MtpVerifyFault *f)
{
	Page		page = MtpVerifyPageOf(p);
	Page		below = MtpVerifyPageOf(scratch);
	MtpPageHeader *h = MtpHeader(page);
	MtpItemRoom room;			/* for a child's items: those of inner pages need none */
	IndexTuple	item = mtp_page_item(page, pos, &room);
	BlockNumber child = BTreeTupleGetDownLink(item);
	int			first = h->level > 1 ? 1 : 0;	/* an inner child's first item has no key */

	f->found = false;
	b->parent = p->blkno;
	b->pos = pos;
	b->low = pos > 0 ? item : NULL;
	b->high = NULL;
	b->next = InvalidBlockNumber;
	if (pos + 1 < h->nitems)
	{
		b->high = mtp_page_item(page, pos + 1, &room);
		b->next = BTreeTupleGetDownLink(b->high);
	}
	else if (!MtpRightmost(page))
	{
		b->high = MtpHighKey(page);

		/* The next page is the first child of the right sibling. */
		read_page(v, scratch, h->right, p->blkno, false);
		if (MtpIsInner(below))
		{
			mtp_blink_verify_page_sane(v, scratch);
			if (MtpHeader(below)->nitems > 0)
				b->next = BTreeTupleGetDownLink(mtp_page_item(below, 0, &room));
		}
	}
	if (child == MTP_BLINK_META || !mtp_verify_has_block(v, child))
	{
		mtp_verify_fault(f, p->blkno, pos,
						 "Downlink leads to block %u, which is no page of the tree.", child);
		return;
	}
	read_page(v, scratch, child, p->blkno, false);
	mtp_blink_verify_page_sane(v, scratch);
	if (MtpIsDeleted(below))
		mtp_verify_fault(f, p->blkno, pos, "Downlink leads to block %u, a deleted page.", child);
	else if (!on_level(scratch, h->level - 1))
		mtp_verify_fault(f, p->blkno, pos,
						 "Downlink leads to block %u, which is not on level %u.", child, h->level - 1);
	else if (MtpHeader(below)->nitems > first &&
			 outside(v, mtp_page_item(below, first, &room), b))
	{
		if (outside(v, mtp_page_item(below, MtpHeader(below)->nitems - 1, &room), b))
			mtp_verify_fault(f, p->blkno, pos,
							 "Downlink leads to block %u, whose items are beyond the separators.",
							 child);
		else
			mtp_verify_fault(f, child, first,
							 "Item is not above the separator in block %u, offset %d.",
							 p->blkno, pos + 1);
	}
}

/* Checks a child and what follows it, up to the next child that the page leads to. */
static void
check_item(MtpVerify *v, MtpVerifyPage *p, int pos, MtpVerifyPage *scratch, MtpVerifyFault *f)
{
	MtpVerifyFault next;
	Bounds		b;

	check_downlink(v, p, pos, scratch, &b, f);
	if (f->found)
		return;
	check_child_chain(v, scratch, MtpVerifyHeadOf(p)->level - 1, &b, f);
	if (!f->found || pos + 1 >= MtpVerifyHeadOf(p)->nitems)
		return;

	/* It may be the next downlink that is wrong. */
	check_downlink(v, p, pos + 1, scratch, &b, &next);
	if (next.found)
		*f = next;
}

/*
 * Checks all children of an inner page.  If the page has changed in between, p becomes its new
 * copy, and the checks go on at the separator where they were.
 */
static void
check_children(MtpVerify *v, MtpVerifyPage *p, MtpVerifyPage *scratch)
{
	Page		page = MtpVerifyPageOf(p);
	MtpVerifyFault last = {0};
	int			strikes;
	int			pos = 0;

	while (pos < MtpHeader(page)->nitems)
	{
		MtpVerifyFault f;
		IndexTuple	low;
		MtpItemRoom room;
		int			att;

		check_item(v, p, pos, scratch, &f);
		if (!f.found)
		{
			pos++;
			last.found = false;
			continue;
		}
		read_page(v, scratch, p->blkno, p->blkno, false);
		if (MtpIsDeleted(MtpVerifyPageOf(scratch)))
		{
			memcpy(p, scratch, sizeof(*p));
			return;
		}
		mtp_blink_verify_page(v, scratch, MtpHeader(page)->level);
		if (same_downlinks(p, scratch))
		{
			mtp_verify_strike(v, &f, &last, &strikes);
			continue;
		}
		low = CopyIndexTuple(mtp_page_item(page, pos, &room));
		memcpy(p, scratch, sizeof(*p));
		for (pos = 0; pos < MtpHeader(page)->nitems; pos++)
			if (mtp_blink_verify_compare(v, mtp_page_item(page, pos, &room), low, &att) >= 0)
				break;
		pos = Max(pos - 1, 0);
		pfree(low);
	}
}

/* ---------- levels ---------- */

/* A walk along a level. */
typedef struct LevelWalk
{
	MtpVerifyPage *left;		/* the page to the left, if known */
	MtpVerifyPage *page;
	MtpVerifyPage *scratch;
	bool		known;
	MtpVerifyFault last;
	int			strikes;
} LevelWalk;

/*
 * Handles a contradiction between w->page and w->left.  Returns the block where the walk goes on:
 * the same page if there is reason to look again, else the page to which the left one leads now.
 */
static BlockNumber
doubt_page(MtpVerify *v, LevelWalk *w, const MtpVerifyFault *f)
{
	MtpVerifyPage *tmp = w->left;

	read_page(v, w->scratch, w->left->blkno, w->left->blkno, false);
	if (!MtpIsDeleted(MtpVerifyPageOf(w->scratch)))
		mtp_blink_verify_page_sane(v, w->scratch);
	if (same_edge(w->left, w->scratch))
	{
		mtp_verify_strike(v, f, &w->last, &w->strikes);
		return w->page->blkno;
	}
	w->last.found = false;
	w->left = w->scratch;
	w->scratch = tmp;
	w->known = !MtpIsDeleted(MtpVerifyPageOf(w->left)) &&
		MtpVerifyHeadOf(w->left)->level == MtpVerifyHeadOf(tmp)->level;

	/* A deleted page's right link leads to where its key range went, or further left. */
	return MtpVerifyHeadOf(w->left)->right;
}

/*
 * Checks a level from its leftmost page on; returns the leftmost page of the level below.  A leaf
 * stays pinned while its entries are checked against the table.
 */
static BlockNumber
check_level(MtpVerify *v, uint32 level, BlockNumber start)
{
	MtpVerifyPage *pages = palloc(3 * sizeof(MtpVerifyPage));
	LevelWalk	w = {.left = &pages[0],.page = &pages[1],.scratch = &pages[2]};
	MemoryContext old = MemoryContextSwitchTo(v->context);
	BlockNumber blkno = start;
	BlockNumber from = MTP_BLINK_META;
	BlockNumber below = InvalidBlockNumber;
	BlockNumber seen = 0;
	bool		first = true;

	while (blkno != InvalidBlockNumber)
	{
		MtpVerifyPage *p = w.page;
		Page		page = MtpVerifyPageOf(p);
		MtpItemRoom room;
		MtpVerifyFault f;
		Buffer		pin;

		MemoryContextReset(v->context);
		pin = read_page(v, p, blkno, from, level == 0 && v->rows != NULL);

		/* A level's first page has nothing to its left, unless it was deleted meanwhile. */
		while (first && !MtpIsDeleted(page) && !MtpLeftmost(page))
		{
			mtp_verify_fault(&f, blkno, -1, "Leftmost page of level %u has a left sibling.", level);
			mtp_verify_strike(v, &f, &w.last, &w.strikes);
			read_page(v, p, blkno, blkno, false);
		}
		f.found = false;
		if (w.known)
			check_pair(v, w.left, p, &f);
		if (!f.found && !MtpIsDeleted(page))
		{
			mtp_blink_verify_page(v, p, level);
			if (level > 0)
				check_children(v, p, w.scratch);
			else if (BufferIsValid(pin))
				mtp_blink_verify_entries(v, p);
		}
		if (BufferIsValid(pin))
			ReleaseBuffer(pin);
		if (f.found)
		{
			blkno = doubt_page(v, &w, &f);
			from = w.left->blkno;
			continue;
		}
		w.known = !MtpIsDeleted(page);
		if (w.known && first && level > 0)
			below = BTreeTupleGetDownLink(mtp_page_item(page, 0, &room));
		first &= !w.known;

		/* More pages than there are can only be a circle. */
		if (++seen > v->nblocks && !mtp_verify_has_block(v, seen))
			mtp_verify_fail(v, blkno, -1, "Right links form a circle.");
		from = blkno;
		blkno = MtpHeader(page)->right;
		w.page = w.left;
		w.left = p;
		w.last.found = false;
	}
	MemoryContextSwitchTo(old);
	pfree(pages);
	if (below == InvalidBlockNumber && level > 0)
		mtp_verify_fail(v, start, -1, "Level %u has no pages.", level);
	return below;
}

/* ---------- the whole tree ---------- */

/* Reads and checks the metapage; false if the tree is empty. */
static bool
check_meta(MtpVerify *v, BlockNumber *root, uint32 *level)
{
	PGAlignedBlock copy;
	Page		page = copy.data;
	MtpBlinkMeta *meta = MtpBlinkMetaOf(page);
	const char *what;
	Buffer		buf;
	int			at;

	if (!mtp_verify_has_block(v, MTP_BLINK_META))
		mtp_verify_fail(v, MTP_BLINK_META, -1, "Index has no metapage.");
	v->blkno = MTP_BLINK_META;
	buf = ReadBufferExtended(v->rel, MAIN_FORKNUM, MTP_BLINK_META, RBM_NORMAL, NULL);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);

	if (PageIsNew(page))
		mtp_verify_fail(v, MTP_BLINK_META, -1, "Metapage is zero.");
	what = mtp_page_fault(page, &at);
	if (what)
		mtp_verify_fail(v, MTP_BLINK_META, at, "The %s.", what);
	if (MtpHeader(page)->type != MTP_PAGE_META || meta->magic != MTP_BLINK_MAGIC)
		mtp_verify_fail(v, MTP_BLINK_META, -1, "Metapage is not one of mtpower_blink.");
	if (meta->version != MTP_BLINK_VERSION)
		mtp_verify_fail(v, MTP_BLINK_META, -1, "File version is %u, current version is %u.",
						meta->version, MTP_BLINK_VERSION);
	if (meta->marks & ~MTP_BLINK_MARKS)
		mtp_verify_fail(v, MTP_BLINK_META, -1, "Metapage has impossible marks, %u.", meta->marks);
	v->lists = (meta->marks & MTP_BLINK_LISTS) != 0;
	*root = meta->root;
	*level = meta->level;
	if (*root != InvalidBlockNumber &&
		(*level >= MTP_BLINK_HEIGHT || !mtp_verify_has_block(v, *root)))
		mtp_verify_fail(v, MTP_BLINK_META, -1, "Metapage leads to root block %u on level %u.",
						*root, *level);
	return *root != InvalidBlockNumber;
}

/* The root must be alone on its level, but for the pages of an incomplete split. */
void
mtp_blink_verify(MtpVerify *v)
{
	MtpVerifyPage p;
	Page		page = MtpVerifyPageOf(&p);
	MtpVerifyFault f;
	MtpVerifyFault last = {0};
	int			strikes;
	BlockNumber root;
	uint32		level;

	while (check_meta(v, &root, &level))
	{
		BlockNumber again;
		uint32		again_level;

		read_page(v, &p, root, MTP_BLINK_META, false);
		if (MtpIsDeleted(page) || MtpHeader(page)->level != level)
			mtp_verify_fault(&f, MTP_BLINK_META, -1,
							 "Metapage leads to block %u, which is not on level %u.", root, level);
		else if (!MtpRightmost(page) && !MtpIncomplete(page))
			mtp_verify_fault(&f, root, -1, "Root page has a sibling.");
		else
		{
			do
				root = check_level(v, level, root);
			while (level-- > 0);
			return;
		}
		if (check_meta(v, &again, &again_level) && again == root)
			mtp_verify_strike(v, &f, &last, &strikes);
	}
}
