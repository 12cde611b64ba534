/*
 * pagedir.h
 *	  Page directories: which items of a pair of table blocks may match a condition.
 *
 * A directory describes a private copy of two blocks of a heap-format table.  For a condition on
 * its columns it names the items of the copy that are worth a look.  It never misses a match.  The
 * caller tests what it gets: visibility first, then the condition itself.
 *
 * A search takes no lock, and the memory that it reads may change meanwhile.  So a search reads
 * each word once and bounds it before use.  README.md has the layout and the argument.
 */
#ifndef MTP_PAGEDIR_H
#define MTP_PAGEDIR_H

#include "core/core.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/tupdesc.h"
#include "page/norm.h"
#include "storage/bufpage.h"

#define MTP_PAGEDIR_MOST		4096	/* bytes of a directory */
#define MTP_PAGEDIR_ALIGN		64	/* of the memory that holds it: its parts begin with cache
									 * lines */
#define MTP_PAGEDIR_COLUMNS	4
#define MTP_PAGEDIR_WIDTH		256 /* bytes of a value that is sorted */

/* Items of a pair are numbered by line pointer; the second block's follow the first one's. */
#define MTP_PAGEDIR_ITEMS		(2 * MaxHeapTuplesPerPage)
#define MtpItemHalf(item)		((item) / MaxHeapTuplesPerPage)
#define MtpItemOffset(item)		((OffsetNumber) ((item) % MaxHeapTuplesPerPage + FirstOffsetNumber))

/*
 * What a column's order depends on.  Some changes of a column's type keep the file and change the
 * order.  So a reader uses a directory only if its tags equal those of the reader's own columns.
 */
typedef struct MtpPagedirTag
{
	int16		attnum;
	int16		unused;			/* 0 */
	Oid			type;
	int32		typmod;
	Oid			collation;
	uint32		version;		/* of the collation's version, the value of rows from before the
								 * column, the comparison function's number: a hash */
	Oid			family;			/* of the type's default btree operator class */
} MtpPagedirTag;

typedef struct MtpPagedirColumn
{
	MtpPagedirTag tag;
	uint8		norm;			/* MTP_NORM_*, ascending */
	Oid			input;			/* the operator class's type */
	FmgrInfo	compare;		/* the operator class's, of two values of the column */
} MtpPagedirColumn;

/*
 * A directory's columns, in order.  Each process makes its own description, which is good as long
 * as the table's descriptor stays the same.
 */
typedef struct MtpPagedirColumns
{
	TupleDesc	desc;
	int			n;				/* 1 … MTP_PAGEDIR_COLUMNS */
	MtpPagedirColumn column[MTP_PAGEDIR_COLUMNS];

	/*
	 * True unless the transaction that wrote a row was aborted.  Values of an aborted row are
	 * never compared: their column may have been rolled back too, and may have had another type
	 * (invariant D6).
	 */
	bool		(*written) (TransactionId xmin);

	/* set by mtp_pagedir_layout */
	int			last;			/* attributes up to the last one that is a column */
	int			start;			/* leading ones of fixed length before the first that is, */
	Size		start_at;		/* and where they end in a row without nulls */
} MtpPagedirColumns;

/* Completes a description whose desc, n, column[] and written are set. */
extern void mtp_pagedir_layout(MtpPagedirColumns *c);

/*
 * describe.c: describes columns of a table by the catalogs, in the current memory context.  The
 * caller has the table locked.  Returns false if a column is dropped or its type has no lasting
 * order (mtp_pagedir_has_order).
 */
extern bool mtp_pagedir_describe(MtpPagedirColumns *c, TupleDesc desc, int n,
								 const AttrNumber *attnums);

/*
 * True if the type has a default btree operator class whose order lasts as long as a column of the
 * type.  A row type's order does not, nor that of a type that contains rows.
 */
extern bool mtp_pagedir_has_order(Oid type);

/* What is known of a column's value in a row */
typedef enum MtpValueKind
{
	MTP_VALUE_GOOD,
	MTP_VALUE_NULL,
	MTP_VALUE_APART				/* toasted, compressed or wide: not to be compared */
} MtpValueKind;

/*
 * row.c: reads the columns' values in a row of `size` bytes, MAXALIGNed, in memory that does not
 * change.  Returns false if the row is damaged.
 */
extern bool mtp_pagedir_values(const MtpPagedirColumns *c, HeapTupleHeader row, Size size,
							   Datum *values, MtpValueKind *kinds);

/*
 * layout.c: makes a directory of an image of nblocks (1 or 2) blocks, MAXALIGNed, that does not
 * change.  Writes at most MTP_PAGEDIR_MOST bytes to `to` (aligned to MTP_PAGEDIR_ALIGN) and
 * returns their number, or 0 if the directory does not fit or a page is damaged.  Raises what the
 * columns' comparison functions raise, and has written nothing then.  These may allocate: the
 * caller resets the current memory context afterwards.
 */
extern Size mtp_pagedir_build(MtpPagedirColumns *c, const char *image, int nblocks, char *to);

/* Kinds of keys beside the btree strategies */
#define MTP_PAGEDIR_NULL		(BTMaxStrategyNumber + 1)
#define MTP_PAGEDIR_NOT_NULL	(BTMaxStrategyNumber + 2)

/* One part of a condition: column, operator, value.  The operator finds no null. */
typedef struct MtpPagedirKey
{
	int			column;			/* of the directory, from 0 */
	StrategyNumber what;
	bool		by_norm;		/* true if the value's normalized key is in the column's space */
	bool		exact;			/* true if equal normalized keys mean equal values */
	uint64		norm;
	Datum		value;
	Oid			collation;
	FmgrInfo	compare;		/* of the column's type with the value's; it must not be called if
								 * fn_addr is NULL */
} MtpPagedirKey;

/*
 * describe.c: makes the key for `column op value`; the value is not null.  Returns false if the
 * operator is none of the column's order.  mtp_pagedir_key_null makes the key for IS [NOT] NULL.
 */
extern bool mtp_pagedir_key(const MtpPagedirColumns *c, int column, Oid op, Oid collation,
							Datum value, MtpPagedirKey *key);
extern void mtp_pagedir_key_null(int column, bool isnull, MtpPagedirKey *key);

/* A set of items */
#define MTP_PAGEDIR_WORDS		((MTP_PAGEDIR_ITEMS + 63) / 64)

typedef struct MtpPagedirItems
{
	uint64		words[MTP_PAGEDIR_WORDS];
} MtpPagedirItems;

/* Returns the first item from `item` on, in the order of line pointers, or -1. */
static inline int
mtp_pagedir_next(const MtpPagedirItems *items, int item)
{
	for (int w = item / 64; w < MTP_PAGEDIR_WORDS; w++)
	{
		uint64		rest = items->words[w];

		if (w == item / 64)
			rest &= PG_UINT64_MAX << item % 64;
		if (rest != 0)
			return w * 64 + __builtin_ctzll(rest);
	}
	return -1;
}

typedef enum MtpPagedirFound
{
	MTP_PAGEDIR_NOTHING,		/* no item can match */
	MTP_PAGEDIR_SOME,
	MTP_PAGEDIR_CHANGED,		/* memory has changed: the search says nothing */
	MTP_PAGEDIR_UNUSABLE		/* not a directory of these columns: all items must be looked at */
} MtpPagedirFound;

/* True if all that was read of the directory until now is one version of it (mtp_frame_still). */
typedef bool (*MtpPagedirStill) (void *arg);

/*
 * search.c: adds to *items those that may match all of the keys.  Keys come in any order; a
 * condition with OR or IN is several searches.  `size` bytes can be read at `directory`, whatever
 * they are.  The result holds only if the caller finds afterwards that the directory has not
 * changed.
 *
 * Raises what the keys' comparison functions raise, and holds nothing then.  These may allocate.
 */
extern MtpPagedirFound mtp_pagedir_search(const char *directory, Size size, MtpPagedirColumns *c,
										  MtpPagedirKey *keys, int nkeys,
										  MtpPagedirStill still, void *arg, MtpPagedirItems *items);

/*
 * A directory in memory: the header; the largest head of each node, padded to whole cache lines;
 * nodes of 16 heads, one cache line each; items (uint16), first those in the order of the first
 * column, then those where it is null, then those that were not compared; codes of further
 * columns, in the order of the items; dictionaries.
 */
#define MTP_PAGEDIR_FORMAT	0xD202

/* How a column's values become codes, which keep their order (invariant D1) */
typedef enum MtpPagedirHow
{
	MTP_CODES_EMPTY,			/* there are no values, only nulls */
	MTP_CODES_SILENT,			/* no room: nothing is known of the values */
	MTP_CODES_WINDOW,			/* (normalized key - min) >> shift */
	MTP_CODES_DICTIONARY		/* the i-th value of the dictionary has the code 2 i; values
								 * between it and the next have 2 i + 1 */
}			MtpPagedirHow;

typedef struct MtpPagedirCodes
{
	uint8		how;			/* MtpPagedirHow */
	uint8		norm;			/* MTP_NORM_* */
	uint8		shift;
	uint8		width;			/* bytes of an item's code, of a further column: 4, 2, 1, or 0 if
								 * there are no codes */
	uint8		nulls;			/* 1 if there are nulls: their code is the largest of its width */
	uint8		unused;			/* 0 */
	uint16		nvalues;		/* in the dictionary */
	union
	{
		struct
		{
			uint64		min;	/* normalized keys */
			uint64		max;
		}			window;
		struct
		{
			uint32		at;		/* in the directory, MAXALIGNed */
			uint32		size;
			uint64		unused;
		}			dictionary; /* first the values' places (uint16, from its start), then the
								 * values, as in a row */
	}			u;
} MtpPagedirCodes;

typedef struct MtpPagedirHeader
{
	uint16		format;
	uint16		nsorted;
	uint16		nnulls;
	uint16		nothers;
	uint16		size;			/* bytes of the directory */
	uint8		ncolumns;
	uint8		unused[5];		/* 0 */
	struct
	{
		MtpPagedirCodes codes;
		MtpPagedirTag tag;
	}			column[MTP_PAGEDIR_COLUMNS];
} MtpPagedirHeader;

StaticAssertDecl(offsetof(MtpPagedirHeader, column) == 16 &&
				 sizeof(((MtpPagedirHeader *) NULL)->column[0]) == 48,
				 "one column's header is a cache line");

#define MtpPagedirHeaderSize(ncolumns)	(offsetof(MtpPagedirHeader, column) + (ncolumns) * \
	sizeof(((MtpPagedirHeader *) NULL)->column[0]))

/* search.c: true if this header, a copy, is that of a directory of these columns. */
extern bool mtp_pagedir_is_of(const MtpPagedirHeader *header, const MtpPagedirColumns *c);

/* Where the parts of a directory begin, in bytes from its start */
typedef struct MtpPagedirShape
{
	int			nnodes;
	Size		first;			/* first level */
	Size		heads;
	Size		items;
	Size		codes[MTP_PAGEDIR_COLUMNS];
	Size		size;			/* without dictionaries */
} MtpPagedirShape;

/* The code of null, the largest of its width */
#define MtpCodeOfNull(width)	(PG_UINT32_MAX >> (32 - 8 * (width)))

/* layout.c: computes the shape from the header's counts, and its columns' how and width. */
extern MtpPagedirShape mtp_pagedir_shape(const MtpPagedirHeader *header);

/* ---------- codes.c: how a build makes codes ---------- */

/* An item all of whose values are known */
typedef struct MtpPagedirEntry
{
	uint64		norm;			/* of the first column */
	uint16		item;
	Datum		values[MTP_PAGEDIR_COLUMNS];
	MtpValueKind kinds[MTP_PAGEDIR_COLUMNS];
} MtpPagedirEntry;

/* How a column of the entries is coded.  Its memory belongs to the current context. */
typedef struct MtpPagedirCoding
{
	MtpPagedirColumns *columns;
	int			column;
	const MtpPagedirEntry *entries;
	int			n;				/* entries, those with null included */
	int			nvalues;		/* those without */
	uint16	   *order;			/* for a dictionary: the entries with a value, in the column's
								 * order, */
	uint16	   *place;			/* and the rank of each one's value among the different ones */
	int			ndifferent;
	int			step;			/* the dictionary has each step-th of the different values, and the
								 * last */
	uint64		min;			/* normalized keys */
	uint64		max;
	MtpPagedirCodes codes;
} MtpPagedirCoding;

/*
 * Chooses a window, or a dictionary where normalized keys tell too few values apart.  Calls the
 * column's comparison function.
 */
extern void mtp_pagedir_code(MtpPagedirCoding *c);

/* Makes the codes take less room and tell less.  Returns false if they take none any more. */
extern bool mtp_pagedir_code_less(MtpPagedirCoding *c);

/*
 * Writes the dictionary to its place, codes.u.dictionary.at, and a code for each entry to codes[].
 */
extern void mtp_pagedir_write_codes(const MtpPagedirCoding *c, uint32 *codes, char *directory);

#endif							/* MTP_PAGEDIR_H */
