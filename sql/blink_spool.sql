-- CREATE INDEX with little maintenance_work_mem: sorted runs in temporary files, merged.
CREATE SCHEMA blink_spool;
SET search_path = blink_spool, public;
SET client_min_messages = warning;
SET work_mem = '128MB';
SET max_parallel_maintenance_workers = 0; -- parallel builds always write files: t/index/parallel_build.pl
CREATE COLLATION icu (provider = icu, locale = 'en-US');
CREATE TABLE spooled (a int, b bigint, t text COLLATE "C", filler text);
ALTER TABLE spooled ALTER filler SET STORAGE EXTERNAL;
INSERT INTO spooled SELECT (i * 7919::bigint) % 30011, CASE WHEN i % 10 > 0 THEN i * 7919::bigint % 1000 END, md5(i::text),
	lpad((i % 5000)::text, 1900, md5(i::text))
FROM generate_series(1, 40000) i;

-- Does an index scan give the rows in this order, and those with equal keys in the order of their places?
CREATE FUNCTION same_rows(keys text, out same boolean, out by_index boolean) LANGUAGE plpgsql AS $$
DECLARE
	sorted text;
	scanned text;
	line text;
	query text := 'SELECT md5(array_agg(ctid)::text) FROM (SELECT ctid FROM spooled ORDER BY %s) s';
BEGIN
	EXECUTE format(query, keys || ', ctid') INTO sorted;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off;
	by_index := false;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, keys) LOOP
		by_index := by_index OR line ~ 'Index Scan using';
	END LOOP;
	EXECUTE format(query, keys) INTO scanned;
	same := scanned = sorted;
END $$;

-- Temporary files made by this database's sessions so far.
CREATE FUNCTION files(out bigint) LANGUAGE sql AS
	'SELECT pg_stat_get_db_temp_files(oid) FROM pg_database WHERE datname = current_database()';
SET stats_fetch_consistency = none;
SELECT pg_stat_force_next_flush();
SELECT files() AS before \gset

SET maintenance_work_mem = '64MB';
CREATE INDEX s ON spooled USING mtpower_blink (a);
CREATE INDEX st ON spooled USING mtpower_blink (t);
SELECT pg_stat_force_next_flush();
SELECT files() - :before AS in_memory;
SELECT * FROM same_rows('a');
SELECT * FROM same_rows('t');

-- 16-byte entries: 32 bytes with the sort's scratch memory, so 32768 to the megabyte.
SET maintenance_work_mem = '1MB';
REINDEX INDEX s;
SELECT pg_stat_force_next_flush();
SELECT files() - :before AS runs;
SELECT * FROM same_rows('a');
SELECT files() AS before \gset
CREATE INDEX sb ON spooled USING mtpower_blink (b DESC NULLS LAST);
SELECT pg_stat_force_next_flush();
SELECT files() - :before AS runs;
SELECT * FROM same_rows('b DESC NULLS LAST');

-- Tuples.
SELECT files() AS before \gset
REINDEX INDEX st;
SELECT pg_stat_force_next_flush();
SELECT files() - :before BETWEEN 3 AND 6 AS some_runs;
SELECT * FROM same_rows('t');
CREATE INDEX si ON spooled USING mtpower_blink (t COLLATE icu DESC, a);
SELECT * FROM same_rows('t COLLATE icu DESC, a');

-- More runs than one merge takes: some are merged first.
SELECT files() AS before \gset
CREATE INDEX sf ON spooled USING mtpower_blink (filler, t);
SELECT pg_stat_force_next_flush();
SELECT files() - :before > 64 AS many_runs;
SELECT * FROM same_rows('filler, t');

SELECT indexrelid::regclass, mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = 'spooled'::regclass ORDER BY 1;

-- All equal.
DROP INDEX s, st, si, sf;
UPDATE spooled SET b = 7;
VACUUM FULL spooled;
SELECT * FROM same_rows('b DESC NULLS LAST');
SELECT mtpower.verify_index('sb', true);

-- Errors leave no files.
CREATE INDEX failed ON spooled USING mtpower_blink ((1 / (a - 20000)));
SET temp_file_limit = '100kB';
\set VERBOSITY sqlstate
CREATE INDEX failed ON spooled USING mtpower_blink (a);
\set VERBOSITY default
RESET temp_file_limit;
SELECT count(*) FROM pg_ls_tmpdir();
DROP SCHEMA blink_spool CASCADE;
