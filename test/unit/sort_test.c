/*
 * sort_test.c
 *	  Sorts random entries with src/batch/sort.c, next to the C library's qsort.
 *
 *	  sort_test SEED ROUNDS
 *
 * A plain program.  Wide entries have random columns, and comparison functions of the test's own
 * tell their order.  That of text can be guessed, in part.  One in four sorts is stopped by an error, and must leave all the entries.
 */
#include "core/core.h"

#include <math.h>
#include <setjmp.h>

#include "access/tupmacs.h"
#include "batch/entry.h"
#include "core/inject.h"
#include "miscadmin.h"
#include "server.h"
#include "utils/uuid.h"

#define MAX_ENTRIES 20000
#define KINDS		10
#define MAX_COLUMNS 4
#define MAX_BYTES	200
#define MAX_VALUES	300

#define MAX_UNHEEDED 50			/* comparisons that nobody can interrupt */
#define GUESSED		3000		/* texts that are sorted by their letters */
#define IGNORED		'q'			/* counts in text only where all other letters are equal, … */
#define LAST		'-'			/* … as this does, which the guess finds out */

volatile sig_atomic_t InterruptPending = true;

static uint64 state;
static jmp_buf stop;
static long stop_after;
static int	unheeded,			/* comparisons since interrupts were heeded, … */
			most_unheeded;		/* … and the most of all */
static long compared;			/* calls of the comparison function */
static MtpOrder *sorting;
char	   *mtp_debug_injection = "";

void
ProcessInterrupts(void)
{
	unheeded = 0;
}

void
mtp_inject_here(const char *point)
{
	most_unheeded = Max(most_unheeded, ++unheeded);
	if (stop_after > 0 && --stop_after == 0)
		longjmp(stop, 1);
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

MemoryContext TopMemoryContext;

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return malloc(size);
}

/* An error leaves to a memory context what the sort has allocated. */
const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}

static uint64
rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Keys of one kind: what loads have, and what makes trouble. */
static uint64
make_key(int kind, uint32 i)
{
	switch (kind)
	{
		case 0:
			return (uint32) rnd();
		case 1:
			return rnd();
		case 2:					/* clustered */
			return UINT64CONST(1000000000) + i * 10 + rnd() % 1000;
		case 3:					/* few values */
			return rnd() % 10;
		case 4:
			return i;
		case 5:
			return ~(uint64) i;
		case 6:
			return 7;
		case 7:					/* nearly all equal */
			return rnd() % 1000 == 0 ? rnd() : 5;
		case 8:					/* all magnitudes */
			return PG_UINT64_MAX >> (rnd() & 63);
		default:				/* only high bits, and the extremes */
			return rnd() % 3 == 0 ? rnd() << 50 : rnd() % 2 ? PG_UINT64_MAX : 0;
	}
}

static int
compare(const void *a, const void *b)
{
	const MtpNarrow *x = a;
	const MtpNarrow *y = b;

	return mtp_narrow_less(y, x) - mtp_narrow_less(x, y);
}

static void
check(const char *what, const void *got, const void *want, uint32 n)
{
	if (memcmp(got, want, n * sizeof(MtpNarrow)) != 0)
		die("%s: wrong result for %u entries", what, n);
}

static void
test_narrow(uint32 n, int kind, int rids)
{
	MtpNarrow  *a = malloc(n * sizeof(MtpNarrow));
	MtpNarrow  *b = malloc(n * sizeof(MtpNarrow));
	MtpNarrow  *scratch = malloc(n * sizeof(MtpNarrow));

	for (uint32 i = 0; i < n; i++)
	{
		a[i].norm = make_key(kind, i);
		a[i].rid = ((uint64) (i / 100) << 16) + i % 100 + 1;
		if (rids == 1)
			a[i].rid = rnd() & UINT64CONST(0xFFFFFFFF00FF);
		if (rids == 2 && rnd() % 2)
			a[i].rid |= MTP_RID_LAST;
	}
	memcpy(b, a, n * sizeof(MtpNarrow));
	qsort(b, n, sizeof(MtpNarrow), compare);
	mtp_batch_sort_narrow(a, scratch, n);
	check("narrow", a, b, n);
	free(a);
	free(b);
	free(scratch);
}

/* ---------- columns of wide entries ---------- */

/* How a column's value lies in a tuple, and which values are likely. */
typedef struct Column
{
	uint8		code;
	bool		zeros;
	bool		collated;
	bool		identical;		/* text that differs in case alone is not equal */
	int			nulls;			/* percent */
	int			common;			/* bytes that all values begin with */
	int			nvalues;
	Datum		values[MAX_VALUES];
} Column;

static Column columns[MAX_COLUMNS];

/* By kind: the size, or -1 for a varlena, and the alignment */
static const struct
{
	int			len;
	int			align;
}			kinds[] = {
	[MTP_NORM_NONE] = {4, 4},[MTP_NORM_INT2] = {2, 2},[MTP_NORM_INT4] = {4, 4},
	[MTP_NORM_INT8] = {8, 8},[MTP_NORM_OID] = {4, 4},[MTP_NORM_UINT8] = {8, 8},
	[MTP_NORM_BOOL] = {1, 1},[MTP_NORM_CHAR] = {1, 1},[MTP_NORM_FLOAT4] = {4, 4},
	[MTP_NORM_FLOAT8] = {8, 8},[MTP_NORM_UUID] = {UUID_LEN, 1},[MTP_NORM_BYTES] = {-1, 4},
	[MTP_NORM_NAME] = {NAMEDATALEN, 1}
};

static char *
align(char *p, int to)
{
	return (char *) TYPEALIGN(to, p);
}

/* The place of a column's value, which is not null.  Short varlenas are not aligned. */
static char *
place_of(IndexTuple itup, int column)
{
	char	   *p = (char *) itup + IndexInfoFindDataOffset(itup->t_info);

	for (int i = 0;; i++)
	{
		uint8		kind = columns[i].code & MTP_NORM_KIND;

		if (IndexTupleHasNulls(itup) && att_isnull(i, (bits8 *) (itup + 1)))
			continue;
		if (kind != MTP_NORM_BYTES || !VARATT_NOT_PAD_BYTE(p))
			p = align(p, kinds[kind].align);
		if (i == column)
			return p;
		p += kind == MTP_NORM_BYTES ? VARSIZE_ANY(p) : kinds[kind].len;
	}
}

Datum
nocache_index_getattr(IndexTuple itup, int attnum, TupleDesc desc)
{
	uint8		kind = columns[attnum - 1].code & MTP_NORM_KIND;
	char	   *p = place_of(itup, attnum - 1);

	if (kind == MTP_NORM_UUID || kind == MTP_NORM_BYTES || kind == MTP_NORM_NAME)
		return PointerGetDatum(p);
	return fetch_att(p, true, kinds[kind].len);
}

static int
compare_floats(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a > b) - (a < b);
}

/* "Compressed" values hold their bytes as they are (server.h). */
static char *
bytes_of(char *v, int *len)
{
	if (VARATT_IS_COMPRESSED(v))
	{
		*len = VARSIZE_4B(v) - VARHDRSZ_COMPRESSED;
		return v + VARHDRSZ_COMPRESSED;
	}
	*len = VARSIZE_ANY_EXHDR(v);
	return VARDATA_ANY(v);
}

/* Text as its collation sees it first: without case, and without what is ignored. */
static int
letters_of(const char *x, int n, char *to)
{
	int			len = 0;

	for (int i = 0; i < n; i++)
		if (x[i] != IGNORED && x[i] != LAST)
			to[len++] = x[i] >= 'A' && x[i] <= 'Z' ? x[i] + 'a' - 'A' : x[i];
	return len;
}

static int
compare_bytes(const char *x, int m, const char *y, int n)
{
	int			c = memcmp(x, y, Min(m, n));

	return c != 0 ? c : m - n;
}

static int
compare_texts(bool identical, const char *x, int m, const char *y, int n)
{
	char		letters_x[MAX_BYTES + 32],
				letters_y[MAX_BYTES + 32];
	int			c = compare_bytes(letters_x, letters_of(x, m, letters_x),
								  letters_y, letters_of(y, n, letters_y));

	return c != 0 || !identical ? c : compare_bytes(x, m, y, n);
}

/* The comparison function of all columns */
static int
compare_values(Datum a, Datum b, SortSupport key)
{
	int64		i = 0,
				j = 0;
	const Column *column = &columns[key->ssup_attno - 1];
	int			m,
				n;
	char	   *x,
			   *y;

	compared++;
	switch (column->code & MTP_NORM_KIND)
	{
		case MTP_NORM_NONE:		/* a part of the bytes counts */
			i = DatumGetUInt32(a) % 100;
			j = DatumGetUInt32(b) % 100;
			break;
		case MTP_NORM_INT2:
			i = DatumGetInt16(a);
			j = DatumGetInt16(b);
			break;
		case MTP_NORM_INT4:
			i = DatumGetInt32(a);
			j = DatumGetInt32(b);
			break;
		case MTP_NORM_INT8:
			i = DatumGetInt64(a);
			j = DatumGetInt64(b);
			break;
		case MTP_NORM_OID:
			i = DatumGetObjectId(a);
			j = DatumGetObjectId(b);
			break;
		case MTP_NORM_UINT8:
			return DatumGetUInt64(a) < DatumGetUInt64(b) ? -1 : DatumGetUInt64(a) > DatumGetUInt64(b);
		case MTP_NORM_BOOL:
		case MTP_NORM_CHAR:
			i = DatumGetUInt8(a);
			j = DatumGetUInt8(b);
			break;
		case MTP_NORM_FLOAT4:
			return compare_floats(DatumGetFloat4(a), DatumGetFloat4(b));
		case MTP_NORM_FLOAT8:
			return compare_floats(DatumGetFloat8(a), DatumGetFloat8(b));
		case MTP_NORM_UUID:
			return memcmp(DatumGetPointer(a), DatumGetPointer(b), UUID_LEN);
		case MTP_NORM_NAME:
			return strncmp(DatumGetPointer(a), DatumGetPointer(b), NAMEDATALEN);
		case MTP_NORM_BYTES:
			x = bytes_of(DatumGetPointer(a), &m);
			y = bytes_of(DatumGetPointer(b), &n);
			return column->collated ? compare_texts(column->identical, x, m, y, n) :
				compare_bytes(x, m, y, n);
	}
	return (i > j) - (i < j);
}

/* Bytes that are often the same, and now and then zero where they may be; no other value has 255. */
static void
random_bytes(Column *c, char *to, int len)
{
	for (int i = 0; i < len; i++)
	{
		if (i < c->common)
			to[i] = 'a' + i % 26;
		else if (c->collated)
			to[i] = rnd() % 50 == 0 ? IGNORED : rnd() % 9 == 0 ? LAST : "abAB"[rnd() % 4];
		else if (c->zeros && rnd() % 3 == 0)
			to[i] = 0;
		else
			to[i] = rnd() % 4 == 0 ? 255 : 'a' + rnd() % 2;
	}
}

static Datum
random_value(Column *c)
{
	static const double doubles[] = {
		0.0, -0.0, 1, -1, 1e-310, -1e30, 1e30, INFINITY, -INFINITY, NAN, -NAN, 0.1
	};
	uint64		u = rnd() % 4 == 0 ? 0 : rnd() % 4 == 0 ? PG_UINT64_MAX : rnd() >> (rnd() & 63);
	double		d = rnd() % 2 ? doubles[rnd() % lengthof(doubles)] : (double) (int64) u;
	int			len;
	char	   *v;

	switch (c->code & MTP_NORM_KIND)
	{
		case MTP_NORM_BOOL:
			return BoolGetDatum(u & 1);
		case MTP_NORM_CHAR:
			return CharGetDatum((char) u);
		case MTP_NORM_INT2:
			return Int16GetDatum((int16) u);
		case MTP_NORM_NONE:
		case MTP_NORM_INT4:
		case MTP_NORM_OID:
			return Int32GetDatum((int32) u);
		case MTP_NORM_FLOAT4:
			return Float4GetDatum((float4) d);
		case MTP_NORM_FLOAT8:
			return Float8GetDatum(d);
		case MTP_NORM_UUID:
			v = malloc(UUID_LEN);
			random_bytes(c, v, UUID_LEN);
			return PointerGetDatum(v);
		case MTP_NORM_NAME:
			v = calloc(1, NAMEDATALEN);
			random_bytes(c, v, rnd() % 2 ? rnd() % NAMEDATALEN : rnd() % 20);
			return PointerGetDatum(v);
		case MTP_NORM_BYTES:
			len = rnd() % 3 == 0 ? rnd() % MAX_BYTES : rnd() % 3 == 0 ? c->common : c->common + rnd() % 18;
			v = malloc(VARHDRSZ_COMPRESSED + len);
			if (len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
			{
				SET_VARSIZE_SHORT(v, len + VARHDRSZ_SHORT);
				random_bytes(c, v + VARHDRSZ_SHORT, len);
			}
			else if (rnd() % 2)
			{
				SET_VARSIZE(v, len + VARHDRSZ);
				random_bytes(c, v + VARHDRSZ, len);
			}
			else
			{
				SET_VARSIZE_COMPRESSED(v, len + VARHDRSZ_COMPRESSED);
				memset(v + sizeof(uint32), 0, sizeof(uint32));
				random_bytes(c, v + VARHDRSZ_COMPRESSED, len);
			}
			return PointerGetDatum(v);
	}
	return Int64GetDatum((int64) u);
}

/* The same bytes compressed if they are not, or the other way round. */
static Datum
other_form(Datum value)
{
	int			len;
	char	   *bytes = bytes_of(DatumGetPointer(value), &len);
	char	   *v = calloc(1, VARHDRSZ_COMPRESSED + len);
	bool		compressed = VARATT_IS_COMPRESSED(DatumGetPointer(value));

	if (compressed)
		SET_VARSIZE(v, len + VARHDRSZ);
	else
		SET_VARSIZE_COMPRESSED(v, len + VARHDRSZ_COMPRESSED);
	memcpy(v + (compressed ? VARHDRSZ : VARHDRSZ_COMPRESSED), bytes, len);
	return PointerGetDatum(v);
}

static void
make_columns(MtpOrder *order, bool abbreviated)
{
	static const int commons[] = {0, 0, 3, 8, 13, 16, 40};

	memset(columns, 0, sizeof(columns));
	memset(order->keys, 0, MAX_COLUMNS * sizeof(SortSupportData));
	order->nkeys = 1 + rnd() % MAX_COLUMNS;
	order->nwords = abbreviated ? 0 : order->nkeys;
	order->nguessed = order->nkeys;
	order->norm_prefixes = !abbreviated;
	for (int i = 0; i < order->nkeys; i++)
	{
		Column	   *c = &columns[i];
		uint8		kind = rnd() % 3 == 0 ? MTP_NORM_BYTES : rnd() % lengthof(kinds);

		if (i == 0 && abbreviated)
			kind = rnd() % 2 ? MTP_NORM_BYTES : MTP_NORM_UINT8;
		c->collated = kind == MTP_NORM_BYTES && (rnd() % 2 || (i == 0 && abbreviated));
		c->identical = rnd() % 2;
		if (kind == MTP_NORM_NONE || c->collated)
			order->nwords = Min(order->nwords, i);
		if (kind == MTP_NORM_NONE || (i == 0 && abbreviated && !c->collated))
			order->nguessed = Min(order->nguessed, i);
		c->code = kind | (rnd() % 2 ? MTP_NORM_DESC : 0) | (rnd() % 2 ? MTP_NORM_NULLS_FIRST : 0);
		c->zeros = kind == MTP_NORM_UUID || (kind == MTP_NORM_BYTES && !c->collated && rnd() % 2);
		c->nulls = rnd() % 2 ? 0 : 20;
		c->common = commons[rnd() % lengthof(commons)];
		c->nvalues = 1 + rnd() % (rnd() % 2 ? 5 : MAX_VALUES);
		for (int v = 0; v < c->nvalues; v++)
			c->values[v] = v > 0 && c->collated && rnd() % 4 == 0 ?
				other_form(c->values[v - 1]) : random_value(c);
		order->columns[i].code = c->collated ? c->code & ~MTP_NORM_KIND : c->code;
		order->columns[i].zeros = c->zeros;
		order->columns[i].collated = c->collated;
		order->columns[i].identical = c->collated && c->identical;
		order->columns[i].letters = NULL;
		order->keys[i].comparator = compare_values;
		order->keys[i].ssup_attno = i + 1;
		order->keys[i].ssup_reverse = (c->code & MTP_NORM_DESC) != 0;
		order->keys[i].ssup_nulls_first = (c->code & MTP_NORM_NULLS_FIRST) != 0;
	}
	order->code = abbreviated ? MTP_NORM_NONE : order->columns[0].code;
}

static void
free_columns(MtpOrder *order)
{
	for (int i = 0; i < order->nkeys; i++)
	{
		uint8		kind = columns[i].code & MTP_NORM_KIND;

		if (kind == MTP_NORM_UUID || kind == MTP_NORM_BYTES || kind == MTP_NORM_NAME)
			for (int v = 0; v < columns[i].nvalues; v++)
				free(DatumGetPointer(columns[i].values[v]));
	}
}

/* Writes a random tuple of its very size. */
static IndexTuple
make_tuple(MtpOrder *order, uint64 rid)
{
	char		buf[MAXALIGN(64) + MAX_COLUMNS * (MAX_BYTES + 32)] pg_attribute_aligned(MAXIMUM_ALIGNOF) = {0};
	IndexTuple	itup = (IndexTuple) buf;
	bool		nulls[MAX_COLUMNS];
	char	   *p;

	for (int i = 0; i < order->nkeys; i++)
	{
		nulls[i] = rnd() % 100 < columns[i].nulls;
		if (nulls[i])
			itup->t_info |= INDEX_NULL_MASK;
	}
	p = buf + IndexInfoFindDataOffset(itup->t_info);
	for (int i = 0; i < order->nkeys; i++)
	{
		uint8		kind = columns[i].code & MTP_NORM_KIND;
		Datum		value = columns[i].values[rnd() % columns[i].nvalues];
		int			len = kinds[kind].len;

		if (nulls[i])
			continue;
		if (IndexTupleHasNulls(itup))
			((bits8 *) (itup + 1))[0] |= 1 << i;
		if (kind == MTP_NORM_BYTES)
			len = VARSIZE_ANY(DatumGetPointer(value));
		if (kind != MTP_NORM_BYTES || !VARATT_IS_SHORT(DatumGetPointer(value)))
			p = align(p, kinds[kind].align);
		if (kind == MTP_NORM_UUID || kind == MTP_NORM_BYTES || kind == MTP_NORM_NAME)
			memcpy(p, DatumGetPointer(value), len);
		else
			store_att_byval(p, value, len);
		p += len;
	}
	mtp_rid_to_tid(rid, &itup->t_tid);
	itup->t_info |= MAXALIGN(p - buf);
	itup = malloc(MAXALIGN(p - buf));
	memcpy(itup, buf, MAXALIGN(p - buf));
	return itup;
}

/* Abbreviated keys hide the lowest bits of an unsigned number, and all but few letters of text. */
static uint64
abbreviate(MtpOrder *order, IndexTuple itup)
{
	SortSupport key = &order->keys[0];
	bool		isnull;
	Datum		value = index_getattr(itup, 1, order->tupdesc, &isnull);

	if (isnull)
		return key->ssup_nulls_first ? 0 : PG_UINT64_MAX;
	if (columns[0].collated)
	{
		char		letters[MAX_BYTES + 32] = {0};
		int			n;
		char	   *bytes = bytes_of(DatumGetPointer(value), &n);
		uint64		prefix;

		(void) letters_of(bytes, n, letters);
		prefix = (uint8) letters[0] << 8 | (uint8) letters[1];
		return key->ssup_reverse ? ~prefix : prefix;
	}
	return mtp_norm_datum(columns[0].code, value, false) & ~UINT64CONST(3);
}

static int
judge(const void *a, const void *b)
{
	return mtp_batch_order_judge(sorting, a, b);
}

static int
by_tuple(const void *a, const void *b)
{
	IndexTuple	x = ((const MtpWide *) a)->itup;
	IndexTuple	y = ((const MtpWide *) b)->itup;

	return (x > y) - (x < y);
}

static int
sign(int c)
{
	return (c > 0) - (c < 0);
}

/* Sorts with an eye on comparisons: one of them may be an error, and interrupts are heeded. */
static void
sort_watched(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n)
{
	mtp_debug_injection = "compare";
	unheeded = 0;
	if (setjmp(stop) == 0)
		mtp_batch_sort_wide(order, a, scratch, n);
	mtp_debug_injection = "";
	stop_after = 0;
	if (most_unheeded > MAX_UNHEEDED)
		die("wide: %d comparisons without a look for interrupts", most_unheeded);
}

/*
 * The reference is qsort with the judge.  An error in the sort leaves the very entries, prefixes
 * included, and the next sort sorts them.
 */
static void
test_wide(MtpOrder *order, uint32 n, bool with_error)
{
	MtpWide    *a = malloc(n * sizeof(MtpWide));
	MtpWide    *b = malloc(n * sizeof(MtpWide));
	MtpWide    *scratch = malloc(n * sizeof(MtpWide));
	int			tids = rnd() % 3;

	make_columns(order, rnd() % 5 == 0);
	order->paired = false;
	if (rnd() % 2)
		mtp_batch_order_pair(order);
	for (uint32 i = 0; i < n; i++)
	{
		uint64		at = tids == 0 ? i : tids == 1 ? n - i : (uint32) rnd() % n * 1000 + i % 1000;

		a[i].itup = make_tuple(order, ((at / 100) << 16) + at % 100 + 1);
		a[i].prefix = order->norm_prefixes ? mtp_batch_order_prefix(order, a[i].itup) :
			abbreviate(order, a[i].itup);
	}
	memcpy(b, a, n * sizeof(MtpWide));
	sorting = order;
	if (with_error)
	{
		stop_after = 1 + rnd() % (rnd() % 2 ? 20 : n + 1);
		sort_watched(order, a, scratch, n);
		memcpy(scratch, a, n * sizeof(MtpWide));
		qsort(scratch, n, sizeof(MtpWide), by_tuple);
		qsort(b, n, sizeof(MtpWide), by_tuple);
		check("wide after an error", scratch, b, n);
	}
	sort_watched(order, a, scratch, n);
	qsort(b, n, sizeof(MtpWide), judge);
	for (uint32 i = 0; i < n; i++)
		if (a[i].prefix != b[i].prefix || judge(&a[i], &b[i]) != 0)
			die("wide: wrong result for %u entries of %d columns, code %x", n, order->nkeys, order->code);

	for (uint32 i = 0; i < n; i++)
	{
		MtpWide    *x = &a[i];
		MtpWide    *y = &a[rnd() % 2 ? Min(i + 1, n - 1) : rnd() % n];
		int			c = mtp_batch_order_judge(order, x, y);

		if (sign(mtp_batch_order_compare(order, x, y)) != sign(c))
			die("wide: wrong comparison of %d columns, code %x", order->nkeys, order->code);
		if (mtp_batch_order_same_key(order, x->itup, y->itup) !=
			(mtp_batch_order_compare_keys(order, x, y) == 0))
			die("wide: wrong equality of %d columns, code %x", order->nkeys, order->code);
	}
	for (uint32 i = 0; i < n; i++)
		free(a[i].itup);
	free_columns(order);
	free(a);
	free(b);
	free(scratch);
}

/* Where the guess is right, texts are hardly compared but with their neighbours. */
static void
test_guess(MtpOrder *order)
{
	MtpWide    *a = malloc(GUESSED * sizeof(MtpWide));
	MtpWide    *scratch = malloc(GUESSED * sizeof(MtpWide));
	char		text[VARHDRSZ_SHORT + 24];

	do
		make_columns(order, false);
	while (order->nkeys != 1 || !columns[0].collated);
	(void) mtp_batch_order_guess(order);
	free_columns(order);
	columns[0].nulls = 0;
	columns[0].nvalues = 1;
	columns[0].values[0] = PointerGetDatum(text);
	SET_VARSIZE_SHORT(text, sizeof(text));
	for (uint32 i = 0; i < GUESSED; i++)
	{
		memset(text + VARHDRSZ_SHORT, 'x', 10);
		for (int at = 10; at < 24; at++)
			text[VARHDRSZ_SHORT + at] = "09azAZ./-"[rnd() % 9];
		a[i].itup = make_tuple(order, i + 1);
		a[i].prefix = 0;
	}
	compared = 0;
	mtp_batch_sort_wide(order, a, scratch, GUESSED);
	if (compared > GUESSED * 5 / 4)
		die("guess: %ld comparisons", compared);
	for (uint32 i = 1; i < GUESSED; i++)
		if (mtp_batch_order_judge(order, &a[i - 1], &a[i]) > 0)
			die("guess: wrong order");
	for (uint32 i = 0; i < GUESSED; i++)
		free(a[i].itup);
	free(a);
	free(scratch);
}

int
main(int argc, char **argv)
{
	int			rounds;
	MtpOrder	order = {0};

	if (argc != 3)
		die("usage: sort_test SEED ROUNDS");
	StaticAssertStmt(sizeof(MtpNarrow) == sizeof(MtpWide), "one check serves both");

	/* No column has a cached offset. */
	order.tupdesc = malloc(TUPLE_DESC_SIZE(MAX_COLUMNS));
	memset(order.tupdesc, 0xFF, TUPLE_DESC_SIZE(MAX_COLUMNS));
	order.keys = calloc(MAX_COLUMNS, sizeof(SortSupportData));
	order.columns = calloc(MAX_COLUMNS, sizeof(MtpKeyColumn));
	state = UINT64CONST(88172645463325252) + atoi(argv[1]);
	rounds = atoi(argv[2]);
	test_guess(&order);
	for (int i = 0; i < rounds; i++)
		for (int kind = 0; kind < KINDS; kind++)
		{
			uint32		n = 1 + rnd() % (i % 3 == 0 ? 60 : i % 3 == 1 ? 2000 : MAX_ENTRIES);

			test_narrow(n, kind, i % 4 == 3 ? 1 : rnd() % 3);
			test_wide(&order, Min(n, 3000), i % 4 == 1);
		}
	free(order.tupdesc);
	free(order.keys);
	free(order.columns);
	puts("ok");
	return 0;
}
