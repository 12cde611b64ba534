-- Random queries, each answered by an index of mtpower_blink and by a sequential scan.  Where the index
-- gives the order, equal keys must come in the order of their TIDs, backward in the reverse.
CREATE SCHEMA blink_scan_random;
SET search_path = blink_scan_random, public;
SET timezone = 'UTC';
SET jit = off;  -- forbidden plans look expensive
SET enable_material = off;
SELECT setseed(0.2013);

CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- Columns, their values, and values of other types that they can be compared with.
CREATE TABLE cols (col text, typ text, vals text[], others text[]);
INSERT INTO cols VALUES
	('i2', 'int2', '{-32768,-7,-1,0,1,2,3,100,32767}', '{-32769::int4,32768::int4,3::int4,2::int8,-9223372036854775808::int8,9223372036854775807::int8}'),
	('i4', 'int4', '{-2147483648,-7,-1,0,1,2,3,100,32768,2147483647}', '{2::int2,-32768::int2,-2147483649::int8,2147483648::int8,3::int8,4294967297::int8}'),
	('i8', 'int8', '{-9223372036854775808,-4294967296,-1,0,1,2,4294967296,9223372036854775807}', '{1::int2,2::int4,2147483647::int4}'),
	('f4', 'float4', '{-Infinity,-1.5,-0.0,0.0,0.1,1.5,1e30,Infinity,NaN}', '{0.1::float8,1.5::float8,''NaN''::float8,1e300::float8,-0.0::float8}'),
	('f8', 'float8', '{-Infinity,-1.5,-0.0,0.0,0.1,1.5,1e300,Infinity,NaN}', '{0.1::float4,1.5::float4,''NaN''::float4,''-Infinity''::float4,0.0::float4}'),
	('n', 'numeric', '{-Infinity,-1.5,0,0.10,0.1,1.5,12345678901234567890,NaN}', NULL),
	('d', 'date', '{-infinity,4713-01-01 BC,1969-12-31,2000-01-01,2013-11-21,infinity}', '{''2000-01-01 00:00''::timestamp,''2000-01-01 00:00:01''::timestamp,''2013-11-21 00:00+02''::timestamptz,''infinity''::timestamp}'),
	('ts', 'timestamp', '{-infinity,1969-12-31,2000-01-01,2000-01-01 00:00:01,2013-11-21,infinity}', '{''2000-01-01''::date,''2013-11-21''::date,''2000-01-01 00:00:01+00''::timestamptz,''-infinity''::date}'),
	('tz', 'timestamptz', '{-infinity,1969-12-31,2000-01-01,2000-01-01 00:00:01,2013-11-21,infinity}', '{''2000-01-01''::date,''2000-01-01 00:00:01''::timestamp}'),
	('t', 'text', '{"",a,A,aa,ab,"a b",b,abcdefgh,abcdefghi,abcdefgha,ä,z,Z}', '{''ab''::name}'),
	('tl', 'text', '{"",a,A,aa,ab,"a b",b,abcdefgh,abcdefghi,abcdefgha,ä,z,Z}', NULL),
	('ti', 'text', '{"",a,A,aa,ab,"a b",b,abcdefgh,abcdefghi,abcdefgha,ä,z,Z}', NULL),
	('tn', 'text', '{"",a,A,aa,ab,AB,b,abcdefgh,ABCDEFGH,ä,Ä,z,Z}', NULL),
	('nm', 'name', '{"",a,ab,abcdefgh,abcdefghi,z}', '{''ab''::text,''abcdefghij''::text,''''::text}'),
	('c', 'bpchar(4)', '{"",a,ab,"a b",zzzz}', NULL),
	('u', 'uuid', '{00000000-0000-0000-0000-000000000000,00000000-0000-0001-0000-000000000000,00000000-0000-0001-0000-000000000001,ffffffff-ffff-ffff-ffff-ffffffffffff}', NULL),
	('b', 'bool', '{f,t}', NULL),
	('ch', '"char"', '{a,b,"\\377"}', NULL),
	('o', 'oid', '{0,1,4294967295}', NULL),
	('by', 'bytea', '{"",\\x00,\\x0000,\\x01,\\x0102030405060708,\\x010203040506070809,\\xff}', NULL),
	('ia', 'int4[]', '{"{}","{1}","{1,2}","{1,NULL}","{2}"}', NULL),
	('iv', 'interval', '{-1 mon,0,1 day,24:00,30 days,1 mon}', NULL);

SELECT 'CREATE TABLE r (id int, ' || string_agg(col || ' ' || typ || CASE col WHEN 't' THEN ' COLLATE "C"'
	WHEN 'tl' THEN ' COLLATE "C.utf8"' WHEN 'ti' THEN ' COLLATE "en-x-icu"' WHEN 'tn' THEN ' COLLATE nocase' ELSE '' END, ', ') || ')' AS ddl
FROM cols \gset
:ddl;

-- A value of a column, as an expression; one in eight is null.
CREATE FUNCTION value(c cols, foreign_too bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	vals text[] := CASE WHEN foreign_too AND c.others IS NOT NULL AND random() < 0.4 THEN c.others END;
	n int;
BEGIN
	IF vals IS NOT NULL THEN
		n := 1 + floor(random() * cardinality(vals));
		RETURN regexp_replace(vals[n], '^(-?[0-9.e]+)::(.*)$', '''\1''::\2');
	END IF;
	IF random() < 0.125 THEN RETURN 'NULL::' || c.typ; END IF;
	n := 1 + floor(random() * cardinality(c.vals));
	RETURN quote_literal(c.vals[n]) || '::' || c.typ;
END $$;

-- Rows of random values.
CREATE FUNCTION fill(nrows int, start int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	exprs text;
BEGIN
	SELECT string_agg(format('CASE WHEN random() >= 0.125 THEN (%L::text[])[1 + floor(random() * %s)]::%s END',
		vals, cardinality(vals), typ), ', ') INTO exprs FROM cols;
	EXECUTE format('INSERT INTO r SELECT %s + i, %s FROM generate_series(1, %s) i', start, exprs, nrows);
END $$;
SELECT fill(1200, 0);

-- A condition on a column.
CREATE FUNCTION condition(c cols) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ops text[] := '{<,<=,=,=,=,>=,>}';
	op text := ops[1 + floor(random() * 7)];
	kind float := random();
BEGIN
	IF c.typ = 'bool' AND kind < 0.2 THEN
		RETURN CASE WHEN random() < 0.5 THEN '' ELSE 'NOT ' END || c.col;
	ELSIF kind < 0.1 THEN
		RETURN c.col || ' IS NULL';
	ELSIF kind < 0.2 THEN
		RETURN c.col || ' IS NOT NULL';
	ELSIF kind < 0.4 AND c.typ !~ '\[' THEN
		RETURN format('%s %s ANY (ARRAY[%s, %s, %s]::%s[])', c.col, op, value(c, false), value(c, false), value(c, false), c.typ);
	ELSIF kind < 0.6 THEN
		RETURN format('%s >%s %s AND %s <%s %s', c.col, CASE WHEN random() < 0.5 THEN '=' ELSE '' END, value(c, true),
			c.col, CASE WHEN random() < 0.5 THEN '=' ELSE '' END, value(c, true));
	ELSE
		RETURN format('%s %s %s', c.col, op, value(c, true));
	END IF;
END $$;

CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	whole text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		whole := whole || line || E'\n';
	END LOOP;
	RETURN whole;
END $$;

-- Which kinds of scan are allowed.
CREATE FUNCTION allow(seq bool, idx bool, only_idx bool, bitmap bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', idx::text, true),
		set_config('enable_indexonlyscan', only_idx::text, true), set_config('enable_bitmapscan', bitmap::text, true);
$$;

CREATE TABLE tally (what text PRIMARY KEY, n int, differ int);
CREATE FUNCTION count_one(kind text, differs bool) RETURNS void LANGUAGE sql AS $$
	INSERT INTO tally VALUES (kind, 1, differs::int)
	ON CONFLICT (what) DO UPDATE SET n = tally.n + 1, differ = tally.differ + differs::int;
$$;

-- One query in all the ways: `keys` is the ORDER BY of the index, `reverse` its opposite.
CREATE FUNCTION compare(keys text, reverse text, names text, cond text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	query text;
	want text;
	got text;
	how text;
	ordering text;
	tie text;
BEGIN
	FOR i IN 1 .. 2 LOOP
		ordering := CASE i WHEN 1 THEN keys ELSE reverse END;

		-- Index scan.  Columns fixed by = don't count for the order, so the plan tells the direction.
		query := format('SELECT id FROM r WHERE %s ORDER BY %s', cond, ordering);
		PERFORM allow(false, true, false, false);
		how := plan(query);
		tie := CASE WHEN how ~ 'Index Scan Backward' THEN ', ctid DESC' ELSE ', ctid' END;
		PERFORM allow(true, false, false, false);
		EXECUTE format('SELECT string_agg(id::text, '','') FROM (%s%s) q', query, tie) INTO want;
		PERFORM allow(false, true, false, false);
		IF how ~ 'Index Scan (Backward )?using r_x on r' THEN
			IF how ~ 'Sort' THEN	-- = ANY on a lower column
				query := format('SELECT id FROM (%s) q ORDER BY id', query);
				SELECT string_agg(id, ',' ORDER BY id::int) INTO want FROM unnest(string_to_array(want, ',')) id;
			END IF;
			EXECUTE format('SELECT string_agg(id::text, '','') FROM (%s) q', query) INTO got;
			PERFORM count_one(CASE WHEN how ~ 'Backward' THEN 'index scan backward' ELSE 'index scan' END, got IS DISTINCT FROM want);
			IF got IS DISTINCT FROM want THEN
				RAISE WARNING 'index scan differs: %', query;
			END IF;
		ELSE
			PERFORM count_one('not an index scan', how !~ 'One-Time Filter: false');
			IF how !~ 'One-Time Filter: false' THEN RAISE WARNING 'plan %: %', query, how; END IF;
		END IF;

		-- Index-only scan.
		query := format('SELECT ROW(%s)::text AS t FROM r WHERE %s ORDER BY %s', names, cond, ordering);
		PERFORM allow(false, true, true, false);
		how := plan(query);
		tie := CASE WHEN how ~ 'Index Only Scan Backward' THEN ', ctid DESC' ELSE ', ctid' END;
		PERFORM allow(true, false, false, false);
		EXECUTE format('SELECT string_agg(t, '','') FROM (%s%s) q', query, tie) INTO want;
		PERFORM allow(false, true, true, false);
		IF how ~ 'Index Only Scan (Backward )?using r_x on r' AND how !~ 'Sort' THEN
			EXECUTE format('SELECT string_agg(t, '','') FROM (%s) q', query) INTO got;
			PERFORM count_one('index-only scan', got IS DISTINCT FROM want);
			IF got IS DISTINCT FROM want THEN
				RAISE WARNING 'index-only scan differs: %', query;
			END IF;
		END IF;
	END LOOP;

	-- Bitmap scan, which gives the table's order.
	query := format('SELECT id FROM r WHERE %s', cond);
	PERFORM allow(true, false, false, false);
	EXECUTE format('SELECT string_agg(id::text, '','') FROM (%s) q', query) INTO want;
	PERFORM allow(false, false, false, true);
	IF plan(query) ~ 'Bitmap Index Scan on r_x' THEN
		EXECUTE format('SELECT string_agg(id::text, '','') FROM (%s) q', query) INTO got;
		PERFORM count_one('bitmap scan', got IS DISTINCT FROM want);
		IF got IS DISTINCT FROM want THEN
			RAISE WARNING 'bitmap scan differs: %', query;
		END IF;
	END IF;
END $$;

-- A scrolling cursor that wanders about, against the array of all rows.
CREATE FUNCTION wander(keys text, cond text, steps int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id FROM r WHERE %s ORDER BY %s', cond, keys);
	ids int[];
	c refcursor;
	at int := 0;
	hop int;
	got int;
	want int;
	differs bool := false;
BEGIN
	PERFORM allow(true, false, false, false);
	EXECUTE format('SELECT array_agg(id) FROM (%s, ctid) q', query) INTO ids;
	PERFORM allow(false, true, false, false);
	IF plan(query) ~ 'Sort|Result' THEN RETURN; END IF;
	OPEN c SCROLL FOR EXECUTE query;
	FOR i IN 1 .. steps LOOP
		hop := CASE floor(random() * 6) WHEN 0 THEN 1 WHEN 1 THEN -1 WHEN 2 THEN 1 WHEN 3 THEN 2 ELSE floor(random() * 400 - 200) END;
		IF hop = 1 THEN FETCH NEXT FROM c INTO got;
		ELSIF hop = -1 THEN FETCH PRIOR FROM c INTO got;
		ELSE FETCH RELATIVE hop FROM c INTO got;
		END IF;
		at := greatest(0, least(at + hop, coalesce(cardinality(ids), 0) + 1));
		want := ids[at];
		IF got IS DISTINCT FROM want THEN
			differs := true;
			RAISE WARNING 'cursor differs at step %, hop %: % instead of % for %', i, hop, got, want, query;
			EXIT;
		END IF;
	END LOOP;
	CLOSE c;
	PERFORM count_one('scrolling cursor', differs);
END $$;

-- An index on `key_cols` with random order, and n queries that use it.
CREATE FUNCTION try_index(key_cols text[], n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	key_defs text := '';
	reverse text := '';
	names text := array_to_string(key_cols, ', ');
	included text := '';
	conds text;
	backward bool;
	nulls_first bool;
	c cols;
BEGIN
	FOR i IN 1 .. cardinality(key_cols) LOOP
		backward := random() < 0.5;
		nulls_first := random() < 0.5;
		key_defs := key_defs || ', ' || key_cols[i] || CASE WHEN backward THEN ' DESC' ELSE '' END || CASE WHEN nulls_first THEN ' NULLS FIRST' ELSE ' NULLS LAST' END;
		reverse := reverse || ', ' || key_cols[i] || CASE WHEN backward THEN '' ELSE ' DESC' END || CASE WHEN nulls_first THEN ' NULLS LAST' ELSE ' NULLS FIRST' END;
	END LOOP;
	key_defs := substr(key_defs, 3);
	reverse := substr(reverse, 3);
	IF random() < 0.3 THEN
		included := ' INCLUDE (id)';
		names := names || ', id';
	END IF;
	EXECUTE format('CREATE INDEX r_x ON r USING mtpower_blink (%s)%s', key_defs, included);
	FOR i IN 1 .. n LOOP
		conds := '';
		FOR k IN 1 .. cardinality(key_cols) LOOP
			FOR j IN 1 .. floor(random() * 1.99) + CASE WHEN k = 1 THEN 1 ELSE 0 END LOOP
				SELECT * INTO c FROM cols WHERE col = key_cols[k];
				conds := conds || ' AND ' || condition(c);
			END LOOP;
		END LOOP;
		PERFORM compare(key_defs, reverse, names, substr(conds, 6));
		IF i % 4 = 0 THEN
			PERFORM wander(key_defs, substr(conds, 6), 60);
		END IF;
	END LOOP;
	PERFORM wander(key_defs, 'true', 300);
	DROP INDEX r_x;
END $$;

-- Each type alone …
SELECT count(*) FROM (SELECT try_index(ARRAY[col], 12) FROM cols) q;
-- … and with others.
SELECT count(*) FROM (SELECT try_index(ARRAY(SELECT col FROM cols ORDER BY random() LIMIT 1 + width), 12)
	FROM generate_series(1, 6) i, generate_series(1, 3) width) q;
SELECT what, n > 100 AS enough, differ FROM tally ORDER BY what;

-- The same rows in every release: how many random numbers the queries before took depends on their plans.
SELECT setseed(0.2015);
TRUNCATE r;
SELECT fill(1200, 0);
-- Rows that die and come again: dead items get their hints by one scan, and the next ones skip them.
CREATE INDEX r_x ON r USING mtpower_blink (i4, t);
CREATE TABLE probe (i4 int4);
INSERT INTO probe SELECT vals[1 + n % 10]::int4 FROM cols, generate_series(0, 19) n WHERE col = 'i4';
DELETE FROM r WHERE id % 3 = 0;
SELECT allow(false, true, false, false) \g /dev/null
SELECT compare('i4, t', 'i4 DESC, t DESC', 'i4, t', 'i4 >= 0');
SELECT compare('i4, t', 'i4 DESC, t DESC', 'i4, t', 'i4 = ANY (ARRAY[1, NULL, 3, 1])');
UPDATE r SET i4 = i4 + 1 WHERE i4 BETWEEN 0 AND 100;
SELECT compare('i4, t', 'i4 DESC, t DESC', 'i4, t', 'i4 >= 0');
SELECT fill(400, 1200);
SELECT compare('i4, t', 'i4 DESC, t DESC', 'i4, t', 'i4 >= 0 AND t < ''b''');
SELECT compare('i4, t', 'i4 DESC, t DESC', 'i4, t', 'i4 IS NULL OR i4 IS NOT NULL');
SELECT wander('i4, t', 'i4 >= 0', 300);

-- Joins: nested loops rescan with new keys, merge joins mark and restore among duplicates.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT plan('SELECT count(*) FROM probe p JOIN r ON r.i4 = p.i4') ~ 'Index (Only )?Scan using r_x' AS uses_index;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4::int8 + 1 AND r.t >= 'a';
SET enable_nestloop = off;
SET enable_mergejoin = on;
CREATE INDEX probe_x ON probe USING mtpower_blink (i4);
SELECT p ~ 'Merge Join' AND p !~ 'Sort|Materialize' AS marks FROM plan('SELECT count(*) FROM r p JOIN r ON r.i4 = p.i4 WHERE p.i4 <= 3') p;
SELECT count(*), sum(r.id), sum(p.id) FROM r p JOIN r ON r.i4 = p.i4 WHERE p.i4 <= 3;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4;
SELECT count(*) FROM r p JOIN r ON r.i4 = p.i4 AND r.t = p.t;
SET enable_seqscan = on;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_hashjoin = on;
SET enable_mergejoin = off;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4::int8 + 1 AND r.t >= 'a';
SELECT count(*), sum(r.id), sum(p.id) FROM r p JOIN r ON r.i4 = p.i4 WHERE p.i4 <= 3;
SELECT count(*), sum(r.id) FROM probe p JOIN r ON r.i4 = p.i4;
SELECT count(*) FROM r p JOIN r ON r.i4 = p.i4 AND r.t = p.t;
SELECT sum(differ) FROM tally;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA blink_scan_random CASCADE;
