/*
 * fetch.c
 *	  Fetches a row that an index names: from the image of its pair if all rows of its page are
 *	  visible to all, else as heap does.
 *
 * An image is right for snapshots that are older than the look into the buffer
 * (src/buffer/README.md): a writer that deletes or updates a row takes the pair's image away
 * before it can commit.  If a page was all-visible when it was copied, all its rows are visible to
 * such a snapshot.  The row is that of the line pointer, or of the one that it redirects to, and
 * has no other version.
 */
#include "core/core.h"

#include "access/heapam.h"
#include "access/relscan.h"

#include "buffer/pair.h"
#include "table/table.h"
#include "core/inject.h"

/* Heap's own struct comes first, since heap's functions are called with it. */
typedef struct MtpFetch
{
	IndexFetchHeapData heap;
	bool		serves;
	bool		has_ref;		/* true if ref is the frame of pair */
	uint32		pair;
	MtpFrameRef ref;
} MtpFetch;

static IndexFetchTableData *
index_fetch_begin(Relation rel)
{
	MtpFetch   *f = palloc0(sizeof(MtpFetch));

	f->heap.xs_base.rel = rel;
	f->heap.xs_cbuf = InvalidBuffer;
	f->serves = mtp_pair_serves(rel);
	return &f->heap.xs_base;
}

/*
 * Reads a row's line pointer in memory that may change.  Reads each word once and bounds it by the
 * page.
 */
static bool
read_line_pointer(const char *page, OffsetNumber offset, ItemIdData *lp)
{
	const volatile PageHeaderData *header = (const volatile PageHeaderData *) page;
	uint16		lower = header->pd_lower;
	uint32		word;

	if (lower < SizeOfPageHeaderData || lower > BLCKSZ || offset == InvalidOffsetNumber ||
		offset > (lower - SizeOfPageHeaderData) / sizeof(ItemIdData))
		return false;
	word = *(const volatile uint32 *) &header->pd_linp[offset - 1];
	memcpy(lp, &word, sizeof(ItemIdData));
	return true;
}

/* Finds a row's bytes in an image.  Sets *offset to that of the version itself. */
static bool
find_row(const char *page, OffsetNumber *offset, ItemIdData *lp)
{
	if ((((const volatile PageHeaderData *) page)->pd_flags & PD_ALL_VISIBLE) == 0 ||
		!read_line_pointer(page, *offset, lp))
		return false;
	if (ItemIdIsRedirected(lp))
	{
		*offset = ItemIdGetRedirect(lp);
		if (!read_line_pointer(page, *offset, lp))
			return false;
	}
	return ItemIdIsNormal(lp) && ItemIdGetLength(lp) >= SizeofHeapTupleHeader &&
		ItemIdGetOffset(lp) + ItemIdGetLength(lp) <= BLCKSZ;
}

static bool
fetch_from_frame(MtpFetch *f, ItemPointer tid, TupleTableSlot *slot)
{
	Relation	rel = f->heap.xs_base.rel;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);
	Size		half = MtpPairHalf(block) * BLCKSZ;
	const char *page;
	ItemIdData	lp;
	HeapTuple	row;

	if (f->has_ref && f->pair == MtpPairOf(block) && mtp_frame_still(&mtp_buffer, &f->ref))
		pg_read_barrier();		/* reads the version before what it protects */
	else
	{
		f->pair = MtpPairOf(block);
		f->has_ref = mtp_pair_find(rel, f->pair, MTP_FRAME_TABLE, half,
								   half + SizeOfPageHeaderData + offset * sizeof(ItemIdData),
								   &f->ref);
		if (!f->has_ref)
			return false;
	}
	page = f->ref.image + half;
	MTP_INJECT("image_found");
	if (!find_row(page, &offset, &lp))
		return false;
	row = MemoryContextAlloc(slot->tts_mcxt, HEAPTUPLESIZE + ItemIdGetLength(&lp));
	row->t_len = ItemIdGetLength(&lp);
	ItemPointerSet(&row->t_self, block, offset);
	row->t_tableOid = RelationGetRelid(rel);
	row->t_data = (HeapTupleHeader) ((char *) row + HEAPTUPLESIZE);
	memcpy(row->t_data, page + ItemIdGetOffset(&lp), row->t_len);

	/*
	 * Another process may have filled the frame anew while this copied (src/buffer, invariant F1).
	 * Then the copy is of no page, and heap reads the row.
	 */
	if (!mtp_frame_still(&mtp_buffer, &f->ref))
	{
		mtp_buffer_torn(MTP_FRAME_TABLE);
		f->has_ref = false;
		pfree(row);
		return false;
	}

	/*
	 * No chain begins with a heap-only row: the entry belongs to a row that is gone, and heap
	 * finds nothing.
	 */
	if (offset == ItemPointerGetOffsetNumber(tid) && HeapTupleHeaderIsHeapOnly(row->t_data))
	{
		pfree(row);
		return false;
	}
	mtp_buffer_hit(rel, MTP_FRAME_TABLE);

	/* Gives the copy to the slot, as ExecForceStoreHeapTuple does, with one copy less. */
	ExecClearTuple(slot);
	((BufferHeapTupleTableSlot *) slot)->base.tuple = row;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_flags |= TTS_FLAG_SHOULDFREE;
	slot->tts_tid = row->t_self;
	slot->tts_tableOid = row->t_tableOid;
	*tid = row->t_self;
	return true;
}

static bool
index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
				  TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	MtpFetch   *f = (MtpFetch *) scan;
	bool		serves = f->serves && !*call_again && mtp_pair_serves_snapshot(snapshot);
	bool		found;

	if (serves && fetch_from_frame(f, tid, slot))
	{
		if (all_dead)
			*all_dead = false;
		return true;
	}
	found = GetHeapamTableAmRoutine()->index_fetch_tuple(scan, tid, snapshot, slot, call_again,
														 all_dead);
	if (serves && found)
		mtp_pair_offer(f->heap.xs_base.rel, f->heap.xs_cbuf);
	return found;
}

/*
 * A slot that was filled from a frame has no buffer, and its contents may be older than the row's
 * page.  So this asks the page.
 */
static bool
tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	const TableAmRoutine *heap = GetHeapamTableAmRoutine();
	TupleTableSlot *fresh;
	bool		result;

	if (BufferIsValid(((BufferHeapTupleTableSlot *) slot)->buffer))
		return heap->tuple_satisfies_snapshot(rel, slot, snapshot);
	fresh = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsBufferHeapTuple);
	result = heap->tuple_fetch_row_version(rel, &slot->tts_tid, snapshot, fresh);
	ExecDropSingleTupleTableSlot(fresh);
	return result;
}

void
mtp_table_fetch_init(TableAmRoutine *routine)
{
	routine->index_fetch_begin = index_fetch_begin;
	routine->index_fetch_tuple = index_fetch_tuple;
	routine->tuple_satisfies_snapshot = tuple_satisfies_snapshot;
}
