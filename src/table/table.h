/*
 * table.h
 *	  The table access method "mtpower": heap's code, with a few callbacks replaced.
 *
 * README.md has the rules.
 */
#ifndef MTP_TABLE_H
#define MTP_TABLE_H

#include "core/identity.h"

#include "access/tableam.h"
#include "catalog/index.h"
#include "nodes/execnodes.h"

/*
 * index_build.c: feeds the rows of blocks start_blockno .. start_blockno + numblocks - 1
 * (InvalidBlockNumber: to the end) to callback, as TableAmRoutine.index_build_range_scan defines
 * it.  The caller holds ShareLock on the table, or ShareUpdateExclusiveLock for a concurrent build
 * or with anyvisible.  Ends scan if one was given.  Returns the number of live rows.
 */
extern double mtp_table_index_build_range_scan(Relation heap, Relation index,
											   IndexInfo *info, bool allow_sync,
											   bool anyvisible, bool progress,
											   BlockNumber start_blockno, BlockNumber numblocks,
											   IndexBuildCallback callback, void *callback_state,
											   TableScanDesc scan);

/*
 * index_build.c: inserts what a concurrently built index lacks: every row that snapshot sees and
 * whose root line pointer is not among the sorted TIDs in state, as
 * TableAmRoutine.index_validate_scan defines it.
 */
extern void mtp_table_index_validate_scan(Relation heap, Relation index,
										  IndexInfo *info, Snapshot snapshot,
										  ValidateIndexState *state);

/*
 * fetch.c: fetches as heap does, but may take rows from the images of their pairs.
 * mtp_table_tuple_satisfies_snapshot also serves slots without a buffer.
 */
extern IndexFetchTableData *mtp_table_index_fetch_begin(Relation rel);
extern bool mtp_table_index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid,
										Snapshot snapshot,
										TupleTableSlot *slot, bool *call_again, bool *all_dead);
extern bool mtp_table_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot,
											   Snapshot snapshot);

/*
 * write.c: sets the callbacks that change rows as heap does and then take the frames of the
 * changed pages away.
 */
extern void mtp_table_write_init(TableAmRoutine *routine);

/* This room's part of _PG_init */
extern void mtp_table_init(void);

#endif							/* MTP_TABLE_H */
