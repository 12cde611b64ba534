/*
 * verify.h
 *	  State of a check of a hash index: verify.c (pages), verify_rows.c (index against table).
 */
#ifndef MTP_HASH_VERIFY_H
#define MTP_HASH_VERIFY_H

#include "hash/hash.h"

#include "batch/spool.h"
#include "index/verify.h"

typedef struct MtpHashVerify
{
	MtpVerify  *v;
	MtpHashMeta meta;

	/* for each block the bucket whose chains have it, + 1, or 0 */
	uint32	   *owners;
	BlockNumber nowners;

	/* the bucket that is being checked; its primary page is pinned */
	uint32		bucket;
	BlockNumber primary_block;
	Buffer		pin;
	PGAlignedBlock primary;		/* copies */
	PGAlignedBlock page;
	PGAlignedBlock scratch;
	PGAlignedBlock scratch_primary;

	/* with rows: entries and rows that were found, by hash and TID */
	MtpOrder	order;
	MtpSpool   *entries;
	MtpSpool   *rows;
	uint64		counted;		/* hash whose entries were counted last, + 1 */
} MtpHashVerify;

/*
 * Copies a page that `from` leads to.  Raises an error if the page is wrong by itself or of
 * another type.  With keep, the buffer stays pinned and is returned.
 */
extern Buffer mtp_hash_verify_copy(MtpHashVerify *hv, BlockNumber blkno, BlockNumber from,
								   uint8 type, PGAlignedBlock *to, bool keep);

/* verify.c: raises an error at the first fault of the index. */
extern void mtp_hash_verify(MtpVerify *v);

/* verify_rows.c */
extern void mtp_hash_verify_rows_begin(MtpHashVerify *hv);

/*
 * Raises an error if an entry of the page has no row; collects the others.  Its bucket is pinned.
 */
extern void mtp_hash_verify_entries(MtpHashVerify *hv, Page page);

/* Callbacks of index/verify_rows.c (MtpInspectOps) */
extern bool mtp_hash_verify_matches(MtpVerify *v, const void *entry, const Datum *values,
									const bool *isnull);
extern Buffer mtp_hash_verify_find(MtpVerify *v, const void *entry, BlockNumber *blkno, int *pos);
extern void mtp_hash_verify_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
								bool alive, void *state);
extern void mtp_hash_verify_rows_done(MtpVerify *v);

#endif							/* MTP_HASH_VERIFY_H */
