-- What is refused when an index is defined, and what is said instead.

-- Uniqueness, also where the table isn't there.
CREATE TABLE opclass_unique (a int, b text);
CREATE UNIQUE INDEX ON opclass_unique USING mtpower_blink (a);
\echo :LAST_ERROR_SQLSTATE
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS opclass_unique_a ON opclass_unique USING mtpower_blink (a);
DO $$ BEGIN CREATE UNIQUE INDEX ON opclass_unique USING mtpower_blink (a); END $$;
-- What the hint says works.
ALTER TABLE opclass_unique ADD PRIMARY KEY (a), ADD UNIQUE (b);
DROP TABLE opclass_unique;

-- citext before mtpower.sync_opclasses(): the default for text is not taken for it.
CREATE EXTENSION citext;
CREATE TABLE opclass_ci (a int, c citext, t text);
CREATE INDEX ON opclass_ci USING mtpower_blink (c);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON opclass_ci USING mtpower_blink (a, t, c DESC);
CREATE INDEX CONCURRENTLY ON opclass_ci USING mtpower_blink (c);
CREATE INDEX ON opclass_ci USING mtpower_blink ((t::citext));
CREATE INDEX ON opclass_ci USING mtpower_blink (a) WHERE c = 'x';
CREATE INDEX ON opclass_ci USING mtpower_blink (a) INCLUDE (c);
CREATE INDEX ON opclass_ci USING btree (c);
CREATE DOMAIN opclass_ci_domain AS citext CHECK (VALUE <> '');
CREATE TABLE opclass_ci_of_domain (c opclass_ci_domain);
CREATE INDEX ON opclass_ci_of_domain USING mtpower_blink (c);
DO $$ BEGIN CREATE INDEX ON opclass_ci USING mtpower_blink (c); END $$;
CREATE SCHEMA opclass_s CREATE TABLE t (c citext) CREATE INDEX ON t USING mtpower_blink (c);
-- Arrays and composites have an operator class of their own.
CREATE TABLE opclass_ci_array (c citext[], r opclass_ci);
CREATE INDEX ON opclass_ci_array USING mtpower_blink (c, r);
SELECT pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid::regclass::text LIKE 'opclass_ci%' ORDER BY indexrelid;

-- Asked for by name: a mirror that is missing is missed, another operator class is taken.
CREATE INDEX ON opclass_ci USING mtpower_blink (c citext_ops);
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX ON opclass_ci USING mtpower_blink (c public.citext_ops);
CREATE INDEX ON opclass_ci USING mtpower_blink (c no_such_ops);
CREATE INDEX opclass_ci_named ON opclass_ci USING mtpower_blink (c text_ops);
CREATE INDEX opclass_ci_pattern ON opclass_ci USING mtpower_blink (c text_pattern_ops);

-- Indexes that are copied or rebuilt keep what they have.
CREATE TABLE opclass_ci_copy (LIKE opclass_ci INCLUDING INDEXES);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'opclass_ci_copy'::regclass ORDER BY 1;
REINDEX INDEX opclass_ci_named;
REINDEX INDEX CONCURRENTLY opclass_ci_named;
DROP TABLE opclass_ci_copy;
DROP INDEX opclass_ci_named;

-- Types without an operator class in btree: core's own words.
CREATE TABLE opclass_none (p point, j json);
CREATE INDEX ON opclass_none USING mtpower_blink (p);
CREATE INDEX ON opclass_none USING mtpower_blink (j);
DROP TABLE opclass_none;

-- Mistakes that are core's to find.
CREATE INDEX ON opclass_nowhere USING mtpower_blink (c);
CREATE INDEX ON opclass_ci USING mtpower_blink (nowhere);
CREATE INDEX ON opclass_ci USING mtpower_blink (c) WHERE nowhere;
CREATE INDEX ON opclass_ci USING mtpower_blink ((random()));
CREATE INDEX ON opclass_ci USING mtpower_blink (xmin);
CREATE INDEX ON opclass_ci USING mtpower_blnk (c);
BEGIN;
CREATE INDEX CONCURRENTLY ON opclass_ci USING mtpower_blink (t);
ROLLBACK;
BEGIN READ ONLY;
CREATE INDEX ON opclass_ci USING mtpower_blink (c);
ROLLBACK;
CREATE ROLE regress_opclass_stranger;
SET ROLE regress_opclass_stranger;
CREATE INDEX ON opclass_ci USING mtpower_blink (c);
RESET ROLE;
DROP ROLE regress_opclass_stranger;

-- Exclusion constraints.
CREATE TABLE opclass_excl (c citext, EXCLUDE USING mtpower_blink (c WITH =));
CREATE TABLE opclass_excl (c citext, t text);
ALTER TABLE opclass_excl ADD EXCLUDE USING mtpower_blink (t WITH =, c WITH =);
ALTER TABLE opclass_excl ADD COLUMN x int, ADD EXCLUDE USING mtpower_blink (t WITH =, (c || 'x') WITH =);
DO $$ BEGIN ALTER TABLE opclass_excl ADD COLUMN y citext, ADD EXCLUDE USING mtpower_blink (y WITH =); EXCEPTION WHEN wrong_object_type THEN RAISE NOTICE '%', SQLSTATE; END $$;
ALTER TABLE opclass_excl ADD COLUMN y int, ADD EXCLUDE USING mtpower_blink ((y + 1) WITH =);
ALTER TABLE opclass_excl ALTER t TYPE citext, ADD EXCLUDE USING mtpower_blink (y WITH =, t WITH =);
ALTER TABLE opclass_excl ALTER c TYPE text, ADD CONSTRAINT opclass_gone EXCLUDE USING mtpower_blink (c WITH =);
ALTER TABLE opclass_excl DROP CONSTRAINT opclass_gone, ALTER c TYPE citext;
DO $$ BEGIN ALTER TABLE opclass_excl ADD CONSTRAINT opclass_gone EXCLUDE USING mtpower_blink (c text_ops WITH =); EXCEPTION WHEN wrong_object_type THEN RAISE NOTICE '%', SQLSTATE; END $$;
ALTER TABLE opclass_excl ADD CONSTRAINT opclass_gone EXCLUDE USING mtpower_blink (c text_ops WITH OPERATOR(pg_catalog.=));
ALTER TABLE opclass_excl ADD COLUMN z citext,
	ADD CONSTRAINT opclass_gone_too EXCLUDE USING mtpower_blink (z text_ops WITH OPERATOR(pg_catalog.=));
ALTER TABLE opclass_excl DROP CONSTRAINT opclass_gone, DROP CONSTRAINT opclass_gone_too, DROP COLUMN z;
ALTER TABLE IF EXISTS opclass_nowhere ADD EXCLUDE USING mtpower_blink (t WITH =);
ALTER TABLE opclass_nowhere ADD EXCLUDE USING mtpower_blink (t WITH =);
ALTER TABLE opclass_excl ADD EXCLUDE USING mtpower_blink (t WITH =);
ALTER TABLE opclass_excl ADD EXCLUDE USING btree (c WITH =);
INSERT INTO opclass_excl VALUES ('A', 'a'), ('B', 'a');
\d opclass_excl
DROP TABLE opclass_excl;

-- Partitions: the parent's index is checked, and what follows from it is not.
CREATE TABLE opclass_part (a int, c citext) PARTITION BY RANGE (a);
CREATE TABLE opclass_part_1 PARTITION OF opclass_part FOR VALUES FROM (0) TO (10);
CREATE INDEX ON opclass_part USING mtpower_blink (c);
CREATE INDEX ON ONLY opclass_part USING mtpower_blink (c);
CREATE INDEX opclass_part_a ON opclass_part USING mtpower_blink (a);
CREATE INDEX opclass_part_c ON opclass_part USING mtpower_blink (c text_ops);
CREATE TABLE opclass_part_2 PARTITION OF opclass_part FOR VALUES FROM (10) TO (20);
CREATE TABLE opclass_part_3 (a int, c citext);
ALTER TABLE opclass_part ATTACH PARTITION opclass_part_3 FOR VALUES FROM (20) TO (30);
SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE i.indrelid::regclass::text LIKE 'opclass_part%' AND a.amname = 'mtpower_blink';
DROP TABLE opclass_part;

-- ALTER COLUMN TYPE defines indexes anew: also in children and typed tables, and for expressions.
CREATE TABLE opclass_alter (a int, t text);
CREATE TABLE opclass_alter_child (b int) INHERITS (opclass_alter);
CREATE INDEX opclass_alter_t ON opclass_alter USING mtpower_blink (t);
ALTER TABLE opclass_alter ALTER t TYPE citext;
DROP INDEX opclass_alter_t;
CREATE INDEX ON opclass_alter_child USING mtpower_blink (a, t);
ALTER TABLE opclass_alter ALTER t TYPE citext;
DROP INDEX opclass_alter_child_a_t_idx;
CREATE INDEX ON opclass_alter USING mtpower_blink (lower(t));
ALTER TABLE opclass_alter ALTER t TYPE citext;
DROP INDEX opclass_alter_lower_idx;
CREATE INDEX opclass_alter_x ON opclass_alter USING mtpower_blink (a, t text_pattern_ops);
CREATE INDEX opclass_alter_b ON opclass_alter USING btree (t);
ALTER TABLE opclass_alter ALTER t TYPE varchar(20);
ALTER TABLE opclass_alter ALTER t TYPE citext;
ALTER TABLE opclass_alter ALTER a TYPE bigint;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'opclass_alter'::regclass ORDER BY 1;
DROP TABLE opclass_alter CASCADE;
CREATE TYPE opclass_row AS (a int, t text);
CREATE TABLE opclass_typed OF opclass_row;
CREATE INDEX ON opclass_typed USING mtpower_blink (t);
ALTER TYPE opclass_row ALTER ATTRIBUTE t TYPE citext CASCADE;
\d opclass_typed
DROP TABLE opclass_typed;
DROP TYPE opclass_row;

-- With the mirror there, all of this is as with btree.
SELECT * FROM mtpower.sync_opclasses();
CREATE INDEX ON opclass_ci USING mtpower_blink (c);
CREATE INDEX ON opclass_ci USING mtpower_blink (c text_ops);
CREATE INDEX ON opclass_ci_of_domain USING mtpower_blink (c);
CREATE TABLE opclass_excl (c citext, EXCLUDE USING mtpower_blink (c WITH =));
INSERT INTO opclass_excl VALUES ('A');
INSERT INTO opclass_excl VALUES ('a');
CREATE TABLE opclass_alter (t text);
CREATE INDEX ON opclass_alter USING mtpower_blink (t);
ALTER TABLE opclass_alter ALTER t TYPE citext;
SELECT indexrelid::regclass, opcname FROM pg_index JOIN pg_opclass c ON c.oid = indclass[0]
	JOIN pg_am a ON a.oid = c.opcmethod
WHERE indrelid IN ('opclass_ci'::regclass, 'opclass_ci_of_domain'::regclass, 'opclass_excl'::regclass, 'opclass_alter'::regclass)
	AND a.amname = 'mtpower_blink' ORDER BY indexrelid::regclass::text COLLATE "C";
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'opclass_ci'::regclass ORDER BY indexrelid;
INSERT INTO opclass_ci SELECT i, 'Word' || i, 'Word' || i FROM generate_series(1, 100) i;
ANALYZE opclass_ci;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT a FROM opclass_ci WHERE c = 'wORD77';
SELECT a FROM opclass_ci WHERE c = 'wORD77';
\set VERBOSITY terse
DROP TABLE opclass_ci, opclass_ci_array, opclass_ci_of_domain, opclass_excl, opclass_alter;
DROP DOMAIN opclass_ci_domain;
-- Mirrors go with their extension, and without CASCADE as long as nobody needs them.
DROP EXTENSION citext;
SELECT * FROM mtpower.sync_opclasses();
