# Tables of mtpower are dumped and restored as they are, with another table access method, and to
# a server without mtpower; and they go through pg_upgrade.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->start;
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;

$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE made (a int PRIMARY KEY, b text) USING mtpower;
	INSERT INTO made SELECT g, repeat('x', g * 10) FROM generate_series(1, 500) g;
	CREATE TABLE adopted (a int);
	INSERT INTO adopted SELECT generate_series(1, 100);
	CREATE INDEX ON adopted USING brin (a);
	SELECT mtpower.adopt('adopted');
	CREATE TABLE released (a int) USING mtpower;
	SELECT mtpower.release('released');
	CREATE TABLE heap (a int);
	CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT a FROM made;
	CREATE TABLE parted (a int) PARTITION BY RANGE (a);
	CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10) USING mtpower;
	INSERT INTO parted VALUES (1), (2);
});

my $state = q{
	SELECT c.relname, a.amname
	FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'm', 'p') ORDER BY c.relname COLLATE "C"};
my $rows = q{
	SELECT (SELECT count(*) || ' ' || sum(length(b)) FROM made), (SELECT sum(a) FROM adopted), (SELECT count(*) FROM mv),
		(SELECT count(*) FROM parted)};
my $before = $node->safe_psql('postgres', $state);
is($before, "adopted|mtpower\nheap|heap\nmade|mtpower\nmv|mtpower\npart|mtpower\nparted|\nreleased|heap", 'the tables before');
my $content = $node->safe_psql('postgres', $rows);

my $dump = $node->basedir . '/dump';
my @from = ('-d', $node->connstr('postgres'));

# As they are.
command_ok([ 'pg_dump', '-Fc', '-f', "$dump.custom", @from ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE again');
command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('again'), "$dump.custom" ], 'pg_restore');
is($node->safe_psql('again', $state), $before, 'access methods after a restore');
is($node->safe_psql('again', $rows), $content, 'rows after a restore');
is($node->safe_psql('again', q{SELECT count(*) FROM pg_depend d JOIN pg_am a ON a.oid = d.refobjid AND a.amname = 'mtpower'
	WHERE d.refclassid = 'pg_am'::regclass AND d.classid = 'pg_class'::regclass}), '4', 'dependencies after a restore');

# Without their access method, into a server that has the extension.
$node->safe_psql('postgres', 'CREATE DATABASE heaps');
command_ok([ 'pg_restore', '--exit-on-error', '--no-table-access-method', '-d', $node->connstr('heaps'), "$dump.custom" ],
	'pg_restore --no-table-access-method');
unlike($node->safe_psql('heaps', $state), qr/mtpower/, 'no table of mtpower');
is($node->safe_psql('heaps', $rows), $content, 'the same rows');

# Where mtpower is not: its entries are left out of the archive's list.
my ($list, $stderr) = run_command([ 'pg_restore', '-l', "$dump.custom" ]);
my @rest = grep { !/(EXTENSION - mtpower|COMMENT - EXTENSION mtpower|SCHEMA - mtpower)/ } split(/^/, $list);
append_to_file("$dump.list", join("\n", @rest) . "\n");
$plain->safe_psql('postgres', 'CREATE DATABASE without');
command_ok([ 'pg_restore', '--exit-on-error', '--no-table-access-method', '-L', "$dump.list", '-d', $plain->connstr('without'),
	"$dump.custom" ], 'restore on a server without mtpower');
is($plain->safe_psql('without', $rows), $content, 'the same rows there');

# The same without an archive.
command_ok([ 'pg_dump', '--no-table-access-method', '--extension=plpgsql', '--exclude-schema=mtpower', '-f', "$dump.sql", @from ],
	'pg_dump --no-table-access-method');
$plain->safe_psql('postgres', 'CREATE DATABASE plain_sql');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dump.sql", '-d', $plain->connstr('plain_sql') ],
	'a plain dump runs on a server without mtpower');
is($plain->safe_psql('plain_sql', $rows), $content, 'the same rows there');

# On a server without mtpower nothing is silently changed.
command_ok([ 'pg_dump', '-t', 'adopted', '-f', "$dump.adopted", @from ], 'pg_dump of one table');
$plain->safe_psql('postgres', 'CREATE DATABASE lone');
command_fails_like([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dump.adopted", '-d', $plain->connstr('lone') ],
	qr/Table access method "mtpower" does not exist/, 'an unaltered dump says what is missing');

# pg_upgrade moves the files; new and old version may be the same.
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->safe_psql('postgres', 'DROP DATABASE again');
$node->safe_psql('postgres', 'DROP DATABASE heaps');
$node->stop;
my $bindir = $node->config_data('--bindir');
my $dir = $node->basedir . '/upgrade';
mkdir($dir);
chdir($dir);
command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
	'-s', $new->host, '-p', $node->port, '-P', $new->port ], 'pg_upgrade');
$new->start;
is($new->safe_psql('postgres', $state), $before, 'access methods after pg_upgrade');
is($new->safe_psql('postgres', $rows), $content, 'rows after pg_upgrade');
is($new->safe_psql('postgres', q{SELECT mtpower.release('made'); SELECT count(*) FROM made}), "\n500", 'and they can leave');

$new->stop;
$plain->stop;
done_testing();
