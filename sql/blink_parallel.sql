-- Parallel index scans and index-only scans, compared with sequential scans that are not parallel.
CREATE SCHEMA blink_parallel;
SET search_path = blink_parallel, public;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SET enable_memoize = off;
SET enable_material = off;
SET jit = off;

-- k: unique.  g: five values, many leaves each.  n: unique, a third is NULL.  t: wide, some 30 to a leaf.
CREATE TABLE p (k int, g int, n int, t text COLLATE "C", v int) WITH (autovacuum_enabled = off, parallel_workers = 4);
CREATE INDEX p_k ON p USING mtpower_blink (k);
CREATE INDEX p_g ON p USING mtpower_blink (g, k DESC);
CREATE INDEX p_n ON p USING mtpower_blink (n NULLS FIRST) INCLUDE (k);
CREATE INDEX p_t ON p USING mtpower_blink (t DESC) INCLUDE (g);
INSERT INTO p SELECT i, i % 5, CASE WHEN i % 3 > 0 THEN i END, lpad(i::text, 200, 'x'), i % 100 FROM generate_series(1, 12000) i;
CREATE TABLE one (LIKE p) WITH (autovacuum_enabled = off, parallel_workers = 4);
CREATE INDEX one_k ON one USING mtpower_blink (k);
INSERT INTO one SELECT * FROM p WHERE k <= 10;
CREATE TABLE none (LIKE p) WITH (autovacuum_enabled = off, parallel_workers = 4);
CREATE INDEX none_k ON none USING mtpower_blink (k);
-- Not worth a skip scan, which PostgreSQL 18 knows.
ALTER TABLE p ALTER g SET (n_distinct = 6000);
VACUUM ANALYZE p, one, none;

-- True; it looks so expensive that every plan with it is a parallel one.
CREATE FUNCTION keep(int) RETURNS bool IMMUTABLE STRICT PARALLEL SAFE COST 1000000 LANGUAGE internal AS 'int4_bool';

-- The plan's nodes from the top down.
CREATE FUNCTION nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	all_lines text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		CONTINUE WHEN line ~ '^ +[A-Z][A-Za-z ]+( Key| Cond|ed| Filter|Filter|\))?: ' AND line !~ '->';
		CONTINUE WHEN line ~ 'InitPlan|Aggregate|Result|Subquery|Values';
		CONTINUE WHEN line ~ 'One-Time Filter';  -- not in every release
		all_lines := all_lines || ' > ' || regexp_replace(line, '^ *(-> *)?', '');
	END LOOP;
	RETURN substr(all_lines, 4);
END $$;

-- The rows of a query as the index gives them, in their order, must be those of a sequential scan: with workers alone, with the
-- leader too, and with the leader alone, since no worker can be started.  An order of rows is compared where the query has one.
CREATE FUNCTION rows(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	IF query ~ 'ORDER BY' THEN
		EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '' '')), '''') FROM (%s) q', query) INTO result;
	ELSE
		EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '' '' ORDER BY q::text)), '''') FROM (%s) q', query) INTO result;
	END IF;
	RETURN result;
END $$;
CREATE FUNCTION check_rows(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text;
	got text;
	leader bool;
	workers int;
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
		set_config('enable_sort', 'on', true), set_config('max_parallel_workers_per_gather', '0', true);
	want := rows(query);
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true),
		set_config('enable_sort', 'off', true), set_config('max_parallel_workers_per_gather', '4', true);
	FOR leader, workers IN VALUES (false, 8), (true, 8), (true, 0) LOOP
		PERFORM set_config('parallel_leader_participation', leader::text, true), set_config('max_parallel_workers', workers::text, true);
		got := rows(query);
		IF got <> want THEN
			RAISE WARNING '% instead of %, leader %, % workers: %', got, want, leader, workers, query;
		END IF;
	END LOOP;
	RETURN split_part(want, ' ', 1);
END $$;

-- The plan, and the number of rows.
CREATE TABLE queries (id serial, q text);
INSERT INTO queries (q) VALUES
	('SELECT k, v FROM p WHERE keep(k) AND k BETWEEN 500 AND 9000'),
	('SELECT k, v FROM p WHERE keep(k) AND k > 10000 AND v % 7 = 3'),
	('SELECT k, v FROM p WHERE keep(k) AND k < 3000'),
	('SELECT k FROM p WHERE keep(k) AND k > 0'),
	('SELECT k FROM p WHERE keep(k) AND k >= 12000'),
	('SELECT k, v FROM p WHERE keep(k) ORDER BY k'),
	('SELECT k, v FROM p WHERE keep(k) ORDER BY k DESC'),
	('SELECT k FROM p WHERE keep(k) AND k BETWEEN 777 AND 7777 ORDER BY k DESC'),
	('SELECT g, k FROM p WHERE keep(k) AND g = 3 ORDER BY k'),
	('SELECT g, k, v FROM p WHERE keep(k) AND g = 3 AND k > 6000'),
	('SELECT g, k FROM p WHERE keep(k) ORDER BY g, k DESC'),
	('SELECT g, k FROM p WHERE keep(k) ORDER BY g DESC, k'),
	('SELECT t, g FROM p WHERE keep(g + 1) AND t > lpad(''5000'', 200, ''x'') ORDER BY t'),
	('SELECT t, v FROM p WHERE keep(k) AND t <= lpad(''6000'', 200, ''x'') ORDER BY t DESC'),
	-- NULLs.
	('SELECT n, k FROM p WHERE keep(k) AND n IS NULL'),
	('SELECT n, k FROM p WHERE keep(k) AND n IS NOT NULL'),
	('SELECT n, k, v FROM p WHERE keep(k) AND n < 2000'),
	('SELECT n, v FROM p WHERE keep(k) AND n > 2000 ORDER BY n DESC'),
	('SELECT n FROM p WHERE keep(k) ORDER BY n DESC'),
	('SELECT n FROM p WHERE keep(k) ORDER BY n NULLS FIRST'),
	-- No match.
	('SELECT k FROM p WHERE keep(k) AND k < 0'),
	('SELECT k, v FROM p WHERE keep(k) AND k > 12000 ORDER BY k DESC'),
	('SELECT k, v FROM p WHERE keep(k) AND k > 7000 AND k < 6000'),
	('SELECT k, v FROM p WHERE keep(k) AND k > 0 AND v < 0'),
	('SELECT k, v FROM p WHERE keep(k) AND k > (SELECT NULL::int)'),
	('SELECT k, v FROM p WHERE keep(k) AND g = 2 AND g = (SELECT 3)'),
	-- Arrays: one element's matches on many leaves; many elements on a leaf; none; two arrays; one that is known late.
	('SELECT g, k, v FROM p WHERE keep(k) AND g = ANY (''{4,-1,0,2,2,NULL,77}'')'),
	('SELECT g FROM p WHERE keep(k) AND g = ANY (''{4,1,0}'') ORDER BY g'),
	('SELECT g FROM p WHERE keep(k) AND g = ANY (''{4,1,0}'') ORDER BY g DESC'),
	('SELECT k, v FROM p WHERE keep(k) AND k = ANY (''{11000,3,4,5,20000,-7,6,12000,1,7000,7001,7001}'')'),
	('SELECT k FROM p WHERE keep(k) AND k = ANY ((SELECT array_agg(i) FROM generate_series(-50, 13000, 3) i)::int[])'),
	('SELECT k FROM p WHERE keep(k) AND k = ANY ((SELECT array_agg(i) FROM generate_series(13000, 14000) i)::int[])'),
	('SELECT k FROM p WHERE keep(k) AND k = ANY ((SELECT NULL::int[])::int[])'),
	('SELECT k, v FROM p WHERE keep(k) AND k = ANY ((SELECT ''{NULL,NULL}''::int[])::int[])'),
	('SELECT g, k FROM p WHERE keep(k) AND g = ANY (''{0,3,9}'') AND k = ANY ((SELECT array_agg(i) FROM generate_series(0, 13000, 4) i)::int[])'),
	('SELECT g, k FROM p WHERE keep(k) AND g = ANY (''{0,1,2}'') AND k < ANY (''{100,6000}'')'),
	-- Small indexes.
	('SELECT k, v FROM one WHERE keep(k) AND k > 0'),
	('SELECT k FROM one WHERE keep(k) AND k < 9 ORDER BY k DESC'),
	('SELECT k FROM one WHERE keep(k) AND k = ANY (''{1,3,8,11}'')'),
	('SELECT k, v FROM one WHERE keep(k) AND k > 10'),
	('SELECT k, v FROM none WHERE keep(k) AND k > 0'),
	('SELECT k FROM none WHERE keep(k) ORDER BY k DESC'),
	('SELECT k FROM none WHERE keep(k) AND k = ANY (''{1,3,8,11}'')');
-- Long arrays.
INSERT INTO queries (q) SELECT format('SELECT k, v FROM %s k = ANY (%L)%s', cond, a, ending) FROM (SELECT array_agg(i) AS a FROM generate_series(-50, 13000, 17) i) x,
	(VALUES ('p WHERE keep(k) AND', ''), ('p WHERE keep(k) AND g < 3 AND', ''), ('p WHERE keep(k) AND', ' ORDER BY k'), ('p WHERE keep(k) AND', ' ORDER BY k DESC'), ('one WHERE keep(k) AND', '')) y(cond, ending);
SELECT nodes(q) AS plan, check_rows(q), left(q, 80) AS q FROM queries ORDER BY id;

-- Processes that dwell on their rows, so that all of them come to have turns.
CREATE FUNCTION dwell(i int) RETURNS bool PARALLEL SAFE COST 1000000 LANGUAGE plpgsql AS $$
BEGIN
	IF i % 40 = 0 THEN PERFORM pg_sleep(0.001); END IF;
	RETURN true;
END $$;
SELECT nodes(q) AS plan, check_rows(q) FROM unnest(ARRAY[
	'SELECT k FROM p WHERE dwell(k)',
	'SELECT k, v FROM p WHERE dwell(k) ORDER BY k',
	'SELECT k, v FROM p WHERE dwell(k) AND k < 9000 ORDER BY k DESC',
	'SELECT g, k FROM p WHERE dwell(k) AND g = ANY (''{1,3,8}'')',
	'SELECT g, k FROM p WHERE dwell(k) AND g = ANY (''{0,1,2,3,4}'') AND g > 1',
	'SELECT g FROM p WHERE dwell(k) AND g = ANY (''{0,1,4}'') ORDER BY g DESC',
	'SELECT g, k FROM p WHERE dwell(k) AND g = ANY (''{0,1,2,3,4,5,6}'') AND k = ANY ((SELECT array_agg(i) FROM generate_series(0, 13000, 10) i)::int[])',
	'SELECT * FROM (SELECT g, count(*), sum(k) FROM p WHERE dwell(k) AND g = ANY (''{0,3}'') GROUP BY g) s RIGHT JOIN (VALUES (1), (2)) w(x) ON true']) q;

-- Aggregates that workers begin.
EXPLAIN (COSTS OFF) SELECT count(*), sum(k) FROM p WHERE k > 400;
SELECT count(*), sum(k) FROM p WHERE k > 400;
SELECT g, count(*), sum(v) FROM p WHERE g > 1 GROUP BY g ORDER BY g;

-- Below and beside others: the inner side of each worker's nested loop stays serial.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT nodes(q) AS plan, check_rows(q) FROM (SELECT 'SELECT p.k, r.v FROM p JOIN p r ON r.k = p.v WHERE p.k > 8000' AS q) x;
SET enable_mergejoin = on;
SET enable_nestloop = off;
SELECT nodes(q) AS plan, check_rows(q) FROM (SELECT 'SELECT p.k, r.v FROM p JOIN p r ON r.k = p.k WHERE p.v < 50' AS q) x;
RESET enable_nestloop;
RESET enable_hashjoin;
-- Only the heap part of a bitmap scan is parallel.
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(v) FROM p WHERE k BETWEEN 1000 AND 8000;
SELECT count(*), sum(v) FROM p WHERE k BETWEEN 1000 AND 8000;
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;

-- LIMIT ends scans early, of workers too.
SELECT nodes(q) AS plan, check_rows(q) FROM unnest(ARRAY[
	'SELECT k, v FROM p WHERE keep(k) AND k > 100 AND v % 10 = 3 ORDER BY k LIMIT 5',
	'SELECT k, v FROM p WHERE keep(k) AND k > 100 AND v % 10 = 3 ORDER BY k DESC LIMIT 5']) q;
SELECT count(*) FROM (SELECT k FROM p WHERE k > 100 LIMIT 1000) x;

-- The same scan several times, to its end and not.
SELECT nodes(q) AS plan, check_rows(q) FROM unnest(ARRAY[
	'SELECT * FROM (SELECT count(*), sum(k) FROM p WHERE k > 700) s RIGHT JOIN (VALUES (1), (2), (3), (4)) w(x) ON true',
	'SELECT * FROM (SELECT g, count(v) FROM p WHERE g = ANY (''{0,1,3}'') GROUP BY g) s RIGHT JOIN (VALUES (1), (2), (3)) w(x) ON true',
	(SELECT format('SELECT * FROM (SELECT count(v), sum(k) FROM p WHERE k = ANY (%L)) s RIGHT JOIN (VALUES (1), (2), (3)) w(x) ON true', array_agg(i)) FROM generate_series(-50, 13000, 17) i),
	'SELECT x, count(*), sum(k) FROM (SELECT k, v FROM p WHERE k > 10 AND v % 3 = 1 ORDER BY k DESC LIMIT 1000) s RIGHT JOIN (VALUES (1), (2), (3), (4)) w(x) ON true GROUP BY x ORDER BY x']) q;

-- A prepared statement, whose parameter the workers get.
PREPARE above(int) AS SELECT count(*), min(k) FROM p WHERE k > $1 AND v >= 0;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE above(100);
EXECUTE above(100);
EXECUTE above(11990);
EXECUTE above(NULL);
RESET plan_cache_mode;
DEALLOCATE above;

-- Nothing that a statement of the transaction has inserted is queued any more when workers start: after a load, after one in a
-- subtransaction, and in a function called by a load under way, whose own rows are not visible to it or are.
SET mtpower.batching = on;
SELECT nodes(q) FROM unnest(ARRAY['SELECT count(*), sum(v) FROM p WHERE k > 0 AND k + 0 > 100000', 'SELECT count(*) FROM p WHERE g = ANY (''{0,7,8}'')', 'SELECT k FROM p WHERE k > 0 AND k + 0 > 102995 ORDER BY k DESC',
	'SELECT count(*) FROM p WHERE k > 0 AND k + 0 > 300000']) q;
BEGIN;
COPY p (k, g, v) FROM PROGRAM 'seq -f "%.0f	7	1" 100001 103000';
SELECT count(*), sum(v) FROM p WHERE k > 0 AND k + 0 > 100000;
SAVEPOINT s;
COPY p (k, g, v) FROM PROGRAM 'seq -f "%.0f	8	1" 200001 203000';
SELECT count(*), sum(v) FROM p WHERE k > 0 AND k + 0 > 100000;
SELECT count(*) FROM p WHERE g = ANY ('{0,7,8}');
ROLLBACK TO s;
SELECT count(*), sum(v) FROM p WHERE k > 0 AND k + 0 > 100000;
SELECT k FROM p WHERE k > 0 AND k + 0 > 102995 ORDER BY k DESC;
COMMIT;
CREATE FUNCTION own_rows() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM p WHERE k > 0 AND k + 0 > 300000' INTO n;
	RETURN n;
END $$;
CREATE FUNCTION own_rows_volatile() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM p WHERE k > 0 AND k + 0 > 300000' INTO n;
	RETURN n;
END $$;
CREATE TEMP TABLE seen (i int, stable bigint, volatile bigint);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.k % 1000 = 0 THEN INSERT INTO seen VALUES (NEW.k, own_rows(), own_rows_volatile()); END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER look AFTER INSERT ON p FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO p (k, g, v, t) SELECT 300000 + i, 9, 1, CASE WHEN i % 1000 = 500 THEN own_rows() || ' ' || own_rows_volatile() END FROM generate_series(1, 3000) i;
SELECT k, t FROM p WHERE k > 300000 AND t IS NOT NULL ORDER BY k;
SELECT * FROM seen ORDER BY i;
RESET mtpower.batching;

-- Rows that are gone, leaves without any, then pages that VACUUM has taken out.
DROP TRIGGER look ON p;
DELETE FROM p WHERE k BETWEEN 2000 AND 7000 OR k % 2 = 0;
SELECT string_agg(check_rows(q), ' ' ORDER BY id) FROM queries WHERE q ~ 'ORDER BY|n IS';
VACUUM p;
SELECT count(*) > 0 AS deleted FROM generate_series(1, pg_relation_size('p_k') / current_setting('block_size')::int - 1) b, mtpower.page_info('p_k', b) i WHERE i.type = 'deleted';
SELECT string_agg(check_rows(q), ' ' ORDER BY id) FROM queries WHERE q ~ 'ORDER BY|n IS';
SELECT verify('p');

-- Serializable transactions: all processes' reads count as the transaction's.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM p WHERE k > 10;
SELECT relation::regclass, locktype FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid() AND relation IN ('p_k'::regclass, 'p_g'::regclass);
COMMIT;

-- An error in one of the processes ends them all.
CREATE FUNCTION fails(i int) RETURNS bool PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN RETURN 1 / (i - 9001) IS NOT NULL; END $$;
\set VERBOSITY terse
SELECT count(*) FROM p WHERE k > 0 AND fails(k);
SET parallel_leader_participation = off;
SELECT count(*) FROM p WHERE k > 0 AND fails(k);
SELECT count(*) FROM p WHERE k > 0;
SET client_min_messages = warning;
DROP SCHEMA blink_parallel CASCADE;
