/*
 * learn.h
 *	  Which columns a table's directories are made of, and who asks for them.
 *
 * README.md has the rules.
 */
#ifndef MTP_PAGEDIR_LEARN_H
#define MTP_PAGEDIR_LEARN_H

#include "core/core.h"

#include "access/attnum.h"
#include "pagedir/pagedir.h"
#include "storage/lwlock.h"

/* Tables, and partition trees, whose scans are counted, in the cluster; columns of one. */
#define MTP_LEARN_TABLES		1024
#define MTP_LEARN_COLUMNS		8

/* Columns that one scan may count for */
#define MTP_LEARN_ASKED		16

/* Where all places for tables are taken, one scan in so many gets one for a table that has none. */
#define MTP_LEARN_CHANCE		16

/* A table's scan counts half as much after so many others. */
#define MTP_LEARN_HALF_LIFE	32

/*
 * The columns that the table's directories are made of now, in order: what its owner has fixed, or the learnt one; returns how many, at most
 * MTP_PAGEDIR_COLUMNS.  0 if there shall be none, or nothing has been learnt.  *learnt (NULL: whichever) says that it is not the owner's choice.  Each is there, and a learnt one's type has an order.  For tables of access method
 * mtpower; the caller has rel open and locked, in any mode, a transaction, and no lock on a page, since catalogs may have to be read.
 */
extern int	mtp_pagedir_columns(Relation rel, AttrNumber *attnums, bool *learnt);

/* The column that was learnt of the table, or of the partition tree that it is in, whatever the owner has said; InvalidAttrNumber if there is none. */
extern AttrNumber mtp_pagedir_learnt(Relation rel);

/* Has the owner said that there shall be none?  As mtp_pagedir_columns. */
extern bool mtp_pagedir_off(Relation rel);

/*
 * A scan is executed that has usable clauses on these columns, each named once, and that no index answers: counted, if the table's columns are learnt.  Once per execution, however
 * often it is rescanned, and by the leader alone; of the partitions of a tree that it scans by the same columns, one counts: `query` is the execution's memory.  At most MTP_LEARN_ASKED columns.  As mtp_pagedir_columns.
 */
extern void mtp_pagedir_learn_count(Relation rel, MemoryContext query, int n, const AttrNumber *attnums);

/* What is known of a table, in a file that outlives restarts (src/warm).  No padding. */
typedef struct MtpLearnt
{
	Oid			dbid;
	Oid			relid;
	AttrNumber	learnt;			/* 0: none yet */
	uint16		scans;
	AttrNumber	attnums[MTP_LEARN_COLUMNS]; /* 0: no column's */
	float		counts[MTP_LEARN_COLUMNS];
} MtpLearnt;

/* Everything that is known, room for MTP_LEARN_TABLES; returns how many.  And the reverse: what can't be right is left out, what is known of a table already is replaced. */
extern int	mtp_pagedir_learn_save(MtpLearnt *tables);
extern void mtp_pagedir_learn_restore(const MtpLearnt *tables, int n);

/* Its shared memory, for shmem.c: how much, and making it or finding it; lock guards it. */
extern Size mtp_pagedir_learn_size(void);
extern void mtp_pagedir_learn_make(LWLock *lock);

#endif							/* MTP_PAGEDIR_LEARN_H */
