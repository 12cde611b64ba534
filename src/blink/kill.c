/*
 * kill.c
 *	  Makes room on a full leaf from entries whose rows are dead, before it would be split.
 *
 * Two ways, both with the table's help, which has the last word on what is dead and tells the
 * standbys' conflict horizon: entries that scans have marked, and entries that look like old versions
 * of rows (bottom-up deletion, as PostgreSQL 14 introduced it).
 */
#include "blink/blink.h"

#include "access/tableam.h"
#include "access/xlog.h"
#include "blink/wal_deletes.h"

/* Bytes that a bottom-up deletion asks the table for, at least. */
#define BOTTOMUP_ROOM (BLCKSZ / 8)

void
mtp_blink_delete_items(Relation rel, Buffer buf, int n, const uint16 *pos, TransactionId horizon)
{
	MtpWalDelete rec = {.horizon = horizon,.nitems = n};
	MtpChange	c;

	if (!XLogStandbyInfoActive())
		rec.horizon = InvalidTransactionId;
	mtp_change_init(&c, rel, MTP_WAL_DELETE);
	mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_begin(&c);
	/* The vacuum cycle id stays: only VACUUM knows whether it has been here. */
	mtp_page_delete(BufferGetPage(buf), n, pos);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 0, pos, n * sizeof(uint16));
	mtp_change_finish(&c);
}

static TM_IndexDeleteOp *
make_op(Relation rel, Buffer buf)
{
	TM_IndexDeleteOp *op = palloc0(sizeof(TM_IndexDeleteOp));
	int			nitems = MtpHead(BufferGetPage(buf))->nitems;

	op->irel = rel;
	op->iblknum = BufferGetBlockNumber(buf);
	op->deltids = palloc(nitems * sizeof(TM_IndexDelete));
	op->status = palloc0(nitems * sizeof(TM_IndexStatus));
	return op;
}

/* Asks about the item at a rank of the page; returns what the caller may add to the question. */
static TM_IndexStatus *
add_item(TM_IndexDeleteOp *op, int pos, IndexTuple item)
{
	int			id = op->ndeltids++;

	op->deltids[id].tid = item->t_tid;
	op->deltids[id].id = id;
	op->status[id].idxoffnum = pos + 1; /* an OffsetNumber starts from 1 */
	return &op->status[id];
}

static int
compare_ids(const void *a, const void *b)
{
	return ((const TM_IndexDelete *) a)->id - ((const TM_IndexDelete *) b)->id;
}

/*
 * Has the table judge and deletes what it found dead; tells whether anything was.  Frees op.
 */
static bool
run_op(TM_IndexDeleteOp *op, Relation heap, Buffer buf)
{
	TransactionId horizon = table_index_delete_tuples(heap, op);
	uint16		pos[MTP_MAX_ITEMS];
	int			n = 0;

	/* The table has put them into an order of its own; ids are in the page's order. */
	qsort(op->deltids, op->ndeltids, sizeof(TM_IndexDelete), compare_ids);
	for (int i = 0; i < op->ndeltids; i++)
	{
		TM_IndexStatus *status = &op->status[op->deltids[i].id];

		if (status->knowndeletable)
			pos[n++] = status->idxoffnum - 1;
	}
	if (n > 0)
		mtp_blink_delete_items(op->irel, buf, n, pos, horizon);
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

/* The table's blocks that dead-marked items lead to, sorted; returns how many (with repetitions). */
static int
dead_blocks(Page page, BlockNumber *blocks)
{
	MtpPos		p = mtp_page_locate(page, 0);
	int			n = 0;

	do
	{
		if (mtp_slot_dead(page, p.node, p.slot))
			blocks[n++] = ItemPointerGetBlockNumber(&mtp_slot_item(page, p.node, p.slot)->t_tid);
	} while (mtp_pos_next(page, &p));
	qsort(blocks, n, sizeof(BlockNumber), compare_blocks);
	return n;
}

/*
 * Deletes the items that scans have marked as dead.  The table has to read their blocks anyway, for
 * the horizon, so it is asked about all other items of these blocks as well.
 */
static bool
delete_marked(Relation rel, Relation heap, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	MtpPos		p = mtp_page_locate(page, 0);
	BlockNumber blocks[MTP_MAX_ITEMS];
	int			nblocks = dead_blocks(page, blocks);
	TM_IndexDeleteOp *op;

	if (nblocks == 0)
		return false;
	op = make_op(rel, buf);
	do
	{
		IndexTuple	item = mtp_slot_item(page, p.node, p.slot);
		BlockNumber block = ItemPointerGetBlockNumber(&item->t_tid);

		if (bsearch(&block, blocks, nblocks, sizeof(BlockNumber), compare_blocks))
			add_item(op, p.pos, item)->knowndeletable = mtp_slot_dead(page, p.node, p.slot);
	} while (mtp_pos_next(page, &p));
	return run_op(op, heap, buf);
}

/*
 * Marks, in old[], the items that share their key with the next one.  Of a key's entries the last has
 * the highest TID, which mostly is the newest version: to have the table look at that first, where
 * several rows were just updated, would end the search before it began.
 *
 * Returns how many; *nkeys gets the number of keys that they have.
 */
static int
find_old_versions(Relation rel, Page page, bool *old, int *nkeys)
{
	int			nkeyatts = IndexRelationGetNumberOfKeyAttributes(rel);
	MtpPos		p = mtp_page_locate(page, 0);
	IndexTuple	last = NULL;
	uint32		last_head = 0;
	int			n = 0;

	*nkeys = 0;
	memset(old, 0, MtpHead(page)->nitems * sizeof(bool));
	do
	{
		IndexTuple	item = mtp_slot_item(page, p.node, p.slot);
		uint32		head = MtpNodes(page)[p.node].heads[p.slot];

		/* Equal keys have equal heads, so most neighbours need not be looked at. */
		if (last != NULL && head == last_head && _bt_keep_natts_fast(rel, last, item) > nkeyatts)
		{
			n++;
			old[p.pos - 1] = true;
			if (p.pos < 2 || !old[p.pos - 2])
				++*nkeys;
		}
		last = item;
		last_head = head;
	} while (mtp_pos_next(page, &p));
	return n;
}

/*
 * Asks the table for the items that look like old versions: several entries of one key.  All items
 * take part, so that a block of the table that is read anyway is used well; the table decides how
 * far it goes to free `room` bytes.
 *
 * Without the executor's word that only versions are coming, the page must look like it: a few
 * entries each of many keys.  Many entries of few keys may all be alive.
 */
static bool
delete_versions(Relation rel, Relation heap, Buffer buf, Size room, bool unchanged)
{
	Page		page = BufferGetPage(buf);
	int			nitems = MtpHead(page)->nitems;
	bool		old[MTP_MAX_ITEMS];
	int			nkeys;
	int			n = find_old_versions(rel, page, old, &nkeys);
	MtpPos		p = mtp_page_locate(page, 0);
	TM_IndexDeleteOp *op;

	if (!unchanged && (n < nitems / 4 || n > nkeys * 8))
		return false;
	op = make_op(rel, buf);
	op->bottomup = true;
	op->bottomupfreespace = Max(BOTTOMUP_ROOM, room);
	do
	{
		IndexTuple	item = mtp_slot_item(page, p.node, p.slot);
		TM_IndexStatus *status = add_item(op, p.pos, item);

		status->promising = old[p.pos];
		status->freespace = MAXALIGN(IndexTupleSize(item)) + sizeof(MtpNode) / MTP_NODE_SLOTS;
	} while (mtp_pos_next(page, &p));
	return run_op(op, heap, buf);
}

/*
 * need: bytes of the entries that have no room.  unchanged: aminsert's hint that it is a new version of
 * a row whose key did not change.
 */
bool
mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need, bool unchanged)
{
	Page		page = BufferGetPage(buf);
	bool		deleted = false;

	if (heap == NULL || MtpHead(page)->nitems == 0)
		return false;
	if (MtpHead(page)->flags & MTP_HAS_DEAD)
		deleted = delete_marked(rel, heap, buf);
	if (MtpHead(page)->nitems > 0 && !mtp_page_fits(page, 1, need))
		deleted |= delete_versions(rel, heap, buf, need, unchanged);
	return deleted;
}
