/*
 * bucket.c
 *	  A hash index page by itself: fingerprints, entries, and the search among them.
 *
 * Entries have no order: a new one is appended, and the last one fills a hole.  The page without
 * its hints and the arguments determine all changes but those of hints, and no change raises an
 * error: replay repeats them.
 */
#include "core/core.h"
#include "hash/bucket.h"

#if defined(__SSE2__) && !defined(MTP_NO_SIMD)
#include <emmintrin.h>
#endif

#include "hash/hash.h"

/* Reads of sixteen fingerprints go beyond the last one, but not beyond the entries behind it. */
#define FP_STEP 16
StaticAssertDecl(FP_STEP <= sizeof(MtpHashEntry) * 2, "two entries cover a read of fingerprints");

/* Sets the bounds of the page's hole, which images of the page leave out. */
static void
set_bounds(Page page)
{
	PageHeader	p = (PageHeader) page;
	const MtpHashHeader *h = MtpHashHead(page);

	p->pd_lower = MTP_HASH_FP_AT(h->type) + h->n;
	p->pd_upper = BLCKSZ - h->n * sizeof(MtpHashEntry);
}

void
mtp_hash_bucket_init_header(Page page, uint8 type)
{
	MtpHashHeader *h = MtpHashHead(page);

	PageInit(page, BLCKSZ, 0);
	h->type = type;
	h->format = MTP_HASH_FORMAT;
	h->next = InvalidBlockNumber;
	h->source = InvalidBlockNumber;
	h->page_id = MTP_PAGE_ID;
}

void
mtp_hash_bucket_init(Page page, uint8 type, uint32 bucket, uint32 lo, uint32 hi)
{
	MtpHashHeader *h = MtpHashHead(page);

	Assert(type == MTP_HASH_BUCKET || type == MTP_HASH_STASH);
	mtp_hash_bucket_init_header(page, type);
	h->bucket = bucket;
	h->lo = lo;
	h->hi = hi;
	set_bounds(page);
}

void
mtp_hash_bucket_init_free(Page page)
{
	mtp_hash_bucket_init_header(page, MTP_HASH_FREE);
	((PageHeader) page)->pd_lower = MTP_HEADER_AT + sizeof(MtpHashHeader);
}

void
mtp_hash_bucket_append(Page page, int n, const MtpHashEntry *entries)
{
	MtpHashHeader *h = MtpHashHead(page);
	uint8	   *fps = MtpHashFps(page) + h->n;
	MtpHashEntry *to = MtpHashEntryAt(page, h->n);

	Assert(n >= 0 && n <= mtp_hash_bucket_room(page));
	for (int i = 0; i < n; i++)
	{
		fps[i] = mtp_hash_fp(mtp_entry_hash(&entries[i]));
		*to-- = entries[i];
	}
	h->n += n;
	set_bounds(page);
}

int
mtp_hash_bucket_find_scalar(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead,
							uint16 *at)
{
	uint8		fp = mtp_hash_fp(hash);
	uint8		other = with_dead ? MTP_FP_DEAD : fp;
	int			found = 0;

	for (int i = 0; i < n; i++)
		if ((fps[i] == fp || fps[i] == other) && mtp_entry_hash(MtpHashEntryAt(page, i)) == hash)
			at[found++] = i;
	return found;
}

int
mtp_hash_bucket_find_among(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead,
						   uint16 *at)
{
#if defined(__SSE2__) && !defined(MTP_NO_SIMD)
	uint8		fp = mtp_hash_fp(hash);
	__m128i		wanted = _mm_set1_epi8((char) fp);
	__m128i		other = _mm_set1_epi8((char) (with_dead ? MTP_FP_DEAD : fp));
	int			found = 0;

	for (int i = 0; i < n; i += FP_STEP)
	{
		__m128i		some = _mm_loadu_si128((const __m128i *) (fps + i));
		uint32		hits = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(some, wanted),
														  _mm_cmpeq_epi8(some, other)));

		/* Drop hits behind the last fingerprint. */
		if (n - i < FP_STEP)
			hits &= (1 << (n - i)) - 1;
		for (; hits != 0; hits &= hits - 1)
		{
			int			k = i + __builtin_ctz(hits);

			if (mtp_entry_hash(MtpHashEntryAt(page, k)) == hash)
				at[found++] = k;
		}
	}
	return found;
#else
	return mtp_hash_bucket_find_scalar(page, fps, n, hash, with_dead, at);
#endif
}

static void
move_entry(Page page, int from, int to)
{
	uint8	   *fps = MtpHashFps(page);

	fps[to] = fps[from];
	*MtpHashEntryAt(page, to) = *MtpHashEntryAt(page, from);
}

/*
 * Ends a change that leaves the first n entries.  It counts the dead hints anew, since scans that
 * mark entries at the same time may have lost some counts.
 */
static void
keep_first(Page page, int n)
{
	MtpHashHeader *h = MtpHashHead(page);
	const uint8 *fps = MtpHashFps(page);
	int			ndead = 0;

	for (int i = 0; i < n; i++)
		ndead += fps[i] == MTP_FP_DEAD;
	h->n = n;
	h->ndead = ndead;
	if (ndead == 0)
		h->flags &= ~MTP_HASH_HAS_DEAD;
	set_bounds(page);
}

void
mtp_hash_bucket_delete(Page page, int n, const uint16 *at)
{
	int			last = MtpHashHead(page)->n - 1;	/* the last entry not yet dropped or moved */
	int			doomed = n - 1; /* at[doomed] is the last one not yet dropped from the end */

	Assert(n <= last + 1);
	for (int i = 0; i < n; i++)
	{
		while (doomed >= i && at[doomed] == last)
		{
			doomed--;
			last--;
		}
		if (doomed < i)
			break;
		move_entry(page, last--, at[i]);
	}
	keep_first(page, MtpHashHead(page)->n - n);
}

void
mtp_hash_bucket_retain(Page page, uint32 lo, uint32 hi)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(page);
	int			kept = 0;
	int			nheavy = 0;

	for (int i = 0; i < p->h.n; i++)
	{
		uint32		hash = mtp_entry_hash(MtpHashEntryAt(page, i));

		if (hash < lo || hash > hi)
			continue;
		if (kept != i)
			move_entry(page, i, kept);
		kept++;
	}
	p->h.lo = lo;
	p->h.hi = hi;
	keep_first(page, kept);
	if (!MtpHashIsPrimary(page))
		return;
	for (int i = 0; i < p->h.nheavy; i++)
		if (p->heavy[i].hash >= lo && p->heavy[i].hash <= hi)
			p->heavy[nheavy++] = p->heavy[i];
	memset(&p->heavy[nheavy], 0, (p->h.nheavy - nheavy) * sizeof(MtpHashHeavy));
	p->h.nheavy = nheavy;
}

/* Under a share lock: other scans may do the same, so ndead is only about right. */
void
mtp_hash_bucket_set_dead(Page page, int i)
{
	MtpHashHeader *h = MtpHashHead(page);
	uint8	   *fp = MtpHashFps(page) + i;

	if (*fp == MTP_FP_DEAD)
		return;
	*fp = MTP_FP_DEAD;
	h->ndead++;
	h->flags |= MTP_HASH_HAS_DEAD;
}

void
mtp_hash_bucket_mask(Page page)
{
	MtpHashHeader *h = MtpHashHead(page);

	h->ndead = 0;
	h->flags &= ~MTP_HASH_HAS_DEAD;
	if (h->type == MTP_HASH_META)
		MtpHashMetaOf(page)->entries = 0;	/* counted without a record */
	else if (h->type == MTP_HASH_BUCKET || h->type == MTP_HASH_STASH)
		for (int i = 0; i < h->n; i++)
			MtpHashFps(page)[i] = mtp_hash_fp(mtp_entry_hash(MtpHashEntryAt(page, i)));
}

const char *
mtp_hash_bucket_fault(Page page, int *at)
{
	PageHeader	header = (PageHeader) page;
	const MtpHashHeader *h = MtpHashHead(page);
	const MtpHashPrimary *p = MtpHashPrimaryOf(page);

	*at = -1;
	if (PageGetPageSize(page) != BLCKSZ || header->pd_special != BLCKSZ ||
		header->pd_lower > header->pd_upper || header->pd_upper > header->pd_special)
		return "the page header is damaged";
	if (h->page_id != MTP_PAGE_ID)
		return "the page is not a page of mtpower";
	if (h->type < MTP_HASH_META || h->type > MTP_HASH_FREE)
		return "the page is of unknown type";
	if (h->format != MTP_HASH_FORMAT)
		return "the page has an unknown format";
	if ((h->flags & ~MTP_HASH_HAS_DEAD) != 0)
		return "the page has unknown flags";
	if (h->type == MTP_HASH_META || h->type == MTP_HASH_FREE)
		return h->n != 0 ? "the page claims to have entries, which its type has not" : NULL;
	if (h->n > MTP_HASH_CAP(h->type))
		return "the page claims more entries than it has room for";
	if (header->pd_lower != MTP_HASH_FP_AT(h->type) + h->n ||
		header->pd_upper != BLCKSZ - h->n * sizeof(MtpHashEntry))
		return "the number of entries does not match the page header";

	/* The header is right, so all entries lie on the page. */
	if (h->lo > h->hi)
		return "the bucket's hashes end before they begin";
	if (h->next == MTP_HASH_META_BLOCK || h->source == MTP_HASH_META_BLOCK)
		return "a link leads to the metapage";
	if (h->type == MTP_HASH_STASH && (h->nheavy != 0 || h->source != InvalidBlockNumber))
		return "a stash page has what only a bucket's first page can have";
	if (h->nheavy > MTP_HASH_MAX_HEAVY)
		return "the page claims more heavy hashes than it has room for";
	for (int i = 0; i < h->nheavy; i++)
	{
		if (p->heavy[i].hash < h->lo || p->heavy[i].hash > h->hi)
			return "a heavy hash belongs to another bucket";
		if (p->heavy[i].first == MTP_HASH_META_BLOCK || p->heavy[i].first == InvalidBlockNumber)
			return "a heavy hash has no chain";
		for (int j = 0; j < i; j++)
			if (p->heavy[j].hash == p->heavy[i].hash)
				return "a heavy hash has two chains";
	}
	for (int i = 0; i < h->n; i++)
	{
		const MtpHashEntry *e = MtpHashEntryAt(page, i);
		uint32		hash = mtp_entry_hash(e);
		uint8		fp = MtpHashFps(page)[i];

		*at = i;
		if (fp != MTP_FP_DEAD && fp != mtp_hash_fp(hash))
			return "a fingerprint does not match its hash";
		if (hash < h->lo || hash > h->hi)
			return "an entry belongs to another bucket";
		if (ItemPointerGetBlockNumberNoCheck(&e->tid) == InvalidBlockNumber ||
			ItemPointerGetOffsetNumberNoCheck(&e->tid) < FirstOffsetNumber ||
			ItemPointerGetOffsetNumberNoCheck(&e->tid) > MaxOffsetNumber)
			return "an entry points to no row";
	}
	*at = -1;
	return NULL;
}
