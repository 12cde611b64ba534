/*
 * handler.c
 *	  The access method mtpower_hash as core sees it: its functions and storage parameters.
 */
#include "hash/hash.h"

#include "access/hash.h"
#include "access/reloptions.h"
#include "access/xact.h"
#include "batch/batch.h"
#include "buffer/buffer.h"
#include "commands/vacuum.h"
#include "core/inject.h"
#include "opclass/opclass.h"
#include "page/norm.h"
#include "storage/predicate.h"

PG_FUNCTION_INFO_V1(mtp_hash_handler);

static relopt_kind hash_relopts;

static bytea *
hash_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(MtpHashOptions, fillfactor)},
		{"initial_buckets", RELOPT_TYPE_INT, offsetof(MtpHashOptions, initial_buckets)}
	};

	mtp_require_preload();
	return (bytea *) build_reloptions(reloptions, validate, hash_relopts,
									  sizeof(MtpHashOptions), tab, lengthof(tab));
}

/*
 * Queues the entry with the batch engine if a bulk load is under way, else inserts it into its
 * bucket.  The queue has hashes as what they are, unsigned integers in the order of buckets.
 */
static bool
hash_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			IndexUniqueCheck check, bool unchanged, struct IndexInfo *info)
{
	uint32		hash;

	if (!mtp_hash_row(index, values, isnull, &hash))
		return false;
	if (mtp_batch_enqueue_narrow(index, heap, MTP_NORM_OID, ObjectIdGetDatum(hash), false, tid,
								 check, MTP_NEW_ROW))
		return false;
	MTP_INJECT("insert_begins");
	mtp_hash_insert(index, heap, hash, tid);

	/* Core has looked for readers before; one may have come since and missed the entry. */
	if (IsolationIsSerializable())
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	return false;
}

/*
 * makeNode leaves out all that is not set here.  So amoptionalkey is false: a row whose first
 * column is NULL is left out, and scans need a clause on that column.
 */
Datum
mtp_hash_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = HTMaxStrategyNumber;
	am->amsupport = HASHNProcs;
	am->amoptsprocnum = HASHOPTIONS_PROC;
	am->amcanbackward = true;
	am->amcanmulticol = true;
	MtpBeHash(am);
	MtpBuildInParallel(am);
	am->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;

	am->ambuild = mtp_hash_build;
	am->ambuildempty = mtp_hash_build_empty;
	am->ambuildphasename = mtp_hash_phase_name;
	am->aminsert = hash_insert;
	am->ambulkdelete = mtp_hash_bulkdelete;
	am->amvacuumcleanup = mtp_hash_vacuumcleanup;
	am->amvalidate = mtp_hash_validate;
	am->amadjustmembers = mtp_opclass_adjust_members;
	am->amoptions = hash_options;
	am->amcostestimate = mtp_hash_cost;
	am->ambeginscan = mtp_hash_beginscan;
	am->amrescan = mtp_hash_rescan;
	am->amgettuple = mtp_hash_gettuple;
	am->amgetbitmap = mtp_hash_getbitmap;
	am->amendscan = mtp_hash_endscan;
	mtp_guard_index_am(am);
	PG_RETURN_POINTER(am);
}

/* Tells the buffer which pages a frame may have: probes read a bucket's primary page there. */
static bool
fits_frame(Relation rel, Buffer buf)
{
	mtp_hash_check_page(rel, buf, MTP_HASH_WANT_META | MTP_HASH_WANT_BUCKET |
						MTP_HASH_WANT_STASH | MTP_HASH_WANT_FREE);
	return MtpHashHead(BufferGetPage(buf))->type == MTP_HASH_BUCKET;
}

void
mtp_hash_init(void)
{
	hash_relopts = add_reloption_kind();
	add_int_reloption(hash_relopts, "fillfactor",
					  "Percentage of a bucket's page from which on the index grows",
					  MTP_HASH_FILLFACTOR, MTP_HASH_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_int_reloption(hash_relopts, "initial_buckets",
					  "Number of buckets that the index begins with; 0: as its rows need them",
					  0, 0, MTP_HASH_MAX_BUCKETS, ShareUpdateExclusiveLock);
	mtp_hash_redo_init();
	mtp_hash_batch_init();
	mtp_hash_inspect_init();
	mtp_buffer_register(mtp_hash_build, fits_frame);
}
