/*
 * compat.h
 *	  Every difference between PostgreSQL's major versions that takes a few lines.
 *
 * One block for each release that changed something, and the functions behind them.  Where a
 * release has a mechanism of its own, a file is named for it, as blink/scan_keys_17.c is.
 */
#ifndef MTP_COMPAT_H
#define MTP_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM / 10000 == 16 || PG_VERSION_NUM >= 190000
#error "mtpower needs PostgreSQL 15, 17 or 18"
#endif

#include "access/amapi.h"
#include "access/heapam.h"
#include "storage/bufmgr.h"
#include "utils/pg_locale.h"
#include "utils/wait_event.h"

/* The server that mtpower is built for, where a file notes it */
#define MTP_SERVER_VERSION PG_VERSION_NUM

/*
 * PostgreSQL 16 renamed relfilenodes to relation file locators, folded the owner checks of the
 * object classes into one function, let tuplesort_getdatum() return a reference into its own memory
 * (15 always copies), added the argument isCatalogRel to recovery conflicts (an index of ours is
 * never on a catalog), made a function of the buffer tag macro, told of updates whose indexes
 * summarize, and let a custom scan choose its slot, which is a virtual one before.
 *
 * PostgreSQL 17 made pg_attribute.attstattarget a nullable int2, gave old_snapshot_threshold up
 * (before, readers test for it on each page), numbered processes anew (MtpMyBackend is this one's
 * slot in arrays of MaxBackends entries), has nbtree's functions that may log that a page is used
 * again take the table too, gave wait events of extensions names of their own, added the argument
 * that lets stronger locks count, renamed the ICU columns of the collations' catalogs,
 * has nbtree advance arrays on the leaf (blink/scan_keys_17.c), and asks the planner for workers of
 * any index's build whose access method wants them.  Before, it asks for btree's only, so the build
 * asks for itself: with the same locks, and as the table's owner, whose expressions they are.
 */
#if PG_VERSION_NUM >= 170000
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "storage/read_stream.h"
#include "storage/relfilelocator.h"
#include "utils/relfilenumbermap.h"
#include "varatt.h"
typedef RelFileLocator MtpLocator;
typedef TU_UpdateIndexes MtpUpdateIndexes;
#define MtpLocatorEquals(a, b) RelFileLocatorEquals(a, b)
#define MtpRelLocator(rel) ((rel)->rd_locator)
#define MtpLocatorSpace(l) ((l).spcOid)
#define MtpLocatorDatabase(l) ((l).dbOid)
#define MtpLocatorFile(l) ((l).relNumber)
#define MtpOwnsRelation(relid, roleid) object_ownercheck(RelationRelationId, relid, roleid)
#define MtpDatabaseOwner(dbid) object_ownercheck(DatabaseRelationId, dbid, GetUserId())
#define MtpTuplesortGetDatum(sort, val, isnull) \
	tuplesort_getdatum(sort, true, true, val, isnull, NULL)
#define MtpResolveSnapshotConflict(horizon, locator) \
	ResolveRecoveryConflictWithSnapshot(horizon, false, locator)
#define MtpResolveSnapshotConflictFullXid(horizon, locator) \
	ResolveRecoveryConflictWithSnapshotFullXid(horizon, false, locator)
#define MtpInitBufferTag(tag, locator, fork, blkno) InitBufferTag(tag, &(locator), fork, blkno)
#define MTP_CUSTOM_SLOT_IS_VIRTUAL 0
#define MtpSetCustomSlot(css, ops) ((css)->slotOps = (ops))
#define MtpDatumGetStatTarget(d) DatumGetInt16(d)
#define MtpTestForOldSnapshot(snapshot, rel, page) ((void) 0)
#define MtpSnapshotsAge() false
#define MtpMyBackend() (MyProcNumber)
#define MtpWaitEventNew(name) WaitEventExtensionNew(name)
#define MtpLockHeldByMe(tag, mode) LockHeldByMe(tag, mode, false)
#define MTP_ARRAYS_ON_LEAF 1
#define MtpBtreeSearch(rel, heap, key, buf, access) _bt_search(rel, heap, key, buf, access)
#define MtpBtreeNewPage(rel, heap) _bt_allocbuf(rel, heap)
#define MtpBtreeFinishSplit(rel, heap, buf, stack) _bt_finish_split(rel, heap, buf, stack)
#define MtpBuildInParallel(am) ((am)->amcanbuildparallel = true)
#define MtpSummarizes(am) ((am)->amsummarizing = true)
#define MtpBuildWorkers(info, heap, index) ((info)->ii_ParallelWorkers)
#else
#include "storage/lmgr.h"
#include "storage/relfilenode.h"
#include "utils/relfilenodemap.h"
typedef RelFileNode MtpLocator;
typedef bool MtpUpdateIndexes;
#define MtpLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define MtpRelLocator(rel) ((rel)->rd_node)
#define MtpLocatorSpace(l) ((l).spcNode)
#define MtpLocatorDatabase(l) ((l).dbNode)
#define MtpLocatorFile(l) ((l).relNode)
#define RelidByRelfilenumber(space, number) RelidByRelfilenode(space, number)
#define rd_newRelfilelocatorSubid rd_newRelfilenodeSubid
#define rd_firstRelfilelocatorSubid rd_firstRelfilenodeSubid
#define MtpOwnsRelation(relid, roleid) pg_class_ownercheck(relid, roleid)
#define MtpDatabaseOwner(dbid) pg_database_ownercheck(dbid, GetUserId())
#define MtpTuplesortGetDatum(sort, val, isnull) tuplesort_getdatum(sort, true, val, isnull, NULL)
#define MtpResolveSnapshotConflict(horizon, locator) \
	ResolveRecoveryConflictWithSnapshot(horizon, locator)
#define MtpResolveSnapshotConflictFullXid(horizon, locator) \
	ResolveRecoveryConflictWithSnapshotFullXid(horizon, locator)
#define MtpInitBufferTag(tag, locator, fork, blkno) INIT_BUFFERTAG(*(tag), locator, fork, blkno)
#define MTP_CUSTOM_SLOT_IS_VIRTUAL 1
#define MtpSetCustomSlot(css, ops) ((void) 0)
#define MtpDatumGetStatTarget(d) DatumGetInt32(d)
#define MtpSnapshotsAge() (old_snapshot_threshold >= 0)
#define MtpTestForOldSnapshot(snapshot, rel, page) TestForOldSnapshot(snapshot, rel, page)
#define MtpMyBackend() (MyBackendId - 1)
#define MtpWaitEventNew(name) ((void) (name), PG_WAIT_EXTENSION)
#define MtpLockHeldByMe(tag, mode) LockHeldByMe(tag, mode)
#define MTP_ARRAYS_ON_LEAF 0
#define MtpBtreeSearch(rel, heap, key, buf, access) _bt_search(rel, key, buf, access, NULL)
#define MtpBtreeNewPage(rel, heap) _bt_getbuf(rel, P_NEW, BT_WRITE)
#define MtpBtreeFinishSplit(rel, heap, buf, stack) _bt_finish_split(rel, buf, stack)
#define MtpBuildInParallel(am) ((void) 0)
#define MtpSummarizes(am) ((void) 0)
#define MtpBuildWorkers(info, heap, index) \
	plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index))
#define Anum_pg_database_datlocale Anum_pg_database_daticulocale
#define Anum_pg_collation_colllocale Anum_pg_collation_colliculocale
#endif

/*
 * PostgreSQL 18 tells VACUUM's delay point whether it is ANALYZE's, has other processes in front of
 * background workers' PGPROCs, asks a locale itself whether it is C, returns paths by value, counts
 * the searches of an index scan for EXPLAIN, moved what prints EXPLAIN's properties to a header of
 * its own and takes options of extensions there (explain/option_18.c), no longer tells the executor
 * whether a plan runs once, counts what is disabled in a path instead of adding to its cost, lets
 * a scan begin beside a value, and asks an index's access method for
 * what it took from btree and hash before: what its strategies mean, and whether its operators
 * agree with one another.  It has cumulative statistics of kinds that extensions register
 * (batch/stat_18.c).
 */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
typedef RelPathStr MtpPath;
#define MtpPathString(path) ((path).str)
#define MtpPathFree(path) ((void) 0)
#define MtpVacuumDelayPoint() vacuum_delay_point(false)
#define MtpFirstBgworkerProc (MaxConnections + autovacuum_worker_slots + NUM_SPECIAL_WORKER_PROCS)
#define MtpCollationIsC(collation) (pg_newlocale_from_collation(collation)->collate_is_c)
#define MTP_ONCE_PARAMETER
#define MTP_ONCE true
#define MTP_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "mtpower", .version = MTP_VERSION)
#define MtpBeOrdered(am, height) \
	((am)->amconsistentequality = (am)->amconsistentordering = true, \
	 (am)->amgettreeheight = (height), \
	 (am)->amtranslatestrategy = bttranslatestrategy, \
	 (am)->amtranslatecmptype = bttranslatecmptype)
#define MtpBeHash(am) \
	((am)->amcanhash = (am)->amconsistentequality = true, \
	 (am)->amtranslatestrategy = hashtranslatestrategy, \
	 (am)->amtranslatecmptype = hashtranslatecmptype)
#define MtpCountSearch(scan) \
	((scan)->instrument != NULL ? (void) (scan)->instrument->nsearches++ : (void) 0)
#define MtpCallExecutorRun(run, qd, direction, count, once) (run) (qd, direction, count)
#define MtpDisabledNodes(path) ((path)->disabled_nodes)
#define MTP_EXPLAIN_OPTIONS 1
#define MTP_OWN_STATISTICS 1
#define MtpNoTreeHeight(am) ((am)->amgettreeheight = NULL)
#else
typedef char *MtpPath;
#define pg_noreturn pg_attribute_noreturn()
#define MtpPathString(path) (path)
#define MtpPathFree(path) pfree(path)
#define MtpVacuumDelayPoint() vacuum_delay_point()
#define MtpFirstBgworkerProc (MaxConnections + autovacuum_max_workers + 1)
#define MtpCollationIsC(collation) lc_collate_is_c(collation)
#define BTSKIPSUPPORT_PROC 6	/* there is none */
#define SK_BT_NEXT 0
#define SK_BT_PRIOR 0
#define MTP_ONCE_PARAMETER , bool once
#define MTP_ONCE once
#define MTP_MODULE_MAGIC PG_MODULE_MAGIC
#define MtpBeOrdered(am, height) ((void) 0)
#define MtpBeHash(am) ((void) 0)
#define MtpCountSearch(scan) ((void) 0)
#define MtpCallExecutorRun(run, qd, direction, count, once) (run) (qd, direction, count, once)
#define MtpDisabledNodes(path) 0
#define MTP_EXPLAIN_OPTIONS 0
#define MTP_OWN_STATISTICS 0
#define MtpNoTreeHeight(am) ((void) 0)
#endif

/*
 * Extends a relation by a block of zeroes, and locks it exclusively before any other process can
 * see it.  Takes the relation's extension lock where another process might extend it too.
 */
static inline Buffer
mtp_extend_relation(Relation rel)
{
#if PG_VERSION_NUM >= 170000
	uint32		flags = EB_LOCK_FIRST;

	if (RELATION_IS_LOCAL(rel))
		flags |= EB_SKIP_EXTENSION_LOCK;
	return ExtendBufferedRel(BMR_REL(rel), MAIN_FORKNUM, NULL, flags);
#else
	bool		lock = !RELATION_IS_LOCAL(rel);
	Buffer		buf;

	if (lock)
		LockRelationForExtension(rel, ExclusiveLock);
	buf = ReadBuffer(rel, P_NEW);

	/* VACUUM takes the extension lock, so it sees no zero page that is not locked yet. */
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	if (lock)
		UnlockRelationForExtension(rel, ExclusiveLock);
	return buf;
#endif
}

/* The same, but nobody holds the new block's lock: for a caller that has locked others. */
static inline void
mtp_lengthen_relation(Relation rel)
{
	bool		lock = !RELATION_IS_LOCAL(rel);
#if PG_VERSION_NUM >= 170000
	ReleaseBuffer(ExtendBufferedRel(BMR_REL(rel), MAIN_FORKNUM, NULL,
									lock ? 0 : EB_SKIP_EXTENSION_LOCK));
#else
	if (lock)
		LockRelationForExtension(rel, ExclusiveLock);
	ReleaseBuffer(ReadBuffer(rel, P_NEW));
	if (lock)
		UnlockRelationForExtension(rel, ExclusiveLock);
#endif
}

/*
 * Blocks of a relation that are read one after the other: those that next(arg) names, which returns
 * InvalidBlockNumber behind the last.  PostgreSQL 17 reads ahead, many blocks with one call: it
 * asks for blocks, and pins pages, long before mtp_blocks_next() returns them; all at once
 * (MTP_BLOCKS_ALL), or more and more of them, since a scan (MTP_BLOCKS_SCAN) may end early;
 * those of MTP_BLOCKS_SOME do not stand one behind the other.
 */
#if PG_VERSION_NUM >= 170000
#define MTP_BLOCKS_ALL (READ_STREAM_MAINTENANCE | READ_STREAM_FULL)
#define MTP_BLOCKS_SCAN READ_STREAM_SEQUENTIAL
#define MTP_BLOCKS_SOME READ_STREAM_DEFAULT
#else
#define MTP_BLOCKS_ALL 0
#define MTP_BLOCKS_SCAN 0
#define MTP_BLOCKS_SOME 0
#endif

typedef BlockNumber (*MtpNextBlock) (void *arg);

typedef struct MtpBlockStream
{
	MtpNextBlock next;
	void	   *arg;
#if PG_VERSION_NUM >= 170000
	ReadStream *stream;
#else
	Relation	rel;
	BufferAccessStrategy strategy;
#endif
} MtpBlockStream;

#if PG_VERSION_NUM >= 170000
static inline BlockNumber
mtp_blocks_callback(ReadStream *stream, void *s, void *per_buffer_data)
{
	return ((MtpBlockStream *) s)->next(((MtpBlockStream *) s)->arg);
}
#endif

/*
 * *s, arg, rel, strategy and the current memory context stay until mtp_blocks_end().  This reads
 * catalogs, so relcache entries, rel's too, may be reloaded before next() is called.
 */
static inline void
mtp_blocks_begin(MtpBlockStream *s, int flags, Relation rel, BufferAccessStrategy strategy,
				 MtpNextBlock next, void *arg)
{
	s->next = next;
	s->arg = arg;
#if PG_VERSION_NUM >= 170000
	s->stream = read_stream_begin_relation(flags, strategy, rel, MAIN_FORKNUM,
										   mtp_blocks_callback, s, 0);
#else
	s->rel = rel;
	s->strategy = strategy;
#endif
}

/* The next block's page, pinned for the caller; InvalidBuffer behind the last. */
static inline Buffer
mtp_blocks_next(MtpBlockStream *s)
{
#if PG_VERSION_NUM >= 170000
	return read_stream_next_buffer(s->stream, NULL);
#else
	BlockNumber block = s->next(s->arg);

	return block == InvalidBlockNumber ? InvalidBuffer :
		ReadBufferExtended(s->rel, MAIN_FORKNUM, block, RBM_NORMAL, s->strategy);
#endif
}

/* Behind the last one: there are more blocks now. */
static inline void
mtp_blocks_go_on(MtpBlockStream *s)
{
#if PG_VERSION_NUM >= 170000
	read_stream_reset(s->stream);
#endif
}

static inline void
mtp_blocks_end(MtpBlockStream *s)
{
#if PG_VERSION_NUM >= 170000
	read_stream_end(s->stream);
#endif
}

/*
 * Reads blocks into shared buffers and keeps no pin: for a process that reads them one by one next,
 * and may not have them all pinned.  Does nothing where one call reads one block.
 */
static inline void
mtp_blocks_load(Relation rel, BufferAccessStrategy strategy, MtpNextBlock next, void *arg)
{
#if PG_VERSION_NUM >= 170000
	MtpBlockStream s;
	Buffer		buf;

	mtp_blocks_begin(&s, MTP_BLOCKS_ALL, rel, strategy, next, arg);
	while ((buf = mtp_blocks_next(&s)) != InvalidBuffer)
		ReleaseBuffer(buf);
	mtp_blocks_end(&s);
#endif
}

/*
 * Reads a page for a sequential scan, which stands at it then, and notes the rows that the scan's
 * snapshot sees: of a block, or of the next one of a stream; false behind the last.  PostgreSQL 17
 * split core's function for this in two.
 */
#if PG_VERSION_NUM >= 170000
static inline bool
mtp_heap_stand(HeapScanDesc scan, Buffer buf)
{
	scan->rs_cbuf = buf;
	if (!BufferIsValid(buf))
		return false;
	scan->rs_cblock = BufferGetBlockNumber(buf);
	heap_prepare_pagescan(&scan->rs_base);
	return true;
}

static inline void
mtp_heap_leave(HeapScanDesc scan)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
	CHECK_FOR_INTERRUPTS();
}
#endif

static inline void
mtp_heap_read_page(HeapScanDesc scan, BlockNumber block)
{
#if PG_VERSION_NUM >= 170000
	mtp_heap_leave(scan);
	(void) mtp_heap_stand(scan, ReadBufferExtended(scan->rs_base.rs_rd, MAIN_FORKNUM, block,
												   RBM_NORMAL, scan->rs_strategy));
#else
	heapgetpage(&scan->rs_base, block);
#endif
}

static inline bool
mtp_heap_read_next(HeapScanDesc scan, MtpBlockStream *s)
{
#if PG_VERSION_NUM >= 170000
	mtp_heap_leave(scan);
	return mtp_heap_stand(scan, mtp_blocks_next(s));
#else
	BlockNumber block = s->next(s->arg);

	if (block == InvalidBlockNumber)
		return false;
	heapgetpage(&scan->rs_base, block);
	return true;
#endif
}

#endif							/* MTP_COMPAT_H */
