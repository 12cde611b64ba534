/*
 * root.c
 *	  Has a session remember a B-link index's root that is none: for tests.
 */
#include "postgres.h"

#include "access/genam.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "blink/blink.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(remember_root);

/* remember_root(index, block, level): what was remembered before, as block */
Datum
remember_root(PG_FUNCTION_ARGS)
{
	Relation	rel = index_open(PG_GETARG_OID(0), AccessShareLock);
	MtpBlinkInfo *info = mtp_blink_info(rel);
	int64		before = info->root;

	info->root = PG_GETARG_INT64(1);
	info->level = PG_GETARG_INT32(2);
	index_close(rel, AccessShareLock);
	PG_RETURN_INT64(before);
}
