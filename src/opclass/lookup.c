/*
 * lookup.c
 *	  Finds operator classes, compares them and lists their members.
 */
#include "mtpower.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

const MtpOpclassPair mtp_opclass_pairs[] = {
	{"mtpower_blink", BTREE_AM_OID},
	{"mtpower_hash", HASH_AM_OID},
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

const MtpOpclassPair *
mtp_opclass_pair_by_oid(Oid am)
{
	char	   *am_name = get_am_name(am);

	return am_name == NULL ? NULL : mtp_opclass_pair_by_name(am_name);
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

	/* Support function 1 is the one that says what is equal, for btree and hash alike. */
	return get_opfamily_proc(our_family, type, type, 1) ==
		get_opfamily_proc(family, type, type, 1);
}

Oid
mtp_opclass_unmirrored_default(const MtpOpclassPair *pair, Oid our_am, Oid type, Oid *ours)
{
	Oid			original = GetDefaultOpClass(type, pair->core_am);

	*ours = GetDefaultOpClass(type, our_am);
	if (!OidIsValid(original))
		return InvalidOid;
	if (OidIsValid(*ours) && mtp_opclass_is_mirror(pair, *ours, original))
		return InvalidOid;
	return original;
}

char *
mtp_opclass_name(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass form;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	result = quote_qualified_identifier(get_namespace_name_or_temp(form->opcnamespace),
										NameStr(form->opcname));
	ReleaseSysCache(tuple);
	return result;
}

int
mtp_opclass_compare_oids(const ListCell *a, const ListCell *b)
{
	Oid			left = *(Oid *) lfirst(a);
	Oid			right = *(Oid *) lfirst(b);

	return left < right ? -1 : left > right;
}

List *
mtp_opclass_list(Oid am)
{
	List	   *result = NIL;
	CatCList   *rows = SearchSysCacheList1(CLAAMNAMENSP, ObjectIdGetDatum(am));

	for (int i = 0; i < rows->n_members; i++)
	{
		Form_pg_opclass form = (Form_pg_opclass) GETSTRUCT(&rows->members[i]->tuple);
		MtpOpclass *opclass = palloc(sizeof(MtpOpclass));

		opclass->oid = form->oid;
		opclass->family = form->opcfamily;
		opclass->nsp = form->opcnamespace;
		opclass->owner = form->opcowner;
		opclass->intype = form->opcintype;
		opclass->is_default = form->opcdefault;
		opclass->name = form->opcname;
		result = lappend(result, opclass);
	}
	ReleaseCatCacheList(rows);

	list_sort(result, mtp_opclass_compare_oids);
	return result;
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
