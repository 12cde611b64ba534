/*
 * split.c
 *	  Puts items on a page; where they don't fit, splits it K ways and tells the parent.
 *
 * MTPower's split: W = items there + items coming, K = the pages that W fills, K - 1 new pages, all
 * items distributed anew, K - 1 pointers for the parent, recursion upward.  Under WAL it takes two
 * records (README, "Splits"): the first makes the K pages, reachable by right links; the second
 * posts the downlinks and clears the flags that tell of their absence.
 */
#include "blink/blink.h"

#include "access/xloginsert.h"
#include "blink/wal_records.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "core/inject.h"

/* A page about to be split, and what becomes of it. */
typedef struct Split
{
	MtpBlinkPut *put;
	Page		orig;
	bool		append;			/* all new items behind the old ones */
	int			n;				/* merged items */
	IndexTuple *items;
	int			k;
	int			cuts[MTP_BLINK_MAX_K + 1];	/* page i gets items cuts[i] .. cuts[i + 1] - 1 */
	Buffer		bufs[MTP_BLINK_MAX_K];
	Page		pages[MTP_BLINK_MAX_K];
	IndexTuple	pivots[MTP_BLINK_MAX_K];	/* [i]: separates page i from page i - 1 */
} Split;

static void put_items(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items,
					  uint64 *norms, int nchildren, Buffer *children);

/*
 * The plain case: everything fits.  One record over the page and the children whose flags the
 * items, their right siblings' downlinks, clear.
 */
static void
put_in_place(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms,
			 int nchildren, Buffer *children)
{
	MtpChange	c;
	MtpWalInsert rec = {.nitems = n};
	char	   *flat = NULL;
	Size		bytes = 0;
	PGAlignedBlock small;

	mtp_change_init(&c, put->rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	for (int i = 0; i < nchildren; i++)
		mtp_change_buffer(&c, children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;
	if (c.logged && n > 1)
	{
		for (int i = 0; i < n; i++)
			bytes += MAXALIGN(IndexTupleSize(items[i]));
		flat = bytes <= BLCKSZ ? small.data : palloc(bytes);
		bytes = 0;
		for (int i = 0; i < n; i++)
		{
			memcpy(flat + bytes, items[i], IndexTupleSize(items[i]));
			bytes += MAXALIGN(IndexTupleSize(items[i]));
		}
	}
	else if (c.logged)
	{
		flat = (char *) items[0];
		bytes = IndexTupleSize(items[0]);
	}

	mtp_change_begin(&c);
	mtp_page_insert(BufferGetPage(buf), n, pos, items, norms);
	for (int i = 0; i < nchildren; i++)
		MtpHead(BufferGetPage(children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, pos, n * sizeof(uint16));
	mtp_change_bufdata(&c, 0, flat, bytes);
	mtp_change_finish(&c);

	UnlockReleaseBuffer(buf);
	if (flat != NULL && flat != small.data && n > 1)
		pfree(flat);
}

/* Old and new items in key order. */
static void
merge(Split *s, int n, const uint16 *pos, IndexTuple *items)
{
	int			nold = MtpHead(s->orig)->nitems;
	IndexTuple *old = palloc(Max(nold, 1) * sizeof(IndexTuple));
	int			next = 0;

	mtp_page_items(s->orig, old);
	s->items = palloc((nold + n) * sizeof(IndexTuple));
	s->n = 0;
	for (int i = 0; i < nold; i++)
	{
		while (next < n && pos[next] == i)
			s->items[s->n++] = items[next++];
		s->items[s->n++] = old[i];
	}
	while (next < n)
		s->items[s->n++] = items[next++];
	s->append = pos[0] == nold;
	pfree(old);
}

/* Bytes of item `at` on a page that begins with item `from`: an inner page's first item keeps its downlink only. */
static Size
bytes_on_page(Split *s, int from, int at)
{
	if (at == from && MtpIsInner(s->orig))
		return MAXALIGN(sizeof(IndexTupleData));
	return MAXALIGN(IndexTupleSize(s->items[at]));
}

/* Do items from .. to - 1, of so many bytes there, and a high key made from item `to`, fit on one page? */
static bool
range_fits(Split *s, int from, int to, Size bytes)
{
	IndexTuple	high = to < s->n ? s->items[to] :
	MtpHead(s->orig)->highkey ? MtpHighKey(s->orig) : NULL;

	if (high != NULL)
		bytes += MAXALIGN(IndexTupleSize(high)) +
			(to < s->n && MtpIsLeaf(s->orig) ? MAXALIGN(sizeof(ItemPointerData)) : 0);
	return mtp_page_need(to - from, bytes) <= MTP_PAGE_ROOM;
}

/*
 * Distributes the items over k pages by their bytes.  The shares are equal; or, where the page grows
 * at its end or more items will follow, the left pages get `full` bytes, and the last one what is
 * left.  False if k pages are too few.
 */
static bool
distribute(Split *s, int k, Size total, Size full)
{
	int			at = 0;
	Size		left = total;

	for (int p = 0; p < k; p++)
	{
		int			from = at;
		Size		room = 0;
		Size		bytes = 0;
		Size		target = p == k - 1 ? left : full ? Min(full, left) : left / (k - p);

		s->cuts[p] = at;
		while (at < s->n - (k - 1 - p))
		{
			Size		r = MTP_ITEM_ROOM(s->items[at]);
			Size		more = bytes_on_page(s, from, at);

			if (at > from &&
				((p < k - 1 && room + r / 2 > target) || !range_fits(s, from, at + 1, bytes + more)))
				break;
			bytes += more;
			room += r;
			at++;
		}
		left -= room;
	}
	s->cuts[k] = s->n;
	s->k = k;
	return at == s->n;
}

/*
 * Three children and keys so wide that a page has room for two: one page gets one of them, and takes the next key that comes there
 * without a split.  No rule knows which page that will be, and one that is wrong each time would leave pages of one child behind,
 * and a level as long as the one below it: so chance decides.
 */
static bool
distribute_three(Split *s, Size total)
{
	return distribute(s, 2, total, pg_prng_bool(&pg_global_prng_state) ? 1 : total);
}

static void
plan(Split *s, int n)
{
	int			percent = MtpIsLeaf(s->orig) ? mtp_blink_fillfactor(s->put->rel) : BTREE_NONLEAF_FILLFACTOR;
	Size		fill = MTP_FILL_ROOM(percent);
	Size		total = 0;
	bool		pack = s->append || s->put->more;
	Size		most = pack ? fill : Min(fill + fill / 16, MTP_FILL_ROOM(100));
	int			max = Min(s->n, MTP_BLINK_MAX_K);
	int			k;

	for (int i = 0; i < s->n; i++)
		total += MTP_ITEM_ROOM(s->items[i]);
	if (n == 1 && s->n == 3 && MtpIsInner(s->orig) && distribute_three(s, total))
		return;

	/*
	 * One more item halves the page, and so leaves room for those to come; a page that grows at
	 * its end won't see any, nor do the pages below the rest of a batch.  A batch fills its pages,
	 * and elsewhere a little more than the fill factor if that saves one: as many entries again as
	 * a packed page has, new versions of its rows, make two pages.  On the average a page keeps
	 * two items, whatever the fill factor: with one child each, levels would never get smaller.
	 */
	if (n == 1)
		k = 2;
	else
		k = Max(2, Min((total + most - 1) / most, Min(MTP_BLINK_USUAL_K, s->n / 2)));
	while (!(pack && distribute(s, k, total, fill)) && !distribute(s, k, total, 0))
		if (++k > max)
		{
			/* Shares went wrong, by large items in bad places: filling each page must do. */
			if (distribute(s, max, total, total))
				break;
			elog(ERROR, "too many items for one split of index \"%s\"",
				 RelationGetRelationName(s->put->rel));
		}
}

/* A pivot that leads to blkno. */
static IndexTuple
make_pivot(IndexTuple highkey, BlockNumber blkno)
{
	IndexTuple	pivot = CopyIndexTuple(highkey);

	BTreeTupleSetDownLink(pivot, blkno);
	return pivot;
}

/* An inner page's first item: minus infinity, with its downlink. */
static IndexTuple
make_first(IndexTuple item)
{
	IndexTuple	first = palloc0(sizeof(IndexTupleData));

	first->t_tid = item->t_tid;
	first->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(first, 0, false);
	return first;
}

/* Allocates the new pages and gives all pages their places in the chain, flags and high keys. */
static void
make_pages(Split *s)
{
	Relation	rel = s->put->rel;
	MtpPageHeader *oh = MtpHead(s->orig);
	bool		leaf = oh->type == MTP_PAGE_LEAF;
	BTScanInsert itup_key = leaf ? _bt_mkscankey(rel, NULL) : NULL;
	BTCycleId	cycleid;
	char	   *images = palloc(s->k * BLCKSZ);

	if (itup_key)
		itup_key->heapkeyspace = true;
	MTP_INJECT("split_begins");
	for (int i = 1; i < s->k; i++)
	{
		IndexTuple	right = s->items[s->cuts[i]];

		s->pivots[i] = leaf ? _bt_truncate(rel, s->items[s->cuts[i] - 1], right, itup_key) :
			CopyIndexTuple(right);
		s->bufs[i] = mtp_blink_alloc(rel);
	}

	/*
	 * Only now: a VACUUM that began before a page was allocated, and locked, may have passed its
	 * block, and has to be told to come back.
	 */
	cycleid = leaf ? _bt_vacuum_cycleid(rel) : 0;
	for (int i = 0; i < s->k; i++)
	{
		Page		page = images + i * BLCKSZ;
		MtpPageHeader *h = MtpHead(page);
		bool		last = i == s->k - 1;

		s->pages[i] = page;
		mtp_page_init(page, oh->type, oh->level, oh->norm);
		h->left = i == 0 ? oh->left : BufferGetBlockNumber(s->bufs[i - 1]);
		h->right = last ? oh->right : BufferGetBlockNumber(s->bufs[i + 1]);
		h->cycleid = cycleid;
		h->flags = last ? (oh->flags & MTP_INCOMPLETE) : MTP_INCOMPLETE;
		if (i > 0)
			s->pivots[i] = make_pivot(s->pivots[i], BufferGetBlockNumber(s->bufs[i]));
		if (i > 0 && !leaf)
			s->items[s->cuts[i]] = make_first(s->items[s->cuts[i]]);
	}
	for (int i = 0; i < s->k; i++)
	{
		IndexTuple	high = i < s->k - 1 ? s->pivots[i + 1] :
		oh->highkey ? MtpHighKey(s->orig) : NULL;

		mtp_page_pack(s->pages[i], s->cuts[i + 1] - s->cuts[i], s->items + s->cuts[i], high);
	}
}

/*
 * Publishes the pages: one record over all of them, the old right sibling and the children.  All
 * pages are logged whole, so no full-page image is ever needed.
 */
static void
publish(Split *s, Buffer rbuf, int nchildren, Buffer *children)
{
	MtpChange	c;
	MtpWalSplit rec = {.k = s->k,.has_right = BufferIsValid(rbuf)};
	MtpBlinkPut *put = s->put;

	mtp_change_init(&c, put->rel, MTP_WAL_SPLIT);
	for (int i = 0; i < s->k; i++)
		mtp_change_buffer(&c, s->bufs[i], REGBUF_WILL_INIT | REGBUF_STANDARD);
	if (BufferIsValid(rbuf))
		mtp_change_buffer(&c, rbuf, REGBUF_STANDARD);
	for (int i = 0; i < nchildren; i++)
		mtp_change_buffer(&c, children[i], REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;

	mtp_change_begin(&c);
	if (BufferIsValid(rbuf))
		MtpHead(BufferGetPage(rbuf))->left = BufferGetBlockNumber(s->bufs[s->k - 1]);
	for (int i = s->k - 1; i >= 0; i--)
	{
		/* No page leads to one that is not there yet. */
		Assert(i == s->k - 1 ||
			   MtpHead(BufferGetPage(s->bufs[i + 1]))->left == BufferGetBlockNumber(s->bufs[i]));
		memcpy(BufferGetPage(s->bufs[i]), s->pages[i], BLCKSZ);
	}
	for (int i = 0; i < nchildren; i++)
		MtpHead(BufferGetPage(children[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	for (int i = 0; i < s->k; i++)
	{
		PageHeader	ph = (PageHeader) s->pages[i];

		mtp_change_bufdata(&c, i, MtpHead(s->pages[i]), sizeof(MtpPageHeader));
		mtp_change_bufdata(&c, i, s->pages[i] + ph->pd_upper, ph->pd_special - ph->pd_upper);
	}
	mtp_change_finish(&c);
}

/* Of k pages, how many does one page have room to lead to?  Two at least. */
static int
root_room(int k, IndexTuple *pivots)
{
	Size		bytes = MAXALIGN(sizeof(IndexTupleData));
	int			n;

	for (n = 1; n < k; n++)
	{
		bytes += MAXALIGN(IndexTupleSize(pivots[n]));
		if (mtp_page_need(n + 1, bytes) > MTP_PAGE_ROOM)
			break;
	}
	return n;
}

/*
 * Makes a new root above the pages of a split root, or the first of them where the pivots of all are
 * too wide for a page; returns above how many.  meta is locked exclusively; releases it.
 */
static int
new_root(Relation rel, Buffer meta, uint32 level, int npages, Buffer *bufs, IndexTuple *pivots)
{
	int			k = root_room(npages, pivots);
	Buffer		rootbuf = mtp_blink_alloc(rel);
	BlockNumber root = BufferGetBlockNumber(rootbuf);
	Page		page = palloc(BLCKSZ);
	PageHeader	ph = (PageHeader) page;
	MtpWalNewRoot rec = {.root = root,.level = level};
	MtpChange	c;
	IndexTupleData first = {0};

	if (level >= MTP_BLINK_HEIGHT)
		elog(ERROR, "index \"%s\" has too many levels", RelationGetRelationName(rel));
	BTreeTupleSetDownLink(&first, BufferGetBlockNumber(bufs[0]));
	pivots[0] = make_first(&first);
	mtp_page_init(page, MTP_PAGE_INNER, level, mtp_blink_info(rel)->norm);
	MtpHead(page)->flags = MTP_ROOT;
	mtp_page_pack(page, k, pivots, NULL);

	mtp_change_init(&c, rel, MTP_WAL_NEWROOT);
	mtp_change_buffer(&c, meta, REGBUF_WILL_INIT | REGBUF_STANDARD);
	mtp_change_buffer(&c, rootbuf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	for (int i = 0; i < k - 1; i++)
		mtp_change_buffer(&c, bufs[i], REGBUF_STANDARD);
	mtp_change_begin(&c);
	mtp_blink_meta_init(BufferGetPage(meta), root, level);
	memcpy(BufferGetPage(rootbuf), page, BLCKSZ);
	for (int i = 0; i < k - 1; i++)
		MtpHead(BufferGetPage(bufs[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 1, MtpHead(page), sizeof(MtpPageHeader));
	mtp_change_bufdata(&c, 1, page + ph->pd_upper, ph->pd_special - ph->pd_upper);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(rootbuf);
	UnlockReleaseBuffer(meta);
	pfree(page);
	return k;
}

/* If the page is the root, returns the metapage exclusively locked. */
static Buffer
lock_meta_if_root(Relation rel, Buffer buf)
{
	Buffer		meta;

	if (!MtpLeftmost(BufferGetPage(buf)))
		return InvalidBuffer;
	meta = mtp_blink_read_meta(rel, BUFFER_LOCK_EXCLUSIVE);
	if (MtpBlinkMetaOf(BufferGetPage(meta))->root == BufferGetBlockNumber(buf))
		return meta;
	UnlockReleaseBuffer(meta);
	return InvalidBuffer;
}

/* The downlink that is going to be posted is not there yet; if it is, the left page's flag is damage. */
static void
check_missing(Relation rel, Buffer parent, int pos, Buffer left, Buffer buf)
{
	Page		page = BufferGetPage(parent);

	if (pos < MtpHead(page)->nitems &&
		BTreeTupleGetDownLink(mtp_blink_item_at(rel, page, pos)) == BufferGetBlockNumber(buf))
		mtp_blink_fail_page(rel, BufferGetPage(left), "page is marked as split, but its right sibling has a downlink");
}

/*
 * Posts the downlinks of bufs[1 .. k-1], whose left neighbours in bufs are flagged, and clears the
 * flags.  All bufs stay locked.
 */
static void
post(MtpBlinkPut *put, int k, Buffer *bufs, IndexTuple *pivots)
{
	MtpBlinkPut up = {.rel = put->rel,.stack = put->stack};
	uint32		level = MtpHead(BufferGetPage(bufs[0]))->level + 1;
	uint16		pos[MTP_BLINK_MAX_K];
	uint64		norms[MTP_BLINK_MAX_K];
	Buffer		parent;
	Buffer		meta = lock_meta_if_root(put->rel, bufs[0]);
	int			at;

	if (BufferIsValid(meta))
	{
		int			done = new_root(put->rel, meta, level, k, bufs, pivots);

		if (done == k)
			return;
		/* The root is a parent now; the last page that it leads to is the first of the rest. */
		MTP_INJECT("root_full");
		k -= done - 1;
		bufs += done - 1;
		pivots += done - 1;
	}
	parent = mtp_blink_parent(put->rel, put->stack, level, pivots[1],
							  BufferGetBlockNumber(bufs[0]), &at);
	if (!BufferIsValid(parent))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("failed to re-find parent key in index \"%s\" for block %u",
						RelationGetRelationName(put->rel), BufferGetBlockNumber(bufs[0]))));
	check_missing(put->rel, parent, at + 1, bufs[0], bufs[1]);
	for (int i = 1; i < k; i++)
	{
		pos[i - 1] = at + 1;
		norms[i - 1] = mtp_norm_tuple(MtpHead(BufferGetPage(parent))->norm, pivots[i]);
	}
	put_items(&up, parent, k - 1, pos, pivots + 1, norms, k - 1, bufs);
}

static void
split(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items,
	  int nchildren, Buffer *children)
{
	Split		s = {.put = put,.orig = BufferGetPage(buf)};
	Buffer		rbuf = InvalidBuffer;

	merge(&s, n, pos, items);
	plan(&s, n);
	s.bufs[0] = buf;
	make_pages(&s);
	if (!MtpRightmost(s.orig))
	{
		rbuf = mtp_blink_read_link(put->rel, MtpHead(s.orig)->right, MtpHead(s.orig)->level, BUFFER_LOCK_EXCLUSIVE);
		if (MtpHead(BufferGetPage(rbuf))->left != BufferGetBlockNumber(buf))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("right sibling's left link doesn't match in index \"%s\": block %u links to %u instead of %u",
							RelationGetRelationName(put->rel), BufferGetBlockNumber(rbuf),
							MtpHead(BufferGetPage(rbuf))->left, BufferGetBlockNumber(buf))));
		/* Lets VACUUM stop following this split where another one's pages begin. */
		if (MtpHead(BufferGetPage(rbuf))->cycleid != MtpHead(s.pages[0])->cycleid)
			MtpHead(s.pages[s.k - 1])->flags |= MTP_SPLIT_END;
	}
	publish(&s, rbuf, nchildren, children);
	put->k = s.k;
	if (BufferIsValid(rbuf))
		UnlockReleaseBuffer(rbuf);
	MTP_INJECT(MtpIsLeaf(s.pages[0]) ? "leaf_split" : "inner_split");
	post(put, s.k, s.bufs, s.pivots);
	for (int i = 0; i < s.k; i++)
		UnlockReleaseBuffer(s.bufs[i]);
}

static void
put_items(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms,
		  int nchildren, Buffer *children)
{
	Size		bytes = 0;
	MemoryContext old,
				cxt;

	put->k = 1;
	for (int i = 0; i < n; i++)
		bytes += MAXALIGN(IndexTupleSize(items[i]));
	if (mtp_page_insert_reads(BufferGetPage(buf), n, bytes))
		mtp_blink_check_items(put->rel, buf);
	if (mtp_page_fits(BufferGetPage(buf), n, bytes))
	{
		put_in_place(put, buf, n, pos, items, norms, nchildren, children);
		return;
	}
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower split", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	split(put, buf, n, pos, items, nchildren, children);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

Size
mtp_blink_put_limit(Relation rel, bool small)
{
	Size		page = MTP_FILL_ROOM(mtp_blink_fillfactor(rel));

	return Min(small ? MTP_BLINK_PUT_BYTES + MTP_PAGE_ROOM : MTP_BLINK_PUT_BYTES,
			   (MTP_BLINK_USUAL_K - 2) * page);
}

void
mtp_blink_put(MtpBlinkPut *put, Buffer buf, int n, uint16 *pos, IndexTuple *items, uint64 *norms)
{
	put_items(put, buf, n, pos, items, norms, 0, NULL);
}

void
mtp_blink_finish_split(Relation rel, Buffer left, MtpBlinkStack *stack)
{
	Page		page = BufferGetPage(left);
	MtpBlinkPut put = {.rel = rel,.stack = stack};
	Buffer		bufs[2];
	IndexTuple	pivots[2] = {NULL, NULL};

	Assert(MtpIncomplete(page));
	bufs[0] = left;
	bufs[1] = mtp_blink_read_link(rel, MtpHead(page)->right, MtpHead(page)->level, BUFFER_LOCK_EXCLUSIVE);
	pivots[1] = make_pivot(MtpHighKey(page), BufferGetBlockNumber(bufs[1]));
	elog(DEBUG1, "finishing incomplete split of index \"%s\" at block %u",
		 RelationGetRelationName(rel), BufferGetBlockNumber(left));
	MTP_INJECT("split_repair");
	post(&put, 2, bufs, pivots);
	pfree(pivots[1]);
	UnlockReleaseBuffer(bufs[1]);
	UnlockReleaseBuffer(left);
}

void
mtp_blink_make_root(Relation rel)
{
	Buffer		meta = mtp_blink_read_meta(rel, BUFFER_LOCK_EXCLUSIVE);
	Buffer		buf;
	Page		page;
	MtpWalNewRoot rec;
	MtpChange	c;

	if (MtpBlinkMetaOf(BufferGetPage(meta))->root != InvalidBlockNumber)
	{
		UnlockReleaseBuffer(meta);
		return;
	}
	buf = mtp_blink_alloc(rel);
	page = BufferGetPage(buf);
	rec.root = BufferGetBlockNumber(buf);
	rec.level = 0;
	mtp_change_init(&c, rel, MTP_WAL_NEWROOT);
	mtp_change_buffer(&c, meta, REGBUF_WILL_INIT | REGBUF_STANDARD);
	mtp_change_buffer(&c, buf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	mtp_change_begin(&c);
	mtp_page_init(page, MTP_PAGE_LEAF, 0, mtp_blink_info(rel)->norm);
	MtpHead(page)->flags = MTP_ROOT;
	mtp_blink_meta_init(BufferGetPage(meta), rec.root, 0);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 1, MtpHead(page), sizeof(MtpPageHeader));
	mtp_change_finish(&c);
	UnlockReleaseBuffer(buf);
	UnlockReleaseBuffer(meta);
}
