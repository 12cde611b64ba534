/*
 * search.h
 *	  Finds a place on a page by its two-level directory, inline.
 *
 * The directory narrows the place down to the items whose head equals the probe's.  The caller's
 * predicate decides among these.  No other body is read.
 */
#ifndef MTP_SEARCH_H
#define MTP_SEARCH_H

#include "page/page.h"

#if defined(__SSE2__) && !defined(MTP_NO_SIMD)
#include <emmintrin.h>
#define MTP_USE_SSE2
#endif

/*
 * How many leading values of a sorted array of n are below the key, or with or_equal not above it.
 * `a` may be read up to the next multiple of four values.
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
/* Compares all values, so that no branch depends on the key. */
static inline int
mtp_count_below_sse2(const uint32 *a, int n, uint32 key, bool or_equal)
{
	const __m128i sign = _mm_set1_epi32((int) 0x80000000);
	const __m128i k = _mm_set1_epi32((int) (key ^ 0x80000000));
	__m128i		count = _mm_setzero_si128();	/* minus those below (or_equal: above) */
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

		count = _mm_add_epi32(count, _mm_and_si128(or_equal ? _mm_cmpgt_epi32(v, k)
												   : _mm_cmplt_epi32(v, k), used));
	}
	count = _mm_add_epi32(count, _mm_shuffle_epi32(count, _MM_SHUFFLE(1, 0, 3, 2)));
	count = _mm_add_epi32(count, _mm_shuffle_epi32(count, _MM_SHUFFLE(2, 3, 0, 1)));
	return or_equal ? Max(n, 0) + _mm_cvtsi128_si32(count) : -_mm_cvtsi128_si32(count);
}
#define mtp_count_below mtp_count_below_sse2

/* A bit for each of 16 values, which are all ones or all zeros */
static inline int
mtp_node_mask(__m128i v0, __m128i v1, __m128i v2, __m128i v3)
{
	return _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(v0, v1), _mm_packs_epi32(v2, v3)));
}

/* All bits of the first n of sixteen bytes, 0 <= n <= 16 */
static inline __m128i
mtp_first_bytes(int n)
{
	static const uint8 bytes[32] = {
		0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
		0xFF
	};

	return _mm_loadu_si128((const __m128i *) (bytes + 16 - n));
}
#else
#define mtp_count_below mtp_count_below_scalar
#endif

/*
 * Of the n heads of a node, how many are below the key, and how many are not above it.  No branch
 * depends on the key: all heads are compared, and the first one that differs tells, since they are
 * sorted.
 */
static inline void
mtp_node_range(const uint32 *heads, int n, uint32 key, int *below, int *not_above)
{
#ifdef MTP_USE_SSE2
	const __m128i sign = _mm_set1_epi32((int) 0x80000000);
	const __m128i k = _mm_set1_epi32((int) (key ^ 0x80000000));
	const __m128i *h = (const __m128i *) heads;
	__m128i		v0 = _mm_xor_si128(_mm_loadu_si128(h), sign),
				v1 = _mm_xor_si128(_mm_loadu_si128(h + 1), sign),
				v2 = _mm_xor_si128(_mm_loadu_si128(h + 2), sign),
				v3 = _mm_xor_si128(_mm_loadu_si128(h + 3), sign);
	int			less = mtp_node_mask(_mm_cmplt_epi32(v0, k), _mm_cmplt_epi32(v1, k),
									 _mm_cmplt_epi32(v2, k), _mm_cmplt_epi32(v3, k));
	int			more = mtp_node_mask(_mm_cmpgt_epi32(v0, k), _mm_cmpgt_epi32(v1, k),
									 _mm_cmpgt_epi32(v2, k), _mm_cmpgt_epi32(v3, k));

	/* Slots behind the last head may hold anything. */
	*below = Min(__builtin_ctz(~less), n);
	*not_above = Min(__builtin_ctz(more | 1 << MTP_NODE_SLOTS), n);
#else
	n = Min(n, MTP_NODE_SLOTS);
	*below = mtp_count_below(heads, n, key, false);
	*not_above = mtp_count_below(heads, n, key, true);
#endif
}

#define MTP_PAGE_FIRST_BYTES	256

/* Prefetches the header and the directory's first level.  Call it as soon as the page is known. */
static inline void
mtp_page_prefetch(Page page)
{
	for (int i = 0; i < MTP_PAGE_FIRST_BYTES; i += 64)
		__builtin_prefetch((char *) page + i);
}

/* Prefetches a whole node: the offsets of its items lie in other cache lines than its heads. */
static inline void
mtp_node_prefetch(const MtpNode *node)
{
	__builtin_prefetch((const char *) node);
	__builtin_prefetch((const char *) node + 64);
	__builtin_prefetch((const char *) (node + 1) - 1);
}

/*
 * Prefetches what a search for a key reads next: the high key, and the node.  The page need not be
 * pinned: it may change meanwhile, or become another one.
 */
static inline void
mtp_page_prefetch_place(Page page, uint64 norm)
{
#ifndef USE_VALGRIND			/* which takes what is not pinned for freed memory */
	MtpPageHeader h = *MtpHeader(page);
	int			node;

	pg_compiler_barrier();		/* what is judged is what is used */
	if (h.shift > 63 || h.nnodes > h.cap ||
		MTP_DIR_AT + h.cap * 5 + h.nnodes * sizeof(MtpNode) > BLCKSZ)
		return;
	__builtin_prefetch(page + h.highkey % BLCKSZ);
	node = mtp_count_below(MtpDir(page), h.nnodes, mtp_page_head(&h, norm), false);
	if (node < h.nnodes)
		mtp_node_prefetch((const MtpNode *) (page + MTP_DIR_AT + h.cap * 5) + node);
#endif
}

/*
 * The rank of a node's first item.  cap: the nodes that the directory has room for, a multiple of
 * 16.
 */
static inline int
mtp_node_rank(const uint8 *counts, int node, int cap)
{
#ifdef MTP_USE_SSE2
	__m128i		sum = _mm_setzero_si128();

	for (int i = 0; i < cap; i += 16)
	{
		__m128i		below = mtp_first_bytes(Min(Max(node - i, 0), 16));

		below = _mm_and_si128(_mm_loadu_si128((const __m128i *) (counts + i)), below);
		sum = _mm_add_epi64(sum, _mm_sad_epu8(below, _mm_setzero_si128()));
	}
	return _mm_cvtsi128_si32(sum) + _mm_cvtsi128_si32(_mm_srli_si128(sum, 8));
#else
	int			rank = 0;

	for (int i = 0; i < node; i++)
		rank += counts[i];
	return rank;
#endif
}

/*
 * The slots of a node whose items are not marked dead, as bits: bit i stands for slot i.  count:
 * the node's items, 0 .. MTP_NODE_SLOTS.
 */
static inline uint32
mtp_node_live(const MtpNode *node, int count)
{
	uint32		dead = 0;

	StaticAssertStmt(MTP_NODE_SLOTS == 16 &&
					 MTP_SLOT_DEAD == 1, "two vectors of eight, and the lowest bit");
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
 * True if the item with this offset, flags included, and head is before the wanted place.  Along
 * the page it must be true up to some item, and false from there on.
 */
typedef bool (*MtpBefore) (void *arg, unsigned off, uint32 head);

/*
 * Finds the place among the items whose heads equal the probe's.  The first of these is in node
 * p->node.  Without by_head, among all items.
 */
static inline void
mtp_place_among(Page page, const MtpPageHeader *h, bool by_head, uint32 head, MtpBefore before,
				void *arg, MtpPos *p)
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

		if (before(arg, nodes[mid].offs[counts[mid] - 1], dir[mid]))
			lo = mid + 1;
		else
			hi = mid;
	}
	p->node = lo;
	p->slot = 0;
	if (lo == h->nnodes)
		return;
	shi = counts[lo] - 1;		/* the predicate has judged the last one */
	if (by_head)
		mtp_node_range(nodes[lo].heads, counts[lo], head, &slo, &shi);
	while (slo < shi)
	{
		int			mid = (slo + shi) / 2;

		if (before(arg, nodes[lo].offs[mid], nodes[lo].heads[mid]))
			slo = mid + 1;
		else
			shi = mid;
	}
	p->slot = slo;
}

/*
 * Finds the first place whose item is not `before` the probe.  norm is the probe's normalized key.
 * by_head is false if the page's heads do not compare with it: then all items are candidates.
 * With ranked, pos is the place's rank; without, it only tells the page's first place, 0, from the
 * others.
 *
 * h is the page's header, or a copy of it.  With a copy the page may change meanwhile: then the
 * result is any place, and `before` may be asked about any 16 bits behind the page's start.  Reads
 * at most a kilobyte behind the page's end.
 *
 * Where heads tell the items apart, the place is the first whose head is not below the probe's.
 * `before` is asked about its item only to make sure: that is a branch which the processor
 * guesses, so nothing waits for the item.
 */
static pg_attribute_always_inline MtpPos
mtp_page_search_by(Page page, const MtpPageHeader *h, uint64 norm, bool by_head, bool ranked,
				   MtpBefore before, void *arg)
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
		mtp_node_prefetch(&nodes[p.node]);
		if (p.node < h->nnodes)
		{
			int			end;

			mtp_node_range(nodes[p.node].heads, counts[p.node], head, &p.slot, &end);
			among = p.slot < end &&
				before(arg, nodes[p.node].offs[p.slot], head);
		}
	}
	if (unlikely(among))
	{
		MtpPos		q = p;		/* p itself stays in registers */

		mtp_place_among(page, h, by_head, head, before, arg, &q);
		p = q;
	}
	p.pos = ranked ? mtp_node_rank(counts, p.node, h->cap) + p.slot : (p.node | p.slot) != 0;

	/* Behind a node's last item the next node starts. */
	if (p.node < h->nnodes && p.slot == counts[p.node])
	{
		p.node++;
		p.slot = 0;
	}
	return p;
}

#endif							/* MTP_SEARCH_H */
