/*
 * letters.c
 *	  How a collation orders the letters of ASCII: a guess at the order of text.
 *
 * The C library and ICU compare text level by level: first all letters by their class, which case
 * does not change, and only if these are equal by case; blanks and punctuation may count last of
 * all.  Nobody tells which classes there are, so the comparison function is asked.  It need not be
 * as simple as that (accents, contractions, other alphabets), so nothing is true because of this
 * guess: sort.c compares what it has sorted by it.
 */
#include "batch/entry.h"

#include <ctype.h>

#include "utils/memutils.h"

#define FIRST_LETTER	1
#define LAST_LETTER		127

/* What the process has found, the last one first. */
typedef struct Known
{
	struct Known *next;
	Oid			collation;
	MtpLetters	letters;
} Known;

static Known *known = NULL;

#define MOST_LETTERS	3

/* Makes a text of a pattern, in which x stands for the letter. */
static Datum
make_text(char *room, const char *pattern, char letter)
{
	int			len = strlen(pattern);

	Assert(len <= MOST_LETTERS);
	SET_VARSIZE_SHORT(room, VARHDRSZ_SHORT + len);
	for (int i = 0; i < len; i++)
		room[VARHDRSZ_SHORT + i] = pattern[i] == 'x' ? letter : pattern[i];
	return PointerGetDatum(room);
}

/* Compares two such texts. */
static int
compare(SortSupport key, const char *a, char letter_a, const char *b, char letter_b)
{
	char		x[VARHDRSZ_SHORT + MOST_LETTERS];
	char		y[VARHDRSZ_SHORT + MOST_LETTERS];

	return key->comparator(make_text(x, a, letter_a), make_text(y, b, letter_b), key);
}

/* The letters of ASCII in their order; returns how many. */
static int
sort_letters(SortSupport key, char *sorted)
{
	int			n = 0;

	for (char letter = FIRST_LETTER; n < LAST_LETTER; letter++)
	{
		int			at = 0;

		for (int end = n; at < end;)
		{
			int			middle = (at + end) / 2;

			if (compare(key, "x", sorted[middle], "x", letter) < 0)
				at = middle + 1;
			else
				end = middle;
		}
		memmove(&sorted[at + 1], &sorted[at], n++ - at);
		sorted[at] = letter;
	}
	return n;
}

/*
 * True if a letter counts only where all others are equal, as punctuation does in many collations:
 * as if it were not there, "0x1" is above "00", and "0x0" below "01".
 */
static bool
counts_last(SortSupport key, char letter)
{
	return !isalnum((unsigned char) letter) &&
		compare(key, "0x1", letter, "00", 0) > 0 &&
		compare(key, "0x0", letter, "01", 0) < 0;
}

/*
 * A class ends between letters x < y, unless "x1" is above "y0": then only the next letter tells
 * them apart.  Bytes above ASCII stand above it.
 */
static void
find_letters(SortSupport key, MtpLetters *to)
{
	char		sorted[LAST_LETTER];
	int			n = sort_letters(key, sorted);
	char		before = 0;		/* the last one that counts */
	uint8		class = 1;

	to->all_count = true;
	for (int i = 0; i < n; i++)
	{
		char		letter = sorted[i];

		to->ranks[(uint8) letter] = i + 1;
		if (counts_last(key, letter))
		{
			to->all_count = false;
			continue;
		}
		if (before != 0 && compare(key, "x1", before, "x0", letter) < 0)
			class++;
		to->classes[(uint8) letter] = class;
		before = letter;
	}
	for (int byte = LAST_LETTER + 1; byte <= PG_UINT8_MAX; byte++)
		to->ranks[byte] = to->classes[byte] = Min(byte, PG_UINT8_MAX - 1);
}

const MtpLetters *
mtp_batch_letters(SortSupport key)
{
	MtpLetters	letters = {0};
	Known	   *k;

	for (k = known; k != NULL; k = k->next)
		if (k->collation == key->ssup_collation)
			return &k->letters;

	find_letters(key, &letters);
	k = MemoryContextAlloc(TopMemoryContext, sizeof(Known));
	k->next = known;
	k->collation = key->ssup_collation;
	k->letters = letters;
	known = k;
	return &k->letters;
}
