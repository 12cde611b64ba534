-- mtpower.verify_index: sound indexes of every kind pass, other relations are refused.
CREATE SCHEMA verify;
SET search_path = verify, public;
SET jit = off;

-- Each index of a table, with the rows, before and after changes.
CREATE FUNCTION verify_all(tab regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT i.indexrelid::regclass::text || coalesce(mtpower.verify_index(i.indexrelid::regclass, true)::text, '')
	FROM pg_index i WHERE i.indrelid = tab ORDER BY 1
$$;

-- Values on which normalized keys could stumble.
CREATE TABLE kinds (
	i2 int2, i4 int4, i8 int8, o oid, b bool, c "char", f4 float4, f8 float8, n numeric,
	d date, ts timestamp, tz timestamptz, ti time, u uuid, x bytea, t text, tc text COLLATE "C", v varchar(20),
	bp char(10), na name, m money, ip inet, mac macaddr, iv interval, bi bit varying, lsn pg_lsn, xi xid8
);
INSERT INTO kinds VALUES
	(-32768, -2147483648, -9223372036854775808, 0, false, '', '-infinity', '-infinity', '-infinity',
	 '-infinity', '-infinity', '-infinity', '00:00', '00000000-0000-0000-0000-000000000000', '', '', '', '', '', '',
	 '-92233720368547758.08', '0.0.0.0', '00:00:00:00:00:00', '-100 years', '', '0/0', '0'),
	(32767, 2147483647, 9223372036854775807, 4294967295, true, '\377', 'infinity', 'infinity', 'infinity',
	 'infinity', 'infinity', 'infinity', '24:00', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\xffffffffffffffffff',
	 repeat('z', 1000), repeat('z', 2000), 'zzzz', 'zzzz', repeat('z', 63), '92233720368547758.07', 'ffff::', 'ff:ff:ff:ff:ff:ff',
	 '100 years', B'1', 'FFFFFFFF/FFFFFFFF', '18446744073709551615'),
	(0, 0, 0, 2147483648, NULL, 'a', 'NaN', 'NaN', 'NaN', '1970-01-01', '2000-01-01', '2000-01-01 UTC', '12:00',
	 '80000000-0000-0000-0000-000000000000', '\x00', 'a', 'a', 'a', 'a', 'a', 0, '::', '80:00:00:00:00:00', '0', B'0', '1/0', '1'),
	(-1, -1, -1, 1, true, ' ', '-0', '-0', -0.0, '1969-12-31', '1999-12-31', '1999-12-31 UTC', '12:00:00.000001',
	 '7fffffff-ffff-ffff-ffff-ffffffffffff', '\x0000', 'A', 'A', 'A', 'A ', 'A', '-0.01', '1.2.3.4', '7f:00:00:00:00:00', '1 mon',
	 B'10', '0/1', '9223372036854775808'),
	(1, 1, 1, 2, false, '~', '0', '0', 0, '2000-01-02', 'epoch', 'epoch', '00:00:01', '00000000-0000-0000-0000-000000000001',
	 '\x61', 'ä', 'ä', 'ä', 'ä', 'ä', 0.01, '1.2.3.0/24', '00:00:00:00:00:01', '30 days', B'100', '0/2', '2');
INSERT INTO kinds SELECT (k.i2 / g)::int2, k.i4 / g, k.i8 / g, g * 1000, g % 2 = 0, chr(g % 128 + 1)::"char", g::float4 * 1e-3 * (-1) ^ g,
	(-1) ^ g * 1e30 / g, g / 7.0, '2000-01-01'::date + g, '2000-01-01'::timestamp - g * interval '1 hour', '2000-01-01 UTC'::timestamptz + g * interval '1 day',
	'00:00'::time + g * interval '1 sec', md5(g::text)::uuid, decode(md5(g::text), 'hex'), md5(g::text), repeat(md5(g::text), g % 60), g::text,
	g::text, 'n' || g, g::money, '10.0.0.0'::inet + g, '00:00:00:00:00:00'::macaddr, g * interval '1 hour', g::bit(8)::bit varying, '0/0'::pg_lsn + g, g::text::xid8
	FROM kinds k, generate_series(1, 40) g;
INSERT INTO kinds (t) SELECT NULL FROM generate_series(1, 100);
DO $$
DECLARE
	c name;
	how text;
BEGIN
	FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'verify.kinds'::regclass AND attnum > 0 LOOP
		FOREACH how IN ARRAY ARRAY['asc nulls last', 'asc nulls first', 'desc nulls last', 'desc nulls first'] LOOP
			EXECUTE format('CREATE INDEX ON verify.kinds USING mtpower_blink (%I %s)', c, how);
		END LOOP;
	END LOOP;
END $$;
SELECT count(*) FROM verify_all('kinds');
INSERT INTO kinds SELECT * FROM kinds WHERE i2 IS NOT NULL OR t IS NULL;
DELETE FROM kinds WHERE ctid IN (SELECT ctid FROM kinds WHERE i4 % 5 = 0);
UPDATE kinds SET i4 = i4 / 2 + 1, tc = tc || 'x' WHERE i8 % 3 = 0;
SELECT count(*) FROM verify_all('kinds');
VACUUM kinds;
SELECT count(*) FROM verify_all('kinds');
DROP TABLE kinds;

-- Several columns, INCLUDE, expressions, partial; a table of heap and one of mtpower.
CREATE TABLE forms (a int, b text, c int, d timestamp) USING mtpower;
CREATE TABLE forms_heap (LIKE forms);
CREATE INDEX forms_abc ON forms USING mtpower_blink (a, b DESC, c);
CREATE INDEX forms_incl ON forms USING mtpower_blink (c) INCLUDE (b, d);
CREATE INDEX forms_expr ON forms USING mtpower_blink (lower(b), (a + c));
CREATE INDEX forms_part ON forms USING mtpower_blink (d) WHERE c % 3 = 0;
CREATE INDEX forms_heap_abc ON forms_heap USING mtpower_blink (a, b DESC, c);
CREATE INDEX forms_heap_expr ON forms_heap USING mtpower_blink (lower(b), (a + c)) WHERE a > 2;
SELECT verify_all('forms');
INSERT INTO forms SELECT g % 10, nullif(repeat('Xy', g % 90), ''), nullif(g % 1000, 7), '2020-01-01'::timestamp + g * interval '1 min'
	FROM generate_series(1, 6000) g;
INSERT INTO forms_heap SELECT * FROM forms;
SELECT verify_all('forms');
SELECT verify_all('forms_heap');
UPDATE forms SET b = b || '!' WHERE a = 3;
UPDATE forms_heap SET c = c + 1 WHERE a < 5;
DELETE FROM forms WHERE c < 300;
DELETE FROM forms_heap WHERE a = 9;
SELECT verify_all('forms');
SELECT verify_all('forms_heap');
VACUUM forms, forms_heap;
SELECT verify_all('forms');
SELECT verify_all('forms_heap');
INSERT INTO forms SELECT * FROM forms_heap;
SELECT verify_all('forms');

-- Rows of this transaction count, those of a savepoint rolled back do not matter.
BEGIN;
INSERT INTO forms SELECT 99, 'new', g, now() FROM generate_series(1, 1000) g;
SAVEPOINT s;
INSERT INTO forms SELECT 98, 'gone', g, now() FROM generate_series(1, 1000) g;
DELETE FROM forms WHERE a = 99;
ROLLBACK TO s;
SELECT verify_all('forms');
ROLLBACK;
SELECT verify_all('forms');

-- Inside of a statement whose entries are still queued.
CREATE TABLE inside (a int) USING mtpower;
CREATE INDEX inside_a ON inside USING mtpower_blink (a);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mtpower.verify_index('inside_a', true); RETURN NULL; END $$;
CREATE FUNCTION seen(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF $1 % 1000 = 0 THEN
		PERFORM mtpower.verify_index('inside_a', true);
	END IF;
	RETURN $1;
END $$;
CREATE TRIGGER look AFTER INSERT ON inside FOR EACH STATEMENT EXECUTE FUNCTION look();
SET mtpower.batch_min_rows = 10;
INSERT INTO inside SELECT g FROM generate_series(1, 3000) g;
INSERT INTO inside SELECT seen(g) FROM generate_series(1, 3000) g;
RESET mtpower.batch_min_rows;
SELECT verify_all('inside');
DROP TABLE inside;

-- HOT chains older than the index: only the last version has its entry.
CREATE TABLE chains (id int, v int) WITH (autovacuum_enabled = off);
INSERT INTO chains SELECT g, 0 FROM generate_series(1, 500) g;
UPDATE chains SET v = id;
UPDATE chains SET v = v * 2 WHERE id % 2 = 0;
CREATE INDEX chains_v ON chains USING mtpower_blink (v);
SELECT verify_all('chains');
UPDATE chains SET id = -id;
SELECT verify_all('chains');
DROP TABLE chains;

-- TOASTed values, rolled back and deleted ones among them.
CREATE TABLE toasted (id int, t text, u text);
ALTER TABLE toasted ALTER t SET STORAGE external;
CREATE INDEX toasted_t ON toasted USING mtpower_blink (left(t, 100), id);
CREATE INDEX toasted_u ON toasted USING mtpower_blink (u);
INSERT INTO toasted SELECT g, repeat(md5(g::text), 200), repeat(md5(g::text), 60) FROM generate_series(1, 50) g;
BEGIN;
INSERT INTO toasted SELECT g, repeat(md5(g::text), 200) FROM generate_series(100, 150) g;
ROLLBACK;
DELETE FROM toasted WHERE id % 4 = 0;
SELECT verify_all('toasted');
VACUUM (INDEX_CLEANUP off) toasted;
SELECT verify_all('toasted');
VACUUM toasted;
SELECT verify_all('toasted');
DROP TABLE toasted;

-- Unlogged, temporary, partitions.
CREATE UNLOGGED TABLE quick (a int) USING mtpower;
CREATE INDEX quick_a ON quick USING mtpower_blink (a);
INSERT INTO quick SELECT g FROM generate_series(1, 5000) g;
SELECT verify_all('quick');
CREATE TEMP TABLE own (a int);
CREATE INDEX own_a ON own USING mtpower_blink (a);
INSERT INTO own SELECT g FROM generate_series(1, 5000) g;
SELECT verify_all('own');
CREATE TABLE parts (a int) PARTITION BY RANGE (a);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE INDEX parts_a ON parts USING mtpower_blink (a);
INSERT INTO parts SELECT g FROM generate_series(0, 999) g;
SELECT mtpower.verify_index('parts_1_a_idx', true);

-- What is refused.
CREATE INDEX forms_btree ON forms (a);
CREATE SEQUENCE seq;
CREATE VIEW view AS SELECT 1;
DO $$
DECLARE
	what text;
	state text;
	msg text;
	detail text;
	hint text;
BEGIN
	FOREACH what IN ARRAY ARRAY['parts_a', 'forms', 'forms_btree', 'seq', 'view', 'pg_class_oid_index'] LOOP
		BEGIN
			PERFORM mtpower.verify_index(what::regclass);
			RAISE NOTICE '% was not refused', what;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, msg = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
			RAISE NOTICE '%: % % %', state, msg, detail, hint;
		END;
	END LOOP;
	BEGIN
		PERFORM mtpower.verify_index(4294967290::oid::regclass);
	EXCEPTION WHEN OTHERS THEN
		RAISE NOTICE '%: %', SQLSTATE, SQLERRM;
	END;
END $$;
SELECT mtpower.verify_index(NULL);

-- An index that is not valid.
INSERT INTO forms_heap VALUES (5, NULL, 0, NULL);
CREATE FUNCTION inverse(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 100 / $1; END';
\set VERBOSITY terse
CREATE INDEX CONCURRENTLY forms_invalid ON forms_heap USING mtpower_blink (inverse(c));
SELECT mtpower.verify_index('forms_invalid');
\echo :LAST_ERROR_SQLSTATE
REINDEX INDEX forms_invalid;
-- (A row that is deleted is indexed as long as somebody's snapshot sees it.)
CREATE OR REPLACE FUNCTION inverse(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 100 / nullif($1, 0); END';
REINDEX INDEX forms_invalid;
SELECT mtpower.verify_index('forms_invalid', true);

-- Expressions run as the table's owner, and only who was granted the function may call it.
CREATE ROLE regress_verify;
GRANT USAGE ON SCHEMA verify TO regress_verify;
CREATE FUNCTION who(int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT current_user::text || $1 $$;
CREATE TABLE owned (a int);
ALTER TABLE owned OWNER TO regress_verify;
GRANT CREATE ON SCHEMA verify TO regress_verify;
SET ROLE regress_verify;
INSERT INTO owned SELECT g FROM generate_series(1, 100) g;
CREATE INDEX owned_who ON owned USING mtpower_blink (who(a));
SELECT mtpower.verify_index('owned_who');
RESET ROLE;
SELECT mtpower.verify_index('owned_who', true);
GRANT EXECUTE ON FUNCTION mtpower.verify_index TO regress_verify;
SET ROLE regress_verify;
SELECT mtpower.verify_index('owned_who', true);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION mtpower.verify_index FROM regress_verify;
-- They can't become anybody else, nor leave settings behind.
SET ROLE regress_verify;
CREATE FUNCTION tries(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('verify.left', 'behind', false);
	BEGIN
		PERFORM set_config('role', 'none', true);
		RETURN -$1;
	EXCEPTION WHEN insufficient_privilege THEN
		RETURN $1;
	END;
END $$;
CREATE INDEX owned_tries ON owned USING mtpower_blink (tries(a));
RESET ROLE;
SELECT mtpower.verify_index('owned_tries', true), current_setting('verify.left', true);
SELECT current_setting('verify.left', true);

-- A function that only seemed immutable: its index is wrong, and verify_index says so.
CREATE TABLE factor (f int);
INSERT INTO factor VALUES (1);
CREATE FUNCTION times(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * f FROM verify.factor';
CREATE TABLE liar (a int);
INSERT INTO liar SELECT g FROM generate_series(1, 100) g;
CREATE INDEX liar_a ON liar USING mtpower_blink (times(a));
SELECT mtpower.verify_index('liar_a', true);
UPDATE factor SET f = 2;
SELECT mtpower.verify_index('liar_a');
\set VERBOSITY default
SELECT mtpower.verify_index('liar_a', true);
\echo :LAST_ERROR_SQLSTATE
-- An entry of a row that a partial index should not have.
CREATE INDEX liar_part ON liar USING mtpower_blink (a) WHERE times(a) > 50;
UPDATE factor SET f = 1;
SELECT mtpower.verify_index('liar_part', true);
-- A comparison function that has turned round.
CREATE FUNCTION times_cmp(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT btint4cmp(verify.times($1), verify.times($2))';
CREATE OPERATOR CLASS times_ops FOR TYPE int USING mtpower_blink AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 times_cmp(int, int);
CREATE INDEX liar_order ON liar USING mtpower_blink (a times_ops);
SELECT mtpower.verify_index('liar_order', true);
UPDATE factor SET f = -1;
SELECT mtpower.verify_index('liar_order');

SET client_min_messages = warning;
DROP SCHEMA verify CASCADE;
DROP ROLE regress_verify;
