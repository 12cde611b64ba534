/*
 * loss.c
 *	  See loss.h.
 */
#include <libpmem.h>
#include <stdlib.h>
#include <string.h>

#include "loss.h"

#define LINE		64
#define MOST		((size_t) 8 << 20)
#define LINES		(MOST / LINE)
#define FIRST		(4096 / LINE)	/* lines of the first page */

bool		loss_deaf;
int			loss_process;
long		loss_calls_left = -1;
jmp_buf		loss_stop;
uint64_t	loss_lost;

static char seen[MOST] __attribute__((aligned(4096)));
static char durable[MOST];
static char posted[MOST];		/* what a drain makes durable */
static int	poster[LINES];		/* whose that is, and 0: nobody's */
static size_t list[LINES];		/* lines that are posted */
static size_t nlist;

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void
call(void)
{
	if (loss_calls_left > 0 && --loss_calls_left == 0)
	{
		loss_calls_left = -1;
		longjmp(loss_stop, 1);
	}
}

static void
post(const void *at, size_t n)
{
	size_t		begin = (const char *) at - seen;

	if (begin > MOST || n > MOST - begin)
		abort();
	for (size_t line = begin / LINE; n > 0 && line <= (begin + n - 1) / LINE; line++)
	{
		if (poster[line] == 0)
			list[nlist++] = line;
		poster[line] = loss_process + 1;
		memcpy(posted + line * LINE, seen + line * LINE, LINE);
	}
}

void
loss_new_file(void)
{
	memset(seen, 0, MOST);
	memset(durable, 0, MOST);
	memset(poster, 0, sizeof(poster));
	nlist = 0;
}

void
loss_crash(LossWay way, uint64_t *random)
{
	static const int kept[LOSS_WAYS] = {128, 230, 25};	/* of 256 */

	for (size_t line = 0; line < LINES; line++)
	{
		char	   *s = seen + line * LINE;
		char	   *d = durable + line * LINE;
		bool		keep;

		if (memcmp(s, d, LINE) == 0)
			continue;
		if (way == LOSS_ALL_BUT_FIRST || way == LOSS_FIRST)
			keep = (way == LOSS_ALL_BUT_FIRST) == (line < FIRST);
		else
			keep = (int) (next_random(random) >> 20 & 255) < kept[way];
		if (keep)
			memcpy(d, poster[line] != 0 && next_random(random) >> 30 & 1 ? posted + line * LINE : s, LINE);
		else
			loss_lost++;
	}
	memcpy(seen, durable, MOST);
	memset(poster, 0, sizeof(poster));
	nlist = 0;
}

/* ---------- what production code calls ---------- */

void *
pmem_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped_len, int *is_pmem)
{
	if (len > MOST)
		abort();
	*mapped_len = len;
	*is_pmem = 1;
	return seen;
}

int
pmem_unmap(void *addr, size_t len)
{
	return 0;
}

const char *
pmem_errormsg(void)
{
	return "none";
}

/* The machine may stop in the middle of it. */
void *
pmem_memcpy(void *to, const void *from, size_t n, unsigned flags)
{
	if (loss_calls_left == 1)
	{
		memcpy(to, from, n / 2);
		post(to, n / 2);
	}
	call();
	memcpy(to, from, n);
	if (flags & PMEM_F_MEM_NONTEMPORAL)
		post(to, n);
	if (!(flags & PMEM_F_MEM_NODRAIN))
		pmem_drain();
	return to;
}

void *
pmem_memset(void *to, int c, size_t n, unsigned flags)
{
	call();
	memset(to, c, n);
	if (flags & PMEM_F_MEM_NONTEMPORAL)
		post(to, n);
	if (!(flags & PMEM_F_MEM_NODRAIN))
		pmem_drain();
	return to;
}

void
pmem_drain(void)
{
	size_t		left = 0;

	call();
	if (loss_deaf)
		return;
	for (size_t i = 0; i < nlist; i++)
	{
		size_t		line = list[i];

		if (poster[line] == loss_process + 1)
		{
			memcpy(durable + line * LINE, posted + line * LINE, LINE);
			poster[line] = 0;
		}
		else
			list[left++] = line;
	}
	nlist = left;
}
