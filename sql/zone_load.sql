-- COPY into tables with zone indexes: each row widens its entries, whoever stores it meanwhile, and however the COPY ends.
CREATE SCHEMA zone_load;
SET search_path = zone_load, public;
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
SET default_table_access_method = mtpower;

-- Indexes of columns before and behind values of varying length and nulls, of expressions and with a predicate, and others beside them
CREATE TABLE t (a bigint, c text COLLATE "C", n int, f float8, g int GENERATED ALWAYS AS (n / 2) STORED, x int DEFAULT 7) WITH (autovacuum_enabled = off);
CREATE INDEX t_a ON t USING mtpower_zone (a);
CREATE INDEX t_many ON t USING mtpower_zone (f, c, g, n, x);
CREATE INDEX t_ex ON t USING mtpower_zone ((a + 1), n);
CREATE INDEX t_part ON t USING mtpower_zone (a, n) WHERE n > 1000;
CREATE INDEX t_blink ON t USING mtpower_blink (a);
CREATE INDEX t_btree ON t USING btree (a);
CREATE VIEW indexes AS SELECT indexrelid::regclass AS index FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am m ON m.oid = relam
	WHERE amname = 'mtpower_zone' AND relnamespace = 'zone_load'::regnamespace AND c.relkind = 'i';
-- Each row is within its entries, and the least and the greatest values are found.
CREATE FUNCTION sound() RETURNS TABLE (indexes bigint, rows bigint, found bigint) LANGUAGE sql AS $$
	SELECT count(mtpower.verify_index(index, true)), (SELECT count(*) FROM t), (SELECT count(*) FROM t WHERE a BETWEEN -100000 AND 100000 AND n IS NULL OR n >= 0) FROM indexes
$$ SET enable_seqscan = off SET enable_indexscan = off;
COPY t (a, c, n, f) FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 5500; i++) print i "\t" sprintf("%08d", i) "\t" (i % 50 ? i : "\\N") "\t" i / 8 }'$$;
SELECT * FROM sound();
-- Again, in another order, with long values, and few rows
COPY t (a, c, n, f) FROM PROGRAM $$awk 'BEGIN { for (j = 0; j < 4000; j++) long = long "0123456789"; for (i = 9000; i > 5500; i--) print i "\t" i (i % 700 == 0 ? long : "") "\t" i "\t" (0 - i) }'$$;
COPY t (a, c, n, f, x) FROM PROGRAM 'seq -f "%.0f	z	1	1	1000" 9001 9003';
COPY t (a) FROM PROGRAM 'seq 1 0';
SELECT * FROM sound();

-- In one transaction with all else, and in subtransactions that fail, which indexes are made in too
BEGIN;
COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	a	2	2" 10001 13000';
INSERT INTO t SELECT g, 'i', 3, 3 FROM generate_series(20001, 22000) g;
UPDATE t SET n = n + 1 WHERE a > 21000;
SAVEPOINT s;
CREATE INDEX t_gone ON t USING mtpower_zone (n, a);
COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	b	-5	2" 13001 16000';
SELECT * FROM sound();
ROLLBACK TO s;
COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	c	4	-2" 16001 19000; echo x';
ROLLBACK TO s;
COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	d	4	-2" 16001 19000';
ALTER TABLE t ALTER x TYPE bigint;
COPY t (a, c, n, f, x) FROM PROGRAM 'seq -f "%.0f	e	5	-2	40000000000" 30001 33000';
SELECT * FROM sound();
COMMIT;
SELECT * FROM sound();

-- A COPY fails in the middle, with the index that was made for it, and another one follows in the same statement.
DO $$
BEGIN
	BEGIN
		CREATE INDEX t_gone ON t USING mtpower_zone (n, a);
		COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	f	6	-2" 40001 44000; echo x';
	EXCEPTION WHEN invalid_text_representation THEN NULL;
	END;
	COPY t (a, c, n, f) FROM PROGRAM 'seq -f "%.0f	g	6	-2" 50001 54000';
END $$;
SELECT * FROM sound();

-- What a COPY's triggers store comes while it is running: rows before, rows behind, and another COPY.  The rows of before
-- triggers come one by one.
CREATE TABLE log (a bigint, depth int) WITH (autovacuum_enabled = off);
CREATE INDEX log_a ON log USING mtpower_zone (a);
CREATE INDEX log_depth ON log USING mtpower_zone (depth, a);
CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.depth < 0 THEN RETURN NEW; END IF;
	IF NEW.a % 997 = 0 THEN
		INSERT INTO log SELECT NEW.a * 100 + g, -1 FROM generate_series(1, 50) g;
		UPDATE log SET a = a + 1000000 WHERE a = NEW.a * 100 + 1;
	ELSIF NEW.a % 1500 = 0 THEN
		COPY log FROM PROGRAM 'seq -f "%.0f	-2" 5000001 5002500';
		BEGIN
			COPY log FROM PROGRAM 'seq -f "%.0f	-2" 6000001 6002500; echo x';
		EXCEPTION WHEN bad_copy_file_format OR invalid_text_representation THEN NULL;
		END;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER after AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION more();
COPY log FROM PROGRAM 'seq -f "%.0f	1" 1 6000';
SELECT count(*), count(*) FILTER (WHERE depth < 0), max(a) FROM log;
SELECT indexes FROM sound();
DROP TRIGGER after ON log;
CREATE TRIGGER before BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION more();
COPY log FROM PROGRAM 'seq -f "%.0f	2" 1 6000';
SELECT count(*), count(*) FILTER (WHERE depth < 0) FROM log;
SELECT indexes FROM sound();
-- A function that an index calls stores rows in the index's table, between the rows of a batch.
CREATE TABLE calls (a bigint, b int) WITH (autovacuum_enabled = off);
CREATE FUNCTION store(a bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO calls SELECT a * 1000 + g, 1 FROM generate_series(1, 5) g;
	COPY calls FROM PROGRAM 'seq -f "%.0f	2" 7000001 7002500';
END $$;
CREATE FUNCTION calls(a bigint, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF b = 0 AND a % 2500 = 0 THEN PERFORM store(a); END IF;
	RETURN b;
END $$;
CREATE INDEX calls_f ON calls USING btree (calls(a, b));
CREATE INDEX calls_a ON calls USING mtpower_zone (a);
CREATE INDEX calls_g ON calls USING btree (calls(a, b), a);
CREATE INDEX calls_b ON calls USING mtpower_zone (b, a);
COPY calls FROM PROGRAM 'seq -f "%.0f	0" 1 5000';
SELECT b, count(*) FROM calls GROUP BY b ORDER BY b;
SELECT indexes FROM sound();

-- Partitions, some with a trigger, that rows come to in turns; heap's tables; more indexes than are held; FREEZE; unlogged and temporary tables
CREATE TABLE parts (a bigint, p int) PARTITION BY LIST (p);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0) WITH (autovacuum_enabled = off);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1) WITH (autovacuum_enabled = off);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2) USING heap WITH (autovacuum_enabled = off);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3) WITH (autovacuum_enabled = off);
CREATE FUNCTION unchanged() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER before BEFORE INSERT ON parts_1 FOR EACH ROW EXECUTE FUNCTION unchanged();
CREATE INDEX parts_a ON parts USING mtpower_zone (a);
COPY parts FROM PROGRAM $$awk 'BEGIN { for (i = 0; i < 12000; i++) print (i < 1000 ? 0 - i : i) "\t" (i < 8000 ? i % 2 * 3 : int(i / 1500) % 4) }'$$;
SELECT tableoid::regclass, count(*), count(*) FILTER (WHERE a BETWEEN -1000 AND 12000) FROM parts GROUP BY 1 ORDER BY 1;
CREATE TABLE wide (a int, b int, c int, d int) WITH (autovacuum_enabled = off);
CREATE INDEX ON wide USING mtpower_zone (a); CREATE INDEX ON wide USING mtpower_zone (b); CREATE INDEX ON wide USING mtpower_zone (c); CREATE INDEX ON wide USING mtpower_zone (d);
CREATE INDEX ON wide USING mtpower_zone (a, b); CREATE INDEX ON wide USING mtpower_zone (b, c); CREATE INDEX ON wide USING mtpower_zone (c, d); CREATE INDEX ON wide USING mtpower_zone (d, a);
CREATE INDEX ON wide USING mtpower_zone (a, c); CREATE INDEX ON wide USING mtpower_zone (b, d); CREATE INDEX ON wide USING mtpower_zone (d, c, b, a);
COPY wide FROM PROGRAM $$awk 'BEGIN { for (i = 0; i < 5000; i++) print i "\t" 5000 - i "\t" i % 100 "\t" 1 }'$$;
SELECT indexes FROM sound();
BEGIN;
CREATE TABLE frozen (a int);
CREATE INDEX ON frozen USING mtpower_zone (a);
COPY frozen FROM PROGRAM 'seq 1 5000' WITH (FREEZE);
COMMIT;
CREATE UNLOGGED TABLE unl (a int);
CREATE INDEX ON unl USING mtpower_zone (a);
COPY unl FROM PROGRAM 'seq 1 5000';
CREATE TEMP TABLE temp (a int);
CREATE INDEX temp_a ON temp USING mtpower_zone (a);
COPY temp FROM PROGRAM 'seq 1 5000';
SELECT mtpower.verify_index('temp_a', true);
SELECT indexes FROM sound();

-- A cursor that is open sees in the index what it saw; a scan in the same transaction sees what was loaded.
BEGIN ISOLATION LEVEL SERIALIZABLE;
DECLARE c CURSOR FOR SELECT count(*) FROM frozen WHERE a > 0;
COPY frozen FROM PROGRAM 'seq 5001 9000';
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM frozen WHERE a BETWEEN 5001 AND 9000;
FETCH c;
COMMIT;

DROP SCHEMA zone_load CASCADE;
