/*
 * explain.c
 *	  Says in EXPLAIN what directories a scan asks, and with ANALYZE how its pages were read.
 */
#include "dirscan/dirscan.h"

#include "commands/explain.h"

/* The columns of the table's directories, as far as the scan's clauses ask them; else nothing. */
static void
explain_columns(MtpScanState *s, ExplainState *es)
{
	Relation	table = s->css.ss.ss_currentRelation;
	AttrNumber	attnums[MTP_DIRECTORY_COLUMNS];
	int			n;
	List	   *names = NIL;

	if (mtp_scan_asking(table, s->clauses, &n, attnums) == NIL)
		return;
	for (int i = 0; i < n; i++)
		names = lappend(names, NameStr(TupleDescAttr(RelationGetDescr(table), attnums[i] - 1)->attname));
	ExplainPropertyList("Directory", names, es);
}

void
mtp_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	MtpScanState *s = (MtpScanState *) node;
	uint64	   *counts = s->counts;

	explain_columns(s, es);
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Pages", psprintf(UINT64_FORMAT " by directory, " UINT64_FORMAT " skipped, " UINT64_FORMAT " scanned",
											  counts[MTP_SCAN_ASKED], counts[MTP_SCAN_SKIPPED], counts[MTP_SCAN_READ]), es);
		return;
	}
	ExplainPropertyUInteger("Pages by Directory", NULL, counts[MTP_SCAN_ASKED], es);
	ExplainPropertyUInteger("Pages Skipped", NULL, counts[MTP_SCAN_SKIPPED], es);
	ExplainPropertyUInteger("Pages Scanned", NULL, counts[MTP_SCAN_READ], es);
}
