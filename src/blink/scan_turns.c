/*
 * scan_turns.c
 *	  Turns: which process of a parallel scan reads the next leaf.
 *
 * What the processes share is core's (nbtree.c: btinitparallelscan and the functions used here).
 * It includes core's count of the combinations of array keys that are done, which core's
 * _bt_advance_array_keys moves on.  One process at a time has the turn (invariant B9).  It takes
 * the scan to a leaf.  While the leaf is locked, it passes the turn on with the block from which to
 * go on: the leaf's right link, or, backward, the leaf itself.  README.md, "Parallel scans", argues
 * it.
 */
#include "blink/scan.h"

#include "batch/batch.h"
#include "miscadmin.h"

bool
mtp_blink_scan_first_turn(IndexScanDesc scan, BlockNumber *from)
{
	*from = InvalidBlockNumber;
	return scan->parallel_scan == NULL || _bt_parallel_seize(scan, from);
}

bool
mtp_blink_scan_take_turn(IndexScanDesc scan, ScanDirection dir, BlockNumber *from)
{
	BTScanPos	pos = &((BTScanOpaque) scan->opaque)->currPos;
	bool		more = ScanDirectionIsForward(dir) ? pos->moreRight : pos->moreLeft;

	CHECK_FOR_INTERRUPTS();
	mtp_batch_before_scan(scan->indexRelation, scan->xs_snapshot);
	if (scan->parallel_scan == NULL)
		return more;
	if (!_bt_parallel_seize(scan, from))
		return false;

	/*
	 * Only the process that has the turn may end the scan: if another one had it now, that one
	 * would pass it on later, and so undo the end.
	 */
	if (!more)
		_bt_parallel_done(scan);
	return more;
}

void
mtp_blink_scan_pass_turn(IndexScanDesc scan, ScanDirection dir)
{
	MtpBlinkScan *so = scan->opaque;
	BTScanPos	pos = &so->bt.currPos;
	BlockNumber neighbour = ScanDirectionIsForward(dir) ? pos->nextPage : so->left;

	/* At the index's end the scan is over: what later splits move beyond this page is read now. */
	if (neighbour == InvalidBlockNumber)
		_bt_parallel_done(scan);
	else
		_bt_parallel_release(scan, ScanDirectionIsForward(dir) ? neighbour : pos->currPage);
}
