/*
 * command.c
 *	  Runs CREATE, ALTER and DROP commands on operator classes and families.
 *
 * The commands are built as parse trees: types are given by their OIDs, everything else by a
 * qualified name, so neither quoting nor search_path matters.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_operator.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* What other hooks see as the command's text. */
#define COMMAND_SOURCE "mtpower.sync_opclasses()"

static void
run_command(Node *stmt)
{
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	wrapper->commandType = CMD_UTILITY;
	wrapper->canSetTag = false;
	wrapper->utilityStmt = stmt;
	wrapper->stmt_location = -1;
	wrapper->stmt_len = 0;
	ProcessUtility(wrapper, COMMAND_SOURCE, false, PROCESS_UTILITY_QUERY, NULL, NULL,
				   None_Receiver, NULL);
	CommandCounterIncrement();
}

/* (schema, name), the schema of a temporary object included. */
static List *
qualified_name(Oid nsp, const char *name)
{
	return list_make2(makeString(get_namespace_name(nsp)), makeString(pstrdup(name)));
}

/* (access method, schema, name), as commands name an existing operator class or family. */
static List *
object_name(const char *am_name, Oid nsp, const char *name)
{
	return lcons(makeString(pstrdup(am_name)), qualified_name(nsp, name));
}

static List *
family_name(Oid family)
{
	Form_pg_opfamily row = mtp_opclass_family_row(family);

	return qualified_name(row->opfnamespace, NameStr(row->opfname));
}

/*
 * The items of CREATE OPERATOR CLASS and ALTER OPERATOR FAMILY.  The types of a support function
 * are spelled out always: core infers them for its own access methods only.
 */
static List *
member_items(List *members)
{
	List	   *items = NIL;
	ListCell   *lc;

	foreach(lc, members)
	{
		OpFamilyMember *member = lfirst(lc);
		CreateOpClassItem *item = makeNode(CreateOpClassItem);

		item->number = member->number;
		item->name = makeNode(ObjectWithArgs);
		if (member->is_func)
		{
			Oid		   *types;
			int			ntypes;

			(void) get_func_signature(member->object, &types, &ntypes);
			item->name->objname = qualified_name(get_func_namespace(member->object),
												 get_func_name(member->object));
			for (int i = 0; i < ntypes; i++)
				item->name->objargs = lappend(item->name->objargs,
											  makeTypeNameFromOid(types[i], -1));
			item->itemtype = OPCLASS_ITEM_FUNCTION;
			item->class_args = list_make2(makeTypeNameFromOid(member->lefttype, -1),
										  makeTypeNameFromOid(member->righttype, -1));
		}
		else
		{
			HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(member->object));
			Form_pg_operator form;

			if (!HeapTupleIsValid(tuple))
				elog(ERROR, "cache lookup failed for operator %u", member->object);
			form = (Form_pg_operator) GETSTRUCT(tuple);
			item->name->objname = qualified_name(form->oprnamespace, NameStr(form->oprname));
			item->name->objargs = list_make2(makeTypeNameFromOid(form->oprleft, -1),
											 makeTypeNameFromOid(form->oprright, -1));
			ReleaseSysCache(tuple);
			item->itemtype = OPCLASS_ITEM_OPERATOR;
		}
		items = lappend(items, item);
	}
	return items;
}

void
mtp_opclass_create_family(const char *am_name, Oid nsp, const char *name)
{
	CreateOpFamilyStmt *stmt = makeNode(CreateOpFamilyStmt);

	stmt->opfamilyname = qualified_name(nsp, name);
	stmt->amname = pstrdup(am_name);
	run_command((Node *) stmt);
}

/*
 * The storage type is left out.  Of btree's and hash's operator classes only name_ops has one,
 * cstring, which neither SQL nor our access methods know: our indexes store the name itself.
 */
void
mtp_opclass_create_class(const char *am_name, Oid nsp, const char *name, Oid intype,
						 bool is_default, Oid family, List *members)
{
	CreateOpClassStmt *stmt = makeNode(CreateOpClassStmt);

	stmt->opclassname = qualified_name(nsp, name);
	stmt->opfamilyname = family_name(family);
	stmt->amname = pstrdup(am_name);
	stmt->datatype = makeTypeNameFromOid(intype, -1);
	stmt->items = member_items(members);
	stmt->isDefault = is_default;
	run_command((Node *) stmt);
}

void
mtp_opclass_add_members(const char *am_name, Oid family, List *members)
{
	AlterOpFamilyStmt *stmt = makeNode(AlterOpFamilyStmt);

	stmt->opfamilyname = family_name(family);
	stmt->amname = pstrdup(am_name);
	stmt->isDrop = false;
	stmt->items = member_items(members);
	run_command((Node *) stmt);
}

void
mtp_opclass_drop_family(const char *am_name, Oid nsp, const char *name)
{
	DropStmt   *stmt = makeNode(DropStmt);

	stmt->removeType = OBJECT_OPFAMILY;
	stmt->objects = list_make1(object_name(am_name, nsp, name));
	stmt->behavior = DROP_RESTRICT;
	run_command((Node *) stmt);
}

void
mtp_opclass_set_owner(ObjectType type, const char *am_name, Oid nsp, const char *name, Oid owner)
{
	AlterOwnerStmt *stmt = makeNode(AlterOwnerStmt);

	stmt->objectType = type;
	stmt->object = (Node *) object_name(am_name, nsp, name);
	stmt->newowner = makeNode(RoleSpec);
	stmt->newowner->roletype = ROLESPEC_CSTRING;
	stmt->newowner->rolename = GetUserNameFromId(owner, false);
	stmt->newowner->location = -1;
	run_command((Node *) stmt);
}

void
mtp_opclass_make_member(ObjectType type, const char *am_name, Oid nsp, const char *name)
{
	AlterExtensionContentsStmt *stmt = makeNode(AlterExtensionContentsStmt);

	stmt->extname = pstrdup(MTP_EXTENSION_NAME);
	stmt->action = +1;
	stmt->objtype = type;
	stmt->object = (Node *) object_name(am_name, nsp, name);
	run_command((Node *) stmt);
}
