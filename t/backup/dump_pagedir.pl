# The choice of directory columns is a security label. It comes back from dumps in all formats, by
# sections and in parallel, before the extension and without it, and from pg_upgrade. It is gone
# after release_all() and after DROP EXTENSION of any kind, so that a later dump can be restored
# to a server without mtpower.
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

$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
	CREATE EXTENSION mtpower;
	CREATE SCHEMA app;
	CREATE TABLE app."Fixed; here" (a int, "B ""b""" text, c date) USING mtpower;
	SELECT mtpower.set_directory('app."Fixed; here"', 'B "b"', 'c', 'a');
	CREATE TABLE off (a int) USING mtpower;
	SELECT mtpower.set_directory('off', NULL);
	CREATE TABLE learnt (a int) USING mtpower;
	CREATE TABLE gap (a int, b int, c int) USING mtpower;
	SELECT mtpower.set_directory('gap', 'c', 'b', 'a');
	ALTER TABLE gap DROP b;
	CREATE TABLE parted (a int, b int) PARTITION BY RANGE (a);
	CREATE TABLE part1 (b int, a int) USING mtpower;
	ALTER TABLE parted ATTACH PARTITION part1 FOR VALUES FROM (0) TO (10);
	CREATE TABLE part2 PARTITION OF parted FOR VALUES FROM (10) TO (20) USING mtpower;
	SELECT mtpower.set_directory('parted', 'b', 'a'), mtpower.set_directory('part2', 'a');
	INSERT INTO parted SELECT i % 20, i FROM generate_series(1, 1000) i;
	CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT a, b FROM parted;
	SELECT mtpower.set_directory('mv', 'a');
	CREATE TABLE released (a int) USING mtpower;
	SELECT mtpower.set_directory('released', 'a'), mtpower.release('released');
});

# What counts, and what is recorded
my $counts = q{SELECT c.oid::regclass, d.* FROM pg_class c, mtpower.directory(c.oid) d
	WHERE c.relkind IN ('r', 'p', 'm') AND c.oid >= 16384 ORDER BY c.relname COLLATE "C"};
my $labels = q{SELECT objname, label FROM pg_seclabels WHERE provider = 'mtpower' ORDER BY objname COLLATE "C"};
# The same, for a table without a row of its own for each
my $none = q{SELECT count(*) FROM pg_seclabel WHERE provider = 'mtpower'};
my $before = $node->safe_psql('source', $counts);
my $recorded = $node->safe_psql('source', $labels);
is($before, <<'END' =~ s/\n\z//r, 'what was chosen');
app."Fixed; here"|fixed|{"B \"b\"",c,a}|app."Fixed; here"
gap|fixed|{c}|gap
learnt|learnt||
mv|fixed|{a}|mv
off|off||off
part1|fixed|{b,a}|parted
part2|fixed|{a}|part2
parted|fixed|{b,a}|parted
released|||
END
is($node->safe_psql('source', $none), '11', 'as labels');

sub restored
{
	my ($database, $what) = @_;
	is($node->safe_psql($database, $counts), $before, "$what: what counts");
	is($node->safe_psql($database, $labels), $recorded, "$what: what is recorded");
	return;
}

my $dir = $node->basedir;
my @restore = ('pg_restore', '--exit-on-error');
sub dump_to
{
	my ($database, $format, $file) = @_;
	command_ok([ 'pg_dump', "-F$format", '-f', "$dir/$file", '-d', $node->connstr($database) ], "pg_dump -F$format of $database");
	return;
}

# ---------- dumps ----------

dump_to('source', 'c', 'custom');
dump_to('source', 'd', 'directory');
dump_to('source', 'p', 'sql');
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach qw(custom parallel sections sql bare);
command_ok([ @restore, '-d', $node->connstr('custom'), "$dir/custom" ], 'pg_restore');
restored('custom', 'custom');
command_ok([ @restore, '-j', 3, '-d', $node->connstr('parallel'), "$dir/directory" ], 'pg_restore -j');
restored('parallel', 'parallel');
command_ok([ @restore, "--section=$_", '-d', $node->connstr('sections'), "$dir/custom" ], "pg_restore --section=$_") foreach qw(pre-data data post-data);
restored('sections', 'by sections');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/sql", '-d', $node->connstr('sql') ], 'a plain dump');
restored('sql', 'plain');

# Labels need the library, not the extension; they count once it is there.
my ($list) = run_command([ 'pg_restore', '-l', "$dir/custom" ]);
append_to_file("$dir/list", join("\n", grep { !/(EXTENSION - mtpower|COMMENT - EXTENSION mtpower|SCHEMA - mtpower)/ } split(/\n/, $list)) . "\n");
command_ok([ @restore, '--no-table-access-method', '-L', "$dir/list", '-d', $node->connstr('bare'), "$dir/custom" ], 'into a database without the extension');
is($node->safe_psql('bare', $labels), $recorded, 'all labels are there');
$node->safe_psql('bare', q{CREATE EXTENSION mtpower;
	SELECT mtpower.adopt(c.oid) FROM pg_class c WHERE c.relkind IN ('r', 'm') AND c.oid >= 16384 AND c.relname <> 'released'});
restored('bare', 'adopted');

# Where the library is not, they are refused, and can be left out.
$plain->safe_psql('postgres', 'CREATE DATABASE refused');
$plain->safe_psql('postgres', 'CREATE DATABASE without');
my @elsewhere = (@restore, '--no-table-access-method', '-L', "$dir/list");
command_fails_like([ @elsewhere, '-d', $plain->connstr('refused'), "$dir/custom" ],
	qr/security label provider "mtpower" is not loaded/, 'a server without mtpower refuses them');
command_ok([ @elsewhere, '--no-security-labels', '-d', $plain->connstr('without'), "$dir/custom" ], 'pg_restore --no-security-labels');
is($plain->safe_psql('without', "SELECT count(*) FROM parted; $none"), "1000\n0", 'which restores the rest');

# ---------- after release_all() ----------

sub runs_elsewhere
{
	my ($database) = @_;
	dump_to($database, 'c', "$database.custom");
	dump_to($database, 'd', "$database.directory");
	$plain->safe_psql('postgres', 'DROP DATABASE without');
	$plain->safe_psql('postgres', 'CREATE DATABASE without');
	command_ok([ @restore, '-j', 2, '-d', $plain->connstr('without'), "$dir/$database.directory" ], "$database is restored where mtpower is not");
	is($plain->safe_psql('without', 'SELECT count(*) FROM parted'), '1000', 'and complete');
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE leaving TEMPLATE source');
$node->safe_psql('leaving', 'SELECT mtpower.release_all()');
is($node->safe_psql('leaving', $none), '0', 'release_all() leaves no label, be it of a table that was released before');
$node->safe_psql('leaving', 'DROP EXTENSION mtpower');
runs_elsewhere('leaving');

# ---------- DROP EXTENSION ----------

# Labels of others stay.
$node->safe_psql('postgres', 'CREATE DATABASE dropped TEMPLATE source');
$node->safe_psql('dropped', q{
	SET allow_system_table_mods = on;
	INSERT INTO pg_seclabel VALUES ('released'::regclass, 'pg_class'::regclass, 1, 'other', 'theirs');
	SELECT mtpower.release(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'mtpower'});
is($node->safe_psql('dropped', $labels), $recorded, 'release() keeps labels');
$node->safe_psql('dropped', 'BEGIN; DROP EXTENSION mtpower; ROLLBACK');
is($node->safe_psql('dropped', $labels), $recorded, 'DROP EXTENSION that is rolled back keeps them');
is($node->safe_psql('dropped', "BEGIN; SELECT choice FROM mtpower.directory('parted'); DROP EXTENSION mtpower; $none; COMMIT"), "fixed\n0", 'DROP EXTENSION removes them');
is($node->safe_psql('dropped', 'SELECT provider, label FROM pg_seclabel'), 'other|theirs', 'not those of other providers');
$node->safe_psql('dropped', q{DELETE FROM pg_seclabel WHERE provider = 'other'});
runs_elsewhere('dropped');

# With its tables, and by way of its schema
foreach my $command ('DROP EXTENSION mtpower CASCADE', 'DROP SCHEMA mtpower CASCADE')
{
	$node->safe_psql('postgres', 'CREATE DATABASE cascade TEMPLATE source');
	$node->safe_psql('cascade', $command);
	is($node->safe_psql('cascade', "SELECT count(*) FROM pg_extension WHERE extname = 'mtpower'; $none; SELECT relname FROM pg_class WHERE oid IN ('parted'::regclass, 'released'::regclass) ORDER BY 1"),
		"0\n0\nparted\nreleased", "$command removes the labels of the tables that stay");
	$node->safe_psql('postgres', 'DROP DATABASE cascade');
}

# The library is still there, and takes labels.
$node->safe_psql('dropped', q{
	SECURITY LABEL FOR mtpower ON COLUMN released.a IS 'directory 1';
	CREATE EXTENSION mtpower;
	SELECT mtpower.adopt('released')});
is($node->safe_psql('dropped', q{SELECT * FROM mtpower.directory('released')}), 'fixed|{a}|released', 'the extension that comes back finds labels set meanwhile');

# ---------- in parallel workers, and on other servers ----------

my $parallel = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
is($node->safe_psql('source', "SET $parallel = on; SELECT columns FROM mtpower.directory('part1')"), '{b,a}', 'a parallel worker knows as well');

$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(custom parallel sections sql bare leaving dropped);
$node->stop;
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
my $bindir = $node->config_data('--bindir');
mkdir("$dir/upgrade");
chdir("$dir/upgrade");
command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
	'-s', $new->host, '-p', $node->port, '-P', $new->port ], 'pg_upgrade');
$new->start;
is($new->safe_psql('source', $counts), $before, 'after pg_upgrade: what counts');
is($new->safe_psql('source', $labels), $recorded, 'after pg_upgrade: what is recorded');

$new->stop;
$plain->stop;
done_testing();
