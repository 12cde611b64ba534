/*
 * clause.c
 *	  Finds the clauses that directories can be asked: `column op value`, in the order of the
 *	  column's type.
 */
#include "dirscan/dirscan.h"

#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "pagedir/choice.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* A plan's list has so many numbers for each clause; the last one holds the flags. */
#define PLAN_FIELDS		5
#define PLAN_NARROW		1
#define PLAN_LOWEST		2

/*
 * The last operators that were looked up.  A plan of many partitions looks up the same ones for
 * each.
 */
#define KNOWN_OPERATORS	16

static struct
{
	Oid			type;
	Oid			op;
	int			strategy;
}			known[KNOWN_OPERATORS];

static uint64 times_forgotten = 0;

static void
forget_operators(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(known, 0, sizeof(known));
	times_forgotten++;
}

/*
 * Returns an operator's strategy in the default btree operator family of a type, or 0.  Remembers
 * it unless the catalogs change while it reads them.
 */
static int
strategy_of(Oid type, Oid op)
{
	static bool listening = false;
	int			slot = (type ^ op) % KNOWN_OPERATORS;
	uint64		before = times_forgotten;
	Oid			family;
	int			strategy;

	if (known[slot].type == type && known[slot].op == op)
		return known[slot].strategy;
	if (!listening)
	{
		CacheRegisterSyscacheCallback(CLAOID, forget_operators, (Datum) 0);
		CacheRegisterSyscacheCallback(AMOPOPID, forget_operators, (Datum) 0);
		listening = true;
	}
	family = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = OidIsValid(family) ? get_op_opfamily_strategy(op, family) : 0;
	if (before == times_forgotten)
	{
		known[slot].type = type;
		known[slot].op = op;
		known[slot].strategy = strategy;
	}
	return strategy;
}

/*
 * Returns the column that an expression is, as indexes see it: its type may be relabelled.  NULL
 * if it is none.
 */
static Var *
column_of(RelOptInfo *rel, Expr *expr)
{
	if (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	if (IsA(expr, Var) && ((Var *) expr)->varno == rel->relid && ((Var *) expr)->varlevelsup == 0 &&
		((Var *) expr)->varattno > 0)
		return (Var *) expr;
	return NULL;
}

/* True if the expression stays the same during a scan and may be evaluated apart from the row. */
static bool
is_value(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	if (IsA(expr, Const) || IsA(expr, Param))
		return true;
	return !bms_is_member(rel->relid, pull_varnos(root, (Node *) expr)) &&
		!contain_volatile_functions((Node *) expr) &&
		!contain_subplans((Node *) expr);
}

/*
 * True if the planner has derived clauses on the table's columns from clauses of several security
 * levels.  Derived clauses have the lowest of these levels, whatever values are in them, and the
 * planner copies them to members of a partitioned table without their origin.
 */
static bool
has_mixed_levels(PlannerInfo *root, RelOptInfo *rel)
{
	Relids		relids = rel->top_parent_relids != NULL ? rel->top_parent_relids : rel->relids;
	ListCell   *lc;

	foreach(lc, root->eq_classes)
	{
		EquivalenceClass *ec = lfirst(lc);

		if (ec->ec_min_security < ec->ec_max_security && bms_overlap(ec->ec_relids, relids))
			return true;
	}
	return false;
}

/*
 * True if the table may be behind a security barrier view.  Core hands leakproof clauses from
 * above the view down into its query, where nothing tells them from the view's own.
 */
static bool
is_below_security_barrier(PlannerInfo *root)
{
	ListCell   *lc;

	for (root = root->parent_root; root != NULL; root = root->parent_root)
		foreach(lc, root->parse->rtable)
			if (lfirst_node(RangeTblEntry, lc)->rtekind == RTE_SUBQUERY &&
				lfirst_node(RangeTblEntry, lc)->security_barrier)
			return true;
	return false;
}

/*
 * Makes a directory scan's clause of a restriction, or returns NULL.  The scan evaluates values
 * before the row's other clauses, so it asks nothing by a clause that must wait for those of a
 * security barrier.
 */
static MtpDirscanClause *
clause_of(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo)
{
	MtpDirscanClause c = {.rinfo = rinfo};
	MtpDirscanClause *clause;
	Var		   *column = NULL;

	if (IsA(rinfo->clause, NullTest))
	{
		NullTest   *test = (NullTest *) rinfo->clause;

		c.kind = test->nulltesttype == IS_NULL ? MTP_CLAUSE_NULL : MTP_CLAUSE_NOT_NULL;
		column = test->argisrow ? NULL : column_of(rel, test->arg);
		if (column != NULL && !OidIsValid(lookup_type_cache(column->vartype,
															TYPECACHE_BTREE_OPFAMILY)->btree_opf))
			return NULL;
	}
	else if (IsA(rinfo->clause, OpExpr) && list_length(((OpExpr *) rinfo->clause)->args) == 2)
	{
		OpExpr	   *expr = (OpExpr *) rinfo->clause;

		c.kind = MTP_CLAUSE_OP;
		c.op = expr->opno;
		c.collation = expr->inputcollid;
		c.value = lsecond(expr->args);
		column = column_of(rel, linitial(expr->args));
		if (column == NULL && (column = column_of(rel, c.value)) != NULL)
		{
			c.op = get_commutator(c.op);
			c.value = linitial(expr->args);
		}
	}
	else if (IsA(rinfo->clause, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) rinfo->clause;

		c.kind = MTP_CLAUSE_ANY;
		c.op = expr->opno;
		c.collation = expr->inputcollid;
		c.value = lsecond(expr->args);
		column = expr->useOr ? column_of(rel, linitial(expr->args)) : NULL;
	}
	if (column == NULL || !restriction_is_securely_promotable(rinfo, rel))
		return NULL;
	if (c.value != NULL)
	{
		/* The operator must belong to the order of the column's directories. */
		int			strategy = OidIsValid(c.op) ? strategy_of(column->vartype, c.op) : 0;

		if (strategy == 0 || (c.kind == MTP_CLAUSE_ANY && strategy != BTEqualStrategyNumber) ||
			c.collation != column->varcollid || !is_value(root, rel, c.value))
			return NULL;
	}
	c.attnum = column->varattno;
	clause = palloc(sizeof(MtpDirscanClause));
	*clause = c;
	return clause;
}

List *
mtp_dirscan_clauses(PlannerInfo *root, RelOptInfo *rel, List *rinfos)
{
	List	   *clauses = NIL;
	bool		lowest;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		MtpDirscanClause *clause = clause_of(root, rel, lfirst_node(RestrictInfo, lc));

		if (clause != NULL)
			clauses = lappend(clauses, clause);
	}
	if (clauses == NIL)
		return NIL;
	lowest = !has_mixed_levels(root, rel) && !is_below_security_barrier(root);
	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		clause->lowest = lowest && clause->rinfo->security_level == rel->baserestrict_min_security;
	}
	return clauses;
}

void
mtp_dirscan_write_clauses(List *clauses, List **kinds, List **values)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		*kinds = list_concat(*kinds, list_make5_oid(clause->kind, clause->attnum, clause->op,
													clause->collation,
													(clause->narrow ? PLAN_NARROW : 0) |
													(clause->lowest ? PLAN_LOWEST : 0)));
		if (clause->value != NULL)
			*values = lappend(*values, clause->value);
	}
}

List *
mtp_dirscan_read_clauses(List *kinds, List *values)
{
	List	   *clauses = NIL;
	ListCell   *value = list_head(values);

	for (int i = 0; i < list_length(kinds); i += PLAN_FIELDS)
	{
		MtpDirscanClause *clause = palloc(sizeof(MtpDirscanClause));
		Oid			flags = list_nth_oid(kinds, i + 4);

		*clause = (MtpDirscanClause)
		{
			.kind = list_nth_oid(kinds, i),.attnum = list_nth_oid(kinds, i + 1),
				.op = list_nth_oid(kinds, i + 2),.collation = list_nth_oid(kinds, i + 3),
				.narrow = (flags & PLAN_NARROW) != 0,.lowest = (flags & PLAN_LOWEST) != 0
		};
		if (values != NIL &&
			(clause->kind == MTP_CLAUSE_OP || clause->kind == MTP_CLAUSE_ANY))
		{
			Assert(value != NULL);
			clause->value = lfirst(value);
			value = lnext(values, value);
		}
		clauses = lappend(clauses, clause);
	}
	return clauses;
}

List *
mtp_dirscan_asking(Relation table, List *clauses, int *n, AttrNumber *attnums)
{
	bool		learnt;
	List	   *asking = NIL;
	ListCell   *lc;

	*n = mtp_pagedir_columns(table, attnums, &learnt);
	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);

		if (learnt && !clause->lowest)
			continue;
		for (int i = 0; i < *n; i++)
			if (clause->attnum == attnums[i])
				asking = lappend(asking, clause);
	}
	return asking;
}

int
mtp_dirscan_narrow_columns(List *clauses, AttrNumber *attnums)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		MtpDirscanClause *clause = lfirst(lc);
		bool		has = !clause->narrow || !clause->lowest;

		for (int i = 0; i < n; i++)
			has |= attnums[i] == clause->attnum;
		if (!has && n < MTP_PAGEDIR_COLUMNS)
			attnums[n++] = clause->attnum;
	}
	return n;
}
