/*
 * dead.c
 *	  Deletes entries of dead rows from an index page, as far as the table finds them dead.
 *
 * The table has the last word, and tells the standbys' conflict horizon.
 */
#include "index/dead.h"

#include "access/xlog.h"
#include "access/xlogutils.h"
#include "core/links.h"
#include "storage/standby.h"

/*
 * What the table is asked, and the numbers of the entries: core's can't be beyond MaxOffsetNumber.
 */
typedef struct Question
{
	TM_IndexDeleteOp op;
	uint16	   *at;
} Question;

TM_IndexDeleteOp *
mtp_dead_begin(Relation index, Buffer buf, int most)
{
	Question   *q = palloc0(sizeof(Question));

	q->op.irel = index;
	q->op.iblknum = BufferGetBlockNumber(buf);
	q->op.deltids = palloc(most * sizeof(TM_IndexDelete));
	q->op.status = palloc0(most * sizeof(TM_IndexStatus));
	q->at = palloc(most * sizeof(uint16));
	return &q->op;
}

TM_IndexStatus *
mtp_dead_ask(TM_IndexDeleteOp *op, int at, ItemPointer tid)
{
	int			id = op->ndeltids++;

	op->deltids[id].tid = *tid;
	op->deltids[id].id = id;
	op->status[id].idxoffnum = Min(at + 1, MaxOffsetNumber);	/* for core's messages */
	((Question *) op)->at[id] = at;
	return &op->status[id];
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare(&((TM_IndexDelete *) a)->tid, &((TM_IndexDelete *) b)->tid);
}

/* No TID is asked about twice: core relies on that, and sorts them just so. */
static void
check_tids(TM_IndexDeleteOp *op, Relation heap)
{
	qsort(op->deltids, op->ndeltids, sizeof(TM_IndexDelete), compare_tids);
	for (int i = 0; i < op->ndeltids; i++)
	{
		ItemPointer tid = &op->deltids[i].tid;

		mtp_tid_check_block(op->irel, op->iblknum, heap, tid);
		if (i > 0 && ItemPointerEquals(&op->deltids[i - 1].tid, tid))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" contains corrupted page at block %u",
							RelationGetRelationName(op->irel), op->iblknum),
					 errdetail("Two entries lead to TID (%u,%u).",
							   ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid)),
					 errhint("Please REINDEX it.")));
	}
}

static int
compare_ids(const void *a, const void *b)
{
	return ((const TM_IndexDelete *) a)->id - ((const TM_IndexDelete *) b)->id;
}

bool
mtp_dead_delete(TM_IndexDeleteOp *op, Relation heap, Buffer buf, uint8 info, MtpDeadDelete delete)
{
	uint16	   *at = ((Question *) op)->at;
	TransactionId horizon;
	int			n = 0;

	/* All that may fail comes before the page's change: these TIDs, and the table's own reads. */
	check_tids(op, heap);
	horizon = table_index_delete_tuples(heap, op);

	/* The table has put them into an order of its own; ids are in the page's order. */
	qsort(op->deltids, op->ndeltids, sizeof(TM_IndexDelete), compare_ids);
	for (int i = 0; i < op->ndeltids; i++)
	{
		int			id = op->deltids[i].id;

		/* Ids ascend, so what is overwritten has been read. */
		if (op->status[id].knowndeletable)
			at[n++] = at[id];
	}

	if (n > 0)
	{
		MtpWalDead	rec = {.n = n};
		MtpChange	c;

		/* Only standbys with queries need it: replay cancels those that may see the rows. */
		rec.horizon = XLogStandbyInfoActive() ? horizon : InvalidTransactionId;
		mtp_change_init(&c, op->irel, info);
		mtp_change_buffer(&c, buf, REGBUF_STANDARD);
		mtp_change_begin(&c);
		delete(BufferGetPage(buf), n, at);
		mtp_change_data(&c, &rec, sizeof(rec));
		mtp_change_bufdata(&c, 0, at, n * sizeof(uint16));
		mtp_change_finish(&c);
	}
	pfree(at);
	pfree(op->deltids);
	pfree(op->status);
	pfree(op);
	return n > 0;
}

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

void
mtp_dead_sort_blocks(BlockNumber *blocks, int n)
{
	qsort(blocks, n, sizeof(BlockNumber), compare_blocks);
}

bool
mtp_dead_has_block(const BlockNumber *blocks, int n, BlockNumber block)
{
	return bsearch(&block, blocks, n, sizeof(BlockNumber), compare_blocks) != NULL;
}

void
mtp_dead_redo_page(XLogReaderState *record, int block, Buffer buf, int n, MtpDeadDelete delete)
{
	Page		page = BufferGetPage(buf);

	delete(page, n, (uint16 *) XLogRecGetBlockData(record, block, NULL));
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
}

/*
 * No cleanup lock: what an inserter takes away is dead to every snapshot, and the TIDs can't be
 * used again before a VACUUM has passed the page or bucket (passed.c).
 */
void
mtp_dead_redo(XLogReaderState *record, MtpDeadDelete delete)
{
	MtpWalDead *rec = (MtpWalDead *) XLogRecGetData(record);
	Buffer		buf;

	if (InHotStandby)
	{
		MtpLocator	locator;

		XLogRecGetBlockTag(record, 0, &locator, NULL, NULL);
		MtpResolveSnapshotConflict(rec->horizon, locator);
	}
	if (XLogReadBufferForRedo(record, 0, &buf) == BLK_NEEDS_REDO)
		mtp_dead_redo_page(record, 0, buf, rec->n, delete);
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

void
mtp_dead_desc(StringInfo buf, XLogReaderState *record)
{
	MtpWalDead *rec = (MtpWalDead *) XLogRecGetData(record);

	appendStringInfo(buf, "entries %u horizon %u", rec->n, rec->horizon);
}
