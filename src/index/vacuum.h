/*
 * vacuum.h
 *	  The parts of VACUUM that both index access methods have, and the use of pages that it freed.
 */
#ifndef MTP_INDEX_VACUUM_H
#define MTP_INDEX_VACUUM_H

#include "core/core.h"

#include "access/genam.h"
#include "storage/bufmgr.h"
#include "wal/wal.h"

/*
 * Begins a scan that deletes entries: from here on no step of a batch puts an entry in behind the
 * scan whose row was dead before it.  Returns stats, made if it is NULL.
 */
extern IndexBulkDeleteResult *mtp_index_vacuum_begin(Relation index, IndexBulkDeleteResult *stats);

/*
 * The index's length in blocks.  It is read under the extension lock: a block that is added
 * meanwhile is not counted, or its maker has locked it.
 */
extern BlockNumber mtp_index_length(Relation index);

/* Corrects the count of entries, which splits may have made VACUUM count twice. */
extern void mtp_index_vacuum_end(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);

/*
 * Returns a page for new content, exclusively locked: one of the free space map that is_free() says
 * is free, or a new block, which is zero.  Waits for no page's lock.
 */
extern Buffer mtp_index_alloc(Relation index, bool (*is_free) (Page page));

/*
 * passed.c: VACUUM tells standbys which blocks of an index it has passed, by a record of
 * MTP_WAL_VACUUM without a block.
 */

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
 * was under a cleanup lock since the VACUUM began.  Without blocks it does nothing.
 */
extern void mtp_wal_log_passed(Relation rel, BlockNumber from, BlockNumber to);

extern void mtp_wal_redo_passed(XLogReaderState *record);
extern void mtp_wal_desc_passed(StringInfo buf, XLogReaderState *record);

#endif							/* MTP_INDEX_VACUUM_H */
