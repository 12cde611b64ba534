/*
 * replay.c
 *	  Replays page accesses against the buffer's own policy and against others.
 *
 *	  replay			prints lines of "misses|trace|held out|policy|per cent of accesses", of which the first tenth of a trace is not counted, and of
 *						"shift|work|held out|from|to|turnovers|turnovers with the best split at once|per cent of hits late|the same of the best fixed split", and of
 *						"restart|trace|hot list|accesses per block until 90 % of the hits are back|per cent of hits in the first 10,000|the same without a restart"
 *	  replay FILE...	the same lines of misses for recorded traces, files of page numbers; the name of a file is the trace's, and "held out" if
 *						it ends in that; memory for a quarter of their pages
 *	  replay HALFLIFE	the same with another half-life of heat, misses of our policy alone
 */
#include "replay.h"

static double half_life = 0;

static void
mtpower(const Trace *t, bool *miss)
{
	Options		o = {.half_life = half_life};

	ours(t, miss, &o);
}

static const char *
sort_of(const Trace *t)
{
	return t->held_out ? "held out" : "tuning";
}

static void
report(const Trace *t, const char *name, void (*replay) (const Trace *t, bool *miss))
{
	bool	   *miss = malloc(t->n * sizeof(bool));
	size_t		from = t->n / 10,
				n = 0;

	replay(t, miss);
	for (size_t i = from; i < t->n; i++)
		n += miss[i];
	printf("misses|%s|%s|%s|%.2f\n", t->name, sort_of(t), name, 100.0 * n / (t->n - from));
	fflush(stdout);
	free(miss);
}

static void
report_shift(const Shift *s)
{
	static const char *kinds[MTP_FRAME_KINDS] = {"index pages", "pairs", "directories"};
	Turnovers	r[PHASES];

	measure_shift(s, r);
	for (int p = 1; p < PHASES; p++)
		printf("shift|%s|%s|%s|%s|%.2f|%.2f|%.1f|%.1f\n", s->trace.name, sort_of(&s->trace), kinds[s->kinds[1 - p % 2]], kinds[s->kinds[p % 2]],
			   r[p].turnovers, r[p].at_once, 100 * r[p].reached, 100 * r[p].best);
	fflush(stdout);
}

static int
by_number(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a,
				y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* Megabytes of all pages of a trace */
static double
megabytes(const Trace *t)
{
	uint64	   *sorted = malloc(t->n * sizeof(uint64));
	double		bytes = 0;

	memcpy(sorted, t->pages, t->n * sizeof(uint64));
	qsort(sorted, t->n, sizeof(uint64), by_number);
	for (size_t i = 0; i < t->n; i++)
		if (i == 0 || sorted[i] != sorted[i - 1])
			bytes += mtp_pool_frame_bytes(KIND(sorted[i]));
	free(sorted);
	return bytes / MTP_EXTENT_BYTES;
}

static void
replay_file(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	Trace		t = {name, strstr(name, "held out") != NULL};
	FILE	   *f = fopen(path, "rb");

	if (f == NULL || fseek(f, 0, SEEK_END) != 0)
		exit(1);
	t.n = ftell(f) / sizeof(uint64);
	rewind(f);
	t.pages = malloc(t.n * sizeof(uint64));
	if (fread(t.pages, sizeof(uint64), t.n, f) != t.n)
		exit(1);
	fclose(f);
	t.extents = Max(megabytes(&t) / 4, 4);
	report(&t, "mtpower", mtpower);
	for (const Cache *c = peers; c->name != NULL; c++)
		report(&t, c->name, c->replay);
	free(t.pages);
}

int
main(int argc, char **argv)
{
	mtp_heat_init();
	if (argc > 1 && atof(argv[1]) == 0)
	{
		for (int i = 1; i < argc; i++)
			replay_file(argv[i]);
		return 0;
	}
	if (argc > 1)
		half_life = atof(argv[1]);
	for (int i = 0;; i++)
	{
		Trace		t = make_trace(i, 1);

		if (t.name == NULL)
			break;
		report(&t, "mtpower", mtpower);
		for (const Cache *c = peers; argc == 1 && c->name != NULL; c++)
			report(&t, c->name, c->replay);
		if (argc == 1)
			measure_restart(&t);
		free(t.pages);
	}
	for (int i = 0; argc == 1; i++)
	{
		Shift		s = make_shift(i, 1);

		if (s.trace.name == NULL)
			break;
		report_shift(&s);
		free(s.trace.pages);
	}
	return 0;
}
