/*
 * chore.c
 *	  Workers take pairs of blocks from the queue and build their directories.
 *
 * A turn is one short transaction under AccessShareLock.  The worker gives the lock back at the
 * end of the turn, however much is left to do; a backend that waits for the table gets it then.
 * The worker takes a snapshot only if comparison functions need one.  Code of users runs as the
 * table's owner, with the restrictions of maintenance commands.
 */
#include "pagedir/request.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "worker/worker.h"
#include "core/identity.h"
#include "core/inject.h"

#define TURN_MS			20		/* how long a backend may have to wait for the table */
#define CHUNK			64		/* pairs that a worker takes at a time */
#define PAUSE_MS		10		/* after a lock was not free */
#define LOCK_TIMEOUT	"100ms" /* for catalogs */

/* What is left of the range that this worker builds */
static MtpRange range;

/*
 * True if the turn must end.  Core does not tell of waiters for locks of the fast path, so this
 * does not ask for them: the turn is short.
 */
static bool
turn_is_over(TimestampTz began)
{
	return mtp_worker_called() || TimestampDifferenceExceeds(began, GetCurrentTimestamp(), TURN_MS);
}

bool
mtp_pagedir_build_range(MtpPagedirBuilder *b, MtpRange *pairs, TimestampTz began)
{
	uint32		counts[MTP_BUILT_UNFIT + 1] = {0};
	bool		over = false;

	for (; pairs->n > 0 && b->refused < MTP_ENOUGH_REFUSALS && !over; pairs->first++, pairs->n--)
	{
		MtpBuilt	built;

		CHECK_FOR_INTERRUPTS();
		built = mtp_pagedir_builder_build(b, pairs->first, pairs->fresh, -1);
		counts[built]++;
		b->refused = built == MTP_BUILT_REFUSED && pairs->fresh ? b->refused + 1 : 0;
		/* The clock is read after each pair: its pages or comparison functions may be slow. */
		over = began != 0 && turn_is_over(began);
	}
	mtp_pagedir_queue_count(MTP_PAIRS_BUILT, counts[MTP_BUILT_IT]);
	mtp_pagedir_queue_count(MTP_PAIRS_REFUSED, counts[MTP_BUILT_REFUSED]);
	mtp_pagedir_queue_count(MTP_PAIRS_UNFIT, counts[MTP_BUILT_UNFIT]);
	return b->refused < MTP_ENOUGH_REFUSALS;
}

/* Drops what is left of the range, and all else that the queue has of the table. */
static void
drop_table(bool only_fresh)
{
	mtp_pagedir_queue_count(MTP_PAIRS_DROPPED, range.n);
	range.n = 0;
	mtp_pagedir_queue_drop(range.relid, only_fresh);
}

static void
build_table(Relation rel)
{
	TimestampTz began;
	MtpPagedirBuilder b;

	if (!mtp_table_is_ours(rel) || !mtp_pagedir_builder_open(&b, rel))
	{
		drop_table(false);
		return;
	}
	InvalidateCatalogSnapshot();
	if (b.trusted)
		SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);	/* from here on nothing
																			 * waits for a lock */
	MTP_INJECT("admit_opened");
	began = GetCurrentTimestamp();
	do
	{
		b.refused = 0;
		if (!mtp_pagedir_build_range(&b, &range, began))
			drop_table(true);
	} while (!turn_is_over(began) && mtp_pagedir_queue_take(range.relid, CHUNK, &range));
	mtp_pagedir_queue_return(&range, false);
	mtp_pagedir_builder_close(&b);
}

static bool
build_turn(void)
{
	char		activity[64];
	Relation	rel = NULL;
	Oid			userid;
	int			context;
	int			level;
	bool		locked;

	if (!mtp_pagedir_queue_possible() || !mtp_pagedir_queue_take(InvalidOid, CHUNK, &range))
		return false;
	mtp_worker_begin(MTP_WORK_CHORE, "directories");
	snprintf(activity, sizeof(activity), "directories of table %u", range.relid);
	pgstat_report_activity(STATE_RUNNING, activity);
	StartTransactionCommand();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	locked = ConditionalLockRelationOid(range.relid, AccessShareLock);
	if (locked)
		rel = try_relation_open(range.relid, NoLock);
	if (rel != NULL)
	{
		/*
		 * Runs as core runs functions in maintenance commands.  An abort of the transaction
		 * restores settings and user, too.
		 */
		level = NewGUCNestLevel();
		GetUserIdAndSecContext(&userid, &context);
		SetUserIdAndSecContext(rel->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
		build_table(rel);
		AtEOXact_GUC(false, level);
		SetUserIdAndSecContext(userid, context);
		relation_close(rel, NoLock);
	}
	else if (locked)
		drop_table(false);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	CommitTransactionCommand();

	if (!locked)
	{
		mtp_pagedir_queue_return(&range, true);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, PAUSE_MS,
						 PG_WAIT_EXTENSION);
	}
	return true;
}

/*
 * After an error of a comparison function, or of the table, drops the rest of the table's ranges.
 * The next scan asks again.
 */
static void
turn_failed(void)
{
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	mtp_pagedir_queue_count(MTP_PAIRS_FAILED, 1);
	drop_table(false);
}

void
mtp_pagedir_chore_init(void)
{
	static const MtpWork work = {.turn = build_turn,.failed = turn_failed};

	mtp_worker_register(MTP_WORK_CHORE, &work);
}
