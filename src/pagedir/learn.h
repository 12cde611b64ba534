/*
 * learn.h
 *	  Learning from scans which column a table's directories are made of.
 *
 * README.md has the rules.
 */
#ifndef MTP_PAGEDIR_LEARN_H
#define MTP_PAGEDIR_LEARN_H

#include "core/core.h"

#include "access/attnum.h"
#include "core/shmem.h"

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
 * Returns the learnt column of a table or partition tree by the root's number, whatever the owner
 * has said, or InvalidAttrNumber.  It is a hint: the caller must check that it exists (invariant
 * D8).
 */
extern AttrNumber mtp_pagedir_learnt_of(Oid root);

/* Changes whenever anything is learnt of any table; 0: without a buffer nothing is learnt. */
extern uint64 mtp_pagedir_learn_changes(void);

/*
 * Counts an executed scan with usable clauses on these columns, each named once, at most
 * MTP_LEARN_ASKED, that no index answers.  Counts only if the table's columns are learnt.  The
 * leader calls it once per execution, however often the scan is rescanned.  Of a tree's partitions
 * that one execution scans by the same columns only the first counts: `query` is the execution's
 * memory.  The rules of mtp_pagedir_choice apply.
 */
extern void mtp_pagedir_learn_count(Relation rel, MemoryContext query, int n,
									const AttrNumber *attnums);

/*
 * What is known of a table, in shared memory and in a file that outlives restarts (src/warm).  It
 * has no padding.
 */
typedef struct MtpLearnt
{
	Oid			dbid;
	Oid			relid;
	AttrNumber	learnt;			/* 0: none yet */
	uint16		scans;			/* counted scans, up to 2 */
	AttrNumber	attnums[MTP_LEARN_COLUMNS]; /* 0: a free place */
	float		counts[MTP_LEARN_COLUMNS];
} MtpLearnt;

/*
 * Copies everything that is known into an array of MTP_LEARN_TABLES, and returns the
 * number of entries.  mtp_pagedir_learn_restore takes them back: it leaves out what cannot be
 * right, and replaces what is known of a table already.
 */
extern int	mtp_pagedir_learn_save(MtpLearnt *tables);
extern void mtp_pagedir_learn_restore(const MtpLearnt *tables, int n);

/* The shared memory of learning */
extern const MtpShmem mtp_pagedir_learn_shmem;

#endif							/* MTP_PAGEDIR_LEARN_H */
