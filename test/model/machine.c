/*
 * machine.c
 *	  A machine with weak memory: which step may be performed when.
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
 */
#include <stddef.h>

#include "inside.h"

static bool squashed;			/* a load overtook what it should have waited for, and would be performed again: another path */

/* ---------- order ---------- */

static bool loads(Kind k) { return k == LOAD || k == CAS_LOAD || k == LOCK || k == LOCK_SHARE || k == WAIT; }
static bool stores(Kind k) { return k == STORE || k == STORE_RELEASE || k == CAS_STORE || is_locking(k) || is_unlocking(k); }
static bool acquires(Kind k) { return is_locking(k) || k == CAS_LOAD; }
static bool releases(Kind k) { return is_unlocking(k) || k == CAS_STORE || k == STORE_RELEASE; }

bool
overlap(const Step *a, const Step *b)
{
	if (is_barrier(a->kind) || is_barrier(b->kind) || a->kind == CHECK || b->kind == CHECK)
		return false;
	if (a->place.first + a->place.count <= b->place.first || b->place.first + b->place.count <= a->place.first)
		return false;
	if (program.values[a->index].op == NUMBER && program.values[b->index].op == NUMBER)
		return a->place.first + program.values[a->index].a == b->place.first + program.values[b->index].a;
	return true;
}

bool
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
	if (program.total_store_order)
		return !((a == STORE || a == STORE_RELEASE) && b == LOAD);
	return acquires(a) || releases(b) || ((acquires(a) || releases(a)) && (acquires(b) || releases(b)));
}

bool
implies(Value inner, Value outer)
{
	while (inner != outer && program.values[inner].op == AND)
		inner = program.values[inner].a;
	return inner == outer;
}

/* ---------- steps ---------- */

/* UNKNOWN, or what it is.  What decides alone is enough. */
static int
evaluate(const State *s, int p, Value v)
{
	int			a,
				b;

	switch (program.values[v].op)
	{
		case NUMBER:
			return program.values[v].a;
		case LOADED:
			return s->of[p].done & BIT(program.values[v].a) ? s->of[p].loaded[program.values[v].a] : UNKNOWN;
		case NOT:
			a = evaluate(s, p, program.values[v].a);
			return a == UNKNOWN ? a : !a;
		case ODD:
			a = evaluate(s, p, program.values[v].a);
			return a == UNKNOWN ? a : a & 1;
		case SHIFTED:
			a = evaluate(s, p, program.values[v].a);
			return a == UNKNOWN ? a : a >> program.values[v].b;
		case CHOOSE:
			a = evaluate(s, p, program.values[v].a);
			return a == UNKNOWN ? a : evaluate(s, p, a ? program.values[v].b : program.values[v].c);
		case AND:
		case OR:
			a = evaluate(s, p, program.values[v].a);
			if (a != UNKNOWN && (program.values[v].op == AND) == !a)
				return !!a;
			b = evaluate(s, p, program.values[v].b);
			if (b != UNKNOWN && (program.values[v].op == AND) == !b)
				return !!b;
			return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : !!b;
		default:
			break;
	}
	a = evaluate(s, p, program.values[v].a);
	b = evaluate(s, p, program.values[v].b);
	if (a == UNKNOWN || b == UNKNOWN)
		return UNKNOWN;
	switch (program.values[v].op)
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

static bool
reserved(const State *s, int p, int place)
{
	for (int q = 0; q < program.nprocesses; q++)
		if (q != p && s->of[q].reserved == place + 1)
			return true;
	return false;
}

/* Rule 3.  *forward: what a store that has not been performed is about to store, or UNKNOWN. */
static bool
same_place_allows(const State *s, int p, int n, int place, int *forward)
{
	Process    *process = &program.processes[p];
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

bool
possible(const State *s, int p, int n, Move *move)
{
	Step	   *step = &program.processes[p].steps[n];
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
				if (s->memory[place] == value && s->memory[step->other.first + program.values[step->other_index].a] == other)
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

/*
 * What needs no choice, after these steps were performed or at the beginning: barriers that have nothing before them any more, branches that
 * are not taken, checks, and loads that nobody needs.
 */
static void
settle(State *s, int p, Set look)
{
	Process    *process = &program.processes[p];
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
			else if (is_barrier(step->kind))
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

bool
perform(State *s, const Move *move)
{
	int			p = move->process,
				n = move->step;

	squashed = false;

	s->of[p].done |= BIT(n);
	s->of[p].passed |= move->passes;
	switch (program.processes[p].steps[n].kind)
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
	return !squashed;
}

void
begin(State *s)
{
	for (int p = 0; p < program.nprocesses; p++)
		settle(s, p, program.processes[p].n == MOST_STEPS ? ~(Set) 0 : BIT(program.processes[p].n) - 1);
}

bool
private(const State *s, const Move *move)
{
	Kind		kind = program.processes[move->process].steps[move->step].kind;

	if (program.thorough || move->passes != 0 || kind == WAIT || (kind != LOAD && program.places[move->place].watched))
		return false;
	for (int q = 0; q < program.nprocesses; q++)
	{
		Set			open = program.processes[q].writers[move->place];

		if (q == move->process)
			continue;
		if (kind != LOAD)
			open |= program.processes[q].readers[move->place];
		if (open & ~s->of[q].done)
			return false;
	}
	return true;
}
