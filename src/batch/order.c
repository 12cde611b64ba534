/*
 * order.c
 *	  The order of index entries outside of an index (entry.h).
 */
#include "batch/entry.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "utils/fmgroids.h"
#include "core/inject.h"

/* Sets up how to compare a key column; with_abbrev asks for abbreviated keys as well. */
static void
set_column_order(Relation index, int attno, SortSupport key, bool with_abbrev)
{
	int16		option = index->rd_indoption[attno - 1];
	RegProcedure support = index_getprocid(index, attno, BTSORTSUPPORT_PROC);
	RegProcedure compare = index_getprocid(index, attno, BTORDER_PROC);

	if (!RegProcedureIsValid(compare))
		elog(ERROR, "missing support function %d for attribute %d of index \"%s\"",
			 BTORDER_PROC, attno, RelationGetRelationName(index));

	key->ssup_cxt = CurrentMemoryContext;
	key->ssup_collation = index->rd_indcollation[attno - 1];
	key->ssup_reverse = (option & INDOPTION_DESC) != 0;
	key->ssup_nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;
	key->ssup_attno = attno;
	key->abbreviate = with_abbrev;
	if (RegProcedureIsValid(support))
		OidFunctionCall1(support, PointerGetDatum(key));
	if (key->comparator == NULL)
		PrepareSortSupportComparisonShim(compare, key);
}

/*
 * True if heads can be abbreviated keys: they must compare as 64-bit numbers in a way that is known
 * here.
 */
static bool
abbreviates(Relation index, SortSupport key)
{
	if (key->abbrev_converter == NULL)
		return false;
	if (key->comparator == ssup_datum_unsigned_cmp)
		return true;
#if SIZEOF_DATUM == 8
	/* numeric's abbreviated keys are signed, and descend */
	if (index_getprocid(index, 1, BTORDER_PROC) == F_NUMERIC_CMP)
		return true;
#endif
	return false;
}

MtpOrder *
mtp_batch_order_make(Relation index)
{
	MtpOrder   *order = palloc0(sizeof(MtpOrder));
	SortSupport first;

	order->tupdesc = CreateTupleDescCopy(RelationGetDescr(index));
	order->code = mtp_norm_code(index);
	order->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	order->narrow = mtp_norm_is_exact(order->code) && RelationGetNumberOfAttributes(index) == 1;
	order->norm_heads = true;
	order->keys = palloc0(order->nkeys * sizeof(SortSupportData));
	for (int i = 0; i < order->nkeys; i++)
		set_column_order(index, i + 1, &order->keys[i],
						 i == 0 && (order->code & MTP_NORM_KIND) == MTP_NORM_NONE);

	/* From now on the first column's comparator takes values; mtp_batch_order_head makes heads. */
	first = &order->keys[0];
	if (first->abbrev_converter != NULL)
	{
		order->norm_heads = !abbreviates(index, first);
		order->signed_heads = first->comparator != ssup_datum_unsigned_cmp;
		first->comparator = first->abbrev_full_comparator;
	}
	return order;
}

uint64
mtp_batch_order_head(MtpOrder *order, IndexTuple itup)
{
	SortSupport key = &order->keys[0];
	Datum		value;
	bool		isnull;
	uint64		head;

	if (order->norm_heads)
		return mtp_norm_tuple(order->code, itup);

	value = index_getattr(itup, 1, order->tupdesc, &isnull);
	if (isnull)
		return key->ssup_nulls_first ? 0 : PG_UINT64_MAX;
	head = (uint64) key->abbrev_converter(value, key);
	if (order->signed_heads)
		head = ~(head ^ (UINT64CONST(1) << 63));
	return key->ssup_reverse ? ~head : head;
}

int
mtp_batch_order_compare(MtpOrder *order, const MtpWide *a, const MtpWide *b)
{
	int			first = 0;

	MTP_INJECT("compare");
	if (a->head != b->head)
		return a->head < b->head ? -1 : 1;

	/* Equal exact norms are equal values, unless one may be a null's. */
	if (mtp_norm_is_exact(order->code) && a->head != 0 && a->head != PG_UINT64_MAX)
		first = 1;
	for (int i = first; i < order->nkeys; i++)
	{
		bool		null_a,
					null_b;
		Datum		value_a = index_getattr(a->itup, i + 1, order->tupdesc, &null_a);
		Datum		value_b = index_getattr(b->itup, i + 1, order->tupdesc, &null_b);
		int			c = ApplySortComparator(value_a, null_a, value_b, null_b, &order->keys[i]);

		if (c != 0)
			return c;
	}
	return ItemPointerCompare(&a->itup->t_tid, &b->itup->t_tid);
}

/* The very bytes that index_form_tuple would make. */
Size
mtp_batch_narrow_tuple(uint8 code, MtpNarrow e, char *buf)
{
	IndexTuple	itup = (IndexTuple) buf;
	bool		isnull = mtp_narrow_isnull(code, e);
	int			size = 0;
	uint16		flags = isnull ? INDEX_NULL_MASK : 0;
	Size		at = IndexInfoFindDataOffset(flags);

	if (!isnull)
		switch (code & MTP_NORM_KIND)
		{
			case MTP_NORM_INT2:
				size = sizeof(int16);
				break;
			case MTP_NORM_INT4:
			case MTP_NORM_OID:
				size = sizeof(int32);
				break;
			case MTP_NORM_INT8:
			case MTP_NORM_UINT8:
				size = sizeof(int64);
				break;
			default:
				size = sizeof(char);
				break;
		}
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
	at = MAXALIGN(at + size);
	itup->t_info = flags | at;
	return at;
}
