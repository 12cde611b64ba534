/*
 * norm.h
 *	  Normalized keys: 64-bit images of a column's values that keep their order.
 *
 * norm(a) < norm(b) implies a < b in the index's order, and a = b implies norm(a) = norm(b); the
 * converse holds only for "exact" kinds.  A code is one byte, kept in every page, and its
 * functions need neither catalogs nor the relation: redo rebuilds directories with it.
 */
#ifndef MTP_NORM_H
#define MTP_NORM_H

#include "core/core.h"
#include "access/itup.h"

/* Kinds, on disk: never renumber. */
#define MTP_NORM_NONE		0	/* every key is 0: ask the comparator */
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
#define MTP_NORM_DESC		0x40	/* order reversed */
#define MTP_NORM_NULLS_FIRST 0x80

/* Does an equal norm mean an equal, indeed the very same, datum (nulls aside)? */
static inline bool
mtp_norm_is_exact(uint8 code)
{
	uint8		kind = code & MTP_NORM_KIND;

	return kind >= MTP_NORM_INT2 && kind <= MTP_NORM_CHAR;
}

/*
 * The code for an index's first key column: the kind by its comparison function (support
 * function 1) and collation, and the column's ordering options.
 */
extern uint8 mtp_norm_code(Relation index);

/* The kind for values that a btree comparison function takes on both sides, under a collation. */
extern uint8 mtp_norm_kind(Oid cmp_proc, Oid collation);

/* Norm of a value, or of null.  May palloc for a compressed varlena. */
extern uint64 mtp_norm_datum(uint8 code, Datum value, bool isnull);

/* Norm of a tuple's first key column; 0 for a pivot without any. */
extern uint64 mtp_norm_tuple(uint8 code, IndexTuple itup);

/* Can a tuple's norm be had without palloc (its first column is not compressed)? */
extern bool mtp_norm_inline(uint8 code, IndexTuple itup);

/*
 * Does a tuple hold what mtp_norm_tuple reads of it?  itup: IndexTupleSize(itup) readable bytes, at
 * least a tuple header.
 */
extern bool mtp_norm_whole(uint8 code, IndexTuple itup);

/* Does a varlena end within `room` bytes, itself and not elsewhere? */
extern bool mtp_varlena_whole(const char *data, Size room);

/* The datum that an exact norm stands for. */
extern Datum mtp_norm_to_datum(uint8 code, uint64 norm);

/*
 * For exact codes: reads the first column of a tuple that has it and has no nulls, inline.
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

#endif							/* MTP_NORM_H */
