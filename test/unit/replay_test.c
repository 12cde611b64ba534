/*
 * replay_test.c
 *	  The buffer's policy on small traces of page accesses: no more misses than it has had, and no longer until memory is where work has shifted to.
 *
 *	  replay_test		with -v as argument tells what it finds
 */
#include "../../bench/replay/replay.h"

#include "server.h"

#define MOST_TURNOVERS 3

static bool talk;
static int	nbad = 0;

static void
expect(double figure, double most, const char *what, const char *of)
{
	if (talk || figure > most)
		printf("%s: %s: %.2f, at most %.2f\n", of, what, figure, most);
	fflush(stdout);
	nbad += figure > most;
}

/* Per cent of misses, at most a point more than they were when this was written. */
static void
test_misses(void)
{
	static const double most[] = {39.7, 13.1, 31.3, 32.2, 69.6, 42.6, 22.9, 27.7, 30.4, 21.2, 18.8, 41.1, 89.6};

	for (int i = 0; i < lengthof(most); i++)
	{
		Trace		t = make_trace(i, 8);
		bool	   *miss = malloc(t.n * sizeof(bool));
		Options		o = {0};
		size_t		n = 0;

		ours(&t, miss, &o);
		for (size_t j = t.n / 10; j < t.n; j++)
			n += miss[j];
		expect(100.0 * n / (t.n - t.n / 10), most[i], "misses", t.name);
		free(miss);
		free(t.pages);
	}
}

/* There and back, the second time, when pages have been there before. */
static void
test_shifts(void)
{
	static const int works[] = {0, 1, 2, 7};

	for (int i = 0; i < lengthof(works); i++)
	{
		Shift		s = make_shift(works[i], 2);
		Turnovers	r[PHASES];

		measure_shift(&s, r);
		for (int p = PHASES - 2; p < PHASES; p++)
			expect(r[p].turnovers, MOST_TURNOVERS, p % 2 ? "turnovers there" : "turnovers back", s.trace.name);
		free(s.trace.pages);
	}
}

int
main(int argc, char **argv)
{
	talk = argc > 1;
	mtp_heat_init();
	test_misses();
	test_shifts();
	if (nbad > 0)
		die("%d figures are worse than they may be", nbad);
	puts("ok");
	return 0;
}
