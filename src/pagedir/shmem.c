/*
 * shmem.c
 *	  The room's shared memory: what is learnt (learn.c) and the queue (queue.c).  Without a
 *	  buffer there is none.
 */
#include "core/core.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "buffer/buffer.h"
#include "pagedir/request.h"
#include "pagedir/learn.h"

static shmem_request_hook_type next_request = NULL;
static shmem_startup_hook_type next_startup = NULL;

static void
request_shmem(void)
{
	if (next_request)
		next_request();
	if (mtp_buffer_size == 0)
		return;
	RequestAddinShmemSpace(add_size(mtp_pagedir_learn_size(), mtp_pagedir_queue_size()));
	RequestNamedLWLockTranche("mtpower_demand", 1);
	RequestNamedLWLockTranche("mtpower_admit", 1);
}

static void
startup_shmem(void)
{
	if (next_startup)
		next_startup();
	if (mtp_buffer_size == 0)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mtp_pagedir_learn_make(&GetNamedLWLockTranche("mtpower_demand")->lock);
	mtp_pagedir_queue_make(&GetNamedLWLockTranche("mtpower_admit")->lock);
	LWLockRelease(AddinShmemInitLock);
}

void
mtp_pagedir_shmem_init(void)
{
	next_request = shmem_request_hook;
	shmem_request_hook = request_shmem;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}
