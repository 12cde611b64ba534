/*
 * validate.c
 *	  Checks an operator class and its family by the rules of its access method.
 */
#include "core/core.h"
#include "opclass/validate.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

static void
check_functions(MtpOpclassCheck *check, const MtpOpclassRules *rules)
{
	for (int i = 0; i < check->functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&check->functions->members[i]->tuple);

		if (form->amprocnum < 1 || form->amprocnum > rules->nsupport)
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains function %s with invalid support number %d",
								 check->family, check->am, format_procedure(form->amproc),
								 form->amprocnum);
		else if (!rules->is_signature(form))
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
								 check->family, check->am, format_procedure(form->amproc),
								 form->amprocnum);
	}
}

static void
check_operators(MtpOpclassCheck *check, const MtpOpclassRules *rules)
{
	for (int i = 0; i < check->operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&check->operators->members[i]->tuple);

		if (form->amopstrategy < 1 || form->amopstrategy > rules->nstrategies)
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains operator %s with invalid strategy number %d",
								 check->family, check->am, format_operator(form->amopopr),
								 form->amopstrategy);
		if (form->amoppurpose != AMOP_SEARCH || OidIsValid(form->amopsortfamily))
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains invalid ORDER BY specification for operator %s",
								 check->family, check->am, format_operator(form->amopopr));
		if (!check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, form->amoprighttype))
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s contains operator %s with wrong signature",
								 check->family, check->am, format_operator(form->amopopr));
	}
}

void
mtp_opclass_lacks_operators(MtpOpclassCheck *check, const OpFamilyOpFuncGroup *group)
{
	mtp_opclass_complain(check,
						 "operator family \"%s\" of access method %s is missing operator(s) for types %s and %s",
						 check->family, check->am,
						 format_type_be(group->lefttype), format_type_be(group->righttype));
}

void
mtp_opclass_lacks_cross_type(MtpOpclassCheck *check)
{
	mtp_opclass_complain(check,
						 "operator family \"%s\" of access method %s is missing cross-type operator(s)",
						 check->family, check->am);
}

bool
mtp_opclass_validate(Oid opclassoid, const MtpOpclassRules *rules)
{
	Form_pg_opclass opclass = mtp_opclass_row(opclassoid);
	Form_pg_opfamily family = mtp_opclass_family_row(opclass->opcfamily);
	MtpOpclassCheck check = {.valid = true};

	check.family = NameStr(family->opfname);
	check.am = get_am_name(family->opfmethod);
	check.operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(family->oid));
	check.functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family->oid));
	check_functions(&check, rules);
	check_operators(&check, rules);
	if (!rules->check_family(&check, opclass->opcintype))
		mtp_opclass_complain(&check, "operator class \"%s\" of access method %s is missing operator(s)",
							 NameStr(opclass->opcname), check.am);
	ReleaseCatCacheList(check.functions);
	ReleaseCatCacheList(check.operators);
	return check.valid;
}
