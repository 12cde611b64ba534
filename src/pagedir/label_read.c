/*
 * label_read.c
 *	  Reads the labels that say which columns the owner of a table has chosen.
 */
#include "core/core.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"

#include "pagedir/choice.h"
#include "pagedir/label.h"

/* In columns[] while labels are read: several columns have this number. */
#define TWICE			(-1)

int
mtp_pagedir_label_number(const char *label)
{
	size_t		len = strlen(MTP_LABEL_COLUMN);
	char		digit;

	if (strncmp(label, MTP_LABEL_COLUMN, len) != 0)
		return 0;
	digit = label[len];
	if (digit < '1' || digit > '0' + MTP_LABEL_COLUMNS || label[len + 1] != '\0')
		return 0;
	return digit - '0';
}

/*
 * Begins a scan of the labels of one relation and its columns, or of all relations if relid is
 * invalid.  It yields the labels of all providers.
 */
static SysScanDesc
begin_label_scan(Relation catalog, Oid relid)
{
	bool		one = OidIsValid(relid);
	ScanKeyData keys[2];

	/* The catalog's only index begins with the objects' OIDs. */
	ScanKeyInit(&keys[0], Anum_pg_seclabel_objoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	return systable_beginscan(catalog, SecLabelObjectIndexId, one, NULL, one ? 2 : 1,
							  one ? keys : &keys[1]);
}

/*
 * Returns the next label of this provider, or false.  *label is palloc'd; callers that need none
 * pass NULL.
 */
static bool
next_label(SysScanDesc scan, Relation catalog, Oid *relid, int *subid, char **label)
{
	HeapTuple	tup;

	while (HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		FormData_pg_seclabel *row = (FormData_pg_seclabel *) GETSTRUCT(tup);
		bool		isnull;
		Datum		provider = heap_getattr(tup, Anum_pg_seclabel_provider,
											RelationGetDescr(catalog), &isnull);

		if (isnull || strcmp(TextDatumGetCString(provider), MTP_LABEL_PROVIDER) != 0)
			continue;
		*relid = row->objoid;
		*subid = row->objsubid;
		if (label != NULL)
			*label = TextDatumGetCString(heap_getattr(tup, Anum_pg_seclabel_label,
													  RelationGetDescr(catalog), &isnull));
		return true;
	}
	return false;
}

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
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	SysScanDesc scan = begin_label_scan(catalog, relid);
	Oid			object;
	int			subid;
	char	   *label;

	memset(own, 0, sizeof(*own));
	while (next_label(scan, catalog, &object, &subid, &label))
	{
		int			number = mtp_pagedir_label_number(label);

		if (subid == 0 && strcmp(label, MTP_LABEL_OFF) == 0)
			own->choice = MTP_PAGEDIR_OFF;
		else if (subid > 0 && number > 0)
			own->columns[number - 1] = own->columns[number - 1] == 0 ? subid : TWICE;
		pfree(label);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

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
mtp_pagedir_label_columns(Oid relid)
{
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	SysScanDesc scan = begin_label_scan(catalog, relid);
	List	   *subids = NIL;
	Oid			object;
	int			subid;

	while (next_label(scan, catalog, &object, &subid, NULL))
		subids = lappend_int(subids, subid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return subids;
}

List *
mtp_pagedir_label_relations(void)
{
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	SysScanDesc scan = begin_label_scan(catalog, InvalidOid);
	List	   *relids = NIL;
	Oid			relid;
	int			subid;

	while (next_label(scan, catalog, &relid, &subid, NULL))
		relids = lappend_oid(relids, relid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);

	list_sort(relids, list_oid_cmp);
	list_deduplicate_oid(relids);
	return relids;
}
