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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "opclass/opclass.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mtp_table_index_ddl);

/*
 * Access methods that can replace each other.  A tree answers all that mtpower_hash and
 * mtpower_zone do.  Core's hash cannot replace an index of several columns.
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
	{"mtpower_zone", "btree"},
	{"mtpower_zone", "mtpower_blink"},
};

static bool
is_ours(Oid am)
{
	return mtp_opclass_pair_by_name(get_am_name(am)) != NULL;
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
				 errdetail("\"btree\" and \"mtpower_blink\" can replace each other and \"mtpower_hash\"; \"hash\" and \"mtpower_hash\" can replace each other; \"btree\" and \"mtpower_blink\" can replace \"mtpower_zone\".")));
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
				 is_ours(rel->rd_rel->relam) ?
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
				 is_ours(to_am) ?
				 errhint("Call mtpower.sync_opclasses() to mirror operator classes of extensions and of your own.") : 0));
}

static bool
is_hash(Oid am)
{
	char	   *name = get_am_name(am);

	return strcmp(name, "hash") == 0 || strcmp(name, "mtpower_hash") == 0;
}

/*
 * Access methods share "fillfactor" (in trees how full a build makes leaves, in hash indexes how
 * full buckets are when the index grows), and trees "deduplicate_items".
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

		if (is_hash(rel->rd_rel->relam) != is_hash(to_am) ||
			(strcmp(def->defname, "fillfactor") != 0 &&
			 (is_hash(to_am) || strcmp(def->defname, "deduplicate_items") != 0)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("storage parameter \"%s\" of index \"%s\" cannot be taken over by access method \"%s\"",
							def->defname, RelationGetRelationName(rel), get_am_name(to_am)),
					 errhint("Remove it with ALTER INDEX ... RESET first, which leaves the index as it is.")));
	}
	ReleaseSysCache(tup);
}

/*
 * Returns the commands that give the new index, whose qualified name this gets, the old one's
 * properties beside its definition.
 */
static List *
property_commands(Relation rel, const char *new_name, const char *table)
{
	List	   *cmds = NIL;
	char	   *comment = GetComment(rel->rd_id, RelationRelationId, 0);
	bool		has_expressions = false;
	ListCell   *lc;

	for (int col = 1; col <= rel->rd_index->indnkeyatts; col++)
	{
		HeapTuple	tup;
		Datum		target;
		bool		isnull;

		if (rel->rd_index->indkey.values[col - 1] != 0)
			continue;
		has_expressions = true;
		tup = SearchSysCache2(ATTNUM, ObjectIdGetDatum(rel->rd_id), Int16GetDatum(col));
		if (!HeapTupleIsValid(tup))
			elog(ERROR, "cache lookup failed for attribute %d of relation %u", col, rel->rd_id);
		target = SysCacheGetAttr(ATTNUM, tup, Anum_pg_attribute_attstattarget, &isnull);
		ReleaseSysCache(tup);
		if (!isnull && MtpDatumGetStatTarget(target) >= 0)
			cmds = lappend(cmds, psprintf("ALTER INDEX %s ALTER COLUMN %d SET STATISTICS %d;",
										  new_name, col, MtpDatumGetStatTarget(target)));
	}

	foreach(lc, getAutoExtensionsOfObject(RelationRelationId, rel->rd_id))
		cmds = lappend(cmds, psprintf("ALTER INDEX %s DEPENDS ON EXTENSION %s;", new_name,
									  quote_identifier(get_extension_name(lfirst_oid(lc)))));
	if (comment != NULL)
		cmds = lappend(cmds, psprintf("COMMENT ON INDEX %s IS %s;",
									  new_name, quote_literal_cstr(comment)));

	/* Statistics of an expression belong to the index and go with the old one. */
	if (has_expressions)
		cmds = lappend(cmds, psprintf("ANALYZE %s;", table));
	return cmds;
}

Datum
mtp_table_index_ddl(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = PG_GETARG_OID(0);
	Oid			to_am = get_index_am_oid(NameStr(*PG_GETARG_NAME(1)), false);
	Relation	rel = try_relation_open(relid, AccessShareLock);
	char	   *schema;
	char	   *name;
	char	   *qualified;
	char	   *new_name;
	char	   *new_qualified;
	char	   *table;
	char	   *definition;
	char	   *head;
	List	   *cmds;
	ListCell   *lc;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	check_replaceable(rel);
	check_access_methods(rel, to_am);
	for (int col = 1; col <= rel->rd_index->indnkeyatts; col++)
		check_operator_class(rel, col, to_am);
	check_storage_parameters(rel, to_am);

	/* Both names at once: the index may be renamed while this reads catalogs. */
	schema = get_namespace_name_or_temp(rel->rd_rel->relnamespace);
	name = pstrdup(quote_identifier(RelationGetRelationName(rel)));
	qualified = quote_qualified_identifier(schema, RelationGetRelationName(rel));
	new_name = ChooseRelationName(RelationGetRelationName(rel), NULL, "new",
								  rel->rd_rel->relnamespace, false);
	new_qualified = quote_qualified_identifier(schema, new_name);
	table = quote_qualified_identifier(schema, get_rel_name(rel->rd_index->indrelid));

	/* Core's definition of the index gets the new name and the new access method. */
	definition = pg_get_indexdef_string(relid);
	head = psprintf("CREATE INDEX %s ON %s USING %s ", name, table,
					quote_identifier(get_am_name(rel->rd_rel->relam)));
	if (strncmp(definition, head, strlen(head)) != 0)
		elog(ERROR, "unexpected index definition: %s", definition);
	cmds = list_make1(psprintf("CREATE INDEX CONCURRENTLY %s ON %s USING %s %s;",
							   quote_identifier(new_name), table,
							   quote_identifier(get_am_name(to_am)), definition + strlen(head)));
	cmds = list_concat(cmds, property_commands(rel, new_qualified, table));
	cmds = lappend(cmds, psprintf("DROP INDEX CONCURRENTLY %s;", qualified));
	cmds = lappend(cmds, psprintf("ALTER INDEX %s RENAME TO %s;", new_qualified, name));
	if (rel->rd_index->indisclustered)
		cmds = lappend(cmds, psprintf("ALTER TABLE %s CLUSTER ON %s;", table, name));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(lc, cmds)
	{
		Datum		value = CStringGetTextDatum(lfirst(lc));
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}

	/* The index stays locked to the end of the transaction. */
	relation_close(rel, NoLock);
	return (Datum) 0;
}
