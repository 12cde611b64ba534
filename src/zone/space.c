/*
 * space.c
 *	  Where the pages of a zone index are: a computation, not a link.
 *
 * A page of level 1 and up stands behind the pages of its first entry, and in front of those of the
 * others.  So an index that grows needs no page of a level before it has two pages below, and none
 * ever moves.
 */
#include "zone/zone.h"

#include "core/compat.h"
#include "core/links.h"

uint64
mtp_zone_width(const MtpZoneInfo *info, int level)
{
	uint64		width = 1;

	for (int i = 0; i < level; i++)
		width *= info->fanout;
	return width;
}

/* The blocks of a page of this level with all that lies below it */
static uint64
blocks_of(const MtpZoneInfo *info, int level)
{
	uint64		blocks = 1;

	for (int i = 0; i < level; i++)
		blocks = blocks * info->fanout + 1;
	return blocks;
}

BlockNumber
mtp_zone_block(const MtpZoneInfo *info, int level, uint32 number)
{
	uint64		block = MTP_ZONE_META + 1;

	if (level > 0)
		block += blocks_of(info, level - 1);
	for (int i = level; number > 0; i++, number /= info->fanout)
		if (number % info->fanout > 0)
			block += number % info->fanout * blocks_of(info, i) + 1;
	return (BlockNumber) block;
}

uint32
mtp_zone_place(const MtpZoneInfo *info, int level, uint32 pair, uint32 *slot)
{
	uint64		entry = pair / mtp_zone_width(info, level);

	*slot = entry % info->fanout;
	return entry / info->fanout;
}

void
mtp_zone_extend(Relation index, BlockNumber blkno)
{
	while (mtp_link_beyond(index, blkno))
		mtp_lengthen_relation(index);
}

Buffer
mtp_zone_read(Relation index, int level, uint32 number, int access)
{
	BlockNumber blkno = mtp_zone_block(mtp_zone_info(index), level, number);
	Buffer		buf;

	if (mtp_link_beyond(index, blkno))
		return InvalidBuffer;
	buf = ReadBuffer(index, blkno);
	LockBuffer(buf, access);
	if (PageIsNew(BufferGetPage(buf)))
	{
		UnlockReleaseBuffer(buf);
		return InvalidBuffer;
	}
	mtp_zone_check_page(index, buf, level);
	return buf;
}

Buffer
mtp_zone_read_meta(Relation index, int access, int *height)
{
	Buffer		buf = ReadBuffer(index, MTP_ZONE_META);
	Page		page = BufferGetPage(buf);
	MtpZoneMeta *meta = MtpZoneMetaOf(page);

	LockBuffer(buf, access);
	if (PageIsNew(page) || meta->magic != MTP_ZONE_MAGIC || meta->version != MTP_ZONE_VERSION ||
		meta->natts != mtp_zone_info(index)->natts || meta->height >= MTP_ZONE_HEIGHT)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is not an mtpower_zone index",
						RelationGetRelationName(index)),
				 errdetail("Its metapage, block %u, is corrupted, or was written by a later "
						   "version of mtpower.", MTP_ZONE_META),
				 errhint("Please REINDEX it.")));
	*height = meta->height;
	return buf;
}
