/*
 * keeper.c
 *	  The keeper, a background worker: has the hot list read when the server starts, and writes
 *	  it while the server runs and when it ends.
 */
#include "warm/keeper.h"
#include "warm/list.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "core/process.h"
#include "core/shmem.h"
#include "worker/worker.h"

#define RESTART			10		/* seconds after the keeper ends for whatever reason */
#define POLL_MS			100		/* while a loader runs */
#define MOST_DATABASES	65536

PGDLLEXPORT void mtp_keeper_main(Datum arg);

MtpKeeperShared *mtp_keeper_shared = NULL;
static bool hot_list = true;
static int	list_interval = 300;

/* when the list was written last, or this process began */
static TimestampTz written;

/* Returns the milliseconds until the list is due; -1: not before the end. */
static long
until_due(void)
{
	TimestampTz due = TimestampTzPlusMilliseconds(written, list_interval * INT64CONST(1000));

	return list_interval == 0 ? -1 : TimestampDifferenceMilliseconds(GetCurrentTimestamp(), due);
}

static void
write_list(bool loading)
{
	mtp_list_write(loading);
	written = GetCurrentTimestamp();
}

/* Waits a little while a loader runs.  Returns false if the process must end. */
static bool
wait_for_loader(void)
{
	if (until_due() == 0)
		write_list(true);
	return mtp_process_wait(POLL_MS);
}

/* ---------- reading ---------- */

typedef struct Database
{
	Oid			dbid;			/* the key */
	uint64		pages;
	double		heat;
} Database;

typedef struct Summary
{
	HTAB	   *databases;
	uint64		pages;
} Summary;

static void
sum_up_page(const MtpListPage *page, void *arg)
{
	Summary    *s = arg;
	bool		found;
	Database   *d;

	s->pages++;
	d = hash_search(s->databases, &page->dbid, hash_get_num_entries(s->databases) < MOST_DATABASES ?
					HASH_ENTER : HASH_FIND, &found);
	if (d == NULL)
		return;
	if (!found)
	{
		d->pages = 0;
		d->heat = 0;
	}
	d->pages++;
	d->heat += mtp_heat_accesses[page->degree];
}

static int
warmer_first(const void *a, const void *b)
{
	const Database *p = a;
	const Database *q = b;

	return p->heat != q->heat ? (p->heat > q->heat ? -1 : 1) : 0;
}

/*
 * True if the database exists and is not half dropped.  The keeper is connected to no database and
 * can open no index.
 */
static bool
database_exists(Oid dbid)
{
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	bool		exists;

	StartTransactionCommand();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(dbid));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	tuple = systable_getnext(scan);
	exists = HeapTupleIsValid(tuple) && ((Form_pg_database) GETSTRUCT(tuple))->datconnlimit != -2;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return exists;
}

/*
 * Starts a loader for each database, that with the most heat first, and waits for it.  Returns
 * false if the process must end before.
 */
static bool
load_databases(Summary *s)
{
	HASH_SEQ_STATUS seq;
	Database   *d;
	int			n = 0;
	Database   *all = palloc(hash_get_num_entries(s->databases) * sizeof(Database) + 1);

	hash_seq_init(&seq, s->databases);
	while ((d = hash_seq_search(&seq)) != NULL)
		all[n++] = *d;
	qsort(all, n, sizeof(Database), warmer_first);
	/* The loader of an earlier keeper may still run. */
	while (mtp_visited())
		if (!wait_for_loader())
			return false;
	pg_atomic_write_u64(&mtp_keeper_shared->loaded, 0);
	for (int i = 0; i < n; i++)
	{
		BackgroundWorker bgw;
		BackgroundWorkerHandle *handle;
		pid_t		pid;

		if (!database_exists(all[i].dbid))
			continue;
		mtp_process_describe(&bgw, "mtpower hot list loader", "mtp_loader_main");
		bgw.bgw_main_arg = ObjectIdGetDatum(all[i].dbid);
		bgw.bgw_notify_pid = MyProcPid;
		if (!RegisterDynamicBackgroundWorker(&bgw, &handle))
		{
			ereport(LOG,
					(errmsg("mtpower could not start a process that loads the hot list"),
					 errhint("You might need to increase max_worker_processes.")));
			continue;
		}
		while (GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
			if (!wait_for_loader())
				return false;
		pfree(handle);
	}
	ereport(LOG,
			(errmsg("pages of the hot list in the buffer: " UINT64_FORMAT " of " UINT64_FORMAT,
					pg_atomic_read_u64(&mtp_keeper_shared->loaded), s->pages)));
	return true;
}

static bool
restore_list(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "mtpower hot list",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Database),.hcxt = context};
	MtpLearnt  *learnt = palloc(MTP_LEARN_TABLES * sizeof(MtpLearnt));
	Summary		s = {0};
	int			nlearnt;
	const char *why;
	bool		done = true;

	s.databases = hash_create("databases of the hot list", 64, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (mtp_list_read(sum_up_page, &s, learnt, &nlearnt, &why))
	{
		mtp_pagedir_learn_restore(learnt, nlearnt);
		done = load_databases(&s);
	}
	else if (why != NULL)
		ereport(LOG, (errmsg("the hot list in file \"%s\" is ignored: %s", MTP_LIST_FILE, why)));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return done;
}

/* ---------- the process ---------- */

void
mtp_keeper_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);	/* to no database */
	pgstat_report_activity(STATE_RUNNING, NULL);
	written = GetCurrentTimestamp();

	/*
	 * Until all is loaded the keeper writes no list at its end: the earlier list, or what was
	 * written of it meanwhile, says more.
	 */
	if (!mtp_keeper_shared->restored && !restore_list())
		proc_exit(1);
	mtp_keeper_shared->restored = true;
	do
	{
		if (until_due() == 0)
			write_list(false);
	} while (mtp_process_wait(until_due()));
	write_list(false);
	proc_exit(1);
}

static Size
shared_size(void)
{
	return mtp_buffer_size > 0 ? sizeof(MtpKeeperShared) : 0;
}

static void
attach_shared(void *area, LWLockPadded *locks, bool found)
{
	mtp_keeper_shared = area;
	if (!found)
	{
		mtp_keeper_shared->restored = false;
		pg_atomic_init_u64(&mtp_keeper_shared->loaded, 0);
	}
}

void
mtp_warm_init(void)
{
	static const MtpShmem shmem = {
		"mtpower hot list", shared_size, NULL, NULL, 0, attach_shared
	};

	DefineCustomBoolVariable("mtpower.hot_list",
							 "Keeps a list of the pages in mtpower's buffer, to load them after a restart.",
							 NULL, &hot_list, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mtpower.hot_list_interval",
							"How often that list is written.",
							"Zero: when the server ends.",
							&list_interval, 300, 0, 24 * 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	mtp_shmem_register(&shmem);
	if (hot_list && mtp_buffer_size > 0)
	{
		BackgroundWorker bgw;

		mtp_process_describe(&bgw, "mtpower hot list keeper", "mtp_keeper_main");
		bgw.bgw_restart_time = RESTART;
		RegisterBackgroundWorker(&bgw);
	}
}
