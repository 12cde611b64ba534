/*
 * writer.h
 *	  Writes the pages of a new file: an index's that is built, or its init fork.
 *
 * Nobody else sees the index yet (or its new file), so pages are written past shared buffers, as core's
 * sorted builds do: each page is made once, logged as a full image where the file is logged at all,
 * written, and in the end the file is synced, since no checkpoint knows of it.
 */
#ifndef MTP_WRITER_H
#define MTP_WRITER_H

#include "core/core.h"

#include "common/relpath.h"
#include "storage/block.h"
#include "storage/bufpage.h"

/* Pages that are logged and written at a time: as many as one WAL record takes. */
#define MTP_WRITER_GROUP	32

typedef struct MtpWriter
{
	Relation	rel;
	ForkNumber	fork;
	bool		logged;
	BlockNumber allocated;		/* blocks given out, by the caller */
	BlockNumber written;		/* length of the file */
	int			n;				/* pages in the group */
	BlockNumber blknos[MTP_WRITER_GROUP];
	Page		pages[MTP_WRITER_GROUP];
	char	   *zeros;
} MtpWriter;

/* Its memory is the current context's. */
extern void mtp_writer_init(MtpWriter *w, Relation rel, ForkNumber fork, BlockNumber allocated);

/*
 * Room for a page's image, which will be written to blkno, at the latest when as many more pages have
 * been asked for as a group has: until then it may still be changed.  Blocks come in any order.
 */
extern Page mtp_writer_page(MtpWriter *w, BlockNumber blkno);

/* Writes the rest and makes sure of it. */
extern void mtp_writer_finish(MtpWriter *w);

#endif							/* MTP_WRITER_H */
