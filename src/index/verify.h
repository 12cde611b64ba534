/*
 * verify.h
 *	  State of a check of an index, and what all such checks have in common.
 *
 * verify.c raises errors, verify_rows.c checks an index against its table.  What an access method
 * does itself is MtpInspectOps.
 */
#ifndef MTP_INSPECT_VERIFY_H
#define MTP_INSPECT_VERIFY_H

#include "index/inspect.h"

#include "storage/bufmgr.h"
#include "utils/snapshot.h"

/* A violation that may be a concurrent change looked at in the middle. */
typedef struct MtpVerifyFault
{
	bool		found;
	BlockNumber blkno;
	int			pos;
	char		words[200];
} MtpVerifyFault;

typedef struct MtpVerify
{
	const MtpInspectOps *ops;
	Relation	rel;
	Relation	heap;
	int			nkeyatts;
	int			natts;
	BlockNumber nblocks;		/* of the index, when last asked */
	BlockNumber blkno;			/* where we are, for the error context */
	MemoryContext context;		/* reset for each page */
	BufferAccessStrategy strategy;
	struct MtpVerifyRows *rows; /* verify_rows.c's; NULL if only the index is checked */
	void	   *own;			/* the access method's */
	bool		lists;			/* entries of equal keys may be lists */
} MtpVerify;

/* So many looks must show the same fault. */
#define MTP_VERIFY_STRIKES 5

/* Raises ERRCODE_INDEX_CORRUPTED.  pos counts from 0; -1 stands for the page as a whole. */
pg_noreturn extern void mtp_verify_fail(MtpVerify *v, BlockNumber blkno, int pos,
										const char *fmt,...) pg_attribute_printf(4, 5);

extern void mtp_verify_fault(MtpVerifyFault *f, BlockNumber blkno, int pos, const char *fmt,...)
			pg_attribute_printf(4, 5);

/*
 * Raises the fault if it was seen often enough.  Else remembers it, and gives others time to finish
 * what they do.
 */
extern void mtp_verify_strike(MtpVerify *v, const MtpVerifyFault *f, MtpVerifyFault *last,
							  int *strikes);

/* True if the index has this block.  It may have grown since we last asked. */
extern bool mtp_verify_has_block(MtpVerify *v, BlockNumber blkno);

/* Checks an index; the caller holds AccessShareLock on both.  NULL snapshot: none is needed. */
extern void mtp_verify(const MtpInspectOps *ops, Relation heap, Relation rel, bool heapallindexed,
					   Snapshot snapshot);

/*
 * verify_rows.c
 */

/* The rows' state is freed with the current memory context. */
extern void mtp_verify_rows_begin(MtpVerify *v, Snapshot snapshot);

/*
 * Raises an error if the entry has no row.  The caller has read it under a pin that it still holds
 * and VACUUM cannot pass, so the line pointer that the entry leads to stays in use.
 */
extern void mtp_verify_entry(MtpVerify *v, ItemPointer tid, const void *entry);

/*
 * Raises an error unless the index has found the entry of a row that the snapshot sees, without a
 * dead hint; blkno and pos say where it is or should be.
 */
extern void mtp_verify_row_entry(MtpVerify *v, ItemPointer tid, BlockNumber blkno, int pos,
								 bool found, bool dead);

/* Raises an error if a row that the snapshot sees has no entry; ends what begin began. */
extern void mtp_verify_rows(MtpVerify *v);

#endif							/* MTP_INSPECT_VERIFY_H */
