/*
 * delete_dead.c
 *	  Makes room on a full leaf from entries whose rows are dead, before the leaf would be split.
 *
 * There are two ways: entries that scans have marked, and entries that look like old versions of
 * rows (bottom-up deletion, as PostgreSQL 14 introduced it).  Both need the table, which has the
 * last word on what is dead, and tells the standbys' conflict horizon.
 *
 * The vacuum cycle id stays on the leaf: only VACUUM knows whether it has been here (invariant
 * B11).
 */
#include "blink/blink.h"

#include "index/dead.h"

/* A bottom-up deletion asks the table for so many bytes, at least. */
#define BOTTOMUP_ROOM (BLCKSZ / 8)

/*
 * Deletes the items that scans have marked dead.  The table reads their blocks anyway, for the
 * horizon: so it is also asked about all other items that lead to these blocks.
 */
static bool
delete_marked(Relation rel, Relation heap, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	MtpPos		p = mtp_page_locate(page, 0);
	BlockNumber blocks[MTP_MAX_ITEMS];	/* of the marked items; a block may be there twice */
	int			nblocks = 0;
	TM_IndexDeleteOp *op;

	do
	{
		if (mtp_slot_dead(page, p.node, p.slot))
		{
			IndexTuple	item = mtp_blink_tid_item(rel, page, p.node, p.slot);

			blocks[nblocks++] = ItemPointerGetBlockNumber(&item->t_tid);
		}
	} while (mtp_pos_next(page, &p));
	if (nblocks == 0)
		return false;
	mtp_dead_sort_blocks(blocks, nblocks);
	op = mtp_dead_begin(rel, buf, MtpHeader(page)->nitems);
	p = mtp_page_locate(page, 0);
	do
	{
		IndexTuple	item = mtp_blink_tid_item(rel, page, p.node, p.slot);
		BlockNumber block = ItemPointerGetBlockNumber(&item->t_tid);

		if (mtp_dead_has_block(blocks, nblocks, block))
			mtp_dead_ask(op, p.pos, &item->t_tid)->knowndeletable =
				mtp_slot_dead(page, p.node, p.slot);
	} while (mtp_pos_next(page, &p));
	return mtp_dead_delete(op, heap, buf, MTP_WAL_DELETE, mtp_page_delete);
}

/*
 * Sets old[] for each item that shares its key with the next one.  The last entry of a key has the
 * highest TID, and mostly is the newest version.  It is left out: where several rows were just
 * updated, the table would look at it first, and end the search before it began.
 *
 * Returns the number of these items; *nkeys gets the number of their keys.
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
	memset(old, 0, MtpHeader(page)->nitems * sizeof(bool));
	do
	{
		IndexTuple	item = mtp_blink_item(rel, page, p.node, p.slot);
		uint32		head = MtpNodes(page)[p.node].heads[p.slot];

		/* Equal keys have equal heads, so most neighbours need no comparison. */
		if (last != NULL && head == last_head && _bt_keep_natts_fast(rel, last, item) > nkeyatts)
		{
			n++;
			old[p.pos - 1] = true;
			if (p.pos < 2 || !old[p.pos - 2])
				(*nkeys)++;
		}
		last = item;
		last_head = head;
	} while (mtp_pos_next(page, &p));
	return n;
}

/*
 * Asks the table for the items that look like old versions: several entries of one key.  All items
 * take part, so that a block of the table that is read anyway is used well.  The table decides how
 * far it goes to free `room` bytes.
 *
 * An UPDATE that sets a column of the key may set it to what it was, and leave an old version here,
 * or not.  Then the page must look like it: a few entries each of many keys.  Many entries of few
 * keys may all be alive.  And the only entry of a key is the newest version of its row, or one that
 * the transaction under way replaces.
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

	if (n == 0 || (arrival != MTP_SAME_KEY && (n < MtpHeader(page)->nitems / 4 || n > nkeys * 8)))
		return false;
	op = mtp_dead_begin(rel, buf, MtpHeader(page)->nitems);
	op->bottomup = true;
	op->bottomupfreespace = Max(BOTTOMUP_ROOM, room);
	do
	{
		IndexTuple	item = mtp_blink_tid_item(rel, page, p.node, p.slot);
		TM_IndexStatus *status = mtp_dead_ask(op, p.pos, &item->t_tid);

		status->promising = old[p.pos];
		status->freespace = MAXALIGN(IndexTupleSize(item)) + sizeof(MtpNode) / MTP_NODE_SLOTS;
	} while (mtp_pos_next(page, &p));
	return mtp_dead_delete(op, heap, buf, MTP_WAL_DELETE, mtp_page_delete);
}

/*
 * Entries of new rows (MTP_NEW_ROW) say nothing of old versions.  Entries of one key are mostly as
 * many rows then, all alive; the table would be asked in vain, under the leaf's lock.
 */
bool
mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need, MtpArrival arrival)
{
	Page		page = BufferGetPage(buf);
	bool		deleted = false;

	if (heap == NULL || MtpHeader(page)->nitems == 0)
		return false;
	if (MtpHeader(page)->flags & MTP_HAS_DEAD)
		deleted = delete_marked(rel, heap, buf);
	if (arrival != MTP_NEW_ROW && MtpHeader(page)->nitems > 0 && !mtp_page_fits(page, 1, need))
		deleted |= delete_versions(rel, heap, buf, need, arrival);
	return deleted;
}
