/*
 * dead.h
 *	  Room on an index page from entries whose rows are dead to everyone: what the table says of
 *	  them, their deletion, and its replay.
 *
 * The same for both access methods but for how a page deletes entries.
 */
#ifndef MTP_WAL_DEAD_H
#define MTP_WAL_DEAD_H

#include "wal/wal.h"

#include "access/tableam.h"

/* Deletes the entries at[0] < at[1] < … of a page; deterministic, raises nothing. */
typedef void (*MtpDeadDelete) (Page page, int n, const uint16 *at);

/* Main data of MTP_WAL_DELETE and MTP_WAL_HASH_DELETE.  Block 0: the page; data: uint16 at[n]. */
typedef struct MtpWalDead
{
	TransactionId horizon;		/* newest xid that removed one of the rows, or invalid */
	uint16		n;
} MtpWalDead;

/*
 * Entries that one question or record may name.  Core's numbers of them are int16; and those on the
 * page are data of a block, which has less than 64 kB.
 */
#define MTP_DEAD_MOST	PG_INT16_MAX

/* A question about up to `most` entries of the page in buf; palloc'd.  most <= MTP_DEAD_MOST */
extern TM_IndexDeleteOp *mtp_dead_begin(Relation index, Buffer buf, int most);

/*
 * Asks about entry number `at`; ascending from call to call.  Returns what the caller may add:
 * above all knowndeletable, if a scan has found the row dead.
 */
extern TM_IndexStatus *mtp_dead_ask(TM_IndexDeleteOp *op, int at, ItemPointer tid);

/*
 * Has the table judge, and deletes what it found dead, in one record.  The page is exclusively
 * locked; info: MTP_WAL_DELETE or MTP_WAL_HASH_DELETE.  True if anything was deleted.  Frees op.
 */
extern bool mtp_dead_delete(TM_IndexDeleteOp *op, Relation heap, Buffer buf, uint8 info,
							MtpDeadDelete delete);

/* Blocks of the table that entries lead to: sorts them; true if one is among them. */
extern void mtp_dead_sort_blocks(BlockNumber *blocks, int n);
extern bool mtp_dead_has_block(const BlockNumber *blocks, int n, BlockNumber block);

/* Replay and description of the record. */
extern void mtp_dead_redo(XLogReaderState *record, MtpDeadDelete delete);
extern void mtp_dead_desc(StringInfo buf, XLogReaderState *record);

/* Takes the n entries that a block's data names, in any record, out of its page. */
extern void mtp_dead_redo_page(XLogReaderState *record, int block, Buffer buf, int n,
							   MtpDeadDelete delete);

#endif							/* MTP_WAL_DEAD_H */
