-- A scan that was suspended and goes on later meets rows that its own statement has inserted meanwhile, as it would if
-- each row's index entry were inserted at once.  That is what the results are compared with: of each case
-- there is a second table, of heap with core's btree.
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
CREATE SCHEMA batch_suspended;
SET search_path = batch_suspended, public;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;

CREATE TABLE m (a int, b int) USING mtpower;
-- wide entries: row 2000 is in the second batch
CREATE INDEX m_a ON m USING mtpower_blink (a) INCLUDE (b);
CREATE TABLE h (a int, b int);
CREATE INDEX h_a ON h USING btree (a);
-- a second index, whose entries are queued as well
CREATE INDEX m_b ON m USING mtpower_blink (b);
CREATE TABLE src (i int);
INSERT INTO src SELECT i % 700 FROM generate_series(1, 4000) i;

CREATE FUNCTION same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' rows, ' || CASE WHEN EXISTS (SELECT a, b FROM m EXCEPT ALL SELECT a, b FROM h) OR
			EXISTS (SELECT a, b FROM h EXCEPT ALL SELECT a, b FROM m) THEN 'differ' ELSE 'the same' END FROM m
$$ SET enable_seqscan = on;

-- 1. A lazy SQL function that returns a set, with an anti-join on the table that it fills.
CREATE FUNCTION new_m() RETURNS SETOF int LANGUAGE sql VOLATILE AS
	'SELECT i FROM src WHERE NOT EXISTS (SELECT FROM m WHERE m.a = src.i)';
CREATE FUNCTION new_h() RETURNS SETOF int LANGUAGE sql VOLATILE AS
	'SELECT i FROM src WHERE NOT EXISTS (SELECT FROM h WHERE h.a = src.i)';
INSERT INTO m SELECT new_m(), 0;
INSERT INTO h SELECT new_h(), 0;
SELECT same();
-- The same by bitmap scans, and by plain ones.
TRUNCATE m, h;
SET enable_indexscan = off;
INSERT INTO m SELECT new_m(), 0;
INSERT INTO h SELECT new_h(), 0;
SELECT same();
RESET enable_indexscan;
TRUNCATE m, h;
SET enable_bitmapscan = off;
INSERT INTO m SELECT new_m(), 0;
INSERT INTO h SELECT new_h(), 0;
SELECT same();
RESET enable_bitmapscan;

-- 2. Cursors that are opened at the first row, and read at a later one.  Their snapshot is newer than the statement's own
-- command, so they see its rows as far as they come after them.
-- The inner side of a nested loop is scanned anew for each outer row: one of them at row 30, the others at row 2000.
CREATE TABLE probe (p int);
INSERT INTO probe SELECT generate_series(1, 40);
TRUNCATE m, h;
INSERT INTO m SELECT i, read_at(i, 'm', 'SELECT p FROM probe, LATERAL (SELECT a FROM %I WHERE a = p * 50 - 40 OFFSET 0) s', 30, 2000)
	FROM generate_series(1, 3000) i;
INSERT INTO h SELECT i, read_at(i, 'h', 'SELECT p FROM probe, LATERAL (SELECT a FROM %I WHERE a = p * 50 - 40 OFFSET 0) s', 30, 2000)
	FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
-- A bitmap is made when the first row is asked for.  (Of the table it sees only the blocks that were there when it was opened.)
TRUNCATE m, h;
ALTER TABLE m SET (fillfactor = 10);
ALTER TABLE h SET (fillfactor = 10);
INSERT INTO m SELECT -i FROM generate_series(1, 1000) i;
INSERT INTO h SELECT -i FROM generate_series(1, 1000) i;
ALTER TABLE m RESET (fillfactor);
ALTER TABLE h RESET (fillfactor);
VACUUM m, h;					-- knows of the free space now
SET enable_indexscan = off;
INSERT INTO m SELECT i, read_at(i, 'm', 'SELECT a FROM %I WHERE a BETWEEN 1 AND 1500', 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT i, read_at(i, 'h', 'SELECT a FROM %I WHERE a BETWEEN 1 AND 1500', 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
RESET enable_indexscan;
-- An index scan that stands on the first leaf when rows come meets those that went to others, forward and backward.
SET enable_bitmapscan = off;
TRUNCATE m, h;
INSERT INTO m SELECT generate_series(1, 3000);
INSERT INTO h SELECT generate_series(1, 3000);
INSERT INTO m SELECT 3000 + i, read_at(i, 'm', 'SELECT a FROM %I WHERE a > 0 ORDER BY a', 1, 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 3000 + i, read_at(i, 'h', 'SELECT a FROM %I WHERE a > 0 ORDER BY a', 1, 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
INSERT INTO m SELECT -i, read_at(i, 'm', 'SELECT a FROM %I WHERE a < 100000 ORDER BY a DESC', 1, 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT -i, read_at(i, 'h', 'SELECT a FROM %I WHERE a < 100000 ORDER BY a DESC', 1, 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
-- The same, index-only.
INSERT INTO m SELECT 6000 + i, read_at(i, 'm', 'SELECT a FROM %I WHERE a > 0 ORDER BY a', 1, 2000) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 6000 + i, read_at(i, 'h', 'SELECT a FROM %I WHERE a > 0 ORDER BY a', 1, 2000) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
-- A merge join goes back to a mark; an array of keys begins a new search for each.
SET enable_mergejoin = on;
SET enable_nestloop = off;
INSERT INTO m SELECT 9000 + i, read_at(i, 'm', 'SELECT x.a FROM %1$I x JOIN %1$I y ON x.a = y.a WHERE x.a > 0 ORDER BY x.a', 1, 2000)
	FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 9000 + i, read_at(i, 'h', 'SELECT x.a FROM %1$I x JOIN %1$I y ON x.a = y.a WHERE x.a > 0 ORDER BY x.a', 1, 2000)
	FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m;
SET enable_mergejoin = off;
RESET enable_nestloop;
INSERT INTO m SELECT 12000 + i, read_at(i, 'm', 'SELECT a FROM %I WHERE a = ANY (''{1, 5000, 12001, 13999, 14000, 20000}'')', 1, 2000)
	FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 12000 + i, read_at(i, 'h', 'SELECT a FROM %I WHERE a = ANY (''{1, 5000, 12001, 13999, 14000, 20000}'')', 1, 2000)
	FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m WHERE a > 12000;

-- 3. A cursor that is older than the statement does not see its rows, however late it is read.
BEGIN;
DECLARE lazy_m CURSOR FOR SELECT a FROM m WHERE a BETWEEN 1 AND 100000 ORDER BY a;
DECLARE lazy_h CURSOR FOR SELECT a FROM h WHERE a BETWEEN 1 AND 100000 ORDER BY a;
INSERT INTO m SELECT 15000 + i, read_at(i + 1, 'm', '', 30, 2001) FROM generate_series(1, 3000) i;
INSERT INTO h SELECT 15000 + i, read_at(i + 1, 'h', '', 30, 2001) FROM generate_series(1, 3000) i;
SELECT same(), max(b) FROM m WHERE a > 15000;
COMMIT;

-- 4. A set-returning function that returns rows of the very table ends: what it returns is out of its own range.
CREATE FUNCTION above(t text) RETURNS SETOF int LANGUAGE sql VOLATILE AS 'SELECT a + 1000000 FROM m WHERE a BETWEEN 1 AND 1000000 ORDER BY a';
INSERT INTO m SELECT above('m'), 1;
SELECT count(*), count(DISTINCT a) FROM m WHERE a > 1000000;
-- 5. A walk through all buckets of a hash index, of which the first column alone is named, meets rows that went to buckets further on: as many
-- as without batches.
CREATE TABLE w (k int, a int, n int) USING mtpower;
CREATE INDEX w_ka ON w USING mtpower_hash (k, a) WITH (initial_buckets = 64);
CREATE TABLE met (n int);
SET seq_page_cost = 1000; SET random_page_cost = 0; SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0;
SET mtpower.batching = off;
INSERT INTO w SELECT 0, -i FROM generate_series(1, 100) i;
INSERT INTO w SELECT 0, i, read_at(i, 'w', 'SELECT a FROM %I WHERE k = 0', 1, 2000) FROM generate_series(1, 3000) i;
INSERT INTO met SELECT max(n) FROM w;
TRUNCATE w;
SET mtpower.batching = on;
INSERT INTO w SELECT 0, -i FROM generate_series(1, 100) i;
INSERT INTO w SELECT 0, i, read_at(i, 'w', 'SELECT a FROM %I WHERE k = 0', 1, 2000) FROM generate_series(1, 3000) i;
INSERT INTO met SELECT max(n) FROM w;
RESET mtpower.batching;
RESET seq_page_cost; RESET random_page_cost; RESET cpu_index_tuple_cost; RESET cpu_operator_cost;
SELECT count(*), count(DISTINCT n), min(n) > 1000 AS "most of them" FROM met;
RESET enable_bitmapscan;

SELECT mtpower.verify_index('m_a', true), mtpower.verify_index('m_b', true), mtpower.verify_index('w_ka', true);
SET client_min_messages = warning;
DROP SCHEMA batch_suspended CASCADE;
