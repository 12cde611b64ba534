/*
 * dirscan.h
 *	  The directory scan: a sequential scan that asks the directories of a table's pages.
 *
 * README.md has the rules.
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
#include "zone/zone.h"

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
	bool		lowest;			/* of the table's lowest security level: the user may know whatever
								 * it tells */
	bool		narrow;			/* the clauses on its column leave few rows: directories of the
								 * column are worth it */
	RestrictInfo *rinfo;		/* the restriction that it comes from, in the planner */
	Expr	   *value;
	ExprState  *state;			/* of value, in the executor */
} MtpDirscanClause;

/*
 * clause.c: finds the clauses among a base relation's restrictions that directories can be asked;
 * the caller sets narrow. write and read convert such a list to a plan's two lists: kinds, columns
 * and operators, and the values, for custom_exprs.  Without values (teach.c) the clauses that are
 * read have none.
 */
extern List *mtp_dirscan_clauses(PlannerInfo *root, RelOptInfo *rel, List *rinfos);
extern void mtp_dirscan_write_clauses(List *clauses, List **kinds, List **values);
extern List *mtp_dirscan_read_clauses(List *kinds, List *values);

/* How blocks were read */
typedef enum MtpDirscanCount
{
	MTP_DIRSCAN_ASKED,			/* only the rows that a directory named were fetched */
	MTP_DIRSCAN_SKIPPED,		/* the directory says that no row can match */
	MTP_DIRSCAN_READ,			/* read as a sequential scan reads them */
	MTP_DIRSCAN_COUNTS
}			MtpDirscanCount;

/* In a parallel query's shared memory; core's descriptor follows. */
typedef struct MtpDirscanShared
{
	pg_atomic_uint64 counts[MTP_DIRSCAN_COUNTS];	/* of the workers */
	pg_atomic_uint64 searches;	/* of the workers, too */
	pg_atomic_uint64 found;
	pg_atomic_uint64 pairs;
} MtpDirscanShared;

/*
 * If a block has more candidates the scan reads it as a whole, since fetching each of them locks
 * the page.
 */
#define MTP_DIRSCAN_FEW	32
#define MTP_DIRSCAN_MANY (-1)

/* Forward, the scan looks at blocks and reads pages before it comes to them. */
typedef struct MtpDirscanAhead
{
	MtpBlockStream stream;
	bool		active;
	bool		streaming;		/* the stream has begun */
	BlockNumber first;			/* the stream's first block, until it has it */
	int64		at;				/* as in the scan's position */
	bool		reading;		/* the block at `at` is in the stream */

	/* The block at `at`, where rows of it are named: the scan's rows[]. */
	BlockNumber block;
	int			nrows;			/* 0 if there is none */
} MtpDirscanAhead;

/* The pairs that a zone index leaves */
typedef struct MtpDirscanZones
{
	Oid			indexid;		/* InvalidOid: all pairs are left */
	Relation	index;			/* NULL until the scan begins */
	struct MtpDirscanZoneKey *keys; /* of prune.c */
	int			nkeys;
	MtpZoneSearch search;
	int			run;			/* where the scan is in search.runs */
	uint64		searches;		/* by scans and rescans, that have … */
	uint64		found;			/* … found so many pairs … */
	uint64		pairs;			/* … of so many */
} MtpDirscanZones;

typedef struct MtpDirscanState
{
	CustomScanState css;		/* its ss_currentScanDesc reads pages and says which blocks there
								 * are */
	List	   *clauses;
	List	   *asking;			/* the clauses that may ask the table's directories */
	uint64		counts[MTP_DIRSCAN_COUNTS];
	MtpDirscanShared *shared;
	MtpDirscanZones zones;
	bool		begun;			/* the executor has asked for the first row … */
	bool		started;		/* … of this scan or rescan */
	bool		counted;		/* mtp_pagedir_learn_count was called */

	/* read.c: the scan's position */
	int64		at;				/* blocks from the scan's first one: -1 before it, the number of
								 * blocks behind the last */
	BlockNumber block;
	bool		named;			/* the rows are rows[], else those of the scan's descriptor */
	int			nrows;
	int			row;
	OffsetNumber rows[MTP_DIRSCAN_FEW];
	MtpDirscanAhead ahead;

	/* ask.c: directories */
	bool		asks;
	bool		has_keys;		/* the keys are this scan's */
	bool		nothing;		/* no row can match */
	bool		wants;			/* mtp_pagedir_request was called */
	MtpPagedirColumns columns;
	ExprContext *key_context;	/* keys live in its memory, until a rescan */
	MemoryContext search_context;	/* what comparison functions allocate */
	MtpPagedirKey *keys;		/* has room for one more */
	int			nkeys;
	MtpPagedirKey *any;			/* one of these must match as well, if there are any */
	int			nany;
	uint32		pair;			/* the last pair that was asked; InvalidBlockNumber: none */
	bool		answered;
	MtpFrameRef ref;			/* the last directory that was found */
	MtpPagedirItems items;
} MtpDirscanState;

/*
 * read.c: returns the next row in the executor's direction, in the scan's slot, or NULL behind the
 * last one.  mtp_dirscan_begin_reading sets the position to the start; the scan's descriptor is new
 * or was reset.  mtp_dirscan_end_reading leaves the pages that were read ahead, before the
 * descriptor goes or is reset.
 */
extern TupleTableSlot *mtp_dirscan_next(MtpDirscanState *s);
extern void mtp_dirscan_begin_reading(MtpDirscanState *s);
extern void mtp_dirscan_end_reading(MtpDirscanState *s);

/*
 * ask.c: prepares for asking if there is something to ask; asks a pair of blocks, and on success
 * s->items are its candidates.
 */
extern void mtp_dirscan_begin_asking(MtpDirscanState *s);
extern bool mtp_dirscan_ask(MtpDirscanState *s, uint32 pair);

/* How a zone index prunes a scan, by the planner's guess */
typedef struct MtpDirscanPruning
{
	Oid			indexid;		/* InvalidOid: none does */
	double		share;			/* of the pages, that are left */
	Cost		search;
	Cost		reading;		/* of these pages */
} MtpDirscanPruning;

/*
 * choose.c: true if the table has a zone index that the planner may use; the one that leaves the
 * fewest pages by these clauses, unless it leaves most of them, for a scan that gets values from
 * these relations; what such a scan costs behind its startup, without the search; and the sets of
 * relations, as Relids, that give a look-up the values of a join clause on a column of such an
 * index.
 */
extern bool mtp_dirscan_can_prune(const RelOptInfo *rel);
extern MtpDirscanPruning mtp_dirscan_choose_zones(PlannerInfo *root, RelOptInfo *rel,
												  List *clauses, Relids outer);
extern Cost mtp_dirscan_pruned_cost(RelOptInfo *rel, const Path *seq,
									const MtpDirscanPruning *pruning);
extern List *mtp_dirscan_join_relids(PlannerInfo *root, RelOptInfo *rel);

/*
 * prune.c: opens the plan's zone index, if it has one, and closes it; searches it with this scan's
 * values; and returns the first block that was found from one on, UINT32_MAX if there is none, and
 * the last one up to another, -1 if there is none.
 */
extern void mtp_dirscan_begin_pruning(MtpDirscanState *s);
extern void mtp_dirscan_end_pruning(MtpDirscanState *s);
extern void mtp_dirscan_prune(MtpDirscanState *s);
extern int64 mtp_dirscan_found_from(MtpDirscanState *s, int64 block);
extern int64 mtp_dirscan_found_to(MtpDirscanState *s, int64 block);

/*
 * Returns how many columns the narrow clauses of the lowest security level name, each once, at
 * most MTP_PAGEDIR_COLUMNS.
 */
extern int	mtp_dirscan_narrow_columns(List *clauses, AttrNumber *attnums);

/*
 * Returns the clauses that may ask the table's directories, and which columns these have.  The
 * number of pages that a directory spares tells of rows that other users' clauses hide.  So
 * clauses on a learnt column count only if they are of the lowest security level.  The rules of
 * mtp_pagedir_columns apply.
 */
extern List *mtp_dirscan_asking(Relation table, List *clauses, int *n, AttrNumber *attnums);

/*
 * teach.c: mtp_dirscan_teach_reads_most is true if a path by an index costs about as much as this
 * sequential one.  If such a path gets into the plan, each execution teaches and asks what a
 * directory scan with these clauses would.  The caller has set their narrow.
 */
extern bool mtp_dirscan_teach_reads_most(List *paths, const Path *seq);
extern void mtp_dirscan_teach_note(Oid relid, RelOptInfo *rel, const Path *seq, List *clauses);
extern void mtp_dirscan_teach_init(void);

/* plan.c: this room's part of _PG_init */
extern void mtp_dirscan_init(void);

/* node.c */
extern CustomScanMethods mtp_dirscan_methods;

#endif							/* MTP_DIRSCAN_H */
