/*
 * row.c
 *	  Reads columns' values in rows.
 *
 * Core's functions trust a row.  A row here may be an aborted transaction's that also changed the
 * table's columns, so a value may have another type than the descriptor says.  This file follows
 * no length out of the row.
 */
#include "pagedir/pagedir.h"

#include "access/tupmacs.h"

void
mtp_pagedir_layout(MtpPagedirColumns *c)
{
	int			first = MaxAttrNumber;

	Assert(c->n >= 1 && c->n <= MTP_PAGEDIR_COLUMNS);
	c->last = 0;
	for (int i = 0; i < c->n; i++)
	{
		c->last = Max(c->last, c->column[i].tag.attnum);
		first = Min(first, c->column[i].tag.attnum);
	}
	c->start = 0;
	c->start_at = 0;
	while (c->start < first - 1 && TupleDescAttr(c->desc, c->start)->attlen > 0)
	{
		Form_pg_attribute att = TupleDescAttr(c->desc, c->start++);

		c->start_at = att_align_nominal(c->start_at, att->attalign) + att->attlen;
	}
}

/* Returns the size of a varlena that begins within `room` bytes, or 0 if it does not end there. */
static Size
varlena_size(const char *data, Size room, MtpValueKind *kind)
{
	Size		size;

	if (VARATT_IS_1B_E(data))
	{
		*kind = MTP_VALUE_APART;
		if (room < VARHDRSZ_EXTERNAL || VARTAG_1B_E(data) != VARTAG_ONDISK)
			return 0;
		size = VARSIZE_EXTERNAL(data);
		return size <= room ? size : 0;
	}
	if (!mtp_varlena_whole(data, room))
		return 0;
	size = VARSIZE_ANY(data);
	*kind = size > MTP_PAGEDIR_WIDTH || VARATT_IS_COMPRESSED(data) ? MTP_VALUE_APART :
		MTP_VALUE_GOOD;
	return size;
}

/*
 * Finds the attribute at or behind *at: sets *at to its start and returns its size, or 0 if it
 * does not lie within the room.
 */
static Size
attribute_size(Form_pg_attribute att, const char *data, Size room, Size *at, MtpValueKind *kind)
{
	Size		size;

	*kind = MTP_VALUE_GOOD;
	if (att->attlen == -1)
	{
		if (*at >= room)
			return 0;
		*at = att_align_pointer(*at, att->attalign, -1, data + *at);
		return *at < room ? varlena_size(data + *at, room - *at, kind) : 0;
	}
	*at = att_align_nominal(*at, att->attalign);
	if (*at >= room)
		return 0;
	size = att->attlen > 0 ? att->attlen : strnlen(data + *at, room - *at) + 1;
	if (size > MTP_PAGEDIR_WIDTH)
		*kind = MTP_VALUE_APART;
	return size <= room - *at ? size : 0;
}

bool
mtp_pagedir_values(const MtpPagedirColumns *c, HeapTupleHeader row, Size size, Datum *values,
				   MtpValueKind *kinds)
{
	const bits8 *nulls = NULL;
	const char *data;
	Size		room;
	Size		at = c->start_at;
	int			att = c->start;
	int			natts;

	if (size < SizeofHeapTupleHeader || row->t_hoff < SizeofHeapTupleHeader || row->t_hoff > size ||
		row->t_hoff != MAXALIGN(row->t_hoff))
		return false;
	natts = HeapTupleHeaderGetNatts(row);
	if (row->t_infomask & HEAP_HASNULL)
	{
		if (SizeofHeapTupleHeader + BITMAPLEN(natts) > row->t_hoff)
			return false;
		nulls = row->t_bits;
		att = 0;
		at = 0;
	}
	data = (const char *) row + row->t_hoff;
	room = size - row->t_hoff;

	for (; att < Min(natts, c->last); att++)
	{
		Form_pg_attribute form = TupleDescAttr(c->desc, att);
		MtpValueKind kind = MTP_VALUE_NULL;
		Datum		value = (Datum) 0;

		if (nulls == NULL || !att_isnull(att, nulls))
		{
			Size		bytes = attribute_size(form, data, room, &at, &kind);

			if (bytes == 0)
				return false;
			if (kind == MTP_VALUE_GOOD)
				value = fetchatt(form, data + at);
			at += bytes;
		}
		for (int i = 0; i < c->n; i++)
			if (c->column[i].tag.attnum == att + 1)
			{
				values[i] = value;
				kinds[i] = kind;
			}
	}

	/* The row is from before the other columns were added: their value is in the catalogs. */
	for (int i = 0; i < c->n; i++)
	{
		Form_pg_attribute form = TupleDescAttr(c->desc, c->column[i].tag.attnum - 1);
		bool		isnull;

		if (form->attnum <= natts)
			continue;
		values[i] = getmissingattr(c->desc, form->attnum, &isnull);
		kinds[i] = isnull ? MTP_VALUE_NULL : MTP_VALUE_GOOD;
		if (!isnull && form->attlen == -1)
			varlena_size(DatumGetPointer(values[i]), VARSIZE_ANY(DatumGetPointer(values[i])),
						 &kinds[i]);
		else if (!isnull && form->attlen > MTP_PAGEDIR_WIDTH)
			kinds[i] = MTP_VALUE_APART;
	}
	return true;
}
