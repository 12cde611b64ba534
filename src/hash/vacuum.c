/*
 * vacuum.c
 *	  Deletes the entries of dead rows, bucket by bucket, and finds the pages that are free.
 *
 * README.md, "VACUUM", says why it waits for each bucket's scans, and why it misses no entry.
 * squeeze.c shortens chains that have become too long.
 */
#include "hash/hash.h"

#include "access/xloginsert.h"
#include "buffer/buffer.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "core/inject.h"
#include "hash/wal_records.h"
#include "index/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/indexfsm.h"

typedef struct Vacuum
{
	IndexVacuumInfo *info;
	Relation	rel;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
	BlockNumber from;			/* passed, and not reported yet: from .. to - 1 */
	BlockNumber to;

	/* for the metapage's count of entries */
	uint32		nbuckets;		/* when this began */
	uint64		counted;		/* entries by the metapage, then */
	double		removed;		/* entries removed before this began */
	double		in_old;			/* entries met in buckets that were there then */
} Vacuum;

/* Fills at[] with the entries that are dead, ascending; returns how many. */
static int
find_dead(Vacuum *v, Buffer buf, uint16 *at)
{
	int			n = 0;

	for (int i = 0; i < MtpHashHead(BufferGetPage(buf))->n; i++)
		if (v->callback(&mtp_hash_entry(v->rel, buf, i)->tid, v->callback_state))
			at[n++] = i;
	return n;
}

/*
 * Deletes entries of a page in one record: a crash before it leaves them to the next VACUUM, which
 * gets their rows again.  The primary page is in the record, exclusively locked, though it may not
 * change: replay takes its cleanup lock, and so waits for the bucket's scans.  buf may be the
 * primary page itself.
 */
static void
delete_dead(Vacuum *v, Buffer primary, Buffer buf, int n, const uint16 *at)
{
	MtpWalHashVacuum rec = {.n = n};
	MtpChange	c;
	int			block;

	mtp_change_init(&c, v->rel, MTP_WAL_HASH_VACUUM);
	block = mtp_change_buffer(&c, primary, REGBUF_STANDARD);
	if (buf != primary)
		block = mtp_change_buffer(&c, buf, REGBUF_STANDARD);
	mtp_change_begin(&c);
	mtp_hash_bucket_delete(BufferGetPage(buf), n, at);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_bufdata(&c, block, at, n * sizeof(uint16));
	mtp_change_finish(&c);
	v->stats->tuples_removed += n;
}

/*
 * Walks along a chain; its bucket's primary page is pinned and not locked.  Under the pin the chain
 * stays as it is, but for pages that are put in front (H4): their entries are of rows that are
 * younger than this VACUUM's list of dead ones.
 */
static void
vacuum_chain(Vacuum *v, Buffer primary, MtpHashChain *chain)
{
	BlockNumber next = chain->first;
	MtpWalk		walk = {0};

	while (next != InvalidBlockNumber)
	{
		uint16		at[MTP_HASH_MAX_ENTRIES];
		Buffer		buf;
		Page		page;
		int			n;

		/* A share lock is enough where nothing is dead, which is so on most pages. */
		MtpVacuumDelayPoint();
		mtp_hash_walk_step(v->rel, &walk, next);
		buf = mtp_hash_read(v->rel, next, BUFFER_LOCK_SHARE, MTP_HASH_WANT_STASH,
							v->info->strategy);
		page = BufferGetPage(buf);
		n = find_dead(v, buf, at);
		if (n > 0)
		{
			/*
			 * The primary page comes first in the order of locks.  So this page is not locked in
			 * between, and has to be looked at again: inserters may delete dead entries and take
			 * their places.  Scans may look at the page all the time: each copies what it wants at
			 * once, and the caller waits for those that have copied a dead TID.
			 */
			LockBuffer(buf, BUFFER_LOCK_UNLOCK);
			MTP_INJECT("vacuum_stash");
			LockBuffer(primary, BUFFER_LOCK_EXCLUSIVE);
			LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
			n = find_dead(v, buf, at);
			if (n > 0)
				delete_dead(v, primary, buf, n, at);
			LockBuffer(primary, BUFFER_LOCK_UNLOCK);
		}
		/* The link stays what it is when the lock is gone: pages come in front only (H4). */
		chain->entries += MtpHashHead(page)->n;
		chain->pages++;
		next = MtpHashHead(page)->next;
		UnlockReleaseBuffer(buf);
	}
	v->stats->num_index_tuples += chain->entries;
}

static void
vacuum_bucket(Vacuum *v, uint32 bucket)
{
	BlockNumber blkno = mtp_hash_block(mtp_hash_meta(v->rel, false), bucket);
	Buffer		buf = mtp_hash_read(v->rel, blkno, BUFFER_LOCK_UNLOCK, MTP_HASH_WANT_BUCKET,
									v->info->strategy);
	MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(buf));
	uint16		at[MTP_HASH_MAX_ENTRIES];
	MtpHashChain chains[MTP_HASH_MAX_HEAVY + 1] = {0};
	int			nchains = 0;
	int			n;

	/*
	 * Wait for the bucket's scans, also where nothing is to be deleted: the entry may have left
	 * the page since a scan read it (H9).  No lock is held meanwhile (H10).
	 */
	LockBufferForCleanup(buf);
	mtp_hash_check_page(v->rel, buf, MTP_HASH_WANT_BUCKET);
	n = find_dead(v, buf, at);
	if (n > 0)
		delete_dead(v, buf, buf, n, at);
	v->stats->num_index_tuples += p->h.n;
	if (p->h.next != InvalidBlockNumber)
		chains[nchains++].first = p->h.next;
	for (int i = 0; i < p->h.nheavy; i++)
		chains[nchains++] = (MtpHashChain)
	{
		.heavy = true,.hash = p->heavy[i].hash,.first = p->heavy[i].first
	};
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	if (nchains > 0)
	{
		MTP_INJECT("vacuum_chains");
		for (int i = 0; i < nchains; i++)
			vacuum_chain(v, buf, &chains[i]);

		/*
		 * A scan that entered the bucket after the first cleanup lock may have read dead TIDs from
		 * a page before they were deleted there: wait for it, too.  Also if nothing was found
		 * here, since an inserter may have deleted them in between.  Scans that come later find
		 * none.
		 */
		LockBufferForCleanup(buf);
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		for (int i = 0; i < nchains; i++)
			v->stats->pages_newly_deleted += mtp_hash_squeeze(v->rel, buf, &chains[i],
															  v->info->strategy);
	}
	ReleaseBuffer(buf);

	/* Standbys are told of ranges, since buckets mostly lie one behind the other. */
	if (v->to != blkno || v->to - v->from >= MTP_PASSED_BLOCKS)
	{
		mtp_wal_log_passed(v->rel, v->from, v->to);
		v->from = blkno;
	}
	v->to = blkno + 1;
}

/* Buckets whose pages are read with one call */
#define READ_BUCKETS 16

typedef struct Buckets
{
	BlockNumber blocks[READ_BUCKETS];
	int			n;
	int			next;
} Buckets;

static BlockNumber
next_bucket(void *arg)
{
	Buckets    *b = arg;

	return b->next < b->n ? b->blocks[b->next++] : InvalidBlockNumber;
}

/*
 * Reads the primary pages of the next buckets, and keeps no pin: this process will wait for a
 * bucket's scans, for as long as a cursor stands there, and pins would keep other buckets from
 * being split meanwhile (H10).  The blocks are looked up, and found to be there, first: a stream
 * reads catalogs when it begins, and the cached metapage may be gone then.
 */
static void
read_buckets(Vacuum *v, uint32 from, uint32 end)
{
	const MtpHashMeta *meta = mtp_hash_meta(v->rel, false);
	Buckets		b = {0};

	while (from < end)
		b.blocks[b.n++] = mtp_hash_block(meta, from++);
	for (int i = 0; i < b.n; i++)
		mtp_hash_check_block(v->rel, b.blocks[i]);
	mtp_blocks_load(v->rel, v->info->strategy, next_bucket, &b);
}

/*
 * Growth goes by the metapage's count of entries, which is a hint.  This makes it exact again, if
 * nothing else happened meanwhile.
 *
 * Beside insertions and growth there are bounds.  What has come meanwhile may be in VACUUM's number
 * or not: the upper bound has it once more.  Entries in new buckets may also have been met in those
 * that they were split off from: the lower bound leaves new buckets out.  Between these bounds
 * the metapage's own count, less what was removed, stands: if it was right, it still is.
 */
static void
set_entries(Vacuum *v)
{
	Buffer		buf = mtp_hash_read(v->rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
									MTP_HASH_WANT_META, NULL);
	MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(buf));
	double		now = meta->entries;
	double		most = v->stats->num_index_tuples + Max(now - v->counted, 0);
	uint64		entries = Min(Max(now - (v->stats->tuples_removed - v->removed), v->in_old), most);

	if (meta->entries != entries)
	{
		meta->entries = entries;
		mtp_hash_count_changed(v->rel, buf);
	}
	UnlockReleaseBuffer(buf);
}

IndexBulkDeleteResult *
mtp_hash_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					IndexBulkDeleteCallback callback, void *callback_state)
{
	Vacuum		v = {.info = info,.rel = info->index,.callback = callback,
	.callback_state = callback_state,.from = InvalidBlockNumber,.to = InvalidBlockNumber};
	const MtpHashMeta *meta;
	uint32		nbuckets;
	uint32		done = 0;

	v.stats = stats = mtp_index_vacuum_begin(v.rel, stats);
	stats->num_index_tuples = 0;
	v.removed = stats->tuples_removed;
	meta = mtp_hash_meta(v.rel, true);
	v.nbuckets = nbuckets = mtp_hash_space_size(&meta->space);
	v.counted = meta->entries;

	/*
	 * Splits only move entries to buckets of higher numbers (H7), and these come later: new ones
	 * at the end, until there are no more.
	 */
	while (done < nbuckets)
	{
		if (info->report_progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, nbuckets);
		for (; done < nbuckets; done++)
		{
			if (done == nbuckets / 2)
				MTP_INJECT("vacuum_middle");
			MtpVacuumDelayPoint();
			if (done % READ_BUCKETS == 0)
				read_buckets(&v, done, Min(done + READ_BUCKETS, nbuckets));
			vacuum_bucket(&v, done);
			if (info->report_progress)
				pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, done);
		}
		if (done == v.nbuckets)
			v.in_old = stats->num_index_tuples;
		nbuckets = mtp_hash_space_size(&mtp_hash_meta(v.rel, true)->space);
	}
	mtp_wal_log_passed(v.rel, v.from, v.to);
	set_entries(&v);
	MTP_INJECT("vacuum_ends");
	return stats;
}

/*
 * Looks at a pinned block outside of the extents, and releases it; true if it is free.  A zero page
 * becomes a free one: it is what a process left that extended the index and then failed (H11).  A
 * process that goes on to use its new block has had it locked since before VACUUM could see it, and
 * unlocks it with content.
 */
static bool
note_free(Relation rel, Buffer buf)
{
	BlockNumber blkno = BufferGetBlockNumber(buf);
	Page		page = BufferGetPage(buf);
	bool		is_free;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	if (PageIsNew(page))
	{
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		if (PageIsNew(page))
		{
			/* A crash before the record leaves the page zero, for the next VACUUM to find. */
			START_CRIT_SECTION();
			mtp_hash_bucket_init_free(page);
			MarkBufferDirty(buf);
			if (RelationNeedsWAL(rel))
				log_newpage_buffer(buf, true);
			mtp_buffer_stale(buf, false);
			END_CRIT_SECTION();
		}
	}
	mtp_hash_check_page(rel, buf, MTP_HASH_WANT_STASH | MTP_HASH_WANT_FREE);
	is_free = MtpHashHead(page)->type == MTP_HASH_FREE;
	UnlockReleaseBuffer(buf);

	/* Whoever takes the page from the map looks whether it is still free (mtp_index_alloc). */
	if (is_free)
		RecordFreeIndexPage(rel, blkno);
	return is_free;
}

/* The blocks outside of the extents: stash pages and free ones */
typedef struct Outside
{
	MtpHashMeta meta;
	BlockNumber next;
	BlockNumber until;			/* up to here there is no extent */
	BlockNumber end;
} Outside;

static BlockNumber
next_outside(void *arg)
{
	Outside    *o = arg;

	while (o->next == o->until && o->next < o->end)
	{
		o->until = o->end;
		for (int i = 0; i < o->meta.nextents; i++)
		{
			BlockNumber from = o->meta.extents[i].block;
			BlockNumber to = from + (mtp_hash_extent_end(&o->meta, i) - o->meta.extents[i].bucket);

			if (from <= o->next && o->next < to)
				o->until = o->next = to;
			else if (from > o->next)
				o->until = Min(o->until, from);
		}
	}
	return o->next < o->end ? o->next++ : InvalidBlockNumber;
}

IndexBulkDeleteResult *
mtp_hash_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	Outside		outside = {.next = MTP_HASH_META_BLOCK + 1,.until = MTP_HASH_META_BLOCK + 1};
	MtpBlockStream stream;
	Buffer		buf;

	if (info->analyze_only || stats == NULL)
		return stats;

	/*
	 * The length comes first, under the extension lock: so the metapage has all extents that begin
	 * within it, and no extent's block looks like one that belongs to nothing (H11).
	 */
	outside.end = stats->num_pages = mtp_index_length(info->index);
	stats->pages_free = 0;
	mtp_hash_copy_meta(info->index, &outside.meta);
	mtp_blocks_begin(&stream, MTP_BLOCKS_ALL, info->index, info->strategy, next_outside, &outside);
	while ((buf = mtp_blocks_next(&stream)) != InvalidBuffer)
	{
		MtpVacuumDelayPoint();
		if (note_free(info->index, buf))
			stats->pages_free++;
	}
	mtp_blocks_end(&stream);
	stats->pages_deleted = stats->pages_free;
	IndexFreeSpaceMapVacuum(info->index);

	mtp_index_vacuum_end(info, stats);
	return stats;
}
