/*
 * damage.c
 *	  Damages pages of a relation in the buffers, and puts them back: for tests of damaged indexes.
 *
 * No WAL is written.  What damage_save has copied is kept for the session.
 */
#include "postgres.h"

#include "core/core.h"

#include "access/relation.h"
#include "catalog/storage.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(damage_save);
PG_FUNCTION_INFO_V1(damage_restore);
PG_FUNCTION_INFO_V1(damage_bytes);
PG_FUNCTION_INFO_V1(damage_page);
PG_FUNCTION_INFO_V1(damage_truncate);

typedef struct Saved
{
	struct Saved *next;
	Oid			relid;
	BlockNumber nblocks;
	char	   *pages;
} Saved;

static Saved *saved;

static Saved *
find_saved(Oid relid)
{
	for (Saved *s = saved; s != NULL; s = s->next)
		if (s->relid == relid)
			return s;
	elog(ERROR, "relation %u was not saved", relid);
}

/* Locked exclusively; the relation grows as far as needed. */
static Buffer
get_page(Relation rel, BlockNumber blkno)
{
	Buffer		buf;

	while (RelationGetNumberOfBlocks(rel) <= blkno)
		ReleaseBuffer(ReadBuffer(rel, P_NEW));
	buf = ReadBuffer(rel, blkno);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	return buf;
}

static void
put_page(Relation rel, BlockNumber blkno, const char *page)
{
	Buffer		buf = get_page(rel, blkno);

	if (memcmp(BufferGetPage(buf), page, BLCKSZ) != 0)
	{
		memcpy(BufferGetPage(buf), page, BLCKSZ);
		MarkBufferDirty(buf);
	}
	UnlockReleaseBuffer(buf);
}

/* Sessions forget what they have cached of its metapage, and the buffer forgets its pages: nothing told it of the change. */
static void
done(Relation rel)
{
	void		(*purge) (MtpLocator) = (void (*) (MtpLocator)) load_external_function("mtpower", "mtp_buffer_purge_file", true, NULL);

	purge(MtpRelLocator(rel));
	CacheInvalidateRelcache(rel);
	relation_close(rel, NoLock);
}

/* damage_save(relation): returns its contents */
Datum
damage_save(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Saved	   *s = MemoryContextAlloc(TopMemoryContext, sizeof(Saved));
	bytea	   *result;
	Size		size;

	s->relid = RelationGetRelid(rel);
	s->nblocks = RelationGetNumberOfBlocks(rel);
	size = (Size) s->nblocks * BLCKSZ;
	s->pages = MemoryContextAlloc(TopMemoryContext, size);
	for (BlockNumber i = 0; i < s->nblocks; i++)
	{
		Buffer		buf = get_page(rel, i);

		memcpy(s->pages + (Size) i * BLCKSZ, BufferGetPage(buf), BLCKSZ);
		UnlockReleaseBuffer(buf);
	}
	s->next = saved;
	saved = s;
	result = palloc(size + VARHDRSZ);
	SET_VARSIZE(result, size + VARHDRSZ);
	memcpy(VARDATA(result), s->pages, size);
	relation_close(rel, NoLock);
	PG_RETURN_BYTEA_P(result);
}

/* damage_restore(relation): as it was saved */
Datum
damage_restore(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Saved	   *s = find_saved(RelationGetRelid(rel));

	if (RelationGetNumberOfBlocks(rel) > s->nblocks)
		RelationTruncate(rel, s->nblocks);
	for (BlockNumber i = 0; i < s->nblocks; i++)
		put_page(rel, i, s->pages + (Size) i * BLCKSZ);
	done(rel);
	PG_RETURN_VOID();
}

/* damage_bytes(relation, at, bytes): at byte `at` of the file */
Datum
damage_bytes(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);
	int64		at = PG_GETARG_INT64(1);
	bytea	   *bytes = PG_GETARG_BYTEA_PP(2);
	Buffer		buf = get_page(rel, at / BLCKSZ);

	if (at % BLCKSZ + VARSIZE_ANY_EXHDR(bytes) > BLCKSZ)
		elog(ERROR, "bytes beyond the page");
	memcpy((char *) BufferGetPage(buf) + at % BLCKSZ, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	MarkBufferDirty(buf);
	UnlockReleaseBuffer(buf);
	done(rel);
	PG_RETURN_VOID();
}

/* damage_page(relation, block, of, its block): gets a page that was saved of a relation */
Datum
damage_page(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Saved	   *s = find_saved(PG_GETARG_OID(2));

	put_page(rel, PG_GETARG_INT64(1), s->pages + (Size) (PG_GETARG_INT64(3) % s->nblocks) * BLCKSZ);
	done(rel);
	PG_RETURN_VOID();
}

/* damage_truncate(relation, blocks) */
Datum
damage_truncate(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);

	RelationTruncate(rel, PG_GETARG_INT64(1));
	done(rel);
	PG_RETURN_VOID();
}
