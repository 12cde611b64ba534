/*
 * pending.c
 *	  Plain forms of what kill.c and build.c will do better; each of these files takes its
 *	  functions over.
 */
#include "blink/blink.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "access/xloginsert.h"
#include "storage/smgr.h"

bool
mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need, bool unchanged)
{
	return false;
}

void
mtp_blink_meta_init(Page page, BlockNumber root, uint32 level)
{
	mtp_page_init(page, MTP_PAGE_META, 0, MTP_NORM_NONE);
	MtpBlinkMetaOf(page)->magic = MTP_BLINK_MAGIC;
	MtpBlinkMetaOf(page)->version = MTP_BLINK_VERSION;
	MtpBlinkMetaOf(page)->root = root;
	MtpBlinkMetaOf(page)->level = level;
	MtpBlinkMetaOf(page)->delpages = 0;
	((PageHeader) page)->pd_lower = MTP_DIR_AT + sizeof(MtpBlinkMeta);
}

static void
insert_one(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	IndexTuple	itup = index_form_tuple(RelationGetDescr(index), values, isnull);

	itup->t_tid = *tid;
	mtp_blink_insert(index, state, itup, false);
	pfree(itup);
}

IndexBuildResult *
mtp_blink_build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	Buffer		metabuf;

	mtp_blink_check_support(index);
	metabuf = mtp_blink_alloc(index);

	START_CRIT_SECTION();
	mtp_blink_meta_init(BufferGetPage(metabuf), InvalidBlockNumber, 0);
	MarkBufferDirty(metabuf);
	if (RelationNeedsWAL(index))
		log_newpage_buffer(metabuf, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(metabuf);
	result->heap_tuples = table_index_build_scan(heap, index, info, true, true, insert_one, heap, NULL);
	result->index_tuples = result->heap_tuples;
	return result;
}

void
mtp_blink_build_empty(Relation index)
{
	Page		page = palloc(BLCKSZ);

	mtp_blink_meta_init(page, InvalidBlockNumber, 0);
	PageSetChecksumInplace(page, MTP_BLINK_META);
	smgrwrite(RelationGetSmgr(index), INIT_FORKNUM, MTP_BLINK_META, page, true);
	log_newpage(&MtpRelLocator(index), INIT_FORKNUM, MTP_BLINK_META, page, true);
	smgrimmedsync(RelationGetSmgr(index), INIT_FORKNUM);
	pfree(page);
}
