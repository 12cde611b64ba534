/*
 * hazard.c
 *	  Announces reads of frames, and waits for them.
 */
#include "buffer/hazard.h"

#include "buffer/buffer.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/resowner.h"
#include "core/inject.h"

/* The index is 0 if the slot announces nothing.  Only the slot's own backend writes it. */
typedef struct Slot
{
	pg_atomic_uint64 index;		/* database and OID */
	pg_atomic_uint64 sequence;
} Slot;

/* What this backend knows of its own slots */
typedef struct Mine
{
	int			shares;			/* positions; 0: free */
	uint64		index;
	ResourceOwner owner;
} Mine;

static Slot *slots = NULL;		/* MTP_SLOTS of each backend */
static Mine mine[MTP_SLOTS];
static int	ntaken = 0;

Size
mtp_hazard_size(void)
{
	return mul_size(MaxBackends, MTP_SLOTS * sizeof(Slot));
}

void
mtp_hazard_make(void *memory)
{
	slots = memory;
	for (int i = 0; i < MaxBackends * MTP_SLOTS; i++)
	{
		pg_atomic_init_u64(&slots[i].index, 0);
		pg_atomic_init_u64(&slots[i].sequence, 0);
	}
}

static Slot *
my_slot(int slot)
{
	return &slots[MtpMyBackend() * MTP_SLOTS + slot];
}

static uint64
index_of(Relation index)
{
	return (uint64) MyDatabaseId << 32 | RelationGetRelid(index);
}

/* Only counts in this process's memory: the slot announces nothing yet. */
int
mtp_hazard_take(Relation index)
{
	if (MtpMyBackend() < 0 || MtpMyBackend() >= MaxBackends)
		return MTP_NO_SLOT;
	for (int i = 0; i < MTP_SLOTS; i++)
		if (mine[i].shares == 0)
		{
			mine[i] = (Mine)
			{
				.shares = 1,.index = index_of(index),.owner = CurrentResourceOwner
			};
			ntaken++;
			return i;
		}
	return MTP_NO_SLOT;
}

/*
 * The full barrier stands between the announcement and the reads of the frame, as VACUUM's stands
 * between its changes and its look at the slots.  So VACUUM sees the announcement, or the reader
 * finds the frame gone.  The first barrier keeps what was read of the last leaf, and of the
 * visibility map for it, before the new sequence; else VACUUM might end its wait too early.
 */
void
mtp_hazard_announce(int slot)
{
	Slot	   *s = my_slot(slot);

	Assert(mine[slot].shares == 1);
	pg_read_barrier();			/* loads before stores too, where it is an instruction: README.md */
	MTP_FRAME_STEP(set_slot);
	pg_atomic_write_u64(&s->sequence, pg_atomic_read_u64(&s->sequence) + 1);
	pg_atomic_write_u64(&s->index, mine[slot].index);
	pg_memory_barrier();
	MTP_INJECT("announced");
}

void
mtp_hazard_share(int slot)
{
	Assert(mine[slot].shares > 0);
	mine[slot].shares++;
}

bool
mtp_hazard_shared(int slot)
{
	return mine[slot].shares > 1;
}

/* Ends an announcement.  The barrier is the first one of mtp_hazard_announce. */
static void
clear_slot(int slot)
{
	pg_read_barrier();
	MTP_FRAME_STEP(clear_slot);
	pg_atomic_write_u64(&my_slot(slot)->index, 0);
	mine[slot].shares = 0;
	ntaken--;
}

void
mtp_hazard_drop(int slot)
{
	/* After an error the resource owner may have given the slot back before. */
	if (mine[slot].shares > 1)
		mine[slot].shares--;
	else if (mine[slot].shares == 1)
		clear_slot(slot);
}

/* Gives back the slots of a resource owner that ends.  A scan that ended well has left none. */
static void
release_slots(ResourceReleasePhase phase, bool is_commit, bool is_top, void *arg)
{
	if (ntaken == 0 || phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	for (int i = 0; i < MTP_SLOTS; i++)
		if (mine[i].shares > 0 && mine[i].owner == CurrentResourceOwner)
		{
			if (is_commit)
				elog(WARNING, "mtpower slot of index %u was not given back", (Oid) mine[i].index);
			clear_slot(i);
		}
}

/*
 * Looks at each slot once, and waits until its index or its sequence changes if it announces the
 * index.  A slot that is set behind the first barrier has a reader that finds the changes, so
 * nothing needs to be waited for there.
 */
void
mtp_hazard_wait(Relation index)
{
	uint64		id = index_of(index);

	if (slots == NULL)
		return;
	pg_memory_barrier();		/* as in mtp_hazard_announce */
	MTP_FRAME_STEP(wait_for_slots);
	for (Slot *s = slots; s < slots + MaxBackends * MTP_SLOTS; s++)
	{
		uint64		sequence;
		long		timeout = 1;	/* ms */

		if (pg_atomic_read_u64(&s->index) != id)
			continue;
		sequence = pg_atomic_read_u64(&s->sequence);
		mtp_buffer.counts[MTP_FRAME_INDEX][MTP_COUNT_WAITS]++;
		for (;;)
		{
			CHECK_FOR_INTERRUPTS();
			if (pg_atomic_read_u64(&s->index) != id || pg_atomic_read_u64(&s->sequence) != sequence)
				break;
			MTP_INJECT("slot_wait");
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout,
							 MtpWaitEventNew("MtpowerSlot"));
			ResetLatch(MyLatch);
			timeout = Min(timeout * 2, 100);
		}
	}
	pg_read_barrier();			/* the slots before what the caller does with freed rows */
}

void
mtp_hazard_init(void)
{
	RegisterResourceReleaseCallback(release_slots, NULL);
}
