-- mtpower.sync_opclasses(): mirrors of operator classes that are not built in.

-- A type of a user, in a schema and under names that need quoting.
CREATE ROLE regress_opclass_owner;
CREATE ROLE regress_opclass_other;
CREATE SCHEMA "Opclass ""S" AUTHORIZATION regress_opclass_owner;
SET search_path = "Opclass ""S", public;
SET client_min_messages = warning;
CREATE TYPE "My Int";
CREATE FUNCTION my_in(cstring) RETURNS "My Int" LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION my_out("My Int") RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE "My Int" (INPUT = my_in, OUTPUT = my_out, LIKE = int4);
CREATE FUNCTION my_lt("My Int", "My Int") RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
CREATE FUNCTION my_le("My Int", "My Int") RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4le';
CREATE FUNCTION my_eq("My Int", "My Int") RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
CREATE FUNCTION my_ge("My Int", "My Int") RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4ge';
CREATE FUNCTION my_gt("My Int", "My Int") RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
CREATE FUNCTION my_cmp("My Int", "My Int") RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE OPERATOR < (LEFTARG = "My Int", RIGHTARG = "My Int", FUNCTION = my_lt);
CREATE OPERATOR <= (LEFTARG = "My Int", RIGHTARG = "My Int", FUNCTION = my_le);
CREATE OPERATOR = (LEFTARG = "My Int", RIGHTARG = "My Int", FUNCTION = my_eq, RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR >= (LEFTARG = "My Int", RIGHTARG = "My Int", FUNCTION = my_ge);
CREATE OPERATOR > (LEFTARG = "My Int", RIGHTARG = "My Int", FUNCTION = my_gt);
CREATE OPERATOR FAMILY "my ""family" USING btree;
CREATE OPERATOR CLASS "my ""ops" DEFAULT FOR TYPE "My Int" USING btree FAMILY "my ""family" AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 my_cmp("My Int", "My Int"),
	FUNCTION 2 btint4sortsupport(internal), FUNCTION 4 btequalimage(oid);
ALTER OPERATOR FAMILY "my ""family" USING btree OWNER TO regress_opclass_other;
ALTER OPERATOR CLASS "my ""ops" USING btree OWNER TO regress_opclass_owner;
RESET client_min_messages;
RESET search_path;

CREATE TABLE opclass_mine (k "Opclass ""S"."My Int");
INSERT INTO opclass_mine SELECT i::text::"Opclass ""S"."My Int" FROM generate_series(1, 100) i;
CREATE INDEX ON opclass_mine USING mtpower_blink (k);

-- Superusers only.
SET ROLE regress_opclass_owner;
SELECT * FROM mtpower.sync_opclasses();
RESET ROLE;
GRANT EXECUTE ON FUNCTION mtpower.sync_opclasses() TO regress_opclass_owner;
SET ROLE regress_opclass_owner;
SELECT * FROM mtpower.sync_opclasses();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION mtpower.sync_opclasses() FROM regress_opclass_owner;
BEGIN READ ONLY;
SELECT * FROM mtpower.sync_opclasses();
ROLLBACK;

-- Event triggers see what it does.
CREATE FUNCTION opclass_seen() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
		RAISE INFO '% %', r.command_tag, coalesce(r.object_identity, '');
	END LOOP;
END $$;
CREATE EVENT TRIGGER opclass_seen ON ddl_command_end EXECUTE FUNCTION opclass_seen();
SELECT * FROM mtpower.sync_opclasses();
DROP EVENT TRIGGER opclass_seen;
DROP FUNCTION opclass_seen();

-- A second run has nothing to do.
SELECT * FROM mtpower.sync_opclasses();

-- Its schema and owner are the original's; it is nobody's member.
SELECT c.opcname, c.opcnamespace::regnamespace, c.opcowner::regrole, c.opcdefault, f.opfname, f.opfnamespace::regnamespace,
	f.opfowner::regrole, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily JOIN pg_am a ON a.oid = c.opcmethod
WHERE a.amname = 'mtpower_blink' AND c.oid >= 16384 AND c.opcnamespace <> 'pg_catalog'::regnamespace;
SELECT count(*) AS members FROM pg_depend d JOIN pg_opclass c ON d.classid = 'pg_opclass'::regclass AND d.objid = c.oid
WHERE d.deptype = 'e' AND c.opcnamespace = '"Opclass ""S"'::regnamespace;
SELECT count(*) AS members FROM pg_depend d JOIN pg_opfamily f ON d.classid = 'pg_opfamily'::regclass AND d.objid = f.oid
WHERE d.deptype = 'e' AND f.opfnamespace = '"Opclass ""S"'::regnamespace;

-- What has no mirror yet, of all operator families: members, compared by operator or function.
CREATE TEMP VIEW opclass_missing AS
WITH ours AS (SELECT oid FROM pg_am WHERE amname = 'mtpower_blink')
SELECT f.opfname, o.amopopr::regoperator::text AS member
FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
WHERE o.amopmethod = 403 AND NOT EXISTS (
	SELECT FROM pg_amop m JOIN pg_opfamily mf ON mf.oid = m.amopfamily WHERE m.amopmethod IN (TABLE ours)
	AND mf.opfname = f.opfname AND m.amopopr = o.amopopr AND m.amopstrategy = o.amopstrategy)
UNION ALL
SELECT f.opfname, p.amprocnum || ' ' || p.amproc::regprocedure
FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
WHERE f.opfmethod = 403 AND NOT EXISTS (
	SELECT FROM pg_amproc m JOIN pg_opfamily mf ON mf.oid = m.amprocfamily WHERE mf.opfmethod IN (TABLE ours)
	AND mf.opfname = f.opfname AND m.amproc = p.amproc AND m.amprocnum = p.amprocnum
	AND m.amproclefttype = p.amproclefttype AND m.amprocrighttype = p.amprocrighttype);
SELECT * FROM opclass_missing;

-- It serves.
CREATE INDEX ON opclass_mine USING mtpower_blink (k);
ANALYZE opclass_mine;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET search_path = "Opclass ""S", public;
EXPLAIN (COSTS OFF) SELECT * FROM opclass_mine WHERE k = '77';
SELECT * FROM opclass_mine WHERE k = '77';
EXPLAIN (COSTS OFF) SELECT * FROM opclass_mine ORDER BY k DESC LIMIT 1;
SELECT * FROM opclass_mine ORDER BY k DESC LIMIT 1;
RESET enable_seqscan;

-- Members that come later: across types, into a family of ours and into one that is built in.
CREATE FUNCTION my_eq("My Int", int) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
CREATE FUNCTION my_cmp("My Int", int) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE OPERATOR = (LEFTARG = "My Int", RIGHTARG = int, FUNCTION = my_eq);
ALTER OPERATOR FAMILY "my ""family" USING btree ADD
	OPERATOR 3 = ("My Int", int), FUNCTION 1 ("My Int", int) my_cmp("My Int", int);
ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 3 = ("My Int", int);
SELECT * FROM opclass_missing;
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM opclass_missing;
ALTER OPERATOR FAMILY integer_ops USING btree DROP OPERATOR 3 ("My Int", int);
ALTER OPERATOR FAMILY integer_ops USING mtpower_blink DROP OPERATOR 3 ("My Int", int);

-- An operator class in a family that is built in; one beside the default; one in pg_catalog, whose mirror must not
-- lie there since pg_dump would not see it.
CREATE OPERATOR CLASS in_builtin_ops FOR TYPE "My Int" USING btree FAMILY integer_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 my_cmp("My Int", "My Int");
CREATE OPERATOR CLASS reverse_ops FOR TYPE "My Int" USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 my_cmp("My Int", "My Int");
CREATE OPERATOR CLASS pg_catalog.opclass_catalog_ops FOR TYPE "My Int" USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 my_cmp("My Int", "My Int");
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
SELECT count(*) AS strangers_in_pg_catalog
FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
WHERE a.amname = 'mtpower_blink' AND c.opcnamespace = 'pg_catalog'::regnamespace AND NOT EXISTS (
	SELECT FROM pg_depend d WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e');
CREATE INDEX ON opclass_mine USING mtpower_blink (k reverse_ops);
CREATE INDEX ON opclass_mine USING mtpower_blink (k in_builtin_ops);
CREATE INDEX ON opclass_mine USING mtpower_blink (k mtpower.opclass_catalog_ops);
CREATE INDEX ON opclass_mine USING mtpower_blink (k opclass_catalog_ops);

-- A mirror written by hand, under another name: it counts, and gets what it lacks.
DROP OPERATOR FAMILY "my ""family" USING mtpower_blink CASCADE;
CREATE OPERATOR CLASS public.opclass_by_hand DEFAULT FOR TYPE "My Int" USING mtpower_blink AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 ("My Int", "My Int") my_cmp("My Int", "My Int");
CREATE INDEX opclass_hand_index ON opclass_mine USING mtpower_blink (k);
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
SELECT pg_get_indexdef('opclass_hand_index'::regclass);

-- One that sorts in another way is reported, and nothing is mixed into it.
DROP OPERATOR FAMILY public.opclass_by_hand USING mtpower_blink CASCADE;
CREATE FUNCTION my_other_cmp("My Int", "My Int") RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE OPERATOR CLASS public.opclass_by_hand DEFAULT FOR TYPE "My Int" USING mtpower_blink AS
	OPERATOR 1 <, OPERATOR 2 <=, FUNCTION 1 ("My Int", "My Int") my_other_cmp("My Int", "My Int");
SELECT * FROM mtpower.sync_opclasses();
CREATE INDEX ON opclass_mine USING mtpower_blink (k);
SELECT count(*) AS members FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily WHERE f.opfname = 'opclass_by_hand';
DROP OPERATOR FAMILY public.opclass_by_hand USING mtpower_blink CASCADE;

-- Dropping the type takes the mirrors along and what rests on them, nothing else.  The family stays, empty, until the
-- next run.
SELECT * FROM mtpower.sync_opclasses();
CREATE INDEX opclass_last ON opclass_mine USING mtpower_blink (k);
\set VERBOSITY terse
SET client_min_messages = warning;
DROP TYPE "My Int" CASCADE;
RESET client_min_messages;
\d opclass_mine
SELECT * FROM mtpower.sync_opclasses();
DROP OPERATOR FAMILY "my ""family" USING btree;
DROP OPERATOR FAMILY reverse_ops USING btree;
DROP OPERATOR FAMILY pg_catalog.opclass_catalog_ops USING btree;
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
RESET search_path;
SELECT count(*) FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
WHERE a.amname = 'mtpower_blink' AND f.opfnamespace <> 'pg_catalog'::regnamespace;
SELECT extname FROM pg_extension WHERE extname = 'mtpower';
DROP TABLE opclass_mine;
DROP SCHEMA "Opclass ""S" CASCADE;

-- Temporary ones go as temporary objects do.
CREATE OPERATOR CLASS pg_temp.opclass_temp_ops FOR TYPE int USING btree AS
	OPERATOR 1 > (int, int), OPERATOR 2 >= (int, int), OPERATOR 3 = (int, int), OPERATOR 4 <= (int, int),
	OPERATOR 5 < (int, int), FUNCTION 1 btint4cmp(int, int);
SELECT opclass ~ '^pg_temp' AS temporary, action FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
DISCARD TEMP;
SELECT * FROM mtpower.sync_opclasses();
SELECT count(*) FROM pg_opclass WHERE opcname = 'opclass_temp_ops';

-- What is new in core after pg_upgrade has no mirror: it gets one as a member of the extension.
ALTER EXTENSION mtpower DROP OPERATOR CLASS pg_catalog.uuid_ops USING mtpower_blink;
ALTER EXTENSION mtpower DROP OPERATOR FAMILY pg_catalog.uuid_ops USING mtpower_blink;
DROP OPERATOR FAMILY pg_catalog.uuid_ops USING mtpower_blink CASCADE;
ALTER EXTENSION mtpower DROP OPERATOR CLASS pg_catalog.int2_ops USING mtpower_blink;
DROP OPERATOR CLASS pg_catalog.int2_ops USING mtpower_blink;
ALTER OPERATOR FAMILY pg_catalog.float_ops USING mtpower_blink DROP OPERATOR 1 (float4, float8);
CREATE TEMP TABLE opclass_upgraded (u uuid, i int2);
CREATE INDEX ON opclass_upgraded USING mtpower_blink (u);
CREATE INDEX ON opclass_upgraded USING mtpower_blink (i);
SELECT * FROM mtpower.sync_opclasses();
SELECT * FROM mtpower.sync_opclasses();
CREATE INDEX ON opclass_upgraded USING mtpower_blink (u, i);
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'mtpower')
	AND pg_describe_object(classid, objid, 0) ~ 'int2_ops|uuid_ops' ORDER BY 1;
DROP TABLE opclass_upgraded;

DROP ROLE regress_opclass_owner, regress_opclass_other;
