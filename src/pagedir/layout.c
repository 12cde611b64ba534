/*
 * layout.c
 *	  Makes a directory: sorts the rows of two blocks, codes their values, lays out the bytes.
 */
#include "pagedir/pagedir.h"

#include "access/transam.h"
#include "page/page.h"

typedef struct Build
{
	MtpPagedirColumns *columns;
	MtpPagedirHeader header;
	MtpPagedirEntry *entries;	/* room for all items, in each array */
	int			nentries;
	uint16	   *others;
	MtpPagedirCoding coding[MTP_PAGEDIR_COLUMNS];
} Build;

MtpPagedirShape
mtp_pagedir_shape(const MtpPagedirHeader *header)
{
	MtpPagedirShape s = {0};
	int			n = header->nsorted + header->nnulls;
	uint8		how = header->column[0].codes.how;

	if (how == MTP_CODES_WINDOW || how == MTP_CODES_DICTIONARY)
		s.nnodes = (header->nsorted + MTP_NODE_SLOTS - 1) / MTP_NODE_SLOTS;
	s.first = TYPEALIGN(MTP_PAGEDIR_ALIGN, MtpPagedirHeaderSize(header->ncolumns));
	s.heads = s.first + TYPEALIGN(MTP_PAGEDIR_ALIGN, s.nnodes * sizeof(uint32));
	s.items = s.heads + s.nnodes * MTP_NODE_SLOTS * sizeof(uint32);
	s.size = s.items + (n + header->nothers) * sizeof(uint16);
	for (int i = 1; i < header->ncolumns; i++)
	{
		s.codes[i] = TYPEALIGN(sizeof(uint32), s.size);
		if (header->column[i].codes.width > 0)
			s.size = s.codes[i] + n * header->column[i].codes.width;
	}
	return s;
}

/*
 * Orders entries by the first column, nulls last, then by item.  So equal pages always give equal
 * directories.
 */
static int
compare_entries(const void *x, const void *y, void *arg)
{
	const MtpPagedirEntry *a = x;
	const MtpPagedirEntry *b = y;
	MtpPagedirColumn *column = arg;

	if (a->kinds[0] != b->kinds[0])
		return a->kinds[0] == MTP_VALUE_NULL ? 1 : -1;
	if (a->norm != b->norm)
		return a->norm < b->norm ? -1 : 1;
	if (a->kinds[0] == MTP_VALUE_GOOD && !mtp_norm_is_exact(column->norm))
	{
		int			cmp = DatumGetInt32(FunctionCall2Coll(&column->compare, column->tag.collation,
														  a->values[0], b->values[0]));

		if (cmp != 0)
			return cmp;
	}
	return (int) a->item - (int) b->item;
}

/*
 * True if the row's transaction was not aborted, so that its values may be compared (invariant D6).
 */
static bool
is_written(const MtpPagedirColumns *c, HeapTupleHeader row)
{
	TransactionId xmin = HeapTupleHeaderGetRawXmin(row);

	if (row->t_infomask & HEAP_MOVED)
		return false;			/* moved by a VACUUM FULL of an old release, finished or not */
	if (HeapTupleHeaderXminCommitted(row))
		return true;
	return !HeapTupleHeaderXminInvalid(row) && TransactionIdIsNormal(xmin) && c->written(xmin);
}

/*
 * Puts a row among the entries, or among the others if it is damaged, aborted or has a value that
 * must not be compared (invariants D6 and D7).
 */
static void
add_row(Build *b, int item, HeapTupleHeader row, Size size)
{
	MtpPagedirColumns *c = b->columns;
	MtpPagedirEntry *entry = &b->entries[b->nentries];
	bool		apart = !is_written(c, row) ||
	!mtp_pagedir_values(c, row, size, entry->values, entry->kinds);

	for (int i = 0; i < c->n && !apart; i++)
		apart = entry->kinds[i] == MTP_VALUE_APART;
	if (apart)
	{
		b->others[b->header.nothers++] = item;
		return;
	}
	entry->item = item;
	entry->norm = 0;
	if (entry->kinds[0] == MTP_VALUE_NULL)
		b->header.nnulls++;
	else
	{
		entry->norm = mtp_norm_datum(c->column[0].norm, entry->values[0], false);
		b->header.nsorted++;
	}
	b->nentries++;
}

/* Adds the block's rows.  Returns false if its line pointers are damaged. */
static bool
add_block(Build *b, int half, const char *page)
{
	const PageHeaderData *header = (const PageHeaderData *) page;
	int			last;

	if (PageIsNew((Page) page))
		return true;
	if (header->pd_lower < SizeOfPageHeaderData || header->pd_lower > BLCKSZ)
		return false;
	last = PageGetMaxOffsetNumber((Page) page);
	if (last > MaxHeapTuplesPerPage)
		return false;
	for (int i = 0; i < last; i++)
	{
		const ItemIdData *lp = &header->pd_linp[i];

		if (!ItemIdIsNormal(lp))
			continue;
		if (ItemIdGetLength(lp) < SizeofHeapTupleHeader || ItemIdGetOffset(lp) < header->pd_lower ||
			ItemIdGetOffset(lp) + ItemIdGetLength(lp) > BLCKSZ ||
			ItemIdGetOffset(lp) != MAXALIGN(ItemIdGetOffset(lp)))
			return false;
		add_row(b, half * MaxHeapTuplesPerPage + i, (HeapTupleHeader) (page + ItemIdGetOffset(lp)),
				ItemIdGetLength(lp));
	}
	return true;
}

/* Sets the dictionaries' places and returns the whole size. */
static Size
set_places(Build *b)
{
	Size		size;

	for (int i = 0; i < b->columns->n; i++)
		b->header.column[i].codes = b->coding[i].codes;
	size = mtp_pagedir_shape(&b->header).size;
	for (int i = 0; i < b->columns->n; i++)
	{
		MtpPagedirCodes *codes = &b->coding[i].codes;

		if (codes->how != MTP_CODES_DICTIONARY)
			continue;
		codes->u.dictionary.at = MAXALIGN(size);
		size = codes->u.dictionary.at + codes->u.dictionary.size;
		b->header.column[i].codes = *codes;
	}
	return size;
}

/*
 * Codes all columns.  While the directory is too large, the column that takes most room tells
 * less.  Returns the directory's size.
 */
static Size
set_codes(Build *b)
{
	Size		size;

	for (int i = 0; i < b->columns->n; i++)
	{
		b->coding[i] = (MtpPagedirCoding)
		{
			.columns = b->columns,.column = i,.entries = b->entries,.n = b->nentries
		};
		mtp_pagedir_code(&b->coding[i]);
	}
	while ((size = set_places(b)) > MTP_PAGEDIR_MOST)
	{
		int			largest = 0;
		Size		takes = 0;

		for (int i = 0; i < b->columns->n; i++)
		{
			const MtpPagedirCodes *codes = &b->coding[i].codes;
			Size		room = codes->width * b->nentries;

			if (codes->how == MTP_CODES_DICTIONARY)
				room = Max(room, codes->u.dictionary.size);
			if (room > takes)
			{
				takes = room;
				largest = i;
			}
		}
		if (!mtp_pagedir_code_less(&b->coding[largest]))
			return size;
	}
	return size;
}

Size
mtp_pagedir_build(MtpPagedirColumns *c, const char *image, int nblocks, char *to)
{
	Build		b = {.columns = c,.header.format = MTP_PAGEDIR_FORMAT,.header.ncolumns = c->n};
	MtpPagedirShape shape;
	Size		size;
	uint16	   *items;
	uint32	   *codes;

	Assert(nblocks == 1 || nblocks == 2);
	b.entries = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(MtpPagedirEntry));
	b.others = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(uint16));
	for (int i = 0; i < c->n; i++)
		b.header.column[i].tag = c->column[i].tag;
	for (int half = 0; half < nblocks; half++)
		if (!add_block(&b, half, image + (Size) half * BLCKSZ))
			return 0;
	qsort_arg(b.entries, b.nentries, sizeof(MtpPagedirEntry), compare_entries, &c->column[0]);
	size = set_codes(&b);
	if (size > MTP_PAGEDIR_MOST)
		return 0;

	/* No comparison function is called from here on, so nothing is written if one raises. */
	b.header.size = size;
	shape = mtp_pagedir_shape(&b.header);
	memset(to, 0, size);
	memcpy(to, &b.header, MtpPagedirHeaderSize(c->n));
	items = (uint16 *) (to + shape.items);
	for (int i = 0; i < b.nentries; i++)
		items[i] = b.entries[i].item;
	memcpy(items + b.nentries, b.others, b.header.nothers * sizeof(uint16));
	codes = palloc(Max(b.nentries, 1) * sizeof(uint32));
	mtp_pagedir_write_codes(&b.coding[0], codes, to);
	for (int i = 0; i < b.header.nsorted && shape.nnodes > 0; i++)
	{
		((uint32 *) (to + shape.heads))[i] = codes[i];
		((uint32 *) (to + shape.first))[i / MTP_NODE_SLOTS] = codes[i];
	}
	for (int column = 1; column < c->n; column++)
	{
		char	   *at = to + shape.codes[column];
		int			width = b.coding[column].codes.width;

		mtp_pagedir_write_codes(&b.coding[column], codes, to);
		for (int i = 0; i < b.nentries; i++)
			if (width == 1)
				((uint8 *) at)[i] = codes[i];
			else if (width == 2)
				((uint16 *) at)[i] = codes[i];
			else if (width == 4)
				((uint32 *) at)[i] = codes[i];
	}
	pfree(b.entries);
	pfree(b.others);
	return size;
}
