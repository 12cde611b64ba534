/*
 * machine.c
 *	  A machine with weak memory, and the search through all that it may do.
 *
 * The rules, for a step and one behind it in the same process (litmus.c compares what follows from them with what is known of AArch64):
 *
 * 1. A value that a step needs is known before it: the index of its place, what it stores.
 * 2. A store, a lock or a compare-and-swap waits until it is known whether its branch is taken.  A load does not.
 * 3. Accesses to the same place stay in order, but that a load may take what a store before it is about to store.
 * 4. A read barrier keeps loads in order, a write barrier stores, a full barrier everything, an acquire barrier loads before everything.
 * 5. What is behind a lock or the load of a compare-and-swap is performed after it.  What is before an unlock, a store-release or the
 *	  store of a compare-and-swap is performed before it.  So what is behind a compare-and-swap may be seen before it is.
 * 6. Locks, unlocks and compare-and-swaps stay in order.
 *
 * A load does not wait for a barrier or a lock in a branch that is undecided, and not its own, if the branch will not be taken.
 *
 * Nothing else is in order: less is than AArch64 promises, whose read barriers keep loads before stores as well, whose write barriers,
 * as gcc has them, loads before stores, and where whatever follows a branch in the text is behind it.  What is right here is right there.
 *
 * The search is depth first.  A state is the memory, and of each process which steps it has performed and what is still needed of what it has
 * loaded; 128 bits of its hash are kept.  There are no cycles, since each step is performed once.  Where a step concerns no other
 * process, now or later, it is performed without trying what else could be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

typedef unsigned __int128 Set;	/* of steps of a process */

#define BIT(n)		((Set) 1 << (n))
#define MOST_VALUES	8192
#define UNKNOWN		(-1)

typedef enum Kind
{
	LOAD, STORE, STORE_RELEASE, CAS_LOAD, CAS_STORE, LOCK, LOCK_SHARE, UNLOCK, UNLOCK_SHARE, WAIT,
	READ_BARRIER, ACQUIRE_BARRIER, WRITE_BARRIER, FULL_BARRIER, CHECK
} Kind;

static const char *const kind_names[] = {"load", "store", "store", "compare", "swap", "lock", "lock, shared,", "unlock", "unlock, shared,", "wait"};

typedef struct Step
{
	Kind		kind;
	const char *name;
	Place		place,
				other;			/* WAIT */
	Value		index,
				value,			/* to store; to compare with; to be other than; to be checked */
				other_index,
				other_value,
				only_if;
	Set			before;			/* steps that must have been performed */
	Set			within;			/* those of them in whose branch it is */
	Set			same;			/* earlier steps that may be accesses to the same place */
	Set			users;			/* steps that need what this one loads */
	Set			suppliers;		/* loads that this one needs */
	Set			barriers;		/* behind this one, that wait for it */
} Step;

typedef struct Process
{
	const char *name;
	int			n;
	Step		steps[MOST_STEPS];
	Set			accesses;		/* steps that are neither barriers nor checks */
	Set			checks;
	Set			readers[MOST_PLACES],	/* steps that may load from a place, or store to it */
				writers[MOST_PLACES];
} Process;

typedef struct State
{
	uint8_t		memory[MOST_PLACES];
	struct
	{
		Set			done;
		Set			taken;		/* steps whose branch is known to be taken; follows from the rest */
		Set			passed;		/* steps that a load has overtaken, their branch being undecided */
		uint8_t		reserved;	/* place + 1 between the load and the store of a compare-and-swap */
		uint8_t		loaded[MOST_STEPS];
	}			of[MOST_PROCESSES];
} State;

typedef enum Op
{
	NUMBER, LOADED, EQUAL, AND, OR, NOT, PLUS, MINUS, ODD, LEAST, CHOOSE, SHIFTED
} Op;

static struct
{
	Op			op;
	int			a,
				b,
				c;
}			values[MOST_VALUES];
static int	nvalues;

static Process processes[MOST_PROCESSES];
static int	nprocesses;
static Process *current;
static Value conditions[16];	/* of when() */
static int	nconditions;

static struct
{
	const char *name;
	int			index;
}			place_names[MOST_PLACES];
static int	nplaces;
static uint8_t initial[MOST_PLACES];
static bool watched[MOST_PLACES];
static bool total_store_order;
static bool all_orders;

static struct
{
	const char *name;
	bool		(*holds) (const uint8_t *memory);
	bool		last;
}			invariants[16];
static int	ninvariants;
static Place seen_places[MOST_PROCESSES];
static int	nseen;

static void
broken(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(2);
}

/* ---------- values ---------- */

static Value
value_of(Op op, int a, int b, int c)
{
	if (nvalues == MOST_VALUES)
		broken("too many values");
	values[nvalues].op = op;
	values[nvalues].a = a;
	values[nvalues].b = b;
	values[nvalues].c = c;
	return nvalues++;
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

/* UNKNOWN, or what it is.  What decides alone is enough. */
static int
evaluate(const State *s, int p, Value v)
{
	int			a,
				b;

	switch (values[v].op)
	{
		case NUMBER:
			return values[v].a;
		case LOADED:
			return s->of[p].done & BIT(values[v].a) ? s->of[p].loaded[values[v].a] : UNKNOWN;
		case NOT:
			a = evaluate(s, p, values[v].a);
			return a == UNKNOWN ? a : !a;
		case ODD:
			a = evaluate(s, p, values[v].a);
			return a == UNKNOWN ? a : a & 1;
		case SHIFTED:
			a = evaluate(s, p, values[v].a);
			return a == UNKNOWN ? a : a >> values[v].b;
		case CHOOSE:
			a = evaluate(s, p, values[v].a);
			return a == UNKNOWN ? a : evaluate(s, p, a ? values[v].b : values[v].c);
		case AND:
		case OR:
			a = evaluate(s, p, values[v].a);
			if (a != UNKNOWN && (values[v].op == AND) == !a)
				return !!a;
			b = evaluate(s, p, values[v].b);
			if (b != UNKNOWN && (values[v].op == AND) == !b)
				return !!b;
			return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : !!b;
		default:
			break;
	}
	a = evaluate(s, p, values[v].a);
	b = evaluate(s, p, values[v].b);
	if (a == UNKNOWN || b == UNKNOWN)
		return UNKNOWN;
	switch (values[v].op)
	{
		case EQUAL:
			return a == b;
		case LEAST:
			return a >= b;
		case PLUS:
			return a + b;
		default:
			return a > b ? a - b : 0;
	}
}

/* The steps whose loads a value is made of */
static Set
needs(Value v)
{
	Set			set = 0;

	switch (values[v].op)
	{
		case NUMBER:
			return 0;
		case LOADED:
			return BIT(values[v].a);
		case CHOOSE:
			set |= needs(values[v].c);
			/* FALLTHROUGH */
		case EQUAL:
		case AND:
		case OR:
		case PLUS:
		case MINUS:
		case LEAST:
			set |= needs(values[v].b);
			/* FALLTHROUGH */
		default:
			return set | needs(values[v].a);
	}
}

/* ---------- programs ---------- */

Place
places(const char *name, int count, int value)
{
	Place		place = {nplaces, count};

	if (nplaces + count > MOST_PLACES)
		broken("too many places");
	for (int i = 0; i < count; i++)
	{
		place_names[nplaces].name = name;
		place_names[nplaces].index = i;
		initial[nplaces++] = value;
	}
	return place;
}

void
at_first(Place place, int index, int value)
{
	initial[place.first + index] = value;
}

void
watch(Place place)
{
	memset(watched + place.first, true, place.count);
}

void
process(const char *name)
{
	if (nprocesses == MOST_PROCESSES)
		broken("too many processes");
	current = &processes[nprocesses++];
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

static bool loads(Kind k) { return k == LOAD || k == CAS_LOAD || k == LOCK || k == LOCK_SHARE || k == WAIT; }
static bool unlocks(Kind k) { return k == UNLOCK || k == UNLOCK_SHARE; }
static bool locks(Kind k) { return k == LOCK || k == LOCK_SHARE; }
static bool stores(Kind k) { return k == STORE || k == STORE_RELEASE || k == CAS_STORE || locks(k) || unlocks(k); }
static bool acquires(Kind k) { return locks(k) || k == CAS_LOAD; }
static bool releases(Kind k) { return unlocks(k) || k == CAS_STORE || k == STORE_RELEASE; }
static bool barrier(Kind k) { return k == READ_BARRIER || k == ACQUIRE_BARRIER || k == WRITE_BARRIER || k == FULL_BARRIER; }

/* May a be an access to the same place as b? */
static bool
overlap(const Step *a, const Step *b)
{
	if (barrier(a->kind) || barrier(b->kind) || a->kind == CHECK || b->kind == CHECK)
		return false;
	if (a->place.first + a->place.count <= b->place.first || b->place.first + b->place.count <= a->place.first)
		return false;
	if (values[a->index].op == NUMBER && values[b->index].op == NUMBER)
		return a->place.first + values[a->index].a == b->place.first + values[b->index].a;
	return true;
}

/* Must `first` be performed before `second`, whatever they access? */
static bool
in_order(const Step *first, const Step *second)
{
	Kind		a = first->kind,
				b = second->kind;

	if (a == CHECK || b == CHECK)
		return false;
	if (a == FULL_BARRIER || b == FULL_BARRIER)
		return true;
	if (a == ACQUIRE_BARRIER || b == ACQUIRE_BARRIER)
		return a == ACQUIRE_BARRIER || loads(a);
	if (a == READ_BARRIER || b == READ_BARRIER)
		return loads(a == READ_BARRIER ? b : a);
	if (a == WRITE_BARRIER || b == WRITE_BARRIER)
		return stores(a == WRITE_BARRIER ? b : a);
	if (total_store_order)
		return !((a == STORE || a == STORE_RELEASE) && b == LOAD);
	return acquires(a) || releases(b) || ((acquires(a) || releases(a)) && (acquires(b) || releases(b)));
}

/* Is a step's condition one that stands within the other one's branch? */
static bool
implies(Value inner, Value outer)
{
	while (inner != outer && values[inner].op == AND)
		inner = values[inner].a;
	return inner == outer;
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
	else if (!barrier(kind))
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
			if (barrier(kind))
				current->steps[i].barriers |= BIT(n);
		}
		if (overlap(&current->steps[i], step))
			step->same |= BIT(i);
	}
	for (int i = place.first; i < place.first + place.count; i++)
		if (values[index].op != NUMBER || i == place.first + values[index].a)
		{
			if (kind == LOAD || kind == WAIT)
				current->readers[i] |= BIT(n);
			else if (kind != CHECK && !barrier(kind))
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

	if (values[index_b].op != NUMBER)
		broken("wait_for_other: the second index is a number");
	step->other = b;
	step->other_index = index_b;
	step->other_value = value_b;
	used_by(value_b, n);
	current->readers[b.first + values[index_b].a] |= BIT(n);
}

static void
add_invariant(const char *name, bool (*holds) (const uint8_t *memory), bool last)
{
	invariants[ninvariants].name = name;
	invariants[ninvariants].holds = holds;
	invariants[ninvariants++].last = last;
}

void always(const char *name, bool (*holds) (const uint8_t *memory)) { add_invariant(name, holds, false); }
void at_last(const char *name, bool (*holds) (const uint8_t *memory)) { add_invariant(name, holds, true); }

void
seen_if(Value condition)
{
	seen_places[nseen] = places("seen", 1, 0);
	store("seen", seen_places[nseen++], number(0), condition);
}

void
machine_reset(bool tso, bool thorough)
{
	nvalues = nprocesses = nconditions = nplaces = ninvariants = nseen = 0;
	memset(initial, 0, sizeof(initial));
	memset(watched, 0, sizeof(watched));
	total_store_order = tso;
	all_orders = thorough;
}

/* ---------- steps ---------- */

typedef struct Move
{
	uint8_t		process,
				step;
	uint8_t		value;			/* loaded or stored */
	uint8_t		place;
	bool		forwarded;
	Set			passes;
} Move;

static bool squashed;			/* a load was performed before something that it should have waited for, and would be performed again: another path */
static const char *wrong;		/* what does not hold */
static const char *counts;		/* if this is set, nothing else counts */

static void
is_wrong(const char *what)
{
	if (wrong == NULL && (counts == NULL || strcmp(what, counts) == 0))
		wrong = what;
}

static bool
reserved(const State *s, int p, int place)
{
	for (int q = 0; q < nprocesses; q++)
		if (q != p && s->of[q].reserved == place + 1)
			return true;
	return false;
}

/* Rule 3.  *forward: what a store that has not been performed is about to store, or UNKNOWN. */
static bool
same_place_allows(const State *s, int p, int n, int place, int *forward)
{
	Process    *process = &processes[p];
	Set			open = process->steps[n].same & ~s->of[p].done;

	*forward = UNKNOWN;
	for (int i = n - 1; i >= 0; i--)
	{
		Step	   *earlier = &process->steps[i];
		int			index;

		if (!(open & BIT(i)))
			continue;
		index = evaluate(s, p, earlier->index);
		if (index != UNKNOWN && earlier->place.first + index != place)
			continue;
		/* Of two stores that wait, the later one is what is forwarded, and the earlier one does not matter. */
		if (*forward != UNKNOWN && earlier->kind == STORE)
			continue;
		if (index == UNKNOWN || process->steps[n].kind != LOAD || earlier->kind != STORE)
			return false;
		if (!(s->of[p].taken & BIT(i)) && !implies(process->steps[n].only_if, earlier->only_if))
			return false;
		*forward = evaluate(s, p, earlier->value);
		if (*forward == UNKNOWN)
			return false;
	}
	return true;
}

/* May this step be performed now? */
static bool
possible(const State *s, int p, int n, Move *move)
{
	Step	   *step = &processes[p].steps[n];
	Set			waits_for = step->before & ~s->of[p].done;
	int			index,
				value = 0,
				place,
				forward;

	/* A load may overtake them if their branch will not be taken; not where it would be for nothing. */
	if (waits_for != 0 && (step->kind != LOAD || (waits_for & (s->of[p].taken | step->within)) != 0))
		return false;
	if (step->kind != LOAD && (!(s->of[p].taken & BIT(n)) || (s->of[p].passed & (BIT(n) - 1)) != 0))
		return false;
	index = evaluate(s, p, step->index);
	if (index == UNKNOWN || index >= step->place.count)	/* the latter in a branch that is not taken */
		return false;
	place = step->place.first + index;
	if (step->kind != LOAD)
	{
		value = evaluate(s, p, step->value);
		if (value == UNKNOWN)
			return false;
	}
	if (!same_place_allows(s, p, n, place, &forward))
		return false;
	switch (step->kind)
	{
		case LOAD:
			value = forward != UNKNOWN ? forward : s->memory[place];
			break;
		case STORE:
		case STORE_RELEASE:
			if (reserved(s, p, place))
				return false;
			break;
		case CAS_LOAD:
			if (reserved(s, p, place))
				return false;
			value = s->memory[place] == value;
			break;
		case LOCK:
			if (s->memory[place] != 0)
				return false;
			value = 255;
			break;
		case LOCK_SHARE:
			if (s->memory[place] == 255)
				return false;
			value = s->memory[place] + 1;
			break;
		case UNLOCK:
			value = 0;
			break;
		case UNLOCK_SHARE:
			value = s->memory[place] - 1;
			break;
		case WAIT:
			{
				int			other = evaluate(s, p, step->other_value);

				if (other == UNKNOWN)
					return false;
				if (s->memory[place] == value && s->memory[step->other.first + values[step->other_index].a] == other)
					return false;
				break;
			}
		default:
			break;
	}
	move->process = p;
	move->step = n;
	move->value = value;
	move->place = place;
	move->forwarded = forward != UNKNOWN;
	move->passes = waits_for;
	return true;
}

/* The lowest step of a set that is not empty */
static int
lowest(Set set)
{
	return (uint64_t) set != 0 ? __builtin_ctzll((uint64_t) set) : 64 + __builtin_ctzll((uint64_t) (set >> 64));
}

/*
 * What needs no choice, after these steps were performed or at the beginning: barriers that have nothing before them any more, branches that
 * are not taken, checks, and loads that nobody needs.
 */
static void
settle(State *s, int p, Set look)
{
	Process    *process = &processes[p];
	Set		   *done = &s->of[p].done;

	while (look != 0)
	{
		int			n = lowest(look);
		Step	   *step = &process->steps[n];

		look &= ~BIT(n);
		if (!(*done & BIT(n)))
		{
			int			taken = s->of[p].taken & BIT(n) ? 1 : evaluate(s, p, step->only_if);

			if (taken == 1)
			{
				s->of[p].taken |= BIT(n);
				if (s->of[p].passed & BIT(n))
					squashed = true;
			}
			if (taken == 0)
				;
			else if (barrier(step->kind))
			{
				if (step->before & ~*done)
					continue;
			}
			else if (step->kind == CHECK)
			{
				int			holds = evaluate(s, p, step->value);

				if (taken != 1 || holds == UNKNOWN || (s->of[p].passed & (BIT(n) - 1)) != 0)
					continue;
				if (!holds)
					is_wrong(step->name);
			}
			else if (step->kind != LOAD || (step->users & ~*done) != 0)
				continue;
			*done |= BIT(n);
			if (s->of[p].passed & BIT(n))
			{
				s->of[p].passed &= ~BIT(n);
				look |= process->checks & ~*done;
			}
		}
		look |= (step->users | step->barriers | step->suppliers) & ~*done;
		for (Set from = step->suppliers; from != 0; from &= from - 1)
			if ((process->steps[lowest(from)].users & ~*done) == 0)
				s->of[p].loaded[lowest(from)] = 0;
	}
}

static void
perform(State *s, const Move *move)
{
	int			p = move->process,
				n = move->step;

	s->of[p].done |= BIT(n);
	s->of[p].passed |= move->passes;
	switch (processes[p].steps[n].kind)
	{
		case LOAD:
			s->of[p].loaded[n] = move->value;
			break;
		case CAS_LOAD:
			s->of[p].loaded[n] = move->value;
			if (move->value)
				s->of[p].reserved = move->place + 1;
			break;
		case WAIT:
			break;
		case CAS_STORE:
			s->of[p].reserved = 0;
			s->memory[move->place] = move->value;
			break;
		default:
			s->memory[move->place] = move->value;
			break;
	}
	settle(s, p, BIT(n));
}

/* Does it matter to no other process, now or later, when this step is performed? */
static bool
private(const State *s, const Move *move)
{
	Kind		kind = processes[move->process].steps[move->step].kind;

	if (all_orders || move->passes != 0 || kind == WAIT || (kind != LOAD && watched[move->place]))
		return false;
	for (int q = 0; q < nprocesses; q++)
	{
		Set			open = processes[q].writers[move->place];

		if (q == move->process)
			continue;
		if (kind != LOAD)
			open |= processes[q].readers[move->place];
		if (open & ~s->of[q].done)
			return false;
	}
	return true;
}

/* ---------- the search ---------- */

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

	for (int i = 0; i < nplaces; i += 8)
	{
		memcpy(&word, s->memory + i, 8);
		a = mix(a + word, 0xA0761D6478BD642F);
		b = mix(word, b);
	}
	for (int p = 0; p < nprocesses; p++)
	{
		uint64_t	done[2] = {(uint64_t) s->of[p].done, (uint64_t) (s->of[p].done >> 64)};
		uint64_t	passed = mix((uint64_t) s->of[p].passed, (uint64_t) (s->of[p].passed >> 64) + s->of[p].reserved);

		a = mix(mix(a + done[0], done[1] ^ passed), 0x8EBC6AF09C88C6E3);
		b = mix(done[1], mix(done[0] ^ passed, b));
		for (int i = 0; i < processes[p].n; i += 8)
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

static Move path[MOST_PROCESSES * MOST_STEPS];

static void
print_path(int depth)
{
	for (int i = 0; i < depth; i++)
	{
		Move	   *move = &path[i];
		Process    *process = &processes[move->process];
		Step	   *step = &process->steps[move->step];

		printf("%22s %3d  %-46s %s %s[%d]", process->name, move->step, step->name, kind_names[step->kind],
			   place_names[move->place].name, place_names[move->place].index);
		if (step->kind == LOAD)
			printf(" is %d%s", move->value, move->forwarded ? ", its own" : "");
		else if (step->kind == CAS_LOAD)
			printf(move->value ? " is equal" : " is not equal");
		else if (!locks(step->kind) && !unlocks(step->kind) && step->kind != WAIT)
			printf(" = %d", move->value);
		putchar('\n');
	}
}

static bool
holds(const State *s, bool last)
{
	for (int i = 0; i < ninvariants && wrong == NULL; i++)
		if ((last || !invariants[i].last) && !invariants[i].holds(s->memory))
			is_wrong(invariants[i].name);
	return wrong == NULL;
}

/* All have ended, or wait for each other. */
static void
at_end(const State *s, Outcome *outcome)
{
	bool		seen = nseen > 0;

	for (int p = 0; p < nprocesses; p++)
		if (s->of[p].done != (processes[p].n == MOST_STEPS ? ~(Set) 0 : BIT(processes[p].n) - 1))
		{
			/* Where exclusives wait for each other, one of them would fail and be tried again: that is another path. */
			for (int q = 0; q < nprocesses; q++)
				if (s->of[q].reserved)
					return;
			is_wrong("somebody waits for ever");
			return;
		}
	outcome->ends++;
	for (int i = 0; i < nseen; i++)
		seen = seen && s->memory[seen_places[i].first] == 1;
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

	for (int p = 0; p < nprocesses; p++)
		for (Set open = processes[p].accesses & ~s->of[p].done; open != 0; open &= open - 1)
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
		squashed = false;
		perform(&next, &moves[i]);
		if (squashed)
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
	memcpy(s.memory, initial, sizeof(initial));
	for (int p = 0; p < nprocesses; p++)
		settle(&s, p, processes[p].n == MOST_STEPS ? ~(Set) 0 : BIT(processes[p].n) - 1);
	if (wrong == NULL && is_new(&s))
		go_on(&s, 0, &outcome, trace);
	outcome.states = table_used;
	return outcome;
}
