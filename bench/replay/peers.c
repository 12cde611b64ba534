/*
 * peers.c
 *	  Replays page accesses against other replacement policies.  Room is counted in units of the
 *	  smallest page; a larger one evicts as many others as it takes.
 */
#include "replay.h"

typedef struct Entry
{
	uint64		page;
	uint32		prev;
	uint32		next;
	uint32		count;			/* accesses, as far as the policy counts them */
	uint8		list;
} Entry;

typedef struct Queue
{
	uint32		first;
	uint32		last;
	uint32		units;
} Queue;

#define QUEUES 4

typedef struct State
{
	Map			map;
	Entry	   *nodes;
	uint32	   *unused;			/* a stack of nodes */
	uint32		nunused;
	Queue		q[QUEUES];
} State;

static State
start(const Trace *t, int times)
{
	uint32		n = times * t->slabs * MTP_SLAB_FRAMES + 2;
	State		s = {.map = map_make(n)};

	s.nodes = malloc(n * sizeof(Entry));
	s.unused = malloc(n * sizeof(uint32));
	for (uint32 i = 0; i < n; i++)
		s.unused[s.nunused++] = n - 1 - i;
	for (int i = 0; i < QUEUES; i++)
		s.q[i] = (Queue) {NONE, NONE, 0};
	return s;
}

static void
finish(State *s)
{
	map_free(&s->map);
	free(s->nodes);
	free(s->unused);
}

static void
push(State *s, uint32 node, int list)
{
	Entry	   *n = &s->nodes[node];
	Queue	   *q = &s->q[list];

	n->prev = NONE;
	n->next = q->first;
	n->list = list;
	if (q->first != NONE)
		s->nodes[q->first].prev = node;
	else
		q->last = node;
	q->first = node;
	q->units += UNITS(n->page);
}

static void
take(State *s, uint32 node)
{
	Entry	   *n = &s->nodes[node];
	Queue	   *q = &s->q[n->list];

	if (n->prev != NONE)
		s->nodes[n->prev].next = n->next;
	else
		q->first = n->next;
	if (n->next != NONE)
		s->nodes[n->next].prev = n->prev;
	else
		q->last = n->prev;
	q->units -= UNITS(n->page);
}

static void
move(State *s, uint32 node, int list)
{
	take(s, node);
	push(s, node, list);
}

static void
drop(State *s, uint32 node)
{
	take(s, node);
	map_remove(&s->map, s->nodes[node].page);
	s->unused[s->nunused++] = node;
}

static void
add(State *s, uint64 page, int list)
{
	uint32		node = s->unused[--s->nunused];

	s->nodes[node].page = page;
	s->nodes[node].count = 0;
	map_add(&s->map, page, node);
	push(s, node, list);
}

static void
lru(const Trace *t, bool *miss)
{
	State		s = start(t, 1);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;

	for (size_t i = 0; i < t->n; i++)
	{
		uint32		node = map_find(&s.map, t->pages[i]);

		if (!(miss[i] = node == NONE))
		{
			move(&s, node, 0);
			continue;
		}
		while (s.q[0].units + UNITS(t->pages[i]) > room)
			drop(&s, s.q[0].last);
		add(&s, t->pages[i], 0);
	}
	finish(&s);
}

/* As core's shared buffers: up to five accesses are counted, and a page comes in with one. */
static void
clock_sweep(const Trace *t, bool *miss)
{
	State		s = start(t, 1);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;

	for (size_t i = 0; i < t->n; i++)
	{
		uint32		node = map_find(&s.map, t->pages[i]);

		if (!(miss[i] = node == NONE))
		{
			s.nodes[node].count = Min(s.nodes[node].count + 1, 5);
			continue;
		}
		while (s.q[0].units + UNITS(t->pages[i]) > room)
		{
			uint32		last = s.q[0].last;

			if (s.nodes[last].count == 0)
				drop(&s, last);
			else
			{
				s.nodes[last].count--;
				move(&s, last, 0);
			}
		}
		add(&s, t->pages[i], 0);
		s.nodes[s.q[0].first].count = 1;
	}
	finish(&s);
}

/* Without ageing: the page of fewest accesses since it came in, of sixty-four. */
static void
lfu(const Trace *t, bool *miss)
{
	State		s = start(t, 1);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;
	uint32		nnodes = room + 2;
	uint64		random = 88172645463325252;

	for (uint32 i = 0; i < nnodes; i++)
		s.nodes[i].list = 1;
	for (size_t i = 0; i < t->n; i++)
	{
		uint32		node = map_find(&s.map, t->pages[i]);

		if (!(miss[i] = node == NONE))
		{
			s.nodes[node].count++;
			continue;
		}
		while (s.q[0].units + UNITS(t->pages[i]) > room)
		{
			uint32		least = NONE;

			for (int tries = 0; tries < 64 || least == NONE; tries++)
			{
				uint32		n = mtp_policy_random(&random) % nnodes;

				if (s.nodes[n].list == 0 &&
					(least == NONE || s.nodes[n].count < s.nodes[least].count))
					least = n;
			}
			drop(&s, least);
			s.nodes[least].list = 1;
		}
		add(&s, t->pages[i], 0);
	}
	finish(&s);
}

/* Megiddo and Modha, 2003.  Lists: T1, T2, B1, B2. */
static void
arc_replace(State *s, double target, bool in_b2)
{
	uint32		t1 = s->q[0].units;

	if (t1 > 0 && (t1 > target || (in_b2 && t1 == (uint32) target) || s->q[1].units == 0))
		move(s, s->q[0].last, 2);
	else
		move(s, s->q[1].last, 3);
}

static void
arc(const Trace *t, bool *miss)
{
	State		s = start(t, 2);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;
	double		target = 0;

	for (size_t i = 0; i < t->n; i++)
	{
		uint64		page = t->pages[i];
		uint32		units = UNITS(page);
		uint32		node = map_find(&s.map, page);

		if (node != NONE && s.nodes[node].list < 2)
		{
			miss[i] = false;
			move(&s, node, 1);
			continue;
		}
		miss[i] = true;
		if (node != NONE)
		{
			bool		in_b2 = s.nodes[node].list == 3;
			double		b1 = s.q[2].units,
						b2 = s.q[3].units;

			if (in_b2)
				target = Max(0, target - units * Max(1, b1 / b2));
			else
				target = Min(room, target + units * Max(1, b2 / b1));
			while (s.q[0].units + s.q[1].units + units > room)
				arc_replace(&s, target, in_b2);
			move(&s, node, 1);
			continue;
		}
		while (s.q[0].units + s.q[2].units + units > room)
		{
			if (s.q[2].units > 0)
				drop(&s, s.q[2].last);
			else
				drop(&s, s.q[0].last);
		}
		while (s.q[0].units + s.q[1].units + s.q[2].units + s.q[3].units + units > 2 * room)
			drop(&s, s.q[3].last);
		while (s.q[0].units + s.q[1].units + units > room)
			arc_replace(&s, target, false);
		add(&s, page, 0);
	}
	finish(&s);
}

/* Yang and others, 2023.  Lists: small, main, ghosts. */
static void
s3_evict(State *s, uint32 room)
{
	uint32		last;

	while (s->q[0].units > room / 10 || s->q[1].units == 0)
	{
		last = s->q[0].last;
		if (s->nodes[last].count == 0)
		{
			move(s, last, 2);
			while (s->q[2].units > room)
				drop(s, s->q[2].last);
			return;
		}
		s->nodes[last].count = 0;
		move(s, last, 1);
	}
	for (;;)
	{
		last = s->q[1].last;
		if (s->nodes[last].count == 0)
			break;
		s->nodes[last].count--;
		move(s, last, 1);
	}
	drop(s, last);
}

static void
s3_fifo(const Trace *t, bool *miss)
{
	State		s = start(t, 3);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;

	for (size_t i = 0; i < t->n; i++)
	{
		uint32		node = map_find(&s.map, t->pages[i]);
		bool		ghost = node != NONE && s.nodes[node].list == 2;

		if (node != NONE && !ghost)
		{
			miss[i] = false;
			s.nodes[node].count = Min(s.nodes[node].count + 1, 3);
			continue;
		}
		miss[i] = true;
		if (ghost)
			drop(&s, node);
		while (s.q[0].units + s.q[1].units + UNITS(t->pages[i]) > room)
			s3_evict(&s, room);
		add(&s, t->pages[i], ghost ? 1 : 0);
	}
	finish(&s);
}

/* Zhang and others, 2024 */
static void
sieve(const Trace *t, bool *miss)
{
	State		s = start(t, 1);
	uint32		room = t->slabs * MTP_SLAB_FRAMES;
	uint32		hand = NONE;

	for (size_t i = 0; i < t->n; i++)
	{
		uint32		node = map_find(&s.map, t->pages[i]);

		if (!(miss[i] = node == NONE))
		{
			s.nodes[node].count = 1;
			continue;
		}
		while (s.q[0].units + UNITS(t->pages[i]) > room)
		{
			uint32		at = hand != NONE ? hand : s.q[0].last;

			while (s.nodes[at].count > 0)
			{
				s.nodes[at].count = 0;
				at = s.nodes[at].prev != NONE ? s.nodes[at].prev : s.q[0].last;
			}
			hand = s.nodes[at].prev;
			drop(&s, at);
		}
		add(&s, t->pages[i], 0);
	}
	finish(&s);
}

const Cache peers[] = {
	{"LRU", lru}, {"clock", clock_sweep}, {"LFU", lfu}, {"ARC", arc}, {"S3-FIFO", s3_fifo},
	{"SIEVE", sieve}, {NULL, NULL}
};
