/*
 * split.c
 *	  Splits one bucket.
 *
 * One record makes two buckets of one, metapage included: there is no state in between.  A long
 * stash alone stays behind, and split_finish.c deals with it in pieces.
 */
#include "core/core.h"

#include "hash/change.h"
#include "hash/grow.h"
#include "utils/memutils.h"
#include "core/inject.h"

typedef struct Split
{
	Relation	rel;
	MtpHashMeta *meta;
	MtpHashSpace space;			/* after the split */
	uint32		from;			/* old bucket */
	uint32		to;				/* new bucket */
	uint32		lo;				/* lo .. cut stay, cut + 1 .. hi go */
	uint32		cut;
	uint32		hi;
	Buffer		oldbuf;
	Buffer		newbuf;
	Page		old;			/* image, or NULL: the page keeps its entries up to the cut */
	Page		new;			/* image */
	MtpHashLayout *layout;		/* or NULL */
	uint32		moved;
	bool		done;			/* else another process was faster; *meta has been read anew */
} Split;

/* Makes the image of an empty primary page with the old one's heavy hashes from lo to hi. */
static Page
make_primary(Split *s, uint32 bucket, uint32 lo, uint32 hi)
{
	const MtpHashPrimary *old = MtpHashPrimaryOf(BufferGetPage(s->oldbuf));
	Page		image = palloc(BLCKSZ);
	MtpHashPrimary *p = MtpHashPrimaryOf(image);

	mtp_hash_bucket_init(image, MTP_HASH_BUCKET, bucket, lo, hi);
	for (int i = 0; i < old->h.nheavy; i++)
		if (old->heavy[i].hash >= lo && old->heavy[i].hash <= hi)
			p->heavy[p->h.nheavy++] = old->heavy[i];
	return image;
}

/*
 * Plans a split of the primary page alone.  A stash stays with the old bucket, and becomes the
 * new one's source; the new page keeps the old one's filter, which has the bits of all entries
 * there (H6).
 */
static void
plan_primary(Split *s)
{
	MtpHashPrimary *p;

	s->new = mtp_hash_layout_copy(s->oldbuf).image;
	mtp_hash_bucket_retain(s->new, s->cut + 1, s->hi);
	p = MtpHashPrimaryOf(s->new);
	p->h.bucket = s->to;
	if (p->h.next != InvalidBlockNumber)
		p->h.source = BufferGetBlockNumber(s->oldbuf);
	p->h.next = InvalidBlockNumber;
	s->moved = p->h.n;
}

/*
 * Plans a split that lays out all entries, of the primary page and the stash, over both buckets.
 * Locks the stash in its order.  False, with nothing locked in addition, if it is too long for
 * one record.
 */
static bool
plan_whole(Split *s)
{
	Page		page = BufferGetPage(s->oldbuf);
	MtpHashLayout *l = mtp_hash_layout_make(s->rel, s->cut);
	int			at[2];

	mtp_hash_layout_take(l, page);
	if (mtp_hash_layout_take_stash(l, MtpHashHead(page)->next, 0) != InvalidBlockNumber)
	{
		mtp_hash_layout_release(l, false);
		return false;
	}
	s->layout = l;
	s->moved = l->n[1];

	l->primary[0].buf = s->oldbuf;
	l->primary[1].buf = s->newbuf;
	l->primary[0].image = s->old = make_primary(s, s->from, s->lo, s->cut);
	l->primary[1].image = s->new = make_primary(s, s->to, s->cut + 1, s->hi);

	for (int i = 0; i < 2; i++)
		at[i] = mtp_hash_layout_fill(l, i, &l->primary[i], 0);
	(void) mtp_hash_layout_spill(l, &l->primary[0], false, at[0], at[1]);
	return true;
}

/*
 * Makes the planned split real, in one record: both buckets, their stash and the metapage (H3).
 * The metapage is exclusively locked, and says what it said when the split was planned.  A crash
 * before the record leaves a page reserved for the new bucket that nothing leads to.
 */
static void
publish_split(Split *s, Buffer metabuf)
{
	MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(metabuf));
	MtpHashLayout *l = s->layout;
	MtpWalHashSplit rec;
	MtpChange	c;

	memset(&rec, 0, sizeof(rec));
	rec.hi = s->cut;
	rec.entries = meta->entries;
	rec.whole = l != NULL;

	/* Without a stash to split, replay repeats the old page's change, and needs no image of it. */
	mtp_change_init(&c, s->rel, MTP_WAL_HASH_SPLIT);
	mtp_change_buffer(&c, s->oldbuf, s->old ? MTP_HASH_IMAGE : REGBUF_STANDARD);
	mtp_change_buffer(&c, s->newbuf, MTP_HASH_IMAGE);
	mtp_change_buffer(&c, metabuf, REGBUF_STANDARD);
	for (int i = 0; l != NULL && i < l->nsheets; i++)
		mtp_change_buffer(&c, l->sheets[i].buf, MTP_HASH_IMAGE);

	mtp_change_begin(&c);
	if (s->old)
		memcpy(BufferGetPage(s->oldbuf), s->old, BLCKSZ);
	else
		mtp_hash_bucket_retain(BufferGetPage(s->oldbuf), s->lo, s->cut);
	memcpy(BufferGetPage(s->newbuf), s->new, BLCKSZ);
	for (int i = 0; l != NULL && i < l->nsheets; i++)
		memcpy(BufferGetPage(l->sheets[i].buf), l->sheets[i].image, BLCKSZ);
	meta->space = s->space;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
}

/*
 * Splits bucket s->from; false if its cleanup lock is not to be had at once: a scan with a pin
 * would miss entries that move (H4), and the pin may be the loading session's own cursor's.
 */
static bool
split_bucket(Split *s)
{
	MtpHashSpace was = s->meta->space;
	BlockNumber blkno = mtp_hash_block(s->meta, s->from);
	Buffer		metabuf;
	MtpHashHeader *h;
	uint32		lo;

	s->oldbuf = mtp_hash_read(s->rel, blkno, BUFFER_LOCK_UNLOCK, MTP_HASH_WANT_BUCKET, NULL);
	if (!ConditionalLockBufferForCleanup(s->oldbuf))
	{
		ReleaseBuffer(s->oldbuf);
		return false;
	}
	mtp_hash_check_page(s->rel, s->oldbuf, MTP_HASH_WANT_BUCKET);
	mtp_hash_space_interval(&was, s->from, &s->lo, &s->hi);
	mtp_hash_space_interval(&s->space, s->from, &s->lo, &s->cut);
	mtp_hash_space_interval(&s->space, s->to, &lo, &s->hi);
	h = MtpHashHead(BufferGetPage(s->oldbuf));
	if (h->lo != s->lo || h->hi != s->hi)
	{
		/* Another process has split the bucket since, or it is damage (H3). */
		UnlockReleaseBuffer(s->oldbuf);
		mtp_hash_copy_meta(s->rel, s->meta);
		if (memcmp(&was, &s->meta->space, sizeof(was)) == 0)
			mtp_hash_corrupted("hashes of bucket %u at block %u of index \"%s\" "
							   "don't match its metapage", s->from, blkno,
							   RelationGetRelationName(s->rel));
		return true;
	}
	Assert(lo == s->cut + 1);

	/* mtp_hash_split has finished the bucket's last split, if need be (H8). */
	if (h->source != InvalidBlockNumber)
		mtp_hash_corrupted("bucket %u at block %u of index \"%s\" has a source "
						   "that it was not split off from", s->from, blkno,
						   RelationGetRelationName(s->rel));

	/* Only the holder of this cleanup lock can make the page part of the index. */
	s->newbuf = mtp_hash_read_reserved(s->rel, s->meta, s->to);
	if (h->next == InvalidBlockNumber || !plan_whole(s))
		plan_primary(s);

	/* The metapage comes last in the order of locks, so it may have changed: look again. */
	metabuf = mtp_hash_read(s->rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
							MTP_HASH_WANT_META, NULL);
	s->done = memcmp(&was, &MtpHashMetaOf(BufferGetPage(metabuf))->space, sizeof(was)) == 0;
	if (s->done)
		publish_split(s, metabuf);
	*s->meta = *MtpHashMetaOf(BufferGetPage(metabuf));
	UnlockReleaseBuffer(metabuf);
	if (s->layout)
		mtp_hash_layout_release(s->layout, s->done);
	UnlockReleaseBuffer(s->newbuf);
	UnlockReleaseBuffer(s->oldbuf);
	return true;
}

bool
mtp_hash_split(Relation rel, MtpHashMeta *meta, MtpHashGrown *grown)
{
	Split		s = {.rel = rel,.meta = meta,.space = meta->space};
	uint32		last;
	MemoryContext cxt,
				old;
	bool		got;

	s.to = mtp_hash_space_size(&meta->space);
	s.from = mtp_hash_space_grow(&s.space);

	/*
	 * If the bucket's last split is not finished, that comes first (H8).  In it the bucket was the
	 * old one, of the level's lower half, or the new one; and the new one has `source` set.
	 */
	last = s.from;
	if (meta->space.level > 0 && last < meta->space.initial << (meta->space.level - 1))
		last += meta->space.initial << (meta->space.level - 1);
	if (!mtp_hash_finish(rel, mtp_hash_block(meta, last), grown))
		return false;

	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower hash split", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	got = split_bucket(&s);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);

	if (s.done)
	{
		grown->splits++;
		grown->moved += s.moved;
		MTP_INJECT("hash_split");

		/* What can't be finished now is finished before either bucket is split again (H8). */
		(void) mtp_hash_finish(rel, mtp_hash_block(meta, s.to), grown);
	}
	return got;
}
