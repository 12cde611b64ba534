# Page directories with the server's own types, operators and catalogs (test/modules/directory.c):
# what a search finds beside the matching rows, on tables with columns that were added, dropped
# and rolled back, with wide and toasted values, dead rows and pruned chains. No comparison
# function sees a row of an aborted transaction with a column of another type.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $dir = MtpFaults::compile('directory');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
autovacuum = off
jit = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION directory_make(regclass, VARIADIC name[]) RETURNS text LANGUAGE c STRICT AS 'directory';
CREATE FUNCTION directory_search(regclass, name[], VARIADIC text[]) RETURNS tid[] LANGUAGE c STRICT AS 'directory';

-- Rows that match and were not found, and whether candidates are in order; false: there is no use of the directory.
CREATE FUNCTION search(rel regclass, cols name[], cond text, keys text[], OUT candidates int, OUT matches int) LANGUAGE plpgsql AS $$
DECLARE
	got tid[] := directory_search(rel, cols, VARIADIC keys);
	missed tid[];
BEGIN
	IF got IS NULL THEN RAISE EXCEPTION 'unusable'; END IF;
	IF got <> ARRAY(SELECT t FROM unnest(got) t ORDER BY t) THEN RAISE EXCEPTION '%: not in order', cond; END IF;
	EXECUTE format('SELECT count(*), array_agg(ctid) FILTER (WHERE NOT found) FROM (SELECT ctid, ctid = ANY ($1) AS found FROM %s WHERE %s) q', rel, cond)
		INTO matches, missed USING got;
	IF missed IS NOT NULL THEN RAISE EXCEPTION '% on %: % not found', cond, cols, missed[1:10]; END IF;
	candidates := cardinality(got);
END $$;

-- Random conditions on leading columns.  At most `spare` candidates a search don't match.
CREATE FUNCTION try(rel regclass, cols name[], n int, spare int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ops text[] := '{<,<=,=,>=,>,"NULL",NOTNULL,BETWEEN}';
	cond text;
	keys text[];
	val text;
	op text;
	typ text;
	found record;
	extra int := 0;
	hits int := 0;
BEGIN
	PERFORM setseed(0.4);
	FOR i IN 1 .. n LOOP
		cond := 'true';
		keys := '{}';
		op := '=';
		FOR c IN 1 .. cardinality(cols) LOOP
			op := ops[1 + floor(random() * 8)];
			IF c < cardinality(cols) AND random() < 0.7 THEN op := '='; END IF;
			typ := (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = rel AND attname = cols[c]);
			FOR edge IN 1 .. CASE op WHEN 'BETWEEN' THEN 2 ELSE 1 END LOOP
				EXECUTE format('SELECT %I::text FROM (SELECT %1$I FROM %s WHERE %1$I IS NOT NULL AND length(%1$I::text) < 500 OFFSET floor(random() * (SELECT count(*) FROM %2$s)) LIMIT 1) q', cols[c], rel) INTO val;
				IF val IS NULL AND op NOT LIKE '%NULL' THEN op := 'NOTNULL'; END IF;
				IF op LIKE '%NULL' THEN
					cond := cond || format(' AND %I IS %s', cols[c], CASE op WHEN 'NULL' THEN 'NULL' ELSE 'NOT NULL' END);
					keys := keys || ARRAY[c::text, op, NULL, NULL];
				ELSIF op = 'BETWEEN' THEN
					cond := cond || format(' AND %I %s %L::%s', cols[c], CASE edge WHEN 1 THEN '>=' ELSE '<=' END, val, typ);
					keys := keys || ARRAY[c::text, CASE edge WHEN 1 THEN '>=' ELSE '<=' END, val, NULL];
				ELSE
					cond := cond || format(' AND %I %s %L::%s', cols[c], op, val, typ);
					keys := keys || ARRAY[c::text, op, val, NULL];
				END IF;
			END LOOP;
			EXIT WHEN random() < 0.3;
		END LOOP;
		found := search(rel, cols, cond, keys);
		IF found.matches > 0 THEN hits := hits + 1; END IF;
		extra := greatest(extra, found.candidates - found.matches);
		IF found.candidates - found.matches > spare THEN RAISE EXCEPTION '% on %: % candidates, % match', cond, cols, found.candidates, found.matches; END IF;
	END LOOP;
	IF hits < n / 4 THEN RAISE EXCEPTION 'only % of % conditions were met', hits, n; END IF;
	RETURN 'good';
END $$;

CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION german (provider = icu, locale = 'de');
CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE TYPE pair AS (a int, b text);
SELECT setseed(0.3);
CREATE TABLE r AS SELECT
	(random() * 60)::int2 AS i2, (random() * 400)::int AS i4, (random() * 1e15)::int8 AS i8, (random() * 100)::numeric(6, 2) AS num, random() * 10 AS f8, (random() * 10)::float4 AS f4,
	md5(i::text) COLLATE "C" AS t_c, substr(md5(i::text), 1, 3) COLLATE german AS t_de, substr(CASE WHEN i % 2 = 0 THEN upper(md5(i::text)) ELSE md5(i::text) END, 1, 3) COLLATE nocase AS t_nc,
	md5(i::text)::uuid AS u, '2020-01-01'::date + (random() * 100)::int AS d, '2020-01-01'::timestamptz + random() * interval '90 days' AS ts, random() < 0.5 AS b,
	ARRAY[(random() * 9)::int, (random() * 9)::int] AS arr, (ARRAY['red', 'green', 'blue'])[1 + (random() * 2)::int]::color AS e, ROW((random() * 9)::int, 'x')::pair AS rec,
	('name' || i % 50)::name AS n, (i % 30)::text::varchar(5) AS vc, (i % 30)::text::char(4) AS bc, decode(md5((i % 90)::text), 'hex') AS by, i::text::"char" AS c
	FROM generate_series(1, 1500) i;
});
foreach my $col (qw(i2 i4 i8 num f8 f4 t_c t_de t_nc u d ts b arr e rec n vc bc by c))
{
	# some values are null; NaN and infinity where there are
	my $odd = $col =~ /^(f8|f4|num)$/ ? ", (2, 'NaN')" . ($col eq 'num' ? '' : ", (3, '-Infinity'), (4, '-0'), (5, '0')") : '';
	my $type = $node->safe_psql('postgres', "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'r'::regclass AND attname = '$col'");
	$node->safe_psql('postgres', "UPDATE r SET $col = q.v::$type FROM (VALUES (0, NULL::text) $odd) q(k, v) WHERE (ctid::text::point)[1]::int % 20 = q.k");
}
$node->safe_psql('postgres', 'VACUUM r');

# The pairs of r: each search leaves at most so many candidates that don't match, but for what is always one.
my $pairs = $node->safe_psql('postgres', "SELECT (pg_relation_size('r') / 8192 + 1) / 2");
foreach my $cols (qw(i2 i4 i8 num f8 f4 t_c t_de t_nc u d ts b arr e n vc bc by c), 'i2, num', 'b, t_de', 'b, i4, num', 'e, i2, t_c, f8', 'd, ts')
{
	is($node->safe_psql('postgres', "SELECT count(directory_make('r', VARIADIC '{$cols}'));
		SELECT try('r', '{$cols}', 150, $pairs * 8)"), "1\ngood", "($cols): a search finds what matches, and little else");
}

# Constants of other types
foreach my $test ([ 'i2', 'int8', '30' ], [ 'i2', 'int8', '30000000000' ], [ 'i4', 'int2', '200' ], [ 'i8', 'int4', '7' ], [ 'i8', 'int4', '2000000000' ], [ 'f4', 'float8', '4.3' ],
	[ 'f8', 'float4', '4.3' ], [ 'd', 'timestamptz', '2020-02-01 12:00' ], [ 'ts', 'date', '2020-02-01' ])
{
	my ($col, $type, $value) = @$test;
	is($node->safe_psql('postgres', "SELECT count(directory_make('r', '$col')); SELECT count(search('r', '{$col}', '$col ' || op || ' ''$value''::$type', ARRAY['1', op, '$value', '$type']))
		FROM unnest('{<,<=,=,>=,>}'::text[]) op"), "1\n5", "$col beside a $type");
}

# What has another order or another meaning is not used.
sub unusable
{
	my ($what, $change, $back) = @_;
	is($node->safe_psql('postgres', "BEGIN; SELECT count(directory_make('a', 'x')); SELECT directory_search('a', '{x}', '1', '=', '5', NULL) IS NULL; $change;
		SELECT directory_search('a', '{x}', '1', '=', '5', NULL) IS NULL; ROLLBACK"), "1\nf\nt", $what);
}
$node->safe_psql('postgres', 'CREATE TABLE a AS SELECT i AS x, i::text AS y FROM generate_series(-500, 500) i');
unusable('int4 -> oid, which keeps the file and changes the order', 'ALTER TABLE a ALTER x TYPE oid');
unusable('another column of this name', 'ALTER TABLE a RENAME x TO z; ALTER TABLE a RENAME y TO x');
$node->safe_psql('postgres', 'ALTER TABLE a ALTER x TYPE text');
unusable('another collation', 'ALTER TABLE a ALTER x TYPE text COLLATE "C"');
$node->safe_psql('postgres', 'ALTER TABLE a ALTER x TYPE text COLLATE german');
unusable('another collation, of the same kind', 'ALTER TABLE a ALTER x TYPE text COLLATE nocase');
is($node->safe_psql('postgres', q{CREATE TABLE j (a json); SELECT directory_make('j', 'a') IS NULL}), 't', 'a type without an order has no directory');

# Columns that came and went.  Rows of rolled back ones stand in the table, and are never read as what they are not.
is($node->safe_psql('postgres', q{
CREATE TABLE h (a int, gone text, b text);
INSERT INTO h SELECT i, repeat('x', i % 40), i % 7 FROM generate_series(1, 500) i;
ALTER TABLE h DROP gone;
BEGIN; ALTER TABLE h ADD c text; INSERT INTO h SELECT i, 1, repeat(chr(1 + i % 120), i % 60) FROM generate_series(1, 300) i; ROLLBACK;
INSERT INTO h SELECT i, i % 7 FROM generate_series(501, 700) i;
ALTER TABLE h ADD c numeric DEFAULT 12.5, ADD d int[] DEFAULT '{1,2}', ADD e text;
INSERT INTO h SELECT i, i % 7, i % 90, ARRAY[i % 3], i FROM generate_series(701, 1200) i;
SELECT split_part(directory_make('h', 'c'), ' ', 4), try('h', '{c}', 100, 300 + 100);
SELECT split_part(directory_make('h', 'd', 'c'), ' ', 4), try('h', '{d,c}', 100, 300 + 100);
SELECT split_part(directory_make('h', 'e'), ' ', 4), try('h', '{e}', 100, 300 + 100);
SELECT split_part(directory_make('h', 'b', 'a'), ' ', 4), try('h', '{b,a}', 100, 300 + 100);
}), "300|good\n" x 3 . '300|good', 'columns that were dropped, added, and added in vain');

# One's own rows, and those of a savepoint that was rolled back.
is($node->safe_psql('postgres', q{
CREATE TABLE own (a int);
BEGIN;
INSERT INTO own SELECT generate_series(1, 100);
SAVEPOINT s; ALTER TABLE own ADD b text; INSERT INTO own SELECT i, i FROM generate_series(1, 50) i; ROLLBACK TO s;
ALTER TABLE own ADD b numeric DEFAULT 3;
SELECT directory_make('own', 'b') ~ '^1 100 0 50 ', (search('own', '{b}', 'b = 3', '{1,=,3,NULL}')).*;
COMMIT;
}), 't|150|100', "one's own rows are sorted, those rolled back are not");

# Wide and toasted values are always candidates, and are not read: their TOAST rows may be gone.
is($node->safe_psql('postgres', q{
CREATE TABLE w (a int, b text COLLATE "C");
ALTER TABLE w ALTER b SET STORAGE EXTERNAL;
INSERT INTO w SELECT i, repeat(chr(97 + i % 26), CASE i % 4 WHEN 0 THEN 5000 WHEN 1 THEN 252 WHEN 2 THEN 253 ELSE 3 END) FROM generate_series(1, 400) i;
ALTER TABLE w ALTER b SET STORAGE MAIN;
INSERT INTO w SELECT i, repeat('q', 4000) FROM generate_series(1, 100) i;
DELETE FROM w WHERE a % 8 = 0;
VACUUM (INDEX_CLEANUP off) w;
SELECT directory_make('w', 'b') ~ '^\d+ 200 0 238 ', try('w', '{b}', 100, 100000);
SELECT directory_make('w', 'a', 'b') IS NOT NULL, try('w', '{a,b}', 100, 100000);
}), "t|good\nt|good", 'wide, compressed and external values');

# HOT chains and dead rows: all versions that stand there have entries, and none of what does not.
is($node->safe_psql('postgres', q{
CREATE TABLE v (a int, b int) WITH (fillfactor = 50);
INSERT INTO v SELECT i, 0 FROM generate_series(1, 1000) i;
UPDATE v SET b = b + 1;
SELECT split_part(directory_make('v', 'b'), ' ', 2), (search('v', '{b}', 'b = 1', '{1,=,1,NULL}')).*, (search('v', '{b}', 'b = 0', '{1,=,0,NULL}')).*;
UPDATE v SET b = b + 1;
VACUUM v;
DELETE FROM v WHERE a % 2 = 0;
SELECT split_part(directory_make('v', 'b'), ' ', 2), (search('v', '{b}', 'b = 2', '{1,=,2,NULL}')).*, (search('v', '{b}', 'b < 2', '{1,<,2,NULL}')).*;
VACUUM v;
SELECT split_part(directory_make('v', 'b'), ' ', 2), (search('v', '{b}', 'b = 2', '{1,=,2,NULL}')).*;
}), "2000|1000|1000|1000|0\n1000|1000|500|0|0\n500|500|500", 'versions of rows');

# A comparison function that raises
is($node->safe_psql('postgres', q{
CREATE TYPE bad; CREATE FUNCTION bad_in(cstring) RETURNS bad LANGUAGE internal IMMUTABLE STRICT AS 'int4in'; CREATE FUNCTION bad_out(bad) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE bad (INPUT = bad_in, OUTPUT = bad_out, LIKE = int4);
CREATE CAST (bad AS int) WITHOUT FUNCTION;
CREATE FUNCTION bad_cmp(bad, bad) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$BEGIN IF $1::int = 77 OR $2::int = 77 THEN RAISE 'a bad value'; END IF; RETURN btint4cmp($1::int, $2::int); END$$;
CREATE FUNCTION bad_op(bad, bad) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS 'SELECT bad_cmp($1, $2) < 0';
CREATE FUNCTION bad_eq(bad, bad) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1::int = $2::int';
CREATE OPERATOR < (LEFTARG = bad, RIGHTARG = bad, FUNCTION = bad_op);
CREATE OPERATOR = (LEFTARG = bad, RIGHTARG = bad, FUNCTION = bad_eq);
CREATE OPERATOR CLASS bad_ops DEFAULT FOR TYPE bad USING btree AS OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 bad_cmp(bad, bad);
CREATE TABLE bad_t AS SELECT i::text::bad AS x FROM generate_series(1, 50) i;
SELECT directory_make('bad_t', 'x') IS NOT NULL, (search('bad_t', '{x}', 'x = ''20''', '{1,=,20,NULL}')).matches;
INSERT INTO bad_t SELECT i::text::bad FROM generate_series(51, 90) i;
}), 't|1', 'a type of its own');
is($node->safe_psql('postgres', q{
CREATE FUNCTION bad_down(bad, bad) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$BEGIN RETURN btint4cmp($2::int, $1::int); END$$;
CREATE TABLE good_t AS SELECT i::text::bad AS x FROM generate_series(1, 50) i;
BEGIN;
SELECT directory_make('good_t', 'x') IS NOT NULL, directory_search('good_t', '{x}', '1', '=', '20', NULL) IS NULL;
DROP OPERATOR CLASS bad_ops USING btree;
CREATE OPERATOR CLASS bad_ops DEFAULT FOR TYPE bad USING btree FAMILY bad_ops AS OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 bad_down(bad, bad);
SELECT directory_search('good_t', '{x}', '1', '=', '20', NULL) IS NULL;
ROLLBACK;
}), "t|f\nt", 'an operator class that has another comparison function now');
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT directory_make('bad_t', 'x')});
like($err, qr/a bad value/, 'a comparison function that raises');
is($node->safe_psql('postgres', q{SELECT directory_make('r', 'i4') IS NOT NULL, (search('r', '{i4}', 'i4 < 9', '{1,<,9,NULL}')).matches > 0}), 't|t', 'afterwards all is well');

$node->stop;
done_testing();
