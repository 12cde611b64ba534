/*
 * frame.h
 *	  Frames: copies of pages that readers find and read without locks.
 *
 * A reader finds a frame (mtp_frame_find), copies out of its image what it needs, and asks whether
 * the frame is still the same (mtp_frame_still).  If not, the reader uses nothing of what it has
 * read.  An image may change under the reader and say anything, so a reader bounds each offset and
 * each length before it follows it.  README.md, "Frames", numbers the invariants (F1, F2 ...) and
 * argues them.
 */
#ifndef MTP_BUFFER_FRAME_H
#define MTP_BUFFER_FRAME_H

#include "buffer/policy.h"
#include "storage/block.h"
#include "storage/lwlock.h"

/*
 * Steps of the protocol.  Step "copied" is the injection point "frame_copied".  Tests put delays
 * there (test/unit/frame_test.c), and the model goes through all orders of them (test/model).
 * Some steps are in critical sections: a test may delay these, but must not make them wait or
 * fail.
 */
#ifndef MTP_FRAME_STEP
#include "core/inject.h"
#define MTP_FRAME_STEP(name) MTP_INJECT("frame_" #name)
#endif

/*
 * The identity of a page.  No part is ever zero, since block 0 counts as 1.  The first block names
 * a pair of table blocks, and names the pair's page directory too: which of them a frame has
 * follows from the kind of its slab.  Page directories have frames of two sizes, each a kind of
 * slabs of its own.  A look for a page directory finds it in either.
 */
typedef struct MtpPageTag
{
	uint64		space;			/* tablespace and database */
	uint64		page;			/* file, and block + 1 */
} MtpPageTag;

typedef struct MtpFrameHeader
{
	pg_atomic_uint64 version;
	MtpPageTag	tag;			/* zero: the frame is free */
	uint32		paid;			/* a guess: reads have paid for its copy */
	uint32		unused;			/* two headers in a cache line */
} MtpFrameHeader;

/* What a process counts for each kind of pages */
typedef enum MtpFrameCount
{
	MTP_COUNT_HITS,				/* frames found, and of use */
	MTP_COUNT_TORN,				/* frames that changed before they were read */
	MTP_COUNT_MISSES,			/* reads in shared buffers that a frame would have served */
	MTP_COUNT_PUBLISHED,
	MTP_COUNT_REFUSED,			/* too cold, or another process has frame or page */
	MTP_COUNT_EVICTED,
	MTP_COUNT_STALED,			/* by a change of the page */
	MTP_COUNT_PURGED,			/* with the page's file */
	MTP_COUNT_WAITS,			/* of VACUUM, for a reader of a frame (hazard.h) */
	MTP_COUNT_SEALED,			/* written to the pool file (src/pmem) */
	MTP_COUNT_TAKEN_OVER,		/* found there at the server's start */
	MTP_FRAME_COUNTS
} MtpFrameCount;

/* Words that lead to frames: a bucket is a cache line. */
#define MTP_BUCKET_WORDS	8
#define MTP_FRAME_PARTITIONS 64

/*
 * The misses until a page may be published again.  Pages of a kind share rests by hash, and
 * processes lose some of each other's steps.  Both only cost time.
 */
typedef struct MtpRest
{
	uint8		misses;			/* misses to come before the page may be published */
	uint8		useless;		/* frames that have not paid, less those that have */
} MtpRest;

/*
 * For each slab, counters of the frames that files have: mostly many more than there are files.
 * Files that share a counter are taken for each other (mtp_frame_has_file).
 */
#define MTP_FILES_PER_SLAB 64

/* A process's way to the buffer */
typedef struct MtpBuffer
{
	MtpPolicy  *policy;
	MtpFrameHeader *headers;	/* of each frame */
	char	   *images;			/* slabs */
	pg_atomic_uint64 *words;	/* buckets */
	uint32		bucket_mask;	/* buckets of a partition, less one */
	LWLockPadded *locks;		/* of each partition; then the one for slabs */
	void		(*copy) (void *to, const void *from, Size size);	/* images; NULL: memcpy */
	MtpRest    *rests;			/* of each kind */
	uint32		rest_mask;		/* rests of a kind, less one */
	pg_atomic_uint32 *files;	/* frames of the files of each hash */
	uint32		file_mask;
	uint32		spare;			/* a frame that this process has freed, plus one; or 0 */
	uint32		behind;			/* the frame behind its last page directory; or 0 */
	MtpAdmission admissions[MTP_POLICY_KINDS];	/* of this process's misses */
	uint64		counts[MTP_FRAME_KINDS][MTP_FRAME_COUNTS];	/* this process's */
	uint64		counted;		/* bit kind * MTP_FRAME_COUNTS + what: it is not zero */
} MtpBuffer;

StaticAssertDecl(MTP_FRAME_KINDS * MTP_FRAME_COUNTS <= 64, "each count needs a bit of counted");

/* Counts an event of this process, which mtp_buffer_tell adds to those of all. */
static inline void
mtp_frame_count(MtpBuffer *b, int kind, MtpFrameCount what)
{
	b->counts[kind][what]++;
	b->counted |= (uint64) 1 << (kind * MTP_FRAME_COUNTS + what);
}

/* A frame that a reader has found, at one version */
typedef struct MtpFrameRef
{
	uint32		frame;
	uint64		version;
	const char *image;
} MtpFrameRef;

static inline MtpPageTag
mtp_page_tag(MtpLocator file, BlockNumber block)
{
	return (MtpPageTag)
	{
		.space = (uint64) MtpLocatorSpace(file) << 32 | MtpLocatorDatabase(file),
			.page = (uint64) MtpLocatorFile(file) << 32 | (uint32) (block + 1)
	};
}

static inline MtpLocator
mtp_tag_file(MtpPageTag tag)
{
	MtpLocator	file;

	MtpLocatorSpace(file) = tag.space >> 32;
	MtpLocatorDatabase(file) = (Oid) tag.space;
	MtpLocatorFile(file) = tag.page >> 32;
	return file;
}

/*
 * The bytes of headers, words, counters and rests.  mtp_frame_make makes a buffer of them, in
 * memory that is aligned to cache lines.
 */
extern Size mtp_frame_size(uint32 nslabs);
extern void mtp_frame_make(MtpBuffer *b, MtpPolicy *policy, void *memory, char *images,
						   LWLockPadded *locks);

static inline uint64
mtp_tag_hash(MtpPageTag tag)
{
	uint64		h = tag.page ^ tag.space * UINT64CONST(0x9E3779B97F4A7C15);

	h *= UINT64CONST(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64CONST(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

static inline char *
mtp_frame_image(MtpBuffer *b, uint32 frame, int kind)
{
	return b->images + (Size) (frame / MTP_SLAB_FRAMES) * MTP_SLAB_BYTES +
		(Size) (frame % MTP_SLAB_FRAMES) * (MTP_SLAB_BYTES / mtp_policy_frames(kind));
}

/* The two buckets that may have a page's words.  Both belong to the page's partition. */
static inline pg_atomic_uint64 *
mtp_frame_bucket(MtpBuffer *b, uint64 hash, int which)
{
	uint32		n = (which == 0 ? hash >> 6 : hash >> 26) & b->bucket_mask;

	return &b->words[((hash % MTP_FRAME_PARTITIONS) * (b->bucket_mask + 1) + n) * MTP_BUCKET_WORDS];
}

/*
 * A word: a mark made of the page's hash, never zero, and the number of a frame.  The mark tells
 * most pages of a bucket apart.  Tests make it narrower.
 */
#ifndef MTP_FRAME_MARK_BITS
#define MTP_FRAME_MARK_BITS 32
#endif

static inline uint32
mtp_frame_mark(uint64 hash)
{
	return (uint32) (hash >> 32 << (32 - MTP_FRAME_MARK_BITS)) | 1;
}

/* A frame's kind.  It stays the same for as long as the frame has a page (invariant F6). */
static inline int
mtp_frame_kind(MtpBuffer *b, uint32 frame)
{
	return *(volatile uint8 *) &b->policy->kind_of[frame / MTP_SLAB_FRAMES];
}

/*
 * The kind of a frame that has a page of this kind; any kind if it has another page.  The file of
 * an index has pages of one kind, and they have frames of one kind: then no look is needed.
 */
static inline int
mtp_frame_kind_for(MtpBuffer *b, uint32 frame, int kind)
{
	return kind == MTP_FRAME_INDEX ? MTP_FRAME_INDEX : mtp_frame_kind(b, frame);
}

/*
 * Counts an access to a frame's page, which is of this kind.  random rounds (mtp_heat_hit), and
 * decides whether the frame has paid: a copy costs as much as some ten reads in a frame save, and a
 * page directory as much as two reads of its pair.  Nobody counts hits; each sets the mark with a
 * chance of one in so many.
 */
static inline void
mtp_frame_accessed(MtpBuffer *b, uint32 frame, int kind, uint8 random)
{
	MtpFrameHeader *header = &b->headers[frame];

	mtp_policy_hit(b->policy, frame, random);
	if (random < (kind == MTP_FRAME_PAGEDIR ? 128 : 16) && *(volatile uint32 *) &header->paid == 0)
		*(volatile uint32 *) &header->paid = 1;
}

/*
 * True if the frame has this page; then *ref is the frame at the version that was read.  False may
 * also mean that another process has the frame.  Nothing is counted.  Invariants F1 and F6: the
 * kind is read behind the version too.
 */
static inline bool
mtp_frame_peek(MtpBuffer *b, MtpPageTag tag, int kind, uint32 frame, MtpFrameRef *ref)
{
	MtpFrameHeader *header = &b->headers[frame];
	int			has;

	ref->version = pg_atomic_read_u64(&header->version);
	MTP_FRAME_STEP(version_read);
	pg_read_barrier();			/* the version before what it protects */
	if (ref->version % 2 != 0 || header->tag.page != tag.page || header->tag.space != tag.space)
		return false;
	has = mtp_frame_kind_for(b, frame, kind);
	if (mtp_policy_page_kind(has) != kind)
		return false;
	ref->frame = frame;
	ref->image = mtp_frame_image(b, frame, has);
	return true;
}

/*
 * As mtp_frame_peek, and counts an access.  An access to a page directory is not counted here: its
 * reader finds out whether it is of use, and then calls mtp_pair_answered.
 */
static inline bool
mtp_frame_look(MtpBuffer *b, MtpPageTag tag, int kind, uint32 frame, uint8 random, MtpFrameRef *ref)
{
	if (!mtp_frame_peek(b, tag, kind, frame, ref))
		return false;
	MTP_FRAME_STEP(found);
	if (kind != MTP_FRAME_PAGEDIR)
		mtp_frame_accessed(b, frame, kind, random);
	return true;
}

/*
 * True if the frame has a page, and *tag and *kind are those of one version (invariant F1).  False
 * also if another process has the frame, or it has changed under the look.
 */
static inline bool
mtp_frame_page(MtpBuffer *b, uint32 frame, MtpPageTag *tag, int *kind)
{
	MtpFrameHeader *header = &b->headers[frame];
	uint64		version = pg_atomic_read_u64(&header->version);

	pg_read_barrier();			/* the version before what it protects */
	*tag = header->tag;
	*kind = b->policy->kind_of[frame / MTP_SLAB_FRAMES];
	MTP_FRAME_STEP(looked_at);
	pg_read_barrier();			/* all of it before the version */
	return version % 2 == 0 && pg_atomic_read_u64(&header->version) == version && tag->page != 0;
}

/* Prefetches bytes from .. to of the image, if the frame has a page of this kind. */
static inline void
mtp_frame_prefetch(MtpBuffer *b, uint32 frame, int kind, Size from, Size to)
{
	const char *image = mtp_frame_image(b, frame, mtp_frame_kind_for(b, frame, kind));

	for (Size at = from; at < to; at += 64)
		__builtin_prefetch(image + at);
}

/*
 * Finds the frame of a page: true, and *ref is the frame.  The caller reads bytes from .. to of
 * the image first; they are prefetched together with the frame's header.  Takes no lock.  A word is
 * a hint, so neither its age nor a collision matters (invariant F2).
 */
static inline bool
mtp_frame_find(MtpBuffer *b, MtpPageTag tag, int kind, uint8 random, Size from, Size to,
			   MtpFrameRef *ref)
{
	uint64		hash = mtp_tag_hash(tag);
	uint32		mark = mtp_frame_mark(hash);

	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
		{
			uint64		word = pg_atomic_read_u64(&words[i]);

			if (word >> 32 != mark)
				continue;
			MTP_FRAME_STEP(word_read);
			mtp_frame_prefetch(b, (uint32) word, kind, from, to);
			if (mtp_frame_look(b, tag, kind, (uint32) word, random, ref))
				return true;
		}
	}
	return false;
}

/*
 * Where a page's image seems to be, for one who prefetches it; NULL if it seems to have none.
 * Looks at words alone, prefetches the frame's header, and counts nothing.
 */
static inline const char *
mtp_frame_guess(MtpBuffer *b, MtpPageTag tag, int kind)
{
	uint64		hash = mtp_tag_hash(tag);
	uint32		mark = mtp_frame_mark(hash);

	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
		{
			uint64		word = pg_atomic_read_u64(&words[i]);
			uint32		frame = (uint32) word;

			if (word >> 32 == mark && mtp_frame_kind(b, frame) == kind)
			{
				__builtin_prefetch(&b->headers[frame]);
				return mtp_frame_image(b, frame, kind);
			}
		}
	}
	return NULL;
}

/*
 * Finds the frame of the next page for a reader that goes from page to page.  ref->frame is the
 * frame that it found last, or any number.  Pages that were published one after the other mostly
 * have frames side by side (frame_behind in frame.c), so a look at the next two frames comes
 * before the look for a word.  A header says which page its frame has, so a guess is as good as a
 * word.  Headers further on are prefetched meanwhile.
 */
#define MTP_FRAMES_AHEAD	6

static inline bool
mtp_frame_find_next(MtpBuffer *b, MtpPageTag tag, int kind, uint8 random, Size from, Size to,
					MtpFrameRef *ref)
{
	uint32		last = ref->frame;

	if (last < b->policy->nslabs * MTP_SLAB_FRAMES - MTP_FRAMES_AHEAD)
	{
		mtp_frame_prefetch(b, last + MTP_FRAMES_AHEAD, kind, from, to);
		/* Two, since two processes may have filled frames in turns. */
		if (mtp_frame_look(b, tag, kind, last + 1, random, ref) ||
			mtp_frame_look(b, tag, kind, last + 2, random, ref))
			return true;
	}
	return mtp_frame_find(b, tag, kind, random, from, to, ref);
}

/*
 * True if all that was read of the frame since it was found is of the one page, at one version
 * (invariant F1).  If false, the caller must use nothing of it.
 */
static inline bool
mtp_frame_still(MtpBuffer *b, const MtpFrameRef *ref)
{
	MTP_FRAME_STEP(image_read);
	pg_read_barrier();			/* all reads before the version */
	return pg_atomic_read_u64(&b->headers[ref->frame].version) == ref->version;
}

/*
 * Publishing has two steps, so that a caller that must read the page first knows whether that is
 * worth it.  kind is the frame's kind: for a page directory, one of two.  *random is a state of
 * random numbers, not 0.
 *
 * mtp_frame_place chooses a frame.  It counts an access, and is true if the page has no frame yet
 * and is warm enough for one.  With only_free it counts nothing, and takes only a free frame, or
 * one whose page has degree 0.  Nothing is reserved.  place->degree is negative if no frame was
 * looked for: the page rests, or few misses look (mtp_policy_miss).
 *
 * mtp_frame_publish gives the page that frame.  The caller holds the content lock of all blocks of
 * the page, share or exclusive (invariant F4).  blocks are the page's blocks, NULL for one of
 * zeros.  For a page directory blocks is NULL: the directory is empty then, which its first word,
 * zero, says.  *ref, if not NULL, is the frame that was published.  False if another process has
 * the frame, or was faster.  Takes locks of partitions, one at a time.  Raises no error, unless
 * the caller holds 200 LWLocks.
 */
typedef struct MtpFramePlace
{
	uint32		frame;
	int			degree;
} MtpFramePlace;

extern bool mtp_frame_place(MtpBuffer *b, MtpPageTag tag, int kind, bool only_free, uint64 *random,
							MtpFramePlace *place);

/*
 * As mtp_frame_place for a page that the caller knows to be this warm (0 .. MTP_HEAT_MOST).  No
 * access is counted.
 */
extern bool mtp_frame_place_warm(MtpBuffer *b, MtpPageTag tag, int kind, int degree, uint64 *random,
								 MtpFramePlace *place);
extern bool mtp_frame_publish(MtpBuffer *b, MtpPageTag tag, int kind, const MtpFramePlace *place,
							  const char *const *blocks, MtpFrameRef *ref);

/*
 * Fills the page directory that was published empty as *ref, with what was made of the blocks that
 * were locked then.  data must fit in the frame.  With size 0 the directory is taken away instead.
 * False, with nothing done, if the frame's version is not the one that was published.
 */
extern bool mtp_frame_fill(MtpBuffer *b, MtpPageTag tag, const MtpFrameRef *ref, const char *data,
						   Size size);

/*
 * Lets a slab change to this kind, if pages of this kind are worth more.  For callers that have
 * published pages, or were refused, and hold no lock.  May take a while now and then.
 */
extern void mtp_frame_consider(MtpBuffer *b, int kind, uint64 *random);

/*
 * Makes an index page stale: takes its frame away.  hints: only dead hints have changed, so the
 * page may be copied again at once.  The caller holds the content lock of the page, exclusive (for
 * hints: share), and unlocks no page of its change before it has called this for all of them
 * (invariant F5).  For critical sections.
 */
extern void mtp_frame_stale(MtpBuffer *b, MtpPageTag tag, bool hints);

/*
 * Makes a pair of table blocks stale: takes its image away, and with new_rows its page directory
 * too.  The caller has changed and unlocked the pair, and its transaction has not committed.  Not
 * for critical sections.
 */
extern void mtp_frame_stale_pair(MtpBuffer *b, MtpPageTag tag, bool new_rows);

/* True if the page has a frame of this kind: a guess. */
extern bool mtp_frame_has(MtpBuffer *b, MtpPageTag tag, int kind);

/*
 * Copies the first `size` bytes of a page's image, without an access.  False if the page has no
 * frame, or another process has it.
 */
extern bool mtp_frame_copy(MtpBuffer *b, MtpPageTag tag, int kind, void *to, Size size);

/* Makes a page at least this warm, with a frame or without.  False if it has no frame. */
extern bool mtp_frame_warm(MtpBuffer *b, MtpPageTag tag, int kind, int degree);

/*
 * Take pages away: mtp_frame_purge those for which `gone` is true (NULL: all), after a look at all
 * headers; mtp_frame_purge_page those of one block, of each kind.  The caller makes sure that
 * nobody publishes one of these pages meanwhile, nor fills one of their directories.
 */
extern void mtp_frame_purge(MtpBuffer *b, bool (*gone) (MtpPageTag tag, void *arg), void *arg);
extern void mtp_frame_purge_page(MtpBuffer *b, MtpPageTag tag);

/* The number of headers that mtp_frame_purge looks at */
extern uint64 mtp_frame_headers(MtpBuffer *b);

/* True if a page of the tag's file may have a frame.  False is certain, for a caller as above. */
extern bool mtp_frame_has_file(MtpBuffer *b, MtpPageTag tag);

/*
 * Gives a frame the page whose image it has.  Only at the server's start, while no other process
 * has the buffer.  The version is even and not 0.  False if the page has a frame already, or its
 * buckets have no free word.
 */
extern bool mtp_frame_adopt(MtpBuffer *b, uint32 frame, MtpPageTag tag, uint64 version, int degree);

#endif							/* MTP_BUFFER_FRAME_H */
