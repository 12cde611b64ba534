/*
 * search.h
 *	  Finding a place on a page by its two-level directory, inline.
 *
 * The directory narrows the place down to the items whose head equals the probe's; the caller's
 * predicate decides among these.  Never touches bodies outside of that range.
 */
#ifndef MTP_SEARCH_H
#define MTP_SEARCH_H

#include "page/page.h"

#if defined(__SSE2__) && !defined(MTP_NO_SIMD)
#include <emmintrin.h>
#define MTP_USE_SSE2
#endif

/*
 * How many of the n leading values of a sorted array are below `key` (not above it, if or_equal)?
 * `a` may be read up to the next multiple of four.
 */
static inline int
mtp_count_below_scalar(const uint32 *a, int n, uint32 key, bool or_equal)
{
	int			c = 0;

	for (int i = 0; i < n; i++)
		c += or_equal ? a[i] <= key : a[i] < key;
	return c;
}

#ifdef MTP_USE_SSE2
/* Looks at all of them, so that no branch depends on the key. */
static inline int
mtp_count_below_sse2(const uint32 *a, int n, uint32 key, bool or_equal)
{
	const __m128i sign = _mm_set1_epi32((int) 0x80000000);
	const __m128i k = _mm_set1_epi32((int) (key ^ 0x80000000));
	__m128i		count = _mm_setzero_si128();	/* less the values that are below; or_equal: that
												 * are above */
	int			i;

	for (i = 0; i + 4 <= n; i += 4)
	{
		__m128i		v = _mm_xor_si128(_mm_loadu_si128((const __m128i *) (a + i)), sign);

		count = _mm_add_epi32(count, or_equal ? _mm_cmpgt_epi32(v, k) : _mm_cmplt_epi32(v, k));
	}
	if (i < n)
	{
		__m128i		v = _mm_xor_si128(_mm_loadu_si128((const __m128i *) (a + i)), sign);
		__m128i		used = _mm_cmplt_epi32(_mm_setr_epi32(0, 1, 2, 3), _mm_set1_epi32(n - i));

		count = _mm_add_epi32(count, _mm_and_si128(or_equal ? _mm_cmpgt_epi32(v, k) : _mm_cmplt_epi32(v, k), used));
	}
	count = _mm_add_epi32(count, _mm_shuffle_epi32(count, _MM_SHUFFLE(1, 0, 3, 2)));
	count = _mm_add_epi32(count, _mm_shuffle_epi32(count, _MM_SHUFFLE(2, 3, 0, 1)));
	return or_equal ? Max(n, 0) + _mm_cvtsi128_si32(count) : -_mm_cvtsi128_si32(count);
}
#define mtp_count_below mtp_count_below_sse2
#else
#define mtp_count_below mtp_count_below_scalar
#endif

/*
 * Of the n heads of a node, how many are below the key, and how many are not above it?  No branch depends on it: all of the
 * node's are compared, and the first one that is not so tells, as they are sorted.
 */
#ifdef MTP_USE_SSE2
static inline int
mtp_node_mask(__m128i v0, __m128i v1, __m128i v2, __m128i v3)
{
	return _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(v0, v1), _mm_packs_epi32(v2, v3)));
}

static inline void
mtp_node_range(const uint32 *heads, int n, uint32 key, int *below, int *not_above)
{
	const __m128i sign = _mm_set1_epi32((int) 0x80000000);
	const __m128i k = _mm_set1_epi32((int) (key ^ 0x80000000));
	const __m128i *h = (const __m128i *) heads;
	__m128i		v0 = _mm_xor_si128(_mm_loadu_si128(h), sign),
				v1 = _mm_xor_si128(_mm_loadu_si128(h + 1), sign),
				v2 = _mm_xor_si128(_mm_loadu_si128(h + 2), sign),
				v3 = _mm_xor_si128(_mm_loadu_si128(h + 3), sign);
	int			less = mtp_node_mask(_mm_cmplt_epi32(v0, k), _mm_cmplt_epi32(v1, k), _mm_cmplt_epi32(v2, k), _mm_cmplt_epi32(v3, k));
	int			more = mtp_node_mask(_mm_cmpgt_epi32(v0, k), _mm_cmpgt_epi32(v1, k), _mm_cmpgt_epi32(v2, k), _mm_cmpgt_epi32(v3, k));

	/* Behind the last one may be anything. */
	*below = Min(__builtin_ctz(~less), n);
	*not_above = Min(__builtin_ctz(more | 1 << MTP_NODE_SLOTS), n);
}
#else
static inline void
mtp_node_range(const uint32 *heads, int n, uint32 key, int *below, int *not_above)
{
	n = Min(n, MTP_NODE_SLOTS);
	*below = mtp_count_below(heads, n, key, false);
	*not_above = mtp_count_below(heads, n, key, true);
}
#endif

#define MTP_PAGE_FIRST_BYTES	256

/* Starts loading the directory's first level; call as soon as the page is known. */
static inline void
mtp_page_prefetch(Page page)
{
	for (int i = 0; i < MTP_PAGE_FIRST_BYTES; i += 64)
		__builtin_prefetch((char *) page + i);
}

#ifdef MTP_USE_SSE2
/* All bits of the first n of sixteen bytes, 0 <= n <= 16 */
static inline __m128i
mtp_first_bytes(int n)
{
	static const uint8 bytes[32] = {
		0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF
	};

	return _mm_loadu_si128((const __m128i *) (bytes + 16 - n));
}
#endif

/* Rank of the first item of a node, of a directory that has room for cap ones, a multiple of 16. */
#ifdef MTP_USE_SSE2
static inline int
mtp_node_rank(const uint8 *counts, int node, int cap)
{
	__m128i		sum = _mm_setzero_si128();

	for (int i = 0; i < cap; i += 16)
	{
		__m128i		below = mtp_first_bytes(Min(Max(node - i, 0), 16));

		sum = _mm_add_epi64(sum, _mm_sad_epu8(_mm_and_si128(_mm_loadu_si128((const __m128i *) (counts + i)), below), _mm_setzero_si128()));
	}
	return _mm_cvtsi128_si32(sum) + _mm_cvtsi128_si32(_mm_srli_si128(sum, 8));
}
#else
static inline int
mtp_node_rank(const uint8 *counts, int node, int cap)
{
	int			rank = 0;

	for (int i = 0; i < node; i++)
		rank += counts[i];
	return rank;
}
#endif

/* Which of a node's `count` items (0 … MTP_NODE_SLOTS) are not marked dead?  Bit i stands for slot i. */
static inline uint32
mtp_node_live(const MtpNode *node, int count)
{
	uint32		dead = 0;

	StaticAssertStmt(MTP_NODE_SLOTS == 16 && MTP_SLOT_DEAD == 1, "two vectors of eight, and the lowest bit");
#ifdef MTP_USE_SSE2
	{
		__m128i		low = _mm_slli_epi16(_mm_loadu_si128((const __m128i *) node->offs), 15);
		__m128i		high = _mm_slli_epi16(_mm_loadu_si128((const __m128i *) (node->offs + 8)), 15);

		dead = _mm_movemask_epi8(_mm_packs_epi16(low, high));
	}
#else
	for (int i = 0; i < MTP_NODE_SLOTS; i++)
		dead |= (uint32) (node->offs[i] & MTP_SLOT_DEAD) << i;
#endif
	return ~dead & ((1u << count) - 1);
}

/*
 * Is the item before the wanted place?  Must be monotone along the page: true … true false … false.
 */
typedef bool (*MtpBefore) (void *arg, IndexTuple item);

/*
 * The place among the items whose heads equal the probe's, of which the first one is in node p->node; without heads among all.
 */
static inline void
mtp_place_among(Page page, const MtpPageHeader *h, bool by_head, uint32 head, MtpBefore before, void *arg, MtpPos *p)
{
	const uint32 *dir = MtpDir(page);
	const uint8 *counts = (const uint8 *) (dir + h->cap);
	const MtpNode *nodes = (const MtpNode *) (counts + h->cap);
	int			lo = p->node,
				hi = h->nnodes;
	int			slo = 0,
				shi;

	/*
	 * The node: the first whose last item is not before the probe.  The last item of node hi has a
	 * larger head.
	 */
	if (by_head)
		for (hi = lo; hi < h->nnodes && dir[hi] == head; hi++)
			;
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (before(arg, mtp_node_item(page, &nodes[mid], counts[mid] - 1)))
			lo = mid + 1;
		else
			hi = mid;
	}
	p->node = lo;
	p->slot = 0;
	if (lo == h->nnodes)
		return;
	shi = counts[lo] - 1;		/* the last one has been asked about */
	if (by_head)
		mtp_node_range(nodes[lo].heads, counts[lo], head, &slo, &shi);
	while (slo < shi)
	{
		int			mid = (slo + shi) / 2;

		if (before(arg, mtp_node_item(page, &nodes[lo], mid)))
			slo = mid + 1;
		else
			shi = mid;
	}
	p->slot = slo;
}

/*
 * The first place whose item is not `before` the probe.  norm is the probe's normalized key; by_head is false if it has none comparable with
 * this page's (then all items are candidates).
 *
 * The header is the caller's, the page's own or a copy: the page itself may change meanwhile, and then the place is any, and `before` may be
 * asked about any 16 bits behind the page's start.  Reads at most a kilobyte behind the page's end.  ranked: is the place's rank
 * wanted?  Else pos only tells the page's first place, 0, from the others.
 *
 * Where heads tell the items apart the place is the first whose head is not below the probe's, and its item is asked about to be sure: a branch that is
 * guessed, so nobody waits for the item.
 */
static pg_attribute_always_inline MtpPos
mtp_page_search_by(Page page, const MtpPageHeader *h, uint64 norm, bool by_head, bool ranked, MtpBefore before, void *arg)
{
	const uint32 *dir = MtpDir(page);
	const uint8 *counts = (const uint8 *) (dir + h->cap);
	const MtpNode *nodes = (const MtpNode *) (counts + h->cap);
	uint32		head = mtp_page_head(h, norm);
	bool		among = !by_head;
	MtpPos		p = {0, 0, 0};

	if (by_head)
	{
		p.node = mtp_count_below(dir, h->nnodes, head, false);

		/* The whole node: its items' offsets lie in other cache lines than its heads. */
		__builtin_prefetch((const char *) &nodes[p.node]);
		__builtin_prefetch((const char *) &nodes[p.node] + 64);
		__builtin_prefetch((const char *) &nodes[p.node + 1] - 1);
		if (p.node < h->nnodes)
		{
			int			end;

			mtp_node_range(nodes[p.node].heads, counts[p.node], head, &p.slot, &end);
			among = p.slot < end && before(arg, mtp_node_item(page, &nodes[p.node], p.slot));
		}
	}
	if (unlikely(among))
	{
		MtpPos		q = p;		/* p itself stays in registers */

		mtp_place_among(page, h, by_head, head, before, arg, &q);
		p = q;
	}
	p.pos = ranked ? mtp_node_rank(counts, p.node, h->cap) + p.slot : (p.node | p.slot) != 0;

	/* Behind a node's last item is where the next one starts. */
	if (p.node < h->nnodes && p.slot == counts[p.node])
	{
		p.node++;
		p.slot = 0;
	}
	return p;
}

#endif							/* MTP_SEARCH_H */
