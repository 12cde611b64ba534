/*
 * scan.c
 *	  Index scans: the executor's entry points, and reading a bucket.
 *
 * README.md, "Scans", argues why the pin on a bucket's primary page is enough (H4, H5).
 */
#include "hash/scan.h"

#include "access/table.h"
#include "batch/batch.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "core/inject.h"

IndexScanDesc
mtp_hash_beginscan(Relation rel, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(rel, nkeys, norderbys);
	MtpHashScan *so = palloc(sizeof(MtpHashScan));

	Assert(norderbys == 0);
	memset(so, 0, offsetof(MtpHashScan, killed));
	so->primary = so->source = InvalidBuffer;
	so->step = -1;
	scan->opaque = so;
	return scan;
}

/* Leaves the page that the entries come from, and sets the dead hints for it; the bucket stays. */
static inline void
leave_page(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	if (so->nkilled > 0)
		mtp_hash_scan_kill(scan);
	so->n = 0;
	so->at = -1;
}

/* Leaves the bucket, and lets go of its pins. */
static void
leave_bucket(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	leave_page(scan);
	if (BufferIsValid(so->source))
		ReleaseBuffer(so->source);
	if (BufferIsValid(so->primary))
		ReleaseBuffer(so->primary);
	so->primary = so->source = InvalidBuffer;
	so->in_frame = false;
	so->ntrail = 0;
	so->step = -1;
}

void
mtp_hash_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	MtpHashScan *so = scan->opaque;

	leave_bucket(scan);
	so->began = so->none = so->nulls = false;
	so->outside = 0;
	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
}

void
mtp_hash_endscan(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	leave_bucket(scan);
	if (so->trail != NULL)
		pfree(so->trail);
	if (so->strategy != NULL)
		FreeAccessStrategy(so->strategy);
	pfree(so);
}

/* Copies the matching entries of a locked page. */
static inline void
load_page(IndexScanDesc scan, Buffer buf)
{
	MtpHashScan *so = scan->opaque;
	Page		page = BufferGetPage(buf);
	const uint8 *fps = MtpHashFps(page);

	MtpTestForOldSnapshot(scan->xs_snapshot, scan->indexRelation, page);
	so->page = BufferGetBlockNumber(buf);
	so->at = -1;
	so->n = so->nkilled = 0;
	if (so->one)
	{
		uint16		at[MTP_HASH_MAX_ENTRIES];

		so->n = mtp_hash_bucket_find(page, so->lo, !scan->ignore_killed_tuples, at);
		for (int i = 0; i < so->n; i++)
			so->tids[i] = mtp_hash_entry(scan->indexRelation, buf, at[i])->tid;
	}
	else
	{
		/* In a walk: all hashes of the bucket from lo to hi. */
		for (int i = 0; i < MtpHashHead(page)->n; i++)
		{
			uint32		hash = mtp_entry_hash(MtpHashEntryAt(page, i));

			if (hash < so->lo || hash > so->hi ||
				(fps[i] == MTP_FP_DEAD && scan->ignore_killed_tuples))
				continue;
			so->hashes[so->n] = hash;
			so->tids[so->n++] = mtp_hash_entry(scan->indexRelation, buf, i)->tid;
		}
	}
}

/* Adds the page that has been loaded to the trail: it has a match. */
static inline void
note_page(MtpHashScan *so)
{
	if (unlikely(so->ntrail == so->maxtrail))
	{
		so->maxtrail = Max(8, 2 * so->maxtrail);
		if (so->trail == NULL)
			so->trail = MemoryContextAlloc(GetMemoryChunkContext(so),
										   so->maxtrail * sizeof(BlockNumber));
		else
			so->trail = repalloc_huge(so->trail, so->maxtrail * sizeof(BlockNumber));
	}
	so->step = so->ntrail;
	so->trail[so->ntrail++] = so->page;
}

/*
 * True if the primary page has all entries of the hash, and no other page any.  Then the sequence
 * lock of the page's frame stands for them all (H12).
 */
static bool
has_all(const MtpHashPrimary *p, uint32 hash)
{
	for (int i = 0; i < p->h.nheavy && i < MTP_HASH_MAX_HEAVY; i++)
		if (p->heavy[i].hash == hash)
			return false;
	return (p->h.next == InvalidBlockNumber && p->h.source == InvalidBlockNumber) ||
		!mtp_filter_has(p, hash);
}

/*
 * Reads all entries of the scan's hash in the frame of the bucket's primary page.  False if there
 * is no frame, if it does not have them all, or if another process has changed it meanwhile.
 *
 * Copies the header, and checks the sequence lock: so the header is one.  Reads fingerprints and
 * entries where the header says that they are, and checks the sequence lock once more: so they
 * belong to it.  Nothing that is read in between is used before that.
 */
static bool
load_frame(IndexScanDesc scan, uint32 hash)
{
	MtpHashScan *so = scan->opaque;
	Relation	rel = scan->indexRelation;
	const MtpHashMeta *meta = mtp_hash_meta(rel, false);
	BlockNumber block = mtp_hash_block(meta, mtp_hash_space_bucket(&meta->space, hash));
	MtpHashPrimary p;
	Page		page;
	uint16		at[MTP_HASH_MAX_ENTRIES];
	const Size	fps_at = MTP_HASH_FP_AT(MTP_HASH_BUCKET);

	if (!mtp_buffer_find(rel, block, fps_at + MTP_HASH_CAP(MTP_HASH_BUCKET), &so->ref))
		return false;
	page = (Page) so->ref.image;
	p = *MtpHashPrimaryOf(page);
	if (mtp_frame_still(&mtp_buffer, &so->ref))
	{
		/* It may be another bucket's page, or have been split since the metapage was read. */
		if (p.h.type != MTP_HASH_BUCKET || hash < p.h.lo || hash > p.h.hi || !has_all(&p, hash))
			return false;
		Assert(p.h.n <= MTP_HASH_CAP(MTP_HASH_BUCKET));
		so->n = mtp_hash_bucket_find_among(page, (uint8 *) page + fps_at, p.h.n, hash,
										   !scan->ignore_killed_tuples, at);
		MTP_INJECT("bucket_frame_read");
		for (int i = 0; i < so->n; i++)
			so->tids[i] = MtpHashEntryAt(page, at[i])->tid;
	}
	if (!mtp_frame_still(&mtp_buffer, &so->ref))
	{
		mtp_buffer_torn(MTP_FRAME_INDEX);
		so->n = 0;
		return false;
	}

	/* A damaged page: reading it in shared buffers gives the error. */
	for (int i = 0; i < so->n; i++)
		if (!mtp_tid_possible(&so->tids[i]))
		{
			so->n = 0;
			return false;
		}
	so->page = block;
	so->at = -1;
	so->nkilled = so->nchains = 0;
	so->next = InvalidBlockNumber;
	so->source_read = true;
	so->in_frame = true;
	mtp_buffer_hit(rel, MTP_FRAME_INDEX);
	return true;
}

/*
 * Enters the bucket of a hash and reads its primary page.  The scan looks for that hash alone, or
 * in a walk for those of the bucket from it on, backward up to it.
 *
 * It pins the source's primary page while it has this bucket's locked (H5): entries come over
 * from the source's stash under cleanup locks on both, so from here on they stay where they are.
 * The way back begins with a trail of pages, so it reads no frame.
 */
static void
enter_bucket(IndexScanDesc scan, uint32 hash, bool backward)
{
	MtpHashScan *so = scan->opaque;
	Relation	rel = scan->indexRelation;
	const MtpHashPrimary *p;
	bool		framed;

	/*
	 * The flush before scan, for each bucket of a walk: entries may have been queued since the
	 * last.
	 */
	mtp_batch_before_scan(rel, scan->xs_snapshot);

	/*
	 * A scan reads a bucket in its frame only for one hash, since a walk needs the bucket to stay
	 * as it is, and under an MVCC snapshot, since no pin keeps VACUUM away.
	 */
	framed = so->one && !backward && mtp_buffer_serves(rel) &&
		scan->xs_snapshot->snapshot_type == SNAPSHOT_MVCC && !MtpSnapshotsAge();
	if (framed && load_frame(scan, hash))
	{
		so->lo = so->hi = hash;
		if (so->n > 0)
			note_page(so);
		return;
	}
	so->primary = mtp_hash_find(rel, hash, BUFFER_LOCK_SHARE);
	p = MtpHashPrimaryOf(BufferGetPage(so->primary));
	so->lo = so->one || !backward ? hash : p->h.lo;
	so->hi = so->one || backward ? hash : p->h.hi;

	load_page(scan, so->primary);

	/*
	 * Note which chains may have matches.  They stay the bucket's while the primary page is
	 * pinned, and get pages in front only (H4), with entries that are younger than the scan.
	 */
	so->nchains = 0;
	so->next = InvalidBlockNumber;
	so->walk.steps = 0;
	for (int i = 0; i < p->h.nheavy; i++)
		if (so->lo <= p->heavy[i].hash && p->heavy[i].hash <= so->hi)
			so->chains[so->nchains++] = p->heavy[i].first;
	if (p->h.next != InvalidBlockNumber && (!so->one || mtp_filter_has(p, so->lo)))
		so->next = p->h.next;
	so->source_read = true;
	if (unlikely(p->h.source != InvalidBlockNumber) && (!so->one || mtp_filter_has(p, hash)))
	{
		mtp_hash_check_block(rel, p->h.source);
		so->source = ReadBuffer(rel, p->h.source);
		so->source_read = false;
	}

	/* Publish the page while it is locked, so that the frame has it as it is (H12). */
	if (framed && has_all(p, hash))
		mtp_buffer_publish(rel, so->primary);
	else
		framed = false;
	LockBuffer(so->primary, BUFFER_LOCK_UNLOCK);
	if (framed)
		mtp_buffer_consider(MTP_FRAME_INDEX);
	if (so->n > 0)
		note_page(so);
}

/* Reads the bucket's next page with a match; false if there is none. */
static bool
next_page(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	leave_page(scan);
	for (;;)
	{
		Buffer		buf;

		/* First comes the stash, then the chains of heavy hashes, then the source's stash. */
		if (so->next == InvalidBlockNumber)
		{
			if (so->nchains > 0)
				so->next = so->chains[--so->nchains];
			else if (so->source_read)
				return false;
			else
			{
				const MtpHashPrimary *p = MtpHashPrimaryOf(BufferGetPage(so->source));

				/* Its filter has the bits of all entries that are still there (H6). */
				so->source_read = true;
				LockBuffer(so->source, BUFFER_LOCK_SHARE);
				mtp_hash_check_page(scan->indexRelation, so->source, MTP_HASH_WANT_BUCKET);
				if (!so->one || mtp_filter_has(p, so->lo))
					so->next = p->h.next;
				LockBuffer(so->source, BUFFER_LOCK_UNLOCK);
			}
			continue;
		}

		/*
		 * No lock is held from page to page: the link was read under the page's own, and leads to
		 * the same page as long as the primary page is pinned (H4).
		 */
		CHECK_FOR_INTERRUPTS();
		mtp_hash_walk_step(scan->indexRelation, &so->walk, so->next);
		buf = mtp_hash_read(scan->indexRelation, so->next, BUFFER_LOCK_SHARE,
							MTP_HASH_WANT_STASH, NULL);
		so->next = MtpHashHead(BufferGetPage(buf))->next;
		load_page(scan, buf);
		UnlockReleaseBuffer(buf);
		if (so->n > 0)
		{
			note_page(so);
			return true;
		}
	}
}

/*
 * Reads a page of the trail once more, which is still the bucket's (H4).  It may have no match
 * any more, where its entries were dead to every transaction.
 */
static void
read_again(IndexScanDesc scan, int step)
{
	MtpHashScan *so = scan->opaque;
	Buffer		buf = so->primary;

	leave_page(scan);
	so->step = step;
	if (so->trail[step] != BufferGetBlockNumber(buf))
		buf = ReadBuffer(scan->indexRelation, so->trail[step]);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	mtp_hash_check_page(scan->indexRelation, buf, MTP_HASH_WANT_BUCKET | MTP_HASH_WANT_STASH);
	load_page(scan, buf);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	if (buf != so->primary)
		ReleaseBuffer(buf);
}

/*
 * Goes on until there are entries to return; false at the scan's end.  The walk through all
 * buckets is in the order of hashes, not of bucket numbers: it stands at a hash, whatever is
 * split before or behind it (H2).
 */
static bool
go_on(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	for (;;)
	{
		uint32		hi = so->hi;

		/* Where the scan has gone back, the rest of the trail comes first. */
		if (unlikely(so->step + 1 < so->ntrail))
		{
			read_again(scan, so->step + 1);
			if (so->n > 0)
				return true;
			continue;
		}
		if (next_page(scan))
			return true;

		/* Once the pins are gone the bucket may be split, but hi stays the end of an interval. */
		leave_bucket(scan);
		if (so->one || hi == PG_UINT32_MAX)
		{
			so->outside = 1;
			return false;
		}
		CHECK_FOR_INTERRUPTS();
		enter_bucket(scan, hi + 1, false);
		if (so->n > 0)
			return true;
	}
}

/* Enters the bucket of a hash for the way back, which begins with the last page of its trail. */
static void
enter_backward(IndexScanDesc scan, uint32 hash)
{
	MtpHashScan *so = scan->opaque;

	enter_bucket(scan, hash, true);
	while (next_page(scan))
		 /* note it */ ;
	so->step = so->ntrail;
}

/* Goes back until there are entries to return; false at the scan's beginning. */
static bool
go_back(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	for (;;)
	{
		uint32		lo = so->lo;

		if (so->step > 0)
		{
			read_again(scan, so->step - 1);
			if (so->n > 0)
				break;
			continue;
		}
		leave_bucket(scan);
		if (so->one || lo == 0)
		{
			so->outside = -1;
			return false;
		}
		CHECK_FOR_INTERRUPTS();
		enter_backward(scan, lo - 1);
	}
	so->at = so->n;
	return true;
}

/* Hashes the scan keys; false if there is nothing to be found. */
static bool
hash_scan_keys(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;
	MtpHashSearch search;

	pgstat_count_index_scan(scan->indexRelation);
	MtpCountSearch(scan);
	search = mtp_hash_keys(scan->indexRelation, scan->keyData, scan->numberOfKeys, &so->lo);
	so->began = true;
	so->one = search == MTP_HASH_ONE;
	so->none = search == MTP_HASH_NONE;
	so->nulls = search == MTP_HASH_NULLS;
	return !so->none;
}

/* Reads the first page with a match; false if there is none. */
static bool
load_first(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;

	so->outside = 0;
	enter_bucket(scan, so->one ? so->lo : 0, false);
	return so->n > 0 || go_on(scan);
}

/*
 * Behind the last entry the way back begins at the last one, and before the first entry the way
 * on at the first.  The snapshot sees none of the entries that have come to a bucket or gone
 * meanwhile.
 */
bool
mtp_hash_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	MtpHashScan *so = scan->opaque;
	bool		backward = ScanDirectionIsBackward(dir);

	/* Other keys may have the same hash. */
	scan->xs_recheck = true;
	if (!so->began)
	{
		if (hash_scan_keys(scan))
			so->outside = backward ? 1 : -1;
		if (so->nulls)
			mtp_hash_nulls_begin(scan);
	}
	else if (scan->kill_prior_tuple && so->nkilled < MTP_HASH_MAX_ENTRIES && !so->nulls)
		so->killed[so->nkilled++] = so->at;
	if (so->none)
		return false;
	if (unlikely(so->nulls))
		return mtp_hash_nulls_next(scan);
	if (backward)
	{
		if (so->outside < 0)
			return false;
		if (so->outside > 0)
		{
			so->outside = 0;
			enter_backward(scan, so->one ? so->lo : PG_UINT32_MAX);
			if (!go_back(scan))
				return false;
		}
		if (so->at <= 0 && !go_back(scan))
			return false;
		so->at--;
	}
	else
	{
		if (so->outside != 0 && (so->outside > 0 || !load_first(scan)))
			return false;
		if (so->at + 1 >= so->n && !go_on(scan))
			return false;
		so->at++;
	}
	mtp_tid_check_block(scan->indexRelation, so->page, scan->heapRelation, &so->tids[so->at]);
	scan->xs_heaptid = so->tids[so->at];
	return true;
}

int64
mtp_hash_getbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	MtpHashScan *so = scan->opaque;
	Relation	heap;
	int64		n = 0;

	if (!hash_scan_keys(scan))
		return 0;
	Assert(!so->nulls);
	/* The executor has the table open and locked. */
	heap = table_open(scan->indexRelation->rd_index->indrelid, NoLock);
	for (bool found = load_first(scan); found; found = go_on(scan))
	{
		for (int i = 0; i < so->n; i++)
			mtp_tid_check_block(scan->indexRelation, so->page, heap, &so->tids[i]);
		tbm_add_tuples(tbm, so->tids, so->n, true);
		n += so->n;
	}
	table_close(heap, NoLock);
	return n;
}
