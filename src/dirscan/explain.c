/*
 * explain.c
 *	  Shows in EXPLAIN which directories a scan asks, and with ANALYZE how it read its pages.
 */
#include "dirscan/dirscan.h"

#include "commands/explain.h"

/* Shows the columns of the table's directories, if clauses of the scan ask them. */
static void
explain_columns(MtpDirscanState *s, ExplainState *es)
{
	Relation	table = s->css.ss.ss_currentRelation;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	int			n;
	List	   *names = NIL;

	if (mtp_dirscan_asking(table, s->clauses, &n, attnums) == NIL)
		return;
	for (int i = 0; i < n; i++)
		names = lappend(names, NameStr(TupleDescAttr(RelationGetDescr(table),
													 attnums[i] - 1)->attname));
	ExplainPropertyList("Directory", names, es);
}

void
mtp_dirscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	MtpDirscanState *s = (MtpDirscanState *) node;
	uint64	   *counts = s->counts;

	explain_columns(s, es);
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Pages", psprintf(UINT64_FORMAT " by directory, " UINT64_FORMAT " skipped, " UINT64_FORMAT " scanned",
											  counts[MTP_DIRSCAN_ASKED],
											  counts[MTP_DIRSCAN_SKIPPED],
											  counts[MTP_DIRSCAN_READ]), es);
		return;
	}
	ExplainPropertyUInteger("Pages by Directory", NULL, counts[MTP_DIRSCAN_ASKED], es);
	ExplainPropertyUInteger("Pages Skipped", NULL, counts[MTP_DIRSCAN_SKIPPED], es);
	ExplainPropertyUInteger("Pages Scanned", NULL, counts[MTP_DIRSCAN_READ], es);
}
