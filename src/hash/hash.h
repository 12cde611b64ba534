/*
 * hash.h
 *	  The linear hash index: what its files share.
 *
 * README.md has the algorithm, the order of locks, and why it is right.
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

/* reloptions */
typedef struct MtpHashOptions
{
	int32		vl_len_;
	int			fillfactor;
	int			initial_buckets;	/* 0: as the rows need them */
} MtpHashOptions;

/* options.c: what the index was given, or the default. */
extern int	mtp_hash_fillfactor(Relation rel);
extern int	mtp_hash_initial_buckets(Relation rel);

/*
 * Address space.  M = initial, N = level, P0 = next, S = M << N, B = S + P0 = nbuckets.
 *
 * A spread hash h stands for the fraction h / 2^32.  x = h * M has the bucket of level 0, r, in its
 * upper 32 bits, and in its lower ones a fraction whose first N bits, read backwards, say which of the
 * 2^N buckets that r was split into: number = r + M * reverse(first N bits).  So bucket p of level N is
 * split into p and p + S, as in linear hashing with key mod (2^N * M), where the key is
 * r + M * reverse(fraction); and a bucket's hashes are an interval at every level: the order of
 * hashes is the order of buckets however many there are, so entries are sorted by hash alone.
 */
typedef struct MtpHashSpace
{
	uint32		initial;		/* M >= 1 */
	uint32		level;			/* N */
	uint32		next;			/* P0 < S */
} MtpHashSpace;

static inline uint32
mtp_hash_space_size(const MtpHashSpace *s)
{
	return (s->initial << s->level) + s->next;
}

/* space.c: pure functions */

/* Bijective: spreads whatever the operator class's hash function gives over 32 bits (murmur3's finalizer). */
extern uint32 mtp_hash_spread(uint32 hash);

/* The bucket of a spread hash. */
extern uint32 mtp_hash_space_bucket(const MtpHashSpace *s, uint32 hash);

/* The hashes of a bucket, both ends included. */
extern void mtp_hash_space_interval(const MtpHashSpace *s, uint32 bucket, uint32 *lo, uint32 *hi);

/* One split: P0 becomes P0 and P0 + S.  Returns the bucket that is split; the new one has number B. */
extern uint32 mtp_hash_space_grow(MtpHashSpace *s);

/*
 * The metapage.  Buckets lie in extents of consecutive blocks: extent i holds the buckets from its
 * first to the next one's, and a bucket never moves.  An extent is at least a sixteenth of the buckets
 * before it, so there are never many.
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
	bool		fixed;			/* M was given; else it is chosen as long as the index is one page */
	uint32		per_bucket;		/* K * b: entries per bucket from which on the index grows */
	uint64		entries;		/* about; exact after a build and VACUUM */
	uint32		reserved;		/* buckets that the extents have room for */
	uint32		nextents;
	MtpHashExtent extents[MTP_HASH_MAX_EXTENTS];
} MtpHashMeta;

#define MtpHashMetaOf(page) \
	((MtpHashMeta *) ((char *) (page) + MAXALIGN(MTP_HEADER_AT + sizeof(MtpHashHeader))))

/* meta.c */

/* The metapage. */
extern void mtp_hash_meta_init(Page page, const MtpHashMeta *meta);

/* Copies the metapage as it is now, for who is going to change the index; the caller holds no lock on it. */
extern void mtp_hash_copy_meta(Relation rel, MtpHashMeta *meta);

/*
 * The count of entries on the metapage, a hint, has been changed; the caller has it locked exclusively.  Where nothing is logged
 * MarkBufferDirtyHint() may leave a page clean that would need an image in the WAL: the file of a transaction's own with wal_level =
 * minimal.  All that the transaction has counted would be lost with the page.
 */
extern void mtp_hash_count_changed(Relation rel, Buffer metabuf);

/*
 * This backend's copy of the metapage, in the relcache (rd_amcache); may be old, never wrong about where a
 * bucket lies, and what it says about a hash's bucket is checked by the bucket's page.  fresh: read anew.
 */
extern const MtpHashMeta *mtp_hash_meta(Relation rel, bool fresh);

/* The block of a bucket's primary page; bucket < reserved. */
extern BlockNumber mtp_hash_block(const MtpHashMeta *meta, uint32 bucket);

/*
 * The primary page of the bucket that a hash belongs to, locked (shared or exclusively), and so far checked that it can be
 * read: reads the cached metapage, and again if the page says that it has been split since.
 */
extern Buffer mtp_hash_find(Relation rel, uint32 hash, int lock);

/* page.c */

/* ERROR with a hint to REINDEX unless the buffer holds a page of the wanted kind (a bit mask of 1 << type - 16). */
#define MTP_HASH_WANT_META		(1 << 0)
#define MTP_HASH_WANT_BUCKET	(1 << 1)
#define MTP_HASH_WANT_STASH		(1 << 2)
#define MTP_HASH_WANT_FREE		(1 << 3)
extern void mtp_hash_check_page(Relation rel, Buffer buf, int want);

/* Entry i of a locked page, with a TID that can be a row's. */
static inline MtpHashEntry *
mtp_hash_entry(Relation rel, Buffer buf, int i)
{
	MtpHashEntry *e = MtpHashEntryAt(BufferGetPage(buf), i);

	if (unlikely(!mtp_tid_possible(&e->tid)))
		mtp_tid_fail(rel, BufferGetBlockNumber(buf));
	return e;
}

/* ERROR if the index has no such block: before it is read. */
extern void mtp_hash_check_block(Relation rel, BlockNumber blkno);

/*
 * Reads and locks (BUFFER_LOCK_*; or no lock: BUFFER_LOCK_UNLOCK) a page, and checks it when locked.  The caller releases
 * the buffer.  ERROR if this process has the page locked already, which only damaged links bring about.
 */
extern Buffer mtp_hash_read(Relation rel, BlockNumber blkno, int lock, int want, BufferAccessStrategy strategy);

/* The page reserved for a bucket that the index does not have yet, exclusively locked. */
extern Buffer mtp_hash_read_reserved(Relation rel, const MtpHashMeta *meta, uint32 bucket);

/*
 * Tells a walk along a bucket's chains (zeroes to begin with) of each page; raises an error if damaged links lead in a
 * circle, after a few times round at most.
 */
extern void mtp_hash_walk_step(Relation rel, MtpWalk *w, BlockNumber blkno);

/* A page for new content, exclusively locked: free (all readers gone) or new.  Like mtp_blink_alloc. */
extern Buffer mtp_hash_alloc(Relation rel);

/* keys.c: the columns' hashes */

/*
 * The spread hash of an index row: column hashes combined, a NULL counting as a constant.  False if the
 * first column is NULL: such rows are left out.
 */
extern bool mtp_hash_row(Relation index, const Datum *values, const bool *isnull, uint32 *hash);

/*
 * The spread hash that the scan keys ask for.  False if they don't have an equality for every column
 * (then the scan must walk all buckets), *none if one of them compares with NULL (nothing can match).
 * Cross-type operators are hashed by the hash function of their right side's type.
 */
extern bool mtp_hash_keys(Relation index, ScanKey keys, int nkeys, uint32 *hash, bool *none);

/*
 * Single entries are counted on the metapage in steps of so many, by whoever brings a page's number to a multiple of it: a
 * lock on the metapage for each entry would have all inserters queue up there.
 */
#define MTP_HASH_COUNT_STEP		64

/* put.c: putting entries in */

typedef struct MtpHashPut
{
	Relation	rel;
	Relation	heap;			/* for reclaiming dead entries' room, or NULL */
	volatile uint32 *progress;	/* as MtpChange's, or NULL */
	int			touched;		/* out: pages that took entries */
	int			last_n;			/* out: entries on the page that took the last ones */
} MtpHashPut;

/*
 * Puts entries, which all belong to the bucket and are sorted by hash, in: on the primary page, then
 * on its stash, or on the chain of a heavy hash.  buf: the bucket's primary page, exclusively locked; stays
 * so.  One record per touched page, in which *progress advances.  May raise between records (no disk
 * space): what is in is in and counted.
 */
extern void mtp_hash_put(MtpHashPut *put, Buffer buf, int n, const MtpHashEntry *entries);

/* insert.c: a single entry; lets the index grow when it is due.  heap: as MtpHashPut's. */
extern void mtp_hash_insert(Relation rel, Relation heap, uint32 hash, ItemPointer tid);

/*
 * kill.c: room from entries that scans have marked dead, on one page of a bucket, exclusively locked; true if there is
 * more room.
 */
extern bool mtp_hash_reclaim(Relation rel, Relation heap, Buffer buf);

/* grow.c */

typedef struct MtpHashGrown
{
	uint32		splits;			/* buckets split */
	uint32		moved;			/* entries moved */
	const volatile bool *cancelled; /* becomes true when nobody needs the growth any more; or NULL */
} MtpHashGrown;

/*
 * Splits buckets until there are as many as `entries` entries more need, or until a bucket's cleanup lock is
 * not to be had at once.  The caller holds no lock on any page.  Adds `entries` to the metapage's count, unless
 * *counted says that this has been done; sets it.  After an error, and when *cancelled has become true, it has taken
 * them back.
 */
extern void mtp_hash_grow(Relation rel, uint32 entries, volatile uint32 *counted, const volatile bool *cancelled,
						  MtpHashGrown *grown);

/* wal_records.h and redo.c, redo_vacuum.c: replay */
extern void mtp_hash_redo_init(void);
extern void mtp_hash_redo_vacuum_init(void);

/* batch.c, build.c, vacuum.c, scan.c, cost.c, options.c, validate.c, handler.c */
extern void mtp_hash_batch_init(void);
extern void mtp_hash_inspect_init(void);
extern void mtp_hash_options_init(void);
extern void mtp_hash_init(void);
extern IndexBuildResult *mtp_hash_build(Relation heap, Relation index, struct IndexInfo *info);
extern void mtp_hash_build_empty(Relation index);
extern IndexBulkDeleteResult *mtp_hash_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
												  IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *mtp_hash_vacuumcleanup(IndexVacuumInfo *info,
													 IndexBulkDeleteResult *stats);
extern bool mtp_hash_validate(Oid opclass);

/* ambuild's first act: ERROR if a column's operator class has no usable hash function. */
extern void mtp_hash_check_support(Relation index);

extern bytea *mtp_hash_options(Datum reloptions, bool validate);
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
