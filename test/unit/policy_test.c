/*
 * policy_test.c
 *	  Heat beside what it stands for, which misses look for a frame, and the policy's numbers under random use.
 *
 *	  pool_test SEED ROUNDS
 */
#include "buffer/policy.h"

#include <math.h>

#include "server.h"

#define check(condition) ((condition) ? (void) 0 : die("line %d: %s", __LINE__, #condition))

static uint64 state;

static uint64
rnd(void)
{
	return mtp_policy_random(&state);
}

/* Accesses at random epochs: the degree is the logarithm of what they sum up to, within the rounding of each. */
static void
test_heat(void)
{
	double		off = 0;
	int			n = 0;

	for (int page = 0; page < 200; page++)
	{
		MtpHeat		heat = mtp_heat_of(0, 0);
		double		exact = 0;
		int			every = 1 + rnd() % 40;

		for (int epoch = 0; epoch < 200; epoch++)
		{
			int			degree;

			exact *= exp2(-1.0 / MTP_HEAT_STEPS);
			if (rnd() % every == 0)
			{
				exact += 1;
				heat = mtp_heat_of(mtp_heat_hit(mtp_heat_degree(heat, (uint8) epoch), (uint8) rnd()), (uint8) epoch);
			}
			heat = mtp_heat_of(mtp_heat_degree(heat, (uint8) epoch), (uint8) epoch);
			degree = mtp_heat_degree(heat, (uint8) epoch);
			check(degree <= MTP_HEAT_MOST);
			if (exact > 0.2 && exact < 10)
			{
				double		error = degree - (MTP_HEAT_ONE + MTP_HEAT_STEPS * log2(exact));

				check(fabs(error) < 12);
				off += error;
				n++;
			}
		}
	}
	check(n > 1000 && fabs(off / n) < 1);
	for (int degree = 0; degree <= MTP_HEAT_MOST; degree++)
	{
		check(mtp_heat_hit(degree, 255) <= MTP_HEAT_MOST);
		check(mtp_heat_hit(degree, 0) >= degree);
		check(degree == 0 || mtp_heat_hit(degree, 128) >= mtp_heat_hit(degree - 1, 128));
	}
	check(mtp_heat_hit(0, 0) >= MTP_HEAT_ONE);
}

/* Each slab is free or in the list of its kind, once. */
static void
check_slabs(MtpPolicy *policy)
{
	uint32		n = policy->nfree;

	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
	{
		n += policy->kinds[kind].nslabs;
		for (uint32 i = 0; i < policy->kinds[kind].nslabs; i++)
		{
			check(policy->kind_of[policy->slabs[kind][i]] == kind);
			for (uint32 j = 0; j < i; j++)
				check(policy->slabs[kind][i] != policy->slabs[kind][j]);
		}
	}
	check(n == policy->nslabs);
}

/* No degree is so old that its epoch could come round again. */
static void
check_epochs(const MtpHeat *words, uint32 n, uint8 epoch)
{
	for (uint32 i = 0; i < n; i++)
		check((words[i] & 0xFF) == 0 || (uint8) (epoch - (words[i] >> 8)) <= 64);
}

/* Pages of all kinds come and go; favour is the kind that most accesses are of. */
static void
use_pool(MtpPolicy *policy, uint64 *pages, int favour, uint32 npages, uint32 naccesses)
{
	MtpAdmission admissions[MTP_POLICY_KINDS] = {{MTP_ADMITTED_ALL}, {MTP_ADMITTED_ALL}, {MTP_ADMITTED_ALL}, {MTP_ADMITTED_ALL}};

	for (uint32 i = 0; i < naccesses; i++)
	{
		MtpAdmission first = {MTP_ADMITTED_ALL};
		int			kind = rnd() % 10 ? favour : rnd() % MTP_POLICY_KINDS;
		uint64		page = ((rnd() % npages * (rnd() % npages)) / npages + 1) * MTP_POLICY_KINDS + kind;
		uint64		hash = page * UINT64CONST(0x9E3779B97F4A7C15);
		uint32		frame,
					slab;
		int			degree,
					most;
		bool		found;

		mtp_policy_tick(policy, 1, 0);
		for (frame = 0; frame < policy->nslabs * MTP_SLAB_FRAMES && pages[frame] != page; frame++)
			;
		if (frame < policy->nslabs * MTP_SLAB_FRAMES)
		{
			int			before = mtp_heat_degree(policy->heat[frame], mtp_policy_epoch(policy));

			mtp_policy_hit(policy, frame, (uint8) rnd());
			check(mtp_heat_degree(policy->heat[frame], mtp_policy_epoch(policy)) >= before);
			continue;
		}
		degree = mtp_policy_miss(policy, kind, hash, &admissions[kind], (uint16) rnd());
		if (degree < 0)
			continue;
		check(degree >= MTP_HEAT_ONE && degree <= MTP_HEAT_MOST);
		if (mtp_policy_wants(policy, kind, &state, &slab))
		{
			check(slab < policy->nslabs && policy->kind_of[slab] != kind);
			memset(&pages[slab * MTP_SLAB_FRAMES], 0, MTP_SLAB_FRAMES * sizeof(uint64));
			mtp_policy_change(policy, slab, kind);
			check_slabs(policy);
		}
		/* Some ask for a frame that costs no page but one that has cooled to nothing. */
		most = rnd() % 8 ? degree : 0;
		found = mtp_policy_place(policy, kind, most, admissions[kind].stands_for, &state, &frame);
		mtp_policy_tried(&admissions[kind], found);
		if (!found)
			continue;
		check(policy->kind_of[frame / MTP_SLAB_FRAMES] == kind && frame % MTP_SLAB_FRAMES < mtp_policy_frames(kind));
		if (pages[frame] != 0)
		{
			int			had = mtp_heat_degree(policy->heat[frame], mtp_policy_epoch(policy));

			check(had <= most);
			mtp_policy_left(policy, frame, pages[frame] * UINT64CONST(0x9E3779B97F4A7C15));
			check(mtp_policy_miss(policy, kind, pages[frame] * UINT64CONST(0x9E3779B97F4A7C15), &first, 0) >= had);
		}
		pages[frame] = page;
		mtp_policy_came(policy, frame, degree);
	}
}

static uint32
pages_in(MtpPolicy *policy, const uint64 *pages, int kind)
{
	uint32		n = 0;

	for (uint32 f = 0; f < policy->nslabs * MTP_SLAB_FRAMES; f++)
		n += pages[f] != 0 && pages[f] % MTP_POLICY_KINDS == kind;
	return n;
}

static void
test_pool(uint32 nslabs)
{
	void	   *memory = malloc(mtp_policy_size(nslabs));
	uint64	   *pages = calloc(nslabs * MTP_SLAB_FRAMES, sizeof(uint64));
	MtpPolicy  *policy = mtp_policy_make(memory, nslabs, 1);

	for (int turn = 0; turn < 2 * MTP_POLICY_KINDS; turn++)
	{
		int			favour = turn % MTP_POLICY_KINDS;

		/* Of the smallest ones fewer for the room that there is: they are to be asked for as often, in a half-life. */
		use_pool(policy, pages, favour, nslabs * Min(mtp_policy_frames(favour), 2 * MTP_SLAB_BLOCKS) * 4, nslabs * MTP_SLAB_BLOCKS * 150);
		check_slabs(policy);
		check_epochs(policy->heat, nslabs * MTP_SLAB_FRAMES, mtp_policy_epoch(policy));
		check_epochs(policy->sketch, MTP_SKETCH_ROWS * (policy->sketch_mask + 1), mtp_policy_epoch(policy));

		/* Memory goes where the accesses are. */
		check(nslabs < 4 || pages_in(policy, pages, favour) >= nslabs * mtp_policy_frames(favour) / 3);
	}
	check(pg_atomic_read_u32(&policy->epoch) == pg_atomic_read_u64(&policy->accesses) / policy->epoch_length);
	free(pages);
	free(memory);
}

/* Misses of pages of which none is asked for again: how many of a thousand look for a frame. */
static int
looks(MtpPolicy *policy, MtpAdmission *admission, uint64 first)
{
	int			n = 0;

	for (uint64 page = first; page < first + 1000; page++)
	{
		int			degree = mtp_policy_miss(policy, MTP_FRAME_INDEX, page * UINT64CONST(0x9E3779B97F4A7C15), admission, (uint16) rnd());
		uint32		frame;

		if (degree < 0)
			continue;
		n++;
		mtp_policy_tried(admission, mtp_policy_place(policy, MTP_FRAME_INDEX, degree, admission->stands_for, &state, &frame));
	}
	return n;
}

/*
 * Where no frame is to be had, a miss in four looks for one, and what is counted is what it would be if all did; where there are some
 * again, soon all look.
 */
static void
test_admission(void)
{
	MtpPolicy  *policy = mtp_policy_make(malloc(mtp_policy_size(1)), 1, 12);
	MtpPolicyKind *k = &policy->kinds[MTP_FRAME_INDEX];
	MtpAdmission admission = {.mean = MTP_ADMITTED_ALL};
	uint64		hot = UINT64CONST(0x123456789ABCDEF);
	double		counted = 0;
	int			degree = 0;

	mtp_policy_change(policy, 0, MTP_FRAME_INDEX);
	k->fresh = mtp_policy_frames(MTP_FRAME_INDEX);
	for (uint32 f = 0; f < k->fresh; f++)
		mtp_policy_came(policy, f, MTP_HEAT_MOST);
	(void) looks(policy, &admission, 1);
	k->homeless = 0;
	check(looks(policy, &admission, 1001) < 350);
	check(k->homeless > 700 && k->homeless < 1300);
	for (int i = 0; i < 1000; i++)
	{
		memset(policy->sketch, 0, MTP_SKETCH_ROWS * (policy->sketch_mask + (Size) 1) * sizeof(MtpHeat));
		for (int n = 0; n < 4; n++)
			(void) mtp_policy_miss(policy, MTP_FRAME_INDEX, hot, &admission, (uint16) rnd());
		degree = mtp_policy_miss(policy, MTP_FRAME_INDEX, hot, &(MtpAdmission) {.mean = MTP_ADMITTED_ALL}, (uint16) rnd());
		counted += mtp_heat_accesses[degree] - 1;
	}
	check(counted / 1000 > 3.3 && counted / 1000 < 4.7);

	for (uint32 f = 0; f < k->fresh; f++)
		mtp_policy_came(policy, f, 0);
	(void) looks(policy, &admission, 2001);
	check(looks(policy, &admission, 3001) == 1000);
	free(policy);
}

/*
 * Scans that go round four to five times as many directories as there are frames keep a part of them, whatever
 * their size: time passes as memory is turned over, not by the number of accesses.
 */
static void
test_scans(int kind)
{
	const uint32 nslabs = 4;
	MtpPolicy  *policy = mtp_policy_make(malloc(mtp_policy_size(nslabs)), nslabs, MTP_POLICY_HALF_LIFE);
	uint32		nframes = nslabs * mtp_policy_frames(kind);
	uint32		npages = nframes * 14 / 3;
	uint32	   *frame_of = calloc(npages, sizeof(uint32));	/* + 1 */
	uint32	   *pages = calloc(nslabs * MTP_SLAB_FRAMES, sizeof(uint32));	/* + 1 */
	MtpAdmission admission = {.mean = MTP_ADMITTED_ALL};
	uint32		hits = 0;

	for (uint32 slab = 0; slab < nslabs; slab++)
		mtp_policy_change(policy, slab, kind);
	for (int scan = 0; scan < 12; scan++)
	{
		hits = 0;
		for (uint32 page = 0; page < npages; page++)
		{
			uint64		hash = (page + 1) * UINT64CONST(0x9E3779B97F4A7C15);
			uint32		frame = frame_of[page] - 1;
			int			degree;
			bool		found;

			if (page % 64 == 0)
				mtp_policy_tick(policy, kind < MTP_FRAME_PAGEDIR ? 64 : 0, kind < MTP_FRAME_PAGEDIR ? 0 : 64);
			if (frame_of[page] != 0)
			{
				mtp_policy_hit(policy, frame, (uint8) rnd());
				hits++;
				continue;
			}
			degree = mtp_policy_miss(policy, mtp_policy_page_kind(kind), hash, &admission, (uint16) rnd());
			if (degree < 0)
				continue;
			found = mtp_policy_place(policy, kind, degree, admission.stands_for, &state, &frame);
			mtp_policy_tried(&admission, found);
			if (!found)
				continue;
			if (pages[frame] != 0)
			{
				frame_of[pages[frame] - 1] = 0;
				mtp_policy_left(policy, frame, pages[frame] * UINT64CONST(0x9E3779B97F4A7C15));
			}
			pages[frame] = page + 1;
			frame_of[page] = frame + 1;
			mtp_policy_came(policy, frame, degree);
		}
	}
	check(hits > nframes / 3);
	free(pages);
	free(frame_of);
	free(policy);
}

int
main(int argc, char **argv)
{
	state = strtoull(argv[1], NULL, 10) * UINT64CONST(0x9E3779B97F4A7C15) + 1;
	mtp_heat_init();
	test_heat();
	test_admission();
	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
		test_scans(kind);
	for (int round = 0; round < atoi(argv[2]); round++)
		test_pool(1 + rnd() % 4);
	puts("ok");
	return 0;
}
