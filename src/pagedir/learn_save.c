/*
 * learn_save.c
 *	  Saves what is learnt for a file that outlives restarts, and takes it back.
 */
#include "pagedir/learn.h"

#include "utils/hsearch.h"

#include "pagedir/demand.h"

int
mtp_pagedir_learn_save(MtpLearnt *tables)
{
	HASH_SEQ_STATUS seq;
	Demand	   *d;
	int			n = 0;

	if (mtp_pagedir_demand_shared == NULL)
		return 0;
	LWLockAcquire(mtp_pagedir_demand_shared->lock, LW_SHARED);
	hash_seq_init(&seq, mtp_pagedir_demands);
	while ((d = hash_seq_search(&seq)) != NULL)
	{
		Assert(n < MTP_LEARN_TABLES);
		tables[n] = (MtpLearnt)
		{
			.dbid = d->key.dbid,.relid = d->key.relid,.learnt = d->learnt,.scans = d->scans
		};
		memcpy(tables[n].attnums, d->attnums, sizeof(d->attnums));
		memcpy(tables[n].counts, d->counts, sizeof(d->counts));
		n++;
	}
	LWLockRelease(mtp_pagedir_demand_shared->lock);
	return n;
}

/*
 * True if mtp_pagedir_learn_save can have written this.  A column that each scan names has the
 * largest possible count.
 */
static bool
can_be_saved(const MtpLearnt *t)
{
	if (!OidIsValid(t->dbid) || !OidIsValid(t->relid) || t->scans > 2 || t->learnt < 0)
		return false;
	for (int i = 0; i < MTP_LEARN_COLUMNS; i++)
		if (t->attnums[i] < 0 || !(t->counts[i] >= 0 && t->counts[i] <= 2 * MTP_LEARN_HALF_LIFE))
			return false;
	return true;
}

void
mtp_pagedir_learn_restore(const MtpLearnt *tables, int n)
{
	if (mtp_pagedir_demand_shared == NULL)
		return;
	LWLockAcquire(mtp_pagedir_demand_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		const MtpLearnt *t = &tables[i];
		Demand	   *d;

		if (!can_be_saved(t))
			continue;
		d = mtp_pagedir_demand(t->dbid, t->relid, true);
		d->scans = t->scans;
		mtp_pagedir_set_learnt(d, t->learnt);
		memcpy(d->attnums, t->attnums, sizeof(d->attnums));
		memcpy(d->counts, t->counts, sizeof(d->counts));
	}
	LWLockRelease(mtp_pagedir_demand_shared->lock);
}
