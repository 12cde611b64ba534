/*
 * newer_record.c
 *	  Writes a WAL record of mtpower that no library knows: for tests.
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "fmgr.h"
#include "utils/pg_lsn.h"

#include "wal/wal.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(newer_record);

/* newer_record(): the record's end */
Datum
newer_record(PG_FUNCTION_ARGS)
{
	uint8		kind = 200;

	XLogBeginInsert();
	XLogRegisterData((char *) &kind, sizeof(kind));
	PG_RETURN_LSN(XLogInsert(MTP_RMGR_ID, MTP_WAL_MORE));
}
