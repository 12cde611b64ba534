/*
 * keeper.h
 *	  The processes that keep the hot list: the keeper writes it and has it read; a loader loads
 *	  one database's pages.
 */
#ifndef MTP_WARM_KEEPER_H
#define MTP_WARM_KEEPER_H

#include "core/core.h"

#include "port/atomics.h"

typedef struct MtpKeeperShared
{
	bool		restored;		/* the list is loaded and may be written anew; the keeper's */
	pg_atomic_uint64 loaded;	/* pages of the list that have frames now */
} MtpKeeperShared;

extern MtpKeeperShared *mtp_keeper_shared;

/* This room's part of _PG_init */
extern void mtp_warm_init(void);

#endif							/* MTP_WARM_KEEPER_H */
