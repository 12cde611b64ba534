-- Indexes built over mtpower tables hold what they would hold over heap tables, entry for entry.
-- Every step is taken on both; the indexes' pages are then compared.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
CREATE SCHEMA table_build;
SET search_path = table_build, public;
CREATE TABLE am AS SELECT * FROM (VALUES ('heap'), ('mtpower')) v(am);

-- The entries of a btree of one page: TID and key.
CREATE FUNCTION entries(index text) RETURNS TABLE (tid tid, data text) LANGUAGE sql AS
$$SELECT i.ctid, i.data FROM bt_page_items(index, 1) i$$;
-- How many entries there are, and how many only one of the two has.
CREATE FUNCTION compare(name text) RETURNS TABLE (entries bigint, differ bigint) LANGUAGE sql AS
$$SELECT count(*), count(*) FILTER (WHERE h IS NULL OR m IS NULL)
FROM entries(name || '_heap') h FULL JOIN entries(name || '_mtpower') m USING (tid, data)$$;

-- HOT chains: the newest version, under the chain's root.
SELECT format('CREATE TABLE hot_%1$s (a int, b int, pad text) USING %1$s WITH (autovacuum_enabled = off)', am) FROM am \gexec
SELECT format('INSERT INTO hot_%1$s SELECT g, g, ''pad'' FROM generate_series(1, 20) g', am) FROM am \gexec
SELECT format('UPDATE hot_%1$s SET b = b + 100 WHERE a <= 5', am) FROM am \gexec
SELECT format('UPDATE hot_%1$s SET b = b + 100 WHERE a <= 2', am) FROM am \gexec
SELECT format('DELETE FROM hot_%1$s WHERE a IN (2, 20)', am) FROM am \gexec
SELECT format('CREATE INDEX hot_a_%1$s ON hot_%1$s (a)', am) FROM am \gexec
SELECT format('CREATE UNIQUE INDEX hot_b_%1$s ON hot_%1$s (b)', am) FROM am \gexec
SELECT * FROM compare('hot_a') WHERE differ <> 0;
SELECT * FROM compare('hot_b') WHERE differ <> 0;
SELECT tid FROM entries('hot_b_mtpower') WHERE tid IN (SELECT ctid FROM hot_mtpower WHERE a = 1);
SELECT data, (SELECT b FROM hot_mtpower WHERE a = 1) FROM entries('hot_b_mtpower') WHERE tid = '(0,1)';
SELECT bt_index_check('hot_b_mtpower', true), bt_index_check('hot_a_mtpower', true);

-- A chain whose versions differ in the indexed column: old snapshots must not use the index.
SELECT format('CREATE TABLE broken_%1$s (a int, b int) USING %1$s WITH (autovacuum_enabled = off)', am) FROM am \gexec
SELECT format('INSERT INTO broken_%1$s SELECT g, g FROM generate_series(1, 10) g', am) FROM am \gexec
BEGIN;
SELECT format('UPDATE broken_%1$s SET b = b + 100 WHERE a = 1', am) FROM am \gexec
SELECT format('CREATE INDEX broken_b_%1$s ON broken_%1$s (b)', am) FROM am \gexec
SELECT indexrelid::regclass, indcheckxmin FROM pg_index
WHERE indexrelid::regclass::text LIKE 'broken%' ORDER BY 1;
SELECT * FROM compare('broken_b');
COMMIT;

-- Rows that this transaction inserted, updated and deleted, in a unique index.
SELECT format('CREATE TABLE own_%1$s (a int, b int) USING %1$s WITH (autovacuum_enabled = off)', am) FROM am \gexec
SELECT format('INSERT INTO own_%1$s SELECT g, g FROM generate_series(1, 10) g', am) FROM am \gexec
BEGIN;
SELECT format('DELETE FROM own_%1$s WHERE a = 3', am) FROM am \gexec
SELECT format('INSERT INTO own_%1$s VALUES (3, 3), (11, 11)', am) FROM am \gexec
SELECT format('UPDATE own_%1$s SET a = 12 WHERE a = 11', am) FROM am \gexec
SAVEPOINT s;
SELECT format('INSERT INTO own_%1$s VALUES (4, 4)', am) FROM am \gexec
ROLLBACK TO s;
SELECT format('CREATE UNIQUE INDEX own_a_%1$s ON own_%1$s (a)', am) FROM am \gexec
SELECT * FROM compare('own_a');
SAVEPOINT s;
INSERT INTO own_mtpower VALUES (5, 5);
ROLLBACK TO s;
INSERT INTO own_heap VALUES (4, 5), (13, 5);
ROLLBACK;
INSERT INTO own_mtpower VALUES (4, 5);
CREATE UNIQUE INDEX own_a_mtpower ON own_mtpower (a);
DELETE FROM own_mtpower WHERE b = 5 AND a = 4;
CREATE UNIQUE INDEX own_a_mtpower ON own_mtpower (a);
SELECT bt_index_check('own_a_mtpower', true);

-- Expressions, predicates, INCLUDE, and all of them again when rebuilt.
SELECT format('CREATE TABLE expr_%1$s (a int, b text, c int) USING %1$s WITH (autovacuum_enabled = off)', am) FROM am \gexec
SELECT format('INSERT INTO expr_%1$s SELECT g, ''Row '' || g, nullif(g %% 5, 0) FROM generate_series(1, 100) g', am) FROM am \gexec
SELECT format('UPDATE expr_%1$s SET b = ''ROW '' || a WHERE a %% 7 = 0', am) FROM am \gexec
SELECT format('CREATE INDEX expr_lower_%1$s ON expr_%1$s (lower(b) DESC, c NULLS FIRST)', am) FROM am \gexec
SELECT format('CREATE INDEX expr_part_%1$s ON expr_%1$s (c) INCLUDE (a) WHERE c IS NOT NULL AND a > 50', am) FROM am \gexec
SELECT * FROM compare('expr_lower');
SELECT * FROM compare('expr_part');
SELECT format('REINDEX TABLE expr_%1$s', am) FROM am \gexec
SELECT * FROM compare('expr_lower');
SELECT * FROM compare('expr_part');
CREATE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
$$BEGIN IF $1 = 50 THEN RAISE EXCEPTION 'fifty'; END IF; RETURN $1; END$$;
\set VERBOSITY terse
CREATE INDEX ON expr_mtpower (fails(a));
\set VERBOSITY default
CREATE INDEX ON expr_mtpower (fails(a)) WHERE a > 50;

-- Concurrent builds: two scans, the second of which looks for what the first missed.
SELECT format('CREATE INDEX CONCURRENTLY expr_conc_%1$s ON expr_%1$s (a, b)', am) FROM am \gexec
SELECT * FROM compare('expr_conc');
SELECT format('REINDEX INDEX CONCURRENTLY expr_conc_%1$s', am) FROM am \gexec
SELECT * FROM compare('expr_conc');
CREATE UNIQUE INDEX CONCURRENTLY expr_dup ON expr_mtpower (c);
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'expr_dup'::regclass;
DROP INDEX expr_dup;
REINDEX TABLE CONCURRENTLY expr_mtpower;
SELECT bt_index_check('expr_conc_mtpower', true), bt_index_check('expr_lower_mtpower', true),
       bt_index_check('expr_part_mtpower', true);

-- The other access methods of core.  GIN, GiST, SP-GiST and hash are compared by what they find.
SELECT format('CREATE TABLE kinds_%1$s (a int, p point, t text, r int4range) USING %1$s WITH (autovacuum_enabled = off)', am) FROM am \gexec
SELECT format('INSERT INTO kinds_%1$s SELECT g, point(g, g), ''word'' || g %% 10, int4range(g, g + 1) FROM generate_series(1, 5000) g', am) FROM am \gexec
SELECT format('DELETE FROM kinds_%1$s WHERE a %% 3 = 0', am) FROM am \gexec
SELECT format('CREATE INDEX kinds_%1$s_%2$s ON kinds_%1$s USING %2$s (%3$s)', am, i, col)
FROM am, (VALUES ('brin', 'a'), ('hash', 'a'), ('gist', 'p'), ('spgist', 't'), ('gin', 'to_tsvector(''simple'', t)')) v(i, col) \gexec
SELECT format('ALTER TABLE kinds_%1$s ADD EXCLUDE USING gist (r WITH &&)', am) FROM am \gexec
INSERT INTO kinds_mtpower VALUES (0, NULL, NULL, int4range(1, 3));
SELECT format('SELECT brin_desummarize_range(''kinds_%1$s_brin'', 0), brin_summarize_new_values(''kinds_%1$s_brin'')', am) FROM am \gexec
SELECT count(*) FROM brin_page_items(get_raw_page('kinds_heap_brin', 2), 'kinds_heap_brin') h
FULL JOIN brin_page_items(get_raw_page('kinds_mtpower_brin', 2), 'kinds_mtpower_brin') m USING (itemoffset, blknum, value)
WHERE h IS NULL OR m IS NULL;
SET enable_seqscan = off;
SELECT format('SELECT (SELECT count(*) FROM kinds_%1$s WHERE a BETWEEN 100 AND 200) AS brin,
       (SELECT count(*) FROM kinds_%1$s WHERE p <@ box(''(0,0)'', ''(100,100)'')) AS gist,
       (SELECT count(*) FROM kinds_%1$s WHERE t = ''word7'') AS spgist,
       (SELECT count(*) FROM kinds_%1$s WHERE to_tsvector(''simple'', t) @@ ''word7'') AS gin,
       (SELECT count(*) FROM kinds_%1$s WHERE a = 4711) AS hash', am) FROM am \gexec
RESET enable_seqscan;

-- A parallel build, and the number of rows that a build leaves in pg_class.
SELECT format('CREATE TABLE big_%1$s USING %1$s WITH (autovacuum_enabled = off, parallel_workers = 2) AS SELECT g AS a FROM generate_series(1, 20000) g', am) FROM am \gexec
DELETE FROM big_mtpower WHERE a <= 1000;
DELETE FROM big_heap WHERE a <= 1000;
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
SELECT format('CREATE INDEX big_%1$s_a ON big_%1$s (a)', am) FROM am \gexec
SELECT bt_index_check('big_mtpower_a', true);
SELECT count(DISTINCT reltuples) FROM pg_class WHERE relname IN ('big_heap', 'big_mtpower');
-- An index may have entries of deleted rows that a snapshot somewhere still sees.
SELECT relname FROM pg_class WHERE relname IN ('big_heap_a', 'big_mtpower_a') AND reltuples BETWEEN 19000 AND 20000 ORDER BY 1;

-- What the progress view says in the middle of a build, from inside of an indexed expression.
CREATE FUNCTION progress(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE p record;
BEGIN
	IF $1 IN (5000, 10000, 20000) THEN
		PERFORM pg_stat_clear_snapshot();
		SELECT * INTO p FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid();
		RAISE NOTICE '%, %: % blocks, more than % to go', (SELECT relname FROM pg_class WHERE oid = p.relid), p.phase, p.blocks_done,
			CASE WHEN p.blocks_total > p.blocks_done THEN 0 END;
	END IF;
	RETURN $1;
END $$;
SET max_parallel_maintenance_workers = 0;
SELECT format('CREATE INDEX big_progress_%1$s ON big_%1$s (progress(a))', am) FROM am \gexec
SELECT format('CREATE INDEX CONCURRENTLY big_progress2_%1$s ON big_%1$s (progress(a))', am) FROM am \gexec
RESET max_parallel_maintenance_workers;

-- An empty table, one without storage that was ever written, and a truncated one.
CREATE TABLE empty (a int) USING mtpower;
CREATE INDEX ON empty (a);
CREATE INDEX ON empty USING brin (a);
CREATE INDEX CONCURRENTLY ON empty ((a + 1));
TRUNCATE big_mtpower;
REINDEX TABLE big_mtpower;
SELECT count(*) FROM big_mtpower;

SET client_min_messages = warning;
DROP SCHEMA table_build CASCADE;
DROP EXTENSION pageinspect, amcheck;
