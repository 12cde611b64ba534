/*
 * split_finish.c
 *	  Finishes the split of a bucket with a long stash, some stash pages at a time.
 *
 * The new bucket's `source` says that stash pages of the old one may still have entries of the
 * new one: those whose `hi` is above the old bucket's.  A piece takes some of these pages and
 * lays their entries out over pages that stay and pages that go.  The last piece clears `source`.
 */
#include "core/core.h"

#include "hash/change.h"
#include "hash/grow.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "core/inject.h"

typedef struct Finish
{
	Relation	rel;
	Buffer		oldbuf;
	Buffer		newbuf;
	BlockNumber prev;			/* stash pages up to this one are done; invalid: none is */
	uint32		moved;
} Finish;

/* Moves f->prev over pages that are done, and returns the page behind it. */
static BlockNumber
skip_done(Finish *f)
{
	uint32		hi = MtpHashHead(BufferGetPage(f->oldbuf))->hi;
	BlockNumber at = f->prev != InvalidBlockNumber ? f->prev :
	MtpHashHead(BufferGetPage(f->oldbuf))->next;
	MtpWalk		walk = {0};

	while (at != InvalidBlockNumber)
	{
		Buffer		buf = mtp_hash_read(f->rel, at, BUFFER_LOCK_SHARE, MTP_HASH_WANT_STASH, NULL);
		MtpHashHeader *h = MtpHashHead(BufferGetPage(buf));
		BlockNumber next = h->next;
		bool		done = h->hi <= hi;

		mtp_hash_walk_step(f->rel, &walk, at);
		UnlockReleaseBuffer(buf);
		if (!done)
			break;
		f->prev = at;
		at = next;
	}
	return at;
}

static MtpHashSheet
lock_sheet(Finish *f, BlockNumber blkno)
{
	return mtp_hash_layout_copy(mtp_hash_read(f->rel, blkno, BUFFER_LOCK_EXCLUSIVE,
											  MTP_HASH_WANT_STASH, NULL));
}

/*
 * Does one piece, under the cleanup locks of both primary pages: a scan of either bucket pins one
 * of them while it may need a page of the piece (H4, H5).  True if there is more to do.
 *
 * Entries that stay fill the page before the piece and then pages in the same place.  Those that
 * go fill the new bucket's primary page, its stash's first page, and then pages in front of that.
 * The old bucket's filter keeps its bits, a superset (H6): to know better would need the whole
 * stash.
 */
static bool
finish_piece(Finish *f)
{
	uint32		hi = MtpHashHead(BufferGetPage(f->oldbuf))->hi;
	MtpHashLayout *l = mtp_hash_layout_make(f->rel, hi);
	BlockNumber blkno = skip_done(f);
	BlockNumber first = MtpHashHead(BufferGetPage(f->newbuf))->next;
	BlockNumber behind;
	MtpHashSheet all[4 + MTP_HASH_SHEETS];
	MtpHashSheet *before = &all[0];
	MtpWalHashPages rec = {.two = true};
	MtpChange	c;
	int			n = 2;
	int			nlocked;
	int			kept,
				gone;

	all[0] = l->primary[0] = mtp_hash_layout_copy(f->oldbuf);
	all[1] = l->primary[1] = mtp_hash_layout_copy(f->newbuf);

	/* The page before the piece leads behind it in future, and takes entries that stay. */
	if (f->prev != InvalidBlockNumber)
	{
		all[n] = lock_sheet(f, f->prev);
		before = &all[n++];
	}
	behind = mtp_hash_layout_take_stash(l, blkno, hi);
	f->moved += l->n[1];

	MtpHashHead(before->image)->next = behind;
	kept = mtp_hash_layout_fill(l, 0, before, 0);
	gone = mtp_hash_layout_fill(l, 1, &l->primary[1], 0);
	if (first != InvalidBlockNumber)
	{
		all[n] = lock_sheet(f, first);
		gone = mtp_hash_layout_fill(l, 1, &all[n++], gone);
	}
	nlocked = n;
	before = mtp_hash_layout_spill(l, before, true, kept, gone);

	/* Behind the last piece no page has entries of the new bucket: its scans may forget the old. */
	if (behind == InvalidBlockNumber)
		MtpHashHead(l->primary[1].image)->source = InvalidBlockNumber;

	/*
	 * One record has the images of all pages, the primary pages first: replay takes cleanup locks
	 * on these two.  A crash before it leaves the old pages as they were, and nothing leads to new
	 * ones; behind it the next piece may be done by anyone.
	 */
	for (int i = 0; i < l->nsheets; i++)
		all[n++] = l->sheets[i];
	mtp_change_init(&c, f->rel, MTP_WAL_HASH_PAGES);
	for (int i = 0; i < n; i++)
		mtp_change_buffer(&c, all[i].buf, MTP_HASH_IMAGE);
	mtp_change_begin(&c);
	for (int i = 0; i < n; i++)
		memcpy(BufferGetPage(all[i].buf), all[i].image, BLCKSZ);
	mtp_change_data(&c, &rec, sizeof(rec));
	mtp_change_finish(&c);

	/* The next piece begins behind the last page that stays. */
	if (before->buf != f->oldbuf)
		f->prev = BufferGetBlockNumber(before->buf);
	for (int i = 2; i < nlocked; i++)
		UnlockReleaseBuffer(all[i].buf);
	mtp_hash_layout_release(l, true);
	return behind != InvalidBlockNumber;
}

/*
 * Takes both cleanup locks, that of the bucket with the lower number first.  Waits for neither
 * (H10); false if one is not to be had at once.
 */
static bool
try_both(Buffer oldbuf, Buffer newbuf)
{
	if (!ConditionalLockBufferForCleanup(oldbuf))
		return false;
	if (ConditionalLockBufferForCleanup(newbuf))
		return true;
	LockBuffer(oldbuf, BUFFER_LOCK_UNLOCK);
	return false;
}

/*
 * Both pages stay pinned between pieces, and so no other process gets a cleanup lock (H4):
 * inserters add pages in front of the chain, nothing else changes in it, and f.prev stays what it
 * is.  Whatever ends the work early, `source` says that there is more to do.
 */
bool
mtp_hash_finish(Relation rel, BlockNumber newer, MtpHashGrown *grown)
{
	Finish		f = {.rel = rel,.prev = InvalidBlockNumber};
	BlockNumber source;
	MemoryContext cxt,
				old;
	bool		more = true;
	bool		got = true;

	f.newbuf = mtp_hash_read(rel, newer, BUFFER_LOCK_SHARE, MTP_HASH_WANT_BUCKET, NULL);
	source = MtpHashHead(BufferGetPage(f.newbuf))->source;
	LockBuffer(f.newbuf, BUFFER_LOCK_UNLOCK);
	if (source != InvalidBlockNumber)
	{
		f.oldbuf = mtp_hash_read(rel, source, BUFFER_LOCK_UNLOCK, MTP_HASH_WANT_BUCKET, NULL);
		cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower hash split",
									ALLOCSET_DEFAULT_SIZES);
		old = MemoryContextSwitchTo(cxt);
		while (more && (got = try_both(f.oldbuf, f.newbuf)))
		{
			mtp_hash_check_page(rel, f.oldbuf, MTP_HASH_WANT_BUCKET);

			/* The pins let nobody else clear it; look under the lock all the same. */
			more = MtpHashHead(BufferGetPage(f.newbuf))->source != InvalidBlockNumber &&
				finish_piece(&f);
			LockBuffer(f.newbuf, BUFFER_LOCK_UNLOCK);
			LockBuffer(f.oldbuf, BUFFER_LOCK_UNLOCK);
			MemoryContextReset(cxt);
			MTP_INJECT("hash_piece");
			CHECK_FOR_INTERRUPTS();
		}
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		ReleaseBuffer(f.oldbuf);
		grown->moved += f.moved;
	}
	ReleaseBuffer(f.newbuf);
	return got;
}
