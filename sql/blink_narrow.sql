-- Leaves keep keys of one exact column in their directories alone (narrow items).  Sizes beside nbtree's, loaded alike, and the
-- contents, for keys that are dense enough for that, that are not, and for pages that have both kinds.
CREATE SCHEMA blink_narrow;
SET search_path = blink_narrow, public;
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;  -- forbidden plans look expensive

CREATE FUNCTION pages(index regclass) RETURNS numeric LANGUAGE sql AS
	$$ SELECT pg_relation_size(index) / current_setting('block_size')::numeric $$;

-- Do both ways of scanning give what a sequential scan gives?
CREATE FUNCTION reads(tab text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	query text;
	want text;
	got text;
	good bool := true;
BEGIN
	FOREACH query IN ARRAY ARRAY[
		'SELECT md5(string_agg(k::text, '','' ORDER BY k)) FROM (SELECT k FROM %s WHERE k IS NOT NULL ORDER BY k) s',
		'SELECT md5(string_agg(k::text, '','')) FROM (SELECT k FROM %s WHERE k >= (SELECT k FROM probes WHERE n = 1) ORDER BY k) s',
		'SELECT md5(string_agg(k::text, '','')) FROM (SELECT k FROM %s WHERE k < (SELECT k FROM probes WHERE n = 2) ORDER BY k DESC) s',
		'SELECT count(*)::text FROM %s WHERE k = ANY (ARRAY(SELECT k FROM probes))',
		'SELECT string_agg(k::text || ctid::text, '','' ORDER BY k, ctid) FROM %s WHERE k = (SELECT k FROM probes WHERE n = 3)',
		'SELECT count(*)::text FROM %s WHERE k IS NULL'] LOOP
		query := format(query, tab);
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
		EXECUTE query INTO want;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
		EXECUTE query INTO got;
		good := good AND want IS NOT DISTINCT FROM got;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE query INTO got;
		good := good AND want IS NOT DISTINCT FROM got;
		SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = on;
		EXECUTE query INTO got;
		good := good AND want IS NOT DISTINCT FROM got;
	END LOOP;
	RETURN good;
END $$;

-- A table of keys in random order, made of v = 1 .. rows, by three ways of loading.
CREATE FUNCTION check_kind(typ text, expr text, options text, rows int, out built numeric, out loaded numeric, out single numeric,
	out good bool) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	EXECUTE format('CREATE TABLE src AS SELECT row_number() OVER (ORDER BY hashint4(v)) AS n, (%s)::%s AS k FROM generate_series(1, %s) v',
		expr, typ, rows);
	CREATE TABLE probes AS SELECT row_number() OVER () AS n, k FROM src WHERE n % (rows / 50) = 7;
	good := true;

	CREATE TABLE t AS SELECT k FROM src ORDER BY n;
	EXECUTE format('CREATE INDEX b ON t USING btree (k %s)', options);
	EXECUTE format('CREATE INDEX m ON t USING mtpower_blink (k %s)', options);
	built := round(pages('m') / pages('b'), 2);
	DROP INDEX b;
	PERFORM mtpower.verify_index('m', true);
	good := good AND reads('t');
	DROP TABLE t;

	CREATE TABLE t (k int);
	EXECUTE format('ALTER TABLE t ALTER k TYPE %s USING NULL', typ);
	EXECUTE format('CREATE INDEX b ON t USING btree (k %s)', options);
	EXECUTE format('CREATE INDEX m ON t USING mtpower_blink (k %s)', options);
	FOR i IN 0 .. 39 LOOP
		INSERT INTO t SELECT k FROM src WHERE n % 40 = i ORDER BY n;
	END LOOP;
	loaded := round(pages('m') / pages('b'), 2);
	DROP INDEX b;
	PERFORM mtpower.verify_index('m', true);
	good := good AND reads('t');

	TRUNCATE t;
	EXECUTE format('CREATE INDEX b ON t USING btree (k %s)', options);
	FOR r IN SELECT k FROM src ORDER BY n LOOP
		INSERT INTO t VALUES (r.k);
	END LOOP;
	single := round(pages('m') / pages('b'), 2);
	DROP INDEX b;

	-- Nulls, rows that are gone, and keys that no window holds beside the others
	INSERT INTO t SELECT NULL FROM generate_series(1, 100);
	DELETE FROM t WHERE k IN (SELECT k FROM src WHERE n % 3 = 0);
	INSERT INTO t SELECT k FROM src WHERE n % 100 = 1;
	PERFORM mtpower.verify_index('m', true);
	good := good AND reads('t');
	DROP TABLE t, src, probes;
END $$;

-- Dense keys: sizes, too.  Then keys that are sparse, or of which only some are dense.
CREATE TABLE kinds (kind text, typ text, expr text, options text);
INSERT INTO kinds VALUES
	('int4', 'int4', 'v', ''),
	('int8, spread', 'int8', '(v - 9000) * 1000003::int8', 'DESC NULLS LAST'),
	('date', 'date', 'date ''1990-01-01'' + v', 'DESC'),
	('timestamp', 'timestamp', 'timestamp ''2013-01-01'' + v * interval ''1.000001 s''', ''),
	('timestamp, seconds', 'timestamptz', 'timestamptz ''2013-01-01'' + v * interval ''301 s''', 'NULLS FIRST'),
	('oid', 'oid', '4294967295 - v', '');
SELECT kind, built <= 0.76 AS built, loaded <= 0.8 AS loaded, single <= 0.8 AS single, good
FROM kinds, check_kind(typ, expr, options, 30000);
TRUNCATE kinds;
INSERT INTO kinds VALUES
	('bool', 'bool', 'v = 1', ''),
	('int2', 'int2', 'v - 3000', 'DESC'),
	('int4, spread', 'int4', '(v - 3000) * 600000', 'DESC'),
	('int8, all', 'int8', '(v - 3000) * 2000000000000007', ''),
	('int8, multiples', 'int8', '(v - 3000) * 1099511627776', 'NULLS FIRST'),
	('int8, few are far', 'int8', 'CASE WHEN v % 200 = 0 THEN v * 1000000000000007 ELSE v END', ''),
	('xid8', 'xid8', 'v::text', ''),
	('timestamp, days', 'timestamp', 'date ''1990-01-01'' + v', 'DESC'),
	('timestamp, hours', 'timestamp', 'timestamp ''2013-01-01'' + v * interval ''1 hour 0.000001 s''', ''),
	('timestamp, ends', 'timestamp', 'CASE v % 50 WHEN 0 THEN ''infinity'' WHEN 1 THEN ''-infinity'' ELSE timestamp ''2013-01-01'' + v * interval ''1 s'' END', ''),
	('time', 'time', 'time ''00:00'' + v * interval ''1.5 s''', ''),
	('"char"', '"char"', 'chr(v % 90 + 33)', ''),
	('float8, not exact', 'float8', 'v', '');
SELECT kind, good FROM kinds, check_kind(typ, expr, options, 6000);

-- Keys whose low bits are all the same, and which span nearly everything: no window gives them back, or one with all these bits left out.
CREATE TABLE far (a int8) WITH (autovacuum_enabled = off);
INSERT INTO far SELECT (hashint4(g)::int8 << 32) | 1 FROM generate_series(1, 3000) g;
CREATE INDEX far_built ON far USING mtpower_blink (a);
CREATE INDEX far_down ON far USING mtpower_blink ((a - 1) DESC);
SET mtpower.batch_min_rows = 0;
INSERT INTO far SELECT (hashint4(g)::int8 << 32) | 1 FROM generate_series(3001, 9000) g;
INSERT INTO far SELECT (g::int8 << 32) | 1 FROM generate_series(1, 2000) g;
RESET mtpower.batch_min_rows;
SELECT mtpower.verify_index('far_built', true), mtpower.verify_index('far_down', true);
DROP SCHEMA blink_narrow CASCADE;
