/*
 * pool_file_test.c
 *	  The file of frames on memory that loses what is not durable, whenever the machine stops.
 *
 *	  pool_file_test SEED ROUNDS [deaf|VERBOSE]
 *
 * A round is a new file and a few servers, one after the other: pages are read, change, and are sealed by a worker; then the server ends well, or the machine stops
 * at one of the calls of libpmem (loss.c).  The next one begins with what is left of the file.  No frame that it believes may have another content
 * than its page has; if the end was complete, it must believe each that was sealed.  "deaf": nothing is ever durable, which must not go well.
 */
#include "pmem/file.h"

#include "loss.h"
#include "server.h"

#define SLABS		2
#define INDEXES		40			/* pages, each kind */
#define PAGES		(2 * INDEXES)
#define SERVERS		5

#define check(condition) ((condition) ? (void) 0 : die("round " UINT64_FORMAT ", line %d: %s", this_round, __LINE__, #condition))

enum							/* processes */
{
	POSTMASTER, WORKER, BACKENDS
};

static uint64 this_round;
static uint64 state;			/* of random numbers */
static uint64 numbers[PAGES];	/* of changes of each page */
static MtpBuffer buffer;
static MtpPmem home;
static MtpPmemState control;
static bool whole;				/* the last server has ended, and nothing came in between */
static uint32 left_behind;		/* and sealed so many */
static int	patience;			/* frames that the end has time for */
static uint64 nstopped, nstopped_sealing, nfound, nbelieved, nwhole, nnone;

static uint64
rnd(uint64 n)
{
	return (mtp_policy_random(&state) >> 16) % n;
}

/* ---------- what the server has ---------- */

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	return true;
}

bool
LWLockConditionalAcquire(LWLock *lock, LWLockMode mode)
{
	return true;
}

void
LWLockRelease(LWLock *lock)
{
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
kind_of(int page)
{
	return page < INDEXES ? MTP_FRAME_INDEX : MTP_FRAME_TABLE;
}

static MtpPageTag
tag_of(int page)
{
	MtpLocator	file;

	MtpLocatorSpace(file) = 1663;
	MtpLocatorDatabase(file) = 5;
	MtpLocatorFile(file) = 16384 + kind_of(page);
	return mtp_page_tag(file, page % INDEXES * 2);
}

static void
fill(int page, uint64 *image)
{
	for (int i = 0; i < mtp_policy_frame_bytes(kind_of(page)) / (int) sizeof(uint64); i++)
		image[i] = (numbers[page] * PAGES + page) * UINT64CONST(0x9E3779B97F4A7C15) + i;
}

static void
read_page(int page)
{
	static uint64 image[2 * BLCKSZ / sizeof(uint64)];
	const char *blocks[2] = {(char *) image, (char *) image + BLCKSZ};
	MtpFramePlace place;
	MtpFrameRef ref;

	if (mtp_frame_find(&buffer, tag_of(page), kind_of(page), (uint8) rnd(256), 0, 0, &ref))
		return;
	fill(page, image);
	if (mtp_frame_place(&buffer, tag_of(page), kind_of(page), false, &state, &place))
		(void) mtp_frame_publish(&buffer, tag_of(page), kind_of(page), &place, blocks, NULL);
	mtp_frame_consider(&buffer, kind_of(page), &state);
}

static void
change_page(int page)
{
	numbers[page]++;
	if (kind_of(page) == MTP_FRAME_INDEX)
		mtp_frame_stale(&buffer, tag_of(page), false);
	else
		mtp_frame_stale_pair(&buffer, tag_of(page), true);
}

/* All that is found is as its page. */
static uint32
check_pages(void)
{
	static uint64 image[2 * BLCKSZ / sizeof(uint64)];
	uint32		found = 0;

	for (int page = 0; page < PAGES; page++)
	{
		MtpFrameRef ref;

		if (!mtp_frame_find(&buffer, tag_of(page), kind_of(page), 0, 0, 0, &ref))
			continue;
		found++;
		fill(page, image);
		check(memcmp(ref.image, image, mtp_policy_frame_bytes(kind_of(page))) == 0);
	}
	return found;
}

/* ---------- a server ---------- */

static bool
always(void)
{
	return true;
}

static bool
is_patient(void)
{
	return patience-- > 0;
}

/* What fork and shared memory make new. */
static void
make_buffer(void)
{
	static void *pool,
			   *memory;
	static uint64 *sealed;
	static LWLockPadded locks[MTP_FRAME_PARTITIONS + 1];

	if (pool == NULL)
	{
		pool = malloc(mtp_policy_size(SLABS));
		memory = aligned_alloc(PG_CACHE_LINE_SIZE, TYPEALIGN(PG_CACHE_LINE_SIZE, mtp_frame_size(SLABS)));
		sealed = malloc(mtp_pmem_shared(SLABS));
	}
	memset(&buffer, 0, sizeof(buffer));
	memset(sealed, 0, mtp_pmem_shared(SLABS));
	home.sealed = sealed;
	mtp_frame_make(&buffer, mtp_policy_make(pool, SLABS, 2), memory, home.images, locks);
	buffer.copy = mtp_pmem_copy;
}

static void
start(void)
{
	MtpPmemMarker marker;
	MtpTaken	taken = {0};

	loss_process = POSTMASTER;
	make_buffer();
	if (mtp_pmem_unmark(&home, &marker) == MTP_MARK_FOUND && memcmp(&marker.state, &control, sizeof(control)) == 0)
	{
		nfound++;
		mtp_pmem_take_over(&home, &buffer, always, &taken);
		check(taken.wrong == 0 && taken.left == 0);
		check(taken.taken == marker.sealed);
		check(check_pages() == taken.taken);
		nbelieved += taken.taken;
	}
	else
		nnone++;
	if (whole)
	{
		check(taken.taken == left_behind);
		nwhole++;
	}
	whole = false;
}

static void
work(int n)
{
	char		copy[2 * BLCKSZ];

	for (int i = 0; i < n; i++)
	{
		int			page = rnd(PAGES);

		mtp_policy_tick(buffer.policy, 1, 0);
		loss_process = BACKENDS + rnd(3);
		if (rnd(4) == 0)
			change_page(page);
		else
			read_page(page);
		if (rnd(3) == 0)
		{
			loss_process = WORKER;
			(void) mtp_seal_frame(&home, &buffer, rnd(SLABS * MTP_SLAB_FRAMES), copy);
			for (uint32 f = rnd(8); f < INDEXES && rnd(4) == 0; f += 8)
				(void) mtp_seal_frame(&home, &buffer, rnd(SLABS) * MTP_SLAB_FRAMES + f, copy);
		}
	}
	(void) check_pages();
}

/* The control file says where the server has ended; then the file is completed. */
static void
end(void)
{
	MtpSealed	sealed;

	loss_process = POSTMASTER;
	control.checkpoint++;
	patience = rnd(4) == 0 ? 0 : rnd(3) == 0 ? rnd(40) : 10000;
	mtp_seal_rest(&home, &buffer, is_patient, &sealed);
	check(patience < 0 || sealed.left == 0);
	/* What was not durable before the marker matters between its two calls alone. */
	if (rnd(4) == 0)
		loss_calls_left = 1 + rnd(2);
	mtp_seal_mark(&home, &control, sealed.sealed);
	whole = true;
	left_behind = sealed.sealed;
}

/* ---------- a round ---------- */

/* Memory that a server had when the machine stopped under it is no leak. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}

static void
crash(void)
{
	loss_calls_left = -1;
	loss_crash(rnd(LOSS_WAYS), &state);
}

/* The machine stops where start, work or end calls libpmem for the n-th time, or behind all of them. */
static void
server(void)
{
	volatile bool ending = false;

	loss_calls_left = rnd(3) == 0 ? 1 + (long) rnd(rnd(2) == 0 ? 10 : 800) : -1;
	if (setjmp(loss_stop) != 0)
	{
		nstopped++;
		nstopped_sealing += ending;
		whole = false;
		crash();
		/* Pages are what they were made, and the control file is not of that.  Once more the worst: it is. */
		if (rnd(2) == 0)
			control.checkpoint += 1000;
		return;
	}
	start();
	work(20 + rnd(150));
	if (loss_calls_left < 0 && rnd(2) == 0)
		loss_calls_left = 1 + rnd(250);
	ending = true;
	end();
	ending = false;
	/* It is complete: what is not durable may be lost, and it must be complete still. */
	if (rnd(2) == 0)
		crash();
	loss_calls_left = -1;
}

static void
play_round(void)
{
	const char *why;

	memset(&home, 0, sizeof(home));
	memset(&control, 0, sizeof(control));
	control.nslabs = SLABS;
	control.checkpoint = 1;
	whole = false;
	memset(numbers, 0, sizeof(numbers));
	loss_new_file();
	check(mtp_media_map(&home.media, "file", mtp_pmem_bytes(SLABS, 0), &why));
	mtp_pmem_lay_out(&home, SLABS);
	mtp_pmem_format(&home);
	for (int i = 0; i < SERVERS; i++)
		server();
}

int
main(int argc, char **argv)
{
	uint64		rounds = strtoull(argv[2], NULL, 10);

	loss_deaf = argc > 3 && strcmp(argv[3], "deaf") == 0;
	mtp_heat_init();
	for (this_round = strtoull(argv[1], NULL, 10); rounds-- > 0; this_round++)
	{
		state = (this_round + 1) * UINT64CONST(0x9E3779B97F4A7C15);
		for (int i = 0; i < 8; i++)
			(void) mtp_policy_random(&state);
		play_round();
	}
	if (argc > 3)
		fprintf(stderr, "stopped " UINT64_FORMAT " times, " UINT64_FORMAT " of them while it was sealed, lost " UINT64_FORMAT " lines; found " UINT64_FORMAT " markers, " UINT64_FORMAT " of complete ends, none " UINT64_FORMAT " times, believed " UINT64_FORMAT " frames\n",
				nstopped, nstopped_sealing, loss_lost, nfound, nwhole, nnone, nbelieved);
	check(nstopped > 0 && nstopped_sealing > 0 && loss_lost > 0 && nfound > 0 && nwhole > 0 && nbelieved > 0 && nnone > 0);
	printf("ok\n");
	return 0;
}
