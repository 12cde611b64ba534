-- All tables of this database are mtpower's, and their indexes agree with them.  Prints those that
-- are not, and at the end how many tables and indexes there are, and how many entries were batched.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA mtpower;
CREATE TEMP VIEW own AS
SELECT c.oid, c.relkind, c.relam, a.amname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am a ON a.oid = c.relam
WHERE n.nspname NOT IN ('information_schema', 'mtpower') AND n.nspname NOT LIKE 'pg\_%'
	AND NOT EXISTS (SELECT FROM pg_depend d
		WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e');
SELECT 'not a table of mtpower: ' || oid::regclass FROM own
WHERE relkind IN ('r', 'm') AND amname <> 'mtpower';
SELECT 'not valid: ' || oid::regclass FROM own JOIN pg_index ON indexrelid = oid
WHERE NOT indisvalid;
\o /dev/null
SELECT mtpower.verify_index(oid, true) FROM own
WHERE amname LIKE 'mtpower\_%' AND relkind = 'i';
SELECT mtpower.bt_index_check(oid, true) FROM own WHERE amname = 'btree' AND relkind = 'i';
\o
SELECT format('verified: %s %s %s', count(*) FILTER (WHERE relkind IN ('r', 'm')),
	count(*) FILTER (WHERE amname LIKE 'mtpower\_%' AND relkind = 'i' OR amname = 'btree'),
	(SELECT coalesce(sum(entries), 0) FROM mtpower.stat_batches
		WHERE database = current_database()))
FROM own;
