/*
 * load.c
 *	  Loads pages of one relation into frames.
 *
 * A page gets a frame as if it had been read: a free one, or that of a page which is colder by
 * some.  The caller holds locks on the relation and, of an index, its table (invariant W1).
 */
#include "warm/load.h"

#include "catalog/pg_class.h"
#include "core/identity.h"

bool
mtp_loader_takes(Relation rel)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_INDEX:
			return mtp_buffer_fits(rel) != NULL;
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
			return mtp_table_is_ours(rel);
		default:
			return false;
	}
}

void
mtp_loader_open(MtpLoader *l, Relation rel, BufferAccessStrategy strategy)
{
	memset(l, 0, sizeof(*l));
	l->rel = rel;
	l->is_index = rel->rd_rel->relkind == RELKIND_INDEX;

	/*
	 * An index that is being built or dropped has no readers, and dropping it does not lock its
	 * table: its pages may have no frames.
	 */
	if (l->is_index)
		l->serves = mtp_buffer_serves(rel) && rel->rd_index->indisvalid &&
			rel->rd_index->indisready && rel->rd_index->indislive;
	else
		l->serves = mtp_pair_serves(rel);
	if (!l->serves)
		return;
	l->nblocks = RelationGetNumberOfBlocks(rel);
	l->strategy = strategy;
	l->has_builder = !l->is_index && mtp_pagedir_builder_open(&l->builder, rel);
	if (l->has_builder)
		l->builder.strategy = strategy; /* rather than the builder's own, which goes with its
										 * context */
}

void
mtp_loader_close(MtpLoader *l)
{
	if (l->has_builder)
		mtp_pagedir_builder_close(&l->builder);
	mtp_pagedir_request_flush();
}

static MtpPageTag
tag_of(MtpLoader *l, BlockNumber block)
{
	return mtp_page_tag(MtpRelLocator(l->rel), block);
}

bool
mtp_loader_has(MtpLoader *l, int kind, BlockNumber block)
{
	return l->serves && mtp_frame_has(&mtp_buffer, tag_of(l, block), kind);
}

/* True if the relation can have this page.  A list may name others. */
static bool
can_load(MtpLoader *l, int kind, BlockNumber block)
{
	return l->serves && block < l->nblocks && l->is_index == (kind == MTP_FRAME_INDEX) &&
		(kind == MTP_FRAME_INDEX || block % 2 == 0);
}

bool
mtp_loader_reads(MtpLoader *l, int kind, BlockNumber block)
{
	return can_load(l, kind, block) && !mtp_loader_has(l, kind, block) &&
		(mtp_policy_page_kind(kind) != MTP_FRAME_PAGEDIR ||
		 (l->has_builder && l->builder.trusted));
}

void
mtp_loader_prefetch(MtpLoader *l, int kind, BlockNumber block)
{
	if (!mtp_loader_reads(l, kind, block))
		return;
	(void) PrefetchBuffer(l->rel, MAIN_FORKNUM, block);
	if (kind != MTP_FRAME_INDEX && block + 1 < l->nblocks)
		(void) PrefetchBuffer(l->rel, MAIN_FORKNUM, block + 1);
}

void
mtp_loader_load(MtpLoader *l, int kind, BlockNumber block, int degree)
{
	MtpBuilt	built;

	if (!can_load(l, kind, block))
		return;

	/* A directory that is there may be of other columns. */
	if (mtp_frame_warm(&mtp_buffer, tag_of(l, block), kind, degree) &&
		mtp_policy_page_kind(kind) != MTP_FRAME_PAGEDIR)
		return;
	switch (kind)
	{
		case MTP_FRAME_INDEX:
			mtp_buffer_load(l->rel, block, degree, l->strategy);
			break;
		case MTP_FRAME_TABLE:
			mtp_pair_load(l->rel, MtpPairOf(block), l->nblocks, degree, l->strategy);
			break;
		default:
			if (l->has_builder && l->builder.trusted)
			{
				built = mtp_pagedir_builder_build(&l->builder, MtpPairOf(block), false, degree);
				mtp_pagedir_queue_count(MTP_PAIRS_BUILT, built == MTP_BUILT_IT);
			}
			else if (l->has_builder)
				mtp_pagedir_request(l->rel, MtpPairOf(block));
	}
}
