-- Statements that read a table while the hash index entries of its new rows are queued see every row that they should.  What is read
-- by an index is compared with what is read without; what a suspended scan meets, with a second table's, of heap with core's hash.
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET enable_seqscan = off;
CREATE SCHEMA hash_reads;
SET search_path = hash_reads, public;

-- How many rows with these values an index scan of each, a bitmap scan and a sequential scan find.
CREATE FUNCTION counts(tab regclass, col name, VARIADIC vals int[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain bigint; bitmap bigint; seq bigint;
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off;
	SET LOCAL enable_bitmapscan = off;
	EXECUTE format('SELECT count(t) FROM unnest($1) v LEFT JOIN %s t ON t.%I = v', tab, col) INTO plain USING vals;
	SET LOCAL enable_bitmapscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE format('SELECT count(*) FROM %s WHERE %I = ANY ($1)', tab, col) INTO bitmap USING vals;
	SET LOCAL enable_bitmapscan = off;
	SET LOCAL enable_seqscan = on;
	EXECUTE format('SELECT count(*) FROM %s WHERE %I + 0 = ANY ($1)', tab, col) INTO seq USING vals;
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = on;
	SET LOCAL enable_indexscan = on;
	IF plain <> seq OR bitmap <> seq THEN
		RETURN format('index %s, bitmap %s, but sequential %s', plain, bitmap, seq);
	END IF;
	RETURN plain;
END $$;

-- A table of each access method: heap announces no loads.
CREATE TABLE m (a int, b text COLLATE "C", c bigint) USING mtpower;
CREATE INDEX m_a ON m USING mtpower_hash (a) WITH (initial_buckets = 1);
CREATE INDEX m_b ON m USING mtpower_hash (b);
CREATE INDEX m_c ON m USING mtpower_hash (c);
CREATE INDEX m_ab ON m USING mtpower_hash (a, b);
CREATE TABLE h (a int, b text COLLATE "C", c bigint);
CREATE INDEX h_a ON h USING mtpower_hash (a);
CREATE INDEX h_c ON h USING mtpower_hash (c) WITH (initial_buckets = 1, fillfactor = 10);
EXPLAIN (COSTS OFF) SELECT count(*) FROM m WHERE a = 1;
EXPLAIN (COSTS OFF) SELECT count(*) FROM m WHERE a = 1 AND b = 'x';

-- In the same transaction, by the next statement.
BEGIN;
INSERT INTO m SELECT i % 1000, 'x' || i, i FROM generate_series(1, 8000) i;
SELECT counts('m', 'a', 1, 7, 999), counts('m', 'c', 1, 8000), (SELECT count(*) FROM m WHERE b = 'x5000'), (SELECT count(*) FROM m WHERE a = 7 AND b = 'x5007');
INSERT INTO h SELECT i % 1000, 'x' || i, i FROM generate_series(1, 8000) i;
SELECT counts('h', 'a', 1, 7, 999), counts('h', 'c', 1, 8000);
UPDATE m SET a = a + 1000 WHERE a < 500;
SELECT counts('m', 'a', 1), counts('m', 'a', 1001);
DELETE FROM m WHERE a = 1001;
SELECT counts('m', 'a', 1001);
COPY m FROM PROGRAM 'seq -f "%.0f	y	1" 5000 9000';
SELECT counts('m', 'a', 5000, 9000), counts('m', 'c', 1), (SELECT count(*) FROM m WHERE b = 'y');
COMMIT;
SELECT verify('m'), verify('h');

-- Savepoints, released and rolled back to; TRUNCATE, CREATE INDEX, REINDEX behind one, then loads of several batches, and back.
CREATE TABLE s (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX s_a ON s USING mtpower_hash (a) WITH (initial_buckets = 1);
CREATE INDEX s_b ON s USING mtpower_hash (b);
CREATE FUNCTION of_each() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(v || ' ' || n, ', ') || ' in ' || counts('s', 'a', 1, 4001, 9000) FROM unnest('{old,one,two,three,four}'::text[]) v, LATERAL (SELECT count(*) AS n FROM s WHERE b = v) x WHERE n > 0 $$;
INSERT INTO s SELECT i, 'old' FROM generate_series(1, 4000) i;
BEGIN;
COPY s FROM PROGRAM 'seq -f "%.0f	one" 1 9000';
SAVEPOINT a;
COPY s FROM PROGRAM 'seq -f "%.0f	two" 1 9000';
SAVEPOINT b;
COPY s FROM PROGRAM 'seq -f "%.0f	three" 1 9000';
SELECT of_each();
RELEASE b;
COPY s FROM PROGRAM 'seq -f "%.0f	four" 1 9000; echo broken';
ROLLBACK TO a;
SELECT of_each();
COPY s FROM PROGRAM 'seq -f "%.0f	four" 1 9000';
SELECT of_each();
SAVEPOINT c;
TRUNCATE s;
COPY s FROM PROGRAM 'seq -f "%.0f	two" 1 9000';
SELECT of_each();
TRUNCATE s;
COPY s FROM PROGRAM 'seq -f "%.0f	three" 1 9000';
SELECT of_each();
ROLLBACK TO c;
SELECT of_each();
REINDEX INDEX s_a;
CREATE INDEX s_ab ON s USING mtpower_hash (a, b);
COPY s FROM PROGRAM 'seq -f "%.0f	two" 1 9000';
SELECT of_each(), verify('s');
ROLLBACK TO c;
SELECT of_each(), verify('s');
REINDEX TABLE s;
CREATE INDEX s_ab ON s USING mtpower_hash (a, b);
DROP INDEX s_b;
COPY s FROM PROGRAM 'seq -f "%.0f	three" 1 9000';
RELEASE c;
SELECT of_each(), verify('s'), (SELECT count(*) FROM s WHERE a = 9000 AND b = 'three');
ROLLBACK;
SELECT of_each(), verify('s');
BEGIN;
CREATE TABLE made (LIKE s INCLUDING INDEXES) USING mtpower;
COPY made FROM PROGRAM 'seq -f "%.0f	made" 1 9000' WITH (FREEZE);
SAVEPOINT a;
TRUNCATE made;
COPY made FROM PROGRAM 'seq -f "%.0f	twice" 1 9000' WITH (FREEZE);
SELECT counts('made', 'a', 1, 9000), (SELECT count(*) FROM made WHERE b = 'twice'), verify('made');
ROLLBACK TO a;
LOCK TABLE made;
COPY made FROM PROGRAM 'seq -f "%.0f	locked" 9001 20000';
COMMIT;
SELECT counts('made', 'a', 1, 9000, 20000), (SELECT count(*) FROM made WHERE b = 'locked'), verify('made');
-- Subtransactions with a row each, some of them rolled back; then some with many.
TRUNCATE s;
DO $$
BEGIN
	FOR i IN 1..3000 LOOP
		BEGIN
			INSERT INTO s VALUES (i, 'one');
			IF i % 10 = 0 THEN
				IF NOT EXISTS (SELECT FROM s WHERE a = i AND b = 'one') THEN RAISE '% is not found', i; END IF;
				RAISE EXCEPTION USING ERRCODE = 'MT001';
			END IF;
		EXCEPTION WHEN SQLSTATE 'MT001' THEN
			IF EXISTS (SELECT FROM s WHERE a = i) THEN RAISE '% is found', i; END IF;
		END;
	END LOOP;
	FOR i IN 1..20 LOOP
		BEGIN
			INSERT INTO s SELECT i * 10000 + j, 'two' FROM generate_series(1, 1000) j;
			IF i % 10 = 0 THEN
				RAISE EXCEPTION USING ERRCODE = 'MT001';
			END IF;
		EXCEPTION WHEN SQLSTATE 'MT001' THEN
			IF EXISTS (SELECT FROM s WHERE a = i * 10000 + 1) THEN RAISE '% is found', i; END IF;
		END;
	END LOOP;
END $$;
SELECT of_each(), verify('s');

-- Row and statement triggers that read the table through its index.
CREATE TABLE log (what text, n bigint);
CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I WHERE a = 77', TG_TABLE_NAME) INTO n;
	IF TG_LEVEL = 'STATEMENT' OR NEW.c % 1000 = 0 THEN
		INSERT INTO log VALUES (TG_WHEN || ' ' || TG_LEVEL || CASE WHEN TG_LEVEL = 'ROW' THEN ' ' || NEW.c ELSE '' END, n);
	END IF;
	RETURN NEW;
END $$;
TRUNCATE m, h;
CREATE TRIGGER bs BEFORE INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION trig();
CREATE TRIGGER br BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ar AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ast AFTER INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION trig();
INSERT INTO m SELECT CASE WHEN i % 2 = 0 THEN 77 ELSE i END, 'x', i FROM generate_series(1, 3000) i;
SELECT * FROM log;
TRUNCATE log;
DROP TRIGGER br ON m;
COPY m FROM PROGRAM 'seq -f "77	y	%.0f" 1 2000';
SELECT * FROM log;
SELECT counts('m', 'a', 77), verify('m');
TRUNCATE log;
CREATE TRIGGER ar AFTER INSERT ON h FOR EACH ROW EXECUTE FUNCTION trig();
CREATE TRIGGER ast AFTER INSERT ON h FOR EACH STATEMENT EXECUTE FUNCTION trig();
COPY h FROM PROGRAM 'seq -f "77	y	%.0f" 1 2000';
SELECT * FROM log;
SELECT counts('h', 'a', 77), verify('h');
DROP TRIGGER bs ON m; DROP TRIGGER ar ON m; DROP TRIGGER ast ON m;
DROP TRIGGER ar ON h; DROP TRIGGER ast ON h;

-- Transition tables joined with the table itself; a trigger that inserts into the same table and reads it.
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
		INSERT INTO log SELECT 'chain', count(*) FROM m WHERE a = NEW.a OR a = NEW.a + 2000 HAVING count(*) <> 2;
	END IF;
	RETURN NULL;
END $$;
TRUNCATE log;
CREATE TRIGGER ch AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION chain();
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 10000 11999';
SELECT * FROM log;
SELECT count(*) FROM m WHERE b = 'chained';
DROP TRIGGER ch ON m;
SELECT verify('m');

-- Foreign keys, immediate, deferred, and to the table itself: the referencing columns have our indexes.
CREATE TABLE pk (id int PRIMARY KEY) USING mtpower;
CREATE TABLE fk (id int REFERENCES pk ON DELETE CASCADE, self int) USING mtpower;
CREATE INDEX fk_id ON fk USING mtpower_hash (id);
INSERT INTO pk SELECT generate_series(1, 3000);
INSERT INTO fk SELECT i, i FROM generate_series(1, 3000) i;
INSERT INTO fk SELECT i, i FROM generate_series(2000, 4000) i;
COPY fk FROM PROGRAM 'seq -f "%.0f	1" 2000 4000';
BEGIN;
COPY fk FROM PROGRAM 'seq -f "%.0f	1" 1 3000';
DELETE FROM pk WHERE id <= 1000;
SELECT counts('fk', 'id', 1, 1000, 1001);
COMMIT;
ALTER TABLE fk ADD CONSTRAINT late FOREIGN KEY (self) REFERENCES pk ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED NOT VALID;
CREATE INDEX fk_self ON fk USING mtpower_hash (self);
BEGIN;
COPY fk FROM PROGRAM 'seq -f "2000	%.0f" 2900 5000';
SELECT counts('fk', 'self', 2900, 3000, 5000);
INSERT INTO pk SELECT generate_series(3001, 5000);
SET CONSTRAINTS ALL IMMEDIATE;
DELETE FROM pk WHERE id > 4000;
SELECT counts('fk', 'self', 2900, 4000, 4001, 5000);
COMMIT;
BEGIN;
COPY fk FROM PROGRAM 'seq -f "2000	%.0f" 5000 6000';
COMMIT;
CREATE TABLE self (id int PRIMARY KEY, up int REFERENCES self ON DELETE SET NULL) USING mtpower;
CREATE INDEX self_up ON self USING mtpower_hash (up);
COPY self FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 4000; i++) print i "\t" i % 4000 + 1 }'$$;
BEGIN;
COPY self FROM PROGRAM $$awk 'BEGIN { for (i = 4001; i <= 6000; i++) print i "\t" 1 }'$$;
DELETE FROM self WHERE id <= 500;
SELECT counts('self', 'up', 1, 500, 501), count(*) FILTER (WHERE up IS NULL) FROM self;
COMMIT;
SELECT verify('fk'), verify('self');

-- Deferred triggers: at the transaction's end they find all rows, of their own loads too.
TRUNCATE m, log;
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	IF NEW.c = 1 THEN
		SELECT count(*) INTO n FROM m WHERE b = 'y';
		INSERT INTO log VALUES ('before', n);
		INSERT INTO m SELECT i, 'late', 0 FROM generate_series(10001, 13000) i;
		SELECT count(*) INTO n FROM m WHERE b = 'late';
		INSERT INTO log VALUES ('after', n);
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.c > 0) EXECUTE FUNCTION late();
COPY m FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 3000; i++) print i "\ty\t" i }'$$;
SELECT * FROM log;
DROP TRIGGER late ON m;
SELECT verify('m');

-- Functions called by the very statement that inserts: volatile ones see its rows so far, stable ones don't; with one hash, and with many.
TRUNCATE m;
CREATE FUNCTION so_far(int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN (SELECT count(*) FROM m WHERE a = $1); END';
CREATE FUNCTION before(int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM m WHERE a = $1); END';
INSERT INTO m SELECT 5, before(5)::text, so_far(5) FROM generate_series(1, 2000);
SELECT min(c), max(c), count(DISTINCT c), max(b) FROM m WHERE a = 5;
INSERT INTO m SELECT 10 + i % 7, before(10 + i % 7)::text, so_far(10 + i % 7) FROM generate_series(1, 7000) i;
SELECT a, min(c), max(c), count(DISTINCT c), max(b) FROM m WHERE a = ANY ('{10,13,16}') GROUP BY a ORDER BY a;
-- An INSERT from the table itself does not meet its own rows, with or without an anti-join; an UPDATE does not meet its own.
INSERT INTO m SELECT a, 'again', c FROM m WHERE a = 5;
INSERT INTO m SELECT a, b, c FROM (VALUES (5, 'n', 0::bigint), (100, 'n', 0)) v(a, b, c), generate_series(1, 1000)
	WHERE NOT EXISTS (SELECT FROM m WHERE m.a = v.a);
UPDATE m SET c = c + 1 WHERE a = 5;
UPDATE m SET a = 6 WHERE a = 5;
SELECT counts('m', 'a', 5), counts('m', 'a', 6), counts('m', 'a', 100), count(*) FILTER (WHERE c > 2000), verify('m') FROM m WHERE a = 6;

-- Cursors, opened before and read while rows come; held ones.
TRUNCATE m;
INSERT INTO m SELECT 7, 'old', i FROM generate_series(1, 900) i;
SET enable_bitmapscan = off;
BEGIN;
DECLARE c1 CURSOR FOR SELECT c FROM m WHERE a = 7;
MOVE 3 FROM c1;
COPY m FROM PROGRAM 'seq -f "7	y	%.0f" 101 3000';
COPY m FROM PROGRAM 'seq -f "%.0f	z	0" 10001 20000';
DECLARE c2 CURSOR FOR SELECT c FROM m WHERE a = 7;
MOVE FORWARD ALL IN c1;
MOVE FORWARD ALL IN c2;
DECLARE c3 SCROLL CURSOR WITH HOLD FOR SELECT a FROM m WHERE a = 12345;
INSERT INTO m SELECT 12345, 'z', i FROM generate_series(3001, 6000) i;
SELECT counts('m', 'a', 7, 12345);
SET enable_bitmapscan = off;
COMMIT;
FETCH ALL FROM c3;
FETCH BACKWARD 2 FROM c3;
CLOSE c3;
SELECT verify('m');

-- Rows changed and deleted where a cursor stands, beside bulk insertions with the same key.
TRUNCATE m;
INSERT INTO m SELECT 7, 'old', i FROM generate_series(1, 3000) i;
DO $$
DECLARE c CURSOR FOR SELECT a FROM m WHERE a = 7 FOR UPDATE; r record; n int := 0;
BEGIN
	FOR r IN c LOOP
		n := n + 1;
		IF n % 1000 = 0 THEN
			INSERT INTO m SELECT 7, 'new', n FROM generate_series(10001, 13000) i;
		ELSIF n % 2 = 0 THEN
			UPDATE m SET a = 8 WHERE CURRENT OF c;
		ELSE
			DELETE FROM m WHERE CURRENT OF c;
		END IF;
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
SELECT counts('m', 'a', 7), counts('m', 'a', 8), verify('m');

-- A loop over a cursor whose body inserts rows with the same key, one by one and in bulk.
TRUNCATE m;
INSERT INTO m SELECT 7, 'old', i FROM generate_series(1, 2000) i;
DO $$
DECLARE r record; n int := 0;
BEGIN
	FOR r IN SELECT a FROM m WHERE a = 7 LOOP
		INSERT INTO m VALUES (7, 'loop', 0), (8, 'loop', 0);
		IF n % 700 = 0 THEN
			INSERT INTO m SELECT 7, 'bulk', i FROM generate_series(1, 3000) i;
			INSERT INTO m SELECT i, 'bulk', i FROM generate_series(10001, 13000) i;
		END IF;
		n := n + 1;
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
SELECT counts('m', 'a', 7), counts('m', 'a', 8), verify('m');
RESET enable_bitmapscan;

-- Parallel queries, alone and in functions of a statement under way.
SELECT force_parallel(true);
BEGIN;
COPY m FROM PROGRAM 'seq -f "4711	y	%.0f" 100001 104000';
SELECT count(*) FROM m WHERE a = 4711;
COMMIT;
CREATE FUNCTION par_volatile() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM m WHERE a = 4712' INTO n;
	RETURN n;
END $$;
INSERT INTO m SELECT 4712, CASE WHEN i % 1000 = 0 THEN par_volatile()::text END, i FROM generate_series(1, 3000) i;
SELECT c, b FROM m WHERE a = 4712 AND b IS NOT NULL ORDER BY c;
SELECT force_parallel(false);
SELECT verify('m');

-- Modifying CTEs: read in part, and by nobody; MERGE; RETURNING.
TRUNCATE m, log;
WITH ins AS (INSERT INTO m SELECT i, 'cte', i FROM generate_series(1, 3000) i RETURNING a)
SELECT a FROM ins LIMIT 2;
SELECT counts('m', 'a', 1, 3000), verify('m');
WITH ins AS (INSERT INTO m SELECT 7, 'cte', i FROM generate_series(3001, 6000) i)
SELECT count(*) FROM m WHERE a = 7;
SELECT counts('m', 'a', 7), verify('m');
MERGE INTO m USING (SELECT i FROM generate_series(1500, 4000) i) s ON m.a = s.i
	WHEN MATCHED AND i % 2 = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET a = m.a + 100000
	WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'merged', s.i);
SELECT counts('m', 'a', 1500, 1501, 101501, 4000), (SELECT count(*) FROM m WHERE b = 'merged'), verify('m');
WITH r AS (INSERT INTO m SELECT 200000 + i % 3, 'r', i FROM generate_series(1, 3000) i RETURNING so_far(a) AS n)
SELECT min(n), max(n), count(DISTINCT n), count(*) FROM r;

-- verify_index called by a trigger of the statement, with entries still queued; ON CONFLICT.
CREATE FUNCTION check_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% %', TG_WHEN, verify('m');
	RETURN NULL;
END $$;
CREATE TRIGGER v AFTER INSERT ON m FOR EACH STATEMENT EXECUTE FUNCTION check_now();
COPY m FROM PROGRAM 'seq -f "%.0f	y	7" 200001 204000';
DROP TRIGGER v ON m;
CREATE UNIQUE INDEX m_unique ON m (a, c, b) WHERE a >= 300000;
INSERT INTO m SELECT 300000 + i % 1000, 'oc', 1 FROM generate_series(1, 3000) i ON CONFLICT DO NOTHING;
INSERT INTO m SELECT 300000 + i % 2000, 'oc', 1 FROM generate_series(1, 2000) i ON CONFLICT (a, c, b) WHERE a >= 300000 DO UPDATE SET b = 'upd';
DROP INDEX m_unique;
SELECT (SELECT count(*) FROM m WHERE b = 'oc'), (SELECT count(*) FROM m WHERE b = 'upd'), counts('m', 'a', 300001, 301999), verify('m');

-- Scans that were suspended and go on later meet rows that their own statement has inserted meanwhile, as they would if each entry were
-- inserted at once: compared with heap and core's hash, whose rows come in the same order.
TRUNCATE m;
DROP TABLE h;
CREATE TABLE h (a int, b text COLLATE "C", c bigint);
CREATE INDEX h_a ON h USING hash (a);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
CREATE FUNCTION same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' rows, ' || CASE WHEN EXISTS (SELECT a, b, c FROM m EXCEPT ALL SELECT a, b, c FROM h) OR
			EXISTS (SELECT a, b, c FROM h EXCEPT ALL SELECT a, b, c FROM m) THEN 'differ' ELSE 'the same' END FROM m
$$ SET enable_seqscan = on SET enable_hashjoin = on;
CREATE TABLE src (i int);
INSERT INTO src SELECT i % 700 FROM generate_series(1, 4000) i;
-- A lazy SQL function that returns a set, with an anti-join on the table that it fills; by index scans, and by bitmaps.
CREATE FUNCTION new_m() RETURNS SETOF int LANGUAGE sql VOLATILE AS 'SELECT i FROM src WHERE NOT EXISTS (SELECT FROM m WHERE m.a = src.i)';
CREATE FUNCTION new_h() RETURNS SETOF int LANGUAGE sql VOLATILE AS 'SELECT i FROM src WHERE NOT EXISTS (SELECT FROM h WHERE h.a = src.i)';
SET enable_bitmapscan = off;
INSERT INTO m SELECT new_m();
INSERT INTO h SELECT new_h();
SELECT same();
TRUNCATE m, h;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
INSERT INTO m SELECT new_m();
INSERT INTO h SELECT new_h();
SELECT same();
SET enable_indexscan = on;
SET enable_bitmapscan = off;
-- Cursors that are opened at the first row and read at later ones: of keys that each row may have, of one that all have.
CREATE TABLE probe (p int);
INSERT INTO probe SELECT generate_series(1, 40);
TRUNCATE m, h;
INSERT INTO m SELECT i, read_at(i, 'm', 'SELECT p FROM probe, LATERAL (SELECT a FROM %I WHERE a = p * 50 - 40 OFFSET 0) s', 30, 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT i, read_at(i, 'h', 'SELECT p FROM probe, LATERAL (SELECT a FROM %I WHERE a = p * 50 - 40 OFFSET 0) s', 30, 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
SET enable_indexscan = off;
SET enable_bitmapscan = on;
INSERT INTO m SELECT 10000 + i, read_at(i, 'm', 'SELECT a FROM %I WHERE a = ANY (''{1, 5000, 10001, 11999, 12000, 12001, 20000}'')', 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 10000 + i, read_at(i, 'h', 'SELECT a FROM %I WHERE a = ANY (''{1, 5000, 10001, 11999, 12000, 12001, 20000}'')', 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) > 0 FROM m WHERE a > 10000;
SET enable_indexscan = on;
SET enable_bitmapscan = off;
-- One that is older than the statement does not see its rows, however late it is read.
BEGIN;
DECLARE lazy_m CURSOR FOR SELECT a FROM m WHERE a = 20001;
DECLARE lazy_h CURSOR FOR SELECT a FROM h WHERE a = 20001;
INSERT INTO m SELECT 20001, read_at(i + 1, 'm', '', 30, 2001) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 20001, read_at(i + 1, 'h', '', 30, 2001) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m WHERE a = 20001;
COMMIT;
-- One that is younger, of a single key: it stands on a page when more rows with its key come.  It misses none of those that were there, and meets none twice.
CREATE FUNCTION own_key(i int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	c refcursor := 'own_key';
	seen bigint[] := '{}';
	x bigint;
BEGIN
	IF i = 2000 THEN
		OPEN c FOR SELECT m.c FROM m WHERE a = 30001;
		FETCH c INTO x;
	END IF;
	IF i <> 4500 THEN
		RETURN i;
	END IF;
	LOOP
		FETCH c INTO x;
		EXIT WHEN NOT FOUND;
		seen := seen || x;
	END LOOP;
	RAISE NOTICE 'those before, but the first: %, twice: %', (SELECT count(*) FROM unnest(seen) s WHERE s < 2000), cardinality(seen) - (SELECT count(DISTINCT s) FROM unnest(seen) s);
	RETURN i;
END $$;
BEGIN;
INSERT INTO m SELECT 30001, 'own', own_key(i) FROM generate_series(1, 5000) i;
COMMIT;
SELECT counts('m', 'a', 30001), verify('m');

-- A hash function that fails where it is told to, with entries queued: in COPY, in EXCEPTION blocks, and behind them the statement goes on.
SET client_min_messages = warning;
CREATE TYPE touchy;
CREATE FUNCTION touchy_in(cstring) RETURNS touchy LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION touchy_out(touchy) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE touchy (INPUT = touchy_in, OUTPUT = touchy_out, LIKE = int4);
RESET client_min_messages;
CREATE CAST (int AS touchy) WITHOUT FUNCTION;
CREATE CAST (touchy AS int) WITHOUT FUNCTION;
-- Reads the table and inserts into it, in the middle of an insertion.
CREATE FUNCTION touchy_acts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('batch.acts', 'off', false);
	INSERT INTO t SELECT g::touchy, -1 FROM generate_series(100001, 102000) g;
	RAISE NOTICE '% rows within a hash function', (SELECT count(*) FROM t WHERE k = 101000::touchy AND a = -1);
END $$;
CREATE FUNCTION touchy_hash(k touchy) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('batch.fail', true) = 'on' AND k::int % 1000 = 999 THEN
		RAISE EXCEPTION 'touchy' USING ERRCODE = 'MT001';
	END IF;
	IF current_setting('batch.acts', true) = 'on' AND k::int % 1000 = 500 THEN
		PERFORM touchy_acts();
	END IF;
	RETURN hashint4(k::int);
END $$;
CREATE FUNCTION touchy_eq(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT l::int = r::int';
CREATE OPERATOR = (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_eq, COMMUTATOR = =, HASHES);
CREATE OPERATOR CLASS touchy_ops DEFAULT FOR TYPE touchy USING mtpower_hash AS OPERATOR 1 =, FUNCTION 1 touchy_hash(touchy);
CREATE TABLE t (k touchy, a int) USING mtpower;
CREATE INDEX t_k ON t USING mtpower_hash (k);
CREATE INDEX t_a ON t USING mtpower_hash (a);
INSERT INTO t SELECT i::touchy, i FROM generate_series(1, 500) i;
SET batch.fail = on;
\set VERBOSITY terse
INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 2500) i;
COPY t FROM PROGRAM 'seq -f "%.0f	5" 501 2500';
DO $$
BEGIN
	INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 998) i;
	BEGIN
		INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 2500) i;
		RAISE 'not reached';
	EXCEPTION WHEN SQLSTATE 'MT001' THEN
		RAISE NOTICE 'caught %', SQLERRM;
	END;
	PERFORM set_config('batch.fail', 'off', false);
	RAISE NOTICE '% rows', (SELECT count(*) FROM t WHERE k = 998::touchy);
	INSERT INTO t SELECT i::touchy, i FROM generate_series(1001, 6000) i;
END $$;
RESET batch.fail;
SELECT counts('t', 'a', 501, 998, 999, 1999, 6000), (SELECT count(*) FROM t WHERE k = 1999::touchy), verify('t');
SET batch.acts = on;
INSERT INTO t SELECT i::touchy, i FROM generate_series(6001, 9000) i;
SELECT (SELECT count(*) FROM t WHERE k = 101000::touchy), counts('t', 'a', -1, 6001, 9000), verify('t');
-- The index of an array of such a type, and of a composite with one: core's hash says how to hash them.
CREATE OPERATOR CLASS touchy_core DEFAULT FOR TYPE touchy USING hash AS OPERATOR 1 =, FUNCTION 1 touchy_hash(touchy);
CREATE TYPE pair AS (i int, k touchy);
CREATE TABLE u (k touchy[], p pair) USING mtpower;
CREATE INDEX u_k ON u USING mtpower_hash (k);
CREATE INDEX u_p ON u USING mtpower_hash (p);
SET batch.fail = on;
INSERT INTO u (k) SELECT ARRAY[i, -i]::touchy[] FROM generate_series(501, 2500) i;
INSERT INTO u (p) SELECT ROW(1, i)::pair FROM generate_series(501, 2500) i;
RESET batch.fail;
INSERT INTO u SELECT ARRAY[i, -i]::touchy[], ROW(1, i)::pair FROM generate_series(501, 2500) i;
SELECT (SELECT count(*) FROM u WHERE k = '{999,-999}'), (SELECT count(*) FROM u WHERE p = ROW(1, 999)::pair), verify('u');
\set VERBOSITY default

SELECT memory_held();
SET client_min_messages = warning;
DROP SCHEMA hash_reads CASCADE;
