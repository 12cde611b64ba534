-- Statements that read a table while the index entries of its new rows are queued see every row.
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET enable_seqscan = off;
CREATE SCHEMA batch_reads;
SET search_path = batch_reads, public;


-- How many rows an index scan, a bitmap scan, and an index-only scan find.
CREATE FUNCTION counts(tab regclass, col name, VARIADIC vals int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain bigint; bitmap bigint; ionly bigint; seq bigint;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE format('SELECT count(*) FROM %s WHERE %I = ANY ($1)', tab, col) INTO plain USING vals;
	SET LOCAL enable_bitmapscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE format('SELECT count(*) FROM %s WHERE %I = ANY ($1)', tab, col) INTO bitmap USING vals;
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_indexonlyscan = on;
	EXECUTE format('SELECT count(%I) FROM %s WHERE %I = ANY ($1)', col, tab, col) INTO ionly USING vals;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	SET LOCAL enable_seqscan = on;
	EXECUTE format('SELECT count(*) FROM %s WHERE %I = ANY ($1)', tab, col) INTO seq USING vals;
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = on;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_indexonlyscan = on;
	IF plain <> seq OR bitmap <> seq OR ionly <> seq THEN
		RETURN format('index %s, bitmap %s, index-only %s, but sequential %s', plain, bitmap, ionly, seq);
	END IF;
	RETURN plain;
END $$;

-- A table of each access method: heap announces no loads.
CREATE TABLE m (a int, b text, c bigint) USING mtpower;
CREATE INDEX m_a ON m USING mtpower_blink (a);
CREATE INDEX m_b ON m USING mtpower_blink (b);
CREATE INDEX m_c ON m USING mtpower_blink (c DESC NULLS LAST);
CREATE TABLE h (a int, b text, c bigint);
CREATE INDEX h_a ON h USING mtpower_blink (a);
CREATE INDEX h_b ON h USING mtpower_blink (b);
CREATE INDEX h_c ON h USING mtpower_blink (c DESC NULLS LAST);

-- In the same transaction, by the next statement.
BEGIN;
INSERT INTO m SELECT i % 1000, 'x' || i, i FROM generate_series(1, 8000) i;
SELECT counts('m', 'a', 1, 7, 999), counts('m', 'c', 1, 8000);
INSERT INTO h SELECT i % 1000, 'x' || i, i FROM generate_series(1, 8000) i;
SELECT counts('h', 'a', 1, 7, 999), counts('h', 'c', 1, 8000);
UPDATE m SET a = a + 1000 WHERE a < 500;
SELECT counts('m', 'a', 1), counts('m', 'a', 1001);
DELETE FROM m WHERE a = 1001;
SELECT counts('m', 'a', 1001);
COPY m FROM PROGRAM 'seq -f "%.0f	y	1" 5000 9000';
SELECT counts('m', 'a', 5000, 9000), counts('m', 'c', 1);
COMMIT;
SELECT verify('m'), verify('h');

-- Row triggers, before and after, that read the table through its index.
CREATE TABLE log (what text, n bigint);
CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	IF TG_LEVEL = 'ROW' THEN
		EXECUTE format('SELECT count(*) FROM %I WHERE a = 77', TG_TABLE_NAME) INTO n;
		IF NEW.c % 1000 = 0 THEN
			INSERT INTO log VALUES (TG_WHEN || ' ' || NEW.c, n);
		END IF;
	ELSE
		EXECUTE format('SELECT count(*) FROM %I WHERE a = 77', TG_TABLE_NAME) INTO n;
		INSERT INTO log VALUES (TG_WHEN || ' statement', n);
	END IF;
	RETURN NEW;
END $$;
TRUNCATE m, h;
CREATE TRIGGER bs BEFORE INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION trig();
CREATE TRIGGER br BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ar AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ast AFTER INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION trig();
INSERT INTO m SELECT 77, 'x', i FROM generate_series(1, 3000) i;
SELECT * FROM log;
TRUNCATE log;
COPY m FROM PROGRAM 'seq -f "77	y	%.0f" 1 2000';
SELECT * FROM log;
TRUNCATE log;
DROP TRIGGER br ON m;
COPY m FROM PROGRAM 'seq -f "77	y	%.0f" 1 2000';
SELECT * FROM log;
SELECT counts('m', 'a', 77), verify('m');
TRUNCATE log;
CREATE TRIGGER bs BEFORE INSERT ON h FOR EACH STATEMENT EXECUTE FUNCTION trig();
CREATE TRIGGER ar AFTER INSERT ON h FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ast AFTER INSERT ON h FOR EACH STATEMENT EXECUTE FUNCTION trig();
COPY h FROM PROGRAM 'seq -f "77	y	%.0f" 1 2000';
SELECT * FROM log;
SELECT counts('h', 'a', 77), verify('h');
DROP TRIGGER bs ON m; DROP TRIGGER ar ON m; DROP TRIGGER ast ON m;
DROP TRIGGER bs ON h; DROP TRIGGER ar ON h; DROP TRIGGER ast ON h;

-- Transition tables joined with the table itself; a trigger that inserts into the same table.
TRUNCATE log, m;
CREATE FUNCTION trans() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	INSERT INTO log SELECT 'joined ' || TG_OP, count(*) FROM new_rows n JOIN m ON m.a = n.a;
	RETURN NULL;
END $$;
CREATE TRIGGER tt AFTER INSERT ON m REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trans();
CREATE TRIGGER tu AFTER UPDATE ON m REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trans();
INSERT INTO m SELECT i, 'x', i FROM generate_series(1, 4000) i;
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 3001 6000';
UPDATE m SET a = a - 1;
SELECT * FROM log;
DROP TRIGGER tt ON m;
DROP TRIGGER tu ON m;
CREATE FUNCTION chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.a >= 10000 AND NEW.a < 12000 THEN
		INSERT INTO m VALUES (NEW.a + 2000, 'chained', NEW.a);
		INSERT INTO log SELECT 'chain', count(*) FROM m WHERE a IN (NEW.a, NEW.a + 2000) HAVING count(*) <> 2;
	END IF;
	RETURN NULL;
END $$;
TRUNCATE log;
CREATE TRIGGER ch AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION chain();
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 10000 11999';
SELECT * FROM log;
SELECT count(*) FROM m WHERE a BETWEEN 10000 AND 13999;
DROP TRIGGER ch ON m;
SELECT verify('m');

-- Foreign keys: the referencing column has our index, the referenced one core's.
CREATE TABLE pk (id int PRIMARY KEY) USING mtpower;
CREATE TABLE fk (id int REFERENCES pk ON DELETE CASCADE, self int) USING mtpower;
CREATE INDEX fk_id ON fk USING mtpower_blink (id);
INSERT INTO pk SELECT generate_series(1, 3000);
INSERT INTO fk SELECT i, i FROM generate_series(1, 3000) i;
INSERT INTO fk SELECT i, i FROM generate_series(2000, 4000) i;
COPY fk FROM PROGRAM 'seq -f "%.0f	1" 2000 4000';
BEGIN;
COPY fk FROM PROGRAM 'seq -f "%.0f	1" 1 3000';
DELETE FROM pk WHERE id <= 1000;
SELECT counts('fk', 'id', 1, 1000, 1001);
COMMIT;
SELECT verify('fk');
ALTER TABLE fk ADD CONSTRAINT late FOREIGN KEY (self) REFERENCES pk DEFERRABLE INITIALLY DEFERRED NOT VALID;
CREATE INDEX fk_self ON fk USING mtpower_blink (self);
BEGIN;
COPY fk FROM PROGRAM 'seq -f "2000	%.0f" 2900 5000';
SELECT counts('fk', 'self', 2900, 3000, 5000);
INSERT INTO pk SELECT generate_series(3001, 5000);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
COPY fk FROM PROGRAM 'seq -f "2000	%.0f" 5000 6000';
COMMIT;
-- Referenced rows go while a cascade's own rows are queued.
CREATE TABLE up (id int PRIMARY KEY) USING mtpower;
CREATE TABLE down (id int REFERENCES up ON UPDATE CASCADE) USING mtpower;
CREATE INDEX down_id ON down USING mtpower_blink (id);
INSERT INTO up SELECT generate_series(1, 500);
INSERT INTO down SELECT i % 500 + 1 FROM generate_series(1, 3000) i;
UPDATE up SET id = id + 1000;
SELECT counts('down', 'id', 1, 500), counts('down', 'id', 1001, 1500), verify('down'), verify('fk');

-- A table that refers to itself, rows before those they refer to; the references of deleted rows become null.
CREATE TABLE self (id int PRIMARY KEY, up int REFERENCES self ON DELETE SET NULL) USING mtpower;
CREATE INDEX self_up ON self USING mtpower_blink (up);
COPY self FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 4000; i++) print i "\t" i % 4000 + 1 }'$$;
BEGIN;
COPY self FROM PROGRAM $$awk 'BEGIN { for (i = 4001; i <= 6000; i++) print i "\t" 1 }'$$;
DELETE FROM self WHERE id <= 500;
SELECT counts('self', 'up', 1, 500, 501), count(*) FILTER (WHERE up IS NULL) FROM self;
COMMIT;
COPY self FROM PROGRAM 'seq -f "%.0f	7000" 6001 6999';
SELECT count(*), verify('self') FROM self WHERE up IS NULL;

-- Deferred triggers: at the transaction's end they find all rows, of their own loads too.
TRUNCATE m, log;
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	IF NEW.c = 1 THEN
		SELECT count(*) INTO n FROM m WHERE a > 0;
		INSERT INTO log VALUES ('before', n);
		INSERT INTO m SELECT i, 'late', 0 FROM generate_series(10001, 13000) i;
		SELECT count(*) INTO n FROM m WHERE a > 10000;
		INSERT INTO log VALUES ('after', n);
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.c > 0) EXECUTE FUNCTION late();
COPY m FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 3000; i++) print i "\ty\t" i }'$$;
SELECT * FROM log;
BEGIN;
INSERT INTO m SELECT i, 'z', 1 FROM generate_series(3001, 3002) i;
SAVEPOINT s;
INSERT INTO m SELECT i, 'z', 1 FROM generate_series(4001, 4002) i;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
COMMIT;
SELECT what, count(*), max(n) FROM log GROUP BY what ORDER BY what;
SELECT b, count(*) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
DROP TRIGGER late ON m;
SELECT verify('m');

-- Functions called by the very statement that inserts: volatile ones see its rows so far, stable ones don't.
TRUNCATE m, log;
CREATE FUNCTION so_far(int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN (SELECT count(*) FROM m WHERE a = $1); END';
CREATE FUNCTION before(int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM m WHERE a = $1); END';
INSERT INTO m SELECT 5, before(5)::text, so_far(5) FROM generate_series(1, 2000);
SELECT min(c), max(c), count(DISTINCT c), max(b) FROM m WHERE a = 5;
SELECT verify('m');
-- An INSERT from the table itself does not meet its own rows, with or without an anti-join.
INSERT INTO m SELECT a + 1, b, c FROM m WHERE a = 5;
INSERT INTO m SELECT a + 1, b, c FROM m WHERE a >= 5;
INSERT INTO m SELECT a, b, c FROM (VALUES (5, 'n', 0::bigint), (100, 'n', 0)) v(a, b, c), generate_series(1, 1000)
	WHERE NOT EXISTS (SELECT FROM m WHERE m.a = v.a);
SELECT a, count(*) FROM m GROUP BY a ORDER BY a;
SELECT counts('m', 'a', 5), counts('m', 'a', 6, 7), counts('m', 'a', 100), verify('m');

-- An UPDATE that moves rows ahead of its own index scan.
UPDATE m SET a = a + 1000 WHERE a > 0;
SELECT min(a), max(a), count(*) FROM m;
SELECT counts('m', 'a', 5, 6), counts('m', 'a', 1005, 1006), verify('m');

-- Cursors, opened before and read while rows come.
TRUNCATE m;
INSERT INTO m SELECT i, 'old', i FROM generate_series(1, 100) i;
BEGIN;
DECLARE c1 CURSOR FOR SELECT a FROM m WHERE a > 0 ORDER BY a;
FETCH 3 FROM c1;
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 101 3000';
DECLARE c2 CURSOR FOR SELECT a FROM m WHERE a > 90 ORDER BY a;
MOVE FORWARD ALL IN c1;
MOVE FORWARD ALL IN c2;
DECLARE c3 SCROLL CURSOR WITH HOLD FOR SELECT a FROM m WHERE a > 2990 ORDER BY a;
FETCH 2 FROM c3;
INSERT INTO m SELECT i, 'z', i FROM generate_series(3001, 6000) i;
COMMIT;
FETCH ALL FROM c3;
FETCH BACKWARD 2 FROM c3;
CLOSE c3;
SELECT verify('m');

-- Rows changed and deleted where a cursor stands, beside bulk insertions.
TRUNCATE m;
INSERT INTO m SELECT i, 'old', i FROM generate_series(1, 3000) i;
DO $$
DECLARE c CURSOR FOR SELECT a FROM m WHERE a > 0 ORDER BY a FOR UPDATE; r record; n int := 0;
BEGIN
	FOR r IN c LOOP
		n := n + 1;
		IF n % 1000 = 0 THEN
			INSERT INTO m SELECT i, 'new', n FROM generate_series(10001, 13000) i;
		ELSIF n % 2 = 0 THEN
			UPDATE m SET a = a + 100000 WHERE CURRENT OF c;
		ELSE
			DELETE FROM m WHERE CURRENT OF c;
		END IF;
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
SELECT b, count(*), min(a), max(a) FROM m WHERE a > 0 GROUP BY b ORDER BY b;
SELECT verify('m');

-- A loop over a cursor whose body inserts into the same table.
TRUNCATE m;
INSERT INTO m SELECT i, 'old', i FROM generate_series(1, 2000) i;
DO $$
DECLARE r record; n int := 0;
BEGIN
	FOR r IN SELECT a FROM m WHERE a > 0 ORDER BY a LOOP
		INSERT INTO m VALUES (r.a + 10000, 'loop', 0), (r.a + 20000, 'loop', 0);
		n := n + 1;
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
SELECT counts('m', 'a', 1, 10001, 20001), counts('m', 'a', 22000, 22001), verify('m');
-- …and a bulk insertion in each turn.
TRUNCATE m;
INSERT INTO m SELECT i, 'old', i FROM generate_series(1, 5) i;
DO $$
DECLARE r record; n int := 0;
BEGIN
	FOR r IN SELECT a FROM m WHERE a > 0 ORDER BY a LOOP
		INSERT INTO m SELECT r.a * 10000 + i, 'loop', 0 FROM generate_series(1, 3000) i;
		n := n + (SELECT count(*) FROM m WHERE a > r.a * 10000);
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
SELECT count(*) FROM m WHERE a > 0;
SELECT verify('m');
-- …or the loop's own query inserts, and the body reads, inserts more, and fails now and then.
TRUNCATE m;
DO $$
DECLARE r record; n int := 0; seen int := 0; failed int := 0;
BEGIN
	FOR r IN WITH ins AS (INSERT INTO m SELECT i, 'cte', i FROM generate_series(1, 6000) i RETURNING a) SELECT a FROM ins LOOP
		n := n + 1;
		CONTINUE WHEN n % 1000 <> 0;
		seen := seen + (SELECT count(*) FROM m WHERE a BETWEEN r.a AND 6000);
		BEGIN
			INSERT INTO m SELECT r.a + 50000 + i, 'body', i FROM generate_series(1, 5000) i;
			seen := seen + (SELECT count(*) FROM m WHERE a > r.a + 50000) / (n % 2000);
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
	END LOOP;
	FOR r IN INSERT INTO m SELECT -i, 'returning', i FROM generate_series(1, 6000) i RETURNING a LOOP
		CONTINUE WHEN r.a % 2000 <> 0;
		seen := seen + (SELECT count(*) FROM m WHERE a < 0);
	END LOOP;
	RAISE NOTICE '% rows, % seen, % failed', n, seen, failed;
END $$;
SELECT b, count(*) FROM m WHERE a <> 0 GROUP BY b ORDER BY b;
SELECT verify('m');

-- Parallel queries, alone and in functions of a statement under way.  (SELECT INTO would limit its rows, and not run in parallel.)
SELECT force_parallel(true);
BEGIN;
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 100001 104000';
SELECT count(*) FROM m WHERE a > 100000;
COMMIT;
CREATE FUNCTION par() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM m WHERE a > 200000' INTO n;
	RETURN n;
END $$;
CREATE FUNCTION par_volatile() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM m WHERE a > 200000' INTO n;
	RETURN n;
END $$;
INSERT INTO m SELECT 200000 + i, CASE WHEN i % 500 = 0 THEN par() || ' ' || par_volatile() END FROM generate_series(1, 3000) i;
SELECT a, b FROM m WHERE a > 200000 AND b IS NOT NULL ORDER BY a;
SELECT force_parallel(false);
SELECT verify('m');

-- Modifying CTEs: read in part, and by nobody; they insert into the table that the main query reads.
TRUNCATE m, log;
WITH ins AS (INSERT INTO m SELECT i, 'cte', i FROM generate_series(1, 3000) i RETURNING a)
SELECT a FROM ins LIMIT 2;
SELECT counts('m', 'a', 1, 3000), verify('m');
WITH ins AS (INSERT INTO m SELECT i, 'cte', i FROM generate_series(3001, 6000) i)
SELECT count(*) FROM m WHERE a > 0;
SELECT counts('m', 'a', 3001, 6000), verify('m');
WITH ins AS (INSERT INTO m SELECT i, 'cte', i FROM generate_series(6001, 9000) i RETURNING a),
	upd AS (UPDATE h SET a = -a RETURNING a)
INSERT INTO log SELECT 'ins', count(*) FROM ins;
SELECT * FROM log;
SELECT counts('m', 'a', 6001, 9000), counts('h', 'a', -77), verify('m'), verify('h');

-- RETURNING with a subquery on the table; MERGE; INSERT into a view.
TRUNCATE m;
CREATE VIEW mv AS SELECT * FROM m;
WITH r AS (INSERT INTO mv SELECT i, 'v', i FROM generate_series(1, 2000) i RETURNING so_far(a) AS n)
SELECT n, count(*) FROM r GROUP BY n;
MERGE INTO m USING (SELECT i FROM generate_series(1500, 4000) i) s ON m.a = s.i
	WHEN MATCHED AND i % 2 = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET a = m.a + 100000
	WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'merged', s.i);
SELECT count(*) FILTER (WHERE a > 100000), count(*) FILTER (WHERE a < 1500), count(*) FILTER (WHERE a BETWEEN 1500 AND 2000), count(*)
	FROM m WHERE a > 0;
SELECT counts('m', 'a', 1501, 101501, 4000), verify('m');

-- verify_index called by a trigger of the statement, with entries still queued.
CREATE FUNCTION check_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% %', TG_WHEN, verify('m');
	RETURN NULL;
END $$;
CREATE TRIGGER v AFTER INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION check_now();
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 200001 204000';
DROP TRIGGER v ON m;

-- ON CONFLICT takes no part in this; nor do rows that it does not insert.
ALTER TABLE m ADD UNIQUE (a, c, b);
INSERT INTO m SELECT 300000 + i % 1000, 'oc', 1 FROM generate_series(1, 3000) i ON CONFLICT DO NOTHING;
INSERT INTO m SELECT 300000 + i % 2000, 'oc', 1 FROM generate_series(1, 2000) i ON CONFLICT (a, c, b) DO UPDATE SET b = 'upd';
SELECT b, count(*) FROM m WHERE a >= 300000 GROUP BY b ORDER BY b;
SELECT verify('m');

-- Rows of COPY with FREEZE are seen by any snapshot, also by that of the statement itself: a constraint's function finds them by each index.
CREATE TABLE frozen (a int, b int) USING mtpower;
CREATE INDEX ON frozen USING mtpower_blink (a);
CREATE INDEX ON frozen USING mtpower_hash (b);
CREATE FUNCTION finds_first(a int) RETURNS bool STABLE LANGUAGE plpgsql AS $$
DECLARE tree bigint; hash bigint;
BEGIN
	IF a = 2500 THEN
		EXECUTE 'SELECT count(*) FROM frozen WHERE a = 1' INTO tree;
		EXECUTE 'SELECT count(*) FROM frozen WHERE b = 1' INTO hash;
		RAISE NOTICE 'tree %, hash %', tree, hash;
	END IF;
	RETURN true;
END $$;
ALTER TABLE frozen ADD CHECK (finds_first(a));
CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b := NEW.a; RETURN NEW; END $$;
CREATE TRIGGER same BEFORE INSERT ON frozen FOR EACH ROW EXECUTE FUNCTION same();
BEGIN;
TRUNCATE frozen;
COPY frozen (a) FROM PROGRAM 'seq 3000' (FREEZE);
COMMIT;
SELECT counts('frozen', 'a', 1, 2500), counts('frozen', 'b', 1, 2500), verify('frozen');

SET client_min_messages = warning;
DROP SCHEMA batch_reads CASCADE;
