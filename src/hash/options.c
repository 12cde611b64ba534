/*
 * options.c
 *	  The index's storage parameters.
 */
#include "core/core.h"
#include "hash/hash.h"

#include "access/reloptions.h"

static relopt_kind hash_relopts;

void
mtp_hash_options_init(void)
{
	hash_relopts = add_reloption_kind();
	add_int_reloption(hash_relopts, "fillfactor",
					  "Percentage of a bucket's page from which on the index grows",
					  MTP_HASH_FILLFACTOR, MTP_HASH_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_int_reloption(hash_relopts, "initial_buckets",
					  "Number of buckets that the index begins with; 0: as its rows need them",
					  0, 0, MTP_HASH_MAX_BUCKETS, ShareUpdateExclusiveLock);
}

bytea *
mtp_hash_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(MtpHashOptions, fillfactor)},
		{"initial_buckets", RELOPT_TYPE_INT, offsetof(MtpHashOptions, initial_buckets)}
	};

	mtp_require_preload();
	return (bytea *) build_reloptions(reloptions, validate, hash_relopts,
									  sizeof(MtpHashOptions), tab, lengthof(tab));
}

int
mtp_hash_fillfactor(Relation rel)
{
	MtpHashOptions *opts = (MtpHashOptions *) rel->rd_options;

	return opts ? opts->fillfactor : MTP_HASH_FILLFACTOR;
}

int
mtp_hash_initial_buckets(Relation rel)
{
	MtpHashOptions *opts = (MtpHashOptions *) rel->rd_options;

	return opts ? opts->initial_buckets : 0;
}
