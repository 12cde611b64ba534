/*
 * norm.h
 *	  Normalized keys: 64-bit numbers made of a column's values, in the order of the values.
 *
 * norm(a) < norm(b) implies a < b in the index's order, and a = b implies norm(a) = norm(b).  The
 * converse holds only for "exact" kinds.  A code is one byte, kept in every page.  Its functions
 * need neither catalogs nor the relation, so that redo can rebuild directories.
 */
#ifndef MTP_NORM_H
#define MTP_NORM_H

#include "core/core.h"
#include "access/itup.h"

/* Kinds, on disk: never renumber them. */
#define MTP_NORM_NONE		0	/* every key is 0: only the comparison function tells */
#define MTP_NORM_INT2		1
#define MTP_NORM_INT4		2	/* also date */
#define MTP_NORM_INT8		3	/* also timestamp[tz], time, money */
#define MTP_NORM_OID		4
#define MTP_NORM_UINT8		5	/* xid8, pg_lsn */
#define MTP_NORM_BOOL		6
#define MTP_NORM_CHAR		7	/* "char" */
#define MTP_NORM_FLOAT4		8
#define MTP_NORM_FLOAT8		9
#define MTP_NORM_UUID		10
#define MTP_NORM_BYTES		11	/* varlena compared bytewise: bytea, text in C */
#define MTP_NORM_NAME		12	/* name in C */
#define MTP_NORM_KIND		0x0F
#define MTP_NORM_CUT		0x10	/* narrow items leave the first column out (page.h) */
#define MTP_NORM_SHORT		0x20	/* bodies on leaves stand at multiples of 4, not 8 */
#define MTP_NORM_DESC		0x40	/* order reversed */
#define MTP_NORM_NULLS_FIRST 0x80

/* What a code says of leaves: other pages do without. */
#define MTP_NORM_LEAF		(MTP_NORM_CUT | MTP_NORM_SHORT)

/* Bodies stand at multiples of so many bytes where the code is a page's. */
static inline Size
mtp_norm_align(uint8 code)
{
	return (code & MTP_NORM_SHORT) ? sizeof(int32) : MAXIMUM_ALIGNOF;
}

/* True if equal normalized keys mean the very same datum, nulls aside. */
static inline bool
mtp_norm_is_exact(uint8 code)
{
	uint8		kind = code & MTP_NORM_KIND;

	return kind >= MTP_NORM_INT2 && kind <= MTP_NORM_CHAR;
}

/* True if values are read as eight bytes at once. */
static inline bool
mtp_norm_is_wide(uint8 code)
{
	uint8		kind = code & MTP_NORM_KIND;

	return kind == MTP_NORM_INT8 || kind == MTP_NORM_UINT8 || kind == MTP_NORM_FLOAT8;
}

/* The bytes of a value of an exact kind */
static inline Size
mtp_norm_width(uint8 code)
{
	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			return sizeof(int16);
		case MTP_NORM_INT4:
		case MTP_NORM_OID:
			return sizeof(int32);
		case MTP_NORM_INT8:
		case MTP_NORM_UINT8:
			return sizeof(int64);
	}
	return 1;
}

/*
 * The code for an index's first key column: the kind by its comparison function (support function
 * 1) and collation, and the column's ordering options
 */
extern uint8 mtp_norm_code(Relation index);

/*
 * The same for another key column, from 0 on.  MTP_NORM_NONE keeps its ordering options.  Text in
 * C.UTF-8 of the C library is taken for text in C if this library orders it so
 * (mtp_collation_by_bytes): what is stored may have come from another one.
 */
extern uint8 mtp_norm_column_code(Relation index, int column);

/* The kind for values that this btree comparison function takes on both sides, under a collation */
extern uint8 mtp_norm_kind(Oid cmp_proc, Oid collation);

/*
 * The kind of the normalized keys that a probe of type subtype has in a column of this kind, if
 * they compare; else MTP_NORM_NONE.
 */
extern uint8 mtp_norm_probe_kind(uint8 kind, Oid subtype);

/* The normalized key of a value, or of null.  May allocate, for a compressed varlena. */
extern uint64 mtp_norm_datum(uint8 code, Datum value, bool isnull);

/* The same for a value that is not null, inline for the most frequent kinds */
static inline uint64
mtp_norm_value(uint8 code, Datum value)
{
	if (code == MTP_NORM_INT8)
		return (uint64) DatumGetInt64(value) ^ (UINT64CONST(1) << 63);
	if (code == MTP_NORM_INT4)
		return (uint64) (int64) DatumGetInt32(value) ^ (UINT64CONST(1) << 63);
	return mtp_norm_datum(code, value, false);
}

/* The normalized key of a tuple's first key column; 0 for a pivot that has none.  May allocate. */
extern uint64 mtp_norm_tuple(uint8 code, IndexTuple itup);

/* True if mtp_norm_tuple allocates nothing: the first column is not compressed. */
extern bool mtp_norm_inline(uint8 code, IndexTuple itup);

/*
 * True if a tuple holds what mtp_norm_tuple reads of it.  itup has IndexTupleSize(itup) readable
 * bytes, at least a tuple header.
 */
extern bool mtp_norm_whole(uint8 code, IndexTuple itup);

/* True if a varlena ends within `room` bytes, and has its value here and not elsewhere. */
extern bool mtp_varlena_whole(const char *data, Size room);

/* The datum of an exact normalized key */
extern Datum mtp_norm_to_datum(uint8 code, uint64 norm);

/*
 * The normalized key of a tuple's first column, inline, for exact codes.  data is the column's
 * value, not null.
 */
static inline uint64
mtp_norm_fixed(uint8 code, const char *data)
{
	uint64		n;

	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			n = (uint64) (int64) *(const int16 *) data ^ (UINT64CONST(1) << 63);
			break;
		case MTP_NORM_INT4:
			n = (uint64) (int64) *(const int32 *) data ^ (UINT64CONST(1) << 63);
			break;
		case MTP_NORM_INT8:
			n = (uint64) *(const int64 *) data ^ (UINT64CONST(1) << 63);
			break;
		case MTP_NORM_OID:
			n = *(const uint32 *) data;
			break;
		case MTP_NORM_UINT8:
			n = *(const uint64 *) data;
			break;
		default:
			n = *(const uint8 *) data;
			break;
	}
	return (code & MTP_NORM_DESC) ? ~n : n;
}

/*
 * The way back: writes the value, and zeros behind it up to what a narrow item leaves out
 * (mtp_norm_align bytes in all).
 */
static inline void
mtp_norm_put_fixed(uint8 code, uint64 norm, char *data)
{
	uint64		n = (code & MTP_NORM_DESC) ? ~norm : norm;
	int64		i = (int64) (n ^ (UINT64CONST(1) << 63));

	if (code & MTP_NORM_SHORT)
		*(uint32 *) data = 0;
	else
		*(uint64 *) data = 0;
	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_INT2:
			*(int16 *) data = (int16) i;
			break;
		case MTP_NORM_INT4:
			*(int32 *) data = (int32) i;
			break;
		case MTP_NORM_INT8:
			*(int64 *) data = i;
			break;
		case MTP_NORM_OID:
			*(uint32 *) data = (uint32) n;
			break;
		case MTP_NORM_UINT8:
			*(uint64 *) data = n;
			break;
		default:
			*(uint8 *) data = (uint8) n;
			break;
	}
}

#endif							/* MTP_NORM_H */
