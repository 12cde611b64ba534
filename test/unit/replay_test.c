/*
 * replay_test.c
 *	  The buffer's policy on small traces of page accesses: no more misses than it has had, and no
 *	  longer until memory is where work has shifted to.  A figure is the median of several draws of
 *	  random numbers, as one draw can be off by half a point.
 *
 *	  replay_test		with -v as argument tells what it finds
 */
#include "../../bench/replay/replay.h"

#include "server.h"

#define MOST_TURNOVERS	3
#define DRAWS			5

static bool talk;
static int	nbad = 0;

static int
by_size(const void *a, const void *b)
{
	double		x = *(const double *) a,
				y = *(const double *) b;

	return (x > y) - (x < y);
}

static void
expect(double figures[DRAWS], double most, const char *what, const char *of)
{
	double		median;

	qsort(figures, DRAWS, sizeof(double), by_size);
	median = figures[DRAWS / 2];
	if (talk || median > most)
		printf("%s: %s: %.2f (%.2f ... %.2f), at most %.2f\n",
			   of, what, median, figures[0], figures[DRAWS - 1], most);
	fflush(stdout);
	nbad += median > most;
}

/* Per cent of accesses that miss; the first tenth of the trace fills the buffer. */
static double
misses(const Trace *t)
{
	bool	   *miss = malloc(t->n * sizeof(bool));
	size_t		n = 0;

	ours(t, miss, NULL);
	for (size_t i = t->n / 10; i < t->n; i++)
		n += miss[i];
	free(miss);
	return 100.0 * n / (t->n - t->n / 10);
}

/* At most a point more than when this was written. */
static void
test_misses(void)
{
	static const double most[] = {
		39.7, 13.3, 31.2, 32.2, 69.5, 42.2, 23.0, 27.8, 30.4, 21.5, 19.1, 41.0, 87.0, 72.7
	};

	for (int i = 0; i < lengthof(most); i++)
	{
		Trace		t;
		double		figures[DRAWS];

		for (int draw = 0; draw < DRAWS; draw++)
		{
			t = make_trace(i, 8, draw);
			figures[draw] = misses(&t);
			free(t.pages);
		}
		expect(figures, most[i], "misses", t.name);
	}
}

/* There and back, the second time, when pages have been there before. */
static void
test_shifts(void)
{
	static const int works[] = {0, 1, 2, 7, 8};

	for (int i = 0; i < lengthof(works); i++)
	{
		Shift		s;
		double		there[DRAWS],
					back[DRAWS];

		for (int draw = 0; draw < DRAWS; draw++)
		{
			double		turnovers[PHASES];

			s = make_shift(works[i], 2, draw);
			measure_shift(&s, turnovers);
			there[draw] = turnovers[PHASES - 2];
			back[draw] = turnovers[PHASES - 1];
			free(s.trace.pages);
		}
		expect(there, MOST_TURNOVERS, "turnovers there", s.trace.name);
		expect(back, MOST_TURNOVERS, "turnovers back", s.trace.name);
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
