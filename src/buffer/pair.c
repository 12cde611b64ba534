/*
 * pair.c
 *	  Serves tables: finds, publishes and makes stale the images and page directories of pairs.
 */
#include "buffer/pair.h"

#include "storage/buf_internals.h"
#include "storage/smgr.h"

static inline MtpPageTag
tag_of(Relation rel, uint32 pair)
{
	return mtp_page_tag(MtpRelLocator(rel), MtpPairBlock(pair));
}

bool
mtp_pair_find(Relation rel, uint32 pair, int kind, Size from, Size to, MtpFrameRef *ref)
{
	mtp_record(tag_of(rel, pair), kind);
	if (kind == MTP_FRAME_TABLE && *(volatile uint32 *) &mtp_buffer.policy->kinds[kind].nslabs == 0)
		return false;			/* no image has room, so none is looked for */
	return mtp_frame_find(&mtp_buffer, tag_of(rel, pair), kind, mtp_buffer_random(), from, to, ref);
}

bool
mtp_pair_find_next(Relation rel, uint32 pair, int kind, Size from, Size to, MtpFrameRef *ref)
{
	mtp_record(tag_of(rel, pair), kind);
	return mtp_frame_find_next(&mtp_buffer, tag_of(rel, pair), kind, mtp_buffer_random(), from, to,
							   ref);
}

void
mtp_pair_prefetch(Relation rel, const ItemPointerData *tid, MtpRowAhead *row)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);

	row->offset = ItemPointerGetOffsetNumberNoCheck(tid);
	if (row->block != block)
	{
		row->block = block;
		row->page = mtp_frame_guess(&mtp_buffer, tag_of(rel, MtpPairOf(block)), MTP_FRAME_TABLE);
		if (row->page != NULL)
			row->page += MtpPairHalf(block) * BLCKSZ;
	}
	if (row->offset > MaxHeapTuplesPerPage)
		row->page = NULL;
	if (row->page != NULL)
	{
		__builtin_prefetch(row->page);
		__builtin_prefetch(PageGetItemId((Page) row->page, row->offset));
	}
}

void
mtp_pair_answered(Relation rel, const MtpFrameRef *ref)
{
	mtp_frame_accessed(&mtp_buffer, ref->frame, MTP_FRAME_PAGEDIR, mtp_buffer_random());
	mtp_buffer_hit(rel, MTP_FRAME_PAGEDIR);
}

bool
mtp_pair_has(Relation rel, uint32 pair, int kind)
{
	return mtp_frame_has(&mtp_buffer, tag_of(rel, pair), kind);
}

bool
mtp_pair_peek(Relation rel, uint32 pair, int kind, void *to, Size size)
{
	return mtp_frame_copy(&mtp_buffer, tag_of(rel, pair), kind, to, size);
}

void
mtp_pair_stale(Relation rel, BlockNumber block, bool new_rows)
{
	if (mtp_buffer.policy != NULL && !RelationUsesLocalBuffers(rel))
		mtp_frame_stale_pair(&mtp_buffer, tag_of(rel, MtpPairOf(block)), new_rows);
}

/* ---------- publishing ---------- */

/* Pins the pair's blocks below nblocks. */
static void
read_pair(Relation rel, uint32 pair, BlockNumber nblocks, BufferAccessStrategy strategy,
		  Buffer bufs[2])
{
	for (int half = 0; half < 2; half++)
	{
		BlockNumber block = MtpPairBlock(pair) + half;

		bufs[half] = block >= nblocks ? InvalidBuffer :
			ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	}
}

static void
release_pair(const Buffer bufs[2])
{
	for (int half = 0; half < 2; half++)
		if (BufferIsValid(bufs[half]))
			ReleaseBuffer(bufs[half]);
}

/*
 * Locks a pair's blocks, those that there are, in their order.  A process that changes the second
 * block may be waiting for the first: so this does not wait for the second one.  False, with
 * nothing locked, if another process has it.
 */
static bool
lock_pair(const Buffer bufs[2])
{
	if (BufferIsValid(bufs[0]))
		LockBuffer(bufs[0], BUFFER_LOCK_SHARE);
	if (!BufferIsValid(bufs[1]) ||
		LWLockConditionalAcquire(BufferDescriptorGetContentLock(GetBufferDescriptor(bufs[1] - 1)),
								 LW_SHARED))
		return true;
	if (BufferIsValid(bufs[0]))
		LockBuffer(bufs[0], BUFFER_LOCK_UNLOCK);
	return false;
}

static void
unlock_pair(const Buffer bufs[2])
{
	for (int half = 0; half < 2; half++)
		if (BufferIsValid(bufs[half]))
			LockBuffer(bufs[half], BUFFER_LOCK_UNLOCK);
}

/* A locked page; NULL if the block is missing, or nobody has written it yet. */
static const char *
page_of(Buffer buf)
{
	Page		page = BufferIsValid(buf) ? BufferGetPage(buf) : NULL;

	return page == NULL || PageIsNew(page) ? NULL : page;
}

/* Publishes the image of pinned blocks, unless another process changes the second one. */
static void
publish_image(MtpPageTag tag, const MtpFramePlace *place, const Buffer bufs[2])
{
	if (lock_pair(bufs))
	{
		const char *const blocks[2] = {page_of(bufs[0]), page_of(bufs[1])};

		(void) mtp_frame_publish(&mtp_buffer, tag, MTP_FRAME_TABLE, place, blocks, NULL);
		unlock_pair(bufs);
	}
}

/*
 * Pins the other block of a pair, if it is in shared buffers.  It is not worth a read; and an
 * error in reading a block that no query has asked for must not fail this query.
 */
static Buffer
other_half(Relation rel, BlockNumber block)
{
	BlockNumber other = block ^ 1;
	BufferTag	tag;
	uint32		hash;
	LWLock	   *lock;
	int			id;

	MtpInitBufferTag(&tag, MtpRelLocator(rel), MAIN_FORKNUM, other);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	id = BufTableLookup(&tag, hash);
	LWLockRelease(lock);
	if (id < 0 || !ReadRecentBuffer(MtpRelLocator(rel), MAIN_FORKNUM, other, id + 1))
		return InvalidBuffer;
	return id + 1;
}

/*
 * A frame that there is already was of no use: it has the other half, or this half as it was
 * before its rows were visible to all.  So it goes first.
 */
void
mtp_pair_offer(Relation rel, Buffer buf)
{
	BlockNumber block = BufferGetBlockNumber(buf);
	MtpPageTag	tag = tag_of(rel, MtpPairOf(block));
	uint64	   *random = mtp_buffer_miss(MTP_FRAME_TABLE);
	MtpFramePlace place;

	if (!PageIsAllVisible(BufferGetPage(buf)))
		return;
	mtp_frame_stale_pair(&mtp_buffer, tag, false);
	if (mtp_frame_place(&mtp_buffer, tag, MTP_FRAME_TABLE, false, random, &place))
	{
		Buffer		bufs[2];

		bufs[MtpPairHalf(block)] = buf;
		bufs[1 - MtpPairHalf(block)] = other_half(rel, block);
		publish_image(tag, &place, bufs);
		if (BufferIsValid(bufs[1 - MtpPairHalf(block)]))
			ReleaseBuffer(bufs[1 - MtpPairHalf(block)]);
	}
	if (place.degree >= 0)
		mtp_buffer_consider(MTP_FRAME_TABLE);
}

void
mtp_pair_load(Relation rel, uint32 pair, BlockNumber nblocks, int degree,
			  BufferAccessStrategy strategy)
{
	MtpPageTag	tag = tag_of(rel, pair);
	Buffer		bufs[2];
	MtpFramePlace place;

	if (!mtp_buffer_place_loaded(tag, MTP_FRAME_TABLE, degree, &place))
		return;
	read_pair(rel, pair, nblocks, strategy, bufs);
	if ((BufferIsValid(bufs[0]) && PageIsAllVisible(BufferGetPage(bufs[0]))) ||
		(BufferIsValid(bufs[1]) && PageIsAllVisible(BufferGetPage(bufs[1]))))
		publish_image(tag, &place, bufs);
	release_pair(bufs);
}

/*
 * Copies the pair's blocks below nblocks while they are locked.  With a place, publishes an empty
 * page directory there meanwhile.  *single: the second block was not locked, as it does not exist
 * below nblocks.
 */
static bool
copy_pair(Relation rel, uint32 pair, BlockNumber nblocks, BufferAccessStrategy strategy, char *copy,
		  int kind, const MtpFramePlace *place, MtpFrameRef *ref, bool *single)
{
	Buffer		bufs[2];
	bool		good;

	read_pair(rel, pair, nblocks, strategy, bufs);
	*single = !BufferIsValid(bufs[1]);
	good = lock_pair(bufs);
	if (good)
	{
		/* Under the locks: a process that changes a page behind this copy finds the frame. */
		if (place != NULL)
			good = mtp_frame_publish(&mtp_buffer, tag_of(rel, pair), kind, place, NULL, ref);
		for (int half = 0; half < 2 && good; half++)
		{
			const char *page = page_of(bufs[half]);

			if (page != NULL)
				memcpy(copy + half * BLCKSZ, page, BLCKSZ);
			else
				memset(copy + half * BLCKSZ, 0, BLCKSZ);
		}
		unlock_pair(bufs);
	}
	release_pair(bufs);
	return good;
}

bool
mtp_pair_copy(Relation rel, uint32 pair, BlockNumber nblocks, BufferAccessStrategy strategy,
			  char *copy)
{
	bool		single;

	return copy_pair(rel, pair, nblocks, strategy, copy, MTP_FRAME_NONE, NULL, NULL, &single);
}

/*
 * Publishes the directory empty under the locks, copies the pages, and lets the locks go: making a
 * directory takes too long for them (README.md, "Page directories").
 */
bool
mtp_pair_reserve(Relation rel, uint32 pair, int *kind, BlockNumber nblocks,
				 BufferAccessStrategy strategy,
				 bool only_free, int degree, char *copy, MtpFrameRef *ref)
{
	MtpPageTag	tag = tag_of(rel, pair);
	MtpFramePlace place;
	bool		found,
				single,
				reserved;

	if (mtp_pair_has(rel, pair, MTP_FRAME_PAGEDIR))
		return false;

	/* A slab that has no kind yet may become one of theirs first. */
	mtp_buffer_consider(*kind);
	if (degree >= 0)
		found = mtp_frame_place_warm(&mtp_buffer, tag, *kind, degree, mtp_buffer_random_state(),
									 &place);
	else
		found = mtp_frame_place(&mtp_buffer, tag, *kind, only_free,
								mtp_buffer_miss(MTP_FRAME_PAGEDIR), &place);
	if (!found && *kind == MTP_FRAME_SMALL && place.degree >= 0)
	{
		/* A large frame that is free does for a small directory, too. */
		*kind = MTP_FRAME_PAGEDIR;
		found = mtp_frame_place(&mtp_buffer, tag, *kind, true, mtp_buffer_random_state(), &place);
	}
	if (!found)
		return false;
	reserved = copy_pair(rel, pair, nblocks, strategy, copy, *kind, &place, ref, &single);

	/*
	 * A block may have come since the caller read the table's length.  It was not locked: a writer
	 * of rows on it may have found no frame to take away, and the copy lacks its rows.  A later
	 * writer finds the frame.
	 */
	if (reserved && single)
	{
		pg_memory_barrier();	/* the word before the table's length */
		if (RelationGetNumberOfBlocks(rel) > MtpPairBlock(pair) + 1)
		{
			(void) mtp_frame_fill(&mtp_buffer, tag, ref, NULL, 0);
			reserved = false;
		}
	}
	return reserved;
}

int
mtp_pair_level(const MtpFrameRef *ref)
{
	return mtp_heat_degree(mtp_buffer.policy->heat[ref->frame],
						   mtp_policy_epoch(mtp_buffer.policy));
}

bool
mtp_pair_fill(Relation rel, uint32 pair, const MtpFrameRef *ref, const char *directory, Size size)
{
	return mtp_frame_fill(&mtp_buffer, tag_of(rel, pair), ref, directory, size);
}
