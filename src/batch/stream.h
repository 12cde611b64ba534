/*
 * stream.h
 *	  A task's entries in order: the merge of its sorted runs.
 *
 * Inline, because every entry passes through here.  TIDs differ, so there are no ties, and the
 * sequence is the same in each process: progress counts entries from its start.
 *
 * The runs are in a tree of losers (losers.h), whose winner has the current entry.
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

/* The runs that are not exhausted */
struct MtpBatchStream
{
	MtpOrder   *order;
	bool		narrow;
	bool		sharp;			/* as MtpBatch has these two */
	bool		exact;
	int			n;
	uint32		streak;			/* so many entries of the top run have come in a row, … */
	uint32		sure;			/* … and so many more will */
	uint16		tree[MTP_MAX_RUNS];
	MtpSource	sources[MTP_MAX_RUNS];
};

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

#define LOSERS(name)	mtp_stream_##name
#define LOSERS_OF		MtpBatchStream
#define LOSERS_LESS(s, a, b) mtp_source_less(s, &(s)->sources[a], &(s)->sources[b])
#include "batch/losers.h"

static inline bool
mtp_stream_end(MtpBatchStream *s)
{
	return s->n == 0;
}

/* The current entry; only before the end. */
static inline const MtpNarrow *
mtp_stream_narrow(MtpBatchStream *s)
{
	return s->sources[s->tree[0]].narrow;
}

static inline const MtpWide *
mtp_stream_wide(MtpBatchStream *s)
{
	return s->sources[s->tree[0]].wide;
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
	MtpSource	x = s->sources[s->tree[0]];

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
	int			node = (s->n + s->tree[0]) / 2;
	const MtpSource *other = &s->sources[s->tree[node]];
	uint32		below = 0;
	uint32		step;

	while ((node /= 2) > 0)
	{
		const MtpSource *loser = &s->sources[s->tree[node]];

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
	int			before = s->tree[0];
	MtpSource  *top = &s->sources[before];

	Assert(!mtp_stream_end(s));
	if (s->narrow ? ++top->narrow == top->narrow_end : ++top->wide == top->wide_end)
	{
		*top = s->sources[--s->n];
		s->streak = s->sure = 0;
		if (s->n > 0)
			mtp_stream_begin(s, s->tree, s->n);
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
	mtp_stream_replay(s, s->tree, s->n);
	if (s->tree[0] != before)
		s->streak = 0;
	else if (++s->streak >= MTP_STREAM_GALLOP)
	{
		s->sure = mtp_stream_look_ahead(s);
		s->streak = 0;
	}
}

#endif							/* MTP_STREAM_H */
