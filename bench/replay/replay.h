/*
 * replay.h
 *	  Page accesses, and caches that replay them.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "buffer/policy.h"

#include <stdio.h>
#include <stdlib.h>

#undef printf
#undef qsort

/*
 * A page: the kind of its frame, relation and block (of a table: pair of blocks) in one number.
 * Peers count room in frames of the smallest kind.
 */
#define PAGE(kind, rel, block) ((uint64) (kind) << 62 | (uint64) (rel) << 32 | (uint32) (block))
#define INDEX_PAGE(rel, block) PAGE(MTP_FRAME_INDEX, rel, block)
#define TABLE_PAIR(rel, pair) PAGE(MTP_FRAME_TABLE, rel, pair)
#define KIND(page)			((int) ((page) >> 62))
#define UNITS(page) \
	(mtp_policy_frame_bytes(KIND(page)) / (MTP_SLAB_BYTES / MTP_SLAB_FRAMES))

typedef struct Trace
{
	const char *name;
	bool		held_out;		/* not one of those that settings were chosen by */
	int			draw;			/* of random numbers, the policy's as well */
	uint32		slabs;		/* memory, in megabytes */
	uint64	   *pages;
	size_t		n;
} Trace;

/*
 * traces.c: the i-th trace, or one whose name is NULL behind the last.  shrink divides rows, memory
 * and accesses.  The caller frees pages.
 */
extern Trace make_trace(int i, int shrink, int draw);

/*
 * The i-th work that shifts from index pages to pages of another kind and back, twice, in phases of
 * equal length.
 */
#define PHASES				5

typedef struct Shift
{
	Trace		trace;
	int			kinds[2];		/* of the first phase, and of the second */
	size_t		length;			/* of a phase, in accesses */
} Shift;

extern Shift make_shift(int i, int shrink, int draw);

/* shift.c: turnovers of each phase until memory is where its work is. */
extern void measure_shift(const Shift *s, double turnovers[PHASES]);

/* ours.c.  split: slabs of each kind of frames, which stay so; NULL: the policy decides. */
extern void ours(const Trace *t, bool *miss, const uint32 *split);

/*
 * A cache replays a trace.  miss[i] tells whether access i found nothing.
 */
typedef struct Cache
{
	const char *name;
	void		(*replay) (const Trace *t, bool *miss);
} Cache;

/* peers.c: the last one has name NULL. */
extern const Cache peers[];

/* Spreads the bits of a number. */
static inline uint64
mix(uint64 h)
{
	h = (h ^ h >> 33) * UINT64CONST(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64CONST(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

/* Pages and the nodes that stand for them: open addressing. */
typedef struct Map
{
	uint64	   *pages;
	uint32	   *nodes;
	uint32		mask;
} Map;

#define NO_PAGE				(~UINT64CONST(0))
#define NONE					PG_UINT32_MAX

extern Map	map_make(uint32 room);
extern void map_free(Map *m);
extern uint32 map_find(const Map *m, uint64 page);
extern void map_add(Map *m, uint64 page, uint32 node);
extern void map_remove(Map *m, uint64 page);

#endif							/* REPLAY_H */
