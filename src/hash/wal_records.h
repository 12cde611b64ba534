/*
 * wal_records.h
 *	  Main data of the hash index's records.
 *
 * Every block that a record changes is one of its block references.  Records that move or delete
 * entries have the bucket's primary page as block 0 and are replayed under a cleanup lock on it, so that a
 * scan on a standby, which pins the primary page, never sees a bucket half changed.
 */
#ifndef MTP_HASH_WAL_RECORDS_H
#define MTP_HASH_WAL_RECORDS_H

#include "core/core.h"

#include "hash/hash.h"

/*
 * MTP_WAL_HASH_INSERT: entries are appended.  Block 0: the page that takes them; data: n entries, in order.
 * Block 1, if the page is a stash page that is not a heavy hash's: the primary page, whose filter gets
 * their bits; left out if it has them.  (Heavy: block 0 only.)
 */
typedef struct MtpWalHashInsert
{
	uint16		n;
} MtpWalHashInsert;

/*
 * MTP_WAL_HASH_ADD: a stash page, with entries on it, becomes the first of a chain.  Block 0: the primary page: its
 * next, or the heavy hash's first page, is now block 1, and without heavy its filter gets the entries' bits.  Block 1, init:
 * the new page; data: n entries.
 */
typedef struct MtpWalHashAdd
{
	uint16		n;
	bool		heavy;
	uint32		hash;			/* the heavy hash */
	uint32		bucket;
	uint32		lo;
	uint32		hi;
	BlockNumber next;			/* what was first in the chain */
} MtpWalHashAdd;

/*
 * MTP_WAL_HASH_SPLIT: one bucket becomes two.  Block 0, cleanup lock: the old primary page; block 1, image: the new
 * one; block 2: the metapage, whose space grows by one bucket and whose count becomes entries.  If whole: blocks 0, 3, …
 * have images (the stash was split as well).  Else block 0 keeps its entries up to hi, its heavy hashes up to hi, and its next and filter.
 */
typedef struct MtpWalHashSplit
{
	uint32		hi;				/* the old bucket's new upper end */
	uint64		entries;
	bool		whole;
} MtpWalHashSplit;

/*
 * MTP_WAL_HASH_META: the metapage changes as a whole: block 0, image.  Block 1, image: an extent's last page, so that
 * replay makes the file as long.
 */

/* MTP_WAL_HASH_DELETE: an inserter makes room; see wal/dead.h. */

/*
 * MTP_WAL_HASH_VACUUM: VACUUM deletes entries.  Block 0, cleanup lock: the primary page; block 1: the page, if it is
 * another; data of the last block: uint16 at[n].
 */
typedef struct MtpWalHashVacuum
{
	uint16		n;
} MtpWalHashVacuum;

/*
 * MTP_WAL_HASH_PAGES: entries move within a bucket, or from a bucket to the one split off from it, and pages become
 * free.  Block 0, cleanup lock, image: the primary page; if two: block 1, cleanup lock, image: the other bucket's primary
 * page.  All other blocks have images: stash pages and free ones, or the metapage, where the initial number of buckets changes
 * and entries leave the first bucket for others that have been made for them.
 */
typedef struct MtpWalHashPages
{
	bool		two;
} MtpWalHashPages;

#endif							/* MTP_HASH_WAL_RECORDS_H */
