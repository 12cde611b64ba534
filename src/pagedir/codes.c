/*
 * codes.c
 *	  Makes codes of a column's values: small numbers in the values' order, which a search
 *	  compares without knowing the type (invariant D1).
 */
#include "pagedir/pagedir.h"

#include "access/tupmacs.h"
#include "page/page.h"

/*
 * A column gets a dictionary if more than one in so many of its entries share their codes with
 * other values.
 */
#define MIXED	8

static inline const MtpPagedirColumn *
column_of(const MtpPagedirCoding *c)
{
	return &c->columns->column[c->column];
}

static inline uint64
norm_of(const MtpPagedirCoding *c, int entry)
{
	return c->column == 0 ? c->entries[entry].norm :
		mtp_norm_datum(column_of(c)->norm, c->entries[entry].values[c->column], false);
}

static int
compare_entries(const MtpPagedirCoding *c, int a, int b)
{
	MtpPagedirColumn *column = &c->columns->column[c->column];

	return DatumGetInt32(FunctionCall2Coll(&column->compare, column->tag.collation,
										   c->entries[a].values[c->column],
										   c->entries[b].values[c->column]));
}

static int
compare_places(const void *x, const void *y, void *arg)
{
	const uint16 a = *(const uint16 *) x;
	const uint16 b = *(const uint16 *) y;
	int			cmp = compare_entries(arg, a, b);

	return cmp != 0 ? cmp : (int) a - (int) b;
}

/* Returns the largest code that a value may have. */
static inline uint32
most_of(const MtpPagedirCoding *c)
{
	return c->column == 0 ? PG_UINT32_MAX : MtpCodeOfNull(c->codes.width == 0 ? 4 :
														  c->codes.width) - 1;
}

static void
set_window(MtpPagedirCoding *c)
{
	c->codes.how = MTP_CODES_WINDOW;
	c->codes.u.window.min = c->min;
	c->codes.u.window.max = c->max;
	c->codes.shift = 0;
	while ((c->max - c->min) >> c->codes.shift > most_of(c))
		c->codes.shift++;
}

/* Writes the dictionary unless `to` is NULL, and returns its size. */
static Size
write_dictionary(const MtpPagedirCoding *c, char *to)
{
	Form_pg_attribute att = TupleDescAttr(c->columns->desc, column_of(c)->tag.attnum - 1);
	Size		at = MAXALIGN(c->codes.nvalues * sizeof(uint16));
	int			n = 0;

	for (int i = 0; i < c->nvalues; i++)
	{
		int			place = c->place[i];
		Datum		value = c->entries[c->order[i]].values[c->column];
		Size		size = att->attlen;

		if ((i > 0 && place == c->place[i - 1]) ||
			(place % c->step != 0 && place != c->ndifferent - 1))
			continue;
		if (att->attlen != -1 || !VARATT_IS_SHORT(DatumGetPointer(value)))
			at = att_align_nominal(at, att->attalign);
		if (att->attlen == -1)
			size = VARSIZE_ANY(DatumGetPointer(value));
		else if (att->attlen == -2)
			size = strlen(DatumGetCString(value)) + 1;
		if (to != NULL)
		{
			((uint16 *) to)[n++] = at;
			if (att->attbyval)
				store_att_byval(to + at, value, att->attlen);
			else
				memcpy(to + at, DatumGetPointer(value), size);
		}
		at += size;
	}
	return at;
}

static void
set_dictionary(MtpPagedirCoding *c, int step)
{
	c->step = step;
	c->codes.how = MTP_CODES_DICTIONARY;
	c->codes.shift = 0;
	c->codes.nvalues = (c->ndifferent - 1 + c->step - 1) / c->step + 1;
	c->codes.width = c->column == 0 || c->codes.width == 0 ? c->codes.width :
		2 * c->codes.nvalues - 2 < MtpCodeOfNull(1) ? 1 : 2;
	memset(&c->codes.u, 0, sizeof(c->codes.u));
	c->codes.u.dictionary.size = write_dictionary(c, NULL);
}

/* Counts the entries that share their code in the window with another value. */
static int
count_mixed(const MtpPagedirCoding *c)
{
	int			mixed = 0;

	for (int i = 0, end; i < c->nvalues; i = end)
	{
		uint32		code = mtp_window_head(c->min, c->codes.shift, norm_of(c, c->order[i]));

		for (end = i + 1; end < c->nvalues &&
			 mtp_window_head(c->min, c->codes.shift, norm_of(c, c->order[end])) == code; end++)
			;
		if (c->place[i] != c->place[end - 1])
			mixed += end - i;
	}
	return mixed;
}

void
mtp_pagedir_code(MtpPagedirCoding *c)
{
	uint8		norm = column_of(c)->norm;

	c->codes.norm = norm;
	c->codes.width = c->column == 0 ? 0 : 4;
	c->min = PG_UINT64_MAX;
	c->order = palloc(Max(c->n, 1) * sizeof(uint16));
	for (int i = 0; i < c->n; i++)
	{
		uint64		key;

		if (c->entries[i].kinds[c->column] != MTP_VALUE_GOOD)
		{
			c->codes.nulls = 1;
			continue;
		}
		c->order[c->nvalues++] = i;
		key = norm_of(c, i);
		c->min = Min(c->min, key);
		c->max = Max(c->max, key);
	}
	if (c->nvalues == 0)
	{
		c->codes.how = MTP_CODES_EMPTY;
		c->codes.width = 0;
		return;
	}
	if (norm != MTP_NORM_NONE)
	{
		set_window(c);
		if (mtp_norm_is_exact(norm) && c->codes.shift == 0)
			return;
	}

	/* Ranks the entries with a value.  They come in the order of the first column. */
	if (c->column > 0)
		qsort_arg(c->order, c->nvalues, sizeof(uint16), compare_places, c);
	c->place = palloc(c->nvalues * sizeof(uint16));
	c->ndifferent = 1;
	c->place[0] = 0;
	for (int i = 1; i < c->nvalues; i++)
	{
		c->ndifferent += compare_entries(c, c->order[i - 1], c->order[i]) != 0;
		c->place[i] = c->ndifferent - 1;
	}
	if (norm == MTP_NORM_NONE || count_mixed(c) > c->nvalues / MIXED)
		set_dictionary(c, 1);
}

bool
mtp_pagedir_code_less(MtpPagedirCoding *c)
{
	if (c->codes.how == MTP_CODES_DICTIONARY)
	{
		if (c->codes.nvalues > 2 && (c->codes.width == 2 ||
									 c->codes.u.dictionary.size >= c->n * c->codes.width))
			set_dictionary(c, c->step * 2);
		else if (c->codes.width > 0)
		{
			c->codes.width = 0;
			set_dictionary(c, c->ndifferent);
		}
		else
		{
			c->codes.how = MTP_CODES_SILENT;
			c->codes.nvalues = 0;
			memset(&c->codes.u, 0, sizeof(c->codes.u));
		}
		return true;
	}
	if (c->codes.how != MTP_CODES_WINDOW || c->codes.width == 0)
		return false;
	c->codes.width /= 2;
	set_window(c);
	return true;
}

void
mtp_pagedir_write_codes(const MtpPagedirCoding *c, uint32 *codes, char *directory)
{
	if (c->codes.how == MTP_CODES_DICTIONARY)
	{
		write_dictionary(c, directory + c->codes.u.dictionary.at);
		for (int i = 0; i < c->nvalues; i++)
		{
			int			place = c->place[i];

			codes[c->order[i]] = place == c->ndifferent - 1 ? 2 * (c->codes.nvalues - 1) :
				2 * (place / c->step) + (place % c->step != 0);
		}
	}
	for (int i = 0; i < c->n; i++)
	{
		if (c->entries[i].kinds[c->column] != MTP_VALUE_GOOD)
			codes[i] = c->codes.width == 0 ? 0 : MtpCodeOfNull(c->codes.width);
		else if (c->codes.how == MTP_CODES_WINDOW)
			codes[i] = mtp_window_head(c->min, c->codes.shift, norm_of(c, i));
	}
}
