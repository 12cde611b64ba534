/*
 * sharpen.c
 *	  Makes the prefixes of a sorted batch tell more of the order.
 *
 * An entry's prefix is the first word of its key (words.h).  Where a batch's first words are equal,
 * as of URLs, or of few values, the merge of the runs would compare tuples, and wait for the memory
 * that they are in.  Here a prefix becomes what the keys' words differ in, one word's span behind
 * the other, as far as 64 bits reach.  Words that all entries share take no room.  So the prefix
 * often says all of the key.  If the runs' TIDs ascend from run to run, too, the merge looks at no
 * tuple.
 *
 * The order of new prefixes is the order of the words that they are made of, so runs stay sorted.
 * Where words don't tell the order, they are the ranks of the keys in the batch (rank.c).
 */
#include "batch/shared.h"

#include "batch/span.h"
#include "batch/words.h"
#include "core/inject.h"
#include "miscadmin.h"

#define AHEAD			8		/* entries ahead whose tuples are fetched */
#define MOST_USED		56		/* bits of a prefix that is looked at further */

typedef struct Sharpener
{
	MtpOrder   *order;
	MtpBatch   *batch;
	uint64	   *sharp;			/* the new prefixes, run by run, … */
	uint64	   *words;			/* … and the words to be added to them */
	int			used;			/* bits of sharp */
	MtpWordAt	at;				/* the next word of each entry */
} Sharpener;

/* Passes the words that all entries have in common: the first and last of each run have them. */
static void
pass_common(Sharpener *s)
{
	MtpBatch   *b = s->batch;

	while (s->at.kind != MTP_WORD_NONE && s->at.kind != MTP_WORD_TID)
	{
		uint64		common = 0;

		for (int r = 0; r < b->nruns; r++)
		{
			MtpRun	   *run = mtp_run(b, r);
			uint64		first,
						last;

			if (!mtp_word_get(s->order, MTP_RUN_WIDE(run)[0].itup, s->at, &first) ||
				!mtp_word_get(s->order, MTP_RUN_WIDE(run)[run->n - 1].itup, s->at, &last))
				return;
			if (first != last || (r > 0 && first != common))
				return;
			common = first;
		}
		s->at = mtp_word_next(s->order, s->at, common);
	}
}

/* Reads each entry's next word, and their span; false if some entry has none. */
static bool
read_next(Sharpener *s, Span *span)
{
	MtpBatch   *b = s->batch;
	uint64		min = PG_UINT64_MAX,
				max = 0,
				differ = 0;
	uint64	   *word = s->words;
	bool		prefix = mtp_word_is_prefix(s->at);

	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);
		MtpWide    *a = MTP_RUN_WIDE(run);

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < run->n; i++, word++)
		{
			if (prefix)
				*word = a[i].prefix;
			else
			{
				if (i + AHEAD < run->n)
					__builtin_prefetch(a[i + AHEAD].itup);
				if (!mtp_word_get(s->order, a[i].itup, s->at, word))
					return false;
			}
			min = Min(min, *word);
			max = Max(max, *word);
			differ |= *word ^ s->words[0];
		}
	}
	span->min = min;
	span->shift = span->bits = 0;
	if (differ != 0)
		*span = span_of(min, max, differ);
	return true;
}

/* What comes behind the words, if that is the same for all entries; else MTP_WORD_NONE. */
static MtpWordAt
behind_words(Sharpener *s)
{
	MtpWordAt	next = mtp_word_next(s->order, s->at, s->words[0]);

	for (uint32 i = 1; i < s->batch->entries && next.kind != MTP_WORD_NONE; i++)
	{
		MtpWordAt	other = mtp_word_next(s->order, s->at, s->words[i]);

		if (other.kind != next.kind || other.column != next.column || other.offset != next.offset)
			next.kind = MTP_WORD_NONE;
	}
	return next;
}

/* Adds as many of the words' bits to the prefixes as these have room for. */
static void
add_words(Sharpener *s, Span span)
{
	int			bits = Min(span.bits, 64 - s->used);
	int			shift = span.shift + span.bits - bits;

	if (bits == 0)
		return;
	for (uint32 i = 0; i < s->batch->entries; i++)
	{
		uint64		before = bits == 64 ? 0 : s->sharp[i] << bits;

		s->sharp[i] = before | ((s->words[i] - span.min) >> shift);
	}
	s->used += bits;
}

/* True if prefixes tell little of the order: many are those of their neighbours. */
static bool
prefixes_repeat(MtpBatch *b)
{
	uint32		repeated = 0;

	for (int r = 0; r < b->nruns; r++)
	{
		MtpRun	   *run = mtp_run(b, r);
		const MtpWide *a = MTP_RUN_WIDE(run);

		for (uint32 i = 1; i < run->n; i++)
			repeated += a[i].prefix == a[i - 1].prefix;
	}
	return repeated > b->entries / 4;
}

/* Writes the new prefixes; nothing may come between. */
static void
write_prefixes(Sharpener *s)
{
	const uint64 *prefix = s->sharp;

	for (int r = 0; r < s->batch->nruns; r++)
	{
		MtpRun	   *run = mtp_run(s->batch, r);

		for (uint32 i = 0; i < run->n; i++)
			MTP_RUN_WIDE(run)[i].prefix = *prefix++;
	}
	s->batch->sharp = true;
}

/*
 * For the claimant of the cut, all runs sorted.  Sets sharp if prefixes are not first words any
 * more, and exact if entries of equal prefixes have equal keys, and stand in the order of their
 * runs.  May be repeated: a batch that is sharp stays as it is.  It raises before it changes
 * anything.
 */
void
mtp_batch_sharpen(MtpOrder *order, MtpBatch *b)
{
	Sharpener	s = {.order = order,.batch = b};
	Size		bytes = (Size) b->entries * sizeof(uint64);
	bool		other;			/* than first words */
	bool		exact;

	if (b->narrow || b->nruns < 2 || b->sharp)
		return;
	if (order->nwords < order->nkeys && prefixes_repeat(b))
	{
		mtp_batch_rank(order, b);
		MTP_INJECT("sharpened");
		return;
	}
	if (order->nwords == 0)
		return;
	pass_common(&s);
	if (s.at.kind == MTP_WORD_NONE)
		return;
	other = !mtp_word_is_prefix(s.at);
	s.sharp = palloc_extended(bytes, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	s.words = palloc_extended(bytes, MCXT_ALLOC_HUGE);
	while (s.at.kind != MTP_WORD_NONE && s.at.kind != MTP_WORD_TID)
	{
		Span		span;

		if (!read_next(&s, &span))
			break;
		other |= s.used > 0;
		add_words(&s, span);
		if (s.used > MOST_USED)
			break;
		s.at = behind_words(&s);
	}
	exact = s.at.kind == MTP_WORD_TID && mtp_batch_tids_ascend(b);
	if (other && (exact || s.used > 0))
		write_prefixes(&s);
	b->exact = exact;
	pfree(s.sharp);
	pfree(s.words);
	MTP_INJECT("sharpened");
}
