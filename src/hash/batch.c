/*
 * batch.c
 *	  The hash index's side of the batch engine: growth before a batch, where tasks end, and how a
 *	  bucket takes its share.
 *
 * An entry is narrow: its norm is the spread hash.  Buckets are intervals of hashes (H2), so a
 * batch that is sorted goes from bucket to bucket, whatever their number.
 */
#include "hash/hash.h"

#include "batch/stream.h"

/*
 * A step takes so many entries at most, so that a bucket with very many gets unlocked in between.
 */
#define STEP_ENTRIES	(4 * MTP_HASH_MAX_ENTRIES)

MtpOrder *
mtp_hash_order(Relation index)
{
	MtpOrder   *order = palloc0(sizeof(MtpOrder));

	order->code = MTP_NORM_OID;
	order->narrow = true;
	order->norm_prefixes = true;
	return order;
}

/* Splits the buckets that the batch would overflow, so that its entries go where they stay. */
static void
hash_prepare(MtpBatchApply *a, uint32 entries)
{
	MtpHashGrown grown = {0};

	mtp_hash_grow(a->index, entries, a->progress, a->cancelled, &grown);
	a->ahead += grown.splits;
	a->moved += grown.moved;
}

/* Widens each sample to the end of its bucket, which stays an end whatever is split later (H2). */
static int
hash_cut(Relation index, MtpOrder *order, int nsamples, const MtpNarrow *narrow,
		 const MtpWide *wide, MtpNarrow *narrow_bounds, MtpWide *wide_bounds)
{
	const MtpHashMeta *meta = mtp_hash_meta(index, true);
	int			n = 0;

	for (int i = 0; i < nsamples; i++)
	{
		uint32		bucket = mtp_hash_space_bucket(&meta->space, (uint32) narrow[i].norm);
		uint32		lo,
					hi;

		mtp_hash_space_interval(&meta->space, bucket, &lo, &hi);
		if (hi == PG_UINT32_MAX)
			break;
		narrow_bounds[n].norm = hi;
		narrow_bounds[n].rid = MTP_RID_LAST - 1;
		if (n == 0 || narrow_bounds[n - 1].norm < hi)
			n++;
	}
	return n;
}

/* Puts in what belongs to the first entry's bucket: the entries up to its hi (H3). */
static void
hash_step(MtpBatchApply *a)
{
	MtpHashPut	put = {.rel = a->index,.heap = a->heap,.progress = a->progress};
	uint32		hash = (uint32) mtp_stream_narrow(a->stream)->norm;
	Buffer		buf = mtp_hash_find(a->index, hash, BUFFER_LOCK_EXCLUSIVE);
	uint32		hi = MtpHashHead(BufferGetPage(buf))->hi;
	int			n = 0;
	int			room = 256;
	MtpHashEntry *entries = palloc(room * sizeof(MtpHashEntry));

	while (n < STEP_ENTRIES && !mtp_stream_end(a->stream))
	{
		const MtpNarrow *e = mtp_stream_narrow(a->stream);
		ItemPointerData tid;

		if (e->norm > hi)
			break;
		if (n == room)
		{
			room *= 2;
			entries = repalloc(entries, room * sizeof(MtpHashEntry));
		}
		mtp_rid_to_tid(e->rid, &tid);
		entries[n++] = mtp_entry((uint32) e->norm, &tid);
		mtp_stream_next(a->stream);
	}
	mtp_hash_put(&put, buf, n, entries);
	UnlockReleaseBuffer(buf);
	a->leaves += put.touched;
}

static const MtpBatchOps hash_ops = {
	.ambuild = mtp_hash_build,
	.order = mtp_hash_order,
	.compares = false,
	.prepare = hash_prepare,
	.cut = hash_cut,
	.step = hash_step
};

void
mtp_hash_batch_init(void)
{
	mtp_batch_register(&hash_ops);
}
