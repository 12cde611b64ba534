/*
 * serve.c
 *	  Serves the access methods: finds, publishes and makes stale what the server's relations have in the buffer.
 */
#include "wal/stop.h"

/* Of the protocol's steps those of mtp_frame_find are stop points here: "frame_word_read", "frame_version_read", "frame_found". */
#define MTP_FRAME_STEP(name) MTP_STOP_POINT("frame_" #name)

#include "buffer/buffer.h"

#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "pgstat.h"

/* Accesses of this process that the pool has not been told of, and the state of its random numbers. */
static uint32 untold = 0;
static uint64 random_state = 0;

#define TELL	64				/* accesses */

void
mtp_buffer_tell(void)
{
	uint64	   *counts = mtp_buffer.counts[0];

	for (int i = 0; i < MTP_BUFFER_COUNTS; i++)
		if (counts[i] != 0)
		{
			pg_atomic_fetch_add_u64(&mtp_buffer_counts[i], counts[i]);
			counts[i] = 0;
		}
	mtp_pool_tick(mtp_buffer.pool, untold);
	untold = 0;
}

void
mtp_buffer_reset(void)
{
	if (mtp_buffer.pool == NULL)
		return;
	mtp_buffer_tell();
	for (int i = 0; i < MTP_BUFFER_COUNTS; i++)
		pg_atomic_write_u64(&mtp_buffer_counts[i], 0);
}

static inline uint64
next_random(void)
{
	while (unlikely(random_state == 0))
		random_state = pg_prng_uint64(&pg_global_prng_state);
	return mtp_pool_random(&random_state);
}

static inline void
count_access(MtpFrameCount what)
{
	mtp_buffer.counts[MTP_FRAME_INDEX][what]++;
	if (++untold >= TELL)
		mtp_buffer_tell();
}

void
mtp_buffer_hit(Relation rel)
{
	count_access(MTP_COUNT_HITS);
	pgstat_count_buffer_read(rel);
	pgstat_count_buffer_hit(rel);
	pgBufferUsage.shared_blks_hit++;
}

bool
mtp_buffer_find(Relation rel, BlockNumber block, MtpFrameRef *ref)
{
	return mtp_frame_find(&mtp_buffer, mtp_page_tag(MtpRelLocator(rel), block), MTP_FRAME_INDEX, (uint8) (next_random() >> 32), ref);
}

void
mtp_buffer_publish(Relation rel, Buffer buf)
{
	MtpPageTag	tag = mtp_page_tag(MtpRelLocator(rel), BufferGetBlockNumber(buf));

	count_access(MTP_COUNT_MISSES);
	(void) next_random();
	(void) mtp_frame_publish(&mtp_buffer, tag, MTP_FRAME_INDEX, BufferGetPage(buf), &random_state);
}

void
mtp_buffer_consider(void)
{
	(void) next_random();
	mtp_frame_consider(&mtp_buffer, MTP_FRAME_INDEX, &random_state);
}

void
mtp_buffer_stale(Buffer buf)
{
	MtpLocator	file;
	ForkNumber	fork;
	BlockNumber block;

	if (mtp_buffer.pool == NULL || BufferIsLocal(buf))
		return;
	BufferGetTag(buf, &file, &fork, &block);
	if (fork == MAIN_FORKNUM)
		mtp_frame_stale(&mtp_buffer, mtp_page_tag(file, block));
}
