/*
 * sort_test.c
 *	  Sorts random entries with src/batch/sort.c, next to the C library's qsort.
 *
 *	  sort_test SEED ROUNDS
 *
 * A plain program.  Wide entries have an array's elements in place of tuples, which the comparison
 * function orders; one in four runs stops it with an error, and the entries must all be there still.
 */
#include "core/core.h"

#include <setjmp.h>

#include "batch/entry.h"
#include "miscadmin.h"
#include "server.h"

#define MAX_ENTRIES 20000
#define KINDS		10

volatile sig_atomic_t InterruptPending = false;

static uint64 state;
static jmp_buf stop;
static long stop_after;
static char room[MAX_ENTRIES];

void
ProcessInterrupts(void)
{
}

int
mtp_batch_order_compare(MtpOrder *order, const MtpWide *a, const MtpWide *b)
{
	if (stop_after > 0 && --stop_after == 0)
		longjmp(stop, 1);
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return (a->itup > b->itup) - (a->itup < b->itup);
}

static uint64
rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Keys of one kind: what loads have, and what makes trouble. */
static uint64
make_key(int kind, uint32 i)
{
	switch (kind)
	{
		case 0:
			return (uint32) rnd();
		case 1:
			return rnd();
		case 2:					/* clustered */
			return UINT64CONST(1000000000) + i * 10 + rnd() % 1000;
		case 3:					/* few values */
			return rnd() % 10;
		case 4:
			return i;
		case 5:
			return ~(uint64) i;
		case 6:
			return 7;
		case 7:					/* nearly all equal */
			return rnd() % 1000 == 0 ? rnd() : 5;
		case 8:					/* all magnitudes */
			return PG_UINT64_MAX >> (rnd() & 63);
		default:				/* only high bits, and the extremes */
			return rnd() % 3 == 0 ? rnd() << 50 : rnd() % 2 ? PG_UINT64_MAX : 0;
	}
}

static int
compare(const void *a, const void *b)
{
	const MtpNarrow *x = a;
	const MtpNarrow *y = b;

	return mtp_narrow_less(y, x) - mtp_narrow_less(x, y);
}

static void
check(const char *what, const void *got, const void *want, uint32 n)
{
	if (memcmp(got, want, n * sizeof(MtpNarrow)) != 0)
		die("%s: wrong result for %u entries", what, n);
}

static void
test_narrow(uint32 n, int kind, int rids)
{
	MtpNarrow  *a = malloc(n * sizeof(MtpNarrow));
	MtpNarrow  *b = malloc(n * sizeof(MtpNarrow));
	MtpNarrow  *scratch = malloc(n * sizeof(MtpNarrow));

	for (uint32 i = 0; i < n; i++)
	{
		a[i].norm = make_key(kind, i);
		a[i].rid = ((uint64) (i / 100) << 16) + i % 100 + 1;
		if (rids == 1)
			a[i].rid = rnd() & UINT64CONST(0xFFFFFFFF00FF);
		if (rids == 2 && rnd() % 2)
			a[i].rid |= MTP_RID_LAST;
	}
	memcpy(b, a, n * sizeof(MtpNarrow));
	qsort(b, n, sizeof(MtpNarrow), compare);
	mtp_batch_sort_narrow(a, scratch, n);
	check("narrow", a, b, n);
	free(a);
	free(b);
	free(scratch);
}

static void
test_wide(uint32 n, int kind, bool with_error)
{
	MtpWide    *a = malloc(n * sizeof(MtpWide));
	MtpWide    *b = malloc(n * sizeof(MtpWide));
	MtpWide    *scratch = malloc(n * sizeof(MtpWide));

	for (uint32 i = 0; i < n; i++)
	{
		a[i].prefix = make_key(kind, i);
		a[i].itup = (IndexTuple) (room + rnd() % MAX_ENTRIES);
	}
	memcpy(b, a, n * sizeof(MtpWide));
	qsort(b, n, sizeof(MtpWide), compare);
	stop_after = with_error ? 1 + rnd() % (n + 1) : 0;
	if (setjmp(stop) == 0)
		mtp_batch_sort_wide(NULL, a, scratch, n);
	else
		qsort(a, n, sizeof(MtpWide), compare);
	check("wide", a, b, n);
	free(a);
	free(b);
	free(scratch);
}

int
main(int argc, char **argv)
{
	int			rounds;

	if (argc != 3)
		die("usage: sort_test SEED ROUNDS");
	StaticAssertStmt(sizeof(MtpNarrow) == sizeof(MtpWide), "one comparison serves both");
	state = UINT64CONST(88172645463325252) + atoi(argv[1]);
	rounds = atoi(argv[2]);
	for (int i = 0; i < rounds; i++)
		for (int kind = 0; kind < KINDS; kind++)
		{
			uint32		n = 1 + rnd() % (i % 3 == 0 ? 60 : i % 3 == 1 ? 2000 : MAX_ENTRIES);

			test_narrow(n, kind, i % 4 == 3 ? 1 : rnd() % 3);
			test_wide(n, kind, i % 4 == 1);
		}
	puts("ok");
	return 0;
}
