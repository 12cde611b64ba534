-- Lists: equal keys of a leaf of mtpower_blink are one item with a list of TIDs.  Indexes on keys of many types, built and filled in
-- every way, give in every kind of scan what the table has; and have lists where core's btree would have some, and nowhere else.
CREATE SCHEMA blink_lists;
SET search_path = blink_lists, public;
CREATE EXTENSION pageinspect SCHEMA blink_lists;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET jit = off;  -- forbidden plans look expensive
SET enable_material = off;
SET max_parallel_workers_per_gather = 0;
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
SELECT setseed(0.2026);

CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- What is on the leaves of an index.
CREATE FUNCTION leaves(i regclass, OUT items bigint, OUT tids bigint, OUT lists bigint, OUT pages bigint) LANGUAGE sql AS $$
	SELECT coalesce(sum(p.items), 0), coalesce(sum(p.tids), 0), coalesce(sum(p.lists), 0), count(*)
	FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p WHERE p.type = 'leaf'
$$;

-- ---------- the table and its indexes ----------

CREATE TABLE t (id int, n int, i2 int2, i4 int4, i8 int8, b bool, d date, tz timestamptz, c "char", tc text COLLATE "C", ti text COLLATE "en-x-icu",
	bp char(5) COLLATE "C", u uuid, nm name COLLATE "C", by bytea, m4 int, mt text COLLATE "C", de int, nmax int, nmin int8, ex int, pa int, nw text COLLATE "C",
	num numeric, f4 float4, f8 float8, inc int, tn text COLLATE nocase, iv interval) WITH (autovacuum_enabled = off, fillfactor = 30);

-- Rows for these ids.  Keys are few, and lie about at random.
CREATE FUNCTION rows(lo int, hi int) RETURNS SETOF t LANGUAGE sql AS $$
	SELECT g, 0, h % 5 - 2, CASE WHEN h % 9 > 0 THEN h % 7 END, (ARRAY[-9223372036854775808, -1, 4294967296, 9223372036854775807, NULL])[1 + h % 5],
		CASE h % 3 WHEN 0 THEN true WHEN 1 THEN false END, (ARRAY['-infinity', '4713-01-01 BC', '2000-01-01', 'infinity'])[1 + h % 4]::date,
		(ARRAY['-infinity', '2000-01-01', '2000-01-01 00:00:01', 'infinity', NULL])[1 + h % 5]::timestamptz, (ARRAY['a', 'b', ''])[1 + h % 3]::"char",
		(ARRAY['', 'a', 'abcdefgh', 'abcdefghi', 'abcdefghj', NULL])[1 + h % 6], (ARRAY['a', 'A', 'ä', 'z', 'abcdefghi'])[1 + h % 5],
		(ARRAY['', 'a', 'abc'])[1 + h % 3], ('00000000-0000-0000-0000-00000000000' || h % 4)::uuid, (ARRAY['a', 'abcdefghi', 'abcdefghj'])[1 + h % 3]::name,
		(ARRAY['', '\x00', '\x0000', '\xff'])[1 + h % 4]::bytea, h % 3, (ARRAY['x', 'y', NULL])[1 + h / 3 % 3], CASE WHEN h % 10 > 2 THEN h % 4 END,
		CASE WHEN h % 2 = 0 THEN 2147483646 + h / 2 % 2 END, CASE WHEN h % 2 = 0 THEN -9223372036854775807 - h / 2 % 2 END, h % 100, h % 6,
		repeat(md5((h % 4)::text), 8), (ARRAY['1.0', '1.00', '1', '0', '0.0', 'NaN', NULL])[1 + h % 7]::numeric,
		(ARRAY['-0', '0', '1', 'NaN', '-Infinity'])[1 + h % 5]::float4, (ARRAY['-0', '0', '1', 'NaN', '-Infinity'])[1 + h % 5]::float8, h % 5,
		(ARRAY['a', 'A', 'b', 'B'])[1 + h % 4], (ARRAY['1 day', '24:00', '1 mon', '30 days'])[1 + h % 4]::interval
	FROM (SELECT g, hashint4(g) & 65535 AS h FROM generate_series(lo, hi) g) x
$$;

-- tab: the table; k: the leading key; def: the index; fwd and bwd: its order; shown: the key as text, the same for equal keys; cond: where the index is partial; vals: keys
-- that queries ask for; covers: whether index-only scans are possible.
CREATE TABLE idx (tab regclass, name text, k text, def text, fwd text, bwd text, shown text, cond text, vals text[], covers bool, lists bool);
INSERT INTO idx (name, k, vals) VALUES ('t_i2', 'i2', '{-2,0,2}'), ('t_i4', 'i4', '{1,3,6}'), ('t_i8', 'i8', '{-9223372036854775808,4294967296,9223372036854775807}'),
	('t_b', 'b', '{f,t}'), ('t_d', 'd', '{-infinity,2000-01-01,infinity}'), ('t_tz', 'tz', '{2000-01-01,2000-01-01 00:00:01,infinity}'), ('t_c', 'c', '{a,b}'),
	('t_tc', 'tc', '{"",abcdefgh,abcdefghj}'), ('t_ti', 'ti', '{a,ä,z}'), ('t_bp', 'bp', '{"",abc}'),
	('t_u', 'u', '{00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000003}'), ('t_nm', 'nm', '{a,abcdefghi}'), ('t_by', 'by', '{"\\x00","\\xff"}'),
	('t_nmax', 'nmax', '{2147483646,2147483647}'), ('t_nw', 'nw', '{cfcd208495d565ef66e7dff9f98764da,d}');
INSERT INTO idx (name, k, def, fwd, bwd, shown, cond, vals, covers) VALUES
	('t_m', 'm4', 'm4, mt', NULL, 'm4 DESC, mt DESC', 'concat(m4, '' '', mt)', NULL, '{0,2}', NULL),
	('t_de', 'de', 'de DESC NULLS FIRST', NULL, 'de NULLS LAST', NULL, NULL, '{0,1,3}', NULL),
	('t_nmin', 'nmin', 'nmin DESC', 'nmin DESC', 'nmin', NULL, NULL, '{-9223372036854775808,-9223372036854775807}', NULL),
	('t_ex', '(ex % 3)', NULL, NULL, NULL, NULL, NULL, '{0,2}', false),
	('t_pa', 'pa', NULL, NULL, NULL, NULL, 'n % 2 = 0', '{0,2,5}', NULL),
	('t_num', 'num', NULL, NULL, NULL, 'trim_scale(num)', NULL, '{0,1,NaN}', NULL),
	('t_f4', 'f4', NULL, NULL, NULL, 'f4 + 0::float4', NULL, '{0,1,NaN}', NULL),
	('t_f8', 'f8', NULL, NULL, NULL, 'f8 + 0', NULL, '{0,1,NaN}', NULL),
	('t_inc', 'inc', '(inc) INCLUDE (id)', 'inc', 'inc DESC', NULL, NULL, '{0,2,4}', NULL),
	('t_tn', 'tn', NULL, NULL, NULL, 'lower(tn)', NULL, '{a,B}', NULL),
	('t_iv', 'iv', NULL, NULL, NULL, 'justify_days(justify_hours(iv))', NULL, '{1 day,30 days}', NULL);
UPDATE idx SET tab = 't', def = coalesce(def, k), fwd = coalesce(fwd, def, k), bwd = coalesce(bwd, k || ' DESC'), cond = coalesce(cond, 'true'), covers = coalesce(covers, true),
	shown = format('coalesce((%s)::text, ''null'')', coalesce(shown, k));
UPDATE idx SET def = format('%s%s', CASE WHEN def ~ 'INCLUDE' THEN def ELSE '(' || def || ')' END, CASE cond WHEN 'true' THEN '' ELSE ' WHERE ' || cond END);

-- Whether equal is identical, as core's btree has it, so that there may be lists.  Not for char(n), which core learnt in 15.20.
CREATE TABLE empty (LIKE t);
DO $$
DECLARE x record;
BEGIN
	FOR x IN SELECT * FROM idx LOOP
		EXECUTE 'CREATE INDEX twin ON empty ' || x.def;
		UPDATE idx SET lists = (bt_metap('twin')).allequalimage AND k <> 'bp' WHERE name = x.name;
		DROP INDEX twin;
	END LOOP;
END $$;
SELECT lists, string_agg(name, ' ' ORDER BY name) FROM idx GROUP BY 1 ORDER BY 1;

-- ---------- scans ----------

-- The answer to a query by one kind of scan.  The plan must be of that kind.
CREATE FUNCTION ask(kind text, index text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	answer text;
BEGIN
	PERFORM set_config('enable_seqscan', (kind = 'seq')::text, true), set_config('enable_indexscan', (kind IN ('index', 'only'))::text, true),
		set_config('enable_indexonlyscan', (kind = 'only')::text, true), set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
		set_config('enable_sort', (kind = 'seq')::text, true);
	IF kind = 'seq' THEN
		EXECUTE query INTO answer;
		RETURN answer;
	END IF;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line || E'\n'; END LOOP;
	IF plan !~ (CASE kind WHEN 'index' THEN format('Index Scan (Backward )?using %s on', index)
		WHEN 'only' THEN format('Index Only Scan (Backward )?using %s on', index) ELSE format('Bitmap Index Scan on %s\n', index) END) THEN
		RAISE WARNING '% scan of %: %: %', kind, index, query, plan;
	END IF;
	EXECUTE query INTO answer;
	RETURN answer;
END $$;

-- One question, to one index in all ways.  Equal keys come in the order of their TIDs, backward in the reverse.
CREATE FUNCTION compare(x idx, cond text, ordering text, rest text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	digest text := 'SELECT concat(count(*), '' '', md5(string_agg(s, '','')), '' '', md5(string_agg(id::text, '',''))) FROM (SELECT %s AS s, %s AS id FROM %s WHERE %s AND %s) q';
	query text;
	want text;
	got text;
BEGIN
	IF ordering = '' THEN
		query := format(digest, '''''', 'id', x.tab, x.cond, cond);
		IF ask('bitmap', x.name, query) <> ask('seq', NULL, query) THEN RAISE WARNING 'bitmap scan of % differs: %', x.name, query; END IF;
		RETURN;
	END IF;
	query := format(digest, x.shown, 'id', x.tab, x.cond, format('%s ORDER BY %s /* tid */ %s', cond, ordering, rest));
	want := ask('seq', NULL, replace(query, '/* tid */', CASE ordering WHEN x.bwd THEN ', ctid DESC' ELSE ', ctid' END));
	got := ask('index', x.name, query);
	IF got IS DISTINCT FROM want THEN RAISE WARNING 'index scan of %: % instead of %: %', x.name, got, want, query; END IF;
	IF x.covers THEN
		query := format(digest, x.shown, 'NULL::int', x.tab, x.cond, format('%s ORDER BY %s %s', cond, ordering, rest));
		got := ask('only', x.name, query);
		IF split_part(got, ' ', 2) IS DISTINCT FROM split_part(want, ' ', 2) THEN RAISE WARNING 'index-only scan of %: % instead of %: %', x.name, got, want, query; END IF;
	END IF;
END $$;

-- Many questions to each index of a table, which is sound, and has lists where it may.  fresh: no row has died.
CREATE FUNCTION check_all(of regclass, stage text, fresh bool DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	x idx;
	l record;
	n bigint;
BEGIN
	FOR x IN SELECT * FROM idx WHERE tab = of ORDER BY name LOOP
		PERFORM mtpower.verify_index(x.name::regclass, true);
		SELECT * INTO l FROM leaves(x.name);
		n := ask('seq', NULL, format('SELECT count(*) FROM %s WHERE %s', x.tab, x.cond));
		IF l.tids < n OR fresh AND l.tids <> n OR n > 0 AND (l.lists > 0) <> x.lists OR (l.items < l.tids) <> (l.lists > 0) OR l.items < l.lists THEN
			RAISE WARNING '%: % has %, but % rows', stage, x.name, l, n;
		END IF;
		PERFORM compare(x, 'true', x.fwd, ''), compare(x, 'true', x.bwd, ''), compare(x, format('%s IS NULL', x.k), '', ''),
			compare(x, 'true', x.bwd, 'LIMIT 300 OFFSET 500'),
			compare(x, format(CASE x.k WHEN 'b' THEN '%s <= %L' ELSE '%s = %L' END, x.k, x.vals[1]), '', ''), compare(x, format('%1$s >= %2$L AND %1$s < %3$L', x.k, x.vals[1], x.vals[2]), x.bwd, ''),
			compare(x, format('%s = ANY (%L)', x.k, x.vals), '', '');
		IF x.fwd !~ ',' THEN	-- else the planner sorts
			PERFORM compare(x, format('%s = ANY (%L)', x.k, x.vals), x.fwd, '');
		END IF;
	END LOOP;
	RETURN stage || ': compared';
END $$;

-- ---------- all types ----------

INSERT INTO t SELECT * FROM rows(1, 2500);
SELECT format('CREATE INDEX %s ON t USING mtpower_blink %s', name, def) FROM idx WHERE tab = 't'::regclass \gexec
SELECT check_all('t', 'built', true);

-- What one statement after another brings is merged with what is there.
TRUNCATE t;
DO $$ BEGIN FOR i IN 0 .. 4 LOOP INSERT INTO t SELECT * FROM rows(i * 500 + 1, i * 500 + 500); END LOOP; END $$;
SELECT check_all('t', 'five loads', true);

-- Dead hints, new versions of rows, VACUUM.
DELETE FROM t WHERE id % 3 = 0;
UPDATE t SET n = n + 2 WHERE id % 2 = 0;
VACUUM t;
SELECT check_all('t', 'vacuumed');

-- One by one, also where rows were: their TIDs are between those of lists.
SET mtpower.batching = off;
INSERT INTO t SELECT * FROM rows(2501, 4000);
SELECT check_all('t', 'inserted');
TRUNCATE t;
INSERT INTO t SELECT * FROM rows(1, 2500);
SELECT check_all('t', 'inserted alone', true);
SET mtpower.batching = on;
TRUNCATE t;

-- ---------- few columns, more rows ----------

-- w is the twin of s with core's btree.
CREATE TABLE s (id int, n int DEFAULT 0, k5 int, k300 int, tc text COLLATE "C", m5 int, o5 int, u uuid) WITH (autovacuum_enabled = off, fillfactor = 30);
CREATE TABLE w (LIKE s INCLUDING ALL) WITH (autovacuum_enabled = off, fillfactor = 30);
INSERT INTO idx VALUES ('s', 's_k5', 'k5', '(k5)', 'k5', 'k5 DESC', 'coalesce(k5::text, ''null'')', 'true', '{1,3,4}', true, true),
	('s', 's_k300', 'k300', '(k300 DESC)', 'k300 DESC', 'k300', 'k300::text', 'true', '{7,100,299}', true, true),
	('s', 's_m', 'tc', '(tc, m5 NULLS FIRST)', 'tc, m5 NULLS FIRST', 'tc DESC, m5 DESC NULLS LAST', 'concat(tc, '' '', m5)', 'true', '{b,d}', true, true),
	('s', 's_n', 'n', '(n)', 'n', 'n DESC', 'n::text', 'true', '{0,2}', true, true);
CREATE FUNCTION on_twins(cmd text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format(cmd, 's');
	EXECUTE format(cmd, 'w');
END $$;
CREATE FUNCTION few_keys(lo int, hi int) RETURNS SETOF s LANGUAGE sql AS $$
	SELECT g, 0, CASE WHEN h % 8 > 0 THEN h % 5 END, h % 300, chr(97 + h % 4), CASE WHEN h % 8 > 0 THEN h % 5 END, h % 5, ('00000000-0000-0000-0000-00000000000' || h % 10)::uuid
	FROM (SELECT g, hashint4(g) & 65535 AS h FROM generate_series(lo, hi) g) x
$$;
-- The twin's size, and whether the index is smaller.
CREATE FUNCTION smaller(OUT index text, OUT smaller bool) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT name, pg_relation_size(name::regclass) < pg_relation_size(('w' || substr(name, 2))::regclass) FROM idx WHERE tab = 's'::regclass ORDER BY name
$$;

SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(1, 7000)');
SELECT format('CREATE INDEX %s ON s USING mtpower_blink %s', name, def), format('CREATE INDEX w%s ON w %s', substr(name, 2), def) FROM idx WHERE tab = 's'::regclass \gexec
SELECT check_all('s', 'built', true);
SELECT * FROM smaller();

-- In 1, 5 and 40 increments.
DO $$
DECLARE step int;
BEGIN
	FOREACH step IN ARRAY ARRAY[7000, 1400, 175] LOOP
		TRUNCATE s, w;
		FOR lo IN 1 .. 7000 BY step LOOP
			PERFORM on_twins(format('INSERT INTO %%s SELECT * FROM few_keys(%s, %s)', lo, lo + step - 1));
		END LOOP;
		RAISE NOTICE '%; smaller: %', check_all('s', step || ' rows each', true), (SELECT array_agg(q.smaller) FROM smaller() q);
	END LOOP;
END $$;

-- By COPY, into the middle of what is there.
COPY s (id, k5, k300, m5, tc) FROM PROGRAM $$awk 'BEGIN { for (i = 7001; i <= 9000; i++) print i "\t" i * 7919 % 5 "\t" i * 7919 % 300 "\t" i % 3 "\t" substr("abcd", 1 + i % 4, 1) }'$$;
COPY w (id, k5, k300, m5, tc) FROM PROGRAM $$awk 'BEGIN { for (i = 7001; i <= 9000; i++) print i "\t" i * 7919 % 5 "\t" i * 7919 % 300 "\t" i % 3 "\t" substr("abcd", 1 + i % 4, 1) }'$$;
SELECT check_all('s', 'COPY', true);
SELECT * FROM smaller();

-- A scrolling cursor gives the same row at the same place, whichever way it comes there.
CREATE FUNCTION wander(x idx, steps int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id, %s AS s FROM %s ORDER BY %s', x.shown, x.tab, x.fwd);
	wanted text := ask('seq', NULL, format('SELECT string_agg(s || id, '','') FROM (%s, ctid) q', query));
	c refcursor;
	r record;
	ids int[] := '{}';
	keys text[] := '{}';
	at int;
	hop int;
	got int;
BEGIN
	PERFORM ask('index', x.name, format('SELECT count(s) FROM (%s) q', query));
	OPEN c SCROLL FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		ids := ids || r.id;
		keys := keys || r.s;
	END LOOP;
	IF wanted IS DISTINCT FROM (SELECT string_agg(keys[i] || ids[i], ',' ORDER BY i) FROM generate_subscripts(ids, 1) i) THEN
		RAISE WARNING 'cursor on % has other rows, or another order', x.name;
	END IF;
	at := cardinality(ids) + 1;
	FOR i IN 1 .. steps LOOP
		hop := CASE floor(random() * 8) WHEN 0 THEN 1 WHEN 1 THEN -1 WHEN 2 THEN 2 WHEN 3 THEN -2 WHEN 4 THEN floor(random() * 6000 - 3000) ELSE floor(random() * 800 - 400) END;
		FETCH RELATIVE hop FROM c INTO got;
		at := greatest(0, least(at + hop, cardinality(ids) + 1));
		IF got IS DISTINCT FROM ids[at] THEN
			RAISE WARNING 'cursor on %, step % by %: % instead of %', x.name, i, hop, got, ids[at];
			EXIT;
		END IF;
	END LOOP;
	CLOSE c;
	RETURN 'wandered';
END $$;
-- One that goes to the end and back, while others of its keys come: the same rows in the reverse order.
CREATE FUNCTION walk(x idx) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	wanted text := ask('seq', NULL, format('SELECT string_agg(id::text, '','' ORDER BY %s, ctid) FROM %s', x.fwd, x.tab));
	way text;
	got int;
	ids int[];
BEGIN
	PERFORM ask('index', x.name, format('SELECT count(id) FROM (SELECT id FROM %s ORDER BY %s) q', x.tab, x.fwd));
	OPEN c SCROLL FOR EXECUTE format('SELECT id FROM %s ORDER BY %s', x.tab, x.fwd);
	FOREACH way IN ARRAY ARRAY['NEXT', 'PRIOR'] LOOP
		ids := '{}';
		LOOP
			IF way = 'NEXT' THEN FETCH NEXT FROM c INTO got; ELSE FETCH PRIOR FROM c INTO got; END IF;
			EXIT WHEN NOT FOUND;
			ids := ids || got;
			IF cardinality(ids) % 1500 = 700 THEN
				PERFORM set_config('mtpower.batching', CASE WHEN cardinality(ids) % 3000 = 700 THEN 'on' ELSE 'off' END, true);
				INSERT INTO s SELECT * FROM few_keys(100000 + cardinality(ids), 100200 + cardinality(ids));
			END IF;
		END LOOP;
		IF wanted <> (SELECT string_agg(id::text, ',' ORDER BY CASE way WHEN 'NEXT' THEN n ELSE -n END) FROM unnest(ids) WITH ORDINALITY u (id, n)) THEN
			RAISE WARNING 'cursor on %, %: other rows, or another order', x.name, way;
		END IF;
	END LOOP;
	CLOSE c;
	RETURN 'walked';
END $$;
SELECT name, wander(idx, 250) FROM idx WHERE tab = 's'::regclass ORDER BY name;
BEGIN;
SELECT name, walk(idx) FROM idx WHERE name IN ('s_k5', 's_k300') ORDER BY name;
ROLLBACK;

-- Merge joins go back to a mark among duplicates.
CREATE FUNCTION join_all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	line text;
	plan text;
	want text;
	got text;
BEGIN
	FOREACH query IN ARRAY ARRAY['SELECT concat(count(*), '' '', sum(a.id::bigint * b.id)) FROM s a JOIN s b ON a.k300 = b.k300 WHERE a.k300 BETWEEN 7 AND 20',
		'SELECT concat(count(*), '' '', sum(a.id::bigint * b.id)) FROM s a JOIN s b ON a.k5 = b.k5 WHERE a.id % 500 = 0'] LOOP
		PERFORM set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'off', true), set_config('enable_nestloop', 'off', true);
		want := ask('seq', NULL, query);
		PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'on', true);
		got := ask('index', CASE WHEN query ~ 'k300' THEN 's_k300' ELSE 's_k5' END, query);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line || E'\n'; END LOOP;
		IF got <> want OR plan !~ 'Merge Join' OR plan ~ 'Sort|Materialize' THEN RAISE WARNING 'merge join: % instead of %: % %', got, want, query, plan; END IF;
	END LOOP;
	RETURN 'joined';
END $$;
SELECT join_all();

-- Some queries more: a lower column alone, where PostgreSQL 18 skips; parallel scans.
SELECT compare(idx, 'tc = ''b''', 'tc, m5 NULLS FIRST', ''), compare(idx, 'm5 = ANY (''{1,3}'')', '', ''), compare(idx, 'm5 = 2', 'tc, m5 NULLS FIRST', ''),
	compare(idx, 'tc > ''a'' AND m5 IS NULL', 'tc DESC, m5 DESC NULLS LAST', ''), compare(idx, 'tc IN (''a'', ''c'') AND m5 IN (0, 4)', '', '')
	FROM idx WHERE name = 's_m' \g /dev/null
CREATE FUNCTION parallel_all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	x idx;
	kind text;
	query text;
	line text;
	plan text;
	want text;
BEGIN
	PERFORM set_config(name, '0', true) FROM unnest('{parallel_setup_cost,parallel_tuple_cost,min_parallel_index_scan_size,min_parallel_table_scan_size}'::text[]) name;
	PERFORM set_config('parallel_leader_participation', 'off', true);
	FOR x IN SELECT * FROM idx WHERE tab = 's'::regclass ORDER BY name LOOP
		FOREACH kind IN ARRAY ARRAY['index', 'only', 'bitmap'] LOOP
			query := format('SELECT concat(count(*), '' '', sum(hashint4extended(%s, 0))) FROM s WHERE %s >= %L', CASE kind WHEN 'only' THEN format('hashtext(%s)', x.shown) ELSE 'id' END, x.k, x.vals[1]);
			PERFORM set_config('max_parallel_workers_per_gather', '0', true);
			want := ask('seq', NULL, query);
			PERFORM set_config('max_parallel_workers_per_gather', '3', true);
			IF ask(kind, x.name, query) <> want THEN RAISE WARNING 'parallel % scan differs: %', kind, query; END IF;
			plan := '';
			FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line || E'\n'; END LOOP;
			IF plan !~ 'Parallel (Index|Bitmap)' THEN RAISE WARNING '% scan is not parallel: %', kind, plan; END IF;
		END LOOP;
	END LOOP;
	RETURN 'compared';
END $$;
ANALYZE s;
SELECT parallel_all();

-- ---------- rows die, and others take their TIDs ----------

-- New versions of all rows, with the keys of the old ones but for n.
SELECT on_twins('UPDATE %s SET n = n + 1');
SELECT check_all('s', 'updated');
SELECT on_twins('UPDATE %s SET n = n + 1 + id %% 3 WHERE id %% 4 = 0');
VACUUM s, w;
SELECT check_all('s', 'updated twice and vacuumed');
SET mtpower.batching = off;
SELECT on_twins('UPDATE %s SET n = n + 1 WHERE id %% 5 = 0');
SET mtpower.batching = on;
SELECT check_all('s', 'updated alone');
-- Rows at random; the scans find them dead, and so do the next ones.
SELECT on_twins('DELETE FROM %s WHERE hashint4(id) %% 3 = 0');
SELECT check_all('s', 'deleted');
SELECT check_all('s', 'found dead');
VACUUM s, w;
SELECT check_all('s', 'vacuumed');
-- TIDs in the middle of lists
SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(20001, 22000)');
SET mtpower.batching = off;
SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(24001, 25500)');
SET mtpower.batching = on;
SELECT check_all('s', 'inserted again');
SELECT name, wander(idx, 200) FROM idx WHERE tab = 's'::regclass ORDER BY name;
SELECT join_all(), parallel_all();
-- A queue
DO $$ BEGIN
	FOR i IN 1 .. 6 LOOP
		PERFORM on_twins(format('DELETE FROM %%s WHERE id <= %s', i * 1500)), on_twins(format('INSERT INTO %%s SELECT * FROM few_keys(%s, %s)', 30000 + i * 2000, 31999 + i * 2000));
		COMMIT;
	END LOOP;
END $$;
SELECT check_all('s', 'queue');
VACUUM s, w;
SELECT on_twins('DELETE FROM %s WHERE id <= 25000');
VACUUM s, w;
SELECT check_all('s', 'queue, vacuumed');
-- All rows of one key, which come again
SELECT on_twins('DELETE FROM %s WHERE k5 = 2');
VACUUM s, w;
SELECT check_all('s', 'without a key');
SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(50001, 58000) r WHERE r.k5 = 2');
SELECT check_all('s', 'one key');
-- All rows
SELECT on_twins('DELETE FROM %s');
VACUUM s, w;
SELECT check_all('s', 'empty');
SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(1, 8000)');
SELECT check_all('s', 'filled');
-- One by one, into an index that was empty
TRUNCATE s, w;
SET mtpower.batching = off;
SELECT on_twins('INSERT INTO %s SELECT * FROM few_keys(1, 8000)');
SET mtpower.batching = on;
SELECT check_all('s', 'inserted alone', true);
SELECT * FROM smaller();
REINDEX TABLE s;
SELECT check_all('s', 'reindexed', true);

-- ---------- deduplicate_items ----------

CREATE INDEX s_off ON s USING mtpower_blink (o5) WITH (deduplicate_items = off);
CREATE INDEX s_off_m ON s USING mtpower_blink (u, o5) WITH (deduplicate_items = false, fillfactor = 70);
INSERT INTO s SELECT * FROM few_keys(8001, 10000);
SET mtpower.batching = off;
INSERT INTO s SELECT * FROM few_keys(10001, 12000);
SET mtpower.batching = on;
SELECT i, (leaves(i)).lists, (leaves(i)).items = 12000 AS alone, mtpower.verify_index(i, true) FROM unnest('{s_off,s_off_m}'::regclass[]) i;
-- From now on; what is there stays.
ALTER INDEX s_off SET (deduplicate_items = on);
INSERT INTO s SELECT * FROM few_keys(12001, 14000);
SELECT lists > 0 AS lists, items < tids AS fewer, tids, mtpower.verify_index('s_off', true) FROM leaves('s_off');
ALTER INDEX s_k5 SET (deduplicate_items = off);
INSERT INTO s SELECT * FROM few_keys(14001, 16000);
SELECT check_all('s', 'off');
REINDEX INDEX s_k5;
SELECT lists, items, mtpower.verify_index('s_k5', true) FROM leaves('s_k5');
ALTER INDEX s_k5 RESET (deduplicate_items);
REINDEX INDEX s_k5;
SELECT check_all('s', 'on again');
CREATE INDEX ON s USING mtpower_blink (k5) WITH (deduplicate_items = 7);

-- page_info: of inner pages and the metapage; entries of dead rows count.
SELECT p.type, bool_and(p.lists IS NULL OR p.lists = 0) AS none, bool_and(p.tids IS NULL OR p.tids = p.items) AS items
FROM generate_series(0, pg_relation_size('s_off') / current_setting('block_size')::int - 1) b, mtpower.page_info('s_off', b) p WHERE p.type <> 'leaf' GROUP BY 1 ORDER BY 1;

-- ---------- room ----------

-- Of temporary tables nothing depends on other sessions' snapshots, and nothing comes in batches.  What scans find dead makes room, in lists, too.
CREATE TEMP TABLE marked (a int, filler text);
CREATE INDEX marked_a ON marked USING mtpower_blink (a);
CREATE TEMP TABLE marked_twin (LIKE marked);
CREATE INDEX marked_twin_a ON marked_twin (a);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		INSERT INTO marked SELECT g % 3 FROM generate_series(1, 500) g;
		INSERT INTO marked_twin SELECT g % 3 FROM generate_series(1, 500) g;
		COMMIT;
		DELETE FROM marked;
		DELETE FROM marked_twin;
		COMMIT;
		PERFORM count(filler) FROM marked WHERE a >= 0;
		PERFORM count(filler) FROM marked_twin WHERE a >= 0;
		COMMIT;
	END LOOP;
END$$;
SELECT pg_relation_size('marked_a') <= pg_relation_size('marked_twin_a') AS small, count(*), mtpower.verify_index('marked_a', true) FROM marked WHERE a >= 0;
-- Nobody marks anything, but versions of rows come again and again.
CREATE TEMP TABLE versions (a int, b int, n int);
CREATE INDEX versions_a ON versions USING mtpower_blink (a);
CREATE INDEX versions_n ON versions USING mtpower_blink (n);
CREATE TEMP TABLE versions_twin (LIKE versions);
CREATE INDEX versions_twin_a ON versions_twin (a);
CREATE INDEX versions_twin_n ON versions_twin (n);
INSERT INTO versions SELECT g % 50, g, 0 FROM generate_series(1, 2000) g;
INSERT INTO versions_twin SELECT g % 50, g, 0 FROM generate_series(1, 2000) g;
SET enable_seqscan = on;
SET enable_indexscan = off;
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		UPDATE versions SET n = n + 1 WHERE b % 10 = i % 10;
		UPDATE versions_twin SET n = n + 1 WHERE b % 10 = i % 10;
		COMMIT;
	END LOOP;
END$$;
RESET enable_indexscan;
SET enable_seqscan = off;
SELECT pg_relation_size('versions_a') <= pg_relation_size('versions_twin_a') AS small, count(*), mtpower.verify_index('versions_a', true) FROM versions WHERE a >= 0;
SELECT pg_relation_size('versions_n') <= pg_relation_size('versions_twin_n') AS small, count(*), mtpower.verify_index('versions_n', true) FROM versions WHERE n >= 0;
DROP TABLE marked, marked_twin, versions, versions_twin;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- Among rows of which 15 are on a page come rows of which 200 are: offsets take more bits, and lists grow as they are merged.
CREATE TABLE wider (k int, filler text) WITH (autovacuum_enabled = off);
CREATE INDEX wider_k ON wider USING mtpower_blink (k);
INSERT INTO wider SELECT g % 15, repeat('x', 480) FROM generate_series(1, 45000) g;
DELETE FROM wider WHERE (ctid::text::point)[0]::int % 50 = 7;
VACUUM wider;
INSERT INTO wider SELECT g % 15 FROM generate_series(1, 3000) g;
SELECT count(*), mtpower.verify_index('wider_k', true) FROM wider;
SET mtpower.batching = off;
INSERT INTO wider SELECT g % 15 FROM generate_series(1, 6000) g;
SET mtpower.batching = on;
SELECT count(*), max((ctid::text::point)[1]) > 150 AS large, mtpower.verify_index('wider_k', true) FROM wider;
DELETE FROM wider WHERE filler IS NULL;
VACUUM wider;
SELECT count(*), mtpower.verify_index('wider_k', true) FROM wider;

-- ---------- exclusion constraints ----------

-- They look for equal keys of living rows: nulls conflict with nothing, dead rows' keys with nobody.
CREATE TABLE ex (id int, k int, EXCLUDE USING mtpower_blink (k WITH =)) WITH (autovacuum_enabled = off);
INSERT INTO ex SELECT g, NULL FROM generate_series(1, 3000) g;
INSERT INTO ex VALUES (0, 1);
DO $$ BEGIN FOR i IN 1 .. 700 LOOP DELETE FROM ex WHERE k = 1; INSERT INTO ex VALUES (-i, 1); END LOOP; END $$;
SELECT lists > 0 AS lists, mtpower.verify_index('ex_k_excl', true) FROM leaves('ex_k_excl');
INSERT INTO ex VALUES (1, 1);
UPDATE ex SET k = 1 WHERE id = 5;
DELETE FROM ex WHERE k = 1;
INSERT INTO ex VALUES (1, 1);
SELECT count(*), count(k) FROM ex;

-- Equal keys, of which one is not compressed: lists take the smaller one.
CREATE TABLE packed (k text, id int) WITH (autovacuum_enabled = off);
ALTER TABLE packed ALTER k SET STORAGE external;
CREATE INDEX packed_k ON packed USING mtpower_blink (k);
INSERT INTO packed SELECT repeat('x', 1300), g FROM generate_series(1, 3) g;
ALTER TABLE packed ALTER k SET STORAGE extended;
SET mtpower.batch_min_rows = 0;
INSERT INTO packed SELECT repeat('x', 1300), g FROM generate_series(4, 20000) g;
SET mtpower.batching = off;
INSERT INTO packed SELECT repeat('x', 1300), g FROM generate_series(20001, 30000) g;
RESET mtpower.batching;
RESET mtpower.batch_min_rows;
SELECT mtpower.verify_index('packed_k', true);
SELECT pg_relation_size('packed_k') < 40 * current_setting('block_size')::int AS small;

-- Rows that come one at a time: sixteen at once join the list of their key, which is followed by another one when it is full.
CREATE TABLE single (k int, id int) WITH (autovacuum_enabled = off);
CREATE INDEX single_k ON single USING mtpower_blink (k);
SET mtpower.batching = off;
DO $$ BEGIN FOR i IN 1 .. 1515 LOOP INSERT INTO single VALUES (i % 3, i); END LOOP; END $$;
RESET mtpower.batching;
SELECT tids, lists, items - lists < 3 * 16 AS few_plain, mtpower.verify_index('single_k', true) FROM leaves('single_k');
INSERT INTO single VALUES (1, 0);
SET mtpower.batching = off;
DO $$ BEGIN FOR i IN 1 .. 96 LOOP INSERT INTO single VALUES (1, -i); END LOOP; END $$;
RESET mtpower.batching;
SELECT tids, lists, mtpower.verify_index('single_k', true) FROM leaves('single_k');

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA blink_lists CASCADE;
