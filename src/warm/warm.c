/*
 * warm.c
 *	  mtpower.warm(): loads a relation's pages at a user's request.
 */
#include "warm/load.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

PG_FUNCTION_INFO_V1(mtp_warm);

/* If so many pages in a row got no frames there may be no room: nothing is read ahead any more. */
#define MOST_REFUSED 32

/* A place among the blocks of a relation: those to be read for pages of a kind. */
typedef struct Ahead
{
	MtpLoader  *l;
	int			kind;
	BlockNumber block;
	int			refused;		/* pages in a row that got no frames */
} Ahead;

/* Names the blocks that a page needs which has no frame, for the stream. */
static BlockNumber
next_block(void *arg)
{
	Ahead	   *a = arg;

	while (a->block < a->l->nblocks && a->refused < MOST_REFUSED)
	{
		BlockNumber block = a->block++;

		CHECK_FOR_INTERRUPTS();
		if (mtp_loader_reads(a->l, a->kind, a->kind == MTP_FRAME_INDEX ? block : block & ~1))
			return block;
	}
	return InvalidBlockNumber;
}

/* The number of blocks of a page, of which the relation may lack the last. */
static int
blocks_of(int kind)
{
	return kind == MTP_FRAME_INDEX ? 1 : 2;
}

/* Loads all pages of a kind.  The loader finds in shared buffers what the stream has read. */
static void
load_pages(MtpLoader *l, int kind)
{
	Ahead		ahead = {.l = l,.kind = kind};
	MtpBlockStream stream;
	Buffer		buf;

	if (l->nblocks == 0)
		return;					/* also a relation that may have no frames */
	mtp_blocks_begin(&stream, MTP_BLOCKS_ALL, l->rel, l->strategy, next_block, &ahead);
	buf = mtp_blocks_next(&stream);
	for (uint64 block = 0; block < l->nblocks; block += blocks_of(kind))
	{
		Buffer		pinned[2];
		int			n = 0;

		CHECK_FOR_INTERRUPTS();
		while (BufferIsValid(buf) && BufferGetBlockNumber(buf) < block + blocks_of(kind))
		{
			pinned[n++] = buf;
			buf = mtp_blocks_next(&stream);
		}
		mtp_loader_load(l, kind, block, MTP_HEAT_ONE);
		ahead.refused = mtp_loader_has(l, kind, block) ? 0 : ahead.refused + 1;
		while (n > 0)
			ReleaseBuffer(pinned[--n]);
	}
	if (BufferIsValid(buf))
		ReleaseBuffer(buf);
	mtp_blocks_end(&stream);
}

/* Counts the pages of a kind that have frames. */
static int64
count_pages(MtpLoader *l, int kind)
{
	int64		found = 0;

	for (uint64 block = 0; block < l->nblocks; block += blocks_of(kind))
	{
		CHECK_FOR_INTERRUPTS();
		found += mtp_loader_has(l, kind, block);
	}
	return found;
}

/* Loads directories first: they are worth more than images for their size. */
static int64
warm_one(Relation rel, BufferAccessStrategy strategy)
{
	MtpLoader	l;
	int64		n;

	mtp_loader_open(&l, rel, strategy);
	if (l.is_index)
	{
		load_pages(&l, MTP_FRAME_INDEX);
		n = count_pages(&l, MTP_FRAME_INDEX);
	}
	else
	{
		load_pages(&l, MTP_FRAME_PAGEDIR);
		load_pages(&l, MTP_FRAME_TABLE);
		n = count_pages(&l, MTP_FRAME_PAGEDIR) + count_pages(&l, MTP_FRAME_TABLE);
	}
	mtp_loader_close(&l);
	return n;
}

/*
 * True if the table of an index is locked.  An index that joined a partitioned one after the
 * partitions were locked belongs to a table that is not.
 */
static bool
table_is_locked(Relation rel)
{
	Relation	table;
	bool		locked;

	if (rel->rd_rel->relkind != RELKIND_INDEX)
		return true;
	table = RelationIdGetRelation(rel->rd_index->indrelid);
	if (table == NULL)
		return false;
	locked = CheckRelationLockedByMe(table, AccessShareLock, true);
	RelationClose(table);
	return locked;
}

/*
 * Opens the relation and locks its table first, as all code does.  For a partitioned index it
 * locks all partitions of the table.
 */
static Relation
open_relation(Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	bool		is_index = relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX;
	Oid			tableid = is_index ? IndexGetRelation(relid, true) : relid;
	AclResult	aclresult;
	Relation	rel;

	if (is_index && OidIsValid(tableid))
	{
		LockRelationOid(tableid, AccessShareLock);
		if (relkind == RELKIND_PARTITIONED_INDEX)
			list_free(find_all_inheritors(tableid, AccessShareLock, NULL));
	}
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (is_index && (!OidIsValid(tableid) || tableid != IndexGetRelation(relid, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open parent table of index \"%s\"", RelationGetRelationName(rel))));

	/* A user who may read the table may have it and its indexes loaded. */
	aclresult = pg_class_aclcheck(tableid, GetUserId(), ACL_SELECT);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));

	relkind = rel->rd_rel->relkind;
	if (relkind != RELKIND_PARTITIONED_TABLE && relkind != RELKIND_PARTITIONED_INDEX &&
		!mtp_loader_takes(rel))
	{
		const char *am = OidIsValid(rel->rd_rel->relam) ? get_am_name(rel->rd_rel->relam) : NULL;

		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is neither an mtpower table nor an mtpower index",
						RelationGetRelationName(rel)),
				 am != NULL ? errdetail("Its access method is \"%s\".", am) :
				 errdetail_relkind_not_supported(relkind)));
	}
	return rel;
}

/* Returns how many frames the relation's pages have afterwards. */
Datum
mtp_warm(PG_FUNCTION_ARGS)
{
	Relation	rel;
	char		relkind;
	List	   *relids;
	ListCell   *lc;
	int64		n = 0;
	BufferAccessStrategy strategy;

	mtp_require_preload();
	PreventCommandDuringRecovery("mtpower.warm()");
	rel = open_relation(PG_GETARG_OID(0));
	relkind = rel->rd_rel->relkind;
	strategy = GetAccessStrategy(BAS_BULKREAD);
	if (mtp_buffer.policy != NULL &&
		(relkind == RELKIND_PARTITIONED_TABLE || relkind == RELKIND_PARTITIONED_INDEX))
	{
		/* The partitions that are mtpower's, whoever owns them, as for a query */
		relids = find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL);
		foreach(lc, relids)
		{
			Relation	part = try_relation_open(lfirst_oid(lc), NoLock);

			if (part == NULL)
				continue;
			if (mtp_loader_takes(part) && table_is_locked(part))
				n += warm_one(part, strategy);
			relation_close(part, NoLock);
		}
	}
	else if (mtp_buffer.policy != NULL)
		n = warm_one(rel, strategy);
	relation_close(rel, NoLock);
	PG_RETURN_INT64(n);
}
