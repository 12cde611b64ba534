/*
 * scan_start.c
 *	  Finds where a scan starts.
 *
 * Core's _bt_preprocess_keys has put the scan keys in the index's order: sorted by column, with the
 * strategies of DESC columns turned round.  So "low" here always means towards the tree's left end.
 */
#include "blink/scan.h"

#include "batch/batch.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/lsyscache.h"

/* The keys that say where to start: one for each column, from the first on. */
typedef struct Bounds
{
	int			n;
	ScanKey		keys[INDEX_MAX_KEYS];
	ScanKeyData notnull;		/* made up; at most one: being strict, it is the last */
	bool		strict;			/* items equal to the bounds don't match */
} Bounds;

void
mtp_blink_scan_keys_changed(MtpBlinkScan *so)
{
	so->equal = false;
	so->convex = true;

	/*
	 * A key is "required" if all columns before its own are fixed by =.  If all keys are, the
	 * matches are a range of the index: = on some columns, bounds on the next.
	 */
	for (int i = 0; i < so->bt.numberOfKeys; i++)
	{
		int			flags = so->bt.keyData[i].sk_flags;

		if ((flags & (SK_BT_REQFWD | SK_BT_REQBKWD)) == 0 || (flags & SK_ROW_HEADER))
			so->convex = false;
	}
}

/*
 * Chooses the one of a column's keys that bounds the column where the scan starts; NULL if none
 * does.
 *
 * A key with = has precedence: the scan ends where it fails.  If only the far end is bounded, but
 * nulls lie at the near one, the scan passes over the nulls, since every operator is strict:
 * *notnull becomes the bound.  Where arrays are advanced on the leaf, an array behind a column
 * without = stands anywhere.
 */
static ScanKey
choose_bound(BTScanOpaque bt, AttrNumber att, bool forward, ScanKey notnull)
{
	ScanKey		bound = NULL;
	ScanKey		far = NULL;

	for (ScanKey key = bt->keyData; key < bt->keyData + bt->numberOfKeys; key++)
	{
		bool		low = key->sk_strategy == BTGreaterStrategyNumber ||
		key->sk_strategy == BTGreaterEqualStrategyNumber;

		if (key->sk_attno != att ||
			(MTP_ARRAYS_ON_LEAF && (key->sk_flags & SK_SEARCHARRAY) &&
			 (key->sk_flags & (SK_BT_REQFWD | SK_BT_REQBKWD)) == 0))
			continue;
		if (key->sk_strategy == BTEqualStrategyNumber)
		{
			far = NULL;
			bound = mtp_blink_keys_equal(bt, key, forward, &far);
			break;
		}
		if (low != forward)
			far = key;
		else if (bound == NULL)
			bound = key;
	}
	if (bound != NULL || far == NULL)
		return bound;
	if (((far->sk_flags & SK_BT_NULLS_FIRST) != 0) != forward)
		return NULL;

	memset(notnull, 0, sizeof(*notnull));
	notnull->sk_flags = SK_ISNULL | SK_SEARCHNOTNULL |
		(far->sk_flags & (SK_BT_DESC | SK_BT_NULLS_FIRST));
	notnull->sk_attno = far->sk_attno;
	notnull->sk_strategy = forward ? BTGreaterStrategyNumber : BTLessStrategyNumber;
	return notnull;
}

/*
 * Replaces a row comparison, the last of the bounds, by its members: those on the columns that
 * follow, as long as they point the same way.  False if no row can match.
 */
static bool
unfold_row(Bounds *b)
{
	ScanKey		row = b->keys[b->n - 1];
	ScanKey		member = (ScanKey) DatumGetPointer(row->sk_argument);

	if (member->sk_flags & SK_ISNULL)
		return false;
	b->n--;
	while (member->sk_attno == b->n + 1 && member->sk_strategy == row->sk_strategy &&
		   (member->sk_flags & SK_ISNULL) == 0)
	{
		b->keys[b->n++] = member;
		if (member++->sk_flags & SK_ROW_END)
			return true;
	}

	/* (a, b) > (1, 2) means a >= 1 if only a is used of it; (a, b) > (1, NULL) means a > 1. */
	b->strict = (member->sk_flags & SK_ISNULL) != 0;
	return true;
}

/*
 * Chooses bounds for as many leading columns as have them; false if the scan can have no match.
 * Only behind =, >= and <= does the next column's bound count as well.  A row comparison is the
 * last.
 */
static bool
choose_bounds(BTScanOpaque bt, bool forward, Bounds *b)
{
	b->n = 0;
	b->strict = false;
	while (!b->strict)
	{
		ScanKey		key = choose_bound(bt, b->n + 1, forward, &b->notnull);

		if (key == NULL)
			break;
		b->keys[b->n++] = key;
		b->strict = key->sk_strategy == BTGreaterStrategyNumber ||
			key->sk_strategy == BTLessStrategyNumber ||
			(key->sk_flags & (SK_BT_NEXT | SK_BT_PRIOR)) != 0;
		if (key->sk_flags & SK_ROW_HEADER)
			return unfold_row(b);
	}
	return true;
}

/*
 * Makes scan key i of the place to search for.  Its function compares the column with the bound's
 * type.  The function is looked up unless an earlier start of the scan has done so.
 */
static void
set_scankey(IndexScanDesc scan, int i, ScanKey bound)
{
	MtpBlinkScan *so = scan->opaque;
	Relation	rel = scan->indexRelation;
	ScanKey		sk = &so->start.bt.scankeys[i];
	Oid			type = rel->rd_opcintype[i];
	Oid			subtype = bound->sk_subtype == type ? InvalidOid : bound->sk_subtype;

	if (i >= so->nmade || subtype != so->subtypes[i])
	{
		memset(sk, 0, sizeof(*sk));
		sk->sk_attno = i + 1;
		if (OidIsValid(subtype))
		{
			Oid			proc = get_opfamily_proc(rel->rd_opfamily[i], type, subtype, BTORDER_PROC);

			if (!OidIsValid(proc))
				elog(ERROR, "missing support function %d(%u,%u) for attribute %d of index \"%s\"",
					 BTORDER_PROC, type, subtype, i + 1, RelationGetRelationName(rel));
			fmgr_info_cxt(proc, &sk->sk_func, so->context);
		}
		else
			fmgr_info_copy(&sk->sk_func, index_getprocinfo(rel, i + 1, BTORDER_PROC),
						   so->context);
		if (i == 0)
		{
			/*
			 * The operator class's sort support, unlike its comparison function, does not look for
			 * the collation each time, nor copy again what it has copied.  Its order is that of
			 * the comparison function: CREATE INDEX sorts by it.
			 */
			Oid			proc = OidIsValid(subtype) || mtp_norm_is_exact(so->code) ? InvalidOid :
			get_opfamily_proc(rel->rd_opfamily[0], type, type, BTSORTSUPPORT_PROC);

			memset(&so->order, 0, sizeof(so->order));
			so->order.ssup_cxt = so->context;
			so->order.ssup_collation = rel->rd_indcollation[0];
			so->order.ssup_attno = 1;
			if (OidIsValid(proc))
				OidFunctionCall1(proc, PointerGetDatum(&so->order));
		}
		so->subtypes[i] = subtype;
		so->nmade = Max(so->nmade, i + 1);
	}
	sk->sk_flags = bound->sk_flags & (SK_ISNULL | SK_BT_DESC | SK_BT_NULLS_FIRST);
	sk->sk_collation = bound->sk_collation;
	sk->sk_argument = bound->sk_argument;
}

/*
 * Makes so->start of the bounds, unless there are none; false if the scan can have no match.
 * Forward, it leads to the first item >= or > the bounds; backward, to the first > or >= them: the
 * scan starts before it.
 */
static bool
set_key(IndexScanDesc scan, bool forward, Bounds *bounds)
{
	MtpBlinkScan *so = scan->opaque;
	MtpBlinkKey *key = &so->start;

	if (!choose_bounds(&so->bt, forward, bounds))
		return false;
	if (bounds->n == 0)
		return true;
	mtp_blink_key_empty(scan->indexRelation, key);
	for (int i = 0; i < bounds->n; i++)
		set_scankey(scan, i, bounds->keys[i]);
	key->bt.keysz = bounds->n;
	if (so->order.comparator != NULL)
		key->order = &so->order;
	key->bt.nextkey = bounds->strict == forward;
	mtp_blink_key_done(key, bounds->keys[0]->sk_subtype);
	return true;
}

bool
mtp_blink_scan_place(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos *place)
{
	MtpBlinkScan *so = scan->opaque;
	Bounds		bounds;

	if (!set_key(scan, ScanDirectionIsForward(dir), &bounds) || bounds.n == 0)
		return false;
	mtp_blink_reader_place(&so->start, v, true, place);
	return !v->torn;
}

bool
mtp_blink_scan_start(IndexScanDesc scan, ScanDirection dir)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanOpaque bt = &so->bt;
	Relation	rel = scan->indexRelation;
	bool		forward = ScanDirectionIsForward(dir);
	MtpBlinkKey *key = &so->start;
	BlockNumber at = InvalidBlockNumber;	/* set where another process has begun */
	bool		resumed;
	Bounds		bounds;

	Assert(!BTScanPosIsValid(bt->currPos));
	CHECK_FOR_INTERRUPTS();		/* an array may have many elements that match nothing */

	_bt_preprocess_keys(scan);
	if (!bt->qual_ok)
	{
		_bt_parallel_done(scan);
		return false;
	}
	mtp_blink_scan_keys_changed(so);

	mtp_batch_before_scan(rel, scan->xs_snapshot);
	if (scan->parallel_scan != NULL && !mtp_blink_turn_take(scan, &at, true))
		return false;

	/* Nothing behind the start matches, unless it is in the middle of the scan. */
	resumed = mtp_blink_keys_resume(scan, dir);
	bt->currPos.moreLeft = resumed || !forward;
	bt->currPos.moreRight = resumed || forward;
	bt->numKilled = 0;
	bt->markItemIndex = -1;
	memset(&so->walk, 0, sizeof(so->walk));

	/*
	 * The scan may read leaves in frames under an MVCC snapshot: rows that have gone, or others in
	 * their places, are not visible, and an index-only scan announces what it reads (invariant
	 * B10). A parallel scan must lock leaves: it passes the turn on with what the links say then
	 * (B9).  So must all scans under old_snapshot_threshold: how old a page is, they ask the page
	 * itself.
	 */
	so->framed = mtp_buffer_serves(rel) && scan->xs_snapshot->snapshot_type == SNAPSHOT_MVCC &&
		scan->parallel_scan == NULL && !MtpSnapshotsAge() && mtp_blink_keys_undoable(so);
	so->nleaves = 0;
	if (at != InvalidBlockNumber)
		return mtp_blink_scan_walk(scan, dir, at);

	pgstat_count_index_scan(rel);
	MtpCountSearch(scan);

	/*
	 * Find the leaf where the bounds lead, or the one at the index's end; if torn, anew, locked.
	 * Where arrays are advanced on the leaf, the key may have been moved on with them, before they
	 * were put back.
	 */
	for (bool framed = so->framed && mtp_blink_scan_announce(scan);; framed = false)
	{
		MtpPageReader v;
		MtpPos		from;
		bool		found;

		if (!set_key(scan, forward, &bounds))
		{
			mtp_blink_scan_drop_hazard(&so->hazard);
			_bt_parallel_done(scan);
			return false;
		}
		so->equal = bounds.n > 0 && bt->numberOfKeys == 1 && key->by_norm && !key->null &&
			bt->keyData[0].sk_strategy == BTEqualStrategyNumber;
		if (!mtp_blink_find(rel, bounds.n > 0 ? key : NULL, !forward, framed, &v))
		{
			mtp_blink_scan_drop_hazard(&so->hazard);
			_bt_parallel_done(scan);
			return false;
		}
		if (bounds.n > 0)
			mtp_blink_reader_place(key, &v, true, &from);
		else
			from = mtp_blink_reader_locate(&v, forward ? 0 : v.head.nitems);
		found = mtp_blink_scan_read(scan, dir, &v, from);
		if (!v.torn)
			return found;
	}
}
