/*
 * verify.h
 *	  What the files of mtp_blink_verify share: verify.c (levels), verify_page.c (one page) and
 *	  verify_rows.c (index against table).
 */
#ifndef MTP_BLINK_VERIFY_H
#define MTP_BLINK_VERIFY_H

#include "blink/blink.h"

#include "index/verify.h"

/* A copy of a page as it was at one moment: nothing is locked while it is looked at. */
typedef struct MtpVerifyPage
{
	BlockNumber blkno;
	PGAlignedBlock data;
} MtpVerifyPage;

#define MtpVerifyPageOf(p) ((Page) (p)->data.data)
#define MtpVerifyHeadOf(p) MtpHeader(MtpVerifyPageOf(p))

/* verify.c: raises an error at the first thing that is wrong with the tree. */
extern void mtp_blink_verify(MtpVerify *v);

/* verify_page.c: raises an error for whatever is wrong with a page of the tree by itself. */
extern void mtp_blink_verify_page(MtpVerify *v, MtpVerifyPage *p, uint32 level);

/* The same for the faults alone that make it unsafe to read the page's items. */
extern void mtp_blink_verify_page_sane(MtpVerify *v, MtpVerifyPage *p);

/*
 * Compares two items, leaf tuples or pivots, by the operator classes' functions alone.  *att gets
 * the attribute that decides, counted from 0, or the number of key attributes if none does.
 */
extern int	mtp_blink_verify_compare(MtpVerify *v, IndexTuple a, IndexTuple b, int *att);

/*
 * verify_rows.c: raises an error if an entry of a leaf has no row.  The caller holds a pin on the
 * leaf.
 */
extern void mtp_blink_verify_entries(MtpVerify *v, MtpVerifyPage *p);

/* What index/verify_rows.c asks for (MtpInspectOps). */
extern bool mtp_blink_verify_matches(MtpVerify *v, const void *entry, const Datum *values,
									 const bool *isnull);
extern Buffer mtp_blink_verify_find(MtpVerify *v, const void *entry, BlockNumber *blkno, int *pos);
extern void mtp_blink_verify_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
								 bool alive, void *state);

#endif							/* MTP_BLINK_VERIFY_H */
