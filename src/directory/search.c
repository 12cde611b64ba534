/*
 * search.c
 *	  Finds items that may match, in memory that may change meanwhile.
 *
 * What is read there is read once and bounded before it is used: the head is copied first, and where everything else stands follows from the copy; counting
 * in nodes yields at most what there is; an item's number is looked at before it is used.  No comparison function sees that memory, only rows that were copied out of it and that
 * `copy` has found unchanged.
 */
#include "directory/directory.h"

#include "page/search.h"

typedef struct Search
{
	const char *at;
	union
	{
		MtpDirectoryHead head;
		uint64		words[sizeof(MtpDirectoryHead) / sizeof(uint64)];
	}			u;
	MtpDirectoryShape shape;
	MtpDirectoryColumns *columns;
	MtpDirectoryKey *keys;
	int			nkeys;
	int			nusable;		/* leading keys that one range of entries follows from */
	MtpDirectoryCopy copy;
	void	   *arg;
} Search;

/* Ranks of entries: outside of lo … hi none matches; from lo_sure to hi_sure the heads have decided that all do, as far as the first column goes. */
typedef struct Range
{
	int			lo;
	int			lo_sure;
	int			hi_sure;
	int			hi;
} Range;

/* Copies the head, and sees whether it is one, and of these columns. */
static bool
read_head(Search *s, Size size)
{
	const volatile uint64 *words = (const volatile uint64 *) s->at;
	const MtpDirectoryColumns *c = s->columns;
	MtpDirectoryHead *h = &s->u.head;
	Size		bytes = offsetof(MtpDirectoryHead, tags) + c->n * sizeof(MtpDirectoryTag);

	if (size < bytes)
		return false;
	for (int i = 0; i < bytes / sizeof(uint64); i++)
		s->u.words[i] = words[i];
	if (h->format != MTP_DIRECTORY_FORMAT || h->ncolumns != c->n || h->norm != c->column[0].norm || h->shift > 63)
		return false;
	for (int i = 0; i < c->n; i++)
		if (memcmp(&h->tags[i], &c->column[i].tag, sizeof(MtpDirectoryTag)) != 0)
			return false;
	s->shape = mtp_directory_shape(h);
	return s->shape.size <= size;
}

/* How many entries have a smaller head (not a larger one, if or_equal)? */
static int
rank_of(const Search *s, uint32 head, bool or_equal)
{
	const uint32 *first = (const uint32 *) (s->at + s->shape.first);
	const uint32 *heads = (const uint32 *) (s->at + s->shape.heads);
	int			node = mtp_count_below(first, s->shape.nnodes, head, or_equal);
	int			rank = node * MTP_NODE_SLOTS;

	if (node == s->shape.nnodes)
		return s->u.head.nsorted;
	return rank + mtp_count_below(heads + rank, Min(s->u.head.nsorted - rank, MTP_NODE_SLOTS), head, or_equal);
}

/* What the heads say of a key on the first column */
static void
narrow_by_head(const Search *s, const MtpDirectoryKey *key, Range *r)
{
	const MtpDirectoryHead *h = &s->u.head;
	bool		exact = key->exact && h->shift == 0;
	int			below,			/* entries that are below the value for sure, */
				behind;			/* and those that are not above it for sure: the ones in between are not known, or equal if that is exact */

	if (key->norm < h->min)
		below = behind = 0;
	else if (key->norm > h->max)
		below = behind = h->nsorted;
	else
	{
		uint32		head = mtp_window_head(h->min, h->shift, key->norm);

		below = rank_of(s, head, false);
		behind = rank_of(s, head, true);
	}
	if (key->what == BTGreaterStrategyNumber && exact)
		below = behind;
	if (key->what == BTLessStrategyNumber && exact)
		behind = below;
	if (key->what != BTLessStrategyNumber && key->what != BTLessEqualStrategyNumber)
	{
		r->lo = Max(r->lo, below);
		r->lo_sure = Max(r->lo_sure, exact ? below : behind);
	}
	if (key->what != BTGreaterStrategyNumber && key->what != BTGreaterEqualStrategyNumber)
	{
		r->hi = Min(r->hi, behind);
		r->hi_sure = Min(r->hi_sure, exact ? behind : below);
	}
}

/*
 * How many keys does one range of entries follow from: those on leading columns that are fixed by = or IS NULL, and on the one behind.  A key that can't
 * be asked ends them.
 */
static int
usable_keys(const Search *s)
{
	bool		fixed = true;
	int			column = -1;
	int			i;

	for (i = 0; i < s->nkeys; i++)
	{
		const MtpDirectoryKey *key = &s->keys[i];

		if (key->column != column)
		{
			if (!fixed || key->column != column + 1)
				break;
			column = key->column;
			fixed = false;
		}
		if (key->what < MTP_DIRECTORY_NULL && !key->exact && key->compare.fn_addr == NULL)
			break;
		if (key->what == BTEqualStrategyNumber || key->what == MTP_DIRECTORY_NULL)
			fixed = true;
	}
	return i;
}

static int
compare_value(Search *s, MtpDirectoryKey *key, Datum value)
{
	uint64		norm;

	if (!key->exact)
		return DatumGetInt32(FunctionCall2Coll(&key->compare, key->collation, value, key->value));
	norm = mtp_norm_datum(s->columns->column[key->column].norm, value, false);
	return norm < key->norm ? -1 : norm > key->norm ? 1 : 0;
}

/* Is an entry with these values before all that match the usable keys (-1), behind all (1), or neither?  Nulls are last. */
static int
side_of(Search *s, const Datum *values, const MtpValueKind *kinds)
{
	for (int i = 0; i < s->nusable; i++)
	{
		MtpDirectoryKey *key = &s->keys[i];
		bool		null = kinds[key->column] == MTP_VALUE_NULL;
		int			cmp;

		if (key->what == MTP_DIRECTORY_NULL)
		{
			if (!null)
				return -1;
			continue;
		}
		if (null)
			return 1;
		if (key->what == MTP_DIRECTORY_NOT_NULL)
			continue;
		cmp = compare_value(s, key, values[key->column]);
		switch (key->what)
		{
			case BTLessStrategyNumber:
				if (cmp >= 0)
					return 1;
				break;
			case BTLessEqualStrategyNumber:
				if (cmp > 0)
					return 1;
				break;
			case BTGreaterStrategyNumber:
				if (cmp <= 0)
					return -1;
				break;
			case BTGreaterEqualStrategyNumber:
				if (cmp < 0)
					return -1;
				break;
			default:
				if (cmp != 0)
					return cmp < 0 ? -1 : 1;
				break;
		}
	}
	return 0;
}

/* The item of a rank, or -1 if that is none. */
static inline int
item_of(const Search *s, int rank)
{
	unsigned	item = ((const volatile uint16 *) (s->at + s->shape.items))[rank];

	return item < MTP_DIRECTORY_ITEMS ? (int) item : -1;
}

/*
 * The first entry in lo … hi that is not before what matches (behind: that is behind it), in *bound; or something on the safe side of it, if a row does not say.
 * False if memory has changed.
 */
static bool
narrow_by_rows(Search *s, int lo, int hi, bool behind, int *bound)
{
	PGAlignedBlock row;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;
		int			item = item_of(s, mid);
		Datum		values[MTP_DIRECTORY_COLUMNS];
		MtpValueKind kinds[MTP_DIRECTORY_COLUMNS];
		Size		size;
		bool		known;

		if (item < 0 || !s->copy(s->arg, item, row.data, &size))
			return false;
		known = size >= SizeofHeapTupleHeader && mtp_directory_written(s->columns, (HeapTupleHeader) row.data) &&
			mtp_directory_values(s->columns, (HeapTupleHeader) row.data, size, values, kinds);
		for (int i = 0; i < s->columns->n && known; i++)
			known = kinds[i] != MTP_VALUE_APART;
		if (!known)
			break;
		if (side_of(s, values, kinds) < (behind ? 1 : 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	*bound = behind ? hi : lo;
	return true;
}

/* The range of entries that may match.  False if memory has changed. */
static bool
find_range(Search *s, Range *r)
{
	int			n = s->u.head.nsorted;
	int			later = 0;		/* usable keys that the heads know nothing of */

	*r = (Range) {0, 0, n, n};
	for (int i = 0; i < s->nkeys && s->keys[i].column == 0; i++)
		if (s->keys[i].what < MTP_DIRECTORY_NULL && s->keys[i].by_norm && s->shape.nnodes > 0)
			narrow_by_head(s, &s->keys[i], r);
	for (int i = 0; i < s->nusable; i++)
		if (s->keys[i].column > 0 || (s->keys[i].what < MTP_DIRECTORY_NULL && (!s->keys[i].by_norm || s->shape.nnodes == 0)))
			later++;
	if (r->lo >= r->hi)
		return true;
	if (later > 0)
	{
		r->lo_sure = r->hi;
		r->hi_sure = r->lo;
	}
	r->lo_sure = Min(r->lo_sure, r->hi);
	if (s->nusable > 0 && r->lo_sure - r->lo > MTP_DIRECTORY_FEW && !narrow_by_rows(s, r->lo, r->lo_sure, false, &r->lo))
		return false;
	r->hi_sure = Max(r->hi_sure, r->lo);
	return s->nusable == 0 || r->hi - r->hi_sure <= MTP_DIRECTORY_FEW || narrow_by_rows(s, r->hi_sure, r->hi, true, &r->hi);
}

/* Adds the items of ranks lo … hi.  False if these are none. */
static bool
add_items(const Search *s, int lo, int hi, MtpDirectoryItems *items)
{
	for (int rank = lo; rank < hi; rank++)
	{
		int			item = item_of(s, rank);

		if (item < 0)
			return false;
		items->words[item / 64] |= UINT64CONST(1) << item % 64;
	}
	return true;
}

MtpDirectoryFound
mtp_directory_search(const char *directory, Size size, MtpDirectoryColumns *c, MtpDirectoryKey *keys, int nkeys,
					 MtpDirectoryCopy copy, void *arg, MtpDirectoryItems *items)
{
	Search		s = {.at = directory,.columns = c,.keys = keys,.nkeys = nkeys,.copy = copy,.arg = arg};
	const MtpDirectoryHead *h = &s.u.head;
	bool		nulls = true,
				values = true;
	int			end;
	Range		r = {0};

	/* The first level, wherever it begins: it is waited for once, with the head. */
	for (int line = 1; line < 4; line++)
		__builtin_prefetch(directory + line * MTP_DIRECTORY_ALIGN);
	if (!read_head(&s, size))
		return MTP_DIRECTORY_UNUSABLE;
	for (int i = 0; i < nkeys && keys[i].column == 0; i++)
	{
		if (keys[i].what == MTP_DIRECTORY_NULL)
			values = false;
		else
			nulls = false;
	}
	s.nusable = usable_keys(&s);
	if (values && h->nsorted > 0 && !find_range(&s, &r))
		return MTP_DIRECTORY_CHANGED;
	end = h->nsorted + h->nnulls + h->nothers;
	if (r.lo >= r.hi && (!nulls || h->nnulls == 0) && h->nothers == 0)
		return MTP_DIRECTORY_NOTHING;
	if (!add_items(&s, r.lo, r.hi, items) || !add_items(&s, h->nsorted + (nulls ? 0 : h->nnulls), end, items))
		return MTP_DIRECTORY_CHANGED;
	return MTP_DIRECTORY_SOME;
}
