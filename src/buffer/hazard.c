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

/*
 * The index is 0 if the hazard pointer announces nothing.  Only the hazard pointer's own backend
 * writes it.
 */
typedef struct Hazard
{
	pg_atomic_uint64 index;		/* database and OID */
	pg_atomic_uint64 sequence;
} Hazard;

/* What this backend knows of its own hazard pointers */
typedef struct Mine
{
	int			shares;			/* positions; 0: free */
	uint64		index;
	ResourceOwner owner;
} Mine;

static Hazard *hazards = NULL;	/* MTP_HAZARDS of each backend */
static Mine mine[MTP_HAZARDS];
static int	ntaken = 0;

Size
mtp_hazard_size(void)
{
	return mul_size(MaxBackends, MTP_HAZARDS * sizeof(Hazard));
}

void
mtp_hazard_make(void *memory)
{
	hazards = memory;
	for (int i = 0; i < MaxBackends * MTP_HAZARDS; i++)
	{
		pg_atomic_init_u64(&hazards[i].index, 0);
		pg_atomic_init_u64(&hazards[i].sequence, 0);
	}
}

static Hazard *
my_hazard(int hazard)
{
	return &hazards[MtpMyBackend() * MTP_HAZARDS + hazard];
}

static uint64
index_of(Relation index)
{
	return (uint64) MyDatabaseId << 32 | RelationGetRelid(index);
}

/* Only counts in this process's memory: the hazard pointer announces nothing yet. */
int
mtp_hazard_take(Relation index)
{
	if (MtpMyBackend() < 0 || MtpMyBackend() >= MaxBackends)
		return MTP_NO_HAZARD;
	for (int i = 0; i < MTP_HAZARDS; i++)
		if (mine[i].shares == 0)
		{
			mine[i] = (Mine)
			{
				.shares = 1,.index = index_of(index),.owner = CurrentResourceOwner
			};
			ntaken++;
			return i;
		}
	return MTP_NO_HAZARD;
}

/*
 * The full barrier stands between the announcement and the reads of the frame, as VACUUM's stands
 * between its changes and its look at the hazard pointers.  So VACUUM sees the announcement, or the
 * reader finds the frame gone.  The first barrier keeps what was read of the last leaf, and of the
 * visibility map for it, before the new sequence; else VACUUM might end its wait too early.
 */
void
mtp_hazard_announce(int hazard)
{
	Hazard	   *s = my_hazard(hazard);

	Assert(mine[hazard].shares == 1);
	pg_read_barrier();			/* loads before stores too, where it is an instruction: README.md */
	MTP_FRAME_STEP(set_hazard);
	pg_atomic_write_u64(&s->sequence, pg_atomic_read_u64(&s->sequence) + 1);
	pg_atomic_write_u64(&s->index, mine[hazard].index);
	pg_memory_barrier();
	MTP_INJECT("announced");
}

void
mtp_hazard_share(int hazard)
{
	Assert(mine[hazard].shares > 0);
	mine[hazard].shares++;
}

bool
mtp_hazard_shared(int hazard)
{
	return mine[hazard].shares > 1;
}

/* Ends an announcement.  The barrier is the first one of mtp_hazard_announce. */
static void
clear_hazard(int hazard)
{
	pg_read_barrier();
	MTP_FRAME_STEP(clear_hazard);
	pg_atomic_write_u64(&my_hazard(hazard)->index, 0);
	mine[hazard].shares = 0;
	ntaken--;
}

void
mtp_hazard_drop(int hazard)
{
	/* After an error the resource owner may have given the hazard pointer back before. */
	if (mine[hazard].shares > 1)
		mine[hazard].shares--;
	else if (mine[hazard].shares == 1)
		clear_hazard(hazard);
}

/*
 * Gives back the hazard pointers of a resource owner that ends.  A scan that ended well has left
 * none.
 */
static void
release_hazards(ResourceReleasePhase phase, bool is_commit, bool is_top, void *arg)
{
	if (ntaken == 0 || phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	for (int i = 0; i < MTP_HAZARDS; i++)
		if (mine[i].shares > 0 && mine[i].owner == CurrentResourceOwner)
		{
			if (is_commit)
				elog(WARNING, "mtpower hazard pointer of index %u was not given back", (Oid) mine[i].index);
			clear_hazard(i);
		}
}

/*
 * Looks at each hazard pointer once, and waits until its index or its sequence changes if it
 * announces the index.  A hazard pointer that is set behind the first barrier has a reader that
 * finds the changes, so nothing needs to be waited for there.
 */
void
mtp_hazard_wait(Relation index)
{
	uint64		id = index_of(index);

	if (hazards == NULL)
		return;
	pg_memory_barrier();		/* as in mtp_hazard_announce */
	MTP_FRAME_STEP(wait_for_hazards);
	for (Hazard *s = hazards; s < hazards + MaxBackends * MTP_HAZARDS; s++)
	{
		uint64		sequence;
		long		timeout = 1;	/* ms */

		if (pg_atomic_read_u64(&s->index) != id)
			continue;
		sequence = pg_atomic_read_u64(&s->sequence);
		mtp_frame_count(&mtp_buffer, MTP_FRAME_INDEX, MTP_COUNT_WAITS);
		for (;;)
		{
			CHECK_FOR_INTERRUPTS();
			if (pg_atomic_read_u64(&s->index) != id || pg_atomic_read_u64(&s->sequence) != sequence)
				break;
			MTP_INJECT("hazard_wait");
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout,
							 MtpWaitEventNew("MtpowerHazard"));
			ResetLatch(MyLatch);
			timeout = Min(timeout * 2, 100);
		}
	}
	pg_read_barrier();			/* the hazard pointers before what follows */
}

void
mtp_hazard_init(void)
{
	RegisterResourceReleaseCallback(release_hazards, NULL);
}
