/*
 * page.c
 *	  Entries, and the pages that hold them.
 */
#include "zone/zone.h"

#include "access/nbtree.h"
#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* A column whose values have no numbers of their order would have no intervals. */
pg_noreturn static void
refuse_column(Relation index, int col)
{
	TupleDesc	desc = RelationGetDescr(index);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("mtpower_zone cannot index column \"%s\" of index \"%s\"",
					NameStr(TupleDescAttr(desc, col)->attname), RelationGetRelationName(index)),
			 errdetail("Values of type %s in this order cannot be turned into numbers of the same "
					   "order.", format_type_be(TupleDescAttr(desc, col)->atttypid)),
			 errhint("Use mtpower_blink, or for text a column or an operator class with "
					 "COLLATE \"C\".")));
}

MtpZoneInfo *
mtp_zone_info(Relation index)
{
	MtpZoneInfo *info = index->rd_amcache;
	MtpZoneInfo made;

	if (info != NULL)
		return info;
	made.natts = IndexRelationGetNumberOfKeyAttributes(index);
	made.fanout = (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(MtpZoneTail))) /
		(made.natts * (sizeof(MtpZone) + 1));
	for (int i = 0; i < made.natts; i++)
	{
		/* The C library's C.UTF-8 may come to order text in another way; C never does. */
		made.codes[i] = mtp_norm_kind(index_getprocid(index, i + 1, BTORDER_PROC),
									  index->rd_indcollation[i]);
		if (made.codes[i] == MTP_NORM_NONE)
			refuse_column(index, i);
	}
	index->rd_amcache = MemoryContextAlloc(index->rd_indexcxt, sizeof(made));
	memcpy(index->rd_amcache, &made, sizeof(made));
	return index->rd_amcache;
}

static inline MtpZone *
zones_of(const MtpZoneInfo *info, Page page, uint32 slot)
{
	return (MtpZone *) PageGetContents(page) + (Size) slot * info->natts;
}

uint8 *
mtp_zone_flags(const MtpZoneInfo *info, Page page, uint32 slot)
{
	return (uint8 *) zones_of(info, page, info->fanout) + (Size) slot * info->natts;
}

void
mtp_zone_page_init(Page page, int natts, int level)
{
	PageInit(page, BLCKSZ, sizeof(MtpZoneTail));
	MtpZoneTailOf(page)->level = level;
	MtpZoneTailOf(page)->natts = natts;
	MtpZoneTailOf(page)->page_id = MTP_ZONE_PAGE_ID;

	/* All of the page is used, so records leave no hole out. */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
}

void
mtp_zone_meta_init(Page page, int natts, int height)
{
	mtp_zone_page_init(page, natts, 0);
	*MtpZoneMetaOf(page) = (MtpZoneMeta)
	{
		.magic = MTP_ZONE_MAGIC,.version = MTP_ZONE_VERSION,.natts = natts,.height = height
	};
}

void
mtp_zone_check_page(Relation index, Buffer buf, int level)
{
	Page		page = BufferGetPage(buf);

	if (PageGetSpecialSize(page) == MAXALIGN(sizeof(MtpZoneTail)) &&
		MtpZoneTailOf(page)->page_id == MTP_ZONE_PAGE_ID &&
		MtpZoneTailOf(page)->level == level &&
		MtpZoneTailOf(page)->natts == mtp_zone_info(index)->natts)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted at block %u", RelationGetRelationName(index),
					BufferGetBlockNumber(buf)),
			 errdetail("The block is not a page of level %d of an mtpower_zone index.", level),
			 errhint("Please REINDEX it.")));
}

void
mtp_zone_clear(const MtpZoneInfo *info, MtpZoneEntry *entry)
{
	memset(entry->zones, 0, info->natts * sizeof(MtpZone));
	memset(entry->flags, 0, info->natts);
}

void
mtp_zone_widest(const MtpZoneInfo *info, MtpZoneEntry *entry)
{
	memset(entry->zones, 0xFF, info->natts * sizeof(MtpZone));
	memset(entry->flags, MTP_ZONE_NULLS, info->natts);
}

void
mtp_zone_add_row(const MtpZoneInfo *info, MtpZoneEntry *entry, const Datum *values,
				 const bool *isnull)
{
	for (int i = 0; i < info->natts; i++)
	{
		MtpZone    *zone = &entry->zones[i];
		uint64		norm;

		if (isnull[i])
		{
			entry->flags[i] |= MTP_ZONE_NULLS;
			continue;
		}
		norm = mtp_norm_value(info->codes[i], values[i]);
		zone->high = Max(zone->high, norm);
		zone->notlow = Max(zone->notlow, ~norm);
	}
}

/* Widens zones and flags by others. */
static void
widen(const MtpZoneInfo *info, MtpZone *zones, uint8 *flags, const MtpZone *by,
	  const uint8 *by_flags)
{
	for (int i = 0; i < info->natts; i++)
	{
		zones[i].high = Max(zones[i].high, by[i].high);
		zones[i].notlow = Max(zones[i].notlow, by[i].notlow);
		flags[i] |= by_flags[i] & MTP_ZONE_NULLS;
	}
}

void
mtp_zone_add(const MtpZoneInfo *info, MtpZoneEntry *to, const MtpZoneEntry *entry)
{
	widen(info, to->zones, to->flags, entry->zones, entry->flags);
}

void
mtp_zone_put(const MtpZoneInfo *info, Page page, uint32 slot, const MtpZoneEntry *entry)
{
	uint8	   *flags = mtp_zone_flags(info, page, slot);

	widen(info, zones_of(info, page, slot), flags, entry->zones, entry->flags);
	if (MtpZoneTailOf(page)->level == 0)
		*flags |= entry->flags[0] & MTP_ZONE_DUE;
}

void
mtp_zone_get(const MtpZoneInfo *info, Page page, uint32 slot, MtpZoneEntry *entry)
{
	memcpy(entry->zones, zones_of(info, page, slot), info->natts * sizeof(MtpZone));
	memcpy(entry->flags, mtp_zone_flags(info, page, slot), info->natts);
}

void
mtp_zone_set(const MtpZoneInfo *info, Page page, uint32 slot, const MtpZoneEntry *entry)
{
	memcpy(zones_of(info, page, slot), entry->zones, info->natts * sizeof(MtpZone));
	memcpy(mtp_zone_flags(info, page, slot), entry->flags, info->natts);
}

bool
mtp_zone_covers(const MtpZoneInfo *info, Page page, uint32 slot, const MtpZoneEntry *entry)
{
	const MtpZone *zones = zones_of(info, page, slot);
	const uint8 *flags = mtp_zone_flags(info, page, slot);

	for (int i = 0; i < info->natts; i++)
		if (zones[i].high < entry->zones[i].high || zones[i].notlow < entry->zones[i].notlow ||
			(entry->flags[i] & MTP_ZONE_NULLS & ~flags[i]) != 0)
			return false;
	return true;
}

bool
mtp_zone_is_empty(const MtpZoneInfo *info, Page page, uint32 slot)
{
	const MtpZone *zones = zones_of(info, page, slot);
	const uint8 *flags = mtp_zone_flags(info, page, slot);

	for (int i = 0; i < info->natts; i++)
		if (zones[i].high != 0 || zones[i].notlow != 0 || flags[i] != 0)
			return false;
	return true;
}

bool
mtp_zone_sum(const MtpZoneInfo *info, Page page, MtpZoneEntry *entry)
{
	uint8		open = 0;

	mtp_zone_clear(info, entry);
	for (uint32 slot = 0; slot < info->fanout; slot++)
	{
		const uint8 *flags = mtp_zone_flags(info, page, slot);

		widen(info, entry->zones, entry->flags, zones_of(info, page, slot), flags);
		open |= flags[0] & MTP_ZONE_OPEN;
	}
	return open == 0;
}
