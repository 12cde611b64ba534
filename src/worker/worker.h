/*
 * worker.h
 *	  The pool of background workers: calling one, its work, and freeing a database of them.
 *
 * The pool knows no kind of work.  Subsystems register theirs, and call for a worker when there is
 * some.
 */
#ifndef MTP_WORKER_H
#define MTP_WORKER_H

#include "core/core.h"

#include "nodes/nodes.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#define MTP_MAX_WORKERS		64	/* slots; mtpower.workers stays below */

/* Kinds of work, the most urgent first. */
typedef enum MtpWorkKind
{
	MTP_WORK_BATCH,				/* index entries of a load, which may wait for them */
	MTP_WORK_CHORE,				/* work that nobody waits for */
	MTP_WORK_KINDS				/* none: the worker is idle */
} MtpWorkKind;

/* A subsystem's work.  The pool calls all of these in the worker. */
typedef struct MtpWork
{
	/*
	 * Does a turn of the work of this database: some tenths of a second, with transactions of its
	 * own.  Calls mtp_worker_begin once it has found something.  False if there is nothing to do.
	 */
	bool		(*turn) (void);

	/* After an error in turn(), which is in the log; its transaction was aborted. */
	void		(*failed) (void);

	/* The process ends, in any way; NULL: nothing to do. */
	void		(*leave) (void);
} MtpWork;

/* In _PG_init.  work lives for ever. */
extern void mtp_worker_register(MtpWorkKind kind, const MtpWork *work);

typedef enum MtpCalled
{
	MTP_CALLED_COMES,			/* a worker was woken or started, or comes when it has done other
								 * work */
	MTP_CALLED_BUSY,			/* all are busy, or mtpower.workers is 0 */
	MTP_CALLED_NO_PROCESS		/* there is no process for another worker */
} MtpCalled;

/*
 * Calls a worker for work of this kind in the database.  The caller has written what turn() finds
 * (invariant W1), and holds no lock: this takes mtp_worker_lock.  Raises nothing.
 */
extern MtpCalled mtp_worker_call(MtpWorkKind kind, Oid dbid);

/* False if mtpower.workers is 0, or in a single-user server. */
extern bool mtp_workers_allowed(void);

/* ---------- in a worker's turn ---------- */

/* The turn has found something to do; phase: a static string, for the view. */
extern void mtp_worker_begin(MtpWorkKind kind, const char *phase);

/* True if the worker should end its turn: it must leave, or reload settings.  Takes no lock. */
extern bool mtp_worker_called(void);

/* Its number, below MTP_MAX_WORKERS: no other worker has it while this one runs. */
extern int	mtp_worker_slot(void);

/* ---------- a database for itself ---------- */

/*
 * The database that a utility command wants for itself (DROP, CREATE … TEMPLATE, RENAME, SET
 * TABLESPACE), or NULL.  NULL too if core refuses the command at once because its transaction is
 * read-only or has begun.  toplevel: the command comes from the client.
 */
extern const char *mtp_database_wanted_by(Node *stmt, bool toplevel);

/*
 * The workers connected to a database leave it if the caller owns it, and for a minute no other
 * comes; waits for them a few seconds, interruptible.  mtp_workers_return lets workers come again;
 * it raises nothing.
 */
extern void mtp_workers_vacate(const char *dbname);
extern void mtp_workers_return(void);

/* True if a command wants the database for itself.  Background processes in it leave then. */
extern bool mtp_database_wanted(Oid dbid);

/* The same under mtp_worker_lock. */
extern bool mtp_worker_unwelcome(Oid dbid);

/*
 * Makes this process the cluster's one visitor: a process that is no worker and connects to a
 * database by itself.  It calls this once, before it connects.  Until it ends, commands that want
 * the database wait for it as for workers; it asks mtp_database_wanted again and again, and
 * leaves.  False if a command wants the database already, or if there is a visitor; then it must
 * not connect.
 */
extern bool mtp_visit_begin(Oid dbid);

/* True if there is a visitor. */
extern bool mtp_visited(void);

/* ---------- shared memory, for this directory and SQL views ---------- */

/* One per worker, under mtp_worker_lock. */
typedef struct MtpWorker
{
	int			pid;			/* 0: unused; -1: being started */
	Oid			dbid;
	Latch	   *latch;
	volatile bool quit;			/* it must leave; the worker reads this without the lock */
	MtpWorkKind at;				/* MTP_WORK_KINDS: it is idle */
	const char *phase;			/* static string */
	TimestampTz started;
} MtpWorker;

typedef struct MtpWorkers
{
	/*
	 * mtpower.workers as of the last reload.  Only the postmaster writes it: sessions reload
	 * settings only between statements, and a load may take hours.
	 */
	volatile int most;

	/* The database that a command wants for itself: until then no worker is started there. */
	Oid			wanted_db;
	TimestampTz wanted_until;

	/* The visitor (mtp_visit_begin); pid 0: none. */
	int			visitor_pid;
	Oid			visitor_dbid;

	uint64		misses;			/* calls for which there was no process */
	MtpWorker	workers[MTP_MAX_WORKERS];
} MtpWorkers;

extern MtpWorkers *mtp_workers;
extern LWLock *mtp_worker_lock;
extern void mtp_worker_init(void);

#endif							/* MTP_WORKER_H */
