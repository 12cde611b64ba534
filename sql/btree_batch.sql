-- Core's btree indexes of an mtpower table in batches, beside those of a heap table that goes through the same.
SET mtpower.batching = on;
CREATE SCHEMA twin;
CREATE SCHEMA twin_heap;
SET search_path = twin, public;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;

-- Every kind of key: narrow entries, wide ones, NULLs, descending, INCLUDE, partial, by expression, unique ones.
SELECT make_both('kinds (id bigint PRIMARY KEY, a int, b text, c timestamptz, d numeric, u uuid UNIQUE, e int[])',
	'CREATE INDEX kinds_a ON %s (a)', 'CREATE INDEX kinds_desc ON %s (a DESC NULLS LAST)', 'CREATE INDEX kinds_b ON %s (b COLLATE "C", a)',
	'CREATE INDEX kinds_c ON %s (c, a DESC) INCLUDE (b)', 'CREATE INDEX kinds_d ON %s (d)', 'CREATE INDEX kinds_part ON %s (b) WHERE a > 500',
	'CREATE INDEX kinds_expr ON %s ((a %% 7), lower(b))', 'CREATE UNIQUE INDEX kinds_two ON %s (a, id DESC) INCLUDE (c)',
	'CREATE INDEX kinds_e ON %s (e)', 'CREATE INDEX kinds_plain ON %s (a) WITH (deduplicate_items = off, fillfactor = 70)',
	'CREATE INDEX kinds_hash ON %s USING hash (a)', 'CREATE INDEX kinds_brin ON %s USING brin (id)');
-- At first entry by entry, which is the owner's work.
SET mtpower.core_indexes = insert;
SELECT on_both($$INSERT INTO kinds SELECT i, nullif(hashint4(i) % 1000, 0), CASE WHEN i % 11 > 0 THEN md5(i::text) END,
	'2026-01-01'::timestamptz + i % 777 * interval '1 min', (i % 5000) / 7.0, md5('u' || i)::uuid, ARRAY[i % 3, i]
	FROM generate_series(1, 8000) i$$);
SELECT same('kinds');
SELECT * FROM queued('kinds');
SELECT sum(entries_workers) AS workers_insert_none, sum(entries) = sum(alone_setting) AS one_by_one FROM mtpower.stat_batches WHERE index::text ~ '^kinds_';
RESET mtpower.core_indexes;
COPY (SELECT id + 8000, a + 1, b || 'x', c, d, md5(u::text), e FROM kinds) TO PROGRAM 'cat > twin.copy';
COPY twin_heap.kinds FROM PROGRAM 'cat twin.copy';
COPY twin.kinds FROM PROGRAM 'cat twin.copy; rm twin.copy';
SELECT same('kinds');

-- UPDATE: of keys, of other columns, HOT; unique indexes take each entry at once.
SELECT on_both('UPDATE kinds SET a = a + 1 WHERE id % 2 = 0');
SELECT on_both('UPDATE kinds SET b = b || ''y'' WHERE id % 3 = 0');
SELECT on_both('UPDATE kinds SET e = NULL WHERE id % 5 = 0');
SET mtpower.batch_min_rows = 0;
SELECT on_both('UPDATE kinds SET id = id + 1');
RESET mtpower.batch_min_rows;
SELECT on_both('UPDATE kinds SET id = id + 20000');
SELECT same('kinds');
SELECT on_both($$MERGE INTO kinds k USING generate_series(25000, 37999) i ON k.id = i
	WHEN MATCHED AND i % 4 = 0 THEN DELETE WHEN MATCHED AND i % 4 = 1 THEN UPDATE SET a = i
	WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (i, i, 'merged')$$);
SELECT same('kinds');
SELECT on_both('DELETE FROM kinds WHERE id % 2 = 1');
SELECT on_both('INSERT INTO kinds (id, a, b) SELECT i, i, i FROM generate_series(20001, 39999, 2) i');
SELECT same('kinds');
VACUUM kinds;
SELECT same('kinds');

-- Scans of a statement that see its queued rows, and those that do not.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT make_both('seen (id int PRIMARY KEY, a int)', 'CREATE INDEX seen_a ON %s (a)');
CREATE FUNCTION look(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE n int; m int;
BEGIN
	IF i % 500 > 0 THEN RETURN i; END IF;
	SELECT count(*) INTO n FROM seen WHERE a >= 0;
	SELECT count(*) INTO m FROM seen WHERE id < 0;
	RETURN n + 100000 * m;
END $$;
SELECT on_both('INSERT INTO seen SELECT -i, look(i) FROM generate_series(1, 3000) i');
SELECT same('seen');
SELECT a FROM seen WHERE id % 500 = 0 ORDER BY id DESC;
SELECT on_both('INSERT INTO seen SELECT id - 10000, a FROM seen WHERE a >= 0');
SELECT same('seen');
-- A cursor that is open meanwhile, forth and back.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM seen WHERE id < 0 ORDER BY id;
FETCH 2 FROM c;
INSERT INTO seen SELECT -20000 - i, 1 FROM generate_series(1, 1000) i;
FETCH 2 FROM c;
MOVE LAST FROM c;
FETCH BACKWARD 2 FROM c;
CLOSE c;
SELECT count(*), min(id) FROM seen WHERE id < 0;
ROLLBACK;
SET enable_bitmapscan = on;
SELECT same('seen');

-- A bitmap scan sees them as well.
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT on_both('INSERT INTO seen SELECT -20000 - i, look(i) FROM generate_series(1, 3000) i');
RESET enable_indexscan;
RESET enable_indexonlyscan;
SELECT same('seen');

-- A statement that looks at one of its indexes often no longer queues for that one, and goes on with the others.
SELECT make_both('often (id int PRIMARY KEY, a int)', 'CREATE INDEX often_a ON %s (a)', 'CREATE INDEX often_b ON %s USING mtpower_blink (a, id)');
CREATE FUNCTION predecessor(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i % 100 = 0 THEN
		PERFORM FROM often WHERE id = i - 1;
		IF NOT FOUND THEN RAISE EXCEPTION '% is not there', i - 1; END IF;
	END IF;
	RETURN i;
END $$;
SELECT on_both('INSERT INTO often SELECT predecessor(i), i % 77 FROM generate_series(1, 10000) i');
SELECT same('often'), verify('twin.often');
SELECT * FROM queued('often');

-- Subtransactions: those that are rolled back leave nothing that matters.
CREATE FUNCTION in_parts(doomed int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR part IN 1..4 LOOP
		BEGIN
			INSERT INTO seen SELECT 100000 * part + i, part FROM generate_series(1, 1500) i;
			IF part = doomed THEN RAISE EXCEPTION 'doomed'; END IF;
		EXCEPTION WHEN raise_exception THEN
			INSERT INTO seen SELECT 100000 * part + i, -part FROM generate_series(1, 1500) i;
		END;
	END LOOP;
END $$;
SELECT on_both('SELECT in_parts(2)');
SELECT same('seen');
SELECT a, count(*) FROM seen WHERE id > 100000 GROUP BY a ORDER BY a;

-- Partitions, as many as make a statement look for its queues in another way.
CREATE TABLE part (id int PRIMARY KEY, a int) PARTITION BY HASH (id);
CREATE TABLE twin_heap.part (id int PRIMARY KEY, a int) PARTITION BY HASH (id);
CREATE INDEX part_a ON part (a);
CREATE INDEX part_a ON twin_heap.part (a);
DO $$
BEGIN
	FOR i IN 0..29 LOOP
		EXECUTE format('CREATE TABLE part_%s PARTITION OF part FOR VALUES WITH (MODULUS 30, REMAINDER %s) USING mtpower', i, i);
		EXECUTE format('CREATE TABLE twin_heap.part_%s PARTITION OF twin_heap.part FOR VALUES WITH (MODULUS 30, REMAINDER %s)', i, i);
	END LOOP;
END $$;
SELECT on_both('INSERT INTO part SELECT i, i % 100 FROM generate_series(1, 9000) i');
SELECT on_both('INSERT INTO part SELECT CASE i WHEN 7000 THEN 5 ELSE i + 9000 END, i % 100 FROM generate_series(1, 9000) i');
SELECT on_both('UPDATE part SET id = id + 30000');
SELECT count(*), string_agg(DISTINCT same, ', ') FROM (SELECT same('part_' || i) FROM generate_series(0, 29) i) s WHERE same !~ '^\d+ rows$';
SELECT sum(entries) > 15000 AS queued FROM generate_series(0, 29) i, queued(('part_' || i)::regclass);

-- What is left to core: with the setting off, and of temporary tables.
SET mtpower.core_indexes = off;
SELECT make_both('off (id int PRIMARY KEY)');
SELECT on_both('INSERT INTO off SELECT generate_series(1, 1000)');
SELECT * FROM queued('off');
SET mtpower.core_indexes = merge_all;
RESET mtpower.core_indexes;
CREATE TEMP TABLE passing (id int PRIMARY KEY) USING mtpower;
INSERT INTO passing SELECT generate_series(1, 1000);
SELECT * FROM queued('passing');
DROP TABLE passing;

-- A row that is too large is refused where it comes in; one that is just small enough is not.
SELECT make_both('large (a text)', 'ALTER TABLE %s ALTER a SET STORAGE EXTERNAL', 'CREATE INDEX large_a ON %s (a)');
SELECT on_both('INSERT INTO large SELECT repeat(''x'', 1 + i) FROM generate_series(1, 2690) i');
SELECT same('large');
INSERT INTO large SELECT repeat('x', i) FROM generate_series(1, 3000) i;
COPY large FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 2000; i++) { s = ""; if (i == 1234) for (j = 0; j < 300; j++) s = s "0123456789"; print s } }'$$;
SELECT same('large');

SELECT memory_held();
RESET enable_seqscan;
SET client_min_messages = warning;
DROP SCHEMA twin, twin_heap CASCADE;
