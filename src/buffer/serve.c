/*
 * serve.c
 *	  Serves access methods: finds, publishes, loads and makes stale their index pages; counts.
 */
#include "buffer/buffer.h"

#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"

/* Accesses of this process that the policy does not know yet */
static uint32 untold = 0;
static uint64 random_state = 0;

/* What it has counted, and told */
static uint64 told[MTP_BUFFER_COUNTS];

#define TELL	64				/* accesses between two calls of mtp_buffer_tell */

/* Accesses to page directories are those that hit and those that missed; they take less time. */
void
mtp_buffer_tell(void)
{
	uint64	   *counts = mtp_buffer.counts[0];
	uint64	   *of_directories = mtp_buffer.counts[MTP_FRAME_PAGEDIR];
	uint32		directories = of_directories[MTP_COUNT_HITS] + of_directories[MTP_COUNT_MISSES];

	for (; mtp_buffer.counted != 0; mtp_buffer.counted &= mtp_buffer.counted - 1)
	{
		int			i = pg_rightmost_one_pos64(mtp_buffer.counted);

		pg_atomic_fetch_add_u64(&mtp_buffer_counts[i], counts[i]);
		told[i] += counts[i];
		counts[i] = 0;
	}
	mtp_policy_tick(mtp_buffer.policy, untold - directories, directories);
	untold = 0;
}

void
mtp_buffer_reset(void)
{
	if (mtp_buffer.policy == NULL)
		return;
	mtp_buffer_tell();
	for (int i = 0; i < MTP_BUFFER_COUNTS; i++)
		pg_atomic_write_u64(&mtp_buffer_counts[i], 0);
	pg_atomic_write_u64(&mtp_buffer_counts[MTP_BUFFER_COUNTS],
						pg_atomic_read_u32(&mtp_buffer.policy->epoch));
}

void
mtp_buffer_usage(uint64 *usage)
{
	const uint64 *counts = mtp_buffer.counts[0];

	for (int i = 0; i < MTP_BUFFER_COUNTS; i++)
		usage[i] = told[i] + counts[i];
}

static inline uint64
next_random(void)
{
	while (unlikely(random_state == 0))
		random_state = pg_prng_uint64(&pg_global_prng_state);
	return mtp_policy_random(&random_state);
}

uint8
mtp_buffer_random(void)
{
	return (uint8) (next_random() >> 32);
}

uint64 *
mtp_buffer_random_state(void)
{
	(void) next_random();
	return &random_state;
}

/* Ageing may take a while.  So one who holds a lock, and with it off interrupts, only counts. */
static inline void
tell_in_time(void)
{
	if (untold >= TELL && InterruptHoldoffCount == 0)
		mtp_buffer_tell();
}

void
mtp_buffer_hit(Relation rel, int kind)
{
	mtp_frame_count(&mtp_buffer, kind, MTP_COUNT_HITS);
	untold++;
	pgstat_count_buffer_read(rel);
	pgstat_count_buffer_hit(rel);
	pgBufferUsage.shared_blks_hit++;
	tell_in_time();
}

uint64 *
mtp_buffer_miss(int kind)
{
	mtp_frame_count(&mtp_buffer, kind, MTP_COUNT_MISSES);
	untold++;
	return mtp_buffer_random_state();
}

bool
mtp_buffer_find(Relation rel, BlockNumber block, Size first, MtpFrameRef *ref)
{
	MtpPageTag	tag = mtp_page_tag(MtpRelLocator(rel), block);

	mtp_record(tag, MTP_FRAME_INDEX);
	return mtp_frame_find(&mtp_buffer, tag, MTP_FRAME_INDEX, mtp_buffer_random(), 0, first, ref);
}

void
mtp_buffer_prefetch(Relation rel, BlockNumber block)
{
	uint64		hash = mtp_tag_hash(mtp_page_tag(MtpRelLocator(rel), block));

	if (mtp_buffer.policy == NULL)
		return;
	__builtin_prefetch(mtp_frame_bucket(&mtp_buffer, hash, 0));
	__builtin_prefetch(mtp_frame_bucket(&mtp_buffer, hash, 1));
}

/* Counts only; the caller calls mtp_buffer_consider when it has unlocked the page. */
void
mtp_buffer_publish(Relation rel, Buffer buf)
{
	MtpPageTag	tag = mtp_page_tag(MtpRelLocator(rel), BufferGetBlockNumber(buf));
	const char *page = BufferGetPage(buf);
	MtpFramePlace place;

	if (mtp_frame_place(&mtp_buffer, tag, MTP_FRAME_INDEX, false, mtp_buffer_miss(MTP_FRAME_INDEX),
						&place))
		(void) mtp_frame_publish(&mtp_buffer, tag, MTP_FRAME_INDEX, &place, &page, NULL);
}

void
mtp_buffer_consider(int kind)
{
	tell_in_time();
	mtp_frame_consider(&mtp_buffer, kind, mtp_buffer_random_state());
}

/* ---------- loading ---------- */

static struct
{
	ambuild_function ambuild;
	MtpPageFits fits;
}			ams[4];
static int	nams = 0;

void
mtp_buffer_register(ambuild_function ambuild, MtpPageFits fits)
{
	Assert(nams < lengthof(ams));
	ams[nams].ambuild = ambuild;
	ams[nams++].fits = fits;
}

MtpPageFits
mtp_buffer_fits(Relation index)
{
	for (int i = 0; i < nams; i++)
		if (index->rd_indam->ambuild == ams[i].ambuild)
			return ams[i].fits;
	return NULL;
}

bool
mtp_buffer_place_loaded(MtpPageTag tag, int kind, int degree, MtpFramePlace *place)
{
	uint64	   *random = mtp_buffer_random_state();

	if (mtp_frame_place_warm(&mtp_buffer, tag, kind, degree, random, place))
		return true;
	if (mtp_frame_has(&mtp_buffer, tag, kind))
		return false;
	mtp_buffer_consider(kind);
	return mtp_frame_place_warm(&mtp_buffer, tag, kind, degree, mtp_buffer_random_state(), place);
}

void
mtp_buffer_load(Relation rel, BlockNumber block, int degree, BufferAccessStrategy strategy)
{
	MtpPageTag	tag = mtp_page_tag(MtpRelLocator(rel), block);
	MtpFramePlace place;
	Buffer		buf;
	const char *page;

	if (!mtp_buffer_place_loaded(tag, MTP_FRAME_INDEX, degree, &place))
		return;
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	if (!PageIsNew((Page) page) && mtp_buffer_fits(rel) (rel, buf))
		(void) mtp_frame_publish(&mtp_buffer, tag, MTP_FRAME_INDEX, &place, &page, NULL);
	UnlockReleaseBuffer(buf);
}

/* ---------- changes ---------- */

void
mtp_buffer_stale(Buffer buf, bool hints)
{
	MtpLocator	file;
	ForkNumber	fork;
	BlockNumber block;

	if (mtp_buffer.policy == NULL || BufferIsLocal(buf))
		return;
	BufferGetTag(buf, &file, &fork, &block);
	if (fork == MAIN_FORKNUM)
		mtp_frame_stale(&mtp_buffer, mtp_page_tag(file, block), hints);
}
