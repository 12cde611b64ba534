/*
 * squeeze.c
 *	  Puts the entries of a stash, or of a heavy hash's chain, on fewer pages, and frees the
 *	  others.
 *
 * VACUUM goes along the chain window by window, with a record each.  Under a cleanup lock on the
 * primary page no other process has a link to any page of the bucket's chains (H4), so freed
 * pages may be used again at once.
 */
#include "hash/hash.h"

#include "commands/vacuum.h"
#include "hash/change.h"
#include "hash/grow.h"
#include "storage/indexfsm.h"
#include "core/inject.h"

/* Pages that a record rewrites at most. */
#define WINDOW 8

typedef struct Window
{
	Relation	rel;
	Buffer		primary;
	const MtpHashChain *chain;
	bool		leads;			/* the primary page leads to its first page */
	BlockNumber after;			/* the page behind it, or InvalidBlockNumber */
	int			npages;
	Buffer		bufs[WINDOW];
	uint32		lo;				/* of all its pages together */
	uint32		hi;
	int			n;
	MtpHashEntry *entries;		/* room for WINDOW pages */
} Window;

static BlockNumber
first_page(const MtpHashPrimary *p, const MtpHashChain *chain)
{
	int			slot;

	if (!chain->heavy)
		return p->h.next;
	slot = mtp_hash_heavy_slot(p, chain->hash);
	return slot < 0 ? InvalidBlockNumber : p->heavy[slot].first;
}

/* Locks up to a window full of pages from `from` on, in their order, and takes their entries. */
static void
take_window(Window *w, BlockNumber from, BufferAccessStrategy strategy)
{
	w->leads = from == first_page(MtpHashPrimaryOf(BufferGetPage(w->primary)), w->chain);
	w->after = from;
	w->npages = w->n = 0;
	w->lo = PG_UINT32_MAX;
	w->hi = 0;
	while (w->npages < WINDOW && w->after != InvalidBlockNumber)
	{
		Buffer		buf = mtp_hash_read(w->rel, w->after, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_STASH, strategy);
		Page		page = BufferGetPage(buf);
		MtpHashHeader *h = MtpHashHead(page);

		for (int i = 0; i < h->n; i++)
			w->entries[w->n++] = *MtpHashEntryAt(page, i);
		w->lo = Min(w->lo, h->lo);
		w->hi = Max(w->hi, h->hi);
		w->after = h->next;
		w->bufs[w->npages++] = buf;
	}
}

/*
 * Rewrites the window in one record: its entries on the first `keep` pages, the others free.  All
 * pages but the first get full: later entries look for room on a chain's first page only.  lo ..
 * hi of a page spans those of all pages taken: it tells mtp_hash_finish which pages may have
 * entries of the bucket that was split off.
 */
static void
rewrite_window(Window *w, int keep)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(w->primary));
	MtpWalHashPages rec = {.two = false};
	int			at = 0;
	int			n = Max(w->n - (keep - 1) * MTP_HASH_MAX_ENTRIES, 0);
	MtpChange	c;

	mtp_change_init(&c, w->rel, MTP_WAL_HASH_PAGES);
	mtp_change_buffer(&c, w->primary, MTP_HASH_IMAGE);
	for (int i = 0; i < w->npages; i++)
		mtp_change_buffer(&c, w->bufs[i], MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	for (int i = 0; i < keep; i++, n = MTP_HASH_MAX_ENTRIES)
	{
		Page		page = BufferGetPage(w->bufs[i]);

		mtp_hash_bucket_init(page, MTP_HASH_STASH, p->h.bucket, w->lo, w->hi);
		MtpHashHead(page)->next = i + 1 < keep ? BufferGetBlockNumber(w->bufs[i + 1]) : w->after;
		mtp_hash_bucket_append(page, n, w->entries + at);
		at += n;
	}
	for (int i = keep; i < w->npages; i++)
		mtp_hash_bucket_init_free(BufferGetPage(w->bufs[i]));

	/* The primary page's link to a window that becomes empty leads behind it. */
	if (keep == 0 && !w->chain->heavy)
		p->h.next = w->after;
	else if (keep == 0)
	{
		/* No page stays only where the primary page leads to the window: the hash has a slot. */
		int			slot = mtp_hash_heavy_slot(p, w->chain->hash);

		p->heavy[slot].first = w->after;
		if (w->after == InvalidBlockNumber)
		{
			/* A hash without a chain is heavy no more. */
			n = --p->h.nheavy;
			memmove(&p->heavy[slot], &p->heavy[slot + 1], (n - slot) * sizeof(MtpHashHeavy));
			p->heavy[n].hash = 0;
			p->heavy[n].first = InvalidBlockNumber;
		}
	}

	/*
	 * Where the window is the whole stash, the filter forgets what is gone (H6).  But while the
	 * bucket has a source, the filter covers the entries in the source's stash as well.
	 */
	if (!w->chain->heavy && w->leads && w->after == InvalidBlockNumber &&
		p->h.source == InvalidBlockNumber)
	{
		memset(p->filter, 0, sizeof(p->filter));
		mtp_hash_filter_entries(p, w->n, w->entries);
	}
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
}

BlockNumber
mtp_hash_squeeze(Relation rel, Buffer primary, const MtpHashChain *chain,
				 BufferAccessStrategy strategy)
{
	Window		w = {.rel = rel,.primary = primary,.chain = chain};
	BlockNumber from = InvalidBlockNumber;
	BlockNumber nfreed = 0;
	uint64		needed = (chain->entries + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;

	/* A window may leave up to a page too many, which is not worth looking for again and again. */
	if (chain->pages <= needed || chain->pages - needed <= chain->pages / (WINDOW - 2))
		return 0;
	w.entries = palloc(WINDOW * MTP_HASH_MAX_ENTRIES * sizeof(MtpHashEntry));
	do
	{
		BlockNumber freed[WINDOW];
		int			n = 0;

		/*
		 * Between two windows scans and inserters get their turn.  The caller's pin keeps the
		 * chain from `from` on as it is (H4); in front of it there may be new pages.
		 */
		MTP_INJECT("vacuum_squeeze");
		MtpVacuumDelayPoint();
		LockBuffer(primary, BUFFER_LOCK_EXCLUSIVE);
		if (from == InvalidBlockNumber)
			from = first_page(MtpHashPrimaryOf(BufferGetPage(primary)), chain);

		/* Another process may have a link into the chain (H4): the rest is left as it is. */
		if (!IsBufferCleanupOK(primary))
			from = InvalidBlockNumber;
		if (from != InvalidBlockNumber)
		{
			int			keep;

			take_window(&w, from, strategy);
			keep = mtp_hash_layout_pages(w.n);
			if (!w.leads)
				keep = Max(keep, 1);	/* a page before the window leads to its first one */
			for (int i = keep; i < w.npages; i++)
				freed[n++] = BufferGetBlockNumber(w.bufs[i]);
			if (n > 0)
				rewrite_window(&w, keep);

			/* The next window begins with the last page that this one has kept. */
			from = w.after;
			if (from != InvalidBlockNumber && keep > 0)
				from = BufferGetBlockNumber(w.bufs[keep - 1]);
			for (int i = 0; i < w.npages; i++)
				UnlockReleaseBuffer(w.bufs[i]);
		}
		LockBuffer(primary, BUFFER_LOCK_UNLOCK);

		/* Other processes may use the pages at once: no link leads there (H4). */
		for (int i = 0; i < n; i++)
			RecordFreeIndexPage(rel, freed[i]);
		nfreed += n;
	} while (from != InvalidBlockNumber);
	pfree(w.entries);
	return nfreed;
}
