/*
 * options.c
 *	  The index's storage parameters.
 */
#include "blink/blink.h"

#include "access/reloptions.h"

static relopt_kind blink_relopts;

void
mtp_blink_options_init(void)
{
	blink_relopts = add_reloption_kind();
	add_int_reloption(blink_relopts, "fillfactor",
					  "Percentage of a leaf page that index builds and batches fill",
					  MTP_BLINK_FILLFACTOR, MTP_BLINK_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
}

bytea *
mtp_blink_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(MtpBlinkOptions, fillfactor)}
	};

	mtp_require_preload();
	return (bytea *) build_reloptions(reloptions, validate, blink_relopts,
									  sizeof(MtpBlinkOptions), tab, lengthof(tab));
}

int
mtp_blink_fillfactor(Relation rel)
{
	MtpBlinkOptions *opts = (MtpBlinkOptions *) rel->rd_options;

	return opts ? opts->fillfactor : MTP_BLINK_FILLFACTOR;
}
