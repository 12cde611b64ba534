/*
 * batch.c
 *	  Core's btree's side of the batch engine: entries go in one by one, in the order of their keys,
 *	  by core's own insertion.
 */
#include "btree/btree.h"

#include "access/nbtree.h"
#include "batch/stream.h"
#include "core/inject.h"

#define ENTRIES_PER_STEP	64

static bool
owner_alone(Relation index)
{
	return true;
}

/*
 * Puts some entries in.  Each is counted before core has it, so none goes in twice: core may raise
 * an error behind the insertion, as when a page is split and its parent finds no room on the disk
 * (invariant E10).
 */
static void
btree_step(MtpBatchApply *a)
{
	MtpBatchStream *stream = a->stream;
	IndexUniqueCheck check = a->index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO;
	union
	{
		IndexTupleData tuple;
		char		data[MTP_NARROW_TUPLE];
		int64		align;
	}			narrow;

	for (int i = 0; i < ENTRIES_PER_STEP && !mtp_stream_end(stream); i++)
	{
		IndexTuple	itup = &narrow.tuple;

		if (stream->narrow)
			(void) mtp_batch_narrow_tuple(stream->order->code, *mtp_stream_narrow(stream),
										  narrow.data);
		else
			itup = mtp_stream_wide(stream)->itup;
		mtp_stream_next(stream);
		++*a->progress;
		MTP_INJECT("btree_insert");
		(void) _bt_doinsert(a->index, itup, check, false, a->heap);
	}
}

static const MtpBatchOps btree_ops = {
	.ambuild = btbuild,
	.order = mtp_batch_order_make,
	.compares = true,
	.owner_alone = owner_alone,
	.step = btree_step
};

void
mtp_btree_batch_init(void)
{
	mtp_batch_register(&btree_ops);
}
