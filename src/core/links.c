/*
 * links.c
 *	  Errors about damaged links and entries (links.h).
 */
#include "core/links.h"

void
mtp_link_fail(Relation rel, BlockNumber blkno, bool beyond)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 beyond ? errmsg("link in index \"%s\" leads to block %u, beyond its end",
							 RelationGetRelationName(rel), blkno)
			 : errmsg("links between pages of index \"%s\" lead to block %u more than once",
					  RelationGetRelationName(rel), blkno),
			 errhint("Please REINDEX it.")));
}

void
mtp_tid_fail(Relation index, BlockNumber blkno, Relation heap, const ItemPointerData *tid)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 heap == NULL ? errmsg("index \"%s\" contains an entry with an impossible TID at block %u",
								   RelationGetRelationName(index), blkno)
			 : errmsg("index \"%s\" contains an entry at block %u that leads to block %u, "
					  "beyond the end of table \"%s\"", RelationGetRelationName(index), blkno,
					  ItemPointerGetBlockNumberNoCheck(tid), RelationGetRelationName(heap)),
			 errhint("Please REINDEX it.")));
}
