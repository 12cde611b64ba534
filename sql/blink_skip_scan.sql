-- Scans of mtpower_blink that lack a condition on the first columns, or have arrays: since PostgreSQL 17 the arrays of = ANY are advanced on
-- the leaf, since 18 so are skip arrays.  Results are those of a sequential scan, in each release; 18 tells the searches.
CREATE SCHEMA blink_skip_scan;
SET search_path = blink_skip_scan, public;
SET jit = off;
CREATE TABLE s (a int, b int, c int, t text COLLATE "C", e int) WITH (autovacuum_enabled = off);
INSERT INTO s SELECT nullif(i % 12, 11), i / 12, i % 997, nullif('x' || i % 7, 'x6'), CASE WHEN i % 3 > 0 THEN i % 5 END FROM generate_series(1, 24000) i;
CREATE INDEX s_abc ON s USING mtpower_blink (a, b, c);
CREATE INDEX s_tb ON s USING mtpower_blink (t DESC NULLS LAST, b DESC);
CREATE INDEX s_ec ON s USING mtpower_blink (e NULLS FIRST, c) INCLUDE (b);
VACUUM ANALYZE s;

-- The rows that a condition has by an index, in the index's order and against it, beside those of a sequential scan.
CREATE FUNCTION rows_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || md5(coalesce(string_agg(q::text, '' ''), '''')) FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION check_scan(cols text, cond text, forward text, backward text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	want text;
	got text;
BEGIN
	FOREACH query IN ARRAY ARRAY[forward, backward] LOOP
		query := format('SELECT %s FROM s WHERE %s ORDER BY %s', cols, cond, query);
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_sort', 'on', true);
		want := rows_of(query);
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_sort', 'off', true);
		got := rows_of(query);
		IF got <> want THEN RETURN format('%s: %s instead of %s', query, got, want); END IF;
		PERFORM set_config('enable_indexonlyscan', 'on', true);
		got := rows_of(query);
		IF got <> want THEN RETURN format('%s, index-only: %s instead of %s', query, got, want); END IF;
	END LOOP;
	RETURN split_part(want, ' ', 1);
END $$;
SELECT cond, check_scan('a, b, c', cond, 'a, b, c', 'a DESC, b DESC, c DESC') FROM unnest(ARRAY[
	'b = 77', 'b = 77 AND c > 500', 'b BETWEEN 1000 AND 1003', 'b > 1997', 'b < 3', 'c = 5', 'b = ANY (''{5,77,1999,4000,NULL}'')', 'b IS NULL',
	'a > 3 AND b = 77', 'a >= 3 AND a < 9 AND b = 1500 AND c > 100', 'a IS NULL AND b = ANY (''{1,2,3}'')', 'a IS NOT NULL AND b = 3', 'a < 4 AND c = 11',
	'a = ANY (''{0,3,3,NULL,10,99}'')', 'a = ANY (''{2,4}'') AND b = ANY (''{10,20,30,1000}'')', 'a = ANY (''{2,4}'') AND c = 7', 'a = ANY (''{2,4}'') AND b > 1990',
	'a <> 5 AND b = 20', 'a = 3 AND c = 4', 'a = ANY (''{}''::int[]) AND b = 1', 'a > 20 AND b = 3', 'b = 77 AND b = 78', 'a > 8 AND a = ANY (''{7,8,9,10}'') AND b < 4']) cond;
SELECT cond, check_scan('t, b', cond, 't DESC NULLS LAST, b DESC', 't NULLS FIRST, b') FROM unnest(ARRAY[
	'b = 77', 'b BETWEEN 10 AND 12', 't > ''x3'' AND b = 5', 't <= ''x3'' AND b = 5', 't = ANY (''{x1,x4,y,NULL}'') AND b > 1995', 't IS NULL AND b = 9', 'b > 1998']) cond;
SELECT cond, check_scan('e, c, b', cond, 'e NULLS FIRST, c', 'e DESC NULLS LAST, c DESC') FROM unnest(ARRAY['c = 996 AND b < 100', 'e IS NOT NULL AND c = 996 AND b < 90']) cond;

-- 18 makes few searches of it, and reads few pages.
CREATE FUNCTION searches(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Index Searches: ' THEN RETURN substring(line FROM '\d+'); END IF;
	END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT cond, current_setting('server_version_num')::int < 180000 OR searches('SELECT * FROM s WHERE ' || cond) BETWEEN 2 AND most AS skips
FROM (VALUES ('b = 77', 30), ('b = 77 AND c > 500', 30), ('a > 3 AND b = 77', 20), ('t > ''x3'' AND b = 5', 10), ('a = ANY (''{2,4}'') AND b = ANY (''{10,1000}'')', 5)) x (cond, most);
-- A dense array takes one search; each release gives the rows in the index's order.
SELECT current_setting('server_version_num')::int < 180000 OR searches('SELECT * FROM s WHERE a = 3 AND b = ANY (ARRAY(SELECT generate_series(1, 200)))') < 4 AS one_walk;
EXPLAIN (COSTS OFF) SELECT a, b FROM s WHERE a = 3 AND b = ANY ('{5,6,7}') ORDER BY b LIMIT 2;

-- A merge join goes back to its mark, some leaves before, where its array stood at an earlier element.
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT n, count(s.a) FROM (SELECT g / 2 AS n FROM generate_series(0, 21) g) twice LEFT JOIN s ON a = n AND a = ANY ('{1,2,3,9}') GROUP BY n;
SELECT n, count(s.a) FROM (SELECT g / 2 AS n FROM generate_series(0, 21) g) twice LEFT JOIN s ON a = n AND a = ANY ('{1,2,3,9}') GROUP BY n ORDER BY n;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;

-- Cursors that turn round, and stand between searches.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, b FROM s WHERE a = ANY ('{1,5,9}') AND b = ANY ('{3,700,1500}') ORDER BY a, b;
FETCH 4 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH FORWARD 2 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
COMMIT;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, b FROM s WHERE b = 700 AND a > 2 ORDER BY a;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD ALL FROM c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD 1 FROM c;
COMMIT;

-- A merge join goes back to marks among equal keys.
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
SET enable_material = off;
CREATE TABLE m AS SELECT g % 13 AS a FROM generate_series(1, 60) g;
CREATE INDEX m_a ON m USING mtpower_blink (a);
VACUUM ANALYZE m;
EXPLAIN (COSTS OFF) SELECT count(*) FROM m JOIN s ON s.a = m.a AND s.b = ANY ('{3,700,1500}');
SELECT count(*), sum(s.b), sum(s.c) FROM m JOIN s ON s.a = m.a AND s.b = ANY ('{3,700,1500}');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;
RESET enable_material;
SELECT count(*), sum(s.b), sum(s.c) FROM m JOIN s ON s.a = m.a AND s.b + 0 = ANY ('{3,700,1500}');

-- Parallel scans share the turn, and the arrays.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 3;
SET enable_indexonlyscan = off;
SELECT count(*), sum(b), sum(c) FROM s WHERE a = ANY ('{0,2,4,6,8}') AND b = ANY (ARRAY(SELECT generate_series(1, 1900, 3)));
SELECT count(*), sum(b), sum(c) FROM s WHERE b BETWEEN 10 AND 1500 AND a > 1 AND c >= 0;
SET max_parallel_workers_per_gather = 0;
SET enable_indexscan = off;
SET enable_seqscan = on;
SELECT count(*), sum(b), sum(c) FROM s WHERE a = ANY ('{0,2,4,6,8}') AND b = ANY (ARRAY(SELECT generate_series(1, 1900, 3)));
SELECT count(*), sum(b), sum(c) FROM s WHERE b BETWEEN 10 AND 1500 AND a > 1 AND c >= 0;
DROP SCHEMA blink_skip_scan CASCADE;
