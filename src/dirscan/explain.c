/*
 * explain.c
 *	  Shows in EXPLAIN which directories a scan asks, and with ANALYZE how it read its pages.
 */
#include "dirscan/dirscan.h"

#include "commands/explain.h"

void
mtp_dirscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	MtpDirscanState *s = (MtpDirscanState *) node;
	Relation	table = s->css.ss.ss_currentRelation;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	uint64	   *counts = s->counts;
	int			n;

	if (mtp_dirscan_asking(table, s->clauses, &n, attnums) != NIL)
	{
		TupleDesc	desc = RelationGetDescr(table);
		List	   *names = NIL;

		for (int i = 0; i < n; i++)
			names = lappend(names, NameStr(TupleDescAttr(desc, attnums[i] - 1)->attname));
		ExplainPropertyList("Directory", names, es);
	}
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		char	   *pages = psprintf(UINT64_FORMAT " by directory, " UINT64_FORMAT " skipped, "
									 UINT64_FORMAT " scanned", counts[MTP_DIRSCAN_ASKED],
									 counts[MTP_DIRSCAN_SKIPPED], counts[MTP_DIRSCAN_READ]);

		ExplainPropertyText("Pages", pages, es);
		return;
	}
	ExplainPropertyUInteger("Pages by Directory", NULL, counts[MTP_DIRSCAN_ASKED], es);
	ExplainPropertyUInteger("Pages Skipped", NULL, counts[MTP_DIRSCAN_SKIPPED], es);
	ExplainPropertyUInteger("Pages Scanned", NULL, counts[MTP_DIRSCAN_READ], es);
}
