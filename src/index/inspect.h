/*
 * inspect.h
 *	  Looking into indexes: what an access method provides for verify_index and page_info.
 */
#ifndef MTP_INSPECT_H
#define MTP_INSPECT_H

#include "core/core.h"

#include "access/amapi.h"
#include "access/tableam.h"
#include "storage/bufpage.h"

/* Columns of page_info */
enum
{
	MTP_INFO_TYPE, MTP_INFO_LEVEL, MTP_INFO_ITEMS, MTP_INFO_TIDS, MTP_INFO_LISTS, MTP_INFO_DEAD,
	MTP_INFO_FREE, MTP_INFO_LEFT, MTP_INFO_RIGHT, MTP_INFO_HIGHKEY, MTP_INFO_FLAGS,
	MTP_INFO_FORMAT, MTP_INFO_LSN, MTP_INFO_COLUMNS
};

typedef struct MtpVerify MtpVerify;

typedef struct MtpInspectOps
{
	/* The index AM's routine has this ambuild. */
	ambuild_function ambuild;

	/*
	 * Raises ERRCODE_INDEX_CORRUPTED at the first thing that is wrong with the index.  With
	 * v->rows, checks for each entry that it has a row (mtp_verify_entry).
	 */
	void		(*verify) (MtpVerify *v);

	/* True if the entry, which mtp_verify_entry was given, has these values. */
	bool		(*matches) (MtpVerify *v, const void *entry, const Datum *values,
							const bool *isnull);

	/*
	 * Looks the entry up in the index.  Returns the buffer whose pin holds VACUUM back, not
	 * locked, and where the entry is; InvalidBuffer if the index does not have it any more.
	 */
	Buffer		(*find) (MtpVerify *v, const void *entry, BlockNumber *blkno, int *pos);

	/*
	 * Raises ERRCODE_INDEX_CORRUPTED if a visible row has no entry (mtp_verify_row_entry), or
	 * leaves that to rows_done; the state is the MtpVerify.
	 */
	IndexBuildCallback check_row;

	/* After all rows; may be NULL. */
	void		(*rows_done) (MtpVerify *v);

	/*
	 * Describes a page, which is not new and may hold anything: a copy, so nothing is locked.  All
	 * columns are null but MTP_INFO_LSN.
	 */
	void		(*describe) (Relation rel, Page page, BlockNumber blkno, Datum *values,
							 bool *nulls);
} MtpInspectOps;

/* Registers an index AM; only from _PG_init. */
extern void mtp_inspect_register(const MtpInspectOps *ops);

#endif							/* MTP_INSPECT_H */
