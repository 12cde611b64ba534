/*
 * search.c
 *	  Finds items that may match, in memory that may change meanwhile.
 *
 * A search reads each word once and bounds it before use (invariant D3).  It copies the header
 * first; the copy says where everything else lies.  Counting within nodes yields at most what
 * nodes hold.  An item's number is bounded before it is used.  No comparison function sees this
 * memory: it sees values of a dictionary's copy, after `still` has confirmed the copy (invariant
 * D4).
 */
#include "pagedir/pagedir.h"

#include "access/tupmacs.h"
#include "page/search.h"

typedef struct Search
{
	const char *at;
	MtpPagedirHeader header;	/* a copy */
	MtpPagedirShape shape;
	MtpPagedirColumns *columns;
	MtpPagedirKey *keys;
	int			nkeys;
	MtpPagedirStill still;
	void	   *arg;
} Search;

/* What the keys on a column ask for */
typedef struct Wanted
{
	bool		asked;			/* true if there is a key on the column */
	bool		nulls;
	bool		values;			/* values whose code is lo … hi */
	int64		lo;
	int64		hi;
} Wanted;

/* Where a key's value lies among the codes of a column */
typedef struct Place
{
	int64		code;
	bool		sure;			/* values with this code equal the key's; else they may be anything
								 * between those of the codes beside (invariant D2) */
} Place;

/* Passes ranks whose code of a further column is least … least + span */
typedef struct Filter
{
	const char *codes;
	int			width;
	uint32		least;
	uint32		span;
} Filter;

/* ---------- the header ---------- */

/* True if the column's parts lie within the directory. */
static bool
is_whole(const MtpPagedirHeader *h, const MtpPagedirCodes *codes)
{
	if (codes->shift > 63 || codes->width > 4 || codes->width == 3)
		return false;
	return codes->how != MTP_CODES_DICTIONARY ||
		(codes->nvalues > 0 && codes->u.dictionary.at % MAXIMUM_ALIGNOF == 0 &&
		 codes->u.dictionary.at <= h->size &&
		 codes->u.dictionary.size <= h->size - codes->u.dictionary.at &&
		 codes->nvalues * sizeof(uint16) <= codes->u.dictionary.size);
}

bool
mtp_pagedir_is_of(const MtpPagedirHeader *header, const MtpPagedirColumns *c)
{
	if (header->format != MTP_PAGEDIR_FORMAT || header->ncolumns != c->n)
		return false;
	for (int i = 0; i < c->n; i++)
		if (memcmp(&header->column[i].tag, &c->column[i].tag, sizeof(MtpPagedirTag)) != 0)
			return false;
	return true;
}

/*
 * Copies the header word by word.  Returns false unless it is that of a directory of these columns,
 * with all parts within its size.
 */
static bool
read_header(Search *s, Size size)
{
	const volatile uint64 *words = (const volatile uint64 *) s->at;
	const MtpPagedirColumns *c = s->columns;
	MtpPagedirHeader *h = &s->header;
	Size		bytes = MtpPagedirHeaderSize(c->n);

	if (size < bytes)
		return false;
	for (int i = 0; i < bytes / sizeof(uint64); i++)
		((uint64 *) h)[i] = words[i];
	if (!mtp_pagedir_is_of(h, c) || h->size > Min(size, MTP_PAGEDIR_MOST))
		return false;
	for (int i = 0; i < c->n; i++)
		if (h->column[i].codes.norm != c->column[i].norm || !is_whole(h, &h->column[i].codes))
			return false;
	s->shape = mtp_pagedir_shape(h);
	return s->shape.size <= h->size;
}

/* ---------- codes of keys ---------- */

static Place
place_in_window(const MtpPagedirCodes *codes, const MtpPagedirKey *key)
{
	Place		place = {.code = -1,.sure = true};

	if (key->norm > codes->u.window.max)
		place.code = (int64) PG_UINT32_MAX + 1;
	else if (key->norm >= codes->u.window.min)
	{
		place.code = mtp_window_head(codes->u.window.min, codes->shift, key->norm);
		place.sure = key->exact && codes->shift == 0;
	}
	return place;
}

/*
 * Reads the i-th value of a dictionary's copy.  Returns false unless it lies within the copy,
 * whole and aligned.
 */
static bool
get_value(const Search *s, int column, const char *copy, int i, Datum *value)
{
	Form_pg_attribute att = TupleDescAttr(s->columns->desc,
										  s->columns->column[column].tag.attnum - 1);
	Size		size = s->header.column[column].codes.u.dictionary.size;
	Size		at = ((const uint16 *) copy)[i];

	if (at >= size)
		return false;
	if (att->attlen == -1 ? !mtp_varlena_whole(copy + at, size - at) ||
		VARATT_IS_COMPRESSED(copy + at) :
		att->attlen == -2 ? strnlen(copy + at, size - at) == size - at : att->attlen > size - at)
		return false;
	if (at != att_align_nominal(at, att->attalign) &&
		!(att->attlen == -1 && VARATT_IS_SHORT(copy + at)))
		return false;
	*value = fetch_att(copy + at, att->attbyval, att->attlen);
	return true;
}

/* Finds a key's place by binary search.  Returns false if memory has changed. */
static bool
place_in_dictionary(const Search *s, const char *copy, MtpPagedirKey *key, Place *place)
{
	int			lo = 0,
				hi = s->header.column[key->column].codes.nvalues;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;
		Datum		value;
		int			cmp;

		if (!get_value(s, key->column, copy, mid, &value))
			return false;
		cmp = DatumGetInt32(FunctionCall2Coll(&key->compare, key->collation, value, key->value));
		if (cmp == 0)
		{
			place->code = 2 * mid;
			place->sure = true;
			return true;
		}
		if (cmp < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	place->code = 2 * lo - 1;
	place->sure = false;
	return true;
}

/* Combines the keys on a column.  Returns false if memory has changed. */
static bool
find_wanted(const Search *s, int column, Wanted *w)
{
	const MtpPagedirCodes *codes = &s->header.column[column].codes;
	int64		most = codes->width == 0 ? PG_UINT32_MAX : (int64) MtpCodeOfNull(codes->width) - 1;
	uint64		copy[MTP_PAGEDIR_MOST / sizeof(uint64)];
	bool		copied = false;

	*w = (Wanted)
	{
		false, codes->nulls != 0, codes->how != MTP_CODES_EMPTY, 0, PG_UINT32_MAX
	};
	for (int i = 0; i < s->nkeys; i++)
	{
		MtpPagedirKey *key = &s->keys[i];
		Place		place;

		if (key->column != column)
			continue;
		w->asked = true;
		if (key->what == MTP_PAGEDIR_NULL)
			w->values = false;
		else
			w->nulls = false;
		if (key->what >= MTP_PAGEDIR_NULL || !w->values)
			continue;
		if (codes->how == MTP_CODES_WINDOW && key->by_norm)
			place = place_in_window(codes, key);
		else if (codes->how == MTP_CODES_DICTIONARY && key->compare.fn_addr != NULL)
		{
			if (!copied)
			{
				/* Comparison functions see this copy alone, and only if it is whole (D4). */
				memcpy(copy, s->at + codes->u.dictionary.at, codes->u.dictionary.size);
				if (!s->still(s->arg))
					return false;
				copied = true;
			}
			if (!place_in_dictionary(s, (char *) copy, key, &place))
				return false;
		}
		else
			continue;

		/* The value's own code is left out only if all values with it equal the key's (D2). */
		if (key->what <= BTEqualStrategyNumber)
			w->hi = Min(w->hi, place.code - (key->what == BTLessStrategyNumber && place.sure));
		if (key->what >= BTEqualStrategyNumber)
			w->lo = Max(w->lo, place.code + (key->what == BTGreaterStrategyNumber && place.sure));
	}
	w->values = w->values && w->lo <= w->hi && w->lo <= most && w->hi >= 0;
	return true;
}

/* ---------- items ---------- */

/* Returns how many entries have a smaller head, or with or_equal one that is not larger. */
static int
rank_of(const Search *s, uint32 head, bool or_equal)
{
	const uint32 *first = (const uint32 *) (s->at + s->shape.first);
	const uint32 *heads = (const uint32 *) (s->at + s->shape.heads);
	int			node = mtp_count_below(first, s->shape.nnodes, head, or_equal);
	int			rank = node * MTP_NODE_SLOTS;

	if (node == s->shape.nnodes)
		return s->header.nsorted;
	return rank + mtp_count_below(heads + rank, Min(s->header.nsorted - rank, MTP_NODE_SLOTS), head,
								  or_equal);
}

/*
 * Adds the items of ranks lo … hi - 1 that pass.  Returns false if a number is impossible:
 * memory has changed.
 */
static bool
add_items(const Search *s, int lo, int hi, const Filter *filters, int nfilters,
		  MtpPagedirItems *items, bool *any)
{
	const volatile uint16 *at = (const volatile uint16 *) (s->at + s->shape.items);

	for (int rank = lo; rank < hi; rank++)
	{
		unsigned	item;
		bool		good = true;

		for (int i = 0; i < nfilters && good; i++)
		{
			const Filter *f = &filters[i];
			uint32		code = f->width == 1 ? ((const uint8 *) f->codes)[rank] :
			f->width == 2 ? ((const uint16 *) f->codes)[rank] :
			((const uint32 *) f->codes)[rank];

			good = code - f->least <= f->span;
		}
		if (!good)
			continue;
		item = at[rank];
		if (item >= MTP_PAGEDIR_ITEMS)
			return false;
		items->words[item / 64] |= UINT64CONST(1) << item % 64;
		*any = true;
	}
	return true;
}

MtpPagedirFound
mtp_pagedir_search(const char *directory, Size size, MtpPagedirColumns *c, MtpPagedirKey *keys,
				   int nkeys, MtpPagedirStill still, void *arg, MtpPagedirItems *items)
{
	Search		s = {.at = directory,.columns = c,.keys = keys,.nkeys = nkeys,.still = still,
	.arg = arg};
	const MtpPagedirHeader *h = &s.header;
	Wanted		w;
	Filter		filters[MTP_PAGEDIR_COLUMNS];
	int			nfilters = 0;
	int			lo = 0,
				hi,
				ncoded;
	bool		none = false,
				any = false;

	/* Fetches the first level, wherever it begins, so that one wait covers it and the header. */
	for (int line = 1; line < 4; line++)
		__builtin_prefetch(directory + line * MTP_PAGEDIR_ALIGN);

	/* From here on counts and places come from the header's copy, which bounds all loops (D3). */
	if (!read_header(&s, size))
		return MTP_PAGEDIR_UNUSABLE;
	if (!find_wanted(&s, 0, &w))
		return MTP_PAGEDIR_CHANGED;
	for (int i = 1; i < c->n && !none && (w.values || w.nulls); i++)
	{
		Wanted		further;
		int			width = h->column[i].codes.width;
		Filter	   *f = &filters[nfilters];

		if (!find_wanted(&s, i, &further))
			return MTP_PAGEDIR_CHANGED;
		none = further.asked && !further.values && !further.nulls;
		if (!further.asked || width == 0)
			continue;			/* all codes would pass */
		*f = (Filter)
		{
			.codes = directory + s.shape.codes[i],.width = width,.least = MtpCodeOfNull(width)
		};
		if (further.values)
		{
			/* No condition asks for both values and nulls. */
			f->least = Min(Max(further.lo, 0), MtpCodeOfNull(width) - 1);
			f->span = Min(further.hi, MtpCodeOfNull(width) - 1) - f->least;
		}
		nfilters++;
	}

	/* Entries stand in the order of the first column's codes, then come those where it is null. */
	hi = h->nsorted;
	ncoded = h->nsorted + h->nnulls;
	if (!none && w.values)
	{
		if (w.lo > 0 && s.shape.nnodes > 0)
			lo = rank_of(&s, w.lo, false);
		if (w.hi < PG_UINT32_MAX && s.shape.nnodes > 0)
			hi = rank_of(&s, w.hi, true);
		if (!add_items(&s, lo, hi, filters, nfilters, items, &any))
			return MTP_PAGEDIR_CHANGED;
	}

	/* Nothing is known of items that were not compared, so they are candidates in any case. */
	if ((!none && w.nulls && !add_items(&s, h->nsorted, ncoded, filters, nfilters, items, &any)) ||
		!add_items(&s, ncoded, ncoded + h->nothers, NULL, 0, items, &any))
		return MTP_PAGEDIR_CHANGED;
	return any ? MTP_PAGEDIR_SOME : MTP_PAGEDIR_NOTHING;
}
