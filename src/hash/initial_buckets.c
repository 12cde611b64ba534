/*
 * initial_buckets.c
 *	  Gives an index that is empty, or nearly so, its first number of buckets.
 */
#include "core/core.h"

#include "buffer/buffer.h"
#include "hash/change.h"
#include "hash/grow.h"
#include "miscadmin.h"
#include "core/inject.h"

/* True if the first number of buckets may still be chosen. */
static bool
is_initial(const MtpHashMeta *meta)
{
	return !meta->fixed && mtp_hash_space_size(&meta->space) == 1;
}

/* True if the only bucket has all its entries on its page. */
static bool
is_small(Page page)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(page);

	return p->h.next == InvalidBlockNumber && p->h.nheavy == 0;
}

static int
compare_hashes(const void *a, const void *b)
{
	uint32		x = mtp_entry_hash(a);
	uint32		y = mtp_entry_hash(b);

	return (x > y) - (x < y);
}

/*
 * Makes the pages of buckets 1, … with their share of n entries, which are sorted.  No process
 * reads them before they are part of the address space.  At level 0 the order of buckets is that
 * of hashes.
 */
static void
make_buckets(Relation rel, const MtpHashMeta *meta, const MtpHashSpace *space, int n,
			 const MtpHashEntry *entries)
{
	int			from = 0;

	for (uint32 i = 0; i < space->initial; i++)
	{
		uint32		lo,
					hi;
		int			end = from;

		mtp_hash_space_interval(space, i, &lo, &hi);
		while (end < n && mtp_entry_hash(&entries[end]) <= hi)
			end++;
		if (i > 0)
		{
			Buffer		buf = mtp_hash_read_reserved(rel, meta, i);

			/* Nothing leads to the page: after a crash the next growth makes it anew. */
			START_CRIT_SECTION();
			mtp_hash_bucket_init(BufferGetPage(buf), MTP_HASH_BUCKET, i, lo, hi);
			mtp_hash_bucket_append(BufferGetPage(buf), end - from, &entries[from]);
			MarkBufferDirty(buf);
			if (RelationNeedsWAL(rel))
				log_newpage_buffer(buf, true);
			mtp_buffer_stale(buf, false);
			END_CRIT_SECTION();
			UnlockReleaseBuffer(buf);
		}
		from = end;
	}
}

/*
 * Makes the new buckets part of the index, and takes their entries off bucket 0's page, in one
 * record.  The caller has this page, in buf, exclusively locked.
 */
static void
publish_initial(Relation rel, MtpHashMeta *meta, const MtpHashSpace *space, Buffer buf)
{
	Buffer		metabuf = mtp_hash_read(rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_META, NULL);
	MtpHashMeta *m = MtpHashMetaOf(BufferGetPage(metabuf));
	MtpWalHashPages rec = {.two = false};
	uint32		lo,
				hi;
	MtpChange	c;

	Assert(is_initial(m));
	mtp_hash_space_interval(space, 0, &lo, &hi);
	mtp_change_init(&c, rel, MTP_WAL_HASH_PAGES);
	mtp_change_buffer(&c, buf, MTP_HASH_IMAGE);
	mtp_change_buffer(&c, metabuf, MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	mtp_hash_bucket_retain(BufferGetPage(buf), lo, hi);
	m->space = *space;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
	*meta = *m;
	UnlockReleaseBuffer(metabuf);
}

/*
 * Bucket 0's page stays locked from the look at it to the end.  This keeps everybody from
 * inserting and from splitting it: there is no other bucket, so the address space stays as it is.
 *
 * Where the page is empty an exclusive lock will do: a scan that has it pinned has found it
 * empty, and does not see what comes.  Where entries move no other backend may have a pin (H4);
 * it is not waited for.
 */
bool
mtp_hash_choose_initial(Relation rel, MtpHashMeta *meta, uint32 target, MtpHashGrown *grown)
{
	Buffer		buf;
	Page		page;
	bool		chosen;

	if (!is_initial(meta))
		return false;
	buf = mtp_hash_read(rel, mtp_hash_block(meta, 0), BUFFER_LOCK_SHARE,
						MTP_HASH_WANT_BUCKET, NULL);
	page = BufferGetPage(buf);
	chosen = is_small(page);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	/* Add blocks while no page is locked: the extension lock comes first. */
	while (chosen && meta->reserved < target)
		chosen = mtp_hash_reserve(rel, meta, target);
	if (chosen)
	{
		/* Look again: other processes may have inserted or split meanwhile. */
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		mtp_hash_copy_meta(rel, meta);
		chosen = is_initial(meta) && is_small(page) &&
			(MtpHashHead(page)->n == 0 || IsBufferCleanupOK(buf));
		if (chosen)
		{
			MtpHashSpace space = {.initial = target};
			int			n = MtpHashHead(page)->n;
			MtpHashEntry entries[MTP_HASH_MAX_ENTRIES];

			for (int i = 0; i < n; i++)
				entries[i] = *MtpHashEntryAt(page, i);
			qsort(entries, n, sizeof(MtpHashEntry), compare_hashes);
			make_buckets(rel, meta, &space, n, entries);
			publish_initial(rel, meta, &space, buf);
			grown->moved += n - MtpHashHead(page)->n;
		}
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buf);
	if (chosen)
		MTP_INJECT("hash_initial");
	return chosen;
}
