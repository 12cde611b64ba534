/*
 * describe.c
 *	  Describes a directory's columns, and the keys that a search looks for, by the catalogs.
 */
#include "pagedir/pagedir.h"

#include "access/nbtree.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "core/collation.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

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
	uint32		version = 0;
	char		provider;
	char	   *locale;

	if (!OidIsValid(collation) || MtpCollationIsC(collation))
		return 0;
	locale = mtp_collation_locale(collation, &provider);
	if (locale != NULL)
		version = locale_version(provider, locale);
	return version;
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
 * Returns the type's entry, with its comparison function, and in *version a number for its order;
 * NULL if the type, or a type within it, has no order that lasts.
 */
static TypeCacheEntry *
order_of(Oid type, uint32 *version)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_CMP_PROC);

	return has_lasting_order(type, entry->cmp_proc, version) ? entry : NULL;
}

bool
mtp_pagedir_has_order(Oid type)
{
	uint32		version = 0;

	return order_of(type, &version) != NULL;
}

/* Asks the type cache for the order, since each execution of a scan describes its columns. */
bool
mtp_pagedir_describe(MtpPagedirColumns *c, TupleDesc desc, int n, const AttrNumber *attnums)
{
	c->desc = desc;
	c->n = n;
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attnums[i] - 1);
		MtpPagedirColumn *column = &c->column[i];
		uint32		order = 0;
		uint32		missing = 0;
		TypeCacheEntry *type = att->attisdropped ? NULL : order_of(att->atttypid, &order);

		if (type == NULL)
			return false;

		/*
		 * No page has the value of rows from before the column was added.  A column that is added,
		 * rolled back and added again may have another value, but the same number and file.
		 */
		if (att->atthasmissing)
		{
			bool		isnull;
			Datum		value = getmissingattr(desc, att->attnum, &isnull);

			if (!isnull)
				missing = datum_image_hash(value, att->attbyval, att->attlen) | 1;
		}
		column->input = type->btree_opintype;
		column->tag = (MtpPagedirTag)
		{
			.attnum = att->attnum,.type = att->atttypid,.typmod = att->atttypmod,
				.collation = att->attcollation,
				.version = hash_combine(hash_combine(collation_version(att->attcollation),
													 missing), order),
				.family = type->btree_opf
		};
		column->norm = mtp_norm_kind(type->cmp_proc, att->attcollation);
		fmgr_info(type->cmp_proc, &column->compare);
	}
	mtp_pagedir_layout(c);
	return true;
}

/* Values of two types have normalized keys in one space if both are integers, or both floats. */
static bool
share_norms(Oid a, Oid b)
{
	bool		ints = (a == INT2OID || a == INT4OID || a == INT8OID) &&
	(b == INT2OID || b == INT4OID || b == INT8OID);

	return a == b || ints || ((a == FLOAT4OID || a == FLOAT8OID) &&
							  (b == FLOAT4OID || b == FLOAT8OID));
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

	if (share_norms(input, right))
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
