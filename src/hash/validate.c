/*
 * validate.c
 *	  Checks operator classes of mtpower_hash, as core's hash access method checks its own.
 */
#include "mtpower.h"
#include "hash/hash.h"

#include "access/amvalidate.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/* A family under examination; complain() makes it invalid. */
typedef struct Family
{
	char	   *name;
	char	   *am;
	CatCList   *operators;
	CatCList   *functions;
	List	   *hashable;		/* types with a hash function */
	bool		valid;
} Family;

/* Complaints are messages, not errors: all of them shall be seen. */
#define complain(family, ...) \
	do { \
		ereport(INFO, \
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION), \
				 errmsg(__VA_ARGS__))); \
		(family)->valid = false; \
	} while (0)

/*
 * Can a hash function with this argument serve the type?  Some built-in operator classes use the function of another
 * type with the same representation, where no cast says so; theirs may be used as they use it.
 */
static bool
serves_type(Oid proc, int number, Oid argtype, Oid type)
{
	Oid			original;

	if (IsBinaryCoercible(type, argtype))
		return true;
	original = GetDefaultOpClass(type, HASH_AM_OID);
	return OidIsValid(original) &&
		get_opfamily_proc(get_opclass_family(original), type, type, number) == proc;
}

/* integer f(type), or with a seed: bigint f(type, bigint). */
static bool
is_hash_function(Oid proc, int number, Oid type)
{
	bool		extended = number == HASHEXTENDED_PROC;
	Oid		   *argtypes;
	int			nargs;

	if (get_func_signature(proc, &argtypes, &nargs) != (extended ? INT8OID : INT4OID) ||
		get_func_retset(proc) || nargs != (extended ? 2 : 1))
		return false;
	return serves_type(proc, number, argtypes[0], type) && (!extended || argtypes[1] == INT8OID);
}

static void
check_functions(Family *family)
{
	for (int i = 0; i < family->functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&family->functions->members[i]->tuple);
		bool		right = true;

		if (form->amproclefttype != form->amprocrighttype)
			complain(family,
					 "operator family \"%s\" of access method %s contains support function %s with different left and right input types",
					 family->name, family->am, format_procedure(form->amproc));
		if (form->amprocnum == HASHOPTIONS_PROC)
			right = check_amoptsproc_signature(form->amproc);
		else if (form->amprocnum == HASHSTANDARD_PROC || form->amprocnum == HASHEXTENDED_PROC)
			right = is_hash_function(form->amproc, form->amprocnum, form->amproclefttype);
		else
			complain(family,
					 "operator family \"%s\" of access method %s contains function %s with invalid support number %d",
					 family->name, family->am, format_procedure(form->amproc), form->amprocnum);
		if (!right)
			complain(family,
					 "operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
					 family->name, family->am, format_procedure(form->amproc), form->amprocnum);
		if (right && form->amprocnum == HASHSTANDARD_PROC)
			family->hashable = list_append_unique_oid(family->hashable, form->amproclefttype);
	}
}

static void
check_operators(Family *family)
{
	for (int i = 0; i < family->operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&family->operators->members[i]->tuple);

		if (form->amopstrategy < 1 || form->amopstrategy > HTMaxStrategyNumber)
			complain(family,
					 "operator family \"%s\" of access method %s contains operator %s with invalid strategy number %d",
					 family->name, family->am, format_operator(form->amopopr), form->amopstrategy);
		if (form->amoppurpose != AMOP_SEARCH || OidIsValid(form->amopsortfamily))
			complain(family,
					 "operator family \"%s\" of access method %s contains invalid ORDER BY specification for operator %s",
					 family->name, family->am, format_operator(form->amopopr));
		if (!check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, form->amoprighttype))
			complain(family,
					 "operator family \"%s\" of access method %s contains operator %s with wrong signature",
					 family->name, family->am, format_operator(form->amopopr));
		if (!list_member_oid(family->hashable, form->amoplefttype) ||
			!list_member_oid(family->hashable, form->amoprighttype))
			complain(family,
					 "operator family \"%s\" of access method %s lacks support function for operator %s",
					 family->name, family->am, format_operator(form->amopopr));
	}
}

/*
 * Checks that each pair of types has its operator, and that there is such a pair for every two hashable
 * types.  True if there is one for the operator class's own type.
 */
static bool
check_groups(Family *family, Oid intype)
{
	List	   *groups = identify_opfamily_groups(family->operators, family->functions);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->operatorset != (1 << HTEqualStrategyNumber))
			complain(family,
					 "operator family \"%s\" of access method %s is missing operator(s) for types %s and %s",
					 family->name, family->am,
					 format_type_be(group->lefttype), format_type_be(group->righttype));
		if (group->lefttype == intype && group->righttype == intype)
			found = true;
	}

	if (list_length(groups) != list_length(family->hashable) * list_length(family->hashable))
		complain(family,
				 "operator family \"%s\" of access method %s is missing cross-type operator(s)",
				 family->name, family->am);
	return found;
}

bool
mtp_hash_validate(Oid opclassoid)
{
	HeapTuple	classtup = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclassoid));
	HeapTuple	familytup;
	Form_pg_opclass classform;
	Form_pg_opfamily familyform;
	Family		family = {.valid = true};

	if (!HeapTupleIsValid(classtup))
		elog(ERROR, "cache lookup failed for operator class %u", opclassoid);
	classform = (Form_pg_opclass) GETSTRUCT(classtup);
	familytup = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(classform->opcfamily));
	if (!HeapTupleIsValid(familytup))
		elog(ERROR, "cache lookup failed for operator family %u", classform->opcfamily);
	familyform = (Form_pg_opfamily) GETSTRUCT(familytup);

	family.name = NameStr(familyform->opfname);
	family.am = get_am_name(familyform->opfmethod);
	family.operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(familyform->oid));
	family.functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(familyform->oid));

	check_functions(&family);
	check_operators(&family);
	if (!check_groups(&family, classform->opcintype))
		complain(&family, "operator class \"%s\" of access method %s is missing operator(s)",
				 NameStr(classform->opcname), family.am);

	ReleaseCatCacheList(family.functions);
	ReleaseCatCacheList(family.operators);
	ReleaseSysCache(familytup);
	ReleaseSysCache(classtup);
	return family.valid;
}

/* A family's name (palloc'd) and access method. */
static char *
look_up_family(Oid family, Oid *am)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	Form_pg_opfamily form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	form = (Form_pg_opfamily) GETSTRUCT(tuple);
	*am = form->opfmethod;
	name = pstrdup(NameStr(form->opfname));
	ReleaseSysCache(tuple);
	return name;
}

/*
 * Whom a new member of an operator family depends on, as core's hash decides it: an equality and a hash function
 * for one type belong to that type's operator class, if there is one; all others can be taken out of the
 * family again.  pg_dump writes the former with the operator class.
 */
void
mtp_hash_adjust_members(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions)
{
	Oid			class_type = InvalidOid;
	Oid			am;
	ListCell   *lc;

	/* CREATE OPERATOR CLASS has just made the operator class, and perhaps the family. */
	CommandCounterIncrement();
	(void) look_up_family(opfamilyoid, &am);
	if (OidIsValid(opclassoid))
		class_type = get_opclass_input_type(opclassoid);

	foreach(lc, list_concat_copy(operators, functions))
	{
		OpFamilyMember *member = lfirst(lc);
		Oid			owner = InvalidOid;

		if (member->lefttype == member->righttype &&
			!(member->is_func && member->number != HASHSTANDARD_PROC))
			owner = member->lefttype == class_type ? opclassoid :
				opclass_for_family_datatype(am, opfamilyoid, member->lefttype);

		member->ref_is_hard = OidIsValid(owner);
		member->ref_is_family = !OidIsValid(owner);
		member->refobjid = OidIsValid(owner) ? owner : opfamilyoid;
	}
}

/* A hash function that is missing, or cannot be one: core looks at those of its own when they are declared. */
void
mtp_hash_check_support(Relation index)
{
	for (int col = 0; col < IndexRelationGetNumberOfKeyAttributes(index); col++)
	{
		Oid			proc = index_getprocid(index, col + 1, HASHSTANDARD_PROC);
		char	   *type = format_type_be(index->rd_opcintype[col]);
		Oid		   *argtypes;
		int			nargs;
		Oid			am;
		char	   *family;

		if (OidIsValid(proc) && get_func_signature(proc, &argtypes, &nargs) == INT4OID && nargs == 1)
			continue;
		family = look_up_family(index->rd_opfamily[col], &am);
		if (!OidIsValid(proc))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family \"%s\" of access method %s is missing support function for types %s and %s",
							family, get_am_name(am), type, type),
					 errhint("Add a function that hashes a value to the operator family: ALTER OPERATOR FAMILY ... ADD FUNCTION %d.",
							 HASHSTANDARD_PROC)));
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
						family, get_am_name(am), format_procedure(proc), HASHSTANDARD_PROC),
				 errdetail("A hash function takes one argument and returns integer.")));
	}
}
