-- Scans of mtpower_blink, kind by kind.  Random ones are in blink_scan_random.
CREATE SCHEMA blink_scan;
SET search_path = blink_scan, public;
SET enable_seqscan = off;
SET jit = off;  -- forbidden plans look expensive
SET enable_material = off;
SET enable_memoize = off;

-- Runs a query by a sequential scan; by an index scan, an index-only scan and a bitmap scan as far as there are
-- plans; tells the kinds that were used, the number of rows, and whether all results are the same.
CREATE FUNCTION same(query text, OUT kinds text, OUT nrows bigint, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	sums text[];
	sum text;
	line text;
	kind text;
	patterns text[] := '{Index Scan Backward|Index Scan,Index Only Scan Backward|Index Only Scan,Bitmap Index Scan}';
BEGIN
	kinds := '';
	FOR i IN 0 .. 3 LOOP
		PERFORM set_config('enable_seqscan', (i = 0)::text, true), set_config('enable_indexscan', (i IN (1, 2))::text, true),
			set_config('enable_indexonlyscan', (i = 2)::text, true), set_config('enable_bitmapscan', (i = 3)::text, true);
		IF i > 0 THEN
			kind := NULL;
			FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
				kind := coalesce(kind, substring(line FROM patterns[i]));
			END LOOP;
			CONTINUE WHEN kind IS NULL;
			kinds := kinds || ', ' || lower(kind);
		END IF;
		EXECUTE format('SELECT count(*), md5(string_agg(q::text, '';'' %s)) FROM (%s) q',
			CASE WHEN query ~ 'ORDER BY' THEN '' ELSE 'ORDER BY q::text' END, query) INTO nrows, sum;
		sums := sums || coalesce(sum, '');
	END LOOP;
	same := (SELECT count(DISTINCT s) = 1 FROM unnest(sums) s);
	kinds := substr(kinds, 3);
END $$;

CREATE TABLE t (id int, a int, b text COLLATE "C", c timestamptz, n numeric);
INSERT INTO t SELECT i, CASE WHEN i % 11 <> 0 THEN i % 500 END, CASE WHEN i % 7 <> 0 THEN md5((i % 50)::text) END,
	'2013-01-01 00:00+00'::timestamptz + i % 1000 * interval '1 h', i % 33 FROM generate_series(1, 20000) i;
CREATE INDEX t_a ON t USING mtpower_blink (a);
CREATE INDEX t_bac ON t USING mtpower_blink (b DESC NULLS LAST, a NULLS FIRST, c) INCLUDE (id);
VACUUM t;

-- The planner takes the index as it would take a btree.
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 5 ORDER BY a;
EXPLAIN (COSTS OFF) SELECT a FROM t WHERE a BETWEEN 3 AND 5 ORDER BY a DESC;
SELECT * FROM explain($$SELECT max(a), min(a) FROM t$$);
EXPLAIN (COSTS OFF) SELECT b, a, c, id FROM t WHERE b > 'c' ORDER BY b DESC NULLS LAST, a NULLS FIRST LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = ANY ('{1,2,3}') AND n < 4;
RESET enable_bitmapscan;
SELECT max(a), min(a) FROM t;
SELECT b, a, c AT TIME ZONE 'UTC' AS c, id FROM t WHERE b > 'c' ORDER BY b DESC NULLS LAST, a NULLS FIRST, c LIMIT 3;

-- Costs do not differ from those of a btree of the same height and size by more than the size does.
CREATE TABLE cost (a int);
INSERT INTO cost SELECT generate_series(1, 300);
CREATE INDEX cost_a ON cost USING mtpower_blink (a);
ANALYZE cost;
EXPLAIN SELECT * FROM cost WHERE a = 5;
DROP INDEX cost_a;
CREATE INDEX cost_a ON cost USING btree (a);
ANALYZE cost;
EXPLAIN SELECT * FROM cost WHERE a = 5;

-- Conditions on the first column.
SELECT * FROM same('SELECT a, id FROM t WHERE a = 77 ORDER BY a, id');
SELECT * FROM same('SELECT a FROM t WHERE a < 77');
SELECT * FROM same('SELECT a FROM t WHERE a <= 77 ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM t WHERE a >= 450 ORDER BY a');
SELECT * FROM same('SELECT a FROM t WHERE a > 450 AND a < 480');
SELECT * FROM same('SELECT a FROM t WHERE a > 480 AND a < 450');
SELECT * FROM same('SELECT a FROM t WHERE a > 450 AND a >= 460 AND a > 440');
SELECT * FROM same('SELECT a FROM t WHERE a = 7 AND a > 6');
SELECT * FROM same('SELECT a FROM t WHERE a IS NULL');
SELECT * FROM same('SELECT a FROM t WHERE a IS NOT NULL ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM t WHERE a IS NULL AND a > 3');
SELECT * FROM same('SELECT a FROM t WHERE a > NULL');
SELECT * FROM same('SELECT a FROM t ORDER BY a');
SELECT * FROM same('SELECT a FROM t ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM t WHERE a = -1');
SELECT * FROM same('SELECT a FROM t WHERE a = 500 OR a = 3');

-- Types that differ from the column's, in and out of its range.
SELECT * FROM same('SELECT a FROM t WHERE a = 77::int2');
SELECT * FROM same('SELECT a FROM t WHERE a > 480::int8 ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM t WHERE a = 4294967373::int8');
SELECT * FROM same('SELECT a FROM t WHERE a < 4294967300::int8');
SELECT * FROM same('SELECT a FROM t WHERE a > 4294967300::int8 ORDER BY a');
SELECT * FROM same('SELECT a FROM t WHERE a >= (-9223372036854775808)::int8 AND a < 3 ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM t WHERE a > 3::int8 AND a > 5::int2 AND a < 9');
SELECT nrows, same FROM same('SELECT a FROM t WHERE a = 3::int8 AND a = 3::int2 AND a = 4');
SELECT * FROM same('SELECT a FROM t WHERE a = ANY (''{4294967373,77,-9223372036854775808}''::int8[])');

-- Several columns: prefixes, gaps, DESC and NULLS LAST.
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = md5(''3'')');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = md5(''3'') AND a > 100 ORDER BY b, a DESC, c DESC, id DESC');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = md5(''3'') AND a IS NULL');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b >= ''c'' AND a = 3 AND c < ''2013-01-20''');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b < ''c'' AND a <= 30');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b IS NULL AND a = 14');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b IS NOT NULL AND a = 14');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b IS NULL AND a IS NULL AND c > ''2013-02-01''');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = md5(''3'') AND c = ''2013-01-01 03:00+00''');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = md5(''3'') AND a = 303 AND c = ''2013-01-13''::date');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE c = ''2013-01-01 03:00+00'' AND b >= ''''');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = ANY (ARRAY[md5(''3''), NULL, md5(''4''), md5(''3'')]) AND a = ANY (''{303,NULL,4,4,-1}'')');
SELECT * FROM same('SELECT b, a, c, id FROM t WHERE b = ANY (ARRAY[md5(''3''), md5(''4'')]) ORDER BY b, a DESC, c DESC, id DESC');
SELECT * FROM same('SELECT b, a FROM t WHERE b < ANY (ARRAY[md5(''3''), NULL]) AND a >= ANY (''{490,495}'')');
SELECT * FROM same('SELECT b, a FROM t WHERE b = ANY (ARRAY[NULL]::text[])');
SELECT * FROM same('SELECT b, a FROM t WHERE b = ANY (NULL::text[])');
SELECT * FROM same('SELECT b, a FROM t WHERE b = ANY (''{}''::text[])');
SELECT * FROM same('SELECT a FROM t WHERE a = ANY (ARRAY(SELECT i FROM generate_series(498, 3, -5) i))');
SELECT * FROM same('SELECT id FROM t WHERE (b, a) > (md5(''3''), 100) AND b < ''f''');
SELECT * FROM same('SELECT id FROM t WHERE b LIKE ''c%''');
SELECT * FROM same('SELECT id FROM t WHERE b ~ ''^c9f''');

-- Parameters that change from scan to scan, of two types.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
CREATE TABLE p (x int, y int8);
INSERT INTO p VALUES (3, 4294967299), (NULL, 3), (499, NULL), (3, 3), (-1, -1), (11, 12);
SELECT * FROM explain('SELECT p.x, t.a FROM p LEFT JOIN t ON t.a = p.x');
SELECT p.x, count(t.a) FROM p LEFT JOIN t ON t.a = p.x GROUP BY p.x ORDER BY p.x;
SELECT p.y, count(t.a) FROM p LEFT JOIN t ON t.a = p.y GROUP BY p.y ORDER BY p.y;
SELECT p.x, p.y, (SELECT array_agg(q.a) FROM (SELECT a FROM t WHERE a >= p.x AND a <= p.y ORDER BY a LIMIT 3) q) FROM p ORDER BY 1, 2;
SELECT p.x, p.y, (SELECT array_agg(q.a) FROM (SELECT a FROM t WHERE a >= p.x AND a <= p.y ORDER BY a DESC LIMIT 3) q) FROM p ORDER BY 1, 2;
SELECT p.x, (SELECT count(*) FROM t WHERE a = ANY (ARRAY[p.x, p.x + 1, NULL])) FROM p ORDER BY 1, 2;
RESET enable_bitmapscan;

-- Merge joins mark and restore, on the same page and far behind.
SET enable_mergejoin = on;
SET enable_nestloop = off;
SET enable_sort = off;
CREATE TABLE m (a int, id int);
INSERT INTO m SELECT i / 700, i FROM generate_series(1, 3500) i;
CREATE INDEX m_a ON m USING mtpower_blink (a) INCLUDE (id);
VACUUM ANALYZE m;
EXPLAIN (COSTS OFF) SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a);
SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a);
EXPLAIN (COSTS OFF) SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a) WHERE x.id > 0 AND y.ctid <> '(0,0)';
SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a) WHERE x.id > 0 AND y.ctid <> '(0,0)';
SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a) WHERE y.a = ANY ('{0,1,3}');
SELECT count(*), sum(x.id), sum(y.id) FROM (SELECT * FROM m ORDER BY a DESC) x JOIN (SELECT * FROM m ORDER BY a DESC) y USING (a);
-- Backward, back to marks from the index's left end, too.
EXPLAIN (COSTS OFF) SELECT count(*), sum(x), sum(y) FROM (SELECT x.id AS x, y.id AS y FROM m x JOIN m y USING (a) ORDER BY a DESC) q;
SELECT count(*), sum(x), sum(y) FROM (SELECT x.id AS x, y.id AS y FROM m x JOIN m y USING (a) ORDER BY a DESC) q;
CREATE TABLE few (a int, id int);
INSERT INTO few VALUES (-1, 1), (0, 2), (0, 3), (1, 4), (1, 5), (3, 6), (3, 7), (9, 8);
CREATE INDEX few_a ON few USING mtpower_blink (a) INCLUDE (id);
ANALYZE few;
EXPLAIN (COSTS OFF) SELECT count(*), sum(x.id), sum(y.id) FROM few x LEFT JOIN m y ON x.a = y.a AND y.a = ANY ('{0,NULL,1,3}');
SELECT count(*), sum(x.id), sum(y.id) FROM few x LEFT JOIN m y ON x.a = y.a AND y.a = ANY ('{0,NULL,1,3}');
SELECT count(*), sum(x.id), sum(y.id) FROM few x LEFT JOIN m y ON x.a = y.a AND y.a = ANY ('{0,NULL,1,3}') AND y.ctid <> '(0,0)';
SET enable_hashjoin = on;
SET enable_mergejoin = off;
SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a);
SELECT count(*), sum(x.id), sum(y.id) FROM m x JOIN m y USING (a) WHERE y.a = ANY ('{0,1,3}');
SELECT count(*), sum(x.id), sum(y.id) FROM few x LEFT JOIN m y ON x.a = y.a AND y.a = ANY ('{0,NULL,1,3}');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;
RESET enable_sort;

-- A scrolling cursor that turns round in the middle, at both ends, and with arrays.
SET enable_bitmapscan = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, id FROM m WHERE a > 1 ORDER BY a;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 1 FROM c;
MOVE 690 IN c;
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH LAST FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD 1400 IN c;
FETCH PRIOR FROM c;
FETCH ABSOLUTE 1000 FROM c;
FETCH FIRST FROM c;
FETCH RELATIVE 0 FROM c;
DECLARE d SCROLL CURSOR FOR SELECT a, id FROM m WHERE a = ANY ('{4,2,NULL,2,77}') AND a <> 3 ORDER BY a;
FETCH 1 FROM d;
MOVE 699 IN d;
FETCH 2 FROM d;
FETCH BACKWARD 2 FROM d;
FETCH LAST FROM d;
FETCH NEXT FROM d;
FETCH PRIOR FROM d;
FETCH FIRST FROM d;
FETCH PRIOR FROM d;
FETCH NEXT FROM d;
COMMIT;
RESET enable_bitmapscan;

-- Many equal keys come in the order of their TIDs, whichever leaf they are on.
CREATE TABLE e (a int);
CREATE INDEX e_a ON e USING mtpower_blink (a);
SELECT * FROM same('SELECT a FROM e WHERE a >= 0 ORDER BY a DESC');
INSERT INTO e SELECT 5 FROM generate_series(1, 10000);
INSERT INTO e SELECT i % 3 * 5 FROM generate_series(1, 3000) i;
SELECT * FROM same('SELECT a, ctid FROM e WHERE a = 5 ORDER BY a, ctid');
SET enable_bitmapscan = off;
SELECT count(*), count(*) FILTER (WHERE ctid > prev) FROM (SELECT ctid, lag(ctid) OVER () prev FROM (SELECT ctid FROM e WHERE a = 5) q) r;
SELECT count(*), count(*) FILTER (WHERE ctid > prev) FROM (SELECT ctid, lag(ctid) OVER () prev FROM (SELECT ctid FROM e WHERE a >= 5 AND a < 6 ORDER BY a) q) r;
SELECT count(*), count(*) FILTER (WHERE ctid < prev) FROM (SELECT ctid, lag(ctid) OVER () prev FROM (SELECT ctid FROM e WHERE a >= 5 AND a < 6 ORDER BY a DESC) q) r;
RESET enable_bitmapscan;
DELETE FROM e;
VACUUM e;
SELECT * FROM same('SELECT a FROM e WHERE a >= 0 ORDER BY a DESC');
INSERT INTO e SELECT NULL FROM generate_series(1, 1000);
SELECT * FROM same('SELECT a FROM e WHERE a >= 0 ORDER BY a DESC');
SELECT * FROM same('SELECT a FROM e WHERE a <= 0 ORDER BY a');
SELECT * FROM same('SELECT a FROM e WHERE a IS NULL');

-- Wide keys, expressions, partial indexes, 32 columns, names.
CREATE TABLE w (id int, k text COLLATE "C", v text, nm name COLLATE "C");
INSERT INTO w SELECT i, repeat(md5(i::text), 60), 'Value ' || i % 100, 'name' || i FROM generate_series(1, 400) i;
ALTER TABLE w ALTER k SET STORAGE plain;
CREATE INDEX w_k ON w USING mtpower_blink (k);
CREATE INDEX w_v ON w USING mtpower_blink (lower(v), id) WHERE id % 2 = 0;
CREATE INDEX w_nm ON w USING mtpower_blink (nm);
VACUUM ANALYZE w;
SELECT * FROM same('SELECT k FROM w WHERE k > ''c'' AND k < ''d'' ORDER BY k DESC');
SELECT * FROM same('SELECT id FROM w WHERE k = repeat(md5(''77''), 60)');
SELECT * FROM same('SELECT id FROM w WHERE lower(v) = ''value 6'' AND id % 2 = 0');
SELECT * FROM same('SELECT lower(v), id FROM w WHERE lower(v) >= ''value 6'' AND id % 2 = 0 ORDER BY lower(v) DESC, id DESC');
SELECT * FROM same('SELECT nm FROM w WHERE nm = ''name200''');
SELECT * FROM same('SELECT nm FROM w WHERE nm >= ''name200''::text AND nm < ''name21''');
SELECT 'CREATE TABLE many (' || string_agg('c' || i || ' int', ', ') || ')' AS ddl,
	'INSERT INTO many SELECT ' || string_agg('i / (1 << ' || 16 - i / 2 || ') % 2', ', ') || ' FROM generate_series(0, 999) i' AS dml,
	'CREATE INDEX many_x ON many USING mtpower_blink (' || string_agg('c' || i || CASE WHEN i % 2 = 0 THEN ' DESC' ELSE '' END, ', ') || ')' AS idx,
	'SELECT * FROM many WHERE ' || string_agg('c' || i || ' = ' || CASE i / 2 WHEN 8 THEN 1 WHEN 16 THEN 1 ELSE 0 END, ' AND ') AS query
FROM generate_series(1, 32) i \gset
:ddl;
:dml;
:idx;
VACUUM many;
SELECT (same(:'query')).*;
SELECT * FROM same('SELECT c1, c20, c32 FROM many WHERE c1 = 0 AND c2 = 0 AND c20 = 1 AND c32 = 1');

-- Collations: not C, not deterministic.
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE l (icu text COLLATE "en-x-icu", lc text COLLATE "C.utf8", nd text COLLATE nocase);
INSERT INTO l SELECT w, w, w FROM (SELECT CASE i % 3 WHEN 0 THEN upper(md5(i::text)) WHEN 1 THEN md5(i::text) ELSE 'é' || md5(i::text) END FROM generate_series(1, 1000) i) q(w);
INSERT INTO l VALUES ('Same', 'Same', 'Same'), ('sAME', 'sAME', 'sAME'), ('same', 'same', 'same');
CREATE INDEX l_icu ON l USING mtpower_blink (icu);
CREATE INDEX l_lc ON l USING mtpower_blink (lc DESC);
CREATE INDEX l_nd ON l USING mtpower_blink (nd);
VACUUM l;
SELECT * FROM same('SELECT icu FROM l WHERE icu > ''c'' ORDER BY icu');
SELECT * FROM same('SELECT icu FROM l WHERE icu = ''same''');
SELECT * FROM same('SELECT lc FROM l WHERE lc BETWEEN ''A'' AND ''e'' ORDER BY lc DESC');
SELECT * FROM same('SELECT nd FROM l WHERE nd = ''SAME''');
SELECT * FROM same('SELECT lower(nd COLLATE "C") FROM l WHERE nd >= ''d'' AND nd < ''F''');

-- Temporary and unlogged tables, where scans keep their pins.
CREATE TEMP TABLE tmp AS SELECT i AS a FROM generate_series(1, 3000) i;
CREATE INDEX tmp_a ON tmp USING mtpower_blink (a);
SELECT * FROM same('SELECT a FROM tmp WHERE a > 1000 ORDER BY a DESC');
CREATE UNLOGGED TABLE unl AS SELECT i AS a FROM generate_series(1, 3000) i;
CREATE INDEX unl_a ON unl USING mtpower_blink (a);
SELECT * FROM same('SELECT a FROM unl WHERE a > 1000 ORDER BY a DESC');

-- Rows that are dead get a hint by the first scan that meets them, and later scans leave them out.  A bitmap scan
-- sets no hints, and tells how many items it found.
CREATE FUNCTION items(cond text) RETURNS int LANGUAGE plpgsql SET enable_bitmapscan = on SET enable_indexscan = off AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) SELECT a FROM k WHERE ' || cond INTO plan;
	RETURN (plan->0->'Plan'->'Plans'->0->>'Actual Rows')::numeric;
END $$;
-- Other sessions may be in the way for a while.
CREATE FUNCTION items_after(killer text, cond text, want int) RETURNS int LANGUAGE plpgsql SET enable_bitmapscan = off AS $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		EXECUTE killer;
		EXIT WHEN items(cond) = want;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RETURN items(cond);
END $$;
CREATE TABLE k (a int, b int) WITH (autovacuum_enabled = off);
INSERT INTO k SELECT i, i FROM generate_series(1, 1000) i;
CREATE INDEX k_a ON k USING mtpower_blink (a);
DELETE FROM k WHERE a <= 200 OR a > 800;
SELECT items('a > 0');
-- Index-only scans hold a pin on the page,
SELECT items_after('SELECT count(a) FROM k WHERE a BETWEEN 151 AND 300', 'a BETWEEN 101 AND 300', 150);
SELECT items_after('SELECT a FROM k WHERE a > 900 ORDER BY a DESC', 'a > 850', 50);
-- others do not,
SELECT items_after('SELECT count(b) FROM k WHERE a <= 120', 'a <= 300', 130);
SELECT items_after('SELECT b FROM k WHERE a > 0 ORDER BY a DESC', 'a > 0', 600);
-- and a scan that is over before it has read its page to the end sets them as well.
DELETE FROM k WHERE a BETWEEN 201 AND 210;
SELECT items_after('SELECT b FROM k WHERE a > 0 ORDER BY a LIMIT 1', 'a > 0', 590);
-- If the page was changed meanwhile, they are left to the next scan;
DELETE FROM k WHERE a <= 300;
DO $$
DECLARE
	r record;
BEGIN
	SET LOCAL enable_bitmapscan = off;
	FOR r IN SELECT b FROM k WHERE a BETWEEN 250 AND 302 ORDER BY a LOOP
		INSERT INTO k VALUES (301, 0);
	END LOOP;
END $$;
SELECT items('a < 302');
SELECT items_after('SELECT count(b) FROM k WHERE a < 302', 'a < 302', 3);
-- under a pin, the items are found where they are now.  (Nobody else is in the way of a temporary table, whose scans keep
-- their pins.)
CREATE TEMP TABLE k (a int, b int);
INSERT INTO k SELECT i, i FROM generate_series(1, 300) i;
CREATE INDEX ON k USING mtpower_blink (a);
DELETE FROM k WHERE a BETWEEN 100 AND 199;
DO $$
DECLARE
	r record;
BEGIN
	SET LOCAL enable_bitmapscan = off;
	FOR r IN SELECT b FROM k WHERE a BETWEEN 150 AND 201 ORDER BY a LOOP
		INSERT INTO k SELECT 50, 0 FROM generate_series(1, 5);
	END LOOP;
END $$;
SELECT items('a BETWEEN 100 AND 149'), items('a BETWEEN 150 AND 202');
DROP TABLE pg_temp.k;

-- An order that core's btree does not know: the planner takes the index as unordered.
CREATE FUNCTION mod_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN btint4cmp($1 % 10, $2 % 10); END $$;
CREATE FUNCTION mod_lt(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 % 10 < $2 % 10; END $$;
CREATE FUNCTION mod_le(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 % 10 <= $2 % 10; END $$;
CREATE FUNCTION mod_eq(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 % 10 = $2 % 10; END $$;
CREATE FUNCTION mod_ge(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 % 10 >= $2 % 10; END $$;
CREATE FUNCTION mod_gt(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 % 10 > $2 % 10; END $$;
CREATE OPERATOR %< (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_lt, RESTRICT = scalarltsel);
CREATE OPERATOR %<= (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_le, RESTRICT = scalarlesel);
CREATE OPERATOR %= (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_eq, RESTRICT = eqsel);
CREATE OPERATOR %>= (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_ge, RESTRICT = scalargesel);
CREATE OPERATOR %> (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_gt, RESTRICT = scalargtsel);
CREATE OPERATOR CLASS mod_ops FOR TYPE int USING mtpower_blink AS OPERATOR 1 %<, OPERATOR 2 %<=, OPERATOR 3 %=, OPERATOR 4 %>=, OPERATOR 5 %>,
	FUNCTION 1 mod_cmp(int, int);
CREATE TABLE mod AS SELECT i AS a FROM generate_series(1, 1000) i;
CREATE INDEX mod_a ON mod USING mtpower_blink (a mod_ops DESC);
ANALYZE mod;
SELECT * FROM same('SELECT a FROM mod WHERE a %= 3');
SELECT * FROM same('SELECT a FROM mod WHERE a %> 13');
SELECT * FROM same('SELECT a FROM mod WHERE a %<= 31 AND a %> 0');
-- (also if the first column's statistics are in its order)
DROP INDEX mod_a;
CREATE INDEX mod_a ON mod USING mtpower_blink (a, a mod_ops);
SELECT * FROM same('SELECT a FROM mod WHERE a < 500 AND a %> 13');
SELECT nrows, same FROM same('SELECT a FROM mod ORDER BY a LIMIT 1');

-- Pages that a scan need not read: nulls at its near end, what lies beyond its last match.
CREATE FUNCTION pages(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE query;				-- reads catalogs
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT json) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::int + (plan->0->'Plan'->>'Shared Read Blocks')::int;
END $$;
CREATE TABLE nulls AS SELECT CASE WHEN i % 2 = 0 THEN i / 2 END AS a FROM generate_series(1, 20000) i;
CREATE INDEX nulls_a ON nulls USING mtpower_blink (a);
VACUUM nulls;
SET enable_bitmapscan = off;
SELECT pages('SELECT a FROM nulls WHERE a < 9000') > 15 AS many;
SELECT pages('SELECT a FROM nulls WHERE a > 0 ORDER BY a DESC LIMIT 1') < 6 AS few;
SELECT pages('SELECT a FROM nulls WHERE a < 9000 ORDER BY a DESC LIMIT 1') < 6 AS few;
SELECT pages('SELECT a FROM nulls WHERE a IS NOT NULL ORDER BY a DESC LIMIT 1') < 6 AS few;
SELECT max(p) - min(p) AS more FROM (SELECT pages('SELECT a FROM nulls WHERE a = ' || i) p FROM generate_series(1, 1000) i) q;
SELECT max(p) - min(p) AS more FROM (SELECT pages('SELECT a FROM nulls WHERE a BETWEEN ' || i || ' AND ' || i || ' ORDER BY a') p FROM generate_series(1, 1000) i) q;
DROP INDEX nulls_a;
CREATE INDEX nulls_a ON nulls USING mtpower_blink ((a < 9000), a);
SELECT pages('SELECT a FROM nulls WHERE (a < 9000) > false AND a >= 0 ORDER BY (a < 9000), a LIMIT 1') < 6 AS few;
SELECT pages('SELECT a FROM nulls WHERE (a < 9000) < true AND a <= 20000 ORDER BY (a < 9000) DESC, a DESC LIMIT 1') < 6 AS few;
DROP INDEX nulls_a;
CREATE INDEX nulls_a ON nulls USING mtpower_blink (a DESC);
SELECT pages('SELECT a FROM nulls WHERE a > 0 ORDER BY a DESC LIMIT 1') < 6 AS few;
RESET enable_bitmapscan;

-- An operator family without all operators between its types: = still decides where to start, whatever else is asked.
CREATE OPERATOR FAMILY partial_ops USING mtpower_blink;
CREATE OPERATOR CLASS partial_ops FOR TYPE int USING mtpower_blink FAMILY partial_ops AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=,
	OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
ALTER OPERATOR FAMILY partial_ops USING mtpower_blink ADD OPERATOR 1 < (int, int8), OPERATOR 2 <= (int, int8), OPERATOR 3 = (int, int8),
	OPERATOR 4 >= (int, int8), OPERATOR 5 > (int, int8), FUNCTION 1 (int, int8) btint48cmp(int, int8);
CREATE TABLE part AS SELECT i % 100 AS a, i AS b FROM generate_series(1, 5000) i;
CREATE INDEX part_a ON part USING mtpower_blink (a partial_ops, b DESC);
SELECT * FROM same('SELECT a FROM part WHERE a >= 4 AND a = 10::int8 ORDER BY a DESC');
SELECT * FROM same('SELECT a, b FROM part WHERE a <= 40::int8 AND a = 10 AND a >= 3::int8 AND b <= 2000 ORDER BY a, b DESC');
SELECT * FROM same('SELECT a, b FROM part WHERE a > 4 AND a > 10::int8 AND a < 90::int8 AND a < 80 ORDER BY a DESC, b');
SELECT nrows, same FROM same('SELECT a FROM part WHERE a = 4 AND a = 10::int8');
SELECT * FROM same('SELECT a FROM part WHERE a = 10 AND a = 10::int8');
-- Exclusion constraints scan with a snapshot that sees what others have not committed.
CREATE TABLE x (a int, b text, EXCLUDE USING mtpower_blink (a WITH =, b WITH =));
INSERT INTO x VALUES (1, 'a'), (1, 'b'), (2, 'a'), (1, NULL), (1, NULL);
INSERT INTO x SELECT i, 'c' FROM generate_series(1, 1000) i;
INSERT INTO x VALUES (500, 'c');
DELETE FROM x WHERE a = 500;
INSERT INTO x VALUES (500, 'c');

SELECT idx_scan > 0 AS counted FROM (SELECT pg_stat_force_next_flush(), pg_stat_get_numscans('t_a'::regclass) AS idx_scan) q;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP TABLE tmp;
DROP SCHEMA blink_scan CASCADE;
