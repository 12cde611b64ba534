-- mtpower.page_info: what is on each block of an index.
CREATE SCHEMA page_info;
SET search_path = page_info, public;
CREATE TABLE tab (a int, b text) WITH (autovacuum_enabled = off);
CREATE INDEX tab_ab ON tab USING mtpower_blink (a, b) WITH (deduplicate_items = off);
CREATE VIEW pages AS
	SELECT n AS blkno, p.*
	FROM generate_series(0, pg_relation_size('tab_ab') / current_setting('block_size')::bigint - 1) n,
		mtpower.page_info('tab_ab', n) p;

-- Empty: the metapage alone.
SELECT blkno, type, level, items, dead, free_bytes, "left", "right", high_key, flags, format, lsn > '0/0' AS logged FROM pages;

-- One leaf, which is the root.
INSERT INTO tab VALUES (1, 'foo'), (2, NULL), (NULL, 'bar');
SELECT blkno, type, level, items, dead, free_bytes > 0 AS free, "left", "right", high_key, flags, format FROM pages ORDER BY 1;

-- A tree.
INSERT INTO tab SELECT g % 7, 'foo' FROM generate_series(1, 20000) g;
INSERT INTO tab SELECT NULL, 'foo' FROM generate_series(1, 5000) g;
INSERT INTO tab SELECT 8, NULL FROM generate_series(1, 5000) g;
INSERT INTO tab SELECT 1000 + g, repeat(md5(g::text), 10) FROM generate_series(1, 5000) g;
SELECT least(level, 1) AS level, type, count(*) > 1 AS many, sum(items) = 35003 AS all_rows, min(dead), max(dead),
	count(*) FILTER (WHERE "left" IS NULL) = count(DISTINCT level) AS leftmost,
	count(*) FILTER (WHERE "right" IS NULL) = count(DISTINCT level) AS rightmost,
	count(*) FILTER (WHERE ("right" IS NULL) <> (high_key IS NULL)) AS wrong
FROM pages GROUP BY 1, 2 ORDER BY 1, 2;

-- Links lead there and back.
SELECT count(*) FROM pages l LEFT JOIN pages r ON r.blkno = l."right" AND r."left" = l.blkno AND r.level = l.level
WHERE l."right" IS NOT NULL AND r.blkno IS NULL;

-- High keys: whole with a TID, with NULLs, with what truncation left.
SELECT regexp_replace(high_key, 'tid=\(\d+,\d+\)', 'tid=(…)') AS high_key FROM pages
WHERE high_key ~ '^\((3|null|8), .*tid='
GROUP BY 1 ORDER BY 1;
SELECT count(*) > 10 AS many FROM pages WHERE high_key ~ '^\(\d+, -inf\)$' AND type = 'leaf';

-- Other types, one column.
CREATE TABLE other (t timestamptz, n numeric) WITH (autovacuum_enabled = off);
CREATE INDEX other_t ON other USING mtpower_blink (t DESC) INCLUDE (n);
SET timezone = 'UTC';
SET datestyle = 'ISO';
INSERT INTO other SELECT '2020-01-01 UTC'::timestamptz + g * interval '1 day', g FROM generate_series(1, 2000) g;
SELECT bool_and(high_key ~ '^\(20\d\d-\d\d-\d\d 00:00:00\+00\)$') AS dates, count(*) > 2 AS many
FROM generate_series(1, 5) n, mtpower.page_info('other_t', n) WHERE high_key IS NOT NULL AND type = 'leaf';

-- Dead entries, which a scan has found; then deleted pages.
DELETE FROM tab WHERE a = 3;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- Nobody else, such as autovacuum, may still see the rows.
DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$;
SELECT count(*) FROM tab WHERE a = 3 AND b = 'foo';
SELECT sum(dead) > 0 AS dead, bool_or('has_dead' = ANY (flags)) AS flagged FROM pages;
VACUUM tab;
SELECT count(*) > 0 AS deleted, sum(items), bool_and(level = 0), bool_and("right" IS NOT NULL), bool_and(high_key IS NULL)
FROM pages WHERE type = 'deleted';
SELECT sum(dead), bool_or('has_dead' = ANY (flags)) FROM pages;

-- Lists: entries of one key in one item.
SELECT sum(items) = sum(tids) AS none, sum(lists) FROM pages WHERE type = 'leaf';
CREATE TABLE few (a int, b text) WITH (autovacuum_enabled = off);
INSERT INTO few SELECT g % 3, 'foo' FROM generate_series(1, 3000) g;
INSERT INTO few SELECT g, 'bar' FROM generate_series(11, 20) g;
CREATE INDEX few_ab ON few USING mtpower_blink (a, b);
SELECT level, type, items, tids, lists, dead FROM mtpower.page_info('few_ab', 1);
DELETE FROM few WHERE ctid < '(2,0)';
SELECT count(*) FROM few WHERE a = 1 AND b = 'foo';
SELECT level, type, items, tids, lists, dead > 0 AS dead, flags FROM mtpower.page_info('few_ab', 1);
VACUUM few;
SELECT level, type, items, tids < 3010 AS fewer, lists, dead, flags FROM mtpower.page_info('few_ab', 1);

-- What is refused.
CREATE INDEX tab_btree ON tab (a);
DO $$
DECLARE
	what text;
	n bigint;
	size bigint := pg_relation_size('page_info.tab_ab') / current_setting('block_size')::bigint;
	detail text;
BEGIN
	FOREACH what IN ARRAY ARRAY['tab', 'tab_btree', 'pages'] LOOP
		BEGIN
			PERFORM mtpower.page_info(what::regclass, 0);
			RAISE NOTICE '% was not refused', what;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			RAISE NOTICE '%: % %', SQLSTATE, SQLERRM, detail;
		END;
	END LOOP;
	FOREACH n IN ARRAY ARRAY[-1, size, 4294967296, 9223372036854775807] LOOP
		BEGIN
			PERFORM mtpower.page_info('page_info.tab_ab', n);
			RAISE NOTICE '% was not refused', n;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			RAISE NOTICE '%: % %', SQLSTATE, replace(SQLERRM, size::text, 'SIZE'), replace(detail, size::text, 'SIZE');
		END;
	END LOOP;
END $$;
SELECT mtpower.page_info('tab_ab', NULL), mtpower.page_info(NULL, 0);
CREATE ROLE regress_page_info;
GRANT USAGE ON SCHEMA page_info TO regress_page_info;
SET ROLE regress_page_info;
SELECT type FROM mtpower.page_info('tab_ab', 0);
RESET ROLE;
GRANT EXECUTE ON FUNCTION mtpower.page_info TO regress_page_info;
SET ROLE regress_page_info;
SELECT type FROM mtpower.page_info('tab_ab', 0);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION mtpower.page_info FROM regress_page_info;

SET client_min_messages = warning;
DROP SCHEMA page_info CASCADE;
DROP ROLE regress_page_info;
