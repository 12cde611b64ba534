/*
 * links.h
 *	  Notices damaged links, between an index's pages or to the table: those that lead in a circle,
 *	  beyond the end, or to a page that this process has locked.
 */
#ifndef MTP_LINKS_H
#define MTP_LINKS_H

#include "core/core.h"

#include "access/htup_details.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

/*
 * A walk along links; begins as {0}.  It notices a circle in constant room by Brent's algorithm: it
 * remembers the page of step 1, 2, 4, 8, …, and a walk in a circle meets that page before it has
 * made a few times as many steps as the circle has pages.
 */
typedef struct MtpWalk
{
	uint32		steps;
	BlockNumber mark;			/* the page of the last step whose number is a power of two */
} MtpWalk;

/* Notes a step to the page; true if the walk has been there. */
static inline bool
mtp_walk_again(MtpWalk *w, BlockNumber blkno)
{
	if (w->steps > 0 && blkno == w->mark)
		return true;
	if ((w->steps & (w->steps - 1)) == 0)
		w->mark = blkno;
	w->steps++;
	return false;
}

/*
 * True if there is no such block.  (Core's error for one far beyond the end names no relation.)  No
 * index gets shorter, so the length that this process knows is good enough; only for a block beyond
 * that does it ask anew.
 */
static inline bool
mtp_link_beyond(Relation rel, BlockNumber blkno)
{
	BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];

	if (likely(known != InvalidBlockNumber && blkno < known))
		return false;
	return blkno >= RelationGetNumberOfBlocks(rel);
}

/* True if the TID can be a row's: the tables that we index have heap's pages. */
static inline bool
mtp_tid_possible(const ItemPointerData *tid)
{
	return (OffsetNumber) (ItemPointerGetOffsetNumberNoCheck(tid) - 1) < MaxHeapTuplesPerPage &&
		ItemPointerGetBlockNumberNoCheck(tid) != InvalidBlockNumber;
}

/* Reports a page that links lead to more than once, or that is not there (beyond). */
pg_noreturn extern void mtp_link_fail(Relation rel, BlockNumber blkno, bool beyond);

/*
 * Reports an entry at block blkno whose TID leads beyond the table's end; with heap NULL, one whose
 * TID is impossible.
 */
pg_noreturn extern void mtp_tid_fail(Relation index, BlockNumber blkno, Relation heap,
									 const ItemPointerData *tid);

/* Call this before reading a row.  heap may be NULL: not known here. */
static inline void
mtp_tid_check_block(Relation index, BlockNumber blkno, Relation heap,
					const ItemPointerData *tid)
{
	if (heap != NULL && unlikely(mtp_link_beyond(heap, ItemPointerGetBlockNumberNoCheck(tid))))
		mtp_tid_fail(index, blkno, heap, tid);
}

/* True if this process has locked the page: a wait for itself would never end. */
static inline bool
mtp_link_locked(Buffer buf)
{
	return !BufferIsLocal(buf) &&
		LWLockHeldByMe(BufferDescriptorGetContentLock(GetBufferDescriptor(buf - 1)));
}

#endif							/* MTP_LINKS_H */
