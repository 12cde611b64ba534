/*
 * real.c
 *	  Times searches in leaf pages that a server has made: of mtpower_blink by src/page, of nbtree
 *	  as core searches them.
 *
 *	  real int8|text NBTREE-FILE MTPOWER-FILE BYTES SEARCHES SIDE
 *
 * Both files are indexes of one column, with unique values and without deduplication.  Prints
 * "what|side|number" for searches in pages that a cache holds, and over BYTES of pages: copies of
 * them, if there are fewer.  With SIDE (mtpower, nbtree, none) it does only these, over BYTES, and
 * prints nothing: for cachegrind.
 *
 * nbtree's side is _bt_binsrch and _bt_compare of PostgreSQL 15, by the server's own macros, with a
 * comparison function that is called as core calls it.
 */
#include "core/core.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "access/nbtree.h"
#include "catalog/pg_index.h"
#include "page/page.h"
#include "page/search.h"
#include "server.h"
#include "inpage.h"

#define HOT_PAGES	64
#define KEYS		1000000
#define KEY_MOST	32
#define COLLATION	950			/* C */

/* Leaf pages in the order of their keys, and copies of them behind */
typedef struct Leaves
{
	char	   *pages;
	int			n;
	int			copies;
} Leaves;

/* A key that is in both indexes, and where */
typedef struct Key
{
	char		bytes[KEY_MOST];	/* int8, or a short varlena */
	int			page[2];
	ItemPointerData tid;
} Key;

typedef struct Probe
{
	const Key  *key;
	Datum		value;
	uint64		norm;
	const MtpPageHeader *head;	/* of the page that is searched */
	Page		pages[2];
} Probe;

static bool is_text;
static uint8 code;
static RelationData relation;
static ScanKeyData scankey;
static Leaves leaves[2];		/* mtpower's, nbtree's */
static Key *keys;
static int	nkeys;
static int	nhot;			/* keys of nbtree's first pages: few, so that pages have the caches */

/* ---------- what the server has ---------- */

pg_noinline Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum arg1, Datum arg2)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, flinfo, 2, collation, NULL, NULL);
	fcinfo->args[0].value = arg1;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = arg2;
	fcinfo->args[1].isnull = false;
	result = FunctionCallInvoke(fcinfo);
	if (fcinfo->isnull)
		die("function returned NULL");
	return result;
}

Datum
nocache_index_getattr(IndexTuple tup, int attnum, TupleDesc tupleDesc)
{
	die("an attribute has no cached offset");
}

pg_noinline struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	if (VARATT_IS_COMPRESSED(datum) || VARATT_IS_EXTERNAL(datum))
		die("a toasted key");
	return datum;
}

static Datum
btint8cmp(PG_FUNCTION_ARGS)
{
	int64		a = PG_GETARG_INT64(0);
	int64		b = PG_GETARG_INT64(1);

	if (a > b)
		PG_RETURN_INT32(1);
	else if (a == b)
		PG_RETURN_INT32(0);
	else
		PG_RETURN_INT32(-1);
}

static pg_noinline bool
collate_is_c(Oid collation)
{
	return *(volatile Oid *) &collation == COLLATION;
}

static pg_noinline int
varstr_cmp_c(const char *arg1, int len1, const char *arg2, int len2, Oid collid)
{
	int			result;

	if (!collate_is_c(collid))
		die("a collation that is not C");
	result = memcmp(arg1, arg2, Min(len1, len2));
	if (result == 0 && len1 != len2)
		result = len1 < len2 ? -1 : 1;
	return result;
}

static Datum
bttextcmp(PG_FUNCTION_ARGS)
{
	text	   *arg1 = PG_GETARG_TEXT_PP(0);
	text	   *arg2 = PG_GETARG_TEXT_PP(1);

	PG_RETURN_INT32(varstr_cmp_c(VARDATA_ANY(arg1), VARSIZE_ANY_EXHDR(arg1),
								 VARDATA_ANY(arg2), VARSIZE_ANY_EXHDR(arg2), PG_GET_COLLATION()));
}

/* ---------- the two searches ---------- */

/* _bt_compare, for a key of one column that is not null, and no heap TID */
static pg_noinline int32
nb_compare(Relation rel, ScanKey key, Page page, OffsetNumber offnum)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	IndexTuple	itup;
	Datum		datum;
	bool		isNull;
	int32		result;

	if (!P_ISLEAF(opaque) && offnum == P_FIRSTDATAKEY(opaque))
		return 1;
	itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, offnum));
	for (int i = 1; i <= Min(BTreeTupleGetNAtts(itup, rel), 1); i++)
	{
		datum = index_getattr(itup, key->sk_attno, RelationGetDescr(rel), &isNull);
		if (key->sk_flags & SK_ISNULL)
			result = isNull ? 0 : (key->sk_flags & SK_BT_NULLS_FIRST) ? -1 : 1;
		else if (isNull)
			result = (key->sk_flags & SK_BT_NULLS_FIRST) ? 1 : -1;
		else
		{
			result = DatumGetInt32(FunctionCall2Coll(&key->sk_func, key->sk_collation,
													 datum, key->sk_argument));
			if (!(key->sk_flags & SK_BT_DESC))
				INVERT_COMPARE_RESULT(result);
		}
		if (result != 0)
			return result;
	}
	return 0;
}

/* _bt_binsrch on a leaf: the first item that is not below the key */
static inline OffsetNumber
nb_search(Page page, const Probe *probe)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	OffsetNumber low = P_FIRSTDATAKEY(opaque);
	OffsetNumber high = PageGetMaxOffsetNumber(page);

	scankey.sk_argument = probe->value;
	if (unlikely(high < low))
		return low;
	high++;
	while (high > low)
	{
		OffsetNumber mid = low + ((high - low) / 2);

		if (nb_compare(&relation, &scankey, page, mid) >= 1)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* As src/blink/key.c decides: is the item before the key? */
static bool
before(void *arg, unsigned off, uint32 head)
{
	const Probe *probe = arg;
	IndexTuple	item;
	bool		isnull;
	Datum		value;

	if (mtp_off_narrow(probe->head->norm, off))
		return mtp_page_narrow_norm(probe->head, head) < probe->norm;
	item = (IndexTuple) ((char *) probe->head - MTP_HEADER_AT + (off & ~MTP_SLOT_FLAGS));
	if (mtp_norm_is_exact(code))
		return mtp_norm_fixed(code, (char *) item + IndexInfoFindDataOffset(item->t_info)) <
			probe->norm;
	value = index_getattr(item, 1, RelationGetDescr(&relation), &isnull);
	return DatumGetInt32(FunctionCall2Coll(&scankey.sk_func, COLLATION, value, probe->value)) < 0;
}

static pg_attribute_always_inline MtpPos
mtp_search(Page page, const Probe *probe, bool look)
{
	Probe		p;

	mtp_page_prefetch(page);
	if (look && unlikely(mtp_page_shape(page) != NULL))
		die("a page is damaged");
	p = (Probe)
	{
		.value = probe->value,.norm = probe->norm,.head = MtpHeader(page)
	};
	return mtp_page_search_by(page, MtpHeader(page), probe->norm, true, true, before, &p);
}

/* ---------- files ---------- */

static inline const char *
key_of(IndexTuple itup)
{
	return (char *) itup + IndexInfoFindDataOffset(itup->t_info);
}

static int
compare_keys(const char *a, const char *b)
{
	if (is_text)
		return varstr_cmp_c(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
							VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), COLLATION);
	return (*(int64 *) a > *(int64 *) b) - (*(int64 *) a < *(int64 *) b);
}

static bool
is_leaf(int side, Page page)
{
	if (PageIsNew(page))
		return false;
	if (side == 0)
		return MtpHeader(page)->page_id == MTP_PAGE_ID && MtpIsLeaf(page) &&
			MtpHeader(page)->nitems > 0;
	return P_ISLEAF(BTPageGetOpaque(page)) && !P_IGNORE(BTPageGetOpaque(page)) &&
		!P_ISMETA(BTPageGetOpaque(page)) &&
		PageGetMaxOffsetNumber(page) >= P_FIRSTDATAKEY(BTPageGetOpaque(page));
}

static IndexTuple
item_of(int side, Page page, int i)
{
	static MtpItemRoom rooms[2];	/* two items are compared */
	static int	last;

	if (side == 0)
		return mtp_page_item(page, i, &rooms[last ^= 1]);
	i += P_FIRSTDATAKEY(BTPageGetOpaque(page));
	return (IndexTuple) PageGetItem(page, PageGetItemId(page, i));
}

static int
compare_first(const void *a, const void *b, void *side)
{
	return compare_keys(key_of(item_of(*(int *) side, (Page) a, 0)),
						key_of(item_of(*(int *) side, (Page) b, 0)));
}

static void
load(int side, const char *file, Size bytes)
{
	int			fd = open(file, O_RDONLY);
	struct stat st;
	Leaves	   *l = &leaves[side];
	int			blocks;

	if (fd < 0 || fstat(fd, &st) != 0)
		die("cannot read %s", file);
	blocks = st.st_size / BLCKSZ;
	l->pages = aligned_alloc(BLCKSZ, TYPEALIGN(BLCKSZ, bytes) + (Size) blocks * BLCKSZ);
	for (int i = 0; i < blocks; i++)
	{
		if (read(fd, l->pages + (Size) l->n * BLCKSZ, BLCKSZ) != BLCKSZ)
			die("cannot read %s", file);
		l->n += is_leaf(side, l->pages + (Size) l->n * BLCKSZ);
	}
	close(fd);
	if (l->n < 2 * HOT_PAGES)
		die("%s has only %d leaf pages", file, l->n);
	qsort_r(l->pages, l->n, BLCKSZ, compare_first, &side);
	l->copies = bytes / ((Size) l->n * BLCKSZ) + 1;
	for (int i = 1; i < l->copies; i++)
		memcpy(l->pages + (Size) i * l->n * BLCKSZ, l->pages, (Size) l->n * BLCKSZ);
}

static Page
page_of(int side, int i)
{
	return leaves[side].pages + (Size) i * BLCKSZ;
}

/* The last page whose first key is not above this one */
static int
find_page(int side, const char *key)
{
	int			lo = 0,
				hi = leaves[side].n - 1;

	while (lo < hi)
	{
		int			mid = (lo + hi + 1) / 2;

		if (compare_keys(key_of(item_of(side, page_of(side, mid), 0)), key) <= 0)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

static void
choose_key(Key *key, int page)
{
	Page		p = page_of(1, page);
	int			n = PageGetMaxOffsetNumber(p) + 1 - P_FIRSTDATAKEY(BTPageGetOpaque(p));
	IndexTuple	itup = item_of(1, p, rnd64() % n);

	memcpy(key->bytes, key_of(itup), is_text ? VARSIZE_ANY(key_of(itup)) : sizeof(int64));
	key->page[0] = find_page(0, key->bytes);
	key->page[1] = page;
	key->tid = itup->t_tid;
}

/* The same row by both */
static void
check_key(const Key *key)
{
	Probe		probe = {key};
	MtpPos		pos;
	OffsetNumber off;
	IndexTuple	item;

	probe.value = is_text ? PointerGetDatum(key->bytes) : Int64GetDatum(*(int64 *) key->bytes);
	probe.norm = mtp_norm_datum(code, probe.value, false);
	pos = mtp_search(page_of(0, key->page[0]), &probe, true);
	if (pos.pos >= MtpHeader(page_of(0, key->page[0]))->nitems ||
		ItemPointerCompare(&mtp_slot_body(page_of(0, key->page[0]), pos.node, pos.slot)->t_tid,
						   (ItemPointer) &key->tid) != 0)
		die("mtpower's page has another row");
	off = nb_search(page_of(1, key->page[1]), &probe);
	item = (IndexTuple) PageGetItem(page_of(1, key->page[1]),
									PageGetItemId(page_of(1, key->page[1]), off));
	if (ItemPointerCompare(&item->t_tid, (ItemPointer) &key->tid) != 0)
		die("nbtree's page has another row");
}

/* ---------- timing ---------- */

/* Counts loads that miss the last-level cache, in user space; -1 where the machine does not. */
static int
open_misses(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HW_CACHE,.size = sizeof(attr),
		.disabled = 1,.exclude_kernel = 1,.exclude_hv = 1,
		.config = PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 |
		PERF_COUNT_HW_CACHE_RESULT_MISS << 16
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static void
switch_misses(int fd, bool on)
{
	if (fd >= 0)
		ioctl(fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

static uint64
read_misses(int fd)
{
	uint64		n = 0;

	return fd >= 0 && read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void
prepare(Probe *probes, bool hot)
{
	for (int i = 0; i <= CHUNK; i++)
	{
		const Key  *key = &keys[rnd64() % (hot ? nhot : nkeys)];

		probes[i].key = key;
		probes[i].value = is_text ? PointerGetDatum(key->bytes) :
			Int64GetDatum(*(int64 *) key->bytes);
		probes[i].norm = mtp_norm_datum(code, probes[i].value, false);
		for (int side = 0; side < 2; side++)
			probes[i].pages[side] =
				page_of(side, key->page[side] +
						(hot ? 0 : rnd64() % leaves[side].copies * leaves[side].n));
	}
}

enum {MTPOWER, NBTREE, CHECKED, NONE, SIDES};
static const char *const names[] = {"mtpower", "nbtree", "mtpower, page looked at", "none"};

static void
run(const char *what, int side, bool hot, int searches, bool print)
{
	static Probe probes[CHUNK + 1];
	int			fd = open_misses();
	int			ahead = 0;
	double		took = 0;

	for (int done = -CHUNK; done < searches; done += CHUNK)
	{
		double		start;

		prepare(probes, hot);
		if (done >= 0)
			switch_misses(fd, true);
		start = now();
		for (int i = 0; i < CHUNK; i++)
		{
			/* The result decides about the next probe: none of this runs ahead of it. */
			const Probe *probe = &probes[i + (ahead & 1)];

			if (side == NBTREE)
				ahead += nb_search(probe->pages[1], probe);
			else if (side != NONE)
				ahead += mtp_search(probe->pages[0], probe, side == CHECKED).pos;
		}
		if (done >= 0)
			took += now() - start;
		switch_misses(fd, false);
	}
	sink = ahead;
	if (print)
		printf("%s|%s|%.1f\n", what, names[side], took / searches);
	if (print && !hot && fd >= 0 && read_misses(fd) > 0)
		printf("misses|%s|%.3f\n", names[side], (double) read_misses(fd) / searches);
	if (fd >= 0)
		close(fd);
}

int
main(int argc, char **argv)
{
	static FormData_pg_index index = {.indnatts = 1,.indnkeyatts = 1};
	TupleDesc	desc = calloc(1, offsetof(struct TupleDescData, attrs) +
							  sizeof(FormData_pg_attribute));
	Size		bytes;
	int			searches;

	if (argc != 6 && argc != 7)
		die("usage: real int8|text NBTREE-FILE MTPOWER-FILE BYTES SEARCHES [SIDE]");
	is_text = strcmp(argv[1], "text") == 0;
	code = is_text ? MTP_NORM_BYTES : MTP_NORM_INT8;
	desc->natts = 1;
	*TupleDescAttr(desc, 0) = (FormData_pg_attribute) {.attnum = 1,.attlen = is_text ? -1 : 8,
		.attbyval = !is_text,.attcacheoff = 0};
	relation.rd_att = desc;
	relation.rd_index = &index;
	scankey.sk_attno = 1;
	scankey.sk_collation = COLLATION;
	scankey.sk_func.fn_addr = is_text ? bttextcmp : btint8cmp;

	bytes = strtoull(argv[4], NULL, 10);
	searches = atoi(argv[5]);
	load(0, argv[3], bytes);
	load(1, argv[2], bytes);
	nkeys = argc == 7 ? KEYS / 100 : KEYS;
	nhot = Min(nkeys / 10, 8192);
	keys = calloc(nkeys, sizeof(Key));
	for (int i = 0; i < nkeys; i++)
		choose_key(&keys[i], rnd64() % (i < nhot ? HOT_PAGES : leaves[1].n));
	for (int i = 0; i < nkeys; i += 7)
		check_key(&keys[i]);

	if (argc == 7)
	{
		for (int side = 0; side < SIDES; side++)
			if (strcmp(names[side], argv[6]) == 0)
				run("", side, false, searches, false);
		return 0;
	}
	for (int side = 0; side < NONE; side++)
		run("hot", side, true, searches, true);
	for (int side = 0; side < NONE; side++)
		run("cold", side, false, searches, true);
	return 0;
}
