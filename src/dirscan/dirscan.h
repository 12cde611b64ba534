/*
 * dirscan.h
 *	  The directory scan: a sequential scan that asks the directories of a table's pages.
 *
 * See README.md in this directory.
 */
#ifndef MTP_DIRSCAN_H
#define MTP_DIRSCAN_H

#include "core/core.h"

#include "access/heapam.h"
#include "buffer/frame.h"
#include "pagedir/pagedir.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* mtpower.enable_directoryscan */
extern bool mtp_enable_directoryscan;

/* What a clause asks of its column */
typedef enum MtpClauseKind
{
	MTP_CLAUSE_OP,				/* column op value */
	MTP_CLAUSE_ANY,				/* column = ANY (value) */
	MTP_CLAUSE_NULL,			/* column IS NULL, */
	MTP_CLAUSE_NOT_NULL			/* IS NOT NULL: no value */
} MtpClauseKind;

typedef struct MtpDirscanClause
{
	MtpClauseKind kind;
	AttrNumber	attnum;
	Oid			op;				/* with the column on its left */
	Oid			collation;
	bool		lowest;			/* of the table's lowest security level: whatever it tells, its
								 * user may know */
	bool		narrow;			/* what is asked of its column leaves a part of the rows only:
								 * worth directories of it */
	RestrictInfo *rinfo;		/* what it is a clause of, in the planner */
	Expr	   *value;
	ExprState  *state;			/* of value, in the executor */
} MtpDirscanClause;

/*
 * clause.c: the clauses among a base relation's restrictions that directories can be asked; narrow is for the caller to say.  And such a list as a plan has it, in two
 * lists: kinds, columns and operators, one clause behind the other, for custom_private, values for custom_exprs.  Read without any values (teach.c), clauses have none.
 */
extern List *mtp_dirscan_clauses(PlannerInfo *root, RelOptInfo *rel, List *rinfos);
extern void mtp_dirscan_write_clauses(List *clauses, List **kinds, List **values);
extern List *mtp_dirscan_read_clauses(CustomScan *plan);

/* What became of blocks */
typedef enum MtpDirscanCount
{
	MTP_DIRSCAN_ASKED,			/* rows fetched that a directory named, others not looked at */
	MTP_DIRSCAN_SKIPPED,		/* no row can match, says the directory */
	MTP_DIRSCAN_READ,			/* read as a sequential scan reads them */
	MTP_DIRSCAN_COUNTS
}			MtpDirscanCount;

/* In a parallel query's shared memory; core's descriptor follows. */
typedef struct MtpDirscanShared
{
	pg_atomic_uint64 counts[MTP_DIRSCAN_COUNTS];	/* of the workers */
} MtpDirscanShared;

/* Candidates of a block beyond which the whole block is read: fetching each of them locks the page. */
#define MTP_DIRSCAN_FEW	32

typedef struct MtpDirscanState
{
	CustomScanState css;		/* its ss_currentScanDesc reads pages, and says which blocks there
								 * are */
	List	   *clauses;
	List	   *asking;			/* those that may ask the table's directories */
	uint64		counts[MTP_DIRSCAN_COUNTS];
	MtpDirscanShared *shared;
	bool		begun;			/* the first row was asked for */
	bool		counted;		/* mtp_pagedir_learn_count was called */

	/* read.c: where the scan stands */
	int64		at;				/* blocks from the scan's first one: -1 before it, the number of
								 * blocks behind all */
	BlockNumber block;
	bool		named;			/* the block's rows are those below, else those of the scan's
								 * descriptor */
	int			nrows;
	int			row;
	OffsetNumber rows[MaxHeapTuplesPerPage];

	/* ask.c: directories */
	bool		asks;
	bool		has_keys;		/* the values below are this scan's */
	bool		nothing;		/* no row can match */
	bool		wants;			/* mtp_pagedir_request was called */
	MtpPagedirColumns columns;
	ExprContext *key_context;	/* keys live in its memory, until a rescan */
	MemoryContext search_context;	/* what comparison functions allocate */
	MtpPagedirKey *keys;		/* room for one more */
	int			nkeys;
	MtpPagedirKey *any;			/* one of these must match as well, if there are any */
	int			nany;
	uint32		pair;			/* the last one that was asked; InvalidBlockNumber: none */
	bool		answered;
	MtpFrameRef ref;			/* the last directory that was found */
	MtpPagedirItems items;
} MtpDirscanState;

/* read.c: the next row in the executor's direction, in the scan's slot; NULL behind the last one. */
extern TupleTableSlot *mtp_dirscan_next(MtpDirscanState *s);
extern void mtp_dirscan_begin_reading(MtpDirscanState *s);

/* ask.c: prepares for asking, if there is anything to ask; asks a pair of blocks, whose items are then in s->items. */
extern void mtp_dirscan_begin_asking(MtpDirscanState *s);
extern bool mtp_dirscan_ask(MtpDirscanState *s, uint32 pair);

/* The columns that narrow clauses of the lowest security level ask, each once; returns how many, at most MTP_PAGEDIR_COLUMNS. */
extern int	mtp_dirscan_narrow_columns(List *clauses, AttrNumber *attnums);

/*
 * The columns that the table's directories are made of, and how many; returns the clauses that may ask them.  How many pages a directory spares tells of rows that others'
 * clauses hide: of a column that scans have taught it tells those alone from whom nothing is hidden.  As mtp_pagedir_columns.
 */
extern List *mtp_dirscan_asking(Relation table, List *clauses, int *n, AttrNumber *attnums);

/*
 * teach.c: is there a path by an index that costs about as much as this sequential one?  Then, if it gets into the plan that is being
 * made, each execution teaches and asks what a directory scan with these clauses would; of which narrow is known.
 */
extern bool mtp_dirscan_teach_reads_most(List *paths, const Path *seq);
extern void mtp_dirscan_teach_note(Oid relid, RelOptInfo *rel, const Path *seq, List *clauses);
extern void mtp_dirscan_teach_init(void);

/* plan.c: its share of _PG_init */
extern void mtp_dirscan_init(void);

/* explain.c */
extern void mtp_dirscan_explain(CustomScanState *node, List *ancestors, struct ExplainState *es);

/* node.c */
extern CustomScanMethods mtp_dirscan_methods;
extern Node *mtp_dirscan_create_state(CustomScan *plan);

#endif							/* MTP_DIRSCAN_H */
