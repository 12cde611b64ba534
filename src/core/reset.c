/*
 * reset.c
 *	  Sets statistics of the whole cluster to zero.
 */
#include "core/reset.h"

#include "fmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(mtp_stat_reset);

static const char *const targets[MTP_RESET_TARGETS] = {
	[MTP_RESET_BATCHES] = "batches",
	[MTP_RESET_WORKERS] = "workers",
	[MTP_RESET_BUFFER] = "buffer"
};

static struct
{
	MtpResetTarget target;
	void		(*reset) (void);
}			resets[8];
static int	nresets = 0;

void
mtp_reset_register(MtpResetTarget target, void (*reset) (void))
{
	Assert(nresets < lengthof(resets));
	resets[nresets].target = target;
	resets[nresets++].reset = reset;
}

/* 'batches', 'workers', 'buffer', or NULL for all. */
Datum
mtp_stat_reset(PG_FUNCTION_ARGS)
{
	char	   *what = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			target = 0;

	mtp_require_preload();
	while (what != NULL && target < MTP_RESET_TARGETS && strcmp(what, targets[target]) != 0)
		target++;
	if (target == MTP_RESET_TARGETS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized reset target: \"%s\"", what),
				 errhint("Target must be \"batches\", \"workers\" or \"buffer\", "
						 "or null for all.")));
	for (int i = 0; i < nresets; i++)
		if (what == NULL || resets[i].target == target)
			resets[i].reset();
	PG_RETURN_VOID();
}
