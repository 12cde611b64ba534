/*
 * frame.c
 *	  Publishes frames, makes them stale, and takes them away.
 *
 * Who changes a frame has made its version odd, by a compare-and-swap, and is alone until he makes it even again.  A frame that a word
 * leads to is made odd only under the lock of its page's partition, and the word goes before that lock does.
 */
#ifndef MTP_FRAME_STEP
#include "wal/stop.h"

/* Steps outside of critical sections are stop points: "frame_copied". */
#define MTP_FRAME_STEP(name) MTP_STOP_POINT("frame_" #name)
#endif

#include "buffer/frame.h"

#define MOST_TRIES 1000			/* for a frame that somebody else is at */

static uint32
buckets(uint32 nextents)
{
	uint32		n = 1;

	/* A quarter of the words are in use at the most. */
	while ((uint64) n * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS < (uint64) nextents * MTP_EXTENT_FRAMES * 4)
		n *= 2;
	return n;
}

Size
mtp_frame_size(uint32 nextents)
{
	return add_size(mul_size(nextents, MTP_EXTENT_FRAMES * sizeof(MtpFrameHead)),
					mul_size(buckets(nextents), MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS * sizeof(uint64)));
}

void
mtp_frame_make(MtpBuffer *b, MtpPool *pool, void *memory, char *images, LWLockPadded *locks)
{
	uint32		nframes = pool->nextents * MTP_EXTENT_FRAMES;
	uint32		nbuckets = buckets(pool->nextents);

	b->pool = pool;
	b->images = images;
	b->locks = locks;
	b->bucket_mask = nbuckets - 1;
	b->words = memory;
	b->heads = (MtpFrameHead *) (b->words + (Size) nbuckets * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS);
	for (uint32 i = 0; i < nbuckets * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS; i++)
		pg_atomic_init_u64(&b->words[i], 0);
	for (uint32 i = 0; i < nframes; i++)
	{
		pg_atomic_init_u64(&b->heads[i].version, 0);
		b->heads[i].tag = (MtpPageTag) {0, 0};
	}
}

static LWLock *
partition_lock(MtpBuffer *b, uint64 hash)
{
	return &b->locks[hash % MTP_FRAME_PARTITIONS].lock;
}

static LWLock *
extent_lock(MtpBuffer *b)
{
	return &b->locks[MTP_FRAME_PARTITIONS].lock;
}

/* ---------- words ---------- */

/*
 * The word of a page, or NULL.  Exact under the partition's lock.  Without it, a word may go that is found, but none comes while
 * the caller has locked the page's content exclusively.
 */
static pg_atomic_uint64 *
word_of(MtpBuffer *b, MtpPageTag tag, uint64 hash)
{
	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
		{
			uint64		word = pg_atomic_read_u64(&words[i]);
			MtpPageTag *has = &b->heads[(uint32) word].tag;

			if (word >> 32 == mtp_frame_mark(hash) && has->page == tag.page && has->space == tag.space)
				return &words[i];
		}
	}
	return NULL;
}

/* A free word of the emptier bucket, or NULL. */
static pg_atomic_uint64 *
free_word(MtpBuffer *b, uint64 hash)
{
	pg_atomic_uint64 *found = NULL;
	int			most = 0;

	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);
		pg_atomic_uint64 *last = NULL;
		int			n = 0;

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
			if (pg_atomic_read_u64(&words[i]) == 0)
			{
				last = &words[i];
				n++;
			}
		if (n > most)
		{
			most = n;
			found = last;
		}
	}
	return found;
}

/* ---------- one's own frames ---------- */

/*
 * Makes a frame one's own: odd, free, and with no word.  False if somebody else is at it.  why: what is counted if it has a page.
 */
static bool
take(MtpBuffer *b, uint32 frame, MtpFrameCount why)
{
	MtpFrameHead *head = &b->heads[frame];
	uint64		version = pg_atomic_read_u64(&head->version);
	MtpPageTag	tag;
	uint64		hash;
	bool		taken;

	pg_read_barrier();
	if (version % 2 != 0)
		return false;
	tag = head->tag;
	MTP_FRAME_STEP(chosen);
	if (tag.page == 0)
	{
		taken = pg_atomic_compare_exchange_u64(&head->version, &version, version + 1);
		pg_write_barrier();
		return taken;
	}
	hash = mtp_tag_hash(tag);
	LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
	taken = pg_atomic_compare_exchange_u64(&head->version, &version, version + 1);
	pg_write_barrier();			/* the odd version before all else */
	MTP_FRAME_STEP(odd);
	if (taken)
	{
		pg_atomic_uint64 *word = word_of(b, tag, hash);

		Assert(word != NULL);	/* it came before the version was even, and goes here alone */
		pg_atomic_write_u64(word, 0);
	}
	LWLockRelease(partition_lock(b, hash));
	if (!taken)
		return false;
	mtp_pool_left(b->pool, frame, hash);
	b->counts[b->pool->kind_of[frame / MTP_EXTENT_FRAMES]][why]++;
	MTP_FRAME_STEP(taken);
	head->tag = (MtpPageTag) {0, 0};
	return true;
}

/* Lets go of one's own frame: what it has is complete. */
static void
let_go(MtpBuffer *b, uint32 frame)
{
	MtpFrameHead *head = &b->heads[frame];

	MTP_FRAME_STEP(complete);
	pg_write_barrier();			/* what the version protects before it */
	pg_atomic_write_u64(&head->version, pg_atomic_read_u64(&head->version) + 1);
}

/*
 * Has an extent change its kind, while all its frames are one's own: who takes one before that lets go of it, and who takes one later
 * sees the new kind (mtp_frame_publish).  If somebody keeps one for long the extent stays what it is.
 */
static void
change_extent(MtpBuffer *b, uint32 extent, int kind)
{
	uint32		first = extent * MTP_EXTENT_FRAMES;
	uint32		n;

	for (n = 0; n < MTP_EXTENT_FRAMES; n++)
	{
		int			tries = 0;

		while (!take(b, first + n, MTP_COUNT_EVICTED) && ++tries < MOST_TRIES)
			pg_spin_delay();
		if (tries == MOST_TRIES)
			break;
	}
	MTP_FRAME_STEP(all_mine);
	if (n == MTP_EXTENT_FRAMES)
		mtp_pool_change(b->pool, extent, kind);
	while (n > 0)
		let_go(b, first + --n);
}

void
mtp_frame_consider(MtpBuffer *b, int kind, uint64 *random)
{
	uint32		extent;

	if (!LWLockConditionalAcquire(extent_lock(b), LW_EXCLUSIVE))
		return;
	if (mtp_pool_wants(b->pool, kind, random, &extent))
		change_extent(b, extent, kind);
	LWLockRelease(extent_lock(b));
}

bool
mtp_frame_publish(MtpBuffer *b, MtpPageTag tag, int kind, const char *image, uint64 *random)
{
	MtpPool    *pool = b->pool;
	uint64		hash = mtp_tag_hash(tag);
	int			level = mtp_pool_miss(pool, hash, (uint8) (*random >> 8));
	uint32		frame;
	pg_atomic_uint64 *word;

	/* Somebody else with a share lock may have been faster, and there may be no word; better known before a page has to go. */
	if (word_of(b, tag, hash) != NULL || free_word(b, hash) == NULL)
		return false;
	if (!mtp_pool_place(pool, kind, level, random, &frame))
	{
		b->counts[kind][MTP_COUNT_REFUSED]++;
		return false;
	}
	MTP_FRAME_STEP(placed);
	if (!take(b, frame, MTP_COUNT_EVICTED))
	{
		b->counts[kind][MTP_COUNT_REFUSED]++;
		return false;
	}
	MTP_FRAME_STEP(mine);
	if (*(volatile uint8 *) &pool->kind_of[frame / MTP_EXTENT_FRAMES] != kind)
	{
		let_go(b, frame);
		return false;
	}
	memcpy(mtp_frame_image(b, frame, kind), image, MTP_EXTENT_BYTES / mtp_pool_frames(kind));
	MTP_FRAME_STEP(copied);
	b->heads[frame].tag = tag;

	LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
	word = word_of(b, tag, hash) == NULL ? free_word(b, hash) : NULL;
	MTP_FRAME_STEP(word_chosen);
	if (word != NULL)
	{
		pg_atomic_write_u64(word, (uint64) mtp_frame_mark(hash) << 32 | frame);
		mtp_pool_came(pool, frame, level);
		b->counts[kind][MTP_COUNT_PUBLISHED]++;
	}
	else
		b->heads[frame].tag = (MtpPageTag) {0, 0};
	let_go(b, frame);
	LWLockRelease(partition_lock(b, hash));
	return word != NULL;
}

/*
 * Where taking the frame fails, somebody else has taken it from the page: nobody publishes the page meanwhile.
 */
void
mtp_frame_stale(MtpBuffer *b, MtpPageTag tag)
{
	pg_atomic_uint64 *word = word_of(b, tag, mtp_tag_hash(tag));
	uint64		led;

	if (word == NULL)
		return;
	led = pg_atomic_read_u64(word);
	MTP_FRAME_STEP(word_found);
	if (led != 0 && take(b, (uint32) led, MTP_COUNT_STALED))
		let_go(b, (uint32) led);
}

/*
 * A frame that somebody is at, or that changes under this look, has been taken from the page that it had, and gets none of those that go.
 */
void
mtp_frame_purge(MtpBuffer *b, bool (*gone) (MtpPageTag tag, void *arg), void *arg)
{
	uint32		nframes = b->pool->nextents * MTP_EXTENT_FRAMES;

	for (uint32 frame = 0; frame < nframes; frame++)
	{
		MtpFrameHead *head = &b->heads[frame];
		uint64		version = pg_atomic_read_u64(&head->version);
		MtpPageTag	tag;

		/* An extent that nobody has used has no pages. */
		if (frame % MTP_EXTENT_FRAMES == 0 && b->pool->kind_of[frame / MTP_EXTENT_FRAMES] == MTP_FRAME_NONE)
		{
			frame += MTP_EXTENT_FRAMES - 1;
			continue;
		}
		pg_read_barrier();
		tag = head->tag;
		MTP_FRAME_STEP(looked_at);
		pg_read_barrier();
		if (version % 2 != 0 || pg_atomic_read_u64(&head->version) != version)
			continue;
		if (tag.page != 0 && gone(tag, arg) && take(b, frame, MTP_COUNT_PURGED))
			let_go(b, frame);
	}
}
