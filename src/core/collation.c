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

/*
 * True if strcoll() has no rules for the locale: then glibc's is strcmp().  So are those of its own
 * C.UTF-8, which it has since 2.35.  What distributions had before knows the code points of its day
 * alone.
 */
static bool
has_no_rules(const char *locale)
{
#ifdef __GLIBC__
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
	return nrules.word == 0;
#else
	return false;
#endif
}

typedef struct Collation
{
	Oid			oid;
	bool		c_utf8;			/* C.UTF-8 of the C library */
	bool		by_bytes;
} Collation;

/*
 * A process remembers the last few: a collation stays what it is, and so do the process's
 * libraries.  So a batch's worker, which has looked before it claims anything, reads no catalog
 * here later.
 */
static Collation
look_up(Oid collation)
{
	static Collation known[8];
	static int	next = 0;
	Collation	c = {.oid = collation};

	for (int i = 0; i < lengthof(known); i++)
		if (known[i].oid == collation)
			return known[i];
	if (MtpCollationIsC(collation))
		c.by_bytes = true;
	else
	{
		char		provider;
		char	   *locale = mtp_collation_locale(collation, &provider);

		c.c_utf8 = locale != NULL && provider == COLLPROVIDER_LIBC &&
			(pg_strcasecmp(locale, "C.UTF-8") == 0 || pg_strcasecmp(locale, "C.utf8") == 0);
		c.by_bytes = c.c_utf8 && has_no_rules(locale);
		if (locale != NULL)
			pfree(locale);
	}
	known[next] = c;
	next = (next + 1) % lengthof(known);
	return c;
}

bool
mtp_collation_is_c_utf8(Oid collation)
{
	return OidIsValid(collation) && look_up(collation).c_utf8;
}

bool
mtp_collation_by_bytes(Oid collation)
{
	return OidIsValid(collation) && look_up(collation).by_bytes;
}
