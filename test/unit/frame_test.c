/*
 * frame_test.c
 *	  Frames under readers, writers, eviction, purges and slabs that change their kind, all at once.
 *
 *	  frame_test SEED ROUNDS [VERBOSE]
 *
 * Threads stand for processes.  A page has a lock for its content, and a number that each change raises; its bytes follow from both.  A
 * writer changes a page and its neighbour, and tells the new numbers to everybody when their frames are stale ("commit").  A reader who
 * knows of a number, or has found it on the neighbour, must find no older page, no half of one, and no other one.
 *
 * Pairs of table blocks (here, one page with one lock) are unlocked before their frames are made stale, so what a reader has found tells it nothing:
 * it knows what has been committed.  A change has new rows or not, and their number is what a directory is made of: it is reserved
 * under the lock, and filled later, or given up.  Its frame has one of two sizes, and what turns out to be too large for it is reserved anew.
 */
#define MTP_FRAME_STEP(name) delay()
#define MTP_FRAME_MARK_BITS 2		/* so words mislead often */
static void delay(void);

#include "../../src/buffer/frame.c"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "server.h"

#define SLABS		4
#define FILES		4			/* even ones are indexes, odd ones tables */
#define DIRECTORY_OF(file)	(FILES + (file))	/* as a directory's words say it */
#define BLOCKS		400
#define THREADS		6

#define check(condition) ((condition) ? (void) 0 : die("line %d: %s", __LINE__, #condition))

typedef struct TestPage
{
	pthread_rwlock_t content;
	uint64		number;
	uint64		rows;
	pg_atomic_uint64 committed;
	pg_atomic_uint64 committed_rows;
} TestPage;

static TestPage pages[FILES][BLOCKS];
static pthread_rwlock_t tables[FILES];
static MtpBuffer buffer;
static LWLockPadded locks[MTP_FRAME_PARTITIONS + 1];
static pthread_mutex_t mutexes[MTP_FRAME_PARTITIONS + 1];
static uint64 rounds;
static pg_atomic_uint64 nfound, nmissed, nretried, npublished, nstale, npurges, nchanges, nfilled, ndropped, nempty, noutgrown;

static __thread uint64 state;	/* of random numbers */

static uint64
rnd(void)
{
	return mtp_policy_random(&state);
}

/* At each step of the protocol: mostly nothing, at times the others' turn, or a while. */
static void
delay(void)
{
	uint64		dice = rnd() % 4096;
	struct timespec long_while = {0, rnd() % 2000000};

	if (dice == 0)
		nanosleep(&long_while, NULL);
	else if (dice < 128)
		sched_yield();
	else if (dice < 256)
		for (volatile int i = rnd() % 3000; i > 0; i--)
			;
}

/* ---------- what the server has ---------- */

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	pthread_mutex_lock(&mutexes[(LWLockPadded *) lock - locks]);
	return true;
}

bool
LWLockConditionalAcquire(LWLock *lock, LWLockMode mode)
{
	return pthread_mutex_trylock(&mutexes[(LWLockPadded *) lock - locks]) == 0;
}

void
LWLockRelease(LWLock *lock)
{
	pthread_mutex_unlock(&mutexes[(LWLockPadded *) lock - locks]);
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

/* ---------- pages ---------- */

static int
kind_of(int file)
{
	return file % 2 == 0 ? MTP_FRAME_INDEX : MTP_FRAME_TABLE;
}

static MtpPageTag
tag_of(int file, int block)
{
	MtpLocator	locator = {1663, 5, 16384 + file};

	return mtp_page_tag(locator, block);
}

/* The i-th word of a page */
static uint64
word(int file, int block, uint64 number, int i)
{
	switch (i)
	{
		case 0: return file;
		case 1: return block;
		case 2: return number;
		default: return (number * FILES + file) * BLOCKS + block + (uint64) i * UINT64CONST(0x9E3779B97F4A7C15);
	}
}

static int
words_of(int kind)
{
	return mtp_policy_frame_bytes(kind) / sizeof(uint64);
}

static void
publish(int file, int block)
{
	uint64		image[2 * BLCKSZ / sizeof(uint64)];
	const char *blocks[2] = {(char *) image, (char *) image + BLCKSZ};
	MtpFramePlace place;

	if (!mtp_frame_place(&buffer, tag_of(file, block), kind_of(file), false, &state, &place))
		return;
	for (int i = 0; i < words_of(kind_of(file)); i++)
		image[i] = word(file, block, pages[file][block].number, i);
	if (mtp_frame_publish(&buffer, tag_of(file, block), kind_of(file), &place, blocks, NULL))
		pg_atomic_fetch_add_u64(&npublished, 1);
}

/* What a directory has: as many words as the fourth one says. */
static uint64
directory_word(int file, int block, uint64 rows, uint64 n, int i)
{
	return i == 3 ? n : word(DIRECTORY_OF(file), block, rows, i);
}

/* In a frame of this kind; n words. */
static void
build_in(int file, int block, int kind, uint64 n)
{
	TestPage   *page = &pages[file][block];
	MtpPageTag	tag = tag_of(file, block);
	uint64		directory[MTP_PAGEDIR_BYTES / sizeof(uint64)];
	uint64		rows;
	MtpFramePlace place;
	MtpFrameRef ref;
	bool		reserved;

	pthread_rwlock_rdlock(&page->content);
	rows = page->rows;
	delay();
	reserved = mtp_frame_place(&buffer, tag, kind, rnd() % 16 == 0, &state, &place) &&
		mtp_frame_publish(&buffer, tag, kind, &place, NULL, &ref);
	pthread_rwlock_unlock(&page->content);
	if (!reserved)
		return;
	delay();
	for (int i = 0; i < n; i++)
		directory[i] = directory_word(file, block, rows, n, i);
	if (n > words_of(kind))
	{
		mtp_frame_fill(&buffer, tag, &ref, NULL, 0);
		delay();
		pg_atomic_fetch_add_u64(&noutgrown, 1);
		build_in(file, block, MTP_FRAME_PAGEDIR, n);
	}
	else
		pg_atomic_fetch_add_u64(mtp_frame_fill(&buffer, tag, &ref, (char *) directory, n * sizeof(uint64)) ? &nfilled : &ndropped, 1);
}

static int
some_directory(void)
{
	return rnd() % 2 == 0 ? MTP_FRAME_SMALL : MTP_FRAME_PAGEDIR;
}

static void
build_directory(int file, int block)
{
	uint64		n = rnd() % 16 == 0 ? 0 : 8 + rnd() % (words_of(some_directory()) - 7);

	pthread_rwlock_rdlock(&tables[file]);
	build_in(file, block, some_directory(), n);
	pthread_rwlock_unlock(&tables[file]);
}

/* ---------- readers, writers, and who purges ---------- */

static void
consider(int kind)
{
	uint32		before = buffer.policy->kinds[kind].nslabs;

	mtp_frame_consider(&buffer, kind, &state);
	if (before != buffer.policy->kinds[kind].nslabs)
		pg_atomic_fetch_add_u64(&nchanges, 1);
}

/* Reads a page that is of number `known` at least.  Returns its number, or known. */
static uint64
read_page(int file, int block, uint64 known)
{
	uint64		copy[8];
	int			at[8];
	MtpFrameRef ref;

	if (!mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), (uint8) rnd(), 0, 0, &ref))
	{
		pg_atomic_fetch_add_u64(&nmissed, 1);
		pthread_rwlock_rdlock(&pages[file][block].content);
		publish(file, block);
		pthread_rwlock_unlock(&pages[file][block].content);
		consider(kind_of(file));
		return known;
	}
	for (int i = 0; i < 8; i++)
	{
		at[i] = i < 3 ? i : 3 + rnd() % (words_of(kind_of(file)) - 3);
		copy[i] = ((const volatile uint64 *) ref.image)[at[i]];
		delay();
	}
	if (!mtp_frame_still(&buffer, &ref))
	{
		pg_atomic_fetch_add_u64(&nretried, 1);
		return known;
	}
	pg_atomic_fetch_add_u64(&nfound, 1);
	check(copy[0] == file && copy[1] == block);
	check(copy[2] >= known);
	for (int i = 3; i < 8; i++)
		check(copy[i] == word(file, block, copy[2], at[i]));
	return copy[2];
}

/* Reads a directory that has this number of rows at least. */
static void
read_directory(int file, int block, uint64 known)
{
	MtpFrameRef ref;
	uint64		copy[8],
				n;
	int			at[8];
	static _Thread_local uint32 was[FILES][BLOCKS]; /* where it was some time ago */
	bool		found;

	ref.frame = was[file][block] - 1 - rnd() % 2;
	found = (rnd() % 2 == 0 ? mtp_frame_find_next : mtp_frame_find) (&buffer, tag_of(file, block), MTP_FRAME_PAGEDIR, (uint8) rnd(), 0, 0, &ref);
	if (found)
		was[file][block] = ref.frame;
	if (!found)
	{
		pg_atomic_fetch_add_u64(&nmissed, 1);
		build_directory(file, block);
		consider(some_directory());
		return;
	}
	n = ((const volatile uint64 *) ref.image)[3];
	for (int i = 7; i >= 0; i--)
	{
		at[i] = i < 4 || n < 8 || n > words_of(MTP_FRAME_PAGEDIR) ? i : 4 + rnd() % (n - 4);
		copy[i] = ((const volatile uint64 *) ref.image)[at[i]];
		delay();
	}
	if (!mtp_frame_still(&buffer, &ref))
		pg_atomic_fetch_add_u64(&nretried, 1);
	else if (copy[0] == 0)
		pg_atomic_fetch_add_u64(&nempty, 1);
	else
	{
		pg_atomic_fetch_add_u64(&nfound, 1);
		check(copy[0] == DIRECTORY_OF(file) && copy[1] == block);
		check(copy[2] >= known);
		check(copy[3] == n);
		for (int i = 4; i < 8; i++)
			check(copy[i] == directory_word(file, block, copy[2], n, at[i]));
	}
}

/* With a snapshot, which comes first */
static void
read_pair(int file, int block)
{
	uint64		known = pg_atomic_read_u64(&pages[file][block].committed);
	uint64		known_rows = pg_atomic_read_u64(&pages[file][block].committed_rows);

	pg_read_barrier();
	if (rnd() % 2 == 0)
		(void) read_page(file, block, known);
	else
		read_directory(file, block, known_rows);
}

static void
read_pages(int file, int block)
{
	uint64		known = pg_atomic_read_u64(&pages[file][block].committed);

	pg_read_barrier();
	known = read_page(file, block, known);
	pg_read_barrier();
	if (rnd() % 2 == 0)
		(void) read_page(file, block ^ 1, known);
}

/* Locks are taken from left to right, and let go of in any order. */
static void
write_pages(int file, int block)
{
	int			first = rnd() % 2;

	for (int i = 0; i < 2; i++)
		pthread_rwlock_wrlock(&pages[file][(block & ~1) + i].content);
	for (int i = 0; i < 2; i++)
	{
		TestPage   *page = &pages[file][(block & ~1) + i];

		page->number++;
		delay();
		mtp_frame_stale(&buffer, tag_of(file, (block & ~1) + i), rnd() % 8 == 0);
		pg_atomic_fetch_add_u64(&nstale, 1);
	}
	for (int i = 0; i < 2; i++)
	{
		TestPage   *page = &pages[file][(block & ~1) + (i ^ first)];

		pg_write_barrier();
		pg_atomic_write_u64(&page->committed, page->number);
		pthread_rwlock_unlock(&page->content);
		delay();
	}
}

/* Others may have committed what came later. */
static void
commit(pg_atomic_uint64 *committed, uint64 number)
{
	uint64		now = pg_atomic_read_u64(committed);

	while (now < number && !pg_atomic_compare_exchange_u64(committed, &now, number));
}

static void
write_pair(int file, int block)
{
	TestPage   *page = &pages[file][block];
	bool		new_rows = rnd() % 2 == 0;
	uint64		number,
				rows;

	pthread_rwlock_wrlock(&page->content);
	number = ++page->number;
	rows = page->rows += new_rows;
	pthread_rwlock_unlock(&page->content);
	delay();
	mtp_frame_stale_pair(&buffer, tag_of(file, block), new_rows);
	pg_atomic_fetch_add_u64(&nstale, 1);
	pg_write_barrier();
	commit(&page->committed, number);
	if (new_rows)
		commit(&page->committed_rows, rows);
}

static bool
of_file(MtpPageTag tag, void *arg)
{
	return tag.page >> 32 == tag_of(*(int *) arg, 0).page >> 32;
}

/* Nobody publishes pages of the file meanwhile, or fills a directory, as under a lock on the table. */
static void
purge_file(int file)
{
	MtpFrameRef ref;

	pthread_rwlock_wrlock(&tables[file]);
	for (int block = 0; block < BLOCKS; block++)
		pthread_rwlock_wrlock(&pages[file][block].content);

	/* Block by block, now and then of fewer than the file has had, or all at once; what the count says is all that there is. */
	if (mtp_frame_has_file(&buffer, tag_of(file, 0)) && rnd() % 2 == 0)
		for (int block = rnd() % 2 == 0 ? BLOCKS / 2 : 0; block < BLOCKS; block++)
			mtp_frame_purge_page(&buffer, tag_of(file, block));
	if (mtp_frame_has_file(&buffer, tag_of(file, 0)))
		mtp_frame_purge(&buffer, of_file, &file);
	for (int block = 0; block < BLOCKS; block++)
	{
		check(!mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), 0, 0, 0, &ref));
		check(!mtp_frame_find(&buffer, tag_of(file, block), MTP_FRAME_PAGEDIR, 0, 0, 0, &ref));
	}
	for (int block = 0; block < BLOCKS; block++)
		pthread_rwlock_unlock(&pages[file][block].content);
	pthread_rwlock_unlock(&tables[file]);
	pg_atomic_fetch_add_u64(&npurges, 1);
}

/* Has what comes about by chance alone, when one thread stops at the right moment, come about? */
static bool
all_met(void)
{
	return pg_atomic_read_u64(&nretried) > 0 && pg_atomic_read_u64(&ndropped) > 0 && pg_atomic_read_u64(&nempty) > 0;
}

/* On a busy machine threads meet seldom: then more rounds. */
static void *
work(void *arg)
{
	state = (uint64) arg;
	for (uint64 i = 0; i < rounds || (i < 20 * rounds && !all_met()); i++)
	{
		/* Now most accesses are of indexes, now of tables. */
		int			favour = pg_atomic_read_u64(&nfound) / 30000 % 2;
		int			file = rnd() % (FILES / 2) * 2 + (rnd() % 8 == 0 ? 1 - favour : favour);
		int			block = rnd() % BLOCKS * (rnd() % BLOCKS) / BLOCKS;

		mtp_policy_tick(buffer.policy, 1, 0);
		if (rnd() % 10 == 0)
			(kind_of(file) == MTP_FRAME_INDEX ? write_pages : write_pair) (file, block);
		else
			(kind_of(file) == MTP_FRAME_INDEX ? read_pages : read_pair) (file, block);
		if (rnd() % 30000 == 0)
			purge_file(file);
	}
	return NULL;
}

/* Frames of all files, which have counters of their own here */
static uint32
counted(void)
{
	uint32		n = 0;

	for (int file = 0; file < FILES; file++)
	{
		for (int other = 0; other < file; other++)
			check(frames_of_file(&buffer, tag_of(file, 0)) != frames_of_file(&buffer, tag_of(other, 0)));
		n += pg_atomic_read_u32(frames_of_file(&buffer, tag_of(file, 0)));
	}
	return n;
}

/* Nobody is at a frame any more: each page is found by one word, and what is free has none. */
static void
check_end(void)
{
	uint32		nframes = buffer.policy->nslabs * MTP_SLAB_FRAMES;
	uint32		led = 0,
				used = 0,
				slabs = 0;

	for (uint32 i = 0; i < (buffer.bucket_mask + 1) * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS; i++)
		led += pg_atomic_read_u64(&buffer.words[i]) != 0;
	for (uint32 i = 0; i < nframes; i++)
	{
		check(pg_atomic_read_u64(&buffer.headers[i].version) % 2 == 0);
		used += buffer.headers[i].tag.page != 0;
	}
	check(led == used);
	check(counted() == used);
	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
		slabs += buffer.policy->kinds[kind].nslabs;
	check(buffer.policy->nfree + slabs == SLABS);
	for (int file = 0; file < FILES; file++)
		for (int block = 0; block < BLOCKS; block++)
		{
			MtpFrameRef ref;

			if (mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), 0, 0, 0, &ref))
			{
				used--;
				check(((const uint64 *) ref.image)[2] == pages[file][block].number);
				check(buffer.policy->kind_of[ref.frame / MTP_SLAB_FRAMES] == kind_of(file));
			}
			if (mtp_frame_find(&buffer, tag_of(file, block), MTP_FRAME_PAGEDIR, 0, 0, 0, &ref))
			{
				used--;
				check(((const uint64 *) ref.image)[0] == DIRECTORY_OF(file) && ((const uint64 *) ref.image)[2] == pages[file][block].rows);
				check(kind_of(file) == MTP_FRAME_TABLE && mtp_policy_page_kind(mtp_frame_kind(&buffer, ref.frame)) == MTP_FRAME_PAGEDIR);
				check(((const uint64 *) ref.image)[3] <= words_of(mtp_frame_kind(&buffer, ref.frame)));
			}
		}
	check(used == 0);
}

/* How often a page is copied that is changed a thousand times, and read so many times before each; a pair is named by a block of its own. */
static int
copies(int kind, int block, int reads)
{
	MtpPageTag	tag = tag_of(kind == MTP_FRAME_INDEX ? 0 : 1, block);
	static const char image[2 * BLCKSZ];
	const char *blocks[] = {image, image + BLCKSZ};
	int			n = 0;

	for (int i = 0; i < 1000 * (reads + 1); i++)
	{
		MtpFrameRef ref;
		MtpFramePlace place;

		if (i % (reads + 1) < reads)
		{
			if (mtp_frame_find(&buffer, tag, kind, (uint8) rnd(), 0, 0, &ref))
			{
				/* A directory's reader counts its access. */
				if (kind == MTP_FRAME_PAGEDIR)
					mtp_frame_accessed(&buffer, ref.frame, kind, (uint8) rnd());
				continue;
			}
			mtp_frame_consider(&buffer, kind, &state);
			n += mtp_frame_place(&buffer, tag, kind, false, &state, &place) &&
				mtp_frame_publish(&buffer, tag, kind, &place, kind == MTP_FRAME_PAGEDIR ? NULL : blocks, NULL);
		}
		else if (kind == MTP_FRAME_INDEX)
			mtp_frame_stale(&buffer, tag, false);
		else
			mtp_frame_stale_pair(&buffer, tag, true);
	}
	return n;
}

/*
 * A page that changes as often as it is read is hardly ever copied, one that is read much is each time; and an index page that is copied
 * again takes no frame that has not been used.
 */
static void
test_rests(void)
{
	check(copies(MTP_FRAME_INDEX, 0, 2) < 100);
	check(copies(MTP_FRAME_INDEX, 1, 200) > 900);
	check(buffer.policy->kinds[MTP_FRAME_INDEX].fresh <= 4);
}

/* A process's last free index frame, in a slab that has become the tables': they have fewer frames, and the memory behind these is another slab's. */
static void
test_spare(void)
{
	uint32		slab = buffer.policy->slabs[MTP_FRAME_INDEX][0];
	MtpFramePlace place;

	change_slab(&buffer, slab, MTP_FRAME_TABLE);
	check(mtp_frame_kind(&buffer, slab * MTP_SLAB_FRAMES) == MTP_FRAME_TABLE);
	buffer.spare = slab * MTP_SLAB_FRAMES + mtp_policy_frames(MTP_FRAME_INDEX);	/* the last one's number, plus one */
	check(mtp_frame_place(&buffer, tag_of(0, 0), MTP_FRAME_TABLE, false, &state, &place));
	check(place.frame % MTP_SLAB_FRAMES < mtp_policy_frames(MTP_FRAME_TABLE));
}

/* Directories of a size that are made one after another, of frames that were given out before and are free: they lie side by side, and who goes through them finds each. */
static void
test_behind(int kind)
{
	MtpFrameRef ref = {0};
	int			nframes = mtp_policy_frames(kind),
				file = 1,
				n = 0,
				beside = 0,
				found = 0;

	for (int round = 0; round < 2; round++)
	{
		mtp_frame_purge(&buffer, of_file, &file);
		for (int block = 0; block < nframes * 3 / 4; block++)
		{
			MtpFramePlace place;
			uint32		last = ref.frame;

			if (round == 0)
				mtp_frame_consider(&buffer, kind, &state);
			if (!mtp_frame_place(&buffer, tag_of(file, block), kind, true, &state, &place))
				continue;
			check(mtp_frame_publish(&buffer, tag_of(file, block), kind, &place, NULL, &ref));
			n += round;
			beside += round > 0 && ref.frame == last + 1;
		}
		/* Those that nobody has had yet are used up. */
		buffer.policy->kinds[kind].fresh = nframes;
	}
	check(n > nframes / 2 && beside > n * 3 / 4);
	ref.frame = 0;
	for (int block = 0; block < nframes * 3 / 4; block++)
		if (mtp_frame_find_next(&buffer, tag_of(file, block), MTP_FRAME_PAGEDIR, 0, 0, 0, &ref))
		{
			check(buffer.headers[ref.frame].tag.page == tag_of(file, block).page && mtp_frame_still(&buffer, &ref));
			found++;
		}
	check(found == n);
	check(mtp_frame_has_file(&buffer, tag_of(file, 0)));
	for (int block = 0; block < MTP_SLAB_FRAMES * 3 / 4; block++)
		mtp_frame_purge_page(&buffer, tag_of(file, block));
	check(!mtp_frame_has_file(&buffer, tag_of(file, 0)));
}

/* So it is with images and directories of pairs. */
static void
test_rests_of_pairs(void)
{
	int			file = 1;

	check(copies(MTP_FRAME_TABLE, 0, 2) < 100);
	check(copies(MTP_FRAME_TABLE, 1, 200) > 900);
	check(copies(MTP_FRAME_PAGEDIR, 2, 1) < 60);
	check(copies(MTP_FRAME_PAGEDIR, 3, 8) > 900);
	mtp_frame_purge(&buffer, of_file, &file);
}

int
main(int argc, char **argv)
{
	uint64		seed = strtoull(argv[1], NULL, 10);
	pthread_t	threads[THREADS];
	void	   *memory = aligned_alloc(PG_CACHE_LINE_SIZE, TYPEALIGN(PG_CACHE_LINE_SIZE, mtp_frame_size(SLABS)));

	rounds = strtoull(argv[2], NULL, 10);
	mtp_heat_init();
	for (int i = 0; i <= MTP_FRAME_PARTITIONS; i++)
		pthread_mutex_init(&mutexes[i], NULL);
	for (int file = 0; file < FILES; file++)
		pthread_rwlock_init(&tables[file], NULL);
	for (int file = 0; file < FILES; file++)
		for (int block = 0; block < BLOCKS; block++)
		{
			pthread_rwlock_init(&pages[file][block].content, NULL);
			pg_atomic_init_u64(&pages[file][block].committed, 0);
			pg_atomic_init_u64(&pages[file][block].committed_rows, 0);
		}
	mtp_frame_make(&buffer, mtp_policy_make(malloc(mtp_policy_size(SLABS)), SLABS, 2), memory, malloc(SLABS * MTP_SLAB_BYTES + BLCKSZ), locks);
	state = seed + 1;
	test_rests();
	test_spare();
	test_behind(MTP_FRAME_PAGEDIR);
	test_behind(MTP_FRAME_SMALL);
	test_rests_of_pairs();
	for (uint64 i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, work, (void *) ((seed * THREADS + i + 1) * UINT64CONST(0x9E3779B97F4A7C15))) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check_end();
	if (argc > 3)
		fprintf(stderr, "found " UINT64_FORMAT ", missed " UINT64_FORMAT ", changed meanwhile " UINT64_FORMAT ", published " UINT64_FORMAT ", written " UINT64_FORMAT ", purges " UINT64_FORMAT ", slabs changed " UINT64_FORMAT " times, directories filled " UINT64_FORMAT ", gone before " UINT64_FORMAT ", found empty " UINT64_FORMAT ", outgrown " UINT64_FORMAT "\n",
				pg_atomic_read_u64(&nfound), pg_atomic_read_u64(&nmissed), pg_atomic_read_u64(&nretried), pg_atomic_read_u64(&npublished), pg_atomic_read_u64(&nstale), pg_atomic_read_u64(&npurges), pg_atomic_read_u64(&nchanges),
				pg_atomic_read_u64(&nfilled), pg_atomic_read_u64(&ndropped), pg_atomic_read_u64(&nempty), pg_atomic_read_u64(&noutgrown));

	/* Frames have been taken from pages ten times over, and readers have met that. */
	check(pg_atomic_read_u64(&npublished) > 10 * SLABS * MTP_SLAB_BLOCKS);
	check(all_met());
	check(pg_atomic_read_u64(&npurges) > 0 && pg_atomic_read_u64(&nchanges) > SLABS);
	check(pg_atomic_read_u64(&nfilled) > 1000 && pg_atomic_read_u64(&noutgrown) > 100);
	puts("ok");
	return 0;
}
