/*
 * memory.c
 *	  The engine's memory: a buddy allocator over a fixed area of shared memory.
 *
 * Blocks have 1 kB << order.  Free ones begin with their list's node.  A byte per smallest block
 * tells the order of a free block that starts there.  All runs under mtp_batch_memory_lock and
 * raises nothing, so abort callbacks may call it.
 */
#include "batch/shared.h"

#include "storage/shmem.h"

#define NOT_FREE 0xFF

static uint8 *free_order;		/* per smallest block */

static inline dlist_node *
block_at(int i)
{
	return (dlist_node *) (mtp_batch_shared->area + (Size) i * MTP_BLOCK_SIZE);
}

static int
count_blocks(void)
{
	return Max(4, (Size) mtp_batch_memory * 1024 / MTP_BLOCK_SIZE);
}

Size
mtp_batch_memory_size(void)
{
	return add_size(mul_size(count_blocks(), MTP_BLOCK_SIZE), count_blocks() + MTP_BLOCK_SIZE);
}

/* Makes block i a free one of this order. */
static void
push_free(int i, int order)
{
	dlist_push_head(&mtp_batch_shared->free[order], block_at(i));
	free_order[i] = order;
}

/* Takes the free block i from its order's list. */
static void
take_free(int i)
{
	dlist_delete(block_at(i));
	free_order[i] = NOT_FREE;
}

/* In shmem_startup_hook, when mtp_batch_shared exists.  Only the first process fills it in. */
void
mtp_batch_memory_init(void)
{
	bool		found;
	char	   *mem = ShmemInitStruct("mtpower batch memory", mtp_batch_memory_size(), &found);
	int			n = count_blocks();

	free_order = (uint8 *) mem;
	if (found)
		return;
	mtp_batch_shared->area = (char *) TYPEALIGN(MTP_BLOCK_SIZE, mem + n);
	mtp_batch_shared->nblocks = mtp_batch_shared->free_blocks = n;
	for (int o = 0; o <= MTP_MAX_ORDER; o++)
		dlist_init(&mtp_batch_shared->free[o]);
	memset(free_order, NOT_FREE, n);
	for (int i = 0; i < n;)
	{
		int			o = MTP_MAX_ORDER;

		while ((i & ((1 << o) - 1)) != 0 || i + (1 << o) > n)
			o--;
		push_free(i, o);
		i += 1 << o;
	}
}

/* Splits the smallest free block that is large enough. */
char *
mtp_batch_memory_alloc(int order)
{
	char	   *mem = NULL;
	int			o;

	LWLockAcquire(mtp_batch_memory_lock, LW_EXCLUSIVE);
	for (o = order; o <= MTP_MAX_ORDER && dlist_is_empty(&mtp_batch_shared->free[o]); o++)
		;
	if (o <= MTP_MAX_ORDER)
	{
		int			i;

		mem = (char *) dlist_head_node(&mtp_batch_shared->free[o]);
		i = (mem - mtp_batch_shared->area) / MTP_BLOCK_SIZE;
		take_free(i);
		while (o-- > order)
			push_free(i + (1 << o), o);
		mtp_batch_shared->free_blocks -= 1 << order;
	}
	LWLockRelease(mtp_batch_memory_lock);
	return mem;
}

/* Merges the block with its buddy as long as that is free too. */
void
mtp_batch_memory_free(char *block, int order)
{
	int			i = (block - mtp_batch_shared->area) / MTP_BLOCK_SIZE;

	LWLockAcquire(mtp_batch_memory_lock, LW_EXCLUSIVE);
	mtp_batch_shared->free_blocks += 1 << order;
	while (order < MTP_MAX_ORDER)
	{
		int			buddy = i ^ (1 << order);

		if (buddy + (1 << order) > mtp_batch_shared->nblocks || free_order[buddy] != order)
			break;
		take_free(buddy);
		i = Min(i, buddy);
		order++;
	}
	push_free(i, order);
	LWLockRelease(mtp_batch_memory_lock);
}
