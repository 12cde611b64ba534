/*
 * sift.c
 *	  Looks at the rows of the few pages that a search has found, for those that match.
 *
 * An executor that gets a page asks each of its rows, a hundred of them for one that is looked for.
 */
#include "zone/sift.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "core/compat.h"
#include "nodes/tidbitmap.h"
#include "utils/snapmgr.h"

/* A column with a clause */
typedef struct Sieve
{
	AttrNumber	attnum;			/* of the table */
	uint8		code;
	const MtpZoneWanted *wanted;
} Sieve;

bool
mtp_zone_can_sift(Relation index)
{
	for (int i = 0; i < mtp_zone_info(index)->natts; i++)
		if (index->rd_index->indkey.values[i] <= 0)
			return false;
	return true;
}

static int
make_sieves(const MtpZoneSearch *search, Sieve *sieves)
{
	int			n = 0;

	for (int i = 0; i < search->info.natts; i++)
	{
		const MtpZoneWanted *w = &search->wanted[i];

		if (!w->value && !w->null)
			continue;
		sieves[n].attnum = search->index->rd_index->indkey.values[i];
		sieves[n].code = search->info.codes[i];
		sieves[n++].wanted = w;
	}
	return n;
}

/* True if a row may match: also one whose value is compressed, or not here. */
static inline bool
passes(HeapTuple row, TupleDesc desc, const Sieve *sieve)
{
	bool		isnull;
	Datum		value = heap_getattr(row, sieve->attnum, desc, &isnull);

	if (isnull)
		return mtp_zone_wants(sieve->wanted, 0, true);
	if (sieve->code == MTP_NORM_BYTES && VARATT_IS_EXTENDED(DatumGetPointer(value)) &&
		!VARATT_IS_SHORT(DatumGetPointer(value)))
		return !sieve->wanted->null;
	return mtp_zone_wants(sieve->wanted, mtp_norm_value(sieve->code, value), false);
}

/*
 * The line pointers, in tids[], of the rows on a locked page that pass; returns how many.  A row
 * that is heap-only stands for its chain's first line pointer, where bitmap scans begin; -1 if a
 * row has none.
 */
static int
sift_page(Page page, BlockNumber block, TupleDesc desc, const Sieve *sieves, int nsieves,
		  ItemPointerData *tids)
{
	OffsetNumber roots[MaxHeapTuplesPerPage];
	bool		has_roots = false;
	int			n = 0;

	for (OffsetNumber off = FirstOffsetNumber; off <= PageGetMaxOffsetNumber(page); off++)
	{
		ItemId		item = PageGetItemId(page, off);
		OffsetNumber first = off;
		HeapTupleData row;
		int			passed = 0;

		if (!ItemIdIsNormal(item))
			continue;
		row.t_data = (HeapTupleHeader) PageGetItem(page, item);
		row.t_len = ItemIdGetLength(item);
		while (passed < nsieves && passes(&row, desc, &sieves[passed]))
			passed++;
		if (passed < nsieves)
			continue;
		if (HeapTupleHeaderIsHeapOnly(row.t_data))
		{
			if (!has_roots)
				heap_get_root_tuples(page, roots);
			has_roots = true;
			first = roots[off - 1];
			if (first == InvalidOffsetNumber)
				return -1;
		}
		ItemPointerSet(&tids[n], block, first);
		n++;
	}
	return n;
}

/* Reads the block that has been looked for, without looking again where it was found. */
static Buffer
read_found(Relation heap, BlockNumber block, Buffer recent)
{
	if (BufferIsValid(recent) &&
		ReadRecentBuffer(MtpRelLocator(heap), MAIN_FORKNUM, block, recent))
		return recent;
	return ReadBuffer(heap, block);
}

int64
mtp_zone_sift(const MtpZoneSearch *search, Relation heap, Snapshot snapshot, TIDBitmap *bitmap)
{
	Sieve		sieves[INDEX_MAX_KEYS];
	int			nsieves = make_sieves(search, sieves);
	BlockNumber blocks[MTP_ZONE_SIFTED];
	Buffer		recent[MTP_ZONE_SIFTED];
	int			nblocks = 0;
	int64		rows = 0;

	/* All pages are on their way before the first one is waited for. */
	for (int i = 0; i < search->nruns; i++)
		for (BlockNumber block = search->runs[i].first; block < search->runs[i].end; block++)
		{
			blocks[nblocks] = block;
			recent[nblocks++] = PrefetchBuffer(heap, MAIN_FORKNUM, block).recent_buffer;
		}
	for (int i = 0; i < nblocks; i++)
	{
		ItemPointerData tids[MaxHeapTuplesPerPage];
		Buffer		buf = read_found(heap, blocks[i], recent[i]);
		int			n;

		LockBuffer(buf, BUFFER_LOCK_SHARE);
		MtpTestForOldSnapshot(snapshot, heap, BufferGetPage(buf));
		n = sift_page(BufferGetPage(buf), blocks[i], RelationGetDescr(heap), sieves, nsieves, tids);
		UnlockReleaseBuffer(buf);
		if (n > 0)
			tbm_add_tuples(bitmap, tids, n, true);
		else if (n < 0)
			tbm_add_page(bitmap, blocks[i]);
		rows += abs(n);
	}
	return rows;
}
