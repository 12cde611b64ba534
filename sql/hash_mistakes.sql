-- What users get wrong with mtpower_hash indexes, beside the same with core's hash: refused for the same reasons with the same words, or with more to say.
SET client_min_messages = warning;
CREATE SCHEMA hash_mistakes;
SET search_path = hash_mistakes;

-- Runs a command that should fail, and takes back what it did if it does not; returns what it was told.
CREATE FUNCTION told(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	detail text;
	hint text;
BEGIN
	EXECUTE command;
	RAISE SQLSTATE 'MTP00' USING MESSAGE = 'was not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	IF said ~ '^(cannot open relation "\w+"|"\w+" is (an index|a composite type))$' THEN
		RETURN SQLSTATE || ' is no table';  -- in words that depend on the release
	END IF;
	RETURN concat_ws(E'\n        ', SQLSTATE || ' ' || said, nullif(detail, ''), nullif(hint, ''));
END $$;
-- Runs a command with each access method in place of AM.
CREATE FUNCTION compare(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	core text := told(replace(command, 'AM', 'hash'));
	ours text := told(replace(command, 'AM', 'mtpower_hash'));
BEGIN
	IF replace(replace(ours, 'mtpower_hash', 'hash'), 't_ours', 't_core') = replace(core, 't_ours', 't_core') THEN
		RETURN command || E'\n  both: ' || core;
	END IF;
	RETURN command || E'\n  core: ' || core || E'\n  ours: ' || ours;
END $$;
CREATE TABLE t (a int, b text, p point) USING mtpower;
CREATE INDEX t_hash ON t USING hash (a);
CREATE INDEX t_mtpower_hash ON t USING mtpower_hash (a);
CREATE VIEW v AS SELECT * FROM t;
CREATE SEQUENCE s;
CREATE TYPE c AS (a int);
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE FOREIGN DATA WRAPPER regress_hash_mistakes;
CREATE SERVER regress_hash_mistakes FOREIGN DATA WRAPPER regress_hash_mistakes;
CREATE FOREIGN TABLE f (a int) SERVER regress_hash_mistakes;
\pset format unaligned
\pset tuples_only on

-- What is no table, and what is no index.
SELECT compare(command) FROM unnest(ARRAY[
	'CREATE TABLE n (a int) USING AM',
	'SET default_table_access_method = AM',
	'ALTER TABLE t SET ACCESS METHOD AM',
	'ALTER INDEX t_AM SET ACCESS METHOD btree',
	'CREATE INDEX ON v USING AM (a)',
	'CREATE INDEX ON s USING AM (last_value)',
	'CREATE INDEX ON f USING AM (a)',
	'CREATE INDEX ON c USING AM (a)',
	'CREATE INDEX ON t_AM USING AM (a)',
	'CREATE INDEX ON pg_class USING AM (relname)']) command;

-- Uniqueness and order, in every way to ask for them.
SELECT compare(command) FROM unnest(ARRAY[
	'CREATE UNIQUE INDEX ON t USING AM (a)',
	'CREATE UNIQUE INDEX ON t USING AM (a) NULLS NOT DISTINCT',
	'CREATE UNIQUE INDEX ON parted USING AM (a)',
	'ALTER TABLE t ADD PRIMARY KEY USING INDEX t_AM',
	'ALTER TABLE t ADD UNIQUE USING INDEX t_AM',
	'ALTER TABLE t REPLICA IDENTITY USING INDEX t_AM',
	'INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING',
	'CREATE INDEX ON t USING AM (a) INCLUDE (b)',
	'CREATE INDEX ON t USING AM (a ASC)',
	'CREATE INDEX ON t USING AM (a DESC)',
	'CREATE INDEX ON t USING AM (a NULLS FIRST)',
	'CREATE INDEX ON t USING AM (a NULLS LAST)',
	'ALTER TABLE t CLUSTER ON t_AM',
	'CLUSTER t USING t_AM',
	'ALTER TABLE t ADD EXCLUDE USING AM (a WITH <)',
	'ALTER TABLE t ADD EXCLUDE USING AM (a WITH <>)',
	'ALTER TABLE t ADD EXCLUDE USING AM (p WITH ~=)']) command;

-- Columns.
SELECT compare(command) FROM unnest(ARRAY[
	'CREATE INDEX ON t USING AM ()',
	'CREATE INDEX ON t USING AM (z)',
	'CREATE INDEX ON t USING AM (ctid)',
	'CREATE INDEX ON t USING AM ((random()))',
	'CREATE INDEX ON t USING AM ((a + (SELECT 1)))',
	'CREATE INDEX ON t USING AM (sum(a))',
	'CREATE INDEX ON t USING AM (a) WHERE b',
	'CREATE INDEX ON t USING AM (a) WHERE random() > 0.5',
	'CREATE INDEX ON t USING AM (p)',
	'CREATE INDEX ON t USING AM (a text_ops)',
	'CREATE INDEX ON t USING AM (a no_such_ops)',
	'CREATE INDEX ON t USING AM (a int4_ops (x = 1))',
	'CREATE INDEX ON t USING AM (a COLLATE "C")',
	'CREATE INDEX ON t USING AM (b COLLATE nowhere)']) command;
SELECT told('CREATE INDEX ON t USING mtpower_hash (' || repeat('a, ', 32) || 'a)');

-- Storage parameters.
SELECT compare(command) FROM unnest(ARRAY[
	'CREATE INDEX ON t USING AM (a) WITH (fillfactor = 9)',
	'CREATE INDEX ON t USING AM (a) WITH (fillfactor = 101)',
	'CREATE INDEX ON t USING AM (a) WITH (fillfactor = much)',
	'CREATE INDEX ON t USING AM (a) WITH (fillfactor)',
	'CREATE INDEX ON t USING AM (a) WITH (initial_buckets = -1)',
	'CREATE INDEX ON t USING AM (a) WITH (initial_buckets = 1073741825)',
	'CREATE INDEX ON t USING AM (a) WITH (initial_buckets = many)',
	'CREATE INDEX ON t USING AM (a) WITH (initial_buckets)',
	'CREATE INDEX ON t USING AM (a) WITH (deduplicate_items = on)',
	'CREATE INDEX ON t USING AM (a) WITH (fillfactor = 50, fillfactor = 60)',
	'ALTER INDEX t_AM SET (fillfactor = 5)',
	'ALTER INDEX t_AM SET (fastupdate = on)']) command;

-- Operator classes that are none, or not whole.
SELECT compare(command) FROM unnest(ARRAY[
	'CREATE OPERATOR CLASS o FOR TYPE int4 USING AM AS OPERATOR 2 =, FUNCTION 1 hashint4(int4)',
	'CREATE OPERATOR CLASS o FOR TYPE int4 USING AM AS OPERATOR 1 =, FUNCTION 4 hashint4(int4)',
	'CREATE OPERATOR CLASS o FOR TYPE int4 USING AM AS OPERATOR 1 = FOR ORDER BY integer_ops, FUNCTION 1 hashint4(int4)',
	'CREATE OPERATOR CLASS o FOR TYPE int4 USING AM AS OPERATOR 1 =, FUNCTION 1 int4um(int4), STORAGE int8',
	'CREATE OPERATOR CLASS o DEFAULT FOR TYPE int4 USING AM AS OPERATOR 1 =, FUNCTION 1 hashint4(int4)']) command;
-- (Those that have a wrong function are in opclass_signatures.)
SELECT compare('CREATE OPERATOR CLASS o FOR TYPE int4 USING AM AS OPERATOR 1 =; CREATE INDEX ON t USING AM (a o)');
SET client_min_messages = info;
CREATE OPERATOR FAMILY lame USING hash;
CREATE OPERATOR FAMILY lame USING mtpower_hash;
CREATE OPERATOR CLASS lame FOR TYPE int4 USING hash FAMILY lame AS OPERATOR 1 =;
CREATE OPERATOR CLASS lame FOR TYPE int4 USING mtpower_hash FAMILY lame AS OPERATOR 1 =;
SELECT a.amname, amvalidate(o.oid) FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE opcname = 'lame' ORDER BY 1;
ALTER OPERATOR FAMILY lame USING hash ADD FUNCTION 1 (int4) hashint4(int4), FUNCTION 1 (int8) hashint8(int8);
ALTER OPERATOR FAMILY lame USING mtpower_hash ADD FUNCTION 1 (int4, int4) hashint4(int4), FUNCTION 1 (int8, int8) hashint8(int8);
SELECT a.amname, amvalidate(o.oid) FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE opcname = 'lame' ORDER BY 1;
ALTER OPERATOR FAMILY lame USING hash ADD OPERATOR 1 = (int4, int8), OPERATOR 1 = (int8, int4), OPERATOR 1 = (int8, int8);
ALTER OPERATOR FAMILY lame USING mtpower_hash ADD OPERATOR 1 = (int4, int8), OPERATOR 1 = (int8, int4), OPERATOR 1 = (int8, int8);
SELECT a.amname, amvalidate(o.oid) FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE opcname = 'lame' ORDER BY 1;
SET client_min_messages = warning;

-- In a transaction, and taken away.
BEGIN;
CREATE INDEX CONCURRENTLY ON t USING mtpower_hash (a);
ROLLBACK;
BEGIN;
REINDEX INDEX CONCURRENTLY t_mtpower_hash;
ROLLBACK;
SELECT command || E'\n  ' || told(command) FROM unnest(ARRAY[
	'DROP ACCESS METHOD mtpower_hash',
	'DROP OPERATOR CLASS int4_ops USING mtpower_hash',
	'DROP OPERATOR FAMILY integer_ops USING mtpower_hash',
	'DROP FUNCTION mtpower.hash_handler',
	'SELECT mtpower.page_info(''t_hash'', 0)',
	'SELECT mtpower.page_info(''t_mtpower_hash'', 1000000)',
	'SELECT mtpower.verify_index(''t_hash'')',
	'SELECT mtpower.index_ddl(''t_mtpower_hash'', ''mtpower_hash'')',
	'SELECT mtpower.index_ddl(''t_mtpower_hash'', ''brin'')',
	'SELECT mtpower.index_ddl(''t_hash'', ''mtpower_blink'')']) command;

RESET search_path;
DROP SCHEMA hash_mistakes CASCADE;
DROP FOREIGN DATA WRAPPER regress_hash_mistakes CASCADE;
