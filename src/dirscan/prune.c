/*
 * prune.c
 *	  Leaves out the pairs of blocks that by a zone index have no row which matches.
 */
#include "dirscan/dirscan.h"

#include "access/genam.h"
#include "core/compat.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

/* What a clause asks of a column of the index */
typedef struct MtpDirscanZoneKey
{
	const MtpDirscanClause *clause;
	ScanKeyData key;			/* without its argument */
} ZoneKey;

/* Makes a key for each clause on a column of the index. */
static void
make_zone_keys(MtpDirscanState *s)
{
	Relation	index = s->zones.index;
	int			natts = IndexRelationGetNumberOfKeyAttributes(index);
	ListCell   *lc;

	s->zones.nkeys = 0;
	s->zones.keys = palloc(list_length(s->clauses) * natts * sizeof(ZoneKey));
	foreach(lc, s->clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		for (int i = 0; i < natts; i++)
		{
			ZoneKey    *key = &s->zones.keys[s->zones.nkeys];
			int			flags = clause->kind == MTP_CLAUSE_NULL ? SK_ISNULL | SK_SEARCHNULL :
			clause->kind == MTP_CLAUSE_NOT_NULL ? SK_ISNULL | SK_SEARCHNOTNULL : 0;
			int			strategy = InvalidStrategy;
			Oid			left,
						right = InvalidOid;

			if (index->rd_index->indkey.values[i] != clause->attnum)
				continue;
			if (flags == 0)
			{
				if (clause->collation != index->rd_indcollation[i] ||
					!op_in_opfamily(clause->op, index->rd_opfamily[i]))
					continue;
				get_op_opfamily_properties(clause->op, index->rd_opfamily[i], false, &strategy,
										   &left, &right);
			}
			key->clause = clause;
			memset(&key->key, 0, sizeof(ScanKeyData));	/* nothing is called */
			key->key.sk_flags = flags;
			key->key.sk_attno = i + 1;
			key->key.sk_strategy = strategy;
			key->key.sk_subtype = right;
			s->zones.nkeys++;
		}
	}
}

void
mtp_dirscan_begin_pruning(MtpDirscanState *s)
{
	EState	   *estate = s->css.ss.ps.state;
	MemoryContext old;

	if (!OidIsValid(s->zones.indexid) || !IsMVCCSnapshot(estate->es_snapshot))
		return;
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	s->zones.index = index_open(s->zones.indexid, AccessShareLock);
	mtp_zone_search_init(&s->zones.search, s->zones.index);
	make_zone_keys(s);

	/* As core does for an index that locks none of its pages for a serializable reader */
	PredicateLockRelation(s->zones.index, estate->es_snapshot);
	MemoryContextSwitchTo(old);
}

void
mtp_dirscan_end_pruning(MtpDirscanState *s)
{
	if (s->zones.index == NULL)
		return;
	index_close(s->zones.index, AccessShareLock);
	s->zones.index = NULL;
	mtp_zone_search_end(&s->zones.search);
	pfree(s->zones.keys);
}

/* Narrows the search by a clause that is true for none but the elements of an array. */
static void
narrow_any(MtpZoneSearch *search, ScanKey key, ArrayType *array)
{
	int16		typlen;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, byval, align, &values, &nulls, &n);
	mtp_zone_search_narrow_any(search, key, values, nulls, n);
}

/* The values of this scan; in key_context, like those of the directories' keys. */
static void
narrow(MtpDirscanState *s)
{
	MtpZoneSearch *search = &s->zones.search;
	ExprContext *econtext = s->key_context;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

	mtp_zone_search_want_all(search);
	for (int i = 0; i < s->zones.nkeys; i++)
	{
		const MtpDirscanClause *clause = s->zones.keys[i].clause;
		ScanKeyData key = s->zones.keys[i].key;
		bool		isnull = false;

		if (clause->state != NULL)
			key.sk_argument = ExecEvalExpr(clause->state, econtext, &isnull);
		if (isnull)
			key.sk_flags |= SK_ISNULL;
		if (clause->kind == MTP_CLAUSE_ANY && !isnull)
			narrow_any(search, &key, DatumGetArrayTypeP(key.sk_argument));
		else
			mtp_zone_search_narrow(search, &key);
	}
	MemoryContextSwitchTo(old);
}

void
mtp_dirscan_prune(MtpDirscanState *s)
{
	HeapScanDesc scan = (HeapScanDesc) s->css.ss.ss_currentScanDesc;
	MtpZoneSearch *search = &s->zones.search;
	uint32		pairs = scan->rs_nblocks / MTP_ZONE_BLOCKS + scan->rs_nblocks % MTP_ZONE_BLOCKS;

	if (s->zones.index == NULL)
		return;
	narrow(s);
	pgstat_count_index_scan(s->zones.index);
	mtp_zone_search_run(search, scan->rs_base.rs_snapshot);

	/* What lies behind the end that the table had when the scan began has no row for it. */
	while (search->nruns > 0 && search->runs[search->nruns - 1].first >= pairs)
		search->nruns--;
	if (search->nruns > 0 && search->runs[search->nruns - 1].end > pairs)
		search->runs[search->nruns - 1].end = pairs;
	s->zones.run = 0;
	for (int i = 0; i < search->nruns; i++)
		s->zones.found += search->runs[i].end - search->runs[i].first;
	s->zones.pairs += pairs;
	s->zones.searches++;
}

/* Sets zones.run to the first run that ends behind a pair. */
static void
find_run(MtpDirscanState *s, uint32 pair)
{
	const MtpZoneSearch *search = &s->zones.search;
	int			low = 0;
	int			high = search->nruns;

	/* Most often it is the last one, or the next. */
	if (s->zones.run > 0 && search->runs[s->zones.run - 1].end <= pair)
		low = s->zones.run;
	if (low < high && search->runs[low].end > pair)
		high = low;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (search->runs[middle].end > pair)
			high = middle;
		else
			low = middle + 1;
	}
	s->zones.run = low;
}

int64
mtp_dirscan_found_from(MtpDirscanState *s, int64 block)
{
	const MtpZoneSearch *search = &s->zones.search;

	find_run(s, block / MTP_ZONE_BLOCKS);
	if (s->zones.run == search->nruns)
		return PG_UINT32_MAX;
	return Max(block, (int64) search->runs[s->zones.run].first * MTP_ZONE_BLOCKS);
}

int64
mtp_dirscan_found_to(MtpDirscanState *s, int64 block)
{
	const MtpZoneSearch *search = &s->zones.search;

	if (block < 0)
		return -1;
	find_run(s, block / MTP_ZONE_BLOCKS);
	if (s->zones.run < search->nruns &&
		search->runs[s->zones.run].first <= block / MTP_ZONE_BLOCKS)
		return block;
	return s->zones.run == 0 ? -1 :
		(int64) search->runs[s->zones.run - 1].end * MTP_ZONE_BLOCKS - 1;
}
