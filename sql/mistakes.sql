-- What users get wrong when they define tables and indexes or call functions without the rights: each is refused with a
-- SQLSTATE, and where core's words do not say all, with a detail and a hint.  (Wrong rows are in batch_copy and blink_build, wrong
-- relations and blocks in table_adopt, table_index_ddl, page_info and verify, types without operator class in opclass_check,
-- settings in settings, the missing preload in t/house/preload.pl.)
SET client_min_messages = warning;
CREATE SCHEMA mistakes;
SET search_path = mistakes;

-- Runs a command that should fail, and takes back what it did if it does not.
CREATE FUNCTION mistake(command text) RETURNS TABLE (state text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RAISE SQLSTATE 'MTP00' USING MESSAGE = 'was not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	detail := nullif(detail, '');
	hint := nullif(hint, '');
	IF message ~ '^(cannot open relation "\w+"|"\w+" is (an index|a composite type))$' THEN
		message := 'is no table';  -- in words that depend on the release
		detail := NULL;
	END IF;
	RETURN NEXT;
END $$;
CREATE TABLE t (a int, b text, p point) USING mtpower;
CREATE INDEX t_a ON t USING mtpower_blink (a);
CREATE VIEW v AS SELECT * FROM t;
CREATE SEQUENCE s;
CREATE TYPE c AS (a int);
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE FOREIGN DATA WRAPPER regress_mistakes;
CREATE SERVER regress_mistakes FOREIGN DATA WRAPPER regress_mistakes;
CREATE FOREIGN TABLE f (a int) SERVER regress_mistakes;
\pset format unaligned
\pset tuples_only on
\pset null -

-- One access method taken for the other, and for what has none.
SELECT command, m.* FROM (VALUES
	('CREATE INDEX ON t USING mtpower (a)'),
	('CREATE TABLE n (a int, EXCLUDE USING mtpower (a WITH =))'),
	('ALTER TABLE t ADD EXCLUDE USING mtpower (a WITH =)'),
	('CREATE TABLE n (a int) USING mtpower_blink'),
	('SET default_table_access_method = mtpower_blink'),
	('ALTER TABLE t SET ACCESS METHOD mtpower_blink'),
	('ALTER INDEX t_a SET ACCESS METHOD btree'),
	('ALTER VIEW v SET ACCESS METHOD mtpower'),
	('CREATE INDEX ON v USING mtpower_blink (a)'),
	('CREATE INDEX ON s USING mtpower_blink (last_value)'),
	('CREATE INDEX ON f USING mtpower_blink (a)'),
	('CREATE INDEX ON c USING mtpower_blink (a)'),
	('CREATE INDEX ON t_a USING mtpower_blink (a)'),
	('CREATE INDEX ON pg_class USING mtpower_blink (relname)'),
	('CREATE INDEX ON pg_toast.pg_toast_1255 USING mtpower_blink (chunk_id)')) x(command), mistake(command) m;

-- Uniqueness, in every way to ask for it.
SELECT command, m.* FROM (VALUES
	('CREATE UNIQUE INDEX ON t USING mtpower_blink (a)'),
	('CREATE UNIQUE INDEX ON t USING mtpower_blink (a) NULLS NOT DISTINCT'),
	('CREATE UNIQUE INDEX ON parted USING mtpower_blink (a)'),
	('ALTER TABLE t ADD PRIMARY KEY USING INDEX t_a'),
	('ALTER TABLE t ADD UNIQUE USING INDEX t_a'),
	('ALTER TABLE t REPLICA IDENTITY USING INDEX t_a'),
	('CREATE TABLE n (a int REFERENCES t (a))'),
	('INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING')) x(command), mistake(command) m;

-- Columns.
SELECT command, m.* FROM (VALUES
	('CREATE INDEX ON t USING mtpower_blink (ctid)'),
	('CREATE INDEX ON t USING mtpower_blink ((xmin::text))'),
	('CREATE INDEX ON t USING mtpower_blink (a) WHERE tableoid = 1'),
	('CREATE INDEX ON t USING mtpower_blink (a) INCLUDE (ctid)'),
	('CREATE INDEX ON t USING mtpower_blink (a) INCLUDE ((a + 1))'),
	('CREATE INDEX ON t USING mtpower_blink (a) INCLUDE (b DESC)'),
	('CREATE INDEX ON t USING mtpower_blink (a text_ops)'),
	('CREATE INDEX ON t USING mtpower_blink (a no_such_ops)'),
	('CREATE INDEX ON t USING mtpower_blink (a int4_ops (x = 1))'),
	('CREATE INDEX ON t USING mtpower_blink (a COLLATE "C")'),
	('CREATE INDEX ON t USING mtpower_blink (p)'),
	('CREATE INDEX ON t USING mtpower_blink (a NULLS FIRST NULLS LAST)'),
	('CREATE INDEX ON t USING mtpower_blink (' || repeat('a, ', 32) || 'a)'),
	('ALTER TABLE t ADD EXCLUDE USING mtpower_blink (a WITH <)'),
	('ALTER TABLE t ADD EXCLUDE USING mtpower_blink (p WITH ~=)')) x(command), mistake(command) m;

-- Storage parameters.
SELECT command, m.* FROM (VALUES
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (fillfactor = 9)'),
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (fillfactor = 101)'),
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (fillfactor = much)'),
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (fillfactor)'),
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (deduplicate_items = much)'),
	('CREATE INDEX ON t USING mtpower_blink (a) WITH (fillfactor = 50, fillfactor = 60)'),
	('ALTER INDEX t_a SET (fillfactor = 5)'),
	('ALTER INDEX t_a SET (fastupdate = on)'),
	('CREATE TABLE n (a int) USING mtpower WITH (fillfactor = 5)'),
	('CREATE TABLE n (a int) USING mtpower WITH (batch_size = 5)')) x(command), mistake(command) m;

-- Operator classes whose comparison function, or hash function, is missing.  (Those that have a wrong one are in opclass_signatures.)
CREATE OPERATOR CLASS without_ops FOR TYPE int4 USING mtpower_blink AS OPERATOR 1 <, OPERATOR 3 =;
CREATE OPERATOR CLASS unhashed_ops FOR TYPE int4 USING mtpower_hash AS OPERATOR 1 =;
SELECT command, m.* FROM (VALUES
	('CREATE INDEX ON t USING mtpower_blink (a without_ops)'),
	('CREATE INDEX ON t USING mtpower_hash (a unhashed_ops)')) x(command), mistake(command) m;

-- Bytes compared where a collation holds different bytes to be equal: a scan would miss some.
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE n (t text COLLATE caseless, v varchar COLLATE caseless, c char(5) COLLATE caseless, b text);
INSERT INTO n SELECT x, x, x, x FROM unnest('{abc,B,ABC}'::text[]) x;
SELECT command, m.* FROM (VALUES
	('CREATE INDEX ON n USING btree (t text_pattern_ops)'),
	('CREATE INDEX ON n USING mtpower_blink (t text_pattern_ops)'),
	('CREATE INDEX ON n USING mtpower_blink (v varchar_pattern_ops)'),
	('CREATE INDEX ON n USING mtpower_blink (b, c bpchar_pattern_ops)'),
	('CREATE INDEX ON n USING mtpower_blink (b COLLATE caseless text_pattern_ops)'),
	('CREATE INDEX ON n USING mtpower_blink (b text_pattern_ops);
		ALTER TABLE n ALTER b TYPE text COLLATE caseless')) x(command), mistake(command) m;
CREATE INDEX n_t ON n USING mtpower_blink (t);
CREATE INDEX n_b ON n USING mtpower_blink (b text_pattern_ops);
SET enable_seqscan = off;
SELECT count(*) FROM n WHERE t = 'abc';
SELECT count(*) FROM n WHERE b = 'abc';
RESET enable_seqscan;

-- Not there, or not to be taken away.
SELECT command, m.* FROM (VALUES
	('SELECT mtpower.verify_index(''no_such_index'')'),
	('SELECT mtpower.verify_index(4294967290::oid::regclass)'),
	('SELECT mtpower.page_info(4294967290::oid::regclass, 0)'),
	('SELECT mtpower.adopt(4294967290::oid::regclass)'),
	('SELECT mtpower.index_ddl(4294967290::oid::regclass, ''btree'')'),
	('SELECT mtpower.stat_reset(''Batches'')'),
	('DROP ACCESS METHOD mtpower_blink'),
	('DROP FUNCTION mtpower.adopt'),
	('DROP OPERATOR CLASS int4_ops USING mtpower_blink'),
	('ALTER EXTENSION mtpower SET SCHEMA mistakes')) x(command), mistake(command) m;

-- Who may call what, and what the others are told.
CREATE ROLE regress_mistakes;
SELECT p.oid::regprocedure, has_function_privilege('regress_mistakes', p.oid, 'EXECUTE') AS public
FROM pg_proc p WHERE pronamespace = 'mtpower'::regnamespace ORDER BY proname COLLATE "C";
SELECT relname, has_table_privilege('regress_mistakes', oid, 'SELECT') AS public, has_table_privilege('regress_mistakes', oid, 'UPDATE') AS change
FROM pg_class WHERE relnamespace = 'mtpower'::regnamespace ORDER BY relname COLLATE "C";
SELECT has_schema_privilege('regress_mistakes', 'mtpower', 'USAGE') AS public, has_schema_privilege('regress_mistakes', 'mtpower', 'CREATE') AS change;
GRANT USAGE ON SCHEMA mistakes TO regress_mistakes;
GRANT SELECT ON t TO regress_mistakes;
GRANT EXECUTE ON FUNCTION mtpower.sync_opclasses TO regress_mistakes;
SET ROLE regress_mistakes;
SELECT command, m.* FROM (VALUES
	('SELECT mtpower.adopt(''t'')'),
	('SELECT mtpower.release(''t'')'),
	('SELECT mtpower.verify_index(''t_a'')'),
	('SELECT mtpower.page_info(''t_a'', 0)'),
	('SELECT mtpower.stat_reset()'),
	('SELECT mtpower.check_preload()'),
	('SELECT mtpower.sync_opclasses()'),
	('CREATE INDEX ON t USING mtpower_blink (a)'),
	('ALTER INDEX t_a SET (fillfactor = 90)'),
	('CREATE TABLE mtpower.n (a int)'),
	('DROP EXTENSION mtpower'),
	('SET mtpower.batch_memory = ''1GB''')) x(command), mistake(command) m;
RESET ROLE;

-- What is no mistake: as with btree, NULLS NOT DISTINCT says nothing where nothing is unique, and an index may be there twice.
CREATE INDEX t_nulls ON t USING mtpower_blink (a) NULLS NOT DISTINCT;
INSERT INTO t (a) SELECT NULL FROM generate_series(1, 3);
SELECT mtpower.verify_index('t_nulls', true);

REVOKE EXECUTE ON FUNCTION mtpower.sync_opclasses FROM regress_mistakes;
DROP SCHEMA mistakes CASCADE;
DROP FOREIGN DATA WRAPPER regress_mistakes CASCADE;
DROP ROLE regress_mistakes;
