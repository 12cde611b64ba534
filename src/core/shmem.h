/*
 * shmem.h
 *	  Shared memory: each subsystem describes its own, and this takes care of the server's hooks.
 */
#ifndef MTP_SHMEM_H
#define MTP_SHMEM_H

#include "core/core.h"

#include "storage/lwlock.h"

typedef struct MtpShmem
{
	const char *name;			/* of the area, as pg_shmem_allocations shows it */
	Size		(*size) (void); /* of the area; 0: this server has none, and nothing follows */
	Size		(*more) (void); /* what attach() allocates itself, such as hash tables; or NULL */
	const char *tranche;		/* the name of its LWLocks; or NULL */
	int			nlocks;

	/*
	 * Notes in this process where area and locks are, and fills the area unless it was found: then
	 * another process has done so.  Called in the order of registration, with AddinShmemInitLock
	 * held.
	 */
	void		(*attach) (void *area, LWLockPadded *locks, bool found);
} MtpShmem;

/* Only from _PG_init, in the postmaster; *shmem must live for ever. */
extern void mtp_shmem_register(const MtpShmem *shmem);

#endif							/* MTP_SHMEM_H */
