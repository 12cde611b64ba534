/*
 * redo.c
 *	  Replays and describes the B-link tree's WAL records.
 *
 * Queries run beside this on a hot standby.  So redo takes all pages' locks before it changes the
 * first, and drops them after the last, in the order of the primary: a reader, which holds one lock
 * at a time, sees the tree before a change or after it.  README.md, "VACUUM and scans" and "Page
 * deletion", says what queries may meet.
 */
#include "blink/blink.h"

#include "access/transam.h"
#include "access/xlogutils.h"
#include "blink/wal_records.h"
#include "index/dead.h"
#include "index/vacuum.h"
#include "storage/standby.h"
#include "utils/memutils.h"

/* The number of blocks of a record. */
static int
block_count(XLogReaderState *record)
{
	return XLogRecMaxBlockId(record) + 1;
}

/* Clears MTP_INCOMPLETE on the record's blocks from `first` on; keeps them locked in bufs. */
static void
redo_children(XLogReaderState *record, int first, Buffer *bufs)
{
	for (int i = first; i < block_count(record); i++)
	{
		if (XLogReadBufferForRedo(record, i, &bufs[i]) != BLK_NEEDS_REDO)
			continue;
		MtpHeader(BufferGetPage(bufs[i]))->flags &= ~MTP_INCOMPLETE;
		PageSetLSN(BufferGetPage(bufs[i]), record->EndRecPtr);
		MarkBufferDirty(bufs[i]);
	}
}

/* The image is what the primary made of the same page. */
static void
redo_merge(Page page, int n, const uint16 *pos, const IndexTuple *items, const uint8 *same)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower merge",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Page		image = mtp_page_merge(page, n, pos, items, same);

	if (image == NULL)
		elog(PANIC, "items do not fit on an mtpower index page");
	memcpy(page, image, BLCKSZ);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* Puts a TID in the list before its place, with the plain entries there. */
static void
redo_splice(Page page, const char *data)
{
	MtpWalSplice rec;
	IndexTuple	made[2];
	int			first;
	int			n;

	memcpy(&rec, data, sizeof(rec));
	first = rec.pos - rec.nold;
	n = mtp_page_join(page, first, rec.nold, &rec.tid, made);
	if (n == 0)
		elog(PANIC, "list on an mtpower index page does not take a row");
	mtp_page_replace(page, first, rec.nold, n, made,
					 mtp_norm_tuple(MtpHeader(page)->norm, made[0]));
	for (int i = 0; i < n; i++)
		pfree(made[i]);
}

/*
 * Puts the record's items on the page, and merges equal keys if it says so.  The record has
 * positions and tuples; the norms are computed from the tuples again, since the page knows their
 * kind.
 */
static void
redo_items(Page page, const MtpWalInsert *rec, const char *data, Size len)
{
	bool		merges = (rec->nitems & MTP_INSERT_MERGES) != 0;
	int			n = rec->nitems & MTP_INSERT_ITEMS;
	Size		nsame = merges ? MTP_SAME_BYTES(MtpHeader(page)->nitems + n) : 0;
	uint8	   *same = palloc(nsame);
	uint16	   *pos = palloc(n * sizeof(uint16));
	IndexTuple *items = palloc(n * sizeof(IndexTuple));
	uint64	   *norms = palloc(n * sizeof(uint64));
	char	   *copy = palloc(len);

	/* A block's data has no alignment of its own, and the items need theirs. */
	memcpy(pos, data, n * sizeof(uint16));
	memcpy(same, data + n * sizeof(uint16), nsame);
	memcpy(copy, data + n * sizeof(uint16) + nsame, len - n * sizeof(uint16) - nsame);
	for (int i = 0, at = 0; i < n; i++)
	{
		items[i] = (IndexTuple) (copy + at);
		if (!merges)
			norms[i] = mtp_norm_tuple(MtpHeader(page)->norm, items[i]);
		at += mtp_body_size(MtpHeader(page)->norm, items[i]);
	}
	if (merges)
		redo_merge(page, n, pos, items, same);
	else
		mtp_page_insert(page, n, pos, items, norms);
	pfree(same);
	pfree(pos);
	pfree(items);
	pfree(norms);
	pfree(copy);
}

static void
redo_insert(XLogReaderState *record)
{
	MtpWalInsert *rec = (MtpWalInsert *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	/*
	 * Children come first: on the primary they are locked before their parent.  All stay locked to
	 * the end, so a query sees the downlinks together with the cleared flags (invariant B4).
	 */
	redo_children(record, 1, bufs);
	if (XLogReadBufferForRedo(record, 0, &bufs[0]) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(bufs[0]);
		Size		len;
		char	   *data = XLogRecGetBlockData(record, 0, &len);

		if (rec->nitems & MTP_INSERT_SPLICES)
			redo_splice(page, data);
		else
			redo_items(page, rec, data, len);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(bufs[0]);
	}
	mtp_redo_release(bufs, block_count(record));
}

/* Makes a page of its header and bodies (see wal_records.h). */
static void
redo_page(XLogReaderState *record, int block, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	Size		len;
	char	   *data = XLogRecGetBlockData(record, block, &len);
	MtpPageHeader h;
	char	   *bodies;
	IndexTuple *items;
	MtpItemRoom *rooms;
	uint8	   *narrow;
	IndexTuple	high = NULL;
	int			n;
	Size		at = 0;

	memcpy(&h, data, sizeof(h));
	len -= sizeof(h);
	bodies = palloc(Max(len, 1));
	memcpy(bodies, data + sizeof(h), len);
	items = palloc(Max(h.nitems, 1) * sizeof(IndexTuple));
	rooms = palloc(Max(h.nitems, 1) * sizeof(MtpItemRoom));
	for (n = h.nitems; n > 0;)
	{
		items[--n] = (IndexTuple) (bodies + at);
		at += mtp_body_size(h.norm, items[n]);
	}
	if (h.highkey != 0)
	{
		high = (IndexTuple) (bodies + at);
		at += mtp_body_size(h.norm, high);
	}
	narrow = (uint8 *) bodies + at;
	if (h.norm & MTP_NORM_CUT)
		at += MTP_SAME_BYTES(h.nitems);
	for (; n < h.nitems && (h.norm & MTP_NORM_CUT); n++)
	{
		uint32		head;

		if (!MTP_SAME_BIT(narrow, n))
			continue;
		memcpy(&head, bodies + at, sizeof(head));
		at += sizeof(head);
		items[n] = mtp_body_widen(h.norm, mtp_page_narrow_norm(&h, head), items[n], &rooms[n]);
	}

	mtp_page_init(page, h.type, h.level, h.norm);
	MtpHeader(page)->flags = h.flags;
	MtpHeader(page)->left = h.left;
	MtpHeader(page)->right = h.right;
	MtpHeader(page)->cycleid = h.cycleid;
	if (h.nitems > 0)
		mtp_page_pack(page, h.nitems, items, high);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	pfree(bodies);
	pfree(items);
	pfree(rooms);
}

/* Makes the left page of a split of what it was (MtpWalSplit). */
static void
redo_left(XLogReaderState *record, Buffer buf, BlockNumber right)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower split",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Page		page = BufferGetPage(buf);
	Size		len;
	char	   *data = XLogRecGetBlockData(record, 0, &len);
	MtpWalLeft	left;
	uint16	   *pos;
	uint8	   *same;
	char	   *copy;
	IndexTuple *items;
	IndexTuple	high = NULL;
	Page		image;

	memcpy(&left, data, sizeof(left));
	data += sizeof(left);
	len -= sizeof(left);
	pos = memcpy(palloc(left.nnew * sizeof(uint16) + 1), data, left.nnew * sizeof(uint16));
	data += left.nnew * sizeof(uint16);
	len -= left.nnew * sizeof(uint16);
	same = (uint8 *) data;
	data += MTP_SAME_BYTES(left.nold + left.nnew);
	len -= MTP_SAME_BYTES(left.nold + left.nnew);

	/* A block's data has no alignment of its own, and tuples need theirs. */
	copy = memcpy(palloc(len + 1), data, len);
	if (left.has_high)
	{
		high = (IndexTuple) copy;
		copy += MAXALIGN(IndexTupleSize(high));
	}
	items = palloc((left.nnew + 1) * sizeof(IndexTuple));
	for (int i = 0; i < left.nnew; i++)
	{
		items[i] = (IndexTuple) copy;
		copy += mtp_body_size(left.norm, items[i]);
	}
	image = mtp_page_left(page, left.norm, left.nold, left.nnew, pos, items, same, left.count,
						  high);
	if (image == NULL)
		elog(PANIC, "left page of a split of an mtpower index is not what it was");
	MtpHeader(image)->right = right;
	MtpHeader(image)->flags = left.flags;
	MtpHeader(image)->cycleid = left.cycleid;
	memcpy(page, image, BLCKSZ);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * The new pages are whole in the record.  The left page is made of what it was; all that replay
 * changes on the right sibling is its left link.
 */
static void
redo_split(XLogReaderState *record)
{
	MtpWalSplit *rec = (MtpWalSplit *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};
	int			next = rec->k + (rec->has_right ? 1 : 0);
	bool		left;

	redo_children(record, next, bufs);
	left = XLogReadBufferForRedo(record, 0, &bufs[0]) == BLK_NEEDS_REDO;
	for (int i = 1; i < rec->k; i++)
		bufs[i] = XLogInitBufferForRedo(record, i);
	if (rec->has_right && XLogReadBufferForRedo(record, rec->k, &bufs[rec->k]) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(bufs[rec->k]);

		MtpHeader(page)->left = BufferGetBlockNumber(bufs[rec->k - 1]);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(bufs[rec->k]);
	}

	/* As on the primary, from right to left: no page leads to one that is not there yet (B3). */
	for (int i = rec->k - 1; i > 0; i--)
		redo_page(record, i, bufs[i]);
	if (left)
		redo_left(record, bufs[0], rec->k > 1 ? mtp_redo_block(record, 1) :
				  MtpHeader(BufferGetPage(bufs[0]))->right);
	mtp_redo_release(bufs, block_count(record));
}

static void
redo_newroot(XLogReaderState *record)
{
	MtpWalNewRoot *rec = (MtpWalNewRoot *) XLogRecGetData(record);
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1] = {0};

	redo_children(record, 2, bufs);

	/* Both stay locked until both are written: no query goes to a root that is not there yet. */
	bufs[0] = XLogInitBufferForRedo(record, 0);
	bufs[1] = XLogInitBufferForRedo(record, 1);
	redo_page(record, 1, bufs[1]);
	mtp_blink_meta_init(BufferGetPage(bufs[0]), rec->root, rec->level, rec->marks);
	PageSetLSN(BufferGetPage(bufs[0]), record->EndRecPtr);
	MarkBufferDirty(bufs[0]);
	mtp_redo_release(bufs, block_count(record));
}

static void
redo_delete(XLogReaderState *record)
{
	mtp_dead_redo(record, mtp_page_delete);
}

static void
redo_vacuum(XLogReaderState *record)
{
	MtpWalVacuum *rec = (MtpWalVacuum *) XLogRecGetData(record);
	Buffer		buf;

	/* Without a block the record names leaves that VACUUM passed without a change. */
	if (!XLogRecHasBlockRef(record, 0))
	{
		mtp_wal_redo_passed(record);
		return;
	}

	/* A leaf is changed under a cleanup lock, as on the primary (invariant B10). */
	if (XLogReadBufferForRedoExtended(record, 0, RBM_NORMAL, rec->nitems > 0, &buf) ==
		BLK_NEEDS_REDO)
	{
		mtp_dead_redo_page(record, 0, buf, rec->nitems, mtp_page_delete);
		MtpHeader(BufferGetPage(buf))->cycleid = 0;
	}
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

static FullTransactionId
later(FullTransactionId a, FullTransactionId b)
{
	return FullTransactionIdPrecedes(a, b) ? b : a;
}

/*
 * Blocks: for each level from the leaf up, left sibling (if any), page, right sibling; the parent.
 * A query that stands on a page that goes has its links, and its safexid keeps it (invariant B13).
 *
 * Here the links could be read until now: longer than on the primary, where an xid that is not
 * before the record's safexid may have ended between that moment and this record.  So the page gets
 * the safexid of this moment.
 */
static void
redo_unlink(XLogReaderState *record)
{
	MtpWalUnlink *rec = (MtpWalUnlink *) XLogRecGetData(record);
	FullTransactionId safexid = later(rec->safexid, ReadNextFullTransactionId());
	Buffer		bufs[XLR_MAX_BLOCK_ID + 1];
	int			n = 0;
	BlockNumber right = InvalidBlockNumber;

	for (int level = 0; level < rec->levels; level++)
	{
		bool		has_left = (rec->lefts & (1U << level)) != 0;
		BlockNumber left = has_left ? mtp_redo_block(record, n) : InvalidBlockNumber;
		int			at = n + (has_left ? 1 : 0);

		right = mtp_redo_block(record, at + 1);

		/* Left, page, right: the primary's order of locks.  The page needs no old state. */
		if (has_left && XLogReadBufferForRedo(record, n, &bufs[n]) == BLK_NEEDS_REDO)
		{
			MtpHeader(BufferGetPage(bufs[n]))->right = right;
			PageSetLSN(BufferGetPage(bufs[n]), record->EndRecPtr);
			MarkBufferDirty(bufs[n]);
		}
		bufs[at] = XLogInitBufferForRedo(record, at);
		mtp_blink_mark_deleted(BufferGetPage(bufs[at]), level, left, right, safexid);
		PageSetLSN(BufferGetPage(bufs[at]), record->EndRecPtr);
		MarkBufferDirty(bufs[at]);
		if (XLogReadBufferForRedo(record, at + 1, &bufs[at + 1]) == BLK_NEEDS_REDO)
		{
			MtpHeader(BufferGetPage(bufs[at + 1]))->left = left;
			PageSetLSN(BufferGetPage(bufs[at + 1]), record->EndRecPtr);
			MarkBufferDirty(bufs[at + 1]);
		}
		n = at + 2;
	}

	/* The parent's own LSN decides: a second replay must not take another downlink away. */
	if (XLogReadBufferForRedo(record, n, &bufs[n]) == BLK_NEEDS_REDO)
	{
		mtp_blink_drop_downlink(BufferGetPage(bufs[n]), rec->pos, right);
		PageSetLSN(BufferGetPage(bufs[n]), record->EndRecPtr);
		MarkBufferDirty(bufs[n]);
	}
	mtp_redo_release(bufs, n + 1);
}

/*
 * Nothing is changed here: queries with snapshots as old as the page's deletion was replayed are
 * cancelled.  The page tells that, if it is still the deleted one.
 */
static void
redo_reuse(XLogReaderState *record)
{
	MtpWalReuse *rec = (MtpWalReuse *) XLogRecGetData(record);
	FullTransactionId safexid = rec->safexid;
	Buffer		buf;

	if (!InHotStandby)
		return;
	buf = XLogReadBufferExtended(rec->locator, MAIN_FORKNUM, rec->block, RBM_NORMAL_NO_LOG,
								 InvalidBuffer);
	if (BufferIsValid(buf))
	{
		Page		page = BufferGetPage(buf);

		LockBuffer(buf, BUFFER_LOCK_SHARE);
		if (!PageIsNew(page) && MtpIsDeleted(page))
			safexid = later(safexid, MtpBlinkDeletedOf(page)->safexid);
		UnlockReleaseBuffer(buf);
	}
	MtpResolveSnapshotConflictFullXid(safexid, rec->locator);
}

/* Hides hints, and of a deleted page the safexid, which replay makes of its own. */
static void
mask_page(Page page)
{
	mtp_page_mask(page);
	if (MtpIsDeleted(page))
		MtpBlinkDeletedOf(page)->safexid = InvalidFullTransactionId;
}

static void
desc_insert(StringInfo buf, XLogReaderState *record)
{
	MtpWalInsert *rec = (MtpWalInsert *) XLogRecGetData(record);

	appendStringInfo(buf, "items %u children %d%s", rec->nitems & MTP_INSERT_ITEMS,
					 block_count(record) - 1, (rec->nitems & MTP_INSERT_MERGES) ? " merges" :
					 (rec->nitems & MTP_INSERT_SPLICES) ? " splices" : "");
}

static void
desc_split(StringInfo buf, XLogReaderState *record)
{
	MtpWalSplit *rec = (MtpWalSplit *) XLogRecGetData(record);

	appendStringInfo(buf, "pages %u right %u children %d", rec->k, rec->has_right,
					 block_count(record) - rec->k - rec->has_right);
}

static void
desc_newroot(StringInfo buf, XLogReaderState *record)
{
	MtpWalNewRoot *rec = (MtpWalNewRoot *) XLogRecGetData(record);

	appendStringInfo(buf, "root %u level %u", rec->root, rec->level);
}

static void
desc_vacuum(StringInfo buf, XLogReaderState *record)
{
	if (XLogRecHasBlockRef(record, 0))
		appendStringInfo(buf, "items %u", ((MtpWalVacuum *) XLogRecGetData(record))->nitems);
	else
		mtp_wal_desc_passed(buf, record);
}

static void
desc_unlink(StringInfo buf, XLogReaderState *record)
{
	MtpWalUnlink *rec = (MtpWalUnlink *) XLogRecGetData(record);

	appendStringInfo(buf, "levels %u pos %u safexid %u:%u", rec->levels, rec->pos,
					 EpochFromFullTransactionId(rec->safexid),
					 XidFromFullTransactionId(rec->safexid));
}

static void
desc_reuse(StringInfo buf, XLogReaderState *record)
{
	MtpWalReuse *rec = (MtpWalReuse *) XLogRecGetData(record);

	appendStringInfo(buf, "block %u safexid %u:%u", rec->block,
					 EpochFromFullTransactionId(rec->safexid),
					 XidFromFullTransactionId(rec->safexid));
}

void
mtp_blink_redo_init(void)
{
	static const MtpWalRecord records[] = {
		{"BLINK_INSERT", redo_insert, desc_insert},
		{"BLINK_SPLIT", redo_split, desc_split},
		{"BLINK_NEWROOT", redo_newroot, desc_newroot},
		{"BLINK_DELETE", redo_delete, mtp_dead_desc},
		{"BLINK_VACUUM", redo_vacuum, desc_vacuum},
		{"BLINK_UNLINK", redo_unlink, desc_unlink}
	};
	static const MtpWalRecord reuse = {"BLINK_REUSE", redo_reuse, desc_reuse};

	/* The records' ids follow one another: wal.h. */
	StaticAssertStmt(MTP_WAL_UNLINK == (lengthof(records) - 1) << 4, "a record for each id");
	mtp_wal_mask(0, mask_page);
	for (int i = 0; i < lengthof(records); i++)
		mtp_wal_record(i << 4, &records[i]);
	mtp_wal_record_of_kind(MTP_WAL_REUSE, &reuse);
}
