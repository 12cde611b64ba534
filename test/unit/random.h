/*
 * random.h
 *	  Random numbers of tests and benchmarks, the same everywhere.  Include once.
 */
static uint64 rng = 88172645463325252;	/* to be set to any number but 0 */

/* xorshift64* */
static inline uint64
rnd64(void)
{
	rng ^= rng >> 12;
	rng ^= rng << 25;
	rng ^= rng >> 27;
	return rng * UINT64CONST(2685821657736338717);
}

/* 0 .. n - 1 */
static inline int
rnd(uint64 n)
{
	return (int) ((rnd64() >> 33) % n);
}
