/*
 * hint.c
 *	  Tells whoever adopts a table which of its columns a zone index would serve.
 */
#include "core/core.h"

#include <math.h>

#include "access/genam.h"
#include "catalog/pg_statistic.h"
#include "commands/defrem.h"
#include "page/norm.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* Rows whose correlation is above it stand about in the order of the column. */
#define IN_ORDER	0.9

/* A sequential scan of fewer blocks needs no index. */
#define FEWEST_BLOCKS	32

/* True if ANALYZE has found the rows in the order of a column, or in the reverse one. */
static bool
is_in_order(Oid relid, AttrNumber attnum)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(attnum), BoolGetDatum(false));
	AttStatsSlot slot;
	bool		result = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		result = fabs(slot.numbers[0]) > IN_ORDER;
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return result;
}

/* True if an index by mtpower_zone takes the column. */
static bool
has_zones(Form_pg_attribute att)
{
	Oid			proc = lookup_type_cache(att->atttypid, TYPECACHE_CMP_PROC)->cmp_proc;

	return OidIsValid(proc) && mtp_norm_kind(proc, att->attcollation) != MTP_NORM_NONE;
}

/* True if the table has such an index on the column already. */
static bool
has_index(Relation rel, AttrNumber attnum)
{
	List	   *indexes = RelationGetIndexList(rel);
	Oid			am = get_am_oid("mtpower_zone", true);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
			found |= index->rd_rel->relam == am && index->rd_index->indkey.values[i] == attnum;
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

void
mtp_table_hint(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData columns;
	int			n = 0;

	if (RelationGetNumberOfBlocks(rel) < FEWEST_BLOCKS)
		return;
	initStringInfo(&columns);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || !is_in_order(RelationGetRelid(rel), att->attnum) ||
			!has_zones(att) || has_index(rel, att->attnum))
			continue;
		appendStringInfo(&columns, "%s%s", n++ > 0 ? ", " : "",
						 quote_identifier(NameStr(att->attname)));
	}
	if (n > 0)
		ereport(NOTICE,
				(errmsg("rows of table \"%s\" stand about in the order of: %s",
						RelationGetRelationName(rel), columns.data),
				 errhint("CREATE INDEX ... USING mtpower_zone makes an index of them that is "
						 "small, and that loads hardly feel.")));
	pfree(columns.data);
}
