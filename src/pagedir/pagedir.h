/*
 * pagedir.h
 *	  Directories of table pages: which items of a pair of blocks may have a key, in two levels of heads, and codes of further columns.
 *
 * A directory is made of a private copy of two blocks of a heap-format table, and says for a condition on its columns which of the
 * copy's items are worth a look.  It never misses one that matches; whoever asks tests what he gets (visibility first, then the condition itself).
 *
 * It is searched without locks, while the memory that it stands in may change: what is read says anything then, and is bounded before it
 * is used.  README.md has the layout and the argument.
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
#define MTP_PAGEDIR_ALIGN		64	/* of the memory that it stands in: its parts begin with cache
									 * lines */
#define MTP_PAGEDIR_COLUMNS	4
#define MTP_PAGEDIR_WIDTH		256 /* bytes of a value that is sorted */

/* Items of a pair are numbered in the order of their line pointers, those of the second block behind the first one's. */
#define MTP_PAGEDIR_ITEMS		(2 * MaxHeapTuplesPerPage)
#define MtpItemHalf(item)		((item) / MaxHeapTuplesPerPage)
#define MtpItemOffset(item)		((OffsetNumber) ((item) % MaxHeapTuplesPerPage + FirstOffsetNumber))

/*
 * What a column's order depends on.  A directory whose tags are not those of its reader's columns says nothing to him: some changes
 * of a column's type keep the file and change the order.
 */
typedef struct MtpPagedirTag
{
	int16		attnum;
	int16		unused;			/* 0 */
	Oid			type;
	int32		typmod;
	Oid			collation;
	uint32		version;		/* a hash of the collation's, of the value of rows from before the
								 * column was added, and of the comparison function's number */
	Oid			family;			/* of the type's default btree operator class */
} MtpPagedirTag;

typedef struct MtpPagedirColumn
{
	MtpPagedirTag tag;
	uint8		norm;			/* MTP_NORM_*, ascending */
	Oid			input;			/* the operator class's type */
	FmgrInfo	compare;		/* the operator class's, of two values of the column */
} MtpPagedirColumn;

/* A directory's columns, in order.  Neither of two processes' business: each makes its own, for as long as the table's descriptor is the same. */
typedef struct MtpPagedirColumns
{
	TupleDesc	desc;
	int			n;				/* 1 … MTP_PAGEDIR_COLUMNS */
	MtpPagedirColumn column[MTP_PAGEDIR_COLUMNS];

	/*
	 * Has the transaction that wrote a row not been aborted?  Values of rows whose transaction was
	 * are never compared: they may be of a column that was rolled back as well, and of another
	 * type.
	 */
	bool		(*written) (TransactionId xmin);

	/* mtp_pagedir_layout */
	int			last;			/* attributes up to the last one that is a column */
	int			start;			/* leading ones of fixed length before the first that is, */
	Size		start_at;		/* and where they end in a row without nulls */
} MtpPagedirColumns;

/* Completes a description of which desc, n, column[] and written are set. */
extern void mtp_pagedir_layout(MtpPagedirColumns *c);

/*
 * describe.c: a description by the catalogs, for columns of a table that the caller has locked, in the current memory context.  False if one of them is
 * dropped, or its type has no order (mtp_pagedir_has_order).
 */
extern bool mtp_pagedir_describe(MtpPagedirColumns *c, TupleDesc desc, int n, const AttrNumber *attnums);

/* Has a type a default btree operator class whose order lasts as long as a column of the type?  Rows' does not, nor that of what consists of rows. */
extern bool mtp_pagedir_has_order(Oid type);

/* What is known of a column's value in a row */
typedef enum MtpValueKind
{
	MTP_VALUE_GOOD,
	MTP_VALUE_NULL,
	MTP_VALUE_APART				/* toasted, compressed or wide: not to be compared */
} MtpValueKind;

/* row.c: the columns' values in a row of `size` bytes, MAXALIGNed, in memory that does not change.  False if it is not one. */
extern bool mtp_pagedir_values(const MtpPagedirColumns *c, HeapTupleHeader row, Size size, Datum *values, MtpValueKind *kinds);

/* Was the row's transaction not aborted, and may so its values be compared? */
extern bool mtp_pagedir_written(const MtpPagedirColumns *c, HeapTupleHeader row);

/*
 * build.c: makes a directory of an image of nblocks (1 or 2) blocks, MAXALIGNed, that does not change.  Writes at most MTP_PAGEDIR_MOST bytes to `to` (of
 * MTP_PAGEDIR_ALIGN) and returns how many; 0 if it would take more or a page is damaged.  Raises what the columns' comparison functions raise, and has written nothing
 * then.  These may allocate: to be called in a memory context that is reset afterwards.
 */
extern Size mtp_pagedir_build(MtpPagedirColumns *c, const char *image, int nblocks, char *to);

/* Kinds of keys beside the btree strategies */
#define MTP_PAGEDIR_NULL		(BTMaxStrategyNumber + 1)
#define MTP_PAGEDIR_NOT_NULL	(BTMaxStrategyNumber + 2)

/* A part of a condition: column, operator, value.  The operator finds no null. */
typedef struct MtpPagedirKey
{
	int			column;			/* of the directory, from 0 */
	StrategyNumber what;
	bool		by_norm;		/* the value's normalized key is in the column's space, */
	bool		exact;			/* and if it is equal to a value's, so are the values */
	uint64		norm;
	Datum		value;
	Oid			collation;
	FmgrInfo	compare;		/* of the column's type with the value's; fn_addr NULL: not to be
								 * called */
} MtpPagedirKey;

/*
 * describe.c: the key for `column op value`, value not null; false if the operator is none of the column's order.  mtp_pagedir_key_null: for IS [NOT] NULL.
 */
extern bool mtp_pagedir_key(const MtpPagedirColumns *c, int column, Oid op, Oid collation, Datum value, MtpPagedirKey *key);
extern void mtp_pagedir_key_null(int column, bool isnull, MtpPagedirKey *key);

/* A set of items */
#define MTP_PAGEDIR_WORDS		((MTP_PAGEDIR_ITEMS + 63) / 64)

typedef struct MtpPagedirItems
{
	uint64		words[MTP_PAGEDIR_WORDS];
} MtpPagedirItems;

/* The first item from `item` on, or -1: in the order of line pointers. */
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
	MTP_PAGEDIR_CHANGED,		/* memory has changed: as if nobody had looked */
	MTP_PAGEDIR_UNUSABLE		/* not a directory of these columns: all items must be looked at */
} MtpPagedirFound;

/* Is all that has been read of the directory up to now one and the same (mtp_frame_still)? */
typedef bool (*MtpPagedirStill) (void *arg);

/*
 * search.c: adds to *items those that may match all of the keys, which are in any order; a condition with OR or IN is several
 * searches.  `size` bytes can be read at `directory`, whatever they are.  What is found holds only if the caller sees afterwards that
 * the directory has not changed.
 *
 * Raises what the keys' comparison functions raise; holds nothing then.  They may allocate.
 */
extern MtpPagedirFound mtp_pagedir_search(const char *directory, Size size, MtpPagedirColumns *c, MtpPagedirKey *keys, int nkeys,
										  MtpPagedirStill still, void *arg, MtpPagedirItems *items);

/*
 * In memory: the head; the largest head of each node, to a whole number of cache lines; nodes of 16 heads, a cache line each; items (uint16): in the order of the first
 * column, then those where it is null, then those that were not looked at; codes of further columns, in the order of the items; dictionaries.
 */
#define MTP_PAGEDIR_FORMAT	0xD202

/* How values of a column become codes, which have their order */
typedef enum MtpPagedirHow
{
	MTP_CODES_EMPTY,			/* there are no values, only nulls */
	MTP_CODES_SILENT,			/* there is no room: nothing is known of values */
	MTP_CODES_WINDOW,			/* (normalized key - min) >> shift */
	MTP_CODES_DICTIONARY		/* by their place among values that are in the directory: 2 i for
								 * the i-th one, 2 i + 1 for what is behind it */
}			MtpPagedirHow;

typedef struct MtpPagedirCodes
{
	uint8		how;			/* MtpPagedirHow */
	uint8		norm;			/* MTP_NORM_* */
	uint8		shift;
	uint8		width;			/* bytes of an item's code, of a further column: 4, 2, 1, or 0:
								 * there are none */
	uint8		nulls;			/* 1 if there are any: their code is the largest of its width */
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
		}			dictionary; /* where values are (uint16, from its start), and they, as in a row */
	}			u;
} MtpPagedirCodes;

typedef struct MtpPagedirHead
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
} MtpPagedirHead;

StaticAssertDecl(offsetof(MtpPagedirHead, column) == 16 && sizeof(((MtpPagedirHead *) NULL)->column[0]) == 48, "one column's head is a cache line");

#define MtpPagedirHeadSize(ncolumns)	(offsetof(MtpPagedirHead, column) + (ncolumns) * sizeof(((MtpPagedirHead *) NULL)->column[0]))

/* describe.c: is this, a copy, the head of a directory of these columns? */
extern bool mtp_pagedir_is_of(const MtpPagedirHead *head, const MtpPagedirColumns *c);

/* Where things stand in a directory */
typedef struct MtpPagedirShape
{
	int			nnodes;
	Size		first;			/* first level */
	Size		heads;
	Size		items;
	Size		codes[MTP_PAGEDIR_COLUMNS];
	Size		size;			/* without dictionaries */
} MtpPagedirShape;

/* In codes of so many bytes, which is the largest */
#define MtpCodeOfNull(width)	(PG_UINT32_MAX >> (32 - 8 * (width)))

/* By the head's counts, and its columns' how and width */
extern MtpPagedirShape mtp_pagedir_shape(const MtpPagedirHead *head);

/* ---------- codes.c: how a build makes codes ---------- */

/* An item with all values known */
typedef struct MtpPagedirEntry
{
	uint64		norm;			/* of the first column */
	uint16		item;
	Datum		values[MTP_PAGEDIR_COLUMNS];
	MtpValueKind kinds[MTP_PAGEDIR_COLUMNS];
} MtpPagedirEntry;

/* How a column of the entries is coded.  Memory is of the current context's. */
typedef struct MtpPagedirCoding
{
	MtpPagedirColumns *columns;
	int			column;
	const MtpPagedirEntry *entries;
	int			n;				/* entries, those with null included */
	int			nvalues;		/* those without */
	uint16	   *order;			/* for a dictionary: entries with a value, in their order, */
	uint16	   *place;			/* and which different value each of these has */
	int			ndifferent;
	int			step;			/* of different values each step-th one is in the dictionary, and
								 * the last */
	uint64		min;			/* normalized keys */
	uint64		max;
	MtpPagedirCodes codes;
} MtpPagedirCoding;

/* Chooses: a window, or a dictionary where that tells values apart that have no normalized keys, or nearly the same ones.  Calls the column's comparison function. */
extern void mtp_pagedir_code(MtpPagedirCoding *c);

/* Makes it take less room, and tell less.  False if it takes none any more. */
extern bool mtp_pagedir_code_less(MtpPagedirCoding *c);

extern Size mtp_pagedir_dictionary_size(const MtpPagedirCoding *c);

/* Writes the dictionary, for which codes.u.dictionary.at is set, and a code for each entry. */
extern void mtp_pagedir_write_codes(const MtpPagedirCoding *c, uint32 *codes, char *directory);

#endif							/* MTP_PAGEDIR_H */
