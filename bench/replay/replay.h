/*
 * replay.h
 *	  Page accesses, and caches that replay them.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "buffer/pool.h"

#include <stdio.h>
#include <stdlib.h>

#undef printf
#undef qsort

/* A page: its kind, relation and block (of a table: pair of blocks) in one number.  Peers count room in frames of the smallest kind. */
#define PAGE(kind, rel, block) ((uint64) (kind) << 62 | (uint64) (rel) << 32 | (uint32) (block))
#define INDEX_PAGE(rel, block) PAGE(MTP_FRAME_INDEX, rel, block)
#define TABLE_PAIR(rel, pair) PAGE(MTP_FRAME_TABLE, rel, pair)
#define DIRECTORY(rel, pair) PAGE(MTP_FRAME_DIRECTORY, rel, pair)
#define KIND(page)			((int) ((page) >> 62))
#define UNITS(page)			(mtp_pool_frame_bytes(KIND(page)) / (MTP_EXTENT_BYTES / MTP_EXTENT_FRAMES))

typedef struct Trace
{
	const char *name;
	bool		held_out;		/* not one of those that settings were chosen by */
	uint32		extents;		/* memory, in megabytes */
	uint64	   *pages;
	size_t		n;
} Trace;

/* The share of n accesses, from one on, that are hits */
static inline double
hits(const bool *miss, size_t from, size_t n)
{
	size_t		nhits = 0;

	for (size_t i = from; i < from + n; i++)
		nhits += !miss[i];
	return (double) nhits / n;
}

/* traces.c: the i-th trace, or NULL name behind the last.  shrink: by so much are rows, memory and accesses fewer.  The caller frees pages. */
extern Trace make_trace(int i, int shrink);

/*
 * The i-th work that shifts from index pages to pages of another kind and back, twice, in phases of equal length.
 */
#define PHASES				5

typedef struct Shift
{
	Trace		trace;
	int			kinds[2];		/* of the first phase, and of the second */
	size_t		length;			/* of a phase, in accesses */
} Shift;

extern Shift make_shift(int i, int shrink);

/* shift.c: turnovers until memory is where the work of a phase is. */
typedef struct Turnovers
{
	double		best;			/* hit ratio of the best fixed split */
	double		reached;		/* hit ratio late in the phase */
	double		turnovers;		/* until 95 % of the best are there */
	double		at_once;		/* the same for who gets the best split when the phase begins */
} Turnovers;

extern void measure_shift(const Shift *s, Turnovers result[PHASES]);

/* restart.c: prints a line for each way to restart in the middle of a trace. */
extern void measure_restart(const Trace *t);

/* ours.c */
typedef struct Options
{
	double		half_life;		/* or 0, for the server's */
	const uint32 *split;		/* extents of each kind, which stay so; or NULL */
	size_t		split_from;		/* this access on; before it memory goes where the policy says */
	size_t		restart;		/* before this access, or 0 */
	size_t		list_age;		/* accesses between the hot list and the restart */
	double		list_share;		/* of the memory, that its pages fill */
	bool		list_heat;		/* they come with the heat that they had; else as after one access */
} Options;

extern void ours(const Trace *t, bool *miss, const Options *o);

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
