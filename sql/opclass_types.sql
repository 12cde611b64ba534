-- Every built-in btree operator class, one after the other: an mtpower_blink index answers as a btree index does; and every one of
-- hash: an mtpower_hash index answers as a sequential scan does.

-- A value of each type, made of a number.  Polymorphic types by an example each.
CREATE TYPE opclass_enum AS ENUM ('e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6');
ALTER TYPE opclass_enum ADD VALUE 'e25' BEFORE 'e3';
CREATE TYPE opclass_record AS (a int, b text, c numeric);
CREATE TABLE opclass_sample (declared text PRIMARY KEY, concrete text, expression text);
INSERT INTO opclass_sample VALUES
	('"char"', '"char"', $$chr(33 + i % 90)::"char"$$),
	('anyarray', 'int[]', $$ARRAY[i % 7, nullif(i % 5, 0), i]$$),
	('anyenum', 'opclass_enum', $$(enum_range(null::opclass_enum))[1 + i % 8]$$),
	('anymultirange', 'int4multirange', $$int4multirange(int4range(i % 20, i % 20 + i % 3), int4range(40, 40 + i))$$),
	('anyrange', 'numrange', $$numrange(i % 10, i % 10 + i % 4, (ARRAY['[]', '[)', '(]', '()'])[1 + i % 4])$$),
	('bigint', 'bigint', $$CASE i % 6 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 ELSE (i - 150) * 100000000::bigint END$$),
	('bit', 'bit(9)', $$(i * 3)::bit(9)$$),
	('bit varying', 'varbit', $$substring((i * 5)::bit(12), 1, 1 + i % 12)::varbit$$),
	('boolean', 'boolean', $$i % 2 = 0$$),
	('bytea', 'bytea', $$decode(substr(md5((i % 100)::text), 1, (i % 9) * 2), 'hex')$$),
	('character', 'char(8)', $$substr(md5((i % 100)::text), 1, i % 9)$$),
	('date', 'date', $$CASE i % 50 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE date '2000-01-01' + (i * 37) % 20000 END$$),
	('double precision', 'float8', $$CASE i % 20 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity' ELSE (i - 150) / 7.0 END$$),
	('inet', 'inet', $$(CASE i % 3 WHEN 0 THEN 'fe80::' || to_hex(i) ELSE '10.' || i % 4 || '.0.' || i % 250 || '/' || 8 + i % 25 END)::inet$$),
	('integer', 'integer', $$CASE i % 30 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647 ELSE (i * 7919) % 300 - 150 END$$),
	('interval', 'interval', $$make_interval(days => i % 40, hours => (i % 7) * 24)$$),
	('jsonb', 'jsonb', $$CASE i % 4 WHEN 0 THEN to_jsonb(i) WHEN 1 THEN to_jsonb(i::text) WHEN 2 THEN jsonb_build_object('a', i % 10) ELSE jsonb_build_array(i % 10) END$$),
	('macaddr', 'macaddr', $$('08:00:2b:01:02:' || lpad(to_hex(i % 256), 2, '0'))::macaddr$$),
	('macaddr8', 'macaddr8', $$('08:00:2b:01:02:03:04:' || lpad(to_hex(i % 256), 2, '0'))::macaddr8$$),
	('money', 'money', $$(i - 150)::money$$),
	('name', 'name', $$substr(md5((i % 100)::text), 1, i % 20)::name$$),
	('numeric', 'numeric', $$CASE i % 20 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN 1.0 WHEN 4 THEN 1.00 ELSE (i - 150) ^ 5 / 7.0 END$$),
	('oid', 'oid', $$(4294967295 - (i % 3) * 2000000000::bigint - i)::oid$$),
	('oidvector', 'oidvector', $$(i % 9 || ' ' || i)::oidvector$$),
	('pg_lsn', 'pg_lsn', $$('0/0'::pg_lsn + i * 123456789::numeric)$$),
	('real', 'float4', $$CASE i % 20 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN '3e38' WHEN 4 THEN '-3e38' ELSE (i - 150) / 7.0 END$$),
	('record', 'opclass_record', $$ROW(i % 5, substr(md5(i::text), 1, 2), nullif(i % 3, 0) || '.0')::opclass_record$$),
	('smallint', 'smallint', $$(CASE i % 30 WHEN 0 THEN -32768 WHEN 1 THEN 32767 ELSE (i * 7919) % 300 - 150 END)::int2$$),
	('text', 'text', $$repeat(chr(97 + i % 26), i % 50) || i % 10$$),
	('tid', 'tid', $$('(' || i % 10 || ',' || 1 + i % 60 || ')')::tid$$),
	('time with time zone', 'timetz', $$('12:00'::time + make_interval(mins => i % 60) || '+0' || i % 10)::timetz$$),
	('time without time zone', 'time', $$'00:00'::time + make_interval(mins => i * 37)$$),
	('timestamp with time zone', 'timestamptz', $$CASE i % 50 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE timestamptz '2000-01-01 00:00:00Z' + make_interval(hours => (i * 371) % 400000) END$$),
	('timestamp without time zone', 'timestamp', $$CASE i % 50 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE timestamp '2000-01-01' + make_interval(hours => (i * 371) % 400000) END$$),
	('tsquery', 'tsquery', $$(CASE i % 3 WHEN 0 THEN 'x' ELSE 'w' || i % 20 || ' & ! v' || i END)::tsquery$$),
	('tsvector', 'tsvector', $$('w' || i % 20 || ':' || 1 + i % 9 || ' v' || i)::tsvector$$),
	('uuid', 'uuid', $$md5((i % 200)::text)::uuid$$),
	('xid8', 'xid8', $$((i * 7919::bigint) % 1000 * 10000000000)::text::xid8$$);

-- Operator classes whose type has no sample: none.
SELECT DISTINCT opcintype::regtype FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND oid < 16384
	AND opcintype::regtype::text NOT IN (SELECT declared FROM opclass_sample);

-- Whether a query returns something else from a table with our index than from the same with a btree index, and whether
-- only the latter is used.
CREATE FUNCTION opclass_differ(query text, OUT differs bool, OUT unused bool, OUT hit bool) LANGUAGE plpgsql AS $$
DECLARE
	ours text;
	theirs text;
	our_plan text;
	their_plan text;
BEGIN
	EXECUTE format('SELECT string_agg(id::text, '' '') FROM (' || query || ') q', 'opclass_btree') INTO theirs;
	EXECUTE format('SELECT string_agg(id::text, '' '') FROM (' || query || ') q', 'opclass_blink') INTO ours;
	EXECUTE format('EXPLAIN (FORMAT JSON) ' || query, 'opclass_btree') INTO their_plan;
	EXECUTE format('EXPLAIN (FORMAT JSON) ' || query, 'opclass_blink') INTO our_plan;
	hit := ours IS NOT NULL;
	differs := ours IS DISTINCT FROM theirs;
	unused := their_plan ~ '"Index Name": "opclass_btree_v_idx"' AND our_plan !~ '"Index Name": "opclass_blink_v_idx"';
END $$;

-- All checks of one operator class.  (PostgreSQL 15 makes "NOT v" of "v = false", and knows that again only where the
-- index has btree's own operator family.)
CREATE FUNCTION opclass_check(class oid, column_options text, constants int, OUT queries int, OUT hits int, OUT problems text[]) LANGUAGE plpgsql AS $$
DECLARE
	c record;
	o record;
	s opclass_sample;
	r record;
	i int;
	am text;
	tab text;
	query text;
	constant text;
BEGIN
	SELECT * INTO c FROM pg_opclass WHERE oid = class;
	SELECT * INTO STRICT s FROM opclass_sample WHERE declared = c.opcintype::regtype::text;
	FOREACH am IN ARRAY ARRAY['btree', 'blink'] LOOP
		tab := 'opclass_' || am;
		EXECUTE format('DROP TABLE IF EXISTS %I', tab);
		EXECUTE format('CREATE TABLE %I (id int, v %s)', tab, s.concrete);
		-- Some rows are there when the index is built, some come later; some are null.
		EXECUTE format('INSERT INTO %I SELECT i, %s FROM generate_series(1, 200) i', tab, s.expression);
		EXECUTE format('INSERT INTO %I SELECT i, NULL FROM generate_series(201, 205) i', tab);
		-- nbtree returns equal keys in another order when it scans posting lists backward.
		EXECUTE format('CREATE INDEX ON %I USING %s (v %I.%I %s) %s', tab, replace(am, 'blink', 'mtpower_blink'),
			c.opcnamespace::regnamespace, c.opcname, column_options,
			CASE am WHEN 'btree' THEN 'WITH (deduplicate_items = off)' END);
		EXECUTE format('INSERT INTO %I SELECT i, %s FROM generate_series(206, 300) i', tab, s.expression);
		EXECUTE format('INSERT INTO %I SELECT i, NULL FROM generate_series(301, 305) i', tab);
	END LOOP;
	queries := 0;
	hits := 0;
	problems := '{}';

	-- The whole in order, both ways; and every operator with that left type, cross-type ones too, with some constants.
	FOR o IN SELECT a.amopopr::regoper AS name, a.amopopr::regoperator AS oper, n.nspname, p.oprname, t.*, a.amopstrategy AS strategy
		FROM pg_amop a JOIN pg_operator p ON p.oid = a.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
			JOIN opclass_sample t ON t.declared = a.amoprighttype::regtype::text
		WHERE a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype ORDER BY a.amoprighttype, a.amopstrategy
	LOOP
		FOREACH i IN ARRAY (ARRAY[150, 31, 77, 201, 240])[:constants] LOOP
			EXECUTE format('SELECT quote_literal(format(''%%s'', (%s)::%s)) || ''::%s'' FROM (SELECT %s AS i) x', o.expression, o.concrete, o.concrete, i)
				INTO constant;
			query := format('SELECT id FROM %%I WHERE v OPERATOR(%I.%s) %s', o.nspname, o.oprname, replace(constant, '%', '%%'));
			SELECT * INTO r FROM opclass_differ(query);
			queries := queries + 1;
			hits := hits + r.hit::int;
			IF r.differs OR r.unused AND o.oper <> '=(boolean,boolean)'::regoperator THEN
				problems := problems || (query || CASE WHEN r.differs THEN '' ELSE ' does not use the index' END);
			END IF;
		END LOOP;
		CONTINUE WHEN o.strategy NOT IN (1, 5) OR o.declared <> s.declared;
		FOREACH query IN ARRAY ARRAY[format('SELECT id FROM %%I ORDER BY v USING OPERATOR(%I.%s) NULLS FIRST', o.nspname, o.oprname),
			format('SELECT id FROM %%I ORDER BY v USING OPERATOR(%I.%s) NULLS LAST', o.nspname, o.oprname)]
		LOOP
			SELECT * INTO r FROM opclass_differ(query);
			queries := queries + 1;
			hits := hits + r.hit::int;
			-- An index serves one order and its reverse; the other two are sorted.
			IF r.differs THEN
				problems := problems || query;
			END IF;
		END LOOP;
	END LOOP;
	FOREACH query IN ARRAY ARRAY['SELECT id FROM %I WHERE v IS NULL', 'SELECT id FROM %I WHERE v IS NOT NULL'] LOOP
		SELECT * INTO r FROM opclass_differ(query);
		queries := queries + 1;
		hits := hits + r.hit::int;
		IF r.differs OR r.unused THEN
			problems := problems || query;
		END IF;
	END LOOP;
END $$;

SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET jit = off;
SET client_min_messages = warning;
CREATE TABLE opclass_result AS
SELECT c.opcname, o.options, k.*
FROM pg_opclass c, (VALUES ('ASC', 5), ('DESC', 2), ('ASC NULLS FIRST', 1), ('DESC NULLS LAST', 1)) o (options, constants),
	opclass_check(c.oid, o.options, o.constants) k
WHERE c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND c.oid < 16384;
SELECT opcname, options, p FROM opclass_result, unnest(problems) p ORDER BY 1, 2, 3 LIMIT 20;
SELECT count(*) > 160 AS all_classes, sum(queries) > 3000 AS many_queries, min(queries) > 10 AS everywhere,
	sum(hits) > 0.7 * sum(queries) AS most_find_rows FROM opclass_result;

-- The same as bitmap scans.
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT c.opcname, p FROM pg_opclass c, opclass_check(c.oid, 'ASC', 3) k, unnest(k.problems) p
WHERE c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND c.oid < 16384 ORDER BY 1, 2 LIMIT 20;

RESET enable_indexscan;
RESET enable_indexonlyscan;

-- Hash operator classes.
INSERT INTO opclass_sample VALUES
	('aclitem', 'aclitem', $$makeaclitem(10, 10, (ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'])[1 + i % 5], i % 2 = 0)$$),
	('cid', 'cid', $$(i % 100)::text::cid$$),
	('xid', 'xid', $$(4294967000 + i % 100)::text::xid$$);
-- A name's collation is C, and the text it is compared with has to have the same for an index to serve.
UPDATE opclass_sample SET concrete = 'text COLLATE "C"' WHERE declared = 'text';
SELECT DISTINCT opcintype::regtype FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'hash') AND oid < 16384
	AND opcintype::regtype::text NOT IN (SELECT declared FROM opclass_sample);

-- A query's rows by a kind of scan, and the index used.
CREATE FUNCTION opclass_rows(query text, scan text, OUT ids text, OUT index text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('enable_seqscan', (scan = 'seq')::text, true), set_config('enable_indexscan', (scan = 'index')::text, true),
		set_config('enable_bitmapscan', (scan = 'bitmap')::text, true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		index := coalesce(index, substring(line FROM '(?:Index Scan using|Bitmap Index Scan on) (\w+)'));
	END LOOP;
	EXECUTE format('SELECT string_agg(id::text, '' '' ORDER BY id) FROM (%s) q', query) INTO ids;
END $$;
-- All equalities with that left type, cross-type ones too, with some constants.
CREATE FUNCTION opclass_check_hash(class oid, OUT queries int, OUT hits int, OUT problems text[]) LANGUAGE plpgsql AS $$
DECLARE
	c pg_opclass;
	s opclass_sample;
	o record;
	got record;
	i int;
	want text;
	scan text;
	query text;
	constant text;
BEGIN
	SELECT * INTO c FROM pg_opclass WHERE oid = class;
	SELECT * INTO STRICT s FROM opclass_sample WHERE declared = c.opcintype::regtype::text;
	EXECUTE format('CREATE TABLE opclass_hash (id int, v %s)', s.concrete);
	EXECUTE format('INSERT INTO opclass_hash SELECT i, %s FROM generate_series(1, 200) i', s.expression);
	EXECUTE format('CREATE INDEX opclass_hash_v ON opclass_hash USING mtpower_hash (v %I.%I)', c.opcnamespace::regnamespace, c.opcname);
	EXECUTE format('INSERT INTO opclass_hash SELECT i, %s FROM generate_series(201, 300) i', s.expression);
	INSERT INTO opclass_hash SELECT g, NULL FROM generate_series(301, 305) g;
	queries := 0;
	hits := 0;
	problems := '{}';
	FOR o IN SELECT n.nspname, p.oprname, a.amopopr, t.*
		FROM pg_amop a JOIN pg_operator p ON p.oid = a.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
			JOIN opclass_sample t ON t.declared = a.amoprighttype::regtype::text
		WHERE a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype ORDER BY a.amoprighttype
	LOOP
		FOREACH i IN ARRAY '{2,3,4,31,60,61,62,63,64,77,150,201,240,280}'::int[] LOOP
			EXECUTE format('SELECT format(''%%L::%s'', (%s)::%s) FROM (SELECT %s AS i) x', o.concrete, o.expression, o.concrete, i) INTO constant;
			query := format('SELECT id FROM opclass_hash WHERE v OPERATOR(%I.%s) %s', o.nspname, o.oprname, constant);
			SELECT ids INTO want FROM opclass_rows(query, 'seq');
			hits := hits + (want IS NOT NULL)::int;
			FOREACH scan IN ARRAY '{index,bitmap}'::text[] LOOP
				SELECT * INTO got FROM opclass_rows(query, scan);
				queries := queries + 1;
				IF got.ids IS DISTINCT FROM want OR got.index IS NULL AND o.amopopr <> '=(boolean,boolean)'::regoperator THEN
					problems := problems || format('%s, %s: %s, want %s', query, coalesce(got.index, 'no index'), got.ids, want);
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	PERFORM mtpower.verify_index('opclass_hash_v', true);
	DROP TABLE opclass_hash;
END $$;
CREATE TABLE opclass_hash_result AS
SELECT c.opcname, k.* FROM pg_opclass c, opclass_check_hash(c.oid) k
WHERE c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'hash') AND c.oid < 16384;
SELECT opcname, p FROM opclass_hash_result, unnest(problems) p ORDER BY 1, 2 LIMIT 20;
SELECT count(*) > 40 AS all_classes, sum(queries) > 1400 AS many_queries, min(queries) >= 28 AS everywhere, min(hits) >= 13 AS everywhere_rows
FROM opclass_hash_result;

DROP TABLE opclass_result, opclass_hash_result, opclass_btree, opclass_blink, opclass_sample;
DROP FUNCTION opclass_differ, opclass_check, opclass_rows, opclass_check_hash;
DROP TYPE opclass_enum, opclass_record;
