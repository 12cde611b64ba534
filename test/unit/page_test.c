/*
 * page_test.c
 *	  Drives src/page with random changes, next to a model that is a sorted array.
 *
 *	  page_test SEED ROUNDS
 *
 * A plain program.  The page stands at the very end of a heap block, so that a sanitizer sees any
 * access behind it.  After each step the page must pass mtp_page_fault and hold what the model
 * holds; a twin page that never gets a hint must be the same page once hints are masked.
 */
#include "core/core.h"

#include <math.h>

#include "access/nbtree.h"
#include "page/page.h"
#include "page/search.h"
#include "random.h"
#include "server.h"
#include "utils/uuid.h"

#define ITEMS_MAX (MTP_MAX_ITEMS + 8)

/* What one run of the model test varies. */
typedef struct Plan
{
	uint8		code;
	bool		inner;
	bool		highkey;
	int			distinct;		/* 0: keys are uniformly random */
	int			pad;			/* most bytes behind the first column */
	int			nulls;			/* percent */
	int			odd;			/* percent of keys with something behind or in their value */
	int			order;			/* 0 random, 1 ascending, 2 descending */
	uint64		span;			/* 0, or keys are spread over so many from `base` on, … */
	uint64		base;
	int			low_bits;		/* … as multiples of a power of two */
	int			outliers;		/* percent of keys that are not */
} Plan;

typedef struct Entry
{
	IndexTuple	itup;
	uint64		norm;
	bool		dead;
} Entry;

static Plan plan;
static Entry model[ITEMS_MAX];
static int	nmodel;
static Page page;
static Page twin;
static int64 ordinal;
static int64 nnarrow;			/* narrow items that were seen, and … */
static int64 nrefused;			/* … pages that could not be packed anew */
static int	nreplaced;			/* items whose place others took */
static const char *where = "start";

#define check(cond) \
	do { if (!(cond)) fail(#cond, __LINE__); } while (0)

static void
fail(const char *what, int line)
{
	die("line %d, after %s: %s\ncode 0x%02x inner %d highkey %d distinct %d pad %d nulls %d odd %d order %d span %llx base %llx low bits %d outliers %d, %d items",
		line, where, what, plan.code, plan.inner, plan.highkey, plan.distinct, plan.pad,
		plan.nulls, plan.odd, plan.order, (unsigned long long) plan.span, (unsigned long long) plan.base,
		plan.low_bits, plan.outliers, nmodel);
}

/* ---------- keys ---------- */

static const double odd_doubles[] = {
	0.0, -0.0, 1, -1, 1e-310, -1e-310, 1e308, -1e308, INFINITY, -INFINITY, NAN, -NAN, 0.1, 1e-5
};

/* A random key as an integer that the kinds below turn into values, in no particular order. */
static uint64
random_key(void)
{
	if (plan.span > 0 && rnd(100) >= plan.outliers)
		return plan.base + ((rnd64() % plan.span) >> plan.low_bits << plan.low_bits);
	if (plan.order == 1)
		return (uint64) ++ordinal;
	if (plan.order == 2)
		return (uint64) --ordinal;
	if (plan.distinct > 0)
		return rnd(plan.distinct);
	return rnd64() >> rnd(64);
}

/* Writes the first column's value; returns its length. */
static Size
put_value(char *to, uint64 key)
{
	Size		len = rnd(12);

	switch (plan.code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			*(int16 *) to = (int16) key;
			return sizeof(int16);
		case MTP_NORM_NONE:
		case MTP_NORM_INT4:
		case MTP_NORM_OID:
			*(int32 *) to = (int32) key;
			return sizeof(int32);
		case MTP_NORM_INT8:
		case MTP_NORM_UINT8:
			*(uint64 *) to = key;
			return sizeof(uint64);
		case MTP_NORM_BOOL:
			*to = key & 1;
			return 1;
		case MTP_NORM_CHAR:
			*to = (char) key;
			return 1;
		case MTP_NORM_FLOAT4:
			*(float4 *) to = (float4) (key % 3 ? (double) (int64) key : odd_doubles[key % lengthof(odd_doubles)]);
			return sizeof(float4);
		case MTP_NORM_FLOAT8:
			*(float8 *) to = key % 3 ? (double) (int64) key : odd_doubles[key % lengthof(odd_doubles)];
			return sizeof(float8);
		case MTP_NORM_UUID:
			memset(to, key & 3 ? 0 : 0xFF, UUID_LEN);
			*(uint64 *) (to + (key & 8)) = key;
			return UUID_LEN;
		case MTP_NORM_NAME:
			memset(to, 0, NAMEDATALEN);
			snprintf(to, NAMEDATALEN, UINT64_FORMAT, key);
			return NAMEDATALEN;
	}

	/* MTP_NORM_BYTES: short, long and compressed varlenas; many share their first bytes. */
	if (key % 3 == 0)
	{
		SET_VARSIZE_SHORT(to, VARHDRSZ_SHORT + len);
		memcpy(VARDATA_SHORT(to), &key, Min(len, sizeof(key)));
		memset(VARDATA_SHORT(to) + Min(len, sizeof(key)), 'x', len - Min(len, sizeof(key)));
		return VARHDRSZ_SHORT + len;
	}
	if (key % 3 == 1)
	{
		SET_VARSIZE(to, VARHDRSZ + sizeof(key));
		memcpy(VARDATA(to), &key, sizeof(key));
		return VARHDRSZ + sizeof(key);
	}
	SET_VARSIZE_COMPRESSED(to, VARHDRSZ_COMPRESSED + sizeof(key));
	memset(to + VARHDRSZ, 0, VARHDRSZ_COMPRESSED - VARHDRSZ);
	memcpy(to + VARHDRSZ_COMPRESSED, &key, sizeof(key));
	return VARHDRSZ_COMPRESSED + sizeof(key);
}

/* A tuple with this key, a new TID and random bytes behind; malloc'd to its exact size. */
static IndexTuple
make_tuple(uint64 key, bool isnull)
{
	static uint32 serial = 0;
	char		buf[BLCKSZ];
	IndexTuple	itup = (IndexTuple) buf;
	Size		size = sizeof(IndexTupleData);
	IndexTuple	out;

	memset(buf, 0, sizeof(buf));
	if (isnull)
	{
		size = MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData));
		itup->t_info = INDEX_NULL_MASK;
	}
	else
		size += put_value(buf + size, key);

	/*
	 * Where items may be narrow the first column takes what they leave out.  Sizes need not be
	 * aligned.
	 */
	if ((plan.code & MTP_NORM_CUT) && !isnull)
	{
		if (rnd(100) < plan.odd)
			buf[size - 1 + rnd(2)] = 1;
		size = TYPEALIGN(mtp_norm_align(plan.code), size);
	}
	if (plan.pad > 0)
		for (Size end = Min(size + rnd(plan.pad + 1), MTP_MAX_ITEM); size < end; size++)
			buf[size] = (char) rnd64();
	size = Min(size, MTP_MAX_ITEM);
	itup->t_info |= size;
	serial++;
	ItemPointerSet(&itup->t_tid, serial >> 8, (serial & 0xFF) + 1);
	out = malloc(size);
	memcpy(out, itup, size);
	return out;
}

/* An inner page's first item: a pivot without attributes, below everything. */
static IndexTuple
minus_infinity(void)
{
	IndexTuple	itup = calloc(1, sizeof(IndexTupleData));

	itup->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(itup, 0, false);
	BTreeTupleSetDownLink(itup, 7);
	return itup;
}

static bool
is_minus_infinity(IndexTuple itup)
{
	return BTreeTupleIsPivot(itup) &&
		(ItemPointerGetOffsetNumberNoCheck(&itup->t_tid) & BT_OFFSET_MASK) == 0;
}

static bool
is_null(IndexTuple itup)
{
	return IndexTupleHasNulls(itup);
}

static int
compare_bytes(const char *a, Size na, const char *b, Size nb)
{
	int			c = memcmp(a, b, Min(na, nb));

	return c != 0 ? c : (na > nb) - (na < nb);
}

static int
compare_varlena(const char *a, const char *b)
{
	const char *d[2];
	Size		n[2];

	for (int i = 0; i < 2; i++)
	{
		const char *v = i ? b : a;

		if (VARATT_IS_COMPRESSED(v))
		{
			d[i] = v + VARHDRSZ_COMPRESSED;
			n[i] = VARSIZE_4B(v) - VARHDRSZ_COMPRESSED;
		}
		else
		{
			d[i] = VARDATA_ANY(v);
			n[i] = VARSIZE_ANY_EXHDR(v);
		}
	}
	return compare_bytes(d[0], n[0], d[1], n[1]);
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int
compare_doubles(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (isnan(a) != 0) - (isnan(b) != 0);
	return COMPARE(a, b);
}

/* The types' own order. */
static int
compare_values(const char *a, const char *b)
{
	switch (plan.code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			return COMPARE(*(int16 *) a, *(int16 *) b);
		case MTP_NORM_NONE:
		case MTP_NORM_INT4:
			return COMPARE(*(int32 *) a, *(int32 *) b);
		case MTP_NORM_OID:
			return COMPARE(*(uint32 *) a, *(uint32 *) b);
		case MTP_NORM_INT8:
			return COMPARE(*(int64 *) a, *(int64 *) b);
		case MTP_NORM_UINT8:
			return COMPARE(*(uint64 *) a, *(uint64 *) b);
		case MTP_NORM_BOOL:
		case MTP_NORM_CHAR:
			return COMPARE(*(uint8 *) a, *(uint8 *) b);
		case MTP_NORM_FLOAT4:
			return compare_doubles(*(float4 *) a, *(float4 *) b);
		case MTP_NORM_FLOAT8:
			return compare_doubles(*(float8 *) a, *(float8 *) b);
		case MTP_NORM_UUID:
			return memcmp(a, b, UUID_LEN);
		case MTP_NORM_NAME:
			return strncmp(a, b, NAMEDATALEN);
		default:
			return compare_varlena(a, b);
	}
}

/* The index's order: first column, then TID. */
static int
compare(IndexTuple a, IndexTuple b)
{
	int			c;

	if (is_minus_infinity(a) || is_minus_infinity(b))
		return is_minus_infinity(b) - is_minus_infinity(a);
	if (is_null(a) || is_null(b))
		c = (plan.code & MTP_NORM_NULLS_FIRST) ? is_null(b) - is_null(a) : is_null(a) - is_null(b);
	else
	{
		c = compare_values((char *) a + sizeof(IndexTupleData), (char *) b + sizeof(IndexTupleData));
		if (plan.code & MTP_NORM_DESC)
			c = (c < 0) - (c > 0);
	}
	return c != 0 ? c : ItemPointerCompare(&a->t_tid, &b->t_tid);
}

static int
compare_items(const void *a, const void *b)
{
	return compare(((const Entry *) a)->itup, ((const Entry *) b)->itup);
}

static bool
before(void *probe, unsigned off, uint32 head)
{
	MtpPageHeader *h = MtpHeader(page);
	IndexTuple	body = (IndexTuple) (page + (off & ~MTP_SLOT_FLAGS));
	MtpItemRoom room;

	if (mtp_off_narrow(h->norm, off))
		body = mtp_body_widen(h->norm, mtp_page_narrow_norm(h, head), body, &room);
	return compare(body, probe) < 0;
}

static Entry
random_item(void)
{
	Entry		item = {0};

	item.itup = make_tuple(random_key(), rnd(100) < plan.nulls);
	item.norm = mtp_norm_tuple(plan.code, item.itup);
	return item;
}

/* ---------- comparing page and model ---------- */

/* What the model's items take on the page as it is. */
static Size
model_bytes(void)
{
	Size		bytes = 0;

	for (int i = 0; i < nmodel; i++)
		bytes += mtp_page_bytes(page, 1, &model[i].itup, &model[i].norm);
	return bytes;
}

static int
model_place(IndexTuple probe)
{
	int			i = 0;

	while (i < nmodel && compare(model[i].itup, probe) < 0)
		i++;
	return i;
}

static void
check_search(IndexTuple probe)
{
	int			want = model_place(probe);
	uint64		norm = mtp_norm_tuple(plan.code, probe);

	for (int by_head = 0; by_head < 2; by_head++)
	{
		MtpPos		p = mtp_page_search_by(page, MtpHeader(page), norm, by_head, true, before, probe);
		MtpPos		q = mtp_page_locate(page, want);

		check(p.pos == want);
		check(p.node == q.node && p.slot == q.slot);
	}
}

static void
check_walk(void)
{
	MtpPos		p = mtp_page_locate(page, 0);
	int			n = 0;

	if (nmodel == 0)
		return;
	do
	{
		MtpItemRoom room,
					again;
		IndexTuple	body = mtp_slot_body(page, p.node, p.slot);
		IndexTuple	itup = mtp_slot_item(page, p.node, p.slot, &room);

		check(p.pos == n);
		check((body != itup) == mtp_page_narrows_item(MtpHeader(page), itup, model[n].norm));
		check(body == itup ||
			  IndexTupleSize(body) + mtp_norm_align(plan.code) == IndexTupleSize(itup));
		check(body == itup || !plan.inner);
		check(IndexTupleSize(itup) == IndexTupleSize(model[n].itup));
		check(memcmp(itup, model[n].itup, IndexTupleSize(itup)) == 0);
		check(mtp_slot_dead(page, p.node, p.slot) == model[n].dead);
		check(mtp_page_item(page, n, &again) == (body != itup ? &again.tuple : itup));
		check(memcmp(mtp_page_item(page, n, &again), itup, IndexTupleSize(itup)) == 0);
		nnarrow += body != itup;
		n++;
	} while (mtp_pos_next(page, &p));
	check(n == nmodel);
	while (mtp_pos_back(MtpCounts(page), &p))
	{
		MtpPos		q = mtp_page_locate(page, --n);

		check(p.pos == n && p.node == q.node && p.slot == q.slot);
	}
	check(n == 0);
	for (int i = 0; i < MtpHeader(page)->nnodes; i++)
	{
		int			count = MtpCounts(page)[i];
		uint32		live = mtp_node_live(&MtpNodes(page)[i], count);

		for (int j = 0; j < 32; j++)
			check((live >> j & 1) == (j < count && !mtp_slot_dead(page, i, j)));
	}
}

/* What the directory does not use is zero. */
static void
check_slack(void)
{
	MtpPageHeader *h = MtpHeader(page);

	for (int i = 0; i < h->nnodes; i++)
		for (int j = MtpCounts(page)[i]; j < MTP_NODE_SLOTS; j++)
			check(MtpNodes(page)[i].heads[j] == 0 && MtpNodes(page)[i].offs[j] == 0);
	for (int i = h->nnodes; i < h->cap; i++)
		check(MtpDir(page)[i] == 0 && MtpCounts(page)[i] == 0);
}

/* Both pages, hints and hole apart, are the same bytes: redo does what was done. */
static void
check_twin(void)
{
	char	   *a = malloc(BLCKSZ);
	char	   *b = malloc(BLCKSZ);
	PageHeader	pa = (PageHeader) a;

	memcpy(a, page, BLCKSZ);
	memcpy(b, twin, BLCKSZ);
	mtp_page_mask((Page) a);
	mtp_page_mask((Page) b);
	memset(a + pa->pd_lower, 0, pa->pd_upper - pa->pd_lower);
	memset(b + pa->pd_lower, 0, pa->pd_upper - pa->pd_lower);
	check(memcmp(a, b, BLCKSZ) == 0);
	free(a);
	free(b);
}

static void
check_all(void)
{
	IndexTuple	items[ITEMS_MAX];
	MtpItemRoom rooms[ITEMS_MAX];
	const char *wrong = mtp_page_fault(page, NULL);
	MtpPageHeader *h = MtpHeader(page);
	Size		highkey = h->highkey ? mtp_body_size(h->norm, MtpHighKey(page)) : 0;
	Size		need = mtp_page_need(nmodel, model_bytes() + highkey);

	if (wrong)
		fail(wrong, __LINE__);
	check(h->nitems == nmodel);
	check(mtp_page_items(page, items, rooms) == nmodel);
	for (int i = 0; i < nmodel; i++)
		check(memcmp(items[i], model[i].itup, IndexTupleSize(model[i].itup)) == 0);
	check(mtp_page_body_bytes(page) == model_bytes() + highkey);
	check(need <= MTP_PAGE_ROOM && mtp_page_free(page) == MTP_PAGE_ROOM - need);
	check(mtp_page_fits(page, 0, MTP_PAGE_ROOM - need));
	check(!mtp_page_fits(page, 0, MTP_PAGE_ROOM - need + 1));
	check_walk();
	check_slack();
	check_twin();
	for (int i = 0; i < 3; i++)
	{
		Entry		probe = random_item();

		check_search(probe.itup);
		free(probe.itup);
		if (nmodel > 0)
			check_search(model[rnd(nmodel)].itup);
	}
}

/* ---------- steps ---------- */

static void
step_insert(int n)
{
	Entry		items[ITEMS_MAX];
	IndexTuple	itups[ITEMS_MAX];
	uint64		norms[ITEMS_MAX];
	uint16		pos[ITEMS_MAX];
	Size		bytes = 0;
	int			got = 0;

	where = "insert";
	for (; got < n && nmodel + got < ITEMS_MAX; got++)
	{
		Entry		item = random_item();

		Size		more = mtp_page_bytes(page, 1, &item.itup, &item.norm);

		if (!mtp_page_fits(page, got + 1, bytes + more))
		{
			free(item.itup);
			break;
		}
		bytes += more;
		items[got] = item;
	}
	qsort(items, got, sizeof(Entry), compare_items);
	for (int i = 0; i < got; i++)
	{
		itups[i] = items[i].itup;
		norms[i] = items[i].norm;
		pos[i] = mtp_page_search_by(page, MtpHeader(page), norms[i], true, true, before, itups[i]).pos;
	}
	mtp_page_insert(page, got, pos, itups, norms);
	mtp_page_insert(twin, got, pos, itups, norms);
	memcpy(model + nmodel, items, got * sizeof(Entry));
	nmodel += got;
	qsort(model, nmodel, sizeof(Entry), compare_items);
}

static void
step_delete(int percent)
{
	uint16		pos[ITEMS_MAX];
	int			n = 0,
				kept = plan.inner ? 1 : 0;

	where = "delete";
	for (int i = kept; i < nmodel; i++)
	{
		if (rnd(100) < percent)
		{
			pos[n++] = i;
			free(model[i].itup);
		}
		else
			model[kept++] = model[i];
	}
	if (n == 0)
		return;
	mtp_page_delete(page, n, pos);
	mtp_page_delete(twin, n, pos);
	nmodel = kept;
}

/*
 * An item of the same key, perhaps of more bytes, takes the place of one or of several of its norm, or
 * two of them do: then the second one has a TID above all others.
 */
static void
step_replace(void)
{
	int			i = rnd(Max(nmodel, 1));
	Size		size,
				old,
				bytes;
	IndexTuple	made[2];
	uint64		norms[2];
	int			n = 1;
	int			nold = 1;

	where = "replace";
	if (nmodel == 0 || nmodel == ITEMS_MAX || plan.inner)
		return;
	norms[0] = norms[1] = model[i].norm;
	size = IndexTupleSize(model[i].itup);
	made[0] = memcpy(malloc(MTP_MAX_ITEM), model[i].itup, size);
	for (int more = rnd(2) ? rnd(plan.pad + 1) : 0; more > 0 && size < MTP_MAX_ITEM; more--)
		((char *) made[0])[size++] = (char) rnd64();
	made[0]->t_info = (made[0]->t_info & ~INDEX_SIZE_MASK) | size;
	made[1] = memcpy(malloc(size), made[0], size);
	ItemPointerSetBlockNumber(&made[1]->t_tid, 1000000000 + nreplaced);
	while (nold < MTP_LIST_JOIN && i + nold < nmodel && model[i + nold].norm == norms[0] && rnd(4))
		nold++;
	if (rnd(2) && (i + nold == nmodel || compare(made[1], model[i + nold].itup) < 0))
		n = 2;

	old = 0;
	for (int k = 0; k < nold; k++)
	{
		MtpPos		p = mtp_page_locate(page, i + k);

		old += mtp_body_size(MtpHeader(page)->norm, mtp_slot_body(page, p.node, p.slot));
	}
	bytes = mtp_page_bytes(page, n, made, norms) + mtp_page_body_bytes(page) - old;
	if (mtp_page_need(nmodel + n - nold, bytes) <= MTP_PAGE_ROOM)
	{
		mtp_page_replace(page, i, nold, n, made, norms[0]);
		mtp_page_replace(twin, i, nold, n, made, norms[0]);
		for (int k = 0; k < nold; k++)
			free(model[i + k].itup);
		memmove(&model[i + n], &model[i + nold], (nmodel - i - nold) * sizeof(Entry));
		for (int k = 0; k < n; k++)
			model[i + k] = (Entry)
		{
			.itup = memcpy(malloc(size), made[k], size),.norm = norms[k]
		};
		nmodel += n - nold;
		nreplaced++;
	}
	free(made[0]);
	free(made[1]);
}

static void
step_dead(void)
{
	int			i = rnd(Max(nmodel, 1));
	MtpPos		p;

	where = "set_dead";
	if (nmodel == 0 || plan.inner)
		return;
	p = mtp_page_locate(page, i);
	mtp_page_set_dead(page, p.node, p.slot);
	model[i].dead = true;
}

static void
pack(Page to, const IndexTuple *items, int n, IndexTuple highkey)
{
	mtp_page_init(to, plan.inner ? MTP_PAGE_INNER : MTP_PAGE_LEAF, plan.inner, plan.code);
	if (highkey)
		MtpHeader(to)->right = 17;
	mtp_page_pack(to, n, items, highkey);
}

/*
 * As a split does: what is on the page, or a part of it, packed into a fresh page.  That may take
 * more room than before, where an outlier leaves no window for narrow items.
 */
static void
step_pack(bool part)
{
	IndexTuple	items[ITEMS_MAX];
	IndexTuple	highkey = NULL;
	uint16		gone[ITEMS_MAX];
	int			ngone = 0;
	Size		more = 0;
	MtpSpan		span;

	where = "pack";
	if (part && nmodel > 2)
	{
		int			keep = 1 + rnd(nmodel - 1);

		for (int i = keep; i < nmodel; i++)
		{
			gone[ngone++] = i;
			free(model[i].itup);
		}
		nmodel = keep;
	}
	mtp_span_begin(&span, MtpHeader(page)->norm);
	for (int i = 0; i < nmodel; i++)
	{
		items[i] = model[i].itup;
		mtp_span_add(&span, items[i]);
	}
	if (MtpHeader(page)->highkey)
	{
		more = IndexTupleSize(MtpHighKey(page));
		highkey = memcpy(malloc(more), MtpHighKey(page), more);
		more = mtp_body_size(MtpHeader(page)->norm, highkey);
	}
	if (mtp_page_need(nmodel, mtp_span_bytes(&span) + more) > MTP_PAGE_ROOM)
	{
		nrefused++;
		mtp_page_delete(page, ngone, gone);
		mtp_page_delete(twin, ngone, gone);
		free(highkey);
		return;
	}
	for (int i = 0; i < nmodel; i++)
		model[i].dead = false;
	pack(page, items, nmodel, highkey);
	pack(twin, items, nmodel, highkey);
	free(highkey);

	/* Who fills pages counts on it. */
	check(mtp_page_body_bytes(page) <= mtp_span_bytes(&span) + more);
	check(!mtp_span_narrow(&span) ||
		  model_bytes() <= span.whole - mtp_norm_align(span.code) * span.plain);
}

static void
start(void)
{
	Entry		highkey = {0};

	where = "start";
	ordinal = plan.order == 2 ? 1000000 : 0;
	for (int i = 0; i < nmodel; i++)
		free(model[i].itup);
	nmodel = 0;
	if (plan.highkey)
		highkey = random_item();
	if (plan.inner)
		model[nmodel++] = (Entry) {.itup = minus_infinity()};
	if (plan.inner || plan.highkey)
	{
		pack(page, &model[0].itup, nmodel, highkey.itup);
		pack(twin, &model[0].itup, nmodel, highkey.itup);
	}
	else
	{
		mtp_page_init(page, MTP_PAGE_LEAF, 0, plan.code);
		mtp_page_init(twin, MTP_PAGE_LEAF, 0, plan.code);
	}
	free(highkey.itup);
	check_all();
}

static void
run_plan(int steps)
{
	start();
	for (int i = 0; i < steps; i++)
	{
		int			what = rnd(19);

		if (what < 11)
			step_insert(1 + (rnd(4) ? rnd(3) : rnd(60)));
		else if (what < 13)
			step_delete(rnd(3) ? 5 : rnd(101));
		else if (what < 16)
			step_dead();
		else if (what < 18)
			step_pack(rnd(2));
		else
			step_replace();
		check_all();
	}
	/* To the last byte. */
	for (int i = 0; i < 400; i++)
		step_insert(1);
	check_all();
	step_pack(false);
	check_all();
	step_delete(100);
	check_all();
}

static void
random_plan(void)
{
	static const uint8 flags[] = {0, MTP_NORM_DESC, MTP_NORM_NULLS_FIRST, MTP_NORM_DESC | MTP_NORM_NULLS_FIRST};
	static const int distincts[] = {0, 0, 1, 2, 7, 300};
	static const int pads[] = {0, 0, 1, 9, 40, 700, MTP_MAX_ITEM};
	static const int cut_pads[] = {0, 0, 0, 1, 8, 24, MTP_NARROW_MOST, 2 * MTP_NARROW_MOST};
	static const int nulls[] = {0, 0, 1, 30, 100};

	plan.code = rnd(MTP_NORM_NAME + 1) | flags[rnd(lengthof(flags))];
	if (!mtp_norm_is_wide(plan.code) && rnd(2))
		plan.code |= MTP_NORM_SHORT;
	plan.inner = rnd(3) == 0;
	plan.highkey = rnd(2);
	plan.distinct = distincts[rnd(lengthof(distincts))];
	plan.pad = Min(pads[rnd(lengthof(pads))], BLCKSZ / 2 - 100);
	plan.nulls = nulls[rnd(lengthof(nulls))];
	plan.order = rnd(4) ? 0 : 1 + rnd(2);
	plan.span = 0;
	plan.outliers = 0;
	plan.odd = 0;

	/* Often around what a window can hold, and mixed with what it cannot. */
	if (!mtp_norm_is_exact(plan.code) || rnd(4) == 0)
		return;
	plan.code |= MTP_NORM_CUT;
	plan.pad = cut_pads[rnd(lengthof(cut_pads))];
	plan.odd = rnd(4) ? 0 : rnd(101);
	if (rnd(3) == 0)
		return;
	plan.low_bits = rnd(3) ? 0 : rnd(20);
	plan.span = (UINT64CONST(1) << (8 + rnd(30) + plan.low_bits)) - rnd(3);
	plan.base = rnd64() << plan.low_bits;
	plan.outliers = rnd(3) ? 0 : rnd(50);
}

/* ---------- tests without a model ---------- */

static void
test_counting(void)
{
	uint32		a[32];

	where = "counting";
	for (int round = 0; round < 20000; round++)
	{
		int			n = rnd(25);
		int			want_both[2];
		uint32		key;

		for (int i = 0; i < lengthof(a); i++)
			a[i] = (uint32) rnd64() >> (rnd(2) ? 0 : rnd(32));
		if (rnd(4) == 0)
			a[0] = 0, a[1] = PG_UINT32_MAX;
		for (int i = 1; i < n; i++)
			for (int j = i; j > 0 && a[j - 1] > a[j]; j--)
			{
				uint32		t = a[j];

				a[j] = a[j - 1];
				a[j - 1] = t;
			}
		key = rnd(3) ? a[rnd(Max(n, 1))] : (uint32) rnd64();
		for (int or_equal = 0; or_equal < 2; or_equal++)
		{
			int			want = 0;

			while (want < n && (or_equal ? a[want] <= key : a[want] < key))
				want++;
			check(mtp_count_below(a, n, key, or_equal) == want);
			check(mtp_count_below_scalar(a, n, key, or_equal) == want);
			want_both[or_equal] = want;
		}
		if (n <= MTP_NODE_SLOTS)
		{
			int			below,
						not_above;

			mtp_node_range(a, n, key, &below, &not_above);
			check(below == want_both[false] && not_above == want_both[true]);
		}
	}
}

/* Normalized keys keep the values' order, and exact ones come back. */
static void
test_norms(void)
{
	where = "norms";
	for (int round = 0; round < 200000; round++)
	{
		Entry		a,
					b;
		int			c;

		random_plan();
		plan.nulls = 10;
		a = random_item();
		b = random_item();
		b.itup->t_tid = a.itup->t_tid;	/* equal but for the first column */
		c = compare(a.itup, b.itup);
		check(c >= 0 || a.norm <= b.norm);
		check(c <= 0 || a.norm >= b.norm);
		check(c != 0 || a.norm == b.norm);
		if (mtp_norm_is_exact(plan.code) && !is_null(a.itup) && !is_null(b.itup))
		{
			Datum		d = mtp_norm_to_datum(plan.code, a.norm);

			check(c == 0 || a.norm != b.norm);
			check(mtp_norm_datum(plan.code, d, false) == a.norm);
			check(mtp_norm_fixed(plan.code, (char *) a.itup + sizeof(IndexTupleData)) == a.norm);
		}
		free(a.itup);
		free(b.itup);
	}
}

/* mtp_page_fault looks at any bytes without reading outside of the page. */
static void
test_garbage(void)
{
	char	   *copy = malloc(BLCKSZ);
	int			found = 0;

	for (int round = 0; round < 30; round++)
	{
		random_plan();
		start();
		step_insert(200);
		memcpy(copy, page, BLCKSZ);
		for (int i = 0; i < 300; i++)
		{
			int			flips = 1 + rnd(4);

			while (flips-- > 0)
				page[rnd(3) ? rnd(BLCKSZ) : rnd(256)] ^= 1 << rnd(8);
			found += mtp_page_fault(page, NULL) != NULL;
			if (rnd(4) == 0)
				memcpy(page, copy, BLCKSZ);
		}
	}
	where = "garbage";
	check(found > 1000);
	free(copy);
}

int
main(int argc, char **argv)
{
	int			rounds;

	if (argc != 3)
		die("usage: page_test SEED ROUNDS");
	rng = strtoull(argv[1], NULL, 10) * 2 + 1;
	rounds = atoi(argv[2]);
	page = malloc(BLCKSZ);
	twin = malloc(BLCKSZ);

	test_counting();
	test_norms();
	for (int i = 0; i < rounds; i++)
	{
		random_plan();
		run_plan(20 + rnd(200));
	}
	test_garbage();
	where = "end";
	check(rounds < 100 || (nnarrow > 0 && nrefused > 0 && nreplaced > 0));
	printf("ok\n");
	return 0;
}
