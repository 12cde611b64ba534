-- CREATE INDEX and REINDEX: what is built gives the table's rows in order, whatever the keys.
CREATE SCHEMA blink_build;
SET search_path = blink_build, public;
CREATE COLLATION icu (provider = icu, locale = 'en-US');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x int, y text);
SET client_min_messages = warning;

-- Does an index scan give what a sort gives?  The query is "SELECT expression FROM table ORDER BY ...".
CREATE FUNCTION same_order(query text, out same boolean, out by_index boolean) LANGUAGE plpgsql AS $$
DECLARE
	sorted text[];
	scanned text[];
	line text;
BEGIN
	query := format('SELECT array_agg(k::text) FROM (%s) AS s(k)', query);
	SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on;
	EXECUTE query INTO sorted;
	SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
	by_index := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		by_index := by_index OR line ~ 'Index (Only )?Scan (Backward )?using';
	END LOOP;
	EXECUTE query INTO scanned;
	same := scanned IS NOT DISTINCT FROM sorted;
END $$;

-- Every kind of key, both orders, nulls at both ends.
CREATE TABLE kinds (
	i2 int2, i4 int4, i8 int8, o oid, b bool, c "char", f4 float4, f8 float8, u uuid, by bytea, n name,
	tc text COLLATE "C", ti text COLLATE icu, bp char(12), d date, ts timestamp, tz timestamptz, t time, tt timetz,
	iv interval, num numeric, m money, inet inet, mac macaddr, bits bit(16), vb varbit, x8 xid8, lsn pg_lsn,
	e mood, arr int[], r int4range, j jsonb, tv tsvector, p pair
);
INSERT INTO kinds SELECT
	(v % 20000 - 10000), (v - 400000) * 5000, (v - 400000) * 5000000000000, v::oid, v % 2 = 0, chr(v % 100 + 1)::"char",
	(v - 400000) / 7.0, CASE v % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN 'Infinity' ELSE (v - 400000) / 3.0 END,
	md5(v::text)::uuid, decode(md5(v::text), 'hex'), md5(v::text),
	repeat(chr(97 + v % 3), v % 5) || md5(v::text), CASE v % 2 WHEN 0 THEN upper(md5(v::text)) ELSE md5(v::text) END,
	substr(md5(v::text), 1, v % 8 + 1), date '2000-01-01' + v % 30000 - 15000,
	timestamp '2000-01-01' + (v - 400000) * interval '1 hour 1.5 sec', timestamptz '2000-01-01 UTC' - v * interval '1 min',
	time '00:00' + v * interval '0.1 sec', timetz '00:00+00' + v * interval '0.1 sec',
	v * interval '1 hour', CASE v % 40 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity'
		ELSE (v - 400000)::numeric * (v % 13) / 1000 END, v::money, ('10.0.0.0'::inet + v), ('08:00:2b:01:02:00'::macaddr),
	(v % 65536)::bit(16), ((v % 256)::bit(8)::varbit || B'1'), v::text::xid8, '0/0'::pg_lsn + v,
	(enum_range(null::mood))[v % 3 + 1], array[v % 17, v], int4range(v % 23, v % 23 + v % 7), to_jsonb(v), to_tsvector('simple', v::text),
	(v % 19, md5(v::text))::pair
FROM (SELECT (('x' || substr(md5(i::text), 1, 8))::bit(32)::bigint % 400000 + 200000)::int FROM generate_series(1, 1500) i) s(v);
INSERT INTO kinds SELECT k.* FROM kinds k LIMIT 200;
INSERT INTO kinds (i4) SELECT null FROM generate_series(1, 150);
DO $$
DECLARE
	col record;
	dir text;
	result record;
	n int := 0;
BEGIN
	SET LOCAL TimeZone = 'UTC';
	FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'kinds'::regclass AND attnum > 0 ORDER BY attnum LOOP
		FOREACH dir IN ARRAY '{ASC NULLS LAST,ASC NULLS FIRST,DESC NULLS LAST,DESC NULLS FIRST}'::text[] LOOP
			EXECUTE format('CREATE INDEX k ON kinds USING mtpower_blink (%I %s)', col.attname, dir);
			result := same_order(format('SELECT %1$I FROM kinds ORDER BY %1$I %2$s', col.attname, dir));
			IF NOT result.same OR NOT result.by_index THEN
				RAISE WARNING '% %: same %, by index %', col.attname, dir, result.same, result.by_index;
			END IF;
			PERFORM mtpower.verify_index('k', true);
			n := n + 1;
			DROP INDEX k;
		END LOOP;
	END LOOP;
	RAISE WARNING '% indexes', n;
END $$;

-- Several columns, INCLUDE, expressions, a predicate, other operator classes, equal keys.
CREATE INDEX k1 ON kinds USING mtpower_blink (b DESC, i2, tc COLLATE icu DESC NULLS LAST);
CREATE INDEX k2 ON kinds USING mtpower_blink (i4) INCLUDE (tc, num);
CREATE INDEX k3 ON kinds USING mtpower_blink (lower(ti), (i4 / 7));
CREATE INDEX k4 ON kinds USING mtpower_blink (f8) WHERE b;
CREATE INDEX k5 ON kinds USING mtpower_blink (tc text_pattern_ops);
SELECT mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = 'kinds'::regclass;
SELECT * FROM same_order('SELECT (b, i2, tc) FROM kinds ORDER BY b DESC, i2, tc COLLATE icu DESC NULLS LAST');
SELECT * FROM same_order('SELECT (i4, tc, num) FROM (SELECT i4, tc, num FROM kinds WHERE i4 BETWEEN -1000000 AND 100000000 ORDER BY i4, ctid) s');
SELECT * FROM same_order('SELECT lower(ti) FROM kinds ORDER BY lower(ti), i4 / 7');
SELECT * FROM same_order('SELECT f8 FROM kinds WHERE b ORDER BY f8');
SELECT * FROM same_order('SELECT tc FROM kinds ORDER BY tc USING ~<~');
DROP TABLE kinds;

-- Sizes: nothing, one row, a leaf, more levels; with each fill factor.
CREATE TABLE sized (a int, t text);
CREATE INDEX s ON sized USING mtpower_blink (a);
SELECT * FROM same_order('SELECT a FROM sized ORDER BY a');
SELECT mtpower.verify_index('s', true);
INSERT INTO sized VALUES (1);
REINDEX INDEX s;
SELECT * FROM same_order('SELECT a FROM sized ORDER BY a');
SELECT pg_relation_size('s') / current_setting('block_size')::int AS blocks;
INSERT INTO sized SELECT i % 5000, repeat(md5(i::text), 20) FROM generate_series(2, 20000) i;
CREATE FUNCTION filled(fill int, out ints boolean, out texts boolean, out kb_ints bigint, out kb_texts bigint) LANGUAGE plpgsql AS $$
BEGIN
	DROP INDEX IF EXISTS s, st;
	EXECUTE format('CREATE INDEX s ON sized USING mtpower_blink (a) WITH (fillfactor = %s)', fill);
	EXECUTE format('CREATE INDEX st ON sized USING mtpower_blink (t) WITH (fillfactor = %s)', fill);
	SELECT same AND by_index INTO ints FROM same_order('SELECT a FROM sized ORDER BY a');
	SELECT same AND by_index INTO texts FROM same_order('SELECT t FROM sized ORDER BY t');
	PERFORM mtpower.verify_index('s', true), mtpower.verify_index('st', true);
	kb_ints := pg_relation_size('s') / 1024;
	kb_texts := pg_relation_size('st') / 1024;
END $$;
SELECT fill, f.* FROM (VALUES (10), (50), (90), (100)) v(fill), LATERAL filled(fill) f;
CREATE INDEX ON sized USING mtpower_blink (a) WITH (fillfactor = 9);
CREATE INDEX ON sized USING mtpower_blink (a) WITH (fillfactor = 101);
ALTER INDEX s SET (fillfactor = 20);
REINDEX INDEX s;
SELECT pg_relation_size('s') / 1024 AS kb;

-- Too large keys.  What can be compressed is.
CREATE TABLE large (t text);
ALTER TABLE large ALTER t SET STORAGE EXTERNAL;
INSERT INTO large SELECT repeat('x', n) FROM (VALUES (1), (2600)) v(n);
CREATE INDEX l ON large USING mtpower_blink (t);
INSERT INTO large VALUES (repeat('y', 2704));
TRUNCATE large;
INSERT INTO large VALUES ('first'), (repeat('y', 2704));
DROP INDEX l;
INSERT INTO large VALUES ('first'), (repeat('y', 2704));
CREATE INDEX l ON large USING mtpower_blink (t);
TRUNCATE large;
INSERT INTO large VALUES (repeat('z', 100000));
CREATE INDEX l ON large USING mtpower_blink (t);
ALTER TABLE large ALTER t SET STORAGE EXTENDED;
TRUNCATE large;
INSERT INTO large SELECT repeat(md5(i::text), 2000) FROM generate_series(1, 100) i;
CREATE INDEX l ON large USING mtpower_blink (t);
SELECT * FROM same_order('SELECT md5(t) FROM large ORDER BY t');
SELECT mtpower.verify_index('l', true);
-- As many of the largest keys as make several levels: two to a page.
DROP INDEX l;
TRUNCATE large;
ALTER TABLE large ALTER t SET STORAGE EXTERNAL;
INSERT INTO large SELECT repeat(md5((i % 20)::text), 82) || lpad(i::text, 4, '0') FROM generate_series(1, 200) i;
CREATE INDEX l ON large USING mtpower_blink (t);
SELECT * FROM same_order('SELECT md5(t) FROM large ORDER BY t');
SELECT mtpower.verify_index('l', true);

-- An expression that raises an error in the middle leaves nothing behind.
SET max_parallel_maintenance_workers = 0;	-- a worker's error names it
CREATE INDEX failed ON sized USING mtpower_blink ((1 / (a - 2500)));
RESET max_parallel_maintenance_workers;
SELECT count(*) FROM pg_class WHERE relname = 'failed';
CREATE INDEX failed ON sized USING mtpower_blink ((100 / (a + 1)));

-- CONCURRENTLY, CLUSTER, unlogged and temporary tables, partitions.
CREATE TABLE c (a int, b text) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT (i * 7919) % 3001, i::text FROM generate_series(1, 3000) i;
CREATE INDEX CONCURRENTLY ca ON c USING mtpower_blink (a);
UPDATE c SET b = b || '!' WHERE a % 3 = 0;
UPDATE c SET a = a + 3001 WHERE a % 5 = 0;
DELETE FROM c WHERE a % 4 = 0;
REINDEX INDEX CONCURRENTLY ca;
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'ca'::regclass;
SELECT * FROM same_order('SELECT a FROM c ORDER BY a');
SELECT mtpower.verify_index('ca', true);
CLUSTER c USING ca;
SELECT count(*) FROM (SELECT a, lag(a) OVER (ORDER BY ctid) AS before FROM c) s WHERE a < before;
SELECT * FROM same_order('SELECT a FROM c ORDER BY a DESC');
REINDEX TABLE CONCURRENTLY c;
VACUUM FULL c;
SELECT * FROM same_order('SELECT a FROM c ORDER BY a');
SELECT mtpower.verify_index('ca', true);
CREATE UNLOGGED TABLE un AS SELECT i AS a FROM generate_series(1, 1000) i;
CREATE INDEX una ON un USING mtpower_blink (a);
SELECT * FROM same_order('SELECT a FROM un ORDER BY a');
SELECT mtpower.verify_index('una', true);
ALTER TABLE un SET LOGGED;
SELECT * FROM same_order('SELECT a FROM un ORDER BY a');
SELECT mtpower.verify_index('una', true);
ALTER TABLE un SET UNLOGGED;
SELECT * FROM same_order('SELECT a FROM un ORDER BY a');
SELECT mtpower.verify_index('una', true);
CREATE TEMP TABLE tmp AS SELECT i AS a FROM generate_series(1, 1000) i;
CREATE INDEX tmpa ON tmp USING mtpower_blink (a);
INSERT INTO tmp SELECT * FROM generate_series(1, 1000);
SELECT * FROM same_order('SELECT a FROM tmp ORDER BY a');
SELECT mtpower.verify_index('tmpa', true);
TRUNCATE tmp;
INSERT INTO tmp SELECT * FROM generate_series(1, 10);
SELECT * FROM same_order('SELECT a FROM tmp ORDER BY a');
SELECT mtpower.verify_index('tmpa', true);
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (500);
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (500) TO (1000) USING mtpower;
INSERT INTO parted SELECT i FROM generate_series(0, 999) i;
CREATE INDEX pa ON parted USING mtpower_blink (a);
SELECT * FROM same_order('SELECT a FROM parted ORDER BY a');

-- A batch that meets an empty index fills its pages as a build does.
CREATE TABLE batched (a int, b text) USING mtpower;
SET mtpower.batching = on; -- single inserts halve pages instead
CREATE INDEX f10 ON batched USING mtpower_blink (a) WITH (fillfactor = 10);
CREATE INDEX f50 ON batched USING mtpower_blink (a) WITH (fillfactor = 50);
CREATE INDEX f90 ON batched USING mtpower_blink (a);
CREATE INDEX ft ON batched USING mtpower_blink (b);
INSERT INTO batched SELECT (i * 7919::bigint) % 40009, md5(i::text) FROM generate_series(1, 40000) i;
SELECT mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = 'batched'::regclass;
CREATE TABLE sizes AS SELECT relname, pg_relation_size(oid) AS size FROM pg_class WHERE oid IN
	(SELECT indexrelid FROM pg_index WHERE indrelid = 'batched'::regclass);
REINDEX TABLE batched;
SELECT relname, size::numeric / pg_relation_size(relname::regclass) BETWEEN 0.9 AND 1.05 AS alike FROM sizes ORDER BY 1;
DROP SCHEMA blink_build CASCADE;
