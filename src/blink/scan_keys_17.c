/*
 * scan_keys_17.c
 *	  Scan keys as nbtree has them since PostgreSQL 17: arrays are advanced on the leaf.
 *
 * Core's _bt_checkkeys is given the items of a leaf in their order.  Where an item is beyond what
 * the arrays' current elements match, it advances them to the first ones that can match the item or
 * a later one.  From the leaf's last item (backward: its first), the final one, it learns whether
 * that is on this leaf or a neighbour; if it is further away, it ends the search, and asks for
 * another one (bt.needPrimScan).  If that can be told from the next leaf alone, it has the scan
 * look there (bt.scanBehind).
 *
 * Two of core's short cuts read line pointers, which our pages lack.  To look ahead for the next
 * elements (_bt_checkkeys_look_ahead), our leaf is searched by its directory instead; core does not
 * look where an item's offset is before the first.  To find what all items have in common
 * (_bt_set_startikey, since 18), core gets a page with two items, the first and the last.
 */
#include "blink/scan.h"

#if MTP_ARRAYS_ON_LEAF

#include "core/inject.h"

/* After so many items in a row that are before the arrays' elements, the leaf is searched. */
#define SEARCH_AFTER	4
#define SEARCH_AT_MOST	64		/* if searches lead but SEARCH_GAIN items further */
#define SEARCH_GAIN		8

/* What a scan keeps beside core's arrays. */
typedef struct MtpScanArrays
{
	/* Where the arrays stood, and their flags, before the leaf that is being read. */
	int			nelems;
	int		   *elems;
	bool		behind;
	bool		opposite;

	/* The page with two items, and the copy of a frame's final item. */
	PGAlignedBlock edges;
	char		item[sizeof(((MtpPageReader *) NULL)->item)]
				pg_attribute_aligned(MAXIMUM_ALIGNOF);
} MtpScanArrays;

/* What core is told of the offsets on a leaf; those on the page `edges`. */
#define FIRST_OFFSET	FirstOffsetNumber
#define LAST_OFFSET		(FirstOffsetNumber + 1)

#if PG_VERSION_NUM >= 180000

static inline bool
check_opposite(BTScanOpaque bt)
{
	return bt->oppositeDirCheck;
}

static inline void
set_behind(BTScanOpaque bt, bool behind, bool opposite)
{
	bt->scanBehind = behind;
	bt->oppositeDirCheck = opposite;
}

/*
 * A column's array of all values may stand before its first element, or behind its last: what
 * bounds it there is the key that it was made of, if any.
 */
ScanKey
mtp_blink_keys_equal(BTScanOpaque bt, ScanKey key, bool forward, ScanKey *far)
{
	BTArrayKeyInfo *array = bt->arrayKeys;

	if ((key->sk_flags & (SK_BT_MINVAL | SK_BT_MAXVAL)) == 0)
		return key;
	while (array->scan_key != key - bt->keyData)
		array++;
	if (!array->null_elem)
		*far = key;
	return forward ? array->low_compare : array->high_compare;
}

/* Elements of a skip array are copied and freed as it advances. */
bool
mtp_blink_keys_undoable(MtpBlinkScan *so)
{
	return !so->bt.skipScan;
}

bool
mtp_blink_turn_take(IndexScanDesc scan, BlockNumber *from, bool first)
{
	BlockNumber last;

	return _bt_parallel_seize(scan, from, &last, first);
}

/* Core ends the scan when the next process takes the turn. */
void
mtp_blink_turn_pass(IndexScanDesc scan, ScanDirection dir, BlockNumber here, BlockNumber link)
{
	if (link == InvalidBlockNumber)
		link = P_NONE;
	else if (!ScanDirectionIsForward(dir))
		link = here;
	_bt_parallel_release(scan, link, here);
}

/* True if the search must end before this leaf, as its final item tells. */
static bool
is_behind(IndexScanDesc scan, ScanDirection dir, IndexTuple final)
{
	return ((BTScanOpaque) scan->opaque)->scanBehind &&
		!_bt_scanbehind_checkkeys(scan, dir, final);
}

/* True if nothing else on this leaf can match: the arrays stand beyond it. */
static inline bool
looks_at_next(BTScanOpaque bt)
{
	return bt->scanBehind;
}

static void
schedule_search(IndexScanDesc scan, BTReadPageState *ps)
{
	_bt_parallel_primscan_schedule(scan, ((BTScanOpaque) scan->opaque)->currPos.currPage);
}

static void
begin_leaf(IndexScanDesc scan, ScanDirection dir, BTReadPageState *ps, bool first)
{
	ps->firstpage = first;
}

/*
 * Before the leaf's items are compared.  In a search's later leaves, core learns which keys all
 * items match.  False if the reader is torn.
 */
static bool
begin_items(IndexScanDesc scan, MtpPageReader *v, ScanDirection dir, BTReadPageState *ps,
			bool first)
{
	BTScanOpaque bt = scan->opaque;
	Page		page = ((MtpBlinkScan *) bt)->arrays->edges.data;

	set_behind(bt, false, false);
	if (first || v->head.nitems < 2)
		return true;
	PageInit(page, BLCKSZ, sizeof(BTPageOpaqueData));
	memset(BTPageGetOpaque(page), 0, sizeof(BTPageOpaqueData));
	for (OffsetNumber off = FIRST_OFFSET; off <= LAST_OFFSET; off++)
	{
		MtpPos		p = mtp_blink_reader_locate(v, off == FIRST_OFFSET ? 0 : v->head.nitems - 1);
		IndexTuple	itup = mtp_blink_reader_item(v, p.node, p.slot);

		if (itup == NULL)
			return false;
		if (PageAddItem(page, (Item) itup, IndexTupleSize(itup), off, false, false) == off)
			continue;
		if (!BufferIsValid(v->buf))
			return mtp_blink_reader_give_up(v) != NULL;
		mtp_blink_fail_page(v->rel, v->page, "first and last item are too large for a page");
	}
	ps->page = page;
	_bt_set_startikey(scan, ps);
	return true;
}

/* Before the final item is compared: keys that were left out count again. */
static void
compare_all(IndexScanDesc scan, ScanDirection dir, BTReadPageState *ps)
{
	if (ps->forcenonrequired)
		_bt_start_array_keys(scan, dir);
	ps->forcenonrequired = false;
	ps->startikey = 0;
}

static inline void
note_match(BTReadPageState *ps)
{
}

#else							/* PostgreSQL 17 */

#define set_behind(bt, behind, opposite) ((bt)->scanBehind = (behind))
#define check_opposite(bt) false

ScanKey
mtp_blink_keys_equal(BTScanOpaque bt, ScanKey key, bool forward, ScanKey *far)
{
	return key;
}

bool
mtp_blink_keys_undoable(MtpBlinkScan *so)
{
	return true;
}

bool
mtp_blink_turn_take(IndexScanDesc scan, BlockNumber *from, bool first)
{
	return _bt_parallel_seize(scan, from, first);
}

/* What passes the turn on. */
static BlockNumber
turn_block(ScanDirection dir, BlockNumber here, BlockNumber link)
{
	return ScanDirectionIsForward(dir) ? link : here;
}

void
mtp_blink_turn_pass(IndexScanDesc scan, ScanDirection dir, BlockNumber here, BlockNumber link)
{
	if (link == InvalidBlockNumber)
		_bt_parallel_done(scan);
	else
		_bt_parallel_release(scan, turn_block(dir, here, link));
}

/* Core looks by itself, and goes by the block that has passed the turn on. */
static bool
is_behind(IndexScanDesc scan, ScanDirection dir, IndexTuple final)
{
	return false;
}

static inline bool
looks_at_next(BTScanOpaque bt)
{
	return false;
}

static void
schedule_search(IndexScanDesc scan, BTReadPageState *ps)
{
	_bt_parallel_primscan_schedule(scan, ps->prev_scan_page);
}

static void
begin_leaf(IndexScanDesc scan, ScanDirection dir, BTReadPageState *ps, bool first)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;

	ps->dir = dir;
	ps->prev_scan_page = turn_block(dir, pos->currPage, pos->nextPage);
}

/* In a search's later leaves, core asks whether the last one of the items may match. */
static bool
begin_items(IndexScanDesc scan, MtpPageReader *v, ScanDirection dir, BTReadPageState *ps,
			bool first)
{
	MtpBlinkScan *so = scan->opaque;
	MtpPos		p;
	IndexTuple	itup;

	if (first || so->bt.scanBehind || v->head.nitems < 2)
		return true;
	p = mtp_blink_reader_locate(v, ScanDirectionIsForward(dir) ? v->head.nitems - 1 : 0);
	itup = mtp_blink_reader_item(v, p.node, p.slot);
	if (itup == NULL)
		return false;
	_bt_checkkeys(scan, ps, false, itup, so->natts);
	ps->prechecked = ps->continuescan;
	ps->continuescan = true;
	return true;
}

static void
compare_all(IndexScanDesc scan, ScanDirection dir, BTReadPageState *ps)
{
	if (ScanDirectionIsForward(dir))
		ps->prechecked = false; /* of the items, not of the high key */
}

static inline void
note_match(BTReadPageState *ps)
{
	ps->firstmatch = true;
}

#endif							/* PostgreSQL 17 */

void
mtp_blink_keys_end(MtpBlinkScan *so)
{
	if (so->arrays == NULL)
		return;
	if (so->arrays->elems != NULL)
		pfree(so->arrays->elems);
	pfree(so->arrays);
}

void
mtp_blink_keys_reset(IndexScanDesc scan)
{
	BTScanOpaque bt = scan->opaque;

	bt->numberOfKeys = 0;
	bt->numArrayKeys = 0;
	bt->needPrimScan = false;
	set_behind(bt, false, false);
}

/* Core preprocesses the arrays with the other keys. */
bool
mtp_blink_keys_begin(IndexScanDesc scan, ScanDirection dir)
{
	return true;
}

bool
mtp_blink_keys_resume(IndexScanDesc scan, ScanDirection dir)
{
	BTScanOpaque bt = scan->opaque;
	bool		resumed = bt->needPrimScan;

	if (bt->numArrayKeys != 0 && !resumed)
		_bt_start_array_keys(scan, dir);
	bt->needPrimScan = false;
	return resumed;
}

bool
mtp_blink_keys_again(IndexScanDesc scan, ScanDirection dir)
{
	return ((BTScanOpaque) scan->opaque)->numArrayKeys != 0 && _bt_start_prim_scan(scan, dir);
}

/*
 * Where a search is to follow, moreRight tells of this search alone.  The mark knows of no arrays:
 * mtp_blink_keys_restore has them begin anew, and the next leaf advances them.
 */
void
mtp_blink_keys_step(MtpBlinkScan *so, ScanDirection dir, bool marked)
{
	BTScanOpaque bt = &so->bt;

	if (!bt->needPrimScan)
		return;
	if (marked && ScanDirectionIsForward(bt->currPos.dir))
		bt->markPos.moreRight = true;
	else if (marked)
		bt->markPos.moreLeft = true;
	if (bt->currPos.dir != dir)
		bt->needPrimScan = false;
}

void
mtp_blink_keys_mark(IndexScanDesc scan)
{
}

void
mtp_blink_keys_restore(IndexScanDesc scan, bool same)
{
	BTScanOpaque bt = scan->opaque;

	if (same || bt->numArrayKeys == 0 || !BTScanPosIsValid(bt->markPos))
		return;
	_bt_start_array_keys(scan, bt->markPos.dir);
	bt->needPrimScan = false;
}

bool
mtp_blink_keys_match(IndexScanDesc scan, IndexTuple itup, int natts, ScanDirection dir, bool *more)
{
	BTReadPageState ps = {0};
	bool		result;

	((BTScanOpaque) scan->opaque)->currPos.dir = dir;
	begin_leaf(scan, dir, &ps, true);
	ps.continuescan = true;
	result = _bt_checkkeys(scan, &ps, false, itup, natts);
	*more = ps.continuescan;
	return result;
}

/* Remembers where the arrays stand.  Those of a scan that does not use frames need not be. */
static void
remember(MtpBlinkScan *so)
{
	BTScanOpaque bt = &so->bt;
	MtpScanArrays *a = so->arrays;

	if (a == NULL)
		a = so->arrays = MemoryContextAllocZero(so->context, sizeof(MtpScanArrays));
	if (!mtp_blink_keys_undoable(so))
		return;
	if (a->nelems < bt->numArrayKeys)
	{
		if (a->elems != NULL)
			pfree(a->elems);
		a->elems = MemoryContextAlloc(so->context, bt->numArrayKeys * sizeof(int));
		a->nelems = bt->numArrayKeys;
	}
	for (int i = 0; i < bt->numArrayKeys; i++)
		a->elems[i] = bt->arrayKeys[i].cur_elem;
	a->behind = bt->scanBehind;
	a->opposite = check_opposite(bt);
}

void
mtp_blink_keys_undo(MtpBlinkScan *so)
{
	BTScanOpaque bt = &so->bt;
	MtpScanArrays *a = so->arrays;

	for (int i = 0; i < bt->numArrayKeys; i++)
	{
		BTArrayKeyInfo *array = &bt->arrayKeys[i];

		array->cur_elem = a->elems[i];
		bt->keyData[array->scan_key].sk_argument = array->elem_values[array->cur_elem];
	}
	bt->needPrimScan = false;
	set_behind(bt, a->behind, a->opposite);
}

/*
 * The leaf's final item: forward its high key, backward its first item.  *final gets NULL if there
 * is none, or if it is the index's end.  False if the reader is torn.
 */
static bool
final_item(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, IndexTuple *final)
{
	MtpBlinkScan *so = scan->opaque;
	IndexTuple	itup;

	*final = NULL;
	if (ScanDirectionIsForward(dir))
	{
		if (v->head.right == InvalidBlockNumber)
			return true;
		itup = mtp_blink_reader_high(v);
	}
	else
	{
		MtpPos		p = {0};

		if (v->head.left == InvalidBlockNumber || v->head.nitems == 0)
			return true;
		p = mtp_blink_reader_locate(v, 0);
		itup = mtp_blink_reader_item(v, p.node, p.slot);
	}
	if (itup == NULL)
		return false;

	/* The reader has one copy of an item at a time. */
	if ((char *) itup == v->item)
		itup = memcpy(so->arrays->item, itup, IndexTupleSize(itup));
	*final = itup;
	return true;
}

/*
 * Moves *p, the item that was compared last, on to where items may match the arrays as they stand
 * now; false if that is the next item, or if the keys do not tell.  The items in between are before
 * the arrays' elements, so that _bt_checkkeys would do nothing with them.  *patience is the number
 * of such items after which to call this.
 */
static bool
search_leaf(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos *p, int *patience)
{
	MtpPos		place;
	int			gain;

	if (!mtp_blink_scan_place(scan, dir, v, &place))
		return false;
	gain = ScanDirectionIsForward(dir) ? place.pos - p->pos : p->pos + 1 - place.pos;
	*patience = gain > SEARCH_GAIN ? SEARCH_AFTER : Min(*patience * 2, SEARCH_AT_MOST);
	if (gain <= 1)
		return false;
	*p = place;
	return true;
}

/* As read_forward of scan_leaves.c does for other scans */
static void
read_forward(IndexScanDesc scan, MtpPageReader *v, MtpPos p, BTReadPageState *ps)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	int			patience = SEARCH_AFTER;
	int			n = 0;

	while (p.pos < v->head.nitems && p.node < v->head.nnodes)
	{
		IndexTuple	itup;

		if (v->torn)
			return;
		if (scan->ignore_killed_tuples && (v->nodes[p.node].offs[p.slot] & MTP_SLOT_DEAD))
		{
			mtp_blink_scan_skip_dead(v, &p);
			continue;
		}
		itup = mtp_blink_reader_item(v, p.node, p.slot);
		if (itup == NULL)
			return;
		if (_bt_checkkeys(scan, ps, true, itup, so->natts))
		{
			note_match(ps);
			mtp_blink_scan_save(scan, v, n++, itup, p.pos);
		}
		if (n > 1 && !BufferIsValid(v->buf))
			MTP_INJECT("frame_array_advanced");
		if (!ps->continuescan || OffsetNumberIsValid(ps->skip))
			break;
		if (ps->rechecks >= patience)
		{
			ps->rechecks = 0;
			if (search_leaf(scan, ForwardScanDirection, v, &p, &patience))
				continue;
		}
		mtp_pos_forward(v->counts, &v->head, &p);
	}
	if (v->torn)
		return;
	if (ps->continuescan && !looks_at_next(bt) && ps->finaltup != NULL)
	{
		compare_all(scan, ForwardScanDirection, ps);
		_bt_checkkeys(scan, ps, true, ps->finaltup,
					  BTreeTupleGetNAtts(ps->finaltup, scan->indexRelation));
	}
	if (!ps->continuescan)
		bt->currPos.moreRight = false;
	bt->currPos.firstItem = 0;
	bt->currPos.lastItem = n - 1;
	bt->currPos.itemIndex = 0;
}

/* As read_backward of scan_leaves.c does.  The leaf's first item is compared even if it is dead. */
static void
read_backward(IndexScanDesc scan, MtpPageReader *v, MtpPos p, BTReadPageState *ps)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	int			patience = SEARCH_AFTER;
	int			n = MTP_MAX_ITEMS;

	while (mtp_pos_back(v->counts, &p))
	{
		IndexTuple	itup;
		bool		dead;

		if (v->torn)
			return;
		dead = scan->ignore_killed_tuples && (v->nodes[p.node].offs[p.slot] & MTP_SLOT_DEAD) != 0;
		if (dead && p.pos > 0)
			continue;
		itup = mtp_blink_reader_item(v, p.node, p.slot);
		if (itup == NULL)
			return;
		if (p.pos == 0 && ps->finaltup != NULL)
		{
			itup = ps->finaltup;	/* core goes by its address */
			compare_all(scan, BackwardScanDirection, ps);
		}
		if (_bt_checkkeys(scan, ps, true, itup, so->natts) && !dead)
			mtp_blink_scan_save(scan, v, --n, itup, p.pos);
		if (!ps->continuescan || looks_at_next(bt))
			break;
		if (ps->rechecks >= patience)
		{
			ps->rechecks = 0;
			(void) search_leaf(scan, BackwardScanDirection, v, &p, &patience);
		}
	}
	if (!ps->continuescan)
		bt->currPos.moreLeft = false;
	bt->currPos.firstItem = n;
	bt->currPos.lastItem = MTP_MAX_ITEMS - 1;
	bt->currPos.itemIndex = MTP_MAX_ITEMS - 1;
}

void
mtp_blink_keys_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	BTScanPos	pos = &bt->currPos;
	bool		forward = ScanDirectionIsForward(dir);
	bool		first = so->nleaves == 0;	/* of this search */
	BTReadPageState ps = {0};

	remember(so);
	pos->dir = dir;
	pos->firstItem = 0;
	pos->lastItem = -1;
	ps.minoff = FIRST_OFFSET;
	ps.maxoff = LAST_OFFSET;
	ps.continuescan = true;
	begin_leaf(scan, dir, &ps, first);
	if (!final_item(scan, dir, v, &ps.finaltup))
		return;
	if (ps.finaltup != NULL && is_behind(scan, dir, ps.finaltup))
	{
		*(forward ? &pos->moreRight : &pos->moreLeft) = false;
		bt->needPrimScan = true;
		if (scan->parallel_scan != NULL)
			schedule_search(scan, &ps);
		return;
	}
	if (!begin_items(scan, v, dir, &ps, first))
		return;
	if (forward)
		read_forward(scan, v, from, &ps);
	else
		read_backward(scan, v, from, &ps);
}

#endif							/* MTP_ARRAYS_ON_LEAF */
