/*
 * check.c
 *	  Refuses index definitions that core would take, or refuse without saying what to do instead.
 *
 * An index on a column of an extension's type, made while mtpower's mirror of the type's default
 * operator class is missing, gets the default of a type that it can be coerced to: text_ops for
 * citext. No query on the column would ever use such an index, so it is refused.  Only the command
 * tells whether the operator class was chosen by name, which is allowed; so the command is what is
 * checked.  Indexes that core copies from others (partitions, LIKE, REINDEX) keep what was decided
 * for those.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parse_utilcmd.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "core/identity.h"

/* The access method of an index to be checked. */
typedef struct CheckContext
{
	const MtpOpclassPair *pair;
	Oid			am;				/* pair->am_name's */
	char	   *core_name;		/* pair->core_am's name */
} CheckContext;

/* False if the access method's name is not one of ours, or the extension isn't there. */
static bool
init_context(CheckContext *ctx, const char *am_name)
{
	if (am_name == NULL)
		return false;

	/* Our table access method, taken for an index's: core's error would be about its handler. */
	if (strcmp(am_name, MTP_TABLE_AM_NAME) == 0 && OidIsValid(get_table_am_oid(am_name, true)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("access method \"%s\" is not of type INDEX", am_name),
				 errhint("Use access method \"mtpower_blink\", or \"mtpower_hash\" for equality alone.")));
	ctx->pair = mtp_opclass_pair_by_name(am_name);
	if (ctx->pair == NULL)
		return false;
	ctx->am = get_am_oid(ctx->pair->am_name, true);
	if (!OidIsValid(ctx->am))
		return false;
	ctx->core_name = get_am_name(ctx->pair->core_am);
	return true;
}

/* A hash index is refused as core's is, in any version; but there is something to use instead. */
static void
check_unique(const CheckContext *ctx)
{
	IndexAmRoutine *am = GetIndexAmRoutineByAmId(ctx->am, false);

	if (am->amcanunique)
		return;
	if (ctx->pair->core_am == HASH_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support unique indexes", ctx->pair->am_name),
				 errhint("Use a PRIMARY KEY, a UNIQUE constraint or a unique btree index, or, for keys that are too long for those, a constraint EXCLUDE USING %s (... WITH =).",
						 ctx->pair->am_name)));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"%s\" does not support unique indexes", ctx->pair->am_name),
			 errdetail("This version of PostgreSQL knows only btree's unique indexes in constraints and foreign keys, and fails every ON CONFLICT on a table that has a unique index of another access method."),
			 errhint("Use a PRIMARY KEY, a UNIQUE constraint or a unique btree index.")));
}

static int
sync_hint(void)
{
	return errhint("Run \"SELECT * FROM %s.sync_opclasses()\" as a superuser.", MTP_SCHEMA_NAME);
}

static void
refuse_default(const CheckContext *ctx, Oid type, Oid original, Oid ours)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("data type %s has no default operator class for access method \"%s\"",
					format_type_be(type), ctx->pair->am_name),
			 OidIsValid(ours) ?
			 errdetail("Its default operator class for %s, %s, has no counterpart, and operator class %s would not serve the type's own operators.",
					   ctx->core_name, mtp_opclass_name(original), mtp_opclass_name(ours)) :
			 errdetail("Its default operator class for %s, %s, has no counterpart.",
					   ctx->core_name, mtp_opclass_name(original)),
			 sync_hint()));
}

/*
 * An operator class that was asked for by name.  If it is there, all is well; but if core would
 * have chosen it by itself, pg_dump leaves its name out, and the dump cannot be restored.
 */
static void
check_named(const CheckContext *ctx, List *name, Oid type)
{
	Oid			named = get_opclass_oid(ctx->am, name, true);
	Oid			original;
	Oid			ours;

	if (!OidIsValid(named))
	{
		List	   *elsewhere = list_make2(makeString(MTP_SCHEMA_NAME), llast(name));
		Oid			mirror = get_opclass_oid(ctx->am, elsewhere, true);

		/* If core's access method doesn't have it either, core's error says all there is to say. */
		original = get_opclass_oid(ctx->pair->core_am, name, true);
		if (!OidIsValid(original))
			return;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("operator class \"%s\" does not exist for access method \"%s\"",
						NameListToString(name), ctx->pair->am_name),
				 errdetail("Operator class %s of %s has no counterpart of this name.",
						   mtp_opclass_name(original), ctx->core_name),
				 OidIsValid(mirror) && mtp_opclass_is_mirror(ctx->pair, mirror, original) ?
				 errhint("Its counterpart is operator class %s.", mtp_opclass_name(mirror)) :
				 sync_hint()));
	}
	original = mtp_opclass_unmirrored_default(ctx->pair, ctx->am, type, &ours);
	if (OidIsValid(original) && ours == named)
		ereport(WARNING,
				(errmsg("pg_dump will not name operator class %s of this index",
						mtp_opclass_name(named)),
				 errdetail("It is what access method \"%s\" takes for type %s as long as operator class %s of %s has no counterpart.",
						   ctx->pair->am_name, format_type_be(type), mtp_opclass_name(original),
						   ctx->core_name),
				 sync_hint()));
}

/* Checks the key columns of a new index; the caller has locked the table. */
static void
check_keys(const CheckContext *ctx, Oid relid, IndexStmt *stmt, const char *query_string)
{
	ListCell   *lc;

	/* Expressions have to be parsed before they have a type. */
	stmt = transformIndexStmt(relid, copyObject(stmt), query_string);

	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst_node(IndexElem, lc);
		AttrNumber	attno = elem->expr != NULL ? 0 : get_attnum(relid, elem->name);
		Oid			type;
		Oid			original;
		Oid			ours;

		/* Of a column that is not there core will complain. */
		if (elem->expr == NULL && attno == InvalidAttrNumber)
			continue;
		type = elem->expr != NULL ? exprType(elem->expr) : get_atttype(relid, attno);
		if (elem->opclass != NIL)
		{
			check_named(ctx, elem->opclass, type);
			continue;
		}
		original = mtp_opclass_unmirrored_default(ctx->pair, ctx->am, type, &ours);
		if (OidIsValid(original))
			refuse_default(ctx, type, original, ours);
	}
}

/* CREATE INDEX, and EXCLUDE in CREATE TABLE. */
static void
check_index(IndexStmt *stmt, const char *query_string)
{
	CheckContext ctx;
	Oid			relid;

	/* A copy of an existing index comes with its expressions transformed. */
	if (stmt->transformed || !init_context(&ctx, stmt->accessMethod))
		return;
	if (stmt->unique)
		check_unique(&ctx);
	relid = RangeVarGetRelidExtended(stmt->relation,
									 stmt->concurrent ? ShareUpdateExclusiveLock : ShareLock,
									 0, RangeVarCallbackOwnsRelation, NULL);
	check_keys(&ctx, relid, stmt, query_string);
}

/* The exclusion constraint that a subcommand adds, or NULL. */
static const Constraint *
added_exclusion(const AlterTableCmd *cmd)
{
	if (cmd->subtype != AT_AddConstraint || !IsA(cmd->def, Constraint) ||
		castNode(Constraint, cmd->def)->contype != CONSTR_EXCLUSION)
		return NULL;
	return castNode(Constraint, cmd->def);
}

/*
 * ALTER TABLE ... ADD EXCLUDE, alone.  An ALTER TABLE that does other things as well may make the
 * columns, or change the types, that its exclusion constraints are about.  Then this is left to
 * core, which does not let an operator into a constraint that the operator class doesn't have.
 */
static void
check_alter_table(AlterTableStmt *stmt, const char *query_string)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		if (added_exclusion(lfirst_node(AlterTableCmd, lc)) == NULL)
			return;
	}
	foreach(lc, stmt->cmds)
	{
		const Constraint *constraint = added_exclusion(lfirst_node(AlterTableCmd, lc));
		CheckContext ctx;
		IndexStmt  *index;
		ListCell   *item;
		Oid			relid;

		if (!init_context(&ctx, constraint->access_method))
			continue;
		relid = AlterTableLookupRelation(stmt, AlterTableGetLockLevel(stmt->cmds));
		if (!OidIsValid(relid))
			continue;
		index = makeNode(IndexStmt);
		foreach(item, constraint->exclusions)
			index->indexParams = lappend(index->indexParams, linitial(lfirst_node(List, item)));
		check_keys(&ctx, relid, index, query_string);
	}
}

void
mtp_opclass_check_before(Node *stmt, const char *query_string)
{
	/* pg_upgrade restores what was, and core itself refuses what it does not know. */
	if (IsBinaryUpgrade || XactReadOnly || IsInParallelMode())
		return;
	if (IsA(stmt, IndexStmt))
		check_index(castNode(IndexStmt, stmt), query_string);
	else if (IsA(stmt, AlterTableStmt))
		check_alter_table(castNode(AlterTableStmt, stmt), query_string);
}

/* ALTER COLUMN ... TYPE defines the column's indexes anew, and takes defaults for the new type. */
bool
mtp_opclass_needs_check_after(Node *stmt)
{
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt) || IsBinaryUpgrade)
		return false;
	foreach(lc, castNode(AlterTableStmt, stmt)->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_AlterColumnType)
			return true;
	}
	return false;
}

/* The name of an index's access method, or NULL if there is no such relation. */
static char *
index_am_name(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	result = get_am_name(((Form_pg_class) GETSTRUCT(tuple))->relam);
	ReleaseSysCache(tuple);
	return result;
}

void
mtp_opclass_check_after(List *relations)
{
	ListCell   *lc;

	foreach(lc, relations)
	{
		Oid			index = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
		CheckContext ctx;
		oidvector  *opclasses;
		bool		isnull;

		/* Most relations aren't indexes, and what was created may be gone again. */
		if (!HeapTupleIsValid(tuple))
			continue;
		opclasses = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
																  Anum_pg_index_indclass,
																  &isnull));
		if (init_context(&ctx, index_am_name(index)))
			for (int i = 0; i < ((Form_pg_index) GETSTRUCT(tuple))->indnkeyatts; i++)
			{
				Oid			type = get_atttype(index, i + 1);
				Oid			ours;
				Oid			original = mtp_opclass_unmirrored_default(ctx.pair, ctx.am, type,
																	  &ours);

				if (OidIsValid(original) && ours == opclasses->values[i])
					refuse_default(&ctx, type, original, ours);
			}
		ReleaseSysCache(tuple);
	}
}
