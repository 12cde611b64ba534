/*
 * identity.h
 *	  Which tables are mtpower's.
 */
#ifndef MTP_IDENTITY_H
#define MTP_IDENTITY_H

#include "core/core.h"

#include "access/tableam.h"

/* The name under which table.sql creates the access method. */
#define MTP_TABLE_AM_NAME	"mtpower"

/* Filled in by src/table. */
extern TableAmRoutine mtp_table_routine;

/* True for an open table or materialized view of ours; its rd_amcache is src/pagedir's. */
static inline bool
mtp_table_is_ours(Relation rel)
{
	return rel->rd_tableam == &mtp_table_routine;
}

#endif							/* MTP_IDENTITY_H */
