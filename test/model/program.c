/*
 * program.c
 *	  Programs, as they are written: values, places, processes and their steps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

Program		program;

static Process *current;
static Value conditions[16];	/* of when() */
static int	nconditions;

void
broken(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(2);
}

/* ---------- values ---------- */

static Value
value_of(Op op, int a, int b, int c)
{
	if (program.nvalues == MOST_VALUES)
		broken("too many values");
	program.values[program.nvalues].op = op;
	program.values[program.nvalues].a = a;
	program.values[program.nvalues].b = b;
	program.values[program.nvalues].c = c;
	return program.nvalues++;
}

Value number(int n) { return value_of(NUMBER, n, 0, 0); }
Value equal(Value a, Value b) { return value_of(EQUAL, a, b, 0); }
Value and(Value a, Value b) { return value_of(AND, a, b, 0); }
Value or(Value a, Value b) { return value_of(OR, a, b, 0); }
Value not(Value a) { return value_of(NOT, a, 0, 0); }
Value plus(Value a, Value b) { return value_of(PLUS, a, b, 0); }
Value minus(Value a, Value b) { return value_of(MINUS, a, b, 0); }
Value odd(Value a) { return value_of(ODD, a, 0, 0); }
Value least(Value a, Value b) { return value_of(LEAST, a, b, 0); }
Value choose(Value condition, Value a, Value b) { return value_of(CHOOSE, condition, a, b); }
Value shifted(Value a, int bits) { return value_of(SHIFTED, a, bits, 0); }

/* The steps whose loads a value is made of */
static Set
needs(Value v)
{
	Set			set = 0;

	switch (program.values[v].op)
	{
		case NUMBER:
			return 0;
		case LOADED:
			return BIT(program.values[v].a);
		case CHOOSE:
			set |= needs(program.values[v].c);
			/* FALLTHROUGH */
		case EQUAL:
		case AND:
		case OR:
		case PLUS:
		case MINUS:
		case LEAST:
			set |= needs(program.values[v].b);
			/* FALLTHROUGH */
		default:
			return set | needs(program.values[v].a);
	}
}

/* ---------- programs ---------- */

Place
places(const char *name, int count, int value)
{
	Place		place = {program.nplaces, count};

	if (program.nplaces + count > MOST_PLACES)
		broken("too many places");
	for (int i = 0; i < count; i++)
	{
		program.places[program.nplaces].name = name;
		program.places[program.nplaces].index = i;
		program.places[program.nplaces++].initial = value;
	}
	return place;
}

void
at_first(Place place, int index, int value)
{
	program.places[place.first + index].initial = value;
}

void
watch(Place place)
{
	for (int i = place.first; i < place.first + place.count; i++)
		program.places[i].watched = true;
}

void
process(const char *name)
{
	if (program.nprocesses == MOST_PROCESSES)
		broken("too many processes");
	current = &program.processes[program.nprocesses++];
	memset(current, 0, sizeof(*current));
	current->name = name;
	nconditions = 0;
}

void
when(Value condition)
{
	conditions[nconditions] = nconditions == 0 ? condition : and(conditions[nconditions - 1], condition);
	nconditions++;
}

void
end_when(void)
{
	nconditions--;
}

static void
used_by(Value v, int step)
{
	Set			set = needs(v);

	current->steps[step].suppliers |= set;
	for (int i = 0; i < step; i++)
		if (set & BIT(i))
			current->steps[i].users |= BIT(step);
}

static Step *
add(Kind kind, const char *name, Place place, Value index, Value value)
{
	int			n = current->n++;
	Step	   *step = &current->steps[n];

	if (n == MOST_STEPS)
		broken("too many steps");
	step->kind = kind;
	step->name = name;
	step->place = place;
	step->index = index;
	step->value = value;
	step->only_if = nconditions == 0 ? truth : conditions[nconditions - 1];
	if (kind == CHECK)
		current->checks |= BIT(n);
	else if (!is_barrier(kind))
		current->accesses |= BIT(n);
	used_by(index, n);
	used_by(value, n);
	used_by(step->only_if, n);
	for (int i = 0; i < n; i++)
	{
		if (in_order(&current->steps[i], step))
		{
			step->before |= BIT(i);
			if (implies(step->only_if, current->steps[i].only_if))
				step->within |= BIT(i);
			if (is_barrier(kind))
				current->steps[i].barriers |= BIT(n);
		}
		if (overlap(&current->steps[i], step))
			step->same |= BIT(i);
	}
	for (int i = place.first; i < place.first + place.count; i++)
		if (program.values[index].op != NUMBER || i == place.first + program.values[index].a)
		{
			if (kind == LOAD || kind == WAIT)
				current->readers[i] |= BIT(n);
			else if (kind != CHECK && !is_barrier(kind))
				current->writers[i] |= BIT(n);
		}
	return step;
}

static const Place nowhere = {0, 0};

Value
load(const char *name, Place place, Value index)
{
	add(LOAD, name, place, index, truth);
	return value_of(LOADED, current->n - 1, 0, 0);
}

void
store(const char *name, Place place, Value index, Value value)
{
	add(STORE, name, place, index, value);
}

void
store_release(const char *name, Place place, Value index, Value value)
{
	add(STORE_RELEASE, name, place, index, value);
}

Value
compare_and_swap(const char *name, Place place, Value index, Value from, Value to)
{
	Value		swapped;

	add(CAS_LOAD, name, place, index, from);
	swapped = value_of(LOADED, current->n - 1, 0, 0);
	when(swapped);
	add(CAS_STORE, name, place, index, to);
	end_when();
	return swapped;
}

void lock(const char *name, Place place, Value index) { add(LOCK, name, place, index, truth); }
void lock_share(const char *name, Place place, Value index) { add(LOCK_SHARE, name, place, index, truth); }
void unlock(const char *name, Place place, Value index) { add(UNLOCK, name, place, index, truth); }
void unlock_share(const char *name, Place place, Value index) { add(UNLOCK_SHARE, name, place, index, truth); }
void read_barrier(const char *name) { add(READ_BARRIER, name, nowhere, truth, truth); }
void acquire_barrier(const char *name) { add(ACQUIRE_BARRIER, name, nowhere, truth, truth); }
void write_barrier(const char *name) { add(WRITE_BARRIER, name, nowhere, truth, truth); }
void full_barrier(const char *name) { add(FULL_BARRIER, name, nowhere, truth, truth); }
void check(const char *name, Value condition) { add(CHECK, name, nowhere, truth, condition); }

void
wait_for_other(const char *name, Place a, Value index_a, Value value_a, Place b, Value index_b, Value value_b)
{
	Step	   *step = add(WAIT, name, a, index_a, value_a);
	int			n = current->n - 1;

	if (program.values[index_b].op != NUMBER)
		broken("wait_for_other: the second index is a number");
	step->other = b;
	step->other_index = index_b;
	step->other_value = value_b;
	used_by(value_b, n);
	current->readers[b.first + program.values[index_b].a] |= BIT(n);
}

static void
add_invariant(const char *name, bool (*holds) (const uint8_t *memory), bool last)
{
	program.invariants[program.ninvariants].name = name;
	program.invariants[program.ninvariants].holds = holds;
	program.invariants[program.ninvariants++].last = last;
}

void always(const char *name, bool (*holds) (const uint8_t *memory)) { add_invariant(name, holds, false); }
void at_last(const char *name, bool (*holds) (const uint8_t *memory)) { add_invariant(name, holds, true); }

void
seen_if(Value condition)
{
	program.seen[program.nseen] = places("seen", 1, 0);
	store("seen", program.seen[program.nseen++], number(0), condition);
}

void
machine_reset(bool tso, bool thorough)
{
	memset(&program, 0, sizeof(program));
	program.total_store_order = tso;
	program.thorough = thorough;
}
