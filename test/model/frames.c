/*
 * frames.c
 *	  The protocol of src/buffer/frame.h and frame.c: readers, a writer, and others that publish,
 *	  evict, purge and change kinds.  pairs.c has what table pages have besides.
 *
 * A function does what its counterpart in the code does, access by access: accesses says which that
 * is, and t/unit/model.pl compares the two.  A step is named after its function and the
 * MTP_FRAME_STEP before it in the code (or behind it, where that comes last).  with("...") is what
 * can be taken out: frame_removals below.
 *
 * Heat and places are left out, since nothing relies on them: any frame may be chosen at any time.
 * So are looks that spare work alone (mtp_frame_publish's first one).  A page is of two words, and
 * has two numbers at the most.  Words (of buckets) have no mark, so they mislead whenever they can.
 */
#include <stddef.h>

#include "frames.h"

#define PAGES	2

Place		version, tag, image, word, partition;
Place		content, page;
Place		kind_of;

static int	nframes;
static int	nwords;				/* in a bucket */
static bool one_bucket;			/* of both pages, and one partition; else each has its own, of one word */
static Kinds kinds;
static bool directories_last;	/* what changes leaves them right */
static Place told;				/* numbers that everybody knows, of commits and from other readers */
static Place purged;

void
make(int frames, int words, bool shared, Kinds how)
{
	nframes = frames;
	nwords = words;
	one_bucket = shared;
	kinds = how;
	directories_last = false;
	version = places("version", nframes, 0);
	tag = places("tag", nframes, 0);
	image = places("image", nframes * 2, 0);
	word = places("word", shared ? words : PAGES, 0);
	partition = places("partition", shared ? 1 : PAGES, 0);
	content = places("content", PAGES, 0);
	page = places("page", PAGES, 0);
	told = places("told", 2, 0);
	kind_of = places("kind", how == ONE_SLAB ? 1 : nframes, INDEX);
	purged = places("purged", 1, 0);
}

/* What a frame of this kind says of a page of number 0 */
bool is_directory(int kind) { return kind == DIRECTORY || kind == SMALL; }

static int said(int kind, int which) { return (is_directory(kind) ? DIRECTORY_OF(which) : which) * 8; }

Value image_at(Value frame) { return kinds == ONE_SLAB ? frame : plus(frame, frame); }
int image_words(int kind) { return kinds != ONE_SLAB || kind == TABLE ? 2 : 1; }

void
in_frame(int kind, int which, int frame)
{
	at_first(tag, frame, which);
	at_first(kind_of, kinds == ONE_SLAB ? 0 : frame, kind);
	for (int i = 0; i < image_words(kind); i++)
		at_first(image, (kinds == ONE_SLAB ? frame : frame * 2) + i, said(kind, which));
	at_first(word, one_bucket ? frame : which - 1, frame + 1);
}

Value partition_of(Value which) { return one_bucket ? number(0) : minus(which, number(1)); }
Value frame_of(Value led) { return minus(led, number(1)); }
static Value word_at(Value which, int i) { return one_bucket ? number(i) : minus(which, number(1)); }

static Value
kind_of_frame(Value frame)
{
	return load("mtp_frame_kind", kind_of, kinds == ONE_SLAB ? number(0) : frame);
}

/* Index pages alone are of one kind for ever: nothing is gained by looking. */
static Value
is_of(Value frame, Value kind)
{
	return kinds == NO_KINDS ? truth : equal(kind_of_frame(frame), kind);
}

static Value page_kind(Value kind) { return choose(equal(kind, number(SMALL)), number(DIRECTORY), kind); }

/* Has the frame pages of the same kind?  Directories have frames of two. */
static Value
has_pages_of(Value frame, Value kind)
{
	if (kinds == NO_KINDS || !with("both_sizes"))
		return is_of(frame, kind);
	return equal(page_kind(kind_of_frame(frame)), page_kind(kind));
}

/* ---------- frame.c ---------- */

Found
word_of(Value which, Value kind)
{
	Found		result = {number(0), number(0), number(0)};

	for (int i = 0; i < nwords; i++)
	{
		Value		led,
					has,
					it;

		when(not(result.found));
		led = load("word_of: the word", word, word_at(which, i));
		when(not(equal(led, number(0))));
		has = load("word_of: whose frame it leads to", tag, frame_of(led));
		it = and(not(equal(led, number(0))), equal(has, which));
		if (kind != ANY_KIND)
			it = and(it, has_pages_of(frame_of(led), kind));
		end_when();
		end_when();
		result.at = choose(result.found, result.at, word_at(which, i));
		result.led = choose(result.found, result.led, led);
		result.found = or(result.found, it);
	}
	return result;
}

static Found
free_word(Value which)
{
	Found		result = {number(0), number(0), number(0)};

	for (int i = 0; i < nwords; i++)
	{
		Value		led = load("free_word", word, word_at(which, i));

		result.at = choose(equal(led, number(0)), word_at(which, i), result.at);
		result.found = or(result.found, equal(led, number(0)));
	}
	return result;
}

/* The version from even to odd, if nobody else has changed it */
static Value
make_odd(Value frame, Value from)
{
	if (!with("compare_and_swap"))
	{
		store("take: chosen; odd if unchanged", version, frame, plus(from, number(1)));
		return truth;
	}
	return compare_and_swap("take: chosen; odd if unchanged", version, frame, from, plus(from, number(with("odd_version") ? 1 : 2)));
}

Value
take(Value frame)
{
	Value		from,
				which,
				is_free,
				taken_free,
				taken_used,
				kind = number(INDEX);
	Found		its_word;

	from = load("take: the version", version, frame);
	if (with("take_read_barrier"))
		read_barrier("take: the version before the identity");
	which = load("take: whose it is", tag, frame);
	when(not(odd(from)));
	is_free = equal(which, number(0));
	when(is_free);
	taken_free = make_odd(frame, from);
	if (with("take_free_write_barrier"))
		write_barrier("take: the odd version before all else");
	end_when();
	when(not(is_free));
	if (with("take_lock"))
		lock("take: partition", partition, partition_of(which));
	taken_used = make_odd(frame, from);
	if (with("take_used_write_barrier"))
		write_barrier("take: the odd version before all else");
	when(taken_used);
	if (kinds != NO_KINDS)
		kind = load("take: the kind", kind_of, kinds == ONE_SLAB ? number(0) : frame);
	its_word = word_of(which, kind);
	check("a used frame has no word", its_word.found);
	if (with("word_removal"))
		store("take: odd; the word goes", word, its_word.at, number(0));
	end_when();
	if (with("take_lock"))
		unlock("take: partition", partition, partition_of(which));
	when(taken_used);
	store("take: taken; nobody's", tag, frame, number(0));
	end_when();
	end_when();
	end_when();
	return and(not(odd(from)), choose(is_free, taken_free, taken_used));
}

void
let_go(Value frame)
{
	if (with("let_go_write_barrier"))
		write_barrier("let_go: what the version protects before it");
	store("let_go: complete; even", version, frame, plus(load("let_go: its own version", version, frame), number(with("odd_version") ? 1 : 0)));
}

/* The caller has locked the page's content.  A directory is empty: its first word is. */
Published
publish_as(int kind, int which, int frame, Value its_number)
{
	Value		f = number(frame),
				t = number(which),
				of_kind = truth,
				free = number(0);
	Found		other,
				place;
	Published	result;

	when(take(f));
	if (with("kind_check"))
		of_kind = is_of(f, number(kind));
	when(not(of_kind));
	let_go(f);
	end_when();
	when(of_kind);
	if (is_directory(kind))
		store("publish: mine; empty", image, image_at(f), number(0));
	else
	{
		store("publish: mine; the image", image, image_at(f), plus(number(said(kind, which)), its_number));
		if (image_words(kind) > 1)
			store("publish: the image's end", image, plus(image_at(f), number(1)), plus(number(said(kind, which)), its_number));
	}
	store("publish: copied; whose it is", tag, f, t);
	if (with("publish_lock"))
		lock("publish: partition", partition, partition_of(t));
	other = word_of(t, number(kind));
	place = free_word(t);
	free = with("publish_look") ? and(not(other.found), place.found) : place.found;
	when(free);
	store("publish: word_chosen; the word", word, place.at, number(frame + 1));
	end_when();
	when(not(free));
	store("publish: has no word", tag, f, number(0));
	end_when();
	let_go(f);
	result.version = is_directory(kind) ? load("publish: the version that is reserved", version, f) : number(0);
	if (with("publish_lock"))
		unlock("publish: partition", partition, partition_of(t));
	result.done = and(of_kind, free);
	end_when();
	end_when();
	return result;
}

void
publish(int kind, int which, int frame)
{
	if (with("publish_content"))
		lock_share("content", content, number(which - 1));
	publish_as(kind, which, frame, load("the page", page, number(which - 1)));
	if (with("publish_content"))
		unlock_share("content", content, number(which - 1));
}

void
stale(int kind, int which)
{
	Found		found;
	Value		led;

	if (!with("stale_mark"))
		return;
	found = word_of(number(which), number(kind));
	when(found.found);
	led = load("stale: the word again; word_found", word, found.at);
	when(not(equal(led, number(0))));
	when(take(frame_of(led)));
	let_go(frame_of(led));
	end_when();
	end_when();
	end_when();
}

/* A frame that leads to P is purged. */
static void
purge(void)
{
	for (int frame = 0; frame < nframes && with("purge"); frame++)
	{
		Value		from,
					which,
					now;

		from = load("purge: the version", version, number(frame));
		if (with("purge_first_barrier"))
			read_barrier("purge: the version before the identity");
		which = load("purge: whose it is", tag, number(frame));
		if (with("purge_second_barrier"))
			read_barrier("purge: the identity before the version");
		now = load("purge: looked_at; the version again", version, number(frame));
		when(with("purge_look") ? and(not(odd(from)), equal(from, now)) : truth);
		when(equal(which, number(P)));
		when(take(number(frame)));
		let_go(number(frame));
		end_when();
		end_when();
		end_when();
	}
}

/* Gives up where take() fails once. */
void
change_slab(int kind)
{
	Value		mine[4],
				all = truth;

	for (int frame = 0; frame < nframes; frame++)
	{
		when(all);
		mine[frame] = take(number(frame));
		end_when();
		all = and(all, mine[frame]);
	}
	when(with("all_frames") ? all : mine[0]);
	store("change_slab: all_mine; the kind", kind_of, number(0), number(kind));
	end_when();
	for (int frame = nframes - 1; frame >= 0; frame--)
	{
		Value		taken = truth;

		for (int i = 0; i <= frame; i++)
			taken = and(taken, mine[i]);
		when(taken);
		let_go(number(frame));
		end_when();
	}
}

/* Somebody's knowledge reaches others as under an LWLock: what was loaded before it, and stored, is performed before it. */
void
tell(int place, Value n)
{
	store_release("tells", told, number(place), n);
}

Value
hear(int place)
{
	Value		n = load("hears", told, number(place));

	read_barrier("hears");
	return n;
}

/* ---------- frame.h ---------- */

Read
read_page(int kind, int which, Value known)
{
	Value		found = number(0),
				frame = number(0),
				from = number(0),
				first,
				second,
				at;
	Read		result;

	for (int i = 0; i < nwords; i++)
	{
		Value		led,
					v,
					has,
					it;

		when(not(found));
		led = load("find: the word", word, word_at(number(which), i));
		when(not(equal(led, number(0))));
		v = load("find: word_read; the version", version, frame_of(led));
		if (with("find_read_barrier"))
			read_barrier("find: the version before what it protects");
		has = load("find: version_read; whose it is", tag, frame_of(led));
		it = and(not(equal(led, number(0))), and(with("odd_look") ? not(odd(v)) : truth, with("identity") ? equal(has, number(which)) : truth));
		if (kind != INDEX && with("kind_look"))
			it = and(it, has_pages_of(frame_of(led), number(kind)));
		end_when();
		end_when();
		frame = choose(found, frame, frame_of(led));
		from = choose(found, from, v);
		found = or(found, it);
	}
	when(found);
	at = image_at(frame);
	first = load("reader: found; a word of the image", image, at);
	second = image_words(kind) > 1 ? load("reader: another word of the image", image, plus(at, number(1))) : first;
	if (with("still_read_barrier"))
		read_barrier("still: what was read before the version");
	result.accepted = with("still") ? and(found, equal(from, load("still: image_read; the version again", version, frame))) : found;
	if (kind == DIRECTORY && with("empty_look"))
		result.accepted = and(result.accepted, not(equal(first, number(0))));
	if (!with("snapshot_first"))
		known = hear(0);
	when(result.accepted);
	result.number = minus(first, number(said(kind, which)));
	if (kind == DIRECTORY)
		check("a reader believed an empty directory", not(equal(first, number(0))));
	check("a reader accepted half a page", equal(first, second));
	check("a reader accepted another page", equal(shifted(first, 3), number(said(kind, which) / 8)));
	check("a reader accepted a page older than what it knew of", least(result.number, known));
	end_when();
	end_when();
	return result;
}

/* ---------- what must hold ---------- */

/* The words that lead to this frame */
static int
words_to(const uint8_t *m, int frame)
{
	int			n = 0;

	for (int i = 0; i < word.count; i++)
		n += m[word.first + i] == frame + 1;
	return n;
}

static int
kind_now(const uint8_t *m, int frame)
{
	int			kind = m[kind_of.first + (kinds == ONE_SLAB ? 0 : frame)];

	return is_directory(kind) ? DIRECTORY : kind;
}

static bool
one_frame_each(const uint8_t *m)
{
	int			n[PAGES + 1][DIRECTORY + 1] = {{0}};

	for (int i = 0; i < nframes; i++)
		if (m[version.first + i] % 2 == 0 && words_to(m, i) > 0 && ++n[m[tag.first + i]][kind_now(m, i)] > 1 && m[tag.first + i] != 0)
			return false;
	return true;
}

static bool
none_of_purged(const uint8_t *m)
{
	for (int i = 0; i < nframes; i++)
		if (m[purged.first] && m[tag.first + i] == P && m[version.first + i] % 2 == 0)
			return false;
	return true;
}

static bool
whole_at_last(const uint8_t *m)
{
	for (int i = 0; i < nframes; i++)
	{
		int			t = m[tag.first + i],
					kind = kind_now(m, i),
					at = image.first + (kinds == ONE_SLAB ? i : i * 2);

		if (m[version.first + i] % 2 != 0 || words_to(m, i) != (t != 0))
			return false;
		if (t == 0 || (kind == DIRECTORY && (m[at] == 0 || directories_last)))
			continue;
		for (int j = 0; j < image_words(kind); j++)
			if (m[at + j] != said(kind, t) + m[page.first + t - 1])
				return false;
	}
	return true;
}

void
directories_stay_right(void)
{
	directories_last = true;
}

void
must_hold(void)
{
	watch(version);
	watch(tag);
	watch(word);
	watch(purged);
	always("a page has two frames", one_frame_each);
	at_last("at the end, a frame is not whole, not its page, or has not one word", whole_at_last);
}

/* ---------- scenarios ---------- */

/* A reader that learns from the writer, and one that learns from that reader as well */
void
two_readers(int kind)
{
	Read		r;

	process("reader 1");
	r = read_page(kind, P, hear(0));
	when(r.accepted);
	tell(1, r.number);
	end_when();
	process("reader 2");
	(void) read_page(kind, P, hear(1));
}

void
change_page(int which)
{
	lock("content", content, number(which - 1));
	store("the page changes", page, number(which - 1), number(1));
	stale(INDEX, which);
	unlock("content", content, number(which - 1));
}

static void
writer(void)
{
	process("writer");
	change_page(P);
	tell(0, number(1));
}

/* The only frame is the page's; then another page's; then the page's again. */
static void
evict(void)
{
	make(1, 1, false, NO_KINDS);
	in_frame(INDEX, P, 0);
	two_readers(INDEX);
	writer();
	process("evictor");
	publish(INDEX, Q, 0);
	publish(INDEX, P, 0);
	must_hold();
}

/* Both pages have the same bucket, of two words. */
static void
bucket(void)
{
	make(1, 2, true, NO_KINDS);
	in_frame(INDEX, P, 0);
	two_readers(INDEX);
	writer();
	process("evictor");
	publish(INDEX, Q, 0);
	must_hold();
}

/* The page has no frame at first. */
static void
published(void)
{
	make(1, 1, false, NO_KINDS);
	process("reader");
	(void) read_page(INDEX, P, hear(0));
	writer();
	process("publisher");
	publish(INDEX, P, 0);
	must_hold();
}

/* A change of two pages; what is found on one of them leads to the other. */
static void
split(void)
{
	Read		r;
	Value		known;

	make(2, 1, false, NO_KINDS);
	in_frame(INDEX, P, 0);
	in_frame(INDEX, Q, 1);
	process("reader");
	r = read_page(INDEX, Q, number(0));
	when(r.accepted);
	(void) read_page(INDEX, P, r.number);
	end_when();
	process("reader without a frame");
	lock_share("content", content, number(Q - 1));
	known = load("the page", page, number(Q - 1));
	unlock_share("content", content, number(Q - 1));
	(void) read_page(INDEX, P, known);
	process("writer");
	lock("content", content, number(P - 1));
	lock("content", content, number(Q - 1));
	store("the page changes", page, number(P - 1), number(1));
	store("the page changes", page, number(Q - 1), number(1));
	stale(INDEX, Q);
	if (!with("all_stale_first"))
		unlock("content", content, number(Q - 1));
	stale(INDEX, P);
	if (with("all_stale_first"))
		unlock("content", content, number(Q - 1));
	unlock("content", content, number(P - 1));
	process("evictor");
	publish(INDEX, Q, 1);
	publish(INDEX, P, 0);
	must_hold();
}

/* Two publish the same page at a time; one of the frames has another page. */
static void
twice(void)
{
	make(2, 2, true, NO_KINDS);
	in_frame(INDEX, Q, 1);
	process("reader");
	(void) read_page(INDEX, P, hear(0));
	writer();
	process("publisher 1");
	publish(INDEX, P, 0);
	process("publisher 2");
	publish(INDEX, P, 1);
	must_hold();
}

/* Two take the same frame at a time. */
static void
contended(void)
{
	make(1, 1, false, NO_KINDS);
	in_frame(INDEX, P, 0);
	process("reader");
	(void) read_page(INDEX, P, number(0));
	process("evictor 1");
	publish(INDEX, Q, 0);
	process("evictor 2");
	publish(INDEX, P, 0);
	must_hold();
}

static void
purged_file(void)
{
	make(2, 1, false, NO_KINDS);
	in_frame(INDEX, P, 0);
	process("reader");
	{
		Value		gone = load("hears", purged, number(0));

		read_barrier("hears");
		when(gone);
		check("a reader accepted a page that was purged", not(read_page(INDEX, P, number(0)).accepted));
		end_when();
	}
	process("purger");
	purge();
	store_release("purged", purged, number(0), number(1));
	process("evictor");
	publish(INDEX, Q, 0);
	process("evictor 2");
	publish(INDEX, Q, 1);
	must_hold();
	always("a purged page has a frame", none_of_purged);
}

/* The slab has two frames of index pages, each of one word, or one frame of a table page, of two. */
static void
slab(void)
{
	make(2, 1, false, ONE_SLAB);
	in_frame(INDEX, P, 0);
	process("reader of the index");
	(void) read_page(INDEX, P, number(0));
	process("reader of the table");
	(void) read_page(TABLE, Q, number(0));
	process("changes the slab");
	change_slab(TABLE);
	process("of the index");
	publish_as(INDEX, P, 1, number(0));
	process("of the table");
	when(equal(load("publish: the kind that the slab had; placed", kind_of, number(0)), number(TABLE)));
	publish_as(TABLE, Q, 0, number(0));
	end_when();
	must_hold();
}

const Scenario frame_scenarios[] = {
	{"evict", evict},
	{"bucket", bucket},
	{"publish", published},
	{"split", split},
	{"twice", twice},
	{"contended", contended},
	{"purge", purged_file},
	{"slab", slab},
	{NULL, NULL}
};

const Removal frame_removals[] = {
	{"find_read_barrier", "evict", HALF, "the read barrier between the version and the identity"},
	{"still_read_barrier", "evict", HALF, "the read barrier before the second look at the version"},
	{"take_read_barrier", "evict", WORDLESS, "the read barrier between the version and the identity of a frame that is taken"},
	{"take_free_write_barrier", "evict", HALF, "the write barrier behind the odd version of a free frame"},
	{"take_used_write_barrier", "evict", HALF, "the write barrier behind the odd version of a page's frame"},
	{"let_go_write_barrier", "evict", HALF, "the write barrier before the even version"},
	{"identity", "evict", OTHER, "the reader's look at the identity"},
	{"still", "evict", HALF, "the reader's second look at the version"},
	{"odd_look", "evict", HALF, "the reader's look whether the version is even"},
	{"odd_version", "evict", HALF, "the odd version"},
	{"compare_and_swap", "contended", HALF, "the comparison when the version is made odd"},
	{"stale_mark", "evict", OLD, "the stale mark"},
	{"all_stale_first", "split", OLD, "that all pages are stale before the first is unlocked"},
	{"publish_content", "publish", OLD, "the lock of the content of a page that is published"},
	{"word_removal", "evict", END, "the word's removal"},
	{"publish_lock", "twice", DOUBLE, "the partition's lock when a word is added"},
	{"publish_look", "twice", DOUBLE, "the look under the lock whether the page has a word"},
	{"kind_check", "slab", HALF, "the look at the slab's kind"},
	{"all_frames", "slab", HALF, "that all frames of a slab are taken before it changes"},
	{"purge", "purge", "a reader accepted a page that was purged", "the purge"},
	{"take_lock", "bucket", "", "the partition's lock when a frame is taken"},
	{"purge_first_barrier", "purge", "", "the read barrier of a purge between version and identity"},
	{"purge_second_barrier", "purge", "", "the read barrier of a purge between identity and version"},
	{"purge_look", "purge", "", "the look of a purge whether the identity was of a frame at rest"},
	{NULL, NULL, NULL, NULL}
};
