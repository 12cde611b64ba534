-- Scans of hash indexes that go back and forth: over many pages of one key, over a rare key beside it, and through all buckets.
SET client_min_messages = warning;
SET mtpower.batching = on;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- Reads a query's rows to the end, back to the beginning, and from place to place: each must be where it was the first time.
CREATE FUNCTION to_and_fro(query text, moves int, OUT n int, OUT wrong int) LANGUAGE plpgsql AS $$
DECLARE
	c refcursor; x bigint; forth bigint[]; back bigint[]; at int; step int;
BEGIN
	OPEN c SCROLL FOR EXECUTE query;
	LOOP
		FETCH NEXT FROM c INTO x;
		EXIT WHEN NOT FOUND;
		forth := forth || x;
	END LOOP;
	n := coalesce(cardinality(forth), 0);
	LOOP
		FETCH PRIOR FROM c INTO x;
		EXIT WHEN NOT FOUND;
		back := x || back;
	END LOOP;
	wrong := (forth IS DISTINCT FROM back)::int;
	at := 0;
	FOR i IN 1 .. moves LOOP
		-- A few rows, or a leap over pages, beyond either end at times
		step := CASE WHEN i % 4 = 0 THEN (i::bigint * 7919 % (2 * n + 3))::int - n - 1 ELSE i % 7 - 3 END;
		FETCH RELATIVE step FROM c INTO x;
		at := greatest(0, least(n + 1, at + step));
		wrong := wrong + (CASE WHEN at BETWEEN 1 AND n THEN x IS DISTINCT FROM forth[at] ELSE FOUND END)::int;
	END LOOP;
	CLOSE c;
END $$;

CREATE TABLE hb (k int, l int, id bigint) USING mtpower WITH (autovacuum_enabled = off);
CREATE INDEX hb_k ON hb USING mtpower_hash (k);
CREATE INDEX hb_kl ON hb USING mtpower_hash (k, l);
COPY hb FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 30000; i++) print (i % 3 ? i : 7) "\t" i % 5 "\t" i }'$$;
INSERT INTO hb SELECT 8, g, 100000 + g FROM generate_series(1, 900) g;
VACUUM ANALYZE hb;
EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM hb WHERE k = 7;
SELECT to_and_fro('SELECT id FROM hb WHERE k = 7', 300);
SELECT to_and_fro('SELECT id FROM hb WHERE k = 8', 300);
SELECT to_and_fro('SELECT id FROM hb WHERE k = 7 AND l = 3', 300);
SELECT to_and_fro('SELECT id FROM hb WHERE k = 29999', 20);
SELECT to_and_fro('SELECT id FROM hb WHERE k = -1', 20);
SELECT to_and_fro('SELECT id FROM hb WHERE k = NULL', 20);

-- All buckets: a scan without equality on both columns, where every other path is dearer still.
DROP INDEX hb_k;
SET seq_page_cost = 1e10;
EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM hb WHERE k = 7;
SELECT to_and_fro('SELECT id FROM hb WHERE k = 7', 300);
SELECT to_and_fro('SELECT id FROM hb WHERE l = 4', 300);
SELECT to_and_fro('SELECT id FROM hb WHERE l = 77', 20);

-- The index grows while a cursor stands in it, by batches and by single rows; rows are changed and deleted behind it and before it.
DO $$
DECLARE
	c CURSOR FOR SELECT k FROM hb WHERE l = 2; ahead int; back int; total int;
BEGIN
	SELECT count(*) INTO total FROM hb WHERE l = 2;
	OPEN c;
	MOVE 1000 FROM c;
	INSERT INTO hb SELECT g, g % 5, g FROM generate_series(30001, 90000) g;
	DELETE FROM hb WHERE id % 10 = 0;
	UPDATE hb SET l = 2 WHERE id % 11 = 0;
	MOVE FORWARD ALL FROM c;
	GET DIAGNOSTICS ahead = ROW_COUNT;
	MOVE BACKWARD ALL FROM c;
	GET DIAGNOSTICS back = ROW_COUNT;
	RAISE WARNING 'of %: % ahead of 1000, % back', total, ahead, back;
	MOVE 3000 FROM c;
	INSERT INTO hb SELECT -g, 2, -g FROM generate_series(1, 5000) g;
	MOVE BACKWARD 2500 FROM c;
	GET DIAGNOSTICS back = ROW_COUNT;
	MOVE FORWARD ALL FROM c;
	GET DIAGNOSTICS ahead = ROW_COUNT;
	RAISE WARNING 'from 3000 % back, then % ahead', back, ahead;
END $$;
SELECT mtpower.verify_index('hb_kl', true);

-- Back over rows that nobody can see any more, whose dead hints the way there has set; and a cursor that begins at its end.
DELETE FROM hb WHERE k = 7 AND id % 2 = 0;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM hb WHERE k = 7;
MOVE ALL FROM c;
MOVE BACKWARD ALL FROM c;
FETCH LAST FROM c \gset last_
FETCH FIRST FROM c \gset first_
FETCH ABSOLUTE -1 FROM c \gset again_
SELECT :last_id = :again_id AS same, :first_id <> :last_id AS other;
COMMIT;
SELECT mtpower.verify_index('hb_kl', true);

-- Equal to what a sequential scan finds.
SET enable_seqscan = on;
RESET seq_page_cost;
SET enable_indexscan = off;
SELECT count(*) FROM hb WHERE k = 7;
DROP TABLE hb;
DROP FUNCTION to_and_fro;
