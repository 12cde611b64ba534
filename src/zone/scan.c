/*
 * scan.c
 *	  Finds the pairs of pages whose intervals can hold a row that a scan looks for.
 */
#include "zone/zone.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "core/compat.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* What a scan wants of a column */
typedef struct Wanted
{
	bool		value;			/* one that is not null … */
	uint64		low;			/* … from here … */
	uint64		high;			/* … to here */
	bool		null;
} Wanted;

typedef struct ZoneScan
{
	MtpZoneInfo info;			/* a copy: the relcache's may go meanwhile */
	Relation	heap;
	BlockNumber length;			/* of the table, when the scan began */
	bool		nothing;		/* no row can match */
	Wanted		wanted[INDEX_MAX_KEYS];
} ZoneScan;

IndexScanDesc
mtp_zone_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	ZoneScan   *so = palloc0(sizeof(ZoneScan));

	so->info = *mtp_zone_info(index);
	so->heap = table_open(index->rd_index->indrelid, AccessShareLock);
	scan->opaque = so;
	return scan;
}

/* Narrows what is wanted of a column by a clause. */
static void
narrow(ZoneScan *so, Relation index, ScanKey key)
{
	int			col = key->sk_attno - 1;
	Wanted	   *w = &so->wanted[col];
	uint8		kind = so->info.codes[col];
	uint64		norm;

	if (key->sk_flags & SK_ISNULL)
	{
		if (key->sk_flags & SK_SEARCHNULL)
			w->null = true;
		else if (key->sk_flags & SK_SEARCHNOTNULL)
			w->value = true;
		else
			so->nothing = true; /* operators are strict */
		return;
	}
	w->value = true;
	if (OidIsValid(key->sk_subtype) && key->sk_subtype != index->rd_opcintype[col])
		kind = mtp_norm_probe_kind(kind, key->sk_subtype);
	if (kind == MTP_NORM_NONE)
		return;					/* the rows are asked */
	norm = mtp_norm_datum(kind, key->sk_argument, false);
	if (key->sk_strategy == BTEqualStrategyNumber || key->sk_strategy == BTLessStrategyNumber ||
		key->sk_strategy == BTLessEqualStrategyNumber)
		w->high = Min(w->high, norm);
	if (key->sk_strategy == BTEqualStrategyNumber || key->sk_strategy == BTGreaterStrategyNumber ||
		key->sk_strategy == BTGreaterEqualStrategyNumber)
		w->low = Max(w->low, norm);
}

void
mtp_zone_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	ZoneScan   *so = scan->opaque;

	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	so->nothing = false;
	memset(so->wanted, 0, sizeof(so->wanted));
	for (int i = 0; i < so->info.natts; i++)
		so->wanted[i].high = PG_UINT64_MAX;
	for (int i = 0; i < scan->numberOfKeys; i++)
		narrow(so, scan->indexRelation, &scan->keyData[i]);
	for (int i = 0; i < so->info.natts; i++)
		if ((so->wanted[i].null && so->wanted[i].value) || so->wanted[i].low > so->wanted[i].high)
			so->nothing = true;
}

/* True if rows of an entry may match. */
static bool
may_match(const ZoneScan *so, const MtpZoneEntry *entry)
{
	if (entry->flags[0] & MTP_ZONE_OPEN)
		return true;
	for (int i = 0; i < so->info.natts; i++)
	{
		const Wanted *w = &so->wanted[i];
		const MtpZone *zone = &entry->zones[i];
		bool		empty = zone->high < ~zone->notlow;

		if (w->null && !(entry->flags[i] & MTP_ZONE_NULLS))
			return false;
		if (w->value && (empty || zone->high < w->low || ~zone->notlow > w->high))
			return false;

		/* Without a clause on the column, there must be rows at least. */
		if (empty && !(entry->flags[i] & MTP_ZONE_NULLS))
			return false;
	}
	return true;
}

/* Puts the pages of a pair that the table has into the bitmap; returns how many. */
static int
put_pair(const ZoneScan *so, uint32 pair, TIDBitmap *bitmap)
{
	int			n = 0;

	for (BlockNumber i = 0; i < MTP_ZONE_BLOCKS; i++)
		if (pair * MTP_ZONE_BLOCKS + i < so->length)
		{
			tbm_add_page(bitmap, pair * MTP_ZONE_BLOCKS + i);
			n++;
		}
	return n;
}

/*
 * Takes what matches below a page, which is not locked while the pages below it are read: what is
 * there now was there when the scan's snapshot was taken, on all levels (invariant Z1).
 */
static int64
visit(IndexScanDesc scan, int level, uint32 number, TIDBitmap *bitmap)
{
	ZoneScan   *so = scan->opaque;
	Buffer		buf = mtp_zone_read(scan->indexRelation, level, number, BUFFER_LOCK_SHARE);
	uint32	   *found;
	int			nfound = 0;
	int64		pages = 0;

	CHECK_FOR_INTERRUPTS();
	if (!BufferIsValid(buf))
		return 0;
	found = palloc(so->info.fanout * sizeof(uint32));
	for (uint32 slot = 0; slot < so->info.fanout; slot++)
	{
		MtpZoneEntry entry;

		mtp_zone_get(&so->info, BufferGetPage(buf), slot, &entry);
		if (may_match(so, &entry))
			found[nfound++] = number * so->info.fanout + slot;
	}
	UnlockReleaseBuffer(buf);
	for (int i = 0; i < nfound; i++)
		pages += level == 0 ? put_pair(so, found[i], bitmap) :
			visit(scan, level - 1, found[i], bitmap);
	pfree(found);
	return pages;
}

/* Returns a number of rows that is a guess, since they are not looked at. */
int64
mtp_zone_getbitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	ZoneScan   *so = scan->opaque;
	int			height;

	mtp_zone_flush(scan->indexRelation);
	pgstat_count_index_scan(scan->indexRelation);
	MtpCountSearch(scan);
	if (so->nothing)
		return 0;
	UnlockReleaseBuffer(mtp_zone_read_meta(scan->indexRelation, BUFFER_LOCK_SHARE, &height));
	so->length = RelationGetNumberOfBlocks(so->heap);
	return 10 * visit(scan, height, 0, bitmap);
}

void
mtp_zone_endscan(IndexScanDesc scan)
{
	ZoneScan   *so = scan->opaque;

	table_close(so->heap, AccessShareLock);
	pfree(so);
}
