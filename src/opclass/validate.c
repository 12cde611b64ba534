/*
 * validate.c
 *	  Checks an operator class and its family by the rules of its access method; refuses to build
 *	  an index by a support function that is missing, or cannot be what it is taken for.
 */
#include "core/core.h"
#include "opclass/validate.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

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

	for (int i = 0; i < check.functions->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&check.functions->members[i]->tuple);
		bool		known = form->amprocnum >= 1 && form->amprocnum <= rules->nsupport;

		if (!known || !rules->is_signature(form))
			mtp_opclass_complain(&check, known ?
								 "operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d" :
								 "operator family \"%s\" of access method %s contains function %s with invalid support number %d",
								 check.family, check.am, format_procedure(form->amproc),
								 form->amprocnum);
	}

	for (int i = 0; i < check.operators->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&check.operators->members[i]->tuple);
		char	   *name = format_operator(form->amopopr);

		if (form->amopstrategy < 1 || form->amopstrategy > rules->nstrategies)
			mtp_opclass_complain(&check,
								 "operator family \"%s\" of access method %s contains operator %s with invalid strategy number %d",
								 check.family, check.am, name, form->amopstrategy);
		if (form->amoppurpose != AMOP_SEARCH || OidIsValid(form->amopsortfamily))
			mtp_opclass_complain(&check,
								 "operator family \"%s\" of access method %s contains invalid ORDER BY specification for operator %s",
								 check.family, check.am, name);
		if (!check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, form->amoprighttype))
			mtp_opclass_complain(&check,
								 "operator family \"%s\" of access method %s contains operator %s with wrong signature",
								 check.family, check.am, name);
	}

	if (!rules->check_family(&check, opclass->opcintype))
		mtp_opclass_complain(&check, "operator class \"%s\" of access method %s is missing operator(s)",
							 NameStr(opclass->opcname), check.am);
	ReleaseCatCacheList(check.functions);
	ReleaseCatCacheList(check.operators);
	return check.valid;
}

/* Core looks at the functions of its own access methods when they are declared. */
void
mtp_opclass_check_support(Relation index, int nargs, const char *hint, const char *detail)
{
	for (int col = 0; col < IndexRelationGetNumberOfKeyAttributes(index); col++)
	{
		Oid			proc = index_getprocid(index, col + 1, MTP_OPCLASS_MAIN_PROC);
		char	   *type = format_type_be(index->rd_opcintype[col]);
		Form_pg_opfamily family;
		Oid		   *argtypes;
		int			has;

		if (OidIsValid(proc) && get_func_signature(proc, &argtypes, &has) == INT4OID &&
			has == nargs)
			continue;
		family = mtp_opclass_family_row(index->rd_opfamily[col]);
		if (!OidIsValid(proc))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("operator family \"%s\" of access method %s is missing support function for types %s and %s",
							NameStr(family->opfname), get_am_name(family->opfmethod), type, type),
					 errhint("%s", hint)));
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
						NameStr(family->opfname), get_am_name(family->opfmethod),
						format_procedure(proc), MTP_OPCLASS_MAIN_PROC),
				 errdetail("%s", detail)));
	}
}
