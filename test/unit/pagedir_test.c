/*
 * pagedir_test.c
 *	  Builds directories of random pages and searches them, next to a look at each row.
 *
 *	  pagedir_test SEED ROUNDS [VERBOSE]
 *
 * A plain program.  Rows are written here byte by byte, and what is in them is remembered apart, so that what reads them is tested as well.  The directory stands in a
 * piece of memory of its very size.  In a part of the searches its bytes change underneath: between the search's steps, and by a thread that never stops.
 */
#include "core/core.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <strings.h>

#include "access/transam.h"
#include "pagedir/pagedir.h"
#include "random.h"
#include "server.h"

#define ATTS_MAX	9
#define KEYS_MAX	5
#define TEXT_MAX	400

enum
{
	INT2, INT4, INT8, FLOAT8, TEXT, NOCASE, UUID, WIDE, CSTRING, TYPES
};

#define KEY_TYPES	(WIDE + 1)	/* those that may be columns of a directory */

static const struct
{
	int			len;
	bool		byval;
	char		align;
	uint8		norm;
}			types[TYPES] = {
	{2, true, TYPALIGN_SHORT, MTP_NORM_INT2}, {4, true, TYPALIGN_INT, MTP_NORM_INT4}, {8, true, TYPALIGN_DOUBLE, MTP_NORM_INT8},
	{8, true, TYPALIGN_DOUBLE, MTP_NORM_FLOAT8}, {-1, false, TYPALIGN_INT, MTP_NORM_BYTES}, {-1, false, TYPALIGN_INT, MTP_NORM_NONE},
	{16, false, TYPALIGN_CHAR, MTP_NORM_UUID}, {300, false, TYPALIGN_INT, MTP_NORM_NONE}, {-2, false, TYPALIGN_CHAR, MTP_NORM_NONE}
};

/* A value as it is remembered */
typedef struct Value
{
	bool		null;
	bool		toasted;		/* compressed or out of line in the row */
	int64		i;
	double		d;
	int			len;
	char		bytes[TEXT_MAX];
} Value;

typedef struct Row
{
	bool		there;			/* LP_NORMAL */
	bool		aborted;
	Value		values[ATTS_MAX];
} Row;

static int	natts;
static int	type_of[ATTS_MAX];
static Value missing[ATTS_MAX];
static int	distinct;			/* of values */
static int	spread;				/* 0: small numbers; 1: and a few far away; 2: any */
static int	nulls,
			toasted,
			aborted;			/* percent */
static Row	rows[MTP_PAGEDIR_ITEMS];
static char *image;
static char *directory;
static Size directory_size;
static MtpPagedirColumns columns;
static jmp_buf raised;
static bool changed;			/* a dictionary was not what it had been: nothing of it is used */
static int	raise_after;		/* comparisons until one raises; 0: none does */
static long nsearches, nfound, nnothing, nlooks, nchanged, nraised, nexact, nextra, nother;

#define check(cond) \
	((cond) ? (void) 0 : die("line %d: %s (%d columns, types %d %d, distinct %d spread %d nulls %d toasted %d aborted %d)", __LINE__, #cond, columns.n, \
		type_of[columns.column[0].tag.attnum - 1], columns.n > 1 ? type_of[columns.column[1].tag.attnum - 1] : -1, distinct, spread, nulls, toasted, aborted))

/* Of this very size, with nothing behind */
static char *
get_memory(Size size)
{
	void	   *p;

	if (posix_memalign(&p, MTP_PAGEDIR_ALIGN, size) != 0)
		die("out of memory");
	return p;
}

/* ---------- what the server has ---------- */

void
qsort_arg(void *base, size_t nel, size_t elsize, qsort_arg_comparator cmp, void *arg)
{
	qsort_r(base, nel, elsize, cmp, arg);
}

Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum a, Datum b)
{
	LOCAL_FCINFO(fcinfo, 2);

	check(!changed);
	if (raise_after > 0 && --raise_after == 0)
		longjmp(raised, 1);
	check(collation == 77);
	InitFunctionCallInfoData(*fcinfo, flinfo, 2, collation, NULL, NULL);
	fcinfo->args[0].value = a;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = b;
	fcinfo->args[1].isnull = false;
	return flinfo->fn_addr(fcinfo);
}

static Datum value_datum(int type, const Value *v, char *room);

Datum
getmissingattr(TupleDesc desc, int attnum, bool *isnull)
{
	static char room[ATTS_MAX][TEXT_MAX + VARHDRSZ];

	*isnull = missing[attnum - 1].null;
	return *isnull ? (Datum) 0 : value_datum(type_of[attnum - 1], &missing[attnum - 1], room[attnum - 1]);
}

/* What an error leaves allocated goes with its memory context, which is none here. */
const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* Odd transactions were aborted. */
static bool
written(TransactionId xmin)
{
	return xmin % 2 == 0;
}

/* ---------- values ---------- */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int
compare_doubles(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (isnan(a) != 0) - (isnan(b) != 0);
	return COMPARE(a, b);
}

static int
compare_bytes(const char *a, int na, const char *b, int nb, bool nocase)
{
	int			c = 0;

	for (int i = 0; i < Min(na, nb) && c == 0; i++)
	{
		unsigned char x = a[i],
					y = b[i];

		c = nocase ? COMPARE(tolower(x), tolower(y)) : COMPARE(x, y);
	}
	return c != 0 ? c : COMPARE(na, nb);
}

/* As remembered, neither null */
static int
compare_remembered(int type, const Value *a, const Value *b)
{
	switch (type)
	{
		case INT2:
		case INT4:
		case INT8:
			return COMPARE(a->i, b->i);
		case FLOAT8:
			return compare_doubles(a->d, b->d);
		case TEXT:
			return compare_bytes(a->bytes, a->len, b->bytes, b->len, false);
		case NOCASE:
			return compare_bytes(a->bytes, a->len, b->bytes, b->len, true);
		default:
			return memcmp(a->bytes, b->bytes, types[type].len);
	}
}

static Datum
compare_int2(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(COMPARE(PG_GETARG_INT16(0), PG_GETARG_INT16(1)));
}

static Datum
compare_int4(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(COMPARE(PG_GETARG_INT32(0), PG_GETARG_INT32(1)));
}

static Datum
compare_int8(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(COMPARE(PG_GETARG_INT64(0), PG_GETARG_INT64(1)));
}

static Datum
compare_int28(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(COMPARE(PG_GETARG_INT16(0), PG_GETARG_INT64(1)));
}

static Datum
compare_int48(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(COMPARE(PG_GETARG_INT32(0), PG_GETARG_INT64(1)));
}

static Datum
compare_float8(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_doubles(PG_GETARG_FLOAT8(0), PG_GETARG_FLOAT8(1)));
}

static int
compare_texts(const char *a, const char *b, bool nocase)
{
	check(!VARATT_IS_EXTERNAL(a) && !VARATT_IS_COMPRESSED(a));
	return compare_bytes(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), nocase);
}

static Datum
compare_text(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_texts(PG_GETARG_POINTER(0), PG_GETARG_POINTER(1), false));
}

static Datum
compare_nocase(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_texts(PG_GETARG_POINTER(0), PG_GETARG_POINTER(1), true));
}

static Datum
compare_uuid(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(memcmp(PG_GETARG_POINTER(0), PG_GETARG_POINTER(1), 16));
}

static Datum
compare_wide(PG_FUNCTION_ARGS)
{
	die("values of 300 bytes were compared");
}

static const PGFunction compares[] = {compare_int2, compare_int4, compare_int8, compare_float8, compare_text, compare_nocase, compare_uuid, compare_wide};
static const PGFunction compares_int8[] = {compare_int28, compare_int48, compare_int8};

static Value
random_value(int type)
{
	static const double odd[] = {0.0, -0.0, NAN, -NAN, INFINITY, -INFINITY, 1e-310, 1e308};
	static const int lens[] = {0, 1, 7, 8, 9, 20, 130, 251, 252, 253, 256, 300};
	Value		v = {0};
	int64		n = rnd(distinct);

	if (spread == 2)
		n = rnd64();
	else if (spread == 1 && rnd(50) == 0)
		n = rnd(2) ? PG_INT64_MAX - n : PG_INT64_MIN + n;
	v.i = type == INT2 ? (int16) n : type == INT4 ? (int32) n : n;
	v.d = rnd(8) == 0 ? odd[rnd(lengthof(odd))] : n / 7.0;
	v.len = spread == 0 ? 9 : lens[rnd(lengthof(lens))];
	memset(v.bytes, type == NOCASE && rnd(2) ? 'A' : 'a', sizeof(v.bytes));
	if (v.len > 0)
		v.bytes[v.len - 1] = 'a' + n % 20;
	if (spread > 0 && v.len > 4)
		v.bytes[rnd(v.len)] = 'a' + (n / 20) % 20;
	if (types[type].len > 0)
		v.bytes[rnd(2) ? 0 : 9] = 'a' + n % 20;
	if (type == CSTRING)
		v.bytes[v.len] = '\0';
	return v;
}

/* room: for what is not passed by value */
static Datum
value_datum(int type, const Value *v, char *room)
{
	switch (type)
	{
		case INT2:
			return Int16GetDatum((int16) v->i);
		case INT4:
			return Int32GetDatum((int32) v->i);
		case INT8:
			return Int64GetDatum(v->i);
		case FLOAT8:
			return Float8GetDatum(v->d);
		case TEXT:
		case NOCASE:
			SET_VARSIZE(room, v->len + VARHDRSZ);
			memcpy(VARDATA(room), v->bytes, v->len);
			return PointerGetDatum(room);
	}
	memcpy(room, v->bytes, types[type].len);
	return PointerGetDatum(room);
}

/* ---------- rows and pages ---------- */

static Size
write_varlena(char *to, Size at, Value *v)
{
	Size		aligned = TYPEALIGN(4, at);

	if (rnd(100) < toasted)
	{
		v->toasted = true;
		if (rnd(2))
		{
			SET_VARTAG_1B_E(to + at, VARTAG_ONDISK);
			memset(to + at + VARHDRSZ_EXTERNAL, 0x5A, sizeof(varatt_external));
			return at + VARHDRSZ_EXTERNAL + sizeof(varatt_external);
		}
		SET_VARSIZE_COMPRESSED(to + aligned, 40);
		memset(to + aligned + VARHDRSZ, 0x5A, 40 - VARHDRSZ);
		return aligned + 40;
	}
	if (v->len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX && rnd(4))
	{
		SET_VARSIZE_SHORT(to + at, v->len + VARHDRSZ_SHORT);
		memcpy(to + at + VARHDRSZ_SHORT, v->bytes, v->len);
		return at + VARHDRSZ_SHORT + v->len;
	}
	SET_VARSIZE(to + aligned, v->len + VARHDRSZ);
	memcpy(to + aligned + VARHDRSZ, v->bytes, v->len);
	return aligned + VARHDRSZ + v->len;
}

static Size
write_value(char *to, Size at, int att, Value *v)
{
	int			type = type_of[att];

	if (types[type].len == -1)
		return write_varlena(to, at, v);
	if (types[type].len == -2)
	{
		memcpy(to + at, v->bytes, v->len + 1);
		return at + v->len + 1;
	}
	at = att_align_nominal(at, types[type].align);
	switch (type)
	{
		case INT2:
			*(int16 *) (to + at) = v->i;
			break;
		case INT4:
			*(int32 *) (to + at) = v->i;
			break;
		case INT8:
			*(int64 *) (to + at) = v->i;
			break;
		case FLOAT8:
			*(double *) (to + at) = v->d;
			break;
		default:
			memcpy(to + at, v->bytes, types[type].len);
	}
	return at + types[type].len;
}

/* A random row, in `to`, which is zero; returns its size. */
static Size
make_row(char *to, Row *row)
{
	HeapTupleHeader h = (HeapTupleHeader) to;
	int			have = rnd(3) ? natts : rnd(natts + 1);	/* attributes; others were added later */
	bool		anynull = false;
	Size		at;

	memset(row, 0, sizeof(Row));
	for (int i = 0; i < natts; i++)
	{
		row->values[i] = random_value(type_of[i]);
		row->values[i].null = rnd(100) < nulls;
		anynull |= i < have && row->values[i].null;
		if (i >= have)
			row->values[i] = missing[i];
	}
	HeapTupleHeaderSetNatts(h, have);
	h->t_hoff = MAXALIGN(SizeofHeapTupleHeader + (anynull ? BITMAPLEN(have) : 0));
	at = h->t_hoff;
	if (anynull)
		h->t_infomask |= HEAP_HASNULL;
	for (int i = 0; i < have; i++)
	{
		if (row->values[i].null)
			continue;
		if (anynull)
			h->t_bits[i >> 3] |= 1 << (i & 7);
		at = write_value(to, at, i, &row->values[i]);
	}

	/* Its transaction: hinted or not; what an aborted one wrote may be anything. */
	row->there = true;
	row->aborted = rnd(100) < aborted;
	HeapTupleHeaderSetXmin(h, FirstNormalTransactionId + 1 + 2 * rnd(1000) + row->aborted);
	if (rnd(2))
		h->t_infomask |= row->aborted ? HEAP_XMIN_INVALID : rnd(2) ? HEAP_XMIN_COMMITTED : HEAP_XMIN_FROZEN;
	else if (row->aborted && rnd(3) == 0)
		HeapTupleHeaderSetXmin(h, InvalidTransactionId);	/* as a speculative insertion leaves it */
	if (row->aborted && rnd(2))
		for (Size i = h->t_hoff; i < at; i++)
			to[i] = rnd(256);
	return at;
}

static void
fill_block(int half)
{
	Page		page = image + half * BLCKSZ;
	PageHeader	ph = (PageHeader) page;
	int			most = rnd(4) ? MaxHeapTuplesPerPage : rnd(20);

	memset(page, 0, BLCKSZ);
	if (rnd(20) == 0)
		return;					/* a block that was added and not yet filled */
	PageInit(page, BLCKSZ, 0);
	for (int i = 0; i < most; i++)
	{
		char		buf[ATTS_MAX * (TEXT_MAX + 16) + 100] = {0};
		Row			row;
		Size		size = make_row(buf, &row);

		if (ph->pd_lower + sizeof(ItemIdData) + MAXALIGN(size) > ph->pd_upper)
			break;
		ph->pd_lower += sizeof(ItemIdData);
		if (rnd(8) == 0)
		{
			if (rnd(3) == 0)
				ItemIdSetRedirect(&ph->pd_linp[i], 1);
			else if (rnd(2))
				ItemIdSetDead(&ph->pd_linp[i]);
			continue;
		}
		ph->pd_upper -= MAXALIGN(size);
		memcpy(page + ph->pd_upper, buf, size);
		ItemIdSetNormal(&ph->pd_linp[i], ph->pd_upper, size);
		rows[half * MaxHeapTuplesPerPage + i] = row;
	}
}

/* Random columns, a random directory on some of them, two random blocks. */
static void
start(void)
{
	static const int percents[] = {0, 0, 3, 40, 100};
	static const int distincts[] = {1, 2, 7, 300, 100000};
	static TupleDesc desc;
	bool		used[ATTS_MAX] = {0};

	if (desc == NULL)
		desc = malloc(TUPLE_DESC_SIZE(ATTS_MAX));
	memset(desc, 0, TUPLE_DESC_SIZE(ATTS_MAX));
	distinct = distincts[rnd(lengthof(distincts))];
	spread = rnd(3);
	nulls = percents[rnd(lengthof(percents))];
	toasted = percents[rnd(lengthof(percents) - 1)];
	aborted = percents[rnd(lengthof(percents) - 1)];
	natts = 1 + rnd(rnd(2) ? 2 : ATTS_MAX);
	desc->natts = natts;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		type_of[i] = i == 0 ? rnd(KEY_TYPES) : rnd(TYPES);
		att->attnum = i + 1;
		att->attlen = types[type_of[i]].len;
		att->attbyval = types[type_of[i]].byval;
		att->attalign = types[type_of[i]].align;
		missing[i] = random_value(type_of[i]);
		missing[i].null = rnd(2);
	}

	memset(&columns, 0, sizeof(columns));
	columns.desc = desc;
	columns.written = written;
	for (int tries = 1 + rnd(6); tries > 0 && columns.n < MTP_PAGEDIR_COLUMNS; tries--)
	{
		int			att = columns.n == 0 && tries == 1 ? 0 : rnd(natts);
		MtpPagedirColumn *column = &columns.column[columns.n];

		if (used[att] || type_of[att] >= KEY_TYPES)
			continue;
		used[att] = true;
		column->tag = (MtpPagedirTag) {
			.attnum = att + 1,.type = 1000 + type_of[att],.typmod = -1,.collation = 77,.family = 5
		};
		column->norm = types[type_of[att]].norm;
		column->compare.fn_addr = compares[type_of[att]];
		columns.n++;
	}
	mtp_pagedir_layout(&columns);

	memset(rows, 0, sizeof(rows));
	fill_block(0);
	fill_block(1);
	memset(directory, 0x77, MTP_PAGEDIR_MOST);
	directory_size = mtp_pagedir_build(&columns, image, 2, directory);
	check(directory_size > 0 || BLCKSZ > 8192);
	check(directory_size <= MTP_PAGEDIR_MOST);
}

/* ---------- searching ---------- */

typedef struct Question
{
	int			n;
	MtpPagedirKey keys[KEYS_MAX];
	Value		values[KEYS_MAX];
	char		room[KEYS_MAX][TEXT_MAX + VARHDRSZ];
} Question;

static int
attribute(int column)
{
	return columns.column[column].tag.attnum - 1;
}

static Value
probe_value(int att)
{
	for (int tries = 0; tries < 20 && rnd(3); tries++)
	{
		Row		   *row = &rows[rnd(MTP_PAGEDIR_ITEMS)];

		if (row->there && !row->values[att].null)
			return row->values[att];
	}
	return random_value(type_of[att]);
}

static void
ask(Question *q)
{
	int			column = rnd(columns.n);

	q->n = rnd(20) == 0 ? 0 : 1 + rnd(KEYS_MAX);
	for (int i = 0; i < q->n; i++)
	{
		MtpPagedirKey *key = &q->keys[i];
		int			type = type_of[attribute(column)];
		MtpPagedirColumn *c = &columns.column[column];

		memset(key, 0, sizeof(*key));
		q->values[i] = probe_value(attribute(column));
		key->column = column;
		key->what = rnd(4) ? 1 + rnd(BTMaxStrategyNumber) : rnd(2) ? BTEqualStrategyNumber : MTP_PAGEDIR_NULL + rnd(2);
		key->collation = 77;
		if (type == WIDE && key->what < MTP_PAGEDIR_NULL)
			key->what = MTP_PAGEDIR_NOT_NULL;
		if (key->what < MTP_PAGEDIR_NULL)
		{
			uint8		norm = c->norm;

			key->compare = c->compare;
			key->value = value_datum(type, &q->values[i], q->room[i]);
			if (type <= INT8 && rnd(3) == 0)
			{
				/* a value of another type, perhaps one that the column's can't have */
				if (rnd(2))
					q->values[i].i = rnd64() >> rnd(64);
				key->value = Int64GetDatum(q->values[i].i);
				key->compare.fn_addr = compares_int8[type];
				norm = MTP_NORM_INT8;
			}
			if (norm != MTP_NORM_NONE && rnd(6))
			{
				key->by_norm = true;
				key->exact = mtp_norm_is_exact(norm);
				key->norm = mtp_norm_datum(norm, key->value, false);
			}
			if (rnd(6) == 0)
				key->compare.fn_addr = NULL;
		}
		if (rnd(3) == 0)
			column = rnd(columns.n);
	}
}

static bool
matches(const Question *q, const Row *row)
{
	for (int i = 0; i < q->n; i++)
	{
		const MtpPagedirKey *key = &q->keys[i];
		int			att = attribute(key->column);
		const Value *v = &row->values[att];
		int			c;

		if (key->what >= MTP_PAGEDIR_NULL)
		{
			if (v->null != (key->what == MTP_PAGEDIR_NULL))
				return false;
			continue;
		}
		if (v->null)
			return false;
		c = compare_remembered(type_of[att], v, &q->values[i]);
		switch (key->what)
		{
			case BTLessStrategyNumber:
				if (c >= 0)
					return false;
				break;
			case BTLessEqualStrategyNumber:
				if (c > 0)
					return false;
				break;
			case BTEqualStrategyNumber:
				if (c != 0)
					return false;
				break;
			case BTGreaterEqualStrategyNumber:
				if (c < 0)
					return false;
				break;
			case BTGreaterStrategyNumber:
				if (c <= 0)
					return false;
		}
	}
	return true;
}

/* Is a row one that is always a candidate? */
static bool
is_apart(const Row *row)
{
	if (row->aborted)
		return true;
	for (int i = 0; i < columns.n; i++)
	{
		const Value *v = &row->values[attribute(i)];
		int			type = type_of[attribute(i)];

		if (!v->null && (type == WIDE || ((type == TEXT || type == NOCASE) && (v->toasted || v->len + VARHDRSZ > MTP_PAGEDIR_WIDTH))))
			return true;
	}
	return false;
}

/* What can change while it is searched */
static char *directory_now;
static volatile uint64 version;
static bool scribbles;

static void
scribble(void)
{
	int			n = 1 + rnd(6);

	version++;
	while (n-- > 0)
	{
		directory_now[rnd(rnd(2) ? directory_size : Min(directory_size, 160))] ^= rnd(2) ? 1 << rnd(8) : rnd(256);
	}
}

static bool
is_still(void *arg)
{
	check(!changed);
	nlooks++;
	if (scribbles && rnd(8) == 0)
		scribble();
	changed = version != *(uint64 *) arg;
	return !changed;
}

static MtpPagedirFound
search(Question *q, MtpPagedirItems *items)
{
	uint64		before = version;
	MtpPagedirFound found;

	nsearches++;
	changed = false;
	found = mtp_pagedir_search(directory_now, directory_size, &columns, q->keys, q->n, is_still, &before, items);
	check(!changed || found == MTP_PAGEDIR_CHANGED);
	changed = false;
	return found;
}

static bool
in_set(const MtpPagedirItems *items, int item)
{
	return (items->words[item / 64] >> item % 64 & 1) != 0;
}

/* The answer has each item that matches, in order, and none that is not there. */
static void
check_answer(Question *q, MtpPagedirFound found, MtpPagedirItems *items)
{
	int			at = -1;

	check(found == MTP_PAGEDIR_SOME || found == MTP_PAGEDIR_NOTHING);
	for (int i = 0; i < MTP_PAGEDIR_ITEMS; i++)
	{
		if (in_set(items, i))
		{
			check(rows[i].there);
			at = mtp_pagedir_next(items, at + 1);
			check(at == i);
			check(MtpItemHalf(i) * MaxHeapTuplesPerPage + MtpItemOffset(i) - 1 == i);
		}
		else
			check(!rows[i].there || rows[i].aborted || !matches(q, &rows[i]));
	}
	check(mtp_pagedir_next(items, at + 1) == -1);
	check(found == MTP_PAGEDIR_SOME ? at >= 0 : at == -1);
}

/* Do the column's codes tell all values of the page apart, and this key from them? */
static bool
tells_all(int column, const MtpPagedirKey *key)
{
	const MtpPagedirCodes *codes = &((MtpPagedirHeader *) directory)->column[column].codes;
	int			att = attribute(column);
	int			n = 0;

	if (column > 0 && codes->width == 0 && codes->how != MTP_CODES_EMPTY)
		return false;
	if (key->what >= MTP_PAGEDIR_NULL || codes->how == MTP_CODES_EMPTY)
		return true;
	if (codes->how == MTP_CODES_WINDOW)
		return codes->shift == 0 && key->by_norm && key->exact;
	if (codes->how != MTP_CODES_DICTIONARY || key->compare.fn_addr == NULL)
		return false;
	for (int i = 0; i < MTP_PAGEDIR_ITEMS; i++)
	{
		bool		is_new = rows[i].there && !is_apart(&rows[i]) && !rows[i].values[att].null;

		for (int j = 0; j < i && is_new; j++)
			is_new = !rows[j].there || is_apart(&rows[j]) || rows[j].values[att].null ||
				compare_remembered(type_of[att], &rows[i].values[att], &rows[j].values[att]) != 0;
		n += is_new;
	}
	check(n >= codes->nvalues);
	return n == codes->nvalues;
}

/* Rows that are always candidates are so; of others there are none that don't match, where all codes tell, and few elsewhere. */
static void
check_narrow(Question *q, MtpPagedirItems *items)
{
	bool		exact = true,
				told = true;
	int			extra = 0,
				other = 0;

	for (int i = 0; i < q->n; i++)
	{
		const MtpPagedirKey *key = &q->keys[i];

		exact = exact && tells_all(key->column, key);
		told = told && (key->what >= MTP_PAGEDIR_NULL ||
						(key->compare.fn_addr != NULL && (columns.column[key->column].norm == MTP_NORM_NONE || (key->by_norm && key->exact))));
	}
	for (int i = 0; i < MTP_PAGEDIR_ITEMS; i++)
	{
		if (!rows[i].there)
			continue;
		if (is_apart(&rows[i]))
			check(in_set(items, i));
		else if (!matches(q, &rows[i]))
		{
			other++;
			extra += in_set(items, i);
		}
	}
	nexact += exact;
	check(!exact || extra == 0);
	if (told)
	{
		nextra += extra;
		nother += other;
	}
}

static void
test_searches(int n)
{
	directory_now = directory;
	scribbles = false;
	for (; n > 0; n--)
	{
		Question	q;
		MtpPagedirItems items = {0};
		MtpPagedirFound found;

		ask(&q);
		found = search(&q, &items);
		nfound += found == MTP_PAGEDIR_SOME;
		nnothing += found == MTP_PAGEDIR_NOTHING;
		check_answer(&q, found, &items);
		check_narrow(&q, &items);

		/* Another column's directory, or one of another kind of order, is none. */
		if (rnd(4) == 0)
		{
			MtpPagedirTag *tag = &columns.column[rnd(columns.n)].tag;
			MtpPagedirTag was = *tag;

			((char *) tag)[rnd(sizeof(*tag))] ^= 1 << rnd(8);
			check(search(&q, &items) == MTP_PAGEDIR_UNUSABLE);
			*tag = was;
		}
	}
}

/* Everything may change at any time: searches end, within their memory, and what they say is right if nothing had changed. */
static void
test_scribbles(int n)
{
	directory_now = get_memory(directory_size);
	scribbles = true;
	for (int i = 0; i < n; i++)
	{
		Question	q;
		MtpPagedirItems items = {0};
		MtpPagedirFound found;
		uint64		before;

		if (i % 4 == 0)
			memcpy(directory_now, directory, directory_size);
		else
			scribble();
		before = version;
		ask(&q);
		found = search(&q, &items);
		if (i % 4 == 0 && version == before)
			check_answer(&q, found, &items);
		else
			nchanged++;
	}
	free(directory_now);
}

/* Comparison functions raise: nothing has been written, and nothing is held. */
static void
test_errors(volatile int n)
{
	char	   *room = get_memory(MTP_PAGEDIR_MOST);

	directory_now = directory;
	scribbles = false;
	for (; n > 0; n--)
	{
		volatile bool building = rnd(2);

		memset(room, 0x77, MTP_PAGEDIR_MOST);
		raise_after = 1 + rnd(20);
		if (setjmp(raised) == 0)
		{
			if (building)
				mtp_pagedir_build(&columns, image, 2, room);
			else
			{
				Question	q;
				MtpPagedirItems items = {0};

				ask(&q);
				search(&q, &items);
			}
		}
		else
		{
			nraised++;
			for (int i = 0; i < MTP_PAGEDIR_MOST; i++)
				check(room[i] == 0x77);
		}
		raise_after = 0;
	}
	free(room);
}

/* ---------- a thread that never stops ---------- */

static volatile bool stop;

static void *
disturb(void *arg)
{
	uint64		state = 88172645463325252;

	while (!stop)
	{
		uint64		r;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		r = state >> 20;
		version++;
		if (r % 8 == 0)
			memcpy(directory_now, directory, directory_size);
		else
			((volatile char *) directory_now)[(r >> 1) % (r % 4 ? directory_size : Min(directory_size, 160))] = r >> 32;
	}
	return NULL;
}

/* As above, and what was copied is taken for whole whatever it is: what reads dictionaries is safe as well. */
static bool
is_any(void *arg)
{
	return true;
}

static void
test_thread(int n)
{
	pthread_t	thread;

	directory_now = get_memory(directory_size);
	memcpy(directory_now, directory, directory_size);
	stop = false;
	if (pthread_create(&thread, NULL, disturb, NULL) != 0)
		die("no thread");
	for (; n > 0; n--)
	{
		Question	q;
		MtpPagedirItems items = {0};

		ask(&q);
		mtp_pagedir_search(directory_now, directory_size, &columns, q.keys, q.n, is_any, NULL, &items);
		nchanged++;
	}
	stop = true;
	pthread_join(thread, NULL);
	free(directory_now);
}

/* A row of any bytes, in a piece of memory of its very size: what is taken for a value lies within it. */
static void
test_damaged_row(const char *page, int offset)
{
	ItemId		lp = PageGetItemId((Page) page, offset);
	Size		size = rnd(4) ? ItemIdGetLength(lp) : rnd(ItemIdGetLength(lp) + 1);
	char	   *row = malloc(size);
	Datum		values[MTP_PAGEDIR_COLUMNS];
	MtpValueKind kinds[MTP_PAGEDIR_COLUMNS];

	memcpy(row, page + ItemIdGetOffset(lp), size);
	for (int i = rnd(4); i > 0 && size > 0; i--)
		row[rnd(2) ? rnd(size) : rnd(Min(size, 40))] = rnd(256);
	if (size >= SizeofHeapTupleHeader && rnd(2))
		((HeapTupleHeader) row)->t_infomask2 |= 0x7F0;	/* attributes that the bitmap has no room for */
	if (mtp_pagedir_values(&columns, (HeapTupleHeader) row, size, values, kinds))
		for (int i = 0; i < columns.n; i++)
			if (kinds[i] == MTP_VALUE_GOOD)
				check(DatumGetInt32(FunctionCall2Coll(&columns.column[i].compare, 77, values[i], values[i])) == 0);
	free(row);
}

/* Damaged pages get no directory, or one of what is there; nothing is read outside of them. */
static void
test_damaged(int n)
{
	char	   *copy = malloc(2 * BLCKSZ);
	char	   *room = get_memory(MTP_PAGEDIR_MOST);

	for (; n > 0; n--)
	{
		memcpy(copy, image, 2 * BLCKSZ);
		for (int i = 1 + rnd(20); i > 0; i--)
			copy[rnd(2) ? rnd(2 * BLCKSZ) : rnd(2) * BLCKSZ + rnd(300)] = rnd(256);
		check(mtp_pagedir_build(&columns, copy, 2, room) <= MTP_PAGEDIR_MOST);
		for (int i = 0; i < MTP_PAGEDIR_ITEMS; i++)
			if (rows[i].there && rnd(8) == 0)
				test_damaged_row(image + MtpItemHalf(i) * BLCKSZ, MtpItemOffset(i));
	}

	/* More line pointers than a page can have, all to its last row */
	memcpy(copy, image, 2 * BLCKSZ);
	if (rows[0].there)
	{
		PageHeader	ph = (PageHeader) copy;

		ph->pd_lower = TYPEALIGN_DOWN(sizeof(ItemIdData), ItemIdGetOffset(&ph->pd_linp[0]));
		for (int i = 1; i < PageGetMaxOffsetNumber(copy); i++)
			ph->pd_linp[i] = ph->pd_linp[0];
		check(mtp_pagedir_build(&columns, copy, 2, room) == 0 || PageGetMaxOffsetNumber(copy) <= MaxHeapTuplesPerPage);
	}
	free(copy);
	free(room);
}

int
main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		die("usage: pagedir_test SEED ROUNDS [VERBOSE]");
	rng = strtoull(argv[1], NULL, 10) * 2 + 1;
	image = malloc(2 * BLCKSZ);
	for (int round = atoi(argv[2]); round > 0; round--)
	{
		free(directory);
		directory = get_memory(MTP_PAGEDIR_MOST);
		start();
		if (directory_size == 0)
			continue;
		test_searches(100);
		test_scribbles(60);
		test_errors(10);
		if (round % 8 == 0)
		{
			test_thread(300);
			test_damaged(30);
		}
	}
	check(nfound > nsearches / 10 && nnothing > nsearches / 100 && nlooks > nsearches / 10 && nraised > 0 && nexact > nsearches / 5);
	if (argc == 4)
		printf("%ld searches, %ld with candidates, %ld with nothing, %ld looks, %ld with changes, %ld raised, %ld exact, %.4f of other rows\n",
			   nsearches, nfound, nnothing, nlooks, nchanged, nraised, nexact, (double) nextra / nother);
	check(nextra < nother / 50 || BLCKSZ > 8192);
	printf("ok\n");
	return 0;
}
