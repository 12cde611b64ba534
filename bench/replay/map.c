/*
 * map.c
 *	  Finds a page's node.
 */
#include "replay.h"

Map
map_make(uint32 room)
{
	Map			m = {.mask = 63};

	while (m.mask < 3 * (uint64) room)
		m.mask = m.mask * 2 + 1;
	m.pages = malloc(sizeof(uint64) * (m.mask + (Size) 1));
	m.nodes = malloc(sizeof(uint32) * (m.mask + (Size) 1));
	memset(m.pages, 0xFF, sizeof(uint64) * (m.mask + (Size) 1));
	return m;
}

void
map_free(Map *m)
{
	free(m->pages);
	free(m->nodes);
}

/* Where the page is, or would be. */
static uint32
slot_of(const Map *m, uint64 page)
{
	uint32		i = mix(page) & m->mask;

	while (m->pages[i] != NO_PAGE && m->pages[i] != page)
		i = (i + 1) & m->mask;
	return i;
}

uint32
map_find(const Map *m, uint64 page)
{
	uint32		i = slot_of(m, page);

	return m->pages[i] == page ? m->nodes[i] : NONE;
}

void
map_add(Map *m, uint64 page, uint32 node)
{
	uint32		i = slot_of(m, page);

	m->pages[i] = page;
	m->nodes[i] = node;
}

/* Those behind it move up, as far as they may (Knuth, 6.4, algorithm R). */
void
map_remove(Map *m, uint64 page)
{
	uint32		hole = slot_of(m, page);

	if (m->pages[hole] == NO_PAGE)
		return;
	for (uint32 i = (hole + 1) & m->mask; m->pages[i] != NO_PAGE; i = (i + 1) & m->mask)
	{
		uint32		home = mix(m->pages[i]) & m->mask;

		if (((i - home) & m->mask) >= ((i - hole) & m->mask))
		{
			m->pages[hole] = m->pages[i];
			m->nodes[hole] = m->nodes[i];
			hole = i;
		}
	}
	m->pages[hole] = NO_PAGE;
}
