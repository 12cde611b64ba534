/*
 * replay.c
 *	  Replays page accesses against the buffer's own policy and against others.
 *
 * replay FILE...: recorded traces, files of page numbers, with memory for a quarter of their pages.
 * A trace is held out if its file's name says so.  replay: the traces and shifts of traces.c.
 *
 * Lines are "misses|trace|tuning or held out|policy|per cent of accesses", without the first tenth
 * of a trace, and "shift|work|tuning or held out|from|to|turnovers".
 */
#include "replay.h"

static void
mtpower(const Trace *t, bool *miss)
{
	ours(t, miss, NULL);
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

/* The buffer's own policy, and its peers */
static void
report_all(const Trace *t)
{
	report(t, "mtpower", mtpower);
	for (const Cache *c = peers; c->name != NULL; c++)
		report(t, c->name, c->replay);
	free(t->pages);
}

static void
report_shift(const Shift *s)
{
	static const char *kinds[] = {"index pages", "pairs", "directories", "small directories"};
	double		turnovers[PHASES];

	measure_shift(s, turnovers);
	for (int p = 1; p < PHASES; p++)
		printf("shift|%s|%s|%s|%s|%.2f\n", s->trace.name, sort_of(&s->trace),
			   kinds[s->kinds[1 - p % 2]], kinds[s->kinds[p % 2]], turnovers[p]);
	fflush(stdout);
	free(s->trace.pages);
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
			bytes += mtp_policy_frame_bytes(KIND(sorted[i]));
	free(sorted);
	return bytes / MTP_SLAB_BYTES;
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
	t.slabs = Max(megabytes(&t) / 4, 4);
	report_all(&t);
}

int
main(int argc, char **argv)
{
	Trace		t;
	Shift		s;

	mtp_heat_init();
	for (int i = 1; i < argc; i++)
		replay_file(argv[i]);
	for (int i = 0; argc == 1 && (t = make_trace(i, 1, 0)).name != NULL; i++)
		report_all(&t);
	for (int i = 0; argc == 1 && (s = make_shift(i, 1, 0)).trace.name != NULL; i++)
		report_shift(&s);
	return 0;
}
