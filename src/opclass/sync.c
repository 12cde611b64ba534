/*
 * sync.c
 *	  mtpower.sync_opclasses(): gives every operator class of core's access methods a mirror in
 *	  ours.
 *
 * Nothing is ever taken away from an operator class of ours and none is dropped: indexes may rest
 * on it.  (A built-in function may be replaced by the one that core has put in its place.)  What
 * cannot be mirrored is reported.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(mtp_sync_opclasses);

/* What happened to an operator class or family: values of the result's column "action". */
#define ACTION_CREATED		"created"
#define ACTION_EXTENDED		"family extended"
#define ACTION_RENEWED		"functions renewed"
#define ACTION_DROPPED		"empty family dropped"
#define ACTION_DIFFERS		"skipped: differs from the original"

typedef struct SyncContext
{
	const char *am_name;
	Oid			am;
	bool		builtin_only;	/* CREATE EXTENSION: other extensions' classes must not become
								 * members */
	List	   *originals;		/* pg_opclass rows of the core access method */
	List	   *mirrors;		/* pg_opclass rows of ours */
	ReturnSetInfo *result;
} SyncContext;

static void
report(SyncContext *ctx, Oid nsp, const char *name, const char *action)
{
	Datum		values[3];
	bool		nulls[3] = {false, false, false};
	NameData	method;

	namestrcpy(&method, ctx->am_name);
	values[0] = CStringGetTextDatum(quote_qualified_identifier(get_namespace_name_or_temp(nsp),
															   name));
	values[1] = NameGetDatum(&method);
	values[2] = CStringGetTextDatum(action);
	tuplestore_putvalues(ctx->result->setResult, ctx->result->setDesc, values, nulls);
}

/* Of structs that begin with an Oid. */
static int
compare_oids(const ListCell *a, const ListCell *b)
{
	Oid			left = *(Oid *) lfirst(a);
	Oid			right = *(Oid *) lfirst(b);

	return left < right ? -1 : left > right;
}

/* Copies of an access method's rows of pg_opclass or pg_opfamily, by OID. */
static List *
rows_of_am(int cache, Oid am, Size size)
{
	List	   *result = NIL;
	CatCList   *rows = SearchSysCacheList1(cache, ObjectIdGetDatum(am));

	for (int i = 0; i < rows->n_members; i++)
		result = lappend(result, memcpy(palloc(size), GETSTRUCT(&rows->members[i]->tuple), size));
	ReleaseCatCacheList(rows);

	list_sort(result, compare_oids);
	return result;
}

static bool
is_builtin(Oid object)
{
	return object < FirstNormalObjectId;
}

/*
 * Where the mirror of an object goes: beside the original, except that pg_dump would not see an
 * object in a schema of initdb's that is no member of an extension.
 */
static Oid
mirror_schema(Oid original, Oid nsp)
{
	if (is_builtin(original) || !is_builtin(nsp) || nsp == PG_PUBLIC_NAMESPACE)
		return nsp;
	return get_namespace_oid(MTP_SCHEMA_NAME, false);
}

/*
 * True if an object of ours lies where the original's mirror belongs, and has its name.  Another
 * one may be somebody's own.
 */
static bool
is_in_place(Oid nsp, const NameData *name, Oid original, Oid original_nsp,
			const NameData *original_name)
{
	return nsp == mirror_schema(original, original_nsp) &&
		strcmp(NameStr(*name), NameStr(*original_name)) == 0;
}

/* The member that stands for the same thing (kind, number and types) as "wanted", or NULL. */
static OpFamilyMember *
find_member(List *members, const OpFamilyMember *wanted)
{
	ListCell   *lc;

	foreach(lc, members)
	{
		OpFamilyMember *member = lfirst(lc);

		if (member->is_func == wanted->is_func && member->number == wanted->number &&
			member->lefttype == wanted->lefttype && member->righttype == wanted->righttype)
			return member;
	}
	return NULL;
}

/*
 * Ours for an original: of the same name where the mirror belongs, or else, for a default operator
 * class, our default for the same type: somebody may have moved or renamed one of the two, or have
 * written ours by hand.  NULL if there is none.
 */
static Form_pg_opclass
find_mirror(SyncContext *ctx, Form_pg_opclass original)
{
	Form_pg_opclass same_default = NULL;
	ListCell   *lc;

	foreach(lc, ctx->mirrors)
	{
		Form_pg_opclass mirror = lfirst(lc);

		if (is_in_place(mirror->opcnamespace, &mirror->opcname,
						original->oid, original->opcnamespace, &original->opcname))
			return mirror;
		if (original->opcdefault && mirror->opcdefault &&
			mirror->opcintype == original->opcintype)
			same_default = mirror;
	}
	return same_default;
}

/* What belongs to a family's original, and must be known to mirror it. */
typedef struct FamilyWork
{
	List	   *classes;		/* the original's operator classes */
	List	   *members;		/* the original's members, OpFamilyMember */
	Oid			mirror;			/* our family, or InvalidOid */
	List	   *have;			/* its members, OpFamilyMember */
	List	   *foreign_types;	/* types (OIDs) that ours treats in another way: hands off */
} FamilyWork;

static Oid
find_family(Oid am, Oid nsp, const char *name)
{
	return GetSysCacheOid3(OPFAMILYAMNAMENSP, Anum_pg_opfamily_oid, ObjectIdGetDatum(am),
						   CStringGetDatum(name), ObjectIdGetDatum(nsp));
}

/*
 * Gives a new object its place: new built-in ones (after pg_upgrade) become members of the
 * extension, since they lie in pg_catalog; all others belong to the original's owner.  While the
 * extension is being created, core does this.
 */
static void
settle_new_object(SyncContext *ctx, ObjectType type, Oid original, Oid nsp, const char *name,
				  Oid owner)
{
	if (ctx->builtin_only)
		return;
	if (is_builtin(original))
		mtp_opclass_make_member(type, ctx->am_name, nsp, name);
	else if (owner != GetUserId())
		mtp_opclass_set_owner(type, ctx->am_name, nsp, name, owner);
}

/*
 * What mirrors an extension's object goes with that extension, as the original does, and is no
 * reason for DROP EXTENSION to ask for CASCADE.  A dump does not keep this, so it is done anew for
 * what is there.
 */
static void
tie_to_extension(Oid catalog, Oid mirror, Oid original)
{
	Oid			extension = getExtensionOfObject(catalog, original);
	ObjectAddress self;
	ObjectAddress on;

	if (!OidIsValid(extension) || OidIsValid(getExtensionOfObject(catalog, mirror)) ||
		list_member_oid(getAutoExtensionsOfObject(catalog, mirror), extension))
		return;
	ObjectAddressSet(self, catalog, mirror);
	ObjectAddressSet(on, ExtensionRelationId, extension);
	recordDependencyOn(&self, &on, DEPENDENCY_AUTO_EXTENSION);
}

static void
tie_mirror(Form_pg_opclass mirror, Form_pg_opclass original)
{
	if (is_in_place(mirror->opcnamespace, &mirror->opcname,
					original->oid, original->opcnamespace, &original->opcname))
		tie_to_extension(OperatorClassRelationId, mirror->oid, original->oid);
}

/*
 * Creates the mirror of an operator class, with the members for its own type that aren't there yet.
 */
static void
create_class(SyncContext *ctx, FamilyWork *work, Form_pg_opclass original)
{
	Oid			nsp = mirror_schema(original->oid, original->opcnamespace);
	const char *name = NameStr(original->opcname);
	List	   *members = NIL;
	ListCell   *lc;

	foreach(lc, work->members)
	{
		OpFamilyMember *member = lfirst(lc);

		if (member->lefttype == original->opcintype && member->righttype == original->opcintype &&
			find_member(work->have, member) == NULL)
			members = lappend(members, member);
	}
	mtp_opclass_create_class(ctx->am_name, nsp, name, original->opcintype, original->opcdefault,
							 work->mirror, members);
	settle_new_object(ctx, OBJECT_OPCLASS, original->oid, nsp, name, original->opcowner);
	work->have = list_concat(work->have, members);
	ctx->mirrors = rows_of_am(CLAAMNAMENSP, ctx->am, sizeof(FormData_pg_opclass));
	tie_mirror(find_mirror(ctx, original), original);
	report(ctx, nsp, name, ACTION_CREATED);
}

/* True if ours is the original's mirror or can be completed to be it. */
static bool
is_compatible(FamilyWork *work, Form_pg_opclass mirror, Form_pg_opclass original)
{
	ListCell   *lc;

	if (mirror->opcintype != original->opcintype || mirror->opcfamily != work->mirror ||
		(original->opcdefault && !mirror->opcdefault))
		return false;
	foreach(lc, work->members)
	{
		OpFamilyMember *member = lfirst(lc);
		OpFamilyMember *ours;

		if (member->lefttype != original->opcintype || member->righttype != original->opcintype)
			continue;
		ours = find_member(work->have, member);
		if (ours != NULL && ours->object != member->object)
			return false;
	}
	return true;
}

/*
 * Takes over functions that a release gave core's built-in classes in place of others, where a
 * class of ours has come from an older release by pg_upgrade (hashdate in place of hashint4, since
 * PostgreSQL 18).  Indexes of core's came with it, so the new function does as the old one does.
 * Functions of initdb's have no dependencies in the catalogs.
 */
static void
renew_functions(SyncContext *ctx, FamilyWork *work)
{
	Relation	rel = table_open(AccessMethodProcedureRelationId, RowExclusiveLock);
	bool		renewed = false;
	ListCell   *lc;

	foreach(lc, work->members)
	{
		OpFamilyMember *member = lfirst(lc);
		OpFamilyMember *ours = member->is_func ? find_member(work->have, member) : NULL;
		HeapTuple	tuple;

		if (ours == NULL || ours->object == member->object ||
			!is_builtin(ours->object) || !is_builtin(member->object))
			continue;
		tuple = SearchSysCacheCopy4(AMPROCNUM, ObjectIdGetDatum(work->mirror),
									ObjectIdGetDatum(ours->lefttype),
									ObjectIdGetDatum(ours->righttype),
									Int16GetDatum(ours->number));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for function %d of operator family %u",
				 ours->number, work->mirror);
		((Form_pg_amproc) GETSTRUCT(tuple))->amproc = member->object;
		CatalogTupleUpdate(rel, &tuple->t_self, tuple);
		heap_freetuple(tuple);
		ours->object = member->object;
		renewed = true;
	}
	table_close(rel, RowExclusiveLock);
	if (renewed)
	{
		Form_pg_opfamily family = mtp_opclass_family_row(work->mirror);

		/* Open indexes have the old functions at hand. */
		CacheInvalidateRelcacheAll();
		CommandCounterIncrement();
		report(ctx, family->opfnamespace, NameStr(family->opfname), ACTION_RENEWED);
	}
}

/*
 * Adds the members that belong to no operator class, and those that came after the mirror was made.
 */
static void
add_loose_members(SyncContext *ctx, FamilyWork *work, bool is_new)
{
	List	   *missing = NIL;
	ListCell   *lc;

	foreach(lc, work->members)
	{
		OpFamilyMember *member = lfirst(lc);

		if (find_member(work->have, member) == NULL &&
			!list_member_oid(work->foreign_types, member->lefttype) &&
			!list_member_oid(work->foreign_types, member->righttype))
			missing = lappend(missing, member);
	}
	if (missing == NIL)
		return;
	mtp_opclass_add_members(ctx->am_name, work->mirror, missing);
	if (!is_new)
	{
		Form_pg_opfamily family = mtp_opclass_family_row(work->mirror);

		report(ctx, family->opfnamespace, NameStr(family->opfname), ACTION_EXTENDED);
	}
}

static void
sync_family(SyncContext *ctx, Form_pg_opfamily original)
{
	FamilyWork	work = {0};
	Oid			nsp;
	char	   *name = NameStr(original->opfname);
	Form_pg_opfamily family;
	bool		is_new;
	ListCell   *lc;

	/* Other sessions' temporary objects can't be reached. */
	if (isOtherTempNamespace(original->opfnamespace))
		return;
	foreach(lc, ctx->originals)
	{
		Form_pg_opclass opclass = lfirst(lc);

		if (opclass->opcfamily == original->oid && !isOtherTempNamespace(opclass->opcnamespace) &&
			(!ctx->builtin_only || is_builtin(opclass->oid)))
			work.classes = lappend(work.classes, opclass);
	}
	work.members = mtp_opclass_family_members(original->oid, ctx->builtin_only);
	if (work.classes == NIL && work.members == NIL)
		return;

	/*
	 * Our family is the one that a mirror of one of the operator classes is in, or else the one of
	 * the same name where the mirror belongs.
	 */
	nsp = mirror_schema(original->oid, original->opfnamespace);
	foreach(lc, work.classes)
	{
		Form_pg_opclass mirror = find_mirror(ctx, lfirst(lc));

		if (mirror != NULL)
		{
			work.mirror = mirror->opcfamily;
			break;
		}
	}
	if (!OidIsValid(work.mirror))
		work.mirror = find_family(ctx->am, nsp, name);
	is_new = !OidIsValid(work.mirror);
	if (is_new)
	{
		mtp_opclass_create_family(ctx->am_name, nsp, name);
		settle_new_object(ctx, OBJECT_OPFAMILY, original->oid, nsp, name, original->opfowner);
		work.mirror = find_family(ctx->am, nsp, name);
	}
	else
	{
		work.have = mtp_opclass_family_members(work.mirror, false);
		if (is_builtin(original->oid))
			renew_functions(ctx, &work);
	}

	foreach(lc, work.classes)
	{
		Form_pg_opclass opclass = lfirst(lc);
		Form_pg_opclass mirror = find_mirror(ctx, opclass);

		if (mirror == NULL)
			create_class(ctx, &work, opclass);
		else if (!is_compatible(&work, mirror, opclass))
		{
			work.foreign_types = lappend_oid(work.foreign_types, opclass->opcintype);
			report(ctx, mirror->opcnamespace, NameStr(mirror->opcname), ACTION_DIFFERS);
		}
		else
			tie_mirror(mirror, opclass);
	}
	family = mtp_opclass_family_row(work.mirror);
	if (is_in_place(family->opfnamespace, &family->opfname,
					original->oid, original->opfnamespace, &original->opfname))
		tie_to_extension(OperatorFamilyRelationId, work.mirror, original->oid);
	add_loose_members(ctx, &work, is_new);
}

/*
 * True if the core access method has a family that this one of ours is, or would become, the mirror
 * of.
 */
static bool
has_original(Form_pg_opfamily ours, List *originals)
{
	ListCell   *lc;

	foreach(lc, originals)
	{
		Form_pg_opfamily original = lfirst(lc);

		if (is_in_place(ours->opfnamespace, &ours->opfname,
						original->oid, original->opfnamespace, &original->opfname))
			return true;
	}
	return false;
}

/*
 * Drops what a mirror leaves behind when its type goes, for instance with DROP EXTENSION ...
 * CASCADE: the operator class and the members depend on the type, the family doesn't.
 */
static void
drop_empty_families(SyncContext *ctx, List *original_families)
{
	List	   *families = rows_of_am(OPFAMILYAMNAMENSP, ctx->am, sizeof(FormData_pg_opfamily));
	List	   *in_use = NIL;
	ListCell   *lc;

	foreach(lc, ctx->mirrors)
		in_use = lappend_oid(in_use, ((Form_pg_opclass) lfirst(lc))->opcfamily);

	foreach(lc, families)
	{
		Form_pg_opfamily family = lfirst(lc);

		if (list_member_oid(in_use, family->oid) || isOtherTempNamespace(family->opfnamespace) ||
			OidIsValid(getExtensionOfObject(OperatorFamilyRelationId, family->oid)) ||
			has_original(family, original_families) ||
			mtp_opclass_family_members(family->oid, false) != NIL)
			continue;
		mtp_opclass_drop_family(ctx->am_name, family->opfnamespace, NameStr(family->opfname));
		report(ctx, family->opfnamespace, NameStr(family->opfname), ACTION_DROPPED);
	}
}

static void
sync_pair(const MtpOpclassPair *pair, bool builtin_only, ReturnSetInfo *result)
{
	SyncContext ctx = {.am_name = pair->am_name,.builtin_only = builtin_only,.result = result};
	List	   *families;
	ListCell   *lc;

	ctx.am = get_am_oid(pair->am_name, true);
	if (!OidIsValid(ctx.am))
		return;

	/* One run at a time: held to the transaction's end, so that the next sees what this made. */
	LockDatabaseObject(AccessMethodRelationId, ctx.am, 0, ShareUpdateExclusiveLock);

	ctx.originals = rows_of_am(CLAAMNAMENSP, pair->core_am, sizeof(FormData_pg_opclass));
	ctx.mirrors = rows_of_am(CLAAMNAMENSP, ctx.am, sizeof(FormData_pg_opclass));
	families = rows_of_am(OPFAMILYAMNAMENSP, pair->core_am, sizeof(FormData_pg_opfamily));
	foreach(lc, families)
	{
		Form_pg_opfamily family = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (!builtin_only || is_builtin(family->oid))
			sync_family(&ctx, family);
	}
	if (!builtin_only)
		drop_empty_families(&ctx, families);
}

/*
 * mtpower.sync_opclasses() returns (opclass text, method name, action text): a row for each thing
 * done or not possible.  In mtpower's own install script it mirrors what is built in, and core
 * makes the new objects members of the extension.  Anywhere else it mirrors everything.
 */
Datum
mtp_sync_opclasses(PG_FUNCTION_ARGS)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to create operator classes")));
	if (creating_extension &&
		CurrentExtensionObject != get_extension_oid(MTP_EXTENSION_NAME, true))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("operator classes cannot be mirrored in the script of another extension"),
				 errdetail("The mirrors of all operator classes would become members of that extension.")));

	InitMaterializedSRF(fcinfo, 0);
	for (const MtpOpclassPair *pair = mtp_opclass_pairs; pair->am_name != NULL; pair++)
		sync_pair(pair, creating_extension, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
