/*
 * opclass.h
 *	  Operator classes of mtpower's index access methods: mirrors of core's.
 *
 * An operator class belongs to one access method.  Each of ours therefore has a copy (a mirror) of
 * every operator class of the core access method whose strategies it implements.  See README.md.
 */
#ifndef MTP_OPCLASS_H
#define MTP_OPCLASS_H

#include "postgres.h"

#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* An index access method of ours, and the one of core whose operator classes it mirrors. */
typedef struct MtpOpclassPair
{
	const char *am_name;
	Oid			core_am;
} MtpOpclassPair;

/* All pairs; the last one has am_name NULL. */
extern const MtpOpclassPair mtp_opclass_pairs[];

/*
 * The support function that says which values are equal, for btree and hash alike: it compares or
 * hashes them.
 */
#define MTP_OPCLASS_MAIN_PROC	1

/* An operator class or family, palloc'd; ERROR if there is none. */
extern Form_pg_opclass mtp_opclass_row(Oid opclass);
extern Form_pg_opfamily mtp_opclass_family_row(Oid family);

/* The pair of an access method's name; NULL if it is not one of ours. */
extern const MtpOpclassPair *mtp_opclass_pair_by_name(const char *am_name);

/*
 * True if both operator classes accept the same type, and order (hash) it by the same operators and
 * the same support function 1.  Names and schemas don't count.  "ours" belongs to the pair's access
 * method of ours, "original" to core's.
 */
extern bool mtp_opclass_is_mirror(const MtpOpclassPair *pair, Oid ours, Oid original);

/* The qualified, quoted name of an operator class; palloc'd. */
extern char *mtp_opclass_name(Oid opclass);

/*
 * All members of an operator family: a List of core's OpFamilyMember *, palloc'd, operators first.
 * With builtin_only those that initdb didn't make are left out.
 */
extern List *mtp_opclass_family_members(Oid family, bool builtin_only);

/*
 * amadjustmembers: whom new members of a family depend on, as nbtree and core's hash decide it.
 * Operators and main functions for one type belong to that type's operator class, if there is one
 * (opclass: the one that is being created, or InvalidOid); all others can be taken out of the
 * family again.  pg_dump writes the former with the operator class.  operators, functions: Lists of
 * OpFamilyMember *, which are changed.  Does CommandCounterIncrement().
 */
extern void mtp_opclass_adjust_members(Oid family, Oid opclass, List *operators, List *functions);

/*
 * For builds: ERRCODE_INVALID_OBJECT_DEFINITION if a key column's operator class has no main
 * function (hint says what to do), or one that does not take nargs arguments and return integer
 * (detail says so).
 */
extern void mtp_opclass_check_support(Relation index, int nargs, const char *hint,
									  const char *detail);

/*
 * Commands on operator classes, given as names and OIDs, that run as if the user had typed them
 * (event triggers fire, other extensions' hooks see them).  Names need no quoting.  All raise
 * core's errors; all end with CommandCounterIncrement().
 *
 * create_class and add_members take Lists of OpFamilyMember *.
 */
extern void mtp_opclass_create_family(const char *am_name, Oid nsp, const char *name);
extern void mtp_opclass_create_class(const char *am_name, Oid nsp, const char *name, Oid intype,
									 bool is_default, Oid family, List *members);
extern void mtp_opclass_add_members(const char *am_name, Oid family, List *members);
extern void mtp_opclass_drop_family(const char *am_name, Oid nsp, const char *name);
extern void mtp_opclass_set_owner(ObjectType type, const char *am_name, Oid nsp,
								  const char *name, Oid owner);
extern void mtp_opclass_make_member(ObjectType type, const char *am_name, Oid nsp,
									const char *name);

/* Its share of _PG_init. */
extern void mtp_opclass_init(void);

#endif							/* MTP_OPCLASS_H */
