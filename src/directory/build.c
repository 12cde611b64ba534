/*
 * build.c
 *	  Makes a directory of two blocks.
 */
#include "directory/directory.h"

#include "page/page.h"

/* An item that is sorted */
typedef struct Entry
{
	uint64		norm;			/* of the first column */
	uint16		item;
	Datum		values[MTP_DIRECTORY_COLUMNS];
	MtpValueKind kinds[MTP_DIRECTORY_COLUMNS];
} Entry;

typedef struct Build
{
	MtpDirectoryColumns *columns;
	MtpDirectoryHead head;
	Entry	   *sorted;			/* room for all items, each */
	uint16	   *nulls;
	uint16	   *others;
} Build;

MtpDirectoryShape
mtp_directory_shape(const MtpDirectoryHead *head)
{
	MtpDirectoryShape s;

	s.nnodes = head->norm == MTP_NORM_NONE ? 0 : (head->nsorted + MTP_NODE_SLOTS - 1) / MTP_NODE_SLOTS;
	s.first = TYPEALIGN(MTP_DIRECTORY_ALIGN, offsetof(MtpDirectoryHead, tags) + head->ncolumns * sizeof(MtpDirectoryTag));
	s.heads = s.first + TYPEALIGN(MTP_DIRECTORY_ALIGN, s.nnodes * sizeof(uint32));
	s.items = s.heads + s.nnodes * MTP_NODE_SLOTS * sizeof(uint32);
	s.size = s.items + (head->nsorted + head->nnulls + head->nothers) * sizeof(uint16);
	return s;
}

/* By the columns, nulls last, and by the item where these are equal: the same directory of the same pages, always. */
static int
compare_entries(const void *x, const void *y, void *arg)
{
	const Entry *a = x;
	const Entry *b = y;
	MtpDirectoryColumns *c = arg;

	if (a->norm != b->norm)
		return a->norm < b->norm ? -1 : 1;
	for (int i = mtp_norm_is_exact(c->column[0].norm) ? 1 : 0; i < c->n; i++)
	{
		MtpDirectoryColumn *column = &c->column[i];
		int			cmp;

		if (a->kinds[i] != b->kinds[i])
			return a->kinds[i] == MTP_VALUE_NULL ? 1 : -1;
		if (a->kinds[i] == MTP_VALUE_NULL)
			continue;
		cmp = DatumGetInt32(FunctionCall2Coll(&column->compare, column->tag.collation, a->values[i], b->values[i]));
		if (cmp != 0)
			return cmp;
	}
	return (int) a->item - (int) b->item;
}

/* Where a row belongs: it is damaged, or anything, if its transaction was aborted. */
static void
add_row(Build *b, int item, HeapTupleHeader row, Size size)
{
	MtpDirectoryColumns *c = b->columns;
	Entry	   *entry = &b->sorted[b->head.nsorted];
	bool		apart = !mtp_directory_written(c, row) || !mtp_directory_values(c, row, size, entry->values, entry->kinds);

	if (!apart && entry->kinds[0] == MTP_VALUE_NULL)
	{
		b->nulls[b->head.nnulls++] = item;
		return;
	}
	for (int i = 0; i < c->n && !apart; i++)
		apart = entry->kinds[i] == MTP_VALUE_APART;
	if (apart)
	{
		b->others[b->head.nothers++] = item;
		return;
	}
	entry->item = item;
	entry->norm = mtp_norm_datum(c->column[0].norm, entry->values[0], false);
	b->head.nsorted++;
}

/* False if the page is damaged. */
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
			ItemIdGetOffset(lp) + ItemIdGetLength(lp) > BLCKSZ || ItemIdGetOffset(lp) != MAXALIGN(ItemIdGetOffset(lp)))
			return false;
		add_row(b, half * MaxHeapTuplesPerPage + i, (HeapTupleHeader) (page + ItemIdGetOffset(lp)), ItemIdGetLength(lp));
	}
	return true;
}

/* The window: from the least normal key to the largest. */
static void
set_window(Build *b)
{
	if (b->head.nsorted == 0)
		return;
	b->head.min = b->sorted[0].norm;
	b->head.max = b->sorted[b->head.nsorted - 1].norm;
	while ((b->head.max - b->head.min) >> b->head.shift > PG_UINT32_MAX)
		b->head.shift++;
}

static void
write_directory(Build *b, const MtpDirectoryShape *shape, char *to)
{
	MtpDirectoryHead *head = &b->head;
	uint32	   *first = (uint32 *) (to + shape->first);
	uint32	   *heads = (uint32 *) (to + shape->heads);
	uint16	   *items = (uint16 *) (to + shape->items);

	memset(to, 0, shape->items);
	memcpy(to, head, offsetof(MtpDirectoryHead, tags) + head->ncolumns * sizeof(MtpDirectoryTag));
	for (int i = 0; i < head->nsorted; i++)
	{
		items[i] = b->sorted[i].item;
		if (shape->nnodes > 0)
		{
			heads[i] = mtp_window_head(head->min, head->shift, b->sorted[i].norm);
			first[i / MTP_NODE_SLOTS] = heads[i];
		}
	}
	memcpy(items + head->nsorted, b->nulls, head->nnulls * sizeof(uint16));
	memcpy(items + head->nsorted + head->nnulls, b->others, head->nothers * sizeof(uint16));
}

Size
mtp_directory_build(MtpDirectoryColumns *c, const char *image, int nblocks, char *to)
{
	Build		b = {.columns = c};
	MtpDirectoryShape shape = {0};
	bool		good = true;

	Assert(nblocks == 1 || nblocks == 2);
	b.sorted = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(Entry));
	b.nulls = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(uint16));
	b.others = palloc(nblocks * MaxHeapTuplesPerPage * sizeof(uint16));
	b.head.format = MTP_DIRECTORY_FORMAT;
	b.head.ncolumns = c->n;
	b.head.norm = c->column[0].norm;
	for (int i = 0; i < c->n; i++)
		b.head.tags[i] = c->column[i].tag;

	for (int half = 0; half < nblocks && good; half++)
		good = add_block(&b, half, image + (Size) half * BLCKSZ);
	if (good)
	{
		shape = mtp_directory_shape(&b.head);
		good = shape.size <= MTP_DIRECTORY_MOST;
	}
	if (good)
	{
		qsort_arg(b.sorted, b.head.nsorted, sizeof(Entry), compare_entries, c);
		set_window(&b);
		write_directory(&b, &shape, to);
	}
	pfree(b.sorted);
	pfree(b.nulls);
	pfree(b.others);
	return good ? shape.size : 0;
}
