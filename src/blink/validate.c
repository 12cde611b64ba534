/*
 * validate.c
 *	  Checks operator classes of mtpower_blink, as nbtree checks its own.
 */
#include "mtpower.h"
#include "blink/blink.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/* The operators that every pair of types in a family must have. */
#define ALL_STRATEGIES \
	((1 << BTLessStrategyNumber) | (1 << BTLessEqualStrategyNumber) | \
	 (1 << BTEqualStrategyNumber) | (1 << BTGreaterEqualStrategyNumber) | \
	 (1 << BTGreaterStrategyNumber))

/* A family under examination; complain() makes it invalid. */
typedef struct Family
{
	char	   *name;
	char	   *am;
	CatCList   *operators;
	CatCList   *functions;
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

static bool
has_right_signature(Form_pg_amproc form)
{
	Oid			left = form->amproclefttype;
	Oid			right = form->amprocrighttype;

	switch (form->amprocnum)
	{
		case BTORDER_PROC:
			return check_amproc_signature(form->amproc, INT4OID, true, 2, 2, left, right);
		case BTSORTSUPPORT_PROC:
			return check_amproc_signature(form->amproc, VOIDOID, true, 1, 1, INTERNALOID);
		case BTINRANGE_PROC:
			return check_amproc_signature(form->amproc, BOOLOID, true, 5, 5,
										  left, left, right, BOOLOID, BOOLOID);
		case BTEQUALIMAGE_PROC:
			return check_amproc_signature(form->amproc, BOOLOID, true, 1, 1, OIDOID);
		case BTOPTIONS_PROC:
			return check_amoptsproc_signature(form->amproc);
		default:
			return false;
	}
}

static void
check_functions(Family *family)
{
	for (int i = 0; i < family->functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&family->functions->members[i]->tuple);

		if (form->amprocnum < 1 || form->amprocnum > BTNProcs)
			complain(family,
					 "operator family \"%s\" of access method %s contains function %s with invalid support number %d",
					 family->name, family->am, format_procedure(form->amproc), form->amprocnum);
		else if (!has_right_signature(form))
			complain(family,
					 "operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
					 family->name, family->am, format_procedure(form->amproc), form->amprocnum);
	}
}

static void
check_operators(Family *family)
{
	for (int i = 0; i < family->operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&family->operators->members[i]->tuple);

		if (form->amopstrategy < 1 || form->amopstrategy > BTMaxStrategyNumber)
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
	}
}

/*
 * Checks that each pair of types has all its operators and a comparison function, and that there is
 * such a pair for every two types.  True if there is one for the operator class's own type.
 */
static bool
check_groups(Family *family, Oid intype)
{
	List	   *groups = identify_opfamily_groups(family->operators, family->functions);
	List	   *types = NIL;
	int			pairs = 0;
	bool		found = false;
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		/* The offset's type of an in_range function need not belong to the family: interval. */
		if (group->operatorset == 0 && group->functionset == (1 << BTINRANGE_PROC))
			continue;

		pairs++;
		types = list_append_unique_oid(types, group->lefttype);
		types = list_append_unique_oid(types, group->righttype);
		if (group->lefttype == intype && group->righttype == intype)
			found = true;

		if (group->operatorset != ALL_STRATEGIES)
			complain(family,
					 "operator family \"%s\" of access method %s is missing operator(s) for types %s and %s",
					 family->name, family->am,
					 format_type_be(group->lefttype), format_type_be(group->righttype));
		if ((group->functionset & (1 << BTORDER_PROC)) == 0)
			complain(family,
					 "operator family \"%s\" of access method %s is missing support function for types %s and %s",
					 family->name, family->am,
					 format_type_be(group->lefttype), format_type_be(group->righttype));
	}

	if (pairs != list_length(types) * list_length(types))
		complain(family,
				 "operator family \"%s\" of access method %s is missing cross-type operator(s)",
				 family->name, family->am);
	return found;
}

bool
mtp_blink_validate(Oid opclassoid)
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
 * Whom a new member of an operator family depends on, as nbtree decides it: operators and comparison
 * functions for one type belong to that type's operator class, if there is one; all others can be
 * taken out of the family again.  pg_dump writes the former with the operator class.
 */
void
mtp_blink_adjust_members(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions)
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
			!(member->is_func && member->number != BTORDER_PROC))
			owner = member->lefttype == class_type ? opclassoid :
				opclass_for_family_datatype(am, opfamilyoid, member->lefttype);

		member->ref_is_hard = OidIsValid(owner);
		member->ref_is_family = !OidIsValid(owner);
		member->refobjid = OidIsValid(owner) ? owner : opfamilyoid;
	}
}

/* A comparison function that is missing, or cannot be one: core looks at those of its own when they are declared. */
static void
check_comparison(Relation index, int col)
{
	Oid			proc = index_getprocid(index, col + 1, BTORDER_PROC);
	char	   *type = format_type_be(index->rd_opcintype[col]);
	Oid		   *argtypes;
	int			nargs;
	Oid			am;
	char	   *family;

	if (OidIsValid(proc) && get_func_signature(proc, &argtypes, &nargs) == INT4OID && nargs == 2)
		return;
	family = look_up_family(index->rd_opfamily[col], &am);
	if (!OidIsValid(proc))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator family \"%s\" of access method %s is missing support function for types %s and %s",
						family, get_am_name(am), type, type),
				 errhint("Add a function that compares two values to the operator family: ALTER OPERATOR FAMILY ... ADD FUNCTION %d.",
						 BTORDER_PROC)));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
					family, get_am_name(am), format_procedure(proc), BTORDER_PROC),
			 errdetail("A comparison function takes two arguments and returns integer.")));
}

/*
 * Pattern operator classes compare bytes, but their "=" is the type's own: a scan would miss what a
 * nondeterministic collation holds to be equal.  Core knows this of btree's, by their OIDs.
 */
static void
check_collation(Relation index, int col)
{
	Oid			proc = index_getprocid(index, col + 1, BTORDER_PROC);
	Oid			collation = index->rd_indcollation[col];
	Oid			am;

	if ((proc == F_BTTEXT_PATTERN_CMP || proc == F_BTBPCHAR_PATTERN_CMP) &&
		OidIsValid(collation) && !get_collation_isdeterministic(collation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("nondeterministic collations are not supported for operator family \"%s\"",
						look_up_family(index->rd_opfamily[col], &am))));
}

void
mtp_blink_check_support(Relation index)
{
	for (int col = 0; col < IndexRelationGetNumberOfKeyAttributes(index); col++)
	{
		check_comparison(index, col);
		check_collation(index, col);
	}
}
