/*
 * build.h
 *	  The way in which index access methods build: they read the table into a spool, sort it, and
 *	  write; or, without an order, put each entry where it belongs.
 */
#ifndef MTP_INDEX_BUILD_H
#define MTP_INDEX_BUILD_H

#include "core/core.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "batch/spool.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

struct MtpIndexBuild;

/* How an access method builds its indexes */
typedef struct MtpIndexBuildOps
{
	int64		scanning;		/* phases, as the progress view has them */
	int64		sorting;
	int64		writing;

	/*
	 * Main function of parallel workers, by its name: an exported one, which passes its arguments
	 * on to mtp_index_build_work().
	 */
	const char *worker;

	/* Prepares the file, which is empty, before any process scans.  May be NULL. */
	void		(*prepare) (struct MtpIndexBuild *b);

	/* The order of the entries: the same in all processes.  NULL: there is no spool. */
	MtpOrder   *(*order) (Relation index);

	/* Puts a row's entry into the spool and counts it; the state is the MtpIndexBuild. */
	IndexBuildCallback collect;

	/* Without an order: puts in what collect() still has, when the process has scanned its part. */
	void		(*collected) (struct MtpIndexBuild *b);

	/* Writes the index's main fork from the sorted spool, or the rest.  Only the leader does. */
	void		(*write) (struct MtpIndexBuild *b);
} MtpIndexBuildOps;

/*
 * The part of a build that all have; an access method's own build begins with it.  In a parallel
 * build each process has one, in workers without the access method's own part.
 */
typedef struct MtpIndexBuild
{
	/* The access method sets these, and leaves the rest zero. */
	const MtpIndexBuildOps *ops;
	Relation	index;

	MtpOrder   *order;
	MtpSpool   *spool;
	void	   *collecting;		/* collect()'s own; NULL at first, in each process */
	int64		ntuples;		/* entries that collect() has put there, and workers have */
	int64		done;			/* entries that were taken out again */
} MtpIndexBuild;

/* Builds an index, which is empty. */
extern IndexBuildResult *mtp_index_build(MtpIndexBuild *b, Relation heap, struct IndexInfo *info);

/* ---------- build_parallel.c ---------- */

typedef struct MtpParallelBuild MtpParallelBuild;

/*
 * Starts up to nworkers workers, which begin to scan the table, and enters parallel mode.  Makes
 * b->spool, if there is an order.  NULL if there are none: nothing is left then, and nothing is
 * made.
 */
extern MtpParallelBuild *mtp_parallel_build_begin(MtpIndexBuild *b, Relation heap,
												  struct IndexInfo *info, int nworkers);

/*
 * Scans the table together with the workers, waits for them, and takes their entries into b->spool,
 * which is to be sorted.  Returns the number of live rows.  Errors of workers are raised here.
 */
extern double mtp_parallel_build_scan(MtpParallelBuild *p, MtpIndexBuild *b, Relation heap,
									  struct IndexInfo *info);

/* Leaves parallel mode, when the spool is gone. */
extern void mtp_parallel_build_end(MtpParallelBuild *p);

/* What a parallel worker does. */
extern void mtp_index_build_work(const MtpIndexBuildOps *ops, dsm_segment *seg, shm_toc *toc);

/* An entry was taken out of the spool: tells the progress view now and then. */
static inline void
mtp_index_build_step(MtpIndexBuild *b)
{
	if (++b->done % 4096 == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, b->done);
}

#endif							/* MTP_INDEX_BUILD_H */
