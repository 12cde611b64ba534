/*
 * choice.c
 *	  Tells which columns the owner of a table has chosen for its directories.
 *
 * The answer comes from the labels of the table, or of its nearest ancestor that has some.  It
 * lies in rd_amcache, which core leaves to the access method and frees at each invalidation of the
 * table.  label.c invalidates a table when its labels or those of an ancestor change.  Core does so
 * when a table becomes a partition or ceases to be one, and when columns are renamed or dropped.
 */
#include "core/core.h"

#include "access/htup_details.h"
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

#include "pagedir/learn.h"
#include "pagedir/choice.h"
#include "core/identity.h"
#include "core/inject.h"

PG_FUNCTION_INFO_V1(mtp_table_show_directory);

/* rd_amcache of an mtpower table.  Core frees it as one chunk. */
typedef struct TableCache
{
	bool		known;			/* true if directory is the answer */
	MtpPagedirChoice directory;
	MtpPagedirNote note;
} TableCache;

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
	MTP_INJECT("directory_read");
	ancestors = rel->rd_rel->relispartition ? get_partition_ancestors(relid) : NIL;
	if (directory->choice == MTP_PAGEDIR_LEARNT && mtp_pagedir_label_any())
		foreach(lc, ancestors)
	{
		mtp_pagedir_label_read(lfirst_oid(lc), directory);
		if (directory->choice != MTP_PAGEDIR_LEARNT)
		{
			/* Partitions have the same names, but not always the same numbers. */
			for (int i = 0; i < directory->ncolumns; i++)
			{
				directory->columns[i] = mtp_pagedir_translate(directory->origin, relid,
															  directory->columns[i]);
				if (directory->columns[i] == InvalidAttrNumber)
				{
					/* Another session is changing the ancestor, and will invalidate rel. */
					memset(directory, 0, sizeof(*directory));
					break;
				}
			}
			break;
		}
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
	TableCache *cache = rel->rd_amcache;

	if (!mtp_table_is_ours(rel))
	{
		look_up_choice(rel, directory);
		return;
	}
	if (cache == NULL || !cache->known)
	{
		if (cache == NULL)
			cache = rel->rd_amcache = MemoryContextAllocZero(CacheMemoryContext,
															 sizeof(TableCache));
		look_up_choice(rel, directory);
		if (rel->rd_amcache == cache)
		{
			cache->directory = *directory;
			cache->known = true;
		}
		return;
	}
	*directory = cache->directory;
}

MtpPagedirNote *
mtp_pagedir_note(Relation rel)
{
	TableCache *cache = mtp_table_is_ours(rel) ? rel->rd_amcache : NULL;

	return cache == NULL || !cache->known ? NULL : &cache->note;
}

static Datum
column_names(Relation rel, const MtpPagedirChoice *directory)
{
	Datum		names[MTP_LABEL_COLUMNS];

	for (int i = 0; i < directory->ncolumns; i++)
		names[i] = NameGetDatum(&TupleDescAttr(RelationGetDescr(rel),
											   directory->columns[i] - 1)->attname);
	return PointerGetDatum(construct_array(names, directory->ncolumns, NAMEOID, NAMEDATALEN,
										   false, TYPALIGN_CHAR));
}

/*
 * Adds the learnt column, if the owner has left the choice to scans.  A user who may not read the
 * column is not told what others look for.
 */
static void
add_learnt(Relation rel, MtpPagedirChoice *directory)
{
	AttrNumber	learnt;

	if (directory->choice != MTP_PAGEDIR_LEARNT)
		return;
	learnt = mtp_pagedir_learnt(rel);
	if (!AttributeNumberIsValid(learnt) ||
		(pg_class_aclcheck(RelationGetRelid(rel), GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		 pg_attribute_aclcheck(RelationGetRelid(rel), learnt, GetUserId(), ACL_SELECT) !=
		 ACLCHECK_OK))
		return;
	directory->columns[0] = learnt;
	directory->ncolumns = 1;
}

/*
 * mtpower.directory() returns NULLs for relations that can have no directories, so that a query
 * may call it for all relations.
 */
Datum
mtp_table_show_directory(PG_FUNCTION_ARGS)
{
	static const char *const choices[] = {
		[MTP_PAGEDIR_LEARNT] = "learnt",
		[MTP_PAGEDIR_OFF] = "off",
		[MTP_PAGEDIR_FIXED] = "fixed",
	};
	MtpPagedirChoice directory;
	TupleDesc	desc;
	Datum		values[3] = {0};
	bool		nulls[3] = {true, true, true};
	Relation	rel;

	mtp_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	rel = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	if (rel != NULL && rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		(mtp_table_is_ours(rel) || rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE))
	{
		/* A partitioned table has no directories, but its partitions do. */
		mtp_pagedir_choice(rel, &directory);
		add_learnt(rel, &directory);
		values[0] = CStringGetTextDatum(choices[directory.choice]);
		nulls[0] = false;
		if (directory.ncolumns > 0)
		{
			values[1] = column_names(rel, &directory);
			nulls[1] = false;
		}
		if (OidIsValid(directory.origin))
		{
			values[2] = ObjectIdGetDatum(directory.origin);
			nulls[2] = false;
		}
	}
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
