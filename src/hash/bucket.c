/*
 * bucket.c
 *	  A hash index page by itself: fingerprints, entries, and the search among them.
 *
 * Entries keep no order, so one is appended, and the last one fills a hole.  All changes but those of hints
 * are determined by the page without its hints and by the arguments, and raise no error: redo does the same.
 */
#include "core/core.h"
#include "hash/bucket.h"

#if defined(__SSE2__) && !defined(MTP_NO_SIMD)
#include <emmintrin.h>
#endif

#include "hash/hash.h"

/* Sixteen fingerprints read at once, even behind the last one's, must not leave the page: entries follow. */
#define FP_STEP 16
StaticAssertDecl(FP_STEP <= sizeof(MtpHashEntry) * 2, "two entries cover a read of fingerprints");

/* What the page holds decides where its hole is; images of the page leave the hole out. */
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
mtp_hash_bucket_find_scalar(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead, uint16 *at)
{
	uint8		fp = mtp_hash_fp(hash);
	uint8		other = with_dead ? MTP_FP_DEAD : fp;
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		if ((fps[i] == fp || fps[i] == other) &&
			mtp_entry_hash(MtpHashEntryAt(page, i)) == hash)
			at[found++] = i;
	}
	return found;
}

#if defined(__SSE2__) && !defined(MTP_NO_SIMD)

int
mtp_hash_bucket_find_among(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead, uint16 *at)
{
	uint8		fp = mtp_hash_fp(hash);
	__m128i		wanted = _mm_set1_epi8((char) fp);
	__m128i		other = _mm_set1_epi8((char) (with_dead ? MTP_FP_DEAD : fp));
	int			found = 0;

	for (int i = 0; i < n; i += FP_STEP)
	{
		__m128i		some = _mm_loadu_si128((const __m128i *) (fps + i));
		uint32		hits = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(some, wanted),
														  _mm_cmpeq_epi8(some, other)));

		/* What lies behind the last fingerprint is none. */
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
}

#else

int
mtp_hash_bucket_find_among(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead, uint16 *at)
{
	return mtp_hash_bucket_find_scalar(page, fps, n, hash, with_dead, at);
}

#endif							/* SIMD */

int
mtp_hash_bucket_find(Page page, uint32 hash, bool with_dead, uint16 *at)
{
	return mtp_hash_bucket_find_among(page, MtpHashFps(page), MtpHashHead(page)->n, hash, with_dead, at);
}

/* Dead hints don't count: redo counts the same. */
int
mtp_hash_bucket_count(Page page, uint32 hash, int limit)
{
	uint16		at[MTP_HASH_MAX_ENTRIES];

	return Min(mtp_hash_bucket_find(page, hash, true, at), limit);
}

static void
move_entry(Page page, int from, int to)
{
	uint8	   *fps = MtpHashFps(page);

	fps[to] = fps[from];
	*MtpHashEntryAt(page, to) = *MtpHashEntryAt(page, from);
}

/*
 * Ends a change that leaves the first n entries: the hints about the dead are renewed, since those who mark entries
 * beside each other may have lost some.
 */
static void
shrink(Page page, int n)
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
	int			last = MtpHashHead(page)->n - 1;	/* entries up to here are looked at yet */
	int			doomed = n - 1; /* at[doomed] is the last of those not yet dropped from the end */

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
	shrink(page, MtpHashHead(page)->n - n);
}

void
mtp_hash_bucket_retain(Page page, uint32 lo, uint32 hi)
{
	MtpHashHeader *h = MtpHashHead(page);
	int			kept = 0;

	for (int i = 0; i < h->n; i++)
	{
		uint32		hash = mtp_entry_hash(MtpHashEntryAt(page, i));

		if (hash < lo || hash > hi)
			continue;
		if (kept != i)
			move_entry(page, i, kept);
		kept++;
	}
	h->lo = lo;
	h->hi = hi;
	shrink(page, kept);
}

/* Under a share lock: others may do the same beside us, so ndead is about right only. */
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
	{
		for (int i = 0; i < h->n; i++)
			MtpHashFps(page)[i] = mtp_hash_fp(mtp_entry_hash(MtpHashEntryAt(page, i)));
	}
}

/* The header that all hash pages have, and where the hole is. */
static const char *
header_fault(Page page)
{
	PageHeader	p = (PageHeader) page;
	const MtpHashHeader *h = MtpHashHead(page);

	if (PageGetPageSize(page) != BLCKSZ || p->pd_special != BLCKSZ ||
		p->pd_lower > p->pd_upper || p->pd_upper > p->pd_special)
		return "the page header is damaged";
	if (h->page_id != MTP_PAGE_ID)
		return "the page is not a page of mtpower";
	if (h->type < MTP_HASH_META || h->type > MTP_HASH_FREE)
		return "the page is of unknown type";
	if (h->format != MTP_HASH_FORMAT)
		return "the page has an unknown format";
	if ((h->flags & ~MTP_HASH_HAS_DEAD) != 0)
		return "the page has unknown flags";
	if (h->type == MTP_HASH_BUCKET || h->type == MTP_HASH_STASH)
	{
		if (h->n > MTP_HASH_CAP(h->type))
			return "the page claims more entries than it has room for";
		if (p->pd_lower != MTP_HASH_FP_AT(h->type) + h->n ||
			p->pd_upper != BLCKSZ - h->n * sizeof(MtpHashEntry))
			return "the number of entries does not match the page header";
	}
	else if (h->n != 0)
		return "the page claims to have entries, which its type has not";
	return NULL;
}

/* What a page says about its bucket. */
static const char *
links_fault(Page page)
{
	const MtpHashHeader *h = MtpHashHead(page);
	const MtpHashPrimary *p = MtpHashPrimaryOf(page);

	if (h->lo > h->hi)
		return "the bucket's hashes end before they begin";
	if (h->next == MTP_HASH_META_BLOCK || h->source == MTP_HASH_META_BLOCK)
		return "a link leads to the metapage";
	if (h->type == MTP_HASH_STASH)
	{
		if (h->nheavy != 0 || h->source != InvalidBlockNumber)
			return "a stash page has what only a bucket's first page can have";
		return NULL;
	}
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
	return NULL;
}

/* The header has been found right, so all that is looked at here lies on the page. */
static const char *
entry_fault(Page page, int i)
{
	const MtpHashHeader *h = MtpHashHead(page);
	const MtpHashEntry *e = MtpHashEntryAt(page, i);
	uint32		hash = mtp_entry_hash(e);
	uint8		fp = MtpHashFps(page)[i];

	if (fp != MTP_FP_DEAD && fp != mtp_hash_fp(hash))
		return "a fingerprint does not match its hash";
	if (hash < h->lo || hash > h->hi)
		return "an entry belongs to another bucket";
	if (ItemPointerGetBlockNumberNoCheck(&e->tid) == InvalidBlockNumber ||
		ItemPointerGetOffsetNumberNoCheck(&e->tid) < FirstOffsetNumber ||
		ItemPointerGetOffsetNumberNoCheck(&e->tid) > MaxOffsetNumber)
		return "an entry points to no row";
	return NULL;
}

const char *
mtp_hash_bucket_fault(Page page, int *at)
{
	const MtpHashHeader *h = MtpHashHead(page);
	const char *fault = header_fault(page);

	*at = -1;
	if (fault != NULL || h->type == MTP_HASH_META || h->type == MTP_HASH_FREE)
		return fault;
	fault = links_fault(page);
	for (int i = 0; fault == NULL && i < h->n; i++)
	{
		fault = entry_fault(page, i);
		if (fault != NULL)
			*at = i;
	}
	return fault;
}
