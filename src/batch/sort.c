/*
 * sort.c
 *	  Sorts index entries.
 *
 * Keys have 64 bits, of which few differ in practice: four bytes of an integer, the low bits of a
 * clustered key.  Those that differ are a span.  A span that takes few passes is sorted by all of
 * its bits.  A wider one is sorted by its top bits, about as many as tell the elements apart.  That
 * leaves small groups; these are compared, or sorted on by their own spans if they are large.
 */
#include "batch/entry.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#define RADIX_BITS		11		/* of a digit: larger ones miss the caches */
#define RADIX_PASSES	3
#define SMALL			24		/* fewer elements than this are sorted by insertion, */
#define MEDIUM			512		/* than this by comparison where the keys are wide */

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

#define RADIX_SORT		radix_by_head
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

/* The same invariant; comparisons may raise where interrupts may come. */
void
mtp_batch_sort_wide(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	uint64		min,
				max,
				differ = 0;
	bool		sorted = true;
	Span		span;

	if (n < SMALL)
	{
		compare_sort(a, n, order);
		return;
	}
	min = max = a[0].prefix;
	for (uint32 i = 1; i < n; i++)
	{
		min = Min(min, a[i].prefix);
		max = Max(max, a[i].prefix);
		differ |= a[i].prefix ^ a[0].prefix;
		sorted &= a[i].prefix >= a[i - 1].prefix;
	}
	if (differ == 0)
	{
		compare_sort(a, n, order);
		return;
	}

	CHECK_FOR_INTERRUPTS();
	span = span_of(min, max, differ);
	if (sorted)
		span.shift = 0;
	else
	{
		coarsen(&span, n);
		radix_by_head(a, scratch, n, &span);
	}
	for (uint32 i = 0, next; i < n; i = next)
	{
		uint64		key = (a[i].prefix - min) >> span.shift;

		for (next = i + 1; next < n && (a[next].prefix - min) >> span.shift == key; next++)
			;
		if (next - i > 1)
			mtp_batch_sort_wide(order, a + i, scratch, next - i);
	}
}
