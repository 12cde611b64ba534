/*
 * hold.c
 *	  Holds the last entries that a statement makes of each index, so that rows of neighbouring
 *	  pairs of pages widen them once.
 *
 * Entries are put into their index when the statement comes to a pair farther off; when it ends;
 * before the backend scans the index, or begins another statement, which may have parallel workers;
 * and before its transaction commits, for what runs no statement (logical replication's apply,
 * CREATE INDEX CONCURRENTLY).  Others see a row after its transaction's commit alone.  Of a
 * statement that fails entries may stay: they are put in by the next one, and are only wider than
 * they need be.
 */
#include "zone/zone.h"

#include "access/relation.h"
#include "access/xact.h"
#include "core/compat.h"
#include "executor/executor.h"
#include "storage/predicate.h"
#include "tcop/utility.h"

#define HELD_MOST	8
#define HELD_PAIRS	16

/* Entries of some pairs that stand on one page of level 0; empty ones in between */
typedef struct Held
{
	Oid			indexid;
	MtpLocator	locator;		/* the file that they are of */
	MtpZoneInfo info;			/* a copy: the relcache's may go meanwhile */
	uint32		pair;			/* the first */
	uint32		n;
	MtpZoneEntry entries[HELD_PAIRS];
} Held;

static Held held[HELD_MOST];
static int	nheld = 0;
static bool committing = false;

static ExecutorStart_hook_type next_start;
static ExecutorFinish_hook_type next_finish;
static ProcessUtility_hook_type next_utility;

/* Core has looked for readers before the row came; one may have missed it since. */
static void
put_in(Relation index, uint32 pair, int n, const MtpZoneEntry *entries)
{
	mtp_zone_insert(index, pair, n, entries);
	if (IsolationIsSerializable())
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
}

static inline bool
is_of(const Held *h, Relation index)
{
	return h->indexid == RelationGetRelid(index) &&
		MtpLocatorEquals(h->locator, MtpRelLocator(index));
}

/* The entry of a pair, if it stands near enough to those that are held. */
static inline MtpZoneEntry *
near(Held *h, uint32 pair)
{
	uint32		at = pair - h->pair;	/* a large number if it comes before them */

	if (at >= h->n)
	{
		if (at >= HELD_PAIRS || pair / h->info.fanout != h->pair / h->info.fanout)
			return NULL;
		while (h->n <= at)
			mtp_zone_clear(&h->info, &h->entries[h->n++]);
	}
	return &h->entries[at];
}

/* Begins to hold entries of this index from a pair on, in place of what is held. */
static void
begin(Held *h, Relation index, uint32 pair)
{
	h->indexid = RelationGetRelid(index);
	h->locator = MtpRelLocator(index);
	h->info = *mtp_zone_info(index);
	h->pair = pair;
	h->n = 1;
	mtp_zone_clear(&h->info, &h->entries[0]);
}

/*
 * The entry of a pair that is held, and what it is held by: `passing` if there are too many indexes
 * for that, which the caller puts in.
 */
static MtpZoneEntry *
hold(Relation index, uint32 pair, Held *passing, Held **by)
{
	Held	   *h = NULL;
	MtpZoneEntry *entry;

	for (int i = 0; i < nheld && h == NULL; i++)
		if (is_of(&held[i], index))
			h = &held[i];
	if (h == NULL)
	{
		h = nheld < HELD_MOST && !committing ? &held[nheld] : passing;
		begin(h, index, pair);
		if (h != passing)
			nheld++;
	}
	entry = near(h, pair);
	if (entry == NULL)
	{
		put_in(index, h->pair, h->n, h->entries);
		begin(h, index, pair);
		entry = h->entries;
	}
	*by = h;
	return entry;
}

void
mtp_zone_hold_row(Relation index, uint32 pair, const Datum *values, const bool *isnull, bool due)
{
	Held		passing;
	Held	   *h;
	MtpZoneEntry *entry = hold(index, pair, &passing, &h);

	mtp_zone_add_row(&h->info, entry, values, isnull);
	if (due)
		entry->flags[0] |= MTP_ZONE_DUE;
	if (h == &passing)
		put_in(index, pair, 1, entry);
}

void
mtp_zone_hold_entry(Relation index, uint32 pair, const MtpZoneEntry *by)
{
	Held		passing;
	Held	   *h;
	MtpZoneEntry *entry = hold(index, pair, &passing, &h);

	mtp_zone_add(&h->info, entry, by);
	if (h == &passing)
		put_in(index, pair, 1, entry);
}

void
mtp_zone_flush(Relation index)
{
	for (int i = 0; i < nheld; i++)
		if (is_of(&held[i], index))
		{
			put_in(index, held[i].pair, held[i].n, held[i].entries);
			held[i] = held[--nheld];
			return;
		}
}

/*
 * An index that a subtransaction has dropped, or given a new file, comes back with its old one if
 * the subtransaction fails: its entries are kept.  In a failed transaction nothing can be read:
 * they wait for ROLLBACK TO.
 */
static void
flush_all(void)
{
	for (int i = nheld - 1; i >= 0 && IsTransactionState(); i--)
	{
		Relation	index = try_relation_open(held[i].indexid, RowExclusiveLock);

		if (index == NULL)
			continue;
		if (is_of(&held[i], index))
		{
			put_in(index, held[i].pair, held[i].n, held[i].entries);
			held[i] = held[--nheld];
		}
		relation_close(index, RowExclusiveLock);
	}
}

static void
executor_start(QueryDesc *query, int eflags)
{
	if (nheld > 0)
		flush_all();
	if (next_start)
		next_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

static void
executor_finish(QueryDesc *query)
{
	if (next_finish)
		next_finish(query);
	else
		standard_ExecutorFinish(query);
	if (nheld > 0)
		flush_all();
}

static void
utility(PlannedStmt *pstmt, const char *text, bool read_only, ProcessUtilityContext context,
		ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *done)
{
	if (nheld > 0)
		flush_all();
	if (next_utility)
		next_utility(pstmt, text, read_only, context, params, env, dest, done);
	else
		standard_ProcessUtility(pstmt, text, read_only, context, params, env, dest, done);
	mtp_zone_loads_end();
	if (nheld > 0)
		flush_all();
}

/* What other callbacks store after this one, at commit, is not held. */
static void
transaction(XactEvent event, void *arg)
{
	committing = event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE;
	if (committing)
		flush_all();
	nheld = 0;
	mtp_zone_loads_end();
}

static void
subtransaction(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		mtp_zone_loads_end();
}

void
mtp_zone_hold_init(void)
{
	next_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	RegisterXactCallback(transaction, NULL);
	RegisterSubXactCallback(subtransaction, NULL);
}
