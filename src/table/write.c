/*
 * write.c
 *	  Changes rows by heap's callbacks, and then takes the frames of the changed pages out of
 *	  the buffer.
 *
 * By then heap has unlocked the page, but the caller has not committed.  No snapshot that sees the
 * change exists yet, and the transaction's own commands see it only later.  So a reader that may
 * see the change finds no frame without it.  If an error strikes between the change and the
 * frame's end, the transaction aborts and the frame's contents are right.  Row locks, hint bits,
 * pruning and freezing leave frames as they are: no answer of a frame depends on them.
 *
 * A directory names line pointers, whose rows a reader judges on their page.  So it goes only when
 * new versions of rows come.
 */
#include "core/core.h"

#include "access/heapam.h"

#include "batch/batch.h"
#include "btree/btree.h"
#include "buffer/pair.h"
#include "pagedir/request.h"
#include "table/table.h"
#include "core/inject.h"
#include "zone/zone.h"

static const TableAmRoutine *heap;

/* Takes the frames of a changed page away; its directory only with new rows. */
static void
take_frames(Relation rel, ItemPointer tid, bool new_rows)
{
	MTP_INJECT("table_changed");
	mtp_pair_stale(rel, ItemPointerGetBlockNumber(tid), new_rows);
}

/* Core asks for the index entries of so many rows next. */
static void
rows_come(Relation rel, int n)
{
	if (mtp_batch_rows_come(rel, n))
		mtp_btree_redirect(rel);
}

static void
row_comes(Relation rel, TupleTableSlot *slot)
{
	mtp_zone_rows_come(rel, &slot, 1);
	rows_come(rel, 1);
}

static void
tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
			 BulkInsertState bistate)
{
	heap->tuple_insert(rel, slot, cid, options, bistate);
	take_frames(rel, &slot->tts_tid, true);
	row_comes(rel, slot);
}

static void
tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
						 BulkInsertState bistate, uint32 token)
{
	heap->tuple_insert_speculative(rel, slot, cid, options, bistate, token);
	take_frames(rel, &slot->tts_tid, true);
	row_comes(rel, slot);
}

/* A row that loses against another session's is dead from here on, while its statement goes on. */
static void
tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded)
{
	if (!succeeded)
		mtp_batch_take_back(rel, &slot->tts_tid);
	heap->tuple_complete_speculative(rel, slot, token, succeeded);
}

/*
 * COPY hands over its rows in batches and asks for their index entries right afterwards.  This
 * tells the engine that there will be many.
 */
static void
multi_insert(Relation rel, TupleTableSlot **slots, int ntuples, CommandId cid, int options,
			 BulkInsertState bistate)
{
	BlockNumber last = InvalidBlockNumber;

	mtp_batch_announce(rel, ntuples, cid);
	heap->multi_insert(rel, slots, ntuples, cid, options, bistate);
	for (int i = 0; i < ntuples; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&slots[i]->tts_tid);

		if (i == 0 || MtpPairOf(block) != MtpPairOf(last))
			take_frames(rel, &slots[i]->tts_tid, true);
		last = block;
	}
	mtp_pagedir_request_loaded(rel, slots, ntuples);
	mtp_zone_batch_comes(rel, slots, ntuples);
	rows_come(rel, ntuples);
}

static TM_Result
tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot, Snapshot crosscheck,
			 bool wait, TM_FailureData *tmfd, bool changing_part)
{
	TM_Result	result;

	mtp_batch_before_unique(RelationGetRelid(rel), InvalidOid);
	result = heap->tuple_delete(rel, tid, cid, snapshot, crosscheck, wait, tmfd, changing_part);
	if (result == TM_Ok)
		take_frames(rel, tid, false);
	return result;
}

static TM_Result
tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
			 Snapshot crosscheck, bool wait,
			 TM_FailureData *tmfd, LockTupleMode *lockmode, MtpUpdateIndexes *update_indexes)
{
	TM_Result	result;

	mtp_batch_before_unique(RelationGetRelid(rel), InvalidOid);
	result = heap->tuple_update(rel, otid, slot, cid, snapshot, crosscheck, wait, tmfd, lockmode,
								update_indexes);
	if (result == TM_Ok)
	{
		take_frames(rel, &slot->tts_tid, true);
		if (MtpPairOf(ItemPointerGetBlockNumber(otid)) !=
			MtpPairOf(ItemPointerGetBlockNumber(&slot->tts_tid)))
			take_frames(rel, otid, false);
		if (*update_indexes)
			row_comes(rel, slot);
	}
	return result;
}

/* The file stays, and its pages begin anew. */
static void
relation_nontransactional_truncate(Relation rel)
{
	heap->relation_nontransactional_truncate(rel);
	mtp_buffer_purge_file(MtpRelLocator(rel));
}

/*
 * A truncated page comes back only by insertions, which take frames away.  This takes the frames
 * of the truncated pages, so that they do not lie there for nothing.
 */
static void
relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy strategy)
{
	BlockNumber before = RelationGetNumberOfBlocks(rel);

	heap->relation_vacuum(rel, params, strategy);
	if (mtp_buffer.policy != NULL && RelationGetNumberOfBlocks(rel) < before)
		mtp_buffer_purge_file(MtpRelLocator(rel));
}

void
mtp_table_write_init(TableAmRoutine *routine)
{
	heap = GetHeapamTableAmRoutine();
	routine->tuple_insert = tuple_insert;
	routine->tuple_insert_speculative = tuple_insert_speculative;
	routine->tuple_complete_speculative = tuple_complete_speculative;
	routine->multi_insert = multi_insert;
	routine->tuple_delete = tuple_delete;
	routine->tuple_update = tuple_update;
	routine->relation_nontransactional_truncate = relation_nontransactional_truncate;
	routine->relation_vacuum = relation_vacuum;
}
