/*
 * verify_rows.c
 *	  Checks a hash index against its table: every entry has its row, every row its entry.
 *
 * VACUUM can't pass a bucket that is pinned, so line pointers that its entries lead to stay in
 * use (src/index/README.md).
 *
 * Many rows may have one hash, and to look each of them up among as many entries would take for
 * ever.  So rows and entries are sorted and compared.  An entry that is missing is then looked
 * for in the index.
 */
#include "hash/verify.h"

#include "miscadmin.h"

void
mtp_hash_verify_rows_begin(MtpHashVerify *hv)
{
	Size		memory = Max((Size) maintenance_work_mem * 1024 / 2, 64 * 1024);

	hv->order = (MtpOrder)
	{
		.code = MTP_NORM_OID,.narrow = true,.norm_prefixes = true
	};
	hv->entries = mtp_batch_spool_begin(&hv->order, memory);
	hv->rows = mtp_batch_spool_begin(&hv->order, memory);
}

typedef struct Found
{
	BlockNumber blkno;			/* the page that has it, or else its bucket's primary page */
	int			pos;			/* -1: no page has it */
	bool		dead;
	bool		all;			/* the search goes on, and counts */
	int			times;
} Found;

/* Looks for the entry on a page; true ends the search. */
static bool
search_page(Page page, BlockNumber blkno, const MtpHashEntry *e, Found *found)
{
	for (int i = 0; i < MtpHashHead(page)->n; i++)
		if (memcmp(MtpHashEntryAt(page, i), e, sizeof(MtpHashEntry)) == 0)
		{
			found->blkno = blkno;
			found->pos = i;
			found->dead = MtpHashFps(page)[i] == MTP_FP_DEAD;
			found->times++;
			if (!found->all)
				return true;
		}
	return false;
}

/* Looks for the entry on the pages of a chain; true ends the search. */
static bool
search_chain(MtpHashVerify *hv, BlockNumber first, BlockNumber from, const MtpHashEntry *e,
			 Found *found)
{
	BlockNumber limit = RelationGetNumberOfBlocks(hv->v->rel);

	for (BlockNumber at = first; at != InvalidBlockNumber; at = MtpHashHead(hv->scratch.data)->next)
	{
		(void) mtp_hash_verify_copy(hv, at, from, MTP_HASH_STASH, &hv->scratch, false);
		if (search_page((Page) hv->scratch.data, at, e, found))
			return true;
		if (limit-- == 0)
			mtp_verify_fail(hv->v, from, -1, "Pages of a chain form a circle.");
		from = at;
	}
	return false;
}

/* Looks for an entry where it can be: once, or all.  Returns its bucket's primary page, pinned. */
static Buffer
find_entry(MtpHashVerify *hv, const MtpHashEntry *e, bool all, Found *found)
{
	uint32		hash = mtp_entry_hash(e);
	Buffer		buf = mtp_hash_find(hv->v->rel, hash, BUFFER_LOCK_SHARE);
	Page		page = (Page) hv->scratch_primary.data;
	MtpHashPrimary *p = MtpHashPrimaryOf(page);
	BlockNumber source;

	memset(found, 0, sizeof(*found));
	found->blkno = BufferGetBlockNumber(buf);
	found->pos = -1;
	found->all = all;
	memcpy(page, BufferGetPage(buf), BLCKSZ);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	if (search_page(page, found->blkno, e, found) ||
		search_chain(hv, p->h.next, found->blkno, e, found))
		return buf;
	for (int i = 0; i < Min(p->h.nheavy, MTP_HASH_MAX_HEAVY); i++)
		if (p->heavy[i].hash == hash &&
			search_chain(hv, p->heavy[i].first, found->blkno, e, found))
			return buf;

	/* Entries don't leave the source's stash while their bucket is pinned (H5). */
	source = p->h.source;
	if (source != InvalidBlockNumber)
	{
		Buffer		pin = mtp_hash_verify_copy(hv, source, found->blkno, MTP_HASH_BUCKET,
											   &hv->scratch_primary, true);

		(void) search_chain(hv, p->h.next, source, e, found);
		ReleaseBuffer(pin);
	}
	return buf;
}

bool
mtp_hash_verify_matches(MtpVerify *v, const void *entry, const Datum *values, const bool *isnull)
{
	uint32		hash;

	return mtp_hash_row(v->rel, values, isnull, &hash) && hash == mtp_entry_hash(entry);
}

/* The pin on the bucket's primary page holds VACUUM back (H9), whichever page has the entry. */
Buffer
mtp_hash_verify_find(MtpVerify *v, const void *entry, BlockNumber *blkno, int *pos)
{
	Found		found;
	Buffer		buf = find_entry(v->own, entry, false, &found);

	*blkno = found.blkno;
	*pos = found.pos;
	if (found.pos >= 0)
		return buf;
	ReleaseBuffer(buf);
	return InvalidBuffer;
}

void
mtp_hash_verify_entries(MtpHashVerify *hv, Page page)
{
	for (int i = 0; i < MtpHashHead(page)->n; i++)
	{
		MtpHashEntry e = *MtpHashEntryAt(page, i);

		mtp_verify_entry(hv->v, &e.tid, &e);

		/* A row that the snapshot sees must have no dead entry: the end finds such a one. */
		if (MtpHashFps(page)[i] != MTP_FP_DEAD)
			mtp_batch_spool_put_narrow(hv->entries,
									   mtp_narrow_of_hash(mtp_entry_hash(&e), &e.tid));
	}
}

void
mtp_hash_verify_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive,
					void *state)
{
	MtpVerify  *v = state;
	MtpHashVerify *hv = v->own;
	uint32		hash;

	if (mtp_hash_row(index, values, isnull, &hash))
		mtp_batch_spool_put_narrow(hv->rows, mtp_narrow_of_hash(hash, tid));
}

/* Looks for an entry as the sort has it, and returns its TID. */
static ItemPointerData
find_narrow(MtpHashVerify *hv, const MtpNarrow *narrow, bool all, Found *found)
{
	ItemPointerData tid;
	MtpHashEntry e;

	mtp_rid_to_tid(narrow->rid, &tid);
	e = mtp_entry((uint32) narrow->norm, &tid);
	ReleaseBuffer(find_entry(hv, &e, all, found));
	return tid;
}

/*
 * Steps from one entry to the next; false behind the last.  If the two are equal, counts the
 * entry in the index.  A split may have moved it to a bucket that was visited later; then it has
 * moved all entries of the hash, and these may be many: so only one of them is counted.
 */
static bool
next_entry(MtpHashVerify *hv, MtpNarrow *entry)
{
	MtpNarrow	last = *entry;
	ItemPointerData tid;
	Found		found;

	if (!mtp_batch_spool_next_narrow(hv->entries, entry))
		return false;
	if (mtp_narrow_less(&last, entry) || hv->counted == entry->norm + 1)
		return true;
	hv->counted = entry->norm + 1;
	tid = find_narrow(hv, entry, true, &found);
	if (found.times > 1)
		mtp_verify_fail(hv->v, found.blkno, found.pos, "Row with TID (%u,%u) has %d entries.",
						ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid),
						found.times);
	return true;
}

void
mtp_hash_verify_rows_done(MtpVerify *v)
{
	MtpHashVerify *hv = v->own;
	MtpNarrow	row,
				entry;
	ItemPointerData tid;
	Found		found;
	bool		more;

	mtp_batch_spool_sort(hv->entries);
	mtp_batch_spool_sort(hv->rows);
	more = mtp_batch_spool_next_narrow(hv->entries, &entry);
	while (mtp_batch_spool_next_narrow(hv->rows, &row))
	{
		CHECK_FOR_INTERRUPTS();
		while (more && mtp_narrow_less(&entry, &row))
			more = next_entry(hv, &entry);
		if (more && !mtp_narrow_less(&row, &entry))
			continue;

		/* The row's entry was not among those without dead hint. */
		tid = find_narrow(hv, &row, false, &found);
		mtp_verify_row_entry(v, &tid, found.blkno, found.pos, found.pos >= 0, found.dead);
	}
	while (more)
		more = next_entry(hv, &entry);
	mtp_batch_spool_end(hv->entries);
	mtp_batch_spool_end(hv->rows);
}
