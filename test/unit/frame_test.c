/*
 * frame_test.c
 *	  Frames under readers, writers, eviction, purges and extents that change their kind, all at once.
 *
 *	  frame_test SEED ROUNDS [VERBOSE]
 *
 * Threads stand for processes.  A page has a lock for its content, and a number that each change raises; its bytes follow from both.  A
 * writer changes a page and its neighbour, and tells the new numbers to everybody when their frames are stale ("commit").  A reader who
 * knows of a number, or has found it on the neighbour, must find no older page, no half of one, and no other one.
 */
#define MTP_FRAME_STEP(name) delay()
#define MTP_FRAME_MARK_BITS 2		/* so words mislead often */
static void delay(void);

#include "../../src/buffer/frame.c"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "server.h"

#define EXTENTS		4
#define FILES		4			/* even ones are indexes, odd ones tables */
#define BLOCKS		400
#define THREADS		6

#define check(condition) ((condition) ? (void) 0 : die("line %d: %s", __LINE__, #condition))

typedef struct TestPage
{
	pthread_rwlock_t content;
	uint64		number;
	pg_atomic_uint64 committed;
} TestPage;

static TestPage pages[FILES][BLOCKS];
static MtpBuffer buffer;
static LWLockPadded locks[MTP_FRAME_PARTITIONS + 1];
static pthread_mutex_t mutexes[MTP_FRAME_PARTITIONS + 1];
static uint64 rounds;
static pg_atomic_uint64 nfound, nmissed, nretried, npublished, nstale, npurges, nchanges;

static __thread uint64 state;	/* of random numbers */

static uint64
rnd(void)
{
	return mtp_pool_random(&state);
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
	RelFileNode node = {1663, 5, 16384 + file};

	return mtp_page_tag(node, block);
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
words_of(int file)
{
	return MTP_EXTENT_BYTES / mtp_pool_frames(kind_of(file)) / sizeof(uint64);
}

static void
publish(int file, int block)
{
	uint64		image[2 * BLCKSZ / sizeof(uint64)];

	for (int i = 0; i < words_of(file); i++)
		image[i] = word(file, block, pages[file][block].number, i);
	if (mtp_frame_publish(&buffer, tag_of(file, block), kind_of(file), (char *) image, &state))
		pg_atomic_fetch_add_u64(&npublished, 1);
}

/* ---------- readers, writers, and who purges ---------- */

/* Reads a page that is of number `known` at least.  Returns its number, or known. */
static uint64
read_page(int file, int block, uint64 known)
{
	uint64		copy[8];
	int			at[8];
	MtpFrameRef ref;
	uint32		before;

	if (!mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), (uint8) rnd(), &ref))
	{
		pg_atomic_fetch_add_u64(&nmissed, 1);
		pthread_rwlock_rdlock(&pages[file][block].content);
		publish(file, block);
		pthread_rwlock_unlock(&pages[file][block].content);
		before = buffer.pool->kinds[MTP_FRAME_TABLE].nextents;
		mtp_frame_consider(&buffer, kind_of(file), &state);
		if (before != buffer.pool->kinds[MTP_FRAME_TABLE].nextents)
			pg_atomic_fetch_add_u64(&nchanges, 1);
		return known;
	}
	for (int i = 0; i < 8; i++)
	{
		at[i] = i < 3 ? i : 3 + rnd() % (words_of(file) - 3);
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
		mtp_frame_stale(&buffer, tag_of(file, (block & ~1) + i));
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

static bool
of_file(MtpPageTag tag, void *arg)
{
	return tag.page >> 32 == tag_of(*(int *) arg, 0).page >> 32;
}

/* Nobody publishes pages of the file meanwhile, as under a lock on the table. */
static void
purge_file(int file)
{
	MtpFrameRef ref;

	for (int block = 0; block < BLOCKS; block++)
		pthread_rwlock_wrlock(&pages[file][block].content);
	mtp_frame_purge(&buffer, of_file, &file);
	for (int block = 0; block < BLOCKS; block++)
		check(!mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), 0, &ref));
	for (int block = 0; block < BLOCKS; block++)
		pthread_rwlock_unlock(&pages[file][block].content);
	pg_atomic_fetch_add_u64(&npurges, 1);
}

static void *
work(void *arg)
{
	state = (uint64) arg;
	for (uint64 i = 0; i < rounds; i++)
	{
		/* Now most accesses are of indexes, now of tables. */
		int			favour = pg_atomic_read_u64(&nfound) / 30000 % 2;
		int			file = rnd() % (FILES / 2) * 2 + (rnd() % 8 == 0 ? 1 - favour : favour);
		int			block = rnd() % BLOCKS * (rnd() % BLOCKS) / BLOCKS;

		mtp_pool_tick(buffer.pool, 1);
		if (rnd() % 10 == 0)
			write_pages(file, block);
		else
			read_pages(file, block);
		if (rnd() % 30000 == 0)
			purge_file(file);
	}
	return NULL;
}

/* Nobody is at a frame any more: each page is found by one word, and what is free has none. */
static void
check_end(void)
{
	uint32		nframes = buffer.pool->nextents * MTP_EXTENT_FRAMES;
	uint32		led = 0,
				used = 0;

	for (uint32 i = 0; i < (buffer.bucket_mask + 1) * MTP_FRAME_PARTITIONS * MTP_BUCKET_WORDS; i++)
		led += pg_atomic_read_u64(&buffer.words[i]) != 0;
	for (uint32 i = 0; i < nframes; i++)
	{
		check(pg_atomic_read_u64(&buffer.heads[i].version) % 2 == 0);
		used += buffer.heads[i].tag.page != 0;
	}
	check(led == used);
	check(buffer.pool->nfree + buffer.pool->kinds[MTP_FRAME_INDEX].nextents + buffer.pool->kinds[MTP_FRAME_TABLE].nextents == EXTENTS);
	for (int file = 0; file < FILES; file++)
		for (int block = 0; block < BLOCKS; block++)
		{
			MtpFrameRef ref;

			if (mtp_frame_find(&buffer, tag_of(file, block), kind_of(file), 0, &ref))
			{
				used--;
				check(((const uint64 *) ref.image)[2] == pages[file][block].number);
				check(buffer.pool->kind_of[ref.frame / MTP_EXTENT_FRAMES] == kind_of(file));
			}
		}
	check(used == 0);
}

int
main(int argc, char **argv)
{
	uint64		seed = strtoull(argv[1], NULL, 10);
	pthread_t	threads[THREADS];
	void	   *memory = aligned_alloc(PG_CACHE_LINE_SIZE, TYPEALIGN(PG_CACHE_LINE_SIZE, mtp_frame_size(EXTENTS)));

	rounds = strtoull(argv[2], NULL, 10);
	mtp_heat_init();
	for (int i = 0; i <= MTP_FRAME_PARTITIONS; i++)
		pthread_mutex_init(&mutexes[i], NULL);
	for (int file = 0; file < FILES; file++)
		for (int block = 0; block < BLOCKS; block++)
		{
			pthread_rwlock_init(&pages[file][block].content, NULL);
			pg_atomic_init_u64(&pages[file][block].committed, 0);
		}
	mtp_frame_make(&buffer, mtp_pool_make(malloc(mtp_pool_size(EXTENTS)), EXTENTS, 2), memory, malloc(EXTENTS * MTP_EXTENT_BYTES), locks);
	for (uint64 i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, work, (void *) ((seed * THREADS + i + 1) * UINT64CONST(0x9E3779B97F4A7C15))) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check_end();
	if (argc > 3)
		fprintf(stderr, "found " UINT64_FORMAT ", missed " UINT64_FORMAT ", changed meanwhile " UINT64_FORMAT ", published " UINT64_FORMAT ", written " UINT64_FORMAT ", purges " UINT64_FORMAT ", extents changed " UINT64_FORMAT " times\n",
				pg_atomic_read_u64(&nfound), pg_atomic_read_u64(&nmissed), pg_atomic_read_u64(&nretried), pg_atomic_read_u64(&npublished), pg_atomic_read_u64(&nstale), pg_atomic_read_u64(&npurges), pg_atomic_read_u64(&nchanges));

	/* Frames have been taken from pages ten times over, and readers have met that. */
	check(pg_atomic_read_u64(&npublished) > 10 * EXTENTS * MTP_EXTENT_FRAMES);
	check(pg_atomic_read_u64(&nretried) > 0 && pg_atomic_read_u64(&npurges) > 0 && pg_atomic_read_u64(&nchanges) > EXTENTS);
	puts("ok");
	return 0;
}
