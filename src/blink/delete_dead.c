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

/* The entries of a leaf, in order */
typedef struct Entry
{
	ItemPointerData tid;
	bool		last;			/* of its item */
	bool		marked;			/* a scan has found the row dead */
	uint16		pos;			/* of the item */
} Entry;

/*
 * Reads the entries of the leaf, palloc'd; returns their number.  A page of 32 kB may have more
 * than can be asked about: then the last ones are left out.
 */
static int
read_entries(Relation rel, Page page, Entry **entries)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	int			room = MtpHeader(page)->nitems + MTP_LIST_TIDS;
	Entry	   *e = palloc(room * sizeof(Entry));
	MtpPos		p = {0};
	int			n = 0;

	do
	{
		IndexTuple	itup = mtp_slot_body(page, p.node, p.slot);
		int			more = mtp_blink_item_tids(rel, page, p.node, p.slot, tids);
		int			dead = mtp_slot_dead(page, p.node, p.slot) ? more :
		more > 1 ? Min(MtpListHeadOf(itup)->dead, more) : 0;

		if (n + more > MTP_DEAD_MOST)
			break;
		if (n + more > room)
			e = repalloc(e, (room = (n + more) * 2) * sizeof(Entry));
		for (int i = 0; i < more; i++)
			e[n++] = (Entry)
		{
			.tid = tids[i],.last = i == more - 1,.marked = i < dead,.pos = p.pos
		};
	} while (mtp_pos_next(page, &p));
	*entries = e;
	return n;
}

/*
 * Deletes the entries that scans have marked dead.  The table reads their blocks anyway, for the
 * horizon: so it is also asked about all other entries of the page that lead to these blocks.
 */
static bool
delete_marked(Relation rel, Relation heap, Buffer buf)
{
	Entry	   *e;
	int			n = read_entries(rel, BufferGetPage(buf), &e);
	BlockNumber *blocks = palloc(n * sizeof(BlockNumber));	/* a block may be there twice */
	int			nblocks = 0;
	bool		deleted = false;

	for (int i = 0; i < n; i++)
		if (e[i].marked)
			blocks[nblocks++] = ItemPointerGetBlockNumber(&e[i].tid);
	if (nblocks > 0)
	{
		TM_IndexDeleteOp *op = mtp_dead_begin(rel, buf, n);

		mtp_dead_sort_blocks(blocks, nblocks);
		for (int i = 0; i < n; i++)
			if (mtp_dead_has_block(blocks, nblocks, ItemPointerGetBlockNumber(&e[i].tid)))
				mtp_dead_ask(op, i, &e[i].tid)->knowndeletable = e[i].marked;
		deleted = mtp_dead_delete(op, heap, buf, MTP_WAL_DELETE, mtp_page_delete);
	}
	pfree(blocks);
	pfree(e);
	return deleted;
}

/*
 * Sets last[] for each item that is the last one of its key; returns the number of keys that have
 * several entries.
 */
static int
find_last_of_keys(Relation rel, Page page, bool *last)
{
	int			nkeyatts = IndexRelationGetNumberOfKeyAttributes(rel);
	MtpPos		p = {0};
	MtpItemRoom rooms[2];
	IndexTuple	before = NULL;
	uint32		head_before = 0;
	bool		several = false;
	int			nkeys = 0;

	do
	{
		IndexTuple	item = mtp_blink_item(rel, page, p.node, p.slot, &rooms[p.pos % 2]);
		uint32		head = MtpNodes(page)[p.node].heads[p.slot];

		/* Equal keys have equal heads, so most neighbours need no comparison. */
		bool		same = before != NULL && head == head_before &&
		_bt_keep_natts_fast(rel, before, item) > nkeyatts;

		if (same)
			last[p.pos - 1] = false;
		else
			several = false;
		if (!several && (same || mtp_item_is_list(item)))
		{
			several = true;
			nkeys++;
		}
		last[p.pos] = true;
		before = item;
		head_before = head;
	} while (mtp_pos_next(page, &p));
	return nkeys;
}

/*
 * Asks the table for the entries that look like old versions: several of one key.  The last entry
 * of a key has the highest TID, and mostly is the newest version.  It does not look old: where
 * several rows were just updated, the table would look at it first, and end the search before it
 * began.  All entries take part, so that a block of the table that is read anyway is used well.
 * The table decides how far it goes to free `room` bytes.
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
	bool		last[MTP_MAX_ITEMS];
	int			nkeys = find_last_of_keys(rel, page, last);
	Entry	   *e;
	int			n = read_entries(rel, page, &e);
	int			nold = 0;
	TM_IndexDeleteOp *op;

	for (int i = 0; i < n; i++)
		nold += !(e[i].last && last[e[i].pos]);
	if (nold == 0 || (arrival != MTP_SAME_KEY && (nold < n / 4 || nold > nkeys * 8)))
	{
		pfree(e);
		return false;
	}
	op = mtp_dead_begin(rel, buf, n);
	op->bottomup = true;
	op->bottomupfreespace = Max(BOTTOMUP_ROOM, room);
	for (int i = 0; i < n; i++)
	{
		TM_IndexStatus *status = mtp_dead_ask(op, i, &e[i].tid);
		MtpPos		p = mtp_page_locate(page, e[i].pos);
		IndexTuple	item = mtp_slot_body(page, p.node, p.slot);
		int			entries = mtp_item_entries(item);

		/* An entry may take less than a byte: it counts as one. */
		status->promising = !(e[i].last && last[e[i].pos]);
		status->freespace = (mtp_body_size(MtpHeader(page)->norm, item) + MTP_SLOT_ROOM +
							 entries - 1) / entries;
	}
	pfree(e);
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
