/*
 * restore.c
 *	  Loaders: each loads one database's pages of the hot list.
 *
 * The warmest pages come first, by factors of two of their heat, and of these those of one file in
 * the order of its blocks.  Each file has a short transaction under AccessShareLock, if that is
 * free.  A turn is so much work, of one file or of many; the loader rests between turns.  It
 * leaves when a command wants the database.
 */
#include "warm/keeper.h"
#include "warm/list.h"
#include "warm/load.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/spccache.h"
#include "utils/timestamp.h"

#include "core/process.h"
#include "worker/worker.h"
#include "core/inject.h"

#define TURN_BYTES		(4 * 1024 * 1024)
#define TURN_MS			20		/* how long a backend may have to wait for the table */
#define REST_MS			10		/* between turns: a third of the time, and 400 MB/s at most */
#define MOST_READS		64		/* under way, whatever maintenance_io_concurrency allows: they are
								 * requested before the loader looks at the clock */
#define LOOK			4096	/* entries of the list: after so many the loader checks whether a
								 * command wants the database */
#define MOST_WAITS		1500	/* of REST_MS, for locked tables */
#define LOCK_TIMEOUT	"100ms" /* for catalogs */

PGDLLEXPORT void mtp_loader_main(Datum arg);

typedef struct Todo
{
	uint64		at_degree[MTP_HEAT_MOST + 1];	/* bytes of the list's pages, by their heat */
	int			least;			/* degree: of it some pages have room, of warmer ones all */
	uint64		n;
	uint64		room;
	uint64		most;
	MtpListPage *pages;
	uint64		seen;			/* entries of the list */
	TimestampTz began;			/* this turn */
	Size		bytes;			/* that have been loaded in it */
	BufferAccessStrategy strategy;	/* one ring for all turns: else each turn would take buffers of
									 * its own */
} Todo;

/* ---------- what is to be loaded ---------- */

/* Ends the process if a command wants the database: a long list takes seconds. */
static void
give_way(Todo *todo)
{
	if (++todo->seen % LOOK == 0 && mtp_database_wanted(MyDatabaseId))
		proc_exit(0);
}

static void
count_page(const MtpListPage *page, void *arg)
{
	Todo	   *todo = arg;

	give_way(todo);
	todo->at_degree[page->degree] += mtp_policy_frame_bytes(page->kind);
}

static void
collect_page(const MtpListPage *page, void *arg)
{
	Todo	   *todo = arg;

	give_way(todo);
	if (page->dbid != MyDatabaseId || page->degree < todo->least || todo->n == todo->most)
		return;
	if (todo->n == todo->room)
	{
		todo->room = Min(todo->room * 2, todo->most);
		todo->pages = repalloc_huge(todo->pages, todo->room * sizeof(MtpListPage));
	}
	todo->pages[todo->n++] = *page;
}

static int
warmth(const MtpListPage *page)
{
	return page->degree / MTP_HEAT_STEPS;
}

static int
compare_pages(const void *a, const void *b)
{
	const MtpListPage *p = a;
	const MtpListPage *q = b;

	CHECK_FOR_INTERRUPTS();
	if (warmth(p) != warmth(q))
		return warmth(q) - warmth(p);
	if (p->file != q->file)
		return p->file < q->file ? -1 : 1;
	if (p->space != q->space)
		return p->space < q->space ? -1 : 1;
	if (p->block != q->block)
		return p->block < q->block ? -1 : 1;
	return (int) p->kind - (int) q->kind;
}

/*
 * Reads this database's pages, the warmest if the buffer has no room for all of the list.  The
 * keeper has found the file right, but another one may have replaced it.
 */
static bool
read_list(Todo *todo)
{
	const char *why;
	uint64		room = (uint64) mtp_buffer.policy->nslabs * MTP_SLAB_BYTES;
	uint64		bytes = 0;

	todo->most = (uint64) mtp_buffer.policy->nslabs * MTP_SLAB_FRAMES;
	todo->room = Min(1024, todo->most);
	todo->pages = palloc(todo->room * sizeof(MtpListPage));
	if (!mtp_list_read(count_page, todo, NULL, NULL, &why))
		return false;
	todo->least = MTP_HEAT_MOST;
	while (todo->least > 0 && (bytes += todo->at_degree[todo->least]) < room)
		todo->least--;
	if (!mtp_list_read(collect_page, todo, NULL, NULL, &why))
		return false;
	qsort(todo->pages, todo->n, sizeof(MtpListPage), compare_pages);
	return true;
}

/* ---------- loading ---------- */

/* True if the loader must rest: a backend may be waiting for the table. */
static bool
turn_is_over(const Todo *todo)
{
	return todo->bytes >= TURN_BYTES ||
		TimestampDifferenceExceeds(todo->began, GetCurrentTimestamp(), TURN_MS);
}

/* True if one transaction may load both pages. */
static bool
same_file(const MtpListPage *p, const MtpListPage *q)
{
	return p->file == q->file && p->space == q->space && warmth(p) == warmth(q);
}

/*
 * Opens the relation of this file, with its table locked first if it is an index.  Returns NULL if
 * the file is gone, or if a lock is not free: *locked tells which.
 */
static Relation
open_relation(const MtpListPage *page, bool *locked)
{
	Oid			relid = RelidByRelfilenumber(page->space == MyDatabaseTableSpace ? InvalidOid :
											 page->space, page->file);
	Oid			tableid = InvalidOid;
	Relation	rel;

	*locked = false;
	if (!OidIsValid(relid))
		return NULL;

	/* The table first, as all code does (invariant W1). */
	if (get_rel_relkind(relid) == RELKIND_INDEX)
	{
		tableid = IndexGetRelation(relid, true);
		if (!OidIsValid(tableid))
			return NULL;
		*locked = !ConditionalLockRelationOid(tableid, AccessShareLock);
	}
	*locked = *locked || !ConditionalLockRelationOid(relid, AccessShareLock);
	rel = *locked ? NULL : try_relation_open(relid, NoLock);
	if (rel == NULL)
		return NULL;

	/* The file's number may have become another relation's before the locks were taken. */
	if (MtpLocatorFile(MtpRelLocator(rel)) == page->file &&
		MtpLocatorSpace(MtpRelLocator(rel)) == page->space &&
		(!OidIsValid(tableid) || tableid == IndexGetRelation(relid, true)) && mtp_loader_takes(rel))
		return rel;
	relation_close(rel, NoLock);
	return NULL;
}

static void
skip_file(Todo *todo, uint64 *at)
{
	uint64		first = *at;

	while (*at < todo->n && same_file(&todo->pages[first], &todo->pages[*at]))
		(*at)++;
}

/* Loads pages of one file, as far as the turn goes.  Returns false if a table is locked. */
static bool
load_some(Todo *todo, uint64 *at)
{
	const MtpListPage *first = &todo->pages[*at];
	uint64		ahead = *at;
	bool		locked;
	int			nreads;
	Relation	rel;
	MtpLoader	l;

	rel = open_relation(first, &locked);
	if (rel == NULL)
	{
		if (!locked)
			skip_file(todo, at);
		return !locked;
	}
	mtp_loader_open(&l, rel, todo->strategy);
	nreads = Min(get_tablespace_maintenance_io_concurrency(rel->rd_rel->reltablespace), MOST_READS);
	InvalidateCatalogSnapshot();
	MTP_INJECT("hot_list_turn");
	/* Loads one page at least, however long opening took: else the loader might never get on. */
	do
	{
		const MtpListPage *page = &todo->pages[(*at)++];

		CHECK_FOR_INTERRUPTS();
		/* Keeps some reads under way: a file's pages on the list are seldom side by side. */
		for (ahead = Max(ahead, *at); ahead < Min(todo->n, *at + nreads) &&
			 same_file(first, &todo->pages[ahead]); ahead++)
			mtp_loader_prefetch(&l, todo->pages[ahead].kind, todo->pages[ahead].block);
		if (!mtp_loader_has(&l, page->kind, page->block))
			todo->bytes += mtp_policy_frame_bytes(page->kind);
		mtp_loader_load(&l, page->kind, page->block, page->degree);
		if (mtp_loader_has(&l, page->kind, page->block))
			pg_atomic_fetch_add_u64(&mtp_keeper_shared->loaded, 1);
	} while (*at < todo->n && same_file(first, &todo->pages[*at]) && !turn_is_over(todo));
	mtp_loader_close(&l);
	relation_close(rel, NoLock);
	return true;
}

/*
 * Calls load_some in a transaction of its own.  Logs an error and skips what that transaction
 * would have loaded.  Waits for a locked catalog as for a locked table.
 */
static bool
load_safely(Todo *todo, uint64 *at)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool had = true;
	const uint64 first = *at;

	PG_TRY();
	{
		StartTransactionCommand();
		had = load_some(todo, at);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		*at = first;
		MemoryContextSwitchTo(cxt);
		HOLD_INTERRUPTS();
		had = geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE;
		if (had)
			EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
		if (had)
			skip_file(todo, at);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	return had;
}

void
mtp_loader_main(Datum arg)
{
	Todo	   *todo;
	int			waits = 0;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (!mtp_visit_begin(DatumGetObjectId(arg)))
		return;
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	mtp_process_reset_settings();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	pgstat_report_activity(STATE_RUNNING, "loading the hot list");
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "mtpower hot list",
												ALLOCSET_DEFAULT_SIZES));
	todo = palloc0(sizeof(Todo));
	todo->strategy = GetAccessStrategy(BAS_BULKREAD);
	if (!read_list(todo))
		return;
	for (uint64 at = 0; at < todo->n && !mtp_database_wanted(MyDatabaseId);)
	{
		bool		had;

		todo->began = GetCurrentTimestamp();
		todo->bytes = 0;
		do
			had = load_safely(todo, &at);
		while (had && at < todo->n && !turn_is_over(todo) && !mtp_database_wanted(MyDatabaseId));
		/* The loader waits for locked tables, but not for ever. */
		if (!had && ++waits > MOST_WAITS)
			skip_file(todo, &at);
		(void) mtp_process_wait(REST_MS);
	}
}
