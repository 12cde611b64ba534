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
	size = MAXALIGN(IndexTupleSize(itup));
	if (size > MTP_MAX_ITEM)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row size %zu exceeds mtpower_blink maximum %zu for index \"%s\"",
						size, (Size) MTP_MAX_ITEM, RelationGetRelationName(rel)),
				 errdetail("Index row references tuple (%u,%u).",
						   ItemPointerGetBlockNumber(&itup->t_tid),
						   ItemPointerGetOffsetNumber(&itup->t_tid)),
				 hint_size()));
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

void
mtp_blink_insert(Relation rel, Relation heap, IndexTuple itup, MtpArrival arrival)
{
	MtpBlinkKey key;
	MtpBlinkStack stack;
	MtpBlinkPut put = {.rel = rel,.stack = &stack,.lists = mtp_blink_lists(rel)};
	Size		size;
	Buffer		buf;
	MtpPageReader v;
	MtpPos		place;
	uint16		pos;

	mtp_blink_key_tuple(rel, &key, itup);
	buf = mtp_blink_find_leaf(rel, &key, &stack);
	size = mtp_page_bytes(BufferGetPage(buf), 1, &itup, &key.norm);
	if (!mtp_page_fits(BufferGetPage(buf), 1, size))
		(void) mtp_blink_reclaim(rel, heap, buf, size, arrival);
	if (put.lists && !mtp_page_fits(BufferGetPage(buf), 1, size))
		mtp_blink_merge(rel, buf, 1, &itup, &key.norm);
	mtp_blink_reader_page(&v, rel, buf);
	mtp_blink_reader_place(&key, &v, true, &place);
	pos = place.pos;
	put.place = &place;
	mtp_blink_put(&put, buf, 1, &pos, &itup, &key.norm);
}
