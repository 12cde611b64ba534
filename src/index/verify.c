/*
 * verify.c
 *	  What checks of an index have in common, whatever its access method.
 */
#include "index/verify.h"

#include "miscadmin.h"
#include "utils/memutils.h"

void
mtp_verify_fail(MtpVerify *v, BlockNumber blkno, int pos, const char *fmt,...)
{
	char		words[1000];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted at block %u, offset %d",
					RelationGetRelationName(v->rel), blkno, pos + 1),
			 errdetail_internal("%s", words),
			 errhint("Please REINDEX it.")));
}

void
mtp_verify_fault(MtpVerifyFault *f, BlockNumber blkno, int pos, const char *fmt,...)
{
	va_list		args;

	f->found = true;
	f->blkno = blkno;
	f->pos = pos;
	va_start(args, fmt);
	vsnprintf(f->words, sizeof(f->words), fmt, args);
	va_end(args);
}

void
mtp_verify_strike(MtpVerify *v, const MtpVerifyFault *f, MtpVerifyFault *last, int *strikes)
{
	if (last->found && last->blkno == f->blkno && last->pos == f->pos &&
		strcmp(last->words, f->words) == 0)
		(*strikes)++;
	else
		*strikes = 1;
	if (*strikes >= MTP_VERIFY_STRIKES)
		mtp_verify_fail(v, f->blkno, f->pos, "%s", f->words);
	*last = *f;
	CHECK_FOR_INTERRUPTS();
	pg_usleep(1000L);
}

bool
mtp_verify_has_block(MtpVerify *v, BlockNumber blkno)
{
	if (blkno >= v->nblocks)
		v->nblocks = RelationGetNumberOfBlocks(v->rel);
	return blkno < v->nblocks;
}

/* Tells whose comparison function, or whose page, an error came from. */
static void
context(void *arg)
{
	MtpVerify  *v = arg;

	if (v->blkno != InvalidBlockNumber)
		errcontext("while verifying block %u of index \"%s\"", v->blkno,
				   RelationGetRelationName(v->rel));
	else
		errcontext("while verifying index \"%s\"", RelationGetRelationName(v->rel));
}

void
mtp_verify(const MtpInspectOps *ops, Relation heap, Relation rel, bool heapallindexed,
		   Snapshot snapshot)
{
	MtpVerify	v = {.ops = ops,.rel = rel,.heap = heap,.blkno = InvalidBlockNumber};
	ErrorContextCallback callback = {.callback = context,.arg = &v,.previous = error_context_stack};

	v.nkeyatts = IndexRelationGetNumberOfKeyAttributes(rel);
	v.natts = IndexRelationGetNumberOfAttributes(rel);
	v.strategy = GetAccessStrategy(BAS_BULKREAD);
	v.context = AllocSetContextCreate(CurrentMemoryContext, "mtpower verify",
									  ALLOCSET_DEFAULT_SIZES);
	error_context_stack = &callback;
	if (heapallindexed)
		mtp_verify_rows_begin(&v, snapshot);

	ops->verify(&v);

	v.blkno = InvalidBlockNumber;
	if (v.rows)
		mtp_verify_rows(&v);
	error_context_stack = callback.previous;
	FreeAccessStrategy(v.strategy);
	MemoryContextDelete(v.context);
}
