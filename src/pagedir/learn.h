/*
 * learn.h
 *	  Which columns a table's directories are made of, as its owner and its scans say.
 *
 * README.md has the rules.
 */
#ifndef MTP_PAGEDIR_LEARN_H
#define MTP_PAGEDIR_LEARN_H

#include "core/core.h"

#include "access/attnum.h"
#include "core/shmem.h"
#include "pagedir/pagedir.h"

/* Tables and partition trees of the cluster whose scans are counted, and the columns of one */
#define MTP_LEARN_TABLES		1024
#define MTP_LEARN_COLUMNS		8

/* Columns that one scan may count for */
#define MTP_LEARN_ASKED		16

/* If all places are taken, one scan in so many gets a place for its table. */
#define MTP_LEARN_CHANCE		16

/* After so many further scans of its table, a scan counts half. */
#define MTP_LEARN_HALF_LIFE	32

/*
 * columns.c: returns how many columns the table's directories are made of, at most
 * MTP_PAGEDIR_COLUMNS, and sets attnums in their order.  The owner has fixed them, or scans have
 * taught one: *learnt, unless NULL, says which.  Returns 0 if the owner wants none or nothing is
 * learnt yet.  Each column exists; a learnt one's type has an order.  rel is of access method
 * mtpower.  The caller has rel open and locked, in any mode, is in a transaction, and holds no
 * lock on a page, since this may read catalogs.
 */
extern int	mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt);

/*
 * Returns the learnt column of the table, or of its partition tree, whatever the owner has said;
 * InvalidAttrNumber if there is none.  The rules of mtp_pagedir_columns apply.
 */
extern AttrNumber mtp_pagedir_learnt(Relation rel);

/* True if the owner wants no directories.  The rules of mtp_pagedir_columns apply. */
extern bool mtp_pagedir_off(Relation rel);

/*
 * learn.c: counts an executed scan with usable clauses on these columns, each named once, at most
 * MTP_LEARN_ASKED, that no index answers.  Counts only if the table's columns are learnt.  The
 * leader calls it once per execution, however often the scan is rescanned.  Of a tree's partitions
 * that one execution scans by the same columns only the first counts: `query` is the execution's
 * memory.  The rules of mtp_pagedir_columns apply.
 */
extern void mtp_pagedir_learn_count(Relation rel, MemoryContext query, int n,
									const AttrNumber *attnums);

/* What is known of a table, in a file that outlives restarts (src/warm).  It has no padding. */
typedef struct MtpLearnt
{
	Oid			dbid;
	Oid			relid;
	AttrNumber	learnt;			/* 0: none yet */
	uint16		scans;
	AttrNumber	attnums[MTP_LEARN_COLUMNS]; /* 0: a free place */
	float		counts[MTP_LEARN_COLUMNS];
} MtpLearnt;

/*
 * learn_save.c: copies everything that is known into an array of MTP_LEARN_TABLES, and returns the
 * number of entries.  mtp_pagedir_learn_restore takes them back: it leaves out what cannot be
 * right, and replaces what is known of a table already.
 */
extern int	mtp_pagedir_learn_save(MtpLearnt *tables);
extern void mtp_pagedir_learn_restore(const MtpLearnt *tables, int n);

/* The shared memory of learning */
extern const MtpShmem mtp_pagedir_learn_shmem;

#endif							/* MTP_PAGEDIR_LEARN_H */
