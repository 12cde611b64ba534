/*
 * wal_records.h
 *	  Main data of the hash index's records.
 *
 * Every block that a record changes is one of its block references.  Records that move or delete
 * entries have the bucket's primary page as block 0, and replay takes a cleanup lock on it: a
 * scan on a standby pins the primary page, and so never sees a bucket half changed (H4).
 */
#ifndef MTP_HASH_WAL_RECORDS_H
#define MTP_HASH_WAL_RECORDS_H

#include "core/core.h"

#include "hash/hash.h"

/*
 * MTP_WAL_HASH_INSERT appends entries.  Block 0: the page that takes them; data: n entries, in
 * order.  Block 1, if the page is of the stash and the filter lacks some of the entries' bits:
 * the primary page, which gets them.
 */
typedef struct MtpWalHashInsert
{
	uint16		n;
} MtpWalHashInsert;

/*
 * MTP_WAL_HASH_ADD puts a new stash page, with entries, in front of a chain.  Block 0: the
 * primary page, whose next or, if heavy, whose heavy hash's first page becomes block 1; if not
 * heavy, the filter gets the entries' bits.  Block 1, init: the new page; data: n entries.
 */
typedef struct MtpWalHashAdd
{
	uint16		n;
	bool		heavy;
	uint32		hash;			/* the heavy hash */
	uint32		bucket;
	uint32		lo;
	uint32		hi;
	BlockNumber next;			/* the chain's first page before */
} MtpWalHashAdd;

/*
 * MTP_WAL_HASH_SPLIT makes two buckets of one.  Block 0, cleanup lock: the old primary page.
 * Block 1, image: the new one.  Block 2: the metapage, whose address space grows by one bucket
 * and whose count becomes `entries`.  If whole, the stash was split as well: blocks 0, 3, … have
 * images.  Else block 0 keeps its entries and heavy hashes up to hi, its next and its filter.
 */
typedef struct MtpWalHashSplit
{
	uint32		hi;				/* the old bucket's new upper end */
	uint64		entries;
	bool		whole;
} MtpWalHashSplit;

/*
 * MTP_WAL_HASH_META changes the metapage as a whole: block 0, image.  Block 1, image: an extent's
 * last page, so that replay makes the file as long.  No main data.
 *
 * MTP_WAL_HASH_DELETE, by which an inserter makes room, is in index/dead.h.
 */

/*
 * MTP_WAL_HASH_VACUUM deletes entries for VACUUM.  Block 0, cleanup lock: the primary page.
 * Block 1: the page that loses entries, if it is another.  Data of the last block: uint16 at[n].
 */
typedef struct MtpWalHashVacuum
{
	uint16		n;
} MtpWalHashVacuum;

/*
 * MTP_WAL_HASH_PAGES moves entries within a bucket, or from a bucket to the one split off from
 * it, and frees pages.  Block 0, cleanup lock, image: the primary page.  If two, block 1, cleanup
 * lock, image: the other bucket's primary page.  All other blocks have images: stash pages and
 * free ones; or the metapage, where the first number of buckets changes, and entries leave bucket
 * 0 for buckets made for them.
 */
typedef struct MtpWalHashPages
{
	bool		two;
} MtpWalHashPages;

#endif							/* MTP_HASH_WAL_RECORDS_H */
