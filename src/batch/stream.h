/*
 * stream.h
 *	  A task's entries in order: the merge of its sorted runs.
 *
 * Inline, because every entry passes through here.  TIDs differ, so there are no ties, and the
 * sequence is the same in each process: progress counts entries from its start.
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
} MtpSource;

/* A binary heap of the runs that are not exhausted, least current entry on top. */
struct MtpBatchStream
{
	MtpOrder   *order;
	bool		narrow;
	int			n;
	MtpSource	heap[MTP_MAX_RUNS];
};

static inline bool
mtp_source_less(MtpBatchStream *s, const MtpSource *a, const MtpSource *b)
{
	if (s->narrow)
		return mtp_narrow_less(a->narrow, b->narrow);
	if (a->wide->prefix != b->wide->prefix)
		return a->wide->prefix < b->wide->prefix;
	return mtp_batch_order_compare(s->order, a->wide, b->wide) < 0;
}

static inline void
mtp_stream_sift(MtpBatchStream *s, int i)
{
	MtpSource	x = s->heap[i];

	for (;;)
	{
		int			c = 2 * i + 1;

		if (c >= s->n)
			break;
		if (c + 1 < s->n && mtp_source_less(s, &s->heap[c + 1], &s->heap[c]))
			c++;
		if (!mtp_source_less(s, &s->heap[c], &x))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	s->heap[i] = x;
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
	return s->heap[0].narrow;
}

static inline const MtpWide *
mtp_stream_wide(MtpBatchStream *s)
{
	return s->heap[0].wide;
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

/* Only before the end, too. */
static inline void
mtp_stream_next(MtpBatchStream *s)
{
	MtpSource  *top = &s->heap[0];
	bool		over;

	Assert(!mtp_stream_end(s));
	over = s->narrow ? ++top->narrow == top->narrow_end : ++top->wide == top->wide_end;
	if (over)
		*top = s->heap[--s->n];
	if (s->n > 1)
		mtp_stream_sift(s, 0);
}

#endif							/* MTP_STREAM_H */
