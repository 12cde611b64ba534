/*
 * vacuum.c
 *	  VACUUM of a zone index: entries whose rows have gone are computed anew.
 *
 * A scan marks the entries of pages with dead rows.  The cleanup, when these rows are gone, opens
 * the marked ones: it empties them, but scans take them for all that there is.  Then it reads the
 * rows, without a lock on the index, and closes the entries with what it found (invariant Z3).
 */
#include "zone/zone.h"

#include "access/generic_xlog.h"
#include "access/table.h"
#include "access/visibilitymap.h"
#include "commands/vacuum.h"
#include "core/compat.h"
#include "core/inject.h"
#include "index/vacuum.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

typedef struct Vacuum
{
	IndexVacuumInfo *info;
	Relation	index;
	Relation	heap;
	MtpZoneInfo zone;			/* a copy: the relcache's may go meanwhile */
	BlockNumber length;			/* of the table, at first */
	MtpZoneRows *rows;
} Vacuum;

static void
begin(Vacuum *v, IndexVacuumInfo *info)
{
	v->info = info;
	v->index = info->index;
	v->heap = table_open(info->index->rd_index->indrelid, AccessShareLock);
	v->zone = *mtp_zone_info(info->index);
	v->length = RelationGetNumberOfBlocks(v->heap);
}

/* ---------- rows that have gone ---------- */

/* True if VACUUM is about to remove a row of the pair.  An all-visible page has none. */
static bool
has_dead(Vacuum *v, uint32 pair, Buffer *map, IndexBulkDeleteCallback callback, void *state)
{
	for (BlockNumber i = 0; i < MTP_ZONE_BLOCKS; i++)
	{
		BlockNumber blkno = pair * MTP_ZONE_BLOCKS + i;

		if (blkno >= v->length || VM_ALL_VISIBLE(v->heap, blkno, map))
			continue;
		for (OffsetNumber off = FirstOffsetNumber; off <= MaxHeapTuplesPerPage; off++)
		{
			ItemPointerData tid;

			ItemPointerSet(&tid, blkno, off);
			if (callback(&tid, state))
				return true;
		}
	}
	return false;
}

/* Sets flags of slots of a page, which is locked exclusively, and empties the entries if `open`. */
static void
flag_entries(Vacuum *v, Buffer buf, int n, const uint32 *slots, bool open)
{
	GenericXLogState *state;
	Page		page;

	state = GenericXLogStart(v->index);
	page = GenericXLogRegisterBuffer(state, buf, 0);
	for (int i = 0; i < n; i++)
	{
		MtpZoneEntry empty;

		mtp_zone_clear(&v->zone, &empty);
		empty.flags[0] = MTP_ZONE_OPEN;
		if (open)
			mtp_zone_set(&v->zone, page, slots[i], &empty);
		else
			*mtp_zone_flags(&v->zone, page, slots[i]) |= MTP_ZONE_DUE;
	}
	GenericXLogFinish(state);
}

/* Marks the entries of level 0 whose pages have dead rows. */
static void
mark_page(Vacuum *v, uint32 number, Buffer *map, IndexBulkDeleteCallback callback, void *state)
{
	uint32	   *slots = palloc(v->zone.fanout * sizeof(uint32));
	int			n = 0;
	Buffer		buf;

	for (uint32 slot = 0; slot < v->zone.fanout; slot++)
		if (has_dead(v, number * v->zone.fanout + slot, map, callback, state))
			slots[n++] = slot;
	buf = n == 0 ? InvalidBuffer : mtp_zone_read(v->index, 0, number, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(buf))
	{
		flag_entries(v, buf, n, slots, false);
		UnlockReleaseBuffer(buf);
	}
	pfree(slots);
}

/* The pages of level 0 that the table can have. */
static uint32
pages_of(Vacuum *v)
{
	uint64		pairs = ((uint64) v->length + MTP_ZONE_BLOCKS - 1) / MTP_ZONE_BLOCKS;

	return (pairs + v->zone.fanout - 1) / v->zone.fanout;
}

IndexBulkDeleteResult *
mtp_zone_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					IndexBulkDeleteCallback callback, void *state)
{
	Vacuum		v = {0};
	Buffer		map = InvalidBuffer;

	/*
	 * CREATE INDEX CONCURRENTLY asks which rows the index has, to insert the others: it has none,
	 * so all are inserted, and the callback must not be told of any.
	 */
	if (!info->index->rd_index->indisvalid)
		return stats != NULL ? stats : palloc0(sizeof(IndexBulkDeleteResult));

	begin(&v, info);
	for (uint32 number = 0; number < pages_of(&v); number++)
	{
		MtpVacuumDelayPoint();
		mark_page(&v, number, &map, callback, state);
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	table_close(v.heap, AccessShareLock);
	return stats != NULL ? stats : palloc0(sizeof(IndexBulkDeleteResult));
}

/* ---------- what is left ---------- */

/* True if the entry is to be computed: it is marked or open, or it is behind the table's end. */
static bool
is_due(Vacuum *v, Page page, uint32 number, uint32 slot)
{
	uint64		blkno = ((uint64) number * v->zone.fanout + slot) * MTP_ZONE_BLOCKS;

	return (*mtp_zone_flags(&v->zone, page, slot) & (MTP_ZONE_DUE | MTP_ZONE_OPEN)) != 0 ||
		(blkno >= v->length && !mtp_zone_is_empty(&v->zone, page, slot));
}

/*
 * Closes an entry.  It is widened on all levels first, as by an inserter: what was read may be a
 * row whose inserter comes later, and then finds level 0 wide enough (invariant Z1).
 */
static void
close_entry(Vacuum *v, uint32 number, uint32 slot, const MtpZoneEntry *entry)
{
	GenericXLogState *state;
	Buffer		buf;
	uint8	   *flags;

	mtp_zone_widen(v->index, number * v->zone.fanout + slot, 1, entry);
	MTP_INJECT("zone_closes");
	buf = mtp_zone_read(v->index, 0, number, BUFFER_LOCK_EXCLUSIVE);
	state = GenericXLogStart(v->index);
	flags = mtp_zone_flags(&v->zone, GenericXLogRegisterBuffer(state, buf, 0), slot);
	*flags = (*flags & ~MTP_ZONE_OPEN) | (entry->flags[0] & MTP_ZONE_DUE);
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buf);
}

/* Opens, computes and closes the entries of a page of level 0; true if there were any. */
static bool
compute_page(Vacuum *v, uint32 number)
{
	Buffer		buf = mtp_zone_read(v->index, 0, number, BUFFER_LOCK_EXCLUSIVE);
	uint32	   *slots = palloc(v->zone.fanout * sizeof(uint32));
	MtpZoneEntry entry;
	int			n = 0;

	for (uint32 slot = 0; BufferIsValid(buf) && slot < v->zone.fanout; slot++)
		if (is_due(v, BufferGetPage(buf), number, slot))
			slots[n++] = slot;
	if (n > 0)
		flag_entries(v, buf, n, slots, true);
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
	MTP_INJECT("zone_opened");
	for (int i = 0; i < n; i++)
	{
		MtpVacuumDelayPoint();
		mtp_zone_clear(&v->zone, &entry);
		for (BlockNumber j = 0; j < MTP_ZONE_BLOCKS; j++)
		{
			BlockNumber blkno = (number * v->zone.fanout + slots[i]) * MTP_ZONE_BLOCKS + j;

			if (blkno < RelationGetNumberOfBlocks(v->heap))
				mtp_zone_rows_add(v->rows, blkno, &entry);
		}
		close_entry(v, number, slots[i], &entry);
	}
	pfree(slots);
	return n > 0;
}

/*
 * Computes the entry for a page of the level below, which stands on `page`, if that has changed and
 * has no open entry.  The page is locked exclusively, so nobody is between it and the one below.
 */
static bool
compute_parent(Vacuum *v, Page page, int level, uint32 number, uint32 slot)
{
	Buffer		below = mtp_zone_read(v->index, level - 1, number * v->zone.fanout + slot,
									  BUFFER_LOCK_SHARE);
	MtpZoneEntry all;
	MtpZoneEntry was;
	bool		closed = false;

	if (BufferIsValid(below))
	{
		closed = mtp_zone_sum(&v->zone, BufferGetPage(below), &all);
		UnlockReleaseBuffer(below);
	}
	mtp_zone_get(&v->zone, page, slot, &was);
	if (!closed || (memcmp(was.zones, all.zones, v->zone.natts * sizeof(MtpZone)) == 0 &&
					memcmp(was.flags, all.flags, v->zone.natts) == 0))
		return false;
	mtp_zone_set(&v->zone, page, slot, &all);
	return true;
}

/* Narrows the entries of a level's pages to what is below them; length: of the index. */
static void
compute_level(Vacuum *v, int level, BlockNumber length)
{
	for (uint32 number = 0; mtp_zone_block(&v->zone, level, number) < length; number++)
	{
		Buffer		buf = mtp_zone_read(v->index, level, number, BUFFER_LOCK_EXCLUSIVE);
		GenericXLogState *state;
		Page		page;
		bool		changed = false;

		if (!BufferIsValid(buf))
			continue;
		state = GenericXLogStart(v->index);
		page = GenericXLogRegisterBuffer(state, buf, 0);
		for (uint32 slot = 0; slot < v->zone.fanout; slot++)
			changed |= compute_parent(v, page, level, number, slot);
		if (changed)
			GenericXLogFinish(state);
		else
			GenericXLogAbort(state);
		UnlockReleaseBuffer(buf);
		MtpVacuumDelayPoint();
	}
}

/* Computes what is marked, level by level. */
static void
compute(Vacuum *v)
{
	int			height;
	bool		changed = false;
	BlockNumber length = mtp_index_length(v->index);

	UnlockReleaseBuffer(mtp_zone_read_meta(v->index, BUFFER_LOCK_SHARE, &height));
	v->rows = mtp_zone_rows_begin(v->heap, v->index, v->info->strategy);
	for (uint32 number = 0; mtp_zone_block(&v->zone, 0, number) < length; number++)
		changed |= compute_page(v, number);
	for (int level = 1; changed && level <= height; level++)
		compute_level(v, level, length);
	mtp_zone_rows_end(v->rows);
}

IndexBulkDeleteResult *
mtp_zone_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	Vacuum		v = {0};

	if (info->analyze_only)
		return stats;
	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	begin(&v, info);
	compute(&v);
	table_close(v.heap, AccessShareLock);
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	stats->num_index_tuples = info->num_heap_tuples;
	stats->estimated_count = info->estimated_count;
	return stats;
}
