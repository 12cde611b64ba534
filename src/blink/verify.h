/*
 * verify.h
 *	  State of mtp_blink_verify, shared by verify.c (levels), verify_page.c (one page) and
 *	  verify_rows.c (index against table).
 */
#ifndef MTP_BLINK_VERIFY_H
#define MTP_BLINK_VERIFY_H

#include "blink/blink.h"

#include "utils/snapshot.h"

/* A page as it was at one moment: a copy, so nothing is locked while it is looked at. */
typedef struct MtpVerifyPage
{
	BlockNumber blkno;
	PGAlignedBlock data;
} MtpVerifyPage;

#define MtpVerifyPageOf(p) ((Page) (p)->data.data)
#define MtpVerifyHeadOf(p) MtpHead(MtpVerifyPageOf(p))

/* A violation that may be a concurrent change looked at in the middle. */
typedef struct MtpVerifyFault
{
	bool		found;
	BlockNumber blkno;
	int			pos;
	char		text[200];
} MtpVerifyFault;

typedef struct MtpVerifyRows MtpVerifyRows;

typedef struct MtpVerify
{
	Relation	rel;
	Relation	heap;
	uint8		norm;
	int			nkeyatts;
	int			natts;
	BlockNumber nblocks;		/* of the index, when last asked */
	BlockNumber blkno;			/* where we are, for the error context */
	MemoryContext context;		/* reset for each page */
	BufferAccessStrategy strategy;
	MtpVerifyRows *rows;		/* NULL if only the index is checked */
} MtpVerify;

/* What a page must agree with that its neighbours and parent tell. */
#define MTP_VERIFY_STRIKES 5	/* looks that must show the same fault */

/*
 * verify.c
 */

/* Raises ERRCODE_INDEX_CORRUPTED.  pos counts from 0; -1 stands for the page as a whole. */
extern void mtp_verify_fail(MtpVerify *v, BlockNumber blkno, int pos, const char *fmt,...)
			pg_attribute_noreturn() pg_attribute_printf(4, 5);

extern void mtp_verify_fault(MtpVerifyFault *f, BlockNumber blkno, int pos, const char *fmt,...)
			pg_attribute_printf(4, 5);

/*
 * verify_page.c
 */

/* Raises an error for whatever is wrong with a page of the tree by itself. */
extern void mtp_verify_page(MtpVerify *v, MtpVerifyPage *p, uint32 level);

/* The part of that without which it is not safe to read the page's items. */
extern void mtp_verify_page_sane(MtpVerify *v, MtpVerifyPage *p);

/*
 * Compares two items, leaf tuples or pivots, by the operator classes' functions alone.  *att gets the
 * attribute that decides, counted from 0, or the number of key attributes if none does.
 */
extern int	mtp_verify_compare(MtpVerify *v, IndexTuple a, IndexTuple b, int *att);

/* Number of key attributes that an item has. */
extern int	mtp_verify_natts(MtpVerify *v, IndexTuple itup);

/* Do all attributes that a leaf tuple or pivot of this index should have lie within it? */
extern bool mtp_verify_tuple_whole(Relation rel, IndexTuple itup);

/*
 * verify_rows.c
 */

/* NULL snapshot: none is needed.  The rows' state is freed with the current memory context. */
extern void mtp_verify_rows_begin(MtpVerify *v, Snapshot snapshot);

/* Raises an error if an entry of a leaf has no row.  The caller holds a pin on the leaf. */
extern void mtp_verify_entries(MtpVerify *v, MtpVerifyPage *p);

/* Raises an error if a row that the snapshot sees has no entry. */
extern void mtp_verify_rows(MtpVerify *v);
extern void mtp_verify_rows_end(MtpVerify *v);

#endif							/* MTP_BLINK_VERIFY_H */
