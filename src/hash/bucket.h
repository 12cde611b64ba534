/*
 * bucket.h
 *	  Layout of hash index pages; changes and searches of one page in memory.
 *
 * README.md has a drawing of the pages, and the invariants.  Nothing here knows locks or WAL.
 */
#ifndef MTP_BUCKET_H
#define MTP_BUCKET_H

#include "core/core.h"

#include "page/page.h"
#include "storage/bufpage.h"

/* Kinds of pages (type); 1 .. 15 are B-link's (page.h). */
#define MTP_HASH_META		16
#define MTP_HASH_BUCKET		17	/* primary page of a bucket */
#define MTP_HASH_STASH		18	/* further page of a bucket: of its stash, or of a heavy hash */
#define MTP_HASH_FREE		19	/* belongs to nothing */

#define MTP_HASH_FORMAT		1

/* flags */
#define MTP_HASH_HAS_DEAD	0x0001	/* hint: some fingerprint is MTP_FP_DEAD */

/* An entry: the spread hash (mtp_hash_spread) and the row.  10 bytes, 2-aligned. */
typedef struct MtpHashEntry
{
	uint16		hash_hi;
	uint16		hash_lo;
	ItemPointerData tid;
} MtpHashEntry;

StaticAssertDecl(sizeof(MtpHashEntry) == 10, "an entry has 10 bytes");

static inline uint32
mtp_entry_hash(const MtpHashEntry *e)
{
	return ((uint32) e->hash_hi << 16) | e->hash_lo;
}

static inline MtpHashEntry
mtp_entry(uint32 hash, const ItemPointerData *tid)
{
	MtpHashEntry e = {.hash_hi = hash >> 16,.hash_lo = (uint16) hash,.tid = *tid};

	return e;
}

/*
 * Follows PageHeaderData.  The metapage and free pages have only its first line.  It ends as
 * MtpPageHeader's first line does, so that other tools can tell the page from any other.
 */
typedef struct MtpHashHeader
{
	uint8		type;			/* MTP_HASH_* */
	uint8		format;			/* MTP_HASH_FORMAT */
	uint16		flags;
	uint32		bucket;			/* bucket number */
	uint32		lo;				/* the bucket's hashes, lo .. hi (H3); on a stash page those … */
	uint32		hi;				/* … when the page was last written as a whole */
	BlockNumber next;			/* next page of the same chain, or InvalidBlockNumber */
	BlockNumber source;			/* of a primary page: primary page of the bucket whose stash still
								 * has entries of this one, or InvalidBlockNumber */
	uint16		n;				/* entries */
	uint16		ndead;			/* hint: entries whose fingerprint is MTP_FP_DEAD */
	uint32		room_for_later[2];	/* zeroes */
	uint8		nheavy;			/* primary page: heavy hashes */
	uint8		room_for_flags; /* zero */
	uint16		page_id;		/* MTP_PAGE_ID */
} MtpHashHeader;

StaticAssertDecl(sizeof(MtpHashHeader) == sizeof(MtpPageHeader) &&
				 offsetof(MtpHashHeader, page_id) == offsetof(MtpPageHeader, page_id),
				 "the page header has its place");

/*
 * A primary page's header and what follows it.  The filter has a bit for each class of hashes
 * that may have entries in the stash (mtp_filter_bit, invariant H6); entries on a heavy hash's
 * chain set none.  A heavy hash has a chain of stash pages of its own, besides what it has on the
 * primary page and in the stash.
 */
#define MTP_HASH_FILTER_WORDS	8
#define MTP_HASH_MAX_HEAVY		6

typedef struct MtpHashHeavy
{
	uint32		hash;
	BlockNumber first;
} MtpHashHeavy;

typedef struct MtpHashPrimary
{
	MtpHashHeader h;
	uint32		filter[MTP_HASH_FILTER_WORDS];
	MtpHashHeavy heavy[MTP_HASH_MAX_HEAVY];
} MtpHashPrimary;

#define MtpHashHead(page)		((MtpHashHeader *) ((char *) (page) + MTP_HEADER_AT))
#define MtpHashPrimaryOf(page)	((MtpHashPrimary *) ((char *) (page) + MTP_HEADER_AT))
#define MtpHashIsPrimary(page)	(MtpHashHead(page)->type == MTP_HASH_BUCKET)

/* Fingerprints grow up from here, entries down from the page's end. */
#define MTP_HASH_FP_AT(type) \
	(MTP_HEADER_AT + ((type) == MTP_HASH_BUCKET ? sizeof(MtpHashPrimary) : sizeof(MtpHashHeader)))
#define MtpHashFps(page)		((uint8 *) (page) + MTP_HASH_FP_AT(MtpHashHead(page)->type))
#define MtpHashEntryAt(page, i)	((MtpHashEntry *) ((char *) (page) + BLCKSZ) - 1 - (i))
#define MTP_HASH_CAP(type) \
	((int) ((BLCKSZ - MTP_HASH_FP_AT(type)) / (1 + sizeof(MtpHashEntry))))
#define MTP_HASH_MAX_ENTRIES	MTP_HASH_CAP(MTP_HASH_STASH)

/* The fingerprint of a hash: 1 .. 255.  A dead hint takes its place; the entry keeps the hash. */
#define MTP_FP_DEAD 0

static inline uint8
mtp_hash_fp(uint32 hash)
{
	uint8		fp = (uint8) hash;

	return fp == MTP_FP_DEAD ? 1 : fp;
}

/* The filter's bit of a hash; made of other bits than the fingerprint and the bucket. */
static inline uint32
mtp_filter_bit(uint32 hash)
{
	return (hash >> 8) % (MTP_HASH_FILTER_WORDS * 32);
}

static inline bool
mtp_filter_has(const MtpHashPrimary *p, uint32 hash)
{
	uint32		bit = mtp_filter_bit(hash);

	return (p->filter[bit / 32] & (UINT32_C(1) << (bit % 32))) != 0;
}

static inline void
mtp_filter_add(MtpHashPrimary *p, uint32 hash)
{
	uint32		bit = mtp_filter_bit(hash);

	p->filter[bit / 32] |= UINT32_C(1) << (bit % 32);
}

/* bucket.c */

/* Makes a page with nothing but a header; links invalid.  The caller sets pd_lower. */
extern void mtp_hash_bucket_init_header(Page page, uint8 type);

/* Makes an empty primary or stash page: links invalid, filter and heavy hashes empty. */
extern void mtp_hash_bucket_init(Page page, uint8 type, uint32 bucket, uint32 lo, uint32 hi);

/* Makes a free page. */
extern void mtp_hash_bucket_init_free(Page page);

static inline int
mtp_hash_bucket_room(Page page)
{
	return MTP_HASH_CAP(MtpHashHead(page)->type) - MtpHashHead(page)->n;
}

/* Appends n entries; they must fit (mtp_hash_bucket_room). */
extern void mtp_hash_bucket_append(Page page, int n, const MtpHashEntry *entries);

/*
 * Finds the entries of a hash among n with fingerprints at fps: writes their indexes, ascending,
 * to `at` (room for MTP_HASH_MAX_ENTRIES), and returns how many.  with_dead: also those with a
 * dead hint.  The page may change meanwhile: then the result is any, but no access leaves the
 * page.  The scalar twin of the SSE2 form does the same.
 */
extern int	mtp_hash_bucket_find_among(Page page, const uint8 *fps, int n, uint32 hash,
									   bool with_dead, uint16 *at);
extern int	mtp_hash_bucket_find_scalar(Page page, const uint8 *fps, int n, uint32 hash,
										bool with_dead, uint16 *at);

/* The same among all entries of a page. */
static inline int
mtp_hash_bucket_find(Page page, uint32 hash, bool with_dead, uint16 *at)
{
	return mtp_hash_bucket_find_among(page, MtpHashFps(page), MtpHashHead(page)->n, hash, with_dead,
									  at);
}

/*
 * Deletes the entries at[0] < at[1] < …; the page's last entries take their places.  The page and
 * the arguments alone determine the result, so replay comes to the same.
 */
extern void mtp_hash_bucket_delete(Page page, int n, const uint16 *at);

/*
 * Keeps the entries, in their order, and heavy hashes from lo to hi, which become the page's;
 * filter and links stay.
 */
extern void mtp_hash_bucket_retain(Page page, uint32 lo, uint32 hi);

/* Sets the dead hint of entry i; a share lock is enough. */
extern void mtp_hash_bucket_set_dead(Page page, int i);

/* rm_mask for hash pages: hides dead hints, and the metapage's count of entries. */
extern void mtp_hash_bucket_mask(Page page);

/* True if no reader leaves the page or its own arrays by the page's counts; its type is known. */
static inline bool
mtp_hash_bucket_counts_fit(Page page)
{
	MtpHashHeader *h = MtpHashHead(page);

	return h->n <= MTP_HASH_CAP(h->type) && h->nheavy <= MTP_HASH_MAX_HEAVY;
}

/* What is wrong with the page by itself, or NULL.  Safe on any bytes.  *at: the entry, or -1. */
extern const char *mtp_hash_bucket_fault(Page page, int *at);

#endif							/* MTP_BUCKET_H */
