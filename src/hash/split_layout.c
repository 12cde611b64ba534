/*
 * split_layout.c
 *	  Lays entries out anew over the pages of two buckets, in private memory.
 *
 * The caller has all pages locked, and publishes the images in one change.  Everything that may
 * fail happens here, before it (H13).
 */
#include "core/core.h"

#include "hash/change.h"
#include "hash/grow.h"
#include "storage/indexfsm.h"

/* A primary page, one stash page at either end, and a piece of stash between them. */
#define MAX_ENTRIES ((MTP_HASH_PIECE + 2) * MTP_HASH_MAX_ENTRIES)

MtpHashLayout *
mtp_hash_layout_make(Relation rel, uint32 cut)
{
	MtpHashLayout *l = palloc0(sizeof(MtpHashLayout));

	l->rel = rel;
	l->cut = cut;
	for (int i = 0; i < 2; i++)
		l->entries[i] = palloc(MAX_ENTRIES * sizeof(MtpHashEntry));
	return l;
}

MtpHashSheet
mtp_hash_layout_copy(Buffer buf)
{
	MtpHashSheet sheet = {.buf = buf,.image = palloc(BLCKSZ)};

	memcpy(sheet.image, BufferGetPage(buf), BLCKSZ);
	return sheet;
}

void
mtp_hash_layout_take(MtpHashLayout *l, Page page)
{
	int			n = MtpHashHead(page)->n;

	for (int i = 0; i < n; i++)
	{
		MtpHashEntry *e = MtpHashEntryAt(page, i);
		int			side = mtp_entry_hash(e) > l->cut;

		if (l->n[side] >= MAX_ENTRIES)
			elog(ERROR, "too many entries in one split of index \"%s\"",
				 RelationGetRelationName(l->rel));
		l->entries[side][l->n[side]++] = *e;
	}
}

/* Adds an exclusively locked stash page to the sheets; its image is zero so far. */
static void
add_sheet(MtpHashLayout *l, Buffer buf)
{
	Assert(l->nsheets < MTP_HASH_SHEETS);
	l->sheets[l->nsheets].buf = buf;
	l->sheets[l->nsheets].image = palloc0(BLCKSZ);
	l->nsheets++;
}

BlockNumber
mtp_hash_layout_take_stash(MtpHashLayout *l, BlockNumber blkno, uint32 done)
{
	while (blkno != InvalidBlockNumber && l->nsheets < MTP_HASH_PIECE)
	{
		Buffer		buf = mtp_hash_read(l->rel, blkno, BUFFER_LOCK_EXCLUSIVE,
										MTP_HASH_WANT_STASH, NULL);
		Page		page = BufferGetPage(buf);

		if (MtpHashHead(page)->hi <= done)
		{
			UnlockReleaseBuffer(buf);
			break;
		}
		add_sheet(l, buf);
		mtp_hash_layout_take(l, page);
		blkno = MtpHashHead(page)->next;
	}
	return blkno;
}

int
mtp_hash_layout_fill(MtpHashLayout *l, int side, MtpHashSheet *to, int from)
{
	int			k = Min(mtp_hash_bucket_room(to->image), l->n[side] - from);
	MtpHashEntry *entries = l->entries[side] + from;

	mtp_hash_bucket_append(to->image, k, entries);
	if (!MtpHashIsPrimary(to->image))
		mtp_hash_filter_entries(MtpHashPrimaryOf(l->primary[side].image), k, entries);
	return from + k;
}

/* Puts the rest of a side's entries on sheets; mtp_hash_layout_spill says where these stand. */
static MtpHashSheet *
fill_sheets(MtpHashLayout *l, int side, MtpHashSheet *after, bool forward, int from)
{
	MtpHashHeader *h = MtpHashHead(l->primary[side].image);

	while (from < l->n[side])
	{
		MtpHashSheet *fresh = &l->sheets[l->used++];

		Assert(l->used <= l->nsheets);
		mtp_hash_bucket_init(fresh->image, MTP_HASH_STASH, h->bucket, h->lo, h->hi);
		MtpHashHead(fresh->image)->next = MtpHashHead(after->image)->next;
		MtpHashHead(after->image)->next = BufferGetBlockNumber(fresh->buf);
		from = mtp_hash_layout_fill(l, side, fresh, from);
		if (forward)
			after = fresh;
	}
	return after;
}

MtpHashSheet *
mtp_hash_layout_spill(MtpHashLayout *l, MtpHashSheet *after, bool forward, int kept, int gone)
{
	int			needed = mtp_hash_layout_pages(l->n[0] - kept) +
	mtp_hash_layout_pages(l->n[1] - gone);

	while (l->nsheets < needed)
	{
		if (l->nsheets == MTP_HASH_SHEETS)
			elog(ERROR, "too many pages in one split of index \"%s\"",
				 RelationGetRelationName(l->rel));
		add_sheet(l, mtp_hash_alloc(l->rel));
	}
	after = fill_sheets(l, 0, after, forward, kept);
	(void) fill_sheets(l, 1, &l->primary[1], false, gone);
	for (int i = l->used; i < l->nsheets; i++)
		mtp_hash_bucket_init_free(l->sheets[i].image);
	return after;
}

void
mtp_hash_layout_release(MtpHashLayout *l, bool done)
{
	for (int i = 0; i < l->nsheets; i++)
	{
		BlockNumber blkno = BufferGetBlockNumber(l->sheets[i].buf);

		UnlockReleaseBuffer(l->sheets[i].buf);
		if (done && i >= l->used)
			RecordFreeIndexPage(l->rel, blkno);
	}
	l->nsheets = 0;
}
