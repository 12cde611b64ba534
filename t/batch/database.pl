# Commands on databases and on the extension succeed beside workers, idle ones and busy ones: a
# worker leaves the database.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_size = 64kB
autovacuum = off
fsync = off
allow_in_place_tablespaces = on
});
$node->start;
my $schema = q{
CREATE EXTENSION IF NOT EXISTS mtpower;
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX t_a ON t USING mtpower_blink (a);
CREATE INDEX t_b ON t USING mtpower_blink (b);
};
my $batch = 'INSERT INTO t SELECT g, g::text FROM generate_series(1, 30000) g';
my $worker = q{backend_type = 'mtpower worker'};

sub verify
{
	my ($what, $db) = @_;
	my $err;
	is($node->psql($db, 'SELECT mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = \'t\'::regclass', stderr => \$err), 0, "$what: indexes verify") or diag($err);
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
}

# Leaves an idle worker in the database, one that has put entries in.
sub idle_worker
{
	my ($db) = @_;
	foreach (1 .. 20)
	{
		$node->safe_psql($db, "$batch UNION ALL SELECT 0, '' FROM pg_sleep(0.1)");
		return if $node->safe_psql('postgres', "SELECT count(*) FROM mtpower.stat_workers WHERE database = '$db' AND entries > 0") > 0;
	}
	die "no worker in $db";
}

# A load that begins with several batches, and then stands until the lock is free.
sub standing_load
{
	my ($db, $what, @then) = @_;
	my $holder = $node->background_psql($db);
	$holder->query_safe('SELECT pg_advisory_lock(8)');
	my $job = start_psql($node, $db, "/* load */ $batch UNION ALL SELECT 0, '' FROM pg_advisory_lock_shared(8) UNION ALL SELECT g, '' FROM generate_series(1, 30000) g", @then);
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* load */%'})) or die "$what: no load";
	return ($job, $holder);
}

$node->safe_psql('postgres', "CREATE EXTENSION mtpower; CREATE TABLESPACE ts LOCATION ''");
$node->safe_psql('template1', $schema);
$node->safe_psql('postgres', 'CREATE DATABASE d1');
foreach (
	[ 'd1', 'CREATE DATABASE d2 TEMPLATE d1' ], [ 'd1', 'ALTER DATABASE d1 RENAME TO d3' ], [ 'd3', 'ALTER DATABASE d3 SET TABLESPACE ts' ],
	[ 'd3', 'DROP DATABASE d3' ], [ 'template1', 'CREATE DATABASE d4' ])
{
	my ($db, $command) = @$_;
	idle_worker($db);
	my $start = time;
	my ($out, $err);
	is($node->psql('postgres', $command, stderr => \$err), 0, "$command beside a worker") or diag($err);
	cmp_ok(time - $start, '<', 4.5, "$command need not wait for the worker's idle time");
}

# Workers stay where core refuses the command whoever is connected.
$node->safe_psql('postgres', 'CREATE ROLE nobody');
foreach (
	[ 'of somebody else', '42501', 'SET ROLE nobody', 'DROP DATABASE d2' ], [ 'in a function', '25001', q{DO 'BEGIN DROP DATABASE d2; END'} ],
	[ 'in a transaction', '25001', 'BEGIN', 'ALTER DATABASE d2 SET TABLESPACE ts' ], [ 'read-only', '25006', 'SET default_transaction_read_only = on', 'ALTER DATABASE d2 RENAME TO d3' ])
{
	my ($what, $state, @commands) = @$_;
	my ($before, $after);
	# An idle worker leaves after five seconds anyway.
	foreach (1 .. 5)
	{
		idle_worker('d2');
		$before = $node->safe_psql('postgres', q{SELECT pid FROM mtpower.stat_workers WHERE database = 'd2'});
		like(finish(start_psql($node, 'postgres', @commands)), qr/ERROR:  $state/, "a command $what is refused");
		$after = $node->safe_psql('postgres', q{SELECT pid FROM mtpower.stat_workers WHERE database = 'd2'});
		last if $before eq $after;
	}
	is($after, $before, "... and the worker stays");
}

# While a load is under way core refuses, after five seconds; the load goes on.
foreach my $command ('DROP DATABASE d2', $ENV{MTP_LONG} ? ('CREATE DATABASE d5 TEMPLATE d2', 'ALTER DATABASE d2 RENAME TO d5', 'ALTER DATABASE d2 SET TABLESPACE ts') : ())
{
	my $before = $node->safe_psql('d2', 'SELECT count(*) FROM t');
	my ($load, $holder) = standing_load('d2', $command, 'SELECT count(*) FROM t');
	my $job = start_psql($node, 'postgres', $command);
	is(finish($job), "ERROR:  55006\n", "$command beside a load: refused");
	$holder->quit;
	is(finish($load), '', "$command: the load goes on");
	is($load->{out}, $before + 60001 . "\n", "$command: all rows are there");
	verify("$command beside a load", 'd2');
}
# One that ends in time is no obstacle, nor is its worker.
{
	my ($load, $holder) = standing_load('d2', 'CREATE DATABASE');
	my $job = start_psql($node, 'postgres', '/* copy */ CREATE DATABASE d5 TEMPLATE d2');
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '/* copy */%' AND clock_timestamp() > query_start + interval '0.2 s'}) or die;
	$holder->quit;
	is(finish($load), '', 'a load under way ends');
	is(finish($job), '', 'and CREATE DATABASE takes its template');
	verify('after the load', 'd5');
}

# FORCE ends the load with its worker; the owner of the database need not be a superuser.
{
	$node->safe_psql('postgres', q{CREATE ROLE owner LOGIN CREATEDB; ALTER DATABASE d4 OWNER TO owner});
	$node->safe_psql('d4', 'GRANT ALL ON t TO owner');
	my @busy = map { start_psql($node, 'd4 user=owner', ("/* load */ $batch") x 50) } 1 .. 2;
	$node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity WHERE $worker AND datname = 'd4' AND state = 'active'}) or die;
	is(finish(start_psql($node, 'postgres user=owner', 'DROP DATABASE d4 WITH (FORCE)')), '', 'DROP DATABASE … WITH (FORCE) beside loads');
	like(finish($_), qr/57P01/, 'a load is over') foreach @busy;
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
}

# DROP EXTENSION waits for loads as for any user of the tables, not for idle workers; these serve the next extension's tables.
{
	$node->safe_psql('postgres', $schema);
	idle_worker('postgres');
	my $pid = $node->safe_psql('postgres', 'SELECT pid FROM mtpower.stat_workers');
	like(finish(start_psql($node, 'postgres', 'DROP EXTENSION mtpower')), qr/2BP01/, 'DROP EXTENSION is refused');
	my ($load, $holder) = standing_load('postgres', 'DROP EXTENSION');
	my $job = start_psql($node, 'postgres', '/* drop */ SET client_min_messages = warning; DROP EXTENSION mtpower CASCADE');
	ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '/* drop */%' AND wait_event_type = 'Lock'}),
		'DROP EXTENSION … CASCADE waits for a load');
	$holder->quit;
	is(finish($load), '', 'the load ends');
	is(finish($job), '', 'and the extension goes');
	$node->safe_psql('postgres', $schema);
	idle_worker('postgres');
	is($node->safe_psql('postgres', 'SELECT pid FROM mtpower.stat_workers'), $pid, 'the same worker serves its successor');
	verify('the next extension', 'postgres');
	idle_worker('postgres');
	$node->safe_psql('postgres', 'DROP TABLE t; DROP EXTENSION mtpower');
	pass('DROP EXTENSION beside an idle worker');
}
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'nothing crashed');
done_testing();
