-- Where PostgreSQL 15 asks "is this a btree?": what it does for btree and not for mtpower_blink, and that the results are the
-- same.  README.md lists these places.
CREATE SCHEMA btree_only;
SET search_path = btree_only;
CREATE TABLE b (a int, c int, t text COLLATE "en-x-icu", pad text);
INSERT INTO b SELECT i, i % 7, 'key ' || i % 1000, repeat('x', 50) FROM generate_series(1, 20000) i;
CREATE TABLE p (LIKE b) USING mtpower;
INSERT INTO p SELECT * FROM b;
CREATE INDEX b_ca ON b USING btree (c, a);
CREATE INDEX p_ca ON p USING mtpower_blink (c, a);
CREATE INDEX b_t ON b USING btree (t text_pattern_ops);
CREATE INDEX p_t ON p USING mtpower_blink (t text_pattern_ops);
CREATE INDEX b_a ON b USING btree (a);
CREATE INDEX p_a ON p USING mtpower_blink (a);
VACUUM ANALYZE b, p;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- Row comparisons: the first column is a condition on the index, the whole comparison a filter.
EXPLAIN (COSTS OFF) SELECT count(*), min(a) FROM b WHERE (c, a) > (5, 19000);
EXPLAIN (COSTS OFF) SELECT count(*), min(a) FROM p WHERE (c, a) > (5, 19000);
SELECT count(*), min(a) FROM b WHERE (c, a) > (5, 19000);
SELECT count(*), min(a) FROM p WHERE (c, a) > (5, 19000);
-- Spelled out, the first column bounds the scan.
EXPLAIN (COSTS OFF) SELECT count(*), min(a) FROM p WHERE c >= 5 AND (c > 5 OR a > 19000);
SELECT count(*), min(a) FROM p WHERE c >= 5 AND (c > 5 OR a > 19000);

-- LIKE, regular expressions and ^@ with text_pattern_ops: no index condition is made of the prefix.
EXPLAIN (COSTS OFF) SELECT count(*) FROM b WHERE t LIKE 'key 12%';
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t LIKE 'key 12%';
SELECT count(*) FROM b WHERE t LIKE 'key 12%';
SELECT count(*) FROM p WHERE t LIKE 'key 12%';
EXPLAIN (COSTS OFF) SELECT count(*) FROM b WHERE t ~ '^key 12';
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t ~ '^key 12';
SELECT count(*) FROM b WHERE t ~ '^key 12';
SELECT count(*) FROM p WHERE t ~ '^key 12';
EXPLAIN (COSTS OFF) SELECT count(*) FROM b WHERE t ^@ 'key 12';
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t ^@ 'key 12';
SELECT count(*) FROM b WHERE t ^@ 'key 12';
SELECT count(*) FROM p WHERE t ^@ 'key 12';
-- Written as a range, it is one; so it is with the default operator class where the collation is C.
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t ~>=~ 'key 12' AND t ~<~ 'key 13';
SELECT count(*) FROM p WHERE t ~>=~ 'key 12' AND t ~<~ 'key 13';
CREATE INDEX p_c ON p USING mtpower_blink (t COLLATE "C");
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t COLLATE "C" LIKE 'key 12%';
SELECT count(*) FROM p WHERE t COLLATE "C" LIKE 'key 12%';
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE t COLLATE "C" ~ '^key 12';
DROP INDEX p_c;

-- A range beyond the statistics: for btree the planner looks up the index's last key, and knows better how many rows
-- there are.
ALTER TABLE b SET (autovacuum_enabled = off);
ALTER TABLE p SET (autovacuum_enabled = off);
INSERT INTO b SELECT i, 0, '', '' FROM generate_series(20001, 40000) i;
INSERT INTO p SELECT i, 0, '', '' FROM generate_series(20001, 40000) i;
CREATE FUNCTION estimate(query text) RETURNS float LANGUAGE plpgsql AS
$$DECLARE plan json; BEGIN EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan; RETURN plan->0->'Plan'->'Plan Rows'; END$$;
SELECT estimate('SELECT FROM b WHERE a > 19990') > 200 AS btree, estimate('SELECT FROM p WHERE a > 19990') > 200 AS blink;
SELECT count(*) FROM b WHERE a > 19990;
SELECT count(*) FROM p WHERE a > 19990;

-- Serializable transactions: readers lock btree's pages, and the whole of another index.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM b WHERE a = 77;
SELECT count(*) FROM p WHERE a = 77;
SELECT relation::regclass, locktype FROM pg_locks WHERE mode = 'SIReadLock' AND relation IN ('b_a'::regclass, 'p_a'::regclass) ORDER BY 1;
COMMIT;

-- CLUSTER: for btree it may sort instead of reading the index; the order is the same.
CLUSTER b USING b_ca;
CLUSTER p USING p_ca;
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ctid) AS n, * FROM b) x
FULL JOIN (SELECT row_number() OVER (ORDER BY ctid) AS n, * FROM p) y USING (n, a, c, t, pad) WHERE x.n IS NULL OR y.n IS NULL;

-- PRIMARY KEY and UNIQUE are core's btree, on mtpower tables too; everything that needs a unique index works with it.
CREATE TABLE u (a int PRIMARY KEY, d int UNIQUE) USING mtpower;
SELECT c.relname, am.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
WHERE i.indrelid = 'u'::regclass ORDER BY 1;
CREATE INDEX u_d ON u USING mtpower_blink (d);
INSERT INTO u VALUES (1, 1), (2, 2) ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (1, 3), (4, 4) ON CONFLICT (a) DO UPDATE SET d = excluded.d;
SELECT * FROM u WHERE d >= 3 ORDER BY d;
CREATE TABLE r (a int REFERENCES u) USING mtpower;
INSERT INTO r VALUES (5);
ALTER TABLE u REPLICA IDENTITY USING INDEX u_d;
ALTER TABLE u ADD UNIQUE USING INDEX u_d;

-- A plain index is no proof that a join finds one row at most: the join with p stays, the one with u goes.
SET enable_seqscan = on;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT u.* FROM u LEFT JOIN u v ON v.d = u.a;
EXPLAIN (COSTS OFF) SELECT u.* FROM u LEFT JOIN p ON p.a = u.a;
SET client_min_messages = warning;
DROP SCHEMA btree_only CASCADE;
