/*
 * list.c
 *	  Makes, reads and changes lists of TIDs (list.h).
 */
#include "page/list.h"

#include "access/htup_details.h"
#include "core/links.h"

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
		size - key - sizeof(MtpListHead) < n - 1)
		return "list has a wrong number of TIDs";
	if (!mtp_tid_possible(&MtpListHeadOf(itup)->first))
		return "list has an invalid TID";
	return NULL;
}

/*
 * The tuple may be a copy of one that was being changed, so its size and number are read once.  A
 * difference is at least 1, and no sum of them is beyond the last block.
 */
int
mtp_list_decode(IndexTuple itup, ItemPointerData *tids)
{
	const uint64 most = ((uint64) MaxBlockNumber + 1) << MTP_TID_BITS;
	const uint8 *end = (uint8 *) itup + IndexTupleSize(itup);
	MtpListHead *head = MtpListHeadOf(itup);
	const uint8 *p = (uint8 *) (head + 1);
	int			n = BTreeTupleGetNPosting(itup);
	uint64		code;

	if (mtp_list_fault(itup) != NULL)
		return 0;
	code = mtp_tid_code(&head->first);
	tids[0] = head->first;
	for (int i = 1; i < n; i++)
	{
		uint64		delta;
		int			shift = 0;

		if (p >= end)
			return 0;
		delta = *p & 0x7F;
		while (*p++ & 0x80)
		{
			shift += 7;
			if (p >= end || shift > 42)
				return 0;
			delta |= (uint64) (*p & 0x7F) << shift;
		}
		code += delta;
		if (delta == 0 || code > most)
			return 0;
		mtp_tid_of_code(code, &tids[i]);
		if (unlikely(!mtp_tid_possible(&tids[i])))
			return 0;
	}
	return p == end ? n : 0;
}

ItemPointerData
mtp_item_last_tid(IndexTuple itup)
{
	ItemPointerData tids[MTP_LIST_TIDS];
	int			n = mtp_item_decode(itup, tids);

	return n > 0 ? tids[n - 1] : MtpListHeadOf(itup)->first;
}

void
mtp_list_begin(MtpListMaker *m, char *buf, Size room, IndexTuple key, const ItemPointerData *tid)
{
	Size		size = mtp_item_key_size(key);
	MtpListHead head = {.first = *tid,.dead = 0};

	m->itup = (IndexTuple) buf;
	m->room = Min(room, size + MTP_LIST_BYTES);
	m->n = 1;
	m->last = mtp_tid_code(tid);
	memmove(buf, key, size);
	m->itup->t_info = (key->t_info & (INDEX_NULL_MASK | INDEX_VAR_MASK)) | size;
	m->itup->t_tid = *tid;
	m->size = size + sizeof(head);
	if (m->size <= m->room)
		memcpy(buf + size, &head, sizeof(head));
}

bool
mtp_list_add(MtpListMaker *m, const ItemPointerData *tid)
{
	uint64		code = mtp_tid_code(tid);
	uint64		delta = code - m->last;
	uint8		bytes[10];
	int			n = 0;

	Assert(code > m->last);
	while (delta >= 0x80)
	{
		bytes[n++] = (delta & 0x7F) | 0x80;
		delta >>= 7;
	}
	bytes[n++] = delta;
	if (m->size + n > m->room)
		return false;
	memcpy((char *) m->itup + m->size, bytes, n);
	m->size += n;
	m->n++;
	m->last = code;
	return true;
}

Size
mtp_list_end(MtpListMaker *m)
{
	Size		key = m->itup->t_info & INDEX_SIZE_MASK;

	if (m->n == 1)
		return key;
	m->itup->t_info = (m->itup->t_info & ~INDEX_SIZE_MASK) | INDEX_ALT_TID_MASK | m->size;
	ItemPointerSetBlockNumber(&m->itup->t_tid, key);
	ItemPointerSetOffsetNumber(&m->itup->t_tid, m->n | BT_IS_POSTING);
	return m->size;
}

/*
 * A difference that spans those of two neighbours takes no more bytes than they did: the list never
 * grows, and is made anew where it stands.
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
		else
			(void) mtp_list_add(&m, &tids[i]);
	}
	if (m.itup == NULL)
		return;
	Assert(m.n == old - n);
	next = mtp_list_end(&m);
	memset((char *) itup + next, 0, size - next);
}

static int
compare_codes(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
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

	for (int i = 0; i < n; i++)
	{
		total += mtp_item_entries(items[i]);
		if (mtp_item_key_size(items[i]) < mtp_item_key_size(key))
			key = items[i];
	}
	codes = palloc(total * sizeof(uint64));
	total = 0;
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
 * Lists that overlap can become one more than they were: each new one but the last lacks less than
 * the largest difference.  So twice as many are more than enough.
 */
IndexTuple *
mtp_list_merge(const IndexTuple *items, int *n, const uint8 *same, Size room, int **ends)
{
	int			most = *n * 2 + 1;
	IndexTuple *made = palloc(most * sizeof(IndexTuple));
	int			nmade = 0;

	if (ends != NULL)
		*ends = palloc(most * sizeof(int));
	for (int i = 0, next; i < *n; i = next)
	{
		int			first = nmade;

		for (next = i + 1; next < *n && MTP_SAME_BIT(same, next); next++)
			;
		if (next - i > 1)
			nmade += merge_run(items + i, next - i, room, made + nmade);
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
