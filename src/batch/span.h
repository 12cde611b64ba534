/*
 * span.h
 *	  Spans of 64-bit keys.
 *
 * Of keys' 64 bits few differ in practice: four bytes of an integer, the low bits of a clustered
 * key.  Those that differ are a span.
 */
#ifndef MTP_SPAN_H
#define MTP_SPAN_H

#include "core/core.h"
#include "port/pg_bitutils.h"

/* The bits of a key that count: (key - min) >> shift has `bits` bits, none if keys are equal. */
typedef struct Span
{
	uint64		min;
	int			shift;
	int			bits;
} Span;

/* The span of keys from min to max.  differ is not zero, and has the bits set that differ. */
static inline Span
span_of(uint64 min, uint64 max, uint64 differ)
{
	Span		s = {.min = min};

	s.shift = pg_rightmost_one_pos64(differ);
	s.bits = pg_leftmost_one_pos64((max - min) >> s.shift) + 1;
	return s;
}

#endif							/* MTP_SPAN_H */
