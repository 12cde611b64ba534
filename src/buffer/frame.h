/*
 * frame.h
 *	  Frames: copies of pages that readers find and read without locks.
 *
 * A frame has a version, which only grows: odd while its page or its identity changes.  A reader finds a frame (mtp_frame_find), reads
 * of its image what he needs, copies it out, and asks whether the frame is still what it was (mtp_frame_still); if not, nothing that he
 * has read may be used.  What changes underneath may say anything: a reader follows no offset and no length that he has not bounded.
 *
 * A frame is published by whoever has locked the page's content, share or exclusive, for as long as that takes.  Whoever changes pages
 * makes the frames of all of them stale before he unlocks the first one.  So what a reader finds is what he would have found with locks.
 * README.md has the argument.
 */
#ifndef MTP_BUFFER_FRAME_H
#define MTP_BUFFER_FRAME_H

#include "buffer/pool.h"
#include "storage/block.h"
#include "storage/lwlock.h"

/*
 * Steps of the protocol, by name: "frame_copied" is an injection point.  Tests put delays there (test/unit/frame_test.c, buffer_oracle.pl), and go through all orders
 * of them (test/model).  Some are in critical sections: these may be delayed, but must not wait or fail.
 */
#ifndef MTP_FRAME_STEP
#include "core/inject.h"
#define MTP_FRAME_STEP(name) MTP_INJECT("frame_" #name)
#endif

/*
 * Which page: never zero in any part, since block 0 counts as 1.  A pair of a table's blocks is named by the first one, and so is its directory: which of
 * them a frame has follows from its extent's kind.  Directories have frames of two sizes, each a kind
 * of extents; who looks for a directory finds it in either.
 */
typedef struct MtpPageTag
{
	uint64		space;			/* tablespace and database */
	uint64		page;			/* file, and block + 1 */
} MtpPageTag;

typedef struct MtpFrameHead
{
	pg_atomic_uint64 version;
	MtpPageTag	tag;			/* zero: the frame is free */
	uint32		paid;			/* a guess: it has been read more often than a copy costs
								 * (mtp_paid_odds); written without locks, by readers too */
	uint32		unused;			/* two heads in a cache line */
} MtpFrameHead;

/* What a process counts, of each kind */
typedef enum MtpFrameCount
{
	MTP_COUNT_HITS,				/* found, and of use */
	MTP_COUNT_TORN,				/* changed by somebody before they were read */
	MTP_COUNT_MISSES,			/* read where it lay, by who would have read its frame */
	MTP_COUNT_PUBLISHED,
	MTP_COUNT_REFUSED,			/* colder than what is there, or somebody was at the frame or the
								 * page */
	MTP_COUNT_EVICTED,
	MTP_COUNT_STALED,			/* by a change of the page */
	MTP_COUNT_PURGED,			/* with the page's file */
	MTP_COUNT_WAITS,			/* of VACUUM, for who has read a frame (slot.h) */
	MTP_COUNT_SEALED,			/* written down to be found again after a restart (home.h) */
	MTP_COUNT_TAKEN_OVER,		/* found so */
	MTP_FRAME_COUNTS
} MtpFrameCount;

/* Words that lead to frames: a bucket is a cache line. */
#define MTP_BUCKET_WORDS	8
#define MTP_FRAME_PARTITIONS 64

/*
 * A copy costs as much as some ten reads in a frame save, and a directory as some two reads of its pair.  Nobody counts a frame's hits:
 * each sets, with this chance in 256, a mark that the frame has paid.
 */
static inline int
mtp_paid_odds(int kind)
{
	return kind == MTP_FRAME_PAGEDIR ? 128 : 16;
}

/*
 * A page whose frame was made stale is read where it lies some times before it gets one again.  Each frame that goes before it has paid
 * (mtp_paid_odds) raises the page's rest to twice as many misses, up to 2^mtp_most_rest; one that has paid halves it.  So pages that
 * change more often than it takes to pay, as those at the ends of a queue do, are hardly ever copied.
 */
static inline int
mtp_most_rest(int kind)
{
	/* The misses of a directory are scans of its table. */
	return kind == MTP_FRAME_PAGEDIR ? 5 : 7;
}

/* By a page's hash: pages of a kind share them, and processes lose some of each other's steps.  Both only cost time. */
typedef struct MtpRest
{
	uint8		misses;			/* still to come before the page is published */
	uint8		useless;		/* frames that have not paid, less those that have */
} MtpRest;

/* Counters of files' frames, for each extent: many more than files that have any, mostly.  Files that share one are taken for each other (mtp_frame_has_file). */
#define MTP_FILES_PER_EXTENT 64

/* A process's way to the buffer */
typedef struct MtpBuffer
{
	MtpPool    *pool;
	MtpFrameHead *heads;		/* of each frame */
	char	   *images;			/* extents */
	pg_atomic_uint64 *words;	/* buckets */
	uint32		bucket_mask;	/* buckets of a partition, less one */
	LWLockPadded *locks;		/* of each partition; then the one for extents */
	void		(*copy) (void *to, const void *from, Size size);	/* writes images, where that
																	 * takes more than memcpy
																	 * (home.h) */
	MtpRest    *rests;			/* of each kind */
	uint32		rest_mask;		/* rests of a kind, less one */
	pg_atomic_uint32 *files;	/* frames of the files of each hash */
	uint32		file_mask;
	uint32		spare;			/* a frame that this process has made free, and that is still warm
								 * in its cache, plus one; or 0 */
	uint32		behind;			/* the frame behind the one that this process has filled last with
								 * a directory; or 0 */
	MtpAdmission admissions[MTP_POOL_KINDS];	/* of this process's misses */
	uint64		counts[MTP_FRAME_KINDS][MTP_FRAME_COUNTS];	/* this process's */
} MtpBuffer;

/* What a reader has found */
typedef struct MtpFrameRef
{
	uint32		frame;
	uint64		version;
	const char *image;
} MtpFrameRef;

static inline MtpPageTag
mtp_page_tag(MtpLocator file, BlockNumber block)
{
	MtpPageTag	tag = {(uint64) MtpLocatorSpace(file) << 32 | MtpLocatorDatabase(file), (uint64) MtpLocatorFile(file) << 32 | (uint32) (block + 1)};

	return tag;
}

static inline MtpLocator
mtp_tag_file(MtpPageTag tag)
{
	MtpLocator	file;

	memset(&file, 0, sizeof(file));
	MtpLocatorSpace(file) = tag.space >> 32;
	MtpLocatorDatabase(file) = (Oid) tag.space;
	MtpLocatorFile(file) = tag.page >> 32;
	return file;
}

/* Bytes that heads and words take beside the pool and the images; makes a buffer of them, with memory that is cache-line aligned. */
extern Size mtp_frame_size(uint32 nextents);
extern void mtp_frame_make(MtpBuffer *b, MtpPool *pool, void *memory, char *images, LWLockPadded *locks);

static inline uint64
mtp_tag_hash(MtpPageTag tag)
{
	uint64		h = (tag.page ^ tag.space * UINT64CONST(0x9E3779B97F4A7C15)) * UINT64CONST(0xff51afd7ed558ccd);

	h = (h ^ h >> 33) * UINT64CONST(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

static inline char *
mtp_frame_image(MtpBuffer *b, uint32 frame, int kind)
{
	return b->images + (Size) (frame / MTP_EXTENT_FRAMES) * MTP_EXTENT_BYTES +
		(Size) (frame % MTP_EXTENT_FRAMES) * (MTP_EXTENT_BYTES / mtp_pool_frames(kind));
}

/* The two buckets that may have a page's word; both belong to its partition. */
static inline pg_atomic_uint64 *
mtp_frame_bucket(MtpBuffer *b, uint64 hash, int which)
{
	uint32		n = (which == 0 ? hash >> 6 : hash >> 26) & b->bucket_mask;

	return &b->words[((hash % MTP_FRAME_PARTITIONS) * (b->bucket_mask + 1) + n) * MTP_BUCKET_WORDS];
}

/* A word: what distinguishes pages of a bucket, as far as it does, never zero, and the frame. */
#ifndef MTP_FRAME_MARK_BITS
#define MTP_FRAME_MARK_BITS 32
#endif

static inline uint32
mtp_frame_mark(uint64 hash)
{
	return (uint32) (hash >> 32 << (32 - MTP_FRAME_MARK_BITS)) | 1;
}

/* A frame's kind: the same one for as long as it has a page */
static inline int
mtp_frame_kind(MtpBuffer *b, uint32 frame)
{
	return *(volatile uint8 *) &b->pool->kind_of[frame / MTP_EXTENT_FRAMES];
}

/*
 * A frame's kind if it has a page of this one, else any.  An index's file has pages of one kind alone, and
 * they have frames of one kind.
 */
static inline int
mtp_frame_kind_for(MtpBuffer *b, uint32 frame, int kind)
{
	return kind == MTP_FRAME_INDEX ? MTP_FRAME_INDEX : mtp_frame_kind(b, frame);
}

/* Counts an access to the page of this kind that a frame has. */
static inline void
mtp_frame_accessed(MtpBuffer *b, uint32 frame, int kind, uint8 random)
{
	MtpFrameHead *head = &b->heads[frame];

	mtp_pool_hit(b->pool, frame, random);
	if (random < mtp_paid_odds(kind) && *(volatile uint32 *) &head->paid == 0)
		*(volatile uint32 *) &head->paid = 1;
}

/* Is it the page's frame?  Then *ref is it.  False may mean that somebody is at it. */
static inline bool
mtp_frame_peek(MtpBuffer *b, MtpPageTag tag, int kind, uint32 frame, MtpFrameRef *ref)
{
	MtpFrameHead *head = &b->heads[frame];
	int			has;

	ref->version = pg_atomic_read_u64(&head->version);
	MTP_FRAME_STEP(version_read);
	pg_read_barrier();			/* the version before what it protects */
	if (ref->version % 2 != 0 || head->tag.page != tag.page || head->tag.space != tag.space)
		return false;
	has = mtp_frame_kind_for(b, frame, kind);
	if (mtp_pool_page_kind(has) != kind)
		return false;
	ref->frame = frame;
	ref->image = mtp_frame_image(b, frame, has);
	return true;
}

/* The same; an access is counted, unless it is a directory: whether that is of use its reader finds out. */
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

/* Asks for bytes from … to of the image of a page of this kind, if the frame has one. */
static inline void
mtp_frame_prefetch(MtpBuffer *b, uint32 frame, int kind, Size from, Size to)
{
	const char *image = mtp_frame_image(b, frame, mtp_frame_kind_for(b, frame, kind));

	for (Size at = from; at < to; at += 64)
		__builtin_prefetch(image + at);
}

/*
 * Finds a page's frame.  Which bytes of the image the caller reads first, if he knows: they are asked for together with the frame's head.
 */
static inline bool
mtp_frame_find(MtpBuffer *b, MtpPageTag tag, int kind, uint8 random, Size from, Size to, MtpFrameRef *ref)
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
 * The same for who goes from page to page.  Pages that were published one after the other mostly have frames side by side (mtp_frame_place), so he looks behind the frame that he found last (ref->frame; any number
 * will do) before he looks for the word: a frame's head says what page it is of, so a guess is as good as a word, which is a hint as well.  What the frames behind it have is asked
 * for meanwhile.
 */
#define MTP_FRAMES_AHEAD	6

static inline bool
mtp_frame_find_next(MtpBuffer *b, MtpPageTag tag, int kind, uint8 random, Size from, Size to, MtpFrameRef *ref)
{
	uint32		last = ref->frame;

	if (last < b->pool->nextents * MTP_EXTENT_FRAMES - MTP_FRAMES_AHEAD)
	{
		mtp_frame_prefetch(b, last + MTP_FRAMES_AHEAD, kind, from, to);
		/* Two, since two processes may have been at it. */
		if (mtp_frame_look(b, tag, kind, last + 1, random, ref) || mtp_frame_look(b, tag, kind, last + 2, random, ref))
			return true;
	}
	return mtp_frame_find(b, tag, kind, random, from, to, ref);
}

/* Is all that was read of the frame since it was found one and the same page's? */
static inline bool
mtp_frame_still(MtpBuffer *b, const MtpFrameRef *ref)
{
	MTP_FRAME_STEP(image_read);
	pg_read_barrier();			/* what was read before the version */
	return pg_atomic_read_u64(&b->heads[ref->frame].version) == ref->version;
}

/*
 * Publishing, in two steps, so that who has to read a page for it knows whether that is worth it.
 * kind: of the frame, which for a directory is one of two.  *random is a state of random numbers, not 0.
 *
 * mtp_frame_place: where the page may be, if it has no frame and is warm enough (counts an access), or, with only_free, if there is a
 * free one, or one whose page is of level 0.  Nothing is reserved.
 * place->level is negative if none was looked for: the page rests, or misses look seldom.
 *
 * mtp_frame_publish: gives the page that frame.  The caller has locked the page's content, share or exclusive; blocks: the image's, of which NULL stands for
 * zeros; or NULL for a directory, which is empty then (its first word is zero).  *ref, if not NULL: what was published.  Takes locks of partitions, one at a time.
 * Raises no error unless 200 locks are held.
 */
typedef struct MtpFramePlace
{
	uint32		frame;
	int			level;
} MtpFramePlace;

extern bool mtp_frame_place(MtpBuffer *b, MtpPageTag tag, int kind, bool only_free, uint64 *random, MtpFramePlace *place);

/* The same for a page that is known to be as warm as this (0 … MTP_HEAT_MOST); counts no access. */
extern bool mtp_frame_place_warm(MtpBuffer *b, MtpPageTag tag, int kind, int level, uint64 *random, MtpFramePlace *place);
extern bool mtp_frame_publish(MtpBuffer *b, MtpPageTag tag, int kind, const MtpFramePlace *place, const char *const *blocks, MtpFrameRef *ref);

/*
 * Fills a directory's frame with what was made of the blocks that were locked when it was published, and fits it, or takes it away (size 0).  False if it
 * is not the one that was published any more; then nothing is done.
 */
extern bool mtp_frame_fill(MtpBuffer *b, MtpPageTag tag, const MtpFrameRef *ref, const char *data, Size size);

/*
 * After pages were published, with no lock held: lets memory change its kind, if pages of this one are worth more.  May take a while, now and then.
 */
extern void mtp_frame_consider(MtpBuffer *b, int kind, uint64 *random);

/* hints: they alone were changed, so the page may well be copied again at once.  The page is changed by the caller, who has locked its content exclusively, and unlocks nothing of this change before this.  For critical sections. */
extern void mtp_frame_stale(MtpBuffer *b, MtpPageTag tag, bool hints);

/*
 * A pair of table blocks was changed, and is unlocked again, by a transaction that has not committed: its image goes, and, if it has new rows, its
 * directory.  Not for critical sections.
 */
extern void mtp_frame_stale_pair(MtpBuffer *b, MtpPageTag tag, bool new_rows);

/* Has the pair a page of this kind?  A guess. */
extern bool mtp_frame_has(MtpBuffer *b, MtpPageTag tag, int kind);

/* Copies so many bytes of a page's frame, without an access; false if it has none, or somebody is at it. */
extern bool mtp_frame_copy(MtpBuffer *b, MtpPageTag tag, int kind, void *to, Size size);

/* A page is at least as warm as this, with a frame or without; false if it has none. */
extern bool mtp_frame_warm(MtpBuffer *b, MtpPageTag tag, int kind, int level);

/*
 * Takes all pages away for which gone says yes; or those of one block, whatever frames it has.  The caller sees to it that none of these is published
 * meanwhile, and no directory filled.
 */
extern void mtp_frame_purge(MtpBuffer *b, bool (*gone) (MtpPageTag tag, void *arg), void *arg);
extern void mtp_frame_purge_page(MtpBuffer *b, MtpPageTag tag);

/* How many heads a purge looks at. */
extern uint64 mtp_frame_heads(MtpBuffer *b);

/* May a page of the tag's file have a frame?  No is certain, for such a caller. */
extern bool mtp_frame_has_file(MtpBuffer *b, MtpPageTag tag);

/*
 * Gives a frame the page whose image it has, while nobody else has the buffer: at the server's start.  The version is even, and not 0.  False if
 * the page has a frame already, or there is no word.
 */
extern bool mtp_frame_adopt(MtpBuffer *b, uint32 frame, MtpPageTag tag, uint64 version, int level);

#endif							/* MTP_BUFFER_FRAME_H */
