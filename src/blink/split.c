/*
 * split.c
 *	  Splits a page with the items that come for it K ways, and tells the parent.
 *
 * MTPower's split: W = items there + items that come, K = the pages that W fills, K - 1 new pages.
 * All items are distributed anew, the parent gets K - 1 pointers, and the recursion goes upward.
 * Under WAL this takes two records (README, "Splits").  The first makes the K pages, which right
 * links reach.  The second posts the downlinks and clears the flags that tell of their absence.
 */
#include "blink/split.h"

#include "blink/wal_records.h"
#include "core/inject.h"
#include "miscadmin.h"

/* A page that is about to be split, and what becomes of it. */
typedef struct Split
{
	MtpBlinkPut *put;
	Page		orig;
	MtpCuts		plan;			/* its items, old and new, equal keys merged; and its pages */
	int		   *ends;			/* items[i] and those before are made of so many; or NULL: i + 1 */
	int			nnew;			/* the new ones, as they came, … */
	const uint16 *pos;
	IndexTuple *new;
	uint8	   *same;			/* … and which of all are merged */
	Buffer		bufs[MTP_BLINK_MAX_K];
	Page		pages[MTP_BLINK_MAX_K]; /* their images, in private memory */
	char	   *narrows[MTP_BLINK_MAX_K];	/* what the record says of narrow items, … */
	Size		nnarrows[MTP_BLINK_MAX_K];	/* … in so many bytes */
	IndexTuple	pivots[MTP_BLINK_MAX_K];	/* [i] separates page i from page i - 1 */
} Split;

/*
 * Merges the page's items and the n new ones, which go to pos[], into the plan's.  On a leaf equal
 * keys become lists; if that is turned off, only what overlaps does, so that cuts separate entries
 * (invariant B15).
 */
static void
merge_items(Split *s, int n, const uint16 *pos, IndexTuple *items)
{
	Relation	rel = s->put->rel;

	s->nnew = n;
	s->pos = pos;
	s->new = items;
	s->plan.items = palloc((MtpHeader(s->orig)->nitems + n) * sizeof(IndexTuple));
	s->plan.n = mtp_page_all_items(s->orig, n, pos, items, s->plan.items);
	s->ends = NULL;
	s->same = palloc0(MTP_SAME_BYTES(s->plan.n));
	if (!MtpIsLeaf(s->orig) || mtp_blink_info(rel)->lists == 0)
		return;
	if (s->put->lists)
		(void) mtp_blink_same_keys(rel, s->plan.n, s->plan.items, s->same);
	else
		(void) mtp_blink_overlaps(rel, s->plan.n, s->plan.items, n, pos, s->same);
	s->plan.items = mtp_list_merge(s->plan.items, &s->plan.n, s->same, MTP_LIST_ROOM, &s->ends);
	if (s->plan.items == NULL)
		mtp_blink_fail_page(rel, s->orig, "list of TIDs is damaged");
}

/*
 * Two kinds of pages see few items to come and are packed: one that grows at its end, and all below
 * the rest of a batch.
 */
static void
plan_pages(Split *s)
{
	s->plan.rel = s->put->rel;
	s->plan.orig = s->orig;
	s->plan.code = mtp_page_code(MtpHeader(s->orig)->type, mtp_blink_info(s->put->rel)->norm);
	s->plan.nnew = s->nnew;
	s->plan.pack = s->pos[0] == MtpHeader(s->orig)->nitems || s->put->more;

	/* The record has the children as well, and the right sibling (publish_pages). */
	StaticAssertStmt(6 + 3 * (MTP_BLINK_MAX_K - 1) <= MTP_CHANGE_CHUNKS, "a record has K pages");
	s->plan.max = Min(MTP_BLINK_MAX_K, MTP_CHANGE_BUFFERS - 1 - s->put->nchildren);
	mtp_blink_plan_cuts(&s->plan);
}

/* Makes a pivot of a high key: it leads to blkno. */
static IndexTuple
make_pivot(IndexTuple highkey, BlockNumber blkno)
{
	IndexTuple	pivot = CopyIndexTuple(highkey);

	BTreeTupleSetDownLink(pivot, blkno);
	return pivot;
}

/*
 * Which of a page's items are narrow, a bit for each, and these ones' heads, for the record;
 * palloc'd.  *bytes gets the size, 0 if none can be.
 */
static char *
narrow_items(Page page, Size *bytes)
{
	MtpPageHeader *h = MtpHeader(page);
	char	   *bits;
	int			rank = 0;

	*bytes = 0;
	if ((h->norm & MTP_NORM_CUT) == 0)
		return NULL;
	*bytes = MTP_SAME_BYTES(h->nitems);
	bits = palloc0(*bytes + h->nitems * sizeof(uint32));
	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++, rank++)
		{
			const MtpNode *node = &MtpNodes(page)[i];

			if (!mtp_off_narrow(h->norm, node->offs[j]))
				continue;
			bits[rank / 8] |= 1 << (rank % 8);
			memcpy(bits + *bytes, &node->heads[j], sizeof(uint32));
			*bytes += sizeof(uint32);
		}
	return bits;
}

/*
 * Allocates the K - 1 new pages, exclusively locked, and makes the images of all K: links, flags,
 * high keys and items.  All this may fail; no page of the tree has changed yet (invariant B2).
 */
static void
make_pages(Split *s)
{
	Relation	rel = s->put->rel;
	MtpPageHeader *oh = MtpHeader(s->orig);
	bool		leaf = oh->type == MTP_PAGE_LEAF;
	BTScanInsert itup_key = leaf ? _bt_mkscankey(rel, NULL) : NULL;
	BTCycleId	cycleid;
	char	   *images = palloc(s->plan.k * BLCKSZ);

	if (itup_key)
		itup_key->heapkeyspace = true;
	if (s->plan.k > 1)
		MTP_INJECT("split_begins");
	for (int i = 1; i < s->plan.k; i++)
	{
		IndexTuple	right = s->plan.items[s->plan.cuts[i]];

		s->pivots[i] = leaf ?
			mtp_blink_truncate(rel, s->plan.items[s->plan.cuts[i] - 1], right, itup_key) :
			CopyIndexTuple(right);
		s->bufs[i] = mtp_blink_alloc(rel);
	}

	/*
	 * The cycle id is asked for behind the allocation (invariant B11).  A VACUUM that began before
	 * a page was allocated and locked may have passed its block, and must be told to come back.
	 */
	cycleid = s->plan.k == 1 ? oh->cycleid : leaf ? _bt_vacuum_cycleid(rel) : 0;
	for (int i = 0; i < s->plan.k; i++)
	{
		Page		page = images + i * BLCKSZ;
		MtpPageHeader *h = MtpHeader(page);
		bool		last = i == s->plan.k - 1;

		s->pages[i] = page;
		mtp_page_init(page, oh->type, oh->level, s->plan.code);
		h->left = i == 0 ? oh->left : BufferGetBlockNumber(s->bufs[i - 1]);
		h->right = last ? oh->right : BufferGetBlockNumber(s->bufs[i + 1]);
		h->cycleid = cycleid;
		/* No right sibling but the last page's has a downlink yet (B4). */
		h->flags = s->plan.k == 1 ? oh->flags & ~MTP_HAS_DEAD :
			last ? (oh->flags & MTP_INCOMPLETE) : MTP_INCOMPLETE;
		if (i > 0)
			s->pivots[i] = make_pivot(s->pivots[i], BufferGetBlockNumber(s->bufs[i]));
		if (i > 0 && !leaf)
			s->plan.items[s->plan.cuts[i]] = mtp_blink_first_item(s->plan.items[s->plan.cuts[i]]);
	}
	for (int i = 0; i < s->plan.k; i++)
	{
		IndexTuple	high = i < s->plan.k - 1 ? s->pivots[i + 1] :
		oh->highkey ? MtpHighKey(s->orig) : NULL;

		mtp_page_pack(s->pages[i], s->plan.cuts[i + 1] - s->plan.cuts[i],
					  s->plan.items + s->plan.cuts[i], high);
		if (i > 0)
			s->narrows[i] = narrow_items(s->pages[i], &s->nnarrows[i]);
	}
}

/* What the record says of the left page: how it is made of the old one. */
typedef struct Left
{
	MtpWalLeft	rec;
	int			nsame;
	char	   *items;
	Size		bytes;
	IndexTuple	high;			/* NULL: none */
} Left;

/* May fail, so it comes before the critical section (invariant B2). */
static void
describe_left(Split *s, Left *left)
{
	MtpPageHeader *h = MtpHeader(s->pages[0]);
	int			count = s->plan.cuts[1];
	int			of = count == 0 ? 0 : s->ends != NULL ? s->ends[count - 1] : count;
	int			n = 0;

	while (n < s->nnew && s->pos[n] + n < of)
		n++;
	left->rec = (MtpWalLeft)
	{
		.nold = of - n,.nnew = n,.count = count,.flags = h->flags,.cycleid = h->cycleid,
			.has_high = h->highkey != 0,.norm = h->norm
	};
	left->nsame = MTP_SAME_BYTES(of);
	left->items = NULL;
	left->bytes = 0;
	if (n > 0)
		left->items = mtp_blink_flatten(h->norm, n, s->new, &left->bytes);
	left->high = h->highkey != 0 ? MtpHighKey(s->pages[0]) : NULL;

#ifdef USE_ASSERT_CHECKING
	{
		/* Replay makes the same page. */
		Page		image = mtp_page_left(s->orig, h->norm, of - n, n, s->pos, s->new, s->same,
										  count, left->high);

		Assert(image != NULL);
		MtpHeader(image)->right = h->right;
		MtpHeader(image)->flags = h->flags;
		MtpHeader(image)->cycleid = h->cycleid;
		Assert(memcmp(MtpHeader(image), h, BLCKSZ - MTP_HEADER_AT) == 0);
	}
#endif
}

/*
 * Puts the K images in place, with one record over these pages, the old right sibling (rbuf, or
 * InvalidBuffer) and the children.  All of them are locked exclusively.  The record has the new
 * pages whole, and of the left one what makes it of the old one.
 *
 * The order is from right to left: no page leads to one that is not there yet (invariant B3).
 */
static void
publish_pages(Split *s, Buffer rbuf)
{
	MtpChange	c;
	MtpWalSplit rec = {.k = s->plan.k,.has_right = BufferIsValid(rbuf)};
	MtpBlinkPut *put = s->put;
	Left		left;

	describe_left(s, &left);
	PageSetLSN(s->pages[0], PageGetLSN(s->orig));	/* it tells whether the record needs an image */
	mtp_change_init(&c, put->rel, MTP_WAL_SPLIT);
	for (int i = 0; i < s->plan.k; i++)
		mtp_change_buffer(&c, s->bufs[i],
						  i == 0 ? REGBUF_STANDARD : REGBUF_WILL_INIT | REGBUF_STANDARD);
	if (BufferIsValid(rbuf))
		mtp_change_buffer(&c, rbuf, REGBUF_STANDARD);
	for (int i = 0; i < put->nchildren; i++)
		mtp_change_buffer(&c, put->children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;

	/* A crash before the record leaves K - 1 pages that belong to nothing: VACUUM finds them. */
	mtp_change_begin(&c);
	if (BufferIsValid(rbuf))
		MtpHeader(BufferGetPage(rbuf))->left = BufferGetBlockNumber(s->bufs[s->plan.k - 1]);
	for (int i = s->plan.k - 1; i >= 0; i--)
	{
		Assert(i == s->plan.k - 1 ||
			   MtpHeader(BufferGetPage(s->bufs[i + 1]))->left == BufferGetBlockNumber(s->bufs[i]));
		memcpy(BufferGetPage(s->bufs[i]), s->pages[i], BLCKSZ);
	}
	for (int i = 0; i < put->nchildren; i++)
		MtpHeader(BufferGetPage(put->children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, &left.rec, sizeof(left.rec));
	mtp_change_bufdata(&c, 0, s->pos, left.rec.nnew * sizeof(uint16));
	mtp_change_bufdata(&c, 0, s->same, left.nsame);
	if (left.high != NULL)
		mtp_change_bufdata(&c, 0, left.high, MAXALIGN(IndexTupleSize(left.high)));
	if (left.items != NULL)
		mtp_change_bufdata(&c, 0, left.items, left.bytes);
	for (int i = 1; i < s->plan.k; i++)
	{
		PageHeader	ph = (PageHeader) s->pages[i];

		mtp_change_bufdata(&c, i, MtpHeader(s->pages[i]), sizeof(MtpPageHeader));
		mtp_change_bufdata(&c, i, s->pages[i] + ph->pd_upper, ph->pd_special - ph->pd_upper);
		mtp_change_bufdata(&c, i, s->narrows[i], s->nnarrows[i]);
	}
	mtp_change_finish(&c);
}

/*
 * Posts the downlinks of bufs[1 .. k - 1], whose left neighbours in bufs[] are flagged, and clears
 * the flags: in the parent, which may be split in turn, or in a new root.  The pivots separate the
 * pages.  All bufs[] are locked exclusively, and stay so: no process meets a flag of a split that
 * is under way.  Raises ERRCODE_INDEX_CORRUPTED if no page leads to bufs[0].
 */
static void
post_downlinks(MtpBlinkPut *put, int k, Buffer *bufs, IndexTuple *pivots)
{
	MtpBlinkPut up = {.rel = put->rel,.stack = put->stack};
	uint32		level = MtpHeader(BufferGetPage(bufs[0]))->level + 1;
	uint16		pos[MTP_BLINK_MAX_K];
	uint64		norms[MTP_BLINK_MAX_K];
	Buffer		parent;
	Buffer		meta = InvalidBuffer;
	int			at;

	/*
	 * Only a leftmost page can be the root; the metapage tells.  It is locked after all pages of
	 * the tree, here as in mtp_blink_make_root, which holds none.
	 */
	if (MtpLeftmost(BufferGetPage(bufs[0])))
		meta = mtp_blink_read_meta(put->rel, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(meta) &&
		MtpBlinkMetaOf(BufferGetPage(meta))->root != BufferGetBlockNumber(bufs[0]))
		UnlockReleaseBuffer(meta);
	else if (BufferIsValid(meta))
	{
		/* The page is the root, and the metapage's lock keeps it that. */
		int			done = mtp_blink_new_root(put->rel, meta, level, k, bufs, pivots);

		if (done == k)
			return;

		/* The root is a parent now.  The last page that it leads to is the first of the rest. */
		MTP_INJECT("root_full");
		k -= done - 1;
		bufs += done - 1;
		pivots += done - 1;
	}

	/*
	 * An error from here on, as a crash does, leaves a whole tree with flags, and the next writer
	 * that comes by finishes the split (invariant B4).
	 */
	parent = mtp_blink_parent(put->rel, put->stack, level, pivots[1],
							  BufferGetBlockNumber(bufs[0]), &at);
	if (!BufferIsValid(parent))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("failed to re-find parent key in index \"%s\" for block %u",
						RelationGetRelationName(put->rel), BufferGetBlockNumber(bufs[0]))));

	/* The downlink must not be there yet: if it is, the left page's flag is damage. */
	if (at + 1 < MtpHeader(BufferGetPage(parent))->nitems &&
		mtp_blink_downlink(put->rel, BufferGetPage(parent), at + 1) ==
		BufferGetBlockNumber(bufs[1]))
		mtp_blink_fail_page(put->rel, BufferGetPage(bufs[0]),
							"page is marked as split, but its right sibling has a downlink");
	Assert(k > 1);
	for (int i = 1; i < k; i++)
	{
		pos[i - 1] = at + 1;
		norms[i - 1] = mtp_norm_tuple(MtpHeader(BufferGetPage(parent))->norm, pivots[i]);
	}

	/* The last page keeps its flag, if it has one: it tells of its own right sibling. */
	up.nchildren = k - 1;
	up.children = bufs;
	mtp_blink_put(&up, parent, k - 1, pos, pivots + 1, norms);
}

void
mtp_blink_split(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items)
{
	Page		page = BufferGetPage(buf);
	Split		s = {.put = put,.orig = page};
	Buffer		rbuf = InvalidBuffer;

	/* The images come first, so that the right sibling is locked as briefly as possible. */
	merge_items(&s, n, pos, items);
	plan_pages(&s);
	s.bufs[0] = buf;
	make_pages(&s);
	if (s.plan.k > 1 && !MtpRightmost(s.orig))
	{
		rbuf = mtp_blink_read_link(put->rel, MtpHeader(s.orig)->right, MtpHeader(s.orig)->level,
								   BUFFER_LOCK_EXCLUSIVE);
		if (MtpHeader(BufferGetPage(rbuf))->left != BufferGetBlockNumber(buf))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("right sibling's left link doesn't match in index \"%s\": "
							"block %u links to %u instead of %u",
							RelationGetRelationName(put->rel), BufferGetBlockNumber(rbuf),
							MtpHeader(BufferGetPage(rbuf))->left, BufferGetBlockNumber(buf))));

		/* VACUUM stops following this split where another one's pages begin (invariant B11). */
		if (MtpHeader(BufferGetPage(rbuf))->cycleid != MtpHeader(s.pages[0])->cycleid)
			MtpHeader(s.pages[s.plan.k - 1])->flags |= MTP_SPLIT_END;
	}
	publish_pages(&s, rbuf);
	put->k = s.plan.k;
	if (BufferIsValid(rbuf))
		UnlockReleaseBuffer(rbuf);
	if (s.plan.k > 1)
		MTP_INJECT(MtpIsLeaf(s.pages[0]) ? "leaf_split" : "inner_split");

	/* All K pages are still locked, so no other process meets their flags (invariant B4). */
	if (s.plan.k > 1)
		post_downlinks(put, s.plan.k, s.bufs, s.pivots);
	for (int i = 0; i < s.plan.k; i++)
		UnlockReleaseBuffer(s.bufs[i]);
}

void
mtp_blink_finish_split(Relation rel, Buffer left, MtpBlinkStack *stack)
{
	Page		page = BufferGetPage(left);
	MtpBlinkPut put = {.rel = rel,.stack = stack};
	Buffer		bufs[2];
	IndexTuple	pivots[2] = {NULL, NULL};

	Assert(MtpIncomplete(page));

	/* With both locked, nobody else posts this downlink, or splits the right page meanwhile. */
	bufs[0] = left;
	bufs[1] = mtp_blink_read_link(rel, MtpHeader(page)->right, MtpHeader(page)->level,
								  BUFFER_LOCK_EXCLUSIVE);
	pivots[1] = make_pivot(MtpHighKey(page), BufferGetBlockNumber(bufs[1]));
	elog(DEBUG1, "finishing incomplete split of index \"%s\" at block %u",
		 RelationGetRelationName(rel), BufferGetBlockNumber(left));
	MTP_INJECT("split_repair");
	post_downlinks(&put, 2, bufs, pivots);
	pfree(pivots[1]);
	UnlockReleaseBuffer(bufs[1]);
	UnlockReleaseBuffer(left);
}
