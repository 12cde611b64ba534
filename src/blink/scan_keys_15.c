/*
 * scan_keys_15.c
 *	  Scan keys as nbtree has them up to PostgreSQL 16: the arrays of `= ANY` are advanced between
 *	  two searches (nbtutils.c).
 */
#include "blink/scan.h"

#if !MTP_ARRAYS_ON_LEAF

void
mtp_blink_keys_end(MtpBlinkScan *so)
{
}

void
mtp_blink_keys_reset(IndexScanDesc scan)
{
	BTScanOpaque bt = scan->opaque;

	bt->arrayKeyCount = 0;
	bt->numberOfKeys = 0;
	_bt_preprocess_array_keys(scan);
}

bool
mtp_blink_keys_begin(IndexScanDesc scan, ScanDirection dir)
{
	BTScanOpaque bt = scan->opaque;

	if (bt->numArrayKeys < 0)
		return false;			/* an array without an element that could match */
	if (bt->numArrayKeys > 0)
		_bt_start_array_keys(scan, dir);
	return true;
}

/* A search begins at one of its ends. */
bool
mtp_blink_keys_resume(IndexScanDesc scan, ScanDirection dir)
{
	return false;
}

bool
mtp_blink_keys_again(IndexScanDesc scan, ScanDirection dir)
{
	BTScanOpaque bt = scan->opaque;

	return bt->numArrayKeys > 0 && _bt_advance_array_keys(scan, dir);
}

void
mtp_blink_keys_step(MtpBlinkScan *so, ScanDirection dir, bool marked)
{
}

void
mtp_blink_keys_mark(IndexScanDesc scan)
{
	if (((BTScanOpaque) scan->opaque)->numArrayKeys > 0)
		_bt_mark_array_keys(scan);
}

/* This may change what core preprocesses from the arrays' elements. */
void
mtp_blink_keys_restore(IndexScanDesc scan, bool same)
{
	MtpBlinkScan *so = scan->opaque;

	if (so->bt.numArrayKeys > 0)
	{
		_bt_restore_array_keys(scan);
		mtp_blink_scan_keys_changed(so);
	}
}

ScanKey
mtp_blink_keys_equal(BTScanOpaque bt, ScanKey key, bool forward, ScanKey *far)
{
	return key;
}

bool
mtp_blink_keys_match(IndexScanDesc scan, IndexTuple itup, int natts, ScanDirection dir, bool *more)
{
	return _bt_checkkeys(scan, itup, natts, dir, more);
}

void
mtp_blink_keys_read(IndexScanDesc scan, ScanDirection dir, MtpPageReader *v, MtpPos from)
{
	pg_unreachable();
}

void
mtp_blink_keys_undo(MtpBlinkScan *so)
{
	pg_unreachable();
}

bool
mtp_blink_keys_undoable(MtpBlinkScan *so)
{
	return true;
}

bool
mtp_blink_turn_take(IndexScanDesc scan, BlockNumber *from, bool first)
{
	return _bt_parallel_seize(scan, from);
}

void
mtp_blink_turn_pass(IndexScanDesc scan, ScanDirection dir, BlockNumber here, BlockNumber link)
{
	if (link == InvalidBlockNumber)
		_bt_parallel_done(scan);
	else
		_bt_parallel_release(scan, ScanDirectionIsForward(dir) ? link : here);
}

#endif							/* !MTP_ARRAYS_ON_LEAF */
