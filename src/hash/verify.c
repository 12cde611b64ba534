/*
 * verify.c
 *	  Checks a hash index while other processes work on it.
 *
 * Holds only AccessShareLock, one page's share lock at a time for as long as copying the page
 * takes, and a pin on the primary page of the bucket that it checks.  Under the pin no entry
 * leaves the bucket, and no page its chains (H4).  But entries come, a chain gets another first
 * page, and inserters make room from entries that are dead to all.
 *
 * Visits buckets by number.  A split moves entries upwards (H7), so every entry that was there
 * when the check began, and stays, is seen.
 */
#include "hash/verify.h"

#include "miscadmin.h"

Buffer
mtp_hash_verify_copy(MtpHashVerify *hv, BlockNumber blkno, BlockNumber from, uint8 type,
					 PGAlignedBlock *to, bool keep)
{
	MtpVerify  *v = hv->v;
	Page		page = (Page) to->data;
	Buffer		buf;
	const char *what;
	int			at;

	CHECK_FOR_INTERRUPTS();
	if (!mtp_verify_has_block(v, blkno))
		mtp_verify_fail(v, from, -1, "Page leads to block %u, which is no page of the index.",
						blkno);
	v->blkno = blkno;
	buf = ReadBufferExtended(v->rel, MAIN_FORKNUM, blkno, RBM_NORMAL, v->strategy);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buf), BLCKSZ);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);

	/* The copy is judged: a fault raises an error, and nothing waits for this page meanwhile. */
	if (PageIsNew(page))
		mtp_verify_fail(v, blkno, -1, "Page is zero, but block %u leads to it.", from);
	what = mtp_hash_bucket_fault(page, &at);
	if (what != NULL)
		mtp_verify_fail(v, blkno, at, "%c%s.", pg_toupper((unsigned char) what[0]), what + 1);
	if (MtpHashHead(page)->type != type)
		mtp_verify_fail(v, blkno, -1, "Page has type %u instead of %u, but block %u leads to it.",
						MtpHashHead(page)->type, type, from);
	if (keep)
		return buf;
	ReleaseBuffer(buf);
	return InvalidBuffer;
}

static bool
in_extent(const MtpHashMeta *meta, int i, BlockNumber blkno)
{
	const MtpHashExtent *e = &meta->extents[i];

	return blkno >= e->block && blkno - e->block < mtp_hash_extent_end(meta, i) - e->bucket;
}

/* Reads the metapage, and checks it. */
static void
read_meta(MtpHashVerify *hv)
{
	MtpHashMeta *meta = &hv->meta;
	const char *fault = NULL;
	uint64		size;

	if (!mtp_verify_has_block(hv->v, MTP_HASH_META_BLOCK))
		mtp_verify_fail(hv->v, MTP_HASH_META_BLOCK, -1, "Index has no metapage.");
	(void) mtp_hash_verify_copy(hv, MTP_HASH_META_BLOCK, MTP_HASH_META_BLOCK, MTP_HASH_META,
								&hv->scratch, false);
	memcpy(meta, MtpHashMetaOf(hv->scratch.data), sizeof(MtpHashMeta));
	size = (uint64) meta->space.initial << Min(meta->space.level, 31);
	if (meta->magic != MTP_HASH_MAGIC)
		fault = "Metapage is not one of mtpower_hash.";
	else if (meta->version != MTP_HASH_VERSION)
		fault = psprintf("File version is %u, current version is %u.", meta->version,
						 MTP_HASH_VERSION);
	else if (meta->space.initial == 0 || meta->space.level > 31)
		fault = "Metapage has no valid number of buckets.";
	else if (size > MTP_HASH_MAX_BUCKETS || meta->space.next >= size ||
			 size + meta->space.next > meta->reserved)
		fault = psprintf("Metapage has " UINT64_FORMAT " + %u buckets, and room for %u.", size,
						 meta->space.next, meta->reserved);
	else if (meta->per_bucket == 0)
		fault = "Metapage allows no entries in a bucket.";
	else if (meta->nextents == 0 || meta->nextents > MTP_HASH_MAX_EXTENTS ||
			 meta->extents[0].bucket != 0)
		fault = "Metapage has no valid extents.";
	for (int i = 0; fault == NULL && i < meta->nextents; i++)
	{
		const MtpHashExtent *e = &meta->extents[i];
		uint32		end = mtp_hash_extent_end(meta, i);

		if (end <= e->bucket)
			fault = "Extents of the metapage do not ascend.";
		else if (e->block == MTP_HASH_META_BLOCK ||
				 (uint64) e->block + (end - e->bucket) > MaxBlockNumber)
			fault = "An extent of the metapage lies outside of any file.";
		for (int j = 0; fault == NULL && j < i; j++)
			if (in_extent(meta, i, meta->extents[j].block) || in_extent(meta, j, e->block))
				fault = "Extents of the metapage overlap.";
	}
	if (fault != NULL)
		mtp_verify_fail(hv->v, MTP_HASH_META_BLOCK, -1, "%s", fault);
}

/* True if the chain that begins at `first` has the page; its bucket is pinned. */
static bool
chain_has(MtpHashVerify *hv, BlockNumber first, BlockNumber from, BlockNumber blkno)
{
	BlockNumber limit = RelationGetNumberOfBlocks(hv->v->rel);

	for (BlockNumber at = first; at != InvalidBlockNumber; at = MtpHashHead(hv->scratch.data)->next)
	{
		if (at == blkno)
			return true;
		if (limit-- == 0)
			mtp_verify_fail(hv->v, from, -1, "Pages of a chain form a circle.");
		(void) mtp_hash_verify_copy(hv, at, from, MTP_HASH_STASH, &hv->scratch, false);
		from = at;
	}
	return false;
}

/*
 * Notes that a chain of the bucket has the page, which must be no other chain's nor in an extent.
 */
static void
claim_page(MtpHashVerify *hv, BlockNumber blkno, BlockNumber from)
{
	MtpVerify  *v = hv->v;
	uint32		owner;

	if (!mtp_verify_has_block(v, blkno))
		mtp_verify_fail(v, from, -1, "Page leads to block %u, which is no page of the index.",
						blkno);

	/* The index has grown since. */
	if (blkno >= hv->nowners)
	{
		hv->owners = repalloc_huge(hv->owners, (Size) v->nblocks * sizeof(uint32));
		memset(hv->owners + hv->nowners, 0, (v->nblocks - hv->nowners) * sizeof(uint32));
		hv->nowners = v->nblocks;
	}
	for (int i = 0; i < hv->meta.nextents; i++)
		if (in_extent(&hv->meta, i, blkno))
			mtp_verify_fail(v, from, -1, "Page leads to block %u, which is a bucket's own.", blkno);

	owner = hv->owners[blkno];
	if (owner == hv->bucket + 1)
		mtp_verify_fail(v, from, -1, "Page leads to block %u, which the bucket has already.",
						blkno);
	if (owner != 0)
	{
		/* Another bucket had the page, but may have lost it since: look again. */
		BlockNumber at = mtp_hash_block(&hv->meta, owner - 1);
		Buffer		pin = mtp_hash_verify_copy(hv, at, MTP_HASH_META_BLOCK, MTP_HASH_BUCKET,
											   &hv->scratch_primary, true);
		MtpHashPrimary *p = MtpHashPrimaryOf(hv->scratch_primary.data);
		bool		has = chain_has(hv, p->h.next, at, blkno);

		for (int i = 0; i < p->h.nheavy && !has; i++)
			has = chain_has(hv, p->heavy[i].first, at, blkno);
		ReleaseBuffer(pin);
		if (has)
			mtp_verify_fail(v, from, -1, "Page leads to block %u, which is bucket %u's.", blkno,
							owner - 1);
	}
	hv->owners[blkno] = hv->bucket + 1;
}

/*
 * Checks an entry of the bucket's stash.  The copy of the primary page may be older than the
 * entry, so a bit that the filter lacks is looked for once more (H6).  An entry that is not the
 * bucket's belongs to one that was split off from it, and whose `source` says so.
 */
static void
check_stashed(MtpHashVerify *hv, BlockNumber blkno, int pos, uint32 hash)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(hv->primary.data);

	if (!mtp_filter_has(p, hash))
	{
		LockBuffer(hv->pin, BUFFER_LOCK_SHARE);
		memcpy(hv->primary.data, BufferGetPage(hv->pin), BLCKSZ);
		LockBuffer(hv->pin, BUFFER_LOCK_UNLOCK);
		if (!mtp_filter_has(p, hash))
			mtp_verify_fail(hv->v, blkno, pos, "Filter of block %u lacks the entry's hash %08X.",
							hv->primary_block, hash);
	}
	if (hash < p->h.lo || hash > p->h.hi)
	{
		Buffer		buf = mtp_hash_find(hv->v->rel, hash, BUFFER_LOCK_SHARE);
		BlockNumber source = MtpHashHead(BufferGetPage(buf))->source;

		UnlockReleaseBuffer(buf);
		if (source != hv->primary_block)
			mtp_verify_fail(hv->v, blkno, pos,
							"Entry's hash %08X is outside of the bucket's, %08X to %08X.",
							hash, p->h.lo, p->h.hi);
	}
}

/* Checks one of the bucket's chains, and its entries. */
static void
check_chain(MtpHashVerify *hv, BlockNumber first, bool heavy, uint32 hash)
{
	Page		page = (Page) hv->page.data;
	BlockNumber from = hv->primary_block;

	for (BlockNumber blkno = first; blkno != InvalidBlockNumber; blkno = MtpHashHead(page)->next)
	{
		claim_page(hv, blkno, from);
		(void) mtp_hash_verify_copy(hv, blkno, from, MTP_HASH_STASH, &hv->page, false);
		for (int i = 0; i < MtpHashHead(page)->n; i++)
		{
			uint32		h = mtp_entry_hash(MtpHashEntryAt(page, i));

			if (!heavy)
				check_stashed(hv, blkno, i, h);
			else if (h != hash)
				mtp_verify_fail(hv->v, blkno, i, "Entry's hash is %08X on a page of hash %08X.",
								h, hash);
		}
		if (hv->v->rows)
			mtp_hash_verify_entries(hv, page);
		from = blkno;
	}
}

/*
 * Copies and pins the bucket's primary page, and checks its number and interval.  A split changes
 * the page and the metapage at one moment (H3), but the copies are from two.  So they must differ
 * several times.
 */
static void
pin_bucket(MtpHashVerify *hv, uint32 bucket)
{
	MtpHashHeader *h = MtpHashHead(hv->primary.data);
	MtpVerifyFault f,
				last = {0};
	int			strikes = 0;

	for (;;)
	{
		uint32		lo,
					hi;

		hv->bucket = bucket;
		hv->primary_block = mtp_hash_block(&hv->meta, bucket);
		mtp_hash_space_interval(&hv->meta.space, bucket, &lo, &hi);
		hv->pin = mtp_hash_verify_copy(hv, hv->primary_block, MTP_HASH_META_BLOCK, MTP_HASH_BUCKET,
									   &hv->primary, true);
		if (h->bucket == bucket && h->lo == lo && h->hi == hi)
			return;
		mtp_verify_fault(&f, hv->primary_block, -1,
						 "Bucket is %u with hashes %08X to %08X instead of %u with %08X to %08X.",
						 h->bucket, h->lo, h->hi, bucket, lo, hi);
		ReleaseBuffer(hv->pin);
		hv->pin = InvalidBuffer;
		mtp_verify_strike(hv->v, &f, &last, &strikes);
		read_meta(hv);
	}
}

static void
check_bucket(MtpHashVerify *hv, uint32 bucket)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(hv->primary.data);
	BlockNumber source;
	BlockNumber next;
	int			nheavy;
	MtpHashHeavy heavy[MTP_HASH_MAX_HEAVY];

	pin_bucket(hv, bucket);

	/* Keep these: check_stashed may copy the page anew, with chains that have grown. */
	source = p->h.source;
	next = p->h.next;
	nheavy = p->h.nheavy;
	memcpy(heavy, p->heavy, sizeof(heavy));

	/* A source, whose stash still has entries of this bucket, is one that was split before. */
	if (source != InvalidBlockNumber)
	{
		MtpHashHeader *h = MtpHashHead(hv->scratch.data);

		(void) mtp_hash_verify_copy(hv, source, hv->primary_block, MTP_HASH_BUCKET, &hv->scratch,
									false);
		if (h->bucket >= bucket || mtp_hash_block(&hv->meta, h->bucket) != source)
			mtp_verify_fail(hv->v, hv->primary_block, -1,
							"Source is block %u, which is not a bucket that this one was split off "
							"from.", source);
	}
	if (hv->v->rows)
		mtp_hash_verify_entries(hv, (Page) hv->primary.data);
	check_chain(hv, next, false, 0);
	for (int i = 0; i < nheavy; i++)
		check_chain(hv, heavy[i].first, true, heavy[i].hash);
	ReleaseBuffer(hv->pin);
	hv->pin = InvalidBuffer;
}

void
mtp_hash_verify(MtpVerify *v)
{
	MtpHashVerify *hv = palloc0(sizeof(MtpHashVerify));

	v->own = hv;
	hv->v = v;
	hv->nowners = 1;
	hv->owners = palloc0(sizeof(uint32));
	if (v->rows)
		mtp_hash_verify_rows_begin(hv);
	read_meta(hv);
	for (uint32 bucket = 0;; bucket++)
	{
		/* Go on with the buckets that splits have made meanwhile (H7). */
		if (bucket == mtp_hash_space_size(&hv->meta.space))
		{
			read_meta(hv);
			if (bucket >= mtp_hash_space_size(&hv->meta.space))
				break;
		}
		check_bucket(hv, bucket);
	}
	pfree(hv->owners);
}
