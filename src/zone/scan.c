/*
 * scan.c
 *	  Bitmap scans: the pages of the pairs that a search finds, or where these are few the rows on
 *	  them whose values match.
 */
#include "zone/zone.h"

#include "access/table.h"
#include "core/compat.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/rel.h"
#include "zone/sift.h"

typedef struct ZoneScan
{
	MtpZoneSearch search;
	bool		sifts;
	Relation	heap;
	BlockNumber length;			/* of the table, or less: it grows meanwhile */
} ZoneScan;

IndexScanDesc
mtp_zone_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	ZoneScan   *so = palloc(sizeof(ZoneScan));

	mtp_zone_search_init(&so->search, index);
	so->heap = table_open(index->rd_index->indrelid, AccessShareLock);
	so->length = RelationGetNumberOfBlocks(so->heap);
	so->sifts = mtp_zone_can_sift(index);
	scan->opaque = so;
	return scan;
}

void
mtp_zone_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	ZoneScan   *so = scan->opaque;

	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	mtp_zone_search_want_all(&so->search);
	for (int i = 0; i < scan->numberOfKeys; i++)
		mtp_zone_search_narrow(&so->search, &scan->keyData[i]);
}

/* The runs, as the table's blocks, without those behind its end; returns how many blocks. */
static BlockNumber
clip(ZoneScan *so)
{
	BlockNumber blocks = 0;
	int			n = 0;

	for (int i = 0; i < so->search.nruns; i++)
	{
		MtpZoneRun *run = &so->search.runs[i];
		uint64		end = (uint64) run->end * MTP_ZONE_BLOCKS;

		/* The scan's lock keeps VACUUM from making the table shorter. */
		if (end > so->length)
			so->length = RelationGetNumberOfBlocks(so->heap);
		run->first *= MTP_ZONE_BLOCKS;
		run->end = Min(end, so->length);
		if (run->first >= run->end)
			break;
		blocks += run->end - run->first;
		n++;
	}
	so->search.nruns = n;
	return blocks;
}

/* Returns a number of rows that is a guess for pages that are not looked at. */
int64
mtp_zone_getbitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	ZoneScan   *so = scan->opaque;
	BlockNumber blocks;

	pgstat_count_index_scan(scan->indexRelation);
	MtpCountSearch(scan);
	mtp_zone_search_run(&so->search, scan->xs_snapshot);
	blocks = clip(so);
	if (so->sifts && blocks <= MTP_ZONE_SIFTED)
		return mtp_zone_sift(&so->search, so->heap, scan->xs_snapshot, bitmap);
	for (int i = 0; i < so->search.nruns; i++)
		for (BlockNumber block = so->search.runs[i].first; block < so->search.runs[i].end; block++)
		{
			CHECK_FOR_INTERRUPTS();
			tbm_add_page(bitmap, block);
		}
	return (int64) blocks * 10;
}

void
mtp_zone_endscan(IndexScanDesc scan)
{
	ZoneScan   *so = scan->opaque;

	table_close(so->heap, AccessShareLock);
	mtp_zone_search_end(&so->search);
	pfree(so);
}
