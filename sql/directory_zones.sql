-- Directory scans leave out what a zone index rules out: what they find is what the table has.
CREATE SCHEMA directory_zones;
SET search_path = directory_zones, public;
SET max_parallel_workers_per_gather = 0;
SET enable_bitmapscan = off;
CREATE TABLE t (id bigint, ts timestamp, c text COLLATE "C", x int, pad text)
	USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, '2026-01-01'::timestamp + g * interval '1 minute', to_char(g, 'FM000000'), CASE WHEN g % 7 > 0 THEN g % 100 END, repeat('x', 60)
	FROM generate_series(1, 20000) g;
CREATE INDEX t_zone ON t USING mtpower_zone (id, ts, c);
CREATE INDEX t_x ON t USING mtpower_zone (x) WHERE x < 1000;
VACUUM ANALYZE t;
SELECT mtpower.set_directory('t', 'pad');
CREATE FUNCTION zones(query text, format text DEFAULT 'text') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	FOR plan IN EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT %s) %s', format, query) LOOP
		RETURN QUERY SELECT trim(line) FROM regexp_split_to_table(plan, '\n') line WHERE line ~ 'Zone|Pages|no row';
	END LOOP;
END $$;

-- Without what releases write in other ways
CREATE FUNCTION shape(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line !~ 'Filter:|Cache' THEN RETURN NEXT line; END IF;
	END LOOP;
END $$;

-- The plan names the index; the numbers of pairs come with ANALYZE.
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 77;
SELECT * FROM zones($$SELECT * FROM t WHERE id BETWEEN 100 AND 2100$$);
SELECT * FROM zones($$SELECT * FROM t WHERE ts < '2026-01-01 01:00' AND c > '000010'$$, 'yaml');
SELECT * FROM zones($$SELECT * FROM t WHERE id = ANY ('{5,NULL,900}')$$);
SELECT * FROM zones($$SELECT * FROM t WHERE id = ANY ('{}')$$);
SELECT * FROM zones($$SELECT * FROM t WHERE id > 19990 AND id < 10$$);

-- Where nothing is ruled out there is no index: most rows are wanted, the order is gone, the index is not for these clauses.
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id > 1000;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE x = 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE pad = 'y';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE c < '000010' COLLATE "POSIX";

-- Each clause, with the index and without
CREATE TABLE clauses (clause text);
INSERT INTO clauses VALUES ('id = 77'), ('id = 77::int2'), ('id < 10::int4'), ('id <= 10'), ('id > 19990'), ('id >= 19990'), ('id BETWEEN 100 AND 200'),
	('id = NULL'), ('id IN (1, 4000, 19999)'), ('id = ANY (NULL)'), ('id > 10 AND id < 5'), ('ts = ''2026-01-02''::date'), ('ts < ''2026-01-01 00:10''::timestamptz'),
	('ts > ''2026-01-14 21:00'''), ('c = ''000123'''), ('c > ''0199'''), ('c < ''000002'''), ('id IS NULL'), ('id IS NULL AND ts IS NULL'), ('ts IS NOT NULL AND id = 5'),
	('id < 100 AND ts > ''2026-01-01 01:00'''), ('id = 4 OR ts = ''2026-01-02'''), ('id = 9000000000'), ('id = -1'), ('c = ANY (ARRAY[''000005'', ''000010''])'),
	('id = (SELECT 500)'), ('id = (SELECT NULL::int)'), ('id > (SELECT max(id) - 5 FROM t)');
CREATE FUNCTION differing() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	clause text;
	pruned text;
	whole text;
BEGIN
	FOR clause IN SELECT c.clause FROM clauses c LOOP
		PERFORM set_config('mtpower.enable_directoryscan', 'on', true);
		EXECUTE 'SELECT md5(string_agg(t::text, '','')) FROM t WHERE ' || clause INTO pruned;
		PERFORM set_config('mtpower.enable_directoryscan', 'off', true);
		EXECUTE 'SELECT md5(string_agg(t::text, '','')) FROM t WHERE ' || clause INTO whole;
		IF pruned IS DISTINCT FROM whole THEN RETURN NEXT clause; END IF;
	END LOOP;
	PERFORM set_config('mtpower.enable_directoryscan', 'on', true);
END $$;
SELECT * FROM differing();
INSERT INTO t SELECT id, ts, c, x, pad FROM t WHERE id BETWEEN 50 AND 60;
INSERT INTO t (id) VALUES (NULL), (77);
UPDATE t SET ts = ts + interval '1 year' WHERE id % 5000 = 0;
DELETE FROM t WHERE id BETWEEN 105 AND 110;
SELECT * FROM differing();
BEGIN;
INSERT INTO t SELECT 30000 + g FROM generate_series(1, 100) g;
SELECT count(*) FROM t WHERE id > 30050;
SELECT * FROM differing();
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM differing();
SELECT mode, count(*) FROM pg_locks WHERE relation = 't_zone'::regclass AND mode = 'SIReadLock' GROUP BY mode;
COMMIT;

-- Look-ups in nested loops
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
CREATE TABLE probes AS SELECT (g * 401) AS id, 'p' || g AS name FROM generate_series(1, 40) g;
INSERT INTO probes VALUES (NULL, 'null'), (105, 'deleted'), (20001, 'behind');
ANALYZE probes;
SELECT * FROM shape($$SELECT name, x FROM probes JOIN t USING (id)$$);
SELECT count(*), sum(x), max(name) FROM probes JOIN t USING (id);
SELECT * FROM shape($$SELECT name, t.id FROM probes p JOIN t ON t.id BETWEEN p.id - 1 AND p.id + 1$$);
SELECT count(*), sum(t.id) FROM probes p JOIN t ON t.id BETWEEN p.id - 1 AND p.id + 1;
SELECT * FROM shape($$SELECT name, l.id FROM probes p LEFT JOIN LATERAL (SELECT t.id FROM t WHERE t.id > p.id AND t.id < p.id + 100 ORDER BY t.id LIMIT 1) l ON true$$);
SELECT count(*), count(l.id), sum(l.id) FROM probes p LEFT JOIN LATERAL (SELECT t.id FROM t WHERE t.id > p.id AND t.id < p.id + 100 ORDER BY t.id LIMIT 1) l ON true;
SELECT count(*) FROM probes p WHERE NOT EXISTS (SELECT FROM t WHERE t.id = p.id);
SET mtpower.enable_directoryscan = off;
SET enable_bitmapscan = on;
SELECT count(*), sum(x), max(name) FROM probes JOIN t USING (id);
SELECT count(*), sum(t.id) FROM probes p JOIN t ON t.id BETWEEN p.id - 1 AND p.id + 1;
SELECT count(*), count(l.id), sum(l.id) FROM probes p LEFT JOIN LATERAL (SELECT t.id FROM t WHERE t.id > p.id AND t.id < p.id + 100 ORDER BY t.id LIMIT 1) l ON true;
SELECT count(*) FROM probes p WHERE NOT EXISTS (SELECT FROM t WHERE t.id = p.id);
SET enable_bitmapscan = off;
SET mtpower.enable_directoryscan = on;

-- A loop of look-ups is one scan of the table.
BEGIN;
SELECT pg_stat_get_xact_numscans('t'::regclass) AS before, pg_stat_get_xact_numscans('t_zone'::regclass) AS of_index \gset
SELECT count(*) FROM probes JOIN t USING (id);
SELECT pg_stat_get_xact_numscans('t'::regclass) - :before AS scans, pg_stat_get_xact_numscans('t_zone'::regclass) - :of_index AS of_index;
COMMIT;

-- Cursors turn, also beyond both ends.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE id = ANY ('{5,9000,9001}') OR id = 9002 AND ts > '2026-01-01';
DECLARE d SCROLL CURSOR FOR SELECT id, ctid FROM t WHERE id BETWEEN 9000 AND 9200 AND x % 50 = 7;
DECLARE e SCROLL CURSOR FOR SELECT id, ctid FROM t WHERE id BETWEEN 58 AND 90;
MOVE FORWARD ALL IN e;
FETCH BACKWARD ALL FROM e;
FETCH 2 FROM d;
FETCH BACKWARD 2 FROM d;
FETCH ALL FROM d;
FETCH BACKWARD ALL FROM d;
FETCH LAST FROM d;
FETCH ABSOLUTE 1 FROM d;
FETCH ALL FROM c;
COMMIT;

-- Plans that are kept: other values, and an index that goes
SET plan_cache_mode = force_generic_plan;
PREPARE q (bigint) AS SELECT id, c FROM t WHERE id = $1;
EXPLAIN (COSTS OFF) EXECUTE q (1);
EXECUTE q (20000);
EXECUTE q (NULL);
EXECUTE q (1);
BEGIN;
DROP INDEX t_zone;
EXPLAIN (COSTS OFF) EXECUTE q (1);
EXECUTE q (1);
ROLLBACK;
EXECUTE q (2);
RESET plan_cache_mode;

-- Updates and deletes, partitions that are joined pair by pair, parallel workers
UPDATE t SET x = -1 WHERE id BETWEEN 300 AND 302;
DELETE FROM t USING probes p WHERE t.id = p.id AND p.name = 'p2';
SELECT count(*), count(*) FILTER (WHERE x = -1) FROM t WHERE id BETWEEN 300 AND 802;
CREATE TABLE p (id bigint, a text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10000) USING mtpower;
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10000) TO (20001) USING mtpower;
CREATE INDEX ON p USING mtpower_zone (id);
INSERT INTO p SELECT id, pad || c FROM t WHERE id IS NOT NULL;
CREATE TABLE o (id bigint, b int) PARTITION BY RANGE (id);
CREATE TABLE o1 PARTITION OF o FOR VALUES FROM (0) TO (10000);
CREATE TABLE o2 PARTITION OF o FOR VALUES FROM (10000) TO (20001);
INSERT INTO o SELECT g * 333, g FROM generate_series(1, 60) g;
ANALYZE p;
ANALYZE o;
SELECT * FROM shape($$SELECT * FROM o JOIN p USING (id)$$);
SELECT count(*), sum(b) FROM o JOIN p USING (id);
SET enable_partitionwise_join = on;
SELECT * FROM shape($$SELECT * FROM o JOIN p USING (id)$$);
SELECT count(*), sum(b) FROM o JOIN p USING (id);
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 9000;
SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 9000;
SELECT * FROM zones($$SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 9000$$);
SET parallel_leader_participation = off;
SELECT * FROM zones($$SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 9000$$);
SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 9000;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA directory_zones CASCADE;
