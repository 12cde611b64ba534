/*
 * verify_rows.c
 *	  Checks a B-link tree against its table: every entry has its row, every row its entry.
 *
 * While a leaf is pinned, VACUUM cannot pass it (invariant B10): line pointers that the leaf's
 * entries lead to stay in use (index/verify.h).  The caller reads a leaf and keeps its pin
 * until this file has checked its entries.  Rows are looked up in the tree as an insertion looks
 * for its place.
 */
#include "blink/reader.h"
#include "blink/verify.h"

#include "utils/datum.h"

/* True if the entry has exactly these values. */
bool
mtp_blink_verify_matches(MtpVerify *v, const void *entry, const Datum *values, const bool *isnull)
{
	IndexTuple	itup = (IndexTuple) entry;
	TupleDesc	tupdesc = RelationGetDescr(v->rel);

	for (int i = 0; i < v->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		bool		null;
		Datum		value = index_getattr(itup, i + 1, tupdesc, &null);

		if (null != isnull[i] ||
			(!null && !datum_image_eq(value, values[i], att->attbyval, att->attlen)))
			return false;
	}
	return true;
}

/* ---------- entry to row ---------- */

/*
 * True if the leaf has the entry of the key: at *pos, which is its place, or in the list before
 * that, whose place *pos gets then.
 */
static bool
find_on_page(MtpVerify *v, MtpBlinkKey *key, Page page, MtpPos *pos)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	ItemPointer tid = key->bt.scantid;
	MtpPos		p = *pos;
	MtpItemRoom room;
	int			n;

	if (p.pos < MtpHeader(page)->nitems &&
		mtp_blink_compare(key, mtp_blink_item(v->rel, page, p.node, p.slot, &room)) == 0)
		return true;
	key->bt.scantid = NULL;
	if (!mtp_pos_back(MtpCounts(page), &p) ||
		mtp_blink_compare(key, mtp_blink_item(v->rel, page, p.node, p.slot, &room)) != 0)
		return false;
	n = mtp_blink_item_tids(v->rel, page, p.node, p.slot, tids);
	while (n > 0 && !ItemPointerEquals(&tids[n - 1], tid))
		n--;
	*pos = n > 0 ? p : *pos;
	return n > 0;
}

/*
 * Finds the entry equal to itup, TID included.  Its leaf comes back pinned and share-locked;
 * InvalidBuffer if there is no such entry.  *where and *pos get the leaf and the place where the
 * entry is or should be.
 */
static Buffer
find_entry(MtpVerify *v, IndexTuple itup, MtpPos *pos, BlockNumber *where)
{
	MtpBlinkKey key;
	MtpPageReader view;
	Buffer		buf;
	Page		page;

	mtp_blink_key_tuple(v->rel, &key, itup);
	buf = mtp_blink_descend(v->rel, &key, BUFFER_LOCK_SHARE, 0, NULL);
	*where = MTP_BLINK_META;
	memset(pos, 0, sizeof(*pos));
	if (!BufferIsValid(buf))
		return buf;
	page = BufferGetPage(buf);
	*where = BufferGetBlockNumber(buf);
	mtp_blink_reader_page(&view, v->rel, buf);
	mtp_blink_reader_place(&key, &view, true, pos);
	if (find_on_page(v, &key, page, pos))
		return buf;
	UnlockReleaseBuffer(buf);
	return InvalidBuffer;
}

Buffer
mtp_blink_verify_find(MtpVerify *v, const void *entry, BlockNumber *blkno, int *pos)
{
	MtpPos		place;
	Buffer		buf = find_entry(v, (IndexTuple) entry, &place, blkno);

	if (BufferIsValid(buf))
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	*pos = place.pos;
	return buf;
}

void
mtp_blink_verify_entries(MtpVerify *v, MtpVerifyPage *p)
{
	Page		page = MtpVerifyPageOf(p);
	MtpPos		pos = {0};
	ItemPointerData tids[MTP_LIST_TIDS];

	for (bool more = MtpHeader(page)->nitems > 0; more; more = mtp_pos_next(page, &pos))
	{
		MtpItemRoom room;
		IndexTuple	itup = mtp_slot_item(page, pos.node, pos.slot, &room);
		int			n = mtp_item_decode(itup, tids);

		if (mtp_item_is_list(itup))
			itup = mtp_item_plain(itup, &tids[0]);
		for (int i = 0; i < n; i++)
		{
			itup->t_tid = tids[i];
			mtp_verify_entry(v, &tids[i], itup);
		}
	}
}

/* ---------- row to entry ---------- */

/* True if the item is a list whose hint says that this TID is dead. */
static bool
in_dead_part(IndexTuple itup, ItemPointer tid)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	int			dead = mtp_item_is_list(itup) ? MtpListHeadOf(itup)->dead : 0;

	if (dead == 0 || dead > mtp_list_decode(itup, tids))
		return false;
	return ItemPointerCompare(tid, &tids[dead - 1]) <= 0;
}

void
mtp_blink_verify_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive,
					 void *state)
{
	MtpVerify  *v = state;
	IndexTuple	itup = index_form_tuple(RelationGetDescr(index), values, isnull);
	BlockNumber blkno;
	MtpPos		pos;
	Buffer		buf;
	IndexTuple	found = NULL;
	bool		dead = false;

	itup->t_tid = *tid;
	buf = find_entry(v, itup, &pos, &blkno);
	if (BufferIsValid(buf))
	{
		MtpItemRoom room;

		found = CopyIndexTuple(mtp_slot_item(BufferGetPage(buf), pos.node, pos.slot, &room));
		dead = mtp_slot_dead(BufferGetPage(buf), pos.node, pos.slot) || in_dead_part(found, tid);
		UnlockReleaseBuffer(buf);
	}
	mtp_verify_row_entry(v, tid, blkno, pos.pos, found != NULL, dead);
	Assert(found != NULL);
	if (!mtp_blink_verify_matches(v, found, values, isnull))
		mtp_verify_fail(v, blkno, pos.pos, "Entry of the row with TID (%u,%u) has other values.",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
}
