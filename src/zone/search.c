/*
 * search.c
 *	  Finds the pairs of pages whose intervals can hold a row with certain values.
 */
#include "zone/zone.h"

#include "access/stratnum.h"
#include "core/compat.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

/* More runs than these are put together: what lies between is found as well. */
#define MOST_RUNS	(1 << 20)

void
mtp_zone_search_init(MtpZoneSearch *search, Relation index)
{
	search->index = index;
	search->info = *mtp_zone_info(index);
	search->runs = NULL;
	search->nruns = search->room = 0;
	search->context = CurrentMemoryContext;
	mtp_zone_search_want_all(search);
}

void
mtp_zone_search_want_all(MtpZoneSearch *search)
{
	search->nothing = false;
	for (int i = 0; i < search->info.natts; i++)
	{
		search->wanted[i].value = search->wanted[i].null = false;
		search->wanted[i].low = 0;
		search->wanted[i].high = PG_UINT64_MAX;
	}
}

/* Wants of a column what an operator's strategy takes of an interval of values. */
static void
want(MtpZoneSearch *search, const ScanKeyData *key, uint64 least, uint64 largest)
{
	MtpZoneWanted *w = &search->wanted[key->sk_attno - 1];

	w->value = true;
	if (key->sk_strategy <= BTEqualStrategyNumber)
		w->high = Min(w->high, largest);
	if (key->sk_strategy >= BTEqualStrategyNumber)
		w->low = Max(w->low, least);
	if (w->null || w->low > w->high)
		search->nothing = true;
}

/* The kind of the normalized keys that the clause's values have, if they compare */
static uint8
kind_of(const MtpZoneSearch *search, const ScanKeyData *key)
{
	int			col = key->sk_attno - 1;
	uint8		kind = search->info.codes[col];

	if (OidIsValid(key->sk_subtype) && key->sk_subtype != search->index->rd_opcintype[col])
		kind = mtp_norm_probe_kind(kind, key->sk_subtype);
	return kind;
}

void
mtp_zone_search_end(MtpZoneSearch *search)
{
	if (search->runs != NULL)
		pfree(search->runs);
	search->runs = NULL;
}

void
mtp_zone_search_narrow(MtpZoneSearch *search, const ScanKeyData *key)
{
	if ((key->sk_flags & SK_ISNULL) == 0)
		mtp_zone_search_narrow_any(search, key, &key->sk_argument, NULL, 1);
	else if (key->sk_flags & SK_SEARCHNULL)
	{
		search->wanted[key->sk_attno - 1].null = true;
		search->nothing |= search->wanted[key->sk_attno - 1].value;
	}
	else if (key->sk_flags & SK_SEARCHNOTNULL)
		want(search, key, 0, PG_UINT64_MAX);
	else
		search->nothing = true; /* operators are strict */
}

void
mtp_zone_search_narrow_any(MtpZoneSearch *search, const ScanKeyData *key, const Datum *values,
						   const bool *nulls, int n)
{
	uint8		kind = kind_of(search, key);
	uint64		least = PG_UINT64_MAX;
	uint64		largest = 0;
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		uint64		norm;

		if (nulls != NULL && nulls[i])
			continue;
		any = true;
		if (kind == MTP_NORM_NONE)
		{
			largest = PG_UINT64_MAX;	/* the rows are asked */
			least = 0;
			break;
		}
		norm = mtp_norm_datum(kind, values[i], false);
		least = Min(least, norm);
		largest = Max(largest, norm);
	}
	if (any)
		want(search, key, least, largest);
	else
		search->nothing = true;
}

/* True if rows of an entry may match. */
static bool
may_match(const MtpZoneSearch *search, const MtpZone *zones, const uint8 *flags)
{
	if (flags[0] & MTP_ZONE_OPEN)
		return true;
	for (int i = 0; i < search->info.natts; i++)
	{
		const MtpZoneWanted *w = &search->wanted[i];
		bool		empty = zones[i].high < ~zones[i].notlow;
		bool		nulls = (flags[i] & MTP_ZONE_NULLS) != 0;

		if (w->null && !nulls)
			return false;
		if (w->value && (empty || zones[i].high < w->low || zones[i].notlow < ~w->high))
			return false;

		/* Without a clause on the column, there must be rows at least. */
		if (empty && !nulls)
			return false;
	}
	return true;
}

/* True if no entry of a page is open. */
static bool
all_closed(const MtpZoneInfo *info, const uint8 *flags)
{
	Size		n = (Size) info->fanout * info->natts;
	Size		i = 0;
	uint64		any = 0;

	for (; i + sizeof(uint64) <= n; i += sizeof(uint64))
	{
		uint64		word;

		memcpy(&word, flags + i, sizeof(word));
		any |= word;
	}
	for (; i < n; i++)
		any |= flags[i];
	return (any & (MTP_ZONE_OPEN * (PG_UINT64_MAX / 0xFF))) == 0;
}

/*
 * Puts those slots into found[] whose intervals of a column reach into a wanted one; returns how
 * many.  Most are left by two comparisons each, four entries with one branch.
 */
static int
match_column(const MtpZone *zone, int natts, uint32 fanout, const MtpZoneWanted *w, uint16 *found)
{
	uint64		low = w->low;
	uint64		nothigh = ~w->high;
	uint32		slot = 0;
	int			n = 0;

#define REACHES(i) ((zone[(i) * natts].high >= low) & (zone[(i) * natts].notlow >= nothigh))
	for (; slot + 4 <= fanout; slot += 4, zone += 4 * natts)
	{
		if (!(REACHES(0) | REACHES(1) | REACHES(2) | REACHES(3)))
			continue;
		for (int i = 0; i < 4; i++)
			if (REACHES(i))
				found[n++] = slot + i;
	}
	for (; slot < fanout; slot++, zone += natts)
		if (REACHES(0))
			found[n++] = slot;
#undef REACHES
	return n;
}

/* Puts those slots of a page into found[] whose entries may match; returns how many. */
static int
match_page(const MtpZoneSearch *search, Page page, uint16 *found)
{
	const MtpZoneInfo *info = &search->info;
	const MtpZone *zones = (const MtpZone *) PageGetContents(page);
	const uint8 *flags = mtp_zone_flags(info, page, 0);
	int			natts = info->natts;
	int			ncandidates = 0;
	int			n = 0;
	int			col = 0;

	while (col < natts && !search->wanted[col].value)
		col++;
	if (col < natts && all_closed(info, flags))
		ncandidates = match_column(zones + col, natts, info->fanout, &search->wanted[col], found);
	else
		while (ncandidates < info->fanout)
		{
			found[ncandidates] = ncandidates;
			ncandidates++;
		}
	for (int i = 0; i < ncandidates; i++)
		if (may_match(search, zones + (Size) found[i] * natts, flags + (Size) found[i] * natts))
			found[n++] = found[i];
	return n;
}

static void
add_pair(MtpZoneSearch *search, uint32 pair)
{
	MtpZoneRun *last = search->nruns > 0 ? &search->runs[search->nruns - 1] : NULL;

	if (last != NULL && (last->end == pair || search->nruns == MOST_RUNS))
	{
		last->end = pair + 1;
		return;
	}
	if (search->nruns == search->room)
	{
		search->room = Max(8, search->room * 2);
		search->runs = search->runs == NULL ?
			MemoryContextAlloc(search->context, search->room * sizeof(MtpZoneRun)) :
			repalloc(search->runs, search->room * sizeof(MtpZoneRun));
	}
	search->runs[search->nruns].first = pair;
	search->runs[search->nruns++].end = pair + 1;
}

/*
 * Takes what matches below a page, which is not locked while the pages below it are read: what is
 * there now was there when the scan's snapshot was taken, on all levels (invariant Z1).
 */
static void
visit(MtpZoneSearch *search, Snapshot snapshot, int level, uint32 number)
{
	Buffer		buf;
	uint16		found[MTP_ZONE_FANOUT + 1];
	int			nfound;
	uint32		first = number * search->info.fanout;

	CHECK_FOR_INTERRUPTS();
	buf = mtp_zone_read(search->index, level, number, BUFFER_LOCK_SHARE);
	if (!BufferIsValid(buf))
		return;
	MtpTestForOldSnapshot(snapshot, search->index, BufferGetPage(buf));
	nfound = match_page(search, BufferGetPage(buf), found);
	UnlockReleaseBuffer(buf);
	for (int i = 0; i < nfound; i++)
		if (level == 0)
			add_pair(search, first + found[i]);
		else
			visit(search, snapshot, level - 1, first + found[i]);
}

void
mtp_zone_search_run(MtpZoneSearch *search, Snapshot snapshot)
{
	int			height;

	search->nruns = 0;
	mtp_zone_flush(search->index);
	if (search->nothing)
		return;
	UnlockReleaseBuffer(mtp_zone_read_meta(search->index, BUFFER_LOCK_SHARE, &height));
	visit(search, snapshot, height, 0);
}
