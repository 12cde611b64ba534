/*
 * frame.c
 *	  Publishes frames, makes them stale, and takes them away.
 *
 * A process that changes a frame makes its version odd first, by compare-and-swap, and is alone
 * with the frame until it makes the version even again (invariant F3).  If a word leads to the
 * frame, the process holds the lock of the page's partition while it makes the version odd, and
 * takes the word away before it releases the lock.
 *
 * Invariants F1 to F8 are in README.md, "Frames".
 */
#include "buffer/frame.h"

#include "port/pg_bitutils.h"

#define MOST_TRIES 1000			/* for a frame that another process has */

static const MtpPageTag no_page = {0, 0};	/* of a frame that is free */

/*
 * The buckets of a partition: a quarter of the words are in use if all frames are of blocks, half
 * of them if all are of page directories.
 */
static uint32
buckets(uint32 nslabs)
{
	return pg_nextpower2_32(nslabs * (Max(MTP_SLAB_BLOCKS * 4, MTP_SLAB_FRAMES * 2) /
									  (MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS)));
}

/*
 * One for each block that the buffer has room for, and at least 8192, so that pages seldom share
 * one.
 */
static uint32
rests_of_a_kind(uint32 nslabs)
{
	return pg_nextpower2_32(Max(8192, nslabs * MTP_SLAB_BLOCKS));
}

static uint32
file_counters(uint32 nslabs)
{
	return pg_nextpower2_32(nslabs * MTP_FILES_PER_SLAB);
}

Size
mtp_frame_size(uint32 nslabs)
{
	Size		headers = mul_size(nslabs, MTP_SLAB_FRAMES * sizeof(MtpFrameHeader));
	Size		words = mul_size(buckets(nslabs),
								 MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS * sizeof(uint64));
	Size		files = mul_size(file_counters(nslabs), sizeof(pg_atomic_uint32));
	Size		rests = mul_size(rests_of_a_kind(nslabs), MTP_FRAME_KINDS * sizeof(MtpRest));

	return add_size(add_size(headers, words), add_size(files, rests));
}

void
mtp_frame_make(MtpBuffer *b, MtpPolicy *policy, void *memory, char *images, LWLockPadded *locks)
{
	uint32		nframes = policy->nslabs * MTP_SLAB_FRAMES;
	uint32		nbuckets = buckets(policy->nslabs);

	b->policy = policy;
	b->images = images;
	b->locks = locks;
	b->bucket_mask = nbuckets - 1;
	b->words = memory;
	b->headers = (MtpFrameHeader *) (b->words +
									 (Size) nbuckets * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS);
	b->files = (pg_atomic_uint32 *) (b->headers + nframes);
	b->file_mask = file_counters(policy->nslabs) - 1;
	for (uint32 i = 0; i <= b->file_mask; i++)
		pg_atomic_init_u32(&b->files[i], 0);
	b->rests = (MtpRest *) (b->files + b->file_mask + 1);
	b->rest_mask = rests_of_a_kind(policy->nslabs) - 1;
	memset(b->rests, 0, ((Size) b->rest_mask + 1) * MTP_FRAME_KINDS * sizeof(MtpRest));
	b->spare = 0;
	b->behind = 0;
	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
		b->admissions[kind].mean = MTP_ADMITTED_ALL;
	for (uint32 i = 0; i < nbuckets * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS; i++)
		pg_atomic_init_u64(&b->words[i], 0);
	for (uint32 i = 0; i < nframes; i++)
	{
		pg_atomic_init_u64(&b->headers[i].version, 0);
		b->headers[i].tag = no_page;
		b->headers[i].paid = 0;
	}
}

static LWLock *
partition_lock(MtpBuffer *b, uint64 hash)
{
	return &b->locks[hash % MTP_FRAME_PARTITIONS].lock;
}

static LWLock *
slab_lock(MtpBuffer *b)
{
	return &b->locks[MTP_FRAME_PARTITIONS].lock;
}

/* ---------- words ---------- */

/* True if the word has the page's mark, and its frame has the page or is about to lose it. */
static pg_attribute_always_inline bool
leads_to(MtpBuffer *b, uint64 word, MtpPageTag tag, uint64 hash)
{
	MtpPageTag *has = &b->headers[(uint32) word].tag;

	return word >> 32 == mtp_frame_mark(hash) && has->page == tag.page && has->space == tag.space;
}

/*
 * The word that leads to a page's frame, or NULL.  The word of a page directory is found whatever
 * its frame's size (invariant F7).  Exact under the partition's lock.  Without the lock a word
 * that is found may go; but none comes while the caller holds the page's content lock exclusively
 * (invariant F4).
 */
static pg_atomic_uint64 *
word_of(MtpBuffer *b, MtpPageTag tag, int kind, uint64 hash)
{
	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
		{
			uint64		word = pg_atomic_read_u64(&words[i]);

			if (leads_to(b, word, tag, hash) &&
				mtp_policy_page_kind(mtp_frame_kind(b, (uint32) word)) ==
				mtp_policy_page_kind(kind))
				return &words[i];
		}
	}
	return NULL;
}

/* A free word of the page's emptier bucket, or NULL */
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

static inline void
count_event(MtpBuffer *b, int kind, MtpFrameCount what)
{
	mtp_frame_count(b, mtp_policy_page_kind(kind), what);
}

/*
 * How many frames have pages of the tag's file, and of files that share the counter.  Raised
 * before a page's word comes, and lowered when the word has gone: in both cases while the frame is
 * odd (invariant F8).
 */
static pg_atomic_uint32 *
frames_of_file(MtpBuffer *b, MtpPageTag tag)
{
	tag.page = tag.page >> 32 << 32;
	return &b->files[mtp_tag_hash(tag) & b->file_mask];
}

/* What the sketch knows a page by: a pair and its page directory are two pages there. */
static inline uint64
sketch_hash(uint64 hash, int kind)
{
	return hash + mtp_policy_page_kind(kind) * UINT64CONST(0x9E3779B97F4A7C15);
}

static inline volatile MtpRest *
rest_of(MtpBuffer *b, int kind, uint64 hash)
{
	return &b->rests[mtp_policy_page_kind(kind) * ((Size) b->rest_mask + 1) +
					 (hash >> 8 & b->rest_mask)];
}

/* True if the page rests: it must miss once more before it may be published.  Counts this miss. */
static bool
page_rests(MtpBuffer *b, int kind, uint64 hash)
{
	volatile MtpRest *rest = rest_of(b, kind, hash);
	uint8		misses = rest->misses;

	if (misses == 0)
		return false;
	rest->misses = misses - 1;
	return true;
}

/*
 * Sets the rest of a page whose frame goes by a change.  A frame that goes before it has paid
 * doubles it, up to 128 misses (of a directory, whose misses are scans of its table, 32); one that
 * has paid halves it.  So a page that changes more often than a frame takes to pay, such as the
 * ends of a queue, is hardly ever copied.  forgiven: the first frame that has not paid costs no
 * rest.  That is for changes that mostly happen to a page once: dead hints, and rows of a table.
 */
static void
send_to_rest(MtpBuffer *b, int kind, uint64 hash, bool paid, bool forgiven)
{
	volatile MtpRest *rest = rest_of(b, kind, hash);
	int			most = mtp_policy_page_kind(kind) == MTP_FRAME_PAGEDIR ? 5 : 7;
	uint8		useless = rest->useless;

	useless = paid ? Max(useless, 1) - 1 : Min(useless + 1, most);
	rest->useless = useless;
	rest->misses = useless > 1 ? 1 << useless : forgiven ? 0 : 2;
}

/* ---------- taking frames ---------- */

/*
 * Makes a frame free: its page moves to the sketch.  The caller has made the version odd, and the
 * page's word has gone.  why: what to count.
 */
static void
forget_page(MtpBuffer *b, uint32 frame, uint64 hash, MtpFrameCount why)
{
	int			kind = b->policy->kind_of[frame / MTP_SLAB_FRAMES];

	mtp_policy_left(b->policy, frame, sketch_hash(hash, kind));
	count_event(b, kind, why);
	MTP_FRAME_STEP(taken);
	pg_atomic_fetch_sub_u32(frames_of_file(b, b->headers[frame].tag), 1);
	b->headers[frame].tag = no_page;
}

/*
 * Takes a frame: makes its version odd, takes its page's word away, and makes it free.  False if
 * another process has it, or it has changed since the look at it; then nothing is done.  why: what
 * to count, if the frame has a page.
 *
 * The compare-and-swap starts from the version that was read before the identity, so the identity
 * is still that one when it succeeds.  On AArch64 the stores behind a compare-and-swap may become
 * visible before its own store: therefore the write barrier (invariant F3).  A frame that is taken
 * from a page never comes back to that page (invariant F5).
 */
static bool
take_frame(MtpBuffer *b, uint32 frame, MtpFrameCount why)
{
	MtpFrameHeader *header = &b->headers[frame];
	uint64		version = pg_atomic_read_u64(&header->version);
	MtpPageTag	tag;
	uint64		hash;
	bool		taken;

	pg_read_barrier();
	if (version % 2 != 0)
		return false;
	/* Behind the version, so the compare-and-swap below vouches for it. */
	tag = header->tag;
	MTP_FRAME_STEP(chosen);
	if (tag.page == 0)
	{
		taken = pg_atomic_compare_exchange_u64(&header->version, &version, version + 1);
		pg_write_barrier();
		return taken;
	}
	hash = mtp_tag_hash(tag);
	LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
	taken = pg_atomic_compare_exchange_u64(&header->version, &version, version + 1);
	pg_write_barrier();			/* the odd version before all else */
	MTP_FRAME_STEP(odd);
	if (taken)
	{
		pg_atomic_uint64 *word = word_of(b, tag, b->policy->kind_of[frame / MTP_SLAB_FRAMES], hash);

		Assert(word != NULL);	/* the word came before the version was even, and goes here alone */
		pg_atomic_write_u64(word, 0);
	}
	LWLockRelease(partition_lock(b, hash));
	if (taken)
		forget_page(b, frame, hash, why);
	return taken;
}

/*
 * Lets a frame go that this process has taken: the version is even again.  What the frame has is
 * complete.
 */
static void
let_go(MtpBuffer *b, uint32 frame)
{
	MtpFrameHeader *header = &b->headers[frame];

	MTP_FRAME_STEP(complete);
	pg_write_barrier();			/* the image and the identity before the version */
	pg_atomic_write_u64(&header->version, pg_atomic_read_u64(&header->version) + 1);
}

/*
 * Changes the kind of a slab, while this process has all its frames (invariant F6).  A process
 * that chose one of the frames before, and takes it later, sees the new kind and lets the frame go
 * (mtp_frame_publish).  If another process keeps a frame for long, the slab stays as it is.  The
 * caller holds the lock for slabs.
 */
static void
change_slab(MtpBuffer *b, uint32 slab, int kind)
{
	uint32		first = slab * MTP_SLAB_FRAMES;
	uint32		n;

	for (n = 0; n < MTP_SLAB_FRAMES; n++)
	{
		int			tries = 0;

		while (!take_frame(b, first + n, MTP_COUNT_EVICTED) && ++tries < MOST_TRIES)
			pg_spin_delay();
		if (tries == MOST_TRIES)
			break;
	}
	MTP_FRAME_STEP(all_mine);
	if (n == MTP_SLAB_FRAMES)
		mtp_policy_change(b->policy, slab, kind);
	while (n > 0)
		let_go(b, first + --n);
}

void
mtp_frame_consider(MtpBuffer *b, int kind, uint64 *random)
{
	uint32		slab;

	if (!mtp_policy_may_want(b->policy, kind) ||
		!LWLockConditionalAcquire(slab_lock(b), LW_EXCLUSIVE))
		return;
	if (mtp_policy_wants(b->policy, kind, random, &slab))
		change_slab(b, slab, kind);
	LWLockRelease(slab_lock(b));
}

/* ---------- publishing ---------- */

bool
mtp_frame_has(MtpBuffer *b, MtpPageTag tag, int kind)
{
	return word_of(b, tag, kind, mtp_tag_hash(tag)) != NULL;
}

bool
mtp_frame_copy(MtpBuffer *b, MtpPageTag tag, int kind, void *to, Size size)
{
	pg_atomic_uint64 *word = word_of(b, tag, kind, mtp_tag_hash(tag));
	MtpFrameRef ref;

	if (word == NULL || !mtp_frame_peek(b, tag, kind, (uint32) pg_atomic_read_u64(word), &ref))
		return false;
	memcpy(to, ref.image, size);
	return mtp_frame_still(b, &ref);
}

/*
 * The index frame that this process has freed last, if it is still free: its memory is in the
 * processor's cache, and no page must go for it.  For index pages alone.  If the frame's slab
 * has become one of another kind, the number may be none of a frame.
 */
static bool
spare_frame(MtpBuffer *b, int kind, uint32 *frame)
{
	uint32		spare = b->spare;

	if (spare == 0 || kind != MTP_FRAME_INDEX)
		return false;
	b->spare = 0;
	*frame = spare - 1;
	return mtp_frame_kind(b, *frame) == kind && b->headers[*frame].tag.page == 0;
}

/*
 * For a page directory, the frame behind the one published last, if it is free: a scan of the
 * table then finds the frames side by side (mtp_frame_find_next).
 */
static bool
frame_behind(MtpBuffer *b, int kind, uint32 *frame)
{
	*frame = b->behind;
	return mtp_policy_page_kind(kind) == MTP_FRAME_PAGEDIR && b->behind != 0 &&
		mtp_policy_was_given(b->policy, kind, b->behind) && b->headers[b->behind].tag.page == 0;
}

/*
 * In this order: does this miss look at all, does the page rest, is there a frame for nothing, is
 * there a colder page.  None of it needs a lock, since nothing is reserved.
 */
bool
mtp_frame_place(MtpBuffer *b, MtpPageTag tag, int kind, bool only_free, uint64 *random,
				MtpFramePlace *place)
{
	uint64		hash = mtp_tag_hash(tag);
	MtpAdmission *admission = &b->admissions[kind];
	bool		found;

	place->degree = MTP_HEAT_ONE;
	if (!only_free)
		place->degree = mtp_policy_miss(b->policy, kind, sketch_hash(hash, kind), admission,
										(uint16) (*random >> 8));
	if (place->degree >= 0 && page_rests(b, kind, hash))
		place->degree = -1;
	found = place->degree >= 0 &&
		(spare_frame(b, kind, &place->frame) || frame_behind(b, kind, &place->frame));
	if (!found && place->degree >= 0)
	{
		found = mtp_policy_place(b->policy, kind, only_free ? 0
								 : place->degree, admission->stands_for, random, &place->frame);
		if (!only_free)
			mtp_policy_tried(admission, found);
	}
	if (!found)
	{
		count_event(b, kind, MTP_COUNT_REFUSED);
		return false;
	}

	/*
	 * Another process with a share lock may have been faster, or the buckets may be full.  Better
	 * to know that before a page must go.
	 */
	return word_of(b, tag, kind, hash) == NULL && free_word(b, hash) != NULL;
}

bool
mtp_frame_place_warm(MtpBuffer *b, MtpPageTag tag, int kind, int degree, uint64 *random,
					 MtpFramePlace *place)
{
	uint64		hash = mtp_tag_hash(tag);

	place->degree = degree;
	mtp_policy_warm(b->policy, sketch_hash(hash, kind), degree);
	if (word_of(b, tag, kind, hash) != NULL || free_word(b, hash) == NULL)
		return false;
	if (frame_behind(b, kind, &place->frame) ||
		mtp_policy_place(b->policy, kind, degree, 1, random, &place->frame))
		return true;
	count_event(b, kind, MTP_COUNT_REFUSED);
	return false;
}

/*
 * The frame may have another page by the time it is warmed.  That page is too warm then for a
 * while.
 */
bool
mtp_frame_warm(MtpBuffer *b, MtpPageTag tag, int kind, int degree)
{
	uint64		hash = mtp_tag_hash(tag);
	pg_atomic_uint64 *word = word_of(b, tag, kind, hash);
	uint64		led = word == NULL ? 0 : pg_atomic_read_u64(word);

	if (led == 0)
	{
		mtp_policy_warm(b->policy, sketch_hash(hash, kind), degree);
		return false;
	}
	if (mtp_heat_degree(b->policy->heat[(uint32) led], mtp_policy_epoch(b->policy)) < degree)
		mtp_policy_came(b->policy, (uint32) led, degree);
	return true;
}

static const char zeros[BLCKSZ];

static void
copy_image(MtpBuffer *b, uint32 frame, int kind, const char *const *blocks)
{
	char	   *image = mtp_frame_image(b, frame, kind);

	if (mtp_policy_page_kind(kind) == MTP_FRAME_PAGEDIR)
	{
		memset(image, 0, sizeof(uint64));
		return;
	}
	for (int i = 0; i < mtp_policy_frame_bytes(kind) / BLCKSZ; i++)
	{
		const char *block = blocks[i] != NULL ? blocks[i] : zeros;

		/* In the pool file a copy takes more than memcpy, with barriers of its own (src/pmem). */
		if (b->copy != NULL)
			b->copy(image + i * BLCKSZ, block, BLCKSZ);
		else
			memcpy(image + i * BLCKSZ, block, BLCKSZ);
	}
}

/*
 * The image is complete, and has its page's identity, before a word leads to it; and the version is
 * odd from take_frame to let_go, so that no reader believes the image earlier (invariants F1, F3).
 */
bool
mtp_frame_publish(MtpBuffer *b, MtpPageTag tag, int kind, const MtpFramePlace *place,
				  const char *const *blocks, MtpFrameRef *ref)
{
	MtpPolicy  *policy = b->policy;
	uint64		hash = mtp_tag_hash(tag);
	uint32		frame = place->frame;
	pg_atomic_uint64 *word;

	MTP_FRAME_STEP(placed);
	/* The place was not reserved: another process may have the frame by now. */
	if (!take_frame(b, frame, MTP_COUNT_EVICTED))
	{
		count_event(b, kind, MTP_COUNT_REFUSED);
		return false;
	}
	MTP_FRAME_STEP(mine);
	/* Or its slab has changed its kind since the frame was chosen (invariant F6). */
	if (mtp_frame_kind(b, frame) != kind)
	{
		let_go(b, frame);
		return false;
	}
	Assert(frame % MTP_SLAB_FRAMES < mtp_policy_frames(kind));
	copy_image(b, frame, kind, blocks);
	MTP_FRAME_STEP(copied);
	b->headers[frame].tag = tag;
	b->headers[frame].paid = 0;
	/* Before the word comes, so that a purge does not miss the frame (invariant F8). */
	pg_atomic_fetch_add_u32(frames_of_file(b, tag), 1);

	LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
	/* Another process with a share lock may have been faster (invariant F7). */
	word = word_of(b, tag, kind, hash) == NULL ? free_word(b, hash) : NULL;
	MTP_FRAME_STEP(word_chosen);
	if (word != NULL)
	{
		pg_atomic_write_u64(word, (uint64) mtp_frame_mark(hash) << 32 | frame);
		mtp_policy_came(policy, frame, place->degree);
		count_event(b, kind, MTP_COUNT_PUBLISHED);
		if (mtp_policy_page_kind(kind) == MTP_FRAME_PAGEDIR)
			b->behind = frame + 1;
	}
	else
	{
		pg_atomic_fetch_sub_u32(frames_of_file(b, tag), 1);
		b->headers[frame].tag = no_page;
	}
	/* Under the lock still: a word of this page that others find leads to an even frame. */
	let_go(b, frame);
	if (ref != NULL)
		*ref = (MtpFrameRef)
	{
		frame, pg_atomic_read_u64(&b->headers[frame].version), mtp_frame_image(b, frame, kind)
	};
	LWLockRelease(partition_lock(b, hash));
	return word != NULL;
}

/*
 * No lock is needed to find the word: the caller's content lock keeps words of this page from
 * coming.  Where take_frame fails another process has taken the frame from the page, so it is
 * gone; and nobody publishes the page meanwhile.
 */
void
mtp_frame_stale(MtpBuffer *b, MtpPageTag tag, bool hints)
{
	uint64		hash = mtp_tag_hash(tag);
	pg_atomic_uint64 *word = word_of(b, tag, MTP_FRAME_INDEX, hash);
	uint64		led;

	if (word == NULL)
		return;
	led = pg_atomic_read_u64(word);
	MTP_FRAME_STEP(word_found);
	if (led != 0 && take_frame(b, (uint32) led, MTP_COUNT_STALED))
	{
		send_to_rest(b, MTP_FRAME_INDEX, hash, b->headers[(uint32) led].paid != 0, hints);
		let_go(b, (uint32) led);
		b->spare = (uint32) led + 1;
	}
}

/* ---------- pairs ---------- */

/*
 * Takes away the frame that a word leads to.  The caller holds the partition's lock, and found the
 * word under it; the lock is released here.  Under the lock such a frame is even: a process that
 * makes it odd holds the lock too, and either takes the word away or makes the version even again
 * before it releases the lock.
 */
static void
take_away(MtpBuffer *b, pg_atomic_uint64 *word, uint64 hash, MtpFrameCount why)
{
	uint32		frame = (uint32) pg_atomic_read_u64(word);
	MtpFrameHeader *header = &b->headers[frame];
	uint64		version = pg_atomic_read_u64(&header->version);

	Assert(version % 2 == 0);
	pg_atomic_write_u64(&header->version, version + 1);
	pg_write_barrier();			/* the odd version before all else */
	MTP_FRAME_STEP(pair_odd);
	pg_atomic_write_u64(word, 0);
	LWLockRelease(partition_lock(b, hash));
	if (why == MTP_COUNT_STALED)
		send_to_rest(b, b->policy->kind_of[frame / MTP_SLAB_FRAMES], hash, header->paid != 0, true);
	forget_page(b, frame, hash, why);
	let_go(b, frame);
}

/*
 * True if some word has the mark of the page.  Mostly there is none, and then no frame needs a
 * look.
 */
static bool
has_mark(MtpBuffer *b, uint64 hash)
{
	MtpPolicyKind *kinds = b->policy->kinds;

	if (kinds[MTP_FRAME_TABLE].nslabs + kinds[MTP_FRAME_PAGEDIR].nslabs +
		kinds[MTP_FRAME_SMALL].nslabs == 0)
		return false;
	for (int which = 0; which < 2; which++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, which);

		for (int i = 0; i < MTP_BUCKET_WORDS; i++)
			if (pg_atomic_read_u64(&words[i]) >> 32 == mtp_frame_mark(hash))
				return true;
	}
	return false;
}

/*
 * Finds the word first without a lock: the frames that must go were published before the caller's
 * transaction locked the page.  But such a frame may be odd while it is filled (mtp_frame_fill),
 * and then it comes back.  So the frame is taken under the lock, behind a second look for the word
 * (invariant F9).
 */
void
mtp_frame_stale_pair(MtpBuffer *b, MtpPageTag tag, bool new_rows)
{
	uint64		hash = mtp_tag_hash(tag);

	if (!has_mark(b, hash))
		return;
	for (int kind = MTP_FRAME_TABLE; kind <= (new_rows ? MTP_FRAME_PAGEDIR : MTP_FRAME_TABLE);
		 kind++)
	{
		pg_atomic_uint64 *word;

		if (word_of(b, tag, kind, hash) == NULL)
			continue;
		MTP_FRAME_STEP(pair_found);
		LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
		word = word_of(b, tag, kind, hash);
		if (word != NULL)
			take_away(b, word, hash, MTP_COUNT_STALED);
		else
			LWLockRelease(partition_lock(b, hash));
	}
}

/*
 * Holds the partition's lock from the look at the version to the even version, so that a change of
 * the pair finds the frame even: still empty, which it takes away, or filled (invariant F9).
 */
bool
mtp_frame_fill(MtpBuffer *b, MtpPageTag tag, const MtpFrameRef *ref, const char *data, Size size)
{
	uint64		hash = mtp_tag_hash(tag);
	MtpFrameHeader *header = &b->headers[ref->frame];
	int			kind;

	LWLockAcquire(partition_lock(b, hash), LW_EXCLUSIVE);
	MTP_FRAME_STEP(fill_locked);
	if (pg_atomic_read_u64(&header->version) != ref->version)
	{
		LWLockRelease(partition_lock(b, hash));
		return false;
	}
	if (size == 0)
	{
		pg_atomic_uint64 *word = word_of(b, tag, MTP_FRAME_PAGEDIR, hash);

		Assert(word != NULL);	/* the frame is still the page's */
		take_away(b, word, hash, MTP_COUNT_EVICTED);
		return true;
	}
	kind = mtp_frame_kind(b, ref->frame);
	Assert(size <= mtp_policy_frame_bytes(kind));
	/* Odd without compare-and-swap: others make this frame odd under the lock only. */
	pg_atomic_write_u64(&header->version, ref->version + 1);
	pg_write_barrier();
	MTP_FRAME_STEP(fill_odd);
	memcpy(mtp_frame_image(b, ref->frame, kind), data, size);
	let_go(b, ref->frame);
	LWLockRelease(partition_lock(b, hash));
	return true;
}

/* ---------- files ---------- */

/*
 * Takes a frame away if its page is one of those that go.  A frame that another process has, or
 * that changes under the look, needs nothing: it was taken from its page, and gets none of those
 * that go.  The exception is a frame that is being filled, which comes back to its page; but the
 * process that fills it holds a lock on the table since before it reserved the frame, so that the
 * caller cannot be here.
 */
static void
purge_frame(MtpBuffer *b, uint32 frame, bool (*gone) (MtpPageTag tag, void *arg), void *arg)
{
	MtpPageTag	tag;
	int			kind;

	if (mtp_frame_page(b, frame, &tag, &kind) && (gone == NULL || gone(tag, arg)) &&
		take_frame(b, frame, MTP_COUNT_PURGED))
		let_go(b, frame);
}

/* A slab that changes its kind meanwhile gives up all its pages, and gets none that go. */
void
mtp_frame_purge(MtpBuffer *b, bool (*gone) (MtpPageTag tag, void *arg), void *arg)
{
	for (uint32 slab = 0; slab < b->policy->nslabs; slab++)
	{
		int			kind = mtp_frame_kind(b, slab * MTP_SLAB_FRAMES);
		uint32		n = kind == MTP_FRAME_NONE ? 0 : mtp_policy_frames(kind);

		for (uint32 i = 0; i < n; i++)
			purge_frame(b, slab * MTP_SLAB_FRAMES + i, gone, arg);
	}
}

/* Finds the words without a lock: none of the page comes, by the caller's locks. */
void
mtp_frame_purge_page(MtpBuffer *b, MtpPageTag tag)
{
	uint64		hash = mtp_tag_hash(tag);

	for (int i = 0; i < 2 * MTP_BUCKET_WORDS; i++)
	{
		pg_atomic_uint64 *words = mtp_frame_bucket(b, hash, i / MTP_BUCKET_WORDS);
		uint64		word = pg_atomic_read_u64(&words[i % MTP_BUCKET_WORDS]);

		if (leads_to(b, word, tag, hash) && take_frame(b, (uint32) word, MTP_COUNT_PURGED))
			let_go(b, (uint32) word);
	}
}

uint64
mtp_frame_headers(MtpBuffer *b)
{
	uint64		n = 0;

	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
		n += (uint64) b->policy->kinds[kind].nslabs * mtp_policy_frames(kind);
	return n;
}

bool
mtp_frame_has_file(MtpBuffer *b, MtpPageTag tag)
{
	return pg_atomic_read_u32(frames_of_file(b, tag)) > 0;
}

/* ---------- the server's start ---------- */

/* Nobody else is there, so order and locks do not matter. */
bool
mtp_frame_adopt(MtpBuffer *b, uint32 frame, MtpPageTag tag, uint64 version, int degree)
{
	uint64		hash = mtp_tag_hash(tag);
	int			kind = b->policy->kind_of[frame / MTP_SLAB_FRAMES];
	pg_atomic_uint64 *word = word_of(b, tag, kind, hash) == NULL ? free_word(b, hash) : NULL;

	if (word == NULL)
		return false;
	b->headers[frame].tag = tag;
	b->headers[frame].paid = 1; /* a guess, as good as another */
	pg_atomic_fetch_add_u32(frames_of_file(b, tag), 1);
	pg_atomic_write_u64(&b->headers[frame].version, version);
	pg_atomic_write_u64(word, (uint64) mtp_frame_mark(hash) << 32 | frame);
	mtp_policy_came(b->policy, frame, degree);
	return true;
}
