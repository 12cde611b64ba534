/*
 * key.c
 *	  Makes search keys and compares them with items.
 */
#include "blink/reader.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "core/collation.h"
#include "core/links.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/*
 * The least size of a tuple of natts columns, none of them null; 0 unless all have a fixed length.
 */
static uint16
fixed_size(Relation rel, int natts)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Size		size = 0;

	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (att->attlen <= 0)
			return 0;
		size = att_align_nominal(size, att->attalign) + att->attlen;
	}
	return IndexInfoFindDataOffset(0) + size;
}

/* True if no column of an entry needs more than a multiple of 4. */
static bool
fits_short(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);

	for (int i = 0; i < tupdesc->natts; i++)
		if (TupleDescAttr(tupdesc, i)->attalign == TYPALIGN_DOUBLE)
			return false;
	return true;
}

/*
 * True if the index has MTP_BLINK_BYTES.  A file that is being built is not read: a page that comes
 * to shared buffers too early would stay there (README.md, "Bulk build").  Its builder knows it,
 * and for the builder's parallel workers it is empty.  It gets the mark that this process gives.
 * This may be called with the metapage locked, or others.
 */
static bool
has_bytes_mark(Relation rel, bool given)
{
	bool		has = given;
	Buffer		buf;
	bool		locked;
	Page		page;

	if (mtp_blink_building(rel) || RelationGetNumberOfBlocks(rel) == 0)
		return given;
	buf = ReadBuffer(rel, MTP_BLINK_META);
	locked = mtp_link_locked(buf);
	if (!locked)
		LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	if (!PageIsNew(page) && MtpBlinkMetaOf(page)->magic == MTP_BLINK_MAGIC)
		has = (MtpBlinkMetaOf(page)->marks & MTP_BLINK_BYTES) != 0;
	if (!locked)
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(buf);
	return has;
}

/*
 * The code of the index's normalized keys.  The order of C.UTF-8 is the C library's, and may be
 * another one elsewhere.  So an index is what it was when it was built, and its metapage tells.
 * *usable gets false if its order is not that of the library here.
 */
static uint8
norm_code(Relation rel, bool *usable)
{
	uint8		code = mtp_norm_code(rel);
	bool		known = (code & MTP_NORM_KIND) != MTP_NORM_NONE;
	Oid			collation = rel->rd_indcollation[0];
	Oid			compare = index_getprocid(rel, 1, BTORDER_PROC);
	bool		has;

	*usable = true;
	if (mtp_norm_kind(compare, collation) != MTP_NORM_NONE ||
		mtp_norm_kind(compare, C_COLLATION_OID) == MTP_NORM_NONE ||
		!mtp_collation_is_c_utf8(collation))
		return code;
	has = has_bytes_mark(rel, known);
	*usable = known || !has;
	return has ? code : code & ~MTP_NORM_KIND;
}

uint32
mtp_blink_marks(Relation index)
{
	uint8		kind = mtp_blink_info(index)->norm & MTP_NORM_KIND;
	bool		bytes = kind != mtp_norm_kind(index_getprocid(index, 1, BTORDER_PROC),
											  index->rd_indcollation[0]);

	return (mtp_blink_equal_is_identical(index) ? MTP_BLINK_LISTS : 0) |
		(bytes ? MTP_BLINK_BYTES : 0);
}

bool
mtp_blink_usable(Relation rel)
{
	bool		usable = true;

	if (rel->rd_amcache == NULL)
		(void) norm_code(rel, &usable);
	return usable;
}

MtpBlinkInfo *
mtp_blink_make_info(Relation rel)
{
	bool		usable;
	uint8		norm = norm_code(rel, &usable);
	MtpBlinkInfo *info;

	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" was built where collation \"%s\" has the order of code points",
						RelationGetRelationName(rel), get_collation_name(rel->rd_indcollation[0])),
				 errdetail("The C library of this server is not known to order C.UTF-8 so."),
				 errhint("Please REINDEX it.")));
	info = MemoryContextAllocZero(rel->rd_indexcxt, sizeof(MtpBlinkInfo));
	info->norm = norm;
	info->nkeyatts = IndexRelationGetNumberOfKeyAttributes(rel);
	info->natts = IndexRelationGetNumberOfAttributes(rel);
	info->single = info->nkeyatts == 1 && mtp_norm_is_exact(info->norm);
	if (fits_short(rel))
		info->norm |= MTP_NORM_SHORT;
	if (mtp_norm_is_exact(info->norm))
		info->norm |= MTP_NORM_CUT;
	info->fixed = fixed_size(rel, info->natts);
	info->fixed_key = fixed_size(rel, info->nkeyatts);
	info->lists = -1;
	info->root = InvalidBlockNumber;
	rel->rd_amcache = info;
	return info;
}

void
mtp_blink_key_empty(Relation rel, MtpBlinkKey *key)
{
	key->rel = rel;
	key->order = NULL;
	key->view = NULL;
	key->code = mtp_blink_info(rel)->norm;
	key->by_head = false;
	key->by_norm = false;
	key->null = false;
	key->pivot = false;
	key->norm = 0;
	memset(&key->bt, 0, offsetof(BTScanInsertData, scankeys));
	key->bt.heapkeyspace = true;
}

/*
 * Makes scan keys of a tuple's first natts attributes, to be compared by the operator class's own
 * order.  The first attribute needs none if the norm decides it; so an index of one exact column
 * has no scan keys at all: norm and TID are the key.
 */
static void
keys_of_tuple(MtpBlinkKey *key, IndexTuple itup, int natts)
{
	Relation	rel = key->rel;
	TupleDesc	tupdesc = RelationGetDescr(rel);

	key->norm = mtp_norm_tuple(key->code, itup);
	key->by_head = natts > 0;
	key->by_norm = natts > 0 && mtp_norm_is_exact(key->code);
	key->null = natts > 0 && mtp_blink_first_null(itup);
	key->bt.keysz = natts;

	for (int i = key->by_norm ? 1 : 0; i < natts; i++)
	{
		bool		isnull;
		Datum		value = index_getattr(itup, i + 1, tupdesc, &isnull);

		ScanKeyEntryInitializeWithInfo(&key->bt.scankeys[i],
									   (isnull ? SK_ISNULL : 0) |
									   (rel->rd_indoption[i] << SK_BT_INDOPTION_SHIFT),
									   i + 1, InvalidStrategy, InvalidOid, rel->rd_indcollation[i],
									   index_getprocinfo(rel, i + 1, BTORDER_PROC), value);
	}
}

void
mtp_blink_key_tuple(Relation rel, MtpBlinkKey *key, IndexTuple itup)
{
	mtp_blink_key_empty(rel, key);
	keys_of_tuple(key, itup, IndexRelationGetNumberOfKeyAttributes(rel));
	key->bt.scantid = BTreeTupleGetHeapTID(itup);
}

void
mtp_blink_key_pivot(Relation rel, MtpBlinkKey *key, IndexTuple pivot)
{
	mtp_blink_key_empty(rel, key);
	keys_of_tuple(key, pivot, BTreeTupleGetNAtts(pivot, rel));
	key->bt.scantid = BTreeTupleGetHeapTID(pivot);
	key->pivot = true;
}

/*
 * The integers share one space of norms, and so do the floats.  A probe of another type than the
 * column's is compared by norm only within one of these; else the comparator is asked.
 */
void
mtp_blink_key_done(MtpBlinkKey *key, Oid subtype)
{
	ScanKey		sk = &key->bt.scankeys[0];
	Oid			type = key->rel->rd_opcintype[0];
	uint8		kind = key->code & MTP_NORM_KIND;

	if (key->bt.keysz == 0)
		return;
	key->null = (sk->sk_flags & SK_ISNULL) != 0;
	if (!key->null && OidIsValid(subtype) && subtype != type)
		kind = mtp_norm_probe_kind(kind, subtype);
	if (!key->null && kind == MTP_NORM_NONE)
		return;
	key->norm = mtp_norm_datum((key->code & ~MTP_NORM_KIND) | kind, sk->sk_argument, key->null);
	key->by_head = true;
	key->by_norm = mtp_norm_is_exact(key->code) && (key->null || mtp_norm_is_exact(kind));
}

/* Compares the first column of a key whose norm decides it. */
static inline int
compare_norm(MtpBlinkKey *key, IndexTuple item)
{
	bool		null = mtp_blink_first_null(item);
	uint64		norm;

	if (unlikely(null || key->null))
	{
		if (null && key->null)
			return 0;
		return (key->null == ((key->code & MTP_NORM_NULLS_FIRST) != 0)) ? -1 : 1;
	}
	norm = mtp_norm_fixed(key->code, (char *) item + IndexInfoFindDataOffset(item->t_info));
	return key->norm < norm ? -1 : key->norm > norm ? 1 : 0;
}

static int
compare_attr(MtpBlinkKey *key, IndexTuple item, int i)
{
	ScanKey		sk = &key->bt.scankeys[i];
	bool		null;
	Datum		value = index_getattr(item, i + 1, RelationGetDescr(key->rel), &null);
	int			cmp;

	if (null || (sk->sk_flags & SK_ISNULL))
	{
		bool		knull = (sk->sk_flags & SK_ISNULL) != 0;

		if (null && knull)
			return 0;
		return (knull == ((sk->sk_flags & SK_BT_NULLS_FIRST) != 0)) ? -1 : 1;
	}

	/* Cross-type support functions take the column's type first. */
	if (i == 0 && key->order != NULL)
		cmp = key->order->comparator(value, sk->sk_argument, key->order);
	else
		cmp = DatumGetInt32(FunctionCall2Coll(&sk->sk_func, sk->sk_collation,
											  value, sk->sk_argument));
	if (!(sk->sk_flags & SK_BT_DESC))
		INVERT_COMPARE_RESULT(cmp);
	return cmp;
}

int
mtp_blink_compare(MtpBlinkKey *key, IndexTuple item)
{
	int			natts = BTreeTupleGetNAtts(item, key->rel);
	int			n = Min(natts, key->bt.keysz);
	int			i = 0;
	ItemPointer tid;

	if (natts > IndexRelationGetNumberOfKeyAttributes(key->rel))
		n = Min(n, IndexRelationGetNumberOfKeyAttributes(key->rel));
	if (n > 0 && key->by_norm)
	{
		int			cmp = compare_norm(key, item);

		if (cmp != 0)
			return cmp;
		i = 1;
	}
	for (; i < n; i++)
	{
		int			cmp = compare_attr(key, item, i);

		if (cmp != 0)
			return cmp;
	}

	/* Truncated attributes, and then a truncated TID, are minus infinity. */
	if (natts == 0 || key->bt.keysz > natts)
		return 1;
	tid = BTreeTupleGetHeapTID(item);
	if (key->bt.scantid == NULL)
		return !key->pivot && key->bt.keysz == natts && tid == NULL ? 1 : 0;
	if (tid == NULL)
		return 1;
	return ItemPointerCompare(key->bt.scantid, tid);
}

bool
mtp_blink_same_key(Relation rel, IndexTuple a, IndexTuple b)
{
	uint8		code = mtp_blink_info(rel)->norm;

	if (mtp_item_same_key(a, b))
		return true;

	/* Only how a value is compressed may differ, and only in tuples of variable width. */
	if (!IndexTupleHasVarwidths(a) || !IndexTupleHasVarwidths(b))
		return false;
	if (mtp_blink_info(rel)->nkeyatts == 1 && !mtp_blink_first_null(a) &&
		!mtp_blink_first_null(b))
	{
		char	   *x = (char *) a + IndexInfoFindDataOffset(a->t_info);
		char	   *y = (char *) b + IndexInfoFindDataOffset(b->t_info);

		if (VARATT_IS_SHORT(x) && VARATT_IS_SHORT(y))
			return false;
	}
	if (mtp_norm_tuple(code, a) != mtp_norm_tuple(code, b))
		return false;
	return _bt_keep_natts_fast(rel, a, b) > IndexRelationGetNumberOfKeyAttributes(rel);
}

int
mtp_blink_same_keys(Relation rel, int n, const IndexTuple *items, uint8 *same)
{
	int			found = 0;

	memset(same, 0, MTP_SAME_BYTES(n));
	for (int i = 1; i < n; i++)
		if (mtp_blink_same_key(rel, items[i - 1], items[i]))
		{
			same[i / 8] |= 1 << (i % 8);
			found++;
		}
	return found;
}

/* The tuple, or a copy with zeros behind it, whose size is a multiple of MAXALIGN. */
static IndexTuple
maxaligned(IndexTuple itup)
{
	Size		size = IndexTupleSize(itup);
	IndexTuple	copy;

	if (size == MAXALIGN(size))
		return itup;
	copy = palloc0(MAXALIGN(size));
	memcpy(copy, itup, size);
	copy->t_info = (itup->t_info & ~INDEX_SIZE_MASK) | MAXALIGN(size);
	return copy;
}

IndexTuple
mtp_blink_truncate(Relation rel, IndexTuple left, IndexTuple right, BTScanInsert key)
{
	IndexTuple	pivot;

	if (mtp_item_is_list(left))
	{
		ItemPointerData last = mtp_item_last_tid(left);

		left = mtp_item_plain(left, &last);
	}
	if (mtp_item_is_list(right))
		right = mtp_item_plain(right, &MtpListHeadOf(right)->first);
	pivot = _bt_truncate(rel, left, maxaligned(right), key);
	Assert(IndexTupleSize(pivot) == MAXALIGN(IndexTupleSize(pivot)));
	return pivot;
}

/*
 * The item that a search has come to (`slot` is its offset with the flags), checked before it is
 * compared (invariant B14).  NULL if the reader is torn.
 */
static inline IndexTuple
checked_item(MtpPageReader *v, unsigned slot, uint32 head)
{
	unsigned	off = slot & ~MTP_SLOT_FLAGS;
	IndexTuple	item = (IndexTuple) (v->page + off);

	if (!BufferIsValid(v->buf))
		return v->torn ? NULL :
			mtp_blink_reader_copy(v, slot, head, v->head.type != MTP_PAGE_LEAF);
	if (unlikely(off < ((PageHeader) v->page)->pd_upper || off > BLCKSZ - sizeof(IndexTupleData) ||
				 off % mtp_norm_align(v->head.norm) != 0 ||
				 IndexTupleSize(item) < sizeof(IndexTupleData) ||
				 off + IndexTupleSize(item) > BLCKSZ))
		mtp_blink_fail_page(v->rel, v->page, "directory points to something that is not an item");
	if (mtp_off_narrow(v->head.norm, slot))
		item = mtp_blink_reader_widen(v, item, head);
	if (!mtp_blink_item_plain(v->rel, v->page, item))
		mtp_blink_check_item(v->rel, v->page, item);
	return item;
}

/* True if the item is before the place that the key asks for: an MtpBefore. */
static bool
is_before(void *arg, unsigned off, uint32 head)
{
	MtpBlinkKey *key = arg;
	const MtpPageHeader *h = &key->view->head;
	IndexTuple	item;
	int			cmp;

	/* A narrow item's head may say all of it. */
	if (mtp_off_narrow(h->norm, off) && key->by_norm && !key->null)
	{
		uint64		norm = mtp_page_narrow_norm(h, head);

		if (norm != key->norm)
			return norm < key->norm;
		if (key->bt.keysz == 1 && key->bt.scantid == NULL)
			return key->bt.nextkey;
	}
	item = checked_item(key->view, off, head);
	if (unlikely(item == NULL))
		return false;
	cmp = mtp_blink_compare(key, item);
	return key->bt.nextkey ? cmp >= 0 : cmp > 0;
}

void
mtp_blink_reader_place(MtpBlinkKey *key, MtpPageReader *v, bool ranked, MtpPos *p)
{
	key->view = v;
	*p = mtp_page_search_by(v->page, &v->head, key->norm, key->by_head, ranked, is_before, key);
}
