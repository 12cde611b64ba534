/*
 * list.c
 *	  Makes, reads and changes lists of TIDs (list.h).
 */
#include "page/list.h"

#include "access/htup_details.h"
#include "core/links.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

bool
mtp_item_same_key(IndexTuple a, IndexTuple b)
{
	Size		size = mtp_item_key_size(a);
	const uint16 flags = INDEX_NULL_MASK | INDEX_VAR_MASK;

	return size == mtp_item_key_size(b) && (a->t_info & flags) == (b->t_info & flags) &&
		memcmp((char *) a + sizeof(IndexTupleData), (char *) b + sizeof(IndexTupleData),
			   size - sizeof(IndexTupleData)) == 0;
}

const char *
mtp_list_fault(IndexTuple itup)
{
	Size		size = IndexTupleSize(itup);
	Size		key = BTreeTupleGetPostingOffset(itup);
	int			n = BTreeTupleGetNPosting(itup);

	if (key < sizeof(IndexTupleData) || key % sizeof(int32) != 0 || key >= size ||
		size - key < sizeof(MtpListHead))
		return "list's key has a wrong size";
	if ((itup->t_tid.ip_posid & BT_STATUS_OFFSET_MASK) != BT_IS_POSTING ||
		n < 2 || n > MTP_LIST_TIDS || size - key > MTP_LIST_BYTES ||
		size - key < MTP_LIST_BITS_AT + (MTP_LIST_LEAST_BITS * (n - 1) + 7) / 8)
		return "list has a wrong number of TIDs";
	if (!mtp_tid_possible(&MtpListHeadOf(itup)->first))
		return "list has an invalid TID";
	return NULL;
}

/* The low n bits; n: 0 .. 63 */
#define LOW_BITS(n)		((UINT64CONST(1) << (n)) - 1)

/*
 * Bits that are being read, low ones first.  `bits` has the next `have` ones, and above these zeros
 * or what follows them.  So no load waits for the one before, and between one difference and the
 * next there are only shifts (F. Giesen, "Reading bits in far too many ways", 2018).
 */
#define READER_BITS		56		/* the least after it was filled */

typedef struct Reader
{
	const uint8 *bytes;
	unsigned	nbytes;			/* zeros stand behind them */
	unsigned	next;			/* the byte whose bits follow those that it has */
	int			have;			/* up to 63 */
	uint64		bits;
} Reader;

static inline void
fill_reader(Reader *r)
{
	uint64		w;

	if (likely(r->next + sizeof(w) <= r->nbytes))
	{
		memcpy(&w, r->bytes + r->next, sizeof(w));
#ifdef WORDS_BIGENDIAN
		w = pg_bswap64(w);
#endif
		r->bits |= w << r->have;
		r->next += (63 - r->have) >> 3;
		r->have |= READER_BITS;
	}
	else
		for (; r->have < READER_BITS; r->have += 8, r->next++)
			if (r->next < r->nbytes)
				r->bits |= (uint64) r->bytes[r->next] << r->have;
}

static inline void
take_bits(Reader *r, int n)
{
	r->bits >>= n;
	r->have -= n;
}

/* The bits that were taken so far */
static inline int
bits_taken(const Reader *r)
{
	return r->next * 8 - r->have;
}

/*
 * Begins to read a list's differences: s, k, and the number of the first TID.  False if it is
 * damaged.
 */
static inline bool
begin_reading(IndexTuple itup, Reader *r, int *s, int *k, uint64 *number)
{
	MtpListHead *head = MtpListHeadOf(itup);
	const uint8 *bytes = (uint8 *) head + MTP_LIST_BITS_AT;

	if (mtp_list_fault(itup) != NULL)
		return false;
	*r = (Reader)
	{
		.bytes = bytes,.nbytes = IndexTupleSize(itup) - (bytes - (uint8 *) itup)
	};
	*s = (bytes[-1] & 7) + MTP_LIST_LEAST_S;
	*k = (bytes[-1] >> 3) + MTP_LIST_LEAST_K;
	*number = (uint64) ItemPointerGetBlockNumberNoCheck(&head->first) << *s |
		ItemPointerGetOffsetNumberNoCheck(&head->first);
	return ItemPointerGetOffsetNumberNoCheck(&head->first) >> *s == 0;
}

/* Takes a difference and adds it to *number; false if the list is damaged. */
static inline bool
next_number(Reader *r, int s, int k, uint64 *number)
{
	int			zeros,
				more;
	uint64		delta;
	OffsetNumber offset;

	fill_reader(r);
	zeros = pg_rightmost_one_pos64(r->bits | UINT64CONST(1) << 63);
	more = k + zeros - (zeros > 0);
	if (unlikely(more > s + 32))
		return false;
	take_bits(r, zeros + 1);
	if (unlikely(r->have < more))
		fill_reader(r);
	delta = (r->bits & LOW_BITS(more)) | (uint64) (zeros > 0) << more;
	take_bits(r, more);
	*number += delta;
	offset = *number & LOW_BITS(s);
	return likely(delta != 0 && *number >> s <= MaxBlockNumber &&
				  (OffsetNumber) (offset - 1) < MaxHeapTuplesPerPage);
}

/* True if all bits were taken but the zeros that fill the last byte. */
static inline bool
ends_here(const Reader *r)
{
	return r->bits == 0 && (bits_taken(r) + 7) / 8 == r->nbytes;
}

/*
 * The tuple may be a copy of one that was being changed, so its size and number are read once.  A
 * difference is at least 1, no sum of them is beyond the last block, and the TIDs are possible
 * (mtp_tid_possible).  Behind the end are zeros alone, which are no difference.
 */
int
mtp_list_decode(IndexTuple itup, ItemPointerData *tids)
{
	int			n = BTreeTupleGetNPosting(itup);
	Reader		r;
	int			s,
				k;
	uint64		number;

	if (!begin_reading(itup, &r, &s, &k, &number))
		return 0;
	tids[0] = MtpListHeadOf(itup)->first;
	for (int i = 1; i < n; i++)
	{
		if (!next_number(&r, s, k, &number))
			return 0;
		ItemPointerSet(&tids[i], (BlockNumber) (number >> s), number & LOW_BITS(s));
	}
	return ends_here(&r) ? n : 0;
}

ItemPointerData
mtp_item_last_tid(IndexTuple itup)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	int			n = mtp_item_decode(itup, tids);

	return n > 0 ? tids[n - 1] : MtpListHeadOf(itup)->first;
}

/* ---------- making lists ---------- */

/* The bits that an offset needs, in its list */
static inline int
offset_bits(uint64 code)
{
	const uint64 least = 1 << (MTP_LIST_LEAST_S - 1);

	return pg_leftmost_one_pos64((code & LOW_BITS(MTP_TID_BITS)) | least) + 1;
}

/* A TID's number where offsets have s bits */
static inline uint64
number_of(uint64 code, int s)
{
	return (code >> MTP_TID_BITS) << s | (code & LOW_BITS(MTP_TID_BITS));
}

/* What a difference of so many bits takes. */
static inline int
difference_bits(int len, int k)
{
	return Max(k + 1, 2 * len - k);
}

/* The bits of the difference of two neighbours */
static inline int
difference_len(uint64 from, uint64 to, int s)
{
	return pg_leftmost_one_pos64(number_of(to, s) - number_of(from, s)) + 1;
}

/*
 * The smallest k that makes the list shortest; *total gets the bits that it takes.  lens[len]
 * differences have len bits each.  The inner loop is one that compilers turn into vector
 * instructions.
 */
static int
best_k(const uint16 *lens, int *total)
{
	uint16		bits[MTP_LIST_KS] = {0};
	int			best = 0;

	for (int len = 1; len < MTP_LIST_LENS; len++)
	{
		if (lens[len] == 0)
			continue;
		for (int i = 0; i < MTP_LIST_KS; i++)
			bits[i] += lens[len] * (uint16) difference_bits(len, i + MTP_LIST_LEAST_K);
	}
	for (int i = 1; i < MTP_LIST_KS; i++)
		if (bits[i] < bits[best])
			best = i;
	*total = bits[best];
	return best + MTP_LIST_LEAST_K;
}

void
mtp_list_begin(MtpListMaker *m, char *buf, Size room, IndexTuple key, const ItemPointerData *tid)
{
	Size		size = mtp_item_key_size(key);
	Size		most = Min(room, size + MTP_LIST_BYTES);

	m->itup = (IndexTuple) buf;
	m->n = 1;
	m->limit = most > size + MTP_LIST_BITS_AT ? (most - size - MTP_LIST_BITS_AT) * 8 : 0;
	m->codes[0] = mtp_tid_code(tid);
	m->s = offset_bits(m->codes[0]);
	m->k = MTP_LIST_LEAST_K;
	m->bits = 0;
	memset(m->lens, 0, sizeof(m->lens));
	memmove(buf, key, size);
	m->itup->t_info = (key->t_info & (INDEX_NULL_MASK | INDEX_VAR_MASK)) | size;
	m->itup->t_tid = *tid;
}

/* Counts all anew: where offsets have another number of bits, all differences are others. */
static void
count_again(MtpListMaker *m, int s)
{
	memset(m->lens, 0, sizeof(m->lens));
	for (int i = 1; i < m->n; i++)
		m->lens[difference_len(m->codes[i - 1], m->codes[i], s)]++;
	m->s = s;
	m->k = best_k(m->lens, &m->bits);
}

bool
mtp_list_add(MtpListMaker *m, const ItemPointerData *tid)
{
	uint64		code = mtp_tid_code(tid);
	int			narrower = m->s;
	int			s = Max(m->s, offset_bits(code));
	int			len;
	int			k,
				bits;

	Assert(code > m->codes[m->n - 1]);
	if (m->n == MTP_LIST_FULL || unlikely(code <= m->codes[m->n - 1]))
		return false;
	if (s > m->s)
		count_again(m, s);
	len = difference_len(m->codes[m->n - 1], code, s);
	k = m->k;
	bits = m->bits + difference_bits(len, k);
	m->lens[len]++;

	/* Another k may do when this one does not. */
	if (bits > m->limit)
		k = best_k(m->lens, &bits);
	if (bits > m->limit)
	{
		m->lens[len]--;
		if (s > narrower)
			count_again(m, narrower);
		return false;
	}
	m->codes[m->n++] = code;
	m->k = k;
	m->bits = bits;
	return true;
}

/* Bits that are being written, low ones first */
typedef struct Writer
{
	uint8	   *to;
	uint64		pending;
	int			n;				/* pending ones, below 8 */
} Writer;

/* Writes n bits, at most 56. */
static inline void
put_bits(Writer *w, uint64 bits, int n)
{
	w->pending |= bits << w->n;
	for (w->n += n; w->n >= 8; w->n -= 8)
	{
		*w->to++ = (uint8) w->pending;
		w->pending >>= 8;
	}
}

static inline void
put_difference(Writer *w, uint64 delta, int k)
{
	int			zeros = Max(pg_leftmost_one_pos64(delta) + 1 - k, 0);
	int			more = zeros == 0 ? k : k + zeros - 1;

	put_bits(w, UINT64CONST(1) << zeros, zeros + 1);
	put_bits(w, delta & LOW_BITS(more), more);
}

/* Makes the tuple a list of n TIDs with a key of so many bytes. */
static void
set_list(IndexTuple itup, Size key, Size size, int n)
{
	itup->t_info = (itup->t_info & ~INDEX_SIZE_MASK) | INDEX_ALT_TID_MASK | size;
	ItemPointerSetBlockNumber(&itup->t_tid, key);
	ItemPointerSetOffsetNumber(&itup->t_tid, n | BT_IS_POSTING);
}

Size
mtp_list_end(MtpListMaker *m)
{
	Size		key = m->itup->t_info & INDEX_SIZE_MASK;
	MtpListHead head = {.first = m->itup->t_tid,.dead = 0};
	Writer		w = {.to = (uint8 *) m->itup + key + MTP_LIST_BITS_AT};
	int			k;
	Size		size;

	if (m->n == 1)
		return key;
	k = best_k(m->lens, &m->bits);
	memcpy((char *) m->itup + key, &head, sizeof(head));
	w.to[-1] = (m->s - MTP_LIST_LEAST_S) | (k - MTP_LIST_LEAST_K) << 3;
	for (int i = 1; i < m->n; i++)
		put_difference(&w, number_of(m->codes[i], m->s) - number_of(m->codes[i - 1], m->s), k);
	if (w.n > 0)
		*w.to++ = (uint8) w.pending;
	size = w.to - (uint8 *) m->itup;
	Assert(size == key + MTP_LIST_BITS_AT + (m->bits + 7) / 8);
	set_list(m->itup, key, size, m->n);
	return size;
}

/*
 * A difference that spans those of two neighbours has one bit more than the larger of them, so two
 * bits more are written at most; the other one took more.  And offsets never need more bits than
 * before, which would make differences larger.  So the list never grows, and is made anew where it
 * stands.
 */
void
mtp_list_remove(IndexTuple itup, int n, const uint16 *at)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	Size		size = IndexTupleSize(itup);
	int			old = mtp_list_decode(itup, tids);
	int			next = 0;
	MtpListMaker m;

	Assert(n < old || old == 0);
	m.itup = NULL;
	for (int i = 0; i < old; i++)
	{
		if (next < n && at[next] == i)
			next++;
		else if (m.itup == NULL)
			mtp_list_begin(&m, (char *) itup, size, itup, &tids[i]);
		else if (!mtp_list_add(&m, &tids[i]))
			Assert(false);
	}
	if (m.itup == NULL)
		return;
	Assert(m.n == old - n);
	next = mtp_list_end(&m);
	memset((char *) itup + next, 0, size - next);
}

/* A list of n TIDs with an item's key, palloc'd; NULL if they have no room in one. */
static IndexTuple
make_list(IndexTuple key, Size room, const ItemPointerData *tids, int n)
{
	char	   *buf;
	MtpListMaker m;

	/* The key of a damaged list may be too wide. */
	room = Max(room, mtp_item_key_size(key));
	buf = palloc(room);
	mtp_list_begin(&m, buf, room, key, &tids[0]);
	for (int i = 1; i < n; i++)
		if (!mtp_list_add(&m, &tids[i]))
		{
			pfree(buf);
			return NULL;
		}
	(void) mtp_list_end(&m);
	return m.itup;
}

/* Copies the bits from .. to - 1 of a list. */
static void
copy_bits(Writer *w, const Reader *list, int from, int to)
{
	Reader		r = {.bytes = list->bytes,.nbytes = list->nbytes,.next = from / 8};

	fill_reader(&r);
	take_bits(&r, from % 8);
	while (from < to)
	{
		int			n = Min(to - from, READER_BITS / 2);

		fill_reader(&r);
		put_bits(w, r.bits & LOW_BITS(n), n);
		take_bits(&r, n);
		from += n;
	}
}

/*
 * A list with n TIDs more, as mtp_list_splice takes them, palloc'd; NULL if that needs another s or
 * k, if it has no room, if one is there, or if the list is damaged.  Of the differences only the
 * one that spans the TIDs changes, if there is one: the others' bits are copied.  The hint stays
 * for TIDs before the new ones.
 */
static IndexTuple
add_to_list(IndexTuple list, int n, const ItemPointerData *tids, Size room)
{
	Size		key = mtp_item_key_size(list);
	int			limit = (int) (Min(room, key + MTP_LIST_BYTES) - key - MTP_LIST_BITS_AT) * 8;
	int			old = BTreeTupleGetNPosting(list);
	uint64		wanted[MTP_LIST_JOIN + 1] = {0};	/* what comes behind the new ones is the last */
	uint64		before,
				number;
	int			place = old;
	int			nwanted = n;
	int			from,
				to,
				end,
				bits,
				s,
				k;
	Reader		r;
	Writer		w;
	char	   *buf;
	Size		size;

	if (old + n > MTP_LIST_FULL || !begin_reading(list, &r, &s, &k, &number) ||
		room < key + MTP_LIST_BITS_AT)
		return NULL;
	for (int i = 0; i < n; i++)
	{
		if (ItemPointerGetOffsetNumberNoCheck(&tids[i]) >> s != 0)
			return NULL;
		wanted[i] = number_of(mtp_tid_code(&tids[i]), s);
	}
	if (wanted[0] <= number)
		return NULL;
	before = number;
	from = to = bits_taken(&r);
	for (int i = 1; i < old; i++)
	{
		int			at = bits_taken(&r);
		uint64		last = number;

		if (!next_number(&r, s, k, &number))
			return NULL;
		if (number < wanted[0])
		{
			before = number;
			from = to = bits_taken(&r);
		}
		else if (last < wanted[0])
		{
			wanted[nwanted++] = number;
			place = i;
			from = at;
			to = bits_taken(&r);
		}
	}
	end = bits_taken(&r);
	if (!ends_here(&r))
		return NULL;
	bits = end - (to - from);
	for (int i = 0; i < nwanted; i++)
	{
		uint64		last = i == 0 ? before : wanted[i - 1];

		if (wanted[i] <= last)
			return NULL;
		bits += difference_bits(pg_leftmost_one_pos64(wanted[i] - last) + 1, k);
	}
	if (bits > limit)
		return NULL;

	size = key + MTP_LIST_BITS_AT + (bits + 7) / 8;
	buf = palloc(size);
	memcpy(buf, list, key + MTP_LIST_BITS_AT);
	((MtpListHead *) (buf + key))->dead = Min(MtpListHeadOf(list)->dead, place);
	w = (Writer)
	{
		.to = (uint8 *) buf + key + MTP_LIST_BITS_AT
	};
	copy_bits(&w, &r, 0, from);
	for (int i = 0; i < nwanted; i++)
		put_difference(&w, wanted[i] - (i == 0 ? before : wanted[i - 1]), k);
	copy_bits(&w, &r, to, end);
	if (w.n > 0)
		*w.to++ = (uint8) w.pending;
	Assert(w.to == (uint8 *) buf + size);
	set_list((IndexTuple) buf, key, size, old + n);
	return (IndexTuple) buf;
}

int
mtp_list_splice(IndexTuple item, int n, const ItemPointerData *tids, Size room, IndexTuple *made)
{
	ItemPointerData all[MTP_LIST_TIDS + MTP_LIST_JOIN];
	int			old;
	int			at;

	Assert(n > 0 && n <= MTP_LIST_JOIN);
	made[0] = mtp_item_is_list(item) ? add_to_list(item, n, tids, room) : NULL;
	if (made[0] != NULL)
		return 1;
	for (int i = 1; i < n; i++)
		if (mtp_tid_code(&tids[i]) <= mtp_tid_code(&tids[i - 1]))
			return 0;
	at = old = mtp_item_decode(item, all);
	while (at > 0 && mtp_tid_code(&all[at - 1]) > mtp_tid_code(&tids[n - 1]))
		at--;
	if (at == 0 || mtp_tid_code(&all[at - 1]) >= mtp_tid_code(&tids[0]))
		return 0;
	memmove(&all[at + n], &all[at], (old - at) * sizeof(ItemPointerData));
	memcpy(&all[at], tids, n * sizeof(ItemPointerData));
	made[0] = old + n <= MTP_LIST_FULL ? make_list(item, room, all, old + n) : NULL;
	if (made[0] != NULL)
		return 1;
	if (at == old)
	{
		if (n == 1 || !mtp_item_is_list(item))
			return 0;
		made[0] = CopyIndexTuple(item);
		made[1] = make_list(item, room, tids, n);
	}
	else
	{
		made[0] = make_list(item, room, all, (old + n) / 2);
		made[1] = make_list(item, room, all + (old + n) / 2, old + n - (old + n) / 2);
	}
	return made[0] != NULL && made[1] != NULL ? 2 : 0;
}

static int
compare_codes(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* The number of entries in n items */
static int
count_entries(const IndexTuple *items, int n)
{
	int			entries = 0;

	for (int i = 0; i < n; i++)
		entries += mtp_item_entries(items[i]);
	return entries;
}

/*
 * Merges n items of one key; returns how many they become, in made[], or 0 if one is damaged.  Of
 * keys that are compressed and not, the smallest is taken: then lists hold what the old ones did.
 */
static int
merge_run(const IndexTuple *items, int n, Size room, IndexTuple *made)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	IndexTuple	key = items[0];
	uint64	   *codes;
	int			total = 0,
				nmade = 0;
	bool		ascend = true;
	MtpListMaker m;
	char	   *buf;

	for (int i = 1; i < n; i++)
		if (mtp_item_key_size(items[i]) < mtp_item_key_size(key))
			key = items[i];
	codes = palloc(count_entries(items, n) * sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		int			more = mtp_item_decode(items[i], tids);

		if (more == 0)
			return 0;
		for (int j = 0; j < more; j++, total++)
		{
			codes[total] = mtp_tid_code(&tids[j]);
			ascend &= total == 0 || codes[total] > codes[total - 1];
		}
	}
	if (!ascend)
		qsort(codes, total, sizeof(uint64), compare_codes);

	/* A key may be too wide for lists: then the entries are merely sorted. */
	room = Max(room, mtp_item_key_size(key));
	buf = palloc(room);
	for (int i = 0; i < total; i++)
	{
		mtp_tid_of_code(codes[i], &tids[0]);
		if (i > 0 && codes[i] == codes[i - 1])
			continue;			/* an entry that is there twice is damage */
		if (i > 0 && mtp_list_add(&m, &tids[0]))
			continue;
		if (i > 0)
		{
			(void) mtp_list_end(&m);
			made[nmade++] = CopyIndexTuple(m.itup);
		}
		mtp_list_begin(&m, buf, room, key, &tids[0]);
	}
	(void) mtp_list_end(&m);
	made[nmade++] = CopyIndexTuple(m.itup);
	pfree(buf);
	pfree(codes);
	return nmade;
}

/*
 * Items may become more than they were, where offsets of one need more bits than those of another.
 */
IndexTuple *
mtp_list_merge(const IndexTuple *items, int *n, const uint8 *same, Size room, int **ends)
{
	int			most = *n;
	IndexTuple *made = palloc((most + 1) * sizeof(IndexTuple));
	int			nmade = 0;

	if (ends != NULL)
		*ends = palloc((most + 1) * sizeof(int));
	for (int i = 0, next; i < *n; i = next)
	{
		int			first = nmade;

		for (next = i + 1; next < *n && MTP_SAME_BIT(same, next); next++)
			;
		if (next - i > 1)
		{
			int			more = count_entries(items + i, next - i) + *n - next;

			if (nmade + more > most)
			{
				most = Max(most * 2, nmade + more);
				made = repalloc(made, most * sizeof(IndexTuple));
				if (ends != NULL)
					*ends = repalloc(*ends, most * sizeof(int));
			}
			nmade += merge_run(items + i, next - i, room, made + nmade);
		}
		else
			made[nmade++] = items[i];
		if (nmade == first)
			return NULL;
		for (int k = first; k < nmade && ends != NULL; k++)
			(*ends)[k] = next;
	}
	*n = nmade;
	return made;
}

IndexTuple
mtp_item_plain(IndexTuple itup, const ItemPointerData *tid)
{
	Size		size = mtp_item_key_size(itup);
	IndexTuple	plain = palloc(size);

	memcpy(plain, itup, size);
	plain->t_info = (itup->t_info & (INDEX_NULL_MASK | INDEX_VAR_MASK)) | size;
	plain->t_tid = *tid;
	return plain;
}
