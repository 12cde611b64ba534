/*
 * worker.h
 *	  The pool of background workers: who wants one, what one does, and how a database is freed of them.
 *
 * The pool knows no kind of work.  Subsystems register theirs, and call for a worker when there is some.
 */
#ifndef MTP_WORKER_H
#define MTP_WORKER_H

#include "core/core.h"

#include "storage/latch.h"
#include "storage/lwlock.h"

#define MTP_MAX_WORKERS		64	/* slots; mtpower.workers stays below */

/* Kinds of work, in the order in which a worker looks for some. */
typedef enum MtpWorkKind
{
	MTP_WORK_BATCH,				/* index entries of a load; somebody waits for them */
	MTP_WORK_CHORE,				/* whatever may wait */
	MTP_WORK_KINDS				/* none: the worker is idle */
} MtpWorkKind;

/* What a subsystem has its workers do.  All is called in the worker. */
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
	MTP_CALLED_COMES,			/* a worker was woken or started, or comes to it when it has done
								 * other things */
	MTP_CALLED_BUSY,			/* all are busy, or there are to be none */
	MTP_CALLED_NO_PROCESS		/* there is no process for another worker */
} MtpCalled;

/*
 * There is work of this kind in the database; what turn() finds was written before.  Raises nothing, takes
 * mtp_worker_lock: not to be called under a lock.
 */
extern MtpCalled mtp_worker_call(MtpWorkKind kind, Oid dbid);

/* Are there to be workers at all (mtpower.workers)?  Not in a single-user server. */
extern bool mtp_workers_allowed(void);

/* Times a worker was wanted and there was no process for it. */
extern uint64 mtp_worker_misses(void);
extern void mtp_worker_reset_misses(void);

/* ---------- in a worker's turn ---------- */

/* The turn has found something to do; phase: a static string, for the view. */
extern void mtp_worker_begin(MtpWorkKind kind, const char *phase);

/* Does something else wait for the worker?  Takes no lock. */
extern bool mtp_worker_called(void);

/* Its number, below MTP_MAX_WORKERS: nobody else's while it runs. */
extern int	mtp_worker_slot(void);

/* ---------- a database's end ---------- */

/*
 * The workers connected to a database leave it, if the caller owns it, and for a minute no other comes, or
 * until mtp_workers_return, which raises nothing; waits for them a few seconds.
 */
extern void mtp_workers_detach(const char *dbname);
extern void mtp_workers_return(void);

/*
 * Does a command want this database for itself (DROP, RENAME, …)?  Whatever is connected to it and is no
 * client's session leaves then.
 */
extern bool mtp_database_wanted(Oid dbid);

/*
 * For a process that is no worker and connects to a database by itself, one at a time in the cluster, once,
 * before it connects: until it ends, commands that want the database wait for it as for workers.  It asks
 * mtp_database_wanted again and again, and leaves.  False if a command wants the database already, or if
 * there is such a process; then it must not connect.
 */
extern bool mtp_visit_begin(Oid dbid);

/* Is there such a process? */
extern bool mtp_visited(void);

/* ---------- shared memory, of this directory and of views ---------- */

/* One per worker, under mtp_worker_lock. */
typedef struct MtpWorker
{
	int			pid;			/* 0: unused; -1: being started */
	Oid			dbid;
	Latch	   *latch;
	volatile bool quit;			/* somebody wants its database; the worker reads it without the
								 * lock */
	MtpWorkKind at;				/* what it does; MTP_WORK_KINDS if it is idle */
	const char *phase;			/* static string */
	TimestampTz started;
} MtpWorker;

typedef struct MtpWorkers
{
	/*
	 * mtpower.workers as of the last reload.  Only the postmaster writes it: sessions read their
	 * settings anew between statements alone, and a load may take hours.
	 */
	volatile int most;

	/* Where no worker is started, since a command wants the database for itself, and until when. */
	Oid			wanted_db;
	TimestampTz wanted_until;

	/* The process that is connected to a database and is no worker (mtp_visit_begin); pid 0: none. */
	int			visitor_pid;
	Oid			visitor_dbid;

	uint64		misses;
	MtpWorker	workers[MTP_MAX_WORKERS];
} MtpWorkers;

extern MtpWorkers *mtp_workers;
extern LWLock *mtp_worker_lock;

/* The caller holds mtp_worker_lock: is the database one that a command wants for itself? */
extern bool mtp_worker_unwelcome(Oid dbid);

extern void mtp_worker_init(void);

#endif							/* MTP_WORKER_H */
