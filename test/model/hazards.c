/*
 * hazards.c
 *	  Hazard pointers: readers of frames keep VACUUM from giving away what they have read of
 *	  (src/buffer/README.md).
 *
 * A leaf of number 0 has an entry whose row is dead.  VACUUM changes leaves, so their number becomes
 * 1; then it waits for hazard pointers; then the rows' places are used again.  A reader that has an entry from
 * a leaf's frame looks at its row's place some time later (an index-only scan: at the visibility
 * map), and must not find there what came after VACUUM.
 */
#include <stddef.h>

#include "frames.h"

#define THE_INDEX	7			/* as hazard pointers say it */
#define HAZARDS		2

static Place hazard_index, hazard_sequence;
static Place used_again;		/* the place of a leaf's row */

static void
make_hazards(void)
{
	hazard_index = places("hazard pointer index", HAZARDS, 0);
	hazard_sequence = places("hazard pointer sequence", HAZARDS, 0);
	used_again = places("row", 2, 0);
}

/* ---------- readers ---------- */

/*
 * Before a leaf is read.  What was done with the leaf before is done.
 */
static void
set_hazard(int hazard)
{
	if (with("hazard_release"))
		acquire_barrier("set_hazard: what was done under the hazard pointer before it changes");
	if (with("hazard_set"))
	{
		store("set_hazard: the sequence", hazard_sequence, number(hazard),
			  plus(load("set_hazard: its own sequence", hazard_sequence, number(hazard)), number(1)));
		store("set_hazard: the index", hazard_index, number(hazard), number(THE_INDEX));
	}
	if (with("hazard_reader_barrier"))
		full_barrier("set_hazard: the hazard pointer before the leaf");
	else
	{
		write_barrier("");
		read_barrier("");
	}
}

static void
clear_hazard(int hazard)
{
	if (with("hazard_release"))
		acquire_barrier("clear_hazard: what was done under the hazard pointer before it goes");
	store("clear_hazard", hazard_index, number(hazard), number(0));
}

/* Does something with the entry that was read from this leaf, if it was there. */
static void
act(int leaf, Read r)
{
	Value		row;

	when(r.accepted);
	when(equal(r.number, number(0)));
	row = load("act: the row's place", used_again, number(leaf - 1));
	check("a reader acted on a row's place that was used again", not(row));
	end_when();
	end_when();
}

/* ---------- VACUUM ---------- */

static void
look_at_hazards(Value *index, Value *sequence)
{
	for (int i = 0; i < HAZARDS; i++)
	{
		index[i] = load("wait_for_hazards: the index", hazard_index, number(i));
		sequence[i] = load("wait_for_hazards: the sequence", hazard_sequence, number(i));
	}
}

/* Waits until no hazard pointer is as it was. */
static void
wait_for_hazards(Value *index, Value *sequence)
{
	if (with("hazard_vacuum_barrier"))
		full_barrier("wait_for_hazards: the changes before the look at the hazard pointers");
	if (with("hazard_look"))
		look_at_hazards(index, sequence);
	for (int i = 0; i < HAZARDS && with("hazard_wait"); i++)
	{
		when(equal(index[i], number(THE_INDEX)));
		if (with("hazard_index") && with("hazard_sequence"))
			wait_for_other("wait_for_hazards", hazard_index, number(i), index[i],
						   hazard_sequence, number(i), sequence[i]);
		else
		{
			/* Without a look at one of the two words, the other one has to change. */
			Place		alone = with("hazard_index") ? hazard_index : hazard_sequence;
			Value		was = with("hazard_index") ? index[i] : sequence[i];

			wait_for_other("wait_for_hazards", alone, number(i), was, alone, number(i), was);
		}
		end_when();
	}
	if (with("hazard_wait_barrier"))
		acquire_barrier("wait_for_hazards: the hazard pointers before what is done with the rows' places");
}

static void
vacuum(int leaves)
{
	Value		index[HAZARDS],
				sequence[HAZARDS];

	process("vacuum");
	if (!with("hazard_look"))
		look_at_hazards(index, sequence);
	for (int leaf = P; leaf < P + leaves; leaf++)
		change_page(leaf);
	wait_for_hazards(index, sequence);
	for (int leaf = P; leaf < P + leaves; leaf++)
		store("the row's place is used again", used_again, number(leaf - 1), number(1));
}

/* ---------- scenarios ---------- */

/* One scan goes from leaf to leaf, another one reads the first leaf twice. */
static void
scans(void)
{
	Read		r;

	make(2, 1, false, NO_KINDS);
	make_hazards();
	in_frame(INDEX, P, 0);
	in_frame(INDEX, Q, 1);
	process("scan");
	set_hazard(0);
	r = read_page(INDEX, P, number(0));
	if (!with("hazard_kept"))
		clear_hazard(0);
	act(P, r);
	set_hazard(0);
	r = read_page(INDEX, Q, number(0));
	act(Q, r);
	clear_hazard(0);
	vacuum(2);
	must_hold();
}

/* Two scans, and an evictor that takes the leaf's frame, and publishes the leaf again */
static void
evicted(void)
{
	Read		r;

	make(1, 1, false, NO_KINDS);
	make_hazards();
	in_frame(INDEX, P, 0);
	process("scan");
	set_hazard(0);
	r = read_page(INDEX, P, number(0));
	act(P, r);
	clear_hazard(0);
	process("other scan");
	set_hazard(1);
	r = read_page(INDEX, P, number(0));
	act(P, r);
	clear_hazard(1);
	vacuum(1);
	process("evictor");
	publish(INDEX, Q, 0);
	publish(INDEX, P, 0);
	must_hold();
}

/* A scan that is read again: the hazard pointer is cleared and set in between. */
static void
rescan(void)
{
	Read		r;

	make(1, 1, false, NO_KINDS);
	make_hazards();
	in_frame(INDEX, P, 0);
	process("scan");
	for (int i = 1; i <= 2; i++)
	{
		set_hazard(0);
		r = read_page(INDEX, P, number(0));
		act(P, r);
		clear_hazard(0);
	}
	vacuum(1);
	process("evictor");
	publish(INDEX, P, 0);
	must_hold();
}

/*
 * A scan marks its place on the first leaf, goes on to the second, and comes back.  The mark takes over the hazard pointer, and the scan goes on with
 * another; or, where that is taken out, the mark gets a hazard pointer of its own, before the scan's own changes.
 */
static void
mark(void)
{
	Read		first,
				second;
	int			marks = 0,
				goes_on = 1;

	make(2, 1, false, NO_KINDS);
	make_hazards();
	in_frame(INDEX, P, 0);
	in_frame(INDEX, Q, 1);
	process("scan");
	set_hazard(0);
	first = read_page(INDEX, P, number(0));
	if (!with("hazard_handed_over"))
	{
		set_hazard(1);
		marks = 1;
		goes_on = 0;
	}
	set_hazard(goes_on);
	second = read_page(INDEX, Q, number(0));
	act(Q, second);
	act(P, first);
	clear_hazard(goes_on);
	clear_hazard(marks);
	vacuum(2);
	must_hold();
}

const Scenario hazard_scenarios[] = {
	{"scans", scans},
	{"evicted", evicted},
	{"rescan", rescan},
	{"mark", mark},
	{NULL, NULL}
};

#define AGAIN	"a reader acted on a row's place that was used again"

const Removal hazard_removals[] = {
	{"hazard_wait", "scans", AGAIN, "VACUUM's wait for hazard pointers"},
	{"hazard_set", "scans", AGAIN, "the hazard pointer"},
	{"hazard_kept", "scans", AGAIN, "that the hazard pointer stands until the reader has dealt with the leaf's entries"},
	{"hazard_look", "scans", AGAIN, "that VACUUM looks at hazard pointers after its last change"},
	{"hazard_reader_barrier", "scans", AGAIN, "the full barrier between hazard pointer and leaf (read and write barriers are not enough)"},
	{"hazard_vacuum_barrier", "scans", AGAIN, "the full barrier between VACUUM's changes and the hazard pointers"},
	{"hazard_release", "scans", AGAIN, "the barrier between what is done with a leaf's entries and the next hazard pointer"},
	{"hazard_wait_barrier", "scans", AGAIN, "the barrier between VACUUM's wait and what follows"},
	{"hazard_handed_over", "mark", AGAIN, "that a mark takes over the hazard pointer of the scan"},
	{"hazard_index", "scans", "somebody waits for ever", "VACUUM's look at the index when it waits, so that it does not see hazard pointers that are cleared"},
	{"hazard_sequence", "scans", "", "VACUUM's look at the sequence when it waits"},
	{NULL, NULL, NULL, NULL}
};
