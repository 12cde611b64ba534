/*
 * hash.h
 *	  The linear hash index: what its files share.
 *
 * README.md has the algorithm, the invariants (H1 to H13) and the order of locks.
 */
#ifndef MTP_HASH_H
#define MTP_HASH_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "hash/bucket.h"
#include "storage/bufmgr.h"
#include "core/links.h"
#include "wal/wal.h"

#define MTP_HASH_META_BLOCK	0
#define MTP_HASH_MAGIC		0x4D545048	/* "MTPH" */
#define MTP_HASH_VERSION	1

#define MTP_HASH_FILLFACTOR		75
#define MTP_HASH_MIN_FILLFACTOR	10
#define MTP_HASH_MAX_BUCKETS	(UINT32_C(1) << 30)

typedef struct MtpHashOptions
{
	int32		vl_len_;
	int			fillfactor;
	int			initial_buckets;	/* 0: as many as the rows need */
} MtpHashOptions;

/*
 * Address space: M = initial, N = level, P0 = next, S = M << N, B = S + P0 buckets (README.md,
 * "The address space").  A split makes of bucket p of level N the buckets p and p + S.  A bucket's
 * hashes are an interval at every level (H2), so the order of hashes is the order of buckets, and
 * entries are sorted by hash alone.
 */
typedef struct MtpHashSpace
{
	uint32		initial;		/* M >= 1 */
	uint32		level;			/* N */
	uint32		next;			/* P0 < S */
} MtpHashSpace;

/* B.  Also of a metapage that nobody has checked: a damaged level may exceed 31. */
static inline uint32
mtp_hash_space_size(const MtpHashSpace *s)
{
	return (s->initial << (s->level & 31)) + s->next;
}

/* space.c: pure functions */

/* Spreads a hash function's result over 32 bits; bijective (murmur3's finalizer). */
extern uint32 mtp_hash_spread(uint32 hash);

/* The bucket of a spread hash. */
extern uint32 mtp_hash_space_bucket(const MtpHashSpace *s, uint32 hash);

/* The hashes of a bucket, both ends included. */
extern void mtp_hash_space_interval(const MtpHashSpace *s, uint32 bucket, uint32 *lo, uint32 *hi);

/* Splits P0 into P0 and P0 + S.  Returns P0; the new bucket has the number that B was. */
extern uint32 mtp_hash_space_grow(MtpHashSpace *s);

/*
 * The metapage.  Buckets lie in extents of consecutive blocks.  Extent i has the buckets from its
 * first to the next one's first, and a bucket never moves (H1).  An extent is at least a
 * sixteenth of the buckets before it, so there are never many.
 */
#define MTP_HASH_MAX_EXTENTS	440

typedef struct MtpHashExtent
{
	uint32		bucket;			/* first */
	BlockNumber block;			/* its block */
} MtpHashExtent;

typedef struct MtpHashMeta
{
	uint32		magic;
	uint32		version;
	MtpHashSpace space;
	bool		fixed;			/* M was given; else growth may choose it while B is 1 */
	uint32		per_bucket;		/* K * b: above so many entries per bucket the index grows */
	uint64		entries;		/* hint; exact after a build and VACUUM */
	uint32		reserved;		/* buckets that the extents have room for */
	uint32		nextents;
	MtpHashExtent extents[MTP_HASH_MAX_EXTENTS];
} MtpHashMeta;

#define MtpHashMetaOf(page) \
	((MtpHashMeta *) ((char *) (page) + MAXALIGN(MTP_HEADER_AT + sizeof(MtpHashHeader))))

/* meta.c */

/* Makes a metapage of what *meta says. */
extern void mtp_hash_meta_init(Page page, const MtpHashMeta *meta);

/* Copies the metapage, checked: a copy of the caller's own.  No lock stays. */
extern void mtp_hash_copy_meta(Relation rel, MtpHashMeta *meta);

/*
 * Adds n, which may be negative, to the metapage's count of entries.  True if the index is then
 * due for growth.  Locks the metapage; the caller may have a bucket's pages locked.
 */
extern bool mtp_hash_count(Relation rel, int64 n);

/* Marks the exclusively locked metapage dirty after a change of its count, which is a hint. */
extern void mtp_hash_count_changed(Relation rel, Buffer metabuf);

/*
 * This backend's copy of the metapage, in the relcache (rd_amcache).  It may be old, but is never
 * wrong about where a bucket lies (H1); the bucket's page tells whether it is right about a
 * hash's bucket (H3).  fresh: read anew.
 */
extern const MtpHashMeta *mtp_hash_meta(Relation rel, bool fresh);

/* The first bucket behind extent i. */
static inline uint32
mtp_hash_extent_end(const MtpHashMeta *meta, int i)
{
	return i + 1 < meta->nextents ? meta->extents[i + 1].bucket : meta->reserved;
}

/* The block of a bucket's primary page; bucket < reserved. */
extern BlockNumber mtp_hash_block(const MtpHashMeta *meta, uint32 bucket);

/*
 * Returns the primary page of the bucket that a hash belongs to, locked (BUFFER_LOCK_SHARE or
 * _EXCLUSIVE), and checked as far as readers rely on it.  Goes by the cached metapage, and by a
 * fresh one if the page says that it has been split since.
 */
extern Buffer mtp_hash_find(Relation rel, uint32 hash, int lock);

/* page.c */

/* Raises an error that the index is corrupted; the message follows, as errmsg()'s. */
#define mtp_hash_corrupted(...) \
	ereport(ERROR, \
			(errcode(ERRCODE_INDEX_CORRUPTED), \
			 errmsg(__VA_ARGS__), \
			 errhint("Please REINDEX it.")))

/* Raises an error unless the locked buffer holds a page of a wanted kind: a mask of these. */
#define MTP_HASH_WANT_META		(1 << 0)
#define MTP_HASH_WANT_BUCKET	(1 << 1)
#define MTP_HASH_WANT_STASH		(1 << 2)
#define MTP_HASH_WANT_FREE		(1 << 3)
extern void mtp_hash_check_page(Relation rel, Buffer buf, int want);

/* Entry i of a locked page; an error if its TID can't be a row's. */
static inline MtpHashEntry *
mtp_hash_entry(Relation rel, Buffer buf, int i)
{
	MtpHashEntry *e = MtpHashEntryAt(BufferGetPage(buf), i);

	if (unlikely(!mtp_tid_possible(&e->tid)))
		mtp_tid_fail(rel, BufferGetBlockNumber(buf), NULL, NULL);
	return e;
}

/* Raises an error if the index has no such block; called before a block is read. */
extern void mtp_hash_check_block(Relation rel, BlockNumber blkno);

/*
 * Reads a page, locks it (BUFFER_LOCK_UNLOCK: not) and, if locked, checks it.  The caller
 * releases the buffer.  Raises an error if this process has the page locked already: only damaged
 * links lead to that.
 */
extern Buffer mtp_hash_read(Relation rel, BlockNumber blkno, int lock, int want,
							BufferAccessStrategy strategy);

/* Returns the page reserved for a bucket that the index does not have yet, exclusively locked. */
extern Buffer mtp_hash_read_reserved(Relation rel, const MtpHashMeta *meta, uint32 bucket);

/*
 * Notes each page that a walk along a bucket's chains comes to; w begins as zeroes.  Raises an
 * error if damaged links lead in a circle, after a few times round at most.
 */
extern void mtp_hash_walk_step(Relation rel, MtpWalk *w, BlockNumber blkno);

/* Returns a free or new page for new content, exclusively locked. */
extern Buffer mtp_hash_alloc(Relation rel);

/* keys.c: the columns' hashes */

/* Computes the spread hash of an index row.  False if its first column is NULL: it is left out. */
extern bool mtp_hash_row(Relation index, const Datum *values, const bool *isnull, uint32 *hash);

/* batch.c: the order of entries in batches and builds, by their hashes; palloc'd. */
extern struct MtpOrder *mtp_hash_order(Relation index);

/* What a scan looks for. */
typedef enum MtpHashSearch
{
	MTP_HASH_ONE,				/* entries of one hash */
	MTP_HASH_ALL,				/* all entries: some column has no equality */
	MTP_HASH_NULLS,				/* rows whose first column is NULL, which have no entries */
	MTP_HASH_NONE				/* nothing: a key compares with NULL by an operator */
} MtpHashSearch;

/*
 * What the scan keys ask for; computes the spread hash of MTP_HASH_ONE.  The hash function of a
 * cross-type operator is that of its right side's type.  A key may be IS NULL, although the planner
 * makes none.
 */
extern MtpHashSearch mtp_hash_keys(Relation index, ScanKey keys, int nkeys, uint32 *hash);

/*
 * Single entries are counted on the metapage in steps of so many, by the inserter that brings a
 * page's number of entries to a multiple: with a lock for each entry all inserters would queue up
 * there.
 */
#define MTP_HASH_COUNT_STEP		64

/* put.c */

typedef struct MtpHashPut
{
	Relation	rel;
	Relation	heap;			/* judges dead entries for their room, or NULL */
	volatile uint32 *progress;	/* counts the entries that are in, as MtpChange's; or NULL */
	int			touched;		/* out: times that a page took entries */
	int			last_n;			/* out: entries on the page that took the last ones */
} MtpHashPut;

/*
 * Puts entries in that all belong to one bucket and are sorted by hash: on its primary page, on
 * its stash, or on a heavy hash's chain.  buf is the primary page, exclusively locked, and stays
 * so.  Each page's change is one record, in which *progress advances (H13).  An error between two
 * records (no disk space) leaves what is in, and counted.
 */
extern void mtp_hash_put(MtpHashPut *put, Buffer buf, int n, const MtpHashEntry *entries);

/* grow.c: inserts a single entry, and grows the index when that is due.  heap: as MtpHashPut's. */
extern void mtp_hash_insert(Relation rel, Relation heap, uint32 hash, ItemPointer tid);

/* delete_dead.c: deletes entries marked dead from a page, locked exclusively; true if any. */
extern bool mtp_hash_reclaim(Relation rel, Relation heap, Buffer buf);

/* squeeze.c */

/* A chain of stash pages behind a primary page: the stash, or that of a heavy hash. */
typedef struct MtpHashChain
{
	bool		heavy;
	uint32		hash;			/* if heavy */
	BlockNumber first;			/* when VACUUM came to the bucket */
	uint64		pages;			/* what VACUUM found, and left */
	uint64		entries;
} MtpHashChain;

/*
 * Puts a chain's entries on fewer pages where that is worth it, as far as scans let it.  Returns
 * how many pages it has freed.  The caller has the primary page pinned and holds no lock.
 */
extern BlockNumber mtp_hash_squeeze(Relation rel, Buffer primary, const MtpHashChain *chain,
									BufferAccessStrategy strategy);

/* grow.c */

typedef struct MtpHashGrown
{
	uint32		splits;			/* buckets split */
	uint32		moved;			/* entries moved */
	const volatile bool *cancelled; /* true once the growth has become useless; or NULL */
} MtpHashGrown;

/*
 * Splits buckets until there are as many as `entries` entries more need, or until a bucket's
 * cleanup lock is not to be had at once.  The caller holds no lock on any page.  Adds `entries`
 * to the metapage's count unless *counted says that this has been done, and sets *counted.  After
 * an error, or when *cancelled has become true, it has taken them back.
 */
extern void mtp_hash_grow(Relation rel, uint32 entries, volatile uint32 *counted,
						  const volatile bool *cancelled, MtpHashGrown *grown);

/* Called by _PG_init alone; mtp_hash_init calls the others. */
extern void mtp_hash_init(void);
extern void mtp_hash_redo_init(void);
extern void mtp_hash_batch_init(void);
extern void mtp_hash_inspect_init(void);

/* The access method's functions: build.c, vacuum.c, validate.c, cost.c, scan.c */
extern IndexBuildResult *mtp_hash_build(Relation heap, Relation index, struct IndexInfo *info);
extern void mtp_hash_build_empty(Relation index);
extern IndexBulkDeleteResult *mtp_hash_bulkdelete(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats,
												  IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *mtp_hash_vacuumcleanup(IndexVacuumInfo *info,
													 IndexBulkDeleteResult *stats);
extern bool mtp_hash_validate(Oid opclass);

/* Raises an error if a column's operator class has no usable hash function. */
extern void mtp_hash_check_support(Relation index);

extern void mtp_hash_cost(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
						  Cost *startup, Cost *total, Selectivity *selectivity,
						  double *correlation, double *pages);
extern IndexScanDesc mtp_hash_beginscan(Relation rel, int nkeys, int norderbys);
extern void mtp_hash_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
							int norderbys);
extern bool mtp_hash_gettuple(IndexScanDesc scan, ScanDirection dir);
extern int64 mtp_hash_getbitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void mtp_hash_endscan(IndexScanDesc scan);
extern char *mtp_hash_phase_name(int64 phase);

#endif							/* MTP_HASH_H */
