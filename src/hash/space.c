/*
 * space.c
 *	  Which bucket a hash belongs to, and which hashes a bucket has.
 *
 * README.md, "The address space", derives this.  If buckets were numbered in the order of hashes,
 * and all had been split L times, hash h would be in bucket q = h * M >> (32 - L).  Its real number
 * is r + M * reverse(q's lower L bits), where r = q >> L.  The hashes of q are an interval, which
 * begins at the smallest h with h * M >= q << (32 - L) (H2).
 */
#include "core/core.h"
#include "hash/hash.h"

uint32
mtp_hash_spread(uint32 hash)
{
	hash ^= hash >> 16;
	hash *= 0x85EBCA6B;
	hash ^= hash >> 13;
	hash *= 0xC2B2AE35;
	hash ^= hash >> 16;
	return hash;
}

static inline uint32
reverse_bits(uint32 x)
{
	x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
	x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
	x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
	x = (x >> 8 & 0x00FF00FF) | (x & 0x00FF00FF) << 8;
	return x >> 16 | x << 16;
}

/* S, which is 2^32 at most. */
static inline uint64
buckets_at(const MtpHashSpace *s)
{
	return (uint64) s->initial << s->level;
}

uint32
mtp_hash_space_bucket(const MtpHashSpace *s, uint32 hash)
{
	uint64		x = (uint64) hash * s->initial;
	uint32		r = x >> 32;
	uint32		bits = reverse_bits((uint32) x);
	uint64		mask = (UINT64CONST(1) << s->level) - 1;
	uint32		bucket = r + s->initial * (uint32) (bits & mask);

	if (bucket < s->next)
		bucket = r + s->initial * (uint32) (bits & (mask << 1 | 1));
	return bucket;
}

/* The first hash of bucket q, with q and L = level as above; q may be one too many. */
static inline uint64
first_hash(const MtpHashSpace *s, uint32 level, uint64 q)
{
	return ((q << (32 - level)) + s->initial - 1) / s->initial;
}

void
mtp_hash_space_interval(const MtpHashSpace *s, uint32 bucket, uint32 *lo, uint32 *hi)
{
	uint32		level = s->level + (bucket < s->next || bucket >= buckets_at(s) ? 1 : 0);
	uint64		fraction = (uint64) reverse_bits(bucket / s->initial) >> (32 - level);
	uint64		q = ((uint64) (bucket % s->initial) << level) | fraction;

	Assert(bucket < mtp_hash_space_size(s));
	*lo = (uint32) first_hash(s, level, q);
	*hi = (uint32) (first_hash(s, level, q + 1) - 1);
}

uint32
mtp_hash_space_grow(MtpHashSpace *s)
{
	uint32		split = s->next++;

	Assert(buckets_at(s) + s->next <= PG_UINT32_MAX);
	if (s->next == buckets_at(s))
	{
		s->level++;
		s->next = 0;
	}
	return split;
}
