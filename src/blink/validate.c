/*
 * validate.c
 *	  What mtpower_blink asks of the operator classes of an index, when it is built.
 */
#include "blink/blink.h"

#include "access/htup_details.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "opclass/validate.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

StaticAssertDecl(BTORDER_PROC == MTP_OPCLASS_MAIN_PROC, "btree's main function");

/*
 * Core's rule.  Blanks at a bpchar's end don't count, and two of them may have different ones where
 * the column has no length: PostgreSQL says so from 15.20 on.
 */
bool
mtp_blink_equal_is_identical(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (index->rd_opcintype[i] == BPCHAROID)
			return false;
	return _bt_allequalimage(index, false);
}

void
mtp_blink_check_support(Relation index)
{
	mtp_opclass_check_support(index, 2,
							  "Add a function that compares two values to the operator family: "
							  "ALTER OPERATOR FAMILY ... ADD FUNCTION 1.",
							  "A comparison function takes two arguments and returns integer.");
	mtp_opclass_check_collations(index);
}
