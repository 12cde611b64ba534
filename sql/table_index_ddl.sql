-- mtpower.index_ddl(): the commands that take an index to mtpower's access method and back.
SET client_min_messages = warning;
CREATE SCHEMA table_ddl;
CREATE SCHEMA "Table ddl's";
SET search_path = table_ddl;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
RESET client_min_messages;
\set SHOW_CONTEXT never

-- What an index is, and what hangs on it.
CREATE FUNCTION describe(index regclass) RETURNS TABLE (item text) LANGUAGE sql AS $$
SELECT pg_get_indexdef(index)
UNION ALL SELECT 'comment: ' || obj_description(index, 'pg_class') WHERE obj_description(index, 'pg_class') IS NOT NULL
UNION ALL SELECT 'clustered' FROM pg_index WHERE indexrelid = index AND indisclustered
UNION ALL SELECT 'statistics of ' || attname || ': ' || attstattarget FROM pg_attribute WHERE attrelid = index AND attstattarget >= 0
UNION ALL SELECT 'depends on ' || e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
          WHERE d.objid = index AND d.deptype = 'x'
$$;

CREATE TABLE t (a int, b text, c text COLLATE "C", d timestamptz, n name, e text[]);
INSERT INTO t SELECT g, 'B' || g, 'c' || g, now(), 'n' || g, ARRAY['x', g::text] FROM generate_series(1, 100) g;
CREATE INDEX simple ON t (a);
SELECT * FROM mtpower.index_ddl('simple', 'mtpower_blink');
SELECT * FROM mtpower.index_ddl('simple', 'mtpower_blink') \gexec
SELECT * FROM describe('simple');
ALTER TABLE t CLUSTER ON simple;
SELECT * FROM mtpower.index_ddl('simple', 'btree') \gexec
SELECT * FROM describe('simple');

-- Everything that an index can have.
CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
CREATE INDEX "Every ""thing" ON t (a DESC NULLS LAST, (twice(a)), lower(b) COLLATE "C" text_pattern_ops, c COLLATE "POSIX" NULLS FIRST, d DESC, n, e)
    INCLUDE (b, d) WITH (fillfactor = 70, deduplicate_items = off)
    WHERE a > 10 AND b <> 'it''s' AND twice(a) < 1000;
COMMENT ON INDEX "Every ""thing" IS 'it''s a \ comment';
ALTER INDEX "Every ""thing" ALTER COLUMN 2 SET STATISTICS 77;
ALTER INDEX "Every ""thing" DEPENDS ON EXTENSION citext;
SELECT * FROM describe('"Every ""thing"');
SELECT * FROM mtpower.index_ddl('"Every ""thing"', 'mtpower_blink');
-- The commands mean the same whatever the search path.
SET search_path = pg_catalog;
SELECT * FROM mtpower.index_ddl('table_ddl."Every ""thing"', 'mtpower_blink') \gexec
SET search_path = table_ddl;
SELECT * FROM describe('"Every ""thing"');
SELECT * FROM mtpower.index_ddl('"Every ""thing"', 'btree') \gexec
SELECT * FROM describe('"Every ""thing"');
DROP INDEX "Every ""thing";

-- Names that need quotes, a name that is as long as names can be, one that is taken.
CREATE TABLE "Table ddl's"."Ta""ble" ("Col umn" int);
CREATE INDEX "I n" ON "Table ddl's"."Ta""ble" ("Col umn");
SELECT * FROM mtpower.index_ddl('"Table ddl''s"."I n"', 'mtpower_blink') \gexec
SELECT * FROM describe('"Table ddl''s"."I n"');
CREATE INDEX i23456789_123456789_123456789_123456789_123456789_123456789_123 ON t (a);
CREATE TABLE simple_new ();
SELECT * FROM mtpower.index_ddl('i23456789_123456789_123456789_123456789_123456789_123456789_123', 'mtpower_blink');
SELECT * FROM mtpower.index_ddl('simple', 'mtpower_blink') LIMIT 1;

-- On tables of mtpower, materialized views, temporary tables and single partitions.
CREATE TABLE m (a int) USING mtpower;
CREATE MATERIALIZED VIEW mv AS SELECT a FROM t;
CREATE TEMP TABLE tmp (a int);
CREATE TABLE parted (a int) PARTITION BY RANGE (a);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE INDEX m_a ON m USING mtpower_blink (a);
CREATE INDEX mv_a ON mv (a);
CREATE INDEX tmp_a ON tmp (a);
CREATE INDEX part_a ON part (a);
SELECT * FROM mtpower.index_ddl('m_a', 'btree') \gexec
SELECT * FROM mtpower.index_ddl('mv_a', 'mtpower_blink') \gexec
SELECT * FROM mtpower.index_ddl('tmp_a', 'mtpower_blink') \gexec
SELECT * FROM mtpower.index_ddl('part_a', 'mtpower_blink') \gexec
SELECT * FROM describe('m_a') UNION ALL SELECT * FROM describe('mv_a') UNION ALL SELECT * FROM describe('part_a');

-- A tablespace goes along.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_mtp_space LOCATION '';
CREATE INDEX spaced ON t (a) TABLESPACE regress_mtp_space;
SELECT * FROM mtpower.index_ddl('spaced', 'mtpower_blink') \gexec
SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE c.oid = 'spaced'::regclass;
DROP INDEX spaced;
DROP TABLESPACE regress_mtp_space;

-- Operator classes of extensions have to be mirrored first.
CREATE TABLE ci (a public.citext);
CREATE INDEX ci_a ON ci (a);
CREATE INDEX ci_text ON ci ((a::text));
SELECT * FROM mtpower.index_ddl('ci_a', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('ci_text', 'mtpower_blink') LIMIT 1;
SELECT count(*) > 0 AS mirrored FROM mtpower.sync_opclasses() WHERE opclass LIKE '%citext_ops%';
CREATE INDEX ci_pattern ON ci (a public.citext_pattern_ops DESC);
SELECT * FROM mtpower.index_ddl('ci_a', 'mtpower_blink') \gexec
SELECT * FROM mtpower.index_ddl('ci_pattern', 'mtpower_blink') \gexec
SELECT * FROM describe('ci_a') UNION ALL SELECT * FROM describe('ci_pattern');
SELECT * FROM mtpower.index_ddl('ci_pattern', 'btree') \gexec
SELECT * FROM describe('ci_pattern');

-- All of them, as the README shows it.
SET client_min_messages = warning;
SELECT c.cmd FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam,
       LATERAL mtpower.index_ddl(i.indexrelid, 'btree') WITH ORDINALITY c(cmd, n)
WHERE a.amname = 'mtpower_blink' AND x.relkind = 'i' AND NOT x.relispartition AND i.indisvalid
ORDER BY x.oid, c.n \gexec
RESET client_min_messages;
SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'mtpower_blink';

-- What can't be moved.
CREATE TABLE u (a int PRIMARY KEY, b int UNIQUE, r int4range, EXCLUDE USING gist (r WITH &&), EXCLUDE USING btree (b WITH =));
CREATE UNIQUE INDEX u_unique ON u (a, b);
CREATE INDEX u_hash ON u USING hash (a);
CREATE INDEX u_brin ON u USING brin (a);
CREATE INDEX parted_a ON parted (a);
SELECT * FROM mtpower.index_ddl('u_pkey', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('u_b_excl', 'mtpower_blink');
\echo :SQLSTATE
CREATE TABLE x (a int, EXCLUDE USING mtpower_blink (a WITH =));
SELECT * FROM mtpower.index_ddl('x_a_excl', 'btree');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('u_unique', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('u_hash', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('u_brin', 'btree');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('parted_a', 'mtpower_blink');
\echo :SQLSTATE
CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (100) TO (200);
SELECT * FROM mtpower.index_ddl('part2_a_idx', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('u', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('simple', 'btree');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('simple', 'hash');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('simple', 'heap');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('simple', 'no_such_method');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('pg_class_tblspc_relfilenode_index', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl('no_such_index', 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl(0, 'mtpower_blink');
\echo :SQLSTATE
SELECT * FROM mtpower.index_ddl(NULL, 'mtpower_blink');
INSERT INTO u SELECT g, g FROM generate_series(1, 3) g;
CREATE INDEX CONCURRENTLY u_invalid ON u ((1 / (a - 2)));
SELECT * FROM mtpower.index_ddl('u_invalid', 'mtpower_blink');
\echo :SQLSTATE

SET client_min_messages = warning;
DROP SCHEMA table_ddl, "Table ddl's" CASCADE;
DROP EXTENSION citext CASCADE;
