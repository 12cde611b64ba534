/*
 * describe.c
 *	  Describes a B-link page for page_info.
 */
#include "blink/blink.h"

#include "blink/verify.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

static Datum
page_flags(uint16 flags)
{
	Datum		names[4];
	int			n = 0;

	if (flags & MTP_ROOT)
		names[n++] = CStringGetTextDatum("root");
	if (flags & MTP_INCOMPLETE)
		names[n++] = CStringGetTextDatum("incomplete_split");
	if (flags & MTP_SPLIT_END)
		names[n++] = CStringGetTextDatum("split_end");
	if (flags & MTP_HAS_DEAD)
		names[n++] = CStringGetTextDatum("has_dead");
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * A pivot as text: (1, foo), with null for NULL, -inf for each attribute that it lacks, and the TID
 * if it has one.
 */
static char *
pivot_text(Relation rel, IndexTuple itup)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = BTreeTupleGetNAtts(itup, rel);
	ItemPointer tid = BTreeTupleGetHeapTID(itup);
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(rel); i++)
	{
		Oid			output;
		bool		varlena;
		bool		null;
		Datum		value;

		appendStringInfoString(&buf, i == 0 ? "(" : ", ");
		if (i >= natts)
		{
			appendStringInfoString(&buf, "-inf");
			continue;
		}
		value = index_getattr(itup, i + 1, tupdesc, &null);
		getTypeOutputInfo(TupleDescAttr(tupdesc, i)->atttypid, &output, &varlena);
		appendStringInfoString(&buf, null ? "null" : OidOutputFunctionCall(output, value));
	}
	if (tid != NULL)
		appendStringInfo(&buf, ", tid=(%u,%u)", ItemPointerGetBlockNumber(tid),
						 ItemPointerGetOffsetNumber(tid));
	appendStringInfoChar(&buf, ')');
	return buf.data;
}

static Datum
link_datum(BlockNumber blkno, bool *null)
{
	*null = blkno == InvalidBlockNumber;
	return Int64GetDatum((int64) blkno);
}

static void
describe_page(Relation rel, Page page, BlockNumber blkno, Datum *values, bool *nulls)
{
	static const char *const types[] = {
		[MTP_PAGE_META] = "meta",[MTP_PAGE_LEAF] = "leaf",
		[MTP_PAGE_INNER] = "inner",[MTP_PAGE_DELETED] = "deleted"
	};
	MtpPageHeader *h = MtpHeader(page);
	const char *type = h->type < lengthof(types) ? types[h->type] : NULL;
	const char *fault;
	int			dead = 0,
				tids = 0,
				lists = 0;

	values[MTP_INFO_TYPE] = CStringGetTextDatum(type ? type : "unknown");
	nulls[MTP_INFO_TYPE] = false;
	values[MTP_INFO_FLAGS] = page_flags(h->flags);
	values[MTP_INFO_FORMAT] = Int32GetDatum(h->format);
	values[MTP_INFO_LEVEL] = Int32GetDatum(h->type == MTP_PAGE_META ?
										   MtpBlinkMetaOf(page)->level : h->level);
	nulls[MTP_INFO_FLAGS] = nulls[MTP_INFO_FORMAT] = nulls[MTP_INFO_LEVEL] = false;
	values[MTP_INFO_LEFT] = link_datum(h->left, &nulls[MTP_INFO_LEFT]);
	values[MTP_INFO_RIGHT] = link_datum(h->right, &nulls[MTP_INFO_RIGHT]);
	fault = mtp_page_fault(page, NULL);
	if (fault != NULL)
	{
		ereport(WARNING,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" is corrupted",
						blkno, RelationGetRelationName(rel)),
				 errdetail("The %s.", fault)));
		return;
	}
	if (h->type != MTP_PAGE_LEAF && h->type != MTP_PAGE_INNER)
		return;

	for (int i = 0; i < h->nnodes; i++)
		for (int j = 0; j < MtpCounts(page)[i]; j++)
		{
			IndexTuple	itup = mtp_slot_body(page, i, j);
			int			n = h->type == MTP_PAGE_LEAF ? mtp_item_entries(itup) : 0;

			tids += n;
			lists += n > 1;
			if (mtp_slot_dead(page, i, j))
				dead += Max(n, 1);
			else if (n > 1 && mtp_list_fault(itup) == NULL)
				dead += MtpListHeadOf(itup)->dead;
		}
	values[MTP_INFO_ITEMS] = Int32GetDatum(h->nitems);
	if (h->type == MTP_PAGE_LEAF)
	{
		values[MTP_INFO_TIDS] = Int32GetDatum(tids);
		values[MTP_INFO_LISTS] = Int32GetDatum(lists);
		nulls[MTP_INFO_TIDS] = nulls[MTP_INFO_LISTS] = false;
	}
	values[MTP_INFO_DEAD] = Int32GetDatum(dead);
	values[MTP_INFO_FREE] = Int32GetDatum((int32) mtp_page_free(page));
	nulls[MTP_INFO_ITEMS] = nulls[MTP_INFO_DEAD] = nulls[MTP_INFO_FREE] = false;
	if (h->highkey != 0 && mtp_blink_pivot_fault(rel, MtpHighKey(page)) == NULL)
	{
		values[MTP_INFO_HIGHKEY] = CStringGetTextDatum(pivot_text(rel, MtpHighKey(page)));
		nulls[MTP_INFO_HIGHKEY] = false;
	}
}

static const MtpInspectOps blink_inspect = {
	.ambuild = mtp_blink_build,
	.verify = mtp_blink_verify,
	.matches = mtp_blink_verify_matches,
	.find = mtp_blink_verify_find,
	.check_row = mtp_blink_verify_row,
	.describe = describe_page
};

void
mtp_blink_inspect_init(void)
{
	mtp_inspect_register(&blink_inspect);
}
