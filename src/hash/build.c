/*
 * build.c
 *	  Builds a hash index from scratch: sorts the entries by hash, and writes each bucket once.
 *
 * The number of buckets is chosen when the rows have been counted, so no bucket is ever split here.
 * At level 0 buckets are in the order of hashes: bucket b's primary page is block b + 1, and
 * further pages lie behind them all.  The metapage comes last: a file that was not finished is not
 * an index.
 */
#include "hash/hash.h"

#include "commands/progress.h"
#include "index/build.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "wal/writer.h"

#define PHASE_SCAN		2
#define PHASE_SORT		3
#define PHASE_WRITE		4

/* A hash with fewer entries than this gets no chain of its own. */
#define HEAVY			(MTP_HASH_CAP(MTP_HASH_STASH) / 2)

/* Primary page's entries, and the first ones of a hash that does not fit there. */
#define GATHERED		(MTP_HASH_CAP(MTP_HASH_BUCKET) + HEAVY + 1)

/* A chain of stash pages being written: each page leads to the one before it. */
typedef struct Chain
{
	BlockNumber first;			/* of those written */
	bool		open;			/* a page is being filled */
	char	   *page;
} Chain;

typedef struct Build
{
	MtpIndexBuild b;			/* the first, which both access methods have */
	MtpWriter	writer;
	MtpHashMeta meta;

	/* the next entry, if there is one */
	bool		more;
	MtpNarrow	next;

	/* the bucket being written */
	uint32		bucket;
	uint32		lo;
	uint32		hi;
	int			n;				/* gathered */
	MtpHashEntry entries[GATHERED];
	char	   *primary;
	Chain		stash;
	Chain		heavy;
} Build;

char *
mtp_hash_phase_name(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case PHASE_SCAN:
			return "scanning table";
		case PHASE_SORT:
			return "sorting by hash";
		case PHASE_WRITE:
			return "writing buckets";
		default:
			return NULL;
	}
}

/* Takes up to `limit` entries of a hash into `to`; returns how many. */
static int
gather(Build *b, uint32 hash, int limit, MtpHashEntry *to)
{
	int			n = 0;

	while (n < limit && b->more && b->next.norm == hash)
	{
		ItemPointerData tid;

		mtp_rid_to_tid(b->next.rid, &tid);
		to[n++] = mtp_entry(hash, &tid);
		b->more = mtp_batch_spool_next_narrow(b->b.spool, &b->next);
		mtp_index_build_step(&b->b);
	}
	return n;
}

/* ---------- chains ---------- */

/* Writes the page that is being filled, if there is one, as the chain's first. */
static void
chain_close(Build *b, Chain *c)
{
	BlockNumber blkno;

	if (!c->open)
		return;
	blkno = b->writer.allocated++;
	MtpHashHead(c->page)->next = c->first;
	memcpy(mtp_writer_page(&b->writer, blkno), c->page, BLCKSZ);
	c->first = blkno;
	c->open = false;
}

static void
chain_add(Build *b, Chain *c, int n, const MtpHashEntry *entries)
{
	while (n > 0)
	{
		int			now;

		if (!c->open)
		{
			mtp_hash_bucket_init((Page) c->page, MTP_HASH_STASH, b->bucket, b->lo, b->hi);
			c->open = true;
		}
		now = Min(n, mtp_hash_bucket_room((Page) c->page));
		mtp_hash_bucket_append((Page) c->page, now, entries);
		n -= now;
		entries += now;
		if (mtp_hash_bucket_room((Page) c->page) == 0)
			chain_close(b, c);
	}
}

/* Adds the last `from` … entries that were gathered, and all that are left of their hash. */
static void
chain_take(Build *b, Chain *c, uint32 hash, int from)
{
	int			n;

	chain_add(b, c, b->n - from, &b->entries[from]);
	b->n = from;
	while ((n = gather(b, hash, GATHERED - from, &b->entries[from])) > 0)
		chain_add(b, c, n, &b->entries[from]);
}

/* ---------- buckets ---------- */

/* A hash that does not fit on the primary page; entries[start] … are its first ones. */
static void
overflow(Build *b, uint32 hash, int start)
{
	MtpHashPrimary *p = MtpHashPrimaryOf(b->primary);

	if (b->n - start >= HEAVY && p->h.nheavy < MTP_HASH_MAX_HEAVY)
	{
		/* The primary page is left to others. */
		b->heavy.first = InvalidBlockNumber;
		chain_take(b, &b->heavy, hash, start);
		chain_close(b, &b->heavy);
		p->heavy[p->h.nheavy++] = (MtpHashHeavy)
		{
			.hash = hash,.first = b->heavy.first
		};
	}
	else
	{
		chain_take(b, &b->stash, hash, MTP_HASH_CAP(MTP_HASH_BUCKET));
		mtp_filter_add(p, hash);
	}
}

static void
write_bucket(Build *b, uint32 bucket)
{
	int			cap = MTP_HASH_CAP(MTP_HASH_BUCKET);

	mtp_hash_space_interval(&b->meta.space, bucket, &b->lo, &b->hi);
	b->bucket = bucket;
	b->n = 0;
	b->stash.first = InvalidBlockNumber;
	mtp_hash_bucket_init((Page) b->primary, MTP_HASH_BUCKET, bucket, b->lo, b->hi);
	while (b->more && b->next.norm <= b->hi)
	{
		uint32		hash = (uint32) b->next.norm;
		int			start = b->n;

		b->n += gather(b, hash, Max(cap - start + 1, HEAVY), &b->entries[start]);
		if (b->n > cap)
			overflow(b, hash, start);
	}
	chain_close(b, &b->stash);
	MtpHashHead(b->primary)->next = b->stash.first;
	mtp_hash_bucket_append((Page) b->primary, b->n, b->entries);
	memcpy(mtp_writer_page(&b->writer, mtp_hash_block(&b->meta, bucket)), b->primary, BLCKSZ);
}

/* The metapage of an index with room for so many entries. */
static void
init_meta(MtpHashMeta *meta, Relation index, uint64 entries)
{
	uint64		initial = mtp_hash_initial_buckets(index);

	memset(meta, 0, sizeof(MtpHashMeta));
	meta->magic = MTP_HASH_MAGIC;
	meta->version = MTP_HASH_VERSION;
	meta->fixed = initial > 0;
	meta->per_bucket = Max(MTP_HASH_CAP(MTP_HASH_BUCKET) * mtp_hash_fillfactor(index) / 100, 1);
	meta->entries = entries;
	initial = Max(initial, (entries + meta->per_bucket - 1) / meta->per_bucket);
	meta->space.initial = Min(Max(initial, 1), MTP_HASH_MAX_BUCKETS);
	meta->reserved = meta->space.initial;
	meta->nextents = 1;
	meta->extents[0] = (MtpHashExtent)
	{
		.bucket = 0,.block = MTP_HASH_META_BLOCK + 1
	};
}

/* Writes all buckets, which take the spool's entries. */
static void
write_index(Build *b, ForkNumber fork)
{
	b->primary = palloc(BLCKSZ);
	b->stash.page = palloc(BLCKSZ);
	b->heavy.page = palloc(BLCKSZ);
	init_meta(&b->meta, b->b.index, b->b.ntuples);
	mtp_writer_init(&b->writer, b->b.index, fork,
					MTP_HASH_META_BLOCK + 1 + b->meta.space.initial);
	for (uint32 i = 0; i < b->meta.space.initial; i++)
		write_bucket(b, i);
	mtp_hash_meta_init(mtp_writer_page(&b->writer, MTP_HASH_META_BLOCK), &b->meta);
	mtp_writer_finish(&b->writer);
}

/* Puts a row's entry into the spool. */
static void
collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	MtpIndexBuild *b = state;
	uint32		hash;

	if (!mtp_hash_row(index, values, isnull, &hash))
		return;
	mtp_batch_spool_put_narrow(b->spool, mtp_narrow_of_hash(hash, tid));
	b->ntuples++;
}

/* Writes the index of the spool's entries, which are sorted. */
static void
write_main(MtpIndexBuild *build)
{
	Build	   *b = (Build *) build;

	b->more = mtp_batch_spool_next_narrow(build->spool, &b->next);
	write_index(b, MAIN_FORKNUM);
	Assert(!b->more && build->done == build->ntuples);
}

IndexBuildResult *
mtp_hash_build(Relation heap, Relation index, struct IndexInfo *info)
{
	static const MtpIndexBuildWay way = {
		.scanning = PHASE_SCAN,
		.sorting = PHASE_SORT,
		.writing = PHASE_WRITE,
		.collect = collect,
		.write = write_main
	};
	Build	   *b = palloc0(sizeof(Build));
	MtpOrder	order = {.code = MTP_NORM_OID,.narrow = true,.norm_prefixes = true};

	mtp_hash_check_support(index);
	b->b.index = index;
	b->b.order = &order;
	return mtp_index_build(&b->b, heap, info, &way);
}

/* The init fork of an unlogged index: its buckets, all empty. */
void
mtp_hash_build_empty(Relation index)
{
	Build	   *b = palloc0(sizeof(Build));

	b->b.index = index;
	write_index(b, INIT_FORKNUM);
	pfree(b);
}
