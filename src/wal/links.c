/*
 * links.c
 *	  Errors about entries that lead to no row there can be (links.h).
 */
#include "wal/links.h"

void
mtp_tid_fail(Relation index, BlockNumber blkno)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" contains an entry with an impossible TID at block %u",
					RelationGetRelationName(index), blkno),
			 errhint("Please REINDEX it.")));
	pg_unreachable();
}

void
mtp_tid_fail_beyond(Relation index, BlockNumber blkno, Relation heap, const ItemPointerData *tid)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" contains an entry at block %u that leads to block %u, beyond the end of table \"%s\"",
					RelationGetRelationName(index), blkno, ItemPointerGetBlockNumberNoCheck(tid),
					RelationGetRelationName(heap)),
			 errhint("Please REINDEX it.")));
	pg_unreachable();
}
