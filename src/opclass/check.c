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
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_utilcmd.h"
#include "tcop/utility.h"
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
	bool		hash = ctx->pair->core_am == HASH_AM_OID;

	if (GetIndexAmRoutineByAmId(ctx->am, false)->amcanunique)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"%s\" does not support unique indexes", ctx->pair->am_name),
			 hash ? 0 :
			 errdetail("This version of PostgreSQL knows only btree's unique indexes in constraints and foreign keys, and fails every ON CONFLICT on a table that has a unique index of another access method."),
			 hash ?
			 errhint("Use a PRIMARY KEY, a UNIQUE constraint or a unique btree index, or, for keys that are too long for those, a constraint EXCLUDE USING %s (... WITH =).",
					 ctx->pair->am_name) :
			 errhint("Use a PRIMARY KEY, a UNIQUE constraint or a unique btree index.")));
}

/*
 * The core access method's default operator class for a type (domains count as their base type), if
 * ours for that type is not its mirror, or there is none of ours.  InvalidOid otherwise, so also if
 * core has none.  *ours is set to our default for the type or to InvalidOid.
 */
static Oid
unmirrored_default(const CheckContext *ctx, Oid type, Oid *ours)
{
	Oid			original = GetDefaultOpClass(type, ctx->pair->core_am);

	*ours = GetDefaultOpClass(type, ctx->am);
	if (OidIsValid(original) && OidIsValid(*ours) &&
		mtp_opclass_is_mirror(ctx->pair, *ours, original))
		return InvalidOid;
	return original;
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
	original = unmirrored_default(ctx, type, &ours);
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
		original = unmirrored_default(ctx, type, &ours);
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

/*
 * ALTER TABLE ... ADD EXCLUDE, alone.  An ALTER TABLE that does other things as well may make the
 * columns, or change the types, that its exclusion constraints are about.  Then this is left to
 * core, which does not let an operator into a constraint that the operator class doesn't have.
 */
static void
check_alter_table(AlterTableStmt *stmt, const char *query_string)
{
	List	   *exclusions = NIL;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype != AT_AddConstraint || !IsA(cmd->def, Constraint) ||
			castNode(Constraint, cmd->def)->contype != CONSTR_EXCLUSION)
			return;
		exclusions = lappend(exclusions, cmd->def);
	}
	foreach(lc, exclusions)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);
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

/* ALTER COLUMN ... TYPE defines the column's indexes anew, and takes defaults for the new type. */
static bool
needs_check_after(Node *stmt)
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

/*
 * Checks the relations that an ALTER TABLE has created: an index of ours among them may have come
 * to an operator class that sync_opclasses() should have made a mirror of first.
 */
static void
check_created(List *relations)
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
		if (init_context(&ctx, get_am_name(mtp_opclass_row(opclasses->values[0])->opcmethod)))
			for (int i = 0; i < ((Form_pg_index) GETSTRUCT(tuple))->indnkeyatts; i++)
			{
				Oid			type = get_atttype(index, i + 1);
				Oid			ours;
				Oid			original = unmirrored_default(&ctx, type, &ours);

				if (OidIsValid(original) && ours == opclasses->values[i])
					refuse_default(&ctx, type, original, ours);
			}
		ReleaseSysCache(tuple);
	}
}

static ProcessUtility_hook_type previous_utility_hook = NULL;
static object_access_hook_type previous_access_hook = NULL;

/*
 * Relations that the current ALTER TABLE has created, if that has to be known.  The list lives in
 * the memory context that was current when the command began.
 */
typedef struct CreatedRelations
{
	MemoryContext context;
	List	   *oids;
} CreatedRelations;

static CreatedRelations *created_relations = NULL;

static void
note_created_relation(ObjectAccessType access, Oid class, Oid object, int sub_id, void *arg)
{
	if (previous_access_hook != NULL)
		previous_access_hook(access, class, object, sub_id, arg);

	if (created_relations != NULL && access == OAT_POST_CREATE &&
		class == RelationRelationId && sub_id == 0)
	{
		MemoryContext old = MemoryContextSwitchTo(created_relations->context);

		created_relations->oids = lappend_oid(created_relations->oids, object);
		MemoryContextSwitchTo(old);
	}
}

static void
run_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *query_env,
			DestReceiver *dest, QueryCompletion *qc)
{
	if (previous_utility_hook != NULL)
		previous_utility_hook(pstmt, query_string, read_only_tree, context, params, query_env,
							  dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params, query_env,
								dest, qc);
}

/*
 * Checks index definitions before core runs a command.  That may lock the table that the command is
 * about, in the mode in which core will lock it.  What ALTER COLUMN ... TYPE makes of indexes shows
 * only afterwards.
 */
static void
check_index_definitions(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	CreatedRelations *outer = created_relations;
	CreatedRelations created = {.context = CurrentMemoryContext,.oids = NIL};

	/* pg_upgrade restores what was, and core itself refuses what it does not know. */
	if (!IsBinaryUpgrade && !XactReadOnly && !IsInParallelMode())
	{
		if (IsA(stmt, IndexStmt))
			check_index(castNode(IndexStmt, stmt), query_string);
		else if (IsA(stmt, AlterTableStmt))
			check_alter_table(castNode(AlterTableStmt, stmt), query_string);
	}
	if (!needs_check_after(stmt))
	{
		run_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
		return;
	}

	PG_TRY();
	{
		created_relations = &created;
		run_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		created_relations = outer;
	}
	PG_END_TRY();
	check_created(created.oids);
}

void
mtp_opclass_init(void)
{
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = check_index_definitions;
	previous_access_hook = object_access_hook;
	object_access_hook = note_created_relation;
}
