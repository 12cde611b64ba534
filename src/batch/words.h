/*
 * words.h
 *	  Keys of wide entries as sequences of 64-bit words.
 *
 * The order of an index whose key columns all have a norm code is that of the words, compared one
 * after the other, and the last one is the TID.  What a word is follows from those before it, so
 * entries whose words have been equal so far have the same kind of word next.  A column has
 *	the normalized key of the value or null (norm.h), which for bytes is the first eight of them;
 *	one more word, if that is the number of a null: whether it is one;
 *	of bytes, the rest of them, eight by eight.  A word that ends with a zero byte may be the last:
 *	text has no zeros in it, so it is.  Where bytea ends, a word with its length says.
 * The first word is the entry's prefix.  In a build that may have the upper half of the second
 * column's word behind the first one's value (mtp_batch_order_pair); that word comes all the same.
 *
 * Where the order is not known from bytes (another kind of column, or of prefix), MTP_WORD_NONE
 * stands for the rest of the key: mtp_batch_order_compare() tells.
 *
 * The words of text in the order of a collation can be guessed: the classes of its letters, and
 * behind these the letters' ranks.  Most text in ASCII is in the order of these words.
 */
#ifndef MTP_WORDS_H
#define MTP_WORDS_H

#include "batch/entry.h"

#include "access/detoast.h"
#include "port/pg_bswap.h"
#include "utils/uuid.h"

#define MTP_WORD_BYTES ((uint32) sizeof(uint64))

/* Text gives guessed words up to here. */
#define MTP_WORDS_GUESSED	512

/* Compressed values give words up to here: each one decompresses what lies before it. */
#define MTP_WORDS_COMPRESSED (8 * MTP_WORD_BYTES)

typedef enum MtpWordKind
{
	MTP_WORD_VALUE,
	MTP_WORD_NULL,				/* is it null? */
	MTP_WORD_LENGTH,			/* the bytes from `offset` on, up to one more than a word has */
	MTP_WORD_CLASSES,			/* a guess: the classes of letters, from number `offset` on, … */
	MTP_WORD_RANKS,				/* … and the ranks of all of them */
	MTP_WORD_TID,
	MTP_WORD_NONE,				/* only the comparison tells, up to the TID */
	MTP_WORD_END				/* no word left: the same entry */
} MtpWordKind;

/* Which word of an entry: the first one is all zeros. */
typedef struct MtpWordAt
{
	MtpWordKind kind;
	bool		guess;			/* among words that are a guess */
	int			column;
	uint32		offset;			/* of the value's bytes */
} MtpWordAt;

static inline bool
mtp_word_is_prefix(MtpWordAt at)
{
	return at.kind == MTP_WORD_VALUE && at.column == 0 && at.offset == 0;
}

static inline uint64
mtp_word_turn(uint8 code, uint64 word)
{
	return (code & MTP_NORM_DESC) ? ~word : word;
}

/* Up to eight bytes before `end`, filled with zeros.  A tuple's header precedes its values. */
static inline uint64
mtp_word_before(const char *end, Size len)
{
	uint64		n;

	if (len == 0)
		return 0;
	memcpy(&n, end - MTP_WORD_BYTES, MTP_WORD_BYTES);
	return pg_ntoh64(n) << (BITS_PER_BYTE * (MTP_WORD_BYTES - len));
}

static inline uint64
mtp_word_of_bytes(const char *data, Size len)
{
	uint64		n;

	if (len < MTP_WORD_BYTES)
		return mtp_word_before(data + len, len);
	memcpy(&n, data, MTP_WORD_BYTES);
	return pg_ntoh64(n);
}

/* A varlena's word, or the word that tells its length; false if only the comparison should tell. */
static inline bool
mtp_word_of_varlena(struct varlena *v, MtpWordAt at, uint64 *word)
{
	Size		len;

	if (VARATT_IS_COMPRESSED(v))
	{
		struct varlena *slice;
		char		bytes[2 * MTP_WORD_BYTES] = {0};

		if (at.kind == MTP_WORD_LENGTH || at.offset >= MTP_WORDS_COMPRESSED)
			return false;
		slice = detoast_attr_slice(v, at.offset, MTP_WORD_BYTES);
		len = Min(VARSIZE_ANY_EXHDR(slice), MTP_WORD_BYTES);
		memcpy(bytes + MTP_WORD_BYTES, VARDATA_ANY(slice), len);
		*word = mtp_word_of_bytes(bytes + MTP_WORD_BYTES, len);
		pfree(slice);
		return true;
	}
	len = VARSIZE_ANY_EXHDR(v) - at.offset;
	if (at.kind == MTP_WORD_LENGTH)
		*word = Min(len, MTP_WORD_BYTES + 1);
	else
		*word = mtp_word_of_bytes(VARDATA_ANY(v) + at.offset, len);
	return true;
}

/* Eight classes or ranks of a text; false if only the comparison should tell. */
static inline bool
mtp_word_of_text(struct varlena *v, const MtpLetters *letters, MtpWordAt at, uint64 *word)
{
	const uint8 *table = at.kind == MTP_WORD_CLASSES ? letters->classes : letters->ranks;
	uint32		passed = 0;		/* of those before the word */
	int			shift = 64;
	const uint8 *next,
			   *end;

	if (VARATT_IS_COMPRESSED(v) || at.offset >= MTP_WORDS_GUESSED)
		return false;
	next = (const uint8 *) VARDATA_ANY(v);
	end = next + VARSIZE_ANY_EXHDR(v);
	if (at.kind == MTP_WORD_RANKS || letters->all_count)
	{
		passed = at.offset;
		next += Min(at.offset, end - next);
	}
	*word = 0;
	for (; next < end && shift > 0; next++)
	{
		uint64		letter = table[*next];

		if (letter == 0 || passed++ < at.offset)
			continue;
		shift -= BITS_PER_BYTE;
		*word |= letter << shift;
	}
	return true;
}

/*
 * The word of a tuple.  `at` is what mtp_word_next() made of the tuple's words before.  False if
 * there is none, since a compressed value would have to be decompressed for too little.  May
 * allocate.
 */
static inline bool
mtp_word_get(MtpOrder *order, IndexTuple itup, MtpWordAt at, uint64 *word)
{
	uint8		code;
	bool		isnull;
	Datum		value;

	if (at.kind == MTP_WORD_TID)
	{
		*word = mtp_rid_from_tid(&itup->t_tid);
		return true;
	}
	code = order->columns[at.column].code;
	value = index_getattr(itup, at.column + 1, order->tupdesc, &isnull);
	if (at.kind == MTP_WORD_NULL)
	{
		*word = isnull != ((code & MTP_NORM_NULLS_FIRST) != 0);
		return true;
	}
	if (isnull)
	{
		Assert(at.kind != MTP_WORD_LENGTH && at.offset == 0);
		*word = mtp_norm_datum(code, value, true);
		return true;
	}
	if (at.kind == MTP_WORD_CLASSES || at.kind == MTP_WORD_RANKS)
	{
		if (!mtp_word_of_text((struct varlena *) DatumGetPointer(value),
							  order->columns[at.column].letters, at, word))
			return false;
		*word = mtp_word_turn(code, *word);
		return true;
	}
	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_BYTES:
			if (!mtp_word_of_varlena((struct varlena *) DatumGetPointer(value), at, word))
				return false;
			break;
		case MTP_NORM_NAME:
			{
				const char *name = DatumGetCString(value) + at.offset;

				*word = mtp_word_of_bytes(name, strnlen(name, MTP_WORD_BYTES));
				break;
			}
		case MTP_NORM_UUID:
			*word = mtp_word_of_bytes((char *) DatumGetUUIDP(value)->data + at.offset,
									  MTP_WORD_BYTES);
			break;
		default:
			*word = mtp_norm_datum(code, value, false);
			return true;
	}
	*word = mtp_word_turn(code, *word);
	return true;
}

static inline MtpWordAt
mtp_word_next_column(const MtpOrder *order, MtpWordAt at)
{
	int			end = at.guess ? order->nguessed : order->nwords;

	at.column++;
	at.offset = 0;
	at.kind = at.column < end ? MTP_WORD_VALUE : end < order->nkeys ? MTP_WORD_NONE : MTP_WORD_TID;
	if (at.kind == MTP_WORD_VALUE && order->columns[at.column].letters != NULL)
		at.kind = MTP_WORD_CLASSES;
	return at;
}

/* The first word that is a guess, behind those that are known. */
static inline MtpWordAt
mtp_word_guess(const MtpOrder *order)
{
	MtpWordAt	at = {.guess = true,.column = order->nwords - 1};

	return mtp_word_next_column(order, at);
}

/* What comes behind a word.  order->nwords columns have words. */
static inline MtpWordAt
mtp_word_next(const MtpOrder *order, MtpWordAt at, uint64 word)
{
	uint8		code;
	uint64		of_null;
	bool		more = false;

	if (at.kind == MTP_WORD_TID || at.kind == MTP_WORD_NONE || (order->nwords == 0 && !at.guess))
	{
		at.kind = at.kind == MTP_WORD_TID ? MTP_WORD_END :
			at.kind == MTP_WORD_NONE ? MTP_WORD_TID : MTP_WORD_NONE;
		return at;
	}
	code = order->columns[at.column].code;
	of_null = (code & MTP_NORM_NULLS_FIRST) ? 0 : PG_UINT64_MAX;
	if (at.kind == MTP_WORD_CLASSES || at.kind == MTP_WORD_RANKS)
	{
		/* The empty text may look like a null: both end here. */
		if (word == of_null && at.kind == MTP_WORD_CLASSES && at.offset == 0)
			return mtp_word_next_column(order, at);
		if ((mtp_word_turn(code, word) & 0xFF) != 0)
			at.offset += MTP_WORD_BYTES;
		else if (at.kind == MTP_WORD_RANKS)
			return mtp_word_next_column(order, at);
		else
		{
			at.kind = MTP_WORD_RANKS;
			at.offset = 0;
		}
		return at;
	}
	if (at.kind == MTP_WORD_VALUE && at.offset == 0 && word == of_null)
	{
		at.kind = MTP_WORD_NULL;
		return at;
	}
	if (at.kind == MTP_WORD_NULL)
	{
		if ((word == 0) == (of_null == 0))
			return mtp_word_next_column(order, at);
		word = of_null;			/* the value's, too */
		at.kind = MTP_WORD_VALUE;
	}

	word = mtp_word_turn(code, word);
	switch (code & MTP_NORM_KIND)
	{
		case MTP_NORM_BYTES:
			if (at.kind == MTP_WORD_LENGTH)
				more = word > MTP_WORD_BYTES;
			else if ((word & 0xFF) != 0)
				more = true;
			else if (order->columns[at.column].zeros)
			{
				at.kind = MTP_WORD_LENGTH;
				return at;
			}
			break;
		case MTP_NORM_NAME:
			more = (word & 0xFF) != 0 && at.offset + MTP_WORD_BYTES < NAMEDATALEN;
			break;
		case MTP_NORM_UUID:
			more = at.offset + MTP_WORD_BYTES < UUID_LEN;
			break;
	}
	if (!more)
		return mtp_word_next_column(order, at);
	at.kind = MTP_WORD_VALUE;
	at.offset += MTP_WORD_BYTES;
	return at;
}

#endif							/* MTP_WORDS_H */
