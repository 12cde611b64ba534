/*
 * layout.c
 *	  Makes a directory: sorts the rows of two blocks, codes their values, lays out the bytes.
 */
#include "pagedir/pagedir.h"

#include "page/page.h"

typedef struct Build
{
	MtpPagedirColumns *columns;
	MtpPagedirHead head;
	MtpPagedirEntry *entries;	/* room for all items, in each array */
	int			nentries;
	uint16	   *others;
	MtpPagedirCoding coding[MTP_PAGEDIR_COLUMNS];
} Build;

MtpPagedirShape
mtp_pagedir_shape(const MtpPagedirHead *head)
{
	MtpPagedirShape s = {0};
	int			n = head->nsorted + head->nnulls;
	uint8		how = head->column[0].codes.how;

	if (how == MTP_CODES_WINDOW || how == MTP_CODES_DICTIONARY)
		s.nnodes = (head->nsorted + MTP_NODE_SLOTS - 1) / MTP_NODE_SLOTS;
	s.first = TYPEALIGN(MTP_PAGEDIR_ALIGN, MtpPagedirHeadSize(head->ncolumns));
	s.heads = s.first + TYPEALIGN(MTP_PAGEDIR_ALIGN, s.nnodes * sizeof(uint32));
	s.items = s.heads + s.nnodes * MTP_NODE_SLOTS * sizeof(uint32);
	s.size = s.items + (n + head->nothers) * sizeof(uint16);
	for (int i = 1; i < head->ncolumns; i++)
	{
		s.codes[i] = TYPEALIGN(sizeof(uint32), s.size);
		if (head->column[i].codes.width > 0)
			s.size = s.codes[i] + n * head->column[i].codes.width;
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
 * Puts a row among the entries, or among the others if it is damaged, aborted or has a value that
 * must not be compared (invariants D6 and D7).
 */
static void
add_row(Build *b, int item, HeapTupleHeader row, Size size)
{
	MtpPagedirColumns *c = b->columns;
	MtpPagedirEntry *entry = &b->entries[b->nentries];
	bool		apart;

	apart = !mtp_pagedir_written(c, row) ||
		!mtp_pagedir_values(c, row, size, entry->values, entry->kinds);
	for (int i = 0; i < c->n && !apart; i++)
		apart = entry->kinds[i] == MTP_VALUE_APART;
	if (apart)
	{
		b->others[b->head.nothers++] = item;
		return;
	}
	entry->item = item;
	entry->norm = 0;
	if (entry->kinds[0] == MTP_VALUE_NULL)
		b->head.nnulls++;
	else
	{
		entry->norm = mtp_norm_datum(c->column[0].norm, entry->values[0], false);
		b->head.nsorted++;
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
		b->head.column[i].codes = b->coding[i].codes;
	size = mtp_pagedir_shape(&b->head).size;
	for (int i = 0; i < b->columns->n; i++)
	{
		MtpPagedirCodes *codes = &b->coding[i].codes;

		if (codes->how != MTP_CODES_DICTIONARY)
			continue;
		codes->u.dictionary.at = MAXALIGN(size);
		size = codes->u.dictionary.at + codes->u.dictionary.size;
		b->head.column[i].codes = *codes;
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

static void
put_code(char *to, int width, int i, uint32 code)
{
	if (width == 1)
		((uint8 *) to)[i] = code;
	else if (width == 2)
		((uint16 *) to)[i] = code;
	else if (width == 4)
		((uint32 *) to)[i] = code;
}

static void
write_directory(Build *b, char *to)
{
	MtpPagedirShape shape = mtp_pagedir_shape(&b->head);
	uint32	   *first = (uint32 *) (to + shape.first);
	uint16	   *items = (uint16 *) (to + shape.items);
	uint32	   *codes = palloc(Max(b->nentries, 1) * sizeof(uint32));

	memset(to, 0, b->head.size);
	memcpy(to, &b->head, MtpPagedirHeadSize(b->head.ncolumns));
	for (int i = 0; i < b->nentries; i++)
		items[i] = b->entries[i].item;
	memcpy(items + b->nentries, b->others, b->head.nothers * sizeof(uint16));
	for (int column = 0; column < b->columns->n; column++)
	{
		mtp_pagedir_write_codes(&b->coding[column], codes, to);
		for (int i = 0; i < b->nentries && column > 0; i++)
			put_code(to + shape.codes[column], b->coding[column].codes.width, i, codes[i]);
		for (int i = 0; i < b->head.nsorted && column == 0 && shape.nnodes > 0; i++)
		{
			((uint32 *) (to + shape.heads))[i] = codes[i];
			first[i / MTP_NODE_SLOTS] = codes[i];
		}
	}
}

Size
mtp_pagedir_build(MtpPagedirColumns *c, const char *image, int nblocks, char *to)
{
	Build		b = {.columns = c};
	bool		good = true;
	Size		size = 0;

	Assert(nblocks == 1 || nblocks == 2);
	b.entries = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(MtpPagedirEntry));
	b.others = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(uint16));
	b.head.format = MTP_PAGEDIR_FORMAT;
	b.head.ncolumns = c->n;
	for (int i = 0; i < c->n; i++)
		b.head.column[i].tag = c->column[i].tag;

	for (int half = 0; half < nblocks && good; half++)
		good = add_block(&b, half, image + (Size) half * BLCKSZ);
	if (good)
	{
		qsort_arg(b.entries, b.nentries, sizeof(MtpPagedirEntry), compare_entries, &c->column[0]);
		size = set_codes(&b);
		good = size <= MTP_PAGEDIR_MOST;
	}
	if (good)
	{
		b.head.size = size;
		write_directory(&b, to);
	}
	pfree(b.entries);
	pfree(b.others);
	return good ? size : 0;
}
