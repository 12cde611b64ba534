-- Which columns the directories of a table's pages are made of: said by the owner, kept as security labels.
SET client_min_messages = warning;
CREATE SCHEMA table_directory;
SET search_path = table_directory, public;
CREATE ROLE regress_directory_owner;
CREATE ROLE regress_directory_other;
GRANT ALL ON SCHEMA table_directory TO regress_directory_owner, regress_directory_other;
RESET client_min_messages;
\set SHOW_CONTEXT never

-- What is recorded, as it would be dumped
CREATE VIEW labels AS
SELECT c.relname, coalesce(a.attname, '') AS attname, l.label
FROM pg_seclabel l JOIN pg_class c ON c.oid = l.objoid LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = l.objsubid AND l.objsubid > 0
WHERE l.classoid = 'pg_class'::regclass AND l.provider = 'mtpower' AND c.relnamespace = 'table_directory'::regnamespace;

CREATE TABLE t (a int, b text, c numeric, d timestamptz) USING mtpower;
SELECT * FROM mtpower.directory('t');
SELECT mtpower.set_directory('t', 'c', 'a');
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;

-- A new choice takes the place of all that was said before.
SELECT mtpower.set_directory('t', 'a', 'd', 'b');
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
SELECT mtpower.set_directory('t', NULL);
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
SELECT mtpower.set_directory('t', VARIADIC ARRAY['b', 'a']::name[]);
SELECT * FROM mtpower.directory('t');
SELECT mtpower.set_directory('t', VARIADIC ARRAY[NULL]::name[]);
SELECT * FROM mtpower.directory('t');
SELECT mtpower.set_directory('t');
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
SELECT mtpower.set_directory('t', VARIADIC '{}');
-- several times in one statement
SELECT mtpower.set_directory('t', 'a'), mtpower.set_directory('t', 'b', 'a'), (mtpower.directory('t')).columns;
SELECT * FROM mtpower.directory('t');
-- and as many as there may be
CREATE TABLE wide (a int, b int, c int, d int, e int, f int, g int, h int, i int) USING mtpower;
SELECT mtpower.set_directory('wide', 'h', 'g', 'f', 'e', 'd', 'c', 'b', 'a');
SELECT * FROM mtpower.directory('wide');
DROP TABLE wide;

-- It can be taken back, with its transaction or a part of it.
BEGIN;
SELECT mtpower.set_directory('t', 'c');
SELECT columns FROM mtpower.directory('t');
SAVEPOINT s;
SELECT mtpower.set_directory('t', NULL);
SELECT choice FROM mtpower.directory('t');
ROLLBACK TO s;
SELECT columns FROM mtpower.directory('t');
ROLLBACK;
SELECT columns FROM mtpower.directory('t');

-- It follows its columns: renamed, with another type, in a table that is released and adopted, rewritten, renamed, truncated.
ALTER TABLE t RENAME b TO bb;
SELECT columns FROM mtpower.directory('t');
ALTER TABLE t ALTER bb TYPE varchar(100), ALTER a TYPE bigint;
SELECT columns FROM mtpower.directory('t');
SELECT mtpower.release('t');
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
SELECT mtpower.adopt('t');
SELECT columns FROM mtpower.directory('t');
ALTER TABLE t SET ACCESS METHOD heap;
SELECT * FROM mtpower.directory('t');
ALTER TABLE t SET ACCESS METHOD mtpower;
VACUUM FULL t;
TRUNCATE t;
ALTER TABLE t RENAME TO tt;
SELECT * FROM mtpower.directory('tt');
ALTER TABLE tt RENAME TO t;
ALTER TABLE t RENAME bb TO b;

-- A column that is dropped takes its label along, and those behind it don't count.
SELECT mtpower.set_directory('t', 'd', 'b', 'a');
ALTER TABLE t DROP b;
SELECT columns FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
ALTER TABLE t DROP d;
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
ALTER TABLE t ADD b text, ADD d timestamptz;
SELECT * FROM mtpower.directory('t');
SELECT mtpower.set_directory('t', 'b');
SELECT columns FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;

-- Labels that come one by one, in any order, as a restore or somebody by hand sets them: up to the first gap they count.
SELECT mtpower.set_directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.c IS 'directory 3';
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.b IS 'directory 1';
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 2';
SELECT * FROM mtpower.directory('t');
-- A number that two columns have is no column's.
SECURITY LABEL FOR mtpower ON COLUMN t.d IS 'directory 2';
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 4';
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.b IS NULL;
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON COLUMN t.b IS 'directory 1';
-- "Off" goes before columns.
SECURITY LABEL FOR mtpower ON TABLE t IS 'no directory';
SELECT * FROM mtpower.directory('t');
TABLE labels ORDER BY 1, 2;
SECURITY LABEL FOR mtpower ON TABLE t IS NULL;
SELECT * FROM mtpower.directory('t');
SECURITY LABEL FOR mtpower ON TABLE t IS 'no directory';
SELECT mtpower.set_directory('t', 'a');
TABLE labels ORDER BY 1, 2;

-- Labels that are none of ours
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory';
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 0';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 9';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 12';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'directory 1 ';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'Directory 1';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS 'no directory';
SECURITY LABEL FOR mtpower ON COLUMN t.a IS '';
SECURITY LABEL FOR mtpower ON TABLE t IS 'directory 1';
SECURITY LABEL FOR mtpower ON COLUMN t.ctid IS 'directory 1';
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON SCHEMA table_directory IS 'no directory';
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON ROLE regress_directory_owner IS 'no directory';
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON ROLE regress_directory_owner IS NULL;
CREATE VIEW a_view AS SELECT 1 AS a;
SECURITY LABEL FOR mtpower ON COLUMN a_view.a IS 'directory 1';
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON COLUMN a_view.a IS NULL;
CREATE TEMP TABLE temporary (a int) USING mtpower;
SECURITY LABEL FOR mtpower ON COLUMN temporary.a IS 'directory 1';
\echo :SQLSTATE
SELECT * FROM mtpower.directory('temporary');
TABLE labels ORDER BY 1, 2;

-- A heap table's labels are kept and don't count.
CREATE TABLE heap (a int) USING heap;
SECURITY LABEL FOR mtpower ON COLUMN heap.a IS 'directory 1';
SELECT * FROM mtpower.directory('heap');
SELECT mtpower.adopt('heap');
SELECT * FROM mtpower.directory('heap');
SELECT mtpower.release('heap');
SELECT mtpower.set_directory('heap', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('heap', NULL);
\echo :SQLSTATE
SELECT mtpower.set_directory('heap');
TABLE labels ORDER BY 1, 2;

-- Partitions: each ancestor's choice by name, the nearest first.
CREATE TABLE parted (a int, b int, c int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10) USING mtpower;
CREATE TABLE sub (c int, junk int, a int, b int) PARTITION BY RANGE (b);
ALTER TABLE sub DROP junk;
CREATE TABLE part2 (gone int, b int, a int, c int) USING mtpower;
ALTER TABLE part2 DROP gone;
CREATE VIEW parts AS
SELECT c.relname, (mtpower.directory(c.oid)).* FROM pg_class c
WHERE c.relnamespace = 'table_directory'::regnamespace AND c.relname ~ '^(part|sub)' AND c.relkind IN ('r', 'p') ORDER BY c.relname COLLATE "C";
SELECT mtpower.set_directory('parted', 'b', 'a');
TABLE parts;
ALTER TABLE sub ATTACH PARTITION part2 FOR VALUES FROM (0) TO (10);
TABLE parts;
ALTER TABLE parted ATTACH PARTITION sub FOR VALUES FROM (10) TO (20);
TABLE parts;
SELECT mtpower.set_directory('sub', 'c');
TABLE parts;
SELECT mtpower.set_directory('part2', NULL);
TABLE parts;
SELECT mtpower.set_directory('part2', 'a');
TABLE parts;
SELECT mtpower.set_directory('part2');
SELECT mtpower.set_directory('sub');
SELECT mtpower.set_directory('parted', 'c', 'b');
TABLE parts;
-- What was said of an ancestor and has a gap in the first place was not said.
SECURITY LABEL FOR mtpower ON COLUMN sub.a IS 'directory 2';
TABLE parts;
ALTER TABLE parted RENAME b TO bb;
TABLE parts;
ALTER TABLE parted ALTER c TYPE bigint;
TABLE parts;
ALTER TABLE parted DROP c;
TABLE parts;
SELECT mtpower.set_directory('parted', 'bb');
TABLE parts;
ALTER TABLE parted DETACH PARTITION sub;
TABLE parts;
SELECT mtpower.set_directory('parted', NULL);
TABLE parts;
-- a new one, and one of a table without partitions of its own
CREATE TABLE part3 PARTITION OF parted FOR VALUES FROM (20) TO (30) USING mtpower;
CREATE TABLE part4 PARTITION OF parted FOR VALUES FROM (30) TO (40) USING heap;
TABLE parts;
SELECT mtpower.set_directory('parted');
TABLE parts;
DROP TABLE parted, sub;
-- Inheritance is no partitioning.
CREATE TABLE parent (a int) USING mtpower;
CREATE TABLE child () INHERITS (parent) USING mtpower;
SELECT mtpower.set_directory('parent', 'a');
SELECT * FROM mtpower.directory('child');
DROP TABLE parent, child;

-- LIKE copies no labels, whatever it includes; nor does CREATE TABLE AS.
CREATE TABLE copy (LIKE t INCLUDING ALL) USING mtpower;
SELECT * FROM mtpower.directory('copy');
DROP TABLE copy;
CREATE TABLE copy USING mtpower AS TABLE t;
SELECT * FROM mtpower.directory('copy');
DROP TABLE copy;

-- Materialized views, unlogged tables; domains, arrays, rows, enums
CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT 1 AS a, 2 AS b;
SELECT mtpower.set_directory('mv', 'b');
REFRESH MATERIALIZED VIEW mv;
SELECT * FROM mtpower.directory('mv');
SELECT mtpower.set_directory('mv', NULL);
SECURITY LABEL FOR mtpower ON MATERIALIZED VIEW mv IS NULL;
SELECT * FROM mtpower.directory('mv');
DROP MATERIALIZED VIEW mv;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE no_pair AS (a int, b json);
CREATE UNLOGGED TABLE types (a positive, b mood, c pair, d int[], e int4range, f bool, g no_pair, h json[], i point, j json, k xid) USING mtpower;
SELECT mtpower.set_directory('types', 'a', 'b', 'd', 'e', 'f');
SELECT columns FROM mtpower.directory('types');
SELECT mtpower.set_directory('types', 'a', 'g');
\echo :SQLSTATE
SELECT mtpower.set_directory('types', 'a', 'c');
\echo :SQLSTATE
SELECT mtpower.set_directory('types', 'h');
SELECT mtpower.set_directory('types', 'i');
SELECT mtpower.set_directory('types', 'j');
SELECT mtpower.set_directory('types', 'k');
-- ALTER TYPE keeps the label, with order or without.
ALTER TABLE types ALTER b TYPE json USING NULL;
SELECT columns FROM mtpower.directory('types');
SELECT mtpower.set_directory('types', 'a', 'b');
DROP TABLE types;

-- What is refused
SELECT mtpower.set_directory('t', 'nonsense');
\echo :SQLSTATE
SELECT mtpower.set_directory('t', 'ctid');
\echo :SQLSTATE
SELECT mtpower.set_directory('t', '........pg.dropped.2........');
\echo :SQLSTATE
SELECT mtpower.set_directory('t', 'a', 'b', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('t', 'a', NULL);
\echo :SQLSTATE
SELECT mtpower.set_directory('t', NULL, NULL);
\echo :SQLSTATE
SELECT mtpower.set_directory('t', VARIADIC NULL);
\echo :SQLSTATE
SELECT mtpower.set_directory('t', VARIADIC '{{a},{b}}');
\echo :SQLSTATE
SELECT mtpower.set_directory('t', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory(NULL, 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('no_such_table', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory(0, 'a');
\echo :SQLSTATE
CREATE INDEX t_a ON t (a);
CREATE SEQUENCE a_sequence;
SELECT mtpower.set_directory('a_view', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('t_a', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('a_sequence');
\echo :SQLSTATE
SELECT mtpower.set_directory('temporary', 'a');
\echo :SQLSTATE
SELECT mtpower.set_directory('pg_class', 'relname');
\echo :SQLSTATE
CREATE ACCESS METHOD regress_mtp_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE third (a int) USING regress_mtp_heap;
SELECT mtpower.set_directory('third', 'a');
\echo :SQLSTATE
SELECT * FROM mtpower.directory('third');
DROP ACCESS METHOD regress_mtp_heap CASCADE;
BEGIN READ ONLY;
SELECT mtpower.set_directory('t', 'a');
\echo :SQLSTATE
ROLLBACK;
-- None of it has changed anything, and for relations without directories there is no answer.
TABLE labels ORDER BY 1, 2;
SELECT r, mtpower.directory(r) FROM unnest(ARRAY['a_view', 't_a', 'a_sequence', 'pg_class', '0']::regclass[]) r;
SELECT mtpower.directory(NULL) IS NULL;

-- Owners do it, nobody else, and nobody else's tables are locked for the attempt.  Everybody may ask.
SET ROLE regress_directory_owner;
CREATE TABLE owned (a int) USING mtpower;
SET ROLE regress_directory_other;
SELECT mtpower.set_directory('owned', 'a');
\echo :SQLSTATE
SECURITY LABEL FOR mtpower ON COLUMN owned.a IS 'directory 1';
\echo :SQLSTATE
SELECT * FROM mtpower.directory('owned');
SET ROLE regress_directory_owner;
SELECT mtpower.set_directory('owned', 'a');
SELECT * FROM mtpower.directory('owned');
RESET ROLE;

-- release() keeps what was said, release_all() removes it, also from what is no mtpower table, as far as its caller may.
CREATE TABLE released (a int) USING mtpower;
SELECT mtpower.set_directory('released', NULL), mtpower.release('released');
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (1) USING mtpower;
SELECT mtpower.set_directory('parted', 'a');
DROP TABLE temporary;
TABLE labels ORDER BY 1, 2;
SET ROLE regress_directory_owner;
SELECT r FROM mtpower.release_all() r ORDER BY r::text COLLATE "C";
RESET ROLE;
TABLE labels ORDER BY 1, 2;
BEGIN;
SELECT r FROM mtpower.release_all() r ORDER BY r::text COLLATE "C";
TABLE labels ORDER BY 1, 2;
ROLLBACK;
TABLE labels ORDER BY 1, 2;
SELECT r FROM mtpower.release_all() r ORDER BY r::text COLLATE "C";
TABLE labels ORDER BY 1, 2;
SELECT mtpower.adopt('part');
SELECT * FROM mtpower.directory('part');

SET client_min_messages = warning;
DROP SCHEMA table_directory CASCADE;
DROP ROLE regress_directory_owner, regress_directory_other;
