/*
 * vacuum.h
 *	  The parts of VACUUM that both index access methods have, and the use of pages that it freed.
 */
#ifndef MTP_INDEX_VACUUM_H
#define MTP_INDEX_VACUUM_H

#include "core/core.h"

#include "access/genam.h"
#include "storage/bufmgr.h"

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

#endif							/* MTP_INDEX_VACUUM_H */
