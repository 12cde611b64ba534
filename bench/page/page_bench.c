/*
 * page_bench.c
 *	  Times src/page on pages in memory, beside what nbtree does on its own layout.
 *
 * A plain program, built with test/unit/server.h in place of a server.  Prints lines of
 * "case|side|nanoseconds".  nbtree's side is written out here as nbtree does it: line pointers in
 * key order, a binary search that compares through a function pointer, insertion by moving them.
 */
#include "core/core.h"

#include <time.h>

#include "page/page.h"
#include "page/search.h"
#include "random.h"
#include "server.h"
#include "storage/itemid.h"

#define FULL		90				/* percent of a page that is filled */
#define COLD_BYTES	(134 * 1024 * 1024)
#define HOT_BYTES	(512 * 1024)
#define SEARCHES	2000000
#define MERGES		400000
#define TEXT_LEN	16

typedef int (*Compare) (const char *a, const char *b);

/* A key, its tuple and its normalized key. */
typedef struct Keyed
{
	IndexTuple	itup;
	uint64		norm;
} Keyed;

typedef struct Probe
{
	const Keyed *item;
	Compare		compare;
	Page		page;
} Probe;

static uint8 code;				/* MTP_NORM_INT4 or MTP_NORM_BYTES */
static volatile Compare the_compare;
static volatile int sink;		/* keeps results from being thrown away */

/* The processor's time that this process has had, in ns: others on the machine don't count. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* ---------- items ---------- */

static int
compare_int4(const char *a, const char *b)
{
	int32		x = *(const int32 *) a,
				y = *(const int32 *) b;

	return (x > y) - (x < y);
}

static int
compare_text(const char *a, const char *b)
{
	Size		na = VARSIZE_ANY_EXHDR(a),
				nb = VARSIZE_ANY_EXHDR(b);
	int			c = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(na, nb));

	return c != 0 ? c : (na > nb) - (na < nb);
}

static inline const char *
key_of(IndexTuple itup)
{
	return (const char *) itup + sizeof(IndexTupleData);
}

static int
compare_items(const void *a, const void *b)
{
	IndexTuple	x = ((const Keyed *) a)->itup,
				y = ((const Keyed *) b)->itup;
	int			c = the_compare(key_of(x), key_of(y));

	return c != 0 ? c : ItemPointerCompare(&x->t_tid, &y->t_tid);
}

static Keyed
make_item(void)
{
	static uint32 serial = 0;
	Size		size = sizeof(IndexTupleData) +
		(code == MTP_NORM_INT4 ? sizeof(int32) : VARHDRSZ_SHORT + TEXT_LEN);
	Keyed		item;
	char	   *key;

	item.itup = calloc(1, MAXALIGN(size));
	item.itup->t_info = size;
	serial++;
	ItemPointerSet(&item.itup->t_tid, serial >> 7, (serial & 127) + 1);
	key = (char *) item.itup + sizeof(IndexTupleData);
	if (code == MTP_NORM_INT4)
		*(int32 *) key = (int32) rnd64();
	else
	{
		SET_VARSIZE_SHORT(key, VARHDRSZ_SHORT + TEXT_LEN);
		for (int i = 0; i < TEXT_LEN; i++)
			VARDATA_SHORT(key)[i] = 'a' + rnd64() % 26;
	}
	item.norm = mtp_norm_tuple(code, item.itup);
	return item;
}

static Keyed *
make_items(int n)
{
	Keyed	   *items = malloc(n * sizeof(Keyed));

	for (int i = 0; i < n; i++)
		items[i] = make_item();
	qsort(items, n, sizeof(Keyed), compare_items);
	return items;
}

static void
free_items(Keyed *items, int n)
{
	for (int i = 0; i < n; i++)
		free(items[i].itup);
	free(items);
}

/* As many items as fill a page of either layout to FULL percent. */
static int
page_items(void)
{
	Keyed		item = make_item();
	int			n = MTP_FILL_ROOM(FULL) / (mtp_body_size(code, item.itup) + MTP_SLOT_ROOM);

	free(item.itup);
	return n;
}

/* ---------- the two layouts ---------- */

static inline bool
before(void *arg, unsigned off, uint32 head)
{
	Probe	   *probe = arg;
	IndexTuple	item = (IndexTuple) (probe->page + (off & ~MTP_SLOT_FLAGS));
	int			c;

	if (mtp_norm_is_exact(code))
	{
		uint64		norm = mtp_norm_fixed(code, key_of(item));

		if (norm != probe->item->norm)
			return norm < probe->item->norm;
	}
	else if ((c = probe->compare(key_of(item), key_of(probe->item->itup))) != 0)
		return c < 0;
	return ItemPointerCompare(&item->t_tid, &probe->item->itup->t_tid) < 0;
}

static inline int
mtp_find(Page page, const Keyed *item)
{
	Probe		probe = {item, the_compare, page};

	mtp_page_prefetch(page);
	return mtp_page_search_by(page, MtpHeader(page), item->norm, true, true, before, &probe).pos;
}

static void
mtp_fill(Page page, const Keyed *items, int n)
{
	IndexTuple *itups = malloc(n * sizeof(IndexTuple));

	for (int i = 0; i < n; i++)
		itups[i] = items[i].itup;
	mtp_page_init(page, MTP_PAGE_LEAF, 0, code);
	mtp_page_pack(page, n, itups, NULL);
	free(itups);
}

static inline int
nb_find(Page page, const Keyed *item)
{
	int			lo = 1,
				hi = PageGetMaxOffsetNumber(page) + 1;

	while (lo < hi)
	{
		int			mid = lo + (hi - lo) / 2;
		IndexTuple	itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, mid));
		int			c = the_compare(key_of(item->itup), key_of(itup));

		if (c == 0)
			c = ItemPointerCompare(&item->itup->t_tid, &itup->t_tid);
		if (c > 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - 1;
}

static void
nb_insert(Page page, int pos, IndexTuple itup)
{
	PageHeader	ph = (PageHeader) page;
	int			n = PageGetMaxOffsetNumber(page);
	Size		size = MAXALIGN(IndexTupleSize(itup));

	if (ph->pd_upper < ph->pd_lower + sizeof(ItemIdData) + size)
		die("nbtree's page is full");
	memmove(&ph->pd_linp[pos + 1], &ph->pd_linp[pos], (n - pos) * sizeof(ItemIdData));
	ph->pd_upper -= size;
	ph->pd_lower += sizeof(ItemIdData);
	ItemIdSetNormal(&ph->pd_linp[pos], ph->pd_upper, IndexTupleSize(itup));
	memcpy((char *) page + ph->pd_upper, itup, IndexTupleSize(itup));
}

static void
nb_fill(Page page, const Keyed *items, int n)
{
	PageInit(page, BLCKSZ, 16);
	for (int i = 0; i < n; i++)
		nb_insert(page, i, items[i].itup);
}

static void
show(const char *what, const char *of, const char *side, double ns)
{
	printf("%s, %s|%s|%.1f\n", what, of, side, ns);
}

/* ---------- searching ---------- */

/*
 * Searches that each depend on the one before, over so many bytes of pages.  The probes are items
 * of the pages, in random order, kept apart from them and touched ahead: only the page is cold.
 */
static void
search(const char *what, const char *of, Size bytes)
{
	int			npages = bytes / BLCKSZ;
	int			per = page_items();
	char	   *pages[2];
	Keyed	  **items = malloc(npages * sizeof(Keyed *));
	int			searches = bytes == HOT_BYTES ? SEARCHES : SEARCHES / 2;

	for (int layout = 0; layout < 2; layout++)
		pages[layout] = aligned_alloc(BLCKSZ, (Size) npages * BLCKSZ);
	for (int i = 0; i < npages; i++)
	{
		items[i] = make_items(per);
		mtp_fill(pages[0] + (Size) i * BLCKSZ, items[i], per);
		nb_fill(pages[1] + (Size) i * BLCKSZ, items[i], per);
	}
	for (int layout = 0; layout < 2; layout++)
	{
		int			ahead = 0;
		double		took = 0;

		for (int done = 0; done < searches; done += 1000)
		{
			int			page_of[1000];
			Keyed		probes[1000];
			char		copies[1000][64];
			double		start;

			for (int i = 0; i < 1000; i++)
			{
				Keyed	   *item;

				page_of[i] = rnd64() % npages;
				item = &items[page_of[i]][rnd64() % per];
				memcpy(copies[i], item->itup, IndexTupleSize(item->itup));
				probes[i] = (Keyed) {(IndexTuple) copies[i], item->norm};
			}
			start = now();
			for (int i = 0; i < 1000; i++)
			{
				/* The result decides about the next probe: none of this runs ahead of it. */
				const Keyed *probe = &probes[(i + (ahead & 1)) % 1000];
				Page		page = pages[layout] +
					(Size) page_of[(i + (ahead & 1)) % 1000] * BLCKSZ;

				ahead += layout == 0 ? mtp_find(page, probe) : nb_find(page, probe);
			}
			took += now() - start;
		}
		show(what, of, layout == 0 ? "mtpower" : "as nbtree", took / searches);
		sink = ahead;
	}
	for (int i = 0; i < npages; i++)
		free_items(items[i], per);
	free(items);
	free(pages[0]);
	free(pages[1]);
}

/* ---------- merging ---------- */

/* m sorted items into a page that has room for them: one insertion of m, or m insertions. */
static void
merge(const char *of, int m)
{
	enum {PAGES = 64, ROOM = 48};
	int			there = page_items() - ROOM;
	char	   *origs[2],
			   *pages = aligned_alloc(BLCKSZ, PAGES * BLCKSZ);
	Keyed	   *coming[PAGES];
	char		what[60];

	for (int layout = 0; layout < 2; layout++)
		origs[layout] = aligned_alloc(BLCKSZ, PAGES * BLCKSZ);
	for (int i = 0; i < PAGES; i++)
	{
		Keyed	   *items = make_items(there);

		mtp_fill(origs[0] + i * BLCKSZ, items, there);
		nb_fill(origs[1] + i * BLCKSZ, items, there);
		free_items(items, there);
		coming[i] = make_items(m);
	}
	snprintf(what, sizeof(what), "merge of %d into a page", m);
	for (int side = 0; side < 3; side++)
	{
		double		took = 0;
		int			rounds = Max(MERGES / m / PAGES, 1);

		for (int round = 0; round < rounds; round++)
		{
			double		start;

			memcpy(pages, origs[side == 2], PAGES * BLCKSZ);
			start = now();
			for (int p = 0; p < PAGES; p++)
			{
				Page		page = pages + p * BLCKSZ;
				IndexTuple	itups[ROOM];
				uint64		norms[ROOM];
				uint16		pos[ROOM];

				for (int i = 0; i < m; i++)
				{
					Keyed	   *item = &coming[p][i];

					itups[i] = item->itup;
					norms[i] = item->norm;
					pos[i] = side == 2 ? nb_find(page, item) : mtp_find(page, item);
					if (side == 1)
						mtp_page_insert(page, 1, &pos[i], &itups[i], &norms[i]);
					else if (side == 2)
						nb_insert(page, pos[i], itups[i]);
				}
				if (side == 0)
					mtp_page_insert(page, m, pos, itups, norms);
			}
			took += now() - start;
		}
		show(what, of, side == 0 ? "mtpower" : side == 1 ? "mtpower, one by one" : "as nbtree",
			 took / rounds / PAGES / m);
	}
	for (int i = 0; i < PAGES; i++)
		free_items(coming[i], m);
	free(origs[0]);
	free(origs[1]);
	free(pages);
}

/* ---------- splitting ---------- */

#define MAX_K 16

/* Pages in key order, in memory that has room for twice as many. */
typedef struct Chain
{
	int			n;
	Page		pages[2 * MAX_K];
	char	   *memory;
} Chain;

static Page
chain_add(Chain *c, int at)
{
	for (int i = c->n; i > at; i--)
		c->pages[i] = c->pages[i - 1];
	c->pages[at] = c->memory + c->n++ * BLCKSZ;
	mtp_page_init(c->pages[at], MTP_PAGE_LEAF, 0, code);
	return c->pages[at];
}

/* The place in the chain of the page that an item belongs to. */
static int
chain_find(Chain *c, const Keyed *item)
{
	int			p = c->n - 1;

	while (p > 0)
	{
		MtpItemRoom room;
		Keyed		first = {mtp_page_item(c->pages[p], 0, &room)};

		if (compare_items(&first, item) <= 0)
			break;
		p--;
	}
	return p;
}

/* As a batch does: merges old and new items and packs k pages. */
static void
split_at_once(Chain *c, const Keyed *items, int per, int k)
{
	IndexTuple	itups[per * k];
	IndexTuple	old[per];
	MtpItemRoom rooms[per];
	Page		orig = c->pages[0];

	mtp_page_items(orig, old, rooms);
	for (int i = 0; i < per * k; i++)
		itups[i] = i % k == 0 ? old[i / k] : items[i].itup;
	for (int p = 0; p < k; p++)
		mtp_page_pack(chain_add(c, c->n), per, itups + p * per, NULL);
}

/* Inserts the items one by one in the given order; splits a page that is full in two. */
static void
split_one_by_one(Chain *c, const Keyed *items, const int *order, int n)
{
	for (int i = 0; i < n; i++)
	{
		const Keyed *item = &items[order[i]];
		IndexTuple	itup = item->itup;
		uint64		norm = item->norm;
		int			p = chain_find(c, item);
		uint16		pos;

		if (!mtp_page_fits(c->pages[p], 1, MAXALIGN(IndexTupleSize(itup))))
		{
			PGAlignedBlock copy;
			IndexTuple	all[MTP_MAX_ITEMS];
			MtpItemRoom rooms[MTP_MAX_ITEMS];
			int			there;

			memcpy(copy.data, c->pages[p], BLCKSZ);
			there = mtp_page_items(copy.data, all, rooms);
			mtp_page_init(c->pages[p], MTP_PAGE_LEAF, 0, code);
			mtp_page_pack(c->pages[p], there / 2, all, NULL);
			mtp_page_pack(chain_add(c, p + 1), there - there / 2, all + there / 2, NULL);
			p = chain_find(c, item);
		}
		pos = mtp_find(c->pages[p], item);
		mtp_page_insert(c->pages[p], 1, &pos, &itup, &norm);
	}
}

/* A page's items are every k-th one; those in between come, and make k pages of it. */
static void
split(const char *of, int k)
{
	int			per = page_items();
	int			n = per * k;
	int			coming = 0;
	Keyed	   *items = make_items(n);
	Keyed		old[per];
	int		   *order = malloc(n * sizeof(int));
	int			rounds = Max(MERGES / n, 1);
	Chain		c = {.memory = aligned_alloc(BLCKSZ, 2 * MAX_K * BLCKSZ)};
	double		took[2] = {0, 0};
	char		what[60];

	for (int i = 0; i < n; i++)
	{
		if (i % k == 0)
			old[i / k] = items[i];
		else
		{
			int			j = rnd64() % (coming + 1);

			order[coming] = order[j];
			order[j] = i;
			coming++;
		}
	}
	for (int round = 0; round < 2 * rounds; round++)
	{
		double		start;

		c.n = 0;
		mtp_fill(chain_add(&c, 0), old, per);
		start = now();
		if (round % 2 == 0)
			split_at_once(&c, items, per, k);
		else
			split_one_by_one(&c, items, order, coming);
		took[round % 2] += now() - start;
	}
	snprintf(what, sizeof(what), "split into %d pages", k);
	for (int side = 0; side < 2; side++)
		show(what, of, side == 0 ? "mtpower" : "mtpower, one by one", took[side] / rounds / coming);
	free_items(items, n);
	free(order);
	free(c.memory);
}

int
main(void)
{
	static const struct
	{
		uint8		code;
		const char *name;
		Compare		compare;
	}			keys[] = {{MTP_NORM_INT4, "int4", compare_int4},
	{MTP_NORM_BYTES, "text of 16", compare_text}};

	for (int i = 0; i < lengthof(keys); i++)
	{
		code = keys[i].code;
		the_compare = keys[i].compare;
		search("search, page in cache", keys[i].name, HOT_BYTES);
		search("search, page in memory", keys[i].name, COLD_BYTES);
		for (int m = 1; m <= 32; m = m == 1 ? 8 : m * 2)
			merge(keys[i].name, m);
		for (int k = 2; k <= MAX_K / 2; k *= 2)
			split(keys[i].name, k);
	}
	return 0;
}
