/*
 * choice.h
 *	  Which columns the directories of a table's pages are made of: the owner's choice, or what
 *	  scans have taught.
 *
 * README.md has the rules.
 */
#ifndef MTP_PAGEDIR_CHOICE_H
#define MTP_PAGEDIR_CHOICE_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/tupdesc.h"
#include "catalog/pg_class.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/*
 * An owner may name so many columns; a directory uses the first MTP_PAGEDIR_COLUMNS of them.  The
 * number has one digit, and labels rely on that.
 */
#define MTP_LABEL_COLUMNS 8

typedef enum MtpPagedirChosen
{
	MTP_PAGEDIR_LEARNT,			/* the owner has said nothing */
	MTP_PAGEDIR_OFF,			/* there must be none */
	MTP_PAGEDIR_FIXED			/* the columns below, in this order */
} MtpPagedirChosen;

typedef struct MtpPagedirChoice
{
	MtpPagedirChosen choice;
	int			ncolumns;		/* at least 1 if FIXED, else 0 */
	AttrNumber	columns[MTP_LABEL_COLUMNS];
	Oid			origin;			/* the relation whose labels say so, itself or an ancestor;
								 * InvalidOid if LEARNT */
	Oid			root;			/* the topmost partitioned ancestor, or the relation itself,
								 * whoever has labels */
} MtpPagedirChoice;

/*
 * Returns the choice for rel: its own labels, or else those of its nearest partitioned ancestor
 * that has some.  Columns are numbered as in rel.  rel is a partitioned table or a table of access
 * method mtpower.  The caller has rel open and locked, in any mode, is in a transaction, and holds
 * no lock on a page, since this may read catalogs.
 *
 * For tables of access method mtpower the relation's cache entry keeps the answer.  So asking
 * again costs a comparison and a copy, and whatever changes the answer invalidates the entry.  The
 * columns exist and are no system columns.  The caller must check that a column's type has an
 * order: ALTER TYPE may have changed it, and SECURITY LABEL does not check it.
 */
extern void mtp_pagedir_choice(Relation rel, MtpPagedirChoice *directory);

/*
 * Translates a column's number from one relation of a partition tree to another, by its name.
 * Returns InvalidAttrNumber if there is no such column, as while another session changes the tree.
 * Reads the catalog.
 */
extern AttrNumber mtp_pagedir_translate(Oid from, Oid to, AttrNumber attnum);

/*
 * Returns how many columns the table's directories are made of, at most MTP_PAGEDIR_COLUMNS, and
 * sets attnums in their order.  The owner has fixed them, or scans have taught one: *learnt, unless
 * NULL, says which.  Returns 0 if the owner wants none or nothing is learnt yet.  Each column
 * exists; a learnt one's type has an order.  rel is of access method mtpower; else the rules of
 * mtp_pagedir_choice apply.
 */
extern int	mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt);

/* True if the owner wants no directories.  The rules of mtp_pagedir_columns apply. */
extern bool mtp_pagedir_off(Relation rel);

/* True if there is such a column and its type has an order. */
extern bool mtp_pagedir_can_use(TupleDesc desc, AttrNumber attnum);

/* ---------- label.c ---------- */

/*
 * Raises an ERROR for relations that can have no labels of this provider: those without rows, and
 * temporary tables.
 */
extern void mtp_pagedir_label_check_relation(Form_pg_class rel);

/*
 * Reads the labels of the relation itself.  Columns have the relation's own numbers.  Reads the
 * catalog.
 */
extern void mtp_pagedir_label_read(Oid relid, MtpPagedirChoice *own);

/*
 * True if this database has any labels.  Mostly it has none, and this spares a plan of many
 * partitions the search for the labels of each partition and its ancestors.
 */
extern bool mtp_pagedir_label_any(void);

/*
 * Replaces all labels of a relation by those that say what own says; ignores origin.  The caller
 * holds ShareUpdateExclusiveLock, which SECURITY LABEL takes as well, or a stronger lock, and
 * keeps it until the end of the transaction.  Calls CommandCounterIncrement().
 */
extern void mtp_pagedir_label_write(Oid relid, const MtpPagedirChoice *own);

/*
 * Returns the OIDs of all relations of this database that have labels of this provider, ascending;
 * palloc'd.
 */
extern List *mtp_pagedir_label_relations(void);

/* Registers the label provider, and the hook that removes the labels with the extension. */
extern void mtp_pagedir_label_init(void);

#endif							/* MTP_PAGEDIR_CHOICE_H */
