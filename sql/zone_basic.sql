-- mtpower_zone: what it finds is what the table has, whatever was done to it.
CREATE SCHEMA zone_basic;
SET search_path = zone_basic, public;
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
SET mtpower.enable_directoryscan = off;

-- What is refused
CREATE TABLE r (n numeric, t text COLLATE "en-x-icu", c text COLLATE "C", i int);
CREATE INDEX ON r USING mtpower_zone (n);
CREATE INDEX ON r USING mtpower_zone (i, t);
CREATE UNIQUE INDEX ON r USING mtpower_zone (i);
CREATE INDEX ON r USING mtpower_zone (i DESC);
CREATE INDEX ON r USING mtpower_zone (i NULLS FIRST);
CREATE INDEX ON r USING mtpower_zone (i) INCLUDE (c);
CREATE INDEX ON r USING mtpower_zone (i) WITH (fillfactor = 90);
CREATE INDEX ON r USING mtpower_zone (i, c);
\d r

-- A table in the order of its rows, and one of heap's
CREATE TABLE t (id bigint, ts timestamptz, d date, i2 int2, f float8, u uuid, c text COLLATE "C", b bool, n int, x int)
	WITH (autovacuum_enabled = off, fillfactor = 50);
CREATE FUNCTION rows(lo int, hi int) RETURNS SETOF t LANGUAGE sql AS $$
	SELECT g, '2026-01-01'::timestamptz + g * interval '1 minute', '2026-01-01'::date + g / 100, g / 100, g / 10.0 - 50,
		lpad(to_hex(g), 32, '0')::uuid, to_char(g, 'FM000000') || ' at the end', g > hi / 2, CASE WHEN g % 1000 > 500 THEN g END, hashint4(g) % 1000
	FROM generate_series(lo, hi) g
$$;
INSERT INTO t SELECT * FROM rows(1, 5000);
CREATE TABLE h (LIKE t) USING heap WITH (autovacuum_enabled = off);
INSERT INTO h SELECT * FROM t;
CREATE INDEX t_all ON t USING mtpower_zone (id, ts, d, i2, f, u, c, b, n);
CREATE INDEX t_ex ON t USING mtpower_zone ((id + 1)) WHERE x > 0;
CREATE INDEX h_ts ON h USING mtpower_zone (ts);
INSERT INTO t SELECT * FROM rows(5001, 8000);
INSERT INTO h SELECT * FROM rows(5001, 8000);
ANALYZE t;
ANALYZE h;
SELECT mtpower.verify_index(i, true) FROM unnest('{t_all,t_ex,h_ts}'::regclass[]) i;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE ts = '2026-01-02';
EXPLAIN (COSTS OFF) SELECT * FROM h WHERE ts BETWEEN '2026-01-02' AND '2026-01-03';

-- Few pages are read, and those of both ends.
CREATE FUNCTION pages(query text) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Heap Blocks' THEN RETURN trim(line); END IF;
	END LOOP;
	RETURN 'no page';
END $$;
SELECT pages('SELECT * FROM t WHERE id = 1'), pages('SELECT * FROM t WHERE id = 8000'), pages('SELECT * FROM t WHERE id > 8000');
SELECT pages('SELECT * FROM t WHERE id BETWEEN 1000 AND 4000'), pages('SELECT * FROM t WHERE id + 1 = 3021 AND x > 0');

-- Each clause, with the index and without
CREATE TABLE clauses (clause text);
INSERT INTO clauses VALUES ('id = 77'), ('id = 77::int2'), ('id < 10::int4'), ('id <= 10'), ('id > 7990'), ('id >= 7990'), ('id BETWEEN 100 AND 200'),
	('id = NULL'), ('id IN (1, 4000, 7999)'), ('id = ANY (NULL)'), ('id > 10 AND id < 5'), ('ts = ''2026-01-02''::date'), ('ts < ''2026-01-01 00:10''::timestamp'),
	('ts > ''2026-01-06 13:00'''), ('d = ''2026-01-05'''), ('d >= ''2026-03-01''::timestamp'), ('i2 = 7'), ('i2 > 79::int8'), ('f = 1.5'), ('f < -49.5::float4'),
	('f = ''NaN'''), ('u = ''00000000-0000-0000-0000-0000000000ff'''), ('c = ''000123 at the end'''), ('c > ''0079'''), ('c < ''000002'''), ('b'), ('NOT b'),
	('b = true'), ('n IS NULL'), ('n IS NOT NULL'), ('n IS NULL AND id < 100'), ('n = 501'), ('n < 510'), ('n IS NULL AND n = 5'), ('id + 1 = 78 AND x > 0'),
	('id < 100 AND ts > ''2026-01-01 01:00'' AND i2 = 0'), ('id = 4 OR ts = ''2026-01-02'''), ('id = 9000000000'), ('id = -1'), ('id IS NULL');
CREATE FUNCTION differing() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	clause text;
	by_index text;
	by_table text;
BEGIN
	FOR clause IN SELECT c.clause FROM clauses c LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'on', true);
		EXECUTE 'SELECT md5(string_agg(t::text, '','' ORDER BY id, ctid)) FROM t WHERE ' || clause INTO by_index;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE 'SELECT md5(string_agg(t::text, '','' ORDER BY id, ctid)) FROM t WHERE ' || clause INTO by_table;
		IF by_index IS DISTINCT FROM by_table THEN RETURN NEXT clause; END IF;
	END LOOP;
END $$;
SELECT * FROM differing();

-- Rows out of order, nulls, changes, transactions that are rolled back
INSERT INTO t SELECT * FROM rows(100, 120);
INSERT INTO t (id) VALUES (NULL), (50);
UPDATE t SET ts = ts + interval '1 year', c = NULL WHERE id % 500 = 0;
UPDATE t SET x = x + 1 WHERE id % 100 = 0;
BEGIN;
INSERT INTO t SELECT * FROM rows(20000, 20100);
SELECT count(*) FROM t WHERE id > 20050;
SAVEPOINT s;
DELETE FROM t WHERE id BETWEEN 200 AND 300;
SELECT * FROM differing();
ROLLBACK TO s;
SELECT * FROM differing();
ROLLBACK;
SELECT * FROM differing();
SELECT mtpower.verify_index(i, true) FROM unnest('{t_all,t_ex}'::regclass[]) i;

-- A statement that fails in a subtransaction holds an entry, and so does one whose index goes with it.
BEGIN;
SAVEPOINT s;
INSERT INTO t (id, n) SELECT 30000 + g, 1 / (3 - g) FROM generate_series(1, 3) g;
ROLLBACK TO s;
SELECT count(*) FROM t WHERE id > 29000;
CREATE TABLE gone (a int);
SAVEPOINT s;
CREATE INDEX gone_a ON gone USING mtpower_zone (a);
INSERT INTO gone SELECT 1 / (3 - g) FROM generate_series(1, 3) g;
ROLLBACK TO s;
INSERT INTO t (id) VALUES (30001);
COMMIT;
SELECT count(*) FROM t WHERE id > 29000;
DELETE FROM t WHERE id > 29000;
SELECT mtpower.verify_index(i, true) FROM unnest('{t_all,t_ex}'::regclass[]) i;

-- VACUUM: what is gone is no longer read, and pages are filled again.
SELECT pages('SELECT * FROM t WHERE id + 1 = 3021 AND x > 0');
DELETE FROM t WHERE id BETWEEN 2000 AND 4000;
VACUUM t;
SELECT pages('SELECT * FROM t WHERE id + 1 = 3021 AND x > 0');
SELECT * FROM differing();
INSERT INTO t SELECT * FROM rows(2500, 2600);
SELECT * FROM differing();
SELECT mtpower.verify_index(i, true) FROM unnest('{t_all,t_ex}'::regclass[]) i;

-- The table's end is cut off, and it grows again.
DELETE FROM t WHERE id > 1000;
VACUUM t;
SELECT * FROM differing();
INSERT INTO t SELECT * FROM rows(6000, 9000);
SELECT * FROM differing();
VACUUM FULL t;
SELECT * FROM differing();
TRUNCATE t;
SELECT * FROM differing();
INSERT INTO t SELECT * FROM rows(1, 100);
SELECT * FROM differing();
SELECT mtpower.verify_index(i, true) FROM unnest('{t_all,t_ex}'::regclass[]) i;

-- An index of several levels: 32 columns leave few entries on a page.
CREATE TABLE wide (a int, pad text) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER pad SET STORAGE plain;
SELECT format('CREATE INDEX wide_a ON wide USING mtpower_zone (%s)', string_agg('a', ', ')) FROM generate_series(1, 32) \gexec
INSERT INTO wide SELECT g, repeat('x', 3000) FROM generate_series(1, 1200) g;
SELECT level FROM mtpower.page_info('wide_a', 0);
SELECT mtpower.verify_index('wide_a', true);
SELECT count(*) FROM wide WHERE a BETWEEN 500 AND 510;
REINDEX INDEX wide_a;
SELECT level FROM mtpower.page_info('wide_a', 0);
SELECT mtpower.verify_index('wide_a', true);
INSERT INTO wide SELECT g, repeat('x', 3000) FROM generate_series(1201, 2000) g;
DELETE FROM wide WHERE a BETWEEN 100 AND 1500;
VACUUM wide;
SELECT mtpower.verify_index('wide_a', true);
SET enable_seqscan = off;
SELECT pages('SELECT * FROM wide WHERE a BETWEEN 400 AND 1200'), count(*) FROM wide WHERE a BETWEEN 99 AND 1501;

-- Rows of few pages are looked at: HOT chains, nulls, values that are compressed, elsewhere, or of a column that came later
CREATE TABLE s (a int, x int, c text COLLATE "C", e text COLLATE "C") WITH (autovacuum_enabled = off, fillfactor = 60);
ALTER TABLE s ALTER e SET STORAGE external;
INSERT INTO s SELECT g / 2, 0, CASE WHEN g % 50 > 0 THEN repeat(g::text, CASE WHEN g % 40 = 0 THEN 1000 ELSE 1 END) END,
	repeat(g::text, CASE WHEN g % 100 = 1 THEN 1000 ELSE 1 END) FROM generate_series(1, 2000) g;
ALTER TABLE s ADD COLUMN later int DEFAULT 7;
CREATE INDEX s_all ON s USING mtpower_zone (a, c, e, later);
UPDATE s SET x = 1 WHERE a % 3 = 0;
UPDATE s SET x = 2 WHERE a % 6 = 0;
VACUUM s;
BEGIN;
UPDATE s SET x = 3 WHERE a % 6 = 0;
SELECT pg_stat_get_xact_tuples_hot_updated('s'::regclass) > 100 AS hot;
COMMIT;
SELECT a, x FROM s WHERE a = 600;
SELECT pages('SELECT * FROM s WHERE a = 600'), pages('SELECT * FROM s WHERE a BETWEEN 100 AND 105');
SELECT g AS missing FROM generate_series(0, 1000) g WHERE (SELECT count(*) FROM s WHERE a = g) <> CASE WHEN g IN (0, 1000) THEN 1 ELSE 2 END;
SELECT g AS missing FROM generate_series(1, 2000) g WHERE (SELECT count(*) FROM s WHERE a = g / 2 AND e = repeat(g::text, CASE WHEN g % 100 = 1 THEN 1000 ELSE 1 END)) <> 1;
SELECT g AS missing FROM generate_series(1, 2000) g WHERE g % 50 > 0 AND
	(SELECT count(*) FROM s WHERE a = g / 2 AND c = repeat(g::text, CASE WHEN g % 40 = 0 THEN 1000 ELSE 1 END)) <> 1;
SELECT count(*) FROM s WHERE a BETWEEN 100 AND 150 AND c IS NULL;
SELECT count(*) FROM s WHERE a BETWEEN 100 AND 150 AND e IS NULL;
SELECT count(*) FROM s WHERE a = 77 AND later = 7;
SELECT count(*) FROM s WHERE a = 77 AND later > 7;

-- Damage is found.
CREATE TABLE one (a int);
CREATE INDEX one_a ON one USING mtpower_zone (a);
SELECT type, level, items FROM generate_series(0, pg_relation_size('one_a') / current_setting('block_size')::int - 1) b, mtpower.page_info('one_a', b) p;
INSERT INTO one VALUES (1), (NULL);
SELECT type, level, items FROM generate_series(0, pg_relation_size('one_a') / current_setting('block_size')::int - 1) b, mtpower.page_info('one_a', b) p;

-- What replaces it
CREATE INDEX back ON s USING mtpower_zone (a, c) WHERE x > 0;
SELECT mtpower.index_ddl('back', 'btree');
SELECT mtpower.index_ddl('back', 'mtpower_blink');
SELECT mtpower.index_ddl('back', 'hash');
DROP INDEX back;

-- Built by parallel workers it is the same.
CREATE TABLE par (a int, b text COLLATE "C") USING mtpower;
INSERT INTO par SELECT g, g FROM generate_series(1, 100000) g;
SET max_parallel_maintenance_workers = 0;
SELECT format('CREATE INDEX par_alone ON par USING mtpower_zone (%s)', string_agg('a, b', ', ')) FROM generate_series(1, 16) \gexec
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
ALTER TABLE par SET (parallel_workers = 2);
SELECT format('CREATE INDEX par_two ON par USING mtpower_zone (%s)', string_agg('a, b', ', ')) FROM generate_series(1, 16) \gexec
RESET min_parallel_table_scan_size;
SELECT mtpower.verify_index('par_two', true), pg_relation_size('par_two') = pg_relation_size('par_alone') AS same_size;
SELECT count(*) FROM par WHERE a = 77777 AND b = '77777';

-- Unlogged and temporary tables, partitions
CREATE UNLOGGED TABLE un (a int);
CREATE INDEX un_a ON un USING mtpower_zone (a);
INSERT INTO un SELECT generate_series(1, 1000);
SELECT count(*) FROM un WHERE a = 500;
CREATE TEMP TABLE te (a int);
CREATE INDEX te_a ON te USING mtpower_zone (a);
INSERT INTO te SELECT generate_series(1, 1000);
SELECT count(*) FROM te WHERE a = 500;
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE INDEX ON p USING mtpower_zone (a);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
INSERT INTO p SELECT g, g FROM generate_series(0, 199) g;
SELECT count(*) FROM p WHERE a BETWEEN 90 AND 110;

-- Who adopts a table is told of columns by whose order its rows stand.
CREATE TABLE a ("Id" int, down int2, i text COLLATE "C", t text COLLATE "en-x-icu", n numeric, x int) USING heap;
INSERT INTO a SELECT g, -g, to_char(g, 'FM00000'), to_char(g, 'FM00000'), g, hashint4(g) FROM generate_series(1, 10000) g;
SELECT mtpower.adopt('a'), mtpower.release('a');
ANALYZE a;
SELECT mtpower.adopt('a'), mtpower.release('a');
CREATE INDEX ON a USING mtpower_zone (x, "Id");
SELECT mtpower.adopt('a');

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA zone_basic CASCADE;
