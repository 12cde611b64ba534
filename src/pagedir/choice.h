/*
 * choice.h
 *	  Which columns the directories of a table's pages are made of, as its owner has said.
 *
 * See README.md in this directory.
 */
#ifndef MTP_PAGEDIR_CHOICE_H
#define MTP_PAGEDIR_CHOICE_H

#include "postgres.h"

#include "access/attnum.h"
#include "catalog/pg_class.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/* As many can be said; those beyond what a directory has (directory/directory.h) don't count.  One digit: label.c relies on it. */
#define MTP_LABEL_COLUMNS 8

typedef enum MtpPagedirChosen
{
	MTP_PAGEDIR_LEARNT,			/* nobody has said anything */
	MTP_PAGEDIR_OFF,			/* none shall be built */
	MTP_PAGEDIR_FIXED			/* the columns below, in this order */
} MtpPagedirChosen;

typedef struct MtpPagedirChoice
{
	MtpPagedirChosen choice;
	int			ncolumns;		/* at least 1 if FIXED, else 0 */
	AttrNumber	columns[MTP_LABEL_COLUMNS];
	Oid			origin;			/* whose labels say so: the relation or an ancestor; InvalidOid if
								 * LEARNT */
	Oid			root;			/* the topmost partitioned ancestor, or the relation; not of its
								 * labels */
} MtpPagedirChoice;

/*
 * What was said of rel, or, if nothing was, of its nearest partitioned ancestor of which something was,
 * with the numbers that the columns have in rel.  For tables of access method mtpower and for
 * partitioned tables; the caller has rel open and locked, in any mode, a transaction, and no lock on a
 * page, since catalogs may have to be read.
 *
 * For tables of access method mtpower the answer is kept in the relation's cache entry, so asking again
 * costs a comparison and a copy; whatever changes the answer invalidates the entry.  The columns are
 * there and are not system columns.  Whether a column's type has an order is for the caller to find
 * out: it had one when set_directory() was called, but ALTER TYPE, or a label that was set without that
 * function, may give another type.
 */
extern void mtp_pagedir_choice(Relation rel, MtpPagedirChoice *directory);

/*
 * The number that column attnum of one relation of a partition tree has in another one: that of the same name.  InvalidAttrNumber if there is
 * none, as while somebody is changing the tree.  Reads the catalog.
 */
extern AttrNumber mtp_pagedir_translate(Oid from, Oid to, AttrNumber attnum);

/*
 * Room for what src/scan knows of a table (scan/demand.c), kept with the answer and gone with it; all
 * zeros at first.  NULL where no answer is kept.  The pointer is good until the catalog is read.
 */
typedef struct MtpPagedirNote
{
	uint64		changes;
	AttrNumber	learnt;
} MtpPagedirNote;

extern MtpPagedirNote *mtp_pagedir_note(Relation rel);

/* Raises an ERROR for relations that cannot have labels of ours: what has no rows of its own, temporary tables. */
extern void mtp_pagedir_label_check_relation(Form_pg_class rel);

/*
 * The labels of a relation itself, which say what the struct says; columns with its own numbers.  Reads
 * the catalog.
 */
extern void mtp_pagedir_label_read(Oid relid, MtpPagedirChoice *own);

/* Are there any labels in this database?  Mostly there are none, and whoever opens a thousand partitions need not look for those of each, and of its ancestors. */
extern bool mtp_pagedir_label_any(void);

/*
 * Replaces all labels of a relation by those that say what own says (origin is not looked at).  The
 * caller holds ShareUpdateExclusiveLock on it, which SECURITY LABEL takes as well, or a stronger lock,
 * and keeps it until the end of the transaction.  Does CommandCounterIncrement().
 */
extern void mtp_pagedir_label_write(Oid relid, const MtpPagedirChoice *own);

/* The OIDs of all relations of this database with labels of ours, ascending; palloc'd. */
extern List *mtp_pagedir_label_relations(void);

/* Registers the label provider, and what removes the labels along with the extension. */
extern void mtp_pagedir_label_init(void);

#endif							/* MTP_PAGEDIR_CHOICE_H */
