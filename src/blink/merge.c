/*
 * merge.c
 *	  Makes lists of a leaf's equal keys: to make room before the leaf would be split, and where new
 *	  entries fall between those of a list.
 *
 * The record says which neighbours are merged, since replay cannot compare values.  The rest is a
 * function of the page and the new items (mtp_page_merge).
 */
#include "blink/blink.h"

#include "blink/wal_records.h"
#include "utils/memutils.h"

/*
 * What a merge must gain, at least: less would bring the next entries back here one by one.
 */
#define LEAST_GAIN	(MTP_PAGE_ROOM / 16)

/*
 * Before an entry so many plain ones of its key make a list with it: to put one TID in a list takes
 * nearly as long as to put sixteen there.
 */
#define FOLD_AT		(MTP_LIST_JOIN - 1)

StaticAssertDecl(MTP_MAX_ITEMS <= MTP_INSERT_ITEMS, "a record's number of items has its bits");

/* Puts the image, which has the put's n items, in the page's place, with one record. */
static void
publish(MtpBlinkPut *put, Buffer buf, Page image, int n, const uint16 *pos,
		const IndexTuple *items, const uint8 *same)
{
	MtpWalInsert rec = {.nitems = n | MTP_INSERT_MERGES};
	Size		nsame = MTP_SAME_BYTES(MtpHeader(BufferGetPage(buf))->nitems + n);
	Size		bytes = 0;
	char	   *flat;
	MtpChange	c;

	mtp_change_init(&c, put->rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;
	flat = mtp_blink_flatten(MtpHeader(image)->norm, n, items, &bytes);
	PageSetLSN(image, PageGetLSN(BufferGetPage(buf)));	/* does the record need an image? */

	/*
	 * Items are where they were, or in a list of their key: a reader sees all of them or finds
	 * them.
	 */
	mtp_change_begin(&c);
	memcpy(BufferGetPage(buf), image, BLCKSZ);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, pos, n * sizeof(uint16));
	mtp_change_bufdata(&c, 0, same, nsame);
	mtp_change_bufdata(&c, 0, flat, bytes);
	mtp_change_finish(&c);
}

/* The least number of items for so many TIDs, whose differences take so many bytes. */
static inline int
lists_needed(int entries, int bytes)
{
	const int	most = MTP_LIST_BYTES - MTP_LIST_BITS_AT;

	return Max((entries + MTP_LIST_FULL - 1) / MTP_LIST_FULL, (bytes + most - 1) / most);
}

/*
 * How many items could go, at most: in a run of equal heads, which may be one key, those beyond
 * what its TIDs need.
 */
static int
count_spare(Page page)
{
	uint64		last = PG_UINT64_MAX;
	int			items = 0;
	int			entries = 0;
	int			bytes = 0;
	int			spare = 0;

	for (int i = 0; i < MtpHeader(page)->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
		{
			uint32		head = MtpNodes(page)[i].heads[j];
			IndexTuple	body = mtp_slot_body(page, i, j);

			if (head != last)
			{
				spare += items - lists_needed(entries, bytes);
				items = entries = bytes = 0;
			}
			last = head;
			items++;
			entries += mtp_item_entries(body);
			if (mtp_item_is_list(body))
				bytes += IndexTupleSize(body) - mtp_item_key_size(body) - MTP_LIST_BITS_AT;
		}
	return spare + items - lists_needed(entries, bytes);
}

void
mtp_blink_merge(Relation rel, Buffer buf, int n, const IndexTuple *items, const uint64 *norms)
{
	Page		page = BufferGetPage(buf);
	MtpBlinkPut put = {.rel = rel};
	int			nitems = MtpHeader(page)->nitems;
	MemoryContext old,
				cxt;
	IndexTuple *own;
	uint8	   *same;
	Page		image;

	if (mtp_page_body_bytes(page) * count_spare(page) < (Size) LEAST_GAIN * nitems)
		return;

	/* All items are read (invariant B14). */
	mtp_blink_check_items(rel, buf);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower merge", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	own = palloc(Max(nitems, 1) * sizeof(IndexTuple));
	same = palloc(MTP_SAME_BYTES(nitems));
	mtp_page_all_items(page, 0, NULL, NULL, own);
	image = mtp_blink_same_keys(rel, nitems, own, same) > 0 ?
		mtp_page_merge(page, 0, NULL, NULL, same) : NULL;
	if (image != NULL && mtp_page_fits(image, n, mtp_page_bytes(image, n, items, norms)) &&
		mtp_page_free(image) >= mtp_page_free(page) + LEAST_GAIN)
		publish(&put, buf, image, 0, NULL, NULL, same);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

int
mtp_blink_overlaps(Relation rel, int n, const IndexTuple *items, int nnew, const uint16 *pos,
				   uint8 *same)
{
	ItemPointerData last;		/* the highest TID of the key so far, … */
	bool		known = false;	/* … if an item that is there may come behind it */
	int			k = 0;
	int			found = 0;

	memset(same, 0, MTP_SAME_BYTES(n));
	for (int i = 0; i < n; i++)
	{
		bool		new = k < nnew && i == pos[k] + k;
		bool		inside;

		inside = known && ItemPointerCompare(BTreeTupleGetHeapTID(items[i]), &last) < 0 &&
			mtp_blink_same_key(rel, items[i - 1], items[i]);
		if (inside)
		{
			same[i / 8] |= 1 << (i % 8);
			found++;
		}
		k += new;
		if (new || inside || (k < nnew && i + 1 == pos[k] + k))
		{
			ItemPointerData tid = mtp_item_last_tid(items[i]);

			if (!inside || ItemPointerCompare(&tid, &last) > 0)
				last = tid;
			known = true;
		}
		else
			known = false;
	}
	return found;
}

/* The item of a slot if its head is `head`: else it has not the key that is looked for. */
static inline IndexTuple
item_with_head(Relation rel, Page page, const MtpPos *p, uint32 head, MtpItemRoom *room)
{
	if (MtpNodes(page)[p->node].heads[p->slot] != head)
		return NULL;
	return mtp_blink_item(rel, page, p->node, p->slot, room);
}

/* True if b, the item behind a, begins among a's TIDs. */
static bool
begins_inside(Relation rel, IndexTuple a, IndexTuple b)
{
	ItemPointerData last;

	if (!mtp_item_is_list(a) || !mtp_blink_same_key(rel, a, b))
		return false;
	last = mtp_item_last_tid(a);
	return ItemPointerCompare(BTreeTupleGetHeapTID(b), &last) < 0;
}

/*
 * True if one of the n new items falls between the TIDs of an item of its key, or the other way
 * round.  Looks at the items beside each place alone: those of the page don't overlap, nor do the
 * new ones.
 */
static bool
falls_inside(MtpBlinkPut *put, Page page, int n, const uint16 *pos, const IndexTuple *items,
			 const uint64 *norms)
{
	Relation	rel = put->rel;
	MtpPageHeader *h = MtpHeader(page);
	const uint8 *counts = MtpCounts(page);
	MtpPos		p = {0};

	if (put->place != NULL)
		p = *put->place;

	for (int i = 0; i < n; i++)
	{
		uint32		head = mtp_page_head(h, norms[i]);
		bool		first = i == 0 || pos[i - 1] != pos[i];
		bool		final = i == n - 1 || pos[i + 1] != pos[i];
		IndexTuple	beside;
		MtpItemRoom room;

		while (p.node < h->nnodes && pos[i] - p.pos >= counts[p.node] - p.slot)
		{
			p.pos += counts[p.node++] - p.slot;
			p.slot = 0;
		}
		p.slot += pos[i] - p.pos;
		p.pos = pos[i];
		if (final && p.pos < h->nitems &&
			(beside = item_with_head(rel, page, &p, head, &room)) != NULL &&
			begins_inside(rel, items[i], beside))
			return true;
		if (first)
		{
			MtpPos		before = p;

			if (mtp_pos_back(counts, &before) &&
				(beside = item_with_head(rel, page, &before, head, &room)) != NULL &&
				begins_inside(rel, beside, items[i]))
				return true;
		}
	}
	return false;
}

/* The items with an entry's key directly before its place */
typedef struct Run
{
	int			plain;			/* plain entries, behind … */
	bool		list;			/* … a list, if there is one */
	bool		dead;			/* one of them is marked dead as a whole */
	Size		bytes;			/* of their bodies */
} Run;

/*
 * The run, of as many items as may join.  Without an entry it tells equal heads alone: a glance for
 * those places, most of all, where no list will be made.
 */
static Run
run_before(MtpBlinkPut *put, Page page, MtpPos p, IndexTuple entry, uint32 head)
{
	Run			run = {0};
	MtpItemRoom room;

	while (!run.list && mtp_pos_back(MtpCounts(page), &p) &&
		   MtpNodes(page)[p.node].heads[p.slot] == head && mtp_slot_in_page(page, p.node, p.slot))
	{
		IndexTuple	body = mtp_slot_body(page, p.node, p.slot);

		run.list = mtp_item_is_list(body);
		if ((!run.list && run.plain == FOLD_AT) ||
			(entry != NULL &&
			 !mtp_blink_same_key(put->rel,
								 mtp_blink_item(put->rel, page, p.node, p.slot, &room), entry)))
		{
			run.list = false;
			break;
		}
		run.plain += !run.list;
		run.dead |= mtp_slot_dead(page, p.node, p.slot);
		run.bytes += mtp_body_size(MtpHeader(page)->norm, body);
	}
	return run;
}

/* True if an entry joins the run before its place: put_one. */
static bool
joins(MtpBlinkPut *put, const Run *run, bool inside)
{
	if (inside)
		return run->list && run->plain == 0;
	return put->lists && !run->dead &&
		(put->tight ? run->list || run->plain > 0 : run->plain >= FOLD_AT);
}

/* Puts n items in the place of the run, with a record that says how they were made. */
static void
replace_run(MtpBlinkPut *put, Buffer buf, const MtpWalSplice *splice, int n, IndexTuple *items,
			uint64 norm)
{
	Page		page = BufferGetPage(buf);
	int			first = splice->pos - splice->nold;
	MtpWalInsert rec = {.nitems = 1 | MTP_INSERT_SPLICES};
	MtpChange	c;

	/* A change that reads the page's items relies on them (invariant B14). */
	if (mtp_page_replace_reads(page, first, splice->nold, n, items, norm))
		mtp_blink_check_items(put->rel, buf);

	mtp_change_init(&c, put->rel, MTP_WAL_INSERT);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	c.progress = put->progress;
	c.progress_to = put->progress_to;
	mtp_change_begin(&c);
	mtp_page_replace(page, first, splice->nold, n, items, norm);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, splice, sizeof(*splice));
	mtp_change_finish(&c);
	UnlockReleaseBuffer(buf);
}

/*
 * Makes a list of the run before an entry's place and its TID; false if there is no room for it.
 * The rest of the page stays as it is.
 */
static bool
splice_in(MtpBlinkPut *put, Buffer buf, uint16 pos, const Run *run, IndexTuple entry, uint64 norm)
{
	Page		page = BufferGetPage(buf);
	MtpWalSplice splice = {.pos = pos,.nold = run->plain + run->list,.tid = entry->t_tid};
	uint64		norms[2] = {norm, norm};
	IndexTuple	made[2];
	int			n = mtp_page_join(page, pos - splice.nold, splice.nold, &splice.tid, made);
	int			nitems = MtpHeader(page)->nitems + n - splice.nold;
	Size		bytes = mtp_page_body_bytes(page) - run->bytes;
	bool		fits;

	bytes += mtp_page_bytes(page, n, made, norms);
	fits = n > 0 && mtp_page_need(nitems, bytes) <= MTP_PAGE_ROOM;
	if (fits)
		replace_run(put, buf, &splice, n, made, norm);
	for (int i = 0; i < n; i++)
		pfree(made[i]);
	return fits;
}

/*
 * One entry.  It joins the list in which it falls; or, with the plain entries before it, when they
 * are enough, the list before these, if there is one; or, where the page has no room for an item
 * more, whatever stands before it.  What is marked dead stays as it is: that will be deleted.
 */
static bool
put_one(MtpBlinkPut *put, Buffer buf, uint16 pos, IndexTuple entry, uint64 norm, bool inside)
{
	Page		page = BufferGetPage(buf);
	uint32		head = mtp_page_head(MtpHeader(page), norm);
	MtpPos		p = put->place != NULL ? *put->place : mtp_page_locate(page, pos);
	Run			run = run_before(put, page, p, NULL, head);

	if (!joins(put, &run, inside))
		return false;
	run = run_before(put, page, p, entry, head);
	return joins(put, &run, inside) && splice_in(put, buf, pos, &run, entry, norm);
}

bool
mtp_blink_put_merged(MtpBlinkPut *put, Buffer buf, int n, const uint16 *pos,
					 const IndexTuple *items, const uint64 *norms, bool *inside)
{
	Page		page = BufferGetPage(buf);
	MemoryContext cxt;
	MemoryContext old;
	int			total = MtpHeader(page)->nitems + n;
	IndexTuple *all;
	uint8	   *same;
	Page		image;

	*inside = falls_inside(put, page, n, pos, items, norms);
	if (n == 1 && !mtp_item_is_list(items[0]) &&
		put_one(put, buf, pos[0], items[0], norms[0], *inside))
		return true;
	if (!*inside)
		return false;
	mtp_blink_check_items(put->rel, buf);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower merge", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	all = palloc(total * sizeof(IndexTuple));
	same = palloc(MTP_SAME_BYTES(total));
	mtp_page_all_items(page, n, pos, items, all);
	(void) mtp_blink_overlaps(put->rel, total, all, n, pos, same);
	image = mtp_page_merge(page, n, pos, items, same);
	if (image != NULL)
	{
		publish(put, buf, image, n, pos, items, same);
		UnlockReleaseBuffer(buf);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return image != NULL;
}
