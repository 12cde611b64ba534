/*
 * bucket.h
 *	  Layout of hash index pages, and what is done to one page in memory.
 *
 * Drawing and invariants are in README.md.  Nothing here knows locks or WAL.
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

/*
 * An entry: the spread hash (mtp_hash_spread) and the row.  10 bytes, 2-aligned.
 */
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
 * Follows PageHeaderData on all pages but the metapage and free ones, which have its first line only.
 * It ends like MtpPageHeader's first line, so that the page can be told from any other.
 */
typedef struct MtpHashHeader
{
	uint8		type;			/* MTP_HASH_* */
	uint8		format;			/* MTP_HASH_FORMAT */
	uint16		flags;
	uint32		bucket;			/* bucket number */
	uint32		lo;				/* hashes lo .. hi belong to the bucket; on a stash page: */
	uint32		hi;				/* … did when the page was last written as a whole */
	BlockNumber next;			/* next page of the same chain, or InvalidBlockNumber */
	BlockNumber source;			/* primary page: of the bucket whose stash still has entries of
								 * ours, or Invalid */
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
 * On a primary page the header is followed by these.  filter: a bit for each class of hashes that
 * may have entries in the stash (mtp_filter_bit); never for heavy ones.  A heavy hash has a chain of
 * stash pages of its own, besides what it has on the primary page and in the stash.
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

/* Fingerprints grow up from here, entries down from the page's end: entry i lies at MtpHashEntryAt(page, i). */
#define MTP_HASH_FP_AT(type) \
	(MTP_HEADER_AT + ((type) == MTP_HASH_BUCKET ? sizeof(MtpHashPrimary) : sizeof(MtpHashHeader)))
#define MtpHashFps(page)		((uint8 *) (page) + MTP_HASH_FP_AT(MtpHashHead(page)->type))
#define MtpHashEntryAt(page, i)	((MtpHashEntry *) ((char *) (page) + BLCKSZ) - 1 - (i))
#define MTP_HASH_CAP(type) \
	((int) ((BLCKSZ - MTP_HASH_FP_AT(type)) / (1 + sizeof(MtpHashEntry))))
#define MTP_HASH_MAX_ENTRIES	MTP_HASH_CAP(MTP_HASH_STASH)

/* The fingerprint of a hash: 1 .. 255.  The dead hint takes its place, and the hash itself stays. */
#define MTP_FP_DEAD 0

static inline uint8
mtp_hash_fp(uint32 hash)
{
	uint8		fp = (uint8) hash;

	return fp == MTP_FP_DEAD ? 1 : fp;
}

/* The filter's bit of a hash: other bits of it than its fingerprint, and not those that make the bucket. */
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

/* A page of the type with nothing but a header; links invalid, pd_lower left to the caller. */
extern void mtp_hash_bucket_init_header(Page page, uint8 type);

/* An empty page of the type; header filled in, links invalid, filter and heavy hashes empty. */
extern void mtp_hash_bucket_init(Page page, uint8 type, uint32 bucket, uint32 lo, uint32 hi);

/* An empty page that belongs to nothing. */
extern void mtp_hash_bucket_init_free(Page page);

static inline int
mtp_hash_bucket_room(Page page)
{
	return MTP_HASH_CAP(MtpHashHead(page)->type) - MtpHashHead(page)->n;
}

/* Appends n entries; they must fit (mtp_hash_bucket_room). */
extern void mtp_hash_bucket_append(Page page, int n, const MtpHashEntry *entries);

/*
 * Finds entries of a hash: writes their indexes, ascending, to `at` (room for MTP_HASH_MAX_ENTRIES) and
 * returns how many.  with_dead: those with a dead hint too.
 */
extern int	mtp_hash_bucket_find(Page page, uint32 hash, bool with_dead, uint16 *at);

/*
 * The same among n entries with fingerprints at fps, which the caller knows: the page itself may change meanwhile, and then the result is any.
 * The SSE2 form and its scalar twin do the same; mtp_hash_bucket_find_among is the one that the processor has.
 */
extern int	mtp_hash_bucket_find_among(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead, uint16 *at);
extern int	mtp_hash_bucket_find_scalar(Page page, const uint8 *fps, int n, uint32 hash, bool with_dead, uint16 *at);

/* How many entries have the hash, dead hints or not?  At most `limit`. */
extern int	mtp_hash_bucket_count(Page page, uint32 hash, int limit);

/*
 * Deletes the entries at[0] < at[1] < …: the last entries take their places.  Deterministic.  n and
 * ndead are kept.
 */
extern void mtp_hash_bucket_delete(Page page, int n, const uint16 *at);

/* Keeps only entries with lo <= hash <= hi, which become the page's; in their order.  Deterministic. */
extern void mtp_hash_bucket_retain(Page page, uint32 lo, uint32 hi);

/* Sets the dead hint of entry i. */
extern void mtp_hash_bucket_set_dead(Page page, int i);

/* rm_mask for hash pages: hides hints (fingerprints are renewed from the hashes, ndead, flags). */
extern void mtp_hash_bucket_mask(Page page);

/* What readers rely on so as not to leave the page or their arrays, on a page that is of a known type. */
static inline bool
mtp_hash_bucket_counts_fit(Page page)
{
	MtpHashHeader *h = MtpHashHead(page);

	return h->n <= MTP_HASH_CAP(h->type) && h->nheavy <= MTP_HASH_MAX_HEAVY;
}

/* What is wrong with the page by itself, or NULL; safe on any bytes.  *at: the entry, or -1. */
extern const char *mtp_hash_bucket_fault(Page page, int *at);

#endif							/* MTP_BUCKET_H */
