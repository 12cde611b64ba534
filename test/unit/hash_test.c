/*
 * hash_test.c
 *	  Drives src/hash/bucket.c with random changes, next to a model that is an array, and checks
 *	  src/hash/space.c against what hash.h says of it.
 *
 *	  hash_test SEED ROUNDS
 *
 * A plain program.  The page stands at the very end of a heap block, so that a sanitizer sees any access
 * behind it.  A twin page that never gets a hint must be the same page once hints are masked.
 */
#include "core/core.h"

#include "hash/hash.h"
#include "random.h"
#include "server.h"

typedef struct Entry
{
	MtpHashEntry e;
	bool		dead;
} Entry;

static Entry model[MTP_HASH_MAX_ENTRIES];
static int	nmodel;
static Page page;
static Page twin;
static int	distinct;

#define check(cond) \
	do { if (!(cond)) die("line %d: %s (%d entries, %d hashes)", __LINE__, #cond, nmodel, distinct); } while (0)

/* ---------- bucket.c ---------- */

/* Few hashes, half of them with equal fingerprints. */
static uint32
random_hash(void)
{
	uint32		h = rnd(distinct);

	return h % 2 ? mtp_hash_spread(h) : h << 8;
}

static void
check_find(uint32 hash)
{
	uint16		want[MTP_HASH_MAX_ENTRIES];
	uint16		got[MTP_HASH_MAX_ENTRIES];
	int			n;

	for (int with_dead = 0; with_dead < 2; with_dead++)
	{
		n = 0;
		for (int i = 0; i < nmodel; i++)
			if (mtp_entry_hash(&model[i].e) == hash && (with_dead || !model[i].dead))
				want[n++] = i;
		check(mtp_hash_bucket_find(page, hash, with_dead, got) == n);
		check(memcmp(want, got, n * sizeof(uint16)) == 0);
		check(mtp_hash_bucket_find_scalar(page, MtpHashFps(page), MtpHashHead(page)->n, hash, with_dead, got) == n);
		check(memcmp(want, got, n * sizeof(uint16)) == 0);
	}
}

static void
check_page(void)
{
	static PGAlignedBlock a,
				b;
	MtpHashHeader *h = MtpHashHead(page);
	const char *fault;
	int			at;
	int			ndead = 0;

	fault = mtp_hash_bucket_fault(page, &at);
	if (fault != NULL)
		die("entry %d: %s", at, fault);
	check(h->n == nmodel);
	check(((PageHeader) page)->pd_lower == MTP_HASH_FP_AT(h->type) + nmodel);
	check(((PageHeader) page)->pd_upper == BLCKSZ - nmodel * sizeof(MtpHashEntry));
	for (int i = 0; i < nmodel; i++)
	{
		check(memcmp(MtpHashEntryAt(page, i), &model[i].e, sizeof(MtpHashEntry)) == 0);
		check((MtpHashFps(page)[i] == MTP_FP_DEAD) == model[i].dead);
		ndead += model[i].dead;
	}
	check(h->ndead == ndead);
	check(ndead == 0 || (h->flags & MTP_HASH_HAS_DEAD));

	memcpy(a.data, page, BLCKSZ);
	memcpy(b.data, twin, BLCKSZ);
	mtp_hash_bucket_mask(a.data);
	mtp_hash_bucket_mask(b.data);
	check(memcmp(a.data, b.data, ((PageHeader) page)->pd_lower) == 0);
	check(memcmp(a.data + ((PageHeader) page)->pd_upper, b.data + ((PageHeader) page)->pd_upper,
				 BLCKSZ - ((PageHeader) page)->pd_upper) == 0);
}

static void
append(void)
{
	MtpHashEntry some[MTP_HASH_MAX_ENTRIES];
	int			room = mtp_hash_bucket_room(page);
	int			n = rnd(rnd(3) ? 8 : room + 1);

	n = Min(n, room);
	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid;
		uint32		hash;

		ItemPointerSet(&tid, rnd(1 << 30), 1 + rnd(200));
		hash = random_hash();
		if (hash < MtpHashHead(page)->lo || hash > MtpHashHead(page)->hi)
			hash = MtpHashHead(page)->lo;
		some[i] = mtp_entry(hash, &tid);
		model[nmodel++] = (Entry) {.e = some[i]};
	}
	mtp_hash_bucket_append(page, n, some);
	mtp_hash_bucket_append(twin, n, some);
}

/* The rule told otherwise: from the left, each hole takes the last entry that stays. */
static void
delete(void)
{
	uint16		at[MTP_HASH_MAX_ENTRIES];
	bool		gone[MTP_HASH_MAX_ENTRIES] = {false};
	int			percent = rnd(4) == 0 ? 100 : rnd(101);
	int			n = 0;
	int			stay;

	for (int i = 0; i < nmodel; i++)
		if (rnd(100) < percent)
		{
			at[n++] = i;
			gone[i] = true;
		}
	mtp_hash_bucket_delete(page, n, at);
	mtp_hash_bucket_delete(twin, n, at);

	stay = nmodel - n;
	for (int hole = 0, from = nmodel - 1; hole < stay; hole++)
	{
		if (!gone[hole])
			continue;
		while (gone[from])
			from--;
		model[hole] = model[from--];
	}
	nmodel = stay;
}

static void
retain(void)
{
	MtpHashHeader *h = MtpHashHead(page);
	uint32		mid = h->lo + (h->hi - h->lo) / 2;
	uint32		lo;
	uint32		hi;
	int			n = 0;

	if (nmodel > 0 && rnd(2))
		mid = mtp_entry_hash(&model[rnd(nmodel)].e);
	lo = rnd(2) ? h->lo : mid;
	hi = lo == mid ? h->hi : mid;

	mtp_hash_bucket_retain(page, lo, hi);
	mtp_hash_bucket_retain(twin, lo, hi);
	check(h->lo == lo && h->hi == hi);
	for (int i = 0; i < nmodel; i++)
		if (mtp_entry_hash(&model[i].e) >= lo && mtp_entry_hash(&model[i].e) <= hi)
			model[n++] = model[i];
	nmodel = n;
}

/* Nothing but hints is hidden: whatever else is changed can be seen through the mask. */
static void
check_mask(void)
{
	static const struct
	{
		int			from;
		int			to;
	}			header[] = {
		{offsetof(MtpHashHeader, bucket), offsetof(MtpHashHeader, n)},
		{offsetof(MtpHashHeader, room_for_later), offsetof(MtpHashHeader, page_id)},
		{sizeof(MtpHashHeader), sizeof(MtpHashPrimary)}
	};
	static PGAlignedBlock a,
				b;
	int			part = rnd(MtpHashIsPrimary(page) ? 4 : 3);
	int			at;

	if (part == 2 && !MtpHashIsPrimary(page))
		part = 3;
	if (part == 3 && nmodel == 0)
		return;
	if (part < 3)
		at = MTP_HEADER_AT + header[part].from + rnd(header[part].to - header[part].from);
	else
		at = BLCKSZ - 1 - rnd(nmodel * sizeof(MtpHashEntry));
	memcpy(a.data, page, BLCKSZ);
	memcpy(b.data, page, BLCKSZ);
	b.data[at] ^= 1 << rnd(8);
	mtp_hash_bucket_mask(a.data);
	mtp_hash_bucket_mask(b.data);
	check(a.data[at] != b.data[at]);
}

/* The same of the metapage, on which the number of entries is a hint. */
static void
check_meta_mask(void)
{
	static PGAlignedBlock a,
				b;
	MtpHashMeta *meta = MtpHashMetaOf(a.data);
	int			at = rnd(sizeof(MtpHashMeta));

	if ((char *) (meta + 1) > a.data + BLCKSZ)
		return;
	memset(a.data, 0, BLCKSZ);
	MtpHashHead(a.data)->type = MTP_HASH_META;
	for (int i = 0; i < sizeof(MtpHashMeta); i++)
		((char *) meta)[i] = (char) rnd(256);
	memcpy(b.data, a.data, BLCKSZ);
	at += (char *) meta - a.data;
	b.data[at] ^= 1 << rnd(8);
	mtp_hash_bucket_mask(a.data);
	mtp_hash_bucket_mask(b.data);
	at -= (char *) meta - a.data;
	check((memcmp(a.data, b.data, BLCKSZ) == 0) ==
		  (at >= offsetof(MtpHashMeta, entries) && at < offsetof(MtpHashMeta, reserved)));
}

/* The page is damaged byte by byte: nothing but a complaint may come of it. */
static void
check_damage(void)
{
	PGAlignedBlock whole;
	int			at;

	memcpy(whole.data, page, BLCKSZ);
	for (int i = 0; i < 40; i++)
	{
		int			from = rnd(2) ? 10 + rnd(MTP_HASH_FP_AT(MTP_HASH_BUCKET)) : rnd(BLCKSZ - 4);

		page[from] ^= 1 << rnd(8);
		page[from + rnd(3)] = (char) rnd(256);
		(void) mtp_hash_bucket_fault(page, &at);
		if (i % 4 == 3)
			memcpy(page, whole.data, BLCKSZ);
	}
	memcpy(page, whole.data, BLCKSZ);
}

/* The page says `want` of itself, after which it is made whole again. */
static void
check_fault(const char *want, const PGAlignedBlock *whole)
{
	int			at;
	const char *fault = mtp_hash_bucket_fault(page, &at);

	if (fault == NULL || strcmp(fault, want) != 0)
		die("found \"%s\" where \"%s\" was expected", fault ? fault : "nothing", want);
	memcpy(page, whole->data, BLCKSZ);
}

static void
test_faults(void)
{
	PGAlignedBlock whole;
	MtpHashHeader *h = MtpHashHead(page);
	MtpHashPrimary *p = MtpHashPrimaryOf(page);
	ItemPointerData tid;
	MtpHashEntry e;

	mtp_hash_bucket_init(page, MTP_HASH_BUCKET, 3, 1000, 2000);
	ItemPointerSet(&tid, 1, 1);
	e = mtp_entry(1000, &tid);
	mtp_hash_bucket_append(page, 1, &e);
	e = mtp_entry(2000, &tid);
	mtp_hash_bucket_append(page, 1, &e);
	p->heavy[0] = (MtpHashHeavy) {1000, 9};
	p->heavy[1] = (MtpHashHeavy) {2000, 9};
	h->nheavy = 2;
	memcpy(whole.data, page, BLCKSZ);

	((PageHeader) page)->pd_special -= 8;
	check_fault("the page header is damaged", &whole);
	h->page_id++;
	check_fault("the page is not a page of mtpower", &whole);
	h->type = MTP_HASH_FREE + 1;
	check_fault("the page is of unknown type", &whole);
	h->type = MTP_HASH_FREE;
	check_fault("the page claims to have entries, which its type has not", &whole);
	h->type = MTP_HASH_STASH;
	check_fault("the number of entries does not match the page header", &whole);
	h->format++;
	check_fault("the page has an unknown format", &whole);
	h->flags = 2;
	check_fault("the page has unknown flags", &whole);
	h->n = MTP_HASH_CAP(MTP_HASH_BUCKET) + 1;
	check_fault("the page claims more entries than it has room for", &whole);
	h->n--;
	check_fault("the number of entries does not match the page header", &whole);
	h->lo = h->hi + 1;
	check_fault("the bucket's hashes end before they begin", &whole);
	h->next = 0;
	check_fault("a link leads to the metapage", &whole);
	h->nheavy = MTP_HASH_MAX_HEAVY + 1;
	check_fault("the page claims more heavy hashes than it has room for", &whole);
	p->heavy[1].hash = 2001;
	check_fault("a heavy hash belongs to another bucket", &whole);
	p->heavy[1].first = InvalidBlockNumber;
	check_fault("a heavy hash has no chain", &whole);
	p->heavy[1].hash = 1000;
	check_fault("a heavy hash has two chains", &whole);
	MtpHashFps(page)[1]++;
	check_fault("a fingerprint does not match its hash", &whole);
	h->lo++;
	p->heavy[0].hash++;
	check_fault("an entry belongs to another bucket", &whole);
	h->hi--;
	p->heavy[1].hash--;
	check_fault("an entry belongs to another bucket", &whole);
	ItemPointerSetInvalid(&MtpHashEntryAt(page, 0)->tid);
	check_fault("an entry points to no row", &whole);

	mtp_hash_bucket_init(page, MTP_HASH_STASH, 3, 1000, 2000);
	memcpy(whole.data, page, BLCKSZ);
	h->nheavy = 1;
	check_fault("a stash page has what only a bucket's first page can have", &whole);
	h->source = 5;
	check_fault("a stash page has what only a bucket's first page can have", &whole);
}

static void
test_bucket(void)
{
	uint8		type = rnd(2) ? MTP_HASH_BUCKET : MTP_HASH_STASH;
	int			at;

	distinct = 1 + rnd(rnd(2) ? 5 : 2000);
	nmodel = 0;
	mtp_hash_bucket_init(page, type, 7, 0, PG_UINT32_MAX);
	mtp_hash_bucket_init(twin, type, 7, 0, PG_UINT32_MAX);
	check(mtp_hash_bucket_room(page) == MTP_HASH_CAP(type));
	for (int step = 0; step < 200; step++)
	{
		switch (rnd(10))
		{
			case 0:
				delete();
				break;
			case 1:
				if (rnd(10) == 0)
					retain();
				break;
			case 2:
			case 3:
				for (int i = rnd(20); nmodel > 0 && i > 0; i--)
				{
					int			k = rnd(nmodel);

					mtp_hash_bucket_set_dead(page, k);
					model[k].dead = true;
				}
				break;
			default:
				append();
		}
		check_page();
		check_mask();
		check_meta_mask();
		for (int i = 0; i < 4; i++)
			check_find(nmodel > 0 && rnd(2) ? mtp_entry_hash(&model[rnd(nmodel)].e) : random_hash());
	}
	check_damage();
	mtp_hash_bucket_init_free(page);
	check(mtp_hash_bucket_fault(page, &at) == NULL);
}

/* ---------- space.c ---------- */

/* The bucket as linear hashing says it: key mod (2^N * M), or mod (2^(N+1) * M) for those split already. */
static uint32
plain_bucket(const MtpHashSpace *s, uint32 hash)
{
	uint64		x = (uint64) hash * s->initial;
	uint64		key = 0;
	uint64		size = (uint64) s->initial << s->level;

	/* The key's digits to base 2 behind r: the fraction's bits, the first one the least significant. */
	for (int bit = 0; bit < 32; bit++)
		key += (uint64) ((x >> (31 - bit)) & 1) << bit;
	if ((key & ((UINT64CONST(1) << s->level) - 1)) * s->initial + (x >> 32) < s->next)
		size *= 2;
	return (uint32) ((x >> 32) + s->initial * (key & (size / s->initial - 1)));
}

static int
compare_intervals(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return (x > y) - (x < y);
}

static void
check_hash(const MtpHashSpace *s, uint32 hash)
{
	uint32		bucket = mtp_hash_space_bucket(s, hash);
	uint32		lo;
	uint32		hi;

	check(bucket == plain_bucket(s, hash));
	check(bucket < mtp_hash_space_size(s));
	mtp_hash_space_interval(s, bucket, &lo, &hi);
	check(lo <= hash && hash <= hi);
}

/* All intervals, in order, leave no hash out and have none twice. */
static void
check_tiles(const MtpHashSpace *s)
{
	uint32		b = mtp_hash_space_size(s);
	uint32		(*all)[2] = malloc(b * sizeof(*all));

	for (uint32 i = 0; i < b; i++)
	{
		mtp_hash_space_interval(s, i, &all[i][0], &all[i][1]);
		check(all[i][0] <= all[i][1]);
		check(mtp_hash_space_bucket(s, all[i][0]) == i && mtp_hash_space_bucket(s, all[i][1]) == i);
	}
	qsort(all, b, sizeof(*all), compare_intervals);
	check(all[0][0] == 0 && all[b - 1][1] == PG_UINT32_MAX);
	for (uint32 i = 1; i < b; i++)
		check(all[i][0] == (uint64) all[i - 1][1] + 1);
	free(all);
}

/* One split takes a part of one bucket, and leaves all others as they are. */
static void
check_grow(MtpHashSpace *s)
{
	MtpHashSpace old = *s;
	uint32		b = mtp_hash_space_size(s);
	uint32		split = mtp_hash_space_grow(s);
	uint32		lo[3];
	uint32		hi[3];

	check(split == old.next);
	check(mtp_hash_space_size(s) == b + 1);
	check(b == split + (old.initial << old.level));
	mtp_hash_space_interval(&old, split, &lo[0], &hi[0]);
	mtp_hash_space_interval(s, split, &lo[1], &hi[1]);
	mtp_hash_space_interval(s, b, &lo[2], &hi[2]);
	check(lo[1] == lo[0] && hi[2] == hi[0] && hi[1] < lo[2] && lo[2] == hi[1] + 1);
	for (int i = 0; i < 20; i++)
	{
		uint32		other = rnd(b);

		mtp_hash_space_interval(&old, other, &lo[0], &hi[0]);
		mtp_hash_space_interval(s, other, &lo[1], &hi[1]);
		check(other == split || (lo[0] == lo[1] && hi[0] == hi[1]));
	}
}

static void
test_space(uint32 initial, int grows)
{
	MtpHashSpace s = {.initial = initial};

	for (int i = 0; i < grows; i++)
	{
		if (i < 40 || i % 97 == 0)
			check_tiles(&s);
		for (int k = 0; k < 40; k++)
			check_hash(&s, (uint32) rnd64());
		check_hash(&s, 0);
		check_hash(&s, PG_UINT32_MAX);
		check_grow(&s);
	}

	/* Far up, to the last level that a hash has bits for. */
	for (uint32 level = 0; level < 31 && ((uint64) initial << level) <= UINT32_MAX / 2; level++)
	{
		uint32		next = rnd((uint64) initial << level);

		s = (MtpHashSpace) {.initial = initial,.level = level,.next = next};
		for (int k = 0; k < 200; k++)
		{
			check_hash(&s, (uint32) rnd64());
			check_hash(&s, k);
			check_hash(&s, PG_UINT32_MAX - k);
		}
		check_grow(&s);
		s.next = (initial << level) - 1;
		s.level = level;
		check_grow(&s);
		check(s.next == 0 && s.level == level + 1);
	}
}

/* Undoes mtp_hash_spread step by step; multiplied by the inverses of its factors. */
static uint32
unspread(uint32 h)
{
	h ^= h >> 16;
	h *= 0x7ED1B41D;
	h ^= h >> 13 ^ h >> 26;
	h *= 0xA5CB9243;
	return h ^ h >> 16;
}

int
main(int argc, char **argv)
{
	static const uint32 initials[] = {1, 2, 3, 367, 1000};
	int			rounds;

	if (argc != 3)
		die("usage: hash_test SEED ROUNDS");
	rng = UINT64CONST(88172645463325252) + atoi(argv[1]);
	rounds = atoi(argv[2]);
	page = malloc(BLCKSZ);
	twin = malloc(BLCKSZ);
	test_faults();
	for (int i = 0; i < rounds; i++)
		test_bucket();
	for (int i = 0; i < lengthof(initials); i++)
		test_space(initials[i], 3000);
	for (int i = 0; i < 100000; i++)
	{
		uint32		h = (uint32) rnd64();

		check(unspread(mtp_hash_spread(h)) == h);
	}
	puts("ok");
	return 0;
}
