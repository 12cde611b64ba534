/*
 * sort.c
 *	  Sorts index entries.
 *
 * A span of keys (span.h) that takes few passes is sorted by all of its bits.  A wider one is
 * sorted by its top bits, about as many as tell the elements apart.  That leaves small groups,
 * which are sorted by insertion or on by their own spans.
 *
 * Wide entries are sorted by one word of 64 bits after the other (words.h).  Where only comparison
 * functions tell the order of keys, these are compared once each if they repeat, and their ranks
 * are words.  Text is sorted by guessed words first, and then by comparing neighbours.
 */
#include "batch/words.h"

#include "batch/span.h"
#include "core/inject.h"
#include "miscadmin.h"

#define RADIX_BITS		11		/* of a digit: larger ones miss the caches */
#define RADIX_PASSES	3
#define SMALL			24		/* fewer elements than this are sorted by insertion, … */
#define TINY			4		/* … than this by comparing tuples */
#define FEW				8		/* than this by halving, where only comparisons tell */
#define MEDIUM			512		/* than this with a pass more; rids by comparison */
#define PREFETCH		8		/* elements ahead whose tuples are fetched */
#define MAX_DISTINCT	(16 * 1024) /* keys that are ranked, … */
#define MIN_REPEATING	32		/* … in groups of so many elements, */
#define MIN_GUESSED		128		/* elements whose order is worth a guess */
#define SAMPLED			512		/* … of which about so many tell whether keys repeat */
#define JUDGED			1000	/* elements whose order assertions look at */

#define RADIX_SORT		radix_by_norm
#define RADIX_ELEMENT	MtpNarrow
#define RADIX_KEY(e)	((e)->norm)
#include "batch/radix.h"

#define RADIX_SORT		radix_by_rid
#define RADIX_ELEMENT	MtpNarrow
#define RADIX_KEY(e)	((e)->rid)
#include "batch/radix.h"

#define RADIX_SORT		radix_by_word
#define RADIX_ELEMENT	MtpWide
#define RADIX_KEY(e)	((e)->prefix)
#include "batch/radix.h"

#define ST_SORT			compare_rids
#define ST_ELEMENT_TYPE MtpNarrow
#define ST_COMPARE(a, b) ((a)->rid < (b)->rid ? -1 : (a)->rid > (b)->rid)
#define ST_SCOPE		static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
insert_by_word(MtpWide *a, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
	{
		MtpWide		e = a[i];
		uint32		j = i;

		for (; j > 0 && e.prefix < a[j - 1].prefix; j--)
			a[j] = a[j - 1];
		a[j] = e;
	}
}

/* Reduces a span that takes too many passes to its top bits; true if it did. */
static bool
coarsen(Span *s, uint32 n)
{
	int			want = pg_leftmost_one_pos32(n);

	want = Min((want + RADIX_BITS - 2) / (RADIX_BITS - 1), RADIX_PASSES) * (RADIX_BITS - 1);
	if (s->bits <= (n < MEDIUM ? want + RADIX_BITS : RADIX_BITS * RADIX_PASSES))
		return false;
	s->shift += s->bits - want;
	s->bits = want;
	return true;
}

/* Sorts elements of equal norm. */
static void
sort_rids(MtpNarrow *a, MtpNarrow *scratch, uint32 n)
{
	uint64		min = a[0].rid,
				max = a[0].rid,
				differ = 0;
	Span		span;
	uint64		last;

	if (n < MEDIUM)
	{
		compare_rids(a, n);
		return;
	}
	for (uint32 i = 1; i < n; i++)
	{
		min = Min(min, a[i].rid);
		max = Max(max, a[i].rid);
		differ |= a[i].rid ^ a[0].rid;
	}
	if (differ == 0)
		return;

	/* Least significant bits first, as many per round as the sort takes; each round is stable. */
	span = span_of(min, max, differ);
	for (last = span.shift + span.bits; span.shift < last; span.shift += RADIX_BITS * RADIX_PASSES)
	{
		span.bits = Min(last - span.shift, RADIX_BITS * RADIX_PASSES);
		radix_by_rid(a, scratch, n, &span);
	}
}

/*
 * Entries of a load usually come in the order of their rids: then a stable sort by norm suffices.
 * The recursion ends since each group's span has fewer bits.  Interrupts come in only where the
 * array has all of its entries (invariant E6).
 */
void
mtp_batch_sort_narrow(MtpNarrow *a, MtpNarrow *scratch, uint32 n)
{
	uint64		min,
				max,
				differ = 0;
	bool		sorted = true,
				rids_ascend = true,
				coarse;
	Span		span;

	if (n < SMALL)
	{
		/* By insertion. */
		for (uint32 i = 1; i < n; i++)
		{
			MtpNarrow	e = a[i];
			uint32		j = i;

			for (; j > 0 && mtp_narrow_less(&e, &a[j - 1]); j--)
				a[j] = a[j - 1];
			a[j] = e;
		}
		return;
	}
	CHECK_FOR_INTERRUPTS();
	min = max = a[0].norm;
	for (uint32 i = 1; i < n; i++)
	{
		min = Min(min, a[i].norm);
		max = Max(max, a[i].norm);
		differ |= a[i].norm ^ a[0].norm;
		sorted &= !mtp_narrow_less(&a[i], &a[i - 1]);
		rids_ascend &= a[i].rid >= a[i - 1].rid;
	}
	if (sorted)
		return;
	if (differ == 0)
	{
		sort_rids(a, scratch, n);
		return;
	}

	span = span_of(min, max, differ);
	coarse = coarsen(&span, n);
	radix_by_norm(a, scratch, n, &span);
	if (!coarse && rids_ascend)
		return;

	for (uint32 i = 0, next; i < n; i = next)
	{
		uint64		key = (a[i].norm - min) >> span.shift;

		for (next = i + 1; next < n && (a[next].norm - min) >> span.shift == key; next++)
			;
		if (next - i > 1)
			mtp_batch_sort_narrow(a + i, scratch, next - i);
	}
}

/* Sorts few entries, each of which finds its place among those before it by halving. */
static void
insert_by_comparison(MtpOrder *order, MtpWide *a, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
	{
		MtpWide		e = a[i];
		uint32		at = 0;

		for (uint32 end = i; at < end;)
		{
			uint32		middle = (at + end) / 2;

			if (mtp_batch_order_compare(order, &a[middle], &e) < 0)
				at = middle + 1;
			else
				end = middle;
		}
		memmove(&a[at + 1], &a[at], (i - at) * sizeof(MtpWide));
		a[at] = e;
	}
}

/* Merges the sorted halves of an array, which has all entries wherever a comparison may raise. */
static void
merge_halves(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 half, uint32 n)
{
	uint32		i = 0,
				j = half,
				merged = 0;

	while (i < half && j < n)
	{
		CHECK_FOR_INTERRUPTS();
		scratch[merged++] = mtp_batch_order_compare(order, &a[i], &a[j]) < 0 ? a[i++] : a[j++];
	}

	/* What is left of the second half stands where it should. */
	memmove(a + merged, a + i, (half - i) * sizeof(MtpWide));
	memcpy(a, scratch, merged * sizeof(MtpWide));
}

/*
 * Sorts by comparing tuples, which may cost a call of strcoll() each: so by merging, which compares
 * less often than core's quicksort.
 */
static void
sort_by_comparison(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	uint32		half = n / 2;

	CHECK_FOR_INTERRUPTS();
	if (n < FEW)
	{
		insert_by_comparison(order, a, n);
		return;
	}
	sort_by_comparison(order, a, scratch, half);
	sort_by_comparison(order, a + half, scratch, n - half);
	if (mtp_batch_order_compare(order, &a[half - 1], &a[half]) > 0)
		merge_halves(order, a, scratch, half, n);
}

/*
 * Copies the entries to scratch: first such as ascend, and at the end those that are out of place.
 * Returns how many ascend, or 0 if `most` don't: then scratch is of no use.  An entry below the
 * last one that was kept is out of place; or that one is, if the entry is above the one before it,
 * or if a few in a row are below.  (E. Ernerfeldt's drop-merge sort, 2016.)
 */
static uint32
keep_ascending(MtpOrder *order, const MtpWide *a, MtpWide *scratch, uint32 n, uint32 most)
{
	uint32		kept = 0,
				dropped = 0,
				streak = 0;

	for (uint32 i = 0; i < n; i++)
	{
		bool		one;

		CHECK_FOR_INTERRUPTS();
		if (kept == 0 || mtp_batch_order_compare(order, &scratch[kept - 1], &a[i]) < 0)
		{
			scratch[kept++] = a[i];
			streak = 0;
			continue;
		}
		one = kept == 1 || mtp_batch_order_compare(order, &scratch[kept - 2], &a[i]) < 0;
		if (one || ++streak == FEW)
		{
			do
			{
				CHECK_FOR_INTERRUPTS();
				kept--;
				dropped++;
				scratch[n - dropped] = scratch[kept];
			} while (!one && kept > 0 && dropped < most &&
					 mtp_batch_order_compare(order, &scratch[kept - 1], &a[i]) > 0);
			scratch[kept++] = a[i];
			streak = 0;
		}
		else
			scratch[n - ++dropped] = a[i];
		if (dropped >= most)
			return 0;
	}
	return kept;
}

/* Merges entries kept .. n - 1, which are few, into those before them; both are sorted. */
static void
merge_few(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 kept, uint32 n)
{
	uint32		place = 0,
				from = 0,
				merged = 0;

	for (uint32 i = kept; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (uint32 end = kept; place < end;)
		{
			uint32		middle = place + (end - place) / 2;

			if (mtp_batch_order_compare(order, &a[middle], &a[i]) < 0)
				place = middle + 1;
			else
				end = middle;
		}
		while (from < place)
			scratch[merged++] = a[from++];
		scratch[merged++] = a[i];
	}
	memmove(a + merged, a + from, (kept - from) * sizeof(MtpWide));
	memcpy(a, scratch, merged * sizeof(MtpWide));
}

/*
 * Sorts entries most of which ascend already: these are compared with their neighbours alone. Where
 * too many do not, little is lost beside sorting.
 */
static void
sort_ascending(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	uint32		kept = keep_ascending(order, a, scratch, n, n / FEW);

	if (kept == n)
		return;
	if (kept == 0)
	{
		sort_by_comparison(order, a, scratch, n);
		return;
	}
	memcpy(a, scratch, n * sizeof(MtpWide));
	sort_by_comparison(order, a + kept, scratch, n - kept);
	merge_few(order, a, scratch, kept, n);
}

/* What the sort of an array of wide entries knows. */
typedef struct WideSort
{
	MtpOrder   *order;
	bool		tids_ascend;	/* at its beginning, and so among equal keys: all of it is stable */
} WideSort;

/* The first entry of those that have a key in the same bytes, and which of these it is. */
typedef struct Distinct
{
	MtpWide		entry;
	uint32		number;
} Distinct;

#define ST_SORT			compare_distinct
#define ST_ELEMENT_TYPE Distinct
#define ST_COMPARE(a, b, order) mtp_batch_order_compare(order, &(a)->entry, &(b)->entry)
#define ST_COMPARE_ARG_TYPE MtpOrder
#define ST_SCOPE		static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* True if tuples differ in their TIDs alone. */
static inline bool
same_bytes(IndexTuple a, IndexTuple b)
{
	return a->t_info == b->t_info &&
		memcmp(a + 1, b + 1, IndexTupleSize(a) - sizeof(IndexTupleData)) == 0;
}

static inline uint32
hash_of_bytes(IndexTuple itup)
{
	Size		size = IndexTupleSize(itup);
	uint64		hash = size;

	for (Size at = sizeof(IndexTupleData); at + MTP_WORD_BYTES <= size; at += MTP_WORD_BYTES)
	{
		uint64		bytes;

		memcpy(&bytes, (char *) itup + at, MTP_WORD_BYTES);
		hash = (hash ^ bytes) * UINT64CONST(0x9E3779B97F4A7C15);
		hash ^= hash >> 32;
	}
	return (uint32) hash;
}

/*
 * Where only comparison functions tell the order, and keys repeat: writes the entries to scratch
 * with their keys' ranks.  Equal bytes are equal keys, so each of these is compared once.  Keys
 * that are equal in other bytes (1.0 and 1.00) have one rank.  False if keys hardly repeat.
 */
static bool
rank_keys(WideSort *s, const MtpWide *a, MtpWide *scratch, uint32 n)
{
	uint32		most = Min(n / 2 + MIN_REPEATING, MAX_DISTINCT);
	uint32		mask = pg_nextpower2_32(2 * most) - 1;
	uint32	   *table;			/* number of a key + 1, or 0 */
	Distinct   *keys;
	uint32		nkeys = 0,
				i;

	if (n < MIN_REPEATING)
		return false;
	table = palloc0((mask + 1) * sizeof(uint32));
	keys = palloc(most * sizeof(Distinct));
	for (i = 0; i < n; i++)
	{
		uint32		at = hash_of_bytes(a[i].itup) & mask;

		while (table[at] != 0 && !same_bytes(keys[table[at] - 1].entry.itup, a[i].itup))
			at = (at + 1) & mask;
		if (table[at] == 0)
		{
			if (nkeys == Min(i / 2 + SAMPLED, most))
				break;
			keys[nkeys].entry = a[i];
			keys[nkeys].number = nkeys;
			table[at] = ++nkeys;
		}
		scratch[i].prefix = table[at] - 1;
		scratch[i].itup = a[i].itup;
	}
	if (i == n)
	{
		uint32	   *ranks = table;
		uint32		rank = 0;

		compare_distinct(keys, nkeys, s->order);
		for (uint32 k = 0; k < nkeys; k++)
		{
			if (k > 0 &&
				mtp_batch_order_compare_keys(s->order, &keys[k - 1].entry, &keys[k].entry) != 0)
				rank++;
			ranks[keys[k].number] = rank;
		}
		for (uint32 k = 0; k < n; k++)
			scratch[k].prefix = ranks[scratch[k].prefix];
	}
	pfree(table);
	pfree(keys);
	return i == n;
}

/* Reads the words at a place into scratch; false if some entry has none. */
static bool
read_words(WideSort *s, const MtpWide *a, MtpWide *scratch, uint32 n, MtpWordAt at)
{
	if (at.kind == MTP_WORD_NONE)
		return false;
	if (mtp_word_is_prefix(at))
	{
		memcpy(scratch, a, n * sizeof(MtpWide));
		return true;
	}
	for (uint32 i = 0; i < n; i++)
	{
		if (i + PREFETCH < n)
			__builtin_prefetch(a[i + PREFETCH].itup);
		scratch[i].itup = a[i].itup;
		if (!mtp_word_get(s->order, a[i].itup, at, &scratch[i].prefix))
			return false;
	}
	return true;
}

/* The span of scratch's words, with no bits if they are equal; *sorted: do they ascend? */
static Span
look_at_words(const MtpWide *scratch, uint32 n, bool *sorted)
{
	uint64		min = scratch[0].prefix,
				max = min,
				differ = 0;
	Span		span = {.min = min};

	*sorted = true;
	for (uint32 i = 1; i < n; i++)
	{
		uint64		word = scratch[i].prefix;

		*sorted &= word >= max;
		min = Min(min, word);
		max = Max(max, word);
		differ |= word ^ scratch[0].prefix;
	}
	if (differ != 0)
		span = span_of(min, max, differ);
	return span;
}

static void sort_words(WideSort *s, MtpWide *a, MtpWide *scratch, uint32 n, MtpWordAt at);

/* Sorts entries whose words are equal, and that have no more of them. */
static void
sort_without_words(WideSort *s, MtpWide *a, MtpWide *scratch, uint32 n)
{
	if (n >= MIN_GUESSED && mtp_batch_order_guess(s->order))
	{
		sort_words(s, a, scratch, n, mtp_word_guess(s->order));
		sort_ascending(s->order, a, scratch, n);
	}
	else
		sort_by_comparison(s->order, a, scratch, n);
}

/* True if entries differ in their TIDs alone. */
static bool
all_same_bytes(const MtpWide *a, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
		if (!same_bytes(a[0].itup, a[i].itup))
			return false;
	return true;
}

/*
 * Sorts entries whose words before `at` are equal.  Their words are sorted in scratch, so the array
 * has its entries and their prefixes wherever something may raise.  Groups whose words are equal,
 * or equal as far as they were looked at, follow; a group's part of scratch is its own.  Entries
 * end, and a span that was coarsened has fewer bits each time, so the recursion does, too.
 *
 * Among guessed words no comparison is asked: that comes at the end of all of them.
 */
static void
sort_words(WideSort *s, MtpWide *a, MtpWide *scratch, uint32 n, MtpWordAt at)
{
	uint64		prefix = a[0].prefix;
	bool		sorted;
	Span		span;

	for (;;)
	{
		bool		compare = n < TINY && !mtp_word_is_prefix(at) && !at.guess;

		CHECK_FOR_INTERRUPTS();
		MTP_INJECT("compare");
		if (at.kind == MTP_WORD_RANKS && at.offset == 0 && all_same_bytes(a, n))
			at.kind = MTP_WORD_TID;
		if (at.kind == MTP_WORD_END || (at.kind == MTP_WORD_TID && s->tids_ascend))
			return;
		if (!compare && !read_words(s, a, scratch, n, at))
		{
			if (at.guess)
				return;

			/* Ranks are words as well, with the TID behind them. */
			at.kind = MTP_WORD_NONE;
			compare = !rank_keys(s, a, scratch, n);
		}
		if (compare)
		{
			sort_without_words(s, a, scratch, n);
			return;
		}
		span = look_at_words(scratch, n, &sorted);
		if (span.bits > 0)
			break;
		at = mtp_word_next(s->order, at, span.min);
	}

	if (sorted)
		span.shift = 0;
	else if (n < SMALL)
	{
		span.shift = 0;
		insert_by_word(scratch, n);
	}
	else
	{
		coarsen(&span, n);
		radix_by_word(scratch, a, n, &span);
	}
	if (!sorted)
		for (uint32 i = 0; i < n; i++)
		{
			a[i].prefix = mtp_word_is_prefix(at) ? scratch[i].prefix : prefix;
			a[i].itup = scratch[i].itup;
		}
	for (uint32 i = 0, next; i < n; i = next)
	{
		uint64		word = scratch[i].prefix;
		uint64		key = (word - span.min) >> span.shift;

		for (next = i + 1; next < n; next++)
			if ((scratch[next].prefix - span.min) >> span.shift != key)
				break;
		if (next - i > 1)
			sort_words(s, a + i, scratch + i, next - i,
					   span.shift == 0 ? mtp_word_next(s->order, at, word) : at);
	}
}

/*
 * True if TIDs ascend.  They do as entries come, and descend in a run, which grows downward: that
 * is turned round.
 */
static bool
make_tids_ascend(MtpWide *a, uint32 n)
{
	bool		ascend = true,
				descend = true;

	for (uint32 i = 1; i < n && (ascend || descend); i++)
	{
		uint64		tid = mtp_rid_from_tid(&a[i].itup->t_tid);
		uint64		before = mtp_rid_from_tid(&a[i - 1].itup->t_tid);

		ascend &= tid >= before;
		descend &= tid <= before;
	}
	if (descend && !ascend)
		for (uint32 i = 0, j = n - 1; i < j; i++, j--)
		{
			MtpWide		e = a[i];

			a[i] = a[j];
			a[j] = e;
		}
	return ascend || descend;
}

/* The same invariant; comparisons may raise where interrupts may come. */
bool
mtp_batch_sort_wide(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	WideSort	s = {.order = order};
	MtpWordAt	first = {0};

	if (n < 2)
		return true;
	s.tids_ascend = make_tids_ascend(a, n);
	sort_words(&s, a, scratch, n, first);
#ifdef USE_ASSERT_CHECKING
	if (order->nwords == order->nkeys)
		for (uint32 i = 1; i < Min(n, JUDGED); i++)
			Assert(mtp_batch_order_judge(order, &a[i - 1], &a[i]) <= 0);
#endif
	return s.tids_ascend;
}
