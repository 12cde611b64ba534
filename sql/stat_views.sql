-- The batch engine's statistics: what they count, what becomes of them, and who may see them.

CREATE SCHEMA stat_views;
SET search_path = stat_views;
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 256;
SET mtpower.batch_size = '16MB';
SELECT mtpower.stat_reset();

-- What is there, for whoever writes queries on it.
SELECT attrelid::regclass AS view, attname AS column, format_type(atttypid, atttypmod) AS type
FROM pg_attribute
WHERE attrelid IN ('mtpower.stat_workers'::regclass, 'mtpower.stat_batches'::regclass,
		'mtpower.stat_memory'::regclass, 'mtpower.stat_progress'::regclass) AND attnum > 0
ORDER BY attrelid::regclass::text, attnum;

-- Counters of an index, as far as they do not depend on who was faster.
CREATE VIEW counted AS
SELECT index, batches, entries, entries_workers + entries_backends = entries AS entries_add_up,
	tasks_workers + tasks_backends AS tasks, tasks_taken_over AS taken_over,
	failed_file + failed_error + failed_exit AS failed,
	leaves > 0 AS leaves, entries_per_leaf = round(entries::numeric / leaves, 1) AS per_leaf,
	wal_bytes > entries * 8 AS wal, queued_bytes AS queued
FROM mtpower.stat_batches WHERE database = current_database() ORDER BY index::text;

CREATE TABLE loaded (a int, t text) USING mtpower;
CREATE INDEX loaded_a ON loaded USING mtpower_blink (a);
CREATE INDEX loaded_t ON loaded USING mtpower_blink (t);

-- Nothing is counted before something is queued: small statements never meet the engine.
INSERT INTO loaded SELECT i, i::text FROM generate_series(1, 256) i;
SELECT * FROM counted;

INSERT INTO loaded SELECT i, i::text FROM generate_series(1, 10000) i;
SELECT * FROM counted;

-- COPY announces its rows, so the first ones are queued, too.
COPY loaded FROM PROGRAM 'seq 1 5000 | sed "s/.*/&,&/"' WITH (FORMAT csv);
SELECT * FROM counted;

-- Heap tables are loaded in batches as well.
CREATE TABLE heap_loaded (a int) USING heap;
CREATE INDEX heap_loaded_a ON heap_loaded USING mtpower_blink (a);
INSERT INTO heap_loaded SELECT i FROM generate_series(1, 1000) i;
SELECT * FROM counted WHERE index = 'heap_loaded_a'::regclass;

-- Splits by K: subscripts are K.
SELECT array_lower(splits, 1) AS first, array_upper(splits, 1) AS last,
	(SELECT sum(s) > 0 FROM unnest(splits) s) AS some
FROM mtpower.stat_batches WHERE index = 'loaded_t'::regclass;

-- A load of several batches; what is queued shows while it runs, also of an index that has counted nothing yet.
SELECT mtpower.stat_reset('batches');
CREATE FUNCTION probe(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i = 50000 THEN
		PERFORM set_config('stat_views.queued',
			(SELECT queued_bytes > 65536 AND queued_bytes % 1024 = 0
			 FROM mtpower.stat_batches WHERE index = 'loaded_a'::regclass)::text, false);
		PERFORM set_config('stat_views.held',
			(SELECT held_bytes > 65536 AND held_bytes < total_bytes FROM mtpower.stat_memory)::text, false);
	END IF;
	RETURN i;
END $$;
INSERT INTO loaded SELECT probe(i), NULL FROM generate_series(1, 50000) i;
SELECT current_setting('stat_views.queued') AS queued, current_setting('stat_views.held') AS held;
SET mtpower.batch_size = '64kB';
INSERT INTO loaded SELECT i, NULL FROM generate_series(1, 50000) i;
SET mtpower.batch_size = '16MB';
SELECT index, batches > 5 AS many, entries, queued FROM counted;

-- One that reads its own table with a snapshot that can't see its rows is not drained at all.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT mtpower.stat_reset('batches');
SELECT count(*) AS rows FROM loaded WHERE a BETWEEN 1 AND 1000 \gset
INSERT INTO loaded SELECT a, NULL FROM loaded WHERE a BETWEEN 1 AND 1000;
SELECT :rows > 4000 AS many, entries = :rows - 256 AS all_but_first, batches FROM counted WHERE index = 'loaded_a'::regclass;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- A modifying CTE that nobody reads is queued as well.
SELECT mtpower.stat_reset('batches');
WITH w AS (INSERT INTO loaded SELECT i, NULL FROM generate_series(1, 1000) i) SELECT 1;
SELECT entries FROM counted WHERE index = 'loaded_a'::regclass;

-- A statement that is drained again and again from within gives up queueing.
CREATE FUNCTION drains(i int, how text) RETURNS int LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	IF how = 'scan' THEN
		PERFORM FROM loaded WHERE a = -1;
	ELSIF how = 'utility' THEN
		SET LOCAL work_mem = '4MB';
	ELSE
		PERFORM force_parallel(true, true), set_config('enable_seqscan', 'on', true);
		PERFORM count(*) FROM pg_am;
	END IF;
	RETURN i;
END $$;
SET mtpower.batch_min_rows = 0;
SELECT mtpower.stat_reset('batches');
INSERT INTO loaded SELECT drains(i, 'scan') FROM generate_series(1, 100) i;
SELECT entries FROM counted WHERE index = 'loaded_a'::regclass;
SELECT mtpower.stat_reset('batches');
INSERT INTO loaded SELECT drains(i, 'utility') FROM generate_series(1, 100) i;
SELECT entries FROM counted WHERE index = 'loaded_a'::regclass;
SELECT mtpower.stat_reset('batches');
INSERT INTO loaded SELECT drains(i, 'parallel') FROM generate_series(1, 100) i;
SELECT entries FROM counted WHERE index = 'loaded_a'::regclass;
SET mtpower.batch_min_rows = 256;

-- Nothing is queued of temporary tables, exclusion constraints, and of heap tables where a statement has ON CONFLICT.
CREATE TEMP TABLE temp_loaded (a int) USING mtpower;
CREATE INDEX ON temp_loaded USING mtpower_blink (a);
CREATE TABLE excluding (a int, EXCLUDE USING mtpower_blink (a WITH =)) USING mtpower;
CREATE TABLE upserted (a int) USING heap;
CREATE INDEX ON upserted USING mtpower_blink (a);
SELECT mtpower.stat_reset('batches');
INSERT INTO temp_loaded SELECT i FROM generate_series(1, 1000) i;
INSERT INTO excluding SELECT i FROM generate_series(1, 1000) i;
INSERT INTO upserted SELECT i FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING;
WITH w AS (INSERT INTO upserted SELECT i FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING RETURNING a) SELECT count(*) FROM w;
SELECT index, entries FROM counted;
DROP TABLE temp_loaded, excluding, upserted;

-- Everything has been given back.
SELECT held_bytes, total_bytes = pg_size_bytes(current_setting('mtpower.batch_memory')) AS total, no_worker >= 0 AS no_worker, evicted
FROM mtpower.stat_memory;

-- With batching off nothing is counted.
SELECT mtpower.stat_reset('batches');
SET mtpower.batching = off;
INSERT INTO loaded SELECT i, NULL FROM generate_series(1, 1000) i;
SET mtpower.batching = on;
SELECT * FROM counted;

-- A failed statement's batches are not counted as done.
INSERT INTO loaded SELECT i, (1 / (3000 - i))::text FROM generate_series(1, 5000) i;
SELECT index, batches FROM counted;

-- Who may: owners see their indexes, others nothing, pg_read_all_stats everything.
CREATE ROLE regress_stat_owner;
CREATE ROLE regress_stat_other;
CREATE ROLE regress_stat_reader IN ROLE pg_read_all_stats;
GRANT CREATE, USAGE ON SCHEMA stat_views TO regress_stat_owner, regress_stat_other, regress_stat_reader;
GRANT SELECT ON counted TO PUBLIC;
INSERT INTO loaded SELECT i, NULL FROM generate_series(1, 1000) i;
SET ROLE regress_stat_owner;
CREATE TABLE owned (a int) USING mtpower;
CREATE INDEX owned_a ON owned USING mtpower_blink (a);
INSERT INTO owned SELECT i FROM generate_series(1, 1000) i;
SELECT index, entries FROM mtpower.stat_batches;
SELECT count(*) FROM mtpower.stat_workers;
SELECT held_bytes FROM mtpower.stat_memory;
SELECT mtpower.stat_reset();
SELECT mtpower.stat_reset('batches');
SET ROLE regress_stat_other;
SELECT index, entries FROM mtpower.stat_batches;
SELECT count(*) FROM mtpower.stat_workers;
SELECT mtpower.stat_reset('workers');
SET ROLE regress_stat_reader;
SELECT index, entries FROM mtpower.stat_batches WHERE database = current_database() ORDER BY index::text;
SELECT mtpower.stat_reset();
RESET ROLE;
GRANT EXECUTE ON FUNCTION mtpower.stat_reset(text) TO regress_stat_other;
SET ROLE regress_stat_other;
SELECT mtpower.stat_reset('batches');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION mtpower.stat_reset(text) FROM regress_stat_other;
SELECT count(*) FROM mtpower.stat_batches;

-- Reset: what it takes.
SELECT mtpower.stat_reset('nonsense');
\echo :LAST_ERROR_SQLSTATE
SELECT mtpower.stat_reset('');
SELECT mtpower.stat_reset('workers');
SELECT no_worker, evicted FROM mtpower.stat_memory;
SELECT count(*) AS with_entries FROM mtpower.stat_workers WHERE entries > 0;
SELECT mtpower.stat_reset(NULL);

-- Dropped indexes vanish, whichever way they went; those that come back have lost nothing.
INSERT INTO loaded SELECT i, 'x' FROM generate_series(1, 1000) i;
BEGIN;
DROP INDEX loaded_t;
SELECT index, entries FROM mtpower.stat_batches WHERE index::text LIKE 'loaded%' ORDER BY index::text;
ROLLBACK;
SELECT index, entries FROM counted;
BEGIN;
CREATE TABLE aborted (a int) USING mtpower;
CREATE INDEX aborted_a ON aborted USING mtpower_blink (a);
INSERT INTO aborted SELECT i FROM generate_series(1, 1000) i;
SELECT index, entries FROM counted;
ROLLBACK;
SELECT index, entries FROM counted;
DROP INDEX loaded_t;
SELECT index, entries FROM counted;
REINDEX INDEX loaded_a;
TRUNCATE loaded;
SELECT index, entries FROM counted;
DROP TABLE loaded, heap_loaded, owned;
SELECT count(*) FROM mtpower.stat_batches WHERE database = current_database();

SET client_min_messages = warning;
DROP SCHEMA stat_views CASCADE;
DROP ROLE regress_stat_owner, regress_stat_other, regress_stat_reader;
