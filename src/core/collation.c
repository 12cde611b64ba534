/*
 * collation.c
 *	  Tells the locale of a collation, and whether its order is that of bytes.
 */
#include "core/collation.h"

#include <langinfo.h>
#include <locale.h>

#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"

char *
mtp_collation_locale(Oid collation, char *provider)
{
	bool		is_default = collation == DEFAULT_COLLATION_OID;
	int			cache = is_default ? DATABASEOID : COLLOID;
	HeapTuple	tuple;
	AttrNumber	attnum;
	Datum		datum;
	bool		isnull;
	char	   *locale = NULL;

	tuple = SearchSysCache1(cache, ObjectIdGetDatum(is_default ? MyDatabaseId : collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	if (is_default)
	{
		*provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
		attnum = *provider == COLLPROVIDER_LIBC ? Anum_pg_database_datcollate :
			Anum_pg_database_datlocale;
	}
	else
	{
		*provider = ((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
		attnum = *provider == COLLPROVIDER_LIBC ? Anum_pg_collation_collcollate :
			Anum_pg_collation_colllocale;
	}
	datum = SysCacheGetAttr(cache, tuple, attnum, &isnull);
	if (!isnull)
		locale = TextDatumGetCString(datum);
	ReleaseSysCache(tuple);
	return locale;
}

/* The name of a collation's locale, palloc'd, if it is the C library's C.UTF-8; else NULL. */
static char *
c_utf8(Oid collation)
{
	char		provider;
	char	   *locale;

	if (!OidIsValid(collation) || MtpCollationIsC(collation))
		return NULL;
	locale = mtp_collation_locale(collation, &provider);
	if (locale == NULL || provider != COLLPROVIDER_LIBC ||
		(pg_strcasecmp(locale, "C.UTF-8") != 0 && pg_strcasecmp(locale, "C.utf8") != 0))
		return NULL;
	return locale;
}

bool
mtp_collation_is_c_utf8(Oid collation)
{
	char	   *locale = c_utf8(collation);

	if (locale == NULL)
		return false;
	pfree(locale);
	return true;
}

/*
 * True if strcoll() has no rules for the locale: then glibc's is strcmp().  So are those of its own
 * C.UTF-8, which it has since 2.35.  What distributions had before knows the code points of its day
 * alone.  A process keeps its locales, so this remembers the last one.
 */
static bool
has_no_rules(const char *locale)
{
#ifdef __GLIBC__
	static char known[16];
	static bool none;

	if (strcmp(known, locale) != 0)
	{
		locale_t	loc = newlocale(LC_COLLATE_MASK, locale, (locale_t) 0);
		union
		{
			const char *string;
			unsigned int word;
		}			nrules;

		if (loc == (locale_t) 0)
			elog(ERROR, "could not open locale \"%s\": %m", locale);
		nrules.string = nl_langinfo_l(_NL_COLLATE_NRULES, loc);
		freelocale(loc);
		none = nrules.word == 0;
		strlcpy(known, locale, sizeof(known));
	}
	return none;
#else
	return false;
#endif
}

bool
mtp_collation_by_bytes(Oid collation)
{
	char	   *locale;
	bool		bytes;

	if (!OidIsValid(collation))
		return false;
	if (MtpCollationIsC(collation))
		return true;
	locale = c_utf8(collation);
	if (locale == NULL)
		return false;
	bytes = has_no_rules(locale);
	pfree(locale);
	return bytes;
}
