/*
 * spool.h
 *	  Sorts any number of index entries in bounded memory, with temporary files where it is short.
 */
#ifndef MTP_SPOOL_H
#define MTP_SPOOL_H

#include "batch/entry.h"
#include "storage/fileset.h"

typedef struct MtpSpool MtpSpool;

#define MTP_SPOOL_MEMORY (64 * 1024)	/* that a spool needs at least */

/* Sorted runs that a process leaves to another one, by their numbers */
typedef struct MtpSpoolRuns
{
	int			first;
	int			n;
} MtpSpoolRuns;

/*
 * A spool for entries of an index, in a memory context of its own below the current one.  All it
 * allocates for entries, the sort's scratch included, stays within `memory` bytes, at least
 * MTP_SPOOL_MEMORY; ranks of repeated keys take up to 512 kB more.  Temporary files belong to the
 * current resource owner.
 */
extern MtpSpool *mtp_batch_spool_begin(MtpOrder *order, Size memory);

/*
 * Adds an entry: narrow ones if order->narrow, else tuples, which are copied, with what lies behind
 * them up to a multiple of MAXALIGN.
 */
extern void mtp_batch_spool_put_narrow(MtpSpool *spool, MtpNarrow e);
extern void mtp_batch_spool_put_wide(MtpSpool *spool, IndexTuple itup);

/* Ends putting; from then on entries can be taken. */
extern void mtp_batch_spool_sort(MtpSpool *spool);

/* The next entry in order as an index tuple, valid until the next call; NULL at the end. */
extern IndexTuple mtp_batch_spool_next(MtpSpool *spool);

/* The same for narrow entries as they are; false at the end. */
extern bool mtp_batch_spool_next_narrow(MtpSpool *spool, MtpNarrow *e);

extern void mtp_batch_spool_end(MtpSpool *spool);

/*
 * Several processes fill spools for the same index, and one takes what the others have sorted.
 *
 * A spool that leaves its entries to another process is told, before the first entry, to make its
 * runs in a set of files that both have attached.  owner is a number of its own in the set.  Its
 * last call but mtp_batch_spool_end() is mtp_batch_spool_leave(), which ends putting.  The files
 * live as long as the set.
 */
extern void mtp_batch_spool_use_files(MtpSpool *spool, FileSet *files, int owner);
extern MtpSpoolRuns mtp_batch_spool_leave(MtpSpool *spool);

/*
 * Adds to a spool, before mtp_batch_spool_sort(), the runs that another process has left.  The set
 * must outlive the spool.
 */
extern void mtp_batch_spool_take(MtpSpool *spool, FileSet *files, int owner, MtpSpoolRuns runs);

/* Sorts the entries in memory and makes a run of them: now, not when others wait for it. */
extern void mtp_batch_spool_spill(MtpSpool *spool);

/* What the spool may use from now on. */
extern void mtp_batch_spool_set_memory(MtpSpool *spool, Size memory);

#endif							/* MTP_SPOOL_H */
