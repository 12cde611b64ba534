/*
 * norm.c
 *	  Computes normalized keys.
 */
#include "core/core.h"

#include <math.h>

#include "access/detoast.h"
#include "access/genam.h"
#include "access/nbtree.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "core/collation.h"
#include "page/norm.h"
#include "port/pg_bswap.h"
#include "utils/fmgroids.h"
#include "utils/pg_locale.h"
#include "utils/uuid.h"

#define SIGN_BIT (UINT64CONST(1) << 63)

uint8
mtp_norm_kind(Oid cmp_proc, Oid collation)
{
	static const struct
	{
		Oid			proc;
		uint8		kind;
	}			kinds[] = {
		{F_BTINT2CMP, MTP_NORM_INT2}, {F_BTINT4CMP, MTP_NORM_INT4}, {F_DATE_CMP, MTP_NORM_INT4},
		{F_BTINT8CMP, MTP_NORM_INT8}, {F_TIMESTAMP_CMP, MTP_NORM_INT8},
		{F_TIMESTAMPTZ_CMP, MTP_NORM_INT8}, {F_TIME_CMP, MTP_NORM_INT8},
		{F_CASH_CMP, MTP_NORM_INT8}, {F_BTOIDCMP, MTP_NORM_OID}, {F_XID8CMP, MTP_NORM_UINT8},
		{F_PG_LSN_CMP, MTP_NORM_UINT8}, {F_BTBOOLCMP, MTP_NORM_BOOL}, {F_BTCHARCMP, MTP_NORM_CHAR},
		{F_BTFLOAT4CMP, MTP_NORM_FLOAT4}, {F_BTFLOAT8CMP, MTP_NORM_FLOAT8},
		{F_UUID_CMP, MTP_NORM_UUID}, {F_BYTEACMP, MTP_NORM_BYTES},
		{F_BTTEXT_PATTERN_CMP, MTP_NORM_BYTES}, {F_BTTEXTCMP, MTP_NORM_BYTES},
		{F_BTNAMECMP, MTP_NORM_NAME}
	};

	/* These two need bytes in the order of memcmp.  A nondeterministic collation is never C. */
	if ((cmp_proc == F_BTTEXTCMP || cmp_proc == F_BTNAMECMP) &&
		!(OidIsValid(collation) && MtpCollationIsC(collation)))
		return MTP_NORM_NONE;
	for (int i = 0; i < lengthof(kinds); i++)
		if (kinds[i].proc == cmp_proc)
			return kinds[i].kind;
	return MTP_NORM_NONE;
}

uint8
mtp_norm_probe_kind(uint8 kind, Oid subtype)
{
	switch (subtype)
	{
		case INT2OID:
			return kind >= MTP_NORM_INT2 && kind <= MTP_NORM_INT8 ? MTP_NORM_INT2 : MTP_NORM_NONE;
		case INT4OID:
			return kind >= MTP_NORM_INT2 && kind <= MTP_NORM_INT8 ? MTP_NORM_INT4 : MTP_NORM_NONE;
		case INT8OID:
			return kind >= MTP_NORM_INT2 && kind <= MTP_NORM_INT8 ? MTP_NORM_INT8 : MTP_NORM_NONE;
		case FLOAT4OID:
			return kind == MTP_NORM_FLOAT4 || kind == MTP_NORM_FLOAT8 ?
				MTP_NORM_FLOAT4 : MTP_NORM_NONE;
		case FLOAT8OID:
			return kind == MTP_NORM_FLOAT4 || kind == MTP_NORM_FLOAT8 ?
				MTP_NORM_FLOAT8 : MTP_NORM_NONE;
	}
	return MTP_NORM_NONE;
}

uint8
mtp_norm_column_code(Relation index, int column)
{
	Oid			collation = index->rd_indcollation[column];
	uint8		code = mtp_norm_kind(index_getprocid(index, column + 1, BTORDER_PROC),
									 mtp_collation_by_bytes(collation) ? C_COLLATION_OID :
									 collation);

	if (index->rd_indoption[column] & INDOPTION_DESC)
		code |= MTP_NORM_DESC;
	if (index->rd_indoption[column] & INDOPTION_NULLS_FIRST)
		code |= MTP_NORM_NULLS_FIRST;
	return code;
}

uint8
mtp_norm_code(Relation index)
{
	return mtp_norm_column_code(index, 0);
}

/* IEEE 754 doubles as integers of the same order.  All NaNs are equal, and above the rest. */
static uint64
norm_float8(double d)
{
	union
	{
		double		d;
		uint64		u;
	}			x;

	if (isnan(d))
		return PG_UINT64_MAX;
	x.d = (d == 0) ? 0.0 : d;	/* minus zero equals zero */
	return (x.u & SIGN_BIT) ? ~x.u : (x.u | SIGN_BIT);
}

/* The first eight bytes, filled with zeros: the order of memcmp */
static uint64
norm_bytes(const char *data, Size len)
{
	uint64		n = 0;

	memcpy(&n, data, Min(len, sizeof(n)));
	return pg_ntoh64(n);
}

static uint64
norm_varlena(struct varlena *v)
{
	bool		whole = !VARATT_IS_COMPRESSED(v) && !VARATT_IS_EXTERNAL(v);
	struct varlena *head = whole ? v : detoast_attr_slice(v, 0, sizeof(uint64));
	uint64		n = norm_bytes(VARDATA_ANY(head), VARSIZE_ANY_EXHDR(head));

	if (!whole)
		pfree(head);
	return n;
}

static uint64
norm_value(uint8 kind, Datum value)
{
	switch (kind)
	{
		case MTP_NORM_INT2:
			return (uint64) (int64) DatumGetInt16(value) ^ SIGN_BIT;
		case MTP_NORM_INT4:
			return (uint64) (int64) DatumGetInt32(value) ^ SIGN_BIT;
		case MTP_NORM_INT8:
			return (uint64) DatumGetInt64(value) ^ SIGN_BIT;
		case MTP_NORM_OID:
			return DatumGetObjectId(value);
		case MTP_NORM_UINT8:
			return DatumGetUInt64(value);
		case MTP_NORM_BOOL:
		case MTP_NORM_CHAR:
			return DatumGetUInt8(value);
		case MTP_NORM_FLOAT4:
			return norm_float8(DatumGetFloat4(value));
		case MTP_NORM_FLOAT8:
			return norm_float8(DatumGetFloat8(value));
		case MTP_NORM_UUID:
			return norm_bytes((char *) DatumGetUUIDP(value)->data, UUID_LEN);
		case MTP_NORM_BYTES:
			return norm_varlena((struct varlena *) DatumGetPointer(value));
		case MTP_NORM_NAME:
			return norm_bytes(DatumGetCString(value),
							  strnlen(DatumGetCString(value), NAMEDATALEN));
	}
	return 0;
}

uint64
mtp_norm_datum(uint8 code, Datum value, bool isnull)
{
	uint64		n;

	if (isnull)
		return (code & MTP_NORM_NULLS_FIRST) ? 0 : PG_UINT64_MAX;
	/* If nothing is known of the values all share one number, on their side of the nulls. */
	if ((code & MTP_NORM_KIND) == MTP_NORM_NONE)
		return (code & MTP_NORM_NULLS_FIRST) ? PG_UINT64_MAX : 0;
	n = norm_value(code & MTP_NORM_KIND, value);
	return (code & MTP_NORM_DESC) ? ~n : n;
}

static inline bool
first_missing(IndexTuple itup)
{
	return BTreeTupleIsPivot(itup) &&
		(ItemPointerGetOffsetNumberNoCheck(&itup->t_tid) & BT_OFFSET_MASK) == 0;
}

static inline bool
first_null(IndexTuple itup)
{
	return IndexTupleHasNulls(itup) &&
		att_isnull(0, (bits8 *) ((char *) itup + sizeof(IndexTupleData)));
}

/*
 * The first column starts right behind the header and the null bitmap, whatever its alignment.
 * The caller knows that it is there.
 */
static inline char *
first_data(IndexTuple itup)
{
	return (char *) itup + IndexInfoFindDataOffset(itup->t_info);
}

uint64
mtp_norm_tuple(uint8 code, IndexTuple itup)
{
	char	   *data = first_data(itup);
	uint8		kind = code & MTP_NORM_KIND;
	Datum		value;

	if (first_missing(itup))
		return 0;
	if (first_null(itup))
		return mtp_norm_datum(code, (Datum) 0, true);
	if (mtp_norm_is_exact(code))
		return mtp_norm_fixed(code, data);
	if (kind == MTP_NORM_FLOAT4)
		value = Float4GetDatum(*(float4 *) data);
	else if (kind == MTP_NORM_FLOAT8)
		value = Float8GetDatum(*(float8 *) data);
	else
		value = PointerGetDatum(data);	/* not looked at if the kind is MTP_NORM_NONE */
	return mtp_norm_datum(code, value, false);
}

bool
mtp_norm_inline(uint8 code, IndexTuple itup)
{
	return (code & MTP_NORM_KIND) != MTP_NORM_BYTES || first_missing(itup) || first_null(itup) ||
		!VARATT_IS_EXTENDED(first_data(itup)) || VARATT_IS_SHORT(first_data(itup));
}

/* False for a pointer to a value elsewhere, which no index holds. */
bool
mtp_varlena_whole(const char *data, Size room)
{
	if (room < 1 || VARATT_IS_EXTERNAL(data))
		return false;
	if (VARATT_IS_SHORT(data))
		return VARSIZE_SHORT(data) <= room;
	return room >= VARHDRSZ && VARSIZE_4B(data) <= room &&
		VARSIZE_4B(data) >= (VARATT_IS_COMPRESSED(data) ? VARHDRSZ_COMPRESSED : VARHDRSZ);
}

bool
mtp_norm_whole(uint8 code, IndexTuple itup)
{
	static const uint8 width[] = {
		[MTP_NORM_INT2] = sizeof(int16),[MTP_NORM_INT4] = sizeof(int32),
		[MTP_NORM_INT8] = sizeof(int64),[MTP_NORM_OID] = sizeof(Oid),
		[MTP_NORM_UINT8] = sizeof(uint64),[MTP_NORM_BOOL] = 1,[MTP_NORM_CHAR] = 1,
		[MTP_NORM_FLOAT4] = sizeof(float4),[MTP_NORM_FLOAT8] = sizeof(float8),
		[MTP_NORM_UUID] = UUID_LEN,[MTP_NORM_BYTES] = 1,[MTP_NORM_NAME] = NAMEDATALEN
	};
	uint8		kind = code & MTP_NORM_KIND;
	Size		size = IndexTupleSize(itup);
	Size		at = IndexInfoFindDataOffset(itup->t_info);

	if (first_missing(itup))
		return true;
	if (at > size)
		return false;
	if (first_null(itup))
		return true;
	if (kind >= lengthof(width) || at + width[kind] > size)
		return false;
	return kind != MTP_NORM_BYTES || mtp_varlena_whole(first_data(itup), size - at);
}

Datum
mtp_norm_to_datum(uint8 code, uint64 norm)
{
	uint64		n = (code & MTP_NORM_DESC) ? ~norm : norm;

	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			return Int16GetDatum((int16) (int64) (n ^ SIGN_BIT));
		case MTP_NORM_INT4:
			return Int32GetDatum((int32) (int64) (n ^ SIGN_BIT));
		case MTP_NORM_INT8:
			return Int64GetDatum((int64) (n ^ SIGN_BIT));
		case MTP_NORM_OID:
			return ObjectIdGetDatum((Oid) n);
		case MTP_NORM_UINT8:
			return UInt64GetDatum(n);
		case MTP_NORM_BOOL:
			return BoolGetDatum(n != 0);
		case MTP_NORM_CHAR:
			return CharGetDatum((char) n);
	}
	elog(ERROR, "normalized key of kind %d has no datum", code & MTP_NORM_KIND);
}
