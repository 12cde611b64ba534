-- Index entries of rows that are queued, and subtransactions: what is rolled back leaves no entry that leads to a
-- stranger's row, what is not has one.
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET enable_seqscan = off;
CREATE SCHEMA batch_subxact;
SET search_path = batch_subxact, public;
CREATE TABLE m (a int, b text) USING mtpower;
CREATE INDEX m_a ON m USING mtpower_blink (a);
CREATE INDEX m_b ON m USING mtpower_blink (b);
CREATE INDEX m_h ON m USING mtpower_hash (a);
CREATE INDEX m_hba ON m USING mtpower_hash (b, a) WITH (initial_buckets = 1);

-- Savepoints, released and rolled back to.
BEGIN;
INSERT INTO m SELECT i, 'one' FROM generate_series(1, 4000) i;
SAVEPOINT a;
INSERT INTO m SELECT i, 'two' FROM generate_series(4001, 8000) i;
SAVEPOINT b;
INSERT INTO m SELECT i, 'three' FROM generate_series(8001, 12000) i;
RELEASE b;
SELECT count(*) FROM m WHERE a > 0;
ROLLBACK TO a;
SELECT count(*) FROM m WHERE a > 0;
COPY m FROM PROGRAM 'seq -f "%.0f	four" 4001 7000';
SAVEPOINT c;
COPY m FROM PROGRAM 'seq -f "%.0f	five" 7001 8000';
RELEASE c;
COMMIT;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');

-- A COPY that fails in its last line, between others that don't.
BEGIN;
COPY m FROM PROGRAM 'seq -f "%.0f	six" 10001 13000';
SAVEPOINT a;
COPY m FROM PROGRAM 'seq -f "%.0f	seven" 13001 16000; echo broken';
ROLLBACK TO a;
COPY m FROM PROGRAM 'seq -f "%.0f	eight" 13001 14000';
COMMIT;
SELECT b, count(*) FROM m WHERE a > 10000 GROUP BY b ORDER BY b;
SELECT verify('m');

-- 10,000 savepoints with a row each, and one in ten rolled back; then some with more.
TRUNCATE m;
DO $$
BEGIN
	FOR i IN 1..10000 LOOP
		BEGIN
			INSERT INTO m VALUES (i, 'sub');
			IF i % 10 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
	FOR i IN 1..20 LOOP
		BEGIN
			INSERT INTO m SELECT i * 1000 + j, 'subs' FROM generate_series(1, 1000) j;
			IF i % 10 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END $$;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');

-- Two thousand savepoints with rows, of which some are released, some rolled back, and 200 stay open; then loads at that depth, and back.
TRUNCATE m;
BEGIN;
\set ECHO none
SELECT 'SAVEPOINT s' || i, format('INSERT INTO m SELECT %s, ''deep'' FROM generate_series(1, 2)', i),
	CASE i % 10 WHEN 1 THEN NULL WHEN 2 THEN 'ROLLBACK TO s' || i ELSE 'RELEASE s' || i END, CASE i % 10 WHEN 2 THEN 'RELEASE s' || i END
FROM generate_series(1, 2000) i \gexec
\set ECHO all
COPY m FROM PROGRAM 'seq -f "%.0f	deeper" 20001 29000';
SELECT b, count(*), count(DISTINCT a) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
ROLLBACK TO s1001;
COPY m FROM PROGRAM 'seq -f "%.0f	deeper" 20001 24000';
RELEASE s101;
SELECT b, count(*), count(DISTINCT a) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
COMMIT;
SELECT b, count(*), count(DISTINCT a) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');

-- TRUNCATE, CREATE and REINDEX after a savepoint, then several batches; and back, and more rows.
TRUNCATE m;
INSERT INTO m SELECT i, 'old' FROM generate_series(1, 3000) i;
BEGIN;
SAVEPOINT a;
TRUNCATE m;
COPY m FROM PROGRAM 'seq -f "%.0f	truncated" 1 9000';
SELECT count(*) FROM m WHERE a > 0;
ROLLBACK TO a;
SELECT count(*) FROM m WHERE a > 0;
COPY m FROM PROGRAM 'seq -f "%.0f	after truncate" 1 4000';
SAVEPOINT b;
REINDEX TABLE m;
COPY m FROM PROGRAM 'seq -f "%.0f	reindexed" 1 9000';
SELECT count(*) FROM m WHERE a > 0;
ROLLBACK TO b;
COPY m FROM PROGRAM 'seq -f "%.0f	after reindex" 1 4000';
SAVEPOINT c;
CREATE INDEX m_ab ON m USING mtpower_blink (a, b);
CREATE INDEX m_hab ON m USING mtpower_hash (a, b);
COPY m FROM PROGRAM 'seq -f "%.0f	index" 1 9000';
SELECT count(*) FROM m WHERE a > 0;
ROLLBACK TO c;
COPY m FROM PROGRAM 'seq -f "%.0f	after index" 1 4000';
SAVEPOINT d;
CREATE TABLE n (LIKE m INCLUDING INDEXES) USING mtpower;
COPY n FROM PROGRAM 'seq -f "%.0f	created" 1 9000';
SELECT count(*) FROM n WHERE a > 0;
ROLLBACK TO d;
COPY m FROM PROGRAM 'seq -f "%.0f	after create" 1 4000';
SAVEPOINT e;
TRUNCATE m;
COPY m FROM PROGRAM 'seq -f "%.0f	truncated again" 1 9000';
TRUNCATE m;
COPY m FROM PROGRAM 'seq -f "%.0f	twice" 1 9000';
SELECT count(*) FROM m WHERE a > 0;
SELECT verify('m');
ROLLBACK TO e;
CREATE INDEX m_ab ON m USING mtpower_blink (a, b);
CREATE INDEX m_hab ON m USING mtpower_hash (a, b);
COPY m FROM PROGRAM 'seq -f "%.0f	last" 1 4000';
SELECT verify('m');
COMMIT;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');
DROP INDEX m_ab, m_hab;

-- The same, released: it stays, or goes with the transaction.
TRUNCATE m;
INSERT INTO m SELECT i, 'old' FROM generate_series(1, 3000) i;
BEGIN;
SAVEPOINT a;
REINDEX TABLE m;
COPY m FROM PROGRAM 'seq -f "%.0f	reindexed" 1 9000';
RELEASE a;
SAVEPOINT b;
REINDEX INDEX m_a;
REINDEX INDEX m_h;
SAVEPOINT c;
COPY m FROM PROGRAM 'seq -f "%.0f	undone" 1 9000';
ROLLBACK TO c;
COPY m FROM PROGRAM 'seq -f "%.0f	reindexed" 9001 12000';
RELEASE b;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');
SAVEPOINT d;
CREATE INDEX m_ab ON m USING mtpower_blink (a, b);
CREATE INDEX m_hab ON m USING mtpower_hash (a, b);
DROP INDEX m_b, m_h;
COPY m FROM PROGRAM 'seq -f "%.0f	index" 1 9000';
RELEASE d;
SELECT verify('m');
SAVEPOINT e;
TRUNCATE m;
COPY m FROM PROGRAM 'seq -f "%.0f	truncated" 1 9000';
RELEASE e;
COPY m FROM PROGRAM 'seq -f "%.0f	truncated" 9001 12000';
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');
ROLLBACK;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
COPY m FROM PROGRAM 'seq -f "%.0f	after" 1 9000';
SELECT b, count(*) FROM m WHERE b > '' GROUP BY b ORDER BY b;
SELECT verify('m');

-- Into a table made in the same transaction, and after TRUNCATE, with FREEZE; TRUNCATE in the creating transaction.
BEGIN;
CREATE TABLE n (LIKE m) USING mtpower;
CREATE INDEX n_a ON n USING mtpower_blink (a);
CREATE INDEX n_h ON n USING mtpower_hash (a);
COPY n FROM PROGRAM 'seq -f "%.0f	created" 1 4000' WITH (FREEZE);
TRUNCATE n;
COPY n FROM PROGRAM 'seq -f "%.0f	created" 4001 9000' WITH (FREEZE);
SELECT count(*), min(a) FROM n WHERE a > 0;
SAVEPOINT a;
COPY n FROM PROGRAM 'seq -f "%.0f	more" 1 4000' WITH (FREEZE);
COPY n FROM PROGRAM 'seq -f "%.0f	more" 1 4000';
ROLLBACK TO a;
COPY n FROM PROGRAM 'seq -f "%.0f	more" 9001 12000';
COMMIT;
SELECT b, count(*) FROM n WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('n');
BEGIN;
LOCK TABLE n;
COPY n FROM PROGRAM 'seq -f "%.0f	locked" 20001 25000';
COMMIT;
SELECT count(*) FROM n WHERE a > 20000;
SELECT verify('n');
DROP TABLE n;

-- A function with an EXCEPTION block, called by an INSERT … SELECT, that inserts into the same table and fails.
TRUNCATE m;
CREATE FUNCTION fails(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	BEGIN
		INSERT INTO m SELECT 100000 + i * 100 + j, 'inner' FROM generate_series(1, 50) j;
		IF i % 3 = 0 THEN
			SELECT count(*) INTO n FROM m WHERE a > 0;
		END IF;
		IF i % 2 = 0 THEN
			RAISE EXCEPTION 'no';
		END IF;
	EXCEPTION WHEN raise_exception THEN
		IF i % 5 = 0 THEN
			SELECT count(*) INTO n FROM m WHERE a > 0;
			RETURN 'failed ' || n;
		END IF;
		RETURN 'failed';
	END;
	RETURN 'done';
END $$;
INSERT INTO m SELECT i, fails(i) FROM generate_series(1, 600) i;
SELECT split_part(b, ' ', 1), count(*) FROM m WHERE a > 0 GROUP BY 1 ORDER BY 1;
SELECT b FROM m WHERE a IN (10, 300, 600) ORDER BY a;
SELECT verify('m');
-- The same, when what fails was large enough to be under way.
TRUNCATE m;
CREATE OR REPLACE FUNCTION fails(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	IF i % 500 <> 0 THEN
		RETURN 'outer';
	END IF;
	BEGIN
		INSERT INTO m SELECT i * 100000 + j, 'inner' FROM generate_series(1, 10000) j;
		INSERT INTO m SELECT i * 100000 + j, 1 / (9000 - j) FROM generate_series(1, 10000) j;
	EXCEPTION WHEN division_by_zero THEN
		SELECT count(*) INTO n FROM m WHERE a > 0;
		RETURN 'failed ' || n;
	END;
	RETURN 'done';
END $$;
INSERT INTO m SELECT i, fails(i) FROM generate_series(1, 6000) i;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY 1 ORDER BY 1;
SELECT verify('m');

-- Procedures that commit between their statements, and in the middle of a loop over a cursor.
TRUNCATE m;
CREATE PROCEDURE p() LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR i IN 1..4 LOOP
		INSERT INTO m SELECT i * 10000 + j, 'p' FROM generate_series(1, 3000) j;
		IF i % 2 = 0 THEN
			COMMIT;
		ELSE
			ROLLBACK;
		END IF;
	END LOOP;
	FOR r IN SELECT a FROM m WHERE a BETWEEN 20001 AND 20010 ORDER BY a LOOP
		INSERT INTO m SELECT r.a * 100 + j, 'loop' FROM generate_series(1, 2000) j;
		COMMIT;
	END LOOP;
END $$;
CALL p();
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY 1 ORDER BY 1;
SELECT verify('m');

-- Nothing is held when all is done (a worker that finds its batch cancelled needs a moment).
SELECT memory_held();
SET client_min_messages = warning;
DROP SCHEMA batch_subxact CASCADE;
