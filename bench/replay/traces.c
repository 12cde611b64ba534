/*
 * traces.c
 *	  Makes page accesses as kinds of work have them: pages of indexes and tables, and directories.
 *
 * Work asks for rows by Zipf's law.  Popular rows are spread over the table.  A probe of a B-link
 * tree reads an inner page and a leaf (the root is always in the buffer).  A leaf has 300 entries,
 * a block 110 rows.
 */
#include "replay.h"

#include <math.h>

#define ACCESSES		3000000	/* of a trace that is not shrunk */
#define ON_LEAF			300
#define ON_PAIR			220
#define SEED(i, draw)	(UINT64CONST(0x9E3779B97F4A7C15) + (i) + 1000 * (draw))

typedef struct Maker
{
	Trace	   *t;
	size_t		accesses;
	int			shrink;
	uint64		random;
	uint32		nrows;
	double	   *sums;			/* of the rows' popularity, the most popular one first */
} Maker;

static double
fraction(Maker *m)
{
	return (mtp_policy_random(&m->random) >> 11) / 9007199254740992.0;
}

static void
popularity(Maker *m, uint32 nrows, double skew)
{
	double		sum = 0;

	nrows /= m->shrink;
	m->nrows = nrows;
	m->sums = realloc(m->sums, nrows * sizeof(double));
	for (uint32 i = 0; i < nrows; i++)
		m->sums[i] = sum += pow(i + 1, -skew);
	for (uint32 i = 0; i < nrows; i++)
		m->sums[i] /= sum;
}

/* The rank of a row, by its popularity */
static uint32
zipf(Maker *m)
{
	double		at = fraction(m);
	uint32		lo = 0,
				hi = m->nrows - 1;

	while (lo < hi)
	{
		uint32		mid = (lo + hi) / 2;

		if (m->sums[mid] < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static uint32
row(Maker *m, uint64 salt)
{
	return mix(zipf(m) + salt) % m->nrows;
}

static void
visit(Maker *m, uint64 page)
{
	if (m->t->n < m->accesses)
		m->t->pages[m->t->n++] = page;
}

static bool
more(Maker *m)
{
	return m->t->n < m->accesses;
}

/* An index whose keys lie in another order than rows */
static void
index_probe(Maker *m, uint32 index, uint64 key)
{
	uint32		leaf = mix(key * 31 + index) % (m->nrows / ON_LEAF);

	visit(m, INDEX_PAGE(index, 0x80000000 + leaf / ON_LEAF));
	visit(m, INDEX_PAGE(index, leaf));
}

static void
table_row(Maker *m, uint32 table, uint64 key)
{
	visit(m, TABLE_PAIR(table, key / ON_PAIR));
}

/* Rows by one of some indexes */
static void
probes(Maker *m, uint32 nindexes, double skew)
{
	popularity(m, 2000000, skew);
	while (more(m))
	{
		uint32		r = row(m, 1);

		index_probe(m, 1 + mtp_policy_random(&m->random) % nindexes, r);
		table_row(m, 9, r);
	}
}

/* Rows come in, with entries in some indexes, and are asked for, the last ones most. */
static void
ingest(Maker *m, uint32 nindexes, double share, double skew)
{
	uint32		last = 1000000 / m->shrink;

	popularity(m, 2000000, skew);
	while (more(m))
	{
		if (fraction(m) < share)
		{
			last++;
			table_row(m, 9, last);
			for (uint32 i = 1; i <= nindexes; i++)
				index_probe(m, i, last);
		}
		else
		{
			uint32		back = zipf(m);
			uint32		r = last > back ? last - back : 0;

			index_probe(m, 1, r);
			table_row(m, 9, r);
		}
	}
}

/* The popular rows are others from time to time. */
static void
shifting(Maker *m, int times, double skew)
{
	popularity(m, 2000000, skew);
	while (more(m))
	{
		uint32		r = row(m, 1 + m->t->n / (m->accesses / times));

		index_probe(m, 1, r);
		table_row(m, 9, r);
	}
}

/* Index pages, then table pages, then index pages again, a few of the other kind among them. */
static void
turns(Maker *m, double other, double skew, uint32 index_pages, uint32 table_pages)
{
	popularity(m, Max(index_pages, table_pages), skew);
	while (more(m))
	{
		bool		tables = m->t->n / (m->accesses / 3) == 1;

		if (fraction(m) < other)
			tables = !tables;
		if (tables)
			visit(m, TABLE_PAIR(9, row(m, 1) % (table_pages / m->shrink)));
		else
			visit(m, INDEX_PAGE(1, row(m, 2) % (index_pages / m->shrink)));
	}
}

/* As pgbench: an account by its index, its branch and teller, and a row of history. */
static void
bank(Maker *m)
{
	uint32		history = 0;

	popularity(m, 3000000, 0.8);
	while (more(m))
	{
		uint32		r = row(m, 1);

		index_probe(m, 1, r);
		table_row(m, 9, r);
		visit(m, TABLE_PAIR(10, r % 300 / 40));
		visit(m, TABLE_PAIR(11, r % 30));
		visit(m, TABLE_PAIR(12, history++ / (2 * ON_PAIR)));
	}
}

/* As a warehouse: ranges of dates, whose rows lie together, and their joins to three tables. */
static void
ranges(Maker *m)
{
	popularity(m, 2000000, 0.7);
	while (more(m))
	{
		uint32		from = (uint64) zipf(m) * ON_PAIR % m->nrows;
		uint32		pairs = 5 + mtp_policy_random(&m->random) % 60;

		visit(m, INDEX_PAGE(1, from / ON_LEAF));
		for (uint32 i = 0; i < pairs && more(m); i++)
		{
			table_row(m, 9, from + i * ON_PAIR);
			for (int j = 0; j < 4; j++)
			{
				uint32		r = row(m, 3);

				index_probe(m, 2, r / 20);
				table_row(m, 10, r / 20);
				visit(m, TABLE_PAIR(11, r % 100));
			}
		}
	}
}

/* Long ranges of a table, each of which begins in the middle of the last one; and probes. */
static void
overlaps(Maker *m)
{
	uint32		from = 0;

	popularity(m, 2000000, 0.9);
	for (; more(m); from += 1500 / m->shrink)
	{
		for (uint32 i = 0; i < 3000 / m->shrink; i++)
			table_row(m, 9, (from + i) * ON_PAIR % m->nrows);
		for (int i = 0; i < 3000 / m->shrink; i++)
		{
			uint32		r = row(m, 1);

			index_probe(m, 1, r);
			table_row(m, 9, r);
		}
	}
}

/*
 * Directory scans of tables, the small ones more often, that lead to some pairs; and probes.  The
 * last nsmall tables have directories of half the size.
 */
static void
directories(Maker *m, uint32 ntables, uint32 nsmall, uint32 npairs, double probe_share)
{
	popularity(m, 2000000, 0.9);
	while (more(m))
	{
		uint32		table = mtp_policy_random(&m->random) % ntables;
		uint32		n = npairs / m->shrink / (1 + table);
		int			kind = table < ntables - nsmall ? MTP_FRAME_PAGEDIR : MTP_FRAME_SMALL;

		for (uint32 i = 0; i < n; i++)
		{
			visit(m, PAGE(kind, 20 + table, i));
			if (fraction(m) < 0.02)
				visit(m, TABLE_PAIR(20 + table, i));
			while (fraction(m) < probe_share)
			{
				uint32		r = row(m, 1);

				index_probe(m, 1, r);
				table_row(m, 9, r);
			}
		}
	}
}

Trace
make_trace(int i, int shrink, int draw)
{
	static const struct
	{
		const char *name;
		bool		held_out;
		uint32		slabs;
	}			traces[] = {
		{"probes by two indexes", false, 48},
		{"rows come and are read", false, 48},
		{"the hot set moves, 8 times", false, 48},
		{"index, table, index pages", false, 32},
		{"directory scans and probes", false, 48},
		{"probes by four indexes, less skewed", true, 96},
		{"more rows come, into three indexes", true, 64},
		{"the hot set moves, 20 times", true, 40},
		{"index, table, index pages, mixed more", true, 24},
		{"bank", true, 64},
		{"ranges and what they lead to", true, 48},
		{"ranges that overlap", true, 64},
		{"more directory scans, of more tables", true, 64},
		{"scans of small and large directories", true, 48},
		{NULL, false, 0}
	};
	Trace		t = {traces[i].name, traces[i].held_out, draw, traces[i].slabs / shrink};
	Maker		m = {&t, ACCESSES / shrink, shrink, SEED(i, draw)};

	if (t.name == NULL)
		return t;
	t.pages = malloc(m.accesses * sizeof(uint64));
	switch (i)
	{
		case 0: probes(&m, 2, 0.9); break;
		case 1: ingest(&m, 1, 0.5, 0.9); break;
		case 2: shifting(&m, 8, 0.9); break;
		case 3: turns(&m, 0.1, 0.8, 16000, 8000); break;
		case 4: directories(&m, 3, 0, 20000, 0.2); break;
		case 5: probes(&m, 4, 0.75); break;
		case 6: ingest(&m, 3, 0.3, 0.8); break;
		case 7: shifting(&m, 20, 1.0); break;
		case 8: turns(&m, 0.25, 0.9, 10000, 9000); break;
		case 9: bank(&m); break;
		case 10: ranges(&m); break;
		case 11: overlaps(&m); break;
		case 12: directories(&m, 8, 0, 40000, 0.05); break;
		case 13: directories(&m, 4, 2, 30000, 0.2); break;
	}
	free(m.sums);
	return t;
}

/* ---------- shifts ---------- */

typedef struct Work
{
	const char *name;
	bool		held_out;
	uint32		slabs;
	int			to;				/* kind of pages, from index pages and back */
	bool		scans;			/* of directories; else pages by popularity */
	double		size;			/* of the pages of each kind, in buffers */
	double		skew;
	double		other;			/* share of accesses to the pages of the other kind */
} Work;

/* Accesses mostly of one kind, until there are so many. */
static void
phase(Maker *m, const Work *w, double bytes, int kind, int other, size_t until)
{
	uint32		npages = bytes / mtp_policy_frame_bytes(kind);
	uint32		nothers = bytes / mtp_policy_frame_bytes(other);
	uint32		at = 0;

	popularity(m, Max(npages, nothers), w->skew);
	m->accesses = until;
	while (more(m))
	{
		if (fraction(m) < w->other)
			visit(m, PAGE(other, 7, row(m, 2) % nothers));
		else if (w->scans && kind == w->to)
			visit(m, PAGE(kind, 8, at++ % npages));
		else
			visit(m, PAGE(kind, 8, row(m, 1) % npages));
	}
}

Shift
make_shift(int i, int shrink, int draw)
{
	static const Work works[] = {
		{"directories of popular rows", false, 32, MTP_FRAME_PAGEDIR, false, 2, 0.8, 0},
		{"directory scans that fit", false, 32, MTP_FRAME_PAGEDIR, true, 0.8, 0.8, 0.02},
		{"pairs", false, 32, MTP_FRAME_TABLE, false, 3, 0.9, 0.05},
		{"pairs that all fit", false, 32, MTP_FRAME_TABLE, false, 0.7, 0.7, 0},
		{"directories and other pages", true, 64, MTP_FRAME_PAGEDIR, false, 3, 0.9, 0.1},
		{"directory scans that do not fit", true, 48, MTP_FRAME_PAGEDIR, true, 1.5, 0.9, 0.05},
		{"pairs, less skewed", true, 64, MTP_FRAME_TABLE, false, 2, 0.6, 0.02},
		{"scans that fill a small buffer", true, 8, MTP_FRAME_PAGEDIR, true, 0.9, 0.8, 0},
		{"small directories of popular rows", true, 32, MTP_FRAME_SMALL, false, 2, 0.8, 0},
		{NULL}
	};
	const Work *w = &works[i];
	Shift		s = {{w->name, w->held_out, draw, Max(w->slabs / shrink, 8)},
	{MTP_FRAME_INDEX, w->to}};
	Maker		m = {&s.trace, 0, 1, SEED(100 + i, draw)};

	if (w->name == NULL)
		return s;
	s.length = (size_t) s.trace.slabs * MTP_SLAB_BLOCKS * 60;
	s.trace.pages = malloc(PHASES * s.length * sizeof(uint64));
	for (int p = 0; p < PHASES; p++)
		phase(&m, w, w->size * s.trace.slabs * MTP_SLAB_BYTES, s.kinds[p % 2],
			  s.kinds[1 - p % 2], (p + 1) * s.length);
	free(m.sums);
	return s;
}
