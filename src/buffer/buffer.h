/*
 * buffer.h
 *	  The server's buffer: what access methods call.
 *
 * frame.h has the frames themselves.
 */
#ifndef MTP_BUFFER_H
#define MTP_BUFFER_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/xlog.h"
#include "buffer/frame.h"
#include "storage/bufmgr.h"

/*
 * This process's way to the buffer.  Its policy is NULL if mtpower.buffer_size is 0: then nothing
 * here does anything.
 */
extern MtpBuffer mtp_buffer;

/* mtpower.buffer_size, in megabytes; mtpower.use_frames */
extern int	mtp_buffer_size;
extern bool mtp_use_frames;

/*
 * True if this process may now read pages of this relation in frames, and publish them.  For the
 * start of a descent or scan.  False in recovery, since redo makes nothing stale.
 */
static inline bool
mtp_buffer_serves(Relation rel)
{
	return mtp_buffer.policy != NULL && mtp_use_frames && !RelationUsesLocalBuffers(rel) &&
		!RecoveryInProgress();
}

/* Each look for a page calls the benchmark's recorder (bench/recorder), in builds for it alone. */
#ifdef MTP_RECORD
extern void mtp_record(MtpPageTag tag, int kind);
#else
#define mtp_record(tag, kind) ((void) 0)
#endif

/*
 * Finds the frame of an index page (mtp_frame_find), which warms it.  The caller reads the first
 * `first` bytes of it first, and has checked mtp_buffer_serves.
 */
extern bool mtp_buffer_find(Relation rel, BlockNumber block, Size first, MtpFrameRef *ref);

/* Prefetches what tells whether an index page has a frame: for one who will make it stale soon. */
extern void mtp_buffer_prefetch(Relation rel, BlockNumber block);

/*
 * Counts a hit: a frame was of use, and shared buffers were not read.  Also for the relation's
 * statistics, and for EXPLAIN (BUFFERS).
 */
extern void mtp_buffer_hit(Relation rel, int kind);

/* Counts a frame that changed under its reader, which reads shared buffers instead. */
static inline void
mtp_buffer_torn(int kind)
{
	mtp_frame_count(&mtp_buffer, kind, MTP_COUNT_TORN);
}

/*
 * Publishes an index page.  The caller has its content locked, share or exclusive, and has found
 * it good.  Counts a miss.
 */
extern void mtp_buffer_publish(Relation rel, Buffer buf);

/*
 * Registers which pages of an index access method may be loaded (src/warm), in _PG_init.  fits is
 * called with a page that is not new, its content locked, and raises an error if the page is
 * damaged.
 */
typedef bool (*MtpPageFits) (Relation rel, Buffer buf);

extern void mtp_buffer_register(ambuild_function ambuild, MtpPageFits fits);

/* The same function, or NULL for an index of another access method */
extern MtpPageFits mtp_buffer_fits(Relation index);

/*
 * Chooses a frame for a page that is loaded (mtp_frame_place_warm), after a slab has changed its
 * kind if that helps.  False if the page has a frame, or is too cold.
 */
extern bool mtp_buffer_place_loaded(MtpPageTag tag, int kind, int degree, MtpFramePlace *place);

/*
 * Reads an index page and gives it a frame, if it has none, and this degree (1 .. MTP_HEAT_MOST) is
 * warm enough for a free frame, or for one whose page is colder.  Else reads nothing.  Counts no
 * access.  The caller holds no lock on a page and a lock on the table, and knows that
 * mtp_buffer_serves and that the index has the block.
 */
extern void mtp_buffer_load(Relation rel, BlockNumber block, int degree,
							BufferAccessStrategy strategy);

/*
 * The state of this process's random numbers, not 0, after the next one.  mtp_buffer_miss also
 * counts an access of the kind that missed.
 */
extern uint64 *mtp_buffer_random_state(void);
extern uint64 *mtp_buffer_miss(int kind);

/*
 * For callers that have published pages, or were refused, and hold no lock on a page.  Tells
 * others what was counted, ages pages, and may give the buffer more room for pages of this kind.
 */
extern void mtp_buffer_consider(int kind);
extern uint8 mtp_buffer_random(void);

/*
 * Makes an index page stale (mtp_frame_stale), after a change of it, or of its dead hints alone
 * (hints).  The caller holds the page's content lock, and calls this for all pages of a change
 * before it unlocks the first one (invariant F5).  For critical sections.
 */
extern void mtp_buffer_stale(Buffer buf, bool hints);

/* Takes all pages of a file away.  The caller's locks keep others from publishing them. */
extern PGDLLEXPORT void mtp_buffer_purge_file(MtpLocator file);

/* Called with each database that is dropped or moved, before that commits */
extern void (*mtp_database_purged) (Oid database);

/*
 * Redo is about to change pages, and makes nothing stale: takes away all that the pool file has
 * brought (src/pmem).
 */
extern void mtp_buffer_redo_begins(void);

/*
 * The counts of all processes: MTP_FRAME_COUNTS of the first kind, then of the next ones; last,
 * the epoch at the last reset.  mtp_buffer_tell adds to them what this process has counted.
 */
#define MTP_BUFFER_COUNTS	(MTP_FRAME_KINDS * MTP_FRAME_COUNTS)

extern void mtp_buffer_tell(void);
extern void mtp_buffer_reset(void);

/* What this process alone has counted since it began, in the same order; no reset touches it. */
extern void mtp_buffer_usage(uint64 *usage);
extern pg_atomic_uint64 *mtp_buffer_counts;

/* purge.c: its share of mtp_buffer_init */
extern void mtp_buffer_purge_init(void);

/*
 * A store has the images in place of shared memory (src/pmem, which sets this in _PG_init).  Called
 * in the postmaster or a single-user server, before there is shared memory, with the slabs that
 * the buffer would have there.  Returns how many it has, and sets *images: NULL if the store is of
 * no use.  A reader may be led `slack` bytes beyond an image.
 */
extern uint32 (*mtp_buffer_open_store) (uint32 slabs, Size slack, char **images);

/* Its share of _PG_init. */
extern void mtp_buffer_init(void);

#endif							/* MTP_BUFFER_H */
