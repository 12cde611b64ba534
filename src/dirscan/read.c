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

void
mtp_dirscan_end_reading(MtpDirscanState *s)
{
	if (s->ahead.streaming)
		mtp_blocks_end(&s->ahead.stream);
	s->ahead.active = s->ahead.streaming = false;
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
 * Takes the block's rows from the items that its pair's directory named; returns how many, or
 * MTP_DIRSCAN_MANY.
 */
static int
take_named(MtpDirscanState *s, BlockNumber block)
{
	int			half = block % 2;
	int			n = 0;

	for (int item = half * MaxHeapTuplesPerPage; (item = mtp_pagedir_next(&s->items, item)) >= 0 &&
		 MtpItemHalf(item) == half; item++)
	{
		if (n == MTP_DIRSCAN_FEW)
			return MTP_DIRSCAN_MANY;
		s->rows[n++] = MtpItemOffset(item);
	}
	return n;
}

/*
 * Asks the directory of the block's pair, or for one if there is none.  Returns how many rows it
 * names, in s->rows; MTP_DIRSCAN_MANY if the block must be read as a whole.
 */
static int
name_rows(MtpDirscanState *s, BlockNumber block)
{
	uint32		pair = block / 2;

	if (!s->asks)
		return MTP_DIRSCAN_MANY;
	if (s->pair != pair)
	{
		s->answered = mtp_dirscan_ask(s, pair);
		s->pair = pair;
		if (!s->answered)
		{
			mtp_pagedir_request(s->css.ss.ss_currentRelation, pair);
			s->wants = true;
		}
	}
	return s->answered ? take_named(s, block) : MTP_DIRSCAN_MANY;
}

/* ---------- forward ---------- */

/* The next block, InvalidBlockNumber behind the last.  The scan reads ahead, up to ahead.at. */
static BlockNumber
block_ahead(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	s->ahead.at++;
	if (scan->rs_base.rs_parallel != NULL)
	{
		ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;
		BlockNumber block;

		if (s->ahead.at == 0)
			table_block_parallelscan_startblock_init(scan->rs_base.rs_rd,
													 scan->rs_parallelworkerdata, shared);
		do
		{
			CHECK_FOR_INTERRUPTS();
			block = table_block_parallelscan_nextpage(scan->rs_base.rs_rd,
													  scan->rs_parallelworkerdata, shared);
		} while (block != InvalidBlockNumber && s->zones.index != NULL &&
				 mtp_dirscan_found_from(s, block) != block);
		return block;
	}
	if (s->zones.index != NULL)
		s->ahead.at = mtp_dirscan_found_from(s, s->ahead.at);
	return s->ahead.at >= scan->rs_nblocks ? InvalidBlockNumber :
		(scan->rs_startblock + s->ahead.at) % scan->rs_nblocks;
}

/*
 * Synchronized scans follow scans that read pages, at the end of the table too, as in core: tells
 * them where this one is.
 */
static void
report_ahead(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	if ((scan->rs_base.rs_flags & SO_ALLOW_SYNC) && scan->rs_base.rs_parallel == NULL &&
		s->ahead.at > 0)
		ss_report_location(scan->rs_base.rs_rd,
						   (scan->rs_startblock + s->ahead.at) % scan->rs_nblocks);
}

/*
 * The stream's next block: it must be read.  InvalidBlockNumber behind the last block, and before
 * one with named rows (ahead.nrows), which the scan gets when it has read what is before it.
 */
static BlockNumber
next_to_read(void *arg)
{
	MtpDirscanState *s = arg;
	BlockNumber block = InvalidBlockNumber;

	Assert(s->ahead.nrows == 0);
	while (!s->nothing && (block = block_ahead(s)) != InvalidBlockNumber)
	{
		int			n = name_rows(s, block);

		/* What directories answer in between tells followers nothing. */
		if (s->ahead.reading)
			report_ahead(s);
		s->ahead.reading = n == MTP_DIRSCAN_MANY;
		if (s->ahead.reading)
			return block;
		CHECK_FOR_INTERRUPTS();
		MTP_INJECT("directory_answered");
		if (n > 0)
		{
			s->ahead.block = block;
			s->ahead.nrows = n;
			return InvalidBlockNumber;
		}
		s->counts[MTP_DIRSCAN_SKIPPED]++;
	}
	if (s->ahead.reading && !s->nothing)
		report_ahead(s);
	s->ahead.reading = false;
	return InvalidBlockNumber;
}

static BlockNumber
feed_stream(void *arg)
{
	MtpDirscanState *s = arg;
	BlockNumber first = s->ahead.first;

	s->ahead.first = InvalidBlockNumber;
	return first != InvalidBlockNumber ? first : next_to_read(s);
}

/*
 * Reads ahead, from the scan's position if it is not doing so.  A scan gets a stream when there is
 * a block to read: a look-up that a directory answers does without.
 */
static void
go_ahead(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	MemoryContext old;

	if (!s->ahead.active)
	{
		s->ahead.at = s->at;
		s->ahead.nrows = 0;
		s->ahead.reading = false;
		s->ahead.active = true;
	}
	if (s->ahead.streaming || (s->ahead.first = next_to_read(s)) == InvalidBlockNumber)
		return;
	old = MemoryContextSwitchTo(s->css.ss.ps.state->es_query_cxt);
	s->ahead.streaming = true;
	mtp_blocks_begin(&s->ahead.stream, s->zones.index != NULL ? MTP_BLOCKS_SOME : MTP_BLOCKS_SCAN,
					 scan->rs_base.rs_rd, scan->rs_strategy, feed_stream, s);
	MemoryContextSwitchTo(old);
}

/* Loads the next block.  Returns false if there is none. */
static bool
next_block(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	if (s->at >= (int64) scan->rs_nblocks)
		return false;
	go_ahead(s);
	if (s->ahead.streaming && mtp_heap_read_next(scan, &s->ahead.stream))
	{
		s->block = scan->rs_cblock;
		s->named = false;
		s->nrows = scan->rs_ntuples;
		s->counts[MTP_DIRSCAN_READ]++;
	}
	else if (s->ahead.nrows > 0)
	{
		leave_page(scan);
		s->block = s->ahead.block;
		s->named = true;
		s->nrows = s->ahead.nrows;
		s->ahead.nrows = 0;
		s->counts[MTP_DIRSCAN_ASKED]++;
		if (s->ahead.streaming)
			mtp_blocks_go_on(&s->ahead.stream);
	}
	else
	{
		mtp_dirscan_end_reading(s);
		s->at = scan->rs_nblocks;
		return false;
	}
	s->at = scan->rs_base.rs_parallel != NULL ? 0 :
		(s->block + (int64) scan->rs_nblocks - scan->rs_startblock) % scan->rs_nblocks;
	return true;
}

/* ---------- backward ---------- */

static void
load_block(MtpDirscanState *s, BlockNumber block)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	s->block = block;
	s->nrows = name_rows(s, block);
	s->named = s->nrows != MTP_DIRSCAN_MANY;
	if (s->named)
	{
		CHECK_FOR_INTERRUPTS();
		leave_page(scan);
		s->counts[s->nrows > 0 ? MTP_DIRSCAN_ASKED : MTP_DIRSCAN_SKIPPED]++;
		MTP_INJECT("directory_answered");
		return;
	}
	mtp_heap_read_page(scan, block);
	s->nrows = scan->rs_ntuples;
	s->counts[MTP_DIRSCAN_READ]++;
}

/* What was read ahead is left: the way forward begins anew. */
static bool
previous_block(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;

	Assert(scan->rs_base.rs_parallel == NULL);
	mtp_dirscan_end_reading(s);
	scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;
	if (s->at >= 0)
		s->at = s->zones.index != NULL ? mtp_dirscan_found_to(s, s->at - 1) : s->at - 1;
	if (s->at < 0 || s->nothing)
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
