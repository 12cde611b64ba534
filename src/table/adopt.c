/*
 * adopt.c
 *	  Hands tables over from heap to mtpower and back, without touching their files.
 *
 * The two access methods agree on every byte of a table, so only the catalogs change:
 * pg_class.relam, and the table's dependency on its access method (none on heap, which is pinned).
 * A plan, a scan or a trigger queue that began under one access method must not go on under the
 * other.  AccessExclusiveLock keeps out other sessions, and CheckTableNotInUse() this one.
 */
#include "core/core.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "buffer/buffer.h"
#include "pagedir/choice.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mtp_table_adopt);
PG_FUNCTION_INFO_V1(mtp_table_release);
PG_FUNCTION_INFO_V1(mtp_table_release_all);

/* A direction in which a table is handed over */
typedef struct Handover
{
	const char *verb;			/* for messages */
	Oid			ours;			/* the access method mtpower */
	Oid			from;
	Oid			to;
} Handover;

/*
 * Prepares an entry point: checks that the library is preloaded and that the transaction may
 * change catalogs, and locks the access method.
 *
 * The lock keeps out DROP EXTENSION, which would not see the dependency that the caller is about
 * to record.  It comes before the tables' locks, as in a DROP.
 */
static Handover
handover_begin(const char *verb, bool to_mtpower)
{
	Handover	h = {.verb = verb};
	char	   *command = psprintf("mtpower.%s()", verb);

	mtp_require_preload();
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);
	PreventCommandDuringRecovery(command);

	h.ours = get_table_am_oid(MTP_TABLE_AM_NAME, false);
	LockDatabaseObject(AccessMethodRelationId, h.ours, 0, AccessShareLock);
	if (get_table_am_oid(MTP_TABLE_AM_NAME, true) != h.ours)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("access method \"%s\" does not exist", MTP_TABLE_AM_NAME)));

	h.from = to_mtpower ? HEAP_TABLE_AM_OID : h.ours;
	h.to = to_mtpower ? h.ours : HEAP_TABLE_AM_OID;
	return h;
}

/*
 * Raises an ERROR unless the current user may hand over this relation now.  Refuses relations
 * without rows of their own, and those that are not a user's.
 */
static void
check_target(const Handover *h, Form_pg_class rel)
{
	const char *name = NameStr(rel->relname);

	if (!MtpOwnsRelation(rel->oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->relkind), name);

	/*
	 * initdb made relations with low OIDs, and dumps leave out the catalogs' schemas.  Neither
	 * comes back from a dump as it was, whatever allow_system_table_mods says.  A relation that
	 * has our access method all the same may be released.
	 */
	if (rel->relam != h->ours &&
		(rel->oid < FirstNormalObjectId || IsCatalogNamespace(rel->relnamespace)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", name)));
	if (rel->relkind == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot %s partitioned table \"%s\"", h->verb, name),
				 errdetail("A partitioned table has no rows of its own."),
				 errhint("Call mtpower.%s() for its partitions.", h->verb)));
	if (rel->relkind != RELKIND_RELATION && rel->relkind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot %s relation \"%s\"", h->verb, name),
				 errdetail_relkind_not_supported(rel->relkind)));
	if (rel->relpersistence == RELPERSISTENCE_TEMP && isOtherTempNamespace(rel->relnamespace))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot %s temporary tables of other sessions", h->verb)));
	if (rel->relam == h->to)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" already uses access method \"%s\"",
						name, get_am_name(h->to))));
	if (rel->relam != h->from)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot %s table \"%s\" of access method \"%s\"",
						h->verb, name, get_am_name(rel->relam)),
				 errdetail("Only tables of access method \"%s\" can change to \"%s\" without being rewritten.",
						   get_am_name(h->from), get_am_name(h->to)),
				 errhint("Use ALTER TABLE ... SET ACCESS METHOD.")));
}

/* Changes the catalogs for a table that the caller has locked and checked. */
static void
change_access_method(const Handover *h, Oid relid)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tup = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	ObjectAddress table;
	ObjectAddress am;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for relation %u", relid);

	((Form_pg_class) GETSTRUCT(tup))->relam = h->to;
	CatalogTupleUpdate(pg_class, &tup->t_self, tup);

	/* A dependency on heap is not recorded, because heap is pinned. */
	deleteDependencyRecordsForClass(RelationRelationId, relid,
									AccessMethodRelationId, DEPENDENCY_NORMAL);
	ObjectAddressSet(table, RelationRelationId, relid);
	ObjectAddressSet(am, AccessMethodRelationId, h->to);
	recordDependencyOn(&table, &am, DEPENDENCY_NORMAL);

	InvokeObjectPostAlterHook(RelationRelationId, relid, 0);

	heap_freetuple(tup);
	table_close(pg_class, RowExclusiveLock);

	/* Later commands of this transaction must see the change, the next handover among them. */
	CommandCounterIncrement();
}

/*
 * Hands one table over and keeps its lock to the end of the transaction.
 *
 * It checks before it requests the lock, so that no user can block tables of others, and again
 * under the lock: the table may have changed hands or been dropped meanwhile.
 */
static void
handover(const Handover *h, Oid relid)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Relation	rel = NULL;

	if (HeapTupleIsValid(tup))
	{
		check_target(h, (Form_pg_class) GETSTRUCT(tup));
		ReleaseSysCache(tup);
		rel = try_relation_open(relid, AccessExclusiveLock);
	}
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	check_target(h, rel->rd_rel);
	CheckTableNotInUse(rel, h->verb);

	/* Heap does not tell the buffer of its changes. */
	mtp_buffer_purge_file(MtpRelLocator(rel));
	relation_close(rel, NoLock);

	change_access_method(h, relid);
}

Datum
mtp_table_adopt(PG_FUNCTION_ARGS)
{
	Handover	h = handover_begin("adopt", true);
	Relation	rel;

	handover(&h, PG_GETARG_OID(0));
	rel = table_open(PG_GETARG_OID(0), NoLock);
	mtp_table_announce(rel);
	mtp_table_hint(rel);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

Datum
mtp_table_release(PG_FUNCTION_ARGS)
{
	Handover	h = handover_begin("release", false);

	handover(&h, PG_GETARG_OID(0));
	PG_RETURN_VOID();
}

/* Returns the OIDs of all tables and materialized views of an access method. */
static List *
relations_of_am(Oid am)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	List	   *relids = NIL;
	HeapTuple	tup;

	while (HeapTupleIsValid(tup = systable_getnext(scan)))
	{
		Form_pg_class rel = (Form_pg_class) GETSTRUCT(tup);

		if (rel->relam == am && RELKIND_HAS_TABLE_AM(rel->relkind))
			relids = lappend_oid(relids, rel->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return relids;
}

/*
 * True if release_all() may release this table; else (labels), if it may remove the labels of a
 * relation that is partitioned or not an mtpower table any more.  Reports why it leaves what is
 * still there.
 */
static bool
may_change(const Handover *h, Oid relid, bool labels)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class rel;
	const char *reason = NULL;
	bool		result;

	if (!HeapTupleIsValid(tup))
		return false;
	rel = (Form_pg_class) GETSTRUCT(tup);
	result = (rel->relam != h->ours) == labels;
	if (result && !MtpOwnsRelation(relid, GetUserId()))
		reason = "You are not its owner.";
	else if (result && !labels && rel->relpersistence == RELPERSISTENCE_TEMP &&
			 isOtherTempNamespace(rel->relnamespace))
		reason = "It is a temporary table of another session.";

	if (reason != NULL)
		ereport(NOTICE,
				(errmsg(labels ? "directory columns of table \"%s\" are not removed"
						: "table \"%s\" is not released",
						quote_qualified_identifier(get_namespace_name(rel->relnamespace),
												   NameStr(rel->relname))),
				 errdetail("%s", reason)));
	ReleaseSysCache(tup);
	return result && reason == NULL;
}

/*
 * Releases every table that the current user may release, in one transaction, and returns them.
 * Removes their directory columns, and those of partitioned tables and of tables that were
 * released before.
 */
Datum
mtp_table_release_all(PG_FUNCTION_ARGS)
{
	const MtpPagedirChoice nothing = {.choice = MTP_PAGEDIR_LEARNT};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Handover	h = handover_begin("release", false);
	List	   *labelled = mtp_pagedir_label_relations();
	List	   *relids = list_concat_unique_oid(relations_of_am(h.ours), labelled);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	/* The order of OIDs keeps two sessions that release all at once from a deadlock. */
	list_sort(relids, list_oid_cmp);
	foreach(lc, relids)
	{
		Oid			relid = lfirst_oid(lc);
		Datum		value = ObjectIdGetDatum(relid);
		bool		isnull = false;
		bool		released = false;

		/* A session that drops or releases the table meanwhile has done the work. */
		if (may_change(&h, relid, false))
		{
			LockRelationOid(relid, AccessExclusiveLock);
			released = may_change(&h, relid, false);
		}
		if (released)
		{
			handover(&h, relid);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
		}
		else if (!list_member_oid(labelled, relid))
			continue;

		/*
		 * With its labels a dump of the table could not be restored without mtpower.  Ask again
		 * under the lock: rights may change while this waits.
		 */
		if (!may_change(&h, relid, true))
			continue;
		LockRelationOid(relid, ShareUpdateExclusiveLock);
		if (may_change(&h, relid, true))
			mtp_pagedir_label_write(relid, &nothing);
	}

	return (Datum) 0;
}
