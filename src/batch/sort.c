/*
 * sort.c
 *	  Sorts index entries.
 *
 * Keys have 64 bits, of which few differ in practice: four bytes of an integer, the low bits of a
 * clustered key.  Those that differ are a span.  A span that takes few passes is sorted by all of
 * its bits.  A wider one is sorted by its top bits, about as many as tell the elements apart.  That
 * leaves small groups; these are compared, or sorted on by their own spans if they are large.
 */
#include "batch/words.h"

#include "core/inject.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"

#define RADIX_BITS		11		/* of a digit: larger ones miss the caches */
#define RADIX_PASSES	3
#define SMALL			24		/* fewer elements than this are sorted by insertion, */
#define TINY			4		/* than this by comparison where the keys are wide */
#define MEDIUM			512		/* than this with a pass more, and rids by comparison */
#define PREFETCH		8		/* elements ahead whose tuples are fetched */
#define JUDGED			1000	/* elements whose order assertions look at */

/* The bits of a key that count: (key - min) >> shift has `bits` bits. */
typedef struct Span
{
	uint64		min;
	int			shift;
	int			bits;
} Span;

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

#define ST_SORT			compare_sort
#define ST_ELEMENT_TYPE MtpWide
#define ST_COMPARE(a, b, order) mtp_batch_order_compare(order, a, b)
#define ST_COMPARE_ARG_TYPE MtpOrder
#define ST_SCOPE		static
#define ST_CHECK_FOR_INTERRUPTS
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

/* The span of keys from min to max.  differ is not zero, and has the bits set that differ. */
static Span
span_of(uint64 min, uint64 max, uint64 differ)
{
	Span		s = {.min = min};

	s.shift = pg_rightmost_one_pos64(differ);
	s.bits = pg_leftmost_one_pos64((max - min) >> s.shift) + 1;
	return s;
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

/* What the sort of an array of wide entries knows. */
typedef struct WideSort
{
	MtpOrder   *order;
	bool		tids_ascend;	/* at its beginning, and so among equal keys: all of it is stable */
} WideSort;

/*
 * Reads the next word of each entry into scratch (words.h), passing those that all entries share.
 * *at becomes the word's place, which is MTP_WORD_NONE or MTP_WORD_END where there is no word that
 * differs.  Returns the words' span, and whether they are sorted.
 */
static Span
read_words(WideSort *s, MtpWide *a, MtpWide *scratch, uint32 n, MtpWordAt *at, bool *sorted)
{
	uint64		min,
				max,
				differ;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		MTP_INJECT("compare");
		if (at->kind == MTP_WORD_TID && s->tids_ascend)
			at->kind = MTP_WORD_END;
		if (at->kind == MTP_WORD_NONE || at->kind == MTP_WORD_END)
			return (Span) {0};

		min = PG_UINT64_MAX;
		max = 0;
		differ = 0;
		*sorted = true;
		for (uint32 i = 0; i < n; i++)
		{
			uint64		word = a[i].prefix;

			if (!mtp_word_is_prefix(*at))
			{
				if (i + PREFETCH < n)
					__builtin_prefetch(a[i + PREFETCH].itup);
				if (!mtp_word_get(s->order, a[i].itup, *at, &word))
				{
					at->kind = MTP_WORD_NONE;
					return (Span) {0};
				}
			}
			scratch[i].prefix = word;
			scratch[i].itup = a[i].itup;
			*sorted &= word >= max;
			min = Min(min, word);
			max = Max(max, word);
			differ |= word ^ scratch[0].prefix;
		}
		if (differ != 0)
			return span_of(min, max, differ);
		*at = mtp_word_next(s->order, *at, min);
	}
}

/*
 * Sorts entries whose words before `at` are equal.  Their words are sorted in scratch, so the array
 * has its entries and their prefixes wherever something may raise.  Groups whose words are equal,
 * or equal as far as they were looked at, follow; a group's part of scratch is its own.  Entries
 * end, and a span that was coarsened has fewer bits each time, so the recursion does, too.
 */
static void
sort_words(WideSort *s, MtpWide *a, MtpWide *scratch, uint32 n, MtpWordAt at)
{
	bool		first = mtp_word_is_prefix(at);
	uint64		prefix = a[0].prefix;
	bool		sorted;
	Span		span;

	if (n < TINY && !first)
	{
		compare_sort(a, n, s->order);
		return;
	}
	span = read_words(s, a, scratch, n, &at, &sorted);
	if (at.kind == MTP_WORD_NONE)
		compare_sort(a, n, s->order);
	if (at.kind == MTP_WORD_NONE || at.kind == MTP_WORD_END)
		return;

	first = mtp_word_is_prefix(at);
	if (sorted)
		span.shift = 0;
	else
	{
		if (n < SMALL)
		{
			span.shift = 0;
			insert_by_word(scratch, n);
		}
		else
		{
			coarsen(&span, n);
			radix_by_word(scratch, a, n, &span);
		}
		for (uint32 i = 0; i < n; i++)
		{
			a[i].prefix = first ? scratch[i].prefix : prefix;
			a[i].itup = scratch[i].itup;
		}
	}
	for (uint32 i = 0, next; i < n; i = next)
	{
		uint64		word = scratch[i].prefix;
		uint64		key = (word - span.min) >> span.shift;

		for (next = i + 1; next < n && (scratch[next].prefix - span.min) >> span.shift == key; next++)
			;
		if (next - i > 1)
			sort_words(s, a + i, scratch + i, next - i,
					   span.shift == 0 ? mtp_word_next(s->order, at, word) : at);
	}
}

/*
 * True if TIDs ascend.  They do as entries come, and descend in a run, which grows downward: that is
 * turned round.
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
void
mtp_batch_sort_wide(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	WideSort	s = {.order = order};

	if (n < 2)
		return;
	s.tids_ascend = make_tids_ascend(a, n);
	sort_words(&s, a, scratch, n, (MtpWordAt) {0});
#ifdef USE_ASSERT_CHECKING
	if (order->nwords == order->nkeys)
		for (uint32 i = 1; i < Min(n, JUDGED); i++)
			Assert(mtp_batch_order_judge(order, &a[i - 1], &a[i]) <= 0);
#endif
}
