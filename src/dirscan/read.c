/*
 * read.c
 *	  Reads a table's blocks, forward and backward, and the rows of each in the order of their
 *	  line pointers.
 *
 * The scan keeps its own position, which does not depend on how a block was read.  A cursor may go
 * back to a block that a directory has answered and find it read as a whole, or the other way
 * round.
 */
#include "dirscan/dirscan.h"

#include "access/syncscan.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "pagedir/request.h"
#include "core/inject.h"

void
mtp_dirscan_begin_reading(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	s->at = -1;
	s->nrows = 0;
	s->row = -1;
	s->pair = InvalidBlockNumber;
	if (scan->rs_base.rs_parallel == NULL && s->asks)
		scan->rs_startblock -= scan->rs_startblock % 2;
}

/* Releases the page that the descriptor has pinned. */
static void
leave_page(HeapScanDesc scan)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
	scan->rs_cblock = InvalidBlockNumber;
}

/*
 * Takes the block's rows from the items that its pair's directory named.  Returns false if they
 * are many.
 */
static bool
take_named(MtpDirscanState *s, BlockNumber block)
{
	int			half = block % 2;

	s->nrows = 0;
	for (int item = half * MaxHeapTuplesPerPage; (item = mtp_pagedir_next(&s->items, item)) >= 0 &&
		 MtpItemHalf(item) == half; item++)
	{
		if (s->nrows == MTP_DIRSCAN_FEW)
			return false;
		s->rows[s->nrows++] = MtpItemOffset(item);
	}
	return true;
}

static void
load_block(MtpDirscanState *s, BlockNumber block)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	uint32		pair = block / 2;

	s->block = block;
	if (s->asks)
	{
		bool		again = s->pair == pair;

		if (!again)
		{
			s->answered = mtp_dirscan_ask(s, pair);
			s->pair = pair;
		}
		if (s->answered && take_named(s, block))
		{
			CHECK_FOR_INTERRUPTS();
			leave_page(scan);
			s->named = true;
			s->counts[s->nrows > 0 ? MTP_DIRSCAN_ASKED : MTP_DIRSCAN_SKIPPED]++;
			MTP_INJECT("directory_answered");
			return;
		}
		if (!s->answered && !again)
		{
			/* Building the directory may lock the page, so this holds no pin on it. */
			leave_page(scan);
			mtp_pagedir_request(scan->rs_base.rs_rd, pair);
			s->wants = true;
		}
	}
	mtp_heap_read_page(scan, block);
	s->named = false;
	s->nrows = scan->rs_ntuples;
	s->counts[MTP_DIRSCAN_READ]++;
}

/* Loads the next block.  Returns false if there is none. */
static bool
next_block(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	BlockNumber block;

	if (s->at >= (int64) scan->rs_nblocks)
		return false;
	s->at++;
	if (scan->rs_base.rs_parallel != NULL)
	{
		ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

		if (s->at == 0)
			table_block_parallelscan_startblock_init(scan->rs_base.rs_rd,
													 scan->rs_parallelworkerdata, shared);
		block = table_block_parallelscan_nextpage(scan->rs_base.rs_rd, scan->rs_parallelworkerdata,
												  shared);
	}
	else
	{
		block = scan->rs_nblocks == 0 ? InvalidBlockNumber :
			(scan->rs_startblock + s->at) % scan->rs_nblocks;

		/*
		 * Synchronized scans follow scans that read pages, at the end of the table too, as in
		 * core.
		 */
		if (scan->rs_base.rs_flags & SO_ALLOW_SYNC && s->at > 0 && !s->named)
			ss_report_location(scan->rs_base.rs_rd, block);
		if (s->at == scan->rs_nblocks)
			block = InvalidBlockNumber;
	}
	if (block == InvalidBlockNumber || s->nothing)
	{
		s->at = scan->rs_nblocks;
		return false;
	}
	load_block(s, block);
	return true;
}

static bool
previous_block(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	Assert(scan->rs_base.rs_parallel == NULL);
	scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;
	if (s->at < 0 || --s->at < 0 || s->nothing)
	{
		s->at = -1;
		return false;
	}
	load_block(s, (scan->rs_startblock + s->at) % scan->rs_nblocks);
	return true;
}

/*
 * Puts the row at the position into the slot.  Returns false if the snapshot does not see it
 * (invariant S2).
 */
static inline bool
fetch_row(MtpDirscanState *s, TupleTableSlot *slot)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	HeapTuple	tuple = &scan->rs_ctup;
	Page		page;
	ItemId		item;

	if (s->named)
	{
		ItemPointerData tid;

		/* Another row may have the line pointer by now; the snapshot does not see that one. */
		ItemPointerSet(&tid, s->block, s->rows[s->row]);
		return table_tuple_fetch_row_version(scan->rs_base.rs_rd, &tid, scan->rs_base.rs_snapshot,
											 slot);
	}
	page = BufferGetPage(scan->rs_cbuf);
	MtpTestForOldSnapshot(scan->rs_base.rs_snapshot, scan->rs_base.rs_rd, page);
	ItemPointerSet(&tuple->t_self, s->block, scan->rs_vistuples[s->row]);
	item = PageGetItemId(page, ItemPointerGetOffsetNumber(&tuple->t_self));
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	ExecStoreBufferHeapTuple(tuple, slot, scan->rs_cbuf);
	return true;
}

TupleTableSlot *
mtp_dirscan_next(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	TupleTableSlot *slot = s->css.ss.ss_ScanTupleSlot;
	ScanDirection direction = s->css.ss.ps.state->es_direction;
	int			step = ScanDirectionIsBackward(direction) ? -1 : 1;

	/* Core reads row by row under snapshots that are not MVCC, and then so does this scan. */
	if (unlikely((scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0))
		return table_scan_getnextslot(&scan->rs_base, direction, slot) ? slot : NULL;
	for (;;)
	{
		s->row += step;
		if (s->row >= 0 && s->row < s->nrows)
		{
			if (fetch_row(s, slot))
			{
				pgstat_count_heap_getnext(scan->rs_base.rs_rd);
				return slot;
			}
			continue;
		}
		if (!(step > 0 ? next_block(s) : previous_block(s)))
			break;
		s->row = step > 0 ? -1 : s->nrows;
	}
	s->nrows = 0;
	s->row = -1;
	leave_page(scan);
	ExecClearTuple(slot);
	return NULL;
}
