/*
 * replay.h
 *	  Page accesses, and caches that replay them.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "buffer/pool.h"

/* A page: its kind, relation and block in one number.  A pair of table blocks takes twice the room of an index page. */
#define TABLE_PAGE			(UINT64CONST(1) << 63)
#define PAGE(rel, block)	((uint64) (rel) << 32 | (uint32) (block))
#define KIND(page)			((page) & TABLE_PAGE ? MTP_FRAME_TABLE : MTP_FRAME_INDEX)
#define UNITS(page)			((page) & TABLE_PAGE ? 2 : 1)

typedef struct Trace
{
	const char *name;
	bool		held_out;		/* not one of those that settings were chosen by */
	uint32		extents;		/* memory, in megabytes */
	uint64	   *pages;
	size_t		n;
} Trace;

/* traces.c: the i-th trace, or NULL name behind the last.  The caller frees pages. */
extern Trace make_trace(int i);

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
