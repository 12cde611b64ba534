/*
 * split.c
 *	  Splits one bucket.
 *
 * One record makes two buckets of one, metapage included: there is no state in between.  Only a long
 * stash stays behind, and is dealt with in pieces (finish.c).
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
	MtpHashSpace space;			/* after it */
	uint32		from;			/* bucket that is split */
	uint32		to;				/* new one */
	uint32		lo;				/* lo .. cut stay, cut + 1 .. hi go */
	uint32		cut;
	uint32		hi;
	Buffer		oldbuf;
	Buffer		newbuf;
	Page		old;			/* image, or NULL: the old page keeps its entries up to the cut */
	Page		new;			/* image */
	MtpHashLayout *layout;		/* or NULL */
	uint32		moved;
} Split;

/* The bucket that has `source` set if the last split of this one, as the old or the new bucket, is not finished. */
static uint32
last_split_off(const MtpHashSpace *space, uint32 bucket)
{
	uint32		half;

	if (space->level == 0)
		return bucket;
	half = space->initial << (space->level - 1);
	return bucket < half ? bucket + half : bucket;
}

/* An empty primary page with the heavy hashes of the interval. */
static Page
make_primary(Split *s, uint32 bucket, uint32 lo, uint32 hi)
{
	Page		image = mtp_hash_layout_image(BufferGetPage(s->oldbuf));
	MtpHashPrimary was = *MtpHashPrimaryOf(image);
	MtpHashPrimary *p = MtpHashPrimaryOf(image);

	mtp_hash_bucket_init(image, MTP_HASH_BUCKET, bucket, lo, hi);
	for (int i = 0; i < was.h.nheavy; i++)
		if (was.heavy[i].hash >= lo && was.heavy[i].hash <= hi)
			p->heavy[p->h.nheavy++] = was.heavy[i];
	return image;
}

/* The stash, if there is any, stays with the old bucket. */
static void
plan_primary(Split *s)
{
	MtpHashPrimary *p;

	s->new = mtp_hash_layout_image(BufferGetPage(s->oldbuf));
	mtp_hash_retain(s->new, s->cut + 1, s->hi);
	p = MtpHashPrimaryOf(s->new);
	p->h.bucket = s->to;
	if (p->h.next != InvalidBlockNumber)
		p->h.source = BufferGetBlockNumber(s->oldbuf);
	p->h.next = InvalidBlockNumber;
	s->moved = p->h.n;
}

/* Locks the stash, in its order; false if it is too long for one record. */
static bool
lock_stash(MtpHashLayout *l, BlockNumber blkno)
{
	while (blkno != InvalidBlockNumber)
	{
		Buffer		buf;

		if (l->nsheets == MTP_HASH_PIECE)
			return false;
		buf = mtp_hash_read(l->rel, blkno, BUFFER_LOCK_EXCLUSIVE, MTP_HASH_WANT_STASH, NULL);
		mtp_hash_layout_sheet(l, buf);
		blkno = MtpHashHead(BufferGetPage(buf))->next;
	}
	return true;
}

/* All entries, of the primary page and the stash, are laid out anew over both buckets. */
static bool
plan_whole(Split *s)
{
	Page		page = BufferGetPage(s->oldbuf);
	MtpHashLayout *l = mtp_hash_layout_make(s->rel, s->cut);
	int			at[2];

	if (!lock_stash(l, MtpHashHead(page)->next))
	{
		mtp_hash_layout_release(l, false);
		return false;
	}
	s->layout = l;
	mtp_hash_layout_take(l, page);
	for (int i = 0; i < l->nsheets; i++)
		mtp_hash_layout_take(l, BufferGetPage(l->sheets[i].buf));
	s->moved = l->n[1];

	s->old = make_primary(s, s->from, s->lo, s->cut);
	s->new = make_primary(s, s->to, s->cut + 1, s->hi);
	l->primary[0] = (MtpHashSheet)
	{
		s->oldbuf, s->old
	};
	l->primary[1] = (MtpHashSheet)
	{
		s->newbuf, s->new
	};
	for (int i = 0; i < 2; i++)
		at[i] = mtp_hash_layout_fill(l, i, &l->primary[i], 0);
	mtp_hash_layout_reserve(l, mtp_hash_layout_pages(l->n[0] - at[0]) + mtp_hash_layout_pages(l->n[1] - at[1]));
	for (int i = 0; i < 2; i++)
		(void) mtp_hash_layout_spill(l, i, &l->primary[i], false, at[i]);
	mtp_hash_layout_rest(l);
	return true;
}

/* The record.  The metapage is locked, and says what it said when the split was planned. */
static void
publish(Split *s, Buffer metabuf)
{
	MtpHashMeta *meta = MtpHashMetaOf(BufferGetPage(metabuf));
	MtpHashLayout *l = s->layout;
	MtpWalHashSplit rec;
	MtpChange	c;

	memset(&rec, 0, sizeof(rec));
	rec.hi = s->cut;
	rec.entries = meta->entries;
	rec.whole = l != NULL;

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
		mtp_hash_retain(BufferGetPage(s->oldbuf), s->lo, s->cut);
	memcpy(BufferGetPage(s->newbuf), s->new, BLCKSZ);
	for (int i = 0; l != NULL && i < l->nsheets; i++)
		memcpy(BufferGetPage(l->sheets[i].buf), l->sheets[i].image, BLCKSZ);
	meta->space = s->space;
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);
}

/* Both primary pages are locked.  False: somebody else has changed the address space. */
static bool
split_locked(Split *s)
{
	MtpHashMeta *meta;
	Buffer		metabuf;
	bool		same;

	if (MtpHashHead(BufferGetPage(s->oldbuf))->next == InvalidBlockNumber || !plan_whole(s))
		plan_primary(s);
	metabuf = mtp_hash_read(s->rel, MTP_HASH_META_BLOCK, BUFFER_LOCK_EXCLUSIVE,
							MTP_HASH_WANT_META, NULL);
	meta = MtpHashMetaOf(BufferGetPage(metabuf));
	same = memcmp(&meta->space, &s->meta->space, sizeof(MtpHashSpace)) == 0;
	if (same)
		publish(s, metabuf);
	*s->meta = *meta;
	UnlockReleaseBuffer(metabuf);
	if (s->layout)
		mtp_hash_layout_release(s->layout, same);
	return same;
}

/* The page doesn't say what the copy of the metapage does: somebody has split the bucket since, or it's damage. */
static void
reread_meta(Split *s)
{
	MtpHashSpace was = s->meta->space;

	mtp_hash_copy_meta(s->rel, s->meta);
	if (memcmp(&was, &s->meta->space, sizeof(was)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("hashes of bucket %u at block %u of index \"%s\" don't match its metapage",
						s->from, mtp_hash_block(s->meta, s->from), RelationGetRelationName(s->rel)),
				 errhint("Please REINDEX it.")));
}

/* The old primary page's cleanup lock is had, if at once. */
static bool
lock_old(Split *s)
{
	s->oldbuf = mtp_hash_read(s->rel, mtp_hash_block(s->meta, s->from), BUFFER_LOCK_UNLOCK,
							  MTP_HASH_WANT_BUCKET, NULL);
	if (!ConditionalLockBufferForCleanup(s->oldbuf))
	{
		ReleaseBuffer(s->oldbuf);
		return false;
	}
	mtp_hash_check_page(s->rel, s->oldbuf, MTP_HASH_WANT_BUCKET);
	return true;
}

static MtpHashSplitResult
split(Split *s)
{
	MtpHashHeader *h;
	uint32		lo;
	bool		done;

	if (!lock_old(s))
		return MTP_SPLIT_STOP;
	mtp_hash_space_interval(&s->meta->space, s->from, &s->lo, &s->hi);
	mtp_hash_space_interval(&s->space, s->from, &s->lo, &s->cut);
	mtp_hash_space_interval(&s->space, s->to, &lo, &s->hi);
	h = MtpHashHead(BufferGetPage(s->oldbuf));
	if (h->lo != s->lo || h->hi != s->hi)
	{
		UnlockReleaseBuffer(s->oldbuf);
		reread_meta(s);
		return MTP_SPLIT_AGAIN;
	}
	Assert(lo == s->cut + 1);

	/* If the bucket's own split was not finished, it has been by now (mtp_hash_split). */
	if (h->source != InvalidBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("bucket %u at block %u of index \"%s\" has a source that it was not split off from",
						s->from, BufferGetBlockNumber(s->oldbuf), RelationGetRelationName(s->rel)),
				 errhint("Please REINDEX it.")));

	/* Nobody else reads the page: only we, with this cleanup lock, can make it part of the index. */
	s->newbuf = mtp_hash_read_reserved(s->rel, s->meta, s->to);
	done = split_locked(s);
	UnlockReleaseBuffer(s->newbuf);
	UnlockReleaseBuffer(s->oldbuf);
	return done ? MTP_SPLIT_DONE : MTP_SPLIT_AGAIN;
}

MtpHashSplitResult
mtp_hash_split(Relation rel, MtpHashMeta *meta, MtpHashGrown *grown)
{
	Split		s = {.rel = rel,.meta = meta,.space = meta->space};
	MemoryContext cxt,
				old;
	MtpHashSplitResult result;
	BlockNumber newer;

	s.to = mtp_hash_space_size(&meta->space);
	s.from = mtp_hash_space_grow(&s.space);
	newer = mtp_hash_block(meta, last_split_off(&meta->space, s.from));
	if (!mtp_hash_finish(rel, newer, grown))
		return MTP_SPLIT_STOP;

	cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower hash split", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	result = split(&s);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);

	if (result == MTP_SPLIT_DONE)
	{
		grown->splits++;
		grown->moved += s.moved;
		MTP_INJECT("hash_split");

		/* If it can't be finished now, it is before either bucket is split again. */
		(void) mtp_hash_finish(rel, mtp_hash_block(meta, s.to), grown);
	}
	return result;
}
