-- Shares of batches that leaves of core's btrees take at once: in place, by splits into many pages, in posting lists.
SET mtpower.batching = on;
SET client_min_messages = warning;
CREATE SCHEMA twin;
CREATE SCHEMA twin_heap;
SET search_path = twin, public;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
SET mtpower.batch_min_rows = 0;

-- The pages of an index are at most so many percent of those of heap's.
CREATE FUNCTION as_small(index text, percent int) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN m * 100 <= h * percent THEN 'small' ELSE format('%s of %s', m, h) END
	FROM (SELECT pg_relation_size(('twin.' || index)::regclass) / current_setting('block_size')::int AS m,
		pg_relation_size(('twin_heap.' || index)::regclass) / current_setting('block_size')::int AS h) s $$;

-- Few and many entries for a leaf; keys of few values, wide ones, NULLs, columns beside the key.
SELECT make_both('m (a int, b text, c int)', 'CREATE INDEX m_a ON %s (a)', 'CREATE INDEX m_desc ON %s (a DESC NULLS LAST)',
	'CREATE INDEX m_b ON %s (b COLLATE "C")', 'CREATE INDEX m_cb ON %s (c, b)', 'CREATE INDEX m_c ON %s (c)',
	'CREATE INDEX m_single ON %s (c) WITH (deduplicate_items = off)', 'CREATE INDEX m_inc ON %s (c) INCLUDE (a)', 'CREATE INDEX m_num ON %s ((c / 10.0))');
SELECT on_both($$INSERT INTO m SELECT hashint4(i), 'http://example.org/' || repeat('x', i % 50) || hashint4(i) % 300, nullif(i % 20, 7) FROM generate_series(1, 6000) i$$);
SELECT same('m');
SELECT on_both($$INSERT INTO m SELECT hashint4(-i), 'http://example.org/' || repeat('y', i % 50) || hashint4(i) % 300, nullif(i % 25, 7) FROM generate_series(1, 20000) i$$);
SELECT same('m');
SELECT on_both($$INSERT INTO m SELECT i, 'http://' || i % 7, i % 3 FROM generate_series(1, 300) i$$);
SELECT same('m');
-- Indexes of few values are as small as core's deduplication makes them.
SELECT as_small('m_c', 105), as_small('m_b', 105), as_small('m_num', 110);

-- Entries whose TIDs fall into posting lists: rows go where others were.
SELECT on_both('DELETE FROM m WHERE a % 3 = 0');
VACUUM m, twin_heap.m;
SELECT on_both($$INSERT INTO m SELECT hashint4(i + 1000000), 'http://example.org/' || repeat('x', i % 50) || hashint4(i) % 300, nullif(i % 20, 7) FROM generate_series(1, 9000) i$$);
SELECT same('m');
SELECT on_both('DELETE FROM m WHERE a % 5 = 0');
VACUUM m, twin_heap.m;
-- Lists that are there when the index deduplicates no more
ALTER INDEX m_c SET (deduplicate_items = off);
ALTER INDEX m_single SET (deduplicate_items = on);
SELECT on_both($$INSERT INTO m SELECT hashint4(i + 2000000), 'http://example.org/' || i % 9, nullif(i % 20, 7) FROM generate_series(1, 9000) i$$);
SELECT same('m');
SELECT on_both('DELETE FROM m');
VACUUM m, twin_heap.m;
SELECT on_both($$INSERT INTO m SELECT i, i, 1 FROM generate_series(1, 3000) i$$);
SELECT same('m');

-- One value alone: pages in the middle of it get no more, and are filled.
SELECT make_both('one (a int, b text)', 'CREATE INDEX one_a ON %s (a)', 'CREATE INDEX one_b ON %s (b)');
SELECT on_both($$INSERT INTO one SELECT 1, 'same' FROM generate_series(1, 15000) i$$);
SELECT on_both($$INSERT INTO one SELECT 1, 'same' FROM generate_series(1, 15000) i$$);
SELECT on_both($$INSERT INTO one SELECT NULL, NULL FROM generate_series(1, 15000) i$$);
SELECT same('one');
SELECT as_small('one_a', 105), as_small('one_b', 105);
TRUNCATE one, twin_heap.one;
SELECT on_both($$INSERT INTO one SELECT 2, 'top' FROM generate_series(1, 3000)$$);
DO $$ BEGIN FOR i IN 1 .. 60 LOOP PERFORM on_both('INSERT INTO one SELECT 1, ''same'' FROM generate_series(1, 350)'); END LOOP; END $$;
SELECT same('one');
SELECT as_small('one_a', 110), as_small('one_b', 110);
-- Each batch brings more than half a list of each value: two pages have room for a value if the lists on them are full.
SELECT make_both('halves (a int)', 'CREATE INDEX halves_a ON %s (a)');
DO $$ BEGIN FOR i IN 1 .. 13 LOOP PERFORM on_both('INSERT INTO halves SELECT i % 20 FROM generate_series(1, 3900) i'); END LOOP; END $$;
SELECT same('halves');
SELECT as_small('halves_a', 105);

-- Ascending and descending loads; the right end is packed to the fill factor.
SELECT make_both('ends (a int, b int, c text)', 'CREATE INDEX ends_a ON %s (a)', 'CREATE INDEX ends_b ON %s (b) WITH (fillfactor = 70)', 'CREATE INDEX ends_c ON %s (c DESC)');
SELECT on_both($$INSERT INTO ends SELECT i, i, lpad(i::text, 10, '0') FROM generate_series(1, 10000) i$$);
SELECT on_both($$INSERT INTO ends SELECT i, i, lpad(i::text, 10, '0') FROM generate_series(10001, 20000) i$$);
SELECT on_both($$INSERT INTO ends SELECT -i, -i, lpad((-i)::text, 10, '0') FROM generate_series(1, 300) i$$);
SELECT same('ends');
SELECT as_small('ends_a', 105), as_small('ends_b', 105);
TRUNCATE ends, twin_heap.ends;
DO $$ BEGIN FOR i IN 1 .. 80 LOOP PERFORM on_both(format('INSERT INTO ends SELECT i, i, i::text FROM generate_series(%s, %s) i', i * 90, i * 90 + 89)); END LOOP; END $$;
SELECT same('ends');
SELECT as_small('ends_a', 105), as_small('ends_b', 105);

-- Tuples of nearly a quarter of a page, and larger ones beside them, which go core's way; inner pages of few children.
SELECT make_both('wide (a int, b text, c text)', 'CREATE INDEX wide_b ON %s (b COLLATE "C")', 'CREATE INDEX wide_ca ON %s (c, a)');
ALTER TABLE wide ALTER b SET STORAGE plain, ALTER c SET STORAGE plain;
ALTER TABLE twin_heap.wide ALTER b SET STORAGE plain, ALTER c SET STORAGE plain;
SELECT on_both($$INSERT INTO wide SELECT i, (i * 7919) % 1000 || repeat(md5(i::text), CASE WHEN i % 3 = 0 THEN 62 WHEN i % 7 = 0 THEN 80 ELSE i % 40 END), repeat('c', 1900) || i % 5 FROM generate_series(1, 1500) i$$);
SELECT same('wide');
SELECT on_both($$INSERT INTO wide SELECT i, (i * 7919) % 1000 || repeat('z', 1800), repeat('c', 1900) || i % 5 FROM generate_series(1, 400) i$$);
SELECT same('wide');

-- Wide lists of core's, and rows whose TIDs fall into all of them
SELECT make_both('lists (n int, b text)');
ALTER TABLE lists ALTER b SET STORAGE plain;
CREATE INDEX lists_b ON lists (b COLLATE "C");
SET mtpower.core_indexes = off;
INSERT INTO lists SELECT i / 6, substr(repeat(md5((i % 6)::text), 40), 1, 1264) FROM generate_series(1, 72) i;
DELETE FROM lists WHERE n % 2 = 1;
VACUUM lists;
RESET mtpower.core_indexes;
INSERT INTO lists SELECT i / 6, substr(repeat(md5((i % 6)::text), 40), 1, 1264) FROM generate_series(1, 36) i;
SELECT bt_index_parent_check('lists_b', true, true), count(*) FROM lists;
DROP TABLE lists, twin_heap.lists;

-- A single entry for a full leaf, whatever the fill factor
DO $$
DECLARE fill int;
BEGIN
	FOREACH fill IN ARRAY ARRAY[10, 25, 40, 50, 58, 100] LOOP
		CREATE TABLE filled (a int, b text, c int) USING mtpower;
		EXECUTE format('CREATE INDEX filled_a ON filled (a) WITH (fillfactor = %s)', fill);
		EXECUTE format('CREATE INDEX filled_b ON filled (b) WITH (fillfactor = %s)', fill);
		EXECUTE format('CREATE INDEX filled_c ON filled (c) WITH (fillfactor = %s)', fill);
		FOR i IN 1 .. 900 LOOP
			INSERT INTO filled VALUES (hashint4(i), repeat(md5(i::text), CASE WHEN i % 40 > 0 THEN 1 ELSE 50 END), 0);
		END LOOP;
		INSERT INTO filled SELECT hashint4(i), repeat(md5(i::text), CASE WHEN i % 40 > 0 THEN 1 ELSE 50 END), 0 FROM generate_series(1000, 3000) i;
		PERFORM bt_index_parent_check('filled_a', true, true), bt_index_parent_check('filled_b', true, true), bt_index_parent_check('filled_c', true, true);
		DROP TABLE filled;
	END LOOP;
END $$;

-- Entries that scans have marked as dead make room before a leaf is split.
SELECT make_both('dead (a int, b text)', 'CREATE INDEX dead_a ON %s (a)', 'CREATE INDEX dead_b ON %s (b)');
INSERT INTO dead SELECT i, i % 40 FROM generate_series(1, 8000) i;
SELECT pg_relation_size('dead_a') AS size_a, pg_relation_size('dead_b') AS size_b \gset
DELETE FROM dead;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM dead WHERE a > 0;
SELECT count(*) FROM dead WHERE b >= '';
INSERT INTO dead SELECT i, i % 40 FROM generate_series(1, 8000) i;
SELECT pg_relation_size('dead_a') <= :size_a * 1.1 AS a, pg_relation_size('dead_b') <= :size_b * 1.1 AS b;
SELECT bt_index_parent_check('dead_a', true, true), bt_index_parent_check('dead_b', true, true);
SELECT count(*) FROM dead WHERE a > 0;
-- A posting list that is marked, and new rows whose TIDs fall into it: VACUUM has freed their room, and left the entries.
SELECT make_both('lists (a int, b text)', 'CREATE INDEX lists_a ON %s (a)', 'CREATE INDEX lists_b ON %s (b)');
INSERT INTO lists SELECT 5, 'five' FROM generate_series(1, 600);
DELETE FROM lists;
SELECT count(*) FROM lists WHERE a = 5;
SELECT count(*) FROM lists WHERE b = 'five';
VACUUM (INDEX_CLEANUP off, TRUNCATE off) lists;
INSERT INTO lists SELECT 5, 'five' FROM generate_series(1, 100);
SELECT count(*) FROM lists WHERE a = 5;
SELECT count(*) FROM lists WHERE b = 'five';
SELECT bt_index_parent_check('lists_a', true, true), bt_index_parent_check('lists_b', true, true);
RESET enable_seqscan;
RESET enable_bitmapscan;

-- Unique indexes: keys that are free, and NULLs, which are equal or not.
SELECT make_both('u (id int PRIMARY KEY, a int UNIQUE, b text, c int)', 'CREATE UNIQUE INDEX u_b ON %s (b COLLATE "C", c)',
	'CREATE UNIQUE INDEX u_part ON %s (c) NULLS NOT DISTINCT WHERE id %% 1000 = 0', 'CREATE UNIQUE INDEX u_num ON %s ((id / 10.0))');
SELECT on_both($$INSERT INTO u SELECT i, CASE WHEN i % 10 = 0 THEN i END, CASE WHEN i % 3 > 0 THEN md5(i::text) END, i FROM generate_series(1, 9000) i$$);
SELECT on_both($$INSERT INTO u SELECT i, CASE WHEN i % 10 = 0 THEN i END, CASE WHEN i % 3 > 0 THEN md5(i::text) END, i FROM generate_series(-9000, 0) i$$);
SELECT same('u');
SELECT as_small('u_a_key', 105);
SELECT on_both($$INSERT INTO u SELECT i, i, i, CASE WHEN i % 1000 > 0 THEN i END FROM generate_series(9001, 9999) i$$);
SELECT on_both($$INSERT INTO u SELECT i, i, i, CASE WHEN i % 1000 > 0 THEN i END FROM generate_series(10000, 10999) i$$);
SELECT on_both($$INSERT INTO u SELECT i, i, i, CASE WHEN i % 1000 > 0 THEN i END FROM generate_series(11000, 11999) i$$);
SELECT on_both($$INSERT INTO u SELECT i, NULL, 'n' || i, i + 1000000 FROM generate_series(19000, 10999, -1) i$$);
SELECT same('u');
-- Keys whose rows are dead, in this transaction and before; keys twice
SELECT on_both('DELETE FROM u WHERE id % 2 = 0');
SELECT on_both($$INSERT INTO u SELECT i, i + 100000, i::text, i FROM generate_series(-9000, 9000, 2) i$$);
SELECT same('u');
SELECT on_both($$INSERT INTO u SELECT i % 3000 + 200000, i + 300000, i::text || 'x', i + 2000000 FROM generate_series(1, 3000) i UNION ALL SELECT 200001, NULL, NULL, NULL$$);
SELECT on_both($$INSERT INTO u SELECT i, i + 400000, CASE WHEN i < 600002 THEN 'x' ELSE i::text END, CASE WHEN i < 600002 THEN 5 ELSE i END FROM generate_series(600000, 603000) i$$);
SELECT on_both($$INSERT INTO u SELECT i, i + 400000, CASE i WHEN 600000 THEN 'x' WHEN 600008 THEN 'x' ELSE i::text END, i FROM generate_series(600000, 603000) i$$);
SELECT same('u');

-- Tables without WAL, and one whose file this transaction has made
SELECT make_both('nolog (a int)');
DROP TABLE nolog;
CREATE UNLOGGED TABLE nolog (a int PRIMARY KEY, b int) USING mtpower;
CREATE INDEX nolog_b ON nolog (b);
SELECT on_both('INSERT INTO nolog SELECT i, i % 100 FROM generate_series(1, 5000) i') <> '';
SELECT bt_index_parent_check('nolog_pkey', true, true), bt_index_parent_check('nolog_b', true, true), count(*) FROM nolog;
BEGIN;
CREATE TABLE fresh (a int PRIMARY KEY, b int) USING mtpower;
CREATE INDEX fresh_b ON fresh (b);
INSERT INTO fresh SELECT i, i % 100 FROM generate_series(1, 5000) i;
TRUNCATE fresh;
INSERT INTO fresh SELECT i, i % 100 FROM generate_series(1, 6000) i;
COMMIT;
SELECT bt_index_parent_check('fresh_pkey', true, true), bt_index_parent_check('fresh_b', true, true), count(*) FROM fresh;

-- All of this came in batches, and split leaves.
SELECT count(*) FILTER (WHERE entries = 0) AS without, sum((SELECT sum(n) FROM unnest(splits) n)) > 200 AS splits, sum(leaves) > 1000 AS leaves
FROM mtpower.stat_batches WHERE database = current_database() AND index::text ~ '^(m|one|ends|wide|u)_';
SET client_min_messages = warning;
DROP SCHEMA twin CASCADE;
DROP SCHEMA twin_heap CASCADE;
