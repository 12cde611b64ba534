/*
 * damage.c
 *	  Checks what is read of an index before anything relies on it (invariant B14).
 *
 * A backend that reads a page checks the page's shape, and of each item that it looks at whether
 * the item lies on the page and is whole.  So a damaged page is an error that names it, and neither
 * a crash nor an endless loop.  README.md, "Damaged pages".
 */
#include "blink/blink.h"

void
mtp_blink_fail_block(Relation rel, BlockNumber blkno, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" contains corrupted page at block %u",
					RelationGetRelationName(rel), blkno),
			 what ? errdetail("The %s.", what) : 0,
			 errhint("Please REINDEX it.")));
	pg_unreachable();
}

void
mtp_blink_fail_page(Relation rel, Page page, const char *what)
{
	BlockNumber blkno = InvalidBlockNumber;
	Size		off = (char *) page - BufferBlocks;

	/* The caller knows the page alone: the message names the block whose buffer it is in. */
	if ((char *) page >= BufferBlocks && off / BLCKSZ < NBuffers)
		blkno = BufferGetBlockNumber(off / BLCKSZ + 1);
	else
	{
		for (int i = 0; i < NLocBuffer; i++)
			if (LocalBufferBlockPointers[i] == (Block) page)
				blkno = BufferGetBlockNumber(-i - 1);
	}
	mtp_blink_fail_block(rel, blkno, what);
}

/* ---------- items ---------- */

/* True if all attributes that a leaf tuple or pivot of this index should have lie within it. */
static bool
tuple_whole(Relation rel, IndexTuple itup)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = BTreeTupleGetNAtts(itup, rel);
	Size		start = IndexInfoFindDataOffset(itup->t_info);
	Size		size = mtp_item_key_size(itup);
	char	   *data = (char *) itup + start;
	bits8	   *nulls = (bits8 *) ((char *) itup + sizeof(IndexTupleData));
	Size		off = 0;

	if (start > size || natts > tupdesc->natts)
		return false;
	size -= start;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (IndexTupleHasNulls(itup) && att_isnull(i, nulls))
			continue;
		if (att->attlen == -1 && off >= size)
			return false;
		off = att_align_pointer(off, att->attalign, att->attlen, data + off);
		if (off > size)
			return false;
		if (att->attlen == -1 && !mtp_varlena_whole(data + off, size - off))
			return false;
		if (att->attlen == -2 && memchr(data + off, 0, size - off) == NULL)
			return false;
		if (att->attlen > 0 && off + att->attlen > size)
			return false;
		off = att_addlength_pointer(off, att->attlen, data + off);
	}
	return off <= size;
}

const char *
mtp_blink_pivot_fault(Relation rel, IndexTuple itup)
{
	int			natts;
	ItemPointer tid;

	if (!BTreeTupleIsPivot(itup))
		return "separator is not a pivot tuple";
	natts = BTreeTupleGetNAtts(itup, rel);
	if (natts > mtp_blink_info(rel)->nkeyatts)
		return "pivot tuple has a wrong number of attributes";
	tid = BTreeTupleGetHeapTID(itup);
	if (tid != NULL && (natts != mtp_blink_info(rel)->nkeyatts ||
						IndexTupleSize(itup) < sizeof(IndexTupleData) + sizeof(ItemPointerData) ||
						!ItemPointerIsValid(tid)))
		return "pivot tuple has a wrong TID";
	if (!tuple_whole(rel, itup))
		return "pivot tuple is damaged";
	return NULL;
}

const char *
mtp_blink_entry_fault(Relation rel, IndexTuple itup)
{
	if (mtp_item_is_list(itup))
	{
		const char *what = mtp_list_fault(itup);

		if (what != NULL)
			return what;
	}
	else if (itup->t_info & INDEX_ALT_TID_MASK)
		return "entry is not a plain tuple";
	else if (!mtp_tid_possible(&itup->t_tid))
		return "entry has an invalid TID";
	if (!tuple_whole(rel, itup))
		return "entry is damaged";
	return NULL;
}

/* Checks what mtp_blink_item does not see at a glance. */
void
mtp_blink_check_item(Relation rel, Page page, IndexTuple itup)
{
	const char *what = MtpIsLeaf(page) ? mtp_blink_entry_fault(rel, itup) :
	mtp_blink_pivot_fault(rel, itup);

	if (unlikely(what != NULL))
		mtp_blink_fail_page(rel, page, what);
}

/* ---------- pages ---------- */

/*
 * Checks the header, the bounds of the directory and the high key, but no item.  That is enough to
 * search the directory, and to change it.
 */
void
mtp_blink_check_page(Relation rel, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	MtpPageHeader *h = MtpHeader(page);
	const char *what;

	if (unlikely(PageIsNew(page)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains unexpected zero page at block %u",
						RelationGetRelationName(rel), BufferGetBlockNumber(buf)),
				 errhint("Please REINDEX it.")));
	if (unlikely(h->page_id == MTP_PAGE_ID &&
				 (h->format < MTP_PAGE_OLDEST || h->format > MTP_PAGE_FORMAT)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains a page of unknown format %u at block %u",
						RelationGetRelationName(rel), h->format, BufferGetBlockNumber(buf)),
				 errhint("It was written by a later version of mtpower, or is corrupted.")));
	what = mtp_page_shape(page);
	if (what == NULL && (h->type == MTP_PAGE_LEAF || h->type == MTP_PAGE_INNER))
	{
		if (!mtp_blink_norm_fits(rel, h->norm))
			what = "kind of normalized keys is not the index's";
		else if (h->type == MTP_PAGE_INNER && h->nitems == 0)
			what = "inner page has no downlinks";
		else if (h->level >= MTP_BLINK_HEIGHT)
			what = "level is impossible";
		else if ((h->flags & MTP_INCOMPLETE) && h->right == InvalidBlockNumber)
			what = "page of an incomplete split has no right sibling";
		else if (h->right != InvalidBlockNumber && !mtp_blink_pivot_plain(rel, MtpHighKey(page)))
			what = mtp_blink_pivot_fault(rel, MtpHighKey(page));
	}
	if (unlikely(what != NULL))
		mtp_blink_fail_block(rel, BufferGetBlockNumber(buf), what);
}

/* Checks everything that a rewrite or split reads of the items: it ends in a critical section. */
void
mtp_blink_check_items(Relation rel, Buffer buf)
{
	Page		page = BufferGetPage(buf);
	int			pos;
	const char *what = mtp_page_fault(page, &pos);
	MtpItemRoom room;

	if (unlikely(what != NULL))
		mtp_blink_fail_block(rel, BufferGetBlockNumber(buf), what);
	for (int i = 0; i < MtpHeader(page)->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
			(void) mtp_blink_item(rel, page, i, j, &room);
}

void
mtp_blink_check_unlocked(Relation rel, Buffer buf)
{
	if (unlikely(mtp_link_locked(buf)))
		mtp_link_fail(rel, BufferGetBlockNumber(buf), false);
}

void
mtp_blink_check_walk(Relation rel, MtpWalk *w, BlockNumber blkno)
{
	if (unlikely(mtp_walk_again(w, blkno)))
		mtp_link_fail(rel, blkno, false);
}
