/*
 * spool.h
 *	  Sorts any number of index entries in bounded memory, with temporary files where it is short.
 */
#ifndef MTP_SPOOL_H
#define MTP_SPOOL_H

#include "batch/entry.h"

typedef struct MtpSpool MtpSpool;

/*
 * A spool for entries of an index, in a memory context of its own below the current one.  All it
 * allocates for entries, the sort's scratch included, stays within `memory` bytes (at least 64 kB).
 * Temporary files belong to the current resource owner.
 */
extern MtpSpool *mtp_batch_spool_begin(MtpOrder *order, Size memory);

/* Adds an entry: narrow ones if order->narrow, else tuples, which are copied. */
extern void mtp_batch_spool_put_narrow(MtpSpool *spool, MtpNarrow e);
extern void mtp_batch_spool_put_wide(MtpSpool *spool, IndexTuple itup);

/* Ends putting; from then on entries can be taken. */
extern void mtp_batch_spool_sort(MtpSpool *spool);

/* The next entry in order as an index tuple, valid until the next call; NULL at the end. */
extern IndexTuple mtp_batch_spool_next(MtpSpool *spool);

/* The same for narrow entries as they are; false at the end. */
extern bool mtp_batch_spool_next_narrow(MtpSpool *spool, MtpNarrow *e);

extern void mtp_batch_spool_end(MtpSpool *spool);

#endif							/* MTP_SPOOL_H */
