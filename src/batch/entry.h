/*
 * entry.h
 *	  Index entries outside of an index: their two forms, their order, their sorting.
 *
 * Used by the batch engine's runs and by bulk builds alike.
 */
#ifndef MTP_ENTRY_H
#define MTP_ENTRY_H

#include "core/core.h"

#include "access/itup.h"
#include "access/nbtree.h"
#include "page/norm.h"
#include "utils/sortsupport.h"

/*
 * An entry of an index with one key column, by value, whose normalized key turns back into the
 * datum (mtp_norm_is_exact), and no INCLUDE columns.
 *
 * rid holds the TID as block << 16 | offset.  Bit 63 is set where the entry's nullness sorts last
 * among equal norms: NULL under NULLS LAST, a value under NULLS FIRST.  So the index's order, NULLs
 * and TIDs included, is that of (norm, rid) compared as two unsigned numbers.
 */
typedef struct MtpNarrow
{
	uint64		norm;
	uint64		rid;
} MtpNarrow;

#define MTP_RID_LAST (UINT64CONST(1) << 63)

static inline uint64
mtp_rid_from_tid(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
mtp_rid_to_tid(uint64 rid, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (rid >> 16), (OffsetNumber) rid);
}

static inline MtpNarrow
mtp_narrow(uint8 code, Datum value, bool isnull, const ItemPointerData *tid)
{
	MtpNarrow	e;

	e.norm = mtp_norm_datum(code, value, isnull);
	e.rid = mtp_rid_from_tid(tid);
	if (isnull != ((code & MTP_NORM_NULLS_FIRST) != 0))
		e.rid |= MTP_RID_LAST;
	return e;
}

/* An entry of a hash index: sorted by the hash. */
static inline MtpNarrow
mtp_narrow_of_hash(uint32 hash, const ItemPointerData *tid)
{
	return (MtpNarrow)
	{
		.norm = hash,.rid = mtp_rid_from_tid(tid)
	};
}

static inline bool
mtp_narrow_isnull(uint8 code, MtpNarrow e)
{
	return ((e.rid & MTP_RID_LAST) != 0) != ((code & MTP_NORM_NULLS_FIRST) != 0);
}

/*
 * An item of a leaf, or its high key, as a narrow entry: a posting list by its first TID, and a TID
 * that was truncated as minus infinity.  Entries that are not above a leaf's high key belong to it.
 */
static inline MtpNarrow
mtp_narrow_of_tuple(uint8 code, IndexTuple itup)
{
	ItemPointer tid = BTreeTupleGetHeapTID(itup);
	bool		isnull = IndexTupleHasNulls(itup) &&
	att_isnull(0, (bits8 *) ((char *) itup + sizeof(IndexTupleData)));
	MtpNarrow	e;

	e.norm = mtp_norm_tuple(code, itup);
	e.rid = tid ? mtp_rid_from_tid(tid) : 0;
	if (isnull != ((code & MTP_NORM_NULLS_FIRST) != 0))
		e.rid |= MTP_RID_LAST;
	return e;
}

static inline bool
mtp_narrow_less(const MtpNarrow *a, const MtpNarrow *b)
{
	return a->norm < b->norm || (a->norm == b->norm && a->rid < b->rid);
}

/*
 * Writes the entry's index tuple to buf (MTP_NARROW_TUPLE bytes, MAXALIGNed); returns its size, a
 * multiple of mtp_norm_align(code).
 */
#define MTP_NARROW_TUPLE 24
extern Size mtp_batch_narrow_tuple(uint8 code, MtpNarrow e, char *buf);

/* The same, palloc'd. */
extern IndexTuple mtp_batch_narrow_form(uint8 code, MtpNarrow e);

/*
 * Any index tuple, with a prefix of 64 bits that sorts as the first column's values do: its
 * normalized key or, for a collation, an abbreviated key; or as those of two columns, in a build.
 * So most comparisons don't look further.
 */
typedef struct MtpWide
{
	uint64		prefix;
	IndexTuple	itup;
} MtpWide;

/*
 * How a collation orders the letters of ASCII, as far as one can tell from comparing them: a guess
 * at the order of text.  Letters that differ in case alone have one class; those that count only
 * where all others are equal have class 0.  Other classes, and ranks, are 1 .. 254.
 */
typedef struct MtpLetters
{
	bool		all_count;		/* no letter has class 0 */
	uint8		classes[256];
	uint8		ranks[256];
} MtpLetters;

/*
 * Asks the comparison function of a column of text.  The process keeps what it finds for each
 * collation.
 */
extern const MtpLetters *mtp_batch_letters(SortSupport key);

typedef struct MtpKeyColumn
{
	uint8		code;			/* norm code, without a kind if the order is not that of bytes */
	bool		zeros;			/* its bytes may be zero */
	bool		collated;		/* text in the order of a collation, … */
	bool		identical;		/* … in which equal values have equal bytes */
	const MtpLetters *letters;	/* … as mtp_batch_order_guess() found them */
} MtpKeyColumn;

/*
 * How to order wide entries of an index.  A process makes one per index; comparing may call
 * comparison functions of the operator classes, in the current memory context.
 */
typedef struct MtpOrder
{
	TupleDesc	tupdesc;
	uint8		code;			/* norm code of the first column */
	bool		narrow;			/* the index's entries are narrow */
	bool		norm_prefixes;	/* prefixes are norms (else abbreviated keys) … */
	bool		paired;			/* … or made of those of two columns */
	bool		signed_heads;	/* they are abbreviated keys, signed and descending */
	int			nkeys;
	SortSupport keys;			/* nkeys of them */
	int			nwords;			/* columns, from the first on, that have words (words.h), … */
	int			nguessed;		/* … or of which these can be guessed */
	MtpKeyColumn *columns;		/* nkeys of them */
} MtpOrder;

/*
 * The order of keys; palloc'd in the current context.  Works from support functions 1 and 2 of the
 * index's operator classes, so for any index AM whose support functions are btree's.  code: of the
 * first column's normalized keys in the index.
 */
extern MtpOrder *mtp_batch_order_make(Relation index, uint8 code);

/*
 * Lets prefixes be made of two columns, where they would else be of a value of up to four bytes
 * alone: for entries that are sorted and go nowhere else.
 */
extern void mtp_batch_order_pair(MtpOrder *order);

/* Prefix of an index tuple of this index. */
extern uint64 mtp_batch_order_prefix(MtpOrder *order, IndexTuple itup);

/* The order of keys alone, and of entries: < 0 or > 0, never equal, since the TID decides last. */
extern int	mtp_batch_order_compare_keys(MtpOrder *order, const MtpWide *a, const MtpWide *b);
extern int	mtp_batch_order_compare(MtpOrder *order, const MtpWide *a, const MtpWide *b);

/*
 * The order of the first n key columns of two tuples of the index, which have these.  They may be
 * any that stand on its pages.
 */
extern int	mtp_batch_order_compare_tuples(MtpOrder *order, IndexTuple a, IndexTuple b, int n);

/* True if the keys are equal. */
extern bool mtp_batch_order_same_key(MtpOrder *order, IndexTuple a, IndexTuple b);

/* True if words can be guessed behind those that are known; from then on words.h has them. */
extern bool mtp_batch_order_guess(MtpOrder *order);

/* True if two tuples, in order, are in the order of guessed words.  May call the function above. */
extern bool mtp_batch_order_guesses(MtpOrder *order, IndexTuple a, IndexTuple b);

/* The same as mtp_batch_order_compare(), by comparison functions alone: the judge of the others. */
extern int	mtp_batch_order_judge(MtpOrder *order, const MtpWide *a, const MtpWide *b);

/*
 * Sort in place.  scratch has room for n entries; the sort of wide ones may allocate 512 kB more.
 * Interrupts and comparison functions may raise errors; the array then still has all of its
 * entries, in some order, unless there were more than MTP_SORT_SAFE (invariant E6).  The sort of
 * wide ones tells if the TIDs ascended or descended before.
 */
#define MTP_SORT_SAFE (UINT32_C(1) << 24)

extern void mtp_batch_sort_narrow(MtpNarrow *a, MtpNarrow *scratch, uint32 n);
extern bool mtp_batch_sort_wide(MtpOrder *order, MtpWide *a, MtpWide *scratch, uint32 n);

#endif							/* MTP_ENTRY_H */
