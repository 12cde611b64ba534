/*
 * core.h
 *	  What every subsystem of mtpower may rely on.
 *
 * A subsystem includes only headers of the layers below its own; test/layers.sh has the order.
 */
#ifndef MTP_CORE_H
#define MTP_CORE_H

#include "postgres.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "core/compat.h"

/* All are fixed by mtpower.control. */
#define MTP_EXTENSION_NAME	"mtpower"
#define MTP_SCHEMA_NAME		"mtpower"
#define MTP_VERSION			"1.1"

/* True if _PG_init ran in the postmaster. */
extern bool mtp_preloaded;

/* Raises an ERROR with a hint unless it is. */
extern void mtp_require_preload(void);

/*
 * An index AM's handler may raise nothing: PostgreSQL 18 calls those of all access methods that
 * know an operator, in any statement.  Without the preload the routine's functions raise instead.
 */
extern void mtp_guard_index_am(IndexAmRoutine *am);

#endif							/* MTP_CORE_H */
