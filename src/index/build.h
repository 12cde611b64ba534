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

/* The part of a build that both have; an access method's own build begins with it. */
typedef struct MtpIndexBuild
{
	Relation	index;
	MtpOrder   *order;			/* of the entries */
	MtpSpool   *spool;
	int64		ntuples;		/* entries that collect() has put there */
	int64		done;			/* entries that were taken out again */
} MtpIndexBuild;

/* How an access method builds. */
typedef struct MtpIndexBuildWay
{
	/* Phases, as the progress view has them */
	int64		scanning;
	int64		sorting;
	int64		writing;

	/* Puts a row's entry into the spool and counts it; the state is the MtpIndexBuild. */
	IndexBuildCallback collect;

	/* Writes the index's main fork from the sorted spool. */
	void		(*write) (MtpIndexBuild *b);
} MtpIndexBuildWay;

/* Builds an index, which is empty.  b->index and b->order are set, the rest is zero. */
extern IndexBuildResult *mtp_index_build(MtpIndexBuild *b, Relation heap, struct IndexInfo *info,
										 const MtpIndexBuildWay *way);

/* Tells the progress view how many entries were taken out of the spool. */
extern void mtp_index_build_report(const MtpIndexBuild *b);

/* An entry was taken out of the spool: tells the progress view now and then. */
static inline void
mtp_index_build_step(MtpIndexBuild *b)
{
	if (++b->done % 4096 == 0)
		mtp_index_build_report(b);
}

#endif							/* MTP_INDEX_BUILD_H */
