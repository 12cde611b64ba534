/*
 * buffer.h
 *	  The server's buffer: who may read frames, and what keeps them true.
 *
 * frame.h has the frames themselves.  Here is what the access methods call.
 */
#ifndef MTP_BUFFER_H
#define MTP_BUFFER_H

#include "core/core.h"

#include "access/amapi.h"
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

/* Finds the frame of an index page (mtp_frame_find), which warms it; first the caller reads so many bytes of it.  He knows that mtp_buffer_serves. */
extern bool mtp_buffer_find(Relation rel, BlockNumber block, Size first, MtpFrameRef *ref);

/* A frame is of use, and what it has need not be read in shared buffers: a hit, for the relation's statistics and EXPLAIN (BUFFERS), too. */
extern void mtp_buffer_hit(Relation rel, int kind);

/* What was read of a frame can't be used, and is read again in shared buffers. */
static inline void
mtp_buffer_torn(int kind)
{
	mtp_buffer.counts[kind][MTP_COUNT_TORN]++;
}

/* Publishes an index page that the caller has locked, share or exclusive, and found good. */
extern void mtp_buffer_publish(Relation rel, Buffer buf);

/*
 * Loading a page that nobody has asked for (src/warm).  An index access method tells in _PG_init which of its pages may be in frames: fits is given one that is not new, locked,
 * and raises an error if it is damaged.
 */
typedef bool (*MtpPageFits) (Relation rel, Buffer buf);

extern void mtp_buffer_register(ambuild_function ambuild, MtpPageFits fits);

/* NULL for an index of another access method. */
extern MtpPageFits mtp_buffer_fits(Relation index);

/*
 * Reads an index page, and gives it a frame, if it has none and is warm enough at this level (1 … MTP_HEAT_MOST) for one that is free or whose page is colder; else nothing is read.  No access
 * is counted.  For callers without locks on pages, who have locked the index's table and know that mtp_buffer_serves and that the index has the block.
 */
extern void mtp_buffer_load(Relation rel, BlockNumber block, int level, BufferAccessStrategy strategy);

/* The state of this process's random numbers, not 0, after the next one. */
extern uint64 *mtp_buffer_random_state(void);

/* After pages were published, or refused, when they are unlocked: may tell others what was counted, age pages, and give the buffer more room for pages of their kind. */
extern void mtp_buffer_consider(int kind);

/* The state of this process's random numbers, not 0, after the next one; counts an access of the kind that missed. */
extern uint64 *mtp_buffer_miss(int kind);
extern uint8 mtp_buffer_random(void);

/*
 * For the changer of an index page, who has its content locked: the page's frame goes.  Of a change, all pages come before the first one
 * is unlocked.  For critical sections.
 */
extern void mtp_buffer_stale(Buffer buf);

/* The same for who has set hints: the next one who reads the page may copy it at once. */
extern void mtp_buffer_stale_hints(Buffer buf);

/* Takes away all pages of a file.  The caller's locks keep others from publishing them. */
extern PGDLLEXPORT void mtp_buffer_purge_file(MtpLocator file);

/* Told of each database that is dropped or moved, before that is committed. */
typedef void (*mtp_database_purged_type) (Oid database);
extern mtp_database_purged_type mtp_database_purged;

/* Pages are about to change by redo, which makes nothing stale: takes away all that a file of frames has brought (home.h). */
extern void mtp_buffer_redo_begins(void);

/* Adds what this process has counted to what all have; those counts: MTP_FRAME_COUNTS of the first kind, then the next one's; then the epoch at the last reset. */
#define MTP_BUFFER_COUNTS	(MTP_FRAME_KINDS * MTP_FRAME_COUNTS)

extern void mtp_buffer_tell(void);
extern void mtp_buffer_reset(void);
extern pg_atomic_uint64 *mtp_buffer_counts;

/* Ageing steps since then: epochs that have begun (pool.h). */
extern uint32 mtp_buffer_aged(void);

/* purge.c: its share of mtp_buffer_init */
extern void mtp_buffer_purge_init(void);

/*
 * Where images live that are not in shared memory (src/pmem).  All is called in the postmaster, or in a
 * single-user server.
 */
typedef struct MtpBufferStore
{
	/*
	 * Before there is shared memory, with the extents that the buffer would have there: how many
	 * it has in the store.  Readers may be led `slack` bytes beyond an image.
	 */
	uint32		(*open) (uint32 extents, Size slack);

	/* Behind open(): where the images are; NULL if the store is of no use. */
	char	   *(*images) (void);

	/* Shared memory that the store needs with so many extents. */
	Size		(*shared_size) (uint32 extents);

	/* The buffer is made; in children too, where shared memory is attached anew. */
	void		(*start) (uint32 extents);
} MtpBufferStore;

/* Set in _PG_init; NULL if there is none. */
extern const MtpBufferStore *mtp_buffer_store;

/* Its share of _PG_init. */
extern void mtp_buffer_init(void);

#endif							/* MTP_BUFFER_H */
