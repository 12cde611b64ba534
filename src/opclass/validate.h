/*
 * validate.h
 *	  What an access method of ours says about its operator classes, so that they can be checked.
 */
#ifndef MTP_OPCLASS_VALIDATE_H
#define MTP_OPCLASS_VALIDATE_H

#include "opclass/opclass.h"

#include "access/amvalidate.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "utils/catcache.h"

/* An operator family under examination. */
typedef struct MtpOpclassCheck
{
	const char *family;			/* names, for messages */
	const char *am;
	CatCList   *operators;		/* of pg_amop */
	CatCList   *functions;		/* of pg_amproc */
	bool		valid;			/* nothing has been found wrong */
} MtpOpclassCheck;

/* The rules of an access method. */
typedef struct MtpOpclassRules
{
	int			nstrategies;	/* operators have numbers 1 .. nstrategies, */
	int			nsupport;		/* and functions 1 .. nsupport */

	/*
	 * Has a function, whose number is one of these, the arguments and the result that it asks for?
	 */
	bool		(*is_signature) (Form_pg_amproc function);

	/*
	 * Complains about what the family lacks, or has beyond what it may have.  True if it has
	 * operators for the type, which is the operator class's.
	 */
	bool		(*check_family) (MtpOpclassCheck *check, Oid intype);
} MtpOpclassRules;

/* Complaints are messages, not errors: the user sees all of them. */
#define mtp_opclass_complain(check, ...) \
	do { \
		ereport(INFO, \
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION), \
				 errmsg(__VA_ARGS__))); \
		(check)->valid = false; \
	} while (0)

/*
 * Complaints that check_family may have: operators missing for a pair of types, or for some pair.
 */
extern void mtp_opclass_lacks_operators(MtpOpclassCheck *check, const OpFamilyOpFuncGroup *group);
extern void mtp_opclass_lacks_cross_type(MtpOpclassCheck *check);

/*
 * amvalidate: true if the operator class and its whole family keep the rules.  Says what is
 * not, with INFO.
 */
extern bool mtp_opclass_validate(Oid opclassoid, const MtpOpclassRules *rules);

/* ordered.c: the same for an access method whose operator classes are btree's */
extern bool mtp_opclass_validate_ordered(Oid opclass);

/*
 * For builds: ERRCODE_FEATURE_NOT_SUPPORTED if a column's operator class compares bytes where its
 * collation, a nondeterministic one, does not.
 */
extern void mtp_opclass_check_collations(Relation index);

#endif							/* MTP_OPCLASS_VALIDATE_H */
