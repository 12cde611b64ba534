/*
 * unlink.c
 *	  Takes empty pages out of the tree.
 */
#include "blink/blink.h"

/*
 * A deleted page keeps both links and its level: whoever still comes here moves right, or, going
 * left, finds the way back.
 */
void
mtp_blink_mark_deleted(Page page, uint16 level, BlockNumber left, BlockNumber right,
					   FullTransactionId safexid)
{
	mtp_page_init(page, MTP_PAGE_DELETED, level, MTP_NORM_NONE);
	MtpHead(page)->left = left;
	MtpHead(page)->right = right;
	MtpBlinkDeletedOf(page)->safexid = safexid;
}

/*
 * The item at pos keeps its key and gets the child of the item behind it, which goes: the key space of
 * the old child falls to its right sibling.
 */
void
mtp_blink_drop_downlink(Page page, int pos, BlockNumber child)
{
	uint16		gone = pos + 1;

	BTreeTupleSetDownLink(mtp_page_item(page, pos), child);
	mtp_page_delete(page, 1, &gone);
}
