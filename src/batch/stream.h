/*
 * stream.h
 *	  A task's entries in order: the merge of its sorted runs.
 *
 * Inline, because every entry passes through here.  TIDs differ, so there are no ties, and the
 * sequence is the same in each process: progress counts entries from its start.
 *
 * The runs are in a tree of losers (Knuth, The Art of Computer Programming, volume 3, section
 * 5.4.1): an inner node has the run that lost there, and the winner of all is the top.  The next
 * entry costs one comparison a level, where a heap needs two.
 *
 * Where keys repeat, many entries of one run come in a row.  After a few of them the merge looks
 * how many more there are, by comparing ever farther ones: the galloping of McIlroy's "Optimistic
 * sorting and information theoretic complexity" (1993).
 */
#ifndef MTP_STREAM_H
#define MTP_STREAM_H

#include "batch/shared.h"

typedef struct MtpSource
{
	const MtpNarrow *narrow;
	const MtpNarrow *narrow_end;
	const MtpWide *wide;
	const MtpWide *wide_end;
	int			run;
} MtpSource;

#define MTP_STREAM_GALLOP	4
#define MTP_STREAM_AHEAD	4	/* entries of a run ahead whose tuples are fetched */

/* The runs that are not exhausted; run i is the leaf n + i of the tree, whose root is node 1. */
struct MtpBatchStream
{
	MtpOrder   *order;
	bool		narrow;
	bool		sharp;			/* as MtpBatch has these two */
	bool		exact;
	int			n;
	int			top;			/* the run with the least current entry */
	uint32		streak;			/* so many entries of the top run have come in a row, … */
	uint32		sure;			/* … and so many more will */
	uint8		losers[MTP_MAX_RUNS];
	MtpSource	sources[MTP_MAX_RUNS];
};

StaticAssertDecl(MTP_MAX_RUNS <= PG_UINT8_MAX, "a byte tells a run");

static inline bool
mtp_source_less(MtpBatchStream *s, const MtpSource *a, const MtpSource *b)
{
	if (s->narrow)
		return mtp_narrow_less(a->narrow, b->narrow);
	if (a->wide->prefix != b->wide->prefix)
		return a->wide->prefix < b->wide->prefix;
	if (s->exact)
		return a->run < b->run;
	return mtp_batch_order_compare(s->order, a->wide, b->wide) < 0;
}

/* apply.c: lets all runs play, at the beginning and when one is exhausted. */
extern void mtp_stream_begin(MtpBatchStream *s);

/* Lets the top run, which has another entry now, play against those that lost to it. */
static inline void
mtp_stream_replay(MtpBatchStream *s)
{
	uint8		winner = s->top;

	for (int i = (s->n + winner) / 2; i > 0; i /= 2)
	{
		uint8		loser = s->losers[i];

		if (mtp_source_less(s, &s->sources[loser], &s->sources[winner]))
		{
			s->losers[i] = winner;
			winner = loser;
		}
	}
	s->top = winner;
}

static inline bool
mtp_stream_end(MtpBatchStream *s)
{
	return s->n == 0;
}

/* The current entry; only before the end. */
static inline const MtpNarrow *
mtp_stream_narrow(MtpBatchStream *s)
{
	return s->sources[s->top].narrow;
}

static inline const MtpWide *
mtp_stream_wide(MtpBatchStream *s)
{
	return s->sources[s->top].wide;
}

/* The current entry's tuple; a narrow one's is made in `room` (MTP_NARROW_TUPLE bytes). */
static inline IndexTuple
mtp_stream_tuple(MtpBatchStream *s, char *room)
{
	if (!s->narrow)
		return mtp_stream_wide(s)->itup;
	(void) mtp_batch_narrow_tuple(s->order->code, *mtp_stream_narrow(s), room);
	return (IndexTuple) room;
}

/* True if the entry `ahead` of the top run's current one is there, and below another run's. */
static inline bool
mtp_stream_below(MtpBatchStream *s, uint32 ahead, const MtpSource *other)
{
	MtpSource	x = s->sources[s->top];

	if (s->narrow ? ahead >= x.narrow_end - x.narrow : ahead >= x.wide_end - x.wide)
		return false;
	if (s->narrow)
		x.narrow += ahead;
	else
		x.wide += ahead;
	return mtp_source_less(s, &x, other);
}

/* How many entries behind the top run's current one are below those of the other runs. */
static inline uint32
mtp_stream_look_ahead(MtpBatchStream *s)
{
	int			node = (s->n + s->top) / 2;
	const MtpSource *other = &s->sources[s->losers[node]];
	uint32		below = 0;
	uint32		step;

	while ((node /= 2) > 0)
	{
		const MtpSource *loser = &s->sources[s->losers[node]];

		if (mtp_source_less(s, loser, other))
			other = loser;
	}
	for (step = 1; mtp_stream_below(s, below + step, other); step *= 2)
		below += step;
	for (step /= 2; step > 0; step /= 2)
		if (mtp_stream_below(s, below + step, other))
			below += step;
	return below;
}

/* Only before the end, too. */
static inline void
mtp_stream_next(MtpBatchStream *s)
{
	int			before = s->top;
	MtpSource  *top = &s->sources[before];

	Assert(!mtp_stream_end(s));
	if (s->narrow ? ++top->narrow == top->narrow_end : ++top->wide == top->wide_end)
	{
		*top = s->sources[--s->n];
		mtp_stream_begin(s);
		return;
	}
	if (!s->narrow && top->wide_end - top->wide > MTP_STREAM_AHEAD)
		__builtin_prefetch(top->wide[MTP_STREAM_AHEAD].itup);
	if (s->sure > 0)
	{
		s->sure--;
		return;
	}
	if (s->n == 1)
		return;
	mtp_stream_replay(s);
	if (s->top != before)
		s->streak = 0;
	else if (++s->streak >= MTP_STREAM_GALLOP)
	{
		s->sure = mtp_stream_look_ahead(s);
		s->streak = 0;
	}
}

#endif							/* MTP_STREAM_H */
