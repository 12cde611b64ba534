/*
 * spool.c
 *	  Collects index entries, sorts them, and gives them back in order.
 *
 * Entries that fit into memory are sorted there.  Otherwise the spool sorts memory and writes it to
 * a temporary file, a run, each time it is full.  A tree of losers merges the runs: all at once as
 * entries are taken, or first some into one where there are too many.
 *
 * In a run a narrow entry is an MtpNarrow, a wide one its prefix and its tuple, MAXALIGNed.
 *
 * A run is a file of this process alone, or one of a set that several processes share.  A process
 * merges the first runs and appends what comes of it.  So the numbers of those that it leaves to
 * another process have no gaps.
 */
#include "batch/spool.h"

#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#define MIN_ENTRIES		1024
#define MAX_FANIN		512		/* a number of a run fits in the tree of losers */
#define MAX_READ_BUFFER (256 * 1024)
#define AHEAD			16		/* entries ahead whose tuples are fetched */

/* Memory for wide entries' tuples: blocks of one size, reused from run to run. */
typedef struct Arena
{
	Size		block_size;
	List	   *blocks;
	int			nused;			/* blocks, the one being filled included */
	char	   *block;			/* being filled, if there is one */
	Size		used;			/* of it */
	Size		bytes;			/* taken from all blocks */
} Arena;

typedef struct Run
{
	BufFile    *file;
	FileSet    *files;			/* that the file is in, or NULL */
	int			owner;			/* the process that made it … */
	int			number;			/* … and its number there: the file's name */
} Run;

/* A run being read: the entry it stands at, and the part of the file around that. */
typedef struct Source
{
	BufFile    *file;
	char	   *buf;
	Size		len;
	Size		at;				/* of the bytes behind the current entry */
	bool		done;
	MtpNarrow	narrow;
	MtpWide		wide;
} Source;

/* A merge under way */
typedef struct Merge
{
	int			n;
	Source	   *sources;
	uint16	   *tree;			/* of losers (losers.h) */
	Size		buf_size;
	bool		started;
} Merge;

struct MtpSpool
{
	MtpOrder   *order;
	MemoryContext context;
	Size		memory;

	uint32		n;
	uint32		cap;
	union
	{
		MtpNarrow  *narrow;
		MtpWide    *wide;
		void	   *any;
	}			entries;
	void	   *scratch;
	uint32		scratch_cap;
	Arena		arena;

	FileSet    *files;			/* where runs go that this process makes, or NULL */
	int			owner;
	int			made;			/* runs */
	List	   *runs;			/* Run * */
	uint32		next;			/* entry to take, if there are no runs */
	Merge		merge;
	char		tuple[MAXALIGN(MTP_NARROW_TUPLE)] pg_attribute_aligned(MAXIMUM_ALIGNOF);
};

StaticAssertDecl(sizeof(MtpNarrow) == sizeof(MtpWide) || sizeof(void *) < 8,
				 "both kinds of entries have one size");

/* Bytes that an entry takes, with its share of the scratch memory and without its tuple. */
#define ENTRY_BYTES (2 * sizeof(MtpNarrow))

void
mtp_batch_spool_set_memory(MtpSpool *spool, Size memory)
{
	spool->memory = Min(memory, (Size) PG_UINT32_MAX * ENTRY_BYTES);
}

MtpSpool *
mtp_batch_spool_begin(MtpOrder *order, Size memory)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mtpower sort",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MtpSpool   *spool = palloc0(sizeof(MtpSpool));

	spool->order = order;
	spool->context = cxt;
	mtp_batch_spool_set_memory(spool, memory);
	spool->cap = MIN_ENTRIES;
	spool->entries.any = palloc(spool->cap * sizeof(MtpNarrow));
	spool->arena.block_size = Max(2 * BLCKSZ, Min(memory / 16, 1024 * 1024));
	MemoryContextSwitchTo(old);
	return spool;
}

/* Takes bytes from the arena; NULL if that needs another block. */
static inline char *
take_bytes(Arena *a, Size size)
{
	char	   *p;

	if (a->nused == 0 || a->used + size > a->block_size)
	{
		if (a->nused == list_length(a->blocks))
			return NULL;
		a->block = list_nth(a->blocks, a->nused++);
		a->used = 0;
	}
	p = a->block + a->used;
	a->used += size;
	a->bytes += size;
	return p;
}

static Size
memory_used(MtpSpool *spool)
{
	return spool->cap * ENTRY_BYTES + list_length(spool->arena.blocks) * spool->arena.block_size;
}

static void
sort_memory(MtpSpool *spool)
{
	if (spool->scratch_cap < spool->n)
	{
		if (spool->scratch)
			pfree(spool->scratch);
		spool->scratch_cap = spool->n;
		spool->scratch = MemoryContextAllocHuge(spool->context,
												spool->scratch_cap * sizeof(MtpNarrow));
	}
	if (spool->order->narrow)
		mtp_batch_sort_narrow(spool->entries.narrow, spool->scratch, spool->n);
	else
		mtp_batch_sort_wide(spool->order, spool->entries.wide, spool->scratch, spool->n);
}

#define RUN_NAME 32

static char *
run_name(const Run *run, char *buf)
{
	snprintf(buf, RUN_NAME, "run%d.%d", run->owner, run->number);
	return buf;
}

/* Makes an empty run, which becomes the last. */
static BufFile *
add_run(MtpSpool *spool)
{
	Run		   *run = palloc0(sizeof(Run));
	char		name[RUN_NAME];

	run->files = spool->files;
	run->owner = spool->owner;
	run->number = spool->made++;
	run->file = run->files ? BufFileCreateFileSet(run->files, run_name(run, name)) :
		BufFileCreateTemp(false);
	spool->runs = lappend(spool->runs, run);
	return run->file;
}

/* Frees the first n runs, whose entries are in another one. */
static void
drop_runs(MtpSpool *spool, int n)
{
	for (int i = 0; i < n; i++)
	{
		Run		   *run = list_nth(spool->runs, i);
		char		name[RUN_NAME];

		BufFileClose(run->file);
		if (run->files)
			BufFileDeleteFileSet(run->files, run_name(run, name), false);
		pfree(run);
	}
	spool->runs = list_delete_first_n(spool->runs, n);
}

static void
write_wide(BufFile *file, const MtpWide *e)
{
	BufFileWrite(file, (void *) &e->prefix, sizeof(e->prefix));
	BufFileWrite(file, e->itup, MAXALIGN(IndexTupleSize(e->itup)));
}

/* Tuples lie in the order of their arrival: fetches one that comes soon behind sorted entry i. */
static inline void
prefetch_ahead(MtpSpool *spool, uint32 i)
{
	if (i + AHEAD < spool->n)
		__builtin_prefetch(spool->entries.wide[i + AHEAD].itup);
}

/* Sorts the entries in memory, writes them out as a run, and forgets them. */
static void
spill_memory(MtpSpool *spool)
{
	BufFile    *file = add_run(spool);

	sort_memory(spool);
	if (spool->order->narrow)
		BufFileWrite(file, spool->entries.narrow, spool->n * sizeof(MtpNarrow));
	else
		for (uint32 i = 0; i < spool->n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			prefetch_ahead(spool, i);
			write_wide(file, &spool->entries.wide[i]);
		}
	spool->n = 0;
	spool->arena.nused = 0;
	spool->arena.bytes = 0;
}

/*
 * Makes room for one more entry: in a larger array, if that and its share of tuples stay within the
 * memory allowed; else by a run.
 */
static void
make_entry_room(MtpSpool *spool)
{
	Size		used = memory_used(spool);
	Size		each = ENTRY_BYTES + spool->arena.bytes / spool->n;
	Size		more = used < spool->memory ? (spool->memory - used) / each : 0;
	Size		cap = spool->cap + Min(more, spool->cap);

	if (more < spool->cap / 16)
	{
		spill_memory(spool);
		return;
	}
	spool->entries.any = repalloc_huge(spool->entries.any, cap * sizeof(MtpNarrow));
	spool->cap = cap;
}

void
mtp_batch_spool_put_narrow(MtpSpool *spool, MtpNarrow e)
{
	if (spool->n == spool->cap)
	{
		MemoryContext old = MemoryContextSwitchTo(spool->context);

		make_entry_room(spool);
		MemoryContextSwitchTo(old);
	}
	spool->entries.narrow[spool->n++] = e;
}

void
mtp_batch_spool_put_wide(MtpSpool *spool, IndexTuple itup)
{
	Arena	   *a = &spool->arena;
	Size		size = MAXALIGN(IndexTupleSize(itup));
	MtpWide    *e;
	char	   *copy = NULL;

	Assert(size <= a->block_size);
	if (spool->n == spool->cap || (copy = take_bytes(a, size)) == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(spool->context);

		if (spool->n == spool->cap)
			make_entry_room(spool);
		while ((copy = take_bytes(a, size)) == NULL)
		{
			if (spool->n > 0 && memory_used(spool) + a->block_size > spool->memory)
				spill_memory(spool);
			else
				a->blocks = lappend(a->blocks, palloc(a->block_size));
		}
		MemoryContextSwitchTo(old);
	}
	memcpy(copy, itup, size);
	e = &spool->entries.wide[spool->n++];
	e->itup = (IndexTuple) copy;
	e->prefix = mtp_batch_order_prefix(spool->order, itup);
}

/* Reads until the next `need` bytes are in the source's buffer; false at the end of the run. */
static bool
fill_buffer(Source *s, Size need, Size buf_size)
{
	if (s->len - s->at >= need)
		return true;
	memmove(s->buf, s->buf + s->at, s->len - s->at);
	s->len -= s->at;
	s->at = 0;
	s->len += BufFileRead(s->file, s->buf + s->len, buf_size - s->len);
	return s->len >= need;
}

/* Steps to the source's next entry. */
static void
advance_source(MtpSpool *spool, Source *s)
{
	Size		buf_size = spool->merge.buf_size;
	Size		size = spool->order->narrow ? sizeof(MtpNarrow) :
	sizeof(uint64) + sizeof(IndexTupleData);

	s->done = !fill_buffer(s, size, buf_size);
	if (s->done)
		return;
	if (spool->order->narrow)
		memcpy(&s->narrow, s->buf + s->at, size);
	else
	{
		/* The tuple's header tells how long it is; it may move when the rest is read. */
		s->wide.itup = (IndexTuple) (s->buf + s->at + sizeof(uint64));
		size = sizeof(uint64) + MAXALIGN(IndexTupleSize(s->wide.itup));
		if (!fill_buffer(s, size, buf_size))
			elog(ERROR, "unexpected end of a temporary file of a sort");
		memcpy(&s->wide.prefix, s->buf + s->at, sizeof(uint64));
		s->wide.itup = (IndexTuple) (s->buf + s->at + sizeof(uint64));
	}
	s->at += size;
}

/* True if source x comes before source y.  Exhausted ones come last. */
static inline bool
comes_first(MtpSpool *spool, const Source *x, const Source *y)
{
	if (x->done || y->done)
		return !x->done;
	if (spool->order->narrow)
		return mtp_narrow_less(&x->narrow, &y->narrow);
	return mtp_batch_order_compare(spool->order, &x->wide, &y->wide) < 0;
}

#define LOSERS(name)	runs_##name
#define LOSERS_OF		MtpSpool
#define LOSERS_LESS(s, a, b) comes_first(s, &(s)->merge.sources[a], &(s)->merge.sources[b])
#include "batch/losers.h"

/* Begins to merge the first n runs. */
static void
merge_begin(MtpSpool *spool, int n)
{
	Merge	   *m = &spool->merge;

	m->n = n;
	m->started = false;
	m->buf_size = spool->memory / (n + 1);
	m->buf_size = m->buf_size > 2 * BLCKSZ ? m->buf_size - BLCKSZ : BLCKSZ;
	m->buf_size = TYPEALIGN_DOWN(BLCKSZ, Min(m->buf_size, MAX_READ_BUFFER));
	m->sources = palloc0(n * sizeof(Source));
	m->tree = palloc0(n * sizeof(uint16));
	for (int i = 0; i < n; i++)
	{
		Source	   *s = &m->sources[i];

		s->file = ((Run *) list_nth(spool->runs, i))->file;
		s->buf = palloc(m->buf_size);
		if (BufFileSeek(s->file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind temporary file of a sort")));
		advance_source(spool, s);
	}
	runs_begin(spool, m->tree, n);
}

/* The source whose entry comes next, or NULL. */
static Source *
merge_next(MtpSpool *spool)
{
	Merge	   *m = &spool->merge;
	Source	   *s;

	if (m->started)
	{
		advance_source(spool, &m->sources[m->tree[0]]);
		runs_replay(spool, m->tree, m->n);
	}
	m->started = true;
	s = &m->sources[m->tree[0]];
	return s->done ? NULL : s;
}

/* Merges the first n runs into one, which becomes the last. */
static void
merge_into_run(MtpSpool *spool, int n)
{
	Merge	   *m = &spool->merge;
	BufFile    *file = add_run(spool);
	Source	   *s;

	merge_begin(spool, n);
	while ((s = merge_next(spool)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (spool->order->narrow)
			BufFileWrite(file, &s->narrow, sizeof(MtpNarrow));
		else
			write_wide(file, &s->wide);
	}
	for (int i = 0; i < n; i++)
		pfree(m->sources[i].buf);
	pfree(m->sources);
	pfree(m->tree);
	drop_runs(spool, n);
}

/*
 * No more entries come, and those in memory are in a run: gives their memory to merges, and merges
 * runs until the rest can be read at once.
 */
static void
merge_down(MtpSpool *spool)
{
	int			fanin;

	if (spool->scratch)
		pfree(spool->scratch);
	spool->scratch = NULL;
	pfree(spool->entries.any);
	list_free_deep(spool->arena.blocks);

	/*
	 * Each run being read takes its file's buffer and one of ours.  Of too many runs, the spool
	 * first merges just as many as leave a full last merge.
	 */
	fanin = Max(3, Min(spool->memory / (2 * BLCKSZ), MAX_FANIN)) - 1;
	while (list_length(spool->runs) > fanin)
		merge_into_run(spool, Min(fanin, list_length(spool->runs) - fanin + 1));
}

void
mtp_batch_spool_sort(MtpSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);

	if (spool->runs == NIL)
	{
		sort_memory(spool);
		if (spool->scratch)
			pfree(spool->scratch);
		spool->scratch = NULL;
	}
	else
	{
		if (spool->n > 0)
			spill_memory(spool);
		merge_down(spool);
		merge_begin(spool, list_length(spool->runs));
	}
	MemoryContextSwitchTo(old);
}

void
mtp_batch_spool_use_files(MtpSpool *spool, FileSet *files, int owner)
{
	Assert(spool->n == 0 && spool->runs == NIL);
	spool->files = files;
	spool->owner = owner;
}

void
mtp_batch_spool_spill(MtpSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);

	if (spool->n > 0)
		spill_memory(spool);
	MemoryContextSwitchTo(old);
}

MtpSpoolRuns
mtp_batch_spool_leave(MtpSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);
	MtpSpoolRuns left;
	ListCell   *lc;

	Assert(spool->files != NULL);
	if (spool->n > 0)
		spill_memory(spool);
	merge_down(spool);
	left.n = list_length(spool->runs);
	left.first = spool->made - left.n;
	foreach(lc, spool->runs)
		BufFileClose(((Run *) lfirst(lc))->file);
	spool->runs = NIL;
	MemoryContextSwitchTo(old);
	return left;
}

void
mtp_batch_spool_take(MtpSpool *spool, FileSet *files, int owner, MtpSpoolRuns runs)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);

	for (int i = 0; i < runs.n; i++)
	{
		Run		   *run = palloc0(sizeof(Run));
		char		name[RUN_NAME];

		run->files = files;
		run->owner = owner;
		run->number = runs.first + i;
		run->file = BufFileOpenFileSet(files, run_name(run, name), O_RDONLY, false);
		spool->runs = lappend(spool->runs, run);
	}
	MemoryContextSwitchTo(old);
}

bool
mtp_batch_spool_next_narrow(MtpSpool *spool, MtpNarrow *e)
{
	Assert(spool->order->narrow);
	if (spool->runs != NIL)
	{
		Source	   *s = merge_next(spool);

		if (s == NULL)
			return false;
		*e = s->narrow;
		return true;
	}
	if (spool->next == spool->n)
		return false;
	*e = spool->entries.narrow[spool->next++];
	return true;
}

IndexTuple
mtp_batch_spool_next(MtpSpool *spool)
{
	MtpNarrow	narrow;

	if (spool->order->narrow)
	{
		if (!mtp_batch_spool_next_narrow(spool, &narrow))
			return NULL;
		(void) mtp_batch_narrow_tuple(spool->order->code, narrow, spool->tuple);
		return (IndexTuple) spool->tuple;
	}
	if (spool->runs != NIL)
	{
		Source	   *s = merge_next(spool);

		return s ? s->wide.itup : NULL;
	}
	if (spool->next == spool->n)
		return NULL;

	prefetch_ahead(spool, spool->next);
	return spool->entries.wide[spool->next++].itup;
}

void
mtp_batch_spool_end(MtpSpool *spool)
{
	ListCell   *lc;

	foreach(lc, spool->runs)
		BufFileClose(((Run *) lfirst(lc))->file);
	MemoryContextDelete(spool->context);
}
