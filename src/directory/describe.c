/*
 * describe.c
 *	  What the catalogs say of a directory's columns, and of the keys that are looked for.
 */
#include "directory/directory.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"

/* A string of a catalog's row, or NULL */
static char *
get_string(int cache, HeapTuple tuple, AttrNumber attnum)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(cache, tuple, attnum, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* What stands for the version of a collation as the libraries have it now; 0 if they tell none. */
static uint32
collation_version(Oid collation)
{
	bool		is_default = collation == DEFAULT_COLLATION_OID;
	HeapTuple	tuple;
	char		provider;
	char	   *locale;
	char	   *version;

	if (!OidIsValid(collation) || lc_collate_is_c(collation))
		return 0;
	tuple = is_default ? SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId)) : SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	if (is_default)
	{
		provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
		locale = get_string(DATABASEOID, tuple, provider == COLLPROVIDER_ICU ? Anum_pg_database_daticulocale : Anum_pg_database_datcollate);
	}
	else
	{
		provider = ((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
		locale = get_string(COLLOID, tuple, provider == COLLPROVIDER_ICU ? Anum_pg_collation_colliculocale : Anum_pg_collation_collcollate);
	}
	ReleaseSysCache(tuple);
	version = locale == NULL ? NULL : get_collation_actual_version(provider, locale);
	return version == NULL ? 0 : hash_bytes((const unsigned char *) version, strlen(version)) | 1;
}

static bool
describe_column(MtpDirectoryColumn *column, Form_pg_attribute att)
{
	Oid			opclass = att->attisdropped ? InvalidOid : GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
	Oid			input,
				proc;

	if (!OidIsValid(opclass))
		return false;
	input = get_opclass_input_type(opclass);
	proc = get_opfamily_proc(get_opclass_family(opclass), input, input, BTORDER_PROC);
	if (!OidIsValid(proc))
		return false;
	column->tag = (MtpDirectoryTag) {
		.attnum = att->attnum,.type = att->atttypid,.typmod = att->atttypmod,.collation = att->attcollation,
		.version = collation_version(att->attcollation),.opclass = opclass
	};
	column->norm = mtp_norm_kind(proc, att->attcollation);
	fmgr_info(proc, &column->compare);
	return true;
}

bool
mtp_directory_describe(MtpDirectoryColumns *c, TupleDesc desc, int n, const AttrNumber *attnums)
{
	c->desc = desc;
	c->n = n;
	for (int i = 0; i < n; i++)
		if (!describe_column(&c->column[i], TupleDescAttr(desc, attnums[i] - 1)))
			return false;
	mtp_directory_layout(c);
	return true;
}

static bool
is_int(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

bool
mtp_directory_key(const MtpDirectoryColumns *c, int column, Oid op, Oid collation, Datum value, MtpDirectoryKey *key)
{
	const MtpDirectoryColumn *col = &c->column[column];
	Oid			family = get_opclass_family(col->tag.opclass);
	Oid			input = get_opclass_input_type(col->tag.opclass);
	int			strategy;
	Oid			left,
				right,
				proc;
	uint8		norm = MTP_NORM_NONE;

	if (!op_in_opfamily(op, family) || collation != col->tag.collation)
		return false;
	get_op_opfamily_properties(op, family, false, &strategy, &left, &right);
	proc = get_opfamily_proc(family, left, right, BTORDER_PROC);
	if (left != input || !OidIsValid(proc))
		return false;

	/* Values of two types have normal keys in one space if both are integers, or both floats. */
	if (right == input || (is_int(input) && is_int(right)) || (is_float(input) && is_float(right)))
	{
		Oid			own = get_opfamily_proc(family, right, right, BTORDER_PROC);

		if (OidIsValid(own))
			norm = mtp_norm_kind(own, collation);
	}
	*key = (MtpDirectoryKey) {
		.column = column,.what = strategy,.value = value,.collation = collation
	};
	if (norm != MTP_NORM_NONE && col->norm != MTP_NORM_NONE)
	{
		key->by_norm = true;
		key->exact = mtp_norm_is_exact(norm) && mtp_norm_is_exact(col->norm);
		key->norm = mtp_norm_datum(norm, value, false);
	}
	fmgr_info(proc, &key->compare);
	return true;
}

void
mtp_directory_key_null(int column, bool isnull, MtpDirectoryKey *key)
{
	*key = (MtpDirectoryKey) {
		.column = column,.what = isnull ? MTP_DIRECTORY_NULL : MTP_DIRECTORY_NOT_NULL
	};
}
