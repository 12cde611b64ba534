/*
 * put.c
 *	  Puts entries into their bucket: on its primary page, its stash, or a heavy hash's chain.
 *
 * Entries go in strictly in the caller's order, so that *progress says which ones are in (H13).
 * However long a chain is, a call looks at its first page only.
 */
#include "core/core.h"

#include "hash/change.h"

/* So many equal hashes that don't fit the primary page get a chain of their own at once. */
#define HEAVY_RUN	128

/* Counts how many of n entries, at most a page full, have the first one's hash. */
static int
run_length(int n, const MtpHashEntry *entries)
{
	uint32		hash = mtp_entry_hash(&entries[0]);
	int			len = 1;

	n = Min(n, MTP_HASH_MAX_ENTRIES);
	while (len < n && mtp_entry_hash(&entries[len]) == hash)
		len++;
	return len;
}

/* Counts how many of n entries come before a run that would make its hash heavy. */
static int
light_length(int n, const MtpHashEntry *entries)
{
	int			len = 0;
	int			run;

	while (len < n && (run = run_length(n - len, &entries[len])) < HEAVY_RUN)
		len += run;
	return len;
}

/* Has the change that puts k entries in count them as well (H13). */
static void
advance_progress(MtpHashPut *put, MtpChange *c, int k)
{
	c->progress = put->progress;
	if (put->progress != NULL)
		c->progress_to = *put->progress + k;
}

/*
 * Appends k entries, which fit, to an exclusively locked page, in one record.  primary: the
 * bucket's primary page if the page is of its stash, so that the filter gets the entries' bits
 * (H6); else InvalidBuffer.
 */
static void
append_entries(MtpHashPut *put, Buffer buf, Buffer primary, int k, const MtpHashEntry *entries)
{
	Page		page = BufferGetPage(buf);
	MtpHashPrimary *p = BufferIsValid(primary) ? MtpHashPrimaryOf(BufferGetPage(primary)) : NULL;
	bool		filter = false;
	MtpWalHashInsert rec = {.n = k};
	MtpChange	c;

	/* The primary page changes only where its filter lacks a bit. */
	for (int i = 0; p && i < k && !filter; i++)
		filter = !mtp_filter_has(p, mtp_entry_hash(&entries[i]));
	mtp_change_init(&c, put->rel, MTP_WAL_HASH_INSERT);
	/* Replay needs the entries for the filter even where it has an image of the page. */
	mtp_change_buffer(&c, buf, REGBUF_STANDARD | (filter ? REGBUF_KEEP_DATA : 0));
	if (filter)
		mtp_change_buffer(&c, primary, REGBUF_STANDARD);
	advance_progress(put, &c, k);

	mtp_change_begin(&c);
	mtp_hash_bucket_append(page, k, entries);
	if (filter)
		mtp_hash_filter_entries(p, k, entries);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, entries, k * sizeof(MtpHashEntry));
	mtp_change_finish(&c);
	put->touched++;
	put->last_n = MtpHashHead(page)->n;
}

/*
 * Puts up to a page full of n entries on a new page, which becomes the first of the stash or of
 * their hash's chain, in one record.  Returns how many are in.  buf: the locked primary page.
 */
static int
add_page(MtpHashPut *put, Buffer buf, bool heavy, int n, const MtpHashEntry *entries)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(buf));
	uint32		hash = mtp_entry_hash(&entries[0]);
	int			slot = heavy ? mtp_hash_heavy_slot(p, hash) : -1;
	int			k = Min(n, MTP_HASH_MAX_ENTRIES);
	MtpWalHashAdd rec;
	MtpChange	c;
	Buffer		nbuf;

	memset(&rec, 0, sizeof(rec));	/* its padding as well */
	rec.n = k;
	rec.heavy = heavy;
	rec.hash = heavy ? hash : 0;
	rec.bucket = p->h.bucket;
	rec.lo = p->h.lo;
	rec.hi = p->h.hi;
	rec.next = !heavy ? p->h.next : slot >= 0 ? p->heavy[slot].first : InvalidBlockNumber;

	/*
	 * The new page comes behind the primary page in the order of locks, and before the change, so
	 * an error for want of disk space leaves no link to it.  A crash leaves a zero or free page in
	 * no list, which VACUUM finds (H11).
	 */
	nbuf = mtp_hash_alloc(put->rel);
	mtp_change_init(&c, put->rel, MTP_WAL_HASH_ADD);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_buffer(&c, nbuf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	advance_progress(put, &c, k);

	mtp_change_begin(&c);
	mtp_hash_make_stash(BufferGetPage(nbuf), &rec, entries);
	mtp_hash_link(p, BufferGetBlockNumber(nbuf), &rec, entries);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 1, entries, k * sizeof(MtpHashEntry));
	mtp_change_finish(&c);
	put->touched++;
	put->last_n = k;
	UnlockReleaseBuffer(nbuf);
	return k;
}

/*
 * Makes sure that the locked page has room for an entry, if need be from entries that are known
 * to be dead; false if it can't.
 *
 * The metapage's count loses the entries that were removed: else updates that make room for
 * themselves would have the index grow without end.  A batch takes off each of them.  A single
 * insertion takes off a step where they bring the page's number of entries across one, as it has
 * been counted.
 */
static bool
make_room(MtpHashPut *put, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	int			before = MtpHashHead(page)->n;
	int			step = put->progress ? 1 : MTP_HASH_COUNT_STEP;
	int			gone;

	if (mtp_hash_bucket_room(page) > 0)
		return true;
	if (!mtp_hash_reclaim(put->rel, put->heap, buf))
		return false;
	gone = (before / step - MtpHashHead(page)->n / step) * step;
	if (gone != 0)
		(void) mtp_hash_count(put->rel, -gone);
	return true;
}

/* True if the full page has so many entries of a hash that these are what fills it: a quarter. */
static bool
crowded(Page page, uint32 hash)
{
	uint16		at[MTP_HASH_MAX_ENTRIES];

	return mtp_hash_bucket_find(page, hash, true, at) >= Max(MtpHashHead(page)->n / 4, 1);
}

/*
 * Puts some of n entries on the first page of a chain, or on a new one in front of it; returns how
 * many are in.  slot >= 0: the first ones have this heavy hash.  Else none has a heavy hash, the
 * primary page in buf has no room for them, and the chain is the stash; their hash becomes heavy if
 * a long run of it comes, or if it is what has filled the page before.
 */
static int
put_chain(MtpHashPut *put, Buffer buf, int slot, int n, const MtpHashEntry *entries)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(buf));
	bool		heavy = slot >= 0;
	BlockNumber first = heavy ? p->heavy[slot].first : p->h.next;
	uint32		hash = mtp_entry_hash(&entries[0]);
	int			run = run_length(n, entries);
	int			len = n;

	if (heavy)
		len = run;
	else if (p->h.nheavy < MTP_HASH_MAX_HEAVY)
		len = light_length(n, entries);

	/* A long run of one hash gets a chain of its own at once. */
	if (len == 0)
		return add_page(put, buf, true, run, entries);
	if (first != InvalidBlockNumber)
	{
		/* The primary page's lock keeps other inserters out, and the page first in its chain. */
		Buffer		sbuf = mtp_hash_read(put->rel, first, BUFFER_LOCK_EXCLUSIVE,
										 MTP_HASH_WANT_STASH, NULL);

		if (make_room(put, sbuf))
		{
			int			k = Min(len, mtp_hash_bucket_room(BufferGetPage(sbuf)));

			append_entries(put, sbuf, heavy ? InvalidBuffer : buf, k, entries);
			UnlockReleaseBuffer(sbuf);
			return k;
		}
		heavy = heavy || crowded(BufferGetPage(sbuf), hash);
		UnlockReleaseBuffer(sbuf);
	}
	else
		heavy = heavy || crowded(BufferGetPage(buf), hash);

	/* A page is due: for the hash that has filled the page before, or else for the stash. */
	if (heavy && (slot >= 0 || p->h.nheavy < MTP_HASH_MAX_HEAVY))
		return add_page(put, buf, true, run, entries);
	return add_page(put, buf, false, len, entries);
}

void
mtp_hash_put(MtpHashPut *put, Buffer buf, int n, const MtpHashEntry *entries)
{
	Page		page = BufferGetPage(buf);
	MtpHashPrimary *p = MtpHashPrimaryOf(page);
	bool		full = false;

	Assert(MtpHashIsPrimary(page));
	for (int at = 0; at < n;)
	{
		/* Each turn puts in the first entries that are left, as many as one page takes. */
		const MtpHashEntry *e = &entries[at];
		int			slot = mtp_hash_heavy_slot(p, mtp_entry_hash(e));
		int			most = Min(n - at, MTP_HASH_MAX_ENTRIES);
		int			len = most;

		Assert(mtp_entry_hash(e) >= p->h.lo && mtp_entry_hash(e) <= p->h.hi);
		Assert(at == 0 || mtp_entry_hash(e - 1) <= mtp_entry_hash(e));
		if (slot < 0 && p->h.nheavy > 0)
		{
			/* A turn ends before a heavy hash. */
			for (len = 0; len < most && mtp_hash_heavy_slot(p, mtp_entry_hash(&e[len])) < 0;)
				len += run_length(most - len, &e[len]);
		}

		/* Look for dead entries once, not for each page that the stash gets. */
		if (slot < 0 && !full && make_room(put, buf))
		{
			len = Min(len, mtp_hash_bucket_room(page));
			append_entries(put, buf, InvalidBuffer, len, e);
			at += len;
		}
		else
		{
			full = full || slot < 0;
			at += put_chain(put, buf, slot, len, e);
		}
	}
}
