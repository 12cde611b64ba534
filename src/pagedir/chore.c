/*
 * chore.c
 *	  Workers take pairs of blocks from the queue and build their directories.
 *
 * A turn is a short transaction under a lock that readers take, which is given back at its end, however much there is to do: who waits for the table gets it then.  It has no snapshot unless comparison functions
 * want one.  Code of users runs as the table's owner, with the restrictions that maintenance commands have.
 */
#include "pagedir/request.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "worker/worker.h"
#include "core/identity.h"
#include "core/inject.h"

#define TURN_MS			20		/* as long as somebody may have to wait for the table */
#define CHUNK			64		/* pairs that are taken at a time */
#define PAUSE_MS		10		/* after a lock was not to be had */
#define LOCK_TIMEOUT	"100ms" /* for catalogs */

/* What this worker is at, and how much of it is left. */
static MtpRange range;

/* Of pairs that found no free frame there are so many in a row: there are none. */
#define ENOUGH_REFUSALS	64

/*
 * Has the turn to end?  Whether somebody waits for the lock is not asked (core does not tell of locks that were taken on its fast path): it is short, and who waits gets
 * the table when it ends.
 */
static bool
is_over(TimestampTz began)
{
	return mtp_worker_called() || TimestampDifferenceExceeds(began, GetCurrentTimestamp(), TURN_MS);
}

/* Builds what is left of the range; false if there is no free frame for fresh pages. */
static bool
build_range(MtpPagedirBuilder *b, TimestampTz began)
{
	uint32		counts[MTP_BUILT_UNFIT + 1] = {0};
	uint32		in_a_row = 0;
	bool		over = false;

	for (; range.n > 0 && in_a_row < ENOUGH_REFUSALS && !over; range.first++, range.n--)
	{
		MtpBuilt	built;

		CHECK_FOR_INTERRUPTS();
		built = mtp_pagedir_builder_build(b, range.first, range.fresh, -1);
		counts[built]++;
		in_a_row = built == MTP_BUILT_REFUSED && range.fresh ? in_a_row + 1 : 0;
		/* A pair takes as long as its pages and comparison functions take. */
		over = is_over(began);
	}
	mtp_pagedir_queue_count(MTP_PAIRS_BUILT, counts[MTP_BUILT_IT]);
	mtp_pagedir_queue_count(MTP_PAIRS_REFUSED, counts[MTP_BUILT_REFUSED]);
	mtp_pagedir_queue_count(MTP_PAIRS_UNFIT, counts[MTP_BUILT_UNFIT]);
	return in_a_row < ENOUGH_REFUSALS;
}

/* Drops what is left of it, and what else the table has in the queue. */
static void
drop_all(Oid relid, bool only_fresh)
{
	mtp_pagedir_queue_count(MTP_PAIRS_DROPPED, range.n);
	range.n = 0;
	mtp_pagedir_queue_drop(relid, only_fresh);
}

static void
build_for(Relation rel)
{
	TimestampTz began;
	Oid			relid = RelationGetRelid(rel);
	MtpPagedirBuilder b;

	if (!mtp_table_is_ours(rel) || !mtp_pagedir_builder_open(&b, rel))
	{
		drop_all(relid, false);
		return;
	}
	InvalidateCatalogSnapshot();
	if (b.trusted)
		SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);	/* nothing waits for a
																			 * lock from here on */
	MTP_INJECT("admit_opened");
	began = GetCurrentTimestamp();
	do
	{
		if (!build_range(&b, began))
			drop_all(relid, true);
	} while (!is_over(began) && mtp_pagedir_queue_take(relid, CHUNK, &range));
	if (range.n > 0)
		mtp_pagedir_queue_return(&range, false);
	else
		mtp_pagedir_queue_rotate(relid);
	mtp_pagedir_builder_close(&b);
}

/* As core runs functions in maintenance commands.  Settings and user are put back by whoever aborts the transaction, too. */
static void
build_as_owner(Relation rel)
{
	Oid			userid;
	int			context;
	int			level = NewGUCNestLevel();

	GetUserIdAndSecContext(&userid, &context);
	SetUserIdAndSecContext(rel->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	build_for(rel);
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(userid, context);
}

static bool
turn(void)
{
	char		activity[64];
	Relation	rel = NULL;
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
		build_as_owner(rel);
		relation_close(rel, NoLock);
	}
	else if (locked)
		drop_all(range.relid, false);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	CommitTransactionCommand();

	if (!locked)
	{
		mtp_pagedir_queue_return(&range, true);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, PAUSE_MS, PG_WAIT_EXTENSION);
	}
	return true;
}

/* An error is the comparison functions', or the table's: the rest of it is not tried.  Who scans it asks again. */
static void
failed(void)
{
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	mtp_pagedir_queue_count(MTP_PAIRS_FAILED, 1);
	drop_all(range.relid, false);
}

void
mtp_pagedir_chore_init(void)
{
	static const MtpWork work = {.turn = turn,.failed = failed};

	mtp_worker_register(MTP_WORK_CHORE, &work);
}
