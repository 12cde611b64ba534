-- Operator families that PostgreSQL 15 knows by the OIDs of btree's: what it does for these and not for ours, and that
-- the results are the same.  (blink_btree_only has the places that ask for the access method; README.md lists all.)
CREATE TABLE opclass_btree (id int, b bool, i inet);
INSERT INTO opclass_btree SELECT n, n % 500 = 0, ('10.' || n % 40 || '.' || n % 7 || '.1/' || 24 + n % 9)::inet FROM generate_series(1, 2000) n;
CREATE TABLE opclass_blink (LIKE opclass_btree);
INSERT INTO opclass_blink SELECT * FROM opclass_btree;
CREATE INDEX opclass_btree_b ON opclass_btree USING btree (b);
CREATE INDEX opclass_btree_i ON opclass_btree USING btree (i);
CREATE INDEX opclass_blink_b ON opclass_blink USING mtpower_blink (b);
CREATE INDEX opclass_blink_i ON opclass_blink USING mtpower_blink (i);
VACUUM ANALYZE opclass_btree, opclass_blink;
SET enable_bitmapscan = off;

-- A boolean column as a condition, and what the planner makes such a condition of.
EXPLAIN (COSTS OFF) SELECT id FROM opclass_btree WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b = true;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_btree WHERE b;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b;
-- Written with another operator, it is used; so is a partial index, which is smaller.
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b >= true;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b >= true;
CREATE INDEX opclass_blink_id ON opclass_blink USING mtpower_blink (id) WHERE b;
EXPLAIN (COSTS OFF) SELECT id FROM opclass_blink WHERE b;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM opclass_blink WHERE b;

-- Subnets.
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_btree WHERE i << '10.3/16';
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_blink WHERE i << '10.3/16';
SELECT count(*) FROM opclass_btree WHERE i << '10.3/16';
SELECT count(*) FROM opclass_blink WHERE i << '10.3/16';
-- With the range that the planner makes for btree.
EXPLAIN (COSTS OFF) SELECT count(*) FROM opclass_blink WHERE i << '10.3/16' AND i > '10.3/16' AND i <= '10.3.255.255';
SELECT count(*) FROM opclass_blink WHERE i << '10.3/16' AND i > '10.3/16' AND i <= '10.3.255.255';
DROP TABLE opclass_btree, opclass_blink;
