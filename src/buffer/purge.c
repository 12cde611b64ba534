/*
 * purge.c
 *	  Takes away the pages of files that go, begin anew, or come back.
 *
 * A file's number may be used again after a checkpoint, so its pages go before that.  The process
 * that gives a file up holds a lock on its relation, which keeps others from publishing pages of
 * it: a transaction's callbacks run before its locks go.
 */
#include "buffer/buffer.h"

#include <sys/stat.h>

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "common/relpath.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "core/inject.h"

/* A look for the frames of one block costs as much as a look at so many headers. */
#define HEADERS_PER_BLOCK	16

static object_access_hook_type next_access = NULL;

/* Databases that go, or move to another tablespace, if this transaction commits */
static List *leaving = NIL;

/* ---------- files ---------- */

typedef struct Files
{
	int			n;
	MtpLocator *files;			/* sorted */
} Files;

static int
compare_files(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(MtpLocator));
}

static bool
is_of_files(MtpPageTag tag, void *arg)
{
	Files	   *f = arg;
	MtpLocator	file = mtp_tag_file(tag);

	return bsearch(&file, f->files, f->n, sizeof(MtpLocator), compare_files) != NULL;
}

/* Moves those files that may have frames to the front.  Returns how many they are. */
static int
with_frames(int n, MtpLocator *files)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
		if (mtp_frame_has_file(&mtp_buffer, mtp_page_tag(files[i], 0)))
			files[left++] = files[i];
	return left;
}

/*
 * A guess of the blocks of a file: more than any if it has more than one segment, none if it
 * cannot be told.  Asks the operating system: core's storage manager opens the file, and raises
 * errors, which an abort must not.
 */
static BlockNumber
blocks_of(MtpLocator file)
{
	MtpPath		path = relpathperm(file, MAIN_FORKNUM);
	struct stat st;
	BlockNumber blocks = 0;

	if (stat(MtpPathString(path), &st) == 0)
		blocks = st.st_size / BLCKSZ < RELSEG_SIZE ? st.st_size / BLCKSZ : MaxBlockNumber;
	MtpPathFree(path);
	return blocks;
}

/*
 * Looks for the frames of each block, if that is less work than a look at all headers.  Then asks
 * again whether there are any: a file may have been longer once, and other files may share its
 * counter.
 */
static void
purge_files(int n, MtpLocator *files)
{
	Files		f = {with_frames(n, files), files};
	uint64		most = mtp_frame_headers(&mtp_buffer) / HEADERS_PER_BLOCK;
	uint64		sum = 0;
	BlockNumber *blocks;

	if (f.n == 0)
		return;
	blocks = palloc(f.n * sizeof(BlockNumber));
	for (int i = 0; i < f.n && sum <= most; i++)
	{
		blocks[i] = blocks_of(files[i]);
		sum += blocks[i];
	}
	for (int i = 0; i < f.n && sum <= most; i++)
		for (BlockNumber block = 0; block < blocks[i]; block++)
			mtp_frame_purge_page(&mtp_buffer, mtp_page_tag(files[i], block));
	pfree(blocks);
	f.n = with_frames(f.n, files);
	if (f.n == 0)
		return;
	qsort(files, f.n, sizeof(MtpLocator), compare_files);
	mtp_frame_purge(&mtp_buffer, is_of_files, &f);
}

void
mtp_buffer_purge_file(MtpLocator file)
{
	if (mtp_buffer.policy != NULL)
		purge_files(1, &file);
}

/* Purges the files that this transaction deletes when it commits, or when it does not. */
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

void		(*mtp_database_purged) (Oid database) = NULL;

static void
purge_databases(void)
{
	ListCell   *lc;

	if (leaving != NIL)
		MTP_INJECT("databases_leave");
	foreach(lc, leaving)
	{
		mtp_frame_purge(&mtp_buffer, is_of_database, &lfirst_oid(lc));
		if (mtp_database_purged != NULL)
			mtp_database_purged(lfirst_oid(lc));
	}
}

/*
 * True if the command under way has given the database another tablespace.  The catalog cache has
 * its row as it was, until the command ends; a scan of the table finds the new one.
 */
static bool
is_moved(Oid database)
{
	HeapTuple	was = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	Relation	rel = table_open(DatabaseRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	now;
	bool		moved;

	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(database));
	scan = systable_beginscan(rel, DatabaseOidIndexId, true, SnapshotSelf, 1, &key);
	now = systable_getnext(scan);
	moved = HeapTupleIsValid(was) && HeapTupleIsValid(now) &&
		((Form_pg_database) GETSTRUCT(was))->dattablespace !=
		((Form_pg_database) GETSTRUCT(now))->dattablespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (HeapTupleIsValid(was))
		ReleaseSysCache(was);
	return moved;
}

/*
 * Core calls this with a database that a command drops or moves, after it has found that the
 * caller may do so.  The database is locked until behind the commit.
 */
static void
note_database(ObjectAccessType access, Oid class, Oid object, int sub_id, void *arg)
{
	if (next_access)
		next_access(access, class, object, sub_id, arg);
	if (class != DatabaseRelationId || mtp_buffer.policy == NULL)
		return;
	if (access == OAT_DROP || (access == OAT_POST_ALTER && is_moved(object)))
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		leaving = lappend_oid(leaving, object);
		MemoryContextSwitchTo(old);
	}
}

/* ---------- redo ---------- */

void
mtp_buffer_redo_begins(void)
{
	if (mtp_buffer.policy != NULL)
		mtp_frame_purge(&mtp_buffer, NULL, NULL);
}

/* ---------- transactions ---------- */

/*
 * At commit: the transaction's own catalog does not lead to the files that go, and its locks keep
 * others from them to the end.  PREPARE keeps the locks too, so it purges for both outcomes:
 * nobody publishes a page until the transaction has ended.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	if (mtp_buffer.policy == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			purge_pending(true);
			purge_pending(false);
			break;
		case XACT_EVENT_PRE_COMMIT:
			/* Nothing may fail behind the commit record, and a list takes memory. */
			purge_databases();
			purge_pending(true);
			break;
		case XACT_EVENT_ABORT:
			purge_pending(false);
			/* FALLTHROUGH */
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			leaving = NIL;
			mtp_buffer_tell();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subxid, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && mtp_buffer.policy != NULL)
		purge_pending(false);
}

void
mtp_buffer_purge_init(void)
{
	next_access = object_access_hook;
	object_access_hook = note_database;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
