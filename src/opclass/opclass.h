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
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/* An index access method of ours, and the one of core whose operator classes it mirrors. */
typedef struct MtpOpclassPair
{
	const char *am_name;
	Oid			core_am;
} MtpOpclassPair;

/* All pairs; the last one has am_name NULL. */
extern const MtpOpclassPair mtp_opclass_pairs[];

/* One row of pg_opclass. */
typedef struct MtpOpclass
{
	Oid			oid;
	Oid			family;
	Oid			nsp;
	Oid			owner;
	Oid			intype;
	bool		is_default;
	NameData	name;
} MtpOpclass;

/*
 * The pair of an access method's name or OID; NULL if it is not one of ours.
 */
extern const MtpOpclassPair *mtp_opclass_pair_by_name(const char *am_name);
extern const MtpOpclassPair *mtp_opclass_pair_by_oid(Oid am);

/*
 * True if both operator classes accept the same type, and order (hash) it by the same operators and
 * the same support function 1.  Names and schemas don't count.  "ours" belongs to the pair's access method
 * of ours, "original" to core's.
 */
extern bool mtp_opclass_is_mirror(const MtpOpclassPair *pair, Oid ours, Oid original);

/*
 * The core access method's default operator class for a type (domains count as their base type), if
 * our_am's default for that type is not its mirror, or our_am has none.  InvalidOid otherwise, so also
 * if core has none.  *ours is set to our_am's default for the type or to InvalidOid.
 */
extern Oid	mtp_opclass_unmirrored_default(const MtpOpclassPair *pair, Oid our_am,
										   Oid type, Oid *ours);

/* The qualified, quoted name of an operator class; palloc'd. */
extern char *mtp_opclass_name(Oid opclass);

/* For list_sort(), of structs that begin with an Oid. */
extern int	mtp_opclass_compare_oids(const ListCell *a, const ListCell *b);

/* All operator classes of an access method in the order of their OIDs: a List of MtpOpclass *, palloc'd. */
extern List *mtp_opclass_list(Oid am);

/*
 * All members of an operator family: a List of core's OpFamilyMember *, palloc'd, operators first.
 * With builtin_only those that initdb didn't make are left out.
 */
extern List *mtp_opclass_family_members(Oid family, bool builtin_only);

/*
 * Commands on operator classes, given as names and OIDs, that run as if the user had typed them
 * (event triggers fire, other extensions' hooks see them).  Names need no quoting.  All raise core's
 * errors; all end with CommandCounterIncrement().
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

/*
 * Checks of a utility command, called before and after it runs.  "before" raises an ERROR if the
 * command would create an index of ours that is unique (where that isn't supported), or with an
 * operator class that sync_opclasses() should have made first.  It may lock the table that the command
 * is about, in the mode in which core will lock it.
 *
 * "after" gets the relations that an ALTER TABLE has created, and raises an ERROR if one of them is an
 * index of ours that has come to an operator class in the same way.
 */
extern void mtp_opclass_check_before(Node *stmt, const char *query_string);
extern bool mtp_opclass_needs_check_after(Node *stmt);
extern void mtp_opclass_check_after(List *relations);

#endif							/* MTP_OPCLASS_H */
