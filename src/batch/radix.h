/*
 * radix.h
 *	  A radix sort by a 64-bit key, to be included once per kind of element.
 *
 * Before including define
 *	RADIX_SORT		name of the function
 *	RADIX_ELEMENT	type of the elements
 *	RADIX_KEY(e)	key of element *e
 *
 * RADIX_SORT(a, scratch, n, span) sorts a[0 .. n) stably by the bits of span (sort.c).  scratch has
 * room for n elements.  It looks for interrupts only with more than MTP_SORT_SAFE elements.
 */

static void
RADIX_SORT(RADIX_ELEMENT *a, RADIX_ELEMENT *scratch, uint32 n, const Span *span)
{
	uint32		count[RADIX_PASSES][1 << RADIX_BITS];
	RADIX_ELEMENT *from = a;
	RADIX_ELEMENT *to = scratch;
	int			passes = (span->bits + RADIX_BITS - 1) / RADIX_BITS;
	int			width = (span->bits + passes - 1) / passes;
	uint32		mask = (1 << width) - 1;

	Assert(passes >= 1 && passes <= RADIX_PASSES);
	for (int p = 0; p < passes; p++)
		memset(count[p], 0, sizeof(uint32) << width);
	for (uint32 i = 0; i < n; i++)
	{
		uint64		key = (RADIX_KEY(&a[i]) - span->min) >> span->shift;

		for (int p = 0; p < passes; p++)
			count[p][(key >> (p * width)) & mask]++;
	}

	for (int p = 0; p < passes; p++)
	{
		int			shift = span->shift + p * width;
		RADIX_ELEMENT *swap = from;
		uint32		start = 0;

		for (uint32 i = 0; i <= mask; i++)
		{
			uint32		c = count[p][i];

			count[p][i] = start;
			start += c;
		}
		for (uint32 i = 0, stop; i < n;)
		{
			stop = Min(n - i, MTP_SORT_SAFE) + i;
			if (n > MTP_SORT_SAFE)
				CHECK_FOR_INTERRUPTS();
			for (; i < stop; i++)
				to[count[p][((RADIX_KEY(&from[i]) - span->min) >> shift) & mask]++] = from[i];
		}
		from = to;
		to = swap;
	}
	if (from != a)
		memcpy(a, from, n * sizeof(RADIX_ELEMENT));
}

#undef RADIX_SORT
#undef RADIX_ELEMENT
#undef RADIX_KEY
