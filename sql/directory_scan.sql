-- The directory scan in the place of sequential scans: where it is planned, and that it does what they do.  (With directories: t/pagedir/scan.pl.)
SET max_parallel_workers_per_gather = 0;
CREATE TABLE ds (id int, k int, t text, c text COLLATE "C", f float8, b bool, n numeric) USING mtpower;
INSERT INTO ds SELECT g, (g * 7919) % 10007, 'v' || g, md5(g::text), CASE WHEN g % 10 > 0 THEN g / 4.0 END, g % 2 = 0, g FROM generate_series(1, 8000) g;
CREATE TABLE ds_small (id int) USING mtpower;
CREATE TEMP TABLE ds_temp (id int, c text) USING mtpower;
INSERT INTO ds_small VALUES (1), (2);
INSERT INTO ds_temp SELECT id, t || t || t FROM ds;
CREATE TABLE ds_heap USING heap AS SELECT * FROM ds;
ANALYZE ds, ds_small, ds_temp, ds_heap;
-- Nothing is learnt meanwhile: directories of numbers without normalized keys say nothing of other columns.
SELECT mtpower.set_directory('ds', 'n');

-- A query's kind of scan
CREATE FUNCTION ds_scan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line LIKE '%directory scan%' THEN RETURN 'directory'; END IF;
	END LOOP;
	RETURN 'other';
END $$;
-- Queries whose rows, in their order, are not those of the sequential scan; and those that are not answered by a directory scan.
CREATE FUNCTION ds_rows(query text, scan bool) RETURNS text LANGUAGE plpgsql SET mtpower.enable_directoryscan = on AS $$
DECLARE rows text;
BEGIN
	PERFORM set_config('mtpower.enable_directoryscan', scan::text, true);
	EXECUTE format('SELECT string_agg(q::text, '','') FROM (%s) q', query) INTO rows;
	RETURN rows;
END $$;
CREATE FUNCTION ds_wrong(VARIADIC queries text[]) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT q FROM unnest(queries) q WHERE ds_rows(q, true) IS DISTINCT FROM ds_rows(q, false) OR ds_scan(q) <> 'directory' $$;

-- Clauses that directories can be asked.
SELECT clause FROM unnest(ARRAY['id = 5', '5 = id', 'id < 5', '5 < id', 'id >= 5::bigint', 'id BETWEEN 4 AND 7', 'id IN (4, 5)', 'id = ANY (''{4,null}'')', 'id IS NULL', 'f IS NOT NULL',
	't = ''v9''', 't > ''v9''', 'c < ''1''', 'c = ''1'' COLLATE "C"', 'f = 1', 'n = 5', 'n = 5 AND random() > 2', 't::varchar = ''v1''', 'id = (SELECT max(id) FROM ds_small)', 'id = pg_backend_pid()',
	'id = 5 AND (k = 5 OR k = 6)', 'b IS NULL']) clause
WHERE ds_scan('SELECT * FROM ds WHERE ' || clause) <> 'directory';

-- Others are left to the sequential scan: volatile values, other orders, rows that are compared with themselves.
SELECT clause FROM unnest(ARRAY['true', 'id <> 5', 'id = random()::int', 'id = k', 'id + 1 = 5', 'id = 5 OR id = 6 OR k = 7', 't LIKE ''%9''', 't = ''v9'' COLLATE "POSIX"', 't ~>~ ''v9''',
	'id = ALL (''{5}'')', 'id <> ALL (''{5}'')', 'id = (SELECT max(s.id) FROM ds_small s WHERE s.id < ds.k)', 'ctid = ''(1,1)''', 'ds IS NULL', 'id NOT IN (1, 2)', 'coalesce(id, 5) = 5']) clause
WHERE ds_scan('SELECT * FROM ds WHERE ' || clause) <> 'other';

-- So are other tables, samples, the rows of cursors, and all if it is switched off, by whomever.
SELECT query FROM unnest(ARRAY['SELECT * FROM ds_small WHERE id = 1', 'SELECT * FROM ds_temp WHERE id = 1', 'SELECT * FROM ds_heap WHERE id = 1', 'SELECT * FROM pg_proc WHERE pronargs = 3',
	'SELECT * FROM ds TABLESAMPLE system (50) WHERE id = 5', 'SELECT FROM ds WHERE false']) query WHERE ds_scan(query) <> 'other';
SET mtpower.enable_directoryscan = off;
SELECT ds_scan('SELECT * FROM ds WHERE id = 5');
SET mtpower.enable_directoryscan = on;
SET mtpower.use_frames = off;
SELECT ds_scan('SELECT * FROM ds WHERE id = 5');
RESET mtpower.use_frames;
SELECT mtpower.set_directory('ds', NULL);
SELECT ds_scan('SELECT * FROM ds WHERE id = 5');
SELECT mtpower.set_directory('ds', 'n');
SELECT ds_scan('SELECT * FROM ds WHERE id = 5');

-- Where there are no directories it costs what a sequential scan costs, and an index is taken where that is cheaper.
CREATE INDEX ds_k ON ds USING btree (k);
EXPLAIN (COSTS OFF) SELECT * FROM ds WHERE k = 5;
EXPLAIN (COSTS OFF) SELECT * FROM ds WHERE k > 5;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM ds WHERE k > 5;
RESET enable_seqscan;
DROP INDEX ds_k;

-- Rows, with what else a node has to give: system columns, whole rows, no columns, subplans in the list and in the condition.
SELECT * FROM ds_wrong('SELECT * FROM ds WHERE k < 100', 'SELECT ctid, xmin, cmin, tableoid::regclass, k FROM ds WHERE k < 100', 'SELECT ds FROM ds WHERE k < 100', 'SELECT FROM ds WHERE k < 100',
	'SELECT count(*) FROM ds WHERE f IS NULL', 'SELECT k + 1, t || c FROM ds WHERE k < 100 AND ctid::text > ''(5,5)''', 'SELECT * FROM ds WHERE k = ANY (NULL::int[])',
	'SELECT k, (SELECT count(*) FROM ds_small s WHERE s.id < ds.id) FROM ds WHERE k < 50 AND EXISTS (SELECT FROM ds_small s WHERE s.id <> ds.id OFFSET 0)',
	'SELECT k, (SELECT max(s.id) FROM ds s WHERE s.k = o.id) FROM ds_small o, LATERAL (SELECT k FROM ds WHERE k BETWEEN o.id AND o.id + 5 LIMIT 3) l',
	'SELECT o.id, i.k FROM ds_small o JOIN ds i ON i.id = o.id AND i.k >= 0', 'SELECT row_number() OVER (ORDER BY k), k FROM ds WHERE k IN (5, 6, 70)',
	'SELECT k FROM ds WHERE n > 7990 UNION ALL SELECT id FROM ds WHERE c > ''f'' AND NOT b', 'SELECT k FROM ds WHERE id > 100 LIMIT 7', 'WITH x AS MATERIALIZED (SELECT * FROM ds WHERE k < 9) SELECT x.k, y.k FROM x, x y');
SELECT id, k FROM ds WHERE k = (SELECT max(k) FROM ds WHERE k < 5000) AND id IS NOT NULL;

SELECT * FROM explain($$SELECT (SELECT ds.k) FROM ds WHERE k < 50 AND EXISTS (SELECT FROM ds_small s WHERE s.id <> ds.id OFFSET 0)$$);

-- Parameters, of prepared statements and of loops.
SET plan_cache_mode = force_generic_plan;
PREPARE ds_p (int, int[]) AS SELECT id, k FROM ds WHERE k >= $1 AND k = ANY ($2) ORDER BY id;
EXPLAIN (COSTS OFF) EXECUTE ds_p (5, '{5,6}');
EXECUTE ds_p (6, '{5,6,7}');
EXECUTE ds_p (NULL, '{5,6}');
EXECUTE ds_p (5, NULL);
EXECUTE ds_p (5, '{}');
DEALLOCATE ds_p;
RESET plan_cache_mode;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT g, l.* FROM generate_series(1, 4) g, LATERAL (SELECT id, k FROM ds WHERE k = g OFFSET 0) l;
SELECT g, l.* FROM generate_series(1, 4) g, LATERAL (SELECT id, k FROM ds WHERE k = g OFFSET 0) l;
SELECT g, l.* FROM generate_series(1, 4) g LEFT JOIN LATERAL (SELECT id, k FROM ds WHERE k IN (g, g + 100) AND id > g LIMIT 1) l ON true;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;

-- Cursors, both ways, and the row that one stands on.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, k FROM ds WHERE k < 6;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH FORWARD FROM c;
FETCH BACKWARD ALL FROM c;
FETCH BACKWARD FROM c;
FETCH ABSOLUTE 4 FROM c;
FETCH RELATIVE -2 FROM c;
MOVE FORWARD ALL IN c;
FETCH PRIOR FROM c;
UPDATE ds SET t = 'current' WHERE CURRENT OF c RETURNING id, k, t;
FETCH PRIOR FROM c;
DELETE FROM ds WHERE CURRENT OF c RETURNING id, k;
FETCH NEXT FROM c;
CLOSE c;
DECLARE c CURSOR FOR SELECT id, k FROM ds WHERE k < 6 FOR UPDATE;
FETCH 2 FROM c;
UPDATE ds SET t = 'locked' WHERE CURRENT OF c RETURNING id, k, t;
EXPLAIN (COSTS OFF) UPDATE ds SET t = 'x' WHERE CURRENT OF c;
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT id, k FROM ds WHERE k < 4;
COMMIT;
FETCH ALL FROM c;
CLOSE c;

-- Commands that write.
BEGIN;
EXPLAIN (COSTS OFF) UPDATE ds SET k = k + 1 WHERE k < 5;
UPDATE ds SET k = k + 1 WHERE k < 5 RETURNING id, k, t;
DELETE FROM ds USING ds_small s WHERE ds.k < 5 AND ds.id > s.id RETURNING ds.k;
MERGE INTO ds USING (VALUES (3, 'three'), (20000, 'new')) v (k, t) ON ds.k = v.k AND ds.k IN (3, 20000)
	WHEN MATCHED THEN UPDATE SET t = v.t WHEN NOT MATCHED THEN INSERT (id, k, t) VALUES (0, v.k, v.t);
SELECT id, k, t FROM ds WHERE k IN (3, 20000);
UPDATE ds SET (t, f) = (SELECT 'm', sum(s.id) FROM ds_small s WHERE s.id < ds.id) WHERE k IN (8, 9) RETURNING id, k, t, f;
SELECT k FROM ds WHERE k < 8 FOR UPDATE;
SELECT s.id, ds.k FROM ds_small s, ds WHERE ds.k BETWEEN 5 AND 7 FOR NO KEY UPDATE OF ds;
INSERT INTO ds (id, k) SELECT id + 100000, k FROM ds WHERE k < 8 RETURNING id;
ROLLBACK;

-- A function that writes what is being read.
CREATE FUNCTION ds_more(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ds (id, k) VALUES ($1 + 50000, 3); DELETE FROM ds WHERE k = 5; RETURN $1; END $$;
BEGIN;
SELECT id, k, ds_more(id) FROM ds WHERE k BETWEEN 3 AND 5;
SELECT id, k FROM ds WHERE k BETWEEN 3 AND 5;
ROLLBACK;

-- Inheritance and partitions.
CREATE TABLE ds_part (k int, v text, n numeric) PARTITION BY RANGE (k);
CREATE TABLE ds_part1 PARTITION OF ds_part FOR VALUES FROM (0) TO (5000) USING mtpower;
CREATE TABLE ds_part2 (v text, gone int, n numeric, k int) USING mtpower;
ALTER TABLE ds_part2 DROP gone;
ALTER TABLE ds_part ATTACH PARTITION ds_part2 FOR VALUES FROM (5000) TO (20000);
INSERT INTO ds_part SELECT k, c || c FROM ds;
SELECT mtpower.set_directory('ds_part', 'n');
ANALYZE ds_part;
EXPLAIN (COSTS OFF) SELECT * FROM ds_part WHERE v < '02';
SELECT * FROM ds_wrong('SELECT * FROM ds_part WHERE v < ''01''', 'SELECT tableoid::regclass, ctid, k FROM ds_part WHERE k BETWEEN 4990 AND 5020', 'SELECT * FROM ds_part1 WHERE k = 5', 'SELECT * FROM ds_part WHERE v IS NULL',
	'SELECT p.k FROM ds_small s, ds_part p WHERE p.k = s.id AND p.v > ''''');
BEGIN;
UPDATE ds_part SET k = k + 5000 WHERE k BETWEEN 1 AND 3 RETURNING k, tableoid::regclass;
ROLLBACK;
CREATE INDEX ON ds_part1 (k);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT p.k FROM ds_small s, ds_part p WHERE p.k = s.id AND p.v > '';
RESET enable_hashjoin;
RESET enable_mergejoin;
DROP TABLE ds_part;

-- Row security and security barriers: a clause waits for those of the policy, unless its function is leakproof; what is called, how often and in which order is the same.
CREATE FUNCTION ds_tell(text) RETURNS text LANGUAGE plpgsql STABLE COST 0.0001 AS $$ BEGIN RAISE NOTICE 'told %', $1; RETURN $1; END $$;
CREATE TABLE ds_rls (owner text, k int, v text, n numeric) USING mtpower;
SELECT mtpower.set_directory('ds_rls', 'n');
INSERT INTO ds_rls SELECT 'u' || g % 1000, g, md5(g::text) || md5(g::text) FROM generate_series(1, 6000) g;
ALTER TABLE ds_rls ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ds_rls USING (owner = 'u77');
CREATE VIEW ds_barrier WITH (security_barrier) AS SELECT * FROM ds_rls WHERE k % 1000 = 77;
CREATE ROLE regress_ds;
GRANT SELECT ON ds_rls, ds_barrier TO regress_ds;
ANALYZE ds_rls;
SET ROLE regress_ds;
EXPLAIN (COSTS OFF) SELECT k FROM ds_rls WHERE v < '5';
EXPLAIN (COSTS OFF) SELECT k FROM ds_rls WHERE v < ds_tell('5') AND k < 3000;
SELECT k FROM ds_rls WHERE v < ds_tell('5') AND k < 3000;
SET mtpower.enable_directoryscan = off;
SELECT k FROM ds_rls WHERE v < ds_tell('5') AND k < 3000;
RESET ROLE;
RESET mtpower.enable_directoryscan;
ALTER POLICY own ON ds_rls USING (owner || '' = 'u77');
SET ROLE regress_ds;
EXPLAIN (COSTS OFF) SELECT k FROM ds_rls WHERE n < 5;
EXPLAIN (COSTS OFF) SELECT k FROM ds_rls WHERE k < 5;
RESET ROLE;
EXPLAIN (COSTS OFF) SELECT k FROM ds_barrier WHERE v < '5';
EXPLAIN (COSTS OFF) SELECT k FROM ds_barrier WHERE k < 2000 AND ds_tell(v) < '5';
SELECT k FROM ds_barrier WHERE k < 2000 AND ds_tell(v) > '5';
SET mtpower.enable_directoryscan = off;
SELECT k FROM ds_barrier WHERE k < 2000 AND ds_tell(v) > '5';
RESET mtpower.enable_directoryscan;
DROP TABLE ds_rls CASCADE;
DROP ROLE regress_ds;

-- A column that scans have taught is asked by clauses of the lowest level alone, and taught by them: how many pages were skipped would tell of rows that a policy or a barrier hides.
CREATE TABLE ds_told (k int, l int, hidden bool, v text) USING mtpower;
INSERT INTO ds_told SELECT g, g % 2 * g, g % 2 = 0, repeat('v', 200) FROM generate_series(1, 4000) g;
ALTER TABLE ds_told ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON ds_told USING (NOT hidden);
CREATE VIEW ds_told_view WITH (security_barrier) AS SELECT * FROM ds_told WHERE NOT hidden;
CREATE ROLE regress_ds;
CREATE ROLE regress_ds_other;
GRANT SELECT ON ds_told, ds_told_view TO regress_ds;
ANALYZE ds_told;
-- The line of EXPLAIN ANALYZE that tells
CREATE FUNCTION ds_pages(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Directory:|Pages:|SubPlan' THEN RETURN NEXT trim(line); END IF;
	END LOOP;
END $$;
-- Until every pair has its directory
CREATE FUNCTION ds_all(query text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		IF EXISTS (SELECT FROM ds_pages(query) line WHERE line LIKE 'Pages:% 0 scanned') THEN RETURN true; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN false;
END $$;
-- Nobody learns from scans of a user whom a policy or a barrier keeps from rows.
SET ROLE regress_ds;
SELECT count(*) FROM ds_told WHERE k = 10;
SELECT count(*) FROM ds_told WHERE k = 10;
SELECT count(*) FROM ds_told_view WHERE k = 10;
SELECT count(*) FROM ds_told_view WHERE k = 10;
SELECT columns FROM mtpower.directory('ds_told');
RESET ROLE;
-- From the owner's they do.  Only the owner, and users whom no policy holds, learn of a hidden row by the pages.
SELECT count(*) FROM ds_told WHERE k = 10;
SELECT count(*) FROM ds_told WHERE k = 10;
SELECT columns FROM mtpower.directory('ds_told');
SELECT ds_all('SELECT FROM ds_told WHERE k = 10');
SELECT ds_pages('SELECT FROM ds_told WHERE k = 10');
SELECT ds_pages('SELECT FROM ds_told_view WHERE k = 10');
SET ROLE regress_ds;
SELECT ds_pages('SELECT FROM ds_told WHERE k = 10');
SELECT ds_pages('SELECT FROM ds_told WHERE k = 5000');
SELECT ds_pages('SELECT FROM ds_told_view WHERE k = 10');
RESET ROLE;
-- What a policy asks itself, it may ask; but nothing that the planner makes of its clauses and the user's together.
ALTER POLICY visible ON ds_told USING (k = 11);
SET ROLE regress_ds;
SELECT ds_pages('SELECT FROM ds_told WHERE NOT hidden');
RESET ROLE;
ALTER POLICY visible ON ds_told USING (k = l);
SET ROLE regress_ds;
SELECT ds_pages('SELECT FROM ds_told WHERE k = 10');
RESET ROLE;
ALTER POLICY visible ON ds_told USING (NOT hidden);
-- Whom the table is not granted is not told what others look for, only what its owner has fixed.
SET ROLE regress_ds_other;
SELECT * FROM mtpower.directory('ds_told');
RESET ROLE;
GRANT SELECT (v) ON ds_told TO regress_ds_other;
SET ROLE regress_ds_other;
SELECT * FROM mtpower.directory('ds_told');
RESET ROLE;
GRANT SELECT (k) ON ds_told TO regress_ds_other;
SET ROLE regress_ds_other;
SELECT * FROM mtpower.directory('ds_told');
RESET ROLE;
-- Of a column that the owner has fixed, whatever is leakproof may be asked.
SELECT mtpower.set_directory('ds_told', 'k');
SET ROLE regress_ds;
SELECT ds_pages('SELECT FROM ds_told WHERE k = 10');
SELECT ds_pages('SELECT FROM ds_told_view WHERE k = 10');
RESET ROLE;
DROP OWNED BY regress_ds_other;
DROP TABLE ds_told CASCADE;
DROP FUNCTION ds_pages, ds_all;
DROP ROLE regress_ds, regress_ds_other;

-- A value is evaluated with a row, as in a sequential scan, as long as there is no directory.
SELECT id FROM ds WHERE b IS NULL AND t = ds_tell('v5');

-- EXPLAIN.
SELECT * FROM explain('SELECT id FROM ds WHERE k < 5', 'ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF');
SELECT mtpower.set_directory('ds', 'k', 'id');
EXPLAIN (COSTS OFF) SELECT id FROM ds WHERE k < 5 AND t > '';
EXPLAIN (COSTS OFF) SELECT id FROM ds WHERE id < 5;
EXPLAIN (COSTS OFF) SELECT id FROM ds WHERE t < '5';
SELECT * FROM explain('SELECT id FROM ds WHERE k < 5', 'COSTS OFF, FORMAT json');
SELECT mtpower.set_directory('ds', 'n');
-- Other sessions' plans hear of it.
PREPARE ds_p AS SELECT id FROM ds WHERE k < 5 AND id IS NOT NULL;
EXPLAIN (COSTS OFF) EXECUTE ds_p;
SELECT mtpower.set_directory('ds', NULL);
EXPLAIN (COSTS OFF) EXECUTE ds_p;
SELECT mtpower.set_directory('ds', 'n');
ALTER TABLE ds ALTER k TYPE bigint;
EXPLAIN (COSTS OFF) EXECUTE ds_p;
EXECUTE ds_p;
ALTER TABLE ds DROP k;
EXECUTE ds_p;
DEALLOCATE ds_p;

-- It counts as sequential scans do.
CREATE FUNCTION ds_counts(query text, scan bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE before record; after record;
BEGIN
	PERFORM set_config('mtpower.enable_directoryscan', scan::text, true);
	SELECT seq_scan, seq_tup_read, idx_tup_fetch INTO before FROM pg_stat_xact_user_tables WHERE relname = 'ds';
	EXECUTE query;
	SELECT seq_scan, seq_tup_read, idx_tup_fetch INTO after FROM pg_stat_xact_user_tables WHERE relname = 'ds';
	RETURN format('%s scans, %s rows, %s', after.seq_scan - before.seq_scan, after.seq_tup_read - before.seq_tup_read, after.idx_tup_fetch - before.idx_tup_fetch);
END $$;
SELECT ds_counts('SELECT count(*) FROM ds WHERE id < 5', scan) FROM unnest('{on,off}'::bool[]) scan;

-- In parallel.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM ds WHERE id > 4000 AND c > '5';
SELECT count(*), sum(id) FROM ds WHERE id > 4000 AND c > '5';
SET parallel_leader_participation = off;
SELECT count(*), sum(id) FROM ds WHERE id > 4000 AND c > '5';
RESET parallel_leader_participation;
SET mtpower.enable_directoryscan = off;
SELECT count(*), sum(id) FROM ds WHERE id > 4000 AND c > '5';
RESET mtpower.enable_directoryscan;
-- Run again, with other parameters, and below a LIMIT.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT g, (SELECT count(*) FROM ds WHERE id > g * 2000 AND c > '5') FROM generate_series(0, 4) g;
SELECT g, (SELECT id FROM ds WHERE id = g * 2000 AND c > '' LIMIT 1) FROM generate_series(1, 4) g;
SELECT count(*) FROM ds_small s CROSS JOIN (SELECT id FROM ds WHERE id > 10 LIMIT 5) d;
RESET ALL;

-- What an operator family has got, or has lost, counts from then on.
BEGIN;
CREATE FUNCTION ds_less(int, numeric) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1::numeric < $2; END';
CREATE OPERATOR <^ (FUNCTION = ds_less, LEFTARG = int, RIGHTARG = numeric);
SELECT ds_scan('SELECT * FROM ds WHERE id <^ 5.0');
ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 1 <^ (int, numeric);
SELECT ds_scan('SELECT * FROM ds WHERE id <^ 5.0');
ALTER OPERATOR FAMILY integer_ops USING btree DROP OPERATOR 1 (int, numeric);
SELECT ds_scan('SELECT * FROM ds WHERE id <^ 5.0');
ROLLBACK;

DROP FUNCTION ds_scan, ds_rows, ds_wrong, ds_more, ds_tell, ds_counts;
DROP TABLE ds, ds_small, ds_temp, ds_heap;
