/*
 * choice.c
 *	  Tells which columns a table's directories are made of: the owner's choice, or else the
 *	  column that scans have taught.
 *
 * The owner's choice comes from the labels of the table, or of its nearest ancestor that has some.
 * It lies in rd_amcache, which core leaves to the access method and frees at each invalidation of
 * the table.  label.c invalidates a table when its labels or those of an ancestor change.  Core
 * does so when a table becomes a partition or ceases to be one, and when columns are renamed or
 * dropped.
 */
#include "core/core.h"

#include "access/relation.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "pagedir/choice.h"
#include "pagedir/learn.h"
#include "pagedir/pagedir.h"
#include "core/identity.h"
#include "core/inject.h"

PG_FUNCTION_INFO_V1(mtp_table_show_directory);

/* rd_amcache of an mtpower table.  Core frees it as one chunk. */
typedef struct TableCache
{
	bool		known;			/* true if directory is the answer */
	MtpPagedirChoice directory;
	uint64		changes;		/* learnt is good until anything is learnt of any table */
	AttrNumber	learnt;
} TableCache;

/* Returns what this session has kept of a table, or NULL.  It is good until a catalog is read. */
static TableCache *
cache_of(Relation rel)
{
	TableCache *cache = mtp_table_is_ours(rel) ? rel->rd_amcache : NULL;

	return cache == NULL || !cache->known ? NULL : cache;
}

/* ---------- the owner's choice ---------- */

AttrNumber
mtp_pagedir_translate(Oid from, Oid to, AttrNumber attnum)
{
	char	   *name;
	AttrNumber	translated = InvalidAttrNumber;

	if (from == to || attnum == InvalidAttrNumber)
		return attnum;
	name = get_attname(from, attnum, true);
	if (name != NULL)
	{
		translated = get_attnum(to, name);
		pfree(name);
	}
	return translated;
}

static void
look_up_choice(Relation rel, MtpPagedirChoice *directory)
{
	Oid			relid = RelationGetRelid(rel);
	List	   *ancestors;
	ListCell   *lc;

	memset(directory, 0, sizeof(*directory));
	if (mtp_pagedir_label_any())
		mtp_pagedir_label_read(relid, directory);

	/* From here on another session's change may arrive, and frees the entry (rd_amcache). */
	MTP_INJECT("directory_read");
	ancestors = rel->rd_rel->relispartition ? get_partition_ancestors(relid) : NIL;
	if (directory->choice == MTP_PAGEDIR_LEARNT && mtp_pagedir_label_any())
		foreach(lc, ancestors)
	{
		mtp_pagedir_label_read(lfirst_oid(lc), directory);
		if (directory->choice != MTP_PAGEDIR_LEARNT)
			break;
	}

	/*
	 * Partitions have an ancestor's names, but not always its numbers.  If a name is missing
	 * another session is changing the ancestor, and will invalidate rel.
	 */
	for (int i = 0; i < directory->ncolumns; i++)
	{
		directory->columns[i] = mtp_pagedir_translate(directory->origin, relid,
													  directory->columns[i]);
		if (directory->columns[i] == InvalidAttrNumber)
			memset(directory, 0, sizeof(*directory));
	}
	directory->root = ancestors == NIL ? relid : llast_oid(ancestors);
	list_free(ancestors);
}

/*
 * An invalidation that arrives while this reads catalogs frees the new cache entry; then the
 * answer is not kept.
 */
void
mtp_pagedir_choice(Relation rel, MtpPagedirChoice *directory)
{
	TableCache *cache = cache_of(rel);

	if (cache != NULL)
	{
		*directory = cache->directory;
		return;
	}
	if (mtp_table_is_ours(rel))
	{
		if (rel->rd_amcache == NULL)
			rel->rd_amcache = MemoryContextAllocZero(CacheMemoryContext, sizeof(TableCache));
		cache = rel->rd_amcache;
	}
	look_up_choice(rel, directory);
	if (cache != NULL && rel->rd_amcache == cache)
	{
		cache->directory = *directory;
		cache->known = true;
	}
}

bool
mtp_pagedir_off(Relation rel)
{
	MtpPagedirChoice directory;

	mtp_pagedir_choice(rel, &directory);
	return directory.choice == MTP_PAGEDIR_OFF;
}

/* ---------- the learnt column ---------- */

bool
mtp_pagedir_can_use(TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att;

	if (attnum < 1 || attnum > desc->natts)
		return false;
	att = TupleDescAttr(desc, attnum - 1);
	return !att->attisdropped && mtp_pagedir_has_order(att->atttypid);
}

/*
 * Returns the learnt column by the table's own number, if it can be used: what is learnt is a hint
 * (invariant D8).  The relation's cache entry keeps it until anything is learnt of any table, which
 * is rare; a plan asks for each partition.  A change of the root or of column numbers frees the
 * entry, even while this reads the catalog.
 */
static AttrNumber
noted_learnt_of(Relation rel, Oid root)
{
	TableCache *cache = cache_of(rel);
	uint64		changes = mtp_pagedir_learn_changes();
	AttrNumber	learnt;

	if (changes == 0)
		return InvalidAttrNumber;
	if (cache != NULL && cache->changes == changes)
		learnt = cache->learnt;
	else
	{
		learnt = mtp_pagedir_translate(root, RelationGetRelid(rel), mtp_pagedir_learnt_of(root));
		if (cache != NULL && cache == cache_of(rel))
		{
			cache->changes = changes;
			cache->learnt = learnt;
		}
	}
	return mtp_pagedir_can_use(RelationGetDescr(rel), learnt) ? learnt : InvalidAttrNumber;
}

int
mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt)
{
	MtpPagedirChoice directory;
	int			n;

	mtp_pagedir_choice(rel, &directory);
	if (learnt != NULL)
		*learnt = directory.choice == MTP_PAGEDIR_LEARNT;
	if (directory.choice == MTP_PAGEDIR_LEARNT)
	{
		attnums[0] = noted_learnt_of(rel, directory.root);
		return AttributeNumberIsValid(attnums[0]) ? 1 : 0;
	}
	n = Min(directory.ncolumns, MTP_PAGEDIR_COLUMNS);
	memcpy(attnums, directory.columns, n * sizeof(AttrNumber));
	return n;
}

/*
 * Returns NULLs for relations that can have no directories, so that a query may call it for all
 * relations.
 */
Datum
mtp_table_show_directory(PG_FUNCTION_ARGS)
{
	static const char *const choices[] = {
		[MTP_PAGEDIR_LEARNT] = "learnt",
		[MTP_PAGEDIR_OFF] = "off",
		[MTP_PAGEDIR_FIXED] = "fixed",
	};
	Oid			relid = PG_GETARG_OID(0);
	MtpPagedirChoice directory;
	TupleDesc	desc;
	Datum		values[3] = {0};
	bool		nulls[3] = {true, true, true};
	Relation	rel;

	mtp_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	rel = try_relation_open(relid, AccessShareLock);
	if (rel != NULL && rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		(mtp_table_is_ours(rel) || rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE))
	{
		Datum		names[MTP_LABEL_COLUMNS];
		AttrNumber	learnt = InvalidAttrNumber;

		/* A partitioned table has no directories, but its partitions do. */
		mtp_pagedir_choice(rel, &directory);

		/* A user who may not read the learnt column is not told what others look for. */
		if (directory.choice == MTP_PAGEDIR_LEARNT)
			learnt = noted_learnt_of(rel, directory.root);
		if (AttributeNumberIsValid(learnt) &&
			(pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
			 pg_attribute_aclcheck(relid, learnt, GetUserId(), ACL_SELECT) == ACLCHECK_OK))
			directory.columns[directory.ncolumns++] = learnt;
		for (int i = 0; i < directory.ncolumns; i++)
			names[i] = NameGetDatum(&TupleDescAttr(RelationGetDescr(rel),
												   directory.columns[i] - 1)->attname);

		values[0] = CStringGetTextDatum(choices[directory.choice]);
		nulls[0] = false;
		nulls[1] = directory.ncolumns == 0;
		if (!nulls[1])
			values[1] = PointerGetDatum(construct_array(names, directory.ncolumns, NAMEOID,
														NAMEDATALEN, false, TYPALIGN_CHAR));
		values[2] = ObjectIdGetDatum(directory.origin);
		nulls[2] = !OidIsValid(directory.origin);
	}
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
