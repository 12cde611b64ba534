/*
 * server.h
 *	  The few functions of the server that src/page calls, for a program that is not a server.
 *
 * Include once.  Errors end the program.  What differs between releases stands at the end.
 */
#include "access/detoast.h"
#include "access/itup.h"
#include "core/collation.h"
#include "storage/bufpage.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"

/* The C library's own, not the server's replacements. */
#undef vfprintf
#undef fprintf
#undef printf
#undef snprintf
#undef qsort

static void __attribute__((noreturn)) pg_attribute_printf(1, 2)
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errmsg_internal(const char *fmt,...)
{
	fprintf(stderr, "error: %s\n", fmt);
	return 0;
}

void
errfinish(const char *file, int line, const char *func)
{
	die("raised in %s, %s:%d", func, file, line);
}

void *
palloc(Size size)
{
	return malloc(size);
}

void
pfree(void *p)
{
	free(p);
}

void
PageInit(Page page, Size size, Size special)
{
	PageHeader	p = (PageHeader) page;

	MemSet(p, 0, size);
	p->pd_lower = SizeOfPageHeaderData;
	p->pd_upper = p->pd_special = size - MAXALIGN(special);
	PageSetPageSizeAndVersion(page, size, PG_PAGE_LAYOUT_VERSION);
}

int32
ItemPointerCompare(ItemPointer a, ItemPointer b)
{
	uint64		x = (uint64) ItemPointerGetBlockNumberNoCheck(a) << 16 | ItemPointerGetOffsetNumberNoCheck(a);
	uint64		y = (uint64) ItemPointerGetBlockNumberNoCheck(b) << 16 | ItemPointerGetOffsetNumberNoCheck(b);

	return (x > y) - (x < y);
}

IndexTuple
CopyIndexTuple(IndexTuple source)
{
	Size		size = IndexTupleSize(source);

	return memcpy(palloc(size), source, size);
}

/* "Compressed" values of the test hold their bytes as they are, behind the header. */
struct varlena *
detoast_attr_slice(struct varlena *attr, int32 offset, int32 length)
{
	int32		have;
	struct varlena *out;

	if (!VARATT_IS_COMPRESSED(attr))
		die("detoasted something that is not compressed");
	have = Max(0, Min(length, (int32) (VARSIZE_4B(attr) - VARHDRSZ_COMPRESSED) - offset));
	out = palloc(have + VARHDRSZ);
	SET_VARSIZE(out, have + VARHDRSZ);
	memcpy(VARDATA(out), (char *) attr + VARHDRSZ_COMPRESSED + offset, have);
	return out;
}

Oid
index_getprocid(Relation index, AttrNumber attnum, uint16 procnum)
{
	die("there is no catalog");
}

#if PG_VERSION_NUM >= 170000
void
ExceptionalCondition(const char *condition, const char *file, int line)
#else
void
ExceptionalCondition(const char *condition, const char *type, const char *file, int line)
#endif
{
	die("assertion failed: %s, %s:%d", condition, file, line);
}

bool
mtp_collation_by_bytes(Oid collation)
{
	die("there is no catalog");
}

/* A row type of n columns */
#if PG_VERSION_NUM >= 180000
#define TUPLE_DESC_SIZE(n) \
	(offsetof(struct TupleDescData, compact_attrs) + \
	 (n) * (sizeof(CompactAttribute) + sizeof(FormData_pg_attribute)))
#else
#define TUPLE_DESC_SIZE(n) \
	(offsetof(struct TupleDescData, attrs) + (n) * sizeof(FormData_pg_attribute))
#endif

/* All collations are C. */
#if PG_VERSION_NUM >= 180000
pg_locale_t
pg_newlocale_from_collation(Oid collation)
{
	static struct pg_locale_struct c = {.collate_is_c = true};

	return &c;
}

#ifdef USE_ASSERT_CHECKING
void
verify_compact_attribute(TupleDesc desc, int attnum)
{
}
#endif
#else
bool
lc_collate_is_c(Oid collation)
{
	return true;
}
#endif
