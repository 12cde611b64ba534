/*
 * squeeze.c
 *	  Puts the entries of a stash, or of a heavy hash's chain, on fewer pages, and frees the others.
 *
 * It goes along the chain window by window, a record each.  Under a cleanup lock on the primary page nobody
 * else has a link to any page of the bucket's chains, so what is freed may be used again at once.
 */
#include "hash/vacuum.h"

#include "commands/vacuum.h"
#include "hash/change.h"
#include "storage/indexfsm.h"
#include "core/inject.h"

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
	uint32		lo;				/* of all its pages */
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

static void
take_page(Window *w, BlockNumber blkno, BufferAccessStrategy strategy)
{
	Buffer		buf = mtp_hash_read(w->rel, blkno, BUFFER_LOCK_EXCLUSIVE, MTP_HASH_WANT_STASH,
									strategy);
	Page		page = BufferGetPage(buf);
	MtpHashHeader *h = MtpHashHead(page);

	for (int i = 0; i < h->n; i++)
		w->entries[w->n++] = *MtpHashEntryAt(page, i);
	w->lo = Min(w->lo, h->lo);
	w->hi = Max(w->hi, h->hi);
	w->after = h->next;
	w->bufs[w->npages++] = buf;
}

/* Locks the pages from `from` on and takes their entries. */
static void
take(Window *w, BlockNumber from, BufferAccessStrategy strategy)
{
	w->leads = from == first_page(MtpHashPrimaryOf(BufferGetPage(w->primary)), w->chain);
	w->after = from;
	w->npages = w->n = 0;
	w->lo = PG_UINT32_MAX;
	w->hi = 0;
	while (w->npages < WINDOW && w->after != InvalidBlockNumber)
		take_page(w, w->after, strategy);
}

static void
release(Window *w)
{
	for (int i = 0; i < w->npages; i++)
		UnlockReleaseBuffer(w->bufs[i]);
}

/* The primary page's link to the window, which has become empty, leads behind it. */
static void
skip_window(Window *w, MtpHashPrimary *p)
{
	int			slot;

	if (!w->chain->heavy)
	{
		p->h.next = w->after;
		return;
	}
	slot = mtp_hash_heavy_slot(p, w->chain->hash);
	p->heavy[slot].first = w->after;
	if (w->after != InvalidBlockNumber)
		return;

	/* A heavy hash without a chain is none. */
	p->h.nheavy--;
	memmove(&p->heavy[slot], &p->heavy[slot + 1], (p->h.nheavy - slot) * sizeof(MtpHashHeavy));
	p->heavy[p->h.nheavy].hash = 0;
	p->heavy[p->h.nheavy].first = InvalidBlockNumber;
}

/*
 * Writes the entries on the first `keep` pages; lo .. hi tells mtp_hash_finish which of them may have
 * entries of the bucket that was split off.  All but the first get full: entries that come later look
 * for room on the first page of a chain only.
 */
static void
fill_pages(Window *w, int keep)
{
	uint32		bucket = MtpHashHead(BufferGetPage(w->primary))->bucket;
	int			at = 0;

	for (int i = 0; i < w->npages; i++)
	{
		Page		page = BufferGetPage(w->bufs[i]);
		int			n = w->n - at;

		if (i >= keep)
		{
			mtp_hash_bucket_init_free(page);
			continue;
		}
		if (i == 0)
			n = Max(w->n - (keep - 1) * MTP_HASH_MAX_ENTRIES, 0);
		n = Min(n, MTP_HASH_MAX_ENTRIES);
		mtp_hash_bucket_init(page, MTP_HASH_STASH, bucket, w->lo, w->hi);
		MtpHashHead(page)->next = i + 1 < keep ? BufferGetBlockNumber(w->bufs[i + 1]) : w->after;
		mtp_hash_bucket_append(page, n, w->entries + at);
		at += n;
	}
}

/*
 * Where the window is the whole stash, the filter forgets what is gone.  It stays while the bucket has
 * entries in its source's stash, which it tells of as well.
 */
static void
renew_filter(Window *w, MtpHashPrimary *p)
{
	if (w->chain->heavy || !w->leads || w->after != InvalidBlockNumber ||
		p->h.source != InvalidBlockNumber)
		return;
	memset(p->filter, 0, sizeof(p->filter));
	mtp_hash_filter_entries(p, w->n, w->entries);
}

static void
rewrite(Window *w, int keep)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(w->primary));
	MtpWalHashPages rec = {.two = false};
	MtpChange	c;

	mtp_change_init(&c, w->rel, MTP_WAL_HASH_PAGES);
	mtp_change_buffer(&c, w->primary, REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	for (int i = 0; i < w->npages; i++)
		mtp_change_buffer(&c, w->bufs[i], REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	mtp_change_begin(&c);
	fill_pages(w, keep);
	if (keep == 0)
		skip_window(w, p);
	renew_filter(w, p);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
}

/*
 * Squeezes the window from page *from on, under a cleanup lock on the primary page.  *from: where the next one
 * begins, with the last page that this one kept, or InvalidBlockNumber at the chain's end.  The freed pages
 * are noted.
 */
static int
squeeze_window(Window *w, BlockNumber *from, BlockNumber *freed, BufferAccessStrategy strategy)
{
	int			keep;
	int			nfreed = 0;

	take(w, *from, strategy);
	keep = (w->n + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;
	if (!w->leads)
		keep = Max(keep, 1);	/* some page leads to its first one */
	for (int i = keep; i < w->npages; i++)
		freed[nfreed++] = BufferGetBlockNumber(w->bufs[i]);
	if (nfreed > 0)
		rewrite(w, keep);
	if (w->after == InvalidBlockNumber || keep == 0)
		*from = w->after;
	else
		*from = BufferGetBlockNumber(w->bufs[keep - 1]);
	release(w);
	return nfreed;
}

/*
 * What a window can't get rid of is less than a page; it is not worth looking for again and again.
 */
static bool
worthwhile(const MtpHashChain *chain)
{
	uint64		needed = (chain->entries + MTP_HASH_MAX_ENTRIES - 1) / MTP_HASH_MAX_ENTRIES;

	return chain->pages > needed && chain->pages - needed > chain->pages / (WINDOW - 2);
}

BlockNumber
mtp_hash_squeeze(Relation rel, Buffer primary, const MtpHashChain *chain,
				 BufferAccessStrategy strategy)
{
	Window		w = {.rel = rel,.primary = primary,.chain = chain};
	BlockNumber from = InvalidBlockNumber;
	BlockNumber nfreed = 0;
	bool		more = true;

	if (!worthwhile(chain))
		return 0;
	w.entries = palloc(WINDOW * MTP_HASH_MAX_ENTRIES * sizeof(MtpHashEntry));
	while (more)
	{
		BlockNumber freed[WINDOW];
		int			n = 0;

		/*
		 * Between two windows scans and inserters get their turn.  Our pin keeps the chain from
		 * `from` on as it is; in front of it there may be new pages.
		 */
		MTP_INJECT("vacuum_squeeze");
		MtpVacuumDelayPoint();
		LockBuffer(primary, BUFFER_LOCK_EXCLUSIVE);
		if (from == InvalidBlockNumber)
			from = first_page(MtpHashPrimaryOf(BufferGetPage(primary)), chain);
		more = from != InvalidBlockNumber && IsBufferCleanupOK(primary);
		if (more)
		{
			n = squeeze_window(&w, &from, freed, strategy);
			more = from != InvalidBlockNumber;
		}
		LockBuffer(primary, BUFFER_LOCK_UNLOCK);

		for (int i = 0; i < n; i++)
			RecordFreeIndexPage(rel, freed[i]);
		nfreed += n;
	}
	pfree(w.entries);
	return nfreed;
}
