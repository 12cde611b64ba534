# Directory scans of tables whose pages have page directories (test/modules/pairs.c builds them).
# Each answer is compared with the sequential scan's, row by row and in order: after every way in
# which pages change, under snapshots from before and after, in cursors both ways, and for rows
# that change while they are looked for.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpLoad;

my $dir = MtpFaults::compile('pairs');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 32MB
mtpower.workers = 0
autovacuum = off
jit = off
max_prepared_transactions = 4
# Nobody pins a page that VACUUM wants.
bgwriter_lru_maxpages = 0
});
$node->start;
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{
CREATE EXTENSION mtpower;
CREATE FUNCTION pairs_build(regclass, int, int, name[]) RETURNS bigint LANGUAGE c AS 'pairs';
CREATE FUNCTION pairs_have(regclass) RETURNS bigint LANGUAGE c AS 'pairs';

-- The rows of a query in their order, as one text
CREATE FUNCTION rows(query text, scan bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows text;
BEGIN
	PERFORM set_config('mtpower.enable_directoryscan', scan::text, true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE format('SELECT count(*) || '': '' || coalesce(string_agg(q::text, '',''), '''') FROM (%s) q', query) INTO rows;
	RETURN rows;
END $$;
-- What is wrong with a query's answer, if anything is
CREATE FUNCTION wrong(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE got text := rows(query, true); want text := rows(query, false);
BEGIN
	RETURN CASE WHEN got = want THEN '' ELSE format('%s: %s instead of %s; ', query, left(got, 300), left(want, 300)) END;
END $$;
-- How a query's pages were read
CREATE FUNCTION pages(query text, OUT named int, OUT skipped int, OUT scanned int) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	SELECT (jsonb_path_query_array(plan, '$.**."Pages by Directory"') -> 0)::int, (jsonb_path_query_array(plan, '$.**."Pages Skipped"') -> 0)::int,
		(jsonb_path_query_array(plan, '$.**."Pages Scanned"') -> 0)::int INTO named, skipped, scanned;
END $$;
-- A table's directory columns, and directories of all its pages
CREATE FUNCTION ready(tab regclass, VARIADIC cols name[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mtpower.set_directory(tab, VARIADIC cols);
	PERFORM pairs_build(tab, 0, 2147483647, cols);
	RETURN CASE WHEN pairs_have(tab) >= pg_relation_size(tab) / 16384 THEN 'ready' END;
END $$;
CREATE FUNCTION skew() RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (1, 41, 1, ''); RETURN 'nothing'; EXCEPTION WHEN serialization_failure THEN RETURN SQLERRM; END $$;
-- A random condition on a column
CREATE FUNCTION condition(tab regclass, col name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ops text[] := '{<,<=,=,>=,>,"NULL",NOTNULL,BETWEEN,IN}';
	typ text := (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = tab AND attname = col);
	op text; vals text[];
BEGIN
	op := ops[1 + floor(random() * CASE WHEN typ LIKE '%[]' THEN 8 ELSE 9 END)];
	EXECUTE format('SELECT array_agg(v ORDER BY random()) FROM (SELECT %1$I::text AS v FROM %2$s WHERE length(%1$I::text) < 500 OFFSET floor(random() * 1000) LIMIT %3$s) q', col, tab,
		1 + floor(random() * random() * 80)) INTO vals;
	RETURN CASE op WHEN 'NULL' THEN format('%I IS NULL', col) WHEN 'NOTNULL' THEN format('%I IS NOT NULL', col)
		WHEN 'BETWEEN' THEN format('%I BETWEEN %L::%s AND %L::%3$s', col, vals[1], typ, vals[cardinality(vals)])
		WHEN 'IN' THEN format('%I = ANY (%L::%s[])', col, vals::text, typ) ELSE format('%I %s %L::%s', col, op, vals[1], typ) END;
END $$;
-- Random conditions on one of the columns, or some of them
CREATE FUNCTION try(tab regclass, cols name[], n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE cond text; bad text := '';
BEGIN
	FOR i IN 1 .. n LOOP
		cond := condition(tab, cols[1 + floor(random() * cardinality(cols))]);
		WHILE cardinality(cols) > 1 AND random() < 0.7 LOOP
			cond := cond || ' AND ' || condition(tab, cols[1 + floor(random() * cardinality(cols))]);
		END LOOP;
		bad := bad || wrong(format('SELECT ctid, * FROM %s WHERE %s', tab, cond));
	END LOOP;
	RETURN bad;
END $$;
});

# ---------- types and conditions ----------

sql(q{
CREATE COLLATION german (provider = icu, locale = 'de');
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE TYPE couple AS (x int, y text);
CREATE DOMAIN amount AS numeric CHECK (VALUE < 1e9);

-- A type whose order is the other way round
CREATE TYPE down; CREATE FUNCTION down_in(cstring) RETURNS down LANGUAGE internal IMMUTABLE STRICT AS 'int4in'; CREATE FUNCTION down_out(down) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE down (INPUT = down_in, OUTPUT = down_out, LIKE = int4);
CREATE CAST (down AS int) WITHOUT FUNCTION; CREATE CAST (int AS down) WITHOUT FUNCTION;
CREATE FUNCTION down_cmp(down, down) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN btint4cmp($2::int, $1::int); END';
SELECT format('CREATE FUNCTION down_%s(down, down) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$BEGIN RETURN $2::int %s $1::int; END$$;
	CREATE OPERATOR %2$s (LEFTARG = down, RIGHTARG = down, FUNCTION = down_%1$s)', n, o) FROM (VALUES ('lt', '<'), ('le', '<='), ('eq', '='), ('ge', '>='), ('gt', '>')) v(n, o) \gexec
CREATE OPERATOR CLASS down_ops DEFAULT FOR TYPE down USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 down_cmp(down, down);

CREATE TABLE types (i2 int2, i4 int, i8 bigint, o oid, f float8, f4 float4, d date, ts timestamptz, u uuid, b bytea, tc text COLLATE "C", td text, vc varchar(20), nm name, n numeric, bo bool,
	iv interval, a int[], tg text COLLATE german, tn text COLLATE nocase, bc char(6) COLLATE german, e color, r couple, rg int4range, ip inet, bi bit(9), tp text COLLATE "C", am amount, dn down)
	USING mtpower WITH (fillfactor = 80);
INSERT INTO types SELECT g % 700 - 350, (hashint4(g) % 100000), hashint8(g), g * 3, CASE WHEN g % 50 = 0 THEN 'NaN' WHEN g % 51 = 0 THEN '-0' ELSE sin(g) * 1000 END, cos(g), '2000-01-01'::date + g % 900,
	'2000-01-01'::timestamptz + g * '1 hour'::interval, md5(g::text)::uuid, decode(md5(g::text), 'hex'), repeat(md5((g % 500)::text), 1 + (g % 100 = 0)::int * 20), md5(g::text), g::text, 'n' || g % 333,
	CASE WHEN g % 77 = 0 THEN 'NaN' ELSE g / 7.0 END, g % 3 = 0, g * '1 minute'::interval, ARRAY[g % 20, g], translate(md5((g / 2)::text), '012345', 'äÄßzZé'), CASE WHEN g % 2 = 0 THEN upper(md5((g % 900)::text)) ELSE md5((g % 900)::text) END,
	substr(md5(g::text), 1, g % 6), (ARRAY['red', 'green', 'blue'])[1 + g % 3]::color, ROW(g % 40, CASE WHEN g % 5 > 0 THEN md5(g::text) END)::couple, int4range(g % 90, g % 90 + g % 7), '10.0.0.0'::inet + hashint4(g) % 100000,
	(g % 512)::bit(9), 'https://example.org/' || md5(g::text), (g % 1000) / 8.0, (g % 800)::text::down FROM generate_series(1, 6000) g;
UPDATE types SET i2 = NULL, i4 = NULL, f = NULL, d = NULL, u = NULL, tc = NULL, nm = NULL, n = NULL, bo = NULL, a = NULL, tg = NULL, e = NULL, r = NULL, tp = NULL, am = NULL, dn = NULL WHERE i8 % 9 = 0;
UPDATE types SET i4 = NULL WHERE i2 < -300;
UPDATE types SET tg = NULL WHERE i2 > 300;
DELETE FROM types WHERE i8 % 11 = 0;
});
foreach my $cols (qw(i2 i4 i8 o f f4 d ts u b tc td vc nm n bo iv a tg tn bc e rg ip bi tp am dn), 'i2,i4', 'tg,n', 'e,tg,am', 'n,i8,f', 'bo,dn,rg', 'i4,tn,d,ip', 'a,b', 'u,tp,i2,td')
{
	is(sql(qq{SELECT ready('types', VARIADIC '{$cols}')}), 'ready', "$cols: directories");
	is(sql(qq{SELECT setseed(0.3); SELECT try('types', '{$cols}', 25)}), "\n", "$cols: random conditions");
	# Each column's order is used, whatever it is: pages without the value are not read.
	foreach my $col (split /,/, $cols)
	{
		next if $col =~ /^(bo|e)$/;
		my ($named, $scanned, $all) = split /\|/, sql(qq{SELECT (p).named, (p).scanned, pg_relation_size('types') / 8192
			FROM (SELECT pages(format('SELECT * FROM types WHERE $col = %L::%s', $col, format_type(a.atttypid, a.atttypmod))) AS p FROM types, pg_attribute a
				WHERE $col IS NOT NULL AND length($col\::text) < 200 AND a.attrelid = 'types'::regclass AND a.attname = '$col' LIMIT 1) q});
		ok($named >= 1 && $named + $scanned <= $all / 2, "$cols: $col narrows ($named, $scanned of $all)");
	}
	# Others are built for the next column.
	sql(q{SELECT mtpower.release('types'); SELECT mtpower.adopt('types')});
}
is(sql(q{SELECT ready('types', 'tg', 'i2')}), 'ready', 'two columns');
is(sql(q{SELECT skipped > 0 AND named = 0 AND scanned = 0 FROM pages('SELECT * FROM types WHERE i2 = 700')}), 't', 'pages are skipped by the second');
is(sql(q{SELECT named > 0 AND scanned = 0 FROM pages('SELECT * FROM types WHERE i2 BETWEEN 5 AND 6')}), 't', 'rows are named by the second');
is(sql(q{SELECT a.named < least(b.named, c.named) AND a.scanned = 0 FROM pages('SELECT * FROM types WHERE tg BETWEEN ''b'' AND ''bd'' AND i2 BETWEEN 5 AND 60') a,
	pages('SELECT * FROM types WHERE tg BETWEEN ''b'' AND ''bd''') b, pages('SELECT * FROM types WHERE i2 BETWEEN 5 AND 60') c}), 't', 'by both, fewer than by each');
is(sql(q{SELECT string_agg(wrong('SELECT ctid, i2 FROM types WHERE ' || c), '') FROM unnest(ARRAY['i2 = 5 AND tg > ''b'' COLLATE "C"', 'tg COLLATE nocase > ''B''', 'tg IS NULL AND i2 = 5', 'tg IS NULL AND i2 IS NULL', 'i2 IS NULL AND tg > ''c''',
	'i2 IS NULL AND i2 = 5', 'i2 IN (1, 5, 7) AND tg IN (''a'', ''b'')', 'i2 = ANY (ARRAY(SELECT generate_series(1, 99)::int2)) AND tg < ''8''', 'tg = ANY (ARRAY(SELECT tg FROM types ORDER BY i8 LIMIT 99)) AND i2 > 4',
	'tg = ANY (ARRAY(SELECT tg FROM types ORDER BY i8 LIMIT 99)) AND i2 = ANY (''{5,6,7}'')', 'tg = ANY (ARRAY(SELECT tg FROM types WHERE tg > ''c'' ORDER BY tg DESC LIMIT 99))', 'i2 > NULL::int2 AND tg > ''a''', 'i2 < 99999999', 'i2 = 99999999999']) c}), '', 'conditions of other kinds on them');
sql(q{SELECT mtpower.release('types'); SELECT mtpower.adopt('types')});
is(sql(q{SELECT ready('types', 'i4')}), 'ready', 'i4 again');
is(sql(q{SELECT string_agg(wrong('SELECT ctid, i4 FROM types WHERE ' || c), '') FROM unnest(ARRAY['i4 = 5::bigint', 'i4 < 300::int2', 'i4 > 99999999999', 'i4 < -99999999999', 'i4 > 5 AND i4 < 3', 'i4 = NULL::int',
	'i4 = ANY (''{}''::int[])', 'i4 = ANY (NULL::int[])', 'i4 = ANY (''{NULL}''::int[])', 'i4 IN (5, NULL, 77)', 'i4 IN (1, 2, 3) AND i4 IN (2, 3, 4)', 'i4 IS NULL AND i4 = 5', 'i4 IS NULL AND u IS NOT NULL',
	'i4 = ANY (ARRAY(SELECT i4 FROM types ORDER BY i8 LIMIT 63))', 'i4 = ANY (ARRAY(SELECT i4 FROM types WHERE i4 BETWEEN 500 AND 9000 ORDER BY i8 LIMIT 65))', 'i4 IN (700, 701) AND random() < 2', '77 > i4 AND -77 <= i4',
	'i4 = ANY (ARRAY(SELECT i8 FROM types WHERE i8 > 99999999 LIMIT 10))']) c}), '', 'conditions of other kinds');
is(sql(q{SELECT skipped > 0 AND scanned = 0 FROM pages('SELECT * FROM types WHERE i4 = -1234567')}), 't', 'pages are skipped');
is(sql(q{SELECT named > 0 AND scanned = 0 FROM pages('SELECT * FROM types WHERE i4 BETWEEN 1 AND 200')}), 't', 'rows are named');
is(sql(q{SELECT scanned FROM pages('SELECT * FROM types WHERE f = 5')}), sql(q{SELECT pg_relation_size('types') / 8192}), 'a condition on another column');
sql(q{DROP TABLE types});

# ---------- the ends of what a further column's codes can say ----------

sql(q{CREATE TABLE edge (a int2, b int2) USING mtpower; INSERT INTO edge SELECT g % 100, CASE WHEN g % 2 = 0 THEN 32766 ELSE -32768 END FROM generate_series(1, 20000) g});
sql(q{VACUUM ANALYZE edge});
is(sql(q{SELECT ready('edge', 'a', 'b')}), 'ready', 'codes of two bytes');
is(sql(q{SELECT named = 0 AND scanned = 0 AND skipped > 0 FROM pages('SELECT * FROM edge WHERE b > 32766')}), 't', 'nothing beyond the largest value');
is(sql(q{SELECT named = 0 AND scanned = 0 AND skipped > 0 FROM pages('SELECT * FROM edge WHERE b < -32768')}), 't', 'nothing below the smallest');
is(sql(q{SELECT string_agg(wrong('SELECT ctid, b FROM edge WHERE b ' || c), '') FROM (SELECT op || v FROM unnest('{>,>=,=,<=,<}'::text[]) op, unnest('{32767,32766,32765,-32767,-32768}'::text[]) v
	UNION ALL VALUES ('IS NULL'), ('IS NOT NULL')) q(c)}), '', 'conditions at both ends');
sql(q{DROP TABLE edge});

# ---------- orders that are not the column's, or don't last; types that can be equal and have no order ----------

sql(q{CREATE TABLE gap (ts timestamp, i int, d date, f text) USING mtpower;
INSERT INTO gap SELECT CASE WHEN g % 20 = 0 THEN 'infinity' ELSE '2021-03-14'::timestamp + (g % 97) * interval '15 min' END, g,
	CASE WHEN g % 20 < 2 THEN '-infinity' WHEN g % 20 = 3 THEN 'infinity' ELSE '2011-12-25'::date + g % 10 END, repeat('x', 200) FROM generate_series(1, 5000) g});
foreach my $test ([ 'ts', 'America/New_York', '2021-03-14 03:30-04', '2021-03-14 03:15-04', '2021-03-14 02:30-05' ], [ 'd', 'Pacific/Apia', '2011-12-31 00:00+14', '2011-12-30 12:00+14', '2011-12-29 00:00-10' ])
{
	my ($col, $zone, @values) = @$test;
	is(sql("SELECT mtpower.release('gap'); SELECT mtpower.adopt('gap'); SELECT ready('gap', 'i', '$col')") =~ s/\n//gr, 'ready', "$col: directories");
	foreach my $value (@values)
	{
		is(sql("SET timezone = '$zone'; SELECT string_agg(wrong(format('SELECT ctid, * FROM gap WHERE $col %s %L::timestamptz', op, '$value')), '') FROM unnest('{<,<=,=,>=,>}'::text[]) op"), '',
			"$col beside $value, where the clocks go forward");
	}
}
is(sql("SELECT mtpower.release('gap'); SELECT mtpower.adopt('gap'); SELECT ready('gap', 'ts')") =~ s/\n//gr, 'ready', 'timestamps alone');
is(sql("SET timezone = 'America/New_York'; SELECT string_agg(wrong(format('SELECT ctid, * FROM gap WHERE ts %s %L::timestamptz', op, '2021-03-14 03:30-04')), '') FROM unnest('{<,<=,=,>=,>}'::text[]) op"), '', 'and they are found');

sql(q{CREATE TYPE ct AS (a int, b int); CREATE TYPE ctrange AS RANGE (subtype = ct);
CREATE TABLE lists (c ct, ca ct[], cr ctrange, x xid[], p point[], f text) USING mtpower;
INSERT INTO lists SELECT ROW(g, -g)::ct, ARRAY[ROW(g, -g)::ct], ctrange(ROW(g, -g)::ct, ROW(g + 1, -g)::ct), CASE WHEN g % 500 = 0 THEN ARRAY[g::text::xid] END, ARRAY[point(g, g)], repeat('x', 100) FROM generate_series(1, 5000) g});
foreach my $col (qw(c ca cr x p))
{
	my ($status, $out, $err) = $node->psql('postgres', "SELECT mtpower.set_directory('lists', '$col')");
	like($err, qr/column "$col" of table "lists" cannot be a directory column/, "column $col has no directories");
	($status, $out, $err) = $node->psql('postgres', "SELECT pairs_build('lists', 0, 100, '{$col}')");
	like($err, qr/no directories of these columns/, 'nor can they be built');
}
sql(q{SELECT mtpower.set_directory('lists')});
sql(qq{SELECT count(*) FROM lists WHERE $_ IS NULL}) foreach (qw(c x p)) x 3;
is(sql(q{SELECT (mtpower.directory('lists')).columns}), '', 'none of them is learnt');
is(sql(q{SELECT wrong('SELECT * FROM lists WHERE x = ''{500}''::xid[]')}), '', 'what has no order can be equal');
sql('ALTER TYPE ct DROP ATTRIBUTE a');
is(sql(qq{SELECT wrong('SELECT * FROM lists WHERE $_')}), '', "$_ after the type has changed") foreach ('c = ROW(-500)::ct', 'ca = ARRAY[ROW(-500)::ct]', 'cr @> ROW(-500)::ct');
sql('DROP TABLE gap, lists; DROP TYPE ctrange; DROP TYPE ct');

# ---------- a table that changes ----------

my $old = $node->background_psql('postgres');
my $other = $node->background_psql('postgres');
my @queries = ('SELECT ctid, xmin, xmax, * FROM t WHERE k BETWEEN 20 AND 22', 'SELECT ctid, * FROM t WHERE k = 40', 'SELECT count(*), sum(v) FROM t WHERE k < 30', 'SELECT ctid, * FROM t WHERE k IN (5, 300, 301)',
	'SELECT ctid, * FROM t WHERE k IS NULL', 'SELECT ctid, length(w) FROM t WHERE k > 395 AND w > \'\'');

sub new_table
{
	sql(q{
DROP TABLE IF EXISTS t CASCADE;
CREATE TABLE t (id int, k int, v int, w text) USING mtpower WITH (fillfactor = 85);
INSERT INTO t SELECT g, (g * 7919) % 401, g % 5, repeat('x', g % 90) FROM generate_series(1, 9000) g;
UPDATE t SET k = NULL WHERE id % 97 = 0;
VACUUM ANALYZE t;
CREATE INDEX t_id ON t USING mtpower_blink (id)});
	is(sql(q{SELECT ready('t', 'k')}), 'ready', 'a new table');
	return;
}

sub wrong
{
	my ($session) = @_;
	my $call = 'SELECT ' . join(' || ', map { s/'/''/gr =~ s/(.*)/wrong('$1')/sr } @queries);
	return $session ? $session->query_safe($call) : sql($call);
}

# Before a change there are directories, of which snapshots may be old; afterwards answers are right, and again with new directories.
sub changed
{
	my ($what, $change, %more) = @_;
	is(sql(q{SELECT ready('t', 'k')}), 'ready', "$what: directories");
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t LIMIT 1') unless $more{locks};
	$old->query_safe('SELECT count(*) FROM t WHERE k = 77') unless $more{locks};
	ref $change ? $change->() : sql($change);
	is(wrong(), '', "$what: right answers");
	is(wrong($old), '', "$what: right answers under an older snapshot") unless $more{locks};
	is(sql(q{SELECT ready('t', 'k')}), 'ready', "$what: directories again");
	is(wrong(), '', "$what: right answers with these");
	is(wrong($old), '', "$what: right answers with these under an older snapshot") unless $more{locks};
	$old->query_safe('COMMIT') unless $more{locks};
	return;
}

new_table();
is(sql(q{SELECT scanned FROM pages('SELECT * FROM t WHERE k = 40')}), '0', 'directories are asked');
is(sql(q{SELECT scanned > 0 FROM pages('SELECT * FROM t WHERE k > 5')}), 't', 'pages with many candidates are read');
is(wrong(), '', 'right answers');
changed('INSERT', q{INSERT INTO t SELECT g, g % 50, 1, 'new' FROM generate_series(20000, 20100) g});
changed('COPY', q{COPY t FROM PROGRAM 'seq -f "%g	21	1	copied" 30000 31000'});
changed('UPDATE of the column', q{UPDATE t SET k = 21 WHERE id % 50 = 3});
changed('UPDATE of another, HOT', q{UPDATE t SET v = v + 1 WHERE id % 50 = 7});
changed('UPDATE of an indexed one', q{UPDATE t SET id = -id WHERE id % 50 = 9});
changed('DELETE', q{DELETE FROM t WHERE id % 20 = 0});
changed('VACUUM', q{VACUUM t});
changed('DELETE and VACUUM', q{DELETE FROM t WHERE id % 20 = 1; VACUUM t});
changed('line pointers that are used again', q{INSERT INTO t SELECT g, 21, 1, 'again' FROM generate_series(40000, 40500) g});
changed('pruning', q{UPDATE t SET k = 22, w = 'hot' WHERE id % 40 = 3; UPDATE t SET k = 20 WHERE id % 40 = 3; SELECT count(*) FROM t});
changed('freezing', q{VACUUM (FREEZE) t});
changed('rolled back', q{BEGIN; INSERT INTO t SELECT g, 21, 1, 'gone' FROM generate_series(50000, 50100) g; UPDATE t SET k = 40 WHERE id % 30 = 2; DELETE FROM t WHERE k = 20; ROLLBACK});
changed('rolled back to a savepoint', q{BEGIN; SAVEPOINT s; UPDATE t SET k = 40 WHERE id % 31 = 2; ROLLBACK TO s; UPDATE t SET k = 21 WHERE id % 31 = 3; RELEASE s; COMMIT});
changed('ON CONFLICT', q{CREATE UNIQUE INDEX t_u ON t USING btree (id, v, w) WHERE id > 60000; INSERT INTO t VALUES (60001, 1, 1, '');
	INSERT INTO t SELECT g, 21, 1, '' FROM generate_series(60001, 60050) g ON CONFLICT (id, v, w) WHERE id > 60000 DO UPDATE SET k = 22; DROP INDEX t_u}, locks => 1);
changed('MERGE', q{MERGE INTO t USING generate_series(8900, 9100) g ON t.id = g WHEN MATCHED AND g % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 5 WHEN NOT MATCHED THEN INSERT VALUES (g, 300, 3, '')});
changed('FOR UPDATE', q{BEGIN; SELECT count(*) FROM (SELECT FROM t WHERE k = 21 FOR UPDATE) q; COMMIT});
changed('PREPARE TRANSACTION', sub {
	sql(q{BEGIN; UPDATE t SET k = 301 WHERE k = 40; INSERT INTO t VALUES (70000, 40, 1, ''); PREPARE TRANSACTION 'x'});
	is(wrong(), '', 'prepared: right answers');
	sql(q{SELECT ready('t', 'k')});
	is(wrong(), '', 'prepared: right answers with directories of that');
	sql(q{COMMIT PREPARED 'x'});
});
changed('truncation by VACUUM', q{DELETE FROM t WHERE ctid >= '(100,0)'; VACUUM t}, locks => 1);
cmp_ok(sql(q{SELECT pg_relation_size('t') / 8192}), '<=', 101, 'it is truncated');
changed('growth behind it', q{INSERT INTO t SELECT g, g % 401, 1, 'grown' FROM generate_series(80000, 89000) g}, locks => 1);
changed('CLUSTER', q{CREATE INDEX t_k ON t USING btree (k); CLUSTER t USING t_k; DROP INDEX t_k}, locks => 1);
changed('ALTER TYPE', q{ALTER TABLE t ALTER v TYPE bigint}, locks => 1);
changed('adopt and release', q{SELECT mtpower.release('t'); INSERT INTO t SELECT g, 21, 1, 'heap' FROM generate_series(90000, 90100) g; UPDATE t SET k = 22 WHERE k = 40; SELECT mtpower.adopt('t')}, locks => 1);
changed('TRUNCATE that is rolled back', q{BEGIN; TRUNCATE t; INSERT INTO t SELECT g, 21, 1, '' FROM generate_series(1, 9000) g; SELECT ready('t', 'k'); ROLLBACK}, locks => 1);
changed('TRUNCATE', q{TRUNCATE t; INSERT INTO t SELECT g, g % 401, 1, '' FROM generate_series(1, 9000) g}, locks => 1);

# Within the transaction that writes, whose own rows are seen from the next command on
new_table();
is(sql(q{BEGIN; INSERT INTO t SELECT g, 21, 1, 'mine' FROM generate_series(1, 300) g; UPDATE t SET k = 40 WHERE k = 22; DELETE FROM t WHERE k = 301; SELECT ready('t', 'k');
	INSERT INTO t SELECT g, 21, 1, 'mine' FROM generate_series(1, 5) g; SELECT } . join(' || ', map { s/'/''/gr =~ s/(.*)/wrong('$1')/sr } @queries) . q{; COMMIT}), "ready\n", 'in the transaction that writes');

# ---------- cursors ----------

# The same cursor twice, one by directories; what is between the fetches goes on both.
sub cursors
{
	my ($what, @steps) = @_;
	new_table();
	$old->query_safe(q{BEGIN; DECLARE d SCROLL CURSOR FOR SELECT ctid, id, k FROM t WHERE k IN (20, 21);
		SET LOCAL mtpower.enable_directoryscan = off; DECLARE s SCROLL CURSOR FOR SELECT ctid, id, k FROM t WHERE k IN (20, 21)});
	foreach my $step (@steps)
	{
		if ($step =~ /^(?:FETCH|MOVE)/) { is($old->query_safe($step =~ s/\bc$/d/r), $old->query_safe($step =~ s/\bc$/s/r), "$what: $step"); }
		else { $other->query_safe($step); }
	}
	$old->query_safe('COMMIT');
	return;
}
my $ready = q{SELECT pairs_build('t', 0, 1000000, '{k}')};
cursors('both ways', 'FETCH 7 FROM c', 'FETCH BACKWARD 4 FROM c', 'FETCH ALL FROM c', 'FETCH BACKWARD ALL FROM c', 'FETCH 3 FROM c', 'FETCH LAST FROM c', 'FETCH PRIOR FROM c', 'FETCH ABSOLUTE 5 FROM c', 'FETCH RELATIVE -3 FROM c');
my $stale = 'UPDATE t SET v = v + 1 WHERE id % 3 = 0';
cursors('pages that go stale', 'FETCH 7 FROM c', $stale, 'FETCH BACKWARD 5 FROM c', 'FETCH 20 FROM c', $ready, 'FETCH BACKWARD 15 FROM c', 'FETCH 9 FROM c', $stale, 'FETCH BACKWARD 9 FROM c', 'FETCH ALL FROM c', 'FETCH BACKWARD ALL FROM c');
cursors('chains on the column itself', 'FETCH 5 FROM c', 'UPDATE t SET k = 20 WHERE k IN (21, 22)', 'UPDATE t SET k = 22 WHERE k = 20', 'VACUUM t', 'FETCH 2 FROM c', $ready, 'FETCH BACKWARD 4 FROM c', 'FETCH ALL FROM c', 'FETCH BACKWARD ALL FROM c');
cursors('rows that are deleted', 'FETCH 2 FROM c', 'DELETE FROM t WHERE k = 21', 'VACUUM t', 'INSERT INTO t SELECT g, 21, 0, repeat($$y$$, 60) FROM generate_series(1, 500) g', $ready, 'FETCH ALL FROM c', 'FETCH BACKWARD ALL FROM c');
cursors('rows beyond the end', 'MOVE FORWARD ALL IN c', 'INSERT INTO t SELECT g, 21, 0, repeat($$y$$, 60) FROM generate_series(1, 5000) g', $ready, 'FETCH BACKWARD 3 FROM c', 'FETCH ALL FROM c', 'FETCH BACKWARD ALL FROM c');

# A candidate whose row is gone, and whose place another row has got, before it is fetched
new_table();
sql(q{DELETE FROM t WHERE k = 21 AND id % 2 = 0; SELECT ready('t', 'k')});
$old->query_safe(q{BEGIN; DECLARE d CURSOR FOR SELECT ctid, id, k FROM t WHERE k = 21});
my $rows = $old->query_safe('FETCH 1 FROM d');
sql(q{VACUUM t; INSERT INTO t SELECT g, 21, 0, repeat('y', 30) FROM generate_series(100001, 100500) g});
$rows .= "\n" . $old->query_safe('FETCH ALL FROM d');
$old->query_safe('COMMIT');
is($rows, sql(q{SET mtpower.enable_directoryscan = off; SELECT ctid, id, k FROM t WHERE k = 21 AND id < 100000}), 'a line pointer that is used again under a cursor');

# ---------- concurrent updates ----------

my $faults = MtpFaults->new($node, 't');
sub concurrent
{
	my ($what, $first, $second, $expected) = @_;
	new_table();
	sql(q{UPDATE t SET k = 1000 WHERE id = 5000; SELECT ready('t', 'k')});
	$other->query_safe("BEGIN; $first");
	my $job = $faults->start($second);
	$faults->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}, "$what: a session that waits");
	$other->query_safe('COMMIT');
	$faults->finish($job);
	like($job->{out}, qr/^\d+\n$expected$/, $what);
	is($job->{err}, '', "$what: no error");
	return;
}
concurrent('the row still matches', 'UPDATE t SET v = 100 WHERE id = 5000', 'UPDATE t SET v = v + 1 WHERE k = 1000 RETURNING id, v', '5000\|101\n');
concurrent('the row does not match any more', 'UPDATE t SET k = 1001 WHERE id = 5000', 'UPDATE t SET v = v + 1 WHERE k = 1000 RETURNING id, v', '');
concurrent('the row is deleted', 'DELETE FROM t WHERE id = 5000', 'DELETE FROM t WHERE k = 1000 RETURNING id', '');
concurrent('FOR UPDATE', 'UPDATE t SET v = 100 WHERE id = 5000', 'SELECT id, v, k FROM t WHERE k >= 1000 FOR UPDATE', '5000\|100\|1000\n');
concurrent('FOR UPDATE of one table of a join', 'UPDATE t SET k = 1002 WHERE id = 5000', 'SELECT a.id, a.k, b.k FROM t a, t b WHERE a.k >= 1000 AND b.k >= 1000 FOR UPDATE OF a', '5000\|1002\|1000\n');
concurrent('a join with rows that are not locked', 'UPDATE t SET v = 7 WHERE id = 5000', 'UPDATE t a SET w = b.k FROM t b WHERE a.k = 1000 AND b.k BETWEEN 1000 AND 1010 RETURNING a.v, a.w', '7\|1000\n');
concurrent('MERGE', 'UPDATE t SET v = 100 WHERE id = 5000', 'WITH q AS (SELECT 1) MERGE INTO t USING (VALUES (1000)) s (k) ON t.k = s.k AND t.k >= 1000 WHEN MATCHED AND v = 100 THEN UPDATE SET v = 200 WHEN MATCHED THEN DELETE; SELECT v FROM t WHERE id = 5000', '200\n');

# ---------- other sessions ----------

new_table();
$other->query_safe('PREPARE p AS SELECT count(*), sum(v) FROM t WHERE k = 40; SET plan_cache_mode = force_generic_plan');
my $answer = $other->query_safe('EXECUTE p');
sub told
{
	my ($what, $change, $expected) = @_;
	sql($change);
	is($other->query_safe('EXECUTE p'), $expected // $answer, "another session's plan: $what");
	return;
}
told('other columns', q{SELECT mtpower.set_directory('t', 'id', 'k'); SELECT pairs_build('t', 0, 1000000, '{id,k}')});
told('none', q{SELECT mtpower.set_directory('t', NULL)});
told('these again', q{SELECT ready('t', 'k')});
told('the column of another type, in the same file', q{UPDATE t SET k = -1 WHERE id = 5; SELECT ready('t', 'k'); ALTER TABLE t ALTER k TYPE oid});
is(wrong(), '', 'int4 is oid now: right answers');
sql(q{SELECT ready('t', 'k')});
is(sql(q{SELECT count(*) FROM t WHERE k = 4294967295}), '1', 'a value that is on the other end now');
told('another column dropped', q{ALTER TABLE t DROP v; ALTER TABLE t ADD v int DEFAULT 1; SELECT ready('t', 'k')}, $answer =~ s/(\d+)\|.*/$1|$1/r);
$other->query_safe('DEALLOCATE p; RESET plan_cache_mode');

# A column that was added and rolled back has the number of the one that comes then, in rows that are on no page.
new_table();
foreach my $added ('int DEFAULT 5', 'int')
{
	# Directories of other columns go.
	sql(q{SELECT mtpower.release('t'); SELECT mtpower.adopt('t')});
	is(sql(qq{BEGIN; ALTER TABLE t ADD x $added; SELECT ready('t', 'x'); ROLLBACK; ALTER TABLE t ADD x int DEFAULT 9; SELECT mtpower.set_directory('t', 'x');
		SELECT wrong('SELECT ctid, x FROM t WHERE x = 9') || wrong('SELECT ctid, x FROM t WHERE x < 9') || wrong('SELECT ctid, x FROM t WHERE x IS NULL')}), "ready\n\n", "x $added, rolled back: right answers for another default");
	sql(q{SELECT mtpower.release('t'); SELECT mtpower.adopt('t')});
	is(sql(q{SELECT ready('t', 'x')}), 'ready', 'directories of that');
	is(sql(q{SELECT scanned FROM pages('SELECT * FROM t WHERE x = 8')}), '0', 'they are asked');
	sql(q{SELECT mtpower.set_directory('t', NULL); ALTER TABLE t DROP x});
}

# ---------- isolation levels ----------

new_table();
is(sql(q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT scanned > 0 AND named = 0 AND skipped = 0 FROM pages('SELECT * FROM t WHERE k = 40');
	SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 't'::regclass AND locktype = 'relation'; COMMIT}), "t\n1", 'a serializable transaction reads and announces the table');
$old->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE k = 40');
$other->query_safe(q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE k = 41; INSERT INTO t VALUES (1, 40, 1, ''); COMMIT});
is(sql(q{SELECT ready('t', 'k')}), 'ready', 'directories');
is($old->query_safe('SELECT skew()'), 'could not serialize access due to read/write dependencies among transactions', 'write skew is found');
$old->query_safe('ROLLBACK');

# ---------- where an index is in the way ----------

# The scans of a plan
sub scans { my ($query, @before) = @_; return join(' ', sql(join(';', @before, "EXPLAIN (COSTS OFF) $query")) =~ /^[ >-]*(.*?) on way/mg); }
sql(q{CREATE TABLE way (a int, b int, c int, v text) USING mtpower; INSERT INTO way SELECT g * 7919 % 20000, g, g * 11 % 20000, repeat('v', 100) FROM generate_series(1, 20000) g;
	CREATE INDEX way_a ON way (a); VACUUM ANALYZE way});
my @cheap = ('SET random_page_cost = 1');
my $way = 'SELECT * FROM way WHERE a < 5000 AND b = 77';
my $indexed = qr/^(Bitmap Heap Scan|Index Scan using)/;
like(scans($way, @cheap), $indexed, 'an index costs less than a sequential scan');
is(sql(q{SELECT ready('way', 'b')}), 'ready', 'directories of all pages');
is(scans($way, @cheap), 'Custom Scan (directory scan)', 'but more than a directory scan, which is offered though no sequential path has survived');
is(scans($way, @cheap, 'SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0'), 'Parallel Custom Scan (directory scan)',
	'to parallel workers too');
is(sql("SELECT wrong('$way')"), '', '... and gives the same rows');
like(scans('SELECT * FROM way WHERE a = 5 AND b = 77', @cheap), $indexed, 'an index scan that costs less stays');
like(scans($way, @cheap, 'SET enable_seqscan = off'), $indexed, 'without sequential scans there are no directory scans');
like(scans($way, @cheap, 'BEGIN ISOLATION LEVEL SERIALIZABLE'), $indexed, 'a serializable transaction is not promised what it would not get');
sql(q{SELECT mtpower.set_directory('way', 'c')});
like(scans('SELECT * FROM way WHERE a < 5000 AND c = 77', @cheap), $indexed, 'directories of other columns promise nothing');
like(scans($way, @cheap), $indexed, 'nor those of columns that are the table\'s no more');

# ---------- row security ----------

# What is called, and how often, is the same with a policy.
new_table();
sql(q{CREATE FUNCTION told(int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE NOTICE 'told %', $1; RETURN $1; END $$;
	CREATE ROLE reader; GRANT SELECT ON t TO reader; ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY seen ON t USING (k = 40 AND v = 1)});
my @told;
foreach my $scan ('on', 'off')
{
	my ($out, $notices);
	$node->psql('postgres', "SET ROLE reader; SET mtpower.enable_directoryscan = $scan; SELECT id FROM t WHERE k = 40 AND told(id) > 0 AND v = (SELECT 1)", stdout => \$out, stderr => \$notices);
	push @told, "$out\n$notices";
}
like($told[0], qr/NOTICE:  told \d+/, 'a function that tells what rows it has got');
is($told[0], $told[1], 'gets those that it gets by a sequential scan');
sql('DROP POLICY seen ON t; ALTER TABLE t DISABLE ROW LEVEL SECURITY; REVOKE ALL ON t FROM reader; DROP ROLE reader');

# ---------- TOAST ----------

sql(q{DROP TABLE t; CREATE TABLE t (id int, k text COLLATE "C", v int) USING mtpower; ALTER TABLE t ALTER k SET STORAGE EXTERNAL;
	INSERT INTO t SELECT g, md5(g::text), 1 FROM generate_series(1, 5000) g; INSERT INTO t SELECT g, repeat(md5(g::text), 200), 2 FROM generate_series(5001, 5100) g;
	BEGIN; INSERT INTO t SELECT g, repeat(md5(g::text), 200), 3 FROM generate_series(5101, 5200) g; ROLLBACK; DELETE FROM t WHERE id BETWEEN 5001 AND 5050});
sql('VACUUM ' . sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass}));
is(sql(q{SELECT ready('t', 'k')}), 'ready', 'a table whose TOAST rows are gone');
is(sql(q{SELECT string_agg(wrong('SELECT ctid, id, length(k) FROM t WHERE ' || c), '') FROM unnest(ARRAY['k > ''f''', 'k BETWEEN ''a'' AND ''a1''', 'k = md5(''77'')', 'k = repeat(md5(''5060''), 200)', 'k IS NULL']) c}), '', 'right answers');
is(sql(q{SELECT string_agg(wrong(format('SELECT t.ctid FROM t, (SELECT k FROM t WHERE id = %s OFFSET 0) o WHERE t.k = o.k', i)), '') FROM unnest('{6,5055}'::int[]) i}), '', 'values out of line');
is(sql(q{SELECT id FROM t WHERE k = (SELECT k FROM t WHERE id = 5055)}), '5055', 'a key that is out of line');

# ---------- rescans, parallel ----------

new_table();
my $loops = q{SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off; SET enable_indexscan = off; SET enable_bitmapscan = off;};
is(sql("$loops " . q{SELECT string_agg(wrong(q), '') FROM unnest(ARRAY['SELECT g, l.* FROM generate_series(-1, 30) g, LATERAL (SELECT id, k FROM t WHERE k = g OFFSET 0) l',
	'SELECT g, (SELECT sum(id) FROM t WHERE k IN (g, g + 1, NULL)) FROM generate_series(1, 20) g', 'SELECT g, (SELECT sum(id) FROM t WHERE k < nullif(g, 3)) FROM generate_series(1, 5) g',
	'SELECT g, (SELECT id FROM t WHERE k = g OFFSET 3 LIMIT 1) FROM generate_series(1, 20) g', 'SELECT a.id, b.id FROM t a, t b WHERE a.k = 21 AND b.k = 22 AND b.id > a.id', 'SELECT tableoid, ctid FROM t WHERE k = (SELECT 21)']) q}),
	'', 'rescans');
my $parallel = q{SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;};
my $plan = sql("$parallel EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM t WHERE k BETWEEN 5 AND 7");
like($plan, qr/Parallel Custom Scan \(directory scan\) on t/, 'a parallel scan');
my $blocks = sql(q{SELECT pg_relation_size('t') / 8192});
like($plan, qr/Pages: (\d+) by directory, (\d+) skipped, 0 scanned/, 'by directory');
is($plan =~ /Pages: (\d+) by directory, (\d+) skipped/ ? $1 + $2 : 0, $blocks, 'each page once');
is(sql("$parallel SELECT count(*), sum(id) FROM t WHERE k BETWEEN 5 AND 7"), sql('SET mtpower.enable_directoryscan = off; SELECT count(*), sum(id) FROM t WHERE k BETWEEN 5 AND 7'), 'its rows');
is(sql("$parallel SET parallel_leader_participation = off; SELECT count(*), sum(id) FROM t WHERE k > 5"), sql('SET mtpower.enable_directoryscan = off; SELECT count(*), sum(id) FROM t WHERE k > 5'), 'by workers alone');
is(sql("$parallel SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SELECT string_agg((SELECT count(*) FROM t WHERE k > 50 * g)::text, ' ') FROM generate_series(0, 7) g"),
	sql("SET mtpower.enable_directoryscan = off; SELECT string_agg((SELECT count(*) FROM t WHERE k > 50 * g)::text, ' ') FROM generate_series(0, 7) g"), 'run again');
is(sql('SET synchronize_seqscans = on; SET mtpower.use_frames = off; SELECT count(*) FROM t WHERE k = 21'), sql('SELECT count(*) FROM t WHERE k = 21'), 'without frames');

# ---------- beside writers ----------

new_table();
my $seconds = ($ENV{MTP_LONG} ? 300 : 15);
my %scripts = (
	read => q{\set k random(0, 400)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT CASE WHEN w <> '' THEN tell(w) END FROM wrong('SELECT ctid, * FROM t WHERE k BETWEEN :k AND :k + 1') w;
COMMIT;
},
	cursor => q{\set k random(0, 400)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT CASE WHEN w <> '' THEN tell(w) END FROM turning(:k) w;
COMMIT;
},
	write => q{\set id random(1, 9000)
\set k random(0, 400)
UPDATE t SET k = :k WHERE id = :id;
},
	replace => q{\set id random(1, 9000)
\set k random(0, 400)
BEGIN;
DELETE FROM t WHERE id = :id;
INSERT INTO t VALUES (:id, :k, 1, repeat('r', :k / 5));
COMMIT;
},
	build => q{\set at random(0, 60)
SELECT pairs_build('t', :at, :at + 9, '{k}');
},
	vacuum => q{VACUUM t;
},
);
sql(q{
CREATE FUNCTION tell(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'wrong: %', $1; END $$;
-- A cursor that turns round and goes on: what is wrong with its rows
CREATE FUNCTION turning(key int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c SCROLL CURSOR FOR SELECT ctid, id FROM t WHERE k BETWEEN key AND key + 2; r record; first tid[]; back tid[]; again tid[];
BEGIN
	OPEN c;
	FOR i IN 1 .. 30 LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; first := first || r.ctid; END LOOP;
	FOR i IN 2 .. cardinality(first) LOOP FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND; IF i > 2 OR cardinality(first) = 30 THEN back := r.ctid || back; END IF; END LOOP;
	MOVE ABSOLUTE 0 FROM c;
	FOR i IN 1 .. 30 LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; again := again || r.ctid; END LOOP;
	CLOSE c;
	RETURN CASE WHEN first IS DISTINCT FROM again OR NOT coalesce(first @> back, true) THEN format('cursor at %s: %s, %s, %s', key, first, back, again) ELSE '' END;
END $$});
my $run = start_pgbench($node, $seconds, 6, $scripts{read} => 4, $scripts{cursor} => 2, $scripts{write} => 4, $scripts{replace} => 3, $scripts{build} => 6, $scripts{vacuum} => 1);
finish_pgbench($run, 'readers beside writers', 200);
is(wrong(), '', 'right answers afterwards');

$_->quit foreach $old, $other;
$node->stop;
done_testing();
