/*
 * search.c
 *	  All that a program may do, on the machine.
 *
 * The search is depth first.  A state is the memory, and of each process which steps it has performed and what is still needed of what it
 * has loaded; 128 bits of its hash are kept.  There are no cycles, since each step is performed once.  Where a step concerns no other
 * process, now or later, it is performed without trying what else could be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static const char *wrong;		/* what does not hold */
static const char *counts;		/* if this is set, nothing else counts */

void
is_wrong(const char *what)
{
	if (wrong == NULL && (counts == NULL || strcmp(what, counts) == 0))
		wrong = what;
}

/* ---------- states that are known ---------- */

static struct
{
	uint64_t	a,
				b;
}		   *table;
static uint64_t table_size, table_used;

static uint64_t
mix(uint64_t a, uint64_t b)
{
	Set			product = (Set) (a ^ 0x9E3779B97F4A7C15) * (b ^ 0xE7037ED1A0B428DB);

	return (uint64_t) product ^ (uint64_t) (product >> 64);
}

/* Is the state a new one?  Remembers it. */
static bool
is_new(const State *s)
{
	uint64_t	a = 1,
				b = 2,
				word,
				at;

	for (int i = 0; i < program.nplaces; i += 8)
	{
		memcpy(&word, s->memory + i, 8);
		a = mix(a + word, 0xA0761D6478BD642F);
		b = mix(word, b);
	}
	for (int p = 0; p < program.nprocesses; p++)
	{
		uint64_t	done[2] = {(uint64_t) s->of[p].done, (uint64_t) (s->of[p].done >> 64)};
		uint64_t	passed = mix((uint64_t) s->of[p].passed, (uint64_t) (s->of[p].passed >> 64) + s->of[p].reserved);

		a = mix(mix(a + done[0], done[1] ^ passed), 0x8EBC6AF09C88C6E3);
		b = mix(done[1], mix(done[0] ^ passed, b));
		for (int i = 0; i < program.processes[p].n; i += 8)
		{
			memcpy(&word, s->of[p].loaded + i, 8);
			if (word == 0)
				continue;
			a = mix(a + word, i + 1);
			b = mix(word + i, b);
		}
	}
	a |= 1;						/* not an empty entry */
	if (table_used * 3 >= table_size * 2)
	{
		uint64_t	old_size = table_size;
		typeof(table) old = table;

		table_size = old_size == 0 ? 1 << 16 : old_size * 4;
		table = calloc(table_size, sizeof(*table));
		if (table == NULL)
			broken("out of memory");
		for (uint64_t i = 0; i < old_size; i++)
			if (old[i].a != 0)
			{
				for (at = old[i].b & (table_size - 1); table[at].a != 0; at = (at + 1) & (table_size - 1));
				table[at] = old[i];
			}
		free(old);
	}
	for (at = b & (table_size - 1); table[at].a != 0; at = (at + 1) & (table_size - 1))
		if (table[at].a == a && table[at].b == b)
			return false;
	table[at].a = a;
	table[at].b = b;
	table_used++;
	return true;
}

/* ---------- the search ---------- */

static const char *const kind_names[] = {"load", "store", "store", "compare", "swap", "lock", "lock, shared,", "unlock", "unlock, shared,", "wait"};

static Move path[MOST_PROCESSES * MOST_STEPS];

static void
print_path(int depth)
{
	for (int i = 0; i < depth; i++)
	{
		Move	   *move = &path[i];
		Process    *process = &program.processes[move->process];
		Step	   *step = &process->steps[move->step];

		printf("%22s %3d  %-46s %s %s[%d]", process->name, move->step, step->name, kind_names[step->kind],
			   program.places[move->place].name, program.places[move->place].index);
		if (step->kind == LOAD)
			printf(" is %d%s", move->value, move->forwarded ? ", its own" : "");
		else if (step->kind == CAS_LOAD)
			printf(move->value ? " is equal" : " is not equal");
		else if (!is_locking(step->kind) && !is_unlocking(step->kind) && step->kind != WAIT)
			printf(" = %d", move->value);
		putchar('\n');
	}
}

static bool
holds(const State *s, bool last)
{
	for (int i = 0; i < program.ninvariants && wrong == NULL; i++)
		if ((last || !program.invariants[i].last) && !program.invariants[i].holds(s->memory))
			is_wrong(program.invariants[i].name);
	return wrong == NULL;
}

/* All have ended, or wait for each other. */
static void
at_end(const State *s, Outcome *outcome)
{
	bool		seen = program.nseen > 0;

	for (int p = 0; p < program.nprocesses; p++)
		if (s->of[p].done != (program.processes[p].n == MOST_STEPS ? ~(Set) 0 : BIT(program.processes[p].n) - 1))
		{
			/* Where exclusives wait for each other, one of them would fail and be tried again: that is another path. */
			for (int q = 0; q < program.nprocesses; q++)
				if (s->of[q].reserved)
					return;
			is_wrong("somebody waits for ever");
			return;
		}
	outcome->ends++;
	for (int i = 0; i < program.nseen; i++)
		seen = seen && s->memory[program.seen[i].first] == 1;
	outcome->seen |= seen;
	(void) holds(s, true);
}

/* The first thing that is wrong, at its place */
static void
found(Outcome *outcome, int depth, bool trace)
{
	if (wrong == NULL || outcome->wrong != NULL)
		return;
	outcome->wrong = wrong;
	if (trace)
		print_path(depth);
}

static void
go_on(const State *s, int depth, Outcome *outcome, bool trace)
{
	Move		moves[MOST_PROCESSES * 32];
	int			n = 0;

	for (int p = 0; p < program.nprocesses; p++)
		for (Set open = program.processes[p].accesses & ~s->of[p].done; open != 0; open &= open - 1)
			if (possible(s, p, lowest(open), &moves[n]))
			{
				if (private(s, &moves[n]))
				{
					moves[0] = moves[n];
					n = 1;
					goto chosen;
				}
				if (++n == MOST_PROCESSES * 32)
					broken("too many moves");
			}
	if (n == 0)
	{
		at_end(s, outcome);
		found(outcome, depth, trace);
	}
chosen:
	for (int i = 0; i < n && wrong == NULL; i++)
	{
		State		next = *s;

		path[depth] = moves[i];
		if (!perform(&next, &moves[i]))
		{
			wrong = NULL;
			continue;
		}
		if (wrong == NULL && is_new(&next) && holds(&next, false))
			go_on(&next, depth + 1, outcome, trace);
		found(outcome, depth + 1, trace);
	}
}

Outcome
explore(const char *expected, bool trace)
{
	Outcome		outcome = {0};
	State		s;

	free(table);
	table = NULL;
	table_size = table_used = 0;
	wrong = NULL;
	counts = expected;
	memset(&s, 0, sizeof(s));
	for (int i = 0; i < program.nplaces; i++)
		s.memory[i] = program.places[i].initial;
	begin(&s);
	if (wrong == NULL && is_new(&s))
		go_on(&s, 0, &outcome, trace);
	outcome.states = table_used;
	return outcome;
}
