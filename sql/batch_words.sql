-- Wide entries that are sorted by the bytes of their keys, or by a guess at the order of text: loads and builds of two kinds of indexes give the rows in the order of a sort.
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
CREATE SCHEMA batch_words;
SET search_path = batch_words, public;
SET client_min_messages = warning;
CREATE TABLE loaded (kind text COLLATE "C", url text COLLATE "C", v varchar(40) COLLATE "C", b bytea, u uuid, n name COLLATE "C",
	f float8, g float4, device int, at timestamptz, c "char", o oid, yes bool, num numeric, long text COLLATE "C", word text COLLATE "en-x-icu") USING mtpower;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
-- Few values, common beginnings of 8 to 40 bytes, strings that others begin with, zero bytes, extremes, nulls; no two columns repeat alike.
CREATE FUNCTION some_rows(n int) RETURNS SETOF loaded LANGUAGE sql AS $$
	SELECT (ARRAY['click', 'view', 'purchase', 'add_to_cart', 'search_query', '', NULL])[i % 7 + 1],
		'https://www.example.com/shop/products/' || CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN i % 500 || '/detail' ELSE (i % 50)::text END,
		CASE WHEN i % 17 <> 0 THEN repeat('ab', i * 31 % 13) || CASE i % 5 WHEN 0 THEN 'c' ELSE '' END END,
		CASE WHEN i % 19 <> 0 THEN substr(decode(repeat('61006200', 5), 'hex') || decode('0000000000000000ff00', 'hex'), 1, i * 7 % 31) END,
		CASE WHEN i % 13 <> 0 THEN ('00000000-0000-0000-' || lpad(to_hex(i % 7 * 9000), 4, '0') || '-' || lpad(to_hex(i % 300), 12, '0'))::uuid END,
		CASE WHEN i % 11 <> 0 THEN repeat('a_long_name_', i % 6)::name END,
		CASE i % 10 WHEN 0 THEN '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity' WHEN 5 THEN NULL ELSE sin(i % 100) END,
		CASE i % 9 WHEN 0 THEN '-0' WHEN 1 THEN 0 WHEN 2 THEN 'NaN' WHEN 3 THEN NULL ELSE cos(i % 100)::float4 END,
		CASE WHEN i % 23 <> 0 THEN i * 7919 % 100 - 50 END,
		CASE i % 29 WHEN 0 THEN '-infinity' WHEN 1 THEN 'infinity' WHEN 2 THEN NULL ELSE '2020-01-01 UTC'::timestamptz + i * 7919 % 1000 * interval '1 s' END,
		CASE i % 5 WHEN 0 THEN '\200'::"char" WHEN 1 THEN '\001' WHEN 2 THEN NULL ELSE 'x' END,
		CASE i % 6 WHEN 0 THEN 0 WHEN 1 THEN 4294967295 WHEN 2 THEN NULL ELSE i % 40 END::oid,
		CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END,
		CASE i % 4 WHEN 0 THEN 1.0 WHEN 1 THEN 1.00 WHEN 2 THEN NULL ELSE i % 20 END,
		repeat('x', 8 * (i % 20)) || CASE WHEN i % 6 = 0 THEN repeat('y', 1000 + i % 4) ELSE i % 30 || 'z' END,
		-- Case, accents, punctuation, letters that count as one, a common beginning
		(ARRAY['apple', 'Apple', 'APPLE', U&'\00C4pfel', U&'\00E4pfel', 'aardvark', 'AArdvark', 'co-op', 'coop', 'Co_op', 'zebra', 'ch', 'cz', 'Ch', NULL])[i % 15 + 1] ||
			(ARRAY['', ' pie number ', '-', ' Pie Number '])[i % 4 + 1] || CASE i % 3 WHEN 0 THEN i % 700 WHEN 1 THEN i % 40 END
	FROM generate_series(1, n) i
$$;
CREATE TABLE keys (id int GENERATED ALWAYS AS IDENTITY, key text);
INSERT INTO keys (key) VALUES ('kind'), ('kind DESC'), ('kind NULLS FIRST'), ('url'), ('url DESC, v'), ('v NULLS FIRST, kind DESC'), ('v DESC NULLS LAST, u'),
	('b'), ('b DESC'), ('b NULLS FIRST, url'), ('b DESC NULLS LAST, n DESC'), ('u, b'), ('u DESC'), ('n'), ('n DESC NULLS LAST, v'), ('f'), ('f NULLS FIRST, g DESC'),
	('f DESC, device'), ('g DESC NULLS LAST, f NULLS FIRST'), ('device, at'), ('device DESC, at NULLS FIRST'), ('device NULLS FIRST, at DESC, kind'),
	('c, o NULLS FIRST, yes'), ('o DESC NULLS LAST, c NULLS FIRST'), ('yes NULLS FIRST, kind'), ('yes DESC NULLS LAST, b DESC'), ('num, url'),
	('kind, num, url'), ('url, num DESC'), ('v, url COLLATE "und-x-icu", u'), ('long'), ('long DESC, v'), ('kind, long, device'), ('url, kind, v, b, u, n, f, device, at'),
	('yes, device, at'), ('o, c, kind'), ('url, device DESC'), ('n, yes, c, o, device'), ('device, at NULLS FIRST, url'),
	('word'), ('word DESC'), ('word NULLS FIRST, device DESC'), ('word COLLATE "da-x-icu" DESC NULLS LAST, kind'), ('word COLLATE "C.utf8"'), ('word COLLATE "C.utf8" DESC, word'),
	('word COLLATE nocase'), ('word COLLATE nocase, url COLLATE nocase DESC'), ('device, word'), ('word, long COLLATE "en-x-icu"'), ('yes, word COLLATE nocase DESC, num'),
	('(word::char(14))'), ('url COLLATE "en-x-icu"'), ('url COLLATE "C.utf8" DESC, v COLLATE "en-x-icu"'), ('long COLLATE "C.utf8"');
-- Makes all indexes of one kind, or drops them.  Each is the only one for a query with its condition, which all rows meet.
CREATE PROCEDURE make_indexes(am text) LANGUAGE plpgsql AS $$
DECLARE
	k record;
BEGIN
	FOR k IN SELECT * FROM keys LOOP
		EXECUTE format('DROP INDEX IF EXISTS loaded_%s', k.id);
		IF am IS NOT NULL THEN
			EXECUTE format('CREATE INDEX loaded_%s ON loaded USING %I (%s) WHERE device IS DISTINCT FROM 1000 + %s', k.id, am, k.key, k.id);
		END IF;
	END LOOP;
END $$;
-- The keys by which an index scan does not give the rows as a sort does, those with equal keys in the order of their places
CREATE FUNCTION wrong_keys() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	k record;
	sorted text;
	scanned text;
	line text;
	query text := 'SELECT md5(array_agg(ctid)::text) FROM (SELECT ctid FROM loaded WHERE device IS DISTINCT FROM 1000 + %s ORDER BY %s) s';
	by_index bool;
BEGIN
	FOR k IN SELECT * FROM keys ORDER BY id LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_incremental_sort', 'off', true);
		EXECUTE format(query, k.id, k.key || ', ctid') INTO sorted;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true);
		by_index := false;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, k.id, k.key) LOOP
			by_index := by_index OR line ~ format('Index Scan using loaded_%s ', k.id);
		END LOOP;
		EXECUTE format(query, k.id, k.key) INTO scanned;
		IF NOT by_index OR scanned IS DISTINCT FROM sorted THEN
			RETURN NEXT k.key || CASE WHEN by_index THEN '' ELSE ' (no index)' END;
		END IF;
	END LOOP;
END $$;

CALL make_indexes('mtpower_blink');
INSERT INTO loaded SELECT * FROM some_rows(4000);
SELECT * FROM wrong_keys();
INSERT INTO loaded SELECT * FROM some_rows(2000);
SELECT count(*) FROM mtpower.stat_batches WHERE index::text ~ '^loaded_' AND entries = 6000;
SELECT * FROM wrong_keys();
SELECT verify('loaded');
-- Rows that fill gaps do not come in the order of their places: large ones go to the table's end, small ones before them.
CREATE TABLE gaps (key text COLLATE "C", pad text) USING mtpower;
ALTER TABLE gaps ALTER pad SET STORAGE PLAIN;
CREATE INDEX gaps_key ON gaps USING mtpower_blink (key);
INSERT INTO gaps SELECT 'old', repeat('x', 100) FROM generate_series(1, 4000);
DELETE FROM gaps WHERE (ctid::text::point)[1]::int % 2 = 0;
VACUUM (INDEX_CLEANUP ON) gaps;
INSERT INTO gaps SELECT 'a key, number ' || i % 3, repeat('x', CASE WHEN i <= 500 THEN 4000 ELSE 10 END) FROM generate_series(1, 4000) i;
SELECT count(*) > 10 AS ends_before FROM gaps WHERE key <> 'old' AND length(pad) = 10 AND ctid < (SELECT min(ctid) FROM gaps WHERE length(pad) = 4000);
SELECT verify('gaps');
-- Built instead
CALL make_indexes('mtpower_blink');
SELECT * FROM wrong_keys();

-- Core's btree
CALL make_indexes(NULL);
TRUNCATE loaded;
CALL make_indexes('btree');
INSERT INTO loaded SELECT * FROM some_rows(4000);
SELECT * FROM wrong_keys();
INSERT INTO loaded SELECT * FROM some_rows(2000);
SELECT count(*) FROM mtpower.stat_batches WHERE index::text ~ '^loaded_' AND entries = 6000;
SELECT * FROM wrong_keys();
SELECT count(*) FROM loaded;
DROP SCHEMA batch_words CASCADE;
