/*
 * share.c
 *	  Shares the engine's memory out: a load that finds none has the runs of others applied.
 *
 * No load may hold more than half of the memory while another one wants some, and no load may keep
 * it that has fallen silent, as a COPY does whose client sends nothing.  Such a load can't be
 * asked: it waits for its client.  So the load that wants memory takes the batches that the other
 * one is filling: it submits them in the other one's place, and workers apply them.  Their owner
 * goes on filling its current run, and does its part when that is full (fill.c, lock_batch;
 * invariant E2).
 */
#include "batch/shared.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

/* A load that takes no run and looks for no unit for so long is silent. */
#define SILENT_MS	1000

/* A load that found no memory and has done nothing for so long wants none. */
#define WANTS_MS	10000

/* Half of the memory, in bytes. */
static inline Size
half(void)
{
	return (Size) mtp_batch_shared->nblocks * MTP_BLOCK_SIZE / 2;
}

static inline bool
silent(MtpLoad *load, TimestampTz now)
{
	return TimestampDifferenceExceeds(load->seen, now, SILENT_MS);
}

/* A load takes no lock to look where no other one wants memory, which is the usual case. */
Size
mtp_batch_share_room(MtpLoad *load)
{
	Size		room = MaxAllocHugeSize;
	TimestampTz now;

	/* It sees a load that begins to want memory at this moment at its next run. */
	if (mtp_batch_shared->wanting == load->wants)
		return room;
	now = GetCurrentTimestamp();
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *other = &mtp_batch_shared->loads[i];

		if (other->wants && other != load &&
			!TimestampDifferenceExceeds(other->seen, now, WANTS_MS))
			room = load->bytes < half() ? half() - load->bytes : 0;
	}
	LWLockRelease(mtp_batch_lock);
	return room;
}

/*
 * Under mtp_batch_lock: takes batches that have full runs from a load until so much will be free:
 * first what workers look at already, then small batches.
 */
static void
take_batches(MtpLoad *load, Size enough, TimestampTz now)
{
	dlist_head *lists[] = {&load->batches, &load->own};
	Size		bytes = 0;
	dlist_mutable_iter iter;

	for (int i = 0; i < lengthof(lists); i++)
		dlist_foreach_modify(iter, lists[i])
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		if (bytes >= enough)
			return;
		if (b->phase != MTP_FILLING || b->nruns == 0 || b->owner_alone)
			continue;
		b->taken = true;
		mtp_batch_submit(b, now);
		if (b->own)
		{
			/* Workers don't look at that list. */
			dlist_delete(&b->node);
			dlist_push_head(&load->batches, &b->node);
			b->own = false;
			b->back = true;
		}
		bytes += b->full;
	}
}

/* Under mtp_batch_lock: how much another load should give of its full runs. */
static Size
excess(MtpLoad *load, TimestampTz now)
{
	Size		held = load->bytes - load->underway;

	if (load->full == 0 || silent(load, now))
		return load->full;
	return held > half() ? Min(held - half(), load->full) : 0;
}

/* Takes from the one load that can give most. */
void
mtp_batch_share_want(MtpLoad *load)
{
	TimestampTz now = GetCurrentTimestamp();
	MtpLoad    *holder = NULL;
	Size		most = 0;

	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	load->seen = now;
	if (!load->wants)
	{
		load->wants = true;
		mtp_batch_shared->wanting++;
	}
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *other = &mtp_batch_shared->loads[i];

		if (other->pid != 0 && other != load && excess(other, now) > most)
		{
			holder = other;
			most = excess(other, now);
		}
	}
	if (holder != NULL)
		take_batches(holder, most, now);
	LWLockRelease(mtp_batch_lock);
	if (holder != NULL)
		mtp_batch_serve_wanted(holder);

	/*
	 * Workers are called for what silent loads have under way.  Nobody else asks for them, and the
	 * worker that was called when it was taken may have ended since, or there was none to be had.
	 */
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *other = &mtp_batch_shared->loads[i];

		/* A hint, read without the lock: mtp_batch_serve_wanted looks under it. */
		if (other->underway > 0 && silent(other, now))
			mtp_batch_serve_wanted(other);
	}
}

void
mtp_batch_share_content(MtpLoad *load)
{
	if (!load->wants)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	load->wants = false;
	mtp_batch_shared->wanting--;
	LWLockRelease(mtp_batch_lock);
}
