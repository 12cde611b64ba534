/*
 * vacuum.h
 *	  VACUUM of a hash index: what vacuum.c and squeeze.c share.
 */
#ifndef MTP_HASH_VACUUM_H
#define MTP_HASH_VACUUM_H

#include "hash/hash.h"

/* A chain of stash pages behind a primary page: the stash, or that of a heavy hash. */
typedef struct MtpHashChain
{
	bool		heavy;
	uint32		hash;			/* if heavy */
	BlockNumber first;			/* when VACUUM came to the bucket */
	uint64		pages;			/* what VACUUM found, and left */
	uint64		entries;
} MtpHashChain;

/*
 * squeeze.c: puts a chain's entries on fewer pages where that is worth it, as far as scans let it.
 * Returns how many pages it has freed.  The caller has the primary page pinned and holds no lock.
 */
extern BlockNumber mtp_hash_squeeze(Relation rel, Buffer primary, const MtpHashChain *chain,
									BufferAccessStrategy strategy);

#endif							/* MTP_HASH_VACUUM_H */
