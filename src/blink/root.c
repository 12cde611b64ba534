/*
 * root.c
 *	  Makes the tree's first root, and a new one above a root that was split.
 */
#include "blink/split.h"

#include "blink/wal_records.h"

IndexTuple
mtp_blink_first_item(IndexTuple item)
{
	IndexTuple	first = palloc0(sizeof(IndexTupleData));

	first->t_tid = item->t_tid;
	first->t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(first, 0, false);
	return first;
}

int
mtp_blink_new_root(Relation rel, Buffer meta, uint32 level, int npages, Buffer *bufs,
				   IndexTuple *pivots)
{
	int			k = 0;
	Size		bytes = MAXALIGN(sizeof(IndexTupleData));
	Buffer		rootbuf = mtp_blink_alloc(rel);
	Page		page = palloc(BLCKSZ);
	PageHeader	ph = (PageHeader) page;
	MtpWalNewRoot rec = {.root = BufferGetBlockNumber(rootbuf),.level = level,
	.marks = MtpBlinkMetaOf(BufferGetPage(meta))->marks};
	MtpChange	c;
	IndexTupleData first = {0};

	if (level >= MTP_BLINK_HEIGHT)
		elog(ERROR, "index \"%s\" has too many levels", RelationGetRelationName(rel));
	mtp_page_init(page, npages > 0 ? MTP_PAGE_INNER : MTP_PAGE_LEAF, level,
				  mtp_blink_info(rel)->norm);
	MtpHeader(page)->flags = MTP_ROOT;
	if (npages > 0)
	{
		for (k = 1; k < npages; k++)
		{
			bytes += MAXALIGN(IndexTupleSize(pivots[k]));
			if (mtp_page_need(k + 1, bytes) > MTP_PAGE_ROOM)
				break;
		}
		BTreeTupleSetDownLink(&first, BufferGetBlockNumber(bufs[0]));
		pivots[0] = mtp_blink_first_item(&first);
		mtp_page_pack(page, k, pivots, NULL);
	}

	mtp_change_init(&c, rel, MTP_WAL_NEWROOT);
	mtp_change_buffer(&c, meta, REGBUF_WILL_INIT | REGBUF_STANDARD);
	mtp_change_buffer(&c, rootbuf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	for (int i = 0; i < k - 1; i++)
		mtp_change_buffer(&c, bufs[i], REGBUF_STANDARD);

	/*
	 * The metapage leads to the new root in the same record.  No process is on its way to the new
	 * root yet, and one that comes by the old root finds its way by right links.
	 */
	mtp_change_begin(&c);
	mtp_blink_meta_init(BufferGetPage(meta), rec.root, level, rec.marks);
	memcpy(BufferGetPage(rootbuf), page, BLCKSZ);
	for (int i = 0; i < k - 1; i++)
		MtpHeader(BufferGetPage(bufs[i]))->flags &= ~MTP_INCOMPLETE;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, 1, MtpHeader(page), sizeof(MtpPageHeader));
	mtp_change_bufdata(&c, 1, page + ph->pd_upper, ph->pd_special - ph->pd_upper);
	mtp_change_finish(&c);
	UnlockReleaseBuffer(rootbuf);
	UnlockReleaseBuffer(meta);
	pfree(page);
	return k;
}

void
mtp_blink_make_root(Relation rel)
{
	Buffer		meta = mtp_blink_read_meta(rel, BUFFER_LOCK_EXCLUSIVE);

	/* Another backend may have made the root before the metapage was locked. */
	if (MtpBlinkMetaOf(BufferGetPage(meta))->root != InvalidBlockNumber)
		UnlockReleaseBuffer(meta);
	else
		(void) mtp_blink_new_root(rel, meta, 0, 0, NULL, NULL);
}
