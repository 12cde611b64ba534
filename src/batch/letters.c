/*
 * letters.c
 *	  How a collation orders the letters of ASCII: a guess at the order of text.
 *
 * The C library and ICU compare text level by level: first all letters by their class, which case
 * does not change, and only if these are equal by case.  Nobody tells which classes there are, so
 * the comparison function is asked.  It need not be as simple as that (accents, contractions,
 * letters that don't count), so nothing is true because of this guess: sort.c compares what it has
 * sorted by it.
 */
#include "batch/entry.h"

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

/* Compares two texts of a letter, or of two where the second one is not zero. */
static int
compare(SortSupport key, uint8 a, char after_a, uint8 b, char after_b)
{
	char		x[VARHDRSZ_SHORT + 2] = {0, a, after_a};
	char		y[VARHDRSZ_SHORT + 2] = {0, b, after_b};

	SET_VARSIZE_SHORT(x, VARHDRSZ_SHORT + (after_a ? 2 : 1));
	SET_VARSIZE_SHORT(y, VARHDRSZ_SHORT + (after_b ? 2 : 1));
	return key->comparator(PointerGetDatum(x), PointerGetDatum(y), key);
}

/*
 * Sorts the letters, by insertion, and finds where a class ends: "x1" is above "y0" for letters
 * x < y only if nothing but the next letter tells them apart.  Bytes above ASCII stand above it.
 */
static void
find_letters(SortSupport key, MtpLetters *to)
{
	uint8		sorted[LAST_LETTER];
	uint8		class = 1;
	int			n = 0;

	for (int letter = FIRST_LETTER; letter <= LAST_LETTER; letter++)
	{
		int			at = 0;

		for (int end = n; at < end;)
		{
			int			middle = (at + end) / 2;

			if (compare(key, sorted[middle], 0, letter, 0) < 0)
				at = middle + 1;
			else
				end = middle;
		}
		memmove(&sorted[at + 1], &sorted[at], n++ - at);
		sorted[at] = letter;
	}
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && compare(key, sorted[i - 1], '1', sorted[i], '0') < 0)
			class++;
		to->ranks[sorted[i]] = i + 1;
		to->classes[sorted[i]] = class;
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
