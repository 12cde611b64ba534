/*
 * ours.c
 *	  Replays page accesses against src/buffer/policy.c, the policy that the server runs.
 */
#include "replay.h"

typedef struct Pages
{
	MtpPolicy  *policy;
	Map			map;
	uint64	   *pages;			/* of each frame */
	uint64		random;
	MtpAdmission admissions[MTP_FRAME_KINDS];
} Pages;

static void
leave(Pages *p, uint32 frame)
{
	if (p->pages[frame] == NO_PAGE)
		return;
	mtp_policy_left(p->policy, frame, mix(p->pages[frame]));
	map_remove(&p->map, p->pages[frame]);
	p->pages[frame] = NO_PAGE;
}

/* A slab gets another kind; its pages go. */
static void
change(Pages *p, uint32 slab, int kind)
{
	for (uint32 f = slab * MTP_SLAB_FRAMES; f < (slab + 1) * MTP_SLAB_FRAMES; f++)
		leave(p, f);
	mtp_policy_change(p->policy, slab, kind);
}

static void
admit(Pages *p, uint64 page, bool fixed)
{
	MtpAdmission *admission = &p->admissions[mtp_policy_page_kind(KIND(page))];
	uint16		random = mtp_policy_random(&p->random);
	int			degree = mtp_policy_miss(p->policy, KIND(page), mix(page), admission, random);
	uint32		slab,
				frame;
	bool		found;

	if (degree < 0)
		return;
	if (!fixed && mtp_policy_wants(p->policy, KIND(page), &p->random, &slab))
		change(p, slab, KIND(page));
	found = mtp_policy_place(p->policy, KIND(page), degree, admission->stands_for, &p->random,
						   &frame);
	mtp_policy_tried(admission, found);
	if (!found)
		return;
	leave(p, frame);
	p->pages[frame] = page;
	map_add(&p->map, page, frame);
	mtp_policy_came(p->policy, frame, degree);
}

void
ours(const Trace *t, bool *miss, const uint32 *split)
{
	uint32		nframes = t->slabs * MTP_SLAB_FRAMES;
	void	   *memory = malloc(mtp_policy_size(t->slabs));
	Pages		p = {.map = map_make(nframes),.random = UINT64CONST(88172645463325252) + t->draw};
	uint32		directories = 0;

	p.policy = mtp_policy_make(memory, t->slabs, MTP_POLICY_HALF_LIFE);
	p.pages = malloc(nframes * sizeof(uint64));
	memset(p.pages, 0xFF, nframes * sizeof(uint64));
	for (int kind = 0; kind < MTP_FRAME_KINDS; kind++)
		p.admissions[kind].mean = MTP_ADMITTED_ALL;
	for (int kind = 0; split != NULL && kind < MTP_POLICY_KINDS; kind++)
		for (uint32 i = 0; i < split[kind]; i++)
			mtp_policy_change(p.policy, p.policy->nfree - 1, kind);
	for (size_t i = 0; i < t->n; i++)
	{
		uint32		frame = map_find(&p.map, t->pages[i]);

		directories += mtp_policy_page_kind(KIND(t->pages[i])) == MTP_FRAME_PAGEDIR;
		if (i % 32 == 0)
		{
			mtp_policy_tick(p.policy, 32 - directories, directories);
			directories = 0;
		}
		if (!(miss[i] = frame == NONE))
			mtp_policy_hit(p.policy, frame, (uint8) mtp_policy_random(&p.random));
		else
			admit(&p, t->pages[i], split != NULL);
	}
	map_free(&p.map);
	free(p.pages);
	free(memory);
}
