/*
 * insert.c
 *	  Inserts single entries.
 */
#include "blink/reader.h"

#include "batch/batch.h"
#include "core/inject.h"
#include "utils/memutils.h"

static int
hint_size(void)
{
	return errhint("Values larger than 1/3 of a page cannot be indexed.\n"
				   "Consider an index on a hash of the value, such as md5().");
}

/* An error context callback: core refuses to form the largest tuples, but gives no hint. */
static void
add_size_hint(void *arg)
{
	if (geterrcode() == ERRCODE_PROGRAM_LIMIT_EXCEEDED)
		(void) hint_size();
}

Size
mtp_blink_data_end(Relation rel, IndexTuple itup)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	Size		start = IndexInfoFindDataOffset(itup->t_info);
	char	   *data = (char *) itup + start;
	bits8	   *nulls = (bits8 *) ((char *) itup + sizeof(IndexTupleData));
	Size		off = 0;

	if (mtp_blink_info(rel)->fixed != 0 && !IndexTupleHasNulls(itup))
		return mtp_blink_info(rel)->fixed;
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (IndexTupleHasNulls(itup) && att_isnull(i, nulls))
			continue;
		off = att_align_pointer(off, att->attalign, att->attlen, data + off);
		off = att_addlength_pointer(off, att->attlen, data + off);
	}
	return start + off;
}

IndexTuple
mtp_blink_form_tuple(Relation rel, Datum *values, bool *isnull, ItemPointer tid)
{
	ErrorContextCallback context = {.previous = error_context_stack,.callback = add_size_hint};
	IndexTuple	itup;
	Size		size;

	error_context_stack = &context;
	itup = index_form_tuple(RelationGetDescr(rel), values, isnull);
	error_context_stack = context.previous;
	itup->t_tid = *tid;
	size = IndexTupleSize(itup);
	if (size > MTP_MAX_ITEM)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row size %zu exceeds mtpower_blink maximum %zu for index \"%s\"",
						size, (Size) MTP_MAX_ITEM, RelationGetRelationName(rel)),
				 errdetail("Index row references tuple (%u,%u).",
						   ItemPointerGetBlockNumber(&itup->t_tid),
						   ItemPointerGetOffsetNumber(&itup->t_tid)),
				 hint_size()));

	/* The limit is nbtree's, whatever leaves spare. */
	if (mtp_blink_info(rel)->norm & MTP_NORM_SHORT)
	{
		size = TYPEALIGN(mtp_norm_align(MTP_NORM_SHORT), mtp_blink_data_end(rel, itup));
		itup->t_info = (itup->t_info & ~INDEX_SIZE_MASK) | size;
	}
	return itup;
}

Buffer
mtp_blink_find_leaf(Relation rel, MtpBlinkKey *key, MtpBlinkStack *stack)
{
	for (;;)
	{
		Buffer		buf = mtp_blink_descend(rel, key, BUFFER_LOCK_EXCLUSIVE, 0, stack);

		if (BufferIsValid(buf))
			return buf;
		MTP_INJECT("no_root");
		mtp_blink_make_root(rel);
	}
}

/* The entry's place on its leaf, for the put as well */
static void
find_place(MtpBlinkPut *put, MtpBlinkKey *key, Buffer buf, MtpPos *place)
{
	MtpPageReader v;

	mtp_blink_reader_page(&v, put->rel, buf);
	mtp_blink_reader_place(key, &v, true, place);
	put->place = place;
}

void
mtp_blink_insert(Relation rel, Relation heap, IndexTuple itup, MtpArrival arrival)
{
	MtpBlinkKey key;
	MtpBlinkStack stack;
	MtpBlinkPut put = {.rel = rel,.stack = &stack,.lists = mtp_blink_lists(rel)};
	Size		size;
	Buffer		buf;
	MtpPos		place;
	uint16		pos;
	bool		inside;

	mtp_blink_key_tuple(rel, &key, itup);
	buf = mtp_blink_find_leaf(rel, &key, &stack);
	size = mtp_page_bytes(BufferGetPage(buf), 1, &itup, &key.norm);
	if (!mtp_page_fits(BufferGetPage(buf), 1, size))
	{
		/* A list may have room for it all the same. */
		find_place(&put, &key, buf, &place);
		pos = place.pos;
		put.tight = true;
		if (put.lists && mtp_blink_put_merged(&put, buf, 1, &pos, &itup, &key.norm, &inside))
			return;
		put.tight = false;
		(void) mtp_blink_reclaim(rel, heap, buf, size, arrival);
		if (put.lists && !mtp_page_fits(BufferGetPage(buf), 1, size))
			mtp_blink_merge(rel, buf, 1, &itup, &key.norm);
	}
	find_place(&put, &key, buf, &place);
	pos = place.pos;
	mtp_blink_put(&put, buf, 1, &pos, &itup, &key.norm);
}
