/*
 * label.c
 *	  The label provider: the owner's choice as security labels, 'directory 1', 'directory 2',
 *	  ... on columns and 'no directory' on tables.
 *
 * Core keeps the labels: it checks who may set them, dumps them, and drops them with their column
 * or table.  This file checks their text, replaces and removes them, and invalidates the relations
 * that they apply to, since core sends no invalidation for labels.
 *
 * A label may stand alone: a restore sets them one by one, and so does SECURITY LABEL by hand.
 * Nothing here needs the extension's SQL objects, so labels can be restored before CREATE
 * EXTENSION or without it.
 */
#include "core/core.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "commands/extension.h"
#include "commands/seclabel.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "pagedir/choice.h"
#include "pagedir/label.h"

static object_access_hook_type previous_access_hook = NULL;

/* Returns the label that column subid (0: the table itself) must have, palloc'd, or NULL. */
static char *
wanted_label(const MtpPagedirChoice *own, int subid)
{
	if (subid == 0)
		return own->choice == MTP_PAGEDIR_OFF ? pstrdup(MTP_LABEL_OFF) : NULL;
	if (own->choice == MTP_PAGEDIR_FIXED)
	{
		for (int i = 0; i < own->ncolumns; i++)
		{
			if (own->columns[i] == subid)
				return psprintf("%s%d", MTP_LABEL_COLUMN, i + 1);
		}
	}
	return NULL;
}

/*
 * Invalidates a relation whose labels change, and all partitions below it, since its labels may
 * apply to them.
 *
 * Locks partitioned tables in between as ALTER TABLE ... ATTACH PARTITION does.  So no partition
 * can join them that neither sees this change nor is invalidated here.  The partitions themselves
 * need no lock.
 */
static void
invalidate_tree(Oid relid)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	ListCell   *lc;

	if (HeapTupleIsValid(tup))	/* the relation may be gone */
	{
		CacheInvalidateRelcacheByTuple(tup);
		ReleaseSysCache(tup);
	}
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, find_inheritance_children_extended(relid, false, NoLock, NULL, NULL))
	{
		Oid			child = lfirst_oid(lc);

		if (get_rel_relkind(child) == RELKIND_PARTITIONED_TABLE)
			LockRelationOid(child, ShareUpdateExclusiveLock);
		invalidate_tree(child);
	}
}

void
mtp_pagedir_label_check_relation(Form_pg_class rel)
{
	if (rel->relkind != RELKIND_RELATION && rel->relkind != RELKIND_MATVIEW &&
		rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" cannot have page directories", NameStr(rel->relname)),
				 errdetail_relkind_not_supported(rel->relkind)));
	if (rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary table \"%s\" cannot have page directories",
						NameStr(rel->relname)),
				 errdetail("Page directories are in shared memory, where there are no pages of temporary tables.")));
}

/*
 * Core calls this for each SECURITY LABEL FOR mtpower.  It has locked the object and checked that
 * the user owns it.  A label may be removed (NULL) from any object.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	HeapTuple	tup;

	if (label != NULL)
	{
		if (object->classId != RelationRelationId)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("security label provider \"%s\" labels only tables and their columns",
							MTP_LABEL_PROVIDER)));
		tup = SearchSysCache1(RELOID, ObjectIdGetDatum(object->objectId));
		if (!HeapTupleIsValid(tup))
			elog(ERROR, "cache lookup failed for relation %u", object->objectId);
		mtp_pagedir_label_check_relation((Form_pg_class) GETSTRUCT(tup));
		ReleaseSysCache(tup);
		if (object->objectSubId < 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("page directories on system columns are not supported")));
		if (object->objectSubId == 0 ? strcmp(label, MTP_LABEL_OFF) != 0 :
			mtp_pagedir_label_number(label) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_NAME),
					 errmsg("invalid security label: \"%s\"", label),
					 errdetail("Security label provider \"%s\" knows \"" MTP_LABEL_COLUMN "1\" to \"" MTP_LABEL_COLUMN "%d\" for columns, and \"" MTP_LABEL_OFF "\" for tables.",
							   MTP_LABEL_PROVIDER, MTP_LABEL_COLUMNS),
					 errhint("Use mtpower.set_directory().")));
	}
	if (object->classId == RelationRelationId)
		invalidate_tree(object->objectId);
}

/* Writes each label once: changes are not visible before the end of the command. */
void
mtp_pagedir_label_write(Oid relid, const MtpPagedirChoice *own)
{
	List	   *subids = mtp_pagedir_label_columns(relid);
	ListCell   *lc;

	if (own->choice == MTP_PAGEDIR_OFF)
		subids = list_append_unique_int(subids, 0);
	for (int i = 0; i < own->ncolumns; i++)
		subids = list_append_unique_int(subids, own->columns[i]);

	foreach(lc, subids)
	{
		ObjectAddress object;

		ObjectAddressSubSet(object, RelationRelationId, relid, lfirst_int(lc));
		SetSecurityLabel(&object, MTP_LABEL_PROVIDER, wanted_label(own, lfirst_int(lc)));
	}
	invalidate_tree(relid);
	CommandCounterIncrement();
}

/*
 * Removes all labels with the extension.  They belong to tables, which may be heap's by now, and
 * would outlive it; a dump could then be restored only where the library is.  Core calls this for
 * each object before it drops it, by whichever command.  Tables that go with the extension have
 * gone by then.
 */
static void
remove_with_extension(ObjectAccessType access, Oid class, Oid object, int sub_id, void *arg)
{
	const MtpPagedirChoice nothing = {.choice = MTP_PAGEDIR_LEARNT};
	char	   *name;
	ListCell   *lc;

	if (previous_access_hook != NULL)
		previous_access_hook(access, class, object, sub_id, arg);

	if (access != OAT_DROP || class != ExtensionRelationId)
		return;
	name = get_extension_name(object);
	if (name == NULL || strcmp(name, MTP_EXTENSION_NAME) != 0)
		return;
	foreach(lc, mtp_pagedir_label_relations())
	{
		LockRelationOid(lfirst_oid(lc), ShareUpdateExclusiveLock);
		mtp_pagedir_label_write(lfirst_oid(lc), &nothing);
	}
}

void
mtp_pagedir_label_init(void)
{
	register_label_provider(MTP_LABEL_PROVIDER, check_label);
	previous_access_hook = object_access_hook;
	object_access_hook = remove_with_extension;
}
