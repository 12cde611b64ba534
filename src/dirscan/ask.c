/*
 * ask.c
 *	  Asks the directories of a table's pairs of blocks.
 *
 * The scan evaluates its values when it finds the first directory, once for a scan.  Until then a
 * statement does what a sequential scan would do and raises what that would raise.  Comparison
 * functions are called as an index scan with these clauses would call them.
 */
#include "dirscan/dirscan.h"

#include "buffer/pair.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "core/inject.h"

/* An array of more elements is replaced by the range from its least to its largest one. */
#define MOST_ELEMENTS	64

void
mtp_dirscan_begin_asking(MtpDirscanState *s)
{
	TableScanDesc scan = s->css.ss.ss_currentScanDesc;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	int			n;

	s->asks = false;
	if (!mtp_pair_serves(scan->rs_rd) || !mtp_pair_serves_snapshot(scan->rs_snapshot))
		return;
	s->asking = mtp_dirscan_asking(scan->rs_rd, s->clauses, &n, attnums);
	s->asks = s->asking != NIL &&
		mtp_pagedir_describe(&s->columns, s->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor, n,
							 attnums);
	if (s->asks && s->search_context == NULL)
		s->search_context = AllocSetContextCreate(s->css.ss.ps.state->es_query_cxt,
												  "directory scan", ALLOCSET_SMALL_SIZES);
}

/* Returns the place of a clause's column among the directory's. */
static int
place_of(const MtpDirscanState *s, const MtpDirscanClause *clause)
{
	for (int i = 0; i < s->columns.n; i++)
		if (s->columns.column[i].tag.attnum == clause->attnum)
			return i;
	pg_unreachable();
}

/*
 * Makes a key for a value, which it detoasts.  Returns false if the operator does not belong to
 * the column's order any more.
 */
static bool
make_key(MtpDirscanState *s, const MtpDirscanClause *clause, Datum value, int16 typlen,
		 MtpPagedirKey *key)
{
	if (typlen == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM(value));
	return mtp_pagedir_key(&s->columns, place_of(s, clause), clause->op, clause->collation, value,
						   key);
}

/*
 * Adds the range from the least to the largest key, if these can be compared with each other: by
 * normalized keys, or as values of the column's own type.
 */
static void
add_range(MtpDirscanState *s, MtpPagedirKey *keys, int n, bool own_type)
{
	MtpPagedirKey *least = &keys[0],
			   *largest = &keys[0];

	for (int i = 1; i < n; i++)
	{
		MtpPagedirKey *key = &keys[i];

		if (!own_type && !key->by_norm)
			return;
		if (own_type ? DatumGetInt32(FunctionCall2Coll(&key->compare, key->collation, key->value,
													   least->value)) < 0 :
			key->norm < least->norm)
			least = key;
		if (own_type ? DatumGetInt32(FunctionCall2Coll(&key->compare, key->collation, key->value,
													   largest->value)) > 0 :
			key->norm > largest->norm)
			largest = key;
	}
	s->keys[s->nkeys] = *least;
	s->keys[s->nkeys++].what = BTGreaterEqualStrategyNumber;
	s->keys[s->nkeys] = *largest;
	s->keys[s->nkeys++].what = BTLessEqualStrategyNumber;
}

static void
add_array(MtpDirscanState *s, const MtpDirscanClause *clause, ArrayType *array)
{
	int16		typlen;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			nvalues;
	MtpPagedirKey *keys;
	int			n = 0;
	Oid			left,
				right;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, byval, align, &values, &nulls, &nvalues);
	keys = palloc_extended(Max(nvalues, 1) * sizeof(MtpPagedirKey), MCXT_ALLOC_HUGE);
	for (int i = 0; i < nvalues; i++)
		if (!nulls[i] && !make_key(s, clause, values[i], typlen, &keys[n++]))
			return;
	if (n == 0)
		s->nothing = true;
	else if (n <= MOST_ELEMENTS && s->nany == 0)
	{
		s->any = keys;
		s->nany = n;
	}
	else
	{
		op_input_types(clause->op, &left, &right);
		add_range(s, keys, n, left == right);
	}
}

/* Makes keys of the clauses' current values, in key_context. */
static void
make_keys(MtpDirscanState *s)
{
	ExprContext *econtext = s->key_context;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	ListCell   *lc;

	s->nkeys = s->nany = 0;
	s->nothing = false;
	s->keys = palloc((2 * list_length(s->asking) + 1) * sizeof(MtpPagedirKey));
	foreach(lc, s->asking)
	{
		MtpDirscanClause *clause = lfirst(lc);
		Datum		value = (Datum) 0;
		bool		isnull = false;

		if (clause->state != NULL)
			value = ExecEvalExpr(clause->state, econtext, &isnull);
		if (isnull)
			s->nothing = true;
		else if (clause->state == NULL)
			mtp_pagedir_key_null(place_of(s, clause), clause->kind == MTP_CLAUSE_NULL,
								 &s->keys[s->nkeys++]);
		else if (clause->kind == MTP_CLAUSE_ANY)
			add_array(s, clause, DatumGetArrayTypeP(value));
		else if (make_key(s, clause, value, get_typlen(exprType((Node *) clause->value)),
						  &s->keys[s->nkeys]))
			s->nkeys++;
	}
	MemoryContextSwitchTo(old);
	s->has_keys = true;
}

static bool
is_still(void *arg)
{
	MTP_INJECT("directory_copied");
	return mtp_frame_still(&mtp_buffer, arg);
}

/*
 * Asks a pair's directory and sets s->items.  Returns false if the pair has none, or it changed
 * meanwhile.
 *
 * The scan's snapshot is older than the look into the buffer (invariant S1).  So the directory has
 * every row that the snapshot sees, and keeps them: a writer that puts a row on a page takes the
 * directory away before it can commit, and no visible row moves to another line pointer.
 */
bool
mtp_dirscan_ask(MtpDirscanState *s, uint32 pair)
{
	Relation	table = s->css.ss.ss_currentRelation;
	bool		found = true;
	MemoryContext old;

	if (!mtp_pair_find_next(table, pair, MTP_FRAME_PAGEDIR, 0, 4 * MTP_PAGEDIR_ALIGN, &s->ref))
		return false;
	if (!s->has_keys)
		make_keys(s);
	memset(&s->items, 0, sizeof(s->items));
	if (s->nothing)
		return true;

	/* Searches for each of the array's elements, into one set of items. */
	old = MemoryContextSwitchTo(s->search_context);
	for (int i = 0; i < Max(s->nany, 1) && found; i++)
	{
		MtpPagedirFound answer;

		if (s->nany > 0)
			s->keys[s->nkeys] = s->any[i];
		answer = mtp_pagedir_search(s->ref.image, MTP_PAGEDIR_MOST, &s->columns, s->keys,
									s->nkeys + (s->nany > 0), is_still, &s->ref, &s->items);
		/* Keeps what the comparison function has cached. */
		if (s->nany > 0)
			s->any[i].compare = s->keys[s->nkeys].compare;
		found = answer != MTP_PAGEDIR_CHANGED && answer != MTP_PAGEDIR_UNUSABLE;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(s->search_context);
	MTP_INJECT("directory_searched");

	/* The frame may be another pair's by now; then the answer says nothing of this one (S1). */
	if (!mtp_frame_still(&mtp_buffer, &s->ref))
	{
		mtp_buffer_torn(MTP_FRAME_PAGEDIR);
		return false;
	}
	if (found)
		mtp_pair_answered(table, &s->ref);
	return found;				/* false: a directory of other columns, or one that is not filled
								 * yet */
}
