/*
 * demand.c
 *	  Counts scans of a table from SQL, as if they had been executed, and asks for directories; says which there are: for tests.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "buffer/pair.h"
#include "pagedir/request.h"
#include "pagedir/learn.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(demand_count);

/* demand_count(relation, columns' numbers): one scan with clauses on these.  Whether there are such columns is not looked at. */
Datum
demand_count(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	Datum	   *elements;
	int			n;
	AttrNumber	attnums[MTP_LEARN_ASKED];
	MemoryContext query = AllocSetContextCreate(CurrentMemoryContext, "execution", ALLOCSET_SMALL_SIZES);

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT2OID, 2, true, TYPALIGN_SHORT, &elements, NULL, &n);
	if (n > lengthof(attnums))
		elog(ERROR, "%d columns", n);
	for (int i = 0; i < n; i++)
		attnums[i] = DatumGetInt16(elements[i]);
	mtp_pagedir_learn_count(rel, query, n, attnums);
	MemoryContextDelete(query);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(directory_ask);
PG_FUNCTION_INFO_V1(directory_frames);
PG_FUNCTION_INFO_V1(directory_pairs);

/* The pairs up to the last page with rows: since PostgreSQL 16 a load leaves some behind that have none. */
static uint32
pairs_with_rows(Relation rel)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	bool		empty = true;

	while (blocks > 0 && empty)
	{
		Buffer		buf = ReadBuffer(rel, blocks - 1);

		LockBuffer(buf, BUFFER_LOCK_SHARE);
		empty = PageIsNew(BufferGetPage(buf)) || PageIsEmpty(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
		if (empty)
			blocks--;
	}
	return (blocks + 1) / 2;
}

/* directory_pairs(relation): so many */
Datum
directory_pairs(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	uint32		n = pairs_with_rows(rel);

	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(n);
}

/* directory_ask(relation, from, to): as if a scan had read these pairs page by page. */
Datum
directory_ask(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);

	for (int pair = PG_GETARG_INT32(1); pair <= PG_GETARG_INT32(2); pair++)
		mtp_pagedir_request(rel, pair);
	mtp_pagedir_request_flush();
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * directory_frames(relation): how many of its pairs have directories, by columns: "a,b:12 empty:1 none:3".  In the order in which they are met.
 */
Datum
directory_frames(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	uint32		npairs = pairs_with_rows(rel);
	char		kinds[8][200];
	int			counts[8] = {0};
	int			nkinds = 0;
	StringInfoData out;

	for (uint32 pair = 0; pair < npairs; pair++)
	{
		MtpPagedirHeader head = {0};
		MtpFrameRef ref;
		char		kind[200] = "none";
		int			i = 0;

		if (mtp_pair_find(rel, pair, MTP_FRAME_PAGEDIR, 0, sizeof(head), &ref))
		{
			memcpy(&head, ref.image, sizeof(head));
			strcpy(kind, !mtp_frame_still(&mtp_buffer, &ref) ? "torn" : head.format != MTP_PAGEDIR_FORMAT ? "empty" : "");
		}
		for (int c = 0; kind[0] == '\0' || kind[strlen(kind) - 1] == ','; c++)
			snprintf(kind + strlen(kind), 100, "%s%s", NameStr(TupleDescAttr(RelationGetDescr(rel), head.column[c].tag.attnum - 1)->attname), c + 1 < head.ncolumns ? "," : "");
		while (i < nkinds && strcmp(kinds[i], kind) != 0)
			i++;
		if (i == lengthof(kinds))
			continue;
		if (i == nkinds)
			strcpy(kinds[nkinds++], kind);
		counts[i]++;
	}
	relation_close(rel, AccessShareLock);
	initStringInfo(&out);
	for (int i = 0; i < nkinds; i++)
		appendStringInfo(&out, "%s%s:%d", i == 0 ? "" : " ", kinds[i], counts[i]);
	PG_RETURN_TEXT_P(cstring_to_text(out.data));
}
