/*
 * grid.c
 *	  Times layouts of directories for pairs of table blocks.
 *
 * Keys have 8, 16 and 64 bytes, rows 16, 100 and 400; nodes have 8, 16, 32 and √N heads, with and
 * without prefetching the first level.
 *
 *	  grid BYTES SEARCHES
 *
 * Pairs are 16 kB of rows as core lays them out, in random order; the key is in front of a row's
 * data.  An entry of a directory is a head of 32 bits, of the key's first eight bytes, and an
 * item's number; a search finds the entry, and compares the row's key.  "Line pointers" is a binary
 * search over rows in key order, by a comparison function.  Prints "case|side|number": ns of a
 * search over BYTES of pages and directories, and in 0.5 MB; bytes of a directory for a row.
 */
#include "core/core.h"

#include <math.h>

#include "access/htup_details.h"
#include "page/page.h"
#include "page/search.h"
#include "server.h"
#include "inpage.h"

#define PAIR		(2 * BLCKSZ)
#define HOT_BYTES	(512 * 1024)
#define DISTINCT	256			/* pairs that are made; others are copies */
#define MOST		1024		/* items, more than there are */
#define DIRECTORY	8192		/* room for one */

typedef struct Layout
{
	const char *name;
	int			node;			/* heads; 0: √N */
	bool		prefetch;
} Layout;

static const Layout layouts[] = {
	{"mtpower", 16, true}, {"no prefetch", 16, false}, {"8", 8, true}, {"8, no prefetch", 8, false},
	{"32", 32, true}, {"32, no prefetch", 32, false},
	{"sqrt N", 0, true}, {"sqrt N, no prefetch", 0, false}
};

/* A directory, in front of its parts, each of which begins with a cache line */
typedef struct Dir
{
	uint64		base;
	uint8		shift;
	uint16		nitems;
	uint16		nnodes;
	uint16		node;			/* heads a node, a multiple of 4: as many are compared at a time */
	uint16		heads;			/* offsets */
	uint16		items;
} Dir;

typedef struct Made
{
	int			n;
	uint64		norms[MOST];
	uint16		at[MOST];		/* offset of the row */
} Made;

static int	key_len,
			row_len;
static Made made[DISTINCT];		/* in key order */
static int	(*volatile compare) (const void *a, const void *b, size_t n) = memcmp;

static inline uint64
norm_of(const char *key)
{
	uint64		n;

	memcpy(&n, key, sizeof(n));
	return pg_ntoh64(n);
}

static int
compare_norms(const void *a, const void *b)
{
	uint64		x = norm_of(*(char *const *) a),
				y = norm_of(*(char *const *) b);

	return (x > y) - (x < y);
}

/* Rows as they came, or with their line pointers in key order */
static void
make_pair(char *pair, Made *m, bool in_order)
{
	Size		size = MAXALIGN(SizeofHeapTupleHeader) + Max(row_len, key_len);
	char	   *rows[MOST];

	m->n = 0;
	for (int half = 0; half < 2; half++)
	{
		PageHeader	ph = (PageHeader) (pair + half * BLCKSZ);

		PageInit((Page) ph, BLCKSZ, 0);
		while (ph->pd_lower + sizeof(ItemIdData) + MAXALIGN(size) <= ph->pd_upper)
		{
			int			i = (ph->pd_lower - SizeOfPageHeaderData) / sizeof(ItemIdData);
			char	   *row;

			ph->pd_upper -= MAXALIGN(size);
			ph->pd_lower += sizeof(ItemIdData);
			ItemIdSetNormal(&ph->pd_linp[i], ph->pd_upper, size);
			row = rows[m->n++] = (char *) ph + ph->pd_upper + MAXALIGN(SizeofHeapTupleHeader);
			for (int j = 0; j < key_len; j++)
				row[j] = rnd64() >> 11;
		}
	}
	qsort(rows, m->n, sizeof(char *), compare_norms);
	for (int i = 0; i < m->n; i++)
	{
		m->norms[i] = norm_of(rows[i]);
		m->at[i] = rows[i] - pair;
	}
	if (in_order)
	{
		/* One array of line pointers for both blocks, which nobody has: as favourable as can be */
		ItemId		lp = ((PageHeader) pair)->pd_linp;
		int			first = PageGetMaxOffsetNumber(pair);

		for (int i = 0; i < m->n; i++)
			ItemIdSetNormal(i < first ? &lp[i] :
							&((PageHeader) (pair + BLCKSZ))->pd_linp[i - first], m->at[i], size);
	}
}

/* Returns its size. */
static int
make_directory(char *to, const Made *m, const Layout *layout)
{
	Dir		   *d = (Dir *) to;
	uint32	   *first,
			   *heads;
	uint16	   *items;

	memset(to, 0, DIRECTORY);
	d->nitems = m->n;
	d->node = layout->node ? layout->node : TYPEALIGN(4, (int) ceil(sqrt(m->n)));
	d->nnodes = (m->n + d->node - 1) / d->node;
	d->heads = 64 + TYPEALIGN(64, d->nnodes * sizeof(uint32));
	d->items = d->heads + d->nnodes * d->node * sizeof(uint32);
	d->base = m->norms[0];
	while ((m->norms[m->n - 1] - d->base) >> d->shift > PG_UINT32_MAX)
		d->shift++;
	first = (uint32 *) (to + 64);
	heads = (uint32 *) (to + d->heads);
	items = (uint16 *) (to + d->items);
	for (int i = 0; i < m->n; i++)
	{
		heads[i] = mtp_window_head(d->base, d->shift, m->norms[i]);
		first[i / d->node] = heads[i];
		items[i] = m->at[i];
	}
	return d->items + m->n * sizeof(uint16);
}

/* The item whose row has this key */
static inline int
find(const char *directory, const char *pair, const char *key, uint64 norm, bool prefetch)
{
	const Dir  *d = (const Dir *) directory;
	const uint32 *first = (const uint32 *) (directory + 64);
	const uint32 *heads;
	uint32		head;
	int			rank;

	if (prefetch)
		for (int i = 0; i < 4; i++)
			__builtin_prefetch(directory + i * 64);
	head = mtp_window_head(d->base, d->shift, norm);
	rank = mtp_count_below(first, d->nnodes, head, false) * d->node;
	heads = (const uint32 *) (directory + d->heads) + rank;
	rank += mtp_count_below(heads, Min(d->node, d->nitems - rank), head, false);
	while (rank < d->nitems &&
		   compare(pair + ((const uint16 *) (directory + d->items))[rank], key, key_len) != 0)
		rank++;
	return rank;
}

static inline int
find_by_line_pointers(const char *pair, const char *key)
{
	int			first = PageGetMaxOffsetNumber((Page) pair);
	int			lo = 0,
				hi = first + PageGetMaxOffsetNumber((Page) (pair + BLCKSZ));

	while (lo < hi)
	{
		int			mid = lo + (hi - lo) / 2;
		ItemId		lp = mid < first ? &((PageHeader) pair)->pd_linp[mid] :
			&((PageHeader) (pair + BLCKSZ))->pd_linp[mid - first];

		if (compare(pair + ItemIdGetOffset(lp), key, key_len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

typedef struct Probe
{
	char		key[64];
	uint64		norm;
	int			want;
	const char *pair;
	const char *directory;
} Probe;

/* layout NULL: by line pointers */
static double
search(const Layout *layout, const char *pairs, const char *directories, Size stride, int npairs,
	   int searches)
{
	static Probe probes[CHUNK];
	static char copies[DISTINCT][8][64];	/* keys, apart from their pages */
	static uint16 ranks[DISTINCT][8];
	double		took = 0;
	int			ahead = 0;

	for (int p = 0; p < Min(npairs, DISTINCT); p++)
	{
		for (int i = 0; i < 8; i++)
		{
			ranks[p][i] = rnd64() % made[p].n;
			memcpy(copies[p][i], pairs + (Size) p * PAIR + made[p].at[ranks[p][i]], key_len);
		}
	}
	for (int done = -CHUNK; done < searches; done += CHUNK)
	{
		double		start;

		for (int i = 0; i < CHUNK; i++)
		{
			int			n = rnd64() % npairs,
						k = rnd64() % 8;
			Probe	   *probe = &probes[i];

			memcpy(probe->key, copies[n % DISTINCT][k], key_len);
			probe->norm = norm_of(probe->key);
			probe->want = ranks[n % DISTINCT][k];
			probe->pair = pairs + (Size) n * PAIR;
			probe->directory = directories + n * stride;
		}
		start = now();
		for (int i = 0; i < CHUNK; i++)
		{
			const Probe *probe = &probes[(i + (ahead & 1)) % CHUNK];
			int			found = layout ?
				find(probe->directory, probe->pair, probe->key, probe->norm, layout->prefetch) :
				find_by_line_pointers(probe->pair, probe->key);

			if (found != probe->want)
				die("found item %d instead of %d", found, probe->want);
			ahead += found;
		}
		if (done >= 0)
			took += now() - start;
	}
	sink = ahead;
	return took / searches;
}

/* Pairs first, all of a kind, then directories of one layout after the other in the same memory */
static void
cell(const char *temperature, Size bytes, int searches, bool sizes)
{
	int			npairs = Max(bytes / (PAIR + 4096), 8);
	char	   *pairs = aligned_alloc(BLCKSZ, (Size) npairs * PAIR);
	char	   *directories = NULL;
	char		of[60];

	snprintf(of, sizeof(of), "key %d, row %d", key_len, row_len);
	for (int in_order = 1; in_order >= 0; in_order--)
	{
		for (int i = 0; i < npairs; i++)
		{
			if (i < DISTINCT)
				make_pair(pairs + (Size) i * PAIR, &made[i], in_order);
			else
				memcpy(pairs + (Size) i * PAIR, pairs + (Size) (i % DISTINCT) * PAIR, PAIR);
		}
		if (in_order)
			printf("%s, %s|line pointers|%.1f\n", of, temperature,
				   search(NULL, pairs, NULL, 0, npairs, searches));
	}
	for (int l = 0; l < lengthof(layouts); l++)
	{
		static char room[DIRECTORY] pg_attribute_aligned(64);
		int			size = 0;
		Size		stride = 0;

		for (int i = 0; i < npairs; i++)
		{
			if (i < DISTINCT)
				size = make_directory(room, &made[i], &layouts[l]);
			if (i == 0)
			{
				stride = TYPEALIGN(64, size);
				free(directories);
				directories = aligned_alloc(64, npairs * stride);
			}
			if (i < DISTINCT)
				memcpy(directories + i * stride, room, size);
			else
				memcpy(directories + i * stride, directories + (i % DISTINCT) * stride, stride);
		}
		if (sizes && layouts[l].prefetch)
			printf("%s, bytes of directory a row|%s|%.2f\n", of, layouts[l].name,
				   (double) size / made[0].n);
		printf("%s, %s|%s|%.1f\n", of, temperature, layouts[l].name,
			   search(&layouts[l], pairs, directories, stride, npairs, searches));
	}
	free(pairs);
	free(directories);
}

int
main(int argc, char **argv)
{
	static const int key_lens[] = {8, 16, 64};
	static const int row_lens[] = {16, 100, 400};

	if (argc != 3)
		die("usage: grid BYTES SEARCHES");
	for (int k = 0; k < lengthof(key_lens); k++)
	{
		for (int r = 0; r < lengthof(row_lens); r++)
		{
			key_len = key_lens[k];
			row_len = row_lens[r];
			if (row_len < key_len)
				continue;
			cell("hot", HOT_BYTES, atoi(argv[2]), true);
			cell("cold", strtoull(argv[1], NULL, 10), atoi(argv[2]), false);
		}
	}
	return 0;
}
