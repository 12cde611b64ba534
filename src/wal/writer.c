/*
 * writer.c
 *	  Writes the pages of a new file past shared buffers.
 */
#include "wal/writer.h"

#include "access/xloginsert.h"
#include "buffer/buffer.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/memdebug.h"

/* Direct I/O, where the server uses it, needs buffers that are aligned like this. */
#define IO_ALIGN		4096

void
mtp_writer_init(MtpWriter *w, Relation rel, ForkNumber fork, BlockNumber allocated)
{
	char	   *pages = palloc((MTP_WRITER_GROUP + 1) * BLCKSZ + IO_ALIGN);

	pages = (char *) TYPEALIGN(IO_ALIGN, pages);
	memset(w, 0, sizeof(MtpWriter));

	/* TRUNCATE of a table made in this transaction empties its file, which has had pages. */
	if (fork == MAIN_FORKNUM)
		mtp_buffer_purge_file(MtpRelLocator(rel));
	w->rel = rel;
	w->fork = fork;

	/* An init fork must be there after a crash, so it is always logged. */
	w->logged = RelationNeedsWAL(rel) || fork == INIT_FORKNUM;
	w->allocated = allocated;
	for (int i = 0; i < MTP_WRITER_GROUP; i++)
		w->pages[i] = pages + i * BLCKSZ;
	w->zeros = memset(pages + MTP_WRITER_GROUP * BLCKSZ, 0, BLCKSZ);
}

/* Writes the group's pages.  If a page further on comes first, zeros take the places before it. */
static void
write_group(MtpWriter *w)
{
	SMgrRelation smgr = RelationGetSmgr(w->rel);

	for (int i = 0; i < w->n; i++)
		VALGRIND_CHECK_MEM_IS_DEFINED(w->pages[i], BLCKSZ);
	if (w->logged && w->n > 0)
		log_newpages(&MtpRelLocator(w->rel), w->fork, w->n, w->blknos, w->pages, true);
	for (int i = 0; i < w->n; i++)
	{
		BlockNumber blkno = w->blknos[i];

		PageSetChecksumInplace(w->pages[i], blkno);
		if (blkno < w->written)
		{
			smgrwrite(smgr, w->fork, blkno, (char *) w->pages[i], true);
			continue;
		}
		while (w->written < blkno)
		{
			CHECK_FOR_INTERRUPTS();
			smgrextend(smgr, w->fork, w->written++, w->zeros, true);
		}
		smgrextend(smgr, w->fork, w->written++, (char *) w->pages[i], true);
	}
	w->n = 0;
}

Page
mtp_writer_page(MtpWriter *w, BlockNumber blkno)
{
	if (w->n == MTP_WRITER_GROUP)
	{
		CHECK_FOR_INTERRUPTS();
		write_group(w);
	}
	w->blknos[w->n] = blkno;
	return w->pages[w->n++];
}

/*
 * The file of an unlogged relation must survive a crash of the machine after a clean shutdown, and
 * no checkpoint syncs what was not written through shared buffers.  Core syncs a relation that
 * skips WAL (wal_level = minimal) when its transaction commits.
 */
void
mtp_writer_finish(MtpWriter *w)
{
	write_group(w);
	if (w->logged || w->rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		smgrimmedsync(RelationGetSmgr(w->rel), w->fork);
}
