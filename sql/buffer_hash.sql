-- Probes of mtpower_hash in frames: what they return is what the page itself would, whatever changed it.
CREATE SCHEMA buffer_hash;
SET search_path = buffer_hash, public;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE t (a int, n int DEFAULT 0) USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g FROM generate_series(1, 20000) g;
CREATE INDEX t_a ON t USING mtpower_hash (a);

-- Rows of the keys lo .. hi by probes: with frames, the second time, and without. Tells whether both are the same, how many there are, and
-- whether frames were used.
CREATE FUNCTION probe(lo int, hi int, OUT same bool, OUT nrows bigint, OUT sums bigint, OUT framed bool) LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	again bigint;
	query text := format('SELECT count(t.n), sum(t.n) FROM generate_series(%s, %s) k, LATERAL (SELECT n FROM t WHERE a = k OFFSET 0) t', lo, hi);
	rows bigint[];
	sum bigint[];
BEGIN
	FOR i IN 1 .. 3 LOOP
		PERFORM set_config('mtpower.use_frames', (i < 3)::text, true);
		before := hits FROM mtpower.stat_buffer WHERE kind = 'index';
		EXECUTE query INTO nrows, sums;
		again := hits FROM mtpower.stat_buffer WHERE kind = 'index';
		IF i = 2 THEN
			framed := again - before >= (hi - lo) / 2;
		ELSIF i = 3 AND again <> before THEN
			RAISE WARNING 'frames were used';
		END IF;
		rows := rows || nrows;
		sum := sum || sums;
	END LOOP;
	same := rows[1] = rows[3] AND rows[2] = rows[3] AND sum[1] IS NOT DISTINCT FROM sum[3] AND sum[2] IS NOT DISTINCT FROM sum[3];
END $$;

EXPLAIN (COSTS OFF) SELECT n FROM t WHERE a = 5;
SELECT * FROM probe(1, 1000);
SELECT * FROM probe(19901, 20100);

-- Rows that come, one at a time and in batches, which split the buckets; that change, and go.
INSERT INTO t VALUES (5, 1), (20001, 2);
SELECT * FROM probe(1, 10);
SELECT * FROM probe(19901, 20100);
INSERT INTO t SELECT g, 1 FROM generate_series(10001, 60000) g;
SELECT * FROM probe(9901, 10100);
SELECT * FROM probe(59901, 60100);
UPDATE t SET a = a + 100000 WHERE a BETWEEN 101 AND 200;
SELECT * FROM probe(1, 1000);
SELECT * FROM probe(100001, 101000);
DELETE FROM t WHERE a BETWEEN 301 AND 400;
SELECT * FROM probe(1, 1000);
VACUUM t;
SELECT * FROM probe(1, 1000);
BEGIN;
DELETE FROM t WHERE a BETWEEN 401 AND 500;
SAVEPOINT s;
INSERT INTO t VALUES (450, 7);
SELECT * FROM probe(1, 1000);
ROLLBACK TO s;
SELECT * FROM probe(1, 1000);
ROLLBACK;
SELECT * FROM probe(1, 1000);

-- Keys with more rows than the bucket's page has room for are read in shared buffers.
INSERT INTO t SELECT 777, 1 FROM generate_series(1, 3000);
SELECT * FROM probe(777, 777);
SELECT * FROM probe(701, 800);

-- Bitmap scans, cursors both ways, several keys.
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SELECT * FROM probe(1, 1000);
RESET enable_indexscan;
SET enable_bitmapscan = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, n FROM t WHERE a = 5;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH 1 FROM c;
UPDATE t SET n = n + 10 WHERE a = 5;
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;
SELECT a, n FROM t WHERE a = 5 ORDER BY n;

-- Other tables' pages, and the same file begun anew.
BEGIN;
CREATE TABLE u (a int, n int) USING mtpower;
CREATE INDEX u_a ON u USING mtpower_hash (a);
INSERT INTO u SELECT g, g FROM generate_series(1, 100) g;
SELECT count(*) FROM u WHERE a = 5;
SELECT count(*) FROM u WHERE a = 5;
SELECT count(*) FROM u WHERE a = 5;
TRUNCATE u;
SELECT count(*) FROM u WHERE a = 5;
INSERT INTO u VALUES (5, 1), (5, 2);
SELECT count(*) FROM u WHERE a = 5;
COMMIT;
TRUNCATE t;
SELECT * FROM probe(1, 1000);
SELECT mtpower.verify_index('t_a', true), mtpower.verify_index('u_a', true);
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA buffer_hash CASCADE;
