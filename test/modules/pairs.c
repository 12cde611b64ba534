/*
 * pairs.c
 *	  Gives a table's pairs of blocks their directories at once, from SQL: for tests, which need not wait for those who do it while the server runs.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "buffer/pair.h"
#include "pagedir/pagedir.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(pairs_build);
PG_FUNCTION_INFO_V1(pairs_have);

static bool
written(TransactionId xmin)
{
	return TransactionIdIsCurrentTransactionId(xmin) || TransactionIdIsInProgress(xmin) || TransactionIdDidCommit(xmin);
}

/* pairs_build(relation, first pair, last pair, columns): builds those that are missing, in frames of the larger size; returns how many. */
Datum
pairs_build(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	int64		last = Min(PG_GETARG_INT32(2), ((int64) nblocks + 1) / 2 - 1);
	char	   *copy = palloc0(2 * BLCKSZ);
	char	   *directory = (char *) TYPEALIGN(MTP_PAGEDIR_ALIGN, palloc(MTP_PAGEDIR_MOST + MTP_PAGEDIR_ALIGN));
	MtpPagedirColumns c = {.written = written};
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	Datum	   *names;
	int			n;
	int64		built = 0;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(3), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, NULL, &n);
	for (int i = 0; i < n; i++)
		attnums[i] = get_attnum(RelationGetRelid(rel), NameStr(*DatumGetName(names[i])));
	if (!mtp_pagedir_describe(&c, RelationGetDescr(rel), n, attnums))
		elog(ERROR, "no directories of these columns");
	for (int64 pair = PG_GETARG_INT32(1); pair <= last; pair++)
	{
		MtpFrameRef ref;
		Size		size;
		int			kind = MTP_FRAME_PAGEDIR;

		CHECK_FOR_INTERRUPTS();
		/* As pages that are known to be warm: these do not rest. */
		if (!mtp_pair_reserve(rel, pair, &kind, nblocks, NULL, true, MTP_HEAT_ONE, copy, &ref))
			continue;
		size = mtp_pagedir_build(&c, copy, Min(2, nblocks - 2 * pair), directory);
		if (mtp_pair_fill(rel, pair, &ref, directory, size) && size > 0)
			built++;
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(built);
}

/* pairs_have(relation): how many of its pairs have directories */
Datum
pairs_have(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	int64		npairs = ((int64) RelationGetNumberOfBlocks(rel) + 1) / 2;
	int64		have = 0;

	for (int64 pair = 0; pair < npairs; pair++)
		have += mtp_pair_has(rel, pair, MTP_FRAME_PAGEDIR);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(have);
}
