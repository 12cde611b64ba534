/*
 * redo.c
 *	  Replays and describes the records that change core's btree pages.
 *
 * Queries run beside this on a hot standby, so all pages of a record stay locked until the last is
 * changed, as on the primary.
 */
#include "btree/btree.h"

#include "access/xlogutils.h"
#include "btree/leaf.h"
#include "btree/wal_records.h"
#include "wal/wal.h"

/* A block's data, aligned as tuples need it; palloc'd. */
static char *
block_data(XLogReaderState *record, int block, Size skip, Size *len)
{
	char	   *data = XLogRecGetBlockData(record, block, len);
	char	   *copy;

	*len -= skip;
	copy = palloc(Max(*len, 1));
	memcpy(copy, data + skip, *len);
	return copy;
}

static void
changed(XLogReaderState *record, Buffer buf)
{
	PageSetLSN(BufferGetPage(buf), record->EndRecPtr);
	MarkBufferDirty(buf);
}

static void
redo_insert(XLogReaderState *record)
{
	MtpWalBtreeInsert *rec = (MtpWalBtreeInsert *) XLogRecGetData(record);
	Buffer		buf;

	if (XLogReadBufferForRedo(record, 0, &buf) == BLK_NEEDS_REDO)
	{
		Size		places = rec->n * sizeof(OffsetNumber);
		OffsetNumber *at = palloc(places);
		Size		len;
		char	   *tuples = block_data(record, 0, places, &len);

		memcpy(at, XLogRecGetBlockData(record, 0, NULL), places);
		mtp_btree_page_insert(BufferGetPage(buf), rec->n, at, tuples, len);
		changed(record, buf);
		pfree(at);
		pfree(tuples);
	}
	mtp_redo_release(&buf, 1);
}

static void
redo_leaf(XLogReaderState *record, MtpWalBtreeSplit *rec, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	PGAlignedBlock fresh;
	Size		bytes = rec->nsegments * sizeof(MtpBtreeSegment);
	MtpBtreeSegment *segments = palloc(bytes);
	Size		len;
	char	   *tuples = block_data(record, 0, bytes, &len);

	memcpy(segments, XLogRecGetBlockData(record, 0, NULL), bytes);
	mtp_btree_page_begin(fresh.data, page, rec->k > 1, rec->k > 1);
	mtp_btree_page_rewrite(fresh.data, page, rec->nsegments, segments, tuples);
	if (rec->k > 1)
		BTPageGetOpaque((Page) fresh.data)->btpo_next = mtp_redo_block(record, 1);
	memcpy(page, fresh.data, BLCKSZ);
	changed(record, buf);
	pfree(segments);
	pfree(tuples);
}

static void
redo_new_page(XLogReaderState *record, MtpWalBtreeSplit *rec, int block, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	BTPageOpaque opaque;
	bool		last = block == rec->k - 1;
	Size		len;
	char	   *tuples = block_data(record, block, 0, &len);

	_bt_pageinit(page, BLCKSZ);
	opaque = BTPageGetOpaque(page);
	opaque->btpo_prev = mtp_redo_block(record, block - 1);
	opaque->btpo_next = last && !rec->has_right ? P_NONE : mtp_redo_block(record, block + 1);
	opaque->btpo_level = 0;
	opaque->btpo_flags = BTP_LEAF | (last ? 0 : BTP_INCOMPLETE_SPLIT);
	opaque->btpo_cycleid = 0;
	mtp_btree_page_restore(page, tuples, len);
	changed(record, buf);
	pfree(tuples);
}

static void
redo_split(XLogReaderState *record)
{
	MtpWalBtreeSplit *rec = (MtpWalBtreeSplit *) XLogRecGetData(record);
	Buffer		bufs[MTP_LEAF_PAGES + 1];
	int			k = rec->k;

	if (XLogReadBufferForRedo(record, 0, &bufs[0]) == BLK_NEEDS_REDO)
		redo_leaf(record, rec, bufs[0]);
	for (int i = 1; i < k; i++)
	{
		bufs[i] = XLogInitBufferForRedo(record, i);
		redo_new_page(record, rec, i, bufs[i]);
	}
	if (rec->has_right && XLogReadBufferForRedo(record, k, &bufs[k]) == BLK_NEEDS_REDO)
	{
		BTPageGetOpaque(BufferGetPage(bufs[k]))->btpo_prev = mtp_redo_block(record, k - 1);
		changed(record, bufs[k]);
	}
	mtp_redo_release(bufs, k + rec->has_right);
}

static void
desc_insert(StringInfo buf, XLogReaderState *record)
{
	MtpWalBtreeInsert *rec = (MtpWalBtreeInsert *) XLogRecGetData(record);

	appendStringInfo(buf, "items %u", rec->n);
}

static void
desc_split(StringInfo buf, XLogReaderState *record)
{
	MtpWalBtreeSplit *rec = (MtpWalBtreeSplit *) XLogRecGetData(record);

	appendStringInfo(buf, "pages %u segments %u", rec->k, rec->nsegments);
}

void
mtp_btree_redo_init(void)
{
	static const MtpWalRecord insert = {"BTREE_INSERT", redo_insert, desc_insert};
	static const MtpWalRecord split = {"BTREE_SPLIT", redo_split, desc_split};

	mtp_wal_record(MTP_WAL_BTREE_INSERT, &insert);
	mtp_wal_record(MTP_WAL_BTREE_SPLIT, &split);
}
