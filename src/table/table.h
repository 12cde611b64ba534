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
#include "utils/rel.h"

/*
 * Each sets callbacks of the routine: those that change rows, those that fetch rows for an index,
 * and the scans of CREATE INDEX.
 */
extern void mtp_table_write_init(TableAmRoutine *routine);
extern void mtp_table_fetch_init(TableAmRoutine *routine);
extern void mtp_table_index_build_init(TableAmRoutine *routine);

/* NOTICE of an adopted table: which of its indexes loads feed in batches, and what that takes. */
extern void mtp_table_announce(Relation rel);

/* NOTICE of an adopted table: its columns by whose order its rows stand, and that have no index */
extern void mtp_table_hint(Relation rel);

/* This room's part of _PG_init */
extern void mtp_table_init(void);

#endif							/* MTP_TABLE_H */
