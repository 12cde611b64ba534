/*
 * writer.h
 *	  Writes the pages of a new file: that of an index that is built, or its init fork.
 *
 * No other process sees the file yet, so pages are written past shared buffers, as core's sorted
 * builds do.  Each page is made once, logged as a full image if the file is logged at all, and
 * written.  In the end the file is synced, since no checkpoint knows of it.
 */
#ifndef MTP_WRITER_H
#define MTP_WRITER_H

#include "core/core.h"

#include "common/relpath.h"
#include "storage/block.h"
#include "storage/bufpage.h"

/* Pages that are logged and written at a time: as many as one WAL record takes */
#define MTP_WRITER_GROUP	32

typedef struct MtpWriter
{
	Relation	rel;
	ForkNumber	fork;
	bool		logged;
	BlockNumber allocated;		/* blocks that the caller has given out */
	BlockNumber written;		/* length of the file */
	int			n;				/* pages in the group */
	BlockNumber blknos[MTP_WRITER_GROUP];
	Page		pages[MTP_WRITER_GROUP];
	char	   *zeros;
} MtpWriter;

/*
 * Prepares a writer.  It allocates from the current memory context.  A main fork loses its frames.
 */
extern void mtp_writer_init(MtpWriter *w, Relation rel, ForkNumber fork, BlockNumber allocated);

/*
 * Returns room for the image of a page, MTP_WRITER_GROUP pages ahead: the caller may change it
 * until it has asked for that many more.  It is then written to blkno.  Blocks come in any order.
 */
extern Page mtp_writer_page(MtpWriter *w, BlockNumber blkno);

/* Writes the last pages, and syncs the file if it must survive. */
extern void mtp_writer_finish(MtpWriter *w);

#endif							/* MTP_WRITER_H */
