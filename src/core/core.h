/*
 * core.h
 *	  What every subsystem of mtpower may rely on.
 *
 * Subsystems call downward only: warm -> scan, table -> blink, hash -> batch -> directory -> page, wal -> buffer.  (Scans ask which directories their table has; a table tells
 * scan what was loaded.)
 */
#ifndef MTPOWER_H
#define MTPOWER_H

#include "postgres.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "core/compat.h"

/* Both are fixed by mtpower.control. */
#define MTP_EXTENSION_NAME	"mtpower"
#define MTP_SCHEMA_NAME		"mtpower"

/* Raises an ERROR with a hint unless the library was preloaded. */
extern void mtp_require_preload(void);

/* Each subsystem's share of _PG_init. */
extern void mtp_buffer_init(void);
extern void mtp_wal_init(void);
extern void mtp_table_init(void);
extern void mtp_opclass_init(void);
extern void mtp_blink_init(void);
extern void mtp_hash_init(void);
extern void mtp_batch_init(void);
extern void mtp_scan_init(void);

#endif							/* MTPOWER_H */
