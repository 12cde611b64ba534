-- mtpower_hash indexes of tables that change in every way but a plain load: COPY and its errors, generated columns, partitions, exclusion
-- constraints, HOT updates, TRUNCATE, other types and storage parameters, cursors that stand in the index.
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET jit = off;
SET mtpower.enable_directoryscan = off;
CREATE SCHEMA hash_changes;
SET search_path = hash_changes, public;

-- The numbers of rows that an index scan, a bitmap scan and a sequential scan find; one number if they agree, and both index scans used an index.
CREATE FUNCTION counts(tab regclass, cond text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT count(*) FROM %s WHERE %s', tab, cond);
	ns bigint[] := '{}';
	n bigint;
	line text;
	found_index bool;
BEGIN
	FOR i IN 0 .. 2 LOOP
		PERFORM set_config('enable_seqscan', (i = 0)::text, true), set_config('enable_indexscan', (i = 1)::text, true),
			set_config('enable_bitmapscan', (i = 2)::text, true);
		found_index := false;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			found_index := found_index OR line ~ CASE i WHEN 0 THEN 'Seq Scan' WHEN 1 THEN 'Index Scan using' ELSE 'Bitmap Index Scan' END;
		END LOOP;
		IF NOT found_index THEN RAISE 'plan % of %', i, query; END IF;
		EXECUTE query INTO n;
		ns := ns || n;
	END LOOP;
	RETURN CASE WHEN ns[1] = ALL (ns) THEN ns[1]::text ELSE ns::text END;
END $$;

-- COPY computes generated columns and expressions, its triggers change rows, and WHERE leaves some out; the same transaction finds them.
CREATE FUNCTION slug(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT lower(replace($1, ' ', '-'))$$;
CREATE TABLE gen (a int, t text, g int GENERATED ALWAYS AS (a % 100) STORED, s text GENERATED ALWAYS AS (slug(t)) STORED,
	id int GENERATED ALWAYS AS IDENTITY, d int DEFAULT 7) USING mtpower;
CREATE INDEX gen_g ON gen USING mtpower_hash (g);
CREATE INDEX gen_s ON gen USING mtpower_hash (s);
CREATE INDEX gen_e ON gen USING mtpower_hash ((a + g), slug(t));
CREATE INDEX gen_p ON gen USING mtpower_hash (id) WHERE g < 10;
CREATE INDEX gen_d ON gen USING mtpower_hash (d) WITH (initial_buckets = 1);
CREATE INDEX gen_row ON gen USING mtpower_hash ((gen.*));
BEGIN;
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	A Title X" 1 4000';
SELECT counts('gen', 'g = 7'), counts('gen', 's = ''a-title-x'''), counts('gen', 'a + g = 150 AND slug(t) = ''a-title-x'''), counts('gen', 'id = 3901 AND g < 10'), counts('gen', 'd = 7'),
	counts('gen', 'gen = ROW(5, ''A Title X'', 5, ''a-title-x'', 5, 7)::gen');
COMMIT;
CREATE FUNCTION halve() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.a % 2 = 0 THEN RETURN NULL; END IF; NEW.a := -NEW.a; NEW.d := NEW.a; RETURN NEW; END';
CREATE TRIGGER halve BEFORE INSERT ON gen FOR EACH ROW EXECUTE FUNCTION halve();
COPY gen (a, t) FROM PROGRAM 'seq -f "%.0f	B" 1 4000' WHERE a > 1000;
SELECT counts('gen', 'g = -7'), counts('gen', 'd = -1001'), counts('gen', 'd = -1002'), counts('gen', 's = ''b''');
DROP TRIGGER halve ON gen;
SELECT verify('gen');
DROP TABLE gen;

-- What is wrong with a row is said of its line, and nothing of the COPY stays; also what the index's expression says, and other constraints.
CREATE TABLE c (a int, b int DEFAULT 5, r float8 DEFAULT random(), CHECK (a <> 7777)) USING mtpower;
CREATE INDEX c_a ON c USING mtpower_hash (a);
CREATE INDEX c_b ON c USING mtpower_hash (b);
CREATE INDEX c_r ON c USING mtpower_hash (r);
CREATE INDEX c_e ON c USING mtpower_hash ((100 / (a - 6999)));
COPY c (a, b) FROM PROGRAM 'seq -f "%.0f	1" 1 4000' WHERE a % 2 = 0;
COPY c (a) FROM PROGRAM 'seq 4001 6000';
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 1 2500; echo malformed; seq -f "%.0f	2	0" 1 2500';
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 1 2500; printf "1\t2\tx\n"; seq -f "%.0f	2	0" 1 2500';
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 7001 9000';
COPY c FROM PROGRAM 'seq -f "%.0f	2	0" 6001 7500';
SELECT counts('c', 'b = 2'), counts('c', 'b = 5'), counts('c', 'a = 6500'), counts('c', 'r = 0');
ALTER TABLE c ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
COPY c (a) FROM PROGRAM 'seq 8001 9000';
COPY c (a) FROM PROGRAM 'seq 8900 9100';
SELECT counts('c', 'b = 5');
COMMIT;
SELECT counts('c', 'b = 5'), verify('c');

-- Keys of any size, in the row and toasted: the index has their hashes only.
CREATE TABLE big (a int, t text, b bytea) USING mtpower;
ALTER TABLE big ALTER t SET STORAGE EXTERNAL;
CREATE INDEX big_t ON big USING mtpower_hash (t);
CREATE INDEX big_tb ON big USING mtpower_hash (t, b);
COPY big (a, t) FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 1500; i++) { s = ""; if (i == 777) for (j = 0; j < 10000; j++) s = s "0123456789"; print i "\t" i s } }'$$;
INSERT INTO big SELECT 10000 + i, repeat('x', i), decode(repeat('ab', i * 20), 'hex') FROM generate_series(2700, 2710) i;
SELECT counts('big', $$t = '777' || repeat('0123456789', 10000)$$), counts('big', $$t = '777' || repeat('0123456789', 10001)$$), counts('big', $$t = repeat('x', 2704)$$),
	counts('big', $$t = repeat('x', 2704) AND b = decode(repeat('ab', 54080), 'hex')$$), counts('big', $$t = repeat('x', 2704) AND b = ''$$), verify('big');
REINDEX TABLE big;
SELECT counts('big', $$t = '777' || repeat('0123456789', 10000)$$), verify('big');

-- Partitions of both table access methods, triggers on some of them, rows that move.
CREATE TABLE parts (k int, v int, t text) PARTITION BY RANGE (k);
DO $$
BEGIN
	FOR i IN 0..19 LOOP
		EXECUTE format('CREATE TABLE p%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s) USING %s', i, i * 300, i * 300 + 300, CASE WHEN i % 5 = 0 THEN 'heap' ELSE 'mtpower' END);
	END LOOP;
END $$;
CREATE INDEX parts_v ON parts USING mtpower_hash (v);
CREATE INDEX parts_t ON parts USING mtpower_hash (t, v);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := -NEW.v; RETURN NEW; END';
CREATE TRIGGER touch BEFORE INSERT ON p7 FOR EACH ROW EXECUTE FUNCTION touch();
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM parts WHERE t = NEW.t AND v = NEW.v AND k = NEW.k) THEN
		RAISE 'not there: %', NEW;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT ON p8 FOR EACH ROW EXECUTE FUNCTION see();
COPY parts FROM PROGRAM $$awk 'BEGIN { for (i = 0; i < 9000; i++) print (i * 7919) % 6000 "\t" i "\tb" i % 10 }'$$;
INSERT INTO parts SELECT (i * 7919) % 6000, i, 'c' FROM generate_series(1, 6000) i;
UPDATE parts SET k = (k + 1000) % 6000 WHERE t = 'b1';
SELECT counts('parts', 'v = 11'), counts('parts', 't = ''b1'' AND v = 11'), counts('parts', 't = ''c'' AND v = 77');
SELECT count(verify(inhrelid)) FROM pg_inherits WHERE inhparent = 'parts'::regclass;
CREATE TABLE joins (k int, v int, t text);
INSERT INTO joins SELECT 6000 + i, i, 'j' FROM generate_series(0, 299) i;
ALTER TABLE parts ATTACH PARTITION joins FOR VALUES FROM (6000) TO (6300);
SELECT indexdef FROM pg_indexes WHERE tablename = 'joins' ORDER BY 1;
INSERT INTO parts SELECT 6000 + i, i, 'k' FROM generate_series(0, 299) i;
SELECT counts('parts', 'v = 11'), verify('joins');
ALTER TABLE parts DETACH PARTITION joins;
INSERT INTO joins SELECT i, i, 'alone' FROM generate_series(1, 3000) i;
SELECT counts('joins', 't = ''alone'' AND v = 3000'), verify('joins');
CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT k, count(*) AS n FROM parts GROUP BY k;
CREATE UNIQUE INDEX ON mv (k);
CREATE INDEX mv_n ON mv USING mtpower_hash (n);
INSERT INTO parts SELECT (i * 7919) % 6000, i, 'd' FROM generate_series(1, 3000) i;
REFRESH MATERIALIZED VIEW mv;
INSERT INTO parts SELECT (i * 7919) % 6000, i, 'd' FROM generate_series(1, 3000) i;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT counts('mv', 'n = 4'), verify('mv');

-- Exclusion constraints.  Each row is looked for at once; keys that share a hash are told apart (5 and 4294967300 do, as bigint).
CREATE TABLE ex (a bigint, b text, EXCLUDE USING mtpower_hash (a WITH =, b WITH =)) USING mtpower;
INSERT INTO ex SELECT g % 10, g FROM generate_series(1, 3000) g;
INSERT INTO ex VALUES (7, '7');
INSERT INTO ex VALUES (7, NULL), (7, NULL), (NULL, '7'), (NULL, '7'), (NULL, NULL), (NULL, NULL);
INSERT INTO ex SELECT g % 10, g FROM generate_series(1, 4000) g ON CONFLICT DO NOTHING;
COPY ex FROM PROGRAM 'seq -f "1	x%.0f" 1 3000; echo "7	7"';
INSERT INTO ex SELECT 1, 'y' FROM generate_series(1, 2);
INSERT INTO ex SELECT 1, 'y' FROM generate_series(1, 2) ON CONFLICT DO NOTHING;
INSERT INTO ex VALUES (1, 'y') ON CONFLICT ON CONSTRAINT ex_a_b_excl DO NOTHING;
UPDATE ex SET b = '27' WHERE a = 7 AND b = '17';
SELECT hashint8(5) = hashint8(4294967300);
INSERT INTO ex VALUES (5, 'hash'), (4294967300, 'hash');
SELECT counts('ex', 'a = 5 AND b = ''hash'''), counts('ex', 'a = 4294967300 AND b = ''hash'''), counts('ex', 'a = 7 AND b = ''7'''), count(*), verify('ex') FROM ex;
CREATE TABLE exd (a float8, EXCLUDE USING mtpower_hash (a WITH =) DEFERRABLE INITIALLY DEFERRED) USING mtpower;
INSERT INTO exd SELECT generate_series(1, 3000);
BEGIN;
INSERT INTO exd SELECT generate_series(2900, 3100);
SELECT counts('exd', 'a = 2900');
DELETE FROM exd WHERE ctid IN (SELECT min(ctid) FROM exd GROUP BY a HAVING count(*) > 1);
COMMIT;
BEGIN;
INSERT INTO exd SELECT generate_series(2900, 3100);
COMMIT;
INSERT INTO exd VALUES ('NaN'), ('-0');
INSERT INTO exd VALUES ('0');
INSERT INTO exd VALUES ('NaN');
UPDATE exd SET a = a + 1;
SELECT count(*), count(DISTINCT a), verify('exd') FROM exd;
CREATE TABLE exp (a int, b int) USING mtpower;
INSERT INTO exp SELECT g % 2000, g FROM generate_series(1, 2001) g;
ALTER TABLE exp ADD EXCLUDE USING mtpower_hash (a WITH =);
ALTER TABLE exp ADD EXCLUDE USING mtpower_hash (a WITH =) WHERE (b < 2001);
INSERT INTO exp VALUES (5, 5000), (5, 5001);
INSERT INTO exp VALUES (5, 6);
SELECT verify('exp');

-- HOT: an update of columns that no index has adds no entry; one of an indexed column does.  An index made over such chains has their last rows.
CREATE TABLE hot (a int, b int, c text) USING mtpower WITH (fillfactor = 40, autovacuum_enabled = off);
CREATE INDEX hot_a ON hot USING mtpower_hash (a);
CREATE FUNCTION items(i regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT sum(p.items) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p WHERE p.type IN ('bucket', 'stash') $$;
INSERT INTO hot SELECT g, g, 'x' FROM generate_series(1, 1000) g;
UPDATE hot SET b = b + 1;
UPDATE hot SET a = a WHERE a < 100;
SELECT items('hot_a') AS none_added;
UPDATE hot SET a = a + 10000 WHERE a <= 100;
SELECT items('hot_a') AS added, counts('hot', 'a = 10050'), counts('hot', 'a = 50'), verify('hot');
BEGIN;
CREATE TABLE chains (a int, b int) USING mtpower;
INSERT INTO chains SELECT g, g FROM generate_series(1, 1000) g;
UPDATE chains SET b = b + 5000;
UPDATE chains SET a = a + 5000 WHERE a % 2 = 0;
CREATE INDEX chains_a ON chains USING mtpower_hash (a);
SELECT counts('chains', 'a = 5002'), counts('chains', 'a = 2');
COMMIT;
SELECT counts('chains', 'a = 5002'), counts('chains', 'a = 2'), verify('chains');

-- TRUNCATE in the transaction that made the table, which keeps the file, and in others; ON COMMIT DELETE ROWS.
BEGIN;
CREATE TABLE tr (a int) USING mtpower;
CREATE INDEX tr_a ON tr USING mtpower_hash (a);
INSERT INTO tr SELECT generate_series(1, 50000);
SELECT counts('tr', 'a = 44444');
TRUNCATE tr;
SELECT counts('tr', 'a = 44444');
INSERT INTO tr VALUES (44444);
SELECT counts('tr', 'a = 44444');
INSERT INTO tr SELECT generate_series(1, 30000);
SELECT counts('tr', 'a = 29999');
TRUNCATE tr;
COMMIT;
SELECT counts('tr', 'a = 29999');
INSERT INTO tr SELECT generate_series(1, 3000);
SELECT counts('tr', 'a = 2999'), verify('tr');
CREATE TEMP TABLE tmp (a int, b text) ON COMMIT DELETE ROWS;
CREATE INDEX tmp_a ON tmp USING mtpower_hash (a);
CREATE INDEX tmp_b ON tmp USING mtpower_hash (b) WITH (initial_buckets = 5);
BEGIN;
INSERT INTO tmp SELECT g, g FROM generate_series(1, 30000) g;
SELECT counts('tmp', 'a = 29999'), verify('tmp');
COMMIT;
BEGIN;
SELECT counts('tmp', 'a = 29999'), counts('tmp', 'b = ''29999''');
INSERT INTO tmp SELECT g, g FROM generate_series(1, 10000) g;
SAVEPOINT s;
INSERT INTO tmp SELECT g, g FROM generate_series(1, 20000) g;
ROLLBACK TO s;
SELECT counts('tmp', 'a = 9999'), counts('tmp', 'b = ''9999'''), verify('tmp');
COMMIT;

-- Other types and collations for a column, with and without a new file; storage parameters count from the next build on.
CREATE TABLE ty (a int, b varchar(20)) USING mtpower;
CREATE INDEX ty_a ON ty USING mtpower_hash (a);
CREATE INDEX ty_b ON ty USING mtpower_hash (b);
INSERT INTO ty SELECT g, g FROM generate_series(1, 3000) g;
SELECT pg_relation_filenode('ty_b') AS file \gset
ALTER TABLE ty ALTER b TYPE varchar(40);
SELECT pg_relation_filenode('ty_b') = :file AS kept, counts('ty', 'b = ''5''');
ALTER TABLE ty ALTER a TYPE bigint, ALTER b TYPE text COLLATE "C";
SELECT counts('ty', 'a = 5'), counts('ty', 'b = ''5''');
ALTER TABLE ty ALTER a TYPE oid USING a::oid, ALTER b TYPE char(10);
SELECT counts('ty', 'a = 5'), counts('ty', 'b = ''5''');
ALTER TABLE ty SET ACCESS METHOD heap;
SELECT counts('ty', 'a = 5'), counts('ty', 'b = ''5'''), verify('ty');
CREATE FUNCTION space(i regclass) RETURNS text LANGUAGE sql AS $$SELECT array_to_string(p.flags[3:4], ' ') FROM mtpower.page_info(i, 0) p$$;
ALTER INDEX ty_a SET (fillfactor = 20);
SELECT space('ty_a');
REINDEX INDEX ty_a;
SELECT space('ty_a');
ALTER INDEX ty_a SET (initial_buckets = 77);
REINDEX INDEX CONCURRENTLY ty_a;
SELECT space('ty_a');
ALTER INDEX ty_a RESET (initial_buckets, fillfactor);
REINDEX TABLE ty;
SELECT space('ty_a'), counts('ty', 'a = 5'), verify('ty');

-- A session that has hashed values of another type does so by what the operator family has now.
CREATE FUNCTION hash_once(int8) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT hashint8($1)';
CREATE OPERATOR CLASS wide FOR TYPE int4 USING mtpower_hash AS OPERATOR 1 =, FUNCTION 1 hashint4(int4);
ALTER OPERATOR FAMILY wide USING mtpower_hash ADD OPERATOR 1 = (int4, int8), FUNCTION 1 (int8, int8) hash_once(int8);
CREATE TABLE w (a int) USING mtpower;
INSERT INTO w SELECT generate_series(1, 1000);
CREATE INDEX w_a ON w USING mtpower_hash (a wide);
SELECT counts('w', 'a = 7::int8');
ALTER OPERATOR FAMILY wide USING mtpower_hash DROP FUNCTION 1 (int8, int8);
ALTER OPERATOR FAMILY wide USING mtpower_hash ADD FUNCTION 1 (int8, int8) hashint8(int8);
DROP FUNCTION hash_once;
SELECT counts('w', 'a = 7::int8');
DROP TABLE w;

-- Cursors that stand in the index's only bucket while it should grow: one to scroll in, one of an outer level, of a temporary table.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE TABLE cu (a int, b int) USING mtpower;
CREATE INDEX cu_a ON cu USING mtpower_hash (a) WITH (initial_buckets = 1);
INSERT INTO cu SELECT 7, g FROM generate_series(1, 500) g;
DO $$
DECLARE
	c SCROLL CURSOR FOR SELECT b FROM cu WHERE a = 7;
	x int;
	n int := 0;
BEGIN
	OPEN c;
	FETCH c INTO x;
	INSERT INTO cu SELECT g, g FROM generate_series(1000, 20000) g;
	FETCH LAST FROM c INTO x;
	RAISE NOTICE 'last %', x;
	FETCH FIRST FROM c INTO x;
	LOOP
		n := n + 1;
		FETCH c INTO x;
		EXIT WHEN NOT FOUND;
	END LOOP;
	RAISE NOTICE '% rows', n;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT b FROM cu WHERE a = 7;
FETCH 1 FROM c;
SAVEPOINT s;
INSERT INTO cu SELECT g, g FROM generate_series(20001, 40000) g;
SELECT count(*) FROM cu WHERE a = 39999;
ROLLBACK TO s;
FETCH 1 FROM c;
SAVEPOINT s;
MOVE 100 IN c;
INSERT INTO cu SELECT g, g FROM generate_series(30001, 50000) g;
ROLLBACK TO s;
FETCH 1 FROM c;
INSERT INTO cu SELECT g, g FROM generate_series(30001, 50000) g;
SAVEPOINT s;
DECLARE d CURSOR FOR SELECT b FROM cu WHERE a = 40000;
FETCH 1 FROM d;
INSERT INTO cu SELECT g, g FROM generate_series(50001, 60000) g;
RELEASE s;
FETCH 2 FROM d;
MOVE FORWARD ALL IN c;
COMMIT;
SELECT counts('cu', 'a = 7'), counts('cu', 'a = 59999'), counts('cu', 'a = 25000'), verify('cu');
INSERT INTO cu SELECT g, g FROM generate_series(60001, 61000) g;
SELECT counts('cu', 'a = 60999'), verify('cu');
CREATE TEMP TABLE tc (a int);
CREATE INDEX tc_a ON tc USING mtpower_hash (a) WITH (initial_buckets = 1);
INSERT INTO tc VALUES (1), (1);
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM tc WHERE a = 1;
FETCH 1 FROM c;
INSERT INTO tc SELECT g FROM generate_series(2, 20000) g;
FETCH 2 FROM c;
COMMIT;
DELETE FROM tc WHERE a % 3 = 0;
VACUUM tc;
INSERT INTO tc SELECT g FROM generate_series(20001, 40000) g;
SELECT counts('tc', 'a = 1'), counts('tc', 'a = 39999'), verify('tc');

-- Statements that walk through the index, whose first column alone they name, and change it meanwhile: each row once.
CREATE TABLE walk (a int, b int, c int) USING mtpower;
CREATE INDEX walk_ab ON walk USING mtpower_hash (a, b) WITH (initial_buckets = 1, fillfactor = 10);
INSERT INTO walk SELECT 1, g, g FROM generate_series(1, 3000) g;
CREATE VIEW sums AS SELECT count(*) AS rows, count(DISTINCT b) AS different, min(n) AS least, max(n) AS most FROM (SELECT b, count(*) OVER (PARTITION BY c) AS n FROM walk) x;
CREATE FUNCTION walk_rows(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i % 100 = 0 THEN INSERT INTO walk SELECT 1, i * 1000 + g, -1 FROM generate_series(1, 300) g; END IF;
	RETURN i;
END $$;
SET seq_page_cost = 1000; SET random_page_cost = 0; SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0;
EXPLAIN (COSTS OFF) INSERT INTO walk SELECT 1, b + 100000, c FROM walk WHERE a = 1;
INSERT INTO walk SELECT 1, b + 100000, c FROM walk WHERE a = 1;
SELECT * FROM sums;
UPDATE walk SET b = b + 1000000 WHERE a = 1;
SELECT * FROM sums;
INSERT INTO walk SELECT a, b + i * 10000000, c FROM walk, generate_series(1, 3) i WHERE a = 1;
SELECT * FROM sums;
WITH d AS (DELETE FROM walk WHERE a = 1 RETURNING *) INSERT INTO walk SELECT a, -b, c FROM d;
SELECT * FROM sums;
SELECT count(*), count(DISTINCT x) FROM (SELECT walk_rows(c) AS x FROM walk WHERE a = 1 AND c > 0) y;
SELECT count(*), verify('walk') FROM walk WHERE a = 1;
RESET seq_page_cost; RESET random_page_cost; RESET cpu_index_tuple_cost; RESET cpu_operator_cost;

-- Parameters of prepared statements, NULL among them; long lists.
RESET enable_bitmapscan;
SET plan_cache_mode = force_generic_plan;
PREPARE one(int) AS SELECT count(*) FROM cu WHERE a = $1;
PREPARE wider(int8) AS SELECT count(*) FROM cu WHERE a = $1;
PREPARE list(int[]) AS SELECT count(*) FROM cu WHERE a = ANY ($1);
EXECUTE one(7);
EXECUTE one(NULL);
EXECUTE wider(7);
EXECUTE wider(4294967303);
EXECUTE list('{7,NULL,59999,7}');
EXECUTE list('{NULL}');
EXECUTE list('{}');
EXECUTE list(NULL);
DO $$
DECLARE
	n bigint;
BEGIN
	-- A constant: core rechecks rows against such a list by a hash table, against another one by going through it.
	EXECUTE format('SELECT count(*) FROM cu WHERE a = ANY (%L::int[])', ARRAY(SELECT generate_series(-50000, 50000))) INTO n;
	RAISE NOTICE '% rows', n;
END $$;
SELECT count(*) FROM cu WHERE (a, b) IN ((7, 7), (59999, 59999), (NULL, 8), (1, 1));

SELECT memory_held();
SET client_min_messages = warning;
DROP SCHEMA hash_changes CASCADE;
