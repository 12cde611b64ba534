/*
 * validate.c
 *	  Checks operator classes of mtpower_hash as core's hash access method checks its own.
 */
#include "hash/hash.h"

#include "access/hash.h"
#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "opclass/validate.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

/*
 * True for integer f(type), and with a seed for bigint f(type, bigint); or for the options'
 * function.
 */
static bool
is_signature(Form_pg_amproc form)
{
	bool		extended = form->amprocnum == HASHEXTENDED_PROC;
	Oid			type = form->amproclefttype;
	Oid			original;
	Oid		   *argtypes;
	int			nargs;

	if (form->amprocnum == HASHOPTIONS_PROC)
		return check_amoptsproc_signature(form->amproc);
	if (get_func_signature(form->amproc, &argtypes, &nargs) != (extended ? INT8OID : INT4OID) ||
		get_func_retset(form->amproc) || nargs != (extended ? 2 : 1) ||
		(extended && argtypes[1] != INT8OID))
		return false;
	if (IsBinaryCoercible(type, argtypes[0]))
		return true;

	/*
	 * Some built-in operator classes use the function of another type with the same
	 * representation, where no cast says so; this one may do the same.
	 */
	original = GetDefaultOpClass(type, HASH_AM_OID);
	return OidIsValid(original) &&
		get_opfamily_proc(get_opclass_family(original), type, type,
						  form->amprocnum) == form->amproc;
}

/* Each two hashable types must have their operator; true if the family has one of `intype`. */
static bool
check_family(MtpOpclassCheck *check, Oid intype)
{
	List	   *groups = identify_opfamily_groups(check->operators, check->functions);
	List	   *hashable = NIL; /* OIDs of types that have a hash function */
	bool		found = false;
	ListCell   *lc;

	for (int i = 0; i < check->functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&check->functions->members[i]->tuple);

		if (form->amproclefttype != form->amprocrighttype)
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains support "
								 "function %s with different left and right input types",
								 check->family, check->am, format_procedure(form->amproc));
		if (form->amprocnum == HASHSTANDARD_PROC && is_signature(form))
			hashable = list_append_unique_oid(hashable, form->amproclefttype);
	}
	for (int i = 0; i < check->operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&check->operators->members[i]->tuple);

		if (!list_member_oid(hashable, form->amoplefttype) ||
			!list_member_oid(hashable, form->amoprighttype))
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s lacks support "
								 "function for operator %s",
								 check->family, check->am, format_operator(form->amopopr));
	}
	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		if (group->operatorset != (1 << HTEqualStrategyNumber))
			mtp_opclass_lacks_operators(check, group);
		if (group->lefttype == intype && group->righttype == intype)
			found = true;
	}

	if (list_length(groups) != list_length(hashable) * list_length(hashable))
		mtp_opclass_lacks_cross_type(check);
	return found;
}

bool
mtp_hash_validate(Oid opclass)
{
	static const MtpOpclassRules rules = {
		.nstrategies = HTMaxStrategyNumber,
		.nsupport = HASHNProcs,
		.is_signature = is_signature,
		.check_family = check_family
	};

	return mtp_opclass_validate(opclass, &rules);
}

StaticAssertDecl(HASHSTANDARD_PROC == MTP_OPCLASS_MAIN_PROC, "hash's main function");

void
mtp_hash_check_support(Relation index)
{
	mtp_opclass_check_support(index, 1,
							  "Add a function that hashes a value to the operator family: "
							  "ALTER OPERATOR FAMILY ... ADD FUNCTION 1.",
							  "A hash function takes one argument and returns integer.");
}
