/*
 * request.c
 *	  Scans and loads ask for directories.
 *
 * Both collect ranges of pairs and hand them to workers through the queue.  Without workers a load
 * builds its pairs' directories itself at its end, and a scan builds one pair in 16.  Both do so
 * only if the comparison functions may run within a user's query.
 */
#include "pagedir/request.h"

#include "core/reset.h"
#include "miscadmin.h"

#include "worker/worker.h"
#include "pagedir/choice.h"
#include "pagedir/learn.h"

#define SCAN_RANGE		512		/* pairs that a scan collects */
#define LOAD_RANGE		256		/* pairs that a load leaves behind before it tells workers */
#define ONE_IN			16		/* a scan without workers builds one pair in so many */
#define MOST_LOADS		16		/* tables loaded at a time, as partitions are */
#define MOST_LEFT		32		/* ranges that a load without workers builds at its end */
#define MOST_AT_COMMIT	32		/* ranges of new files */

/* ---------- handing over ---------- */

/* Ranges of files that no other process sees before this transaction commits */
static int	nat_commit = 0;
static MtpRange at_commit[MOST_AT_COMMIT];

/* Adds a range to the last one of a list, or behind it.  Returns false if there is no room. */
static bool
add_range(MtpRange *list, int *n, int most, const MtpRange *range)
{
	MtpRange   *last = &list[*n - 1];

	if (*n > 0 && last->relid == range->relid && last->first + last->n == range->first)
	{
		last->n += range->n;
		return true;
	}
	if (*n == most)
		return false;
	list[(*n)++] = *range;
	return true;
}

static bool
is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId ||
		rel->rd_newRelfilelocatorSubid != InvalidSubTransactionId ||
		rel->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
}

static void
hand_over(const MtpRange *range)
{
	mtp_pagedir_queue_put(range);
	(void) mtp_worker_call(MTP_WORK_CHORE, MyDatabaseId);
}

/* ---------- scans ---------- */

static MtpRange asked;			/* what a scan has collected; n is 0 if that is nothing */
static uint32 nasked = 0;		/* pairs that scans without workers have asked for */

void
mtp_pagedir_request(Relation rel, uint32 pair)
{
	MtpRange	one = {.relid = RelationGetRelid(rel),.first = pair,.n = 1};
	MtpPagedirBuilder b;

	if (!mtp_pagedir_queue_possible())
		return;
	if (!mtp_workers_allowed() || is_new(rel))
	{
		/* Builds one pair in ONE_IN, since the query pays for it. */
		if (++nasked % ONE_IN != 0 || !mtp_pagedir_builder_open(&b, rel))
			return;
		if (b.trusted)
			(void) mtp_pagedir_build_range(&b, &one, 0);
		mtp_pagedir_builder_close(&b);
		return;
	}
	if (asked.n > 0 && (asked.relid != one.relid || asked.first + asked.n != pair ||
						asked.n == SCAN_RANGE))
		mtp_pagedir_request_flush();
	if (asked.n == 0)
		asked = one;
	else
		asked.n++;
}

void
mtp_pagedir_request_flush(void)
{
	MtpRange	range = asked;

	asked.n = 0;
	if (range.n > 0 && mtp_pagedir_queue_possible())
		hand_over(&range);
}

/* ---------- loads ---------- */

/* Pairs of a table that this transaction loads and has left behind */
typedef struct Load
{
	Oid			relid;			/* InvalidOid: free */
	uint32		used;			/* when the load last used it: the oldest gives way */
	uint32		pair;			/* the pair of the last row */
	int			n;
	MtpRange	left[MOST_LEFT];
} Load;

static Load loads[MOST_LOADS];
static bool any_load = false;
static uint32 ticks = 0;

/*
 * Hands the load's ranges to workers, if there are any.  A new file's ranges wait for the commit,
 * since workers cannot see it before.
 */
static void
send_ranges(Relation rel, Load *load)
{
	if (!mtp_workers_allowed())
		return;
	for (int i = 0; i < load->n; i++)
	{
		if (is_new(rel))
			(void) add_range(at_commit, &nat_commit, MOST_AT_COMMIT, &load->left[i]);
		else
			hand_over(&load->left[i]);
	}
	load->n = 0;
}

static Load *
load_of(Oid relid, bool make)
{
	Load	   *oldest = &loads[0];

	for (int i = 0; i < MOST_LOADS; i++)
	{
		if (loads[i].relid == relid)
			return &loads[i];
		if (loads[i].used < oldest->used)
			oldest = &loads[i];
	}
	if (!make)
		return NULL;
	oldest->relid = relid;
	oldest->pair = InvalidBlockNumber;
	oldest->n = 0;
	any_load = true;
	return oldest;
}

static void
leave_pair(Relation rel, Load *load)
{
	MtpRange	range = {.relid = load->relid,.first = load->pair,.n = 1,.fresh = true};

	if (load->pair == InvalidBlockNumber)
		return;
	if (!add_range(load->left, &load->n, MOST_LEFT, &range))
	{
		send_ranges(rel, load);
		if (!add_range(load->left, &load->n, MOST_LEFT, &range))
			mtp_pagedir_queue_count(MTP_PAIRS_DROPPED, 1);
	}
	else if (load->left[load->n - 1].n >= LOAD_RANGE)
		send_ranges(rel, load);
}

/*
 * A pair that the load has left behind is full, as a rule.  If the load comes back its insertion
 * takes the directory away, and the load names the pair again.
 */
void
mtp_pagedir_request_loaded(Relation rel, TupleTableSlot **slots, int nslots)
{
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	Load	   *load;

	if (!mtp_pagedir_queue_possible() || !mtp_pair_serves(rel) ||
		mtp_pagedir_columns(rel, attnums, NULL) == 0)
		return;
	load = load_of(RelationGetRelid(rel), true);
	load->used = ++ticks;
	for (int i = 0; i < nslots; i++)
	{
		uint32		pair = MtpPairOf(ItemPointerGetBlockNumber(&slots[i]->tts_tid));

		if (pair == load->pair)
			continue;
		leave_pair(rel, load);
		load->pair = pair;
	}
}

void
mtp_pagedir_request_load_end(Relation rel)
{
	Load	   *load = any_load ? load_of(RelationGetRelid(rel), false) : NULL;
	MtpPagedirBuilder b;

	if (load == NULL)
		return;
	leave_pair(rel, load);
	load->relid = InvalidOid;	/* first, since building may raise an error */
	load->used = 0;
	send_ranges(rel, load);

	/* If there are no workers, builds what the load has left behind. */
	if (load->n > 0 && mtp_pagedir_builder_open(&b, rel))
	{
		for (int i = 0; i < load->n && b.trusted; i++)
			if (!mtp_pagedir_build_range(&b, &load->left[i], 0))
				break;
		mtp_pagedir_builder_close(&b);
	}
	load->n = 0;
}

/* ---------- transactions ---------- */

/* Other sessions see a new table from the commit on; its locks go a moment later. */
static void
xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	for (int i = 0; i < nat_commit && event == XACT_EVENT_COMMIT; i++)
		hand_over(&at_commit[i]);
	nat_commit = 0;
	asked.n = 0;
	if (any_load)
		memset(loads, 0, sizeof(loads));
	any_load = false;
}

void
mtp_pagedir_init(void)
{
	mtp_shmem_register(&mtp_pagedir_learn_shmem);
	mtp_shmem_register(&mtp_pagedir_queue_shmem);
	mtp_pagedir_label_init();
	mtp_pagedir_chore_init();
	mtp_reset_register(MTP_RESET_BUFFER, mtp_pagedir_queue_reset_counts);
	RegisterXactCallback(xact_callback, NULL);
}
