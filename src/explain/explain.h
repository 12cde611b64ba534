/*
 * explain.h
 *	  EXPLAIN (ANALYZE, MTPOWER).
 */
#ifndef MTP_EXPLAIN_H
#define MTP_EXPLAIN_H

#include "core/core.h"

/* Its share of _PG_init; nothing before PostgreSQL 18, which refuses the option. */
#if MTP_EXPLAIN_OPTIONS
extern void mtp_explain_init(void);
#else
#define mtp_explain_init() ((void) 0)
#endif

#endif							/* MTP_EXPLAIN_H */
