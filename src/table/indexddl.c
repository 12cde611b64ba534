/*
 * indexddl.c
 *	  Writes the commands that move an index between core's access method and mtpower's.
 *
 * An index cannot change its access method in place. mtpower.index_ddl() spells out what a careful
 * administrator would type: build the new index beside the old one, drop the old one, give its
 * name to the new.  It executes nothing, since CREATE INDEX CONCURRENTLY must be a transaction of
 * its own.
 *
 * The function's declaration pins search_path.  So all names come out qualified, and the commands
 * mean the same under every search_path.
 */
#include "core/core.h"

#include "access/amapi.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/transam.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/pg_index.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "opclass/opclass.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mtp_table_index_ddl);

/*
 * Access methods that can replace each other.  A tree answers all that mtpower_hash does.  Core's
 * hash cannot replace an index of several columns.
 */
static const struct
{
	const char *from;
	const char *to;
}			replacements[] =

{
	{"btree", "mtpower_blink"},
	{"mtpower_blink", "btree"},
	{"hash", "mtpower_hash"},
	{"mtpower_hash", "hash"},
	{"mtpower_hash", "btree"},
	{"mtpower_hash", "mtpower_blink"},
};

/* The index whose commands are written */
typedef struct IndexDdl
{
	Relation	rel;			/* locked until the end of the transaction */
	Form_pg_index form;
	Oid			to_am;
	char	   *name;			/* quoted, without schema */
	char	   *qualified;		/* quoted, with schema */
	char	   *table;
	char	   *new_name;
	char	   *new_qualified;
} IndexDdl;

static bool
is_ours(const char *am_name)
{
	return strcmp(am_name, "mtpower_blink") == 0 || strcmp(am_name, "mtpower_hash") == 0;
}

static void
check_access_methods(Relation rel, Oid to_am)
{
	char	   *from = get_am_name(rel->rd_rel->relam);
	char	   *to = get_am_name(to_am);
	bool		can_replace = false;

	if (rel->rd_rel->relam == to_am)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" already uses access method \"%s\"",
						RelationGetRelationName(rel), to)));
	for (int i = 0; i < lengthof(replacements) && !can_replace; i++)
		can_replace = strcmp(from, replacements[i].from) == 0 &&
			strcmp(to, replacements[i].to) == 0;
	if (!can_replace)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" of access method \"%s\" cannot be replaced by one of access method \"%s\"",
						RelationGetRelationName(rel), from, to),
				 errdetail("\"btree\" and \"mtpower_blink\" can replace each other and \"mtpower_hash\"; \"hash\" and \"mtpower_hash\" can replace each other.")));
	if (rel->rd_index->indnkeyatts > 1 && !GetIndexAmRoutineByAmId(to_am, false)->amcanmulticol)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support multicolumn indexes", to),
				 errdetail("Index \"%s\" has %d columns.",
						   RelationGetRelationName(rel), rel->rd_index->indnkeyatts),
				 errhint("Use \"btree\" or \"mtpower_blink\" in its place.")));
}

/* Refuses indexes that CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY can't replace. */
static void
check_replaceable(Relation rel)
{
	const char *name = RelationGetRelationName(rel);

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is an index of a partitioned table", name),
				 errhint("Create the new index with ON ONLY, create one on each partition and attach it, then drop \"%s\".",
						 name)));
	if (rel->rd_rel->relkind != RELKIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index", name)));
	if (rel->rd_id < FirstNormalObjectId || IsSystemRelation(rel) ||
		IsCatalogNamespace(rel->rd_rel->relnamespace))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", name)));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replace indexes of other sessions' temporary tables")));
	if (rel->rd_rel->relispartition)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is attached to an index of a partitioned table", name),
				 errhint("Replace the index of the partitioned table as a whole.")));
	if (OidIsValid(get_index_constraint(rel->rd_id)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" belongs to a constraint", name),
				 is_ours(get_am_name(rel->rd_rel->relam)) ?
				 errhint("Drop the constraint, and add it again with the other access method.") :
				 errhint("PRIMARY KEY, UNIQUE and EXCLUDE constraints keep core's access method; all other indexes of the table can change.")));
	if (rel->rd_index->indisunique)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" is unique", name),
				 errhint("Unique indexes keep core's access method; all other indexes of the table can change.")));
	if (!rel->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", name),
				 errhint("Drop it, or make it valid with REINDEX.")));
}

/*
 * Checks that the definition means the same under the new access method.  Core writes an operator
 * class by its name, and leaves out a type's default.  The class that the target access method
 * takes for that must have the same name and type.
 */
static void
check_operator_class(Relation rel, int col, Oid to_am)
{
	Oid			type = get_atttype(RelationGetRelid(rel), col);
	Oid			opclass = get_index_column_opclass(RelationGetRelid(rel), col);
	Form_pg_opclass original = mtp_opclass_row(opclass);
	Form_pg_opclass counterpart;
	Oid			taken;

	if (opclass == GetDefaultOpClass(type, rel->rd_rel->relam))
		taken = GetDefaultOpClass(type, to_am);
	else
		taken = get_opclass_oid(to_am,
								list_make2(makeString(get_namespace_name(original->opcnamespace)),
										   makeString(NameStr(original->opcname))), true);
	counterpart = OidIsValid(taken) ? mtp_opclass_row(taken) : NULL;
	if (counterpart == NULL || counterpart->opcintype != original->opcintype ||
		strcmp(NameStr(counterpart->opcname), NameStr(original->opcname)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("operator class \"%s\" for type %s has no counterpart in access method \"%s\"",
						NameStr(original->opcname), format_type_be(original->opcintype),
						get_am_name(to_am)),
				 is_ours(get_am_name(to_am)) ?
				 errhint("Call mtpower.sync_opclasses() to mirror operator classes of extensions and of your own.") : 0));
}

static bool
is_hash(Oid am)
{
	char	   *name = get_am_name(am);

	return strcmp(name, "hash") == 0 || strcmp(name, "mtpower_hash") == 0;
}

/*
 * Access methods share one storage parameter, "fillfactor": in trees how full a build makes
 * leaves, in hash indexes how full buckets are when the index grows.
 */
static void
check_storage_parameters(Relation rel, Oid to_am)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel)));
	Datum		options;
	bool		isnull;
	ListCell   *lc;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for relation %u", RelationGetRelid(rel));
	options = SysCacheGetAttr(RELOID, tup, Anum_pg_class_reloptions, &isnull);
	foreach(lc, isnull ? NIL : untransformRelOptions(options))
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "fillfactor") != 0 ||
			is_hash(rel->rd_rel->relam) != is_hash(to_am))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("storage parameter \"%s\" of index \"%s\" cannot be taken over by access method \"%s\"",
							def->defname, RelationGetRelationName(rel), get_am_name(to_am)),
					 errhint("Remove it with ALTER INDEX ... RESET first, which leaves the index as it is.")));
	}
	ReleaseSysCache(tup);
}

/* Returns core's definition of the index with the new name and the new access method. */
static char *
create_command(const IndexDdl *ddl)
{
	char	   *definition = pg_get_indexdef_string(RelationGetRelid(ddl->rel));
	char	   *head = psprintf("CREATE INDEX %s ON %s USING %s ", ddl->name, ddl->table,
								quote_identifier(get_am_name(ddl->rel->rd_rel->relam)));

	if (strncmp(definition, head, strlen(head)) != 0)
		elog(ERROR, "unexpected index definition: %s", definition);
	return psprintf("CREATE INDEX CONCURRENTLY %s ON %s USING %s %s;", ddl->new_name, ddl->table,
					quote_identifier(get_am_name(ddl->to_am)), definition + strlen(head));
}

static int
statistics_target(const IndexDdl *ddl, int col)
{
	HeapTuple	tup = SearchSysCache2(ATTNUM, ObjectIdGetDatum(ddl->rel->rd_id),
									  Int16GetDatum(col + 1));
	Datum		target;
	bool		isnull;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u",
			 col + 1, ddl->rel->rd_id);
	target = SysCacheGetAttr(ATTNUM, tup, Anum_pg_attribute_attstattarget, &isnull);
	ReleaseSysCache(tup);
	return isnull ? -1 : MtpDatumGetStatTarget(target);
}

/* Returns the commands that give the new index the old one's properties beside its definition. */
static List *
property_commands(const IndexDdl *ddl)
{
	List	   *cmds = NIL;
	char	   *comment = GetComment(ddl->rel->rd_id, RelationRelationId, 0);
	bool		has_expressions = false;
	ListCell   *lc;

	for (int col = 0; col < ddl->form->indnkeyatts; col++)
	{
		int			target;

		if (ddl->form->indkey.values[col] != 0)
			continue;
		has_expressions = true;
		target = statistics_target(ddl, col);
		if (target >= 0)
			cmds = lappend(cmds, psprintf("ALTER INDEX %s ALTER COLUMN %d SET STATISTICS %d;",
										  ddl->new_qualified, col + 1, target));
	}

	foreach(lc, getAutoExtensionsOfObject(RelationRelationId, ddl->rel->rd_id))
		cmds = lappend(cmds, psprintf("ALTER INDEX %s DEPENDS ON EXTENSION %s;", ddl->new_qualified,
									  quote_identifier(get_extension_name(lfirst_oid(lc)))));
	if (comment != NULL)
		cmds = lappend(cmds, psprintf("COMMENT ON INDEX %s IS %s;",
									  ddl->new_qualified, quote_literal_cstr(comment)));

	/* Statistics of an expression belong to the index and go with the old one. */
	if (has_expressions)
		cmds = lappend(cmds, psprintf("ANALYZE %s;", ddl->table));
	return cmds;
}

/* Locks the index, checks it, and makes up the names. */
static void
index_ddl_begin(IndexDdl *ddl, Oid relid, const char *to_am)
{
	char	   *schema;
	char	   *new_name;

	ddl->to_am = get_index_am_oid(to_am, false);
	ddl->rel = try_relation_open(relid, AccessShareLock);
	if (ddl->rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	check_replaceable(ddl->rel);
	check_access_methods(ddl->rel, ddl->to_am);
	for (int col = 1; col <= ddl->rel->rd_index->indnkeyatts; col++)
		check_operator_class(ddl->rel, col, ddl->to_am);
	check_storage_parameters(ddl->rel, ddl->to_am);
	ddl->form = ddl->rel->rd_index;

	schema = get_namespace_name_or_temp(ddl->rel->rd_rel->relnamespace);
	new_name = ChooseRelationName(RelationGetRelationName(ddl->rel), NULL, "new",
								  ddl->rel->rd_rel->relnamespace, false);
	ddl->name = pstrdup(quote_identifier(RelationGetRelationName(ddl->rel)));
	ddl->new_name = pstrdup(quote_identifier(new_name));
	ddl->qualified = quote_qualified_identifier(schema, RelationGetRelationName(ddl->rel));
	ddl->new_qualified = quote_qualified_identifier(schema, new_name);
	ddl->table = quote_qualified_identifier(schema, get_rel_name(ddl->form->indrelid));
}

Datum
mtp_table_index_ddl(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	IndexDdl	ddl;
	List	   *cmds;
	ListCell   *lc;

	index_ddl_begin(&ddl, PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	cmds = list_make1(create_command(&ddl));
	cmds = list_concat(cmds, property_commands(&ddl));
	cmds = lappend(cmds, psprintf("DROP INDEX CONCURRENTLY %s;", ddl.qualified));
	cmds = lappend(cmds, psprintf("ALTER INDEX %s RENAME TO %s;", ddl.new_qualified, ddl.name));
	if (ddl.form->indisclustered)
		cmds = lappend(cmds, psprintf("ALTER TABLE %s CLUSTER ON %s;", ddl.table, ddl.name));
	foreach(lc, cmds)
	{
		Datum		value = CStringGetTextDatum(lfirst(lc));
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}

	relation_close(ddl.rel, NoLock);
	return (Datum) 0;
}
