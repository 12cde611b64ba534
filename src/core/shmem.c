/*
 * shmem.c
 *	  Requests and attaches the shared memory of all subsystems.
 */
#include "core/shmem.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

static const MtpShmem *registered[10];
static int	nregistered = 0;

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

/* Once, in the postmaster, before there is shared memory */
static void
request_all(void)
{
	if (next_request)
		next_request();
	for (int i = 0; i < nregistered; i++)
	{
		const MtpShmem *s = registered[i];
		Size		size = s->size();

		if (size == 0)
			continue;
		RequestAddinShmemSpace(add_size(size, s->more != NULL ? s->more() : 0));
		if (s->nlocks > 0)
			RequestNamedLWLockTranche(s->tranche, s->nlocks);
	}
}

/*
 * For each new shared memory, which a crash brings too; and in each child that does not inherit
 * the postmaster's variables.
 */
static void
attach_all(void)
{
	if (next_startup)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nregistered; i++)
	{
		const MtpShmem *s = registered[i];
		Size		size = s->size();

		if (size > 0)
		{
			bool		found;
			void	   *area = ShmemInitStruct(s->name, size, &found);

			s->attach(area, s->nlocks > 0 ? GetNamedLWLockTranche(s->tranche) : NULL, found);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
mtp_shmem_register(const MtpShmem *shmem)
{
	Assert(process_shared_preload_libraries_in_progress && nregistered < lengthof(registered));
	if (nregistered == 0)
	{
		next_request = shmem_request_hook;
		shmem_request_hook = request_all;
		next_startup = shmem_startup_hook;
		shmem_startup_hook = attach_all;
	}
	registered[nregistered++] = shmem;
}
