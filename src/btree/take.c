/*
 * take.c
 *	  Takes a leaf's share from a task, and finds the places of its entries on the leaf.
 */
#include "btree/leaf.h"

#include "batch/stream.h"

/*
 * Makes the leaf's key that of another tuple.  A key that must be alone in the index is looked for
 * without its TID: then whatever is equal compares as equal (invariant N6).
 */
static void
set_key(MtpBtreeLeaf *leaf, IndexTuple itup)
{
	TupleDesc	tupdesc = RelationGetDescr(leaf->index);
	BTScanInsert key = leaf->key;
	bool		nulls = false;

	for (int i = 0; i < key->keysz; i++)
	{
		ScanKey		k = &key->scankeys[i];
		bool		isnull;

		k->sk_argument = index_getattr(itup, i + 1, tupdesc, &isnull);
		if (isnull)
			k->sk_flags |= SK_ISNULL;
		else
			k->sk_flags &= ~SK_ISNULL;
		nulls |= isnull;
	}
	key->scantid = leaf->unique && (!nulls || leaf->index->rd_index->indnullsnotdistinct) ?
		NULL : &itup->t_tid;
}

/* True if the narrow entry's key must be alone in the index. */
static inline bool
must_be_alone(MtpBtreeLeaf *leaf, MtpNarrow e)
{
	return leaf->unique &&
		(leaf->index->rd_index->indnullsnotdistinct ||
		 !mtp_narrow_isnull(leaf->call->stream->order->code, e));
}

/* The order of narrow entries without their TIDs. */
static inline int
compare_keys(MtpNarrow a, MtpNarrow b)
{
	uint64		last_a = a.rid & MTP_RID_LAST;
	uint64		last_b = b.rid & MTP_RID_LAST;

	if (a.norm != b.norm)
		return a.norm < b.norm ? -1 : 1;
	return last_a == last_b ? 0 : last_a < last_b ? -1 : 1;
}

void
mtp_btree_make_key(MtpBtreeLeaf *leaf, MtpBatchApply *call)
{
	IndexTuple	itup = mtp_stream_tuple(call->stream, palloc(MTP_NARROW_TUPLE));

	leaf->call = call;
	leaf->index = call->index;
	leaf->unique = call->index->rd_index->indisunique;
	leaf->key = _bt_mkscankey(call->index, itup);
	set_key(leaf, itup);
}

static void
make_room(MtpBtreeShare *s, bool narrow, int room)
{
	s->room = room;
	s->tuples = s->tuples ? repalloc(s->tuples, room * sizeof(IndexTuple)) :
		palloc(room * sizeof(IndexTuple));
	if (narrow)
		s->narrow = s->narrow ? repalloc(s->narrow, room * sizeof(MtpNarrow)) :
			palloc(room * sizeof(MtpNarrow));
}

/* What the share's last entry takes on a page: in a posting list, if it has the key before it. */
static Size
last_bytes(MtpBtreeLeaf *leaf, MtpBtreeShare *s)
{
	IndexTuple	itup = s->tuples[s->n - 1];
	int			room = 1;

	if (leaf->dedups && s->n > 1 && mtp_btree_same_key(leaf, s, s->n - 2))
		room = mtp_btree_posting_room(itup);
	return room > 1 ? MTP_POSTING_MOST / room : MTP_LEAF_BYTES(itup);
}

static void
take_narrow(MtpBtreeLeaf *leaf, int most, Size bytes, MtpBtreeShare *s)
{
	MtpBatchStream *stream = leaf->call->stream;
	uint8		code = stream->order->code;
	bool		bounded = !P_RIGHTMOST(leaf->opaque);
	MtpNarrow	high = {0};
	char	   *chunk = NULL;
	int			left = 0;

	if (bounded)
		high = mtp_narrow_of_tuple(code, mtp_btree_item(leaf->page, P_HIKEY));
	while (!mtp_stream_end(stream))
	{
		MtpNarrow	e = *mtp_stream_narrow(stream);

		if (bounded && must_be_alone(leaf, e) ? compare_keys(e, high) >= 0 :
			bounded && mtp_narrow_less(&high, &e))
			break;
		if (s->n > 0 && must_be_alone(leaf, e) && compare_keys(s->narrow[s->n - 1], e) == 0)
			break;
		if (s->n == most || s->bytes >= bytes)
		{
			s->more = true;
			break;
		}
		if (s->n == s->room)
			make_room(s, true, Max(s->room * 2, 256));
		if (left == 0)
		{
			left = 256;
			chunk = palloc(left * MTP_NARROW_TUPLE);
		}
		(void) mtp_batch_narrow_tuple(code, e, chunk);
		s->narrow[s->n] = e;
		s->tuples[s->n++] = (IndexTuple) chunk;
		s->bytes += last_bytes(leaf, s);
		chunk += MTP_NARROW_TUPLE;
		left--;
		mtp_stream_next(stream);
	}
}

static void
take_wide(MtpBtreeLeaf *leaf, int most, Size bytes, MtpBtreeShare *s)
{
	MtpBatchStream *stream = leaf->call->stream;
	MtpWide		last = {0};

	while (!mtp_stream_end(stream))
	{
		const MtpWide *e = mtp_stream_wide(stream);

		/* The descent has found the leaf for the first entry. */
		if (leaf->unique || s->n > 0)
			set_key(leaf, e->itup);
		if ((leaf->unique || s->n > 0) && !P_RIGHTMOST(leaf->opaque))
		{
			int			c = _bt_compare(leaf->index, leaf->key, leaf->page, P_HIKEY);

			if (leaf->key->scantid == NULL ? c >= 0 : c > 0)
				break;
		}
		if (s->n > 0 && leaf->key->scantid == NULL &&
			mtp_batch_order_compare_keys(stream->order, &last, e) == 0)
			break;
		if (s->n == most || s->bytes >= bytes)
		{
			s->more = true;
			break;
		}
		if (s->n == s->room)
			make_room(s, false, Max(s->room * 2, 256));
		s->tuples[s->n++] = e->itup;
		s->bytes += last_bytes(leaf, s);
		last = *e;
		mtp_stream_next(stream);
	}
}

void
mtp_btree_take(MtpBtreeLeaf *leaf, int most, Size bytes, MtpBtreeShare *s)
{
	s->n = 0;
	s->bytes = 0;
	s->more = false;
	if (leaf->call->stream->narrow)
		take_narrow(leaf, most, bytes, s);
	else
		take_wide(leaf, most, bytes, s);
	Assert(s->n > 0 || leaf->unique);
}

/*
 * How the entry, whose key is set if it is wide, compares with an item of the leaf: < 0 before it,
 * > 0 behind it, 0 if its TID falls into the item's posting list, or if its key must be alone and
 * is the item's.
 */
static int
compare_item(MtpBtreeLeaf *leaf, const MtpNarrow *e, OffsetNumber at)
{
	IndexTuple	item;
	MtpNarrow	there;

	if (e == NULL)
		return _bt_compare(leaf->index, leaf->key, leaf->page, at);
	item = mtp_btree_item(leaf->page, at);
	there = mtp_narrow_of_tuple(leaf->call->stream->order->code, item);
	if (must_be_alone(leaf, *e))
		return compare_keys(*e, there);
	if (e->norm != there.norm)
		return e->norm < there.norm ? -1 : 1;
	if (e->rid <= there.rid)
		return e->rid < there.rid ? -1 : 0;
	return BTreeTupleIsPosting(item) &&
		(e->rid & MTP_RID_LAST) == (there.rid & MTP_RID_LAST) &&
		(e->rid & ~MTP_RID_LAST) <= mtp_rid_from_tid(BTreeTupleGetMaxHeapTID(item)) ? 0 : 1;
}

/*
 * Finds the first item from `low` on that the entry does not go behind, or the leaf's end, high.
 * The first step is `step` items wide, and each further one twice as wide.
 */
static OffsetNumber
search_from(MtpBtreeLeaf *leaf, const MtpNarrow *e, OffsetNumber low, OffsetNumber high, int step,
			int *compared)
{
	int			end = high;

	*compared = -1;
	while (low + step <= end)
	{
		int			c = compare_item(leaf, e, low + step - 1);

		if (c <= 0)
		{
			*compared = c;
			high = low + step - 1;
			break;
		}
		low += step;
		step *= 2;
	}
	while (low < high)
	{
		OffsetNumber mid = low + (high - low) / 2;
		int			c = compare_item(leaf, e, mid);

		if (c <= 0)
		{
			*compared = c;
			high = mid;
		}
		else
			low = mid + 1;
	}
	return low;
}

void
mtp_btree_complain_of_twin(MtpBtreeLeaf *leaf, ItemPointer tid)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" has an entry for row (%u,%u) already",
					RelationGetRelationName(leaf->index), ItemPointerGetBlockNumber(tid),
					ItemPointerGetOffsetNumber(tid)),
			 errdetail("The entry is in block %u.", BufferGetBlockNumber(leaf->buf)),
			 errhint("Please REINDEX it.")));
}

int
mtp_btree_place(MtpBtreeLeaf *leaf, MtpBtreeShare *s)
{
	OffsetNumber end = PageGetMaxOffsetNumber(leaf->page) + 1;
	OffsetNumber at = P_FIRSTDATAKEY(leaf->opaque);
	int			step = Max(1, (end - at) / (s->n + 1)); /* between entries, on the average */

	s->at = palloc(Max(s->n, 1) * sizeof(OffsetNumber));
	s->inside = palloc(Max(s->n, 1) * sizeof(bool));
	s->overlaps = false;
	for (int i = 0; i < s->n; i++)
	{
		int			compared;

		if (s->narrow == NULL)
			set_key(leaf, s->tuples[i]);
		at = search_from(leaf, s->narrow ? &s->narrow[i] : NULL, at, end, step, &compared);
		s->at[i] = at;
		s->inside[i] = at < end && compared == 0;
		if (s->inside[i] &&
			(s->narrow ? must_be_alone(leaf, s->narrow[i]) : leaf->key->scantid == NULL))
			return i;
		if (s->inside[i])
		{
			if (!BTreeTupleIsPosting(mtp_btree_item(leaf->page, at)))
				mtp_btree_complain_of_twin(leaf, &s->tuples[i]->t_tid);
			s->overlaps = true;
		}
	}
	return s->n;
}
