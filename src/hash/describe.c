/*
 * describe.c
 *	  A hash index's page as page_info shows it.
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

static void add_flag(Flags *f, const char *fmt,...) pg_attribute_printf(2, 3);

static void
add_flag(Flags *f, const char *fmt,...)
{
	char text[	64];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	f->texts[f->n++] = CStringGetTextDatum(text);
}

/* The index as the metapage has it, in the terms of linear hashing. */
static void
meta_flags(const MtpHashMeta *meta, Flags *f)
{
	int			capacity = MTP_HASH_CAP(MTP_HASH_BUCKET);

	add_flag(f, "N=%u", meta->space.level);
	add_flag(f, "P0=%u", meta->space.next);
	add_flag(f, "M=%u", meta->space.initial);
	add_flag(f, "K=%.2f", (double) meta->per_bucket / capacity);
	add_flag(f, "b=%d", capacity);
	add_flag(f, "B=%u", mtp_hash_space_size(&meta->space));
	add_flag(f, "entries=" UINT64_FORMAT, meta->entries);
}

/* heavy: the number of heavy hashes, then each with the first page of its chain. */
static void
bucket_flags(Page page, Flags *f)
{
	const MtpHashHeader *h = MtpHashHead(page);
	const MtpHashHeavy *heavy = MtpHashPrimaryOf(page)->heavy;

	add_flag(f, "bucket=%u", h->bucket);
	if (h->type == MTP_HASH_BUCKET)
	{
		add_flag(f, "heavy=%u", h->nheavy);
		for (int i = 0; i < h->nheavy; i++)
			add_flag(f, "%08x@%u", heavy[i].hash, heavy[i].first);
	}
	if (h->source != InvalidBlockNumber)
		add_flag(f, "source=%u", h->source);
	if (h->flags & MTP_HASH_HAS_DEAD)
		add_flag(f, "has_dead");
}

static const char *
page_type(uint8 type)
{
	switch (type)
	{
		case MTP_HASH_META:
			return "meta";
		case MTP_HASH_BUCKET:
			return "bucket";
		case MTP_HASH_STASH:
			return "stash";
		case MTP_HASH_FREE:
			return "free";
	}
	return "unknown";
}

static void
set(Datum *values, bool *nulls, int column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

/* What pages with entries have. */
static void
describe_entries(Page page, Datum *values, bool *nulls)
{
	MtpHashHeader *h = MtpHashHead(page);
	int			dead = 0;

	for (int i = 0; i < h->n; i++)
		dead += MtpHashFps(page)[i] == MTP_FP_DEAD;
	set(values, nulls, MTP_INFO_LEVEL, Int32GetDatum(0));
	set(values, nulls, MTP_INFO_ITEMS, Int32GetDatum(h->n));
	set(values, nulls, MTP_INFO_DEAD, Int32GetDatum(dead));
	set(values, nulls, MTP_INFO_FREE,
		Int32GetDatum(mtp_hash_bucket_room(page) * (int) (1 + sizeof(MtpHashEntry))));
	set(values, nulls, MTP_INFO_HIGHKEY,
		CStringGetTextDatum(psprintf("%08x..%08x", h->lo, h->hi)));
	if (h->next != InvalidBlockNumber)
		set(values, nulls, MTP_INFO_RIGHT, Int64GetDatum((int64) h->next));
}

static void
describe_page(Relation rel, Page page, BlockNumber blkno, Datum *values, bool *nulls)
{
	MtpHashHeader *h = MtpHashHead(page);
	Flags		flags = {0};
	const char *fault;
	int			at;

	set(values, nulls, MTP_INFO_TYPE, CStringGetTextDatum(page_type(h->type)));
	set(values, nulls, MTP_INFO_FORMAT, Int32GetDatum(h->format));
	fault = mtp_hash_bucket_fault(page, &at);
	if (fault != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" is corrupted", blkno, RelationGetRelationName(rel)),
				 errdetail("%c%s.", pg_toupper((unsigned char) fault[0]), fault + 1)));
	else if (h->type == MTP_HASH_META)
		meta_flags(MtpHashMetaOf(page), &flags);
	else if (h->type != MTP_HASH_FREE)
	{
		bucket_flags(page, &flags);
		describe_entries(page, values, nulls);
	}
	set(values, nulls, MTP_INFO_FLAGS,
		PointerGetDatum(construct_array(flags.texts, flags.n, TEXTOID, -1, false, TYPALIGN_INT)));
}

static const MtpInspectOps hash_inspect = {
	.ambuild = mtp_hash_build,
	.verify = mtp_hash_verify,
	.matches = mtp_hash_verify_matches,
	.check_row = mtp_hash_verify_row,
	.rows_done = mtp_hash_verify_rows_done,
	.describe = describe_page
};

/* Only from _PG_init. */
void
mtp_hash_inspect_init(void)
{
	mtp_inspect_register(&hash_inspect);
}
