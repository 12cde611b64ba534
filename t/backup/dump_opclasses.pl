# Operator classes of other extensions and of users survive dump and restore, pg_upgrade, and the
# loss of either extension.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->start;

my $ours = q{(SELECT oid FROM pg_am WHERE amname IN ('mtpower_blink', 'mtpower_hash', 'mtpower_zone'))};

# Everything that the access methods have, but for OIDs: operator classes, members, whom these depend on, owners, extensions.
my $all_of_it = qq{
	SELECT c.opcnamespace::regnamespace, c.opcname, c.opcowner::regrole, c.opcintype::regtype, c.opcdefault,
		f.opfnamespace::regnamespace, f.opfname, f.opfowner::regrole,
		EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e'),
		(SELECT amname FROM pg_am WHERE oid = c.opcmethod)
	FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily WHERE c.opcmethod IN $ours;
	SELECT f.opfname, o.amopstrategy, o.amopopr::regoperator, d.refclassid::regclass, d.deptype, (SELECT amname FROM pg_am WHERE oid = f.opfmethod)
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
		JOIN pg_depend d ON d.classid = 'pg_amop'::regclass AND d.objid = o.oid
			AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
	WHERE f.opfmethod IN $ours;
	SELECT f.opfname, p.amprocnum, p.amproclefttype::regtype, p.amprocrighttype::regtype, p.amproc::regprocedure,
		d.refclassid::regclass, d.deptype, (SELECT amname FROM pg_am WHERE oid = f.opfmethod)
	FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
		JOIN pg_depend d ON d.classid = 'pg_amproc'::regclass AND d.objid = p.oid
			AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
	WHERE f.opfmethod IN $ours;
	SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE c.relam IN $ours;
};
my $queries = q{
	SET enable_seqscan = off;
	SELECT a FROM words WHERE c = 'WORD7';
	SELECT a FROM words WHERE s = '7 .. 8';
	SELECT a FROM words WHERE k OPERATOR(app.=) '7'::app.num;
	SELECT a FROM words ORDER BY k USING OPERATOR(app.>) LIMIT 3;
	SELECT a FROM words WHERE c = 'WORD8' AND a = 8;
	SELECT a FROM words WHERE k OPERATOR(app.=) 9;
	SELECT a FROM words WHERE kk = ARRAY['10'::app.num];
};

# A type of a user, owned by somebody who is no superuser, and with an operator class in pg_catalog beside its own.
my $setup = q{
	CREATE EXTENSION citext;
	CREATE EXTENSION seg;
	CREATE EXTENSION mtpower;
	CREATE SCHEMA app AUTHORIZATION plain;
	SET search_path = app, public;
	CREATE TYPE num;
	CREATE FUNCTION num_in(cstring) RETURNS num LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION num_out(num) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE TYPE num (INPUT = num_in, OUTPUT = num_out, LIKE = int4);
	CREATE FUNCTION lt(num, num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
	CREATE FUNCTION le(num, num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4le';
	CREATE FUNCTION eq(num, num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
	CREATE FUNCTION ge(num, num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4ge';
	CREATE FUNCTION gt(num, num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
	CREATE FUNCTION cmp(num, num) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
	CREATE FUNCTION eq(num, int) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
	CREATE FUNCTION cmp(num, int) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
	CREATE OPERATOR < (LEFTARG = num, RIGHTARG = num, FUNCTION = lt);
	CREATE OPERATOR <= (LEFTARG = num, RIGHTARG = num, FUNCTION = le);
	CREATE OPERATOR = (LEFTARG = num, RIGHTARG = num, FUNCTION = eq);
	CREATE OPERATOR >= (LEFTARG = num, RIGHTARG = num, FUNCTION = ge);
	CREATE OPERATOR > (LEFTARG = num, RIGHTARG = num, FUNCTION = gt);
	CREATE OPERATOR = (LEFTARG = num, RIGHTARG = int, FUNCTION = eq);
	CREATE OPERATOR FAMILY nums USING btree;
	CREATE OPERATOR CLASS num_ops DEFAULT FOR TYPE num USING btree FAMILY nums AS
		OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(num, num),
		FUNCTION 2 btint4sortsupport(internal), FUNCTION 4 btequalimage(oid);
	ALTER OPERATOR FAMILY nums USING btree ADD OPERATOR 3 = (num, int), FUNCTION 1 (num, int) cmp(num, int);
	CREATE FUNCTION hash(num) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashint4';
	CREATE OPERATOR FAMILY nums USING hash;
	CREATE OPERATOR CLASS num_ops DEFAULT FOR TYPE num USING hash FAMILY nums AS OPERATOR 1 =, FUNCTION 1 hash(num);
	ALTER OPERATOR FAMILY nums USING hash ADD OPERATOR 1 = (num, int), FUNCTION 1 (int, int) hashint4(int);
	ALTER OPERATOR CLASS num_ops USING hash OWNER TO plain;
	CREATE OPERATOR CLASS pg_catalog.num_too_ops FOR TYPE num USING btree AS
		OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(num, num);
	CREATE OPERATOR CLASS public.more_num_ops FOR TYPE num USING hash AS OPERATOR 1 =, FUNCTION 1 hash(num);
	ALTER TYPE num OWNER TO plain;
	ALTER OPERATOR FAMILY nums USING btree OWNER TO plain;
	ALTER OPERATOR CLASS num_ops USING btree OWNER TO plain;
	RESET search_path;
	SELECT FROM mtpower.sync_opclasses();
	CREATE TABLE words (a int, c citext, s seg, k app.num, kk app.num[]) USING mtpower;
	INSERT INTO words SELECT i, 'Word' || i, (i || ' .. ' || i + 1)::seg, i::text::app.num, ARRAY[i::text::app.num]
	FROM generate_series(1, 50) i;
	CREATE INDEX ON words USING mtpower_blink (c);
	CREATE INDEX ON words USING mtpower_blink (c citext_pattern_ops, a);
	CREATE INDEX ON words USING mtpower_blink (c text_ops);
	CREATE INDEX ON words USING mtpower_blink (s);
	CREATE INDEX ON words USING mtpower_blink (k DESC);
	CREATE INDEX ON words USING mtpower_blink (kk);
	CREATE INDEX ON words USING mtpower_blink (k mtpower.num_too_ops);
	CREATE INDEX ON words USING mtpower_hash (c, a);
	CREATE INDEX ON words USING mtpower_hash (k) WITH (fillfactor = 60, initial_buckets = 3);
	CREATE INDEX ON words USING mtpower_hash (kk);
	CREATE INDEX ON words USING mtpower_hash (k public.more_num_ops);
	CREATE INDEX ON words USING mtpower_zone (a);
};

$node->safe_psql('postgres', 'CREATE ROLE plain; CREATE DATABASE source;');
$node->safe_psql('source', $setup);
my $expected = $node->safe_psql('source', $all_of_it);
like($expected, qr/^public\|citext_ops\|\S+\|citext\|t\|public\|citext_ops\|\S+\|f\|$_$/m, "${_}'s mirror of citext_ops is no member") foreach 'mtpower_blink', 'mtpower_hash', 'mtpower_zone';
like($expected, qr/^app\|num_ops\|plain\|app\.num\|t\|app\|nums\|plain\|f\|mtpower_blink$/m, 'mirrors belong to the owner of the original');
like($expected, qr/^app\|num_ops\|plain\|app\.num\|t\|app\|nums\|\S+\|f\|mtpower_hash$/m, 'also those of hash');
like($expected, qr/^mtpower\|num_too_ops\|/m, 'the mirror of what lies in pg_catalog lies in mtpower');
my $rows = $node->safe_psql('source', $queries);
is($rows, "7\n7\n7\n50\n49\n48\n8\n9\n10", 'the indexes serve');

# restored DATABASE, WHAT: compares with the source database.
sub restored
{
	my ($server, $db, $what) = @_;
	my %lines = map { $_ => 1 } split(/\n/, $expected);
	my @new = grep { !delete $lines{$_} } split(/\n/, $server->safe_psql($db, $all_of_it));
	is(join("\n", @new, keys %lines), '', "$what: operator classes, members, owners and indexes are the same");
	is($server->safe_psql($db, 'SELECT * FROM mtpower.sync_opclasses()'), '', "$what: nothing is left to mirror");
	is($server->safe_psql($db, $queries), $rows, "$what: the indexes serve");
}

# Only what is no member is in the dump.
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", 'source' ], 'plain dump');
my $dump = slurp_file("$dir/plain.sql");
foreach my $am ('mtpower_blink', 'mtpower_zone')
{
	my @dumped = $dump =~ /^CREATE OPERATOR CLASS (\S+)\s+.*USING $am/mg;
	is(join(' ', sort @dumped), 'app.num_ops mtpower.num_too_ops public.citext_ops public.citext_pattern_ops public.seg_ops',
		"the dump has ${am}'s mirrors that no extension brings");
}
my @dumped = $dump =~ /^CREATE OPERATOR CLASS (\S+)\s+.*USING mtpower_hash/mg;
is(join(' ', sort @dumped), 'app.num_ops public.citext_ops public.more_num_ops', 'also those of hash');
$node->safe_psql('postgres', 'CREATE DATABASE plain_copy');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", 'plain_copy' ], 'it can be restored');
restored($node, 'plain_copy', 'plain dump');

$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", 'source' ], 'custom dump');
$node->safe_psql('postgres', 'CREATE DATABASE custom_copy');
$node->command_ok([ 'pg_restore', '--exit-on-error', '--single-transaction', '-d', 'custom_copy', "$dir/custom" ],
	'it can be restored');
restored($node, 'custom_copy', 'custom dump');

# pg_upgrade takes the built-in ones along as well, as members.
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded');
$upgraded->init;
$upgraded->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->stop;
my $bindir = $node->config_data('--bindir');
{
	local $ENV{TMPDIR} = $dir;
	chdir $dir or die "cannot change to $dir: $!";
	command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $upgraded->data_dir, '-b', $bindir, '-B', $bindir,
			'-s', $node->host, '-p', $node->port, '-P', $upgraded->port ], 'pg_upgrade');
}
$upgraded->start;
restored($upgraded, 'source', 'pg_upgrade');
is($upgraded->safe_psql('source', qq{
	SELECT count(*) FROM pg_opclass o JOIN (VALUES (403, 'mtpower_blink'), (403, 'mtpower_zone'), (405, 'mtpower_hash')) pair (core, am)
		ON o.opcmethod = core
	WHERE NOT EXISTS (
		SELECT FROM pg_opclass m JOIN pg_am a ON a.oid = m.opcmethod WHERE m.opcname = o.opcname AND a.amname = am)}), '0',
	'every operator class has its mirror');
$upgraded->stop;
$node->start;

# The type's extension goes: its mirrors and their indexes go with it, mtpower and the tables stay.
isnt($node->psql('source', 'DROP EXTENSION citext'), 0, 'DROP EXTENSION citext without CASCADE fails where it is used');
$node->safe_psql('source', 'DROP EXTENSION citext CASCADE');
is($node->safe_psql('source', q{SELECT count(*) FROM pg_extension WHERE extname = 'mtpower'}), '1', 'mtpower is still there');
is($node->safe_psql('source', q{SELECT count(*) FROM words}), '50', 'so is the table');
is($node->safe_psql('source', qq{SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relam IN $ours}),
	'8', 'so are its other indexes');
is($node->safe_psql('source', qq{SELECT count(*) FROM pg_opclass WHERE opcmethod IN $ours AND opcname ~ 'citext'}), '0',
	'the mirrors are gone');
my @of_citext = ('citext_ops|mtpower_blink', 'citext_pattern_ops|mtpower_blink', 'citext_ops|mtpower_hash',
	'citext_ops|mtpower_zone', 'citext_pattern_ops|mtpower_zone');
is($node->safe_psql('source', q{
	SELECT * FROM mtpower.sync_opclasses();
	CREATE EXTENSION citext;
	SELECT * FROM mtpower.sync_opclasses()}),
	join("\n", map { "public.$_|created" } @of_citext),
	'the extension can come back');
is($node->safe_psql('source', q{
	DROP EXTENSION citext;
	CREATE EXTENSION citext;
	SELECT * FROM mtpower.sync_opclasses()}),
	join("\n", map { "public.$_|created" } @of_citext),
	'again, without CASCADE where nothing needs the mirrors');

# It moves: the mirrors are found where they are.
is($node->safe_psql('source', q{
	CREATE SCHEMA elsewhere;
	ALTER EXTENSION citext SET SCHEMA elsewhere;
	SELECT opclass, method FROM mtpower.sync_opclasses()}),
	join("\n", map { "elsewhere.citext_pattern_ops|$_" } 'mtpower_blink', 'mtpower_zone'), 'after a move what was no default has its mirrors');
is($node->psql('source', q{CREATE TABLE moved (c elsewhere.citext); CREATE INDEX ON moved USING mtpower_blink (c); CREATE INDEX ON moved USING mtpower_hash (c)}), 0,
	'and serves');

# An extension that lies in pg_catalog.
$node->safe_psql('postgres', 'CREATE DATABASE cat');
is($node->safe_psql('cat', q{
	CREATE EXTENSION citext SCHEMA pg_catalog;
	CREATE EXTENSION mtpower;
	SELECT opclass FROM mtpower.sync_opclasses() ORDER BY 1;}),
	join("\n", map { "mtpower.$_" } ('citext_ops') x 3, ('citext_pattern_ops') x 2),
	'mirrors of an extension in pg_catalog lie in mtpower');
$node->safe_psql('cat', q{CREATE TABLE t (c citext); CREATE INDEX ON t USING mtpower_blink (c); CREATE INDEX ON t USING mtpower_hash (c)});
$node->command_ok([ 'pg_dump', '-f', "$dir/cat.sql", 'cat' ], 'they can be dumped');
$node->safe_psql('postgres', 'CREATE DATABASE cat_copy');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/cat.sql", 'cat_copy' ], 'and restored');
is($node->safe_psql('cat_copy', 'SELECT * FROM mtpower.sync_opclasses()'), '', 'nothing is left to mirror');

# A dump does not keep what ties mirrors to their extensions; sync_opclasses() has tied them again.
is($node->safe_psql('custom_copy', q{
	DROP TABLE words CASCADE;
	DROP EXTENSION citext;
	SELECT count(*) FROM pg_opfamily WHERE opfname ~ 'citext'}), '0', 'mirrors from a dump go with their extension');

# mtpower goes.
isnt($node->psql('plain_copy', 'DROP EXTENSION mtpower'), 0, 'DROP EXTENSION mtpower without CASCADE fails where it is used');
$node->safe_psql('plain_copy', 'DROP EXTENSION mtpower CASCADE');
is($node->safe_psql('plain_copy', q{
	SELECT count(*) FROM pg_opclass WHERE opcmethod NOT IN (SELECT oid FROM pg_am);
	SELECT count(*) FROM pg_opfamily WHERE opfmethod NOT IN (SELECT oid FROM pg_am);
	SELECT count(*) FROM pg_extension WHERE extname IN ('citext', 'seg')}), "0\n0\n2", 'it takes all mirrors along, and no more');

# Every extension that PostgreSQL brings and that has operator classes for btree or hash.
my @extensions = qw(citext cube hstore isn ltree seg);
$node->safe_psql('postgres', 'CREATE DATABASE all_of_them');
$node->safe_psql('all_of_them', join('', 'CREATE EXTENSION mtpower;', map { "CREATE EXTENSION $_;" } @extensions));
is($node->safe_psql('all_of_them', q{SELECT count(*) > 10 FROM mtpower.sync_opclasses() WHERE action = 'created'}), 't',
	'the operator classes of all extensions get mirrors');
is($node->safe_psql('all_of_them', 'SELECT * FROM mtpower.sync_opclasses()'), '', 'once');
foreach ([ 403, 'mtpower_blink' ], [ 403, 'mtpower_zone' ], [ 405, 'mtpower_hash' ])
{
	my ($core, $am) = @$_;
	is($node->safe_psql('all_of_them', qq{
		SELECT f.opfname, o.amopopr::regoperator FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
		WHERE o.amopmethod = $core AND NOT EXISTS (
			SELECT FROM pg_amop m JOIN pg_opfamily mf ON mf.oid = m.amopfamily WHERE m.amopmethod = (SELECT oid FROM pg_am WHERE amname = '$am')
			AND mf.opfname = f.opfname AND mf.opfnamespace = f.opfnamespace AND m.amopopr = o.amopopr AND m.amopstrategy = o.amopstrategy);
		SELECT f.opfname, p.amproc::regprocedure FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
		WHERE f.opfmethod = $core AND NOT EXISTS (
			SELECT FROM pg_amproc m JOIN pg_opfamily mf ON mf.oid = m.amprocfamily WHERE mf.opfmethod = (SELECT oid FROM pg_am WHERE amname = '$am')
			AND mf.opfname = f.opfname AND mf.opfnamespace = f.opfnamespace AND m.amproc = p.amproc AND m.amprocnum = p.amprocnum
			AND m.amproclefttype = p.amproclefttype AND m.amprocrighttype = p.amprocrighttype);}), '', "$am: with all members");
	is($node->safe_psql('all_of_them', qq{
		SELECT count(*) FROM pg_opclass o WHERE o.opcmethod = $core AND amvalidate(o.oid) <> (
			SELECT amvalidate(m.oid) FROM pg_opclass m
			WHERE m.opcmethod = (SELECT oid FROM pg_am WHERE amname = '$am') AND m.opcname = o.opcname AND m.opcnamespace = o.opcnamespace)}), '0',
		"$am: and they are as valid as the originals");
}
$node->safe_psql('all_of_them', join('', map { "DROP EXTENSION $_;" } @extensions));
is($node->safe_psql('all_of_them', q{SELECT DISTINCT action FROM mtpower.sync_opclasses()}), '',
	'they go with their extensions');
is($node->safe_psql('all_of_them', qq{
	SELECT count(*) FROM pg_opfamily WHERE opfmethod IN $ours AND opfnamespace <> 'pg_catalog'::regnamespace}), '0', 'all of them');

# In the script of another extension the mirrors would become that extension's members.
SKIP:
{
	my $extensions = $node->config_data('--sharedir') . '/extension';
	skip "cannot write to $extensions", 1 unless -w $extensions;
	append_to_file("$extensions/mtp_opclass_test.control", "default_version = '1'\nrelocatable = true\n");
	append_to_file("$extensions/mtp_opclass_test--1.sql", "SELECT * FROM mtpower.sync_opclasses();\n");
	my ($rc, $out, $err) = $node->psql('source', 'CREATE EXTENSION mtp_opclass_test');
	like($err, qr/operator classes cannot be mirrored in the script of another extension/, "not in another extension's script");
	unlink "$extensions/mtp_opclass_test.control", "$extensions/mtp_opclass_test--1.sql";
}

$node->stop;
done_testing();
