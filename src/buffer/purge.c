/*
 * purge.c
 *	  Takes the pages of files away that go, or begin anew, or come back.
 *
 * A file's number may be used again after a checkpoint, so its pages go before that.  The lock that whoever gives the file up has on its
 * relation keeps others from publishing pages of it meanwhile: a transaction's callbacks run before its locks go.
 */
#include "buffer/buffer.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "commands/dbcommands.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "wal/stop.h"

static ProcessUtility_hook_type next_utility = NULL;

/* A database that is about to move to another tablespace; who moves it commits in the middle. */
static Oid	moving = InvalidOid;

/* ---------- files ---------- */

typedef struct Files
{
	int			n;
	MtpLocator *files;			/* sorted */
} Files;

static int
compare_files(const void *a, const void *b)
{
	MtpPageTag	x = mtp_page_tag(*(const MtpLocator *) a, 0);
	MtpPageTag	y = mtp_page_tag(*(const MtpLocator *) b, 0);

	if (x.space != y.space)
		return x.space < y.space ? -1 : 1;
	return x.page < y.page ? -1 : x.page > y.page ? 1 : 0;
}

static bool
is_of_files(MtpPageTag tag, void *arg)
{
	Files	   *f = arg;
	MtpLocator	file = mtp_tag_file(tag);

	return bsearch(&file, f->files, f->n, sizeof(MtpLocator), compare_files) != NULL;
}

static void
purge_files(int n, MtpLocator *files)
{
	Files		f = {n, files};

	if (n == 0)
		return;
	qsort(files, n, sizeof(MtpLocator), compare_files);
	mtp_frame_purge(&mtp_buffer, is_of_files, &f);
}

void
mtp_buffer_purge_file(MtpLocator file)
{
	if (mtp_buffer.pool != NULL)
		purge_files(1, &file);
}

/* Those that this transaction deletes, or will delete, when it commits or when it does not. */
static void
purge_pending(bool for_commit)
{
	MtpLocator *files;
	int			n = smgrGetPendingDeletes(for_commit, &files);

	purge_files(n, files);
	if (n > 0)
		pfree(files);
}

/* ---------- databases ---------- */

static bool
is_of_database(MtpPageTag tag, void *arg)
{
	return (Oid) tag.space == *(Oid *) arg;
}

mtp_database_purged_type mtp_database_purged = NULL;

void
mtp_buffer_purge_database(Oid database)
{
	if (mtp_buffer.pool == NULL)
		return;
	mtp_frame_purge(&mtp_buffer, is_of_database, &database);
	if (mtp_database_purged != NULL)
		mtp_database_purged(database);
}

/*
 * The database of a name, locked as core is about to lock it, before it looks at the caller's rights: else it might have another name by then.
 */
static Oid
lock_database(const char *name)
{
	/* In recovery, and where there is none, core says so. */
	while (!RecoveryInProgress())
	{
		Oid			database = get_database_oid(name, true);

		if (!OidIsValid(database))
			break;
		MTP_STOP_POINT("database_named");
		LockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
		if (get_database_oid(name, true) == database)
			return database;
		UnlockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
	}
	return InvalidOid;
}

/* The database that a command drops, or moves to another tablespace. */
static Oid
database_of(Node *stmt)
{
	if (IsA(stmt, DropdbStmt))
		return lock_database(((DropdbStmt *) stmt)->dbname);
	if (IsA(stmt, AlterDatabaseStmt))
	{
		AlterDatabaseStmt *alter = (AlterDatabaseStmt *) stmt;
		ListCell   *lc;

		foreach(lc, alter->options)
			if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
				return lock_database(alter->dbname);
	}
	return InvalidOid;
}

static void
run_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree, ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			database = mtp_buffer.pool != NULL ? database_of(pstmt->utilityStmt) : InvalidOid;

	moving = database;
	PG_TRY();
	{
		(next_utility ? next_utility : standard_ProcessUtility) (pstmt, query, read_only_tree, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		moving = InvalidOid;
		if (OidIsValid(database))
			mtp_buffer_purge_database(database);
	}
	PG_END_TRY();
}

/* ---------- redo ---------- */

static bool
is_any(MtpPageTag tag, void *arg)
{
	return true;
}

void
mtp_buffer_redo_begins(void)
{
	if (mtp_buffer.pool != NULL)
		mtp_frame_purge(&mtp_buffer, is_any, NULL);
}

/* ---------- transactions ---------- */

/*
 * What goes if the transaction commits, its own catalog does not lead to any more, and its locks keep others from it to the end.  So does a
 * prepared one with both, and nobody has published a page since then.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	if (mtp_buffer.pool == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			purge_pending(true);
			purge_pending(false);
			break;
		case XACT_EVENT_PRE_COMMIT:
			/* Behind the commit record nothing may fail, and a list takes memory. */
			purge_pending(true);
			break;
		case XACT_EVENT_COMMIT:
			if (OidIsValid(moving))
				mtp_buffer_purge_database(moving);
			mtp_buffer_tell();
			break;
		case XACT_EVENT_ABORT:
			purge_pending(false);
			mtp_buffer_tell();
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			mtp_buffer_tell();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subxid, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && mtp_buffer.pool != NULL)
		purge_pending(false);
}

void
mtp_buffer_purge_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
