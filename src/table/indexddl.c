/*
 * indexddl.c
 *	  The commands that move an index between core's access method and mtpower's.
 *
 * An index can't change its access method in place.  mtpower.index_ddl() spells out what a careful
 * administrator would type: build the new index beside the old one, drop the old one, give its name
 * to the new.  Nothing is executed here, since CREATE INDEX CONCURRENTLY must run on its own.
 *
 * The function's declaration pins search_path, so all names come out qualified and the commands mean
 * the same under every search_path.
 */
#include "mtpower.h"

#include "access/amapi.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/transam.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/tablespace.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "table/table.h"

PG_FUNCTION_INFO_V1(mtp_table_index_ddl);

/*
 * Access methods that can take an index over: core's and ours for each other, and a tree for our hash, as it
 * answers whatever that one does; core's hash can't where there are several columns.
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

/* The index whose commands are being written. */
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
can_replace(const char *from, const char *to)
{
	for (int i = 0; i < lengthof(replacements); i++)
	{
		if (strcmp(from, replacements[i].from) == 0 && strcmp(to, replacements[i].to) == 0)
			return true;
	}
	return false;
}

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

	if (rel->rd_rel->relam == to_am)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" already uses access method \"%s\"",
						RelationGetRelationName(rel), to)));
	if (!can_replace(from, to))
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
 * The operator class of the target access method that stands for opclass: same name, same input
 * type.  Of several the one in the original's schema wins, then pg_catalog's, then any.
 */
static Oid
counterpart_opclass(const IndexDdl *ddl, Oid opclass)
{
	HeapTuple	tup = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass orig;
	CatCList   *list;
	Oid			best = InvalidOid;
	int			best_rank = 0;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for opclass %u", opclass);
	orig = (Form_pg_opclass) GETSTRUCT(tup);

	list = SearchSysCacheList1(CLAAMNAMENSP, ObjectIdGetDatum(ddl->to_am));
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_opclass cand = (Form_pg_opclass) GETSTRUCT(&list->members[i]->tuple);
		int			rank;

		if (strcmp(NameStr(cand->opcname), NameStr(orig->opcname)) != 0 ||
			cand->opcintype != orig->opcintype)
			continue;
		rank = cand->opcnamespace == orig->opcnamespace ? 3 :
			cand->opcnamespace == PG_CATALOG_NAMESPACE ? 2 : 1;
		if (rank > best_rank)
		{
			best = cand->oid;
			best_rank = rank;
		}
	}
	ReleaseSysCacheList(list);

	if (!OidIsValid(best))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("operator class \"%s\" for type %s has no counterpart in access method \"%s\"",
						NameStr(orig->opcname), format_type_be(orig->opcintype),
						get_am_name(ddl->to_am)),
				 is_ours(get_am_name(ddl->to_am)) ?
				 errhint("Call mtpower.sync_opclasses() to mirror operator classes of extensions and of your own.") : 0));
	ReleaseSysCache(tup);
	return best;
}

static void
append_opclass_name(StringInfo buf, Oid opclass)
{
	HeapTuple	tup = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass opc;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for opclass %u", opclass);
	opc = (Form_pg_opclass) GETSTRUCT(tup);
	appendStringInfo(buf, " %s",
					 OpclassIsVisible(opclass) ? quote_identifier(NameStr(opc->opcname)) :
					 quote_qualified_identifier(get_namespace_name(opc->opcnamespace),
												NameStr(opc->opcname)));
	ReleaseSysCache(tup);
}

/* Column or expression number col (from 0), as pg_get_indexdef() writes it. */
static char *
column_text(const IndexDdl *ddl, int col)
{
	Datum		def = DirectFunctionCall3(pg_get_indexdef_ext,
										   ObjectIdGetDatum(ddl->rel->rd_id),
										   Int32GetDatum(col + 1),
										   BoolGetDatum(false));

	return TextDatumGetCString(def);
}

/*
 * Type and collation of what key column col is made from: a column of the table, or an expression.
 * Expressions must be asked for in their order; *exprs is what is left of them.
 */
static void
column_source(const IndexDdl *ddl, int col, List **exprs, Oid *type, Oid *collation)
{
	AttrNumber	attnum = ddl->form->indkey.values[col];
	int32		typmod;

	if (attnum != 0)
	{
		get_atttypetypmodcoll(ddl->form->indrelid, attnum, type, &typmod, collation);
		return;
	}

	*type = exprType(linitial(*exprs));
	*collation = exprCollation(linitial(*exprs));
	*exprs = list_delete_first(*exprs);
}

/* Appends "column COLLATE c opclass DESC NULLS LAST, ..." for all key columns. */
static void
append_key_columns(StringInfo buf, const IndexDdl *ddl)
{
	List	   *exprs = RelationGetIndexExpressions(ddl->rel);

	for (int col = 0; col < ddl->form->indnkeyatts; col++)
	{
		Oid			collation = ddl->rel->rd_indcollation[col];
		int16		option = ddl->rel->rd_indoption[col];
		Oid			opclass = counterpart_opclass(ddl, get_index_column_opclass(ddl->rel->rd_id, col + 1));
		Oid			source_type;
		Oid			source_collation;

		if (get_attoptions(ddl->rel->rd_id, col + 1) != (Datum) 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" has operator class parameters",
							RelationGetRelationName(ddl->rel))));

		column_source(ddl, col, &exprs, &source_type, &source_collation);
		appendStringInfo(buf, "%s%s", col > 0 ? ", " : "", column_text(ddl, col));
		if (OidIsValid(collation) && collation != source_collation)
			appendStringInfo(buf, " COLLATE %s", generate_collation_name(collation));
		if (opclass != GetDefaultOpClass(source_type, ddl->to_am))
			append_opclass_name(buf, opclass);

		if (option & INDOPTION_DESC)
			appendStringInfoString(buf, option & INDOPTION_NULLS_FIRST ?
								   " DESC" : " DESC NULLS LAST");
		else if (option & INDOPTION_NULLS_FIRST)
			appendStringInfoString(buf, " NULLS FIRST");
	}
}

static bool
is_hash(Oid am)
{
	char	   *name = get_am_name(am);

	return strcmp(name, "hash") == 0 || strcmp(name, "mtpower_hash") == 0;
}

/*
 * The value of storage parameter "fillfactor", the only one that access methods share; NULL if there is none, or if
 * the other one means something else by it.  For trees it is how full a build makes leaves, for hash indexes how full
 * buckets are when the index grows.
 */
static char *
fillfactor_option(const IndexDdl *ddl)
{
	HeapTuple	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(ddl->rel->rd_id));
	char	   *result = NULL;
	Datum		options;
	bool		isnull;
	ListCell   *lc;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for relation %u", ddl->rel->rd_id);
	options = SysCacheGetAttr(RELOID, tup, Anum_pg_class_reloptions, &isnull);
	if (!isnull && is_hash(ddl->rel->rd_rel->relam) == is_hash(ddl->to_am))
		foreach(lc, untransformRelOptions(options))
		{
			DefElem    *def = lfirst_node(DefElem, lc);

			if (strcmp(def->defname, "fillfactor") == 0)
				result = defGetString(def);
		}
	ReleaseSysCache(tup);
	return result;
}

/* The predicate of a partial index as SQL, or NULL. */
static char *
predicate_text(const IndexDdl *ddl)
{
	bool		isnull;
	Datum		pred = SysCacheGetAttr(INDEXRELID, ddl->rel->rd_indextuple,
									   Anum_pg_index_indpred, &isnull);

	if (isnull)
		return NULL;
	return TextDatumGetCString(DirectFunctionCall2(pg_get_expr, pred,
												   ObjectIdGetDatum(ddl->form->indrelid)));
}

static char *
create_command(const IndexDdl *ddl)
{
	StringInfoData buf;
	char	   *fillfactor = fillfactor_option(ddl);
	char	   *predicate = predicate_text(ddl);

	initStringInfo(&buf);
	appendStringInfo(&buf, "CREATE INDEX CONCURRENTLY %s ON %s USING %s (",
					 ddl->new_name, ddl->table,
					 quote_identifier(get_am_name(ddl->to_am)));
	append_key_columns(&buf, ddl);
	appendStringInfoChar(&buf, ')');

	for (int col = ddl->form->indnkeyatts; col < ddl->form->indnatts; col++)
		appendStringInfo(&buf, "%s%s",
						 col == ddl->form->indnkeyatts ? " INCLUDE (" : ", ",
						 column_text(ddl, col));
	if (ddl->form->indnatts > ddl->form->indnkeyatts)
		appendStringInfoChar(&buf, ')');

	if (fillfactor != NULL)
		appendStringInfo(&buf, " WITH (fillfactor = %s)", fillfactor);
	if (OidIsValid(ddl->rel->rd_rel->reltablespace))
		appendStringInfo(&buf, " TABLESPACE %s",
						 quote_identifier(get_tablespace_name(ddl->rel->rd_rel->reltablespace)));
	if (predicate != NULL)
		appendStringInfo(&buf, " WHERE %s", predicate);
	appendStringInfoChar(&buf, ';');
	return buf.data;
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

/* Commands that give the new index what hangs on the old one beside its definition. */
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
		cmds = lappend(cmds, psprintf("ALTER INDEX %s DEPENDS ON EXTENSION %s;",
									  ddl->new_qualified,
									  quote_identifier(get_extension_name(lfirst_oid(lc)))));
	if (comment != NULL)
		cmds = lappend(cmds, psprintf("COMMENT ON INDEX %s IS %s;",
									  ddl->new_qualified, quote_literal_cstr(comment)));

	/* Statistics of an expression belong to the index, and go with the old one. */
	if (has_expressions)
		cmds = lappend(cmds, psprintf("ANALYZE %s;", ddl->table));
	return cmds;
}

static List *
all_commands(const IndexDdl *ddl)
{
	List	   *cmds = list_make1(create_command(ddl));

	cmds = list_concat(cmds, property_commands(ddl));
	cmds = lappend(cmds, psprintf("DROP INDEX CONCURRENTLY %s;", ddl->qualified));
	cmds = lappend(cmds, psprintf("ALTER INDEX %s RENAME TO %s;",
								  ddl->new_qualified, ddl->name));
	if (ddl->form->indisclustered)
		cmds = lappend(cmds, psprintf("ALTER TABLE %s CLUSTER ON %s;",
									  ddl->table, ddl->name));
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
	ListCell   *lc;

	index_ddl_begin(&ddl, PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(lc, all_commands(&ddl))
	{
		Datum		value = CStringGetTextDatum(lfirst(lc));
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}

	relation_close(ddl.rel, NoLock);
	return (Datum) 0;
}
