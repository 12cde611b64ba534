/*
 * compat.h
 *	  Every difference between PostgreSQL's major versions, and nothing else.
 *
 * One block for each release that changed something, and two functions behind them.
 */
#ifndef MTP_COMPAT_H
#define MTP_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "mtpower needs PostgreSQL 15 or later"
#endif

#include "access/heapam.h"
#include "storage/bufmgr.h"
#include "utils/wait_event.h"

/*
 * PostgreSQL 16 renamed relfilenodes to relation file locators, folded the owner checks of the
 * object classes into one function, let tuplesort_getdatum() return a reference into its own memory
 * (15 always copies), added the argument isCatalogRel to recovery conflicts (an index of ours is
 * never on a catalog), made a function of the buffer tag macro, and let a custom scan choose its
 * slot, which is a virtual one before.
 */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
typedef RelFileLocator MtpLocator;
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
#else
#include "storage/lmgr.h"
#include "storage/relfilenode.h"
typedef RelFileNode MtpLocator;
#define MtpLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define MtpRelLocator(rel) ((rel)->rd_node)
#define MtpLocatorSpace(l) ((l).spcNode)
#define MtpLocatorDatabase(l) ((l).dbNode)
#define MtpLocatorFile(l) ((l).relNode)
#define RelidByRelfilenumber(space, number) RelidByRelfilenode(space, number)
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
#endif

/*
 * PostgreSQL 17 made pg_attribute.attstattarget a nullable int2, gave old_snapshot_threshold up
 * (before, readers test for it on each page), numbered processes anew (MtpMyBackend is this one's
 * slot in arrays of MaxBackends entries), gave wait events of extensions names of their own, and
 * added the argument that lets stronger locks count.
 */
#if PG_VERSION_NUM >= 170000
#include "miscadmin.h"
#define MtpDatumGetStatTarget(d) DatumGetInt16(d)
#define MtpTestForOldSnapshot(snapshot, rel, page) ((void) 0)
#define MtpSnapshotsAge() false
#define MtpMyBackend() (MyProcNumber)
#define MtpWaitEventNew(name) WaitEventExtensionNew(name)
#define MtpLockHeldByMe(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define MtpDatumGetStatTarget(d) DatumGetInt32(d)
#define MtpSnapshotsAge() (old_snapshot_threshold >= 0)
#define MtpTestForOldSnapshot(snapshot, rel, page) TestForOldSnapshot(snapshot, rel, page)
#define MtpMyBackend() (MyBackendId - 1)
#define MtpWaitEventNew(name) ((void) (name), PG_WAIT_EXTENSION)
#define MtpLockHeldByMe(tag, mode) LockHeldByMe(tag, mode)
#endif

/*
 * PostgreSQL 18 tells VACUUM's delay point whether it is ANALYZE's, and has other processes in
 * front of background workers' PGPROCs.
 */
#if PG_VERSION_NUM >= 180000
#define MtpVacuumDelayPoint() vacuum_delay_point(false)
#define MtpFirstBgworkerProc (MaxConnections + autovacuum_worker_slots + NUM_SPECIAL_WORKER_PROCS)
#else
#define MtpVacuumDelayPoint() vacuum_delay_point()
#define MtpFirstBgworkerProc (MaxConnections + autovacuum_max_workers + 1)
#endif

/*
 * Extends a relation by a block of zeroes, and locks it exclusively before any other process can
 * see it.  Takes the relation's extension lock where another process might extend it too.
 */
static inline Buffer
mtp_extend_relation(Relation rel)
{
#if PG_VERSION_NUM >= 160000
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

/*
 * Reads a page for a sequential scan, which stands at it then, and notes the rows that the scan's
 * snapshot sees.  PostgreSQL 17 split this in two, and reads ahead, which this does not.
 */
static inline void
mtp_heap_read_page(HeapScanDesc scan, BlockNumber block)
{
#if PG_VERSION_NUM >= 170000
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	CHECK_FOR_INTERRUPTS();
	scan->rs_cbuf = ReadBufferExtended(scan->rs_base.rs_rd, MAIN_FORKNUM, block, RBM_NORMAL,
									   scan->rs_strategy);
	scan->rs_cblock = block;
	heap_prepare_pagescan(&scan->rs_base);
#else
	heapgetpage(&scan->rs_base, block);
#endif
}

#endif							/* MTP_COMPAT_H */
