/*
 * inside.h
 *	  What program.c, machine.c and search.c share.
 */
#ifndef MODEL_INSIDE_H
#define MODEL_INSIDE_H

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

typedef struct Move
{
	uint8_t		process,
				step;
	uint8_t		value;			/* loaded or stored */
	uint8_t		place;
	bool		forwarded;
	Set			passes;
} Move;

typedef enum Op
{
	NUMBER, LOADED, EQUAL, AND, OR, NOT, PLUS, MINUS, ODD, LEAST, CHOOSE, SHIFTED
} Op;

typedef struct Node
{
	Op			op;
	int			a,
				b,
				c;
} Node;

/* ---------- program.c: what has been written ---------- */

typedef struct Program
{
	Process		processes[MOST_PROCESSES];
	int			nprocesses;
	Node		values[MOST_VALUES];
	int			nvalues;
	struct
	{
		const char *name;
		int			index;		/* in its row */
		uint8_t		initial;
		bool		watched;
	}			places[MOST_PLACES];
	int			nplaces;
	struct
	{
		const char *name;
		bool		(*holds) (const uint8_t *memory);
		bool		last;
	}			invariants[16];
	int			ninvariants;
	Place		seen[MOST_PROCESSES];
	int			nseen;
	bool		total_store_order;
	bool		thorough;
} Program;

extern Program program;

extern void broken(const char *what) __attribute__((noreturn));

static inline bool is_locking(Kind k) { return k == LOCK || k == LOCK_SHARE; }
static inline bool is_unlocking(Kind k) { return k == UNLOCK || k == UNLOCK_SHARE; }
static inline bool is_barrier(Kind k) { return k == READ_BARRIER || k == ACQUIRE_BARRIER || k == WRITE_BARRIER || k == FULL_BARRIER; }

/* The lowest step of a set that is not empty */
static inline int
lowest(Set set)
{
	return (uint64_t) set != 0 ? __builtin_ctzll((uint64_t) set) : 64 + __builtin_ctzll((uint64_t) (set >> 64));
}

/* ---------- machine.c: what may be performed ---------- */

/* Must `first` be performed before `second`, whatever they access?  May they be accesses to the same place? */
extern bool in_order(const Step *first, const Step *second);
extern bool overlap(const Step *a, const Step *b);

/* Is a step's condition one that stands within the other one's branch? */
extern bool implies(Value inner, Value outer);

/* May this step be performed now?  *move is what happens then. */
extern bool possible(const State *s, int p, int n, Move *move);

/* Does it matter to no other process, now or later, when this step is performed? */
extern bool private(const State *s, const Move *move);

/* Performs a step; at the beginning: what needs no step.  False if this is no path after all. */
extern bool perform(State *s, const Move *move);
extern void begin(State *s);

/* ---------- search.c ---------- */

/* Something does not hold. */
extern void is_wrong(const char *what);

#endif
