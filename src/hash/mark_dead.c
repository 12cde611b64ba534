/*
 * mark_dead.c
 *	  Sets dead hints for rows that a scan has found dead to every transaction.
 */
#include "hash/scan.h"

/*
 * Looks among the n entries at[] for one with the TID, from *from on and round the end: where
 * nothing has moved, the entries are in the order in which the scan found them dead.  True if it
 * has set a hint.
 */
static bool
mark_dead(Page page, ItemPointer tid, int n, const uint16 *at, int *from)
{
	for (int k = 0; k < n; k++)
	{
		int			i = *from + k < n ? *from + k : *from + k - n;

		if (ItemPointerEquals(&MtpHashEntryAt(page, at[i])->tid, tid))
		{
			*from = i + 1 < n ? i + 1 : 0;
			if (MtpHashFps(page)[at[i]] == MTP_FP_DEAD)
				return false;
			mtp_hash_bucket_set_dead(page, at[i]);
			return true;
		}
	}
	return false;
}

/*
 * The TIDs still mean the rows that the scan judged (H9).  Before a TID is used again, VACUUM
 * gets a cleanup lock on the bucket's primary page, and on its source's, where the entry comes
 * from that one's stash.  The scan has had both pinned since it read the entries; or the page is
 * what it was in its frame.  These pins also keep the page where it is in the bucket (H4).  An
 * entry may have moved on its page or have been deleted, so it is looked for by hash and TID.
 */
void
mtp_hash_scan_kill(IndexScanDesc scan)
{
	MtpHashScan *so = scan->opaque;
	Buffer		buf = so->primary;
	uint16		at[MTP_HASH_MAX_ENTRIES];
	uint32		hash = 0;
	int			n = -1;
	int			from = 0;
	bool		marked = false;

	Assert(so->in_frame || BufferIsValid(so->primary));
	if (so->in_frame || so->page != BufferGetBlockNumber(buf))
		buf = ReadBuffer(scan->indexRelation, so->page);
	LockBuffer(buf, BUFFER_LOCK_SHARE);

	/*
	 * Without a pin, the frame tells whether the page is as it was: a process that changes the
	 * page takes its frame away before it unlocks the page (H12).
	 */
	if (so->in_frame && !mtp_frame_still(&mtp_buffer, &so->ref))
	{
		so->nkilled = 0;
		UnlockReleaseBuffer(buf);
		return;
	}
	mtp_hash_check_page(scan->indexRelation, buf, MTP_HASH_WANT_BUCKET | MTP_HASH_WANT_STASH);

	/* A share lock is enough for hints: at worst two scans set the same ones. */
	for (int i = 0; i < so->nkilled; i++)
	{
		int			k = so->killed[i];
		uint32		h = so->one ? so->lo : so->hashes[k];

		if (n < 0 || h != hash)
		{
			hash = h;
			n = mtp_hash_bucket_find(BufferGetPage(buf), hash, false, at);
			from = 0;
		}
		marked |= mark_dead(BufferGetPage(buf), &so->tids[k], n, at, &from);
	}
	if (marked)
	{
		MarkBufferDirtyHint(buf, true);
		mtp_buffer_stale(buf, true);
	}
	so->nkilled = 0;

	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	if (buf != so->primary)
		ReleaseBuffer(buf);
}
