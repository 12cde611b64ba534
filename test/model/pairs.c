/*
 * pairs.c
 *	  Table pages in the buffer.  Core changes and unlocks them before their frames are made stale;
 *	  that comes before the writer commits.  Page directories are reserved while the page is locked,
 *	  and filled later (mtp_frame_stale_pair, mtp_frame_fill).
 *
 * Readers know of changes by their snapshots alone: they must find what committed before.  A pair is
 * one page here, with one lock; a directory that is empty has nothing in its first word.
 */
#include <stddef.h>

#include "frames.h"

/* ---------- frame.c ---------- */

/* With the partition's lock, which it releases */
static void
take_away(Found its, Value which)
{
	Value		frame,
				from;

	frame = frame_of(load("take_away: the word", word, its.at));
	from = load("take_away: the version", version, frame);
	check("a frame that a word leads to is odd under its lock", not(odd(from)));
	if (with("pair_odd"))
		store("take_away: odd", version, frame, plus(from, number(1)));
	if (with("pair_write_barrier"))
		write_barrier("take_away: the odd version before all else");
	if (with("pair_word"))
		store("take_away: pair_odd; the word goes", word, its.at, number(0));
	unlock("take_away: partition", partition, partition_of(which));
	store("take_away: taken; nobody's", tag, frame, number(0));
	if (with("pair_odd"))
		let_go(frame);
}

static void
stale_pair(int kind, int which)
{
	Value		t = number(which);
	Found		before = {truth, number(0), number(0)},
				its;

	if (!with("pair_stale"))
		return;
	if (!with("pair_lock"))
	{
		stale(kind, which);
		return;
	}
	if (with("pair_first_look"))
		before = word_of(t, with("pair_kind") ? number(kind) : ANY_KIND);
	when(before.found);
	lock("stale_pair: pair_found; partition", partition, partition_of(t));
	its = with("pair_look") ? word_of(t, with("pair_kind") ? number(kind) : ANY_KIND) : before;
	when(its.found);
	take_away(its, t);
	end_when();
	when(not(its.found));
	unlock("stale_pair: partition", partition, partition_of(t));
	end_when();
	end_when();
}

/* Size 0: it is taken away. */
static void
fill(int which, int frame, Value reserved, Value its_number, bool size)
{
	Value		f = number(frame),
				t = number(which),
				from,
				mine;
	Found		its;

	if (with("fill_lock"))
		lock("fill: partition", partition, partition_of(t));
	from = load("fill: fill_locked; the version", version, f);
	mine = with("fill_version") ? equal(from, reserved) : not(odd(from));
	if (with("fill_lock"))
	{
		when(not(mine));
		unlock("fill: partition", partition, partition_of(t));
		end_when();
	}
	when(mine);
	if (!size)
	{
		its = word_of(t, number(DIRECTORY));
		check("a frame that is reserved has no word", its.found);
		take_away(its, t);
	}
	else
	{
		if (!with("fill_lock"))
			when(compare_and_swap("fill: odd if unchanged", version, f, from, plus(from, number(1))));
		else if (with("fill_odd"))
			store("fill: odd", version, f, plus(from, number(1)));
		if (with("fill_write_barrier"))
			write_barrier("fill: the odd version before the directory");
		store("fill: fill_odd; the directory", image, image_at(f),
			  plus(number(DIRECTORY_OF(which) * 8), its_number));
		if (image_words(DIRECTORY) > 1)
			store("fill: the directory's end", image, plus(image_at(f), number(1)),
				  plus(number(DIRECTORY_OF(which) * 8), its_number));
		if (with("fill_odd"))
			let_go(f);
		if (with("fill_lock"))
			unlock("fill: partition", partition, partition_of(t));
		else
			end_when();
	}
	end_when();
}

/* ---------- processes ---------- */

/* Core changes the pair; frames of these kinds go; then the writer commits. */
static void
writer(bool rows, bool directory)
{
	process("writer");
	lock("content", content, number(P - 1));
	store("the page changes", page, number(P - 1), number(1));
	unlock("content", content, number(P - 1));
	if (!with("pair_stale_first"))
		tell(0, number(1));
	if (rows)
		stale_pair(TABLE, P);
	if (directory)
		stale_pair(DIRECTORY, P);
	if (with("pair_stale_first"))
		tell(0, number(1));
}

static void
build_as(int kind, int which, int frame, bool size)
{
	Value		its_number;
	Published	reserved;

	lock_share("content", content, number(which - 1));
	its_number = load("the page", page, number(which - 1));
	if (!with("reserve_content"))
		unlock_share("content", content, number(which - 1));
	reserved = publish_as(kind, which, frame, its_number);
	if (with("reserve_content"))
		unlock_share("content", content, number(which - 1));
	when(reserved.done);
	fill(which, frame, reserved.version, its_number, size);
	end_when();
}

static void
build(int which, int frame, bool size)
{
	build_as(DIRECTORY, which, frame, size);
}

/* The snapshot comes before the look for a frame. */
static Read
read_with_snapshot(int kind, int which)
{
	return read_page(kind, which, with("snapshot_first") ? hear(0) : number(0));
}

/* ---------- scenarios ---------- */

/* Is the table's end still where it was?  If not, the directory that was reserved is taken away. */
static Value
look_again(Place size, Value end, Value reserved)
{
	Value		same;

	if (with("pair_grown_barrier"))
		full_barrier("reserve: the word before the table's end");
	same = equal(end, load("reserve: the table's end again", size, number(0)));
	if (with("pair_grown"))
	{
		when(not(same));
		fill(P, 0, reserved, number(0), false);
		end_when();
	}
	return same;
}

/*
 * The writer's block is new: the table grows.  The builder has looked for its end before, so it does
 * not lock that block.  It looks again when the frame has its word.
 */
static void
grown(void)
{
	Place		extension,
				size;
	Value		end,
				same,
				its_number;
	Published	reserved;

	make(1, 1, false, FIXED_KINDS);
	at_first(kind_of, 0, DIRECTORY);
	extension = places("extension", 1, 0);
	size = places("size", 1, 0);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	process("writer");
	lock("extension", extension, number(0));
	store("the table grows", size, number(0), number(1));
	unlock("extension", extension, number(0));
	lock("content", content, number(P - 1));
	store("the page changes", page, number(P - 1), number(1));
	unlock("content", content, number(P - 1));
	stale_pair(DIRECTORY, P);
	tell(0, number(1));
	process("builder");
	end = load("the table's end", size, number(0));
	when(end);
	lock_share("content", content, number(P - 1));
	end_when();
	its_number = choose(end, load("the page", page, number(P - 1)), number(0));
	reserved = publish_as(DIRECTORY, P, 0, its_number);
	when(end);
	unlock_share("content", content, number(P - 1));
	end_when();
	when(reserved.done);
	same = look_again(size, end, reserved.version);
	if (with("pair_grown"))
		when(same);
	fill(P, 0, reserved.version, its_number, true);
	if (with("pair_grown"))
		end_when();
	end_when();
	must_hold();
}

/* An image; then another pair's; then the pair's again. */
static void
core(void)
{
	make(1, 1, false, FIXED_KINDS);
	in_frame(TABLE, P, 0);
	two_readers(TABLE);
	writer(true, false);
	process("evictor");
	publish(TABLE, Q, 0);
	publish(TABLE, P, 0);
	must_hold();
}

/* The frame has the pair's old directory, which goes, and a new one is built. */
static void
rebuilt(void)
{
	make(1, 1, false, FIXED_KINDS);
	in_frame(DIRECTORY, P, 0);
	process("reader 1");
	(void) read_with_snapshot(DIRECTORY, P);
	process("reader 2");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(false, true);
	process("builder");
	build(P, 0, true);
	must_hold();
}

/* The frame is given to another pair's directory while it is built; their words lie in the same bucket or not. */
static void
given(bool shared)
{
	make(1, shared ? 2 : 1, shared, FIXED_KINDS);
	at_first(kind_of, 0, DIRECTORY);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	if (!shared)
	{
		process("reader of another pair");
		(void) read_page(DIRECTORY, Q, number(0));
	}
	writer(false, true);
	process("builder");
	build(P, 0, true);
	process("builder of another pair");
	build(Q, 0, true);
	must_hold();
}

static void
reused(void)
{
	given(false);
}

static void
neighbours(void)
{
	given(true);
}

/* A builder gives up; another one builds. */
static void
given_up(void)
{
	make(1, 1, false, FIXED_KINDS);
	at_first(kind_of, 0, DIRECTORY);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(false, true);
	process("builder");
	build(P, 0, false);
	process("builder 2");
	build(P, 0, true);
	must_hold();
}

/* Two build at a time, in two frames. */
static void
built_twice(void)
{
	make(2, 2, true, FIXED_KINDS);
	at_first(kind_of, 0, DIRECTORY);
	at_first(kind_of, 1, DIRECTORY);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(false, true);
	process("builder");
	build(P, 0, true);
	process("builder 2");
	build(P, 1, true);
	must_hold();
}

/* A directory turns out to be too large for its frame, which goes; it is built anew in a larger one, while others build it in that size. */
static void
outgrown(void)
{
	make(2, 2, true, FIXED_KINDS);
	at_first(kind_of, 0, SMALL);
	at_first(kind_of, 1, DIRECTORY);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(false, true);
	process("builder");
	build_as(SMALL, P, 0, false);
	build_as(DIRECTORY, P, 1, true);
	process("builder 2");
	build_as(DIRECTORY, P, 1, true);
	must_hold();
}

/* Two build at a time, in frames of both sizes. */
static void
two_sizes(void)
{
	make(2, 2, true, FIXED_KINDS);
	at_first(kind_of, 0, SMALL);
	at_first(kind_of, 1, DIRECTORY);
	process("reader");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(false, true);
	process("builder");
	build_as(SMALL, P, 0, true);
	process("builder 2");
	build_as(DIRECTORY, P, 1, true);
	must_hold();
}

/* Directory and image, whose words lie in the same bucket; a row is deleted, so the image goes. */
static void
deleted(void)
{
	make(2, 2, true, FIXED_KINDS);
	in_frame(DIRECTORY, P, 0);
	in_frame(TABLE, P, 1);
	process("reader of the image");
	(void) read_with_snapshot(TABLE, P);
	process("reader of the directory");
	(void) read_page(DIRECTORY, P, number(0));
	writer(true, false);
	directories_stay_right();
	must_hold();
}

/* A row is inserted, so both go. */
static void
inserted(void)
{
	make(2, 2, true, FIXED_KINDS);
	in_frame(DIRECTORY, P, 0);
	in_frame(TABLE, P, 1);
	process("reader of the image");
	(void) read_with_snapshot(TABLE, P);
	process("reader of the directory");
	(void) read_with_snapshot(DIRECTORY, P);
	writer(true, true);
	must_hold();
}

/* The slab has two frames of directories, or one of a pair. */
static void
kinds(void)
{
	make(2, 2, true, ONE_SLAB);
	in_frame(DIRECTORY, P, 0);
	process("reader of the image");
	(void) read_with_snapshot(TABLE, P);
	process("reader of the directory");
	(void) read_with_snapshot(DIRECTORY, P);
	process("changes the slab");
	change_slab(TABLE);
	process("of the image");
	when(equal(load("publish: the kind that the slab had; placed", kind_of, number(0)), number(TABLE)));
	publish_as(TABLE, P, 0, number(0));
	end_when();
	must_hold();
}

/* A directory is built while its slab changes, and an image lies over it. */
static void
changed_kind(void)
{
	make(2, 1, false, ONE_SLAB);
	at_first(kind_of, 0, DIRECTORY);
	process("reader of the image");
	(void) read_page(TABLE, Q, number(0));
	process("builder");
	build(P, 1, true);
	process("changes the slab");
	change_slab(TABLE);
	process("of the image");
	when(equal(load("publish: the kind that the slab had; placed", kind_of, number(0)), number(TABLE)));
	publish_as(TABLE, Q, 0, number(0));
	end_when();
	must_hold();
}

const Scenario pair_scenarios[] = {
	{"core", core},
	{"rebuilt", rebuilt},
	{"reused", reused},
	{"neighbours", neighbours},
	{"given_up", given_up},
	{"built_twice", built_twice},
	{"two_sizes", two_sizes},
	{"outgrown", outgrown},
	{"grown", grown},
	{"deleted", deleted},
	{"inserted", inserted},
	{"kinds", kinds},
	{"changed_kind", changed_kind},
	{NULL, NULL}
};

#define ODD		"a frame that a word leads to is odd under its lock"

const Removal pair_removals[] = {
	{"pair_stale", "core", OLD, "the stale mark of an image"},
	{"pair_stale", "rebuilt", OLD, "the stale mark of a directory"},
	{"pair_stale_first", "core", OLD, "that the frame goes before the writer commits"},
	{"snapshot_first", "core", OLD, "that the snapshot is taken before a frame is looked for"},
	{"pair_lock", "rebuilt", OLD, "the partition's lock when a directory is made stale: its builder has the frame odd, and lets it live"},
	{"pair_look", "core", HALF, "the second look for the word, under the lock"},
	{"pair_odd", "core", WORDLESS, "the odd version when a pair is made stale"},
	{"pair_write_barrier", "core", HALF, "the write barrier behind it"},
	{"pair_word", "core", END, "the word's removal when a pair is made stale"},
	{"pair_first_look", "core", "", "the first look for the word, without the lock"},
	{"take_lock", "core", HALF, "the partition's lock when a frame is taken from a pair"},
	{"pair_kind", "deleted", OLD, "the kind, when a word is looked for that has to go"},
	{"kind_look", "deleted", OTHER, "the reader's look at the kind"},
	{"reserve_content", "rebuilt", OLD, "the lock of the content when a directory is reserved"},
	{"pair_grown", "grown", OLD, "the second look for the table's end, when a directory of a single block is reserved"},
	{"pair_grown_barrier", "grown", OLD, "the full barrier before it"},
	{"empty_look", "rebuilt", EMPTY, "the reader's look whether a directory is filled"},
	{"fill_lock", "rebuilt", ODD, "the partition's lock when a directory is filled"},
	{"fill_version", "reused", OTHER, "the look whether the frame is still the one that was reserved"},
	{"fill_odd", "rebuilt", HALF, "the odd version while a directory is filled"},
	{"fill_write_barrier", "rebuilt", HALF, "the write barrier behind it"},
	{"let_go_write_barrier", "rebuilt", HALF, "the write barrier before the even version, when a directory was filled"},
	{"find_read_barrier", "rebuilt", HALF, "the reader's first barrier, when a directory is filled"},
	{"still_read_barrier", "rebuilt", HALF, "the reader's second barrier, when a directory is filled"},
	{"odd_look", "rebuilt", HALF, "the reader's look whether the version is even, when a directory is filled"},
	{"still", "rebuilt", HALF, "the reader's second look at the version, when a directory is filled"},
	{"identity", "reused", OTHER, "the reader's look at the identity of a directory"},
	{"kind_look", "kinds", OTHER, "the reader's look at the kind, which changes"},
	{"fill_version", "given_up", "a frame that is reserved has no word", "the look whether the frame is still the one that was reserved, where the builder gives up"},
	{"publish_look", "built_twice", DOUBLE, "the look whether there is one, when a directory is reserved"},
	{"both_sizes", "two_sizes", DOUBLE, "that a directory is looked for in frames of both sizes"},
	{"publish_look", "two_sizes", DOUBLE, "the look whether there is one, in a frame of the other size"},
	{"kind_check", "changed_kind", HALF, "the look at the slab's kind, when a directory is reserved"},
	{NULL, NULL, NULL, NULL}
};
