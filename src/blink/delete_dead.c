/*
 * delete_dead.c
 *	  Makes room on a full leaf from entries whose rows are dead, before it would be split.
 *
 * Two ways, both with the table's help, which has the last word on what is dead and tells the
 * standbys' conflict horizon: entries that scans have marked, and entries that look like old versions
 * of rows (bottom-up deletion, as PostgreSQL 14 introduced it).
 */
#include "blink/blink.h"

#include "index/dead.h"

/* Bytes that a bottom-up deletion asks the table for, at least. */
#define BOTTOMUP_ROOM (BLCKSZ / 8)

static TM_IndexDeleteOp *
begin(Relation rel, Buffer buf)
{
	return mtp_dead_begin(rel, buf, MtpHead(BufferGetPage(buf))->nitems);
}

/* The vacuum cycle id stays: only VACUUM knows whether it has been here. */
static bool
judge(TM_IndexDeleteOp *op, Relation heap, Buffer buf)
{
	return mtp_dead_delete(op, heap, buf, MTP_WAL_DELETE, mtp_page_delete);
}

/* The table's blocks that dead-marked items lead to, sorted; returns how many (with repetitions). */
static int
dead_blocks(Relation rel, Page page, BlockNumber *blocks)
{
	MtpPos		p = mtp_page_locate(page, 0);
	int			n = 0;

	do
	{
		if (mtp_slot_dead(page, p.node, p.slot))
			blocks[n++] = ItemPointerGetBlockNumber(&mtp_blink_tid_item(rel, page, p.node, p.slot)->t_tid);
	} while (mtp_pos_next(page, &p));
	mtp_dead_sort_blocks(blocks, n);
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
	int			nblocks = dead_blocks(rel, page, blocks);
	TM_IndexDeleteOp *op;

	if (nblocks == 0)
		return false;
	op = begin(rel, buf);
	do
	{
		IndexTuple	item = mtp_blink_tid_item(rel, page, p.node, p.slot);
		BlockNumber block = ItemPointerGetBlockNumber(&item->t_tid);

		if (mtp_dead_has_block(blocks, nblocks, block))
			mtp_dead_ask(op, p.pos, &item->t_tid)->knowndeletable =
				mtp_slot_dead(page, p.node, p.slot);
	} while (mtp_pos_next(page, &p));
	return judge(op, heap, buf);
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
		IndexTuple	item = mtp_blink_item(rel, page, p.node, p.slot);
		uint32		head = MtpNodes(page)[p.node].heads[p.slot];

		/* Equal keys have equal heads, so most neighbours need not be looked at. */
		if (last != NULL && head == last_head && _bt_keep_natts_fast(rel, last, item) > nkeyatts)
		{
			n++;
			old[p.pos - 1] = true;
			if (p.pos < 2 || !old[p.pos - 2])
				++* nkeys;
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
 * An UPDATE that sets a column of the key may set it to what it was, and leave an old version here, or not.
 * Then the page must look like it: a few entries each of many keys.  Many entries of few keys may all be
 * alive.  And where each key has one entry, that is the newest version of its row, or one that the
 * transaction under way replaces.
 */
static bool
delete_versions(Relation rel, Relation heap, Buffer buf, Size room, MtpArrival arrival)
{
	Page		page = BufferGetPage(buf);
	bool		old[MTP_MAX_ITEMS];
	int			nkeys;
	int			n = find_old_versions(rel, page, old, &nkeys);
	MtpPos		p = mtp_page_locate(page, 0);
	TM_IndexDeleteOp *op;

	if (n == 0 || (arrival != MTP_SAME_KEY && (n < MtpHead(page)->nitems / 4 || n > nkeys * 8)))
		return false;
	op = begin(rel, buf);
	op->bottomup = true;
	op->bottomupfreespace = Max(BOTTOMUP_ROOM, room);
	do
	{
		IndexTuple	item = mtp_blink_tid_item(rel, page, p.node, p.slot);
		TM_IndexStatus *status = mtp_dead_ask(op, p.pos, &item->t_tid);

		status->promising = old[p.pos];
		status->freespace = MAXALIGN(IndexTupleSize(item)) + sizeof(MtpNode) / MTP_NODE_SLOTS;
	} while (mtp_pos_next(page, &p));
	return judge(op, heap, buf);
}

/*
 * need: bytes of the entries that have no room.  Entries of new rows say nothing of old versions: those of one
 * key mostly are as many rows, all alive, and the table would be asked in vain, under the leaf's lock.
 */
bool
mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need, MtpArrival arrival)
{
	Page		page = BufferGetPage(buf);
	bool		deleted = false;

	if (heap == NULL || MtpHead(page)->nitems == 0)
		return false;
	if (MtpHead(page)->flags & MTP_HAS_DEAD)
		deleted = delete_marked(rel, heap, buf);
	if (arrival != MTP_NEW_ROW && MtpHead(page)->nitems > 0 && !mtp_page_fits(page, 1, need))
		deleted |= delete_versions(rel, heap, buf, need, arrival);
	return deleted;
}
