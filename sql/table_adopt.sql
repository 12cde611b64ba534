-- A table goes to mtpower and back without a byte of it being rewritten.
SET client_min_messages = warning;
CREATE SCHEMA table_adopt;
SET search_path = table_adopt, public;
CREATE ROLE regress_mtp_owner;
CREATE ROLE regress_mtp_other;
GRANT ALL ON SCHEMA table_adopt TO regress_mtp_owner, regress_mtp_other;
RESET client_min_messages;
\set SHOW_CONTEXT never

CREATE VIEW state AS
SELECT c.relname, a.amname, pg_relation_filenode(c.oid) AS node,
       (SELECT string_agg(d.refobjid::text, ' ') FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
          AND d.refclassid = 'pg_am'::regclass) = c.relam::text AS depends
FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace = 'table_adopt'::regnamespace AND c.relkind IN ('r', 'm');

CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT g, repeat('b', g) FROM generate_series(1, 1000) g;
INSERT INTO t SELECT 2000, string_agg(md5(g::text), '') FROM generate_series(1, 3000) g;
CREATE TABLE before AS SELECT ctid AS tid, xmin AS x, a, b FROM t;
SELECT node AS node FROM state WHERE relname = 't' \gset

SELECT mtpower.adopt('t');
SELECT relname, amname, node = :node AS same_file, depends FROM state WHERE relname = 't';
SELECT count(*) FROM before JOIN t ON t.ctid = tid AND t.xmin = x AND t.a = before.a AND t.b = before.b;
SELECT mtpower.release('t');
SELECT relname, amname, node = :node AS same_file, depends FROM state WHERE relname = 't';
SELECT count(*) FROM before JOIN t ON t.ctid = tid AND t.xmin = x AND t.a = before.a AND t.b = before.b;

-- It can be taken back, with its transaction or a part of it.
BEGIN;
SELECT mtpower.adopt('t');
SAVEPOINT s;
SELECT mtpower.release('t');
SELECT relname, amname, depends FROM state WHERE relname = 't';
ROLLBACK TO s;
SELECT relname, amname, depends FROM state WHERE relname = 't';
INSERT INTO t VALUES (2001, 'undone');
ROLLBACK;
SELECT relname, amname, depends FROM state WHERE relname = 't';
SELECT max(a) FROM t;

-- A plan made before does not go on after.
PREPARE p AS SELECT count(*) FROM t;
EXECUTE p;
SELECT mtpower.adopt('t');
EXECUTE p;
INSERT INTO t VALUES (2001, 'stays');
EXECUTE p;
DEALLOCATE p;

-- Already there; and a materialized view, a temporary and an unlogged table, one with nothing in it.
SELECT mtpower.adopt('t');
\echo :SQLSTATE
SELECT mtpower.release('before');
\echo :SQLSTATE
CREATE MATERIALIZED VIEW mv AS SELECT a FROM t WHERE a < 10;
CREATE TEMP TABLE temporary (a int);
CREATE UNLOGGED TABLE unlogged (a int);
CREATE TABLE no_columns ();
SELECT mtpower.adopt('mv'), mtpower.adopt('temporary'), mtpower.adopt('unlogged'), mtpower.adopt('no_columns');
REFRESH MATERIALIZED VIEW mv;
INSERT INTO temporary VALUES (1);
INSERT INTO unlogged VALUES (1);
SELECT relname, amname, depends FROM state WHERE relname <> 't' ORDER BY relname COLLATE "C";

-- The extension stays as long as they are there.
DROP EXTENSION mtpower;

-- release_all() lists what it released.
SELECT r FROM mtpower.release_all() r ORDER BY r::text COLLATE "C";
SELECT r FROM mtpower.release_all() r;
SELECT relname, amname, depends FROM state ORDER BY relname COLLATE "C";
DROP TABLE temporary, unlogged, no_columns, before;

-- Many in one statement, found in the catalog.
CREATE TABLE m1 (); CREATE TABLE m2 (); CREATE TABLE m3 ();
SELECT count(mtpower.adopt(oid)) FROM pg_class
WHERE relname ~ '^m[0-9]$' AND relnamespace = 'table_adopt'::regnamespace;
SELECT relname, amname, depends FROM state WHERE relname ~ '^m[0-9]$' ORDER BY 1;
DROP TABLE m1, m2, m3;

-- What can't be adopted.
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (1);
CREATE VIEW a_view AS SELECT 1 AS a;
CREATE SEQUENCE a_sequence;
CREATE TYPE a_type AS (a int);
CREATE FOREIGN DATA WRAPPER regress_mtp_fdw;
CREATE SERVER regress_mtp_server FOREIGN DATA WRAPPER regress_mtp_fdw;
CREATE FOREIGN TABLE a_foreign_table (a int) SERVER regress_mtp_server;
CREATE INDEX parted_a ON parted (a);
SELECT mtpower.adopt('parted');
\echo :SQLSTATE
SELECT mtpower.adopt('part');
SELECT mtpower.adopt('a_view');
\echo :SQLSTATE
SELECT mtpower.adopt('a_sequence');
\echo :SQLSTATE
SELECT mtpower.adopt('a_type');
\echo :SQLSTATE
SELECT mtpower.adopt('a_foreign_table');
\echo :SQLSTATE
SELECT mtpower.adopt('t_pkey');
\echo :SQLSTATE
SELECT mtpower.adopt('parted_a');
\echo :SQLSTATE
SELECT mtpower.adopt('no_such_table');
\echo :SQLSTATE
SELECT mtpower.adopt(0);
\echo :SQLSTATE
SELECT mtpower.adopt(NULL) IS NULL;
SELECT mtpower.adopt('pg_class');
\echo :SQLSTATE
SELECT mtpower.adopt('pg_authid');
\echo :SQLSTATE
SELECT mtpower.adopt('pg_largeobject');
\echo :SQLSTATE
SELECT mtpower.adopt('information_schema.sql_features');
\echo :SQLSTATE
SELECT mtpower.release('pg_class');
\echo :SQLSTATE
SET allow_system_table_mods = on;
SELECT mtpower.adopt('pg_description');
\echo :SQLSTATE
RESET allow_system_table_mods;
SELECT mtpower.adopt('pg_toast.pg_toast_1255');
\echo :SQLSTATE
-- The name of a user's TOAST table has its OID in it.
\set VERBOSITY sqlstate
SELECT mtpower.adopt(reltoastrelid) FROM pg_class WHERE oid = 't'::regclass;
\set VERBOSITY default
SELECT mtpower.release('parted');
\echo :SQLSTATE
SELECT mtpower.release('a_view');
\echo :SQLSTATE

-- Nor what uses a third access method.
CREATE ACCESS METHOD regress_mtp_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE third (a int) USING regress_mtp_heap;
SELECT mtpower.adopt('third');
\echo :SQLSTATE
SELECT mtpower.release('third');
\echo :SQLSTATE
DROP ACCESS METHOD regress_mtp_heap CASCADE;

-- Nor what this session is using: the statement itself, an open cursor, waiting triggers.
CREATE TABLE used (a int);
INSERT INTO used VALUES (1);
SELECT mtpower.adopt('used') FROM used;
\echo :SQLSTATE
INSERT INTO used SELECT 2 FROM (SELECT mtpower.adopt('used')) s;
\echo :SQLSTATE
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM used;
FETCH c;
SELECT mtpower.adopt('used');
\echo :SQLSTATE
ROLLBACK;
SELECT mtpower.adopt('used');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM used;
SELECT * FROM mtpower.release_all();
\echo :SQLSTATE
ROLLBACK;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON used DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION nothing();
BEGIN;
INSERT INTO used VALUES (3);
SELECT mtpower.release('used');
\echo :SQLSTATE
ROLLBACK;
CREATE FUNCTION release_self() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN PERFORM mtpower.release(TG_RELID); RETURN new; END$$;
CREATE TRIGGER release_self BEFORE INSERT ON used FOR EACH ROW EXECUTE FUNCTION release_self();
INSERT INTO used VALUES (3);
\echo :SQLSTATE
SELECT relname, amname, depends FROM state WHERE relname = 'used';
DROP TABLE used;

-- Nor in a transaction that may not write.
BEGIN READ ONLY;
SELECT mtpower.adopt('t');
\echo :SQLSTATE
ROLLBACK;

-- Owners do it, nobody else does, and nobody else's tables are locked for the attempt.
SET ROLE regress_mtp_owner;
CREATE TABLE owned (a int);
SET ROLE regress_mtp_other;
CREATE TABLE others (a int);
BEGIN;
SELECT mtpower.adopt('owned');
\echo :SQLSTATE
ROLLBACK;
SELECT mtpower.adopt('others');
RESET ROLE;
SELECT mtpower.adopt('t');
SET ROLE regress_mtp_owner;
SELECT mtpower.adopt('owned');
SELECT mtpower.release('t');
\echo :SQLSTATE
SELECT * FROM mtpower.release_all();
RESET ROLE;
SELECT relname, amname FROM state WHERE amname = 'mtpower' ORDER BY relname COLLATE "C";
GRANT regress_mtp_other TO regress_mtp_owner;
SET ROLE regress_mtp_owner;
SELECT mtpower.release('others');
RESET ROLE;
SELECT * FROM mtpower.release_all();

-- A table of mtpower that was changed by other means can still leave.
SELECT mtpower.adopt('t');
ALTER TABLE t ADD COLUMN c int DEFAULT 5, DROP COLUMN b;
SELECT mtpower.release('t');
SELECT count(*), sum(c) FROM t;

-- Which indexes loads will feed in batches
CREATE TABLE many (id int PRIMARY KEY, a int UNIQUE DEFERRABLE, b text[], c int4range, EXCLUDE (a WITH =), EXCLUDE USING gist (c WITH &&));
CREATE INDEX ON many USING hash (a);
CREATE INDEX ON many USING gin (b);
CREATE INDEX ON many USING mtpower_blink (a);
CREATE INDEX ON many USING mtpower_hash (a);
SELECT mtpower.adopt('many');
CREATE UNLOGGED TABLE one AS SELECT 1 AS a;
CREATE INDEX ON one USING brin (a);
SELECT mtpower.adopt('one');
SELECT mtpower.release('one');
CREATE INDEX ON one (a);
SELECT mtpower.adopt('one');
CREATE TEMP TABLE temporary (a int PRIMARY KEY);
SELECT mtpower.adopt('temporary');

SET client_min_messages = warning;
DROP SCHEMA table_adopt CASCADE;
DROP FOREIGN DATA WRAPPER regress_mtp_fdw CASCADE;
DROP ROLE regress_mtp_owner, regress_mtp_other;
