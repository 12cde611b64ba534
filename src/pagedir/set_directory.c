/*
 * set_directory.c
 *	  mtpower.set_directory(): the owner chooses the columns of a table's directories.
 */
#include "core/core.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "pagedir/pagedir.h"
#include "pagedir/choice.h"
#include "core/identity.h"

PG_FUNCTION_INFO_V1(mtp_table_set_directory);

static void
refuse_nulls(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("names of directory columns must not be null"),
			 errhint("A single NULL as name means no directories, no name at all that their column is learnt.")));
}

/* Reads what the caller asks for.  Returns the columns' names, which are not looked up yet. */
static Datum *
read_request(FunctionCallInfo fcinfo, MtpPagedirChoice *own)
{
	ArrayType  *array;
	Datum	   *names;
	bool	   *nulls;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation must not be null")));
	if (PG_ARGISNULL(1))
		refuse_nulls();

	array = PG_GETARG_ARRAYTYPE_P(1);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("names of directory columns must be a one-dimensional array")));
	deconstruct_array(array, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, &nulls,
					  &own->ncolumns);

	own->choice = own->ncolumns == 0 ? MTP_PAGEDIR_LEARNT : MTP_PAGEDIR_FIXED;
	if (own->ncolumns == 1 && nulls[0])
	{
		own->choice = MTP_PAGEDIR_OFF;
		own->ncolumns = 0;
	}
	for (int i = 0; i < own->ncolumns; i++)
		if (nulls[i])
			refuse_nulls();
	if (own->ncolumns > MTP_LABEL_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("page directories cannot have more than %d columns", MTP_LABEL_COLUMNS)));
	return names;
}

/*
 * Checks what the label provider checks for SECURITY LABEL, and that the table is an mtpower one.
 */
static void
check_target(Form_pg_class rel, MtpPagedirChosen choice)
{
	if (!MtpOwnsRelation(rel->oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->relkind),
					   NameStr(rel->relname));
	mtp_pagedir_label_check_relation(rel);

	/* Labels that a table has kept from its time as an mtpower table can be removed. */
	if (choice != MTP_PAGEDIR_LEARNT && rel->relkind != RELKIND_PARTITIONED_TABLE &&
		rel->relam != get_table_am_oid(MTP_TABLE_AM_NAME, true))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" is not of access method \"%s\"", NameStr(rel->relname),
						MTP_TABLE_AM_NAME),
				 errdetail("Only tables of access method \"%s\" have page directories.",
						   MTP_TABLE_AM_NAME),
				 rel->oid < FirstNormalObjectId ? 0 :
				 rel->relam == HEAP_TABLE_AM_OID ? errhint("Call mtpower.adopt() for it first.") :
				 errhint("Use ALTER TABLE ... SET ACCESS METHOD.")));
}

/*
 * Checks before it requests the lock, so that no user can block tables of others, and again under
 * the lock.  The lock is that of SECURITY LABEL and lasts to the end of the transaction; readers
 * and writers of the table go on.
 */
Datum
mtp_table_set_directory(PG_FUNCTION_ARGS)
{
	MtpPagedirChoice own = {0};
	Datum	   *names;
	Oid			relid;
	HeapTuple	tup;
	Relation	rel = NULL;

	mtp_require_preload();
	PreventCommandIfReadOnly("mtpower.set_directory()");
	PreventCommandIfParallelMode("mtpower.set_directory()");
	PreventCommandDuringRecovery("mtpower.set_directory()");
	names = read_request(fcinfo, &own);
	relid = PG_GETARG_OID(0);

	tup = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tup))
	{
		check_target((Form_pg_class) GETSTRUCT(tup), own.choice);
		ReleaseSysCache(tup);
		rel = try_relation_open(relid, ShareUpdateExclusiveLock);
	}
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	check_target(rel->rd_rel, own.choice);
	for (int i = 0; i < own.ncolumns; i++)
	{
		const char *name = NameStr(*DatumGetName(names[i]));
		AttrNumber	attnum = get_attnum(relid, name);
		Oid			type;

		if (attnum == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist",
							name, RelationGetRelationName(rel))));
		if (attnum < 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("page directories on system columns are not supported"),
					 errdetail("Column \"%s\" is a system column.", name)));
		type = get_atttype(relid, attnum);
		if (!OidIsValid(GetDefaultOpClass(type, BTREE_AM_OID)) ||
			!OidIsValid(lookup_type_cache(type, TYPECACHE_CMP_PROC)->cmp_proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("column \"%s\" of table \"%s\" cannot be a directory column",
							name, RelationGetRelationName(rel)),
					 errdetail("Data type %s, or one within it, has no default operator class for access method \"btree\".",
							   format_type_be(type)),
					 errhint("Leave the column out, or define a default operator class for its data type.")));
		if (!mtp_pagedir_has_order(type))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" of table \"%s\" cannot be a directory column",
							name, RelationGetRelationName(rel)),
					 errdetail("Data type %s, or one within it, is a row type, whose order may change with its attributes.",
							   format_type_be(type)),
					 errhint("Leave the column out.")));
		for (int j = 0; j < i; j++)
			if (own.columns[j] == attnum)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("column \"%s\" specified more than once", name)));
		own.columns[i] = attnum;
	}
	relation_close(rel, NoLock);

	mtp_pagedir_label_write(relid, &own);
	PG_RETURN_VOID();
}
