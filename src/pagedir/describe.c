/*
 * describe.c
 *	  Describes a directory's columns, and the keys that a search looks for, by the catalogs.
 */
#include "pagedir/pagedir.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* Returns a string of a catalog's row, or NULL. */
static char *
get_string(int cache, HeapTuple tuple, AttrNumber attnum)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(cache, tuple, attnum, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/*
 * Returns a number for the version that the library has of a locale; 0 if it tells none.  ICU
 * opens the locale for that, which is too slow for the start of each scan.  A process keeps its
 * libraries, so this remembers the last few locales.
 */
static uint32
locale_version(char provider, const char *locale)
{
	static struct
	{
		char		provider;
		char		locale[64];
		uint32		version;
	}			known[4];
	static int	next = 0;
	char	   *version;
	uint32		hash;

	for (int i = 0; i < lengthof(known); i++)
		if (known[i].provider == provider && strcmp(known[i].locale, locale) == 0)
			return known[i].version;
	version = get_collation_actual_version(provider, locale);
	hash = version == NULL ? 0 : hash_bytes((const unsigned char *) version, strlen(version)) | 1;
	if (strlen(locale) < sizeof(known[0].locale))
	{
		known[next].provider = provider;
		strcpy(known[next].locale, locale);
		known[next].version = hash;
		next = (next + 1) % lengthof(known);
	}
	return hash;
}

/*
 * Returns a number for the version that the libraries now have of a collation; 0 if they tell
 * none.
 */
static uint32
collation_version(Oid collation)
{
	bool		is_default = collation == DEFAULT_COLLATION_OID;
	HeapTuple	tuple;
	char		provider;
	char	   *locale;

	if (!OidIsValid(collation) || lc_collate_is_c(collation))
		return 0;
	tuple = is_default ? SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId)) :
		SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	if (is_default)
	{
		provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
		locale = get_string(DATABASEOID, tuple, provider == COLLPROVIDER_ICU ?
							Anum_pg_database_daticulocale : Anum_pg_database_datcollate);
	}
	else
	{
		provider = ((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
		locale = get_string(COLLOID, tuple, provider == COLLPROVIDER_ICU ?
							Anum_pg_collation_colliculocale : Anum_pg_collation_collcollate);
	}
	ReleaseSysCache(tuple);
	return locale == NULL ? 0 : locale_version(provider, locale);
}

/*
 * Returns a number for the value of rows from before the column was added; 0 if that is null.  No
 * page has this value.  A column that is added, rolled back and added again may have another
 * value, but the same number and file.
 */
static uint32
missing_value(TupleDesc desc, Form_pg_attribute att)
{
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (att->atthasmissing)
		value = getmissingattr(desc, att->attnum, &isnull);
	return isnull ? 0 : datum_image_hash(value, att->attbyval, att->attlen) | 1;
}

/*
 * True if the order that a comparison function gives a type stays the same while a table has a
 * column of the type.  A row type's order does not: ALTER TYPE adds and drops attributes and tells
 * no table.  Arrays and ranges have the orders of their elements.  Adds to *version what the order
 * depends on.
 */
static bool
has_lasting_order(Oid type, Oid proc, uint32 *version)
{
	TypeCacheEntry *inner;

	if (!OidIsValid(proc) || proc == F_BTRECORDCMP)
		return false;
	*version = hash_combine(*version, proc);
	if (proc == F_BTARRAYCMP)
	{
		inner = lookup_type_cache(get_base_element_type(type), TYPECACHE_CMP_PROC);
		return has_lasting_order(inner->type_id, inner->cmp_proc, version);
	}
	if (proc == F_RANGE_CMP || proc == F_MULTIRANGE_CMP)
	{
		inner = lookup_type_cache(getBaseType(type),
								  TYPECACHE_RANGE_INFO | TYPECACHE_MULTIRANGE_INFO);
		if (proc == F_MULTIRANGE_CMP)
			inner = inner->rngtype;
		if (inner == NULL || inner->rngelemtype == NULL)
			return false;
		*version = hash_combine(*version, collation_version(inner->rng_collation));
		return has_lasting_order(inner->rngelemtype->type_id, inner->rng_cmp_proc_finfo.fn_oid,
								 version);
	}
	return true;
}

/*
 * Returns the type's comparison function, and in *version a number for its order; InvalidOid if
 * the type, or a type within it, has none that lasts.
 */
static Oid
order_of(Oid type, TypeCacheEntry **entry, uint32 *version)
{
	*entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_CMP_PROC);
	return has_lasting_order(type, (*entry)->cmp_proc, version) ? (*entry)->cmp_proc : InvalidOid;
}

bool
mtp_pagedir_is_of(const MtpPagedirHead *head, const MtpPagedirColumns *c)
{
	if (head->format != MTP_PAGEDIR_FORMAT || head->ncolumns != c->n)
		return false;
	for (int i = 0; i < c->n; i++)
		if (memcmp(&head->column[i].tag, &c->column[i].tag, sizeof(MtpPagedirTag)) != 0)
			return false;
	return true;
}

bool
mtp_pagedir_has_order(Oid type)
{
	TypeCacheEntry *entry;
	uint32		version = 0;

	return OidIsValid(order_of(type, &entry, &version));
}

/* Asks the type cache for the order, since each execution of a scan describes its columns. */
static bool
describe_column(MtpPagedirColumn *column, TupleDesc desc, Form_pg_attribute att)
{
	TypeCacheEntry *type;
	uint32		order = 0;
	Oid			proc = att->attisdropped ? InvalidOid : order_of(att->atttypid, &type, &order);

	if (!OidIsValid(proc))
		return false;
	column->input = type->btree_opintype;
	column->tag = (MtpPagedirTag)
	{
		.attnum = att->attnum,.type = att->atttypid,.typmod = att->atttypmod,
			.collation = att->attcollation,
			.version = hash_combine(hash_combine(collation_version(att->attcollation),
												 missing_value(desc, att)), order),
			.family = type->btree_opf
	};
	column->norm = mtp_norm_kind(proc, att->attcollation);
	fmgr_info(proc, &column->compare);
	return true;
}

bool
mtp_pagedir_describe(MtpPagedirColumns *c, TupleDesc desc, int n, const AttrNumber *attnums)
{
	c->desc = desc;
	c->n = n;
	for (int i = 0; i < n; i++)
		if (!describe_column(&c->column[i], desc, TupleDescAttr(desc, attnums[i] - 1)))
			return false;
	mtp_pagedir_layout(c);
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
mtp_pagedir_key(const MtpPagedirColumns *c, int column, Oid op, Oid collation, Datum value,
				MtpPagedirKey *key)
{
	const MtpPagedirColumn *col = &c->column[column];
	Oid			family = col->tag.family;
	Oid			input = col->input;
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

	/*
	 * Values of two types have normalized keys in one space if both are integers, or both floats.
	 */
	if (right == input || (is_int(input) && is_int(right)) || (is_float(input) && is_float(right)))
	{
		Oid			own = get_opfamily_proc(family, right, right, BTORDER_PROC);

		if (OidIsValid(own))
			norm = mtp_norm_kind(own, collation);
	}
	*key = (MtpPagedirKey)
	{
		.column = column,.what = strategy,.value = value,.collation = collation
	};
	if (norm != MTP_NORM_NONE && col->norm != MTP_NORM_NONE)
	{
		key->by_norm = true;
		key->exact = mtp_norm_is_exact(norm) && mtp_norm_is_exact(col->norm);
		key->norm = mtp_norm_datum(norm, value, false);
	}
	fmgr_info(proc, &key->compare);

	/*
	 * A timestamp in local time may be before another and stand for a later moment.  So the
	 * column's order is not that of the comparison with timestamptz.
	 */
	if (right != input && func_volatile(proc) != PROVOLATILE_IMMUTABLE)
		key->compare.fn_addr = NULL;
	return true;
}

void
mtp_pagedir_key_null(int column, bool isnull, MtpPagedirKey *key)
{
	*key = (MtpPagedirKey)
	{
		.column = column,.what = isnull ? MTP_PAGEDIR_NULL : MTP_PAGEDIR_NOT_NULL
	};
}
