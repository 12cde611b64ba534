/*
 * zone.h
 *	  Zone index: the least and the largest value of each column in every two pages of a table.
 *
 * README.md has the layout, the invariants (Z1 …) and why they hold.
 */
#ifndef MTP_ZONE_H
#define MTP_ZONE_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "page/norm.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#define MTP_ZONE_META		0
#define MTP_ZONE_MAGIC		0x5A4F4E45
#define MTP_ZONE_VERSION	1
#define MTP_ZONE_PAGE_ID	0xFF5A
#define MTP_ZONE_BLOCKS		2	/* of the table, in a pair */

/* Entries of a page, at most: of one column */
#define MTP_ZONE_FANOUT		(BLCKSZ / (sizeof(MtpZone) + 1))

/* Levels of pages, at most: 2^31 pairs by the smallest fanout */
#define MTP_ZONE_HEIGHT		12

/*
 * An interval of normalized keys, both ends included.  The lower end is stored as its complement:
 * so each number only grows when the interval widens, and zeros are an empty one.
 */
typedef struct MtpZone
{
	uint64		high;
	uint64		notlow;
} MtpZone;

/* Flags of an entry, for each column; the last two stand in the first column's */
#define MTP_ZONE_NULLS		0x01	/* there may be nulls */
#define MTP_ZONE_OPEN		0x02	/* VACUUM computes it: it matches everything */
#define MTP_ZONE_DUE		0x04	/* rows have gone, or will: VACUUM is to compute it */

/* An entry, while it is made */
typedef struct MtpZoneEntry
{
	MtpZone		zones[INDEX_MAX_KEYS];
	uint8		flags[INDEX_MAX_KEYS];
} MtpZoneEntry;

/*
 * The end of a page of entries.  Before it lie zones[fanout][natts], and flags[fanout][natts].
 */
typedef struct MtpZoneTail
{
	uint16		level;			/* 0: an entry is a pair of the table's pages */
	uint16		natts;
	uint16		unused;
	uint16		page_id;
} MtpZoneTail;

typedef struct MtpZoneMeta
{
	uint32		magic;
	uint32		version;
	uint32		natts;
	uint32		height;			/* the level of the root, which is page 0 of it */
} MtpZoneMeta;

#define MtpZoneMetaOf(page)	((MtpZoneMeta *) PageGetContents(page))
#define MtpZoneTailOf(page)	((MtpZoneTail *) PageGetSpecialPointer(page))

/* What is known of an index, in rd_amcache */
typedef struct MtpZoneInfo
{
	int			natts;
	uint32		fanout;			/* entries of a page */
	uint8		codes[INDEX_MAX_KEYS];	/* of normalized keys: norm.h */
} MtpZoneInfo;

/* ---------- page.c: entries ---------- */

/* The index's info.  Raises ERRCODE_FEATURE_NOT_SUPPORTED if a column has no normalized keys. */
extern MtpZoneInfo *mtp_zone_info(Relation index);

/* An empty page of entries, or a metapage */
extern void mtp_zone_page_init(Page page, int natts, int level);
extern void mtp_zone_meta_init(Page page, int natts, int height);

/* Raises ERRCODE_INDEX_CORRUPTED unless the page, locked and not new, is one of this level. */
extern void mtp_zone_check_page(Relation index, Buffer buf, int level);

/* Empties the entry; makes it as wide as can be; widens it by a row. */
extern void mtp_zone_clear(const MtpZoneInfo *info, MtpZoneEntry *entry);
extern void mtp_zone_widest(const MtpZoneInfo *info, MtpZoneEntry *entry);
extern void mtp_zone_add_row(const MtpZoneInfo *info, MtpZoneEntry *entry, const Datum *values,
							 const bool *isnull);

/* Widens the entry, or one of a page, by another. */
extern void mtp_zone_add(const MtpZoneInfo *info, MtpZoneEntry *to, const MtpZoneEntry *entry);
extern void mtp_zone_put(const MtpZoneInfo *info, Page page, uint32 slot,
						 const MtpZoneEntry *entry);

/* Reads and writes an entry of a page. */
extern void mtp_zone_get(const MtpZoneInfo *info, Page page, uint32 slot, MtpZoneEntry *entry);
extern void mtp_zone_set(const MtpZoneInfo *info, Page page, uint32 slot,
						 const MtpZoneEntry *entry);

/* True if an entry of a page is as wide as another, or wider. */
extern bool mtp_zone_covers(const MtpZoneInfo *info, Page page, uint32 slot,
							const MtpZoneEntry *entry);

/* All entries of a page in one; false if one of them is open. */
extern bool mtp_zone_sum(const MtpZoneInfo *info, Page page, MtpZoneEntry *entry);

/* True if an entry of a page is of no row, and has no flag. */
extern bool mtp_zone_is_empty(const MtpZoneInfo *info, Page page, uint32 slot);

/* The first column's flags of an entry */
extern uint8 *mtp_zone_flags(const MtpZoneInfo *info, Page page, uint32 slot);

/* ---------- space.c: where pages are ---------- */

/* The block of a level's page with this number */
extern BlockNumber mtp_zone_block(const MtpZoneInfo *info, int level, uint32 number);

/* How many entries of level 0 lie below one of this level */
extern uint64 mtp_zone_width(const MtpZoneInfo *info, int level);

/* The place of a pair's entry on a level: the page's number, and the slot */
extern uint32 mtp_zone_place(const MtpZoneInfo *info, int level, uint32 pair, uint32 *slot);

/* Makes the index long enough for a block. */
extern void mtp_zone_extend(Relation index, BlockNumber blkno);

/* The page, pinned and locked; InvalidBuffer if it is not there, or new, which is all empty. */
extern Buffer mtp_zone_read(Relation index, int level, uint32 number, int access);

/* The metapage, locked */
extern Buffer mtp_zone_read_meta(Relation index, int access, int *height);

/* ---------- rows.c: all versions of rows of a page ---------- */

typedef struct MtpZoneRows MtpZoneRows;

/* The heap is open, and the index; nothing else is held. */
extern MtpZoneRows *mtp_zone_rows_begin(Relation heap, Relation index,
										BufferAccessStrategy strategy);
extern void mtp_zone_rows_end(MtpZoneRows *rows);

/*
 * Widens an entry by the rows of a block, whose functions are called without any lock.  Where a row
 * is lost it becomes as wide as can be, and due; due also where rows will go without VACUUM's
 * asking for them.
 */
extern void mtp_zone_rows_add(MtpZoneRows *rows, BlockNumber blkno, MtpZoneEntry *entry);

/* ---------- search.c: pairs that may have matching rows ---------- */

/* What a search wants of a column */
typedef struct MtpZoneWanted
{
	bool		value;			/* one that is not null … */
	uint64		low;			/* … from here … */
	uint64		high;			/* … to here */
	bool		null;
} MtpZoneWanted;

/* Pairs from one up to another, without that */
typedef struct MtpZoneRun
{
	uint32		first;
	uint32		end;
} MtpZoneRun;

typedef struct MtpZoneSearch
{
	Relation	index;
	MtpZoneInfo info;			/* a copy: the relcache's may go meanwhile */
	bool		nothing;		/* no row can match */
	MtpZoneWanted wanted[INDEX_MAX_KEYS];

	/* What was found, in order */
	MtpZoneRun *runs;
	int			nruns;
	int			room;
	MemoryContext context;		/* of the runs: where the search was begun */
} MtpZoneSearch;

/*
 * Begins to search an open index, wanting all rows; wants them all again; and frees what was found.
 * narrow wants those alone that satisfy a clause: `column op value`, IS NULL, IS NOT NULL, as for
 * an index scan.
 */
extern void mtp_zone_search_init(MtpZoneSearch *search, Relation index);
extern void mtp_zone_search_want_all(MtpZoneSearch *search);
extern void mtp_zone_search_end(MtpZoneSearch *search);
extern void mtp_zone_search_narrow(MtpZoneSearch *search, const ScanKeyData *key);

/* The same for `column op ANY (values)`; the key's argument is not looked at. */
extern void mtp_zone_search_narrow_any(MtpZoneSearch *search, const ScanKeyData *key,
									   const Datum *values, const bool *nulls, int n);

/*
 * Finds the pairs, without a lock on the table's pages.  They have all rows that match and that are
 * seen by a snapshot which is older than the search; some may lie behind the table's end.
 */
extern void mtp_zone_search_run(MtpZoneSearch *search, Snapshot snapshot);

/* True if a value with this normalized key, or null, may be a wanted one. */
static inline bool
mtp_zone_wants(const MtpZoneWanted *w, uint64 norm, bool isnull)
{
	return isnull ? !w->value : !w->null && norm >= w->low && norm <= w->high;
}

/* ---------- cost.c ---------- */

struct IndexOptInfo;
struct IndexPath;
struct PlannerInfo;

/* True if an index is a zone index. */
extern bool mtp_zone_is(const struct IndexOptInfo *index);

/*
 * How many pairs a search by IndexClauses finds, at least 1: a guess, by a look at the index, which
 * the planner has locked.
 */
extern double mtp_zone_pairs(struct PlannerInfo *root, struct IndexOptInfo *index, List *clauses);

/* What a search costs that finds so many, if there are so many searches; and the pages it reads */
extern Cost mtp_zone_search_cost(struct IndexOptInfo *index, double found, double loop_count,
								 double *pages);

extern void mtp_zone_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
						  Cost *startup, Cost *total, Selectivity *selectivity,
						  double *correlation, double *pages);

/* ---------- the access method ---------- */

/*
 * insert.c: widens the entries of n pairs on all levels, from the root down (invariants Z1, Z2).
 * Those of level 0 stand on one page.  mtp_zone_insert does nothing if they are wide enough.
 */
extern void mtp_zone_insert(Relation index, uint32 pair, int n, const MtpZoneEntry *entries);
extern void mtp_zone_widen(Relation index, uint32 pair, int n, const MtpZoneEntry *entries);

/*
 * hold.c: widens the entries of a pair by a row, or by an entry, at the end of the statement at the
 * latest; puts in what is held of an index, before a scan of it.  due: if the entry of the pair is
 * not wide enough it becomes due.
 */
extern void mtp_zone_hold_row(Relation index, uint32 pair, const Datum *values,
							  const bool *isnull, bool due);
extern void mtp_zone_hold_entry(Relation index, uint32 pair, const MtpZoneEntry *by);
extern void mtp_zone_flush(Relation index);
extern void mtp_zone_hold_init(void);

/*
 * load.c: the table's access method has stored rows, or a batch of them whose index entries core
 * asks for next.
 */
extern void mtp_zone_rows_come(Relation heap, TupleTableSlot **slots, int n);
extern void mtp_zone_batch_comes(Relation heap, TupleTableSlot **slots, int n);

/*
 * True if the index has the row that core comes with.  Core does not come with this info again
 * until mtp_zone_loads_end().
 */
extern bool mtp_zone_has_row(Relation index, ItemPointer tid, struct IndexInfo *info);

/* Lets all go that are taken, which may be done at any time. */
extern void mtp_zone_loads_end(void);

extern IndexBuildResult *mtp_zone_build(Relation heap, Relation index, struct IndexInfo *info);
extern void mtp_zone_build_empty(Relation index);
extern char *mtp_zone_phase_name(int64 phase);
extern IndexScanDesc mtp_zone_beginscan(Relation index, int nkeys, int norderbys);
extern void mtp_zone_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
							int norderbys);
extern int64 mtp_zone_getbitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void mtp_zone_endscan(IndexScanDesc scan);
extern IndexBulkDeleteResult *mtp_zone_bulkdelete(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats,
												  IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *mtp_zone_vacuumcleanup(IndexVacuumInfo *info,
													 IndexBulkDeleteResult *stats);
extern void mtp_zone_inspect_init(void);
extern void mtp_zone_init(void);

#endif							/* MTP_ZONE_H */
