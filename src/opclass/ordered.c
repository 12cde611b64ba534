/*
 * ordered.c
 *	  Checks operator classes of access methods that mirror btree's, as core checks nbtree's.
 */
#include "core/core.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "core/compat.h"
#include "opclass/validate.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* The operators that every pair of types in a family must have. */
#define ALL_STRATEGIES \
	((1 << BTLessStrategyNumber) | (1 << BTLessEqualStrategyNumber) | \
	 (1 << BTEqualStrategyNumber) | (1 << BTGreaterEqualStrategyNumber) | \
	 (1 << BTGreaterStrategyNumber))

static bool
is_signature(Form_pg_amproc form)
{
	Oid			left = form->amproclefttype;
	Oid			right = form->amprocrighttype;

	switch (form->amprocnum)
	{
		case BTORDER_PROC:
			return check_amproc_signature(form->amproc, INT4OID, true, 2, 2, left, right);
		case BTSORTSUPPORT_PROC:
		case BTSKIPSUPPORT_PROC:
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

/*
 * Each pair of types must have all its operators and a comparison function.  There must be such a
 * pair for every two types of the family.
 */
static bool
check_family(MtpOpclassCheck *check, Oid intype)
{
	List	   *groups = identify_opfamily_groups(check->operators, check->functions);
	List	   *types = NIL;
	int			pairs = 0;
	bool		found = false;
	ListCell   *lc;

	foreach(lc, groups)
	{
		OpFamilyOpFuncGroup *group = lfirst(lc);

		/* An in_range function's offset may be of a type outside of the family, as interval is. */
		if (group->operatorset == 0 && group->functionset == (1 << BTINRANGE_PROC))
			continue;

		pairs++;
		types = list_append_unique_oid(types, group->lefttype);
		types = list_append_unique_oid(types, group->righttype);
		if (group->lefttype == intype && group->righttype == intype)
			found = true;

		if (group->operatorset != ALL_STRATEGIES)
			mtp_opclass_lacks_operators(check, group);
		if ((group->functionset & (1 << BTORDER_PROC)) == 0)
			mtp_opclass_complain(check,
								 "operator family \"%s\" of access method %s is missing "
								 "support function for types %s and %s",
								 check->family, check->am,
								 format_type_be(group->lefttype), format_type_be(group->righttype));
	}

	if (pairs != list_length(types) * list_length(types))
		mtp_opclass_lacks_cross_type(check);
	return found;
}

bool
mtp_opclass_validate_ordered(Oid opclass)
{
	static const MtpOpclassRules rules = {
		.nstrategies = BTMaxStrategyNumber,
		.nsupport = BTNProcs,
		.is_signature = is_signature,
		.check_family = check_family
	};

	return mtp_opclass_validate(opclass, &rules);
}

/*
 * Pattern operator classes compare bytes, but their "=" is the type's own: a scan would miss values
 * that a nondeterministic collation holds to be equal.  Core knows this of btree's, by their OIDs.
 */
static void
check_collation(Relation index, int col)
{
	Oid			proc = index_getprocid(index, col + 1, BTORDER_PROC);
	Oid			collation = index->rd_indcollation[col];
	Datum		classes;
	Oid			opclass;
	HeapTuple	tuple;
	bool		isnull;

	if ((proc != F_BTTEXT_PATTERN_CMP && proc != F_BTBPCHAR_PATTERN_CMP) ||
		!OidIsValid(collation) || get_collation_isdeterministic(collation))
		return;

	/* The relcache has no room for the operator class's name. */
	classes = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, Anum_pg_index_indclass, &isnull);
	Assert(!isnull);
	opclass = ((oidvector *) DatumGetPointer(classes))->values[col];
	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for an operator class of index \"%s\"",
			 RelationGetRelationName(index));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("nondeterministic collations are not supported for operator class \"%s\"",
					NameStr(((Form_pg_opclass) GETSTRUCT(tuple))->opcname))));
}

void
mtp_opclass_check_collations(Relation index)
{
	for (int col = 0; col < IndexRelationGetNumberOfKeyAttributes(index); col++)
		check_collation(index, col);
}
