/*
 * machine.h
 *	  A machine with weak memory, and the search through all that it may do.
 *
 * Each process has a list of steps, in the order of its program.  A step that is an access to memory may be performed out of that order,
 * unless a rule of machine.c forbids it; then it reads or changes the one memory that all see (AArch64: "other multi-copy atomic").  A
 * load may be performed before it is known whether its branch is taken.  There are no loops: what repeats itself is written out.
 *
 * Programs are written by calling the functions below, between process() and the next process().
 */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_PLACES		48
#define MOST_STEPS		128
#define MOST_PROCESSES	5

/* What is computed from what was loaded: no step of its own, and known as soon as it follows from what is known. */
typedef int Value;

/* Some places in memory, in a row */
typedef struct Place
{
	int			first;
	int			count;
} Place;

extern Value number(int n);
extern Value equal(Value a, Value b);
extern Value and(Value a, Value b);
extern Value or(Value a, Value b);
extern Value not(Value a);
extern Value plus(Value a, Value b);
extern Value minus(Value a, Value b);
extern Value odd(Value a);
extern Value least(Value a, Value b);	/* a >= b */
extern Value choose(Value condition, Value a, Value b);
extern Value shifted(Value a, int bits);	/* to the right */
#define truth number(1)

/* New places; each has this value at first. */
extern Place places(const char *name, int count, int value);
extern void at_first(Place place, int index, int value);

/* The next steps are a process's. */
extern void process(const char *name);

/* Steps within are performed only where the condition holds. */
extern void when(Value condition);
extern void end_when(void);

/* Plain accesses, as pg_atomic_read_u64 and pg_atomic_write_u64 are; the name is the step's in traces. */
extern Value load(const char *name, Place place, Value index);
extern void store(const char *name, Place place, Value index, Value value);

/* Is it exchanged?  Two accesses (load-acquire exclusive, store-release exclusive), between which nobody else changes the place. */
extern Value compare_and_swap(const char *name, Place place, Value index, Value from, Value to);

/* All before it is performed before it, as before the store that releases a lock. */
extern void store_release(const char *name, Place place, Value index, Value value);

/* LWLocks.  All after lock() is performed after it, all before unlock() before it. */
extern void lock(const char *name, Place place, Value index);
extern void lock_share(const char *name, Place place, Value index);
extern void unlock(const char *name, Place place, Value index);
extern void unlock_share(const char *name, Place place, Value index);

/* As PostgreSQL documents them: loads before loads, stores before stores, everything. */
extern void read_barrier(const char *name);
extern void write_barrier(const char *name);
extern void full_barrier(const char *name);

/* What pg_read_barrier is where it is C11's acquire fence (dmb ishld on AArch64): loads before everything */
extern void acquire_barrier(const char *name);

/* Loads both places again and again, until one of them has another value than the one given. */
extern void wait_for_other(const char *name, Place a, Value index_a, Value value_a, Place b, Value index_b, Value value_b);

/* Must hold where it is reached.  The name says what is wrong if it does not, here and below. */
extern void check(const char *name, Value condition);

/* Must hold of memory always, and when all processes have ended.  The former looks at no places but those that are watched. */
extern void watch(Place place);
extern void always(const char *name, bool (*holds) (const uint8_t *memory));
extern void at_last(const char *name, bool (*holds) (const uint8_t *memory));

/* For litmus tests: can all processes end so that all that was asked for holds?  The condition is about what this process has loaded. */
extern void seen_if(Value condition);

/*
 * Forgets everything.  tso: loads and stores keep their order but that a load may be performed before stores that precede it (x86-64).
 * thorough: what concerns no other process is tried in all orders as well, which may find nothing more.
 */
extern void machine_reset(bool tso, bool thorough);

typedef struct Outcome
{
	const char *wrong;			/* what does not hold, or NULL */
	bool		seen;			/* all conditions of seen_if held in some end */
	uint64_t	states;
	uint64_t	ends;			/* of them */
} Outcome;

/*
 * Goes through everything that may happen, up to the first thing that is wrong, which is printed with what led to it if trace is set.
 * Where something is expected, nothing else counts.
 */
extern Outcome explore(const char *expected, bool trace);

#endif
