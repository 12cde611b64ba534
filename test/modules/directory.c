/*
 * directory.c
 *	  Directories of a table's pages, made and searched from SQL: for tests.
 *
 * The functions are mtpower's own, in the library that the server has loaded.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "pagedir/pagedir.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(directory_make);
PG_FUNCTION_INFO_V1(directory_search);

typedef struct Pair
{
	int			nblocks;
	Size		size;
	char	   *image;
	char	   *directory;
} Pair;

static MemoryContext kept;
static Pair *pairs;
static int	npairs;

static bool
written(TransactionId xmin)
{
	return TransactionIdIsCurrentTransactionId(xmin) || TransactionIdIsInProgress(xmin) || TransactionIdDidCommit(xmin);
}

static bool
describe(Relation rel, ArrayType *names, MtpPagedirColumns *c)
{
	Datum	   *elements;
	int			n;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];

	deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elements, NULL, &n);
	if (n < 1 || n > MTP_PAGEDIR_COLUMNS)
		elog(ERROR, "%d columns", n);
	for (int i = 0; i < n; i++)
	{
		attnums[i] = get_attnum(RelationGetRelid(rel), NameStr(*DatumGetName(elements[i])));
		if (attnums[i] <= 0)
			elog(ERROR, "there is no column \"%s\"", NameStr(*DatumGetName(elements[i])));
	}
	memset(c, 0, sizeof(*c));
	c->written = written;
	return mtp_pagedir_describe(c, RelationGetDescr(rel), n, attnums);
}

static void
copy_block(Relation rel, BlockNumber block, char *to)
{
	Buffer		buf = ReadBuffer(rel, block);

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(to, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);
}

/*
 * directory_make(relation, columns): directories of all pairs of its blocks, kept for the session.  Returns "pairs sorted nulls others bytes", or NULL if these
 * columns can have none; pairs that got none are not counted.
 */
Datum
directory_make(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	MtpPagedirColumns c;
	MemoryContext build;
	int64		made = 0,
				sorted = 0,
				nulls = 0,
				others = 0,
				bytes = 0;

	if (!describe(rel, PG_GETARG_ARRAYTYPE_P(1), &c))
	{
		relation_close(rel, AccessShareLock);
		PG_RETURN_NULL();
	}
	if (kept == NULL)
		kept = AllocSetContextCreate(TopMemoryContext, "directories", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(kept);
	npairs = (nblocks + 1) / 2;
	pairs = MemoryContextAllocZero(kept, Max(npairs, 1) * sizeof(Pair));
	build = AllocSetContextCreate(CurrentMemoryContext, "directory's build", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < npairs; i++)
	{
		Pair	   *p = &pairs[i];
		MemoryContext old;

		p->nblocks = Min(2, nblocks - 2 * i);
		p->image = MemoryContextAllocZero(kept, 2 * BLCKSZ);
		p->directory = (char *) TYPEALIGN(MTP_PAGEDIR_ALIGN, MemoryContextAlloc(kept, MTP_PAGEDIR_MOST + MTP_PAGEDIR_ALIGN));
		for (int half = 0; half < p->nblocks; half++)
			copy_block(rel, 2 * i + half, p->image + half * BLCKSZ);
		old = MemoryContextSwitchTo(build);
		p->size = mtp_pagedir_build(&c, p->image, p->nblocks, p->directory);
		MemoryContextSwitchTo(old);
		MemoryContextReset(build);
		if (p->size > 0)
		{
			MtpPagedirHeader *head = (MtpPagedirHeader *) p->directory;

			made++;
			sorted += head->nsorted;
			nulls += head->nnulls;
			others += head->nothers;
			bytes += p->size;
		}
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%lld %lld %lld %lld %lld", (long long) made, (long long) sorted, (long long) nulls,
											  (long long) others, (long long) bytes)));
}

static bool
is_still(void *arg)
{
	return true;
}

/*
 * A key: "column operator [value [type]]".  The column is a number, from 1; the operator one of btree's, NULL or NOTNULL; the value is of the type, or of the
 * column's.
 */
static void
make_key(MtpPagedirColumns *c, Datum *parts, bool *nulls, MtpPagedirKey *key)
{
	int			column = pg_strtoint32(TextDatumGetCString(parts[0])) - 1;
	char	   *what = TextDatumGetCString(parts[1]);
	List	   *name = list_make1(makeString(what));
	MtpPagedirTag *tag = &c->column[column].tag;
	Oid			own = c->column[column].input;
	Oid			type = tag->type;
	Oid			input,
				ioparam,
				op;

	if (strcmp(what, "NULL") == 0 || strcmp(what, "NOTNULL") == 0)
	{
		mtp_pagedir_key_null(column, what[1] == 'U', key);
		return;
	}
	if (!nulls[3])
		type = DatumGetObjectId(DirectFunctionCall1(regtypein, CStringGetDatum(TextDatumGetCString(parts[3]))));
	op = OpernameGetOprid(name, own, type);
	if (!OidIsValid(op))
		op = OpernameGetOprid(name, own, own);
	getTypeInputInfo(type, &input, &ioparam);
	if (!mtp_pagedir_key(c, column, op, tag->collation,
						   OidInputFunctionCall(input, TextDatumGetCString(parts[2]), ioparam, nulls[3] ? tag->typmod : -1), key))
		elog(ERROR, "no key for operator %s", what);
}

/*
 * directory_search(relation, columns, VARIADIC keys): TIDs of the items that may match, in order; NULL if a directory is unusable.  Keys are four texts each.
 */
Datum
directory_search(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	ArrayType  *texts = PG_GETARG_ARRAYTYPE_P(2);
	MtpPagedirColumns c;
	MtpPagedirKey keys[16];
	int			nkeys;
	Datum	   *elements;
	bool	   *isnull;
	Datum	   *tids;
	int64		n = 0;

	if (!describe(rel, PG_GETARG_ARRAYTYPE_P(1), &c))
	{
		relation_close(rel, AccessShareLock);
		PG_RETURN_NULL();
	}
	deconstruct_array(texts, TEXTOID, -1, false, TYPALIGN_INT, &elements, &isnull, &nkeys);
	nkeys /= 4;
	if (nkeys > lengthof(keys))
		elog(ERROR, "%d keys", nkeys);
	for (int i = 0; i < nkeys; i++)
		make_key(&c, elements + 4 * i, isnull + 4 * i, &keys[i]);
	tids = palloc((npairs + 1) * MTP_PAGEDIR_ITEMS * sizeof(Datum));
	for (int i = 0; i < npairs; i++)
	{
		MtpPagedirItems items = {0};
		MtpPagedirFound found = mtp_pagedir_search(pairs[i].directory, pairs[i].size, &c, keys, nkeys, is_still, NULL, &items);

		if (found == MTP_PAGEDIR_UNUSABLE)
		{
			relation_close(rel, AccessShareLock);
			PG_RETURN_NULL();
		}
		if (found == MTP_PAGEDIR_CHANGED)
			elog(ERROR, "memory that is private has changed");
		for (int item = mtp_pagedir_next(&items, 0); item >= 0; item = mtp_pagedir_next(&items, item + 1))
		{
			ItemPointer tid = palloc(sizeof(ItemPointerData));

			if (found == MTP_PAGEDIR_NOTHING)
				elog(ERROR, "items where there is nothing");
			ItemPointerSet(tid, 2 * i + MtpItemHalf(item), MtpItemOffset(item));
			tids[n++] = PointerGetDatum(tid);
		}
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_ARRAYTYPE_P(construct_array(tids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
}
