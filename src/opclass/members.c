/*
 * members.c
 *	  Whom a new member of an operator family depends on.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/amvalidate.h"
#include "access/xact.h"
#include "utils/lsyscache.h"

void
mtp_opclass_adjust_members(Oid family, Oid opclass, List *operators, List *functions)
{
	Oid			class_type = InvalidOid;
	Oid			am;
	ListCell   *lc;

	/* CREATE OPERATOR CLASS has just made the operator class, and perhaps the family. */
	CommandCounterIncrement();
	am = mtp_opclass_family_row(family)->opfmethod;
	if (OidIsValid(opclass))
		class_type = get_opclass_input_type(opclass);

	foreach(lc, list_concat_copy(operators, functions))
	{
		OpFamilyMember *member = lfirst(lc);
		Oid			owner = InvalidOid;

		if (member->lefttype == member->righttype &&
			!(member->is_func && member->number != MTP_OPCLASS_MAIN_PROC))
			owner = member->lefttype == class_type ? opclass :
				opclass_for_family_datatype(am, family, member->lefttype);

		member->ref_is_hard = OidIsValid(owner);
		member->ref_is_family = !OidIsValid(owner);
		member->refobjid = OidIsValid(owner) ? owner : family;
	}
}
