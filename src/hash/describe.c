/*
 * describe.c
 *	  Describes a hash index's page for page_info.
 */
#include "hash/hash.h"

#include "catalog/pg_type.h"
#include "hash/verify.h"
#include "utils/array.h"
#include "utils/builtins.h"

typedef struct Flags
{
	int			n;
	Datum		texts[5 + MTP_HASH_MAX_HEAVY];
} Flags;

static void
add_flag(Flags *f, const char *words)
{
	f->texts[f->n++] = CStringGetTextDatum(words);
}

/*
 * Adds what the flags column shows: of the metapage the index in the terms of linear hashing, of
 * a bucket's pages its number, and its heavy hashes: how many, then each with the first page of
 * its chain.
 */
static void
add_flags(Page page, Flags *f)
{
	const MtpHashHeader *h = MtpHashHead(page);
	const MtpHashHeavy *heavy = MtpHashPrimaryOf(page)->heavy;
	const MtpHashMeta *meta = MtpHashMetaOf(page);
	int			capacity = MTP_HASH_CAP(MTP_HASH_BUCKET);

	if (h->type == MTP_HASH_META)
	{
		add_flag(f, psprintf("N=%u", meta->space.level));
		add_flag(f, psprintf("P0=%u", meta->space.next));
		add_flag(f, psprintf("M=%u", meta->space.initial));
		add_flag(f, psprintf("K=%.2f", (double) meta->per_bucket / capacity));
		add_flag(f, psprintf("b=%d", capacity));
		add_flag(f, psprintf("B=%u", mtp_hash_space_size(&meta->space)));
		add_flag(f, psprintf("entries=" UINT64_FORMAT, meta->entries));
		return;
	}
	add_flag(f, psprintf("bucket=%u", h->bucket));
	if (h->type == MTP_HASH_BUCKET)
	{
		add_flag(f, psprintf("heavy=%u", h->nheavy));
		for (int i = 0; i < h->nheavy; i++)
			add_flag(f, psprintf("%08x@%u", heavy[i].hash, heavy[i].first));
	}
	if (h->source != InvalidBlockNumber)
		add_flag(f, psprintf("source=%u", h->source));
	if (h->flags & MTP_HASH_HAS_DEAD)
		add_flag(f, "has_dead");
}

static void
set_column(Datum *values, bool *nulls, int column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

static void
describe_page(Relation rel, Page page, BlockNumber blkno, Datum *values, bool *nulls)
{
	static const char *const types[] = {"meta", "bucket", "stash", "free"};
	MtpHashHeader *h = MtpHashHead(page);
	bool		known = h->type >= MTP_HASH_META && h->type <= MTP_HASH_FREE;
	Flags		flags = {0};
	const char *fault;
	int			at;
	int			dead = 0;

	set_column(values, nulls, MTP_INFO_TYPE,
			   CStringGetTextDatum(known ? types[h->type - MTP_HASH_META] : "unknown"));
	set_column(values, nulls, MTP_INFO_FORMAT, Int32GetDatum(h->format));
	fault = mtp_hash_bucket_fault(page, &at);
	if (fault != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" is corrupted", blkno,
						RelationGetRelationName(rel)),
				 errdetail("%c%s.", pg_toupper((unsigned char) fault[0]), fault + 1)));
	else if (h->type != MTP_HASH_FREE)
		add_flags(page, &flags);
	if (fault == NULL && (h->type == MTP_HASH_BUCKET || h->type == MTP_HASH_STASH))
	{
		for (int i = 0; i < h->n; i++)
			dead += MtpHashFps(page)[i] == MTP_FP_DEAD;
		set_column(values, nulls, MTP_INFO_LEVEL, Int32GetDatum(0));
		set_column(values, nulls, MTP_INFO_ITEMS, Int32GetDatum(h->n));
		set_column(values, nulls, MTP_INFO_DEAD, Int32GetDatum(dead));
		set_column(values, nulls, MTP_INFO_FREE,
				   Int32GetDatum(mtp_hash_bucket_room(page) * (int) (1 + sizeof(MtpHashEntry))));
		set_column(values, nulls, MTP_INFO_HIGHKEY,
				   CStringGetTextDatum(psprintf("%08x..%08x", h->lo, h->hi)));
		if (h->next != InvalidBlockNumber)
			set_column(values, nulls, MTP_INFO_RIGHT, Int64GetDatum((int64) h->next));
	}
	set_column(values, nulls, MTP_INFO_FLAGS,
			   PointerGetDatum(construct_array(flags.texts, flags.n, TEXTOID, -1, false,
											   TYPALIGN_INT)));
}

static const MtpInspectOps hash_inspect = {
	.ambuild = mtp_hash_build,
	.verify = mtp_hash_verify,
	.matches = mtp_hash_verify_matches,
	.find = mtp_hash_verify_find,
	.check_row = mtp_hash_verify_row,
	.rows_done = mtp_hash_verify_rows_done,
	.describe = describe_page
};

void
mtp_hash_inspect_init(void)
{
	mtp_inspect_register(&hash_inspect);
}
