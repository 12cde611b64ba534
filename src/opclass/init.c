/*
 * init.c
 *	  Hooks through which index definitions are checked.
 */
#include "core/core.h"
#include "opclass/opclass.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type previous_utility_hook = NULL;
static object_access_hook_type previous_access_hook = NULL;

/*
 * Relations that the current ALTER TABLE has created, if that has to be known.  The list lives in
 * the memory context that was current when the command began.
 */
typedef struct CreatedRelations
{
	MemoryContext context;
	List	   *oids;
} CreatedRelations;

static CreatedRelations *created_relations = NULL;

static void
note_created_relation(ObjectAccessType access, Oid class, Oid object, int sub_id, void *arg)
{
	if (previous_access_hook != NULL)
		previous_access_hook(access, class, object, sub_id, arg);

	if (created_relations != NULL && access == OAT_POST_CREATE &&
		class == RelationRelationId && sub_id == 0)
	{
		MemoryContext old = MemoryContextSwitchTo(created_relations->context);

		created_relations->oids = lappend_oid(created_relations->oids, object);
		MemoryContextSwitchTo(old);
	}
}

static void
run_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *query_env,
			DestReceiver *dest, QueryCompletion *qc)
{
	if (previous_utility_hook != NULL)
		previous_utility_hook(pstmt, query_string, read_only_tree, context, params, query_env,
							  dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params, query_env,
								dest, qc);
}

static void
check_index_definitions(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	CreatedRelations *outer = created_relations;
	CreatedRelations created = {.context = CurrentMemoryContext,.oids = NIL};

	mtp_opclass_check_before(pstmt->utilityStmt, query_string);
	if (!mtp_opclass_needs_check_after(pstmt->utilityStmt))
	{
		run_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
		return;
	}

	PG_TRY();
	{
		created_relations = &created;
		run_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		created_relations = outer;
	}
	PG_END_TRY();
	mtp_opclass_check_after(created.oids);
}

void
mtp_opclass_init(void)
{
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = check_index_definitions;
	previous_access_hook = object_access_hook;
	object_access_hook = note_created_relation;
}
