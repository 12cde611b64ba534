/*
 * change.h
 *	  Changes of pages that a process and replay make in the same way.
 */
#ifndef MTP_HASH_CHANGE_H
#define MTP_HASH_CHANGE_H

#include "core/core.h"

#include "hash/hash.h"
#include "hash/wal_records.h"

/* The slot of a heavy hash on the primary page, or -1. */
static inline int
mtp_hash_heavy_slot(const MtpHashPrimary *p, uint32 hash)
{
	for (int i = 0; i < p->h.nheavy; i++)
		if (p->heavy[i].hash == hash)
			return i;
	return -1;
}

static inline void
mtp_hash_filter_entries(MtpHashPrimary *p, int n, const MtpHashEntry *entries)
{
	for (int i = 0; i < n; i++)
		mtp_filter_add(p, mtp_entry_hash(&entries[i]));
}

/* Puts the new stash page in front of its chain; the filter gets the entries' bits (H6). */
static inline void
mtp_hash_link(MtpHashPrimary *p, BlockNumber first, const MtpWalHashAdd *rec,
			  const MtpHashEntry *entries)
{
	int			slot;

	if (!rec->heavy)
	{
		p->h.next = first;
		mtp_hash_filter_entries(p, rec->n, entries);
		return;
	}
	slot = mtp_hash_heavy_slot(p, rec->hash);
	if (slot < 0)
		slot = p->h.nheavy++;
	p->heavy[slot].hash = rec->hash;
	p->heavy[slot].first = first;
}

/* Makes the stash page of an ADD record. */
static inline void
mtp_hash_make_stash(Page page, const MtpWalHashAdd *rec, const MtpHashEntry *entries)
{
	mtp_hash_bucket_init(page, MTP_HASH_STASH, rec->bucket, rec->lo, rec->hi);
	MtpHashHead(page)->next = rec->next;
	mtp_hash_bucket_append(page, rec->n, entries);
}

#endif							/* MTP_HASH_CHANGE_H */
