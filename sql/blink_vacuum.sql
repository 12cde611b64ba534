-- VACUUM of B-link indexes: entries of dead rows, empty pages, free ones, and room from dead entries.
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- Pages of an index by kind.
CREATE FUNCTION bv_pages(idx regclass, kind text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(0, pg_relation_size(idx) / current_setting('block_size')::int - 1) b,
		mtpower.page_info(idx, b) p WHERE p.type = kind
$$;

-- Nothing to do.
CREATE TABLE bv_empty (a int);
CREATE INDEX bv_empty_a ON bv_empty USING mtpower_blink (a);
VACUUM bv_empty;
INSERT INTO bv_empty VALUES (1);
DELETE FROM bv_empty;
VACUUM bv_empty;
VACUUM bv_empty;
INSERT INTO bv_empty VALUES (2);
SELECT a FROM bv_empty WHERE a > 0;
SELECT verify('bv_empty');
DROP TABLE bv_empty;

-- Keys of many kinds; what dies is nothing, a part of each leaf, ranges, everything.
CREATE TABLE bv (a int, b text, c numeric, d timestamp, e float8) WITH (autovacuum_enabled = off);
CREATE INDEX bv_a ON bv USING mtpower_blink (a);
CREATE INDEX bv_a_desc ON bv USING mtpower_blink (a DESC NULLS LAST);
CREATE INDEX bv_b ON bv USING mtpower_blink (b COLLATE "C");
CREATE INDEX bv_c ON bv USING mtpower_blink (c, a);
CREATE INDEX bv_d ON bv USING mtpower_blink (d NULLS FIRST) INCLUDE (b);
CREATE INDEX bv_expr ON bv USING mtpower_blink ((a % 7));
CREATE INDEX bv_part ON bv USING mtpower_blink (e) WHERE a % 2 = 0;
CREATE FUNCTION bv_fill(lo int, hi int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO bv SELECT CASE WHEN g % 50 = 0 THEN NULL ELSE g END, repeat(md5(g::text), 1 + g % 5), g * 1.5,
		CASE WHEN g % 10 = 0 THEN NULL ELSE timestamp '2000-01-01' + g * interval '1 min' END, sqrt(g)
	FROM generate_series(lo, hi) g
$$;
CREATE FUNCTION bv_counts(OUT a bigint, OUT a_desc bigint, OUT nulls bigint, OUT b bigint, OUT c bigint, OUT d bigint, OUT expr bigint, OUT part bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(*) INTO a FROM bv t WHERE t.a > 0;
	SELECT count(*) INTO a_desc FROM (SELECT FROM bv t WHERE t.a > 0 ORDER BY t.a DESC) q;
	SELECT count(*) INTO nulls FROM bv t WHERE t.a IS NULL;
	SELECT count(*) INTO b FROM bv t WHERE t.b COLLATE "C" > '';
	SELECT count(*) INTO c FROM bv t WHERE t.c > 0;
	SELECT count(*) INTO d FROM bv t WHERE t.d IS NULL;
	SELECT count(*) INTO expr FROM bv t WHERE t.a % 7 = 3;
	SELECT count(*) INTO part FROM bv t WHERE t.e > 0 AND t.a % 2 = 0;
END$$;
SELECT bv_fill(1, 6000);
VACUUM bv;
SELECT * FROM bv_counts();
DELETE FROM bv WHERE a % 3 = 0;
VACUUM bv;
SELECT * FROM bv_counts();
SELECT verify('bv');
DELETE FROM bv WHERE c BETWEEN 1500 AND 7500;
VACUUM (PARALLEL 2) bv;
SELECT * FROM bv_counts();
SELECT verify('bv');
SELECT bv_fill(1000, 5000);
SELECT * FROM bv_counts();
SELECT verify('bv');
DELETE FROM bv;
VACUUM bv;
SELECT * FROM bv_counts();
SELECT verify('bv');
SELECT bv_fill(1, 6000);
SELECT * FROM bv_counts();
SELECT verify('bv');
-- Neither of these looks at the indexes; the second finds dead line pointers that the first left.
DELETE FROM bv WHERE a < 3000;
VACUUM (INDEX_CLEANUP off) bv;
SELECT verify('bv');
VACUUM (INDEX_CLEANUP on) bv;
SELECT * FROM bv_counts();
SELECT verify('bv');
TRUNCATE bv;
VACUUM bv;
SELECT bv_fill(1, 100);
SELECT verify('bv');
DROP TABLE bv;
DROP FUNCTION bv_fill, bv_counts;

-- Of temporary tables nothing depends on other sessions' snapshots: dead rows are removed at once.
CREATE TEMP TABLE bv_temp (a int);
CREATE INDEX bv_temp_a ON bv_temp USING mtpower_blink (a);
INSERT INTO bv_temp SELECT g FROM generate_series(1, 20000) g;
SELECT bv_pages('bv_temp_a', 'deleted') AS deleted, bv_pages('bv_temp_a', 'leaf') > 30 AS leaves;
DELETE FROM bv_temp WHERE a BETWEEN 2000 AND 18000;
VACUUM bv_temp;
SELECT bv_pages('bv_temp_a', 'deleted') > 25 AS deleted, bv_pages('bv_temp_a', 'leaf') < 20 AS leaves;
SELECT count(*), min(a), max(a) FROM bv_temp WHERE a > 0;
SELECT a FROM bv_temp WHERE a > 1997 ORDER BY a LIMIT 4;
SELECT a FROM bv_temp WHERE a < 18003 ORDER BY a DESC LIMIT 4;
SELECT verify('bv_temp');
-- All pages go but those at the right end.
DELETE FROM bv_temp;
VACUUM bv_temp;
SELECT bv_pages('bv_temp_a', 'leaf') AS leaves, bv_pages('bv_temp_a', 'inner') AS inner;
SELECT verify('bv_temp');
-- Statistics are of what is left.
INSERT INTO bv_temp SELECT g FROM generate_series(1, 1000) g;
CREATE INDEX bv_temp_part ON bv_temp USING mtpower_blink (a) WHERE a % 2 = 0;
DELETE FROM bv_temp WHERE a <= 300;
VACUUM bv_temp;
SELECT relname, reltuples FROM pg_class WHERE relname IN ('bv_temp_a', 'bv_temp_part') ORDER BY 1;
DROP TABLE bv_temp;

-- Wide keys make a high tree of few rows.  A queue: what comes at one end goes at the other, whole subtrees of it.
CREATE TEMP TABLE bv_queue (a int, k text);
ALTER TABLE bv_queue ALTER k SET STORAGE plain;
CREATE INDEX bv_queue_k ON bv_queue USING mtpower_blink (k);
CREATE INDEX bv_queue_desc ON bv_queue USING mtpower_blink (k DESC);
CREATE FUNCTION bv_key(i int) RETURNS text LANGUAGE sql AS $$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;
INSERT INTO bv_queue SELECT g, bv_key(g) FROM generate_series(1, 1500) g;
SELECT (mtpower.page_info('bv_queue_k', b)).level >= 3 AS level FROM generate_series(1, pg_relation_size('bv_queue_k') / current_setting('block_size')::int - 1) b
	ORDER BY 1 DESC LIMIT 1;
DELETE FROM bv_queue WHERE a <= 1400;
VACUUM bv_queue;
SELECT bv_pages('bv_queue_k', 'leaf') < 60 AS leaves, bv_pages('bv_queue_k', 'inner') < 30 AS inner,
	bv_pages('bv_queue_desc', 'leaf') < 60 AS leaves, bv_pages('bv_queue_desc', 'inner') < 30 AS inner;
SELECT verify('bv_queue');
SELECT array_agg(a) = array(SELECT generate_series(1401, 1500)) FROM (SELECT a FROM bv_queue WHERE k > '' ORDER BY k) q;
SELECT array_agg(a) = array(SELECT generate_series(1500, 1401, -1)) FROM (SELECT a FROM bv_queue WHERE k > '' ORDER BY k DESC) q;
DROP TABLE bv_queue;
DROP FUNCTION bv_key;

-- An unlogged table.
CREATE UNLOGGED TABLE bv_unlogged (a int);
CREATE INDEX bv_unlogged_a ON bv_unlogged USING mtpower_blink (a);
INSERT INTO bv_unlogged SELECT g FROM generate_series(1, 5000) g;
DELETE FROM bv_unlogged WHERE a % 10 <> 0;
VACUUM bv_unlogged;
SELECT count(*) FROM bv_unlogged WHERE a > 0;
SELECT verify('bv_unlogged');
DROP TABLE bv_unlogged;

-- Without VACUUM: scans mark the entries of dead rows, and inserts take their room.
CREATE TEMP TABLE bv_marked (a int, filler text);
CREATE INDEX bv_marked_a ON bv_marked USING mtpower_blink (a);
INSERT INTO bv_marked SELECT g FROM generate_series(1, 100) g;
DELETE FROM bv_marked WHERE a <= 60;
SELECT dead FROM mtpower.page_info('bv_marked_a', 1);
SELECT count(filler) FROM bv_marked WHERE a > 0;
SELECT items, dead FROM mtpower.page_info('bv_marked_a', 1);
-- Rows that live in the same blocks of the table keep their entries.
INSERT INTO bv_marked SELECT g FROM generate_series(101, 600) g;
SELECT items, dead FROM mtpower.page_info('bv_marked_a', 1);
SELECT count(*) FROM bv_marked WHERE a > 0;
SELECT verify('bv_marked');
DELETE FROM bv_marked;
SELECT count(filler) FROM bv_marked WHERE a > 0;
-- 60 rounds of 100 rows on a leaf that has room for five.
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		INSERT INTO bv_marked SELECT g FROM generate_series(1, 100) g;
		COMMIT;
		DELETE FROM bv_marked;
		COMMIT;
		PERFORM count(filler) FROM bv_marked WHERE a > 0;
		COMMIT;
	END LOOP;
END$$;
SELECT pg_relation_size('bv_marked_a') / current_setting('block_size')::int AS blocks;
SELECT count(*) FROM bv_marked WHERE a > 0;
SELECT verify('bv_marked');
DROP TABLE bv_marked;

-- Nobody marks anything, but new versions of rows whose keys stay the same come again and again.
CREATE TEMP TABLE bv_versions (a int, b int, n int);
CREATE INDEX bv_versions_a ON bv_versions USING mtpower_blink (a);
CREATE INDEX bv_versions_n ON bv_versions USING mtpower_blink (n);
INSERT INTO bv_versions SELECT g, g, 0 FROM generate_series(1, 1000) g;
SELECT pg_relation_size('bv_versions_a') / current_setting('block_size')::int <= 10 AS small;
SET enable_seqscan = on;
SET enable_indexscan = off;
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		UPDATE bv_versions SET n = n + 1 WHERE b % 10 = i % 10;
		COMMIT;
	END LOOP;
END$$;
RESET enable_indexscan;
SET enable_seqscan = off;
SELECT pg_relation_size('bv_versions_a') / current_setting('block_size')::int <= 12 AS small;
SELECT count(*) FROM bv_versions WHERE a > 0;
SELECT verify('bv_versions');
DROP TABLE bv_versions;

DROP FUNCTION bv_pages;
