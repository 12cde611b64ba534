-- Tables of access method mtpower do what heap tables do.
CREATE SCHEMA table_am;
SET search_path = table_am;

-- How they come about.  TOAST tables stay on heap.
CREATE TABLE plain (a int PRIMARY KEY, b text) USING mtpower;
CREATE TABLE ctas USING mtpower AS SELECT g AS a, repeat('x', g) AS b FROM generate_series(1, 10) g;
CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT a, length(b) AS len FROM ctas;
SET default_table_access_method = mtpower;
CREATE TABLE by_default (a int);
CREATE TEMP TABLE temporary (a int, b text);
CREATE UNLOGGED TABLE unlogged (a int);
SELECT a INTO selected_into FROM ctas;
CREATE TABLE parted (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (100) TO (200) USING heap;
RESET default_table_access_method;
CREATE TABLE part3 PARTITION OF parted FOR VALUES FROM (200) TO (300) USING mtpower;
SELECT c.relname, c.relkind, a.amname, ta.amname AS toast_am,
       (SELECT count(*) FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
          AND d.refclassid = 'pg_am'::regclass AND d.refobjid = a.oid) AS depends
FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam
     LEFT JOIN pg_class t ON t.oid = c.reltoastrelid LEFT JOIN pg_am ta ON ta.oid = t.relam
WHERE c.relnamespace IN ('table_am'::regnamespace, pg_my_temp_schema()) AND c.relkind IN ('r', 'm', 'p')
ORDER BY c.relname COLLATE "C";

-- The extension does not go while there are such tables.
DROP EXTENSION mtpower;
DROP ACCESS METHOD mtpower;
DROP TABLE by_default, temporary, selected_into;

-- Rows, short and toasted.
INSERT INTO plain SELECT g, 'row ' || g FROM generate_series(1, 1000) g;
INSERT INTO plain SELECT 2000, string_agg(md5(g::text), '') FROM generate_series(1, 3000) g;
SELECT count(*), sum(a), sum(length(b)) FROM plain;
SELECT ctid, xmin <> 0 AS has_xmin, tableoid::regclass, a FROM plain WHERE a = 1;
UPDATE plain SET b = b || '!' WHERE a <= 10 OR a = 2000;
DELETE FROM plain WHERE a BETWEEN 11 AND 20;
SELECT count(*), sum(a), sum(length(b)) FROM plain;
SELECT a, b FROM plain WHERE ctid = '(0,30)';
SELECT count(*) FROM plain WHERE ctid < '(1,0)' AND ctid > '(0,180)';
SELECT count(*) FROM plain TABLESAMPLE SYSTEM (100);
SELECT count(*) BETWEEN 0 AND 991 FROM plain TABLESAMPLE BERNOULLI (50) REPEATABLE (7);

-- ON CONFLICT, RETURNING, MERGE, row locks.
INSERT INTO plain VALUES (1, 'again') ON CONFLICT DO NOTHING;
INSERT INTO plain VALUES (1, 'again'), (3000, 'new') ON CONFLICT (a) DO UPDATE SET b = excluded.b
RETURNING a, b;
INSERT INTO plain VALUES (1, 'duplicate');
MERGE INTO plain p USING (VALUES (1, 'merged'), (3001, 'merged too')) v(a, b) ON p.a = v.a
WHEN MATCHED THEN UPDATE SET b = v.b WHEN NOT MATCHED THEN INSERT VALUES (v.a, v.b);
SELECT a, b FROM plain WHERE a IN (1, 3000, 3001) ORDER BY a FOR UPDATE;
DELETE FROM plain WHERE a >= 2000 RETURNING a;

-- Foreign keys and triggers.
CREATE TABLE child (a int REFERENCES plain DEFERRABLE, n int) USING mtpower;
INSERT INTO child VALUES (1, 0), (2, 0);
INSERT INTO child VALUES (2000, 0);
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child VALUES (2000, 0);
COMMIT;
DELETE FROM plain WHERE a = 1;
CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_OP, COALESCE(new, old); RETURN COALESCE(new, old); END$$;
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON child FOR EACH ROW EXECUTE FUNCTION log_row();
CREATE TRIGGER after_row AFTER INSERT OR UPDATE OR DELETE ON child FOR EACH ROW EXECUTE FUNCTION log_row();
INSERT INTO child VALUES (3, 3);
UPDATE child SET n = n + 1 WHERE a = 3;
DELETE FROM child WHERE a = 3;
DROP TABLE child;

-- COPY: rows, FREEZE, an error in the middle, into partitions, and with a transition table.
COPY plain FROM stdin;
5000	copied
5001	copied
\.
COPY plain FROM stdin;
5002	lost
not a number	lost
\.
SELECT a, b FROM plain WHERE a >= 5000;
BEGIN;
CREATE TABLE frozen (a int) USING mtpower;
COPY frozen FROM stdin (FREEZE);
1
2
\.
COMMIT;
CREATE INDEX ON frozen (a);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM explain('SELECT a FROM frozen', 'ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF');
RESET enable_seqscan;
RESET enable_bitmapscan;
COPY parted FROM stdin;
1	one
101	two
201	three
102	four
\.
SELECT tableoid::regclass, a, b FROM parted ORDER BY a;
UPDATE parted SET a = a + 100 WHERE a IN (1, 102);
SELECT tableoid::regclass, a, b FROM parted ORDER BY a;
CREATE FUNCTION count_new() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE NOTICE '% new rows', (SELECT count(*) FROM new_rows); RETURN NULL; END$$;
CREATE TRIGGER new_rows AFTER INSERT ON frozen REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_new();
COPY frozen FROM stdin;
3
4
5
\.

-- Rewrites, in both directions and in place.
ALTER TABLE plain SET ACCESS METHOD heap;
SELECT a.amname, count(*), sum(p.a) FROM plain p, pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.oid = 'plain'::regclass GROUP BY 1;
SELECT count(*) FROM pg_depend WHERE objid = 'plain'::regclass AND refclassid = 'pg_am'::regclass;
ALTER TABLE plain SET ACCESS METHOD mtpower;
SELECT a.amname, ta.amname AS toast_am FROM pg_class c JOIN pg_am a ON a.oid = c.relam
     LEFT JOIN pg_class t ON t.oid = c.reltoastrelid LEFT JOIN pg_am ta ON ta.oid = t.relam
WHERE c.oid = 'plain'::regclass;
SELECT count(*) FROM pg_depend WHERE objid = 'plain'::regclass AND refclassid = 'pg_am'::regclass;
ALTER TABLE plain ADD COLUMN c int DEFAULT 7, ALTER COLUMN a TYPE bigint;
VACUUM FULL plain;
CLUSTER plain USING plain_pkey;
VACUUM (FREEZE, ANALYZE) plain;
SELECT relpages > 0 AS pages, reltuples FROM pg_class WHERE oid = 'plain'::regclass;
SELECT count(*), sum(a), sum(c) FROM plain;
SET enable_seqscan = off;
SELECT a, b, c FROM plain WHERE a = 500;
RESET enable_seqscan;
BEGIN;
TRUNCATE plain;
INSERT INTO plain VALUES (1, 'after truncate');
SELECT * FROM plain;
ROLLBACK;
SELECT count(*) FROM plain;
TRUNCATE plain;
SELECT count(*) FROM plain;

-- A materialized view, refreshed in both ways.
INSERT INTO ctas VALUES (11, 'eleven');
REFRESH MATERIALIZED VIEW mv;
CREATE UNIQUE INDEX ON mv (a);
INSERT INTO ctas VALUES (12, 'twelve');
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*), sum(len) FROM mv;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD heap;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD mtpower;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'mv'::regclass;

-- Cursors that move, and see the table of their time.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a FROM ctas;
FETCH 2 FROM c;
DELETE FROM ctas WHERE a = 3;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
UPDATE ctas SET b = 'current' WHERE CURRENT OF c;
SELECT a, b FROM ctas WHERE b = 'current';
ROLLBACK;

-- Savepoints.
BEGIN;
INSERT INTO ctas VALUES (20, 'kept');
SAVEPOINT s;
INSERT INTO ctas VALUES (21, 'undone');
ROLLBACK TO s;
COMMIT;
SELECT a FROM ctas WHERE a >= 20;

-- A table that says where its rows are, and how many there may be.
SELECT pg_relation_size('frozen') = current_setting('block_size')::int AS one_block;
EXPLAIN (COSTS OFF) SELECT * FROM parted WHERE a = 101;

DROP SCHEMA table_am CASCADE;
