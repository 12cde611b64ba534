-- Which index the planner takes where a hash and a B-link tree are on the same columns: the one that was measured to be faster (src/hash/README.md).
-- Statistics are made of all rows, and so are always the same.
CREATE SCHEMA hash_costs;
SET search_path = hash_costs, public;
SET default_statistics_target = 1000;
SET max_parallel_workers_per_gather = 0;

-- Columns with one row, 10, 100, 1000 and more rows per key, anywhere in the table (k) or together (s); one of which 30 % are one key; text.
CREATE TABLE t (d int, s1 int, s10 int, s1000 int, s20000 int, k1 int, k10 int, k100 int, k1000 int, skew int, tx text COLLATE "C", e int) USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, g, g / 10, g / 1000, g / 20000, k, k / 10, k / 100, k / 1000, CASE WHEN k < 30000 THEN -1 ELSE k END, 'key ' || k, g
FROM (SELECT g, (g::bigint * 7919 % 100003)::int AS k FROM generate_series(1, 100000) g) x;
CREATE TABLE l (d int, a text COLLATE "C") USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO l SELECT g, repeat('a long text ', 25) || g * 7919 % 10007 FROM generate_series(1, 10000) g;
SELECT format('CREATE INDEX t_%s_%s ON t USING mtpower_%s (%1$s)', c, am, am) FROM unnest('{s1,s10,s1000,s20000,k1,k10,k100,k1000,skew,tx}'::text[]) c, unnest('{hash,blink}'::text[]) am \gexec
CREATE INDEX t_two_hash ON t USING mtpower_hash (k100, k10);
CREATE INDEX t_two_blink ON t USING mtpower_blink (k100, k10);
CREATE INDEX t_three_hash ON t USING mtpower_hash (k1000, k100, e);
CREATE INDEX t_three_blink ON t USING mtpower_blink (k1000, k100, e);
CREATE INDEX l_a_hash ON l USING mtpower_hash (a);
CREATE INDEX l_a_blink ON l USING mtpower_blink (a);
VACUUM ANALYZE t;
VACUUM ANALYZE l;
CREATE TABLE p AS SELECT k1 AS k, tx, k100, k10, s20000 FROM t WHERE d <= 2000;
ANALYZE p;

-- The scans in a plan and what they use, without those of p.
CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	scan text[];
	scans text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		scan := regexp_match(line, '(Bitmap Index|Index Only|Index|Seq) Scan(?: using (\w+))? on (\w+)');
		IF scan[3] <> 'p' THEN
			scans := scans || concat_ws(' ', coalesce(scan[2], scan[3]) || ':', lower(scan[1]));
		END IF;
	END LOOP;
	RETURN array_to_string(scans, ', ');
END $$;
-- The pages of its index that a bitmap scan reads.
CREATE FUNCTION pages(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	plan := plan #> '{0,Plan,Plans,0}';
	RETURN (plan ->> 'Shared Hit Blocks')::int + (plan ->> 'Shared Read Blocks')::int;
END $$;

-- Equality: few rows per key are faster by the hash, many by the tree, whose rows need no recheck.
SELECT clause, plan('SELECT d FROM t WHERE ' || clause) FROM unnest(ARRAY['k1 = 77', 'k1 = -77', 'k1 = 77::int8', 'k10 = 77', 'k1000 = 77', 's1 = 77', 's10 = 77', 's1000 = 77', 's20000 = 2',
	'skew = 33333', 'skew = -1', 'tx = ''key 77''', 'tx = ''no key''', 'k100 = 7 AND k10 = 77', 'k1000 = 77 AND k100 = 777 AND e = 77', 'k1 = (SELECT 77)']) clause;
SELECT plan('SELECT d FROM l WHERE a = ' || quote_literal((SELECT a FROM l WHERE d = 77))), plan('SELECT d FROM l WHERE a = ''no long text''');
-- By each kind of scan.
SET enable_bitmapscan = off;
SELECT clause, plan('SELECT d FROM t WHERE ' || clause) FROM unnest(ARRAY['k1 = 77', 'k10 = 77', 's10 = 77', 's1000 = 77', 's20000 = 2', 'skew = 33333', 'tx = ''key 77''']) clause;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SELECT clause, plan('SELECT d FROM t WHERE ' || clause) FROM unnest(ARRAY['k1 = 77', 'k10 = 77', 's10 = 77', 's1000 = 77', 's20000 = 2', 'skew = 33333', 'tx = ''key 77''']) clause;
SET enable_seqscan = off;
-- Pages of the index that are read, by the hash and by the tree.
CREATE FUNCTION index_pages(clause text, OUT hash int, OUT blink int) LANGUAGE plpgsql AS $$
BEGIN
	UPDATE pg_index SET indisvalid = false FROM pg_class c WHERE c.oid = indexrelid AND indrelid = 't'::regclass AND relname ~ 'blink$';
	hash := pages('SELECT d FROM t WHERE ' || clause);
	UPDATE pg_index SET indisvalid = NOT indisvalid WHERE indrelid = 't'::regclass;
	blink := pages('SELECT d FROM t WHERE ' || clause);
	UPDATE pg_index SET indisvalid = true WHERE indrelid = 't'::regclass;
END $$;
SELECT clause, hash, hash < blink AS fewer FROM unnest(ARRAY['k1 = 77', 'k1 = -77', 'k10 = 77', 's1000 = 77', 'skew = 33333', 'skew = -1', 'tx = ''key 77''', 'k100 = 7 AND k10 = 77', 'k1000 = 77 AND k100 = 777 AND e = 77',
	'k1 = ANY (''{7,77,777,7777}'')']) clause, index_pages(clause);
RESET enable_seqscan;
RESET enable_indexscan;

-- Lists and arrays; with one that is not known, the tree.
SELECT n, plan(format('SELECT d FROM t WHERE k1 = ANY (%L)', array_agg(g * 77))), plan(format('SELECT d FROM t WHERE k1 IN (%s)', string_agg((g * 77)::text, ',')))
FROM unnest('{2,10,100}'::int[]) n, generate_series(1, n) g GROUP BY n ORDER BY n;
SELECT plan('SELECT d FROM t WHERE k1 = ANY (ARRAY[1, 2, (SELECT 3)])'), plan('SELECT d FROM t WHERE k1 = ANY ((SELECT array_agg(k) FROM p)::int[])');
PREPARE of_array(int[]) AS SELECT d FROM t WHERE k1 = ANY ($1);
SET plan_cache_mode = force_generic_plan;
SELECT plan('EXECUTE of_array(''{1,2,3}'')');
SET plan_cache_mode = force_custom_plan;
SELECT plan('EXECUTE of_array(''{1,2,3}'')');
RESET plan_cache_mode;
SELECT clause, plan('SELECT d FROM t WHERE ' || clause) FROM unnest(ARRAY['k1 = 77 OR k10 = 77', 'k1 = 77 OR s1000 = 77']) clause;

-- Joins by nested loops.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT clause, plan('SELECT d FROM p JOIN t ON ' || clause), plan('SELECT d FROM p LEFT JOIN t ON ' || clause)
FROM unnest(ARRAY['t.k1 = k', 't.tx = p.tx', 't.k100 = p.k100 AND t.k10 = p.k10', 't.s20000 = p.s20000']) clause;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- The first row; the index alone; whatever is not equality.
SELECT clause, plan('SELECT d FROM t WHERE ' || clause || ' LIMIT 1') FROM unnest(ARRAY['k1 = 77', 'k10 = 77', 'k100 = 77', 'tx = ''key 77''']) clause;
SELECT plan('SELECT k1 FROM t WHERE k1 = 77'), plan('SELECT count(*) FROM t WHERE s1000 = 77'), plan('SELECT d FROM t WHERE k1 < 77'), plan('SELECT d FROM t WHERE k1 > 77 ORDER BY k1 LIMIT 1'), plan('SELECT d FROM t WHERE tx IS NULL');

-- Without a clause on every column, a hash is taken only where there is no other path at all, and a disabled one is another.
CREATE TABLE w (a int, b int, c int) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT g % 1000, g % 7, g FROM generate_series(1, 20000) g;
CREATE INDEX w_ab ON w USING mtpower_hash (a, b);
CREATE INDEX w_c ON w USING mtpower_hash (c);
VACUUM ANALYZE w;
CREATE FUNCTION each_way(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0 .. 14 BY 2 LOOP
		PERFORM set_config('enable_seqscan', (i & 1 = 0)::text, true), set_config('enable_indexscan', (i & 2 = 0)::text, true), set_config('enable_bitmapscan', (i & 4 = 0)::text, true),
			set_config('enable_nestloop', (i & 8 = 0)::text, true), set_config('enable_hashjoin', (i & 8 = 0)::text, true), set_config('enable_mergejoin', (i & 8 = 0)::text, true);
		RETURN NEXT plan(query);
	END LOOP;
END $$;
SELECT each_way, count(*) FROM each_way('SELECT c FROM w WHERE a = 77') GROUP BY 1;
SELECT each_way, count(*) FROM each_way('SELECT w.c FROM w JOIN p ON w.a = p.k') GROUP BY 1;
SELECT each_way, count(*) FROM each_way('SELECT w.c FROM w WHERE EXISTS (SELECT FROM p WHERE w.a = p.k)') GROUP BY 1;
SELECT each_way ~ 'w_ab', count(*) FROM each_way('SELECT c FROM w WHERE a = 77 AND c = 5077') GROUP BY 1;
SELECT each_way ~ 'w_ab', count(*) FROM each_way('SELECT c FROM w WHERE a = 77 OR c = 5077') GROUP BY 1;
SELECT plan('SELECT c FROM w WHERE a = 77 AND b = 0');

-- In the middle of a level the buckets that are still to be split have a stash: it is met so seldom that the hash stays faster.
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
CREATE TABLE m (a int, d int) USING mtpower WITH (autovacuum_enabled = off);
CREATE INDEX m_hash ON m USING mtpower_hash (a) WITH (initial_buckets = 64);
CREATE INDEX m_blink ON m USING mtpower_blink (a);
COPY m FROM PROGRAM 'seq -f "%.0f	1" 1 52000';
ANALYZE m;
SELECT flags[1] AS n, flags[2] AS p0, flags[6] AS b FROM mtpower.page_info('m_hash', 0);
SELECT count(*) > 20 AS stash_pages FROM generate_series(0, pg_relation_size('m_hash') / 8192 - 1) b, mtpower.page_info('m_hash', b) WHERE type = 'stash';
SELECT plan('SELECT d FROM m WHERE a = 77'), plan('SELECT d FROM m WHERE a = -77');
-- Where growth was kept from its buckets, by a cursor, the stash is long and is met always: the tree is faster, until the index has grown.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE n (a int, d int) USING mtpower WITH (autovacuum_enabled = off);
CREATE INDEX n_hash ON n USING mtpower_hash (a) WITH (initial_buckets = 1);
CREATE INDEX n_blink ON n USING mtpower_blink (a);
INSERT INTO n VALUES (5, 1), (5, 2), (6, 3);
ANALYZE n;
SELECT plan('SELECT d FROM n WHERE a = 5');
BEGIN;
DECLARE c CURSOR FOR SELECT d FROM n WHERE a = 5;
FETCH c;
COPY n FROM PROGRAM 'seq -f "%.0f	1" 7 50000';
ANALYZE n;
SELECT flags[6] AS b FROM mtpower.page_info('n_hash', 0);
SELECT plan('SELECT d FROM n WHERE a = 77');
COMMIT;
REINDEX INDEX n_hash;
SELECT plan('SELECT d FROM n WHERE a = 77');
RESET enable_seqscan;
RESET enable_bitmapscan;

SET client_min_messages = warning;
DROP SCHEMA hash_costs CASCADE;
