/*
 * list_test.c
 *	  Makes, reads, changes and damages lists of TIDs (src/page/list.h).
 *
 *	  list_test SEED ROUNDS
 *
 * A plain program.  Every list stands in a heap block of its size, so that a sanitizer sees any
 * access behind it.  What a list should take is counted here by another rule: code by code.
 */
#include "core/core.h"

#include "core/links.h"
#include "page/page.h"
#include "random.h"
#include "server.h"

#define TIDS_MAX	3000

static uint64 codes[TIDS_MAX];	/* ascending, as mtp_tid_code has them */
static int	ncodes;
static const char *where = "start";

#define check(cond) \
	do { if (!(cond)) die("line %d, after %s: %s", __LINE__, where, #cond); } while (0)

void *
repalloc(void *p, Size size)
{
	return realloc(p, size);
}

void
pg_qsort(void *base, size_t n, size_t size, int (*compare) (const void *, const void *))
{
	qsort(base, n, size, compare);
}

static ItemPointerData
tid_of(uint64 code)
{
	ItemPointerData tid;

	mtp_tid_of_code(code, &tid);
	return tid;
}

/*
 * TIDs of any density: gaps of up to 1 .. 2^40 numbers, offsets up to 1 .. all that are possible,
 * sometimes one that is larger, or a gap that is.  each: a TID in each block, with a low offset but
 * for a few, which make all differences larger.
 */
static void
random_codes(int n, bool each)
{
	int			gap = rnd(41);
	int			most = 1 + rnd(rnd(2) ? MaxHeapTuplesPerPage : Min(20, MaxHeapTuplesPerPage));
	int			odd = rnd(3) ? 0 : 1 + rnd(100);	/* per thousand */
	uint64		code = rnd64() >> (21 + rnd(43));

	for (ncodes = 0; ncodes < n;)
	{
		ItemPointerData tid;

		if (each)
			code = ((code >> MTP_TID_BITS) + 1) << MTP_TID_BITS |
				(rnd(200) == 0 ? MaxHeapTuplesPerPage - rnd(4) : 1 + rnd(15));
		else
			code += 1 + rnd64() % (UINT64CONST(1) << (rnd(1000) < odd ? rnd(41) : gap));
		if ((code & ((1 << MTP_TID_BITS) - 1)) > (each || rnd(1000) < odd ? MaxHeapTuplesPerPage : most))
			code = ((code >> MTP_TID_BITS) + 1) << MTP_TID_BITS | (1 + rnd(most));
		tid = tid_of(code);
		if (code >> (MTP_TID_BITS + 32) != 0)
			return;
		if (mtp_tid_possible(&tid))
			codes[ncodes++] = code;
	}
}

/* The bits that the differences of from .. to - 1 take with this s and k */
static int
count_bits(int from, int to, int s, int k)
{
	int			bits = 0;

	for (int i = from + 1; i < to; i++)
	{
		uint64		d = ((codes[i] >> MTP_TID_BITS) - (codes[i - 1] >> MTP_TID_BITS)) << s;
		int			zeros = 0;

		d += (codes[i] & ((1 << MTP_TID_BITS) - 1)) - (codes[i - 1] & ((1 << MTP_TID_BITS) - 1));
		while (d >> (k + zeros) != 0)
			zeros++;
		bits += zeros + 1 + (zeros > 0 ? k + zeros - 1 : k);
	}
	return bits;
}

/* The bits that they take at best, with the least k that does it. */
static int
best_bits(int from, int to, int *s, int *k)
{
	int			best = INT_MAX;

	for (*s = 4; *s < MTP_TID_BITS; ++*s)
	{
		int			i = from;

		while (i < to && (codes[i] & ((1 << MTP_TID_BITS) - 1)) < 1U << *s)
			i++;
		if (i == to)
			break;
	}
	for (int try = 3; try < 3 + 32; try++)
	{
		int			bits = count_bits(from, to, *s, try);

		if (bits < best)
		{
			best = bits;
			*k = try;
		}
	}
	return best;
}

static IndexTuple
random_key(Size size)
{
	IndexTuple	key = malloc(size);

	for (Size i = 0; i < size; i++)
		((char *) key)[i] = (char) rnd64();
	key->t_info = size | (rnd(2) ? INDEX_VAR_MASK : 0);
	return key;
}

/* A copy in a block of its own size */
static IndexTuple
exact(IndexTuple itup)
{
	return CopyIndexTuple(itup);
}

/*
 * Makes a list of the codes from `from` on, in a block of `room` bytes; returns it in one of its
 * own size.  *to gets the first code that it has not.
 */
static IndexTuple
make(IndexTuple key, Size room, int from, int *to)
{
	char	   *buf = malloc(room);
	ItemPointerData tid = tid_of(codes[from]);
	MtpListMaker m;
	Size		size;
	IndexTuple	made;

	memset(&m, 0xEE, sizeof(m));
	memset(buf, 0xEE, room);
	mtp_list_begin(&m, buf, room, key, &tid);
	for (*to = from + 1; *to < ncodes; ++*to)
	{
		tid = tid_of(codes[*to]);
		if (!mtp_list_add(&m, &tid))
			break;
		check(mtp_item_same_key(m.itup, key));
	}
	check(m.n == *to - from);
	size = mtp_list_end(&m);
	made = exact((IndexTuple) buf);
	check(size == IndexTupleSize(made) && size <= room);
	free(buf);
	return made;
}

/*
 * The list has the codes from .. to - 1 in order, and takes what it should: with the best k or, if
 * it has grown, with any.
 */
static void
check_codes(IndexTuple itup, IndexTuple key, int from, int to, bool grown)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	Size		size = mtp_item_key_size(key);
	int			s,
				k;
	int			bits = best_bits(from, to, &s, &k);

	check(mtp_item_same_key(itup, key));
	check(mtp_item_is_list(itup) == (to - from > 1));
	check(mtp_item_entries(itup) == to - from);
	check(mtp_item_decode(itup, tids) == to - from);
	for (int i = from; i < to; i++)
		check(mtp_tid_code(&tids[i - from]) == codes[i]);
	check(mtp_tid_code(BTreeTupleGetHeapTID(itup)) == codes[from]);
	tids[0] = mtp_item_last_tid(itup);
	check(mtp_tid_code(&tids[0]) == codes[to - 1]);
	if (to - from == 1)
		check(IndexTupleSize(itup) == size);
	else
	{
		uint8		sk = ((uint8 *) itup)[size + 8];

		check(mtp_list_fault(itup) == NULL && MtpListHeadOf(itup)->dead == 0);
		if (grown)
		{
			check((sk & 7) + 4 >= s);
			s = (sk & 7) + 4;
			k = (sk >> 3) + 3;
			bits = count_bits(from, to, s, k);
		}
		check(IndexTupleSize(itup) == size + 9 + (bits + 7) / 8);
		check(sk == (s - 4) + (k - 3) * 8);
	}
}

static void
check_list(IndexTuple itup, IndexTuple key, int from, int to)
{
	check_codes(itup, key, from, to, false);
}

static void
test_making(void)
{
	IndexTuple	key = random_key(8 * (1 + rnd(rnd(2) ? 4 : 60)));
	Size		room = IndexTupleSize(key) + (rnd(3) ? MTP_LIST_BYTES + 8 * rnd(2) : rnd(80));

	where = "making";
	for (int from = 0, to; from < ncodes; from = to)
	{
		IndexTuple	made = make(key, room, from, &to);
		IndexTuple	again;
		int			s,
					k,
					end;

		check_list(made, key, from, to);

		/* What follows would not have fit, whatever the parameters. */
		if (to < ncodes && to - from < MTP_LIST_TIDS)
			check(9 + (best_bits(from, to + 1, &s, &k) + 7) / 8 >
				  Min((int) (room - IndexTupleSize(key)), MTP_LIST_BYTES));

		/* From a list's key the same bytes come again. */
		again = make(made, room, from, &end);
		check(end == to && IndexTupleSize(again) == IndexTupleSize(made));
		check(memcmp(again, made, IndexTupleSize(made)) == 0);
		free(again);
		free(made);
	}
	free(key);
}

/* Any TIDs that are taken out leave the list that the others make, and it is not larger. */
static void
test_removal(void)
{
	IndexTuple	key = random_key(16);
	int			to;
	IndexTuple	itup = make(key, 16 + MTP_LIST_BYTES, 0, &to);

	where = "removal";
	ncodes = to;
	while (ncodes > 1)
	{
		Size		size = IndexTupleSize(itup);
		int			most = rnd(3) ? 1 + rnd(3) : ncodes - 1;
		int			first = rnd(2) ? 0 : rnd(ncodes);
		uint16		at[MTP_LIST_TIDS];
		int			n = 0;
		int			left = 0;
		IndexTuple	shorter;

		for (int i = 0; i < ncodes; i++)
		{
			if (i >= first && n < Min(most, ncodes - 1) && rnd(3) == 0)
				at[n++] = i;
			else
				codes[left++] = codes[i];
		}
		ncodes = left;
		mtp_list_remove(itup, n, at);
		check(IndexTupleSize(itup) <= size);
		for (Size i = IndexTupleSize(itup); i < size; i++)
			check(((char *) itup)[i] == 0);
		shorter = exact(itup);
		free(itup);
		itup = shorter;
		check_list(itup, key, 0, ncodes);
	}
	free(itup);
	free(key);
}

/* Whatever the bytes, TIDs that come out are possible and ascend.  Returns how many there are. */
static int
check_safe(IndexTuple itup)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	int			n = mtp_list_decode(itup, tids);

	check(n == 0 || (n >= 2 && n == BTreeTupleGetNPosting(itup)));
	for (int i = 0; i < n; i++)
	{
		check(mtp_tid_possible(&tids[i]));
		check(i == 0 || mtp_tid_code(&tids[i]) > mtp_tid_code(&tids[i - 1]));
	}
	return n;
}

/*
 * Each size that is less, and each bit that is turned round.  Returns how many bits give other TIDs.
 */
static int
test_damage(void)
{
	IndexTuple	key = random_key(8 * (1 + rnd(3)));
	int			to;
	IndexTuple	itup = make(key, IndexTupleSize(key) + MTP_LIST_BYTES, 0, &to);
	int			size = IndexTupleSize(itup);
	int			good = 0;

	where = "damage";
	for (int less = sizeof(IndexTupleData); less < size && to > 1; less++)
	{
		IndexTuple	copy = malloc(less);

		memcpy(copy, itup, less);
		copy->t_info = (itup->t_info & ~INDEX_SIZE_MASK) | less;
		check(check_safe(copy) == 0);
		free(copy);
	}
	for (int bit = 0; bit < size * 8 && to > 1; bit++)
	{
		IndexTuple	copy = malloc(Max(size, INDEX_SIZE_MASK));
		IndexTuple	damaged;

		memset(copy, rnd(2) ? 0 : 0xFF, INDEX_SIZE_MASK);
		memcpy(copy, itup, size);
		((uint8 *) copy)[bit / 8] ^= 1 << bit % 8;

		/* A page has no tuples smaller than their header. */
		if (IndexTupleSize(copy) >= sizeof(IndexTupleData) && mtp_item_is_list(copy))
		{
			damaged = exact(copy);
			good += check_safe(damaged) > 0;
			if (mtp_list_fault(damaged) == NULL)
				(void) mtp_item_last_tid(damaged);
			free(damaged);
		}
		free(copy);
	}
	free(itup);
	free(key);
	return good;
}

/* Random bits behind a good head, of which some are many zeros or ones */
static void
test_garbage(void)
{
	where = "garbage";
	for (int i = 0; i < 300; i++)
	{
		int			bytes = 10 + rnd(rnd(2) ? 20 : 500);
		IndexTuple	itup = malloc(8 + bytes);
		ItemPointerData first;
		uint8	   *p = (uint8 *) itup + 8;

		ItemPointerSet(&first, rnd64() >> (32 + rnd(32)), 1 + rnd(MaxHeapTuplesPerPage));
		for (int j = 0; j < bytes; j++)
			p[j] = rnd(4) == 0 ? 0 : rnd(8) == 0 ? 0xFF : rnd64() & rnd64();
		memcpy(p, &first, sizeof(first));
		itup->t_info = INDEX_ALT_TID_MASK | (8 + bytes);
		ItemPointerSetBlockNumber(&itup->t_tid, 8);
		ItemPointerSetOffsetNumber(&itup->t_tid, (2 + rnd(rnd(2) ? 4 : 503)) | BT_IS_POSTING);
		(void) check_safe(itup);
		free(itup);
	}
}

/*
 * Items of one key, whose TIDs lie among each other, become lists in the order of all.  by_offset:
 * some have low offsets, the others high ones.  Returns how many more they become.
 */
static int
test_merge(bool by_offset)
{
	IndexTuple	items[64];
	IndexTuple	single = random_key(24);
	IndexTuple	key = random_key(16);
	int			all = ncodes;
	uint64		kept[TIDS_MAX];
	uint8		same[MTP_SAME_BYTES(64 + 2)];
	int			n = 0;
	int			nparts = 2 + rnd(5);
	int			part[TIDS_MAX];
	int			at = 0;
	int			nmade;
	int		   *ends;
	IndexTuple *made;

	where = "merge";
	ItemPointerSet(&single->t_tid, 1, 1);
	memset(same, 0, sizeof(same));
	items[n++] = single;
	memcpy(kept, codes, sizeof(kept));
	for (int i = 0; i < all; i++)
		part[i] = by_offset ? (codes[i] & ((1 << MTP_TID_BITS) - 1)) >= 16 : rnd(nparts);
	for (int p = 0; p < nparts; p++)
	{
		ncodes = 0;
		for (int i = 0; i < all; i++)
			if (part[i] == p)
				codes[ncodes++] = kept[i];
		for (int from = 0, to; from < ncodes; from = to, n++)
		{
			if (n == 63)
				die("too many lists");
			items[n] = make(key, 16 + MTP_LIST_BYTES, from, &to);
			if (n > 1)
				same[n / 8] |= 1 << n % 8;
		}
	}
	items[n++] = single;
	memcpy(codes, kept, sizeof(kept));
	ncodes = all;
	nmade = n;
	made = mtp_list_merge(items, &nmade, same, 16 + MTP_LIST_BYTES, &ends);
	check(made[0] == single && made[nmade - 1] == single && ends[0] == 1 && ends[nmade - 1] == n);
	for (int i = 1; i < nmade - 1; i++)
	{
		int			entries = mtp_item_entries(made[i]);

		check(ends[i] == n - 1);
		check_list(made[i], key, at, at + entries);
		at += entries;
		if (made[i] != items[1])
			free(made[i]);
	}
	check(at == all);
	for (int i = 1; i < n - 1; i++)
		free(items[i]);
	free(made);
	free(ends);
	free(single);
	free(key);
	return nmade - n;
}

/*
 * TIDs that are missing between two of an entry, or behind its last one, come into it.  Where they have
 * no room it becomes two halves or, behind the last one, is followed by a list of the new ones; a
 * single one is not taken there.  Nor is any that is there, or the first.  Returns how many they are.
 */
static int
test_splice(void)
{
	IndexTuple	key = random_key(16);
	Size		room = 16 + (rnd(3) ? MTP_LIST_BYTES : 20 + rnd(100));
	int			to;
	IndexTuple	itup = make(key, room, 0, &to);
	int			at = to > 2 ? 1 + rnd(to - 1) : 0;
	ItemPointerData first = tid_of(codes[0]);
	ItemPointerData last = tid_of(codes[to - 1]);
	ItemPointerData tid = tid_of(codes[at]);
	IndexTuple	made[2];
	int			n = 0;

	where = "splice";
	if (to > 1)
	{
		check(mtp_list_splice(itup, 1, &tid, room, made) == 0);
		check(mtp_list_splice(itup, 1, &first, room, made) == 0);
		check(mtp_list_splice(itup, 1, &last, room, made) == 0);
	}
	free(itup);
	if (to > 2)
	{
		uint64		with[TIDS_MAX];
		ItemPointerData tids[MTP_LIST_JOIN];
		int			new = rnd(2) ? 1 : 1 + rnd(Min(MTP_LIST_JOIN, to - at));
		int			all = ncodes;
		int			half = 0;
		int			end;
		int			dead;
		bool		behind;
		bool		was_list;

		for (int i = 0; i < new; i++)
			tids[i] = tid_of(codes[at + i]);

		/* Between the others, what follows takes the room that the TIDs leave. */
		memcpy(with, codes, sizeof(with));
		ncodes -= new;
		memmove(codes + at, codes + at + new, (ncodes - at) * sizeof(uint64));
		if (at + new == to)
			ncodes = at;
		itup = make(key, room, 0, &end);
		memcpy(codes, with, sizeof(with));
		ncodes = all;
		dead = mtp_item_is_list(itup) ? rnd(end) : 0;
		if (dead > 0)
			MtpListHeadOf(itup)->dead = dead;
		was_list = mtp_item_is_list(itup);
		behind = at == end;
		n = at > end ? 0 : mtp_list_splice(itup, new, tids, room, made);
		free(itup);
		if (n == 2)
			half = behind ? end : (end + new) / 2;
		check(n > 0 || at > end || room < 16 + MTP_LIST_BYTES || (behind && (new == 1 || !was_list)));
		check(n < 2 || !behind || new > 1);
		for (int i = 0; i < n; i++)
		{
			itup = exact(made[i]);
			check(!mtp_item_is_list(itup) || MtpListHeadOf(itup)->dead == 0 ||
				  MtpListHeadOf(itup)->dead == Min(dead, at));
			if (mtp_item_is_list(itup))
				MtpListHeadOf(itup)->dead = 0;
			check_codes(itup, key, i == 0 ? 0 : half, i == n - 1 ? end + new : half, n == 1);
			check(IndexTupleSize(itup) <= room);
			free(itup);
			free(made[i]);
		}
	}
	free(key);
	return n;
}

int
main(int argc, char **argv)
{
	int			good = 0;
	int			more = 0;
	int			halves = 0;

	if (argc != 3)
		die("usage: list_test SEED ROUNDS");
	rng = strtoull(argv[1], NULL, 10) * 2 + 1;
	for (int i = 0; i < atoi(argv[2]); i++)
	{
		random_codes(1 + rnd(rnd(2) ? 1500 : 30), rnd(6) == 0);
		if (ncodes == 0)
			continue;
		test_making();
		(void) test_merge(rnd(2));
		good += test_damage();
		halves += test_splice() == 2;
		test_removal();
		test_garbage();
	}
	for (int i = 0; i < 10; i++)
	{
		random_codes(TIDS_MAX, true);
		if (ncodes > 0)
			more = Max(more, test_merge(true));
	}
	where = "end";
	check(good > 0 && halves > 0 && (more > 0 || MaxHeapTuplesPerPage < 200));
	printf("ok\n");
	return 0;
}
