/*
 * passed.h
 *	  VACUUM tells standbys which blocks of an index it has passed.
 *
 * A record of MTP_WAL_VACUUM without a block, for indexes of both access methods.
 */
#ifndef MTP_WAL_PASSED_H
#define MTP_WAL_PASSED_H

#include "wal/wal.h"

/* So many blocks are reported by one record, about. */
#define MTP_PASSED_BLOCKS	1024

typedef struct MtpWalPassed
{
	MtpLocator	locator;
	BlockNumber from;
	BlockNumber to;
} MtpWalPassed;

/*
 * Tells standbys that no scan here stands on the blocks from .. to - 1 any more with a TID that
 * will be used again, so that they see to the same.  Each of the blocks that a scan may have pinned
 * was under a cleanup lock since the VACUUM began.
 */
extern void mtp_wal_log_passed(Relation rel, BlockNumber from, BlockNumber to);

extern void mtp_wal_redo_passed(XLogReaderState *record);
extern void mtp_wal_desc_passed(StringInfo buf, XLogReaderState *record);

#endif							/* MTP_WAL_PASSED_H */
