-- Functions of operator classes with wrong arguments or results.  The validator says what is wrong with them, in btree's words, and an
-- index on such a class is refused.  Since PostgreSQL 18, core refuses them when they are added, as it does for its own access methods.
CREATE SCHEMA opclass_signatures;
SET search_path = opclass_signatures;
-- The validator's complaints, in btree's words.
CREATE OPERATOR FAMILY opclass_bad USING mtpower_blink;
CREATE OPERATOR CLASS opclass_bad_ops FOR TYPE int4 USING mtpower_blink FAMILY opclass_bad AS
	OPERATOR 1 <(int4, int4),
	OPERATOR 2 <(int4, int8),
	FUNCTION 1 (int4, int4) int4um(int4),
	FUNCTION 2 (int4, int4) btint4cmp(int4, int4),
	FUNCTION 3 (int4, int8) in_range(int4, int4, int8, bool, bool),
	FUNCTION 4 (int4, int4) btint4cmp(int4, int4);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'opclass_bad_ops';
ALTER OPERATOR FAMILY opclass_bad USING mtpower_blink ADD OPERATOR 6 <(int4, int4);
ALTER OPERATOR FAMILY opclass_bad USING mtpower_blink ADD FUNCTION 6 (int4, int4) btint4cmp(int4, int4);
ALTER OPERATOR FAMILY opclass_bad USING mtpower_blink ADD OPERATOR 3 =(int4, int4) FOR ORDER BY integer_ops;
ALTER OPERATOR FAMILY opclass_bad USING mtpower_blink ADD FUNCTION 5 (int4, int4) btint4cmp(int4, int4);
CREATE OPERATOR CLASS opclass_empty_ops FOR TYPE int8 USING mtpower_blink FAMILY opclass_bad AS STORAGE int8;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'opclass_empty_ops';

-- An operator class without a comparison function cannot carry an index.
CREATE TABLE opclass_incomplete (a int, b bigint);
CREATE INDEX ON opclass_incomplete USING mtpower_blink (a, b opclass_empty_ops);
\echo :LAST_ERROR_SQLSTATE
DROP TABLE opclass_incomplete;
DROP OPERATOR FAMILY opclass_bad USING mtpower_blink CASCADE;

CREATE FUNCTION public.hash_two(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION public.hash_wide(int) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT 1::bigint';
CREATE TABLE t (a int, b text) USING mtpower;
-- Runs commands that should fail, and tells the error.
CREATE FUNCTION told(commands text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	detail text;
	hint text;
BEGIN
	EXECUTE commands;
	RETURN 'was not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', SQLSTATE || ' ' || said, nullif(detail, ''), nullif(hint, ''));
END $$;
\pset format unaligned
\pset tuples_only on
SELECT format('%s, FUNCTION %s', class, function), told(format('CREATE OPERATOR CLASS o FOR TYPE int4 USING %s, FUNCTION %s; CREATE INDEX ON t USING %s (b, a o)', class, function, split_part(class, ' ', 1)))
FROM (VALUES
	('mtpower_blink AS OPERATOR 1 <, OPERATOR 3 =', '1 (int4, int4) int4lt(int4, int4)'),
	('mtpower_blink AS OPERATOR 1 <, OPERATOR 3 =', '1 (int4, int4) int4um(int4)'),
	('mtpower_hash AS OPERATOR 1 =', '1 (int4, int4) int4pl(int4, int4)'),
	('mtpower_hash AS OPERATOR 1 =', '1 (int4, int4) public.hash_two(int, int)'),
	('mtpower_hash AS OPERATOR 1 =', '1 (int4, int4) public.hash_wide(int)')) x(class, function);
\pset format aligned
\pset tuples_only off
DROP FUNCTION public.hash_two, public.hash_wide;
DROP SCHEMA opclass_signatures CASCADE;
