/*
 * build.c
 *	  Builds the directory of a pair of blocks in a frame of the buffer.
 *
 * The builder locks the pair's pages, copies them, and reserves the pair's frame before it unlocks
 * them.  It makes the directory of the copy without a lock and then fills the frame.  A writer
 * that changes the pages meanwhile takes the frame away, and nothing is left to fill.  A reserved
 * frame answers no search and keeps others from building.  So the process that reserved it must
 * fill it or take it away (invariant D5).
 *
 * The directory's size is known only when it is made, so the frame's kind is a guess: the kind
 * that the last pair of the table needed.  If the guess is too small the builder drops the frame
 * and starts again with a large one.
 */
#include "pagedir/request.h"

#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "pagedir/choice.h"
#include "core/inject.h"

/* The frame that this process has reserved and not yet filled (invariant D5) */
static bool reserved = false;
static MtpPageTag reserved_tag;
static MtpFrameRef reserved_ref;

/* The table of this process's last directory, and the kind of frame that it needed */
static Oid	last_table = InvalidOid;
static int	last_kind = MTP_FRAME_SMALL;

/*
 * The last transaction that written() looked up for this pair.  All rows of a load have the same.
 */
static TransactionId asked_xid = InvalidTransactionId;
static bool asked_written;

/*
 * True unless the transaction was aborted.  The order of the tests matters: a transaction that
 * ends between them is found to have ended.
 */
static bool
written(TransactionId xmin)
{
	if (xmin != asked_xid)
	{
		asked_written = TransactionIdIsCurrentTransactionId(xmin) ||
			TransactionIdIsInProgress(xmin) || TransactionIdDidCommit(xmin);
		asked_xid = xmin;
	}
	return asked_written;
}

/*
 * True if core's functions compare the column and read no catalogs.  Comparison functions of
 * arrays, records and ranges call others; those of enums read pg_enum.
 */
static bool
is_trusted(const MtpPagedirColumn *column)
{
	Oid			type = getBaseType(column->tag.type);

	return column->compare.fn_oid < FirstNormalObjectId && type < FirstNormalObjectId &&
		get_typtype(type) == TYPTYPE_BASE &&
		type != RECORDOID && !OidIsValid(get_element_type(type));
}

/*
 * Takes the reserved frame away: after an error, and when the process ends, which may be told to
 * while a comparison function runs (invariant D5).
 */
static void
abandon_frame(int code, Datum arg)
{
	if (reserved)
	{
		reserved = false;
		(void) mtp_frame_fill(&mtp_buffer, reserved_tag, &reserved_ref, NULL, 0);
	}
}

bool
mtp_pagedir_builder_open(MtpPagedirBuilder *b, Relation rel)
{
	static bool registered = false;
	AttrNumber	attnums[MTP_PAGEDIR_COLUMNS];
	MemoryContext old;
	int			n;

	if (!mtp_pair_serves(rel) || (n = mtp_pagedir_columns(rel, attnums, NULL)) == 0)
		return false;
	if (!registered)
		before_shmem_exit(abandon_frame, 0);
	registered = true;
	*b = (MtpPagedirBuilder)
	{
		.rel = rel,.nblocks = RelationGetNumberOfBlocks(rel),.trusted = true,
			.columns.written = written,
			.context = AllocSetContextCreate(CurrentMemoryContext, "mtpower directories",
											 ALLOCSET_DEFAULT_SIZES)
	};
	old = MemoryContextSwitchTo(b->context);
	if (!mtp_pagedir_describe(&b->columns, RelationGetDescr(rel), n, attnums))
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(b->context);
		return false;
	}
	for (int i = 0; i < n; i++)
		b->trusted &= is_trusted(&b->columns.column[i]);
	b->build = AllocSetContextCreate(b->context, "mtpower directory", ALLOCSET_DEFAULT_MINSIZE,
									 128 * 1024, ALLOCSET_DEFAULT_MAXSIZE);
	b->strategy = GetAccessStrategy(BAS_BULKREAD);
	b->copy = palloc(2 * BLCKSZ);
	b->directory = (char *) TYPEALIGN(MTP_PAGEDIR_ALIGN,
									  palloc(MTP_PAGEDIR_MOST + MTP_PAGEDIR_ALIGN));
	MemoryContextSwitchTo(old);
	return true;
}

void
mtp_pagedir_builder_close(MtpPagedirBuilder *b)
{
	MemoryContextDelete(b->context);
}

/*
 * True if the pair has a usable directory, or another process is building one.  Takes away a
 * directory of other columns.
 */
static bool
has_one(MtpPagedirBuilder *b, uint32 pair)
{
	MtpFrameRef ref;
	MtpPageTag	tag;
	MtpPagedirHeader header;

	if (!mtp_pair_has(b->rel, pair, MTP_FRAME_PAGEDIR))
		return false;
	if (!mtp_pair_find(b->rel, pair, MTP_FRAME_PAGEDIR, 0, sizeof(MtpPagedirHeader), &ref))
		return true;			/* another process changes the frame */

	/* The copy may be torn; mtp_frame_still tells.  Without the format it is not filled yet. */
	memcpy(&header, ref.image, sizeof(header));
	if (header.format != MTP_PAGEDIR_FORMAT || mtp_pagedir_is_of(&header, &b->columns) ||
		!mtp_frame_still(&mtp_buffer, &ref))
		return true;
	tag = mtp_page_tag(MtpRelLocator(b->rel), MtpPairBlock(pair));
	(void) mtp_frame_fill(&mtp_buffer, tag, &ref, NULL, 0);
	return false;
}

/*
 * Makes the directory of the copy and returns its size.  Comparison functions that are not trusted
 * may need a snapshot, and may be interrupted.
 */
static Size
build_copy(MtpPagedirBuilder *b, uint32 pair)
{
	MemoryContext old = MemoryContextSwitchTo(b->build);
	int			nblocks = Min(2, b->nblocks - MtpPairBlock(pair));
	Size		size;

	if (!b->trusted)
		PushActiveSnapshot(GetTransactionSnapshot());
	asked_xid = InvalidTransactionId;
	size = mtp_pagedir_build(&b->columns, b->copy, nblocks, b->directory);
	if (!b->trusted)
	{
		PopActiveSnapshot();
		InvalidateCatalogSnapshot();
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(b->build);
	return size;
}

static int
kind_for(Size size)
{
	return size <= MTP_SMALL_BYTES ? MTP_FRAME_SMALL : MTP_FRAME_PAGEDIR;
}

/*
 * Remembers the kind of frame that a pair needed.  The last pair of a table is left out: it may be
 * nearly empty.
 */
static void
remember_kind(MtpPagedirBuilder *b, uint32 pair, Size size)
{
	if (size == 0 || MtpPairBlock(pair) + 2 >= b->nblocks)
		return;
	last_table = RelationGetRelid(b->rel);
	last_kind = kind_for(size);
}

/*
 * Builds the directory in a frame of this kind.  Sets *size to the directory's size, or to 0 if
 * there is none, and *level to the pair's heat, unless only_free: then a second try takes a free
 * frame, too.  If the directory does not fit the frame goes.
 */
static MtpBuilt
build_in(MtpPagedirBuilder *b, uint32 pair, int *kind, bool only_free, int *level, Size *size)
{
	volatile Size needs = 0;
	bool		fits,
				filled;

	*size = 0;
	if (!mtp_pair_reserve(b->rel, pair, kind, b->nblocks, b->strategy, only_free, *level, b->copy,
						  &reserved_ref))
		return MTP_BUILT_REFUSED;

	/*
	 * No lock on a page is held any more.  Readers find an empty directory, which says nothing,
	 * and other builders leave the pair alone; an error or the end of the process takes it away
	 * (D5).
	 */
	reserved_tag = mtp_page_tag(MtpRelLocator(b->rel), MtpPairBlock(pair));
	reserved = true;

	PG_TRY();
	{
		MTP_INJECT("directory_build");
		needs = build_copy(b, pair);
	}
	PG_CATCH();
	{
		abandon_frame(0, (Datum) 0);
		PG_RE_THROW();
	}
	PG_END_TRY();
	reserved = false;
	MTP_INJECT("directory_built");
	*size = needs;
	if (!only_free)
		*level = mtp_pair_level(&reserved_ref);
	fits = needs <= mtp_policy_frame_bytes(*kind);

	/* A writer that has changed the pages since the copy has taken the frame away. */
	filled = mtp_pair_fill(b->rel, pair, &reserved_ref, b->directory, fits ? needs : 0);
	return needs == 0 ? MTP_BUILT_UNFIT : filled && fits ? MTP_BUILT_IT : MTP_BUILT_REFUSED;
}

MtpBuilt
mtp_pagedir_builder_build(MtpPagedirBuilder *b, uint32 pair, bool only_free, int level)
{
	MtpBuilt	built;
	Size		size;
	int			kind;

	/* The table may have grown while its first pages were built. */
	if (MtpPairBlock(pair) + 1 >= b->nblocks)
		b->nblocks = RelationGetNumberOfBlocks(b->rel);
	if (MtpPairBlock(pair) >= b->nblocks || has_one(b, pair))
		return MTP_BUILT_BEFORE;

	/*
	 * Reserving the wrong kind might cost a slab, so a process makes its first directory of a
	 * table on trial.
	 */
	if (last_table != RelationGetRelid(b->rel) &&
		mtp_pair_copy(b->rel, pair, b->nblocks, b->strategy, b->copy))
	{
		size = build_copy(b, pair);
		remember_kind(b, pair, size);
		kind = kind_for(size);
	}
	else
		kind = last_kind;
	built = build_in(b, pair, &kind, only_free, &level, &size);
	if (size > mtp_policy_frame_bytes(kind))
	{
		MTP_INJECT("directory_outgrown");
		kind = MTP_FRAME_PAGEDIR;
		built = build_in(b, pair, &kind, only_free, &level, &size);
	}
	remember_kind(b, pair, size);
	return built;
}
