/*
 * random.h
 *	  Random numbers of a test, the same everywhere.  Include once; the test sets rng, not to 0.
 */
static uint64 rng;

/* xorshift64* */
static uint64
rnd64(void)
{
	rng ^= rng >> 12;
	rng ^= rng << 25;
	rng ^= rng >> 27;
	return rng * UINT64CONST(2685821657736338717);
}

/* 0 .. n - 1 */
static int
rnd(uint64 n)
{
	return (int) ((rnd64() >> 33) % n);
}
