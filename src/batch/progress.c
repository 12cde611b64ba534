/*
 * progress.c
 *	  How far the statements are that queue: mtpower.stat_progress.
 *
 * A load counts what its outermost statement has queued.  What of that is in the indexes is not
 * counted, but follows from the batches that are there: all but what these still have to put in.
 */
#include "batch/statement.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(mtp_stat_progress);

static MtpStatement *
outermost(void)
{
	MtpStatement *s = mtp_batch_statement;

	while (s->outer != NULL)
		s = s->outer;
	return s;
}

/* Rows of statements that have ended are in those around them. */
static uint64
rows_so_far(void)
{
	uint64		rows = 0;

	for (MtpStatement *s = mtp_batch_statement; s != NULL; s = s->outer)
		rows += s->rows;
	return rows;
}

/* NULL if the load has too many indexes. */
static MtpIndexProgress *
progress_of(MtpProgress *p, Oid indexid)
{
	for (int i = 0; i < p->nindexes; i++)
		if (p->indexes[i].indexid == indexid)
			return &p->indexes[i];
	return NULL;
}

/* Entries of the batch that are not in the index yet */
static uint64
pending_of(const MtpBatch *b)
{
	uint64		n = b->phase == MTP_DONE ? 0 : b->entries;

	if (b->phase == MTP_APPLYING)
		for (int i = 0; i < b->ntasks; i++)
			n -= b->tasks[i].progress;
	return n;
}

void
mtp_batch_progress_begin(const MtpBatch *b)
{
	MtpProgress *p = &b->load->progress;
	uint64		serial = outermost()->serial;

	if (p->serial != serial)
	{
		p->serial = serial;
		p->ending = false;
		p->heapid = b->heapid;
		p->queued = 0;
		p->nindexes = 0;
	}
	if (progress_of(p, b->indexid) == NULL && p->nindexes < MTP_PROGRESS_INDEXES)
	{
		MtpIndexProgress *i = &p->indexes[p->nindexes++];

		i->indexid = b->indexid;
		i->heapid = b->heapid;
		i->queued = 0;
	}
	p->rows = rows_so_far();
}

static void
add(MtpProgress *p, const MtpBatch *b, int64 n)
{
	MtpIndexProgress *i = progress_of(p, b->indexid);

	p->queued += n;
	if (i != NULL)
		i->queued += n;
}

void
mtp_batch_progress_queued(const MtpBatch *b, uint32 n)
{
	add(&b->load->progress, b, n);
	b->load->progress.rows = rows_so_far();
}

void
mtp_batch_progress_discard(const MtpBatch *b)
{
	add(&b->load->progress, b, -(int64) pending_of(b));
}

void
mtp_batch_progress_ending(MtpStatement *s)
{
	MtpProgress *p = mtp_batch_my_load ? &mtp_batch_my_load->progress : NULL;

	if (p == NULL || p->serial != s->serial)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	p->ending = true;
	p->rows = rows_so_far();
	LWLockRelease(mtp_batch_lock);
}

void
mtp_batch_progress_end(void)
{
	MtpProgress *p = mtp_batch_my_load ? &mtp_batch_my_load->progress : NULL;

	if (p == NULL || p->serial == 0)
		return;
	LWLockAcquire(mtp_batch_lock, LW_EXCLUSIVE);
	p->serial = 0;
	LWLockRelease(mtp_batch_lock);
}

/* A load as it is shown: what it has queued, and the same without what is not in the indexes yet */
typedef struct Shown
{
	int			pid;
	Oid			dbid;
	Oid			roleid;
	MtpProgress queued;
	MtpProgress applied;
} Shown;

static void
show(Shown *shown, MtpLoad *load, int pid)
{
	dlist_head *lists[] = {&load->batches, &load->own};
	dlist_iter	iter;

	shown->pid = pid;
	shown->dbid = load->dbid;
	shown->roleid = load->roleid;
	shown->queued = shown->applied = load->progress;
	for (int l = 0; l < lengthof(lists); l++)
		dlist_foreach(iter, lists[l])
	{
		MtpBatch   *b = dlist_container(MtpBatch, node, iter.cur);

		add(&shown->applied, b, -(int64) pending_of(b));
	}
}

/* Loads under way, copied; *n gets their number. */
static Shown *
copy_loads(int *n)
{
	Shown	   *shown = palloc(mtp_batch_shared->max_loads * sizeof(Shown));

	*n = 0;
	LWLockAcquire(mtp_batch_lock, LW_SHARED);
	for (int i = 0; i < mtp_batch_shared->max_loads; i++)
	{
		MtpLoad    *load = &mtp_batch_shared->loads[i];
		int			pid = *(volatile int *) &load->pid; /* a load leaves without the lock */

		if (pid != 0 && load->progress.serial != 0)
			show(&shown[(*n)++], load, pid);
	}
	LWLockRelease(mtp_batch_lock);
	return shown;
}

/* One row: a load's (i < 0), or one of its indexes'.  Another database's OIDs name nothing here. */
static void
put_row(ReturnSetInfo *rsinfo, const Shown *shown, Datum database, bool dropped, int i)
{
	const MtpProgress *p = &shown->queued;
	const MtpIndexProgress *index = i < 0 ? NULL : &p->indexes[i];
	bool		here = shown->dbid == MyDatabaseId;
	Datum		values[] = {
		Int32GetDatum(shown->pid),
		database,
		ObjectIdGetDatum(index ? index->heapid : p->heapid),
		ObjectIdGetDatum(index ? index->indexid : InvalidOid),
		CStringGetTextDatum(p->ending ? "applying last entries" : "loading"),
		Int64GetDatum(p->rows),
		Int64GetDatum(index ? index->queued : p->queued),
		Int64GetDatum(index ? shown->applied.indexes[i].queued : shown->applied.queued)
	};
	bool		nulls[] = {
		false, dropped, !here, !here || !index, false, index || p->rows == 0, false, false
	};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A row for each load that the user may see, and one for each of its indexes. */
Datum
mtp_stat_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all = mtp_batch_sees_all();
	Shown	   *shown;
	int			n;

	mtp_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	shown = copy_loads(&n);
	for (int l = 0; l < n; l++)
	{
		bool		dropped;
		Datum		database;

		if (!all && !has_privs_of_role(GetUserId(), shown[l].roleid))
			continue;
		database = mtp_batch_database_name(shown[l].dbid, &dropped);
		for (int i = -1; i < shown[l].queued.nindexes; i++)
			put_row(rsinfo, &shown[l], database, dropped, i);
	}
	return (Datum) 0;
}
