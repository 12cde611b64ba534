/*
 * traces.c
 *	  Makes page accesses as kinds of work have them: which pages of indexes and tables, in which order.
 *
 * Rows are asked for by Zipf's law; which row is how popular is mixed up, so popular rows stand on pages of their own.  An entry of a
 * B-link tree is found by way of an inner page and a leaf (the root is always there); 300 entries are on a leaf, 110 rows on a block.
 */
#include "replay.h"

#include <math.h>

#define ACCESSES		3000000
#define ON_LEAF			300
#define ON_PAIR			220

typedef struct Maker
{
	Trace	   *t;
	uint64		random;
	uint32		nrows;
	double	   *sums;			/* of the rows' popularity, the most popular one first */
} Maker;

static double
fraction(Maker *m)
{
	return (mtp_pool_random(&m->random) >> 11) / 9007199254740992.0;
}

static void
popularity(Maker *m, uint32 nrows, double skew)
{
	double		sum = 0;

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
	if (m->t->n < ACCESSES)
		m->t->pages[m->t->n++] = page;
}

static bool
more(Maker *m)
{
	return m->t->n < ACCESSES;
}

/* An index whose keys lie in another order than rows */
static void
index_probe(Maker *m, uint32 index, uint64 key)
{
	uint32		leaf = mix(key * 31 + index) % (m->nrows / ON_LEAF);

	visit(m, PAGE(index, 0x80000000 + leaf / ON_LEAF));
	visit(m, PAGE(index, leaf));
}

static void
table_row(Maker *m, uint32 table, uint64 key)
{
	visit(m, TABLE_PAGE | PAGE(table, key / ON_PAIR));
}

/* Rows by one of some indexes */
static void
probes(Maker *m, uint32 nindexes, double skew)
{
	popularity(m, 2000000, skew);
	while (more(m))
	{
		uint32		r = row(m, 1);

		index_probe(m, 1 + mtp_pool_random(&m->random) % nindexes, r);
		table_row(m, 9, r);
	}
}

/* Rows come in, with entries in some indexes, and are asked for, the last ones most. */
static void
ingest(Maker *m, uint32 nindexes, double share, double skew)
{
	uint32		last = 1000000;

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
		uint32		r = row(m, 1 + m->t->n / (ACCESSES / times));

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
		bool		tables = m->t->n / (ACCESSES / 3) == 1;

		if (fraction(m) < other)
			tables = !tables;
		if (tables)
			visit(m, TABLE_PAGE | PAGE(9, row(m, 1) % table_pages));
		else
			visit(m, PAGE(1, row(m, 2) % index_pages));
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
		visit(m, TABLE_PAGE | PAGE(10, r % 300 / 40));
		visit(m, TABLE_PAGE | PAGE(11, r % 30));
		visit(m, TABLE_PAGE | PAGE(12, history++ / (2 * ON_PAIR)));
	}
}

/* As a warehouse: ranges of dates, whose rows lie together, and what they lead to in three tables. */
static void
ranges(Maker *m)
{
	popularity(m, 2000000, 0.7);
	while (more(m))
	{
		uint32		from = (uint64) zipf(m) * ON_PAIR % m->nrows;
		uint32		pairs = 5 + mtp_pool_random(&m->random) % 60;

		visit(m, PAGE(1, from / ON_LEAF));
		for (uint32 i = 0; i < pairs && more(m); i++)
		{
			table_row(m, 9, from + i * ON_PAIR);
			for (int j = 0; j < 4; j++)
			{
				uint32		r = row(m, 3);

				index_probe(m, 2, r / 20);
				table_row(m, 10, r / 20);
				visit(m, TABLE_PAGE | PAGE(11, r % 100));
			}
		}
	}
}

/* Long ranges of a table, each of which is read again at once by the next one, half of it; and probes. */
static void
overlaps(Maker *m)
{
	uint32		from = 0;

	popularity(m, 2000000, 0.9);
	for (; more(m); from += 1500)
	{
		for (uint32 i = 0; i < 3000; i++)
			table_row(m, 9, (from + i) * ON_PAIR % m->nrows);
		for (int i = 0; i < 3000; i++)
		{
			uint32		r = row(m, 1);

			index_probe(m, 1, r);
			table_row(m, 9, r);
		}
	}
}

Trace
make_trace(int i)
{
	static const struct
	{
		const char *name;
		bool		held_out;
		uint32		extents;
	}			traces[] = {
		{"probes by two indexes", false, 48},
		{"rows come and are read", false, 48},
		{"the hot set moves, 8 times", false, 48},
		{"index, table, index pages", false, 32},
		{"probes by four indexes, less skewed", true, 96},
		{"more rows come, into three indexes", true, 64},
		{"the hot set moves, 20 times", true, 40},
		{"index, table, index pages, mixed more", true, 24},
		{"bank", true, 64},
		{"ranges and what they lead to", true, 48},
		{"ranges that overlap", true, 64},
		{NULL, false, 0}
	};
	Trace		t = {traces[i].name, traces[i].held_out, traces[i].extents, NULL, 0};
	Maker		m = {.t = &t,.random = UINT64CONST(0x9E3779B97F4A7C15) + i};

	if (t.name == NULL)
		return t;
	t.pages = malloc(ACCESSES * sizeof(uint64));
	switch (i)
	{
		case 0: probes(&m, 2, 0.9); break;
		case 1: ingest(&m, 1, 0.5, 0.9); break;
		case 2: shifting(&m, 8, 0.9); break;
		case 3: turns(&m, 0.1, 0.8, 16000, 8000); break;
		case 4: probes(&m, 4, 0.75); break;
		case 5: ingest(&m, 3, 0.3, 0.8); break;
		case 6: shifting(&m, 20, 1.0); break;
		case 7: turns(&m, 0.25, 0.9, 10000, 9000); break;
		case 8: bank(&m); break;
		case 9: ranges(&m); break;
		case 10: overlaps(&m); break;
	}
	free(m.sums);
	return t;
}
