/*
 * order.c
 *	  The order of index entries outside of an index (entry.h).
 */
#include "batch/words.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"
#include "core/inject.h"

/* Notes which columns, from the first on, have an order that is that of bytes, or of text. */
static void
find_words(MtpOrder *order, Relation index)
{
	order->columns = palloc0(order->nkeys * sizeof(MtpKeyColumn));
	for (int i = 0; i < order->nkeys; i++)
	{
		MtpKeyColumn *column = &order->columns[i];
		RegProcedure compare = index_getprocid(index, i + 1, BTORDER_PROC);

		column->code = i == 0 ? order->code & ~MTP_NORM_LEAF : mtp_norm_column_code(index, i);
		column->zeros = compare == F_BYTEACMP;
		if ((column->code & MTP_NORM_KIND) != MTP_NORM_NONE)
			order->nwords += i == order->nwords;
		else if (compare == F_BTTEXTCMP || compare == F_BPCHARCMP)
		{
			column->collated = true;
			column->identical = compare == F_BTTEXTCMP &&
				get_collation_isdeterministic(index->rd_indcollation[i]);
		}
		else
			return;
		order->nguessed++;
	}
}

bool
mtp_batch_order_guess(MtpOrder *order)
{
	for (int i = order->nwords; i < order->nguessed; i++)
		if (order->columns[i].collated && order->columns[i].letters == NULL)
			order->columns[i].letters = mtp_batch_letters(&order->keys[i]);
	return order->nguessed > order->nwords;
}

MtpOrder *
mtp_batch_order_make(Relation index, uint8 code)
{
	MtpOrder   *order = palloc0(sizeof(MtpOrder));
	SortSupport first;

	order->tupdesc = CreateTupleDescCopy(RelationGetDescr(index));
	order->code = code;
	order->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	order->narrow = mtp_norm_is_exact(order->code) && RelationGetNumberOfAttributes(index) == 1;
	order->norm_prefixes = true;
	order->keys = palloc0(order->nkeys * sizeof(SortSupportData));
	for (int i = 0; i < order->nkeys; i++)
	{
		SortSupport key = &order->keys[i];
		RegProcedure support = index_getprocid(index, i + 1, BTSORTSUPPORT_PROC);
		RegProcedure compare = index_getprocid(index, i + 1, BTORDER_PROC);

		if (!RegProcedureIsValid(compare))
			elog(ERROR, "missing support function %d for attribute %d of index \"%s\"",
				 BTORDER_PROC, i + 1, RelationGetRelationName(index));
		key->ssup_cxt = CurrentMemoryContext;
		key->ssup_collation = index->rd_indcollation[i];
		key->ssup_reverse = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
		key->ssup_nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
		key->ssup_attno = i + 1;
		key->abbreviate = i == 0 && (order->code & MTP_NORM_KIND) == MTP_NORM_NONE;
		if (RegProcedureIsValid(support))
			OidFunctionCall1(support, PointerGetDatum(key));
		if (key->comparator == NULL)
			PrepareSortSupportComparisonShim(compare, key);
	}

	find_words(order, index);

	first = &order->keys[0];
	if (first->abbrev_converter != NULL)
	{
		/*
		 * Heads can be abbreviated keys if these compare as 64-bit numbers in a way that is known
		 * here.  Those of numeric are signed, and descend.
		 */
		order->signed_heads = first->comparator != ssup_datum_unsigned_cmp;
		if (!order->signed_heads ||
			(SIZEOF_DATUM == 8 && index_getprocid(index, 1, BTORDER_PROC) == F_NUMERIC_CMP))
			order->norm_prefixes = false;

		/* From now on the comparator takes values; mtp_batch_order_prefix makes prefixes. */
		first->comparator = first->abbrev_full_comparator;
	}
	return order;
}

void
mtp_batch_order_pair(MtpOrder *order)
{
	order->paired = order->norm_prefixes && order->nwords >= 2 &&
		mtp_norm_is_exact(order->code) && mtp_norm_width(order->code) <= sizeof(int32);
}

/*
 * A normalized key in 32 bits of the same order: the value, if that has four bytes at most, else
 * the upper half.
 */
static uint32
half_prefix(uint8 code, uint64 norm)
{
	uint8		kind = code & MTP_NORM_KIND;
	bool		desc = (code & MTP_NORM_DESC) != 0;
	uint64		least = 0;

	if (!mtp_norm_is_exact(code) || mtp_norm_width(code) > sizeof(int32))
		return norm >> 32;
	if (norm == mtp_norm_datum(code, (Datum) 0, true))
		return norm == 0 ? 0 : PG_UINT32_MAX;
	if (kind == MTP_NORM_INT2 || kind == MTP_NORM_INT4)
		least = mtp_norm_datum(MTP_NORM_INT4, Int32GetDatum(PG_INT32_MIN), false);
	return desc ? PG_UINT32_MAX - (~norm - least) : norm - least;
}

/*
 * The prefix of two columns.  A null's number in the first one stays what it is.  Where another
 * pair gives that, the next word tells (words.h).
 */
static uint64
pair_prefix(MtpOrder *order, IndexTuple itup)
{
	uint8		second = order->columns[1].code;
	uint64		first = mtp_norm_tuple(order->code, itup);
	Datum		value;
	bool		isnull;

	if (first == mtp_norm_datum(order->code, (Datum) 0, true))
		return first;
	value = index_getattr(itup, 2, order->tupdesc, &isnull);
	return (uint64) half_prefix(order->code, first) << 32 |
		half_prefix(second, mtp_norm_datum(second, value, isnull));
}

uint64
mtp_batch_order_prefix(MtpOrder *order, IndexTuple itup)
{
	SortSupport key = &order->keys[0];
	Datum		value;
	bool		isnull;
	uint64		prefix;

	if (order->paired)
		return pair_prefix(order, itup);
	if (order->norm_prefixes)
		return mtp_norm_tuple(order->code, itup);

	value = index_getattr(itup, 1, order->tupdesc, &isnull);
	if (isnull)
		return key->ssup_nulls_first ? 0 : PG_UINT64_MAX;
	prefix = (uint64) key->abbrev_converter(value, key);
	if (order->signed_heads)
		prefix = ~(prefix ^ (UINT64CONST(1) << 63));
	return key->ssup_reverse ? ~prefix : prefix;
}

#define COMPARE_NUMBERS(a, b) (((a) > (b)) - ((a) < (b)))

static inline int
compare_bytes(const char *a, Size len_a, const char *b, Size len_b)
{
	int			c = memcmp(a, b, Min(len_a, len_b));

	return c != 0 ? c : COMPARE_NUMBERS(len_a, len_b);
}

/*
 * Compares two values of a column that has words, neither null.  False if that needs the comparison
 * function, which decompresses values.
 */
static inline bool
compare_inline(uint8 code, Datum a, Datum b, int *result)
{
	struct varlena *x = (struct varlena *) a;
	struct varlena *y = (struct varlena *) b;
	uint64		m,
				n;

	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			*result = COMPARE_NUMBERS(DatumGetInt16(a), DatumGetInt16(b));
			break;
		case MTP_NORM_INT4:
			*result = COMPARE_NUMBERS(DatumGetInt32(a), DatumGetInt32(b));
			break;
		case MTP_NORM_INT8:
			*result = COMPARE_NUMBERS(DatumGetInt64(a), DatumGetInt64(b));
			break;
		case MTP_NORM_BYTES:
			if (VARATT_IS_COMPRESSED(x) || VARATT_IS_COMPRESSED(y))
				return false;
			*result = compare_bytes(VARDATA_ANY(x), VARSIZE_ANY_EXHDR(x),
									VARDATA_ANY(y), VARSIZE_ANY_EXHDR(y));
			break;
		case MTP_NORM_NAME:
			*result = strncmp(DatumGetCString(a), DatumGetCString(b), NAMEDATALEN);
			break;
		case MTP_NORM_UUID:
			*result = memcmp(DatumGetUUIDP(a)->data, DatumGetUUIDP(b)->data, UUID_LEN);
			break;
		default:
			m = mtp_norm_datum(code & MTP_NORM_KIND, a, false);
			n = mtp_norm_datum(code & MTP_NORM_KIND, b, false);
			*result = COMPARE_NUMBERS(m, n);
			break;
	}
	if (code & MTP_NORM_DESC)
		INVERT_COMPARE_RESULT(*result);
	return true;
}

/* Compares two values of a key column, inline if that is wanted and possible. */
static inline int
compare_values(MtpOrder *order, int column, bool inlined, Datum a, bool null_a, Datum b,
			   bool null_b)
{
	int			c;

	if (inlined && !null_a && !null_b &&
		compare_inline(order->columns[column].code, a, b, &c))
		return c;
	return ApplySortComparator(a, null_a, b, null_b, &order->keys[column]);
}

/* Compares key columns first .. end - 1, the first `inlined` of all where possible inline. */
static inline int
compare_columns(MtpOrder *order, IndexTuple a, IndexTuple b, int first, int end, int inlined)
{
	int			c = 0;

	for (int i = first; i < end && c == 0; i++)
	{
		bool		null_a,
					null_b;
		Datum		value_a = index_getattr(a, i + 1, order->tupdesc, &null_a);
		Datum		value_b = index_getattr(b, i + 1, order->tupdesc, &null_b);

		c = compare_values(order, i, i < inlined, value_a, null_a, value_b, null_b);
	}
	return c;
}

int
mtp_batch_order_compare_keys(MtpOrder *order, const MtpWide *a, const MtpWide *b)
{
	int			first = 0;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;

	/* Equal exact norms are equal values, unless one may be a null's; so are those of pairs. */
	if (mtp_norm_is_exact(order->code) && a->prefix != 0 && a->prefix != PG_UINT64_MAX)
		first = 1;
	return compare_columns(order, a->itup, b->itup, first, order->nkeys, order->nwords);
}

int
mtp_batch_order_compare_tuples(MtpOrder *order, IndexTuple a, IndexTuple b, int n)
{
	return compare_columns(order, a, b, 0, n, order->nwords);
}

bool
mtp_batch_order_guesses(MtpOrder *order, IndexTuple a, IndexTuple b)
{
	MtpWordAt	at;

	if (!mtp_batch_order_guess(order))
		return false;
	at = mtp_word_guess(order);
	while (at.kind != MTP_WORD_TID && at.kind != MTP_WORD_NONE)
	{
		uint64		x,
					y;

		if (!mtp_word_get(order, a, at, &x) || !mtp_word_get(order, b, at, &y))
			return true;
		if (x != y)
			return x < y;
		at = mtp_word_next(order, at, x);
	}
	return true;
}

/* True if both values have the same bytes; false, too, if a compressed one may be equal. */
static inline bool
same_bytes(Datum a, Datum b, bool *known)
{
	struct varlena *x = (struct varlena *) DatumGetPointer(a);
	struct varlena *y = (struct varlena *) DatumGetPointer(b);

	*known = !VARATT_IS_COMPRESSED(x) && !VARATT_IS_COMPRESSED(y);
	return *known && VARSIZE_ANY_EXHDR(x) == VARSIZE_ANY_EXHDR(y) &&
		memcmp(VARDATA_ANY(x), VARDATA_ANY(y), VARSIZE_ANY_EXHDR(x)) == 0;
}

bool
mtp_batch_order_same_key(MtpOrder *order, IndexTuple a, IndexTuple b)
{
	for (int i = 0; i < order->nkeys; i++)
	{
		bool		null_a,
					null_b;
		Datum		value_a = index_getattr(a, i + 1, order->tupdesc, &null_a);
		Datum		value_b = index_getattr(b, i + 1, order->tupdesc, &null_b);
		bool		known = false;

		if (order->columns[i].identical && !null_a && !null_b)
		{
			if (same_bytes(value_a, value_b, &known))
				continue;
			if (known)
				return false;
		}
		if (compare_values(order, i, i < order->nwords, value_a, null_a, value_b, null_b) != 0)
			return false;
	}
	return true;
}

int
mtp_batch_order_compare(MtpOrder *order, const MtpWide *a, const MtpWide *b)
{
	int			c;

	MTP_INJECT("compare");
	c = mtp_batch_order_compare_keys(order, a, b);
	return c != 0 ? c : ItemPointerCompare(&a->itup->t_tid, &b->itup->t_tid);
}

int
mtp_batch_order_judge(MtpOrder *order, const MtpWide *a, const MtpWide *b)
{
	int			c = compare_columns(order, a->itup, b->itup, 0, order->nkeys, 0);

	return c != 0 ? c : ItemPointerCompare(&a->itup->t_tid, &b->itup->t_tid);
}

/* The very bytes that index_form_tuple would make, or fewer where the code asks for it. */
Size
mtp_batch_narrow_tuple(uint8 code, MtpNarrow e, char *buf)
{
	IndexTuple	itup = (IndexTuple) buf;
	bool		isnull = mtp_narrow_isnull(code, e);
	int			size = isnull ? 0 : mtp_norm_width(code);
	uint16		flags = isnull ? INDEX_NULL_MASK : 0;
	Size		at = IndexInfoFindDataOffset(flags);

	memset(buf, 0, MTP_NARROW_TUPLE);
	mtp_rid_to_tid(e.rid & ~MTP_RID_LAST, &itup->t_tid);
	if (!isnull)
	{
		Datum		value = mtp_norm_to_datum(code, e.norm);

		/* A narrow value is by value wherever a Datum holds it. */
		if (size == sizeof(int64) && !FLOAT8PASSBYVAL)
			memcpy(buf + at, DatumGetPointer(value), size);
		else
			store_att_byval(buf + at, value, size);
	}
	at = TYPEALIGN(mtp_norm_align(code), at + size);
	itup->t_info = flags | at;
	return at;
}

IndexTuple
mtp_batch_narrow_form(uint8 code, MtpNarrow e)
{
	char	   *buf = palloc(MTP_NARROW_TUPLE);

	(void) mtp_batch_narrow_tuple(code, e, buf);
	return (IndexTuple) buf;
}
