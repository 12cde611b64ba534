-- What leaves spare of their entries: trimmed bodies, and first columns that the directory has.  Contents after builds, batches,
-- single insertions, updates, deletions and VACUUM, for bodies of all shapes, by all ways of scanning.  Sizes beside nbtree's.
CREATE SCHEMA blink_bodies;
SET search_path = blink_bodies, public;
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;  -- forbidden plans look expensive

CREATE FUNCTION pages(index regclass) RETURNS numeric LANGUAGE sql AS
	$$ SELECT pg_relation_size(index) / current_setting('block_size')::numeric $$;

-- Index scans of one kind alone, or sequential scans
CREATE FUNCTION scans(kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', (kind = 'seq')::text, true), set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
		set_config('enable_indexscan', (kind IN ('index', 'only'))::text, true), set_config('enable_indexonlyscan', (kind = 'only')::text, true);
END $$;

-- Rows v = 1 .. rows, in random order.  index: its columns with their options; keys: its order, back: the reverse order.
CREATE TABLE shapes (id serial, atype text, a text, btype text, b text, index text, keys text, back text, rows int DEFAULT 1000, most numeric);

-- Does a query give the same whatever the scans?
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	want text;
	got text;
	kind text;
	good bool := true;
BEGIN
	PERFORM scans('seq');
	EXECUTE query INTO want;
	FOREACH kind IN ARRAY ARRAY['index', 'only', 'bitmap'] LOOP
		PERFORM scans(kind);
		EXECUTE query INTO got;
		IF want IS DISTINCT FROM got THEN
			RAISE WARNING '% instead of %: %, %', got, want, kind, query;
			good := false;
		END IF;
	END LOOP;
	RETURN good;
END $$;

CREATE FUNCTION sound(s shapes) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	query text;
	good bool := true;
BEGIN
	PERFORM mtpower.verify_index('m' || s.id, true);
	FOREACH query IN ARRAY ARRAY[
		'SELECT md5(string_agg(s::text, '','')) FROM (SELECT %4$s FROM t%1$s ORDER BY %2$s) s',
		'SELECT md5(string_agg(s::text, '','')) FROM (SELECT %4$s FROM t%1$s ORDER BY %3$s) s',
		'SELECT md5(string_agg(s::text, '','')) FROM (SELECT %4$s FROM t%1$s WHERE a >= (SELECT a FROM probes%1$s WHERE n = 7) ORDER BY %2$s) s',
		'SELECT md5(string_agg(s::text, '','')) FROM (SELECT %4$s FROM t%1$s WHERE a < (SELECT a FROM probes%1$s WHERE n = 7) ORDER BY %3$s) s',
		'SELECT md5(string_agg(s::text, '','' ORDER BY s::text)) FROM (SELECT a, b FROM t%1$s WHERE a IS NOT NULL) s',
		'SELECT count(*) || '' '' || count(b) FROM t%1$s WHERE a = ANY (ARRAY(SELECT a FROM probes%1$s))',
		'SELECT count(*) FROM t%1$s t, probes%1$s p WHERE t.a = p.a AND t.b = p.b',
		'SELECT count(*) FROM t%1$s t, probes%1$s p WHERE t.a = p.a AND t.b > p.b',
		'SELECT string_agg(t::text || ctid::text, '','' ORDER BY ctid) FROM t%1$s t WHERE (a, b) IN (SELECT a, b FROM probes%1$s)',
		'SELECT count(*) || '' '' || count(b) FROM t%1$s WHERE a IS NULL',
		'SELECT count(*) || '' '' || count(a) FROM t%1$s WHERE a IS NOT NULL AND b IS NULL'] LOOP
		good := good AND same(format(query, s.id, s.keys, s.back, CASE WHEN s.keys ~ 'b' THEN 'a, b' ELSE 'a' END));
	END LOOP;

	-- A merge join marks and restores.
	PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_nestloop', 'off', true);
	good := good AND same(format('SELECT count(*) FROM (SELECT a, b FROM t%1$s) x JOIN (SELECT a, b FROM t%1$s) y USING (a) WHERE a >= (SELECT a FROM probes%1$s WHERE n = 7)', s.id));
	PERFORM set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'on', true);
	RETURN good;
END $$;

-- Loads a shape's table in three ways; leaves the last one's, with its index, behind.
CREATE FUNCTION load(s shapes, out built numeric, out loaded numeric, out single numeric, out good bool) LANGUAGE plpgsql AS $$
DECLARE
	way text;
BEGIN
	EXECUTE format('CREATE TABLE src AS SELECT row_number() OVER (ORDER BY hashint4(v)) AS n, (%2$s)::%1$s AS a, (%4$s)::%3$s AS b '
		'FROM generate_series(1, %5$s) v', s.atype, s.a, s.btype, s.b, s.rows);
	EXECUTE format('CREATE TABLE probes%s AS SELECT n, a, b FROM src WHERE n %% (%s / 20) = 7 OR n = 7', s.id, s.rows);
	FOREACH way IN ARRAY ARRAY['built', 'loaded', 'single'] LOOP
		EXECUTE format('DROP TABLE IF EXISTS t%1$s; CREATE TABLE t%1$s WITH (autovacuum_enabled = off) AS SELECT a, b FROM src ORDER BY n', s.id);
		IF way <> 'built' THEN
			EXECUTE format('TRUNCATE t%s', s.id);
		END IF;
		EXECUTE format('CREATE INDEX x ON t%1$s USING btree %2$s; CREATE INDEX m%1$s ON t%1$s USING mtpower_blink %2$s', s.id, s.index);
		IF way = 'loaded' THEN
			FOR i IN 0 .. 19 LOOP
				EXECUTE format('INSERT INTO t%s SELECT a, b FROM src WHERE n %% 20 = %s ORDER BY n', s.id, i);
			END LOOP;
		ELSIF way = 'single' THEN
			SET LOCAL mtpower.batching = off;
			EXECUTE format('INSERT INTO t%s SELECT a, b FROM src ORDER BY n', s.id);
			SET LOCAL mtpower.batching = on;
		END IF;
		built := coalesce(built, round(pages('m' || s.id) / pages('x'), 2));
		loaded := CASE way WHEN 'loaded' THEN round(pages('m' || s.id) / pages('x'), 2) ELSE loaded END;
		single := round(pages('m' || s.id) / pages('x'), 2);
		DROP INDEX x;
		good := coalesce(good, true) AND sound(s);
	END LOOP;

	-- Nulls, new versions, rows that are gone and come again, and a scan that finds dead rows
	EXECUTE format('INSERT INTO t%s SELECT NULL, b FROM src WHERE n < 50', s.id);
	EXECUTE format('INSERT INTO t%s SELECT a, NULL FROM src WHERE n %% 100 = 3', s.id);
	EXECUTE format('INSERT INTO t%s VALUES (NULL, NULL), (NULL, NULL)', s.id);
	EXECUTE format('UPDATE t%s t SET b = s.b FROM src s WHERE t.a = s.a AND n %% 7 = 1', s.id);
	EXECUTE format('DELETE FROM t%s WHERE a IN (SELECT a FROM src WHERE n %% 3 = 0)', s.id);
	EXECUTE format('INSERT INTO t%s SELECT a, b FROM src WHERE n %% 50 = 1', s.id);
	good := good AND sound(s);
	DROP TABLE src;
END $$;

-- Shapes whose sizes matter
INSERT INTO shapes (atype, a, btype, b, index, keys, back, rows, most) VALUES
	('text COLLATE "C"', 'md5(v::text)', 'int', 'v', '(a)', 'a', 'a DESC', 12000, 0.98),
	('text COLLATE "C"', 'md5(v::text)', 'int2', 'v', '(a) INCLUDE (b)', 'a', 'a DESC', 12000, 0.98),
	('int', 'v % 200', 'timestamptz', 'timestamptz ''2024-01-01'' + v * interval ''137.123 ms''', '(a, b)', 'a, b', 'a DESC, b DESC', 12000, 0.82),
	('int', 'hashint4(v)', 'int', 'hashint4(v + 1000000)', '(a, b DESC)', 'a, b DESC', 'a DESC, b', 12000, 0.94),
	('int8', 'hashint4(v)', 'int8', 'v', '(a DESC) INCLUDE (b)', 'a DESC', 'a', 12000, 0.82),
	('date', 'date ''2000-01-01'' + v % 5000', 'text', 'md5(v::text)', '(a, b)', 'a, b', 'a DESC, b DESC', 12000, 0.99);
SELECT s.id, s.atype, s.btype, s.index, built <= most AS built, loaded <= most + 0.12 AS loaded, single <= most + 0.04 AS single, good
FROM shapes s, load(s) WHERE s.rows > 1000 ORDER BY id;

-- Others: text of all lengths, nulls, mixed alignments, an 8-aligned column that keeps bodies at multiples of 8
INSERT INTO shapes (atype, a, btype, b, index, keys, back) VALUES
	('text COLLATE "C"', 'repeat(chr(65 + v % 7), v % 41)', 'int', 'v', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('text COLLATE "C"', 'CASE WHEN v % 5 > 0 THEN left(md5(v::text), v % 29) END', 'text', 'CASE WHEN v % 7 > 0 THEN repeat(chr(97 + v % 3), v % 13) END',
		'(a DESC, b)', 'a DESC, b', 'a, b DESC'),
	('text', 'md5((v % 300)::text) || v % 3', 'bool', 'v % 2 = 0', '(a NULLS FIRST) INCLUDE (b)', 'a NULLS FIRST', 'a DESC NULLS LAST'),
	('bytea', 'decode(repeat(''0a'', v % 37) || to_hex(16 + v % 239), ''hex'')', 'uuid', 'md5(v::text)', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('varchar(30) COLLATE "C"', 'repeat(md5(v::text), 1)::varchar(30)', 'float8', 'v / 7.0', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('numeric', 'v / 7.0', 'name', 'md5(v::text)', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('uuid', 'md5(v::text)', '"char"', 'chr(v % 50 + 40)', '(a, b DESC)', 'a, b DESC', 'a DESC, b'),
	('text COLLATE "C"', 'repeat(md5((v % 10)::text), 40 + v % 3)', 'int', 'v', '(a)', 'a', 'a DESC');

-- Narrow items of several columns: padding, none, rests of all lengths, keys that windows hold, or hold with their low bits left out, or don't
INSERT INTO shapes (atype, a, btype, b, index, keys, back) VALUES
	('bool', 'v % 3 = 0', 'int', 'v', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int2', 'v % 700', 'int', 'v % 13', '(a NULLS FIRST, b DESC NULLS LAST)', 'a NULLS FIRST, b DESC NULLS LAST', 'a DESC NULLS LAST, b NULLS FIRST'),
	('"char"', 'chr(v % 90 + 33)', 'float8', 'v / 3.0', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('date', 'date ''1990-01-01'' + v % 300', 'int', 'v', '(a DESC, b)', 'a DESC, b', 'a, b DESC'),
	('oid', '4294967295 - v', 'uuid', 'md5(v::text)', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int', 'v % 50', 'text', 'repeat(''x'', v % 80)', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int', 'v % 40', 'text COLLATE "C"', 'CASE WHEN v % 9 > 0 THEN left(md5(v::text), v % 33) END', '(a DESC) INCLUDE (b)', 'a DESC', 'a'),
	('int', 'v * 100', 'int2', 'v % 5', '(a) INCLUDE (b)', 'a', 'a DESC'),
	('int', 'v % 7', 'int8', 'v', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int8', '(v - 700) * 20000000000007', 'int8', 'v', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int8', 'CASE WHEN v % 50 = 0 THEN v * 1000000000000007 ELSE v / 4 END', 'int', 'v', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('timestamptz', 'timestamptz ''2013-01-01'' + v / 3 * interval ''1 day''', 'name', 'md5(v::text)', '(a NULLS FIRST, b)', 'a NULLS FIRST, b', 'a DESC NULLS LAST, b DESC'),
	('timestamp', 'CASE v % 50 WHEN 0 THEN ''infinity'' WHEN 1 THEN ''-infinity'' ELSE timestamp ''2013-01-01'' + v * interval ''1 s'' END', 'numeric', 'v / 7.0', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('xid8', '(v % 100)::text', 'text', 'v::text', '(a, b DESC)', 'a, b DESC', 'a DESC, b'),
	-- The second column begins within the first four bytes, or eight: none is narrow.
	('int2', 'v % 700', 'text', 'v::text', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('bool', 'v % 2 = 0', 'bool', 'v % 3 = 0', '(a, b)', 'a, b', 'a DESC, b DESC'),
	('int', 'v', 'int', 'v', '(a, b, (b::int8))', 'a, b', 'a DESC, b DESC');
SELECT s.id, s.atype, s.btype, s.index, good FROM shapes s, load(s) WHERE s.rows = 1000 ORDER BY id;

-- VACUUM, and what comes after it in the rows' places
SELECT format('VACUUM (INDEX_CLEANUP ON) t%s', id) FROM shapes ORDER BY id \gexec
SELECT id FROM shapes WHERE NOT sound(shapes);
SELECT format('INSERT INTO t%1$s SELECT a, b FROM probes%1$s', id) FROM shapes ORDER BY id \gexec
SELECT id FROM shapes WHERE NOT sound(shapes);
DROP SCHEMA blink_bodies CASCADE;
