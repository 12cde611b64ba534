/*
 * label.c
 *	  The label provider: the owner's choice as security labels, 'directory 1', 'directory 2',
 *	  ... on columns and 'no directory' on tables.
 *
 * Core keeps the labels: it checks who may set them, dumps them, and drops them with their column
 * or table.  This file checks their text, reads, replaces and removes them, and invalidates the
 * relations that they apply to, since core sends no invalidation for labels.
 *
 * A label may stand alone: a restore sets them one by one, and so does SECURITY LABEL by hand.
 * Nothing here needs the extension's SQL objects, so labels can be restored before CREATE
 * EXTENSION or without it.
 */
#include "core/core.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_seclabel.h"
#include "commands/extension.h"
#include "commands/seclabel.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "pagedir/choice.h"

#define LABEL_PROVIDER	"mtpower"
#define LABEL_OFF		"no directory"
#define LABEL_COLUMN	"directory "

/* In columns[] while labels are read: several columns have this number. */
#define TWICE			(-1)

/* A label of this provider */
typedef struct Label
{
	Oid			relid;
	int			subid;			/* the column, or 0: the relation itself */
	char	   *text;
} Label;

static object_access_hook_type previous_access_hook = NULL;

/*
 * What this session knows of the database's labels, of all providers and on all objects, until a
 * relation changes
 */
static enum
{
	ANY_UNKNOWN,
	ANY_NONE,
	ANY_SOME
}			any_label = ANY_UNKNOWN;
static uint64 nchanges = 0;

/* ---------- reading ---------- */

/* Returns which column of the directory a label names, from 1, or 0 if it names none. */
static int
number_of(const char *label)
{
	size_t		len = strlen(LABEL_COLUMN);
	int			number;

	if (strncmp(label, LABEL_COLUMN, len) != 0)
		return 0;
	number = label[len] - '0';
	return number >= 1 && number <= MTP_LABEL_COLUMNS && label[len + 1] == '\0' ? number : 0;
}

/* Returns the labels of a relation and its columns, or of all relations if relid is invalid. */
static List *
read_labels(Oid relid)
{
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	bool		one = OidIsValid(relid);
	List	   *labels = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tup;

	/* The catalog's only index begins with the objects' OIDs. */
	ScanKeyInit(&keys[0], Anum_pg_seclabel_objoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(catalog, SecLabelObjectIndexId, one, NULL, one ? 2 : 1,
							  one ? keys : &keys[1]);
	while (HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		FormData_pg_seclabel *row = (FormData_pg_seclabel *) GETSTRUCT(tup);
		bool		isnull;
		Datum		provider = heap_getattr(tup, Anum_pg_seclabel_provider,
											RelationGetDescr(catalog), &isnull);
		Label	   *label;

		if (isnull || strcmp(TextDatumGetCString(provider), LABEL_PROVIDER) != 0)
			continue;
		label = palloc(sizeof(Label));
		label->relid = row->objoid;
		label->subid = row->objsubid;
		label->text = TextDatumGetCString(heap_getattr(tup, Anum_pg_seclabel_label,
													   RelationGetDescr(catalog), &isnull));
		labels = lappend(labels, label);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return labels;
}

static void
relation_changed(Datum arg, Oid relid)
{
	any_label = ANY_UNKNOWN;
	nchanges++;
}

/*
 * Setting a label invalidates its relation, so the answer is good until then.  An answer that such
 * an invalidation overtakes is not kept.
 */
bool
mtp_pagedir_label_any(void)
{
	static bool registered = false;
	uint64		before = nchanges;
	Relation	catalog;
	SysScanDesc scan;
	bool		any;

	if (any_label != ANY_UNKNOWN)
		return any_label == ANY_SOME;
	if (!registered)
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	registered = true;
	catalog = table_open(SecLabelRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	any = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	if (nchanges == before)
		any_label = any ? ANY_SOME : ANY_NONE;
	return any;
}

/*
 * Columns count up to the first number that none or several of them have.  If that is the first
 * number, the labels say nothing.
 */
void
mtp_pagedir_label_read(Oid relid, MtpPagedirChoice *own)
{
	ListCell   *lc;

	memset(own, 0, sizeof(*own));
	foreach(lc, read_labels(relid))
	{
		const Label *label = lfirst(lc);
		int			number = number_of(label->text);

		if (label->subid == 0 && strcmp(label->text, LABEL_OFF) == 0)
			own->choice = MTP_PAGEDIR_OFF;
		else if (label->subid > 0 && number > 0)
			own->columns[number - 1] = own->columns[number - 1] == 0 ? label->subid : TWICE;
	}
	if (own->choice == MTP_PAGEDIR_OFF)
		memset(own->columns, 0, sizeof(own->columns));
	while (own->ncolumns < MTP_LABEL_COLUMNS && own->columns[own->ncolumns] > 0)
		own->ncolumns++;
	if (own->ncolumns > 0)
		own->choice = MTP_PAGEDIR_FIXED;
	if (own->choice != MTP_PAGEDIR_LEARNT)
		own->origin = relid;
}

List *
mtp_pagedir_label_relations(void)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, read_labels(InvalidOid))
		relids = lappend_oid(relids, ((Label *) lfirst(lc))->relid);
	list_sort(relids, list_oid_cmp);
	list_deduplicate_oid(relids);
	return relids;
}

/* ---------- setting ---------- */

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
							LABEL_PROVIDER)));
		tup = SearchSysCache1(RELOID, ObjectIdGetDatum(object->objectId));
		if (!HeapTupleIsValid(tup))
			elog(ERROR, "cache lookup failed for relation %u", object->objectId);
		mtp_pagedir_label_check_relation((Form_pg_class) GETSTRUCT(tup));
		ReleaseSysCache(tup);
		if (object->objectSubId < 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("page directories on system columns are not supported")));
		if (object->objectSubId == 0 ? strcmp(label, LABEL_OFF) != 0 :
			number_of(label) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_NAME),
					 errmsg("invalid security label: \"%s\"", label),
					 errdetail("Security label provider \"%s\" knows \"" LABEL_COLUMN "1\" to \"" LABEL_COLUMN "%d\" for columns, and \"" LABEL_OFF "\" for tables.",
							   LABEL_PROVIDER, MTP_LABEL_COLUMNS),
					 errhint("Use mtpower.set_directory().")));
	}
	if (object->classId == RelationRelationId)
		invalidate_tree(object->objectId);
}

/* Writes each label once: changes are not visible before the end of the command. */
void
mtp_pagedir_label_write(Oid relid, const MtpPagedirChoice *own)
{
	List	   *subids = NIL;
	ListCell   *lc;

	foreach(lc, read_labels(relid))
		subids = lappend_int(subids, ((Label *) lfirst(lc))->subid);
	if (own->choice == MTP_PAGEDIR_OFF)
		subids = list_append_unique_int(subids, 0);
	for (int i = 0; i < own->ncolumns; i++)
		subids = list_append_unique_int(subids, own->columns[i]);

	foreach(lc, subids)
	{
		int			subid = lfirst_int(lc);
		const char *label = subid == 0 && own->choice == MTP_PAGEDIR_OFF ? LABEL_OFF : NULL;
		ObjectAddress object;

		for (int i = 0; i < own->ncolumns; i++)
			if (own->columns[i] == subid)
				label = psprintf("%s%d", LABEL_COLUMN, i + 1);
		ObjectAddressSubSet(object, RelationRelationId, relid, subid);
		SetSecurityLabel(&object, LABEL_PROVIDER, label);
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
	register_label_provider(LABEL_PROVIDER, check_label);
	previous_access_hook = object_access_hook;
	object_access_hook = remove_with_extension;
}
