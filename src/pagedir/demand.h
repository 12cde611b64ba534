/*
 * demand.h
 *	  What the scans of each table ask for, in shared memory: learn.c counts, columns.c tells
 *	  and learn_save.c saves it.
 */
#ifndef MTP_PAGEDIR_DEMAND_H
#define MTP_PAGEDIR_DEMAND_H

#include "core/core.h"

#include "access/attnum.h"
#include "access/tupdesc.h"
#include "pagedir/learn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

typedef struct DemandKey
{
	Oid			dbid;
	Oid			relid;			/* a partition's is that of its topmost ancestor */
} DemandKey;

typedef struct Demand
{
	DemandKey	key;
	uint32		scans;			/* counted scans, up to 2 */
	AttrNumber	learnt;			/* what directories are made of, or 0 */
	AttrNumber	attnums[MTP_LEARN_COLUMNS]; /* 0: a free place */
	float		counts[MTP_LEARN_COLUMNS];
} Demand;

typedef struct DemandShared
{
	LWLock	   *lock;			/* guards all entries */
	pg_atomic_uint64 changes;	/* counts changes of what is learnt of any table; never 0; written
								 * under the lock */
} DemandShared;

extern DemandShared *mtp_pagedir_demand_shared; /* NULL: without a buffer nothing is learnt */
extern HTAB *mtp_pagedir_demands;

/*
 * Finds a table's entry, or makes one.  If no place is free it makes one with a chance of one in
 * MTP_LEARN_CHANCE, or always if the caller says so; else it returns NULL.  The caller holds the
 * lock exclusively.
 */
extern Demand *mtp_pagedir_demand(Oid dbid, Oid relid, bool always);

/* Sets the learnt column.  The caller holds the lock exclusively. */
extern void mtp_pagedir_set_learnt(Demand *d, AttrNumber learnt);

/* True if there is such a column and its type has an order. */
extern bool mtp_pagedir_can_use(TupleDesc desc, AttrNumber attnum);

#endif							/* MTP_PAGEDIR_DEMAND_H */
