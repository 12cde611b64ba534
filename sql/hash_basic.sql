-- mtpower_hash: every kind of scan, of key and of index, compared with a sequential scan and with core's hash.
CREATE SCHEMA hash_basic;
SET search_path = hash_basic, public;
SET jit = off;
SET mtpower.enable_directoryscan = off;
SET enable_material = off;
SET enable_memoize = off;

-- Runs a query on t by a sequential scan, by an index scan and by a bitmap scan, as far as there are such plans, and on c, the copy in a heap
-- table with core's hash indexes; tells the kinds that were used on t, the number of rows, and whether all results are the same.
CREATE FUNCTION same(query text, OUT kinds text, OUT nrows bigint, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	sums text[] := '{}';
	sum text;
	line text;
	kind text;
BEGIN
	kinds := '';
	FOR i IN 0 .. 3 LOOP
		PERFORM set_config('enable_seqscan', (i = 0)::text, true), set_config('enable_indexscan', (i IN (1, 3))::text, true),
			set_config('enable_bitmapscan', (i = 2)::text, true);
		IF i = 3 THEN
			query := regexp_replace(query, '\yt\y', 'c', 'g');
		ELSIF i > 0 THEN
			kind := NULL;
			FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
				kind := coalesce(kind, substring(line FROM 'Index Scan using|Bitmap Index Scan'));
			END LOOP;
			kinds := concat_ws(', ', nullif(kinds, ''), coalesce(lower(split_part(kind, ' using', 1)), 'none'));
		END IF;
		EXECUTE format('SELECT count(*), md5(string_agg(q::text, '';'' ORDER BY q::text)) FROM (%s) q', query) INTO nrows, sum;
		sums := sums || coalesce(sum, '');
	END LOOP;
	same := (SELECT count(DISTINCT s) = 1 FROM unnest(sums) s);
END $$;

CREATE TABLE t (id int, i2 int2, i4 int, i8 int8, x text COLLATE "C", u uuid, n numeric, ts timestamptz, d date, f8 float8, b bool,
	ar int[], nm name, by bytea, r int4range, o oid, iv interval, j jsonb) USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, v, v, v, 'key ' || v, md5(v::text)::uuid, v / 8.0, '2013-01-01 00:00+00'::timestamptz + v * interval '1 h', '2013-01-01'::date + v,
	CASE WHEN v = 0 AND g % 1000 = 0 THEN '-0' WHEN v = 3 THEN 'NaN' ELSE v::float8 END, v % 2 = 0, ARRAY[v, g % 2], 'name' || v, decode(md5(v::text), 'hex'),
	int4range(v, v + 3), v, v * interval '1 day', jsonb_build_object('v', v)
FROM (SELECT g, CASE WHEN g % 11 <> 0 THEN g % 500 END AS v FROM generate_series(1, 6000) g) s;
CREATE TABLE c AS TABLE t;
DO $$
DECLARE
	col text;
BEGIN
	FOREACH col IN ARRAY '{i2,i4,i8,x,u,n,ts,d,f8,b,ar,nm,by,r,o,iv,j}'::text[] LOOP
		EXECUTE format('CREATE INDEX t_%1$s ON t USING mtpower_hash (%1$s)', col);
		EXECUTE format('CREATE INDEX c_%1$s ON c USING hash (%1$s)', col);
	END LOOP;
END $$;
ANALYZE t;
ANALYZE c;

-- The planner takes the index for equality, of the column's type and of others, and for nothing else.
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = 5 AND x <> 'y';
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = 5::int8;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE x = 'key 5';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE u = '00000000-0000-0000-0000-000000000000';
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT i4 FROM t WHERE i4 = 5;
RESET enable_bitmapscan;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = ANY ('{5,7,NULL,5}') AND x = 'key 7';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 = 5 OR x = 'key 7';
RESET enable_indexscan;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 < 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i4 IS NULL;

-- Every type.
SELECT * FROM same('SELECT id FROM t WHERE i2 = 77');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77');
SELECT * FROM same('SELECT id FROM t WHERE i8 = 77');
SELECT * FROM same('SELECT id, x FROM t WHERE x = ''key 77''');
SELECT * FROM same('SELECT id FROM t WHERE u = md5(''77'')::uuid');
SELECT * FROM same('SELECT id FROM t WHERE n = 9.6250');
SELECT * FROM same('SELECT id FROM t WHERE ts = ''2013-01-04 05:00+00''');
SELECT * FROM same('SELECT id FROM t WHERE d = ''2013-01-04''');
SELECT * FROM same('SELECT id FROM t WHERE f8 = 77');
-- (What core makes of a boolean column as a condition depends on the release: opclass_btree_only.)
SELECT nrows, same FROM same('SELECT id FROM t WHERE b');
SELECT nrows, same FROM same('SELECT id FROM t WHERE NOT b');
SELECT * FROM same('SELECT id FROM t WHERE b = (SELECT false)');
SELECT * FROM same('SELECT id FROM t WHERE b = ANY (''{true}'')');
SELECT * FROM same('SELECT id FROM t WHERE ar = ''{77,1}''');
SELECT * FROM same('SELECT id FROM t WHERE nm = ''name77''');
SELECT * FROM same('SELECT id FROM t WHERE by = decode(md5(''77''), ''hex'')');
SELECT * FROM same('SELECT id FROM t WHERE r = ''[77,79]''');
SELECT * FROM same('SELECT id FROM t WHERE o = 77');
SELECT * FROM same('SELECT id FROM t WHERE iv = ''1848 hours''');
SELECT * FROM same('SELECT id FROM t WHERE j = ''{"v": 77}''');

-- Equal is what the type's operator says: zeros of both signs, NaN, numerics of any scale.
SELECT * FROM same('SELECT id FROM t WHERE f8 = -0.0');
SELECT * FROM same('SELECT id FROM t WHERE f8 = 0.0');
SELECT * FROM same('SELECT id FROM t WHERE f8 = ''NaN''');
SELECT * FROM same('SELECT id FROM t WHERE n = 2');
SELECT * FROM same('SELECT id FROM t WHERE n = 2.0000000');

-- Types that differ from the column's, in and out of its range.
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77::int2');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77::int8');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 4294967373::int8');
SELECT * FROM same('SELECT id FROM t WHERE i4 = (-9223372036854775808)::int8');
SELECT * FROM same('SELECT id FROM t WHERE i2 = 77::int8');
SELECT * FROM same('SELECT id FROM t WHERE i2 = 65613');
SELECT * FROM same('SELECT id FROM t WHERE i8 = 77::int2');
SELECT * FROM same('SELECT id FROM t WHERE f8 = 77::float4');
SELECT * FROM same('SELECT id FROM t WHERE nm = ''name77''::text');
SELECT * FROM same('SELECT id FROM t WHERE x = ''key 77''::name');
SELECT * FROM same('SELECT id FROM t WHERE i4 = ANY (''{4294967373,77,-9223372036854775808}''::int8[])');

-- NULLs, what is not there, contradictions, other conditions beside.
SELECT * FROM same('SELECT id FROM t WHERE i4 = NULL');
SELECT * FROM same('SELECT id FROM t WHERE i4 = (SELECT NULL::int)');
SELECT * FROM same('SELECT id FROM t WHERE i4 = (SELECT 77)');
SELECT * FROM same('SELECT id FROM t WHERE i4 = -77');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 500');
SELECT nrows, same FROM same('SELECT id FROM t WHERE i4 = 77 AND i4 = 78');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77 AND i4 = 77::int8 AND i4 = 77::int2');
SELECT nrows, same FROM same('SELECT id FROM t WHERE i4 = 77 AND i4 = 78::int8');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77 AND i4 = (SELECT NULL::int)');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77 AND id > 3000');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77 OR x = ''key 78''');
SELECT * FROM same('SELECT id FROM t WHERE i4 = 77 OR i4 = 78');
SELECT * FROM same('SELECT id FROM t WHERE i4 = ANY (''{77,NULL,78,77}'')');
SELECT * FROM same('SELECT id FROM t WHERE i4 = ANY (''{}''::int[])');
SELECT * FROM same('SELECT id FROM t WHERE i4 = ANY (NULL::int[])');
SELECT * FROM same('SELECT id FROM t WHERE i4 = ANY (ARRAY(SELECT generate_series(100, 300)))');
SELECT * FROM same('SELECT id FROM t WHERE i4 IN (1, 2, 3) AND x IN (''key 2'', ''key 3'', ''key 4'')');

-- Joins: the inner side is scanned again with each key, NULL and other types among them.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_seqscan = off;
CREATE TABLE p (a int, y int8);
INSERT INTO p VALUES (3, 4294967299), (NULL, 3), (499, NULL), (3, 3), (-1, -1), (11, 12), (500, 65536);
SET enable_bitmapscan = off;
SELECT * FROM explain('SELECT p.a, t.id FROM p LEFT JOIN t ON t.i4 = p.a');
SELECT p.a, count(t.id), count(c.id) FROM p LEFT JOIN t ON t.i4 = p.a LEFT JOIN c ON c.id = t.id GROUP BY p.a ORDER BY p.a;
SELECT p.y, count(t.id) FROM p LEFT JOIN t ON t.i4 = p.y GROUP BY p.y ORDER BY p.y;
SELECT p.a, (SELECT min(q.id) FROM (SELECT id FROM t WHERE i4 = p.a ORDER BY id LIMIT 3) q) FROM p ORDER BY 1, 2;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SELECT p.a, count(t.id) FROM p LEFT JOIN t ON t.i4 = p.a GROUP BY p.a ORDER BY p.a;
SELECT p.y, (SELECT count(*) FROM t WHERE i4 = ANY (ARRAY[p.y, p.y + 1, NULL])) FROM p ORDER BY 1;
RESET enable_indexscan;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- Cursors, which go back as well; rows are those of its statement's start.
SET enable_bitmapscan = off;
BEGIN;
DECLARE k CURSOR FOR SELECT i4 FROM t WHERE i4 = 77;
FETCH 2 FROM k;
INSERT INTO t (id, i4) SELECT g, 77 FROM generate_series(10001, 10700) g;
FETCH ALL FROM k;
SELECT count(*) FROM t WHERE i4 = 77;
DECLARE s SCROLL CURSOR FOR SELECT i4 FROM t WHERE i4 = 78;
EXPLAIN (COSTS OFF) DECLARE x SCROLL CURSOR FOR SELECT i4 FROM t WHERE i4 = 78;
FETCH LAST FROM s;
FETCH ABSOLUTE -2 FROM s;
FETCH FIRST FROM s;
FETCH PRIOR FROM s;
MOVE FORWARD ALL IN s;
MOVE BACKWARD ALL IN s;
FETCH BACKWARD 1 FROM k;
ROLLBACK;
SELECT count(*) FROM t WHERE i4 = 77;
BEGIN;
DECLARE k CURSOR FOR SELECT i4 FROM t WHERE i4 = 77 FOR UPDATE;
FETCH 1 FROM k;
UPDATE t SET i4 = 501 WHERE CURRENT OF k;
FETCH 1 FROM k;
DELETE FROM t WHERE CURRENT OF k;
SELECT count(*) FILTER (WHERE i4 = 77), count(*) FILTER (WHERE i4 = 501) FROM t WHERE i4 = ANY ('{77,501}');
ROLLBACK;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- Several columns, all of them hashed.  A scan of all columns is a lookup.
CREATE TABLE m (id int, a int, b text COLLATE "C", c timestamp) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT g, CASE WHEN g % 7 > 0 THEN g % 20 END, CASE WHEN g % 5 > 0 THEN 'b' || g % 30 END, CASE WHEN g % 3 > 0 THEN '2013-01-01'::timestamp + g % 10 * interval '1 day' END
FROM generate_series(1, 4000) g;
CREATE INDEX m_abc ON m USING mtpower_hash (a, b, c);
ANALYZE m;
EXPLAIN (COSTS OFF) SELECT id FROM m WHERE a = 8 AND b = 'b8' AND c = '2013-01-09';
-- With less than that, or with other conditions, any other plan is better.
EXPLAIN (COSTS OFF) SELECT id FROM m WHERE a = 8;
EXPLAIN (COSTS OFF) SELECT id FROM m WHERE a = 8 AND b = 'b8';
EXPLAIN (COSTS OFF) SELECT id FROM m WHERE b = 'b8' AND c = '2013-01-09';

-- Every other path disabled, and made dearer than that: right it is all the same.  Rows with NULLs in other columns than the first are there.
CREATE FUNCTION forced(query text, OUT kinds text, OUT nrows bigint, OUT same bool) LANGUAGE plpgsql AS $$
DECLARE
	sums text[] := '{}';
	sum text;
	line text;
	kind text;
BEGIN
	FOR i IN 0 .. 2 LOOP
		PERFORM set_config('enable_seqscan', (i = 0)::text, true), set_config('enable_indexscan', (i = 1)::text, true),
			set_config('enable_bitmapscan', (i = 2)::text, true), set_config('cpu_tuple_cost', CASE WHEN i = 0 THEN '0.01' ELSE '1e9' END, true);
		kind := NULL;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			kind := coalesce(kind, substring(line FROM 'Index Scan using|Bitmap Index Scan|Seq Scan'));
		END LOOP;
		kinds := concat_ws(', ', kinds, lower(split_part(kind, ' using', 1)));
		EXECUTE format('SELECT count(*), md5(string_agg(q::text, '';'' ORDER BY q::text)) FROM (%s) q', query) INTO nrows, sum;
		sums := sums || coalesce(sum, '');
	END LOOP;
	same := (SELECT count(DISTINCT s) = 1 FROM unnest(sums) s);
END $$;
SELECT * FROM forced('SELECT id FROM m WHERE a = 8');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND b = ''b8''');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND c IS NULL');
SELECT * FROM forced('SELECT id FROM m WHERE a = 10 AND b IS NULL');
SELECT * FROM forced('SELECT id FROM m WHERE a = 10 AND b IS NULL AND c IS NULL');
SELECT * FROM forced('SELECT id FROM m WHERE a = 10 AND b IS NULL AND c = ''2013-01-01''');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND c = ''2013-01-09''');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8::int8 AND b = ''b8''');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND b = ''b8'' AND c = ''2013-01-09''');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND b = ''b8'' AND c = (SELECT NULL::timestamp)');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND b = (SELECT NULL::text)');
SELECT * FROM forced('SELECT id FROM m WHERE a = -8');
SELECT nrows, same FROM forced('SELECT id FROM m WHERE a = 8 AND a = 9');
SELECT nrows, same FROM forced('SELECT id FROM m WHERE a = 8 AND a = 9 AND b = ''b8'' AND c = ''2013-01-09''');

-- The same with a stash, split buckets and dead entries.
INSERT INTO m SELECT g, g % 20, 'b' || g % 30, NULL FROM generate_series(5001, 9000) g;
DELETE FROM m WHERE id % 13 = 0;
SELECT * FROM forced('SELECT id FROM m WHERE a = 8');
SELECT * FROM forced('SELECT id FROM m WHERE a = 8 AND b = ''b8''');
VACUUM m;
SELECT * FROM forced('SELECT id FROM m WHERE a = 8');
SELECT verify('m');

-- With a B-link tree on the same column, equality takes the hash and everything else the tree; the rows being anywhere (r) or sorted (s), with
-- statistics and without.
CREATE TABLE two (id int, r int, s int, pad text) USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO two SELECT g, g::bigint * 7919 % 4001, g / 4, repeat('x', 100) FROM generate_series(1, 20000) g;
CREATE INDEX two_r_hash ON two USING mtpower_hash (r);
CREATE INDEX two_r_tree ON two USING mtpower_blink (r);
CREATE INDEX two_s_tree ON two USING mtpower_blink (s);
CREATE INDEX two_s_hash ON two USING mtpower_hash (s);
CREATE INDEX two_rs_hash ON two USING mtpower_hash (r, s);
CREATE INDEX two_sr_tree ON two USING mtpower_blink (s, r);
CREATE INDEX two_e_hash ON two USING mtpower_hash ((s + 1));
CREATE INDEX two_e_tree ON two USING mtpower_blink ((s + 1));
VACUUM two;
CREATE FUNCTION plans(OUT query text, OUT indexes text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOREACH query IN ARRAY ARRAY['r = 77', 'r = 77 LIMIT 1', 's = 77', 's = 77::int8', 's = 77 AND id > 5', 's + 1 = 77', 'r = (SELECT 77)', 'r = 7 OR s = 7',
			'r = 77 AND s = 77', 'r < 7', 's BETWEEN 7 AND 9', 's + 1 < 9', 'r IS NULL', 's > 77 ORDER BY s LIMIT 3', 'r = 77 AND s > 77']
	LOOP
		indexes := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT pad FROM two WHERE ' || query LOOP
			indexes := concat_ws(', ', nullif(indexes, ''), substring(line FROM 'two_\w+|Seq Scan'));
		END LOOP;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM plans();
ANALYZE two;
SELECT * FROM plans();
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT x.pad FROM p, two x WHERE x.r = p.a AND p.y > 1;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT * FROM explain($$SELECT min(r), max(s) FROM two$$);
-- An index-only scan needs no row: the hash can't have that.
VACUUM two;
EXPLAIN (COSTS OFF) SELECT r FROM two WHERE r = 77;
SELECT verify('two');

-- 32 columns, and no more.
CREATE TABLE wide AS SELECT g AS k1, g AS k2, g AS k3, g AS k4, g AS k5, g AS k6, g AS k7, g AS k8, g AS k9, g AS k10, g AS k11, g AS k12, g AS k13, g AS k14, g AS k15, g AS k16,
	g AS k17, g AS k18, g AS k19, g AS k20, g AS k21, g AS k22, g AS k23, g AS k24, g AS k25, g AS k26, g AS k27, g AS k28, g AS k29, g AS k30, g AS k31, g AS k32 FROM generate_series(1, 2000) g;
SELECT format('CREATE INDEX wide_k ON wide USING mtpower_hash (%s)', string_agg('k' || g, ', ' ORDER BY g)) FROM generate_series(1, 32) g \gexec
SELECT format('CREATE INDEX wide_l ON wide USING mtpower_hash (%s, k1)', string_agg('k' || g, ', ' ORDER BY g)) FROM generate_series(1, 32) g \gexec
SELECT 'SELECT * FROM forced(''SELECT k1 FROM wide WHERE ' || string_agg('k' || g || ' = 5', ' AND ' ORDER BY g) || ''')' FROM generate_series(1, 32) g \gexec
SELECT 'SELECT * FROM forced(''SELECT k1 FROM wide WHERE ' || string_agg('k' || g || ' = 5', ' AND ' ORDER BY g) || ''')' FROM generate_series(1, 31) g \gexec

-- Expressions and partial indexes.
CREATE TABLE e (id int, a int, b text) USING mtpower WITH (autovacuum_enabled = off);
INSERT INTO e SELECT g, g % 100, 'Value ' || g % 100 FROM generate_series(1, 2000) g;
CREATE INDEX e_lower ON e USING mtpower_hash (lower(b));
CREATE INDEX e_both ON e USING mtpower_hash ((a + 1), upper(b));
CREATE INDEX e_part ON e USING mtpower_hash (a) WHERE a % 2 = 0;
ANALYZE e;
SET enable_bitmapscan = off;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM e WHERE lower(b) = 'value 7';
EXPLAIN (COSTS OFF) SELECT id FROM e WHERE a + 1 = 8 AND upper(b) = 'VALUE 7';
EXPLAIN (COSTS OFF) SELECT id FROM e WHERE a = 8 AND a % 2 = 0;
SELECT count(*), min(b), max(b) FROM e WHERE lower(b) = 'value 7';
SELECT count(*), min(b), max(b) FROM e WHERE a + 1 = 8 AND upper(b) = 'VALUE 7';
SELECT count(*), min(a), max(a) FROM e WHERE a = 8 AND a % 2 = 0;
INSERT INTO e SELECT g, g % 100, 'VALUE ' || g % 100 FROM generate_series(2001, 9000) g;
UPDATE e SET a = a + 1 WHERE id % 10 = 3;
SELECT count(*), count(DISTINCT b) FROM e WHERE lower(b) = 'value 7';
SELECT count(*), min(a), max(a) FROM e WHERE a = 4 AND a % 2 = 0;
RESET enable_seqscan;
SELECT count(*), min(a), max(a) FROM e WHERE a + 0 = 4 AND a % 2 = 0;
SELECT verify('e');
RESET enable_bitmapscan;
SELECT verify('t');

-- Options.
CREATE TABLE o (a int) USING mtpower;
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (fillfactor = 9);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (fillfactor = 101);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (fillfactor = half);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (initial_buckets = -1);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (initial_buckets = 2147483647);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (initial_buckets = 3000000000);
CREATE INDEX o_bad ON o USING mtpower_hash (a) WITH (buffering = on);
CREATE INDEX o_a ON o USING mtpower_hash (a) WITH (fillfactor = 50, initial_buckets = 7);
SELECT reloptions FROM pg_class WHERE relname = 'o_a';
SELECT pg_get_indexdef('o_a'::regclass);
INSERT INTO o SELECT generate_series(1, 5000);
ALTER INDEX o_a SET (fillfactor = 100);
ALTER INDEX o_a RESET (initial_buckets);
ALTER INDEX o_a SET (initial_buckets = -5);
INSERT INTO o SELECT generate_series(5001, 9000);
REINDEX INDEX o_a;
SELECT verify('o');

-- What core's hash refuses as well, in its words.
CREATE UNIQUE INDEX ON o USING mtpower_hash (a);
CREATE UNIQUE INDEX ON o USING hash (a);
CREATE INDEX ON o USING mtpower_hash (a) INCLUDE (a);
CREATE INDEX ON o USING hash (a) INCLUDE (a);
CREATE INDEX ON o USING mtpower_hash (a DESC);
CREATE INDEX ON o USING hash (a DESC);
CREATE INDEX ON o USING mtpower_hash (a NULLS FIRST);
CREATE INDEX ON o USING hash (a NULLS FIRST);
CREATE TABLE no (p point, x xml);
CREATE INDEX ON no USING mtpower_hash (p);
CREATE INDEX ON no USING hash (p);
CREATE TABLE pk (a int, PRIMARY KEY (a), EXCLUDE USING mtpower_hash (a WITH =));
INSERT INTO pk SELECT generate_series(1, 2000);
INSERT INTO pk VALUES (2001), (2002);
ALTER TABLE pk DROP CONSTRAINT pk_pkey;
INSERT INTO pk VALUES (2002);
ALTER TABLE o CLUSTER ON o_a;
CLUSTER o USING o_a;

-- Temporary, unlogged, partitioned.
CREATE TEMP TABLE tmp (a int) ON COMMIT DELETE ROWS;
CREATE INDEX tmp_a ON tmp USING mtpower_hash (a);
BEGIN;
INSERT INTO tmp SELECT generate_series(1, 5000);
SELECT verify('tmp');
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM tmp WHERE a = 4999;
COMMIT;
SELECT count(*), verify('tmp') FROM tmp;
CREATE UNLOGGED TABLE ul (a int) USING mtpower;
CREATE INDEX ul_a ON ul USING mtpower_hash (a);
INSERT INTO ul SELECT generate_series(1, 5000);
ALTER TABLE ul SET LOGGED;
INSERT INTO ul SELECT generate_series(5001, 7000);
ALTER TABLE ul SET UNLOGGED;
SELECT verify('ul');
CREATE TABLE parted (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (1000) USING mtpower;
CREATE INDEX parted_b ON parted USING mtpower_hash (b);
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (1000) TO (9000) USING mtpower;
INSERT INTO parted SELECT g, 'b' || g FROM generate_series(0, 5000) g;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE b = 'b4999';
SELECT * FROM parted WHERE b = 'b4999';
SELECT verify('part1'), verify('part2');
RESET enable_seqscan;
RESET enable_bitmapscan;

-- The index made anew, beside and after changes.
CREATE TABLE re (a int, b text) USING mtpower;
INSERT INTO re SELECT g % 1000, 'b' || g FROM generate_series(1, 5000) g;
CREATE INDEX CONCURRENTLY re_a ON re USING mtpower_hash (a);
CREATE INDEX re_b ON re USING mtpower_hash (b);
SELECT verify('re');
DELETE FROM re WHERE a < 300;
REINDEX INDEX re_a;
SELECT verify('re');
REINDEX INDEX CONCURRENTLY re_a;
REINDEX TABLE CONCURRENTLY re;
SELECT verify('re');
VACUUM re;
INSERT INTO re SELECT g, 'new' || g FROM generate_series(1, 300) g;
VACUUM FULL re;
SELECT verify('re'), count(*) FROM re;
TRUNCATE re;
SELECT verify('re'), count(*) FROM re;
BEGIN;
INSERT INTO re SELECT g, 'b' || g FROM generate_series(1, 3000) g;
SAVEPOINT a;
TRUNCATE re;
INSERT INTO re SELECT g, 'c' || g FROM generate_series(1, 2000) g;
ROLLBACK TO a;
INSERT INTO re SELECT g, 'd' || g FROM generate_series(3001, 5000) g;
COMMIT;
SELECT verify('re'), count(*) FROM re;
SET enable_seqscan = off;
SELECT count(*) FROM re WHERE b = 'b77' OR b = 'c77' OR b = 'd4000';
RESET enable_seqscan;

-- Dead entries: hints of scans, VACUUM, room used anew.
CREATE TABLE v (a int) USING mtpower WITH (autovacuum_enabled = off);
CREATE INDEX v_a ON v USING mtpower_hash (a) WITH (initial_buckets = 4);
CREATE FUNCTION items(i regclass, OUT items bigint, OUT dead bigint) LANGUAGE sql AS $$
	SELECT sum(p.items), sum(p.dead) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p
	WHERE p.type IN ('bucket', 'stash') $$;
INSERT INTO v SELECT g % 10 FROM generate_series(1, 3000) g;
SELECT items FROM items('v_a');
DELETE FROM v WHERE a = 3;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM v WHERE a = 3;
SELECT items, dead > 0 AS dead FROM items('v_a');
RESET enable_seqscan;
RESET enable_bitmapscan;
VACUUM v;
SELECT * FROM items('v_a');
SELECT verify('v');
DELETE FROM v;
VACUUM v;
SELECT * FROM items('v_a');
SELECT pg_relation_size('v_a') AS before \gset
INSERT INTO v SELECT g % 10 FROM generate_series(1, 3000) g;
SELECT pg_relation_size('v_a') <= :before AS room_is_used_anew;
SELECT verify('v');

-- mtpower.page_info: metapage, buckets and stash pages, and past the end.
CREATE TABLE pi (a int) WITH (autovacuum_enabled = off);
CREATE INDEX pi_a ON pi USING mtpower_hash (a) WITH (initial_buckets = 3);
SELECT type, items, dead, flags, format FROM mtpower.page_info('pi_a', 0);
SELECT type, items, dead, format FROM mtpower.page_info('pi_a', 1);
INSERT INTO pi SELECT generate_series(1, 500);
INSERT INTO pi SELECT 7 FROM generate_series(1, 5000);
SELECT type, sum(items) > 0 AS items, sum(dead) AS dead, bool_and(free_bytes >= 0) AS free, bool_and(lsn > '0/0') AS logged
FROM generate_series(1, pg_relation_size('pi_a') / current_setting('block_size')::int - 1) b, mtpower.page_info('pi_a', b) p
WHERE items > 0 GROUP BY 1 ORDER BY 1;
SELECT * FROM items('pi_a');
\set VERBOSITY terse
SELECT type FROM mtpower.page_info('pi_a', 1000000);
SELECT type FROM mtpower.page_info('pi_a', -1);
\set VERBOSITY default
CREATE INDEX pi_core ON pi USING hash (a);
SELECT type FROM mtpower.page_info('pi_core', 0);
SELECT mtpower.verify_index('pi_core');

-- To mtpower's access method and back, and to a tree.
CREATE TABLE dd (a int, b text COLLATE "C");
INSERT INTO dd SELECT g, 'b' || g FROM generate_series(1, 3000) g;
CREATE INDEX "d d" ON dd USING hash (b) WITH (fillfactor = 60) WHERE a > 10;
SELECT * FROM mtpower.index_ddl('"d d"', 'mtpower_hash');
SELECT * FROM mtpower.index_ddl('"d d"', 'mtpower_hash') \gexec
SELECT pg_get_indexdef('"d d"'::regclass);
SELECT verify('dd');
SELECT * FROM mtpower.index_ddl('"d d"', 'hash') \gexec
SELECT pg_get_indexdef('"d d"'::regclass);
CREATE INDEX dd_m ON dd USING mtpower_hash (a, b) WITH (initial_buckets = 5);
SELECT * FROM mtpower.index_ddl('dd_m', 'hash');
SELECT * FROM mtpower.index_ddl('dd_m', 'btree');
ALTER INDEX dd_m RESET (initial_buckets);
SELECT * FROM mtpower.index_ddl('dd_m', 'btree') \gexec
SELECT * FROM mtpower.index_ddl('dd_m', 'mtpower_hash');
DROP INDEX dd_m;
CREATE INDEX dd_m ON dd USING mtpower_hash (lower(b) varchar_ops, b COLLATE "POSIX") WITH (fillfactor = 40);
COMMENT ON INDEX dd_m IS 'two columns';
-- fillfactor means something else for trees.
SELECT * FROM mtpower.index_ddl('dd_m', 'btree');
ALTER INDEX dd_m RESET (fillfactor);
SELECT * FROM mtpower.index_ddl('dd_m', 'btree') LIMIT 1;
SELECT * FROM mtpower.index_ddl('dd_m', 'mtpower_blink') \gexec
SELECT pg_get_indexdef('dd_m'::regclass), obj_description('dd_m'::regclass);
SELECT verify('dd');
ALTER TABLE dd ADD x xid;
CREATE INDEX dd_x ON dd USING mtpower_hash (x);
SELECT * FROM mtpower.index_ddl('dd_x', 'btree');

-- Operator classes: each of core's hash has its mirror, with all members; others' come with sync_opclasses().
SELECT count(*) AS missing FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod
WHERE a.amname = 'hash' AND o.oid < 16384 AND NOT EXISTS (SELECT FROM pg_opclass m JOIN pg_am ma ON ma.oid = m.opcmethod WHERE ma.amname = 'mtpower_hash'
	AND m.opcname = o.opcname AND m.opcnamespace = o.opcnamespace AND m.opcintype = o.opcintype AND m.opcdefault = o.opcdefault AND m.opckeytype = o.opckeytype);
SELECT count(*) AS differ FROM (
	(SELECT f.opfname, o.amopstrategy, o.amoplefttype, o.amoprighttype, o.amopopr FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
		WHERE a.amname = 'hash' AND f.oid < 16384)
	EXCEPT (SELECT f.opfname, o.amopstrategy, o.amoplefttype, o.amoprighttype, o.amopopr FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
		WHERE a.amname = 'mtpower_hash')) x;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
RESET client_min_messages;
CREATE TABLE ci (a public.citext);
INSERT INTO ci SELECT 'Value ' || g FROM generate_series(1, 1000) g;
CREATE INDEX ci_a ON ci USING mtpower_hash (a);
SELECT count(*) > 0 AS mirrored FROM mtpower.sync_opclasses() WHERE opclass LIKE '%citext%';
CREATE INDEX ci_a ON ci USING mtpower_hash (a);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ci WHERE a = 'VALUE 77';
SELECT count(*) FROM ci WHERE a = 'VALUE 77';
RESET enable_seqscan;
SELECT verify('ci');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (l int, r text);
CREATE DOMAIN dom AS int CHECK (VALUE > 0);
CREATE TABLE ty (e mood, r pair, d dom, a mood[]) USING mtpower;
INSERT INTO ty SELECT (ARRAY['sad', 'ok', 'happy'])[g % 3 + 1]::mood, ROW(g % 50, 'r' || g % 50)::pair, g % 50 + 1, ARRAY['sad', (ARRAY['sad', 'ok', 'happy'])[g % 3 + 1]]::mood[] FROM generate_series(1, 3000) g;
CREATE INDEX ty_e ON ty USING mtpower_hash (e);
CREATE INDEX ty_r ON ty USING mtpower_hash (r);
CREATE INDEX ty_d ON ty USING mtpower_hash (d);
CREATE INDEX ty_a ON ty USING mtpower_hash (a);
INSERT INTO ty SELECT e, r, d, a FROM ty;
SELECT * FROM forced('SELECT * FROM ty WHERE e = ''ok''');
SELECT * FROM forced('SELECT * FROM ty WHERE r = ROW(7, ''r7'')::pair');
SELECT * FROM forced('SELECT * FROM ty WHERE d = 7');
SELECT * FROM forced('SELECT * FROM ty WHERE a = ''{sad,happy}''');
SELECT verify('ty');

-- A collation in which strings are equal that are not the same, where the server has ICU.
DO $$
DECLARE
	n bigint[];
BEGIN
	IF EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collprovider = 'i') AND getdatabaseencoding() = 'UTF8' THEN
		CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TABLE icu (a text COLLATE nocase, b int) USING mtpower;
		INSERT INTO icu SELECT CASE g % 3 WHEN 0 THEN 'Key ' WHEN 1 THEN 'KEY ' ELSE 'key ' END || g % 100, g FROM generate_series(1, 3000) g;
		CREATE INDEX icu_a ON icu USING mtpower_hash (a);
		INSERT INTO icu SELECT upper(a), b FROM icu;
		PERFORM set_config('enable_seqscan', 'off', true);
		EXECUTE 'SELECT ARRAY[(SELECT count(*) FROM icu WHERE a = ''kEy 7''), (SELECT count(*) FROM icu WHERE a || '''' = ''kEy 7''), (SELECT count(DISTINCT a COLLATE "C") FROM icu WHERE a = ''kEy 7'')]' INTO n;
		IF n <> '{60,60,3}' THEN RAISE 'found %', n; END IF;
		-- Names are equal as their text is, though core's hash function for them is not told the collation.
		CREATE TABLE icu_names (n name, a text COLLATE nocase, b int) USING mtpower;
		INSERT INTO icu_names SELECT a, a, b FROM icu;
		CREATE INDEX icu_names_n ON icu_names USING mtpower_hash (n COLLATE nocase);
		CREATE INDEX icu_names_a ON icu_names USING mtpower_hash (a, b);
		INSERT INTO icu_names SELECT i.n, i.a, i.b FROM icu_names i;
		EXECUTE $q$SELECT ARRAY[(SELECT count(*) FROM icu_names WHERE n COLLATE nocase = 'kEy 7'::name), (SELECT count(*) FROM icu_names WHERE n COLLATE nocase = 'kEy 7'::text),
			(SELECT count(*) FROM icu WHERE a = 'kEy 7'::name COLLATE nocase), (SELECT count(*) FROM icu_names WHERE a = 'kEy 7'::name COLLATE nocase AND b = 7)]$q$ INTO n;
		IF n <> '{120,120,60,4}' THEN RAISE 'by names %', n; END IF;
		PERFORM verify('icu_names');
		-- Another collation's equality can't use it.
		EXECUTE 'SELECT ARRAY[(SELECT count(*) FROM icu WHERE a = ''key 7'' COLLATE "C")]' INTO n;
		IF n <> (SELECT ARRAY[count(*)] FROM icu WHERE (a || '') COLLATE "C" = 'key 7') THEN RAISE 'in another collation %', n; END IF;
		PERFORM verify('icu');
	END IF;
END $$;

-- Loads see their own rows, whatever they are read by.
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
CREATE TABLE own (a int, b text) USING mtpower;
CREATE INDEX own_a ON own USING mtpower_hash (a) WITH (initial_buckets = 1);
SET enable_seqscan = off;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.a > 0 AND NEW.a % 1000 = 0 AND NOT EXISTS (SELECT FROM own WHERE a = NEW.a - 999) THEN RAISE '% is not seen', NEW.a - 999; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER seen BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION seen();
INSERT INTO own SELECT g, 'b' FROM generate_series(1, 5000) g;
INSERT INTO own SELECT g % 6000, 'again' FROM generate_series(1, 8000) g WHERE NOT EXISTS (SELECT FROM own WHERE a = g % 6000);
SELECT count(*), count(DISTINCT a) FROM own;
BEGIN;
INSERT INTO own SELECT g, 'c' FROM generate_series(10001, 15000) g;
SELECT count(*) FROM own WHERE a = 12345;
SAVEPOINT s;
INSERT INTO own SELECT g, 'd' FROM generate_series(15001, 30000) g;
SELECT count(*) FROM own WHERE a = 23456;
ROLLBACK TO s;
SELECT count(*) FROM own WHERE a = 23456;
COMMIT;
SELECT count(*) FROM own WHERE a = 12345;
SELECT verify('own'), memory_held();
RESET enable_seqscan;
RESET mtpower.batching;
RESET mtpower.batch_min_rows;

SET client_min_messages = warning;
DROP SCHEMA hash_basic CASCADE;
DROP EXTENSION citext CASCADE;
