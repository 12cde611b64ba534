/*
 * announce.c
 *	  Tells whoever adopts a table which of its indexes will be fed in batches, and what the cluster
 *	  needs from then on.
 */
#include "core/core.h"

#include "access/genam.h"
#include "batch/batch.h"
#include "commands/defrem.h"
#include "table/table.h"

/* Why entries of the index never come in batches, or NULL. */
static const char *
why_at_once(Relation index)
{
	if (!mtp_batch_serves(index))
		return psprintf("access method %s", get_am_name(index->rd_rel->relam));
	if (index->rd_index->indisexclusion)
		return "exclusion constraint";
	if (!index->rd_index->indimmediate)
		return "deferrable constraint";
	return NULL;
}

void
mtp_table_announce(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	int			n = list_length(indexes);
	int			batched = 0;
	StringInfoData others;
	ListCell   *lc;

	/* Entries of temporary tables go in at once. */
	if (n == 0 || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	initStringInfo(&others);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		const char *reason = why_at_once(index);

		if (reason == NULL)
			batched++;
		else
			appendStringInfo(&others, "%s\"%s\" (%s)", others.len > 0 ? ", " : "",
							 RelationGetRelationName(index), reason);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	ereport(NOTICE,
			(errmsg_plural("bulk loads of table \"%s\" batch the entries of %d of %d index",
						   "bulk loads of table \"%s\" batch the entries of %d of %d indexes",
						   n, RelationGetRelationName(rel), batched, n),
			 others.len > 0 ? errdetail("Not in batches: %s.", others.data) : 0,
			 batched > 0 && rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT ?
			 errhint("Recovery and standbys need mtpower in shared_preload_libraries then.") : 0));
	pfree(others.data);
}
