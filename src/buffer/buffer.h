/*
 * buffer.h
 *	  The server's buffer: who may read frames, and what keeps them true.
 *
 * frame.h has the frames themselves.  Here is what the access methods call.
 */
#ifndef MTP_BUFFER_H
#define MTP_BUFFER_H

#include "mtpower.h"

#include "access/xlog.h"
#include "buffer/frame.h"
#include "storage/bufmgr.h"

/* This process's way to it; mtp_buffer.pool is NULL if mtpower.buffer_size is 0, and then nothing here does anything. */
extern MtpBuffer mtp_buffer;

/* mtpower.buffer_size, in megabytes; mtpower.use_frames */
extern int	mtp_buffer_size;
extern bool mtp_use_frames;

/* May pages of this relation be read in frames, and published, by this process now?  Asked at the start of a descent or scan. */
static inline bool
mtp_buffer_serves(Relation rel)
{
	return mtp_buffer.pool != NULL && mtp_use_frames && !RelationUsesLocalBuffers(rel) && !RecoveryInProgress();
}

/* Finds the frame of an index page (mtp_frame_find), which warms it.  The caller knows that mtp_buffer_serves. */
extern bool mtp_buffer_find(Relation rel, BlockNumber block, MtpFrameRef *ref);

/* It is of use, and need not be read in shared buffers: a hit, for the relation's statistics and EXPLAIN (BUFFERS), too. */
extern void mtp_buffer_hit(Relation rel);

/* What was read of a frame can't be used, and is read again in shared buffers. */
static inline void
mtp_buffer_torn(void)
{
	mtp_buffer.counts[MTP_FRAME_INDEX][MTP_COUNT_TORN]++;
}

/* Publishes an index page that the caller has locked, share or exclusive, and found good. */
extern void mtp_buffer_publish(Relation rel, Buffer buf);

/* After mtp_buffer_publish, when the page is unlocked: may give the buffer more room for pages of its kind. */
extern void mtp_buffer_consider(void);

/*
 * For the changer of an index page, who has its content locked: the page's frame goes.  Of a change, all pages come before the first one
 * is unlocked.  For critical sections.
 */
extern void mtp_buffer_stale(Buffer buf);

/* Takes away all pages of a file, all of a database's.  The caller's locks keep others from publishing them. */
extern PGDLLEXPORT void mtp_buffer_purge_file(MtpLocator file);
extern void mtp_buffer_purge_database(Oid database);

/* Adds what this process has counted to what all have; those counts: MTP_FRAME_COUNTS of the first kind, then the next one's. */
#define MTP_BUFFER_COUNTS	(MTP_FRAME_KINDS * MTP_FRAME_COUNTS)

extern void mtp_buffer_tell(void);
extern void mtp_buffer_reset(void);
extern pg_atomic_uint64 *mtp_buffer_counts;

/* purge.c: its share of mtp_buffer_init */
extern void mtp_buffer_purge_init(void);

#endif							/* MTP_BUFFER_H */
