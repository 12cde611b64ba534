/*
 * columns.c
 *	  Tells which columns a table's directories are made of.
 *
 * They are the owner's choice, or else the column that scans have taught.  What is learnt is a hint
 * (invariant D8), so this checks that the column exists and that its type has an order.
 */
#include "pagedir/learn.h"

#include "miscadmin.h"
#include "pagedir/choice.h"
#include "pagedir/demand.h"

bool
mtp_pagedir_can_use(TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att;

	if (attnum < 1 || attnum > desc->natts)
		return false;
	att = TupleDescAttr(desc, attnum - 1);
	return !att->attisdropped && mtp_pagedir_has_order(att->atttypid);
}

/*
 * Returns the learnt column of a table or tree, or 0.  The caller must check that it exists (D8).
 */
static AttrNumber
learnt_by_root(Oid relid)
{
	DemandKey	key = {.dbid = MyDatabaseId,.relid = relid};
	Demand	   *d;
	AttrNumber	learnt = 0;

	LWLockAcquire(mtp_pagedir_demand_shared->lock, LW_SHARED);
	d = hash_search(mtp_pagedir_demands, &key, HASH_FIND, NULL);
	if (d != NULL)
		learnt = d->learnt;
	LWLockRelease(mtp_pagedir_demand_shared->lock);
	return learnt;
}

/*
 * Returns the learnt column by the table's own number, if it can be used.  The relation's cache
 * entry keeps it until anything is learnt of any table, which is rare; a plan asks for each
 * partition.  A change of the root or of column numbers frees the note, even while this reads the
 * catalog.
 */
static AttrNumber
noted_learnt_of(Relation rel, Oid root)
{
	MtpPagedirNote *note = mtp_pagedir_note(rel);
	uint64		changes;
	AttrNumber	learnt;

	if (mtp_pagedir_demand_shared == NULL)
		return InvalidAttrNumber;
	changes = pg_atomic_read_u64(&mtp_pagedir_demand_shared->changes);
	if (note != NULL && note->changes == changes)
		learnt = note->learnt;
	else
	{
		learnt = mtp_pagedir_translate(root, RelationGetRelid(rel), learnt_by_root(root));
		if (note != NULL && note == mtp_pagedir_note(rel))
			*note = (MtpPagedirNote)
		{
			.changes = changes,.learnt = learnt
		};
	}
	return mtp_pagedir_can_use(RelationGetDescr(rel), learnt) ? learnt : InvalidAttrNumber;
}

AttrNumber
mtp_pagedir_learnt(Relation rel)
{
	MtpPagedirChoice directory;

	mtp_pagedir_choice(rel, &directory);
	return noted_learnt_of(rel, directory.root);
}

int
mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt)
{
	MtpPagedirChoice directory;
	int			n;

	mtp_pagedir_choice(rel, &directory);
	if (learnt != NULL)
		*learnt = directory.choice == MTP_PAGEDIR_LEARNT;
	if (directory.choice == MTP_PAGEDIR_LEARNT)
	{
		attnums[0] = noted_learnt_of(rel, directory.root);
		return AttributeNumberIsValid(attnums[0]) ? 1 : 0;
	}
	n = Min(directory.ncolumns, MTP_PAGEDIR_COLUMNS);
	memcpy(attnums, directory.columns, n * sizeof(AttrNumber));
	return n;
}

bool
mtp_pagedir_off(Relation rel)
{
	MtpPagedirChoice directory;

	mtp_pagedir_choice(rel, &directory);
	return directory.choice == MTP_PAGEDIR_OFF;
}
