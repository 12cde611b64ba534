/*
 * support.c
 *	  Refuses to build an index by a support function that is missing, or cannot be what it is
 *	  taken for.
 *
 * Core looks at the functions of its own access methods when they are declared.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/genam.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

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
