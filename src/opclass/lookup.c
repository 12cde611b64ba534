/*
 * lookup.c
 *	  Finds operator classes and families, compares them and lists their members.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

const MtpOpclassPair mtp_opclass_pairs[] = {
	{"mtpower_blink", BTREE_AM_OID},
	{"mtpower_hash", HASH_AM_OID},
	{"mtpower_zone", BTREE_AM_OID},
	{NULL, InvalidOid}
};

const MtpOpclassPair *
mtp_opclass_pair_by_name(const char *am_name)
{
	for (const MtpOpclassPair *pair = mtp_opclass_pairs; pair->am_name != NULL; pair++)
	{
		if (strcmp(pair->am_name, am_name) == 0)
			return pair;
	}
	return NULL;
}

bool
mtp_opclass_is_mirror(const MtpOpclassPair *pair, Oid ours, Oid original)
{
	Oid			our_family = get_opclass_family(ours);
	Oid			family = get_opclass_family(original);
	Oid			type = get_opclass_input_type(original);
	IndexAmRoutine *am = GetIndexAmRoutineByAmId(pair->core_am, false);

	if (get_opclass_input_type(ours) != type)
		return false;
	for (int strategy = 1; strategy <= am->amstrategies; strategy++)
	{
		if (get_opfamily_member(our_family, type, type, strategy) !=
			get_opfamily_member(family, type, type, strategy))
			return false;
	}

	return get_opfamily_proc(our_family, type, type, MTP_OPCLASS_MAIN_PROC) ==
		get_opfamily_proc(family, type, type, MTP_OPCLASS_MAIN_PROC);
}

/* A palloc'd copy of a row of pg_opclass or pg_opfamily, none of which has more than its struct. */
static void *
catalog_row(int cache, Oid oid, Size size, const char *kind)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));
	void	   *row;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %s %u", kind, oid);
	row = memcpy(palloc(size), GETSTRUCT(tuple), size);
	ReleaseSysCache(tuple);
	return row;
}

Form_pg_opclass
mtp_opclass_row(Oid opclass)
{
	return catalog_row(CLAOID, opclass, sizeof(FormData_pg_opclass), "class");
}

Form_pg_opfamily
mtp_opclass_family_row(Oid family)
{
	return catalog_row(OPFAMILYOID, family, sizeof(FormData_pg_opfamily), "family");
}

char *
mtp_opclass_name(Oid opclass)
{
	Form_pg_opclass c = mtp_opclass_row(opclass);

	return quote_qualified_identifier(get_namespace_name_or_temp(c->opcnamespace),
									  NameStr(c->opcname));
}

static OpFamilyMember *
make_member(bool is_func, Oid object, int number, Oid lefttype, Oid righttype)
{
	OpFamilyMember *member = palloc0(sizeof(OpFamilyMember));

	member->is_func = is_func;
	member->object = object;
	member->number = number;
	member->lefttype = lefttype;
	member->righttype = righttype;
	return member;
}

List *
mtp_opclass_family_members(Oid family, bool builtin_only)
{
	List	   *result = NIL;
	CatCList   *operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(family));
	CatCList   *functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));

	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple);

		if (!builtin_only || form->oid < FirstNormalObjectId)
			result = lappend(result, make_member(false, form->amopopr, form->amopstrategy,
												 form->amoplefttype, form->amoprighttype));
	}
	for (int i = 0; i < functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&functions->members[i]->tuple);

		if (!builtin_only || form->oid < FirstNormalObjectId)
			result = lappend(result, make_member(true, form->amproc, form->amprocnum,
												 form->amproclefttype, form->amprocrighttype));
	}
	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	return result;
}
