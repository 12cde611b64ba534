/*
 * slots.c
 *	  Hazard pointers: readers of frames keep VACUUM from giving away what they have read of
 *	  (src/buffer/README.md).
 *
 * A leaf of number 0 has an entry whose row is dead.  VACUUM changes leaves, so their number becomes
 * 1; then it waits for slots; then the rows' places are used again.  A reader that has an entry from
 * a leaf's frame looks at its row's place some time later (an index-only scan: at the visibility
 * map), and must not find there what came after VACUUM.
 */
#include <stddef.h>

#include "frames.h"

#define THE_INDEX	7			/* as slots say it */
#define SLOTS		2

static Place slot_index, slot_sequence;
static Place used_again;		/* the place of a leaf's row */

static void
make_slots(void)
{
	slot_index = places("slot index", SLOTS, 0);
	slot_sequence = places("slot sequence", SLOTS, 0);
	used_again = places("row", 2, 0);
}

/* ---------- readers ---------- */

/*
 * Before a leaf is read.  What was done with the leaf before is done.
 */
static void
set_slot(int slot)
{
	if (with("slot_release"))
		acquire_barrier("set_slot: what was done under the slot before it changes");
	if (with("slot_set"))
	{
		store("set_slot: the sequence", slot_sequence, number(slot),
			  plus(load("set_slot: its own sequence", slot_sequence, number(slot)), number(1)));
		store("set_slot: the index", slot_index, number(slot), number(THE_INDEX));
	}
	if (with("slot_reader_barrier"))
		full_barrier("set_slot: the slot before the leaf");
	else
	{
		write_barrier("");
		read_barrier("");
	}
}

static void
clear_slot(int slot)
{
	if (with("slot_release"))
		acquire_barrier("clear_slot: what was done under the slot before it goes");
	store("clear_slot", slot_index, number(slot), number(0));
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
look_at_slots(Value *index, Value *sequence)
{
	for (int i = 0; i < SLOTS; i++)
	{
		index[i] = load("wait_for_slots: the index", slot_index, number(i));
		sequence[i] = load("wait_for_slots: the sequence", slot_sequence, number(i));
	}
}

/* Waits until no slot is as it was. */
static void
wait_for_slots(Value *index, Value *sequence)
{
	if (with("slot_vacuum_barrier"))
		full_barrier("wait_for_slots: the changes before the look at the slots");
	if (with("slot_look"))
		look_at_slots(index, sequence);
	for (int i = 0; i < SLOTS && with("slot_wait"); i++)
	{
		when(equal(index[i], number(THE_INDEX)));
		if (with("slot_index") && with("slot_sequence"))
			wait_for_other("wait_for_slots", slot_index, number(i), index[i],
						   slot_sequence, number(i), sequence[i]);
		else
		{
			/* Without a look at one of the two words, the other one has to change. */
			Place		alone = with("slot_index") ? slot_index : slot_sequence;
			Value		was = with("slot_index") ? index[i] : sequence[i];

			wait_for_other("wait_for_slots", alone, number(i), was, alone, number(i), was);
		}
		end_when();
	}
	if (with("slot_wait_barrier"))
		acquire_barrier("wait_for_slots: the slots before what is done with the rows' places");
}

static void
vacuum(int leaves)
{
	Value		index[SLOTS],
				sequence[SLOTS];

	process("vacuum");
	if (!with("slot_look"))
		look_at_slots(index, sequence);
	for (int leaf = P; leaf < P + leaves; leaf++)
		change_page(leaf);
	wait_for_slots(index, sequence);
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
	make_slots();
	in_frame(INDEX, P, 0);
	in_frame(INDEX, Q, 1);
	process("scan");
	set_slot(0);
	r = read_page(INDEX, P, number(0));
	if (!with("slot_kept"))
		clear_slot(0);
	act(P, r);
	set_slot(0);
	r = read_page(INDEX, Q, number(0));
	act(Q, r);
	clear_slot(0);
	vacuum(2);
	must_hold();
}

/* Two scans, and an evictor that takes the leaf's frame, and publishes the leaf again */
static void
evicted(void)
{
	Read		r;

	make(1, 1, false, NO_KINDS);
	make_slots();
	in_frame(INDEX, P, 0);
	process("scan");
	set_slot(0);
	r = read_page(INDEX, P, number(0));
	act(P, r);
	clear_slot(0);
	process("other scan");
	set_slot(1);
	r = read_page(INDEX, P, number(0));
	act(P, r);
	clear_slot(1);
	vacuum(1);
	process("evictor");
	publish(INDEX, Q, 0);
	publish(INDEX, P, 0);
	must_hold();
}

/* A scan that is read again: the slot is cleared and set in between. */
static void
rescan(void)
{
	Read		r;

	make(1, 1, false, NO_KINDS);
	make_slots();
	in_frame(INDEX, P, 0);
	process("scan");
	for (int i = 1; i <= 2; i++)
	{
		set_slot(0);
		r = read_page(INDEX, P, number(0));
		act(P, r);
		clear_slot(0);
	}
	vacuum(1);
	process("evictor");
	publish(INDEX, P, 0);
	must_hold();
}

/*
 * A scan marks its place on the first leaf, goes on to the second, and comes back.  The mark takes over the slot, and the scan goes on with
 * another; or, where that is taken out, the mark gets a slot of its own, before the scan's own changes.
 */
static void
mark(void)
{
	Read		first,
				second;
	int			marks = 0,
				goes_on = 1;

	make(2, 1, false, NO_KINDS);
	make_slots();
	in_frame(INDEX, P, 0);
	in_frame(INDEX, Q, 1);
	process("scan");
	set_slot(0);
	first = read_page(INDEX, P, number(0));
	if (!with("slot_handed_over"))
	{
		set_slot(1);
		marks = 1;
		goes_on = 0;
	}
	set_slot(goes_on);
	second = read_page(INDEX, Q, number(0));
	act(Q, second);
	act(P, first);
	clear_slot(goes_on);
	clear_slot(marks);
	vacuum(2);
	must_hold();
}

const Scenario slot_scenarios[] = {
	{"scans", scans},
	{"evicted", evicted},
	{"rescan", rescan},
	{"mark", mark},
	{NULL, NULL}
};

#define AGAIN	"a reader acted on a row's place that was used again"

const Removal slot_removals[] = {
	{"slot_wait", "scans", AGAIN, "VACUUM's wait for slots"},
	{"slot_set", "scans", AGAIN, "the slot"},
	{"slot_kept", "scans", AGAIN, "that the slot stands until the reader has dealt with the leaf's entries"},
	{"slot_look", "scans", AGAIN, "that VACUUM looks at slots after its last change"},
	{"slot_reader_barrier", "scans", AGAIN, "the full barrier between slot and leaf (read and write barriers are not enough)"},
	{"slot_vacuum_barrier", "scans", AGAIN, "the full barrier between VACUUM's changes and the slots"},
	{"slot_release", "scans", AGAIN, "the barrier between what is done with a leaf's entries and the next slot"},
	{"slot_wait_barrier", "scans", AGAIN, "the barrier between VACUUM's wait and what follows"},
	{"slot_handed_over", "mark", AGAIN, "that a mark takes over the slot of the scan"},
	{"slot_index", "scans", "somebody waits for ever", "VACUUM's look at the index when it waits, so that it does not see slots that are cleared"},
	{"slot_sequence", "scans", "", "VACUUM's look at the sequence when it waits"},
	{NULL, NULL, NULL, NULL}
};
