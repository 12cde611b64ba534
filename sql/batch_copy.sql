-- COPY and INSERT into all kinds of tables and indexes, with queued index entries; and what is wrong with the rows.
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET enable_seqscan = off;
CREATE SCHEMA batch_copy;
SET search_path = batch_copy, public;
-- Are the values of an expression the same by an index scan as by a sort?  ("-" if no index serves the order.)
CREATE FUNCTION ordered(tab regclass, expr text, dir text, shown text DEFAULT 'v') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT md5(string_agg(coalesce((%4$s)::text, ''null''), '' '')) FROM (SELECT %1$s AS v FROM %2$s ORDER BY %1$s %3$s) r', expr, tab, dir, shown);
	line text; indexed text; sorted text;
	found_index bool := false;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found_index := found_index OR line ~ 'Index (Only )?Scan';
	END LOOP;
	EXECUTE query INTO indexed;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
		set_config('enable_indexonlyscan', 'off', true), set_config('enable_sort', 'on', true);
	EXECUTE query INTO sorted;
	RETURN CASE WHEN NOT found_index THEN '-' WHEN indexed = sorted THEN 'ok' ELSE 'wrong' END;
END $$;

-- Narrow entries of every kind: extreme values, nulls, both directions, nulls first and last; no value twice.
CREATE TABLE narrow (i8 int8, i4 int4, i2 int2, d date, ts timestamptz, o oid, b bool, c "char", x xid8, id int) USING mtpower;
DO $$
DECLARE
	col text;
	dir text;
BEGIN
	FOREACH col IN ARRAY '{i8,i4,i2,d,ts,o,b,c,x}'::text[] LOOP
		FOREACH dir IN ARRAY '{"ASC NULLS FIRST","ASC NULLS LAST","DESC NULLS FIRST","DESC NULLS LAST"}'::text[] LOOP
			EXECUTE format('CREATE INDEX ON narrow USING mtpower_blink (%s %s)', col, dir);
		END LOOP;
	END LOOP;
END $$;
CREATE FUNCTION narrow_rows(n int) RETURNS TABLE (i8 int8, i4 int4, i2 int2, d date, ts timestamptz, o oid, b bool, c "char", x xid8, id int)
LANGUAGE sql AS $$
	SELECT (CASE i % 7 WHEN 0 THEN '-9223372036854775808' WHEN 1 THEN '9223372036854775807' WHEN 2 THEN NULL ELSE (i - n / 2) * 3000000017::int8 END)::int8,
		(CASE i % 7 WHEN 0 THEN '-2147483648' WHEN 1 THEN '2147483647' WHEN 3 THEN NULL ELSE (i - n / 2) * 1001 END)::int4,
		(CASE i % 7 WHEN 0 THEN '-32768' WHEN 1 THEN '32767' WHEN 4 THEN NULL ELSE (i - n / 2) % 30000 END)::int2,
		CASE i % 7 WHEN 0 THEN '-infinity'::date WHEN 1 THEN 'infinity' WHEN 5 THEN NULL ELSE '2000-01-01'::date + i - n / 2 END,
		CASE i % 7 WHEN 0 THEN '-infinity'::timestamptz WHEN 1 THEN 'infinity' WHEN 6 THEN NULL ELSE '2000-01-01 UTC'::timestamptz + (i - n / 2) * interval '1.1 s' END,
		(CASE i % 7 WHEN 0 THEN 0 WHEN 1 THEN 4294967295 WHEN 2 THEN NULL ELSE i * 400000::int8 END)::oid,
		CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END,
		CASE i % 5 WHEN 0 THEN '\200'::"char" WHEN 1 THEN '\001' WHEN 2 THEN NULL ELSE chr(i % 90 + 33)::"char" END,
		(CASE i % 7 WHEN 0 THEN '0' WHEN 1 THEN '18446744073709551615' WHEN 3 THEN NULL ELSE i::text END)::xid8, i
	FROM generate_series(1, n) i
$$;
INSERT INTO narrow SELECT * FROM narrow_rows(4000);
INSERT INTO narrow SELECT * FROM narrow_rows(4000);
SELECT verify('narrow');
SELECT col, ordered('narrow', col, 'ASC NULLS FIRST'), ordered('narrow', col, 'ASC'), ordered('narrow', col, 'DESC'), ordered('narrow', col, 'DESC NULLS LAST')
FROM unnest('{i8,i4,i2,d,ts,o,b,c,x}'::text[]) col;
SELECT count(*) FROM narrow WHERE i8 = -9223372036854775808;
SELECT count(*) FROM narrow WHERE i8 = 9223372036854775807;
SELECT count(*) FROM narrow WHERE i8 IS NULL;
SELECT count(*) FROM narrow WHERE x = '18446744073709551615';
DROP TABLE narrow;

-- Wide entries: several columns, expressions, INCLUDE, partial, other collations, generated columns.
CREATE TABLE wide (id int GENERATED ALWAYS AS IDENTITY, a int, t text, f float8, n numeric, u uuid, s int GENERATED ALWAYS AS (a * 2) STORED,
	arr int[], bin bytea, iv interval, j jsonb) USING mtpower;
CREATE INDEX ON wide USING mtpower_blink (a, t DESC, f);
CREATE INDEX ON wide USING mtpower_blink (t COLLATE "C");
CREATE INDEX ON wide USING mtpower_blink (t COLLATE "und-x-icu");
CREATE INDEX ON wide USING mtpower_blink (t DESC NULLS LAST) INCLUDE (a, n);
CREATE INDEX ON wide USING mtpower_blink (lower(t), (a % 10));
CREATE INDEX ON wide USING mtpower_blink (f);
CREATE INDEX ON wide USING mtpower_blink (f DESC);
CREATE INDEX ON wide USING mtpower_blink (n);
CREATE INDEX ON wide USING mtpower_blink (n DESC NULLS LAST);
CREATE INDEX ON wide USING mtpower_blink (u);
CREATE INDEX ON wide USING mtpower_blink (s);
CREATE INDEX ON wide USING mtpower_blink (arr);
CREATE INDEX ON wide USING mtpower_blink (bin);
CREATE INDEX ON wide USING mtpower_blink (iv);
CREATE INDEX ON wide USING mtpower_blink (j);
CREATE INDEX ON wide USING mtpower_blink ((wide.*));
CREATE INDEX ON wide USING mtpower_blink (a) WHERE a % 100 = 0;
CREATE INDEX ON wide USING mtpower_blink (a) INCLUDE (id);
CREATE FUNCTION wide_rows(n int) RETURNS TABLE (a int, t text, f float8, n numeric, u uuid, arr int[], bin bytea, iv interval, j jsonb)
LANGUAGE sql AS $$
	SELECT (i * 7919) % 1000, CASE WHEN i % 11 <> 0 THEN repeat(chr(65 + i % 57), i % 40) || i END,
		CASE i % 10 WHEN 0 THEN '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity' WHEN 5 THEN NULL ELSE sin(i) END,
		CASE i % 8 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN NULL WHEN 3 THEN 1.00 WHEN 4 THEN 1.0 ELSE (i - n / 2) * 1e20 / 7 END,
		CASE WHEN i % 13 <> 0 THEN md5(i::text)::uuid END, CASE WHEN i % 9 <> 0 THEN ARRAY[i % 50, NULL, i] END,
		sha256(i::text::bytea), i * interval '1 hour', jsonb_build_object('k', i % 100)
	FROM generate_series(1, n) i
$$;
INSERT INTO wide (a, t, f, n, u, arr, bin, iv, j) SELECT * FROM wide_rows(3000);
INSERT INTO wide (a, t, f, n, u, arr, bin, iv, j) SELECT * FROM wide_rows(3000);
UPDATE wide SET a = a + 1, t = t || 'x' WHERE id % 2 = 0;
SELECT verify('wide');
SELECT expr, ordered('wide', expr, 'ASC'), ordered('wide', expr, 'DESC'), ordered('wide', expr, 'DESC NULLS LAST')
FROM unnest(ARRAY['a', 't COLLATE "C"', 't COLLATE "und-x-icu"', 't', 'lower(t)', 'u', 's', 'arr', 'bin', 'iv', 'j']) expr;
-- (0 and -0, 1.0 and 1.00 are equal, and come in the order of their rows)
SELECT expr, ordered('wide', expr, 'ASC', shown), ordered('wide', expr, 'DESC', shown), ordered('wide', expr, 'DESC NULLS LAST', shown)
FROM (VALUES ('f', 'hashfloat8(v)'), ('n', 'hash_numeric(v)')) e(expr, shown);
SELECT count(*) FROM wide WHERE a < 100 AND a % 100 = 0;
SELECT count(*) FROM wide WHERE s = 10;
SELECT count(*) FROM wide WHERE lower(t) = 'kkkkkkkkkk10';
DROP TABLE wide;

-- COPY computes generated columns and expressions, and its triggers change rows before; the same transaction reads them by each.
CREATE FUNCTION slug(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT lower(replace($1, ' ', '-'))$$;
CREATE TABLE gen (a int, t text, g int GENERATED ALWAYS AS (a % 100) STORED, s text GENERATED ALWAYS AS (slug(t)) STORED,
	id int GENERATED ALWAYS AS IDENTITY, d int DEFAULT 7) USING mtpower;
CREATE INDEX gen_g ON gen USING mtpower_blink (g);
CREATE INDEX gen_s ON gen USING mtpower_blink (s COLLATE "C");
CREATE INDEX gen_e ON gen USING mtpower_blink ((a + g), slug(t)) INCLUDE (id);
CREATE INDEX gen_p ON gen USING mtpower_blink (id) WHERE g < 10;
CREATE INDEX gen_d ON gen USING mtpower_blink (d);
BEGIN;
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	A Title X" 1 4000';
SELECT count(*) FROM gen WHERE g = 7;
SELECT count(*) FROM gen WHERE s COLLATE "C" = 'a-title-x';
SELECT count(*), min(id), max(id) FROM gen WHERE a + g = 150 AND slug(t) = 'a-title-x';
SELECT count(*) FROM gen WHERE id > 3900 AND g < 10;
SELECT count(*) FROM gen WHERE d = 7;
COMMIT;
CREATE FUNCTION halve() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.a % 2 = 0 THEN RETURN NULL; END IF; NEW.a := -NEW.a; NEW.d := NEW.a; RETURN NEW; END';
CREATE TRIGGER halve BEFORE INSERT ON gen FOR EACH ROW EXECUTE FUNCTION halve();
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	B" 1 4000' WHERE a > 1000;
SELECT count(*), min(g), max(g) FROM gen WHERE d < 0;
SELECT count(*) FROM gen WHERE g = -7;
DROP TRIGGER halve ON gen;
-- FREEZE: rows of a table made or emptied in this transaction are seen by its own next statements.
BEGIN;
TRUNCATE gen;
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	F" 1 5000' WITH (FREEZE);
SELECT count(*) FROM gen WHERE g = 7;
SELECT count(*) FROM gen WHERE s COLLATE "C" = 'f';
SAVEPOINT s;
TRUNCATE gen;
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	G" 1 5000' WITH (FREEZE);
SELECT count(*) FROM gen WHERE s COLLATE "C" = 'g';
ROLLBACK TO s;
SELECT count(*) FROM gen WHERE s COLLATE "C" = 'f';
SELECT verify('gen');
COMMIT;
SELECT count(*) FROM gen WHERE a + g = 150;
SELECT verify('gen');
DROP TABLE gen;

-- Many partitions, with rows in and out of order, triggers on some of them, and heap ones among them.
CREATE TABLE parts (k int, v int, t text) PARTITION BY RANGE (k);
SET client_min_messages = warning;
DO $$
BEGIN
	FOR i IN 0..59 LOOP
		EXECUTE format('CREATE TABLE p%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s) USING %s', i, i * 100, i * 100 + 100,
			CASE WHEN i % 5 = 0 THEN 'heap' ELSE 'mtpower' END);
	END LOOP;
END $$;
RESET client_min_messages;
CREATE INDEX parts_k ON parts USING mtpower_blink (k);
CREATE INDEX parts_v ON parts USING mtpower_blink (v);
CREATE INDEX parts_t ON parts USING mtpower_blink (t);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := -NEW.v; RETURN NEW; END';
CREATE TRIGGER touch BEFORE INSERT ON p7 FOR EACH ROW EXECUTE FUNCTION touch();
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM parts WHERE k = NEW.k AND v = NEW.v) THEN
		RAISE 'not there: %', NEW;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT ON p8 FOR EACH ROW EXECUTE FUNCTION see();
COPY parts FROM PROGRAM 'seq -f "%.0f	1	a" 0 5999';
COPY parts FROM PROGRAM $$awk 'BEGIN { for (i = 0; i < 12000; i++) print (i * 7919) % 6000 "\t" i "\tb" i % 10 }'$$;
INSERT INTO parts SELECT (i * 7919) % 6000, i, 'c' FROM generate_series(1, 6000) i;
UPDATE parts SET k = (k + 1000) % 6000 WHERE t = 'b1';
SELECT count(*), sum(k), sum(v) FROM parts WHERE k >= 0;
SELECT count(*), sum(k), sum(v) FROM parts WHERE v <> 0;
SELECT count(*) FROM parts WHERE t IN ('a', 'b1', 'c');
SELECT count(verify(inhrelid)) FROM pg_inherits WHERE inhparent = 'parts'::regclass;
DROP TABLE parts;

-- COPY with WHERE, with a column list and defaults, volatile ones too, into a view and a foreign key's table; into few rows.
CREATE TABLE c (a int, b int DEFAULT 5, r float8 DEFAULT random(), CHECK (a <> 7777)) USING mtpower;
CREATE INDEX c_a ON c USING mtpower_blink (a);
CREATE INDEX c_b ON c USING mtpower_blink (b);
CREATE INDEX c_r ON c USING mtpower_blink (r);
COPY c (a, b) FROM PROGRAM 'seq -f "%.0f	1" 1 4000' WHERE a % 2 = 0;
COPY c (a) FROM PROGRAM 'seq 1 3000';
COPY c FROM PROGRAM 'seq -f "%.0f	1	0.5" 1 10';
COPY c FROM PROGRAM 'seq -f "%.0f	1	0.5" 1 0';
SELECT b, count(*) FROM c WHERE a > 0 GROUP BY b ORDER BY b;
SELECT count(*) FROM c WHERE r BETWEEN 0 AND 1;
SELECT verify('c');

-- What is wrong with a row is said of its line, as core says it, and nothing of the COPY stays.
\set VERBOSITY default
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 1 2500; echo malformed; seq -f "%.0f	2	0" 1 2500';
\echo :LAST_ERROR_SQLSTATE
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 1 2500; printf "1\t2\tx\n"; seq -f "%.0f	2	0" 1 2500';
\echo :LAST_ERROR_SQLSTATE
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 1 2500; printf "1\t2\t3\t4\n"; seq -f "%.0f	2	0" 1 2500';
\echo :LAST_ERROR_SQLSTATE
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 6001 9000';
\echo :LAST_ERROR_SQLSTATE
SELECT b, count(*) FROM c WHERE b > 0 GROUP BY b ORDER BY b;
CREATE TABLE big (a int, t text) USING mtpower;
CREATE INDEX big_a ON big USING mtpower_blink (a);
ALTER TABLE big ALTER t SET STORAGE EXTERNAL;
CREATE INDEX big_t ON big USING mtpower_blink (t);
COPY big FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 2000; i++) { s = ""; if (i == 1234) for (j = 0; j < 300; j++) s = s "0123456789"; print i "\t" s } }'$$;
\echo :LAST_ERROR_SQLSTATE
COPY big FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 2000; i++) { s = ""; if (i == 1777) for (j = 0; j < 10000; j++) s = s "0123456789"; print i "\t" s } }'$$;
\echo :LAST_ERROR_SQLSTATE
INSERT INTO big SELECT i, CASE i WHEN 1500 THEN repeat('x', 3000) END FROM generate_series(1, 2000) i;
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM big WHERE a > 0;
-- An index expression that fails for one row.
CREATE INDEX big_e ON big USING mtpower_blink ((100 / (a - 1700)));
COPY big (a) FROM PROGRAM 'seq 1 3000';
\echo :LAST_ERROR_SQLSTATE
DROP INDEX big_e;
-- A unique key of core's, an exclusion constraint, and a deferrable one, on the same table.
ALTER TABLE big ADD CONSTRAINT big_key UNIQUE (a);
ALTER TABLE big ADD CONSTRAINT big_excl EXCLUDE USING btree (t WITH =);
SET mtpower.batching = on;
COPY big FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 2000; i++) print i "\t" i; print "1000\ty" }'$$;
RESET mtpower.batching;
COPY big FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 2000; i++) print i "\t" i; print "3000\t500" }'$$;
ALTER TABLE big DROP CONSTRAINT big_key, DROP CONSTRAINT big_excl;
ALTER TABLE big ADD CONSTRAINT big_key UNIQUE (a) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
COPY big FROM PROGRAM 'seq -f "%.0f	d" 1 2000; printf "1000\ty\n"';
SELECT count(*) FROM big WHERE t = 'd';
COMMIT;
COPY big FROM PROGRAM 'seq -f "%.0f	e" 1 2000';
SELECT count(*) FROM big WHERE t = 'e';
SELECT verify('c'), verify('big');
-- Our own AM under an exclusion constraint: each row is looked for at once.
CREATE TABLE excl (a int, b int, EXCLUDE USING mtpower_blink (a WITH =)) USING mtpower;
CREATE INDEX excl_b ON excl USING mtpower_blink (b);
COPY excl FROM PROGRAM 'seq -f "%.0f	1" 1 3000';
COPY excl FROM PROGRAM 'seq -f "%.0f	1" 3001 6000; printf "4000\t1\n"';
INSERT INTO excl SELECT i, i FROM generate_series(2990, 4000) i ON CONFLICT DO NOTHING;
SELECT count(*), count(DISTINCT a) FROM excl WHERE a > 0;
SELECT verify('excl');

-- Wide keys.  Few have room on an inner page: the first split of an empty index may make more pages than a root can lead to.
-- Whatever the fill factor, levels must get smaller upward.
CREATE TABLE wide (k text COLLATE "C");
ALTER TABLE wide ALTER k SET STORAGE PLAIN;
DO $$
BEGIN
	FOR ff IN 10 .. 90 BY 80 LOOP
		EXECUTE format('CREATE INDEX wide_k ON wide USING mtpower_blink (k) WITH (fillfactor = %s)', ff);
		FOR width IN 300 .. 2628 BY 582 LOOP
			TRUNCATE wide;
			INSERT INTO wide SELECT rpad(md5(i::text), width, 'x') FROM generate_series(1, 100) i;
			INSERT INTO wide SELECT rpad(md5(i::text), 1 + i * 977 % width, 'x') FROM generate_series(1, 100) i;
			PERFORM verify('wide');
		END LOOP;
		DROP INDEX wide_k;
	END LOOP;
END $$;
-- Large entries among small ones, before a large high key, where they hinder each other most.
CREATE INDEX wide_k ON wide USING mtpower_blink (k);
TRUNCATE wide;
INSERT INTO wide SELECT rpad('n' || i, 2628, 'x') FROM generate_series(1, 5) i;
INSERT INTO wide SELECT rpad('a' || 1000 + i, CASE WHEN i % 6 >= 4 THEN 2628 ELSE 11 END, 'x') FROM generate_series(0, 45) i;
SELECT count(*), verify('wide') FROM wide WHERE k > '';

-- Temporary and unlogged tables; ON COMMIT DELETE ROWS.
CREATE TEMP TABLE tmp (a int, t text) USING mtpower ON COMMIT DELETE ROWS;
CREATE INDEX tmp_a ON tmp USING mtpower_blink (a);
BEGIN;
INSERT INTO tmp SELECT i, 'x' FROM generate_series(1, 5000) i;
SELECT count(*) FROM tmp WHERE a > 0;
COMMIT;
SELECT count(*) FROM tmp WHERE a > 0;
SELECT verify('tmp');
CREATE UNLOGGED TABLE unl (a int, t text) USING mtpower;
CREATE INDEX unl_a ON unl USING mtpower_blink (a);
CREATE INDEX unl_t ON unl USING mtpower_blink (t);
COPY unl FROM PROGRAM 'seq -f "%.0f	x" 1 9000';
SELECT count(*) FROM unl WHERE a > 0;
SELECT verify('unl');

-- The entries of few rows go in at once.
SET mtpower.batch_min_rows = 1000;
TRUNCATE c;
CREATE INDEX c_small ON c USING mtpower_blink (a, b);
COPY c (a) FROM PROGRAM 'seq 1 999';
INSERT INTO c (a) SELECT generate_series(1, 999);
SELECT count(*) AS queued FROM mtpower.stat_batches WHERE index = 'c_small'::regclass;
SELECT verify('c');
RESET mtpower.batch_min_rows;
RESET mtpower.batch_size;
COPY c (a) FROM PROGRAM 'seq 1 5000';
INSERT INTO c (a) SELECT i FROM generate_series(1, 5000) i WHERE i <> 7777;
SELECT count(*) FROM c WHERE a > 0;
SELECT verify('c');

SELECT memory_held();
SET client_min_messages = warning;
DROP SCHEMA batch_copy CASCADE;
