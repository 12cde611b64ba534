/*
 * build.c
 *	  Builds a hash index from scratch: sorts the entries by hash, and writes each bucket once.
 *
 * When the rows have been counted the build knows how many buckets they need, so it splits none.
 * At level 0 the order of buckets is that of their hashes: bucket b's primary page is block b + 1,
 * and stash pages follow behind all of these.  The metapage is written last, so that an unfinished
 * file is not an index.
 */
#include "hash/hash.h"

#include "index/build.h"
#include "wal/writer.h"

#define PHASE_SCAN		2
#define PHASE_SORT		3
#define PHASE_WRITE		4

PGDLLEXPORT void mtp_hash_build_worker(dsm_segment *seg, shm_toc *toc);

/* A hash with fewer entries than this gets no chain of its own. */
#define HEAVY			(MTP_HASH_CAP(MTP_HASH_STASH) / 2)

/* Room for a full primary page, and for the first entries of a hash that does not fit there. */
#define GATHERED		(MTP_HASH_CAP(MTP_HASH_BUCKET) + HEAVY + 1)

/* A chain that is being written: each of its stash pages leads to the one written before it. */
typedef struct Chain
{
	BlockNumber first;			/* the page written last, which is the chain's first */
	bool		open;			/* `page` is being filled */
	char	   *page;
} Chain;

typedef struct Build
{
	MtpIndexBuild b;			/* the first, which both access methods have */
	MtpWriter	writer;
	MtpHashMeta meta;

	/* the spool's next entry, if there is one */
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
	static char *const names[] = {
		[PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE] = "initializing",
		[PHASE_SCAN] = "scanning table",
		[PHASE_SORT] = "sorting by hash",
		[PHASE_WRITE] = "writing buckets"
	};

	return phase >= 0 && phase < lengthof(names) ? names[phase] : NULL;
}

/* Takes up to `limit` entries with this hash from the spool; returns how many there were. */
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

/*
 * Moves the gathered entries from number `from` on to a chain, and the spool's rest of their hash
 * with them: however many these are, memory holds no more than GATHERED.
 */
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

/*
 * Writes a bucket from the spool's entries up to its `hi`.  They come by hash, so a hash that has
 * too many for the primary page is known when its first ones are gathered.
 */
static void
write_bucket(Build *b, uint32 bucket)
{
	const int	cap = MTP_HASH_CAP(MTP_HASH_BUCKET);
	MtpHashPrimary *p = MtpHashPrimaryOf(b->primary);

	mtp_hash_space_interval(&b->meta.space, bucket, &b->lo, &b->hi);
	b->bucket = bucket;
	b->n = 0;
	b->stash.first = InvalidBlockNumber;
	mtp_hash_bucket_init((Page) b->primary, MTP_HASH_BUCKET, bucket, b->lo, b->hi);
	while (b->more && b->next.norm <= b->hi)
	{
		uint32		hash = (uint32) b->next.norm;
		int			start = b->n;	/* of this hash's entries */

		b->n += gather(b, hash, Max(cap - start + 1, HEAVY), &b->entries[start]);
		if (b->n <= cap)
			continue;
		if (b->n - start >= HEAVY && p->h.nheavy < MTP_HASH_MAX_HEAVY)
		{
			/* All of them go to a chain of their own: the primary page is left to others. */
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
			/* The primary page keeps what it has room for; the filter leads to the rest (H6). */
			chain_take(b, &b->stash, hash, cap);
			mtp_filter_add(p, hash);
		}
	}
	chain_close(b, &b->stash);
	p->h.next = b->stash.first;
	mtp_hash_bucket_append((Page) b->primary, b->n, b->entries);
	memcpy(mtp_writer_page(&b->writer, mtp_hash_block(&b->meta, bucket)), b->primary, BLCKSZ);
}

/*
 * Writes all buckets, which take the sorted spool's entries, and the metapage.  Without a spool
 * these are the init fork of an unlogged index: its buckets are empty.
 */
static void
write_index(MtpIndexBuild *build)
{
	Build	   *b = (Build *) build;
	ForkNumber	fork = build->spool ? MAIN_FORKNUM : INIT_FORKNUM;
	MtpHashMeta *meta = &b->meta;
	MtpHashOptions *opts = (MtpHashOptions *) build->index->rd_options;
	int			fillfactor = opts ? opts->fillfactor : MTP_HASH_FILLFACTOR;
	uint64		initial = opts ? opts->initial_buckets : 0;

	memset(meta, 0, sizeof(MtpHashMeta));
	meta->magic = MTP_HASH_MAGIC;
	meta->version = MTP_HASH_VERSION;
	meta->fixed = initial > 0;
	meta->per_bucket = Max(MTP_HASH_CAP(MTP_HASH_BUCKET) * fillfactor / 100, 1);
	meta->entries = build->ntuples;
	initial = Max(initial, (meta->entries + meta->per_bucket - 1) / meta->per_bucket);
	meta->space.initial = Min(Max(initial, 1), MTP_HASH_MAX_BUCKETS);
	meta->reserved = meta->space.initial;
	meta->nextents = 1;
	meta->extents[0].block = MTP_HASH_META_BLOCK + 1;

	b->primary = palloc(BLCKSZ);
	b->stash.page = palloc(BLCKSZ);
	b->heavy.page = palloc(BLCKSZ);
	mtp_writer_init(&b->writer, build->index, fork, MTP_HASH_META_BLOCK + 1 + meta->space.initial);
	b->more = build->spool && mtp_batch_spool_next_narrow(build->spool, &b->next);
	for (uint32 i = 0; i < meta->space.initial; i++)
		write_bucket(b, i);
	Assert(!b->more && build->done == build->ntuples);
	mtp_hash_meta_init(mtp_writer_page(&b->writer, MTP_HASH_META_BLOCK), meta);
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

static const MtpIndexBuildOps build_ops = {
	.scanning = PHASE_SCAN,
	.sorting = PHASE_SORT,
	.writing = PHASE_WRITE,
	.worker = "mtp_hash_build_worker",
	.order = mtp_hash_order,
	.collect = collect,
	.write = write_index
};

/* A parallel worker's main function. */
void
mtp_hash_build_worker(dsm_segment *seg, shm_toc *toc)
{
	mtp_index_build_work(&build_ops, seg, toc);
}

IndexBuildResult *
mtp_hash_build(Relation heap, Relation index, struct IndexInfo *info)
{
	Build		b = {.b.ops = &build_ops,.b.index = index};

	mtp_hash_check_support(index);
	return mtp_index_build(&b.b, heap, info);
}

void
mtp_hash_build_empty(Relation index)
{
	Build		b = {.b.index = index};

	write_index(&b.b);
}
