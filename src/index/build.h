/*
 * build.h
 *	  The way in which both index access methods build: they read the table into a spool, sort it,
 *	  and write.
 */
#ifndef MTP_INDEX_BUILD_H
#define MTP_INDEX_BUILD_H

#include "core/core.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "batch/spool.h"
#include "commands/progress.h"
#include "pgstat.h"

/* The part of a build that both have; an access method's own build begins with it. */
typedef struct MtpIndexBuild
{
	/* The access method sets these, and leaves the rest zero. */
	Relation	index;
	MtpOrder   *order;			/* of the entries */
	int64		scanning;		/* phases, as the progress view has them */
	int64		sorting;
	int64		writing;

	/* Puts a row's entry into the spool and counts it; the state is the MtpIndexBuild. */
	IndexBuildCallback collect;

	/* Writes the index's main fork from the sorted spool. */
	void		(*write) (struct MtpIndexBuild *b);

	MtpSpool   *spool;
	int64		ntuples;		/* entries that collect() has put there */
	int64		done;			/* entries that were taken out again */
} MtpIndexBuild;

/* Builds an index, which is empty. */
extern IndexBuildResult *mtp_index_build(MtpIndexBuild *b, Relation heap, struct IndexInfo *info);

/* An entry was taken out of the spool: tells the progress view now and then. */
static inline void
mtp_index_build_step(MtpIndexBuild *b)
{
	if (++b->done % 4096 == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, b->done);
}

#endif							/* MTP_INDEX_BUILD_H */
